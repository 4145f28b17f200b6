"""Compute products, closures, predecessors and paths in NumPy, for first calls.

These kernels serve the first calls of a definition (`semiring.kernels.cpu.first_calls`). They need neither Numba nor a
compiler. Their results are bitwise identical to those of the compiled kernels if no operation rounds in another order:
⊕ selects or is exact, 1̄ ⊗ x is x, and no entry is -0.0. The caller checks this.

Blocks of C stay in the second-level cache while k runs. So a product takes a fifth of the time of the same loop over
whole matrices.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from semiring.algebra.expressions import OPERATIONS, Expression
from semiring.errors import no_star
from semiring.kernels.contract import NAN_FOLD, NO_PREDECESSOR, Array, KernelPlan, Steps
from semiring.kernels.cpu import numpy_sums
from semiring.kernels.cpu.order import MAX_DIRECT_EDGES, PIVOTS
from semiring.kernels.definition import define, has_unit_star
from semiring.kernels.tolerance import Tolerance

_BLOCK_BYTES = 1 << 18  # of a block of C, and of its terms for one k
_STEPS = 8  # of k: if as many blocks of terms fit into `_BLOCK_BYTES`, they are reduced at once
_STACKED_ENTRIES = 1 << 18  # of matrices whose predecessors are found together
_UNDECIDED = -2
_SEARCH_SECONDS = 3.0  # for predecessors, after which compiling their kernels takes no longer

Function = Callable[..., Any]


class _Operations(NamedTuple):
    """The operations of a definition on arrays. ``add`` and ``mul`` write to ``out``, which may be their operand."""

    add: Function
    mul: Function
    reduce: Function  # ⊕ along an axis


@lru_cache(maxsize=256)
def compile_expression(expression: Expression, dtype: np.dtype[Any]) -> Function:
    """Return a function of x, y and ``out``: a ufunc of NumPy if the expression is one."""
    ufuncs: dict[str, Any] = {"min": np.fmin, "max": np.fmax, "add": np.add, "sub": np.subtract, "mul": np.multiply}
    ufuncs |= {"and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor}
    if expression.op in ufuncs and [arg.text for arg in expression.args] == ["x", "y"]:
        return ufuncs[expression.op]  # type: ignore[no-any-return]

    def evaluate(x: Array, y: Array, out: Array) -> Array:
        out[...] = expression.evaluate({"x": x, "y": y}, dtype)
        return out

    return evaluate


def _on_arrays(expression: Expression, dtype: np.dtype[Any]) -> Function:
    """Return a function of two arrays that broadcast together."""
    function = compile_expression(expression, dtype)
    if isinstance(function, np.ufunc):
        return function
    return lambda x, y: function(x, y, out=np.empty(np.broadcast_shapes(np.shape(x), np.shape(y)), dtype))


def _operations(plan: KernelPlan) -> _Operations:
    definition = define(plan)
    add, mul = compile_expression(definition.add, plan.dtype), compile_expression(definition.mul, plan.dtype)
    if isinstance(add, np.ufunc):
        return _Operations(add, mul, add.reduce)

    def reduce(terms: Array, axis: int) -> Array:
        """Add neighbours pairwise. The terms may be overwritten."""
        terms = np.moveaxis(terms, axis, 0)
        while len(terms) > 1:
            half, rest = len(terms) // 2, len(terms) % 2
            add(terms[:half], terms[half : 2 * half], out=terms[:half])
            if rest:
                add(terms[:1], terms[-1:], out=terms[:1])
            terms = terms[:half]
        total: Array = terms[0]
        return total

    return _Operations(add, mul, reduce)


def multiply(plan: KernelPlan, C: Array, A: Array, B: Array, accumulate: bool) -> None:
    """Compute C ← [C ⊕] A ⊗ B for matrices or stacks of them. C shares no memory with A or B."""
    if not accumulate:
        C[...] = plan.zero
    if C.ndim == 3:
        _multiply_stacks(plan, C, A, B)
        return
    operations, (m, n), inner = _operations(plan), C.shape, A.shape[1]
    entries = max(1, _BLOCK_BYTES // C.itemsize)
    with np.errstate(all="ignore"):
        if m * n * _STEPS <= entries or 1 in (m, n):
            _multiply_small(operations, C[None], A[None], B[None])
            return
        width = min(n, entries)
        height = max(1, entries // width)
        terms = np.empty((min(m, height), width), C.dtype)
        block = np.empty_like(terms)
        for left in range(0, n, width):
            for top in range(0, m, height):
                c = C[top : top + height, left : left + width]
                b, t = block[: c.shape[0], : c.shape[1]], terms[: c.shape[0], : c.shape[1]]
                b[...] = c
                a, rows = A[top : top + height], B[:, left : left + width]
                for k in range(inner):
                    operations.add(b, operations.mul(a[:, k : k + 1], rows[k : k + 1], out=t), out=b)
                c[...] = b


def _multiply_stacks(plan: KernelPlan, C: Array, A: Array, B: Array) -> None:
    pairs = C.shape[1] * C.shape[2] * A.shape[2]
    entries = max(1, _BLOCK_BYTES // C.itemsize)
    if pairs > entries:
        for matrices in zip(C, A, B, strict=True):
            multiply(plan, *matrices, accumulate=True)
        return
    step = max(1, entries // max(1, pairs))
    operations = _operations(plan)
    with np.errstate(all="ignore"):
        for start in range(0, len(C), step):
            part = slice(start, start + step)
            _multiply_small(operations, C[part], A[part], B[part])


def _multiply_small(operations: _Operations, C: Array, A: Array, B: Array) -> None:
    """Compute C ← C ⊕ A ⊗ B of a stack from all terms of some steps of k."""
    (count, m, n), inner = C.shape, A.shape[2]
    steps = max(1, 2 * _BLOCK_BYTES // C.itemsize // max(1, count * m * n))
    for start in range(0, inner, steps):
        a, b = A[:, :, start : start + steps], B[:, start : start + steps]
        if n == 1:  # the terms of an entry are contiguous
            terms, axis = np.empty((count, m, a.shape[2]), C.dtype), 2
            operations.mul(a, b[:, None, :, 0], out=terms)
        elif m == 1:
            terms, axis = np.empty((count, a.shape[2], n), C.dtype), 1
            operations.mul(a[:, 0, :, None], b, out=terms)
        else:
            terms, axis = np.empty((count, m, a.shape[2], n), C.dtype), 2
            operations.mul(a[..., None], b[:, None], out=terms)
        total = operations.reduce(terms, axis=axis).reshape(C.shape)
        operations.add(C, total, out=C)


def multiply_witness(plan: KernelPlan, C: Array, W: Array, A: Array, B: Array, k0: int) -> None:
    """Compute C ← C ⊕ A ⊗ B; W becomes the smallest k0 + k that attains an entry where C strictly improves."""
    operations, (m, n) = _operations(plan), C.shape
    height = max(1, _BLOCK_BYTES // C.itemsize // n)
    with np.errstate(all="ignore"):
        for top in range(0, m, height):
            rows = slice(top, top + height)
            c, a = C[rows], A[rows]
            best, total, terms = np.full((3, *c.shape), plan.zero, plan.dtype)
            witness, better = np.full(c.shape, -1, W.dtype), np.empty(c.shape, np.bool_)
            for k in range(a.shape[1]):
                operations.mul(a[:, k : k + 1], B[k : k + 1], out=terms)
                np.not_equal(operations.add(best, terms, out=total), best, out=better)
                best, total = total, best
                np.copyto(witness, k0 + k, where=better)
            np.not_equal(operations.add(c, best, out=total), c, out=better)
            np.copyto(W[rows], witness, where=better)
            np.copyto(c, best, where=better)


def _is_rounded(plan: KernelPlan) -> bool:
    """Return whether ⊗ may round, so that the order of a closure's operations decides bits."""
    used = plan.semiring.mul.expression.operations
    return plan.dtype.kind == "f" and any(OPERATIONS[name].rounding != "exact" for name in used)


