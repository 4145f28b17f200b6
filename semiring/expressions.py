"""The typed expression tree behind every operation of a semiring.

An operation is written once, as a Python callable or as text. A callable is *traced*: it is called with `Traced`
values whose operators build the tree. Text is parsed by Python's own parser and walked by a whitelist; nothing is ever
evaluated. The tree keeps the order of the operations as written, because floating point is not algebra. NumPy code,
SIMD code, GPU code, CUDA C++ and SymPy all derive from it.

Two kinds of value exist: ``"value"`` (an element of the semiring) and ``"truth"`` (the outcome of a comparison). ``&``,
``|``, ``^``, ``~`` act bitwise on values, so they need an integer or boolean dtype, and logically on truths.

``min`` and ``max`` return the argument that is not NaN when one of them is, on every backend.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from types import ModuleType
from typing import Any, Literal, TypeAlias

import numpy as np

from semiring.errors import DTypeError, ExpressionError

__all__ = [
    "OPERATIONS",
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

Kind: TypeAlias = Literal["value", "truth"]
Constant: TypeAlias = bool | int | float

MAX_TEXT = 2_000  # characters of an operation given as text
MAX_SIZE = 1_000  # nodes of a tree, shared ones counted each time they occur
MAX_DEPTH = 100


@dataclass(frozen=True)
class Operation:
    """One node type: how many arguments, of which kind, what comes out, and how it is written."""

    name: str
    arity: int
    form: str  # a format string over {0}, {1}, ... with the precedences of Python
    precedence: int
    result: Kind | None = "value"  # None: the kind of the arguments
    arguments: tuple[Kind | None, ...] = ()  # () means all "value"; None admits either, but all alike
    domain: Literal["any", "arithmetic", "float", "bits"] = "any"  # the dtypes on which it means something


_CALL = 100
_TABLE = [
    Operation("add", 2, "{0} + {1}", 60, domain="arithmetic"),
    Operation("sub", 2, "{0} - {1}", 60, domain="arithmetic"),
    Operation("mul", 2, "{0} * {1}", 70, domain="arithmetic"),
    Operation("div", 2, "{0} / {1}", 70, domain="float"),
    Operation("neg", 1, "-{0}", 80, domain="arithmetic"),
    Operation("abs", 1, "abs({0})", _CALL, domain="arithmetic"),
    Operation("min", 2, "min({0}, {1})", _CALL),
    Operation("max", 2, "max({0}, {1})", _CALL),
    Operation("exp", 1, "exp({0})", _CALL, domain="float"),
    Operation("expm1", 1, "expm1({0})", _CALL, domain="float"),
    Operation("log", 1, "log({0})", _CALL, domain="float"),
    Operation("log1p", 1, "log1p({0})", _CALL, domain="float"),
    Operation("sqrt", 1, "sqrt({0})", _CALL, domain="float"),
    Operation("floor", 1, "floor({0})", _CALL, domain="float"),
    Operation("and", 2, "{0} & {1}", 50, None, (None, None), "bits"),
    Operation("xor", 2, "{0} ^ {1}", 45, None, (None, None), "bits"),
    Operation("or", 2, "{0} | {1}", 40, None, (None, None), "bits"),
    Operation("invert", 1, "~{0}", 80, None, (None,), "bits"),
    Operation("lt", 2, "{0} < {1}", 30, "truth"),
    Operation("le", 2, "{0} <= {1}", 30, "truth"),
    Operation("gt", 2, "{0} > {1}", 30, "truth"),
    Operation("ge", 2, "{0} >= {1}", 30, "truth"),
    Operation("eq", 2, "{0} == {1}", 30, "truth"),
    Operation("ne", 2, "{0} != {1}", 30, "truth"),
    Operation("where", 3, "where({0}, {1}, {2})", _CALL, "value", ("truth", "value", "value")),
]
OPERATIONS: Mapping[str, Operation] = {operation.name: operation for operation in _TABLE}


@dataclass(frozen=True, eq=False, repr=False)
class Expression:
    """One node: a variable (``op="var"``), a constant (``op="const"``) or an operation of `OPERATIONS` on ``args``.

    Immutable, hashable and equal by structure. ``str(expression)`` is text that `parse` turns back into the same tree,
    and the key under which compiled kernels are cached.
    """

    op: str
    args: tuple[Expression, ...] = ()
    leaf: str | Constant | None = None

    def __post_init__(self) -> None:
        if self.op in ("var", "const"):
            return
        if self.size > MAX_SIZE or self.depth > MAX_DEPTH:
            raise ExpressionError(
                f"the expression has {self.size} nodes, {self.depth} deep: at most {MAX_SIZE} and {MAX_DEPTH} are allowed"
            )
        operation = OPERATIONS[self.op]
        expected = operation.arguments or ("value",) * operation.arity
        kinds = tuple(arg.kind for arg in self.args)
        alike = {kind for kind, wanted in zip(kinds, expected, strict=True) if wanted is None}
        if len(alike) > 1 or any(w is not None and w != k for w, k in zip(expected, kinds, strict=True)):
            raise ExpressionError(
                f"{self}: {self.op} was given ({', '.join(kinds)}) and takes "
                f"({', '.join(w or 'either, all alike' for w in expected)}); a comparison is a truth: use where(truth, a, b)"
            )

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

    def _argument_text(self, index: int, operation: Operation) -> str:
        arg = self.args[index]
        if operation.precedence == _CALL:
            return arg.text
        own = operation.precedence + (1 if index or operation.result == "truth" else 0)  # left-associative
        inner = _CALL if arg.op == "var" else OPERATIONS[arg.op].precedence if arg.op != "const" else _CALL
        if arg.op == "const" and arg.text.startswith("-"):
            inner = 0
        return f"({arg.text})" if inner < own else arg.text

    # Text and tree determine each other, so the text, made once, is the identity (and tells 0.0 from -0.0, 1 from 1.0).
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
        """Every node, arguments before the operation that uses them."""
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
        """The tree with variables replaced by other trees."""
        if self.op == "var":
            return replacements.get(str(self.leaf), self)
        if not self.args:
            return self
        return Expression(self.op, tuple(arg.substitute(replacements) for arg in self.args))

    def fold(self, leaf: Callable[[Expression], Any], node: Callable[[Expression, list[Any]], Any]) -> Any:
        """Translate the tree bottom-up: ``leaf`` makes variables and constants, ``node`` the operations.

        Equal subtrees are translated once. This is how every backend lowers an expression.
        """
        done: dict[Expression, Any] = {}

        def visit(expression: Expression) -> Any:
            if expression not in done:
                if expression.args:
                    done[expression] = node(expression, [visit(arg) for arg in expression.args])
                else:
                    done[expression] = leaf(expression)
            return done[expression]

        return visit(self)

    @cached_property
    def may_be_nan(self) -> bool:
        """Whether a floating-point evaluation can give NaN although no variable is NaN.

        Backends use it to order the operands of a two-operand minimum, which keeps the operand that is known not to
        be NaN, so that dropping a NaN costs no instruction.
        """
        if not self.args:
            return False
        inner = [arg.may_be_nan for arg in self.args]
        if self.op in ("min", "max"):
            return all(inner)
        if self.op == "where":
            return inner[1] or inner[2]
        if self.op in ("neg", "abs", "exp", "expm1", "floor"):
            return inner[0]
        return self.kind == "value"

    def check_dtype(self, dtype: np.dtype[Any]) -> None:
        """Raise `DTypeError` unless every operation and constant means something on ``dtype``."""
        kind = dtype.kind
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
        """The value on arrays of ``dtype`` of the array library ``xp`` (NumPy by default), entry by entry."""
        functions = _array_functions(xp)

        def leaf(expression: Expression) -> Any:
            if expression.op == "var":
                return values[str(expression.leaf)]
            return typed_constant(expression.leaf, dtype)  # type: ignore[arg-type]

        with np.errstate(all="ignore"):  # ∞ - ∞ is a NaN that min and max drop; it is no news to the caller
            return self.fold(leaf, lambda expression, args: functions[expression.op](*args))


def _array_functions(xp: Any) -> Mapping[str, Callable[..., Any]]:
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


def typed_constant(value: Constant, dtype: np.dtype[Any]) -> Any:
    """``value`` as a NumPy scalar of ``dtype``; on integers and booleans ±∞ is the dtype's extreme value.

    Raises `DTypeError` when the dtype has no such value (½ as an int32, 300 as a uint8).
    """
    if dtype.kind == "f":
        return dtype.type(value)
    if math.isnan(value):
        raise DTypeError(f"NaN does not exist in {dtype}")
    if dtype.kind == "b":
        if value in (0, 1) or math.isinf(value):
            return np.bool_(value > 0)
        raise DTypeError(f"the constant {value!r} is not a bool")
    limits = np.iinfo(dtype)
    if math.isinf(value):
        return dtype.type(limits.max if value > 0 else limits.min)
    if value != int(value) or not limits.min <= value <= limits.max:
        raise DTypeError(f"the constant {value!r} does not exist in {dtype}")
    return dtype.type(int(value))


# ---------------------------------------------------------------------------------------------------------- tracing


def _constant(value: Any) -> Expression:
    if isinstance(value, np.generic):
        value = value.item()
    if not isinstance(value, bool | int | float):
        raise ExpressionError(f"{value!r} of type {type(value).__name__} cannot be a constant of an operation")
    return Expression("const", (), value)


class Traced:
    """A value inside a callable that is being traced: its operators record what is done to it.

    It has no truth value, so Python's ``if``, ``and``, ``min`` on it raise `ExpressionError`: use `where`, ``&``,
    `minimum`.
    """

    __slots__ = ("expression",)
    __hash__ = None  # type: ignore[assignment]  # == builds a node

    def __init__(self, expression: Expression) -> None:
        self.expression = expression

    def __bool__(self) -> bool:
        raise ExpressionError(
            f"({self.expression}) has no truth value while an operation is traced: "
            "replace `if` and `a if c else b` by where(c, a, b), `and`, `or`, `not` by &, |, ~, "
            "and min, max by minimum, maximum"
        )

    def __repr__(self) -> str:
        return f"Traced({self.expression})"

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Traced:
        name = _UFUNCS.get(ufunc.__name__)
        if method != "__call__" or options or name is None:
            raise ExpressionError(
                f"numpy.{ufunc.__name__} cannot be traced; of NumPy's functions these can: {', '.join(sorted(_UFUNCS))}"
            )
        return _record(name, *inputs)

    def __float__(self) -> float:
        raise ExpressionError(f"({self.expression}) is not a number: use exp, log, sqrt of semiring, not of math")

    def __neg__(self) -> Traced:
        return _record("neg", self)

    def __pos__(self) -> Traced:
        return self

    def __abs__(self) -> Traced:
        return _record("abs", self)

    def __invert__(self) -> Traced:
        return _record("invert", self)

    def __eq__(self, other: object) -> Traced:  # type: ignore[override]
        return _record("eq", self, other)

    def __ne__(self, other: object) -> Traced:  # type: ignore[override]
        return _record("ne", self, other)

    def __lt__(self, other: Any) -> Traced:
        return _record("lt", self, other)

    def __le__(self, other: Any) -> Traced:
        return _record("le", self, other)

    def __gt__(self, other: Any) -> Traced:
        return _record("gt", self, other)

    def __ge__(self, other: Any) -> Traced:
        return _record("ge", self, other)

    def __add__(self, other: Any) -> Traced:
        return _record("add", self, other)

    def __radd__(self, other: Any) -> Traced:
        return _record("add", other, self)

    def __sub__(self, other: Any) -> Traced:
        return _record("sub", self, other)

    def __rsub__(self, other: Any) -> Traced:
        return _record("sub", other, self)

    def __mul__(self, other: Any) -> Traced:
        return _record("mul", self, other)

    def __rmul__(self, other: Any) -> Traced:
        return _record("mul", other, self)

    def __truediv__(self, other: Any) -> Traced:
        return _record("div", self, other)

    def __rtruediv__(self, other: Any) -> Traced:
        return _record("div", other, self)

    def __and__(self, other: Any) -> Traced:
        return _record("and", self, other)

    def __rand__(self, other: Any) -> Traced:
        return _record("and", other, self)

    def __or__(self, other: Any) -> Traced:
        return _record("or", self, other)

    def __ror__(self, other: Any) -> Traced:
        return _record("or", other, self)

    def __xor__(self, other: Any) -> Traced:
        return _record("xor", self, other)

    def __rxor__(self, other: Any) -> Traced:
        return _record("xor", other, self)


_UFUNCS = {
    **{name: name for name in ("exp", "expm1", "log", "log1p", "sqrt", "floor", "invert")},
    **{"minimum": "min", "fmin": "min", "maximum": "max", "fmax": "max", "absolute": "abs", "negative": "neg"},
    **{"add": "add", "subtract": "sub", "multiply": "mul", "divide": "div"},
    **{"bitwise_and": "and", "bitwise_or": "or", "bitwise_xor": "xor"},
    **{"less": "lt", "less_equal": "le", "greater": "gt", "greater_equal": "ge", "equal": "eq", "not_equal": "ne"},
}


def _record(op: str, *args: Any) -> Traced:
    return Traced(Expression(op, tuple(arg.expression if isinstance(arg, Traced) else _constant(arg) for arg in args)))


def trace(function: Callable[..., Any], variables: tuple[str, ...], *, allow_nan: bool = False) -> Expression:
    """The tree of a callable, called once with one `Traced` value for each of ``variables``.

    A NaN constant is accepted only with ``allow_nan``: a star is NaN where it does not exist.
    """
    try:
        result = function(*(Traced(Expression("var", (), name)) for name in variables))
    except RecursionError:
        raise ExpressionError(
            f"tracing {function!r} does not end: a traced operation has no loop or recursion"
        ) from None
    if isinstance(result, Traced):
        expression = result.expression
    elif result is None:
        raise ExpressionError(f"{function!r} returned None: an operation returns its result")
    else:
        expression = _constant(result)
    return _as_operation(expression, allow_nan)


def _as_operation(expression: Expression, allow_nan: bool) -> Expression:
    if not allow_nan and any(node.op == "const" and node.leaf != node.leaf for node in expression.walk()):
        raise ExpressionError(f"{expression} holds NaN, which is no element of any semiring")
    if expression.kind == "truth":
        raise ExpressionError(f"{expression} is a comparison, not an element: use where({expression}, a, b)")
    return expression


def _dispatch(op: str, numpy_name: str, doc: str) -> Callable[..., Any]:
    def function(*args: Any) -> Any:
        if len(args) != OPERATIONS[op].arity:
            raise TypeError(f"{numpy_name} takes {OPERATIONS[op].arity} arguments, {len(args)} given")
        if any(isinstance(arg, Traced) for arg in args):
            return _record(op, *args)
        return _array_functions(np)[op](*args)

    function.__name__ = function.__qualname__ = numpy_name
    function.__doc__ = doc + " Works on arrays and scalars, and is recorded where an operation is traced."
    return function


minimum = _dispatch("min", "minimum", "The smaller of two values; a NaN is dropped.")
maximum = _dispatch("max", "maximum", "The larger of two values; a NaN is dropped.")
where = _dispatch("where", "where", "``where(truth, a, b)``: a where the truth holds, b elsewhere.")
exp = _dispatch("exp", "exp", "eˣ.")
expm1 = _dispatch("expm1", "expm1", "eˣ - 1, accurate near 0.")
log = _dispatch("log", "log", "The natural logarithm.")
log1p = _dispatch("log1p", "log1p", "log(1 + x), accurate near 0.")
sqrt = _dispatch("sqrt", "sqrt", "The square root.")
absolute = _dispatch("abs", "absolute", "The absolute value.")
floor = _dispatch("floor", "floor", "The largest integer not above.")


# ---------------------------------------------------------------------------------------------------------- parsing

_FUNCTIONS = {
    **{"min": "min", "minimum": "min", "max": "max", "maximum": "max", "abs": "abs", "where": "where"},
    **{name: name for name in ("exp", "expm1", "log", "log1p", "sqrt", "floor")},
}
_BINARY: Mapping[type[ast.operator], str] = {
    **{ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "div"},
    **{ast.BitAnd: "and", ast.BitOr: "or", ast.BitXor: "xor"},
}
_COMPARE: Mapping[type[ast.cmpop], str] = {
    **{ast.Lt: "lt", ast.LtE: "le", ast.Gt: "gt", ast.GtE: "ge", ast.Eq: "eq", ast.NotEq: "ne"}
}


def parse(text: str, variables: tuple[str, ...], *, allow_nan: bool = False) -> Expression:
    """The tree of an operation written as text, such as ``"max(0, x + y - 1)"``.

    The text is parsed, never evaluated: only numbers, ``inf``, ``nan`` (with ``allow_nan``), ``variables``, the operators ``+ - * / & | ^ ~``,
    comparisons, ``a if c else b`` and the functions min, max, abs, where, exp, expm1, log, log1p, sqrt, floor pass.
    Anything else raises `ExpressionError`, in time bounded by the length of the text (at most 2,000 characters).
    """
    if len(text) > MAX_TEXT:
        raise ExpressionError(f"the expression has {len(text)} characters: at most {MAX_TEXT} are allowed")
    try:
        tree = ast.parse(text.strip(), mode="eval").body
        return _as_operation(_Parser(text, variables).visit(tree), allow_nan)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        if isinstance(error, ExpressionError):
            raise
        reason = error.msg if isinstance(error, SyntaxError) else "it is nested too deeply or holds a bad number"
        raise ExpressionError(f"{text[:200]!r} is not an expression: {reason}") from None


class _Parser:
    def __init__(self, text: str, variables: tuple[str, ...]) -> None:
        self.text, self.variables = text, variables

    def reject(self, node: ast.AST, why: str) -> ExpressionError:
        source = ast.get_source_segment(self.text.strip(), node) or type(node).__name__  # type: ignore[arg-type]
        return ExpressionError(f"{source[:80]!r} in {self.text[:200]!r}: {why}")

    def visit(self, node: ast.expr) -> Expression:
        match node:
            case ast.Name(id=name) if name in self.variables:
                return Expression("var", (), name)
            case ast.Name(id="inf" | "nan" as name):
                return _constant(float(name))
            case ast.Name(id=name):
                raise self.reject(node, f"unknown name; the variables are {', '.join(self.variables)} (and inf)")
            case ast.Constant(value=bool() | int() | float() as value):
                return _constant(value)
            case ast.UnaryOp(op=ast.UAdd(), operand=operand):
                return self.visit(operand)
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                inner = self.visit(operand)
                if inner.op == "const" and not isinstance(inner.leaf, bool):
                    return _constant(-inner.leaf)  # type: ignore[operator]  # a const's leaf is a number
                return Expression("neg", (inner,))
            case ast.UnaryOp(op=ast.Invert() | ast.Not() as op, operand=operand):
                inner = self.visit(operand)
                if isinstance(op, ast.Not) and inner.kind != "truth":
                    raise self.reject(node, "`not` takes a comparison; ~ inverts the bits of a value")
                return Expression("invert", (inner,))
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _BINARY:
                return Expression(_BINARY[type(op)], (self.visit(left), self.visit(right)))
            case ast.BinOp():
                raise self.reject(node, "only the operators + - * / & | ^ are known (write x * x for a square)")
            case ast.BoolOp(op=op, values=values):
                terms = [self.visit(value) for value in values]
                if any(term.kind != "truth" for term in terms):
                    raise self.reject(node, "`and`, `or` take comparisons; & and | act on the bits of values")
                return self.chain("and" if isinstance(op, ast.And) else "or", terms)
            case ast.Compare(left=left, ops=ops, comparators=rest) if all(type(op) in _COMPARE for op in ops):
                sides = [self.visit(left), *(self.visit(side) for side in rest)]
                return self.chain(
                    "and",
                    [Expression(_COMPARE[type(op)], (sides[i], sides[i + 1])) for i, op in enumerate(ops)],
                )
            case ast.IfExp(test=test, body=body, orelse=orelse):
                return Expression("where", (self.visit(test), self.visit(body), self.visit(orelse)))
            case ast.Call(func=ast.Name(id=name), args=args, keywords=[]) if name in _FUNCTIONS:
                op_name, terms = _FUNCTIONS[name], [self.visit(arg) for arg in args]
                if op_name in ("min", "max") and len(terms) >= 2:
                    return self.chain(op_name, terms)
                if len(terms) != OPERATIONS[op_name].arity:
                    raise self.reject(node, f"{name} takes {OPERATIONS[op_name].arity} arguments")
                return Expression(op_name, tuple(terms))
            case ast.Call():
                raise self.reject(node, f"the functions are {', '.join(_FUNCTIONS)}, without keywords")
        raise self.reject(node, "only numbers, variables, operators, comparisons and known functions are allowed")

    def chain(self, op: str, terms: list[Expression]) -> Expression:
        result = terms[0]
        for term in terms[1:]:
            result = Expression(op, (result, term))
        return result
