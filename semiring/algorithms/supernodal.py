"""Compute A* of a sparse graph with small separators from its factors: planar graphs, roads, grids, meshes, circuits.

Sources: P. Sao et al., "A supernodal all-pairs shortest path algorithm", PPoPP 2020; `semiring.sparse`, which computes
the factors. Every row of A* is one sweep up and down the elimination tree; 32 rows are computed together.

Cost: the pairs of the factors, which `predict_operations` predicts, and twice the entries of the factors for every row.
The workspace is that of the factors. The module does not compute pivots for predecessors.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from semiring.algorithms.methods import Method
from semiring.kernels.engine import Engine
from semiring.namespaces import Array

if TYPE_CHECKING:  # the elimination loads the compiler, which small calls avoid
    from semiring.sparse.symbolic_factor import Analysis, FactorLayout

__all__ = ["PAIRS_PER_WRITE", "predict_operations", "supernodal_method"]

_PAIRS_PER_FACTOR_PAIR = 5  # the time of a pair of the factors, in pairs of a dense closure
PAIRS_PER_WRITE = 100  # the time of writing an entry of the result, in pairs of a dense closure


def predict_operations(analysis: Analysis, symmetric: bool) -> float:
    """Predict the cost of the closure, in (⊕, ⊗) pairs of a dense closure."""
    factors = float(analysis.pairs(symmetric).sum())
    numbers = float((analysis.pivots**2 + 2 * analysis.pivots * analysis.depths).sum())
    return _PAIRS_PER_FACTOR_PAIR * factors + analysis.n * numbers + PAIRS_PER_WRITE * analysis.n**2


def supernodal_method(analysis: Analysis, symmetric: bool, A: Array) -> Method:
    """Return the method that closes a matrix on the device of A, from the symbolic analysis of its pattern."""
    from semiring.sparse.placement import placement_of

    placement, layout = placement_of(A), analysis.layout(symmetric)
    placement.prepare(analysis, layout)
    return Method("supernodal", partial(_close, placement, layout, analysis), apart=True, pairs=_pairs)


def _close(placement: Any, layout: FactorLayout, analysis: Analysis, engine: Engine, D: Array, A: Array) -> None:
    from semiring.sparse.numeric_factor import PivotError

    pattern = analysis.pattern
    try:
        values = A[placement.xp.asarray(pattern.rows), placement.xp.asarray(pattern.indices)]
        numbers = placement.eliminate(analysis, layout, engine.plan, values)
    except PivotError as error:
        engine.plan.status.diverged = int(analysis.order[error.place])
        return
    placement.all_rows(numbers, engine.plan, D)


def _pairs(n: int, width: int) -> int:
    return n * n * width
