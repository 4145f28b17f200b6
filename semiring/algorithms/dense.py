"""The closure of dense matrices: the choice of the method and of the storage, and what is done about signs and strides.

Every matrix goes one of four ways: min-plus and max-plus through a non-negative core (`tropical`), or on floats, if
asked, through Dijkstra's algorithm (`johnson`); truth values as packed bits (`packed`); all others straight to an
algorithm, on integers where floats are only selected by their order (`ordered`). Those of a stack may go together
(`stacks`).
"""

from __future__ import annotations

from contextlib import suppress
from math import prod
from typing import Any, NamedTuple

import numpy as np

from semiring.algebra import Semiring
from semiring.algebra.expressions.tree import is_bfloat16
from semiring.algorithms.call import Call
from semiring.algorithms.execution import check_star
from semiring.algorithms.irreflexive import cycles_from_closure, diagonal, irreflexive_product
from semiring.algorithms.johnson import SparseGraph, graph_potentials, sparse_graph
from semiring.algorithms.methods import method_named, takes_edges
from semiring.algorithms.ordered import as_integers, from_integers, has_order, selects
from semiring.algorithms.packed import close_truths
from semiring.algorithms.schedule import schedule_for
from semiring.algorithms.stacks import close_stack, name_matrix
from semiring.algorithms.tropical import Potentials, close_tropical, find_potentials, has_gains, is_tropical
from semiring.algorithms.views import Array, pieces
from semiring.arrays.operands import as_output
from semiring.arrays.scans import Scan
from semiring.errors import (
    AlgebraError,
    DeviceError,
    DivergenceError,
    DomainError,
    DTypeError,
    IntegerOverflowError,
    NegativeCycleError,
    ShapeError,
)
from semiring.kernels import backend_for
from semiring.kernels.contract import Backend
from semiring.kernels.engine import Engine, make_plan
from semiring.kernels.machines import closure_speed
from semiring.namespaces import array_namespace, is_device_array

__all__ = ["close_dense", "close_edges", "is_closed_wider"]


def close_dense(call: Call, A: Array, out: Any, P: Array | None = None) -> Array:
    """The closure of A (..., n, n), in ``out`` or a new array; pivots of one matrix into P (n, n) int32.

    Errors as `semiring.closures.closure` lists them.
    """
    if A.ndim < 2 or A.shape[-1] != A.shape[-2]:
        raise ShapeError(f"A is {A.shape}: a closure needs square matrices, shape (n, n) or (..., n, n)")
    call.semiring.check_dtype(A.dtype)
    check_star(call.semiring, A.dtype)
    if is_closed_wider(call.semiring, A.dtype):
        return _close_wider(call, A, out, P)
    xp = array_namespace(A)
    target = xp.empty(A.shape, A.dtype) if out is None else as_output(out, A.shape, A.dtype, like=A)
    in_place = out is not None and (target is A or _same_memory(target, A))
    if in_place:
        A = target
    elif out is not None and xp.may_share_memory(target, A):
        A = A.copy()
    backend = backend_for(A, call.semiring, A.dtype)
    explanation = call.explanation
    explanation.shape, explanation.dtype, explanation.backend = A.shape, A.dtype, backend.name
    method = _choose(call, A.shape[-1], A.dtype, backend)
    call = call.by(method, waits=call.check or not is_device_array(A))
    if A.ndim == 2:
        _close_matrix(call, A, target, in_place, P, _prepare(call, A, target, call.look(A)))
        return target
    scan = call.look(A)
    if P is not None or not close_stack(call, A, target, backend, scan):
        _close_each(call, A, target, in_place, P, scan)
    return target


def is_closed_wider(semiring: Semiring, dtype: np.dtype[Any]) -> bool:
    """Whether matrices of this dtype are closed in float32."""
    return is_bfloat16(dtype) and semiring.supports(np.float32)


def _close_wider(call: Call, A: Array, out: Any, P: Array | None) -> Array:
    """The closure of bfloat16, in float32 and rounded once: its 8 bits would be lost in the sums of a long path."""
    target = array_namespace(A).empty(A.shape, A.dtype) if out is None else as_output(out, A.shape, A.dtype, like=A)
    wide = A.astype(np.float32)
    close_dense(call, wide, wide, P)
    for rows in pieces(target) if target.ndim == 2 else [...]:
        target[rows] = wide[rows].astype(A.dtype)
    call.explanation.dtype = A.dtype
    call.note("bfloat16 is closed in float32, and rounded once")
    return target


