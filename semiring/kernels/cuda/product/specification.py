"""Define the inputs of a compiled kernel and of its launches, as plain data."""

from __future__ import annotations

from dataclasses import dataclass

from semiring.algebra.expressions import Expression, parse
from semiring.kernels.cuda.product.words import WordFormat

__all__ = ["FOLD_PARAMETERS", "PARAMETERS", "SEARCH_PARAMETERS", "THREADS", "Fold", "Product", "Search"]

#: The threads of a block in kernels with one thread for each entry.
THREADS = 256

#: The numbers of 8-byte and of 4-byte parameters of a product. The 8-byte parameters are the addresses of A, B, C and
#: P, the (row, column, batch) strides of A, B and C, and the (row, column) strides of P. The 4-byte parameters are m,
#: n, k, the inner size of one batch and its step, and the tiles of a run.
PARAMETERS = 15, 6
#: The same of the fold of partial results: the addresses of C and the parts, and the (row, column) strides of C; then
#: m, n and the number of parts.
FOLD_PARAMETERS = 4, 3
#: The same of the search for witnesses: the addresses of A, B, C, R and W, their (row, column) strides, and k0; then m,
#: n and k.
SEARCH_PARAMETERS = 16, 3


@dataclass(frozen=True)
class Product:
    """The specification of a compiled product besides its tile, which is the cache key.

    ``copy_a`` and ``copy_b`` name the copy of an operand. ``copy_c`` is ``"vector"`` or ``"word"``.

    - ``"vector"``: rows (columns) run fastest in memory, and are copied 16 bytes at a time.
    - ``"word"``: single words are copied, and k runs fastest.
    - ``"any"``: single words of any strides are copied.
    - ``"splat"``, for A only: elements of any strides are widened in registers.
    - ``"pieces"``, for A only: as ``"splat"``, but elements are read by 16 bytes along k.
    """

    add: str
    mul: str
    zero: int | float
    words: WordFormat
    accumulate: bool  # whether the kernel computes C ← C ⊕ A ⊗ B, not C ← A ⊗ B
    copy_a: str
    copy_b: str
    copy_c: str
    #: Whether float32 has no sign bits, and is compared as integers: one 3-input minimum for two pairs.
    ordered_bits: bool = False
    contract: bool = False  # whether x·y + z may round once
    record: bool = False  # whether P receives the last run of k in which an entry of C improved
    upper: bool = False  # whether the kernel skips the tiles of C below its diagonal

    @property
    def expressions(self) -> tuple[Expression, Expression]:
        """Return the expressions of ⊕ and ⊗."""
        return parse(self.add, ("x", "y")), parse(self.mul, ("x", "y"))


@dataclass(frozen=True)
class Fold:
    """The fold C ← (C ⊕) W₀ ⊕ W₁ ⊕ … of the partial results of a product whose k was split."""

    add: str
    words: WordFormat
    accumulate: bool


@dataclass(frozen=True)
class Search:
    """The search for witnesses: ⊗, the words, the length of a run, the size of a witness."""

    mul: str
    words: WordFormat
    run_length: int
    wide_witness: bool  # whether witnesses are int64, not int32
