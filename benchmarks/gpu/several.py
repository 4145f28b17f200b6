"""Compare closures on several GPUs of a host with one GPU.

    python -m benchmarks.gpu.several [closures] [bits] [paths] [stacks] [--n 32768 ...] [--bits 262144 ...]
        [--paths 65536 ...] [--stack COUNT N]

Min-plus in float32, the matrix of `benchmarks.gpu.large`. It lies on the first GPU. With ``--host``, or if that GPU has
no room for it and a share, it lies in the memory of the host. The time includes moving its rows to the other GPUs and
back. Where one GPU has closed it too, a checksum of all bits is compared. ``--rows`` of each result are checked as
single-source runs. The model is `semiring.distributed.cost_model`. It takes the rate of one GPU, which is the last in
this run or ``--rate``, and ``--word`` seconds for each transferred entry. Up to ``--bare`` vertices the faster of two
runs counts. Rows that lie on the GPUs are then closed twice more, with panels copied and without. "not hidden" is the
difference. The bytes that the GPUs copied from each other stand beside the model's. Sizes that give each GPU the same
memory show weak scaling: 65536 on one GPU, 92672 on two, 131072 on four.

``bits``: random digraphs of 1.5 edges a vertex as packed bits in the memory of the host, without structure analysis. 16
rows are compared with searches from their vertices. ``paths``: `semiring.shortest_paths` of the matrix in the memory of
the host, beside the distances alone. The trees of 64 vertices are added up edge by edge. ``stacks``: closures of a
stack of matrices, in the memory of the host and of the first GPU.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import numpy as np

import semiring as sr
from benchmarks.common import Table, by_clock, format_number, ours, run
from benchmarks.gpu.large import weights
from benchmarks.packages import UnavailableError, require
from semiring.algorithms.schedule import schedule_for
from semiring.arrays.bits import BitMatrix
from semiring.distributed.closing import close_tiles
from semiring.distributed.cost_model import tiles_bytes, tiles_times
from semiring.distributed.gpu_transports import DeviceTransport, broadcast_by_copies
from semiring.distributed.grid import Grid
from semiring.distributed.transports import Groups, run_ranks
from semiring.kernels import get_backend
from semiring.kernels.cuda.entries.entry_passes import relax
from semiring.kernels.engine import Engine, make_plan
from semiring.kernels.machines import closure_speed

__all__ = ["main"]

METHOD = "blocked_floyd_warshall"
FLOAT = np.dtype(np.float32)
_STEP, _MARGIN = 1024, 6 << 30  # rows at a time, and bytes that a GPU keeps free
_BITS, _TREES = 16, 64  # rows and trees that are checked
_RUNS = 2  # of which the faster counts
_WARM, _WARM_BITS = 8704, 65536  # vertices from which on blocks of pivots have their final width
Close = Callable[[Any], Any]


def _free() -> None:
    import cupy

    for device in range(cupy.cuda.runtime.getDeviceCount()):
        with cupy.cuda.Device(device):
            cupy.get_default_memory_pool().free_all_blocks()


def matrix(n: int, gpus: int, on_host: bool = False) -> Any:
    """Return the matrix on the first GPU, or on the host if that GPU has no room for it and the rows that it closes."""
    import cupy

    _free()
    share = 4 * n * n // gpus if gpus > 1 else 0
    here = not on_host and 4 * n * n + share + 16 * _STEP * n + _MARGIN < cupy.cuda.runtime.memGetInfo()[0]
    A = (cupy if here else np).empty((n, n), np.float32)
    fill(A)
    return A


def fill(A: Any) -> None:
    """Write the weights into an array of the first GPU or of the host."""
    import cupyx

    n, on_host = len(A), isinstance(A, np.ndarray)

    def fill_blocks(first: int) -> None:
        stage = cupyx.empty_pinned((_STEP, n), np.float32) if on_host else None
        for start in range(first * _STEP, n, threads * _STEP):
            rows = weights(n, start)
            A[start : start + _STEP] = rows if stage is None else rows.get(out=stage[: len(rows)])

    threads = 8 if on_host else 1
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(fill_blocks, range(threads)))
    _free()


def checksum(A: Any) -> int:
    """Return a number that depends on every bit of a matrix and on its position."""
    import cupy

    total, places = 0, cupy.arange(1, 2 * A.shape[1], 2, dtype=np.uint64)
    for start in range(0, len(A), _STEP):
        words = cupy.asarray(A[start : start + _STEP]).view(np.uint32).astype(np.uint64)
        total += (start + 1) * int((words * places).sum())
    return total % (1 << 64)


def right_rows(A: Any, count: int) -> int:
    """Return how many of ``count`` rows of the result equal single-source runs over the regenerated matrix.

    One sweep from the final distances suffices. All weights are above 0, so d[j] = min d[i] + w[i, j], with 0 at the
    source, has one solution.
    """
    import cupy

    n = len(A)
    sources = np.random.default_rng(n).choice(n, count, replace=False).tolist()
    rows = [cupy.asarray(A[source]).astype(np.float64) for source in sources]
    least = [cupy.full(n, np.inf) for _ in sources]
    for start in range(0, n, _STEP):
        piece = weights(n, start)
        for which, row in enumerate(rows):
            least[which] = cupy.minimum(least[which], relax(piece, row[start : start + _STEP], 1, 0.0))
    for source, found in zip(sources, least, strict=True):
        found[source] = 0
    return sum(bool((found == row).all()) for found, row in zip(least, rows, strict=True))


def closing(gpus: int, on_host: bool = False) -> Close:
    """Return the function that computes A ← A* on a number of GPUs."""
    where: Any = tuple(f"cuda:{number}" for number in range(gpus)) if gpus > 1 else "cuda" if on_host else None
    return lambda A: sr.closure(A, out=A, method=METHOD, device=where)


def seconds(close: Close, A: Any) -> float:
    """Return the seconds of one closure by the clock of the host."""
    import cupy

    cupy.cuda.Device().synchronize()

    def call() -> None:
        close(A)
        cupy.cuda.Device().synchronize()

    return by_clock(call)


class Panels:
    """Panels that travel between GPUs: `broadcast_by_copies`, or a stand-in that waits alike and copies nothing."""

    def __init__(self, copies: bool) -> None:
        self._copies = copies
        self._sizes: list[int] = []  # a list, because the threads of all GPUs append to it

    def __call__(self, array: Any, root: int, ranks: Any) -> None:
        """Carry an array of one GPU to all of them."""
        if not self._copies:
            self._wait(ranks)
            return
        broadcast_by_copies(array, root, ranks)
        if ranks.rank != root:
            self._sizes.append(array.nbytes)

    def _wait(self, ranks: Any) -> None:
        import cupy

        for _ in range(2):
            stream = cupy.cuda.get_current_stream()
            for end in ranks.allgather(stream.record(cupy.cuda.Event(disable_timing=True))):
                stream.wait_event(end)

    @property
    def bytes(self) -> int:
        """The bytes that the GPUs received."""
        return sum(self._sizes)


def tiles_seconds(n: int, gpus: int, panels: Panels) -> float:
    """Return the seconds in which ``gpus`` GPUs close random rows in their own memory, without scatter and gather."""
    import cupy

    blocks = schedule_for("cuda", FLOAT).blocks(n)
    grid = Grid(tuple(blocks), (gpus, 1))

    def close(ranks: Any) -> float:
        cupy.cuda.Device(ranks.rank).use()
        rows = grid.rows(ranks.rank)
        tiles = cupy.empty((len(rows), n), np.float32)
        for start in range(0, len(rows), _STEP):
            tiles[start : start + _STEP] = weights(n, start)[: len(rows) - start]
        plan = make_plan(sr.min_plus, FLOAT, nonnegative=True)
        engine = Engine(get_backend("cuda"), plan, closure_speed("cuda", FLOAT).panel)
        transport = DeviceTransport(Groups(ranks, grid), panels)
        cupy.cuda.Device().synchronize()
        ranks.allgather(None)

        def call() -> None:
            close_tiles(engine, transport, grid, tiles, diverges=False)
            cupy.cuda.Device().synchronize()

        return by_clock(call)

    found = max(run_ranks(gpus, close))
    _free()
    return found


class _Energy:
    """The energy counters of some GPUs, in joules."""

    def __init__(self, gpus: int) -> None:
        require("pynvml")
        import cupy
        import pynvml

        pynvml.nvmlInit()
        addresses = [cupy.cuda.Device(number).pci_bus_id for number in range(gpus)]
        self._read_counters, self._handles = (
            pynvml.nvmlDeviceGetTotalEnergyConsumption,
            [pynvml.nvmlDeviceGetHandleByPciBusId(address) for address in addresses],
        )
        self._start = self._counters()

    def _counters(self) -> float:
        return sum(map(self._read_counters, self._handles)) / 1e3

    def joules(self) -> float:
        """Return the joules since this object was made."""
        return self._counters() - self._start


class _Size:
    """The measurements of closures of one matrix size."""

    def __init__(self, n: int, options: argparse.Namespace) -> None:
        start, stop = schedule_for("cuda", FLOAT).blocks(n)[-2:][0]
        self.n, self.width, self._options = n, stop - start, options
        self._bits: int | None = None  # the bits of the result of one GPU

    def row(self, gpus: int, single_rate: float, check: bool) -> tuple[float, list[Any]]:
        """Return the pairs per second and the table row of a number of GPUs.

        ``single_rate`` is the rate of one GPU in pairs per second. ``check`` states whether rows are checked.
        """
        n, options = self.n, self._options
        A = matrix(n, gpus, options.host and gpus > 1)
        on_host = isinstance(A, np.ndarray)
        close, energy = closing(gpus, on_host), _Energy(gpus)
        took = seconds(close, A)
        joules = energy.joules()
        print(f"{n} vertices on {gpus} GPUs: {took:.3f} s", flush=True)
        checked = []
        if gpus == 1:
            self._bits = checksum(A)
        elif self._bits is not None:
            assert self._bits == checksum(A), f"the bits of {gpus} GPUs differ"
            checked.append("the bits of one GPU")
        if check and options.rows:
            checked.append(f"{right_rows(A, options.rows)} of {options.rows} rows")
        if n <= options.bare:  # A* is its own closure, and takes as long
            took = min(took, seconds(close, A))
        single_rate = n**3 / took if gpus == 1 else single_rate
        del A
        _free()
        says = self._model(gpus, single_rate, on_host) if gpus > 1 else ""
        panels = self._panels(gpus) if gpus > 1 and n <= options.bare else ["", "", ""]
        times = (
            [
                format_number(n**3 / single_rate / took, 2),
                f"{format_number(100 * n**3 / single_rate / took / gpus, 1)} %",
            ]
            if single_rate
            else ["", ""]
        )
        rate = format_number(n**3 / took / gpus / 1e12, 2)
        where = "host" if on_host else "GPU"
        said = [n, gpus, where, format_number(took, 3), says, rate, *times, *panels, format_number(joules / 1e3, 2)]
        return n**3 / took, [*said, ", ".join(checked)]

    def _panels(self, gpus: int) -> list[str]:
        """Return the extra seconds of tiles with panel copies, the GiB copied, and their share of the model's."""
        n, copied = self.n, Panels(True)
        tiles_seconds(n, gpus, Panels(True))  # compiles
        hidden = tiles_seconds(n, gpus, copied) - tiles_seconds(n, gpus, Panels(False))
        share = copied.bytes / tiles_bytes(n, (gpus, 1), self.width)["rows of pivots"]
        return [format_number(hidden, 3), format_number(copied.bytes / 2**30, 1), f"{format_number(100 * share, 1)} %"]

    def _model(self, gpus: int, single_rate: float, on_host: bool) -> str:
        """Return the model's seconds, or an empty text without the rate of one GPU."""
        if not single_rate:
            return ""
        sizes, word = tiles_bytes(self.n, (gpus, 1), self.width), self._options.word
        moved = 0.0 if on_host else (sizes["scatter"] + sizes["gather"]) * word / 4
        return format_number(moved + tiles_times(self.n, (gpus, 1), self.width, 1 / single_rate, 1e-4, word).seconds, 3)


