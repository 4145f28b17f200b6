"""Measure the tables and figures of four papers: their numbers beside those of this machine, with the ratios.

    python -m benchmarks.papers [lund_smith | buluc | bertoldi | gaioso | TABLE ...] [--limit 60] [--save FILE]

Lund and Smith 2010: `lund-smith-times` and `-ratios` (table 1, figure 7), `-rates` (section 5), `-steps` (section 4).
Buluç, Gilbert and Budak 2010: `buluc-host` (tables 4 and 9), `-launches` (section 2.2), `-times` (tables 1 and 2),
`-growth` (table 3), `-energy` (table 8). `buluc-roofline` replaces the scaled clocks of tables 6 and 7. Bertoldi:
`bertoldi-ranks` (figures 2 to 4), `-bytes` (table 1), `-threads` (table 4), `-blocks` (table 5). Gaioso and others
2013: `gaioso-times` (figures 7 to 10), `-densities`, `-blocks` (section V).

min-plus in float32. A table that needs a GPU is left out where there is none. A table takes about ``--limit`` seconds:
what would take longer is extrapolated by the exponent of the measured sizes, and marked ``~``. "Then" is the number of
the paper.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import semiring as sr
from benchmarks.classical import row_parallel, serial
from benchmarks.common import Table, by_clock, format_number, run
from benchmarks.gpu import papers as gpu
from benchmarks.packages import UnavailableError, require
from benchmarks.paper_numbers import (
    BERTOLDI_BLOCKS,
    BERTOLDI_THREADS,
    BULUC_ENERGY,
    BULUC_GPU,
    BULUC_GROWTH,
    BULUC_HOST,
    BULUC_PARALLEL,
    BULUC_SPEEDUP,
    GAIOSO_RATIOS,
    LUND_SMITH,
)
from semiring.algorithms.rkleene import rkleene
from semiring.distributed.cost_model import row_broadcast_bytes
from semiring.distributed.mpi_communicator import is_under_mpiexec
from semiring.kernels import get_backend
from semiring.kernels.contract import Capabilities
from semiring.kernels.cuda.closing.paper_kernels import count_launches
from semiring.kernels.engine import Engine, make_plan
from semiring.testing import uniform_graph

__all__ = ["GROUPS", "NEED_GPU", "TABLES", "Timing", "main", "series"]


POWERCAP = Path("/sys/class/powercap")  # the folder of Linux's energy counters

# --------------------------------------------------------------------------------------------------- measured or not


@dataclass(frozen=True)
class Timing:
    """A time in seconds, measured or extrapolated from smaller sizes."""

    seconds: float
    is_measured: bool = True

    def __str__(self) -> str:
        return _format_time(self.seconds, self.is_measured)

    def __truediv__(self, other: Timing) -> str:
        """Return how many times the time of another this is, as a reader sees it."""
        return _format_time(self.seconds / other.seconds, self.is_measured and other.is_measured)

    def scale(self, factor: float) -> Timing:
        return Timing(factor * self.seconds, self.is_measured)


def _format_time(value: float, is_measured: bool = True) -> str:
    text = f"{value:,.0f}" if value >= 999.5 else f"{value:.3g}"
    return text if is_measured else f"~{text}"


def _exponent(times: Mapping[int, Timing]) -> tuple[float, float]:
    """Return b and c of t = c·nᵇ, fitted to the logarithms of the measured times, as Buluç et al. do."""
    points = [(n, time.seconds) for n, time in times.items() if time.is_measured]
    if len(points) < 2:
        return 3.0, points[0][1] / points[0][0] ** 3
    slope, constant = np.polyfit(*np.log(points).T, 1)
    return float(slope), float(np.exp(constant))


def series(
    sizes: Iterable[int],
    measure: Callable[[int], float],
    limit: float,
    earlier_times: Mapping[int, Timing] | None = None,
) -> dict[int, Timing]:
    """Measure by increasing size, at least the first, and extrapolate what would end after so many seconds.

    ``earlier_times``: times of earlier measurements by size.
    """
    times = {n: each for n, each in (earlier_times or {}).items() if each.is_measured}
    begin = time.perf_counter()
    for n in sorted(set(sizes) - set(times)):
        smaller = [size for size in sorted(times) if size < n and times[size].is_measured]
        if smaller:
            growth = _exponent({size: times[size] for size in smaller[-4:]})[0]
            estimate = Timing(times[smaller[-1]].seconds * (n / smaller[-1]) ** growth, is_measured=False)
            if time.perf_counter() - begin + estimate.seconds > limit:
                times[n] = estimate
                continue
        times[n] = Timing(measure(n))
    return times


class _Clocks:
    """Series of times by name, each measured once in a run. A table's limit is shared among those it needs.

    A series may take half of the seconds that remain of the table's, the last one all of them. With ``equal``, those
    that remain are shared out evenly.
    """

    def __init__(self) -> None:
        self._series: dict[str, dict[int, Timing]] = {}

    def __call__(
        self,
        options: argparse.Namespace,
        requests: Mapping[str, tuple[Iterable[int], Callable[[int], float]]],
        *,
        equal: bool = False,
    ) -> dict[str, dict[int, Timing]]:
        end = time.perf_counter() + options.limit
        for place, (name, (wished, measure)) in enumerate(requests.items(), 1):
            sizes = set(wished)
            earlier_times = self._series.get(name, {})
            if not set(sizes) <= set(earlier_times):
                remains = end - time.perf_counter()
                after = len(requests) - place
                share = remains / (1 + (after if equal else min(after, 1)))
                self._series[name] = series(sizes, measure, share, earlier_times)
                print(f"{name}: {', '.join(f'{n}: {t} s' for n, t in self._series[name].items())}", file=sys.stderr)
        return {name: self._series[name] for name in requests}


def _clocks(options: argparse.Namespace) -> _Clocks:
    if "clocks" not in options:
        options.clocks = _Clocks()
    return options.clocks  # type: ignore[no-any-return]


def _sizes(options: argparse.Namespace, paper_sizes: Iterable[int]) -> list[int]:
    """Return the sizes of the paper, or those of ``--sizes``."""
    return sorted(options.sizes or set(paper_sizes))


def _format_number_of_paper(numbers: Mapping[int, float], n: int, factor: float = 1.0) -> str:
    return _format_time(factor * numbers[n]) if n in numbers else "—"


def _ratio(numerators: Mapping[int, float], denominators: Mapping[int, float], n: int) -> str:
    return _format_time(numerators[n] / denominators[n]) if n in numerators and n in denominators else "—"


def _needs_gpu() -> None:
    """Raise `UnavailableError` where there is no GPU."""
    require("cupy")
    import cupy

    try:
        cupy.cuda.Device().use()
    except cupy.cuda.runtime.CUDARuntimeError as error:
        raise UnavailableError("the table needs an NVIDIA GPU, and there is none") from error


def _on_host(close: Callable[[np.ndarray], Any]) -> Callable[[int], float]:
    """Return what measures one closure of n vertices on the host, after a small one that compiles."""

    def measure(n: int) -> float:
        close(uniform_graph(16, 4, dtype="float32", integer=True, seed=0))
        A = uniform_graph(n, min(60, n - 1), dtype="float32", integer=True, seed=n)
        np.fill_diagonal(A, 0)
        return min(by_clock(partial(close, A.copy())) for _ in range(3 if n <= 2048 else 1))

    return measure


def _recursive(A: np.ndarray, threads: int | None = None) -> None:
    sr.closure(A, method="rkleene", out=A, check=False, threads=threads)


_SERIAL = _on_host(serial)


# --------------------------------------------------------------------------------------------------- Lund and Smith


#: The implementations of table 1, as the methods are named here, the fastest first.
_TABLE_1 = ("lund_smith", "lund_smith_unrolled", "katz_kider", "harish_narayanan")


def _lund_smith(options: argparse.Namespace) -> dict[str, dict[int, Timing]]:
    """Return the times of table 1 at the sizes of each column, with one core and our own variants."""
    _needs_gpu()
    wanted = {name: (_sizes(options, LUND_SMITH[name]), partial(gpu.seconds, name)) for name in _TABLE_1}
    printed = (1024, 2048, 4096, 8192, 16384)
    for name, like in (("lund_smith_all", printed), ("staged", printed), ("katz_kider_constants", printed)):
        wanted[name] = (_sizes(options, like), partial(gpu.seconds, name))
    wanted["serial"] = (_sizes(options, LUND_SMITH["CPU"]), _SERIAL)
    order = ("lund_smith", "lund_smith_unrolled", "lund_smith_all", "staged", "katz_kider_constants", "katz_kider")
    return _clocks(options)(options, {name: wanted[name] for name in (*order, "harish_narayanan", "serial")})


def _cell(times: Mapping[int, Timing], n: int, factor: float = 1.0) -> str:
    return str(times[n].scale(factor)) if n in times else "—"


def _ratio_of_timings(numerators: Mapping[int, Timing], denominators: Mapping[int, Timing], n: int) -> str:
    return numerators[n] / denominators[n] if n in numerators and n in denominators else "—"


def lund_smith_times(options: argparse.Namespace) -> Table:
    """Measure table 1: seconds of five implementations."""
    found, rows = _lund_smith(options), []
    columns = {"CPU": "serial", **{name: name for name in reversed(_TABLE_1)}}
    for n in _sizes(options, LUND_SMITH["lund_smith"]):
        pairs = [(_format_number_of_paper(LUND_SMITH[key], n), _cell(found[name], n)) for key, name in columns.items()]
        rows.append([n, *(cell for pair in pairs for cell in pair)])
    titles = [title for name in columns.values() for title in (f"{name}, then", f"{name}, s")]
    return Table("Lund and Smith, table 1: seconds, then on a Tesla C1060", ["vertices", *titles], rows)


def lund_smith_ratios(options: argparse.Namespace) -> Table:
    """Measure figure 7: the speedup of each implementation."""
    found, rows = _lund_smith(options), []
    steps = [
        ("harish_narayanan", "katz_kider"),
        ("katz_kider", "lund_smith_unrolled"),
        ("lund_smith_unrolled", "lund_smith"),
        ("katz_kider", "lund_smith"),
    ]
    for n in _sizes(options, LUND_SMITH["lund_smith"]):
        row = [n]
        for slow, fast in steps:
            row += [_ratio(LUND_SMITH[slow], LUND_SMITH[fast], n), _ratio_of_timings(found[slow], found[fast], n)]
        rows.append([*row, _ratio_of_timings(found["katz_kider_constants"], found["lund_smith"], n)])
    titles = [title for slow, fast in steps for title in (f"{slow} / {fast}, then", f"{slow} / {fast}")]
    last = "katz_kider_constants / lund_smith"
    return Table("Lund and Smith, figure 7: ratios of times", ["vertices", *titles, last], rows)


#: Bytes of global memory for a pair, as section 3 of the paper counts them: four words, of which a tile of 32 saves 31.
_BYTES = {"harish_narayanan": 16.0, "katz_kider": 0.5, "lund_smith_unrolled": 0.5, "lund_smith": 0.5}


def lund_smith_rates(options: argparse.Namespace) -> Table:
    """Measure section 5: tasks and bytes a second at the paper's largest size that both have."""
    found, rows = _lund_smith(options), []
    for name, count in _BYTES.items():
        then = LUND_SMITH[name]
        n = max((n for n in found[name] if n in then and n <= 16384), default=max(found[name]))
        rate = _format_time(n**3 / found[name][n].seconds / 1e9, found[name][n].is_measured)
        bytes_now = _format_time(count * n**3 / found[name][n].seconds / 1e9, found[name][n].is_measured)
        old = n**3 / then[n] / 1e9 if n in then else 0.0
        gain = _format_time(then[n] / found[name][n].seconds, found[name][n].is_measured) if old else "—"
        before = [_format_time(old), _format_time(count * old)] if old else ["—", "—"]
        rows.append([name, n, before[0], rate, gain, before[1], bytes_now])
    columns = ["method", "vertices", "G tasks/s, then", "G tasks/s", "faster by", "GB/s, then", "GB/s"]
    return Table("Lund and Smith, section 5: rates, by 16 bytes a task, 0.5 with tiles", columns, rows)


