"""Test paths of stacks: each matrix has the paths of its own call, bit for bit. Arrays of paths are those of a walk."""

from __future__ import annotations

import numpy as np
import oracles
import pytest
import tiers
from fake_cupy import unwrap
from scipy.sparse.csgraph import floyd_warshall
from strict_arrays import StrictArray, StrictBackend, StrictPasses, install_stand_in, on_device
from tiers import full
from trees import check, walk, zero_of

import semiring as sr
from semiring.arrays import memory
from semiring.closures import closure_with_predecessors
from semiring.errors import (
    AlgebraError,
    DomainError,
    NegativeCycleError,
    PositiveCycleError,
    ShapeError,
    TooLargeError,
)
from semiring.kernels.contract import Capabilities, PathKernels
from semiring.kernels.cpu import predecessor_search
from semiring.kernels.engine import make_plan
from semiring.kernels.reference import ReferenceBackend
from semiring.kernels.tolerance import tolerance_for

pytestmark = pytest.mark.filterwarnings(
    "ignore::semiring.errors.SuspiciousWeightsWarning", "ignore:the most reliable of these paths"
)
INF = np.inf
PATIENCE = sr.Semiring("patience", "max(x, y)", "max(x + y - 8, 0)", zero=0, one=8, domain=(0, 8))


def acyclic(values):
    """Return a function that draws weights of both signs, whose edges lead to later vertices."""

    def draw(rng, shape):
        weights = rng.choice(np.array(values, float), shape)
        weights[..., ~np.triu(np.ones(shape[-2:], bool), 1)] = np.nan  # no edge
        return weights

    return draw


#: Semiring, dtype, weights; NaN is no edge.
KINDS = {
    "floats": ("min_plus", "float32", lambda rng, shape: rng.random(shape)),
    "tenths": ("min_plus", "float64", lambda rng, shape: rng.integers(0, 11, shape) / 10),
    "zeros": ("min_plus", "float32", lambda rng, shape: rng.integers(0, 2, shape)),
    "one weight": ("min_plus", "float64", lambda rng, shape: np.ones(shape)),
    "both signs": ("min_plus", "float64", acyclic([-1.5, -0.25, 0.1, 2.0])),
    "integers": ("min_plus", "int32", lambda rng, shape: rng.integers(0, 5, shape)),
    "integers of both signs": ("min_plus", "int32", acyclic([-3, 0, 4])),
    "losses": ("max_plus", "float32", lambda rng, shape: -rng.random(shape)),
    "schedules": ("max_plus", "float64", acyclic([0.5, 1.0, 3.0])),
    "capacities": ("max_min", "float64", lambda rng, shape: rng.integers(-2, 3, shape)),
    "probabilities": ("max_times", "float32", lambda rng, shape: rng.random(shape)),
    "bytes": ("max_min", "uint8", lambda rng, shape: rng.integers(1, 5, shape)),
    "short integers": ("min_plus", "int16", lambda rng, shape: rng.integers(0, 5, shape)),
    "reached": ("boolean", "bool", lambda rng, shape: np.ones(shape)),
    "own": (PATIENCE, "float64", lambda rng, shape: rng.integers(6, 9, shape)),
}


def random_stack(rng, kind, shape):
    semiring, dtype, draw = KINDS[kind]
    zero = 0 if semiring is PATIENCE else zero_of(semiring, np.dtype(dtype))
    weights = np.asarray(draw(rng, shape), float)
    weights[rng.random(shape) >= rng.choice([0.0, 0.15, 0.4, 1.0])] = np.nan
    return np.where(np.isnan(weights), zero, np.nan_to_num(weights)).astype(dtype), semiring


