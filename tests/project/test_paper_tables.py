"""Test the tables of four papers: their digits, and that ratios are of measured times alone. No test checks a time."""

from __future__ import annotations

import re
from ast import literal_eval

import pytest
import table_checks

from benchmarks import paper_tables, papers
from benchmarks.paper_tables import ALL_CORES, FAIR, ONE_CORE, SERIAL, Measured, Part, call
from benchmarks.tables import read, three_digits
from semiring.algorithms.methods import check_method_options
from tools.pages import DATA, PAGES, rows_of, table_of, with_tables

#: Each table of a paper as it is printed: its place, the table here, the columns here, and the rows as the paper has
#: them. "." is an empty cell of the paper.
PRINTED = {
    "Lund and Smith, table 1": (
        *("lund-smith-times", 1),
        ["three loops, one core, then, s", "harish_narayanan, then, s", "katz_kider, then, s"],
        ["lund_smith_unrolled, then, s", "lund_smith, then, s"],
        """1024 2.405 0.408 0.108 0.0428 0.0274 | 2048 18.38 3.212 0.65 0.282 0.14 | 3072 62.04 10.99 2.01 0.653 0.401
        4096 145.2 26.05 4.62 2.06 0.934 | 5120 . 50.87 8.84 4.02 1.76 | 6144 . 87.9 15.09 6.89 2.98
        7168 . . 23.82 10.9 4.65 | 8192 . 208.6 35.37 16.39 6.88 | 9216 . . 50.24 23.05 9.71
        10240 . . 68.67 31.52 13.22 | 11264 . . 91.08 41.82 17.48 | 12288 . . . 54.05 22.67
        13312 . . . 68.56 28.63 | 14336 . . . 85.56 36.7 | 15360 . . . . 43.74 | 16384 . . 277.8 126.9 53.02
        17408 . . . . 63.4""",
    ),
    "Lund and Smith, sections 3 and 5": (
        *("lund-smith-rates", 2),
        *(["G tasks/s, then", "GB/s, then"], []),
        "harish_narayanan 4096 2.6 42 | katz_kider 4096 14.9 . | lund_smith 4096 73.6 46",
    ),
    "Buluç et al., tables 1 and 2": (
        *("buluc-times", 2),
        *(["then, ms", "over the best code of one core, then"], []),
        """buluc_iterative 512 2.51e2 3.1 | rkleene_plain 512 1.62e1 48.1 | rkleene 512 6.43e0 121.4
        buluc_iterative 1024 2.42e3 3.0 | rkleene_plain 1024 1.00e2 73.4 | rkleene 1024 2.44e1 301.5
        buluc_iterative 2048 4.60e4 1.3 | rkleene_plain 2048 7.46e2 79.6 | rkleene 2048 1.41e2 420.7
        buluc_iterative 4096 4.13e5 1.2 | rkleene_plain 4096 5.88e3 81.5 | rkleene 4096 1.01e3 473.2
        buluc_iterative 8192 5.47e6 0.7 | rkleene_plain 8192 5.57e4 67.7 | rkleene 8192 7.87e3 479.3""",
    ),
    "Buluç et al., table 4, speedup": (
        *("buluc-times", 2),
        *(["over 16 cores, then"], []),
        "rkleene 512 17.5 | rkleene 1024 29 | rkleene 2048 36.5 | rkleene 4096 40 | rkleene 8192 45",
    ),
    "Buluç et al., table 3": (
        *("buluc-growth", 1),
        *(["exponent b, then", "constant c, then"], []),
        f"""{SERIAL.replace(" ", "_")} 3.02 5.5e-6 | {ONE_CORE.replace(" ", "_")} 3.23 1.4e-6
        buluc_iterative 3.62 3.6e-8 | rkleene_plain 2.94 1.5e-7 | rkleene 2.59 4.7e-7""",
    ),
    "Buluç et al., tables 9 and 4": (
        *("buluc-host", 1),
        *(["iterative, then, ms", "recursive, then, ms"], ["16 cores, then, s"]),
        """512 8.43e2 7.81e2 0.113 | 1024 7.40e3 7.35e3 0.708 | 2048 5.94e4 7.98e4 5.146 | 4096 4.79e5 7.20e5 40.36
        8192 3.77e6 5.82e6 354.9""",
    ),
    "Buluç et al., table 8": (
        *("buluc-energy", 1),
        *(["GPU, then, MFlops/J", "Neumann, then, MFlops/J"], []),
        "512 173 2.9 | 1024 368 3.7 | 2048 510 4.1 | 4096 569 4.2",
    ),
    "Bertoldi, tables 2 and 4": (
        *("bertoldi-threads", 2),
        *(["dynamic, then, ms"], []),
        """1000 1 1095 | 2000 1 8860 | 5000 1 138643 | 7500 1 468750 | 10000 1 1112111 | 12500 1 2170138
        1000 2 541 | 1000 4 364 | 1000 8 158 | 2000 2 4365 | 2000 4 2921 | 2000 8 1260
        5000 2 69590 | 5000 4 46443 | 5000 8 19496 | 7500 2 230260 | 7500 4 155531 | 7500 8 65118
        10000 2 543900 | 10000 4 367434 | 10000 8 153682 | 12500 2 1063129 | 12500 4 716363 | 12500 8 299006""",
    ),
    "Bertoldi, table 3": (
        *("bertoldi-ranks", 2),
        *(["then, ms"], ["% in MPI, then"]),
        """rows 1 145447 0.06 | rows 2 75059 2.57 | rows 3 52336 4.45 | rows 4 39962 5.47 | rows 6 28731 8.35
        rows 8 23120 11.00""",
    ),
    "Bertoldi, table 5": (
        *("bertoldi-blocks", 2),
        *(["then, ms"], []),
        """1000 1024 24 | 1000 256 19 | 1000 32 53 | 2000 1024 219 | 2000 256 186 | 2000 32 356
        5000 1024 2818 | 5000 256 2709 | 5000 32 4966 | 7500 1024 9894 | 7500 256 9044 | 7500 32 16297
        10000 1024 22190 | 10000 256 21392 | 10000 32 38208 | 12500 1024 42955 | 12500 256 41460 | 12500 32 75034""",
    ),
    "Gaioso et al., sections I, VII and VIII": (
        *("gaioso-times", 1),
        *(["over three loops, then", "over harish_narayanan, then"], ["over katz_kider, then"]),
        "8192 149 . . | 16384 195 4 . | mean . ≈4 ≈1.8",
    ),
}


