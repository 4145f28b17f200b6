"""Test factors of sparse graphs against the dense closure, Dijkstra and Bellman-Ford, in every semiring and dtype."""

from __future__ import annotations

import itertools
import sys
from fractions import Fraction
from importlib.util import find_spec

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.sparse.csgraph import bellman_ford, dijkstra
from tiers import full, quick

import semiring as sr
from semiring.sparse import symbolic_factor as analysis_module
from semiring.sparse.symbolic_factor import ORDERINGS

#: 2 × 2 matrices of truths in four bits: a ⊗ that does not commute.
MATRICES = sr.Semiring(
    "matrices",
    add="x | y",
    mul=(
        "where((x & 8) == 8, y & 12, 0) | where((x & 4) == 4, where((y & 2) == 2, 8, 0) | where((y & 1) == 1, 4, 0), 0)"
        " | where((x & 2) == 2, where((y & 8) == 8, 2, 0) | where((y & 4) == 4, 1, 0), 0)"
        " | where((x & 1) == 1, y & 3, 0)"
    ),
    zero=0,
    one=9,
    star="9 | x",
    domain=(0, 15),
    dtypes=("uint8",),
)

HERE = [name for name in ORDERINGS if name != "metis" or find_spec("pymetis") is not None]
QUICK = [("min_plus", "float64")]
FULL = [(MATRICES, "uint8"), ("min_plus", "int32"), ("boolean", "bool"), ("plus_times", "float64")]
EXHAUSTIVE = [
    *(("min_plus", "int16"), ("min_plus", "float32"), ("min_plus", "int64"), ("log_plus", "float64")),
    *(("max_plus", "float32"), ("max_min", "int32"), ("max_min", "uint8"), ("max_times", "float64")),
    *(("min_times", "float32"), ("min_max", "float64"), ("xor_and", "int32")),
]
CASES = [
    pytest.param(*case, id=f"{getattr(case[0], 'name', case[0])}-{case[1]}", marks=marks)
    for cases, marks in ((QUICK, ()), (FULL, pytest.mark.full), (EXHAUSTIVE, pytest.mark.exhaustive))
    for case in cases
]


def weights(rng, name, dtype, count):
    """Draw weights for which closures mostly exist, whole numbers where only sums and comparisons are made."""
    if dtype == "bool":
        return np.ones(count, bool)
    if name == "plus_times":
        return rng.uniform(-0.05, 0.1, count)
    if name == "log_plus":
        return rng.uniform(-6, -3, count)
    if name in ("max_times", "lukasiewicz"):
        return rng.random(count)
    if name == "min_times":
        return 1 + rng.random(count)
    if name == "matrices":
        return rng.integers(0, 16, count)
    if name == "xor_and":
        return rng.integers(0, 100, count)
    sign = -1 if name == "max_plus" else 1
    low = 0 if dtype == "uint8" or rng.random() < 0.5 else -4
    return sign * rng.integers(low, 60, count)


def random_matrix(rng, semiring, dtype, n):
    """Return a dense matrix of few edges, loops among them, half of the time symmetric."""
    name = getattr(semiring, "name", semiring)
    zero = sr.as_semiring(semiring).zero_for(np.dtype(dtype))
    A = np.full((n, n), zero, dtype)
    count = int(rng.integers(0, 4 * n + 1)) if n else 0
    tails, heads = rng.integers(0, max(n, 1), (2, count))
    A[tails, heads] = weights(rng, name, dtype, count)
    return np.where(zero != A, A, A.T) if rng.random() < 0.4 else A


def agree(x, y, exact):
    assert x.shape == y.shape
    if exact:
        np.testing.assert_array_equal(x, y)
    else:
        np.testing.assert_allclose(x, y, rtol=1e-5 if x.dtype == np.float32 else 1e-9, atol=1e-11)


