"""Test closures on a GPU that avoid work where the graph allows it, against the dense ones and against oracles."""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module

import numpy as np
import oracles
import pytest

import semiring as sr
from semiring.errors import NegativeCycleError
from semiring.kernels.engine import engine_of, make_plan

pytestmark = pytest.mark.gpu

SIZES = (1, 33, 701)


@pytest.fixture
def of_few(monkeypatch):
    """Scan graphs of few vertices as if they were large, and close them in small blocks."""
    from semiring.algorithms import schedule

    monkeypatch.setattr(import_module("semiring.closures.problem"), "LEAST_ON_DEVICE", 0)
    monkeypatch.setattr(import_module("semiring.algorithms.undirected"), "_LEAST", 0)
    monkeypatch.setattr(import_module("semiring.algorithms.supernodal"), "_LEAST_ON_DEVICE", 0)
    monkeypatch.setattr(import_module("semiring.algorithms.supernodal"), "_WIDTHS_ON_DEVICE", 1)
    monkeypatch.setattr(import_module("semiring.algorithms.supernodal"), "predict_operations", lambda *_: 0.0)
    small = {name: replace(each, triangle=128) for name, each in schedule._TABLE.items()}
    monkeypatch.setattr(schedule, "_TABLE", small)


def close_both_ways(A, name, method, structure=True, **options):
    """Return the closure on a GPU, by a method unless that is None, and the one without structure."""
    import cupy

    given = cupy.asarray(A)
    found, why = sr.closure(given, name, explain=True, structure=structure, **options)
    assert method in (None, why.method), str(why)
    assert bool((given == cupy.asarray(A)).all())
    return found.get(), sr.closure(given, name, structure=False, **options).get()


def kinds(rng, n, dtype, semiring, density=1.0):
    """Return entries with many ties, and the value of no edge."""
    dtype, semiring = np.dtype(dtype), sr.as_semiring(semiring)
    values = rng.integers(1, 50, (n, n))
    if semiring.name == "max_times":
        values = 0.5 ** (values % 4)
    elif semiring.name == "max_plus":
        values = -values
    elif semiring.name == "max_min":
        values = values - (25 if dtype.kind != "u" else 0)
    return np.where(rng.random((n, n)) < density, values, semiring.zero_for(dtype)).astype(dtype)


CASES = [
    *(("min_plus", dtype) for dtype in ("float32", "float64", "float16", "int32")),
    *(("max_plus", "float32"), ("max_times", "float32"), ("max_min", "float32")),
]


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize(("name", "dtype"), [case for case in CASES if case[0] != "max_min"])
def test_undirected(n, name, dtype, of_few, rng):
    for density in (0.05, 1.0):
        A = kinds(rng, n, dtype, name, density)
        A = np.where(np.tri(n, k=-1, dtype=bool), A.T, A)
        if A.dtype.kind == "f":
            A *= A.dtype.type(1 if name == "max_times" else 0.25)
        if n > 1:
            A[0, n - 1] = A[n - 1, 0] = A[1, 0] = A[0, 1] = sr.as_semiring(name).zero_for(A.dtype)
        only = frozenset({"undirected"})
        found, dense = close_both_ways(A, name, "undirected", structure=only)
        np.testing.assert_array_equal(found, dense)
        np.testing.assert_array_equal(found, found.T)


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize(("name", "dtype"), CASES)
@pytest.mark.parametrize("is_permuted", [False, True])
def test_components(n, name, dtype, is_permuted, of_few, rng):
    """Acyclic graphs and graphs of several parts, some of them separate, are closed in any order, for A⁺ too."""
    if n < 2:
        return
    for kind in ("acyclic", "parts", "apart"):
        A = kinds(rng, n, dtype, name, 0.4)
        zero = sr.as_semiring(name).zero_for(A.dtype)
        if kind == "acyclic":
            A[np.tri(n, dtype=bool)] = zero
        else:
            part = np.sort(rng.integers(0, 5, n))
            A[(part[:, None] > part) if kind == "parts" else (part[:, None] != part)] = zero
        if is_permuted:
            order = rng.permutation(n)
            A = A[np.ix_(order, order)]
        for reflexive in (True, False):
            given = {"reflexive": reflexive, "structure": frozenset({"components"})}
            found, dense = close_both_ways(A, name, "components" if n >= 130 else None, **given)
            np.testing.assert_array_equal(found, dense)


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "float16"])
@pytest.mark.parametrize("weight", [1, 3])
def test_hops(n, dtype, weight, of_few, rng):
    from scipy.sparse.csgraph import shortest_path

    for density in (2.0 / n, 0.02, 0.5):
        none = sr.min_plus.zero_for(np.dtype(dtype))
        edges = rng.random((n, n)) < density
        A = np.where(edges, weight, none).astype(dtype)
        if not (edges & ~np.eye(n, dtype=bool)).any():
            continue
        np.fill_diagonal(A, np.where(rng.random(n) < 0.3, 7, none))
        exact = dtype != "float16" or weight * n <= 2048  # else sums of a path could be rounded
        found, dense = close_both_ways(A, "min_plus", "breadth_first_search" if exact else None, structure="hops")
        np.testing.assert_array_equal(found, dense)
        expected = weight * shortest_path(edges.astype(float), unweighted=True)
        reached = np.isfinite(expected)
        np.testing.assert_array_equal(found[reached], expected[reached].astype(dtype))
        assert (found[~reached] == none).all()


