"""A* of a sparse graph with small separators, by its factors: planar graphs, roads, grids, meshes, circuits.

Sources: P. Sao et al., "A supernodal all-pairs shortest path algorithm", PPoPP 2020; `semiring.sparse`, which
finds the factors. Every row of A* is a sweep up and down the elimination tree, 32 of them abreast.

Cost: the pairs of the factors, which `operations` knows before the work begins, and twice their numbers for every row;
workspace the factors. What it does not compute: pivots for predecessors.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from semiring.algorithms.methods import Method
from semiring.algorithms.views import Array
from semiring.kernels.engine import Engine

if TYPE_CHECKING:  # the elimination loads the compiler, and small calls are to do without
    from semiring.sparse.symbolic import Analysis, FactorLayout

__all__ = ["WRITTEN", "by_separators", "operations"]

_FACTORED, WRITTEN = 5, 100  # pairs of a closure in the time of one of the factors, and in which an entry is written


def operations(analysis: Analysis, symmetric: bool) -> float:
    """What the closure costs, in pairs of one by products."""
    factors = float(analysis.pairs(symmetric).sum())
    numbers = float((analysis.pivots**2 + 2 * analysis.pivots * analysis.depths).sum())
    return _FACTORED * factors + analysis.n * numbers + WRITTEN * analysis.n**2


def by_separators(analysis: Analysis, symmetric: bool, A: Array) -> Method:
    """The method that closes a matrix, where A is, whose edges are those of the pattern that was analysed."""
    from semiring.sparse.placement import placement_of

    home, layout = placement_of(A), analysis.layout(symmetric)
    home.prepare(analysis, layout)
    return Method("supernodal", partial(_close, home, layout, analysis), apart=True, pairs=_pairs)


def _close(home: Any, layout: FactorLayout, analysis: Analysis, engine: Engine, D: Array, A: Array) -> None:
    from semiring.sparse.numeric import PivotError

    pattern = analysis.pattern
    try:
        values = A[home.xp.asarray(pattern.rows), home.xp.asarray(pattern.indices)]
        numbers = home.eliminate(analysis, layout, engine.plan, values)
    except PivotError as error:
        engine.plan.status.diverged = int(analysis.order[error.place])
        return
    home.all_rows(numbers, engine.plan, D)


def _pairs(n: int, width: int) -> int:
    return n * n * width
