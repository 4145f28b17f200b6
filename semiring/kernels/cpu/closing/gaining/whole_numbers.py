"""Integers of min-plus and max-plus, closed in float64 if all sums are exact in it."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from semiring.algebra.catalogue import min_plus
from semiring.kernels.cpu.kernels import kernels_for
from semiring.kernels.engine import make_plan

__all__ = ["IntegerClosure"]

Array: TypeAlias = NDArray[Any]

_PIECE = 1 << 16  # entries of a stack at a time: temporaries stay in the second-level cache
_FLOAT64 = np.dtype(np.float64)


class IntegerClosure:
    """The closure of integers of min-plus, or of max-plus with the sign -1, in float64.

    A trial closure excludes negative cycles.
    """

    def __init__(self, none: Any, sign: int) -> None:
        self._none, self._sign = none, sign
        self._limit = min(2**52, np.iinfo(none.dtype).max // 2)  # all sums must be below it
        self.closing = kernels_for(make_plan(min_plus, _FLOAT64))

    def survey(self, A: Array, threads: int) -> Any:
        """Return True if the sums of all matrices are exact and no matrix has a negative cycle, else None."""
        return self._close_pieces(A, A, threads, writes_result=False) or None

    def close(self, A: Array, survey: Any, D: Array, threads: int) -> None:
        """Write A* of every matrix to D."""
        self._close_pieces(A, D, threads, writes_result=True)

    def _close_pieces(self, A: Array, D: Array, threads: int, *, writes_result: bool) -> bool:
        n = A.shape[1]
        step = max(1, _PIECE // (n * n))
        for part in (slice(start, start + step) for start in range(0, len(A), step)):
            none = A[part] == self._none
            W = np.multiply(A[part], self._sign, dtype=np.float64)
            W[none] = 0
            if (n + 1) * max(W.max(), -W.min()) >= self._limit:
                return False
            W[none] = np.inf
            if self.closing.close_stack(W, threads) >= 0:
                return False
            if writes_result:
                none = np.isinf(W)
                W[none] = 0
                D[part] = np.multiply(W, self._sign, out=W)
                D[part][none] = self._none
        return True
