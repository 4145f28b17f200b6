"""Sequences of steps x ← log Σₖ exp(x[k] + B[k, ·]) + w by one matrix B, and their gradients, in one compiled call.

The result of a step is bitwise that of `log_sums`: exponentials of the rows of x, a product of plus_times in float64, a
logarithm. The exponentials of B are computed and packed once. Rows are independent, so each thread advances some of
them through all steps without a barrier. A row in which a sum underflows, or an entry is out of range, stops its block
until `log_sums` has computed it. In float64 every step is a product of its own.

Backward a step is d[k] = X[k] · Σⱼ E[k, j] · h[j] / S[j]. X and E are the exponentials of x and B, and S the sums of
the step, which the forward pass stores. It is a product in float32, whose terms are probabilities. Exponentials below
`_FAINT` count as 0 there, so that no product of two is subnormal. Sums that such zeros could affect are refused.
"""

# mypy: disallow-untyped-defs=False, disallow-untyped-calls=False, disallow-incomplete-defs=False
# (some functions below are compiled: their types are Numba's)

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cached_property

import numpy as np

from semiring.kernels.contract import Array, Backend, KernelPlan, Steps
from semiring.kernels.cpu.codegen.memory_intrinsics import address, call9, float_line, use_wide_vectors
from semiring.kernels.cpu.product.log_lines import kernel
from semiring.kernels.cpu.product.log_products import (
    RightBlock,
    RightOperand,
    copy_row,
    multiply_by,
    multiply_rows,
    survey_rows,
    tiny_sum,
)
from semiring.kernels.cpu.product.panels import PackedPanels, aligned_zeros, multiply
from semiring.kernels.cpu.thread_pool import run_on_ranges

_MIN_BLOCK_ROWS = 32  # the least rows of a block of gradients
_MAX_BLOCKS = 16  # the most blocks of gradients: each has a product (n, n) of its own
_ROWS_PER_TILE = 4  # rows whose terms of the gradient by the matrix are added up by one tile
_BLOCK = 64  # rows that are advanced through all steps together: more would not stay in the second-level cache
_FAINT = np.float32(2.0**-62)  # smaller exponentials count as 0 in gradients
_TRUSTED_SUM = 2.0**-36  # this times the number of terms: such zeros do not affect larger sums
_NOT_REQUESTED = (0, 0, 0)  # a placeholder for an array that is not requested


# Loops over a row are separate functions, because the compiler vectorizes them only if no other arrays are in scope.


@kernel
def _store_usable_sums(sums, result, is_lost, tiny, usable):
    """Store the sums of a row that gradients may use, 0 for entries without a path, and NaN for all other entries."""
    use_wide_vectors()
    for j in range(usable.size):
        s, is_finite = sums[j], result[j] > -np.inf
        sure = (s >= tiny) & is_finite & (not is_lost)
        usable[j] = s if sure else (np.nan if is_finite | is_lost else 0.0)


@kernel
def _apply_weights(result, weight, state):
    """Write result ⊗ weight to the state."""
    use_wide_vectors()
    for j in range(state.size):
        is_finite = (result[j] > -np.inf) & (weight[j] > -np.inf)
        state[j] = result[j] + weight[j] if is_finite else np.float32(-np.inf)


@kernel
def _divide(g, s, weight, trusted_sum, h, q):
    """Write h ← g, or 0 for entries without a path, and q ← h / s, for a row.

    Return 1 if a sum is below ``trusted_sum``, else 0.
    """
    use_wide_vectors()
    bad = np.int32(0)
    for j in range(h.size):
        value = g[j] if (s[j] != 0) & (weight[j] > -np.inf) else np.float32(0)
        sure = s[j] >= trusted_sum
        bad |= np.int32(value != 0) & np.int32(not sure)
        quotient = value / (s[j] if sure else np.float32(1))
        h[j], q[j] = value, np.float32(0) if abs(quotient) < _FAINT else quotient
    return bad


@kernel
def _narrow_factors(exponentials, factors):
    """Write the exponentials of a row to the factors, in float32, and 0 for those below `_FAINT`."""
    use_wide_vectors()
    for j in range(factors.size):
        factor = np.float32(exponentials[j])
        factors[j] = factor if factor >= _FAINT else np.float32(0)


