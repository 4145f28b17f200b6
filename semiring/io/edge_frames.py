"""Read frames of edges, of pandas or Polars, with one edge in each row."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from numbers import Real
from typing import Any

import numpy as np

from semiring.arrays.labels import (
    SOURCES,
    TARGETS,
    WEIGHTS,
    frame_values,
    guess_ends,
    guess_weight,
    is_row_number_title,
    unit_of,
)
from semiring.errors import DTypeError, FormatError, UnknownNameError
from semiring.io.network import Edges

__all__ = ["edges_of_frame"]


def edges_of_frame(frame: Any, source: str | None, target: str | None, weight: str | None) -> Edges:
    """Return the edges of a frame; if a title is None, `as_network` describes which column it selects."""
    titles = list(frame.columns)
    for name in (source, target, weight):
        if name is not None and name not in titles:
            raise UnknownNameError("column", name, map(str, titles))
    tails, heads = guess_ends(titles, source, target)
    tail, head = _select_column(tails, SOURCES, "source"), _select_column(heads, TARGETS, "target")
    if tail == head:
        raise FormatError(f"source and target are both the column {tail!r}: name two columns")
    if weight is not None and weight in (tail, head):
        raise FormatError(f"the column {weight!r} holds vertices: name another column by weight=")
    if (twice := next((title for place, title in enumerate(titles) if title in titles[:place]), None)) is not None:
        raise FormatError(f"two columns of the frame are titled {twice!r}: rename one of them, or leave it out")
    rest = [title for title in titles if title not in (tail, head) and not is_row_number_title(title)]
    numbers = [title for title in rest if _holds_numbers(frame[title])]
    numbers = numbers or [title for title in rest if str(title).casefold() in WEIGHTS or not _holds_texts(frame[title])]
    column, candidates = (weight, ()) if weight is not None else guess_weight(numbers or rest)
    title_list = ", ".join(map(repr, candidates))
    ambiguity = (
        f"the weights may be any of the columns {title_list}: name one by weight=, here or in semiring.as_network, "
        "or leave these columns out"
    )
    names, rows, columns = _number_vertices(_end_values(frame, tail), _end_values(frame, head))

    def locate(edge: int) -> str:
        return f"row {edge} of the frame" if edge >= 0 else f"the column {column!r} of the frame"

    values = None if column is None else frame_values(frame[column], f"the column {column!r}")
    wrong = "" if values is None else _non_number_message(values, column)
    if wrong and weight is not None:
        raise FormatError(wrong)
    if values is not None and values.dtype.kind not in "fiub":  # fractions; over truth values texts are no weights
        values = None if wrong else np.array(values, np.float64)
    unit = "" if column is None else unit_of(column)
    named = None if names == tuple(range(len(names))) else names
    return Edges(
        len(names),
        rows,
        columns,
        values,
        locate,
        has_dtype=values is not None and values.dtype.kind not in "iu",
        names=named,
        unit=unit,
        names_weights=weight is not None,
        ambiguity=ambiguity if candidates else wrong,
    )


_PASS = "pass columns=(SOURCE, TARGET), two titles, or in semiring.as_network {}="


def _select_column(candidates: Sequence[Any], usual_titles: Sequence[str], end: str) -> Any:
    if not candidates:
        raise FormatError(f"no column is titled like a {end} ({', '.join(usual_titles)}): {_PASS.format(end)}")
    if len(candidates) > 1:
        titles = " and ".join(map(repr, candidates))
        raise FormatError(f"the columns {titles} are both titled like a {end}: {_PASS.format(end)}")
    return candidates[0]


def _non_number_message(values: np.ndarray[Any, Any], column: Any) -> str:
    """Return the message about the first weight that is not a number; "" if all weights are numbers."""
    if values.dtype.kind in "fiub":
        return ""
    if values.dtype.kind in "mM":  # NumPy registers its times as real numbers
        return f"the column {column!r} holds {values.dtype}: convert times to numbers, as by column.dt.total_seconds()"
    for row, value in enumerate(values):
        if not isinstance(value, Real):
            return (
                f"row {row} of the frame: the weight {value!r} in the column {column!r} is not a real number: convert "
                "such weights to numbers, and leave out rows without a weight"
            )
    return ""


def _holds_numbers(column: Any) -> bool:
    values = column.to_numpy()
    return values.dtype.kind in "fiu" or (values.dtype.kind == "O" and any(map(_is_number, values)))


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def _holds_texts(column: Any) -> bool:
    values = column.to_numpy()
    return values.dtype.kind in "US" or (values.dtype.kind == "O" and all(isinstance(x, str | None) for x in values))


def _end_values(frame: Any, title: Any) -> np.ndarray[Any, Any]:
    ends = frame[title].to_numpy()
    if not ends.size:
        return np.zeros(0, np.int64)
    if ends.dtype.kind == "f":  # pandas stores integers with missing values as floats
        _refuse_missing(np.flatnonzero(np.isnan(ends)), title)
        if (ends == np.rint(ends)).all():
            return np.asarray(ends.astype(np.int64))
    if ends.dtype.kind not in "iuOUST":
        raise DTypeError(f"the column {title!r} holds {ends.dtype}: vertices are integers or names")
    if ends.dtype.kind == "O":
        _refuse_missing([row for row, name in enumerate(ends) if name is None or name != name], title)
    return np.asarray(ends)


def _refuse_missing(rows: Any, title: Any) -> None:
    if len(rows):
        raise FormatError(f"row {rows[0]} of the frame has no vertex in the column {title!r}")


def _number_vertices(
    tails: np.ndarray[Any, Any], heads: np.ndarray[Any, Any]
) -> tuple[tuple[Hashable, ...], np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Return the names of the vertices, and the numbers of the tail and the head of every edge."""
    if tails.dtype.kind in "iu" and heads.dtype.kind in "iu":
        vertices, numbers = np.unique(np.concatenate([tails, heads]), return_inverse=True)
        names: tuple[Hashable, ...] = tuple(vertices.tolist())
        rows, columns = np.split(numbers.reshape(-1), [tails.size])
    else:
        order: dict[Hashable, int] = {}
        ends = [order.setdefault(name, len(order)) for pair in zip(tails, heads, strict=True) for name in pair]
        rows, columns = np.array(ends, np.int64).reshape(-1, 2).T
        names = tuple(order)
    return names, rows, columns
