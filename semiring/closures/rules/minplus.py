"""Close max-plus as min-plus of the negatives, and clear the sign bits of zeros for kernels: the rule `minplus`.

Both are maps. If the call must not wait for the signs, a third map makes the result NaN if a weight is below 0.

Cost: one pass to encode and one to decode for max-plus; one pass to encode if some weight is -0.0. The result is exact.
"""

from __future__ import annotations

import numpy as np

from semiring.algebra.catalogue import min_plus
from semiring.arrays.encoding import inner_zero
from semiring.closures.call import is_tropical
from semiring.closures.entry_maps import NEGATION, POSITIVE_ZEROS, NegativeWeightGuard
from semiring.closures.matrix import EntryMap
from semiring.closures.plan import Draft, NotApplicable, Rewrite
from semiring.closures.planner import Recorder, rule
from semiring.closures.questions import signs

__all__ = ["minplus"]

_WIDE = np.dtype(np.int64)


@rule("minplus")
def minplus(q: Recorder, d: Draft) -> NotApplicable | Rewrite:
    """Close weights of max-plus as their negatives in min-plus, and clear the sign bits of zeros."""
    if not is_tropical(d.semiring):
        return NotApplicable(f"{d.semiring.name} needs no change of sign")
    dual, why = d.semiring.tropical == "max", "min-plus"
    maps: tuple[EntryMap, ...] = d.matrix.maps
    if dual:
        maps, why = (*maps, NEGATION), "max-plus is min-plus of the negatives"
    answer = q.ask(signs)
    signed = answer == "below"
    state = {
        "nonnegative": not signed,
        "at_least_zero": not signed,
        "has_negative_weight": signed,
        "semiring": min_plus,
    }
    if d.dtype.kind == "i":
        # In int64 with a mask for "no path", until the rule `integers` chooses a width.
        inner = _WIDE.type(inner_zero(min_plus, _WIDE))
        return Rewrite(why, d.replace(maps=maps, dtype=_WIDE, inner=inner, sentinel="masked", **state), quiet=True)
    if not q.may_synchronize:
        passes = q.backend(min_plus, d.dtype).capabilities.passes
        maps = (*maps, POSITIVE_ZEROS if passes is None else NegativeWeightGuard(passes))
        why = f"{why}, with weights that are not validated first"
    elif not dual and answer == "zero":
        maps = (*maps, POSITIVE_ZEROS)
    return Rewrite(why, d.replace(maps=maps, inner=d.dtype.type(np.inf), **state), quiet=True)
