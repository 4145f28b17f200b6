"""Choose the device that closes the matrix of a NetworkX graph, by ``nx.config.backends.semiring.device`` and size."""

from __future__ import annotations

import re
import sys
from typing import Any

from semiring.errors import DeviceError

__all__ = ["LEAST_VERTICES", "device_for"]

#: The number of vertices from which a GPU closes the matrix, as `benchmarks.gpu.compat` measures it. Distances are
#: faster from 512 vertices on, but by milliseconds, and the start of CUDA takes up to a second, once. Predecessors are
#: searched on the CPU in any case. Reachability of up to 8,192 vertices gains nothing, because Python makes the graph
#: of the result.
LEAST_VERTICES = {"distances": 2048, "predecessors": 2048, "reachability": 32768}

_GPU_LIBRARIES = ("cupy", "jax_cuda12_plugin", "jax_cuda13_plugin")


def device_for(task: str, n: int) -> Any:
    """Return the ``device=`` of a closure of n vertices for a ``task``, a key of `LEAST_VERTICES`; None for the CPU.

    Raises `DeviceError` if the configuration names no device or, for a graph of such a size, a missing GPU.
    """
    import networkx as nx

    setting = nx.config.backends.semiring.device
    names = [str(name) for name in (setting if isinstance(setting, tuple | list) else (setting,))]
    valid = names and all(re.fullmatch(r"cuda(:\d+)?", name) for name in names)
    if setting not in ("auto", "cpu", "cuda:*") and not valid:
        raise DeviceError(
            f"nx.config.backends.semiring.device is {setting!r}: set 'auto', 'cpu', 'cuda', 'cuda:1' or 'cuda:*'"
        )
    if setting == "cpu" or n < LEAST_VERTICES[task] or (setting == "auto" and not _has_loaded_gpu_library()):
        return None
    from semiring.arrays.device import check_device

    device = "cuda" if setting == "auto" else setting
    try:
        check_device(device)
    except DeviceError:
        if setting == "auto":
            return None
        raise
    return device


def _has_loaded_gpu_library() -> bool:
    """Return whether the process has loaded a library of GPUs. Scripts without one do not load CUDA."""
    cuda = getattr(getattr(sys.modules.get("torch"), "version", None), "cuda", None)
    return cuda is not None or any(name in sys.modules for name in _GPU_LIBRARIES)
