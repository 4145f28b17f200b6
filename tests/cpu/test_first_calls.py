"""Test the first calls of a definition in NumPy: the bits of the compiled kernels, and no compiler."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import warnings

import numpy as np
import oracles
import pytest
from scipy.sparse import csgraph, csr_array
from tiers import full, quick

import semiring as sr
from semiring.centrality import betweenness
from semiring.closures import closure_with_predecessors
from semiring.kernels import cpu, get_backend
from semiring.kernels.cpu import compiler_process, first_calls, kernels, numpy_kernels, numpy_searches
from semiring.kernels.cpu.codegen.target import host
from semiring.kernels.cpu.first_calls import FirstCalls
from semiring.kernels.engine import make_plan
from semiring.kernels.graphs import component_search, edge_scan, numpy_graphs, permutation
from semiring.kernels.tolerance import tolerance_for
from semiring.paths.along_paths import OPERATIONS

LOOPS = " ".join(sorted(compiler_process.LOOPS))
OWN = sr.Semiring("own", add="max(x, y)", mul="x * y", zero=0, one=1, domain=(0, 1))


@pytest.fixture(autouse=True)
def _nothing_compiled(monkeypatch):
    """No test reads what another process has compiled and stored."""
    monkeypatch.setattr(first_calls.compiler_process, "is_ready", lambda plan, group: False)


@pytest.fixture
def in_numpy(monkeypatch):
    """Run a function as if nothing were compiled and time were unlimited.

    Return its result, and for each group of kernels whether NumPy computed its last call.
    """
    said, calls = {}, {}
    original = FirstCalls._serves

    def record(self, group, *arguments):
        said[group] = original(self, group, *arguments)
        return said[group]

    def find(plan):
        key = plan.semiring, plan.dtype, plan.facts, plan.storage, str(plan.zero)
        return calls.setdefault(key, FirstCalls(plan))

    def run(function):
        said.clear()
        with monkeypatch.context() as patch:
            patch.setattr(first_calls, "SECONDS", 1e9)
            patch.setattr(FirstCalls, "_serves", record)
            patch.setattr(cpu, "first_calls_of", find)
            patch.setattr(first_calls, "first_calls_of", find)
            return function(), dict(said)

    return run


def _matrix(rng, semiring, dtype, n, share):
    ties = n % 2  # capacities and lengths of few values, 0 among them
    A = rng.random((n, n)) if dtype.kind == "f" and not ties else rng.integers(0, 5 if ties else 100, (n, n)) / 10
    A = A if dtype.kind == "f" else 10 * A
    if dtype.kind == "b":
        return rng.random((n, n)) < share
    A = A.astype(dtype)
    A[rng.random((n, n)) > share] = semiring.zero_for(dtype)
    return A


#: The pairs of the full tier: floats and integers, selections, bits, and operations of a user.
FULL = [("min_plus", "float64"), ("min_plus", "int32"), ("max_min", "float64"), ("boolean", "bool"), (OWN, "float64")]
CASES = [
    *FULL,
    *[("min_plus", "float32"), ("max_plus", "int64"), ("min_max", "float32"), ("max_times", "float64")],
]


@pytest.mark.parametrize(
    ("name", "dtype", "n", "share"),
    quick(
        lambda name, dtype, n, share: (n, share) == (33, 0.5),
        [
            *((name, dtype, 33, 0.5) for name, dtype in (FULL[0], *FULL[2:4])),
            *full(
                lambda name, dtype, n, share: (name, dtype) in FULL,
                [(*case, n, share) for case in CASES for n in (1, 5, 21, 200) for share in (0.1, 0.5, 1.0)],
            ),
        ],
    ),
    ids=lambda value: getattr(value, "name", value),
)
@pytest.mark.filterwarnings("ignore::semiring.errors.SuspiciousWeightsWarning")
def test_the_bits_are_those_of_the_compiled_kernels(rng, in_numpy, name, dtype, n, share):
    semiring = sr.as_semiring(name)
    A = _matrix(rng, semiring, np.dtype(dtype), n, share)
    if semiring == sr.max_plus:
        A = np.where(np.triu(np.ones((n, n), bool), 1), A, semiring.zero_for(A.dtype))
    stack = np.stack([A[:9, :9], A[:9, :9].T])
    calls = {
        "closure": lambda: [sr.closure(A, semiring)],
        "predecessors": lambda: closure_with_predecessors(A, semiring),
        "product": lambda: [sr.matmul(A, A.T, semiring), sr.matmul(A[0], A, semiring), sr.matmul(A, A[:, 0], semiring)],
        "witness": lambda: sr.matmul(A, A.T, semiring, return_witness=True),
        "steps": lambda: [
            sr.scan(A, A[:2], semiring, weights=A[:3, None]),
            *sr.multi_dot(A, A[0], semiring, steps=3, return_witness=True),
        ],
        "stacks": lambda: [sr.matmul(stack, stack, semiring), sr.closure(stack, semiring)],
    }
    if dtype != "bool" and n < 200:
        W = np.ones((n, n)) if semiring is OWN else np.where(semiring.zero_for(A.dtype) == A, 1, A)
        calls["paths"] = lambda: [
            *sr.best_paths(A, semiring).to_array(),
            *(np.ma.getdata(sr.best_paths(A, semiring).total(W, operation=each)) for each in OPERATIONS),
        ]
    for what, call in calls.items():
        expected = call()
        found, said = in_numpy(call)
        assert [array.tobytes() for array in found] == [array.tobytes() for array in expected], what
        assert all(said.get(group, True) for group in set(said) - {"predecessors", "gaining"}), said


@pytest.mark.parametrize(
    ("name", "dtype"),
    quick(
        lambda name, dtype: (name, dtype) == ("min_plus", "float32"),
        [("min_plus", "float32"), *full(lambda *case: case in FULL, [*CASES, ("lukasiewicz", "float64")])],
    ),
    ids=lambda value: getattr(value, "name", value),
)
@pytest.mark.filterwarnings("ignore::semiring.errors.SuspiciousWeightsWarning")
def test_loops_that_python_runs_have_the_bits_of_the_compiled_loops(rng, in_numpy, name, dtype):
    """Values, predecessors of tied paths, and the order of ranked paths are the same."""
    semiring = sr.as_semiring(name)
    for n, share in ((1, 1.0), (7, 0.6), (40, 0.1), (41, 0.1)):
        A = _matrix(rng, semiring, np.dtype(dtype), n, share)
        if semiring == sr.max_plus:
            A = np.where(np.triu(np.ones((n, n), bool), 1), A, semiring.zero_for(A.dtype))
        zero = semiring.zero_for(A.dtype)
        calls = {"searches": lambda A=A: _search(A, semiring), "updates": lambda A=A: _update(A, semiring)}
        if dtype != "bool":
            calls["counts"] = lambda A=A: [_count(A, semiring)]
        if dtype != "bool" and semiring not in (OWN, sr.lukasiewicz):
            calls["ranked"] = lambda A=A, n=n: [
                np.array([repr(each) for each in sr.k_shortest_paths(A, 0, n - 1, 6, semiring=semiring)])
            ]
        if name == "min_plus":
            calls["dependencies"] = lambda A=A, zero=zero: [
                betweenness(np.where(A < 0.1, 1, A).astype(A.dtype)),
                betweenness(np.where(zero != A, 1, zero)),
            ]
        for what, call in calls.items():
            expected = call()
            found, said = in_numpy(call)
            assert [array.tobytes() for array in found] == [array.tobytes() for array in expected], (what, n)
            assert said.get(what, True), said


@pytest.mark.parametrize("name", ["min_plus", "max_times"])
@pytest.mark.parametrize("dtype", quick(lambda dtype: dtype == np.float64, [np.float64, np.float32]))
def test_searches_in_numpy_have_the_bits_of_the_compiled_searches(rng, name, dtype):
    """Values and predecessors, to all vertices, to targets and within a limit; equal values are left to the loops."""
    semiring, backend, searched = sr.as_semiring(name), get_backend("cpu"), 0
    plan = make_plan(semiring, np.dtype(dtype), nonnegative=True)
    for n, share in ((1, 0.0), (6, 0.4), (50, 0.1), (300, 0.02)):
        S = csr_array((rng.random((n, n)) < share) * rng.random((n, n)).astype(dtype))
        graph = S.indptr.astype(np.int64), S.indices.astype(np.int32), S.data.astype(dtype), bool(n % 4)
        sources = np.arange(min(n, 20))
        for targets in (np.arange(n), np.arange(0, n, 7), np.empty(0, np.int64)):
            results = []
            for search in (backend.search_table, numpy_searches.search_table):
                out = np.full((sources.size, targets.size), plan.zero, dtype)
                trees = np.full((sources.size, n), 7, np.int32)
                count = search(plan, graph, sources, targets, out, trees)
                results.append([out, trees])
            searched += count
            for expected, found in zip(*results, strict=True):
                np.testing.assert_array_equal(found[:count], expected[:count])
        is_target, limit = rng.random(n) < 0.7, dtype(0.3)
        starts, vertices, values = backend.search_near(plan, graph, sources, is_target, limit)
        counts, found_vertices, found_values = numpy_searches.search_near(plan, graph, sources, is_target, limit)
        np.testing.assert_array_equal(counts, np.diff(starts)[: counts.size])
        np.testing.assert_array_equal(found_vertices, vertices[: counts.sum()])
        np.testing.assert_array_equal(found_values, values[: counts.sum()])
        if name == "min_plus" and dtype == np.float64 and n > 1:
            out = np.full((1, n), np.inf)
            numpy_searches.search_table(plan, graph, sources[:1], np.arange(n), out, np.empty((0, n), np.int32))
            np.testing.assert_allclose(out[0], csgraph.dijkstra(S, indices=0), rtol=1e-12)
    assert searched > 50
    ties = np.array([0, 2, 3, 4, 4]), np.array([1, 2, 3, 3], np.int32), np.ones(4, dtype), False
    assert numpy_searches._search(plan, ties, 0, plan.zero) is None


def _search(A, semiring):
    """Return values and predecessors from some vertices, into one, and within a limit."""
    options, zero = {"semiring": semiring, "method": "johnson"}, semiring.zero_for(A.dtype)
    sources, weights = [0, len(A) // 2], np.sort(A[zero != A])
    some = sr.best_paths(A, sources=sources, **options)
    into = sr.best_paths(A, targets=[0], **options)
    limit = weights[len(weights) // 2] if weights.size else zero
    near = sr.best_paths(A, sources=sources, limit=limit, **options)
    tails, heads = np.nonzero(zero != A)
    starts, plan = np.searchsorted(tails, np.arange(len(A) + 1)), make_plan(semiring, A.dtype, nonnegative=True)
    trees = np.empty((len(A), len(A)), np.int32)
    graph = starts, heads.astype(np.int32), A[zero != A], False
    get_backend("cpu").search_table(plan, graph, np.arange(len(A)), np.arange(len(A)), A.copy(), trees)
    return [some.matrix, trees, into.matrix, near.matrix.indptr, near.matrix.indices, near.matrix.data]


def _count(A, semiring):
    """Return the numbers of best paths, or the message of the error."""
    try:
        return np.asarray(sr.best_paths(A, semiring).counts())
    except sr.errors.SemiringError as error:
        return np.array(str(error))


def _update(A, semiring):
    """Return closures with and without predecessors after edges became better, worse and disappeared."""
    results, zero, rng = [], semiring.zero_for(A.dtype), np.random.default_rng(0)
    for has_trees in (True, False):
        B = A.copy()
        D, P = closure_with_predecessors(B, semiring)
        options = {"predecessors": P} if has_trees else {}
        for _ in range(6):
            tails, heads = rng.integers(0, len(A), (2, 3))
            if semiring == sr.max_plus:  # no edge closes a cycle that gains
                tails, heads = np.minimum(tails, heads), np.maximum(tails, heads)
                tails, heads = tails[tails < heads], heads[tails < heads]
            values = rng.choice(A[zero != A] if (zero != A).any() else [zero], tails.size)
            values = np.where(rng.random(tails.size) < 0.3, zero, values)
            _, places = np.unique(np.stack([tails, heads]), axis=1, return_index=True)
            sr.update(D, B, tails[places], heads[places], values[places].astype(A.dtype), semiring, **options)
            results += [D.copy(), P.copy()]
    return results


SUMS = [("plus_times", "float64"), ("plus_times", "float32"), ("plus_times", "int32"), ("xor_and", "int64")]


@pytest.mark.parametrize(
    ("name", "dtype"),
    quick(
        lambda name, dtype: (name, dtype) in (("min_plus", "float32"), ("plus_times", "float32")),
        [("min_plus", "float32"), *full(lambda *case: case in (*FULL, SUMS[0]), [*CASES, *SUMS])],
    ),
    ids=lambda value: getattr(value, "name", value),
)
def test_sparse_products_have_the_bits_of_the_compiled_loops(rng, in_numpy, name, dtype):
    """Values, patterns and witnesses are the same, with masks and dense operands too."""
    semiring = sr.as_semiring(name)
    dtype = np.dtype(dtype)
    for (m, k, n), share in (((1, 1, 1), 1.0), ((5, 8, 3), 0.6), ((60, 40, 50), 0.1), ((61, 41, 900), 0.3)):
        A, B, M = (csr_array(rng.random(shape) < share) for shape in ((m, k), (k, n), (m, n)))
        A.data, B.data = (_nonzero(rng, semiring, dtype, S.nnz) for S in (A, B))
        dense = _nonzero(rng, semiring, dtype, m * k * n).reshape(m, k, n)[0]
        left = _nonzero(rng, semiring, dtype, m * k).reshape(m, k)
        left[rng.random(left.shape) < 0.5] = semiring.zero_for(dtype)
        for options in ({}, {"return_witness": True}) if semiring.selective else ({},):
            for given, others in (
                ((A, B), {}),
                ((A, B), {"mask": M}),
                ((A, B), {"mask": M, "complement": True}),
                ((A, dense), {"mask": M}),
                ((A, dense), {}),
                ((A, dense[:, 0]), {}),
                ((left, B), {}),
            ):

                def call(given=given, others=others, options=options):
                    found = sr.matmul(*given, semiring, **others, **options)
                    found = found if isinstance(found, tuple) else (found,)
                    arrays = [[x.indptr, x.indices, x.data] if hasattr(x, "indptr") else [x] for x in found]
                    return [np.asarray(array) for part in arrays for array in part]

                expected = call()
                found, said = in_numpy(call)
                assert [x.tobytes() for x in found] == [x.tobytes() for x in expected], (m, k, n, others, options)
                assert said
                assert all(said.values()), said


@pytest.mark.parametrize(
    ("name", "dtype"),
    quick(
        lambda name, dtype: (name, dtype) == ("min_plus", "float64"),
        [*FULL, *full(lambda *case: True, [("max_times", "float32")])],
    ),
    ids=lambda value: getattr(value, "name", value),
)
def test_sparse_steps_have_the_bits_of_the_compiled_loops(rng, in_numpy, name, dtype):
    """A band is stored in slots, and a matrix with a full column or one for each step is not."""
    semiring, dtype = sr.as_semiring(name), np.dtype(dtype)
    for n, rows in ((1, 1), (9, 3), (40, 1)):
        band = csr_array(np.abs(np.subtract.outer(np.arange(n), np.arange(n))) < 3)
        spread = [csr_array((rng.random((n, n)) < 0.3) | (np.arange(n) == 0)) for _ in range(5)]
        for S in (band, *spread):
            S.data = _nonzero(rng, semiring, dtype, S.nnz)
        x = _nonzero(rng, semiring, dtype, rows * n).reshape(rows, n)
        x[rng.random(x.shape) < 0.3] = semiring.zero_for(dtype)
        weights = _nonzero(rng, semiring, dtype, 5 * n).reshape(5, n)
        for A, steps in ((band, {"steps": 5}), (spread[0], {"steps": 5}), (spread, {})):

            def call(x=x, A=A, steps=steps, weights=weights):
                options = {**steps, "weights": weights}
                found = [sr.multi_dot(A, each, semiring, **options) for each in x]
                if semiring.selective:
                    found += [y for each in x for y in sr.multi_dot(A, each, semiring, return_witness=True, **options)]
                return [*found, *([sr.scan(A, each, semiring) for each in x] if isinstance(A, list) else [])]

            expected = call()
            found, said = in_numpy(call)
            assert [y.tobytes() for y in found] == [y.tobytes() for y in expected], (n, rows, steps)
            assert said
            assert all(said.values()), said


def _nonzero(rng, semiring, dtype, size):
    """Return entries of a semiring other than 0̄, many of which are equal."""
    if dtype.kind == "b":
        return np.ones(size, np.bool_)
    values = rng.integers(1, 9, size) / 10 if dtype.kind == "f" else rng.integers(1, 9, size)
    return values.astype(dtype)


@pytest.mark.parametrize("n", [24, 25, 32, 33, 100])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_sums_are_rounded_in_the_order_of_the_compiled_kernels(rng, monkeypatch, n, dtype):
    A = (rng.random((n, n)) * 10.0 ** rng.integers(-3, 4, (n, n))).astype(dtype)
    A[rng.random((n, n)) < 0.9] = np.inf
    plan = make_plan(sr.min_plus, A.dtype, nonnegative=True)
    monkeypatch.setattr(first_calls, "SECONDS", 1e9)
    found, expected = A.copy(), A.copy()
    assert FirstCalls(plan).close(plan, found)
    kernels.kernels_for(plan).close(expected)
    assert found.tobytes() == expected.tobytes()


@pytest.mark.full
@pytest.mark.parametrize("share", [0.1, 0.4, 1.0])
@pytest.mark.parametrize("dtype", full(lambda dtype: dtype == np.float64, [np.float32, np.float64]))
@pytest.mark.parametrize("n", [2, 9, 26, 70])
def test_weights_of_both_signs_are_closed_in_numpy_with_the_same_bits(rng, in_numpy, n, dtype, share):
    """A closure of weights that gain finds the potentials too, and in some cases a cycle gains."""
    h = np.round(rng.random(n) * 8, 1)
    A = np.round(rng.random((n, n)), 1) + h[:, None] - h
    A = np.where(rng.random((n, n)) < share, A + 0.0, np.inf).astype(dtype)
    if share == 1.0 and n > 2:
        A[0, 1], A[1, 0] = 1, -1  # a cycle of weight 0
    closed = []
    for name, B in (("min_plus", A), ("max_plus", -A), ("min_plus", A - dtype(0.3))):

        def close(B=B, name=name):
            try:
                return sr.closure(B, name).tobytes()
            except sr.errors.NegativeCycleError as error:
                return str(error)

        expected = close()
        found, said = in_numpy(close)
        assert found == expected
        closed.append(said)
    if share == 1.0:
        assert {"closure": True, "gaining": True} in closed


@pytest.mark.parametrize("dtype", quick(lambda dtype: dtype == np.float64, [np.float64, np.float32, np.int64]))
@pytest.mark.filterwarnings("ignore::semiring.errors.SuspiciousWeightsWarning")
def test_acyclic_graphs_with_weights_below_0_are_closed_in_numpy(rng, in_numpy, dtype):
    """Components of one vertex, of some and of many, in any order of the vertices, with ties and without."""
    groups = set()
    for n, share, has_cycles in ((2, 1.0, False), (33, 0.3, False), (70, 0.9, False), (150, 0.05, True)):
        W = rng.integers(-9, 9, (n, n)) if n % 2 else np.round(rng.normal(size=(n, n)) * 100)
        is_edge = np.triu(rng.random((n, n)) < share, 1)
        if has_cycles:  # of weight 0 or more, in some blocks on the diagonal
            h = rng.integers(0, 50, n)
            is_edge |= (rng.random((n, n)) < 0.2) & (np.arange(n) // 25 == np.arange(n)[:, None] // 25)
            W = np.abs(W) + h[:, None] - h
        A = np.where(is_edge, W.astype(dtype), sr.min_plus.zero_for(np.dtype(dtype)))
        order = rng.permutation(n)
        A = A[order][:, order]

        def call(A=A):
            best = sr.shortest_paths(A)
            return [sr.closure(A), best.matrix, best.predecessors, sr.longest_paths(_negated(A)).predecessors]

        expected = call()
        found, said = in_numpy(call)
        assert [array.tobytes() for array in found] == [array.tobytes() for array in expected], n
        assert all(said.values()), said
        groups |= set(said)
        np.testing.assert_array_equal(found[0], oracles.closure(A, "min_plus"))
    assert groups >= {"predecessors", *({"graphs"} if A.dtype.kind == "f" else ())}  # sums of integers are exact


def _negated(A):
    """Return weights of max-plus, whose longest paths are the shortest paths of weights of min-plus."""
    return np.where(sr.min_plus.zero_for(A.dtype) == A, sr.max_plus.zero_for(A.dtype), -A)


@pytest.mark.parametrize(
    ("name", "dtype"),
    quick(
        lambda name, dtype: (name, dtype) == ("min_plus", "float64"),
        [("min_plus", "float64"), *full(lambda *case: True, [("min_plus", "int32"), ("max_min", "float32")])],
    ),
)
def test_factors_have_the_bits_of_the_compiled_loops(rng, in_numpy, name, dtype):
    """Factors with and without symmetry, of trees and of fronts with many pivots, and all their queries."""
    semiring, dtype = sr.as_semiring(name), np.dtype(dtype)
    for n, share in ((1, 1.0), (9, 0.3), (60, 0.03), (90, 0.1), (200, 0.05)):
        for is_symmetric in (False, True):
            A = _matrix(rng, semiring, dtype, n, share)
            if is_symmetric:
                A = np.maximum(A, A.T) if semiring.zero_for(dtype) > 0 else np.minimum(A, A.T)
            zero, few = semiring.zero_for(dtype), min(n, 5)
            S = csr_array((A[zero != A], np.nonzero(zero != A)), shape=A.shape)
            some, b = rng.integers(0, n, (2, few)), _matrix(rng, semiring, dtype, n, 0.3)[:, :few].copy()

            def call(S=S, A=A, n=n, some=some, b=b, zero=zero, semiring=semiring):
                F = sr.factor(S, semiring)
                paths = [F.path(int(i), int(j)) if F.distance(i, j) != zero else [] for i, j in some.T]
                changed = F.update([(0, n - 1, b[0, 0])]) if zero != A[0, n - 1] else F
                return [
                    *(F.closure(), F.table(some[0], some[1]), F.distances(*some), changed.closure()),
                    *(F.solve(b), F.solve(b[:, 0].copy()), F.solve(b, transpose=True)),
                    *(F.rows(reduce="eccentricity"), np.array(str(paths))),
                ]

            expected = call()
            found, said = in_numpy(call)
            assert [np.asarray(x).tobytes() for x in found] == [np.asarray(x).tobytes() for x in expected], n
            assert said
            assert all(said.values()), said
            np.testing.assert_allclose(found[0], oracles.closure(A, name), rtol=1e-6)


def test_graphs_are_scanned_in_numpy_as_by_compiled_loops(rng):
    for n in (1, 2, 31, 32, 33, 64, 100, 301):
        for share in (0.5 / n, 1.2 / n, 3 / n, 0.5):
            A = np.where(rng.random((n, n)) < share, rng.integers(1, 3, (n, n)), 0).astype(np.uint64)
            results = []
            for scan, search, move in (
                (edge_scan, component_search, permutation),
                (numpy_graphs, numpy_graphs, numpy_graphs),
            ):
                words = np.zeros((n, -(-n // 32)), np.uint32)
                differs = scan.mark_edges(A, np.uint64(0), np.uint64(1), words, 0, n)
                transposed = np.zeros_like(words)
                move.transpose_words(words, transposed, 0, words.shape[1])
                number, weak, count, weak_count = search.components_of_words(words, transposed, n)
                is_one = search.is_strongly_connected(words, n, n)
                assert not is_one or count == 1
                results.append([differs, words.tolist(), transposed.tolist(), number.tolist(), weak.tolist()])
                results[-1] += [count, weak_count]
            assert results[0] == results[1], (n, share)
            edges, found = A != 0, results[1]
            assert found[5] == csgraph.connected_components(csr_array(edges), connection="strong")[0]
            assert found[0] == bool((edges & (A != 1) & ~np.eye(n, dtype=bool)).any())


@pytest.mark.parametrize(
    ("name", "dtype", "groups"),
    [
        ("log_plus", "float64", "arrays folds"),
        ("plus_times", "float64", "arrays closure folds mixed product sparse steps"),
        ("lukasiewicz", "float64", f"arrays folds mixed sparse {LOOPS}"),  # 1 + x - 1 is not x
        *((name, "int64", "arrays folds mixed product sparse steps") for name in ("plus_times", "xor_and")),
        (
            "max_min",
            "float64",
            f"arrays closure factor folds gaining graphs mixed predecessors product sparse steps witness {LOOPS}",
        ),
    ],
)
def test_what_is_rounded_in_another_order_is_compiled_at_once(monkeypatch, name, dtype, groups):
    monkeypatch.setattr(first_calls, "SECONDS", None)
    plan = make_plan(sr.as_semiring(name), np.dtype(dtype), nonnegative=True)
    assert sorted(FirstCalls(plan).pending) == sorted(groups.split())


def test_signs_and_rounded_functions_are_left_to_the_compiled_kernels(monkeypatch):
    monkeypatch.setattr(first_calls, "SECONDS", 1.0)
    float64 = np.dtype("float64")
    signed = sr.Semiring("signed", add="max(x, y)", mul="x * y", zero="-inf", one=1)
    assert not FirstCalls(make_plan(signed, float64)).pending & {"product", "closure"}
    plan = make_plan(sr.max_min, float64)
    signed = FirstCalls(plan)
    assert signed.close(plan, np.array([[1.0, -2.0], [0.0, 3.0]]))
    assert not signed.close(plan, np.array([[1.0, -2.0], [-0.0, 3.0]]))
    soft = sr.Semiring("soft", add="max(x, y)", mul="log(exp(x) * exp(y))", zero="-inf", one=0, domain="[-inf, 0]")
    assert FirstCalls(make_plan(soft, float64, nonnegative=True)).pending == {"arrays"}


def test_the_caller_compiles_after_the_given_seconds(monkeypatch):
    plan = make_plan(sr.min_plus, np.dtype("float64"), nonnegative=True)
    monkeypatch.setattr(first_calls, "SECONDS", None)
    monkeypatch.setattr(first_calls.compiler_process, "is_ready", lambda *_: False)  # other tests may fill the cache
    A = np.ones((20, 20))
    for given, expected in (("0", 0), (" 2e-3 ", 3), ("", 10)):
        monkeypatch.setenv("SEMIRING_NUMPY_SECONDS", given)
        first = FirstCalls(plan)
        assert sum(first.close(plan, A.copy()) for _ in range(10)) == expected
    for given in ("fast", "-1", "nan"):
        monkeypatch.setenv("SEMIRING_NUMPY_SECONDS", given)
        with pytest.raises(sr.errors.SemiringError, match=f"SEMIRING_NUMPY_SECONDS is '{given}'"):
            FirstCalls(plan).close(plan, A.copy())
    monkeypatch.setenv("SEMIRING_NUMPY_SECONDS", "1e9")
    first = FirstCalls(plan)
    assert first.close(plan, A.copy())
    monkeypatch.setattr(first_calls.compiler_process, "is_ready", lambda *_: True)
    assert not first.close(plan, A.copy()), "the kernels are on disk"


def test_the_variable_is_read_at_each_call(monkeypatch):
    plan = make_plan(sr.max_min, np.dtype("float64"), nonnegative=True)
    monkeypatch.setattr(first_calls, "SECONDS", 1e9)
    first, A = FirstCalls(plan), np.ones((20, 20))
    assert first.close(plan, A.copy())
    monkeypatch.setattr(first_calls, "SECONDS", 0.0)
    assert not first.close(plan, A.copy())
    assert not first.pending


@pytest.mark.parametrize("dtype", ["float64", "int32"])
def test_edges_of_weight_0_are_searched_for_all_rows_together(rng, monkeypatch, dtype):
    """Many entries are decided by searches along plateaus, in the order of the compiled kernels."""
    undecided = 0
    for share in (0.02, 0.05, 0.1, 0.3):
        A = rng.choice(np.array([0, 0, 0, 1, 2], dtype), (3, 40, 40))
        plan = make_plan(sr.min_plus, A.dtype, nonnegative=True)
        A[rng.random(A.shape) > share] = plan.zero
        D = A.copy()
        get_backend("cpu").close_stack(plan, D)
        tolerance = tolerance_for(plan, D)
        expected = get_backend("cpu").find_predecessors(plan, D, tolerance, A)
        found = numpy_kernels.find_predecessors(plan, D, tolerance, A)
        undecided += np.count_nonzero((found >= 0) & (plan.zero == A))
        np.testing.assert_array_equal(found, expected)
    assert undecided > 1000
    monkeypatch.setattr(numpy_kernels, "_SEARCH_SECONDS", -1)
    assert numpy_kernels.find_predecessors(plan, D, tolerance, A) is None


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_entries_that_are_met_loosely_are_validated_along_their_paths(rng, monkeypatch, dtype):
    doubtful, repaired, attach = numpy_kernels._find_doubtful_rows, [], numpy_kernels._Row._attach
    found = []
    monkeypatch.setattr(
        numpy_kernels, "_find_doubtful_rows", lambda *given: found.append(given[-1].any()) or doubtful(*given)
    )
    monkeypatch.setattr(numpy_kernels._Row, "_attach", lambda row: repaired.append(row) or attach(row))
    for n in (20, 60, 100, 150, 300):
        A = rng.random((3, n, n)).astype(dtype)
        A[rng.random(A.shape) < 0.8] = np.inf
        plan = make_plan(sr.min_plus, A.dtype, nonnegative=True)
        D = A.copy()
        for matrix in D:
            get_backend("cpu").close_block(plan, matrix)
        tolerance = tolerance_for(plan, D)
        trees = numpy_kernels.find_predecessors(plan, D, tolerance, A)
        np.testing.assert_array_equal(trees, get_backend("cpu").find_predecessors(plan, D, tolerance, A))
    assert any(found)
    monkeypatch.setattr(numpy_kernels, "_SEARCH_SECONDS", 1e9)
    A, closed = A[0, :120, :120].copy(), A[0, :120, :120].copy()
    get_backend("cpu").close_block(plan, closed)
    tolerance = tolerance_for(plan, closed)
    for scale in (0, 2, 8, 20):  # distances that are a little off, as those that potentials have shifted
        change = scale * rng.integers(-1, 2, closed.shape) * np.finfo(dtype).eps
        D = np.where(closed == A, closed, closed * (1 + change)).astype(dtype)
        expected = get_backend("cpu").find_predecessors(plan, D, tolerance, A)
        np.testing.assert_array_equal(numpy_kernels.find_predecessors(plan, D, tolerance, A), expected)
    assert repaired


@pytest.mark.parametrize("dtype", quick(lambda dtype: dtype == np.float32, [np.float32, np.float64]))
def test_sums_of_products_are_fused_as_the_compiled_kernels_fuse_them(rng, in_numpy, dtype):
    """Numbers of one size and of many, both signs, zeros, subnormal results, stacks, and long rows."""
    for shape in ((2, 2, 2), (10, 10, 10), (7, 1, 5), (40, 2000, 30), (150, 67, 150), (70, 301, 90), (3, 9, 8, 7)):
        *stack, m, k, n = shape
        for spread in (0, 60):

            def draw(*size, stack=stack, spread=spread):
                scales = 2.0 ** rng.integers(-spread, spread + 1, (*stack, *size))
                values = (rng.standard_normal((*stack, *size)) * scales).astype(dtype)
                values[rng.random(values.shape) < 0.2] = 0
                return values

            A, B, C = draw(m, k), draw(k, n), draw(m, n)
            plan = make_plan(sr.plus_times, A.dtype)

            def call(A=A, B=B, C=C, plan=plan):
                product, total, in_place = sr.matmul(A, B, sr.plus_times), C.copy(), B.copy()
                get_backend("cpu").multiply_add(plan, total, A, B)
                if A.ndim == 2 and len(A) == len(B):
                    get_backend("cpu").multiply(plan, in_place, A, in_place)
                vectors = []
                if A.ndim == 2:
                    x, column = A[:1].copy(), np.ascontiguousarray(B[:, :1])
                    for left, right in ((x, B), (x, B.T.copy().T), (A, column), (A.T.copy().T, column)):
                        vectors.append(C[: len(left), : right.shape[1]].copy())
                        get_backend("cpu").multiply_add(plan, vectors[-1], left, right)
                return [result.tobytes() for result in (product, total, in_place, *vectors)]

            expected = call()
            found, said = in_numpy(call)
            assert found == expected, (shape, spread)
            assert said == {"product": True}


@pytest.mark.parametrize("dtype", quick(lambda dtype: dtype == np.float64, [np.float32, np.float64]))
def test_sums_of_walks_are_closed_and_steps_taken_as_by_compiled_kernels(rng, in_numpy, dtype):
    """Blocks of pivots and products of them, stacks, pivots without a star, and steps with weights."""
    for n in (1, 5, 24, 25, 40, 60, 130, 170):
        A = (rng.standard_normal((n, n)) / n).astype(dtype)
        A[rng.random((n, n)) < 0.3] = 0
        x, weights, stack = A[:3].copy(), rng.random((4, 1, n)).astype(dtype), np.stack([A[:5, :5], A[:5, :5].T / 2])
        singular = A.copy()
        singular[n // 2] = np.eye(n)[n // 2]

        def call(A=A, x=x, weights=weights, stack=stack, singular=singular):
            results = [sr.closure(A, sr.plus_times), sr.closure(stack, sr.plus_times)]
            results += [sr.scan(A, x, sr.plus_times, weights=weights)]
            results += [sr.multi_dot(A, x[0], sr.plus_times, steps=7)]
            try:
                results.append(sr.closure(singular, sr.plus_times))
            except sr.errors.DivergenceError as error:
                results.append(np.array(str(error)))
            return results

        with warnings.catch_warnings(action="ignore"):
            expected = call()
            found, said = in_numpy(call)
        assert [array.tobytes() for array in found] == [array.tobytes() for array in expected], n
        assert said
        assert all(said.values()), said
        exact = np.linalg.inv(np.eye(n) - A.astype(np.float64))
        np.testing.assert_allclose(found[0], exact, rtol=1e-3 if dtype == np.float32 else 1e-9, atol=1e-5)


def test_vectors_have_the_width_that_the_compiler_finds():
    assert compiler_process.vector_bytes() in (None, host().vector_bytes)


def test_sums_that_cannot_be_fused_are_left_to_the_compiled_kernels(monkeypatch):
    monkeypatch.setattr(first_calls, "SECONDS", 1e9)
    plan = make_plan(sr.plus_times, np.dtype("float64"))
    A = np.full((4, 4), 0.5)
    for entry in (np.inf, np.nan, 1e200, 1e-200, -0.0):
        B = A.copy()
        B[1, 2] = entry
        assert not FirstCalls(plan).product(plan, np.empty_like(A), A, B, 0)
    assert FirstCalls(plan).product(plan, np.empty_like(A), A, A, 0)
    huge = np.diag([2.0**300] * 3, 1)
    assert not FirstCalls(plan).close(plan, huge), "a product leaves the range of exact steps"


def test_a_product_in_place(rng, in_numpy):
    A, B = rng.random((12, 12)), rng.random((12, 30))
    plan = make_plan(sr.min_plus, np.dtype("float64"), nonnegative=True)
    expected = (A[:, :, None] + B).min(1)

    def run():
        C = B.copy()
        get_backend("cpu").multiply(plan, C, A, C)
        return C

    found, said = in_numpy(run)
    np.testing.assert_array_equal(found, expected)
    assert said == {"product": True}


@pytest.mark.full
def test_first_steps_compile_nothing(tmp_path):
    """The commands and examples that a reader tries first run in a process without compiled code."""
    program = """
