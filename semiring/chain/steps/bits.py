"""A `BitMatrix` is closed as it is stored; truth values of the host are packed on their way to a GPU.

Cost: n³ bit pairs. The bits are those of the closure of truth values. On the way there and back some rows of bytes are
on the GPU at a time, 64 MiB: so it holds n²/8 bytes, not n².
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from semiring.algorithms.stars import check_star
from semiring.arrays.bits import BitMatrix
from semiring.arrays.operands import as_output
from semiring.chain.matrix import Matrix
from semiring.chain.problem import Facts, Look, Problem, Reduction, step
from semiring.errors import ShapeError
from semiring.kernels import packs
from semiring.kernels.machines import closure_speed

__all__ = ["bits"]


@step
def bits(p: Problem) -> Look:
    """The words of a packed matrix. Raises `ShapeError`, `DTypeError`, and `AlgebraError`."""
    A, out = p.given, p.request.out
    if _goes_to_a_gpu(p):
        yield not packs(p.semiring, on_device=True), "the backend has no packed bits for this semiring and dtype"
        return _packed_on_the_way(p)
    yield not isinstance(A, BitMatrix), "not packed"
    if A.shape[0] != A.shape[1]:
        raise ShapeError(f"A is {A.shape}: a closure needs a square matrix")
    check_star(p.semiring, A.dtype)
    if out is not None and (not isinstance(out, BitMatrix) or out.shape != A.shape):
        raise ShapeError(f"out must be a BitMatrix of shape {A.shape}, or None")
    home = BitMatrix.empty(A.shape, A) if out is None else out
    return Reduction("a BitMatrix stays packed", None, [_of_words(p, A, home)])


def _of_words(p: Problem, A: BitMatrix, home: BitMatrix) -> Problem:
    return p.but(Facts(), matrix=Matrix.of(A, p.semiring, storage="bits"), home=home)


def _goes_to_a_gpu(p: Problem) -> bool:
    """Whether it is a matrix of truth values of the host, to be closed on one GPU, which would pack it there."""
    A, request = p.given, p.request
    if request.device is None or request.devices or type(A) is not np.ndarray or A.dtype != np.bool_:
        return False
    if A.ndim != 2 or A.shape[0] != A.shape[1] or type(request.out) not in (type(None), np.ndarray):
        return False
    wanted = request.method == "auto" and p.inspect is None and p.semiring.supports(A.dtype)
    return wanted and len(A) >= closure_speed("cuda", A.dtype).pack


def _packed_on_the_way(p: Problem) -> Reduction:
    from semiring.arrays.device.packing import pack_moved

    A, out = p.given, p.request.out
    check_star(p.semiring, A.dtype)
    back = partial(_unpacked, np.empty(A.shape, A.dtype) if out is None else as_output(out, A.shape, A.dtype))
    words = BitMatrix(pack_moved(A), A.shape)
    return Reduction("truth values, packed on the way to the GPU", None, [_of_words(p, words, words)], back)


def _unpacked(out: Any, closed: BitMatrix) -> Any:
    from semiring.arrays.device.packing import unpack_moved

    unpack_moved(closed.words, out)
    return out
