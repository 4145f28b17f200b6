"""Read and write edge lists: an edge on each line, ``source, target[, weight]``, as csv, tsv or words between blanks.

* The first line may be a header that names the columns. Then there may be more than three columns in any order, if the
  columns of sources and targets have usual titles or the caller names them. Without usual titles the first two of at
  most three columns are source and target. This needs a third column that alone holds numbers, or has a usual title of
  weights. Else the file is an error.
* The weights are in the column ``weight``, else in the only column of numbers, without ``id``, ``index`` and columns
  without a title. Several columns of numbers are an error. Without a header columns are named by their numbers, from
  ``1`` on.
* The first line is a header if two titles are usual titles of source and target, or the third field is a title. A title
  is a usual title of weights, a word of two letters or more without a digit, or a quoted text above a weight without
  quotes. A third field that is neither a title nor a number is an error, because it may be a mistyped weight
  (``A,B,O.5``). Two names alone in the first line that occur in no other line are an error too. They may be titles
  (``package,needs``) or a separate edge.
* A line with an empty target, ``name,,``, declares a vertex, which may have no edge. Declarations determine the order
  of the vertices.
* Empty lines and lines that begin with ``#`` or ``%`` are skipped. Such a line is an error if it reads like an edge,
  because a vertex may have such a name (``#2,C,5``). Fields may be in double quotes.
* Two fields that blanks may separate too are an error: ``Ulm,Nord Kiel 3`` and ``Ulm Kiel 3,5``.
* An edge without a weight column weighs 1.
* Vertices that are numbers come in numerical order, and other vertices in the order of their first occurrence. If the
  vertices are exactly 0 … n - 1 they are indices, and the network has no names.
"""

from __future__ import annotations

import csv
import re
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice
from typing import Any, BinaryIO, Protocol, TypeAlias

import numpy as np

from semiring.advice import advice, option
from semiring.arrays.labels import SOURCES, TARGETS, WEIGHTS, guess_ends, guess_weight, is_row_number_title, unit_of
from semiring.errors import FormatError, did_you_mean
from semiring.io.network import Edges
from semiring.io.text import (
    as_array,
    decode_lines,
    edge_chunks,
    is_number,
    line_locator,
    listed_entries,
    numbers_as_text,
    parse_number,
)

__all__ = ["read_edge_list", "split_line", "write_edge_list", "write_table"]

Row: TypeAlias = tuple[int, list[str], str]  # the number of a line, its fields, and its text

_RENAME = ". Rename columns with the same title in the file"
_TITLES = ["source", "target", "weight"]  # a line of these titles is no edge, because "weight" is no number
_AS_NPY = "Write a matrix as .npy, by numpy.save: text files are lists of edges"

_LOOK_AHEAD = 64  # the number of lines after a header in which columns of numbers are detected

#: The letters of texts that mean a missing weight, a truth value or ∞: N/A, <null>, Inf.
_NO_TITLES = frozenset(
    (
        *("na", "nan", "nd", "nil", "none", "null", "missing", "unknown"),
        *("true", "false", "yes", "no", "inf", "infty", "infinity", "infinite"),
    )
)


class Sink(Protocol):
    """A stream to which bytes can be written."""

    def write(self, content: bytes, /) -> Any:
        """Write all bytes of the content."""


@dataclass(frozen=True)
class Columns:
    """The indices of the fields of a line, with the unit and the title of the weights.

    ``count`` is the number of fields. ``ambiguity`` is the error message if several columns may hold the weights.
    """

    source: int = 0
    target: int = 1
    weight: int | None = None
    count: int = 2
    unit: str = ""
    ambiguity: str = ""
    title: str = ""


