"""Read and write edge lists: an edge on each line, ``source, target[, weight]``, as csv, tsv or words between blanks.

* The first line decides the delimiter: a tab, else the more frequent of comma and semicolon, else blanks. Fields may be
  in double quotes.
* The first line is a header if ``header``, ``columns`` or ``weight`` says so, if it has usual titles of a source and a
  target, or if a later field is a usual title of weights. Else it is an edge.
* With a header the ends are the columns with usual titles, else the first two of at most three columns, if the third
  alone holds numbers or has a usual title of weights. Without a header they are the first two columns. Columns are then
  named by their numbers, from ``1`` on.
* The weights are in the column ``weight``, else in the only column of numbers, without ``id``, ``index`` and columns
  without a title. Several columns of numbers are an error. Without a column of weights an edge weighs 1.
* A column ``Type`` with "Directed" and "Undirected", as Gephi writes it, gives the direction of each edge. The first
  line ``% sym`` or ``% asym`` of KONECT gives that of all edges.
* A line with an empty target, ``name,,``, declares a vertex, which may have no edge. Declarations determine the order
  of the vertices.
* Empty lines and lines that begin with ``#`` or ``%`` are skipped.
* Vertices that are numbers come in numerical order, and other vertices in the order of their first occurrence. If the
  vertices are exactly 0 … n - 1 they are indices, and the network has no names.

Lines that have two readings are errors: titles that are also vertices, a weight after a blank with a decimal comma, two
names in the first line that occur nowhere else, and three lines of three numbers that may be a matrix.
"""

from __future__ import annotations

import csv
import re
from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice
from typing import IO, Any, BinaryIO, Protocol, TypeAlias

import numpy as np

from semiring.advice import advice, option, plain_text, quote
from semiring.arrays.labels import SOURCES, TARGETS, WEIGHTS, guess_ends, guess_weight, is_row_number_title, unit_of
from semiring.errors import FormatError, did_you_mean
from semiring.io.files import decode_lines
from semiring.io.network import Edges, direct_edges
from semiring.io.text import (
    as_array,
    edge_chunks,
    is_number,
    line_locator,
    listed_entries,
    numbers_as_text,
    parse_number,
)

__all__ = ["read_edge_list", "split_line", "write_edge_list", "write_table"]

Row: TypeAlias = tuple[int, list[str]]  # the number of a line, and its fields

_TITLES = ["source", "target", "weight"]  # a line of these titles is no edge, because "weight" is no number
_LOOK_AHEAD = 64  # the number of lines after a header in which columns of numbers are detected
_RENAME = ". Rename columns with the same title in the file"


class Sink(Protocol):
    """A stream to which bytes can be written."""

    def write(self, content: bytes, /) -> Any:
        """Write all bytes of the content."""


@dataclass(frozen=True)
class Columns:
    """The indices of the fields of a line, with the unit and the title of the weights.

    ``count`` is the number of fields, ``type`` the column of Gephi that holds directions. ``ambiguity`` is the error
    message if several columns may hold the weights.
    """

    source: int = 0
    target: int = 1
    weight: int | None = None
    count: int = 2
    type: int | None = None
    unit: str = ""
    ambiguity: str = ""
    title: str = ""


def read_edge_list(
    stream: IO[bytes],
    source: str,
    *,
    header: bool | None = None,
    weight: str | None = None,
    columns: tuple[str, str] | None = None,
    encoding: str | None = None,
    decimal: str = ".",
) -> Edges:
    """Return the edges in a file.

    Parameters
    ----------
    stream
        The bytes of the file.
    source
        The name of the file in messages.
    header
        Whether the first line names the columns. None detects a header.
    weight, columns
        The column of the weights, and the columns of sources and targets. They are titles, or without a header numbers,
        "1" for the first.
    encoding, decimal
        As in `semiring.read`.
    """
    for title in (weight, *(columns or ())):
        if not isinstance(title, str | None):
            raise TypeError(
                f"the title of a column is a text, or '1', '2', … in a file without a header, not {quote(title)}"
            )
    lines = _Lines(decode_lines(stream, source, encoding), source, decimal)
    rows = iter(lines)
    first = next(rows, None)
    if first is None:
        raise FormatError(f"{source}: holds comments alone: an empty network has the line source,target,weight")
    number, fields = first
    place = f"{source}:{number}"
    if header is None and fields[-1].endswith("}") and re.search(r"[\s,;]\{", lines.text):
        raise FormatError(
            f"{place}: an edge with a dictionary, as networkx.write_edgelist writes it. Write source, target, weight "
            "by networkx.write_weighted_edgelist, or pass the graph itself"
        )
    is_titled = _is_header(fields, lines.text, weight, columns, place) if header is None else header
    if weight is not None and header is None and not is_titled:
        raise FormatError(
            f"{place}: no header names a column {quote(weight)}: pass {option('header', True)} if the first line names "
            f"the columns, or {option('header', False)} and the number of the column, {option('weight', '3')}"
        )
    first_rows = [*([] if is_titled else [first]), *islice(rows, _LOOK_AHEAD)]
    if is_titled or weight is not None or columns is not None:
        titles = fields if is_titled else [str(column) for column in range(1, len(fields) + 1)]
        which = _columns_by_title(titles, weight, columns, place, [row for _, row in first_rows])
        which = which if is_titled else replace(which, unit="", title="")
    else:
        which = _columns_without_header(fields, lines, place)
    edges = _collect(chain(first_rows, rows), which, source, decimal, is_guessed=header is None)
    if header is None:
        edges.refuse_other_readings(fields, first_rows, is_titled, columns is not None, place)
    return edges.edges(which, source, undirected=lines.is_undirected)


