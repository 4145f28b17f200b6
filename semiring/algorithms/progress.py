"""An engine that reports how far it has come, in pairs (one ⊗ followed by one ⊕)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from semiring.algorithms.squaring import squaring
from semiring.algorithms.views import WORD, Array
from semiring.kernels.contract import Backend, Plan
from semiring.kernels.engine import Engine

__all__ = ["Progress", "ReportingEngine", "total_pairs"]

#: Called as ``progress(done, total)``, with ``done`` never falling and equal to ``total`` at the end.
Progress: TypeAlias = Callable[[int, int], None]


class ReportingEngine(Engine):
    """`Engine`, calling ``progress(done, total)`` after every kernel call. An exception it raises stops the closure."""

    def __init__(self, backend: Backend, plan: Plan, progress: Progress, total: int, panel: int) -> None:
        super().__init__(backend, plan, panel)
        self._progress, self._done, self._total = progress, 0, total

    def finish(self) -> None:
        """Report the end, where an algorithm stopped early or had nothing to do."""
        if self._done < self._total or not self._total:
            self._progress(self._total, self._total)

    def _count(self, m: int, k: int, n: int) -> None:
        pairs = m * k * n
        if pairs:
            self._done += pairs
            self._progress(min(self._done, self._total), self._total)

    def _width(self, C: Array) -> int:
        return int(C.shape[1]) * (WORD if self.plan.storage == "bits" else 1)

    def multiply(self, C: Array, A: Array, B: Array) -> None:
        super().multiply(C, A, B)
        self._count(A.shape[0], B.shape[0], self._width(C))

    def multiply_add(self, C: Array, A: Array, B: Array) -> None:
        super().multiply_add(C, A, B)
        self._count(A.shape[0], B.shape[0], self._width(C))

    def multiply_add_pivots(self, C: Array, P: Array, A: Array, B: Array, k0: int = 0) -> None:
        super().multiply_add_pivots(C, P, A, B, k0)
        self._count(A.shape[0], B.shape[0], self._width(C))

    def close_block(self, A: Array) -> None:
        super().close_block(A)
        self._count(A.shape[0], A.shape[0], self._width(A))

    def close_block_pivots(self, A: Array, P: Array, k0: int = 0) -> None:
        super().close_block_pivots(A, P, k0)
        self._count(A.shape[0], A.shape[0], self._width(A))


class _NoKernels:
    """A backend whose kernels do nothing: to walk through an algorithm and count."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __getattr__(self, name: str) -> Any:
        return lambda *arguments: None


class _Counter(ReportingEngine):
    """Counts, and copies nothing."""

    def __init__(self, name: str, plan: Plan, panel: int) -> None:
        super().__init__(_NoKernels(name), plan, lambda done, total: None, 0, panel)

    @property
    def pairs(self) -> int:
        return self._done

    def _copy(self, view: Array) -> Array:
        return view


def total_pairs(method: Callable[..., None], engine: Engine, n: int, columns: int) -> int:
    """The pairs that ``method`` will report on an n × n matrix stored in ``columns`` columns: a walk without kernels.

    What `squaring` will do depends on the data; there it is the most.
    """
    if method is squaring:
        return max(0, n - 1).bit_length() * n * n * columns * (WORD if engine.plan.storage == "bits" else 1)
    counter = _Counter(engine.backend.name, engine.plan, engine.panel)
    entry = np.zeros(1, np.uint32 if engine.plan.storage == "bits" else engine.plan.dtype)
    method(counter, np.lib.stride_tricks.as_strided(entry, (n, columns), (0, 0)))
    return counter.pairs
