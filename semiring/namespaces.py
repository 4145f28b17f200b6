"""Which array library an array belongs to, found by its type: nothing is imported that is not already loaded."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

__all__ = ["array_namespace", "is_device_array", "library_of"]

# The root package of an array's type, and the module that holds its functions.
_LIBRARIES = {"numpy": "numpy", "cupy": "cupy", "torch": "torch", "jax": "jax.numpy", "jaxlib": "jax.numpy"}
_ROOTS: dict[type, str] = {}  # of the types that were asked for


def library_of(array: Any) -> str:
    """The root package of the array's type."""
    kind = type(array)
    root = _ROOTS.get(kind)
    if root is None:
        root = _ROOTS[kind] = kind.__module__.partition(".")[0]
    return root


def array_namespace(*arrays: Any) -> Any:
    """The module whose functions act on ``arrays``: NumPy, CuPy, torch or jax.numpy. Lists and scalars are NumPy's."""
    for array in arrays:
        if type(array) is np.ndarray:  # small products feel every microsecond
            continue
        name = _LIBRARIES.get(library_of(array))
        if name is not None and name != "numpy":
            return sys.modules[name]
    return np


_TOLD_BY_TYPE = frozenset({"numpy", "builtins", "cupy"})
_CUDA_DEVICES = (2, 13)  # DLPack's codes of memory on an NVIDIA GPU: ordinary and managed
_THERE: dict[type, bool] = {}  # of the types that tell


def is_device_array(array: Any) -> bool:
    """Whether the array lives on an NVIDIA GPU."""
    there = _THERE.get(type(array))
    if there is not None:
        return there
    root = library_of(array)
    if root in _TOLD_BY_TYPE or isinstance(array, np.ndarray):
        there = _THERE[type(array)] = root == "cupy"
        return there
    if hasattr(array, "__dlpack_device__"):
        return array.__dlpack_device__()[0] in _CUDA_DEVICES
    return hasattr(array, "__cuda_array_interface__")
