"""Compile kernels: CuPy's NVRTC modules at run time, and machine code for a named architecture without a GPU.

⊕ and ⊗ of arrays, entry by entry, are memory-bound kernels that read their operands once.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from semiring.algebra import Semiring
from semiring.algebra.expressions import Expression
from semiring.errors import MissingExtraError
from semiring.kernels.cuda.closing.kernel_text import ELEMENTS, Arithmetic, source
from semiring.logs import CACHED_SECONDS, Compilation

#: By dtype: the type of an element for CuPy, and the C++ expressions that convert it to the type of `arithmetic.cuh`
#: and back. Other dtypes need no conversion.
_VIEWS = {"float16": ("uint16", "half_t{{{}}}", "{}.bits"), "bool": ("bool", "(byte_t){}", "{}")}


def compile_kernel(
    file: str,
    name: str,
    arithmetic: Arithmetic,
    defines: tuple[str, ...] = (),
    shared_bytes: int = 0,
    *,
    is_cooperative: bool = False,
    purpose: str = "closure",
) -> Any:
    """Return the function ``name`` of ``file`` as a CuPy kernel for the current device.

    It may use up to ``shared_bytes`` of dynamic shared memory. It is compiled on first use, in some tenths of a second,
    and CuPy caches it on disk. If ``is_cooperative``, its launches fail unless all blocks run at the same time. The log
    names its ``purpose``.
    """
    return _kernel(file, name, arithmetic, defines, shared_bytes, is_cooperative, purpose, current_device())


@lru_cache(maxsize=1024)
def _kernel(
    file: str,
    name: str,
    arithmetic: Arithmetic,
    defines: tuple[str, ...],
    shared_bytes: int,
    is_cooperative: bool,
    purpose: str,
    device: int,  # the current device, a part of the cache key: the limit of shared memory is set for one device
) -> Any:
    under_way = Compilation(f"{arithmetic.dtype} {purpose}", "this GPU")
    function = _module(file, arithmetic, defines, is_cooperative).get_function(name)
    under_way.finish(CACHED_SECONDS)
    if shared_bytes > 48 * 1024:  # all values of shared_bytes share the function, so its limit is only raised
        function.max_dynamic_shared_size_bytes = max(shared_bytes, function.max_dynamic_shared_size_bytes)
    return function


@lru_cache(maxsize=512)
def _module(file: str, arithmetic: Arithmetic, defines: tuple[str, ...], is_cooperative: bool) -> Any:
    import cupy

    text = source(file, arithmetic, defines)
    return cupy.RawModule(
        code=text, options=arithmetic.options, backend="nvrtc", enable_cooperative_groups=is_cooperative
    )


def resident_blocks(function: Any, threads: int, shared_bytes: int) -> int:
    """Return how many blocks of a kernel the current device runs at once."""
    import cupy

    key = cupy.cuda.runtime.getDevice(), function.kernel.ptr, threads, shared_bytes
    if key not in _resident_blocks:
        one = cupy.cuda.driver.occupancyMaxActiveBlocksPerMultiprocessor(function.kernel.ptr, threads, shared_bytes)
        _resident_blocks[key] = int(one) * multiprocessors()
    return _resident_blocks[key]


_resident_blocks: dict[tuple[int, int, int, int], int] = {}


def current_device() -> int:
    """Return the number of the current device."""
    import cupy

    return int(cupy.cuda.runtime.getDevice())


def multiprocessors() -> int:
    """Return the number of multiprocessors of the current device."""
    return _multiprocessors(current_device())


@lru_cache
def _multiprocessors(device: int) -> int:
    import cupy

    return int(cupy.cuda.Device(device).attributes["MultiProcessorCount"])


def max_shared_memory() -> int:
    """Return the most bytes of shared memory that a block may use on the current device."""
    return _max_shared_memory(current_device())


@lru_cache
def _max_shared_memory(device: int) -> int:
    from cupy.cuda import runtime

    return int(runtime.deviceGetAttribute(runtime.cudaDevAttrMaxSharedMemoryPerBlockOptin, device))


def compile_for(architecture: str, text: str, options: tuple[str, ...]) -> tuple[bytes, str]:
    """Return the machine code (cubin) of a source for an architecture such as ``"sm_90a"``, and the compiler's log.

    No GPU is needed. Raises `MissingExtraError` without cuda-bindings and NVRTC, and `ValueError` with the log where
    the source does not compile.
    """
    try:
        from cuda.bindings import nvrtc
    except ImportError as error:
        raise MissingExtraError("cuda-bindings", "cuda", "compiling a CUDA kernel") from error
    _, program = nvrtc.nvrtcCreateProgram(text.encode(), b"kernel.cu", 0, [], [])
    flags = [f"--gpu-architecture={architecture}".encode(), b"--ptxas-options=-v", *(o.encode() for o in options)]
    (code,) = nvrtc.nvrtcCompileProgram(program, len(flags), flags)
    _, size = nvrtc.nvrtcGetProgramLogSize(program)
    log = bytearray(size)  # not bytes: NVRTC writes into the buffer, and Python shares all bytes objects of length 1
    nvrtc.nvrtcGetProgramLog(program, log)
    message = log.rstrip(b"\0").decode()
    if code != nvrtc.nvrtcResult.NVRTC_SUCCESS:
        raise ValueError(message)
    _, size = nvrtc.nvrtcGetCUBINSize(program)
    cubin = bytearray(size)
    nvrtc.nvrtcGetCUBIN(program, cubin)
    return bytes(cubin), message


def apply_entrywise(semiring: Semiring, operation: str, x: Any, y: Any) -> Any | None:
    """Compute x ⊕ y (``"add"``) or x ⊗ y (``"mul"``) of arrays and NumPy scalars of one dtype, which broadcast.

    The function enqueues one kernel on the current stream. It returns None for a dtype without a C++ type (bfloat16).
    """
    dtype = x.dtype
    if dtype.name not in ELEMENTS:
        return None
    word = np.dtype(_VIEWS.get(dtype.name, (dtype.name,))[0])
    return _entrywise_kernel(semiring, operation, dtype)(x.view(word), y.view(word)).view(dtype)


def entrywise_source(semiring: Semiring, operation: str, dtype: np.dtype[Any]) -> tuple[str, str]:
    """Return the preamble of the kernel, and its statement."""
    X, Y = Expression("var", (), "x"), Expression("var", (), "y")
    add, mul, zero = semiring.add.expression, semiring.mul.expression, semiring.zero
    for operand in (Y, X) if semiring.annihilates else ():  # 0̄ ⊗ x = 0̄, whatever ⊗ computes
        mul = Expression("where", (Expression("eq", (operand, zero)), zero, mul))
    arithmetic = Arithmetic(dtype.name, add, mul, semiring.zero_for(dtype), semiring.one_for(dtype))
    _, read, write = _VIEWS.get(dtype.name, ("", "{}", "{}"))
    called = f"{'plus' if operation == 'add' else 'times'}({read.format('x')}, {read.format('y')})"
    return arithmetic.header, f"z = {write.format(called)}"


@lru_cache(maxsize=512)
def _entrywise_kernel(semiring: Semiring, operation: str, dtype: np.dtype[Any]) -> Any:
    import cupy

    header, statement = entrywise_source(semiring, operation, dtype)
    word = _VIEWS.get(dtype.name, (dtype.name,))[0]
    return cupy.ElementwiseKernel(
        f"{word} x, {word} y",
        f"{word} z",
        statement,
        f"semiring_{operation}_{dtype.name}",
        preamble=header,
        options=("--std=c++17", "--fmad=false"),
    )
