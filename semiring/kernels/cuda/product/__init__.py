"""Compute products on a GPU: decisions in plain numbers, kernels of the CUTLASS DSL, and their launches."""