def read_edge_list(
    lines: Iterable[bytes],
    source: str,
    *,
    delimiter: str | None = None,
    header: bool | None = None,
    weight: str | None = None,
    columns: tuple[str, str] | None = None,
) -> Edges:
    """Return the edges in the lines of a file.

    Parameters
    ----------
    lines
        The lines of the file, as bytes.
    source
        The name of the file in messages.
    delimiter
        The delimiter of fields. None detects a tab, comma, semicolon or blanks in the first line.
    header
        Whether the first line names the columns. None detects a header.
    weight, columns
        The column of the weights, and the columns of sources and targets. They are titles, or without a header numbers,
        "1" for the first.
    """
    for title in (weight, *(columns or ())):
        if not isinstance(title, str | None):
            raise TypeError(
                f"the title of a column is a text, or '1', '2', … in a file without a header, not {title!r}"
            )
    comments = list[tuple[int, str]]()
    rows = _split_rows(decode_lines(lines, source), source, delimiter, comments)
    first_row = next(rows, None)
    if first_row is None:
        _refuse_edges_in_comments(comments, None, source)
        empty = np.zeros(0, np.int64)
        return Edges(0, empty, empty, None, line_locator(source, []))
    number, fields, line = first_row
    place, header_option = f"{source}:{number}", header
    if header is None and weight is None and columns is None and len(fields) > 3:
        ahead_of_matrix = list(islice(rows, len(fields) + 1))
        _refuse_matrix(first_row, ahead_of_matrix, source, delimiter)
        rows = chain(ahead_of_matrix, rows)
    header = True if columns is not None and header is None else header
    guessed, first_rows = header is None, list[Row]()
    if header is None and line.rstrip().endswith("}") and re.search(r"[\s,;]\{", line):
        raise FormatError(
            f"{place}: an edge with a dictionary, as networkx.write_edgelist writes it. Write source, target, weight "
            "by "
            "networkx.write_weighted_edgelist, or pass the graph itself"
        )
    if header is None:
        first_rows.extend(islice(rows, 1) if _ends_in_quotes(line) else ())
        header = _is_header(first_row, first_rows, weight, place)
    if weight is not None and not header and header_option is None:
        raise FormatError(
            f"{place}: no header names a column {weight!r}: pass {option('header', True)} if the first line names the "
            f"columns, or {option('header', False)} and the number of the column, {option('weight', '3')}"
        )
    if header or weight is not None or columns is not None:
        first_rows = [*([] if header else [first_row]), *first_rows, *islice(rows, _LOOK_AHEAD)]
        titles = fields if header else [str(column) for column in range(1, len(fields) + 1)]
        which = _columns_by_title(titles, weight, columns, place, [row for _, row, _ in first_rows])
        which = which if header else replace(which, unit="", title="")
    else:
        first_rows = [first_row, *first_rows]
        which = _columns_without_header(fields, source, number)
        if delimiter is None:
            _refuse_blanks(line, fields, place)
    collection = _collect(chain(first_rows, rows), which, source)
    _refuse_edges_in_comments(comments, (first_row, which), source)
    unsure = header and guessed and fields != _TITLES
    if unsure and (clash := next((name for name in fields[:2] if name in collection.names), None)):
        raise FormatError(
            f"{place}: the first line reads like a header, but {clash!r} is also a vertex: {_header_advice()}"
        )
    if not header and guessed and _may_be_titles(fields) and collection.has_separate_first_edge():
        title_list = " and ".join(map(repr, fields))
        raise FormatError(
            f"{place}: {title_list} occur in no other line. The first line may name the columns, or be an edge: "
            f"{_header_advice()}"
        )
    if header_option is None and not header and collection.may_be_matrix():
        raise FormatError(
            f"{place}: three lines of three numbers may be a matrix, or edges. For edges pass "
            f"{option('header', False)}. "
            f"{_AS_NPY}"
        )
    return collection.edges(which, source)


