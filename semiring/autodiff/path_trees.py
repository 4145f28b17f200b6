"""Compute sums along the trees of best paths, up from the leaves and down from the roots.

Row i of pred holds a tree with root i: pred[i, j] is the vertex before j on the path from i. Entries of the matrices c,
g, x, y, z belong to its vertices. Let M be the linear map (M y)[i, j] = c[i, j] · y[i, pred[i, j]], or 0 if j has no
predecessor or its predecessor is the root. The functions are

    `sums_down`: y = x + M y,        `sums_up`: z = g + Mᵀ z:

z sums the values of the branches below a vertex, with the weight c of each edge, and y the values of the path to it.
The two maps are transposes of each other, so each is the gradient of the other. The root is left out, because its value
is the constant 1̄.

On the CPU a row takes O(n): its vertices are sorted so that each vertex comes after all vertices below it. On a GPU all
rows take O(n log h) together, for paths of h edges. The product is (I - M)⁻¹ = (I + M)(I + M²)(I + M⁴)…, where
M² is M with the pointers doubled.
"""

# mypy: disallow-untyped-defs=False, disallow-untyped-calls=False, disallow-incomplete-defs=False
# The settings are for compiled functions, whose types Numba infers.

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from semiring.kernels.cpu.codegen.jit import kernel
from semiring.kernels.cpu.thread_pool import run_tasks
from semiring.namespaces import Array, array_namespace
from semiring.thread_counts import get_threads

__all__ = ["sum_by_doubling", "sums_down", "sums_up"]


_ENTRIES_PER_THREAD = 1 << 15  # with fewer entries for each, more threads are not faster


def sums_up(c: Array, g: Array, pred: Array) -> Any:
    """Return z (..., n, n) with z[i, p] = g[i, p] + the sum of c[i, j]·z[i, j] over the j whose predecessor is p ≠ i.

    c and g (..., n, n) have one floating dtype. pred (..., n, n) holds integers, negative for no predecessor. The
    arrays are of NumPy or CuPy.
    """
    return _sums(c, g, pred, is_upward=True)


def sums_down(c: Array, x: Array, pred: Array) -> Any:
    """Return y (..., n, n) with y[i, j] = x[i, j] + c[i, j]·y[i, p] for the predecessor p ≠ i of j, as in `sums_up`."""
    return _sums(c, x, pred, is_upward=False)


def _sums(c: Array, values: Array, pred: Array, *, is_upward: bool) -> Any:
    """Return the sums up or down the trees, with threads for groups of rows on the host."""
    xp, n = array_namespace(c), values.shape[-1]
    if not values.size:
        return xp.array(values)
    result = xp.array(values, order="C").reshape(-1, n)
    c, pred = (xp.ascontiguousarray(operand).reshape(-1, n) for operand in (c, pred))
    if xp is not np:
        return sum_by_doubling(c, result, pred, n, is_upward=is_upward).reshape(values.shape)
    threads = min(get_threads(), max(1, result.size // _ENTRIES_PER_THREAD))
    bounds = np.linspace(0, result.shape[0], 4 * threads + 1 if threads > 1 else 2, dtype=np.int64)
    tasks = [(c, result, pred, int(first), int(last), is_upward) for first, last in pairwise(bounds)]
    run_tasks(_sum_rows, tasks, threads)
    return result.reshape(values.shape)


@kernel
def _sum_rows(c, values, pred, first, last, is_upward):
    """Update rows first … last - 1 of ``values`` in place, from the leaves up, or from the roots down."""
    n = values.shape[1]
    below = np.empty(n, np.int32)  # the number of children that are not yet processed
    order = np.empty(n, np.int32)
    for row in range(first, last):
        root = row % n
        parents, weights, v = pred[row], c[row], values[row]
        below[:] = 0
        for j in range(n):
            if parents[j] >= 0:
                below[parents[j]] += 1
        count = 0
        for j in range(n):
            if below[j] == 0:
                order[count] = j
                count += 1
        k = 0
        while k < count:
            j = order[k]
            k += 1
            p = parents[j]
            if p >= 0:
                if is_upward and p != root:
                    v[p] += weights[j] * v[j]
                below[p] -= 1
                if below[p] == 0:
                    order[count] = p
                    count += 1
        if not is_upward:
            for k in range(count - 1, -1, -1):
                j = order[k]
                p = parents[j]
                if p >= 0 and p != root:
                    v[j] += weights[j] * v[p]


def sum_by_doubling(c: Array, values: Array, pred: Array, n: int, *, is_upward: bool) -> Array:
    """Return the sums of rows (rows, n), row r with the root r mod n, by array operations, in ⌈log₂ h⌉ steps."""
    xp = array_namespace(c)
    rows = xp.arange(values.shape[0])[:, None]
    parent = xp.where((pred < 0) | (pred == rows % n), -1, pred)
    while bool((parent >= 0).any()):
        has_parent, safe = parent >= 0, xp.maximum(parent, 0)
        if is_upward:
            step = xp.zeros_like(values)
            xp.add.at(step, (xp.broadcast_to(rows, safe.shape), safe), xp.where(has_parent, c * values, 0))
        else:
            step = xp.where(has_parent, c * xp.take_along_axis(values, safe, axis=1), 0)
        values = values + step
        c = xp.where(has_parent, c * xp.take_along_axis(c, safe, axis=1), 0)
        parent = xp.where(has_parent, xp.take_along_axis(parent, safe, axis=1), -1)
    return values
