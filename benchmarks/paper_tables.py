"""Make the tables of four papers from measurements: the paper's numbers beside those of a machine, with the ratios.

`benchmarks.papers` measures, and keeps its measurements in the tables ``host`` and ``gpu`` of ``docs/data/papers.csv``:
what was measured, vertices, value and unit. `TABLES` computes the tables of ``docs/papers.md`` from them, so that a
page can be checked against its measurements.

"Then" is the number that the paper prints. A ratio is computed from measured times alone: what was not measured is "—",
and so is a ratio that it would enter. A column without a value is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from benchmarks import paper_numbers as then
from benchmarks.paper_numbers import Numbers
from benchmarks.tables import Origin, Table, three_digits
from semiring.algorithms.dense import DENSE_METHODS, PaperMethod
from semiring.algorithms.schedule import schedule_for
from semiring.distributed.cost_model import row_broadcast_bytes

__all__ = [
    "COLUMNS",
    "FAIR",
    "LUND_SMITH_STEPS",
    "NOT_COPIED",
    "TABLES",
    "Measured",
    "Part",
    "call",
    "measured_in",
    "tables_of",
]

COLUMNS = ("what", "vertices", "value", "unit")

Key = tuple[str, int, str]  # what was measured, the vertices, and the unit


@dataclass(frozen=True)
class Part:
    """Measurements of one machine by what, vertices and unit, and where and when they were made."""

    values: Mapping[Key, float]
    origin: Origin | None = None

    def get(self, what: str, n: int, unit: str = "s") -> float | None:
        return self.values.get((what, n, unit))

    def series(self, what: str, unit: str = "s") -> dict[int, float]:
        """Return the measured values by size."""
        return {n: value for (name, n, of), value in sorted(self.values.items()) if (name, of) == (what, unit)}


@dataclass(frozen=True)
class Measured:
    """The measurements of the host, and of its GPU."""

    host: Part
    gpu: Part


def measured_in(tables: Mapping[str, Table]) -> Measured:
    """Return the measurements of the tables of a file."""

    def part(name: str) -> Part:
        table = tables.get(name, Table("", COLUMNS, []))
        return Part({(what, int(n), unit): float(value) for what, n, value, unit in table.rows}, table.origin)

    return Measured(part("host"), part("gpu"))


def call(method: str, **options: Any) -> str:
    """Return the name of a measurement: a method of `closure`, with the options that are not its defaults."""
    return f"{method} {options}" if options else method


#: Katz and Kider as fast as this library's code of them: the comparison of Gaioso et al. has blocks of 32 × 32 threads.
FAIR = call("katz_kider", constants=True, threads=1024)
CONSTANTS = call("katz_kider", constants=True)
SERIAL = "three loops, one core"
ONE_CORE, ALL_CORES = "rkleene, one core", "rkleene, all cores"


# ----------------------------------------------------------------------------------------------------------- cells


def _number(value: float | None, factor: float = 1.0) -> str:
    return "—" if value is None else three_digits(factor * value)


def _ratio(numerator: float | None, denominator: float | None) -> float | None:
    return None if numerator is None or denominator is None else numerator / denominator


def _percent(value: float | None) -> str:
    return "—" if value is None else f"{three_digits(100 * value)} %"


def _printed(numbers: Numbers, n: int) -> str:
    """Return the digits of a paper, with thousands apart."""
    text = numbers.get(n, "—")
    return f"{int(text):,}" if text.isdigit() else text


def _float(numbers: Numbers, n: int) -> float | None:
    return float(numbers[n]) if n in numbers else None


def _table(title: str, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> Table:
    """Return a table without the columns that have no value."""
    cells = [list(map(str, row)) for row in rows]
    full = [place for place in range(len(columns)) if any(row[place] not in ("", "—") for row in cells)]
    return Table(title, [columns[place] for place in full], [[row[place] for place in full] for row in cells])


# -------------------------------------------------------------------------------------------------- Lund and Smith

_TABLE_1 = {
    **{"CPU": SERIAL, "harish_narayanan": "harish_narayanan", "katz_kider": "katz_kider"},
    **{"lund_smith_unrolled": "lund_smith_unrolled", "lund_smith": "lund_smith"},
}


def _lund_smith(m: Measured, name: str, n: int) -> float | None:
    return m.host.get(name, n) if name == SERIAL else m.gpu.get(name, n)


def lund_smith_times(m: Measured) -> Table:
    """Return table 1: seconds of five implementations."""
    rows = []
    for n in then.LUND_SMITH["lund_smith"]:
        row = [f"{n}"]
        for column, name in _TABLE_1.items():
            row += [_printed(then.LUND_SMITH[column], n), _number(_lund_smith(m, name, n))]
        rows.append([*row, _number(m.gpu.get(CONSTANTS, n))])
    titles = [title for name in _TABLE_1.values() for title in (f"{name}, then, s", f"{name}, s")]
    title = "Lund and Smith, table 1: seconds, then on a Tesla C1060 and one core of a Phenom 9950"
    return _table(title, ["vertices", *titles, f"{CONSTANTS}, s"], rows)


def lund_smith_ratios(m: Measured) -> Table:
    """Return the speedup of each implementation, then by the times of table 1."""
    names = list(_TABLE_1)
    pairs = [*pairwise(names[1:]), ("katz_kider", "lund_smith"), ("CPU", "lund_smith")]
    rows = []
    for n in then.LUND_SMITH["lund_smith"]:
        row = [f"{n}"]
        for slow, fast in pairs:
            row.append(_number(_ratio(_float(then.LUND_SMITH[slow], n), _float(then.LUND_SMITH[fast], n))))
            row.append(_number(_ratio(_lund_smith(m, _TABLE_1[slow], n), _lund_smith(m, _TABLE_1[fast], n))))
        rows.append([*row, _number(_ratio(m.gpu.get(CONSTANTS, n), m.gpu.get("lund_smith", n)))])
    named = [f"{_TABLE_1[slow]} / {_TABLE_1[fast]}" for slow, fast in pairs]
    titles = [title for name in named for title in (f"{name}, then", name)]
    return _table(
        "Lund and Smith: ratios of times, then by table 1",
        ["vertices", *titles, f"{CONSTANTS} / lund_smith"],
        rows,
    )


#: Bytes of global memory for a task, as section 3 of the paper counts them: four words, or 1/32 with tiles.
_BYTES = {"harish_narayanan": 16.0, "katz_kider": 0.5, "lund_smith_unrolled": 0.5, "lund_smith": 0.5}


def lund_smith_rates(m: Measured) -> Table:
    """Return section 5: tasks and bytes a second at 4,096 vertices, as in the paper, and at larger sizes."""
    rows = []
    for n in (4096, 8192, 16384):
        for name, count in _BYTES.items():
            old = then.LUND_SMITH[name]
            rate, by_table = (_ratio(n**3 / 1e9, time) for time in (m.gpu.get(name, n), _float(old, n)))
            tasks, gigabytes = then.LUND_SMITH_RATES.get(name, ("—", "—")) if n == 4096 else ("—", "—")
            rows.append([name, n, tasks, _number(by_table), _number(rate), gigabytes, _number(rate, count)])
    columns = ["method", "vertices", "G tasks/s, then", "G tasks/s, by table 1", "G tasks/s", "GB/s, then", "GB/s"]
    return _table("Lund and Smith, section 5: rates, 16 bytes a task, or 0.5 with tiles of 32", columns, rows)


#: What each step changes, and the factors that section 4 states: over katz_kider, and over lund_smith_unrolled.
LUND_SMITH_STEPS: Sequence[tuple[str, str, str, str]] = (
    ("katz_kider", "three phases, all tiles in shared memory", "—", "—"),
    (CONSTANTS, "a constant in place of divisors", "—", "—"),
    (FAIR, "the same with 1,024 threads", "—", "—"),
    ("lund_smith_unrolled", "shifts and masks, loops unrolled", "2.1 to 2.3", "—"),
    ("lund_smith_registers", "the doubly dependent tile in registers", "—", "no gain"),
    (call("lund_smith_registers", staged=True), "staged load in the order of rows", "—", "—"),
    (call("lund_smith_registers", staged=True, cyclic=True), "the same, pivots in the cyclic order", "—", "—"),
    (call("lund_smith", reread=True), "staged load, the left panel read again", "—", "—"),
    (call("lund_smith", cyclic=False), "staged load, pivots in the plain order", "—", "—"),
    ("lund_smith", "staged load, tiled and cyclic order", "≈5.2", "2.3 to 2.4"),
    (call("lund_smith", paired=True), "staged load with pairs of pivots", "—", "—"),
    (call("lund_smith", slice=16), "staged load with slices of 16", "—", "—"),
    (call("lund_smith", asynchronous=True), "staged load with asynchronous copies", "—", "—"),
    (call("lund_smith", wide=True), "staged load with wide reads", "—", "—"),
    (call("lund_smith", wide=True, paired=True), "staged load with wide reads and pairs", "—", "—"),
    (
        call("lund_smith", slice=16, asynchronous=True, wide=True, paired=True),
        *("staged load with all of these", "—", "—"),
    ),
    ("staged", "our own successor", "—", "—"),
)
STEPS_SIZE = 8192
_THREADS_OF_AN_SM = 2048


def lund_smith_steps(m: Measured) -> Table:
    """Return section 4: the speedup of each change, and how many blocks of the last phase share a multiprocessor."""
    n, rows = STEPS_SIZE, []
    base, unrolled = (m.gpu.get(name, n) for name in ("katz_kider", "lund_smith_unrolled"))
    for name, what, over_base, over_unrolled in LUND_SMITH_STEPS:
        took, registers, blocks, threads = (
            m.gpu.get(name, of, unit) for of, unit in ((n, "s"), (0, "registers"), (0, "blocks"), (0, "threads"))
        )
        if took is None and over_base == over_unrolled == "—":
            continue
        share = None if blocks is None or threads is None else blocks * threads / _THREADS_OF_AN_SM
        row = [name, what, _number(took, 1e3), over_base, _number(_ratio(base, took)), over_unrolled]
        rows.append([*row, _number(_ratio(unrolled, took)), _number(registers), _number(blocks), _percent(share)])
    columns = ["method and options", "what it changes", "ms", "over katz_kider, then", "over katz_kider"]
    columns += ["over lund_smith_unrolled, then", "over lund_smith_unrolled"]
    columns += ["registers", "blocks of a multiprocessor", "occupancy"]
    return _table(f"Lund and Smith, section 4: the steps, n = {n}; the last columns are of phase 3", columns, rows)


# ------------------------------------------------------------------------------------------ Buluç, Gilbert and Budak

_SIZES = tuple(then.BULUC_PARALLEL["CPU"])
_VERSIONS = ("buluc_iterative", "rkleene_plain", "rkleene")


def buluc_host(m: Measured) -> Table:
    """Return tables 9 and 4: both versions on a host."""
    rows = []
    for n in _SIZES:
        serial, one, every = (m.host.get(name, n) for name in (SERIAL, ONE_CORE, ALL_CORES))
        old, recursive = then.BULUC_HOST["iterative"], then.BULUC_HOST["recursive"]
        row = [n, _printed(old, n), _number(serial, 1e3), _printed(recursive, n), _number(one, 1e3)]
        row += [_number(_ratio(_float(old, n), _float(recursive, n))), _number(_ratio(serial, one))]
        row += [_printed(then.BULUC_PARALLEL["CPU"], n), _number(every), _number(_ratio(one, every))]
        rows.append(row)
    columns = ["vertices", "iterative, then, ms", "iterative, ms", "recursive, then, ms", "recursive, ms"]
    columns += ["iterative / recursive, then", "iterative / recursive", "16 cores, then, s", "all cores, s"]
    title = "Buluç et al., tables 9 and 4: a host, then a Core 2 Duo, and 16 cores of Opterons"
    return _table(title, [*columns, "one core / all cores"], rows)


def buluc_times(m: Measured) -> Table:
    """Return tables 1, 2 and 4: three versions on the GPU, and their speedups over a host."""
    rows = []
    for n in _SIZES:
        codes = [time for name in (SERIAL, ONE_CORE) if (time := m.host.get(name, n)) is not None]
        best, every = min(codes, default=None), m.host.get(ALL_CORES, n)
        for name in _VERSIONS:
            took = m.gpu.get(name, n)
            row = [name, n, _printed(then.BULUC_GPU[name], n), _number(took, 1e3)]
            row += [_printed(then.BULUC_SPEEDUP[name], n), _number(_ratio(best, took))]
            parallel = _printed(then.BULUC_PARALLEL["speedup"], n) if name == "rkleene" else "—"
            rows.append([*row, parallel, _number(_ratio(every, took))])
    columns = ["method", "vertices", "then, ms", "ms", "over the best code of one core, then"]
    columns += ["over the best code of one core", "over 16 cores, then", "over all cores"]
    return _table("Buluç et al., tables 1, 2 and 4: the GPU, then a GeForce 8800 Ultra", columns, rows)


def _fit(times: Mapping[int, float]) -> tuple[float, float]:
    """Return b and c of t = c·nᵇ, fitted to the logarithms as the paper fits them."""
    slope, constant = np.polyfit(np.log(list(times)), np.log(list(times.values())), 1)
    return float(slope), float(np.exp(constant))


def buluc_growth(m: Measured) -> Table:
    """Return table 3: exponent and constant of the growth, of the codes that were measured at three sizes or more."""
    rows = []
    for name, (exponent, constant) in then.BULUC_GROWTH.items():
        part = m.host if name in (SERIAL, ONE_CORE) else m.gpu
        times = {n: 1e3 * time for n, time in part.series(name).items() if n in _SIZES}
        row = [name, exponent, "—", constant, "—", "—"]
        if len(times) > 2:
            b, c = _fit(times)
            row = [name, exponent, f"{b:.2f}", constant, f"{c:.1e}", f"{min(times)} to {max(times)}"]
        rows.append(row)
    columns = ["code", "exponent b, then", "exponent b", "constant c, then", "constant c", "vertices of the fit"]
    return _table("Buluç et al., table 3: t = c·nᵇ in milliseconds", columns, rows)


def buluc_energy(m: Measured) -> Table:
    """Return table 8: pairs a joule, then by the times of tables 1 and 4 and the watts of data sheets."""

    def by_watts(seconds: float | None, of: str, n: int) -> float | None:
        return _ratio(n**3 / 1e6 / then.BULUC_WATTS[of], seconds)

    rows = []
    for n in _SIZES:
        row = [n, _printed(then.BULUC_ENERGY["GPU"], n)]
        row.append(_number(by_watts(_float(then.BULUC_PARALLEL["GPU"], n), "GPU", n)))
        row += [_number(_ratio(n**3 / 1e6, m.gpu.get(name, n, "J"))) for name in ("rkleene", "blocked_floyd_warshall")]
        row.append(_printed(then.BULUC_ENERGY["Neumann"], n))
        row.append(_number(by_watts(_float(then.BULUC_PARALLEL["CPU"], n), "Neumann", n)))
        rows.append([*row, _number(_ratio(n**3 / 1e6, m.host.get(ALL_CORES, n, "J")))])
    columns = ["vertices", "GPU, then, MFlops/J", "GPU, then, M pairs/J", "rkleene, GPU, M pairs/J"]
    columns += ["blocked_floyd_warshall, GPU, M pairs/J", "Neumann, then, MFlops/J", "Neumann, then, M pairs/J"]
    return _table("Buluç et al., table 8: pairs a joule", [*columns, "host, M pairs/J"], rows)


def buluc_launches(m: Measured) -> Table:
    """Count section 2.2: O(n/B) launches of the recursion, and O((n/B)³) where each product of blocks is one."""
    names, rows = ("rkleene_plain", "katz_kider", "lund_smith", "gaioso", "buluc_iterative"), []
    methods = {each.name: each for each in DENSE_METHODS if isinstance(each, PaperMethod)}
    grain = schedule_for("cuda", np.dtype(np.float32)).grain
    for n in _SIZES:
        tiles = -(-n // 64)
        counts = [tiles, tiles**3 + tiles, *(methods[name].steps(n, grain) for name in names)]
        rows.append([n, *(f"{count:,}" for count in counts)])
    columns = ["vertices", "n/B", "a launch for each product of blocks"]
    return _table("Buluç et al., section 2.2: launches, B = 64", [*columns, *names], rows)


def buluc_roofline(m: Measured) -> Table:
    """Return what bounds each method, in place of the scaled clocks of tables 6 and 7."""
    n = 8192
    memory, products = m.gpu.get("copy", 0, "bytes/s"), m.gpu.get("product", n, "pairs/s")
    # Bytes that no cache can save: an entry is read and written once for each pivot, or tile of pivots. The products of
    # the recursion read two panels, and read and write a third one, on each of its levels.
    carried = {"harish_narayanan": 8.0, "buluc_iterative": 8.0, "katz_kider": 8 / 32, "lund_smith": 8 / 32}
    carried |= dict.fromkeys(("rkleene_plain", "rkleene"), 12 * np.log2(n / 64) / n)
    rows = []
    for name, count in carried.items():
        rate, by_memory = _ratio(n**3, m.gpu.get(name, n)), _ratio(memory, count)
        bounds = [each for each in (by_memory, products) if each is not None]
        bound = min(bounds, default=None)
        which = "—" if len(bounds) < 2 else "memory" if bound == by_memory else "products"
        numbers = [_number(each, 1e-9) for each in (rate, by_memory, products)]
        rows.append([name, f"{count:.3g}", *numbers, which, _percent(_ratio(rate, bound))])
    columns = ["method", "bytes a pair", "G pairs/s", "memory allows", "products make", "nearer bound", "of that bound"]
    return _table(f"A roofline, in place of tables 6 and 7 of Buluç et al.: n = {n}", columns, rows)


# ------------------------------------------------------------------------------------------------------------ Bertoldi

RANKS, RANKS_SIZE = (1, 2, 3, 4, 6, 8), 5040
_SPEEDUP = "speedup S = Tₛ / T, efficiency E = S / p, where Tₛ is the time of the same loop"


def bertoldi_ranks(m: Measured) -> Table:
    """Return table 3 and figures 2 to 4: speedup and efficiency by ranks, and the share of communication."""
    rows, n = [], max((n for what, n, _ in m.host.values if what.startswith("rows, ")), default=RANKS_SIZE)
    alone = _float(then.BERTOLDI_RANKS, 1)
    pivots = m.host.get("rows", n, "pivots") or n
    for way in ("rows", "tiles"):
        first = m.host.get(f"{way}, 1 ranks", n)
        for size in sorted(RANKS):
            took, waited, received = (
                m.host.get(f"{way}, {size} ranks", n, unit) for unit in ("s", "s waited", "bytes")
            )
            old = then.BERTOLDI_RANKS if way == "rows" else {}
            part = pivots / n if way == "rows" else 1.0
            whole = _number(took) if part >= 1 or took is None else f"~{_number(took)}"
            before, now = _ratio(alone, _float(old, size)), _ratio(first, took)
            row = [way, size, _printed(old, size), _number(took, 1e3 * part), whole, _number(before), _number(now)]
            row += [_percent(_ratio(before, size)), _percent(_ratio(now, size))]
            row += [_printed(then.BERTOLDI_MPI if old else {}, size), _percent(_ratio(waited, took))]
            rows.append([*row, *(_mebibytes(_ratio(received, count)) for count in (1, size))])
    columns = ["how", "ranks", "then, ms", f"ms; rows: {pivots:.0f} pivots", "all pivots, s", "speedup, then"]
    columns += ["speedup", "efficiency, then", "efficiency", "% in MPI, then", "share that waited"]
    columns += ["MiB received by all ranks", "MiB received by a rank"]
    return _table(f"Bertoldi, table 3 and figures 2 to 4: n = {n}; {_SPEEDUP} on one rank", columns, rows)


def _mebibytes(value: float | None) -> str:
    return "—" if value is None else f"{value / 2**20:.3g}"


def bertoldi_bytes(m: Measured) -> Table:
    """Return table 1: the bytes that all ranks receive, by the paper's formulas and counted."""
    n, rows = max((n for what, n, _ in m.host.values if what.startswith("rows, ")), default=RANKS_SIZE), []
    for size in sorted(RANKS):
        says, counted = row_broadcast_bytes(n, size), m.host.get(f"rows, {size} ranks", n, "bytes")
        row = [size, says["n"], *(_mebibytes(says[each]) for each in ("scatter", "pivot rows", "gather"))]
        rows.append([*row, _mebibytes(counted), _percent(_ratio(counted, says["pivot rows"] or None))])
    columns = ["ranks", "n, bytes", "scatter, MiB", "pivot rows, MiB", "gather, MiB", "pivot rows counted, MiB"]
    return _table(f"Bertoldi, table 1: received by all ranks, n = {n}, float32", [*columns, "of the formula"], rows)


