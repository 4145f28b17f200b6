"""One closure of one matrix in place: plan, backend, engine, algorithm, and what the kernels noticed."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal, Protocol

import numpy as np

from semiring.algebra import Semiring
from semiring.algebra.catalogue import max_times, min_times
from semiring.algorithms.methods import Method, method_named
from semiring.algorithms.progress import Progress, ReportingEngine
from semiring.algorithms.views import Array
from semiring.errors import AlgebraError, DivergenceError, DTypeError
from semiring.kernels import backend_for
from semiring.kernels.contract import Plan
from semiring.kernels.engine import Engine, make_plan
from semiring.kernels.machines import closure_speed
from semiring.namespaces import array_namespace, is_device_array

__all__ = ["Execution", "Inspection", "check_star", "divergence_error", "may_diverge"]


class Inspection(Protocol):
    """Who looks at a closed matrix as the kernels left it: under potentials, if there are any."""

    def wants_pivots(self, engine: Engine, A: Array) -> bool:
        """Whether the closure of A should keep pivots; otherwise a copy of A is kept."""
        ...

    def look(self, engine: Engine, closed: Array, *, before: Array | None, pivots: Array | None) -> None:
        """The closed matrix, with the copy or the pivots; one of them is None."""
        ...


@dataclass(frozen=True)
class Execution:
    """Which algorithm, on how many threads, reporting to whom; and who looks at the result together with its pivots.

    ``waits``: whether a device may be waited for; if not, nothing that depends on the data is raised.
    """

    method: str
    threads: int
    progress: Progress | None = None
    inspect: Inspection | None = None
    waits: bool = True

    def by(self, method: str, waits: bool) -> Execution:
        """The same by another method, waiting or not."""
        return Execution(method, self.threads, self.progress, self.inspect, waits)

    def close(
        self,
        semiring: Semiring,
        A: Array,
        P: Array | None = None,
        *,
        nonnegative: bool = False,
        storage: Literal["elements", "bits"] = "elements",
        original: Array | None = None,
    ) -> Engine:
        """A ← A* in place, pivots into P (n, n) int32 where it is given. Returns the engine that did it.

        ``original``: a matrix that equals A, shares no memory with it and stays as it is, if there is one.

        Raises `DivergenceError`, naming the vertex, where a pivot has no star; A is then undefined. `AlgebraError` for
        pivots of a method that keeps none, and for a storage that it does not take; `DeviceError` where the backend has
        not what it needs.
        """
        dtype = np.dtype(np.bool_) if storage == "bits" else A.dtype
        plan = make_plan(semiring, dtype, nonnegative=nonnegative, storage=storage, threads=self.threads)
        backend = backend_for(A, semiring, dtype, storage)
        method = method_named(self.method)
        method.check(backend, storage)
        speed = closure_speed(backend.name, dtype)
        there = is_device_array(A)
        engine = Engine(backend, plan, speed.panel, waits=self.waits or not there)
        if engine.waits and there and may_diverge(plan):
            plan.status.word = array_namespace(A).full(1, -1, np.int32)
        if self.progress is not None:
            total = method.total_pairs(engine, *A.shape)
            engine = ReportingEngine(backend, plan, self.progress, total, speed.panel, waits=engine.waits)
        before, P = self._keep(method, engine, A, P, original)
        if P is None:
            self._run(method, engine, A, speed.graph)
        elif not method.keeps_pivots:
            raise AlgebraError(f"{method.name} keeps no pivots: use rkleene")
        else:
            method.close(engine, A, P)
        if isinstance(engine, ReportingEngine):
            engine.finish()
        if plan.status.read() >= 0:
            raise divergence_error(semiring, plan.status.diverged)
        if self.inspect is not None and plan.storage == "elements":
            self.inspect.look(engine, A, before=before, pivots=P)
        return engine

    def _run(self, method: Method, engine: Engine, A: Array, limit: int) -> None:
        """Run the method; of up to ``limit`` rows the backend may repeat what it recorded of a run of its kind."""
        backend, plan = engine.backend, engine.plan
        recorder = backend.capabilities.recorder if method.recorded and self.progress is None else None
        if recorder is None or not 0 < A.shape[0] <= limit:
            method.close(engine, A)
        else:
            recorder.replay(plan, A, lambda plan: Engine(backend, plan, engine.panel, waits=False), method.close)

    def _keep(
        self, method: Method, engine: Engine, A: Array, P: Array | None, original: Array | None
    ) -> tuple[Array | None, Array | None]:
        """What `inspect` will want to see beside the closed matrix: (A as it was, pivots); of packed bits nothing."""
        if self.inspect is None or P is not None or engine.plan.storage == "bits":
            return None, P
        if method.keeps_pivots and self.inspect.wants_pivots(engine, A):
            return None, array_namespace(A).full(A.shape, -1, np.int32)
        return (A.copy() if original is None else original), None


@lru_cache(maxsize=256)
def check_star(semiring: Semiring, dtype: np.dtype[Any]) -> None:
    """Raise unless the semiring has a star on ``dtype``: `AlgebraError` without one, `DTypeError` on another dtype."""
    star = semiring.star_expression
    if star is None:
        raise AlgebraError(
            f"{semiring.name} has no star, so it has no closure: give one, Semiring(..., star=...), where "
            "a* = 1 ⊕ a ⊕ a² ⊕ …, nan where there is none; or a domain on which 1 ⊕ a = 1, where a* = 1"
        )
    try:
        star.check_dtype(dtype)
    except DTypeError as error:
        floats = [name for name in semiring.dtypes if name.startswith("float")]
        raise DTypeError(
            f"the star of {semiring.name}, {star}, does not exist on {dtype} ({error}): "
            f"use {' or '.join(floats) or 'another dtype'}"
        ) from None


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
