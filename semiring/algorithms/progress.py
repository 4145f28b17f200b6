"""Report the progress of an engine in pairs (one ⊗ followed by one ⊕)."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, TypeAlias

from semiring.algorithms.views import WORD
from semiring.kernels.contract import Backend, KernelPlan
from semiring.kernels.engine import Engine
from semiring.namespaces import Array

__all__ = ["Progress", "ReportingEngine", "as_progress"]

#: A function that is called as ``progress(done, total)``. ``done`` never falls, and equals ``total`` at the end.
Progress: TypeAlias = Callable[[int, int], None]


def as_progress(progress: Progress | bool | None, label: str = "closure") -> Progress | None:
    """Normalize ``progress=`` to a callback or None.

    True becomes a progress bar, or None where standard error is no terminal and no notebook. None and False become
    None.
    """
    if progress is None or progress is False:
        return None
    if progress is True:
        from semiring.terminal import ProgressBar

        return ProgressBar(label).__enter__()
    if not callable(progress):
        raise TypeError(
            f"progress is {progress!r}: say True for a bar, or give a function, called as progress(done, total)"
        )
    return progress


_MAX_ENQUEUED = 64  # kernels that may be enqueued on a device while the host continues


class _Meter:
    """The pairs that are complete, out of a total.

    Where kernels only enqueue their work, the meter counts the kernels that have ended.
    """

    def __init__(self, progress: Progress, total: int, mark: Callable[[], Any] | None) -> None:
        self.progress, self.total, self._mark = progress, total, mark
        self.completed_pairs = self._reported_pairs = 0
        #: The marks of enqueued kernels in the order of the work, with the pairs that are complete at each mark.
        self._enqueued: deque[tuple[Any, int]] = deque()

    def count(self, pairs: int) -> None:
        """Add the pairs of a kernel that has run or was enqueued, and report the pairs that are complete."""
        self.completed_pairs += pairs
        if self._mark is None:
            self.report(self.completed_pairs)
            return
        self._enqueued.append((self._mark(), self.completed_pairs))
        if len(self._enqueued) > _MAX_ENQUEUED:
            self._enqueued[0][0].synchronize()
        ended = 0
        while self._enqueued and self._enqueued[0][0].done:
            ended = self._enqueued.popleft()[1]
        if ended:
            self.report(ended)

    def finish(self) -> None:
        """Wait for all enqueued kernels, and report the total."""
        while self._enqueued:
            mark, pairs = self._enqueued.popleft()
            mark.synchronize()
            self.report(pairs)
        if self._reported_pairs < self.total or not self.total:
            self.progress(self.total, self.total)

    def report(self, pairs: int) -> None:
        """Call the callback with the number of complete pairs, at most the total."""
        self._reported_pairs = max(self._reported_pairs, min(pairs, self.total))
        self.progress(self._reported_pairs, self.total)


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
        meter: _Meter | None = None,
    ) -> None:
        super().__init__(backend, plan, panel, may_synchronize=may_synchronize)
        streams = backend.capabilities.streams
        self._meter = meter or _Meter(progress, total, None if streams is None else streams.mark)

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

    def _count(self, m: int, k: int, n: int) -> None:
        if m * k * n:
            self._meter.count(m * k * n)

    def _width(self, C: Array) -> int:
        return int(C.shape[1]) * (WORD if self.plan.storage == "bits" else 1)

    def multiply(self, C: Array, A: Array, B: Array) -> None:
        super().multiply(C, A, B)
        self._count(A.shape[0], B.shape[0], self._width(C))

    def multiply_add(self, C: Array, A: Array, B: Array) -> None:
        super().multiply_add(C, A, B)
        self._count(A.shape[0], B.shape[0], self._width(C))

    def multiply_add_upper(self, C: Array, A: Array, B: Array) -> None:
        super().multiply_add_upper(C, A, B)
        self._count(A.shape[0], B.shape[0], C.shape[1] // 2)

    def close_block(self, A: Array, start: int = 0) -> None:
        super().close_block(A, start)
        self._count(A.shape[0], A.shape[0], self._width(A))

    def close(self, A: Array, start: int = 0) -> None:
        super().close(A, start)
        self._count(A.shape[0], A.shape[0], A.shape[1])

    def close_as(self, name: str, A: Array, **options: Any) -> None:
        super().close_as(name, A, **options)
        self._count(A.shape[0], A.shape[0], A.shape[1])
