"""Dispatch products of validated arrays to kernels, including batches and the encoding of integers.

`demand_range` detects results of plus_times that may leave an integer dtype, because NumPy's arithmetic would wrap.
The scans of the operands bound the results. If the bound is more than the dtype holds, the magnitudes of the terms are
added up in float64, which costs as much as the product. If these sums do not fit either, the call is refused, although
terms of both signs might cancel. `semiring.arrays.encoding` handles integers of min_plus and max_plus.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from semiring.algebra import Semiring
from semiring.algebra.catalogue import plus_times
from semiring.arrays.encoding import (
    Encoding,
    Scan,
    assumed_range,
    check_operands,
    decode,
    encode,
    has_inner_zero,
    is_rounded,
    product_encoding,
)
from semiring.arrays.memory import new_array
from semiring.arrays.scans import limits_of
from semiring.errors import IntegerOverflowError, ShapeError
from semiring.kernels import backend_for, device_backend
from semiring.kernels.contract import CompressedRows
from semiring.kernels.engine import Engine, make_plan
from semiring.linalg.product_explanation import is_recording, pause_recording, record_kernel
from semiring.namespaces import Array, array_namespace, is_device_array
from semiring.progress import in_parts
from semiring.thread_counts import check_threads, get_threads

if TYPE_CHECKING:
    from semiring.kernels.contract import Backend, KernelPlan, SequenceKernels, Steps

__all__ = [
    "Walker",
    "batch_shape",
    "choose_destination",
    "demand_products",
    "demand_range",
    "encode_operand",
    "engine_for",
    "has_gradient_kernel",
    "magnitudes",
    "make_walker",
    "may_wrap",
    "multiply_into",
    "multiply_with_witness",
    "overlaps",
    "reveals_invalid_entries",
    "scan_operands",
    "scanned_magnitude",
]


def scan_operands(semiring: Semiring, check: bool, **arrays: Array) -> list[Scan]:
    """Return a scan of each array, or with ``check=False`` the range of entries that it assumes.

    Arrays on a GPU are scanned together: the call waits once, or with ``check=False`` not at all.
    """
    if check:
        return check_operands(semiring, arrays)
    return [
        assumed_range(semiring, array.dtype) if has_inner_zero(semiring, array.dtype) else Scan()
        for array in arrays.values()
    ]


def overlaps(array: Array, *operands: Array) -> bool:
    """Return whether an array may share an element with one of the operands. Interleaved views do not overlap."""
    if is_device_array(array):
        from semiring.arrays.device import addresses, are_disjoint

        if all(are_disjoint(array, other) for other in operands):
            return False
        array, operands = addresses(array), tuple(addresses(other) for other in operands)
    # NumPy's result is exact if it takes at most this much work, as for views of one matrix. Otherwise it is True.
    work: Any = 10_000  # NumPy's stubs admit only 0 and -1
    return any(np.may_share_memory(array, other, max_work=work) for other in operands)


def choose_destination(
    target: Array | None, shape: tuple[int, ...], dtype: np.dtype[Any], *operands: Array, addend: Array | None = None
) -> Any:
    """Return ``target`` if kernels may write into it, else a new array in the memory of the operands.

    Kernels may write into a target in the memory of the operands that shares no element with them. The caller copies
    the ``addend`` into it first. On the host they may overlap, as NumPy copies correctly then. On a GPU they must be
    the same view, or share no element.
    """
    if target is None and type(operands[0]) is np.ndarray:
        return new_array(np, shape, dtype)
    if target is not None and is_device_array(target) == is_device_array(operands[0]):
        if addend is not None and is_device_array(addend):
            same = target.data.ptr == addend.data.ptr and target.strides == addend.strides
            operands = operands if same else (*operands, addend)
        if not overlaps(target, *operands):
            return target
    return new_array(array_namespace(operands[0]), shape, dtype)


def batch_shape(A: Array, B: Array) -> tuple[int, ...]:
    """Return the common leading dimensions of two stacks of matrices."""
    try:
        return np.broadcast_shapes(A.shape[:-2], B.shape[:-2])
    except ValueError:
        raise ShapeError(f"A is {A.shape}, B is {B.shape}: their leading dimensions do not broadcast") from None


def engine_for(
    array: Array, semiring: Semiring, dtype: np.dtype[Any], nonnegative: bool, threads: int | None
) -> Engine:
    """Return the engine for products of ``dtype`` in the memory of ``array``."""
    count = get_threads() if threads is None else check_threads(threads)
    if type(array) is not np.ndarray and is_device_array(array):
        return _device_engine(semiring, dtype, nonnegative, array.data.device_id)
    backend: Any = backend_for(None, semiring, dtype)  # Any, because mypy takes a protocol for not hashable
    return _engine(semiring, dtype, nonnegative, count, backend)


# A backend caches with a plan how it launched its kernels, which is most of the cost of a call on a GPU.
@lru_cache(maxsize=256)
def _device_engine(semiring: Semiring, dtype: np.dtype[Any], nonnegative: bool, device: int) -> Engine:
    """Return the cached engine for products on a GPU."""
    plan = make_plan(semiring, dtype, nonnegative=nonnegative, separate=True)
    return Engine(device_backend(semiring, dtype), plan)


# Products write nothing to the status word of a plan, so calls of one kind share a plan. It saves a tiny product 3 µs.
@lru_cache(maxsize=256)
def _engine(semiring: Semiring, dtype: np.dtype[Any], nonnegative: bool, threads: int, backend: Backend) -> Engine:
    # Every product here uses `product_encoding`, which separates sums with "no path" from numbers.
    plan = make_plan(semiring, dtype, nonnegative=nonnegative, separate=True, threads=threads)
    return Engine(backend, plan)


def choose_encoding(semiring: Semiring, C: Array, *scans: Scan) -> Encoding | None:
    """Return the encoding of a product like C and of its operands, or None if kernels use the caller's values."""
    if has_inner_zero(semiring, C.dtype):
        return product_encoding(semiring, C.dtype, *scans)
    return Encoding(np.dtype(np.float32)) if is_rounded(C, semiring) else None


