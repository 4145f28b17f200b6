"""The speed data of Zen 4, measured on an EPYC of two cores.

Zen 4 has AVX-512, and 32 KB first-level and 1 MB second-level data cache a core. Processors with AVX-512 that match no
other table use these data too.
"""

from semiring.kernels.machines.speed_data import CpuSpeed

NAME, MEASURED = "Zen 4", "2026-11-20"
CPUS = ("znver4",)
FEATURES = ("avx512f",)

SPEED = CpuSpeed(rows=6, vectors=4, heavy_rows=4, heavy_vectors=2)