THREADS = (1, 2, 4, 8, 16)
NOT_COPIED = call("bertoldi_openmp", copied_row=False)


def bertoldi_threads(m: Measured) -> Table:
    """Return tables 2 and 4: the row-parallel loop by threads, with both schedules."""
    rows = []
    counts = sorted(
        {*THREADS, *(int(what.split()[1]) for what, _, _ in m.host.values if what.startswith("bertoldi_openmp, "))}
    )
    for n in then.BERTOLDI_SERIAL:
        first = m.host.get("bertoldi_openmp, 1 threads", n)
        for threads in counts:
            methods = "bertoldi_openmp", "bertoldi_openmp_static", NOT_COPIED
            dynamic, static, direct = (m.host.get(f"{method}, {threads} threads", n) for method in methods)
            old = then.BERTOLDI_SERIAL if threads == 1 else then.BERTOLDI_THREADS.get(str(threads), {})
            if n not in old and dynamic is None and static is None:
                continue
            before, now = _ratio(_float(then.BERTOLDI_SERIAL, n), _float(old, n)), _ratio(first, dynamic)
            row = [n, threads, _printed(old, n), _number(dynamic, 1e3), _number(static, 1e3)]
            row += [_number(_ratio(static, dynamic)), _number(_ratio(direct, dynamic)), _number(before), _number(now)]
            rows.append([*row, _percent(_ratio(before, threads)), _percent(_ratio(now, threads))])
    columns = ["vertices", "threads", "dynamic, then, ms", "dynamic, ms", "static, ms", "static / dynamic"]
    columns += ["row not copied / copied", "speedup, then", "speedup", "efficiency, then", "efficiency"]
    title = f"Bertoldi, tables 2 and 4: algorithm 3, then a Core i7-9700K; {_SPEEDUP} with one thread (then: table 2)"
    return _table(title, columns, rows)


