"""Arrays of any library on a GPU as CuPy arrays and back, without a copy; the device and the stream they live on."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import cache
from threading import Lock
from typing import Any, TypeAlias

import numpy as np

from semiring.advice import installing
from semiring.arrays.tensors import refused_gradients
from semiring.errors import DeviceError, DTypeError
from semiring.namespaces import is_device_array, library_of
from semiring.profiling import described, span

__all__ = [
    "addresses",
    "are_apart",
    "as_cupy",
    "at_home",
    "device_number",
    "device_numbers",
    "exporter",
    "external_stream",
    "free_on_device",
    "load_cupy",
    "moved_to_device",
    "on_device",
    "one_device",
    "to_host",
    "unaligned",
    "writable",
]

Array: TypeAlias = Any  # a CuPy array
_INSTALL = f"{installing('cuda')} (and an NVIDIA GPU with a driver for CUDA 13)"


def load_cupy(what: str = "computing on a GPU") -> Any:
    """The module CuPy; `DeviceError` says what is missing, the package, the driver or the GPU."""
    module = _loaded()
    if isinstance(module, str):
        raise DeviceError(f"{what} needs {module}")
    return module


@cache
def _loaded() -> Any:
    """CuPy, or what is missing."""
    try:
        import cupy
    except ImportError:
        return f"CuPy, which is not installed: {_INSTALL}"
    try:
        count = cupy.cuda.runtime.getDeviceCount()
    except cupy.cuda.runtime.CUDARuntimeError as error:
        return f"an NVIDIA GPU and its driver: {error}"
    return cupy if count else "an NVIDIA GPU: the driver finds none"


def free_on_device() -> int:
    """Bytes of the current GPU that a new computation may take, less a margin of an eighth."""
    cupy = load_cupy()
    cupy.get_default_memory_pool().free_all_blocks()
    return int(cupy.cuda.runtime.memGetInfo()[0]) * 7 // 8


def device_number(device: Any) -> int | None:
    """The number of the GPU that ``device`` names ("cuda", "cuda:1"); None for the current one.

    Raises `ValueError` for any other name: arrays of the host need none.
    """
    kind, _, number = str(device).partition(":")
    if kind != "cuda" or (number and not number.isdecimal()) or str(device).endswith(":"):
        raise ValueError(
            f"device is {device!r}: 'cuda' is the current GPU, 'cuda:1' the one of that number; "
            "without device= a call computes where its operands are, NumPy arrays on the CPU"
        )
    return int(number) if number else None


def device_numbers(device: Any) -> tuple[int, ...]:
    """The numbers of the GPUs that compute together, ("cuda:0", "cuda:1") or "cuda:*"; () where that is one or none.

    Raises `ValueError` where one is named twice or without its number.
    """
    if device == "cuda:*":
        count = int(load_cupy("device='cuda:*'").cuda.runtime.getDeviceCount())
        return tuple(range(count)) if count > 1 else ()
    if not isinstance(device, tuple | list):
        return ()
    numbers = [device_number(one) for one in device]
    if None in numbers or len(set(numbers)) < len(numbers) or not numbers:
        raise ValueError(
            f"device is {device!r}: name each of several GPUs once, ('cuda:0', 'cuda:1'), or all of them, 'cuda:*'"
        )
    return tuple(number for number in numbers if number is not None) if len(numbers) > 1 else ()


def one_device(device: Any) -> Any:
    """What of `device` is one GPU: itself, the only one that it lists, or None where there are several."""
    if device_numbers(device):
        return None
    return "cuda" if device == "cuda:*" else device[0] if isinstance(device, tuple | list) else device


def as_cupy(x: Any, name: str = "A") -> Array:
    """An array of any library on a GPU as a CuPy array of the same memory, ordered behind the work that writes it.

    Raises `TypeError` for a tensor that records gradients, and `DTypeError` where CuPy does not know the dtype.
    """
    if library_of(x) == "cupy":
        return x
    cupy = load_cupy(f"{name} is a {type(x).__module__}.{type(x).__qualname__} on a GPU: computing there")
    if getattr(x, "requires_grad", False):
        raise refused_gradients(name)
    failure: Exception | None = None
    for read in (cupy.from_dlpack, cupy.asarray):
        try:
            return read(x)
        except (AttributeError, BufferError, RuntimeError, TypeError, ValueError) as error:
            failure = failure or error
    raise DTypeError(f"{name} cannot be read as a CuPy array: {failure}")


def writable(x: Any) -> bool:
    """Whether results may be written into an array on a GPU: JAX's are immutable."""
    if library_of(x) in ("jax", "jaxlib"):
        return False
    if hasattr(x, "__dlpack__"):
        return True
    return not x.__cuda_array_interface__["data"][1]


def unaligned(name: str, dtype: np.dtype[Any]) -> DeviceError:
    """The error for an array that no kernel can read, CuPy's included: they would end the process's use of the GPU."""
    return DeviceError(
        f"{name} has elements at addresses that {dtype.itemsize}, their size in bytes, does not divide, where a GPU "
        f"cannot read a {dtype}: copy its bytes into an array of its own"
    )


