"""The speed data of the H200: the widths of copies in closures, and the sizes from which on other code runs.

All GPUs use these data. docs/narrow.md has the speedups of whole numbers in narrower integers, and explains why the
sums stay exact.
"""

from dataclasses import replace

from semiring.kernels.machines.speed_data import ClosureSpeed

NAME, MEASURED = "H200", "2026-11-21"

_CLOSURES = ClosureSpeed(panel=8192, pack=64, graph=4096, narrow=(("int16", 8192),))
# Truth values are closed as bits: 32768 columns are 4096 bytes a row, and each panel costs the host two launches.
_OF_1_BYTE = replace(_CLOSURES, panel=1 << 15)
# The launches for bits are recorded up to matrices of 128 MiB: the host takes longer to enqueue a round than 0.8 ms.
_BITS = replace(_OF_1_BYTE, graph=1 << 15)
_OF_8_BYTES = replace(_CLOSURES, narrow=(("int16", 4096), ("int32", 4096)))


def closures(itemsize: int, storage: str) -> ClosureSpeed:
    """Return the data for elements of ``itemsize`` bytes, or for bits."""
    if storage == "bits":
        return _BITS
    return {1: _OF_1_BYTE, 8: _OF_8_BYTES}.get(itemsize, _CLOSURES)
