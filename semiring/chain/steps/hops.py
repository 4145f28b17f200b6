"""Edges of one weight: distances are hops, counted by breadth-first search of 512 vertices at a time.

Only where every sum of the weight is exact, so that the bits are those of ``structure=False``. Cost: a pass over the
edges for every level of the search, and 512 vertices; 4 bytes of memory an edge, or a bit an entry. Source:
`semiring.graphs.hops`.
"""

from __future__ import annotations

from semiring.algebra.catalogue import min_plus
from semiring.chain.prices import compared
from semiring.chain.problem import Look, Problem, Reduction, step
from semiring.chain.steps.reweighted import is_signed
from semiring.graphs.hops import by_hops, is_exact

__all__ = ["hops"]

_LEVELS = 1024  # of a search on a GPU, each of which is a launch for all vertices
_BITS = 3  # of every entry that it keeps


def _free() -> int:
    from semiring.arrays.device.memory import free_on_device

    return free_on_device()


@step
def hops(p: Problem) -> Look:
    """The matrix, to be closed by counting edges."""
    m = p.matrix
    yield p.seen.weight is None or p.semiring is not min_plus, "not min-plus, or edges of different weights"
    weight = m.sign * p.seen.weight.item()
    yield not weight > 0 or m.moved, "the weight is not above 0"
    yield is_signed(p), "a loop has a weight below 0, which is a negative cycle"
    yield not is_exact(weight, p.n, m.dtype, m.inner), f"sums of {weight} are rounded"
    deep = m.on_device and p.seen.pattern is not None and p.seen.widest * _LEVELS < p.n
    yield deep, "paths have more edges than are fast on a GPU"
    yield (
        m.on_device and _BITS * p.n**2 // 8 > _free(),
        "the GPU has too little free memory for the sets of reached vertices",
    )
    why = f"all edges have the weight {weight}: hops, by breadth-first search"
    # Nothing but the weight is read, so the caller's numbers are written as they are, where nobody looks at them
    # through the maps; unless they are integers of which some other path might come near "no path" inside.
    own = not p.plus and p.inspect is None and m.dtype == m.array.dtype
    if m.sentinel:
        own = own and p.known.greatest is not None and (p.n + 1) * int(p.known.greatest) < int(m.inner)
    if own:
        found = by_hops(p.seen.weight, m.none, p.seen)
        q = p.but(p.facts, method=found, maps=(), sentinel="", dtype=m.array.dtype, inner=m.none)
    else:
        q = p.but(p.facts, method=by_hops(weight, m.inner, p.seen))
    return Reduction(why, q, prices=compared("hops", p.n, p.dtype))
