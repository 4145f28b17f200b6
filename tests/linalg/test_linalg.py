"""Test the linear algebra that users call, against `oracles`: operands, shapes, dtypes, integers, errors."""

from __future__ import annotations

import itertools
import re

import numpy as np
import oracles
import pytest
from operands import entries

import semiring as sr
from semiring.errors import (
    AlgebraError,
    DomainError,
    DTypeError,
    IntegerOverflowError,
    SemiringError,
    ShapeError,
    UnknownNameError,
)

INF = np.inf
TOP = {"int16": 2**15 - 1, "int32": 2**31 - 1, "int64": 2**63 - 1}
BOTTOM = {dtype: -top - 1 for dtype, top in TOP.items()}
CASES = [
    *(("min_plus", dtype) for dtype in ("float32", "float64", "int16", "int64")),
    *(
        ("max_plus", "int32"),
        ("max_min", "float32"),
        ("max_min", "uint8"),
        ("boolean", "bool"),
        ("plus_times", "float64"),
    ),
]


# ------------------------------------------------------------------------------------------------- matmul


@pytest.mark.parametrize(("name", "dtype"), CASES)
def test_matmul(name, dtype, rng):
    for m, k, n in [(0, 2, 3), (2, 0, 3), (3, 2, 0), (1, 1, 1), (4, 4, 4), (7, 65, 33), (66, 5, 97)]:
        A, B = entries(rng, name, dtype, (m, k)), entries(rng, name, dtype, (k, n))
        expected = oracles.product(A, B, name)
        result = sr.matmul(A, B, name)
        assert result.dtype == np.dtype(dtype)
        np.testing.assert_array_equal(result, expected)
        np.testing.assert_array_equal(sr.matmul(A, B, sr.CATALOGUE[name], check=False, threads=1), expected)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        *(((3,), (3,)), ((3,), ()), ((), (3,)), ((2, 1), (3,)), ((2, 3), (2, 3)), ((1, 3), (2, 1)), ((0,), ())),
        ((0, 2), (1,)),
    ],
)
@pytest.mark.parametrize(("name", "dtype"), [("min_plus", "float32"), ("min_plus", "int32"), ("plus_times", "float64")])
def test_batches_broadcast(left, right, name, dtype, rng):
    A, B = entries(rng, name, dtype, (*left, 5, 7)), entries(rng, name, dtype, (*right, 7, 4))
    batch = np.broadcast_shapes(left, right)
    wide_a, wide_b = np.broadcast_to(A, (*batch, 5, 7)), np.broadcast_to(B, (*batch, 7, 4))
    expected = np.empty((*batch, 5, 4), dtype)
    for index in np.ndindex(batch):
        expected[index] = oracles.product(wide_a[index], wide_b[index], name)
    for first in (A, np.asfortranarray(A)):
        result = sr.matmul(first, B, name)
        assert result.shape == expected.shape
        np.testing.assert_array_equal(result, expected)
    out = np.zeros((*batch, 4, 5), dtype).swapaxes(-1, -2)
    assert sr.matmul(A, B, name, out=out) is out
    np.testing.assert_array_equal(out, expected)
    if name == "min_plus":
        product, witness = sr.matmul(A, B, name, return_witness=True)
        np.testing.assert_array_equal(product, expected)
        for index in np.ndindex(batch):
            np.testing.assert_array_equal(witness[index], oracles.witness(wide_a[index], wide_b[index], name))


