"""Compute the first calls of a definition in NumPy, while another process compiles its kernels.

Compiling the kernels of a definition takes seconds, and loading Numba a fraction of one. A call that NumPy computes
(`numpy_kernels`) waits for neither. For each definition and each group of kernels:

* Until NumPy has computed `_LOADING_SECONDS`, as predicted, compiled kernels would save less than loading them takes.
* From `_COMPILING_SECONDS` on a process beside the caller compiles the group (`compiler_process`), unless it is on
  disk. NumPy computes until the code is there, also in the middle of a closure.
* Kernels are compiled in the caller at once if a product or block would take NumPy more than `_PATIENCE` seconds, or if
  the calls so far have: then the process has no core.
* If no process can be started, NumPy computes `_SECONDS_WITHOUT_PROCESS`, and then the caller compiles.

This requires bitwise identical results: ⊕ selects or is exact, operations are exact, and no entry is -0.0, which equals
0.0 and has other bits. Small products, closures and steps of floats with + and × are computed by exact sums
(`numpy_sums`). All other definitions are compiled at their first call.

The environment variable SEMIRING_NUMPY_SECONDS turns the process off: the caller compiles a definition once NumPy has
computed it for that many seconds. With 0 every call compiles, as a measurement needs.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from importlib import import_module
from typing import Any

import numpy as np

from semiring.advice import quote
from semiring.algebra.catalogue import min_plus
from semiring.algebra.expressions import OPERATIONS, Expression
from semiring.errors import SemiringError
from semiring.kernels.contract import Array, KernelPlan, Steps
from semiring.kernels.cpu import compiler_process, numpy_kernels, numpy_sums
from semiring.kernels.cpu.compiler_process import (
    ARRAYS,
    CLOSURE,
    FACTOR,
    FOLDS,
    GAINING,
    GRAPHS,
    LOOPS,
    MIXED,
    PATTERNS,
    PREDECESSORS,
    PRODUCT,
    SEARCHES,
    SPARSE,
    STEPS,
    WITNESS,
)
from semiring.kernels.cpu.loops import Loop, interpreted
from semiring.kernels.cpu.numpy_sparse import SparseStepMatrices
from semiring.kernels.cpu.order import PIVOTS
from semiring.kernels.reference import pack_bits, unpack_bits
from semiring.kernels.tolerance import Tolerance
from semiring.logs import expected, logger

#: Takes precedence over the environment variable, for the tuner and the tests.
SECONDS: float | None = None
_SECONDS_WITHOUT_PROCESS = 1.0
_COMPILING_SECONDS = 0.1
_LOADING_SECONDS = 0.3
_PATIENCE, _SHORT_PATIENCE = 10.0, 3.0  # the second one for loops of Python and sums of floats
_RATE = 1e9  # pairs a second in NumPy, on two cores of a Zen 4 server
_SECONDS_PER_STEP = 1e-5  # seconds for each k, besides those for its pairs
_SECONDS_PER_LINK, _SECONDS_PER_VERTEX = 3e-8, 1.5e-8  # of an entry of predecessors, and of a vertex that is written
_SECONDS_PER_CALL, _SECONDS_PER_LISTED_PAIR = 1e-4, 1.5e-7  # of a product of sparse matrices
_SECONDS_PER_FUSED_PAIR = {"f": 2e-8, "d": 5e-8}  # of a product of floats with + and ×
_SECONDS_PER_SCANNED_ENTRY = 1e-8  # of a matrix whose graph is searched in NumPy
_SECONDS_PER_SUPERNODE = 3e-4  # of a sparse factor
_SECONDS_PER_EDGE = 2e-6  # of a loop that Python runs, and for each vertex
_SEQUENTIAL_PAIRS = 1 << 20  # of a step, which no machine shares between threads
_SCANNED_ENTRIES = 1 << 16  # of an operand, at a time
_COMMUTATIVE = frozenset(("add", "mul", "min", "max", "and", "or", "xor"))
_VARIABLES = Expression("var", (), "x"), Expression("var", (), "y")
_DEFINITIONS = 1024  # the most that are kept


def _given_seconds() -> float | None:
    """Return the seconds of NumPy after which the caller compiles, by `SECONDS` or the environment, or None."""
    text = os.environ.get("SEMIRING_NUMPY_SECONDS", "").strip()
    if SECONDS is not None or not text:
        return SECONDS
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not seconds >= 0:
        raise SemiringError(
            f"the environment variable SEMIRING_NUMPY_SECONDS is {quote(text)}, not a number of seconds from 0 up: "
            "set it to 0 to compile every kernel at its first call, or remove it"
        )
    return seconds


#: The plans and the groups that a `compile_at_once` block compiles, by their keys; None outside of a block.
_compiling: dict[tuple[int, str], tuple[KernelPlan, str]] | None = None
_compiling_lock = threading.RLock()


@contextmanager
def compile_at_once() -> Iterator[None]:
    """Compile the kernels of all calls in a block in the caller, and at its end the remaining kernels of their groups.

    Calls of other threads compile, too.
    """
    global _compiling
    with _compiling_lock:
        outer, _compiling = _compiling, {}
        try:
            with expected():
                yield
                for plan, group in [*_compiling.values()]:
                    compiler_process.compile_group(replace(plan, threads=2), group)
                    compiler_process.mark_ready(plan, group)
        finally:
            _compiling = outer


class FirstCalls:
    """The groups of kernels of one definition that NumPy still computes.

    Attributes
    ----------
    pending
        The groups that the compiled kernels do not serve yet.
    """

    def __init__(self, plan: KernelPlan) -> None:
        self._plan, self._spent_seconds = plan, 0.0
        self._spent_by_group: dict[str, float] = {}
        self.pending = _groups(plan)
        self._is_fused = numpy_sums.is_fused(plan)
        self._may_have_negative_zeros = plan.dtype.kind == "f" and not plan.facts.nonnegative

    def computes(self, group: str) -> bool:
        """Return whether NumPy may compute calls of a group of kernels, because the group is not compiled yet."""
        if group in self.pending:
            if _compiling is not None:
                _compiling[id(self), group] = self._plan, group
                self.pending.discard(group)
            elif _given_seconds() == 0:
                self.pending.clear()
        return group in self.pending

    def product(self, plan: KernelPlan, C: Array, A: Array, B: Array, accumulate: int) -> bool:
        """Compute C ← [C ⊕] A ⊗ B, or return False to leave it to the compiled kernels. C may be B."""
        if type(C) is not np.ndarray or type(A) is not np.ndarray or type(B) is not np.ndarray or 0 in C.shape:
            return False  # a matrix of bits that knows its last column
        if self._is_fused:
            return self._fused_product(C, A, B, accumulate)
        if not self._serves(PRODUCT, _product_seconds(C, A), A, B, C if accumulate else A):
            return False
        if plan.storage == "elements":
            numpy_kernels.multiply(plan, C, A, B.copy() if C is B else B, bool(accumulate))
            return True
        columns = 32 * C.shape[1]
        values = unpack_bits(C, columns) if accumulate else np.empty((C.shape[0], columns), np.bool_)
        numpy_kernels.multiply(plan, values, unpack_bits(A, len(B)), unpack_bits(B, columns), bool(accumulate))
        pack_bits(C, values)
        return True

    def _fused_product(self, C: Array, A: Array, B: Array, accumulate: int) -> bool:
        """Compute C ← [C +] A · B of matrices of floats, or return False to leave it to the compiled kernels."""
        operands = (A, B, C) if accumulate else (A, B)
        seconds = C.size * A.shape[-1] * _SECONDS_PER_FUSED_PAIR[self._plan.dtype.char]
        if not numpy_sums.is_exact(*operands):
            return False
        B = B.copy() if C is B else B
        if 1 in C.shape[-2:]:
            size = compiler_process.vector_bytes()
            if C.ndim == 3 or size is None or not self._serves(PRODUCT, seconds, *operands):
                return False
            column, matrix, x = (C, A, B) if C.shape[1] == 1 else (C.T, B.T, A.T)
            if matrix.strides[1] == C.itemsize:  # an entry is the sum of the lanes of vectors
                numpy_sums.multiply_column(column, matrix, x, bool(accumulate), size // C.itemsize)
                return True
        elif not self._serves(PRODUCT, seconds, *operands):
            return False
        numpy_sums.multiply(C, A, B, bool(accumulate))
        return True

    def _fused_closure(self, plan: KernelPlan, A: Array) -> bool:
        """Compute A ← A* of floats with + and ×, or return False to leave it to the compiled kernels."""
        n, rate, stack = A.shape[-1], _SECONDS_PER_FUSED_PAIR[self._plan.dtype.char], A if A.ndim == 3 else A[None]
        whole = rate * (A.strides[-2] // A.itemsize) ** 3  # of the matrix of which A is a block
        seconds = whole if whole > _SHORT_PATIENCE else rate * A.size * n
        if not numpy_sums.is_exact(A) or not self._serves(CLOSURE, seconds, A):
            return False
        return numpy_sums.close(plan, stack, self._pivotwise_rows(n))

    def leave_closures(self) -> None:
        """Let compiled kernels compute the products of a closure that no NumPy computes."""
        if self._is_fused:
            self.pending.discard(PRODUCT)

    def witness_product(self, plan: KernelPlan, C: Array, W: Array, A: Array, B: Array, k0: int) -> bool:
        """Compute a product with witnesses, or return False to leave it to the compiled kernels."""
        if not self._serves(WITNESS, 3 * _product_seconds(C, A), A, B, C):
            return False
        numpy_kernels.multiply_witness(plan, C, W, A, B, k0)
        return True

    def may_walk(self, A: Array | tuple[Any, ...]) -> bool:
        """Return whether NumPy adds the terms of a step by A in the order of the compiled kernels."""
        if not self._is_fused:
            return True
        return not isinstance(A, tuple) and A.strides[-1] == A.itemsize and A.shape[-1] ** 2 < _SEQUENTIAL_PAIRS

    def walk(self, plan: KernelPlan, matrices: numpy_kernels.StepMatrices, x: Array, steps: Steps) -> bool:
        """Advance x by steps, or return False to leave it to the compiled kernels."""
        passes = 1 if steps.witness is None else 3
        seconds = steps.number * passes * (_SECONDS_PER_STEP + x.size * x.shape[-1] / _RATE)
        operands = [matrices.A, x] if steps.weights is None else [matrices.A, x, steps.weights]
        if self._is_fused:
            seconds = steps.number * x.size * x.shape[-1] * _SECONDS_PER_FUSED_PAIR[self._plan.dtype.char]
        if not self._serves(STEPS, seconds, *operands):
            return False
        return matrices.walk(plan, x, steps, is_fused=self._is_fused)

    def walk_sparse(self, plan: KernelPlan, preparation: SparseStepMatrices, x: Array, steps: Steps) -> bool:
        """Advance x by steps of sparse matrices, or return False to leave it to the compiled kernels.

        Their kernels compile in a tenth of a second, so a long sequence does not run in NumPy.
        """
        matrices = preparation.matrices
        pairs = len(x) * sum(one.columns.size for one in matrices) // len(matrices)
        seconds = steps.number * (_SECONDS_PER_CALL + pairs * 1e1 / _RATE)
        operands = [x, *(one.values for one in matrices), *(() if steps.weights is None else (steps.weights,))]
        if seconds > _LOADING_SECONDS or not self._serves(STEPS, seconds, *operands):
            return False
        preparation.walk(plan, x, steps)
        return True

    def close(self, plan: KernelPlan, A: Array) -> bool:
        """Compute A ← A* of a matrix or a stack in place, or return False to leave it to the compiled kernels."""
        n = A.shape[-2]
        if self._is_fused:
            return self._fused_closure(plan, A)
        if not self._serves(CLOSURE, n * _SECONDS_PER_STEP * 3 + A.size * n / _RATE, A):
            return False
        if plan.storage == "bits":
            values = unpack_bits(A, n)
            numpy_kernels.close(plan, values[None], PIVOTS)
            pack_bits(A, values)
        else:
            numpy_kernels.close(plan, A if A.ndim == 3 else A[None], self._pivotwise_rows(n))
        return True

    def _pivotwise_rows(self, n: int) -> int:
        """Return the most rows of a matrix that the compiled kernels close pivot by pivot."""
        if self._plan.dtype.char != "f" or not PIVOTS < n <= 2 * PIVOTS:
            return PIVOTS
        size = compiler_process.vector_bytes()
        if size is None:
            from semiring.kernels.cpu.codegen.target import host  # it loads Numba

            size = host().vector_bytes
        lanes = size // self._plan.dtype.itemsize
        return -(-PIVOTS // lanes) * lanes

    def predecessors(self, plan: KernelPlan, D: Array, tolerance: Tolerance, adjacency: Array) -> Array | None:
        """Return the predecessors of a matrix or a stack D, the closures of ``adjacency``.

        Return None if compiled kernels must run.
        """
        n = D.shape[-1]
        seconds = n * 20 * _SECONDS_PER_STEP + n * D.size / _RATE
        if not self._serves(PREDECESSORS, seconds, D, adjacency):
            return None
        began = time.monotonic()
        trees = numpy_kernels.find_predecessors(plan, D, tolerance, adjacency)
        self._spend(PREDECESSORS, max(0.0, time.monotonic() - began - seconds))  # searches along many edges
        return trees

    def counts_vertices(self, predecessors: Array, sources: Array, counts: Array) -> bool:
        """Write the number of vertices of each path, or return False to leave it to the compiled kernels."""
        if not self._serves(ARRAYS, counts.size * _SECONDS_PER_LINK):
            return False
        numpy_kernels.count_vertices(predecessors, sources, counts)
        return True

    def writes_paths(self, predecessors: Array, targets: Array, counts: Array, out: Array) -> bool:
        """Write the vertices of each path, or return False to leave it to the compiled kernels."""
        if not self._serves(ARRAYS, int(counts.sum()) * _SECONDS_PER_VERTEX + out.size / _RATE):
            return False
        numpy_kernels.write_paths(predecessors, targets, counts, out)
        return True

    def fold_paths(
        self, plan: KernelPlan, predecessors: Array, sources: Array, W: Array, none: Any, out: Array
    ) -> int | None:
        """Fold the entries of W along each path. Return None to leave it to the compiled kernels."""
        if not self._serves(FOLDS, 2 * out.size * _SECONDS_PER_LINK, W):
            return None
        return numpy_kernels.fold_paths(plan, predecessors, sources, W, none, out)

    def closes_gaining(self) -> bool:
        """Return whether the rules for large matrices close small ones that gain, because no loop is compiled.

        Closures are bitwise identical. Where paths tie, the predecessors may be those of another best path.
        """
        return self._serves(GAINING, 1e-3)

    def sparse_product(self, group: str, pairs: int, *operands: Array) -> bool:
        """Return whether NumPy computes a product of so many pairs, one of whose operands is sparse."""
        if group not in self.pending:
            return False
        seconds = _SECONDS_PER_CALL + pairs * (_SECONDS_PER_LISTED_PAIR if group == SPARSE else 1e1 / _RATE)
        return self._serves(group, seconds, *operands)

    @contextmanager
    def loops(self, plan: KernelPlan, group: str, visits: int, *operands: Array) -> Iterator[KernelPlan]:
        """Yield the plan of a block that calls the loops of a group, which visits so many vertices and edges.

        Python runs the loops until they are compiled.
        """
        if group not in self.pending:
            yield plan
            return
        seconds, began = visits * _SECONDS_PER_EDGE, time.monotonic()
        if not self._serves(group, seconds, *operands):
            yield plan
            return
        with interpreted(has_lists=group == SEARCHES):
            yield replace(plan, threads=1)
        self._spend(group, time.monotonic() - began - seconds)

    def _serves(self, group: str, seconds: float, *operands: Array) -> bool:
        """Return whether NumPy computes a call of a group, which takes about that long."""
        if not self.computes(group):
            return False
        if self._may_use_compiled(group, seconds):
            self.pending.discard(group)
            return False
        if self._may_have_negative_zeros and any(map(_has_negative_zero, operands)):
            name = self._plan.semiring.name, self._plan.dtype
            logger().info("%s %s: an operand has an entry -0.0, so the call compiles its kernels now", *name)
            return False
        return True

    def _spend(self, group: str, seconds: float) -> float:
        """Count seconds of NumPy, and return those of all calls of the group."""
        self._spent_seconds += seconds
        self._spent_by_group[group] = self._spent_by_group.get(group, 0.0) + seconds
        return self._spent_by_group[group]

    def _may_use_compiled(self, group: str, seconds: float) -> bool:
        """Return whether the compiled kernels of a group serve this call and all later calls."""
        given, spent_on_group = _given_seconds(), self._spend(group, seconds)
        loading_seconds = 0.0 if "numba" in sys.modules else _LOADING_SECONDS
        if given is not None and self._spent_seconds > given:
            return True
        if self._spent_seconds > min(loading_seconds, _COMPILING_SECONDS) and compiler_process.is_ready(
            self._plan, group
        ):
            return self._spent_seconds > loading_seconds
        if given is not None:
            return False
        is_slow = group in LOOPS or group == FACTOR or self._is_fused
        if spent_on_group > (_SHORT_PATIENCE if is_slow else _PATIENCE):
            logger().info(
                "%s %s: %s would have taken about %.0f s, so the call compiles its kernels now",
                *(self._plan.semiring.name, self._plan.dtype),
                *("Python" if group in LOOPS else "NumPy", spent_on_group),
            )
            return True
        if self._spent_seconds <= _COMPILING_SECONDS or compiler_process.ensure_compiling(self._plan, group):
            return False
        return self._spent_seconds > _SECONDS_WITHOUT_PROCESS


_definitions: dict[tuple[Any, ...], FirstCalls] = {}


def first_calls_of(plan: KernelPlan) -> FirstCalls:
    """Return the first calls of a plan's definition, which plans of other threads share."""
    first_calls: FirstCalls | None = plan.memo.get(FirstCalls)
    if first_calls is None:
        key = plan.semiring, plan.dtype, plan.storage, plan.facts, np.asarray(plan.zero).tobytes()
        if key not in _definitions and len(_definitions) >= _DEFINITIONS:
            _definitions.clear()
        first_calls = plan.memo[FirstCalls] = _definitions.setdefault(key, FirstCalls(plan))
    return first_calls


