"""Closures by ranks of MPI beside one process on the same cores, Bertoldi's algorithms, and the model of both.

    mpiexec -n 4 python -m benchmarks.mpi [closures] [model] [--n 5040 12600] [--threads 4] [--device cuda]

float32, min-plus, complete graphs. Rank 0 prints. `closures`: seconds of the tiles alone, without scatter and gather;
speedup over one process that has all threads; seconds in which a rank waited for panels; bytes that all ranks received
beside the model's. His algorithm 2 has one thread a rank, 6 has all, 7 a GPU (``--device cuda``). `model`: t_c, t_s and
t_w fitted to this run, the times that the model says of it, and what it says of larger machines.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from contextlib import nullcontext, redirect_stdout
from io import StringIO
from typing import Any

import numpy as np

import semiring as sr
from benchmarks.common import Table, by_clock, random_matrix, run
from semiring import mpi
from semiring.algorithms.schedule import schedule_for
from semiring.ranks.grid import Grid, grid_shape
from semiring.ranks.model import row_broadcast_bytes, row_broadcast_seconds, tiles_bytes, tiles_times

__all__ = ["closures", "fitted", "main", "model"]

METHOD, ROWS = "blocked_floyd_warshall", "row_broadcast"
FLOAT = np.dtype(np.float32)


def _links(matrix: mpi.Matrix, method: str) -> Any:
    ranks, grid = matrix._team.ranks, matrix._spread.grid
    return matrix._team.links(Grid(grid.blocks, (ranks.size, 1)) if method == ROWS else grid)


def _seconds(ranks: Any, A: Any, options: argparse.Namespace, **how: Any) -> tuple[float, float, int]:
    """The longest of all ranks of the second of two closures, the longest wait for panels, and the bytes received."""
    for _ in range(2):
        matrix = mpi.distribute(A, device=options.device)
        ranks.allgather(None)
        links = _links(matrix, how.get("method", METHOD))
        before = getattr(links, "received", 0), getattr(links, "waiting", 0.0)
        seconds = by_clock(lambda matrix=matrix: mpi.closure(matrix, out=matrix, **how))
        moved = getattr(links, "received", 0) - before[0], getattr(links, "waiting", 0.0) - before[1]
    found = ranks.allgather((seconds, moved[1], moved[0]))
    return max(each[0] for each in found), max(each[1] for each in found), sum(each[2] for each in found)


def _block(n: int, options: argparse.Namespace) -> int:
    blocks = schedule_for("cuda" if options.device else "cpu", FLOAT).blocks(n)
    return blocks[len(blocks) // 2][1] - blocks[len(blocks) // 2][0]


def closures(options: argparse.Namespace) -> Table:
    """Closures on the ranks of this run."""
    ranks, table = options.ranks, []
    grid, threads = grid_shape(ranks.size), options.threads
    for n in options.n:
        A = random_matrix(n, np.float32, seed=n) if ranks.rank == 0 else None
        alone = 0.0
        if A is not None and not options.device:
            D = np.empty_like(A)
            for _ in range(2):
                alone = by_clock(lambda A=A, D=D: sr.closure(A, out=D, method=METHOD, threads=threads * ranks.size))
        ways = [("tiles", METHOD, threads), ("rows, algorithm 7", ROWS, threads)]
        if not options.device:
            ways[1:] = [("rows, algorithm 6", ROWS, threads), ("rows, algorithm 2", ROWS, 1)]
        first = 0.0
        for name, method, count in ways if n <= options.rows_up_to else ways[:1]:
            seconds, waited, received = _seconds(ranks, A, options, method=method, threads=count)
            first = first or seconds
            if method == METHOD:
                sizes = tiles_bytes(n, grid, _block(n, options))
                expected = sum(sizes[each] for each in ("rows of pivots", "columns of pivots", "blocks"))
            else:
                expected = row_broadcast_bytes(n, ranks.size)["pivot rows"]
            table.append(
                [
                    n,
                    name,
                    count,
                    f"{seconds:.3f}",
                    f"{alone / seconds:.2f}" if alone else "",
                    f"{waited:.3f}",
                    f"{received / 2**20:.0f}",
                    f"{100 * received / expected:.0f} %" if expected and received else "",
                    f"{seconds / first:.1f}",
                ]
            )
    columns = ["n", "how", "threads", "s", "of one process", "waited, s", "MiB received", "of the model's", "of tiles'"]
    where = "a GPU each" if options.device else f"{threads} threads each"
    return Table(f"{ranks.size} ranks on a grid of {grid[0]} × {grid[1]}, {where}, float32", columns, table)


def fitted(ranks: Any, options: argparse.Namespace) -> tuple[float, float, float, float]:
    """T_c of a rank with its threads, by blocks and by rows, and t_s and t_w of a broadcast to all, in seconds."""
    n = 4 * _block(4096, options)
    A = random_matrix(n, np.float32, seed=1)
    own = {"device": "cuda"} if options.device else {"threads": options.threads}
    t_c = min(by_clock(lambda: sr.closure(A, method=METHOD, **own)) for _ in range(3)) / n**3
    alone = mpi.load_mpi().COMM_SELF
    rows = mpi.distribute(A[:1260, :1260], comm=alone, device=options.device)
    t_r = min(by_clock(lambda: mpi.closure(rows, method=ROWS, threads=options.threads)) for _ in range(3)) / rows.n**3
    small, large = np.zeros(1, np.float32), np.zeros(1 << 22, np.float32)
    times = []
    for array in (small, large):
        ranks.broadcast(array, 0)
        times.append(min(by_clock(lambda array=array: ranks.broadcast(array, 0)) for _ in range(5)))
    t_s, both = (max(ranks.allgather(each)) for each in times)
    return max(ranks.allgather(t_c)), max(ranks.allgather(t_r)), t_s, max(both - t_s, 1e-12) / large.size


#: GPUs of one kind on a network of 400 Gb/s each: 14·10¹² pairs a second, 10 µs, 4 bytes at 40 GB/s.
LARGE = (1 / 14e12, 1e-5, 1e-10)


def model(options: argparse.Namespace) -> Table:
    """The model beside this run, and on paper."""
    ranks, table = options.ranks, []
    grid = grid_shape(ranks.size)
    t_c, t_r, t_s, t_w = fitted(ranks, options)
    for n in options.n:
        A = random_matrix(n, np.float32, seed=n) if ranks.rank == 0 else None
        times = tiles_times(n, grid, _block(n, options), t_c, t_s, t_w)
        seconds, _, _ = _seconds(ranks, A, options, threads=options.threads)
        table.append(_said("tiles", n, ranks.size, times.seconds, times.stops, seconds))
        if n <= options.rows_up_to:
            says = row_broadcast_seconds(n, ranks.size, t_r, t_s, t_w)
            seconds, _, _ = _seconds(ranks, A, options, method=ROWS, threads=options.threads)
            table.append(_said("rows", n, ranks.size, says, "", seconds))
    for size in (4, 64, 1024):
        n = 10**6
        times, rows = tiles_times(n, grid_shape(size), 1024, *LARGE), row_broadcast_seconds(n, size, *LARGE)
        table.append(_said("tiles, H200s", n, size, times.seconds, times.stops))
        table.append(_said("rows, H200s", n, size, rows, ""))
    columns = ["how", "n", "ranks", "the model, s", "measured, s", "pairs a second, 10⁹", "what stops it"]
    title = (
        f"The model: t_c = {t_c:.3g} s, by rows {t_r:.3g} s, t_s = {t_s:.3g} s, t_w = {t_w:.3g} s on {ranks.size} ranks"
    )
    return Table(title, columns, table)


def _said(name: str, n: int, size: int, says: float, stops: str, seconds: float | None = None) -> list[Any]:
    shown = "" if seconds is None else f"{seconds:.3f}"
    return [name, n, size, f"{says:.3f}", shown, f"{n**3 / says / 1e9:,.0f}", stops]


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure on all ranks; the first prints the tables."""

    def configure(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--n", type=int, nargs="+", default=[5040, 12600])
        parser.add_argument("--rows-up-to", type=int, default=12600, help="the largest n for Bertoldi's algorithms")
        parser.add_argument("--threads", type=int, default=sr.get_threads())
        parser.add_argument("--device", choices=["cuda"])

    with mpi.together() as ranks:

        def measured(table: Any) -> Any:
            def measure(options: argparse.Namespace) -> Table:
                options.ranks = ranks
                if ranks.rank:
                    options.save = None
                return table(options)

            return measure

        tables = {"closures": measured(closures), "model": measured(model)}
        with nullcontext() if not ranks.rank else redirect_stdout(StringIO()):
            return run("benchmarks.mpi", str(__doc__), tables, arguments, configure)


if __name__ == "__main__":
    sys.exit(main())
