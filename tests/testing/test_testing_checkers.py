"""Test that the checkers accept what the oracles compute, and name the entry if it is changed."""

from __future__ import annotations

from importlib import import_module

import numpy as np
import oracles
import pytest

import semiring as sr
from semiring.testing import (
    EXAMPLES,
    check_closure,
    check_path,
    check_predecessors,
    check_product,
    check_reachability,
    check_shortest_paths,
    cycle_graph,
    height_difference_grid,
    uniform_graph,
    zero_weight_cycles,
)

INF = np.inf
CASES = [(name, dtype) for name, semiring in sr.CATALOGUE.items() for dtype in semiring.dtypes]


def whole_numbers(name, dtype, shape, rng):
    """Draw whole numbers (or simple fractions) in the domain, with some entries zero."""
    if dtype == "bool":
        return rng.random(shape) < 0.4
    if name in ("max_times", "lukasiewicz"):
        return (rng.integers(0, 9, shape) / 8).astype(dtype)
    low, high = {"min_times": (1, 5), "plus_times": (-5, 5), "log_plus": (-6, -1)}.get(name, (0, 20))
    values = rng.integers(low, high, shape).astype(dtype)
    values[rng.random(shape) < 0.3] = oracles.zero(name, dtype)
    return values


def change_entry(matrix, place):
    """Return the matrix with one entry changed to another value of its dtype."""
    result = matrix.copy()
    value = result[place]
    if result.dtype == bool:
        result[place] = ~value
    elif result.dtype.kind == "f":
        result[place] = 1 if not np.isfinite(value) else value + max(abs(value), 1) / 100
    else:
        result[place] = value - 1 if value > 0 else value + 1
    return result


# --------------------------------------------------------------------------------------------------------- products


@pytest.mark.parametrize(("name", "dtype"), CASES)
def test_a_product_is_accepted_and_a_changed_entry_named(name, dtype, rng):
    A, B = whole_numbers(name, dtype, (5, 7), rng), whole_numbers(name, dtype, (7, 4), rng)
    C = oracles.product(A, B, name)
    check_product(A, B, C, name)
    with pytest.raises(AssertionError, match=r"C\[3, 2\] = .* but A ⊗ B is"):
        check_product(A, B, change_entry(C, (3, 2)), name)


def test_products_without_terms_and_with_leading_dimensions(rng):
    empty = np.empty((3, 0)), np.empty((0, 2))
    check_product(*empty, np.full((3, 2), INF))
    with pytest.raises(AssertionError, match=r"C\[0, 0\] = 0.0"):
        check_product(*empty, np.zeros((3, 2)))
    A, B = rng.integers(0, 9, (4, 1, 2, 3)).astype(float), rng.integers(0, 9, (5, 3, 2)).astype(float)
    C = np.array([[oracles.product(a[0], b, "min_plus") for b in B] for a in A])
    check_product(A, B, C)
    with pytest.raises(AssertionError, match=r"C\[3, 4, 1, 0\]"):
        check_product(A, B, change_entry(C, (3, 4, 1, 0)))
    with pytest.raises(AssertionError, match=r"C is \(2, 2\)"):
        check_product(A, B, C[0, 0])
    with pytest.raises(AssertionError, match="inner sizes 3 and 2 differ"):
        check_product(C[0, 0, :, :1] @ np.ones((1, 3)), C[0, 0], C[0, 0])


def test_a_product_of_floats_has_no_tolerance_where_choice_is_exact(rng):
    A, B = rng.random((6, 6), np.float32), rng.random((6, 6), np.float32)
    C = oracles.product(A, B, "min_plus")
    check_product(A, B, C)
    C[2, 2] = np.nextafter(C[2, 2], np.float32(INF))
    with pytest.raises(AssertionError, match=r"C\[2, 2\]"):
        check_product(A, B, C)


