"""Run kernels in CUDA C++ on the host (`cuda_on_host.h`), on NumPy arrays, to test their logic without a GPU."""

from __future__ import annotations

import ctypes
import functools
import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import ClassVar

import numpy as np
import pytest

from semiring.kernels import code_store

COMPILER = shutil.which("g++")
needs_compiler = pytest.mark.skipif(COMPILER is None, reason="g++ is not installed")
_HEADER = Path(__file__).with_name("cuda_on_host.h")
_KERNEL = re.compile(r'extern "C" __global__ void\s*(?:__launch_bounds__\([^)]*\))?\s*(\w+)\(([^)]*)\)')


class _Race(ctypes.Structure):
    _fields_: ClassVar = [
        ("array", ctypes.c_int),
        ("element", ctypes.c_longlong),
        *((name, ctypes.c_int) for name in ("is_write", "by", "other")),
    ]


@functools.cache
def _version() -> str:
    return subprocess.run([COMPILER, "--version"], check=True, capture_output=True, text=True).stdout


def _folder(flags: list[str]) -> Path:
    """Return the folder of the libraries that are compiled with these flags, with the header compiled once in it."""
    key = hashlib.sha256(repr((_version(), flags, _HEADER.read_text())).encode()).hexdigest()[:20]
    cache = code_store.cache_folder() or Path(tempfile.gettempdir()) / f"semiring-{os.getuid()}"
    folder = cache / "cuda_on_host" / key
    precompiled = folder / f"{_HEADER.name}.gch"
    if not precompiled.exists():
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder) as scratch:
            header, compiled = Path(scratch, _HEADER.name), Path(scratch, "compiled")
            shutil.copy(_HEADER, header)
            subprocess.run([COMPILER, *flags, "-x", "c++-header", str(header), "-o", str(compiled)], check=True)
            header.replace(folder / _HEADER.name)
            compiled.replace(precompiled)
    return folder


def compiled_library(text: str, flags: list[str]) -> Path:
    """Return the shared library of a text that includes the header, from the cache folder, else compiled into it."""
    folder = _folder(flags)
    library = folder / f"{hashlib.sha256(text.encode()).hexdigest()[:40]}.so"
    if not library.exists():
        with tempfile.TemporaryDirectory(dir=folder) as scratch:
            code, compiled, linked = (Path(scratch, f"kernel.{ending}") for ending in ("cpp", "o", "so"))
            code.write_text(f'#include "{folder / _HEADER.name}"\n{text}')
            subprocess.run([COMPILER, *flags, "-c", str(code), "-o", str(compiled)], check=True)
            # The link omits these flags, because the header defines what the sanitizer calls in place of its library.
            subprocess.run([COMPILER, "-shared", str(compiled), "-o", str(linked)], check=True)
            linked.replace(library)  # atomically, so that another process sees the whole library or none
    return library


class HostKernels:
    """The kernels of one source text, by name.

    The compiled library is kept in the cache folder of compiled kernels under a hash of everything it is made of. One
    process loads a library once, so its static variables keep their values, as those of a module on a GPU do.

    Parameters
    ----------
    text
        CUDA C++ with kernels that are declared ``extern "C" __global__ void``.
    races
        Whether `launch` observes every access of the kernels to their arrays.
    """

    def __init__(self, text: str, *, races: bool = False) -> None:
        launchers = []
        for name, parameters in _KERNEL.findall(text):
            names = ", ".join(re.search(r"(\w+)\s*$", parameter)[1] for parameter in parameters.split(","))
            launchers.append(
                f'extern "C" void launch_{name}(unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, '
                f"unsigned bz, int backwards, unsigned together, unsigned seed, {parameters}) {{\n"
                "    host::run({gx, gy, gz}, {bx, by, bz}, backwards, together, seed, "
                f"[&] {{ {name}({names}); }});\n}}"
            )
        flags = ["-std=c++17", "-O1", "-ffp-contract=off", "-w", "-fPIC"]
        flags += ["-fsanitize=thread", "-fno-threadsafe-statics"] if races else []
        code = "\n".join([text, *launchers])
        self._library, self._observes = ctypes.CDLL(str(compiled_library(code, flags))), races

    def launch(self, name, grid, block, arguments, *, backwards=False, cooperative=False, seed=0):
        """Launch a kernel: arrays are passed as addresses, NumPy scalars as C types of their sizes, None as a null
        pointer.

        Return the races between blocks as tuples (array, element, is_write, by, other). ``array`` is the number of the
        array among the arguments, and ``element`` the index in its memory. The two blocks touched the element
        unordered. ``is_write`` says whether the last one wrote. ``seed`` draws the order in which blocks take turns.
        """
        sizes = [ctypes.c_uint(size) for size in (*grid, *block)]
        together = ctypes.c_uint(grid[0] * grid[1] * grid[2] if cooperative else 1)
        launcher = getattr(self._library, f"launch_{name}")
        if self._observes:
            for array in (argument for argument in arguments if isinstance(argument, np.ndarray)):
                size = ctypes.c_longlong(_extent(array))
                self._library.watch(_argument(array), size, ctypes.c_int(array.itemsize))
        launcher(*sizes, ctypes.c_int(backwards), together, ctypes.c_uint(seed), *map(_argument, arguments))
        found = ctypes.POINTER(_Race)()
        self._library.races.restype = ctypes.c_longlong
        count = self._library.races(ctypes.byref(found))
        return [(race.array, race.element, bool(race.is_write), race.by, race.other) for race in found[:count]]


class DeviceArray(np.ndarray):
    """An array that stands for one on a GPU, and describes its memory as CuPy does."""

    by_address: ClassVar = {}

    @property
    def data(self):
        self.by_address[self.ctypes.data] = self.view(np.ndarray)
        return SimpleNamespace(ptr=self.ctypes.data, memset_async=self._fill_bytes)

    def _fill_bytes(self, value, size):
        assert size == self.nbytes
        self.view(np.uint8)[...] = value

    def get(self):
        return self.view(np.ndarray).copy()


def to_device(array):
    return np.asarray(array).view(DeviceArray)


def aligned_array(shape, dtype, offset=0):
    """Return an array of zeros whose address 256 divides, or that lies ``offset`` elements further."""
    dtype, size = np.dtype(dtype), int(np.prod(shape))
    memory = np.zeros((size + offset) * dtype.itemsize + 256, np.uint8)
    start = -memory.ctypes.data % 256 + offset * dtype.itemsize
    return to_device(memory[start : start + size * dtype.itemsize].view(dtype).reshape(shape))


def aligned_copy(array):
    copy = aligned_array(array.shape, array.dtype)
    copy[...] = array
    return copy


def _extent(array):
    """Return the bytes from the first element to the end of the last."""
    return array.itemsize + sum((size - 1) * stride for size, stride in zip(array.shape, array.strides, strict=True))


def _argument(value):
    if value is None:
        return ctypes.c_void_p(0)
    if isinstance(value, np.ndarray):
        return ctypes.c_void_p(value.ctypes.data)
    return np.ctypeslib.as_ctypes_type(value.dtype)(value.item())


class PreparedOnHost:
    """`semiring.kernels.cuda.entries.prepared_launch.PreparedLaunch` of a function of grid, block and parameters."""

    def __init__(self, function, blocks, threads, parameters):
        self._function, self._sizes, self._parameters = function, (blocks, threads), parameters

    def __call__(self, *arguments):
        rest = iter(arguments)
        self._function(*self._sizes, [next(rest) if x is None else x for x in self._parameters])