BLOCK_THREADS = (1024, 256, 128, 32)


def bertoldi_blocks(m: Measured) -> Table:
    """Return table 5 and figures 9 and 10: algorithms 4 and 5 by threads of a block, and over the loop on a host."""
    rows, hosts = [], {1: then.BERTOLDI_SERIAL, 8: then.BERTOLDI_THREADS["8"]}
    for n in then.BERTOLDI_SERIAL:
        for threads in BLOCK_THREADS:
            options = {} if threads == 128 else {"threads": threads}
            shared, direct = (m.gpu.get(call(name, **options), n) for name in ("bertoldi_cuda_shared", "bertoldi_cuda"))
            old = then.BERTOLDI_BLOCKS.get(str(threads), {})
            row = [n, threads, _printed(old, n), _number(shared, 1e3), _number(direct, 1e3)]
            row.append(_number(_ratio(shared, direct)))
            for count, host in hosts.items():
                row.append(_number(_ratio(_float(host, n), _float(old, n))))
                row.append(_number(_ratio(m.host.get(f"bertoldi_openmp, {count} threads", n), direct)))
            rows.append(row)
    columns = ["vertices", "threads of a block", "then, ms", "shared, ms", "direct, ms", "shared / direct"]
    columns += [f"over {host}{when}" for host in ("one thread", "8 threads") for when in (", then", "")]
    return _table("Bertoldi, table 5 and figures 9 and 10: then an RTX 2070 Super", columns, rows)