def test_vectors_follow_numpy(rng):
    A, B, x, y = (entries(rng, "plus_times", "float64", shape) for shape in ((4, 6), (3, 6, 5), (6,), (6,)))
    for left, right in [(A, x), (x, A.T), (x, y), (x, B), (B.swapaxes(1, 2), x)]:
        A_, B_ = np.nan_to_num(left, posinf=0), np.nan_to_num(right, posinf=0)
        expected = np.matmul(A_, B_)
        found = sr.matmul(A_, B_, "plus_times")
        assert np.shape(found) == np.shape(expected)
        np.testing.assert_array_equal(found, expected)
    assert isinstance(sr.matmul(x, y, "plus_times"), np.float64)
    out = np.zeros(4)
    assert sr.matmul(A, x, "plus_times", out=out) is out
    np.testing.assert_array_equal(out, A @ x)
    assert sr.matmul([], [], "min_plus") == INF
    assert sr.matmul(np.zeros((0, 3)), np.zeros(3)).shape == (0,)


def test_out_may_be_an_operand(rng):
    for name, dtype in (("min_plus", "float64"), ("plus_times", "float64"), ("min_plus", "int32")):
        A, B = entries(rng, name, dtype, (9, 9)), entries(rng, name, dtype, (9, 9))
        expected = oracles.product(A, B, name)
        first = A.copy()
        assert sr.matmul(first, B, name, out=first) is first
        np.testing.assert_array_equal(first, expected)
        second = B.copy()
        sr.matmul(A, second, name, out=second.T)
        np.testing.assert_array_equal(second.T, expected)
        whole = np.concatenate([A, B])  # rows 4 … 12 overlap with both
        sr.matmul(whole[:9], whole[9:], name, out=whole[4:13])
        np.testing.assert_array_equal(whole[4:13], expected)
        beside = np.empty((9, 27), dtype)  # interleaved, but no element is shared: written in place
        beside[:, ::3], beside[:, 1::3] = A, B
        sr.matmul(beside[:, ::3], beside[:, 1::3], name, out=beside[:, 2::3])
        np.testing.assert_array_equal(beside[:, 2::3], expected)


def test_an_error_leaves_out_alone():
    A, out = np.array([[1.0, np.nan]]), np.full((1, 1), 7.0)
    with pytest.raises(DomainError, match=r"A\[0, 1\] is nan"):
        sr.matmul(A, [[1.0], [2.0]], out=out)
    assert out == 7


def test_mixed_dtypes_follow_numpy():
    A = np.array([[1, TOP["int16"]]], np.int16)
    for dtype in ("int16", "int32", "int64", "float32", "float64"):
        B = np.array([[3], [4]], dtype)
        result = sr.matmul(A, B)
        assert result.dtype == np.result_type(A, B)
        assert result.tolist() == [[4]]
    assert sr.matmul(A, [[3.5], [1]]).tolist() == [[4.5]]
    assert sr.matmul(np.array([[True]]), np.array([[3.0]]), "plus_times").tolist() == [[3.0]]
    with pytest.raises(DTypeError, match="boolean is not defined on float64"):
        sr.matmul([[1.5]], [[1.0]], "boolean")


SQUARE, SMALL, WIDE = np.zeros((3, 3)), np.zeros((2, 2), np.int16), np.zeros((2, 3))


