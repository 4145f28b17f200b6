"""Floats of min-plus and max-plus: potentials of each strong component by one elimination in float64.

They are valid if the elimination succeeds and no weight is lost in rounding beside them
(`semiring.algorithms.potentials.small_matrices`).
"""

# mypy: disallow-untyped-defs=False, disallow-untyped-calls=False, disallow-incomplete-defs=False
# (the loops below are compiled: their types are Numba's)

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from semiring.algebra.catalogue import min_plus
from semiring.kernels.cpu.closing.gaining.components import (
    find_components,
    gather_weights,
    has_hub_at_vertex_0,
    join_components,
)
from semiring.kernels.cpu.closing.gaining.loops import close_block, has_negative_zero, inner, outer, run_on_threads
from semiring.kernels.cpu.codegen.memory_intrinsics import use_wide_vectors
from semiring.kernels.cpu.kernels import kernels_for
from semiring.kernels.engine import make_plan

__all__ = ["PotentialClosure"]

Array: TypeAlias = NDArray[Any]

_FLOAT64 = np.dtype(np.float64)
_EPSILON = 2.0**-52


class PotentialClosure:
    """The closure of floats of min-plus, or of max-plus with the sign -1, under potentials for each component."""

    def __init__(self, dtype: np.dtype[Any], sign: int) -> None:
        self.sign, limits = sign, np.finfo(dtype)
        # Numbers below this bound may be added to any float of the dtype.
        self._addend_limit = float(limits.max) * float(limits.eps) / 8
        self._search_kernels = kernels_for(make_plan(min_plus, _FLOAT64))
        self._bits_dtype = np.dtype(f"u{dtype.itemsize}")
        self._signed_kernels = kernels_for(make_plan(min_plus, dtype))
        self.closing = kernels_for(make_plan(min_plus, dtype, nonnegative=True))

    def survey(self, A: Array, threads: int) -> Any:
        """Return the order of the vertices, the starts of their components, and potentials: (count, n) each."""
        count, n = A.shape[:2]
        survey = np.empty((count, n), np.int64), np.empty((count, n), np.uint8), np.empty((count, n))

        def find(start: int, stop: int) -> int:
            (spare, closed), (job, piece) = np.empty((2, n, n)), self._search_kernels.take_job(n)
            arguments = (
                self.sign,
                self._addend_limit,
                spare,
                closed,
                spare.view(np.uint64),
                job.address,
                piece.address,
            )
            failed = int(find_potentials(A[start:stop], *arguments, *(x[start:stop] for x in survey)))
            self._search_kernels.return_job(n, job, piece)
            return failed

        return survey if run_on_threads(find, self.closing, A, threads) < 0 else None

    def close(self, A: Array, survey: Any, D: Array, threads: int) -> None:
        """Write A* of every matrix to D."""
        n = A.shape[1]

        def one(start: int, stop: int) -> int:
            spare, other = np.empty((2, n, n), A.dtype)
            (job, piece), (signed_job, signed_piece) = self.closing.take_job(n), self._signed_kernels.take_job(n)
            arguments = (
                *(self.sign, spare, spare.view(self._bits_dtype), other),
                *(job.address, signed_job.address, piece.address),
            )
            _close_components(A[start:stop], *arguments, *(x[start:stop] for x in survey), D[start:stop])
            self.closing.return_job(n, job, piece)
            self._signed_kernels.return_job(n, signed_job, signed_piece)
            return -1

        run_on_threads(one, self.closing, A, threads)


@outer
def find_potentials(As, sign, addend_limit, spare, weights, bits, job, workspace, orders, marks, hs):
    """Write the components and potentials of every matrix.

    Return the first matrix that needs another method, or -1. Potentials must have magnitudes below ``addend_limit``.
    ``spare`` and ``weights`` (n, n) float64 are workspace, and ``bits`` is ``spare`` as unsigned integers for the
    kernels. ``orders`` (count, n) receive the vertices, component after component. ``marks`` become 1 at the start of a
    component, and 3 at the start of a weak component. ``hs`` receive the potentials in the order of the vertices.
    """
    use_wide_vectors()
    for m in range(As.shape[0]):
        A, order, mark, h = As[m], orders[m], marks[m], hs[m]
        n = A.shape[0]
        least_weight = _find_least_weight(A, sign, h)
        one = least_weight >= 0 or has_hub_at_vertex_0(A, sign)
        mark[:] = 0
        mark[0], h[:] = 3, 0
        if one:
            for i in range(n):
                order[i] = i
        else:
            if (sign > 0 and has_negative_zero(A)) or not n * least_weight > -addend_limit:
                return m
            one = find_components(A, sign, order, mark) == 1
        if least_weight >= 0:
            continue
        start = 0
        while start < n:
            stop = start + 1
            while stop < n and mark[stop] == 0:
                stop += 1
            vertices = order[start:stop]
            if stop - start == 1 and not one:
                if sign * A[vertices[0], vertices[0]] < 0:
                    return m
            elif not _compute_potentials(
                A, sign, vertices, addend_limit, not one, spare, weights, bits, job, workspace, h[start:stop]
            ):
                return m
            start = stop
    return -1


