"""Compile kernels to machine code for a device: lowering, the compiler, the cache on disk, loading."""
