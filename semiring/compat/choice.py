"""Define the thresholds by which `semiring.compat.csgraph` chooses between SciPy and a dense closure."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["CONVERSION", "FEW", "POTENTIALS", "VALIDATED", "VALIDATION", "least_weight"]

#: The number of vertices up to which SciPy computes. It takes less than a millisecond. This library's compiler takes
#: half a second to start, which would double the time of a script that closes one small graph. The size alone decides,
#: so equal calls give bitwise identical results. Use `closure` of a stack for thousands of small graphs.
FEW = 64

# Costs in pairs of a dense closure in float64, as in `semiring.algorithms.schedule`.
VALIDATION, VALIDATED = 7.5e6, 500.0  # SciPy's validation of a dense array, and of one of its entries
CONVERSION = 3e6  # the conversion of a sparse graph to a dense one
POTENTIALS = 1.25e7  # the potentials of a small sparse graph


def least_weight(csgraph: Any) -> Any:
    """Return the least weight of a graph that SciPy may process, or None.

    It is None for dense arrays of more than `FEW` vertices, and for dense arrays in another order than C's, because
    SciPy returns them unchanged. It is also None for anything but a square matrix of numbers, and if an entry is NaN or
    -∞.
    """
    if type(csgraph) is np.ndarray or type(csgraph) is np.ma.MaskedArray:
        if not 0 < csgraph.size <= FEW**2 or csgraph.ndim != 2 or not csgraph.flags.c_contiguous:
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
