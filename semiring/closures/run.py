"""Run the algorithm of a choice: read the entries, close them, undo the encodings, and raise errors of the kernels."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from functools import lru_cache
from math import inf
from typing import TYPE_CHECKING, Any

import numpy as np

from semiring import profiling
from semiring.algebra import Semiring
from semiring.algebra.catalogue import adds_exponentials, adds_products, as_semiring, max_times, min_plus, min_times
from semiring.algebra.expressions.tree import is_half
from semiring.algorithms.algorithm import Algorithm, Method
from semiring.algorithms.dense import Dense, dense_method_of, is_one_block
from semiring.algorithms.irreflexive_closure import irreflexive_product, make_irreflexive, make_irreflexive_from_loops
from semiring.algorithms.packed_bits import clear_tail
from semiring.algorithms.potentials.scales import cycle_weights, scales
from semiring.algorithms.predecessors import predecessors
from semiring.algorithms.reporting_engine import ReportingEngine
from semiring.algorithms.rkleene import rkleene
from semiring.algorithms.schedule import schedule_for
from semiring.algorithms.stars import (
    add_matrix_index,
    check_star,
    divergence_error,
    gain_error,
    pivot_without_star,
    warn_of_divergence,
    warn_of_diverging_sum,
)
from semiring.arrays.bits import BitMatrix, pack
from semiring.arrays.encoding import decode
from semiring.arrays.operands import empty_like, is_same_memory, memory_of
from semiring.arrays.parts import clear_zeros
from semiring.arrays.zero_conventions import has_zero_edges, may_list_edges, warn_of_other_zeros
from semiring.closures.encodings import is_near_no_path, wider_integers
from semiring.closures.matrix import EncodedMatrix
from semiring.closures.problem import LEAST, Problem, is_tropical
from semiring.errors import DivergenceError
from semiring.kernels import backend_for, named_backend
from semiring.kernels.contract import Backend, KernelPlan
from semiring.kernels.engine import Engine, make_plan
from semiring.kernels.machines import closure_speed
from semiring.namespaces import array_namespace
from semiring.thread_counts import check_threads, get_threads

if TYPE_CHECKING:
    from semiring.closures.choose import Choice

__all__ = ["PLAIN", "Kernels", "close_plainly", "run"]

_least = np.minimum.reduce
_NO_SPAN = nullcontext()
PLAIN = 256**2  # entries: no schedule of elements has a larger block, so `close_plainly` closes no larger matrix


class Kernels:
    """The kernels that close an encoded problem, with its plan."""

    def __init__(self, p: Problem, a: Algorithm) -> None:
        self.p, self.backend, self.plan = p, p.backend, p.kernel_plan
        self.may_diverge, facts = self.plan.may_diverge, p.facts
        speed = closure_speed(self.backend.name, p.dtype, p.matrix.storage)
        self._panel = speed.panel
        may_record, has_loops = isinstance(a, Method) and a.recorded and p.progress is None, p.plus and not p.is_packed
        provides = (may_record or has_loops) and 0 < p.n <= speed.graph
        provides = provides and self.backend.capabilities.provides("replay")
        recorder = self.backend.capabilities.streams if provides else None
        self.recorder = recorder if may_record else None
        self.cycles_recorder = recorder if has_loops else None  # many small launches are replayed as one
        self._may_wait = not facts.uses_device or (facts.may_synchronize and self.recorder is None)

    def bind(self, plan: KernelPlan) -> Engine:
        """Return an engine of a plan. A recorded engine must not wait for the device."""
        return Engine(self.backend, plan, self._panel, may_synchronize=self._may_wait)

    def engine(self) -> Engine:
        """Return an engine for one closure; its kernels write the vertex of a diverging pivot to the plan's status."""
        facts, plan = self.p.facts, self.plan
        if not self.may_diverge:
            return self.bind(plan)
        plan = plan.with_semiring(self.p.semiring)
        if facts.uses_device and facts.may_synchronize:
            xp = array_namespace(facts.memory)
            plan.status.word = xp.full(1, -1, np.int32)  # kernels of a device write the vertex here
        return self.bind(plan)

    def reporting(self, engine: Engine, a: Algorithm) -> ReportingEngine:
        """Return the engine that reports the progress of an algorithm."""
        pairs, n, progress = getattr(a, "pairs", None), self.p.n, self.p.progress
        assert progress is not None
        total = n**3 if pairs is None else pairs(n, n)
        return ReportingEngine(self.backend, engine.plan, progress, total, self._panel, may_synchronize=self._may_wait)


