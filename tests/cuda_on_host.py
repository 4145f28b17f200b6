"""Kernels in CUDA C++ run on the host (`cuda_on_host.h`), on NumPy arrays: their logic is tested without a GPU."""

from __future__ import annotations

import ctypes
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

COMPILER = shutil.which("g++")
needs_compiler = pytest.mark.skipif(COMPILER is None, reason="g++ is not installed")
_HEADER = Path(__file__).with_name("cuda_on_host.h")
_KERNEL = re.compile(r'extern "C" __global__ void\s*(?:__launch_bounds__\([^)]*\))?\s*(\w+)\(([^)]*)\)')


class HostKernels:
    """The kernels of one source text, by name."""

    def __init__(self, text: str, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        launchers = []
        for name, parameters in _KERNEL.findall(text):
            names = ", ".join(re.search(r"(\w+)\s*$", parameter)[1] for parameter in parameters.split(","))
            launchers.append(
                f'extern "C" void launch_{name}(unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, '
                f"unsigned bz, int backwards, unsigned together, {parameters}) {{\n"
                f"    host::run({{gx, gy, gz}}, {{bx, by, bz}}, backwards, together, [&] {{ {name}({names}); }});\n}}"
            )
        code = folder / "kernel.cpp"
        code.write_text("\n".join([f'#include "{_HEADER}"', text, *launchers]))
        library = folder / "kernel.so"
        flags = ["-std=c++17", "-O1", "-ffp-contract=off", "-w", "-shared", "-fPIC"]
        subprocess.run([COMPILER, *flags, str(code), "-o", str(library)], check=True)
        self._library = ctypes.CDLL(str(library))

    def launch(self, name, grid, block, arguments, *, backwards=False, cooperative=False):
        """Arrays as their addresses, NumPy scalars as the C types of their sizes, None as a null pointer."""
        sizes = [ctypes.c_uint(size) for size in (*grid, *block)]
        together = ctypes.c_uint(grid[0] * grid[1] * grid[2] if cooperative else 1)
        launcher = getattr(self._library, f"launch_{name}")
        launcher(*sizes, ctypes.c_int(backwards), together, *map(_argument, arguments))


def _argument(value):
    if value is None:
        return ctypes.c_void_p(0)
    if isinstance(value, np.ndarray):
        return ctypes.c_void_p(value.ctypes.data)
    return {"int32": ctypes.c_int, "uint32": ctypes.c_uint, "int64": ctypes.c_longlong}[value.dtype.name](int(value))
