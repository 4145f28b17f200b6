"""The algorithms of papers as their authors describe them, a file for each paper: methods of closure to compare with.

Each file begins with the citation, the figure, and what deviates from it and why. What a method runs on a device is a
kernel under the name of the method: `close_as` of `semiring.kernels.contract.ClosureKernels`. The library's own
methods, which descend from some of these, are in the folder above.
"""
