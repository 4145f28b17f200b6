"""Closures of packed bits and of sparse matrices."""

from __future__ import annotations

import numpy as np
import oracles
import pytest
from scipy import sparse
from tiers import full

import semiring as sr
from semiring.algorithms import irreflexive_closure
from semiring.algorithms import packed_bits as packing
from semiring.arrays import bits
from semiring.arrays.bits import BitMatrix, pack
from semiring.closures import closure


@pytest.mark.parametrize("reflexive", [True, False])
@pytest.mark.parametrize("n", [0, 1, 2, 31, 32, 33, 64, 65, 130, 257, 300])
def test_packed_transitive_closure(rng, n, reflexive):
    A = rng.random((n, n)) < 1.2 / max(n, 1)
    expected = oracles.reachable(A, reflexive=reflexive)
    for method in ("auto", "rkleene", "blocked_floyd_warshall", "squaring"):
        packed = pack(A)
        result = closure(packed, "boolean", method=method, reflexive=reflexive)
        assert isinstance(result, BitMatrix)
        np.testing.assert_array_equal(result.unpack(), expected)
        np.testing.assert_array_equal(packed.unpack(), A)
        assert closure(packed, "boolean", method=method, reflexive=reflexive, out=packed) is packed
        assert packed == result


@pytest.mark.parametrize("n", [33, 200, 513])
def test_bool_arrays_may_go_through_packed_bits(rng, n):
    A = rng.random((n, n)) < 1.5 / n
    for reflexive in (True, False):
        result, explanation = closure(A, "boolean", reflexive=reflexive, explain=True)
        np.testing.assert_array_equal(result, oracles.reachable(A, reflexive=reflexive))
        assert result.dtype == bool
        np.testing.assert_array_equal(closure(A, "boolean", reflexive=reflexive, method="rkleene"), result)
        assert closure(A.copy(), "max_min", reflexive=reflexive).tobytes() == result.tobytes()
    if n >= 513:
        assert explanation.storage == "packed bits"


@pytest.mark.parametrize("reflexive", [True, False])
@pytest.mark.parametrize("n", [1, 33, 70, 260, 300])
def test_packed_where_the_zero_is_true(rng, n, reflexive):
    """The complement of reachability has "and" as ⊕, so the diagonal is cleared, and words of 0̄ are all ones."""
    A = rng.random((n, n)) >= 1.5 / n
    expected = ~oracles.reachable(~A, reflexive=reflexive)
    for method in ("auto", "rkleene", "blocked_floyd_warshall", "squaring"):
        packed = closure(pack(A), "min_max", method=method, reflexive=reflexive)
        assert packed == pack(expected)  # tail bits too
        np.testing.assert_array_equal(closure(A, "min_max", method=method, reflexive=reflexive), expected)


@pytest.mark.parametrize("n", [1, 31, 32, 33, 65, 130, 300])
def test_truths_a_few_at_a_time(monkeypatch, rng, n):
    """Matrices are packed, closed, unpacked and scanned for cycles in more than one part, as large matrices are."""
    for module, name, entries in (
        (bits, "_PACKED_ENTRIES", 100),
        (bits, "_UNPACKED_ENTRIES", 100),
        (packing, "_CHUNK", 32),
    ):
        monkeypatch.setattr(module, name, entries)
    A = rng.random((n, n)) < 1.2 / n
    for reflexive in (True, False):
        expected = oracles.reachable(A, reflexive=reflexive)
        for truths in (A, np.asfortranarray(A), np.repeat(A, 2, axis=1)[:, ::2]):
            for name, given, result in (("boolean", truths, expected), ("min_max", ~truths, ~expected)):
                closed = closure(pack(given), name, reflexive=reflexive)
                assert closed == pack(result)  # tail bits too
                BitMatrix(closed.words, (n, n))
                np.testing.assert_array_equal(closure(given, name, method="rkleene", reflexive=reflexive), result)


