"""Define the rules, the results and the errors of a scan of an array's entries, in any memory."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from semiring.algebra import Semiring
from semiring.algebra.catalogue import max_times, plus_times
from semiring.algebra.expressions.tree import is_floating
from semiring.errors import DomainError
from semiring.namespaces import array_namespace

__all__ = ["PIECE", "IntegerRange", "Scan", "ScanRule", "limits_of", "refuse_entries", "rule_for"]

Array: TypeAlias = Any  # a NumPy array, on a GPU a CuPy array

# A scan reads the matrix in pieces that stay in the second-level cache. So the second reduction of a piece costs no
# memory traffic, and a temporary is never larger than a piece.
PIECE = 1 << 19  # bytes


class Scan(NamedTuple):
    """The result of one scan of an array.

    ``low`` and ``high`` are the least and greatest entries; for integers of min-plus and max-plus those of the
    *numbers*, without "no path". They are None if there is no such entry, and ``high`` also if the rule does not need
    it.
    """

    low: Any = None
    high: Any = None
    has_zero: bool = False  # integers of min-plus and max-plus only: some entry is "no path"
    nonnegative: bool = False  # no entry is below zero and no sign bit is set

    def __or__(self, other: Scan) -> Scan:
        """Return the scan of both arrays together."""
        lows = [scan.low for scan in (self, other) if scan.low is not None]
        highs = [scan.high for scan in (self, other) if scan.high is not None]
        return Scan(
            min(lows, default=None),
            max(highs, default=None),
            self.has_zero or other.has_zero,
            self.nonnegative and other.nonnegative,
        )


class IntegerRange(NamedTuple):
    """The range of an integer dtype."""

    min: int
    max: int
    half: int  # the size of "no path" inside a call


@cache
def limits_of(dtype: np.dtype[Any]) -> IntegerRange:
    """Return the least and the greatest integer of a dtype, and the size of "no path" inside a call."""
    limits = np.iinfo(dtype)
    return IntegerRange(int(limits.min), int(limits.max), int(limits.max) // 2)


@dataclass(frozen=True)
class ScanRule:
    """The reductions that a scan of a semiring's arrays of one dtype needs."""

    tropical: str | None  # "min" or "max": integers with a value for "no path"
    needs_no_scan: bool
    needs_high: bool
    restricted: bool  # some values of the dtype lie outside the domain
    floating: bool
    sign_view: np.dtype[Any] | None  # integers as wide as the floats, to see their sign bits; None of 16 bytes


@lru_cache(maxsize=1024)
def rule_for(semiring: Semiring, dtype: np.dtype[Any]) -> ScanRule:
    """Return what a scan of arrays of this dtype must find for this semiring."""
    tropical = semiring.tropical if dtype.kind == "i" else None
    restricted = not semiring.domain.everything and dtype.kind != "b"
    bounded_above = restricted and (semiring.domain.upper != np.inf or semiring.domain.upper_open)
    return ScanRule(
        tropical,
        needs_no_scan=dtype.kind in "bu" and not restricted,
        needs_high=bounded_above
        or semiring.tropical == "max"
        or semiring == max_times
        or (dtype.kind == "i" and semiring == plus_times),
        restricted=restricted,
        floating=is_floating(dtype),
        sign_view=np.dtype(f"i{dtype.itemsize}") if is_floating(dtype) and dtype.itemsize <= 8 else None,
    )


def _outside(values: Array, semiring: Semiring) -> Array:
    zero, one = semiring.zero_for(values.dtype), semiring.one_for(values.dtype)
    outside: Array = ~semiring.domain.contains(values) & (values != zero) & (values != one)
    return outside


def refuse_entries(array: Array, semiring: Semiring, name: str, *, nan: bool) -> None:
    """Raise `DomainError` for the first entry that is NaN, or with ``nan=False`` outside the domain, if any."""
    rows = array.reshape(1) if array.ndim == 0 else array
    step = max(1, PIECE // max(1, rows[0].nbytes)) if array_namespace(array) is np else rows.shape[0]
    for start in range(0, rows.shape[0], step):
        piece = rows[start : start + step]
        bad = piece != piece if nan else _outside(piece, semiring)
        if bad.any():
            first = np.unravel_index(int(bad.argmax()), bad.shape)
            position = (start + int(first[0]), *(int(index) for index in first[1:]))
            value = array.dtype.type(rows[position].item())
            if array.ndim == 0:
                position = ()
            where = f"{name}[{', '.join(map(str, position))}]" if position else name
            if value != value:
                zero = semiring.zero_for(array.dtype)
                raise DomainError(
                    f"{where} is nan, which is no element of any semiring; the zero of {semiring.name} is {zero}",
                    position,
                )
            hint = (
                f" (no edge in {semiring.name} is {semiring.zero_for(array.dtype)})"
                if value in (-np.inf, np.inf)
                else ""
            )
            raise DomainError(
                f"{where} is {value}, outside the domain {semiring.domain} of {semiring.name}{hint}", position
            )
