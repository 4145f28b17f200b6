"""Zen 4: AVX-512, 32 KB first-level and 1 MB second-level data cache a core; measured on an EPYC of two cores.

All other processors with AVX-512 start from these data.
"""

from semiring.kernels.machines.speed_data import CpuSpeed

NAME, MEASURED = "Zen 4", "2026-11-20"
CPUS = ("znver4",)
FEATURES = ("avx512f",)

SPEED = CpuSpeed(rows=6, vectors=4, heavy_rows=4, heavy_vectors=2)
