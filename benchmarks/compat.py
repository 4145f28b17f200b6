"""Scripts of SciPy and NetworkX, as they are and with this library underneath: conversions are in all times.

python -m benchmarks.compat [scipy] [networkx] [scripts] [SIZE ...]
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common import environment, median_seconds, print_table
from tools.networkx_suite import install_entry_points

__all__ = ["main"]

_SCIPY_SIZES = (3, 10, 30, 100, 300, 1000, 3000)
_NETWORKX_SIZES = (10, 100, 1000, 3000)
_SOURCES = 5  # of which the time of Dijkstra from all is told, where all would take minutes


def seconds(call: Callable[[], Any]) -> float:
    """Of one call: many for a short one, one only for a long one."""
    start = time.perf_counter()
    call()
    once = time.perf_counter() - start
    if once > 5:
        return once
    rounds = max(1, round(0.02 / max(once, 1e-6)))

    def repeat() -> None:
        for _ in range(rounds):
            call()

    return median_seconds(repeat, seconds=1.0) / rounds


def shown(value: float) -> str:
    """In the unit that suits it."""
    unit, name = next(
        (unit, name) for unit, name in ((1, "s"), (1e-3, "ms"), (1e-6, "µs")) if value >= unit or unit < 1e-5
    )
    return f"{value / unit:.3g} {name}"


# -------------------------------------------------------------------------------------------------------------- SciPy


def _scipy(sizes: list[int]) -> None:
    import scipy.sparse.csgraph as theirs
    from scipy.sparse import random_array

    import semiring.compat.csgraph as ours

    rows = []
    for n in sizes or _SCIPY_SIZES:
        rng = np.random.default_rng(n)
        dense = rng.uniform(1, 10, (n, n))
        sparse = random_array((n, n), density=min(1.0, 6 / n), rng=rng, format="csr")
        potential = rng.uniform(-1, 1, n)
        entries = sparse.tocoo()
        signed = sparse.copy()
        signed.data = entries.data + 0.01 + potential[entries.row] - potential[entries.col]
        calls: list[tuple[str, str, Any, dict[str, Any]]] = [
            ("floyd_warshall, dense", "floyd_warshall", dense, {}),
            ("… with predecessors", "floyd_warshall", dense, {"return_predecessors": True}),
            ("floyd_warshall, sparse", "floyd_warshall", sparse, {}),
            ("shortest_path, sparse", "shortest_path", sparse, {}),
            ("… not directed", "shortest_path", sparse, {"directed": False}),
            ("johnson, both signs, sparse", "johnson", signed, {}),
            ("… from one source", "johnson", signed, {"indices": 0}),
        ]
        for label, name, graph, options in calls:
            before = seconds(lambda: getattr(theirs, name)(graph, **options))  # noqa: B023
            after = seconds(lambda: getattr(ours, name)(graph, **options))  # noqa: B023
            rows.append([label, n, shown(before), shown(after), f"{before / after:.3g}×"])
    print_table(
        "SciPy, one import changed (sparse: 6 edges a vertex)", ["call", "n", "SciPy", "ours", "faster by"], rows
    )


# ----------------------------------------------------------------------------------------------------------- NetworkX


def _graph(n: int, dense: bool) -> Any:
    import networkx as nx

    pairs = n * (n - 1) // 2
    G = nx.gnm_random_graph(n, pairs // 2 if dense else min(pairs, 6 * n), seed=n)
    nx.add_cycle(G, range(n))  # connected, which is what takes searches their time
    rng = np.random.default_rng(n)
    for (_, _, data), weight in zip(G.edges(data=True), rng.uniform(1, 10, G.size()).tolist(), strict=True):
        data["weight"] = weight
    return G


def _from_all(G: Any) -> float:
    """The seconds of NetworkX's Dijkstra from all vertices: told from some of them, where it would take minutes."""
    import networkx as nx

    def some(count: int) -> float:
        start = time.perf_counter()
        for _ in islice(nx.all_pairs_dijkstra_path_length(G, backend="networkx"), count):
            pass
        return time.perf_counter() - start

    few = some(_SOURCES)
    return few / _SOURCES * len(G) if few * len(G) > 20 * _SOURCES else seconds(lambda: some(len(G)))


def _networkx(sizes: list[int]) -> None:
    import networkx as nx

    rows = []
    for n in sizes or _NETWORKX_SIZES:
        for dense in (False, True):
            G = _graph(n, dense)
            edges = f"{G.size():,}"
            calls: dict[str, Callable[..., Any]] = {
                "floyd_warshall_numpy": nx.floyd_warshall_numpy,
                "all_pairs_dijkstra_path_length": lambda G: dict(nx.all_pairs_dijkstra_path_length(G)),
                "diameter": nx.diameter,
                "average_shortest_path_length": nx.average_shortest_path_length,
            }
            for name, call in calls.items():
                with nx.config(backend_priority=[]):
                    before = _from_all(G) if "dijkstra" in name else seconds(lambda: call(G))  # noqa: B023
                with nx.config(backend_priority=["semiring"]):
                    after = seconds(lambda: (G.__networkx_cache__.clear(), call(G)))  # noqa: B023
                rows.append([name, f"{n:,}", edges, shown(before), shown(after), f"{before / after:.3g}×"])
    header = ["function", "vertices", "edges", "NetworkX", "with the backend", "faster by"]
    print_table("NetworkX, and with NETWORKX_BACKEND_PRIORITY=semiring", header, rows)


_SCRIPT = """
import networkx as nx
G = nx.gnm_random_graph({n}, 6 * {n}, seed=1)
for u, v, data in G.edges(data=True):
    data["weight"] = 1 + (u * v) % 9
print({call})
"""


def _scripts(folder: str) -> None:
    """Whole scripts, from the start of Python: what starting the compiler costs is in it."""
    rows = []
    root = str(Path(__file__).resolve().parent.parent)
    for n, call in (
        *((100, "nx.diameter(G)"), (300, "nx.diameter(G)"), (1000, "nx.diameter(G)")),
        *((n, "len(dict(nx.all_pairs_dijkstra_path_length(G)))") for n in (100, 300, 1000)),
        *((n, "nx.floyd_warshall_numpy(G).max()") for n in (300, 1000)),
    ):
        times = []
        for priority in ("", "semiring"):
            path = os.pathsep.join([root, folder])
            variables = {**os.environ, "NETWORKX_BACKEND_PRIORITY": priority, "PYTHONPATH": path}
            command = [sys.executable, "-c", _SCRIPT.format(n=n, call=call)]

            def run(command: list[str] = command, variables: dict[str, str] = variables) -> None:
                subprocess.run(command, check=True, env=variables, stdout=subprocess.DEVNULL)

            times.append(median_seconds(run, repeats=3, seconds=0))
        rows.append([call, f"{n:,}", shown(times[0]), shown(times[1]), f"{times[0] / times[1]:.3g}×"])
    print_table(
        "Whole scripts, 6 edges a vertex", ["call", "vertices", "NetworkX", "with the backend", "faster by"], rows
    )


def main() -> None:
    """Print the tables that are named, or all."""
    names = [each for each in sys.argv[1:] if not each.isdigit()] or ["scipy", "networkx", "scripts"]
    sizes = [int(each) for each in sys.argv[1:] if each.isdigit()]
    print(environment())
    with tempfile.TemporaryDirectory() as folder:
        install_entry_points(folder)
        if "scipy" in names:
            _scipy(sizes)
        if "networkx" in names:
            _networkx(sizes)
        if "scripts" in names:
            _scripts(folder)


if __name__ == "__main__":
    main()
