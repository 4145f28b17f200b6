"""Run a benchmark by its command line, and check the cells of the tables that it saves. No test checks a time."""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

from benchmarks.tables import Table, read

FOLDER = Path(__file__).resolve().parents[2] / "benchmarks"

_NUMBER = re.compile(r"(?:≈ |~)?(-?[\d,]*\.?\d+(?:e[+-]?\d+)?)(?: ?(?:%|×|s|ms|µs|× faster))?")
_BROKEN = re.compile(r"\b(?:nan|inf|None)\b")
_MAY_OVERFLOW = "error where maxima never meet"  # the column in which some peers overflow

#: Columns whose numbers may be 0 or less: differences, errors, memory beside the matrix, what a single rank moves, and
#: raw measurements, some of which have no size.
ANY_SIGN = re.compile(
    r"error|differ by|waited|more|not hidden|exponent|beyond it|beside the matrix|MiB received|GiB of panels|bits|kJ"
    r"|share that|^(?:value|vertices)$"
)


@dataclass(frozen=True)
class Ran:
    """The tables that a benchmark saved, and the tables that it left out, each with the reason."""

    tables: dict[str, Table]
    left_out: dict[str, str]


def scripts(folder: Path = FOLDER) -> list[str]:
    """Return the modules of a folder that have a command line."""
    found = (path.relative_to(FOLDER.parent) for path in folder.glob("*.py") if _has_main(path))
    return sorted(".".join(path.with_suffix("").parts) for path in found)


def _has_main(path: Path) -> bool:
    nodes = ast.parse(path.read_text(encoding="utf-8")).body
    return any(isinstance(node, ast.FunctionDef) and node.name == "main" for node in nodes)


def ran(module: str, arguments: str, folder: Path, capsys) -> Ran:
    """Run all tables of a benchmark in this process, or those that the arguments name."""
    file = folder / "tables.csv"
    status = import_module(module).main([*arguments.split(), "--seconds", "0", "--save", str(file), "--commit", "test"])
    told = capsys.readouterr()
    assert status == 0, told
    left_out = dict(re.findall(r"^(\S+) is left out: (.*)$", told.err, re.MULTILINE))
    return Ran(read(file) if file.exists() else {}, left_out)


def check(name: str, table: Table, partly: re.Pattern[str] | None = None) -> None:
    """Assert that a table has rows, and that every cell is filled and every number is finite and positive.

    ``partly``: the columns that are empty, or "—", in some rows.
    """
    assert table.columns, name
    assert table.rows, f"{name} has no rows"
    assert all(len(row) == len(table.columns) for row in table.rows), name
    for place, column in enumerate(table.columns):
        cells = [row[place] for row in table.rows]
        problems = list(_problems(column, cells, may_be_empty=partly is not None and bool(partly.search(column))))
        assert not problems, f"{name}, column {column!r}: {problems} of {cells}"


def _problems(column: str, cells: list[str], may_be_empty: bool) -> Iterator[str]:
    numbers = [_NUMBER.fullmatch(cell) for cell in cells]
    is_numeric = any(numbers)
    for cell, number in zip(cells, numbers, strict=True):
        if cell == "inf" and _MAY_OVERFLOW in column:
            continue
        if _BROKEN.search(cell):
            yield f"{cell!r} is no measurement"
        elif cell in ("", "—"):
            if not may_be_empty:
                yield f"{cell!r} is empty"
        elif is_numeric and number is None:
            yield f"{cell!r} is no number"
        elif number is not None:
            value = float(number[1].replace(",", ""))
            if not math.isfinite(value) or (value <= 0 and not ANY_SIGN.search(column)):
                yield f"{cell!r} is not positive"