def run(choice: Choice, out: Any = None) -> Any:
    """Return the closure of a choice, in ``out`` or in a new array; ``out`` may be the operand."""
    p, a = choice.problem, choice.algorithm
    if choice.origin.explanation is not None:
        choice.origin.explanation.add_choice(choice)
    if p.rounded_result is not None:
        p = p.replace(rounded_result=None)
        closed = run(replace(choice, problem=p, origin=p.replace(explanation=None)), p.facts.operand)
        dtype = choice.problem.rounded_result
        if out is None:
            return decode(closed, p.options.semiring, dtype)
        return decode(closed, p.options.semiring, out=out)
    facts = p.facts
    if not a.is_encoded:
        if out is None:
            out = np.empty(facts.shape, facts.dtype) if facts.storage == "sparse" else empty_like(facts.operand)
        return a.run(p, None, out, None)  # type: ignore[arg-type]
    if isinstance(a, Dense):
        a = dense_method_of(p)
    matrix = p.bound_matrix
    if out is None and not matrix.needs_packing:
        out = _new_memory(p, a)
    D = matrix.memory_in(out, facts.operand)
    kernels = Kernels(p, a)
    D, entries, operand = _read(p, a, matrix, D)
    D = _close(p, a, kernels, D, entries)
    if p.plus and not a.gives_plus:
        _drop_empty_paths(p, kernels, operand, D)
    if p.largest is not None and is_near_no_path(p.largest, D):
        again = choice.origin.replace(integers=wider_integers(p, p.dtype, result=D))
        p.note(f"distances come near “no path” of {p.dtype}: closed again in {again.integers}")
        return again.close(out)
    if out is None:
        return D.unpack()
    if matrix.needs_decoding or D is not out:
        matrix.decode(D, out)
    return out


def close_plainly(
    A: Any,
    semiring: Semiring | str | None,
    *,
    check: bool = True,
    threads: int | None = None,
    out: Any = None,
    search: bool = False,
) -> Any:
    """Return the min-plus closure of an array (n, n) of few floats ≥ 0, without a problem; None for any other array.

    Such a matrix is one block, no structure is analysed, and no encoding applies to it but the sign bit of zeros. This
    saves most of the time of the smallest calls. ``out`` may be A, or shares no memory with it. With ``search``, return
    the closure and its predecessors.
    """
    if type(A) is not np.ndarray or A.ndim != 2 or not 0 < A.size <= PLAIN or A.dtype.char not in "fd":
        return None
    dtype, n, algebra = A.dtype, len(A), min_plus if semiring is None else as_semiring(semiring)
    if A.shape[1] != n or not dtype.isnative:
        return None
    backend, most = _plain_kernels(algebra, dtype, named_backend())
    if n > most or n >= LEAST:
        return None
    least = _least(A, None)
    if not least >= 0:  # NaN, or a weight below 0
        return None
    count = get_threads() if threads is None else check_threads(threads)
    D = np.empty(A.shape, dtype) if out is None else out
    if check and ((least == 0 and has_zero_edges(A)) or (n == 3 and may_list_edges(A, inf))):
        warn_of_other_zeros(A, algebra)
    if least == 0:
        clear_zeros(A, D)
    elif D is not A:
        D[...] = A
    plan = make_plan(min_plus, dtype, nonnegative=True, threads=count)
    backend.close_block(plan, D)
    return (D, predecessors(backend, plan, D, A)) if search else D


@lru_cache(maxsize=256)
def _plain_kernels(semiring: Semiring, dtype: np.dtype[Any], backend_name: str | None) -> tuple[Backend, int]:
    """Return the backend of the host, and the most rows that `close_plainly` closes; 0 in another semiring."""
    backend = backend_for(None, min_plus, dtype)
    if semiring.tropical != "min" or not is_tropical(semiring) or not semiring.domain.everything:
        return backend, 0
    check_star(semiring, dtype)
    return backend, schedule_for(backend.name, dtype).leaf


def _new_memory(p: Problem, a: Algorithm) -> Any:
    """Return the memory of the result. The array that was made of stored edges serves, unless it is read again."""
    facts = p.facts
    if facts.storage != "sparse":
        return empty_like(facts.operand)
    is_free = "A" in facts.__dict__ and p.dtype == facts.A.dtype and facts.A.dtype.kind != "i"
    return facts.A if is_free and not a.apart else np.empty(facts.shape, facts.dtype)


def _read(p: Problem, a: Algorithm, m: EncodedMatrix, D: Any) -> tuple[Any, Any, Any]:
    """D ← the encoded entries.

    Returns
    -------
    D
        D, or new packed words.
    entries
        What the algorithm reads: D, or the operand if it equals D and need not be copied.
    operand
        The part of the operand from which A⁺ follows, if it is wanted, else None.
    """
    facts = p.facts
    if not a.reads_entries and facts.storage == "sparse" and not p.plus and p.predecessors is None:
        return D, D, None
    A = facts.A
    operand = _keep_operand(p, m, A, D) if p.plus and not a.gives_plus else None
    if (a.apart or p.predecessors is not None) and m.is_unchanged and not is_same_memory(A, D):
        is_copied = a.apart or (p.predecessors is not None and a.copies_entries)
        return (D if is_copied else m.encode(A, D)), A, operand
    D = m.encode(A, D)
    return D, D, operand