class _Lines:
    """The rows of a file: the number and the fields of each line that is neither empty nor a comment.

    Attributes
    ----------
    text
        The current line.
    delimiter
        The delimiter, which the first line decides.
    is_konect, is_undirected, has_weights
        Whether a first comment of KONECT says how many fields an edge has, and its direction.
    """

    def __init__(self, lines: Iterator[tuple[int, str]], source: str, decimal: str) -> None:
        self._lines, self._source, self._decimal = lines, source, decimal
        self.text, self.delimiter = "", ""
        self.is_konect = self.is_undirected = False
        self.has_weights = True

    def __iter__(self) -> Iterator[Row]:
        for number, line in self._lines:
            text = line.strip()
            if not text or text[0] in "#%":
                if number == 1:
                    self._read_konect(text)
                continue
            self.text = line
            if not self.delimiter:
                self.delimiter = (
                    " " if self.is_konect else _find_delimiter(line, self._decimal, f"{self._source}:{number}")
                )
            if '"' in line:
                yield number, split_line(line, self.delimiter, f"{self._source}:{number}")
            elif self.delimiter == " ":
                yield number, line.split()
            else:
                yield number, [field.strip() for field in line.split(self.delimiter)]

    def _read_konect(self, comment: str) -> None:
        """Read KONECT's first line, % sym or % asym and the kind of the weights."""
        found = re.fullmatch(r"%\s*(sym|asym|bip)\s+(\w+)", comment)
        if found is None:
            return
        if found[1] == "bip":
            raise FormatError(
                f"{self._source}:1: a bipartite network of KONECT numbers both sides from 1 on: rename the vertices of "
                "one side, and remove this line"
            )
        self.is_konect, self.is_undirected = True, found[1] == "sym"
        self.has_weights = found[2] != "unweighted"


def _find_delimiter(line: str, decimal: str, place: str) -> str:
    """Return the delimiter of a line: a tab, else the more frequent of comma and semicolon, else a blank.

    So ``a;b;3,5``, a line with a decimal comma, has three fields. Raises `FormatError` if commas and semicolons are
    equally frequent, and for ``Ulm Kiel 3,5``.
    """
    bare = re.sub(r'"[^"]*"', "", line)
    if "\t" in bare:
        return "\t"
    commas, semicolons = 0 if decimal == "," else bare.count(","), bare.count(";")
    if commas == semicolons > 0:
        raise FormatError(
            f"{place}: the line has as many commas as semicolons, so the delimiter is not known: put names with commas "
            f"or semicolons into double quotes, or pass {option('decimal', ',')} if commas are decimal"
        )
    if commas == 1 and re.fullmatch(r"\S+\s+\S+\s+[-+]?\d+,\d+", bare.strip()) and not semicolons:
        raise FormatError(
            f"{place}: {quote(line.strip(), 40)} has a decimal comma, or two fields: pass {option('decimal', ',')}, or "
            "put the names into double quotes"
        )
    return "," if commas > semicolons else ";" if semicolons else " "


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


def _is_header(fields: list[str], line: str, weight: str | None, columns: Any, place: str) -> bool:
    """Return whether the first line names the columns. Raises `FormatError` if the line may also be an edge."""
    if columns is not None or (weight is not None and weight.casefold() in map(str.casefold, fields[2:])):
        return True
    if not all(guess_ends(fields)):
        return any(map(_is_measure, fields[2:]))
    # `write_edge_list` puts a unit that is a number into quotes, and nothing else of the line.
    if len(fields) == 3 and is_number(fields[2]) and not (line.count('"') == 2 and line.rstrip().endswith('"')):
        raise FormatError(
            f"{place}: the first line reads like a header, but {quote(fields[2])} may be the weight of an edge: "
            f"{_header_advice()}"
        )
    return True


