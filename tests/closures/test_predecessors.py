"""Test predecessors: trees of best paths with ties, zero-weight cycles and rounding.

The checks below share nothing with the library: ⊗ is written down again, paths are walked vertex by vertex, and their
weights added up in Python numbers.
"""

from __future__ import annotations

import math
from itertools import pairwise

import ml_dtypes
import numpy as np
import pytest
import tiers
from oracles import closure
from scipy.sparse.csgraph import reconstruct_path
from tiers import full, quick
from trees import check, walk, zero_of

import semiring as sr
from semiring.algorithms import predecessors as algorithm
from semiring.closures import closure_with_predecessors
from semiring.kernels import get_backend
from semiring.kernels.engine import make_plan
from semiring.kernels.nearest_trees import path_sums
from semiring.kernels.tolerance import tolerance_for

INF = math.inf
SIZES = [0, 1, 2, 3, 33, 64, 65, 130, 257]


def graph(rng, name, dtype, n, density, draw):
    """Return weights drawn by ``draw(rng, shape)``, with some edges missing at random."""
    A = np.asarray(draw(rng, (n, n)), dtype)
    A[rng.random((n, n)) >= density] = zero_of(name, dtype)
    return A


# (semiring, dtype, weights): ties everywhere, zeros, floats that round, one value only.
KINDS = {
    "floats": ("min_plus", np.float32, lambda rng, shape: rng.random(shape)),
    "doubles": ("min_plus", np.float64, lambda rng, shape: rng.random(shape)),
    "zeros and ones": ("min_plus", np.float32, lambda rng, shape: rng.integers(0, 2, shape)),
    "all zero": ("min_plus", np.float32, lambda rng, shape: np.zeros(shape)),
    "tenths": ("min_plus", np.float64, lambda rng, shape: rng.integers(0, 11, shape) / 10),
    "near ties": ("min_plus", np.float32, lambda rng, shape: 0.5 + 1.5 * rng.random(shape)),
    "absorbed": ("min_plus", np.float32, lambda rng, shape: 10.0 ** rng.integers(-12, 3, shape)),
    "int16": ("min_plus", np.int16, lambda rng, shape: rng.integers(0, 5, shape)),
    "int32": ("min_plus", np.int32, lambda rng, shape: rng.integers(0, 100, shape)),
    "int64": ("min_plus", np.int64, lambda rng, shape: rng.integers(1, 4, shape)),
    "losses": ("max_plus", np.float32, lambda rng, shape: -rng.random(shape)),
    "whole losses": ("max_plus", np.int32, lambda rng, shape: -rng.integers(0, 3, shape)),
    "capacities": ("max_min", np.float32, lambda rng, shape: rng.random(shape)),
    "few capacities": ("max_min", np.float32, lambda rng, shape: rng.integers(-2, 3, shape)),
    "byte capacities": ("max_min", np.uint8, lambda rng, shape: rng.integers(1, 5, shape)),
    "heights": ("min_max", np.int32, lambda rng, shape: rng.integers(-5, 5, shape)),
    "probabilities": ("max_times", np.float32, lambda rng, shape: rng.random(shape)),
    "coins": ("max_times", np.float32, lambda rng, shape: rng.choice([0.5, 1.0], shape)),
    "exchange": ("min_times", np.float64, lambda rng, shape: 1 + rng.random(shape)),
    "truths": ("boolean", np.bool_, lambda rng, shape: np.ones(shape)),
    "degrees": ("lukasiewicz", np.float32, lambda rng, shape: 0.8 + 0.2 * rng.random(shape)),
}
#: The kinds of the full tier share the kernels of few semirings and dtypes, each of which takes 5 to 10 s to compile.
SHARED = (
    *("floats", "doubles", "zeros and ones", "all zero", "tenths", "near ties", "absorbed", "int32", "losses"),
    *("whole losses", "capacities", "few capacities", "coins", "truths"),
)
LUKASIEWICZ = {"lukasiewicz": 257 * float(np.finfo(np.float32).eps)}  # its sums round in units of 1


