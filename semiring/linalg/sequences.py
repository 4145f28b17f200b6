"""Compute products along a sequence, x ⊗ A₁ ⊗ A₂ ⊗ …, all of its prefixes, and the states that attain it.

A step replaces a vector x, a row of states, by (x ⊗ Aₜ) ⊗ wₜ: a product, and an entrywise product with the weights of
the step. In `log_plus` that is the forward algorithm of a hidden Markov model, and in `max_plus` that of Viterbi. The
same holds for a linear-chain CRF: Aₜ are the transitions, wₜ the emissions.

In a `Chain`, the dimensions of the batch come first. All arrays have the same number of them, and they broadcast. On
the host all steps run in compiled code (`semiring.kernels.contract.SequenceKernels`), unless a step is so large that a
call for each costs nothing, or integers may leave their range. Without such kernels each step is one product for the
whole batch. With small matrices on a GPU, the calls cost more than the products. Neighbours are multiplied side by
side then, in log₂ T calls and with more work (Blelloch, Prefix sums and their applications, 1990). The choice depends
on shapes alone. A `SparseChain` has sparse matrices.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from typing import Any, Literal, NamedTuple, TypedDict, Unpack, overload

import numpy as np

from semiring.algebra import Semiring
from semiring.algebra.catalogue import as_semiring
from semiring.arguments import as_numbers, require_integer
from semiring.arrays.compressed import Rows, as_sparse, every_entry
from semiring.arrays.encoding import (
    decode,
    encode,
    has_inner_zero,
    next_wider_integer,
    round_to_dtype,
    to_compute_dtype,
)
from semiring.arrays.memory import new_array
from semiring.arrays.operands import operands, result_converter, run_on_operand_device
from semiring.arrays.scans import limits_of
from semiring.errors import DTypeError, ShapeError
from semiring.kernels.contract import CompressedRows, Steps
from semiring.linalg.dispatch import (
    Walker,
    magnitudes,
    make_walker,
    may_wrap,
    scan_operands,
    scanned_magnitude,
)
from semiring.linalg.elementwise import identity, multiply
from semiring.linalg.product_explanation import ProductExplanation, pause_recording, record_product
from semiring.linalg.products import demand_selective, matmul, power
from semiring.linalg.sparse_products import has_sparse, read_sparse_operands
from semiring.namespaces import Array, array_namespace, is_device_array, shape_of
from semiring.thread_counts import check_threads

__all__ = ["Chain", "arrange_chain", "check_lengths", "multi_dot", "scan"]


_MIN_STEPS = 8  # with fewer steps, products of neighbours are not computed side by side
_MAX_PAIRS = 1 << 12  # pairs of a step's products, above which products take longer than a call
_MAX_PAIRS_ON_DEVICE = 1 << 20
_MAX_ROWS, _MAX_ROWS_ON_DEVICE = 16, 64  # rows n of these matrices, which take n times the memory of the states


_STATES = 1 << 12  # steps whose states are held at a time to find the greatest one

#: The number of dimensions of each array after those of the batch, in the order of `ChainArrays`.
_OWN_DIMENSIONS = (3, 1, 2, 0)


class ChainArrays(NamedTuple):
    """The arrays of a `Chain`, of any array library, with the dimensions of a batch in front."""

    A: Any
    x: Any
    weights: Any = None
    lengths: Any = None

    @property
    def batches(self) -> list[tuple[int, ...]]:
        """The dimensions of the batch of each array, which broadcast."""
        result = ((array, own) for array, own in zip(self, _OWN_DIMENSIONS, strict=True) if array is not None)
        return [tuple(array.shape[: array.ndim - own]) for array, own in result]


class _InnerIntegers(NamedTuple):
    """The dtype of integers inside a walk, in which no sum of the sequence wraps, and whether no entry is below 0."""

    dtype: np.dtype[Any]
    is_nonnegative: bool


@dataclass(frozen=True)
class Chain:
    """A sequence of steps in one semiring, dtype and memory; the leading dimensions of the arrays broadcast."""

    semiring: Semiring
    A: Array  # (..., 1 or steps, n, n): one matrix for all steps, or one for each step
    x: Array  # (..., n)
    weights: Array | None  # (..., steps, n)
    lengths: Array | None  # (...) int64: from this step on, the states of a row of the batch do not change
    steps: int
    square: bool = False  # the vectors are the rows of the identity, along the last dimension of the batch
    threads: int | None = None

    @cached_property
    def batch(self) -> tuple[int, ...]:
        """The dimensions of the batch."""
        return np.broadcast_shapes(*ChainArrays(self.A, self.x, self.weights, self.lengths).batches)

    @cached_property
    def start(self) -> Any:
        """The first states, broadcast to the shape of the batch."""
        shape = (*self.batch, self.x.shape[-1])
        return self.x if self.x.shape == shape else array_namespace(self.x).broadcast_to(self.x, shape)

    def step_matrix(self, t: int) -> Array:
        """Return the matrix of a step, (..., n, n)."""
        return self.A[..., t if self.A.shape[-3] > 1 else 0, :, :]

    def active_rows(self, t: int) -> Array | None:
        """Return a mask (..., 1) of the rows of the batch that have step t, or None for all rows."""
        return None if self.lengths is None else (self.lengths > t)[..., None]

    def apply_weights(self, t: int, y: Array) -> Any:
        """Return y ⊗ wₜ for the weights of step t."""
        if self.weights is None:
            return y
        return multiply(y, self.weights[..., t, :], self.semiring, check=self._needs_scan)

    def walk(
        self,
        x: Any,
        run: range,
        states: Array | None = None,
        gradient_data: Array | None = None,
        witness: Array | None = None,
    ) -> Any:
        """Return the state after a run of steps, (..., n), from the state ``x`` before it.

        The state after each step is written to ``states`` (..., steps, n), and the smallest state before it that
        attains each entry of x ⊗ Aₜ, or -1, to ``witness``. The data for gradients is written to ``gradient_data``
        (..., 2 · steps, n), or NaN if the backend has none.
        """
        if self.walker is None:
            for t in run:
                y = self._apply_step(t, x, return_witness=witness is not None)
                if witness is not None:
                    y, witness[..., t - run.start, :] = y
                x = self.next_state(t, x, y)
                if states is not None:
                    states[..., t - run.start, :] = x
            if gradient_data is not None:
                gradient_data[...] = np.nan
            return x
        halves = (
            (None, None)
            if gradient_data is None
            else (gradient_data[..., : len(run), :], gradient_data[..., len(run) :, :])
        )
        form = self._integers
        inner = states if states is None or form is None else new_array(np, states.shape, form.dtype)
        steps = self.flatten_steps(run, states=inner, witness=witness, factors=halves[0], sums=halves[1])
        x = x if form is None else encode(x, self.semiring, form.dtype)
        last = self.walker.walk(self.flatten_batch(x, 1), steps).reshape((*self.batch, x.shape[-1]))
        if form is None:
            return last
        if states is not None and inner is not None:
            decode(inner, self.semiring, self.x.dtype, out=states)
        return decode(last, self.semiring, self.x.dtype)

    def flatten_steps(self, run: range, **arrays: Array | None) -> Steps:
        """Return a run of steps for a backend, with one dimension for the batch."""
        lengths = None if self.lengths is None else self.lengths - run.start
        weights = self._inner_weights
        arrays["weights"] = None if weights is None else weights[..., run.start : run.stop, :]
        of_steps = {name: self.flatten_batch(array, 2) for name, array in arrays.items()}
        return Steps(len(run), lengths=self.flatten_batch(lengths, 0), first=run.start, **of_steps)

    def flatten_batch(self, array: Any, dimensions: int) -> Any:
        """Return an array with one dimension for the batch, a view if possible.

        ``dimensions`` counts its other dimensions.
        """
        if array is None:
            return None
        shape = array.shape[array.ndim - dimensions :]
        if array.shape[: array.ndim - dimensions] != self.batch:
            array = array_namespace(array).broadcast_to(array, (*self.batch, *shape))
        return array.reshape(prod(self.batch), *shape)

    def next_state(self, t: int, x: Array, y: Array) -> Any:
        """Return the state after a step, from the state x before it and y = x ⊗ Aₜ."""
        result, going = self.apply_weights(t, y), self.active_rows(t)
        return result if going is None else array_namespace(x).where(going, result, x)

    def multiply_with_witness(self, x: Array, t: int) -> tuple[Array, Array]:
        """Return x ⊗ Aₜ, and the smallest earlier state that attains each entry, or -1; both are (..., n)."""
        result: tuple[Array, Array] = self._apply_step(t, x, return_witness=True)
        return result

    @cached_property
    def _needs_scan(self) -> bool:
        """Whether the operands of every step need a scan: integers, for "no path" and their range."""
        return has_inner_zero(self.semiring, self.x.dtype) or may_wrap(self.semiring, self.x.dtype)

    def apply_step(self, t: int, x: Array) -> Array:
        """Return x ⊗ Aₜ for x (..., n), without weights."""
        result: Array = self._apply_step(t, x)
        return result

    def _apply_step(self, t: int, x: Array, *, return_witness: bool = False) -> Any:
        """Return x ⊗ Aₜ for x (..., n), and its witness; one product serves all rows with the same matrix."""
        n = x.shape[-1]
        if self.walker is not None and self._integers is None:
            witness = np.empty((prod(self.batch), 1, n), np.int32) if return_witness else None
            y = self.walker.walk(self.flatten_batch(x, 1), Steps(1, witness=witness, first=t)).reshape(x.shape)
            return y if witness is None else (y, witness.reshape(x.shape))
        A = self.step_matrix(t)
        if prod(A.shape[:-2]) == 1:
            left, right = x.reshape(prod(x.shape[:-1]), n), A.reshape(n, n)
        elif A.shape[-3] == 1:
            left, right = x, A[..., 0, :, :]
        else:
            left, right = x[..., None, :], A
        options: Any = {"check": self._needs_scan, "threads": self.threads}
        if return_witness:
            y, W = matmul(left, right, self.semiring, return_witness=True, **options)
            return y.reshape(x.shape), W.reshape(x.shape)
        return matmul(left, right, self.semiring, **options).reshape(x.shape)

    @cached_property
    def walker(self) -> Walker | None:
        """The kernels for all steps of the batch, or None if the backend has none, or integers may leave their range.

        A step by each matrix is then a product of its own, which detects a result that does not fit.
        """
        if is_device_array(self.x) or not self.steps:
            return None
        if has_inner_zero(self.semiring, self.x.dtype):
            if self._integers is None:
                return None
        elif may_wrap(self.semiring, self.x.dtype) and not self._sums_fit():
            return None
        return self._make_walker()

    def _make_walker(self) -> Walker | None:
        """Return the kernels for the steps by the matrices in their inner form."""
        count, form = prod(self.A.shape[:-3]), self._integers
        groups = np.zeros(prod(self.batch), np.int64)
        if count > 1:
            groups.reshape(self.batch)[...] = np.arange(count).reshape(self.A.shape[:-3])
        A = self.A if form is None else encode(self.A, self.semiring, form.dtype)
        matrices = A.reshape(count, *A.shape[-3:])
        is_nonnegative = form is not None and form.is_nonnegative
        return make_walker(self.semiring, matrices, groups, self.threads, nonnegative=is_nonnegative)

    @cached_property
    def _integers(self) -> _InnerIntegers | None:
        """The form of integers of min-plus and max-plus inside a walk; None for all other entries.

        It is also None if no dtype holds all sums of the sequence.
        """
        if not has_inner_zero(self.semiring, self.x.dtype) or is_device_array(self.x):
            return None
        arrays = {"As": self._entries, "x": self.x} | ({} if self.weights is None else {"weights": self.weights})
        scans = scan_operands(self.semiring, True, **arrays)
        sizes = [scanned_magnitude(scan) for scan in scans]
        greatest = sizes[1] + self.steps * (sizes[0] + sum(sizes[2:]))
        dtype: np.dtype[Any] | None = self.x.dtype
        while dtype is not None and greatest >= limits_of(dtype).half:
            dtype = next_wider_integer(dtype)
        return None if dtype is None else _InnerIntegers(dtype, all(scan.nonnegative for scan in scans))

    @cached_property
    def _inner_weights(self) -> Any:
        """The weights as the kernels read them, with adjacent entries in a line."""
        weights = self.weights
        if weights is not None and self._integers is not None:
            return encode(weights, self.semiring, self._integers.dtype)
        return weights if weights is None or weights.strides[-1] == weights.itemsize else weights.copy()

    @property
    def _entries(self) -> Array:
        """All stored entries of the matrices."""
        return self.A

    def _magnitudes(self) -> Chain:
        """Return the chain of the magnitudes of all entries, in float64."""
        weights = None if self.weights is None else magnitudes(self.weights)
        return replace(self, A=magnitudes(self.A), x=magnitudes(self.x), weights=weights)

    def _sums_fit(self) -> bool:
        """Return whether all sums of the magnitudes of terms fit the integer dtype, in a walk by float64."""
        chain = self._magnitudes()
        greatest, x = 0.0, chain.start
        limit = limits_of(self.x.dtype).max * (1 - self.steps * (self.x.shape[-1] + 2) * 2.0**-52)
        for start in range(0, self.steps, _STATES):
            run = range(start, min(self.steps, start + _STATES))
            states = np.empty((*self.batch, len(run), x.shape[-1]))
            with np.errstate(over="ignore", invalid="ignore"), pause_recording():
                x = chain.walk(x, run, states)
            greatest = max(greatest, float(states.max(initial=0)))
            if not greatest <= limit:
                return False
        return True

    # -------------------------------------------------------------------------------------------------- side by side

    @cached_property
    def _uses_prefix_products(self) -> bool:
        """Whether the matrices of all steps are so small that more products in fewer calls are faster."""
        if self.walker is not None:
            return False
        n, is_on_device = self.x.shape[-1], is_device_array(self.x)
        pairs = prod(self._shape[:-3]) * n**3
        small, narrow = (_MAX_PAIRS_ON_DEVICE, _MAX_ROWS_ON_DEVICE) if is_on_device else (_MAX_PAIRS, _MAX_ROWS)
        return self.steps >= _MIN_STEPS and n <= narrow and pairs <= small

    @cached_property
    def _shape(self) -> tuple[int, ...]:
        """The shape of the matrices of all steps, (..., steps, n, n)."""
        shapes = [self.A.shape[:-3]]
        shapes += [] if self.weights is None else [self.weights.shape[:-2]]
        shapes += [] if self.lengths is None else [self.lengths.shape]
        return (*np.broadcast_shapes(*shapes), self.steps, *self.A.shape[-2:])

    def _step_matrices(self) -> Any:
        """Return Aₜ ⊗ diag(wₜ) of every step, (steps, ..., n, n).

        It is the identity for rows of the batch that have ended.
        """
        xp = array_namespace(self.A)
        M = xp.broadcast_to(self.A, self._shape)
        if self.weights is not None:
            M = multiply(M, self.weights[..., None, :], self.semiring, check=self._needs_scan)
        if self.lengths is not None:
            t, n = xp.arange(self.steps)[:, None, None], self.A.shape[-1]
            one = identity(n, self.semiring, self.A.dtype, device="cuda" if is_device_array(self.A) else None)
            M = xp.where(t < self.lengths[..., None, None, None], M, one)
        return xp.moveaxis(M, -3, 0)

    @cached_property
    def _is_plain_product(self) -> bool:
        """Whether the chain is the product of one matrix for each step, without vectors, weights or lengths."""
        return self.square and self.A.shape[-3] == self.steps and self.weights is None and self.lengths is None

    def _multiply_pairs(self, A: Array, B: Array) -> Any:
        """Return the products A[i] ⊗ B[i] of two stacks."""
        return matmul(A, B, self.semiring, check=self._needs_scan, threads=self.threads)

    def _compute_prefix_products(self, M: Array) -> Any:
        """Return M₁, M₁ ⊗ M₂, … along the first axis, from the prefix products of the products of neighbours."""
        if M.shape[0] == 1:
            return M
        pair_prefixes = self._compute_prefix_products(self._multiply_pairs(M[:-1:2], M[1::2]))
        result = array_namespace(M).empty(M.shape, M.dtype)
        result[0], result[1::2] = M[0], pair_prefixes
        if M.shape[0] > 2:
            result[2::2] = self._multiply_pairs(pair_prefixes[: (M.shape[0] - 1) // 2], M[2::2])
        return result

    def _join(self, M: Array) -> Array:
        """Return M₁ ⊗ M₂ ⊗ … along the first axis."""
        while M.shape[0] > 1:
            pairs = self._multiply_pairs(M[:-1:2], M[1::2])
            M = array_namespace(M).concatenate([pairs, M[-1:]]) if M.shape[0] % 2 else pairs
        return M[0]

    # ------------------------------------------------------------------------------------------------------- results

    def scan(self, out: Array) -> None:
        """Write the state after each step to ``out`` (..., steps, n)."""
        if self._uses_prefix_products:
            products = array_namespace(out).moveaxis(self._compute_prefix_products(self._step_matrices()), 0, -3)
            if self.square:  # (..., 1, steps, n, n)
                out[...] = products[..., 0, :, :, :].swapaxes(-2, -3)
            else:
                out[...] = self._multiply_pairs(self.start[..., None, None, :], products)[..., 0, :]
            return
        self.walk(self.start, range(self.steps), out)

    def final_state(self) -> Any:
        """Return the state after the last step, (..., n)."""
        if self.steps and (self._uses_prefix_products or (self._is_plain_product and self.walker is None)):
            product = self._join(self._step_matrices())
            return (
                product[..., 0, :, :]
                if self.square
                else self._multiply_pairs(self.start[..., None, :], product)[..., 0, :]
            )
        return self.walk(self.start, range(self.steps)) if self.steps else self.start.copy()

    def best_path(self) -> tuple[Array, Array]:
        """Return the last state, and for each of its entries the states (..., steps, n) before the steps."""
        xp = array_namespace(self.x)
        W = new_array(xp, (*self.batch, self.steps, self.x.shape[-1]), np.dtype(np.int32))
        x = self.walk(self.start, range(self.steps), None, None, W) if self.steps else self.start.copy()
        none = xp.equal(x, self.semiring.zero_for(x.dtype))
        if self.walker is not None:
            lengths = self.flatten_batch(self.lengths, 0)
            self.walker.kernels.trace(self.walker.plan, self.flatten_batch(W, 2), ~self.flatten_batch(none, 1), lengths)
            return x, W
        states = xp.broadcast_to(xp.arange(x.shape[-1], dtype=np.int32), x.shape)
        for t in reversed(range(self.steps)):
            going = self.active_rows(t)
            before = xp.take_along_axis(W[..., t, :], xp.maximum(states, 0), -1)
            before = xp.where(states < 0, states, before)
            W[..., t, :] = before if going is None else xp.where(going, before, -1)
            states = before if going is None else xp.where(going, before, states)
        xp.copyto(W, -1, where=none[..., None, :])
        return x, W


@dataclass(frozen=True)
class SparseChain(Chain):
    """A `Chain` by sparse matrices (n, n), one or one for each step. ``A`` has their shape alone, (..., 1, n, n)."""

    matrices: tuple[CompressedRows, ...] = ()

    def _make_walker(self) -> Walker | None:
        form, matrices = self._integers, self.matrices
        if form is not None:
            matrices = tuple(A._replace(values=encode(A.values, self.semiring, form.dtype)) for A in matrices)
        groups, is_nonnegative = np.zeros(prod(self.batch), np.int64), form is not None and form.is_nonnegative
        return make_walker(self.semiring, matrices, groups, self.threads, nonnegative=is_nonnegative)

    @property
    def _entries(self) -> Array:
        return np.concatenate([A.values for A in self.matrices])

    def _magnitudes(self) -> Chain:
        matrices = tuple(A._replace(values=magnitudes(A.values)) for A in self.matrices)
        chain = super()._magnitudes()
        return replace(self, A=chain.A, x=chain.x, weights=chain.weights, matrices=matrices)

    def step_matrix(self, t: int) -> Any:
        """Return the matrix of a step, as a SciPy sparse matrix."""
        starts, columns, values, width = self.matrices[t if len(self.matrices) > 1 else 0]
        return as_sparse(Rows(starts, columns, values, (width, width)))


# ---------------------------------------------------------------------------------------------------------- arguments


def arrange_chain(
    xp: Any, A: Any, x: Any, weights: Any, lengths: Any, steps: int | None, *, square: bool = False
) -> tuple[Any, Any, Any, Any, int]:
    """Return the arrays of a `Chain` from arrays of the namespace ``xp`` with their steps in front, and the steps.

    The shapes are A (n, n) or (T, ..., n, n), x (..., n), weights (T, ..., n) or None, lengths (...) or None. With
    ``square``, x (n, n) holds the rows of the identity, which become the last dimension of the batch. Raises
    `ShapeError` and `ValueError`.
    """
    if A.ndim < 2 or A.shape[-2] != A.shape[-1]:
        raise ShapeError(f"As is {tuple(A.shape)}: the matrices of a sequence are square, (n, n) or (T, ..., n, n)")
    for name, array in (("x", x), ("weights", weights)):
        if array is not None and (array.ndim < 1 + (name == "weights") or array.shape[-1] != A.shape[-1]):
            raise ShapeError(f"As is {tuple(A.shape)}, {name} is {tuple(array.shape)}: its last size is not that of As")
    steps = _count_steps(A, weights, steps)
    if square:
        A = A if A.ndim == 2 else A[..., None, :, :]
        weights = None if weights is None else weights[..., None, :]
        lengths = None if lengths is None else lengths[..., None]
    move_axis = getattr(xp, "movedim", None) or xp.moveaxis  # torch.func.vmap has no rule for torch.moveaxis
    A = A[None] if A.ndim == 2 else move_axis(A, 0, -3)
    weights = None if weights is None else move_axis(weights, 0, -2)
    chain = ChainArrays(A, x, weights, lengths)
    batches = chain.batches
    try:
        rank = len(np.broadcast_shapes(*batches))
    except ValueError:
        raise ShapeError(f"the dimensions of the batch, {', '.join(map(str, batches))}, do not broadcast") from None
    A, x, weights, lengths = (
        array
        if array is None or array.ndim == rank + own
        else array.reshape((1,) * (rank + own - array.ndim) + tuple(array.shape))
        for array, own in zip(chain, _OWN_DIMENSIONS, strict=True)
    )
    return A, x, weights, lengths, steps


def _count_steps(A: Any, weights: Any, steps: int | None) -> int:
    """Return the number of steps in the arrays and in ``steps``. Raises `ShapeError` if they differ."""
    counts = {} if A.ndim == 2 else {"As": int(A.shape[0])}
    counts |= {} if weights is None else {"weights": int(weights.shape[0])}
    counts |= {} if steps is None else {"steps": require_integer(steps, "the number of steps")}
    if not counts:
        raise ValueError(
            "the number of steps is not known, as one matrix is given for all of them: pass steps or weights"
        )
    if len(set(counts.values())) > 1:
        raise ShapeError(
            f"the number of steps is not one: {', '.join(f'{name} has {n}' for name, n in counts.items())}"
        )
    count = next(iter(counts.values()))
    if count < 0:
        raise ValueError(f"the number of steps is {count}, and at least 0")
    return count


def check_lengths(lengths: Any, steps: int) -> None:
    """Raise `ValueError` if a length is negative or larger than the number of steps."""
    if lengths is not None and bool(((lengths < 0) | (lengths > steps)).any()):
        raise ValueError(
            f"lengths are 0 to {steps}, the number of steps, and these reach from {int(lengths.min())} to "
            f"{int(lengths.max())}"
        )


def _as_lengths(xp: Any, lengths: Any) -> Any:
    """Return the lengths as an array of the namespace, or None. Raises `DTypeError` if they are not integers."""
    if lengths is None:
        return None
    lengths = xp.asarray(as_numbers(lengths, "lengths") if isinstance(lengths, list | tuple) else lengths)
    if lengths.dtype.kind not in "iu":
        raise DTypeError(f"lengths has dtype {lengths.dtype}: lengths are whole numbers of steps")
    return lengths


def _build_chain(
    As: Any, x: Any, semiring: Semiring, weights: Any, lengths: Any, steps: Any, check: bool, threads: Any, device: Any
) -> tuple[Chain, np.dtype[Any]]:
    """Return the chain of the arguments of a public function, and the dtype of the results."""
    if threads is not None:
        check_threads(threads)
    if As is None:
        raise TypeError("As is None: pass a matrix, or one for each step")
    named = {"As": As, "x": x, "weights": weights}
    named = {name: value for name, value in named.items() if value is not None}
    arrays = dict(zip(named, operands(semiring, device=device, check=check, **named), strict=True))
    scan_operands(semiring, check, **arrays)
    dtype = arrays["As"].dtype
    arrays = {name: to_compute_dtype(array, semiring) for name, array in arrays.items()}
    A, square = arrays["As"], x is None
    xp = array_namespace(A)
    rows = arrays.get("x")
    if rows is None and A.ndim >= 2:
        rows = identity(A.shape[-1], semiring, A.dtype, device="cuda" if is_device_array(A) else None)
    lengths = _as_lengths(xp, lengths)
    A, rows, weights, lengths, steps = arrange_chain(xp, A, rows, arrays.get("weights"), lengths, steps, square=square)
    if check:
        check_lengths(lengths, steps)
    return Chain(semiring, A, rows, weights, lengths, steps, square, threads), dtype


def _is_sparse_chain(As: Any, x: Any) -> bool:
    """Return whether the matrices of a chain are, or include, sparse matrices, or x is one."""
    return has_sparse(*(As if isinstance(As, list | tuple) else (As,)), x)


def _list_matrices(As: Any) -> list[Any]:
    """Return the matrices of a chain of sparse matrices, one if it serves all steps. Raises `ShapeError`."""
    matrices = list(As) if isinstance(As, list | tuple) else [As]
    matrices = [as_numbers(A, f"As[{t}]") if isinstance(A, list | tuple) else A for t, A in enumerate(matrices)]
    for A in matrices:
        shape = shape_of(A)
        if len(shape) != 2 or shape != (matrices[0].shape[0],) * 2:
            raise ShapeError(f"As holds {shape}: the matrices of a sequence are square, of one size")
    return matrices


def _build_sparse_chain(
    As: Any, x: Any, semiring: Semiring, weights: Any, lengths: Any, steps: Any, check: bool, threads: Any, device: Any
) -> tuple[SparseChain, np.dtype[Any]]:
    """Return the chain of sparse matrices and dense vectors, and the dtype of the results."""
    if threads is not None:
        check_threads(threads)
    matrices, is_list = _list_matrices(As), isinstance(As, list | tuple)
    n, count = matrices[0].shape[0], len(matrices)
    if all(A is matrices[0] for A in matrices):
        matrices = matrices[:1]
    names = [f"As[{t}]" for t in range(len(matrices))] if is_list else ["As"]
    named = {**dict(zip(names, matrices, strict=True)), "x": x, "weights": weights}
    named = {name: value for name, value in named.items() if value is not None}
    results, _, dtype = read_sparse_operands(semiring, check, device, **named)
    arrays = dict(zip(named, results, strict=True))
    compressed = []
    for name in names:
        rows = arrays[name] if isinstance(arrays[name], Rows) else every_entry(arrays[name])
        values = to_compute_dtype(rows.values, semiring)
        compressed.append(CompressedRows(rows.starts, rows.columns, values, n))
    start = to_compute_dtype(arrays["x"], semiring)
    factors = to_compute_dtype(arrays["weights"], semiring) if "weights" in arrays else None
    lengths = _as_lengths(np, lengths)
    shape = np.broadcast_to(np.zeros((), start.dtype), (count, n, n) if is_list else (n, n))
    A, start, factors, lengths, steps = arrange_chain(np, shape, start, factors, lengths, steps)
    if check:
        check_lengths(lengths, steps)
    return SparseChain(semiring, A, start, factors, lengths, steps, False, threads, tuple(compressed)), dtype


def _sparse_products(
    As: Any, x: Any, semiring: Semiring, weights: Any, lengths: Any, steps: Any, check: bool, threads: Any, device: Any
) -> Iterator[Any]:
    """Yield a sparse x, or without x the identity, and the product after each step of sparse matrices."""
    if lengths is not None and (x is not None or np.ndim(lengths)):
        given = "x is sparse" if x is not None else f"lengths has shape {np.shape(lengths)}"
        raise TypeError(f"{given}: with sparse As, lengths= takes a dense x, or without x one number of steps")
    matrices, is_list = _list_matrices(As), isinstance(As, list | tuple)
    factors = None if weights is None else np.asarray(weights)
    count = _count_steps(np.empty((len(matrices), 0, 0)) if is_list else matrices[0], factors, steps)
    length = _as_lengths(np, lengths)
    if check:
        check_lengths(length, count)
    options: Any = {"check": check, "threads": threads, "device": device}
    state = x
    yield (last := power(matrices[0], 0, semiring, **options) if x is None else x)
    for t in range(count):
        if length is None or t < length:
            A = matrices[t] if is_list else matrices[0]
            state = A if state is None else matmul(state, A, semiring, **options)
            last = state = state if factors is None else multiply(state, factors[t], semiring, **options)
        yield last


class _SequenceOptions(TypedDict, total=False):
    """The options of every overload of `multi_dot`."""

    weights: Any
    lengths: Any
    steps: int | None
    check: bool
    threads: int | None
    device: Any


@overload
def multi_dot(
    As: Any,
    x: Any = ...,
    semiring: Semiring | str | None = ...,
    *,
    return_witness: Literal[False] = ...,
    explain: Literal[False] = ...,
    **options: Unpack[_SequenceOptions],
) -> Any: ...
@overload
def multi_dot(
    As: Any,
    x: Any,
    semiring: Semiring | str | None = ...,
    *,
    return_witness: Literal[True],
    explain: Literal[False] = ...,
    **options: Unpack[_SequenceOptions],
) -> tuple[Any, Any]: ...
@overload
def multi_dot(
    As: Any,
    x: Any = ...,
    semiring: Semiring | str | None = ...,
    *,
    return_witness: bool = ...,
    explain: Literal[True],
    **options: Unpack[_SequenceOptions],
) -> tuple[Any, ProductExplanation]: ...
@run_on_operand_device
def multi_dot(
    As: Any,
    x: Any = None,
    semiring: Semiring | str | None = None,
    *,
    return_witness: bool = False,
    explain: bool = False,
    weights: Any = None,
    lengths: Any = None,
    steps: int | None = None,
    check: bool = True,
    threads: int | None = None,
    device: Any = None,
) -> Any:
    """Return A₁ ⊗ A₂ ⊗ … ⊗ A_T, or x ⊗ A₁ ⊗ … ⊗ A_T, and on request the best path to each state.

    Parameters
    ----------
    As : array_like, shape (T, ..., n, n) or (n, n)
        The matrices of all steps, or one that serves each of them. Dimensions between are a batch: they broadcast with
        those of ``x``, ``weights`` and ``lengths``. Or a sparse matrix (n, n), as in `matmul`, or a list of one for
        each step. The time then follows the stored entries.
    x : array_like, shape (..., n), optional
        Vectors, each a row on the left of the first matrix. Vectors with the same matrices are the rows of one product
        a step. Without x the result is the product of the matrices, (..., n, n).
    semiring : Semiring or str, optional
        A `Semiring` or the name of one in the catalogue. The default is min-plus.
    return_witness : bool, default False
        Return (C, K), for a selective ⊕ and an x.
    explain : bool, default False
        Return (r, explanation), where r is what the call returns otherwise, as in `matmul`.
    weights : array_like, shape (T, ..., n), optional
        The factors of the entries after each step: the step is (x ⊗ Aₜ) ⊗ wₜ, as if Aₜ were Aₜ ⊗ diag(wₜ). For example,
        the emissions of a hidden Markov model, which then need no matrix for each sequence.
    lengths : array_like of int, shape (...), optional
        The number of steps that each sequence of the batch takes, from 0 to T. For a product of sparse matrices without
        x it is one number.
    steps : int, optional
        T, needed if neither As nor weights have a dimension for the steps.
    check : bool, default True
        Scan every entry for NaN and the domain, as in `matmul`.
    threads : int, optional
        The number of threads, by default that of `get_threads`.
    device : str, optional
        ``"cuda"`` or ``"cuda:1"`` computes on that GPU, as in `matmul`.

    Returns
    -------
    array, shape (..., n) or (..., n, n)
        The last state, or without x the product of the matrices. It is in the dtype and library of the operands, as in
        `matmul`. With ``return_witness`` it is the first of two results. The product of sparse matrices is sparse.
    K : array of int32, shape (T, ..., n)
        With ``return_witness``: K[:, ..., j] holds the states before the steps on a best path that ends in j. The
        entries are -1 where the result is the zero, and after the end of a sequence.
    explanation : ProductExplanation
        With ``explain``, the second of two results. Its pairs are those of all steps.

    Raises
    ------
    ShapeError
        If shapes do not fit, or the matrices are not square.
    ValueError
        For lengths or steps out of range.
    TypeError
        If ``steps`` is not an integer. With ``return_witness`` and without x. With ``lengths`` or ``return_witness``
        for a sparse x.
    DTypeError
        If lengths are not integers, and as in `matmul`.
    AlgebraError
        With ``return_witness`` if ⊕ is not selective, and as in `matmul`.
    DomainError, IntegerOverflowError, DeviceError
        As in `matmul`.

    Notes
    -----
    It costs T·n² pairs for each vector, and T·n³ without x. Sparse matrices cost a pair for each stored entry and step.
    One matrix that serves all steps is copied, some times if its columns differ much in their numbers of entries.
    On a GPU, if n is so small that calls would cost more than pairs, it takes log₂ T calls with T·n³ pairs and the
    memory of T matrices instead. The way of the computation depends on the shapes, and the rounding of sums on the way.

    For the witness K, C[j] = x[K[0, j]] ⊗ A₁[K[0, j], K[1, j]] ⊗ … ⊗ A_T[K[T−1, j], j], with the weights between. Of
    several best paths the function returns the one whose states, from the last on, are the smallest. With `max_plus` on
    logarithms it is Viterbi's algorithm. It costs T·n² pairs for each vector, and the memory of K.

    The result is the last one of `scan`.

    Examples
    --------
    >>> import numpy as np
    >>> roads = np.array([[[0, 3], [9, 1]], [[5, 1], [1, 2]]])
    >>> multi_dot(roads, [0.0, np.inf])
    array([4., 1.])
    >>> multi_dot(roads)
    array([[4, 1],
           [2, 3]])
    >>> score, states = multi_dot([[0, 5], [1, 0]], [0, 9], "max_plus", steps=3, return_witness=True)
    >>> score, states[:, score.argmax()].tolist()
    (array([16., 15.]), [1, 0, 1])
    """
    semiring = as_semiring(semiring)
    if explain:
        with record_product(semiring.name, "multi_dot") as explanation:
            rest: Any = {"return_witness": bool(return_witness), "weights": weights, "lengths": lengths, "steps": steps}
            result = multi_dot(As, x, semiring, **rest, check=check, threads=threads, device=device)
            return result, explanation
    if return_witness:
        demand_selective(semiring)
        if x is None:
            raise TypeError("x is None: with return_witness=True, pass the states before the first step")
    given = As, x, semiring, weights, lengths, steps, check, threads, device
    is_sparse_chain = _is_sparse_chain(As, x)
    if is_sparse_chain and (x is None or has_sparse(x)):
        if return_witness:
            raise TypeError("x is sparse: with return_witness=True, pass a dense x, the states before the first step")
        *_, product = _sparse_products(*given)
        return product
    chain, dtype = _build_sparse_chain(*given) if is_sparse_chain else _build_chain(*given)
    restore = result_converter(*((x, weights) if is_sparse_chain else (As, x, weights)))
    if not return_witness:
        return restore(round_to_dtype(chain.final_state(), dtype))
    C, W = chain.best_path()
    return restore(round_to_dtype(C, dtype)), restore(array_namespace(W).moveaxis(W, -2, 0))


@run_on_operand_device
def scan(
    As: Any,
    x: Any = None,
    semiring: Semiring | str | None = None,
    *,
    weights: Any = None,
    lengths: Any = None,
    steps: int | None = None,
    check: bool = True,
    threads: int | None = None,
    device: Any = None,
) -> Any:
    """Return all prefixes of `multi_dot` along a new first dimension: x ⊗ A₁, x ⊗ A₁ ⊗ A₂, …, x ⊗ A₁ ⊗ … ⊗ A_T.

    Parameters
    ----------
    As : array_like, shape (T, ..., n, n) or (n, n)
        The matrices of all steps, or one matrix for every step, as in `multi_dot`.
    x : array_like, shape (..., n), optional
        The vectors before the first step. Without x the prefixes are products of matrices.
    semiring : Semiring or str, optional
        A `Semiring` or the name of one in the catalogue. The default is min-plus.
    weights : array_like, shape (T, ..., n), optional
        The factors of the entries after each step.
    lengths : array_like of int, shape (...), optional
        The number of steps that each sequence of the batch takes. Beyond it the last state of the sequence is repeated.
    steps : int, optional
        T, needed if neither As nor weights have a dimension for the steps.
    check : bool, default True
        Scan every entry for NaN and the domain, as in `matmul`.
    threads : int, optional
        The number of threads, by default that of `get_threads`.
    device : str, optional
        ``"cuda"`` or ``"cuda:1"`` computes on that GPU, as in `matmul`.

    Returns
    -------
    array, shape (T, ..., n) or (T, ..., n, n)
        The state after each step, in dtype, library and memory as in `multi_dot`. Without x the shape is (T, ..., n,
        n). The products of sparse matrices are a list of sparse matrices.

    Raises
    ------
    ShapeError, ValueError, DTypeError, DomainError, IntegerOverflowError, DeviceError, AlgebraError
        As in `multi_dot`.

    Notes
    -----
    It costs the pairs of `multi_dot`, and the memory of the result.

    Examples
    --------
    >>> scan([[1, 5], [2, 1]], [0, 9], steps=3)
    array([[1., 5.],
           [2., 6.],
           [3., 7.]])
    """
    semiring = as_semiring(semiring)
    given = As, x, semiring, weights, lengths, steps, check, threads, device
    is_sparse_chain = _is_sparse_chain(As, x)
    if is_sparse_chain and (x is None or has_sparse(x)):
        _, *products = _sparse_products(*given)
        return products
    chain, dtype = _build_sparse_chain(*given) if is_sparse_chain else _build_chain(*given)
    xp = array_namespace(chain.x)
    result = new_array(xp, (chain.steps, *chain.batch, chain.x.shape[-1]), chain.x.dtype)
    chain.scan(xp.moveaxis(result, 0, -2))
    return result_converter(*((x, weights) if is_sparse_chain else (As, x, weights)))(round_to_dtype(result, dtype))
