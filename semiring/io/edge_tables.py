"""Read tables of edges, one edge in each row: frames of pandas or Polars, lists of tuples, dictionaries and arrays."""

from __future__ import annotations

import sys
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence, Set
from dataclasses import replace
from numbers import Real
from typing import Any

import numpy as np

from semiring.advice import advice, option, quote
from semiring.arguments import as_numbers
from semiring.arrays.labels import (
    SOURCES,
    TARGETS,
    choose_weight,
    frame_values,
    guess_ends,
    holds_truth_values,
    is_row_number_title,
    parse_title_pair,
    unit_of,
)
from semiring.errors import DTypeError, FormatError, ShapeError, UnknownNameError
from semiring.io.network import Edges, direct_edges
from semiring.io.text import as_array

__all__ = [
    "ambiguous_weights",
    "edges_of_frame",
    "edges_of_rows",
    "holds_rows",
    "is_weight_list",
    "listed_weights",
    "weights_as_array",
]

_PASS = "pass columns=(SOURCE, TARGET), two titles, here or in semiring.as_network"


def edges_of_frame(frame: Any, columns: Any, weight: Any) -> Edges:
    """Return the edges of a frame; if ``columns`` or ``weight`` is None, `as_network` describes the selection."""
    titles = list(frame.columns)
    if (twice := next((title for place, title in enumerate(titles) if title in titles[:place]), None)) is not None:
        raise FormatError(f"two columns of the frame are titled {quote(twice)}: rename one of them, or leave it out")
    if columns is None:
        tails, heads = guess_ends(titles)
        tail, head = _select_column(tails, SOURCES, "source"), _select_column(heads, TARGETS, "target")
    else:
        tail, head = parse_title_pair(columns)
    _require_two_columns(tail, head)
    for title in (tail, head, weight):
        if not (title is None or is_weight_list(title) or title in titles):
            raise UnknownNameError("column", title, map(str, titles))
    ends = [_end_values(frame[end].to_numpy(), end, "row {} of the frame") for end in (tail, head)]
    rest = {title: frame[title].to_numpy() for title in titles if title not in (tail, head)}

    def read_column(title: Any) -> Any:
        return frame_values(frame[title], f"the column {quote(title)}")

    edges = _edges_of_table((tail, head), ends, rest, read_column, weight, "row {} of the frame")
    kinds = [str(kind).casefold() for title in rest if str(title).casefold() == "type" for kind in rest[title]]
    if len(kinds) == len(edges.rows) and set(kinds) <= {"directed", "undirected"}:  # as Gephi writes them
        return direct_edges(edges, np.array([kind == "undirected" for kind in kinds], bool))
    return edges


def edges_of_rows(x: Any, columns: Any, weight: Any) -> Edges:
    """Return the edges of rows (source, target) or (source, target, weight), of a dictionary, or of an array (m, k).

    ``columns`` and ``weight`` are positions in a row. A third entry may be a dictionary of attributes, as in the edges
    of NetworkX, of which ``weight`` names one.
    """
    tail, head = (0, 1) if columns is None else parse_title_pair(columns)
    vertices: Iterable[Any] = ()
    is_undirected = _is_undirected_view(x)
    if isinstance(x, Mapping) and isinstance(x, Set):  # the edges of a graph of NetworkX
        rows = [(*ends[:2], attributes) for ends, attributes in x.items()]
    elif isinstance(x, Mapping):
        vertices, rows = _rows_of_mapping(x)
    else:
        rows = x.tolist() if isinstance(x, np.ndarray) else list(x)
    width = len(rows[0]) if rows and isinstance(rows[0], Sequence) else 2
    for place, row in enumerate(rows):
        if not isinstance(row, list | tuple) or not 2 <= len(row) == width:
            raise FormatError(
                f"row {place} of the edges is {quote(row)}: each row is (source, target) or (source, target, weight)"
            )
    for position in (tail, head, *([weight] if type(weight) is int else [])):
        if type(position) is not int or not 0 <= position < width:
            raise FormatError(f"the columns of the edges are 0 … {width - 1}, and not {quote(position)}")
    _require_two_columns(tail, head)
    by_position = {place: [row[place] for row in rows] for place in range(width)}
    pair = [_object_array(by_position.pop(end)) for end in (tail, head)]
    ends = [_end_values(values, end, "row {} of the edges") for values, end in zip(pair, (tail, head), strict=True)]
    rest: dict[Any, Any] = by_position
    if rows and len(rest) == 1 and all(isinstance(value, Mapping) for value in next(iter(rest.values()))):
        (attributes,) = rest.values()
        titles = dict.fromkeys(title for held in attributes for title in held)
        rest = {title: [held.get(title) for held in attributes] for title in titles}
    if not (weight is None or is_weight_list(weight) or (isinstance(weight, Hashable) and weight in rest)):
        raise UnknownNameError("column", weight, map(str, rest))
    edges = _edges_of_table((tail, head), ends, rest, rest.__getitem__, weight, "row {} of the edges", vertices)
    return replace(edges, directed=not is_undirected)


