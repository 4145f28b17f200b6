"""A method at work: the plan, the engine, progress, what is kept for predecessors, and what the kernels noticed."""

from __future__ import annotations

from math import prod
from typing import Any, TypeAlias

import numpy as np

from semiring import profiling
from semiring.algebra.catalogue import adds_exponentials, adds_products
from semiring.algorithms.irreflexive import cycles_from_closure, cycles_in_place, irreflexive_product
from semiring.algorithms.methods import Method, method_named
from semiring.algorithms.packed import clear_tail
from semiring.algorithms.predecessors import Inspection, wants_pivots
from semiring.algorithms.progress import Progress, ReportingEngine
from semiring.algorithms.rkleene import rkleene
from semiring.algorithms.schedule import schedule_for
from semiring.algorithms.stars import divergence_error, may_diverge, warn_of_divergence, warn_of_diverging_sum
from semiring.arrays.bits import BitMatrix, pack
from semiring.arrays.operands import memory_of, same_memory
from semiring.chain.explanation import gpu_names
from semiring.chain.matrix import Way
from semiring.chain.problem import Problem, of_matrix
from semiring.kernels import backend_for
from semiring.kernels.contract import Plan
from semiring.kernels.engine import Engine, engine_of
from semiring.kernels.machines import closure_speed
from semiring.namespaces import array_namespace, is_device_array
from semiring.ranks.devices import by_devices

__all__ = ["Leaf"]

Array: TypeAlias = Any  # a NumPy array, on a GPU a CuPy array