@kernel
def _multiply_gradient(factors, d, g):
    """Write factors · d to the gradient g of a row."""
    use_wide_vectors()
    for j in range(g.size):
        g[j] = factors[j] * d[j]


@kernel
def _write_pieces(row, target, width, step):
    """Write a row in pieces of ``width`` entries, ``step`` bytes apart, from the address ``target`` on."""
    whole = row.size // width
    for piece in range(whole):
        place = float_line(target + piece * step, width)
        for j in range(width):
            place[j] = row[piece * width + j]
    place = float_line(target + whole * step, row.size - whole * width)
    for j in range(place.size):
        place[j] = row[whole * width + j]


@kernel
def _multiply_factors(tile, steps, n, factors, right, height, C):
    """Write the sum over all rows of Xᵀ · Q to C, X (steps, n) at ``factors`` and Q in panels at the address ``right``.

    Some columns of X are copied, `_ROWS_PER_TILE` rows at a time, because in place they would share cache sets. C is
    read and written once for each run.
    """
    native, rows, width = tile
    down, left = C.shape[1] * 4, np.zeros((_ROWS_PER_TILE * steps, rows), np.float32)
    for first in range(0, height, _ROWS_PER_TILE):
        count = min(_ROWS_PER_TILE, height - first)
        for top in range(0, C.shape[0], rows):
            for i in range(count):
                a = factors[0] + (first + i) * factors[1] + top * 4
                for t in range(steps):
                    place = float_line(a + t * factors[2], min(rows, n - top))  # beyond X there may be no memory
                    for j in range(place.size):
                        left[i * steps + t, j] = place[j]
            c = address(C) + top * down
            for column in range(0, C.shape[1], width):
                b = right + (column * height + first * width) * steps * 4
                a, into = address(left), c + column * 4
                call9(native, (count * steps, a, 4, rows * 4, b, into, down, min(first, 1), into))


@kernel
def _add_factors(C, E, total, start, stop):
    """Add the sum of all C, times E, to ``total`` (n, n) in rows start … stop - 1."""
    use_wide_vectors()
    for i in range(start, stop):
        sums, factors = total[i], E[i]
        for b in range(C.shape[0]):
            terms = C[b, i]
            for j in range(factors.size):
                sums[j] += terms[j] * factors[j]


@kernel
def _walk_steps(tile, B, right, workspace, span, places, lengths, x, offset, fewest, tiny, top, u, marks):
    """Advance x (m, n) by steps first … last - 1.

    Return the first failed step, with its rows in ``marks[1]``, or last. ``span``: first, last, and whether y already
    holds the product of the first step. ``places``: the weights, the states after each step, the exponentials of the
    states before each step, and the sums of each step. Each is an address with the strides of rows and of steps, or 0.
    Sums that gradients cannot use are NaN.
    """
    t, last, has_product = span
    weights, states, factors, sums = places
    X, S, y, is_lost = workspace
    rows, n = x.shape
    odd = marks[1]
    while t < last:
        if not has_product:
            survey_rows(x, offset, top, u, marks, 0, rows)
            has_few = marks[0].min() + fewest < n + 2
            multiply_rows(tile, B, *right, *workspace, x, u, odd, y, 0, has_few, tiny, -np.inf)
            stopped = False
            for i in range(rows):
                lost, flags = odd[i] > 0, is_lost[i]
                for j in range(n):
                    lost |= flags[j]
                lost &= t < lengths[i]
                odd[i] = lost
                stopped |= lost
                if sums[0]:
                    _narrow_factors(X[i], float_line(factors[0] + i * factors[1] + t * factors[2], n))
                    _store_usable_sums(S[i], y[i], lost, tiny, float_line(sums[0] + i * sums[1] + t * sums[2], n))
            if stopped:
                return t
        has_product = False
        for i in range(rows):
            if t < lengths[i]:
                if weights[0]:
                    _apply_weights(y[i], float_line(weights[0] + i * weights[1] + t * weights[2], n), x[i])
                else:
                    copy_row(y[i], x[i])
            if states[0]:
                copy_row(x[i], float_line(states[0] + i * states[1] + t * states[2], n))
        t += 1
    return last


