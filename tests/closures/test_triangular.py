"""Test closures of packed truth values by components: the order that is found, and the products in it."""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module

import fake_cupy
import numpy as np
import pytest
from relations_on_host import OnHost, entries
from scipy.sparse.csgraph import connected_components

import semiring as sr
from semiring import boolean, pack
from semiring.algorithms import triangular
from semiring.algorithms.schedule import schedule_for
from semiring.algorithms.triangular import close_in_order, find_order, pivot_blocks
from semiring.kernels import get_backend
from semiring.kernels.contract import Capabilities
from semiring.kernels.engine import Engine, make_plan

WIDTH = 64


@pytest.fixture
def narrow(monkeypatch):
    """Use blocks of 64 pivots, and sets that are split down to 40 vertices."""
    schedule = replace(schedule_for("cpu", np.dtype(bool), "bits"), pivots=((0, WIDTH),), first_widths=((0, WIDTH),))
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
    """Yield graphs of all kinds of components, each under a permutation and one without."""
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


@pytest.mark.parametrize("few_edges", [64, 0], ids=["edges", "sweeps"])
@pytest.mark.parametrize("n", [1, 33, *(pytest.param(n, marks=pytest.mark.full) for n in (2, 100, 257))])
def test_closures_in_an_order_that_is_found(n, few_edges, narrow, monkeypatch, rng):
    """Every order is topological, every strong component is one, and the closure is that of other methods."""
    monkeypatch.setattr(triangular, "_FEW", few_edges)
    monkeypatch.setattr(triangular, "_LISTED", 1)
    engine = Engine(get_backend("cpu"), make_plan(boolean, "bool", storage="bits"))
    for number, A in enumerate(graphs(n, rng)):
        for order in (np.arange(n), rng.permutation(n)):
            A_ = A[np.ix_(order, order)]
            words, expected = pack(A_).words, reachable(A_)
            relations = OnHost()
            found = find_order(relations, words)
            if found is None:
                assert few_edges == 0
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
    """The number of strong components is that of SciPy."""
    monkeypatch.setattr(triangular, "_LISTED", 1)
    A = rng.random((300, 300)) < 0.008
    found = find_order(OnHost(), pack(A).words)
    assert len(found.strong) == connected_components(A, connection="strong")[0]
    assert found.strong.all()


def test_a_look_stops(narrow, monkeypatch, rng):
    """A limit on the sweeps leaves some sets whole, and the sets that were split are used."""
    monkeypatch.setattr(triangular, "_FEW", 0)
    order = rng.permutation(300)
    A = np.triu(rng.random((300, 300)) < 0.3, 1)[np.ix_(order, order)]
    counts = []
    for allowed in (0, 3, 1e9):
        monkeypatch.setattr(triangular, "_SWEEPS", allowed / 300)
        monkeypatch.setattr(triangular, "_CALL", 300.0**2)
        relations = OnHost()
        found = find_order(relations, pack(A).words)
        counts.append(0 if found is None else len(found.strong))
        assert relations.sweeps <= allowed + 1
    assert counts[0] == 0
    assert counts[0] < counts[1] < counts[2] or counts[1] == 0 < counts[2]


def test_pivots():
    assert pivot_blocks(100, [], 64) == [(0, 64), (64, 100)]
    assert pivot_blocks(300, [(70, 250)], 64) == [(0, 64), (64, 96), (224, 288), (288, 300)]
    assert pivot_blocks(300, [(0, 150), (150, 300)], 64) == [(0, 32), (128, 160)]


def test_fewer_pairs_of_an_acyclic_graph(narrow):
    """An acyclic graph takes a sixth of the pairs, and the surplus of blocks of pivots."""
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
        find_order(OnHost(), words),
    )
    np.testing.assert_array_equal(entries(words), np.triu(np.ones((n, n), bool)))
    assert counted < 0.25 * n**3


@pytest.mark.full
@pytest.mark.parametrize("reflexive", [True, False])
def test_a_gpu_looks_for_the_order_when_it_closes(reflexive, narrow, monkeypatch, rng):
    """A stand-in for a GPU reports what it finds. The bits are those of all pairs, which close a graph without
    order."""
    _, device = fake_cupy.install(monkeypatch)
    device.capabilities = Capabilities(graphs=OnHost(fake_cupy.unwrap))
    monkeypatch.setattr(import_module("semiring.algorithms.triangular"), "_LEAST", 1)
    monkeypatch.setattr(import_module("semiring.closures.problem"), "LEAST_ON_DEVICE", 1)
    monkeypatch.setattr(triangular, "_FEW", 0)
    n = 150
    acyclic, order = np.triu(rng.random((n, n)) < 0.05, 1), rng.permutation(n)
    ring = np.roll(np.eye(n, dtype=bool), 1, axis=1)
    found = {
        "no two of which reach each other, in topological order": acyclic,
        " parts, the largest of ": (acyclic | np.kron(np.eye(3, dtype=bool), ring[:50, :50]))[np.ix_(order, order)],
        "1 parts, the largest of 150": ring,
    }
    for told, A in found.items():
        given = pack(A).to_device()
        closed, why = sr.closure(given, "boolean", reflexive=reflexive, explain=True)
        assert told in str(why)
        assert "triangular" in str(why)
        assert closed.to_host() == sr.closure(pack(A), "boolean", reflexive=reflexive, structure=False)
        for options in ({"structure": False}, {"method": "rkleene"}, {"progress": lambda done, total: None}):
            again, why = sr.closure(given, "boolean", reflexive=reflexive, explain=True, **options)
            assert "triangular" not in str(why)
            assert again == closed
    monkeypatch.setattr(triangular, "_SWEEPS", 0)
    closed, why = sr.closure(pack(ring).to_device(), "boolean", explain=True)
    assert "no order of the vertices reduces the work" in why.details
    assert closed.count() == n * n
