"""Small matrices whose weights gain, below 0 in min-plus or above 1 in max-times: closed by one loop of the backend.

It does as the steps `signs`, `reweighted`, `scaled` and `integers` do to larger ones, with the same bits
(`semiring.kernels.contract.GainingClosures`).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias

from semiring.algebra import Semiring
from semiring.kernels import backend_for
from semiring.kernels.engine import make_plan

__all__ = ["gaining"]

Array: TypeAlias = Any


def gaining(A: Array, semiring: Semiring, threads: int) -> Callable[[Array], None] | None:
    """What writes A* of each matrix of A (count, n, n) to an array, after a look; None where one takes more care."""
    closures = backend_for(A, semiring, A.dtype).capabilities.gaining
    plan = make_plan(semiring, A.dtype, threads=threads)
    if closures is None or A.shape[-1] > closures.gaining_rows(plan):
        return None
    found = closures.look_gaining(plan, A)
    return None if found is None else partial(closures.close_gaining, plan, A, found)