def closures(options: argparse.Namespace) -> Table:
    """Measure each size on each number of GPUs."""
    import cupy

    counts = [gpus for gpus in options.gpus if gpus <= cupy.cuda.runtime.getDeviceCount()]
    for gpus in counts:  # compiles
        on_host = options.host and gpus > 1
        seconds(closing(gpus, on_host), matrix(min(_WARM, max(options.n)), gpus, on_host))
    table: list[list[Any]] = []
    alone = 1e12 * options.rate  # pairs a second of one GPU with the largest matrix so far
    for size in (_Size(n, options) for n in options.n):
        for gpus in counts:
            if gpus > 1 or size.n <= options.alone:
                rate, row = size.row(gpus, alone, gpus == counts[-1])
                alone = rate if gpus == 1 else alone
                table.append(row)
                print(*row, flush=True)
                _free()
    columns = [
        *("n", "GPUs", "matrix on the", "s", "the model, s", "T pairs/s a GPU", "of one GPU", "efficiency"),
        *("not hidden, s", "GiB of panels", "of the model's", "kJ", "checked"),
    ]
    return Table("Several GPUs of a host, min-plus float32, in place", columns, table)


def _several(options: argparse.Namespace) -> list[int]:
    """Return the numbers of GPUs that there are, beyond one."""
    import cupy

    count = cupy.cuda.runtime.getDeviceCount()
    counts = [gpus for gpus in options.gpus if 1 < gpus <= count]
    if not counts:
        raise UnavailableError(f"it needs several GPUs, and this host has {count}")
    return counts


