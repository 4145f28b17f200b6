"""Compiled loops over graphs without weights: components, permutations, trees, and scans of edges."""
