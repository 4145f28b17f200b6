"""Run the examples of the pages of the documentation, and refresh their pictures and tables.

    python -m tools.pages

writes ``docs/pictures`` anew, from the examples of the tutorials and from ``docs/data``, and the tables of the pages
that name one of ``docs/data``, where the benchmarks keep them (`benchmarks.tables`). ``tests/project/test_docs.py``
runs the same examples, and fails where a page is behind.
"""

from __future__ import annotations

import contextlib
import doctest
import io
import os
import re
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks import paper_tables
from benchmarks.tables import Table, read

ROOT = Path(__file__).parent.parent
DOCS, PICTURES, DATA = ROOT / "docs", ROOT / "docs" / "pictures", ROOT / "docs" / "data"
PAGES = sorted([*ROOT.glob("*.md"), *DOCS.glob("**/*.md")])
# matplotlib opens no window, and writes no date into a picture
ENVIRONMENT = {"MPLBACKEND": "Agg", "SOURCE_DATE_EPOCH": "0"}
OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE

_FENCE = re.compile(r"(<!-- needs a GPU -->\s*)?^```(\w+)\n(.*?)^```", re.M | re.S)
_TABLE = re.compile(r"(<!-- table: ([\w/-]+) -->\n).*?(<!-- end of table -->)", re.S)
# cells such as 92 %, 3.7× and 64 µs are aligned to the right
_NUMBER = re.compile(r"—|(?:≈ |~)?[\d.,]+( ?(?:[%×]|[mµ]?s|h|[KMG]iB))?")
_PICTURE = re.compile(r"!\[[^\]]*\]\((?:\.\./)?pictures/([\w.-]+)\)")


@dataclass(frozen=True)
class Block:
    """A fenced block of code of a page."""

    language: str
    body: str
    needs_gpu: bool


def blocks(page: Path, language: str) -> list[Block]:
    """Return the blocks of code of a page in one language."""
    found = (Block(lang, body, bool(gpu)) for gpu, lang, body in _FENCE.findall(page.read_text(encoding="utf-8")))
    return [block for block in found if block.language == language]


def pages_with(language: str) -> list[Path]:
    """Return the pages that have blocks of it."""
    return [page for page in PAGES if blocks(page, language)]


def pictures_of(page: Path) -> list[str]:
    """Return the names of the files of ``docs/pictures`` that the page shows."""
    return _PICTURE.findall(page.read_text(encoding="utf-8"))


def drawn_by(page: Path) -> list[str]:
    """Return the names of the pictures that the examples of a page draw in the current folder."""
    from tools.plots import ILLUSTRATIONS, PLOTS

    return [name for name in dict.fromkeys(pictures_of(page)) if name not in ILLUSTRATIONS | PLOTS.keys()]


def run_examples(page: Path, *, gpu: bool) -> None:
    """Run the Python of a page in order, as one session in the current folder. Blocks that need a GPU run if ``gpu``.

    AssertionError where it prints something else than the page shows.
    """
    names: dict[str, Any] = {"__name__": "__main__"}
    for number, block in enumerate(blocks(page, "python")):
        if block.needs_gpu and not gpu:
            continue
        title = f"{page.name}[{number}]"
        if ">>>" not in block.body:
            exec(compile(block.body, title, "exec"), names)
            continue
        example = doctest.DocTestParser().get_doctest(block.body, names, title, str(page), 0)
        example.globs = names
        runner, report = doctest.DocTestRunner(optionflags=OPTIONS, verbose=False), io.StringIO()
        runner.run(example, out=report.write, clear_globs=False)
        assert runner.failures == 0, report.getvalue()


# -------------------------------------------------------------------------------------------------------- pictures


def drawn_text(svg: str) -> list[str]:
    """Return the texts in a drawing by matplotlib, which writes each as a comment beside its outlines."""
    return sorted(text.strip() for text in re.findall(r"<!--(.*?)-->", svg, re.S))


def compact(svg: str) -> str:
    """Return the drawing with outlines to a hundredth of a point: half the bytes, and nothing to see."""

    def round_outline(outline: re.Match[str]) -> str:
        return re.sub(r"-?\d+\.\d+", lambda number: f"{float(number[0]):.2f}".rstrip("0").rstrip("."), outline[0])

    return re.sub(r'\bd="[^"]*"', round_outline, svg)


def draw(folder: Path) -> Iterator[Path]:
    """Run each page that makes pictures in ``folder``, and yield the files and the plots of ``docs/data``."""
    from matplotlib import rc_context

    from tools.plots import PLOTS

    with contextlib.chdir(folder), rc_context({"svg.hashsalt": "semiring"}):  # the same identifiers in every run
        for page in pages_with("python"):  # pages without blocks of Python show only pictures that these pages draw
            if names := drawn_by(page):
                run_examples(page, gpu=False)
                yield from (folder / name for name in names)
        for name, plot in PLOTS.items():
            plot(folder / name)
            yield folder / name


