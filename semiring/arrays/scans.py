"""Define the rules, the results and the errors of a scan of an array's entries, in any memory."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any, NamedTuple

import numpy as np

from semiring.algebra import Semiring
from semiring.algebra.catalogue import max_times, plus_times
from semiring.algebra.expressions.tree import is_floating
from semiring.errors import DomainError
from semiring.namespaces import Array, array_namespace

__all__ = [
    "PIECE",
    "IntegerRange",
    "Scan",
    "ScanRule",
    "limits_of",
    "raise_for_entry",
    "refuse_unbounded",
    "rule_for",
    "unbounded_error",
]


# A scan reads the matrix in pieces that stay in the second-level cache. So the second reduction of a piece costs no
# memory traffic, and a temporary is never larger than a piece.
PIECE = 1 << 19  # bytes


class Scan(NamedTuple):
    """The result of one scan of an array.

    ``low`` and ``high`` are the least and the greatest entry. For integers of min-plus and max-plus, entries that are
    "no path" do not count. Both are None if no entry counts. ``high`` is also None if the rule does not need it.
    """

    low: Any = None
    high: Any = None
    has_zero: bool = False  # whether some entry is "no path"; for integers of min-plus and max-plus only
    nonnegative: bool = False  # whether no entry is below zero and no sign bit is set

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
    half: int  # max // 2: the magnitude of "no path" in the kernels' encoding


@cache
def limits_of(dtype: np.dtype[Any]) -> IntegerRange:
    """Return the least and the greatest integer of a dtype, and the magnitude of "no path" in the kernels' encoding."""
    limits = np.iinfo(dtype)
    return IntegerRange(int(limits.min), int(limits.max), int(limits.max) // 2)


@dataclass(frozen=True)
class ScanRule:
    """The reductions that a scan of a semiring's arrays of one dtype needs."""

    tropical: str | None  # "min" or "max" for integers with a value for "no path", else None
    needs_no_scan: bool
    needs_high: bool
    is_restricted: bool  # whether some values of the dtype lie outside the domain
    is_floating: bool
    #: The integer dtype that shows the sign bits of floats; None for other dtypes, and for floats of 16 bytes.
    sign_view: np.dtype[Any] | None


@lru_cache(maxsize=1024)
def rule_for(semiring: Semiring, dtype: np.dtype[Any]) -> ScanRule:
    """Return the reductions that a scan of arrays of this dtype needs for this semiring."""
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
        is_restricted=restricted,
        is_floating=is_floating(dtype),
        sign_view=np.dtype(f"i{dtype.itemsize}") if is_floating(dtype) and dtype.itemsize <= 8 else None,
    )


def _is_outside_domain(values: Array, semiring: Semiring) -> Array:
    """Return a mask of the values that are outside the domain, and are neither the zero nor the one."""
    zero, one = semiring.zero_for(values.dtype), semiring.one_for(values.dtype)
    outside: Array = ~semiring.domain.contains(values) & (values != zero) & (values != one)
    return outside


def raise_for_entry(array: Array, semiring: Semiring, name: str, *, nan: bool) -> None:
    """Raise `DomainError` if an entry is NaN, or with ``nan=False`` outside the domain.

    It names the first such entry.
    """
    rows = array.reshape(1) if array.ndim == 0 else array
    step = max(1, PIECE // max(1, rows[0].nbytes)) if array_namespace(array) is np else rows.shape[0]
    for start in range(0, rows.shape[0], step):
        piece = rows[start : start + step]
        bad = piece != piece if nan else _is_outside_domain(piece, semiring)
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


def refuse_unbounded(array: Array, scan: Scan, semiring: Semiring) -> None:
    """Raise `DomainError` with the first edge of unbounded gain: -∞ in min-plus, ∞ in max-plus.

    ``scan`` is the result of a scan of the array, which is read again only if it has such an edge. A path over such an
    edge would have no finite weight, whatever its other edges are.
    """
    end = scan.high if semiring.tropical == "max" else scan.low
    gain = -semiring.zero_for(np.float64)
    if array.dtype.kind in "iu" or end is None or end != gain:
        return
    for row, part in enumerate(array):
        found = part == gain
        if found.any():
            position = (row, *(int(index) for index in np.unravel_index(int(found.argmax()), found.shape)))
            raise unbounded_error(gain, position, semiring)


def unbounded_error(gain: float, position: tuple[int, ...], semiring: Semiring) -> DomainError:
    """Return the error for an edge of unbounded gain at a position of A."""
    return DomainError(
        f"A[{', '.join(map(str, position))}] is {gain}, an edge of unbounded gain, over which no path has "
        f"a finite weight: give it a finite weight, or remove it (no edge in {semiring.name} is {-gain})",
        position,
    )
