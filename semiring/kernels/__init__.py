"""Choose a backend of the kernel contract (`semiring.kernels.contract`).

A backend is imported at its first use. The environment variable SEMIRING_BACKEND names the only backend for arrays in
host memory, from the next call on. The value ``reference`` shows whether a fault lies in a fast backend.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from functools import cache, lru_cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

from semiring.errors import DeviceError, DTypeError, MissingExtraError, UnknownNameError
from semiring.namespaces import is_device_array

if TYPE_CHECKING:
    from semiring.algebra import Semiring
    from semiring.kernels.contract import Backend

#: When this process loaded the library, in seconds as of `time.time`: a source that is newer is not the code that runs.
LOAD_TIME = time.time()

#: The module and the class of each backend for arrays of the host, in the order in which they are tried.
BACKENDS: Mapping[str, tuple[str, str]] = {
    "cpu": ("semiring.kernels.cpu", "CpuBackend"),
    "reference": ("semiring.kernels.reference", "ReferenceBackend"),
}
#: The module and the class of each backend for arrays on a GPU.
DEVICE_BACKENDS: Mapping[str, tuple[str, str]] = {"cuda": ("semiring.kernels.cuda", "CudaBackend")}


@cache
def get_backend(name: str) -> Backend:
    """Return the backend of a name. `UnknownNameError` lists the valid names."""
    entries = {**BACKENDS, **DEVICE_BACKENDS}
    if name not in entries:
        raise UnknownNameError("backend", name, entries)
    module, attribute = entries[name]
    backend: Backend = getattr(import_module(module), attribute)()
    return backend


_VARIABLE = os.environ.encodekey("SEMIRING_BACKEND")


def named_backend() -> str | None:
    """Return the backend that SEMIRING_BACKEND names now, or None if the variable is empty or not set."""
    # os.environ encodes the key and raises on a miss, which takes 0.6 µs. The dict behind it takes 0.04 µs.
    value = os.environ._data.get(_VARIABLE)  # type: ignore[attr-defined]
    return os.fsdecode(value) if value else None


def backend_for(array: Any, semiring: Semiring, dtype: np.dtype[Any], storage: str = "elements") -> Backend:
    """Return the fastest backend for arrays in the memory of ``array``, which is None for host memory.

    Raises `DTypeError` if no backend supports the combination, and `DeviceError` if a package for the GPU is missing.
    """
    on_host = array is None or type(array) is np.ndarray  # saves the call in most cases
    return _backend(semiring, dtype, storage, named_backend(), not on_host and is_device_array(array))


def can_pack(semiring: Semiring, on_device: bool) -> bool:
    """Return whether a backend supports truth values that are packed 32 to a word, on a GPU or in host memory."""
    try:
        _backend(semiring, np.dtype(np.bool_), "bits", named_backend(), on_device)
    except DTypeError:
        return False
    return True


def device_backend(semiring: Semiring, dtype: np.dtype[Any], storage: str = "elements") -> Backend:
    """Return the backend that `backend_for` returns for an array on a GPU."""
    return _backend(semiring, dtype, storage, None, True)


@lru_cache(maxsize=1024)
def _backend(
    semiring: Semiring, dtype: np.dtype[Any], storage: str, backend_name: str | None, on_device: bool
) -> Backend:
    for name in DEVICE_BACKENDS if on_device else [backend_name] if backend_name else BACKENDS:
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
