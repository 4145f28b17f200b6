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

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
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

_NAMES_BY_MODULE = {
    "semiring.io.atomic": ("atomic_file",),
    "semiring.io.inputs": ("as_network",),
    "semiring.io.network": ("Network",),
    "semiring.io.reading": ("FORMATS", "format_of", "read", "with_positions"),
    "semiring.io.writing": ("write", "write_vertices"),
}


if not TYPE_CHECKING:  # a type checker would accept any name

    def __getattr__(name: str) -> Any:
        """Load a name at its first use: matrices need no parser of files."""
        for module, names in _NAMES_BY_MODULE.items():
            if name in names:
                value = globals()[name] = getattr(import_module(module), name)
                return value
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
