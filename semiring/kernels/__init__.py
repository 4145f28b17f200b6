"""The backends of the kernel contract (`semiring.kernels.contract`), imported when first asked for.

The environment variable SEMIRING_BACKEND names the one backend to use for arrays in the memory of the host, from the
next call on: ``reference`` to rule out a fault of a fast one.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from functools import cache, lru_cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

from semiring import profiling
from semiring.errors import DeviceError, DTypeError, MissingExtraError, UnknownNameError
from semiring.namespaces import is_device_array

if TYPE_CHECKING:
    from semiring.algebra import Semiring
    from semiring.kernels.contract import Backend

__all__ = [
    "BACKENDS",
    "DEVICE_BACKENDS",
    "LOADED",
    "backend_for",
    "device_backend",
    "get_backend",
    "named_backend",
    "packs",
]

#: When this process loaded the library, in seconds as of `time.time`: a source that is newer is not the code that runs.
LOADED = time.time()

#: Where each backend lives, by name, in the order in which the host's arrays try them.
BACKENDS: Mapping[str, tuple[str, str]] = {
    "cpu": ("semiring.kernels.cpu", "CpuBackend"),
    "reference": ("semiring.kernels.reference", "ReferenceBackend"),
}
#: Those for arrays on a GPU.
DEVICE_BACKENDS: Mapping[str, tuple[str, str]] = {"cuda": ("semiring.kernels.cuda", "CudaBackend")}


@cache
def get_backend(name: str) -> Backend:
    """The backend of that name; `UnknownNameError` lists the valid ones on a miss."""
    known = {**BACKENDS, **DEVICE_BACKENDS}
    if name not in known:
        raise UnknownNameError("backend", name, known)
    module, attribute = known[name]
    backend: Backend = getattr(import_module(module), attribute)()
    return backend


_VARIABLE = os.environ.encodekey("SEMIRING_BACKEND")


def named_backend() -> str | None:
    """The backend that SEMIRING_BACKEND names now; None where it is empty or not set."""
    # The dict behind os.environ, whose own look-up encodes the key and raises on a miss: 0.6 µs, and this one 0.04.
    held = os.environ._data.get(_VARIABLE)  # type: ignore[attr-defined]
    return os.fsdecode(held) if held else None


def backend_for(array: Any, semiring: Semiring, dtype: np.dtype[Any], storage: str = "elements") -> Backend:
    """The fastest backend for arrays that live where ``array`` does (None: in the memory of the host).

    Raises `DTypeError` where no backend takes the combination, and `DeviceError` where a package is missing that
    computes on a GPU.
    """
    found = _backend(semiring, dtype, storage, named_backend(), array is not None and is_device_array(array))
    return _profiled(found) if profiling.active and profiling.collects() else found


def packs(semiring: Semiring, on_device: bool) -> bool:
    """Whether a backend takes truth values 32 to a word, on a GPU or in the memory of the host."""
    try:
        _backend(semiring, np.dtype(np.bool_), "bits", named_backend(), on_device)
    except DTypeError:
        return False
    return True


def device_backend(semiring: Semiring, dtype: np.dtype[Any], storage: str = "elements") -> Backend:
    """`backend_for` an array on a GPU."""
    found = _backend(semiring, dtype, storage, None, True)
    return _profiled(found) if profiling.active and profiling.collects() else found


def _profiled(backend: Any) -> Backend:
    from semiring.kernels.profiled import profiled

    return profiled(backend)


@lru_cache(maxsize=1024)
def _backend(semiring: Semiring, dtype: np.dtype[Any], storage: str, named: str | None, on_device: bool) -> Backend:
    for name in DEVICE_BACKENDS if on_device else [named] if named else BACKENDS:
        try:
            backend = get_backend(name)
        except MissingExtraError as error:
            raise DeviceError(str(error)) from error
        if backend.supports(semiring, dtype, storage):
            return backend
    semiring.check_dtype(dtype)
    if on_device and storage == "elements":
        raise DTypeError(f"{semiring.name} on {dtype} is not computed on a GPU: copy the operands to the host")
    raise DTypeError(f"{semiring.name} on {dtype} cannot be stored as {storage}: use one truth value an element")