@pytest.mark.filterwarnings("ignore::semiring.errors.SuspiciousWeightsWarning")  # some are zeros but for an edge
@pytest.mark.parametrize("kind", quick(lambda kind: kind == "doubles", full(lambda kind: kind in SHARED, KINDS)))
@pytest.mark.parametrize("n", full(lambda n: n == 130, [33, 130]))
def test_every_kind_of_graph(rng, kind, n):
    name, dtype, draw = KINDS[kind]
    for density in (1.0, 0.3, 3 / n):
        A = graph(rng, name, dtype, n, density, draw)
        D, pred = closure_with_predecessors(A, sr.as_semiring(name), threads=2)
        check(name, A, D, pred, absolute=LUKASIEWICZ.get(name, 0.0))


@pytest.mark.full
@pytest.mark.parametrize("dtype", full(lambda dtype: dtype is np.float64, [np.float32, np.float64]))
def test_edges_within_a_component_that_was_closed_under_potentials_are_found(rng, dtype):
    """A further vertex reaches nothing, so the predecessors are found in the original weights."""
    for n in (40, 100, 200, 200, 300):
        height = rng.uniform(-1, 1, n) * 10.0 ** rng.integers(-1, 3)
        A = np.where(rng.random((n, n)) < 6 / n, rng.random((n, n)) + 0.01, INF) + height[:, np.newaxis] - height
        A[-1] = INF
        A = A.astype(dtype)
        D, pred = closure_with_predecessors(A, sr.as_semiring("min_plus"))
        check("min_plus", A, D, pred, absolute=8 * n * float(np.finfo(dtype).eps * np.abs(height).max()))


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize(
    "kind", quick(lambda kind: kind == "tenths", ["floats", "tenths", "zeros and ones", "capacities"])
)
def test_every_size(rng, n, kind):
    name, dtype, draw = KINDS[kind]
    A = graph(rng, name, dtype, n, 0.2, draw)
    D, pred = closure_with_predecessors(A, sr.as_semiring(name))
    check(name, A, D, pred)


@pytest.mark.full
@pytest.mark.parametrize("method", ["rkleene", "blocked_floyd_warshall", "floyd_warshall", "squaring"])
@pytest.mark.parametrize(
    "kind",
    quick(
        lambda kind: kind == "tenths",
        full(
            lambda kind: kind != "floats",
            ["floats", "tenths", "zeros and ones", "int32", "few capacities", "truths"],
        ),
    ),
)
def test_every_method(rng, method, kind):
    name, dtype, draw = KINDS[kind]
    for n in (5, 65, 100):
        A = graph(rng, name, dtype, n, 0.2, draw)
        D, pred = closure_with_predecessors(A, sr.as_semiring(name), method=method)
        check(name, A, D, pred)
        np.testing.assert_allclose(D.astype(float), closure(A, name).astype(float), rtol=1e-5)


@pytest.mark.filterwarnings("ignore::semiring.errors.SuspiciousWeightsWarning")
@pytest.mark.full
@pytest.mark.parametrize(
    "kind",
    full(
        lambda kind: kind in ("near ties", "few capacities"),
        ["floats", "zeros and ones", "near ties", "int32", "few capacities", "coins"],
    ),
)
@pytest.mark.parametrize("edge_limit", [1, 3])
def test_with_more_edges_than_are_tried(rng, kind, edge_limit, monkeypatch):
    """Small graphs take the branch for vertices with very many direct edges, because `MAX_DIRECT_EDGES` is set low."""
    from semiring.kernels.cpu import predecessor_search as paths

    monkeypatch.setattr(paths, "MAX_DIRECT_EDGES", edge_limit)
    name, dtype, draw = KINDS[kind]
    for n, density in ((40, 1.0), (90, 0.5), (90, 0.05), (150, 0.2)):
        A = graph(rng, name, dtype, n, density, draw)
        D, pred = closure_with_predecessors(A, sr.as_semiring(name))
        check(name, A, D, pred, absolute=LUKASIEWICZ.get(name, 0.0))