def test_packed_gf2(monkeypatch, rng):
    n = 70
    A = np.triu(rng.random((n, n)) < 0.3, 1)
    expected = oracles.gf2_closure(A)
    np.testing.assert_array_equal(closure(pack(A), "xor_and").unpack(), expected)
    for columns in (irreflexive_closure._COLUMNS, 32):
        monkeypatch.setattr(irreflexive_closure, "_COLUMNS", columns)
        plus = closure(pack(A), "xor_and", reflexive=False).unpack()
        np.testing.assert_array_equal(plus, expected ^ np.eye(n, dtype=bool))
    A[64, 64] = True
    with pytest.raises(sr.errors.DivergenceError, match="vertex 64"):
        closure(pack(A), "xor_and")


@pytest.mark.parametrize("form", ["coo", "csr", "csc", "lil", "dok", "dia", "bsr"])
@pytest.mark.parametrize("method", ["auto", "johnson"])
def test_every_sparse_format(form, method):
    A = sparse.coo_array(([1.0, -2.0, 3.0], ([0, 1, 2], [1, 2, 0])), shape=(3, 3)).asformat(form)
    np.testing.assert_array_equal(closure(A, method=method), [[0, 1, -1], [1, 0, -2], [3, 4, 0]])


def test_packed_refusals():
    with pytest.raises(sr.errors.AlgebraError, match="floyd_warshall"):
        closure(pack(np.eye(3, dtype=bool)), "boolean", method="floyd_warshall")
    with pytest.raises(sr.errors.ShapeError):
        closure(pack(np.ones((2, 3), bool)), "boolean")
    with pytest.raises(sr.errors.DTypeError):
        closure(pack(np.ones((2, 2), bool)), "min_plus")
    with pytest.raises(sr.errors.ShapeError, match="BitMatrix"):
        closure(pack(np.ones((2, 2), bool)), "boolean", out=np.ones((2, 2), bool))


# ------------------------------------------------------------------------------------------------- sparse


def sparse_matrix(rng, n, low, high, form=sparse.csr_array, edges=3):
    rows, columns = rng.integers(0, n, (2, edges * n))
    return form(sparse.coo_array((rng.integers(low, high, edges * n).astype(float), (rows, columns)), shape=(n, n)))


def dense_of(matrix, name="min_plus"):
    """Return the dense matrix: 0̄ where nothing is stored, the best of entries that are stored twice."""
    entries = matrix.tocoo()
    result = np.full(matrix.shape, oracles.zero(name, entries.data.dtype))
    for i, j, value in zip(entries.row, entries.col, entries.data, strict=True):
        result[i, j] = oracles.ORACLES[name].add(result[i, j], value)
    return result


@pytest.mark.full
@pytest.mark.filterwarnings("ignore:A stores some entries more than once")
@pytest.mark.parametrize("method", ["auto", "rkleene", "johnson"])
@pytest.mark.parametrize(
    "form",
    full(
        lambda form: form in (sparse.csr_array, sparse.coo_array),
        [sparse.csr_array, sparse.csc_array, sparse.coo_array, sparse.csr_matrix],
    ),
)
def test_sparse_input(rng, form, method):
    for n in (1, 2, 40, 90):
        A = sparse_matrix(rng, n, 0, 9, form)  # stored zeros are weights
        expected = oracles.all_pairs_dijkstra(dense_of(A))
        result = closure(A, method=method)
        assert isinstance(result, np.ndarray)
        np.testing.assert_array_equal(result, expected)
        plus = closure(A, method=method, reflexive=False)
        np.testing.assert_array_equal(plus, oracles.closure(dense_of(A), "min_plus", reflexive=False))
        out = np.empty((n, n))
        assert closure(A, method=method, out=out) is out
        np.testing.assert_array_equal(out, expected)


def test_sparse_mixed_signs(rng):
    n = 80
    heights = rng.integers(0, 50, n)
    A = sparse_matrix(rng, n, 0, 9).tocoo()
    A.data = A.data + heights[A.col] - heights[A.row]
    expected = oracles.exact_distances(dense_of(A)).astype(float)
    for method in ("johnson", "rkleene", "auto"):
        np.testing.assert_array_equal(closure(A, method=method), expected)
    np.testing.assert_array_equal(closure(-A, "max_plus", method="johnson"), -expected)


