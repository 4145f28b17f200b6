"""Return views of a matrix in either storage, for the recursions and loops of this folder.

Rows and columns count vertices. With ``storage="bits"`` a column range must start at a multiple of 32, and becomes a
range of words. A pivot matrix P is never packed.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from semiring.kernels.contract import KernelPlan
from semiring.namespaces import Array

__all__ = ["WORD", "block", "columns_of", "has_diverged", "zero_item"]


WORD = 32  # columns to a word of packed bits


def columns_of(plan: KernelPlan, start: int, stop: int) -> slice:
    """Return the columns ``start:stop`` in the units of the storage of ``plan``."""
    if plan.storage == "bits":
        return slice(start // WORD, -(-stop // WORD))
    return slice(start, stop)


def block(plan: KernelPlan, A: Array, rows: tuple[int, int], columns: tuple[int, int]) -> Array:
    """Return the view A[rows, columns]; both are half-open ranges of vertices."""
    return A[rows[0] : rows[1], columns_of(plan, *columns)]


def zero_item(plan: KernelPlan) -> Any:
    """Return the item that fills a block with 0̄: the element, or a word of 32, including tail bits."""
    if plan.storage == "bits":
        return np.uint32(0xFFFFFFFF if plan.zero else 0)
    return plan.zero


def has_diverged(plan: KernelPlan, start: int, cannot_diverge: bool) -> bool:
    """Return whether the block closed last, which begins at vertex ``start``, met a pivot without a star.

    Kernels count pivots from the block's first row; the function converts the index to the vertex. ``cannot_diverge``:
    the star of the semiring exists for every element. Kernels of a device leave a pivot in ``plan.status.word``, which
    is read once, at the end of the closure.
    """
    if cannot_diverge or plan.status.diverged < 0:
        return False
    plan.status.diverged += start
    return True
