"""Test cycles that improve without end: out of reach they do not matter, and ``on_cycle="unbounded"`` marks pairs."""

from __future__ import annotations

import pickle
from itertools import pairwise, product

import numpy as np
import pytest
import scipy.sparse

import semiring as sr
from semiring import NegativeCycleError

inf = np.inf


def distances(A):
    """Return the distances of whole-number weights, -∞ where walks improve without end."""
    D = np.minimum(A, np.where(np.eye(len(A), dtype=bool), 0, inf))
    for k in range(len(A)):
        D = np.minimum(D, D[:, k : k + 1] + D[k])
    improves = np.zeros(D.shape, bool)
    for k in np.flatnonzero(D.diagonal() < 0):
        improves |= (D[:, k : k + 1] < inf) & (D[k] < inf)
    return np.where(improves, -inf, D)


def cases(rng, count):
    for trial in range(count):
        n = int(rng.integers(1, 9))
        A = np.where(rng.random((n, n)) < rng.choice([0.15, 0.3, 0.5]), rng.integers(-2, 7, (n, n)), inf)
        scale = 0.37 if trial % 4 == 3 else 1.0  # weights that are not whole
        yield scale * A, scale * distances(A)


@pytest.mark.parametrize("is_sparse", [False, True])
@pytest.mark.parametrize("sign", [1, -1])
def test_pairs_over_cycles_are_unbounded(sign, is_sparse, rng):
    paths = sr.shortest_paths if sign > 0 else sr.longest_paths
    for A, D in cases(rng, 60):
        edges = np.isfinite(A)
        X = scipy.sparse.csr_array((sign * A[edges], np.nonzero(edges)), shape=A.shape) if is_sparse else sign * A
        P = paths(X, on_cycle="unbounded")
        np.testing.assert_allclose(sign * P.matrix, D, atol=1e-12)
        improves = np.isneginf(D)
        assert (P.predecessors[improves] == -9999).all()
        assert (P.hops()[improves] == -1).all()
        assert np.isnan(P.total(np.ones(A.shape))[improves]).all()
        vertices = rng.permutation(len(A))
        some, others = vertices[: len(A) // 2 + 1], vertices[len(A) // 3 :]
        for sources, targets in ((some, None), (None, some), (some, others)):
            ends = [range(len(A)) if x is None else x for x in (sources, targets)]
            expected = D[np.ix_(*ends)]
            for method in ("auto", "dense", "johnson", "factor"):
                options = {"sources": sources, "targets": targets, "method": method}
                Q = paths(X, on_cycle="unbounded", **options)
                np.testing.assert_allclose(sign * Q.matrix, expected, atol=1e-12)
                if np.isneginf(expected).any():
                    with pytest.raises(sr.NegativeCycleError):
                        paths(X, **options)
                else:  # no requested pair has a walk over a cycle
                    np.testing.assert_allclose(sign * paths(X, **options).matrix, expected, atol=1e-12)
            for i, j in product(*ends):
                if D[i, j] == inf:
                    with pytest.raises(sr.NoPathError):
                        Q.path(i, j)
                elif D[i, j] == -inf:
                    with pytest.raises(sr.NegativeCycleError, match="improve without end"):
                        Q.path(i, j)
                else:
                    assert sum(A[u, v] for u, v in pairwise(Q.path(i, j))) == pytest.approx(D[i, j])
        near = paths(X, limit=2.0 * sign, on_cycle="unbounded").matrix.tocoo()
        found = dict(zip(zip(near.row.tolist(), near.col.tolist(), strict=True), sign * near.data, strict=True))
        assert found == pytest.approx({(i, j): D[i, j] for i, j in np.argwhere(D <= 2).tolist()})


@pytest.mark.parametrize("on_cycle", ["raise", "unbounded"])
@pytest.mark.parametrize("semiring", ["min_plus", "max_plus"])
def test_a_factor_answers_about_walks_that_meet_no_cycle(semiring, on_cycle, rng):
    sign = 1 if semiring == "min_plus" else -1

    def expect(expected, function, *args, **options):
        """Check a result, or that an unbounded one is an error unless it was requested."""
        if on_cycle == "raise" and np.isneginf(expected).any():
            with pytest.raises(NegativeCycleError, match="going round it improves without end"):
                function(*args, **options)
        else:
            found = function(*args, **options)
            np.testing.assert_allclose(sign * (found[1] if isinstance(found, tuple) else found), expected, atol=1e-12)

    for trial, (A, D) in enumerate(cases(rng, 40)):
        n, edges = len(A), np.isfinite(A)
        X = scipy.sparse.csr_array((sign * A[edges], np.nonzero(edges)), shape=A.shape)
        other = scipy.sparse.csr_array((sign * np.full(X.nnz, 9.0), X.indices, X.indptr), X.shape)
        F = sr.factor(other if semiring == "min_plus" and trial % 3 else X, semiring, on_cycle=on_cycle)
        if trial % 3 == 1:
            F = F.refactor(X)
        elif trial % 3 == 2:
            F = pickle.loads(pickle.dumps(F.update([(i, j, sign * A[i, j]) for i, j in np.argwhere(edges).tolist()])))
        assert (F.explain().cycles > 0) == np.isneginf(D).any()
        expect(D, F.closure)
        expect(D, next, F.rows(n))
        if sign > 0 and not (on_cycle == "raise" and np.isneginf(D).any()):
            expect(D.max(axis=1), F.rows, reduce="eccentricity")
        some, others = rng.integers(0, n, (2, 3))
        expect(D[np.ix_(some, others)], F.table, some, others)
        expect(D[some, others], F.distances, some, others)
        for transpose in (False, True):
            b = np.full((n, 2), inf)
            b[some[0], 0], b[some[1:], 1] = 1, 0
            walks = D.T if transpose else D
            expected = np.stack([walks[:, some[0]] + 1, walks[:, some[1:]].min(axis=1)], axis=1)
            expect(expected, F.solve, sign * b, transpose=transpose)
            expect(expected[:, 0], F.solve, sign * b[:, 0], transpose=transpose)
            for matrix in (X, sign * A):
                options = {"transpose": transpose, "on_cycle": on_cycle}
                expect(expected, sr.fixed_point, matrix, sign * b, semiring, **options)
        for i, j in product(range(n), repeat=2):
            expect(D[i, j], F.distance, i, j)
            if np.isfinite(D[i, j]):
                assert sum(A[u, v] for u, v in pairwise(F.path(i, j))) == pytest.approx(D[i, j])
            else:
                with pytest.raises(sr.NoPathError if D[i, j] > 0 else NegativeCycleError):
                    F.path(i, j)


def test_a_factor_of_integers_or_probabilities_ignores_other_cycles(tmp_path):
    network = sr.Network(np.array([[inf, 1, inf], [inf, inf, inf], [inf, 1, -2]]), names="abc")
    assert sr.factor(network).distance("a", "b") == 1
    with pytest.raises(NegativeCycleError, match="by name, it is c → c"):
        sr.factor(network).rows(out=str(tmp_path / "rows.npy"))
    with pytest.raises(NegativeCycleError, match="by name, it is c → c"):
        sr.factor(network, on_cycle="unbounded").path("c", "b")
    whole = scipy.sparse.csr_array(([1, 1, -2], ([0, 2, 2], [1, 1, 2])), shape=(3, 3))
    assert sr.factor(whole).table([0], [1]).tolist() == [[1]]
    with pytest.raises(sr.DTypeError, match=r"astype\(float\)"):
        sr.factor(whole, on_cycle="unbounded")
    F = sr.factor([[0.0, 0.5, 0.0], [0.0, 0.0, 0.0], [0.0, 0.5, 3.0]], "max_times")
    assert (F.distance(0, 1), F.path(0, 1)) == (0.5, [0, 1])
    with pytest.raises(sr.DivergenceError, match="through vertex 2"):
        F.distance(2, 1)
    with pytest.raises(sr.AlgebraError, match="max_times has no such value"):
        sr.factor(np.eye(2), "max_times", on_cycle="unbounded")


def test_many_small_cycles_take_one_pass():
    """Each cycle cost a pass over all edges, and two masks of all vertices."""
    n = 6000
    tails = np.arange(n)
    A = scipy.sparse.csr_array((np.where(tails % 2, 1.0, -2.0), (tails, tails ^ 1)), shape=(n, n))
    P = sr.shortest_paths(A, sources=[0, 3, 7], on_cycle="unbounded")
    assert np.argwhere(np.isneginf(P.matrix)).tolist() == [[0, 0], [0, 1], [1, 2], [1, 3], [2, 6], [2, 7]]
    assert np.isneginf(sr.factor(A, on_cycle="unbounded").distances([0, 4], [1, 5])).all()


def test_names_frames_and_graphs(rng):
    import networkx as nx

    G = nx.DiGraph()
    G.add_weighted_edges_from([("x", "y", 1.0), ("a", "b", -2.0), ("b", "a", 1.0), ("b", "x", 1.0)])
    assert sr.shortest_paths(G, sources=["x"]).distance("x", "y") == 1
    assert sr.shortest_paths(G, sources=["x"], targets=["y"]).path("x", "y") == ["x", "y"]
    with pytest.raises(sr.NegativeCycleError, match="a → b → a"):
        sr.shortest_paths(G, targets=["y"])
    P = sr.shortest_paths(G, on_cycle="unbounded")
    assert (P.distance("a", "y"), P.distance("x", "y"), P.distance("x", "a")) == (-inf, 1, inf)
    frame = sr.shortest_paths(nx.to_pandas_adjacency(G, nonedge=inf), on_cycle="unbounded").to_frame()
    assert frame.loc["a", "y"] == -inf


def test_what_has_no_unbounded_weight_is_refused():
    A = [[0, -1.0], [-1.0, 0]]
    with pytest.raises(sr.DTypeError, match=r"astype\(float\)"):
        sr.shortest_paths(np.array(A, int), on_cycle="unbounded")
    with pytest.raises(sr.AlgebraError, match="max_min has no such value"):
        sr.widest_paths(A, on_cycle="unbounded")
    for wrong in ("ignore", None, 1, np.ones(2)):
        with pytest.raises(sr.UnknownNameError, match="raise, unbounded"):
            sr.shortest_paths(A, on_cycle=wrong)
    with pytest.raises(sr.DomainError):  # the result is no valid input
        sr.shortest_paths(sr.shortest_paths(A, on_cycle="unbounded").matrix)


@pytest.mark.parametrize("name", ["min_plus", "max_plus", "max_times"])
def test_least_solutions_ignore_cycles_that_do_not_reach_the_right_side(name):
    """x = A ⊗ x ⊕ b has entries 0̄ where no walk reaches an entry of b."""
    semiring = sr.as_semiring(name)
    zero, gain = semiring.zero, {"min_plus": -2.0, "max_plus": 2.0, "max_times": 3.0}[name]
    zero = float(semiring.zero_for(np.dtype(float)))
    A = np.full((4, 4), zero)
    A[0, 1], A[2, 3], A[3, 2] = 0.5, gain, gain
    b = np.array([zero, 0.25, zero, zero])
    expected = [float(semiring.mul(0.5, 0.25)), 0.25, zero, zero]
    for matrix in (A, scipy.sparse.csr_array((A[zero != A], np.nonzero(zero != A)), shape=A.shape)):
        np.testing.assert_array_equal(sr.fixed_point(matrix, b, semiring), expected)
        with pytest.raises(sr.DivergenceError):
            sr.fixed_point(matrix, np.where(b == zero, 0.25, b), semiring)
    turned = sr.fixed_point(A.T, b, semiring, transpose=True)
    np.testing.assert_array_equal(turned, expected)


@pytest.mark.parametrize("on_cycle", ["raise", "unbounded"])
@pytest.mark.parametrize("is_sparse", [False, True])
def test_ties_and_ranked_paths_ignore_cycles_of_other_pairs(is_sparse, on_cycle, rng):
    """Pairs whose walks meet no cycle have the ties of the edges between them, and other pairs are refused."""
    for A, D in cases(rng, 12):
        if (np.rint(A) != A).any():  # ties of rounded sums depend on the search
            continue
        edges = np.isfinite(A)
        X = scipy.sparse.csr_array((A[edges], np.nonzero(edges)), shape=A.shape) if is_sparse else A
        for i, j in product(range(len(A)), repeat=2):
            ends = {"sources": [i], "targets": [j]} if (i + j) % 2 else {"sources": [i]}
            if on_cycle == "raise" and np.isneginf(D[i, j] if (i + j) % 2 else D[i]).any():
                continue
            several = [sr.shortest_paths(X, on_cycle=on_cycle, **ends)]
            if on_cycle == "unbounded":
                several += [sr.shortest_paths(X, on_cycle=on_cycle, predecessors=has) for has in (True, False)]
            between = edges & (D[i] < inf)[:, None] & (D[i] < inf) & (D[:, j] < inf)[:, None] & (D[:, j] < inf)
            for P in several:
                asked = (P.count, P.all_paths, P.tight_edges, P.k_shortest, P.most_vital_edge, P.path)
                if np.isneginf(D[i, j]):
                    for call in asked:
                        with pytest.raises(NegativeCycleError, match=f"from {i} to {j} improve without end"):
                            call(i, j)
                    with pytest.raises(NegativeCycleError, match="improve without end"):
                        P.counts()
                    continue
                alone = sr.shortest_paths(np.where(between, A, inf))
                if D[i, j] < inf:
                    assert P.path(i, j) in [path for _, path in alone.k_shortest(i, j)]
                for name in ("all_paths", "k_shortest"):
                    assert list(getattr(P, name)(i, j)) == list(getattr(alone, name)(i, j))
                assert (P.tight_edges(i, j) != alone.tight_edges(i, j)).nnz == 0
                assert outcome(P.count, i, j) == outcome(alone.count, i, j)
                assert outcome(P.most_vital_edge, i, j) == outcome(alone.most_vital_edge, i, j)
                if len(P.matrix.ravel()) == 1:
                    assert outcome(P.counts) == outcome(alone.count, i, j)


def outcome(function, *args):
    """Return the result, or the type of the error."""
    try:
        return function(*args)
    except (sr.DivergenceError, sr.NoPathError, ValueError) as error:
        return type(error)
