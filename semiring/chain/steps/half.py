"""float16 and bfloat16 are closed in float32, and rounded once: their few digits would be lost in sums of a long path.

This is the rule on every route: CPU, GPU, several GPUs, stacks, ranks. It has two exceptions. Where ⊕ and ⊗ only
select, nothing is rounded, and a GPU or a run by strips keeps float16. Where the caller asks for
``compute_dtype="float16"``, they keep it too, and round every sum and product.

Cost: a copy of the matrix in float32. Predecessors are found in the float32 before rounding.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from semiring.algebra import Semiring
from semiring.algebra.expressions.tree import is_half
from semiring.algorithms.ordered import selects
from semiring.arrays.encoding import decode
from semiring.chain.matrix import Matrix
from semiring.chain.planner import Node
from semiring.chain.problem import Facts, Look, Problem, Reduction, step
from semiring.errors import AlgebraError, DTypeError

__all__ = ["half", "stays_float16"]


def stays_float16(semiring: Semiring, dtype: np.dtype[Any], compute_dtype: Any) -> bool:
    """Return whether kernels for float16 may close the matrix: nothing is rounded, or the caller asked for it."""
    return dtype == np.float16 and (compute_dtype is not None or selects(semiring))


@step
def half(p: Problem) -> Look:
    """The same matrix in float32. Raises `AlgebraError` and `DTypeError` where that, or float16, is impossible."""
    requested = p.request.compute_dtype
    if requested is not None and p.dtype != requested:
        raise DTypeError(f"compute_dtype is {requested}, and A is {p.dtype}: leave it out, or give A in {requested}")
    yield not (is_half(p.dtype) and p.semiring.supports(np.float32)), "the dtype is wide enough"
    stays = _has_kernels(p) and stays_float16(p.semiring, p.dtype, requested)
    yield stays, f"{'⊕ and ⊗ only select' if requested is None else 'compute_dtype'}: computed in {p.dtype}"
    if requested is not None:
        raise DTypeError(
            "compute_dtype is float16, and a CPU computes float16 in float32: leave it out, or compute on a GPU, "
            "device='cuda'"
        )
    if p.strips is not None:
        remedy = "close the matrix in memory, or convert it to float32"
        if p.dtype == np.float16 and p.semiring.selective:
            remedy += ", or round whenever a strip is written, compute_dtype='float16'"
        raise AlgebraError(f"{p.strips.called} of {p.dtype} cannot hold float32: {remedy}")
    wide = p.entries.astype(np.float32, order="C")  # in the order of the result, whatever that of the matrix
    q = p.but(None, matrix=Matrix.of(wide, p.semiring, rounded_to=p.dtype), home=wide)
    why = f"{p.dtype} is closed in float32, and rounded once"
    return Reduction(why, p.but(Facts()), [q], close=_rounded)


def _has_kernels(p: Problem) -> bool:
    """Whether float16 may stay: for the kernels of a GPU, or in strips, which are rounded when they are written."""
    if p.strips is not None:
        return p.semiring.selective
    return bool(p.request.devices) or (p.matrix.on_device and p.backend.capabilities.whole_closures is not None)


def _rounded(node: Node, D: Any) -> Any:
    return decode(node.children[0].solve(), node.outer.semiring, out=D)