class _Addresses:
    """The addresses of a CuPy array in the form that NumPy reads."""

    def __init__(self, array: Array) -> None:
        self.__array_interface__ = {
            "version": 3,
            "shape": array.shape,
            "strides": array.strides,
            "typestr": array.dtype.str,
            "data": (array.data.ptr or 1, True),
        }


def addresses(array: Array) -> np.ndarray[Any, Any]:
    """A NumPy array at the same addresses and strides, to compare with others. **Its elements cannot be read.**"""
    return np.asarray(_Addresses(array))


def are_apart(one: Array, other: Array) -> bool:
    """Whether two arrays lie in memory that does not meet: told at once where both are dense."""
    if not all(array.flags.c_contiguous or array.flags.f_contiguous for array in (one, other)):
        return False
    first, second = one.data.ptr, other.data.ptr
    return bool(first + one.nbytes <= second or second + other.nbytes <= first)


def moved_to_device(array: np.ndarray[Any, Any]) -> Array:
    """A copy of a NumPy array on the current GPU, in row-major order."""
    with span("transfer", "to the GPU", moved=2 * array.nbytes, array=described(array)):
        return load_cupy().asarray(array, order="C")


def to_host(array: Array) -> np.ndarray[Any, Any]:
    """A copy of a CuPy array in the memory of the host. Waits for the work that writes it."""
    with span("transfer", "to the host", moved=2 * array.nbytes, array=described(array)):
        copy: np.ndarray[Any, Any] = array.get()
        return copy


def exporter(*given: Any) -> Callable[[Array], Any]:
    """How to hand a CuPy array back, without a copy, in the library of the arguments.

    Of several on a GPU the first that is not CuPy's decides.
    """
    libraries = [library_of(x) for x in given if is_device_array(x)]
    root = next((library for library in libraries if library != "cupy"), "cupy")
    if root in ("numba", "numba_cuda"):
        return _to_numba
    xp: Any = sys.modules.get("jax.numpy" if root in ("jax", "jaxlib") else root)
    if root != "cupy" and hasattr(xp, "from_dlpack"):
        return lambda result: xp.from_dlpack(result)
    return lambda result: result  # a library without an import of its own reads CuPy's arrays by their interface


def _to_numba(result: Array) -> Any:
    from cupy.cuda import get_current_stream
    from numba import cuda

    # The order of the streams is kept without waiting where Numba's default stream is the one the result is made on.
    return cuda.as_cuda_array(result, sync=get_current_stream().ptr != 0)


@contextmanager
def on_device(arrays: Sequence[Any], device: Any = None) -> Iterator[None]:
    """The GPU that the arrays live on as the current one; of PyTorch's tensors also PyTorch's current stream.

    Raises `DeviceError` where two arrays live on different GPUs, or one on another than ``device`` names. Without CuPy
    nothing: `as_cupy` will name the array that needs it.
    """
    number = None if device is None else device_number(device)
    cupy = _loaded()
    if isinstance(cupy, str):
        yield
        return
    for x in arrays:
        found = _number_of(x)
        if number is not None and found != number:
            raise DeviceError(f"an array is on GPU {found}, another is on GPU {number}: copy one of them")
        number = found
    tensor = next((x for x in arrays if library_of(x) == "torch"), None)
    with cupy.cuda.Device(number), nullcontext() if tensor is None else _torch_stream(cupy, tensor):
        try:
            yield
        finally:
            lent = [x for x in arrays if library_of(x) in ("jax", "jaxlib")]
            if lent:
                _keep(cupy.cuda.get_current_stream(), cupy.cuda.Event, lent)


_kept: deque[tuple[Any, list[Any]]] = deque()  # arrays, and the event behind the work that reads them
_keeping = Lock()


def _keep(stream: Any, event: Callable[..., Any], arrays: list[Any]) -> None:
    """Let arrays live until the work that was enqueued on them has ended, or a little longer, until the next call.

    JAX gives the memory of an array that nobody holds to its next computation, which waits for no stream but its own.
    """
    if stream.is_capturing():  # a graph has no end to wait for, and a question to an event may end its capture
        return
    with _keeping:
        while _kept and _kept[0][0].done:
            _kept.popleft()
        _kept.append((stream.record(event(disable_timing=True)), arrays))


def at_home(arrays: Sequence[Any]) -> bool:
    """Whether all of them are CuPy arrays of the current GPU, so that `on_device` has nothing to change."""
    if not all(library_of(x) == "cupy" for x in arrays):
        return False
    current = load_cupy().cuda.runtime.getDevice()
    return all(x.data.device_id == current for x in arrays)


def _number_of(x: Any) -> int:
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
    address = sys.modules["torch"].cuda.current_stream(tensor.device).cuda_stream
    return external_stream(cupy, address, tensor.device.index)