def value(text: str) -> float | str:
    try:
        return float(text.replace(",", ""))
    except ValueError:
        return text


@pytest.mark.parametrize("place", PRINTED)
def test_then_is_what_the_paper_prints(place):
    """Every number of the paper's table stands in its row and column, and no other number is in these columns."""
    name, keys, columns, more, text = PRINTED[place]
    table = table_of(f"papers/{name}")
    printed = {}
    for cells in map(str.split, re.split(r"\||\n", text)):
        printed[tuple(cell.replace("_", " ") for cell in cells[:keys])] = cells[keys:]
    found = {tuple(cell.replace("_", " ") for cell in row[:keys]): row for row in table.cells}
    for number, column in enumerate([*columns, *more]):
        at = list(table.columns).index(column)
        expected = {key: value(cells[number]) for key, cells in printed.items() if cells[number] != "."}
        shown = {key: value(row[at]) for key, row in found.items() if row[at] != "—"}
        assert shown == {**shown, **expected}, column
        assert place.endswith(("speedup", "VIII")) or set(shown) == set(expected), column


def by_clock(rate: float) -> Measured:
    """Return measurements of a clock by which every method takes n³ / rate, three loops a hundred times as long."""
    sizes = (512, 1000, 1024, 2048, 4096, 8192, 16384, 17408)
    on_gpu = ["gaioso", FAIR, "katz_kider", "lund_smith", "harish_narayanan", "rkleene", call("gaioso", blocks=3)]
    host = {(SERIAL, n, "s"): 100 * n**3 / rate for n in sizes}
    host |= {(ONE_CORE, n, "s"): 10 * n**3 / rate for n in sizes} | {(ALL_CORES, n, "s"): n**3 / rate for n in sizes}
    host |= {(f"bertoldi_openmp, {p} threads", n, "s"): 4 * n**3 / rate / p for n in sizes for p in (1, 2)}
    host |= {(f"rows, {p} ranks", 5040, "s"): 6.0 / p for p in (1, 2, 4)}
    host |= {(f"rows, {p} ranks", 5040, "bytes"): 4.0 * 5040**2 * (p - 1) for p in (1, 2, 4)} | {
        ("rows", 5040, "pivots"): 600
    }
    gpu = {(name, n, "s"): n**3 / rate for name in on_gpu for n in sizes}
    gpu |= {("rkleene", n, "J"): n**3 / 3e10 for n in sizes} | {("copy", 0, "bytes/s"): rate}
    return Measured(Part(host), Part(gpu | {("product", 8192, "pairs/s"): 2 * rate}))


