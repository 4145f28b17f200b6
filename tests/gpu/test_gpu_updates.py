"""Test changed edges of closures on a GPU against new closures, with predecessors, and errors before a change."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import trees

import semiring as sr
from semiring.kernels import get_backend
from semiring.paths import updates

INF = np.inf
KINDS = {
    "whole": ("min_plus", "float64", lambda rng, k: rng.integers(0, 9, k)),
    "floats": ("min_plus", "float32", lambda rng, k: rng.random(k)),
    "ties of floats": ("min_plus", "float64", lambda rng, k: rng.choice([0.0, 0.1, 0.2, 0.3], k)),
    "gains": ("min_plus", "float64", lambda rng, k: rng.integers(-2, 12, k)),
    "gains of floats": ("min_plus", "float64", lambda rng, k: rng.random(k) * 6 - 1),
    "longest": ("max_plus", "float32", lambda rng, k: -rng.random(k)),
    "int32": ("min_plus", "int32", lambda rng, k: rng.integers(0, 99, k)),
    "half": ("min_plus", "float16", lambda rng, k: rng.integers(0, 9, k)),
    "widest int16": ("max_min", "int16", lambda rng, k: rng.integers(-5, 6, k)),
    "narrowest": ("min_max", "uint8", lambda rng, k: rng.integers(0, 6, k)),
    "reliable": ("max_times", "float64", lambda rng, k: rng.choice([1.0, 0.5, 0.25, 0.3], k)),
    "reach": ("boolean", "bool", lambda rng, k: np.ones(k)),
}
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.filterwarnings("ignore:entries of A:semiring.errors.SuspiciousWeightsWarning"),
]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("has_trees", [False, True])
def test_random_changes_are_those_of_new_closures(kind, has_trees, cupy, monkeypatch):
    monkeypatch.setattr(updates, "_DEVICE_CALL", -1e9)  # small graphs are repaired, too
    name, dtype, draw = KINDS[kind]
    rng, semiring = np.random.default_rng(list(KINDS).index(kind)), sr.as_semiring(name)
    zero = semiring.zero_for(dtype)
    for n in (1, 2, 9, 40, 130):
        A, m = np.full((n, n), zero, dtype), int(n * rng.choice([1, 2, 3]))
        A[rng.integers(0, n, m), rng.integers(0, n, m)] = draw(rng, m)
        try:
            paths = sr.best_paths(cupy.asarray(A), semiring, predecessors=has_trees)
        except sr.DivergenceError:
            continue
        D = paths.matrix
        for _ in range(6):
            cells = rng.choice(n * n, min(int(rng.choice([1, 2, 6, 20])), n * n), replace=False)
            tails, heads = cells // n, cells % n
            weights = np.where(rng.random(cells.size) < 0.4, zero, draw(rng, cells.size).astype(dtype)).astype(dtype)
            B, before = A.copy(), D.get()
            B[tails, heads] = weights
            try:
                expected = sr.closure(cupy.asarray(B), semiring).get()
            except sr.DivergenceError:
                with pytest.raises(sr.DivergenceError):
                    paths.update(tails, heads, weights)
                np.testing.assert_array_equal(D.get(), before)
                continue
            count, A, after = paths.update(tails, heads, weights), B, D.get()
            assert paths.matrix is D
            assert count == np.count_nonzero(before != after)
            if dtype == "float64" and kind not in ("ties of floats", "gains of floats", "reliable"):
                np.testing.assert_array_equal(after, expected)
            np.testing.assert_allclose(after.astype(float), expected.astype(float), rtol=1e-5, atol=1e-5)
            if has_trees:
                trees.check(name, A, after, cupy.asnumpy(paths.predecessors), absolute=1e-5)


def test_plain_arrays_of_any_library(cupy, rng):
    n = 300
    A = np.full((n, n), INF)
    A[rng.integers(0, n, 900), rng.integers(0, n, 900)] = rng.integers(1, 50, 900)
    torch = pytest.importorskip("torch")
    for read in (cupy.asarray, lambda x: torch.asarray(x, device="cuda")):
        given = read(A.copy())
        D = sr.closure(given)
        for _ in range(3):
            tails, heads = rng.permutation(n)[:20], rng.permutation(n)[:20]
            sr.update(D, given, tails, heads, rng.integers(1, 50, 20).astype(float), device="cuda")
            expected = sr.closure(cupy.asarray(given).get())
            np.testing.assert_array_equal(cupy.asarray(D).get(), expected)
    sets = sr.Semiring("sets", "x | y", "x & y", 0, 255, domain="[0, 255]", dtypes=["uint8"])
    A = (rng.integers(0, 256, (9, 9)) & rng.integers(0, 256, (9, 9)) & rng.integers(0, 256, (9, 9))).astype(np.uint8)
    given = cupy.asarray(A)
    D = sr.closure(given, sets)
    for weight in (A[2, 7] | 96, 3):
        sr.update(D, given, 2, 7, weight, sets)
        np.testing.assert_array_equal(D.get(), sr.closure(given.get(), sets))


def test_names_torch_and_copies(cupy):
    torch = pytest.importorskip("torch")
    A = torch.tensor([[INF, 7, INF], [INF, INF, 4], [INF, INF, INF]], device="cuda", dtype=torch.float64)
    paths = sr.shortest_paths(A, names=["Ulm", "Kiel", "Jena"])
    other = copy.copy(paths)
    assert paths.update("Ulm", "Jena", 3.0) == 1
    assert (paths.path("Ulm", "Jena"), float(paths.distance("Ulm", "Jena"))) == (["Ulm", "Jena"], 3.0)
    assert other.path("Ulm", "Jena") == ["Ulm", "Kiel", "Jena"]
    assert float(paths.matrix[0, 2]) == 3.0
    assert float(A[0, 2]) == INF
    with pytest.raises(sr.NegativeCycleError, match="Ulm"):
        paths.update("Jena", "Ulm", -5.0)
    assert paths.update("Ulm", "Jena", INF) == 1
    assert paths.path("Ulm", "Jena") == ["Ulm", "Kiel", "Jena"]


def test_a_large_graph_and_its_share_of_repairs(cupy, rng):
    n, m = 2500, 10_000
    A = np.full((n, n), INF)
    A[rng.integers(0, n, m), rng.integers(0, n, m)] = rng.integers(1, 1000, m)
    paths = sr.shortest_paths(cupy.asarray(A))
    edges = np.argwhere(INF > A)[rng.permutation(m // 2)[:40]]
    for some, weight in ((edges[:1], INF), (edges[1:3], 5.0), (edges[3:], INF)):
        paths.update(*some.T, np.full(len(some), weight))
        A[tuple(some.T)] = weight
        np.testing.assert_array_equal(paths.matrix.get(), sr.closure(A))
    trees_found = cupy.asnumpy(paths.predecessors)
    steps = np.argwhere(trees_found >= 0)
    D = paths.matrix.get()
    before = trees_found[tuple(steps.T)]
    np.testing.assert_array_equal(D[steps[:, 0], before] + A[before, steps[:, 1]], D[tuple(steps.T)])


def test_an_interrupt_leaves_paths_unchanged_or_says_that_they_are_not_valid(cupy, monkeypatch):
    A = np.where(np.eye(40, k=1) > 0, 1.0, INF)
    A[0, 30] = 50.0
    monkeypatch.setattr(updates, "_DEVICE_CALL", -1e9)
    for operation in ("count_users", "repair", "improve"):
        paths = sr.shortest_paths(cupy.asarray(A))
        before, trees_before = paths.matrix.get(), cupy.asnumpy(paths.predecessors)

        def interrupt(*_):
            raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr(type(get_backend("cuda")), operation, interrupt)
            with pytest.raises(KeyboardInterrupt):
                paths.update([3, 0], [4, 39], [INF, 1.0])
        if operation == "count_users":
            np.testing.assert_array_equal(paths.matrix.get(), before)
            np.testing.assert_array_equal(cupy.asnumpy(paths.predecessors), trees_before)
            continue
        for use in (lambda paths=paths: paths.path(0, 1), lambda paths=paths: paths.matrix):
            with pytest.raises(ValueError, match="interrupted"):
                use()


def test_a_refused_change_leaves_all_arrays_as_they_were(cupy):
    A = cupy.asarray([[INF, 5.0, INF], [INF, INF, 2.0], [1.0, INF, INF]])
    paths = sr.shortest_paths(A)
    D, P = paths.matrix, cupy.asarray(paths.predecessors)
    before = [x.copy() for x in (A, D, P)]
    for edges in (([2], [0], [-8.0]), ([1, 2], [2, 0], [3.0, -9.0])):
        with pytest.raises(sr.NegativeCycleError):
            sr.update(D, A, *edges, predecessors=P)
        with pytest.raises(sr.NegativeCycleError):
            paths.update(*edges)
    with pytest.raises(sr.DomainError):
        paths.update(0, 1, np.nan)
    for array, old in zip((A, D, P), before, strict=True):
        np.testing.assert_array_equal(array.get(), old.get())
    assert paths.update(0, 1, 4.0) == 3


def test_errors_before_a_change(cupy):
    A = cupy.asarray([[INF, 1.0], [INF, INF]])
    D = sr.closure(A)
    for error, message, call in (
        (sr.DeviceError, "one of D and A", lambda: sr.update(D, A.get(), 0, 1, 2.0)),
        (sr.DeviceError, "device", lambda: sr.update(D, A, 0, 1, 2.0, device="cpu")),
        (sr.DeviceError, "device", lambda: sr.update(D.get(), A.get(), 0, 1, 2.0, device="cuda")),
        (ValueError, "share memory", lambda: sr.update(D, D, 0, 1, 2.0)),
        (sr.ShapeError, "A is", lambda: sr.update(D, A[:1], 0, 1, 2.0)),
        (sr.DTypeError, "float32", lambda: sr.update(D, A.astype(np.float32), 0, 1, 2.0)),
    ):
        with pytest.raises(error, match=message):
            call()
    np.testing.assert_array_equal(D.get(), [[0, 1], [INF, 0]])