@pytest.mark.parametrize("name", ["plus_times", "log_plus"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_sums_of_floats_may_differ_by_their_rounding_only(name, dtype, rng):
    A, B = (rng.standard_normal((20, 20)).astype(dtype) for _ in "AB")
    C = oracles.product(A, B, name)
    backwards = oracles.product(A[:, ::-1], B[::-1], name)
    assert not np.array_equal(C, backwards)
    check_product(A, B, C, name)
    check_product(A, B, backwards, name)
    scale = np.abs(A.astype(float)) @ np.abs(B.astype(float))
    C[7, 3] += 1e3 * np.finfo(dtype).eps * max(scale[7, 3], 40)
    with pytest.raises(AssertionError, match=r"C\[7, 3\]"):
        check_product(A, B, C, name)


@pytest.mark.parametrize("name", ["min_plus", "max_times", "log_plus", "plus_times"])
@pytest.mark.parametrize("half", ["float16", "bfloat16"])
def test_halves_may_differ_by_their_rounding_only(name, half, rng):
    dtype = np.dtype(import_module("ml_dtypes").bfloat16 if half == "bfloat16" else half)
    A = rng.random((30, 30)) / 60
    A = (np.log(A) if name == "log_plus" else A).astype(dtype)
    C, D = sr.matmul(A, A, name), sr.closure(A, name)
    check_product(A, A, C, name)
    check_closure(A, D, name)
    C[3, 4] = np.inf
    with pytest.raises(AssertionError, match=r"C\[3, 4\]"):
        check_product(A, A, C, name)


def test_a_nan_is_never_right_by_chance():
    A = B = np.zeros((2, 2))
    with pytest.raises(AssertionError, match=r"C\[0, 1\] = nan"):
        check_product(A, B, np.array([[0, np.nan], [0, 0]]))


# --------------------------------------------------------------------------------------------------------- closures


def closable(name, dtype, n, rng):
    """Return a matrix whose closure exists, and that closure by an oracle."""
    A = whole_numbers(name, dtype, (n, n), rng)
    if name == "max_plus":
        A = np.where(oracles.zero(name, dtype) == A, A, -A).astype(dtype)
    if not oracles.ORACLES[name].idempotent:
        A[np.tril_indices(n)] = oracles.zero(name, dtype)
        unit = oracles.identity(n, name, dtype)
        D = unit
        for _ in range(n):
            D = oracles.ORACLES[name].add(unit, oracles.product(A, D, name))
        return A, D
    return A, oracles.closure(A, name)


@pytest.mark.parametrize(("name", "dtype"), CASES)
def test_a_closure_is_accepted_and_a_changed_entry_named(name, dtype, rng):
    A, D = closable(name, dtype, 9, rng)
    check_closure(A, D, name)
    for place in ((0, 8), (8, 8), (3, 4)):
        with pytest.raises(AssertionError, match="D\\["):
            check_closure(A, change_entry(D, place), name)


def test_a_fixed_point_that_is_not_the_least_is_refused():
    """The matrix of ones solves D = I ⊕ A ⊗ D as the closure does, and must be rejected."""
    A = np.array([[True, False], [False, True]])
    with pytest.raises(AssertionError, match=r"D\[0, 1\] = True but A\* is False"):
        check_closure(A, np.ones((2, 2), bool), "boolean")


def test_a_closure_that_needs_more_powers_than_there_are_vertices():
    """Matrices 2 × 2 of relations on two elements are graphs of four vertices, here with a path of three edges."""
    relations = EXAMPLES["relations"]
    A = np.array([[0, 9], [2, 0]], np.uint8)
    D = np.array([[11, 11], [2, 11]], np.uint8)
    check_closure(A, D, relations)
    for short in ([[11, 9], [2, 11]], [[9, 9], [2, 9]]):
        with pytest.raises(AssertionError, match="but A\\* is 11"):
            check_closure(A, np.array(short, np.uint8), relations)


def test_closures_of_other_kinds(rng):
    A = uniform_graph(12, 1, integer=True, seed=3)
    plus = oracles.closure(A, "min_plus", reflexive=False)
    check_closure(A, plus, reflexive=False)
    assert not np.array_equal(plus, oracles.closure(A, "min_plus"))
    with pytest.raises(AssertionError, match="A⁺"):
        check_closure(A, oracles.closure(A, "min_plus"), reflexive=False)
    A = rng.standard_normal((8, 8)) / 20
    D = np.linalg.inv(np.eye(8) - A)
    check_closure(A, D, "plus_times")
    with pytest.raises(AssertionError, match=r"D\[0, 1\] = .* but I ⊕ A ⊗ D is"):
        check_closure(A, change_entry(D, (5, 1)), "plus_times")  # the first row that meets the changed entry


# --------------------------------------------------------------------------------------------------- shortest paths


@pytest.fixture
def distances_of_graph(rng):
    A = np.minimum(uniform_graph(40, 3, integer=True, seed=rng), cycle_graph(40, weights=(900, 900)))
    A[:, 7] = A[7, :] = INF  # a vertex alone
    A[6, 8] = 900
    return A, oracles.all_pairs_dijkstra(A)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int16", "int32", "int64"])
def test_distances_are_accepted(distances_of_graph, dtype):
    A, D = distances_of_graph
    none = oracles.zero("min_plus", dtype)
    A, D = (np.where(np.isinf(x), none, np.where(np.isinf(x), 0, x).astype(dtype)) for x in (A, D))
    check_shortest_paths(A, D)
    check_shortest_paths(A.tolist() if dtype == "float64" else A, D)


def test_a_distance_that_is_too_short_is_named(distances_of_graph):
    A, D = distances_of_graph
    leaf = int(np.argmax(np.where(np.isfinite(D[3]), D[3], -1)))  # the farthest: no other distance rests on it
    D[3, leaf] -= 1
    with pytest.raises(AssertionError, match=rf"D\[3, {leaf}\] = .* is attained by no path"):
        check_shortest_paths(A, D)


@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        ((3, 5), 1e4, r"D\[3, 5\] = .* exceeds D\[3, \d+\] \+ A\[\d+, 5\]"),
        ((2, 7), 5.0, r"D\[2, 7\] = 5.0 is attained by no path"),
        ((2, 3), INF, r"D\[2, 3\] = inf exceeds"),
        ((2, 3), np.nan, r"D\[2, 3\] = nan is no distance"),
        ((2, 3), -INF, r"D\[2, 3\] = -inf is no distance"),
        ((4, 4), 1.0, r"D\[4, 4\] = 1.0 is the distance of a vertex from itself"),
        ((4, 4), INF, r"D\[4, 4\] = inf is the distance of a vertex from itself"),
    ],
)
def test_what_is_no_distance_is_named(distances_of_graph, place, value, message):
    A, D = distances_of_graph
    D[place] = value
    with pytest.raises(AssertionError, match=message):
        check_shortest_paths(A, D)
    with pytest.raises(AssertionError, match="square, of one size"):
        check_shortest_paths(A, D[1:, 1:])
    with pytest.raises(AssertionError, match="square, of one size"):
        check_closure(A[1:], D[1:])


