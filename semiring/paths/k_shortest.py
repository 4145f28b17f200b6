"""List the paths between two vertices of a graph in the order of their weights: see `semiring.paths.path_order`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from semiring.algebra import Semiring
from semiring.algebra.catalogue import as_semiring
from semiring.arguments import require_flag, require_integer
from semiring.arrays.vertices import Vertices
from semiring.errors import DivergenceError
from semiring.io.inputs import Reading
from semiring.io.network import semiring_of
from semiring.paths.functions import best_paths
from semiring.paths.path_order import RankedPath, require_order, search_in_order
from semiring.sparse.edge_inputs import edges_of, relevant_edges

__all__ = ["k_shortest_paths"]


def k_shortest_paths(
    A: Any,
    source: Any,
    target: Any,
    k: int | None = None,
    *,
    semiring: Semiring | str | None = None,
    simple: bool = True,
    weight: Any = None,
    directed: bool | None = None,
    columns: tuple[str, str] | None = None,
    check: bool = True,
) -> Iterator[RankedPath]:
    """List the paths between two vertices, the best first, then the next best, and so on.

    Parameters
    ----------
    A : array_like, shape (n, n)
        The weights of edges, or a graph as in `best_paths`. Weights may be negative, without a negative cycle.
    source, target : vertex
        The ends of the paths, by number or name.
    k : int, optional
        The most paths to list. By default all.
    semiring : Semiring or str, optional
        ``"min_plus"`` for shortest paths, ``"max_plus"``, ``"max_min"`` (widest), ``"min_max"``, ``"max_times"`` (most
        reliable) or ``"min_times"``. By default that of a `Network`, else min-plus.
    simple : bool, default True
        Whether a path visits no vertex twice. Otherwise walks are listed, which may be infinitely many.
    weight, directed, columns : optional
        How edges are read, as in `best_paths`.
    check : bool, default True
        Whether to warn of the "no edge" of another convention, as in `best_paths`.

    Returns
    -------
    iterator of RankedPath
        Pairs ``(distance, path)``, the path by names if the graph has some. Paths of equal weight are in lexicographic
        order of the numbers of their vertices, walks first by their number of edges. It is empty if there is no path.

    Raises
    ------
    VertexError
        If an end is not a vertex.
    NegativeCycleError, DivergenceError
        If a cycle on a walk between the ends improves without end.
    IntegerOverflowError
        If sums of integers may leave 2⁵³ in magnitude.
    AlgebraError
        For another semiring.
    ValueError, TypeError
        If k is negative or not an integer, or ``simple`` is not a truth value.
    ShapeError, DTypeError, DomainError, FormatError
        As in `best_paths`.

    Notes
    -----
    The first path takes one search to the target. Each further path takes a search that visits the vertices whose
    distance over the new path is no worse. Walks take a step of a queue for each of their vertices. Sums are computed
    in float64 from the source on, and rounded once. Sources: J. Y. Yen, Management Science 17 (1971); E. L. Lawler,
    Management Science 18 (1972). `semiring.paths.path_order` argues that the list is complete and in order.

    Examples
    --------
    >>> inf = float("inf")
    >>> A = [[inf, 1, 4, inf], [inf, inf, 1, 5], [inf, inf, inf, 1], [inf, inf, inf, inf]]
    >>> for distance, path in k_shortest_paths(A, 0, 3):
    ...     print(float(distance), path)
    3.0 [0, 1, 2, 3]
    5.0 [0, 2, 3]
    6.0 [0, 1, 3]
    """
    algebra = as_semiring(semiring_of(A, semiring))
    require_order(algebra)
    require_flag(simple, "simple")
    count = None if k is None else require_integer(k, "k", 0)
    reading = Reading(weight, directed, columns)
    reading.check(A)
    edges = edges_of(A, algebra, reading=reading, check=check).require_eliminable()
    vertices = Vertices(edges.pattern.n, edges.names)
    i, j = vertices.index(source), vertices.index(target)
    try:
        relevant = relevant_edges(edges, np.array([i]), np.array([j])) or edges
        problem = search_in_order(best_paths, algebra, relevant, i, j)
    except DivergenceError as error:
        raise error.of_paths().named(vertices.names) from None
    return problem.named(vertices.names, count, simple=bool(simple))
