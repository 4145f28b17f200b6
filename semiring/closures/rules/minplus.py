"""Max-plus is min-plus of the negatives, and min-plus wants weights without sign bits.

Both are maps. What nobody may wait to see is watched: a weight below 0 makes the result NaN.

Cost: a pass there and one back for max-plus, one there where some weight is -0.0. The bits are exact.
"""

from __future__ import annotations

import numpy as np

from semiring.algebra.catalogue import min_plus
from semiring.arrays.encoding import inner_zero
from semiring.closures.call import is_tropical
from semiring.closures.maps import NEGATED, UNSIGNED, Watched
from semiring.closures.matrix import EntryMap
from semiring.closures.plan import Draft, NotApplicable, Rewrite
from semiring.closures.planner import Recorder, rule
from semiring.closures.questions import signs

__all__ = ["minplus"]

_WIDE = np.dtype(np.int64)


@rule("minplus")
def minplus(q: Recorder, d: Draft) -> NotApplicable | Rewrite:
    """Close the same weights in min-plus."""
    if not is_tropical(d.semiring):
        return NotApplicable(f"{d.semiring.name} needs no change of sign")
    dual, why = d.semiring.tropical == "max", "min-plus"
    maps: tuple[EntryMap, ...] = d.matrix.maps
    if dual:
        maps, why = (*maps, NEGATED), "max-plus is min-plus of the negatives"
    found = q.ask(signs)
    signed = found in ("below", "unbounded")
    state = {"nonnegative": not signed, "at_least_zero": not signed, "signed": signed, "semiring": min_plus}
    if d.dtype.kind == "i":
        # In int64, with a mask for "no path", until it is known how wide they must be.
        inner = _WIDE.type(inner_zero(min_plus, _WIDE))
        return Rewrite(why, d.but(maps=maps, dtype=_WIDE, inner=inner, sentinel="masked", **state), quiet=True)
    if not q.waits:
        passes = q.backend(min_plus, d.dtype).capabilities.passes
        maps = (*maps, UNSIGNED if passes is None else Watched(passes))
        why = f"{why}, with weights that are not validated first"
    elif not dual and found == "zero":
        maps = (*maps, UNSIGNED)
    return Rewrite(why, d.but(maps=maps, inner=d.dtype.type(np.inf), **state), quiet=True)