@pytest.mark.parametrize(
    ("function", "arguments", "options", "error", "message"),
    [
        (
            sr.matmul,
            (np.zeros((3, 4)), np.zeros((5, 2))),
            {},
            ShapeError,
            r"A is \(3, 4\), B is \(5, 2\): inner sizes 4",
        ),
        (sr.matmul, (np.zeros((2, 3, 3)), np.zeros((4, 3, 3))), {}, ShapeError, "leading dimensions do not broadcast"),
        (sr.matmul, (3.0, SQUARE), {}, ShapeError, "a scalar is no operand"),
        (sr.matmul, (SQUARE, SQUARE), {"out": WIDE}, ShapeError, r"out is \(2, 3\), the result is \(3, 3\)"),
        (sr.matmul, (SQUARE, [1.0, 2.0]), {}, ShapeError, "inner sizes 3 and 2 differ"),
        (sr.matmul, (SQUARE, SQUARE), {"out": np.zeros((3, 3), "f4")}, DTypeError, "out has dtype float32"),
        (sr.matmul, (SQUARE, SQUARE, "min_pluss"), {}, UnknownNameError, "Did you mean 'min_plus'"),
        (
            sr.matmul,
            ([[1.0]], [[0.0, 1.5]], "lukasiewicz"),
            {},
            DomainError,
            r"B\[0, 1\] is 1.5, outside the domain \[0",
        ),
        (sr.matmul, (SQUARE, SQUARE, "boolean"), {}, DTypeError, r"Use bool\..* A != 0 or A < inf"),
        (sr.add, (np.zeros((2, 3)), np.zeros(2)), {}, ShapeError, "do not broadcast"),
        (sr.add, ([1.0, 2.0], [1.0, np.nan]), {}, DomainError, r"B\[1\] is nan"),
        (sr.identity, (2.5,), {}, TypeError, r"the size of an identity is an integer, not 2\.5"),
        (sr.identity, (-1,), {}, ValueError, "at least 0"),
        (sr.zeros, (2, "boolean", "float32"), {}, DTypeError, None),
        (sr.power, (SQUARE, 1.5), {}, TypeError, r"the exponent is an integer, not 1\.5"),
        (sr.power, ([[1.0]], -1), {}, ValueError, "exponent is -1"),
        (sr.power, ([[1.0, 2.0]], 2), {}, ShapeError, r"A is \(1, 2\): a square matrix is needed"),
        (sr.power, ([[np.nan]], 2), {}, DomainError, None),
        (sr.power, (np.array([[30]], np.int16), 2_000), {}, IntegerOverflowError, None),
        (sr.blas.gemv, (SQUARE, [1.0, 2.0]), {}, ShapeError, r"A is \(3, 3\), x is \(2,\): inner sizes 3 and 2 differ"),
        (sr.blas.gemv, (SQUARE, SQUARE), {}, ShapeError, None),
        (sr.blas.ger, (SQUARE, np.zeros(2)), {}, ShapeError, None),
        (sr.blas.ger, (np.zeros(2), np.zeros(2), WIDE), {}, ShapeError, None),
        (
            sr.blas.dot,
            ([1.0], [1.0, 2.0]),
            {},
            ShapeError,
            r"x is \(1,\), y is \(2,\): dot takes vectors of one length",
        ),
        (sr.blas.dot, (SQUARE, np.zeros(2)), {}, ShapeError, None),
        (sr.blas.gemm, (WIDE, WIDE), {}, ShapeError, r"A is \(2, 3\), B is \(2, 3\): inner sizes 3 and 2 differ"),
        (sr.blas.gemm, (WIDE, WIDE.T, WIDE.T), {"beta": 0}, ShapeError, r"C is \(3, 2\), the product is \(2, 2\)"),
        (sr.blas.gemm, (SQUARE, SQUARE, WIDE), {"beta": INF}, ShapeError, None),
        (sr.blas.gemm, (WIDE, WIDE.T), {"alpha": np.zeros(2)}, ShapeError, r"alpha is \(2,\): it must be a scalar"),
        (sr.blas.gemm, (np.zeros((1, 2, 2)), WIDE), {}, ShapeError, "gemm takes matrices"),
        (sr.blas.gemm, (SMALL, SMALL), {"alpha": -INF}, DTypeError, "alpha is -inf, which int16 does not hold"),
        (sr.blas.gemm, (SMALL, SMALL, None, "max_plus"), {"alpha": INF}, DTypeError, "alpha is inf, which int16 does"),
        (
            sr.blas.gemm,
            (SMALL, SMALL, None, "plus_times"),
            {"alpha": INF},
            DTypeError,
            "alpha is inf, which int16 does",
        ),
        (sr.blas.gemm, (SMALL, SMALL), {"alpha": 70_000}, DTypeError, "alpha is 70000, which int16 does not hold"),
        (sr.blas.gemm, (WIDE, WIDE.T), {"alpha": np.nan}, DomainError, "alpha is nan"),
        (
            sr.blas.gemm,
            (WIDE, WIDE.T, SMALL, "max_times"),
            {"beta": -1},
            DomainError,
            r"beta is -1\.0, outside the domain",
        ),
        (sr.blas.gemm, (SQUARE, SQUARE), {"beta": 0}, ValueError, "beta is given, but no C"),
        (sr.blas.gemm, (SQUARE[:1], SQUARE, [[0, np.nan, 0]]), {"beta": 0}, DomainError, r"C\[0, 1\] is nan"),
    ],
)
def test_what_is_wrong_is_named(function, arguments, options, error, message):
    with pytest.raises(error, match=message):
        function(*arguments, **options)