@pytest.mark.full
@pytest.mark.filterwarnings("ignore::semiring.errors.SuspiciousWeightsWarning")  # some are zeros but for an edge
def test_thousands_of_graphs_full_of_ties(rng):
    for repetition in range(2500 if tiers.selected_tier == "exhaustive" else 1000):
        n = int(rng.integers(2, 12))
        name, dtype, draw = KINDS[("zeros and ones", "all zero", "few capacities", "coins", "truths")[repetition % 5]]
        A = graph(rng, name, dtype, n, rng.choice([0.2, 0.5, 1.0]), draw)
        D, pred = closure_with_predecessors(A, sr.as_semiring(name), threads=1)
        check(name, A, D, pred)


@pytest.mark.full
@pytest.mark.parametrize("threads", [1, 3])
def test_hubs(rng, threads):
    """Hundreds of direct edges lead to a hub, more than are tried one by one, and each may end a path from a leaf."""
    n, hubs = 500, 300
    A = np.full((n, n), INF, np.float32)
    A[:hubs, :hubs] = 1 + rng.random((hubs, hubs))
    leaves, ends = np.arange(hubs, n), rng.integers(0, hubs, n - hubs)
    A[leaves, ends], A[ends, leaves] = rng.random((2, n - hubs)) / 10 + 0.01
    order = rng.permutation(n)
    A = A[np.ix_(order, order)]
    D, pred = closure_with_predecessors(A, sr.min_plus, threads=threads)
    check("min_plus", A, D, pred)
    np.testing.assert_array_equal(pred, closure_with_predecessors(A, sr.min_plus, threads=2)[1])


@pytest.mark.full
@pytest.mark.parametrize("width", [1, 2, 7, 128])
def test_the_best_edges_are_kept_of_many(rng, width):
    from semiring.kernels.cpu.codegen.scalars import scalars_for
    from semiring.kernels.cpu.direct_edges import edges_into

    n = 200
    A = rng.integers(0, 500, (n, n)).astype(np.float32)
    scalars, _ = scalars_for(make_plan(sr.min_plus, A.dtype, nonnegative=True))
    zero, one, tight = np.float32(INF), np.float32(0), (np.float32(0), np.float32(0))
    best, worst = np.zeros(n, np.float32), np.full(n, 1000, np.float32)  # leave nothing out
    sources, weights = np.empty((n, width), np.int32), np.empty((n, width), np.float32)
    counts = np.zeros(n, np.int32)
    assert edges_into(scalars, A, A, zero, one, tight, best, worst, 0, n, sources, weights, counts)
    assert (counts == n - 1).all()
    for j in range(n):
        others = np.delete(A[:, j], j)
        np.testing.assert_array_equal(np.sort(weights[j]), np.sort(others)[:width])
        np.testing.assert_array_equal(A[sources[j], j], weights[j])
        assert len({*sources[j], j}) == width + 1


@pytest.mark.parametrize(
    "kind",
    quick(lambda kind: kind in ("doubles", "tenths"), ["doubles", "tenths", "floats", "zeros and ones", "near ties"]),
)
def test_nothing_depends_on_threads(rng, kind):
    name, dtype, draw = KINDS[kind]
    A = graph(rng, name, dtype, 300, 0.5, draw)
    one, four = (closure_with_predecessors(A, sr.as_semiring(name), threads=count)[1] for count in (1, 4))
    np.testing.assert_array_equal(one, four)


# ---------------------------------------------------------------------------------------------------- mixed signs


def height_grid(rng, side, dtype):
    """Return height differences: every cycle weighs zero, except for rounding."""
    n, heights = side * side, rng.normal(size=side * side).astype(dtype)
    A = np.full((n, n), INF, dtype)
    for v in range(n):
        for w in ([v + 1] if v % side < side - 1 else []) + ([v + side] if v + side < n else []):
            A[v, w], A[w, v] = heights[w] - heights[v], heights[v] - heights[w]
    return A, heights


