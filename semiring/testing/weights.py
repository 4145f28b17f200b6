"""Draw the weights of random graphs: in the domain of the semiring, never its zero, and exact on request."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from semiring.algebra import Semiring
from semiring.errors import DomainError

__all__ = ["Weights", "draw_weights"]

Weights: TypeAlias = tuple[float, float] | None  # (low, high); None: an interval on which no cycle improves


def draw_weights(
    count: int, semiring: Semiring, dtype: np.dtype[Any], weights: Weights, integer: bool, rng: np.random.Generator
) -> np.ndarray:
    """Return ``count`` weights of edges, never the semiring's zero, by the rules in `semiring.testing.graphs`."""
    zero = semiring.zero_for(dtype)
    if dtype.kind == "b":
        return np.full(count, ~zero)
    low, high = _default_weights(semiring, dtype) if weights is None else weights
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        low, high = max(int(low), limits.min), min(int(high), limits.max)
    if not low <= high or not bool(np.all(semiring.domain.contains(np.array([low, high], np.float64)))):
        raise DomainError(f"the weights {weights} are not an interval (low, high) within the domain {semiring.domain}")
    if dtype.kind in "iu" or integer:
        low, high = int(low) + (int(low) == zero), int(high) - (int(high) == zero)
        if low > high:
            raise DomainError(f"the weights {weights} leave no whole number but the zero of {semiring.name}")
        drawn = rng.integers(low, high, count, endpoint=True, dtype=dtype if dtype.kind in "iu" else np.int64)
        drawn = drawn.astype(dtype)
    else:
        drawn = (low + (high - low) * rng.random(count)).astype(dtype)
    # A zero within the interval would be no edge, so an end of the interval that is not zero replaces it.
    drawn[drawn == zero] = high if high != zero else low
    if count and bool((drawn == zero).any()):
        raise DomainError(f"the weights {weights} hold nothing but the zero of {semiring.name}")
    return drawn


def _default_weights(semiring: Semiring, dtype: np.dtype[Any]) -> tuple[float, float]:
    """Return an interval within the domain on which no cycle improves (1 ⊕ a = 1), else just one within the domain."""
    upper = semiring.domain.upper
    if dtype.kind in "iu":
        upper = min(upper, np.iinfo(dtype).max)
    candidates = [(low, min(high, upper)) for low, high in ((1, 1000), (-1000, -1), (0.5, 1))]
    intervals = [interval for interval in candidates if _is_valid_interval(interval, semiring, dtype)]
    if not intervals:
        raise DomainError(f"give weights=(low, high) within the domain {semiring.domain} of {semiring.name}")
    one = semiring.one_for(dtype)
    harmless = [ends for ends in intervals if bool(np.all(semiring.add(one, np.array(ends, dtype)) == one))]
    return (harmless or intervals)[0]


def _is_valid_interval(interval: tuple[float, float], semiring: Semiring, dtype: np.dtype[Any]) -> bool:
    low, high = interval
    if dtype.kind in "iu" and (low < np.iinfo(dtype).min or low != int(low)):
        return False
    return low < high and bool(np.all(semiring.domain.contains(np.array([low, high], np.float64))))