def compare(A, semiring, found):
    """Compare the paths of a stack with those of each matrix, with a plain closure, and arrays of paths with walks."""
    vertices, lengths = found.to_array()
    assert (found.matrix.shape, found.predecessors.dtype) == (A.shape, np.int32)
    assert vertices.dtype == lengths.dtype == np.int32
    longest = 0
    for index in np.ndindex(A.shape[:-2]):
        alone = sr.best_paths(A[index], semiring)
        assert found.matrix[index].tobytes() == alone.matrix.tobytes()
        np.testing.assert_array_equal(found.predecessors[index], alone.predecessors)
        if semiring is not PATIENCE:
            check(semiring, A[index], found.matrix[index], found.predecessors[index], absolute=1e-13)
            expected = oracles.closure(A[index], semiring)
            np.testing.assert_allclose(found.matrix[index].astype(float), expected.astype(float), rtol=1e-5)
        for (i, j), reached in np.ndenumerate(alone.reachable):
            path = walk(found.predecessors[index], i, j) if reached or i == j else []
            assert lengths[index][i, j] == len(path)
            padded = [*path, *[-1] * (vertices.shape[-1] - len(path))]
            assert vertices[index][i, j].tolist() == padded
            longest = max(longest, len(path))
    assert vertices.shape == (*A.shape, longest)


@pytest.mark.parametrize("kind", tiers.quick(lambda kind: kind in ("tenths", "both signs"), KINDS))
def test_random_stacks(rng, kind):
    for _ in range({"quick": 20, "full": 60}.get(tiers.selected_tier, 400)):
        n = int(rng.choice([1, 1, 2, 3, 5, 9]))
        stack = ((), (3,), (2, 2), (0,), (5,))[rng.integers(5)]
        A, semiring = random_stack(rng, kind, (*stack, n, n))
        compare(A, semiring, sr.best_paths(A, semiring, threads=int(rng.integers(1, 3))))


@pytest.mark.parametrize("n", full(lambda n: n < 129, [33, 100, 129]))
@pytest.mark.parametrize("kind", tiers.quick(lambda kind: kind == "floats", ["floats", "zeros", "capacities"]))
def test_larger_matrices(rng, kind, n):
    A, semiring = random_stack(rng, kind, (4, n, n))
    one = sr.best_paths(A, semiring, threads=1)
    np.testing.assert_array_equal(one.predecessors, sr.best_paths(A, semiring, threads=3).predecessors)
    compare(A[:2], semiring, sr.best_paths(A[:2], semiring))


@pytest.mark.parametrize("kind", tiers.quick(lambda kind: kind in ("floats", "tenths"), KINDS))
def test_the_search_of_small_matrices_finds_what_that_of_large_ones_finds(rng, kind):
    for n in (1, 2, 31, 32, 33, 64, 97, 128):
        A, semiring = random_stack(rng, kind, (2, n, n))
        plan = make_plan(semiring if semiring is PATIENCE else sr.as_semiring(semiring), A.dtype)
        if A.dtype.kind == "i":
            A = np.where(zero_of(semiring, A.dtype) == A, plan.zero, A)
        for edges in A:
            D = sr.closure(edges, semiring, method="rkleene") if A.dtype.kind != "i" else closed_integers(edges, plan)
            tolerance = tolerance_for(plan, D)
            small = predecessor_search.find_predecessors(plan, D, tolerance, edges)
            large = predecessor_search._search_large(plan, D, tolerance, edges)
            np.testing.assert_array_equal(small, large)


def closed_integers(edges, plan):
    wide = np.where(edges == plan.zero, INF, edges)
    closed = sr.closure(wide)
    return np.where(closed == INF, plan.zero, closed).astype(edges.dtype)


