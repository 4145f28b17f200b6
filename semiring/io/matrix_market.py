"""Matrix Market (.mtx), by SciPy: ``coordinate`` files list edges, ``array`` files hold every entry.

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

from semiring.errors import FormatError, SemiringError
from semiring.io.network import Edges, Entries, square
from semiring.io.text import count_listed, edge_chunks, numbers_as_text

__all__ = ["read_matrix_market", "write_matrix_market"]


def read_matrix_market(content: bytes, source: str) -> Edges | Entries:
    """The edges or the entries of a Matrix Market file."""
    from scipy.io import mminfo, mmread

    try:
        rows, columns, listed, kind, field, symmetry = mminfo(io.BytesIO(content))
        if field == "complex":
            raise FormatError(f"{source}: holds complex numbers, not real ones")
        n = square((rows, columns), source)
        if n == 0:  # SciPy divides by the number of columns (version 1.17 dies of it)
            return Entries(np.zeros((0, 0)), _entry(source, 1))
        if listed > len(content):  # a promise that the file cannot keep; SciPy would first allocate it
            raise FormatError(f"{source}: {listed} entries promised by a file of {len(content)} bytes")
        # From SciPy 1.18 on mmread warns where nobody says what it returns; before 1.13 it does not know the word.
        arrays: dict[str, Any] = {"spmatrix": False} if "spmatrix" in signature(mmread).parameters else {}
        matrix = mmread(io.BytesIO(content), **arrays)
    except SemiringError:
        raise
    except (ValueError, OverflowError, TypeError) as error:
        raise FormatError(_with_line(str(error), source)) from None
    if kind == "array":
        return Entries(np.asarray(matrix), _entry(source, n), typed=field == "integer", names=range(1, n + 1))
    stored: Any = matrix
    found = stored.tocoo()
    values = None if field == "pattern" else np.asarray(found.data)
    row, column = np.asarray(found.row, np.int64), np.asarray(found.col, np.int64)
    directed = symmetry != "symmetric"
    if not directed:  # the file lists each edge once, SciPy twice
        once = row >= column
        row, column, values = row[once], column[once], None if values is None else values[once]

    def locate(index: int) -> str:
        index %= len(row)
        return f"{source}: entry ({row[index] + 1}, {column[index] + 1})"

    return Edges(n, row, column, values, locate, typed=field == "integer", names=range(1, n + 1), directed=directed)


def _entry(source: str, n: int) -> Callable[[int], str]:
    return lambda index: f"{source}: entry ({index // n + 1}, {index % n + 1})"


def _with_line(message: str, source: str) -> str:
    """SciPy says "Line 4: ..."; every format here says "file:4: ..."."""
    found = re.match(r"Line (\d+): (.*)", message, re.DOTALL)
    place, reason = (f"{source}:{found[1]}", found[2]) if found else (source, message)
    return f"{place}: {reason[:1].lower() + reason[1:]}".rstrip(".")


def write_matrix_market(stream: BinaryIO, matrix: np.ndarray[Any, Any], zero: Any) -> None:
    """Every entry other than zero, as a coordinate file: real, integer, or pattern for a boolean matrix."""
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