def _refuse_matrix(first_row: Row, next_rows: Sequence[Row], source: str, delimiter: str | None) -> None:
    """Raise `FormatError` if n lines of n numbers are a matrix, with or without a header and names of rows.

    ``next_rows`` holds the lines after the ``first_row``, at most one more than a matrix has.
    """
    number, fields, line = first_row
    count, titled = len(fields), not all(map(is_number, fields))
    if titled and _names_columns(fields):
        return
    named = titled and len(next_rows) == count - 1  # the first column has the names of rows
    rows = [row[named:] for _, row, _ in ([] if titled else [first_row]) + list(next_rows)]
    n = count - named
    if len(rows) != n or not all(len(row) == n and all(map(is_number, row)) for row in rows):
        return
    mark = _detect_delimiter(line, f"{source}:{number}") if delimiter is None else delimiter
    file = "FILE" if source.startswith("<") else repr(source)
    options = ["" if mark == " " else f", delimiter={mark!r}", ", skiprows=1" if titled else ""]
    options.append(f", usecols=range(1, {count})" if named else "")
    raise FormatError(
        f"{source}:{number}: {n} lines of {n} numbers are a matrix, and a text file is a list of edges, source, "
        f"target[, weight]. Convert it in Python, numpy.save('matrix.npy', numpy.loadtxt({file}"
        f"{''.join(options)})), and give matrix.npy. If the lines are edges, {_columns_advice(3, start='n')}"
    )


def _split_rows(
    lines: Iterator[tuple[int, str]], source: str, delimiter: str | None, comments: list[tuple[int, str]]
) -> Iterator[Row]:
    """Yield the lines that are no comments, and append comments that may be edges to ``comments``."""
    for number, line in lines:
        text = line.strip()
        if not text or text[0] in "#%":
            if text[1:2].strip("#% \t"):
                comments.append((number, text))
            continue
        if delimiter is None:
            delimiter = _detect_delimiter(line, f"{source}:{number}")
        yield number, split_line(line, delimiter, f"{source}:{number}"), line


def _refuse_edges_in_comments(
    comments: Iterable[tuple[int, str]], sample: tuple[Row, Columns] | None, source: str
) -> None:
    """Raise `FormatError` for a comment that may be an edge; ``sample``: the first line and its columns, or None.

    Such a comment has as many fields as an edge. The field of its weight is a number, and the fields are no titles.
    """
    for number, text in comments:
        mark = _detect_delimiter(text if sample is None else sample[0][2], f"{source}:{number}")
        fields = split_line(text, mark, f"{source}:{number}")
        if _names_columns([fields[0][1:], *fields[1:]]):
            continue
        if sample is None:
            edge = len(fields) == 2 or (len(fields) > 2 and (mark != " " or _is_quantity(fields[2])))
        else:
            which = sample[1]
            edge = len(fields) == which.count and bool(fields[which.target])
            edge = edge and (which.weight is None or _is_quantity(fields[which.weight]))
        if edge:
            raise FormatError(
                f"{source}:{number}: {text[:40]!r} may be a comment, or an edge from a vertex {fields[0]!r}: put the "
                f"name into double quotes, or a blank after the {text[0]}"
            )


def _detect_delimiter(line: str, place: str) -> str:
    """Return the delimiter of a line: a tab, else the more frequent of comma and semicolon, else a blank.

    So ``a;b;3,5``, a line with decimal commas, has three fields. Raises `FormatError` if commas and semicolons are
    equally frequent.
    """
    bare = re.sub(r'"[^"]*"', "", line)
    if "\t" in bare:
        return "\t"
    commas, semicolons = bare.count(","), bare.count(";")
    if commas == semicolons > 0:
        raise FormatError(
            f"{place}: the line has as many commas as semicolons, so the delimiter is not known: put names with commas "
            "or semicolons into double quotes, and write decimals with a point"
        )
    return "," if commas > semicolons else ";" if semicolons else " "