def _is_undirected_view(x: Any) -> bool:
    """Return whether x is a view of the edges of an undirected graph of NetworkX."""
    views: Any = sys.modules.get("networkx.classes.reportviews")
    return views is not None and isinstance(
        x, views.EdgeView | views.EdgeDataView | views.MultiEdgeView | views.MultiEdgeDataView
    )


def holds_rows(x: Any) -> bool:
    """Return whether x lists edges and is neither a frame, a graph, a matrix nor a number.

    Such an object is a dictionary, a generator, a view of edges, or a list of tuples that is not square.
    """
    if isinstance(x, list | tuple):
        return len(x) > 0 and all(isinstance(row, tuple) for row in x) and len(x[0]) > 1 and not _is_square(x)
    return isinstance(x, Mapping) or (
        isinstance(x, Iterable)
        and not isinstance(x, str | bytes)
        and not any(hasattr(x, name) for name in ("__array__", "__dlpack__", "tocoo", "to_numpy"))
    )


def _is_square(x: Sequence[Any]) -> bool:
    """Return whether a list of tuples may be a square matrix of numbers."""
    return all(len(row) == len(x) and all(isinstance(entry, Real) for entry in row) for row in x)


def is_weight_list(weight: Any) -> bool:
    """Return whether ``weight=`` is a list or an array of weights, one for each edge, and not a title or a function."""
    return isinstance(weight, list) or (hasattr(weight, "__array__") and np.ndim(weight) > 0)


def listed_weights(weight: Any, count: int) -> list[Any]:
    """Return the weights of ``count`` edges in a list or an array. Raises `ShapeError` for another number of them."""
    values = weight.tolist() if hasattr(weight, "tolist") else list(weight)
    shape = as_numbers(weight, "weight=").shape
    if len(shape) != 1 or len(values) != count:
        raise ShapeError(f"weight= is a list of shape {shape} for {count} edges: give one number for each")
    return values


def _rows_of_mapping(x: Mapping[Any, Any]) -> tuple[Iterable[Any], list[Any]]:
    """Return the vertices and the rows of a dictionary.

    It is {tail: {head: weight}}, {tail: [head, …]}, or {(tail, head): weight}.
    """
    if x and all(isinstance(key, tuple) and len(key) == 2 for key in x) and not any(map(_is_collection, x.values())):
        return (), [(*key, value) for key, value in x.items()]
    if not all(isinstance(row, Mapping) or _is_collection(row) for row in x.values()):
        raise FormatError(
            "a dictionary of edges is {source: {target: weight}}, {source: [target, …]} or {(source, target): weight}"
        )
    rows: list[Any] = []
    for tail, row in x.items():
        rows += [(tail, *((head, row[head]) if isinstance(row, Mapping) else (head,))) for head in row]
    return x, rows


