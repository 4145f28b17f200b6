"""Compute entrywise sums, entrywise products and reductions, and make matrices of zeros and ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from math import prod
from operator import index
from typing import Any, TypeAlias

import numpy as np

from semiring.advice import quote
from semiring.algebra import Operation, Semiring
from semiring.algebra.catalogue import as_semiring, check_sum_laws
from semiring.algebra.expressions import Expression
from semiring.arguments import as_dtype, as_shape, check_dimensions, require_integer
from semiring.arrays.bits import BitMatrix
from semiring.arrays.encoding import Scan, check_entries, check_operands, round_to_dtype, to_compute_dtype
from semiring.arrays.memory import demand_array, new_array
from semiring.arrays.operands import as_array, as_output, operands, result_converter, run_on_operand_device, store
from semiring.arrays.scans import limits_of
from semiring.errors import DeviceError, ShapeError
from semiring.linalg import packed
from semiring.linalg.dispatch import demand_range, magnitudes, may_wrap, scanned_magnitude
from semiring.linalg.sparse_elementwise import add_sparse, multiply_entries, reduce_sparse
from semiring.linalg.sparse_products import has_sparse, is_on_device, multiply_sparse, read_sparse_operands
from semiring.namespaces import Array, array_namespace, is_device_array
from semiring.thread_counts import check_threads

__all__ = [
    "add",
    "identity",
    "is_sum_of_numpy",
    "multiply",
    "reduce",
    "reduced_axes",
    "scaled_sum",
    "zeros",
]

_Operands: TypeAlias = tuple[dict[str, Array], list[Scan], tuple[int, ...]]


def _resolve_dtype(semiring: Semiring, dtype: Any) -> np.dtype[Any]:
    """Return the dtype; for None float64, or the first dtype on which the semiring is defined."""
    if dtype is None:
        dtype = np.float64 if semiring.supports(np.float64) else semiring.dtypes[0]
    result = as_dtype(dtype)
    semiring.check_dtype(result)
    return result


@run_on_operand_device
def zeros(
    shape: int | Sequence[int], semiring: Semiring | str | None = None, dtype: Any = None, *, device: Any = None
) -> Any:
    """Return an array filled with the zero of the semiring.

    Parameters
    ----------
    shape : int or sequence of int
        The shape of the array.
    semiring : Semiring or str, optional
        A `Semiring` or the name of one in the catalogue. The default is min-plus.
    dtype : dtype, optional
        The default is float64, or the first dtype on which the semiring is defined.
    device : str, optional
        ``"cuda"`` or ``"cuda:1"`` makes a CuPy array on that GPU. The default is a NumPy array.

    Returns
    -------
    array
        A new NumPy array of this shape and dtype, or a new CuPy array on the GPU.

    Raises
    ------
    DTypeError
        If the semiring is not defined on the dtype.
    DeviceError
        If there is no such GPU, or CuPy is not installed.

    Examples
    --------
    >>> zeros((1, 3), "min_plus")
    array([[inf, inf, inf]])
    """
    semiring = as_semiring(semiring)
    dtype = _resolve_dtype(semiring, dtype)
    sizes = as_shape(shape)
    result = new_array(_namespace(device), sizes, dtype)
    result.fill(semiring.zero_for(dtype))
    return result


@run_on_operand_device
def identity(n: int, semiring: Semiring | str | None = None, dtype: Any = None, *, device: Any = None) -> Any:
    """Return the n × n matrix with the one of the semiring on its diagonal and the zero elsewhere.

    Parameters
    ----------
    n : int
        The number of rows, at least 0.
    semiring : Semiring or str, optional
        A `Semiring` or the name of one in the catalogue. The default is min-plus.
    dtype : dtype, optional
        The dtype of the matrix, as in `zeros`.
    device : str, optional
        The GPU that holds the matrix, as in `zeros`.

    Returns
    -------
    array, shape (n, n)
        A new NumPy array, or a new CuPy array on the GPU.

    Raises
    ------
    ValueError
        If n is negative.
    TypeError
        If n is not an integer.
    DTypeError, DeviceError
        As in `zeros`.

    Examples
    --------
    >>> identity(2, "max_plus")
    array([[  0., -inf],
           [-inf,   0.]])
    """
    semiring = as_semiring(semiring)
    n = require_integer(n, "the size of an identity", 0)
    result = zeros((n, n), semiring, dtype, device=device)
    result.reshape(-1)[:: n + 1] = semiring.one_for(result.dtype)
    return result


def _namespace(device: Any) -> Any:
    """Return the module NumPy if ``device`` is None, else CuPy."""
    if device is None:
        return np
    from semiring.arrays.device import load_cupy

    return load_cupy()


@run_on_operand_device
def add(
    A: Any,
    B: Any,
    semiring: Semiring | str | None = None,
    *,
    out: Any = None,
    check: bool = True,
    threads: int | None = None,
    device: Any = None,
) -> Any:
    """Return A ⊕ B entry by entry, for operands of shapes that broadcast.

    Parameters
    ----------
    A, B : array_like
        Arrays, lists, numbers or SciPy sparse matrices. Two sparse matrices have one shape. A `BitMatrix` operand needs
        another matrix of truth values of its shape. Frames are read without their labels.
    semiring : Semiring or str, optional
        A `Semiring` or the name of one in the catalogue. The default is min-plus.
    out : array, optional
        An array of the result's shape and dtype, for the result. It may be an operand.
    check : bool, default True
        Scan every entry for NaN and the domain, as in `matmul`.
    threads : int, optional
        The number of threads, by default that of `get_threads`. One thread computes, because memory bounds the time.
    device : str, optional
        ``"cuda"`` or ``"cuda:1"`` computes on that GPU, as in `matmul`.

    Returns
    -------
    array
        The sums, in the shape to which the operands broadcast, in NumPy's promotion of their dtypes, and in their
        library and memory. Or ``out``. Two `BitMatrix` operands give a `BitMatrix`. Two sparse matrices give a sparse
        matrix of the class of the first one, with the entries of both. A sparse and a dense operand give an array.

    Raises
    ------
    ShapeError
        If the shapes do not broadcast, or two packed or sparse matrices differ in shape.
    TypeError
        If ``out`` is given for a sparse result.
    AlgebraError
        For sparse operands if the zero does not annihilate.
    DTypeError
        If the semiring is not defined on the dtype.
    DomainError
        If an entry is NaN or outside the domain.
    IntegerOverflowError
        If a sum of integers of plus_times does not fit the dtype.
    DeviceError
        If the operands are in different memories, or there is no GPU.

    Examples
    --------
    >>> add([1, 5], [3, 2], "max_plus")
    array([3., 5.])
    """
    if threads is not None:
        check_threads(threads)
    semiring = as_semiring(semiring)
    return _entrywise("add", semiring, A, B, out, check, device)


@run_on_operand_device
def multiply(
    A: Any,
    B: Any,
    semiring: Semiring | str | None = None,
    *,
    out: Any = None,
    check: bool = True,
    threads: int | None = None,
    device: Any = None,
) -> Any:
    """Return A ⊗ B entry by entry, for operands of shapes that broadcast.

    `matmul` is the product of matrices.

    Parameters
    ----------
    A, B : array_like
        Operands as in `add`. The zero absorbs every entry. A dense operand broadcasts to a sparse one.
    semiring : Semiring or str, optional
        A `Semiring` or the name of one in the catalogue. The default is min-plus.
    out : array, optional
        An array of the result's shape and dtype, for the result. It may be an operand.
    check : bool, default True
        Scan every entry for NaN and the domain, as in `matmul`.
    threads : int, optional
        The number of threads, by default that of `get_threads`. One thread computes, because memory bounds the time.
    device : str, optional
        ``"cuda"`` or ``"cuda:1"`` computes on that GPU, as in `matmul`.

    Returns
    -------
    array
        The products, in shape, dtype, library and memory as in `add`, or ``out``. With a sparse operand it is a sparse
        matrix of its class, with the entries that every sparse operand stores.

    Raises
    ------
    IntegerOverflowError
        If a result does not fit the integer dtype, or on integers of min-plus and max-plus would mean "no path".
    ShapeError, TypeError, DTypeError, DomainError, DeviceError, AlgebraError
        As in `add`.

    Examples
    --------
    >>> multiply([[1, float("inf")]], 4, "min_plus")
    array([[ 5., inf]])
    """
    if threads is not None:
        check_threads(threads)
    semiring = as_semiring(semiring)
    return _entrywise("mul", semiring, A, B, out, check, device)


def _entrywise(operation: str, semiring: Semiring, A: Any, B: Any, out: Any, check: bool, device: Any) -> Any:
    """Return ⊕ (``"add"``) or ⊗ (``"mul"``) of two operands, which broadcast."""
    if isinstance(A, BitMatrix) or isinstance(B, BitMatrix):
        return packed.entrywise(operation, A, B, semiring, out, device)
    if has_sparse(A, B) and (operation == "mul" or (has_sparse(A) and has_sparse(B))):
        if out is not None:
            raise TypeError("out= is given, and the result is sparse: leave out= away")
        apply = add_sparse if operation == "add" else multiply_entries

        def entrywise(x: Array, y: Array) -> Any:
            return _entrywise(operation, semiring, x, y, None, check, None)

        return apply(A, B, semiring, check, device, entrywise)
    if any(has_sparse(x) and is_on_device(x) for x in (A, B)):
        raise DeviceError(
            "a sparse and a dense matrix are added on the host: copy both of them, or make the dense one sparse"
        )
    arrays, scans, shape = _gather_operands(semiring, check, device, A=A, B=B)
    left, right = (to_compute_dtype(array, semiring) for array in arrays.values())
    _demand_range(semiring, operation, left, right, scans)
    result = _apply(semiring, operation, left, right, check and not _sums_fit(left.dtype, *scans))
    return _store_result(result, shape, arrays, out, device, result_converter(A, B))


def scaled_sum(semiring: Semiring, alpha: Any, x: Any, y: Any, out: Any, check: bool, device: Any) -> Any:
    """Return (α ⊗ x) ⊕ y entry by entry, as `axpy` does."""
    arrays, scans, shape = _gather_operands(semiring, check, device, alpha=alpha, x=x, y=y)
    factor, terms, addend = (to_compute_dtype(array, semiring) for array in arrays.values())
    _demand_range(semiring, "mul", factor, terms, scans[:2])
    scaled = _apply(semiring, "mul", factor, terms, check and not _sums_fit(terms.dtype, *scans[:2]))
    if check and may_wrap(semiring, scaled.dtype):
        _demand_range(semiring, "add", scaled, addend, [check_entries(scaled, semiring), scans[2]])
    result = _apply(semiring, "add", scaled, addend, check)
    return _store_result(result, shape, arrays, out, device, result_converter(x, y, alpha))


def _gather_operands(semiring: Semiring, check: bool, device: Any, **arguments: Any) -> _Operands:
    """Return the operands in one dtype and memory, a scan of each, and the shape to which they broadcast."""
    arrays = dict(zip(arguments, operands(semiring, device=device, check=check, **arguments), strict=True))
    try:
        for name, array in arrays.items():
            check_dimensions(array.ndim, name)
        shape = np.broadcast_shapes(*(array.shape for array in arrays.values()))
    except ValueError:
        shapes = ", ".join(f"{name} is {array.shape}" for name, array in arrays.items())
        raise ShapeError(f"{shapes}: their shapes do not broadcast") from None
    first = next(iter(arrays.values()))
    if not is_device_array(first):
        demand_array(shape, first.dtype)
    return arrays, check_operands(semiring, arrays) if check else [], shape


def _demand_range(semiring: Semiring, operation_name: str, left: Array, right: Array, scans: Sequence[Scan]) -> None:
    """Raise `IntegerOverflowError` if a sum or a product of scanned integers leaves their dtype."""
    if not scans or not may_wrap(semiring, left.dtype):
        return
    a, b = map(scanned_magnitude, scans)
    operation = np.add if operation_name == "add" else np.multiply
    sign = "⊕" if operation_name == "add" else "⊗"

    def results() -> Any:
        value = operation(left.astype(np.float64), right.astype(np.float64))
        return abs(value + 0.5) - 0.5  # the least integer of a dtype has a larger magnitude than the greatest, by one

    demand_range(left.dtype, a + b if operation_name == "add" else a * b, results, f"an entry of A {sign} B")


def _sums_fit(dtype: np.dtype[Any], a: Scan, b: Scan) -> bool:
    """Return whether the ranges of two arrays of integers show that no sum leaves the dtype or is its extreme value.

    The sums need no scan then, and the call does not wait for a GPU.
    """
    if dtype.kind != "i":
        return False
    if a.low is None or b.low is None or a.high is None or b.high is None:
        return True  # one of the arrays holds no number
    limits = limits_of(dtype)
    return bool(int(a.low) + int(b.low) > limits.min and int(a.high) + int(b.high) < limits.max)


def _apply(semiring: Semiring, operation_name: str, left: Array, right: Array, check: bool) -> Any:
    """Return ⊕ or ⊗ of arrays. On a GPU without ``check``, integers are not scanned, so the call does not wait."""
    operation: Operation = getattr(semiring, operation_name)
    if not (is_device_array(left) or is_device_array(right)):
        return operation(left, right)
    if not (check and semiring.tropical and left.dtype.kind == "i" and operation_name == "mul"):
        from semiring.kernels.cuda.closing import modules

        result = modules.apply_entrywise(semiring, operation_name, left, right)
        if result is not None:
            return result
    result = operation.apply_to_arrays(left, right, check=check)
    return result.astype(left.dtype, copy=False)  # CuPy computes bfloat16 as float32


def _store_result(
    result: Array,
    shape: tuple[int, ...],
    arrays: dict[str, Array],
    out: Any,
    device: Any,
    convert_result: Callable[[Any], Any],
) -> Any:
    """Return a result in the caller's dtype and library, or write it to ``out`` and return that."""
    like = next((array for array in arrays.values() if is_device_array(array)), next(iter(arrays.values())))
    result = round_to_dtype(result, like.dtype)
    if out is None:
        return convert_result(result)
    store(as_output(out, shape, like.dtype, like=like if device is None else None), result)
    return out


