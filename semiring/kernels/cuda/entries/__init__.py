"""Arrays on an NVIDIA GPU: `memory` brings them in and hands them back, `look` reads entries, `elements` changes them.

Inside the library an array on a GPU is a CuPy array. CuPy is imported when the first such array arrives, or when
``device="cuda"`` asks for one.
"""
