"""Test products of log_plus, computed by products of numbers, against arithmetic of fifty digits and more."""

from __future__ import annotations

import threading
import warnings

import mpmath
import numpy as np
import pytest
from log_kinds import KINDS
from tiers import full, quick

import semiring as sr
from semiring.errors import DomainError
from semiring.kernels.cpu import CpuBackend
from semiring.kernels.cpu.product import log_products, log_vectors
from semiring.kernels.cpu.thread_pool import run_tasks
from semiring.kernels.engine import make_plan

INF = np.inf
M, K, N = 70, 200, 90
TERMS = [(3, 7, 2), (2, 8, 2), (1, 8, 1), (2, 63, 3), (1, 300, 2), (2, 3000, 1), (2, 3000, 3)]
#: The kinds of data that take different ways through the kernels: the full tier's.
FULL = (
    "scores_to_1000",
    "huge_lines",
    "hidden_markov_models",
    "cancelling",
    "masks",
    "one_huge_entry",
    "subnormal_sums",
)
BOUND = {"float32": 4, "float64": 16}  # in units in the last place of max(1, |c|)


def normal(rng, *shape, scale=1.0):
    return rng.normal(0, scale, shape)


def exact(A, B, C=None):
    """Return the result of each entry as a number of two hundred bits, or -∞."""
    with mpmath.workprec(200):
        found = np.full((A.shape[0], B.shape[1]), mpmath.mpf(-INF), object)
        for i, j in np.ndindex(*found.shape):
            terms = [mpmath.mpf(float(a)) + mpmath.mpf(float(b)) for a, b in zip(A[i], B[:, j], strict=True)]
            terms += [] if C is None else [mpmath.mpf(float(C[i, j]))]
            top = max(terms)
            if top > -INF:
                near = [term - top for term in terms if term > top - 200]
                found[i, j] = top + mpmath.log(mpmath.fsum(map(mpmath.exp, near)))
        return found


def errors(actual, expected, dtype):
    """Return the differences in units of max(1, |c|)."""
    with mpmath.workprec(200):
        return np.array(
            [
                0.0
                if float(c) == (true := float(e)) == -INF
                else float(abs(mpmath.mpf(float(c)) - e)) / max(1.0, abs(true)) / np.finfo(dtype).eps
                for c, e in zip(actual.ravel(), expected.ravel(), strict=True)
            ]
        ).reshape(actual.shape)


def log_product(A, B, C=None, threads=1):
    assert log_products.can_multiply(make_plan(sr.log_plus, A.dtype), len(B))
    plan, result = make_plan(sr.log_plus, A.dtype, threads=threads), np.empty((A.shape[0], B.shape[1]), A.dtype)
    if C is None:
        CpuBackend().multiply(plan, result, A, B)
    else:
        result[...] = C
        CpuBackend().multiply_add(plan, result, A, B)
    return result


@pytest.mark.full
@pytest.mark.parametrize("dtype", full(lambda dtype: dtype == "float32", ["float32", "float64"]))
@pytest.mark.parametrize("name", full(lambda name: name in FULL, KINDS))
def test_errors_are_small_on_data_of_every_kind(rng, name, dtype):
    A, B = (matrix.astype(dtype) for matrix in KINDS[name](rng, M, K, N))
    rows, columns = [0, 3, 5, 6, 7, 9, *rng.integers(10, M, 4)], [0, 7, 13, *rng.integers(14, N, 5)]
    expected = exact(A[rows], B[:, columns])
    found = log_product(A, B)
    assert errors(found[np.ix_(rows, columns)], expected, dtype).max() <= BOUND[dtype]
    for threads in (1, 2):
        assert log_product(A, B, threads=threads).tobytes() == found.tobytes()
    C = np.where(rng.random(found.shape) < 0.2, -INF, found + normal(rng, *found.shape)).astype(dtype)
    C[::7] += 1000
    total = log_product(A, B, C)
    expected = exact(A[rows], B[:, columns], C[np.ix_(rows, columns)])
    assert errors(total[np.ix_(rows, columns)], expected, dtype).max() <= BOUND[dtype]


@pytest.mark.full
@pytest.mark.parametrize("dtype", quick(lambda dtype: dtype == "float32", ["float32", "float64"]))
def test_a_single_path_is_exact(rng, dtype):
    A, B = (matrix.astype(dtype) for matrix in KINDS["hidden_markov_models"](rng, M, K, N))
    paths = np.isfinite(A).astype(int) @ np.isfinite(B).astype(int)
    single = paths == 1
    assert single.sum() > 100
    best = sr.matmul(A, B, "max_plus")
    found = log_product(A, B)
    np.testing.assert_array_equal(found[single], best[single])
    np.testing.assert_array_equal(found == -INF, paths == 0)
    one = np.where(np.eye(K, dtype=bool), 0, -INF).astype(dtype)
    np.testing.assert_array_equal(log_product(A, one), A)
    np.testing.assert_array_equal(log_product(one, B), B)


