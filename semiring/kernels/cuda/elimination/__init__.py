"""Sparse elimination on a GPU: fronts and sweeps, level by level of the tree (`elimination.cu`)."""