# ------------------------------------------------------------------------------------------------------------- Gaioso

GAIOSO_SIZES = (1024, 2048, 3072, 4096, 5120, 6144, 7168, 8192, 16384)
EDGES = (6, 60, 600)
_COMPARED = {"gaioso": "gaioso", "katz_kider": FAIR, "harish_narayanan": "harish_narayanan"}


def gaioso_times(m: Measured) -> Table:
    """Return figures 7 to 10: times, and ratios to three other codes."""
    rows, found = [], {name: [] for name in ("harish_narayanan", "katz_kider")}
    for n in GAIOSO_SIZES:
        took = {name: m.gpu.get(measured, n) for name, measured in _COMPARED.items()}
        row = [n, *(_number(time, 1e3) for time in took.values())]
        row += [_printed(then.GAIOSO_RATIOS["three loops"], n), _number(_ratio(m.host.get(SERIAL, n), took["gaioso"]))]
        for name, ratios in found.items():
            ratio = _ratio(took[name], took["gaioso"])
            ratios += [] if ratio is None else [ratio]
            row += [_printed(then.GAIOSO_RATIOS[name], n), _number(ratio)]
        rows.append(row)
    means = [
        cell
        for name, ratios in found.items()
        for cell in (then.GAIOSO_MEANS[name], _number(sum(ratios) / len(ratios) if ratios else None))
    ]
    rows.append(["mean", *["—"] * 5, *means])
    columns = ["vertices", "gaioso, ms", f"{FAIR}, ms", "harish_narayanan, ms", "over three loops, then"]
    columns += ["over three loops", "over harish_narayanan, then", "over harish_narayanan"]
    title = "Gaioso et al., figures 7 to 10: 60 edges a vertex, then a Tesla C2075"
    return _table(title, [*columns, "over katz_kider, then", "over katz_kider"], rows)


