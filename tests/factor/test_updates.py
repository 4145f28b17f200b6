"""Test `Factor.update` against a new factor, bit by bit, and rows by name against the whole of A*."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sparse
from tiers import full, quick

import semiring as sr
from semiring.algebra.catalogue import as_semiring
from semiring.sparse import numeric_factor, symbolic_factor
from semiring.sparse.factorization import Factor

inf = np.inf
KINDS = {
    "min_plus": ("float64", lambda rng, m: rng.choice([0.0, 1.0, 0.3, 7.7], m)),
    "max_min": ("int32", lambda rng, m: rng.integers(0, 9, m)),
    "plus_times": ("float64", lambda rng, m: rng.random(m) * 0.05),
    "log_plus": ("float64", lambda rng, m: -3 - rng.random(m)),
    "max_plus": ("int32", lambda rng, m: -rng.integers(0, 9, m)),
    "boolean": ("bool", lambda rng, m: np.ones(m, bool)),
    "both signs": ("float64", lambda rng, m: rng.choice([0.5, 1.25, 3.0], m)),
    "whole, both signs": ("float32", lambda rng, m: rng.choice([2.0, 1.0, 3.0], m)),
}


def random_matrix(rng, kind, max_vertices=40):
    """Return a sparse matrix, sometimes symmetric, and sometimes a grid, which has many subtrees."""
    name = "min_plus" if "signs" in kind else kind
    dtype, weights = KINDS[kind]
    if rng.random() < 0.4:
        side = int(rng.integers(2, 1 + int(max_vertices**0.5)))
        at = np.arange(side * side).reshape(side, side)
        tails, heads = np.r_[at[:, :-1].ravel(), at[:-1].ravel()], np.r_[at[:, 1:].ravel(), at[1:].ravel()]
        n = side * side
    else:
        n = int(rng.integers(1, max_vertices))
        cells = np.unique(rng.integers(0, n * n, int(n * rng.choice([0.5, 1, 2, 4]))))
        tails, heads = cells // n, cells % n
    values = weights(rng, tails.size).astype(dtype)
    if rng.random() < 0.5:
        other = tails != heads
        tails, heads = np.r_[tails, heads[other]], np.r_[heads, tails[other]]
        values = np.r_[values, values[other]]
        cells, first = np.unique(tails * n + heads, return_index=True)
        least = np.minimum(tails, heads) * n + np.maximum(tails, heads)
        _, group = np.unique(least, return_inverse=True)
        representative = np.zeros(group.max(initial=0) + 1, values.dtype)
        representative[group] = values
        tails, heads, values = tails[first], heads[first], representative[group][first]
    A = sparse.coo_array((values, (tails, heads)), shape=(n, n)).tocsr()
    A.sort_indices()
    if kind == "whole, both signs" and A.nnz and rng.random() < 0.5:
        A.data[rng.integers(A.nnz)] = -1.0
    if kind == "both signs" and A.nnz:
        A.data[rng.integers(A.nnz)] = -0.25
    return as_semiring(name), A, lambda m: weights(rng, m).astype(dtype)


def check(rng, kind):
    semiring, A, weights = random_matrix(rng, kind)
    threads = int(rng.integers(1, 4))
    try:
        F = sr.factor(A, semiring, threads=threads)
        F.closure()
    except sr.errors.DivergenceError:
        return
    ends = A.tocoo()
    for _ in range(3):
        chosen = rng.integers(0, A.nnz, rng.integers(0, 4)) if A.nnz else np.empty(0, int)
        new = weights(chosen.size)
        edges = [(int(ends.row[e]), int(ends.col[e]), w) for e, w in zip(chosen, new, strict=True)]
        if rng.random() < 0.5:  # there and back, so that a symmetric matrix stays so
            edges += [
                (j, i, w)
                for i, j, w in edges
                if (i, j) != (j, i) and A.indices[A.indptr[j] : A.indptr[j + 1]].tolist().count(i)
            ]
        changed = A.copy()
        for i, j, w in edges:
            begin, end = A.indptr[i : i + 2]
            changed.data[begin + np.searchsorted(A.indices[begin:end], j)] = w
        before = F._numbers.memory.copy()
        try:
            expected = sr.factor(changed, semiring, F.order, threads=threads)
            expected.closure()
        except sr.errors.DivergenceError:
            with pytest.raises(sr.errors.DivergenceError):
                F.update(edges).closure()
            return
        G = F.update(edges)
        np.testing.assert_array_equal(F._numbers.memory, before)
        np.testing.assert_array_equal(
            G.table(range(A.shape[0])), sr.factor(A, semiring).refactor(changed).table(range(A.shape[0]))
        )
        if expected._analysis.pivot_starts.size == G._analysis.pivot_starts.size and expected.symmetric == G.symmetric:
            np.testing.assert_allclose(G.closure().astype(float), expected.closure().astype(float), rtol=1e-6)
        F, A = G, changed


@pytest.fixture
def small_tasks(monkeypatch):
    """Use subtrees of a few supernodes, so that small matrices have many."""
    monkeypatch.setattr(symbolic_factor, "_MIN_TASK_PAIRS", 40)


@pytest.mark.parametrize(
    "kind",
    quick(
        lambda kind: kind == "min_plus",
        full(lambda kind: kind in ("min_plus", "plus_times", "max_plus", "both signs"), KINDS),
    ),
)
def test_an_update_is_a_new_factor(rng, kind, small_tasks):
    for _ in range(6):
        check(rng, kind)


@pytest.mark.exhaustive
@pytest.mark.parametrize("kind", KINDS)
def test_updates_are_new_factors_in_many_cases(rng, kind, small_tasks):
    for _ in range(60):
        check(rng, kind)


def test_an_update_eliminates_only_what_lies_above(monkeypatch, small_tasks):
    A = sparse.csr_array(nx.to_scipy_sparse_array(nx.grid_2d_graph(30, 30), dtype=float))
    F = sr.factor(A)
    F = F.update([(0, 1, 3.0), (1, 0, 3.0)])
    assert F.symmetric
    redone = []
    eliminate = numeric_factor._SupernodalElimination.eliminate_subtrees
    monkeypatch.setattr(
        numeric_factor._SupernodalElimination,
        "eliminate_subtrees",
        lambda self, group: (redone.extend(group), eliminate(self, group))[1],
    )
    with sr.profile() as ran:
        G = F.update([(5, 6, 2.5), (6, 5, 2.5)])
    assert len(redone) <= 2 < len(F._analysis.tasks[0])
    (again,) = [span for span in ran.walk() if span.name == "elimination"]
    assert 0 < again.details["fronts"] < F._analysis.count / 4
    A[5, 6] = A[6, 5] = 2.5
    A[0, 1] = A[1, 0] = 3.0
    np.testing.assert_array_equal(G._numbers.memory, sr.factor(A)._numbers.memory)
    assert G.memory > sr.factor(A).memory


@pytest.mark.full
def test_updates_by_name_and_what_they_refuse():
    G = nx.DiGraph()
    G.add_weighted_edges_from([("a", "b", 3.0), ("b", "c", 4.0), ("c", "a", 1.0)])
    F = sr.factor(G)
    assert F.update([("a", "b", 1.0)]).distance("a", "c") == 5.0
    assert F.distance("a", "c") == 7.0
    assert F.update([("a", "b", inf)]).distance("a", "b") == inf
    assert F.update([("a", "b", 9.0), ("a", "b", 2.0)]).distance("a", "b") == 2.0
    assert F.update([("a", "b", 5.0)]).path("a", "c") == ["a", "b", "c"]
    assert F.update([]).distance("a", "c") == 7.0
    for edge, error, message in (
        (("a", "c", 1.0), sr.ShapeError, "the edge a → c is new"),
        (("a", "d", 1.0), sr.VertexError, "no vertex is named 'd'"),
        (("a", "b"), sr.ShapeError, "triple"),
        (("a", "b", -6.0), sr.NegativeCycleError, "by name"),
        (("a", "b", np.nan), sr.DomainError, "nan"),
        (("a", "b", "x"), sr.DTypeError, "weights holds text"),
    ):
        with pytest.raises(error, match=message) as caught:
            F.update([edge]).closure()
        assert set(getattr(caught.value, "names", "abc")) == {"a", "b", "c"}


def reduce_rows(D, zero, name, argument=None):
    """Reduce by the definition, row by row."""
    n, out = len(D), []
    for i, row in enumerate(D):
        others = [j for j in range(n) if j != i and row[j] != zero]
        values = [float(row[j]) for j in others]
        if name == "mean":
            out.append(np.mean(values) if values else np.nan)
        elif name == "closeness":
            s = sum(values)
            out.append(len(values) ** 2 / (s * (n - 1)) if s > 0 else 0.0)
        elif name == "histogram":
            out.append(np.histogram(values, argument)[0])
        else:
            sign = 1 if zero > 0 else -1
            near = sorted(others, key=lambda j: (sign * row[j], j))[:argument]
            out.append(near + [-1] * (argument - len(near)))
    return np.array(out)


@pytest.mark.full
@pytest.mark.parametrize("dtype", ["float64", "float32", "int32"])
def test_rows_by_name(rng, dtype):
    for n in (1, 2, 7, 70):
        A = sparse.random_array((n, n), density=min(1.0, 2 / n), rng=rng, format="csr")
        A.data = rng.integers(0, 5, A.nnz).astype(dtype)
        A = A.astype(dtype)
        F = sr.factor(A)
        D = F.closure()
        zero = sr.min_plus.zero_for(dtype)
        np.testing.assert_array_equal(F.rows(reduce="eccentricity"), D.max(axis=1))
        np.testing.assert_allclose(F.rows(reduce="mean"), reduce_rows(D, zero, "mean"))
        np.testing.assert_allclose(F.rows(reduce="closeness"), reduce_rows(D, zero, "closeness"))
        bins = [0, 1, 2.5, 10]
        np.testing.assert_array_equal(F.rows(reduce=("histogram", bins)), reduce_rows(D, zero, "histogram", bins))
        for k in (1, 3, 80):
            np.testing.assert_array_equal(F.rows(reduce=("nearest", k)), reduce_rows(D, zero, "nearest", k))
        some = rng.integers(0, n, 3)
        np.testing.assert_array_equal(F.rows(vertices=some, reduce=("nearest", 2)), F.rows(reduce=("nearest", 2))[some])


def test_rows_by_name_are_those_of_networkx():
    G = nx.random_geometric_graph(60, 0.25, seed=1)
    for i, j in G.edges:
        G.edges[i, j]["weight"] = 1.0 + (i + j) % 7
    G = G.subgraph(max(nx.connected_components(G), key=len))
    F = sr.factor(G)
    theirs = nx.closeness_centrality(G, distance="weight")
    np.testing.assert_allclose(F.rows(reduce="closeness"), [theirs[v] for v in G])
    theirs = nx.eccentricity(G, weight="weight")
    np.testing.assert_allclose(F.rows(reduce="eccentricity"), [theirs[v] for v in G])


@pytest.mark.full
def test_rows_of_other_semirings():
    A = sparse.csr_array(np.array([[0, 3, 0], [0, 0, 5], [4, 0, 0]], np.int16))
    wide = sr.factor(A, "max_min")
    np.testing.assert_array_equal(wide.rows(reduce="eccentricity"), wide.closure().min(axis=1))
    np.testing.assert_array_equal(wide.rows(reduce=("nearest", 1)), [[1], [2], [0]])
    reached = sr.factor(sparse.csr_array(np.eye(40, k=1, dtype=bool)), "boolean").rows(reduce="eccentricity")
    np.testing.assert_array_equal(reached, np.arange(40) == 0)
    sums = sr.factor(A.astype(float) / 100, "plus_times")
    for factor, reduce, error, message in (
        (wide, "mean", sr.AlgebraError, "mean is for min_plus and max_plus, and not for max_min"),
        (sums, "eccentricity", sr.AlgebraError, None),
        (sums, ("nearest", 2), sr.AlgebraError, None),
        (wide, "median", sr.UnknownNameError, "reduction of rows"),
        (wide, "nearest", ValueError, "give"),
        (wide, ("eccentricity", 1), ValueError, "give"),
        (wide, ("histogram",), ValueError, "give"),
        (wide, ("nearest", 0), ValueError, "k counts"),
        (wide, ("nearest", 1.5), ValueError, "k counts"),
        (sr.factor(A), ("histogram", [3]), ValueError, "edges of bins"),
    ):
        with pytest.raises(error, match=message):
            factor.rows(reduce=reduce)


def test_rows_go_into_files(tmp_path, rng):
    A = sparse.random_array((40, 40), density=0.1, rng=rng, format="csr")
    F = sr.factor(A)
    D = F.closure()
    for name, found, expected in (
        ("rows.npy", lambda out: F.rows(out=out), D),
        ("some.npy", lambda out: F.rows(out=out, vertices=[3, 1]), D[[3, 1]]),
        ("far.npy", lambda out: F.rows(out=out, reduce="eccentricity"), D.max(axis=1)),
        ("all.npy", lambda out: F.closure(out=out), D),
    ):
        given = found(tmp_path / name)
        assert isinstance(given, np.memmap)
        np.testing.assert_array_equal(np.load(tmp_path / name), expected)
    out = np.empty((40, 40))
    assert F.rows(out=out) is out
    np.testing.assert_array_equal(out, D)


def test_a_file_that_is_not_whole_is_none(tmp_path, rng):
    F = sr.factor(sparse.random_array((40, 40), density=0.1, rng=rng, format="csr"))
    path = tmp_path / "rows.npy"
    np.save(path, np.zeros((40, 40)))  # what stands there already is no excuse
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Factor, "_write_rows", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            F.rows(out=path)
    with pytest.raises(ValueError, match="pickled"):
        np.load(path)
    with pytest.raises(sr.errors.FormatError, match="a run that has not finished"):
        sr.closure(path)
    F.rows(out=path)
    np.testing.assert_array_equal(np.load(path), F.closure())


@pytest.mark.full
def test_a_graph_without_small_separators_is_refused_before_it_is_ordered(monkeypatch, rng):
    n, ends = 30_000, rng.integers(0, 30_000, (2, 90_000))
    A = sparse.csr_array((np.ones(90_000), ends), shape=(n, n))
    ordered = []
    monkeypatch.setattr(
        "semiring.sparse.factorization.analyse", lambda *given: ordered.append(given) or symbolic_factor.analyse(*given)
    )
    monkeypatch.setattr("semiring.arrays.memory.free_memory", lambda: 1 << 29)
    with pytest.raises(sr.errors.TooLargeError, match=r"without small separators .*sources=.*pass ordering="):
        sr.factor(A)
    assert not ordered
    with monkeypatch.context() as patch:  # where it fits a terminal says what takes minutes
        told = []
        patch.setattr("semiring.sparse.factorization.announce", lambda *said: told.append(said))
        patch.setattr("semiring.sparse.factorization.analyse", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        patch.setattr("semiring.arrays.memory.free_memory", lambda: 1 << 40)
        with pytest.raises(KeyboardInterrupt):
            sr.factor(A)
        assert told == [("ordering 30,000 vertices without small separators",)]
    later = np.arange(1, n)
    chains = {  # one wide level, and yet next to no fill
        "star": np.zeros(n - 1, int),
        "tree": later // 2,
        "random tree": (rng.random(n - 1) * later).astype(int),
    }
    for before in chains.values():
        F = sr.factor(sparse.csr_array((np.ones(n - 1), (before, later)), shape=(n, n)))
        assert F.nnz < 20 * n
    assert len(ordered) == len(chains)


def test_the_fill_is_where_the_numbers_are(rng):
    A = sparse.random_array((30, 30), density=0.08, rng=rng, format="csr")
    F = sr.factor(A)
    filled, edges = F.fill()
    rows, columns = A.nonzero()
    place = np.argsort(F.order)
    expected = np.zeros((30, 30), int)
    expected[place[rows], place[columns]] = 1
    np.testing.assert_array_equal(edges, expected)
    assert (filled >= edges).all()
    assert filled.max() == 1
    assert not F.symmetric
    assert filled.sum() == F.nnz
    coarse, few = F.fill(7)
    assert (coarse.sum(), few.sum()) == (filled.sum(), edges.sum())
    assert coarse.shape == (7, 7)
    assert sr.factor(sparse.csr_array((0, 0))).fill()[0].shape == (0, 0)


def test_an_edge_of_the_weight_zero_has_a_place_once_it_had_another():
    """A stored ∞ is no edge, because a matrix that came from a dense one stores n² of them."""
    A = sparse.csr_array(([1.0, np.inf, 2.0], ([0, 1, 1], [1, 0, 2])), shape=(3, 3))
    with pytest.raises(sr.errors.ShapeError, match=r"the edge 1 → 0 is new.* any weight but the zero"):
        sr.factor(A).update([(1, 0, 4.0)])
    A.data[1] = 7.0
    removed = sr.factor(A).update([(1, 0, np.inf)])
    assert removed.distance(1, 0) == np.inf
    assert removed.update([(1, 0, 4.0)]).distance(1, 0) == 4
