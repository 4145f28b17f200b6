"""Small matrices whose weights gain, below 0 in min-plus or above 1 in max-times: closed under potentials by one loop.

The same as the chain does to larger ones (`semiring.chain.steps.components`, ``shifted``, ``scaled``, ``raised``), and
the same bits. Floats of min-plus and max-plus: the strong components in the same order, each under the potentials of
one elimination in float64, which are taken where they come through and drown no weight
(`semiring.algorithms.potentials.small`); between components, products of the weights as they are, along the same
halves. Floats of max-times and min-times: factors by sweeps. Integers whose sums are exact in float64 are closed there.
Blocks are closed by the kernels of each definition, which are called from here (`blocks.close`). Whatever is not that
simple is left to the chain.

Cost: n³ or 2 n³ pairs a matrix, stacks on several threads; workspace some matrices a thread.
"""

# mypy: disallow-untyped-defs=False, disallow-untyped-calls=False, disallow-incomplete-defs=False
# (the loops below are compiled: their types are Numba's)

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Protocol, TypeAlias

import numpy as np
from numba import njit
from numpy.typing import NDArray

from semiring.algebra import Semiring
from semiring.algebra.catalogue import max_plus, max_times, min_plus, min_times
from semiring.kernels.contract import Plan
from semiring.kernels.cpu.closing.blocks import AT_A_TIME, PADDED, PIVOTS, close
from semiring.kernels.cpu.codegen.jit import cached
from semiring.kernels.cpu.codegen.memory import put, wide
from semiring.kernels.cpu.compiled import Kernels, kernels_for
from semiring.kernels.cpu.product.macro import word
from semiring.kernels.cpu.threads.pool import run_tasks
from semiring.kernels.engine import make_plan
from semiring.kernels.graphs.components import components_of_words

__all__ = ["SmallGains"]

Array: TypeAlias = NDArray[Any]

_ROWS = 160  # up to which one thread and one block are as fast as anything
_PIECE = 1 << 16  # entries of a stack of integers at a time: temporaries stay in the second-level cache
_FLOAT64 = np.dtype(np.float64)
_EPSILON = 2.0**-52
_RUN = 64  # as in `semiring.graphs.components`


class SmallGains:
    """`semiring.kernels.contract.GainingClosures` of floats and integers on the host."""

    def rows(self, plan: Plan) -> int:
        """The most rows of matrices that are looked at and closed so."""
        way = _way(plan)
        return 0 if way is None or way.closing.first_calls.left else _ROWS

    def look(self, plan: Plan, A: Array) -> Any:
        """What is to be known of A (count, n, n) before it is closed; None where some matrix needs more care."""
        way = _way(plan)
        return None if way is None else way.look(_contiguous(A), plan.threads)

    def close(self, plan: Plan, A: Array, found: Any, out: Array) -> None:
        """Out ← A* of every matrix, for what was found; out may be A."""
        way = _way(plan)
        assert way is not None
        D = out if out.flags.carray else np.empty(out.shape, out.dtype)
        way.close(_contiguous(A), found, D, plan.threads)
        if D is not out:
            out[...] = D


class _Way(Protocol):
    """How the matrices of a semiring and a dtype are closed."""

    closing: Kernels

    def look(self, A: Array, threads: int) -> Any: ...

    def close(self, A: Array, found: Any, D: Array, threads: int) -> None: ...


def _way(plan: Plan) -> _Way | None:
    """The way of a plan's semiring and dtype; None where there is none."""
    if "gaining" not in plan.memo:
        plan.memo["gaining"] = _make_way(plan.semiring, plan.dtype)
    found: _Way | None = plan.memo["gaining"]
    return found


def _make_way(semiring: Semiring, dtype: np.dtype[Any]) -> _Way | None:
    sign = 1 if semiring == min_plus else -1
    if semiring in (min_plus, max_plus) and dtype.kind == "i":
        return _WholeNumbers(semiring.zero_for(dtype), sign)
    if dtype.char not in "fd":
        return None
    if semiring in (min_plus, max_plus):
        return _Sums(dtype, sign)
    return _Products(semiring, dtype) if semiring in (max_times, min_times) else None


def _contiguous(A: Array) -> Array:
    return A if A.flags.carray else np.array(A, order="C")


