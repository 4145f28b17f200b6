"""Kernels of the DSL loaded on a device, and their launches."""

from __future__ import annotations

from functools import cache, lru_cache

import cupy
import numpy as np

from semiring.kernels.cuda.compile.cubins import Source, cubin
from semiring.kernels.cuda.entries.prepared_launch import Prepared, load
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


class Kernel:
    """A kernel on the device that was current when it was loaded; ``parameters``: how many of 8 and of 4 bytes."""

    def __init__(self, name: str, code: bytes, parameters: tuple[int, int], threads: int, shared: int) -> None:
        wide, narrow = parameters
        self._types = (np.int64,) * wide + (np.int32,) * narrow
        self._function, self._threads, self._shared = load(code, name, shared), threads, shared

    def prepared(self, blocks: int, *parameters: int | None) -> Prepared:
        """The launch of ``blocks`` blocks; None stands for a parameter that comes with each launch."""
        typed = [None if x is None else kind(x) for x, kind in zip(parameters, self._types, strict=True)]
        return Prepared(self._function, (blocks,), (self._threads,), typed, self._shared)


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
