"""Load kernels of the DSL on a device, and prepare one product for operands of known layouts."""

from __future__ import annotations

import threading
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from typing import Any

import cupy
import numpy as np
from cupy.cuda import runtime

from semiring.kernels.contract import KernelPlan
from semiring.kernels.cuda.entries.prepared_launch import PreparedLaunch, load_function
from semiring.kernels.cuda.product.calls import Placement, ProductCall
from semiring.kernels.cuda.product.cubins import Specification, cubin
from semiring.kernels.cuda.product.specification import (
    FOLD_PARAMETERS,
    PARAMETERS,
    SEARCH_PARAMETERS,
    THREADS,
    Fold,
    Product,
)
from semiring.kernels.cuda.product.tiles import Tile


class Kernel:
    """A kernel that is loaded on one device.

    ``parameters`` are the numbers of 8-byte and of 4-byte parameters. ``shared_bytes`` is its dynamic shared memory.
    """

    def __init__(self, name: str, code: bytes, parameters: tuple[int, int], threads: int, shared_bytes: int) -> None:
        wide, narrow = parameters
        self._types = (np.int64,) * wide + (np.int32,) * narrow
        self._function = load_function(code, name, shared_bytes)
        self._threads, self._shared_bytes = threads, shared_bytes

    def prepare_launch(self, blocks: int, *parameters: int | None) -> PreparedLaunch:
        """Return the launch of ``blocks`` blocks. None stands for a parameter that each launch passes."""
        typed = [None if x is None else kind(x) for x, kind in zip(parameters, self._types, strict=True)]
        return PreparedLaunch(self._function, (blocks,), (self._threads,), typed, self._shared_bytes)


@lru_cache(maxsize=1024)
def load_kernel(specification: Specification, tile: Tile | None, device: int) -> Kernel:
    """Return the kernel on ``device``, which must be the current device."""
    name, code = cubin(specification, tile, architecture(device))
    if isinstance(specification, Product):
        assert tile is not None
        return Kernel(name, code, PARAMETERS, tile.threads, tile.shared_bytes(specification.words.word_bytes))
    return Kernel(name, code, FOLD_PARAMETERS if isinstance(specification, Fold) else SEARCH_PARAMETERS, THREADS, 0)


@cache
def architecture(device: int) -> str:
    """Return the compile target: ``"sm_90a"`` and later include architecture-specific instructions."""
    capability = int(cupy.cuda.Device(device).compute_capability)
    return f"sm_{capability}{'a' if capability >= 90 else ''}"


@dataclass(frozen=True)
class Launch:
    """A prepared product, complete except for the addresses and the stream."""

    device: int
    is_exchanged: bool  # whether the kernel computes Cᵀ ← Bᵀ ⊗' Aᵀ, so that its first operand is B
    product: Product
    kernel: PreparedLaunch  # each launch passes the addresses, the strides of P, and the tiles of a run
    tile: Tile
    fold: PreparedLaunch | None = None  # the fold of the parts; each launch passes the addresses of C and of the parts
    workspace: int = 0  # the bytes of the parts

    def __call__(self, plan: KernelPlan, C: Any, A: Any, B: Any) -> None:
        """Enqueue the product on the current stream."""
        enter_device(self.device)
        a, b, c = A.data.ptr, B.data.ptr, C.data.ptr
        if self.is_exchanged:
            a, b = b, a
        if self.fold is None:
            self.kernel(a, b, c, 0, 0, 0, 1)
            return
        parts = cupy.cuda.alloc(self.workspace)  # memory of the stream, which its next work may reuse
        self.kernel(a, b, parts.ptr, 0, 0, 0, 1)
        self.fold(c, parts.ptr)

    def record(self, C: Any, P: Any, A: Any, B: Any, run_length: int) -> None:
        """Enqueue a product that records the last run of ``run_length`` k that improved each entry."""
        enter_device(self.device)
        a, b = (B, A) if self.is_exchanged else (A, B)
        strides = [stride // P.itemsize for stride in P.strides]
        if self.is_exchanged:
            strides.reverse()
        addresses = (a.data.ptr, b.data.ptr, C.data.ptr, P.data.ptr)
        self.kernel(*addresses, *strides, -(-run_length // self.tile.tile_k))


def prepare(call: ProductCall, A: Placement, B: Placement, C: Placement, device: int) -> Launch | None:
    """Return the launch of a product, or None where packed pairs are not whole words, so that copies are needed."""
    enter_device(device)  # kernels are loaded into the current context, and a new thread has none
    exchanged = not call.words.has_bits and C.is_column_major
    if exchanged:
        call = replace(call.transposed, upper=False)
        A, B, C = B.transposed, A.transposed, C.transposed
    if call.words.lanes == 2:
        if not (C.holds_pairs and B.holds_pairs):
            return None
        B, C = B.as_pairs, C.as_pairs
    (m, n), k = C.shape, B.shape[0]
    tile = call.tile(C)
    parts, part = call.parts(C, k)
    fold, workspace, result = None, 0, C
    if parts > 1:
        kernel = load_kernel(Fold(call.add.text, call.words, call.accumulate), None, device)
        fold = kernel.prepare_launch(m * -(-n // THREADS), None, None, *C.strides, m, n, parts)
        call = replace(call, accumulate=False, upper=False)
        result = Placement(0, (m, n), (n, 1), C.itemsize, parts, m * n)
        workspace = parts * m * n * C.itemsize
        inner = part // 32 if call.words.has_bits else part
        A, B = replace(A, step=inner * A.strides[1]), replace(B, step=part * B.strides[0])
    matrices, product = max(parts, C.count), call.product(A, B, result)
    strides = [stride for operand in (A, B, result) for stride in (*operand.strides, operand.step)]
    sizes = m, n, k, part, part if parts > 1 else 0
    parameters = (*(None,) * 4, *strides, None, None, *sizes, None)
    launch = load_kernel(product, tile, device).prepare_launch(tile.count(m, n) * matrices, *parameters)
    return Launch(device, exchanged, product, launch, tile, fold, workspace)


_thread_local = threading.local()


def enter_device(device: int) -> None:
    """Make the device of the arrays current, and initialize its context in this thread."""
    if runtime.getDevice() != device or not getattr(_thread_local, "has_context", False):
        runtime.setDevice(device)
        _thread_local.has_context = True