class _Sums:
    """Floats of min-plus, or of max-plus with the sign -1: potentials for each component."""

    def __init__(self, dtype: np.dtype[Any], sign: int) -> None:
        self.sign, limits = sign, np.finfo(dtype)
        self._most = float(limits.max) * float(limits.eps) / 8  # what may be added to any float of the dtype
        self._search = kernels_for(make_plan(min_plus, _FLOAT64))
        self._bits = np.dtype(f"u{dtype.itemsize}")
        self._any = kernels_for(make_plan(min_plus, dtype))
        self.closing = kernels_for(make_plan(min_plus, dtype, nonnegative=True))

    def look(self, A: Array, threads: int) -> Any:
        """The order of the vertices, where their components begin, and potentials: (count, n) each."""
        count, n = A.shape[:2]
        found = np.empty((count, n), np.int64), np.empty((count, n), np.uint8), np.empty((count, n))

        def find(start: int, stop: int) -> int:
            (spare, kept), (job, room) = np.empty((2, n, n)), self._search.take_job(n)
            asked = (self.sign, self._most, spare, kept, spare.view(np.uint64), job[1], room[1])
            failed = int(_find_potentials(A[start:stop], *asked, *(x[start:stop] for x in found)))
            self._search.give_back(n, job, room)
            return failed

        return found if _on_threads(find, self.closing, A, threads) < 0 else None

    def close(self, A: Array, found: Any, D: Array, threads: int) -> None:
        """D ← A* of every matrix."""
        n = A.shape[1]

        def one(start: int, stop: int) -> int:
            spare, other = np.empty((2, n, n), A.dtype)
            (job, room), (of_any, rest) = self.closing.take_job(n), self._any.take_job(n)
            asked = (self.sign, spare, spare.view(self._bits), other, job[1], of_any[1], room[1])
            _close_parts(A[start:stop], *asked, *(x[start:stop] for x in found), D[start:stop])
            self.closing.give_back(n, job, room)
            self._any.give_back(n, of_any, rest)
            return -1

        _on_threads(one, self.closing, A, threads)


class _Products:
    """Floats of max-times and min-times: factors for every vertex."""

    def __init__(self, semiring: Semiring, dtype: np.dtype[Any]) -> None:
        self._most, self._bits = int(semiring == max_times), np.dtype(f"u{dtype.itemsize}")
        self.closing = kernels_for(make_plan(semiring, dtype, nonnegative=True))

    def look(self, A: Array, threads: int) -> Any:
        """The factors (count, n)."""
        p = np.empty(A.shape[:2])

        def find(start: int, stop: int) -> int:
            return int(_find_factors(A[start:stop], self._most, p[start:stop]))

        return p if _on_threads(find, self.closing, A, threads) < 0 else None

    def close(self, A: Array, found: Any, D: Array, threads: int) -> None:
        """D ← A* of every matrix."""

        def one(start: int, stop: int) -> int:
            spare, (job, room) = np.empty(A.shape[1:], A.dtype), self.closing.take_job(A.shape[1])
            scaled = spare, spare.view(self._bits), job[1], room[1]
            _close_scaled(A[start:stop], self._most, *scaled, found[start:stop], D[start:stop])
            self.closing.give_back(A.shape[1], job, room)
            return -1

        _on_threads(one, self.closing, A, threads)


