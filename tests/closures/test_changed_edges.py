"""Changed edges of a closure against new closures, with predecessors, in every semiring, and errors before a change."""

from __future__ import annotations

import copy

import numpy as np
import pandas as pd
import pytest
from tiers import full

import semiring as sr
from semiring.kernels import get_backend
from semiring.kernels.contract import KernelPlan
from semiring.kernels.nearest_trees import path_sums
from semiring.paths import updates

INF = np.inf
KINDS = {
    "whole": ("min_plus", "float64", lambda rng, k: rng.integers(0, 9, k)),
    "floats": ("min_plus", "float64", lambda rng, k: rng.random(k)),
    "ties of floats": ("min_plus", "float64", lambda rng, k: rng.choice([0.0, 0.1, 0.2, 0.3], k)),
    "gains": ("min_plus", "float64", lambda rng, k: rng.integers(-2, 12, k)),
    "gains of floats": ("min_plus", "float64", lambda rng, k: rng.random(k) * 6 - 1),
    "longest": ("max_plus", "float32", lambda rng, k: -rng.random(k)),
    "int32": ("min_plus", "int32", lambda rng, k: rng.integers(0, 99, k)),
    "int8": ("min_plus", "int8", lambda rng, k: rng.integers(0, 9, k)),
    "half": ("min_plus", "float16", lambda rng, k: rng.integers(0, 9, k)),
    "widest": ("max_min", "float64", lambda rng, k: rng.integers(0, 6, k)),
    "widest int16": ("max_min", "int16", lambda rng, k: rng.integers(-5, 6, k)),
    "narrowest": ("min_max", "uint8", lambda rng, k: rng.integers(0, 6, k)),
    "reliable": ("max_times", "float64", lambda rng, k: rng.choice([1.0, 0.5, 0.25, 0.3], k)),
    "factors": ("max_times", "float64", lambda rng, k: rng.random(k) * 1.5),
    "reach": ("boolean", "bool", lambda rng, k: np.ones(k)),
}

pytestmark = pytest.mark.filterwarnings("ignore:entries of A:semiring.errors.SuspiciousWeightsWarning")


def close(A, semiring):
    """Return A* or None if a cycle gains."""
    try:
        return np.array(sr.closure(A, semiring, check=False))
    except sr.DivergenceError:
        return None


def check_trees(A, D, P, semiring, rtol):
    """Check that the predecessors lead to the sources, along edges whose weights add up to the distances."""
    zero, one = semiring.zero_for(D.dtype), semiring.one_for(D.dtype)
    plan = KernelPlan(semiring, D.dtype, zero, one)
    for i, (row, tree) in enumerate(zip(D, P, strict=True)):
        np.testing.assert_array_equal(tree >= 0, (row != zero) & (np.arange(len(D)) != i))
        steps = np.flatnonzero(tree >= 0)
        assert (A[tree[steps], steps] != zero).all()
        sums = path_sums(plan, A, tree, i)
        np.testing.assert_allclose(sums.astype(float), row.astype(float), rtol=rtol, atol=rtol)


QUICK = ("whole", "ties of floats", "gains of floats", "reach")  # other kernels take seconds to compile
SEEDS = [*range(2), *(pytest.param(seed, marks=pytest.mark.full) for seed in range(2, 12))]


