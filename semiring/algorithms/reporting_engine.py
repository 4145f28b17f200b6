"""Report the progress of an engine in pairs (one ⊗ followed by one ⊕)."""

from __future__ import annotations

from typing import Any

from semiring.algorithms.views import WORD
from semiring.kernels.contract import Backend, KernelPlan
from semiring.kernels.engine import Engine
from semiring.namespaces import Array
from semiring.progress import Meter, Progress

__all__ = ["ReportingEngine"]


class ReportingEngine(Engine):
    """An `Engine` that calls ``progress(done, total)`` as kernels end.

    ``total`` is the number of pairs that the method computes, n³ for an elimination, or an upper bound. An exception of
    the callback stops the closure.
    """

    def __init__(
        self,
        backend: Backend,
        plan: KernelPlan,
        progress: Progress,
        total: int,
        panel: int,
        *,
        may_synchronize: bool = True,
        meter: Meter | None = None,
    ) -> None:
        super().__init__(backend, plan, panel, may_synchronize=may_synchronize)
        streams = backend.capabilities.streams
        self._meter = meter or Meter(progress, total, None if streams is None else streams.mark)

    def with_backend(self, backend: Backend) -> Engine:
        meter = self._meter
        return ReportingEngine(
            backend,
            self.plan,
            meter.progress,
            meter.total,
            self.panel,
            may_synchronize=self.may_synchronize,
            meter=meter,
        )

    def report(self, units: int, total: int) -> None:
        """Report that other engines have completed some ``units`` of work, out of a ``total``."""
        self._meter.report(units * self._meter.total // max(1, total))

    def finish(self) -> None:
        """Report the total, for an algorithm that stopped early or had no work."""
        self._meter.finish()

    def _pairs(self, C: Array, B: Array) -> int:
        """Return how many pairs a product computes whose result is C, and whose right factor is B."""
        return int(C.shape[0] * B.shape[0] * C.shape[1]) * (WORD if self.plan.storage == "bits" else 1)

    def multiply(self, C: Array, A: Array, B: Array) -> None:
        with self._meter.kernel(self._pairs(C, B)):
            super().multiply(C, A, B)

    def multiply_add(self, C: Array, A: Array, B: Array) -> None:
        with self._meter.kernel(self._pairs(C, B)):
            super().multiply_add(C, A, B)

    def _multiply_triangular(self, C: Array, A: Array, B: Array, subdiagonals: int, *, is_left: bool) -> None:
        with self._meter.kernel(self._pairs(C, B)):
            super()._multiply_triangular(C, A, B, subdiagonals, is_left=is_left)

    def multiply_add_upper(self, C: Array, A: Array, B: Array) -> None:
        with self._meter.kernel(self._pairs(C, B) // 2):
            super().multiply_add_upper(C, A, B)

    def close_block(self, A: Array, start: int = 0) -> None:
        with self._meter.kernel(self._pairs(A, A)):
            super().close_block(A, start)

    def close(self, A: Array, start: int = 0) -> None:
        with self._meter.kernel(self._pairs(A, A)):
            super().close(A, start)

    def close_as(self, name: str, A: Array, **options: Any) -> None:
        with self._meter.kernel(self._pairs(A, A)):
            super().close_as(name, A, **options)
