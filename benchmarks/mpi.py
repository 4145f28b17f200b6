"""Measure closures by ranks of MPI beside one process on the same cores, Bertoldi's algorithms, and their model.

    mpiexec -n 4 python -m benchmarks.mpi closures model [--n 5040 12600] [--threads 4] [--device cuda]
    python -m benchmarks.mpi scaling [--many 1 2 4 8] [--threads 2] [--n 8192]

float32, min-plus, complete graphs. Rank 0 prints. `closures` prints the seconds of the tiles alone, without scatter and
gather, and the speedup over one process that has all threads. It also prints the seconds in which a rank waited for
panels, and the bytes that all ranks received, next to the bytes that the model predicts. Bertoldi's algorithm 2 has one
thread a rank,
algorithm 6 has all threads, algorithm 7 a GPU (``--device cuda``). Every pivot costs these algorithms the same, so they
are timed on ``--pivots`` of the pivots. `model` prints the numbers fitted to this run, predicted beside measured times,
and predictions for larger machines. `scaling` starts mpiexec for each number of ranks, and `one` prints one line of
that table. `ways` prints a line of `benchmarks.papers`. The time of tiles starts when they lie on their devices, and
ends when they are closed. By rows a rank waits in every broadcast. By tiles it waits only for panels that arrive late.

Ranks of a host take their own part of its processors each, neighbours first.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import cache, partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

import semiring as sr
from benchmarks.common import Table, by_clock, by_synchronized_clock, format_number, random_matrix, run
from benchmarks.packages import require
from semiring import mpi
from semiring.algorithms.papers.bertoldi import close_rows
from semiring.algorithms.schedule import schedule_for
from semiring.distributed.closing import close_tiles
from semiring.distributed.cost_model import row_broadcast_bytes, row_broadcast_seconds, tiles_bytes, tiles_times
from semiring.distributed.gpu_transports import rank_device, transport_of
from semiring.distributed.grid import Grid, grid_shape
from semiring.distributed.mpi_communicator import is_under_mpiexec
from semiring.distributed.tiled_matrix import distribute_rows, split_rows
from semiring.distributed.transports import SINGLE_RANK, Groups, HostTransport
from semiring.kernels import backend_for
from semiring.kernels.engine import Engine, make_plan
from semiring.kernels.machines import closure_speed
from semiring.namespaces import array_namespace

__all__ = ["closures", "fit_model", "main", "model", "one", "scaling", "ways"]

_WARM = 1700  # rows of the first closure, which warms up a CPU
METHOD, ROWS = "blocked_floyd_warshall", "row_broadcast"
FLOAT = np.dtype(np.float32)


def _sizes(options: argparse.Namespace) -> tuple[int | None, ...]:
    """Return the numbers of rows that are closed: some, and all, on which the kernels of a GPU depend."""
    return (None, None) if options.device else (_WARM, None)


def _siblings(processor: int) -> str:
    """Return the processors of one core, as Linux reports them."""
    path = Path(f"/sys/devices/system/cpu/cpu{processor}/topology/thread_siblings_list")
    return path.read_text().strip() if path.exists() else str(processor)


@contextmanager
def _bind_rank(ranks: Any) -> Iterator[None]:
    """Bind this rank to its part of the processors."""
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    allowed = os.sched_getaffinity(0)
    ordered = sorted(allowed, key=lambda each: (_siblings(each), each))
    share = max(1, len(ordered) // ranks.size)
    first = ranks.rank * share % len(ordered)
    _bind(ordered[first : first + share])
    try:
        yield
    finally:
        _bind(allowed)


def _bind(processors: Collection[int]) -> None:
    """Bind the threads of this process to these processors, compute threads included."""
    tasks = Path("/proc/self/task")
    for task in [int(each.name) for each in tasks.iterdir()] if tasks.exists() else [0]:
        with suppress(ProcessLookupError):  # a thread that has ended since it was listed
            os.sched_setaffinity(task, processors)


class _RankCost(NamedTuple):
    """The seconds of a rank, the seconds in which it waited for panels, and the bytes that it received."""

    seconds: float
    wait_seconds: float
    received_bytes: int


class _Tiles:
    """The tiles of a rank where it computes, dealt out by rank 0, and the function that closes them.

    For `METHOD` the grid is as square as can be, in the blocks of the schedule. For `ROWS` each rank has rows.
    """

    def __init__(self, ranks: Any, A: Any, method: str, options: argparse.Namespace, size: int | None = None) -> None:
        n = ranks.allgather(None if A is None else min(len(A), size or len(A)))[0]
        held = [(0, n if rank == 0 else 0) for rank in range(ranks.size)]
        if method == ROWS:
            self.grid = Grid(tuple(split_rows(n, ranks.size)), (ranks.size, 1))
        else:
            blocks = ranks.allgather(tuple(_schedule(options).blocks(n)))[0]
            self.grid = Grid(blocks, grid_shape(ranks.size))
        self.ranks = ranks
        self.transport = _transport(ranks, self.grid.shape, options.device)
        own = distribute_rows(ranks, self.grid, held, None if A is None else A[:n, :n], FLOAT)
        self.tile = rank_device(ranks).copy_to_device(own) if options.device else own
        self._backend = backend_for(self.tile, sr.min_plus, FLOAT)

    def engine(self, threads: int) -> Engine:
        """Return the kernels of min-plus without a weight below 0."""
        plan = make_plan(sr.min_plus, FLOAT, nonnegative=True, threads=threads)
        return Engine(self._backend, plan, closure_speed(self._backend.name, FLOAT).panel)

    def measure(self, close: Callable[..., int], grid: Any, threads: int) -> _RankCost:
        """Close the tiles, all ranks together, and return what that took this rank."""
        engine = self.engine(threads)
        self.ranks.allgather(None)
        waited, received = self._counters()
        start = time.perf_counter()
        close(engine, self.transport, grid, self.tile, diverges=False)
        self.tile[:1, :1].tolist()  # waits for a device
        seconds = time.perf_counter() - start
        now = self._counters()
        return _RankCost(seconds, now[0] - waited, round(now[1] - received))

    def _counters(self) -> tuple[float, float]:
        return getattr(self.transport, "waiting_seconds", 0.0), getattr(self.transport, "received_bytes", 0)


@cache
def _transport(ranks: Any, shape: tuple[int, int], device: str | None) -> Any:
    groups = Groups(ranks, Grid((), shape))
    return transport_of(groups) if device else HostTransport(groups)


def _seconds(ranks: Any, A: Any, options: argparse.Namespace, threads: int) -> tuple[float, float, int]:
    """Return the longest seconds of all ranks, the longest wait for panels, and the bytes received."""
    with _bind_rank(ranks):
        for size in _sizes(options):  # kernels are compiled and loaded before
            tiles = _Tiles(ranks, A, METHOD, options, size)
            spent = tiles.measure(close_tiles, tiles.grid, threads)
    return _of_all(ranks, spent)


def _seconds_by_rows(ranks: Any, A: Any, options: argparse.Namespace, threads: int) -> tuple[float, float, int]:
    """Return the times and bytes of `_seconds` for Bertoldi's algorithm, by some pivots of each rank."""
    for size in _sizes(options):
        spent = _by_rows(ranks, A, options, threads, size)
    return _of_all(ranks, spent)