@pytest.mark.full
def test_the_rows_of_a_do_not_know_each_other(rng):
    for name in ("scores", "maxima_that_never_meet", "masks", "one_huge_entry", "hidden_markov_models"):
        A, B = (matrix.astype(np.float32) for matrix in KINDS[name](rng, M, K, N))
        found = log_product(A, B)
        for rows in (slice(0, 2), slice(3, 40), slice(40, None)):
            assert log_product(A[rows], B).tobytes() == found[rows].tobytes()


@pytest.mark.full
@pytest.mark.parametrize("dtype", quick(lambda dtype: dtype == "float32", ["float32", "float64"]))
def test_blocks_and_depths(rng, dtype):
    """Sizes above those of a block in every direction are right, in products with a matrix of ordinary numbers."""
    A, B = (normal(rng, *shape).astype(dtype) for shape in ((1030, 700), (700, 1100)))
    expected = np.log(np.exp(A.astype(float)) @ np.exp(B.astype(float)))
    tolerance = BOUND[dtype] * np.finfo(dtype).eps
    np.testing.assert_allclose(log_product(A, B), expected, rtol=tolerance, atol=tolerance)
    assert log_product(A, B, threads=2).tobytes() == log_product(A, B).tobytes()


@pytest.mark.full
def test_c_may_be_b(rng):
    A, B = normal(rng, 1100, 1100).astype(np.float32), normal(rng, 1100, 1050).astype(np.float32)
    plan, expected = make_plan(sr.log_plus, "float32"), log_product(A, B)
    assert CpuBackend().can_multiply_in_place(plan, *B.shape)
    CpuBackend().multiply(plan, B, A, B)
    np.testing.assert_array_equal(B, expected)


@pytest.mark.full
def test_rows_lost_to_underflow_do_not_change_others(rng):
    """The first columns show which rows are lost, whether few terms of a sum count, some, or most."""
    A, B = (rng.uniform(-1e4, 1e4, shape).astype(np.float32) for shape in ((30, 150), (150, 1300)))
    A[::3] = normal(rng, 10, 150)
    A[1::3] *= 0.05
    B[:, ::2] *= 1e-3
    B[:, 5::7] = -INF
    B[::3, 11::9] = -INF
    expected = np.logaddexp.reduce(A.astype(np.float64)[:, :, None] + B, axis=1)
    found = log_product(A, B)
    np.testing.assert_array_equal(found == -INF, expected == -INF)
    scale = np.where(expected > -INF, np.maximum(1, abs(expected)), 1) * np.finfo(np.float32).eps
    with np.errstate(invalid="ignore"):
        assert np.nanmax(abs(found - expected) / scale) <= BOUND["float32"]
    for rows in (slice(0, 2), slice(2, 30, 3), slice(1, 17)):
        assert log_product(A[rows], B).tobytes() == found[rows].tobytes()
    assert log_product(A, B, threads=2).tobytes() == found.tobytes()
    total = log_product(A, B, found)
    assert np.nanmax(abs(total[expected > -INF] - expected[expected > -INF] - np.log(2)) / scale[expected > -INF]) <= 4


@pytest.mark.full
@pytest.mark.parametrize("dtype", quick(lambda dtype: dtype == "float32", ["float32", "float64"]))
def test_huge_entries_cost_their_rows_and_columns_alone(rng, dtype, monkeypatch):
    """Sums that underflow are computed with separate exponents and mantissas, whether or not huge entries are
    present."""
    A, B = (matrix.astype(dtype) for matrix in KINDS["barely_lost"](rng, M, K, N))
    usual = log_product(A, B)
    A[3, 5], A[40, 7], B[11, 13], B[60, 80] = 1e6, 3e30, 1e25, 9e5
    pairs = []
    multiply = log_products.log_lines.multiply
    monkeypatch.setattr(
        log_products.log_lines,
        "multiply",
        lambda A, B, threads: (pairs.append(A.shape[0] * B.shape[1]), multiply(A, B, threads))[1],
    )
    found = log_product(A, B)
    if dtype == "float32":
        assert sum(pairs) == 2 * N + 2 * M
    rows, columns = np.setdiff1d(np.arange(M), [3, 40]), np.setdiff1d(np.arange(N), [13, 80])
    assert found[np.ix_(rows, columns)].tobytes() == usual[np.ix_(rows, columns)].tobytes()
    some = np.ix_([3, 40, 0], [13, 80, 0])
    assert errors(found[some], exact(A[[3, 40, 0]], B[:, [13, 80, 0]]), dtype).max() <= BOUND[dtype]
    C = usual + 1
    total = log_product(A, B, C)
    expected = exact(A[[3, 40, 0]], B[:, [13, 80, 0]], C[some])
    assert errors(total[some], expected, dtype).max() <= BOUND[dtype]


