"""Answer questions about one pair of vertices beyond its best path: ties, paths in order, and paths that avoid an edge.

`Paths` has these methods. Each reads the `PathGraph` of the paths.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray

from semiring.advice import quote
from semiring.algebra import Semiring
from semiring.arguments import require_flag, require_integer
from semiring.errors import NoPathError

if TYPE_CHECKING:  # the modules that search import Numba, which the first distances do without
    from semiring.paths.path_order import PathsInOrder
    from semiring.paths.ties import PathGraph
    from semiring.sparse.edge_inputs import SparseEntries

__all__ = ["PairQueries"]

Answer = TypeVar("Answer")
Array = NDArray[Any]


class PairQueries:
    """The methods of `Paths` about ties and ranked paths of a pair of vertices."""

    semiring: Semiring
    names: tuple[Hashable, ...] | None
    #: The function `best_paths`, for distances that were not requested. The module `semiring.paths.functions` sets it,
    #: because it imports this one.
    _search: ClassVar[Callable[..., Any]]

    # ---------------------------------------------------------------------------------- provided by the kinds of paths

    @property
    def _graph(self) -> PathGraph:
        """The edges and the distances of these paths."""
        raise NotImplementedError

    def _ask_graph(self, source: int, target: int, ask: Callable[[PathGraph], Answer]) -> Answer:
        """Return ``ask(graph)`` for a graph with the edges on walks from a source to a target."""
        return ask(self._graph)

    def _direct_edges(self, rtol: float | None) -> SparseEntries:
        """Return the edges that are themselves best paths."""
        raise NotImplementedError

    def _refuse_stack(self, name: str) -> None:
        """Raise `ShapeError` if these are paths of a stack."""
        raise NotImplementedError

    def _require_bounded(self, source: int | None, target: int | None) -> None:
        """Raise `NegativeCycleError` if walks between two vertices improve without end; None: any vertices."""
        raise NotImplementedError

    def _select_pair(self, method: str, source: Any, target: Any) -> tuple[int, int]:
        """Return the numbers of a source and a target of these paths. Raises `VertexError` and `ShapeError`."""
        raise NotImplementedError

    def index(self, vertex: Any) -> int:
        """Return the number of a vertex."""
        raise NotImplementedError

    def name(self, vertex: int) -> Any:
        """Return the name of a vertex."""
        raise NotImplementedError

    # ------------------------------------------------------------------------------------------------------ ties

    def count(self, source: Any, target: Any, *, rtol: float | None = None) -> int:
        """Return the number of best paths from one vertex to another.

        Parameters
        ----------
        source, target : vertex
            The ends of the paths, by number or name.
        rtol : float, optional
            Two floats are equal within ``rtol`` times their size. The default is the rounding of two sums: ε of the
            dtype times the number of edges of the longest best path, or of vertices if these paths have no
            predecessors. With 0, and for integers, only equal numbers are, and the edges whose sum is best where
            rounding leaves no equal one.

        Returns
        -------
        int
            The number, without a bound: 0 if there is no path, and 1 from a vertex to itself.

        Raises
        ------
        AlgebraError
            In semirings where best paths are not made of best parts alone, such as max_min. `all_paths` lists them.
        DivergenceError
            If a cycle of weight 1̄ (0 in min-plus) lies on a best path, so that infinitely many walks are best.
        VertexError, ShapeError
            If one of the ends is not a vertex, or these are the paths of a stack.
        TypeError, ValueError
            For another ``rtol``.

        Notes
        -----
        Loops are ignored. The cost is one pass over the edges.

        Examples
        --------
        >>> import semiring as sr
        >>> inf = float("inf")
        >>> sr.shortest_paths([[inf, 0.1, inf, 0.3], [inf, inf, 0.2, 0.2], [inf] * 4, [inf] * 4]).count(0, 3)
        2
        >>> 0.1 + 0.2 == 0.3
        False
        """
        from semiring.paths.ties import require_countable

        require_countable(self.semiring)
        i, j = self._select_pair("count", source, target)
        self._require_bounded(i, j)
        return self._ask_graph(i, j, lambda graph: graph.count(i, j, rtol))

    def all_paths(self, source: Any, target: Any, *, rtol: float | None = None) -> Iterator[list[Any]]:
        """List all best simple paths from one vertex to another.

        Parameters
        ----------
        source, target : vertex
            The ends of the paths, by number or name.
        rtol : float, optional
            The relative difference within which sums of floats are equal, as in `count`.

        Returns
        -------
        iterator of list
            The paths as `path` returns them, in lexicographic order of the numbers of their vertices. It is empty if
            there is no path. From a vertex to itself it is ``[source]``.

        Raises
        ------
        VertexError, ShapeError, TypeError, ValueError
            As in `count`.

        Notes
        -----
        The cost is one pass over the edges, and O(n) for each path. If edges that leave the weight as it is form
        cycles, it is O(n · m) for each path. That is common in max_min, where edges may be wider than the path.

        Examples
        --------
        >>> import semiring as sr
        >>> inf = float("inf")
        >>> found = sr.shortest_paths([[inf, 1, 1, inf], [inf, inf, inf, 1], [inf, inf, inf, 1], [inf] * 4])
        >>> list(found.all_paths(0, 3))
        [[0, 1, 3], [0, 2, 3]]
        """
        from semiring.paths.ties import list_paths

        i, j = self._select_pair("all_paths", source, target)
        self._require_bounded(i, j)
        found = list_paths(self._ask_graph(i, j, lambda graph: graph.tight_edges(i, j, rtol)), i, j)
        return ([self.name(vertex) for vertex in vertices] for vertices in found)

    def tight_edges(self, source: Any = None, target: Any = None, *, rtol: float | None = None) -> Any:
        """Return the graph of best walks: the edges that lie on one.

        Parameters
        ----------
        source, target : vertex, optional
            The ends of the paths, by number or name. With one of them, edges on best paths from or to that vertex are
            returned. By default, all edges that are themselves best paths.
        rtol : float, optional
            The relative difference within which sums of floats are equal, as in `count`.

        Returns
        -------
        scipy.sparse.csr_array, shape (n, n)
            The weights of these edges, in float32 for float16 and bfloat16. Loops are left out, and an edge of weight 0
            is stored.

        Raises
        ------
        VertexError, ShapeError, TypeError, ValueError
            As in `count`.

        Examples
        --------
        >>> import semiring as sr
        >>> inf = float("inf")
        >>> sr.shortest_paths([[inf, 1, 5], [inf, inf, 2], [inf, inf, inf]]).tight_edges().toarray()
        array([[0., 1., 0.],
               [0., 0., 2.],
               [0., 0., 0.]])
        """
        from scipy.sparse import csr_array

        self._refuse_stack("tight_edges")
        i, j = (None if end is None else self.index(end) for end in (source, target))
        if i is j is None:
            edges = self._direct_edges(rtol)
        else:
            self._require_bounded(i, j)
            edges = (
                self._ask_graph(i, j, lambda graph: graph.tight_edges(i, j, rtol))
                if i is not None and j is not None
                else self._graph.tight_edges(i, j, rtol)
            )
        pattern = edges.pattern
        return csr_array((edges.values, pattern.indices, pattern.starts), shape=(pattern.n, pattern.n))

    # --------------------------------------------------------------------------------------------- the next best

    def k_shortest(self, source: Any, target: Any, k: int | None = None, *, simple: bool = True) -> Iterator[Any]:
        """List the paths between two vertices, the best first, as `semiring.k_shortest_paths`, by these distances.

        Parameters
        ----------
        source, target : vertex
            The ends of the paths, by number or name.
        k : int, optional
            The most paths to list. By default all.
        simple : bool, default True
            Whether a path visits no vertex twice. Otherwise walks are listed.

        Returns
        -------
        iterator of RankedPath
            Pairs ``(distance, path)``, as `semiring.k_shortest_paths` lists them.

        Raises
        ------
        AlgebraError, IntegerOverflowError, TypeError, ValueError
            As in `semiring.k_shortest_paths`.
        VertexError, ShapeError
            If one of the ends is not a vertex, or these are the paths of a stack.

        Examples
        --------
        >>> import semiring as sr
        >>> inf = float("inf")
        >>> P = sr.shortest_paths([[inf, 1, 4], [inf, inf, 1], [inf, inf, inf]], names="abc")
        >>> [(float(distance), path) for distance, path in P.k_shortest("a", "c")]
        [(2.0, ['a', 'b', 'c']), (4.0, ['a', 'c'])]
        """
        require_flag(simple, "simple")
        count = None if k is None else require_integer(k, "k", 0)
        problem = self._in_order("k_shortest", source, target)
        ranked: Iterator[Any] = problem.named(self.names, count, simple=bool(simple))
        return ranked

    def _in_order(self, method: str, source: Any, target: Any) -> PathsInOrder:
        """Return the paths between two vertices in order."""
        from semiring.paths.path_order import paths_in_order, search_in_order

        i, j = self._select_pair(method, source, target)
        self._require_bounded(i, j)

        def order(graph: PathGraph) -> PathsInOrder:
            edges = graph.between(i, j)
            if graph.dtype.kind == "f" and graph.dtype.itemsize < 8:
                return search_in_order(self._search, self.semiring, edges, i, j)
            return paths_in_order(self.semiring, edges, i, j, graph.distances_to(j))

        return self._ask_graph(i, j, order)

    def path_without(
        self, source: Any, target: Any, *, edge: tuple[Any, Any] | None = None, vertex: Any = None
    ) -> list[Any]:
        """Return the best path that avoids an edge or a vertex, such as a road that is closed.

        Parameters
        ----------
        source, target : vertex
            The ends of the path, by number or name.
        edge : pair of vertices, optional
            The edge from the first to the second. The edge in the other direction may be used.
        vertex : vertex, optional
            A vertex other than the ends.

        Returns
        -------
        list
            The vertices, as `path` returns them. Of several best paths it is the lexicographically first.

        Raises
        ------
        NoPathError
            If every path needs the edge or the vertex, or there is no path.
        ValueError
            If neither an edge nor a vertex is given, or the vertex is an end, or the edge is not a pair.
        AlgebraError, IntegerOverflowError
            As in `semiring.k_shortest_paths`.
        VertexError, ShapeError
            If a vertex does not exist, or these are the paths of a stack.

        Examples
        --------
        >>> import semiring as sr
        >>> inf = float("inf")
        >>> P = sr.shortest_paths([[inf, 1, 4], [inf, inf, 1], [inf, inf, inf]])
        >>> P.path_without(0, 2, vertex=1)
        [0, 2]
        """
        if edge is None and vertex is None:
            raise ValueError("path_without avoids something: pass edge=(u, v) or vertex=v")
        if edge is not None and (isinstance(edge, str) or not isinstance(edge, Sequence) or len(edge) != 2):
            raise ValueError(f"edge is a pair of vertices (u, v), not {quote(edge)}")
        problem = self._in_order("path_without", source, target)
        avoided = None if vertex is None else self.index(vertex)
        if avoided in (problem.source, problem.target):
            raise ValueError(f"vertex is {quote(vertex)}, an end of the path: name another one")
        _, path = problem.avoid(None if edge is None else (self.index(edge[0]), self.index(edge[1])), avoided)
        if not path:
            ends = self.name(problem.source), self.name(problem.target)
            raise NoPathError(f"no path leads from {ends[0]} to {ends[1]} without it")
        return [self.name(v) for v in path]

    def most_vital_edge(self, source: Any, target: Any) -> tuple[tuple[Any, Any], Any]:
        """Return the edge of a best path whose loss makes the distance worst, and the distance without it.

        Parameters
        ----------
        source, target : vertex
            Two different vertices, by number or name.

        Returns
        -------
        edge : pair of vertices
            The edge. Of several it is the first on the path.
        distance : NumPy scalar
            The distance without it: the semiring's zero, ∞ in min-plus, if every path needs it.

        Raises
        ------
        NoPathError
            If there is no path.
        ValueError
            If the ends are one vertex, whose path has no edge.
        AlgebraError, IntegerOverflowError, VertexError, ShapeError
            As in `path_without`.

        Notes
        -----
        The cost is a search for each edge of the path. Source: K. Malik, A. K. Mittal, S. K. Gupta, "The k most vital
        arcs in the shortest path problem", Operations Research Letters 8 (1989).

        Examples
        --------
        >>> import semiring as sr
        >>> inf = float("inf")
        >>> edge, distance = sr.shortest_paths([[inf, 1, 4], [inf, inf, 1], [inf, inf, inf]]).most_vital_edge(0, 2)
        >>> edge, float(distance)
        ((0, 1), 4.0)
        """
        problem = self._in_order("most_vital_edge", source, target)
        if problem.source == problem.target:
            raise ValueError("the path from a vertex to itself has no edge: name two vertices")
        _, path = next(problem.simple_paths(), (None, []))
        if not path:
            ends = self.name(problem.source), self.name(problem.target)
            raise NoPathError(f"no path leads from {ends[0]} to {ends[1]}")
        (u, v), value = problem.most_vital(path)
        return (self.name(u), self.name(v)), np.float64(value) if value == problem.zero else problem.dtype.type(value)
