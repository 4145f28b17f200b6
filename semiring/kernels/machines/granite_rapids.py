"""Granite Rapids and its family since Sapphire Rapids: AVX-512, 48 KB first-level and 2 MB second-level data cache.

Both caches are those of a core. Virtual machines may report the name of an older processor. The unit that multiplies
tiles of matrices (AMX) identifies the family.
"""

from semiring.kernels.machines.speed_data import CpuSpeed

NAME, MEASURED = "Granite Rapids", "2026-11-22"
CPUS = ("graniterapids", "graniterapids-d", "emeraldrapids", "sapphirerapids")
FEATURES = ("avx512f", "amx-tile")

# Measured with min-plus in float32 on two cores. Tiles of 8 × 3 are as fast; tiles of 12 × 2 and 14 × 2 are slower by 4
# and 12 %. In closures of 1024 and 2048 rows, two tasks for each thread are 2 % faster than four. Waiting four times as
# long gains another 2 %. A product of 128 × 128 × 128 on one thread takes no longer than waking a second thread.
# Closures of 256 rows with weights of both signs do other work between their products, and are 15 % slower on two
# threads.
SPEED = CpuSpeed(
    rows=6, vectors=4, heavy_rows=4, heavy_vectors=2, tasks=2, parallel_pairs=(1 << 21) + 1, patience=30_000
)