@inner
def _find_least_weight(A, sign, row):
    """Return the least weight of a matrix; ``row`` (n,) is workspace."""
    row[:] = np.inf
    for i in range(A.shape[0]):
        for j in range(A.shape[0]):
            x = sign * A[i, j]
            row[j] = x if x < row[j] else row[j]
    return row.min()


@inner
def _compute_potentials(A, sign, vertices, addend_limit, is_part, spare, weights, bits, job, workspace, h):
    """Compute the potentials h of one component, 0 if no weight is below 0, and return whether they are valid.

    ``is_part``: whether the matrix has other components.
    """
    n, ends = vertices.size, np.full((3, vertices.size), np.inf)
    gather_weights(A, vertices, not is_part, sign, weights)
    for i in range(n):
        for j in range(n):
            x = weights[i, j]
            spare[i, j] = x
            ends[0, j] = x if x < ends[0, j] else ends[0, j]
    h[:] = 0
    if is_part and ends[0].min() >= 0:
        return True
    if close_block(bits[:n, :n], job, workspace) >= 0:
        return False
    ends[0] = -np.inf
    for i in range(n):
        for j in range(n):
            x = spare[i, j]
            h[j] = x if x < h[j] else h[j]
            ends[0, j] = x if x > ends[0, j] else ends[0, j]
    low = h.min()
    if not (ends[0].max() < np.inf and low > -addend_limit):
        return False
    for i in range(n):
        for j in range(n):
            x = weights[i, j]
            y, size = x + (h[i] - h[j]), abs(x) if x != 0 else np.inf
            ends[1, j] = y if y < ends[1, j] else ends[1, j]
            ends[2, j] = size if size < ends[2, j] else ends[2, j]
    return ends[1].min() >= 16 * _EPSILON * low and 16.0 * n * _EPSILON * -low < ends[2].min()


@outer
def _close_components(As, sign, spare, bits, products, job, signed_job, workspace, orders, marks, hs, Ds):
    """Write A* of every matrix to D by the result of `find_potentials`.

    D may be A. ``spare`` and ``products`` (n, n) are workspace. ``job`` closes non-negative weights, and ``signed_job``
    any weights.
    """
    use_wide_vectors()
    n = As.shape[1]
    bounds, first, stack = np.empty(n + 1, np.int64), np.empty(n + 1, np.int64), np.empty((2 * n + 3, 3), np.int64)
    for m in range(As.shape[0]):
        A, D, order, h = As[m], Ds[m], orders[m], hs[m]
        count = weak = 0
        for i in range(n):
            if marks[m, i]:
                bounds[count] = i
                if marks[m, i] == 3:
                    first[weak] = count
                    weak += 1
                count += 1
        bounds[count], first[weak] = n, count
        gather_weights(A, order, count == 1, sign, spare)
        for c in range(count):
            low, high = bounds[c], bounds[c + 1]
            if high - low > 1 or count == 1:
                _close_under_potentials(
                    spare[low:high, low:high], bits[low:high, low:high], h[low:high], job, workspace
                )
        if count > 1:
            for i in range(n):
                spare[i, i] = 0
            for w in range(weak):
                join_components(spare, bits, products, bounds, first[w], first[w + 1], stack, signed_job, workspace)
        for i in range(n):
            for j in range(n):
                D[order[i], order[j]] = spare[i, j] if sign > 0 else 0 - spare[i, j]


@inner
def _close_under_potentials(block, bits, h, job, workspace):
    """Close a component under its potentials, in place."""
    n = block.shape[0]
    for i in range(n):
        for j in range(n):
            x = block[i, j] + (h[i] - h[j])
            block[i, j] = x if x > 0 else 0.0
    close_block(bits, job, workspace)
    for i in range(n):
        for j in range(n):
            block[i, j] = block[i, j] - (h[i] - h[j])
