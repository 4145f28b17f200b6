"""Implement the operations on packed truth values as edges in NumPy."""

import numpy as np

from semiring.algorithms.triangular import _pack_vertices
from semiring.arrays.bits import pack


def entries(words):
    return np.unpackbits(words.view(np.uint8), axis=-1, bitorder="little").astype(bool)


class OnHost:
    """The operations of `GraphKernels` on packed truth values, in NumPy, with a count of sweeps.

    ``host`` copies words to NumPy.
    """

    def __init__(self, host=lambda words: words):
        self.sweeps, self.host = 0, host

    def has_bit_kernels(self, plan, n):
        return True

    def edges(self, words):
        A = entries(words)[:, : len(words)]
        np.fill_diagonal(A, False)
        return A

    def count_edges(self, words):
        words = self.host(words)
        A = self.edges(words)
        return int(A.sum()), bool(np.tril(A).any())

    def peel(self, words, edges, rounds):
        words = self.host(words)
        A = self.edges(words)
        left, order = np.ones(len(A), bool), []
        for _ in range(rounds):
            first = left & ~A[left].any(axis=0)
            if not first.any():
                break
            order += np.flatnonzero(first).tolist()
            left &= ~first
        tails, heads = np.nonzero(A)
        assert edges == len(heads)
        return np.array(order, np.int64), np.searchsorted(tails, np.arange(len(A) + 1)), heads.astype(np.int32)

    def sweep_along(self, words, vertices):
        words = self.host(words)
        self.sweeps += 1
        chosen = entries(vertices)[: len(words)]
        return np.bitwise_or.reduce(words[chosen], axis=0, initial=0).astype(np.uint32)

    def sweep_against(self, words, vertices, asked):
        words = self.host(words)
        self.sweeps += 1
        found = ((words & vertices) != 0).any(axis=1) & entries(asked)[: len(words)]
        return _pack_vertices(np.flatnonzero(found), words.shape[1])

    def permute_bits(self, words, order):
        words = self.host(words)
        words[...] = pack(entries(words)[:, : len(words)][np.ix_(order, order)]).words

    def fill_component(self, words, start, stop):
        words = self.host(words)
        row = np.bitwise_or.reduce(words[start:stop], axis=0) | _pack_vertices(range(start, stop), words.shape[1])
        words[start:stop] = row
        A = entries(words)[:, : len(words)]
        A[:start][A[:start, start:stop].any(axis=1), start:stop] = True
        words[...] = pack(A).words
