"""The nodes of an expression tree: their kinds, their text and their evaluation on arrays."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from numbers import Number, Rational
from types import ModuleType
from typing import Any, Literal, TypeAlias

import numpy as np

from semiring.advice import quote
from semiring.errors import DTypeError, ExpressionError

__all__ = [
    "OPERATIONS",
    "Constant",
    "Expression",
    "array_functions",
    "as_operation",
    "constant",
    "float_limits",
    "is_bfloat16",
    "is_floating",
    "is_half",
    "plain_number",
    "plain_text",
    "scalar_like",
    "typed_constant",
]

Kind: TypeAlias = Literal["value", "truth"]
Constant: TypeAlias = bool | int | float

MAX_SIZE = 1_000  # nodes of a tree, where a shared node counts once for each occurrence
MAX_DEPTH = 100
MAX_BITS = 1_023  # bits of an integer constant, so that it fits float64


@dataclass(frozen=True)
class NodeType:
    """The type of a node: the number and kinds of its arguments, the kind of its result, and its text."""

    name: str
    arity: int
    form: str  # a format string over {0}, {1}, ... with the precedences of Python
    precedence: int
    result: Kind | None = "value"  # None means the kind of the arguments
    #: The kind of each argument. () means that all are "value". None admits both kinds, but the same for all arguments.
    arguments: tuple[Kind | None, ...] = ()
    domain: Literal["any", "arithmetic", "float", "bits"] = "any"  # the dtypes on which the operation is defined
    #: How a float result is rounded: never, to the nearest number, or differently in each library.
    rounding: Literal["exact", "nearest", "inexact"] = "exact"
    #: Whether the result may be -0.0 if no argument is.
    makes_negative_zeros: bool = False


_CALL_PRECEDENCE = 100
_NODE_TYPES = [
    NodeType("add", 2, "{0} + {1}", 60, domain="arithmetic", rounding="nearest"),
    NodeType("sub", 2, "{0} - {1}", 60, domain="arithmetic", rounding="nearest"),
    NodeType("mul", 2, "{0} * {1}", 70, domain="arithmetic", rounding="nearest", makes_negative_zeros=True),
    NodeType("div", 2, "{0} / {1}", 70, domain="float", rounding="nearest", makes_negative_zeros=True),
    NodeType("neg", 1, "-{0}", 80, domain="arithmetic", makes_negative_zeros=True),
    NodeType("abs", 1, "abs({0})", _CALL_PRECEDENCE, domain="arithmetic"),
    NodeType("min", 2, "min({0}, {1})", _CALL_PRECEDENCE),
    NodeType("max", 2, "max({0}, {1})", _CALL_PRECEDENCE),
    NodeType("exp", 1, "exp({0})", _CALL_PRECEDENCE, domain="float", rounding="inexact"),
    NodeType("expm1", 1, "expm1({0})", _CALL_PRECEDENCE, domain="float", rounding="inexact"),
    NodeType("log", 1, "log({0})", _CALL_PRECEDENCE, domain="float", rounding="inexact"),
    NodeType("log1p", 1, "log1p({0})", _CALL_PRECEDENCE, domain="float", rounding="inexact"),
    NodeType("sqrt", 1, "sqrt({0})", _CALL_PRECEDENCE, domain="float", rounding="nearest"),
    NodeType("floor", 1, "floor({0})", _CALL_PRECEDENCE, domain="float"),
    NodeType("and", 2, "{0} & {1}", 50, None, (None, None), "bits"),
    NodeType("xor", 2, "{0} ^ {1}", 45, None, (None, None), "bits"),
    NodeType("or", 2, "{0} | {1}", 40, None, (None, None), "bits"),
    NodeType("invert", 1, "~{0}", 80, None, (None,), "bits"),
    NodeType("lt", 2, "{0} < {1}", 30, "truth"),
    NodeType("le", 2, "{0} <= {1}", 30, "truth"),
    NodeType("gt", 2, "{0} > {1}", 30, "truth"),
    NodeType("ge", 2, "{0} >= {1}", 30, "truth"),
    NodeType("eq", 2, "{0} == {1}", 30, "truth"),
    NodeType("ne", 2, "{0} != {1}", 30, "truth"),
    NodeType("where", 3, "where({0}, {1}, {2})", _CALL_PRECEDENCE, "value", ("truth", "value", "value")),
]
OPERATIONS: Mapping[str, NodeType] = {operation.name: operation for operation in _NODE_TYPES}


@dataclass(frozen=True, eq=False, repr=False)
class Expression:
    """A node, which is a variable (``op="var"``), a constant (``op="const"``) or an operation of `OPERATIONS`.

    Immutable, hashable and equal by structure. ``str(expression)`` is text that `parse` turns back into the same tree,
    and the key under which compiled kernels are cached.
    """

    op: str
    args: tuple[Expression, ...] = ()
    leaf: str | Constant | None = None

    def __post_init__(self) -> None:
        if self.op in ("var", "const"):
            self._check_leaf()
            return
        if self.size > MAX_SIZE or self.depth > MAX_DEPTH:
            raise ExpressionError(
                f"the expression has {self.size} nodes, {self.depth} deep: "
                f"at most {MAX_SIZE} and {MAX_DEPTH} are allowed"
            )
        operation = OPERATIONS.get(self.op)
        if operation is None or len(self.args) != operation.arity or self.leaf is not None:
            raise ExpressionError(f"no operation is named {quote(self.op)} and takes {len(self.args)} arguments")
        expected = operation.arguments or ("value",) * operation.arity
        kinds = tuple(arg.kind for arg in self.args)
        alike = {kind for kind, expected_kind in zip(kinds, expected, strict=True) if expected_kind is None}
        if len(alike) > 1 or any(w is not None and w != k for w, k in zip(expected, kinds, strict=True)):
            raise ExpressionError(
                f"{self}: {self.op} was given ({', '.join(kinds)}) and takes "
                f"({', '.join(w or 'either' for w in expected)}{', all alike' if None in expected[1:] else ''}); "
                "a comparison is a truth value: make it an element by where(truth, a, b)"
            )

    def _check_leaf(self) -> None:
        """Raise `ExpressionError` unless a variable is an identifier or a constant is a Python number.

        `parse` reads back the text of such leaves.
        """
        if self.args:
            raise ExpressionError(f"a {self.op} has no arguments")
        if self.op == "var":
            if not isinstance(self.leaf, str) or not self.leaf.isidentifier():
                raise ExpressionError(f"{quote(self.leaf)} is not the name of a variable")
        elif type(self.leaf) not in (bool, int, float):
            raise ExpressionError(f"{quote(self.leaf)} of type {type(self.leaf).__name__} cannot be a constant")
        elif isinstance(self.leaf, int) and self.leaf.bit_length() > MAX_BITS:
            raise ExpressionError(f"a constant of {self.leaf.bit_length()} bits is beyond every dtype")

    # Sizes are counted bottom-up and cached, so that a tree of 2**1000 virtual nodes fails at once.
    @cached_property
    def size(self) -> int:
        return 1 + sum(arg.size for arg in self.args)

    @cached_property
    def depth(self) -> int:
        return 1 + max((arg.depth for arg in self.args), default=0)

    @cached_property
    def kind(self) -> Kind:
        if self.op in ("var", "const"):
            return "value"
        return OPERATIONS[self.op].result or self.args[0].kind

    @cached_property
    def text(self) -> str:
        if self.op == "var":
            return str(self.leaf)
        if self.op == "const":
            return repr(self.leaf)
        operation = OPERATIONS[self.op]
        return operation.form.format(*(self._argument_text(i, operation) for i in range(operation.arity)))

    def _argument_text(self, index: int, operation: NodeType) -> str:
        arg = self.args[index]
        if operation.precedence == _CALL_PRECEDENCE:
            return arg.text
        if self.op == "neg" and arg.op == "const" and not isinstance(arg.leaf, bool):
            return f"(+{arg.text})"  # the text -2 is a constant, and -(+2) the negation of the constant 2
        own = operation.precedence + (1 if index or operation.result == "truth" else 0)  # left-associative
        inner = (
            _CALL_PRECEDENCE
            if arg.op == "var"
            else OPERATIONS[arg.op].precedence
            if arg.op != "const"
            else _CALL_PRECEDENCE
        )
        if arg.op == "const" and arg.text.startswith("-"):
            inner = 0
        return f"({arg.text})" if inner < own else arg.text

    # Text and tree determine each other, so the cached text decides equality. It distinguishes 0.0 from -0.0, and 1
    # from 1.0.
    def __eq__(self, other: object) -> bool:
        return self.text == other.text if isinstance(other, Expression) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.text)

    def __reduce__(self) -> tuple[object, ...]:
        return Expression, (self.op, self.args, self.leaf)

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"Expression({self.text!r})"

    def walk(self) -> Iterator[Expression]:
        """Yield every node, with arguments before the operation that uses them."""
        for arg in self.args:
            yield from arg.walk()
        yield self

    @cached_property
    def variables(self) -> frozenset[str]:
        return frozenset(str(node.leaf) for node in self.walk() if node.op == "var")

    @cached_property
    def operations(self) -> frozenset[str]:
        return frozenset(node.op for node in self.walk() if node.args)

    def substitute(self, replacements: Mapping[str, Expression]) -> Expression:
        """Return the tree with variables replaced by other trees."""
        if self.op == "var":
            return replacements.get(str(self.leaf), self)
        if not self.args:
            return self
        return Expression(self.op, tuple(arg.substitute(replacements) for arg in self.args))

    def fold(self, leaf: Callable[[Expression], Any], node: Callable[[Expression, list[Any]], Any]) -> Any:
        """Translate the tree bottom-up: ``leaf`` translates variables and constants, ``node`` the operations.

        Equal subtrees are translated once. Every backend lowers expressions with this method.
        """
        return _fold(self, leaf, node, {})

    def may_be_nan(self, nan_variables: str = "") -> bool:
        """Return whether a floating-point evaluation can give NaN if only the variables ``nan_variables`` can be NaN.

        Each letter of ``nan_variables`` is the name of a variable.
        """
        if not self.args:
            return str(self.leaf) in nan_variables if self.op == "var" else self.leaf != self.leaf
        inner = [arg.may_be_nan(nan_variables) for arg in self.args]
        if self.op in ("min", "max"):
            return all(inner)
        if self.op == "where":
            return inner[1] or inner[2]
        if self.op in ("neg", "abs", "exp", "expm1", "floor"):
            return inner[0]
        return self.kind == "value"

    def never_nan_argument(self, nan_variables: str = "") -> int | None:
        """Return the index of the first argument of this minimum or maximum that is never NaN, or None.

        CUDA kernels compare the other argument with that argument, and select. So they drop a NaN without an additional
        instruction.
        """
        defined = [not arg.may_be_nan(nan_variables) for arg in self.args]
        return defined.index(True) if any(defined) else None

    def check_dtype(self, dtype: np.dtype[Any]) -> None:
        """Raise `DTypeError` unless every operation and constant is defined on ``dtype``."""
        kind = "f" if is_floating(dtype) else dtype.kind
        for node in self.walk():
            if node.op == "const":
                typed_constant(node.leaf, dtype)  # type: ignore[arg-type]  # a const's leaf is a Constant
            elif node.args:
                domain = OPERATIONS[node.op].domain
                truths = node.args[0].kind == "truth"
                if (
                    (domain == "float" and kind != "f")
                    or (domain == "arithmetic" and kind == "b")
                    or (domain == "bits" and kind == "f" and not truths)
                ):
                    needs = {"float": "a floating", "arithmetic": "a numeric", "bits": "an integer or boolean"}[domain]
                    raise DTypeError(f"{node.op} in {self} needs {needs} dtype, not {dtype}")

    def evaluate(self, values: Mapping[str, Any], dtype: np.dtype[Any], xp: ModuleType | Any = np) -> Any:
        """Return the value on arrays of ``dtype`` of the array library ``xp`` (NumPy by default), entry by entry.

        The function frees the value of a subtree after its last use.
        """
        functions = array_functions(xp)
        like = next(iter(values.values()), None)
        results: list[Any] = []
        with np.errstate(all="ignore"):  # min and max drop the NaN of ∞ - ∞, so a warning would mislead
            for node, args, used in self._steps:
                if node.args:
                    results.append(functions[node.op](*(results[i] for i in args)))
                elif node.op == "var":
                    results.append(values[str(node.leaf)])
                else:
                    results.append(scalar_like(like, typed_constant(node.leaf, dtype)))  # type: ignore[arg-type]
                for i in used:
                    results[i] = None
        return results[-1]

    @cached_property
    def _steps(self) -> list[tuple[Expression, tuple[int, ...], list[int]]]:
        """The distinct subtrees after their arguments, with the steps of the arguments and the last uses of steps."""
        places: dict[Expression, int] = {}
        for node in self.walk():
            places.setdefault(node, len(places))
        steps = [(node, tuple(places[arg] for arg in node.args)) for node in places]
        last = {place: step for step, (_, args) in enumerate(steps) for place in args}
        return [(node, args, [i for i in set(args) if last[i] == step]) for step, (node, args) in enumerate(steps)]


def _fold(
    expression: Expression,
    leaf: Callable[[Expression], Any],
    node: Callable[[Expression, list[Any]], Any],
    results: dict[Expression, Any],
) -> Any:
    """Translate the tree as `Expression.fold` does, with the ``results`` of the subtrees so far.

    An inner function that calls itself would be a reference cycle. It would keep arrays alive until the garbage
    collector runs, and memory of a GPU does not trigger that.
    """
    if expression not in results:
        if expression.args:
            results[expression] = node(expression, [_fold(arg, leaf, node, results) for arg in expression.args])
        else:
            results[expression] = leaf(expression)
    return results[expression]


def array_functions(xp: Any) -> Mapping[str, Callable[..., Any]]:
    """Return the function of each operation on arrays of the library ``xp``."""
    return {
        "add": lambda x, y: x + y,
        "sub": lambda x, y: x - y,
        "mul": lambda x, y: x * y,
        "div": lambda x, y: x / y,
        "neg": lambda x: -x,
        "abs": xp.abs,
        "min": xp.fmin,
        "max": xp.fmax,
        "exp": xp.exp,
        "expm1": xp.expm1,
        "log": xp.log,
        "log1p": xp.log1p,
        "sqrt": xp.sqrt,
        "floor": xp.floor,
        "and": lambda x, y: x & y,
        "or": lambda x, y: x | y,
        "xor": lambda x, y: x ^ y,
        "invert": lambda x: ~x,
        "lt": lambda x, y: x < y,
        "le": lambda x, y: x <= y,
        "gt": lambda x, y: x > y,
        "ge": lambda x, y: x >= y,
        "eq": lambda x, y: x == y,
        "ne": lambda x, y: x != y,
        "where": xp.where,
    }


def is_floating(dtype: np.dtype[Any]) -> bool:
    """Return whether the dtype is a float dtype of NumPy, or bfloat16 of the package ml_dtypes."""
    return dtype.kind == "f" or is_bfloat16(dtype)


def is_bfloat16(dtype: np.dtype[Any]) -> bool:
    """Return whether the dtype is bfloat16 of the package ml_dtypes."""
    return dtype.kind == "V" and dtype.name == "bfloat16"  # the kind comes first, because the name takes 2 µs


def is_half(dtype: np.dtype[Any]) -> bool:
    """Return whether the dtype is float16 or bfloat16."""
    return dtype.char == "e" or is_bfloat16(dtype)


def float_limits(dtype: np.dtype[Any]) -> Any:
    """Return the ``finfo`` of a floating dtype, which for bfloat16 comes from the package ml_dtypes."""
    return np.finfo(dtype) if dtype.kind == "f" else import_module("ml_dtypes").finfo(dtype)


def typed_constant(value: Constant, dtype: np.dtype[Any]) -> Any:
    """Return ``value`` as a NumPy scalar of ``dtype``; on integers and booleans ±∞ is the dtype's extreme value.

    Raises `DTypeError` when the dtype has no such value (½ as an int32, 300 as a uint8, 1e300 or 1e-300 as a float32).
    """
    if is_floating(dtype):
        with np.errstate(over="ignore", under="ignore"):
            result = dtype.type(value)
        if (np.isinf(result) and not math.isinf(value)) or (result == 0 and value != 0):
            raise DTypeError(f"the constant {quote(value)} does not exist in {dtype}")
        return result
    if math.isnan(value):
        raise DTypeError(f"NaN does not exist in {dtype}")
    if dtype.kind == "b":
        if value in (0, 1) or math.isinf(value):
            return np.bool_(value > 0)
        raise DTypeError(f"the constant {quote(value)} is not a bool")
    if dtype.kind not in "iu":
        raise DTypeError(f"{dtype} is not a real number type")
    limits = np.iinfo(dtype)
    if math.isinf(value):
        return dtype.type(limits.max if value > 0 else limits.min)
    if value != int(value) or not limits.min <= value <= limits.max:
        raise DTypeError(f"the constant {quote(value)} does not exist in {dtype}")
    return dtype.type(int(value))


def scalar_like(array: Any, value: Any) -> Any:
    """Return a typed number as an operand for an array of any library, which is a tensor for PyTorch."""
    if hasattr(array, "new_tensor"):
        return array.new_tensor(float(value) if array.is_floating_point() else int(value))
    return value


def constant(value: Any) -> Expression:
    """Return a constant for a number of any library that equals a Python number exactly."""
    number = plain_number(value)
    if number is not None:
        return Expression("const", (), number)
    remedy = (
        f"write float({value})"
        if hasattr(type(value), "__float__") and not hasattr(value, "shape")
        else "for sets see docs/tutorials/own.md#sets-as-bits"
    )
    raise ExpressionError(
        f"{quote(value)} of type {type(value).__name__} cannot be a constant of an operation: elements are numbers of "
        f"Python or truth values. Instead, {remedy}"
    )


def plain_number(value: Any) -> Constant | None:
    """Return a number of any library (NumPy, SymPy, fractions) as an equal Python number, or None if there is none."""
    if isinstance(value, np.generic):
        value = value.item()
    for plain in (bool, int, float):
        if isinstance(value, plain):
            return plain(value)
    if isinstance(value, Rational) and value.denominator == 1:
        return int(value.numerator)
    if not isinstance(value, Number):
        return None
    from fractions import Fraction  # it loads decimal

    exact: Any = value
    try:
        number = float(exact)
        if isinstance(value, Rational):  # SymPy's 1/2 does not equal 0.5
            exact = Fraction(int(value.numerator), int(value.denominator))
    except (TypeError, ValueError, OverflowError):
        return None
    return number if number == exact else None


def plain_text(text: str) -> str:
    """Return the text with Python's spelling of the signs ∞ and −."""
    return text.replace("∞", "inf").replace("−", "-")


def as_operation(expression: Expression, allow_nan: bool) -> Expression:
    """Return the expression itself, or raise `ExpressionError` if it is a truth, or holds NaN without ``allow_nan``."""
    if not allow_nan and any(node.op == "const" and node.leaf != node.leaf for node in expression.walk()):
        raise ExpressionError(f"{expression} holds NaN, which is no element of any semiring")
    if expression.kind == "truth":
        raise ExpressionError(f"{expression} is a comparison, not an element: write where({expression}, a, b)")
    return expression