#: What each step changes, and the factor that the paper states for it.
_STEPS = (
    ("katz_kider", "three phases, all tiles in shared memory", "—"),
    ("katz_kider_constants", "constants in place of divisions", "—"),
    ("lund_smith_unrolled", "loops unrolled", "2.1 to 2.3, with constants"),
    ("lund_smith_registers", "the doubly dependent tile in registers", "none"),
    ("lund_smith_reread", "staged load, the left panel read again", "2.3 to 2.4"),
    ("lund_smith", "the same, each panel read once", "2.3 to 2.4"),
    ("lund_smith_paired", "staged load with pairs of pivots", "—"),
    ("lund_smith_slices", "staged load with slices of 16", "—"),
    ("lund_smith_async", "staged load with asynchronous copies", "—"),
    ("lund_smith_wide", "staged load with wide reads", "—"),
    ("lund_smith_wide_paired", "staged load with wide reads and pairs", "—"),
    ("lund_smith_all", "staged load with all of these", "—"),
    ("staged", "our own successor", "—"),
)


def lund_smith_steps(options: argparse.Namespace) -> Table:
    """Measure section 4: the speedup of each change."""
    _needs_gpu()
    n = _sizes(options, [8192])[-1]
    times = {name: Timing(gpu.seconds(name, n)) for name, _, _ in _STEPS}
    rows = [
        [
            *(name, what, _cell({n: times[name]}, n, 1e3)),
            *(times["katz_kider"] / times[name], times["lund_smith_unrolled"] / times[name], then),
        ]
        for name, what, then in _STEPS
    ]
    columns = ["kernel", "what it changes", "ms", "as fast as katz_kider", "as lund_smith_unrolled", "gain, then"]
    return Table(f"Lund and Smith, section 4: the steps, n = {n}", columns, rows)


