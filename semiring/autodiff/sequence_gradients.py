"""Compute gradients of products along a sequence (`semiring.linalg.sequences`) with memory for √T of its T steps.

The forward pass saves the vectors before every ⌈√T⌉th step. The backward pass recomputes the vectors between them,
segment by segment from the last segment to the first. It computes the gradient of each step by the rule of the semiring
(`semiring.autodiff`). If one matrix serves all steps, the terms of its gradient in a segment are one product, and in
log_plus its exponentials are computed once (`_Exponentials`). A backend with `kernels.contract.SequenceKernels`
computes the gradients of a whole segment in one call. If the data for the gradients of all steps is small, the forward
pass saves it.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from functools import cached_property
from math import isqrt, prod
from typing import Any

import numpy as np

from semiring.algebra import Semiring
from semiring.algebra.catalogue import plus_times
from semiring.algebra.expressions import Expression
from semiring.autodiff.rules import factors, rule_of
from semiring.autodiff.scaled_products import ScaledOperand, largest, scaled_product
from semiring.linalg import matmul
from semiring.linalg.dispatch import Walker, has_gradient_kernel, scan_operands
from semiring.linalg.sequences import Chain, ChainArrays, check_lengths
from semiring.namespaces import Array, array_namespace

__all__ = [
    "allocate_recycled",
    "best_states",
    "count_saved_vectors",
    "final_state",
    "pull_back",
    "scan_states",
    "segments",
]


_MAX_EXPONENT = 20  # float32 gradients are scaled if the greatest differs from 1 by more binary digits
_MAX_SPREAD = 30  # gradients are not float32 if rows of the batch differ by more binary digits
_RUN_STEPS = 64  # steps whose gradients a backend computes in one call, and sums in float32
_MAX_SAVED_BYTES = 1 << 27  # if the data of all steps has more bytes, only every √Tth state is saved


def segments(steps: int, min_length: int = 1) -> list[range]:
    """Return the steps in runs of about √T, or of the ``min_length`` length."""
    length = max(min_length, isqrt(max(0, steps - 1)) + 1)
    return [range(start, min(steps, start + length)) for start in range(0, steps, length)]


def count_saved_vectors(
    semiring: Semiring, A: tuple[int, ...], batch: tuple[int, ...], n: int, steps: int, dtype: str, on_host: bool
) -> int:
    """Return the number of vectors that `final_state` saves for each sequence, with A in the shape that `Chain` takes.

    It is one for each segment, or two for each step if a backend computes gradients of many steps.
    """
    every = 2 * steps
    one = on_host and dtype == "float32" and steps > 1 and prod(A[:-2]) == 1 and prod(batch) > 1
    fits = (
        one
        and prod(batch) * every * n * 4 <= _MAX_SAVED_BYTES
        and has_gradient_kernel(semiring, np.dtype(np.float32), n)
    )
    return every if fits else len(segments(steps))


def scan_states(inputs: ChainArrays, steps: int, semiring: Semiring, check: bool) -> Any:
    """Return the state after each step, (..., steps, n)."""
    chain = _check_chain(inputs, steps, semiring, check)
    result = array_namespace(chain.x).empty((*chain.batch, steps, chain.x.shape[-1]), chain.x.dtype)
    chain.scan(result)
    return result


def best_states(inputs: ChainArrays, steps: int, semiring: Semiring, check: bool) -> Array:
    """Return the states on a best path to each last state, int32 (..., steps, n): the state before each step."""
    return _check_chain(inputs, steps, semiring, check).best_path()[1]


def final_state(
    inputs: ChainArrays, steps: int, semiring: Semiring, check: bool, vector_count: int
) -> tuple[Array, Array]:
    """Return the state after the last step, (..., n), and the data for the gradient, (..., saved, n).

    ``vector_count`` is the result of `count_saved_vectors`.
    """
    chain = _check_chain(inputs, steps, semiring, check)
    xp, shape = array_namespace(chain.x), (*chain.batch, vector_count, chain.x.shape[-1])
    borders = allocate_recycled(shape, chain.x.dtype) if xp is np else xp.empty(shape, chain.x.dtype)
    last = chain.start
    if vector_count > steps:
        return chain.walk(last, range(steps), None, borders), borders
    for place, run in enumerate(segments(steps)):
        borders[..., place, :] = last
        last = chain.walk(last, run)
    return last.copy(), borders


def _check_chain(inputs: ChainArrays, steps: int, semiring: Semiring, check: bool) -> Chain:
    """Return the chain of validated arrays. Raises `DomainError` and `ValueError`."""
    named = {"As": inputs.A, "x": inputs.x, "weights": inputs.weights}
    scan_operands(semiring, check, **{name: array for name, array in named.items() if array is not None})
    if check:
        check_lengths(inputs.lengths, steps)
    return Chain(semiring, *inputs, steps)


def pull_back(
    inputs: ChainArrays, borders: Array, g: Array, steps: int, semiring: Semiring
) -> tuple[Array, Array, Array | None]:
    """Return the gradients by A, x and the weights from the gradients g of the last state, or of all states.

    ``g`` is (..., 1, n) or (..., steps, n). ``borders``: the states before each segment, or the data that `final_state`
    saved.
    """
    return _Backward(Chain(semiring, *inputs, steps), g).run(borders)


class _Backward:
    """The gradients of a chain, summed from its last step to its first."""

    def __init__(self, chain: Chain, g: Array) -> None:
        self.chain, self.g, self.xp = chain, g, array_namespace(chain.x)
        self.rule = rule_of(chain.semiring)
        self.has_one_matrix = prod(chain.A.shape[:-2]) == 1  # whether one matrix serves all steps
        # Sums over all steps are float64, because float32 sums would lose digits of the terms.
        self.dA = self.xp.zeros(chain.A.shape, np.float64)
        rows = (0, 0) if chain.weights is None else chain.weights.shape[-2:]
        narrow = chain.x.dtype == np.float32
        self.dw = self.xp.empty((*chain.batch, *rows), np.float32 if narrow else np.float64)
        self.right_operand: ScaledOperand | None = None
        self.pending_terms: list[tuple[Array, Array, Array]] = []
        walks = narrow and self.xp is np and self.has_one_matrix and prod(chain.batch) > 1
        walks = walks and has_gradient_kernel(chain.semiring, chain.x.dtype, chain.x.shape[-1])
        self.walker = (
            chain.walker if walks and not self._has_distant_rows() else None
        )  # computes gradients of many steps

    @cached_property
    def exponentials(self) -> _Exponentials | None:
        """The exponentials of the one matrix."""
        return _Exponentials(self.xp, self.chain.A) if self.has_one_matrix and self.rule == "log_plus" else None

    def run(self, borders: Array) -> tuple[Array, Array, Array | None]:
        """Return the gradients by A, x and the weights, in the dtype of the chain and the shapes of its arrays."""
        chain, xp = self.chain, self.xp
        every, steps = self.g.shape[-2] == chain.steps, chain.steps
        exponent = 0 if self.walker is None else self._exponent()
        self.g = xp.ldexp(self.g, -exponent) if exponent else self.g
        G = xp.zeros(chain.start.shape) if every else self.g[..., 0, :].astype(np.float64)
        whole = borders.shape[-2] > steps
        runs = segments(steps, _RUN_STEPS if whole else 1)
        for place, run in reversed(list(enumerate(runs))):
            gradient = None
            if self.walker is not None:
                saved = borders if whole else self._save_run(borders[..., place, :], run)
                first, middle = (run.start, steps) if whole else (0, len(run))
                factors, sums = (saved[..., start : start + len(run), :] for start in (first, first + middle))
                gradient = self._pull_run(self.walker, factors, sums, run, G, every)
            if gradient is None and whole:  # the saved data does not suffice
                borders, whole = self._recompute_borders(runs), False
            G = self._pull_segment(borders[..., place, :], run, G, every) if gradient is None else gradient
        dw = None if chain.weights is None else _sum_to_shape(self.dw, chain.weights.shape)

        def restore(array: Array) -> Array:
            return (xp.ldexp(array, exponent) if exponent else array).astype(chain.x.dtype, copy=False)

        return restore(self.dA), restore(_sum_to_shape(G, chain.x.shape)), None if dw is None else restore(dw)

    def _exponent(self) -> int:
        """Return the exponent of the power of two by which float32 gradients are divided; 0 if they are near 1."""
        greatest = float(np.abs(self.g).max(initial=0))
        exponent = int(np.frexp(greatest)[1]) if 0 < greatest < np.inf else 0
        return exponent if abs(exponent) > _MAX_EXPONENT else 0

    def _has_distant_rows(self) -> bool:
        """Return whether the gradients of a row of the batch are negligible compared with those of another row."""
        greatest = np.abs(self.g).max(axis=(-2, -1), initial=0)
        return bool((greatest[greatest > 0] < np.ldexp(greatest.max(initial=0), -_MAX_SPREAD)).any())

    def _recompute_borders(self, runs: list[range]) -> Array:
        """Return the states before each run of steps."""
        borders, x = np.empty((*self.chain.batch, len(runs), self.chain.x.shape[-1]), np.float32), self.chain.start
        for place, run in enumerate(runs):
            borders[..., place, :] = x
            x = self.chain.walk(x, run)
        return borders

    def _save_run(self, x: Array, run: range) -> Array:
        """Return the data for the gradients of a run of steps."""
        saved = np.empty((*self.chain.batch, 2 * len(run), x.shape[-1]), np.float32)
        self.chain.walk(x, run, None, saved)
        return saved

    def _pull_run(self, walker: Walker, factors: Array, sums: Array, run: range, G: Array, every: bool) -> Array | None:
        """Return the result of `_pull_segment` by one call of the backend; None if it does not support the values."""
        chain, n, part = self.chain, G.shape[-1], slice(run.start, run.stop)
        steps = chain.flatten_steps(
            run,
            factors=factors,
            sums=sums,
            state_gradients=self.g[..., part, :] if every else None,
            weight_gradients=None if chain.weights is None else self.dw[..., part, :],
        )
        H = np.array(chain.flatten_batch(G, 1), np.float32, order="C")
        return H.reshape(G.shape) if walker.pull(H, steps, self.dA.reshape(n, n)) else None

    def _pull_segment(self, x: Array, run: range, G: Array, every: bool) -> Array:
        """Return the gradient by the state x before a segment, from the gradient G by the state after it.

        ``every``: whether all states have a gradient, which is added to G at each step.
        """
        chain, xp = self.chain, self.xp
        saved, before = [], x
        for t in run:
            y, W = chain.multiply_with_witness(before, t) if self.rule == "selective" else (None, None)
            if self.exponentials is not None:
                y, W = self.exponentials.product(before)
            y = chain.apply_step(t, before) if y is None else y
            saved.append((before, y, W))
            before = chain.next_state(t, before, y)
        for t, (before, y, W) in zip(reversed(run), reversed(saved), strict=True):
            G = G + self.g[..., t, :] if every else G
            going = chain.active_rows(t)
            H = G if going is None else xp.where(going, G, 0)
            if chain.weights is not None:
                H = self._pull_weights(t, y, chain.weights[..., t, :], H)
            d = self._pull_product(t, before, y, W, H)
            G = d if going is None else xp.where(going, d, G)
        self._add_pending_terms()
        return G

    def _pull_weights(self, t: int, y: Array, weights: Array, H: Array) -> Any:
        """Return the gradient by y of y ⊗ wₜ, and write the gradient by the weights wₜ to ``dw``."""
        chain, xp = self.chain, self.xp
        weights = xp.broadcast_to(weights, y.shape)
        is_defined = _gradient_mask(chain.semiring, self.rule, y, weights)
        by_y, by_w = (_evaluate(xp, half, y, weights, is_defined) for half in factors(chain.semiring))
        self.dw[..., t, :] = xp.where(is_defined, H * by_w, 0)
        return xp.where(is_defined, H * by_y, 0)

    def _pull_product(self, t: int, x: Array, y: Any, W: Any, H: Any) -> Array:
        """Return the gradient by x of y = x ⊗ Aₜ, (..., n), and add the gradient by Aₜ to ``dA``."""
        chain, xp, n = self.chain, self.xp, x.shape[-1]
        if isinstance(W, _SavedSums):
            return W.pull_back(H.reshape(-1, n)).reshape(x.shape)
        A = chain.step_matrix(t)
        dA = self.dA[..., t if self.dA.shape[-3] > 1 else 0, :, :]
        inputs = [array for array in (x, y, H, W) if array is not None]
        if prod(A.shape[:-2]) == 1:
            A, dA = A.reshape(n, n), dA.reshape(n, n)
            inputs = [array.reshape(-1, n) for array in inputs]
        elif A.shape[-3] == 1:
            A, dA = A[..., 0, :, :], dA[..., 0, :, :]
        else:
            inputs = [array[..., None, :] for array in inputs]
        rows, y, H = inputs[:3]
        if self.rule == "plus_times":
            d, dM = _product(xp, H, A.swapaxes(-1, -2)), _product(xp, rows.swapaxes(-1, -2), H)
        elif self.rule == "selective":
            d, dM = self._pull_witness(rows, A, inputs[3], H)
        else:
            d, dM = self._pull_sums(rows, A, y, H)
        if dM is not None:
            dA += _sum_to_shape(dM, dA.shape)
        return d.reshape(x.shape)

    def _pull_sums(self, x: Array, A: Array, y: Array, H: Array) -> tuple[Any, Any]:
        """Return the gradients of y = log Σₖ exp(x + A), whose derivative by both is exp(x[k] + A[k, j] − y[j])."""
        xp = self.xp
        minus = xp.where(xp.isneginf(y), -xp.inf, -y.astype(np.float64))
        if x.shape[-2] == 1:
            terms = xp.exp(x.swapaxes(-1, -2).astype(np.float64) + A + minus) * H
            return terms.sum(-1)[..., None, :], terms
        back = A.swapaxes(-1, -2)
        if self.has_one_matrix:
            if self.right_operand is None:
                self.right_operand = ScaledOperand(xp, xp.ones(A.shape), back.astype(np.float64))
            self.pending_terms.append((x, H, minus))
            return self.right_operand.product(H, minus, x), None
        whole = xp.broadcast_to(A, (*x.shape[:-2], *A.shape[-2:]))
        d = scaled_product(H, minus, xp.ones(whole.shape), whole.swapaxes(-1, -2), x)
        row = x.swapaxes(-1, -2)
        return d, scaled_product(xp.ones(row.shape), row, H, minus, whole)

    def _add_pending_terms(self) -> None:
        """Add the gradient by the one matrix for all steps of a segment, by one product."""
        xp, A = self.xp, self.chain.A
        if self.exponentials is not None and self.exponentials.factors:
            self.dA += self.exponentials.matrix_gradient().reshape(A.shape)
        if self.pending_terms:
            x, H, minus = (xp.concatenate(parts) for parts in zip(*self.pending_terms, strict=True))
            terms = scaled_product(xp.ones(x.T.shape), x.T, H, minus, A.reshape(A.shape[-2:]))
            self.dA += terms.reshape(A.shape)
        self.pending_terms.clear()

    def _pull_witness(self, x: Array, A: Array, W: Array, H: Array) -> tuple[Array, Array]:
        """Return the gradients of y = x[W] ⊗ A[W] by x and A, which are 0 except at the selected terms."""
        xp, has_witness = self.xp, W >= 0
        place = xp.maximum(W, 0)
        A = xp.broadcast_to(A, (*W.shape[:-2], *A.shape[-2:]))
        values = xp.take_along_axis(x, place, -1), xp.take_along_axis(A, place, -2)
        by_x, by_a = (_evaluate(xp, half, *values, has_witness) for half in factors(self.chain.semiring))
        index = [xp.asarray(axis) for axis in np.indices(W.shape, sparse=True)]
        d, dA = xp.zeros(x.shape), xp.zeros(A.shape)
        xp.add.at(d, (*index[:-1], place), xp.where(has_witness, H * by_x, 0))
        xp.add.at(dA, (*index[:-2], place, index[-1]), xp.where(has_witness, H * by_a, 0))
        return d, dA


class _Exponentials:
    """The products y = log Σₖ exp(x + A) by one matrix A, and their gradients, with E = exp A computed once.

    With X = exp x and S = X · E the derivative exp(x[k] + A[k, j] − y[j]) is X[k] · E[k, j] / S[j]. So the gradients
    for G are X ∘ (G / S · Eᵀ) by x, and E ∘ (Xᵀ · G / S) by A. Exponentials are relative to the greatest entry of a row
    of x and of a column of A, which cancels in the derivatives. The computation is in float64, because the errors of a
    long sequence are ten times as large in float32.
    """

    def __init__(self, xp: Any, A: Array) -> None:
        self.xp, A = xp, A.reshape(A.shape[-2:]).astype(np.float64)
        limits = np.finfo(np.float64)
        self.min_exponent = (
            float(np.log(limits.tiny)) / 2.1
        )  # smaller exponents count as -∞, so that no product is subnormal
        self.min_sum = (
            A.shape[0] * np.exp(self.min_exponent) / limits.eps
        )  # in a larger sum, the omitted terms are negligible
        self.columns = largest(xp, A, 0)
        self.E, self.paths = self._exponentials(A - self.columns), xp.greater(A, -np.inf)
        self.factors: list[tuple[Array, Array]] = []  # pairs (left, right): the gradient by A is leftᵀ · right ∘ E

    def _exponentials(self, exponents: Array) -> Any:
        return self.xp.where(exponents < self.min_exponent, 0, self.xp.exp(exponents))

    def product(self, x: Array) -> tuple[Any, Any]:
        """Return y for x (..., n), and the data for its gradient; None and None if a sum is too small."""
        xp, wide = self.xp, x.reshape(-1, x.shape[-1]).astype(np.float64)
        rows = largest(xp, wide, 1)
        with np.errstate(all="ignore"):
            X = self._exponentials(wide - rows)
            S = _matmul(xp, X, self.E)
            few = ~(self.min_sum <= S)
            if bool(few.any()):
                paths = _matmul(xp, xp.greater(wide, -np.inf).astype(np.float64), self.paths.astype(np.float64))
                if bool((few & (paths > 0)).any()):
                    return None, None
            y = xp.log(S) + (rows + self.columns)
        return y.astype(x.dtype).reshape(x.shape), _SavedSums(self, X, S)

    def matrix_gradient(self) -> Any:
        """Return the gradient by A, summed over all calls of `_SavedSums.pull_back`."""
        left, right = (self.xp.concatenate(parts) for parts in zip(*self.factors, strict=True))
        self.factors.clear()
        return _matmul(self.xp, left.T, right) * self.E


@dataclass
class _SavedSums:
    """The data of a product by `_Exponentials` for its gradient: the exponentials X of x, and the sums S."""

    exponentials: _Exponentials
    X: Array
    S: Array

    def pull_back(self, G: Array) -> Array:
        """Return the gradient by x (rows, n), from the gradient G by y."""
        xp, is_positive = self.exponentials.xp, self.S > 0
        Q = xp.where(is_positive, G, 0) / xp.where(is_positive, self.S, 1)
        self.exponentials.factors.append((self.X, Q))
        return self.X * _matmul(xp, Q, self.exponentials.E.T)


def _gradient_mask(semiring: Semiring, rule: str, y: Array, weights: Array) -> Any:
    """Return a mask of the entries y ⊗ w with a gradient: no operand is "no path", or the rule is plus_times."""
    zero = semiring.zero_for(y.dtype)
    if rule == "plus_times":
        return np.True_
    return (y != zero) & (weights != zero)


def _evaluate(xp: Any, derivative: Expression, x: Array, y: Array, mask: Array) -> Any:
    """Return a derivative of ⊗. Outside of the mask, operands are 1, so that the derivative is not NaN."""
    values = {"x": x, "y": y}
    values = {name: xp.where(mask, values[name], 1) for name in derivative.variables}
    return derivative.evaluate(values, x.dtype, xp) if values else float(derivative.evaluate({}, np.dtype(np.float64)))


def _product(xp: Any, X: Array, Y: Array) -> Array:
    return _matmul(xp, X.astype(np.float64), Y.astype(np.float64))


def _matmul(xp: Any, X: Array, Y: Array) -> Array:
    """Return X · Y. On the host this package's kernel multiplies, because threads of two libraries would wait."""
    return matmul(X, Y, plus_times, check=False) if xp is np else X @ Y


