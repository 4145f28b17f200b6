"""Load kernels of the DSL on a device, and launch them."""

from __future__ import annotations

from functools import cache, lru_cache

import cupy
import numpy as np

from semiring.kernels.cuda.compile.cubins import Specification, cubin
from semiring.kernels.cuda.entries.prepared_launch import PreparedLaunch, load_function
from semiring.kernels.cuda.product.specification import (
    FOLD_PARAMETERS,
    PARAMETERS,
    SEARCH_PARAMETERS,
    THREADS,
    Fold,
    Product,
)
from semiring.kernels.cuda.product.tiles import Tile

__all__ = ["Kernel", "architecture", "load_kernel"]


class Kernel:
    """A kernel that is loaded on one device.

    ``parameters`` are the numbers of 8-byte and of 4-byte parameters. ``shared_bytes`` is its dynamic shared memory.
    """

    def __init__(self, name: str, code: bytes, parameters: tuple[int, int], threads: int, shared_bytes: int) -> None:
        wide, narrow = parameters
        self._types = (np.int64,) * wide + (np.int32,) * narrow
        self._function, self._threads, self._shared_bytes = (
            load_function(code, name, shared_bytes),
            threads,
            shared_bytes,
        )

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
