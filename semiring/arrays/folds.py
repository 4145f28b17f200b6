"""The best or the worst of each row by ⊕."""

from __future__ import annotations

from typing import Any

from semiring.algebra import Semiring
from semiring.namespaces import array_namespace

__all__ = ["farthest", "fold_rows"]


def farthest(values: Any, semiring: Semiring) -> Any:
    """The value of the farthest vertex of each row of paths (m, n), (m,): the worst, 0̄ where one is not reached.

    In max-plus the longest: there a path is the better the longer it is, and what is not reached is no path at all.
    """
    return fold_rows(values, semiring, worst=semiring.tropical != "max")


def fold_rows(values: Any, semiring: Semiring, *, worst: bool) -> Any:
    """The best of each row of values (m, n) by a ⊕ that selects, or the worst, (m,); n > 0.

    Where ⊕ is no minimum and no maximum, halves are compared: log n array operations.
    """
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
