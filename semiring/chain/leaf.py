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
from semiring.errors import DivergenceError, SemiringError
from semiring.kernels import backend_for
from semiring.kernels.contract import Plan
from semiring.kernels.engine import Engine, make_plan
from semiring.kernels.machines import closure_speed
from semiring.namespaces import array_namespace

__all__ = ["Leaf", "divergence_error", "eliminates", "may_diverge"]

Array: TypeAlias = Any  # a NumPy array, on a GPU a CuPy array


class Leaf:
    """Closes the matrix of a problem in place by a method, where no step reduces it any further.

    It keeps nothing of one matrix, so that it serves all calls of its kind.
    """

    def __init__(self, p: Problem) -> None:
        self.problem = p
        self.method: Method = method_named(p.method)
        m = p.matrix
        array = m.array.words if isinstance(m.array, BitMatrix) else m.array
        self.dtype, self.there = m.dtype, m.there
        self.xp = array_namespace(array)
        self._words = m.storage == "bits"
        self.backend = backend_for(array, p.semiring, m.dtype, m.storage)
        self.method.check(self.backend, m.storage)
        self.speed = closure_speed(self.backend.name, m.dtype)
        capabilities = self.backend.capabilities
        self._stacks = capabilities.stack_closures
        recorded = self.method.recorded and len(m.shape) == 2 and 0 < p.n <= self.speed.graph
        self._recorder = capabilities.recorder if recorded else None
        self._plan = p.plan_of(make_plan)
        self._diverges = may_diverge(self._plan)
        plain = len(m.shape) == 2 and m.storage == "elements" and p.progress is None
        leaf = schedule_for(self.backend.name, m.dtype).leaf
        # R-Kleene of a block is the block's closure, and a microsecond less is much where there are few vertices.
        self._is_block = self.method.close is rkleene and p.n <= leaf and not self.there and plain

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
            if self._diverges and plan.status.diverged >= 0:
                raise self._diverged(plan.status.diverged)
            return
        A = D.words if self._words else D
        asks = self.there and self.problem.waits and self._diverges
        if asks:
            plan.status.word = array_namespace(A).full(1, -1, np.int32)
        if A.ndim == 3:
            assert self._stacks is not None
            self._stacks.close_stack(plan, A)
        elif inspect is not None or self.problem.progress is not None or profiling.active:
            self._close_watched(plan, A, None if self._words else inspect, original)
        elif self._recorder is not None:
            self._recorder.replay(plan, A, self._engine, self.method.close)
        else:
            self.method.close(self._engine(plan), A)
        if self._diverges and plan.status.read() >= 0:
            raise self._diverged(plan.status.diverged)
        if self._words:
            clear_tail(self.problem.semiring, D)

    def engine(self) -> Engine:
        """Its kernels, for a matrix that is not in one memory; what they notice goes to the status of its plan."""
        return self._engine(self._plan.renewed(self.problem.semiring))

    def _engine(self, plan: Plan) -> Engine:
        """The engine of a plan. One that is recorded may ask a device nothing."""
        waits = not self.there or (self.problem.waits and self._recorder is None)
        return Engine(self.backend, plan, self.speed.panel, waits=waits)

    def _close_watched(self, plan: Plan, A: Array, inspect: Inspection | None, original: Array | None) -> None:
        """The same of one matrix, with somebody to report to, or to keep something for."""
        method, engine = self.method, self._engine(plan)
        reporting: ReportingEngine | None = None
        if self.problem.progress is not None:
            total = method.total_pairs(engine, *A.shape)
            engine = reporting = ReportingEngine(
                self.backend,
                plan,
                self.problem.progress,
                total,
                engine.panel,
                waits=self.problem.waits or not self.there,
            )
        before = P = None
        if inspect is not None:
            if method.keeps_pivots and inspect.wants_pivots(engine, A):
                P = array_namespace(A).full(A.shape, -1, np.int32)
            else:
                before = A.copy() if original is None else original
        with profiling.span("method", method.name, shape=A.shape):
            if P is not None:
                method.close(engine, A, P)
            elif self._recorder is not None and reporting is None:
                self._recorder.replay(plan, A, self._engine, method.close)
            else:
                method.close(engine, A)
        if reporting is not None:
            reporting.finish()
        if inspect is not None and plan.status.read() < 0:
            inspect.look(engine, A, before=before, pivots=P)

    def _diverged(self, pivot: int) -> SemiringError:
        p, m = self.problem, self.problem.matrix
        which, vertex = divmod(pivot, p.n)
        error = divergence_error(p.request.semiring, m.caller([vertex], which)[0])
        return p.blame(error, which) if len(m.shape) == 3 else error


def eliminates(D: Array, threads: int) -> bool:
    """D ← D* for a min-plus matrix of float64 and any signs; False where a pivot is negative, and D undefined."""
    plan = make_plan(min_plus, D.dtype, threads=threads)
    backend = backend_for(D, min_plus, D.dtype)
    engine = Engine(backend, plan, closure_speed(backend.name, D.dtype).panel)
    if backend.capabilities.queues is not None:
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
