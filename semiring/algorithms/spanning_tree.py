"""Compute bottlenecks of an undirected graph from a spanning tree, if ⊕ and ⊗ are join and meet of one order.

The tree comes from Prim's algorithm on the host, and from Borůvka's on a GPU. Sources:
`semiring.kernels.graphs.spanning_forest`. Cost: O(n²), which is some passes over the matrix, log n of them on a GPU.
The workspace is O(n), n log n on a GPU. The module does not compute pivots for predecessors. Entries of the result are
entries of the matrix, and equal those of any other method. Where 0.0 and -0.0 meet, either may be the result.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from semiring.algorithms.algorithm import Algorithm
from semiring.algorithms.ordered_integers import has_min_and_max
from semiring.graphs.strongly_connected import run_strips
from semiring.kernels.engine import Engine
from semiring.namespaces import Array

if TYPE_CHECKING:
    from semiring.closures.problem import Problem

__all__ = ["SpanningTree", "spanning_tree"]

_PASSES = 250.0  # pairs for each entry: the passes over the matrix


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


class SpanningTree(Algorithm):
    """Undirected bottlenecks, read from the paths of a spanning tree.

    The entries equal those of ``structure=False``; only the sign of a 0 may differ where 0.0 and -0.0 meet.
    """

    name, structure, requires = "spanning_tree", "bottleneck", "an undirected graph"
    apart = True
    source = "Hu 1961; Prim 1957 on a CPU, Borůvka 1926 on a GPU"
    semirings = "⊕ and ⊗ that are minimum and maximum"
    complexity = "O(n²)"

    def reason_against(self, p: Problem) -> str | None:
        if not has_min_and_max(p.semiring):
            return "⊕ and ⊗ are not minimum and maximum of numbers"
        return None if p.facts.structure.is_symmetric else "not known to be undirected"

    def least_cost(self, p: Problem) -> float:
        return _PASSES * p.n**2

    cost = least_cost

    def run(self, p: Problem, engine: Engine, D: Array, entries: Array) -> Array:
        spanning_tree(engine, D, entries)
        return D

    def describe(self, p: Problem) -> str:
        return "undirected bottlenecks: read from a spanning tree"