def test_without_check_nothing_about_the_data_is_raised():
    A = np.array([[np.nan, 1.0]])
    assert sr.matmul(A, [[1.0], [2.0]], check=False) == 3.0, "a NaN is dropped by the minimum"
    assert sr.matmul([[2.0]], [[0.25]], "lukasiewicz", check=False).shape == (1, 1)
    whole = np.array([[TOP["int64"], 5]])
    assert sr.matmul(whole, whole.T, check=False) == 10


# ------------------------------------------------------------------------------------------------- integers


@pytest.mark.parametrize("dtype", list(TOP))
def test_no_path_stays_no_path(dtype):
    """The sentinel iinfo.max plus a weight must not wrap, and plus a negative weight must not become a number."""
    for name, none, sign in (("min_plus", TOP[dtype], 1), ("max_plus", BOTTOM[dtype], -1)):
        A = np.array([[none, none], [none, sign * 7]], dtype)
        for weight in (1, -1, -5_000, 5_000):
            B = np.array([[weight, none], [none, none]], dtype)
            assert sr.matmul(A, B, name).tolist() == [[none, none], [none, none]]
            B = np.array([[none, none], [weight, none]], dtype)
            assert sr.matmul(A, B, name).tolist() == [[none, none], [weight + sign * 7, none]]
            product, witness = sr.matmul(A, B, name, return_witness=True)
            assert product.tolist() == [[none, none], [weight + sign * 7, none]]
            assert witness.tolist() == [[-1, -1], [1, -1]]


def test_sums_beyond_half_the_range_are_exact_or_an_error():
    large = np.array([[20_000]], np.int16)
    assert sr.matmul(large, np.array([[12_766]], np.int16)) == 32_766
    assert sr.matmul(large, -large) == 0
    assert sr.matmul(-large, np.array([[-12_768]], np.int16)) == -32_768
    for other in (12_767, 12_768, 32_766):
        with pytest.raises(IntegerOverflowError, match=r"which int16 does not hold.*int32"):
            sr.matmul(large, np.array([[other]], np.int16))
    assert sr.matmul(large, np.array([[TOP["int16"]]], np.int16)) == TOP["int16"]
    huge = np.array([[2**62]])
    with pytest.raises(IntegerOverflowError, match="float64"):
        sr.matmul(huge, huge)
    assert sr.matmul(np.array([[2**31 - 2, 5]], np.int32), np.array([[-(2**31)], [7]], np.int32)) == -2


# ------------------------------------------------------------------------------------------------- gemm


