"""Compute products and closures of stacks for operators of other libraries, with the data for their gradients."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from semiring.algebra import Semiring
from semiring.algebra.operations import numpy_dtype
from semiring.closures import closure_of_rounded, closure_with_predecessors
from semiring.linalg import matmul, multiply
from semiring.namespaces import Array, array_namespace

__all__ = ["closure_with_trees", "entrywise", "product", "product_with_witness", "stack_closure"]


def product(A: Array, B: Array, semiring: Semiring, check: bool) -> Array:
    """Return A ⊗ B for A (..., m, k) and B (..., k, n) with as many dimensions; leading dimensions broadcast."""
    result: Array = matmul(*_as_stacks(A, B), semiring, check=check)
    return result.reshape(*np.broadcast_shapes(A.shape[:-2], B.shape[:-2]), *result.shape[-2:])


def product_with_witness(A: Array, B: Array, semiring: Semiring, check: bool) -> tuple[Array, Array]:
    """Return `product`, and int32 W (..., m, n): the smallest k that attains an entry, or -1 if the entry is 0̄."""
    C: Array
    W: Array
    C, W = matmul(*_as_stacks(A, B), semiring, return_witness=True, check=check)
    batch = np.broadcast_shapes(A.shape[:-2], B.shape[:-2])
    W = W.astype(np.int32, copy=False)
    return C.reshape(*batch, *C.shape[-2:]), W.reshape(*batch, *W.shape[-2:])


def entrywise(A: Array, B: Array, semiring: Semiring, check: bool) -> Any:
    """Return A ⊗ B entry by entry, of arrays that broadcast."""
    return array_namespace(A).asarray(multiply(A, B, semiring, check=check))


def _as_stacks(A: Array, B: Array) -> tuple[Array, Array]:
    """Return A, and B as a matrix if it is a stack of one matrix, because one product then serves all rows of A."""
    return A, (B.reshape(B.shape[-2:]) if B.ndim > 2 and prod(B.shape[:-2]) == 1 else B)


def stack_closure(A: Array, semiring: Semiring, reflexive: bool, check: bool, rounded_to: str = "") -> Any:
    """Return A*, or A⁺, for A (..., n, n).

    ``rounded_to`` is the dtype to which the entries were rounded, if it is not the dtype of A.
    """
    return closure_of_rounded(A, semiring, numpy_dtype(rounded_to or A.dtype), reflexive=reflexive, check=check)


def closure_with_trees(A: Array, semiring: Semiring, check: bool, rounded_to: str = "") -> tuple[Array, Array]:
    """Return A* and int32 predecessors, for A (..., n, n): row i of each matrix is a tree of best paths from i.

    Predecessors are negative where no path exists, and on the diagonal. ``rounded_to`` is as in `stack_closure`.
    """
    narrow = numpy_dtype(rounded_to) if rounded_to else None
    xp = array_namespace(A)
    D, pred = xp.empty(A.shape, A.dtype), xp.empty(A.shape, np.int32)
    for index in np.ndindex(A.shape[:-2]):
        D[index], pred[index] = closure_with_predecessors(A[index], semiring, check=check, rounded_to=narrow)
    return D, pred