@kernel
def _pull_steps(tile, packed, steps, places, lengths, G, trusted_sum, Q, D, right, C):
    """Replace G (m, n) by its gradient by the state before the first of ``steps``.

    Return False if a sum is too small. ``places``, as in `_walk_steps`: the weights, the exponentials of the states
    before each step, the sums, the state gradients and the weight gradients. The state gradients are added to G after
    each step. ``right``: an address, for h / S of all steps. C receives the factor of the exponentials of B in its
    gradient.
    """
    weights, factors, sums, state_gradients, weight_gradients = places
    rows, n = G.shape
    for t in range(steps - 1, -1, -1):
        bad = np.int32(0)
        for i in range(rows):
            g, q = G[i], Q[i]
            if state_gradients[0]:
                addend = float_line(state_gradients[0] + i * state_gradients[1] + t * state_gradients[2], n)
                for j in range(n):
                    g[j] += addend[j]
            weight = float_line(weights[0] + i * weights[1] + t * weights[2], n)
            h = float_line(weight_gradients[0] + i * weight_gradients[1] + t * weight_gradients[2], n)
            if t < lengths[i]:
                bad |= _divide(g, float_line(sums[0] + i * sums[1] + t * sums[2], n), weight, trusted_sum, h, q)
            else:
                for j in range(n):
                    h[j], q[j] = 0, 0
            _write_pieces(q[:n], right + (i * steps + t) * tile[2] * 4, tile[2], rows * steps * tile[2] * 4)
        if bad:
            return False
        multiply(tile, Q, packed, D)
        for i in range(rows):
            if t < lengths[i]:
                _multiply_gradient(float_line(factors[0] + i * factors[1] + t * factors[2], n), D[i], G[i])
    _multiply_factors(tile, steps, n, factors, right, rows, C)
    return True


class PreparedMatrix:
    """A matrix B (n, n) for many steps: its exponentials in panels, made at their first use."""

    def __init__(self, plan: KernelPlan, B: Array) -> None:
        self.right, self.n = RightOperand(B, plan.threads, keeps_blocks=True), B.shape[0]
        #: Whether compiled loops run the steps: for float32, if all entries are in the range of exponentials.
        self.has_compiled_steps = (
            plan.dtype.char == "f" and self.right.high_columns is None and not self.right.has_low_entries
        )
        self.tiny = tiny_sum(plan, self.n)
        self.workspaces: dict[tuple[int, tuple[int, ...]], Array] = {}

    def workspace(self, place: int, shape: tuple[int, ...]) -> Array:
        """Return float32 memory: zeros, or that of an earlier run of steps, because allocating takes time."""
        room = self.workspaces.get((place, shape))
        if room is None:
            room = self.workspaces[place, shape] = aligned_zeros(shape, np.dtype(np.float32))
        return room

    @cached_property
    def step_operand(self) -> RightBlock:
        """The right operand of the steps."""
        return RightBlock(self.right, 0, self.n)

    @cached_property
    def float32_exponentials(self) -> Array:
        """The exponentials in float32 that are not negligible, (n, n)."""
        rows = self.step_operand.panels.packed.swapaxes(0, 1).reshape(self.n, -1)[:, : self.n]
        return np.where(rows < _FAINT, 0, rows).astype(np.float32)

    @cached_property
    def gradient_operand(self) -> PackedPanels:
        """The right operand of the gradients."""
        return PackedPanels.from_matrix(self.float32_exponentials.T)


def walk(backend: Backend, plan: KernelPlan, preparation: PreparedMatrix, x: Array, steps: Steps) -> None:
    """Advance x (m, n), of contiguous rows, by the steps: see `semiring.kernels.contract.SequenceKernels`."""
    alone = replace(plan, threads=1)

    def product(x: Array, plan: KernelPlan) -> Array:
        C = np.empty_like(x)
        multiply_by(backend, plan, C, x, preparation.right)
        return C

    if not preparation.has_compiled_steps:
        if steps.sums is not None:
            steps.factors[...], steps.sums[...] = 0, np.nan
        _walk_by_products(lambda x: product(x, plan), x, steps)
        return
    counts, last = _count_steps(steps, x.shape[0]), steps.number
    arrays = _make_lines_contiguous(steps.weights), steps.states, steps.factors, steps.sums
    operand = preparation.step_operand
    right, B, tile = operand.kernel_operands(True), operand.B, operand.panels.tile

    def walk_part(start: int, stop: int) -> None:
        rows, m = x[start:stop], stop - start
        workspace = operand.workspace(m)
        top, u, marks = np.empty(m, np.float32), np.empty(m), np.empty((2, m), np.int32)
        places = tuple(_locate_row(array, start) for array in arrays)
        t, has_product = 0, False
        while t < last:
            t = _walk_steps(
                *(tile, B, right, workspace, (t, last, has_product), places, counts[start:stop], rows),
                *(preparation.right.offset, operand.fewest, preparation.tiny, top, u, marks),
            )
            if t < last:
                stuck = np.flatnonzero(marks[1])
                workspace[2][stuck, : preparation.n], has_product = product(rows[stuck], alone), True

    with np.errstate(all="ignore"):
        _run_in_blocks(walk_part, plan, x.shape[0], operand.panels.rows)


