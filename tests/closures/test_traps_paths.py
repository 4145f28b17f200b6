"""Test the traps of shortest paths: negative cycles real or not, zero-weight cycles, ties, circular predecessors."""

from __future__ import annotations

import numpy as np
import oracles
import pytest
from tiers import full, quick

import semiring as sr
from semiring.closures import closure
from semiring.errors import DivergenceError, NegativeCycleError, NoPathError
from semiring.paths import shortest_paths
from semiring.testing import (
    check_closure,
    check_path,
    check_predecessors,
    check_shortest_paths,
    cycle_graph,
    grid_graph,
    height_difference_grid,
    planted_negative_cycle,
    uniform_graph,
    zero_weight_cycles,
)

INF = np.inf
METHODS = ["rkleene", "blocked_floyd_warshall", "floyd_warshall", "squaring", "johnson"]
DENSE = METHODS[:-1]


def check_every_path(A, D, paths, *, rtol=None):
    """Check that each path is simple, follows edges, and weighs the distance, or that the result says there is none.

    Where signs are mixed, what the potentials round is relative to the largest magnitude, not to each distance.
    """
    n = len(A)
    mixed = rtol is None and bool((A < 0).any())
    atol = 4 * n * np.finfo(D.dtype).eps * np.abs(np.where(np.isinf(D), 0, D)).max() if mixed else 0.0
    none = oracles.zero("min_plus", D.dtype)
    for i in range(n):
        for j in range(n):
            if none == D[i, j]:
                with pytest.raises(NoPathError):
                    paths.path(i, j)
            else:
                check_path(A, paths.path(i, j), D[i, j], source=i, target=j, rtol=rtol, atol=atol)


# -------------------------------------------------------------------------------------------------- negative cycles


@pytest.mark.parametrize("method", ["auto", *METHODS])
@pytest.mark.parametrize("n", [1, 2, 40, 200])
def test_a_negative_self_loop_is_a_negative_cycle(n, method):
    """A negative self-loop raises. SciPy's Floyd–Warshall ignores it, and networkx's two versions disagree."""
    A = uniform_graph(n, min(3, n - 1), integer=True, seed=n)
    v = n // 2
    A[v, v] = -1
    with pytest.raises(NegativeCycleError) as caught:
        closure(A, method=method)
    assert caught.value.cycle == (v,)
    B = -A
    with pytest.raises(NegativeCycleError) as caught:
        closure(B, "max_plus", method=method)
    assert caught.value.cycle == (v,)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int16", "int32", "int64"])
def test_self_loops_that_are_not_negative_do_nothing(dtype):
    A = np.array([[0, 3], [4, 7]], dtype)
    assert closure(A).tolist() == [[0, 3], [4, 0]]
    assert closure(A, reflexive=False).tolist() == [[0, 3], [4, 7]]


@pytest.mark.parametrize(
    "dtype", quick(lambda dtype: dtype.startswith("float"), ["float32", "float64", "int32", "int64"])
)
@pytest.mark.parametrize(("n", "length"), [(2, 2), (3, 1), (30, 3), (65, 65), (130, 17), (400, 9)])
def test_a_negative_cycle_is_found_named_and_nothing_is_written(n, length, dtype):
    """Distances run away exponentially (-1e121 at n = 400) where it is noticed too late."""
    A, planted = planted_negative_cycle(n, length, dtype=dtype, seed=length)
    before = A.copy()
    with pytest.raises(NegativeCycleError) as caught:
        closure(A, out=A)
    cycle = list(caught.value.cycle)
    assert oracles.cycle_weight(A, cycle) < 0
    assert sorted(cycle) == sorted(planted)
    assert all(type(v) is int for v in cycle)
    np.testing.assert_array_equal(A, before)
    with pytest.raises(NegativeCycleError):
        shortest_paths(before)


@pytest.mark.parametrize("method", DENSE)
@pytest.mark.parametrize("length", [1, 4, 50])
def test_every_method_finds_it(length, method):
    A, planted = planted_negative_cycle(50, length, seed=length)
    with pytest.raises(NegativeCycleError) as caught:
        closure(A, method=method)
    assert sorted(caught.value.cycle) == sorted(planted)


def test_a_sparse_matrix_with_a_negative_cycle():
    A, planted = planted_negative_cycle(300, 5, sparse=True, seed=1)
    for method in ("auto", "johnson", "rkleene"):
        with pytest.raises(NegativeCycleError) as caught:
            closure(A, method=method)
        assert sorted(caught.value.cycle) == sorted(planted)


