"""The speed data of processors and of GPUs, with the measurements that they come from.

Virtual machines may report the name of an older processor, so a table also names the features of its processors.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from semiring.kernels.machines.speed_data import ClosureSpeed, CpuSpeed


@dataclass(frozen=True)
class ProcessorTable:
    """The speed data of processors with certain names, or with certain features, as LLVM gives them."""

    name: str
    measurement_day: str  # an ISO date; empty if the data were derived
    cpus: tuple[str, ...]
    features: tuple[str, ...]
    speed: CpuSpeed


# Granite Rapids and its family since Sapphire Rapids: AVX-512, 48 KB first-level and 2 MB second-level data cache a
# core. The unit that multiplies tiles of matrices (AMX) identifies the family. Measured with min-plus in float32 on two
# cores. Tiles of 8 × 3 are as fast; tiles of 12 × 2 and 14 × 2 are slower by 4 and 12 %. In closures of 1024 and 2048
# rows, two tasks for each thread are 2 % faster than four. Waiting four times as long gains another 2 %. A product of
# 128 × 128 × 128 on one thread takes no longer than waking a second thread. Closures of 256 rows with weights of both
# signs do other work between their products, and are 15 % slower on two threads.
_GRANITE_RAPIDS = ProcessorTable(
    "Granite Rapids",
    "2026-11-22",
    ("graniterapids", "graniterapids-d", "emeraldrapids", "sapphirerapids"),
    ("avx512f", "amx-tile"),
    CpuSpeed(rows=6, vectors=4, heavy_rows=4, heavy_vectors=2, tasks=2, parallel_pairs=(1 << 21) + 1, patience=30_000),
)

# Zen 4: AVX-512, 32 KB first-level and 1 MB second-level data cache a core. Measured on an EPYC of two cores.
# Processors with AVX-512 that match no other table use these data too.
_ZEN_4 = ProcessorTable(
    "Zen 4", "2026-11-20", ("znver4",), ("avx512f",), CpuSpeed(rows=6, vectors=4, heavy_rows=4, heavy_vectors=2)
)

# Zen 5: AVX-512, 48 KB first-level and 1 MB second-level data cache a core. The unit that intersects vectors, together
# with AVX-VNNI, identifies it. Zen 5 of a server issues twice as many 512-bit operations a cycle as Zen 4: two pairs of
# min-plus in float32. From these counts follows:
#
# - Tiles: 32 registers of 64 bytes, as on Zen 4. A tile of 6 × 4 takes 10 loads in the 12 cycles of its 24 pairs. The
#   processor loads two vectors a cycle, and 24 independent accumulators cover every latency. The only tile that fits
#   and loads less for each pair is 5 × 5, by 4 %.
# - ``depth``, ``packed``: the second-level cache is as large as on Zen 4.
# - ``task_pairs``, ``parallel_pairs``: a product takes half the time there, so the sizes from which threads pay may be
#   twice as large. They are those of Zen 4. `semiring tune` compares sizes up to twice as large. On an EPYC of two
#   cores it found no number that was clearly faster than that of Zen 4.
_ZEN_5 = ProcessorTable("Zen 5", "", ("znver5",), ("avx512f", "avx512vp2intersect", "avxvnni"), _ZEN_4.speed)

PROCESSORS = (_GRANITE_RAPIDS, _ZEN_5, _ZEN_4)  # the first match counts

_FEW_REGISTERS = CpuSpeed(rows=4, vectors=2, heavy_rows=2, heavy_vectors=2)
#: Speed data for processors without measurements, by the bytes and the number of their vector registers.
BY_VECTORS: dict[tuple[int, int], CpuSpeed] = {
    (32, 16): _FEW_REGISTERS,  # AVX2
    (16, 32): CpuSpeed(rows=6, vectors=4, heavy_rows=4, heavy_vectors=2),  # NEON
    (16, 16): _FEW_REGISTERS,  # SSE2, and all other targets of LLVM
}

# The data of the H200, measured on 2026-11-21, which all GPUs use. docs/narrow.md has the speedups of whole numbers in
# narrower integers, and explains why the sums stay exact.
_CLOSURES = ClosureSpeed(panel=8192, pack=64, graph=4096, narrow=(("int16", 8192),))
# Truth values are closed as bits: 32768 columns are 4096 bytes a row, and each panel costs the host two launches.
_OF_1_BYTE = replace(_CLOSURES, panel=1 << 15)
# The launches for bits are recorded up to matrices of 128 MiB: the host takes longer to enqueue a round than 0.8 ms.
_BITS = replace(_OF_1_BYTE, graph=1 << 15)
_OF_8_BYTES = replace(_CLOSURES, narrow=(("int16", 4096), ("int32", 4096)))


def gpu_closures(itemsize: int, storage: str) -> ClosureSpeed:
    """Return the data of closures on a GPU for elements of ``itemsize`` bytes, or for bits."""
    if storage == "bits":
        return _BITS
    return {1: _OF_1_BYTE, 8: _OF_8_BYTES}.get(itemsize, _CLOSURES)
