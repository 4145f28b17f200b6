"""Read the labels and titles of frames, match labels between operands, and label the results.

A frame of pandas has an index and labels rows and columns. A Polars frame labels only columns. Labels 0 … n - 1 are the
default of a frame without labels, so they agree with any labels at the same positions. This module imports no library
of frames, and recognizes a frame by its attributes.

The titles of the columns of sources, targets and weights follow the same rules in files, frames, lists and graphs.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence, Set
from numbers import Number
from typing import Any, NamedTuple

import numpy as np

from semiring.advice import quote
from semiring.errors import DTypeError, FormatError, MissingExtraError, ShapeError, square_error
from semiring.namespaces import library_of

__all__ = [
    "SOURCES",
    "TARGETS",
    "WEIGHTS",
    "LabelledArray",
    "align_square",
    "choose_weight",
    "frame_values",
    "guess_ends",
    "guess_weight",
    "holds_truth_values",
    "is_edge_frame",
    "is_frame",
    "is_graph",
    "is_labelled",
    "is_row_number_title",
    "labelled_product",
    "labelled_square",
    "make_frame",
    "may_name_vertices",
    "parse_title_pair",
    "refuse_collection",
    "require_square",
    "unit_of",
]


_GRAPHS = {
    "semiring.io.network": ("Network",),
    "networkx": ("Graph",),
    "igraph": ("Graph",),
    "rustworkx": ("PyGraph", "PyDiGraph"),
}


def is_graph(x: Any) -> bool:
    """Return whether ``x`` is a `Network`, or a graph of NetworkX, igraph or rustworkx. Imports none of them.

    If the module of a class is not loaded, no object of the class exists.
    """
    for module, classes in _GRAPHS.items():
        loaded = sys.modules.get(module)
        if loaded is not None and isinstance(x, tuple(getattr(loaded, name) for name in classes)):
            return True
    return False


def is_edge_frame(x: Any) -> bool:
    """Return whether ``x`` is a frame that lists edges: it has a column of `SOURCES`, and a column of `TARGETS`.

    A frame whose index holds the names of its columns is a matrix, whatever its titles are.
    """
    if not is_frame(x):
        return False
    return all(guess_ends(x.columns)) and not (is_labelled(x) and set(x.index) == set(x.columns))


def may_name_vertices(x: Any) -> bool:
    """Return whether ``x`` may name its vertices: a frame, a graph, or a `Network`."""
    if type(x) is np.ndarray or library_of(x) == "cupy":  # a quick test, because these types have no names
        return False
    return is_frame(x) or is_graph(x)


def refuse_collection(x: Any, name: str = "A") -> None:
    """Raise `DTypeError` for a dictionary, a view or a generator, which may list edges and is no matrix."""
    if isinstance(x, Mapping | Set | Iterator) or type(x).__module__ == "networkx.classes.reportviews":
        kind = type(x).__name__
        raise DTypeError(f"{name} is of type {kind}, not a matrix: if it lists edges, pass semiring.as_network({name})")


def require_square(x: Any) -> None:
    """Raise the error of an array or a list that is not square, or of tuples that may be a matrix or list edges.

    Frames, graphs and stacks of matrices are not examined.
    """
    if isinstance(x, list | tuple):
        rows = [row for row in x if isinstance(row, list | tuple)]
        if not rows or len(rows) < len(x) or any(isinstance(entry, list | tuple) for entry in rows[0]):
            return
        shape: tuple[int, ...] = (len(x), len(rows[0]))
        pairs = len(rows[0]) in (2, 3) and all(isinstance(row, tuple) for row in rows)
        if pairs and shape[0] == shape[1] and all(type(end) is int for row in rows for end in row[:2]):
            raise FormatError(
                f"A is {len(x)} tuples of {len(x)} numbers, which may be a matrix or edges. For edges pass "
                "semiring.as_network(A, columns=(0, 1)), for a matrix a list of lists or numpy.array(A)"
            )
        if any(len(row) != shape[1] for row in rows):
            return
    else:
        shape = () if is_frame(x) else getattr(x, "shape", ())
    if len(shape) == 2 and shape[0] != shape[1]:
        raise square_error(shape)


class LabelledArray(NamedTuple):
    """The matrix of an argument, the names of its vertices, and the conversion of results to the argument's kind."""

    matrix: Any  # (n, n)
    names: tuple[Hashable, ...] | None
    restore: Callable[[Any], Any]  # converts a matrix (n, n) to the kind of the argument
    network: Any = None  # the `Network` if the argument lists edges, else None


def is_frame(x: Any) -> bool:
    """Return whether ``x`` is a table with named columns, of pandas, Polars or the like."""
    return hasattr(x, "to_numpy") and hasattr(x, "columns")


