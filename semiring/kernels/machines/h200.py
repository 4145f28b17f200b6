"""H200: how closures on a GPU copy, and where they go another way; all GPUs use it.

Whole numbers, `benchmarks.gpu.narrow`: milliseconds in the dtype that came in and in int16, all checks included, of
complete graphs with weights from 1 to 1000: float64 23.1 and 4.9 at n = 4096, 171 and 24.7 at 8192; float32 5.8 and
4.8, 39.1 and 24.4. In int32 float64 took 7.3 and 41, with 60 edges a vertex of up to 2²⁰.
"""

from dataclasses import replace

from semiring.kernels.machines.data import ClosureSpeed

NAME, MEASURED = "H200", "2026-11-21"

_CLOSURES = ClosureSpeed(panel=8192, pack=64, graph=4096, narrow=(("int16", 8192),))
_OF_8_BYTES = replace(_CLOSURES, narrow=(("int16", 4096), ("int32", 4096)))


def closures(itemsize: int) -> ClosureSpeed:
    """The data for elements of that many bytes."""
    return _OF_8_BYTES if itemsize == 8 else _CLOSURES
