"""Define semirings by Python callables, and add closure methods of your own.

The functions of elements (`minimum`, `where`, `exp`, …) compute on arrays and scalars. Inside a callable that
`Semiring` traces, they are recorded. `register_method` adds an algorithm for closures to the library.

>>> import semiring as sr
>>> capped = sr.Semiring(
...     "capped",
...     lambda x, y: sr.extend.maximum(x, y),
...     lambda x, y: sr.extend.minimum(x + y, 9),
...     "-inf",
...     0,
...     domain=(0, 9),
... )
>>> float(capped.mul(5, 7))
9.0
"""

from semiring.algebra.expressions import absolute, exp, expm1, floor, log, log1p, maximum, minimum, sqrt, where
from semiring.algorithms.algorithm import Algorithm, Method
from semiring.algorithms.methods import register_method, unregister_method

__all__ = [
    "Algorithm",
    "Method",
    "absolute",
    "exp",
    "expm1",
    "floor",
    "log",
    "log1p",
    "maximum",
    "minimum",
    "register_method",
    "sqrt",
    "unregister_method",
    "where",
]