@pytest.mark.filterwarnings("ignore::semiring.errors.SuspiciousWeightsWarning")
@pytest.mark.full
@pytest.mark.parametrize(("semiring", "dtype"), CASES)
def test_all_questions_against_the_dense_closure(rng, semiring, dtype):
    algebra = sr.as_semiring(semiring)
    exact = dtype not in ("float64", "float32") or algebra.name in ("min_plus", "max_plus", "max_min", "min_max")
    for case, n in itertools.product(range(8), (0, 1, 2, 3, 7, 16, 33, 70)):
        A = random_matrix(rng, semiring, dtype, n)
        try:
            D = sr.closure(A, semiring)
        except sr.DivergenceError:
            if algebra.name != "xor_and":  # there the order decides whether all stars exist
                with pytest.raises(sr.DivergenceError):
                    sr.factor(A, semiring).closure()
            continue
        try:
            F = sr.factor(A, semiring, ordering=HERE[case % len(HERE)])
        except sr.DivergenceError:
            assert algebra.name == "xor_and"
            continue
        assert len(F) == n
        agree(F.closure(), D, exact)
        assert F.closure().dtype == D.dtype
        if not n:
            continue
        sources, targets = rng.integers(0, n, 5), rng.integers(0, n, 9)
        agree(F.table(sources, targets), D[np.ix_(sources, targets)], exact)
        agree(F.table(sources[:1], targets[:1]), D[np.ix_(sources[:1], targets[:1])], exact)
        agree(F.table(sources), D[sources], exact)
        agree(F.table(sources[:1]), D[sources[:1]], exact)
        b = A[:, : max(1, n // 3)].copy()
        agree(F.solve(b), sr.matmul(D, b, semiring), exact)
        agree(F.solve(b[:, 0]), sr.matmul(D, b[:, :1], semiring)[:, 0], exact)
        agree(F.solve(b, transpose=True), sr.matmul(b.T, D, semiring).T, exact)
        agree(F.solve(b[:, 0], transpose=True), sr.matmul(b[:, :1].T, D, semiring)[0], exact)


def grid(rng, side, dtype="float64", high=1000, directed=False):
    """Return a grid with diagonals, as a sparse matrix."""
    at = np.arange(side * side).reshape(side, side)
    tails = np.concatenate([at[:, :-1].ravel(), at[:-1].ravel(), at[:-1, :-1].ravel()])
    heads = np.concatenate([at[:, 1:].ravel(), at[1:].ravel(), at[1:, 1:].ravel()])
    there = rng.integers(1, high, tails.size)
    back = rng.integers(1, high, tails.size) if directed else there
    edges = np.concatenate([there, back]).astype(dtype), (np.r_[tails, heads], np.r_[heads, tails])
    return sp.coo_array(edges, shape=(side * side, side * side)).tocsr()


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("ordering", ["minimum_degree", "metis", "natural"])
def test_a_grid_against_dijkstra(rng, directed, ordering):
    if ordering == "metis":
        pytest.importorskip("pymetis", reason="pymetis is not installed: pip install '.[sparse]'")
    A = grid(rng, 30, directed=directed)
    F = sr.factor(A, ordering=ordering)
    assert F.ordering == ordering
    assert F.symmetric is not directed
    sources, targets = rng.integers(0, 900, 40), rng.integers(0, 900, 70)
    D = dijkstra(A.astype(float), indices=sources)
    assert np.array_equal(F.table(sources), D)
    assert np.array_equal(F.table(sources, targets), D[:, targets])
    assert np.array_equal(F.table(sources[:1])[0], D[0])


@pytest.mark.full
@pytest.mark.parametrize("directed", [False, True])
def test_large_fronts_and_many_tasks_give_the_same(rng, directed, monkeypatch):
    """The kernels of products take large fronts, and supernodes above many small subtrees go one by one."""
    A = grid(rng, 24, directed=directed)
    expected = dijkstra(A.astype(float))
    found = {}
    for large, task in ((4_000_000, 1_000_000), (2_000, 1_000_000), (2_000, 3_000), (4_000_000, 3_000)):
        monkeypatch.setattr(analysis_module, "_MIN_LARGE_PAIRS", large)
        monkeypatch.setattr(analysis_module, "_MIN_LARGE_PIVOTS", 4)
        monkeypatch.setattr(analysis_module, "_MIN_TASK_PAIRS", task)
        for threads in (1, 3):
            F = sr.factor(A, threads=threads)
            assert np.array_equal(F.closure(), expected)
            noisy = sr.factor(A.astype(np.float64) * np.pi, threads=threads)
            found.setdefault(large, []).append((noisy.table([5]), noisy.table([5, 7], [9, 400]), noisy.closure()))
    for results in found.values():  # bits depend on the pattern, not on tasks or threads
        for one in results[1:]:
            assert all(np.array_equal(x, y) for x, y in zip(one, results[0], strict=True))


@pytest.mark.full
def test_sums_over_all_walks_do_not_count_any_twice(rng):
    """The sum over all walks of a matrix of small entries is (I - A)⁻¹, for a ⊕ that adds."""
    A = sp.random_array((150, 150), density=0.03, rng=rng, format="csr")
    A.data *= 0.3
    expected = np.linalg.inv(np.eye(150) - A.toarray())
    for ordering in ("natural", "minimum_degree"):
        F = sr.factor(A, "plus_times", ordering=ordering)
        np.testing.assert_allclose(F.closure(), expected, rtol=1e-10, atol=1e-12)
        b = rng.random((150, 4))
        np.testing.assert_allclose(F.solve(b), expected @ b, rtol=1e-10)
        np.testing.assert_allclose(F.solve(b, transpose=True), expected.T @ b, rtol=1e-10)


# ------------------------------------------------------------------------------------------------------------- signs


@pytest.mark.full
@pytest.mark.parametrize("dtype", full(lambda dtype: dtype == "float64", ["float64", "float32"]))
def test_weights_of_both_signs_against_bellman_ford(rng, dtype):
    for n in (10, 60, 200):
        heights = rng.uniform(-50, 50, n)
        A = sp.random_array((n, n), density=min(1, 4 / n), rng=rng, format="coo")
        A = sp.coo_array((A.data + heights[A.col] - heights[A.row] + 1e-3, (A.row, A.col)), shape=(n, n)).tocsr()
        A = A.astype(dtype)
        expected = bellman_ford(A.astype(float), indices=range(n))
        found = sr.factor(A).closure()
        assert np.array_equal(np.isinf(found), np.isinf(expected))
        finite = np.isfinite(expected)
        assert np.abs(found[finite] - expected[finite]).max() < (1e-10 if dtype == "float64" else 1e-3)
        assert np.array_equal(sr.factor(-A, "max_plus").closure(), -found)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("side", [5, 12, 40])
def test_height_differences_are_no_negative_cycles(rng, dtype, side):
    heights = (rng.random(side * side) * np.pi).astype(dtype)
    A = grid(rng, side).tocoo()
    A = sp.coo_array((heights[A.col] - heights[A.row], (A.row, A.col)), shape=A.shape)
    F = sr.factor(A)
    expected = heights.astype(float) - heights.astype(float)[:, np.newaxis]
    found = F.closure()
    assert np.abs(found - expected).max() < 300 * np.finfo(dtype).eps
    assert (found.diagonal() == 0).all()
    vertices = np.arange(0, side * side, 7)
    assert np.abs(F.table(vertices, vertices) - found[np.ix_(vertices, vertices)]).max() < 300 * np.finfo(dtype).eps
    b = np.full(side * side, np.inf, dtype)
    b[3], b[5] = 1, 2
    assert np.abs(F.solve(b) - np.minimum(found[:, 3] + 1, found[:, 5] + 2)).max() < 300 * np.finfo(dtype).eps


@pytest.mark.parametrize(
    "dtype",
    quick(
        lambda dtype: dtype == "float64",
        full(lambda dtype: dtype in ("float64", "int32"), ["float32", "float64", "int16", "int32", "int64"]),
    ),
)
@pytest.mark.parametrize(
    "semiring", quick(lambda name: name == "min_plus", full(lambda name: name == "min_plus", ["min_plus", "max_plus"]))
)
def test_a_negative_cycle_is_named(rng, semiring, dtype):
    A = grid(rng, 12, dtype=dtype, high=50).tocoo()
    cycle = [40, 41, 54, 53, 52]  # 40 → 41 → 54 ↘, back along a row, up
    A = A.tolil()
    for i, j in zip(cycle, [*cycle[1:], cycle[0]], strict=True):
        A[i, j] = 2
    A[52, 40] = -9
    if dtype == "float32":
        A = (A * np.float32(0.1)).astype(np.float32)
    A = A.tocsr() if semiring == "min_plus" else -A.tocsr()
    with pytest.raises(sr.NegativeCycleError) as caught:
        sr.factor(A, semiring).closure()
    vertices = caught.value.cycle
    total = sum(float(A[i, j]) for i, j in zip(vertices, [*vertices[1:], vertices[0]], strict=True))
    assert total < 0 if semiring == "min_plus" else total > 0


def test_a_loop_below_zero_is_a_negative_cycle():
    inf = np.inf
    with pytest.raises(sr.NegativeCycleError, match=r"by name, it is b → b"):
        sr.factor(sr.Network(np.array([[inf, 1], [inf, -0.25]]), names=("a", "b"))).closure()
    F = sr.factor([[5.0, 1.0], [inf, 0.0]])
    assert F.closure().tolist() == [[0, 1], [inf, 0]]


def exact_distances(n, edges):
    """Compute distances by Bellman–Ford in fractions. The graph has no negative cycles."""
    D = np.full((n, n), None)
    for source, row in enumerate(D):
        row[source] = Fraction(0)
        for _ in range(n):
            for i, j, weight in edges:
                if row[i] is not None and (row[j] is None or row[i] + weight < row[j]):
                    row[j] = row[i] + weight
    return D


@pytest.mark.full
@pytest.mark.parametrize("semiring", ["min_plus", "max_plus"])
@pytest.mark.parametrize("n", [3, 9, 30])
def test_very_different_weights_on_cycles_are_summed_exactly(rng, semiring, n):
    h = rng.integers(-(2**50), 2**50, n) / 2**8
    h[rng.random(n) < 0.3], h[2], h[:2] = 1.5, 2.0**42, 0
    i, j = np.arange(3 * n) % n, np.concatenate([(np.arange(n) + 1) % n, rng.integers(0, n, 2 * n)])
    i, j = i[i != j], j[i != j]
    weights = rng.integers(1, 2**10, i.size) / 2**8 + h[j] - h[i]  # exact: cycles are of some units of 2⁻⁸
    weights[(i == 0) & (j == 1)] = 2.0**-8
    sign = 1 if semiring == "min_plus" else -1
    A = np.full((n, n), sign * np.inf)
    A[i, j] = sign * weights
    edges = [(a, b, Fraction(sign * A[a, b])) for a, b in zip(i.tolist(), j.tolist(), strict=True)]
    F, D = sr.factor(A, semiring), exact_distances(n, edges)
    assert F._exact is not None
    expected = sign * np.array([[np.inf if d is None else float(d) for d in row] for row in D])
    np.testing.assert_allclose(F.closure(), expected, rtol=n * 2.0**-32)
    some, others = rng.integers(0, n, (2, 3))
    np.testing.assert_allclose(F.table(some, others), expected[np.ix_(some, others)], rtol=n * 2.0**-32)
    np.testing.assert_allclose(F.rows(reduce="eccentricity"), expected.max(axis=1), rtol=n * 2.0**-32)
    for transposed in (False, True):
        b = np.full((n, 2), sign * np.inf)
        b[others[0], 0], b[others[1], 1] = 0, 2.0**-40
        from_them = expected.T if not transposed else expected
        found = F.solve(b, transpose=transposed)
        np.testing.assert_array_equal(found[:, 0], from_them[others[0]])
        lengths = [None if d is None else d + sign * Fraction(1, 2**40) for d in (D if transposed else D.T)[others[1]]]
        np.testing.assert_array_equal(found[:, 1], [sign * (np.inf if d is None else float(d)) for d in lengths])
    path = F.path(some[0], others[0])
    assert sum((Fraction(A[pair]) for pair in itertools.pairwise(path)), Fraction(0)) == sign * D[some[0], others[0]]
    with pytest.raises(sr.DomainError, match="b has an entry of unbounded gain"):
        F.solve(np.full(n, -sign * np.inf))
    A[0, 1], A[1, 0] = sign * 2.0**40, -sign * (2.0**40 + 64)
    with pytest.raises(sr.NegativeCycleError):
        sr.factor(A, semiring).closure()


def test_exact_potentials_that_lead_out_of_the_range_of_floats_are_refused():
    A = np.full((4, 4), np.inf)
    A[0, 1], A[1, 0], A[1, 2], A[2, 1] = 1e300, -9e299, 1e-5, 1e-5
    assert sr.factor(A).distance(0, 2) == 1e300  # no intermediate sum overflows
    A[2, 3] = np.finfo(np.float64).max  # under potentials this edge overflows to ∞, no edge
    with pytest.raises(sr.DomainError, match="leave the range of float64"):
        sr.factor(A)


def test_very_different_weights_on_cycles_are_those_of_the_closure_and_elsewhere_kept_apart():
    inf = np.inf
    A = np.full((4, 4), inf)
    A[0, 1], A[1, 2], A[2, 3], A[3, 0] = 1e17, -1, -1e17, 0.5
    assert np.array_equal(sr.factor(A).closure(), sr.closure(A))  # its own rounding explains why the cycle is below 0
    A[3, 0] = inf  # no cycle any more
    A[1, 3] = 0.25
    assert np.array_equal(sr.factor(A).closure()[1], [inf, 0, -1, -1e17])
    apart = np.full((5, 5), inf)  # two components and an edge between them
    apart[0, 1], apart[1, 0], apart[1, 2] = 1e17, -1e17, 0.3
    apart[2, 3], apart[3, 4], apart[4, 2] = 0.1, 0.2, -0.3
    found = sr.factor(apart).closure()
    assert np.abs(found[2, 3:] - [0.1, 0.3]).max() < 1e-15
    assert found[1, 2] == 0.3


# ---------------------------------------------------------------------------------------------------------- integers


@pytest.mark.full
def test_integers_widen_inside_where_paths_are_long():
    n = 400
    A = sp.diags_array(np.full(n - 1, 300, np.int16), offsets=1, format="csr", dtype=np.int16)
    F = sr.factor(A)
    assert F.dtype == np.int16
    row = F.table([0], np.arange(100))[0]
    assert np.array_equal(row, 300 * np.arange(100))
    with pytest.raises(sr.IntegerOverflowError, match="pass int32 operands"):
        F.table([0])
    assert np.array_equal(sr.factor(A.astype(np.int32)).table([0])[0], 300 * np.arange(n))
    with pytest.raises(sr.IntegerOverflowError, match="float64"):
        sr.factor(sp.csr_array(np.array([[0, 2**61], [0, 0]])))
    b = np.full(n, 2**31 - 1, np.int32)
    b[-1] = 2**30
    with pytest.raises(sr.IntegerOverflowError, match="b has entries up to 1073741824"):
        sr.factor(A.astype(np.int32)).solve(b)


@pytest.mark.full
def test_no_path_stays_no_path_beside_weights_below_zero():
    A = sp.csr_array((np.array([-5, -7], np.int32), ([0, 2], [1, 3])), shape=(4, 4))
    none = np.iinfo(np.int32).max
    D = sr.factor(A).closure()
    assert D.tolist() == [[0, -5, none, none], [none, 0, none, none], [none, none, 0, -7], [none, none, none, 0]]
    x = sr.factor(A).solve(np.array([none, none, none, 3], np.int32))
    assert x.tolist() == [none, none, -4, 3]


# ------------------------------------------------------------------------------------------------------------ inputs


@pytest.mark.filterwarnings("ignore::semiring.errors.SuspiciousWeightsWarning")
def test_sparse_matrices_of_every_kind(rng):
    A = grid(rng, 5)
    expected = sr.factor(A).closure()
    for form in ("csr", "csc", "coo", "lil", "dok", "bsr", "dia"):
        assert np.array_equal(sr.factor(A.asformat(form)).closure(), expected), form
    shuffled = A.tocoo()
    order = rng.permutation(shuffled.nnz)
    twice = sp.coo_array(
        (
            np.r_[shuffled.data[order], shuffled.data + 1],
            (np.r_[shuffled.row[order], shuffled.row], np.r_[shuffled.col[order], shuffled.col]),
        ),
        shape=A.shape,
    )
    assert np.array_equal(sr.factor(twice).closure(), expected)  # of parallel edges the shorter counts
    dense = np.where(A.toarray() > 0, A.toarray(), np.inf)
    assert np.array_equal(sr.factor(dense).closure(), expected)
    zeros = A.copy()
    zeros.data[:] = 0
    assert (sr.factor(zeros).closure() == 0).all()  # a stored 0 is an edge


def test_names_of_graphs_and_frames():
    nx = pytest.importorskip("networkx")
    pd = pytest.importorskip("pandas")
    G = nx.DiGraph()
    G.add_weighted_edges_from([("Ulm", "Kiel", 7.0), ("Kiel", "Jena", 4.0), ("Jena", "Ulm", 1.0)])
    frame = pd.DataFrame({"from": ["Ulm", "Kiel", "Jena"], "to": ["Kiel", "Jena", "Ulm"], "km": [7.0, 4.0, 1.0]})
    square = pd.DataFrame(sr.as_network(G).matrix, index=list(G), columns=list(G))
    for given in (G, frame, square, sr.as_network(G)):
        F = sr.factor(given)
        assert F.names == ("Ulm", "Kiel", "Jena")
        assert F.table(["Ulm", "Jena"], ["Jena", "Kiel"]).tolist() == [[11, 7], [0, 8]]
        assert F.rows(vertices=["Kiel"], reduce=lambda block: block.max(axis=1)).tolist() == [5]
        b = pd.Series([0.0, np.inf, np.inf], index=["Jena", "Ulm", "Kiel"])
        assert F.solve(b).tolist() == [11, 4, 0]
    with pytest.raises(sr.VertexError, match="did you mean Kiel"):
        F.table(["Kile"])
    with pytest.raises(TypeError, match=r"give \['Ulm'\]"):
        F.table("Ulm")
    with pytest.raises(sr.ShapeError, match="the labels of b"):
        F.solve(pd.Series([0.0, 1.0, 2.0], index=["a", "b", "c"]))


PAIR = [[0.0, 1.0], [1.0, 0.0]]
NUMBERS = np.array([[np.inf, 1], [2, np.inf]])


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: sr.factor(sp.csr_array([[0, 1.0], [np.nan, 0]])), sr.DomainError, r"A\[1, 0\] is nan"),
        (lambda: sr.factor([[0, -np.inf], [1, 0]]), sr.DomainError, r"A\[0, 1\] is -inf, an edge of unbounded gain"),
        (lambda: sr.factor([[0, -1.0], [1, 0]], "max_times"), sr.DomainError, r"A\[0, 1\] is -1.0, outside the domain"),
        (lambda: sr.factor(sp.csr_array((2, 3))), sr.ShapeError, "square"),
        (
            lambda: sr.factor([[0.0]], sr.Semiring("sums", "x + y", "x * y", 0, 1, domain="[0, inf)")),
            *(sr.AlgebraError, "no star"),
        ),
        (lambda: sr.factor([[0.0]], ordering="metiss"), sr.UnknownNameError, "elimination order"),
        (lambda: sr.factor(PAIR, ordering=[0, 0]), sr.ShapeError, "permutation"),
        (lambda: sr.factor(NUMBERS).solve(np.zeros(3)), sr.ShapeError, r"b is \(3,\)"),
        (lambda: sr.factor(NUMBERS).solve(np.array([0, np.nan])), sr.DomainError, r"b\[1\] is nan"),
        (
            lambda: sr.factor(NUMBERS.astype("f4")).solve(np.zeros(2)),
            sr.DTypeError,
            "b is float64.* the matrix float32",
        ),
        (lambda: sr.factor(NUMBERS).table(np.array([0, 2])), sr.VertexError, "vertex 2"),
        (lambda: sr.factor(NUMBERS).rows(0), ValueError, "chunk"),
        (lambda: sr.factor(NUMBERS).rows(reduce=np.max), sr.ShapeError, "one result for each row"),
        (lambda: sr.factor([[1.0, 0.0], [0.0, 0.0]], "plus_times"), sr.DivergenceError, "vertex 0"),
        (lambda: sr.factor([[0.0, 2.0], [0.6, 0.0]], "max_times").closure(), sr.DivergenceError, "use closure"),
    ],
)
def test_bad_input_is_refused(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_without_metis_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "pymetis", None)
    with pytest.raises(sr.MissingExtraError, match=r"\.\[sparse\]"):
        sr.factor(PAIR, ordering="metis")