def _sum_to_shape(terms: Array, shape: tuple[int, ...]) -> Array:
    """Return the sum over the dimensions that ``shape`` was broadcast along."""
    wide = np.float64
    terms = terms.sum(tuple(range(terms.ndim - len(shape))), wide) if terms.ndim > len(shape) else terms
    axes = tuple(axis for axis, size in enumerate(shape) if size == 1 and terms.shape[axis] != 1)
    return terms.sum(axes, wide, keepdims=True) if axes else terms


_MIN_BYTES = 1 << 20  # the allocator reuses less memory itself
_MAX_BYTES = 1 << 27  # more memory would be missing for other uses
_free_memory: deque[Array] = deque(maxlen=1)


class _RecycledMemory:
    """Memory that becomes available for the next array when the last array on it is deleted."""

    def __init__(self, memory: Any) -> None:
        self.memory, self.__array_interface__ = memory, memory.__array_interface__

    # A default argument, because modules may be deleted at exit.
    def __del__(self, waiting: deque[Array] = _free_memory) -> None:
        waiting.append(self.memory)


def allocate_recycled(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """Return an uninitialized array in the memory of a deleted array, if that has one to four times its size."""
    size = prod(shape) * dtype.itemsize
    if not _MIN_BYTES <= size <= _MAX_BYTES:
        return np.empty(shape, dtype)
    try:
        memory = _free_memory.pop()
    except IndexError:
        memory = np.empty(size, np.uint8)
    if not size <= memory.size <= 4 * size:  # a small array must not keep large memory in use
        memory = np.empty(size, np.uint8)
    return np.asarray(_RecycledMemory(memory))[:size].view(dtype).reshape(shape)
