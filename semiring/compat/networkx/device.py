"""Where the matrix of a NetworkX graph is closed: ``nx.config.backends.semiring.device``, and the sizes from which."""

from __future__ import annotations

import re
import sys
from typing import Any

from semiring.errors import DeviceError

__all__ = ["FROM", "device_for"]

#: Vertices from which a GPU closes the matrix, as `benchmarks.gpu.compat` measures it. Distances are faster from 512
#: vertices on, but by milliseconds, and the start of CUDA takes up to a second, once. Predecessors are searched on the
#: CPU in any case. Reachability of up to 8,192 vertices gains nothing, because Python makes the graph of the result.
FROM = {"distances": 2048, "predecessors": 2048, "reachability": 32768}

_GPU_LIBRARIES = ("cupy", "jax_cuda12_plugin", "jax_cuda13_plugin")


def device_for(what: str, n: int) -> Any:
    """Return the ``device=`` of the closure that finds ``what``, a key of `FROM`, of n vertices; None for the CPU.

    Raises `DeviceError` where the configuration names no device, or at these sizes a GPU that is not there.
    """
    import networkx as nx

    setting = nx.config.backends.semiring.device
    names = [str(name) for name in (setting if isinstance(setting, tuple | list) else (setting,))]
    valid = names and all(re.fullmatch(r"cuda(:\d+)?", name) for name in names)
    if setting not in ("auto", "cpu", "cuda:*") and not valid:
        raise DeviceError(
            f"nx.config.backends.semiring.device is {setting!r}: set 'auto', 'cpu', 'cuda', 'cuda:1' or 'cuda:*'"
        )
    if setting == "cpu" or n < FROM[what] or (setting == "auto" and not _uses_a_gpu()):
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


def _uses_a_gpu() -> bool:
    """Return whether the script has loaded a library of GPUs: what has not, pays nothing for one."""
    cuda = getattr(getattr(sys.modules.get("torch"), "version", None), "cuda", None)
    return cuda is not None or any(name in sys.modules for name in _GPU_LIBRARIES)
