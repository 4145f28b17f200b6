"""Compute A* of a sparse graph with small separators from its factors: planar graphs, roads, grids, meshes, circuits.

Sources: P. Sao et al., "A supernodal all-pairs shortest path algorithm", PPoPP 2020; `semiring.sparse`, which computes
the factors. Every row of A* is one sweep up and down the elimination tree; 32 rows are computed together.

Cost: the pairs of the factors, which `predict_operations` predicts, and twice the entries of the factors for every row.
The workspace is that of the factors. The module does not compute pivots for predecessors.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from semiring.algorithms.algorithm import Algorithm
from semiring.graphs.graph_structure import FEW
from semiring.kernels.engine import Engine
from semiring.namespaces import Array

if TYPE_CHECKING:  # the elimination loads the compiler, which small calls avoid
    from semiring.closures.problem import Problem
    from semiring.sparse.symbolic_factor import Analysis, FactorLayout

__all__ = ["Supernodal", "predict_operations"]

_PAIRS_PER_FACTOR_PAIR = 5  # the time of a pair of the factors, in pairs of a dense closure
_EDGES = 7  # edges of a vertex in both directions, up to 4096 vertices: with more, an order takes too long
_LEAST_ON_DEVICE = 12288  # vertices: the order of such a graph takes 0.1 s
#: The least ratio of n to the widest level of a search. In a graph of random edges a level holds 0.38 n or more. Its
#: order takes up to a quarter of a closure of 2048 vertices on two threads. In a small world a level holds 0.2 n.
_WIDTHS, _WIDTHS_ON_DEVICE = 3, 16
PAIRS_PER_WRITE = 100  # the time of writing an entry of the result, in pairs of a dense closure


def predict_operations(analysis: Analysis, symmetric: bool) -> float:
    """Predict the cost of the closure, in (⊕, ⊗) pairs of a dense closure."""
    factors = float(analysis.pairs(symmetric).sum())
    numbers = float((analysis.pivots**2 + 2 * analysis.pivots * analysis.depths).sum())
    return _PAIRS_PER_FACTOR_PAIR * factors + analysis.n * numbers + PAIRS_PER_WRITE * analysis.n**2


class Supernodal(Algorithm):
    """Sparse elimination of a graph with few edges and small separators; every row of A* is one sweep.

    It computes an elimination order if there are at most `_EDGES` edges for each vertex (more in large graphs), and no
    level of a breadth-first search is wide. The order gives the number of operations. The result is bitwise identical
    to that of ``structure=False`` where ⊗ and ⊕ are exact. Otherwise a path may be added up in another order, with the
    same bound (docs/rounding.md).
    """

    name, structure, requires = "supernodal", "separators", "few edges"
    apart = True
    source = "Sao et al. 2020"
    semirings = "an idempotent ⊕, and weights that do not gain"
    complexity = "the pairs of the factors, and twice their numbers for each row"

    def reason_against(self, p: Problem) -> str | None:
        facts, graph, n = p.facts, p.facts.structure, p.n
        if graph.pattern is None:
            return f"not known to have at most {n * n // FEW:,} edges"
        if not p.semiring.idempotent:
            return "⊕ is not idempotent: which pivots have a star depends on the order"
        if facts.weights_gain:
            return "only numbers of 0 or more, and products that do not gain"
        if p.options.method == self.name:
            return None
        edges, most = graph.edges, _EDGES * n * max(1.0, n / 4096)
        most = most if graph.has_symmetric_pattern else most / 2
        if edges is None or edges > most:
            listed = graph.pattern.indices.size
            return f"{listed:,} edges, more than {min(most, n * n / FEW):,.0f}: an elimination order takes too long"
        if facts.on_device and n < _LEAST_ON_DEVICE:
            return f"{n:,} vertices, fewer than {_LEAST_ON_DEVICE:,}: a GPU does not wait for an elimination order"
        widths, widest = _WIDTHS_ON_DEVICE if facts.on_device else _WIDTHS, graph.widest_level
        if widest * widths <= n:
            return None
        return f"one search found no small separators: {widest:,} of {n:,} vertices are in one level"

    def least_cost(self, p: Problem) -> float:
        return float(PAIRS_PER_WRITE * p.n**2)

    def cost(self, p: Problem) -> float:
        return predict_operations(p.facts.structure.analysis, p.facts.structure.is_symmetric)

    def run(self, p: Problem, engine: Engine, D: Array, entries: Array) -> Array:
        from semiring.sparse.placement import placement_of

        graph = p.facts.structure
        analysis = graph.analysis
        placement, layout = placement_of(entries), analysis.layout(graph.is_symmetric and p.semiring.commutative)
        placement.prepare(analysis, layout)
        _close(placement, layout, analysis, engine, D, entries)
        return D

    def describe(self, p: Problem) -> str:
        return "few edges and small separators: sparse elimination"


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
