"""The backends of the kernel contract (`semiring.kernels.contract`), imported when first asked for.

The environment variable SEMIRING_BACKEND names the one backend to use for arrays in the memory of the host:
``reference`` to rule out a fault of a fast one.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cache, lru_cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

from semiring.errors import DTypeError, UnknownNameError

if TYPE_CHECKING:
    from semiring.algebra import Semiring
    from semiring.kernels.contract import Backend

__all__ = ["BACKENDS", "backend_for", "get_backend"]

#: Where each backend lives, by name, in the order in which the host's arrays try them.
BACKENDS: Mapping[str, tuple[str, str]] = {
    "cpu": ("semiring.kernels.cpu", "CpuBackend"),
    "reference": ("semiring.kernels.reference", "ReferenceBackend"),
}


@cache
def get_backend(name: str) -> Backend:
    """The backend of that name; `UnknownNameError` lists the valid ones on a miss."""
    if name not in BACKENDS:
        raise UnknownNameError("backend", name, BACKENDS)
    module, attribute = BACKENDS[name]
    backend: Backend = getattr(import_module(module), attribute)()
    return backend


def backend_for(array: Any, semiring: Semiring, dtype: np.dtype[Any], storage: str = "elements") -> Backend:
    """The fastest backend for arrays that live where ``array`` does (None: in the memory of the host).

    Raises `DTypeError` where no backend takes the combination.
    """
    return _host_backend(semiring, dtype, storage)


@lru_cache(maxsize=1024)
def _host_backend(semiring: Semiring, dtype: np.dtype[Any], storage: str) -> Backend:
    forced = os.environ.get("SEMIRING_BACKEND")
    for name in [forced] if forced else BACKENDS:
        backend = get_backend(name)
        if backend.supports(semiring, dtype, storage):
            return backend
    semiring.check_dtype(dtype)
    raise DTypeError(f"{semiring.name} on {dtype} cannot be stored as {storage}: use one truth value an element")