class _WholeNumbers:
    """Integers of min-plus, or of max-plus with the sign -1, in float64: a look shows that no cycle is below 0."""

    def __init__(self, none: Any, sign: int) -> None:
        self._none, self._sign = none, sign
        self._limit = min(2**52, np.iinfo(none.dtype).max // 2)  # of all sums
        self.closing = kernels_for(make_plan(min_plus, _FLOAT64))

    def look(self, A: Array, threads: int) -> Any:
        """True where all are closed so."""
        return self._through(A, A, threads, write=False) or None

    def close(self, A: Array, found: Any, D: Array, threads: int) -> None:
        """D ← A* of every matrix."""
        self._through(A, D, threads, write=True)

    def _through(self, A: Array, D: Array, threads: int, *, write: bool) -> bool:
        n = A.shape[1]
        step = max(1, _PIECE // (n * n))
        for part in (slice(start, start + step) for start in range(0, len(A), step)):
            none = A[part] == self._none
            W = np.multiply(A[part], self._sign, dtype=np.float64)
            W[none] = 0
            if (n + 1) * max(W.max(), -W.min()) >= self._limit:
                return False
            W[none] = np.inf
            if self.closing.close_stack(W, threads) >= 0:
                return False
            if write:
                none = np.isinf(W)
                W[none] = 0
                D[part] = np.multiply(W, self._sign, out=W)
                D[part][none] = self._none
        return True


def _on_threads(do: Callable[[int, int], int], kernels: Kernels, A: Array, threads: int) -> int:
    """``do(start, stop)`` for parts of a stack A (count, n, n), on several threads where that pays: the greatest."""
    count, n = A.shape[:2]
    if count == 1:
        return do(0, 1)
    answers: list[int] = []
    pieces = min(count, threads) if A.size * n >= kernels.speed.task_pairs else 1
    step = -(-count // pieces)
    tasks = [(start, min(count, start + step)) for start in range(0, count, step)]
    run_tasks(lambda start, stop: answers.append(do(start, stop)), tasks, threads)
    return max(answers)


_inner = njit(nogil=True, error_model="numpy")


def _outer(function: Any) -> Any:
    return cached(_inner(function))


@_inner
def _close(bits, job, workspace):
    """A ← A*, as `Kernels.close` of its size; the first pivot without a star, or -1."""
    n, padded, pivots = bits.shape[0], word(job, PADDED), word(job, AT_A_TIME)
    put(n if n <= padded else PIVOTS, job + 8 * AT_A_TIME)
    failed = close(bits, job, workspace)
    put(pivots, job + 8 * AT_A_TIME)
    return failed


# --------------------------------------------------------------------------------------------------------- potentials


@_outer
def _find_potentials(As, sign, most, spare, kept, bits, job, workspace, orders, marks, hs):
    """The components and potentials of every matrix; the first that needs more care, or -1.

    ``most`` is what no potential may reach. ``spare`` and ``kept`` (n, n) float64 are worked in; ``bits`` is ``spare``
    as unsigned integers, as the kernels want it. ``orders`` (count, n) get the vertices, component after component;
    ``marks`` 1 where one begins, and 3 where a weak one does; ``hs`` the potentials in that order.
    """
    wide()
    for m in range(As.shape[0]):
        A, order, mark, h = As[m], orders[m], marks[m], hs[m]
        n = A.shape[0]
        least = _least(A, sign, h)
        one = least >= 0 or _is_connected(A, sign)
        mark[:] = 0
        mark[0], h[:] = 3, 0
        if one:
            for i in range(n):
                order[i] = i
        else:
            if (sign > 0 and _has_negative_zero(A)) or not n * least > -most:
                return m
            one = _components(A, sign, order, mark) == 1
        if least >= 0:
            continue
        start = 0
        while start < n:
            stop = start + 1
            while stop < n and mark[stop] == 0:
                stop += 1
            own = order[start:stop]
            if stop - start == 1 and not one:
                if sign * A[own[0], own[0]] < 0:
                    return m
            elif not _potentials(A, sign, own, most, not one, spare, kept, bits, job, workspace, h[start:stop]):
                return m
            start = stop
    return -1


@_inner
def _least(A, sign, row):
    """The least weight; ``row`` (n,) is worked in."""
    row[:] = np.inf
    for i in range(A.shape[0]):
        for j in range(A.shape[0]):
            x = sign * A[i, j]
            row[j] = x if x < row[j] else row[j]
    return row.min()


@_inner
def _has_negative_zero(A):
    found = 0
    for i in range(A.shape[0]):
        for j in range(A.shape[0]):
            found |= (A[i, j] == 0) & (math.copysign(1.0, A[i, j]) < 0)
    return found != 0


@_inner
def _is_connected(A, sign):
    """Whether the first row and column say so."""
    none, said = sign * np.inf, True
    for i in range(A.shape[0]):
        said &= (A[0, i] != none) & (A[i, 0] != none)
    return said


@_inner
def _components(A, sign, order, mark):
    """The vertices by components, as `semiring.graphs.components.strong_components` has them; how many there are."""
    n, none = A.shape[0], sign * np.inf
    words, turned = np.zeros((n, (n + 31) >> 5), np.uint32), np.zeros((n, (n + 31) >> 5), np.uint32)
    for i in range(n):
        for j in range(n):
            edge = np.uint32(A[i, j] != none)
            words[i, j >> 5] |= edge << np.uint32(j & 31)
            turned[j, i >> 5] |= edge << np.uint32(i & 31)
    number, weak, count, apart = components_of_words(words, turned, n)
    of, starts = np.empty(count, np.int64), np.zeros(apart + 1, np.int64)
    for v in range(n):
        of[number[v]] = weak[v]
    for c in range(count):
        starts[of[c] + 1] += 1
    for w in range(apart):
        starts[w + 1] += starts[w]
    ends = starts.copy()
    place = np.empty(count, np.int64)
    for c in range(count):
        place[c] = ends[of[c]]
        ends[of[c]] += 1
    begins = np.zeros(count + 1, np.int64)
    for v in range(n):
        begins[place[number[v]] + 1] += 1
    for c in range(count):
        begins[c + 1] += begins[c]
    mark[:] = 0
    for c in range(count):
        mark[begins[c]] = 1
    for w in range(apart):
        mark[begins[starts[w]]] = 3
    for v in range(n):
        c = place[number[v]]
        order[begins[c]] = v
        begins[c] += 1
    return count


@_inner
def _gather(A, own, straight, sign, out):
    """Out ← the rows and columns ``own`` of A as weights of min-plus; ``straight`` where these are all, in order."""
    for i in range(own.size):
        if straight:
            for j in range(own.size):
                out[i, j] = 0 + sign * A[i, j]
        else:
            for j in range(own.size):
                out[i, j] = 0 + sign * A[own[i], own[j]]


@_inner
def _potentials(A, sign, own, most, part, spare, kept, bits, job, workspace, h):
    """The potentials of one component, 0 where no weight is below 0; whether they are good enough."""
    n, ends = own.size, np.full((3, own.size), np.inf)
    _gather(A, own, not part, sign, kept)
    for i in range(n):
        for j in range(n):
            x = kept[i, j]
            spare[i, j] = x
            ends[0, j] = x if x < ends[0, j] else ends[0, j]
    h[:] = 0
    if part and ends[0].min() >= 0:
        return True
    if _close(bits[:n, :n], job, workspace) >= 0:
        return False
    ends[0] = -np.inf
    for i in range(n):
        for j in range(n):
            x = spare[i, j]
            h[j] = x if x < h[j] else h[j]
            ends[0, j] = x if x > ends[0, j] else ends[0, j]
    low = h.min()
    if not (ends[0].max() < np.inf and low > -most):
        return False
    for i in range(n):
        for j in range(n):
            x = kept[i, j]
            y, size = x + (h[i] - h[j]), abs(x) if x != 0 else np.inf
            ends[1, j] = y if y < ends[1, j] else ends[1, j]
            ends[2, j] = size if size < ends[2, j] else ends[2, j]
    return ends[1].min() >= 16 * _EPSILON * low and 16.0 * n * _EPSILON * -low < ends[2].min()


# ------------------------------------------------------------------------------------------------------------ closing


@_outer
def _close_parts(As, sign, spare, bits, other, job, of_any, workspace, orders, marks, hs, Ds):
    """Every D ← A*, for what `_find_potentials` has found; D may be A. ``other`` is as large as ``spare``.

    ``job`` is for weights that are not negative, ``of_any`` for any.
    """
    wide()
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
        _gather(A, order, count == 1, sign, spare)
        for c in range(count):
            low, high = bounds[c], bounds[c + 1]
            if high - low > 1 or count == 1:
                _close_under(spare[low:high, low:high], bits[low:high, low:high], h[low:high], job, workspace)
        if count > 1:
            for i in range(n):
                spare[i, i] = 0
            for w in range(weak):
                _join(spare, bits, other, bounds, first[w], first[w + 1], stack, of_any, workspace)
        for i in range(n):
            for j in range(n):
                D[order[i], order[j]] = spare[i, j] if sign > 0 else 0 - spare[i, j]


@_inner
def _close_under(block, bits, h, job, workspace):
    """The closure of a component under its potentials, in place."""
    n = block.shape[0]
    for i in range(n):
        for j in range(n):
            x = block[i, j] + (h[i] - h[j])
            block[i, j] = x if x > 0 else 0.0
    _close(bits, job, workspace)
    for i in range(n):
        for j in range(n):
            block[i, j] = block[i, j] - (h[i] - h[j])


@_inner
def _join(D, bits, other, bounds, begin, end, stack, job, workspace):
    """`semiring.graphs.components.join_components` of one weak component, components ``begin`` … ``end`` - 1."""
    depth = _push(stack, 0, begin, end, 0)
    while depth:
        depth -= 1
        first, last, halves = stack[depth, 0], stack[depth, 1], stack[depth, 2]
        low, high = bounds[first], bounds[last]
        if last - first == 1:
            continue
        if high - low == last - first and high - low <= _RUN:
            _close(bits[low:high, low:high], job, workspace)
            continue
        half = _half(bounds, first, last)
        if halves:
            _between(D, other, bounds, first, half, last)
            continue
        depth = _push(stack, depth, first, last, 1)
        depth = _push(stack, depth, first, half, 0)
        depth = _push(stack, depth, half, last, 0)


@_inner
def _push(stack, depth, first, last, halves):
    stack[depth, 0], stack[depth, 1], stack[depth, 2] = first, last, halves
    return depth + 1


@_inner
def _half(bounds, first, last):
    low, high = bounds[first], bounds[last]
    half = np.searchsorted(bounds[: last + 1], (low + high) // 2)
    if half > first + 1 and bounds[half] - (low + high) / 2 > (low + high) / 2 - bounds[half - 1]:
        half -= 1
    return min(max(first + 1, half), last - 1)


@_inner
def _between(D, other, bounds, first, half, last):
    """C ← L ⊗ C, and then C ⊗ R, for the closed blocks L and R on the diagonal, which are triangular."""
    low, middle, high = bounds[first], bounds[half], bounds[last]
    width = high - middle
    for c in range(first, half):
        for i in range(bounds[c], bounds[c + 1]):
            row = other[i - low, :width]
            row[:] = np.inf
            for k in range(bounds[c], middle):
                _improve(row, D[i, k], D[k, middle:high])
    D[low:middle, middle:high] = np.inf
    for i in range(low, middle):
        for c in range(half, last):
            for k in range(bounds[c], bounds[c + 1]):
                _improve(D[i, bounds[c] : high], other[i - low, k - middle], D[k, bounds[c] : high])


@_inner
def _improve(row, x, others):
    if x < np.inf:
        for j in range(row.size):
            y = x + others[j]
            row[j] = y if y < row[j] else row[j]


# ------------------------------------------------------------------------------------------------------------ factors


@_outer
def _find_factors(As, most, ps):
    """The factors (count, n) of every matrix, as `potentials.scales` has them; the first without, or -1.

    They are the least numbers above 1 (of min-times the greatest below it) that no rounded product improves: so they
    are the same in whatever order rows are relaxed.
    """
    wide()
    n = As.shape[1]
    done = np.empty(n)
    for m in range(As.shape[0]):
        A, p = As[m], ps[m]
        if _has_negative_zero(A):
            return m
        p[:], done[:] = 1, 0
        settled = False
        for _ in range(n + 2):
            if settled:
                break
            settled = True
            for i in range(n):
                x = p[i]
                if x != done[i]:
                    settled, done[i] = False, x
                    for j in range(n):
                        y = A[i, j] * x
                        p[j] = y if (y > p[j] if most else y < p[j]) else p[j]
        for x in p:
            settled &= 0 < x < np.inf
        if not settled:
            return m
    return -1


@_outer
def _close_scaled(As, most, spare, bits, job, workspace, ps, Ds):
    """Every D ← A* under factors, under which no pivot lacks a star; D may be A."""
    wide()
    n = As.shape[1]
    for m in range(As.shape[0]):
        A, p, D = As[m], ps[m], Ds[m]
        for i in range(n):
            for j in range(n):
                x = A[i, j] * p[i] / p[j]
                spare[i, j] = (x if x < 1 else 1.0) if most else (x if x > 1 else 1.0)
        _close(bits, job, workspace)
        for i in range(n):
            for j in range(n):
                D[i, j] = spare[i, j] * p[j] / p[i]