def test_distances_that_only_hold_each_other_up_are_refused():
    """1 → 2 → 1 weighs zero: with both distances too short alike every equation holds, but no path attains them."""
    A = np.full((3, 3), INF)
    A[0, 1], A[1, 2], A[2, 1] = 10, 0, 0
    D = oracles.closure(A, "min_plus")
    check_shortest_paths(A, D)
    D[0, 1:] = 5
    with pytest.raises(AssertionError, match=r"D\[0, 1\] = 5.0 is attained by no path"):
        check_shortest_paths(A, D)


def test_distances_along_zero_weight_cycles_and_height_differences():
    A = zero_weight_cycles(30, 5, seed=2)
    D = oracles.exact_distances(A).astype(float)
    check_shortest_paths(A, D, rtol=0)
    A, heights = height_difference_grid(10, 10)
    D = heights - heights[:, None]
    check_shortest_paths(A, D)
    D[5, 77] += 1e-10
    with pytest.raises(AssertionError, match=r"D\[5, "):
        check_shortest_paths(A, D)


# ------------------------------------------------------------------------------------------------------------ paths

EDGES = np.array([[INF, 1.5, INF, 9], [INF, INF, 2.5, INF], [INF, INF, INF, 0], [1, INF, INF, INF]])


def test_a_path_is_a_certificate():
    check_path(EDGES, [0, 1, 2, 3], 4.0, source=0, target=3)
    check_path(EDGES, [2], 0)
    check_path(EDGES.astype("float32"), (0, 1, 2), np.float32(4))
    check_path(EDGES, [0, 3])
    reliable = np.array([[0, 0.5, 0], [0, 0, 0.25], [0, 0, 0]])
    check_path(reliable, [0, 1, 2], 0.125, "max_times")
    check_path(np.array([[0, 3], [2**31 - 1, 0]], "int32"), [0, 1], 3)


