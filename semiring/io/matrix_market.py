"""Read and write Matrix Market files (.mtx) by SciPy: ``coordinate`` files list edges, ``array`` files all entries.

Source: Boisvert, Pozo, Remington, "The Matrix Market Exchange Formats", NISTIR 5935, 1996. Symmetric files are
undirected networks; ``pattern`` files have edges of weight 1. Vertices are named by their numbers, from 1 on.
"""

from __future__ import annotations

import io
import math
import re
from collections.abc import Callable
from inspect import signature
from typing import Any, BinaryIO

import numpy as np

from semiring.errors import FormatError, SemiringError
from semiring.io.network import Edges, Entries, count_vertices
from semiring.io.text import EMPTY, count_listed, edge_chunks, numbers_as_text

__all__ = ["read_matrix_market", "write_matrix_market"]


def read_matrix_market(content: bytes, source: str) -> Edges | Entries:
    """Return the edges or the entries of a Matrix Market file."""
    from scipy.io import mminfo, mmread

    if not content:
        raise FormatError(f"{source}: {EMPTY}")
    try:
        rows, columns, count, kind, field, symmetry = mminfo(io.BytesIO(content))
        if field == "complex":
            raise FormatError(f"{source}: holds complex numbers, not real ones")
        n = count_vertices((rows, columns), source)
        if n == 0:  # SciPy divides by the number of columns, which crashes version 1.17
            return Entries(np.zeros((0, 0)), _entry_locator(source, 1))
        if count > len(content):  # a promise that the file cannot keep; SciPy would first allocate it
            raise FormatError(f"{source}: {count} entries promised by a file of {len(content)} bytes")
        _check_lines(content, kind, field, source)
        # From SciPy 1.18 on mmread warns without spmatrix=; before 1.13 it does not have this parameter.
        arrays: dict[str, Any] = {"spmatrix": False} if "spmatrix" in signature(mmread).parameters else {}
        matrix = mmread(io.BytesIO(content), **arrays)
    except SemiringError:
        raise
    except (ValueError, OverflowError, TypeError) as error:
        raise FormatError(_format_scipy_error(str(error), source)) from None
    _check_range(matrix if kind == "array" else matrix.data, content, source)
    if kind == "array":
        return Entries(
            np.asarray(matrix), _entry_locator(source, n), has_dtype=field == "integer", names=range(1, n + 1)
        )
    sparse: Any = matrix
    entries = sparse.tocoo()
    values = None if field == "pattern" else np.asarray(entries.data)
    row, column = np.asarray(entries.row, np.int64), np.asarray(entries.col, np.int64)
    directed = symmetry != "symmetric"
    if not directed:  # the file lists each edge once, and SciPy returns both directions
        once = row >= column
        row, column, values = row[once], column[once], None if values is None else values[once]

    def locate(index: int) -> str:
        index %= len(row)
        return f"{source}: entry ({row[index] + 1}, {column[index] + 1})"

    return Edges(n, row, column, values, locate, has_dtype=field == "integer", names=range(1, n + 1), directed=directed)


# SciPy reads a number as far as it goes, and skips the remainder of its line: 3,5 would be 3, and 3.7 the integer 3.
_NUMBERS = {
    "real": rb"[-+]?(?:\d++\.?\d*+|\.\d++)(?:[eE][-+]?\d++)?|[-+]?(?i:inf(?:inity)?|nan)",
    "integer": rb"[-+]?\d++",
    "unsigned-integer": rb"\d++",
    "pattern": rb"",
}


def _check_lines(content: bytes, kind: str, field: str, source: str) -> None:
    """Raise `FormatError` for the first line of entries that does not have the form in the header of the file."""
    start, number = content.index(b"\n") + 1, 2
    while start < len(content):  # comments and empty lines, up to the line of sizes
        end = content.find(b"\n", start) + 1 or len(content)
        line = content[start:end].strip()
        start, number = end, number + 1
        if line and not line.startswith(b"%"):
            break
    value = _NUMBERS.get(field, _NUMBERS["real"])
    ends = rb"\d++[ \t]++\d++" + (rb"[ \t]++" if value else rb"") if kind == "coordinate" else rb""
    lines = re.compile(rb"(?:[ \t]*+(?:" + ends + rb"(?:" + value + rb")[ \t]*+)?\r?\n)*+")
    body = content[start:] + b"\n"
    end = lines.match(body).end()  # type: ignore[union-attr]  # the expression also matches an empty text
    if end < len(body):
        number += body.count(b"\n", 0, end)
        line = body[end : body.index(b"\n", end)]
        expected = {"coordinate": "a row, a column", "array": "a number"}[kind]
        if kind == "coordinate" and value:
            expected += ", and a number"
        excerpt = line[:40].decode(errors="replace")
        raise FormatError(f"{source}:{number}: {excerpt!r}, and {expected} are expected ({field})")


def _check_range(values: np.ndarray[Any, Any], content: bytes, source: str) -> None:
    """Raise `FormatError` for a number beyond the range of float64, which SciPy reads as ∞."""
    if values.dtype.kind == "f" and np.isinf(values).any():
        for match in re.finditer(rb"[\d.]++[eE]\+?\d{3,}+|\d{300,}+", content):
            if math.isinf(float(match[0])):
                number, excerpt = content.count(b"\n", 0, match.start()) + 1, match[0][:40].decode()
                raise FormatError(f"{source}:{number}: {excerpt} is beyond the range of float64")


def _entry_locator(source: str, n: int) -> Callable[[int], str]:
    return lambda index: f"{source}: entry ({index // n + 1}, {index % n + 1})"


def _format_scipy_error(message: str, source: str) -> str:
    """Convert an error message of SciPy, "Line 4: ...", to the form of all formats, "file:4: ..."."""
    match = re.match(r"Line (\d+): (.*)", message, re.DOTALL)
    place, reason = (f"{source}:{match[1]}", match[2]) if match else (source, message)
    return f"{place}: {reason[:1].lower() + reason[1:]}".rstrip(".")


def write_matrix_market(stream: BinaryIO, matrix: np.ndarray[Any, Any], zero: Any) -> None:
    """Write every entry that differs from ``zero`` to a coordinate file: real, integer, or pattern for truth values."""
    kind = {"b": "pattern", "i": "integer", "u": "integer"}.get(matrix.dtype.kind, "real")
    count, n = count_listed(matrix, zero), len(matrix)
    stream.write(f"%%MatrixMarket matrix coordinate {kind} general\n{n} {n} {count}\n".encode())
    for rows, columns, values in edge_chunks(matrix, zero):
        if kind == "pattern":
            text = "".join(f"{i + 1} {j + 1}\n" for i, j in zip(rows, columns, strict=True))
        else:
            chunk = zip(rows, columns, numbers_as_text(values), strict=True)
            text = "".join(f"{i + 1} {j + 1} {weight}\n" for i, j, weight in chunk)
        stream.write(text.encode())
