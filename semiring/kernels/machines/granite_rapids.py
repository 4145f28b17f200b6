"""Granite Rapids and its family since Sapphire Rapids: AVX-512, 48 KB first-level and 2 MB second-level data cache a
core.

Their virtual machines may give the name of an older processor; the unit that multiplies tiles of matrices tells them.
"""

from semiring.kernels.machines.data import CpuSpeed

NAME, MEASURED = "Granite Rapids", "2026-11-22"
CPUS = ("graniterapids", "graniterapids-d", "emeraldrapids", "sapphirerapids")
FEATURES = ("avx512f", "amx-tile")

SPEED = CpuSpeed(rows=6, vectors=4, heavy_rows=4, heavy_vectors=2)
