"""Who is faster, SciPy or a dense closure, with the graph as it is given: what `semiring.compat.csgraph` goes by."""

from __future__ import annotations

from typing import Any

import numpy as np

from semiring.compat import small

__all__ = [
    "CONVERSION",
    "POTENTIALS",
    "VALIDATED",
    "VALIDATION",
    "least_weight",
    "spares_the_compiler",
]

VALIDATION, VALIDATED = 150e-6, 10e-9  # seconds of SciPy's validation of a dense array, and of an entry of it
CONVERSION = 60e-6  # seconds from a sparse graph to a dense one
POTENTIALS = 250e-6  # seconds for those of a small sparse graph


def spares_the_compiler(csgraph: Any) -> bool:
    """Whether SciPy is to be asked about a graph that `small` would close if the compiler were worth its start."""
    return not small.has_started() and 0 < csgraph.shape[0] <= small.MOST


def least_weight(csgraph: Any) -> Any:
    """The least weight of a graph that SciPy may be asked about; None for others.

    Those are dense arrays of many vertices, or whose rows are not in C's order (it returns them as they are), no
    square, no numbers, NaN and -∞.
    """
    if type(csgraph) is np.ndarray or type(csgraph) is np.ma.MaskedArray:
        if not 0 < csgraph.size <= small.MOST**2 or csgraph.ndim != 2 or not csgraph.flags.c_contiguous:
            return None
        weights = np.ma.getdata(csgraph)
    elif getattr(csgraph, "format", None) in ("csr", "csc", "coo") and len(csgraph.shape) == 2 and csgraph.shape[0]:
        weights = csgraph.data
    else:
        return None
    if weights.dtype.kind not in "fiub" or csgraph.shape[0] != csgraph.shape[1]:
        return None
    low = weights.min() if weights.size else 0
    return low if low > -np.inf else None