def _by_rows(ranks: Any, A: Any, options: argparse.Namespace, threads: int, size: int | None = None) -> _RankCost:
    tiles = _Tiles(ranks, A, ROWS, options, size)
    grid, share = tiles.grid, max(1, options.pivots // ranks.size)
    blocks = [(start, min(stop, start + share)) for start, stop in grid.blocks]
    whole = grid.n / max(1, sum(stop - start for start, stop in blocks))
    part = SimpleNamespace(n=grid.n, blocks=blocks, rows=grid.rows)
    with _bind_rank(ranks):
        spent = tiles.measure(close_rows, part, threads)
    return _RankCost(whole * spent.seconds, whole * spent.wait_seconds, round(whole * spent.received_bytes))


def _of_all(ranks: Any, cost: _RankCost) -> tuple[float, float, int]:
    seconds, waited, received = zip(*ranks.allgather(cost), strict=True)
    return max(seconds), max(waited), sum(received)


def _schedule(options: argparse.Namespace) -> Any:
    return schedule_for("cuda" if options.device else "cpu", FLOAT)


def _block(n: int, options: argparse.Namespace) -> int:
    blocks = _schedule(options).blocks(n)
    return blocks[len(blocks) // 2][1] - blocks[len(blocks) // 2][0]


def _model_bytes(n: int, grid: tuple[int, int], options: argparse.Namespace) -> float:
    """Return the bytes that the tiles of all ranks receive in the model."""
    sizes = tiles_bytes(n, grid, _block(n, options))
    return sum(sizes[each] for each in ("rows of pivots", "columns of pivots", "blocks"))


def closures(options: argparse.Namespace) -> Table:
    """Measure closures on the ranks of this run."""
    ranks, table = options.ranks, []
    grid, threads = grid_shape(ranks.size), options.threads
    for n in options.n:
        A = random_matrix(n, np.float32, seed=n) if ranks.rank == 0 else None
        alone = 0.0
        if A is not None and not options.device:
            D = np.zeros_like(A)
            how = {"method": METHOD, "threads": threads * ranks.size, "check": False}
            sr.closure(A[:_WARM, :_WARM], **how)
            alone = by_clock(partial(sr.closure, A, out=D, **how))
        ways = [("tiles", METHOD, threads), ("rows, algorithm 7", ROWS, threads)]
        if not options.device:
            ways[1:] = [("rows, algorithm 6", ROWS, threads), ("rows, algorithm 2", ROWS, 1)]
        first = 0.0
        for name, method, count in ways if n <= options.rows_up_to else ways[:1]:
            if method == METHOD:
                seconds, waited, received = _seconds(ranks, A, options, threads=count)
                expected = _model_bytes(n, grid, options)
            else:
                seconds, waited, received = _seconds_by_rows(ranks, A, options, count)
                expected = row_broadcast_bytes(n, ranks.size)["pivot rows"]
            first = first or seconds
            table.append(
                [
                    n,
                    name,
                    count,
                    format_number(seconds, 3),
                    format_number(alone / seconds, 2) if alone else "",
                    format_number(waited, 3),
                    format_number(received / 2**20, 0),
                    f"{format_number(100 * received / expected, 0)} %" if expected and received else "",
                    format_number(seconds / first, 1),
                ]
            )
    columns = ["n", "how", "threads", "s", "of one process", "waited, s", "MiB received", "of the model's", "of tiles'"]
    where = "a GPU each" if options.device else f"{threads} threads each"
    return Table(f"{ranks.size} ranks on a grid of {grid[0]} × {grid[1]}, {where}, float32", columns, table)


class Fit(NamedTuple):
    """The numbers of the model, in seconds: of a rank with its threads, and of a broadcast to all."""

    t_c: float  # a pair of tiles
    t_r: float  # a pair of rows
    t_k: float  # seconds of a pivot by rows, beside its pairs
    t_s: float  # seconds to start a message
    t_w: float  # seconds of an entry in a message


def fit_model(ranks: Any, options: argparse.Namespace) -> Fit:
    """Fit the model to the slowest rank.

    Rows are timed at two sizes, by some pivots, which separates the cost of a pivot from the cost of its pairs.
    """
    usual = (12600, 6300, 1 << 28) if options.device else (4 * _block(4096, options), 1260, 1 << 24)
    n, few, words = options.fitted or usual
    A = random_matrix(n, np.float32, seed=1)
    there, clock = (
        rank_device(ranks).copy_to_device(A) if options.device else A,
        by_synchronized_clock if options.device else by_clock,
    )
    ranks.allgather(None)
    with _bind_rank(ranks):
        close = partial(sr.closure, there, out=there, method=METHOD, threads=options.threads)
        t_c = min(clock(close) for _ in range(3)) / n**3
    each = []
    for rows in (few // 2, few):
        part = A[:rows, :rows]
        each.append(min(_by_rows(SINGLE_RANK.ranks, part, options, options.threads).seconds for _ in range(3)) / rows)
    t_r = max(each[1] - each[0], 0.0) / (few**2 - (few // 2) ** 2)
    t_k = max(each[0] - t_r * (few // 2) ** 2, 0.0)
    xp, transport = array_namespace(there), _transport(ranks, grid_shape(ranks.size), options.device)
    small, large = xp.zeros(1, np.float32), xp.zeros(words, np.float32)

    def travel(array: Any, times: int) -> None:
        for _ in range(times):
            transport.broadcast(array, 0, "all")
        float(array[0])  # waits for a device

    times = []
    for array, many in ((small, 256), (large, 1)):  # small messages one after the other, as rows travel
        travel(array, 1)
        times.append(min(by_clock(partial(travel, array, many)) for _ in range(5)) / many)
    t_s, both = (max(ranks.allgather(each)) for each in times)
    t_c, t_r, t_k = (max(each) for each in zip(*ranks.allgather((t_c, t_r, t_k)), strict=True))
    return Fit(t_c, t_r, t_k, t_s, max(both - t_s, 1e-12) / large.size)


#: H200s on a network of 400 Gb/s each: 14·10¹² pairs a second in products, 0.57·10¹² in rows and 74 µs for each, 10 µs,
#: and 40 GB/s.
LARGE = Fit(1 / 14e12, 1.74e-12, 7.4e-5, 1e-5, 1e-10)


def model(options: argparse.Namespace) -> Table:
    """Compare the model with this run, and predict larger machines."""
    ranks, table = options.ranks, []
    grid, fit = grid_shape(ranks.size), fit_model(ranks, options)
    for n in options.n:
        A = random_matrix(n, np.float32, seed=n) if ranks.rank == 0 else None
        times = tiles_times(n, grid, _block(n, options), fit.t_c, fit.t_s, fit.t_w)
        seconds, _, _ = _seconds(ranks, A, options, threads=options.threads)
        table.append(_model_row("tiles", n, ranks.size, times.seconds, times.bottleneck, seconds))
        if n <= options.rows_up_to:
            says = row_broadcast_seconds(n, ranks.size, fit.t_r, fit.t_s, fit.t_w, fit.t_k)
            seconds, _, _ = _seconds_by_rows(ranks, A, options, options.threads)
            table.append(_model_row("rows", n, ranks.size, says, "", seconds))
    large = fit if options.device else LARGE
    for size in (4, 64, 1024):
        n = 10**6
        times = tiles_times(n, grid_shape(size), 1024, large.t_c, large.t_s, large.t_w)
        rows = row_broadcast_seconds(n, size, large.t_r, large.t_s, large.t_w, large.t_k)
        table.append(_model_row("tiles, H200s", n, size, times.seconds, times.bottleneck))
        table.append(_model_row("rows, H200s", n, size, rows, ""))
    columns = ["how", "n", "ranks", "the model, s", "measured, s", "of it", "pairs a second, 10⁹", "what stops it"]
    told = ", ".join(f"{name} = {value:.3g} s" for name, value in fit._asdict().items())
    return Table(f"The model: {told} on {ranks.size} ranks", columns, table)


def one(options: argparse.Namespace) -> Table:
    """Print a line of `scaling` for the ranks of this run as JSON."""
    ranks, n, table = options.ranks, options.n[0], []
    grid = grid_shape(ranks.size)
    A = random_matrix(n, np.float32, seed=n) if ranks.rank == 0 else None
    fit = fit_model(ranks, options)
    times = tiles_times(n, grid, _block(n, options), fit.t_c, fit.t_s, fit.t_w)
    seconds, waited, received = _seconds(ranks, A, options, threads=options.threads)
    found = {
        "seconds": seconds,
        "waited": waited,
        "received": received,
        "expected": _model_bytes(n, grid, options),
        "says": times.seconds,
    }
    if ranks.rank == 0:
        print(json.dumps(found), file=sys.stderr, flush=True)
    table.append([json.dumps(found)])
    return Table("one", ["found"], table)


def ways(options: argparse.Namespace) -> Table:
    """Measure what tiles and rows take on the ranks of this run, as JSON: a line of `benchmarks.papers`."""
    ranks, n = options.ranks, options.n[0]
    A = random_matrix(n, np.float32, seed=n) if ranks.rank == 0 else None
    found = {}
    for name, measure in (("tiles", _seconds), ("rows", _seconds_by_rows)):
        seconds, waited, received = measure(ranks, A, options, options.threads)
        found[name] = {"seconds": seconds, "waited": waited, "received": received}
    if ranks.rank == 0:
        print(json.dumps(found), file=sys.stderr, flush=True)
    return Table("ways", ["found"], [[json.dumps(found)]])


def scaling(options: argparse.Namespace) -> Table | None:
    """Measure closures by mpiexec on one, two and more ranks, beside the model and one process on as many cores."""
    require("mpi4py")
    if is_under_mpiexec():
        return None  # a rank starts no processes
    table, first, n = [], 0.0, options.n[0]
    A, D = random_matrix(n, np.float32, seed=n), np.zeros((n, n), np.float32)
    sr.closure(A[:_WARM, :_WARM], method=METHOD)  # compiles the kernels for the children too
    for size in options.many:
        count = size * options.threads
        alone = by_clock(partial(sr.closure, A, out=D, method=METHOD, threads=count))
        command = [*shlex.split(options.mpiexec), "-n", str(size), sys.executable, "-m", "benchmarks.mpi", "one"]
        command += ["--n", str(n), "--threads", str(options.threads)]
        command += ["--fitted", *map(str, options.fitted)] if options.fitted else []
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        line = next((line for line in done.stderr.splitlines() if line.startswith("{")), None)
        if line is None:
            raise RuntimeError(done.stderr)
        found = json.loads(line)
        seconds, received = found["seconds"], found["received"]
        first = first or seconds
        table.append(
            [
                size,
                format_number(seconds, 3),
                format_number(first * options.many[0] / seconds, 2),
                f"{format_number(100 * first * options.many[0] / seconds / size, 0)} %",
                format_number(alone / seconds, 2),
                format_number(found["waited"], 3),
                format_number(received / 2**20, 0),
                f"{format_number(100 * received / found['expected'], 0)} %" if found["expected"] else "",
                format_number(found["says"], 3),
            ]
        )
    columns = ["ranks", "s", "speedup", "efficiency", "of one process", "waited, s", "MiB received", "of the model's"]
    return Table(f"n = {n}, float32, {options.threads} threads a rank", [*columns, "the model, s"], table)


def _model_row(name: str, n: int, size: int, says: float, stops: str, seconds: float | None = None) -> list[Any]:
    measured = (
        ["", ""] if seconds is None else [format_number(seconds, 3), f"{format_number(100 * seconds / says, 0)} %"]
    )
    return [name, n, size, format_number(says, 3), *measured, format_number(n**3 / says / 1e9, 0, ","), stops]


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure on all ranks. The first prints the tables."""

    def configure(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--n", type=int, nargs="+", default=[5040, 12600])
        parser.add_argument("--rows-up-to", type=int, default=12600, help="the largest n for Bertoldi's algorithms")
        parser.add_argument("--pivots", type=int, default=1 << 30, help="of Bertoldi's algorithms that are timed")
        parser.add_argument("--threads", type=int, default=sr.get_threads())
        parser.add_argument("--device", choices=["cuda"])
        parser.add_argument(
            "--fitted",
            type=int,
            nargs=3,
            metavar=("N", "ROWS", "WORDS"),
            help="what the model is fitted to: a closure, one by rows, and a message, each of so many",
        )
        parser.add_argument("--many", type=int, nargs="+", default=[1, 2, 4, 8], help="ranks of `scaling`")
        parser.add_argument("--mpiexec", default="mpiexec --bind-to none --oversubscribe", help="of `scaling`")

    with ExitStack() as stack:

        def on_ranks(table: Callable[[argparse.Namespace], Table]) -> Callable[[argparse.Namespace], Table | None]:
            def measure(options: argparse.Namespace) -> Table | None:
                require("mpi4py")
                if "ranks" not in options:
                    options.ranks = stack.enter_context(mpi.together())
                found = table(options)
                return found if options.ranks.rank == 0 else None

            return measure

        tables = {table.__name__: on_ranks(table) for table in (closures, model, one, ways)}
        # `scaling` comes first: mpiexec does not start from a process that has begun MPI.
        return run("benchmarks.mpi", str(__doc__), {"scaling": scaling} | tables, arguments, configure)


if __name__ == "__main__":
    sys.exit(main())