# ------------------------------------------------------------------------------------------ Buluç, Gilbert and Budak


_SIZES = (512, 1024, 2048, 4096, 8192)
_VERSIONS = ("rkleene", "rkleene_plain", "buluc_iterative")


def _buluc_host(options: argparse.Namespace) -> dict[str, dict[int, Timing]]:
    sizes = _sizes(options, _SIZES)
    wanted = {
        "recursive, all cores": (sizes, _on_host(_recursive)),
        "recursive, one core": (sizes, _on_host(partial(_recursive, threads=1))),
        "serial": (sizes, _SERIAL),
    }
    return _clocks(options)(options, wanted)


def _buluc_gpu(options: argparse.Namespace) -> dict[str, dict[int, Timing]]:
    _needs_gpu()
    sizes = _sizes(options, _SIZES)
    return _clocks(options)(options, {name: (sizes, partial(gpu.seconds, name)) for name in _VERSIONS})


def buluc_host(options: argparse.Namespace) -> Table:
    """Measure tables 9 and 4: both versions on a host."""
    found, rows = _buluc_host(options), []
    serial_, one, all_ = (found[name] for name in ("serial", "recursive, one core", "recursive, all cores"))
    for n in _sizes(options, _SIZES):
        row = [n, _format_number_of_paper(BULUC_HOST["iterative"], n), _cell(serial_, n, 1e3)]
        row += [
            _format_number_of_paper(BULUC_HOST["recursive"], n),
            _cell(one, n, 1e3),
            _ratio_of_timings(serial_, one, n),
        ]
        rows.append(
            [
                *row,
                _format_number_of_paper(BULUC_PARALLEL, n, 1e3),
                _cell(all_, n, 1e3),
                _ratio_of_timings(one, all_, n),
            ]
        )
    columns = ["vertices", "iterative, then", "iterative, ms", "recursive, then", "recursive, ms"]
    columns += ["recursive faster by", "16 cores, then", "all cores, ms", "all cores faster by"]
    title = "Buluç et al., tables 9 and 4: milliseconds on a host, then a Core 2 Duo, and 16 cores of Opterons"
    return Table(title, columns, rows)


