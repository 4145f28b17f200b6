"""Structure of the graph of a matrix: strong components, symmetry and equal weights, which save work."""
