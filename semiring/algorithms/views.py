"""Views of one matrix, whichever way it is stored: what the recursions and loops of this folder are written in.

Rows and columns are counted in vertices. With ``storage="bits"`` a column range must start at a multiple of 32, and it
becomes a range of words; a pivot matrix P is never packed.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from semiring.kernels.contract import KernelPlan

__all__ = ["WORD", "block", "columns_of", "has_diverged", "zero_item"]

Array: TypeAlias = Any  # a 2-D array of the backend's device, or a view of one

WORD = 32  # columns to a word of packed bits


def columns_of(plan: KernelPlan, start: int, stop: int) -> slice:
    """The columns ``start:stop`` as the storage of ``plan`` counts them."""
    if plan.storage == "bits":
        return slice(start // WORD, -(-stop // WORD))
    return slice(start, stop)


def block(plan: KernelPlan, A: Array, rows: tuple[int, int], columns: tuple[int, int]) -> Array:
    """The view A[rows, columns], both half-open ranges of vertices."""
    return A[rows[0] : rows[1], columns_of(plan, *columns)]


def zero_item(plan: KernelPlan) -> Any:
    """What fills a block with 0̄: the element, or 32 of them in a word, in tail bits too."""
    if plan.storage == "bits":
        return np.uint32(0xFFFFFFFF if plan.zero else 0)
    return plan.zero


def has_diverged(plan: KernelPlan, start: int, known: bool) -> bool:
    """Whether the block closed last, which begins at vertex ``start``, met a pivot without a star.

    Kernels count pivots from the block's first row; here the index becomes the vertex. ``known``: no pivot can diverge
    (the semiring's star exists everywhere). Kernels of a device leave a pivot in ``plan.status.word``, which is read
    once, at the end.
    """
    if known or plan.status.diverged < 0:
        return False
    plan.status.diverged += start
    return True