def buluc_times(options: argparse.Namespace) -> Table:
    """Measure tables 1 and 2: three versions on the GPU, and their speedups over one core."""
    found, host, rows = _buluc_gpu(options), _buluc_host(options), []
    for n in _sizes(options, _SIZES):
        for name in reversed(_VERSIONS):
            row = [name, n, _format_number_of_paper(BULUC_GPU[name], n), _cell(found[name], n, 1e3)]
            row += [_format_number_of_paper(BULUC_SPEEDUP[name], n), _ratio_of_timings(host["serial"], found[name], n)]
            row += [
                _ratio_of_timings(host["recursive, one core"], found[name], n),
                _ratio_of_timings(host["recursive, all cores"], found[name], n),
            ]
            then = BULUC_PARALLEL[n] * 1e3 / BULUC_GPU[name][n] if n in BULUC_PARALLEL else 0.0
            rows.append([*row[:7], _format_time(then) if then else "—", row[7]])
    columns = ["method", "vertices", "ms, then", "ms", "speedup, then", "speedup over three loops"]
    columns += ["over one core of rkleene", "over all cores, then", "over all cores"]
    return Table("Buluç et al., tables 1, 2 and 4: the GPU, then a GeForce 8800 Ultra", columns, rows)


def buluc_growth(options: argparse.Namespace) -> Table:
    """Measure table 3: exponent and constant of the growth."""
    found = dict(_buluc_host(options))
    try:
        found |= _buluc_gpu(options)
    except UnavailableError as missing:
        print(f"the table has rows of the host only: {missing}", file=sys.stderr)
    titles = {"serial": "serial, iterative", "recursive, one core": "serial, recursive"}
    rows = []
    for name, times in found.items():
        title = titles.get(name, name)
        b, c = _exponent({n: each for n, each in times.items() if n >= 512} or times)
        then = BULUC_GROWTH.get(title)
        before = [f"{then[0]:.2f}", f"{then[1]:.1e}"] if then else ["—", "—"]
        rows.append([title, before[0], f"{b:.2f}", before[1], f"{1e3 * c:.1e}"])
    columns = ["method", "exponent b, then", "exponent b", "constant c, then", "constant c"]
    return Table("Buluç et al., table 3: t = c·nᵇ milliseconds, fitted to the measured sizes", columns, rows)


