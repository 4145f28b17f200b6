"""Processors that nobody has measured, by the vectors and registers that they have: tiles follow from these counts."""

from semiring.kernels.machines.data import CpuSpeed

_FEW_REGISTERS = CpuSpeed(rows=4, vectors=2, heavy_rows=2, heavy_vectors=2)
_MANY_REGISTERS = CpuSpeed(rows=6, vectors=4, heavy_rows=4, heavy_vectors=2)

#: By (bytes of a vector, registers). AVX-512 is not here: a processor with it takes the file of Zen 4, or its own.
SPEEDS: dict[tuple[int, int], CpuSpeed] = {
    (32, 16): _FEW_REGISTERS,  # AVX2
    (16, 32): _MANY_REGISTERS,  # NEON
    (16, 16): _FEW_REGISTERS,  # SSE2, and whatever else LLVM knows
}
