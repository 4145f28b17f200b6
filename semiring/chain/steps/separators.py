"""Few edges and small separators: A* by sparse elimination, a sweep through the factors for every row.

Cost: an elimination order, which is tried where there are at most `_EDGES` edges a vertex, more of large graphs, and
where no level of a breadth-first search is wide; the operations that it leads to are known then, and decide.
The bits are those of ``structure=False`` where ⊗ and ⊕ are exact; else a path may be added up in another order, with
the same bound (docs/rounding.md). Source: `semiring.graphs.separators`.
"""

from __future__ import annotations

from semiring.algorithms.potentials.scales import gains
from semiring.chain.prices import compared
from semiring.chain.problem import Look, Problem, Reduction, step
from semiring.chain.steps.reweighted import is_signed
from semiring.graphs.separators import by_separators
from semiring.graphs.structure import Structure

__all__ = ["few_enough", "may_separate", "separators"]

_EDGES = 7  # a vertex, both ways, of up to 4096 vertices: with more, an order takes too long beside a closure
_LEAST_ON_DEVICE = 12288  # vertices: an order takes 0.1 s there
#: Widest levels of a search that the vertices are, at least. An order of random edges, of which a level holds 0.38 and
#: more, takes up to a quarter of a closure of 2048 vertices on two threads; of a small world it holds 0.2.
_WIDTHS, _WIDTHS_ON_DEVICE = 3, 16


@step
def separators(p: Problem) -> Look:
    """The matrix, to be closed by sparse elimination."""
    m = p.matrix
    yield not few_enough(p.seen, p.n), "not known to have few edges"
    yield p.chosen, f"closed by its {p.chosen}"
    yield not p.semiring.idempotent, "⊕ is not idempotent: which pivots have a star depends on the order"
    signs = m.storage == "bits" or is_signed(p) or gains(p.semiring, p.known.least, p.known.greatest)
    yield signs, "only numbers of 0 or more, and products that do not gain"
    yield not may_separate(p.seen, p.n, m.on_device), "one search found no small separators"
    symmetric = p.seen.symmetric and p.semiring.commutative
    searched, spared = p.seen.search is not None, p.request.structure
    prices = compared(
        "separators", p.n, m.dtype, p.seen, spared=spared, undirected=lambda: symmetric, components=lambda: searched
    )
    yield prices.cheapest != "separators", "no small separators", prices
    q = p.but(p.facts, method=by_separators(p.seen.analysis, symmetric, m.array))
    return Reduction("small separators", q, prices=prices)


def may_separate(seen: Structure, n: int, on_device: bool = False) -> bool:
    """Whether the levels of a breadth-first search show small separators, before an order is looked for."""
    if on_device:
        return n >= _LEAST_ON_DEVICE and seen.widest * _WIDTHS_ON_DEVICE <= n
    return seen.widest * _WIDTHS <= n


def few_enough(seen: Structure, n: int) -> bool:
    """Whether an elimination order is worth its time beside a closure of n vertices."""
    if seen.edges is None:
        return False
    return seen.edges * (1 if seen.symmetric else 2) <= _EDGES * n * max(1.0, n / 4096)
