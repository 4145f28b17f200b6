"""Measure whole closures on a GPU: methods of the library, codes of other authors, and the host.

    python -m benchmarks.gpu.closure [edges-60] [edges-6] [edges-600] [energy] [--sizes 512 ...] [--peers DIR]

Min-plus in float32 on uniform graphs with so many edges a vertex and whole-numbered weights. The kernels of papers are
measured by `benchmarks.papers`. Before anything is timed its distances are compared with those of the look-ahead
kernel. A method is left out from the size on where n³ growth would take it beyond ``--limit`` seconds. Times in
milliseconds: medians, by events of the device for what runs there (without a scan of the data, and with calls enqueued
ahead), by the clock for the host. The last column: the exponent b of t = a·nᵇ, fitted over the sizes from 1,024 on as
in table 3 of Buluç et al.
``energy``: joules a closure and pairs a joule by the counter of the GPU, over two seconds of closures each.
``--peers``: see `benchmarks.gpu.peers`.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np

import semiring as sr
from benchmarks.classical import serial
from benchmarks.common import Table, by_clock, comparing, device_milliseconds, format_number, ours, run, three_digits
from benchmarks.gpu.peers import peers
from benchmarks.packages import require
from semiring.kernels.cuda import closing as staged
from semiring.kernels.engine import make_plan
from semiring.testing import uniform_graph

__all__ = ["main"]

AHEAD = 10.0  # milliseconds that the device waits while the host enqueues a closure
SIZES = (512, 1024, 2048, 4096, 8192, 16384, 17408)
# its title, and a function from the graph on the host to a measurement in milliseconds
Column = tuple[str, Callable[[Any], Callable[[], float]]]


@cache
def plan() -> Any:
    """Return the plan of min-plus in float32 without a negative weight."""
    return make_plan(sr.min_plus, "float32", nonnegative=True)


# ------------------------------------------------------------------------------------------------- what is measured


class _WrongError(Exception):
    """Distances differ from those of the look-ahead kernel."""


def on_device(label: str, close: Callable[[Any], Any]) -> Column:
    """Return a method of the tables: the median milliseconds by events of closing a copy in place, after a check."""

    def prepare(A: np.ndarray) -> Callable[[], float]:
        import cupy

        given = cupy.asarray(A)
        work = given.copy()
        close(work)
        expected = given.copy()
        staged.close(plan(), expected, look_ahead=True)
        if not bool((work == expected).all()):
            raise _WrongError
        del expected

        def measure() -> float:
            def renew() -> None:
                work[...] = given

            clock = lambda call: device_milliseconds(call, AHEAD) / 1e3  # noqa: E731
            return 1e3 * ours(
                f"{label}, n = {len(A)}", lambda: close(work), setup=renew, clock=clock, repeats=9, seconds=0.3
            )

        return measure

    return label, prepare


def on_host(label: str, close: Callable[[np.ndarray], Any], dtype: Any = np.float32) -> Column:
    """Return a method of the tables: the milliseconds of one call by the clock, after a small one that compiles."""

    def prepare(A: np.ndarray) -> Callable[[], float]:
        close(A[:64, :64].astype(dtype))

        def measure() -> float:
            work = A.astype(dtype)
            return 1e3 * by_clock(lambda: close(work))

        return measure

    return label, prepare


def _scipy_dijkstra(A: np.ndarray) -> None:
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import dijkstra

    rows, columns = np.nonzero(np.isfinite(A) & ~np.eye(len(A), dtype=bool))
    dijkstra(csr_array((A[rows, columns], (rows, columns)), shape=A.shape))


def _scipy_floyd_warshall(A: np.ndarray) -> None:
    from scipy.sparse.csgraph import floyd_warshall

    floyd_warshall(A, overwrite=True)


def columns(folder: str | None) -> list[Column]:
    """Return the methods of the tables, first the look-ahead kernel, with which the others are compared."""
    result: list[Column] = [
        on_device("`staged`, the look-ahead kernel", lambda A: staged.close(plan(), A, look_ahead=True)),
        *(
            on_device(f"`{method}`", lambda A, method=method: sr.closure(A, method=method, out=A, check=False))
            for method in ("rkleene", "blocked_floyd_warshall", "auto", "rkleene_plain")
        ),
    ]
    if comparing():
        return result
    for peer in peers(folder):
        close, product = peer.closure(), peer.product()
        if close is not None:
            result.append((f"{peer.name}, int32", _peer(peer, close)))
        if product is not None:
            result.append(
                on_device(f"{peer.name}, squaring", lambda A, product=product: _close_by_squaring(A, product))
            )
    return [
        *result,
        on_host("semiring on the host", lambda A: sr.closure(A, out=A, check=False, method="rkleene")),
        on_host("three loops, one core", serial),
        on_host("SciPy `floyd_warshall`", _scipy_floyd_warshall, np.float64),
        on_host("SciPy `dijkstra`", _scipy_dijkstra, np.float64),
    ]


def _close_by_squaring(A: Any, product: Callable[[Any, Any, Any], None]) -> None:
    """Compute A ← A* by squaring until nothing changes, with a product alone. The diagonal of A is 0."""
    square, known = A.copy(), A
    while True:
        product(known, known, square)
        if bool((square == known).all()):
            break
        known, square = square, known
    if known is not A:
        A[...] = known


def _peer(peer: Any, close: Callable[[Any, Any], None]) -> Callable[[Any], Callable[[], float]]:
    def prepare(A: np.ndarray) -> Callable[[], float]:
        import cupy

        given = cupy.asarray(np.where(np.isfinite(A), A, 2**30 - 1).astype(np.int32))
        workspace = cupy.empty(peer.workspace_bytes(len(A)), np.uint8)

        def measure() -> float:
            times = []
            for _ in range(4):
                work = given.copy()
                times.append(device_milliseconds(lambda work=work: close(work, workspace), AHEAD))
            return float(np.median(times[1:]))

        return measure

    return prepare


# ------------------------------------------------------------------------------------------------- the tables


def graph(n: int, edges: float) -> np.ndarray:
    """Return the matrix of a uniform graph, its diagonal 0."""
    A = uniform_graph(n, edges, dtype="float32", integer=True, seed=n)
    np.fill_diagonal(A, 0)
    return A


def table(edges: float, options: argparse.Namespace) -> Table:
    """Measure a table, whose rows are methods and whose columns are sizes."""
    chosen = [c for c in columns(options.peers) if not options.columns or any(part in c[0] for part in options.columns)]
    times: dict[str, dict[int, float]] = {title: {} for title, _ in chosen}
    sizes = [n for n in options.sizes if edges < n - 1]
    for n in sizes:
        A = graph(n, edges)
        for title, prepare in chosen:
            last = max((size for size, time in times[title].items() if not np.isnan(time)), default=0)
            if not last and n > min(sizes):
                continue  # a smaller size was left out
            if last and times[title][last] * (n / last) ** 3 > options.limit * 1e3:
                continue
            try:
                times[title][n] = prepare(A)()
            except _WrongError:
                times[title][n] = np.nan
            print(f"{title}, n = {n}: {_cell(times[title][n])}", file=sys.stderr, flush=True)
    rows = [[title, *(_cell(times[title].get(n)) for n in sizes), _exponent(times[title])] for title, _ in chosen]
    heading = f"Milliseconds, {edges:g} edges a vertex; the exponent of growth"
    return Table(heading, ["method", *map(str, sizes), "exponent"], rows)


def _cell(value: float | None) -> str:
    if value is None:
        return "—"
    if np.isnan(value):
        return "wrong"
    return three_digits(value, "")


def _exponent(times: dict[int, float]) -> str:
    """Return the slope of log t over log n."""
    large = [n for n in times if n >= 1024 and not np.isnan(times[n])]
    return (
        format_number(np.polyfit(np.log(large), np.log([times[n] for n in large]), 1)[0], 2) if len(large) > 1 else "—"
    )


def energy(options: argparse.Namespace) -> Table:
    """Measure joules a closure and pairs a joule, by the counter of the GPU over two seconds of closures each."""
    require("pynvml")
    import cupy
    import pynvml

    pynvml.nvmlInit()
    # The address identifies the GPU, because CUDA_VISIBLE_DEVICES makes CUDA's numbers differ from those of NVML.
    handle = pynvml.nvmlDeviceGetHandleByPciBusId(cupy.cuda.Device().pci_bus_id)
    rows = []
    for n in options.energy:
        given = cupy.asarray(graph(n, 60))
        work = given.copy()
        staged.close(plan(), work)
        cupy.cuda.Device().synchronize()
        count, before, start = 0, pynvml.nvmlDeviceGetTotalEnergyConsumption(handle), time.perf_counter()
        while not count or time.perf_counter() - start < options.counted:
            work[...] = given
            staged.close(plan(), work)
            cupy.cuda.Device().synchronize()
            count += 1
        joules = (pynvml.nvmlDeviceGetTotalEnergyConsumption(handle) - before) / 1e3 / count
        elapsed = (time.perf_counter() - start) / count
        rows.append([n, joules, n**3 / joules / 1e9, joules / elapsed])
    return Table("Energy of staged, 60 edges a vertex", ["n", "joules", "G pairs a joule", "watts"], rows)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print the tables."""

    def configure(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--sizes", type=int, nargs="+", default=SIZES)
        parser.add_argument("--energy", type=int, nargs="+", default=[1024, 2048, 4096, 8192], help="sizes of `energy`")
        parser.add_argument("--counted", type=float, default=2.0, help="seconds over which energy is counted (2)")
        parser.add_argument("--columns", nargs="+", help="parts of the names of the methods to measure")
        parser.add_argument("--limit", type=float, default=5.0, help="the most seconds for one closure of a method")
        parser.add_argument("--peers", help="a folder of shared libraries")

    tables: dict[str, Any] = {
        f"edges-{edges}": lambda options, edges=edges: table(edges, options) for edges in (60, 6, 600)
    }
    return run(
        "benchmarks.gpu.closure", str(__doc__), tables | {"energy": energy}, arguments, configure, needs=["cupy"]
    )


if __name__ == "__main__":
    sys.exit(main())