@pytest.mark.full
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("side", [3, 10])
def test_grids_of_height_differences(rng, side, dtype):
    A, heights = height_grid(rng, side, dtype)
    n = len(A)
    for matrix, name in ((A, "min_plus"), (np.where(A < INF, -A, -INF).astype(dtype), "max_plus")):
        D, pred = closure_with_predecessors(matrix, sr.as_semiring(name))
        check(name, matrix, D, pred, absolute=n * np.finfo(dtype).eps * np.abs(heights).max() * 2)


@pytest.mark.parametrize("dtype", full(lambda dtype: dtype is not np.int64, [np.int32, np.int64, np.float32]))
def test_zero_weight_cycles_with_mixed_signs(rng, dtype):
    heights = rng.integers(-50, 50, 60)
    A = (heights - heights[:, None] + rng.integers(0, 2, (60, 60))).astype(dtype)
    A[rng.random((60, 60)) > 0.3] = zero_of("min_plus", dtype)
    D, pred = closure_with_predecessors(A, sr.min_plus)
    check("min_plus", A, D, pred)


def test_negative_edges_of_floats(rng):
    heights = rng.normal(size=120)
    A = heights - heights[:, None] + rng.random((120, 120))
    D, pred = closure_with_predecessors(A, sr.min_plus)
    check("min_plus", A, D, pred, absolute=120 * np.finfo(float).eps * 20)


@pytest.mark.full
def test_cycles_that_gain_by_the_rounding_of_halves_alone(rng):
    """Cycles gain by rounding in several components, whose trees are found in the original weights."""
    for dtype in (np.float16, ml_dtypes.bfloat16):
        heights = 10 * rng.normal(size=60)
        A = (heights - heights[:, None]).astype(dtype)
        part = np.arange(60) // 20
        A[(rng.random((60, 60)) < 0.5) | (part[:, None] > part)] = INF
        assert np.array_equal(sr.closure(A), closure_with_predecessors(A, sr.min_plus)[0])
        D, pred = closure_with_predecessors(A, sr.min_plus)
        epsilon = 2.0**-10 if dtype is np.float16 else 2.0**-7
        wide = A.astype(np.float32)
        check("min_plus", wide, D.astype(np.float32), pred, absolute=60 * epsilon * 40)


@pytest.mark.full
def test_gains_without_gaining_cycles(rng):
    """Values get better and worse along a path: pointers to better values would prove nothing."""
    A = np.triu(rng.choice([0.25, 0.5, 2.0, 4.0], (50, 50)), 1)
    D, pred = closure_with_predecessors(A, sr.max_times)
    check("max_times", A, D, pred)
    order = rng.permutation(50)
    shuffled = A[np.ix_(order, order)]
    check("max_times", shuffled, *closure_with_predecessors(shuffled, sr.max_times))


@pytest.mark.full
def test_a_semiring_of_ones_own(rng):
    """The longest step counts in this semiring, and the better of two has the smaller remainder of patience."""
    patience = sr.Semiring("patience", "max(x, y)", "max(x + y - 8, 0)", zero=0, one=8, domain=(0, 8))
    A = np.where(rng.random((40, 40)) < 0.2, rng.integers(6, 9, (40, 40)), 0).astype(np.float64)
    D, pred = closure_with_predecessors(A, patience)
    for i in range(40):
        for j in range(40):
            if i != j and D[i, j]:
                left = 8.0
                for a, b in pairwise(walk(pred, i, j)):
                    left = max(left + A[a, b] - 8, 0)
                assert left == D[i, j]


# ------------------------------------------------------------------------------------------- SciPy, and the reference