def is_labelled(x: Any) -> bool:
    """Return whether ``x`` is a frame or a series with an index."""
    return hasattr(x, "index") and hasattr(x, "to_numpy")


def frame_values(x: Any, name: str = "A") -> Any:
    """Return the entries of a frame or a series as an array. Raises `DTypeError` if entries are missing.

    Columns of nullable numbers of pandas and Polars may have missing entries, which are not NaN. An array of numbers
    cannot hold them: pandas would return objects, and Polars NaN.
    """
    if hasattr(x, "null_count"):  # Polars
        count = x.null_count()
        _raise_for_missing(bool(sum(count.row(0)) if is_frame(x) else count), name)
        return x.to_numpy()
    dtypes = list(x.dtypes) if is_frame(x) else [x.dtype]
    numpy_dtypes = [getattr(dtype, "numpy_dtype", dtype) for dtype in dtypes]
    if numpy_dtypes == dtypes or not all(isinstance(dtype, np.dtype) for dtype in numpy_dtypes):
        return x.to_numpy()
    _raise_for_missing(bool(x.isna().to_numpy().any()), name)
    return x.to_numpy(dtype=np.result_type(*numpy_dtypes))


def _raise_for_missing(has_missing: bool, name: str) -> None:
    """Raise `DTypeError` if a frame has missing entries."""
    if has_missing:
        raise DTypeError(f"{name} has missing entries: fill them, with the zero of the semiring where no edge is meant")


# ------------------------------------------------------------------------------------------------- square frames


def labelled_square(frame: Any) -> LabelledArray:
    """Return the matrix of a frame with the same vertices in rows and columns, its columns in the order of the rows.

    Raises `ShapeError` if the labels of the rows are not those of the columns, or a label occurs twice.
    """
    if not is_labelled(frame):
        return _label_by_columns(frame)
    rows, columns = tuple(frame.index), tuple(frame.columns)
    if len(rows) != len(columns):
        _frame_numbers(frame)
        raise _square_error(frame, len(rows), len(columns))
    if not _labels_agree(rows, columns):
        _raise_for_label_mismatch(
            rows,
            columns,
            "the rows and the columns of A",
            "a network has the same vertices in both. If the missing rows or columns have no edges, add them: V = "
            "A.index.union(A.columns), A.reindex(index=V, columns=V, fill_value=...), filled with the value of no edge",
        )
        frame = frame.iloc[:, _positions_of(rows, columns)]
    index = frame.columns if _has_default_labels(rows) else frame.index
    header = frame.index if _has_default_labels(columns) else frame.columns
    names = tuple(index)
    _raise_for_repeated_label(names)
    kind = type(frame)
    return LabelledArray(_frame_numbers(frame), names, lambda result: kind(result, index=index, columns=header))


_TITLES_ADVICE = "If it lists edges, title its columns source and target, or pass columns=(SOURCE, TARGET), two titles"


def align_square(frame: Any, names: Sequence[Hashable] | None) -> Any:
    """Return the matrix of a square frame in the order of the names of vertices. Raises `ShapeError` if they differ."""
    labelled = labelled_square(frame)
    if names is None or labelled.names is None or _labels_agree(tuple(names), labelled.names):
        return labelled.matrix
    _raise_for_label_mismatch(
        tuple(names), labelled.names, "the vertices and the rows of the frame", "each vertex needs a row and a column"
    )
    positions = _positions_of(names, labelled.names)
    return labelled.matrix[np.ix_(positions, positions)]


def _frame_numbers(frame: Any) -> Any:
    """Return the entries of a frame. Raises `FormatError` for texts, unless the titles are those of edges."""
    values = frame_values(frame)
    if is_edge_frame(frame):
        return values
    if values.dtype.kind in "UST" or (values.dtype.kind == "O" and any(isinstance(x, str) for x in values.flat)):
        raise FormatError(f"A is a frame that holds texts, and not a matrix of numbers. {_TITLES_ADVICE}")
    return values


def _square_error(frame: Any, rows: int, columns: int) -> ShapeError:
    """Return the error for a frame that is not square, which may list edges."""
    if is_edge_frame(frame):
        return ShapeError(
            "A is a frame that lists edges, and this function needs a matrix: pass semiring.as_network(A).matrix"
        )
    return ShapeError(f"A is a frame of {rows} rows and {columns} columns: a square matrix is needed. {_TITLES_ADVICE}")


def _label_by_columns(frame: Any) -> LabelledArray:
    """Return the matrix of a frame without an index, whose rows are the vertices of its columns in the same order."""
    names = tuple(frame.columns)
    if len(frame) != len(names):
        _frame_numbers(frame)
        raise _square_error(frame, len(frame), len(names))
    kind = type(frame)
    return LabelledArray(_frame_numbers(frame), names, lambda result: kind(np.asarray(result), schema=list(names)))


