"""Sparse elimination: what is known before the numbers, the numbers, sweeps through a factor, and its paths."""
