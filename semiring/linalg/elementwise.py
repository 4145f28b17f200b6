"""Entry by entry: sums, products and reductions; and the matrices of zeros and ones."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from operator import index
from typing import Any, TypeAlias

import numpy as np

from semiring.algebra import Operation, Semiring
from semiring.arrays import as_array, as_output, as_result, on_their_device, operands, store
from semiring.bits import BitMatrix
from semiring.catalogue import as_semiring
from semiring.encoding import check_operands
from semiring.errors import ShapeError
from semiring.expressions import Expression
from semiring.linalg import packed
from semiring.namespaces import array_namespace, is_device_array

__all__ = ["add", "identity", "multiply", "reduce", "zeros"]

Array: TypeAlias = Any  # a NumPy array, on a GPU a CuPy array


def _dtype(semiring: Semiring, dtype: Any) -> np.dtype[Any]:
    if dtype is None:
        dtype = np.float64 if semiring.supports(np.float64) else semiring.dtypes[0]
    result: np.dtype[Any] = np.dtype(dtype)
    semiring.check_dtype(result)
    return result


@on_their_device
def zeros(
    shape: int | Sequence[int], semiring: Semiring | str = "min_plus", dtype: Any = None, *, device: Any = None
) -> Array:
    """An array filled with the zero of the semiring; float64 by default, or the first dtype it is defined on.

    With ``device="cuda"`` (or ``"cuda:1"``) a CuPy array on that GPU.

    >>> zeros((1, 3), "min_plus")
    array([[inf, inf, inf]])
    """
    semiring = as_semiring(semiring)
    dtype = _dtype(semiring, dtype)
    return _namespace(device).full(shape, semiring.zero_for(dtype), dtype)


@on_their_device
def identity(n: int, semiring: Semiring | str = "min_plus", dtype: Any = None, *, device: Any = None) -> Array:
    """The n × n matrix with the one of the semiring on its diagonal and the zero elsewhere; otherwise as `zeros`.

    >>> identity(2, "max_plus")
    array([[  0., -inf],
           [-inf,   0.]])
    """
    semiring = as_semiring(semiring)
    if index(n) < 0:
        raise ValueError(f"the size of an identity is at least 0, not {n}")
    result = zeros((n, n), semiring, dtype, device=device)
    result.reshape(-1)[:: n + 1] = semiring.one_for(result.dtype)
    return result


def _namespace(device: Any) -> Any:
    if device is None:
        return np
    from semiring.device.memory import load_cupy

    return load_cupy()


@on_their_device
def add(
    A: Any,
    B: Any,
    semiring: Semiring | str = "min_plus",
    *,
    out: Any = None,
    check: bool = True,
    device: Any = None,
) -> Any:
    """A ⊕ B entry by entry. Shapes broadcast; operands, dtypes and errors as in `matmul`. ``out`` may be an operand.

    >>> add([1, 5], [3, 2], "max_plus")
    array([3., 5.])
    """
    semiring = as_semiring(semiring)
    return _entrywise("add", semiring, A, B, out, check, device)


@on_their_device
def multiply(
    A: Any,
    B: Any,
    semiring: Semiring | str = "min_plus",
    *,
    out: Any = None,
    check: bool = True,
    device: Any = None,
) -> Any:
    """A ⊗ B entry by entry (not the matrix product: that is `matmul`). As `add`.

    The zero absorbs everything. On integers of min-plus and max-plus a sum that does not fit the dtype, or that would
    mean "no path", raises `IntegerOverflowError`.

    >>> multiply([[1, float("inf")]], 4, "min_plus")
    array([[ 5., inf]])
    """
    semiring = as_semiring(semiring)
    return _entrywise("mul", semiring, A, B, out, check, device)


def _entrywise(which: str, semiring: Semiring, A: Any, B: Any, out: Any, check: bool, device: Any) -> Any:
    if isinstance(A, BitMatrix) or isinstance(B, BitMatrix):
        return packed.entrywise(which, A, B, semiring, out)
    left, right = operands(semiring, device=device, A=A, B=B)
    if check:
        check_operands(semiring, {"A": left, "B": right})
    try:
        shape = np.broadcast_shapes(left.shape, right.shape)
    except ValueError:
        raise ShapeError(f"A is {left.shape}, B is {right.shape}: their shapes do not broadcast") from None
    operation: Operation = getattr(semiring, which)
    result = operation.on_arrays(left, right, check=check) if is_device_array(left) else operation(left, right)
    if out is None:
        return as_result(A, B)(result)
    store(as_output(out, shape, left.dtype, like=left if device is None else None), result)
    return out


_UFUNCS = {
    **{"min": np.fmin, "max": np.fmax, "add": np.add},
    **{"or": np.bitwise_or, "and": np.bitwise_and, "xor": np.bitwise_xor},
}


@lru_cache(maxsize=256)
def _ufunc(add: Expression) -> np.ufunc | None:
    """The NumPy function that is ⊕, where there is one."""
    plain = len(add.args) == 2 and {arg.leaf for arg in add.args if arg.op == "var"} == {"x", "y"}
    return _UFUNCS.get(add.op) if plain else None


@on_their_device
def reduce(
    A: Any,
    semiring: Semiring | str = "min_plus",
    axis: int | tuple[int, ...] | None = None,
    *,
    check: bool = True,
    device: Any = None,
) -> Any:
    """The ⊕ of all entries (``axis=None``), or along one axis or several. The sum of no entries is the zero.

    The order of the additions, which shows in the rounding of plus_times and log_plus, depends on the shape of A and
    its order in memory. Costs about as long as reading A. On a GPU the sum of all is an array without dimensions.

    >>> reduce([[3, 1], [2, 5]], "min_plus"), reduce([[3, 1], [2, 5]], "max_plus", axis=0)
    (np.float64(1.0), array([3., 5.]))
    """
    semiring = as_semiring(semiring)
    array = as_array(A, semiring, device=device)
    if check:
        check_operands(semiring, {"A": array})
    axes = tuple(range(array.ndim)) if axis is None else axis if isinstance(axis, tuple) else (axis,)
    axes = np.lib.array_utils.normalize_axis_tuple(axes, array.ndim, "axis")
    kept = [size for i, size in enumerate(array.shape) if i not in axes]
    if not axes:
        result = array.copy()
    elif array.size == 0:
        result = array_namespace(array).full(kept, semiring.zero_for(array.dtype), array.dtype)
    else:
        result = _sum(semiring, array, axes, kept)
    return as_result(A)(result if kept else result[()])


def _sum(semiring: Semiring, array: Array, axes: tuple[int, ...], kept: list[int]) -> Array:
    ufunc = _ufunc(semiring.add.expression)
    if ufunc is not None and is_device_array(array):
        from semiring.device.kernels import reduction

        return reduction(semiring.add.expression.op, array.dtype)(array, axis=axes)
    if ufunc is not None:
        return np.asarray(ufunc.reduce(array, axis=axes, dtype=array.dtype))
    return _fold(semiring, array_namespace(array).moveaxis(array, axes, range(len(axes))).reshape(-1, *kept))


def _fold(semiring: Semiring, terms: Array) -> Array:
    """The ⊕ along the first axis, by halves: log n array operations, and rounding errors that grow with log n."""
    xp = array_namespace(terms)
    while terms.shape[0] > 1:
        half = terms.shape[0] // 2
        values = {"x": terms[:half], "y": terms[half : 2 * half]}
        folded = semiring.add.expression.evaluate(values, terms.dtype, xp)
        terms = xp.concatenate([folded, terms[2 * half :]]) if terms.shape[0] % 2 else folded
    total: Array = terms[0]
    return total
