"""Provide a backend whose arrays live on a GPU behind arrays of the host, so that one suite serves every backend."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from semiring.kernels.contract import Capabilities


class OnDevice:
    """A backend that moves the memory of every array to the device, calls another on views, and moves it back.

    Arrays that share memory here share it there. What a kernel writes outside of its result is seen here too.
    """

    capabilities = Capabilities()  # the arrays are on the host between two calls

    def __init__(self, backend: Any) -> None:
        self.backend, self.name, self.supports = backend, backend.name, backend.supports

    def __getattr__(self, name: str) -> Any:
        method = getattr(self.backend, name)

        def call(plan: Any, *arguments: Any) -> None:
            memory: dict[int, tuple[Any, Any]] = {}
            plan.status.word = status_word()
            method(plan, *[move_to_device(x, memory) if isinstance(x, np.ndarray) else x for x in arguments])
            for host, device in memory.values():
                host[...] = device.get()
            plan.status.read()

        return call


def status_word() -> Any:
    """Return the word to which kernels of the device write a pivot without a star."""
    import cupy

    return cupy.full(1, -1, np.int32)


def move_to_device(array: np.ndarray, memory: dict[int, tuple[Any, Any]]) -> Any:
    import cupy

    if not array.size:
        return cupy.empty(array.shape, array.dtype)
    owner = array
    while isinstance(owner.base, np.ndarray):
        owner = owner.base
    low, high = np.lib.array_utils.byte_bounds(owner)
    if low not in memory:
        host = np.ctypeslib.as_array((ctypes.c_uint8 * (high - low)).from_address(low))
        memory[low] = host, cupy.asarray(host)
    pointer = memory[low][1].data + (array.ctypes.data - low)
    return cupy.ndarray(array.shape, array.dtype, memptr=pointer, strides=array.strides)


def assert_same(result: Any, expected: np.ndarray) -> None:
    """Check for an array of CuPy with the dtype and the entries of an array of the host."""
    assert type(result).__module__.startswith("cupy")
    assert result.dtype == expected.dtype
    np.testing.assert_array_equal(result.get(), expected)
