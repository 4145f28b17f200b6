"""bfloat16 is closed in float32, and rounded once: its 8 bits would be lost in the sums of a long path.

Cost: a copy of the matrix in float32. Predecessors are found in the float32 before rounding.
"""

from __future__ import annotations

import numpy as np

from semiring.algebra.expressions.tree import is_bfloat16
from semiring.chain.matrix import Matrix
from semiring.chain.problem import Facts, Look, Problem, Reduction, step

__all__ = ["bfloat16"]


@step
def bfloat16(p: Problem) -> Look:
    """The same matrix in float32."""
    yield not (is_bfloat16(p.dtype) and p.semiring.supports(np.float32)), "the dtype is wide enough"
    wide = p.matrix.array.astype(np.float32)
    q = p.but(None, matrix=Matrix.of(wide, p.semiring), home=wide)
    why = "bfloat16 is closed in float32, and rounded once"
    return Reduction(why, p.but(Facts()), [q], run=lambda node, D: node.children[0].run())
