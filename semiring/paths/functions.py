"""From a matrix of edge weights to its best paths: one function for every semiring, and five by their names."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import Any

import numpy as np

from semiring.algebra import Semiring
from semiring.algorithms.progress import Progress
from semiring.arrays import as_matrix, as_result, in_host_memory, on_their_device, operands, refuse_unreal
from semiring.bits import BitMatrix
from semiring.catalogue import as_semiring, boolean, max_min, max_plus, max_times, min_plus
from semiring.closures import closure, closure_with_predecessors
from semiring.errors import AlgebraError, DomainError, NegativeCycleError, ShapeError
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
) -> Paths:
    """The best paths between all pairs of vertices, in any semiring whose ⊕ selects one of its arguments.

    Parameters
    ----------
    A
        (n, n): A[i, j] is the weight of the edge i → j, the semiring's zero where there is no edge. An array, a list, a
        SciPy sparse matrix (what it does not store is no edge), or a pandas frame, whose labels become ``names``.
    semiring
        Weights are combined along a path by ⊗, paths compared by ⊕.
    names
        n different names of the vertices.
    predecessors
        Whether to find all paths now: for 1.1 to 1.3 times the time, and n² int32 of memory, `Paths.path` costs nothing
        afterwards. Without them it makes a run of its own for each source, and A must not change meanwhile.
    method, progress, check, threads, device
        As in `semiring.closure`. Matrix and predecessors are of the library of A, and live where A does.

    Raises what `semiring.closure` raises, `NegativeCycleError` (and `DivergenceError`) among it; `AlgebraError` where
    ⊕ is not selective; `ShapeError` where names and vertices do not fit.
    """
    algebra = as_semiring(semiring)
    if not algebra.selective:
        raise AlgebraError(
            f"the ⊕ of {algebra.name} adds paths up instead of selecting one: there are no best paths, only closures"
        )
    known = _names_of(A, names)
    try:
        if not predecessors:
            return Paths(
                closure(A, algebra, method=method, progress=progress, check=check, threads=threads, device=device),
                algebra,
                names=known,
                weights=A,
            )
        (matrix,) = operands(algebra, device=device, A=A.unpack() if isinstance(A, BitMatrix) else A)
        matrix = as_matrix(matrix, algebra, square=True)
        distances, found = closure_with_predecessors(
            matrix, algebra, method=method, progress=progress, check=check, threads=threads
        )
    except NegativeCycleError as error:
        if known is None or not error.cycle:
            raise
        shown = " → ".join(str(known[vertex]) for vertex in (*error.cycle, error.cycle[0]))
        named = tuple(known[vertex] for vertex in error.cycle)
        raise NegativeCycleError(f"{error}; by name, it is {shown}", error.cycle, named) from None
    back = as_result(A)
    weights = matrix if device is None else A
    return Paths(back(distances), algebra, back(found), names=known, weights=weights)


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
) -> Paths:
    """Which vertex reaches which: A (n, n) bool, or integers 0 and 1, or a `BitMatrix`.

    ``reflexive``: every vertex reaches itself; otherwise only along a cycle, and ``path(v, v)`` is one.
    Options and cost: `best_paths`.
    Raises `DomainError` for entries other than 0 and 1, for elsewhere a weight of 0 is an edge: say ``A != 0``, or
    ``A < inf``.
    """
    truths = _truths(A)
    found = best_paths(
        truths,
        boolean,
        names=_names_of(A, names),
        predecessors=predecessors,
        method=method,
        progress=progress,
        check=check,
        threads=threads,
        device=device,
    )
    return found if reflexive else found.without_empty_paths()


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


def _names_of(A: Any, names: Iterable[Hashable] | None) -> Sequence[Hashable] | None:
    """The names given, or those of the rows of a frame, which must be those of its columns."""
    if names is not None:
        return tuple(names)
    if not (hasattr(A, "index") and hasattr(A, "columns") and hasattr(A, "to_numpy")):
        return None
    rows, columns = tuple(A.index), tuple(A.columns)
    if rows == columns:
        return rows
    if set(rows) == set(columns):
        raise ShapeError("the rows and the columns of A have the same names in another order: pass A[A.index]")
    if rows == tuple(range(len(rows))) or columns == tuple(range(len(columns))):
        return columns if rows == tuple(range(len(rows))) else rows
    raise ShapeError("the rows and the columns of A have different names: a network needs the same vertices in both")