def test_lists_parts_and_views(rng):
    A, _ = random_stack(rng, "tenths", (2, 3, 5, 5))
    found = sr.shortest_paths(A, names="abcde")
    assert (len(found), len(found[1]), found.count_of_vertices) == (2, 3, 5)
    assert [part.matrix.shape for part in found[0]] == [(5, 5)] * 3
    for index in ((1, 2), (-1, -1), (1, np.int64(2))):
        part = found[index]
        assert (part.path("a", "a"), part.index("c")) == (["a"], 2)
        assert np.shares_memory(part.matrix, found.matrix)
        assert np.shares_memory(part.predecessors, found.predecessors)
    np.testing.assert_array_equal(found[:, 1:].to_array(9)[0], found.to_array(9)[0][:, 1:])
    np.testing.assert_array_equal(found[..., 0].matrix, found.matrix[:, 0])
    searched = sr.shortest_paths(A.tolist(), predecessors=False)
    assert searched[1, 2].path(0, 0) == [0]
    np.testing.assert_array_equal(searched.to_array()[1] > 0, found.reachable)
    assert "2 × 3 graphs of 5 vertices" in repr(found)
    assert found._repr_html_() is None
    with pytest.raises(IndexError):
        found[2]
    with pytest.raises(IndexError, match="3 entries, and the stack has 2 axes"):
        found[0, 0, 0]
    with pytest.raises(TypeError, match=r"distance\(i, j\)"):
        found[0, 0][0]


@pytest.mark.parametrize(
    "name",
    ["distance", "path", "paths_from", "to_frame", "plot", "eccentricity", "diameter", "center", "mean_distance"],
)
def test_what_is_about_pairs_refuses_a_stack(name):
    for found in (sr.shortest_paths(np.ones((2, 3, 3))), sr.shortest_paths(np.ones((2, 3, 3)), sources=[1])):
        if "sources" in vars(found) and name in ("diameter", "center", "mean_distance", "plot"):
            continue  # refused for any sources
        arguments = {"distance": (1, 1), "path": (1, 1), "paths_from": (1,)}.get(name, ())
        with pytest.raises(ShapeError, match=r"about one matrix, .* select a matrix, such as paths\[0\]"):
            read(found, name, *arguments)


def read(found, name, *arguments):
    getattr(found, name)(*arguments)


def test_sources_and_targets(rng):
    A, _ = random_stack(rng, "floats", (3, 6, 6))
    everything, lengths = sr.shortest_paths(A).to_array(6)
    for predecessors in (True, False):
        some = sr.shortest_paths(A, sources=[4, 0, 4], predecessors=predecessors)
        np.testing.assert_array_equal(some.to_array(6)[0], everything[:, [4, 0, 4]])
        np.testing.assert_array_equal(some.matrix, sr.shortest_paths(A).matrix[:, [4, 0, 4]])
        assert some[1].distance(4, 5) == some.matrix[1, 0, 5]
        some = sr.shortest_paths(A, sources=[2], targets=[1, 2], predecessors=predecessors)
        np.testing.assert_array_equal(some.to_array(6)[0], everything[:, [2]][:, :, [1, 2]])
        np.testing.assert_array_equal(some.to_array(6)[1], lengths[:, [2]][:, :, [1, 2]])
        assert some[0].path(2, 2) == [2]
        for options in ({}, {"targets": [5, 1]}):
            single = sr.shortest_paths(A[0], sources=[3, 1], predecessors=predecessors, **options)
            ends = options.get("targets", list(range(6)))
            np.testing.assert_array_equal(single.to_array(6)[1], lengths[0][[3, 1]][:, ends])
    assert "1 to 2 of 6 vertices in 3 graphs" in repr(some)
    assert sr.shortest_paths(A.tolist(), sources=[1]).matrix.shape == (3, 1, 6)
    with pytest.raises(ShapeError, match="limit= is for one matrix"):
        sr.shortest_paths(A, limit=1)
    with pytest.raises(ShapeError, match="one for each source"):
        sr.shortest_paths(A[0], limit=1).to_array()


def test_errors_name_the_matrix():
    A = np.full((20, 4, 4), INF)
    A[17, 0, 1], A[17, 1, 0] = 1, -2
    for options in ({}, {"predecessors": False}, {"sources": [0]}, {"names": "abcd"}):
        with pytest.raises(NegativeCycleError, match=r"matrix A\[17\] of the stack") as caught:
            sr.shortest_paths(A, **options)
        assert caught.value.matrix == (17,)
    with pytest.raises(PositiveCycleError, match=r"A\[3, 2\] of the stack"):
        sr.longest_paths(-A.reshape(4, 5, 4, 4))
    A[17, 1, 0] = np.nan
    with pytest.raises(DomainError, match=r"17, 1, 0"):
        sr.shortest_paths(A)
    with pytest.raises(ShapeError, match="square"):
        sr.shortest_paths(np.ones((3, 2, 4)))