def test_ratios_compare_equal_baselines_and_nothing_is_extrapolated():
    tables = {name: make(by_clock(1e12)) for name, make in paper_tables.TABLES.items()}

    def row(table: str, *beginning: object) -> dict[str, str]:
        (found,) = (each for each in tables[table].cells if each[: len(beginning)] == list(map(str, beginning)))
        return dict(zip(tables[table].columns, found, strict=True))

    ratios = row("lund-smith-ratios", 16384)
    assert (ratios["katz_kider / lund_smith, then"], ratios["lund_smith_unrolled / lund_smith, then"]) == (
        "5.24",
        "2.39",
    )
    assert row("lund-smith-rates", "lund_smith", 4096)["G tasks/s, by table 1"] == "73.6"
    assert row("lund-smith-rates", "lund_smith", 4096)["G tasks/s"] == "1,000"
    # the paper's speedup is over the best code of one core, and so is that of today
    assert row("buluc-times", "rkleene", 2048)["over the best code of one core"] == "10"
    assert row("buluc-times", "rkleene", 2048)["over all cores"] == "1"
    energy = [row("buluc-energy", n) for n in (512, 1024, 2048, 4096)]
    assert [each["GPU, then, M pairs/J"] for each in energy] == ["93.8", "198", "274", "306"]
    assert [each["Neumann, then, M pairs/J"] for each in energy] == ["1.56", "2", "2.2", "2.24"]
    assert energy[0]["rkleene, GPU, M pairs/J"] == "30,000"
    ranks = row("bertoldi-ranks", "rows", 4)
    assert (ranks["efficiency, then"], ranks["efficiency"]) == ("91 %", "100 %")
    assert (ranks["all pivots, s"], ranks["ms; rows: 600 pivots"]) == ("~1.5", "179")
    assert (ranks["MiB received by all ranks"], ranks["MiB received by a rank"]) == ("291", "72.7")
    threads = row("bertoldi-threads", 1000, 2)
    assert (threads["efficiency, then"], threads["efficiency"]) == ("101 %", "100 %")
    assert row("gaioso-times", 8192)["over three loops"] == "100"
    assert row("gaioso-times", 5120) == dict.fromkeys(row("gaioso-times", 5120), "—") | {"vertices": "5120"}
    assert row("gaioso-blocks", 3)["of its default"] == "1"
    assert row("buluc-roofline", "harish_narayanan")["of that bound"] == "800 %"
    for name, table in tables.items():
        for place, column in enumerate(table.columns):
            cells = [each[place] for each in table.cells]
            assert any(cell not in ("", "—") for cell in cells), (name, column)
            assert column == "all pivots, s" or not any(cell.startswith("~") for cell in cells), (name, column)


