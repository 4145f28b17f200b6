"""Closures of packed truth values by components: the order that is found, and what is multiplied in it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.sparse.csgraph import connected_components

from semiring import boolean, pack
from semiring.algorithms.schedule import schedule_for
from semiring.graphs import triangular
from semiring.graphs.triangular import close_in_order, order_of, pivot_blocks
from semiring.kernels import get_backend
from semiring.kernels.engine import Engine, make_plan

WIDTH = 64


def entries(words):
    return np.unpackbits(words.view(np.uint8), axis=-1, bitorder="little").astype(bool)


class OnHost:
    """`semiring.kernels.contract.Relations` in NumPy; it counts sweeps."""

    def __init__(self):
        self.sweeps = 0

    def edges(self, words):
        A = entries(words)[:, : len(words)]
        np.fill_diagonal(A, False)
        return A

    def count_edges(self, words):
        A = self.edges(words)
        return int(A.sum()), bool(np.tril(A).any())

    def peel(self, words, edges, rounds):
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
        self.sweeps += 1
        chosen = entries(vertices)[: len(words)]
        return np.bitwise_or.reduce(words[chosen], axis=0, initial=0).astype(np.uint32)

    def sweep_against(self, words, vertices, asked):
        self.sweeps += 1
        found = ((words & vertices) != 0).any(axis=1) & entries(asked)[: len(words)]
        return triangular._set_of(np.flatnonzero(found), words.shape[1])

    def permute_bits(self, words, order):
        words[...] = pack(entries(words)[:, : len(words)][np.ix_(order, order)]).words

    def fill_component(self, words, start, stop):
        row = np.bitwise_or.reduce(words[start:stop], axis=0) | triangular._set_of(range(start, stop), words.shape[1])
        words[start:stop] = row
        A = entries(words)[:, : len(words)]
        A[:start][A[:start, start:stop].any(axis=1), start:stop] = True
        words[...] = pack(A).words


@pytest.fixture
def narrow(monkeypatch):
    """Blocks of 64 pivots, and sets that are split down to 40 vertices."""
    schedule = replace(schedule_for("cpu", np.dtype(bool), "bits"), pivots=((0, WIDTH),), first=((0, WIDTH),))
    monkeypatch.setattr(triangular, "schedule_for", lambda *_: schedule)
    monkeypatch.setattr(triangular, "_SPLIT", 40)
    monkeypatch.setattr(triangular, "_SWEEPS", 1e9)


def reachable(A):
    found = A | np.eye(len(A), dtype=bool)
    while True:
        further = found.astype(np.float32) @ found.astype(np.float32) > 0
        if (further == found).all():
            return found
        found = further


def graphs(n, rng):
    """Graphs of all kinds of components, each under a permutation and one without."""
    upper = np.triu(np.ones((n, n), bool), 1)
    clique = np.zeros((n, n), bool)
    a, b = n // 4, n - n // 4
    clique[a:b, a:b] = True
    rings = np.zeros((n, n), bool)
    for start, stop in ((0, n // 3), (n // 3, n // 2), (n // 2, n)):
        members = np.arange(start, stop)
        rings[members, np.roll(members, 1)] = True
    for density in (0.003, 0.01, 0.3):
        some = rng.random((n, n)) < density
        yield some
        yield some & upper
        yield clique | (some & upper)
        yield rings | (some & upper)
    yield np.zeros((n, n), bool)
    yield np.eye(n, k=1, dtype=bool)


@pytest.mark.parametrize("few", [64, 0], ids=["edges", "sweeps"])
@pytest.mark.parametrize("n", [1, 33, *(pytest.param(n, marks=pytest.mark.slow) for n in (2, 100, 257))])
def test_closures_in_an_order_that_is_found(n, few, narrow, monkeypatch, rng):
    """Every order is one, every component that is called strong is one, and the closure is that of any other way."""
    monkeypatch.setattr(triangular, "_FEW", few)
    monkeypatch.setattr(triangular, "_LISTED", 1)
    engine = Engine(get_backend("cpu"), make_plan(boolean, "bool", storage="bits"))
    for number, A in enumerate(graphs(n, rng)):
        for order in (np.arange(n), rng.permutation(n)):
            A_ = A[np.ix_(order, order)]
            words, expected = pack(A_).words, reachable(A_)
            relations = OnHost()
            found = order_of(relations, words)
            if found is None:
                assert few == 0
                continue
            at = np.arange(n) if found.order is None else found.order
            assert np.array_equal(np.sort(at), np.arange(n))
            part = np.searchsorted(found.bounds, np.arange(n), side="right")
            moved = expected[np.ix_(at, at)]
            assert not moved[part[:, None] > part[None, :]].any(), number
            for start, stop, strong in zip(found.bounds[:-1], found.bounds[1:], found.strong, strict=True):
                assert not strong or moved[start:stop, start:stop].all(), number
            close_in_order(engine, relations, words, found)
            np.testing.assert_array_equal(entries(words)[:, :n], expected, str(number))
            assert not entries(words)[:, n:].any()


def test_components_of_few_edges_are_all_found(narrow, monkeypatch, rng):
    """As many as SciPy counts."""
    monkeypatch.setattr(triangular, "_LISTED", 1)
    A = rng.random((300, 300)) < 0.008
    found = order_of(OnHost(), pack(A).words)
    assert len(found.strong) == connected_components(A, connection="strong")[0]
    assert found.strong.all()


def test_a_look_stops(narrow, monkeypatch, rng):
    """With few sweeps allowed sets stay whole; what was split until then serves."""
    monkeypatch.setattr(triangular, "_FEW", 0)
    order = rng.permutation(300)
    A = np.triu(rng.random((300, 300)) < 0.3, 1)[np.ix_(order, order)]
    counts = []
    for allowed in (0, 3, 1e9):
        monkeypatch.setattr(triangular, "_SWEEPS", allowed / 300)
        monkeypatch.setattr(triangular, "_CALL", 300.0**2)
        relations = OnHost()
        found = order_of(relations, pack(A).words)
        counts.append(0 if found is None else len(found.strong))
        assert relations.sweeps <= allowed + 1
    assert counts[0] == 0
    assert counts[0] < counts[1] < counts[2] or counts[1] == 0 < counts[2]


def test_pivots():
    assert pivot_blocks(100, [], 64) == [(0, 64), (64, 100)]
    assert pivot_blocks(300, [(70, 250)], 64) == [(0, 64), (64, 96), (224, 288), (288, 300)]
    assert pivot_blocks(300, [(0, 150), (150, 300)], 64) == [(0, 32), (128, 160)]


def test_fewer_pairs_of_an_acyclic_graph(narrow):
    """A sixth, and what blocks of pivots multiply too much."""
    counted = 0

    class Counting(Engine):
        def multiply_add(self, C, A, B):
            nonlocal counted
            counted += C.size * 32 * B.shape[0]
            super().multiply_add(C, A, B)

    n = 1024
    A = np.eye(n, k=1, dtype=bool)
    words = pack(A).words
    close_in_order(
        Counting(get_backend("cpu"), make_plan(boolean, "bool", storage="bits")),
        OnHost(),
        words,
        order_of(OnHost(), words),
    )
    np.testing.assert_array_equal(entries(words), np.triu(np.ones((n, n), bool)))
    assert counted < 0.25 * n**3