def _refuse_blanks(line: str, fields: Sequence[str], place: str) -> None:
    """Raise `FormatError` if an edge without a weight may be an edge with a weight whose fields are between blanks.

    ``Ulm,Nord Kiel 3`` and ``Ulm Kiel 3,5`` are such edges. ``Pier 1,Pier 2`` and a line with quotes are not.
    """
    if len(fields) != 2 or '"' in line:
        return
    tab, parts = "\t" in line, [field.split() for field in fields]
    words = (" " if tab else ",").join(fields).split()
    numbered = all(len(part) == 2 and is_number(part[1]) for part in parts)
    weighted_edges = 2 + tab <= len(words) <= 3 and is_number(words[-1]) and not numbered
    if weighted_edges or re.search(r" [-+]?\d+,\d+$", ",".join(fields)):
        raise FormatError(
            f"{place}: {line.strip()[:40]!r} is an edge from {fields[0]!r} to {fields[1]!r}, or an edge whose weight "
            "follows a blank. Put names into double quotes, write decimals with a point, or name the columns in a "
            "first "
            "line, source,target"
        )


def split_line(line: str, delimiter: str, place: str) -> list[str]:
    """Return the fields of one line, without the blanks around them; " " splits at any run of blanks."""
    if '"' not in line:
        return line.split() if delimiter == " " else [field.strip() for field in line.split(delimiter)]
    if delimiter != " ":  # remove the blanks around fields, and no blanks in quotes
        around = rf'("(?:[^"]|"")*")|(?<! ) *{delimiter} *'
        line = re.sub(around, lambda match: match[1] or delimiter, line.strip(" \r\n"))
    try:
        fields = next(csv.reader([line], delimiter=delimiter, strict=True, skipinitialspace=True))
    except csv.Error:
        raise FormatError(
            f"{place}: a double quote is not closed in its line (write a quote inside quotes twice; names "
            "have no line ends)"
        ) from None
    return [field for field in fields if field] if delimiter == " " else fields


def _names_columns(fields: Sequence[str]) -> bool:
    return all(guess_ends(fields))


def _is_header(first_row: Row, next_rows: Sequence[Row], weight: str | None, place: str) -> bool:
    """Return whether the first line names the columns.

    Raises `FormatError` if the line may be an edge, which would be lost. If the first line ends in a quoted field,
    ``next_rows`` holds the next line, if there is one.
    """
    _, fields, line = first_row
    quoted = _ends_in_quotes(line) and not any(_ends_in_quotes(line) for _, _, line in next_rows)
    if weight is not None and weight.casefold() in map(str.casefold, fields[2:]):
        return True
    if _names_columns(fields):
        if len(fields) == 3 and is_number(fields[2]) and not quoted:  # u,v,3
            raise FormatError(
                f"{place}: the first line reads like a header, but {fields[2]!r} may be the weight of an edge: "
                f"{_header_advice()}"
            )
        return True
    if len(fields) < 3 or any(map(_begins_as_number, fields)) or is_number(fields[2]):
        return False
    if _is_title(fields[2]) or (quoted and next_rows):
        return True
    raise FormatError(
        f"{place}: the weight {fields[2][:40]!r} is not a number, in column 3. If the line names the columns, "
        f"pass {option('header', True)}"
    )


def _may_be_titles(fields: Sequence[str]) -> bool:
    """Return whether the first line may be titles of two columns: two different words that begin like no number."""
    return len(fields) == 2 and fields[0] != fields[1] and not any(map(_begins_as_number, fields))


def _begins_as_number(field: str) -> bool:
    return field[:1] in "0123456789+-."  # true for "" too, because a title is not empty


def _is_title(text: str) -> bool:
    """Return whether a field reads like the title of a column: a usual title of weights, or a word that is no weight.

    A field that is not a number need not be a title, because a weight may be mistyped.
    """
    if _is_measure(text):
        return True
    letters = "".join(_split_words(text))
    return (
        len(letters) >= 2
        and not any(letter.isdecimal() for letter in text)
        and not set(letters) <= set("OolI")  # these letters may be mistyped digits
        and letters.casefold() not in _NO_TITLES
    )


