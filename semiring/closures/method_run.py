"""Run a method: its kernels, progress, the inputs of the predecessor search, and errors of the kernels."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from semiring import profiling
from semiring.algebra.catalogue import adds_exponentials, adds_products, max_times, min_times
from semiring.algebra.expressions.tree import is_half
from semiring.algorithms.irreflexive_closure import irreflexive_product, make_irreflexive, make_irreflexive_from_loops
from semiring.algorithms.methods import Method, method_named
from semiring.algorithms.packed_bits import clear_tail
from semiring.algorithms.potentials.scales import cycle_weights, scales
from semiring.algorithms.predecessors import PredecessorSearch
from semiring.algorithms.progress import ReportingEngine
from semiring.algorithms.rkleene import rkleene
from semiring.algorithms.schedule import schedule_for
from semiring.algorithms.stars import (
    divergence_error,
    gain_error,
    may_diverge,
    pivot_without_star,
    warn_of_divergence,
    warn_of_diverging_sum,
)
from semiring.arrays.bits import BitMatrix, pack
from semiring.arrays.operands import is_same_memory, memory_of
from semiring.closures.call import Call
from semiring.closures.explanation import gpu_names
from semiring.closures.matrix import EncodedMatrix
from semiring.errors import DivergenceError, DomainError, IntegerOverflowError, MethodError, SemiringError
from semiring.kernels import backend_for
from semiring.kernels.contract import KernelPlan
from semiring.kernels.engine import Engine, engine_of
from semiring.kernels.machines import closure_speed
from semiring.namespaces import Array, array_namespace, is_device_array

if TYPE_CHECKING:
    from semiring.closures.plan import Draft

__all__ = ["MethodRun", "add_matrix_index"]


class MethodRun:
    """A method with the kernels of one kind of call. It keeps no state of a matrix, so it serves all calls."""

    def __init__(self, call: Call, draft: Draft, method: str | Method) -> None:
        k, d, m = call.kind, draft, draft.matrix
        self.kind, self.draft = k, d
        self.method: Method = k.joint_method or method_named(method)
        array = memory_of(call.A) if call.strips is None else call.strips.sample
        self.on_device, self.xp = is_device_array(array), array_namespace(array)
        self.is_packed, self.may_synchronize = m.storage == "bits", call.may_synchronize
        self.backend = backend_for(array, d.semiring, m.dtype, m.storage)
        self.method.check(self.backend, m.storage)
        self.plan = d.kernel_plan(k.options.threads)
        self._may_diverge = may_diverge(self.plan)
        checks = k.options.check and k.strips is None and 0 not in k.shape
        self._checks_exponential_sums = adds_exponentials(d.semiring) and checks and not self.on_device
        self._checks_series = adds_products(d.semiring) and checks and m.dtype.kind != "i" and not self.is_packed
        speed, capabilities = closure_speed(self.backend.name, m.dtype, m.storage), self.backend.capabilities
        self._total: int | None = None  # the number of pairs that progress reports as the total
        self._panel, n = speed.panel, k.shape[-1]
        recorder = capabilities.streams if 0 < n <= speed.graph and capabilities.provides("replay") else None
        self._recorder = recorder if self.method.recorded and not k.has_progress else None
        self._cycles_recorder = None if self.is_packed else recorder  # many small launches are replayed as one
        # R-Kleene of one block is the block's closure. Calling the kernel directly saves a microsecond.
        schedule = schedule_for(self.backend.name, m.dtype, m.storage, d.semiring)
        few = n <= schedule.leaf and not k.has_progress and not k.is_profiled
        self._is_block = self.method.close is rkleene and few and not self.on_device and not self.is_packed

    def __str__(self) -> str:
        size = " × ".join(map(str, self.kind.shape))
        where = ", ".join(gpu_names(self.kind.devices)) or self.backend.name
        return f"{self.method.name} closes {size} {'bits' if self.is_packed else self.draft.dtype}, {where}"

    @property
    def pairs(self) -> float | None:
        """An upper bound of the method's (⊕, ⊗) pairs; None where the rule that chose the method predicts them."""
        n, pairs = self.kind.shape[-1], self.method.pairs
        if self.draft.structural_method or self.kind.strips:
            return None
        return float(prod(self.draft.stack) * (n**3 if pairs is None else pairs(n, n)))

    @property
    def cost(self) -> str:
        """The text of `pairs`, for an explanation."""
        pairs, n = self.pairs, self.kind.shape[-1]
        varies = self.method.pairs is not None and self.method.pairs(n, n) != n**3
        return "" if pairs is None else f"{pairs:.2g} pairs{' at most' if varies else ''}"

    def close(self, call: Call, D: Any, original: Array | None = None) -> None:
        """D ← D* in place, then run the predecessor search of the call, if it has one.

        Parameters
        ----------
        call
            The call, with its progress callback and its inspection.
        D
            An array, a `BitMatrix`, or another matrix that the method supports.
        original
            An unchanged matrix that equals D and shares no memory with it, if there is one. If the method reads another
            matrix than it writes, D need not hold the entries.

        Raises `DivergenceError` with the vertex where a pivot has no star; D is then undefined.
        """
        inspection, progress = call.inspection, call.progress
        if self._is_block:
            self._close_block(call, D, original)
            return
        engine, A, inspection = self.make_engine(), memory_of(D), None if self.is_packed else inspection
        plan = engine.plan
        input_matrix: Any = None
        more = (A if original is None else memory_of(original),) if self.method.apart else ()
        if progress is not None:
            if self._total is None:
                self._total = self.method.total_pairs(engine, *A.shape)
            engine = ReportingEngine(
                self.backend, plan, progress, self._total, self._panel, may_synchronize=engine.may_synchronize
            )
        if inspection is not None:
            input_matrix = A.copy() if original is None else original
        with profiling.span("method", self.method.name, shape=A.shape):
            if more or self._recorder is None:
                _refuse_result(self.method, self.method.close(engine, A, *more), A)
            else:
                self._recorder.replay(plan, A, self._make_engine, self.method.close)
        if isinstance(engine, ReportingEngine):
            engine.finish()
        self._check_divergence(call, plan, A)
        if self.is_packed:
            clear_tail(self.draft.semiring, D)
        if inspection is not None:
            inspection.find(engine, A, input_matrix)

    def _close_block(self, call: Call, D: Any, original: Array | None) -> None:
        """Close a matrix of one block by one kernel, as `close` does."""
        inspection = call.inspection
        # If no pivot can diverge, the plan needs no status, and one plan serves all calls.
        plan = self.plan.with_semiring(self.draft.semiring) if self._may_diverge else self.plan
        input_matrix: Any = original if inspection is None or original is not None else D.copy()
        self.backend.close_block(plan, D)
        self._check_divergence(call, plan, D)
        if inspection is not None:
            inspection.find(self._make_engine(plan), D, input_matrix)

    def read(
        self, matrix: EncodedMatrix, A: Any, D: Any, inspection: PredecessorSearch | None
    ) -> tuple[Any, Array | None, Any]:
        """D ← the encoded entries of A.

        Returns
        -------
        D
            D, or new packed words.
        original
            A if it equals D and shares no memory with it, else None.
        operand
            The argument of `drop_empty_paths`, if A⁺ is computed, else None.
        """
        operand, original = self._keep_operand(matrix, A, D) if self.draft.plus else None, None
        if (self.method.apart or inspection is not None) and matrix.is_unchanged and not is_same_memory(A, D):
            original = A
        return D if self.method.apart and original is not None else matrix.encode(A, D), original, operand

    def _keep_operand(self, m: EncodedMatrix, A: Any, D: Any) -> Any:
        """Return the part of A from which A⁺ follows when D, perhaps in A's memory, holds A*.

        This is the diagonal if ⊕ is idempotent, else the whole matrix.
        """
        if self.draft.semiring.idempotent:
            return m.diagonal(A)
        if self.is_packed:
            return A if isinstance(A, BitMatrix) and not is_same_memory(A, D) else pack(A)  # a copy
        return A.copy() if is_same_memory(A, D) else A.astype(self.draft.dtype, copy=False)

    def drop_empty_paths(self, operand: Any, D: Any) -> None:
        """D ← A⁺ where D holds A*; ``operand`` is the third result of `read`."""
        if self.draft.semiring.idempotent:
            if self._cycles_recorder is None:
                make_irreflexive(self.plan, operand, D)
                return
            D.diagonal()[...] = operand  # the diagonal of an array on a device is writable
            self._cycles_recorder.replay(self.plan, D, self._make_engine, make_irreflexive_from_loops)
            return
        irreflexive_product(engine_of(self.plan, memory_of(D)), memory_of(operand), memory_of(D))
        if self.is_packed:
            clear_tail(self.draft.semiring, D)

    def make_engine(self) -> Engine:
        """Return an engine for one call; its kernels write the vertex of a diverging pivot to the plan's status."""
        plan = self.plan.with_semiring(self.draft.semiring)
        if self.on_device and self.may_synchronize and self._may_diverge:
            plan.status.word = self.xp.full(1, -1, np.int32)  # kernels of a device write the vertex here
        return self._make_engine(plan)

    def _make_engine(self, plan: KernelPlan) -> Engine:
        """Return the engine of a plan. A recorded engine must not wait for the device."""
        waits = not self.on_device or (self.may_synchronize and self._recorder is None)
        return Engine(self.backend, plan, self._panel, may_synchronize=waits)

    def _check_divergence(self, call: Call, plan: KernelPlan, D: Array) -> None:
        """Raise `DivergenceError` if a pivot had no star; warn if only the result shows that the sum diverges."""
        semiring, stack = self.kind.options.semiring, call.stack or self.draft.stack
        if self._may_diverge and plan.status.read() >= 0:
            which, vertex = divmod(plan.status.diverged, self.kind.shape[-1])
            error = self._divergence_error(call, which, vertex, D)
            raise add_matrix_index(error, np.unravel_index(which, stack)) if stack else error
        if self._checks_exponential_sums:
            warn_of_divergence(semiring, D)
        if self._checks_series:
            warn_of_diverging_sum(semiring, D, nonnegative=self.draft.at_least_zero, is_closure=True)

    def _divergence_error(self, call: Call, number: int, vertex: int, D: Array) -> DivergenceError:
        """Return the error for a vertex whose pivot has no star, with the cycle or the pivot if A still holds it."""
        semiring, check, A, pivot = call.semiring, self.kind.options.check, call.A, None
        if isinstance(A, np.ndarray) and call.strips is None and not is_same_memory(A, D):
            A = A.reshape(-1, *A.shape[-2:])[number]
            if semiring in (max_times, min_times):
                cycle = scales(A, semiring, self.kind.rounded_to)
                if isinstance(cycle, list):
                    return gain_error(semiring, call.to_caller_direction(cycle), cycle_weights(A, cycle), check=check)
            elif not is_half(A.dtype):
                pivot = pivot_without_star(A.T if self.kind.is_transposed else A, semiring, vertex)
        return divergence_error(semiring, vertex, pivot=pivot, check=check)


def add_matrix_index(error: SemiringError, index: Sequence[Any]) -> SemiringError:
    """Add the index of a matrix in its stack to an error about the entries. Other errors stay unchanged."""
    if isinstance(error, DivergenceError | DomainError | IntegerOverflowError):
        place = tuple(map(int, index))
        about = f"{error}; this is about the matrix A[{', '.join(map(str, place))}] of the stack"
        error.args = (about, *error.args[1:])
        if isinstance(error, DivergenceError):
            error.matrix = place
    return error


def _refuse_result(method: Method, result: Any, A: Any) -> None:
    """Raise `MethodError` if a method returned a new array, because only what it writes to A is the closure."""
    if result is not None and result is not A and hasattr(result, "shape"):
        raise MethodError(
            f"the method {method.name!r} returned a {type(result).__name__}, and a method closes A in place: write the "
            "result to A, as by A[...] = result"
        )