def encode_operand(array: Array, semiring: Semiring, scan: Scan, code: Encoding) -> Any:
    """Return an operand in the kernels' encoding, which is the array itself if the encoding changes nothing."""
    if array.dtype == code.dtype and not scan.has_zero:
        return array
    return encode(array, semiring, code.dtype)


def multiply_into(semiring: Semiring, C: Array, A: Array, B: Array, a: Scan, b: Scan, threads: int | None) -> None:
    """Write A ⊗ B to C, stacks of matrices with k ≥ 1 of one dtype. C is not read and shares no memory with them."""
    dtype, code = C.dtype, choose_encoding(semiring, C, a, b)
    if code is None:
        if may_wrap(semiring, dtype):
            demand_products(A, B, a, b, threads)
        engine = engine_for(C, semiring, dtype, a.nonnegative and b.nonnegative, threads)
        if is_recording():
            record_kernel("product", engine.plan, C, C.size * A.shape[-1], dtype, has_zero=False)
        _apply_to_matrices(engine.multiply, A, B, C, stacks=engine.backend.stacks)
        return
    engine = engine_for(C, semiring, code.dtype, a.nonnegative and b.nonnegative, threads)
    if is_recording():
        has_zero = a.has_zero or b.has_zero
        record_kernel("product", engine.plan, C, C.size * A.shape[-1], dtype, has_zero=has_zero)
    result = C if code.dtype == dtype else array_namespace(C).empty(C.shape, code.dtype)
    left, right = encode_operand(A, semiring, a, code), encode_operand(B, semiring, b, code)
    _apply_to_matrices(engine.multiply, left, right, result, stacks=engine.backend.stacks)
    if a.has_zero or b.has_zero or result is not C:
        decode(result, semiring, dtype, limit=code.limit, out=C)


def reveals_invalid_entries(semiring: Semiring, A: Array, B: Array, threads: int | None) -> bool:
    """Return whether C = A ⊗ B has a NaN or ∞ wherever a scan of the operands, of one dtype, would refuse them."""
    m, n = (A.shape[-2] if A.ndim > 1 else 1), (B.shape[-1] if B.ndim > 1 else 1)
    by_row = n > 1
    if by_row and (m > 1 or max(A.ndim, B.ndim) > 2):  # most products
        return False
    if A.dtype.kind != "f" or is_device_array(A) or not (A.size and B.size and A.ndim and B.ndim):
        return False
    domain, engine = semiring.domain, engine_for(A, semiring, A.dtype, False, threads)
    products = engine.backend.capabilities.products
    if products is None or not products.propagates_nan(engine.plan, m, A.shape[-1], n):
        return False
    everything = domain.lower == -np.inf and domain.upper == np.inf and not domain.lower_open
    return everything and bool(np.isfinite(A if by_row else B).all())  # with ∞ and -∞, the result shows neither