@pytest.mark.parametrize("seed", [*SEEDS, *full(lambda _: False, range(12, 250))])
def test_random_changes_are_those_of_new_closures(seed, monkeypatch):
    """20 sequences of up to four calls each: better, worse, new and removed edges, one or some, with loops."""
    rng = np.random.default_rng([57, seed])
    if seed % 5 == 4:
        monkeypatch.setenv("SEMIRING_BACKEND", "reference")
    if seed % 5 == 3:
        monkeypatch.setattr(updates, "_REPAIR_OPERATIONS", 1e5)  # some of the graphs are closed again
    for _ in range(20):
        name, dtype, draw = KINDS[rng.choice(QUICK if seed < 2 else list(KINDS))]
        semiring, n = sr.as_semiring(name), int(rng.choice([1, 2, 3, 5, 8, 13]))
        zero, rtol = semiring.zero_for(dtype), 1e-12 if dtype == "float64" else 1e-5
        A, m = np.full((n, n), zero, dtype), int(n * rng.choice([0.5, 1.5, 3]))
        A[rng.integers(0, n, m), rng.integers(0, n, m)] = draw(rng, m)
        D = close(A, semiring)
        if D is None:
            continue
        paths, P = None, None
        if rng.random() < 0.6:
            paths = sr.best_paths(A.copy(), semiring, check=False)
            D, P = paths.matrix, paths.predecessors
        for _ in range(4):
            cells = rng.choice(n * n, min(int(rng.choice([1, 1, 2, 6])), n * n), replace=False)
            tails, heads = cells // n, cells % n
            weights = np.where(rng.random(cells.size) < 0.4, zero, draw(rng, cells.size).astype(dtype)).astype(dtype)
            B, before, old_trees = A.copy(), D.copy(), None if P is None else P.copy()
            B[tails, heads] = weights
            expected = close(B, semiring)
            try:
                if paths is None:
                    count = sr.update(D, A, tails, heads, weights, semiring, threads=int(rng.integers(1, 4)))
                else:
                    count = paths.update(tails, heads, weights)
                    A = B
            except sr.DivergenceError:
                assert expected is None
                np.testing.assert_array_equal(D, before)
                if P is not None:
                    np.testing.assert_array_equal(P, old_trees)
                break
            assert expected is not None
            np.testing.assert_array_equal(A, B)
            stored = B[np.not_equal(B, zero)].astype(float)
            if D.dtype.kind != "f" or name == "max_min" or (name == "min_plus" and (stored == np.rint(stored)).all()):
                np.testing.assert_array_equal(D, expected)
            else:
                np.testing.assert_allclose(D, expected, rtol=rtol, atol=rtol)
            assert count == np.count_nonzero(before != D)
            if P is not None:
                check_trees(B, D, P, semiring, rtol)


