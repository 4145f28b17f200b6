"""Assemble the source text of a kernel for one semiring and dtype, without external headers.

A ``.cu`` file of this folder begins with ``#include "semiring.cuh"``. It is replaced by ``arithmetic.cuh`` and by text
that this module prints from the definition. The text has the type ``element``, ``ZERO`` and ``ONE``, and the
functions plus, times, star, diverges, scale_row and scale_column.

The text of an expression is a chain of assignments of calls to the functions of ``arithmetic.cuh``, in the order of the
tree. Equal subtrees occur once. The meaning of the operations is defined in ``arithmetic.cuh`` alone.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, fields
from functools import cached_property, lru_cache
from importlib.resources import files
from typing import Any

import numpy as np

from semiring.algebra import Semiring
from semiring.algebra.expressions import Expression, parse, typed_constant
from semiring.arrays.bits import to_bitwise
from semiring.errors import DTypeError, no_star
from semiring.kernels.contract import KernelPlan
from semiring.kernels.cuda.product.calls import is_nonnegative
from semiring.kernels.definition import KernelDefinition, define, has_unit_star

_SUM, *_EXTREMA = (parse(text, ("x", "y")) for text in ("x + y", "min(x, y)", "max(x, y)"))
#: x + y as x · gridDim.z + y: gridDim.z is 1, but the compiler does not know it, and emits a multiply-add, which runs
#: on a pipe that computes no minimum. A third of the pairs use one instruction that adds and compares. Two thirds use
#: this sum and a 3-input minimum (tiles.cuh). Then all pipes are busy.
_MULTIPLIED = """#define BALANCED
INLINE element times_multiplied(element x, element y) { return (element)((unsigned)x * gridDim.z + (unsigned)y); }"""
_LONG = frozenset({"div", "exp", "expm1", "log", "log1p", "sqrt"})
#: The folders that contain CUDA sources.
_FOLDERS = tuple(files("semiring.kernels.cuda").joinpath(name) for name in ("closing", "closing/papers", "product"))
_INCLUDE = re.compile(r'#include "([^"]+)"\n')
#: The C++ type of an element, by dtype. A ``word_t`` holds 32 truth values.
ELEMENTS = {
    "float16": "half_t",
    "float32": "float",
    "float64": "double",
    "int16": "short",
    "int32": "int",
    "int64": "long long",
    "uint8": "byte_t",
    "bool": "byte_t",
    "uint32": "word_t",
}
_KEYWORDS = {"and", "or", "xor", "min", "max", "abs", "exp", "expm1", "log", "log1p", "sqrt", "floor"}


def _constant(value: Any, dtype: np.dtype[Any]) -> str:
    """Return ``value`` as a C++ expression of the element type, by its bits, including NaN, ∞ and -0.0."""
    typed = typed_constant(value, dtype) if isinstance(value, bool | int | float) else dtype.type(value)
    bits = int(np.asarray(typed).view(f"u{dtype.itemsize}"))
    if dtype.kind == "f":
        pattern = {
            2: "half_t{{{:#x}}}",
            4: "__int_as_float((int){:#x}u)",
            8: "__longlong_as_double((long long){:#x}ull)",
        }
        return pattern[dtype.itemsize].format(bits)
    return f"({ELEMENTS[dtype.name]}){bits:#x}{'ull' if dtype.itemsize == 8 else 'u'}"


def print_function(
    name: str,
    parameters: str,
    expression: Expression,
    dtype: np.dtype[Any],
    *,
    has_ordered_bits: bool = False,
    nan_variables: str | None = None,
) -> str:
    """Return an inline device function ``name`` of one-letter ``parameters``, all elements of ``dtype``.

    ``has_ordered_bits``: whether no operand ever has its sign bit set, so that a minimum or maximum of floats may
    compare their bits. ``nan_variables``: the parameters that may be NaN, by default all of them.
    """
    nan_variables = parameters if nan_variables is None else nan_variables
    element = ELEMENTS[dtype.name]
    lines: list[str] = []

    def leaf(node: Expression) -> str:
        return str(node.leaf) if node.op == "var" else _constant(node.leaf, dtype)

    def operation(node: Expression, arguments: list[str]) -> str:
        called = node.op + "_" * (node.op in _KEYWORDS)
        if node.op in ("min", "max"):
            never_nan = node.never_nan_argument(nan_variables) if dtype == np.float64 else None
            if has_ordered_bits:
                called += "ordered"
            elif never_nan is not None:
                called += "defined"
                arguments = arguments[never_nan:] + arguments[:never_nan]
        result, kind = f"t{len(lines)}", "bool" if node.kind == "truth" else element
        lines.append(f"    const {kind} {result} = {called}({', '.join(arguments)});")
        return result

    result = expression.fold(leaf, operation)
    kind = "bool" if expression.kind == "truth" else element
    arguments = ", ".join(f"{element} {letter}" for letter in parameters)
    return "\n".join([f"INLINE {kind} {name}({arguments}) {{", *lines, f"    return {result};", "}"])


@dataclass(frozen=True)
class Arithmetic:
    """The operations ⊕, ⊗ and the star as kernels compute them. Equal values give equal sources."""

    dtype: str  # the dtype of an element; uint32 for words of 32 truth values
    plus: Expression
    times: Expression
    zero: Any
    one: Any
    star: Expression | None = None  # None: the star is 1̄ wherever it exists
    divergence: Expression | None = None  # whether an element has no star; None: every element has a star
    idempotent: bool = False
    #: Whether ⊕ compares float32 by its bits as integers, because no sign bit is ever set.
    has_ordered_bits: bool = False
    contract: bool = False  # whether products and sums may be contracted to fused multiply-adds (--fmad)

    @cached_property
    def _hash(self) -> int:
        return hash(tuple(getattr(self, field.name) for field in fields(self)))

    def __hash__(self) -> int:  # cached, because every launch looks up its kernel
        return self._hash

    @property
    def is_packed(self) -> bool:
        """Return whether an element is a word of 32 truth values."""
        return self.dtype == "uint32"

    @property
    def is_heavy(self) -> bool:
        """Return whether a pair takes so many instructions that unrolled kernels would be too large."""
        operations = self.plus.operations | self.times.operations
        return bool(operations & _LONG) or self.plus.size + self.times.size > 40

    @property
    def is_plain(self) -> bool:
        """Return whether ⊕ is idempotent and every star is 1̄, so that the row and column of a pivot need no update."""
        return self.star is None and self.idempotent

    @property
    def is_balanced(self) -> bool:
        """Return whether some sums of a minimum or maximum should use another pipe (see ``_MULTIPLIED``)."""
        return self.dtype == "int32" and self.times == _SUM and self.plus in _EXTREMA

    @property
    def options(self) -> tuple[str, ...]:
        """Return the options of the compiler."""
        return ("--std=c++17", f"--fmad={'true' if self.contract else 'false'}", "--extra-device-vectorization")

    @property
    def operations_text(self) -> str:
        """Return the source of the element type, 0̄, 1̄, ⊕ and ⊗."""
        dtype = np.dtype(self.dtype)
        return "\n".join(
            [
                f"typedef {ELEMENTS[self.dtype]} element;",
                f"#define ZERO ({_constant(self.zero, dtype)})",
                f"#define ONE ({_constant(self.one, dtype)})",
                print_function(
                    "plus", "xy", self.plus, dtype, has_ordered_bits=self.has_ordered_bits, nan_variables="y"
                ),
                print_function("times", "xy", self.times, dtype, nan_variables=""),
            ]
        )

    @property
    def star_text(self) -> str:
        """Return the source of the star, and of the test for elements without a star."""
        dtype = np.dtype(self.dtype)
        star = "INLINE element star(element) { return ONE; }"
        if self.star is not None:
            star = print_function("star", "x", self.star, dtype)
        diverges = "INLINE bool diverges(element) { return false; }"
        if self.divergence is not None:
            diverges = print_function("diverges", "x", self.divergence, dtype)
        return f"{star}\n{diverges}"

    @property
    def header(self) -> str:
        """Return the text that replaces ``semiring.cuh``."""
        dtype = np.dtype(self.dtype)
        marks = {"bool": "#define BOOLEAN\n", "float16": "#define HALF\n"}.get(self.dtype, "")
        functions = [self.operations_text, self.star_text]
        if self.is_balanced:
            functions.append(_MULTIPLIED)
        if dtype.kind == "f":  # the search for predecessors adds the weights of a path in double precision
            functions.append(print_function("times_wide", "xy", self.times, np.dtype(np.float64)))
        scaled = ("x", "x") if self.star is None else ("times(s, x)", "times(x, s)")
        return "\n".join(
            [
                marks + text_of("arithmetic.cuh"),
                *(["#define UNIT_STAR"] if self.is_plain else []),
                *functions,
                f"INLINE element scale_row(element s, element x) {{ return {scaled[0]}; }}",
                f"INLINE element scale_column(element x, element s) {{ return {scaled[1]}; }}\n",
            ]
        )


def arithmetic_of(plan: KernelPlan) -> Arithmetic:
    """Return the arithmetic of a closure under ``plan``.

    Raises `AlgebraError` where the semiring has no star, and `DTypeError` for elements without a C++ type (bfloat16).
    """
    arithmetic: Arithmetic | None = plan.memo.get("arithmetic")
    if arithmetic is None:
        arithmetic = plan.memo["arithmetic"] = _arithmetic_of(plan)
    return arithmetic


def product_arithmetic_of(plan: KernelPlan) -> Arithmetic:
    """Return the arithmetic of a product under ``plan``, which needs no star. Raises `DTypeError` for bfloat16."""
    arithmetic: Arithmetic | None = plan.memo.get("product arithmetic")
    if arithmetic is None:
        if plan.dtype.name not in ELEMENTS:
            raise DTypeError(f"sparse matrices of {plan.dtype} are not multiplied on a GPU: convert them to float32")
        arithmetic = _arithmetic(define(plan), plan.semiring, False, plan.facts.nonnegative)
        plan.memo["product arithmetic"] = arithmetic
    return arithmetic


def _arithmetic_of(plan: KernelPlan) -> Arithmetic:
    semiring = plan.semiring
    definition = define(plan, closing=True)
    if definition.star is None:
        raise no_star(semiring.name)
    definition.star.check_dtype(plan.dtype)
    if plan.dtype.name not in ELEMENTS:
        raise DTypeError(f"blocks of {plan.dtype} are not closed on a GPU: close a matrix of float32")
    return _arithmetic(definition, semiring, plan.storage == "bits", plan.facts.nonnegative)


@lru_cache(maxsize=1024)
def _arithmetic(definition: KernelDefinition, semiring: Semiring, bits: bool, nonnegative: bool) -> Arithmetic:
    divergence = definition.divergence
    # If 1̄ itself has no star, a kernel must not begin with 1̄ on the diagonal, even if all other stars are 1̄.
    one = {"x": semiring.one_for(definition.dtype)}
    strict = divergence is not None and bool(divergence.evaluate(one, definition.dtype))
    if nonnegative and semiring.tropical == "min" and not strict:
        divergence = None  # there is no cycle below 0
    if bits:  # a truth value has the star 1 or none
        truth = None if divergence is None else to_bitwise(divergence)
        return Arithmetic(
            "uint32",
            to_bitwise(definition.add),
            to_bitwise(definition.mul),
            0,
            0xFFFFFFFF,
            None,
            truth,
            definition.idempotent,
        )
    return Arithmetic(
        definition.dtype.name,
        definition.add,
        definition.mul,
        definition.zero.leaf,
        definition.one.leaf,
        None if has_unit_star(semiring, definition.dtype) else definition.star,
        divergence,
        definition.idempotent,
        nonnegative and definition.dtype == np.float32 and is_nonnegative(definition.mul, definition.add),
        definition.contract,
    )


@lru_cache(maxsize=256)
def source(name: str, arithmetic: Arithmetic, defines: tuple[str, ...] = ()) -> str:
    """Return the text of the file ``name`` for one arithmetic, after the definitions of the macros ``defines``."""
    body = _INCLUDE.sub(
        lambda match: arithmetic.header if match[1] == "semiring.cuh" else text_of(match[1]), text_of(name)
    )
    return "".join(f"#define {define}\n" for define in defines) + body


def text_of(name: str) -> str:
    """Return the text of the file ``name`` in one of `_FOLDERS`, with its included files inserted."""
    folder = next(folder for folder in _FOLDERS if folder.joinpath(name).is_file())
    text = folder.joinpath(name).read_text(encoding="utf-8").replace("#pragma once\n", "")
    return _INCLUDE.sub(lambda match: match[0] if match[1] == "semiring.cuh" else text_of(match[1]), text)
