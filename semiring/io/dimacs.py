"""Read and write DIMACS shortest-path files (.gr), with a ``p`` line of the sizes, then a line for each arc.

The line ``p sp <vertices> <arcs>`` comes first, and each arc is ``a <tail> <head> <weight>``. Vertices are named by
their numbers, from 1 on. Source: the 9th DIMACS Implementation Challenge, 2006. The weights of the challenge are
integers. Floats are read and written as well.
"""

from __future__ import annotations

from array import array
from typing import IO, Any, BinaryIO

import numpy as np

from semiring.advice import quote
from semiring.errors import FormatError
from semiring.io.files import decode_lines
from semiring.io.network import Edges, check_size
from semiring.io.text import (
    as_array,
    count_listed,
    edge_chunks,
    is_count,
    line_locator,
    numbers_as_text,
    parse_number,
)

__all__ = ["read_dimacs", "write_dimacs"]


def read_dimacs(stream: IO[bytes], source: str, encoding: str | None = None) -> Edges:
    """Read the arcs of a .gr file, and raise `FormatError` if their number differs from its ``p`` line."""
    size, promised = -1, 0
    rows, columns, numbers = array("q"), array("q"), array("q")
    values: list[int | float] = []
    for number, line in decode_lines(stream, source, encoding):
        fields = line.split()
        if not fields or fields[0] == "c":
            continue
        place = f"{source}:{number}"
        if fields[0] == "p":
            if size >= 0:
                raise FormatError(f"{place}: a second 'p' line")
            size, promised = _parse_problem_line(fields, place)
        elif fields[0] == "a":
            if size < 0:
                raise FormatError(f"{place}: an arc before the line 'p sp <vertices> <arcs>'")
            tail, head, weight = _parse_arc(fields, size, place)
            rows.append(tail)
            columns.append(head)
            values.append(weight)
            numbers.append(number)
        else:
            raise FormatError(f"{place}: a line begins with c, p or a, not {quote(fields[0], 20)}")
    if size < 0:
        raise FormatError(f"{source}: no line 'p sp <vertices> <arcs>'")
    if len(rows) != promised:
        raise FormatError(f"{source}: {len(rows)} arcs, and the 'p' line promises {promised}")
    check_size(size, promised, source)
    ends, names = (np.array(rows, np.int64), np.array(columns, np.int64)), range(1, size + 1)
    locate = line_locator(source, numbers)
    return Edges(size, *ends, as_array(values, locate), locate, names=names)


def _parse_problem_line(fields: list[str], place: str) -> tuple[int, int]:
    if len(fields) != 4 or fields[1] != "sp" or not all(map(is_count, fields[2:])):
        raise FormatError(f"{place}: expected 'p sp <vertices> <arcs>'")
    return int(fields[2]), int(fields[3])


def _parse_arc(fields: list[str], size: int, place: str) -> tuple[int, int, int | float]:
    if len(fields) != 4:
        raise FormatError(f"{place}: expected 'a <tail> <head> <weight>'")
    for field in fields[1:3]:
        if not is_count(field) or not 1 <= int(field) <= size:
            raise FormatError(f"{place}: the vertex {quote(field, 20)} is not one of 1 … {size}")
    try:
        return int(fields[1]) - 1, int(fields[2]) - 1, parse_number(fields[3])
    except ValueError as error:
        raise FormatError(f"{place}: the weight {quote(fields[3], 40)} is {error}") from None


def write_dimacs(stream: BinaryIO, matrix: Any, zero: Any) -> None:
    """Write every entry that differs from ``zero`` as an arc."""
    stream.write(f"p sp {matrix.shape[0]} {count_listed(matrix, zero)}\n".encode())
    for rows, columns, values in edge_chunks(matrix, zero):
        chunk = zip(rows, columns, numbers_as_text(values), strict=True)
        stream.write("".join(f"a {i + 1} {j + 1} {weight}\n" for i, j, weight in chunk).encode())
