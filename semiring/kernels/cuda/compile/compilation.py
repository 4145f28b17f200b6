"""Compile kernels to machine code by the CUTLASS DSL, which only this module calls. No GPU is needed."""

from __future__ import annotations

import tempfile
import threading
import warnings
from typing import Any

import cutlass.cute as cute
from cutlass import Int32, Int64

from semiring.kernels.cuda.product.gemm import GemmKernel
from semiring.kernels.cuda.product.k_reductions import FoldKernel, SearchKernel
from semiring.kernels.cuda.product.specification import (
    FOLD_PARAMETERS,
    PARAMETERS,
    SEARCH_PARAMETERS,
    Fold,
    Product,
    Search,
)
from semiring.kernels.cuda.product.tiles import Tile

__all__ = ["build"]

_LOCK = threading.Lock()  # the DSL stores the module under construction in a global variable


def build(specification: Product | Fold | Search, tile: Tile | None, architecture: str) -> tuple[str, bytes]:
    """Return the name of a kernel and its cubin for an architecture such as ``"sm_90a"``, in 0.1 to 3 s."""
    if isinstance(specification, Product):
        assert tile is not None
        kernel: Any = GemmKernel(specification, tile)
        parameters, addresses = PARAMETERS, 4
    elif isinstance(specification, Fold):
        kernel, parameters, addresses = FoldKernel(specification), FOLD_PARAMETERS, 2
    else:
        kernel, parameters, addresses = SearchKernel(specification), SEARCH_PARAMETERS, 5
    wide, narrow = parameters
    arguments = (Int64(0),) * addresses, (Int64(0),) * (wide - addresses), (Int32(0),) * narrow, Int32(1)
    with _LOCK, tempfile.TemporaryDirectory(prefix="semiring-") as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the DSL warns of loops that are unrolled intentionally
        options = f"--gpu-arch {architecture} --keep-cubin --dump-dir {folder}"
        compiled = cute.compile(kernel, *arguments, options=options)
        (name,) = compiled.kernel_info
        return name, compiled.__cubin__
