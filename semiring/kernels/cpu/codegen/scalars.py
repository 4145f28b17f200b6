"""⊕ and ⊗ of a semiring on single elements inside functions compiled by Numba.

A kernel takes a `ScalarSemiring` as an argument and calls ``plus(sr, x, y)`` and ``times(sr, x, y)``. The semiring is a
Numba *type*, so kernels specialise on it at compile time. Its key is the text of the definition, so compiled kernels
can be stored on disk (`semiring.kernels.cpu.codegen.jit.cache_on_disk`).
"""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cached_property
from typing import Any

import llvmlite.ir as ir
import numpy as np
from numba import from_dtype, types
from numba.extending import NativeValue, intrinsic, models, register_model, typeof_impl, unbox

from semiring.algebra.expressions import Expression, parse
from semiring.kernels.contract import KernelPlan
from semiring.kernels.cpu.codegen.lowering import Operand, lower
from semiring.kernels.cpu.codegen.numba_internals import void
from semiring.kernels.cpu.codegen.target import host
from semiring.kernels.cpu.codegen.vector import ElementType, Scalars
from semiring.kernels.definition import define


class SemiringType(types.Type):  # type: ignore[misc]  # Numba has no types
    """The Numba type of one semiring on one dtype. The compiled code depends on its text alone."""

    def __init__(self, text: str) -> None:
        self.text = text
        super().__init__(name=f"SemiringType({text})")

    @property
    def key(self) -> str:
        return self.text

    @cached_property
    def operations(self) -> dict[str, Any]:
        _, add, mul, *closing = json.loads(self.text)
        trees: dict[str, Any] = {"add": parse(add, ("x", "y")), "mul": parse(mul, ("x", "y"))}
        for name, text in zip(("star", "divergence"), closing, strict=False):
            trees[name] = None if text is None else parse(text, ("x",))
        return trees

    @cached_property
    def dtype(self) -> np.dtype[Any]:
        name: str = json.loads(self.text)[0]
        return np.dtype(name)

    def __reduce__(self) -> tuple[Any, ...]:
        return SemiringType, (self.text,)


class ScalarSemiring:
    """The semiring of a plan as an argument of a Numba function.

    0̄ ⊗ x is neutral under ⊕, as in every kernel. ``closing``: whether to include the star, which the semiring must then
    have. ``opposite``: whether ⊗ is y ⊗ x instead of x ⊗ y.
    """

    def __init__(self, plan: KernelPlan, *, closing: bool = False, opposite: bool = False) -> None:
        definition = define(plan, closing=closing)
        mul = definition.mul
        if opposite:
            mul = mul.substitute({"x": Expression("var", (), "y"), "y": Expression("var", (), "x")})
        texts: list[str | None] = [definition.dtype.name, definition.add.text, mul.text]
        if closing:
            assert definition.star is not None
            texts += [definition.star.text, _as_value(definition.divergence)]
        self.type = SemiringType(json.dumps(texts))


def _as_value(truth: Expression | None) -> str | None:
    """Return the text of an expression that is 1 if a truth value holds, else 0."""
    if truth is None:
        return None
    return Expression("where", (truth, Expression("const", (), 1), Expression("const", (), 0))).text


_scalars_by_plan: dict[tuple[int, Any, bool, bool], tuple[KernelPlan, ScalarSemiring, ScalarSemiring]] = {}
_LIMIT = 256


def scalars_for(plan: KernelPlan) -> tuple[ScalarSemiring, ScalarSemiring]:
    """Return the semiring of a plan, and the semiring in which paths are added up: in float64 for floats."""
    # The key is the identity, as in `kernels_for`: hashing a definition takes microseconds, a small closure ten.
    key = (id(plan.semiring), plan.dtype, plan.facts.nonnegative, plan.facts.separate)
    entry = _scalars_by_plan.get(key)
    if entry is not None and entry[0].zero == plan.zero:
        return entry[1:]
    wide = np.dtype(np.float64) if plan.dtype.kind == "f" else plan.dtype
    sums = replace(plan, dtype=wide, zero=wide.type(plan.zero), one=wide.type(plan.one))
    if len(_scalars_by_plan) >= _LIMIT:
        _scalars_by_plan.clear()
    # The plan keeps its semiring alive, so that its identity stays unique.
    _scalars_by_plan[key] = plan, ScalarSemiring(plan), ScalarSemiring(sums)
    return _scalars_by_plan[key][1:]


register_model(SemiringType)(models.OpaqueModel)


@typeof_impl.register(ScalarSemiring)  # type: ignore[untyped-decorator]  # Numba has no types
def _typeof(value: ScalarSemiring, context: Any) -> SemiringType:
    return value.type


