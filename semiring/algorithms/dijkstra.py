"""Run Dijkstra's algorithm from some vertices of a sparse graph, with the sources distributed over threads.

`semiring.kernels.cpu.dijkstra_loops` states the sources and the cost. The algorithm accepts any semiring whose ⊕
selects, if no weight improves on 1̄ (`never_improves`). These are min-plus with weights ≥ 0, max-plus with weights ≤ 0,
max-min, min-max, max-times with weights ≤ 1, and truth values. It does not compute sums over paths. Values do not
depend on the number of threads, nor on the order in which vertices are settled. The order of the edges decides which of
several best paths is found.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from semiring.algebra import Semiring
from semiring.arrays.folds import add_duplicates
from semiring.kernels import backend_for
from semiring.kernels.contract import KernelPlan, has_operation

__all__ = ["Searches", "never_improves"]


def never_improves(semiring: Semiring, weights: NDArray[Any]) -> bool:
    """Return whether ⊕ selects and 1̄ ⊕ w = 1̄ for every weight: then x ⊕ x ⊗ w = x ⊗ (1̄ ⊕ w) = x."""
    if not semiring.selective:
        return False
    one = semiring.one_for(weights.dtype)
    return semiring.absorptive or bool((semiring.add(weights, one) == one).all())


@dataclass(frozen=True, eq=False)
class Searches:
    """A graph (n vertices, m edges) in the form that Dijkstra's algorithm reads.

    If ``is_reversed``, the edges are reversed, so a path is combined from its end, as w ⊗ x.
    """

    plan: KernelPlan  # the kernel plan, whose number of threads holds for every call
    starts: NDArray[Any]  # (n + 1,) int64: the position of the first edge of each vertex
    heads: NDArray[Any]  # (m,) int32
    weights: NDArray[Any]  # (m,) of the plan's dtype, not better than 1̄, in the encoding of the kernels
    is_reversed: bool = False

    @property
    def n(self) -> int:
        """Return the number of vertices."""
        return int(self.starts.size - 1)

    def search_table(
        self,
        sources: NDArray[Any],
        targets: NDArray[Any] | None = None,
        *,
        trees: bool = False,
        out: NDArray[Any] | None = None,
    ) -> tuple[NDArray[Any], NDArray[Any] | None]:
        """Return the best values (p, q) from each of p sources to each of q targets, 0̄ without a path.

        Without ``targets``, the targets are all vertices. ``out`` (p, q) in C order receives the values. Its dtype may
        be a narrower float; values are then rounded once. With ``trees`` the function also returns the predecessor of
        each vertex on a best path, or -9999, as an array (p, n) int32. With targets, the trees may have no vertices
        beyond the last target.
        """
        ends = np.arange(self.n) if targets is None else targets
        values = np.empty((sources.size, ends.size), self.plan.dtype) if out is None else out
        before = np.empty((sources.size if trees else 0, self.n), np.int32)
        kernels = backend_for(None, self.plan.semiring, self.plan.dtype).capabilities.paths
        if kernels is not None and has_operation(kernels, "search_table"):
            kernels.search_table(self.plan, self._graph, sources, ends, values, before)
        else:
            for i, source in enumerate(sources.tolist()):
                labels, tree = self._search_by_sweeps(source)
                values[i] = labels[ends]
                before[i : i + 1] = tree
        return values, before if trees else None

    def search_near(
        self, sources: NDArray[Any], limit: Any, targets: NDArray[Any] | None = None
    ) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
        """Return the targets within a limit of each source as compressed rows: starts, heads and values.

        Without ``targets``, the targets are all vertices. The cost is that of the vertices within the limit.
        """
        is_target = np.full(self.n, targets is None)
        if targets is not None:
            is_target[targets] = True
        kernels = backend_for(None, self.plan.semiring, self.plan.dtype).capabilities.paths
        bound = self.plan.dtype.type(limit)
        if kernels is not None and has_operation(kernels, "search_near"):
            return kernels.search_near(self.plan, self._graph, sources, is_target, bound)
        rows = [self._search_by_sweeps(source)[0] for source in sources.tolist()]
        add, zero = self.plan.semiring.add, self.plan.zero
        targets_of_rows = [np.flatnonzero(is_target & (row != zero) & (add(row, bound) == row)) for row in rows]
        counts = [0, *(targets_of_row.size for targets_of_row in targets_of_rows)]
        values = [row[targets_of_row] for row, targets_of_row in zip(rows, targets_of_rows, strict=True)]
        nothing = np.empty(0, np.int32), np.empty(0, self.plan.dtype)
        return np.cumsum(counts), np.concatenate([nothing[0], *targets_of_rows]), np.concatenate([nothing[1], *values])

    @property
    def _graph(self) -> tuple[Any, ...]:
        return self.starts, self.heads, self.weights, self.is_reversed

    def _search_by_sweeps(self, source: int) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return labels (n,) and predecessors by Bellman-Ford, for a backend without a search kernel."""
        semiring, order = self.plan.semiring, np.argsort(self.heads, kind="stable")
        tails = np.repeat(np.arange(self.n), np.diff(self.starts))[order]
        heads, weights = self.heads[order].astype(np.int64), self.weights[order]
        labels, tree = np.full(self.n, self.plan.zero, self.plan.dtype), np.full(self.n, -9999, np.int32)
        labels[source] = self.plan.one
        for _ in range(self.n):
            ends = (weights, labels[tails]) if self.is_reversed else (labels[tails], weights)
            offers = np.asarray(semiring.mul(*ends))
            into, best = add_duplicates(heads, offers.copy(), semiring)
            best = np.asarray(semiring.add(best, labels[into]))
            gains = np.zeros(self.n, np.bool_)
            gains[into[best != labels[into]]] = True
            if not gains.any():
                break
            labels[into] = best
            attains = gains[heads] & (offers == labels[heads])
            tree[heads[attains]] = tails[attains]
        return labels, tree
