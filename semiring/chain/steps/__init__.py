"""The steps, one reduction a file, in the order in which a problem meets them.

The intake makes a matrix of what was given. What follows it may look at all entries, and the order matters where errors
and memory do: all that can fail on the data fails in a look, before the first write.
"""

from __future__ import annotations

from semiring.chain.problem import Step
from semiring.chain.steps.arrays import arrays
from semiring.chain.steps.bits import bits
from semiring.chain.steps.components import components
from semiring.chain.steps.edges import edges
from semiring.chain.steps.integers import integers
from semiring.chain.steps.method import method
from semiring.chain.steps.minplus import minplus
from semiring.chain.steps.names import names
from semiring.chain.steps.narrow import narrow
from semiring.chain.steps.ordered import ordered
from semiring.chain.steps.packed import packed
from semiring.chain.steps.plus import plus
from semiring.chain.steps.rounded import rounded
from semiring.chain.steps.scaled import scaled
from semiring.chain.steps.shifted import shifted
from semiring.chain.steps.sparse import sparse
from semiring.chain.steps.stacks import stacks
from semiring.chain.steps.turned import turned
from semiring.chain.steps.unbounded import unbounded

__all__ = ["STEPS"]

#: All steps. Those of the intake come first: they alone see what the caller gave.
STEPS: tuple[Step, ...] = (
    *(names, bits, sparse, arrays, rounded, method, stacks, turned, edges),
    *(minplus, unbounded, components, shifted, scaled, narrow, integers, ordered, packed, plus),
)
