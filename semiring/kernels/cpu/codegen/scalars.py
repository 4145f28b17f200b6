"""⊕ and ⊗ of a semiring on single elements inside functions compiled by Numba.

A kernel takes a `ScalarSemiring` as an argument and calls ``plus(sr, x, y)`` and ``times(sr, x, y)``. The semiring is a
Numba *type*: kernels specialise on it at compile time, its key is the text of the definition, so compiled kernels can
be kept on disk (`semiring.kernels.cpu.codegen.jit.cached`).
"""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cached_property
from typing import Any

import llvmlite.ir as ir
import numpy as np
from numba import types
from numba.extending import NativeValue, intrinsic, models, register_model, typeof_impl, unbox
from numba.np import numpy_support

from semiring.algebra.expressions import Expression, parse
from semiring.kernels.contract import Plan
from semiring.kernels.cpu.codegen.lower import Operand, lower
from semiring.kernels.cpu.codegen.target import host
from semiring.kernels.cpu.codegen.vector import Element, Scalars
from semiring.kernels.definition import define

__all__ = ["ScalarSemiring", "SemiringType", "plus", "plus_numbers", "scalars_for", "times"]


class SemiringType(types.Type):  # type: ignore[misc]  # Numba has no types
    """The Numba type of one semiring on one dtype; its text is everything the compiled code depends on."""

    def __init__(self, text: str) -> None:
        self.text = text
        super().__init__(name=f"SemiringType({text})")

    @property
    def key(self) -> str:
        return self.text

    @cached_property
    def operations(self) -> dict[str, Expression]:
        _, add, mul = json.loads(self.text)
        return {"add": parse(add, ("x", "y")), "mul": parse(mul, ("x", "y"))}

    @cached_property
    def dtype(self) -> np.dtype[Any]:
        name: str = json.loads(self.text)[0]
        return np.dtype(name)

    def __reduce__(self) -> tuple[Any, ...]:
        return SemiringType, (self.text,)


class ScalarSemiring:
    """The semiring of a plan as an argument of a Numba function. 0̄ ⊗ x is neutral under ⊕, as in every kernel."""

    def __init__(self, plan: Plan) -> None:
        definition = define(plan)
        self.type = SemiringType(json.dumps([definition.dtype.name, definition.add.text, definition.mul.text]))


_known: dict[tuple[int, Any, bool, bool], tuple[Plan, ScalarSemiring, ScalarSemiring]] = {}
_LIMIT = 256


def scalars_for(plan: Plan) -> tuple[ScalarSemiring, ScalarSemiring]:
    """The semiring of a plan, and the same in which paths are added up: float64 for floats."""
    # By identity, as in `kernels_for`: hashing a definition takes microseconds, and a small matrix is closed in ten.
    key = (id(plan.semiring), plan.dtype, plan.facts.nonnegative, plan.facts.separate)
    found = _known.get(key)
    if found is not None and found[0].zero == plan.zero:
        return found[1:]
    wide = np.dtype(np.float64) if plan.dtype.kind == "f" else plan.dtype
    sums = replace(plan, dtype=wide, zero=wide.type(plan.zero), one=wide.type(plan.one))
    if len(_known) >= _LIMIT:
        _known.clear()
    _known[key] = plan, ScalarSemiring(plan), ScalarSemiring(sums)  # the plan keeps its semiring alive
    return _known[key][1:]


register_model(SemiringType)(models.OpaqueModel)


@typeof_impl.register(ScalarSemiring)  # type: ignore[untyped-decorator]  # Numba has no types
def _typeof(value: ScalarSemiring, context: Any) -> SemiringType:
    return value.type


@unbox(SemiringType)  # type: ignore[untyped-decorator]  # Numba has no types
def _unbox(kind: Any, value: Any, context: Any) -> Any:
    return NativeValue(context.context.get_dummy_value())


def _operation(name: str, *, may_be_nan: bool = True) -> Any:
    def generic(typing: Any, sr: Any, x: Any, y: Any) -> Any:
        if not isinstance(sr, SemiringType):
            return None
        dtype = sr.dtype
        kind = types.boolean if dtype.kind == "b" else numpy_support.from_dtype(dtype)

        def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            scalars = Scalars(builder, Element(dtype))
            operands = [builder.zext(arg, ir.IntType(8)) if dtype.kind == "b" else arg for arg in args[1:]]
            variables = dict(
                zip(("x", "y"), (Operand(arg, may_be_nan and dtype.kind == "f") for arg in operands), strict=True)
            )
            value = lower(scalars, host(), sr.operations[name], variables).value
            return builder.trunc(value, ir.IntType(1)) if dtype.kind == "b" else value

        return kind(sr, kind, kind), code

    return intrinsic(generic)


#: ``plus(sr, x, y)``: x ⊕ y. Either may be NaN: a minimum drops it.
plus = _operation("add")
#: The same, of two values that are no NaN: fewer instructions where they count.
plus_numbers = _operation("add", may_be_nan=False)
#: ``times(sr, x, y)``: x ⊗ y.
times = _operation("mul")