DENSITY_SIZES = (1024, 4096, 8192)


def gaioso_densities(m: Measured) -> Table:
    """Return section VI: times by edges a vertex, and how far the most different one is from their mean."""
    rows = []
    for n in DENSITY_SIZES:
        for name in _COMPARED.values():
            each = [m.gpu.get(name if edges == 60 else f"{name}, {edges} edges", n) for edges in EDGES]
            times = [time for time in each if time is not None]
            mean = sum(times) / 3 if len(times) == 3 else None
            most = None if mean is None else max(abs(time / mean - 1) for time in times)
            rows.append([name, n, *(_number(time, 1e3) for time in (*each, mean)), _percent(most)])
    columns = ["method", "vertices", *(f"{edges} edges, ms" for edges in EDGES), "mean, ms", "most differ by"]
    return _table("Gaioso et al., section VI: milliseconds by edges a vertex", columns, rows)


BLOCKS_SIZE = 17408  # 1,088 tiles of the cross, more than eight blocks on each of 132 multiprocessors


def gaioso_blocks(m: Measured) -> Table:
    """Return section V: how many blocks of the first phase each multiprocessor has."""
    n, rows = BLOCKS_SIZE, []
    usual = [m.gpu.get(call("gaioso", **options), n) for options in ({}, {"threads": 256})]
    for count in range(1, 9):
        row = [f"{count}"]
        for options, default in zip(({}, {"threads": 256}), usual, strict=True):
            took = m.gpu.get(call("gaioso", **options, blocks=count), n)
            row += [_number(took, 1e3), _number(_ratio(took, default))]
        rows.append(row)
    columns = ["blocks", "gaioso, ms", "of its default", "gaioso {'threads': 256}, ms", "of its default with 256"]
    return _table(f"Gaioso et al., section V: blocks a multiprocessor, n = {n}", columns, rows)


