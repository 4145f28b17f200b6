"""Compile CUDA C++ to machine code of an architecture, kept in the cache folder, because NVRTC takes seconds."""

from __future__ import annotations

import functools
import hashlib
import inspect
import pickle
from importlib import metadata

from semiring.kernels import code_store
from semiring.kernels.cuda.closing import modules

__all__ = ["compile_for"]


@functools.cache
def _compiler() -> str:
    """Return what distinguishes compilers: the versions of NVRTC's packages, and how the library calls it."""
    packages = sorted(
        f"{package.name} {package.version}"
        for package in metadata.distributions()
        if (package.name or "").startswith(("cuda-bindings", "nvidia-cuda-"))
    )
    return repr((packages, inspect.getsource(modules.compile_for)))


def compile_for(architecture: str, text: str, options: tuple[str, ...]) -> tuple[bytes, str]:
    """Return the machine code and the log of the compiler, as `semiring.kernels.cuda.closing.modules.compile_for`.

    A source that was compiled before, with the same options by the same compiler, is read from the cache folder.
    """
    cache = code_store.cache_folder()
    if cache is None:
        return modules.compile_for(architecture, text, options)
    key = hashlib.sha256(repr((_compiler(), architecture, text, options)).encode()).hexdigest()[:40]
    entry = cache / "machine_code" / key
    if not entry.exists():
        found = modules.compile_for(architecture, text, options)
        entry.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        scratch = entry.with_name(f"{key}.{id(found)}.part")
        scratch.write_bytes(pickle.dumps(found))
        scratch.replace(entry)  # atomically, so that another process sees the whole entry or none
    return pickle.loads(entry.read_bytes())
