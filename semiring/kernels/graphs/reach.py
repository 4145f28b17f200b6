"""What vertices of an acyclic graph reach, 64 sources to a word."""

# mypy: disallow-untyped-defs=False, disallow-untyped-calls=False, disallow-incomplete-defs=False
# (the functions below are compiled: their types are Numba's)

from __future__ import annotations

from semiring.kernels.graphs.compiled import kernel

__all__ = ["carry_along"]


@kernel
def carry_along(starts, heads, found):
    """found[head] |= found[tail] along all edges, in the order of the tails; every edge leads to a higher vertex.

    starts (n + 1,) and heads (m,): compressed rows; found (n, words) uint64.
    """
    for tail in range(len(starts) - 1):
        for edge in range(starts[tail], starts[tail + 1]):
            for word in range(found.shape[1]):
                found[heads[edge], word] |= found[tail, word]
