"""Whole numbers in narrower integers, where every distance provably fits them: on a GPU they are several times faster.

Cost, proof and source: `semiring.algorithms.narrow`. The bits are the same.
"""

from __future__ import annotations

from typing import Any

from semiring.algebra.catalogue import min_plus
from semiring.algorithms.narrow import narrower
from semiring.algorithms.schedule import dense_operations
from semiring.arrays.encoding import inner_zero
from semiring.chain.prices import Prices
from semiring.chain.problem import Facts, Look, Problem, Reduction, step
from semiring.kernels import backend_for
from semiring.kernels.machines import closure_speed

__all__ = ["narrow"]


@step
def narrow(p: Problem) -> Look:
    """The matrix in the narrowest integers that hold every distance, if they are faster."""
    m = p.matrix
    yield p.semiring is not min_plus or len(m.shape) != 2, "not a single matrix in min-plus"
    yield p.request.method != "auto", "a method was named"
    A = m.array
    candidates = closure_speed(backend_for(A, min_plus, A.dtype).name, A.dtype).faster_dtypes(p.n, A.dtype)
    yield not candidates or not p.waits, "narrower integers are not faster here"
    yield p.known.least is None or p.known.least < 0 or m.moved, "a weight is below 0"
    yield A.dtype.kind == "i" and p.known.greatest == 0, "no two edges add up"
    found: Any = narrower(p.entries, m.sign, p.known.greatest if A.dtype.kind == "i" else None, candidates)
    yield found is None, "an edge is not a whole number, or a distance may be too long"
    dtype, bound = found
    q = p.but(Facts(0, None, True), dtype=dtype, inner=dtype.type(inner_zero(min_plus, dtype)), sentinel="held")
    prices = Prices({str(each): dense_operations(p.n, each.itemsize) for each in (dtype, A.dtype)})
    return Reduction(f"whole numbers, and no distance above {bound}: closed in {dtype}", q, prices=prices)