def test_the_message_names_the_vertices_and_the_weight():
    A = np.full((5, 5), INF)
    A[1, 3], A[3, 4], A[4, 1], A[0, 1] = 1, 1, -2.5, 1
    with pytest.raises(NegativeCycleError, match=r"1.*3.*4|3.*4.*1|4.*1.*3") as caught:
        closure(A)
    assert "0.5" in str(caught.value)


def test_a_cycle_too_slight_to_see_but_not_explained_by_rounding():
    """A cycle of -1e-6 on weights of 1 is real in float64."""
    A = cycle_graph(10, weights=(1, 1))
    A[9, 0] = -9 - 1e-6
    with pytest.raises(NegativeCycleError):
        closure(A)
    A[9, 0] = -9 + 1e-6
    check_shortest_paths(A, closure(A))


# -------------------------------------------------------------------------------------------- false negative cycles


@pytest.mark.parametrize("method", ["auto", *METHODS])
@pytest.mark.parametrize("seed", quick(lambda seed: seed == 0, range(4)))
def test_height_differences_on_a_grid_have_no_negative_cycle(seed, method):
    """Each cycle weighs zero. SciPy reports a negative cycle and networkx returns -3.8e12. This library errs below
    1e-13."""
    A, heights = height_difference_grid(10, 10, seed=seed)
    D = closure(A, method=method)
    assert np.abs(D - (heights - heights[:, None])).max() < 1e-13
    check_shortest_paths(A, D)


@pytest.mark.full
def test_height_differences_in_float32():
    A, heights = height_difference_grid(10, 10, dtype="float32")
    D = closure(A)
    assert D.dtype == np.float32
    assert np.abs(D - (heights - heights[:, None])).max() < 1e-5


@pytest.mark.parametrize(("rows", "columns"), quick(lambda rows, _: rows < 6, [(2, 3), (5, 7), (3, 40), (16, 16)]))
def test_paths_over_height_differences_are_simple_and_weigh_their_distance(rows, columns):
    A, heights = height_difference_grid(rows, columns, seed=rows)
    found = shortest_paths(A)
    assert np.abs(found.matrix - (heights - heights[:, None])).max() < 1e-13
    check_predecessors(A, found.matrix, found.predecessors)
    if len(A) < 50:
        check_every_path(A, found.matrix, found)


@pytest.mark.parametrize("seed", range(5))
def test_rounded_zero_weight_cycles_are_not_negative(seed):
    A = zero_weight_cycles(60, 6, integer=False, seed=seed)
    D = closure(A)
    check_shortest_paths(A, D)
    found = shortest_paths(A)
    check_predecessors(A, found.matrix, found.predecessors)


# ------------------------------------------------------------------------------------- ties and zero-weight cycles


@pytest.mark.full
@pytest.mark.parametrize(
    ("n", "length", "dtype"),
    full(
        lambda n, length, dtype: dtype in {2: ("int16", "int64"), 65: ("float32", "int32")}.get(n, ()),
        [
            (*size, dtype)
            for size in [(1, 1), (2, 2), (30, 5), (65, 2), (130, 130)]
            for dtype in ("float32", "float64", "int16", "int32", "int64")
        ],
    ),
)
def test_distances_with_zero_weight_cycles_are_exact(n, length, dtype):
    A = zero_weight_cycles(n, length, dtype=dtype, seed=n)
    D = closure(A)
    check_shortest_paths(A, D, rtol=0)
    check_closure(A, D, rtol=0)


@pytest.mark.parametrize("dtype", quick(lambda dtype: dtype == "float64", ["float32", "float64", "int32"]))
@pytest.mark.parametrize(("n", "length"), quick(lambda n, length: n < 130, [(2, 2), (12, 3), (40, 8), (130, 5)]))
def test_predecessors_form_trees_with_zero_weight_cycles(n, length, dtype):
    """Rounding or a zero-weight cycle can make predecessors cyclic (petgraph#373)."""
    A = zero_weight_cycles(n, length, dtype=dtype, seed=length)
    found = shortest_paths(A)
    check_predecessors(A, found.matrix, found.predecessors, rtol=0)
    if n <= 40:
        check_every_path(A, found.matrix, found, rtol=0)


@pytest.mark.parametrize("n", [2, 20, 65, 129])
def test_predecessors_form_trees_where_everything_ties(n):
    """If each weight is 0, every walk is a shortest one, and choosing any tight edge may go round in cycles."""
    A = np.zeros((n, n))
    found = shortest_paths(A)
    assert (found.matrix == 0).all()
    check_predecessors(A, found.matrix, found.predecessors, rtol=0)
    check_path(A, found.path(n - 1, 0), 0.0, source=n - 1, target=0)


