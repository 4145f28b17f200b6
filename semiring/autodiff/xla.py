"""Make functions of arrays XLA custom calls, on the host and on NVIDIA GPUs, without a copy between the two.

XLA's foreign function interface (FFI) calls a C function with the addresses of its buffers and, on a GPU, with its
stream. ctypes makes that C function from a Python function, so no compiler is needed. It wraps the buffers as NumPy or
CuPy arrays, calls a function of `semiring.autodiff` on them, and copies the results into XLA's buffers. On a GPU all
work is enqueued on XLA's stream.

JAX may store an XLA program on disk. The program therefore contains the function as text: its module, its name, and its
static arguments in JSON. So a program that another process compiled calls the same function.

The structures are those of ``xla/ffi/api/c_api.h``, version 0.x. XLA requests the version of a handler when it is
registered, and rejects an unknown version. The structures are read up to the fields of version 0.1.

Source: "Foreign function interface (FFI)", documentation of JAX, and the header that ``jax.ffi.include_dir()`` holds.
"""

from __future__ import annotations

import ctypes
import json
import logging
from collections.abc import Callable
from ctypes import POINTER, Structure, c_char_p, c_int, c_int64, c_size_t, c_uint32, c_void_p
from functools import cache
from importlib import import_module
from typing import Any

import numpy as np

from semiring.algebra import Semiring
from semiring.autodiff.rules import key_of, semiring_of
from semiring.namespaces import Array

__all__ = ["CHECK_ON_HOST", "call", "is_available"]


logger = logging.getLogger("semiring")

_TARGET = "semiring.autodiff.call"
_PLATFORMS = ("cpu", "cuda")  # on other platforms a callback computes on the host

#: A value of the static argument ``check``: entries are validated only on the host, where a scan needs no wait.
CHECK_ON_HOST = "check on the host"

#: XLA's numbers for the dtypes.
_DTYPES = {
    **{1: "bool", 2: "int8", 3: "int16", 4: "int32", 5: "int64", 6: "uint8", 7: "uint16", 8: "uint32", 9: "uint64"},
    **{10: "float16", 11: "float32", 12: "float64", 16: "bfloat16"},
}
_METADATA, _EXECUTE, _SCALAR, _STRING = 1, 3, 3, 4  # XLA's numbers: of an extension, a stage, and two attributes
_INTERNAL = 13  # XLA's code for an internal error
_VERSION = (0, 1)


class _Extension(Structure):
    _fields_ = (("struct_size", c_size_t), ("type", c_int), ("next", c_void_p))


class _ApiVersion(Structure):
    _fields_ = (("struct_size", c_size_t), ("extension", c_void_p), ("major", c_int), ("minor", c_int))


class _Metadata(Structure):
    _fields_ = (("struct_size", c_size_t), ("version", _ApiVersion), ("traits", c_uint32))


class _MetadataExtension(Structure):
    _fields_ = (("base", _Extension), ("metadata", POINTER(_Metadata)))


class _Api(Structure):
    _fields_ = (
        *(("struct_size", c_size_t), ("extension", c_void_p), ("version", _ApiVersion), ("internal", c_void_p)),
        *(("error_create", c_void_p), ("error_message", c_void_p), ("error_destroy", c_void_p)),
        *(("handler_register", c_void_p), ("stream_get", c_void_p)),
    )


class _XlaBuffer(Structure):
    _fields_ = (
        *(("struct_size", c_size_t), ("extension", c_void_p), ("dtype", c_int)),
        *(("data", c_void_p), ("rank", c_int64), ("shape", POINTER(c_int64))),
    )


class _BufferList(Structure):
    _fields_ = (
        *(("struct_size", c_size_t), ("extension", c_void_p)),
        *(("size", c_int64), ("types", POINTER(c_int)), ("buffers", POINTER(POINTER(_XlaBuffer)))),
    )


class _Text(Structure):
    _fields_ = (("address", c_void_p), ("length", c_size_t))


class _Attributes(Structure):
    _fields_ = (
        *(("struct_size", c_size_t), ("extension", c_void_p), ("size", c_int64)),
        *(("types", POINTER(c_int)), ("names", POINTER(POINTER(_Text))), ("values", POINTER(c_void_p))),
    )


class _CallFrame(Structure):
    _fields_ = (
        *(("struct_size", c_size_t), ("extension", POINTER(_Extension)), ("api", POINTER(_Api))),
        *(("context", c_void_p), ("stage", c_int)),
        *(("arguments", _BufferList), ("results", _BufferList), ("attributes", _Attributes)),
    )


