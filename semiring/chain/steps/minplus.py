"""Max-plus is min-plus of the negatives, and min-plus wants weights without sign bits.

Both are maps. What nobody may wait to see is watched: a weight below 0 makes the result NaN.

Cost: a pass there and one back for max-plus, one there where some weight is -0.0. The bits are exact.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from semiring.algebra.catalogue import min_plus
from semiring.arrays.encoding import inner_zero
from semiring.chain.maps import NEGATED, UNSIGNED, Watched
from semiring.chain.problem import Facts, Look, Problem, Reduction, is_tropical, step
from semiring.kernels import backend_for

__all__ = ["as_min_plus", "minplus"]

_WIDE = np.dtype(np.int64)


def as_min_plus(p: Problem) -> tuple[Any, Any]:
    """The least and the greatest entry as min-plus sees them; None is unknown."""
    low, high = p.known.least, p.known.greatest
    if p.semiring.tropical == "min":
        return low, high
    return None if high is None else -high, None if low is None else -low


@step
def minplus(p: Problem) -> Look:
    """The same weights in min-plus."""
    yield not is_tropical(p.semiring), f"{p.semiring.name} needs no change of sign"
    dual, facts, maps = p.semiring.tropical == "max", p.known, p.matrix.maps
    why = "max-plus is min-plus of the negatives" if dual else "min-plus"
    maps = (*maps, NEGATED) if dual else maps
    least, greatest = as_min_plus(p)
    known = Facts(least, greatest, bool(least is not None and least >= 0), facts.potentials)
    form: dict[str, Any] = {}
    if p.dtype.kind == "i":
        # In int64, with a mask for "no path", until it is known how wide they must be.
        form = {"dtype": _WIDE, "inner": _WIDE.type(inner_zero(min_plus, _WIDE)), "sentinel": "masked"}
        known = known._replace(least=int(least), greatest=int(greatest))
    elif not p.waits:
        passes = backend_for(p.matrix.array, min_plus, p.dtype).capabilities.passes
        maps = (*maps, UNSIGNED if passes is None else Watched(passes))
        known, why = Facts(0, None, True), f"{why}, with weights that are not validated first"
    elif not dual and known.nonnegative and not facts.nonnegative:
        maps = (*maps, UNSIGNED)
    form = form or {"inner": p.dtype.type(np.inf)}
    return Reduction(why, p.but(known, semiring=min_plus, maps=maps, **form), quiet=True)
