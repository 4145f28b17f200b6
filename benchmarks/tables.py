"""Print tables of measurements as Markdown, and keep them in files that say where and when each was measured.

A file holds any number of tables. One of them is six lines of comment, the columns and the rows as CSV, and an empty
line::

    # table: peers
    # title: Against peers, min_plus float32, n = 1024
    # machine: AMD EPYC 9B14, 2 cores, Python 3.11.15, NumPy 2.4.1, Numba 0.68.0
    # date: 2026-11-20
    # commit: 50ed9ac
    # command: python -m benchmarks.gemm peers
    who,G pairs/s,we are faster by
    "semiring, 1 thread",53.5,1

The documentation is made of such files (``docs/data``, `tools.pages`).
"""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

__all__ = ["Origin", "Table", "read", "save", "three_digits"]


def three_digits(value: float, group: str = ",") -> str:
    """Return a number in three significant digits, such as 4,840 instead of 4.84e+03.

    Only numbers from 10⁹ on have an exponent. ``group`` separates the thousands: "," or nothing.
    """
    text = f"{value:.3g}"
    return f"{float(text):{group}.0f}" if "e+" in text and abs(value) < 1e9 else text


@dataclass(frozen=True)
class Origin:
    """The place and date of the measurement of a table, without which absolute times mean nothing."""

    machine: str
    date: str
    commit: str
    command: str


@dataclass(frozen=True)
class Table:
    """A table: columns and rows. `cells` are the texts that are shown, floats with three digits."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]
    origin: Origin | None = None

    @property
    def cells(self) -> list[list[str]]:
        """The texts of the rows, as they are shown."""
        return [[three_digits(cell, "") if isinstance(cell, float) else str(cell) for cell in row] for row in self.rows]

    def __str__(self) -> str:
        lines = [list(self.columns), *self.cells]
        widths = [max(len(line[i]) for line in lines) for i in range(len(self.columns))]
        head, *rows = (" | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in lines)
        rule = "|".join("-" * (width + 2) for width in widths)
        return "\n".join([f"\n{self.title}\n", f"| {head} |", f"|{rule}|", *(f"| {row} |" for row in rows)])


def read(path: Path) -> dict[str, Table]:
    """Return the tables of a file, by name."""
    found = {}
    for section in path.read_text(encoding="utf-8").split("# table: ")[1:]:
        name, *lines = section.strip().splitlines()
        comments, content = lines[:5], lines[5:]
        said = dict(line.removeprefix("# ").split(": ", 1) for line in comments)
        columns, *rows = csv.reader(content)
        found[name] = Table(said["title"], columns, rows, Origin(*(said[each.name] for each in fields(Origin))))
    return found


def save(path: Path, tables: dict[str, Table]) -> None:
    """Write tables, each with its origin. Tables of other names in the file stay."""
    text = io.StringIO()
    for name, table in ((read(path) if path.exists() else {}) | tables).items():
        assert table.origin is not None
        text.write(f"# table: {name}\n# title: {table.title}\n")
        text.writelines(f"# {each.name}: {getattr(table.origin, each.name)}\n" for each in fields(Origin))
        csv.writer(text, lineterminator="\n").writerows([table.columns, *table.cells])
        text.write("\n")
    path.write_text(text.getvalue().removesuffix("\n"), encoding="utf-8")
