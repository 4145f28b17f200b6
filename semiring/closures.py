"""`closure`: A* = I ⊕ A ⊕ A² ⊕ …, of dense, packed and sparse matrices, in any semiring with a star.

Checks, the choice of the algorithm and of the storage, and what is done about signs and integers; the algorithms
themselves are in `semiring.algorithms`, one a file.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np

from semiring.algebra import Semiring
from semiring.algebra.catalogue import as_semiring, min_plus
from semiring.algorithms.call import Call, Explanation
from semiring.algorithms.dense import close_dense, close_edges, is_closed_wider
from semiring.algorithms.execution import Execution, check_star
from semiring.algorithms.johnson import graph_potentials, sparse_graph
from semiring.algorithms.methods import METHODS, matrix_methods, method_named, takes_edges
from semiring.algorithms.packed import close_words
from semiring.algorithms.predecessors import attach_unbounded, predecessors, wants_pivots
from semiring.algorithms.progress import Progress, check_progress
from semiring.algorithms.schedule import dense_seconds, johnson_seconds
from semiring.algorithms.small import SMALL, close_small, close_small_with_predecessors
from semiring.algorithms.tropical import is_tropical
from semiring.arrays.bits import BitMatrix
from semiring.arrays.labels import names_vertices
from semiring.arrays.operands import as_array, as_output, as_result, on_their_device, operands, store
from semiring.errors import AlgebraError, DivergenceError, ShapeError, UnknownNameError
from semiring.kernels import backend_for
from semiring.kernels.engine import Engine, make_plan
from semiring.namespaces import is_device_array
from semiring.threads import checked_threads, get_threads

__all__ = ["METHODS", "Explanation", "closure", "closure_with_predecessors"]

Array: TypeAlias = Any


@on_their_device
def closure(
    A: Any,
    semiring: Semiring | str = "min_plus",
    *,
    method: str = "auto",
    reflexive: bool = True,
    out: Any = None,
    progress: Progress | None = None,
    check: bool = True,
    threads: int | None = None,
    device: Any = None,
    explain: bool = False,
) -> Any:
    """A* = I ⊕ A ⊕ A² ⊕ …; with ``reflexive=False`` A⁺ = A ⊗ A*. In min-plus: all shortest distances.

    Parameters
    ----------
    A
        (..., n, n): A[i, j] is the weight of the edge i → j, the semiring's zero (∞ in min-plus) means no edge, and 0
        is a weight. A NumPy array of any strides, a list, an array of another library in host memory, a SciPy sparse
        matrix (entries it does not store are no edges, stored zeros are weights), or a `BitMatrix` for semirings on
        bool; or an array on an NVIDIA GPU, of any library that speaks DLPack, which is closed there. Also a square
        frame of pandas or Polars, and what lists edges: such a frame, a graph of NetworkX, igraph or rustworkx, a
        `Network`.
    semiring
        A `Semiring` with a star, or a name of the catalogue.
    method
        One of `METHODS`, or of your own (`register_method`). ``"auto"`` chooses by size, sparsity and semiring;
        ``explain`` says what and why.
    out
        Where the result goes; may be A itself. In place the memory beyond the matrix is that of some panels, O(n ·
        1024), and for truth values also an eighth of the matrix. A copy more is taken where ⊕ is not idempotent and
        ``reflexive`` is False, by `squaring`, where neither the entries of a row nor those of a column are adjacent,
        for a stack whose rows are not, of bfloat16 in float32, and in float64 while potentials are found, if the
        shortest paths are so long that it takes an elimination. ``johnson`` takes what SciPy does. For more on a GPU
        see the page on closures.
    progress
        ``progress(done, total)`` is called as the work goes on, ``done`` never falling; an exception it raises stops
        it.
    reflexive
        Whether the empty path counts: A*, or A⁺, whose diagonal holds only cycles.
    check
        Whether to look for NaN and entries outside the domain. Without the look such entries give any result; min_plus
        and max_plus look in any case, for the signs of the weights decide how they are closed. On a GPU a call waits
        for it after the look and at its end, and in between for large matrices of min_plus and max_plus, to see
        whether whole numbers fit narrower integers; without the look it waits for nothing and raises nothing that
        depends on the data: min_plus weights below 0 (in max_plus above) then make the result NaN, and integers must
        be ≥ 0 and small enough for no path to come near half their range.
    threads
        How many threads; by default `get_threads`. The result does not depend on it.
    device
        ``"cuda"``: move what lives in the memory of the host to the GPU, and the result back.
    explain
        Return ``(result, Explanation)``.

    Returns the closure, in A's dtype and library; a `BitMatrix` for a `BitMatrix`, a dense array for a sparse matrix,
    a frame with the labels of rows and columns for a frame, a `Network` for what lists edges.

    Raises `NegativeCycleError` with the vertices of a negative (max-plus: positive) cycle, before anything is
    written; a cycle whose weight the rounding of its own entries explains does not count, and neither does one of
    weight 0. `DivergenceError` where another semiring's pivot has no star, `DomainError`, `IntegerOverflowError`,
    `AlgebraError` for a semiring without a star, `DTypeError`, `ShapeError`. After a `DivergenceError` other than a
    negative cycle, and after an `IntegerOverflowError`, what was closed in place is undefined. Of a stack all matrices
    are looked at before the first is written, and the error says which one it is about: `DivergenceError.matrix`.

    A sum of floats beyond their range is ∞, which is "no path": weights of 10³⁸ need float64.

    An edge of weight -∞ in min-plus (+∞ in max-plus) makes every path over it -∞ (+∞), and a cycle over it is a
    negative one. plus_times gives what elimination without pivoting reaches: (I - A)⁻¹ where no pivot is 1; the sum
    itself converges only where the spectral radius is below 1. Costs n³ pairs. Sources: see `semiring.algorithms`.

    >>> import numpy as np
    >>> inf = float("inf")
    >>> closure(np.array([[inf, 3.0, 8.0], [inf, inf, 2.0], [1.0, inf, inf]]))
    array([[0., 3., 5.],
           [3., 0., 2.],
           [1., 4., 0.]])
    """
    algebra = min_plus if semiring == "min_plus" else as_semiring(semiring)
    if (
        out is None
        and device is None
        and reflexive
        and not explain
        and _is_small(A, algebra, method, progress, threads)
    ):
        small = close_small(A)
        if small is not None:
            return small
    check_progress(progress)
    if names_vertices(A):
        options = {"progress": progress, "check": check, "threads": threads, "device": device}
        found, said = _close_named(A, algebra, out, method=method, reflexive=reflexive, **options)
        return (found, said) if explain else found
    if method not in METHODS:
        raise UnknownNameError("closure method", method, METHODS)
    count = get_threads() if threads is None else checked_threads(threads)
    explanation = Explanation(algebra.name, (), None, method, "", "elements", count)
    call = Call(algebra, Execution(method, count, progress), method, bool(reflexive), bool(check), explanation)
    if isinstance(A, BitMatrix):
        result = _close_bit_matrix(call, A, out)
    elif _is_sparse(A) and device is None:
        result = _close_sparse(call, A, out)
    else:
        result = _close_array(call, A, out, device)
    return (result, explanation) if explain else result


def _is_small(A: Any, semiring: Semiring, method: str, progress: Any, threads: Any) -> bool:
    """Whether a call with these arguments may go the short way of `small`."""
    return (
        semiring is min_plus
        and type(A) is np.ndarray
        and method == "auto"
        and progress is None
        and (threads is None or (type(threads) is int and threads > 0))
        and A.ndim == 2
        and 0 < A.shape[0] == A.shape[1] <= SMALL
        and A.dtype.char in "fd"
        and A.dtype.isnative
    )


def _close_named(A: Any, semiring: Semiring, out: Any, **options: Any) -> tuple[Any, Explanation]:
    """The closure of what names its vertices, with those names: in the result, and in the error of a cycle."""
    from semiring.io.inputs import take

    taken = take(A, semiring)
    try:
        found, said = closure(taken.matrix, semiring, out=out, explain=True, **options)
    except DivergenceError as error:
        raise error.named(taken.names) from None
    return taken.back(found) if out is None else out, said


def _close_array(call: Call, A: Any, out: Any, device: Any) -> Any:
    (array,) = operands(call.semiring, device=device, A=A)
    # What was moved is ours: it is closed in place, but for integers, which may have to begin again in a wider dtype.
    moved = is_device_array(array) and not is_device_array(A) and array.dtype.kind != "i"
    if out is None:
        return as_result(A)(close_dense(call, array, array if moved else None))
    if is_device_array(array) and not is_device_array(out) and device is not None:
        target = as_output(out, array.shape, array.dtype)
        store(target, close_dense(call, array, array if moved else None))
    else:
        close_dense(call, array, out)
    return out


class _Predecessors:
    """The `Inspection` that finds predecessors."""

    def __init__(self) -> None:
        self.found: Array = None

    def wants_pivots(self, engine: Engine, A: Array) -> bool:
        return wants_pivots(engine, A)

    def look(self, engine: Engine, closed: Array, *, before: Array | None, pivots: Array | None) -> None:
        self.found = predecessors(engine.backend, engine.plan, closed, before=before, pivots=pivots)


def closure_with_predecessors(
    A: Array,
    semiring: Semiring,
    *,
    check: bool = True,
    threads: int | None = None,
    progress: Progress | None = None,
    method: str = "auto",
) -> tuple[Array, Array]:
    """(A*, predecessors) for a selective ⊕ and a NumPy array A (n, n); see `semiring.algorithms.predecessors`.

    Errors as for `closure`; `AlgebraError` where ⊕ is not selective.
    """
    if _is_small(A, semiring, method, progress, threads):
        small = close_small_with_predecessors(A)
        if small is not None:
            return small
    check_progress(progress)
    if not semiring.selective:
        raise AlgebraError(f"predecessors need a selective ⊕, and that of {semiring.name} is not: use closure")
    if method not in METHODS or takes_edges(method):
        raise UnknownNameError("closure method with predecessors", method, matrix_methods())
    if is_closed_wider(semiring, A.dtype):
        D, found = closure_with_predecessors(
            A.astype(np.float32), semiring, check=check, threads=threads, progress=progress, method=method
        )
        return D.astype(A.dtype), found
    count = get_threads() if threads is None else checked_threads(threads)
    explanation = Explanation(semiring.name, (), None, method, "", "elements", count)
    inspection = _Predecessors()
    execution = Execution(method, count, progress, inspection)
    D = close_dense(Call(semiring, execution, method, True, check, explanation), A, None)
    if inspection.found is None:  # closed as packed bits, or empty
        plan = make_plan(semiring, D.dtype, threads=count)
        inspection.found = predecessors(backend_for(D, semiring, D.dtype), plan, D, before=A)
    if is_tropical(semiring) and D.dtype.kind == "f":
        attach_unbounded(make_plan(semiring, D.dtype), A, D, inspection.found)
    return D, inspection.found


# ------------------------------------------------------------------------------------------------- packed bits


def _close_bit_matrix(call: Call, A: BitMatrix, out: BitMatrix | None) -> BitMatrix:
    if A.shape[0] != A.shape[1]:
        raise ShapeError(f"A is {A.shape}: a closure needs a square matrix")
    semiring = call.semiring
    semiring.check_dtype(np.dtype(bool))
    check_star(semiring, np.dtype(bool))
    backend = backend_for(A.words, semiring, np.dtype(bool), "bits")
    method = "rkleene" if call.asked == "auto" else call.asked
    method_named(method).check(backend, "bits")
    if out is not None and (not isinstance(out, BitMatrix) or out.shape != A.shape):
        raise ShapeError(f"out must be a BitMatrix of shape {A.shape}, or None")
    explanation = call.explanation
    explanation.shape, explanation.dtype, explanation.storage = A.shape, np.dtype(bool), "packed bits"
    explanation.backend = backend.name
    call.note("a BitMatrix stays packed")
    call = call.by(method)
    target = A.copy() if out is None else out
    if target is not A:
        target.words[...] = A.words
    close_words(call.execution, call.semiring, target, call.reflexive)
    return target


# ------------------------------------------------------------------------------------------------- sparse matrices


def _is_sparse(A: Any) -> bool:
    scipy_sparse = sys.modules.get("scipy.sparse")  # a sparse matrix cannot exist before its module is loaded
    return scipy_sparse is not None and bool(scipy_sparse.issparse(A))


def _close_sparse(call: Call, A: Any, out: Any) -> Array:
    if len(A.shape) != 2 or A.shape[0] != A.shape[1]:
        raise ShapeError(f"A is {A.shape}: a closure needs a square matrix")
    n, edges, dtype = A.shape[0], A.nnz, np.dtype(A.dtype)
    shortest = is_tropical(call.semiring) and dtype.kind == "f" and call.semiring.supports(dtype)
    method = call.asked
    if method == "auto" and shortest:
        dense, sparse = dense_seconds(n, dtype.itemsize, call.execution.threads), johnson_seconds(n, edges)
        method = "johnson" if sparse < dense else "auto"
        shown = f"{edges} edges: about {sparse:.2g} s by Dijkstra from every vertex, {dense:.2g} s dense"
        call.note(shown)
    if takes_edges(method) and shortest:
        if np.isinf(A.tocoo().data).any():
            method = "auto"  # edges of unbounded gain are the dense closure's business
        else:
            target = np.empty(A.shape, dtype) if out is None else as_output(out, A.shape, dtype)
            explanation = call.explanation
            explanation.shape, explanation.dtype, explanation.backend = A.shape, dtype, "scipy"
            graph = sparse_graph(A, 1 if call.semiring.tropical == "min" else -1)
            close_edges(call.by(method), graph, graph_potentials(graph, dtype), target)
            return target if out is None else out
    asked = "auto" if takes_edges(call.asked) and shortest else call.asked
    array = as_array(A, call.semiring)
    ours = array if out is None and array.dtype.kind != "i" else out  # integers may have to begin again: see above
    result = close_dense(replace(call, asked=asked), array, ours)
    return result if out is None else out
