"""Provide a stand-in for CuPy whose arrays live on the host and, as CuPy's do, may not be read as NumPy arrays.

So what the library does with arrays on a GPU is tested without one: which array goes where, what waits, what is copied.
As with CuPy, only ufuncs of NumPy receive such an array, and no function of the stand-in receives an array of NumPy.
Only `get` and scalars lead back to the host. The kernels are NumPy's. Those of `semiring.arrays.device` and the backend
are played by the functions below. `strict_arrays` has the stand-in for closures.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import operator
import re
import types
from typing import Any

import numpy as np
import passes_on_host
from cuda_on_host import PreparedOnHost

from semiring.arrays import bits
from semiring.kernels.contract import Capabilities

#: The methods of arrays, and the functions of NumPy that CuPy has too.
METHODS, FUNCTIONS = (
    set(re.findall(r"\w+", text))
    for text in (
        "all any argmax argmin astype copy diagonal fill max mean min ravel reshape sum swapaxes transpose view",
        """abs add all any append arange argmax argmin argsort array asarray ascontiguousarray asfortranarray bincount
        broadcast_to cbrt column_stack concatenate copyto count_nonzero cumsum diagonal diff empty empty_like equal exp
        expm1 eye flatnonzero floor fmax fmin full full_like isfinite isinf isnan isneginf isposinf left_shift log
        log1p matmul max maximum may_share_memory min minimum moveaxis multiply negative nonzero ones packbits rint
        searchsorted sort sqrt stack subtract sum take tile transpose tril triu unpackbits where zeros zeros_like""",
    )
)


class Array(np.lib.mixins.NDArrayOperatorsMixin):
    """An array that stands for one on a GPU."""

    __hash__ = None  # type: ignore[assignment]
    wait_count = 0  # how often the host has read from the device

    def __init__(self, inner: np.ndarray) -> None:
        self.inner = inner

    shape = property(lambda self: self.inner.shape)
    dtype = property(lambda self: self.inner.dtype)
    strides = property(lambda self: self.inner.strides)
    size = property(lambda self: self.inner.size)
    ndim = property(lambda self: self.inner.ndim)
    nbytes = property(lambda self: self.inner.nbytes)
    itemsize = property(lambda self: self.inner.itemsize)
    flags = property(lambda self: self.inner.flags)
    T = property(lambda self: Array(self.inner.T))
    data = property(
        lambda self: types.SimpleNamespace(
            ptr=self.inner.ctypes.data,
            device_id=0,
            memset_async=self.fill_bytes,
            copy_from_host_async=lambda host, size, stream: stream.move(self.inner, host, size, True),
            copy_to_host_async=lambda host, size, stream: stream.move(self.inner, host, size, False),
        )
    )
    device = property(lambda self: types.SimpleNamespace(id=0))

    def fill_bytes(self, byte: int, count: int) -> None:
        self.inner.reshape(-1).view(np.uint8)[:count] = byte

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise TypeError("Implicit conversion to a NumPy array is not allowed")

    def __dlpack__(self, **_: Any) -> Any:
        raise BufferError("no other library reads these")

    def __dlpack_device__(self) -> tuple[int, int]:
        return 2, 0

    def get(self) -> np.ndarray:
        Array.wait_count += 1
        return self.inner.copy()

    def item(self) -> Any:
        Array.wait_count += 1
        return self.inner.item()

    def __bool__(self) -> bool:
        Array.wait_count += 1
        return bool(self.inner)

    def __int__(self) -> int:
        Array.wait_count += 1
        return int(self.inner)

    def __float__(self) -> float:
        Array.wait_count += 1
        return float(self.inner)

    def __index__(self) -> int:
        return operator.index(self.item())

    def tolist(self) -> Any:
        return self.get().tolist()

    def __len__(self) -> int:
        return len(self.inner)

    def __iter__(self) -> Any:
        return (Array(np.asarray(row)) for row in self.inner)

    def __getitem__(self, key: Any) -> Array:
        return wrap(self.inner[unwrap(key)])

    def __setitem__(self, key: Any, value: Any) -> None:
        self.inner[unwrap(key)] = unwrap(value)

    def __getattr__(self, name: str) -> Any:
        if name not in METHODS:
            raise AttributeError(f"'ndarray' object has no attribute {name!r}")
        return call_on_host(getattr(self.inner, name))

    def __array_ufunc__(self, ufunc: Any, method: str, *arguments: Any, out: Any = None, **options: Any) -> Any:
        options |= {} if out is None else {"out": tuple(unwrap(x) for x in out)}
        result = getattr(ufunc, method)(*(unwrap(x) for x in arguments), **options)
        return out[0] if out is not None else wrap(result)

    def __array_function__(self, function: Any, _: Any, arguments: Any, options: Any) -> Any:
        raise TypeError(f"{function.__name__} of NumPy was called on an array of the device")


Array.__module__, Array.__name__ = "cupy", "ndarray"


def wrap(result: Any) -> Any:
    """Return results of NumPy as arrays of the device, and what is no array as it is."""
    if isinstance(result, tuple):
        return tuple(map(wrap, result))
    return Array(np.asarray(result)) if isinstance(result, np.ndarray | np.generic) else result


def unwrap(x: Any) -> Any:
    """Return what NumPy reads in place of arrays of the device. `TypeError` for an array of the host."""
    if isinstance(x, Array):
        return x.inner
    if isinstance(x, list | tuple):
        return type(x)(map(unwrap, x))
    if isinstance(x, np.ndarray) and x.ndim:
        raise TypeError("Unsupported type <class 'numpy.ndarray'>: it is in the memory of the host")
    return x


def call_on_host(function: Any) -> Any:
    """Return a function of NumPy on arrays of the device."""

    def call(*arguments: Any, **options: Any) -> Any:
        if set(options) & {"where", "initial"}:
            raise TypeError(f"{function}: CuPy has no where= and initial=")
        return wrap(function(*map(unwrap, arguments), **{name: unwrap(value) for name, value in options.items()}))

    return call


class Stream:
    """A stream whose copies between host and device happen when a caller waits for them, and not before."""

    ptr = 0

    def __init__(self, **_: Any) -> None:
        self.waiting: list[Any] = []
        self.done = 0

    def move(self, values: np.ndarray, host: int, size: int, to_device: bool) -> None:
        assert values.flags.c_contiguous
        assert size == values.nbytes
        memory = in_memory(host, size, np.uint8)
        pair = (values, memory.view(values.dtype).reshape(values.shape))
        self.waiting.append(pair if to_device else pair[::-1])

    def record(self, event: Event) -> Event:
        event.stream, event.place = self, self.done + len(self.waiting)
        return event

    def synchronize(self) -> None:
        self.run(self.done + len(self.waiting))

    def run(self, place: int) -> None:
        while self.done < place:
            target, source = self.waiting.pop(0)
            target[...] = source
            self.done += 1


class Event:
    """A place in the work of a stream."""

    stream: Stream | None = None
    place = 0

    def __init__(self, **_: Any) -> None: ...

    def record(self, stream: Stream) -> None:
        stream.record(self)

    def synchronize(self) -> None:
        if self.stream is not None:
            self.stream.run(self.place)


class MemoryPool:
    """A pool that has no memory of its own: what is taken from it is NumPy's."""

    malloc = None

    def set_limit(self, size: int) -> None:
        self.limit = size

    def free_all_blocks(self) -> None: ...