_UFUNCS = {
    **{"min": np.fmin, "max": np.fmax, "add": np.add},
    **{"or": np.bitwise_or, "and": np.bitwise_and, "xor": np.bitwise_xor},
}


@lru_cache(maxsize=256)
def _ufunc(add: Expression) -> np.ufunc | None:
    """Return the NumPy function that computes ⊕, or None."""
    plain = len(add.args) == 2 and {arg.leaf for arg in add.args if arg.op == "var"} == {"x", "y"}
    return _UFUNCS.get(add.op) if plain else None


def is_sum_of_numpy(semiring: Semiring) -> bool:
    """Return whether a function of NumPy computes ⊕, so that `reduce` is one pass without a workspace."""
    return _ufunc(semiring.add.expression) is not None


@run_on_operand_device
def reduce(
    A: Any,
    semiring: Semiring | str | None = None,
    axis: int | tuple[int, ...] | None = None,
    *,
    keepdims: bool = False,
    check: bool = True,
    threads: int | None = None,
    device: Any = None,
) -> Any:
    """Return the ⊕ of all entries, or along one or several axes.

    Parameters
    ----------
    A : array_like
        An array of any shape, or a SciPy sparse matrix, of which the stored entries are added.
    semiring : Semiring or str, optional
        A `Semiring` or the name of one in the catalogue. The default is min-plus.
    axis : int or tuple of int, optional
        An axis, a tuple of axes, or None for all axes.
    keepdims : bool, default False
        Keep the reduced axes with size 1, so that the result broadcasts against A.
    check : bool, default True
        Scan every entry for NaN and the domain, as in `matmul`.
    threads : int, optional
        The number of threads, by default that of `get_threads`. One thread computes, because memory bounds the time.
    device : str, optional
        ``"cuda"`` or ``"cuda:1"`` computes on that GPU, as in `matmul`.

    Returns
    -------
    array or scalar
        The sums, in the dtype and library of A. The sum of no entries is the zero. On a GPU the sum of all entries is
        an array without dimensions.

    Raises
    ------
    numpy.exceptions.AxisError
        For an axis that A does not have.
    ValueError
        For an axis that is named twice.
    TypeError
        For an axis that is not an integer.
    IntegerOverflowError
        If a sum of integers of plus_times may not fit the dtype.
    AlgebraError
        If ⊕ is not associative and commutative.
    DTypeError, DomainError, DeviceError
        As in `matmul`.

    Notes
    -----
    The order of the additions depends on the shape of A and its order in memory. It affects the rounding of plus_times
    and log_plus. The cost is about that of reading A.

    Examples
    --------
    >>> reduce([[3, 1], [2, 5]], "min_plus"), reduce([[3, 1], [2, 5]], "max_plus", axis=0)
    (np.float64(1.0), array([3., 5.]))
    """
    if threads is not None:
        check_threads(threads)
    semiring = as_semiring(semiring)
    check_sum_laws(semiring)
    if has_sparse(A):
        ufunc, axes = _ufunc(semiring.add.expression), reduced_axes(axis, 2)
        if device is not None or is_on_device(A):
            return _reduce_on_device(A, semiring, axes, keepdims, check, device)
        return result_converter(A)(reduce_sparse(A, semiring, axes, keepdims, check, device, ufunc))
    operand = as_array(A, semiring, device=device, check=check)
    scan = check_operands(semiring, {"A": operand})[0] if check else Scan()
    array = to_compute_dtype(operand, semiring)
    axes = reduced_axes(axis, array.ndim)
    remaining = [size for i, size in enumerate(array.shape) if i not in axes]
    if not axes:
        result = array.copy()
    elif array.size == 0:
        result = array_namespace(array).full(remaining, semiring.zero_for(array.dtype), array.dtype)
    else:
        if may_wrap(semiring, array.dtype):
            most = scanned_magnitude(scan) * (array.size // max(1, prod(remaining)))
            demand_range(array.dtype, most, lambda: magnitudes(array).sum(axis=axes), "a sum of entries of A")
        result = _sum(semiring, array, axes, remaining)
    if keepdims:
        result = result.reshape([1 if i in axes else size for i, size in enumerate(array.shape)])
    result = round_to_dtype(result, operand.dtype)
    return result_converter(A)(result if result.ndim else result[()])


def _reduce_on_device(
    A: Any, semiring: Semiring, axes: tuple[int, ...], keepdims: bool, check: bool, device: Any
) -> Any:
    """Return the ⊕ of the stored entries of a sparse matrix on a GPU: its product with vectors of the neutral 1̄."""
    if not axes:
        raise ValueError("axis is (): name an axis along which a sparse matrix is reduced")
    (rows,), _, dtype = read_sparse_operands(semiring, check, device, may_use_gpu=True, A=A)
    ones = array_namespace(rows.columns).full(A.shape[axes[-1]], semiring.one_for(dtype), dtype)
    factors = (A, ones) if axes[-1] == 1 else (ones, A)
    result = multiply_sparse(*factors, semiring, check=check, device=device)
    if len(axes) == 2:
        result = reduce(result, semiring, check=check, device=device)
    if keepdims:
        result = result.reshape([1 if axis in axes else size for axis, size in enumerate(A.shape)])
    return result if is_on_device(A) else result_converter(A)(result)


def reduced_axes(axis: Any, dimensions: int) -> tuple[int, ...]:
    """Return the axes of the argument ``axis`` of `reduce`, in ascending order. Raises NumPy's errors."""
    if axis is None:
        return tuple(range(dimensions))
    several = axis if isinstance(axis, tuple) else (axis,)
    try:
        indices = [index(one) for one in several]
        if any(isinstance(one, bool) for one in several):
            raise TypeError
    except TypeError:
        raise TypeError(f"axis is an integer or a tuple of integers, not {quote(axis)}") from None
    for one in indices:
        if not -dimensions <= one < dimensions:
            ends = f"an axis is between {-dimensions} and {dimensions - 1}" if dimensions else "it is a number"
            raise np.exceptions.AxisError(f"axis={quote(axis)}, and A has {dimensions} dimensions: {ends}")
    axes = sorted({one % dimensions for one in indices})
    if len(axes) < len(indices):
        raise ValueError(f"axis={quote(axis)} names an axis twice: once is enough")
    return tuple(axes)


def _sum(semiring: Semiring, array: Array, axes: tuple[int, ...], remaining: list[int]) -> Any:
    """Return the ⊕ along some axes; ``remaining`` are the sizes of the other axes."""
    ufunc = _ufunc(semiring.add.expression)
    if ufunc is not None and is_device_array(array):
        from semiring.kernels.cuda.entries.entry_passes import reduction

        return reduction(semiring.add.expression.op, array.dtype)(array, axis=axes)
    if ufunc is not None:
        return np.asarray(ufunc.reduce(array, axis=axes, dtype=array.dtype))
    return _fold(semiring, array_namespace(array).moveaxis(array, axes, range(len(axes))).reshape(-1, *remaining))


def _fold(semiring: Semiring, terms: Array) -> Array:
    """Return the ⊕ along the first axis by halving it, in log n array operations with O(log n) rounding errors."""
    xp = array_namespace(terms)
    while terms.shape[0] > 1:
        half = terms.shape[0] // 2
        values = {"x": terms[:half], "y": terms[half : 2 * half]}
        folded = semiring.add.expression.evaluate(values, terms.dtype, xp)
        terms = xp.concatenate([folded, terms[2 * half :]]) if terms.shape[0] % 2 else folded
    total: Array = terms[0]
    return total
