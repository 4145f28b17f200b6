"""Speed data for processors without measurements, from the size and the number of their vector registers."""

from semiring.kernels.machines.speed_data import CpuSpeed

_FEW_REGISTERS = CpuSpeed(rows=4, vectors=2, heavy_rows=2, heavy_vectors=2)
_MANY_REGISTERS = CpuSpeed(rows=6, vectors=4, heavy_rows=4, heavy_vectors=2)

#: By (bytes of a vector, registers). A processor with AVX-512 uses the file of Zen 4, or its own.
SPEEDS: dict[tuple[int, int], CpuSpeed] = {
    (32, 16): _FEW_REGISTERS,  # AVX2
    (16, 32): _MANY_REGISTERS,  # NEON
    (16, 16): _FEW_REGISTERS,  # SSE2, and all other targets of LLVM
}
