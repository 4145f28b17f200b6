"""Report the progress of an engine in pairs (one ⊗ followed by one ⊕)."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from semiring.algebra import Semiring
from semiring.algorithms.views import WORD
from semiring.kernels.contract import Backend, Capabilities, ClosureKernels, KernelPlan
from semiring.kernels.engine import Engine
from semiring.namespaces import Array

__all__ = ["Progress", "ReportingEngine", "as_progress", "total_pairs"]

#: A function that is called as ``progress(done, total)``. ``done`` never falls, and equals ``total`` at the end.
Progress: TypeAlias = Callable[[int, int], None]


def as_progress(progress: Progress | bool | None, label: str = "closure") -> Progress | None:
    """Normalize ``progress=`` to a callback or None.

    True becomes a progress bar on the terminal or in the notebook. None and False become None.
    """
    if progress is None or progress is False:
        return None
    if progress is True:
        from semiring.terminal import progress_bar

        return progress_bar(label)
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

    An exception of the callback stops the closure.
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

    def close_as(self, name: str, A: Array) -> None:
        super().close_as(name, A)
        self._count(A.shape[0], A.shape[0], A.shape[1])


class _NoKernels(ClosureKernels):
    """A backend whose kernels do nothing, for counting the pairs of an algorithm.

    It closes the same whole matrices as the given backend, and provides no other optional operation.
    """

    stacks = False

    def __init__(self, backend: Backend) -> None:
        self.name = backend.name
        self._closures = backend.capabilities.closures
        self.capabilities = Capabilities(closures=self if backend.capabilities.provides("close") else None)

    def supports(self, semiring: Semiring, dtype: np.dtype[Any], storage: str = "elements") -> bool:
        return True

    def can_close(self, plan: KernelPlan, n: int) -> bool:
        return self._closures is not None and self._closures.can_close(plan, n)

    def _do_nothing(self, *_: Any, **__: Any) -> None: ...

    multiply = multiply_add = multiply_add_witness = _do_nothing
    close = close_block = _do_nothing


class _Outline(np.ndarray[Any, Any]):
    """A matrix with a shape and views, but one repeated entry: copies and assignments do not touch memory."""

    @classmethod
    def create(cls, shape: tuple[int, int], dtype: Any) -> _Outline:
        return np.lib.stride_tricks.as_strided(np.zeros(1, dtype), shape, (0, 0)).view(cls)

    def copy(self, order: Any = "C") -> _Outline:
        return self

    def __setitem__(self, index: Any, value: Any) -> None:
        pass


class _Counter(ReportingEngine):
    """An engine that counts pairs and copies nothing."""

    def __init__(self, backend: Backend, plan: KernelPlan, panel: int) -> None:
        super().__init__(_NoKernels(backend), plan, lambda done, total: None, 0, panel)

    @property
    def pairs(self) -> int:
        return self._meter.completed_pairs

    def copy_panel(self, view: Array, out: Array | None = None) -> Array:
        return view


def total_pairs(method: Callable[..., object], engine: Engine, n: int, columns: int) -> int:
    """Return the pairs that ``method`` reports on an n × n matrix stored in ``columns`` columns.

    The function runs the method without kernels. The work of the method must depend on n alone, not on the entries.
    """
    counter = _Counter(engine.backend, engine.plan, engine.panel)
    method(counter, _Outline.create((n, columns), np.uint32 if engine.plan.storage == "bits" else engine.plan.dtype))
    return counter.pairs