def test_sparse_negative_cycle(rng):
    A = sparse_matrix(rng, 50, 1, 9).tolil()
    A[3, 17], A[17, 40], A[40, 3] = 1.0, -4.0, 2.5
    for method in ("johnson", "rkleene"):
        with pytest.raises(sr.errors.NegativeCycleError) as caught:
            closure(A.tocsr(), method=method)
        assert oracles.cycle_weight(dense_of(A.tocsr()), list(caught.value.cycle)) < 0


def test_sparse_other_semirings_and_dtypes(rng):
    A = sparse_matrix(rng, 60, 1, 9)
    np.testing.assert_array_equal(closure(A, "max_min"), oracles.closure(dense_of(A, "max_min"), "max_min"))
    B = A.astype(np.int32)
    np.testing.assert_array_equal(closure(B), oracles.closure(dense_of(B), "min_plus"))
    C = A.astype(np.float32)
    assert closure(C, method="johnson").dtype == np.float32


def test_sparse_refusals(rng):
    A = sparse_matrix(rng, 10, 1, 9)
    with pytest.raises(sr.errors.AlgebraError, match="johnson"):
        closure(A, "max_min", method="johnson")
    A.data[4] = np.nan
    for method in ("johnson", "rkleene"):
        with pytest.raises(sr.errors.DomainError, match="nan"):
            closure(A, method=method)


@pytest.mark.parametrize("form", ["csr", "csc", "coo", "dia", "lil"])
@pytest.mark.parametrize("semiring", ["min_plus", "plus_times", "boolean"])
def test_a_sparse_matrix_of_complex_numbers_is_refused(semiring, form):
    A = sparse.coo_array(np.eye(3, dtype=complex)).asformat(form)
    for arguments in ({}, {"out": np.zeros((3, 3), complex)}, {"method": "rkleene"}):
        with pytest.raises(sr.errors.DTypeError, match=f"{semiring} is not defined on complex128: .* Use (one|bool)"):
            closure(A, semiring, **arguments)


def test_auto_prefers_johnson_on_large_sparse_graphs():
    n = 40_000  # never closed: the test checks only the choice
    from semiring.algorithms.schedule import dense_operations, search_operations

    assert search_operations(n, 3 * n) < dense_operations(n, 8)
    assert search_operations(500, 500 * 500) > dense_operations(500, 8)
    costs = [search_operations(1000, edges) for edges in (0, 1000, 2000, 6000, 60_000, 10**6)]
    assert costs == sorted(costs)
    assert costs[0] > 0
    assert search_operations(0, 0) > 0
    assert search_operations(1000, 3000, 10) < search_operations(1000, 3000) / 50
    # Roads, on two threads: at n = 400 the dense closure is faster, at n = 3000 Dijkstra's algorithm twice as fast.
    assert dense_operations(400, 8) < search_operations(400, 1040)
    assert 2 * search_operations(3000, 7800) < dense_operations(3000, 8)


@pytest.mark.full
def test_the_way_of_a_sparse_graph_does_not_depend_on_threads():
    """The bits do not depend on the threads either, although Dijkstra and a dense closure add in another order."""
    from scipy.sparse import random_array

    for n, edges in ((600, 1.3), (600, 3)):
        A = random_array((n, n), density=edges / n, rng=np.random.default_rng(n), format="coo")
        said = [closure(A, threads=threads, explain=True)[1] for threads in (1, 2)]
        assert said[0].method == said[1].method
        np.testing.assert_array_equal(closure(A, threads=1), closure(A, threads=2))


def test_explains_the_choice_for_sparse_input(rng):
    _, explanation = closure(sparse_matrix(rng, 100, 1, 9), explain=True)
    assert explanation.method != "johnson"
    assert "johnson" in explanation.details


def test_a_nan_of_a_sparse_matrix_is_refused_as_that_of_the_dense_one():
    A = np.array([[np.inf, 1.0, np.nan], [2.0, np.inf, np.inf], [np.inf, np.nan, np.inf]])
    entries = np.nonzero(np.inf != A)
    for given in (A, sparse.coo_array((A[entries], entries), shape=A.shape)):
        for method in ("rkleene", "johnson"):
            with pytest.raises(sr.errors.DomainError) as caught:
                closure(given, method=method)
            assert (
                str(caught.value) == "A[0, 2] is nan, which is no element of any semiring; the zero of min_plus is inf"
            )
            assert caught.value.position == (0, 2)
