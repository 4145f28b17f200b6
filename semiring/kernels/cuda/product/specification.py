"""Define the inputs of a compiled kernel and of its launches, as plain data."""

from __future__ import annotations

from dataclasses import dataclass

from semiring.algebra.expressions import Expression, parse
from semiring.kernels.cuda.product.words import WordFormat

__all__ = ["FOLD_PARAMETERS", "PARAMETERS", "SEARCH_PARAMETERS", "THREADS", "Fold", "Product", "Search"]

#: Threads of a block in kernels with one thread for each entry.
THREADS = 256

#: The numbers of 8-byte and 4-byte parameters of a product. In order: the addresses of A, B, C, P; (row, column, batch)
#: strides of A, B, C and (row, column) strides of P; m, n, k; the inner size of one batch and its step; tiles of a run;
#: the first pivot.
PARAMETERS = 15, 7
#: Of the fold of partial results: the addresses of C and the parts; (row, column) strides of C; m, n, parts.
FOLD_PARAMETERS = 4, 3
#: Of the search for witnesses: the addresses of A, B, C, R, W; their (row, column) strides; k0; m, n, k.
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
    accumulate: bool  # C ← C ⊕ A ⊗ B rather than C ← A ⊗ B
    copy_a: str
    copy_b: str
    copy_c: str
    ordered_bits: bool = False  # float32 without sign bits, compared as integers: one 3-input minimum for two pairs
    contract: bool = False  # x·y + z may round once
    record: bool = False  # keep the last run of k in which an entry of C improved
    upper: bool = False  # skip the tiles of C below its diagonal

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
    run: int
    wide_witness: bool  # int64 rather than int32