def demand_products(
    A: Array,
    B: Array,
    a: Scan,
    b: Scan,
    threads: int | None,
    *,
    scale: int = 1,
    addend: tuple[Array, Scan, int] | None = None,
    result_name: str = "A ⊗ B",
) -> None:
    """Raise `IntegerOverflowError` if an entry of A ⊗ B in plus_times may leave its dtype.

    The entries are those of ``scale`` · A ⊗ B plus the ``addend``: a matrix, its scan, and its factor.
    """
    most = A.shape[-1] * scanned_magnitude(a) * scanned_magnitude(b) * scale

    def sums() -> Any:
        shape = (*batch_shape(A, B), A.shape[-2], B.shape[-1])
        C = array_namespace(A).empty(shape, np.float64)
        with pause_recording():
            multiply_into(
                plus_times, C, magnitudes(A), magnitudes(B), Scan(nonnegative=True), Scan(nonnegative=True), threads
            )
        return C * scale if addend is None else C * scale + magnitudes(addend[0]) * addend[2]

    demand_range(
        A.dtype, most if addend is None else most + scanned_magnitude(addend[1]) * addend[2], sums, result_name
    )


@dataclass(frozen=True)
class Walker:
    """The kernels of a backend for the steps of a batch, see `semiring.kernels.contract.SequenceKernels`."""

    plan: KernelPlan
    kernels: SequenceKernels
    preparation: Any
    pairs: int  # of one step of one row of the batch

    def walk(self, x: Array, steps: Steps) -> Array:
        """Return the states (m, n) after the steps."""
        x = np.array(x, order="C")
        if is_recording():
            name = "steps of a sequence" + ("" if steps.witness is None else " with witness")
            has_zero = has_inner_zero(self.plan.semiring, self.plan.dtype)
            record_kernel(name, self.plan, x, steps.number * len(x) * self.pairs, x.dtype, has_zero=has_zero)
        self.kernels.walk(self.plan, self.preparation, x, steps)
        return x

    def pull(self, G: Array, steps: Steps, by_matrix: Array) -> bool:
        """Overwrite G with the gradient by the first states, and return whether the kernels support it."""
        return self.kernels.pull(self.plan, self.preparation, G, steps, by_matrix)


def make_walker(
    semiring: Semiring,
    A: Array | tuple[CompressedRows, ...],
    groups: Array,
    threads: int | None,
    *,
    nonnegative: bool = False,
) -> Walker | None:
    """Return the kernels for steps by A, or None if they would save no work: see `SequenceKernels.prepare`.

    The entries of A are those of the kernels. ``nonnegative``: whether no entry of any operand is below 0.
    """
    dtype = A[0].values.dtype if isinstance(A, tuple) else A.dtype
    backend: Any = backend_for(None, semiring, dtype)  # as in `engine_for`
    count = get_threads() if threads is None else check_threads(threads)
    plan = make_plan(semiring, dtype, nonnegative=nonnegative, threads=count)
    kernels = backend.capabilities.sequences
    preparation = None if kernels is None else kernels.prepare(plan, A, groups)
    pairs = sum(one.columns.size for one in A) // len(A) if isinstance(A, tuple) else A.shape[-1] ** 2
    return None if preparation is None else Walker(plan, kernels, preparation, pairs)


def has_gradient_kernel(semiring: Semiring, dtype: np.dtype[Any], n: int) -> bool:
    """Return whether the backend of the host has kernels for gradients of steps by one matrix (n, n)."""
    if has_inner_zero(semiring, dtype):
        return False
    backend: Any = backend_for(None, semiring, dtype)  # as in `engine_for`
    engine = _engine(semiring, dtype, False, 1, backend)
    kernels = engine.backend.capabilities.sequences
    return kernels is not None and kernels.can_pull(engine.plan, n)


