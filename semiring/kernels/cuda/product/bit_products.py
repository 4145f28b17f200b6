"""Products of packed truth values by the 1-bit tensor cores of Hopper: ⊕ = or, xor; ⊗ = and.

They multiply 256 ands into a sum by one instruction, 7.8 P bit pairs/s on an H200, where one LOP3 a word of 32 reaches
0.53. Both operands must lie along k, and matrices are stored along rows: so B is transposed, 4096 rows at a time, into
a panel, at the speed of memory. Workspace: one panel of 512 bytes a column of C, rounded up to a power of two; and a
copy of as much of A where its rows do not begin at multiples of 16 bytes, which the hardware that loads them asks for.

The kernel is `bit_product.cu`, in CUDA C++ and not in the CUTLASS DSL, which reaches the instruction by inline PTX only
and has no name for the swizzled operands of single bits. Sums are exact, so the bits are those of any other way.
"""

from __future__ import annotations

import ctypes
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, TypeAlias

import cuda.bindings.driver as driver
import cupy

from semiring.algebra.expressions import Expression
from semiring.arrays.device.elements import copy
from semiring.kernels.contract import Plan
from semiring.kernels.cuda.closing.modules import compile_for, multiprocessors
from semiring.kernels.cuda.compile.loading import architecture
from semiring.kernels.cuda.product.calls import Call
from semiring.kernels.cuda.product.launches import enter
from semiring.logs import KEPT, Compilation

__all__ = [
    "DEPTH",
    "TARGET",
    "defines",
    "is_reachability",
    "multiply_add",
    "product_source",
    "route",
    "shared_bytes",
    "takes",
    "unit_for",
]

_X, _Y = Expression("var", (), "x"), Expression("var", (), "y")
_AND, _OR, _XOR = (Expression(op, (_X, _Y)) for op in ("and", "or", "xor"))
TARGET = "sm_90a"  # what has the instruction
DEPTH = 4096  # bits of k at a time: beyond them a sum takes more shared memory than there is
#: Bit pairs of a product from which on this way is the faster one.
_PAIRS = 1 << 34
_SLABS = {1: (2, 16), 2: (2, 6), 4: (1, 3)}  # of 1024 bits of k: panels in shared memory, and tiles of A
_LONGEST = 1 << 40  # bytes from row to row that a tensor map takes


def takes(call: Call, m: int, words: int, k: int, target: str) -> bool:
    """Whether a product C (m, words) of k steps is for the tensor cores of the target."""
    if target != TARGET or not call.words.bits or call.record or call.mul != _AND or call.add not in (_OR, _XOR):
        return False
    return m * 32 * words * k >= _PAIRS


def route(call: Call, C: Any, A: Any, B: Any) -> Any:
    """The product as a function of plan, C, A and B, for operands that lie as these; None where it goes another way."""
    m, words, k = C.shape[-2], C.shape[-1], B.shape[-2]
    device = C.data.device_id
    if not takes(call, m, words, k, architecture(device)):
        return None
    if any(X.strides[-1] != X.itemsize or X.data.ptr % 4 or any(stride % 4 for stride in X.strides) for X in (A, B, C)):
        return None
    return partial(_multiply, call.add == _XOR, call.accumulate)


def is_reachability(call: Call) -> bool:
    """Whether a call on packed bits is the product of relations: or and and."""
    return call.words.bits and (call.add, call.mul) == (_OR, _AND)


def multiply_add(plan: Plan, C: Any, A: Any, B: Any) -> None:
    """C ← C or A B for a plan of or and and, whatever the sizes. C may be A or B, whose bits are then read or not yet."""
    _multiply(False, True, plan, C, A, B)


