"""Read and write Matrix Market files (.mtx) by SciPy: ``coordinate`` files list edges, ``array`` files all entries.

Source: Boisvert, Pozo, Remington, "The Matrix Market Exchange Formats", NISTIR 5935, 1996. Symmetric files are
undirected networks; ``pattern`` files have edges of weight 1. Vertices are named by their numbers, from 1 on.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from inspect import signature
from typing import Any, BinaryIO

import numpy as np

from semiring.advice import quote
from semiring.errors import FormatError, SemiringError
from semiring.io.network import Edges, Entries, check_size, count_vertices
from semiring.io.text import count_listed, edge_chunks, numbers_as_text

__all__ = ["read_matrix_market", "write_matrix_market"]


def read_matrix_market(content: bytes, source: str) -> Edges | Entries:
    """Return the edges or the entries of a Matrix Market file."""
    from scipy.io import mminfo, mmread

    content = content.removeprefix(b"\xef\xbb\xbf")
    try:
        rows, columns, count, kind, field, symmetry = mminfo(io.BytesIO(content))
        if field == "complex":
            raise FormatError(f"{source}: holds complex numbers, not real ones")
        n = count_vertices((rows, columns), source)
        if n == 0:  # SciPy divides by the number of columns, which crashes version 1.17
            return Entries(np.zeros((0, 0)), _entry_locator(source, 1))
        if count > len(content):  # a promise that the file cannot keep; SciPy would first allocate it
            raise FormatError(f"{source}: {count} entries promised by a file of {len(content)} bytes")
        if kind == "coordinate":
            check_size(n, count, source)
        head, body = _check_lines(content, kind, field, source)
        if field in ("real", "double"):  # Fortran writes 5D0
            body = re.sub(rb"(?<=[\d.])[dD](?=[-+\d])", b"e", body)
        # From SciPy 1.18 on mmread warns without spmatrix=; before 1.13 it does not have this parameter.
        arrays: dict[str, Any] = {"spmatrix": False} if "spmatrix" in signature(mmread).parameters else {}
        matrix = mmread(io.BytesIO(head + body), **arrays)
    except SemiringError:
        raise
    except (ValueError, OverflowError, TypeError) as error:
        raise FormatError(_format_scipy_error(str(error), source)) from None
    is_integer = field in ("integer", "unsigned-integer")
    if kind == "array":
        locate = _entry_locator(source, n)
        _check_range(np.asarray(matrix).reshape(-1), body, locate)
        return Entries(np.asarray(matrix), locate, has_dtype=is_integer, names=range(1, n + 1))
    entries: Any = matrix.tocoo()
    values = None if field == "pattern" else np.asarray(entries.data)
    row, column = np.asarray(entries.row, np.int64), np.asarray(entries.col, np.int64)
    directed = symmetry != "symmetric"
    if not directed:  # the file lists each edge once, and SciPy returns both directions
        once = row >= column
        row, column, values = row[once], column[once], None if values is None else values[once]

    def locate_edge(index: int) -> str:
        index %= len(row)
        return f"{source}: entry ({row[index] + 1}, {column[index] + 1})"

    if values is not None:
        _check_range(values, body, locate_edge)
    record: dict[str, Any] = {"has_dtype": is_integer, "names": range(1, n + 1), "directed": directed}
    return Edges(n, row, column, values, locate_edge, **record)


# SciPy reads a number as far as it goes, and skips the remainder of its line: 3,5 would be 3, and 3.7 the integer 3.
_NUMBERS = {
    "real": rb"[-+]?(?:\d++\.?\d*+|\.\d++)(?:[eEdD][-+]?\d++)?|[-+]?(?i:inf(?:inity)?|nan)",
    "integer": rb"[-+]?\d++",
    "unsigned-integer": rb"\d++",
    "pattern": rb"",
}


def _check_lines(content: bytes, kind: str, field: str, source: str) -> tuple[bytes, bytes]:
    """Return the lines before the entries, and the lines of the entries.

    Raises `FormatError` for the first line of entries that does not have the form in the header of the file.
    """
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
        expected = "a number" if kind == "array" else "a row, a column" + (", and a number" if value else "")
        excerpt = line[:40].decode(errors="replace")
        raise FormatError(f"{source}:{number}: {quote(excerpt)}, and {expected} are expected ({field})")
    return content[:start], content[start:]


def _check_range(values: np.ndarray[Any, Any], body: bytes, locate: Callable[[int], str]) -> None:
    """Raise `FormatError` for a number beyond the range of float64, which SciPy reads as ∞."""
    infinite = np.flatnonzero(np.isinf(values))
    if len(infinite) and len(infinite) != body.lower().count(b"inf"):
        raise FormatError(f"{locate(int(infinite[0]))}: the weight, or another one, is beyond the range of float64")


def _entry_locator(source: str, n: int) -> Callable[[int], str]:
    return lambda index: f"{source}: entry ({index // n + 1}, {index % n + 1})"


def _format_scipy_error(message: str, source: str) -> str:
    """Convert an error message of SciPy, "Line 4: ...", to the form of all formats, "file:4: ..."."""
    match = re.match(r"Line (\d+): (.*)", message, re.DOTALL)
    place, reason = (f"{source}:{match[1]}", match[2]) if match else (source, message)
    return f"{place}: {reason[:1].lower() + reason[1:]}".rstrip(".")


def write_matrix_market(stream: BinaryIO, matrix: Any, zero: Any) -> None:
    """Write every entry that differs from ``zero`` to a coordinate file: real, integer, or pattern for truth values."""
    kind = {"b": "pattern", "i": "integer", "u": "integer"}.get(matrix.dtype.kind, "real")
    count, n = count_listed(matrix, zero), matrix.shape[0]
    stream.write(f"%%MatrixMarket matrix coordinate {kind} general\n{n} {n} {count}\n".encode())
    for rows, columns, values in edge_chunks(matrix, zero):
        if kind == "pattern":
            text = "".join(f"{i + 1} {j + 1}\n" for i, j in zip(rows, columns, strict=True))
        else:
            chunk = zip(rows, columns, numbers_as_text(values), strict=True)
            text = "".join(f"{i + 1} {j + 1} {weight}\n" for i, j, weight in chunk)
        stream.write(text.encode())
