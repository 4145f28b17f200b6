"""Frames: which vertex a row and a column stand for, and results that keep it.

A frame with an index (pandas, or what behaves like it) labels rows and columns; a Polars frame labels columns alone.
Labels 0 … n - 1 are those that a frame has when nobody gave it any: they agree with all others, place by place.
No such library is imported here: frames are known by what they can do.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Hashable, Iterable, Sequence
from numbers import Real
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from semiring.errors import DTypeError, FormatError, MissingExtraError, ShapeError
from semiring.namespaces import library_of

__all__ = [
    "SOURCES",
    "TARGETS",
    "WEIGHTS",
    "Taken",
    "counts_rows",
    "frame_values",
    "framed",
    "guessed_ends",
    "guessed_weight",
    "is_edge_frame",
    "is_frame",
    "is_graph",
    "is_labelled",
    "labelled_product",
    "labelled_square",
    "names_vertices",
    "two_titles",
    "unit_of",
]

Array: TypeAlias = NDArray[Any]

#: What the columns of a list of edges are called, in files and in frames, in any case of letters.
SOURCES = ("source", "from", "src", "tail", "origin", "start", "u")
TARGETS = ("target", "to", "dst", "dest", "head", "destination", "end", "v")
WEIGHTS = ("weight", "w", "distance", "dist", "length", "cost", "value", "capacity", "probability", "time", "latency")


#: Which titles of targets belong to a title of sources.
_PAIRS = {
    **{"source": ("target",), "from": ("to",), "src": ("dst", "dest"), "tail": ("head",)},
    **{"origin": ("destination", "dest"), "start": ("end",), "u": ("v",)},
}


def guessed_ends(titles: Iterable[Any], source: Any = None, target: Any = None) -> tuple[list[Any], list[Any]]:
    """The titles that may be those of sources and of targets; one of each where that is known.

    It is where there is one, or one pair that belongs together: from and to, where there is a source too. ``source``
    and ``target`` are titles that are known.
    """
    given = [title for title in titles if isinstance(title, str)]

    def among(usual: Sequence[str], known: Any, other: Any) -> list[Any]:
        return [known] if known is not None else [t for t in given if t.casefold() in usual and t != other]

    tails, heads = among(SOURCES, source, target), among(TARGETS, target, source)
    pairs = [(t, h) for t in tails for h in heads if str(h).casefold() in _PAIRS.get(str(t).casefold(), ())]
    if len(pairs) == 1 and len(tails) + len(heads) > 2:
        tails, heads = [pairs[0][0]], [pairs[0][1]]
    return tails, heads


def two_titles(columns: Any) -> tuple[Any, Any]:
    """``columns=``, the titles of the columns where edges begin and end. Raises `TypeError` for what is no pair."""
    pair = tuple(columns) if isinstance(columns, Iterable) and not isinstance(columns, str) else ()
    if len(pair) != 2:
        raise TypeError(f"columns are the titles of two columns, (source, target), and not {columns!r}")
    return pair[0], pair[1]


def counts_rows(title: Any) -> bool:
    """Whether numbers under that title are those of rows: id, index, none, or what pandas makes of none."""
    return re.fullmatch(r"id|index|unnamed: \d+|", str(title).casefold()) is not None


def guessed_weight(titles: Iterable[Any]) -> tuple[Any, tuple[Any, ...]]:
    """Which of the titles under which there are numbers is that of the weights, and (); or None, and those it may be.

    It is "weight", else the only one that `counts_rows` does not take. A usual title is no better than another: which
    of a capacity and a latency_ms is meant depends on the question.
    """
    given = [title for title in titles if not counts_rows(title)]
    found = [title for title in given if str(title).casefold() == WEIGHTS[0]] or given
    return (found[0], ()) if len(found) == 1 else (None, tuple(found))


def unit_of(title: Any) -> str:
    """What weights with that title count: km for km, length_km and distance (km); "" where it says no unit."""
    text = str(title)
    if text.casefold() in WEIGHTS:
        return ""
    parts = re.fullmatch(r"(?:.*[ _])?([^ _()\[\]]+)[ _(\[]+(?!\d)([^ _()\[\]]+)[)\]]?", text)
    return parts[2] if parts is not None and parts[1].casefold() in WEIGHTS else text


_GRAPHS = {
    "semiring.io.network": ("Network",),
    "networkx": ("Graph",),
    "igraph": ("Graph",),
    "rustworkx": ("PyGraph", "PyDiGraph"),
}


def is_graph(x: Any) -> bool:
    """Whether ``x`` is a `Network`, or a graph of NetworkX, igraph or rustworkx. Imports none of them.

    An object can only be of a class whose module is loaded.
    """
    for module, classes in _GRAPHS.items():
        loaded = sys.modules.get(module)
        if loaded is not None and isinstance(x, tuple(getattr(loaded, name) for name in classes)):
            return True
    return False


def is_edge_frame(x: Any) -> bool:
    """Whether ``x`` is a frame that lists edges: it has a column of `SOURCES`, and one of `TARGETS`.

    A frame whose index holds the names of its columns is a matrix nevertheless.
    """
    if not is_frame(x):
        return False
    return all(guessed_ends(x.columns)) and not (is_labelled(x) and set(x.index) == set(x.columns))


def names_vertices(x: Any) -> bool:
    """Whether ``x`` is more than a matrix: a frame, a graph, or a `Network`."""
    if type(x) is np.ndarray or library_of(x) == "cupy":  # told by their type at once
        return False
    return is_frame(x) or is_graph(x)


class Taken(NamedTuple):
    """An argument taken apart: its matrix, and what surrounds it."""

    matrix: Any  # (n, n)
    names: tuple[Hashable, ...] | None
    back: Callable[[Any], Any]  # from a matrix (n, n) to the kind of the argument
    network: Any = None  # the `Network`, where the argument lists edges


def is_frame(x: Any) -> bool:
    """Whether ``x`` is a table with named columns, of pandas, Polars or the like."""
    return hasattr(x, "to_numpy") and hasattr(x, "columns")


def is_labelled(x: Any) -> bool:
    """Whether ``x`` is a frame or a series with an index."""
    return hasattr(x, "index") and hasattr(x, "to_numpy")


def frame_values(x: Any, name: str = "A") -> Any:
    """The entries of a frame or a series as an array; `DTypeError` where some are missing.

    Columns of the nullable numbers of pandas and Polars have missing entries beside NaN, which no array of numbers
    holds: pandas would hand over objects, Polars NaN.
    """
    if hasattr(x, "null_count"):  # Polars
        count = x.null_count()
        _refuse_missing(bool(sum(count.row(0)) if is_frame(x) else count), name)
        return x.to_numpy()
    dtypes = list(x.dtypes) if is_frame(x) else [x.dtype]
    known = [getattr(dtype, "numpy_dtype", dtype) for dtype in dtypes]
    if known == dtypes or not all(isinstance(dtype, np.dtype) for dtype in known):
        return x.to_numpy()
    _refuse_missing(bool(x.isna().to_numpy().any()), name)
    return x.to_numpy(dtype=np.result_type(*known))


def _refuse_missing(missing: bool, name: str) -> None:
    if missing:
        raise DTypeError(f"{name} has missing entries: fill them, with the zero of the semiring where no edge is meant")


# ------------------------------------------------------------------------------------------------- square frames


def labelled_square(frame: Any) -> Taken:
    """A frame whose rows and columns are the same vertices; columns are put into the order of the rows.

    Raises `ShapeError` where the labels of the rows are not those of the columns, or one occurs twice.
    """
    if not is_labelled(frame):
        return _labelled_columns(frame)
    rows, columns = tuple(frame.index), tuple(frame.columns)
    _refuse_untitled_edges(frame, columns, labelled=not _unlabelled(rows))
    if len(rows) != len(columns):
        raise _not_square(frame, len(rows), len(columns))
    if not _agree(rows, columns):
        _refuse_different(
            rows,
            columns,
            "the rows and the columns of A",
            "a network has the same vertices in both. If the missing rows or columns have no edges, add them: V = "
            "A.index.union(A.columns), A.reindex(index=V, columns=V, fill_value=...), filled with the value of no edge",
        )
        frame = frame.iloc[:, _places(rows, columns)]
    index = frame.columns if _unlabelled(rows) else frame.index
    header = frame.index if _unlabelled(columns) else frame.columns
    names = tuple(index)
    _refuse_repeated(names)
    kind = type(frame)
    return Taken(frame_values(frame), names, lambda result: kind(result, index=index, columns=header))


def _not_square(frame: Any, rows: int, columns: int) -> ShapeError:
    if is_edge_frame(frame):
        return ShapeError(
            "A is a frame that lists edges, and this function needs a matrix: pass semiring.network_of(A).matrix"
        )
    return ShapeError(
        f"A is a frame of {rows} rows and {columns} columns: a square matrix is needed. If it lists edges, title its "
        "columns source and target, or name them, semiring.network_of(A, source=..., target=...)"
    )


_FEW = 8  # columns that a table of edges has


def _refuse_untitled_edges(frame: Any, columns: Sequence[Any], *, labelled: bool) -> None:
    """Raise `FormatError` where two columns or three hold texts and then numbers, as edges and weights do.

    So where rows without labels are as many as titled columns, two of which hold integers, and no diagonal is 0.
    """
    if not labelled and 2 < len(columns) == len(frame) <= _FEW and all(isinstance(t, str) for t in columns):
        entries = [np.asarray(frame[title]) for title in columns]
        whole = [column.dtype.kind in "iu" for column in entries]
        if sum(whole) > 1 and any(entry[place] not in (0, np.inf) for place, entry in enumerate(entries)):
            raise FormatError(
                f"A is a frame of {len(columns)} rows without labels, and may be a matrix or list edges. If it lists "
                "edges, pass columns=(SOURCE, TARGET), the titles of two columns. If it is a matrix, label its rows as "
                "its columns, or pass A.to_numpy()"
            )
    ends = [np.asarray(frame[title]) for title in columns[:2]] if len(columns) in (2, 3) else []
    if ends and all(map(_holds_texts, ends)) and all(isinstance(t, str) for t in columns):
        raise FormatError(
            f"A is a frame of texts, and no columns are titled like a source ({', '.join(SOURCES)}) and a target "
            f"({', '.join(TARGETS)}). If it lists edges, pass columns=({columns[0]!r}, {columns[1]!r}) to a function "
            f"of paths, or semiring.network_of(A, source={columns[0]!r}, target={columns[1]!r})"
        )


def _holds_texts(column: Any) -> bool:
    """Whether entries are texts or other objects; numbers that are held as objects are none."""
    kind = column.dtype.kind
    return kind in "UST" or (kind == "O" and not all(isinstance(entry, Real) for entry in column))


def _labelled_columns(frame: Any) -> Taken:
    """A frame without an index: its rows are the same vertices as its columns, in the same order."""
    names = tuple(frame.columns)
    _refuse_untitled_edges(frame, names, labelled=False)
    if len(frame) != len(names):
        raise _not_square(frame, len(frame), len(names))
    kind = type(frame)
    return Taken(frame_values(frame), names, lambda result: kind(np.asarray(result), schema=list(names)))


def framed(matrix: Any, rows: Iterable[Hashable], columns: Iterable[Hashable]) -> Any:
    """The matrix as a frame of pandas. Raises `MissingExtraError` without pandas."""
    try:
        import pandas as pd
    except ImportError:
        raise MissingExtraError("pandas", "", "to_frame") from None
    return pd.DataFrame(matrix, index=list(rows), columns=list(columns))


# ------------------------------------------------------------------------------------------------- products


def labelled_product(A: Any, B: Any) -> tuple[Any, Any, Callable[[Any], Any]]:
    """What a product of frames and series multiplies, and how its result gets the labels of A's rows and B's columns.

    The columns of A and the rows of B are matched by label; B's are put into the order of A's. Raises `ShapeError`
    where they are different labels.
    """
    outer = [A.index if is_labelled(A) and np.ndim(A) == 2 else None]
    outer.append(B.columns if is_labelled(B) and np.ndim(B) == 2 else None)
    if is_labelled(A) and is_labelled(B):
        inner, other = (tuple(A.columns) if np.ndim(A) == 2 else tuple(A.index)), tuple(B.index)
        if not _agree(inner, other):
            _refuse_different(inner, other, "the columns of A and the rows of B", "a product runs over both together")
            B = B.iloc[_places(inner, other)]
    rows, columns = outer
    frame = next((type(x) for x in (A, B) if is_labelled(x) and np.ndim(x) == 2), None)

    def back(result: Any) -> Any:
        if frame is None or np.ndim(result) == 0 or (rows is None and columns is None):
            return result
        if np.ndim(result) == 2:
            return frame(result, index=rows, columns=columns)
        return frame(result, index=columns if rows is None else rows, columns=[0])[0].rename(None)

    return *(frame_values(x, name) if is_labelled(x) else x for x, name in ((A, "A"), (B, "B"))), back


# ------------------------------------------------------------------------------------------------- labels


def _unlabelled(labels: Sequence[Hashable]) -> bool:
    return tuple(labels) == tuple(range(len(labels)))


def _agree(these: Sequence[Hashable], those: Sequence[Hashable]) -> bool:
    """Whether labels agree as they stand: they are equal, or one side has none and so may be anything."""
    if these == those:
        return True
    nameless = _unlabelled(these) or _unlabelled(those)
    return nameless and len(these) == len(those) and set(these) != set(those)


def _places(wanted: Sequence[Hashable], there: Sequence[Hashable]) -> list[int]:
    place = {label: position for position, label in enumerate(there)}
    return [place[label] for label in wanted]


def _refuse_repeated(labels: Sequence[Hashable]) -> None:
    if len(set(labels)) < len(labels):
        twice = next(label for position, label in enumerate(labels) if label in labels[:position])
        raise ShapeError(f"the label {twice!r} occurs twice: labels must differ")


def _refuse_different(these: Sequence[Hashable], those: Sequence[Hashable], which: str, why: str) -> None:
    _refuse_repeated(these)
    _refuse_repeated(those)
    common = set(these) & set(those)
    if len(these) == len(those) == len(common):
        return
    stray = next((label for label in (*these, *those) if label not in common), None)
    shown = "" if stray is None else f" ({stray!r} is on one side alone)"
    raise ShapeError(f"{which} have different labels{shown}: {why}")