def make_frame(matrix: Any, rows: Iterable[Hashable], columns: Iterable[Hashable]) -> Any:
    """Return the matrix as a frame of pandas. Raises `MissingExtraError` without pandas."""
    try:
        import pandas as pd
    except ImportError:
        raise MissingExtraError("pandas", "", "to_frame") from None
    return pd.DataFrame(matrix, index=list(rows), columns=list(columns))


# ------------------------------------------------------------------------------------------------- products


def labelled_product(A: Any, B: Any) -> tuple[Any, Any, Callable[[Any], Any]]:
    """Return two operands of a product without labels, and a function that labels the result.

    The columns of A and the rows of B are matched by label: the rows of B are put into the order of the columns of A.
    The result has the labels of A's rows and B's columns. Raises `ShapeError` if the labels differ.
    """
    outer = [A.index if is_labelled(A) and np.ndim(A) == 2 else None]
    outer.append(B.columns if is_labelled(B) and np.ndim(B) == 2 else None)
    if is_labelled(A) and is_labelled(B):
        inner, other = (tuple(A.columns) if np.ndim(A) == 2 else tuple(A.index)), tuple(B.index)
        if not _labels_agree(inner, other):
            _raise_for_label_mismatch(
                inner, other, "the columns of A and the rows of B", "a product runs over both together"
            )
            B = B.iloc[_positions_of(inner, other)]
    rows, columns = outer
    frame = next((type(x) for x in (A, B) if is_labelled(x) and np.ndim(x) == 2), None)

    def label_result(result: Any) -> Any:
        if frame is None or np.ndim(result) == 0 or (rows is None and columns is None):
            return result
        if np.ndim(result) == 2:
            return frame(result, index=rows, columns=columns)
        return frame(result, index=columns if rows is None else rows, columns=[0])[0].rename(None)

    return *(frame_values(x, name) if is_labelled(x) else x for x, name in ((A, "A"), (B, "B"))), label_result


# ------------------------------------------------------------------------------------------------- labels


def _has_default_labels(labels: Sequence[Hashable]) -> bool:
    """Return whether labels are 0 … n - 1, as in a frame without labels."""
    return tuple(labels) == tuple(range(len(labels)))


def _labels_agree(labels: Sequence[Hashable], other: Sequence[Hashable]) -> bool:
    """Return whether labels agree in their present order: they are equal, or one side has the default labels."""
    if labels == other:
        return True
    nameless = _has_default_labels(labels) or _has_default_labels(other)
    return nameless and len(labels) == len(other) and set(labels) != set(other)


def _positions_of(labels: Sequence[Hashable], other: Sequence[Hashable]) -> list[int]:
    """Return the position of each label in the other labels."""
    place = {label: position for position, label in enumerate(other)}
    return [place[label] for label in labels]


def _raise_for_repeated_label(labels: Sequence[Hashable]) -> None:
    """Raise `ShapeError` if a label occurs twice."""
    if len(set(labels)) < len(labels):
        twice = next(label for position, label in enumerate(labels) if label in labels[:position])
        raise ShapeError(f"the label {quote(twice)} occurs twice: labels must differ")


def _raise_for_label_mismatch(
    labels: Sequence[Hashable], other: Sequence[Hashable], sides: str, explanation: str
) -> None:
    """Raise `ShapeError` if labels are repeated, or differ by more than their order.

    ``sides`` says in the message where the labels are, and ``explanation`` why they must agree.
    """
    _raise_for_repeated_label(labels)
    _raise_for_repeated_label(other)
    common = set(labels) & set(other)
    if len(labels) == len(other) == len(common):
        return
    stray = next((label for label in (*labels, *other) if label not in common), None)
    example = "" if stray is None else f" ({quote(stray)} is on one side alone)"
    raise ShapeError(f"{sides} have different labels{example}: {explanation}")


#: The titles of the columns of a list of edges, in any case of letters.
SOURCES = ("source", "from", "src", "tail", "origin", "start", "u")
TARGETS = ("target", "to", "dst", "dest", "head", "destination", "end", "v")
WEIGHTS = ("weight", "w", "distance", "dist", "length", "cost", "value", "capacity", "probability", "time", "latency")

#: The titles of targets that belong to a title of sources.
_PAIRS = {
    **{"source": ("target",), "from": ("to",), "src": ("dst", "dest"), "tail": ("head",)},
    **{"origin": ("destination", "dest"), "start": ("end",), "u": ("v",)},
}
#: Words beside a usual title that name the kind of vertex or of key: from_node_id, SourceAirport.
_KINDS = frozenset(("node", "vertex", "id", "name", "code", "key", "station", "stop", "airport", "city", "place"))


