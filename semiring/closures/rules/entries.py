"""Scan signs, which decide the plan of min-plus and the comparison of floats as integers: the rule `entries`.

Cost: one pass over the entries, which also finds NaN and entries outside the domain.
"""

from __future__ import annotations

from semiring.closures.plan import Draft, NotApplicable, Rewrite
from semiring.closures.planner import Recorder, rule, with_signs
from semiring.closures.questions import signs

__all__ = ["entries"]

_REASONS = {
    "clear": "no entry is below 0, and no sign bit is set",
    "zero": "no entry is below 0",
    "below": "an entry may be below 0",
}


@rule("entries")
def entries(q: Recorder, d: Draft) -> NotApplicable | Rewrite:
    """Scan the signs of the entries, and validate them.

    Raises `DomainError` for NaN and for entries outside the domain.
    """
    if d.matrix.storage == "bits":
        return NotApplicable("packed bits have no signs")
    if not q.may_scan:
        return NotApplicable("check=False: the entries are not scanned")
    return Rewrite(_REASONS[q.ask(signs)], with_signs(q, d), quiet=True)