def allocate_pinned(size: int) -> np.ndarray:
    return np.empty(size, np.uint8)


class Module(types.ModuleType):
    """``cupy``: the functions of NumPy, on arrays of the device."""

    ndarray = Array

    def __init__(self) -> None:
        super().__init__("cupy")
        stream = Stream()
        self.cuda = types.SimpleNamespace(
            runtime=types.SimpleNamespace(
                getDeviceCount=lambda: 1,
                getDevice=lambda: 0,
                memGetInfo=lambda: (1 << 30, 1 << 30),
                CUDARuntimeError=RuntimeError,
            ),
            get_current_stream=lambda: stream,
            Device=contextlib.nullcontext,
            Stream=Stream,
            Event=Event,
            MemoryPool=MemoryPool,
            using_allocator=contextlib.nullcontext,
            PinnedMemory=allocate_pinned,
            PinnedMemoryPointer=lambda memory, offset: memoryview(memory)[offset:],
        )
        self.get_default_memory_pool = MemoryPool
        strided = np.lib.stride_tricks.as_strided
        self.lib = types.SimpleNamespace(
            stride_tricks=types.SimpleNamespace(as_strided=lambda x, *rest: wrap(strided(x.inner, *rest)))
        )

    @staticmethod
    def asarray(x: Any, dtype: Any = None, order: str | None = None) -> Array:
        return x if isinstance(x, Array) else Array(np.array(x, dtype, order=order or "K"))

    array = asarray

    @staticmethod
    def ascontiguousarray(x: Array) -> Array:
        return Array(np.ascontiguousarray(x.inner))

    @staticmethod
    def from_dlpack(x: Any) -> Array:
        return Array(x.inner)

    def __getattr__(self, name: str) -> Any:
        found = getattr(np, name)
        if isinstance(found, type) or not callable(found):
            return found
        if name not in FUNCTIONS:
            raise AttributeError(f"module 'cupy' has no attribute {name!r}")
        return call_on_host(functools.partial(found, kind="stable") if name == "argsort" else found)

    class RawModule:
        """The module of the kernels of scan.cu."""

        def __init__(self, **_: Any) -> None: ...

        def get_function(self, name: str) -> Any:
            _, layout, bits = name.split("_")
            return lambda grid, block, arguments: look(layout, int(bits), grid, block, *arguments)


