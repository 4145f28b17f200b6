"""Measure scripts of SciPy and NetworkX, unchanged and with this library underneath, conversions included.

python -m benchmarks.compat [scipy] [networkx] [scripts] [--sizes 10 100 ...]
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common import Table, at_most, by_clock, comparing, format_seconds, ours, run, theirs, three_digits
from benchmarks.packages import require
from tools.networkx_suite import install_entry_points

__all__ = ["main"]

_SCIPY_SIZES = (100, 300, 1000, 3000)  # vertices from which on this library serves the calls
_NETWORKX_SIZES = (100, 1000, 3000)
_SOURCES = 5  # from the time of these, that of Dijkstra from all sources is estimated if it would take minutes


def seconds(call: Callable[[], Any], label: str | None = None) -> float:
    """Return the seconds of a call, the mean of many if it is short. ``label`` is set for calls of this library."""
    if comparing():
        return float("nan") if label is None else ours(label, call)
    once = by_clock(call)
    if once > at_most(5):
        return once
    rounds = max(1, round(0.02 / max(once, 1e-6)))

    def repeat() -> None:
        for _ in range(rounds):
            call()

    return theirs(repeat, seconds=1.0) / rounds


# -------------------------------------------------------------------------------------------------------------- SciPy


def scipy(options: argparse.Namespace) -> Table:
    """Measure the functions of scipy.sparse.csgraph with one import changed."""
    import scipy.sparse.csgraph as theirs_of
    from scipy.sparse import random_array

    import semiring.compat.csgraph as ours_of

    rows = []
    for n in options.sizes or _SCIPY_SIZES:
        rng = np.random.default_rng(n)
        dense = rng.uniform(1, 10, (n, n))
        sparse: Any = random_array((n, n), density=min(1.0, 6 / n), rng=rng, format="csr")
        potential = rng.uniform(-1, 1, n)
        entries = sparse.tocoo()
        signed = sparse.copy()
        signed.data = entries.data + 0.01 + potential[entries.row] - potential[entries.col]
        calls: list[tuple[str, str, Any, dict[str, Any]]] = [
            ("floyd_warshall, dense", "floyd_warshall", dense, {}),
            ("floyd_warshall, dense; with predecessors", "floyd_warshall", dense, {"return_predecessors": True}),
            ("floyd_warshall, sparse", "floyd_warshall", sparse, {}),
            ("shortest_path, sparse", "shortest_path", sparse, {}),
            ("shortest_path, sparse; not directed", "shortest_path", sparse, {"directed": False}),
            ("johnson, both signs, sparse", "johnson", signed, {}),
            ("johnson, both signs, sparse; from one source", "johnson", signed, {"indices": 0}),
        ]
        for label, name, graph, given in calls:
            before = seconds(lambda: getattr(theirs_of, name)(graph, **given))  # noqa: B023
            after = seconds(lambda: getattr(ours_of, name)(graph, **given), f"{label}, n = {n}")  # noqa: B023
            rows.append(
                [label, f"{n:,}", format_seconds(before), format_seconds(after), f"{three_digits(before / after)}×"]
            )
    title = "SciPy, one import changed (sparse: 6 edges a vertex)"
    return Table(title, ["call", "n", "SciPy", "ours", "faster by"], rows)


# ----------------------------------------------------------------------------------------------------------- NetworkX


def _graph(n: int, dense: bool) -> Any:
    import networkx as nx

    pairs = n * (n - 1) // 2
    G = nx.gnm_random_graph(n, pairs // 2 if dense else min(pairs, 6 * n), seed=n)
    nx.add_cycle(G, range(n))  # connected, because searches of connected graphs take the most time
    rng = np.random.default_rng(n)
    for (_, _, data), weight in zip(G.edges(data=True), rng.uniform(1, 10, G.size()).tolist(), strict=True):
        data["weight"] = weight
    return G


def _from_all(G: Any) -> float:
    """Return the seconds of NetworkX's Dijkstra from all vertices, extrapolated where it would take minutes."""
    import networkx as nx

    if comparing():
        return float("nan")

    def search_from(count: int) -> float:
        start = time.perf_counter()
        for _ in islice(nx.all_pairs_dijkstra_path_length(G, backend="networkx"), count):
            pass
        return time.perf_counter() - start

    few = search_from(_SOURCES)
    return few / _SOURCES * len(G) if few * len(G) > 20 * _SOURCES else seconds(lambda: search_from(len(G)))


def networkx(options: argparse.Namespace) -> Table:
    """Measure functions of NetworkX by itself and by the backend."""
    require("networkx")
    import networkx as nx

    rows = []
    for n in options.sizes or _NETWORKX_SIZES:
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
                    label = f"{name}, {n:,} vertices, {edges} edges"
                    after = seconds(lambda: (G.__networkx_cache__.clear(), call(G)), label)  # noqa: B023
                rows.append(
                    [
                        f"`{name}`",
                        f"{n:,}",
                        edges,
                        format_seconds(before),
                        format_seconds(after),
                        f"{three_digits(before / after)}×",
                    ]
                )
    columns = ["function", "vertices", "edges", "NetworkX", "with the backend", "faster by"]
    return Table("NetworkX, and with NETWORKX_BACKEND_PRIORITY=semiring", columns, rows)


_SCRIPT = """
import networkx as nx
G = nx.gnm_random_graph({n}, 6 * {n}, seed=1)
for u, v, data in G.edges(data=True):
    data["weight"] = 1 + (u * v) % 9
print({call})
"""


def scripts(options: argparse.Namespace) -> Table:
    """Measure whole scripts from the start of Python, which includes starting the compiler."""
    require("networkx")
    rows = []
    calls = ("nx.diameter(G)", "len(dict(nx.all_pairs_dijkstra_path_length(G)))", "nx.floyd_warshall_numpy(G).max()")
    for call, n in ((call, n) for call in calls for n in options.scripts):
        script = _SCRIPT.format(n=n, call=call)
        before = theirs(_running(script, ""), repeats=3, seconds=0)
        after = ours(f"{call}, {n:,} vertices", _running(script, "semiring"), repeats=3, seconds=0)
        rows.append(
            [f"`{call}`", f"{n:,}", format_seconds(before), format_seconds(after), f"{three_digits(before / after)}×"]
        )
    return Table(
        "Whole scripts, 6 edges a vertex", ["call", "vertices", "NetworkX", "with the backend", "faster by"], rows
    )


def _running(script: str, priority: str) -> Callable[[], None]:
    """Return a call that runs the script in an interpreter of its own, with the library that is loaded here."""
    import semiring

    library = str(Path(str(semiring.__file__)).parent.parent)
    path = os.pathsep.join([library, *(folder for folder in sys.path if folder and Path(folder).is_dir())])
    variables = {**os.environ, "NETWORKX_BACKEND_PRIORITY": priority, "PYTHONPATH": path}

    def call() -> None:
        subprocess.run([sys.executable, "-c", script], check=True, env=variables, stdout=subprocess.DEVNULL)

    return call


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print the tables."""

    def configure(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--sizes", type=int, nargs="+", help="of the graphs of SciPy and NetworkX")
        parser.add_argument("--scripts", type=int, nargs="+", default=[100, 300, 1000], help="vertices of the scripts")

    with tempfile.TemporaryDirectory() as folder:
        install_entry_points(folder)
        tables = {"scipy": scipy, "networkx": networkx, "scripts": scripts}
        return run("benchmarks.compat", str(__doc__), tables, arguments, configure)


if __name__ == "__main__":
    sys.exit(main())
