"""The properties of a CPU that the code generator uses: vector width, registers, and fast instructions."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, cached_property


@dataclass(frozen=True)
class Target:
    """A CPU, with the names and features that LLVM gives it."""

    triple: str
    cpu: str = ""
    features: str = ""

    def has(self, feature: str) -> bool:
        return f"+{feature}" in self.features.split(",")

    @property
    def is_x86(self) -> bool:
        return self.triple.startswith(("x86_64", "i686", "amd64"))

    @property
    def is_arm64(self) -> bool:
        return self.triple.startswith(("aarch64", "arm64"))

    @cached_property  # cached, because small products read it
    def has_avx512(self) -> bool:
        """Whether the CPU has the AVX-512 of every core since Skylake-X, with bytes, words, and shorter vectors."""
        return self.is_x86 and all(self.has(f"avx512{part}") for part in ("f", "bw", "vl", "dq"))

    @property
    def has_avx2(self) -> bool:
        return self.is_x86 and self.has("avx2")

    @property
    def vector_bytes(self) -> int:
        return 64 if self.has_avx512 else 32 if self.has_avx2 else 16

    @property
    def registers(self) -> int:
        return 32 if self.has_avx512 or self.is_arm64 else 16

    @property
    def sums_by_fma(self) -> bool:
        """Whether x + y inside ⊗ becomes fma(x, 1, y).

        The result is bitwise identical. On x86, additions and minima compete for the same pipes while the multiply-add
        pipes idle. On Zen 4 this doubles the speed, and on other x86 processors it costs nothing. On arm64, fmla
        overwrites its addend, so it would cost a move.
        """
        return self.is_x86 and self.has("fma")

    @property
    def has_minnum(self) -> bool:
        """Whether one instruction is a minimum that drops NaN, as IEEE's minNum (arm64's fminnm) does."""
        return self.is_arm64


@cache
def host() -> Target:
    """Return the CPU for which Numba compiles in this process, by NUMBA_CPU_NAME and NUMBA_CPU_FEATURES if set."""
    # The import loads Numba, which other targets do not need.
    from semiring.kernels.cpu.codegen.numba_internals import host_tuple

    return Target(*host_tuple())
