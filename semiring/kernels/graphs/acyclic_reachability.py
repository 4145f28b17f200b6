"""Reachability in an acyclic graph, 64 sources to a word."""

# mypy: disallow-untyped-defs=False, disallow-untyped-calls=False, disallow-incomplete-defs=False
# (the functions below are compiled: their types are Numba's)

from __future__ import annotations

from semiring.kernels.graphs.compilation import kernel

__all__ = ["carry_along"]


@kernel
def carry_along(starts, heads, reached):
    """Set reached[head] |= reached[tail] along all edges, in the order of the tails.

    Every edge leads to a higher vertex. starts (n + 1,) and heads (m,) are compressed rows, and reached is (n, words)
    uint64.
    """
    for tail in range(len(starts) - 1):
        for edge in range(starts[tail], starts[tail + 1]):
            for word in range(reached.shape[1]):
                reached[heads[edge], word] |= reached[tail, word]
