"""Floats of min-plus and max-plus: potentials of each strong component by one elimination in float64.

They are valid if the elimination succeeds and no weight is lost in rounding beside them
(`semiring.algorithms.potentials.small_matrices`). Paths between components are products of the original weights. The
order of the components and the halves are the same as in `semiring.graphs.strongly_connected`.

`small_gains` uses the first functions too, which close blocks inside loops and share a stack among threads.
"""

# mypy: disallow-untyped-defs=False, disallow-untyped-calls=False, disallow-incomplete-defs=False
# (the loops below are compiled: their types are Numba's)

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from semiring.algebra.catalogue import min_plus
from semiring.kernels.contract import Array
from semiring.kernels.cpu.closing.pivot_loops import PADDED, PIVOTS_AT_A_TIME, close
from semiring.kernels.cpu.codegen.jit import inner, kernel
from semiring.kernels.cpu.codegen.memory_intrinsics import put, use_wide_vectors
from semiring.kernels.cpu.kernels import Kernels, kernels_for
from semiring.kernels.cpu.order import PIVOTS
from semiring.kernels.cpu.product.macro_kernel import word
from semiring.kernels.engine import make_plan
from semiring.kernels.graphs.component_search import components_of_words

_FLOAT64 = np.dtype(np.float64)
_EPSILON = 2.0**-52


def run_on_threads(function: Callable[[int, int], int], kernels: Kernels, A: Array, threads: int) -> int:
    """Call ``function(start, stop)`` for parts of a stack A (count, n, n).

    Return the greatest result.
    """
    count, n = A.shape[:2]
    if count == 1:
        return function(0, 1)
    answers: list[int] = []
    kernels.run_on_stack(lambda start, stop: answers.append(function(start, stop)), count, A.size * n, threads)
    return max(answers)


@inner
def close_block(bits, job, workspace):
    """Compute A ← A* as `Kernels.close` does for a matrix of this size; ``bits`` are the bits of A.

    Return the first pivot without a star, or -1.
    """
    n, padded, pivots = bits.shape[0], word(job, PADDED), word(job, PIVOTS_AT_A_TIME)
    put(n if n <= padded else PIVOTS, job + 8 * PIVOTS_AT_A_TIME)
    failed = close(bits, job, workspace)
    put(pivots, job + 8 * PIVOTS_AT_A_TIME)
    return failed


@inner
def has_negative_zero(A):
    """Return whether an entry of A is -0.0."""
    flag = 0
    for i in range(A.shape[0]):
        for j in range(A.shape[0]):
            flag |= (A[i, j] == 0) & (math.copysign(1.0, A[i, j]) < 0)
    return flag != 0


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
            workspace = spare, closed, spare.view(np.uint64), job.address, piece.address
            parts = (x[start:stop] for x in survey)
            failed = int(find_potentials(A[start:stop], self.sign, self._addend_limit, *workspace, *parts))
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


@kernel
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


@kernel
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


_RUN = 64  # as in `semiring.graphs.strongly_connected`


@inner
def has_hub_at_vertex_0(A, sign):
    """Return whether vertex 0 has edges to and from every vertex, also to vertex 0.

    A graph with these edges is strongly connected. The converse does not hold: if the result is False, the graph may be
    strongly connected too.
    """
    none, result = sign * np.inf, True
    for i in range(A.shape[0]):
        result &= (A[0, i] != none) & (A[i, 0] != none)
    return result


