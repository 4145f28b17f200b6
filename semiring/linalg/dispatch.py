"""From checked arrays to kernels: one product of the caller's values, batches and integers included."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from math import prod
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from semiring.algebra import Semiring
from semiring.encoding import (
    Encoding,
    Scan,
    check_entries,
    decode,
    encode,
    has_inner_zero,
    product_encoding,
    promised,
)
from semiring.errors import ShapeError
from semiring.kernels import backend_for
from semiring.kernels.engine import Engine, make_plan
from semiring.threads import checked_threads, get_threads

__all__ = ["batch_shape", "engine_for", "inside", "look", "multiply_into", "overlaps", "witness_into"]

Array: TypeAlias = NDArray[Any]


def look(array: Array, semiring: Semiring, name: str, check: bool) -> Scan:
    """What is known of the entries: by a look at them, or with ``check=False`` by the caller's promise."""
    if check:
        return check_entries(array, semiring, name)
    return promised(semiring, array.dtype) if has_inner_zero(semiring, array.dtype) else Scan()


def overlaps(array: Array, *others: Array) -> bool:
    """Whether an element of ``array`` may be an element of one of the others. Interleaved views do not overlap."""
    # Exact within that much work, which views of one matrix never exceed; True beyond it.
    work: Any = 10_000  # NumPy's stubs admit only 0 and -1
    return any(np.may_share_memory(array, other, max_work=work) for other in others)


def batch_shape(A: Array, B: Array) -> tuple[int, ...]:
    """The common leading dimensions of two stacks of matrices."""
    try:
        return np.broadcast_shapes(A.shape[:-2], B.shape[:-2])
    except ValueError:
        raise ShapeError(f"A is {A.shape}, B is {B.shape}: their leading dimensions do not broadcast") from None


def engine_for(semiring: Semiring, dtype: np.dtype[Any], nonnegative: bool, threads: int | None) -> Engine:
    """The engine for products of arrays in the memory of the host."""
    return _engine(semiring, dtype, nonnegative, get_threads() if threads is None else checked_threads(threads))


# Products leave nothing in the status word of a plan, so calls of one kind share one: it saves a tiny product 3 µs.
@lru_cache(maxsize=256)
def _engine(semiring: Semiring, dtype: np.dtype[Any], nonnegative: bool, threads: int) -> Engine:
    # Every product here goes through `product_encoding`, which keeps sums with "no path" apart from numbers.
    plan = make_plan(semiring, dtype, nonnegative=nonnegative, separate=True, threads=threads)
    return Engine(backend_for(None, semiring, dtype), plan)


def inside(array: Array, semiring: Semiring, scan: Scan, code: Encoding) -> Array:
    """Integers as the kernels hold them: the array itself where nothing is to be changed."""
    if array.dtype == code.dtype and not scan.has_zero:
        return array
    return encode(array, semiring, code.dtype)


def multiply_into(semiring: Semiring, C: Array, A: Array, B: Array, a: Scan, b: Scan, threads: int | None) -> None:
    """C ← A ⊗ B, stacks of matrices with k ≥ 1 of one dtype; C shares nothing with A and B and is not read."""
    dtype = C.dtype
    if not has_inner_zero(semiring, dtype):
        engine = engine_for(semiring, dtype, a.nonnegative and b.nonnegative, threads)
        _each(engine.multiply, A, B, C)
        return
    code = product_encoding(semiring, dtype, a, b)
    engine = engine_for(semiring, code.dtype, a.nonnegative and b.nonnegative, threads)
    result = C if code.dtype == dtype else np.empty(C.shape, code.dtype)
    _each(engine.multiply, inside(A, semiring, a, code), inside(B, semiring, b, code), result)
    if a.has_zero or b.has_zero or result is not C:
        decode(result, semiring, dtype, limit=code.limit, out=C)


def witness_into(
    semiring: Semiring, C: Array, W: Array, A: Array, B: Array, a: Scan, b: Scan, threads: int | None
) -> None:
    """`multiply_into`, with the smallest k that attains each entry in W, -1 where the entry is zero."""
    dtype, code = C.dtype, None
    if has_inner_zero(semiring, dtype):
        code = product_encoding(semiring, dtype, a, b)
        A, B = inside(A, semiring, a, code), inside(B, semiring, b, code)
    engine = engine_for(semiring, A.dtype, a.nonnegative and b.nonnegative, threads)
    result = C if A.dtype == dtype else np.empty(C.shape, A.dtype)
    result[...], W[...] = engine.plan.zero, -1
    _each(lambda C, A, B, W: engine.multiply_add_witness(C, W, A, B), A, B, result, W)
    if code is not None:
        decode(result, semiring, dtype, limit=code.limit, out=C)
        W[semiring.zero_for(dtype) == C] = -1  # a sentinel plus a negative number looked better than the sentinel


def _each(kernel: Callable[..., None], A: Array, B: Array, C: Array, *more: Array) -> None:
    """The kernel on every pair of matrices of two stacks."""
    if C.ndim == 2:
        kernel(C, A, B, *more)
        return
    batch = C.shape[:-2]
    results = (C, *more)
    if B.ndim == 2 and A.flags.c_contiguous and all(array.flags.c_contiguous for array in results):
        rows = prod(batch) * A.shape[-2]  # one tall product
        tall = [array.reshape(rows, array.shape[-1]) for array in results]
        kernel(tall[0], A.reshape(rows, A.shape[-1]), B, *tall[1:])
        return
    A, B = np.broadcast_to(A, batch + A.shape[-2:]), np.broadcast_to(B, batch + B.shape[-2:])
    for index in np.ndindex(batch):
        kernel(C[index], A[index], B[index], *(array[index] for array in more))
