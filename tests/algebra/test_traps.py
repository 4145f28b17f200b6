"""Test the traps of other libraries, one by one. Those of paths and negative cycles are in test_traps_paths.py.

Documentation whose examples do not run is one more: test_docs.py runs all of them.
"""

from __future__ import annotations

import itertools

import numpy as np
import oracles
import pytest
from scipy.sparse import csr_array
from tiers import full, quick

import semiring as sr
from semiring import blas
from semiring.closures import closure
from semiring.errors import DomainError, IntegerOverflowError
from semiring.linalg import matmul
from semiring.testing import EXAMPLES, LAYOUTS, check_product, in_layout

INF = np.inf
SIZES = [1, 2, 7, 31, 33, 63, 65, 97, 129]  # one below and above the tiles of every kernel
FLOATS = ["float32", "float64"]
INTEGERS = ["int16", "int32", "int64"]
STICKING_OUT = quick(
    lambda shape: shape in ((1, 5, 97), (33, 65, 1), (65, 129, 31)),
    full(
        lambda shape: max(shape) > 5 and sorted(shape)[1] in (5, 33, 65),
        [(shape,) for shape in (*itertools.product((1, 5, 33), (1, 5, 65), (1, 5, 97)), (65, 129, 31))],
    ),
)


# ------------------------------------------------------------------------- the zero is a property of the semiring


@pytest.mark.parametrize("dtype", [*FLOATS, *INTEGERS])
@pytest.mark.parametrize("n", SIZES)
def test_max_plus_of_all_negative_data(n, dtype, rng):
    """An accumulator that starts at numeric_limits::min(), a small positive number, beats every negative sum
    (cuASR).
    """
    A = -rng.integers(1, 1000, (n, n)).astype(dtype)
    C = matmul(A, A, "max_plus")
    assert C.max() < 0
    np.testing.assert_array_equal(C, oracles.product(A, A, "max_plus"))
    D = closure(A, "max_plus")
    np.testing.assert_array_equal(D, oracles.closure(A, "max_plus"))
    assert D[~np.eye(n, dtype=bool)].max(initial=-1) < 0


@pytest.mark.parametrize("name", ["max_min", "min_max"])
@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("n", SIZES)
def test_bottlenecks_of_one_sign(n, sign, name, rng):
    """A maximum of entries below 0 is wrong if it ever meets a 0, and so is a minimum of entries above 0."""
    A = sign * rng.integers(1, 100, (n, n)).astype(np.float32)
    np.testing.assert_array_equal(matmul(A, A, name), oracles.product(A, A, name))
    np.testing.assert_array_equal(closure(A, name), oracles.closure(A, name))


@pytest.mark.parametrize("shape", STICKING_OUT, ids=str)
@pytest.mark.parametrize("name", sr.CATALOGUE)
def test_tiles_that_stick_out_are_filled_with_the_zero(name, shape, rng):
    """Padding with 0, as asynchronous copies do, wins every minimum of positive numbers and every maximum of
    negative ones.
    """
    m, k, n = shape
    semiring = sr.CATALOGUE[name]
    dtype = semiring.dtypes[0]
    if dtype == "bool":
        A, B = rng.random((m, k)) < 0.5, rng.random((k, n)) < 0.5
    elif name in ("max_times", "lukasiewicz"):
        A, B = (rng.integers(4, 9, size) / 8 for size in ((m, k), (k, n)))
    else:
        sign = -1 if name in ("max_plus", "max_min", "log_plus") else 1
        A, B = (sign * rng.integers(5, 100, size) for size in ((m, k), (k, n)))
    A, B = A.astype(dtype), B.astype(dtype)
    C = matmul(A, B, name)
    if name == "log_plus":
        np.testing.assert_allclose(C, oracles.product(A, B, name), rtol=1e-6)
    else:
        np.testing.assert_array_equal(C, oracles.product(A, B, name))


