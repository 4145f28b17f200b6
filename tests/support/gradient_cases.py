"""Provide the semirings that have a gradient, operands and dense products, for the tests of derivatives."""

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


def dense_product(library, logsumexp, A, B, name):
    """Return a product as an expression over all (i, k, j), of arrays of PyTorch or of JAX."""
    x, y = A[..., :, :, None], B[..., None, :, :]
    if name in ("plus_times", "max_times", "min_times"):
        terms = x * y
    elif name in ("max_min", "min_max"):
        terms = (library.minimum if name == "max_min" else library.maximum)(x, y)
    elif name == "lukasiewicz":
        terms = library.maximum(x + y - 1, library.zeros_like(x))
    else:
        terms = x + y
    if name == "plus_times":
        return terms.sum(-2)
    if name == "log_plus":
        return logsumexp(terms, -2)
    return (library.amin if name.startswith("min_") else library.amax)(terms, -2)
