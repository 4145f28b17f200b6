"""Provide the machine code of kernels, from disk (`semiring.kernels.code_store`) or from the compiler.

A process that finds its kernels on disk never imports the CUTLASS DSL, which only `build` calls. No GPU is needed.
"""

from __future__ import annotations

import tempfile
import threading
import warnings
from functools import cache
from importlib import metadata
from typing import Any, TypeAlias

from semiring.advice import cuda_version
from semiring.kernels import code_store, sources
from semiring.kernels.cuda.product.specification import (
    FOLD_PARAMETERS,
    PARAMETERS,
    SEARCH_PARAMETERS,
    Fold,
    Product,
    Search,
)
from semiring.kernels.cuda.product.tiles import Tile
from semiring.logs import Compilation

#: The specification of a kernel, without its tile.
Specification: TypeAlias = Product | Fold | Search

_PACKAGES = ("nvidia-cutlass-dsl", "nvidia-cutlass-dsl-libs-cu13", "nvidia-cutlass-dsl-libs-cu12")
_LOCK = threading.Lock()  # the DSL stores the module under construction in a global variable


def cubin(specification: Specification, tile: Tile | None, target: str) -> tuple[str, bytes]:
    """Return the name and the machine code of a kernel for a target such as ``"sm_90a"``, from disk or compiled."""
    key = f"{specification!r}\n{tile!r}\n{target}"
    result: tuple[str, bytes] | None = code_store.load(fingerprint(), key, _validate_entry)
    if result is None:
        under_way = Compilation(_report_name(specification), target)
        result = build(specification, tile, target)
        under_way.finish()
        code_store.save(fingerprint(), key, result)
    return result


def build(specification: Specification, tile: Tile | None, architecture: str) -> tuple[str, bytes]:
    """Return the name of a kernel and its cubin for an architecture such as ``"sm_90a"``, in 0.1 to 3 s."""
    import cutlass.cute as cute
    from cutlass import Int32, Int64

    from semiring.kernels.cuda.product.gemm import GemmKernel
    from semiring.kernels.cuda.product.k_reductions import FoldKernel, SearchKernel

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


def _report_name(specification: Specification) -> str:
    """Return the name of a compilation in reports, which describes the operation of the caller."""
    if isinstance(specification, Product):
        return f"{specification.words.dtype} product with ⊕ {specification.add}, ⊗ {specification.mul}"
    if isinstance(specification, Fold):
        return f"{specification.words.dtype} sum with ⊕ {specification.add}"
    return f"{specification.words.dtype} product with witnesses, ⊗ {specification.mul}"


def _validate_entry(state: Any) -> tuple[str, bytes]:
    """Return a saved entry, or raise `TypeError` if it is none, so that `code_store.load` counts it as missing."""
    name, code = state
    if not (isinstance(name, str) and isinstance(code, bytes)):
        raise TypeError("no kernel")
    return name, code


def fingerprint(module: str = __name__) -> str | None:
    """Return a digest of the inputs of the machine code that a module compiles: its code, and the DSL's versions.

    The result is None where code is not cached.
    """
    return sources.fingerprint((module,), _versions())


@cache
def _versions() -> tuple[str, ...]:
    versions = [str(cuda_version() or "")]  # the DSL chooses among its installed libraries by the driver
    for package in _PACKAGES:
        try:
            versions.append(metadata.version(package))
        except metadata.PackageNotFoundError:
            versions.append("")
    return tuple(versions)
