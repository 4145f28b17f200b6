"""Halves are closed in float32, and rounded once: their few digits would be lost in the sums of a long path.

Cost: a copy of the matrix in float32. Predecessors are found in the float32 before rounding. float16 stays what it is
where a backend has kernels that close it, as a GPU has; and where ⊕ selects, in a file that is closed by strips.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from semiring.algebra.expressions.tree import is_bfloat16, is_half
from semiring.arrays.encoding import decode
from semiring.chain.matrix import Matrix
from semiring.chain.planner import Node
from semiring.chain.problem import Facts, Look, Problem, Reduction, step
from semiring.errors import AlgebraError

__all__ = ["half"]


@step
def half(p: Problem) -> Look:
    """The same matrix in float32. Raises `AlgebraError` where it is closed by strips that are not."""
    yield not (is_half(p.dtype) and p.semiring.supports(np.float32)), "the dtype is wide enough"
    if not is_bfloat16(p.dtype):
        own = p.matrix.on_device and p.backend.capabilities.whole_closures is not None  # on the host a backend has none
        yield own, f"the backend has kernels that close {p.dtype}"
        yield p.strips is not None and p.semiring.selective, "each strip is rounded when it is written"
    if p.strips is not None:
        raise AlgebraError(f"{p.strips.called} of {p.dtype} have no room for float32: close the matrix in memory")
    wide = p.matrix.array.astype(np.float32, order="C")  # in the order of the result, whatever that of the matrix
    q = p.but(None, matrix=Matrix.of(wide, p.semiring, rounded_to=p.dtype), home=wide)
    why = f"{p.dtype} is closed in float32, and rounded once"
    return Reduction(why, p.but(Facts()), [q], close=_rounded)


def _rounded(node: Node, D: Any) -> Any:
    return decode(node.children[0].solve(), node.outer.semiring, out=D)
