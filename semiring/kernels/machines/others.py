"""Processors that nobody has measured, by the vectors and registers that they have: tiles follow from these counts."""

from semiring.kernels.machines.data import CpuSpeed

_FEW_REGISTERS = CpuSpeed(rows=4, vectors=2, heavy_rows=2, heavy_vectors=2)
_MANY_REGISTERS = CpuSpeed(rows=6, vectors=4, heavy_rows=4, heavy_vectors=2)

#: By (bytes of a vector, registers).
SPEEDS: dict[tuple[int, int], CpuSpeed] = {
    (64, 32): _MANY_REGISTERS,  # AVX-512
    (32, 16): _FEW_REGISTERS,  # AVX2
    (16, 32): _MANY_REGISTERS,  # NEON
    (16, 16): _FEW_REGISTERS,  # SSE2, and whatever else LLVM knows
}
