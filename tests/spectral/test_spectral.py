"""Cycle means, eigenvectors, powers and residuation against enumeration of all cycles, and against their laws."""

from __future__ import annotations

import math
from fractions import Fraction

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp
from tiers import full

import semiring as sr
from semiring import spectral
from semiring.spectral.cycle_means import LeastRatios, read_edges

INF = np.inf
BEST = {"min_plus": min, "max_plus": max, "min_times": min, "max_times": max, "max_min": max, "min_max": min}
SUMS, BOTTLENECKS = ("min_plus", "max_plus"), ("max_min", "min_max")
SEEDS = full(lambda seed: seed >= 8, range(80))

pytestmark = pytest.mark.filterwarnings("ignore:entries of A:semiring.errors.SuspiciousWeightsWarning")


def zero_of(name):
    return float(sr.as_semiring(name).zero_for(np.dtype(np.float64)))


def random_matrix(rng, name, n):
    """Return weights with ties, of any sign, and few, some or most edges."""
    A = rng.integers(-4, 5, (n, n)).astype(float) if "times" not in name else 2.0 ** rng.integers(-3, 3, (n, n))
    A[rng.random((n, n)) < rng.choice([0.1, 0.4, 0.7])] = zero_of(name)
    return A


def edges_of(A, none):
    return [(int(i), int(j)) for i, j in zip(*np.nonzero(none != A), strict=True)]


def cycles_of(A, none):
    return [list(zip(c, [*c[1:], c[0]], strict=True)) for c in nx.simple_cycles(nx.DiGraph(edges_of(A, none)))]


def mean_of(name, A, cycle):
    weights = [A[edge] for edge in cycle]
    if name in SUMS:
        return Fraction(sum(map(int, weights)), len(weights))
    if name in BOTTLENECKS:
        return (min if name == "max_min" else max)(weights)
    return math.prod(weights) ** (1 / len(weights))


def as_edges(cycle):
    return list(zip(cycle, [*cycle[1:], *cycle[:1]], strict=True))


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", BEST)
def test_the_mean_of_the_best_cycle(name, seed):
    rng = np.random.default_rng([seed, len(name)])
    for n in (1, 2, 4, 6):
        A = random_matrix(rng, name, n)
        cycles = cycles_of(A, zero_of(name))
        found = spectral.cycle_mean(A, name)
        if not cycles:
            assert found == (zero_of(name), [])
            continue
        best = BEST[name](mean_of(name, A, cycle) for cycle in cycles)
        assert found.mean == pytest.approx(float(best), rel=1e-14)
        assert mean_of(name, A, as_edges(found.cycle)) == pytest.approx(best, rel=1e-14)
        if name in SUMS:
            assert spectral.cycle_mean(A, name, exact=True).mean == best
            assert spectral.cycle_mean(A.astype(np.float32) + 0.25, name).mean == float(best + Fraction(1, 4))


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", SUMS)
def test_the_ratio_of_the_best_cycle(name, seed):
    rng = np.random.default_rng([seed, 1])
    A, T = random_matrix(rng, name, 5), rng.integers(1, 4, (5, 5))
    ratios = [
        Fraction(sum(int(A[edge]) for edge in cycle), sum(int(T[edge]) for edge in cycle))
        for cycle in cycles_of(A, zero_of(name))
    ]
    for times in (T, sp.csr_array(T), T.astype(float)):
        found = spectral.cycle_ratio(A, times, name, exact=True)
        assert found.ratio == BEST[name](ratios, default=zero_of(name))
    halves = spectral.cycle_ratio(A, T / 2, name)
    assert halves.ratio == pytest.approx(2 * float(found.ratio), rel=1e-14)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", BEST)
def test_eigenvectors_and_the_critical_graph(name, seed):
    rng = np.random.default_rng([seed, 2])
    for n in (1, 3, 6):
        A = random_matrix(rng, name, n)
        found = spectral.eigen(A, name)
        cycles = cycles_of(A, zero_of(name))
        best = BEST[name]((mean_of(name, A, cycle) for cycle in cycles), default=zero_of(name))
        assert found.value == pytest.approx(float(best), rel=1e-14)
        critical = set(zip(*map(np.ndarray.tolist, found.critical_graph.nonzero()), strict=True))
        if name not in BOTTLENECKS:
            means = [(mean_of(name, A, cycle), cycle) for cycle in cycles]
            assert critical == {edge for mean, cycle in means if abs(mean - best) < 1e-12 for edge in cycle}
        graph, period, count = nx.DiGraph(sorted(critical)), 1, 0
        for component in nx.strongly_connected_components(graph):
            lengths = map(len, nx.simple_cycles(graph.subgraph(component)))
            period, count = math.lcm(period, math.gcd(*lengths)), count + 1
        assert (found.cyclicity, found.vectors.shape) == (period, (n, count))
        left = sr.matmul(A, found.vectors, name, check=False)
        by_value = {"max_min": np.minimum, "min_max": np.maximum, "max_times": np.multiply, "min_times": np.multiply}
        by_value = by_value.get(name, np.add)
        np.testing.assert_allclose(left, by_value(found.vectors, found.value), rtol=1e-14, atol=1e-13)


