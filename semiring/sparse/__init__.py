"""Sparse elimination over any semiring: A* as triangular factors whose fill an elimination order keeps small.

`ordering` finds the order, `analysis` what follows from it and the pattern, `numbers` the factor of one matrix,
`questions` what is asked of it, `paths` the walks behind its entries. All of them know vertices as numbers, matrices as
compressed rows, and integers with the value for "no path" that kernels use.
"""
