"""Solve all-pairs shortest paths of sparse graphs by Johnson's algorithm: potentials, then Dijkstra's algorithm.

Sources: D. B. Johnson, "Efficient algorithms for shortest paths in sparse networks", JACM 24 (1977); Buluç, Gilbert,
Budak 2010, section 4.4, for the comparison with dense elimination.

Cost: O(n (m + n) log n) for m edges, in float64, with the sources distributed over threads. The result is dense. The
algorithm is faster only for sparse graphs: a dense closure computes some thousand pairs in the time of one settled
vertex (`schedule`).

It does not compute other semirings than min-plus and max-plus, integer dtypes, or pivots. Its hazards are those of
`potentials`, including the treatment of rounding and of negative cycles.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from semiring.algebra.catalogue import max_plus, min_plus
from semiring.algebra.expressions.tree import is_floating
from semiring.algorithms.algorithm import AUTO, Algorithm, Circumstances
from semiring.algorithms.bellman_ford import Labels, bellman_ford
from semiring.algorithms.dijkstra import Searches
from semiring.algorithms.potentials.rounding import is_shift_accurate
from semiring.algorithms.potentials.sweeps import cycle_error
from semiring.algorithms.potentials.tropical_weights import check_range, roundings, weight_rounding
from semiring.algorithms.schedule import search_operations
from semiring.arrays.entries import check_entries
from semiring.arrays.scans import unbounded_error
from semiring.arrays.sparse import stored_entries
from semiring.errors import DomainError
from semiring.graphs.graph_structure import FEW
from semiring.kernels.engine import Engine, make_plan
from semiring.namespaces import Array
from semiring.thread_counts import get_threads
from semiring.thread_counts import threads as thread_count

if TYPE_CHECKING:
    from semiring.closures.problem import Facts, Problem

__all__ = [
    "Johnson",
    "SparseGraph",
    "edge_graph",
    "edge_potentials",
    "graph_potentials",
    "johnson",
    "make_searches",
    "sparse_graph",
]

_INFINITE = "an edge has no finite weight"
_SIZES = "weights of very different size: each strong component needs potentials of its own"

_MIN_ORDERED = 2000  # vertices of the smallest graph whose first pass follows the order of the components
_ENTRIES = 1 << 22  # float64 distances that one call of Dijkstra's algorithm computes


@dataclass(frozen=True)
class SparseGraph:
    """The edges of a min-plus graph, sorted by head, without parallel edges, and with weights in float64."""

    n: int
    tails: NDArray[Any]
    heads: NDArray[Any]
    weights: NDArray[Any]
    sign: int
    epsilon: float  # relative rounding of a weight, or 0 if all weights are whole numbers
    is_reversed: bool = False  # whether the edges are the reversed edges of the caller


def sparse_graph(matrix: Any, sign: int, rounded_to: Any = None) -> SparseGraph:
    """Return the `edge_graph` of a SciPy sparse matrix of floats that has passed `check_sparse`."""
    return edge_graph(matrix.shape[0], *stored_entries(matrix), sign, rounded_to)


def edge_graph(
    n: int, tails: NDArray[Any], heads: NDArray[Any], entries: NDArray[Any], sign: int, rounded_to: Any = None
) -> SparseGraph:
    """Return the graph of n vertices with these edges, where only the best of parallel edges remains.

    ``tails``, ``heads`` and ``entries`` (m,) are the ends and the weights of the edges. ``rounded_to`` is the dtype to
    which the weights were rounded, by default the dtype of ``entries``. Raises `DomainError` for NaN, as
    `check_entries` does, and for an edge of unbounded gain.
    """
    tails, heads, weights = tails.astype(np.int64), heads.astype(np.int64), sign * entries.astype(np.float64)
    semiring = min_plus if sign > 0 else max_plus
    try:
        check_entries(entries, semiring)
    except DomainError as error:
        (entry,) = error.position
        raise error.at(int(tails[entry]), int(heads[entry])) from None
    if (gaining := np.flatnonzero(weights == -np.inf)).size:
        first = int(gaining[0])
        raise unbounded_error(-sign * np.inf, (int(tails[first]), int(heads[first])), semiring)
    order = np.lexsort((weights, tails, heads))
    order = order[weights[order] < np.inf]
    tails, heads, weights = tails[order], heads[order], weights[order]
    is_first = np.ones(order.size, bool)
    is_first[1:] = (tails[1:] != tails[:-1]) | (heads[1:] != heads[:-1])
    tails, heads, weights = tails[is_first], heads[is_first], weights[is_first]
    whole = bool((weights == np.rint(weights)).all()) and float(np.abs(weights).max(initial=0)) * n < 2**49
    rounds = is_floating(entries.dtype) and not whole
    epsilon = weight_rounding(entries.dtype, rounded_to) if rounds else 0.0
    return SparseGraph(n, tails, heads, weights, sign, epsilon)


def graph_potentials(graph: SparseGraph, dtype: np.dtype[Any]) -> NDArray[Any] | None:
    """Return potentials h (n,) float64 under which no edge is negative, for distances of ``dtype``.

    The result is None if the weights differ so much in size that the rounding of potentials would drown a weight
    (`semiring.algorithms.potentials.rounding`). The dense closure handles such graphs.

    Raises `NegativeCycleError`, and `DomainError` where sums of weights may leave the range of the dtype.
    """
    if not bool((graph.weights < 0).any()):
        return np.zeros(graph.n)
    with np.errstate(over="ignore", invalid="ignore"):  # `check_range` reports the overflow
        h = edge_potentials(graph)
    check_range(h, float(graph.weights.min()), float(graph.weights.max()), dtype)
    sizes = np.abs(graph.weights)
    return h if not graph.epsilon or is_shift_accurate(h, sizes.min(initial=np.inf, where=sizes > 0)) else None


def make_searches(graph: SparseGraph, h: NDArray[Any], threads: int | None = None) -> Searches:
    """Return the edges for Dijkstra's algorithm, with the weights max(w[i, j] + h[i] - h[j], 0), for h (n,)."""
    order = np.argsort(graph.tails, kind="stable")  # the heads of each tail stay sorted
    tails, heads = graph.tails[order], graph.heads[order]
    reduced = np.maximum(graph.weights[order] + (h[tails] - h[heads]), 0.0)
    starts = np.searchsorted(tails, np.arange(graph.n + 1)).astype(np.int64)
    plan = make_plan(min_plus, np.float64, nonnegative=True, threads=threads or get_threads())
    return Searches(plan, starts, heads.astype(np.int32), reduced)