@pytest.mark.parametrize("seed", SEEDS)
def test_eigenvectors_of_a_whole_value_are_exact(seed):
    """Weights whose best cycle has a whole mean: A ⊗ v = λ ⊗ v holds bit by bit."""
    rng = np.random.default_rng([seed, 3])
    A = rng.integers(5, 50, (12, 12))
    A[3, 3] = 5  # a loop of the least weight
    found = spectral.eigen(A)
    np.testing.assert_array_equal(sr.matmul(A.astype(float), found.vectors, check=False), 5 + found.vectors)
    same = spectral.eigen(sp.csr_array(A))
    np.testing.assert_array_equal(same.vectors, found.vectors)


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("name", SUMS)
def test_eigenvectors_of_reducible_matrices(name, seed):
    """Components of whole numbers with edges of any sign and of fractions between them, and several critical cycles."""
    rng = np.random.default_rng([seed, 5])
    sign, n, count = (1 if name == "min_plus" else -1), 24, 4
    A, part = np.full((n, n), sign * INF), np.sort(rng.integers(0, count, n))
    inside, forward = part[:, None] == part, part[:, None] < part
    A[inside] = sign * rng.integers(2, 30, inside.sum())
    A[forward & (rng.random((n, n)) < 0.3)] = (rng.integers(-200, 200) if seed % 2 else 0) + rng.choice([0.5, -3.25, 7])
    loops = rng.permutation(n)[:3]
    A[loops, loops] = sign * 1.0  # the value
    found = spectral.eigen(A, name)
    assert (found.value, found.vectors.shape) == (sign, (n, 3))
    np.testing.assert_array_equal(sr.matmul(A, found.vectors, name, check=False), sign + found.vectors)


def dense_components(rng, n):
    """Return a matrix whose vertices are in three components, in no order; an edge leads to the next one or stays."""
    A, part = rng.integers(1, 1000, (n, n)).astype(float), rng.integers(0, 3, n)
    A[part[:, None] > part] = INF
    A[part[:, None] < part] -= 500
    return A


def test_results_of_dense_components_do_not_depend_on_threads(rng):
    A = dense_components(rng, 200)
    first, *others = [spectral.eigen(A, threads=threads) for threads in (1, 2, 8)]
    np.testing.assert_allclose(sr.matmul(A, first.vectors, check=False), first.value + first.vectors, rtol=1e-12)
    for other in others:
        assert (other.value, other.vectors.tobytes()) == (first.value, first.vectors.tobytes())


def test_circulant_matrices_have_closed_forms():
    for n in (5, 8, 12):
        A = np.full((n, n), -INF)
        A[np.arange(n), (np.arange(n) + 1) % n] = 3
        A[np.arange(n), (np.arange(n) + 4) % n] = 7
        found = spectral.eigen(A, "max_plus")
        length = n // math.gcd(n, 4)
        assert (found.value, found.cyclicity) == (7.0, length)
        assert found.vectors.shape == (n, math.gcd(n, 4))
        assert spectral.cycle_mean(A, "max_plus", exact=True).mean == 7


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", SUMS)
def test_the_powers_of_an_irreducible_matrix(name, seed):
    rng = np.random.default_rng([seed, 4])
    for n in (1, 3, 5):
        A = random_matrix(rng, name, n)
        A[np.arange(n), (np.arange(n) + 1) % n] = rng.integers(-4, 5, n)
        rate, transient, period = spectral.asymptotics(A, name, exact=True)
        powers = [None, A]
        while len(powers) < transient + period + 3:
            powers.append(sr.matmul(powers[-1], A, name, check=False))
        grows = [
            k for k in range(1, transient + 3) if np.allclose(powers[k + period], powers[k] + float(rate * period))
        ]
        assert grows == [transient, transient + 1, transient + 2]