def _address(array: Array) -> int:
    return int(array.data.ptr if is_device_array(array) else array.ctypes.data)


def _same_memory(x: Array, y: Array) -> bool:
    return _address(x) == _address(y) and x.strides == y.strides and x.shape == y.shape


def _choose(call: Call, n: int, dtype: np.dtype[Any], backend: Backend) -> str:
    """The method by which matrices of n rows are closed."""
    method = call.asked
    if takes_edges(method):
        if not is_tropical(call.semiring) or dtype.kind != "f":
            raise AlgebraError(
                f"{method} finds shortest paths by Dijkstra: min_plus or max_plus on floats, not "
                f"{call.semiring.name} on {dtype}; use rkleene"
            )
        if backend.name == "cuda":
            raise DeviceError(f"{method} runs in SciPy, on the host: copy the matrix there, or use rkleene")
    elif method == "auto":
        schedule = schedule_for(backend.name, dtype)
        method = schedule.method(n, selecting=selects(call.semiring))
        whole = "whole_closures" in method_named(method).needs
        if whole and not Engine(backend, make_plan(call.semiring, dtype)).closes(n):
            method = "blocked_floyd_warshall"
        if n <= schedule.leaf:
            call.note(f"{n} vertices are one block of at most {schedule.leaf}, closed without products")
        else:
            call.note(f"a dense matrix: {method} was measured fastest on the {backend.name} backend")
    return method


class _Prepared(NamedTuple):
    """What is known of a matrix before anything is written."""

    scan: Scan
    turned: bool  # whether the transpose is closed, and all else is about the transpose
    graph: SparseGraph | None  # for a method that takes edges,
    potentials: Potentials | Array | None  # and those of the graph


def _close_each(call: Call, A: Array, target: Array, in_place: bool, P: Array | None, scan: Scan) -> None:
    """Close one matrix of a stack after the other; ``scan`` is what a look at all of them found.

    Where some weight is below 0, potentials of all that need some are found first, and kept: n numbers a matrix.
    """
    count = prod(A.shape[:-2])
    shared = scan if _is_the_same_for_each(call, A.dtype, scan) else None
    ready: list[_Prepared] = []
    index: tuple[int, ...] = ()
    try:
        if is_tropical(call.semiring) and has_gains(call.semiring, scan):
            for index in np.ndindex(A.shape[:-2]):
                one = A[index]
                ready.append(_prepare(call, one, target[index], call.look(one)))
        for position, index in enumerate(np.ndindex(A.shape[:-2])):
            one, out = A[index], target[index]
            if ready:
                prepared = ready[position]
            else:
                prepared = _prepare(call, one, out, call.look(one) if shared is None else shared)
            _close_matrix(call.part(position, count), one, out, in_place, P, prepared)
    except (DivergenceError, DomainError, IntegerOverflowError) as error:
        name_matrix(error, index)
        raise


def _is_the_same_for_each(call: Call, dtype: np.dtype[Any], scan: Scan) -> bool:
    """Whether what a look at a stack found does for each of its matrices; of integers the range counts, of each."""
    if is_tropical(call.semiring):
        return dtype.kind != "i" and not has_gains(call.semiring, scan)
    return scan.nonnegative


def _prepare(call: Call, A: Array, out: Array, scan: Scan) -> _Prepared:
    """All there is to know of one matrix A before ``out`` is written, ``scan`` being what a look at A found.

    Raises `NegativeCycleError`; `DomainError` or `IntegerOverflowError` where sums of weights may leave their range.
    """
    if call.semiring.commutative and not _adjacent(out) and _adjacent(out.T):
        with suppress(NegativeCycleError):  # whose edges are those of Aᵀ: below, a cycle of A is found
            return _Prepared(scan, True, *_find_potentials(call, A.T, scan))
    return _Prepared(scan, False, *_find_potentials(call, A, scan))


def _find_potentials(call: Call, A: Array, scan: Scan) -> tuple[SparseGraph | None, Potentials | Array | None]:
    if not is_tropical(call.semiring):
        return None, None
    if not takes_edges(call.execution.method) or _unbounded(call, scan):
        return None, find_potentials(call.execution, call.semiring, A, scan, call.explanation.reasons)
    from scipy.sparse import coo_array

    rows, columns = np.nonzero(call.semiring.zero_for(A.dtype) != A)
    matrix = coo_array((A[rows, columns], (rows, columns)), shape=A.shape)
    graph = sparse_graph(matrix, 1 if call.semiring.tropical == "min" else -1)
    return graph, graph_potentials(graph, A.dtype)


