"""Who is faster, SciPy or a dense closure, with the graph as it is given: what `semiring.compat.csgraph` goes by."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["CONVERSION", "FEW", "POTENTIALS", "VALIDATED", "VALIDATION", "least_weight"]

#: Vertices, up to which SciPy is asked. It is done in less than a millisecond; this library's compiler takes half a
#: second to start, which would double the time of a script that closes one small graph. The size alone decides: equal
#: calls get equal bits, whenever they are made. Thousands of small graphs are closed together, by `closure` of a stack.
FEW = 64

# In pairs of a dense closure in float64, as in `semiring.algorithms.schedule`.
VALIDATION, VALIDATED = 7.5e6, 500.0  # of SciPy's validation of a dense array, and of an entry of it
CONVERSION = 3e6  # from a sparse graph to a dense one
POTENTIALS = 1.25e7  # for those of a small sparse graph


def least_weight(csgraph: Any) -> Any:
    """The least weight of a graph that SciPy may be asked about; None for others.

    SciPy is not asked about dense arrays of more than `FEW` vertices, nor about those in another order than C's (it
    returns them as they are), nor about what is no square matrix of numbers, nor where there is a NaN or -∞.
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