class _ErrorCreate(Structure):
    _fields_ = (("struct_size", c_size_t), ("extension", c_void_p), ("message", c_char_p), ("code", c_int))


class _StreamGet(Structure):
    _fields_ = (("struct_size", c_size_t), ("extension", c_void_p), ("context", c_void_p), ("stream", c_void_p))


_HANDLER = ctypes.CFUNCTYPE(c_void_p, POINTER(_CallFrame))
_FUNCTION = ctypes.CFUNCTYPE(c_void_p, c_void_p)


def call(function: Callable[..., Any], results: Any, arrays: Any, *static: Any) -> Any:
    """Return ``function(*arrays, *static)`` as an operation of JAX.

    Parameters
    ----------
    function
        A function of a module in `semiring.autodiff`, of NumPy or CuPy arrays.
    results
        The `jax.ShapeDtypeStruct` of the result, or a tuple of them.
    arrays
        A tuple of arrays, or of named tuples of arrays and None. Under `jax.vmap` each array gets a leading dimension.
    static
        Semirings, numbers, texts, None, or `CHECK_ON_HOST`.

    Notes
    -----
    On CPUs and NVIDIA GPUs the function is called through the FFI. On a GPU it runs on XLA's stream, and no array
    travels to the host. On other platforms the arrays travel to the host, where a callback calls it.
    """
    import jax

    text = _encode_call(function, static)
    leaves, structure = jax.tree.flatten(arrays)
    form = _encode_structure(structure)

    def on_platform(*leaves: Any) -> Any:
        foreign = jax.ffi.ffi_call(_TARGET, results, vmap_method="broadcast_all")
        return foreign(*leaves, call=text, form=form)

    def on_host(*leaves: Any) -> Any:
        def run(*leaves: Any) -> Any:
            values = jax.tree.unflatten(structure, [np.asarray(leaf) for leaf in leaves])
            return function(*values, *(True if value == CHECK_ON_HOST else value for value in static))

        return jax.pure_callback(run, results, *leaves, vmap_method="broadcast_all")

    if not is_available():
        return on_host(*leaves)
    branches = dict.fromkeys(_PLATFORMS, on_platform)
    return jax.lax.platform_dependent(*leaves, **branches, default=on_host)


@cache
def is_available() -> bool:
    """Return whether XLA calls the library's functions directly. Otherwise it calls back to the host."""
    import jax

    try:
        for platform in _PLATFORMS:
            address = ctypes.cast(_handlers()[platform], c_void_p).value
            jax.ffi.register_ffi_target(_TARGET, jax.ffi.pycapsule(address), platform=platform.replace("cuda", "CUDA"))
    except Exception as error:  # an XLA with another interface
        logger.warning("XLA does not accept the library's functions, so JAX calls back to the host: %s", error)
        return False
    return True


@cache
def _handlers() -> dict[str, Any]:
    """Return the C function of each platform. They must exist until the process ends, because XLA may call them."""
    return {platform: _HANDLER(lambda frame, platform=platform: _handle(platform, frame)) for platform in _PLATFORMS}


def _handle(platform: str, pointer: Any) -> int | None:
    """Return None, or the address of an error of XLA, because no exception may leave a function that C calls."""
    frame = pointer.contents
    if frame.extension and frame.extension.contents.type == _METADATA:
        metadata = ctypes.cast(frame.extension, POINTER(_MetadataExtension)).contents.metadata.contents
        metadata.version.major, metadata.version.minor = _VERSION
        metadata.traits = 0
        return None
    if frame.stage != _EXECUTE:
        return None
    try:
        _execute(platform, frame)
    except BaseException as error:
        return _create_error(frame, f"{type(error).__name__}: {error}")
    return None


def _execute(platform: str, frame: Any) -> None:
    """Call the function of a call frame on its buffers, and write the results into its buffers."""
    attributes = _read_attributes(frame.attributes)
    function, static = _decode_call(attributes["call"])
    static = tuple((platform == "cpu") if value == CHECK_ON_HOST else value for value in static)
    arguments, results = _buffers_of(frame.arguments), _buffers_of(frame.results)
    if platform == "cpu":
        arrays = _unflatten(attributes["form"], [_host_array(buffer) for buffer in arguments])
        _write(function(*arrays, *static), [_host_array(buffer) for buffer in results])
        return
    from semiring.arrays.device import external_stream, load_cupy

    cupy, stream = load_cupy("JAX arrays on a GPU"), _stream_address(frame)
    device = next((_device_of(cupy, buffer) for buffer in [*arguments, *results] if buffer.data), 0)
    with cupy.cuda.Device(device), external_stream(cupy, stream, device):
        arrays = _unflatten(attributes["form"], [_device_array(cupy, buffer, device) for buffer in arguments])
        _write(function(*arrays, *static), [_device_array(cupy, buffer, device) for buffer in results])


