"""Bottlenecks of an undirected graph from a spanning tree: where ⊕ and ⊗ are join and meet of one order.

By Prim's algorithm on the host, by Borůvka's on a GPU. Sources: `semiring.kernels.graphs.spanning_tree`. Cost: O(n²),
some passes over the matrix, log n of them on a GPU; workspace O(n), there n log n. What it does not compute: pivots for
predecessors. Entries are those of the matrix, and equal those of any other method; where 0.0 and -0.0 meet, either may
be found.
"""

from __future__ import annotations

import numpy as np

from semiring.algorithms.methods import Method
from semiring.algorithms.views import Array
from semiring.graphs.components import run_strips
from semiring.kernels.engine import Engine

__all__ = ["SPANNING_TREE", "spanning_tree"]


def spanning_tree(engine: Engine, D: Array, A: Array) -> None:
    """D ← A* (n, n), A symmetric."""
    from semiring.kernels.graphs.spanning_tree import fill_bottlenecks, in_a_row, spanning_forest

    plan, n, graphs = engine.plan, A.shape[0], engine.capabilities.graphs
    largest = plan.semiring.add.expression.op == "max"
    zero, one = A.dtype.type(plan.zero), A.dtype.type(plan.one)
    if graphs is not None:
        tails, heads, weights = graphs.spanning_edges(A, zero, largest)
        best = np.argsort(weights, kind="stable")[:: -1 if largest else 1]
        order, which = in_a_row(n, tails[best], heads[best])
        graphs.fill_bottlenecks(D, order, np.append(weights[best], zero)[which], one, largest)
        return
    if A.dtype == np.float16:  # which the compiler does not know: all of them are numbers of float32
        wide = A.astype(np.float32)
        spanning_tree(engine, wide, wide)
        D[...] = wide
        return
    order, edges = spanning_forest(A, zero, one, largest)
    run_strips(lambda rows: fill_bottlenecks(D, order, edges, one, largest, rows.start, rows.stop), n, plan.threads)


def _pairs(n: int, width: int) -> int:
    return n * width


SPANNING_TREE = Method("spanning_tree", spanning_tree, apart=True, pairs=_pairs)