def _multiply(parity: bool, accumulate: bool, plan: Plan, C: Any, A: Any, B: Any) -> None:
    """C ← A B, or C ⊕ A B; matrices of words, or stacks of them. Enqueued on the current stream."""
    enter(C.data.device_id)
    if C.ndim == 3:
        for c, a, b in zip(C, A, B, strict=True):
            _multiply(parity, accumulate, plan, c, a, b)
        return
    words, k = C.shape[1], B.shape[0]
    columns = -(-words // 16)  # of clusters: 512 bits each
    panel = _memory(columns * 512 * (128 * _slabs(min(k, DEPTH))))
    for start in range(0, k, DEPTH):
        stop = min(k, start + DEPTH)
        slabs = _slabs(stop - start)
        _transpose(panel.ptr, 128 * slabs, B[start:stop], columns, slabs)
        a, kept = _along(A[:, start // 32 : -(-stop // 32)])
        kind = slabs, parity, accumulate or start > 0
        _launch(kind, C, a, _panel_map(panel.ptr, 128 * slabs, columns), columns)
        del kept


def _slabs(depth: int) -> int:
    """How many times 1024 bits of k the kernel takes at once."""
    return next(slabs for slabs in _SLABS if depth <= 1024 * slabs)


def _memory(size: int) -> Any:
    """Memory of the stream: of few sizes, since an allocator keeps all that it had."""
    return cupy.cuda.alloc(1 << (size - 1).bit_length())


# ------------------------------------------------------------------------------------------------- operands


def _along(A: Any) -> tuple[Any, Any]:
    """The tensor map of A (m, words), and what must live as long. Its rows begin at multiples of 16 bytes."""
    m, words = A.shape
    width, kept = -(-words // 4) * 4, None
    if A.data.ptr % 16 or (m > 1 and (A.strides[0] % 16 or not 0 < A.strides[0] < _LONGEST)):
        kept = _memory(m * 4 * width)
        aligned = cupy.ndarray((m, width), A.dtype, kept)[:, :words]
        copy(A, aligned)
        A = aligned
    stride = A.strides[0] if m > 1 else 4 * width
    return _map(A.data.ptr, (4 * words, m), (stride,), (128, 32)), kept


def _panel_map(address: int, row: int, columns: int) -> Any:
    """The tensor map of the panel, rows of so many bytes, which permutes them: see `load_panel` in bit_product.cu."""
    return _map(address, (row, 2, 4, 32, 2 * columns), (row, 64 * row, 2 * row, 256 * row), (128, 2, 4, 32, 1))


@lru_cache(maxsize=4096)
def _map(address: int, sizes: tuple[int, ...], strides: tuple[int, ...], box: tuple[int, ...]) -> Any:
    """A tensor map of bytes, swizzled by 128 bytes; what lies beyond the sizes is read as zeros."""
    error, found = driver.cuTensorMapEncodeTiled(
        driver.CUtensorMapDataType.CU_TENSOR_MAP_DATA_TYPE_UINT8,
        len(sizes),
        address,
        [driver.cuuint64_t(size) for size in sizes],
        [driver.cuuint64_t(stride) for stride in strides],
        [driver.cuuint32_t(size) for size in box],
        [driver.cuuint32_t(1)] * len(sizes),
        driver.CUtensorMapInterleave.CU_TENSOR_MAP_INTERLEAVE_NONE,
        driver.CUtensorMapSwizzle.CU_TENSOR_MAP_SWIZZLE_128B,
        driver.CUtensorMapL2promotion.CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
        driver.CUtensorMapFloatOOBfill.CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
    )
    if error != driver.CUresult.CUDA_SUCCESS:
        raise RuntimeError(f"the driver made no tensor map of {sizes} with strides {strides}: {error.name}")
    return found


# ------------------------------------------------------------------------------------------------- kernels

_TRANSPOSE_SHARED = 16 * 1026 * 4  # bytes: as in bit_transpose.cu


def shared_bytes(slabs: int) -> int:
    """Of a block of the product: panels, tiles, and what aligns and guards them."""
    panels, stages = _SLABS[slabs]
    return panels * slabs * 32768 + stages * slabs * 8192 + 1024 + 512


_Kind: TypeAlias = tuple[int, bool, bool]  # slabs of 1024 bits, xor, and whether C is read


@lru_cache(maxsize=1)
def product_source() -> str:
    """The text of the product."""
    text = Path(__file__).with_name("bit_product.cu").read_text("utf-8")
    return text.replace("{ACCUMULATORS}", "{" + ", ".join(f"%{i}" for i in range(128)) + "}")


@lru_cache(maxsize=64)
def _product(kind: _Kind, device: int) -> Any:
    return _loaded("bit_product", product_source(), defines(*kind), shared_bytes(kind[0]), device)


def defines(slabs: int, parity: bool, reads: bool) -> tuple[str, ...]:
    """Macros for the compiler."""
    return f"-DSLABS={slabs}", f"-DPARITY={parity:d}", f"-DREADS={reads:d}"


@lru_cache(maxsize=8)
def _transposing(device: int) -> Any:
    text = Path(__file__).with_name("bit_transpose.cu").read_text("utf-8")
    return _loaded("bit_transpose", text, (), _TRANSPOSE_SHARED, device)


def _loaded(name: str, text: str, defines: tuple[str, ...], shared: int, device: int) -> int:
    """A kernel on the device, which is the current one. It compiles in 0.3 s."""
    under_way = Compilation(name.replace("_", " "), "this GPU")
    code, _ = compile_for(architecture(device), text, ("--std=c++17", *defines))
    function = _checked(driver.cuModuleGetFunction(_checked(driver.cuModuleLoadData(code)), name.encode()))
    attribute = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
    _checked(driver.cuFuncSetAttribute(function, attribute, shared))
    under_way.done(KEPT)
    return int(function)


def _checked(answer: tuple[Any, ...]) -> Any:
    error, *values = answer
    if error != driver.CUresult.CUDA_SUCCESS:
        raise RuntimeError(f"the driver could not load or launch a kernel of packed bits: {error.name}")
    return values[0] if values else None


_P, _L, _I = ctypes.c_void_p, ctypes.c_longlong, ctypes.c_int


def _transpose(to: int, row: int, B: Any, columns: int, slabs: int) -> None:
    """The panel, rows of so many bytes, of the words B (k, words); 0 for what B has not."""
    k, words = B.shape
    parameters = _P(to), _L(row // 4), _P(B.data.ptr), _L(B.strides[0] // 4), _I(k), _I(32 * words)
    kernel = _transposing(B.data.device_id)
    _enqueue(kernel, (columns, slabs), 512, _TRANSPOSE_SHARED, [*map(ctypes.addressof, parameters)])


def _launch(kind: _Kind, C: Any, a: Any, b: Any, columns: int) -> None:
    m, words = C.shape
    pairs = -(-m // 128)
    unit = unit_for(kind[0], pairs, columns, multiprocessors())
    blocks = min(2 * -(-pairs // unit) * columns, multiprocessors() & ~1)
    parameters = _P(C.data.ptr), _L(C.strides[0] // 4), _I(m), _I(words), _I(pairs), _I(unit)
    addresses = [a.getPtr(), b.getPtr(), *map(ctypes.addressof, parameters)]
    _enqueue(_product(kind, C.data.device_id), (blocks, 1), 384, shared_bytes(kind[0]), addresses)


def unit_for(slabs: int, pairs: int, columns: int, multiprocessors: int) -> int:
    """How many pairs of tiles of 64 rows a block takes at a time, for the same columns: more read the panel less often,
    fewer keep all multiprocessors busy.
    """
    unit = 64 if slabs == 4 else 32
    if pairs >= 4096:
        unit *= 4
    while unit > 1 and 20 * -(-pairs // unit) * columns < 9 * multiprocessors:
        unit //= 2
    return unit


def _enqueue(kernel: int, grid: tuple[int, int], threads: int, shared: int, parameters: list[int]) -> None:
    """A launch on the current stream, of parameters at these addresses, which are read before this returns."""
    addresses = (_P * len(parameters))(*parameters)
    stream = cupy.cuda.get_current_stream().ptr
    cupy.cuda.driver.launchKernel(kernel, *grid, 1, threads, 1, 1, shared, stream, ctypes.addressof(addresses), 0)
