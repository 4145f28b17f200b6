"""⊕ and ⊗ of a semiring on single elements inside functions compiled by Numba.

A kernel takes a `ScalarSemiring` as an argument and calls ``plus(sr, x, y)`` and ``times(sr, x, y)``. The semiring is a
Numba *type*, so kernels specialise on it at compile time. Its key is the text of the definition, so compiled kernels
can be stored on disk (`semiring.kernels.cpu.codegen.jit.cache_on_disk`).
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from typing import Any

import llvmlite.ir as ir
import numpy as np
from numba import from_dtype, types
from numba.extending import NativeValue, intrinsic, models, register_model, typeof_impl, unbox

from semiring.algebra.expressions import parse
from semiring.kernels.contract import KernelPlan
from semiring.kernels.cpu.codegen.lowering import Operand, lower
from semiring.kernels.cpu.codegen.numba_internals import void
from semiring.kernels.cpu.codegen.target import host
from semiring.kernels.cpu.codegen.vector import ElementType, Scalars, Vectors
from semiring.kernels.cpu.scalar_semiring import ScalarSemiring


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


def scalars_of(plan: KernelPlan) -> ScalarSemiring:
    """Return the semiring of a plan, made once: making it takes longer than a product of small sparse matrices."""
    result: ScalarSemiring = plan.memo.setdefault("scalar semiring", None) or ScalarSemiring(plan)
    plan.memo["scalar semiring"] = result
    return result


def scalars_for(plan: KernelPlan) -> tuple[ScalarSemiring, ScalarSemiring]:
    """Return the semiring of a plan, and the semiring in which paths are added up: in float64 for floats."""
    if "scalars" not in plan.memo:
        wide = np.dtype(np.float64) if plan.dtype.kind == "f" else plan.dtype
        sums = replace(plan, dtype=wide, zero=wide.type(plan.zero), one=wide.type(plan.one))
        plan.memo["scalars"] = ScalarSemiring(plan), ScalarSemiring(sums)
    scalars: tuple[ScalarSemiring, ScalarSemiring] = plan.memo["scalars"]
    return scalars


register_model(SemiringType)(models.OpaqueModel)


@typeof_impl.register(ScalarSemiring)  # type: ignore[untyped-decorator]  # Numba has no types
def _typeof(value: ScalarSemiring, context: Any) -> SemiringType:
    value.type = value.type or SemiringType(value.text)
    return value.type  # type: ignore[no-any-return]


@unbox(SemiringType)  # type: ignore[untyped-decorator]  # Numba has no types
def _unbox(kind: Any, value: Any, context: Any) -> Any:
    return NativeValue(void(context.context))


def _define(sr: SemiringType, count: int, build: Callable[..., Any], *, is_test: bool = False) -> Any:
    """Return the signature and the code of an intrinsic on ``count`` elements.

    ``build`` returns its result, from the builder of scalars and the elements; if ``is_test``, a truth value. Truth
    values of the dtype are bytes there.
    """
    truths = sr.dtype.kind == "b"
    kind = types.boolean if truths else from_dtype(sr.dtype)

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        elements = [builder.zext(arg, ir.IntType(8)) if truths else arg for arg in args[1:]]
        value = build(Scalars(builder, ElementType(sr.dtype)), *elements)
        return builder.trunc(value, ir.IntType(1)) if truths and not is_test else value

    return (types.boolean if is_test else kind)(sr, *[kind] * count), code


def lower_operation(sr: SemiringType, v: Vectors, name: str, **operands: Operand) -> Operand:
    """Return the instructions of an operation of a semiring on vectors, or on single elements."""
    return lower(v, host(), sr.operations[name], operands)


def lower_comparison(sr: SemiringType, v: Vectors, x: Any, y: Any) -> Any:
    """Return whether x ⊕ y is x and not y, for a ⊕ that selects and values that are not NaN."""
    order = {"min": "<", "max": ">", "or": ">"}.get(sr.operations["add"].op)
    if order is not None:
        return v.compare(order, x, y)
    selected = lower_operation(sr, v, "add", x=Operand(x), y=Operand(y)).value
    return v.builder.and_(v.compare("==", selected, x), v.compare("!=", x, y))


def _operation(name: str, *, may_be_nan: bool = True) -> Any:
    def generic(typing: Any, sr: Any, x: Any, y: Any) -> Any:
        if not isinstance(sr, SemiringType):
            return None
        nan = may_be_nan and sr.dtype.kind == "f"
        return _define(sr, 2, lambda s, x, y: lower_operation(sr, s, name, x=Operand(x, nan), y=Operand(y, nan)).value)

    return intrinsic(generic)


@intrinsic  # type: ignore[untyped-decorator]  # Numba has no types
def accumulate(typing: Any, sr: Any, c: Any, x: Any, y: Any) -> Any:
    """Return c ⊕ (x ⊗ y) of values that are not NaN, as the tiles of products compute it."""

    def build(scalars: Scalars, c: Any, x: Any, y: Any) -> Any:
        product = lower_operation(sr, scalars, "mul", x=Operand(x), y=Operand(y))
        result = lower_operation(sr, scalars, "add", x=Operand(c), y=product)
        if result.may_be_nan:
            result = lower_operation(sr, scalars, "add", x=Operand(c, True), y=product)
        return result.value

    return _define(sr, 3, build)


@intrinsic  # type: ignore[untyped-decorator]  # Numba has no types
def better(typing: Any, sr: Any, x: Any, y: Any) -> Any:
    """Return whether x ⊕ y is x and not y, for a ⊕ that selects and values that are not NaN."""

    def build(scalars: Scalars, x: Any, y: Any) -> Any:
        return lower_comparison(sr, scalars, x, y)

    return _define(sr, 2, build, is_test=True)


@intrinsic  # type: ignore[untyped-decorator]  # Numba has no types
def star(typing: Any, sr: Any, x: Any) -> Any:
    """Return x* in a `ScalarSemiring` with ``closing``; 0 if x has no star."""
    return _define(sr, 1, lambda scalars, x: lower_operation(sr, scalars, "star", x=Operand(x)).value)


@intrinsic  # type: ignore[untyped-decorator]  # Numba has no types
def diverges(typing: Any, sr: Any, x: Any) -> Any:
    """Return whether x has no star."""

    def build(scalars: Scalars, x: Any) -> Any:
        if sr.operations["divergence"] is None:
            return ir.Constant(ir.IntType(1), 0)
        return scalars.compare(
            "!=", lower_operation(sr, scalars, "divergence", x=Operand(x)).value, scalars.constant(0)
        )

    return _define(sr, 1, build, is_test=True)


#: ``plus(sr, x, y)``: x ⊕ y. Either may be NaN, which a minimum drops.
plus = _operation("add")
#: ``plus_numbers(sr, x, y)``: x ⊕ y of two values that are not NaN, in fewer instructions.
plus_numbers = _operation("add", may_be_nan=False)
#: ``times(sr, x, y)``: x ⊗ y.
times = _operation("mul")
