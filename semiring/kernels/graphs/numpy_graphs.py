"""Scan, search and permute graphs in NumPy, for first calls.

The functions have the names and the results of those in `edge_scan`, `component_search` and `permutation`. They need
neither Numba nor a compiler: `semiring.kernels.cpu.first_calls.graph_loops` chooses between both. Rows of edges are
integers of Python, of n bits each, so a search from a vertex takes some operations on integers.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from semiring.kernels.contract import Array

_ENTRIES = 1 << 18  # entries of the rows that are compared at a time


def mark_edges(A: Array, none: Any, weight: Any, words: Array, first: int, last: int) -> bool:
    """Compute `edge_scan.mark_edges`."""
    n, differs = A.shape[1], False
    step = max(1, _ENTRIES // max(1, n))
    for start in range(first, last, step):
        rows = slice(start, min(last, start + step))
        is_edge = A[rows] != none
        words[rows] = _pack(is_edge)
        is_edge &= A[rows] != weight
        is_edge[np.arange(len(is_edge)), np.arange(rows.start, rows.stop)] = False
        differs |= bool(is_edge.any())
    return differs


def transpose_words(words: Array, out: Array, first: int, last: int) -> None:
    """Compute `permutation.transpose_words`."""
    n = out.shape[0]
    for column in range(first, last):
        rows = words[32 * column : 32 * column + 32]
        bits = np.zeros((32, n), np.uint8)
        bits[: len(rows)] = np.unpackbits(rows.view(np.uint8), axis=1, bitorder="little")[:, :n]
        out[:, column] = np.packbits(bits, axis=0, bitorder="little").T.copy().view(np.uint32)[:, 0]


def is_strongly_connected(words: Array, n: int, rounds: int) -> bool:
    """Return False, because `components_of_words` takes no longer than a proof of one component."""
    return False


def components_of_words(words: Array, transposed: Array, n: int) -> tuple[Array, Array, int, int]:
    """Compute `component_search.components_of_words`: vertices are visited in the same order."""
    rows, columns = _as_integers(words), _as_integers(transposed)
    number, weak = np.empty(n, np.int64), np.empty(n, np.int64)
    count = _number_components(_finish_order(rows)[::-1], columns, number)
    weak_count = _number_components(range(n), [row | column for row, column in zip(rows, columns, strict=True)], weak)
    return number, weak, count, weak_count


def _finish_order(rows: list[int]) -> list[int]:
    """Return the vertices in the order in which a depth-first search finishes them."""
    unseen, order = (1 << len(rows)) - 1, []
    for root in range(len(rows)):
        if not unseen >> root & 1:
            continue
        unseen &= ~(1 << root)
        path = [root]
        while path:
            heads = rows[path[-1]] & unseen
            if not heads:
                order.append(path.pop())
                continue
            lowest = heads & -heads
            unseen ^= lowest
            path.append(lowest.bit_length() - 1)
    return order


def _number_components(roots: Any, rows: list[int], numbers: Array) -> int:
    """Number the sets of vertices that edges reach from one root after the other. Return how many sets there are."""
    unseen, count = (1 << len(rows)) - 1, 0
    for root in roots:
        if not unseen >> root & 1:
            continue
        found = waiting = 1 << root
        unseen ^= found
        while waiting:
            lowest = waiting & -waiting
            new = rows[lowest.bit_length() - 1] & unseen
            unseen ^= new
            found |= new
            waiting ^= lowest | new
        numbers[_vertices_of(found, len(rows))] = count
        count += 1
    return count


def _as_integers(words: Array) -> list[int]:
    """Return each row of words as one integer."""
    return [int.from_bytes(row.tobytes(), "little") for row in words]


def _vertices_of(bits: int, n: int) -> Array:
    """Return the positions of the bits of an integer that are set."""
    if not bits & (bits - 1):
        return np.array([bits.bit_length() - 1])
    octets = np.frombuffer(bits.to_bytes(-(-n // 8), "little"), np.uint8)
    return np.flatnonzero(np.unpackbits(octets, bitorder="little"))


def _pack(bits: Array) -> Array:
    """Return truth values (m, n) as words (m, ⌈n/32⌉) uint32."""
    octets = np.zeros((len(bits), 4 * -(-bits.shape[1] // 32)), np.uint8)
    packed = np.packbits(bits, axis=1, bitorder="little")
    octets[:, : packed.shape[1]] = packed
    words: Array = octets.view(np.uint32)
    return words
