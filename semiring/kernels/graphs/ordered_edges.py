"""Carry values along edges in a given order: sets of sources, 64 to a word, and lengths of paths."""

# mypy: disallow-untyped-defs=False, disallow-untyped-calls=False, disallow-incomplete-defs=False
# (the functions below are compiled: their types are Numba's)

from __future__ import annotations

from semiring.kernels.cpu.codegen.jit import kernel


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


@kernel
def relax_edges(tails, heads, weights, h, share):
    """Set h[head] ← min(h[head], weight + share · h[tail]) along the edges (m,) in their order; h (n,) in place."""
    for edge in range(len(tails)):
        offered = weights[edge] + h[tails[edge]] * share
        h[heads[edge]] = min(h[heads[edge]], offered)
