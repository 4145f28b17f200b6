"""Insert edges of unbounded gain into a closure: -∞ in min-plus, +∞ in max-plus.

A path over such an edge has the length -∞ (+∞), whatever its other edges are, and "no path" stays "no path". A cycle
over such an edge is a negative (positive) cycle. The remaining edges are closed first. Then each unbounded edge is
inserted, as in a dynamic transitive closure: every vertex that reaches its tail now reaches every vertex that its head
reaches. Source: G. F. Italiano, "Amortized efficiency of a path retrieval data structure", 1986.

Cost: O(n²) for every vertex that an unbounded edge leaves. Such edges are rare, and other matrices have no extra cost.
"""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy as np

from semiring.algebra import Semiring
from semiring.algorithms.views import Array
from semiring.arrays.parts import pieces, to_host_array
from semiring.errors import NO_CLOSURE, NegativeCycleError, PositiveCycleError
from semiring.namespaces import array_namespace

__all__ = ["check_unbounded", "insert_unbounded", "unbounded_edges"]


def unbounded_edges(A: Array, sign: int) -> dict[int, Array]:
    """Return the heads of the unbounded edges, by tail, for each tail that has one."""
    gain = -np.inf if sign > 0 else np.inf
    tails = np.flatnonzero(np.concatenate([to_host_array((gain == A[rows]).any(axis=1)) for rows in pieces(A)]))
    return {int(tail): np.flatnonzero(to_host_array(gain == A[int(tail)])) for tail in tails}


def check_unbounded(A: Array, edges: dict[int, Array], semiring: Semiring) -> None:
    """Raise `NegativeCycleError` if an unbounded edge lies on a cycle."""
    no_edge = semiring.zero_for(A.dtype)
    for tail, heads in edges.items():
        path = _find_path(A, heads, tail, no_edge)
        if path:
            cycle = [tail, *path[:-1]]
            cycle_text = " → ".join(map(str, (*cycle, tail)))
            raise (PositiveCycleError if semiring.tropical == "max" else NegativeCycleError)(
                f"the first edge of the cycle {cycle_text} has the weight {float(A[tail, path[0]])}: {NO_CLOSURE} "
                f"(no edge in {semiring.name} is {no_edge})",
                cycle,
            )


def _find_path(A: Array, sources: Array, target: int, no_edge: Any) -> list[int]:
    """Return the vertices of a path of fewest edges from one of ``sources`` to ``target``, or [] without a path."""
    previous = np.full(A.shape[0], -2)
    previous[sources] = -1
    queue = deque(int(vertex) for vertex in sources)
    while queue:
        vertex = queue.popleft()
        if vertex == target:
            path = [vertex]
            while previous[path[-1]] >= 0:
                path.append(int(previous[path[-1]]))
            return path[::-1]
        new = np.flatnonzero(to_host_array(A[vertex] != no_edge) & (previous == -2))
        previous[new] = vertex
        queue.extend(int(other) for other in new)
    return []


def insert_unbounded(edges: dict[int, Array], D: Array) -> Array:
    """Insert the unbounded edges in place into D, the min-plus closure of the remaining edges, and return D."""
    xp = array_namespace(D)
    for tail, head_list in edges.items():
        heads = xp.asarray(head_list)
        before = D[:, tail] != np.inf
        before[tail] = True
        after = (D[heads] != np.inf).any(axis=0)
        after[heads] = True
        for rows in pieces(D):
            D[rows][before[rows, None] & after] = -np.inf
    return D
