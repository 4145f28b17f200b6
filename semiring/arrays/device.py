"""Convert arrays of any library on a GPU to CuPy arrays and back without a copy, and select their device and stream."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import cache
from threading import Lock
from typing import Any

import numpy as np

from semiring.advice import cuda_version, install_advice, option, quote
from semiring.arrays.tensors import gradients_error, is_sparse_tensor, stored_values
from semiring.errors import DeviceError, DTypeError
from semiring.namespaces import Array, is_device_array, library_of
from semiring.profiling import describe_array, span

__all__ = [
    "activate_device",
    "addresses",
    "alignment_error",
    "are_disjoint",
    "are_on_current_device",
    "as_cupy",
    "available_device_memory",
    "check_device",
    "copy_to_device",
    "device_number",
    "device_numbers",
    "external_stream",
    "free_device_memory",
    "load_cupy",
    "make_exporter",
    "may_write_to",
    "single_device",
    "to_host",
    "wait_for_stream",
]


def load_cupy(purpose: str = "computing on a GPU") -> Any:
    """Return the module CuPy. Raises `DeviceError`, which names the missing package, driver or GPU."""
    module = _probe_cupy()
    if isinstance(module, str):
        raise DeviceError(f"{purpose} needs {module}")
    return module


@cache
def _probe_cupy() -> Any:
    """Return CuPy, or a text that names the missing package, driver or GPU."""
    try:
        import cupy
    except ImportError:
        version = cuda_version()
        found = "no driver was found" if version is None else "the driver supports CUDA {}.{}".format(*version)
        return f"CuPy, which is not installed: {install_advice('cuda')} (and an NVIDIA GPU; {found})"
    try:
        count = cupy.cuda.runtime.getDeviceCount()
    except cupy.cuda.runtime.CUDARuntimeError as error:
        version, needed = cuda_version(), cupy.cuda.runtime.runtimeGetVersion() // 1000
        if version is not None and version[0] < needed:
            return (
                f"a driver for CUDA {needed}, and the driver supports CUDA {version[0]}.{version[1]}: update it, or "
                f"remove CuPy (pip uninstall cupy-cuda{needed}x) and {install_advice('cuda')}"
            )
        return f"an NVIDIA GPU and its driver: {error}"
    return cupy if count else "an NVIDIA GPU: the driver finds none"


def available_device_memory() -> int:
    """Return 7/8 of the bytes of the current GPU that are free, or that CuPy's memory pool has cached.

    Raises `DeviceError` without CuPy or a GPU.
    """
    cupy = load_cupy()
    return int(cupy.cuda.runtime.memGetInfo()[0] + cupy.get_default_memory_pool().free_bytes()) * 7 // 8


def free_device_memory() -> int:
    """Release the blocks that CuPy's memory pool has cached, and return 7/8 of the free bytes of the current GPU.

    Raises `DeviceError` without CuPy or a GPU.
    """
    cupy = load_cupy()
    cupy.get_default_memory_pool().free_all_blocks()
    return int(cupy.cuda.runtime.memGetInfo()[0]) * 7 // 8


def device_number(device: Any) -> int | None:
    """Return the number of the GPU that ``device`` names ("cuda", "cuda:1"), or None for the current GPU.

    Raises `ValueError` for any other name, because arrays of the host need no name.
    """
    text = "" if isinstance(device, int) else str(device)  # a torch.device has the text of its name
    kind, _, number = text.partition(":")
    if kind != "cuda" or (number and not number.isdecimal()) or text.endswith(":"):
        raise ValueError(
            f"device is {quote(device)}: 'cuda' is the current GPU, 'cuda:1' the one of that number; "
            "without device= a call computes where its operands are, NumPy arrays on the CPU"
        )
    return int(number) if number else None


def device_numbers(device: Any) -> tuple[int, ...]:
    """Return the numbers of the GPUs in ("cuda:0", "cuda:1") or "cuda:*", or () for fewer than two GPUs.

    Raises `ValueError` if a GPU is named twice or without its number, or no GPU is named. For "cuda:*", raises also
    `DeviceError` without CuPy or a GPU.
    """
    if isinstance(device, str) and device == "cuda:*":
        count = int(load_cupy(option("device", device)).cuda.runtime.getDeviceCount())
        return tuple(range(count)) if count > 1 else ()
    if not isinstance(device, tuple | list):
        return ()
    numbers = [device_number(one) for one in device]
    if None in numbers or len(set(numbers)) < len(numbers) or not numbers:
        raise ValueError(
            f"device is {quote(device)}: name each of several GPUs once, ('cuda:0', 'cuda:1'), or all of them, 'cuda:*'"
        )
    return tuple(number for number in numbers if number is not None) if len(numbers) > 1 else ()


def check_device(device: Any) -> None:
    """Raise `DeviceError` if ``device`` names a GPU that does not exist, or the machine has none."""
    cupy = load_cupy(option("device", device))
    for number in device_numbers(device) or (device_number(single_device(device)),):
        _check_number(cupy, number)


def _check_number(cupy: Any, number: int | None) -> None:
    """Raise `DeviceError` if no GPU has the number; None is the current GPU."""
    count = 1 if number is None else int(cupy.cuda.runtime.getDeviceCount())
    if number is not None and number >= count:
        gpu_names = "cuda:0" if count == 1 else f"cuda:0 to cuda:{count - 1}"
        raise DeviceError(f"there is no GPU cuda:{number}: the driver finds {gpu_names}")


def single_device(device: Any) -> Any:
    """Return the only GPU that ``device`` names, or None if it names several."""
    if device_numbers(device):
        return None
    return (
        "cuda"
        if isinstance(device, str) and device == "cuda:*"
        else device[0]
        if isinstance(device, tuple | list)
        else device
    )


def as_cupy(x: Any, name: str = "A") -> Any:
    """Return an array of any library on a GPU as a CuPy array of the same memory.

    Work on it is ordered after the work that writes the array. Raises `TypeError` for a tensor that records gradients,
    `DTypeError` if CuPy does not support the dtype, and `DeviceError` without CuPy.
    """
    if library_of(x) == "cupy":
        return x
    cupy = load_cupy(f"{name} is a {type(x).__module__}.{type(x).__qualname__} on a GPU: computing there")
    if getattr(x, "requires_grad", False):
        raise gradients_error(name)
    failure: Exception | None = None
    for read in (cupy.from_dlpack, cupy.asarray):
        try:
            return read(x)
        except (AttributeError, BufferError, RuntimeError, TypeError, ValueError) as error:
            failure = failure or error
    raise DTypeError(f"{name} cannot be read as a CuPy array: {failure}")


def may_write_to(x: Any) -> bool:
    """Return whether results may be written into an array on a GPU. Arrays of JAX are immutable."""
    if library_of(x) in ("jax", "jaxlib"):
        return False
    if hasattr(x, "__dlpack__"):
        return True
    return not x.__cuda_array_interface__["data"][1]


def alignment_error(name: str, dtype: np.dtype[Any]) -> DeviceError:
    """Return the error for an unaligned array. A kernel that reads one ends the process's use of the GPU."""
    return DeviceError(
        f"{name} has elements at addresses that {dtype.itemsize}, their size in bytes, does not divide, where a GPU "
        f"cannot read a {dtype}: copy its bytes into an array of its own"
    )


