"""Compute bottlenecks of an undirected graph from a spanning tree, if ⊕ and ⊗ are join and meet of one order.

The tree comes from Prim's algorithm on the host, and from Borůvka's on a GPU. Sources:
`semiring.kernels.graphs.spanning_forest`. Cost: O(n²), which is some passes over the matrix, log n of them on a GPU.
The workspace is O(n), n log n on a GPU. The module does not compute pivots for predecessors. Entries of the result are
entries of the matrix, and equal those of any other method. Where 0.0 and -0.0 meet, either may be the result.
"""

from __future__ import annotations

import numpy as np

from semiring.algorithms.methods import Method
from semiring.graphs.strongly_connected import run_strips
from semiring.kernels.engine import Engine
from semiring.namespaces import Array

__all__ = ["SPANNING_TREE", "spanning_tree"]


def spanning_tree(engine: Engine, D: Array, A: Array) -> None:
    """Compute D ← A* (n, n) for a symmetric A."""
    from semiring.kernels.graphs.spanning_forest import fill_bottlenecks, order_forest, spanning_forest

    plan, n, graphs = engine.plan, A.shape[0], engine.capabilities.graphs
    largest = plan.semiring.add.expression.op == "max"
    zero, one = A.dtype.type(plan.zero), A.dtype.type(plan.one)
    if graphs is not None:
        tails, heads, weights = graphs.spanning_edges(A, zero, largest)
        best = np.argsort(weights, kind="stable")[:: -1 if largest else 1]
        order, which = order_forest(n, tails[best], heads[best])
        graphs.fill_bottlenecks(D, order, np.append(weights[best], zero)[which], one, largest)
        return
    if A.dtype == np.float16:  # the compiler has no float16, and float32 holds all values of float16
        wide = A.astype(np.float32)
        spanning_tree(engine, wide, wide)
        D[...] = wide
        return
    order, edges = spanning_forest(A, zero, one, largest)
    run_strips(lambda rows: fill_bottlenecks(D, order, edges, one, largest, rows.start, rows.stop), n, plan.threads)


def _pairs(n: int, width: int) -> int:
    return n * width


SPANNING_TREE = Method("spanning_tree", spanning_tree, apart=True, pairs=_pairs)
