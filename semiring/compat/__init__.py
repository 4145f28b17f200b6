"""Look-alikes of other libraries: change one line, or none, and keep the script.

`semiring.compat.csgraph` stands in for `scipy.sparse.csgraph`, `semiring.compat.networkx` is a backend that NetworkX
dispatches to. Here the conventions are theirs: 0 in a dense array of csgraph is no edge.
"""
