"""Compute A* of a sparse matrix over any semiring as triangular factors, with an order that keeps their fill small.

`ordering` computes the elimination order. `symbolic` derives the structure of the factor from the order and the
pattern, and `numeric` computes the factor of one matrix. `solve` applies a factor to vectors, and `paths` finds the
walks behind its entries. In all of these modules vertices are numbers and matrices are compressed rows. Integers have
the value for "no path" that the kernels use.
"""