@cache
def plan_of_indices() -> KernelPlan:
    """Return the plan of kernels that compute with positions of vertices and edges, in no semiring."""
    from semiring.kernels.engine import make_plan

    return make_plan(min_plus, np.dtype(np.int32))


def interprets_indices(arguments: tuple[Any, ...]) -> bool:
    """Return whether Python runs a loop over positions of edges, because it is not compiled yet."""
    first_calls = first_calls_of(plan_of_indices())
    if PATTERNS not in first_calls.pending:
        return False
    entries = sum(array.size for array in arguments if type(array) is np.ndarray)
    return first_calls._serves(PATTERNS, entries * _SECONDS_PER_EDGE)


Loop.interprets = staticmethod(interprets_indices)


def factor_loops(plan: KernelPlan, nodes: int, pairs: int, *operands: Array) -> Any:
    """Return the module of the loops of sparse factors: compiled ones, or NumPy's until those are compiled.

    ``nodes`` and ``pairs`` are the numbers of supernodes that the caller visits, and of operations.
    """
    first_calls, name = first_calls_of(plan), "compiled_loops"
    seconds = nodes * _SECONDS_PER_SUPERNODE + 2 * pairs / _RATE
    if FACTOR in first_calls.pending and first_calls._serves(FACTOR, seconds, *operands):
        name = "numpy_loops"
    return import_module(f"semiring.kernels.cpu.elimination.{name}")


