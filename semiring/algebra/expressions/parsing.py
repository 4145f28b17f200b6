"""The parser of expressions in text, which uses Python's parser and a whitelist, and never evaluates text."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from difflib import get_close_matches
from math import isinf

from semiring.advice import quote
from semiring.algebra.expressions.tree import OPERATIONS, Expression, as_operation, constant, plain_text
from semiring.errors import ExpressionError

__all__ = ["parse"]

MAX_TEXT = 2_000  # characters of an operation given as text

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
    """Return the tree of an operation written as text, such as ``"max(0, x + y - 1)"``.

    The text is parsed, never evaluated. It may consist of

    - numbers, ``inf`` or ``∞``, ``nan`` (with ``allow_nan``) and the ``variables``;
    - the operators ``+ - * / & | ^ ~`` and ``a if c else b``;
    - comparisons, with ``and``, ``or``, ``not`` between them;
    - the functions min, max, abs, where, exp, expm1, log, log1p, sqrt, floor.

    Any other text raises `ExpressionError`, in time bounded by the length of the text, at most 2,000 characters.
    """
    if len(text) > MAX_TEXT:
        raise ExpressionError(f"the expression has {len(text)} characters: at most {MAX_TEXT} are allowed")
    text = plain_text(text)
    try:
        tree = ast.parse(text.strip(), mode="eval").body
        return as_operation(_ExpressionParser(text, variables).visit(tree), allow_nan)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        if isinstance(error, ExpressionError):
            raise
        reason = (
            error.msg if isinstance(error, SyntaxError) else "it is nested too deeply, or a number in it is malformed"
        )
        raise ExpressionError(f"{quote(text, 200)} is not an expression: {reason}") from None


class _ExpressionParser:
    """The translation of Python syntax trees to expressions, which rejects all syntax outside the whitelist."""

    def __init__(self, text: str, variables: tuple[str, ...]) -> None:
        self.text, self.variables = text, variables

    def reject(self, node: ast.expr, reason: str) -> ExpressionError:
        """Return the error that quotes the rejected part of the text."""
        source = ast.get_source_segment(self.text.strip(), node) or type(node).__name__
        where = "" if source == self.text.strip() else f"{quote(source)} in "
        return ExpressionError(f"{where}{quote(self.text, 200)}: {reason}")

    def visit(self, node: ast.expr) -> Expression:
        match node:
            case ast.Name(id=name) if name in self.variables:
                return Expression("var", (), name)
            case ast.Name(id="inf" | "nan" as name):
                return constant(float(name))
            case ast.Name(id=name):
                allowed_names = "an element is a number such as 0, 1.5 or -inf, and the only name is inf"
                if self.variables:
                    allowed_names = (
                        f"the names are {', '.join(self.variables)} and inf, and of functions {', '.join(_FUNCTIONS)}"
                    )
                raise self.reject(node, f"unknown name; {allowed_names}")
            case ast.Constant(value=bool() | int() | float() as value):
                if isinstance(value, float) and isinf(value):
                    raise self.reject(node, "the number is beyond the range of float64 (infinity is written inf)")
                return constant(value)
            case ast.UnaryOp(op=ast.UAdd(), operand=operand):
                return self.visit(operand)
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                inner = self.visit(operand)
                literal = isinstance(operand, ast.Constant | ast.Name) and inner.op == "const"
                if literal and not isinstance(inner.leaf, bool):
                    return constant(-inner.leaf)  # type: ignore[operator]  # a const's leaf is a number
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
                function_name = node.func.id.lower() if isinstance(node.func, ast.Name) else ""
                hint = (
                    f"did you mean {near[0]}? " if (near := get_close_matches(function_name, _FUNCTIONS, n=1)) else ""
                )
                raise self.reject(node, f"{hint}the functions are {', '.join(_FUNCTIONS)}, without keywords")
        raise self.reject(node, "only numbers, variables, operators, comparisons and known functions are allowed")

    def chain(self, op: str, terms: list[Expression]) -> Expression:
        """Return the terms joined by a binary operation from left to right."""
        result = terms[0]
        for term in terms[1:]:
            result = Expression(op, (result, term))
        return result