def _is_collection(value: Any) -> bool:
    return isinstance(value, Iterable) and not isinstance(value, str)


def _object_array(values: Sequence[Any]) -> np.ndarray[Any, Any]:
    """Return vertices as an array of integers or of floats if all are of this kind, else of objects."""
    kinds = set(map(type, values))
    if kinds <= {int} or kinds <= {float}:
        return np.array(values)
    array = np.empty(len(values), object)
    array[:] = [value.item() if isinstance(value, np.generic) else value for value in values]
    return array


# ------------------------------------------------------------------------------------------------- columns


def _edges_of_table(
    titles: tuple[Any, Any],
    ends: Sequence[np.ndarray[Any, Any]],
    columns: Mapping[Any, Any],
    read_column: Callable[[Any], Any],
    weight: Any,
    place: str,
    vertices: Iterable[Any] = (),
) -> Edges:
    """Return the edges of a table; ``columns`` are the columns beside those of the ends."""
    names, rows, heads = _number_vertices(ends[0], ends[1], vertices)

    def locate(edge: int) -> str:
        return place.format(edge)

    column, values, ambiguity = weight, None, ""
    if is_weight_list(weight):
        column, values = None, weights_as_array(listed_weights(weight, rows.size), locate, "")
    elif weight is not None:
        if weight in titles:
            raise FormatError(f"the column {quote(weight)} holds vertices: name another column by weight=")
        values = weights_as_array(read_column(weight), locate, f" in the column {quote(weight)}")
    else:
        column, ambiguity = _choose_column(columns)
        if column is not None:
            try:
                values = weights_as_array(read_column(column), locate, f" in the column {quote(column)}")
            except FormatError as error:  # no error over truth values, for which each edge is True
                ambiguity = str(error)
    return Edges(
        len(names),
        rows,
        heads,
        values,
        locate,
        has_dtype=values is not None and values.dtype.kind not in "iu",
        names=None if names == tuple(range(len(names))) else names,
        unit="" if column is None or isinstance(column, int) else unit_of(column),
        names_weights=weight is not None,
        ambiguity=ambiguity,
    )


def _require_two_columns(tail: Any, head: Any) -> None:
    """Raise `FormatError` if both ends of the edges are in one column."""
    if tail == head:
        raise FormatError(f"source and target are both the column {quote(tail)}: name two columns")


def _choose_column(columns: Mapping[Any, Any]) -> tuple[Any, str]:
    """Return the title of the weights, or None; and the message if it is not known, else ""."""
    counted = {title: values for title, values in columns.items() if not is_row_number_title(title)}
    column, candidates = choose_weight(counted)
    if candidates:
        return None, ambiguous_weights("columns", candidates)
    texts = [title for title, values in counted.items() if not holds_truth_values(values)]
    if column is None and texts:
        titles = ", ".join(map(quote, texts))
        return None, f"none of the columns {titles} holds numbers: name the weights by weight=, or leave them out"
    return column, ""


def ambiguous_weights(what: str, candidates: Iterable[Any]) -> str:
    """Return the message about several ``what`` ("columns") that may be the weights."""
    titles = ", ".join(map(quote, candidates))
    return (
        f"the weights may be any of the {what} {titles}: name one by {option('weight')}"
        f"{advice(', here or in semiring.as_network', '')}, or leave these {what} out"
    )


def _select_column(candidates: Sequence[Any], usual_titles: Sequence[str], end: str) -> Any:
    if not candidates:
        raise FormatError(f"no column is titled like a {end} ({', '.join(usual_titles)}): {_PASS}")
    if len(candidates) > 1:
        raise FormatError(f"the columns {' and '.join(map(quote, candidates))} are both titled like a {end}: {_PASS}")
    return candidates[0]