def _is_measure(text: str) -> bool:
    """Return whether a word of a title is usual for weights."""
    return any(word.casefold() in WEIGHTS for word in _split_words(text))


def _split_words(text: str) -> list[str]:
    return re.findall(r"[^\W\d_]+", text)


def _ends_in_quotes(line: str) -> bool:
    return line.rstrip().endswith('"')


def _columns_by_title(
    fields: Sequence[str],
    weight: str | None,
    ends: tuple[str, str] | None,
    place: str,
    rows: Sequence[Sequence[str]],
) -> Columns:
    """Return the columns that a header names; ``rows`` are some rows after it, which show the columns of numbers."""
    lowered = [field.casefold() for field in fields]
    if len(fields) < 2:
        raise FormatError(f"{place}: the header names one column: an edge list needs two, source and target")

    def find_column(title: str) -> int:
        count, column_text = lowered.count(title.casefold()), f"there are {', '.join(fields)}"
        if count > 1:
            raise FormatError(f"{place}: several columns are named {title!r}: {column_text}{_RENAME}")
        if count < 1:
            near = did_you_mean(title, fields)
            hint = f". Without a header, {option('header', False)}, '1' is the first" if title.isdecimal() else ""
            raise FormatError(f"{place}: no column is named {title!r}: {column_text}{hint}{near and '.'}{near}")
        return lowered.index(title.casefold())

    def column_fields(column: int) -> list[str]:
        return [row[column] for row in rows if len(row) > column and row[column]]

    chosen = None if weight is None else find_column(weight)
    tail, head = _find_end_columns(fields, chosen, column_fields, place) if ends is None else map(find_column, ends)
    if tail == head:
        raise FormatError(f"{place}: {option('columns')} names the column {fields[tail]!r} twice: name two columns")
    if chosen is not None:
        if chosen in (tail, head):
            raise FormatError(
                f"{place}: the column {fields[chosen]!r} holds vertices: name another by {option('weight')}"
            )
        return Columns(tail, head, chosen, len(fields), unit_of(fields[chosen]), title=fields[chosen])
    rest = [
        column for column, title in enumerate(fields) if column not in (tail, head) and not is_row_number_title(title)
    ]
    numbers = [column for column in rest if any(map(_is_quantity, column_fields(column)))]
    usual = [column for column in rest if lowered[column] in WEIGHTS]
    missing = [column for column in usual if not column_fields(column)]
    title, candidates = guess_weight(fields[column] for column in [*numbers, *missing] or usual)
    if candidates:
        titles = ", ".join(map(repr, candidates))
        hint = _RENAME if len(set(candidates)) < len(candidates) else ""
        ambiguity = f"{place}: the weights may be any of the columns {titles}: name one by {option('weight')}{hint}"
        return Columns(tail, head, None, len(fields), ambiguity=ambiguity)
    if title is None and len(rest) > 1:
        titles = ", ".join(repr(fields[column]) for column in rest)
        ambiguity = f"{place}: none of the columns {titles} holds numbers: name one by {option('weight')}"
        return Columns(tail, head, None, len(fields), ambiguity=ambiguity)
    where = next((column for column in rest if fields[column] == title), next(iter(rest), -1))
    if where < 0:
        return Columns(tail, head, None, len(fields))
    return Columns(tail, head, where, len(fields), unit_of(fields[where]), title=fields[where])