def _main_word(title: str) -> str:
    """Return a title in lower case without words that name the kind of vertex: "from" for From_Station and fromId."""
    words = re.findall(r"[^\W\d_]+", re.sub(r"(?<=[a-z])(?=[A-Z])", " ", title))
    rest = [word for word in map(str.casefold, words) if word not in _KINDS]
    return rest[0] if len(rest) == 1 else title.casefold()


def guess_ends(titles: Iterable[Any]) -> tuple[list[Any], list[Any]]:
    """Return the titles that may be those of sources and of targets: one of each if they are unique.

    They are unique if there is one candidate each. They are also unique if one pair belongs together, such as from and
    to, even if there is a column source too. A usual title has priority over one with a further word, such as from_id.
    """
    texts = [title for title in titles if isinstance(title, str)]

    def find_candidates(usual: Sequence[str]) -> list[Any]:
        exact = [title for title in texts if title.casefold() in usual]
        return exact or [title for title in texts if _main_word(title) in usual]

    tails, heads = find_candidates(SOURCES), find_candidates(TARGETS)
    pairs = [(t, h) for t in tails for h in heads if _main_word(h) in _PAIRS.get(_main_word(t), ())]
    if len(pairs) == 1 and len(tails) + len(heads) > 2:
        tails, heads = [pairs[0][0]], [pairs[0][1]]
    return tails, heads


def parse_title_pair(columns: Any) -> tuple[Any, Any]:
    """Return the two titles of ``columns=``, (source, target). Raises `TypeError` for anything but a pair."""
    pair = tuple(columns) if isinstance(columns, Iterable) and not isinstance(columns, str) else ()
    if len(pair) != 2:
        raise TypeError(f"columns are the titles of two columns, (source, target), and not {quote(columns)}")
    return pair[0], pair[1]


def is_row_number_title(title: Any) -> bool:
    """Return whether a column with this title numbers the rows: id, index, no title, or pandas's name for no title."""
    return re.fullmatch(r"id|index|unnamed: \d+|", str(title).casefold()) is not None


def guess_weight(titles: Iterable[Any]) -> tuple[Any, tuple[Any, ...]]:
    """Return the title of the weights among the titles of columns of numbers, and (); or None and the candidates.

    It is "weight", else the only title for which `is_row_number_title` is False. Other usual titles have no priority,
    because the choice between a capacity and a latency_ms depends on the problem.
    """
    candidates = [title for title in titles if not is_row_number_title(title)]
    matches = [title for title in candidates if str(title).casefold() == WEIGHTS[0]] or candidates
    return (matches[0], ()) if len(matches) == 1 else (None, tuple(matches))


def choose_weight(columns: Mapping[Any, Any], usual_titles: Sequence[str] = WEIGHTS) -> tuple[Any, tuple[Any, ...]]:
    """Return the title of the weights among columns (title: values), and (); or None and the candidates.

    Candidates are the columns that hold numbers, times, or texts that begin as a number, and `guess_weight` chooses one
    of them. Without such a column it is the column with one of the ``usual_titles``, whose values are then an error. A
    column of truth values is no column of weights: the caller names it if it is.
    """
    numbers = [title for title, values in columns.items() if _holds_numbers(values)]
    texts = [title for title in columns if str(title).casefold() in usual_titles]
    usual = [title for title in texts if not holds_truth_values(columns[title])]
    return guess_weight(numbers or usual)


def _holds_numbers(values: Any) -> bool:
    kind = getattr(getattr(values, "dtype", None), "kind", "O")
    if kind in "fiumM":
        return True
    if kind == "b":
        return False
    present = [value for value in values if value is not None]
    if any(isinstance(value, Number) and not isinstance(value, bool | np.bool_) for value in present):
        return True
    return bool(present) and all(isinstance(x, str) and re.match(r"[-+]?\d", x) is not None for x in present)


def holds_truth_values(values: Any) -> bool:
    """Return whether a column holds truth values, and perhaps missing values."""
    present = [value for value in values if value is not None]
    return bool(present) and all(isinstance(value, bool | np.bool_) for value in present)


def unit_of(title: Any) -> str:
    """Return the unit in a title of weights: km for km, length_km and distance (km); "" if it has none."""
    text = str(title)
    if text.casefold() in WEIGHTS:
        return ""
    parts = re.fullmatch(r"(?:.*[ _])?([^ _()\[\]]+)[ _(\[]+(?!\d)([^ _()\[\]]+)[)\]]?", text)
    return parts[2] if parts is not None and parts[1].casefold() in WEIGHTS else text
