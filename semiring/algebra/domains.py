"""Domains of semirings, the intervals of elements on which their laws hold."""

from __future__ import annotations

import math
import re
import sys
from dataclasses import dataclass
from typing import Any

import numpy as np

from semiring.advice import quote
from semiring.algebra.expressions import Constant
from semiring.algebra.expressions.tree import plain_number, plain_text
from semiring.errors import AlgebraError

__all__ = ["Domain"]


@dataclass(frozen=True)
class Domain:
    """An interval of the extended reals, on whose elements the laws of a semiring hold.

    Parameters
    ----------
    lower, upper : int or float
        The ends, within the range of float64. The defaults are -∞ and ∞.
    lower_open, upper_open : bool
        Whether the domain excludes the end.

    Raises
    ------
    AlgebraError
        If an end is not a number of float64, or the lower end is not below the upper end.

    Examples
    --------
    >>> positive = Domain(0, lower_open=True)
    >>> str(positive), positive.contains(0.0)
    ('(0, inf]', False)
    """

    lower: Constant = -math.inf
    upper: Constant = math.inf
    lower_open: bool = False
    upper_open: bool = False

    def __post_init__(self) -> None:
        for name in ("lower", "upper"):
            end = getattr(self, name)
            if (number := plain_number(end)) is not None:
                object.__setattr__(self, name, end := number)
            if number is None or (isinstance(end, int) and abs(end) > sys.float_info.max):
                raise AlgebraError(f"the end {quote(end)} of a domain is not a number of float64")
        if not self.lower < self.upper:
            raise AlgebraError(f"the domain {self} is empty: its lower end must lie below its upper end")

    @classmethod
    def of(cls, given: Domain | tuple[Constant | str, Constant | str] | str | None) -> Domain:
        """Return the domain of a pair of closed ends, of text, or of a domain.

        Parameters
        ----------
        given : Domain, tuple, str or None
            A pair of closed ends ``(0, 1)``, text such as ``"[0, inf)"``, or None for every number. The result for a
            `Domain` is the same object.

        Returns
        -------
        Domain
            The domain.

        Raises
        ------
        AlgebraError
            For any other argument, and for ends that `Domain` does not accept.
        """
        if given is None:
            return cls()
        if isinstance(given, Domain):
            return given
        if isinstance(given, str):
            match = re.fullmatch(r"\s*([\[(])\s*([^,\s]+)\s*,\s*([^,\s]+)\s*([\])])\s*", plain_text(given))
            try:
                if match is None:
                    raise ValueError
                lower, upper = (float(match[i]) for i in (2, 3))
            except ValueError:
                raise AlgebraError(
                    f"the domain {quote(given)} is not an interval such as '[0, inf)' or '(0, 1]'"
                ) from None
            return cls(lower, upper, match[1] == "(", match[4] == ")")
        try:
            lower, upper = (float(plain_text(end)) if isinstance(end, str) else end for end in given)
        except (TypeError, ValueError):
            raise AlgebraError(
                f"the domain {quote(given)} is not a pair (lower, upper) or text such as '[0, inf)'"
            ) from None
        return cls(lower, upper)

    @property
    def everything(self) -> bool:
        """Whether the domain contains every number."""
        return self == Domain()

    @property
    def samples(self) -> Any:
        """An array (count,) of some hundred float64 numbers of the domain, of all magnitudes and both signs."""
        sizes = np.concatenate([np.logspace(-8, 8, 129), np.linspace(0, 4, 33)])
        values = np.concatenate([-sizes[::-1], sizes, [np.inf, -np.inf]])
        return values[self.contains(values)]

    def contains(self, values: Any) -> Any:
        """Return entry by entry whether the values lie in the domain; NaN never does.

        Parameters
        ----------
        values : array or number
            Numbers of any shape, or a single number.

        Returns
        -------
        array of bool, or bool
            The truth for each value, of the shape of ``values``.
        """
        above = values > self.lower if self.lower_open else values >= self.lower
        below = values < self.upper if self.upper_open else values <= self.upper
        return above & below

    def __str__(self) -> str:
        lower, upper = (f"{end:g}" if float(f"{end:g}") == end else repr(end) for end in (self.lower, self.upper))
        return f"{'(' if self.lower_open else '['}{lower}, {upper}{')' if self.upper_open else ']'}"
