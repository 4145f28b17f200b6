"""Test paths by the entries of a factor: valid, simple, and as long as their distance, with ties."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import scipy.sparse as sp
from tiers import full

import semiring as sr
from semiring.errors import AlgebraError, DivergenceError, NoPathError, VertexError
from semiring.sparse import symbolic_factor as analysis_module

pytestmark = pytest.mark.full  # each test compiles kernels of its own


def checked_path(F, A, semiring, u, v):
    """Return a path from u to v, or None, and its weight along the edges of the dense matrix A."""
    zero, weight = semiring.zero_for(A.dtype), semiring.one_for(A.dtype)
    try:
        path = F.path(u, v)
    except NoPathError:
        return None, zero
    assert path[0] == u
    assert path[-1] == v
    assert len(set(path)) == len(path)
    for i, j in itertools.pairwise(path):
        assert A[i, j] != zero
        weight = semiring.mul(weight, A[i, j])
    return path, weight


def random_weights(rng, kind, tails, heads, n):
    count = tails.size
    if kind == "ties":
        return rng.integers(0, 3, count).astype(float)
    if kind == "floats":
        return rng.random(count)
    heights = rng.random(n) * 3
    return heights[heads] - heights[tails] + (rng.random(count) if kind == "both signs" else 0.0)


@pytest.mark.full
@pytest.mark.parametrize("kind", ["ties", "floats", "height differences", "both signs"])
@pytest.mark.parametrize(
    "semiring",
    ["min_plus", *[pytest.param(name, marks=pytest.mark.exhaustive) for name in ("max_plus", "max_min", "max_times")]],
)
def test_paths_are_as_long_as_their_distances(rng, semiring, kind):
    algebra = sr.as_semiring(semiring)
    zero = algebra.zero_for(np.dtype(float))
    for n, _ in itertools.product((1, 2, 6, 25, 60), range(4)):
        A = np.full((n, n), zero)
        tails, heads = rng.integers(0, n, (2, int(rng.integers(0, 5 * n))))
        weights = random_weights(rng, kind, tails, heads, n)
        if semiring == "max_plus":
            weights = -weights
        if semiring == "max_times":
            weights = np.abs(weights) / (1 + np.abs(weights).max(initial=0))
        A[tails, heads] = weights
        if rng.random() < 0.4:
            A = np.where(zero != A, A, A.T)
        try:
            F = sr.factor(A, semiring)
            D = F.closure()
        except DivergenceError:
            continue
        for u, v in rng.integers(0, n, (12, 2)):
            path, weight = checked_path(F, A, algebra, u, v)
            assert (path is None) == (D[u, v] == zero)
            assert path is None or weight == D[u, v] or abs(weight - D[u, v]) <= 1e-12 * (1 + abs(D[u, v]))
            assert F.distance(u, v) == pytest.approx(D[u, v], rel=1e-12, abs=1e-12)


@pytest.mark.full
@pytest.mark.parametrize("dtype", full(lambda dtype: dtype == "int32", ["int32", "float32"]))
def test_paths_on_a_grid_of_one_length(dtype, monkeypatch):
    """Every path with the right number of edges is shortest, so that all paths tie. Large fronts are expanded too."""
    monkeypatch.setattr(analysis_module, "_MIN_LARGE_PAIRS", 2_000)
    side = 25
    at = np.arange(side * side).reshape(side, side)
    tails = np.concatenate([at[:, :-1].ravel(), at[:-1].ravel()])
    heads = np.concatenate([at[:, 1:].ravel(), at[1:].ravel()])
    ones = np.ones(2 * tails.size, dtype)
    F = sr.factor(sp.coo_array((ones, (np.r_[tails, heads], np.r_[heads, tails])), shape=(625, 625)))
    for u, v in ((0, 624), (24, 600), (312, 7), (5, 5)):
        path = F.path(u, v)
        steps = abs(u // side - v // side) + abs(u % side - v % side)
        assert len(path) == steps + 1
        for i, j in itertools.pairwise(path):
            assert abs(i // side - j // side) + abs(i % side - j % side) == 1


def test_zero_cycles_and_names():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"from": list("abcbd"), "to": list("bcadb"), "w": [0.0, 0.0, 0.0, 2.0, -2.0]})
    F = sr.factor(frame)
    assert F.path("a", "d") == ["a", "b", "d"]
    assert F.path("c", "c") == ["c"]
    assert F.path("d", "c") == ["d", "b", "c"]
    with pytest.raises(VertexError, match="no vertex is named 'e'"):
        F.path("a", "e")


def test_where_there_are_no_paths():
    inf = np.inf
    with pytest.raises(NoPathError, match="no path leads from 1 to 0"):
        sr.factor([[inf, 1.0], [inf, inf]]).path(1, 0)


@pytest.mark.full
def test_sums_of_paths_have_no_best_path():
    with pytest.raises(AlgebraError, match="no path is the best"):
        sr.factor([[0.0, 0.1], [0.1, 0.0]], "plus_times").path(0, 1)