def _find_end_columns(
    fields: Sequence[str], weight: int | None, column_fields: Callable[[int], list[str]], place: str
) -> tuple[int, int]:
    """Return the columns of sources and targets by their titles, else the first columns in their order.

    ``column_fields(column)`` returns fields of a column. Raises `FormatError` unless at most one other column remains,
    the last. It must be the column of the weights: the only column of numbers, or titled like weights.
    """
    lowered = ["" if column == weight else field.casefold() for column, field in enumerate(fields)]
    tails, heads = guess_ends(lowered)
    for columns, what in ((tails, "source"), (heads, "target")):
        if len(columns) > 1:
            titles = " and ".join(repr(fields[lowered.index(title)]) for title in columns)
            raise FormatError(f"{place}: the columns {titles} are both titled like a {what}: pass {_columns_option()}")
    tail, head = (lowered.index(columns[0]) if columns else None for columns in (tails, heads))
    free = [column for column in range(len(fields)) if column not in (weight, tail, head)]
    guessed, rest = free[: (missing := [tail, head].count(None))], free[missing:]

    def numbers(column: int) -> bool:
        return bool(column_fields(column)) and all(map(_is_quantity, column_fields(column)))

    if missing:
        certain = len(guessed) == missing and not any(_is_measure(fields[column]) for column in guessed)
        if rest:
            certain = certain and len(rest) == 1 and weight is None and (numbers(rest[0]) or not column_fields(rest[0]))
            certain = certain and (_is_measure(fields[rest[0]]) or not any(map(numbers, guessed)))
        if not certain:
            titles = ", ".join(map(repr, fields[:8])) + (" …" if len(fields) > 8 else "")
            raise FormatError(
                f"{place}: the columns {titles} are titled like no source ({', '.join(SOURCES)}) "
                f"and target ({', '.join(TARGETS)}). Pass {_columns_option()}, and the title of the weights, "
                f"{option('weight')}. {_AS_NPY}"
            )
    first, second = (guessed.pop(0) if end is None else end for end in (tail, head))
    return first, second


def _is_quantity(text: str) -> bool:
    """Return whether a field is a number, also with a decimal comma, separated thousands, a currency or a unit."""
    return is_number(text) or re.fullmatch(r"[-+]?[€$£]? ?\d[\d.,]*( ?([€$£%]|[^\W\d_]{1,3}))?", text) is not None


def _columns_without_header(fields: Sequence[str], source: str, number: int) -> Columns:
    if len(fields) not in (2, 3):
        hint = "Separate fields by commas, semicolons, tabs or blanks"
        if len(fields) > 3:
            hint = f"{_columns_advice(3)}. {_AS_NPY}"
        raise FormatError(
            f"{source}:{number}: {_field_count_text(fields)} where an edge is source, target[, weight]. {hint}"
        )
    if not fields[0]:
        raise FormatError(f"{source}:{number}: the source is empty, as in the corner of a matrix. {_AS_NPY}")
    numbers = [column for column, field in enumerate(fields, 1) if is_number(field)]
    if len(fields) == 3 and len(numbers) == 1 and not _is_quantity(fields[2]):
        raise FormatError(
            f"{source}:{number}: the weight {fields[2][:40]!r} is not a number, in column 3. If "
            f"{fields[numbers[0] - 1]!r} is the weight, {_columns_advice(numbers[0], start='n')}"
        )
    return Columns(0, 1, 2 if len(fields) == 3 else None, len(fields))


def _header_advice() -> str:
    """Return the advice to declare whether the first line of a file is a header."""
    return f"pass {option('header', True)} or {option('header', False)}"


def _columns_option() -> str:
    """Return the option that names the columns of the vertices by their titles."""
    return f"{advice('columns=(SOURCE, TARGET)', '--columns SOURCE TARGET')}, two titles"


def _columns_advice(weight: int, start: str = "N") -> str:
    """Return the advice for a file without a header whose weights are in a column other than the third."""
    tail, head = (str(column) for column in (1, 2, 3) if column != weight)
    options = ", ".join([option("header", False), option("columns", (tail, head)), option("weight", str(weight))])
    return f"{start}ame the columns in a header, or pass {options}"


def _field_count_text(fields: Sequence[str]) -> str:
    """Return the number of fields as a text, such as "3 fields"."""
    return f"{len(fields)} field{'s' * (len(fields) != 1)}"