def test_sizes_of_arrays_of_paths(monkeypatch):
    ring = np.full((7, 7), INF)
    ring[np.arange(7), np.arange(1, 8) % 7] = 1
    found = sr.shortest_paths(ring)
    assert found.to_array()[0].shape == (7, 7, 7)
    assert found.to_array(9)[0][0, 6].tolist() == [0, 1, 2, 3, 4, 5, 6, -1, -1]
    with pytest.raises(ShapeError, match="length is 6, and the longest path has 7 vertices: give length=7"):
        found.to_array(6)
    with pytest.raises(TypeError, match="length is an integer"):
        found.to_array(2.5)
    monkeypatch.setattr(memory, "_SMALL", 0)
    monkeypatch.setattr(memory, "free_memory", lambda: 4 * 7**3 - 1)
    with pytest.raises(TooLargeError, match=r"49 paths of up to 7 vertices takes .* sources="):
        found.to_array()
    monkeypatch.undo()
    found.predecessors[0, 3] = 4
    found.predecessors[0, 4] = 3
    with pytest.raises(ValueError, match="from vertex 0 to 3 lead in a cycle"):
        found.to_array()
    for cyclic in (sr.transitive_closure(ring < 2, reflexive=False), sr.Paths(ring, sr.min_plus)):
        with pytest.raises(AlgebraError, match=r"reflexive=True|neither predecessors nor weights"):
            cyclic.to_array()
    for shape in ((0, 3, 3), (2, 0, 0), (0, 0)):
        assert sr.shortest_paths(np.ones(shape)).to_array()[0].shape == (*shape, 0)


def test_reachability_of_a_stack(rng):
    A = rng.random((3, 2, 8, 8)) < 0.2
    for reflexive in (True, False):
        found = sr.transitive_closure(A, reflexive=reflexive)
        for index in np.ndindex(3, 2):
            alone = sr.transitive_closure(A[index], reflexive=reflexive)
            np.testing.assert_array_equal(found.matrix[index], alone.matrix)
    assert sr.transitive_closure(A.astype(int), predecessors=True).to_array()[1].max() > 2


def test_features_of_edges_along_paths_are_those_of_a_loop(rng):
    """Gather features as docs/tutorials/transformer.md does, and walk the only path of each pair of a tree."""
    count, n = 20, 9
    weights, features = np.full((count, n, n), INF), rng.integers(1, 99, (count, n, n, 2))
    for graph in range(count):
        for child in range(1, int(rng.integers(1, n + 1))):  # a tree, and vertices without edges
            parent = rng.integers(child)
            weights[graph, [child, parent], [parent, child]] = 1
    vertices, lengths = sr.shortest_paths(weights).to_array()
    tails, heads = vertices[..., :-1], vertices[..., 1:]
    along = np.where((heads >= 0)[..., None], features[np.arange(count)[:, None, None, None], tails, heads], -1)

    def search(graph, i, j, before):
        """Return the features along the path from i to j, None if there is none."""
        if i == j:
            return []
        for k in np.flatnonzero(weights[graph, i] == 1):
            rest = None if k == before else search(graph, k, j, i)
            if rest is not None:
                return [features[graph, i, k].tolist(), *rest]
        return None

    for graph, i, j in np.ndindex(count, n, n):
        expected = search(graph, i, j, None)
        assert lengths[graph, i, j] == (0 if expected is None else len(expected) + 1)
        padding = [[-1, -1]] * (along.shape[3] - len(expected or []))
        assert along[graph, i, j].tolist() == [*(expected or []), *padding]