def _is_measure(title: str) -> bool:
    """Return whether a word of a title is usual for weights."""
    return any(word.casefold() in WEIGHTS for word in re.findall(r"[^\W\d_]+", title))


def _columns_by_title(
    fields: list[str], weight: str | None, ends: tuple[str, str] | None, place: str, rows: Sequence[Sequence[str]]
) -> Columns:
    """Return the columns that a header names; ``rows`` are some rows after it, which show the columns of numbers."""
    lowered = [field.casefold() for field in fields]
    if len(fields) < 2:
        raise FormatError(f"{place}: the header names one column: an edge list needs two, source and target")

    def find_column(title: str) -> int:
        count = lowered.count(title.casefold())
        there = "there are " + ", ".join(map(plain_text, fields[:20])) + (", …" if len(fields) > 20 else "")
        if count > 1:
            raise FormatError(f"{place}: several columns are named {quote(title)}: {there}{_RENAME}")
        if count < 1:
            near = did_you_mean(title, fields)
            hint = f". Without a header, {option('header', False)}, '1' is the first" if title.isdecimal() else ""
            raise FormatError(f"{place}: no column is named {quote(title)}: {there}{hint}{near and '.'}{near}")
        return lowered.index(title.casefold())

    def entries(column: int) -> list[str]:
        return [row[column] for row in rows if len(row) > column and row[column]]

    chosen = None if weight is None else find_column(weight)
    tail, head = _find_ends(fields, chosen, entries, place) if ends is None else map(find_column, ends)
    if tail == head:
        raise FormatError(
            f"{place}: {option('columns')} names the column {quote(fields[tail])} twice: name two columns"
        )
    if chosen in (tail, head):
        raise FormatError(
            f"{place}: the column {quote(fields[tail])} holds vertices: name another by {option('weight')}"
        )
    found = Columns(tail, head, count=len(fields), type=_find_type_column(lowered, entries))
    taken = (tail, head, found.type)
    rest = [column for column, title in enumerate(fields) if column not in taken and not is_row_number_title(title)]
    if chosen is None:
        numbers = [column for column in rest if any(map(_is_quantity, entries(column)))]
        unknown = [column for column in rest if lowered[column] in WEIGHTS and not entries(column)]
        title, candidates = guess_weight(fields[column] for column in [*numbers, *unknown] or rest)
        if candidates:
            listed = ", ".join(map(quote, candidates[:20]))
            hint = _RENAME if len(set(candidates)) < len(candidates) else ""
            ambiguity = f"{place}: the weights may be any of the columns {listed}: name one by {option('weight')}{hint}"
            return replace(found, ambiguity=ambiguity)
        chosen = next((column for column in rest if fields[column] == title), None)
    if chosen is None:
        return found
    return replace(found, weight=chosen, unit=unit_of(fields[chosen]), title=fields[chosen])


def _find_type_column(lowered: Sequence[str], entries: Callable[[int], list[str]]) -> int | None:
    """Return the column of Gephi that says which edges are directed."""
    column = lowered.index("type") if "type" in lowered else -1
    kinds = {kind.casefold() for kind in entries(column)} if column >= 0 else set()
    return column if kinds and kinds <= {"directed", "undirected"} else None


def _find_ends(
    fields: Sequence[str], weight: int | None, entries: Callable[[int], list[str]], place: str
) -> tuple[int, int]:
    """Return the columns of sources and targets by their titles, else the first columns in their order.

    Raises `FormatError` unless at most one other column remains, the last, which certainly holds the weights.
    """
    free = ["" if column == weight else field for column, field in enumerate(fields)]
    tails, heads = guess_ends(free)
    for found, what in ((tails, "source"), (heads, "target")):
        if len(found) > 1:
            titles = " and ".join(map(quote, found[:8]))
            raise FormatError(f"{place}: the columns {titles} are both titled like a {what}: pass {_columns_option()}")
    if tails and heads:
        return free.index(tails[0]), free.index(heads[0])

    def holds_numbers(column: int) -> bool:
        return bool(entries(column)) and all(map(_is_quantity, entries(column)))

    first, second, *rest = [column for column in range(len(fields)) if column != weight] + [-1] * 2
    certain = not tails and not heads and second >= 0 and not any(_is_measure(fields[end]) for end in (first, second))
    if certain and rest[:-2]:
        third = rest[0]
        certain = len(rest) == 3 and weight is None and (holds_numbers(third) or not entries(third))
        certain = certain and (_is_measure(fields[third]) or not (holds_numbers(first) or holds_numbers(second)))
    if not certain:
        titles = ", ".join(map(quote, fields[:8])) + (" …" if len(fields) > 8 else "")
        raise FormatError(
            f"{place}: the columns {titles} are titled like no source ({', '.join(SOURCES)}) and target "
            f"({', '.join(TARGETS)}). Pass {_columns_option()}, and the title of the weights, {option('weight')}. "
            f"{_matrix_advice()}"
        )
    return first, second


