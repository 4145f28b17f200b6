"""Multiply packed truth values by the 1-bit tensor cores of Hopper: ⊕ is or or xor, and ⊗ is and.

One instruction adds 256 ands to a sum. On an H200 this reaches 7.8 P bit pairs/s, and one LOP3 for each word of 32 bits
reaches 0.53. Both operands must be contiguous along k, but matrices are stored along rows. So B is transposed into a
panel at 2.7 to 3.5 TB/s, 4096 rows at a time, or more rows if they are short.

Workspace: one panel of 512 bytes a column of C, or of 32 MiB if that is more, rounded up to a power of two. The
hardware loads rows that begin at multiples of 16 bytes. If the rows of A do not, the workspace has a copy of as much
of A.

A product begins before the transpose ends, or before the product over the previous 4096 rows ends. It waits for their
end only where it needs the data. At n = 4096 a product takes 20.9 µs with this overlap and 23.6 µs without.

The kernel is `bit_product.cu`, in CUDA C++. The CUTLASS DSL reaches the instruction by inline PTX only, and has no name
for the swizzled operands of single bits. Sums are exact, so results are bitwise identical to those of other kernels.
"""

from __future__ import annotations

from functools import lru_cache, partial
from typing import Any, TypeAlias

import cuda.bindings.driver as driver
import cupy
import numpy as np

from semiring.kernels.contract import KernelPlan
from semiring.kernels.cuda.closing.modules import compile_for, current_device, multiprocessors
from semiring.kernels.cuda.entries.entry_passes import copy
from semiring.kernels.cuda.entries.prepared_launch import PreparedLaunch, load_function
from semiring.kernels.cuda.product.bit_kernels import (
    DEPTH,
    defines,
    is_parity,
    product_source,
    shared_bytes,
    slabs_for,
    transpose_defines,
    transpose_shared_bytes,
    transpose_source,
    unit_for,
    uses_tensor_cores,
    width_for,
)
from semiring.kernels.cuda.product.calls import ProductCall
from semiring.kernels.cuda.product.launches import architecture, enter_device
from semiring.logs import CACHED_SECONDS, Compilation

_PANEL = 1 << 25  # bytes: several smaller panels are transposed at once, which keeps all multiprocessors busy
_LONGEST = 1 << 40  # tensor maps support row strides below this many bytes


def route(call: ProductCall, C: Any, A: Any, B: Any) -> Any:
    """Return the product as a function of plan, C, A and B for these layouts, or None where it is not applicable."""
    m, words, k = C.shape[-2], C.shape[-1], B.shape[-2]
    device = C.data.device_id
    if not uses_tensor_cores(call, m, words, k, architecture(device)):
        return None
    if any(X.strides[-1] != X.itemsize or X.data.ptr % 4 or any(stride % 4 for stride in X.strides) for X in (A, B, C)):
        return None
    return partial(_multiply, is_parity(call), call.accumulate)


def is_read_before(call: ProductCall, m: int, words: int, k: int) -> bool:
    """Return whether a product C (m, words) of k steps uses tensor cores, which read all of B before writing."""
    return k <= DEPTH and uses_tensor_cores(call, m, words, k, architecture(current_device()))


def square(A: Any, changes: Any) -> None:
    """Compute A ← A or A A for words (n, ⌈n/32⌉), n up to `DEPTH`, ``len(changes) - 1`` times or until A is unchanged.

    The squares are in place: some bits of A are read after they were set. ``changes`` (rounds + 1,) uint32 on the
    device begins as 1 and zeros. A round does nothing if the preceding word is 0. Otherwise it sets its own word if A
    changes.
    """
    enter_device(A.data.device_id)
    if not _has_aligned_rows(A):  # a copy of A would miss the bits that earlier rounds have set
        for _ in range(len(changes) - 1):
            _multiply(False, True, None, A, A, A)
        return
    panel = Panel(A.shape[0], A.shape[1])
    fill, product = panel.prepare_fill(A), panel.prepare_product(False, True, A, A, is_watched=True)
    for word in range(changes.data.ptr, changes.data.ptr + 4 * (len(changes) - 1), 4):
        fill(word)
        product(word, word + 4)