# --------------------------------------------------------------------------------------------------------- questions


def test_rows_one_after_the_other(rng):
    A = grid(rng, 12, directed=True)
    F = sr.factor(A)
    D = dijkstra(A.astype(float))
    seen = []
    for vertices, block in F.rows(37):
        assert np.array_equal(block, D[vertices])
        seen += vertices.tolist()
    assert seen == list(range(144))
    assert np.array_equal(F.rows(reduce=lambda block: block.max(axis=1)), D.max(axis=1))
    assert np.array_equal(F.rows(reduce=lambda block: np.sort(block, axis=1)[:, :3]), np.sort(D, axis=1)[:, :3])
    assert np.array_equal(next(F.rows(5, vertices=[9, 3]))[1], D[[9, 3]])
    out = np.empty((144, 144))
    assert F.closure(out=out) is out
    assert np.array_equal(out, D)


@pytest.mark.full
def test_what_does_not_fit_is_said_before_any_work():
    A = sp.diags_array(np.ones(999_999), offsets=1, format="csr", dtype=np.float32)
    F = sr.factor(A, ordering="natural")
    with pytest.raises(MemoryError, match=r"A\* of 1,000,000 vertices takes 3,726 GiB, .*rows at a time"):
        F.closure()
    assert F.table([0], [0, 5, 999_999]).tolist() == [[0, 5, 999_999]]


