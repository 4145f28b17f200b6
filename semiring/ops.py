"""Provide functions for the operations of a semiring that is defined by Python callables.

They compute on arrays and scalars. Inside a callable that `Semiring` traces, they are recorded.

>>> import semiring as sr
>>> capped = sr.Semiring(
...     "capped", lambda x, y: sr.ops.maximum(x, y), lambda x, y: sr.ops.minimum(x + y, 9), "-inf", 0, domain=(0, 9)
... )
>>> float(capped.mul(5, 7))
9.0
"""

from semiring.algebra.expressions import absolute, exp, expm1, floor, log, log1p, maximum, minimum, sqrt, where

__all__ = ["absolute", "exp", "expm1", "floor", "log", "log1p", "maximum", "minimum", "sqrt", "where"]