@pytest.mark.parametrize("layout", ["C", "F"])
def test_large_changes_in_any_layout(rng, layout):
    n, m = 300, 1200
    A = np.full((n, n), INF)
    A[rng.integers(0, n, m), rng.integers(0, n, m)] = rng.integers(1, 50, m)
    paths = sr.shortest_paths(A)
    D, P = np.array(paths.matrix, order=layout), np.array(paths.predecessors, order=layout)
    for k in (1, 5, 100, 900):
        tails, heads = (rng.integers(0, n, k) for _ in range(2))
        first = np.unique(tails * n + heads, return_index=True)[1]
        tails, heads = tails[first], heads[first]
        edges = np.argwhere(A < INF)[rng.permutation(m // 4)[:k]]
        weights = np.concatenate([rng.integers(1, 50, tails.size).astype(float), np.full(len(edges), INF)])
        taken = set((tails * n + heads).tolist())
        kept = [i * n + j not in taken for i, j in edges.tolist()]
        weights = np.concatenate([weights[: tails.size], weights[tails.size :][kept]])
        edges = edges[kept]
        before = D.copy()
        all_tails, all_heads = np.concatenate([tails, edges[:, 0]]), np.concatenate([heads, edges[:, 1]])
        copies = [(D.copy(layout), A.copy(), P.copy(layout)) for _ in range(2)]
        for threads, (D1, A1, P1) in zip((1, 3), copies, strict=True):
            sr.update(D1, A1, all_tails, all_heads, weights, predecessors=P1, threads=threads)
        np.testing.assert_array_equal(copies[0][0], copies[1][0])
        np.testing.assert_array_equal(copies[0][2], copies[1][2])
        count = sr.update(D, A, all_tails, all_heads, weights, predecessors=P)
        np.testing.assert_array_equal(D, sr.closure(A))
        assert count == np.count_nonzero(before != D)
        check_trees(A, D, P, sr.min_plus, 0)


def test_sums_that_are_idempotent_take_better_edges():
    """Sets as the bits of an integer, with union and intersection."""
    sets = sr.Semiring("sets", "x | y", "x & y", 0, 255, domain="[0, 255]", dtypes=["uint8"])
    rng = np.random.default_rng(0)
    A = (rng.integers(0, 256, (9, 9)) & rng.integers(0, 256, (9, 9)) & rng.integers(0, 256, (9, 9))).astype(np.uint8)
    D = np.array(sr.closure(A, sets))
    for weight in (A[2, 7] | 96, 3):
        before = D.copy()
        assert sr.update(D, A, 2, 7, weight, sets) == np.count_nonzero(sr.closure(A, sets) != before)
        np.testing.assert_array_equal(D, sr.closure(A, sets))
        assert A[2, 7] == weight
    with pytest.raises(sr.AlgebraError, match="not idempotent"):
        sr.update(np.eye(2), np.zeros((2, 2)), 0, 1, 0.5, "plus_times")


def test_names_directions_and_properties():
    roads = sr.shortest_paths(sr.as_network([("Ulm", "Kiel", 7.0), ("Kiel", "Jena", 4.0)], directed=False))
    assert (roads.diameter, roads.mean_distance) == (11, 22 / 3)
    assert roads.update("Ulm", "Jena", 3.0) == 2
    assert (roads.diameter, roads.path("Jena", "Ulm")) == (7, ["Jena", "Ulm"])
    assert roads.update(["Kiel", "Kiel"], ["Jena", "Ulm"], [INF, INF]) == 4
    assert not roads.reachable[0, 1]
    assert roads.update(["Kiel", "Kiel"], ["Jena", "Ulm"], 5.0) == 4  # one weight for both
    assert roads.update(np.array(["Kiel", "Kiel"]), np.array(["Jena", "Ulm"]), INF) == 4
    assert roads.update("Kiel", "Ulm", 1.0, directed=True) == 2
    assert [roads.distance("Kiel", "Jena"), roads.distance("Jena", "Kiel")] == [4, INF]
    A = pd.DataFrame([[0, 2.0], [INF, 0]], ["a", "b"], ["a", "b"])
    frame = sr.shortest_paths(A)
    assert frame.update("b", "a", 5.0) == 1
    assert (frame.matrix.loc["b", "a"], frame.path("b", "a"), A.loc["b", "a"]) == (5, ["b", "a"], INF)
    square = sr.shortest_paths([[INF, 1, 1, INF], [INF, INF, INF, 1], [INF, INF, INF, 1.1], [INF] * 4])
    assert square.count(0, 3) == 1
    square.update(2, 3, 1.0)
    assert (square.count(0, 3), square.hops()[0, 3]) == (2, 2)
    late = sr.shortest_paths(np.array([[INF, 2, INF], [INF, INF, 2], [INF, INF, INF]]), predecessors=False)
    assert late.path(0, 2) == [0, 1, 2]
    assert late.update(0, 2, 1.0) == 1
    assert late.path(0, 2) == [0, 2]
    whole = sr.shortest_paths(np.array([[2**31 - 1, 3], [4, 2**31 - 1]], np.int32))
    assert whole.update([0], [1], [INF]) == 1
    assert whole.distance(0, 1) == INF


def test_a_cycle_that_gains_is_named_and_changes_nothing():
    A = np.array([[INF, 2, INF], [INF, INF, -1], [INF, INF, INF]])
    paths = sr.shortest_paths(A, names=["a", "b", "c"])
    before = paths.matrix.copy()
    for tails, heads, weights in (("c", "a", -2.0), (["c", "b"], ["a", "a"], [-0.5, -3.0]), ("b", "b", -1.0)):
        with pytest.raises(sr.NegativeCycleError, match=r"[abc] → "):
            paths.update(tails, heads, weights)
        np.testing.assert_array_equal(paths.matrix, before)
    assert paths.update("c", "a", -1.0) == 3
    assert A[2, 0] == INF


def test_what_is_not_updated_says_why():
    A = np.array([[INF, 1.0], [INF, INF]])
    D = sr.closure(A)
    D.flags.writeable = False
    with pytest.raises(ValueError, match="D is read-only"):
        sr.update(D, A, 0, 1, 2.0)
    D = D.copy()
    for error, message, call in (
        (TypeError, "A is changed in place.*copy it", lambda: sr.update(D, A.tolist(), 0, 1, 2.0)),
        (TypeError, "predecessors is changed", lambda: sr.update(D, A, 0, 1, 2.0, predecessors=sr.shortest_paths(A))),
        (sr.AlgebraError, "is inf, not 0.0.*before the matrix", lambda: sr.update(A, D, 0, 1, 2.0)),
        (sr.DTypeError, "D is float64 and A is float32", lambda: sr.update(D, A.astype(np.float32), 0, 1, 2.0)),
        (sr.ShapeError, r"A is \(1, 2\)", lambda: sr.update(D, A[:1], 0, 1, 2.0)),
        (sr.ShapeError, "2 tails, 1 heads", lambda: sr.update(D, A, [0, 1], [1], [2.0])),
        (sr.VertexError, "vertex 5", lambda: sr.update(D, A, 0, 5, 2.0)),
        (sr.DomainError, "is nan", lambda: sr.update(D, A, 0, 1, np.nan)),
        (sr.DomainError, "-inf", lambda: sr.update(D, A, 0, 1, -INF)),
        (ValueError, "0 → 1 is listed with two weights", lambda: sr.update(D, A, [0, 0], [1, 1], [2.0, 3.0])),
        (sr.AlgebraError, "not updated", lambda: sr.shortest_paths(A, sources=[0]).update(0, 1, 2.0)),
        (sr.ShapeError, "stack", lambda: sr.shortest_paths(A[None]).update(0, 1, 2.0)),
        (sr.AlgebraError, "reflexive", lambda: sr.transitive_closure(A < INF, reflexive=False).update(0, 1, True)),
        (sr.AlgebraError, "weights", lambda: sr.Paths(D, "min_plus").update(0, 1, 2.0)),
    ):
        with pytest.raises(error, match=message):
            call()
    np.testing.assert_array_equal(D, sr.closure(A))


@pytest.mark.parametrize("operation", ["count_users", "repair", "improve"])
def test_an_interrupt_leaves_paths_unchanged_or_says_that_they_are_not_valid(operation, monkeypatch):
    A = np.array([[INF, 1, 4, INF], [INF, INF, 1, INF], [INF, INF, INF, 1], [INF, INF, INF, INF]])
    paths = sr.shortest_paths(A)
    before = paths.matrix.copy()

    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(type(get_backend("cpu")), operation, interrupt)
    with pytest.raises(KeyboardInterrupt):
        paths.update([0, 0], [1, 3], [INF, 1.0])
    monkeypatch.undo()
    if operation == "count_users":
        np.testing.assert_array_equal(paths.matrix, before)
        assert paths.update([0, 0], [1, 3], [INF, 1.0]) == 3
        return
    for use in (lambda: paths.path(0, 1), lambda: paths.matrix, lambda: paths.update(0, 1, 1.0), lambda: len(paths)):
        with pytest.raises(ValueError, match="interrupted"):
            use()


@pytest.mark.parametrize("part", [lambda paths: paths[0], copy.copy], ids=["of a stack", "copy"])
def test_paths_that_share_arrays_are_changed_apart(part):
    A = np.full((1, 3, 3), np.inf)
    A[:, 0, 1], A[:, 1, 2], A[:, 0, 2] = 1, 1, 9
    paths = sr.shortest_paths(A if part is not copy.copy else A[0])
    before, changed = paths.matrix.copy(), part(paths)
    changed.update(1, 2, 9.0)
    changed.update(0, 2, 7.0)
    assert changed.distance(0, 2) == 7
    assert changed.path(0, 2) == [0, 2]
    np.testing.assert_array_equal(paths.matrix, before)
    if part is copy.copy:
        paths.update(0, 2, 1.5)
        assert (paths.distance(0, 2), changed.distance(0, 2)) == (1.5, 7)


def test_one_weight_for_vertices_in_any_list():
    A = np.array([[INF, 7, INF], [INF, INF, 7], [INF, INF, INF]])
    for tails, heads in (((0, 1), (1, 2)), (range(2), range(1, 3)), (iter([0, 1]), [1, 2]), (np.arange(2), [1, 2])):
        paths = sr.shortest_paths(A)
        assert paths.update(tails, heads, 2.0) == 3
        assert paths.distance(0, 2) == 4
    grid = sr.shortest_paths(A, names=[(0, 0), (0, 1), (1, 0)])
    assert grid.update((0, 0), (0, 1), 2.0) == 2
    assert grid.update([(0, 0), (0, 1)], [(0, 1), (1, 0)], 1.0) == 3


def test_predecessors_that_are_no_trees_end(rng):
    n = 9
    A = np.where(rng.random((n, n)) < 0.5, rng.random((n, n)), INF)
    for trees in (rng.integers(-5, 2 * n, (n, n)), np.roll(np.arange(n), 1) + np.zeros((n, n), int)):
        D, P = sr.closure(A), trees.astype(np.int32)
        for weight in (1e-3, INF, 1e-4):
            sr.update(D, A.copy(), [0, 3], [1, 5], weight, predecessors=P)


def test_closure_and_edges_are_two_arrays():
    A = np.zeros((2, 2))
    with pytest.raises(ValueError, match="share memory"):
        sr.update(A, A, 0, 1, 2.0)
