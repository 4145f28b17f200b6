"""Compiled products, made once for each `Product` and tile and kept in memory."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import cuda.bindings.driver as cuda
import cutlass.cute as cute
from cutlass import Int32, Int64

from semiring.kernels.cuda.gemm import GemmKernel, Product
from semiring.kernels.cuda.search import Search, SearchKernel
from semiring.kernels.cuda.tiles import Tile

__all__ = ["compiled", "compiled_search"]


@lru_cache(maxsize=512)
def compiled(product: Product, tile: Tile) -> Any:
    """The compiled kernel: a callable of addresses, sizes, strides and a stream. Takes 1 to 3 s; needs no GPU."""
    strides = (Int64(0),) * 3
    runs = (Int32(0), Int32(0))
    stream = cuda.CUstream(0)
    sizes, addresses = (Int32(0),) * 4, (Int64(0),) * 4
    return cute.compile(GemmKernel(product, tile), addresses, sizes, *([strides] * 4), runs, stream)


@lru_cache(maxsize=128)
def compiled_search(search: Search) -> Any:
    """The compiled `SearchKernel`: a callable of addresses, sizes, strides, k0 and a stream."""
    strides = (Int64(0),) * 2
    sizes, addresses = (Int32(0),) * 3, (Int64(0),) * 5
    return cute.compile(SearchKernel(search), addresses, sizes, *([strides] * 5), Int64(0), cuda.CUstream(0))
