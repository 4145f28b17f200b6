"""Read and write networks: NumPy, SciPy, Matrix Market, DIMACS, node-link JSON and edge lists.

>>> import numpy as np
>>> from semiring.io import read, write
>>> write("triangle.csv", np.array([[np.inf, 2.0, 9.0], [np.inf, np.inf, 3.0], [1.0, np.inf, np.inf]]))
>>> read("triangle.csv").matrix
array([[inf,  2.,  9.],
       [inf, inf,  3.],
       [ 1., inf, inf]])
"""

from __future__ import annotations

from semiring.io.atomic import atomic_file
from semiring.io.inputs import as_network
from semiring.io.network import Network
from semiring.io.reading import FORMATS, format_of, read, with_positions
from semiring.io.writing import write, write_vertices

__all__ = [
    "FORMATS",
    "Network",
    "as_network",
    "atomic_file",
    "format_of",
    "read",
    "with_positions",
    "write",
    "write_vertices",
]
