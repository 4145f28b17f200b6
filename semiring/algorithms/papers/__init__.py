"""Methods of closure for comparison: the algorithms of papers as their authors describe them, one file for each paper.

Each file begins with the citation, the figure, the deviations and their reasons. On a device a method runs the kernel
of its own name, by `close_as` of `semiring.kernels.contract.ClosureKernels`. The library's own methods, which descend
from some of these algorithms, are in the parent folder.
"""
