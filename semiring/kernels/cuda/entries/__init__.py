"""Read and convert entries of arrays on an NVIDIA GPU.

`entry_scan` validates entries, `entry_passes` converts them, `packing` packs truth values, and `prepared_launch`
launches the kernels.

Inside the library an array on a GPU is a CuPy array. CuPy is imported when the first such array is passed, or for
``device="cuda"``.
"""