def look(layout: str, bits: int, grid: Any, block: Any, address: int, *arguments: int) -> None:
    """Scan the entries in NumPy as the kernels of scan.cu do."""
    word = np.dtype(f"u{bits // 8}")
    sizes, rule, result = arguments[:-2], in_memory(arguments[-2], 8, np.uint64), in_memory(arguments[-1], 3, np.uint64)
    infinity, low, high, zero, one, absent, kind, has_absent = rule.tolist()
    if layout == "dense":
        n1, n2, s1 = sizes
        n0, s0, s2 = 1, 0, 1
        assert address % 16 == s1 * word.itemsize % 16 == 0
    else:
        n1, n2, size, s0, s1, s2 = sizes
        n0, n1 = (size // n2, 1) if n1 == 0 else (size // (n1 * n2), n1)
    offsets = (np.arange(n0)[:, None, None] * s0 + np.arange(n1)[:, None] * s1 + np.arange(n2) * s2).ravel()
    elements = in_memory(address, int(offsets.max()) + 1, word)[offsets]
    sign, ones = 1 << bits - 1, (1 << bits) - 1
    flags, numbers = 0, []
    for element in elements.tolist():
        if kind == 2 and element & ~sign > int(infinity):
            flags |= 1
            continue
        key = element ^ ones if kind == 2 and element & sign else element ^ sign if kind else element
        flags |= 4 if kind and element & sign else 0
        if has_absent and key == absent:
            flags |= 2
            continue
        value = sign if kind == 2 and key == sign - 1 else key
        flags |= 8 if not low <= value <= high and value not in (zero, one) else 0
        numbers.append(key)
    if numbers:
        flags |= 16
        result[1:] = ones ^ min(numbers), max(numbers)
    result[0] = flags


def in_memory(address: int, count: int, dtype: Any) -> np.ndarray:
    memory = (ctypes.c_uint8 * (count * np.dtype(dtype).itemsize)).from_address(address)
    return np.frombuffer(memory, dtype)


FOLDS = {
    **{"min": np.fmin, "max": np.fmax, "add": np.add},
    **{"or": np.bitwise_or, "and": np.bitwise_and, "xor": np.bitwise_xor},
}


def reduction(op: str, dtype: Any) -> Any:
    return lambda array, axis: wrap(FOLDS[op].reduce(array.inner, axis=axis, dtype=dtype))


def select(target: Array, absent: Array, numbers: Array, extreme: Any) -> None:
    target.inner[...] = np.where(absent.inner, extreme, numbers.inner)


def pack(truths: Array) -> Array:
    return Array(bits.pack(truths.inner).words)


def unpack(words: Array, columns: int) -> Array:
    return Array(bits.BitMatrix(np.ascontiguousarray(words.inner), (words.shape[0], columns)).unpack())


def count(words: Array) -> int:
    return int(np.bitwise_count(words.inner).sum())


class Backend:
    """The kernel contract on such arrays, by a backend of the host, which counts its calls."""

    name, stacks, capabilities = "fake", True, Capabilities()

    def __init__(self, host: Any) -> None:
        self.host, self.supports, self.calls = host, host.supports, 0

    def __getattr__(self, name: str) -> Any:
        method = getattr(self.host, name)

        def call(plan: Any, *arguments: Any) -> None:
            self.calls += 1
            assert all(isinstance(x, Array | int) for x in arguments)
            values = [unwrap(x) for x in arguments]
            if values[0].ndim == 2:
                method(plan, *values)
                return
            for matrices in zip(*values, strict=True):
                method(plan, *matrices)

        return call


def install(monkeypatch: Any) -> tuple[Module, Backend]:
    """Install the module as ``cupy`` for one test, and return it and the backend that computes on its arrays."""
    import sys

    import semiring.arrays.device as memory
    import semiring.kernels as registry
    import semiring.kernels.cuda.closing.modules as modules
    import semiring.kernels.cuda.entries.entry_passes as kernels
    import semiring.kernels.cuda.entries.entry_scan as device_look
    import semiring.kernels.cuda.entries.packing as device_bits
    import semiring.linalg.dispatch as dispatch

    module, backend = Module(), Backend(registry.get_backend("reference"))
    monkeypatch.setitem(sys.modules, "cupy", module)
    monkeypatch.setattr(kernels, "reduction", reduction)
    monkeypatch.setattr(kernels, "select", select)
    passes_on_host.install(monkeypatch, unwrap)
    monkeypatch.setattr(modules, "apply_entrywise", lambda *_: None)
    for function in (pack, unpack, count):
        monkeypatch.setattr(device_bits, function.__name__, function)
    monkeypatch.setattr(memory, "_probe_cupy", lambda: module)
    monkeypatch.setattr(device_look, "_kernel", lambda name, device: module.RawModule().get_function(name))
    monkeypatch.setattr(device_look, "_rule", device_look._rule.__wrapped__)
    monkeypatch.setattr(device_look, "_prepare_launch", device_look._prepare_launch.__wrapped__)
    monkeypatch.setattr(device_look, "PreparedLaunch", PreparedOnHost)
    monkeypatch.setattr(dispatch, "_device_engine", dispatch._device_engine.__wrapped__)
    monkeypatch.setattr(dispatch, "device_backend", lambda *_: backend)

    on_host = registry._backend
    monkeypatch.setattr(registry, "_backend", lambda *kind: backend if kind[-1] else on_host(*kind))
    monkeypatch.setattr(Array, "wait_count", 0)
    return module, backend
