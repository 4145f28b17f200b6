"""Bottlenecks of an undirected graph from a spanning tree: where ⊕ and ⊗ are join and meet of one order.

Sources: `semiring.kernels.graphs.spanning_tree`. Cost: O(n²), some passes over the matrix; workspace O(n). What it does
not compute: pivots for predecessors. Entries are those of the matrix, and equal those of any other method; where 0.0
and -0.0 meet, either may be found.
"""

from __future__ import annotations

from semiring.algorithms.methods import Method
from semiring.algorithms.views import Array
from semiring.graphs.components import in_strips
from semiring.kernels.engine import Engine

__all__ = ["SPANNING_TREE", "spanning_tree"]


def spanning_tree(engine: Engine, D: Array, A: Array) -> None:
    """D ← A* (n, n), A symmetric."""
    from semiring.kernels.graphs.spanning_tree import fill_bottlenecks, spanning_forest

    plan, n = engine.plan, A.shape[0]
    largest = plan.semiring.add.expression.op == "max"
    zero, one = A.dtype.type(plan.zero), A.dtype.type(plan.one)
    order, edges = spanning_forest(A, zero, one, largest)
    in_strips(lambda rows: fill_bottlenecks(D, order, edges, one, largest, rows.start, rows.stop), n, plan.threads)


def _pairs(n: int, width: int) -> int:
    return n * width


SPANNING_TREE = Method("spanning_tree", spanning_tree, apart=True, pairs=_pairs)