@pytest.mark.parametrize(
    ("path", "distance", "options", "message"),
    [
        ([], 0, {}, "empty"),
        ([0, 4], 1, {}, "visits 4"),
        ([0, -1], 1, {}, "visits -1"),
        ([0, 1, 2, 3, 0], 5, {}, "visits 0 twice"),
        ([0, 2], 1, {}, "uses 0 → 2, which is no edge"),
        ([0, 1, 2, 3], 9, {}, "has weight 4.0, not 9"),
        ([0, 1, 2, 3], 4 + 1e-9, {}, "has weight 4.0, not"),
        ([0, 1, 2, 3], INF, {}, "has weight 4.0, not inf"),
        ([0, 1, 2, 3], np.nan, {}, "has weight 4.0, not nan"),
        ([0, 1], 1.5, {"source": 1}, "starts at 0, not at 1"),
        ([0, 1], 1.5, {"target": 0}, "ends at 1, not at 0"),
        ([2], 1, {}, "has weight 0"),
    ],
)
def test_a_bad_path_is_refused(path, distance, options, message):
    with pytest.raises(AssertionError, match=message):
        check_path(EDGES, path, distance, **options)


def test_the_weight_of_a_path_has_a_relative_tolerance(rng):
    chain = np.full((101, 101), INF, np.float32)
    chain[np.arange(100), np.arange(1, 101)] = rng.random(100, np.float32)
    total = np.float32(0)
    for k in range(100):
        total += chain[k, k + 1]
    check_path(chain, range(101), total)
    with pytest.raises(AssertionError, match="has weight"):
        check_path(chain, range(101), total, rtol=0)
    check_path(chain, range(101), total, rtol=0, atol=1e-3)
    with pytest.raises(AssertionError, match="has weight"):
        check_path(chain, range(101), total + 2e-3, rtol=0, atol=1e-3)
    tiny = np.where(np.isinf(chain), 0, 0.5).astype("float64")
    check_path(tiny, range(101), 0.5**100, "max_times")
    with pytest.raises(AssertionError, match="has weight"):
        check_path(tiny, range(101), 0.5**100 * (1 + 1e-6), "max_times")


# ----------------------------------------------------------------------------------------------------- predecessors


def predecessors_of(A):
    P = np.array([oracles.dijkstra(A, source)[1] for source in range(len(A))])
    return np.where(P < 0, -9999, P).astype(np.int32)


def test_predecessors_are_accepted(distances_of_graph):
    A, D = distances_of_graph
    check_predecessors(A, D, predecessors_of(A))
    check_predecessors(A, D, np.where(predecessors_of(A) < 0, -1, predecessors_of(A)), none=-1)
    check_predecessors(np.empty((0, 0)), np.empty((0, 0)), np.empty((0, 0), np.int32))


def test_predecessors_of_another_semiring():
    A = np.array([[0, 0.5, 0.1], [0, 0, 0.5], [0, 0, 0]])
    P = np.array([[-9999, 0, 1], [-9999, -9999, 1], [-9999, -9999, -9999]])
    D = np.array([[1, 0.5, 0.25], [0, 1, 0.5], [0, 0, 1]])
    check_predecessors(A, D, P, "max_times")
    P[0, 2] = 0
    with pytest.raises(AssertionError, match=r"D\[0, 2\] = 0.25 is not the weight .* 0.1"):
        check_predecessors(A, D, P, "max_times")