@pytest.mark.parametrize(("name", "dtype"), CASES)
def test_gemm(name, dtype, rng):
    semiring = oracles.ORACLES[name]
    zero, one = oracles.zero(name, dtype), oracles.one(name, dtype)
    scalars = [None, zero, one] + ([] if dtype == "bool" else [np.dtype(dtype).type(3)])
    A, B, C = (entries(rng, name, dtype, shape) for shape in ((5, 9), (9, 70), (5, 70)))
    for alpha, beta in itertools.product(scalars, scalars):
        scaled = A if alpha is None else semiring.mul(np.full_like(A, alpha), A)
        start = np.full_like(C, zero) if beta is None else semiring.mul(np.full_like(C, beta), C)
        expected = oracles.product(scaled, B, name, start)
        addend = None if beta is None else C
        result = sr.blas.gemm(A, B, addend, name, alpha=alpha, beta=beta)
        assert result.dtype == np.dtype(dtype)
        np.testing.assert_array_equal(result, expected, f"alpha {alpha}, beta {beta}")
        for transpose_a, transpose_b in itertools.product((False, True), repeat=2):
            first, second = A.T.copy() if transpose_a else A, B.T.copy() if transpose_b else B
            out = np.array(C)
            options = {"transpose": (transpose_a, transpose_b), "out": out, "check": False}
            addend = None if beta is None else out
            assert sr.blas.gemm(first, second, addend, name, alpha=alpha, beta=beta, **options) is out
            np.testing.assert_array_equal(out, expected)


def test_gemm_does_not_read_c_where_beta_is_the_zero():
    A, C = np.zeros((2, 2)), np.full((2, 2), np.nan)
    assert sr.blas.gemm(A, A, C, beta=INF).tolist() == [[0, 0], [0, 0]]
    sr.blas.gemm(A, A, C, beta=INF, out=C)
    assert C.tolist() == [[0, 0], [0, 0]]
    assert sr.blas.gemv(A, [0.0, 0.0], [np.nan, np.nan], beta=INF).tolist() == [0, 0]


def test_gemm_keeps_the_order_of_the_factors():
    uneven = sr.Semiring("uneven", "max(x, y)", "where(x < y, x + 2 * y, x)", -INF, -1e9)

    def mul(x, y):
        return np.where(x < y, x + 2 * y, x)

    A, B, C = np.array([[1.0, 5.0], [7.0, 2.0]]), np.array([[3.0, 4.0], [9.0, 1.0]]), np.array([[1.0, 2.0], [6.0, 8.0]])
    alpha, beta = 2.0, 4.0
    scaled = mul(alpha, A)
    candidates = mul(scaled[:, :, None], B[None]).max(axis=1)
    np.testing.assert_array_equal(
        sr.blas.gemm(A, B, C, uneven, alpha=alpha, beta=beta), np.maximum(candidates, mul(beta, C))
    )
    np.testing.assert_array_equal(
        sr.blas.gemm(A, B, None, uneven, transpose=(True, True)), mul(A.T[:, :, None], B.T[None]).max(axis=1)
    )


def test_gemm_scales_integers_past_half_the_range():
    A, B, C = (np.array([[value]], np.int16) for value in (20_000, 5, 32_000))
    assert sr.blas.gemm(A, B, C, alpha=-19_000, beta=0) == 1_005
    assert sr.blas.gemm(A, B, C, alpha=12_000, beta=500) == 32_005
    assert sr.blas.gemm(A, B, C, alpha=INF, beta=5) == 32_005
    assert (sr.blas.gemm(SMALL, SMALL, semiring="max_min", alpha=INF) == 0).all(), "∞ is the one of max_min"
    small = np.array([[5_000]], np.int16)
    assert sr.blas.gemm(small, small, small, alpha=12_000, beta=15_000) == 20_000
    assert sr.blas.gemm(small, small, small, alpha=12_001, beta=17_002) == 22_001
    with pytest.raises(IntegerOverflowError, match="int32"):
        sr.blas.gemm(A, B, C, alpha=15_000, beta=1_000)
    with pytest.raises(IntegerOverflowError, match="-37000, which int16"):
        sr.blas.gemm(-A, B, -C, alpha=INF, beta=-5_000)
    low = np.array([[-30_000]], np.int16)
    with pytest.raises(IntegerOverflowError, match="-60000, which int16"):
        sr.blas.gemm(low, low, low + 10_000, beta=0)
    none = np.array([[TOP["int16"]]], np.int16)
    assert sr.blas.gemm(none, B, none, alpha=-5, beta=-7) == TOP["int16"]


