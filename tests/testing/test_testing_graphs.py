"""Test the graph generators: the number of edges, their distribution, their weights, and their traps."""

from __future__ import annotations

import numpy as np
import oracles
import pytest

import semiring as sr
from semiring.errors import DomainError, ShapeError
from semiring.testing import (
    cycle_graph,
    dag,
    grid_graph,
    height_difference_grid,
    path_graph,
    planted_negative_cycle,
    rmat_graph,
    uniform_graph,
    zero_weight_cycles,
)

INF = np.inf


def edge_count(A):
    return int(np.isfinite(A).sum())


@pytest.mark.parametrize("edges_per_vertex", [0, 1, 6, 60, 99, 2.5])
def test_uniform_graph_has_the_exact_number_of_edges(edges_per_vertex):
    A = uniform_graph(100, edges_per_vertex, seed=3)
    assert A.shape == (100, 100)
    assert A.dtype == np.float64
    assert edge_count(A) == round(100 * edges_per_vertex)
    assert np.isinf(A.diagonal()).all()
    assert A[np.isfinite(A)].min(initial=1) >= 1
    assert A[np.isfinite(A)].max(initial=1) <= 1000


@pytest.mark.parametrize("n", [0, 1, 2, 3])
def test_tiny_graphs(n):
    assert edge_count(uniform_graph(n, max(n - 1, 0))) == n * (n - 1)
    assert edge_count(dag(n, (n - 1) / 2 if n else 0)) == n * (n - 1) // 2
    assert edge_count(path_graph(n)) == max(n - 1, 0)
    assert edge_count(cycle_graph(n)) == n
    assert grid_graph(0, n).shape == (0, 0)


def test_every_edge_of_a_uniform_graph_is_equally_likely(rng):
    trials, counts = 2000, np.zeros((5, 5))
    for _ in range(trials):
        counts += np.isfinite(uniform_graph(5, 2, seed=rng))
    off = counts[~np.eye(5, dtype=bool)]
    spread = np.sqrt(trials * 0.25)  # of a binomial with p = ½
    assert abs(off - trials / 2).max() < 5 * spread
    assert counts.diagonal().max() == 0


def test_the_seed_decides():
    assert np.array_equal(uniform_graph(30, 4, seed=1), uniform_graph(30, 4, seed=1))
    assert not np.array_equal(uniform_graph(30, 4, seed=1), uniform_graph(30, 4, seed=2))
    generator = np.random.default_rng(1)
    assert np.array_equal(uniform_graph(30, 4, seed=generator), uniform_graph(30, 4, seed=1))
    assert not np.array_equal(uniform_graph(30, 4, seed=generator), uniform_graph(30, 4, seed=1))


def test_too_many_edges_are_refused():
    with pytest.raises(ShapeError, match=r"20 edges .* room for 12"):
        uniform_graph(4, 5)
    with pytest.raises(ShapeError, match="room for 6"):
        dag(4, 2)
    with pytest.raises(ShapeError, match="room for 60"):
        rmat_graph(4, 8)


def test_a_sparse_graph_is_the_dense_one(rng):
    dense = uniform_graph(50, 6, seed=4, weights=(0, 5), integer=True)
    sparse = uniform_graph(50, 6, seed=4, weights=(0, 5), integer=True, sparse=True)
    assert sparse.format == "csr"
    assert sparse.nnz == 300
    assert (sparse.data == 0).any(), "an explicit 0 is an edge"
    rebuilt = np.full((50, 50), INF)
    coo = sparse.tocoo()
    rebuilt[coo.row, coo.col] = coo.data
    np.testing.assert_array_equal(rebuilt, dense)


def test_a_large_sparse_graph_with_600_edges_a_vertex():
    A = uniform_graph(2000, 600, sparse=True, dtype="float32", seed=1)
    assert A.nnz == 1_200_000
    assert A.dtype == np.float32
    A.sum_duplicates()
    assert A.nnz == 1_200_000


@pytest.mark.parametrize("name", sr.CATALOGUE)
def test_weights_belong_to_every_semiring_and_dtype(name):
    semiring = sr.CATALOGUE[name]
    for dtype in semiring.dtypes:
        A = uniform_graph(20, 3, semiring=semiring, dtype=dtype, seed=5)
        present = oracles.zero(name, dtype) != A
        assert A.dtype == dtype
        assert present.sum() == 60
        if name != "boolean":
            assert semiring.domain.contains(A[present].astype(float)).all()


def test_default_weights_never_improve_a_cycle():
    assert uniform_graph(9, 3, semiring="max_plus")[uniform_graph(9, 3, semiring="max_plus") > -INF].max() < 0
    assert uniform_graph(9, 3, semiring="max_times").max() <= 1
    held = uniform_graph(9, 3, semiring="min_times")
    assert held.min() >= 1


def test_weights_are_whole_numbers_and_include_both_ends():
    A = uniform_graph(60, 50, weights=(-2, 3), integer=True, seed=1)
    assert sorted(set(A[np.isfinite(A)])) == [-2, -1, 0, 1, 2, 3]
    B = uniform_graph(60, 50, weights=(0, 3), integer=True, semiring="max_times", seed=1)
    assert sorted(set(B.ravel())) == [0, 1, 2, 3], "0 is no edge in max_times, and never a weight"
    assert (B != 0).sum() == 3000


@pytest.mark.parametrize("weights", [(3, 2), (-1, 1), (0, 0)])
def test_bad_weights_are_refused(weights):
    with pytest.raises(DomainError, match="weights"):
        uniform_graph(5, 2, weights=weights, semiring="max_times")