def test_new_weights_on_the_same_edges(rng):
    A = grid(rng, 12, directed=True)
    F = sr.factor(A)
    B = A.copy()
    B.data = rng.integers(1, 90, B.nnz).astype(float)
    assert np.array_equal(F.refactor(B).closure(), dijkstra(B.astype(float)))
    symmetric = sr.factor(grid(rng, 12))
    assert np.array_equal(symmetric.refactor(B).closure(), dijkstra(B.astype(float)))
    fewer = B.tocoo()
    kept = rng.random(fewer.nnz) < 0.8
    fewer = sp.coo_array((fewer.data[kept], (fewer.row[kept], fewer.col[kept])), shape=B.shape)
    assert np.array_equal(F.refactor(fewer).closure(), dijkstra(fewer.tocsr().astype(float)))
    assert np.array_equal(F.closure(), dijkstra(A.astype(float)))  # the factor itself stays as it was
    more = B.tolil()
    more[0, 143] = 1
    with pytest.raises(sr.ShapeError, match="the edge 0 → 143 is new"):
        F.refactor(more)
    with pytest.raises(sr.ShapeError, match="4 vertices, the factor 144"):
        F.refactor(np.zeros((4, 4), np.float32))
    B[0, 1], B[1, 0] = -5, 2
    with pytest.raises(sr.NegativeCycleError):
        F.refactor(B).closure()