def test_a_command_continues_where_it_was_interrupted(tmp_path, capsys, monkeypatch):
    """Measurements are kept one by one. The same machine and commit continue; another one is refused."""
    monkeypatch.setenv("SEMIRING_NUMPY_SECONDS", "0")
    file, measured = tmp_path / "papers.csv", []

    def measure(close: object, n: int) -> float:
        measured.append(n)
        if len(measured) == 3:
            raise KeyboardInterrupt
        return 1e-9 * n**3

    monkeypatch.setattr(papers, "_on_host", measure)
    monkeypatch.setattr(papers, "POWERCAP", tmp_path)
    words = ["host", "--sizes", "64", "96", "--ranks", "--counts", "1", "--save", str(file)]
    with pytest.raises(KeyboardInterrupt):
        papers.main([*words, "--commit", "first"])
    assert papers.main([*words, "--commit", "first", "--limit", "0"]) == 0
    assert len(measured) == 3
    assert "measurements are missing: repeat the command" in capsys.readouterr().err
    assert papers.main([*words, "--commit", "first"]) == 0
    told = capsys.readouterr()
    assert "no counter of energy can be read" in told.err
    assert "Buluç et al., tables 9 and 4" in told.out
    kept = [(row[0], row[1]) for row in read(file)["host"].rows if row[3] == "s"]
    assert len(kept) == len(set(kept)) == len(measured) - 1
    with pytest.raises(SystemExit, match="pass --save with another file"):
        papers.main([*words, "--commit", "second"])


def test_no_column_of_a_published_page_is_empty():
    for page in PAGES:
        for name in re.findall(r"<!-- table: ([\w/-]+) -->", page.read_text("utf-8")):
            table = table_of(name)
            for place, column in enumerate(table.columns):
                assert any(row[place] not in ("", "—") for row in table.cells), (page.name, name, column)