@pytest.mark.full
def test_few_paths_among_many_columns(rng):
    """A row has more than one word of bits, and no path, one, or more."""
    A, B = (np.where(rng.random(shape) < 0.02, normal(rng, *shape), -INF) for shape in ((50, 300), (300, 130)))
    paths = np.isfinite(A).astype(int) @ np.isfinite(B).astype(int)
    assert {0, 1, 2} <= set(paths.ravel())
    with np.errstate(invalid="ignore"):
        expected = np.logaddexp.reduce(A[:, :, None] + B, axis=1)
    found = log_product(A, B)
    np.testing.assert_array_equal(found[paths < 2], expected[paths < 2])
    np.testing.assert_allclose(found[paths > 1], expected[paths > 1], rtol=0, atol=1e-14)


@pytest.mark.full
@pytest.mark.parametrize("dtype", full(lambda dtype: dtype == "float32", ["float32", "float64"]))
@pytest.mark.parametrize(
    ("k", "n"), full(lambda k, n: n < 40, [(63, 2), (64, 2), (63, 47), (300, 3), (200, 1), (1000, 60)])
)
def test_many_equal_terms_around_zero(rng, dtype, k, n):
    """The roundings have one sign, and a result of about 0 does not hide them."""
    A, B = np.full((7, k), -np.log(k)) + rng.uniform(-0.1, 0.1, (7, 1)), np.tile(rng.uniform(-0.1, 0.1, n), (k, 1))
    A, B = A.astype(dtype), B.astype(dtype)
    found = sr.matmul(A, B, "log_plus")
    assert errors(found, exact(A, B), dtype).max() <= BOUND[dtype]


@pytest.mark.parametrize("m", [2, 3, 49])
def test_strides(rng, m):
    A, B = normal(rng, m, 60).astype(np.float32), normal(rng, 60, 50).astype(np.float32)
    expected = log_product(A, B)
    views = (
        lambda X: np.asfortranarray(X),
        lambda X: np.repeat(X, 2, 1)[:, ::2],
        lambda X: X[::-1, ::-1].copy()[::-1, ::-1],
    )
    for view in views:
        result = view(np.empty_like(expected))
        CpuBackend().multiply(make_plan(sr.log_plus, "float32"), result, view(A), view(B))
        np.testing.assert_array_equal(result, expected)