@pytest.mark.full
@pytest.mark.parametrize("n", SIZES)
def test_a_zero_that_is_neither_0_nor_infinity(n, rng):
    """The value 100 is "no path" of capped_min_plus: as padding, as a starting value, and as the sum of no terms."""
    capped = EXAMPLES["capped_min_plus"]
    A, B = (rng.integers(20, 101, (n, n)).astype(np.float64) for _ in "AB")
    check_product(A, B, matmul(A, B, capped), capped)
    assert (matmul(A[:, :0], B[:0], capped) == 100).all()


# ------------------------------------------------------------------------------------------------- integer infinity


@pytest.mark.full
@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("n", [3, 40, 129])
def test_unreachable_stays_unreachable_in_a_closure(n, dtype, rng):
    """Two halves without an edge stay unreachable with weights of both signs, which potentials shift."""
    none = np.iinfo(dtype).max
    height = rng.integers(-50, 50, n)
    A = (rng.integers(1, 60, (n, n)) + height[None, :] - height[:, None]).astype(dtype)
    A[: n // 2, n // 2 :] = A[n // 2 :, : n // 2] = none
    D = closure(A)
    np.testing.assert_array_equal(D, oracles.closure(A, "min_plus"))
    assert (D[: n // 2, n // 2 :] == none).all()
    assert (D[n // 2 :, : n // 2] == none).all()


@pytest.mark.parametrize(("dtype", "big"), [("int16", 20_000), ("int32", 1_500_000_000), ("int64", 6 * 10**18)])
def test_a_sum_that_does_not_fit_is_an_error(dtype, big):
    """A sum that does not fit raises instead of giving a wrong number or "no path"."""
    A = np.array([[big]], dtype)
    with pytest.raises(IntegerOverflowError, match=dtype):
        matmul(A, A)
    none = np.iinfo(dtype).max
    chain = np.array([[none, big, none], [none, none, big], [none, none, none]], dtype)
    with pytest.raises(IntegerOverflowError, match=dtype):
        closure(chain)


@pytest.mark.full
@pytest.mark.parametrize("name", ["min_plus", "max_plus"])
@pytest.mark.parametrize("in_place", [False, True])
def test_rows_with_gaps_may_be_closed_in_a_wider_dtype(name, in_place):
    """Rows with gaps are closed in a copy, so the input is unchanged when the closure starts again in a wider dtype."""
    sign = 1 if name == "min_plus" else -1
    none = np.iinfo(np.int16).max if sign > 0 else np.iinfo(np.int16).min
    chain = np.array([[none, 9000 * sign, none], [none, none, 9000 * sign], [none, none, none]], np.int16)
    expected = closure(chain, name)
    assert expected[0, 2] == 18000 * sign
    out = np.full((3, 6), 7, np.int16)[:, ::2]
    out[...] = chain
    assert closure(out if in_place else chain, name, out=out) is out
    np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize("dtype", ["int16", "int32"])
def test_numbers_beyond_half_the_range_are_numbers(dtype):
    """A distance beyond half the range is a number, although half the range means "no path" inside a call."""
    none, half = np.iinfo(dtype).max, np.iinfo(dtype).max // 2
    for value in (half - 1, half, half + 1, none - 1):
        A = np.array([[value, none]], dtype)
        B = np.array([[0, none], [0, 5]], dtype)
        assert matmul(A, B).tolist() == [[value, none]]
        edge = np.array([[none, value], [none, none]], dtype)
        assert closure(edge).tolist() == [[0, value], [none, 0]]


@pytest.mark.full
@pytest.mark.parametrize("dtype", [*INTEGERS, "uint8"])
@pytest.mark.filterwarnings("ignore::semiring.errors.SuspiciousWeightsWarning")
def test_bottlenecks_know_the_extremes_of_integers(dtype):
    """The extreme values of bottlenecks are the zero and the one, to which nothing is added."""
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    A = np.array([[low, high], [7, low]], dtype)
    for name in ("max_min", "min_max"):
        np.testing.assert_array_equal(matmul(A, A, name), oracles.product(A, A, name))
        np.testing.assert_array_equal(closure(A, name), oracles.closure(A, name))


# ------------------------------------------------------------------------------------------------- NaN and infinity


@pytest.mark.parametrize("n", [1, 8, 65])
@pytest.mark.parametrize("name", ["min_plus", "max_plus", "max_min", "min_max", "max_times", "plus_times", "log_plus"])
def test_nan_is_an_error_that_names_the_entry(name, n):
    """A NaN raises at every size, instead of spreading at some sizes and vanishing at others."""
    A = np.ones((n, n))
    place = (n // 2, n - 1)
    bad = A.copy()
    bad[place] = np.nan
    said = rf"[AB]\[{place[0]}, {place[1]}\].*nan"
    calls = (
        lambda: matmul(bad, A, name),
        lambda: matmul(A, bad, name),
        lambda: blas.gemm(A, bad, semiring=name),
        lambda: closure(bad, name),
    )
    for call in calls:
        with pytest.raises(DomainError, match=said):
            call()


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("n", SIZES)
def test_infinity_minus_infinity_is_no_path(n, dtype, rng):
    """The product ∞ ⊗ -∞ counts as no path and never becomes a NaN, at every size and in every order of operands."""
    A = rng.choice(np.array([INF, -INF, 0, 3, -4], dtype), (n, n))
    B = rng.choice(np.array([INF, -INF, 0, 3, -4], dtype), (n, n))
    for name in ("min_plus", "max_plus"):
        C = matmul(A, B, name)
        assert not np.isnan(C).any()
        np.testing.assert_array_equal(C, oracles.product(A, B, name))
        np.testing.assert_array_equal(matmul(B.T, A.T, name), C.T)
    assert matmul(np.array([[INF]], dtype), np.array([[-INF]], dtype)).item() == INF
    assert matmul(np.array([[-INF]], dtype), np.array([[INF]], dtype)).item() == INF
    assert matmul(np.array([[-INF]], dtype), np.array([[INF]], dtype), "max_plus").item() == -INF


def test_the_logarithm_of_nothing_plus_nothing():
    """The logarithm log(e^-∞ + e^-∞) is -∞, not the NaN of ∞ - ∞."""
    A = np.full((5, 5), -INF)
    assert (matmul(A, A, "log_plus") == -INF).all()
    np.testing.assert_array_equal(closure(A, "log_plus"), oracles.identity(5, "log_plus", float))


@pytest.mark.parametrize("dtype", FLOATS)
def test_small_numbers_are_not_flushed_to_zero(dtype, rng):
    """Subnormal sums and products survive: no thread runs with flush-to-zero."""
    tiny = np.finfo(dtype).smallest_subnormal
    A = (rng.integers(1, 9, (40, 40)) * tiny).astype(dtype)
    for name in ("min_plus", "max_min", "plus_times"):
        B = A if name != "plus_times" else np.eye(40, dtype=dtype)
        np.testing.assert_array_equal(matmul(A, B, name), oracles.product(A, B, name))
        assert matmul(A, B, name).max() > 0


# ----------------------------------------------------------------------------------------------------- memory order


@pytest.mark.parametrize("right", LAYOUTS)
@pytest.mark.parametrize("left", LAYOUTS)
def test_memory_order_of_operands_does_not_matter(left, right, rng):
    """Transposed and Fortran-ordered operands give the same product, where tropical-gemm computes nonsense silently."""
    for m, k, n in ((5, 7, 3), (33, 65, 31)):
        A, B = rng.integers(-9, 9, (m, k)).astype(np.float32), rng.integers(-9, 9, (k, n)).astype(np.float32)
        expected = oracles.product(A, B, "min_plus")
        np.testing.assert_array_equal(matmul(in_layout(A, left), in_layout(B, right)), expected)


@pytest.mark.parametrize("layout", [layout for layout in LAYOUTS if layout != "read-only"])
def test_memory_order_of_the_output_does_not_matter(layout, rng):
    """An output of any memory order is right, and no byte between or around its entries changes."""
    A, B = rng.integers(0, 9, (33, 20)).astype(np.float64), rng.integers(0, 9, (20, 31)).astype(np.float64)
    out = in_layout(np.full((33, 31), 7.5), layout)
    around = out.base if out.base is not None else out
    while around.base is not None:
        around = around.base
    poisoned = np.isnan(around).sum()
    assert matmul(A, B, out=out) is out
    np.testing.assert_array_equal(out, oracles.product(A, B, "min_plus"))
    assert np.isnan(around).sum() == poisoned


@pytest.mark.parametrize("name", ["min_plus", "plus_times", "xor_and"])
@pytest.mark.filterwarnings("ignore::semiring.errors.SuspiciousWeightsWarning")
def test_a_matrix_times_its_own_transpose(name, rng):
    A = rng.integers(0, 9, (37, 65)).astype(np.int32)
    np.testing.assert_array_equal(matmul(A, A.T, name), oracles.product(A, A.T, name))
    np.testing.assert_array_equal(matmul(A.T, A, name), oracles.product(A.T, A, name))
    np.testing.assert_array_equal(closure(A[:, :37].T, "min_plus"), oracles.closure(A[:, :37].T, "min_plus"))


def test_transposed_operands_are_not_swapped_where_the_order_matters(rng):
    """Only a commutative ⊗ satisfies (A ⊗ B)ᵀ = Bᵀ ⊗ Aᵀ, and relations compose in one order."""
    relations = EXAMPLES["relations"]
    for m, k, n in ((3, 3, 3), (17, 33, 65)):
        A, B = rng.integers(0, 16, (m, k)).astype(np.uint8), rng.integers(0, 16, (k, n)).astype(np.uint8)
        expected = matmul(A, B, relations)
        check_product(A, B, expected, relations)
        for left, right in (("Fortran", "Fortran"), ("C", "every other, transposed")):
            C = np.empty((n, m), np.uint8).T
            matmul(in_layout(A, left), in_layout(B, right), relations, out=C)
            np.testing.assert_array_equal(C, expected)
        D = blas.gemm(A.T, B.T, semiring=relations, transpose=(True, True))
        np.testing.assert_array_equal(D, expected)


@pytest.mark.parametrize(("name", "dtype"), [(name, x) for name, each in sr.CATALOGUE.items() for x in each.dtypes])
def test_empty_matrices_and_single_entries(name, dtype):
    """Matrices 0 × n, n × 0 and 1 × 1 work, and with K = 0 the product is the zero, not uninitialised memory."""
    zero, one = oracles.zero(name, dtype), oracles.one(name, dtype)
    assert matmul(np.empty((0, 4), dtype), np.full((4, 3), one), name).shape == (0, 3)
    assert matmul(np.full((3, 4), one), np.empty((4, 0), dtype), name).shape == (3, 0)
    nothing = matmul(np.empty((3, 0), dtype), np.empty((0, 2), dtype), name)
    assert nothing.dtype == dtype
    np.testing.assert_array_equal(nothing, np.full((3, 2), zero))
    assert matmul(np.full((1, 1), one), np.full((1, 1), one), name).tolist() == [[one]]
    if dtype.startswith("int") and name == "plus_times":
        return  # its star divides: no closure of integers
    assert closure(np.empty((0, 0), dtype), name).shape == (0, 0)
    assert closure(np.full((1, 1), zero), name).tolist() == [[one]]


# ---------------------------------------------------------------------------------------------- uninitialised output


@pytest.mark.parametrize("name", sr.CATALOGUE)
def test_an_uninitialised_output_is_not_read(name, rng):
    """An output for β = zero may hold NaN or the best value of ⊕, which no result may contain (TropicalGEMM#16)."""
    semiring = sr.CATALOGUE[name]
    for dtype in semiring.dtypes:
        shape = (19, 33)
        A = np.full((19, 5), oracles.one(name, dtype))
        B = np.full((5, 33), oracles.one(name, dtype))
        expected = oracles.product(A, B, name)
        if np.dtype(dtype).kind == "f":
            poisons = [np.nan, INF, -INF]
        else:
            poisons = [True, False] if dtype == "bool" else [np.iinfo(dtype).min, np.iinfo(dtype).max]
        for poison, k in itertools.product(poisons, (5, 0)):
            C = np.full(shape, poison, dtype)
            wanted = expected if k else np.full(shape, oracles.zero(name, dtype))
            check = np.testing.assert_allclose if name == "log_plus" else np.testing.assert_array_equal
            check(matmul(A[:, :k], B[:k], name, out=C.copy()), wanted)
            check(blas.gemm(A[:, :k], B[:k], semiring=name, out=C.copy()), wanted)
            if poison == poison and semiring.domain.contains(float(poison)):
                zero = oracles.zero(name, dtype)
                check(blas.gemm(A[:, :k], B[:k], C, name, beta=zero), wanted)


# ------------------------------------------------------------------------------------------------------------ domain


@pytest.mark.parametrize(
    ("name", "value"),
    [("max_times", -0.5), ("min_times", 0.0), ("min_times", -1.0), ("lukasiewicz", 1.5), ("lukasiewicz", -0.1)],
)
def test_the_domain_is_part_of_the_semiring(name, value):
    """0 is the zero of max-times on numbers ≥ 0 only: (-1) ⊗ (-1) beats it. Entries outside are refused, by name."""
    A = np.full((4, 4), 1.0)
    A[2, 3] = value
    for call in (lambda: matmul(A, A, name), lambda: closure(A, name), lambda: blas.gemm(A, A, semiring=name)):
        with pytest.raises(DomainError, match=r"A\[2, 3\]"):
            call()


# ------------------------------------------------------------------------------------------- small weights and zeros


@pytest.mark.parametrize("dtype", FLOATS)
def test_weights_below_1e_8_are_kept(dtype):
    """Weights below 1e-8 stay edges, although SciPy's dense input drops them."""
    A = np.full((4, 4), INF, dtype)
    A[0, 1], A[1, 2], A[2, 3] = 1e-9, 1e-12, 1e-30
    D = closure(A)
    assert D[0, 1] == dtype_value(1e-9, dtype)
    assert D[1, 3] == dtype_value(1e-12, dtype)
    assert D[2, 3] == dtype_value(1e-30, dtype)


def dtype_value(value, dtype):
    return np.dtype(dtype).type(value)


@pytest.mark.parametrize("dtype", [*FLOATS, *INTEGERS])
def test_0_is_a_weight(dtype):
    """The weight 0 is an edge, because the zero of the semiring means "no edge"."""
    none = oracles.zero("min_plus", dtype)
    A = np.full((3, 3), none, dtype)
    A[0, 1] = A[1, 2] = 0
    assert closure(A).tolist() == [[0, 0, 0], [none, 0, 0], [none, none, 0]]
    assert closure(A, reflexive=False).tolist() == [[none, 0, 0], [none, none, 0], [none, none, none]]


@pytest.mark.full
@pytest.mark.parametrize("method", ["auto", "johnson", "rkleene"])
def test_stored_zeros_and_tiny_weights_of_a_sparse_matrix_are_edges(method):
    """SciPy's own graph routines, which johnson calls, must not be given a chance to drop them."""
    weights = np.array([0.0, 1e-12, 0.0, 5.0])
    A = csr_array((weights, ([0, 1, 2, 0], [1, 2, 3, 3])), shape=(5, 5))
    assert A.nnz == 4
    D = closure(A, method=method)
    assert D[0].tolist() == [0, 0, 1e-12, 1e-12, INF]
    dense = np.full((5, 5), INF)
    dense[[0, 1, 2, 0], [1, 2, 3, 3]] = weights
    np.testing.assert_array_equal(closure(dense, method=method), D)
