"""Reduce rows of a matrix by ⊕, and write listed entries into a matrix, where ⊕ adds the entries of one place."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from semiring.algebra import Semiring
from semiring.namespaces import array_namespace

__all__ = ["add_duplicates", "farthest_entries", "fold_rows", "scatter"]


def farthest_entries(values: Any, semiring: Semiring) -> Any:
    """Return the value of the farthest vertex for each row of paths (m, n), as an array (m,).

    It is the worst value of the row, and 0̄ if a vertex is not reached. In max-plus it is the longest path: the best
    value of the row, because longer paths are better and vertices that are not reached have no path.
    """
    return fold_rows(values, semiring, worst=semiring.tropical != "max")


def fold_rows(values: Any, semiring: Semiring, *, worst: bool) -> Any:
    """Return the best of each row of values (m, n) by a ⊕ that selects, or the worst, (m,). If n is 0, then m is 0.

    If ⊕ is neither a minimum nor a maximum, the two halves of the rows are compared in log n array operations.
    """
    if not values.shape[1]:
        return values.reshape(values.shape[0])
    op = semiring.add.expression.op
    if op in ("min", "max") and values.dtype.kind != "b":
        return values.max(axis=1) if (op == "min") == worst else values.min(axis=1)
    xp = array_namespace(values)
    while values.shape[1] > 1:
        half = values.shape[1] // 2
        x, y = values[:, :half], values[:, half : 2 * half]
        selected = semiring.add(x, y)
        chosen = xp.where(selected == x, y, x) if worst else selected
        values = xp.concatenate([chosen, values[:, 2 * half :]], axis=1)
    return values[:, 0]


Array: TypeAlias = NDArray[Any]


def scatter(matrix: Array, rows: Array, columns: Array, values: Array, semiring: Semiring) -> bool:
    """Write ``values[e]`` to ``matrix[rows[e], columns[e]]``, and return whether a place was listed more than once.

    ⊕ adds the values of one place in their order. ``matrix`` (m, n) is C-contiguous; places that are not listed do not
    change. ``rows`` and ``columns`` are integers within it, ``values`` are of its dtype. The cost is a sort, unless the
    places are in order, and log₂ of the largest number of entries of one place rounds of array operations.
    """
    cells = np.asarray(rows, np.int64) * matrix.shape[1] + columns
    if not (cells[1:] > cells[:-1]).all():
        order = np.argsort(cells, kind="stable")
        cells, values = add_duplicates(cells[order], values[order], semiring)
    matrix.reshape(-1)[cells] = values
    return int(cells.size) < int(np.size(rows))


def add_duplicates(cells: Array, values: Array, semiring: Semiring) -> tuple[Array, Array]:
    """Return the distinct cells of a sorted list, each with the ⊕ of its values.

    Each round adds neighbours in pairs, until every cell occurs once. The values are overwritten.
    """
    xp = array_namespace(values)
    while True:
        heads = xp.ones(cells.size, bool)
        heads[1:] = cells[1:] != cells[:-1]
        starts = xp.flatnonzero(heads)
        if starts.size == cells.size:
            return cells, values
        place = xp.arange(cells.size) - starts[xp.cumsum(heads) - 1]
        second = xp.flatnonzero(place & 1)
        values[second - 1] = semiring.add(values[second - 1], values[second])
        is_first = (place & 1) == 0
        cells, values = cells[is_first], values[is_first]