class _Addresses:
    """The addresses of a CuPy array, in the array interface of NumPy."""

    def __init__(self, array: Array) -> None:
        self.__array_interface__ = {
            "version": 3,
            "shape": array.shape,
            "strides": array.strides,
            "typestr": array.dtype.str,
            "data": (array.data.ptr or 1, True),
        }


def addresses(array: Array) -> np.ndarray[Any, Any]:
    """Return a NumPy array at the same addresses and strides, for comparisons.

    **Its elements cannot be read.**
    """
    return np.asarray(_Addresses(array))


def are_disjoint(one: Array, other: Array) -> bool:
    """Return whether two dense arrays share no memory. The result is False for an array that is not dense."""
    if not all(array.flags.c_contiguous or array.flags.f_contiguous for array in (one, other)):
        return False
    first, second = one.data.ptr, other.data.ptr
    return bool(first + one.nbytes <= second or second + other.nbytes <= first)


def copy_to_device(array: np.ndarray[Any, Any]) -> Any:
    """Return a copy of a NumPy array on the current GPU, in row-major order."""
    with span("transfer", "to the GPU", moved=2 * array.nbytes, array=describe_array(array)):
        return load_cupy().asarray(array, order="C")


def to_host(array: Any) -> np.ndarray[Any, Any]:
    """Return a copy of a CuPy array in the memory of the host. Waits for the work that writes it."""
    with span("transfer", "to the host", moved=2 * array.nbytes, array=describe_array(array)):
        copy: np.ndarray[Any, Any] = array.get()
        return copy


def wait_for_stream() -> None:
    """Wait for the work on the current stream of the current GPU."""
    load_cupy().cuda.get_current_stream().synchronize()


