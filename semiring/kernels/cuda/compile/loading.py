"""Kernels loaded on a device, and their launches: by the driver alone, parameters packed into one buffer."""

from __future__ import annotations

import ctypes
import struct
from functools import cache, lru_cache
from typing import Any

import cuda.bindings.driver as driver
import cupy

from semiring.kernels.cuda.compile.cubins import Source, cubin
from semiring.kernels.cuda.product.specification import (
    FOLD_PARAMETERS,
    PARAMETERS,
    SEARCH_PARAMETERS,
    THREADS,
    Fold,
    Product,
)
from semiring.kernels.cuda.product.tiles import Tile

__all__ = ["Kernel", "architecture", "loaded"]

_SUCCESS = driver.CUresult.CUDA_SUCCESS
_HEADER = 6  # words before the parameters: CU_LAUNCH_PARAM_*, and the size they point to


class Kernel:
    """A kernel on the device that was current when it was loaded."""

    def __init__(self, name: str, code: bytes, parameters: struct.Struct, threads: int, shared_bytes: int) -> None:
        self._module = _checked(driver.cuModuleLoadData(code))
        self._function = _checked(driver.cuModuleGetFunction(self._module, name.encode()))
        self._threads, self._shared_bytes = threads, shared_bytes
        if shared_bytes:
            attributes = driver.CUfunction_attribute
            for attribute, value in (
                (attributes.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, shared_bytes),
                (attributes.CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, 100),
            ):
                _checked(driver.cuFuncSetAttribute(self._function, attribute, value))
        self._packed = struct.Struct(f"={_HEADER}q{parameters.format[1:]}")
        self._bytes = parameters.size
        self._buffer = ctypes.c_uint64 * -(-self._packed.size // 8)

    def launch(self, blocks: int, stream: int, *parameters: int) -> None:
        """Enqueue ``blocks`` blocks on a stream. Costs some 5 µs."""
        buffer = self._buffer()  # of this call: other threads launch too
        start = ctypes.addressof(buffer)
        self._packed.pack_into(buffer, 0, 1, start + 8 * _HEADER, 2, start + 40, 0, self._bytes, *parameters)
        (error,) = driver.cuLaunchKernel(
            self._function, blocks, 1, 1, self._threads, 1, 1, self._shared_bytes, stream, 0, start
        )
        if error != _SUCCESS:
            raise RuntimeError(f"the driver could not launch a kernel of {blocks} blocks: {error.name}")


def _checked(answer: tuple[Any, ...]) -> Any:
    error, *values = answer
    if error != _SUCCESS:
        raise RuntimeError(f"the driver could not load a kernel: {error.name}")
    return values[0] if values else None


@lru_cache(maxsize=1024)
def loaded(what: Source, tile: Tile | None, device: int) -> Kernel:
    """The kernel on a device, which is the current one."""
    name, code = cubin(what, tile, architecture(device))
    if isinstance(what, Product):
        assert tile is not None
        return Kernel(name, code, PARAMETERS, tile.threads, tile.shared_bytes(what.words.word_bytes))
    return Kernel(name, code, FOLD_PARAMETERS if isinstance(what, Fold) else SEARCH_PARAMETERS, THREADS, 0)


@cache
def architecture(device: int) -> str:
    """What to compile for: ``"sm_90a"`` and later with the instructions of that very architecture."""
    capability = int(cupy.cuda.Device(device).compute_capability)
    return f"sm_{capability}{'a' if capability >= 90 else ''}"
