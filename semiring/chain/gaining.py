"""Small matrices whose weights gain, below 0 in min-plus or above 1 in max-times: closed by one loop of the backend.

It does as the steps `signs`, `reweighted`, `scaled` and `integers` do to larger ones, with the same bits
(`semiring.kernels.contract.GainingClosures`).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias

from semiring.algebra import Semiring
from semiring.arrays.operands import empty_like
from semiring.chain.problem import Program
from semiring.kernels import backend_for
from semiring.kernels.engine import make_plan
from semiring.namespaces import array_namespace

__all__ = ["gaining"]

Array: TypeAlias = Any


def gaining(semiring: Semiring, threads: int, A: Array) -> Program | None:
    """The program of A (..., n, n) alone, after a look; None where a matrix of it takes more care."""
    closures, n = backend_for(A, semiring, A.dtype).capabilities.gaining, A.shape[-1]
    plan = make_plan(semiring, A.dtype, threads=threads)
    if closures is None or n > closures.gaining_rows(plan):
        return None
    flat = A.reshape(-1, n, n)
    found = closures.look_gaining(plan, flat)
    return None if found is None else partial(_closed, partial(closures.close_gaining, plan, flat, found))


def _closed(close: Callable[[Array], None], A: Array, home: Any = None, *_: Any) -> Array:
    D = empty_like(A) if home is None else home
    flat = D.reshape(-1, *A.shape[-2:])
    close(flat)
    if not array_namespace(flat).may_share_memory(flat, D):  # strides that allow no view
        D[...] = flat.reshape(D.shape)
    return D