@pytest.mark.parametrize("seed", range(4))
def test_predecessors_with_many_ties(seed, rng):
    A = rng.integers(0, 2, (70, 70)).astype(np.float64)
    A[rng.random(A.shape) < 0.8] = INF
    found = shortest_paths(A)
    np.testing.assert_array_equal(found.matrix, oracles.all_pairs_dijkstra(A))
    check_predecessors(A, found.matrix, found.predecessors, rtol=0)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("n", [3, 33, 120])
def test_predecessors_with_rounded_weights(n, dtype, rng):
    """Sums of decimal weights may be equal in decimals and differ by one rounding in binary."""
    A = uniform_graph(n, min(n - 1, 6), weights=(1, 9), integer=True, seed=rng).astype(dtype) / 10
    found = shortest_paths(A)
    check_shortest_paths(A, found.matrix)
    check_predecessors(A, found.matrix, found.predecessors)
    if n <= 33:
        check_every_path(A, found.matrix, found)


def test_predecessors_where_weights_differ_by_many_magnitudes(rng):
    """The sum 1e16 + 1 rounds to 1e16, so that a detour seems to cost nothing."""
    A = uniform_graph(50, 4, seed=rng)
    present = np.isfinite(A)
    A[present] = 10.0 ** rng.integers(-8, 17, present.sum())
    found = shortest_paths(A)
    check_shortest_paths(A, found.matrix)
    check_predecessors(A, found.matrix, found.predecessors)
    check_every_path(A, found.matrix, found)


def test_paths_without_predecessors_are_as_good(rng):
    for A in (zero_weight_cycles(25, 4, seed=1), grid_graph(5, 5, weights=(0, 1), integer=True), np.zeros((9, 9))):
        found = shortest_paths(A, predecessors=False)
        check_shortest_paths(A, found.matrix, rtol=0)
        check_every_path(A, found.matrix, found, rtol=0)


@pytest.mark.parametrize("n", [0, 1, 2])
def test_tiny_graphs_have_paths(n):
    A = np.full((n, n), INF)
    found = shortest_paths(A)
    np.testing.assert_array_equal(found.predecessors, np.full((n, n), -9999))
    check_shortest_paths(A, found.matrix)
    if n:
        assert found.path(0, 0) == [0]
    if n == 2:
        with pytest.raises(NoPathError):
            found.path(0, 1)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_small_mixed_matrices_give_the_same_bits_whichever_way_they_go(rng, dtype):
    for n in (5, 40, 159):
        heights = 10 * rng.random(n)
        A = np.where(rng.random((n, n)) < 0.5, heights[None, :] - heights[:, None] + rng.random((n, n)), np.inf)
        A = A.astype(dtype)
        expected = closure(A).tobytes()
        assert sr.shortest_paths(A).matrix.tobytes() == expected
        assert closure(A, method="rkleene").tobytes() == expected


def test_paths_of_at_least_one_edge_agree_with_what_is_reachable():
    P = sr.transitive_closure([[0, 1, 0], [1, 0, 1], [0, 0, 0]], reflexive=False)
    assert P.reachable.tolist() == [[True, True, True], [True, True, True], [False, False, False]]
    assert P.path(0, 0) == [0, 1, 0]
    assert P.paths_from(1)[1] == [1, 0, 1]
    assert P.paths_from(2) == {}
    with pytest.raises(NoPathError):
        P.path(2, 2)
    loop = sr.transitive_closure([[1]], reflexive=False)
    assert loop.path(0, 0) == [0, 0]


@pytest.mark.full
@pytest.mark.filterwarnings("ignore::semiring.errors.RoundingWarning")  # as the text is written, rightly
def test_a_star_that_is_nan_by_evaluation_diverges():
    text = {"add": "-log(exp(-x) + exp(-y))", "mul": "x + y", "zero": "inf", "one": 0, "star": "log(1 - exp(-x))"}
    gas = sr.Semiring("gas", **text)
    A = np.full((3, 3), np.inf)
    A[0, 1], A[1, 0] = 2.0, -1.0
    assert np.isfinite(closure(A, gas)[:2, :2]).all()
    A[0, 1] = 0.5
    with pytest.raises(DivergenceError):
        closure(A, gas)


def test_a_negative_cycle_has_its_names(rng):
    with pytest.raises(NegativeCycleError) as caught:
        sr.shortest_paths([[np.inf, 1.0], [-2.0, np.inf]], names=["a", "b"])
    assert [("a", "b")[v] for v in caught.value.cycle] == list(caught.value.names)
