"""Provide the machine code of kernels, from disk (`semiring.kernels.code_store`) or from the compiler.

A process that finds its kernels on disk never imports the DSL. No GPU is needed.
"""

from __future__ import annotations

from functools import cache
from importlib import metadata
from typing import Any, TypeAlias

from semiring.advice import cuda_version
from semiring.kernels import code_store, sources
from semiring.kernels.cuda.product.specification import Fold, Product, Search
from semiring.kernels.cuda.product.tiles import Tile
from semiring.logs import Compilation

__all__ = ["Specification", "cubin", "fingerprint"]

#: The specification of a kernel, without its tile.
Specification: TypeAlias = Product | Fold | Search

_PACKAGES = ("nvidia-cutlass-dsl", "nvidia-cutlass-dsl-libs-cu13", "nvidia-cutlass-dsl-libs-cu12")
#: The module that compiles machine code.
_COMPILATION = "semiring.kernels.cuda.compile.compilation"


def cubin(specification: Specification, tile: Tile | None, target: str) -> tuple[str, bytes]:
    """Return the name and the machine code of a kernel for a target such as ``"sm_90a"``, from disk or compiled."""
    key = f"{specification!r}\n{tile!r}\n{target}"
    result: tuple[str, bytes] | None = code_store.load(fingerprint(), key, _validate_entry)
    if result is None:
        from semiring.kernels.cuda.compile.compilation import build

        under_way = Compilation(_report_name(specification), target)
        result = build(specification, tile, target)
        under_way.finish()
        code_store.save(fingerprint(), key, result)
    return result


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


def fingerprint(module: str = _COMPILATION) -> str | None:
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