@pytest.mark.parametrize("shuffle", [True, False])
def test_rmat_has_distinct_edges_and_skewed_degrees(shuffle):
    A = rmat_graph(8, 8, seed=2, shuffle=shuffle)
    assert A.shape == (256, 256)
    assert edge_count(A) == 2048
    assert np.isinf(A.diagonal()).all()
    degrees = np.sort(np.isfinite(A).sum(1))[::-1]
    assert degrees[0] > 3 * 8, "the busiest vertex has several times the average"
    assert degrees[:26].sum() > 2048 / 4, "a tenth of the vertices has more than a quarter of the edges"
    if not shuffle:
        halves = np.isfinite(A[:128, :128]).sum() / 2048
        assert 0.45 < halves < 0.65, "quadrant a holds about 0.57 of the edges"


def test_rmat_with_equal_quadrants_is_nearly_uniform():
    degrees = np.isfinite(rmat_graph(8, 8, a=0.25, b=0.25, c=0.25, d=0.25, seed=2)).sum(1)
    assert degrees.max() < 3 * 8
    for a, d in ((1.0, 0.0), (0.5, 0.5)):  # self-loops alone, which are no edges
        with pytest.raises(DomainError, match="hardly 8 different edges"):
            rmat_graph(3, 1, a=a, b=0.0, c=0.0, d=d)
    with pytest.raises(DomainError, match="sum 1"):
        rmat_graph(4, 1, a=float("nan"))
    with pytest.raises(DomainError, match="sum 1"):
        rmat_graph(4, 1, a=0.9)


def test_grid_joins_neighbours_both_ways():
    A = grid_graph(2, 3, weights=(5, 5))
    joined = {(0, 1), (1, 2), (3, 4), (4, 5), (0, 3), (1, 4), (2, 5)}
    expected = np.full((6, 6), INF)
    for u, v in joined:
        expected[u, v] = expected[v, u] = 5
    np.testing.assert_array_equal(A, expected)


def test_height_differences_sum_to_zero_round_every_face():
    A, heights = height_difference_grid(4, 5, seed=1)
    present = np.isfinite(A)
    np.testing.assert_array_equal(present, np.isfinite(grid_graph(4, 5)))
    i, j = np.nonzero(present)
    np.testing.assert_array_equal(A[i, j], heights[j] - heights[i])
    assert (A[present] < 0).any()


def test_the_10_by_10_height_grid_has_a_cycle_that_rounding_makes_negative():
    """Cycles of the grid, added up exactly, may be below zero by less than the rounding of a weight: the trap."""
    A, _ = height_difference_grid(10, 10, seed=0)
    cycle = oracles.negative_cycle(A)
    assert cycle
    assert -1e-14 < oracles.cycle_weight(A, cycle) < 0


def test_paths_and_cycles():
    assert np.argwhere(np.isfinite(path_graph(4))).tolist() == [[0, 1], [1, 2], [2, 3]]
    assert np.argwhere(np.isfinite(cycle_graph(3))).tolist() == [[0, 1], [1, 2], [2, 0]]
    assert np.isfinite(cycle_graph(1))[0, 0]


@pytest.mark.parametrize("n", [2, 3, 7, 40])
def test_a_dag_has_no_cycle_and_the_exact_number_of_edges(n):
    for count in {1, n, n * (n - 1) // 2} & set(range(n * (n - 1) // 2 + 1)):
        A = dag(n, count / n, seed=n)
        assert edge_count(A) == count
        closed = oracles.reachable(np.isfinite(A), reflexive=False)
        assert not closed.diagonal().any()
        upper = dag(n, count / n, seed=n, shuffle=False)
        assert np.isinf(upper[np.tril_indices(n)]).all()
        assert edge_count(upper) == count


@pytest.mark.parametrize(("n", "length"), [(1, 1), (2, 2), (5, 1), (20, 3), (60, 60), (60, 17)])
def test_the_planted_cycle_is_the_only_negative_one(n, length):
    A, cycle = planted_negative_cycle(n, length, seed=length)
    assert len(cycle) == len(set(cycle)) == length
    assert oracles.cycle_weight(A, list(cycle)) == -1
    found = oracles.negative_cycle(A)
    assert sorted(found) == sorted(cycle)
    for k in range(length):  # without any one of its edges, none is left
        B = A.copy()
        B[cycle[k], cycle[(k + 1) % length]] = INF
        assert oracles.negative_cycle(B) == []
        if k == 3:
            break
    assert n < 10 or (A < 0).sum() > length, "the cycle hides among other negative weights"


def test_a_planted_cycle_with_a_large_total():
    A, cycle = planted_negative_cycle(30, 4, total=-50, weights=(50, 60), dtype="int32", seed=1)
    assert A.dtype == np.int32
    assert oracles.cycle_weight(A, list(cycle)) == -50
    with pytest.raises(DomainError, match="at least -total"):
        planted_negative_cycle(30, 4, total=-50)
    with pytest.raises(ShapeError, match="does not fit"):
        planted_negative_cycle(3, 4)


@pytest.mark.parametrize(("n", "length"), [(1, 1), (6, 2), (20, 5), (23, 23)])
def test_zero_weight_cycles_are_zero_and_none_is_negative(n, length):
    A = zero_weight_cycles(n, length, seed=1)
    assert oracles.negative_cycle(A) == []
    if n > 1:
        D = oracles.exact_distances(A)
        mates = [(D[i, j] + D[j, i] == 0) and i != j for i in range(n) for j in range(n)]
        assert np.array(mates).reshape(n, n).any(1).all(), "every vertex lies on a cycle of weight zero"


def test_zero_weight_cycles_with_rounded_weights():
    A = zero_weight_cycles(60, 6, integer=False, seed=3)
    cycle = oracles.negative_cycle(A)
    assert cycle
    assert -1e-10 < oracles.cycle_weight(A, cycle) < 0
