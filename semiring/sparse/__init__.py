"""Compute A* of a sparse matrix over any semiring as triangular factors, with an order that keeps their fill small.

`symbolic_factor` computes the elimination order, and derives the structure of the factor from it and the pattern.
`numeric_factor` computes the factor of one matrix, and finds the walks behind its entries. `factor_solve` applies a
factor to vectors. In all of these modules vertices are numbers and matrices are compressed rows. Integers have
the value for "no path" that the kernels use.
"""