def multiply_with_witness(
    semiring: Semiring, C: Array, W: Array, A: Array, B: Array, a: Scan, b: Scan, threads: int | None
) -> None:
    """Write A ⊗ B to C, and to W the smallest k that attains each entry, or -1 where the entry is zero."""
    dtype, code = C.dtype, choose_encoding(semiring, C, a, b)
    if code is not None:
        A, B = encode_operand(A, semiring, a, code), encode_operand(B, semiring, b, code)
    engine = engine_for(C, semiring, A.dtype, a.nonnegative and b.nonnegative, threads)
    if is_recording():
        has_zero = a.has_zero or b.has_zero
        record_kernel("product with witness", engine.plan, C, C.size * A.shape[-1], dtype, has_zero=has_zero)
    xp = array_namespace(C)
    result = C if A.dtype == dtype else xp.empty(C.shape, A.dtype)
    result[...], W[...] = engine.plan.zero, -1
    _apply_to_matrices(lambda C, A, B, W: engine.multiply_add_witness(C, W, A, B), A, B, result, W)
    if code is not None:
        decode(result, semiring, dtype, limit=code.limit, out=C)
        # A sentinel plus a negative number is less than the sentinel, and a number may be rounded to the zero.
        xp.copyto(W, -1, where=xp.equal(C, semiring.zero_for(dtype)))


def _apply_to_matrices(
    kernel: Callable[..., None], A: Array, B: Array, C: Array, *witnesses: Array, stacks: bool = False
) -> None:
    """Apply a kernel to every pair of matrices of two stacks. With ``stacks`` the kernel takes 3-D arrays."""
    if C.ndim == 2:
        kernel(C, A, B, *witnesses)
        return
    batch = C.shape[:-2]
    results = (C, *witnesses)
    if B.ndim == 2 and A.flags.c_contiguous and all(array.flags.c_contiguous for array in results):
        rows = prod(batch) * A.shape[-2]  # one tall product
        tall = [array.reshape(rows, array.shape[-1]) for array in results]
        kernel(tall[0], A.reshape(rows, A.shape[-1]), B, *tall[1:])
        return
    xp = array_namespace(C)
    # Arrays that have the shape of the batch are not broadcast, because loops are compiled again for read-only views.
    A, B = (X if X.shape[:-2] == batch else xp.broadcast_to(X, batch + X.shape[-2:]) for X in (A, B))
    # The number of last dimensions of the batch that are one launch.
    joined = _joinable_dimensions(batch, C, A, B) if stacks else 0
    for index in in_parts([*np.ndindex(batch[: len(batch) - joined])]):
        parts = [array[index] for array in (C, A, B, *witnesses)]
        kernel(*(_join_dimensions(part, joined) for part in parts))


def _joinable_dimensions(batch: tuple[int, ...], *arrays: Array) -> int:
    """Return the number of last dimensions of the batch that have one common stride in each of the arrays."""
    for start in range(len(batch)):
        axes = [i for i in range(start, len(batch)) if batch[i] > 1]
        if all(array.strides[i] == array.strides[j] * batch[j] for array in arrays for i, j in pairwise(axes)):
            return len(batch) - start
    return 0


def _join_dimensions(array: Array, count: int) -> Array:
    """Return a view whose first ``count`` dimensions are joined."""
    if count < 2:
        return array
    batch, matrix = array.shape[:count], array.shape[count:]
    last = next((stride for size, stride in zip(batch[::-1], array.strides[:count][::-1], strict=True) if size > 1), 0)
    as_strided = array_namespace(array).lib.stride_tricks.as_strided
    view: Array = as_strided(array, (prod(batch), *matrix), (last, *array.strides[count:]))
    return view


def may_wrap(semiring: Semiring, dtype: np.dtype[Any]) -> bool:
    """Return whether results of this semiring may leave the dtype without an error."""
    return dtype.kind == "i" and semiring == plus_times


def scanned_magnitude(scan: Scan) -> int:
    """Return the largest magnitude of the scanned entries; 0 if the scan has no range."""
    return max((abs(int(end)) for end in (scan.low, scan.high) if end is not None), default=0)


def magnitudes(array: Any) -> Any:
    """Return the magnitudes of the entries in float64."""
    return array_namespace(array).abs(array.astype(np.float64))


def demand_range(dtype: np.dtype[Any], bound: int, compute_sums: Callable[[], Array], result_name: str) -> None:
    """Raise `IntegerOverflowError` if both ``bound`` and the greatest of the sums leave the dtype."""
    limit = limits_of(dtype).max
    if bound <= limit:
        return
    greatest = float(compute_sums().max())
    margin = 1e-9 if greatest > 2**53 else 0.0  # exceeds the rounding of any sum whose terms fit memory
    if greatest * (1 + margin) > limit:
        raise IntegerOverflowError(
            f"{result_name} may leave {dtype}: the sizes of its terms add up to {greatest:.6g}. Use "
            f"{'float64' if dtype.itemsize == 8 else 'int64 or float64'}. With check=False they are computed modulo "
            f"2^{8 * dtype.itemsize}, as NumPy does"
        )
