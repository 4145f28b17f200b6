"""A method at work: the plan, the engine, progress, what is kept for predecessors, and what the kernels noticed."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from semiring import profiling
from semiring.algebra import Semiring
from semiring.algebra.catalogue import max_times, min_plus, min_times
from semiring.algorithms.methods import Method, method_named
from semiring.algorithms.packed import clear_tail
from semiring.algorithms.progress import ReportingEngine
from semiring.algorithms.rkleene import rkleene
from semiring.algorithms.schedule import schedule_for
from semiring.arrays.bits import BitMatrix
from semiring.chain.problem import Inspection, Problem
from semiring.errors import DivergenceError
from semiring.kernels import backend_for
from semiring.kernels.contract import Plan
from semiring.kernels.engine import Engine, make_plan
from semiring.kernels.machines import closure_speed
from semiring.namespaces import array_namespace, is_device_array

__all__ = ["Leaf", "close_any_signs", "divergence_error", "engine_of", "may_diverge"]

Array: TypeAlias = Any  # a NumPy array, on a GPU a CuPy array


class Leaf:
    """Closes the matrix of a problem in place by a method, where no step reduces it any further.

    It keeps nothing of one matrix, so that it serves all calls of its kind.
    """

    def __init__(self, p: Problem) -> None:
        self.problem, m = p, p.matrix
        self.method: Method = method_named(p.method)
        array = m.array.words if isinstance(m.array, BitMatrix) else m.array
        if p.strips is not None:
            array = p.strips.sample
        self.dtype, self.on_device, self.xp = m.dtype, is_device_array(array), array_namespace(array)
        self._words = m.storage == "bits"
        self.backend = backend_for(array, p.semiring, m.dtype, m.storage)
        self.method.check(self.backend, m.storage)
        self._plan = p.kernel_plan()
        self._diverges = may_diverge(self._plan)
        speed, capabilities = closure_speed(self.backend.name, m.dtype), self.backend.capabilities
        self._panel, self._stacks = speed.panel, capabilities.stack_closures
        alone = len(m.shape) == 2 and p.progress is None
        recorded = self.method.recorded and alone and 0 < p.n <= speed.graph
        self._recorder = capabilities.recorder if recorded else None
        # R-Kleene of a block is the block's closure, and a microsecond less is much where there are few vertices.
        few = p.n <= schedule_for(self.backend.name, m.dtype).leaf
        self._is_block = self.method.close is rkleene and few and alone and not self.on_device and not self._words

    def __str__(self) -> str:
        m = self.problem.matrix
        size = " × ".join(map(str, m.shape))
        return f"{self.method.name} closes {size} {'bits' if self._words else m.dtype}, {self.backend.name}"

    def close(self, D: Any, inspect: Inspection | None = None, original: Array | None = None) -> None:
        """D ← D* in place: one matrix, a stack (count, n, n), or a `BitMatrix`. ``inspect`` sees it as it is closed.

        ``original``: a matrix that equals D, shares no memory with it and stays as it is, if there is one.

        Raises `DivergenceError`, naming the vertex, where a pivot has no star; D is then undefined.
        """
        plan = self._plan.renewed(self.problem.semiring)
        if self._is_block and inspect is None and not profiling.active:
            self.backend.close_block(plan, D)
            self._check(plan)
            return
        p, close = self.problem, self.method.close
        A, inspect = (D.words, None) if self._words else (D, inspect)
        self._listen(plan)
        if A.ndim == 3:
            assert self._stacks is not None
            self._stacks.close_stack(plan, A)
            self._check(plan)
            return
        engine, before, pivots = self._engine(plan), None, None
        if p.progress is not None:
            total = self.method.total_pairs(engine, *A.shape)
            engine = ReportingEngine(self.backend, plan, p.progress, total, self._panel, waits=engine.waits)
        if inspect is not None:
            if self.method.keeps_pivots and inspect.wants_pivots(engine, A):
                pivots = self.xp.full(A.shape, -1, np.int32)
            else:
                before = A.copy() if original is None else original
        with profiling.span("method", self.method.name, shape=A.shape):
            if pivots is not None:
                close(engine, A, pivots)
            elif self._recorder is not None:
                self._recorder.replay(plan, A, self._engine, close)
            else:
                close(engine, A)
        if isinstance(engine, ReportingEngine):
            engine.finish()
        self._check(plan)
        if self._words:
            clear_tail(p.semiring, D)
        if inspect is not None:
            inspect.look(engine, A, before=before, pivots=pivots)

    def engine(self) -> Engine:
        """Its kernels, for a matrix that is not in one memory; what they notice goes to the status of its plan."""
        plan = self._plan.renewed(self.problem.semiring)
        self._listen(plan)
        return self._engine(plan)

    def _listen(self, plan: Plan) -> None:
        """Let the kernels of a device say that a pivot has no star."""
        if self.on_device and self.problem.waits and self._diverges:
            plan.status.word = self.xp.full(1, -1, np.int32)

    def _engine(self, plan: Plan) -> Engine:
        """The engine of a plan. One that is recorded may ask a device nothing."""
        waits = not self.on_device or (self.problem.waits and self._recorder is None)
        return Engine(self.backend, plan, self._panel, waits=waits)

    def _check(self, plan: Plan) -> None:
        """Raise `DivergenceError` where a kernel has met a pivot without a star."""
        if self._diverges and plan.status.read() >= 0:
            p = self.problem
            which, vertex = divmod(plan.status.diverged, p.n)
            error = divergence_error(p.request.semiring, vertex)
            raise p.blame(error, which) if len(p.matrix.shape) == 3 else error


def engine_of(plan: Plan, A: Array) -> Engine:
    """The products of a plan, where A lives."""
    backend = backend_for(A, plan.semiring, plan.dtype, plan.storage)
    return Engine(backend, plan, closure_speed(backend.name, plan.dtype).panel)


def close_any_signs(D: Array, threads: int) -> bool:
    """D ← D* for a min-plus matrix of float64 and any signs; False where a pivot is negative, and D undefined."""
    plan = make_plan(min_plus, D.dtype, threads=threads)
    engine = engine_of(plan, D)
    if engine.capabilities.queues is not None:
        plan.status.word = array_namespace(D).full(1, -1, np.int32)
    rkleene(engine, D)
    return plan.status.read() < 0


def may_diverge(plan: Plan) -> bool:
    """Whether a pivot may have no star: not where all weights of min-plus are ≥ 0."""
    known = plan.facts.nonnegative and plan.semiring.tropical == "min"
    return plan.semiring.divergence is not None and not known


def divergence_error(semiring: Semiring, vertex: int) -> DivergenceError:
    """What to raise where the pivot of a vertex has no star."""
    start, nowhere = f"the closure of this matrix does not exist in {semiring.name}: ", semiring.divergence
    if semiring in (max_times, min_times):
        side, advice = ("above", " (probabilities lie in [0, 1])") if semiring == max_times else ("below", "")
        return DivergenceError(
            f"{start}a cycle through vertex {vertex}, whose weights have a product {side} 1, gains with every "
            f"round{advice}",
            vertex,
        )
    if nowhere is None:
        where = ""
    elif nowhere.op == "invert":
        where = f" (x has one where {nowhere.args[0]})"
    else:
        where = f" (x has none where {nowhere})"
    return DivergenceError(
        f"{start}at the pivot of vertex {vertex}, the sum of the cycles through it over earlier vertices has no "
        f"star{where}",
        vertex,
    )
