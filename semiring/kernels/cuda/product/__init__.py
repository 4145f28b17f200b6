"""The product on a GPU: what is decided in plain numbers, the kernels of the CUTLASS DSL, and their launches."""
