"""From a kernel to machine code on a device: lowering, the compiler, the cache on disk, loading."""