def bits(options: argparse.Namespace) -> Table:
    """Measure packed bits on each number of GPUs."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import breadth_first_order

    counts = _several(options)
    table: list[list[Any]] = []
    for gpus in counts:  # compiles
        A = BitMatrix.from_edges([0], [1], (_WARM_BITS, _WARM_BITS))
        sr.closure(A, "boolean", out=A, method=METHOD, device=tuple(f"cuda:{number}" for number in range(gpus)))
    for n in options.bits:
        rng = np.random.default_rng(n)
        tails, heads = rng.integers(0, n, (2, n + n // 2))
        graph = coo_array((np.ones(len(tails), np.int8), (tails, heads)), (n, n)).tocsr()
        for gpus in counts:
            A, where = BitMatrix.from_edges(tails, heads, (n, n)), tuple(f"cuda:{number}" for number in range(gpus))
            took = by_clock(lambda A=A, where=where: sr.closure(A, "boolean", out=A, method=METHOD, device=where))
            equal = 0
            for source in rng.integers(0, n, _BITS).tolist():
                reached = np.zeros(32 * A.words.shape[1], np.bool_)
                reached[breadth_first_order(graph, source, return_predecessors=False)] = True
                found = np.unpackbits(A.words[source].view(np.uint8), bitorder="little")
                equal += bool((found == reached).all())
            rate = format_number(n**3 / took / 1e12, 0, ",")
            table.append(
                [n, gpus, format_number(A.nbytes / 2**30, 1), format_number(took, 2), rate, f"{equal} of {_BITS} rows"]
            )
            print(*table[-1], flush=True)
            del A
            _free()
    columns = ["n", "GPUs", "GiB", "s", "T bit pairs/s", "checked"]
    return Table("Packed bits of the host on several GPUs, with the transfers", columns, table)


def paths(options: argparse.Namespace) -> Table:
    """Measure predecessors on one GPU and on each number of GPUs, beside distances alone."""
    counts = [gpus for gpus in options.gpus if gpus == 1] + _several(options)
    table: list[list[Any]] = []
    for n in (min(_WARM, *options.paths), *options.paths):  # the first compiles
        for gpus in counts:
            A, where = np.empty((n, n), np.float32), tuple(f"cuda:{number}" for number in range(gpus))
            fill(A)
            results: list[sr.Paths] = []

            def find(A: Any = A, where: Any = where, results: Any = results) -> None:
                results[:] = [sr.shortest_paths(A, device=where)]

            alone = min(by_clock(lambda A=A, where=where: sr.closure(A, device=where)) for _ in range(_RUNS))
            took = min(by_clock(find) for _ in range(_RUNS))
            trees = min(n, _TREES)
            sources = np.random.default_rng(n).choice(n, trees, replace=False)
            right = sum(map(partial(right_tree, A, results[0]), sources.tolist()))
            table.append(
                [
                    n,
                    gpus,
                    format_number(alone, 2),
                    format_number(took, 2),
                    format_number(n**3 / took / gpus / 1e12, 2),
                    f"{100 * alone / took:.0f} %",
                    f"{right} of {trees} trees",
                ]
            )
            print(*table[-1], flush=True)
            del A, results
            _free()
    columns = ["n", "GPUs", "distances, s", "s", "T pairs/s a GPU", "of the distances' rate", "checked"]
    return Table("Paths of a matrix of the host, with the transfers", columns, table[len(counts) :])


def stacks(options: argparse.Namespace) -> Table:
    """Measure a stack of matrices on each number of GPUs, which divide it."""
    import cupy

    (count, n), table = options.stack, []
    host = np.random.default_rng(0).random((count, n, n), np.float32)
    for A in (host, cupy.asarray(host)):
        first, expected = 0.0, None
        for gpus in (1, *_several(options)):
            where: Any = tuple(f"cuda:{number}" for number in range(gpus)) if gpus > 1 else "cuda:0"

            def close(A: Any = A, where: Any = where) -> Any:
                found = sr.closure(A, device=where)
                cupy.cuda.Device(0).synchronize()
                return found

            found = close()
            equal = expected is None or bool((found == expected).all())
            expected, took = found, ours(f"{gpus} GPUs", close)
            first = first or took
            place = "host" if A is host else "GPU"
            row = [f"{count:,} × {n}", place, gpus, format_number(1000 * took, 1), format_number(first / took, 2)]
            table.append([*row, "equal" if equal else "DIFFERS"])
            _free()
    columns = ["stack", "matrices on the", "GPUs", "ms", "of one GPU", "results"]
    return Table("Closures of a stack, float32, with the transfers", columns, table)


def right_tree(A: Any, result: Any, source: int) -> bool:
    """Whether the predecessors from a vertex are a tree whose paths have the distances. Weights are whole numbers."""
    distances, tree = np.asarray(result.matrix[source]), np.asarray(result.predecessors[source]).copy()
    others = np.flatnonzero(np.arange(len(A)) != source)
    adds_up = distances[tree[others]] + A[tree[others], others] == distances[others]
    tree[source] = source
    for _ in range(len(A).bit_length()):
        tree = tree[tree]
    return bool(adds_up.all() and distances[source] == 0 and (tree == source).all())


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print the tables."""

    def configure(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--n", type=int, nargs="+", default=[32768, 65536, 131072])
        parser.add_argument("--bits", type=int, nargs="+", default=[262144, 1_000_000])
        parser.add_argument("--paths", type=int, nargs="+", default=[65536])
        parser.add_argument("--stack", type=int, nargs=2, default=(20_000, 128), metavar=("COUNT", "N"))
        parser.add_argument("--gpus", type=int, nargs="+", default=[1, 2, 4, 8])
        parser.add_argument("--alone", type=int, default=65536, help="the largest matrix that one GPU closes too")
        parser.add_argument("--bare", type=int, default=32768, help="the largest that is also closed without copies")
        parser.add_argument("--host", action="store_true", help="the matrix lies in the memory of the host")
        parser.add_argument("--rate", type=float, default=0.0, help="T pairs a second of one GPU, where it is not run")
        parser.add_argument("--rows", type=int, default=0, help="how many are checked, of the most GPUs")
        parser.add_argument("--word", type=float, default=4 / 390e9, help="seconds of an entry between two GPUs")

    tables = {"closures": closures, "bits": bits, "paths": paths, "stacks": stacks}
    return run("benchmarks.gpu.several", str(__doc__), tables, arguments, configure, needs=["cupy"])


if __name__ == "__main__":
    sys.exit(main())
