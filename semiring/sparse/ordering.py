"""Compute the order in which vertices are eliminated.

Sources: J. A. George, J. W. H. Liu, "The evolution of the minimum degree ordering algorithm", SIAM Review 31 (1989), as
SciPy's SuperLU has it; G. Karypis, V. Kumar, "A fast and high quality multilevel scheme for partitioning irregular
graphs", SIAM J. Sci. Comput. 20 (1998), for METIS and its nested dissection (package pymetis, extra ``sparse``).

``auto`` takes minimum degree up to `_MAX_MINIMUM_DEGREE` vertices, because it takes a third of METIS's time and leaves
as much fill. Beyond that it takes METIS if it is installed. The choice depends on the graph and on the installed
packages.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

from semiring.arguments import as_numbers
from semiring.errors import MissingExtraError, ShapeError, UnknownNameError
from semiring.kernels.cpu.thread_pool import call_interruptibly

__all__ = ["ORDERINGS", "elimination_order"]

Array = NDArray[Any]

ORDERINGS = ("auto", "metis", "minimum_degree", "natural")
_MAX_MINIMUM_DEGREE = 100_000


def elimination_order(starts: Array, indices: Array, ordering: Any = "auto") -> tuple[Array, str]:
    """Return the vertices in the order of their elimination, (n,) int32, and the name of the method that found it.

    ``starts``, ``indices``: the symmetric pattern in compressed rows, without its diagonal. ``ordering``: one of
    `ORDERINGS`, or the order itself.

    Raises `UnknownNameError`, `MissingExtraError`, and `ShapeError` for what is no permutation.
    """
    n = starts.size - 1
    if not isinstance(ordering, str):
        return _check_permutation(ordering, n), "given"
    if ordering not in ORDERINGS:
        raise UnknownNameError("elimination order", ordering, ORDERINGS)
    if ordering == "auto":
        ordering = "metis" if n > _MAX_MINIMUM_DEGREE and find_spec("pymetis") is not None else "minimum_degree"
    if ordering == "natural" or n < 2 or not indices.size:
        return np.arange(n, dtype=np.int32), "natural"
    return (_nested_dissection if ordering == "metis" else _minimum_degree)(starts, indices), ordering


def _check_permutation(ordering: Any, n: int) -> Array:
    """Return the caller's order as int32. Raises `ShapeError` if it is no permutation of n vertices."""
    order = as_numbers(ordering, "ordering")
    whole = order.shape == (n,) and (order.dtype.kind in "iu" or not order.size)
    if not whole or not np.array_equal(np.sort(order), np.arange(n)):
        raise ShapeError(
            f"the elimination order of {n} vertices has shape {order.shape} and dtype {order.dtype}: give a "
            f"permutation of 0 … {n - 1}"
            if not whole
            else f"the elimination order is not a permutation: give each of 0 … {n - 1} once"
        )
    return order.astype(np.int32)


def _nested_dissection(starts: Array, indices: Array) -> Array:
    """Return the order of METIS. Raises `MissingExtraError`."""
    try:
        import pymetis
    except ImportError:
        raise MissingExtraError("pymetis", "sparse", "the elimination order of METIS") from None
    adjacency = pymetis.CSRAdjacency(adj_starts=starts, adjacent=indices)
    order, _ = call_interruptibly(lambda: pymetis.nested_dissection(adjacency=adjacency))
    return np.asarray(order, np.int32)


def _minimum_degree(starts: Array, indices: Array) -> Array:
    """Return SuperLU's multiple minimum degree order, from an incomplete factorization that drops almost everything."""
    from scipy.sparse import csc_array
    from scipy.sparse.linalg import spilu

    n = starts.size - 1
    degrees = np.diff(starts)
    ends = starts[1:] + np.arange(1, n + 1)  # every column with its diagonal entry, which comes last
    first = np.concatenate([[0], ends])
    rows = np.empty(indices.size + n, np.int32)
    values = np.full(rows.size, 1e-3)
    inside = np.ones(rows.size, bool)
    inside[ends - 1] = False
    rows[inside], rows[ends - 1] = indices, np.arange(n)
    values[ends - 1] = 1.0 + degrees
    A = csc_array((values, rows, first.astype(np.int32)), shape=(n, n))
    decomposition = call_interruptibly(
        spilu,
        A,
        drop_tol=1.0,
        fill_factor=1.0,
        diag_pivot_thresh=0.0,
        permc_spec="MMD_AT_PLUS_A",
        options={"SymmetricMode": True},
    )
    order = np.empty(n, np.int32)
    order[decomposition.perm_c] = np.arange(n)
    return order
