"""Graphs of some dozen vertices for `semiring.compat.csgraph`: from any form that csgraph takes to distances in two
compiled calls, for there SciPy's validation, or ours, takes longer than the work.

What is not plain is left to the longer way, which is thorough: None is returned for negative cycles (and what rounding
might make of those of weight 0), stored weights that are not finite, other forms, other arguments, and as long as the
compiler is not worth its start: a script that closes one small graph shall not wait for it.
"""

from __future__ import annotations

import sys
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array, coo_matrix, csc_array, csc_matrix, csr_array, csr_matrix

from semiring.compat.compiled import MOST, are_asked_for, small_graphs

__all__ = ["MOST", "NULL", "between_all", "from_sources", "has_started", "rows_and_shape"]

Array: TypeAlias = NDArray[Any]

POINTING = 11  # eighths of them with predecessors, of which closures are slower
MOST_FROM_FEW, PART = 256, 8  # the same for sources that are at most the eighth part of them
NULL = 1e-8  # the tolerance of `numpy.ma.masked_values`, by which SciPy's validation tells edges of a dense array
START = 0.6  # seconds to start the compiler and to load kernels, which calls must have lost before
DENSE, OTHER = 60e-6, 10e-6  # seconds that a call loses to SciPy's validation of a dense array, and without

_FLOAT64, _INT32 = np.dtype(np.float64), np.dtype(np.int32)
_NUMBERS = frozenset("?bhilqBHILQfd")
_ROWS, _COLUMNS, _EDGES = {csr_array, csr_matrix}, {csc_array, csc_matrix}, {coo_array, coo_matrix}
_NO_POINTERS = np.empty((0, 0), _INT32)

_kernels: Any = None  # `SmallGraphs`, once they are started
_lost = 0.0  # seconds so far, for want of a compiler


def between_all(csgraph: Any, directed: Any, return_predecessors: Any, unweighted: Any, *, of_floyd: bool) -> Any:
    """What floyd_warshall returns, or johnson: (n, n) float64, and int32 with predecessors. None for the longer way.

    ``of_floyd``: loops and the zeros of masked arrays are no edges.
    """
    D = _matrix(csgraph, directed, of_floyd, pointing=bool(return_predecessors))
    if D is None:
        return None
    P = np.empty(D.shape, _INT32) if return_predecessors else _NO_POINTERS
    if not _kernels.all_pairs(D, P, directed, bool(unweighted), not of_floyd):
        return None
    return (D, P) if return_predecessors else D


def from_sources(csgraph: Any, directed: Any, indices: Any, return_predecessors: Any, unweighted: Any) -> Any:
    """What johnson returns for ``indices``, and its ValueError for those out of range. None for the longer way."""
    count = 1 if type(indices) is int else len(indices) if type(indices) is list else np.size(indices)
    W = _matrix(csgraph, directed, False, count, pointing=bool(return_predecessors))
    if W is None:
        return None
    n = W.shape[0]
    rows, shape = rows_and_shape(indices, n)
    k = rows.size
    if (2 if return_predecessors else 5) * k > n:
        P = np.empty(W.shape, _INT32) if return_predecessors else _NO_POINTERS
        if not _kernels.all_pairs(W, P, directed, bool(unweighted), True):
            return None
        return (W[rows].reshape(shape), P[rows].reshape(shape)) if return_predecessors else W[rows].reshape(shape)
    D = np.empty((k, n))
    P = np.empty((k, n), _INT32) if return_predecessors else _NO_POINTERS
    if not k or not _kernels.from_sources(W, rows, D, P, directed, bool(unweighted)):
        return None
    return (D.reshape(shape), P.reshape(shape)) if return_predecessors else D.reshape(shape)


def rows_and_shape(indices: Any, n: int) -> tuple[Array, tuple[int, ...]]:
    """The sources, flat and ≥ 0, and the shape of the distances from them; ValueError for what is out of range."""
    if indices is None:
        return np.arange(n, dtype=_INT32), (n, n)
    if type(indices) is int and 0 <= indices < n:
        return np.array((indices,), _INT32), (n,)
    found = np.array(indices, order="C", dtype=_INT32)
    rows = np.atleast_1d(found).reshape(-1)
    rows[rows < 0] += n
    if np.any(rows < 0) or np.any(rows >= n):
        raise ValueError("indices out of range 0...N")
    return rows, (*found.shape, n)


# ------------------------------------------------------------------------------------------------------ the graph


def _matrix(csgraph: Any, directed: Any, of_floyd: bool, sources: int = 0, *, pointing: bool) -> Array | None:
    """(n, n) float64 in new memory, ∞ for no edge; None for what is left to the longer way."""
    kind = type(csgraph)
    dense = kind is np.ndarray or kind is np.ma.MaskedArray
    if not dense and kind not in _ROWS and kind not in _COLUMNS and (of_floyd or kind not in _EDGES):
        return None
    shape = csgraph.shape
    if len(shape) != 2 or shape[0] != shape[1] or type(directed) is not bool:
        return None
    n = shape[0]
    most = MOST * POINTING // 8 if pointing else MOST
    if not (0 < n <= most or (sources and PART * sources <= n <= MOST_FROM_FEW)):
        return None
    if not are_asked_for() or not (_kernels or _is_worth_it(DENSE if kind is np.ndarray else OTHER)):
        return None
    weights = csgraph if dense else csgraph.data
    if weights.dtype != _FLOAT64:
        if weights.dtype.char not in _NUMBERS:
            return None
        weights = weights.astype(_FLOAT64)
    D = np.empty(shape)
    if kind is np.ndarray:
        plain = _kernels.from_dense(weights, NULL, D)
    elif dense:
        plain = _from_masked(weights, of_floyd, D)
    elif kind in _EDGES:
        rows, columns = csgraph.row, csgraph.col
        plain = rows.dtype == columns.dtype == _INT32 and _kernels.from_edges(weights, rows, columns, D)
    else:
        others, first = csgraph.indices, csgraph.indptr
        plain = others.dtype == first.dtype == _INT32 and _kernels.from_rows(
            weights, others, first, kind in _COLUMNS, D
        )
    return D if plain else None


def _from_masked(weights: Any, of_floyd: bool, D: Array) -> bool:
    data, mask = np.array(weights.data, order="C"), weights.mask
    data[mask] = 0
    if not np.isfinite(data).all():
        return False
    data[mask] = np.inf
    _kernels.from_dense(data, 0.0 if of_floyd else -1.0, D)
    return True


def has_started() -> bool:
    """Whether the compiler runs, and need not be spared."""
    return _kernels is not None or "numba" in sys.modules


def _is_worth_it(seconds: float) -> bool:
    """Whether the kernels are there; the compiler is started when calls have lost as many ``seconds`` as that takes."""
    global _kernels, _lost
    if _kernels is None:
        _lost += seconds
        if "numba" in sys.modules or _lost > START:
            _kernels = small_graphs()
    return _kernels is not None
