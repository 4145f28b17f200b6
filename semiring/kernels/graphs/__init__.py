"""Graphs without their weights: components, permutations and trees, in loops that know no semiring."""
