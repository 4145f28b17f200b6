"""Whole numbers in narrower integers, where every distance provably fits them: on a GPU they are several times faster.

Cost, proof and source: `semiring.algorithms.narrow`. The bits are the same.
"""

from __future__ import annotations

from semiring.algebra.catalogue import min_plus
from semiring.algorithms.narrow import narrower
from semiring.arrays.encoding import inner_zero
from semiring.chain.problem import Facts, No, Problem, Reduction
from semiring.kernels import backend_for
from semiring.kernels.machines import closure_speed

__all__ = ["narrow"]


def narrow(p: Problem) -> No | Reduction:
    """The matrix in the narrowest integers that hold every distance, if they are faster."""
    m = p.matrix
    if p.semiring is not min_plus or len(m.shape) != 2 or p.request.method != "auto":
        return No("only one matrix of min-plus, where the choice is ours")
    A = m.array
    candidates = closure_speed(backend_for(A, min_plus, A.dtype).name, A.dtype).faster_dtypes(p.n, A.dtype)
    if not candidates or not p.waits:
        return No("no narrower integers are faster here")
    if p.known.least is None or p.known.least < 0 or any(map_.moves for map_ in m.maps):
        return No("a weight is below 0")
    if A.dtype.kind == "i" and p.known.greatest == 0:
        return No("there is nothing to add up")
    if p.blank:
        return No("the entries decide", "data")
    found = narrower(A, m.sign, p.known.greatest if A.dtype.kind == "i" else None, candidates)
    if found is None:
        return No("some edge is no whole number, or some distance may be too long", "data")
    dtype, bound = found
    q = p.but(Facts(0, None, True), dtype=dtype, inner=dtype.type(inner_zero(min_plus, dtype)), sentinel="held")
    return Reduction(f"whole numbers, and no distance above {bound}: closed in {dtype}", q)
