"""The typed expression tree behind every operation of a semiring.

An operation is written once, as a Python callable or as text. A callable is *traced*: it is called with `Traced`
values whose operators build the tree. Text is parsed by Python's own parser and walked by a whitelist; nothing is ever
evaluated. The tree keeps the order of the operations as written, because floating point is not algebra. NumPy code,
SIMD code, GPU code, CUDA C++ and SymPy all derive from it.

Two kinds of value exist: ``"value"`` (an element of the semiring) and ``"truth"`` (the outcome of a comparison). ``&``,
``|``, ``^``, ``~`` act bitwise on values, so they need an integer or boolean dtype, and logically on truths.

``min`` and ``max`` return the argument that is not NaN when one of them is, on every backend.
"""

from semiring.algebra.expressions.parsing import parse
from semiring.algebra.expressions.tracing import (
    Traced,
    absolute,
    exp,
    expm1,
    floor,
    log,
    log1p,
    maximum,
    minimum,
    sqrt,
    trace,
    where,
)
from semiring.algebra.expressions.tree import OPERATIONS, Constant, Expression, typed_constant

__all__ = [
    "OPERATIONS",
    "Constant",
    "Expression",
    "Traced",
    "absolute",
    "exp",
    "expm1",
    "floor",
    "log",
    "log1p",
    "maximum",
    "minimum",
    "parse",
    "sqrt",
    "trace",
    "typed_constant",
    "where",
]
