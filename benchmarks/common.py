"""Provide what every benchmark shares: honest timing, random operands, and one command line.

A script has functions that measure a `Table` each, and hands them to `run`::

    python -m benchmarks.gemm                          # prints all tables
    python -m benchmarks.gemm peers --save FILE        # one of them, kept in FILE with machine, date and commit
    python -m benchmarks.gemm products --compare REV   # the present library against that of REV, or of a folder

`ours` times calls of this library, which `--compare` repeats with both libraries in turn. `theirs` times what a table
compares them with, which ``--compare`` leaves out.
"""

from __future__ import annotations

import argparse
import datetime as dt
import os
import platform
import shlex
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from benchmarks.packages import UnavailableError, require
from benchmarks.tables import Origin, Table, save, three_digits

__all__ = [
    "ROOT",
    "Table",
    "at_most",
    "by_clock",
    "by_device",
    "by_enqueueing",
    "by_synchronized_clock",
    "comparing",
    "device_milliseconds",
    "environment",
    "format_number",
    "format_seconds",
    "fresh",
    "keep",
    "milliseconds",
    "ours",
    "random_matrix",
    "run",
    "theirs",
    "three_digits",
]

ROOT = Path(__file__).resolve().parent.parent
Clock = Callable[[Callable[[], Any]], float]  # a function from a call to its seconds


# ----------------------------------------------------------------------------------------------------------- clocks


