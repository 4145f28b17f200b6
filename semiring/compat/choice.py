"""Who is faster, SciPy or a dense closure, with the graph as it is given: what `semiring.compat.csgraph` goes by."""

from __future__ import annotations

from typing import Any

import numpy as np

from semiring.algorithms.parameters import dense_seconds, johnson_seconds
from semiring.threads import get_threads

__all__ = [
    "BY_SCIPY",
    "CONVERSION",
    "POTENTIALS",
    "SIGNED_BY_SCIPY",
    "VALIDATED",
    "VALIDATION",
    "dense_is_faster",
    "least_weight",
]

#: Up to so many vertices SciPy is faster (Zen 4): for distances, and with predecessors. It is asked then, but about
#: float64 in dense arrays, whose validation takes it longer than the whole of the work takes here; its Dijkstra in the
#: place of its johnson, which is the same where no weight is negative. Some sources and equal weights cost as much here
#: as predecessors do.
BY_SCIPY = {"floyd_warshall": (31, 54), "johnson": (20, 44)}
#: The same where a weight is negative, for its Floyd-Warshall alone: that raises an error for a negative cycle, which
#: its rounding may have made; and its johnson (1.17) then loops until memory is corrupt.
SIGNED_BY_SCIPY = (52, 72)

_MOST = max(map(max, (*BY_SCIPY.values(), SIGNED_BY_SCIPY)))
VALIDATION, VALIDATED = 150e-6, 10e-9  # seconds of SciPy's validation of a dense array, and of an entry of it
CONVERSION = 60e-6  # seconds from a sparse graph to a dense one
POTENTIALS = 250e-6  # seconds for those of a small sparse graph
_FLOAT64 = np.dtype(np.float64)


def least_weight(csgraph: Any) -> Any:
    """The least weight of a graph that SciPy may be asked about; None for others.

    Those are float64 in dense arrays and any that are large, rows that are not in C's order (it returns them as they
    are), no square, no numbers, NaN and -∞.
    """
    if type(csgraph) is np.ndarray or type(csgraph) is np.ma.MaskedArray:
        if not 0 < csgraph.size <= _MOST**2 or csgraph.ndim != 2 or not csgraph.flags.c_contiguous:
            return None
        weights = np.ma.getdata(csgraph)
        if type(csgraph) is np.ndarray and csgraph.dtype == _FLOAT64:
            return None
    elif getattr(csgraph, "format", None) in ("csr", "csc", "coo") and len(csgraph.shape) == 2 and csgraph.shape[0]:
        weights = csgraph.data
    else:
        return None
    if weights.dtype.kind not in "fiub" or csgraph.shape[0] != csgraph.shape[1]:
        return None
    low = weights.min() if weights.size else 0
    return low if low > -np.inf else None


def dense_is_faster(n: int, edges: int, part: float, more: float = 0.0) -> bool:
    """Whether a dense closure beats Dijkstra's algorithm from a ``part`` of n vertices and ``more`` seconds."""
    sparse = part * johnson_seconds(n, edges) + more
    return dense_seconds(n, _FLOAT64.itemsize, get_threads()) <= sparse
