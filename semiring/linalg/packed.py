"""Compute products and sums of `BitMatrix` operands, 32 truth values to a word, for every semiring on bool.

Words on a GPU are multiplied there, and the words of the result lie there. With a ``device``, operands of the host are
copied to it, and the result is copied back.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from semiring.algebra import Semiring
from semiring.arrays.bits import BitMatrix, pack, to_bitwise
from semiring.arrays.encoding import Scan
from semiring.arrays.operands import as_array, as_matrix, store
from semiring.errors import DeviceError, ShapeError, inner_size_error
from semiring.kernels import backend_for
from semiring.kernels.engine import Engine, make_plan
from semiring.linalg.dispatch import multiply_into, multiply_with_witness, overlaps
from semiring.linalg.product_explanation import record_kernel
from semiring.namespaces import array_namespace, is_device_array
from semiring.thread_counts import check_threads, get_threads

__all__ = ["entrywise", "gemm", "matmul", "matmul_with_witness", "power"]

_BOOL = np.dtype(np.bool_)


def _as_bit_matrix(x: Any, semiring: Semiring, name: str) -> BitMatrix:
    """Return a `BitMatrix` itself, or another matrix of truth values as a packed copy."""
    semiring.check_dtype(_BOOL)
    return x if isinstance(x, BitMatrix) else pack(as_matrix(x, semiring, _BOOL, name=name))


def _gather_operands(semiring: Semiring, device: Any, **arguments: Any) -> list[BitMatrix]:
    """Return the operands packed and in one memory, on ``device`` if it is named. Raises `DeviceError`."""
    packed = [_as_bit_matrix(x, semiring, name) for name, x in arguments.items()]
    if device is not None:
        return [x.to_device() for x in packed]
    if len({x.on_device for x in packed}) > 1:
        places = ", ".join(
            f"{name} {'on a GPU' if x.on_device else 'in the memory of the host'}"
            for name, x in zip(arguments, packed, strict=True)
        )
        raise DeviceError(f"{places}: call to_device() or to_host(), or pass device='cuda'")
    return packed


def _move_to_operands(result: BitMatrix, *operands: Any) -> BitMatrix:
    """Return the result in the memory of the operands."""
    is_on_device = any(x.on_device if isinstance(x, BitMatrix) else is_device_array(x) for x in operands)
    return result if is_on_device else result.to_host()


def _as_truth_value(semiring: Semiring, scalar: Any, name: str) -> bool | None:
    """Return α or β as a truth value, or None."""
    if scalar is None:
        return None
    value = as_array(scalar, semiring, _BOOL, name=name)
    if value.ndim:
        raise ShapeError(f"{name} is {value.shape}: it must be a scalar")
    return bool(value)


def _choose_output(out: Any, shape: tuple[int, int], *operands: BitMatrix) -> BitMatrix:
    """Return ``out`` if it is in the memory of the operands and shares no word with them, else a new matrix."""
    if out is None:
        return BitMatrix.zeros(shape, operands[0])
    if not isinstance(out, BitMatrix):
        raise TypeError(f"out is a {type(out).__name__}: a product of BitMatrix operands is a BitMatrix")
    if out.shape != shape:
        raise ShapeError(f"out is {out.shape}, the result is {shape}")
    if out.on_device != operands[0].on_device or overlaps(out.words, *(x.words for x in operands)):
        return BitMatrix.zeros(shape, operands[0])
    return out


def _store_result(out: Any, result: BitMatrix, *operands: Any) -> BitMatrix:
    """Return a result in the memory of the operands, or write it to ``out`` and return that."""
    if out is None:
        return _move_to_operands(result, *operands)
    if out is not result:
        store(out.words, result.words)
    return out  # type: ignore[no-any-return]  # _choose_output has checked that it is a BitMatrix


def matmul(A: Any, B: Any, semiring: Semiring, out: Any, threads: int | None, device: Any = None) -> BitMatrix:
    """Compute `semiring.matmul` for a `BitMatrix` and another one, or any other matrix of truth values."""
    left, right = _gather_operands(semiring, device, A=A, B=B)
    if left.shape[1] != right.shape[0]:
        raise inner_size_error(left.shape, right.shape)
    result = _choose_output(out, (left.shape[0], right.shape[1]), left, right)
    _multiply(semiring, result, left, right, threads)
    return _store_result(out, result, A, B)


def _multiply(semiring: Semiring, C: BitMatrix, A: BitMatrix, B: BitMatrix, threads: int | None) -> None:
    """Write A ⊗ B to C."""
    if not A.shape[1] or not C.size:
        C.fill(bool(semiring.zero_for(_BOOL)))
    elif semiring.zero_for(_BOOL):  # the zero is True, but tail bits are False, so kernels on words do not support it
        result = array_namespace(C.words).empty(C.shape, _BOOL)
        multiply_into(semiring, result, A.unpack(), B.unpack(), Scan(), Scan(), threads)
        C.words[...] = pack(result).words
    else:
        count = get_threads() if threads is None else check_threads(threads)
        plan = make_plan(semiring, _BOOL, storage="bits", threads=count)
        record_kernel("product of packed bits", plan, C.words, C.size * A.shape[1], _BOOL, has_zero=False)
        Engine(backend_for(C.words, semiring, _BOOL, "bits"), plan).multiply(C.words, A.words, B.words)


def matmul_with_witness(
    A: Any, B: Any, semiring: Semiring, out: Any, threads: int | None, device: Any = None
) -> tuple[BitMatrix, Any]:
    """Compute `semiring.matmul` with a witness for a `BitMatrix` operand, on unpacked entries."""
    left, right = _gather_operands(semiring, device, A=A, B=B)
    if left.shape[1] != right.shape[0]:
        raise inner_size_error(left.shape, right.shape)
    shape = left.shape[0], right.shape[1]
    _choose_output(out, shape, left, right)
    xp = array_namespace(left.words)
    C, W = xp.full(shape, semiring.zero_for(_BOOL), _BOOL), xp.full(shape, -1, np.int32)
    if left.shape[1] and C.size:
        multiply_with_witness(semiring, C, W, left.unpack(), right.unpack(), Scan(), Scan(), threads)
    result = _store_result(out, pack(C), A, B)
    return result, W if result.on_device or not is_device_array(W) else W.get()


def power(A: BitMatrix, exponent: int, semiring: Semiring, threads: int | None, device: Any = None) -> BitMatrix:
    """Compute `semiring.power` of a `BitMatrix`."""
    semiring.check_dtype(_BOOL)
    if device is not None and not A.on_device:
        return power(A.to_device(), exponent, semiring, threads).to_host()
    if A.shape[0] != A.shape[1]:
        raise ShapeError(f"A is {A.shape}: a square matrix is needed")
    if exponent == 0:
        identity = BitMatrix.identity(A.shape[0], A)
        return ~identity if semiring.zero_for(_BOOL) else identity
    result, base = None, A
    while exponent:
        if exponent & 1:
            result = base.copy() if result is None else matmul(result, base, semiring, None, threads)
        exponent >>= 1
        if exponent:
            base = matmul(base, base, semiring, None, threads)
    assert result is not None
    return result


def entrywise(operation: str, A: Any, B: Any, semiring: Semiring, out: Any, device: Any = None) -> BitMatrix:
    """Return ⊕ (``"add"``) or ⊗ (``"mul"``) of two matrices of one shape, a word at a time."""
    left, right = _gather_operands(semiring, device, A=A, B=B)
    if left.shape != right.shape:
        raise ShapeError(f"A is {left.shape}, B is {right.shape}: packed matrices do not broadcast")
    if operation == "add":
        add = to_bitwise(semiring.add.expression)
        values = {"x": left.words, "y": right.words}
        words = add.evaluate(values, np.dtype(np.uint32), array_namespace(left.words))
    else:  # on bool, ⊗ is determined by its zero, which absorbs
        words = (left.words | right.words) if semiring.zero_for(_BOOL) else (left.words & right.words)
    if words.shape[1]:
        words[:, -1] &= left.tail
    result = _choose_output(out, left.shape, left)
    result.words[...] = words
    return _store_result(out, result, A, B)


def gemm(
    A: Any,
    B: Any,
    C: Any,
    semiring: Semiring,
    alpha: Any,
    beta: Any,
    transpose: tuple[bool, bool],
    out: Any,
    threads: int | None,
    device: Any = None,
) -> BitMatrix:
    """Compute `semiring.blas.gemm` for a `BitMatrix` operand; α and β are 0̄ or 1̄, so they drop or keep a term."""
    left, right = _gather_operands(semiring, device, A=A, B=B)
    left, right = left.T if transpose[0] else left, right.T if transpose[1] else right
    zero = bool(semiring.zero_for(_BOOL))
    alpha, beta = _as_truth_value(semiring, alpha, "alpha"), _as_truth_value(semiring, beta, "beta")
    if alpha is not None and alpha == zero:
        result = BitMatrix.full((left.shape[0], right.shape[1]), zero, left)
    else:
        result = matmul(left, right, semiring, None, threads)
    if beta is not None and beta != zero:
        result = entrywise("add", result, C, semiring, None, device)
    _choose_output(out, result.shape, result)
    return _store_result(out, result, A, B)
