"""A* of a sparse graph with small separators, by its factors: planar graphs, roads, grids, meshes, circuits.

Sources: P. Sao et al., "A supernodal all-pairs shortest path algorithm", PPoPP 2020; `semiring.elimination`, which
finds the factors. Every row of A* is a sweep up and down the elimination tree, 32 of them abreast.

Cost: the pairs of the factors, which `operations` knows before the work begins, and twice their numbers for every row;
workspace the factors. What it does not compute: pivots for predecessors.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from semiring.algorithms.methods import Method
from semiring.algorithms.views import Array
from semiring.kernels.engine import Engine

if TYPE_CHECKING:  # the elimination loads the compiler, and small calls are to do without
    from semiring.elimination.analysis import Analysis

__all__ = ["by_separators", "operations"]

_SWEPT = 5  # pairs of a closure in the time of one of the sweeps


def operations(analysis: Analysis, symmetric: bool) -> float:
    """What the closure costs, in pairs of one by products."""
    factors = float(analysis.pairs(symmetric).sum())
    numbers = float((analysis.pivots**2 + 2 * analysis.pivots * analysis.depths).sum())
    return _SWEPT * (factors + analysis.n * numbers) + 250.0 * analysis.n**2


def by_separators(analysis: Analysis, symmetric: bool) -> Method:
    """The method that closes a matrix whose edges are those of the pattern that was analysed."""
    return Method("supernodes", partial(_close, analysis, symmetric), apart=True, pairs=_pairs)


def _close(analysis: Analysis, symmetric: bool, engine: Engine, D: Array, A: Array) -> None:
    from semiring.elimination.numbers import NoStar, eliminate
    from semiring.elimination.questions import Sweeps

    pattern = analysis.pattern
    try:
        values = A[pattern.rows, pattern.indices]
        numbers = eliminate(analysis, analysis.layout(symmetric), engine.plan, values)
    except NoStar as error:
        engine.plan.status.diverged = int(analysis.order[error.place])
        return
    Sweeps(numbers, engine.plan).rows_into(np.arange(analysis.n), D)


def _pairs(n: int, width: int) -> int:
    return n * n * width