def _is_quantity(text: str) -> bool:
    """Return whether a field is or begins like a number: also 3,5 and 1.500,00 and €5 and 12 km and 2020-01-02."""
    return is_number(text) or re.match(r"[-+]?[€$£]? ?\d", text) is not None


def _columns_without_header(fields: list[str], lines: _Lines, place: str) -> Columns:
    if lines.is_konect and len(fields) > 1:
        return Columns(weight=2 if lines.has_weights and len(fields) > 2 else None, count=len(fields))
    if len(fields) not in (2, 3):
        hint = "Separate fields by commas, semicolons, tabs or blanks"
        if len(fields) > 3:
            options = ", ".join([option("header", False), option("columns", ("1", "2")), option("weight", "3")])
            hint = f"Name the columns in a header, or pass {options}. {_matrix_advice()}"
        raise FormatError(f"{place}: {_count_fields(fields)} where an edge is source, target[, weight]. {hint}")
    if not fields[0]:
        raise FormatError(f"{place}: the source is empty, as in the corner of a matrix. {_matrix_advice()}")
    return Columns(weight=2 if len(fields) == 3 else None, count=len(fields))


def _header_advice() -> str:
    """Return the advice to declare whether the first line of a file is a header."""
    return f"pass {option('header', True)} or {option('header', False)}"


def _columns_option() -> str:
    """Return the option that names the columns of the vertices by their titles."""
    return f"{advice('columns=(SOURCE, TARGET)', '--columns SOURCE TARGET')}, two titles"


def _matrix_advice() -> str:
    return "A text file is a list of edges: give a matrix as .npy" + advice(
        ", or with names by pandas, semiring.closure(pandas.read_csv(FILE, index_col=0))", ", by numpy.save"
    )


def _count_fields(fields: Sequence[str]) -> str:
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
        self.undirected = array("q")  # the edges whose type says so

    def number_vertex(self, name: str) -> int:
        return self.names.setdefault(name, len(self.names))

    def refuse_other_readings(
        self, fields: list[str], rows: Sequence[Row], is_titled: bool, is_named: bool, place: str
    ) -> None:
        """Raise `FormatError` if the first line may be an edge and a header, or three lines may be a matrix."""
        clash = next((name for name in fields[:2] if name in self.names), None)
        if is_titled and not is_named and fields != _TITLES and clash is not None:
            raise FormatError(
                f"{place}: the first line reads like a header, but {quote(clash)} is also a vertex: {_header_advice()}"
            )
        are_words = len(set(fields)) == 2 == len(fields) and not any(field[:1] in "0123456789+-." for field in fields)
        others = (self.rows[1:], self.columns[1:], self.declared_vertices)
        is_alone = len(self.rows) > 1 and all(not len(ends) or min(ends) > 1 for ends in others)
        if not is_titled and are_words and is_alone:
            raise FormatError(
                f"{place}: {quote(fields[0])} and {quote(fields[1])} occur in no other line. The first line may name "
                f"the columns, or be an edge: {_header_advice()}"
            )
        if is_titled or not len(rows) == len(self.values) == len(self.rows) == 3:
            return
        square = [row for _, row in rows]
        diagonal = [square[i][i] for i in range(3)]
        if all(is_number(field) for row in square for field in row) and not any(map(parse_number, diagonal)):
            raise FormatError(
                f"{place}: three lines of three numbers may be a matrix, or edges. For edges pass "
                f"{option('header', False)}. {_matrix_advice()}"
            )

    def edges(self, columns: Columns, source: str, *, undirected: bool) -> Edges:
        n, names = len(self.names), tuple(self.names)
        rows, targets = np.array(self.rows, np.int64), np.array(self.columns, np.int64)
        if all(map(_is_index, names)):
            order = sorted(range(n), key=lambda vertex: int(names[vertex]))
            place = np.empty(n, np.int64)
            place[order] = np.arange(n)
            rows, targets = place[rows], place[targets]
            names = tuple(names[vertex] for vertex in order)
        locate = line_locator(source, self.lines)
        values = None if columns.weight is None else as_array(self.values, locate)
        indices = all(name == str(vertex) for vertex, name in enumerate(names))
        edges = Edges(
            n,
            rows,
            targets,
            values,
            locate,
            names=None if indices else names,
            unit=columns.unit,
            directed=not undirected,
            ambiguity=columns.ambiguity,
        )
        is_undirected = np.zeros(len(rows), bool)
        is_undirected[self.undirected] = True
        return direct_edges(edges, is_undirected)


