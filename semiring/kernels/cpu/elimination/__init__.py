"""Kernels of sparse elimination: symbolic and numeric factorization, triangular solves, and paths of a factor."""