def _is_index(name: str) -> bool:
    return len(name) < 20 and name.isascii() and name.isdigit() and (name == "0" or name[0] != "0")


class _EdgeCollector:
    """The edges of the lines that were read so far. Vertices are numbered in the order of their first occurrence."""

    def __init__(self) -> None:
        self.names: dict[str, int] = {}
        self.rows, self.columns, self.lines = array("q"), array("q"), array("q")
        self.values: list[int | float] = []
        self.declared_vertices = array("q")

    def number_vertex(self, name: str) -> int:
        return self.names.setdefault(name, len(self.names))

    def has_separate_first_edge(self) -> bool:
        """Return whether there are several edges, and no other line has a vertex of the first edge."""
        others = (self.rows[1:], self.columns[1:], self.declared_vertices)
        return len(self.rows) > 1 and all(not len(ends) or min(ends) > 1 for ends in others)

    def may_be_matrix(self) -> bool:
        """Return whether three weighted edges may be a 3 × 3 matrix of numbers, with 0 on the diagonal."""
        if not len(self.values) == len(self.rows) == 3 or self.declared_vertices or not all(map(is_number, self.names)):
            return False
        ends = np.array([parse_number(name) for name in self.names])[np.array([self.rows, self.columns])]
        return not np.array([*ends, self.values]).diagonal().any()

    def edges(self, columns: Columns, source: str) -> Edges:
        n, names = len(self.names), tuple(self.names)
        rows, targets = np.array(self.rows, np.int64), np.array(self.columns, np.int64)
        if all(map(_is_index, names)):
            order = sorted(range(n), key=lambda vertex: int(names[vertex]))
            place = np.empty(n, np.int64)
            place[order] = np.arange(n)
            rows, targets = place[rows], place[targets]
            names = tuple(names[vertex] for vertex in order)
        values: np.ndarray[Any, Any] | None = None
        locate = line_locator(source, self.lines)
        if columns.weight is not None:
            values = as_array(self.values, locate)
        indices = all(name == str(vertex) for vertex, name in enumerate(names))
        named = None if indices else names
        return Edges(n, rows, targets, values, locate, names=named, unit=columns.unit, ambiguity=columns.ambiguity)


def _collect(rows: Iterable[Row], columns: Columns, source: str) -> _EdgeCollector:
    collection = _EdgeCollector()
    tail, head, weight, count = columns.source, columns.target, columns.weight, columns.count
    for number, fields, _ in rows:
        if len(fields) != count:
            mend = "complete the line, or remove it"
            if len(fields) > count:
                mend = "put names with the delimiter into double quotes"
            raise FormatError(
                f"{source}:{number}: {_field_count_text(fields)} where the first line has {count}: {mend}"
            )
        start, end = fields[tail], fields[head]
        if not start:
            raise FormatError(f"{source}:{number}: the source is empty")
        if not end:
            if weight is not None and fields[weight]:
                raise FormatError(
                    f"{source}:{number}: the target is empty (a vertex without edges has no weight either)"
                )
            collection.declared_vertices.append(collection.number_vertex(start))
            continue
        if weight is not None:
            try:
                collection.values.append(parse_number(fields[weight]))
            except ValueError as error:
                column = f"in column {weight + 1}{f' ({columns.title})' if columns.title else ''}"
                reason = f"the weight {fields[weight][:40]!r} is {error}" if fields[weight] else "the weight is missing"
                reason = f"{reason}, {column}"
                if re.fullmatch(r"[-+]?\d+,\d+", fields[weight]):
                    reason += ": write decimals with a point, and thousands without a separator"
                raise FormatError(f"{source}:{number}: {reason}") from None
        collection.rows.append(collection.number_vertex(start))
        collection.columns.append(collection.number_vertex(end))
        collection.lines.append(number)
    return collection