@pytest.mark.full
def test_scipy_reconstructs_the_trees(rng):
    A = graph(rng, "min_plus", np.float64, 60, 0.1, KINDS["tenths"][2])
    _D, pred = closure_with_predecessors(A, sr.min_plus)
    shifted = np.where(A < INF, A + 1, 0.0)  # SciPy takes 0 for no edge
    for i in range(60):
        tree = reconstruct_path(shifted, pred[i], directed=True).tocoo()
        assert tree.nnz == np.count_nonzero(pred[i] >= 0)
        np.testing.assert_array_equal(pred[i, tree.col], tree.row)
        np.testing.assert_array_equal(tree.data, shifted[tree.row, tree.col])


@pytest.mark.full
@pytest.mark.parametrize("kind", full(lambda kind: kind in SHARED, KINDS))
def test_the_reference(rng, kind):
    name, dtype, draw = KINDS[kind]
    semiring = sr.as_semiring(name)
    A = graph(rng, name, dtype, 30, 0.3, draw)
    nonnegative = np.dtype(dtype).kind == "f" and name == "min_plus"
    plan = make_plan(semiring, dtype, nonnegative=nonnegative)
    D, _ = closure_with_predecessors(A, semiring)
    if np.dtype(dtype).kind == "i" and semiring.tropical:
        plan = make_plan(semiring, np.float64)
        A, D = (np.where(zero_of(name, dtype) == M, zero_of(name, np.float64), M).astype(np.float64) for M in (A, D))
    pred = algorithm.predecessors(get_backend("reference"), plan, D, A)
    check(name, A, D, pred, absolute=LUKASIEWICZ.get(name, 0.0))


@pytest.mark.full
def test_a_matrix_that_is_no_closure_is_refused(rng):
    A = graph(rng, "min_plus", np.float32, 40, 0.3, KINDS["floats"][2])
    D = sr.closure(A)
    D[3, 5] /= 2
    plan = make_plan(sr.min_plus, np.float32, nonnegative=True)
    for backend in ("cpu", "reference"):
        with pytest.raises(sr.errors.AlgebraError, match="not the weight of a path"):
            algorithm.predecessors(get_backend(backend), plan, D, A)


def test_a_sum_of_edges_is_checked_against_cycles():
    plan = make_plan(sr.min_plus, np.float64)
    pred = np.array([-9999, 2, 1], np.int32)
    with pytest.raises(RuntimeError, match="cycles"):
        path_sums(plan, np.ones((3, 3)), pred, 0)


# ------------------------------------------------------------------------------------------------------- the repair


def settle(A, D, pred, rows):
    """Repair the marked rows of any matrix, and return how many rows were repaired."""
    from semiring.kernels.cpu.predecessor_search import _KernelOperands, _settle_rows

    plan = make_plan(sr.min_plus, A.dtype, nonnegative=True)
    case = _KernelOperands(plan, D, A, tolerance_for(plan, D))
    marked = np.zeros(len(A), bool)
    marked[rows] = True
    return _settle_rows(case, pred, marked)


@pytest.mark.full
@pytest.mark.parametrize(
    "kind", full(lambda kind: kind != "floats", ["floats", "zeros and ones", "all zero", "doubles"])
)
def test_the_repair_of_corrupted_trees(rng, kind):
    name, dtype, draw = KINDS[kind]
    A = graph(rng, name, dtype, 70, 0.15, draw)
    D, good = closure_with_predecessors(A, sr.min_plus)
    sound = good.copy()
    assert settle(A, D, sound, np.arange(70)) == 0
    np.testing.assert_array_equal(sound, good)
    bad = good.copy()
    reached = np.flatnonzero((good[4] >= 0) & (good[4] != 4))
    u, v = reached[0], reached[-1]
    bad[4, u], bad[4, v] = v, u  # a cycle
    bad[7] = rng.integers(0, 70, 70)  # anything
    bad[9, :] = -9999  # nothing
    bad[11] = 11  # edges that do not exist
    assert settle(A, D, bad, [4, 7, 9, 11]) >= 3
    check(name, A, D, bad)