# ---------------------------------------------------------------------------------------------------------- tables


def table_of(name: str) -> Table:
    """Return the table of a name ``FILE/TABLE``, from ``docs/data/FILE.csv``, or one that is computed."""
    if name in SUMMARIES:
        return SUMMARIES[name]()
    file, _, table = name.partition("/")
    return read(DATA / f"{file}.csv")[table]


def rows_of(name: str) -> list[dict[str, str]]:
    """Return the rows of a table, as dictionaries by the names of the columns."""
    table = table_of(name)
    return [dict(zip(table.columns, row, strict=True)) for row in table.rows]


def how_long() -> Table:
    """Return the time of a min-plus closure by n from saved tables, with "≈" for n³ over the rate at n = 4,096."""
    small = {int(row["n"]): row for row in rows_of("small/closures")}
    cpu = {
        (int(row["n"]), row["dtype"]): float(row["ms"]) for row in rows_of("closure/closures") if row["threads"] == "2"
    }
    gpu = {int(row["n"]): float(row["min_plus float32, ms"]) for row in rows_of("gpu-rates/closures")}
    gpu |= {int(row["n"]): 1000 * float(row["s"]) for row in rows_of("gpu-large/closure")}
    scipy = {int(row["n"]): float(row["ms"]) for row in rows_of("closure/scipy") if row["who"].startswith("scipy")}
    last = max(n for n, _ in cpu)

    def on_cpu(n: int, dtype: str) -> str:
        return duration(cpu[n, dtype]) if (n, dtype) in cpu else f"≈ {duration(cpu[last, dtype] * (n / last) ** 3)}"

    rows = []
    for n in (64, 256, 512, 1024, 2048, 4096, 16384, 32768, 131072):
        alone = small.get(n)
        theirs = float(alone["SciPy, µs"]) / 1000 if alone else scipy.get(n)
        float64 = duration(float(alone["ours, µs"]) / 1000) if alone else on_cpu(n, "float64")
        rows.append(
            [
                f"{n:,}",
                f"{4 * n**2 / 2**20:,.2g} MiB" if n < 16384 else f"{4 * n**2 // 2**30} GiB",
                duration(theirs) if theirs else "—",
                float64,
                on_cpu(n, "float32") if n > 512 else "—",
                duration(gpu[n]) if n in gpu else "—",
            ]
        )
    columns = ["vertices", "matrix, float32", "SciPy, float64", "CPU, float64", "CPU, float32", "one H200, float32"]
    return Table("The time of a closure", columns, rows)


def duration(ms: float) -> str:
    """Return a time in the unit that suits it, with two digits or more: ``0.29 s``, ``6.2 h``."""
    for unit, size in (("h", 3.6e6), ("s", 1e3), ("ms", 1.0), ("µs", 1e-3)):
        if ms >= (0.5 if unit == "h" else 0.1) * size or unit == "µs":
            value = ms / size
            return f"{value:.0f} {unit}" if value >= 100 else f"{value:.2g} {unit}"
    raise AssertionError


def of_papers(name: str) -> Table:
    """Return a table that is computed from the measurements of ``docs/data/papers.csv``."""
    return paper_tables.tables_of(paper_tables.measured_in(read(DATA / "papers.csv")))[name]


#: Tables that are computed from those of ``docs/data``.
SUMMARIES: dict[str, Callable[[], Table]] = {
    "summary/how-long": how_long,
    **{f"papers/{name}": partial(of_papers, name) for name in paper_tables.TABLES},
}


def with_tables(text: str) -> str:
    """Return the text of a page with the tables that ``<!-- table: FILE/TABLE -->`` requests.

    Below each table stands where it was measured.
    """

    def show_table(match: re.Match[str]) -> str:
        table = table_of(match[2])
        columns = zip(*table.cells, strict=True)
        rules = ["---:" if all(_NUMBER.fullmatch(cell) for cell in column) else "---" for column in columns]
        rows = "".join(f"| {' | '.join(row)} |\n" for row in (table.columns, rules, *table.cells))
        where = table.origin
        measured = f"*{where.date}, {where.machine}; {where.commit}*\n\n" if where else ""
        return f"{match[1]}\n{rows}\n{measured}{match[3]}"

    return _TABLE.sub(show_table, text)


def main() -> None:
    """Write the tables and the pictures of all pages again."""
    for page in PAGES:
        page.write_text(with_tables(page.read_text(encoding="utf-8")), encoding="utf-8")
    os.environ |= ENVIRONMENT
    with tempfile.TemporaryDirectory() as folder:
        for made in draw(Path(folder)):
            target = PICTURES / made.name
            if made.suffix == ".svg":
                target.write_text(compact(made.read_text(encoding="utf-8")), encoding="utf-8")
            else:
                target.write_bytes(made.read_bytes())
            print(f"{target.relative_to(ROOT)}: {target.stat().st_size / 1024:.0f} KiB")


if __name__ == "__main__":
    main()
