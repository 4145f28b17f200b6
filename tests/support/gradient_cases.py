"""Provide the semirings that have a gradient, and operands, for the tests of derivatives in every library."""

from __future__ import annotations

import math

#: The semirings of the catalogue whose products and closures can be differentiated.
NAMES = [
    *("min_plus", "max_plus", "max_min", "min_max", "max_times", "min_times"),
    *("plus_times", "log_plus", "lukasiewicz"),
]


def draw_weights(rng, name, shape, *, has_closure=False):
    """Return random float64 entries far from ties, or with ``has_closure`` of a matrix whose closure exists."""
    values = rng.random(shape)
    if name == "min_times":
        return values + 1
    if name == "lukasiewicz":
        return values * 0.3 + 0.7
    if has_closure and name in ("max_plus", "log_plus"):
        return values - 1 - math.log(shape[-1] + 1)
    if has_closure and name == "plus_times":
        return (values - 0.4) / shape[-1]
    return values
