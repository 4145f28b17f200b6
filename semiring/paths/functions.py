"""From a matrix of edge weights to its best paths: one function for every semiring, and five by their names."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Any

import numpy as np

from semiring.algebra import Semiring
from semiring.algebra.catalogue import as_semiring, boolean, max_min, max_plus, max_times, min_plus
from semiring.algorithms.progress import Progress
from semiring.arrays.bits import BitMatrix
from semiring.arrays.labels import Taken, names_vertices
from semiring.arrays.operands import as_matrix, as_result, in_host_memory, on_their_device, operands, refuse_unreal
from semiring.closures import closure, closure_with_predecessors
from semiring.errors import AlgebraError, DivergenceError, DomainError, ShapeError
from semiring.namespaces import is_device_array
from semiring.paths.result import Paths

__all__ = [
    "best_paths",
    "longest_paths",
    "most_reliable_paths",
    "shortest_paths",
    "transitive_closure",
    "widest_paths",
]


@on_their_device
def best_paths(
    A: Any,
    semiring: Semiring | str = "min_plus",
    *,
    names: Iterable[Hashable] | None = None,
    predecessors: bool = True,
    method: str = "auto",
    progress: Progress | None = None,
    check: bool = True,
    threads: int | None = None,
    device: Any = None,
    structure: bool | str | Iterable[str] = True,
) -> Paths:
    """The best paths between all pairs of vertices, in any semiring whose ⊕ selects one of its arguments.

    Parameters
    ----------
    A
        (n, n): A[i, j] is the weight of the edge i → j, the semiring's zero where there is no edge. An array, a list, a
        SciPy sparse matrix (what it does not store is no edge). Or what names its vertices: a square frame, a frame of
        edges, a graph of NetworkX, igraph or rustworkx, a `Network`; see `semiring.network_of`, which has the
        options for them.
    semiring
        Weights are combined along a path by ⊗, paths compared by ⊕.
    names
        n different names of the vertices.
    predecessors
        Whether to find all paths now: for 1.1 to 1.3 times the time, and n² int32 of memory (a copy of A more while it
        runs), `Paths.path` costs nothing afterwards. Without them it makes a run of its own for each source, and A must
        not change meanwhile.
    method, progress, check, threads, device, structure
        As in `semiring.closure`. Matrix and predecessors are of the library of A, and live where A does.

    Raises what `semiring.closure` raises, `NegativeCycleError` (and `DivergenceError`) among it; `AlgebraError` where
    ⊕ is not selective; `ShapeError` where names and vertices do not fit.
    """
    algebra = as_semiring(semiring)
    if not algebra.selective:
        raise AlgebraError(
            f"the ⊕ of {algebra.name} adds paths up instead of selecting one: there are no best paths, only closures"
        )
    taken = _taken(A, algebra)
    options: dict[str, Any] = {"method": method, "progress": progress, "check": check, "threads": threads}
    options["structure"] = structure
    known = taken.names if names is None else tuple(names)
    return _best_paths(taken, algebra, known, predecessors, device, options)


def _taken(A: Any, semiring: Semiring) -> Taken:
    if not names_vertices(A):
        return Taken(A, None, _as_it_is)
    from semiring.io.inputs import take

    taken = take(A, semiring)
    return taken if taken.network is None else taken._replace(back=_as_it_is)


def _as_it_is(result: Any) -> Any:
    return result


def _best_paths(
    taken: Taken,
    semiring: Semiring,
    names: tuple[Hashable, ...] | None,
    predecessors: bool,
    device: Any,
    options: dict[str, Any],
) -> Paths:
    A = taken.matrix
    _refuse_stack(A)
    try:
        if not predecessors:
            closed = closure(A, semiring, device=device, **options)
            return Paths(taken.back(closed), semiring, names=names, weights=A)
        matrix = as_matrix(A.unpack() if isinstance(A, BitMatrix) else A, semiring, square=True, device=device)
        distances, found = closure_with_predecessors(matrix, semiring, **options)
    except (DivergenceError, DomainError) as error:
        raise error.named(names) from None
    back = as_result(A)
    weights = matrix if device is None else A
    return Paths(taken.back(back(distances)), semiring, back(found), names=names, weights=weights)


def _refuse_stack(A: Any) -> None:
    dimensions, first = 0, A
    while isinstance(first, list | tuple) and first:
        dimensions, first = dimensions + 1, first[0]
    dimensions += getattr(first, "ndim", 0)
    if dimensions > 2:
        raise ShapeError(
            f"A has {dimensions} dimensions, and these are the paths of one matrix (n, n): call the function for each "
            "matrix of a stack; closure takes the stack as it is"
        )


def shortest_paths(
    A: Any,
    *,
    names: Iterable[Hashable] | None = None,
    predecessors: bool = True,
    method: str = "auto",
    progress: Progress | None = None,
    check: bool = True,
    threads: int | None = None,
    device: Any = None,
    structure: bool | str | Iterable[str] = True,
) -> Paths:
    """The shortest paths between all pairs, in min-plus: ∞ (the largest of an integer dtype) is no edge, 0 is a weight.

    Options, errors and cost: `best_paths`. Negative weights are welcome; a negative cycle is an error that names it.

    >>> inf = float("inf")
    >>> found = shortest_paths([[inf, 7, 1], [inf, inf, inf], [inf, 2, inf]], names=["a", "b", "c"])
    >>> found.path("a", "b"), float(found.distance("a", "b"))
    (['a', 'c', 'b'], 3.0)
    >>> found
    <Paths of 3 vertices in min_plus, float64: 3 of 6 pairs connected, with predecessors>
    """
    return best_paths(
        A,
        min_plus,
        names=names,
        predecessors=predecessors,
        method=method,
        progress=progress,
        check=check,
        threads=threads,
        device=device,
        structure=structure,
    )


def longest_paths(
    A: Any,
    *,
    names: Iterable[Hashable] | None = None,
    predecessors: bool = True,
    method: str = "auto",
    progress: Progress | None = None,
    check: bool = True,
    threads: int | None = None,
    device: Any = None,
    structure: bool | str | Iterable[str] = True,
) -> Paths:
    """The longest paths between all pairs, in max-plus: -∞ (the smallest of an integer dtype) is no edge.

    Only where no cycle has a positive weight, as in a schedule, are there any: `NegativeCycleError` names one that has.
    Options and cost: `best_paths`.
    """
    return best_paths(
        A,
        max_plus,
        names=names,
        predecessors=predecessors,
        method=method,
        progress=progress,
        check=check,
        threads=threads,
        device=device,
        structure=structure,
    )


def widest_paths(
    A: Any,
    *,
    names: Iterable[Hashable] | None = None,
    predecessors: bool = True,
    method: str = "auto",
    progress: Progress | None = None,
    check: bool = True,
    threads: int | None = None,
    device: Any = None,
    structure: bool | str | Iterable[str] = True,
) -> Paths:
    """The paths whose narrowest edge is widest, in max-min: -∞ is no edge (0 of a uint8).

    Options, errors and cost: `best_paths`. The distance of a vertex from itself is ∞: nothing is narrow there.
    """
    return best_paths(
        A,
        max_min,
        names=names,
        predecessors=predecessors,
        method=method,
        progress=progress,
        check=check,
        threads=threads,
        device=device,
        structure=structure,
    )


def most_reliable_paths(
    A: Any,
    *,
    names: Iterable[Hashable] | None = None,
    predecessors: bool = True,
    method: str = "auto",
    progress: Progress | None = None,
    check: bool = True,
    threads: int | None = None,
    device: Any = None,
    structure: bool | str | Iterable[str] = True,
) -> Paths:
    """The paths with the greatest product of weights, in max-times: probabilities in [0, 1], 0 is no edge.

    Weights above 1 are taken as long as no cycle gains by them (`DivergenceError`). Options and cost: `best_paths`.
    """
    return best_paths(
        A,
        max_times,
        names=names,
        predecessors=predecessors,
        method=method,
        progress=progress,
        check=check,
        threads=threads,
        device=device,
        structure=structure,
    )


@on_their_device
def transitive_closure(
    A: Any,
    *,
    reflexive: bool = True,
    names: Iterable[Hashable] | None = None,
    predecessors: bool = True,
    method: str = "auto",
    progress: Progress | None = None,
    check: bool = True,
    threads: int | None = None,
    device: Any = None,
    structure: bool | str | Iterable[str] = True,
) -> Paths:
    """Which vertex reaches which: A (n, n) bool, or integers 0 and 1, a `BitMatrix`, or any list of edges.

    ``reflexive``: every vertex reaches itself; otherwise only along a cycle, and ``path(v, v)`` is one.
    Options and cost: `best_paths`.
    Raises `DomainError` for entries other than 0 and 1, for elsewhere a weight of 0 is an edge: say ``A != 0``, or
    ``A < inf``.
    """
    taken = _taken(A, boolean)
    options: dict[str, Any] = {"method": method, "progress": progress, "check": check, "threads": threads}
    options["structure"] = structure
    known = taken.names if names is None else tuple(names)
    _refuse_stack(taken.matrix)
    truths = Taken(_truths(taken.matrix), known, _as_it_is)
    found = _best_paths(truths, boolean, known, predecessors, device, options)
    if not reflexive:
        found = found.without_empty_paths()
    found.matrix = taken.back(found.matrix)
    return found


def _truths(A: Any) -> Any:
    """A dense matrix of truths from truths, or from zeros and ones."""
    if isinstance(A, BitMatrix):
        return A.unpack()
    if is_device_array(A):
        (values,) = operands(as_semiring("max_min"), A=A)
        truths = values.astype(np.bool_)
        if not bool((truths == values).all()):
            raise _not_truths()
        return as_matrix(truths, boolean, square=True)
    values = in_host_memory(A)
    refuse_unreal(values)
    if hasattr(values, "tocoo"):
        stored, truths = np.asarray(values.tocoo().data), as_matrix(values.astype(bool), boolean, square=True)
    else:
        stored = np.asarray(values)
        truths = as_matrix(stored.astype(bool), boolean, square=True)
    if not np.array_equal(stored.astype(bool), stored):
        raise _not_truths()
    return truths


def _not_truths() -> DomainError:
    return DomainError("A holds more than 0 and 1: say which entries are edges, by A != 0 or A < inf")