def test_what_it_costs_is_counted_exactly():
    """A path of n vertices, eliminated from one end, has n supernodes of one pivot before supernodes are joined."""
    n = 50
    A = sp.diags_array([np.ones(n - 1), np.ones(n - 1)], offsets=[1, -1], format="csr", dtype=np.float64)
    F = sr.factor(A, ordering="natural")
    a = F._analysis
    k, m = np.diff(a.pivot_starts), np.diff(a.row_starts)
    assert F.nnz == (k * (k + m)).sum()
    assert F.operations == (k**3 + k**2 * m + k * m * (m + 1) // 2).sum()
    assert F.memory >= F.nnz * 8
    assert F.nnz < 10 * n
    assert repr(F) == f"<Factor of 50 vertices in min_plus, float64, by natural: {F.nnz} numbers>"


@pytest.mark.parametrize(
    ("weights", "potentials"), [("nonnegative", ""), ("both signs", "float64"), ("both signs of all sizes", "exact")]
)
def test_a_factor_is_returned_with_its_explanation(weights, potentials):
    """The explanation states the ordering, fill, supernodes and work."""
    dense = np.full((6, 6), np.inf)
    dense[np.arange(6), (np.arange(6) + 1) % 6] = 1.25
    if weights != "nonnegative":
        dense[0, 1], dense[1, 2] = -0.3, 1.7
    if potentials == "exact":
        dense[2, 3], dense[3, 4] = 1e40, -1e-40
    F, explanation = sr.factor(dense, ordering="natural", threads=1, explain=True)
    assert np.array_equal(F.table(range(6)), sr.factor(dense, ordering="natural").table(range(6)))
    assert explanation == F.explain()
    assert (explanation.n, explanation.edges, explanation.ordering) == (6, 6, "natural")
    assert (explanation.nnz, explanation.operations, explanation.memory) == (F.nnz, F.operations, F.memory)
    assert (explanation.potentials, explanation.threads, explanation.device) == (potentials, 1, "cpu")
    assert 1 <= explanation.supernodes <= 6
    assert explanation.fill == F.nnz / 6
    names = [line.split()[0] for line in str(explanation).splitlines()[1:]]
    assert names == ["order", "fill", *["weights"] * bool(potentials), "method", "cost"]
