"""Provide the machine code of kernels, from disk (`semiring.kernels.disk`) or from the compiler.

A process that finds its kernels on disk never imports the DSL. No GPU is needed.
"""

from __future__ import annotations

from functools import cache
from importlib import metadata
from typing import Any, TypeAlias

from semiring.kernels import disk, sources
from semiring.kernels.cuda.product.specification import Fold, Product, Search
from semiring.kernels.cuda.product.tiles import Tile
from semiring.logs import Compilation

__all__ = ["Source", "cubin", "fingerprint"]

#: The specification of a kernel, without its tile.
Source: TypeAlias = Product | Fold | Search

_PACKAGES = ("nvidia-cutlass-dsl", "nvidia-cutlass-dsl-libs-cu13", "nvidia-cutlass-dsl-libs-cu12")
#: The module that compiles machine code.
_COMPILATION = "semiring.kernels.cuda.compile.compilation"


def cubin(what: Source, tile: Tile | None, target: str) -> tuple[str, bytes]:
    """Return the name and the machine code of a kernel for a target such as ``"sm_90a"``, from disk or compiled."""
    key = f"{what!r}\n{tile!r}\n{target}"
    result: tuple[str, bytes] | None = disk.load(fingerprint(), key, _entry)
    if result is None:
        from semiring.kernels.cuda.compile.compilation import build

        under_way = Compilation(_called(what), target)
        result = build(what, tile, target)
        under_way.finish()
        disk.save(fingerprint(), key, result)
    return result


def _called(what: Source) -> str:
    """Return the name of a compilation in reports: what the caller computes."""
    if isinstance(what, Product):
        return f"{what.words.dtype} product with ⊕ {what.add}, ⊗ {what.mul}"
    if isinstance(what, Fold):
        return f"{what.words.dtype} sum with ⊕ {what.add}"
    return f"{what.words.dtype} product with witnesses, ⊗ {what.mul}"


def _entry(state: Any) -> tuple[str, bytes]:
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
    versions = []
    for package in _PACKAGES:
        try:
            versions.append(metadata.version(package))
        except metadata.PackageNotFoundError:
            versions.append("")
    return tuple(versions)