@unbox(SemiringType)  # type: ignore[untyped-decorator]  # Numba has no types
def _unbox(kind: Any, value: Any, context: Any) -> Any:
    return NativeValue(void(context.context))


def _operation(name: str, *, may_be_nan: bool = True) -> Any:
    def generic(typing: Any, sr: Any, x: Any, y: Any) -> Any:
        if not isinstance(sr, SemiringType):
            return None
        dtype = sr.dtype
        kind = types.boolean if dtype.kind == "b" else from_dtype(dtype)

        def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            scalars = Scalars(builder, ElementType(dtype))
            operands = [builder.zext(arg, ir.IntType(8)) if dtype.kind == "b" else arg for arg in args[1:]]
            variables = dict(
                zip(("x", "y"), (Operand(arg, may_be_nan and dtype.kind == "f") for arg in operands), strict=True)
            )
            value = lower(scalars, host(), sr.operations[name], variables).value
            return builder.trunc(value, ir.IntType(1)) if dtype.kind == "b" else value

        return kind(sr, kind, kind), code

    return intrinsic(generic)


@intrinsic  # type: ignore[untyped-decorator]  # Numba has no types
def accumulate(typing: Any, sr: Any, c: Any, x: Any, y: Any) -> Any:
    """Return c ⊕ (x ⊗ y) of values that are not NaN, as the tiles of products compute it."""
    kind = types.boolean if sr.dtype.kind == "b" else from_dtype(sr.dtype)

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        truths = sr.dtype.kind == "b"
        scalars = Scalars(builder, ElementType(sr.dtype))
        c, x, y = (builder.zext(arg, ir.IntType(8)) if truths else arg for arg in args[1:])
        product = lower(scalars, host(), sr.operations["mul"], {"x": Operand(x), "y": Operand(y)})
        result = lower(scalars, host(), sr.operations["add"], {"x": Operand(c), "y": product})
        if result.may_be_nan:
            result = lower(scalars, host(), sr.operations["add"], {"x": Operand(c, True), "y": product})
        return builder.trunc(result.value, ir.IntType(1)) if truths else result.value

    return kind(sr, kind, kind, kind), code


@intrinsic  # type: ignore[untyped-decorator]  # Numba has no types
def better(typing: Any, sr: Any, x: Any, y: Any) -> Any:
    """Return whether x ⊕ y is x and not y, for a ⊕ that selects and values that are not NaN."""
    kind = types.boolean if sr.dtype.kind == "b" else from_dtype(sr.dtype)

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        scalars = Scalars(builder, ElementType(sr.dtype))
        x, y = (builder.zext(arg, ir.IntType(8)) if sr.dtype.kind == "b" else arg for arg in args[1:])
        order = {"min": "<", "max": ">", "or": ">"}.get(sr.operations["add"].op)
        if order is not None:
            return scalars.compare(order, x, y)
        selected = lower(scalars, host(), sr.operations["add"], {"x": Operand(x), "y": Operand(y)}).value
        return builder.and_(scalars.compare("==", selected, x), scalars.compare("!=", x, y))

    return types.boolean(sr, kind, kind), code


def _unary(name: str) -> Any:
    def generic(typing: Any, sr: Any, x: Any) -> Any:
        kind = types.boolean if sr.dtype.kind == "b" else from_dtype(sr.dtype)
        expression = sr.operations[name]

        def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            if expression is None:
                return ir.Constant(ir.IntType(1), 0)
            truths = sr.dtype.kind == "b"
            x = builder.zext(args[1], ir.IntType(8)) if truths else args[1]
            scalars = Scalars(builder, ElementType(sr.dtype))
            value = lower(scalars, host(), expression, {"x": Operand(x)}).value
            if name == "divergence":
                return scalars.compare("!=", value, scalars.constant(0))
            return builder.trunc(value, ir.IntType(1)) if truths else value

        return (types.boolean if name == "divergence" else kind)(sr, kind), code

    return intrinsic(generic)


#: ``star(sr, x)``: x* in a `ScalarSemiring` with ``closing``; 0 if x has no star.
star = _unary("star")
#: ``diverges(sr, x)``: whether x has no star.
diverges = _unary("divergence")


#: ``plus(sr, x, y)``: x ⊕ y. Either may be NaN, which a minimum drops.
plus = _operation("add")
#: ``plus_numbers(sr, x, y)``: x ⊕ y of two values that are not NaN, in fewer instructions.
plus_numbers = _operation("add", may_be_nan=False)
#: ``times(sr, x, y)``: x ⊗ y.
times = _operation("mul")
