"""Relax edges one after the other in a given order: a pass of the algorithm of Bellman and Ford."""

# mypy: disallow-untyped-defs=False, disallow-untyped-calls=False, disallow-incomplete-defs=False
# (the functions below are compiled: their types are Numba's)

from __future__ import annotations

from semiring.kernels.graphs.compilation import kernel

__all__ = ["relax_edges"]


@kernel
def relax_edges(tails, heads, weights, h, share):
    """Set h[head] ← min(h[head], weight + share · h[tail]) along the edges (m,) in their order; h (n,) in place."""
    for edge in range(len(tails)):
        offered = weights[edge] + h[tails[edge]] * share
        h[heads[edge]] = min(h[heads[edge]], offered)