@inner
def find_components(A, sign, order, mark):
    """Write the vertices to ``order``, component after component, in the order of `semiring.graphs.strongly_connected`.

    ``mark`` becomes 1 at the start of a component, and 3 at the start of a weak component. Return the number of strong
    components.
    """
    n, none = A.shape[0], sign * np.inf
    words, transposed = np.zeros((n, (n + 31) >> 5), np.uint32), np.zeros((n, (n + 31) >> 5), np.uint32)
    for i in range(n):
        for j in range(n):
            edge = np.uint32(A[i, j] != none)
            words[i, j >> 5] |= edge << np.uint32(j & 31)
            transposed[j, i >> 5] |= edge << np.uint32(i & 31)
    number, weak, count, weak_count = components_of_words(words, transposed, n)
    weak_of, starts = np.empty(count, np.int64), np.zeros(weak_count + 1, np.int64)
    for v in range(n):
        weak_of[number[v]] = weak[v]
    for c in range(count):
        starts[weak_of[c] + 1] += 1
    for w in range(weak_count):
        starts[w + 1] += starts[w]
    ends = starts.copy()
    place = np.empty(count, np.int64)
    for c in range(count):
        place[c] = ends[weak_of[c]]
        ends[weak_of[c]] += 1
    begins = np.zeros(count + 1, np.int64)
    for v in range(n):
        begins[place[number[v]] + 1] += 1
    for c in range(count):
        begins[c + 1] += begins[c]
    mark[:] = 0
    for c in range(count):
        mark[begins[c]] = 1
    for w in range(weak_count):
        mark[begins[starts[w]]] = 3
    for v in range(n):
        c = place[number[v]]
        order[begins[c]] = v
        begins[c] += 1
    return count


@inner
def gather_weights(A, vertices, is_whole, sign, out):
    """Write the rows and columns ``vertices`` of A as weights of min-plus to ``out``.

    ``is_whole``: whether ``vertices`` are all vertices in order.
    """
    for i in range(vertices.size):
        if is_whole:
            for j in range(vertices.size):
                out[i, j] = 0 + sign * A[i, j]
        else:
            for j in range(vertices.size):
                out[i, j] = 0 + sign * A[vertices[i], vertices[j]]


@inner
def join_components(D, bits, products, bounds, begin, end, stack, job, workspace):
    """Compute `semiring.graphs.strongly_connected.join_components` of the components ``begin`` … ``end`` - 1.

    They form one weak component. ``products`` (n, n) is workspace.
    """
    depth = _push_range(stack, 0, begin, end, 0)
    while depth:
        depth -= 1
        first, last, halves = stack[depth, 0], stack[depth, 1], stack[depth, 2]
        low, high = bounds[first], bounds[last]
        if last - first == 1:
            continue
        if high - low == last - first and high - low <= _RUN:
            close_block(bits[low:high, low:high], job, workspace)
            continue
        half = _find_half(bounds, first, last)
        if halves:
            _join_halves(D, products, bounds, first, half, last)
            continue
        depth = _push_range(stack, depth, first, last, 1)
        depth = _push_range(stack, depth, first, half, 0)
        depth = _push_range(stack, depth, half, last, 0)


@inner
def _push_range(stack, depth, first, last, halves):
    stack[depth, 0], stack[depth, 1], stack[depth, 2] = first, last, halves
    return depth + 1


@inner
def _find_half(bounds, first, last):
    low, high = bounds[first], bounds[last]
    half = np.searchsorted(bounds[: last + 1], (low + high) // 2)
    if half > first + 1 and bounds[half] - (low + high) / 2 > (low + high) / 2 - bounds[half - 1]:
        half -= 1
    return min(max(first + 1, half), last - 1)


@inner
def _join_halves(D, products, bounds, first, half, last):
    """Compute C ← L ⊗ C, and then C ⊗ R, for the closed triangular blocks L and R on the diagonal."""
    low, middle, high = bounds[first], bounds[half], bounds[last]
    width = high - middle
    for c in range(first, half):
        for i in range(bounds[c], bounds[c + 1]):
            row = products[i - low, :width]
            row[:] = np.inf
            for k in range(bounds[c], middle):
                _improve_row(row, D[i, k], D[k, middle:high])
    D[low:middle, middle:high] = np.inf
    for i in range(low, middle):
        for c in range(half, last):
            for k in range(bounds[c], bounds[c + 1]):
                _improve_row(D[i, bounds[c] : high], products[i - low, k - middle], D[k, bounds[c] : high])


@inner
def _improve_row(row, x, edges):
    if x < np.inf:
        for j in range(row.size):
            y = x + edges[j]
            row[j] = y if y < row[j] else row[j]