def _write(values: Any, results: list[Array]) -> None:
    values = values if isinstance(values, tuple) else (values,)
    for value, result in zip(values, results, strict=True):
        result[...] = value


# ------------------------------------------------------------------------------------------------- a call as text


def _encode_call(function: Callable[..., Any], static: tuple[Any, ...]) -> str:
    """Return a function of this package and its static arguments as text."""
    values = [{"semiring": key_of(value)} if isinstance(value, Semiring) else value for value in static]
    return json.dumps([function.__module__.removeprefix(f"{__package__}."), function.__name__, values])


@cache
def _decode_call(text: str) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """Return the function and the static arguments of a text of `_encode_call`."""
    module, name, values = json.loads(text)
    static = tuple(semiring_of(value["semiring"]) if isinstance(value, dict) else value for value in values)
    return getattr(import_module(f"{__package__}.{module}"), name), static


def _encode_structure(structure: Any) -> str:
    """Return the structure of the arguments as text, with the number of each array, or None for no array."""
    import jax

    tree = jax.tree.unflatten(structure, range(structure.num_leaves))
    return json.dumps([list(item) if isinstance(item, tuple) else item for item in tree])


def _unflatten(form: str, leaves: list[Array]) -> list[Any]:
    """Return the arguments whose structure `_encode_structure` encoded, with arrays in place of their numbers."""
    from semiring.linalg.sequences import ChainArrays

    def leaf_at(place: Any) -> Any:
        return None if place is None else leaves[place]

    return [ChainArrays(*map(leaf_at, item)) if isinstance(item, list) else leaf_at(item) for item in json.loads(form)]


# ------------------------------------------------------------------------------------------------- XLA's structures


def _buffers_of(buffers: Any) -> list[Any]:
    return [buffers.buffers[place].contents for place in range(buffers.size)]


def _read_attributes(attributes: Any) -> dict[str, str]:
    """Return the attributes of a call, which are texts, by name."""
    attributes_by_name = {}
    for place in range(attributes.size):
        name = _read_text(attributes.names[place].contents)
        attributes_by_name[name] = _read_text(ctypes.cast(attributes.values[place], POINTER(_Text)).contents)
    return attributes_by_name


def _read_text(span: Any) -> str:
    return ctypes.string_at(span.address, span.length).decode()


def _shape_and_dtype(buffer: Any) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """Return the shape and the dtype of a buffer of XLA. Raises `TypeError` for an unknown dtype."""
    name = _DTYPES.get(buffer.dtype)
    if name is None:
        raise TypeError(f"XLA's dtype number {buffer.dtype} has no arrays here")
    dtype = np.dtype(import_module("ml_dtypes").bfloat16 if name == "bfloat16" else name)
    return tuple(buffer.shape[axis] for axis in range(buffer.rank)), dtype


def _host_array(buffer: Any) -> Array:
    """Return a buffer of XLA as a NumPy array of the same memory."""
    shape, dtype = _shape_and_dtype(buffer)
    size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    if not size:
        return np.empty(shape, dtype)
    memory: Any = (ctypes.c_char * size).from_address(buffer.data)
    return np.frombuffer(memory, dtype).reshape(shape)


def _device_array(cupy: Any, buffer: Any, device: int) -> Any:
    """Return a buffer of XLA as a CuPy array of the same memory."""
    shape, dtype = _shape_and_dtype(buffer)
    size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    if not size:
        return cupy.empty(shape, dtype)
    memory = cupy.cuda.UnownedMemory(buffer.data, size, None, device)
    return cupy.ndarray(shape, dtype, cupy.cuda.MemoryPointer(memory, 0))


def _device_of(cupy: Any, buffer: Any) -> int:
    return int(cupy.cuda.runtime.pointerGetAttributes(buffer.data).device)


def _stream_address(frame: Any) -> int:
    """Return the address of the stream on which XLA has enqueued the call."""
    request = _StreamGet(ctypes.sizeof(_StreamGet), None, frame.context, None)
    error = _FUNCTION(frame.api.contents.stream_get)(ctypes.addressof(request))
    if error:
        raise RuntimeError("XLA gave no stream")
    return request.stream or 0


def _create_error(frame: Any, message: str) -> int | None:
    """Return the address of a new error of XLA."""
    request = _ErrorCreate(ctypes.sizeof(_ErrorCreate), None, message.encode(), _INTERNAL)
    address: int | None = _FUNCTION(frame.api.contents.error_create)(ctypes.addressof(request))
    return address
