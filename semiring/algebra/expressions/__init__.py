"""The typed expression trees of the operations of a semiring.

An operation is a Python callable or text. A callable is *traced*: it is called with `Traced` values, whose operators
build the tree. Python's parser parses text, and a whitelist checks the result. Text is never evaluated. The tree keeps
the order of the operations, because floating-point arithmetic is not associative. NumPy code, SIMD code, GPU code, CUDA
C++ and SymPy forms are all generated from the tree.

An expression has one of two kinds: ``"value"`` (an element of the semiring) or ``"truth"`` (the outcome of a
comparison). ``&``, ``|``, ``^``, ``~`` act bitwise on values, so they need an integer or boolean dtype. They act
logically on truths.

On every backend ``min`` and ``max`` return the other argument if one argument is NaN.
"""

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
    parse,
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