@pytest.mark.parametrize("name", sr.CATALOGUE)
def test_an_addend_without_beta_is_refused_with_the_beta_that_adds_it(name):
    """An addend C without beta raises, instead of being ignored."""
    semiring = sr.CATALOGUE[name]
    A = np.full((2, 2), semiring.one_for(semiring.dtypes[0]))
    C = A[::-1].copy()
    for letter, call in (
        ("C", lambda **o: sr.blas.gemm(A, A, C, name, **o)),
        ("y", lambda **o: sr.blas.gemv(A, A[0], C[0], name, **o)),
    ):
        with pytest.raises(ValueError, match=f"{letter} is given, but no beta: pass beta=.* to add {letter}") as error:
            call()
        beta = eval(re.search(r"beta=([^ ,]*)", str(error.value))[1], {"np": np})
        assert call(beta=beta).shape == (C if letter == "C" else C[0]).shape
    C[0, 0] = semiring.zero_for(C.dtype)
    np.testing.assert_array_equal(
        sr.blas.gemm(A, A, C, name, beta=beta), semiring.add(sr.blas.gemm(A, A, semiring=name), C)
    )


# ------------------------------------------------------------------------------------------------- the other names


@pytest.mark.parametrize(("name", "dtype"), CASES)
def test_gemv_ger_axpy_dot(name, dtype, rng):
    semiring = oracles.ORACLES[name]
    alpha = oracles.one(name, dtype) if dtype == "bool" else np.dtype(dtype).type(2)
    for m, n in [(1, 1), (5, 0), (0, 4), (7, 66)]:
        A, x, y = (entries(rng, name, dtype, shape) for shape in ((m, n), (n,), (m,)))
        scaled = semiring.mul(np.full_like(A, alpha), A)
        expected = oracles.product(scaled, x[:, None], name, semiring.mul(np.full_like(y, alpha), y)[:, None])[:, 0]
        np.testing.assert_array_equal(sr.blas.gemv(A, x, y, name, alpha=alpha, beta=alpha), expected)
        np.testing.assert_array_equal(
            sr.blas.gemv(A.T.copy(), x, y, name, alpha=alpha, beta=alpha, transpose=True), expected
        )
        out = y.copy()
        assert sr.blas.gemv(A, x, out, name, alpha=alpha, beta=alpha, out=out) is out
        np.testing.assert_array_equal(out, expected)
        np.testing.assert_array_equal(sr.blas.gemv(A, x, semiring=name), oracles.product(A, x[:, None], name)[:, 0])

        rank_one = oracles.product(semiring.mul(np.full_like(y, alpha), y)[:, None], x[None, :], name)
        np.testing.assert_array_equal(sr.blas.ger(y, x, semiring=name, alpha=alpha), rank_one)
        np.testing.assert_array_equal(sr.blas.ger(y, x, A, name, alpha=alpha), semiring.add(A, rank_one))

        other = entries(rng, name, dtype, (n,))
        sums = semiring.add(semiring.mul(np.full_like(x, alpha), x), other)
        np.testing.assert_array_equal(sr.blas.axpy(alpha, x, other, name), sums)
        assert sr.blas.dot(x, other, name) == oracles.product(x[None, :], other[:, None], name)[0, 0]


@pytest.mark.parametrize(("name", "dtype"), CASES)
def test_power(name, dtype, rng):
    for n in (0, 1, 6):
        A = entries(rng, name, dtype, (n, n))
        expected = oracles.identity(n, name, dtype)
        for k in range(8):
            result = sr.power(A, k, name)
            assert result.dtype == np.dtype(dtype)
            np.testing.assert_array_equal(result, expected)
            assert not np.shares_memory(result, A)
            expected = oracles.product(expected, A, name)