def _multiply(parity: bool, accumulate: bool, plan: KernelPlan | None, C: Any, A: Any, B: Any) -> None:
    """Compute C ← A B or C ⊕ A B for matrices of words or stacks, enqueued on the current stream."""
    enter_device(C.data.device_id)
    if C.ndim == 3:
        for c, a, b in zip(C, A, B, strict=True):
            _multiply(parity, accumulate, plan, c, a, b)
        return
    k, memory = B.shape[0], None
    most = DEPTH * max(1, _PANEL // (512 * 512 * -(-C.shape[1] // 16)))
    for first in range(0, k, most):
        panel = Panel(min(k - first, most), C.shape[1], memory)
        memory = panel.memory
        panel.prepare_fill(B[first : first + most])(0)
        for start in range(first, min(k, first + most), DEPTH):
            part = A[:, start // 32 : -(-min(k, start + DEPTH) // 32)]
            is_aligned = _has_aligned_rows(part)
            if not is_aligned:
                part = _copy_aligned(part)
            panel.prepare_product(parity, accumulate or start > 0, C, part, start - first, may_start_early=is_aligned)()


def _allocate(size: int) -> Any:
    """Allocate memory of the stream in powers of two, because CuPy's pool keeps blocks of all sizes in use so far."""
    return cupy.cuda.alloc(1 << (size - 1).bit_length())


# ------------------------------------------------------------------------------------------------- operands


def _has_aligned_rows(A: Any) -> bool:
    """Return whether the rows of A (m, words) are aligned to 16 bytes, as a tensor map needs."""
    has_valid_stride = A.strides[0] % 16 == 0 and 0 < A.strides[0] < _LONGEST
    return bool(A.data.ptr % 16 == 0 and (A.shape[0] == 1 or has_valid_stride))


def _copy_aligned(A: Any) -> Any:
    """Return a copy whose rows are aligned to 16 bytes."""
    m, words = A.shape
    width = -(-words // 4) * 4
    aligned = cupy.ndarray((m, width), A.dtype, _allocate(m * 4 * width))[:, :words]
    copy(A, aligned)
    return aligned


@lru_cache(maxsize=4096)
def _tensor_map(address: int, sizes: tuple[int, ...], strides: tuple[int, ...], box: tuple[int, ...]) -> Any:
    """Return a tensor map of bytes, swizzled by 128 bytes. Bytes beyond the sizes are read as zeros."""
    error, tensor_map = driver.cuTensorMapEncodeTiled(
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
    return tensor_map


# ------------------------------------------------------------------------------------------------- kernels

#: The arguments of `bit_kernels.defines`.
_Kind: TypeAlias = tuple[int, bool, bool, bool, bool]


@lru_cache(maxsize=64)
def _product_kernel(kind: _Kind, device: int) -> Any:
    return _load_kernel("bit_product", product_source(), defines(*kind), shared_bytes(kind[0]), device)


@lru_cache(maxsize=16)
def _transpose_kernel(width: int, device: int) -> Any:
    return _load_kernel(
        "bit_transpose", transpose_source(), transpose_defines(width), transpose_shared_bytes(width), device
    )


def _load_kernel(name: str, text: str, defines: tuple[str, ...], shared_memory: int, device: int) -> Any:
    """Return a kernel on the current device. It compiles in 0.3 s."""
    under_way = Compilation("product of packed bits", "this GPU")
    code, _ = compile_for(architecture(device), text, ("--std=c++17", *defines))
    function = load_function(code, name, shared_memory)
    under_way.finish(CACHED_SECONDS)
    return function


class Panel:
    """The transpose of some rows of B: 512 rows for every 16 words of C, in parts of `DEPTH` bits.

    The last part may have fewer bits.
    """

    def __init__(self, depth: int, words: int, memory: Any = None) -> None:
        self._depth, self._columns = depth, -(-words // 16)
        last = (depth - 1) // DEPTH * DEPTH
        self._slabs = last // 1024 + slabs_for(depth - last)
        self._row_bytes = 128 * self._slabs
        size = -(-words // 32) * 1024 * self._row_bytes  # in whole blocks of the transpose, of 32 words
        self.memory = _allocate(size) if memory is None or memory.mem.size < size else memory

    def prepare_fill(self, B: Any) -> PreparedLaunch:
        """Return the launch that writes the transpose of the words B (depth, words) into the panel, padded with 0.

        Each launch passes 0, or the address of a word. If that word is 0, the launch does nothing.
        """
        depth, words = B.shape
        target = np.uint64(self.memory.ptr), np.int64(self._row_bytes // 4)
        source = np.uint64(B.data.ptr), np.int64(B.strides[0] // 4)
        parameters = (*target, *source, np.int32(depth), np.int32(32 * words), None)
        width = width_for(-(-words // 32) * self._slabs * 2, multiprocessors())
        grid, threads = (self._slabs * 64 // width, -(-words // width)), (width * width // 2,)
        # This launch does not start early, because its blocks would occupy multiprocessors while they wait. An early
        # start saves no time alone. Closures of 4096 and 8192 vertices take 0.151 and 0.359 ms with an early start, and
        # 0.130 and 0.319 ms without (H200, in one run).
        return PreparedLaunch(
            _transpose_kernel(width, B.data.device_id), grid, threads, parameters, transpose_shared_bytes(width)
        )

    def prepare_product(
        self,
        parity: bool,
        reads: bool,
        C: Any,
        A: Any,
        start: int = 0,
        *,
        is_watched: bool = False,
        may_start_early: bool = True,
    ) -> PreparedLaunch:
        """Return the launch that multiplies A by up to `DEPTH` bits of the panel from ``start`` on.

        It computes C ← A B, or C ← C ⊕ A B if ``reads``; ``parity``: whether ⊕ is xor. If ``is_watched``, each launch
        passes the addresses of two words. If the first word is 0, the launch does nothing. The second word becomes 1 if
        C changes. ``may_start_early``: whether its predecessor in the stream is the transpose or a product, so that A
        is complete.
        """
        m, words = C.shape
        pairs, row, slabs = -(-m // 128), self._row_bytes, slabs_for(min(DEPTH, self._depth - start))
        unit = unit_for(slabs, pairs, self._columns, multiprocessors())
        blocks = min(2 * -(-pairs // unit) * self._columns, multiprocessors() & ~1)
        stride = A.strides[0] if A.shape[0] > 1 else 4 * (-(-A.shape[1] // 4) * 4)
        # The tensor map permutes the rows of the panel: see `load_panel` in bit_product.cu.
        sizes, strides = (128 * slabs, 2, 4, 32, 2 * self._columns), (row, 64 * row, 2 * row, 256 * row)
        parameters = (
            _tensor_map(A.data.ptr, (4 * A.shape[1], A.shape[0]), (stride,), (128, 32)),
            _tensor_map(self.memory.ptr + start // 8, sizes, strides, (128, 2, 4, 32, 1)),
            *(np.uint64(C.data.ptr), np.int64(C.strides[0] // 4), *map(np.int32, (m, words, pairs, unit))),
            *([None] * (2 * is_watched)),
        )
        wide = C.data.ptr % 8 == 0 and words % 2 == 0 and (m == 1 or C.strides[0] % 8 == 0)
        kernel = _product_kernel((slabs, parity, reads, wide, is_watched), C.data.device_id)
        return PreparedLaunch(
            kernel, (blocks,), (384,), parameters, shared_bytes(slabs), may_start_early=may_start_early
        )