def write_edge_list(
    stream: Sink,
    matrix: np.ndarray[Any, Any],
    zero: Any,
    names: Sequence[str] | None,
    *,
    delimiter: str = ",",
    unit: str = "",
) -> None:
    """Write every entry that differs from ``zero`` as ``source,target,weight`` after a header.

    Vertices without edges come before the edges as ``name,,``. If the edges name the vertices in another order, all
    vertices do.
    """
    labels = _quote_names(names, len(matrix), delimiter)
    stream.write(_format_header(unit or _TITLES[2], "unit", delimiter))
    every, order = np.arange(len(matrix)), _vertices_by_first_edge(matrix, zero)
    ordered = names is None or all(map(_is_index, names)) or np.array_equal(order, every)
    declared = np.setdiff1d(every, order) if ordered else every
    stream.write("".join(f"{labels[i]}{delimiter}{delimiter}\n" for i in declared).encode())
    for rows, columns, values in edge_chunks(matrix, zero):
        chunk = zip(rows, columns, numbers_as_text(values), strict=True)
        stream.write("".join(f"{labels[i]}{delimiter}{labels[j]}{delimiter}{w}\n" for i, j, w in chunk).encode())


def _vertices_by_first_edge(matrix: np.ndarray[Any, Any], zero: Any) -> np.ndarray[Any, Any]:
    """Return the vertices with edges, in the order in which the listed edges first name them."""
    has_edge, vertices = np.zeros(len(matrix), np.bool_), [np.zeros(0, np.int64)]
    for tails, heads, _ in listed_entries(matrix, zero):
        ends = np.stack((tails, heads), axis=1).reshape(-1)
        new, first = np.unique(ends[~has_edge[ends]], return_index=True)
        vertices.append(new[np.argsort(first)])
        has_edge[new] = True
    return np.concatenate(vertices)


def write_table(
    stream: BinaryIO,
    matrix: np.ndarray[Any, Any],
    names: Sequence[str] | None,
    *,
    title: str,
    none: int,
    delimiter: str = ",",
) -> None:
    """Write a matrix of vertices, such as predecessors, as ``source,target,<title>``, without the entries ``none``."""
    labels = _quote_names(names, len(matrix), delimiter)
    stream.write(_format_header(title, "title", delimiter))
    for rows, columns, values in edge_chunks(matrix, none):
        chunk = zip(rows, columns, values.tolist(), strict=True)
        stream.write(
            "".join(f"{labels[i]}{delimiter}{labels[j]}{delimiter}{labels[k]}\n" for i, j, k in chunk).encode()
        )


def _format_header(title: str, kind: str, delimiter: str) -> bytes:
    """Return the first line, with quotes around a title that is a number or holds a comma or semicolon."""
    third = _quote(_check_storable(title, kind), delimiter, always=is_number(title) or ";" in title or "," in title)
    return f"{delimiter.join((*_TITLES[:2], third))}\n".encode()


def _quote_names(names: Sequence[str] | None, n: int, delimiter: str) -> list[str]:
    if names is None:
        return numbers_as_text(np.arange(n))
    return [_quote(_check_storable(name, "name"), delimiter) for name in names]


def _check_storable(text: str, kind: str) -> str:
    """Return the text, and raise `FormatError` if it would not read back as one field of a line."""
    if not text or any(ord(letter) < 32 or letter in "\x7f\x85\u2028\u2029" for letter in text):
        raise FormatError(
            f"the {kind} {text!r} is empty or holds a control character, which an edge list does not support: rename it"
        )
    if any("\ud800" <= letter <= "\udfff" for letter in text):
        raise FormatError(f"the {kind} {text!r} holds half a surrogate pair, which UTF-8 does not encode: rename it")
    return text


def _quote(name: str, delimiter: str, *, always: bool = False) -> str:
    plain = name == name.strip() and not name.startswith(("#", "%")) and delimiter not in name and '"' not in name
    return name if plain and not always else '"' + name.replace('"', '""') + '"'