def test_witnesses_need_a_selective_sum():
    with pytest.raises(AlgebraError, match="plus_times has no witnesses"):
        sr.matmul([[1.0]], [[1.0]], "plus_times", return_witness=True)
    ties = np.zeros((3, 70))
    product, witness = sr.matmul(ties, ties.T, return_witness=True)
    assert witness.tolist() == np.zeros((3, 3)).tolist(), "the smallest k wins a tie"
    product, witness = sr.matmul(np.zeros(4), [3.0, 1.0, 2.0, 1.0], return_witness=True)
    assert (product, witness) == (1.0, 1)
    empty, witness = sr.matmul(np.zeros((2, 0)), np.zeros((0, 3)), return_witness=True)
    assert (empty == INF).all()
    assert (witness == -1).all()


def test_witnesses_take_the_options_of_a_product():
    A = np.array([[4.0, 1.0], [0.0, 7.0]])
    product, witness = sr.matmul(A, A, return_witness=True)
    out = np.empty((2, 2))
    result, again = sr.matmul(A, A, return_witness=True, out=out)
    assert result is out
    np.testing.assert_array_equal((result, again), (product, witness))
    bits = sr.BitMatrix.zeros((2, 2))
    assert sr.matmul(sr.pack(A > 2), sr.pack(A > 2), "boolean", return_witness=True, out=bits)[0] is bits
    pd = pytest.importorskip("pandas")
    left = pd.DataFrame(A, index=["a", "b"], columns=["p", "q"])
    right = pd.DataFrame(A[::-1], index=["q", "p"], columns=["x", "y"])  # matched by label
    for own, expected in zip(sr.matmul(left, right, return_witness=True), (product, witness), strict=True):
        assert (list(own.index), list(own.columns)) == (["a", "b"], ["x", "y"])
        np.testing.assert_array_equal(own, expected)


# ------------------------------------------------------------------------------------------------- entry by entry


@pytest.mark.parametrize(("name", "dtype"), CASES)
def test_entrywise(name, dtype, rng):
    semiring = oracles.ORACLES[name]
    A, B = entries(rng, name, dtype, (4, 1, 5)), entries(rng, name, dtype, (3, 5))
    for function, operation in ((sr.add, semiring.add), (sr.multiply, semiring.mul)):
        expected = operation(*np.broadcast_arrays(A, B))
        np.testing.assert_array_equal(function(A, B, name), expected)
        out = np.empty((4, 3, 5), dtype)
        assert function(A, B, name, out=out) is out
        np.testing.assert_array_equal(out, expected)


def test_entrywise_integers_never_wrap():
    none = np.array([TOP["int16"]], np.int16)
    assert sr.multiply(none, np.array([-5], np.int16)) == TOP["int16"]
    for x, y in ((32_766, 1), (20_000, 20_000), (-32_768, -1)):
        with pytest.raises(IntegerOverflowError):
            sr.multiply(np.array([x], np.int16), np.array([y], np.int16))
    assert sr.multiply(INF, -INF) == INF, "no path absorbs everything"


@pytest.mark.parametrize(("name", "dtype"), [*CASES, ("log_plus", "float64"), ("xor_and", "uint8")])
def test_reduce(name, dtype, rng):
    semiring = oracles.ORACLES[name]
    A = entries(rng, name, dtype, (3, 5, 7)) if name != "xor_and" else rng.integers(0, 255, (3, 5, 7)).astype(dtype)

    def reduce_along(array, axis):
        total = np.full(array.shape[:axis] + array.shape[axis + 1 :], semiring.zero(np.dtype(dtype)), dtype)
        for part in np.moveaxis(array, axis, 0):
            total = semiring.add(total, part).astype(dtype)
        return total

    for axis in range(3):
        found = sr.reduce(A, name, axis=axis)
        kept = sr.reduce(A, name, axis=axis, keepdims=True)
        np.testing.assert_array_equal(kept, np.expand_dims(found, axis))
        assert found.dtype == np.dtype(dtype)
        np.testing.assert_allclose(found.astype(float), reduce_along(A, axis).astype(float), rtol=1e-13)
        np.testing.assert_array_equal(sr.reduce(A, name, axis=axis - 3), found)
    total = reduce_along(reduce_along(reduce_along(A, 0), 0), 0)
    np.testing.assert_allclose(np.float64(sr.reduce(A, name)), np.float64(total), rtol=1e-13)
    np.testing.assert_allclose(
        sr.reduce(A, name, axis=(0, 2)).astype(float), reduce_along(reduce_along(A, 2), 0).astype(float), rtol=1e-13
    )
    assert sr.reduce(A, name, axis=(0, 2), keepdims=True).shape == (1, A.shape[1], 1)
    assert sr.reduce(A, name, keepdims=True).shape == (1, 1, 1)
    empty = sr.reduce(np.zeros((0, 3), dtype), name, axis=0)
    np.testing.assert_array_equal(empty, np.full(3, oracles.zero(name, dtype)))
    assert sr.reduce(np.zeros((0, 3), dtype), name) == oracles.zero(name, dtype)


