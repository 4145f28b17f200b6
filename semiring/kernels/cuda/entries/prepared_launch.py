"""Prepare kernel launches once: the kernel, the grid and the constant parameters. All kernels are launched this way."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from threading import Lock
from typing import Any

from semiring.arrays.device import load_cupy

_SHARED_BYTES, _CARVEOUT = 8, 9  # CU_FUNC_ATTRIBUTE_{MAX_DYNAMIC,PREFERRED}_SHARED_… of the driver


def load_function(code: bytes, name: str, shared_bytes: int = 0) -> Any:
    """Return a function of a cubin on the current device, with ``shared_bytes`` of dynamic shared memory.

    The function keeps the module loaded.
    """
    cuda = load_cupy().cuda
    module = cuda.function.Module()
    module.load(code)
    function = module.get_function(name)
    if shared_bytes:
        cuda.driver.funcSetAttribute(function.ptr, _SHARED_BYTES, shared_bytes)
        cuda.driver.funcSetAttribute(function.ptr, _CARVEOUT, 100)
    return function


class PreparedLaunch:
    """A function of CuPy on the current device, with its grid and its parameters.

    ``parameters`` are NumPy scalars, or tensor maps of the driver. None stands for an integer of at most 8 bytes, such
    as an address, that each launch passes. A launch costs 5 µs of the host. CuPy's own launch reads all parameters each
    time, and takes 7 to 8 µs.

    ``may_start_early``: the launch may begin as soon as all blocks of its predecessor in the stream have permitted it,
    or ended. The kernel itself waits for its predecessor (griddepcontrol).
    """

    def __init__(
        self,
        function: Any,
        blocks: tuple[int, ...],
        threads: tuple[int, ...],
        parameters: Sequence[Any],
        shared_bytes: int = 0,
        *,
        is_cooperative: bool = False,
        may_start_early: bool = False,
    ) -> None:
        driver = load_cupy().cuda.driver
        count = len(parameters)
        self._values = (ctypes.c_uint64 * count)()
        places = [ctypes.addressof(self._values) + 8 * i for i in range(count)]
        for i, parameter in enumerate(parameters):
            if hasattr(parameter, "getPtr"):
                places[i] = int(parameter.getPtr())
            elif parameter is not None:
                self._values[i] = int.from_bytes(parameter.tobytes(), "little")
        self._places = (ctypes.c_uint64 * count)(*places)
        self._open_slots = [i for i, parameter in enumerate(parameters) if parameter is None]
        self._references = function, parameters  # keeps the module loaded, and the tensor maps at their addresses
        dimensions = (*blocks, 1, 1)[:3], (*threads, 1, 1)[:3]
        start = ctypes.addressof(self._places)
        self._leading_arguments: tuple[Any, ...] = (function.ptr, *dimensions[0], *dimensions[1], shared_bytes)
        self._trailing_arguments = (start,) if is_cooperative else (start, 0)
        self._launch: Any = driver.launchCooperativeKernel if is_cooperative else driver.launchKernel
        if may_start_early:
            self._leading_arguments, self._launch = (), _EarlyLaunch(function.ptr, *dimensions, shared_bytes)
        self._stream = load_cupy().cuda.get_current_stream
        self._lock = Lock()  # other threads must not write parameters until the driver has read them

    def __call__(self, *arguments: int) -> None:
        """Enqueue the launch on the current stream, with the values of the parameters that are None."""
        with self._lock:
            for slot, value in zip(self._open_slots, arguments, strict=True):
                self._values[slot] = value
            self._launch(*self._leading_arguments, self._stream().ptr, *self._trailing_arguments)


class _EarlyLaunch:
    """A launch that may begin before its predecessor in the stream has ended, which CuPy does not support."""

    def __init__(self, function: int, blocks: tuple[int, ...], threads: tuple[int, ...], shared_bytes: int) -> None:
        from cuda.bindings import driver

        attribute = driver.CUlaunchAttribute()
        attribute.id = driver.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION
        attribute.value.programmaticStreamSerializationAllowed = 1
        config = driver.CUlaunchConfig()
        config.gridDimX, config.gridDimY, config.gridDimZ = blocks
        config.blockDimX, config.blockDimY, config.blockDimZ = threads
        config.sharedMemBytes, config.attrs, config.numAttrs = shared_bytes, [attribute], 1
        self._config, self._function, self._launch = config, driver.CUfunction(function), driver.cuLaunchKernelEx
        self._success = driver.CUresult.CUDA_SUCCESS

    def __call__(self, stream: int, parameters: int, extra: int) -> None:
        self._config.hStream = stream
        (error,) = self._launch(self._config, self._function, parameters, extra)
        if error != self._success:
            raise RuntimeError(f"the driver launched no kernel: {error.name}")
