"""Find the library and the device of an array by its type, without importing any library."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

__all__ = ["array_namespace", "is_device_array", "is_traced", "library_of"]

# The root package of an array's type, and the module that holds its functions.
_LIBRARIES = {"numpy": "numpy", "cupy": "cupy", "torch": "torch", "jax": "jax.numpy", "jaxlib": "jax.numpy"}
_ROOTS: dict[type, str] = {}  # a cache of root packages by type


def library_of(array: Any) -> str:
    """Return the root package of the array's type."""
    kind = type(array)
    root = _ROOTS.get(kind)
    if root is None:
        root = _ROOTS[kind] = kind.__module__.partition(".")[0]
    return root


def array_namespace(*arrays: Any) -> Any:
    """Return the module of functions on ``arrays``: NumPy, CuPy, torch or jax.numpy; NumPy for lists and scalars."""
    for array in arrays:
        if type(array) is np.ndarray:  # saves time, which matters for small products
            continue
        name = _LIBRARIES.get(library_of(array))
        if name is not None and name != "numpy":
            return sys.modules[name]
    return np


_ON_ONE_DEVICE = frozenset({"numpy", "builtins", "cupy"})  # libraries whose types determine the device
_CUDA_DEVICES = (2, 13)  # DLPack's codes of memory on an NVIDIA GPU: ordinary and managed
_ON_DEVICE: dict[type, bool] = {}  # a cache of the types that determine the device


def is_device_array(array: Any) -> bool:
    """Return whether the array is on an NVIDIA GPU."""
    on_device = _ON_DEVICE.get(type(array))
    if on_device is not None:
        return on_device
    root = library_of(array)
    if root in _ON_ONE_DEVICE or isinstance(array, np.ndarray):
        on_device = _ON_DEVICE[type(array)] = root == "cupy"
        return on_device
    if hasattr(array, "__dlpack_device__"):
        return array.__dlpack_device__()[0] in _CUDA_DEVICES
    return hasattr(array, "__cuda_array_interface__")


def is_traced(array: Any) -> bool:
    """Return whether the array is a tracer of JAX, which has a shape and a dtype and no entries."""
    jax = sys.modules.get("jax")  # a tracer exists only if JAX is loaded, so JAX is not imported here
    return jax is not None and library_of(array) == "jax" and isinstance(array, jax.core.Tracer)
