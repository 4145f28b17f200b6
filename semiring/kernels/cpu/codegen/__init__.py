"""From expressions to machine code: LLVM vectors, elementary functions, kernels, and their cache."""