def test_hops_along_a_path(of_few, rng):
    import cupy

    n = 600
    order = rng.permutation(n)
    A = np.full((n, n), np.inf, np.float32)
    A[order[:-1], order[1:]] = 2
    found = sr.closure(cupy.asarray(A), structure="hops").get()
    place = np.argsort(order)
    ahead = place - place[:, None]
    np.testing.assert_array_equal(found, np.where(ahead >= 0, 2.0 * ahead, np.inf).astype(np.float32))


@pytest.mark.parametrize("n", [33, 701])
@pytest.mark.parametrize("name", ["max_min", "min_max"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int16", "int32", "int64", "uint8"])
def test_bottlenecks(n, name, dtype, of_few, rng):
    """Bottlenecks are right with ties, separate trees, negative numbers and infinities."""
    semiring = sr.as_semiring(name)
    for density in (1.5 / n, 0.1, 1.0):
        A = kinds(rng, n, dtype, "max_min", 1.0)
        zero = semiring.zero_for(A.dtype)
        A[rng.random((n, n)) >= density] = zero
        A = np.where(np.tri(n, k=-1, dtype=bool), A.T, A)
        found, dense = close_both_ways(A, name, "spanning_tree", structure="bottleneck")
        np.testing.assert_array_equal(found, dense)


@pytest.mark.parametrize("name", ["min_plus", "max_plus"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
@pytest.mark.parametrize("is_undirected", [False, True])
def test_separators(name, dtype, is_undirected, of_few, rng):
    """A long grid, directed or undirected and with a separate part, is closed by separators."""
    rows, columns = 6, 150
    place = np.arange(rows * columns).reshape(rows, columns)
    n, edges = place.size, np.c_[[place[:, :-1].ravel(), place[:, 1:].ravel()], [place[:-1].ravel(), place[1:].ravel()]]
    A = np.full((n, n), sr.as_semiring(name).zero_for(np.dtype(dtype)), dtype)
    weights = rng.integers(1, 100, edges.shape[1]) * (1 if name == "min_plus" else -1)
    A[edges[0], edges[1]] = weights
    if is_undirected:
        A[edges[1], edges[0]] = weights
    order = rng.permutation(n)
    A = A[np.ix_(order, order)]
    found, dense = close_both_ways(A, name, "supernodal", structure="separators")
    np.testing.assert_array_equal(found, dense)


def test_a_triangle_of_a_product(rng):
    """The triangle on and above the diagonal equals the product, in views of other matrices and at odd sides."""
    import cupy

    cases = ("min_plus", "float32"), ("min_plus", "int16"), ("plus_times", "float32"), ("max_min", "int32")
    for name, dtype in cases:
        for n, k in ((1, 5), (63, 64), (130, 33), (700, 512), (1500, 65)):
            A, B, C = (cupy.asarray(rng.integers(0, 9, shape).astype(dtype)) for shape in ((n, k), (k, n), (n, n + 8)))
            plan = make_plan(sr.as_semiring(name), np.dtype(dtype))
            engine, upper, whole = engine_of(plan, C), C.copy(), C.copy()
            engine.multiply_add_upper(upper[:, :n], A, B)
            engine.multiply_add(whole[:, :n], A, B)
            same = cupy.triu(upper[:, :n]) == cupy.triu(whole[:, :n])
            assert bool(same.all()), (name, dtype, n, k)
            assert bool((upper[:, n:] == C[:, n:]).all())


def test_names_of_vertices_in_errors_and_signs(of_few, rng):
    """Weights of both signs lie in several components, and a negative cycle in one of them is named."""
    import cupy

    n = 400
    A = rng.integers(1, 100, (n, n)).astype(np.float32)
    part = np.sort(rng.integers(0, 3, n))
    A[part[:, None] > part] = np.inf
    h = rng.integers(0, 1000, n)
    A = A + h - h[:, None].astype(np.float32)
    np.testing.assert_array_equal(sr.closure(cupy.asarray(A)).get(), sr.closure(A, structure=False))
    i, j = np.flatnonzero(part == 1)[:2]
    A[i, j] = -5000.0
    with pytest.raises(NegativeCycleError) as error:
        sr.closure(cupy.asarray(A))
    cycle = error.value.cycle
    assert sum(A[u, v] for u, v in zip(cycle, [*cycle[1:], cycle[0]], strict=True)) < 0


def test_nothing_is_found_in_a_complete_digraph(of_few, rng):
    import cupy

    A = rng.random((300, 300), np.float32)
    found, why = sr.closure(cupy.asarray(A), explain=True)
    assert why.method in ("staged", "rkleene", "blocked_floyd_warshall")
    np.testing.assert_array_equal(found.get(), sr.closure(cupy.asarray(A), structure=False).get())
    np.testing.assert_allclose(found.get(), oracles.closure(A, "min_plus"), rtol=1e-6)
