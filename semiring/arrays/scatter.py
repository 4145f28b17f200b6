"""Write entries that are listed by row and column into a matrix, where ⊕ adds the entries of one place."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from semiring.algebra import Semiring

__all__ = ["add_duplicates", "scatter"]

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
    while True:
        heads = np.ones(cells.size, bool)
        heads[1:] = cells[1:] != cells[:-1]
        starts = np.flatnonzero(heads)
        if starts.size == cells.size:
            return cells, values
        place = np.arange(cells.size) - np.repeat(starts, np.diff(starts, append=cells.size))
        second = np.flatnonzero(place & 1)
        values[second - 1] = semiring.add(values[second - 1], values[second])
        is_first = (place & 1) == 0
        cells, values = cells[is_first], values[is_first]
