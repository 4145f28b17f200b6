"""A `BitMatrix` is closed as it is stored, 32 truth values to a word.

Cost: n³ bit pairs. The bits are those of the closure of truth values.
"""

from __future__ import annotations

import numpy as np

from semiring.algorithms.methods import method_named
from semiring.algorithms.schedule import schedule_for
from semiring.algorithms.stars import check_star
from semiring.arrays.bits import BitMatrix
from semiring.chain.matrix import Matrix, same_memory
from semiring.chain.problem import Facts, No, Problem, Reduction
from semiring.errors import ShapeError
from semiring.kernels import backend_for

__all__ = ["bits"]

_BOOL = np.dtype(np.bool_)


def bits(p: Problem) -> No | Reduction:
    """The words of a packed matrix.

    Raises `ShapeError`, `DTypeError`, and `AlgebraError` for a method that takes no words.
    """
    A, request = p.given, p.request
    if not isinstance(A, BitMatrix):
        return No("not packed")
    if A.shape[0] != A.shape[1]:
        raise ShapeError(f"A is {A.shape}: a closure needs a square matrix")
    p.semiring.check_dtype(_BOOL)
    check_star(p.semiring, _BOOL)
    backend = backend_for(A.words, p.semiring, _BOOL, "bits")
    method = request.method
    if method == "auto":
        method = schedule_for(backend.name, _BOOL, "bits").method(A.shape[0])
    method_named(method).check(backend, "bits")
    if request.out is not None and (not isinstance(request.out, BitMatrix) or request.out.shape != A.shape):
        raise ShapeError(f"out must be a BitMatrix of shape {A.shape}, or None")
    home = A.copy() if request.out is None else request.out
    zero = p.semiring.zero_for(_BOOL)
    matrix = Matrix(A, zero, _BOOL, zero, storage="bits")
    q = p.but(Facts(), matrix=matrix, method=method, home=home, in_place=same_memory(A, home))
    return Reduction("a BitMatrix stays packed", None, [q])