def test_powers_that_are_refused():
    with pytest.raises(sr.AlgebraError, match="2 strong components"):
        spectral.asymptotics([[1, 2], [INF, 3]])
    with pytest.raises(sr.AlgebraError, match="no cycle"):
        spectral.asymptotics([[INF, 3], [INF, INF]])
    with pytest.raises(sr.DivergenceError, match="max_steps"):
        spectral.asymptotics([[0, 1000], [1, 1]], max_steps=4)
    with pytest.raises(sr.AlgebraError, match="multiply them by a common denominator"):
        spectral.asymptotics([[0.5]])
    with pytest.raises(sr.AlgebraError, match="max_min"):
        spectral.asymptotics([[1.0]], "max_min")


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "int64", "int16", "int8"])
@pytest.mark.parametrize("name", SUMS)
def test_the_residual_is_the_best_solution(name, dtype, rng):
    """Each entry is the best difference, for numbers of any size, or refused because it does not fit the dtype."""
    none, worst, lost = (
        sr.as_semiring(name).zero_for(np.dtype(dtype)),
        *((min, -INF) if name == "max_plus" else (max, INF)),
    )
    top = -none if "float" in dtype else -int(none) - 1
    largest = 2**10 if "float" in dtype else int(np.iinfo(dtype).max)

    def number(x):
        return lost if x == none else -lost if x == top else x.item()

    for trial in range(60):
        (m, k, n), scale = rng.integers(trial % 10 > 0, 6, 3), rng.choice([5, largest // 8, largest // 2, largest - 1])
        A, B = (rng.integers(-scale, scale + 1, shape).astype(dtype) for shape in ((m, k), (m, n)))
        for X in (A, B):
            X[rng.random(X.shape) < 0.6 * rng.random() * (trial % 3)] = none
            X[rng.random(X.shape) < ("float" in dtype) * 0.1] = top
        expected = [[-lost for j in range(n)] for i in range(k)]
        for r, j in np.ndindex(k, n):
            pairs = [(number(B[i, j]), number(A[i, r])) for i in range(m)]
            expected[r][j] = worst((b - a for b, a in pairs if a != lost and not (a == b == -lost)), default=-lost)
        try:
            X = spectral.residuate(np.asfortranarray(A) if trial % 2 else A, B[:, 0] if n == 1 else B, name)
        except sr.IntegerOverflowError:
            numbers = [abs(x) for row in expected for x in row if abs(x) < INF]
            assert dtype == "int64" or max(numbers) >= largest
            continue
        assert (X.shape, X.dtype) == ((k,) if n == 1 else (k, n), A.dtype)
        assert [[number(x) for x in row] for row in X.reshape(k, n)] == expected


@pytest.mark.parametrize("dtype", ["float64", "float32", "int64", "int16"])
@pytest.mark.parametrize("name", SUMS)
def test_the_residual_shows_whether_an_equation_has_a_solution(name, dtype, rng):
    best = np.max if name == "max_plus" else np.min
    for shape in [(5, 4)] * 40 + [(1, 1), (3, 7)]:
        A = (rng.integers(0, 3000, shape) / (100 if "float" in dtype else 1)).astype(dtype)
        A[rng.random(shape) < 0.2] = sr.as_semiring(name).zero_for(A.dtype)
        b = sr.matmul(A, (rng.random((shape[1], 2)) * 900).astype(dtype), name)
        found = spectral.solve_inequality(A, b, name)
        assert found.is_equal
        assert spectral.solve_inequality(A, b[:, 0], name).x.shape == (shape[1],)
        A, b = rng.integers(0, 4, shape).astype(dtype), rng.integers(0, 4, shape[0]).astype(dtype)
        found = spectral.solve_inequality(A, b, name)
        assert found.is_equal == np.array_equal(best(A + found.x, axis=1), b)


def test_residuals_of_frames_have_their_labels():
    import pandas as pd

    A = pd.DataFrame([[3.0, 1], [2, 4]], index=["x", "y"], columns=["a", "b"])
    b = pd.Series([7.0, 5], index=["y", "x"])
    assert spectral.residuate(A, b, "max_plus").to_dict() == {"a": 2, "b": 3}
    found = spectral.solve_inequality(A, b.to_frame(), "max_plus")
    assert (found.x.to_numpy().ravel().tolist(), list(found.x.index), found.is_equal) == ([2, 3], ["a", "b"], True)


def test_no_solution_is_told():
    assert not spectral.solve_inequality([[0.0, 0.0], [0.0, 0.0]], [1.0, 2.0], "max_plus").is_equal
    with pytest.raises(sr.ShapeError, match=r"A is \(2, 2\) and B is \(3,\)"):
        spectral.residuate([[0, 1], [2, 3]], [1, 2, 3], "max_plus")
    with pytest.raises(sr.DomainError, match=r"NaN|nan"):
        spectral.residuate([[0.0, np.nan]], [1.0], "max_plus")
    A = np.zeros((600, 300))
    A[599, 3] = np.nan
    with pytest.raises(sr.DomainError, match=r"A\[599, 3\]"):  # of a piece of the rows
        spectral.residuate(A, A[:, 0], threads=2)
    with pytest.raises(sr.IntegerOverflowError, match="int16"):
        spectral.residuate(np.array([[-30000]], np.int16), np.array([30000], np.int16), "max_plus")
    with pytest.raises(sr.AlgebraError, match="plus_times"):
        spectral.residuate([[1.0]], [1.0], "plus_times")


def test_names_files_and_sparse_matrices(tmp_path):
    graph = nx.DiGraph()
    graph.add_weighted_edges_from([("a", "b", 3), ("b", "c", 4), ("c", "a", 2), ("b", "a", 6)])
    assert spectral.cycle_mean(graph) == (3.0, ["a", "b", "c"])
    sr.write(tmp_path / "edges.csv", sr.as_network(graph))
    assert spectral.cycle_mean(tmp_path / "edges.csv").cycle == ["a", "b", "c"]
    assert spectral.eigen(graph).critical_graph.nnz == 3
    stored_zero = sp.csr_array((np.array([0, 2]), ([0, 1], [1, 0])), shape=(2, 2))
    assert spectral.cycle_mean(stored_zero) == (1.0, [0, 1])


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: spectral.cycle_mean([[1.0]], "plus_times"), sr.AlgebraError, "no mean in plus_times: use min_plus"),
        (lambda: spectral.cycle_mean([[0.5]], exact=True), sr.AlgebraError, "not all whole numbers"),
        (lambda: spectral.cycle_mean([[2.0]], "max_times", exact=True), sr.AlgebraError, "of min_plus and max_plus"),
        (lambda: spectral.cycle_mean([[1, 2]]), sr.ShapeError, "square"),
        (lambda: spectral.cycle_mean([[np.nan]]), sr.DomainError, "nan"),
        (lambda: spectral.cycle_mean(np.array([[2**61, 1], [1, 1]])), sr.IntegerOverflowError, "common factor"),
        (lambda: spectral.cycle_ratio([[1]], [[0]]), sr.DomainError, "the cycle 0 → 0 takes no time"),
        (lambda: spectral.cycle_ratio([[5, 1], [1, 5]], [[1, 0], [0, 1]]), sr.DomainError, "takes no time"),
        (lambda: spectral.cycle_ratio([[1]], [[-1]]), sr.DomainError, r"T\[0, 0\] is -1: a time is finite and"),
        (lambda: spectral.cycle_ratio([[1]], [[1, 2]]), sr.ShapeError, "T is"),
        (lambda: spectral.cycle_ratio([[1.0]], [[1]], "max_min"), sr.AlgebraError, "weights that add up"),
        (lambda: spectral.eigen([[2.0]], "plus_times"), sr.AlgebraError, "not computed in plus_times: use min_plus"),
        (lambda: spectral.residuate([[2.0]], [1.0], "max_times"), sr.AlgebraError, "logarithms"),
        (lambda: spectral.cycle_mean([[1]], device="cuda"), ValueError, "device='cpu'"),
        (lambda: spectral.cycle_mean([[1]], threads=0), ValueError, "threads"),
    ],
)
def test_what_is_refused(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_empty_graphs_and_whole_floats_beyond_exact_values():
    assert spectral.cycle_mean(np.empty((0, 0))) == (INF, [])
    found = spectral.eigen(np.full((3, 3), INF))
    assert (found.value, found.vectors.shape, found.critical_graph.nnz, found.cyclicity) == (INF, (3, 0), 0, 1)
    assert spectral.cycle_mean([[2.0**61, 2.0**60], [2.0**60, 2.0**61]]) == (2.0**60, [0, 1])


@pytest.mark.full
@pytest.mark.parametrize("seed", range(20))
def test_the_values_prove_the_mean_of_large_graphs(seed):
    """Reduced costs of at least 0 under the values of the policy prove that no cycle is better."""
    rng = np.random.default_rng(seed)
    if seed < 5:  # a dense matrix, whose components have edges of any sign between them
        n, A = 300, dense_components(rng, 300)
    else:
        n, m = int(rng.integers(20, 3000)), int(rng.integers(20, 12000))
        weights = rng.integers(-50, 50, m) if seed % 2 else rng.standard_normal(m)
        A = sp.coo_array((weights, (rng.integers(0, n, m), rng.integers(0, n, m))), shape=(n, n)).tocsr()
    edges = read_edges(A, sr.min_plus, spectral.cycle_means.Reading(), False, None, None)
    found = LeastRatios.of(edges, sr.min_plus, np.ones(1, np.int64), 2)
    for component in np.flatnonzero(found.ratios[:, 1] > 0):
        p, q = found.ratios[component]
        inside = slice(*found.starts[found.parts.bounds[component : component + 2]])
        tails = np.repeat(np.arange(n), np.diff(found.starts))[inside]
        reduced = q * found.costs[inside] - p + found.values[found.heads[inside]] - found.values[tails]
        assert reduced.min() >= -found.error_bound(component)
    if found.component < 0:
        return
    cycle = found.cycle()
    assert found.value(cycle) == pytest.approx(np.mean([A[edge] for edge in as_edges(cycle)]), rel=1e-12)