class Leaf:
    """Closes the matrix of a problem by a method, where no step reduces it any further.

    It keeps nothing of one matrix, so that it serves all of its kind.
    """

    def __init__(self, p: Problem) -> None:
        self.problem, m = p, p.matrix
        self.method: Method = by_devices(p.request.devices) if p.request.devices else method_named(p.method)
        array = memory_of(m.array) if p.strips is None else p.strips.sample
        self.on_device, self.xp = is_device_array(array), array_namespace(array)
        self.words = m.storage == "bits"
        self.backend = backend_for(array, p.semiring, m.dtype, m.storage)
        self.method.check(self.backend, m.storage)
        self.plan = p.kernel_plan()
        self._diverges = may_diverge(self.plan)
        sums = adds_exponentials(p.semiring) and p.strips is None and not self.on_device
        self._sums = sums and p.request.check and 0 not in m.shape
        series = adds_products(p.semiring) and p.strips is None and not self.words
        self._series = series and p.request.check and 0 not in m.shape
        least = p.known.least
        self._nonnegative = bool(p.known.nonnegative or (least is not None and least >= 0))
        speed, capabilities = closure_speed(self.backend.name, m.dtype, m.storage), self.backend.capabilities
        self._total: int | None = None  # pairs to report
        self._panel, alone = speed.panel, p.progress is None
        recorder = capabilities.recorder if 0 < p.n <= speed.graph else None
        self._recorder = recorder if self.method.recorded and alone else None
        self._cycles_recorder = None if self.words else recorder  # of many small launches
        # R-Kleene of a block is the block's closure, and a microsecond less is much where there are few vertices.
        schedule = schedule_for(self.backend.name, m.dtype, m.storage, p.semiring)
        few = p.n <= schedule.leaf and alone and not profiling.active
        self.is_block = self.method.close is rkleene and few and not self.on_device and not self.words

    def __str__(self) -> str:
        m = self.problem.matrix
        size = " × ".join(map(str, m.shape))
        where = ", ".join(gpu_names(self.problem.request.devices)) or self.backend.name
        return f"{self.method.name} closes {size} {'bits' if self.words else m.dtype}, {where}"

    @property
    def pairs(self) -> float | None:
        """The (⊕, ⊗) pairs of the method, at most; None where a rule chose the method and has predicted them."""
        p, pairs = self.problem, self.method.pairs
        if p.chosen or p.strips:
            return None
        return float(prod(p.stack) * (p.n**3 if pairs is None else pairs(p.n, p.n)))

    @property
    def cost(self) -> str:
        """The text of `pairs`, for an explanation."""
        pairs = self.pairs
        return "" if pairs is None else f"{pairs:.2g} pairs{' at most' if self.method.pairs else ''}"

    def close(self, D: Any, inspect: Inspection | None, progress: Progress | None, original: Array | None) -> None:
        """D ← D* in place: a matrix, a `BitMatrix`, or what else the method takes. ``inspect`` sees it as it is closed.

        ``original``: a matrix that equals D, shares no memory with it and stays as it is, if there is one; D need not
        hold it where the method reads another matrix than it writes.

        Raises `DivergenceError`, naming the vertex, where a pivot has no star; D is then undefined.
        """
        engine, A, inspect = self.engine(), memory_of(D), None if self.words else inspect
        plan, before, pivots = engine.plan, None, None
        more = (A if original is None else memory_of(original),) if self.method.apart else ()
        if progress is not None:
            if self._total is None:
                self._total = self.method.total_pairs(engine, *A.shape)
            engine = ReportingEngine(self.backend, plan, progress, self._total, self._panel, waits=engine.waits)
        if inspect is not None:
            if self.method.keeps_pivots and wants_pivots(engine, A):
                pivots = self.xp.full(A.shape, -1, np.int32)
                more = (pivots,)
            else:
                before = A.copy() if original is None else original
        with profiling.span("method", self.method.name, shape=A.shape):
            if more or self._recorder is None:
                self.method.close(engine, A, *more)
            else:
                self._recorder.replay(plan, A, self._engine, self.method.close)
        if isinstance(engine, ReportingEngine):
            engine.finish()
        self._check(plan, A)
        if self.words:
            clear_tail(self.problem.semiring, D)
        if inspect is not None:
            inspect.look(engine, A, before=before, pivots=pivots)

    def close_block(self, D: Array, inspect: Inspection | None, _: Progress | None, original: Array | None) -> None:
        """The same where it `is_block`: by one kernel."""
        # Where nothing is noticed, one plan serves all calls.
        plan = self.plan.renewed(self.problem.semiring) if self._diverges else self.plan
        before = original if inspect is None or original is not None else D.copy()
        self.backend.close_block(plan, D)
        self._check(plan, D)
        if inspect is not None:
            inspect.look(self._engine(plan), D, before=before)

    def read(self, way: Way, A: Any, D: Any, inspect: Inspection | None) -> tuple[Any, Array | None, Any]:
        """D ← A as it is read. Returns D, or new words; A for `close`, where it equals D; what A⁺ needs of it."""
        kept, original = self._kept(A, D) if self.problem.plus else None, None
        if (self.method.apart or inspect is not None) and way.inner.as_it_is and not same_memory(A, D):
            original = A
        return D if self.method.apart and original is not None else way.encode(A, D), original, kept

    def _kept(self, A: Any, D: Any) -> Any:
        """What is needed of A for A⁺ when D, which may be its memory, holds A*: the loops where ⊕ is idempotent."""
        if self.problem.semiring.idempotent:
            return self.problem.matrix.diagonal(A)
        if self.words:
            return A if isinstance(A, BitMatrix) and not same_memory(A, D) else pack(A)  # a copy
        return A.copy() if same_memory(A, D) else A.astype(self.problem.dtype, copy=False)

    def drop_empty_paths(self, kept: Any, D: Any) -> None:
        """A* → A⁺ in place."""
        if self.problem.semiring.idempotent:
            if self._cycles_recorder is None:
                cycles_from_closure(self.plan, kept, D)
                return
            D.diagonal()[...] = kept  # on a device it can be written
            self._cycles_recorder.replay(self.plan, D, self._engine, cycles_in_place)
            return
        irreflexive_product(engine_of(self.plan, memory_of(D)), memory_of(kept), memory_of(D))
        if self.words:
            clear_tail(self.problem.semiring, D)

    def engine(self) -> Engine:
        """Its kernels, for one call; what they notice goes to the status of its plan."""
        plan = self.plan.renewed(self.problem.semiring)
        if self.on_device and self.problem.waits and self._diverges:
            plan.status.word = self.xp.full(1, -1, np.int32)  # where kernels of a device say it
        return self._engine(plan)

    def _engine(self, plan: Plan) -> Engine:
        """The engine of a plan. One that is recorded may ask a device nothing."""
        waits = not self.on_device or (self.problem.waits and self._recorder is None)
        return Engine(self.backend, plan, self._panel, waits=waits)

    def _check(self, plan: Plan, D: Array) -> None:
        """Raise `DivergenceError` where a kernel has met a pivot without a star; warn where that cannot be told."""
        if self._diverges and plan.status.read() >= 0:
            p = self.problem
            which, vertex = divmod(plan.status.diverged, p.n)
            error = divergence_error(p.request.semiring, vertex)
            raise of_matrix(error, np.unravel_index(which, p.stack)) if p.stack else error
        if self._sums:
            warn_of_divergence(self.problem.request.semiring, D)
        if self._series:
            semiring = self.problem.request.semiring
            warn_of_diverging_sum(semiring, D, nonnegative=self._nonnegative, is_closure=True)
