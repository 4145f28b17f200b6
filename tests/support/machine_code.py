"""Compile CUDA C++ to machine code of an architecture, kept in the cache folder, because NVRTC takes seconds."""

from __future__ import annotations

import ctypes
import functools
import hashlib
import inspect
import pickle
import re
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

import pytest

from semiring.kernels import code_store
from semiring.kernels.cuda.closing import modules

__all__ = ["compile_by_cuda_12", "compile_for", "needs_nvrtc", "nvrtc_12", "resources"]


@functools.cache
def _compiler() -> str:
    """Return what distinguishes compilers: the versions of NVRTC's packages, and how the library calls it."""
    packages = sorted(
        f"{package.name} {package.version}"
        for package in metadata.distributions()
        if (package.name or "").startswith(("cuda-bindings", "nvidia-cuda-"))
    )
    return repr((packages, inspect.getsource(modules.compile_for)))


def _has_compiler() -> bool:
    try:
        from cuda.bindings import nvrtc

        return nvrtc.nvrtcVersion()[0] == nvrtc.nvrtcResult.NVRTC_SUCCESS
    except (ImportError, RuntimeError):
        return False


needs_nvrtc = pytest.mark.skipif(
    not _has_compiler(), reason="NVRTC is not installed: pip install cuda-bindings nvidia-cuda-nvrtc"
)


def resources(log: str) -> dict[str, tuple[int, int]]:
    """Return (registers, bytes of spills) of each kernel, from the log of the compiler."""
    found = re.findall(
        r"Compiling entry function '(\w+)'.*?(\d+) bytes spill stores.*?Used (\d+) registers", log, re.DOTALL
    )
    assert found, log
    return {kernel: (int(registers), int(spills)) for kernel, spills, registers in found}


@functools.cache
def nvrtc_12():
    """Return the library NVRTC of CUDA 12 from its package, or None. It lies beside that of CUDA 13."""
    package = find_spec("nvidia")
    folders = (package.submodule_search_locations or ()) if package else ()
    found = (Path(folder, "cuda_nvrtc", "lib", "libnvrtc.so.12") for folder in folders)
    return next((ctypes.CDLL(str(path)) for path in found if path.is_file()), None)


def compile_by_cuda_12(architecture: str, text: str, options: tuple[str, ...]) -> int:
    """Return the size of the machine code by NVRTC of CUDA 12. Raises `ValueError` where it does not compile."""
    nvrtc, program, size = nvrtc_12(), ctypes.c_void_p(), ctypes.c_size_t()
    nvrtc.nvrtcCreateProgram(ctypes.byref(program), text.encode(), b"kernel.cu", 0, None, None)
    flags = [f"--gpu-architecture={architecture}".encode(), *(option.encode() for option in options)]
    if nvrtc.nvrtcCompileProgram(program, len(flags), (ctypes.c_char_p * len(flags))(*flags)):
        nvrtc.nvrtcGetProgramLogSize(program, ctypes.byref(size))
        log = ctypes.create_string_buffer(size.value)
        nvrtc.nvrtcGetProgramLog(program, log)
        raise ValueError(f"CUDA 12: {log.value.decode()}")
    nvrtc.nvrtcGetCUBINSize(program, ctypes.byref(size))
    nvrtc.nvrtcDestroyProgram(ctypes.byref(program))
    return size.value


def compile_for(architecture: str, text: str, options: tuple[str, ...]) -> tuple[bytes, str]:
    """Return the machine code and the log of the compiler, as `semiring.kernels.cuda.closing.modules.compile_for`.

    NVRTC of CUDA 12 compiles it too, if it is installed.

    A source that was compiled before, with the same options by the same compiler, is read from the cache folder.
    """
    cache = code_store.cache_folder()
    if cache is None:
        return modules.compile_for(architecture, text, options)
    key = hashlib.sha256(repr((_compiler(), architecture, text, options)).encode()).hexdigest()[:40]
    entry = cache / "machine_code" / key
    if not entry.exists():
        found = modules.compile_for(architecture, text, options)
        if nvrtc_12() is not None:
            assert compile_by_cuda_12(architecture, text, options) > 0
        entry.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        scratch = entry.with_name(f"{key}.{id(found)}.part")
        scratch.write_bytes(pickle.dumps(found))
        scratch.replace(entry)  # atomically, so that another process sees the whole entry or none
    return pickle.loads(entry.read_bytes())