def make_exporter(*arguments: Any) -> Callable[[Array], Any]:
    """Return a function that converts a CuPy array to the library of the arguments, without a copy.

    If several arguments are on a GPU, the first that is not an array of CuPy decides.
    """
    values = [stored_values(x) if is_sparse_tensor(x) else x for x in arguments]
    libraries = [library_of(x) for x in values if is_device_array(x)]
    root = next((library for library in libraries if library != "cupy"), "cupy")
    if root in ("numba", "numba_cuda"):
        return _to_numba
    xp: Any = sys.modules.get("jax.numpy" if root in ("jax", "jaxlib") else root)
    if root != "cupy" and hasattr(xp, "from_dlpack"):
        return lambda result: xp.from_dlpack(result)
    return lambda result: result  # a library without from_dlpack reads CuPy's arrays by their interface


def _to_numba(result: Array) -> Any:
    """Return a CuPy array as an array of Numba that shares its memory."""
    from cupy.cuda import get_current_stream
    from numba import cuda

    # No synchronization is needed if the result is computed on Numba's default stream.
    return cuda.as_cuda_array(result, sync=get_current_stream().ptr != 0)


@contextmanager
def activate_device(arrays: Sequence[Any], device: Any = None) -> Iterator[None]:
    """Return a context in which the GPU of the arrays is the current device.

    If an array is a tensor of PyTorch, PyTorch's current stream is the current stream of CuPy. References to arrays of
    JAX are held until the work in the context has ended. Raises `ValueError` if ``device`` is no name of a GPU. Raises
    `DeviceError` if two arrays are on different GPUs, or one on another GPU than ``device`` names. Without CuPy the
    context does nothing, because `as_cupy` raises an error with the name of the array.
    """
    number = None if device is None else device_number(device)
    is_named = number is not None
    cupy = _probe_cupy()
    if isinstance(cupy, str):
        yield
        return
    _check_number(cupy, number)
    for x in arrays:
        own_number = _device_number_of(x)
        if number is not None and own_number != number:
            if is_named:
                raise DeviceError(
                    f"an array is on GPU {own_number}, and {option('device', device)} names GPU {number}: copy the "
                    "array, or leave device out"
                )
            raise DeviceError(f"an array is on GPU {own_number}, another is on GPU {number}: copy one of them")
        number = own_number
    tensor = next((x for x in arrays if library_of(x) == "torch"), None)
    with cupy.cuda.Device(number), nullcontext() if tensor is None else _torch_stream(cupy, tensor):
        try:
            yield
        finally:
            lent = [x for x in arrays if library_of(x) in ("jax", "jaxlib")]
            if lent:
                _hold(cupy.cuda.get_current_stream(), cupy.cuda.Event, lent)


_lent_arrays: deque[tuple[Any, list[Any]]] = deque()  # arrays, and the event after the work that reads them
_lent_lock = Lock()


def _hold(stream: Any, event: Callable[..., Any], arrays: list[Any]) -> None:
    """Hold references to arrays at least until the work that was enqueued on them has ended.

    A later call releases them. JAX reuses the memory of an array without references for its next computation, which
    waits only for JAX's stream.
    """
    if stream.is_capturing():  # a captured graph does not run yet, and querying an event may invalidate the capture
        return
    with _lent_lock:
        while _lent_arrays and _lent_arrays[0][0].done:
            _lent_arrays.popleft()
        _lent_arrays.append((stream.record(event(disable_timing=True)), arrays))


def are_on_current_device(arrays: Sequence[Any]) -> bool:
    """Return whether all arrays are CuPy arrays of the current GPU, so that `activate_device` would change nothing."""
    if not all(library_of(x) == "cupy" for x in arrays):
        return False
    current = load_cupy().cuda.runtime.getDevice()
    return all(x.data.device_id == current for x in arrays)


def _device_number_of(x: Any) -> int:
    """Return the number of the GPU that holds an array of any library."""
    if hasattr(x, "__dlpack_device__"):
        return int(x.__dlpack_device__()[1])
    return int(load_cupy().asarray(x).device.id)


class _Stream:
    """A stream of another library under the protocol that CuPy reads."""

    def __init__(self, address: int) -> None:
        self.address = address

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self.address


def external_stream(cupy: Any, address: int, device: int) -> Any:
    """Return CuPy's object for a stream of another library, on the GPU of that number."""
    if hasattr(cupy.cuda.Stream, "from_external"):  # CuPy 14
        return cupy.cuda.Stream.from_external(_Stream(address))
    return cupy.cuda.ExternalStream(address, device)


def _torch_stream(cupy: Any, tensor: Any) -> Any:
    """Return PyTorch's current stream on the GPU of a tensor, as a stream of CuPy."""
    address = sys.modules["torch"].cuda.current_stream(tensor.device).cuda_stream
    return external_stream(cupy, address, tensor.device.index)
