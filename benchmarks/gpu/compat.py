"""Measure functions of NetworkX with this library underneath, on the host and on a GPU.

    python -m benchmarks.gpu.compat [--vertices 512 ...]

The graphs have six edges a vertex and whole weights from 1 to 9. Both devices get one converted graph, as NetworkX
keeps it in its cache. The times hold everything else: the matrix, its copies, the closure, and the dictionaries or the
graph of the result. Each kind of `semiring.compat.networkx.graph.LEAST_VERTICES` has its functions, whose ratios say
from how many vertices a GPU is faster. Both results must be equal.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from benchmarks.common import Table, by_synchronized_clock, milliseconds, ours, run
from tools.networkx_suite import install_entry_points

__all__ = ["main"]

#: The key of `device.LEAST_VERTICES` for a function, its name, and the most vertices of a measurement.
_FUNCTIONS = (
    ("distances", "average_shortest_path_length", 1 << 30),
    ("distances", "floyd_warshall_numpy", 1 << 30),
    ("distances", "all_pairs_dijkstra_path_length", 2048),
    ("predecessors", "floyd_warshall_predecessor_and_distance", 2048),
    ("reachability", "transitive_closure", 1 << 30),
)


def _graph(n: int, directed: bool) -> Any:
    import networkx as nx

    G = nx.gnm_random_graph(n, 6 * n, seed=n, directed=directed)
    nx.add_cycle(G, range(n))  # connected, which average_shortest_path_length requires
    rng = np.random.default_rng(n)
    for (_, _, attributes), weight in zip(G.edges(data=True), rng.integers(1, 10, G.size()).tolist(), strict=True):
        attributes["weight"] = weight
    return G


def _acyclic_graph(n: int) -> Any:
    """Return eight layers of n / 8 vertices with two edges to the next one: few pairs for the graph of the result."""
    import networkx as nx

    rng, layer = np.random.default_rng(n), n // 8
    tails = np.repeat(np.arange(n - layer), 2)
    heads = (tails // layer + 1) * layer + rng.integers(0, layer, tails.size)
    G = nx.DiGraph()
    G.add_nodes_from(range(n))
    G.add_edges_from(zip(tails.tolist(), np.minimum(heads, n - 1).tolist(), strict=True))
    return G


def functions(options: argparse.Namespace) -> Table:
    """Measure each function on both devices, for each size."""
    import networkx as nx

    from semiring.compat.networkx import graph as choice

    if not hasattr(nx.config.backends, "semiring"):
        raise SystemExit("NetworkX looked for backends before this benchmark could name its own: start it with -m")
    rows, thresholds = [], dict(choice.LEAST_VERTICES)
    choice.LEAST_VERTICES.update(dict.fromkeys(thresholds, 1))  # the named device closes graphs of every size
    try:
        for n in options.vertices:
            for kind, name, most in _FUNCTIONS:
                if n <= most:
                    rows.append([kind, f"`{name}`", f"{n:,}", *_measure(kind, name, n)])
    finally:
        choice.LEAST_VERTICES.update(thresholds)
    columns = ["kind", "function", "vertices", "ms on the host", "ms on the GPU", "faster by"]
    return Table("Functions of NetworkX, on the host and on a GPU", columns, rows)


def _measure(kind: str, name: str, n: int) -> list[str]:
    """Return the times on both devices and their ratio, for one function and size."""
    import networkx as nx

    from _semiring_networkx.interface import convert_from_nx

    source = _acyclic_graph(n) if kind == "reachability" else _graph(n, directed=kind == "predecessors")
    G = convert_from_nx(source, edge_attrs={"weight": 1})
    arguments = {} if kind == "reachability" else {"weight": "weight"}

    def call(device: str) -> Any:
        with nx.config.backends.semiring(device=device):
            result = getattr(nx, name)(G, backend="semiring", **arguments)
            return list(result) if hasattr(result, "__next__") else result

    results = [call(device) for device in ("cpu", "cuda")]
    if kind == "reachability":
        results = [sorted(result.edges) for result in results]
    assert np.array_equal(*results) if isinstance(results[0], np.ndarray) else results[0] == results[1]
    del results
    host, gpu = (
        ours(f"{name}, {n:,} vertices, {device}", partial(call, device), clock=by_synchronized_clock, seconds=0.5)
        for device in ("cpu", "cuda")
    )
    return [milliseconds(host), milliseconds(gpu), f"{host / gpu:.2f}×"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print the table."""

    def configure(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--vertices", type=int, nargs="+", default=(512, 1024, 2048, 4096, 8192))

    with tempfile.TemporaryDirectory() as folder:
        install_entry_points(folder)
        return run(
            "benchmarks.gpu.compat",
            str(__doc__),
            {"functions": functions},
            arguments,
            configure,
            needs=["cupy", "networkx"],
        )


if __name__ == "__main__":
    sys.exit(main())
