"""Measure betweenness of weighted graphs beside igraph and NetworKit.

python -m benchmarks.centrality [betweenness] [sources]

NetworKit needs `pip install networkit`. The graphs are undirected and random, with weights in [0.01, 1.01) or of 1.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

import semiring as sr
from benchmarks.common import Table, format_seconds, ours, run, theirs
from benchmarks.packages import has

__all__ = ["main", "networkit_graph", "random_edges"]


def random_edges(n: int, m: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the ends and the weights of m different edges between n vertices."""
    rng = np.random.default_rng(0)
    cells = np.empty(0, np.int64)
    while cells.size < m:
        tails, heads = rng.integers(0, n, (2, 2 * m))
        cells = np.unique(np.concatenate([cells, (tails * n + heads)[tails < heads]]))
    cells = rng.permutation(cells)[:m]
    return cells // n, cells % n, rng.random(m) + 0.01


def networkit_graph(n: int, edges: tuple[np.ndarray, ...]) -> Any:
    """Return the graph of NetworKit, with the threads of this library, or None without the package."""
    if not has("networkit"):
        return None
    import networkit

    networkit.setNumberOfThreads(sr.get_threads())
    graph = networkit.Graph(n, weighted=True)
    for tail, head, weight in zip(*(ends.tolist() for ends in edges), strict=True):
        graph.addEdge(tail, head, weight)
    return graph


def _row(cells: list[Any], seconds: float, peers: Sequence[float]) -> list[Any]:
    """Return times and the ratio to the fastest peer; a dash where a peer is not installed (nan)."""
    measured = [peer for peer in peers if not math.isnan(peer)]
    ratio = f"{seconds / min(measured):.2f}" if measured else "—"
    return [*cells, *("—" if math.isnan(t) else format_seconds(t) for t in (seconds, *peers)), ratio]


def betweenness(options: argparse.Namespace) -> Table:
    """Measure the betweenness of all vertices, from all sources."""
    import igraph

    (n, m), rows = options.graph, []
    tails, heads, lengths = random_edges(n, m)
    for title, weights in (("weighted", lengths), ("hops", np.ones(m))):
        from scipy.sparse import csr_array

        ends = np.concatenate([tails, heads]), np.concatenate([heads, tails])
        A = csr_array((np.concatenate([weights, weights]), ends), shape=(n, n))
        graph = igraph.Graph(n, list(zip(tails.tolist(), heads.tolist(), strict=True)))
        named = None if title == "hops" else weights.tolist()
        kit = networkit_graph(n, (tails, heads, weights))
        kit_seconds = float("nan")
        seconds = ours(f"betweenness, {title}", lambda: sr.centrality.betweenness(A, check=False))  # noqa: B023
        if kit is not None:
            import networkit

            kit_seconds = theirs(lambda: networkit.centrality.Betweenness(kit).run(), repeats=3)  # noqa: B023
        peer = theirs(lambda: graph.betweenness(weights=named), repeats=3)  # noqa: B023
        rows.append(_row([title, f"{n:,}", f"{m:,}"], seconds, (peer, kit_seconds)))
    names = ["weights", "n", "edges", "semiring", "igraph", "NetworKit", "ratio to the best"]
    return Table(f"Betweenness of all vertices, {sr.get_threads()} threads (igraph: 1)", names, rows)


def sources(options: argparse.Namespace) -> Table:
    """Measure betweenness from some sources, of a larger graph."""
    from scipy.sparse import csr_array

    n, m, count = options.sampled
    tails, heads, weights = random_edges(n, m)
    ends = np.concatenate([tails, heads]), np.concatenate([heads, tails])
    A = csr_array((np.concatenate([weights, weights]), ends), shape=(n, n))
    some = np.random.default_rng(0).choice(n, count, replace=False)
    seconds = ours("some sources", lambda: sr.centrality.betweenness(A, sources=some, check=False))
    kit, kit_seconds = networkit_graph(n, (tails, heads, weights)), float("nan")
    if kit is not None:
        import networkit

        kit_seconds = theirs(lambda: networkit.centrality.EstimateBetweenness(kit, count, parallel=True).run())
    names = ["n", "edges", "sources", "semiring", "NetworKit", "ratio to the best"]
    row = _row([f"{n:,}", f"{m:,}", count], seconds, (kit_seconds,))
    return Table(f"Betweenness from some sources, weighted, {sr.get_threads()} threads", names, [row])


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print the tables."""

    def configure(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--graph", type=int, nargs=2, default=(2000, 8000), help="vertices and edges")
        parser.add_argument(
            "--sampled", type=int, nargs=3, default=(20_000, 100_000, 256), help="vertices, edges and sources"
        )

    tables = {"betweenness": betweenness, "sources": sources}
    return run("benchmarks.centrality", str(__doc__), tables, arguments, configure)


if __name__ == "__main__":
    sys.exit(main())