class StepMatrices:
    """Dense matrices A (g, 1 or T, n, n) of steps that NumPy computes until their kernels are compiled.

    ``groups`` (m,) is the g of each row of the batch. ``compiled`` is the preparation of the compiled kernels.
    """

    def __init__(self, A: Array, groups: Array) -> None:
        self.A, self.groups = A, groups
        self.compiled: Any = None

    def walk(self, plan: KernelPlan, x: Array, steps: Steps, *, is_fused: bool = False) -> bool:
        """Compute `SequenceKernels.walk`: all terms of a step at once, of some rows of the batch.

        ``is_fused``: whether the steps are sums of fused multiply-adds. Return False, and leave x unchanged, if such a
        sum might not be exact.
        """
        if is_fused:
            return self._walk_fused(plan, x, steps)
        n = x.shape[1]
        rows = max(1, 4 * _BLOCK_BYTES // max(1, n * n * x.itemsize))
        with np.errstate(all="ignore"):
            for start in range(0, len(x), rows):
                self._walk_rows(plan, x, steps, slice(start, start + rows))
        return True

    def _walk_fused(self, plan: KernelPlan, x: Array, steps: Steps) -> bool:
        """Advance all rows by all steps of + and ×. Return False if a sum might not be exact."""
        state, states = x.copy(), None if steps.states is None else np.empty_like(steps.states)
        if not numpy_sums.is_exact(self.A):
            return False
        for t in range(steps.number):
            if not numpy_sums.may_multiply(plan, state):
                return False
            A = self.A[self.groups, steps.first + t if self.A.shape[1] > 1 else 0]
            y = numpy_sums.walk(plan, A, state)
            if steps.weights is not None:
                is_zero = (y == plan.zero) | (steps.weights[:, t] == plan.zero)
                y *= steps.weights[:, t]
                y[is_zero] = plan.zero
            going = np.True_ if steps.lengths is None else (steps.lengths > t)[:, None]
            np.copyto(state, y, where=going)
            if states is not None:
                states[:, t] = state
        x[...] = state
        if states is not None:
            steps.states[...] = states
        return True

    def _walk_rows(self, plan: KernelPlan, x: Array, steps: Steps, part: slice) -> None:
        """Advance some rows of the batch by all steps."""
        operations, state, groups = _operations(plan), x[part], self.groups[part]
        groups = groups[:1] if (groups == groups[:1]).all() else groups
        terms, y = np.empty((*state.shape, state.shape[1]), plan.dtype), np.empty_like(state)
        reduces_in_place = not isinstance(operations.add, np.ufunc)
        find: Any = {np.fmin: np.argmin, np.fmax: np.argmax}.get(operations.add)  # type: ignore[call-overload]
        rows, columns = np.arange(len(state))[:, None], np.arange(state.shape[1])
        for t in range(steps.number):
            A = self.A[groups, steps.first + t if self.A.shape[1] > 1 else 0]
            operations.mul(state[:, :, None], A, out=terms)
            places = None if find is None or steps.witness is None else find(terms, 1)
            if places is not None:
                np.copyto(y, terms[rows, places, columns])
            if places is None or np.isnan(y).any():  # NaN is dropped by ⊕, but found
                copies = reduces_in_place and steps.witness is not None
                np.copyto(y, operations.reduce(terms.copy() if copies else terms, 1))
                places = None
            operations.add(y, plan.zero, out=y)
            going = None if steps.lengths is None else (steps.lengths[part] > t)[:, None]
            if steps.witness is not None:
                places = (terms == y[:, None]).argmax(1) if places is None else places
                places[y == plan.zero] = -1
                steps.witness[part, t] = places if going is None else np.where(going, places, -1)
            if steps.weights is not None:
                w = steps.weights[part, t]
                is_zero = (y == plan.zero) | (w == plan.zero)
                operations.mul(y, w, out=y)
                if plan.semiring.annihilates:
                    y[is_zero] = plan.zero
            np.copyto(state, y, where=True if going is None else going)
            if steps.states is not None:
                steps.states[part, t] = state


def close(plan: KernelPlan, A: Array, pivotwise_rows: int) -> None:
    """Compute A ← A* of each matrix of a stack (count, n, n) in place, in the order of the compiled kernels.

    Matrices of at most ``pivotwise_rows`` rows are one block. So is a matrix that stays in the cache, if no operation
    rounds. The first pivot without a star is written to the plan's status, numbered through all matrices, and A is then
    undefined.
    """
    operations, n = _operations(plan), A.shape[-1]
    is_one_block = n <= pivotwise_rows or (n * n * A.itemsize <= _BLOCK_BYTES and not _is_rounded(plan))
    width = n if is_one_block else PIVOTS
    failed = np.full(len(A), n)
    with np.errstate(all="ignore"):
        for start in range(0, n, width):
            K = slice(start, start + width)
            np.minimum(
                failed, np.where(failed < n, failed, start + _eliminate(plan, A[:, K, K], operations)), out=failed
            )
            if width < n and (failed == n).any():
                _update(operations, A, K)
    if (failed < n).any():
        matrix = int(np.flatnonzero(failed < n)[0])
        plan.status.diverged = matrix * n + int(failed[matrix])


def _update(operations: _Operations, A: Array, K: slice) -> None:
    """Multiply the rows of the closed pivots K by their block, and add the products through K to the other rows."""
    closed = A[:, K, K].copy()
    for D, block in zip(A, closed, strict=True):
        _add_product(operations, D[K], block, D[K].copy())
        D[K, K] = block
        for others in (slice(0, K.start), slice(K.stop, None)):
            if D[others].size:
                _add_product(operations, D[others], D[others, K].copy(), D[K])


def _add_product(operations: _Operations, C: Array, A: Array, B: Array) -> None:
    """Compute C ← C ⊕ A ⊗ B for few steps of k, one after the other."""
    height = max(1, _BLOCK_BYTES // C.itemsize // C.shape[1])
    terms = np.empty((min(height, C.shape[0]), C.shape[1]), C.dtype)
    for top in range(0, C.shape[0], height):
        c, a = C[top : top + height], A[top : top + height]
        for k in range(A.shape[1]):
            operations.add(c, operations.mul(a[:, k : k + 1], B[k : k + 1], out=terms[: len(c)]), out=c)


def _eliminate(plan: KernelPlan, A: Array, operations: _Operations) -> Array:
    """Close each matrix of A (count, n, n) pivot by pivot. Return the first pivot without a star, or a large number."""
    semiring, n = plan.semiring, A.shape[-1]
    star = semiring.star_expression
    if star is None:
        raise no_star(semiring.name)
    star.check_dtype(plan.dtype)
    never_diverges = plan.facts.nonnegative and semiring.tropical == "min"
    divergence = None if never_diverges else semiring.divergence
    is_unit, one, terms = has_unit_star(semiring, plan.dtype), plan.dtype.type(plan.one), np.empty(A.shape, A.dtype)
    failed = np.full(len(A), 1 << 40)
    for k in range(n):
        if divergence is not None:
            pivot = A[:, k, k]
            diverges = np.broadcast_to(divergence.evaluate({"x": pivot}, plan.dtype), pivot.shape)
            failed = np.where(diverges & (failed > n), k, failed)
        if is_unit:
            # 1̄ ⊕ pivot = 1̄, so the row and the column of the pivot do not change.
            operations.add(A, operations.mul(A[:, :, k : k + 1], A[:, k : k + 1], out=terms), out=A)
            A[:, k, k] = one
            continue
        pivot, column, row = A[:, k, k].copy(), A[:, :, k : k + 1].copy(), A[:, k : k + 1].copy()
        pivot[...] = star.evaluate({"x": pivot}, plan.dtype)
        operations.mul(column, pivot[:, None, None], out=column)
        operations.add(A, operations.mul(column, row, out=terms), out=A)
        operations.mul(pivot[:, None, None], row, out=row)
        A[:, :, k], A[:, k], A[:, k, k] = column[:, :, 0], row[:, 0], pivot
    return failed


def find_predecessors(plan: KernelPlan, D: Array, tolerance: Tolerance, adjacency: Array) -> Array | None:
    """Compute the steps of `semiring.algorithms.predecessors`, in the order of the compiled kernels.

    D is a closed matrix (n, n) or a stack (count, n, n). Return None if a row cannot be repaired, or if many edges do
    not change a distance, so that the searches along them take long.
    """
    deadline = time.monotonic() + _SEARCH_SECONDS
    if D.ndim == 2:
        trees = _find_in_stack(plan, D[None], tolerance, adjacency[None], deadline)
        return None if trees is None else trees[0]
    pred, step = np.empty(D.shape, np.int32), max(1, _STACKED_ENTRIES // D[0].size)
    for start in range(0, len(D), step):
        part = slice(start, start + step)
        trees = _find_in_stack(plan, D[part], tolerance, adjacency[part], deadline)
        if trees is None:
            return None
        pred[part] = trees
    return pred


def _find_in_stack(plan: KernelPlan, D: Array, tolerance: Tolerance, adjacency: Array, deadline: float) -> Array | None:
    """Compute `find_predecessors` of a stack, all matrices together, one direct edge of each at a time.

    Return None also if searches are needed after the deadline of `time.monotonic`.
    """
    plus, times = (_on_arrays(operation.expression, plan.dtype) for operation in (plan.semiring.add, plan.semiring.mul))

    def meets(x: Array, y: Array, limit: tuple[float, float]) -> Array:
        if plan.dtype.kind != "f":
            return np.asarray(x == y)
        with np.errstate(invalid="ignore"):
            return np.asarray((x == y) | (np.abs(x - y) < limit[0] * np.abs(y) + limit[1]))

    n, one, diagonal = D.shape[-1], plan.dtype.type(plan.one), np.eye(D.shape[-1], dtype=bool)
    edges = meets(adjacency, D, tolerance.tight) & (adjacency != plan.zero) & ~diagonal
    if edges.sum(-2).max() > MAX_DIRECT_EDGES:
        return None
    improves = np.zeros(len(D), np.bool_)
    improves[np.nonzero(edges)[0][plus(one, adjacency[edges]) != one]] = True
    best, pred = np.full_like(D, plan.zero), np.full(D.shape, _UNDECIDED, np.int32)
    for p in range(0 if improves.all() else n):
        heads = np.flatnonzero(edges[:, p].any(axis=0))
        x, w = D[:, :, p, None], adjacency[:, p][:, None, heads]
        candidates, distances = times(x, w), D[:, :, heads]
        so_far = best[:, :, heads]
        better = (plus(so_far, candidates) != so_far) & (plus(x, distances) != distances) & edges[:, p][:, None, heads]
        best[:, :, heads] = np.where(better, candidates, so_far)
        pred[:, :, heads] = np.where(better, np.int32(p), pred[:, :, heads])
    pred[improves] = _UNDECIDED
    is_met = meets(best, D, tolerance.tight)
    is_doubtful = ~is_met & (pred >= 0) & ~edges & meets(best, D, tolerance.loose)
    pred[~is_met & ~is_doubtful] = _UNDECIDED
    pred = np.where(edges, np.arange(n, dtype=np.int32)[:, None], pred)
    pred[(plan.zero == D) | diagonal] = NO_PREDECESSOR
    is_doubtful &= pred >= 0
    doubtful_rows = _find_doubtful_rows(plan, D, tolerance, adjacency, pred, is_doubtful)
    rows = np.argwhere((pred == _UNDECIDED).any(axis=-1))
    neighbours = _neighbours(edges.swapaxes(1, 2)), _neighbours(edges)
    height = max(1, _BLOCK_BYTES // (D.itemsize * max(1, *(table.shape[-1] for table in neighbours))))
    parts = [rows[start : start + height] for start in range(0, len(rows), height)]

    def find_tight(which: Array, i: Array, tail: Any, head: Any) -> Array:
        """Return which edges are tight for rows; their tail is no worse than their head if no edge improves on 1̄."""
        x, y = D[which, i, tail], D[which, i, head]
        candidates = times(x, adjacency[which, tail, head])
        return np.asarray(meets(candidates, y, tolerance.tight) & (improves[which] | (plus(x, y) == x)))

    with np.errstate(all="ignore"):
        for part in parts:
            if time.monotonic() > deadline:
                return None
            _grow_rows(pred, part, neighbours, find_tight)
        flagged = {*doubtful_rows, *map(tuple, np.argwhere((pred == _UNDECIDED).any(-1)).tolist())}
        for which, i in sorted(flagged):
            row = _Row(plan, times, D[which], adjacency[which], edges[which], pred[which, i], i, tolerance)
            if time.monotonic() > deadline or not row.settle():
                return None
    return pred


def _neighbours(edges: Array) -> Array:
    """Return the heads of the edges (count, n, n) from each vertex in ascending order, (count, n, width), then -1."""
    counts = edges.sum(-1)
    table = np.full((*counts.shape, counts.max()), -1)
    table[np.arange(table.shape[-1]) < counts[..., None]] = np.nonzero(edges)[-1]
    return table


class _Row:
    """A row i of predecessors that is validated and repaired as `predecessor_trees.settle_rows` does.

    ``edges`` (n, n) are the direct edges, and ``pred`` (n,) is changed in place.
    """

    def __init__(
        self,
        plan: KernelPlan,
        times: Function,
        D: Array,
        weights: Array,
        edges: Array,
        pred: Array,
        i: int,
        tolerance: Tolerance,
    ) -> None:
        self.plan, self.times, self.D, self.weights, self.edges = plan, times, D, weights, edges
        self.pred, self.i, self.tolerance = pred, i, tolerance
        self.wide = np.dtype(np.float64) if plan.dtype.kind == "f" else plan.dtype
        self.is_reached = plan.zero != D[i]
        self.is_reached[i] = False
        self.is_good = np.zeros(len(D), np.bool_)
        self.slack, self.hops = np.zeros(len(D)), np.zeros(len(D), np.int64)

    def settle(self) -> bool:
        """Repair the row, and return whether all of its paths then add up to their distances."""
        for repairs_all in (False, True):
            if self._validate():
                return True
            if repairs_all:
                self.is_good[:] = False
                self.is_good[self.i] = True
            self._attach()
        return self._validate()

    def _validate(self) -> bool:
        """Find the good vertices, whose paths are sound, and return whether all reached vertices are."""
        i, pred, n = self.i, self.pred, len(self.D)
        pred[~self.is_reached] = NO_PREDECESSOR
        totals, goals = np.full(n, self.plan.one, self.wide), self.D[i].astype(self.wide)
        self.is_good[:] = False
        self.is_good[i], self.slack[i], self.hops[i] = True, 0, 0
        waiting = np.flatnonzero(pred >= 0)
        mul = self.plan.semiring.mul.expression
        while (ready := self.is_good[pred[waiting]]).any():
            heads, waiting = waiting[ready], waiting[~ready]
            tails = pred[heads]
            steps = {"x": totals[tails], "y": self.weights[tails, heads].astype(self.wide)}
            totals[heads] = mul.evaluate(steps, self.wide)
            self.hops[heads] = self.hops[tails] + 1
            self.slack[heads] = self._deviation(totals[heads], goals[heads])
            self.is_good[heads] = self.edges[tails, heads] & self.tolerance.meets(totals[heads], goals[heads])
        return bool(self.is_good[self.is_reached].all())

    def _deviation(self, x: Array, y: Array) -> Array:
        if self.plan.dtype.kind != "f":
            return np.where(x == y, 0.0, np.inf)
        x, y = x.astype(np.float64), y.astype(np.float64)
        unit = np.maximum(np.abs(y), np.finfo(np.float64).tiny) if self.tolerance.is_relative else 1.0
        return np.where(x == y, 0.0, np.abs(x - y) / unit)

    def _attach(self) -> None:
        """Attach the other reached vertices to the good ones by Dijkstra's algorithm."""
        n, queue = len(self.D), np.flatnonzero(self.is_reached & ~self.is_good).tolist()
        self.slack[queue], self.hops[queue], self.pred[queue] = np.inf, n, NO_PREDECESSOR
        for p in np.flatnonzero(self.is_good).tolist():
            self._relax(p, queue)
        while queue:
            nearest = min(range(len(queue)), key=lambda c: (self.slack[queue[c]], self.hops[queue[c]]))
            p = queue[nearest]
            if self.slack[p] == np.inf:
                break
            queue[nearest] = queue[-1]
            queue.pop()
            self.is_good[p] = True
            self._relax(p, queue)

    def _relax(self, p: int, queue: list[int]) -> None:
        """Relax the direct edges from p to the vertices of the queue."""
        heads = np.array(queue, np.int64)
        heads = heads[self.edges[p, heads]]
        if not heads.size:
            return
        distances = self.D[self.i]
        offers = self.times(distances[p : p + 1], self.weights[p, heads])
        lengths, hops = self.slack[p] + self._deviation(offers, distances[heads]), self.hops[p] + 1
        is_tied = (lengths == self.slack[heads]) & (lengths < np.inf)
        is_nearer = (lengths < self.slack[heads]) | (is_tied & (hops < self.hops[heads]))
        heads = heads[is_nearer]
        self.slack[heads], self.hops[heads], self.pred[heads] = lengths[is_nearer], hops, p


def _find_doubtful_rows(
    plan: KernelPlan, D: Array, tolerance: Tolerance, adjacency: Array, pred: Array, is_doubtful: Array
) -> list[tuple[int, int]]:
    """Return the matrix and the source of the rows with many doubtful entries, or one whose path does not add up."""
    found: list[tuple[int, int]] = []
    if not is_doubtful.any():
        return found
    wide = np.dtype(np.float64)
    sums = replace(plan, dtype=wide, zero=wide.type(plan.zero), one=wide.type(plan.one))
    mul, tight = (
        compile_expression(define(sums).mul, wide),
        [float(plan.dtype.type(limit)) for limit in tolerance.tight],
    )
    row, steps = (-1, -1), 0
    for which, i, j in np.argwhere(is_doubtful).tolist():
        if found and found[-1] == (which, i):
            continue
        row, steps = (which, i), steps if row == (which, i) else len(pred[which])
        chain = [j]
        while chain[-1] != i and chain[-1] >= 0 and len(chain) - 1 <= steps:
            chain.append(int(pred[which, i, chain[-1]]))
        if chain[-1] != i or len(chain) - 1 > steps:
            found.append(row)
            continue
        hops = len(chain) - 1
        steps -= hops
        total = np.array([plan.one], wide)
        for u, v in zip(chain[:0:-1], chain[-2::-1], strict=True):
            mul(total, np.array([adjacency[which, u, v]], wide), out=total)
        goal = float(D[which, i, j])
        if not (total[0] == goal or abs(total[0] - goal) < hops * tight[0] * abs(goal) + hops * tight[1]):
            found.append(row)
    return found


def _grow_rows(pred: Array, rows: Array, neighbours: tuple[Array, Array], find_tight: Callable[..., Array]) -> None:
    """Decide the remaining entries of some rows by searches along tight edges, all rows together.

    ``rows`` (r, 2) holds the matrix and the source of each row. ``neighbours`` are the tails of the edges into each
    vertex, and the heads of those out of it.
    """
    which, source = rows.T[:, :, None]
    own = pred[which[:, 0], source[:, 0]]
    decided = own >= 0
    decided[np.arange(len(own)), source[:, 0]] = True
    queue, sizes = np.empty(own.shape, np.int64), np.zeros(len(own), np.int64)
    into, out = neighbours
    for j in np.flatnonzero((own == _UNDECIDED).any(0)):
        at = np.flatnonzero(own[:, j] == _UNDECIDED)
        tails = into[which[at, 0], j]
        is_found = (tails >= 0) & decided[at[:, None], tails] & find_tight(which[at], source[at], tails, j)
        found = is_found.any(1)
        at = at[found]
        own[at, j], decided[at, j] = tails[found, is_found[found].argmax(1)], True
        queue[at, sizes[at]] = j
        sizes[at] += 1
    step = 0
    while (at := np.flatnonzero(sizes > step)).size:
        p = queue[at, step][:, None]
        heads = out[which[at, 0], p[:, 0]]
        is_new = (heads >= 0) & (own[at[:, None], heads] == _UNDECIDED)
        is_new &= find_tight(which[at], source[at], p, heads)
        r, c = np.nonzero(is_new)
        own[at[r], heads[r, c]] = p[r, 0]
        queue[at[r], sizes[at[r]] + (is_new.cumsum(1) - 1)[r, c]] = heads[r, c]
        sizes[at] += is_new.sum(1)
        step += 1
    pred[which[:, 0], source[:, 0]] = own


def count_vertices(predecessors: Array, sources: Array, counts: Array) -> None:
    """Compute `PathKernels.count_vertices` of the contract: each link leads twice as far after each step."""
    n = predecessors.shape[-1]
    for part, rows, roots in _rows_of_paths(predecessors, sources):
        links = _link(rows, roots)
        edges = (links % (n + 2) != np.arange(n + 2)).astype(np.int32).ravel()
        links, length = links.ravel(), 1
        while length < n:  # the links of a cycle lead to no end
            further = links[links]
            if np.array_equal(further, links):
                break
            edges += edges[links]
            links, length = further, 2 * length
        ends = links.reshape(-1, n + 2)[:, :n] % (n + 2)
        lengths = edges.reshape(-1, n + 2)[:, :n] + 1
        counts.reshape(-1, n)[part] = np.where(ends == roots, lengths, np.where(ends == n, 0, -1))


def write_paths(predecessors: Array, targets: Array, counts: Array, out: Array) -> None:
    """Compute `PathKernels.write_paths` of the contract: all paths from their ends, one edge at a time."""
    n, rows = predecessors.shape[-1], predecessors.reshape(-1)
    lengths, vertices, width = counts.reshape(-1), out.reshape(-1), out.shape[-1]
    out[...] = -1
    step = max(1, _BLOCK_BYTES // 16)
    for start in range(0, lengths.size, step):
        path = np.flatnonzero(lengths[start : start + step]) + start
        left, row = lengths[path], path // targets.size * n
        vertex, place = targets[path % targets.size], path * width + left
        while path.size:
            place -= 1
            vertices[place] = vertex
            left -= 1
            path = np.flatnonzero(left)
            if path.size < left.size:
                left, row, vertex, place = left[path], row[path], vertex[path], place[path]
            vertex = rows[row + vertex]


def fold_paths(plan: KernelPlan, predecessors: Array, sources: Array, W: Array, none: Any, out: Array) -> int:
    """Compute `PathKernels.fold_paths` of the contract, in the order of the compiled kernels."""
    n, dtype = predecessors.shape[-1], np.dtype(np.float64) if plan.dtype.kind == "f" else plan.dtype
    mul = compile_expression(
        define(replace(plan, dtype=dtype, zero=dtype.type(plan.zero), one=dtype.type(plan.one))).mul, dtype
    )
    vertices, is_nan = np.arange(n), False
    with np.errstate(all="ignore"):
        for part, rows, roots in _rows_of_paths(predecessors, sources):
            links = _link(rows, roots)
            own = np.full(links.shape, plan.one, W.dtype)
            own[:, :n] = W[np.where((rows >= 0) & (rows < n), rows, 0), vertices]
            np.put_along_axis(own, roots, W.dtype.type(plan.one), 1)
            values, going, length = own.astype(dtype), np.arange(len(links)), 1
            while going.size and length < 3 * n:  # the links of a cycle lead to no end
                first = links[going]
                second = links.ravel()[first]
                x = values.ravel()
                last = mul(x[first], values[going], out=np.empty(first.shape, dtype))
                values[going] = mul(x[second], last, out=last)
                links[going] = further = links.ravel()[second]
                ends = further % (n + 2)
                going, length = going[~((ends >= n) | (ends == roots[going])).all(1)], 3 * length
            ends, found = links[:, :n] % (n + 2), values[:, :n]
            reached = ends == roots
            failed = (~reached & (ends != n)).any(1)
            if failed.any():
                return int(part.start + failed.argmax())
            is_nan |= bool((reached & ((found != found) | (own[:, :n] != own[:, :n]))).any())
            out.reshape(-1, n)[part] = np.where(reached, found, none)
    return NAN_FOLD if is_nan else -1


def _rows_of_paths(predecessors: Array, sources: Array) -> Iterator[tuple[slice, Array, Array]]:
    """Yield some rows of predecessors at a time: their numbers, the rows (r, n) and their sources (r, 1)."""
    n = predecessors.shape[-1]
    rows, step = predecessors.reshape(-1, n), max(1, _BLOCK_BYTES // 8 // (n + 2))
    for start in range(0, len(rows), step):
        part = slice(start, min(start + step, len(rows)))
        yield part, rows[part], sources[np.arange(part.start, part.stop) % len(sources)][:, None]


def _link(rows: Array, roots: Array) -> Array:
    """Return the places (r, n + 2), in the flattened result, of the predecessors.

    Sources, n for no path, and n + 1 for a number that is no vertex lead to themselves.
    """
    n = rows.shape[1]
    links = np.empty((len(rows), n + 2), np.int64)
    links[:, :n] = np.where(rows < 0, n, np.where(rows < n, rows, n + 1))
    np.put_along_axis(links, roots, roots, 1)
    links[:, n:] = n, n + 1
    links += np.arange(0, links.size, n + 2)[:, None]
    return links


def improve_all_rows(
    plan: KernelPlan,
    D: Array,
    P: Array,
    u: int,
    v: int,
    weight: Any,
    zero: Any,
    vertices: Array,
    ends: Array,
    touched: Array,
) -> int:
    """Improve all rows by the edge u → v, as `semiring.kernels.cpu.update_loops` improves one row after the other.

    ``vertices`` are those that row u improves, in preorder, and ``ends`` the positions after their subtrees. Return how
    many pairs improve that were not touched.
    """
    operations = _operations(plan)

    def is_better(x: Array, y: Array) -> Array:
        found: Array = (operations.add(x, y, out=np.empty_like(x)) == x) & (x != y)
        return found

    offers = operations.mul(D[:, u], np.full(len(D), weight, plan.dtype), out=np.empty(len(D), plan.dtype))
    rows = np.flatnonzero((D[:, u] != zero) & (np.arange(len(D)) != v) & is_better(offers, D[:, v]))
    values = np.empty((rows.size, vertices.size), plan.dtype)
    operations.mul(offers[rows, None], D[v, vertices], out=values)
    improves, above = is_better(values, D[rows[:, None], vertices]), [0]
    for position in range(1, vertices.size):  # a vertex improves only if the vertices before it on the path do
        while above and ends[above[-1]] <= position:
            above.pop()
        if above:
            improves[:, position] &= improves[:, above[-1]]
        above.append(position)
    i, columns = np.nonzero(improves)
    rows, j = rows[i], vertices[columns]
    D[rows, j] = values[i, columns]
    if P.shape[0]:
        P[rows, j] = np.where(j == v, u, P[v, j])
    if not touched.shape[0]:
        return int(rows.size)
    count = int((~touched[rows, j]).sum())
    touched[rows, j] = True
    return count
