"""Read operands of any library as NumPy or CuPy arrays, and convert results to the caller's library.

The results for lists, scalars, NumPy arrays, SciPy sparse matrices and pandas frames are NumPy arrays. Arrays of other
libraries that support DLPack or ``__array__`` (PyTorch, JAX) are read without a copy if possible, and the result is an
array of the same library. An array on a GPU is read as a CuPy array without a copy, if its library supports DLPack or
``__cuda_array_interface__``. Its results stay on that GPU.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import wraps
from math import prod
from numbers import Complex, Number, Real
from typing import Any, ParamSpec, TypeVar

import numpy as np

from semiring import profiling
from semiring.advice import quote
from semiring.algebra import Semiring
from semiring.algebra.catalogue import ALIASES, CATALOGUE
from semiring.algebra.expressions.tree import is_bfloat16, is_floating
from semiring.arguments import as_dtype, as_numbers, check_flags
from semiring.arrays.bits import BitMatrix
from semiring.arrays.encoding import convert
from semiring.arrays.folds import scatter
from semiring.arrays.labels import frame_values, is_graph, refuse_collection
from semiring.arrays.memory import demand_memory
from semiring.arrays.sparse import check_sparse, is_sparse, stored_entries, warn_of_duplicates
from semiring.arrays.tensors import (
    as_sparse_array,
    as_tensor,
    bfloat16_array,
    device_sparse_error,
    gradients_error,
    is_bfloat16_tensor,
    is_cupy_matrix,
    is_sparse_tensor,
    other_sparse_error,
    stored_values,
    tracer_error,
)
from semiring.errors import DeviceError, DTypeError, ShapeError, square_error
from semiring.namespaces import Array, array_namespace, is_device_array, is_traced, library_of

__all__ = [
    "as_array",
    "as_host_operand",
    "as_matrix",
    "as_output",
    "as_square_matrices",
    "common_dtype",
    "device_context",
    "empty_like",
    "has_adjacent_elements",
    "is_same_memory",
    "memory_of",
    "operands",
    "require_real_numbers",
    "result_converter",
    "run_on_operand_device",
    "store",
    "truth_values",
]

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")

_BOOL = np.dtype(np.bool_)
_TRUTHS = ("bool",)  # the dtypes of a semiring that is defined on truth values only
_HOST_DEVICES = (1, 3, 11)  # DLPack's codes of host memory: ordinary, pinned by CUDA, pinned by ROCm
#: Types whose objects are never arrays on a GPU.
_HOST_TYPES = frozenset({np.ndarray, Semiring, list, tuple, str, bool, int, float, type(None)})


def as_host_operand(x: Any, name: str = "A") -> Any:
    """Return ``x`` as an object that NumPy reads without a copy: an array, a sparse matrix, a list or a scalar.

    Raises `DeviceError` for an array on a GPU, and `DTypeError` for a graph or a tracer of JAX. Raises `ShapeError` for
    a sparse matrix whose index arrays are invalid, and `TypeError` for a tensor that records gradients.
    """
    if type(x) is np.ndarray or isinstance(x, np.ndarray | np.generic | list | tuple | int | float):
        return x
    if is_traced(x):
        raise tracer_error(name)
    if is_cupy_matrix(x):
        raise device_sparse_error(name, f"{name}.get()")
    if is_sparse_tensor(x):
        if is_device_array(stored_values(x)):
            of_jax = f'jax.device_put({name}, jax.devices("cpu")[0])'
            raise device_sparse_error(name, of_jax if type(x).__name__ == "BCOO" else f"{name}.cpu()")
        if getattr(x, "requires_grad", False):
            raise gradients_error(name)
        return as_host_operand(as_sparse_array(x, name), name)
    if type(x).__module__.startswith("jax.experimental.sparse") and not is_sparse_tensor(x):
        raise other_sparse_error(x)
    if hasattr(x, "__dlpack__") and not is_device_array(x):
        if getattr(x, "requires_grad", False):
            raise gradients_error(name)
        if x.__dlpack_device__()[0] in _HOST_DEVICES:
            if is_bfloat16_tensor(x):
                return bfloat16_array(x)
            try:
                return np.from_dlpack(x)
            except (BufferError, RuntimeError, TypeError, ValueError):  # a dtype that NumPy or DLPack does not support
                pass
            try:
                return np.asarray(x)
            except (RuntimeError, TypeError, ValueError) as error:
                raise DTypeError(f"{name} cannot be read as a NumPy array: {error}") from None
    if is_device_array(x) or hasattr(x, "__dlpack__"):
        raise DeviceError(
            f"{_describe_operand(name, x)} on a device, which this function does not support: copy it to the host "
            "first (cupy.asnumpy(A), A.cpu())"
        )
    if hasattr(x, "to_numpy"):  # a frame or series
        return frame_values(x, name)
    if is_sparse(x):
        check_sparse(x, name)
        return x
    if is_graph(x):  # NumPy would read a graph of NetworkX as the list of its nodes
        remedy = "its .matrix" if hasattr(x, "matrix") else f"semiring.as_network({name}, the semiring).matrix"
        raise DTypeError(f"{_describe_operand(name, x)}, and this function takes matrices: pass {remedy}")
    refuse_collection(x, name)
    if hasattr(x, "_as_network"):  # `Paths`, whose names a product would lose
        raise DTypeError(f"{name} is of type {type(x).__name__}, not an array of real numbers: pass its .matrix")
    return np.asarray(x) if hasattr(x, "__array__") else x


def _describe_operand(name: str, x: Any) -> str:
    """Return the name and the type of an operand, for a message."""
    return f"{name} is a {type(x).__module__}.{type(x).__qualname__}"


def _as_dense(x: Any, semiring: Semiring, dtype: np.dtype[Any], name: str) -> Any:
    """Return a result of `as_host_operand` as an array of ``dtype`` in native byte order."""
    if isinstance(x, np.ma.MaskedArray):
        result = np.array(convert(np.ma.getdata(x), semiring, dtype, name))
        result[np.ma.getmaskarray(x)] = semiring.zero_for(dtype)
        return result
    if is_sparse(x):
        return _densify(x, semiring, dtype, name)
    array = np.asarray(x)
    if not _is_real(array.dtype):
        raise DTypeError(f"{name} has dtype {array.dtype}: its entries are not real numbers")
    return convert(array, semiring, dtype, name)


def _densify(x: Any, semiring: Semiring, dtype: np.dtype[Any], name: str) -> Array:
    """Return a dense array of the stored entries, zeros included, and 0̄ elsewhere. ⊕ adds duplicate entries."""
    instead = "factor, condensation and the functions of paths with sources= take the stored entries alone"
    demand_memory(prod(x.shape) * dtype.itemsize, f"{name}, a sparse matrix {x.shape}, as a dense array", instead)
    rows, columns, stored = stored_entries(x)
    values = convert(stored, semiring, dtype, f"{name}.data")
    result = np.full(x.shape, semiring.zero_for(dtype), dtype)
    if scatter(result, rows, columns, values, semiring):
        warn_of_duplicates(semiring, name)
    return result


def _is_real(dtype: np.dtype[Any]) -> bool:
    """Return whether a dtype is of real numbers or truth values."""
    return dtype.kind in "fiub" or is_floating(dtype)


def _is_real_number(entry: Any) -> bool:
    """Return whether an object is a real number."""
    # decimal.Decimal is a Number, but neither Real nor Complex, because it cannot be added to floats.
    return isinstance(entry, Real) or (isinstance(entry, Number) and not isinstance(entry, Complex))


def require_real_numbers(x: Any, name: str = "A") -> None:
    """Raise `DTypeError` for entries that are not real numbers, and `ShapeError` for rows of different lengths."""
    if is_sparse(x):
        return
    try:
        array = x if is_device_array(x) else as_numbers(x, name)
    except TypeError as error:  # an entry cannot be converted to an array
        if library_of(error) == "jax":
            raise tracer_error(name) from None
        raise DTypeError(f"{name} cannot be read as an array: {error}") from None
    if _is_real(array.dtype) or array.size == 0:
        return
    if array.ndim == 0:
        named = isinstance(x, str) and x in (*CATALOGUE, *ALIASES)
        hint = f": a file is read by semiring.read({quote(x)})" if isinstance(x, str) else ""
        hint = f": {quote(x)} is given for {name}: pass it as semiring={quote(x)}" if named else hint
        hint = ": pass its .matrix" if hasattr(x, "matrix") else hint
        hint = f": {name}.collect() makes a frame of it" if hasattr(x, "collect_schema") else hint
        raise DTypeError(f"{name} is of type {type(x).__name__}, not an array of real numbers{hint}")
    if array.dtype.kind != "O":
        what = f"text ({array.dtype})" if array.dtype.kind in "US" else str(array.dtype)
        edges = array.dtype.kind in "US" and array.ndim == 2 and array.shape[1] in (2, 3)
        hint = f": if its rows are edges, pass semiring.as_network({name}, columns=(0, 1))" if edges else ""
        raise DTypeError(f"{name} holds {what}, not real numbers{hint}")
    for position, entry in np.ndenumerate(array):
        if isinstance(entry, bool) or not _is_real_number(entry):
            where = f"{name}[{', '.join(map(str, position))}]"
            if hasattr(entry, "tocoo"):
                raise DTypeError(
                    f"{where} is a sparse matrix, and stacks are dense: call the function for each of them"
                )
            hint = "“no edge” is the zero of the semiring"
            if array.ndim == 2 and array.shape[1] in (2, 3) and isinstance(entry, str | dict):
                hint = f"if the rows of {name} are edges, pass semiring.as_network({name}, columns=(0, 1))"
            elif hasattr(entry, "__len__"):
                hint = "elements are scalars; for sets see docs/tutorials/own.md#sets-as-bits"
            raise DTypeError(f"{where} is {quote(entry)}, not a real number: {hint}")
    raise DTypeError(f"{name} holds numbers as Python objects: convert them, as by numpy.asarray({name}, float)")


def truth_values(A: Any) -> Any:
    """Return a dense array of integers with True for every entry but 0, and any other operand unchanged."""
    kind = getattr(getattr(A, "dtype", None), "kind", "")
    return A != 0 if kind in ("i", "u") and not is_sparse(A) else A


def common_dtype(semiring: Semiring, *arrays: Any) -> np.dtype[Any]:
    """Return NumPy's promotion of results of `as_host_operand`. Raises `DTypeError` if the semiring lacks the dtype.

    In a semiring that is defined on truth values only, integers become truth values: see `convert`.
    """
    # NumPy reads some sparse matrices as dictionaries and cannot read CuPy arrays. Empty arrays have their dtypes
    # instead.
    samples = [np.empty(0, x.dtype) if is_sparse(x) or is_device_array(x) else _sample(x) for x in arrays]
    # NumPy promotes bfloat16 for a Python float too, which should not change the dtype.
    if any(getattr(getattr(x, "dtype", None), "name", None) == "bfloat16" for x in samples):
        samples = [x for x in samples if not isinstance(x, float)]
    try:
        dtype = semiring.common_dtype(*samples)
    except np.exceptions.DTypePromotionError:
        dtypes = ", ".join(str(getattr(x, "dtype", type(x).__name__)) for x in arrays)
        raise DTypeError(f"the operands have no common dtype: {dtypes}") from None
    if dtype.kind in "iu" and semiring.dtypes == _TRUTHS:
        return _BOOL
    if dtype.kind == "b" and not semiring.supports(dtype):  # True is an edge of weight 1
        dtype = semiring.common_dtype(True)
    semiring.check_dtype(dtype)
    return dtype if dtype.isnative else dtype.newbyteorder("=")


def _sample(x: Any) -> Any:
    """Return ``x``, or for a list of arrays an empty array of their dtype, which a list of numbers does not have."""
    leaves = list(x) if isinstance(x, list | tuple) else []
    while leaves and all(isinstance(leaf, list | tuple) for leaf in leaves):
        leaves = [entry for leaf in leaves for entry in leaf]
    is_typed = bool(leaves) and all(isinstance(leaf, np.ndarray) for leaf in leaves)
    return np.empty(0, np.result_type(*(leaf.dtype for leaf in leaves))) if is_typed else x


def operands(
    semiring: Semiring,
    dtype: Any = None,
    *,
    device: Any = None,
    scalars: tuple[Any, ...] = (),
    check: bool = True,
    **arguments: Any,
) -> list[Any]:
    """Return the arguments as arrays of one dtype, in their order. An array is copied only if its dtype changes.

    ``scalars`` are numbers that only affect the promotion. The results are NumPy arrays, or CuPy arrays if the
    arguments are on a GPU. With a ``device``, arrays of the host are copied to it. Numbers remain numbers of NumPy,
    because kernels take them as arguments.

    In a semiring of truth values, integers that are all 0 or 1 become truth values. On a GPU they are scanned, and the
    call waits for the result. Without ``check`` there is no scan, and every integer but 0 is True.

    Raises `DeviceError` if some arrays are on a GPU and some are not.
    """
    inputs = list(arguments.values())
    kind = type(inputs[0])
    is_ours = device is None if kind is np.ndarray else library_of(inputs[0]) == "cupy"
    if is_ours and dtype is None and not scalars:
        first = inputs[0].dtype
        fits = first.isnative and _is_real(first) and (first.kind not in "iu" or semiring.dtypes != _TRUTHS)
        fits = fits and (first.kind != "b" or semiring.supports(first))
        if fits and all(type(x) is kind and x.dtype == first for x in inputs):
            semiring.check_dtype(first)
            return inputs
    is_on_device = device is not None or any(is_device_array(x) for x in inputs)
    if device is None and is_on_device:
        _raise_for_mixed_memory(arguments)
    readable = [_read_operand(_convert_truth_values(x, semiring, name), name) for name, x in arguments.items()]
    for name, x in zip(arguments, readable, strict=True):
        require_real_numbers(x, name)
    if dtype is None:
        dtype = common_dtype(semiring, *readable, *scalars)
    else:
        dtype = as_dtype(dtype)
        semiring.check_dtype(dtype)
    arrays = [
        convert(x, semiring, dtype, name, check=check) if is_device_array(x) else _as_dense(x, semiring, dtype, name)
        for name, x in zip(arguments, readable, strict=True)
    ]
    return [_to_device(array) for array in arrays] if is_on_device else arrays


def _convert_truth_values(x: Any, semiring: Semiring, name: str) -> Any:
    """Return a list in which matrices of truth values stand beside numbers as a list of numbers.

    NumPy would stack such a list with False as 0, and here False is no edge.
    """
    if not isinstance(x, list | tuple) or not any(isinstance(entry, np.ndarray | list | tuple) for entry in x):
        return x
    if not any(map(_begins_with_truth_value, x)):  # saves a second conversion of lists of numbers
        return x
    if any(is_device_array(entry) for entry in x):
        return x
    try:
        arrays = [np.asarray(entry) for entry in x]
    except ValueError:  # ragged lists, of which `as_host_operand` says what is wrong
        return x
    if len({array.dtype.kind == "b" for array in arrays}) < 2:
        return x
    dtype = common_dtype(semiring, *arrays)
    return [convert(array, semiring, dtype, name) for array in arrays]


def _begins_with_truth_value(entry: Any) -> bool:
    """Return whether the first element of a matrix, or of nested lists, is a truth value."""
    while isinstance(entry, list | tuple) and len(entry):
        entry = entry[0]
    return isinstance(entry, bool) or getattr(getattr(entry, "dtype", None), "kind", "") == "b"


def _read_operand(x: Any, name: str) -> Any:
    """Return ``x`` as an object that NumPy or CuPy reads without a copy."""
    if not is_device_array(x) or is_sparse_tensor(x):
        return as_host_operand(x, name)
    from semiring.arrays.device import as_cupy

    return as_cupy(x, name)


def _to_device(array: Any) -> Any:
    """Return an array on the current GPU. A number remains a number of NumPy."""
    if is_device_array(array):
        return array
    if array.ndim == 0:
        return array[()]
    from semiring.arrays.device import copy_to_device

    return copy_to_device(array)


def _raise_for_mixed_memory(arguments: dict[str, Any]) -> None:
    """Raise `DeviceError` if some arguments are on a GPU and some arrays in the memory of the host."""
    for name, x in arguments.items():
        if not is_device_array(x) and np.ndim(x):
            other, y = next((other, y) for other, y in arguments.items() if is_device_array(y))
            raise DeviceError(
                f"{_describe_operand(other, y)} on a GPU, {name} is in the memory of the host: copy one of them, "
                "or pass device='cuda' to have it copied"
            )


def as_array(
    x: Any, semiring: Semiring, dtype: Any = None, *, name: str = "A", device: Any = None, check: bool = True
) -> Any:
    """Return ``x`` as a NumPy array, or on a GPU a CuPy array, of a dtype on which the semiring is defined.

    It is the dtype of ``x``, or ``dtype``. Arrays of that dtype are returned themselves, even if they are read-only or
    strided. Lists become float64, or bool if they hold truth values or the semiring is one of truth values. Masked
    entries, and entries that a sparse matrix does not store, become 0̄. Stored zeros remain. Raises `DTypeError`.
    """
    return operands(semiring, dtype, device=device, check=check, **{name: x})[0]


def as_matrix(
    x: Any,
    semiring: Semiring,
    dtype: Any = None,
    *,
    name: str = "A",
    square: bool = False,
    device: Any = None,
    check: bool = True,
) -> Any:
    """Return ``x`` as `as_array` does, and raise `ShapeError` if it is not a matrix, or not ``square``."""
    array = as_array(x, semiring, dtype, name=name, device=device, check=check)
    if array.ndim != 2:
        raise ShapeError(f"{name} has {array.ndim} dimensions, shape {array.shape}: a matrix has two")
    if square and array.shape[0] != array.shape[1]:
        raise square_error(array.shape, name)
    return array


def as_square_matrices(
    x: Any, semiring: Semiring, dtype: Any = None, *, name: str = "A", device: Any = None, check: bool = True
) -> Any:
    """Return ``x`` as `as_array` does, and raise `ShapeError` if it is not a square matrix or a stack of such."""
    array = as_array(x, semiring, dtype, name=name, device=device, check=check)
    if array.ndim < 2 or array.shape[-1] != array.shape[-2]:
        raise square_error(array.shape, name)
    return array


def as_output(
    out: Any, shape: tuple[int, ...], dtype: np.dtype[Any], name: str = "out", *, like: Array | None = None
) -> Any:
    """Return ``out`` as a writable view of ``shape`` and ``dtype``, a NumPy array or on a GPU a CuPy array.

    Raises `TypeError` for anything but an array, `ShapeError`, `DTypeError`, `ValueError` if it is read-only, and
    `DeviceError` if it is not in the memory of ``like``. Objects that support ``__array__`` alone are refused, because
    NumPy may copy them. Masked arrays are refused, because a mask would hide results.
    """
    is_on_device = is_device_array(out)
    writable = is_on_device or isinstance(out, np.ndarray) or hasattr(out, "__dlpack__")
    if not writable or isinstance(out, np.ma.MaskedArray):
        raise TypeError(f"{name} is a {type(out).__name__}: pass an array, or for closure the name of an .npy file")
    if like is not None and is_device_array(like) != is_on_device:
        places = "on a GPU", "in the memory of the host"
        own, other = places if is_on_device else places[::-1]
        raise DeviceError(f"{_describe_operand(name, out)} {own}, the operands are {other}: copy one of them")
    if is_on_device:
        from semiring.arrays import device as memory

        array, writable = memory.as_cupy(out, name), memory.may_write_to(out)
    else:
        array = np.asarray(as_host_operand(out, name))
        writable = array.flags.writeable
    if array.shape != shape:
        raise ShapeError(f"{name} is {array.shape}, the result is {shape}")
    if array.dtype != dtype:
        raise DTypeError(f"{name} has dtype {array.dtype}, the result {dtype}")
    if not writable:
        raise ValueError(f"{name} is read-only")
    return array


def store(target: Array, result: Array) -> None:
    """Write the result into the target, by a transfer if the result is on a GPU and the target on the host."""
    if is_device_array(result) and not is_device_array(target):
        from semiring.arrays.device import to_host

        result = to_host(result)
    target[...] = result


def result_converter(*arguments: Any) -> Callable[[Any], Any]:
    """Return a function that converts a result to the library of the arguments, without a copy if possible.

    The function copies a result on a GPU to the host if no argument is on a GPU.
    """
    if _HOST_TYPES.issuperset(map(type, arguments)):
        return _copy_to_host
    if any(is_device_array(x) for argument in arguments for x in _arrays_of(argument)):
        from semiring.arrays.device import make_exporter

        return make_exporter(*arguments)
    for x in arguments:
        x = stored_values(x) if is_sparse_tensor(x) else x
        if type(x) is np.ndarray or not hasattr(x, "__dlpack__") or isinstance(x, np.ndarray | np.generic):
            continue
        if hasattr(x, "__array_namespace__"):
            xp: Any = x.__array_namespace__()
        else:
            xp = sys.modules.get(type(x).__module__.partition(".")[0])
        if hasattr(xp, "from_dlpack"):
            return lambda result: _export(xp, _copy_to_host(result))
    return _copy_to_host


def _copy_to_host(result: Any) -> Any:
    """Return a result in the memory of the host."""
    if type(result) is np.ndarray or not is_device_array(result):
        return result
    from semiring.arrays.device import to_host

    return to_host(result)[()] if result.ndim == 0 else to_host(result)


def _export(xp: Any, result: Any) -> Any:
    """Return a NumPy array as an array of the library ``xp``, without a copy if possible."""
    array = np.asarray(result)
    if is_bfloat16(array.dtype) and xp.__name__ == "torch":
        return as_tensor(array)
    try:
        return xp.from_dlpack(array)
    except (BufferError, RuntimeError, TypeError, ValueError):  # a dtype or a layout that the library does not import
        return xp.asarray(array)


def memory_of(x: Any) -> Any:
    """Return the array that holds the entries: ``x`` itself, or the words of a `BitMatrix`."""
    return x.words if isinstance(x, BitMatrix) else x


def _arrays_of(x: Any) -> tuple[Any, ...]:
    """Return the arrays of an argument that a function reads: those of a sparse matrix, or the argument itself."""
    if is_cupy_matrix(x) or is_sparse_tensor(x):
        return (x.data, x.indices) if type(x).__name__ == "BCOO" else (stored_values(x),)
    return (memory_of(x),)


def empty_like(x: Any) -> Any:
    """Return an uninitialized array, or packed matrix, of the same kind and shape."""
    if type(x) is BitMatrix:
        return BitMatrix.empty(x.shape, x)
    return array_namespace(x).empty(x.shape, x.dtype)


def has_adjacent_elements(x: Any) -> bool:
    """Return whether the elements, or words, of a row are adjacent in memory."""
    array = x if type(x) is np.ndarray else memory_of(x)
    return bool(array.shape[-1] <= 1 or array.strides[-1] == array.itemsize)


def is_same_memory(x: Any, y: Any) -> bool:
    """Return whether two arrays, or two packed matrices, have the same elements in memory in the same order."""
    if x is y:
        return True
    if type(x) is np.ndarray is type(y) and not np.may_share_memory(x, y):  # an eighth of the time of the last test
        return False
    x, y = memory_of(x), memory_of(y)
    if x is y:
        return True
    if is_device_array(x) != is_device_array(y) or (x.strides, x.shape, x.dtype) != (y.strides, y.shape, y.dtype):
        return False
    if is_device_array(x):
        return bool(x.data.ptr == y.data.ptr)
    return bool(x.ctypes.data == y.ctypes.data)


_NULL_CONTEXT = nullcontext()


def device_context(arguments: tuple[Any, ...], device: Any) -> AbstractContextManager[Any]:
    """Return a context in which the GPU of the arguments is current, on the current stream of their library.

    See `run_on_operand_device`. The context changes nothing if no argument is on a GPU and no ``device`` is named.
    Raises `DeviceError` for arrays on different GPUs.
    """
    if device is None and _HOST_TYPES.issuperset(map(type, arguments)):
        return _NULL_CONTEXT
    device_arrays = [x for argument in arguments for x in _arrays_of(argument) if is_device_array(x)]
    if device is None and not device_arrays:
        return _NULL_CONTEXT
    from semiring.arrays.device import activate_device, are_on_current_device, single_device

    device = single_device(device)
    if device is None and (not device_arrays or are_on_current_device(device_arrays)):
        return _NULL_CONTEXT
    return activate_device(device_arrays, device)


def run_on_operand_device(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Decorate a public function to run on the GPU of its arrays, and on the current stream of their library.

    That is the current stream of CuPy, or of PyTorch for tensors. If no argument is on a GPU and no ``device`` is
    named, the function runs unchanged. While a profile is open, each call is a span of it. The decorated function
    raises `DeviceError` if two arguments are on different GPUs, and `TypeError` as `check_flags` does.
    """

    @wraps(function)
    def call(*arguments: Parameters.args, **options: Parameters.kwargs) -> Result:
        if options:
            check_flags(options)
        work = _wrap_in_span(function) if profiling.active else function
        for x in arguments:  # a fast path for most calls: a small product takes microseconds
            if type(x) not in _HOST_TYPES:
                break
        else:
            if not options or (options.get("device") is None and _HOST_TYPES.issuperset(map(type, options.values()))):
                return work(*arguments, **options)
        arrays = tuple(x for x in (*arguments, *options.values()) if type(x) not in _HOST_TYPES)
        with device_context(arrays, options.get("device")):
            return work(*arguments, **options)

    return call


def _wrap_in_span(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Return the public function in a span of the open profile, which shows the semiring and the arrays."""

    def name_of(x: Any) -> str:
        return x.name if isinstance(x, Semiring) else x if isinstance(x, str) and x in {*CATALOGUE, *ALIASES} else ""

    def call(*arguments: Parameters.args, **options: Parameters.kwargs) -> Result:
        every_argument = (*arguments, *options.values())
        arrays = [profiling.describe_array(x) for x in every_argument if hasattr(x, "shape") and hasattr(x, "dtype")]
        with profiling.span(
            "call", function.__name__, semiring="".join(map(name_of, every_argument)), arrays=", ".join(arrays)
        ):
            return function(*arguments, **options)

    return call
