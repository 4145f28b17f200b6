"""Measure the pairs per second that the instruction mix of a product's kernel reaches alone.

The operands lie in shared memory from the start. There are no copies and no barriers. The same code writes the loop as
in the kernel, with the same tile. A product loses the difference to this rate to staging, to the last wave
and to the ends of the matrix. This rate loses the difference to the pipes' rates to loads, register banks and the
issue.
"""

from __future__ import annotations

import tempfile
from typing import Any

import numpy as np

from benchmarks.common import device_milliseconds
from semiring.kernels import code_store
from semiring.kernels.cuda.product.cubins import fingerprint
from semiring.kernels.cuda.product.specification import Product
from semiring.kernels.cuda.product.tiles import Tile

__all__ = ["limit", "limit_cubin"]

_PARAMETERS = 1, 2  # the addresses of data and results (8 bytes each), iterations and 1 (4 bytes each)


def limit_cubin(product: Product, tile: Tile, target: str) -> tuple[str, bytes]:
    """Return the kernel's name and machine code, from the disk cache or compiled."""
    key = f"limit\n{product!r}\n{tile!r}\n{target}"
    version = fingerprint("benchmarks.gpu.limit_kernel")
    result: tuple[str, bytes] | None = code_store.load(version, key, lambda state: state)
    if result is None:
        result = _build(product, tile, target)
        code_store.save(version, key, result)
    return result


def _build(product: Product, tile: Tile, target: str) -> tuple[str, bytes]:
    import cutlass.cute as cute
    from cutlass import Int32, Int64

    from benchmarks.gpu.limit_kernel import LimitKernel

    with tempfile.TemporaryDirectory() as folder:
        options = f"--gpu-arch {target} --keep-cubin --dump-dir {folder}"
        arguments = Int64(0), Int32(0), Int32(1), Int32(1)
        compiled = cute.compile(LimitKernel(product, tile), *arguments, options=options)
        (name,) = compiled.kernel_info
        return name, compiled.__cubin__


def limit(product: Product, *tiles: Tile) -> float:
    """Return T pairs/s of the whole GPU with the best of the tiles. It takes some milliseconds."""
    return max(_rate(product, tile) for tile in tiles)


def _entries(product: Product, words: int) -> Any:
    """Return ``words`` words of ordinary values on the device."""
    import cupy

    format_ = product.words
    values = cupy.random.random(words * (2 if format_.lanes == 2 else 1)) * (1 if format_.is_floating else 1000)
    if format_.has_bits:
        return (values * 2**31 / 1000).astype(np.int32)
    return values.astype(format_.numpy_word if format_.lanes == 1 else format_.dtype)


def _rate(product: Product, tile: Tile) -> float:
    import cupy

    from semiring.kernels.cuda.product.launches import Kernel, architecture

    device = cupy.cuda.Device()
    name, code = limit_cubin(product, tile, architecture(device.id))
    kernel = Kernel(name, code, _PARAMETERS, tile.threads, tile.shared_bytes(product.words.word_bytes))
    blocks = device.attributes["MultiProcessorCount"] * tile.min_blocks
    data = _entries(product, blocks * tile.tile_m * tile.tile_n)
    iterations = 2000
    prepared = kernel.prepare_launch(blocks, data.data.ptr, iterations, 1)
    times = [device_milliseconds(lambda: prepared()) for _ in range(6)]
    words = blocks * iterations * tile.tile_m * tile.tile_n * tile.tile_k
    rate: Any = words * product.words.lanes / np.median(times[1:]) / 1e9
    return float(rate)