import logging, sys
import numpy as np
import semiring as sr
lines = []
class Lines(logging.Handler):
    def emit(self, record):
        if record.getMessage().startswith("compiling"):
            lines.append(record.getMessage())
logging.getLogger("semiring").addHandler(Lines())
logging.getLogger("semiring").setLevel(logging.DEBUG)
from semiring.cli import main
assert main(["paths", "us-flights", "--from", "BGR", "--to", "GUM", "--plot", "flights.png"]) == 0
inf = np.inf
A = np.array([[inf, 7, 1, inf], [inf, inf, inf, 1], [inf, 2, inf, 9], [4, inf, inf, inf]])
assert sr.closure(A, sr.min_plus)[0].tolist() == [0, 3, 1, 4]
assert sr.closure([[inf, -1.0], [2.0, inf]]).tolist() == [[0, -1], [2, 0]]
assert sr.shortest_paths(A).path(0, 3) == [0, 2, 1, 3]
R = sr.Semiring("safest", add="max(x, y)", mul="x * y", zero=0, one=1, domain=(0, 1))
assert sr.matmul([[0.5, 0.9]], [[0.8], [0.5]], R) == 0.45
sr.widest_paths(np.where(A < inf, A, -inf))
from scipy.sparse import csgraph, csr_array
S = csr_array(np.where(A < inf, A, 0))
assert sr.multi_dot([S, S], [0, inf, inf, inf]).tolist() == [inf, 3, inf, 8]
assert sr.scan(S, [[0, inf, inf, inf]], steps=2).shape == (2, 1, 4)
print(lines)
"""
    environment = {"SEMIRING_CACHE_DIR": str(tmp_path / "cache"), "MPLCONFIGDIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, cwd=tmp_path, env=os.environ | environment
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other allocators have no trim threshold")
@pytest.mark.parametrize("seconds", ["0", "1000"], ids=["compiled", "NumPy"])
def test_calls_leave_the_freed_memory_of_the_caller(seconds):
    """A NumPy loop faults no pages in at each step, although memory is kept that was allocated beside an array."""
    program = """
import resource
import numpy as np
import semiring as sr
A = np.random.default_rng(0).random((500, 500))
def faults():
    D, before = A.copy(), resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for k in range(100):
        D = np.minimum(D, np.maximum(D[:, k : k + 1], D[k]))
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
faults()
sr.matmul(A, A, "min_plus")
result = np.empty_like(A)
kept = np.empty(1 << 15)
del result
print(faults())
"""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("MALLOC_", "GLIBC_"))}
    environment["SEMIRING_NUMPY_SECONDS"] = seconds
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, env=environment)
    assert int(done.stdout) < 100 * 488 / 4, "an array has 488 pages"