@pytest.mark.full
@pytest.mark.parametrize("count", [1, 40, 300])
@pytest.mark.parametrize("repeats", [False, True])
def test_stacks_are_their_matrices(rng, count, repeats):
    """A stack has the bits of products one by one, also of one right operand that is repeated."""
    A, B = normal(rng, count, 20, 64).astype(np.float32), normal(rng, count, 64, 50).astype(np.float32)
    A[0, 3], B[-1, 5], B[count // 2, ::2] = -INF, 5e6, -INF
    if repeats:
        B[0, ::2] = -INF
        B = np.broadcast_to(B[0], B.shape)
    expected = np.stack([log_product(*pair) for pair in zip(A, B, strict=True)])
    for threads in (1, 2):
        C = np.empty_like(expected)
        CpuBackend().multiply(make_plan(sr.log_plus, "float32", threads=threads), C, A, B)
        np.testing.assert_array_equal(C, expected)


@pytest.mark.full
@pytest.mark.parametrize("huge", [2.2e6, 1e30, -1e30])
@pytest.mark.parametrize("dtype", quick(lambda dtype: dtype == "float32", ["float32", "float64"]))
@pytest.mark.parametrize("k", [64, 600])
def test_huge_lines_change_no_others(rng, k, dtype, huge):
    A, B = (normal(rng, *shape, scale=500).astype(dtype) for shape in ((5, k), (k, 50)))
    B[:, 8], A[3] = huge, -huge
    found = log_product(A, B)
    rows, columns = [0, 3, 4], [0, 8, 20]
    expected = exact(A[rows], B[:, columns])
    usual = np.ix_([0, 2], [0, 2])
    assert errors(found[np.ix_(rows, columns)], expected, dtype)[usual].max() <= BOUND[dtype]
    np.testing.assert_allclose(
        found[np.ix_(rows, columns)], expected.astype(float), rtol=1e-5 if dtype == "float32" else 1e-13
    )
    stacks = sr.matmul(np.stack([A, A[::-1]]), np.stack([B, B]), "log_plus")
    assert stacks.tobytes() == np.stack([found, found[::-1]]).tobytes()


@pytest.mark.full
def test_infinity_and_nan_do_as_in_small_products(rng):
    A, B = KINDS["scores"](rng, M, K, N)
    A[2, 3], B[4, 5], B[:, 6] = INF, INF, -INF
    B[9, 8] = -INF
    A[11, 9] = INF
    plan, none = make_plan(sr.log_plus, "float64"), np.empty((0, 0), np.int32)
    from semiring.kernels.cpu.kernels import kernels_for

    expected = np.empty((M, N))
    kernels_for(plan).product(expected, A, B, none, 0, 0, 0, 1)
    found = log_product(A, B)
    np.testing.assert_array_equal(found == INF, expected == INF)
    np.testing.assert_array_equal(found == -INF, expected == -INF)
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_the_floating_point_state_stays(rng):
    A, B = (matrix.astype(np.float32) for matrix in KINDS["subnormal_sums"](rng, M, K, N))
    tiny = np.array([2.0**-1060, 2.0**-1070])
    with np.errstate(all="raise"):
        log_product(A, B, threads=2)
    assert np.all(tiny * 1.0 == [2.0**-1060, 2.0**-1070])
    assert np.all(tiny + tiny > 0)
    assert np.float32(2.0**-140) * np.float32(1) > 0


@pytest.mark.full
def test_threads_keep_their_floating_point_state(rng):
    """Threads that have added up compute with subnormal numbers before and after, as the caller's thread does."""
    A, B = (matrix.astype(np.float32) for matrix in KINDS["subnormal_sums"](rng, 300, 300, 300))
    tiny, everyone = np.array([2.0**-1060, 2.0**-1070]), threading.Barrier(2)

    def states():
        found = {}

        def look(place):
            everyone.wait(30)
            found[place] = threading.get_ident(), bool(np.all(tiny * 1.0 == [2.0**-1060, 2.0**-1070]))

        run_tasks(look, [(0,), (1,)], 2)
        return list(found.values())

    before = [state for _ in range(20) for state in states()]  # of whichever threads the pool has
    log_product(A, B, threads=2)
    sr.matmul(np.tile(A, (8, 1)), B[:, 0], "log_plus", threads=2)
    after = [state for _ in range(20) for state in states()]
    assert all(subnormal for _, subnormal in before + after)
    assert len({thread for thread, _ in before} & {thread for thread, _ in after}) >= 2


@pytest.mark.parametrize("name", ["scores", "scores_to_1000", "equal_terms", "maxima_that_never_meet"])
def test_float64_of_1024_terms(rng, name):
    A, B = KINDS[name](rng, 64, 1024, 64)
    found = log_product(A, B)
    assert errors(found[:2, :3], exact(A[:2], B[:, :3]), "float64").max() <= 16


@pytest.mark.full
def test_other_semirings_and_few_terms_are_left_to_their_kernels():
    own = sr.Semiring("own", sr.log_plus.add.expression.text, "x + y", -INF, 0)
    assert log_products.can_multiply(make_plan(own, "float32"), 64)
    for semiring, k in ((sr.max_plus, 64), (sr.log_plus, 5)):
        assert not log_products.can_multiply(make_plan(semiring, "float32"), k)


@pytest.mark.full
@pytest.mark.parametrize("dtype", full(lambda dtype: dtype == "float32", ["float32", "float64"]))
@pytest.mark.parametrize(
    "shape", full(lambda shape: shape[2] == 1 or shape[1] in (63, 300), [(each,) for each in TERMS])
)
def test_terms_of_any_size_are_added_up_by_shapes_of_every_kind(rng, dtype, shape):
    """Many near terms are added up where one more is below half a unit of the sum: alone, with a matrix, in stacks."""
    m, k, n = shape
    for size in (1.0, 3e3, 1.3e5, 5.5e5, 4e6):
        A, B = (
            np.full((m, k), 0.97 * size) + rng.uniform(-0.1, 0.1, (m, 1)),
            1.03 * size + rng.uniform(-0.1, 0.1, (k, n)),
        )
        A, B = A.astype(dtype), B.astype(dtype)
        C = (A.max(1, keepdims=True) + B.max(0)).astype(dtype)
        C[0] = -INF
        plan, total, stacks = make_plan(sr.log_plus, dtype), C.copy(), np.empty((2, m, n), dtype)
        CpuBackend().multiply_add(plan, total, A, B)
        CpuBackend().multiply(plan, stacks, np.stack([A, A]), np.stack([B, B]))
        rows = slice(0, 2)
        assert errors(total[rows], exact(A[rows], B, C[rows]), dtype).max() <= BOUND[dtype]
        expected = exact(A[rows], B)
        for found in (sr.matmul(A, B, "log_plus"), stacks[1]):
            assert errors(found[rows], expected, dtype).max() <= BOUND[dtype]


@pytest.mark.parametrize("dtype", quick(lambda dtype: dtype == "float32", ["float32", "float64"]))
@pytest.mark.parametrize(
    "shape",
    [
        (3, 5, 4),
        *(pytest.param(shape, marks=pytest.mark.full) for shape in [(3, 9, 4), (3, 9, 1), (1, 200, 3), (90, 200, 70)]),
    ],
)
def test_infinity_times_no_path_is_no_path(rng, dtype, shape):
    """The zero −∞ of the semiring annihilates ∞, beside other terms and alone."""
    m, k, n = shape
    A, B = normal(rng, m, k).astype(dtype), normal(rng, k, n).astype(dtype)
    A[0, 1], B[1, 0] = INF, -INF
    without = A.copy()
    without[0, 1] = -INF
    expected = sr.matmul(without, B, "log_plus")
    found, turned = sr.matmul(A, B, "log_plus", check=False), sr.matmul(B.T, A.T, "log_plus", check=False).T
    for result in (found, turned):
        np.testing.assert_allclose(result[0, 0], expected[0, 0], rtol=1e-5)
        assert np.all(result[0, 1:] == INF)
        np.testing.assert_allclose(result[1:], expected[1:], rtol=1e-5)
    B[:1] = B[2:] = -INF
    assert sr.matmul(A, B, "log_plus", check=False)[0, 0] == -INF
    assert sr.log_plus.add(sr.log_plus.mul(INF, -INF), 3.0) == 3.0


@pytest.mark.full
@pytest.mark.parametrize("dtype", quick(lambda dtype: dtype == "float32", ["float32", "float64"]))
@pytest.mark.parametrize("name", KINDS)
def test_a_matrix_and_a_vector(rng, name, dtype):
    """Vector products have the errors of matrix products, in every orientation and memory order, on threads, in
    stacks."""
    A, B = (matrix.astype(dtype) for matrix in KINDS[name](rng, 33, K, 300))
    b, rows = np.ascontiguousarray(B[:, 7:8]), [0, 3, 5, 6, 7, 9, 30]
    expected = exact(A[rows], b)
    found = vector_product(A, b)
    assert errors(found[rows], expected, dtype).max() <= BOUND[dtype]
    for left, right in ((np.asfortranarray(A), b), (np.repeat(A, 2, 1)[:, ::2], b), (b.T, A.T), (b.T, A.T.copy())):
        for threads in (1, 2):
            other = vector_product(left, right, threads=threads).reshape(-1, 1)
            assert errors(other[rows], expected, dtype).max() <= BOUND[dtype]
    stack, vectors = np.stack([A, A]), np.stack([b, b])
    assert vector_product(stack, vectors)[1].tobytes() == found.tobytes()
    C = np.where(rng.random(found.shape) < 0.2, -INF, found + normal(rng, *found.shape)).astype(dtype)
    total = vector_product(A, b, C)
    assert errors(total[rows], exact(A[rows], b, C[rows]), dtype).max() <= BOUND[dtype]


def vector_product(A, B, C=None, threads=1):
    plan = make_plan(sr.log_plus, A.dtype, threads=threads)
    result = np.empty((*A.shape[:-1], B.shape[-1]), A.dtype) if C is None else C.copy()
    assert log_vectors.can_multiply(plan, A.shape[-2], A.shape[-1], B.shape[-1])
    (CpuBackend().multiply if C is None else CpuBackend().multiply_add)(plan, result, A, B)
    return result


def test_a_vector_with_a_single_path_is_exact_and_infinities_stay(rng):
    A, x = np.full((40, 200), -INF, np.float32), normal(rng, 200).astype(np.float32)
    A[np.arange(40), rng.integers(0, 200, 40)] = normal(rng, 40)
    A[3], A[4, 5], x[6] = -INF, INF, -INF
    A[7, 8], x[9] = INF, INF
    A[:, 9] = -INF
    with np.errstate(invalid="ignore"):
        expected = sr.matmul(A, x, "max_plus", check=False)
    np.testing.assert_array_equal(vector_product(A, x[:, None])[:, 0], expected)
    np.testing.assert_array_equal(vector_product(x[None], np.ascontiguousarray(A.T))[0], expected)


@pytest.mark.parametrize("is_transposed", [False, True])
def test_a_single_path_to_a_vector_is_exact_where_all_is_float32(rng, is_transposed):
    A, x, rows = np.full((300, 130), -INF, np.float32), normal(rng, 130).astype(np.float32), np.arange(300)
    columns, entries = rng.integers(0, 130, 300), normal(rng, 300).astype(np.float32)
    A[rows, columns] = entries
    A[7] = -INF
    found = vector_product(np.asfortranarray(A) if is_transposed else A, x[:, None])[:, 0]
    expected = entries + x[columns]
    expected[7] = -INF
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("is_transposed", [False, True])
def test_numbers_below_all_exponents_are_no_infinities(is_transposed):
    for entry, number in ((0, -2e6), (0, -1e30), (-3e38, 0), (-1e30, -1e31)):
        A, x = np.full((20, 130), entry, np.float32), np.full((130, 1), number, np.float32)
        A[3] = -INF
        found = vector_product(np.asfortranarray(A) if is_transposed else A, x)[:, 0]
        expected = np.full(20, float(A[0, 0]) + float(x[0, 0]) + np.log(130))
        expected[3] = -INF
        np.testing.assert_allclose(found, expected, rtol=2.0**-23)


@pytest.mark.parametrize("shapes", [((0, 5, 200), (200,)), ((0, 5, 200), (200, 1)), ((5, 200), (0, 200, 1))])
def test_no_products_with_a_vector(shapes):
    A, B = map(np.zeros, shapes)
    assert sr.matmul(A, B, "log_plus").shape == np.matmul(A, B).shape


@pytest.mark.full
@pytest.mark.parametrize("dtype", quick(lambda dtype: dtype == "float32", ["float32", "float64"]))
def test_a_large_matrix_and_a_vector_on_threads(rng, dtype):
    A, x = normal(rng, 1100, 900).astype(dtype), normal(rng, 900).astype(dtype)
    A[::3] += 500
    for order in ("C", "F"):
        alone, together = (sr.matmul(np.array(A, order=order), x, "log_plus", threads=threads) for threads in (1, 2))
        assert alone.tobytes() == together.tobytes()
        tolerance = BOUND[dtype] * np.finfo(dtype).eps
        expected = np.logaddexp.reduce(A.astype(np.longdouble) + x, axis=1)
        np.testing.assert_allclose(alone, expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("bad", [np.nan, INF])
@pytest.mark.parametrize("dtype", quick(lambda dtype: dtype == "float32", ["float32", "float64"]))
def test_entries_that_are_no_numbers_are_found_in_products_with_a_vector(rng, dtype, bad):
    """Kernels that do not scan the operands find NaN and ∞ in the matrix or vector, beside -∞ too, and leave
    ``out``."""
    A, x = normal(rng, 30, 200).astype(dtype), normal(rng, 200).astype(dtype)
    A[5, 7] = -INF
    for k in (0, 100, 197):
        spoilt, vector, hidden = A.copy(), x.copy(), x.copy()
        spoilt[17, k] = vector[k] = bad
        hidden[k] = -INF
        out = np.full(30, 7, dtype)
        for left, right, place in (
            (spoilt, x, rf"A\[17, {k}\]"),
            (np.asfortranarray(spoilt), x, rf"A\[17, {k}\]"),
            (spoilt, hidden, rf"A\[17, {k}\]"),
            (x, spoilt.T, rf"B\[{k}, 17\]"),
            (A, vector, rf"B\[{k}\]"),
            (A[None], vector[None, :, None], rf"B\[0, {k}, 0\]"),
        ):
            with pytest.raises(DomainError, match=place):
                sr.matmul(left, right, "log_plus", out=out if left.ndim + right.ndim == 3 else None)
        assert np.all(out == 7)
    A[17, 3] = np.finfo(dtype).max
    x[3] = np.finfo(dtype).max
    assert sr.matmul(A, x, "log_plus")[17] == INF  # the sum is, its terms are not


@pytest.mark.parametrize("is_transposed", [False, True])
def test_sums_are_formed_again_where_their_first_terms_mislead(rng, is_transposed):
    """First terms may be -∞, far below or far above the others, at sizes near those of vectors, with masks."""
    for k in (131, 145, 700):
        A, x = normal(rng, 40, k).astype(np.float32), normal(rng, k).astype(np.float32)
        A[1, :40], A[2, :40], A[3, :40] = -INF, -400, 300
        A[4, 50:], A[5, 50:], A[6] = -500, 3e4, -3e5
        A[7], A[8, 1:], A[9, ::2], A[10] = -1e9, -INF, -1e9, -INF
        A[11, -1], A[12] = 5e4, 2e6
        for vector in (x, np.where(rng.random(k) < 0.3, -1e9, x).astype(np.float32), x + np.float32(3e6)):
            b = vector[:, None]
            expected = np.logaddexp.reduce(A.astype(np.float64) + vector, axis=1)
            found = vector_product(np.asfortranarray(A) if is_transposed else A, b)[:, 0]
            np.testing.assert_array_equal(found == -INF, expected == -INF)
            there = expected > -INF
            units = abs(found[there] - expected[there]) / np.maximum(1, abs(expected[there])) / 2.0**-23
            assert units.max() <= BOUND["float32"]
            assert vector_product(A[3:5], b).tobytes() == vector_product(A, b)[3:5].tobytes()


@pytest.mark.parametrize("k", quick(lambda k: k < 100, [20, 300]))
def test_entries_beside_the_range_of_plain_terms(rng, k):
    """Each matrix has one entry around ±44, or one whose n of `exponential_sums` has bits like the range."""
    entries = [43.9, 44.1, 45, 60, -43.9, -44.4, -45, -100, -9.09e4, -90912.5, -1.817e5, -2.7257e5, -2.72614e5, 9.1e4]
    A, x = normal(rng, 1 + len(entries), k).astype(np.float32), normal(rng, k).astype(np.float32)
    A[1:, 7] = entries
    far = np.where(np.arange(k) % 3, x, x - 30).astype(np.float32)
    for vector in (x, x + np.float32(4090), x - np.float32(5000), far, 2 * far):
        found, expected = vector_product(A, vector[:, None]), exact(A, vector[:, None])
        assert errors(found, expected, "float32").max() <= BOUND["float32"]
        for i in (0, 3, 9):
            assert vector_product(np.repeat(A[i : i + 1], 2, 0), vector[:, None])[0] == found[i]


@pytest.mark.parametrize("is_transposed", [False, True])
def test_a_line_times_a_vector_knows_neither_other_lines_nor_other_vectors(rng, is_transposed):
    """The bits of a line times a vector depend on no other line or vector, large or masked."""
    A, x = normal(rng, 9, 3, 140).astype(np.float32), normal(rng, 9, 140, 1).astype(np.float32)
    A[0, 1], A[3, 2, 7], A[4] = 5e4, 2e6, 5e3 * normal(rng, 3, 140)
    x[2, ::3], x[5, 3], x[6, 8], x[7] = -1e9, -1e5, 1e6, 9e3 * normal(rng, 140, 1)
    M = A.swapaxes(1, 2).copy().swapaxes(1, 2) if is_transposed else A
    found = vector_product(M, x)
    for b in range(len(A)):
        for i in range(3):
            one = np.repeat(A[b, i : i + 1], 2, 0)
            one = np.asfortranarray(one) if is_transposed else one
            assert vector_product(one, x[b])[0].tobytes() == found[b, i].tobytes()
    expected = np.logaddexp.reduce(A.astype(float) + x.swapaxes(1, 2), axis=2)
    np.testing.assert_allclose(found[..., 0], expected, rtol=4 * 2.0**-23, atol=4 * 2.0**-23)


def test_the_sum_of_great_terms_overflows_without_a_warning(rng):
    A, x = normal(rng, 30, 140).astype(np.float32), normal(rng, 140).astype(np.float32)
    A[4, 5] = x[5] = np.finfo(np.float32).max
    expected = np.logaddexp.reduce(A.astype(float) + x, axis=1)
    found = sr.matmul(A, x, "log_plus")
    assert found[4] == INF
    np.testing.assert_allclose(np.delete(found, 4), np.delete(expected, 4), rtol=1e-6)


@pytest.mark.parametrize(
    ("dtype", "k"), quick(lambda dtype, _: dtype == "float32", [("float32", 200), ("float64", 64)])
)
@pytest.mark.parametrize("name", quick(lambda name: name in ("scores", "masks", "barely_lost"), KINDS))
def test_small_products_have_the_bits_of_large_ones(rng, name, dtype, k):
    """The loop over a stack agrees with blocks and passes over whole arrays, which also compute what it leaves out."""
    pairs = [KINDS[name](rng, 75, k, 75) for _ in range(3)] + [KINDS["scores"](rng, 75, k, 75)]
    A, B = (np.stack(matrices).astype(dtype) for matrices in zip(*pairs, strict=True))
    C = np.where(rng.random((4, 75, 75)) < 0.3, -INF, normal(rng, 4, 75, 75)).astype(dtype)
    backend, plan = CpuBackend(), make_plan(sr.log_plus, dtype, threads=2)
    for accumulate in (0, 1):
        small, large = C.copy(), C.copy()
        log_products.multiply(backend, plan, small, A, B, accumulate)
        for b in range(4):
            log_products.multiply_by(backend, plan, large[b], A[b], log_products.RightOperand(B[b], 2), accumulate)
        np.testing.assert_array_equal(small, large)
        turned = np.asfortranarray(C)
        log_products.multiply(backend, plan, turned, A[:, ::-1][:, ::-1], np.asfortranarray(B), accumulate)
        np.testing.assert_array_equal(turned, large)


def test_finite_entries_below_the_range_stay_in_the_loop_over_a_stack(rng, monkeypatch):
    """A mask of -10⁹ in place of -∞ sends no matrix of a stack to the products of large matrices."""
    A, B = normal(rng, 5, 20, 30).astype(np.float32), normal(rng, 5, 30, 40).astype(np.float32)
    A[rng.random(A.shape) < 0.5] = -1e9
    expected = np.logaddexp.reduce(A.astype(float)[..., None] + B[:, None], axis=2)
    monkeypatch.setattr(log_products, "multiply_by", None)
    np.testing.assert_allclose(sr.matmul(A, B, "log_plus"), expected, rtol=4 * 2.0**-23, atol=4 * 2.0**-23)


@pytest.mark.full
def test_blocks_of_columns_are_narrower_where_many_rows_are_packed(rng, monkeypatch):
    """Cutting a product changes no bit, and rows lost to underflow in the first columns are not tried in later ones."""
    A, B = normal(rng, 40, 300).astype(np.float32), normal(rng, 300, 900).astype(np.float32)
    A[5] *= 3e4
    expected = log_product(A, B)
    monkeypatch.setattr(log_products, "_PACKED_ENTRIES", 1)
    usual = np.delete(np.arange(40), 5)
    np.testing.assert_array_equal(log_product(A, B)[usual], expected[usual])
    assert errors(log_product(A, B)[5:6, ::90], exact(A[5:6], B[:, ::90]), "float32").max() <= BOUND["float32"]


@pytest.mark.parametrize("kind", ["normal", "sparse", "far apart"])
@pytest.mark.parametrize("dtype", quick(lambda dtype: dtype == "float32", ["float32", "float64"]))
@pytest.mark.parametrize(
    "n", quick(lambda n: n < 32, full(lambda n: n in (1, 9, 33, 193), [1, 2, 9, 31, 32, 33, 64, 100, 193, 300]))
)
def test_closures_round_an_entry_a_few_times(rng, n, dtype, kind):
    """The closure differs by a few roundings from elimination in more digits, log (I - exp A)⁻¹."""
    A = rng.normal(size=(n, n)) * (30 if kind == "far apart" else 1) - np.log(n) - (150 if kind == "far apart" else 2)
    if kind == "sparse":
        A[rng.random((n, n)) < 0.7] = -INF
    A = A.astype(dtype)
    left, inverse = np.eye(n, dtype=np.longdouble) - np.exp(A.astype(np.longdouble)), np.eye(n, dtype=np.longdouble)
    for k in range(n):
        pivot, factors = left[k, k], left[:, k].copy()
        left[k], inverse[k], factors[k] = left[k] / pivot, inverse[k] / pivot, 0
        left -= factors[:, None] * left[k]
        inverse -= factors[:, None] * inverse[k]
    there = inverse > 0
    expected = np.log(inverse[there])
    for method in ("auto", "rkleene", "blocked_floyd_warshall"):
        found = sr.closure(A, "log_plus", method=method)
        np.testing.assert_array_equal(found > -INF, there)
        units = np.abs(found[there] - expected) / np.maximum(1, np.abs(expected)) / np.finfo(dtype).eps
        assert units.max() <= {"float32": 3, "float64": 8}[dtype]


@pytest.mark.parametrize("dtype", quick(lambda dtype: dtype == "float32", ["float32", "float64"]))
def test_closures_whose_loops_add_up_to_one_are_refused_or_told(rng, dtype):
    """Rows that add up to 1 diverge, and rows that add up to less, as far as the dtype shows it, do not."""
    told = 0
    for n in (2, 5, 50):
        for _ in range(8):
            A = np.log(rng.dirichlet(np.ones(n), n)).astype(dtype)
            with warnings.catch_warnings(record=True) as seen:
                warnings.simplefilter("always")
                try:
                    sr.closure(A, "log_plus")
                except sr.errors.DivergenceError:
                    continue
            assert [each.category for each in seen] == [sr.errors.RoundingWarning]
            assert "may not exist" in str(seen[0].message)
            assert seen[0].filename == __file__
            told += 1
            stack = np.stack([A, A])
            with pytest.warns(sr.errors.RoundingWarning, match="may not exist in log_plus"):
                sr.closure(stack, "log_plus", out=stack)
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                sr.closure(A - np.asarray(1e-3, dtype), "log_plus")
                sr.closure(A, "log_plus", check=False)
    assert told