def _walk_by_products(product: Callable[[Array], Array], x: Array, steps: Steps) -> None:
    for t in range(steps.number):
        y = product(x)
        if steps.weights is not None:
            w = steps.weights[:, t]
            with np.errstate(invalid="ignore", over="ignore"):  # as in compiled loops
                y = np.where(np.isneginf(y) | np.isneginf(w), -np.inf, y + w)
        np.copyto(x, y, where=np.True_ if steps.lengths is None else (steps.lengths > t)[:, None])
        if steps.states is not None:
            steps.states[:, t] = x


def _count_steps(steps: Steps, m: int) -> Array:
    """Return how many steps each of m rows takes."""
    return np.full(m, steps.number) if steps.lengths is None else np.ascontiguousarray(steps.lengths, np.int64)


def pull(plan: KernelPlan, preparation: PreparedMatrix, G: Array, steps: Steps, matrix_gradient: Array) -> bool:
    """Replace G (m, n), of adjacent rows, by its gradient by the first state: see `SequenceKernels` of the contract."""
    if not preparation.has_compiled_steps:
        return False
    (m, n), shape, operand = G.shape, steps.sums.shape, preparation.gradient_operand
    counts, high, trusted = _count_steps(steps, m), operand.rows, np.float32(_TRUSTED_SUM * n)
    weights = np.broadcast_to(np.zeros(n, np.float32), shape) if steps.weights is None else steps.weights
    read = [_make_lines_contiguous(array) for array in (weights, steps.factors, steps.sums, steps.state_gradients)]
    # Blocks depend on m alone and not on threads, because their sums are added up.
    height = max(_MIN_BLOCK_ROWS, -(-m // (_MAX_BLOCKS * high)) * high)
    products = np.empty((-(-m // height), -(-n // high) * high, operand.columns), np.float32)
    successes = []

    def pull_part(start: int, stop: int) -> None:
        Q, D = operand.allocate_operands(stop - start)
        right = preparation.workspace(start, (products.shape[2], stop - start, steps.number))
        h = steps.weight_gradients
        h = np.broadcast_to(np.empty(n, np.float32), shape) if h is None else h
        places, rows = tuple(_locate_row(array, start) for array in (*read, h)), slice(start, stop)
        success = _pull_steps(
            *(operand.tile, operand.address, steps.number, places, counts[rows], G[rows], trusted),
            *(Q, D, right.ctypes.data, products[start // height]),
        )
        successes.append(success)

    run_on_ranges(pull_part, m, height, plan.threads, unit=height)
    if all(successes):
        factors = products, preparation.float32_exponentials, matrix_gradient
        _run_in_blocks(lambda start, stop: _add_factors(*factors, start, stop), plan, n, 1)
    return all(successes)


def _make_lines_contiguous(array: Array | None) -> Array | None:
    """Return an array whose last dimension has adjacent entries."""
    return array if array is None or array.strides[-1] == array.itemsize else np.ascontiguousarray(array)


def _locate_row(array: Array | None, row: int) -> tuple[int, int, int]:
    """Return the address of a row of an array (m, steps, n), and the strides of rows and of steps."""
    if array is None:
        return _NOT_REQUESTED
    return array.ctypes.data + row * array.strides[0], array.strides[0], array.strides[1]


def _run_in_blocks(block: Callable[[int, int], None], plan: KernelPlan, m: int, rows: int) -> None:
    """Call ``block`` for shares of the rows, one for each thread, in whole tiles and in blocks of limited size."""
    blocks = plan.threads * -(-m // (plan.threads * _BLOCK))
    step = -(-m // (blocks * rows)) * rows
    run_on_ranges(block, m, step, plan.threads, unit=step)
