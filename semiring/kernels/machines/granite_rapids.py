"""Granite Rapids and its family since Sapphire Rapids: AVX-512, 48 KB first-level and 2 MB second-level data cache.

Both caches are those of a core. Virtual machines may report the name of an older processor. The unit that multiplies
tiles of matrices (AMX) identifies the family.
"""

from semiring.kernels.machines.speed_data import CpuSpeed

NAME, MEASURED = "Granite Rapids", "2026-11-22"
CPUS = ("graniterapids", "graniterapids-d", "emeraldrapids", "sapphirerapids")
FEATURES = ("avx512f", "amx-tile")

# Min-plus float32 on two cores: tiles of 8 × 3 as fast, of 12 × 2 and 14 × 2 slower by 4 and 12 %. Closures of 1024 and
# 2048 rows: two tasks for each thread 2 % faster than four, and 2 % again where threads wait for four times as long.
# A product of 128 × 128 × 128 takes no longer on one thread than it takes to wake another: closures of 256 rows with
# weights of both signs, which do other work between their products, lose 15 % on two.
SPEED = CpuSpeed(
    rows=6, vectors=4, heavy_rows=4, heavy_vectors=2, tasks=2, parallel_pairs=(1 << 21) + 1, patience=30_000
)
