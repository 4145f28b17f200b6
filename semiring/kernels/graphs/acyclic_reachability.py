"""Reachability in an acyclic graph, 64 sources to a word."""

# mypy: disallow-untyped-defs=False, disallow-untyped-calls=False, disallow-incomplete-defs=False
# (the functions below are compiled: their types are Numba's)

from __future__ import annotations

from semiring.kernels.graphs.compilation import kernel

__all__ = ["carry_along"]


@kernel
def carry_along(starts, heads, source_bits):
    """Set source_bits[head] |= source_bits[tail] along all edges, in the order of the tails.

    Every edge leads to a higher vertex. starts (n + 1,) and heads (m,) are compressed rows. source_bits (n, words)
    uint64 has the bits of the sources that reach each vertex.
    """
    for tail in range(len(starts) - 1):
        for edge in range(starts[tail], starts[tail + 1]):
            for word in range(source_bits.shape[1]):
                source_bits[heads[edge], word] |= source_bits[tail, word]
