"""Measure centrality and changed edges on a GPU, beside the CPU with all threads and beside NetworKit.

python -m benchmarks.gpu.centrality [centrality] [dense] [updates] [--graph 20000 100000]

The graphs are those of `benchmarks.centrality` and `benchmarks.updates`. The CPU and NetworKit (`pip install
networkit`) sum from some sources, and their times are multiplied to those of all sources.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

import semiring as sr
from benchmarks.centrality import networkit_graph, random_edges
from benchmarks.common import Table, by_synchronized_clock, format_number, format_seconds, ours, run, theirs
from benchmarks.packages import has
from benchmarks.updates import better_edges, time_each

__all__ = ["main"]


def centrality(options: argparse.Namespace) -> Table:
    """Measure betweenness from all sources, and closeness."""
    from scipy.sparse import csr_array

    n, m = options.graph
    tails, heads, lengths = random_edges(n, m)
    ends = np.concatenate([tails, heads]), np.concatenate([heads, tails])
    some, rows = np.arange(0, n, max(1, n // options.sources)), []
    factor = n / some.size
    for title, weights in (("random", lengths), ("1 to 9", np.ceil(9 * lengths / 1.01)), ("equal", np.ones(m))):
        A = csr_array((np.concatenate([weights, weights]), ends), shape=(n, n))
        for name, call in (("betweenness", sr.centrality.betweenness), ("closeness", sr.centrality.closeness)):
            if name == "closeness" and title != "random":  # which costs the same, and takes the CPU half a minute
                continue
            of_some = {"sources": some} if name == "betweenness" else {}
            seconds = ours(
                f"{name}, {title}, GPU",
                lambda call=call, A=A: call(A, check=False, device="cuda"),  # type: ignore[misc]
                clock=by_synchronized_clock,
                repeats=3,
            )
            on_cpu = ours(
                f"{name}, {title}, CPU",
                lambda call=call, A=A, of_some=of_some: call(A, check=False, **of_some),  # type: ignore[misc]
                repeats=1,
            )
            on_cpu *= factor if of_some else 1
            peer = "—"
            if name == "betweenness" and has("networkit"):
                import networkit

                kit = networkit_graph(n, (tails, heads, weights))
                estimate = networkit.centrality.EstimateBetweenness(kit, some.size, parallel=True)
                peer = format_seconds(factor * theirs(estimate.run, repeats=1))
            times = format_seconds(seconds), format_seconds(on_cpu), peer, format_number(on_cpu / seconds, 2)
            rows.append([name, title, f"{n:,}", f"{m:,}", *times])
    columns = ["function", "weights", "n", "edges", "GPU", "CPU", "NetworKit", "CPU / GPU"]
    return Table(f"Centrality from all sources; CPU: {sr.get_threads()} threads", columns, rows)


def dense(options: argparse.Namespace) -> Table:
    """Measure betweenness of dense matrices from all sources: few or many edges are shortest paths, or half of them."""
    n, rng, rows = options.dense, np.random.default_rng(0), []
    for title, A in (
        ("random", rng.random((n, n)) + 0.01),
        ("1 to 3", rng.integers(1, 4, (n, n)).astype(float)),
        ("equal, half of the edges", np.where(rng.random((n, n)) < 0.5, 1.0, np.inf)),
    ):
        times = [
            ours(
                f"dense, {title}, {device}",
                lambda A=A, device=device: sr.centrality.betweenness(A, check=False, device=device),  # type: ignore[misc]
                clock=by_synchronized_clock,
                repeats=1,
            )
            for device in ("cuda", "cpu")
        ]
        rows.append([title, f"{n:,}", *map(format_seconds, times), format_number(times[1] / times[0], 2)])
    columns = ["weights", "n", "GPU", "CPU", "CPU / GPU"]
    return Table(f"Betweenness of dense matrices; CPU: {sr.get_threads()} threads", columns, rows)


def updates(options: argparse.Namespace) -> Table:
    """Measure better edges, removed edges that carry most pairs, and many changes, beside a new closure."""
    import cupy

    (n, m), rng = options.changed, np.random.default_rng(0)
    cells = rng.choice(n * n, m, replace=False)
    A = np.full((n, n), np.inf)
    A[cells // n, cells % n] = rng.random(m) + 0.01
    given = cupy.asarray(A)
    closing = ours(
        "shortest_paths", lambda: sr.shortest_paths(given, check=False), clock=by_synchronized_clock, repeats=5
    )
    paths, rows = sr.shortest_paths(given, check=False), []
    paths.update(0, 1, np.inf if np.isinf(A[0, 1]) else A[0, 1])  # copies the weights
    better = better_edges(paths, options.changes)
    predecessors: Any = paths.predecessors
    found = predecessors.get()
    last = np.bincount((found * n + np.arange(n))[found >= 0], minlength=n * n)
    removed = np.argsort(last)[::-1][: options.changes].tolist()

    def mixed_edges() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        some, old = rng.choice(n * n, 50, replace=False), rng.choice(cells, 50, replace=False)
        both, first = np.unique(np.concatenate([some, old]), return_index=True)
        return both // n, both % n, np.concatenate([rng.random(50), np.full(50, np.inf)])[first]

    mixed = [mixed_edges() for _ in range(5)]
    paths.update(*mixed_edges())  # compiles, and the graph has the same size afterwards
    for title, calls in (
        ("one better edge", [lambda e=e: paths.update(*e) for e in better]),  # type: ignore[misc]
        ("one removed edge", [lambda c=c: paths.update(c // n, c % n, np.inf) for c in removed]),  # type: ignore[misc]
        ("100 mixed changes", [lambda e=e: paths.update(*e) for e in mixed]),  # type: ignore[misc]
    ):
        seconds = time_each(calls)
        median = float(np.median(seconds))
        cells_of_row = format_seconds(median), format_seconds(float(seconds.max())), f"{median / closing:.3f}"
        rows.append([title, *cells_of_row])
    columns = ["change", "median", "greatest", "median / shortest_paths"]
    title = f"Changes of {n:,} vertices and {m:,} edges on a GPU; shortest_paths takes {format_seconds(closing)}"
    return Table(title, columns, rows)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print the tables."""

    def configure(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--graph", type=int, nargs=2, default=(20_000, 100_000), help="vertices and edges")
        parser.add_argument("--sources", type=int, default=4096, help="sources of the CPU and of NetworKit")
        parser.add_argument("--dense", type=int, default=1500, help="vertices of the dense matrices")
        parser.add_argument("--changed", type=int, nargs=2, default=(4096, 16_384), help="vertices and edges")
        parser.add_argument("--changes", type=int, default=40, help="edges of each kind that are changed")

    tables = {"centrality": centrality, "dense": dense, "updates": updates}
    return run("benchmarks.gpu.centrality", str(__doc__), tables, arguments, configure)


if __name__ == "__main__":
    sys.exit(main())
