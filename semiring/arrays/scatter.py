"""Entries listed by row and column, written into a matrix; what is listed more than once is added by ⊕."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from semiring.algebra import Semiring

__all__ = ["added", "scatter"]

Array: TypeAlias = NDArray[Any]


def scatter(matrix: Array, rows: Array, columns: Array, values: Array, semiring: Semiring) -> bool:
    """``matrix[rows[e], columns[e]]`` ← ``values[e]``, or where a place is listed again the ⊕ of them in their order.

    ``matrix`` (m, n) is C-contiguous; places that are not listed stay. ``rows`` and ``columns`` are integers within it,
    ``values`` of its dtype. Costs a sort unless the places come in order, and log₂ of the most entries of one place
    rounds of array operations. Returns whether a place was listed again.
    """
    cells = np.asarray(rows, np.int64) * matrix.shape[1] + columns
    if not (cells[1:] > cells[:-1]).all():
        order = np.argsort(cells, kind="stable")
        cells, values = added(cells[order], values[order], semiring)
    matrix.reshape(-1)[cells] = values
    return int(cells.size) < int(np.size(rows))


def added(cells: Array, values: Array, semiring: Semiring) -> tuple[Array, Array]:
    """Sorted cells, each once, with the ⊕ of its values: neighbours in pairs, until no two are left of any cell.

    The values are overwritten.
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
        kept = (place & 1) == 0
        cells, values = cells[kept], values[kept]
