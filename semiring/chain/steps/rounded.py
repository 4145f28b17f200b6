"""bfloat16 is closed in float32, and rounded once: its 8 bits would be lost in the sums of a long path.

Cost: a copy of the matrix in float32. Predecessors are found in the float32 before rounding.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from semiring.algebra import Semiring
from semiring.algebra.expressions.tree import is_bfloat16
from semiring.chain.matrix import Matrix
from semiring.chain.problem import Facts, No, Problem, Reduction

__all__ = ["is_closed_wider", "rounded"]


def is_closed_wider(semiring: Semiring, dtype: np.dtype[Any]) -> bool:
    """Whether matrices of this dtype are closed in float32."""
    return is_bfloat16(dtype) and semiring.supports(np.float32)


def rounded(p: Problem) -> No | Reduction:
    """The same matrix in float32."""
    if not is_closed_wider(p.semiring, p.dtype):
        return No("the dtype is wide enough")
    wide = p.matrix.array.astype(np.float32)
    q = p.but(None, matrix=Matrix.of(wide, p.semiring), home=wide)
    why = "bfloat16 is closed in float32, and rounded once"
    return Reduction(why, p.but(Facts()), [q], run=lambda node, D: node.children[0].run())