def _collect(rows: Iterator[Row], columns: Columns, source: str, decimal: str, *, is_guessed: bool) -> _EdgeCollector:
    found = _EdgeCollector()
    tail, head, weight, count, kind = columns.source, columns.target, columns.weight, columns.count, columns.type
    for number, fields in rows:
        if len(fields) != count:
            mend = "complete the line, or remove it"
            if len(fields) > count:
                mend = "put names with the delimiter into double quotes"
            raise FormatError(f"{source}:{number}: {_count_fields(fields)} where the first line has {count}: {mend}")
        start, end = fields[tail], fields[head]
        if not start:
            raise FormatError(f"{source}:{number}: the source is empty")
        if not end:
            if weight is not None and fields[weight]:
                raise FormatError(
                    f"{source}:{number}: the target is empty (a vertex without edges has no weight either)"
                )
            found.declared_vertices.append(found.number_vertex(start))
            continue
        if weight is not None:
            try:
                found.values.append(parse_number(fields[weight], decimal))
            except ValueError as error:
                raise _weight_error(
                    fields[weight], error, columns, f"{source}:{number}", is_guessed and not found.rows
                ) from None
        if kind is not None and fields[kind].casefold() != "directed":
            if fields[kind].casefold() != "undirected":
                given = quote(fields[kind], 40)
                raise FormatError(f"{source}:{number}: the type is {given}, not Directed or Undirected")
            found.undirected.append(len(found.rows))
        found.rows.append(found.number_vertex(start))
        found.columns.append(found.number_vertex(end))
        found.lines.append(number)
    return found


def _weight_error(text: str, error: Exception, columns: Columns, place: str, is_first: bool) -> FormatError:
    """Return the error for a field that is no weight; without a header, in the first line it may be a title."""
    assert columns.weight is not None
    called = f" ({columns.title})" if columns.title else ""
    reason = f"the weight {quote(text, 40)} is {error}" if text else "the weight is missing"
    hint = ""
    if re.fullmatch(r"[-+]?\d+,\d+", text):
        hint = f": pass {option('decimal', ',')} for decimal commas, and write thousands without a separator"
    elif is_first and not columns.title and text and not is_number(text):
        hint = f". If the line names the columns, pass {option('header', True)}"
    return FormatError(f"{place}: {reason}, in column {columns.weight + 1}{called}{hint}")


def write_edge_list(
    stream: Sink,
    matrix: Any,
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
    n = matrix.shape[0]
    labels = _quote_names(names, n, delimiter)
    stream.write(_format_header(unit or _TITLES[2], "unit", delimiter))
    every, order = np.arange(n), _vertices_by_first_edge(matrix, zero)
    ordered = names is None or all(map(_is_index, names)) or np.array_equal(order, every)
    declared = np.setdiff1d(every, order) if ordered else every
    stream.write("".join(f"{labels[i]}{delimiter}{delimiter}\n" for i in declared).encode())
    for rows, columns, values in edge_chunks(matrix, zero):
        chunk = zip(rows, columns, numbers_as_text(values), strict=True)
        stream.write("".join(f"{labels[i]}{delimiter}{labels[j]}{delimiter}{w}\n" for i, j, w in chunk).encode())


def _vertices_by_first_edge(matrix: Any, zero: Any) -> np.ndarray[Any, Any]:
    """Return the vertices with edges, in the order in which the listed edges first name them."""
    has_edge, vertices = np.zeros(matrix.shape[0], np.bool_), [np.zeros(0, np.int64)]
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
            f"the {kind} {quote(text)} is empty or holds a control character, which an edge list does not support: "
            "rename it"
        )
    if any("\ud800" <= letter <= "\udfff" for letter in text):
        raise FormatError(
            f"the {kind} {quote(text)} holds half a surrogate pair, which UTF-8 does not encode: rename it"
        )
    return text


def _quote(name: str, delimiter: str, *, always: bool = False) -> str:
    plain = name == name.strip() and not name.startswith(("#", "%")) and delimiter not in name and '"' not in name
    return name if plain and not always else '"' + name.replace('"', '""') + '"'