def _close_matrix(call: Call, A: Array, out: Array, in_place: bool, P: Array | None, prepared: _Prepared) -> None:
    """Out ← the closure of one matrix."""
    if in_place:
        A = out
    if _adjacent(out):
        _close_rows(call, A, out, P, prepared)
    elif prepared.turned:  # (Aᵀ)* = (A*)ᵀ, and rows are what the kernels like
        columns = out.T
        _close_rows(call, columns if in_place else A.T, columns, None if P is None else P.T, prepared)
    else:
        rows = array_namespace(A).empty(A.shape, A.dtype)
        _close_rows(call, A, rows, P, prepared)  # so A is there to begin again in a wider dtype
        out[...] = rows


def _close_rows(call: Call, A: Array, out: Array, P: Array | None, prepared: _Prepared) -> None:
    """Out, whose rows are adjacent in memory, ← the closure of A."""
    scan, found = prepared.scan, prepared.potentials
    if prepared.graph is not None:
        close_edges(call, prepared.graph, found, out)
        return
    if takes_edges(call.execution.method):
        call.note("edges of unbounded gain are not Dijkstra's business: rkleene closes the others, and inserts them")
        call = call.by("rkleene")
    if is_tropical(call.semiring):
        close_tropical(
            *(call.execution, call.semiring, A, out, scan, found, call.explanation.reasons),
            P=P,
            reflexive=call.reflexive,
            narrow=call.asked == "auto",
        )
    elif A.dtype == np.bool_ and P is None and _packs(call, A):
        if out is not A:
            out[...] = A
        packed = call if "bits" in method_named(call.execution.method).storages else call.by("rkleene")
        close_truths(packed.execution, call.semiring, out, call.reflexive)
    else:
        _close_generic(call, A, out, P, scan)


def _unbounded(call: Call, scan: Scan) -> bool:
    """Whether some edge of a min-plus (max-plus) matrix has the weight -∞ (∞)."""
    return bool(scan.low == -np.inf if call.semiring.tropical == "min" else scan.high == np.inf)


def _adjacent(matrix: Array) -> bool:
    return bool(matrix.shape[1] <= 1 or matrix.strides[1] == matrix.itemsize)


def _close_generic(call: Call, A: Array, out: Array, P: Array | None, scan: Scan) -> None:
    semiring = call.semiring
    original = None
    if not call.reflexive and not semiring.idempotent:
        original = A.copy() if out is A else A
        call.note(f"⊕ of {semiring.name} is not idempotent: A⁺ = A ⊗ A*, and A is kept until then")
    if out is not A:
        out[...] = A
    identities = (semiring.zero_for(A.dtype), semiring.one_for(A.dtype))
    nonnegative = scan.nonnegative and min(identities) >= 0 and A.dtype.kind == "f"
    if not nonnegative and is_device_array(A) and has_order(semiring, A.dtype):
        call.note("⊕ and ⊗ only select: closed as integers in the order of the floats")
        D = as_integers(out, semiring)
        _close_elements(call, D, P)
        from_integers(D, semiring)
        return
    engine = _close_elements(call, out, P, nonnegative=nonnegative, cycles=original is None)
    if original is not None:
        irreflexive_product(engine, original, out)


def _close_elements(call: Call, D: Array, P: Array | None, *, nonnegative: bool = False, cycles: bool = True) -> Engine:
    """D ← D* in place, or D⁺ where that was asked for and ``cycles`` can tell it from D*."""
    loops = diagonal(D) if cycles and not call.reflexive else None
    engine = call.execution.close(call.semiring, D, P, nonnegative=nonnegative)
    if loops is not None:
        cycles_from_closure(engine, loops, D)
    return engine


def _packs(call: Call, A: Array) -> bool:
    """Whether a bool matrix is closed as packed bits."""
    if call.asked != "auto" or A.shape[0] < closure_speed(call.explanation.backend, A.dtype).pack:
        return False
    try:
        backend_for(A, call.semiring, np.dtype(bool), "bits")
    except DTypeError:
        return False
    call.explanation.storage = "packed bits"
    call.note("a bool matrix of this size: 32 entries to a word")
    return True


def close_edges(call: Call, graph: SparseGraph, h: Array, out: Array) -> None:
    """Out ← the closure of a sparse graph by a method that takes edges; h (n,) are its potentials."""
    method = method_named(call.execution.method)
    method.close(graph, h, out, reflexive=call.reflexive, progress=call.execution.progress)
