"""Code generation: expressions become LLVM vectors, elementary functions, kernels, and entries of their cache."""
