"""Reduce each row of a matrix to its best or its worst value by ⊕."""

from __future__ import annotations

from typing import Any

from semiring.algebra import Semiring
from semiring.namespaces import array_namespace

__all__ = ["farthest_entries", "fold_rows"]


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