class _CallCounter:
    """The part of a backend that `rkleene` uses, which counts calls and computes nothing."""

    name, stacks, capabilities = "cpu", False, Capabilities()

    def __init__(self) -> None:
        self.products = self.blocks = 0

    def close_block(self, plan: Any, A: Any) -> None:
        self.blocks += 1

    def multiply(self, plan: Any, C: Any, A: Any, B: Any) -> None:
        self.products += 1

    def multiply_add(self, plan: Any, C: Any, A: Any, B: Any) -> None:
        self.products += 1


def _recursive_calls(n: int, leaf: int) -> _CallCounter:
    """Return the calls of the recursion with a panel that holds every operand, as a GPU has it."""
    counter = _CallCounter()
    plan = make_plan(sr.min_plus, np.float32, nonnegative=True)
    engine = Engine(get_backend("cpu"), plan, n)
    rkleene(engine.with_backend(counter), np.empty((n, n), np.float32), leaf=leaf)  # type: ignore[arg-type]
    return counter


def buluc_launches(options: argparse.Namespace) -> Table:
    """Count section 2.2: O(n/B) launches of the recursion, and O((n/B)³) of blocks that are separate products."""
    leaf, rows = 64, []
    for n in _sizes(options, _SIZES):
        counted, tiles = _recursive_calls(n, leaf), -(-n // leaf)
        row = [n, tiles, counted.products, counted.blocks, tiles**3 + tiles]
        rows.append(
            [*row, count_launches("katz_kider", n), count_launches("gaioso", n), count_launches("buluc_iterative", n)]
        )
    columns = ["vertices", "n/B", "recursive: products", "recursive: blocks", "a launch for each product of blocks"]
    columns += ["katz_kider", "gaioso", "buluc_iterative"]
    return Table(f"Buluç et al., section 2.2: launches, B = {leaf}", columns, rows)


def _rapl() -> float | None:
    """Return the joules that the processors have counted (RAPL), or None if the counter cannot be read."""
    counters = [
        path / "energy_uj"
        for path in POWERCAP.glob("intel-rapl:*")
        if path.name.count(":") == 1  # only whole packages, because the names of their parts have a second number
    ]
    try:
        return sum(int(each.read_text()) for each in counters) / 1e6 if counters else None
    except OSError:
        return None


def _host_joules(n: int) -> float | None:
    before = _rapl()
    if before is None:
        return None
    took = _on_host(_recursive)
    count, start = 0, time.perf_counter()
    while not count or time.perf_counter() - start < 1.0:
        took(n)
        count += 1 if n > 1024 else 3
    after = _rapl()
    return (after - before) / count if after is not None and after > before else None


def buluc_energy(options: argparse.Namespace) -> Table:
    """Measure table 8: pairs a joule, by the counters of the board and of the processors."""
    result: dict[str, dict[int, float]] = {}
    sizes = _sizes(options, _SIZES)
    try:
        _needs_gpu()
        require("pynvml")
        for name in ("rkleene", "blocked_floyd_warshall"):
            result[name] = {n: gpu.board_joules(name, n, options.counted) for n in sizes}
    except UnavailableError as missing:
        if _rapl() is None:
            raise UnavailableError(f"no counter of energy can be read: {missing}, and no RAPL") from missing
        print(f"the table has the host only: {missing}", file=sys.stderr)
    host = {n: joules for n in sizes if (joules := _host_joules(n)) is not None}

    def efficiency(joules: Mapping[int, float], n: int) -> str:
        return _format_time(n**3 / joules[n] / 1e6) if n in joules else "—"

    rows = []
    for n in sizes:
        row = [n, _format_number_of_paper(BULUC_ENERGY["GPU"], n)]
        row += [efficiency(result.get(name, {}), n) for name in ("rkleene", "blocked_floyd_warshall")]
        rows.append([*row, _format_number_of_paper(BULUC_ENERGY["host"], n), efficiency(host, n)])
    columns = ["vertices", "GPU, then", "rkleene on a GPU", "blocked_floyd_warshall on a GPU", "host, then", "host"]
    return Table("Buluç et al., table 8: millions of pairs a joule, then by data sheets", columns, rows)


def buluc_roofline(options: argparse.Namespace) -> Table:
    """Measure what bounds each method, in place of the scaled clocks of tables 6 and 7."""
    _needs_gpu()
    n = _sizes(options, [8192])[-1]
    wide, fast = gpu.bandwidth(), gpu.product_rate(n)
    levels = max(1.0, np.log2(n / 64))
    # Bytes that must travel for a pair: an entry is read and written for each pivot, tile of pivots, or level.
    carried = {"harish_narayanan": 8.0, "buluc_iterative": 8.0, "katz_kider": 8 / 32, "lund_smith": 8 / 32}
    carried |= {"rkleene_plain": 12 * levels / n, "rkleene": 12 * levels / n}
    rows = []
    for name, count in carried.items():
        rate = n**3 / gpu.seconds(name, n)
        by_memory = wide / count
        bound = min(by_memory, fast)
        limit = "memory" if by_memory < fast else "pairs"
        numbers = [rate / 1e9, by_memory / 1e9, fast / 1e9]
        rows.append(
            [name, f"{count:.3g}", *map(_format_time, numbers), limit, f"{format_number(100 * rate / bound, 0)} %"]
        )
    columns = ["method", "bytes a pair", "G pairs/s", "memory allows", "products make", "nearer bound", "of that bound"]
    title = f"A roofline: n = {n}, memory at {wide / 1e9:,.0f} GB/s, products at {fast / 1e9:,.0f} G pairs/s"
    return Table(title, columns, rows)


# ------------------------------------------------------------------------------------------------------------ Bertoldi


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _ranks(options: argparse.Namespace) -> dict[int, dict[str, dict[str, float]]]:
    """Return what `benchmarks.mpi ways` says of each number of ranks, measured once in a run."""
    require("mpi4py")
    if is_under_mpiexec():
        raise UnavailableError("a rank starts no others: run the command without mpiexec")
    if "ways" not in options:
        options.ways = {}
        for size in options.ranks:
            command = [*shlex.split(options.mpiexec), "-n", str(size), sys.executable, "-m", "benchmarks.mpi", "ways"]
            command += ["--n", str(options.n), "--threads", "1", "--pivots", str(options.pivots)]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            line = next((line for line in done.stderr.splitlines() if line.startswith("{")), None)
            if line is None:
                raise RuntimeError(done.stderr)
            options.ways[size] = json.loads(line)
    return options.ways  # type: ignore[no-any-return]


def bertoldi_ranks(options: argparse.Namespace) -> Table:
    """Measure figures 2 to 4: speedup and efficiency by ranks, and the share of communication."""
    ways, n, rows = _ranks(options), options.n, []
    sizes = sorted({min(n, 1024), min(n, 2048), n})
    alone = _clocks(options)(options, {f"serial, n = {n}": (sizes, _SERIAL)})[f"serial, n = {n}"][n]
    for way in ("rows", "tiles"):
        for size, found in ways.items():
            told = found[way]
            took = Timing(told["seconds"])
            speedup = alone.seconds / took.seconds
            row = [way, size, "yes" if size > _cores() else "no", str(took), alone / took]
            row += [_format_time(100 * speedup / size, alone.is_measured) + " %"]
            row += [format_number(told["waited"], 3), f"{100 * told['waited'] / told['seconds']:.0f} %"]
            rows.append([*row, format_number(told["received"] / 2**20, 0)])
    columns = ["how", "ranks", "more than cores", "s", "speedup over three loops", "efficiency"]
    columns += ["waited, s", "share that waited", "MiB received"]
    return Table(f"Bertoldi, figures 2 to 4: n = {n}, one thread a rank; three loops took {alone} s", columns, rows)


def bertoldi_bytes(options: argparse.Namespace) -> Table:
    """Compute table 1: the bytes that ranks receive, by Bertoldi's formulas and counted."""
    ways, n, rows = _ranks(options), options.n, []
    for size, found in ways.items():
        says = row_broadcast_bytes(n, size)
        received = found["rows"]["received"]
        share = f"{100 * received / says['pivot rows']:.0f} %" if says["pivot rows"] else "—"
        rows.append(
            [
                size,
                *(format_number(each / 2**20, 0) for each in says.values()),
                format_number(received / 2**20, 0),
                share,
            ]
        )
    columns = ["ranks", "n, MiB received", "scatter, MiB received", "pivot rows, MiB received", "gather, MiB received"]
    columns += ["pivot rows counted, MiB received", "of the formula"]
    return Table(f"Bertoldi, table 1: n = {n}, float32", columns, rows)


def bertoldi_threads(options: argparse.Namespace) -> Table:
    """Measure table 4: the row-parallel loop by threads, with both schedules."""
    every = _cores()
    counts = options.counts or sorted({*(1 << i for i in range(every.bit_length()) if 1 << i <= every), every})
    sizes = _sizes(options, BERTOLDI_THREADS)

    def measure(n: int, threads: int, schedule: str) -> float:
        before = sr.get_threads()
        sr.set_threads(threads)
        try:
            return _on_host(partial(row_parallel, schedule=schedule))(n)
        finally:
            sr.set_threads(before)

    wanted = {
        f"{schedule}, {threads} threads": (sizes, partial(measure, threads=threads, schedule=schedule))
        for threads in sorted(counts, reverse=True)
        for schedule in ("dynamic", "static")
    }
    found = _clocks(options)(options, wanted, equal=True)
    rows = []
    for n in sizes:
        first = found[f"dynamic, {min(counts)} threads"][n]
        for threads in counts:
            free, fixed = (found[f"{schedule}, {threads} threads"][n] for schedule in ("dynamic", "static"))
            row = [n, threads, _format_number_of_paper(BERTOLDI_THREADS.get(n, {}), threads), _cell({n: free}, n, 1e3)]
            speedup = first / free
            efficiency = 100 * first.seconds / free.seconds * min(counts) / threads
            measured = first.is_measured and free.is_measured
            rows.append(
                [*row, _cell({n: fixed}, n, 1e3), fixed / free, speedup, f"{_format_time(efficiency, measured)} %"]
            )
    columns = ["vertices", "threads", "dynamic, then", "dynamic, ms", "static, ms", "static / dynamic"]
    return Table(
        "Bertoldi, table 4: algorithm 3 by threads, milliseconds, then a Core i7-9700K",
        [*columns, "speedup", "efficiency"],
        rows,
    )


def bertoldi_blocks(options: argparse.Namespace) -> Table:
    """Measure table 5: algorithms 4 and 5 by threads of a block."""
    _needs_gpu()
    threads, sizes = (1024, 256, 128, 32), _sizes(options, BERTOLDI_BLOCKS)

    def name(kernel: str, count: int) -> str:
        return kernel if count == 128 else f"{kernel}_{count}"

    kernels = [name(kernel, count) for count in threads for kernel in ("bertoldi_cuda_shared", "bertoldi_cuda")]
    found = _clocks(options)(options, {kernel: (sizes, partial(gpu.seconds, kernel)) for kernel in kernels}, equal=True)
    rows = []
    for n in sizes:
        row: list[Any] = [n]
        for count in threads:
            shared, direct = (found[name(kernel, count)] for kernel in ("bertoldi_cuda_shared", "bertoldi_cuda"))
            row += [
                _format_number_of_paper(BERTOLDI_BLOCKS.get(n, {}), count),
                _cell(shared, n, 1e3),
                _cell(direct, n, 1e3),
            ]
        rows.append(row)
    columns = [f"{count} threads, {of}" for count in threads for of in ("then", "shared, ms", "direct, ms")]
    title = "Bertoldi, table 5: milliseconds by threads of a block, then an RTX 2070 Super"
    return Table(title, ["vertices", *columns], rows)


# ------------------------------------------------------------------------------------------------------------- Gaioso


_GAIOSO_SIZES = (1024, 2048, 3072, 4096, 5120, 6144, 7168, 8192, 16384)
_EDGES = (6, 60, 600)
_COMPARED = ("gaioso", "katz_kider", "harish_narayanan")


def _gaioso(options: argparse.Namespace) -> dict[str, dict[int, Timing]]:
    """Return the times of three methods by edges a vertex, and of one core."""
    _needs_gpu()
    sizes = _sizes(options, _GAIOSO_SIZES)
    wanted = {
        f"{name}, {edges} edges": (sizes, partial(gpu.seconds, name, edges=edges))
        for name in _COMPARED
        for edges in _EDGES
    }
    return _clocks(options)(options, wanted | {"serial, figure 10": (sizes, _SERIAL)})


def _mean(times: Mapping[str, Mapping[int, Timing]], name: str, n: int) -> Timing:
    each = [times[f"{name}, {edges} edges"][n] for edges in _EDGES]
    return Timing(sum(t.seconds for t in each) / len(each), all(t.is_measured for t in each))


def gaioso_times(options: argparse.Namespace) -> Table:
    """Measure figures 7 to 10: mean times of three densities, and ratios to three other codes."""
    found, rows = _gaioso(options), []
    for n in _sizes(options, _GAIOSO_SIZES):
        means = {name: _mean(found, name, n) for name in _COMPARED}
        alone = found["serial, figure 10"][n]
        row = [n, *(str(means[name].scale(1e3)) for name in _COMPARED)]
        row += [_format_number_of_paper(GAIOSO_RATIOS["serial"], n), alone / means["gaioso"]]
        row += [
            _format_number_of_paper(GAIOSO_RATIOS["harish_narayanan"], n),
            means["harish_narayanan"] / means["gaioso"],
        ]
        rows.append([*row, means["katz_kider"] / means["gaioso"]])
    columns = ["vertices", *(f"{name}, ms" for name in _COMPARED), "over one core, then", "over one core"]
    columns += ["over harish_narayanan, then", "over harish_narayanan", "over katz_kider"]
    title = "Gaioso and others, figures 7 to 10: means of 6, 60 and 600 edges; then 4× and 1.8× in the mean"
    return Table(title, columns, rows)


def gaioso_densities(options: argparse.Namespace) -> Table:
    """Measure section VI: the density makes no difference."""
    found, rows = _gaioso(options), []
    for n in _sizes(options, (1024, 8192, 16384)):
        for name in _COMPARED:
            each = [found[f"{name}, {edges} edges"][n] for edges in _EDGES]
            mean = _mean(found, name, n)
            most = max(abs(time.seconds / mean.seconds - 1) for time in each)
            differs = f"{100 * most:.1f} %" if all(time.is_measured for time in each) else "—"
            rows.append([name, n, *(str(t.scale(1e3)) for t in [*each, mean]), differs])
    columns = ["method", "vertices", *(f"{edges} edges, ms" for edges in _EDGES), "mean, ms", "most differ by"]
    return Table("Gaioso and others, section VI: milliseconds by edges a vertex", columns, rows)


def gaioso_blocks(options: argparse.Namespace) -> Table:
    """Measure section V: how many blocks of the first phase each multiprocessor has."""
    _needs_gpu()
    n = _sizes(options, [8192])[-1]
    by_default = {name: Timing(gpu.seconds(name, n)) for name in ("gaioso", "gaioso_256")}
    rows = []
    for count in range(1, 9):
        row: list[Any] = [count]
        for name, usual in by_default.items():
            took = Timing(gpu.seconds(name, n, blocks=count))
            row += [str(took.scale(1e3)), took / usual]
        rows.append(row)
    columns = ["blocks", "gaioso, ms", "of its default", "gaioso_256, ms", "of the default of gaioso_256"]
    return Table(f"Gaioso and others, section V: blocks a multiprocessor, n = {n}", columns, rows)


# --------------------------------------------------------------------------------------------------------- the command


#: The tables by name, those of a paper side by side.
TABLES: Mapping[str, Callable[[argparse.Namespace], Table]] = {
    each.__name__.replace("_", "-"): each
    for each in (
        *(lund_smith_times, lund_smith_ratios, lund_smith_rates, lund_smith_steps),
        *(buluc_host, buluc_launches, buluc_times, buluc_growth, buluc_energy, buluc_roofline),
        *(bertoldi_ranks, bertoldi_bytes, bertoldi_threads, bertoldi_blocks),
        *(gaioso_times, gaioso_densities, gaioso_blocks),
    )
}
#: The tables that are left out without a GPU. `buluc-energy` is also left out if no counter of the host can be read.
NEED_GPU = (
    *("lund-smith-times", "lund-smith-ratios", "lund-smith-rates", "lund-smith-steps", "buluc-times", "buluc-roofline"),
    *("bertoldi-blocks", "gaioso-times", "gaioso-densities", "gaioso-blocks"),
)
GROUPS: Mapping[str, Sequence[str]] = {
    paper: [name for name in TABLES if name.startswith(paper.replace("_", "-"))]
    for paper in ("lund_smith", "buluc", "bertoldi", "gaioso")
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the tables of the papers."""

    def configure(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--sizes", type=int, nargs="+", help="vertices, in place of each paper's")
        parser.add_argument("--limit", type=float, default=60.0, help="seconds that a table may take, about (60)")
        parser.add_argument("--counted", type=float, default=1.0, help="seconds over which energy is counted (1)")
        parser.add_argument("--counts", type=int, nargs="+", help="threads of `bertoldi-threads`")
        parser.add_argument("--n", type=int, default=5040, help="vertices of `bertoldi-ranks` (5040)")
        parser.add_argument("--ranks", type=int, nargs="+", default=[1, 2, 3, 4, 6])
        parser.add_argument("--pivots", type=int, default=600, help="of the algorithm by rows that are timed (600)")
        parser.add_argument("--mpiexec", default="mpiexec --bind-to none --oversubscribe")

    return run("benchmarks.papers", str(__doc__), TABLES, arguments, configure, groups=GROUPS)


if __name__ == "__main__":
    sys.exit(main())