def by_clock(call: Callable[[], Any]) -> float:
    """Return the seconds of a call by the clock of the host."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def by_synchronized_clock(call: Callable[[], Any]) -> float:
    """Return the seconds of the host until the current GPU has done what the call enqueued."""
    import cupy

    cupy.cuda.Device().synchronize()
    start = time.perf_counter()
    call()
    cupy.cuda.Device().synchronize()
    return time.perf_counter() - start


def by_enqueueing(call: Callable[[], Any]) -> float:
    """Return the seconds that the call occupies the host, which goes on while the GPU still works."""
    import cupy

    cupy.cuda.Device().synchronize()
    return by_clock(call)


def by_device(call: Callable[[], Any]) -> float:
    """Return the seconds in which the current GPU executes a call that the host enqueued in advance."""
    return device_milliseconds(call, lead_ms=4.0) / 1e3


def device_milliseconds(call: Callable[[], Any], lead_ms: float = 0.0) -> float:
    """Return the milliseconds in which the current GPU executes the work of a call, by its events.

    ``lead_ms``: milliseconds that the device waits first, so that the host has enqueued most of the work by then.
    """
    import cupy

    start, stop = cupy.cuda.Event(), cupy.cuda.Event()
    if lead_ms:
        _waiting()((1,), (1,), (np.int64(lead_ms * 2e6),))  # cycles of a clock of at most 2 GHz
    start.record()
    call()
    stop.record()
    stop.synchronize()
    return float(cupy.cuda.get_elapsed_time(start, stop))


@cache
def _waiting() -> Any:
    import cupy

    code = """extern "C" __global__ void wait(long long cycles) {
        for (long long start = clock64(); clock64() - start < cycles;) {}
    }"""
    return cupy.RawKernel(code, "wait")


# ----------------------------------------------------------------------------------------------------------- timing


class Measuring(Protocol):
    """A function that measures one call of the library."""

    def __call__(
        self,
        label: str,
        call: Callable[[], Any],
        *,
        setup: Callable[[], Any] | None,
        clock: Clock,
        repeats: int,
        seconds: float,
        max_ratio: float | None,
    ) -> float: ...


#: The most seconds of one measurement, as ``--seconds`` says, or None for the limit of each table.
longest: float | None = None


def at_most(seconds: float) -> float:
    """Return the seconds that a measurement may take: so many, or fewer with ``--seconds``."""
    return seconds if longest is None else min(seconds, longest)


#: What `ours` does in a process that is one side of a comparison (`benchmarks.compare`), or None if it measures by
#: itself.
side: Measuring | None = None


def comparing() -> bool:
    """Whether this process is one side of a comparison: what is not `ours` need not be measured or checked."""
    return side is not None


_MOST = 4  # times the repeats of a measurement whose median does not settle


def ours(
    label: str,
    call: Callable[[], Any],
    *,
    setup: Callable[[], Any] | None = None,
    clock: Clock = by_clock,
    repeats: int = 5,
    seconds: float = 2.0,
    max_ratio: float | None = None,
) -> float:
    """Return the median seconds of a call of this library. The label names it in a comparison.

    ``max_ratio``: the ratio to the time of the earlier library that a comparison accepts.
    """
    if side is not None:
        return side(label, call, setup=setup, clock=clock, repeats=repeats, seconds=seconds, max_ratio=max_ratio)
    return _median_seconds(call, setup, clock, repeats, seconds)


def theirs(
    call: Callable[[], Any],
    *,
    setup: Callable[[], Any] | None = None,
    clock: Clock = by_clock,
    repeats: int = 5,
    seconds: float = 2.0,
) -> float:
    """Return the median seconds of a call outside the library, or NaN in a comparison."""
    return float("nan") if comparing() else _median_seconds(call, setup, clock, repeats, seconds)


def _median_seconds(
    call: Callable[[], Any], setup: Callable[[], Any] | None, clock: Clock, repeats: int, seconds: float
) -> float:
    """Return the median seconds of 3 to ``repeats`` calls in about ``seconds``, or of one with ``--seconds 0``.

    Warmed up for 0.3 s first: compilation, page faults, clocks, and virtual machines that leave two threads on one core
    for the first tenths of a second. A call that compiles for longer is counted. So calls are repeated until the last
    one has changed the median by less than a tenth, at most `_MOST` times ``repeats``. ``setup`` runs before each
    repetition, outside the clock.
    """
    times: list[float] = []
    seconds, fewest = at_most(seconds), 1 if longest == 0 else 3
    warm = time.perf_counter() + at_most(0.3)
    before = median = 0.0
    while (
        len(times) < fewest
        or (len(times) < repeats and sum(times) < seconds)
        or (fewest > 1 and len(times) < _MOST * repeats and abs(median - before) > 0.1 * median)
    ):
        if setup is not None:
            setup()
        begin = time.perf_counter()
        took = clock(call)
        if begin >= warm or took > 1.0:
            times.append(took)
            before, median = median, statistics.median(times)
    return median


def fresh(code: str, attempts: int = 5) -> float:
    """Return the median of what ``code`` prints in a few new interpreters, or NaN in a comparison."""
    if comparing():
        return float("nan")
    runs = [
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        for _ in range(1 if longest == 0 else attempts)
    ]
    return float(np.median([float(run.stdout) for run in runs]))


def format_seconds(seconds: float) -> str:
    """Return a time in seconds, milliseconds or microseconds."""
    unit, name = next(
        (unit, name) for unit, name in ((1, "s"), (1e-3, "ms"), (1e-6, "µs")) if seconds >= unit or unit < 1e-5
    )
    return f"{three_digits(seconds / unit)} {name}"


def milliseconds(seconds: float) -> str:
    """Return the milliseconds in three digits."""
    return three_digits(seconds * 1e3)


def format_number(value: float, digits: int, group: str = "") -> str:
    """Return a number with so many decimals, or in two digits where these would show 0. ``group`` is "," or ""."""
    return f"{value:.2g}" if 0 < abs(value) < 0.5 * 10**-digits else f"{value:{group}.{digits}f}"


def random_matrix(n: int, dtype: Any, *, seed: int = 0, high: int = 1000) -> np.ndarray:
    """Return dense random whole weights from 1 to ``high``. Zeros run faster than any real data."""
    rng = np.random.default_rng(seed)
    if np.dtype(dtype).kind == "b":
        return rng.random((n, n)) < 0.5
    most = min(high, 255) if np.dtype(dtype) == np.uint8 else high
    return rng.integers(1, most, (n, n)).astype(dtype)


# ------------------------------------------------------------------------------------------------- where and when


def environment() -> str:
    """Return one line with the processor, its cores, the GPU if one was used, and the versions of libraries."""
    cpu = platform.processor() or platform.machine()
    try:
        with open("/proc/cpuinfo") as lines:
            cpu = next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        pass
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    parts = [cpu, f"{cores} cores"]
    libraries = {"numpy": "NumPy", "numba": "Numba", "cupy": "CuPy", "torch": "PyTorch"}
    if (cupy := sys.modules.get("cupy")) is not None:
        driver = cupy.cuda.runtime.driverGetVersion()
        parts += [cupy.cuda.runtime.getDeviceProperties(0)["name"].decode(), f"CUDA driver {driver}"]
    parts.append(f"Python {platform.python_version()}")
    parts += [f"{said} {sys.modules[name].__version__}" for name, said in libraries.items() if name in sys.modules]
    return ", ".join(parts)


def revision() -> str:
    """Return the commit of this tree and whether it is changed, or "unknown" without git."""
    command = ["git", "-C", str(ROOT), "describe", "--always", "--abbrev=7", "--exclude=*", "--dirty= and changes"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return "unknown"
    return done.stdout.strip() or "unknown"


def keep(
    path: Path,
    name: str,
    table: Table,
    command: Sequence[str],
    *,
    machine: str | None = None,
    commit: str | None = None,
) -> None:
    """Save a table that was measured today by a command, on this machine and of this commit unless said otherwise."""
    today = dt.date.today().isoformat()
    origin = Origin(machine or environment(), today, commit or revision(), shlex.join(command))
    save(path, {name: Table(table.title, table.columns, table.rows, origin)})


# ----------------------------------------------------------------------------------------------------- command line


def _measure(
    table: Callable[[argparse.Namespace], Table | None], needs: Sequence[str], options: argparse.Namespace
) -> Table | None:
    require(*needs)
    return table(options)


def run(
    module: str,
    description: str,
    tables: Mapping[str, Callable[[argparse.Namespace], Table | None]],
    arguments: Sequence[str] | None = None,
    configure: Callable[[argparse.ArgumentParser], None] | None = None,
    needs: Sequence[str] = (),
    groups: Mapping[str, Sequence[str]] | None = None,
) -> int:
    """Run the command line of a script: measure, save or compare its tables, and return the exit status.

    ``module``: what ``python -m`` calls it. ``configure`` adds the script's own options. ``needs``: packages without
    which no table can run. ``groups``: names that stand for several tables. A table is None in a process of several
    whose first prints it. The status is 1 where a comparison has found a call slower than it may be.
    """
    global longest
    parser = argparse.ArgumentParser(
        prog=f"python -m {module}", description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    known = ", ".join([*(groups or ()), *tables])
    parser.add_argument("tables", nargs="*", metavar="TABLE", help=f"of {known}; without one, all")
    parser.add_argument("--save", type=Path, metavar="FILE", help="keep the tables there, in place of those it has")
    parser.add_argument("--commit", help="what the file says was measured, where git cannot tell")
    parser.add_argument(
        "--compare", metavar="REV", help="a revision, or the folder of an unpacked tree, to compare with"
    )
    parser.add_argument(
        "--seconds",
        type=float,
        metavar="S",
        help="the most that a measurement takes, 0: one call; of a comparison the calls of a row (1.5)",
    )
    parser.add_argument("--pairs", type=int, default=1, help="of processes that a comparison starts, one after another")
    parser.add_argument("--side", action="store_true", help=argparse.SUPPRESS)
    if configure is not None:
        configure(parser)
    given = list(sys.argv[1:] if arguments is None else arguments)
    options = parser.parse_args(given)
    os.environ.setdefault("SEMIRING_NUMPY_SECONDS", "0")  # measures compiled kernels from the first call on
    chosen = [name for word in options.tables for name in (groups or {}).get(word, [word])] or list(tables)
    measured = {name: partial(_measure, table, needs) for name, table in tables.items()}
    if unknown := set(chosen) - set(tables):
        parser.error(f"no table is named {', '.join(sorted(unknown))}: there are {known}")
    if options.side:
        from benchmarks.compare import be_a_side

        be_a_side({name: measured[name] for name in chosen}, options)
        return 0
    commit = options.commit or revision()

    def show(name: str, table: Table, machine: str, commit: str) -> None:
        print(table, flush=True)
        if options.save is not None:
            keep(options.save, name, table, ["python", "-m", module, *given], machine=machine, commit=commit)

    if options.compare is not None:
        from benchmarks.compare import compare

        seconds = 1.5 if options.seconds is None else options.seconds
        found = compare(module, given, options.compare, seconds, options.pairs)
        commit = f"{commit} against {options.compare}"
        show("comparison", found.table, found.machine, commit)
        print(f"\n{found.machine}; {commit}")
        return 1 if found.slower else 0
    before, longest = longest, options.seconds
    shown_some = False
    try:
        for name in chosen:
            try:
                table = measured[name](options)
            except UnavailableError as missing:
                print(f"{name} is left out: {missing}", file=sys.stderr, flush=True)
                continue
            if table is not None:
                show(name, table, environment(), commit)
                shown_some = True
    finally:
        longest = before
    if shown_some:
        print(f"\n{environment()}; {commit}")
    return 0