# ---------------------------------------------------------------------------------------------------------- all tables

#: The tables of the page by name: those of a paper side by side.
TABLES: Mapping[str, Callable[[Measured], Table]] = {
    each.__name__.replace("_", "-"): each
    for each in (
        *(lund_smith_times, lund_smith_ratios, lund_smith_rates, lund_smith_steps),
        *(buluc_host, buluc_times, buluc_growth, buluc_energy, buluc_launches, buluc_roofline),
        *(bertoldi_ranks, bertoldi_bytes, bertoldi_threads, bertoldi_blocks),
        *(gaioso_times, gaioso_densities, gaioso_blocks),
    )
}
#: The tables whose numbers are of the host alone.
OF_THE_HOST = ("buluc-host", "buluc-launches", "bertoldi-ranks", "bertoldi-bytes", "bertoldi-threads")


def tables_of(m: Measured) -> dict[str, Table]:
    """Return the tables that measurements make, each with their place and date.

    Ratios of a GPU to a host need both on one machine: measurements of another host enter no table of the GPU.
    """
    if m.gpu.origin and m.host.origin and _processor(m.gpu.origin) != _processor(m.host.origin):
        alone = Measured(Part({}), m.gpu)
    else:
        alone = m
    result = {}
    for name, make in TABLES.items():
        table, origin = (make(m), m.host.origin) if name in OF_THE_HOST else (make(alone), m.gpu.origin)
        result[name] = table if name == "buluc-launches" else replace(table, origin=origin)
    return result


def _processor(origin: Origin) -> list[str]:
    return origin.machine.split(", ")[:2]  # its name, and how many cores