def _keep_operand(p: Problem, m: EncodedMatrix, A: Any, D: Any) -> Any:
    """Return the part of A from which A⁺ follows when D, perhaps in A's memory, holds A*.

    This is the diagonal if ⊕ is idempotent, else the whole matrix.
    """
    if p.semiring.idempotent:
        return m.diagonal(A)
    if p.is_packed:
        return A if isinstance(A, BitMatrix) and not is_same_memory(A, D) else pack(A)  # a copy
    return A.copy() if is_same_memory(A, D) else A.astype(p.dtype, copy=False)


def _close(p: Problem, a: Algorithm, kernels: Kernels, D: Any, entries: Any) -> Any:
    """Return the closed matrix, in D, and run the predecessor search."""
    search = None if p.is_packed else p.predecessors
    weights: Any = None
    if search is not None:
        search.predecessors = None  # a problem in wider integers is searched again
        weights = D.copy() if entries is D else entries
    may_call_kernel = isinstance(a, Method) and a.close is rkleene and p.progress is None
    if may_call_kernel and not p.is_packed and not p.facts.uses_device and is_one_block(p):  # saves some microseconds
        plan = kernels.plan.with_semiring(p.semiring) if kernels.may_diverge else kernels.plan
        kernels.backend.close_block(plan, D)
        engine = None
    else:
        engine = kernels.engine()
        plan = engine.plan
        if p.progress is not None and not a.reports_parts:
            engine = kernels.reporting(engine, a)
        active = profiling.active
        with profiling.span("method", a.name, shape=memory_of(D).shape) if active else _NO_SPAN:
            if not isinstance(a, Method):
                D = a.run(p, engine, D, entries if weights is None else weights)
            elif a.apart:
                a.run(p, engine, memory_of(D), memory_of(entries))
            elif kernels.recorder is None:
                a.refuse_result(a.close(engine, memory_of(D)), memory_of(D))
            else:
                kernels.recorder.replay(plan, memory_of(D), kernels.bind, a.close)
        if isinstance(engine, ReportingEngine):
            engine.finish()
        elif p.progress is not None:
            p.progress(p.n**3, p.n**3)
    _check_divergence(p, kernels, plan, D)
    if p.is_packed:
        clear_tail(p.semiring, D)
    if search is not None and search.predecessors is None:
        search.find(engine or kernels.bind(plan), D, weights)
    return D


def _drop_empty_paths(p: Problem, kernels: Kernels, operand: Any, D: Any) -> None:
    """D ← A⁺ where D holds A*; ``operand`` is the third result of `_read`."""
    if p.semiring.idempotent:
        if kernels.cycles_recorder is None:
            make_irreflexive(kernels.plan, operand, D)
            return
        D.diagonal()[...] = operand  # the diagonal of an array on a device is writable
        kernels.cycles_recorder.replay(kernels.plan, D, kernels.bind, make_irreflexive_from_loops)
        return
    irreflexive_product(kernels.bind(kernels.plan), memory_of(operand), memory_of(D))
    if p.is_packed:
        clear_tail(p.semiring, D)


def _check_divergence(p: Problem, kernels: Kernels, plan: KernelPlan, D: Any) -> None:
    """Raise `DivergenceError` if a pivot had no star; warn if only the result shows that the sum diverges."""
    semiring, facts = p.options.semiring, p.facts
    if kernels.may_diverge and plan.status.read() >= 0:
        which, vertex = divmod(plan.status.diverged, p.n)
        error = _divergence_error(p, which, vertex, D)
        raise add_matrix_index(error, np.unravel_index(which, p.stack)) if p.is_stack else error
    if not p.options.check or p.semiring.idempotent or facts.strips is not None or 0 in facts.shape:
        return
    if adds_exponentials(p.semiring) and not facts.uses_device:
        warn_of_divergence(semiring, D)
    if adds_products(p.semiring) and p.dtype.kind != "i" and not p.is_packed:
        warn_of_diverging_sum(semiring, D, nonnegative=p.signs in ("clear", "zero"), is_closure=True)


def _divergence_error(p: Problem, number: int, vertex: int, D: Any) -> DivergenceError:
    """Return the error for a vertex whose pivot has no star, with the cycle or the pivot if A still holds it."""
    semiring, check, facts, pivot = p.options.semiring, p.options.check, p.facts, None
    A = facts.operand
    if type(A) is np.ndarray and facts.strips is None and not is_same_memory(A, D):
        A = A.reshape(-1, *A.shape[-2:])[number]
        if semiring in (max_times, min_times):
            cycle = scales(A, semiring, facts.rounded_to)
            if isinstance(cycle, list):
                return gain_error(semiring, facts.to_caller_direction(cycle), cycle_weights(A, cycle), check=check)
        elif not is_half(A.dtype):
            pivot = pivot_without_star(A.T if facts.is_transposed else A, semiring, vertex)
    return divergence_error(semiring, vertex, pivot=pivot, check=check)
