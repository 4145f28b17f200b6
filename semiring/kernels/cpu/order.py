"""Set the order in which kernels compute, which NumPy and compiled kernels share for bitwise identical results."""

#: Pivots that a closure eliminates at a time. They determine the order in which candidates are added to an entry.
PIVOTS = 24
#: Direct edges into a vertex that are tried one by one. With more edges, `follow_intermediates` is faster.
MAX_DIRECT_EDGES = 128
