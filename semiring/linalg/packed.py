"""Linear algebra on `BitMatrix`: 32 truth values to a word, for every semiring that is defined on bool.

Words on a GPU are multiplied there, and the result is one of words on it. With a ``device`` operands of the host are
moved there, and the result comes back.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from semiring.algebra import Semiring
from semiring.arrays.bits import BitMatrix, pack, to_bitwise
from semiring.arrays.encoding import Scan
from semiring.arrays.operands import as_array, as_matrix, store
from semiring.errors import DeviceError, ShapeError
from semiring.kernels import backend_for
from semiring.kernels.engine import Engine, make_plan
from semiring.linalg.dispatch import multiply_into, overlaps, witness_into
from semiring.namespaces import array_namespace, is_device_array
from semiring.threads import checked_threads, get_threads

__all__ = ["entrywise", "gemm", "matmul", "matmul_witness", "power"]

_BOOL = np.dtype(np.bool_)


def _bits(x: Any, semiring: Semiring, name: str) -> BitMatrix:
    """A `BitMatrix` itself, or any other matrix of truths, packed."""
    semiring.check_dtype(_BOOL)
    return x if isinstance(x, BitMatrix) else pack(as_matrix(x, semiring, _BOOL, name=name))


def _gathered(semiring: Semiring, device: Any, **named: Any) -> list[BitMatrix]:
    """The operands packed and in one memory. Raises `DeviceError` where they are not and no ``device`` is named."""
    packed = [_bits(x, semiring, name) for name, x in named.items()]
    if device is not None:
        return [x.to_device() for x in packed]
    if len({x.on_device for x in packed}) > 1:
        places = ", ".join(
            f"{name} {'on a GPU' if x.on_device else 'in the memory of the host'}"
            for name, x in zip(named, packed, strict=True)
        )
        raise DeviceError(f"{places}: call to_device() or to_host(), or pass device='cuda'")
    return packed


def _returned(result: BitMatrix, *given: Any) -> BitMatrix:
    """The result where the operands were."""
    there = any(x.on_device if isinstance(x, BitMatrix) else is_device_array(x) for x in given)
    return result if there else result.to_host()


def _truth(semiring: Semiring, scalar: Any, name: str) -> bool | None:
    """α or β as the truth value it is."""
    if scalar is None:
        return None
    value = as_array(scalar, semiring, _BOOL, name=name)
    if value.ndim:
        raise ShapeError(f"{name} is {value.shape}: it must be a scalar")
    return bool(value)


def _into(out: Any, shape: tuple[int, int], *others: BitMatrix) -> BitMatrix:
    """``out`` where it fits, lives with the operands and shares nothing with them, else a new matrix."""
    if out is None:
        return BitMatrix.zeros(shape, others[0])
    if not isinstance(out, BitMatrix):
        raise TypeError(f"out is a {type(out).__name__}: a product of BitMatrix operands is a BitMatrix")
    if out.shape != shape:
        raise ShapeError(f"out is {out.shape}, the result is {shape}")
    apart = out.on_device != others[0].on_device
    return BitMatrix.zeros(shape, others[0]) if apart or overlaps(out.words, *(x.words for x in others)) else out


def _handed_back(out: Any, result: BitMatrix, *given: Any) -> BitMatrix:
    if out is None:
        return _returned(result, *given)
    if out is not result:
        store(out.words, result.words)
    return out  # type: ignore[no-any-return]  # _into saw that it is a BitMatrix


def matmul(A: Any, B: Any, semiring: Semiring, out: Any, threads: int | None, device: Any = None) -> BitMatrix:
    """`semiring.matmul` where an operand is a `BitMatrix`; the other may be any matrix of truths."""
    left, right = _gathered(semiring, device, A=A, B=B)
    if left.shape[1] != right.shape[0]:
        raise ShapeError(
            f"A is {left.shape}, B is {right.shape}: inner sizes {left.shape[1]} and {right.shape[0]} differ"
        )
    result = _into(out, (left.shape[0], right.shape[1]), left, right)
    _multiply(semiring, result, left, right, threads)
    return _handed_back(out, result, A, B)


def _multiply(semiring: Semiring, C: BitMatrix, A: BitMatrix, B: BitMatrix, threads: int | None) -> None:
    if not A.shape[1] or not C.size:
        C.fill(bool(semiring.zero_for(_BOOL)))
    elif semiring.zero_for(_BOOL):  # tail bits are False, so kernels on words take no other zero
        result = array_namespace(C.words).empty(C.shape, _BOOL)
        multiply_into(semiring, result, A.unpack(), B.unpack(), Scan(), Scan(), threads)
        C.words[...] = pack(result).words
    else:
        count = get_threads() if threads is None else checked_threads(threads)
        plan = make_plan(semiring, _BOOL, storage="bits", threads=count)
        Engine(backend_for(C.words, semiring, _BOOL, "bits"), plan).multiply(C.words, A.words, B.words)


def matmul_witness(
    A: Any, B: Any, semiring: Semiring, threads: int | None, device: Any = None
) -> tuple[BitMatrix, Any]:
    """`semiring.matmul_witness` where an operand is a `BitMatrix`: the entries are unpacked for it."""
    left, right = _gathered(semiring, device, A=A, B=B)
    if left.shape[1] != right.shape[0]:
        raise ShapeError(
            f"A is {left.shape}, B is {right.shape}: inner sizes {left.shape[1]} and {right.shape[0]} differ"
        )
    shape = left.shape[0], right.shape[1]
    xp = array_namespace(left.words)
    C, W = xp.full(shape, semiring.zero_for(_BOOL), _BOOL), xp.full(shape, -1, np.int32)
    if left.shape[1] and C.size:
        witness_into(semiring, C, W, left.unpack(), right.unpack(), Scan(), Scan(), threads)
    result = _returned(pack(C), A, B)
    return result, W if result.on_device or not is_device_array(W) else W.get()


def power(A: BitMatrix, exponent: int, semiring: Semiring, threads: int | None, device: Any = None) -> BitMatrix:
    """`semiring.power` of a `BitMatrix`."""
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


def entrywise(which: str, A: Any, B: Any, semiring: Semiring, out: Any, device: Any = None) -> BitMatrix:
    """⊕ (``"add"``) or ⊗ (``"mul"``) of two matrices of one shape, a word at a time."""
    left, right = _gathered(semiring, device, A=A, B=B)
    if left.shape != right.shape:
        raise ShapeError(f"A is {left.shape}, B is {right.shape}: packed matrices do not broadcast")
    if which == "add":
        add = to_bitwise(semiring.add.expression)
        values = {"x": left.words, "y": right.words}
        words = add.evaluate(values, np.dtype(np.uint32), array_namespace(left.words))
    else:  # on zero and one alone, the zero absorbs: that is all ⊗ does
        words = (left.words | right.words) if semiring.zero_for(_BOOL) else (left.words & right.words)
    if words.shape[1]:
        words[:, -1] &= left.tail
    result = _into(out, left.shape, left)
    result.words[...] = words
    return _handed_back(out, result, A, B)


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
    """`semiring.gemm` where an operand is a `BitMatrix`: α and β are zero or one, so each term is there or not."""
    left, right = _gathered(semiring, device, A=A, B=B)
    left, right = left.T if transpose[0] else left, right.T if transpose[1] else right
    zero = bool(semiring.zero_for(_BOOL))
    alpha, beta = _truth(semiring, alpha, "alpha"), _truth(semiring, beta, "beta")
    if alpha is not None and alpha == zero:
        result = BitMatrix.full((left.shape[0], right.shape[1]), zero, left)
    else:
        result = matmul(left, right, semiring, None, threads)
    if beta is not None and beta != zero:
        result = entrywise("add", result, C, semiring, None, device)
    _into(out, result.shape, result)
    return _handed_back(out, result, A, B)