def weights_as_array(values: Any, locate: Callable[[int], str], called: str) -> np.ndarray[Any, Any]:
    """Return the weights of edges as an array of numbers; ``called`` names them in messages.

    Raises `FormatError` for a weight that is missing or not a real number.
    """
    if isinstance(values, np.ndarray) and values.dtype.kind in "fiub":
        return values
    if isinstance(values, np.ndarray) and values.dtype.kind in "mM":  # NumPy registers its times as real numbers
        raise FormatError(f"the weights{called} are {values.dtype}: convert them to numbers, as by .dt.total_seconds()")
    for edge, value in enumerate(values):
        if value is None:
            mixed = any(other is not None for other in values)
            hint = ", and other edges have one: give it one (NetworkX assumes 1)" if mixed else ": give each edge one"
            raise FormatError(f"{locate(edge)} has no weight{called}{hint}")
        if not isinstance(value, Real | np.bool_):
            raise FormatError(
                f"{locate(edge)}: the weight{called} is {quote(value)}, not a real number: convert such weights to "
                "numbers, and leave out rows without a weight"
            )
    array = as_array(list(values), locate)
    if array.dtype.kind in "fiub":
        return array
    try:
        return np.array([float(value) for value in values])  # fractions and very large integers
    except OverflowError:
        large = next(edge for edge, value in enumerate(values) if abs(value) > sys.float_info.max)
        raise FormatError(f"{locate(large)}: the weight is too large for float64") from None


def _end_values(ends: np.ndarray[Any, Any], title: Any, place: str) -> np.ndarray[Any, Any]:
    """Return the vertices in a column as integers or objects. Raises `DTypeError` for other vertices."""
    if not ends.size:
        return np.zeros(0, np.int64)
    if ends.dtype.kind == "f":  # pandas stores integers with missing values as floats
        _refuse_missing(np.flatnonzero(np.isnan(ends)), title, place)
        if (ends == np.rint(ends)).all():
            return np.asarray(ends.astype(np.int64))
    if ends.dtype.kind not in "iuOUST":
        raise DTypeError(f"the column {quote(title)} holds {ends.dtype}: vertices are integers or names")
    if ends.dtype.kind == "O":
        _refuse_missing([row for row, name in enumerate(ends) if name is None or name != name], title, place)
        if (wrong := next((name for name in ends if not isinstance(name, Hashable)), None)) is not None:
            raise DTypeError(f"the column {quote(title)} holds {quote(wrong)}: vertices are integers or names")
    return np.asarray(ends)


def _refuse_missing(rows: Any, title: Any, place: str) -> None:
    if len(rows):
        raise FormatError(f"{place.format(rows[0])} has no vertex in the column {quote(title)}")


def _number_vertices(
    tails: np.ndarray[Any, Any], heads: np.ndarray[Any, Any], vertices: Iterable[Any]
) -> tuple[tuple[Hashable, ...], np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Return the names of the vertices, and the numbers of the tail and the head of every edge.

    ``vertices`` come first. Raises `FormatError` if an integer and its text are both names of vertices.
    """
    declared = list(vertices)
    if tails.dtype.kind in "iu" and heads.dtype.kind in "iu" and set(map(type, declared)) <= {int}:
        unique, numbers = np.unique(np.concatenate([tails, heads, np.array(declared, np.int64)]), return_inverse=True)
        rows, columns = numbers.reshape(-1)[: 2 * tails.size].reshape(2, -1)
        return tuple(unique.tolist()), rows, columns
    order: dict[Hashable, int] = {name: place for place, name in enumerate(declared)}
    ends = [order.setdefault(name, len(order)) for pair in zip(tails, heads, strict=True) for name in pair]
    for name in order:
        if isinstance(name, int | np.integer) and str(name) in order:
            raise FormatError(
                f"the vertices {name} and '{name}' are an integer and a text: convert both columns to one type"
            )
    rows, columns = np.array(ends, np.int64).reshape(-1, 2).T
    return tuple(order), rows, columns