def graph_loops(name: str, entries: int) -> Any:
    """Return a module of `semiring.kernels.graphs` by its name, or `numpy_graphs` until its loops are compiled.

    ``entries`` is the number of entries of the matrix whose graph the caller scans, searches or permutes.
    """
    first_calls = first_calls_of(plan_of_indices())
    if GRAPHS in first_calls.pending and first_calls._serves(GRAPHS, entries * _SECONDS_PER_SCANNED_ENTRY):
        name = "numpy_graphs"
    return import_module(f"semiring.kernels.graphs.{name}")


def _has_negative_zero(A: Array) -> bool:
    """Return whether an entry is -0.0, from some entries at a time."""
    rows = A.reshape(1, -1) if A.ndim < 2 else A
    step = max(1, _SCANNED_ENTRIES // max(1, rows[0].size)) if len(rows) else 1
    for start in range(0, len(rows), step):
        part = rows[start : start + step]
        is_zero = part == 0
        if is_zero.any() and np.signbit(part[is_zero]).any():
            return True
    return False


def _product_seconds(C: Array, A: Array) -> float:
    inner: int = A.shape[-1]
    return inner * _SECONDS_PER_STEP + C.size * inner / _RATE


def _groups(plan: KernelPlan) -> set[str]:
    """Return the groups of kernels whose results NumPy computes bitwise identically."""
    semiring = plan.semiring
    if plan.storage == "bits":
        is_plain = not plan.zero
        return set() if not is_plain else {PRODUCT, CLOSURE} if semiring.selective else {PRODUCT}
    is_exact = plan.dtype.kind in "iub"
    tree, trees = semiring.mul.expression, [semiring.add.expression, semiring.mul.expression, semiring.star_expression]
    paths = {ARRAYS, FOLDS} if is_exact or _rounds_to_nearest(tree) else {ARRAYS}
    used = [OPERATIONS[name] for tree in trees if tree is not None for name in tree.operations]
    is_nonnegative = plan.facts.nonnegative or semiring.domain.lower >= 0
    keeps_signs = is_nonnegative or not any(operation.makes_negative_zeros for operation in used)
    operations = {*semiring.add.expression.operations, *tree.operations}
    if numpy_sums.is_fused(plan):
        paths |= {PRODUCT, STEPS}
        star = semiring.star_expression
        paths |= {CLOSURE} if star is not None and _rounds_to_nearest(star) else set()
    if is_exact or (
        (keeps_signs or not operations & {"min", "max"})
        and _rounds_to_nearest(semiring.add.expression)
        and _rounds_to_nearest(tree)
    ):
        paths |= {SPARSE, MIXED}
    if not is_exact and not (keeps_signs and all(tree is None or _rounds_to_nearest(tree) for tree in trees)):
        return paths
    paths |= LOOPS if semiring.selective else set()
    if semiring.selective and semiring.commutative and tree.op in _COMMUTATIVE and {*tree.args} == {*_VARIABLES}:
        paths |= {FACTOR}
    if semiring.selective and (is_exact or _keeps_bits(plan)):
        return {PRODUCT, WITNESS, CLOSURE, PREDECESSORS, GAINING, GRAPHS, STEPS, *paths}
    return {PRODUCT, STEPS, *paths} if is_exact else paths


def _rounds_to_nearest(tree: Expression) -> bool:
    """Return whether no operation of an expression is rounded differently by NumPy and the compiled kernels."""
    return all(OPERATIONS[name].rounding != "inexact" for name in tree.operations)


def _keeps_bits(plan: KernelPlan) -> bool:
    """Return whether 1̄ ⊗ x is x without rounding.

    If ⊗ rounds it, as in 1 + x - 1, both backends must multiply by 1̄ equally often, and they do not.
    """
    x = np.ldexp(1 / 3, -np.arange(8)).astype(plan.dtype)
    return bool((plan.semiring.mul.apply_to_arrays(np.full_like(x, plan.one), x) == x).all())