def test_each_kind_of_bad_predecessor_is_named(distances_of_graph):
    A, D = distances_of_graph
    P = predecessors_of(A)
    good = P.copy()

    def check_refused(place, value, message):
        bad = good.copy()
        bad[place] = value
        with pytest.raises(AssertionError, match=message):
            check_predecessors(A, D, bad)

    check_refused((4, 4), 4, r"predecessors\[4, 4\] = 4 should be -9999")
    check_refused((4, 7), 2, r"predecessors\[4, 7\] = 2 should be -9999")
    check_refused((4, 5), -9999, r"predecessors\[4, 5\] = -9999 is no vertex")
    check_refused((4, 5), 40, r"predecessors\[4, 5\] = 40 is no vertex")
    stranger = int(np.flatnonzero(np.isinf(A[:, 5]))[0])
    check_refused((4, 5), stranger, rf"predecessors\[4, 5\] = {stranger} has no edge to 5")
    j = int(np.flatnonzero((D[4] > 0) & (good[4] != 4) & np.isfinite(D[4]))[0])
    A[4, j] = 5000  # an edge that exists, but is no part of a shortest path
    check_refused((4, j), 4, rf"D\[4, {j}\] = .* is not the weight")


def test_circular_predecessors_are_refused():
    """Vertices 1 and 2 of a cycle of weight zero name each other: every step adds up, and no path begins at 0."""
    A = np.full((3, 3), INF)
    A[0, 1], A[1, 2], A[2, 1] = 10, 0, 0
    D = oracles.closure(A, "min_plus")
    P = np.array([[-9999, 0, 1], [-9999, -9999, 1], [-9999, 2, -9999]])
    check_predecessors(A, D, P)
    P[0, 1] = 2
    with pytest.raises(AssertionError, match=r"predecessors\[0, 1\] = 2 never leads back"):
        check_predecessors(A, D, P)


# ----------------------------------------------------------------------------------------------------- reachability


@pytest.mark.parametrize("reflexive", [True, False])
def test_reachability(reflexive, rng):
    A = rng.random((30, 30)) < 0.05
    R = oracles.reachable(A, reflexive=reflexive)
    assert 50 < R.sum() < 850
    check_reachability(A, R, reflexive=reflexive)
    for place in ((3, 3), (29, 0), (12, 17)):
        bad = R.copy()
        bad[place] = not bad[place]
        with pytest.raises(AssertionError, match=rf"R\[{place[0]}, {place[1]}\] = {bad[place]} is not"):
            check_reachability(A, bad, reflexive=reflexive)


def test_reachability_of_weights_and_of_sparse_matrices():
    A = uniform_graph(20, 1, weights=(0, 3), integer=True, seed=1)
    R = oracles.reachable(np.isfinite(A))
    check_reachability(A, R)
    check_reachability(A, oracles.closure(A, "min_plus"), "min_plus")
    check_reachability(uniform_graph(20, 1, weights=(0, 3), integer=True, seed=1, sparse=True), R)
    check_reachability(np.array([[0, 0.5], [0, 0]]), np.array([[1, 0.5], [0, 1]]), "max_times")
    R[0, 1] = not R[0, 1]
    with pytest.raises(AssertionError, match=r"R\[0, 1\]"):
        check_reachability(A, R)


def test_paths_and_networks_are_checked_as_they_are():
    matrix = np.array([[-np.inf, 3.0, 9.0], [-np.inf, -np.inf, 4.0], [1.0, -np.inf, -np.inf]])
    network = sr.Network(matrix, semiring=sr.max_min)  # whose -∞ is no edge for shortest paths either
    found = sr.shortest_paths(network)
    check_shortest_paths(network, found)
    check_closure(network, found)
    check_predecessors(network, found, found.predecessors)
    check_reachability(network, sr.transitive_closure(network))
    found.matrix[0, 2] = 8
    with pytest.raises(AssertionError, match=r"D\[0, 2\] = 8.0 exceeds"):
        check_shortest_paths(network, found)


@pytest.mark.parametrize("dtype", ["float32", "int64", "bool"])
def test_a_product_of_another_dtype_is_refused(dtype):
    A = np.array([[0.0, 1], [1, 0]])
    check_product(A, A, sr.matmul(A, A))
    with pytest.raises(AssertionError, match=f"C has dtype {dtype}, but a product of float64 and float64 has dtype"):
        check_product(A, A, sr.matmul(A, A).astype(dtype))