def test_scipy_finds_the_same_distances(rng):
    A, _ = random_stack(rng, "floats", (50, 12, 12))
    found = sr.shortest_paths(A.astype(float))
    for edges, distances in zip(A.astype(float), found.matrix, strict=True):
        np.testing.assert_allclose(distances, floyd_warshall(np.where(edges == 0, 1e-300, edges)), atol=1e-12)


def test_arrays_of_other_libraries(rng):
    torch = pytest.importorskip("torch")
    A, _ = random_stack(rng, "floats", (3, 6, 6))
    vertices, lengths = sr.shortest_paths(torch.asarray(A), sources=[1, 2]).to_array()
    assert (type(vertices), vertices.dtype, lengths.dtype) == (torch.Tensor, torch.int32, torch.int32)
    np.testing.assert_array_equal(vertices.numpy(), sr.shortest_paths(A).to_array(vertices.shape[-1])[0][:, [1, 2]])
    assert type(sr.shortest_paths(torch.asarray(A))[1].matrix) is torch.Tensor


class DevicePaths(PathKernels):
    """The reference kernels on arrays that stand for those of a GPU."""

    _reference = ReferenceBackend()

    def find_predecessors(self, plan, D, tolerance, A):
        return StrictArray(self._reference.find_predecessors(plan, unwrap(D), tolerance, unwrap(A)))

    def count_vertices(self, predecessors, sources, counts, threads):
        self._reference.count_vertices(*map(unwrap, (predecessors, sources, counts)), threads)

    def write_paths(self, predecessors, sources, targets, counts, out, threads):
        self._reference.write_paths(*map(unwrap, (predecessors, sources, targets, counts, out)), threads)


@pytest.mark.parametrize(
    "kind",  # the stand-in has no potentials of integers
    full(lambda kind: kind in ("tenths", "both signs"), [kind for kind in KINDS if kind != "integers of both signs"]),
)
def test_arrays_of_a_device_stay_there(rng, kind, monkeypatch):
    A, semiring = random_stack(rng, kind, (2, 2, 6, 6))
    expected, some = sr.best_paths(A, semiring), sr.best_paths(A, semiring, sources=[2, 5], targets=[0])
    monkeypatch.setattr(StrictBackend, "capabilities", Capabilities(paths=DevicePaths(), passes=StrictPasses()))
    with install_stand_in(monkeypatch):
        for found, host in (
            (sr.best_paths(on_device(A), semiring), expected),
            (sr.best_paths(on_device(A), semiring, sources=[2, 5], targets=[0]), some),
        ):
            results = found.matrix, *found.to_array(6)
            assert all(isinstance(each, StrictArray) for each in results)
            np.testing.assert_allclose(results[0].get().astype(float), host.matrix.astype(float), atol=1e-12)
            np.testing.assert_array_equal(results[2].get() > 0, host.to_array(6)[1] > 0)
            np.testing.assert_array_equal((results[1].get() >= 0).sum(axis=-1), results[2].get())
        assert sr.best_paths(on_device(A), semiring)[1, 0].path(3, 3) == [3]


def test_halves_and_named_methods(rng):
    A = (rng.integers(0, 9, (4, 6, 6)) / 8).astype(np.float16)
    found = sr.shortest_paths(A)
    for method in ("rkleene", "squaring"):
        D, pred = closure_with_predecessors(A, sr.min_plus, method=method)
        np.testing.assert_array_equal(D, found.matrix)
        np.testing.assert_array_equal(pred[2], closure_with_predecessors(A[2], sr.min_plus, method=method)[1])
    paths, explanation = sr.shortest_paths(A.astype(np.float32), explain=True)
    assert "all 6 vertices, with predecessors" in str(explanation)
    assert paths.matrix.shape == (4, 6, 6)
    some, explanation = sr.shortest_paths(A.astype(np.float32), sources=[1], explain=True)
    assert explanation is some.explanation
    assert "stack_together" in str(explanation)