def test_sentences_have_the_numbers_of_the_measurements():
    """Each number that a sentence of the page compares is computed from the measurements of its file."""
    text = " ".join((DATA.parent / "papers.md").read_text("utf-8").split())
    m = paper_tables.measured_in(read(DATA / "papers.csv"))
    unrolled, constants = "lund_smith_unrolled", call("katz_kider", constants=True)
    every = call("lund_smith", slice=16, asynchronous=True, wide=True, paired=True)

    def ratio(slow: str, fast: str, n: int = 8192) -> str:
        return three_digits(m.gpu.values[slow, n, "s"] / m.gpu.values[fast, n, "s"])

    def ms(what: str, n: int = 8192) -> str:
        return three_digits(1e3 * m.gpu.values[what, n, "s"])

    def cells(table: str, column: str, **wanted: object) -> list[str]:
        rows = [row for row in rows_of(f"papers/{table}") if all(row[key] == str(x) for key, x in wanted.items())]
        return [row[column] for row in rows if row[column] != "—"]

    def cell(table: str, column: str, **wanted: object) -> str:
        (found,) = cells(table, column, **wanted)
        return found

    def times(table: str, column: str, n: object, **wanted: object) -> str:
        return cell(table, column, vertices=n, **wanted)

    steps, figure, threads = "lund-smith-steps", "lund-smith-ratios", "bertoldi-threads"
    staged = f"{unrolled} / lund_smith"
    occupancy = {row["method and options"]: row for row in rows_of(f"papers/{steps}")}
    waits = [float(each[:-2]) for each in cells("bertoldi-ranks", "share that waited", how="rows")[1:]]
    bytes_ = [float(each) for each in cells("bertoldi-ranks", "MiB received by a rank", how="rows")[1:]]
    schedules = [float(each) for each in cells(threads, "static / dynamic")]
    shared = [float(each) for each in cells("bertoldi-blocks", "shared / direct")]
    gaioso = {what: time for (what, n, _), time in m.gpu.values.items() if what.startswith("gaioso") and n == 17408}
    by_blocks = [
        time / gaioso[call("gaioso", threads=256) if "256" in what else "gaioso"]
        for what, time in gaioso.items()
        if "blocks" in what
    ]
    densities = [float(each[:-2]) for each in cells("gaioso-densities", "most differ by")]
    one_core = "over the best code of one core"
    joules = 4096**3 / m.gpu.values["rkleene", 4096, "J"] / (4096**3 / 1.01 / 222.5)
    assert len(by_blocks) == 16
    assert max(abs(each - 1) for each in by_blocks) < 0.01
    for sentence in (
        f"Staged load is {ratio(unrolled, 'lund_smith')} times as fast as the unrolled kernel at 8,192 vertices and "
        f"{ratio(unrolled, 'lund_smith', 16384)} times at 16,384, where the paper has "
        f"{times(figure, f'{staged}, then', 8192)} and {times(figure, f'{staged}, then', 16384)}.",
        f"the unrolled kernel has {occupancy[unrolled]['blocks of a multiprocessor']} blocks on a multiprocessor, "
        f"{occupancy[unrolled]['occupancy']} of its threads",
        f"Staged load has {occupancy['lund_smith']['blocks of a multiprocessor']} blocks, "
        f"{occupancy['lund_smith']['occupancy']}.",
        f"costs here: {ms('lund_smith')} ms against {ms(call('lund_smith', cyclic=False))} ms in the plain order.",
        f"With all options staged load is {ratio('lund_smith', every)} times as fast, and `staged` is "
        f"{ratio('lund_smith', 'staged')} times as fast.** Asynchronous copies alone gain "
        f"{ratio('lund_smith', call('lund_smith', asynchronous=True))} times.",
        f"(`reread`): {ms(call('lund_smith', reread=True))} ms, with "
        f"{occupancy[call('lund_smith', reread=True)]['occupancy']} of the threads.",
        f"The unrolled kernel is {ratio('katz_kider', unrolled)} times as fast as `katz_kider` at 8,192 vertices, "
        f"where the paper has {times(figure, f'katz_kider / {unrolled}, then', 8192)}.",
        f"gains {ratio('katz_kider', constants)} times, and the unrolled loops, whose indices are computed "
        f"once, {ratio(constants, unrolled)} times more.",
        f"Tiles gain {ratio('harish_narayanan', 'katz_kider', 1024)} times over `harish_narayanan` at 1,024 vertices "
        f"and {ratio('harish_narayanan', 'katz_kider')} times at 8,192, where the paper has "
        f"{times(figure, 'harish_narayanan / katz_kider, then', 1024)} and "
        f"{times(figure, 'harish_narayanan / katz_kider, then', 8192)}.",
        f"with a constant side it is {ratio('harish_narayanan', constants, 1024)} and "
        f"{ratio('harish_narayanan', constants)}.",
        f"The recursion is {times('buluc-times', one_core, 8192, method='rkleene')} times as fast as the best code of "
        f"one core at 8,192 vertices, where the paper has 479.3. Over 16 cores it is "
        f"{times('buluc-times', 'over all cores', 8192, method='rkleene')} times as fast, where the paper has 45.",
        f"The recursion is {ratio('harish_narayanan', 'rkleene', 1024)} times as fast as `harish_narayanan` at 1,024 "
        f"vertices and {ratio('harish_narayanan', 'rkleene', 4096)} times at 4,096, where the paper has 35 to 75 times "
        "up to 4,096 vertices (section 4.4).** At 8,192 vertices it is "
        f"{ratio('harish_narayanan', 'rkleene')} times as fast.",
        f"The exponent of `rkleene` on a GPU is {cell('buluc-growth', 'exponent b', code='rkleene')}, "
        "below 3 as in the paper (2.59).",
        "The exponent of the iterative version was 3.62, and is "
        f"{cell('buluc-growth', 'exponent b', code='buluc_iterative')}.",
        f"grows {three_digits(m.gpu.values['buluc_iterative', 2048, 's'] / m.gpu.values['buluc_iterative', 1024, 's'])}"
        f"-fold there, and "
        f"{three_digits(m.gpu.values['buluc_iterative', 4096, 's'] / m.gpu.values['buluc_iterative', 2048, 's'])}-fold",
        f"The recursion is {times('buluc-host', 'iterative / recursive', 2048)} times as fast as three loops on one "
        "core at 2,048 vertices, where the paper has it slower "
        f"({times('buluc-host', 'iterative / recursive, then', 2048)}).",
        f"no more launches than the recursion: {times('buluc-launches', 'katz_kider', 8192)} against "
        f"{times('buluc-launches', 'rkleene_plain', 8192)} at 8,192 vertices.",
        f"A joule makes {three_digits(joules)} times as many pairs as then at 4,096 vertices.",
        f"The efficiency of algorithm 2 is {cell('bertoldi-ranks', 'efficiency', how='rows', ranks=8)} with eight "
        "ranks, where the paper has "
        f"{cell('bertoldi-ranks', 'efficiency, then', how='rows', ranks=8)}, and "
        f"{cell('bertoldi-ranks', 'efficiency', how='rows', ranks=4)} with four.** With six ranks it is "
        f"{cell('bertoldi-ranks', 'efficiency', how='rows', ranks=6)}, where the paper has "
        f"{cell('bertoldi-ranks', 'efficiency, then', how='rows', ranks=6)}, and a rank waited for "
        f"{cell('bertoldi-ranks', 'share that waited', how='rows', ranks=6)} of the time.",
        f"each rank receives {min(bytes_)} to {max(bytes_)} MiB, and the rank that waited longest waited for "
        f"{min(waits)} to {max(waits)} % of the time.",
        f"and took {cell('bertoldi-ranks', 'all pivots, s', how='tiles', ranks=8)} s on eight ranks.",
        f"it takes {min(schedules)} to {max(schedules)} of the time of the dynamic one.",
        f"{times(threads, 'dynamic, ms', 1000, threads=2)} ms with two threads, and "
        f"{times(threads, 'dynamic, ms', 1000, threads=1)} ms with one.",
        f"it takes {min(shared):g} to {max(shared):g} times as long as the direct read.",
        f"`gaioso` is {times('gaioso-times', 'over harish_narayanan', 'mean')} times as fast as `harish_narayanan` and "
        f"{times('gaioso-times', 'over katz_kider', 'mean')} times as fast as `katz_kider` in the mean over the sizes",
        f"{ms(constants)} ms at 8,192 vertices, {ratio(constants, 'gaioso')} times as long as `gaioso`.",
        f"At 4,096 vertices `gaioso` is {times('gaioso-times', 'over three loops', 4096)} times as fast as they are.",
        f"as in the paper: at most {max(densities)} %.",
        f"256 threads with tiles in registers are {ratio('gaioso', call('gaioso', threads=256), 17408)} times as fast",
    ):
        assert sentence in text


def test_the_tables_of_the_page_are_of_one_file():
    text = next(page for page in PAGES if page.name == "papers.md").read_text("utf-8")
    assert set(re.findall(r"<!-- table: papers/([\w-]+) -->", text)) == set(paper_tables.TABLES)
    assert with_tables(text) == text, "python -m tools.pages"
    for table in read(DATA / "papers.csv").values():
        assert table.origin is not None
        table_checks.check("papers", table)
        assert table.origin.date in text
        assert f"`{table.origin.command.split(' --commit')[0]}`" in text
        for what, *_ in table.rows:
            for name, options in re.findall(r"^(\w+) (\{.*\})", what):  # edges, threads or ranks may follow
                assert check_method_options(name, literal_eval(options))
