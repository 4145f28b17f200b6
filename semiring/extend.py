"""Define semirings by Python callables, and add closure methods and rules of your own.

The functions of elements (`minimum`, `where`, `exp`, …) compute on arrays and scalars. Inside a callable that
`Semiring` traces, they are recorded. `register_method` and `register_rule` add a method or a rule to the library.

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
from semiring.algorithms.methods import Method, register_method, unregister_method
from semiring.closures.rules import register_rule, unregister_rule

__all__ = [
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
    "register_rule",
    "sqrt",
    "unregister_method",
    "unregister_rule",
    "where",
]