@pytest.mark.full
def test_long_paths_of_floats_are_repaired_where_sums_drift(rng):
    """Sums of a ring of 700 float32 weights differ by many ulp in another order, and are added up and compared."""
    n = 700
    A = np.full((n, n), INF, np.float32)
    for v in range(n):
        A[v, (v + 1) % n] = rng.random() + 0.01
    order = rng.permutation(n)
    A = A[np.ix_(order, order)]
    D, pred = closure_with_predecessors(A, sr.min_plus)
    sample = rng.choice(n, 12, replace=False)
    for i in sample:
        for j in range(n):
            if i != j:
                total = math.fsum(float(A[a, b]) for a, b in pairwise(walk(pred, i, j)))
                assert abs(total - D[i, j]) <= n * np.finfo(np.float32).eps * D[i, j]


@pytest.mark.full
def test_an_edge_of_the_zero_is_no_edge_though_it_meets_a_tiny_distance():
    # 0 → 1 → 2 has the degree of one rounding error, which the tolerance cannot tell from 0, the weight of no edge.
    tiny = np.float32(2.0**-23)
    A = np.zeros((3, 3), np.float32)
    A[0, 1], A[1, 2] = 0.5, np.float32(0.5) + tiny
    found = sr.best_paths(A, "lukasiewicz")
    assert found.matrix[0, 2] == tiny
    assert found.path(0, 2) == [0, 1, 2]
    assert sr.best_paths(A, "lukasiewicz", predecessors=False).path(0, 2) == [0, 1, 2]


@pytest.mark.parametrize("n", [1, 2, 3, 17, 64, 160])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("signed", [False, True], ids=["all positive", "both signs"])
def test_the_short_way_of_small_matrices_leads_to_the_same_trees(n, dtype, signed, rng):
    for weights in (rng.uniform(1, 9, (n, n)), rng.integers(1, 5, (n, n))):
        potential = rng.uniform(-5, 5, n) if signed else np.zeros(n)
        A = np.where(rng.random((n, n)) < 0.6, INF, weights + potential[:, np.newaxis] - potential).astype(dtype)
        short = closure_with_predecessors(A, sr.min_plus)
        long = closure_with_predecessors(A, sr.min_plus, method="rkleene")
        np.testing.assert_array_equal(short[0], long[0])
        if not signed:
            np.testing.assert_array_equal(short[1], long[1])
        for D, pred in (short, long):  # with both signs, ties may differ: one is searched under potentials
            check("min_plus", A, D, pred, absolute=8 * n * np.finfo(dtype).eps * 30)


def test_small_matrices_of_factors_above_1_have_paths(rng):
    """Factors round a product more than the search for paths in the given weights allows."""
    seen = np.array(
        [[0, 0.4935423489370997, 0], [1.3536429295035193, 0.6302174592661318, 0], [0, 1.3693025364948361, 0]]
    )
    for A in (seen, *(np.where(rng.random((4, 4)) < 0.5, 0.0, rng.random((4, 4)) * 1.5) for _ in range(100))):
        try:
            D = sr.closure(A, "max_times", check=False)
        except sr.DivergenceError:
            continue
        np.testing.assert_allclose(sr.best_paths(A, "max_times").matrix, D, rtol=1e-13)


def test_a_matrix_that_stays_is_not_copied_for_its_predecessors(monkeypatch, rng):
    """The predecessor search reads the matrix of the caller if its weights need no change."""
    seen, find = [], algorithm.predecessors

    def spy(backend, plan, D, before):
        seen.append(before)
        return find(backend, plan, D, before)

    monkeypatch.setattr(algorithm, "predecessors", spy)
    A = rng.integers(1, 100, (200, 200)).astype(np.float64)
    closure_with_predecessors(A, sr.min_plus)
    closure_with_predecessors(-A, sr.max_plus)
    assert [np.shares_memory(before, A) for before in seen] == [True, False]
