"""Define the compile options and limits of the product of bits on tensor cores. `bit_products` launches it."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from semiring.algebra.expressions import Expression
from semiring.kernels.cuda.product.calls import ProductCall

_X, _Y = Expression("var", (), "x"), Expression("var", (), "y")
_AND, _OR, _XOR = (Expression(op, (_X, _Y)) for op in ("and", "or", "xor"))
TARGET = "sm_90a"  # the architecture with the instruction
DEPTH = 4096  # the bits of k at a time: for more bits, a sum needs more shared memory than a block may use
#: The bit pairs of a product from which on the tensor cores are faster.
_PAIRS = 1 << 34
#: By the slabs, of 1024 bits of k: the panels in shared memory, and the tiles of A in shared memory.
_SLABS = {1: (2, 16), 2: (2, 6), 4: (1, 3)}
#: By the slabs: the cost of the panel of the next unit, in pairs of tiles. Shared memory holds only one panel of 4
#: slabs, so a cluster waits for it.
_BETWEEN = {1: 0.5, 2: 0.3, 4: 1.0}
_ROUNDS = 64  # the most units that a cluster computes one after the other


def uses_tensor_cores(call: ProductCall, m: int, words: int, k: int, target: str) -> bool:
    """Return whether a product C (m, words) of k steps runs on the tensor cores of the target."""
    if target != TARGET or not call.words.has_bits or call.record or call.mul != _AND or call.add not in (_OR, _XOR):
        return False
    return m * 32 * words * k >= _PAIRS


def is_reachability(call: ProductCall) -> bool:
    """Return whether a call on packed bits is the product of relations: or and and."""
    return call.words.has_bits and (call.add, call.mul) == (_OR, _AND)


def is_parity(call: ProductCall) -> bool:
    """Return whether the ⊕ of a call is xor."""
    return call.add == _XOR


def slabs_for(depth: int) -> int:
    """Return the slabs of 1024 bits of k that the kernel multiplies at once."""
    return next(slabs for slabs in _SLABS if depth <= 1024 * slabs)


def shared_bytes(slabs: int) -> int:
    """Return the shared memory of a block of the product: panels, tiles, alignment and barriers."""
    panels, stages = _SLABS[slabs]
    return panels * slabs * 32768 + stages * slabs * 8192 + 1024 + 512


def defines(slabs: int, has_xor: bool, reads_result: bool, is_wide: bool, is_watched: bool = False) -> tuple[str, ...]:
    """Return the macros for the compiler of the product.

    ``has_xor``: whether ⊕ is xor, not or. ``reads_result``: whether the kernel reads C. ``is_wide``: whether the kernel
    reads and writes C in pairs of words. ``is_watched``: whether it reports changes of C.
    """
    macros = {"SLABS": slabs, "PARITY": has_xor, "READS": reads_result, "WIDE": is_wide, "WATCHED": is_watched}
    return tuple(f"-D{name}={value:d}" for name, value in macros.items())


def width_for(blocks: int, multiprocessors: int) -> int:
    """Return the words of a row that a block of the transpose reads: 32, or 16 if this gives too few blocks.

    ``blocks`` is the number of blocks for 32 words.
    """
    return 32 if blocks >= multiprocessors else 16


def transpose_shared_bytes(width: int) -> int:
    """Return the bytes of shared memory of a block of the transpose, as in bit_transpose.cu."""
    return width * (16 * width + 32 // width) * 4


def transpose_defines(width: int) -> tuple[str, ...]:
    """Return the macros for the compiler of the transpose."""
    return (f"-DWORDS={width}",)


@lru_cache(maxsize=1024)
def unit_for(slabs: int, pairs: int, columns: int, multiprocessors: int) -> int:
    """Return how many pairs of tiles of 64 rows a cluster of two blocks computes at a time, for the same columns.

    The rows are split into parts, and the units of all columns are assigned to the clusters in turn. The result is the
    split whose slowest cluster is predicted to end first.
    """
    clusters = max(1, multiprocessors // 2)
    between = _BETWEEN[slabs]

    def predict_end(parts: int) -> float:
        return -(-parts * columns // clusters) * (-(-pairs // parts) + between)

    most = max(1, min(pairs, _ROUNDS * clusters // columns))
    return -(-pairs // min(range(1, most + 1), key=predict_end))


@lru_cache(maxsize=1)
def product_source() -> str:
    """Return the source text of the product."""
    text = Path(__file__).with_name("bit_product.cu").read_text("utf-8")
    return text.replace("{ACCUMULATORS}", "{" + ", ".join(f"%{i}" for i in range(128)) + "}")


@lru_cache(maxsize=1)
def transpose_source() -> str:
    """Return the source text of the transpose of bits."""
    return Path(__file__).with_name("bit_transpose.cu").read_text("utf-8")