WRONG_AXES = [
    (5, np.exceptions.AxisError, r"axis=5, and A has 2 dimensions: an axis is between -2 and 1"),
    ((0, -3), np.exceptions.AxisError, r"axis=\(0, -3\), and A has 2 dimensions"),
    ("x", TypeError, "axis is an integer or a tuple of integers, not 'x'"),
    (0.5, TypeError, "not 0.5"),
    (True, TypeError, "not True"),
    ([0, 1], TypeError, r"not \[0, 1\]"),
    ((0, -2), ValueError, r"axis=\(0, -2\) names an axis twice"),
]


@pytest.mark.parametrize(("axis", "error", "message"), WRONG_AXES)
def test_axes_that_cannot_be_reduced_are_refused_as_in_numpy(axis, error, message):
    with pytest.raises(error, match=message):
        sr.reduce(np.ones((3, 3)), axis=axis)
    with pytest.raises(np.exceptions.AxisError, match="A has 0 dimensions: it is a number"):
        sr.reduce(np.float64(3), axis=0)


def test_identity_and_zeros():
    for name, semiring in sr.CATALOGUE.items():
        for dtype in semiring.dtypes:
            np.testing.assert_array_equal(sr.identity(3, name, dtype), oracles.identity(3, name, dtype))
            assert sr.zeros((2, 3), name, dtype).dtype == np.dtype(dtype)
            assert (sr.zeros((2, 3), name, dtype) == oracles.zero(name, dtype)).all()
    assert sr.identity(2).dtype == np.float64
    assert sr.identity(2, "boolean").dtype == bool
    assert sr.identity(0).shape == (0, 0)
    assert sr.zeros(4).shape == (4,)


# -------------------------------------------------------------------------------------------- a user's own semiring


def test_a_semiring_of_ones_own(rng):
    bounded = sr.Semiring(
        "bounded", add=lambda x, y: sr.extend.maximum(x, y), mul="where(x < y, x, y)", zero=0, one=1, domain=(0, 1)
    )
    A, B = rng.integers(0, 9, (7, 65)) / 8, rng.integers(0, 9, (65, 9)) / 8
    expected = np.minimum(A[:, :, None], B[None]).max(axis=1)
    np.testing.assert_array_equal(sr.matmul(A, B, bounded), expected)
    assert issubclass(ShapeError, SemiringError)


@pytest.mark.parametrize("function", [sr.blas.gemm, sr.blas.gemv, sr.blas.ger], ids=lambda function: function.__name__)
@pytest.mark.parametrize("semiring", ["max_plus", sr.max_plus], ids=["name", "semiring"])
def test_a_semiring_in_the_place_of_a_matrix_is_an_error(function, semiring):
    operands = {"gemm": ([[1.0]], [[2.0]]), "gemv": ([[1.0]], [2.0]), "ger": ([1.0], [2.0])}[function.__name__]
    with pytest.raises(TypeError, match="pass it as semiring="):
        function(*operands, semiring)
