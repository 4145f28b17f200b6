"""Measure changed edges of a closed graph beside another closure, and beside NetworKit's DynAPSP.

python -m benchmarks.updates [changes]

NetworKit needs `pip install networkit`. The graph is directed and random, with weights in [0.01, 1.01).
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import semiring as sr
from benchmarks.common import Table, format_seconds, ours, run
from benchmarks.packages import has

__all__ = ["better_edges", "main", "time_each"]


def time_each(calls: Sequence[Callable[[], Any]]) -> np.ndarray:
    """Return the seconds of each call, each made once, because it changes the graph."""
    seconds = []
    for call in calls:
        began = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - began)
    return np.array(seconds)


def better_edges(paths: Any, count: int) -> list[tuple[int, int, float]]:
    """Return new edges between random vertices, each of half of their distance."""
    rng, n = np.random.default_rng(1), len(paths)
    ends = np.unique(rng.integers(0, n, (count, 2)), axis=0).tolist()
    found = [(u, v, float(paths.distance(u, v))) for u, v in ends if u != v]
    return [(u, v, distance / 2 if np.isfinite(distance) else 1.0) for u, v, distance in found]


def _by_networkit(A: np.ndarray, edges: Sequence[tuple[int, int, float]]) -> np.ndarray | None:
    """Return the seconds of the same new edges in DynAPSP, or None without the package."""
    if not has("networkit"):
        return None
    import networkit

    graph = networkit.Graph(len(A), weighted=True, directed=True)
    for tail, head in np.argwhere(np.isfinite(A)).tolist():
        graph.addEdge(tail, head, A[tail, head])
    paths = networkit.distance.DynAPSP(graph)
    paths.run()
    event, kinds = networkit.dynamics.GraphEvent, networkit.dynamics.GraphEventType

    def insert(u: int, v: int, weight: float) -> Callable[[], Any]:
        if graph.hasEdge(u, v):
            change = event(kinds.EDGE_WEIGHT_INCREMENT, u, v, weight - graph.weight(u, v))
            graph.setWeight(u, v, weight)
        else:
            change = event(kinds.EDGE_ADDITION, u, v, weight)
            graph.addEdge(u, v, weight)
        return lambda: paths.update(change)

    return np.concatenate([time_each([insert(*edge)]) for edge in edges])


def _shares(A: np.ndarray) -> Any:
    """Return the share of the pairs whose best path uses each edge, as a sparse matrix in coordinates."""
    from scipy.sparse import csr_array

    edges = np.nonzero(np.isfinite(A))
    share = sr.centrality.edge_betweenness(csr_array((A[edges], edges), A.shape), normalized=False)
    return (share / A.size).tocoo()


def changes(options: argparse.Namespace) -> Table:
    """Measure better edges, removed edges that carry about 1 % of the pairs, and many changes at once."""
    (n, m), rng = options.graph, np.random.default_rng(0)
    cells = rng.choice(n * n, m, replace=False)
    A = np.full((n, n), np.inf)
    A[cells // n, cells % n] = rng.random(m) + 0.01
    closing = ours("shortest_paths", lambda: sr.shortest_paths(A, check=False), repeats=3)
    paths = sr.shortest_paths(A, check=False)
    paths.update(0, 1, A[0, 1])  # copies the weights
    small = sr.shortest_paths(np.array([[np.inf, 1, 5], [np.inf, np.inf, 1], [np.inf] * 3]))
    for weight in (0.5, np.inf, 0.1):  # compiles
        small.update([0, 2], [1, 0], [weight, weight])
        small.update(0, 1, 2 * weight)
    edges = better_edges(paths, options.changes)
    rows: list[list[Any]] = []

    def row(title: str, seconds: np.ndarray, peer: np.ndarray | None) -> None:
        median = float(np.median(seconds))
        other = "—" if peer is None else format_seconds(float(np.median(peer)))
        rows.append(
            [title, format_seconds(median), format_seconds(float(seconds.max())), other, f"{median / closing:.4f}"]
        )

    peer = _by_networkit(A, edges)
    row("one better edge", time_each([lambda edge=edge: paths.update(*edge) for edge in edges]), peer)
    share = _shares(A)
    removed = np.argsort(np.abs(share.data - 0.01))[: options.changes]  # carry about 1 % of the pairs
    ends = np.stack(share.coords)[:, removed].T.tolist()
    seconds = []
    for tail, head in ends:
        seconds.append(time_each([lambda tail=tail, head=head: paths.update(tail, head, np.inf)]))
        paths.update(tail, head, A[tail, head])
    row("one removed edge", np.concatenate(seconds), None)
    some = rng.choice(n * n, 50, replace=False)
    old = rng.choice(cells, 50, replace=False)
    both, first = np.unique(np.concatenate([some, old]), return_index=True)
    weights = np.concatenate([rng.random(50), np.full(50, np.inf)])[first]
    row("100 mixed changes", time_each([lambda: paths.update(both // n, both % n, weights)]), None)
    names = ["change", "median", "greatest", "DynAPSP, median", "median / shortest_paths"]
    title = f"Changes of {n:,} vertices and {m:,} edges; shortest_paths takes {format_seconds(closing)}"
    return Table(title, names, rows)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print the table."""

    def configure(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--graph", type=int, nargs=2, default=(4096, 16_384), help="vertices and edges")
        parser.add_argument("--changes", type=int, default=40, help="edges of each kind that are changed")

    return run("benchmarks.updates", str(__doc__), {"changes": changes}, arguments, configure)


if __name__ == "__main__":
    sys.exit(main())
