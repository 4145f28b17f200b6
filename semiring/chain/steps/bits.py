"""A `BitMatrix` is closed as it is stored, 32 truth values to a word.

Cost: n³ bit pairs. The bits are those of the closure of truth values.
"""

from __future__ import annotations

from semiring.algorithms.stars import check_star
from semiring.arrays.bits import BitMatrix
from semiring.chain.matrix import Matrix
from semiring.chain.problem import Facts, Look, Problem, Reduction, step
from semiring.errors import ShapeError

__all__ = ["bits"]


@step
def bits(p: Problem) -> Look:
    """The words of a packed matrix. Raises `ShapeError`, `DTypeError`, and `AlgebraError`."""
    A, out = p.given, p.request.out
    yield not isinstance(A, BitMatrix), "not packed"
    if A.shape[0] != A.shape[1]:
        raise ShapeError(f"A is {A.shape}: a closure needs a square matrix")
    check_star(p.semiring, A.dtype)
    if out is not None and (not isinstance(out, BitMatrix) or out.shape != A.shape):
        raise ShapeError(f"out must be a BitMatrix of shape {A.shape}, or None")
    home = A.copy() if out is None else out
    q = p.but(Facts(), matrix=Matrix.of(A, p.semiring, storage="bits"), home=home)
    return Reduction("a BitMatrix stays packed", None, [q])