def johnson(graph: SparseGraph, h: NDArray[Any], out: Any, *, reflexive: bool = True, progress: Any = None) -> None:
    """Write all distances into out (n, n), with the sign applied; h (n,) are `graph_potentials`."""
    n, sign, own = graph.n, graph.sign, make_searches(graph, h)
    step, has_potentials = max(1, _ENTRIES // max(1, n)), bool(h.any())
    direct = not has_potentials and out.flags.c_contiguous and out.dtype in (np.float32, np.float64)
    for start in range(0, n, step):
        rows = slice(start, min(n, start + step))
        with np.errstate(over="ignore"):  # a distance beyond the range of the dtype is ∞
            distances, _ = own.search_table(np.arange(rows.start, rows.stop), out=out[rows] if direct else None)
            if has_potentials:
                distances += h - h[rows, np.newaxis]
            if sign < 0:
                np.subtract(0.0, distances, out=out[rows], casting="same_kind")
            elif not direct:
                out[rows] = distances
        if progress is not None:
            progress(rows.stop * n * n, n * n * n)
    if not reflexive:
        cycles = np.full(n, np.inf)
        return_weights = sign * out[graph.heads, graph.tails].astype(np.float64)
        np.minimum.at(cycles, graph.tails, graph.weights + return_weights)
        with np.errstate(over="ignore"):
            np.fill_diagonal(out, sign * cycles)


class Johnson(Algorithm):
    """Dijkstra's algorithm from every vertex, under potentials if weights are below 0.

    It adds the weights of a path in float64 from the first edge on, and rounds once. The result is bitwise identical to
    that of ``structure=False`` where sums of weights are exact, else within the same bound. Weights below 0 are
    searched under potentials of the whole graph: then the spread in the bound is that of the graph (docs/rounding.md).
    """

    name, structure = "johnson", "searches"
    is_encoded = False
    gives_plus = True
    reads_edges = True
    fallbacks: ClassVar[dict[str, str]] = {_SIZES: "rkleene", _INFINITE: AUTO}
    source = "Johnson 1977"
    semirings, dtypes = "min_plus and max_plus", "float16, bfloat16, float32, float64"
    devices = ("cpu",)
    complexity = "O(n (m + n) log n) for m edges"

    def supports(self, facts: Facts) -> bool:
        return facts.is_tropical and facts.dtype in (np.float32, np.float64)  # narrower floats were converted

    def reason_by_options(self, c: Circumstances) -> str | None:
        on_host = not (c.on_device or c.several)
        if (
            on_host
            and c.axes == 2
            and not c.is_part
            and (c.method == self.name or (c.storage == "sparse" and c.method == AUTO))
        ):
            return None  # the caller's choice, or stored edges, which need no scan of a matrix
        return super().reason_by_options(c)

    def reason_against(self, p: Problem) -> str | None:
        facts, is_named, is_stored = p.facts, p.options.method == self.name, p.facts.storage == "sparse"
        if not self.supports(facts):
            return "Dijkstra's algorithm needs weights of min_plus or max_plus in float32 or float64"
        if p.predecessors is not None:
            return "predecessors were requested"
        if is_stored and np.isinf(stored_entries(facts.operand)[2]).any():
            return _INFINITE
        if not (is_named or is_stored) and facts.structure.pattern is None:
            return f"not known to have at most {p.n**2 // FEW:,} edges"
        return None

    def late_reason(self, p: Problem) -> str | None:
        return None if p.facts.graph[1] is not None else _SIZES

    def least_cost(self, p: Problem) -> float:
        return search_operations(p.n, 0, share=0.0)

    def cost(self, p: Problem) -> float:
        return search_operations(p.n, p.facts.edges or 0, share=p.facts.structure.mean_reach)

    def run(self, p: Problem, engine: Engine, D: Array, entries: Array) -> Array:
        graph, h = p.facts.graph
        with thread_count(p.options.threads):
            johnson(graph, h, D, reflexive=not p.plus, progress=p.progress)
        return D

    def describe(self, p: Problem) -> str:
        return f"{p.facts.edges:,} edges: Dijkstra's algorithm from every vertex" if p.facts.edges else ""


def edge_potentials(graph: SparseGraph) -> Any:
    """Return potentials h (n,) of a sparse graph, as `potentials.potentials` does, by sweeps over all edges at once.

    For a large graph, one pass in the order of the components comes first. In an acyclic graph, such as a plan, no
    potential improves after this pass. Sweeps alone would take as many passes as the longest path has edges. The result
    is the same with and without the first pass.

    Raises `NegativeCycleError` with the vertices of a negative cycle.
    """
    epsilon, *wider = roundings(graph.epsilon)
    h = np.zeros(graph.n)
    first = np.flatnonzero(np.append(True, graph.heads[1:] != graph.heads[:-1]))
    into = graph.heads[first]
    runs = np.diff(np.append(first, graph.heads.size))
    raised = graph.weights + epsilon * np.abs(graph.weights)
    margin = 2 * float(np.finfo(np.float64).eps) if epsilon else 0.0

    def relax(_: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
        candidates = raised + h[graph.tails] * (1 - margin)
        best, offered_by = np.full(graph.n, np.inf), np.full(graph.n, -1)
        best[into] = np.minimum.reduceat(candidates, first)
        attains = np.flatnonzero(candidates == np.repeat(best[into], runs))
        offered_by[graph.heads[attains]] = graph.tails[attains]
        return best, offered_by

    if graph.n >= _MIN_ORDERED and graph.tails.size:
        from semiring.kernels.graphs.edge_scan import relax_edges  # imported here, because small graphs avoid Numba

        order = np.argsort(_topological_components(graph)[graph.tails], kind="stable")
        relax_edges(graph.tails[order], graph.heads[order], raised[order], h, 1 - margin)
    while cycle := bellman_ford(Labels(h, relax)):
        walked = cycle[::-1] if graph.is_reversed else cycle
        error = cycle_error(walked, _exact_weights(graph), graph.sign, graph.epsilon)
        if error is not None:
            raise error
        if wider:
            raised = graph.weights + wider.pop() * np.abs(graph.weights)
        else:
            margin *= 16
    return h


def _topological_components(graph: SparseGraph) -> NDArray[Any]:
    """Return the strong component of each vertex (n,), numbered so that edges lead to equal or higher numbers."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    edges = coo_array((np.ones(graph.tails.size, np.int8), (graph.tails, graph.heads)), shape=(graph.n, graph.n))
    count, label = connected_components(edges, connection="strong")
    numbers: NDArray[Any] = count - 1 - label  # SciPy numbers a component after all components that it reaches
    return numbers


def _exact_weights(graph: SparseGraph) -> Any:
    from fractions import Fraction

    tails, heads = (graph.heads, graph.tails) if graph.is_reversed else (graph.tails, graph.heads)
    position = {(int(i), int(j)): k for k, (i, j) in enumerate(zip(tails, heads, strict=True))}
    return lambda i, j: Fraction(float(graph.weights[position[i, j]]))
