"""The signs of the entries: they decide how min-plus is closed, and whether kernels may compare floats as integers.

Cost: one pass over the entries, which also finds NaN and what lies outside the domain.
"""

from __future__ import annotations

from semiring.closures.plan import Draft, NotApplicable, Rewrite
from semiring.closures.planner import Recorder, rule, with_signs
from semiring.closures.questions import signs

__all__ = ["entries"]

_SAID = {
    "clear": "no entry is below 0, and no sign bit is set",
    "zero": "no entry is below 0",
    "below": "an entry may be below 0",
    "unbounded": "an edge has unbounded gain",
}


@rule("entries")
def entries(q: Recorder, d: Draft) -> NotApplicable | Rewrite:
    """Scan the entries for their signs. Raises `DomainError` for NaN and for what lies outside the domain."""
    if d.matrix.storage == "bits":
        return NotApplicable("packed bits have no signs")
    if not q.scanned:
        return NotApplicable("check=False: the entries are not scanned")
    return Rewrite(_SAID[q.ask(signs)], with_signs(q, d), quiet=True)
