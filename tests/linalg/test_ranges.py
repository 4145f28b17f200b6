"""Test integers of plus_times against Python's: an error if they leave their dtype, and otherwise right."""

from __future__ import annotations

import numpy as np
import pytest

import semiring as sr
from semiring.errors import IntegerOverflowError

DTYPES = ("int16", "int32", "int64")


def exact(A, B):
    return A.astype(object) @ B.astype(object)


@pytest.mark.parametrize("dtype", DTYPES)
def test_products_are_right_or_refused(dtype, rng):
    limits, refused = np.iinfo(dtype), 0
    for trial in range(60):
        m, k, n = rng.integers(1, 9, 3)
        size = int(limits.max ** rng.uniform(0.2, 0.6))
        A, B = (rng.integers(-size if trial % 2 else 0, size + 1, shape).astype(dtype) for shape in ((m, k), (k, n)))
        sizes, expected = exact(abs(A), abs(B)), exact(A, B)
        if sizes.max() <= limits.max:
            np.testing.assert_array_equal(sr.matmul(A, B, "plus_times"), expected.astype(dtype))
            np.testing.assert_array_equal(sr.blas.gemm(A, B, semiring="plus_times"), expected.astype(dtype))
            continue
        refused += 1
        with pytest.raises(IntegerOverflowError, match=f"A ⊗ B may leave {dtype}.*Use .*float64.*check=False"):
            sr.matmul(A, B, "plus_times")
        with np.errstate(over="ignore"):
            np.testing.assert_array_equal(sr.matmul(A, B, "plus_times", check=False), A @ B)
    assert 10 < refused < 50


def test_the_greatest_number_and_the_least_are_at_the_edge():
    top = np.iinfo(np.int32).max
    one = np.ones((1, 1), np.int32)
    assert sr.matmul(one * top, one, "plus_times") == top
    with pytest.raises(IntegerOverflowError):
        sr.matmul(np.array([[top, 1]], np.int32), np.ones((2, 1), np.int32), "plus_times")
    with pytest.raises(IntegerOverflowError):
        sr.matmul(np.array([[np.iinfo(np.int32).min]], np.int32), -one, "plus_times")


def test_stacks_and_vectors():
    A = np.full((3, 2, 2), 200, np.int16)
    with pytest.raises(IntegerOverflowError):
        sr.matmul(A, A, "plus_times")
    assert sr.matmul(A // 2, A // 2, "plus_times").max() == 20_000
    with pytest.raises(IntegerOverflowError):
        sr.blas.dot(A[0, 0], A[0, 0], "plus_times")


def test_what_is_scaled_and_added_counts():
    A = np.full((2, 2), 100, np.int16)
    assert sr.blas.gemm(A, A, A, "plus_times", alpha=1, beta=100).max() == 30_000
    for options in ({"alpha": 2}, {"beta": 200}, {"alpha": -2}):
        with pytest.raises(IntegerOverflowError, match="may leave int16"):
            sr.blas.gemm(A, A, A, "plus_times", **({"beta": 1} | options))
    assert sr.blas.axpy(100, A, A, "plus_times").max() == 10_100
    with pytest.raises(IntegerOverflowError, match="entry of A ⊕ B"):
        sr.blas.axpy(300, A, np.full((2, 2), 3000, np.int16), "plus_times")


def test_what_is_added_counts_where_the_product_is_nothing():
    none, C = np.zeros((2, 2), np.int16), np.full((2, 2), -30_000, np.int16)
    for A, B, options in ((none, none + 1, {}), (none[:, :0], none[:0], {}), (none + 1, none + 1, {"alpha": 0})):
        with pytest.raises(IntegerOverflowError, match="β ⊗ C may leave int16"):
            sr.blas.gemm(A, B, C, "plus_times", beta=2, **options)
        np.testing.assert_array_equal(sr.blas.gemm(A, B, C // 2, "plus_times", beta=2, **options), C)
    large = np.full((2, 2), 300, np.int16)
    np.testing.assert_array_equal(sr.blas.gemm(large, large, C, "plus_times", alpha=0, beta=1), C)
    with pytest.raises(IntegerOverflowError, match="β ⊗ y"):
        sr.blas.gemv(none, none[0], C[0], "plus_times", beta=-2)


def test_entry_by_entry_and_reduced():
    top = np.array([2**15 - 1, 5], np.int16)
    assert sr.add(top, np.array([0, 9], np.int16), "plus_times").tolist() == [2**15 - 1, 14]
    with pytest.raises(IntegerOverflowError, match="A ⊕ B"):
        sr.add(top, np.array([1, 0], np.int16), "plus_times")
    assert sr.multiply(top, np.array([1, 5], np.int16), "plus_times").tolist() == [2**15 - 1, 25]
    with pytest.raises(IntegerOverflowError, match="A ⊗ B"):
        sr.multiply(top, np.array([2, 1], np.int16), "plus_times")
    assert sr.reduce(top - np.int16(5), "plus_times") == 2**15 - 6
    with pytest.raises(IntegerOverflowError, match="sum of entries"):
        sr.reduce(top, "plus_times")


def test_the_least_number_of_a_dtype_is_a_result():
    least, one = np.array([-(2**15), 4], np.int16), np.array([1, 1], np.int16)
    np.testing.assert_array_equal(sr.add(least, one - one, "plus_times"), least)
    np.testing.assert_array_equal(sr.multiply(least, one, "plus_times"), least)
    for operation, other in ((sr.add, -one), (sr.multiply, -one), (sr.multiply, 2 * one)):
        with pytest.raises(IntegerOverflowError):
            operation(least, other, "plus_times")


def test_paths_that_are_counted_end_with_an_error_not_with_a_wrong_number():
    ones = np.ones((3, 3), np.int32)
    assert sr.power(ones, 19, "plus_times")[0, 0] == 3**18
    with pytest.raises(IntegerOverflowError):
        sr.power(ones, 21, "plus_times")
    np.testing.assert_array_equal(sr.multi_dot(ones, [1, 1, 1], "plus_times", steps=18), [3**18] * 3)
    with pytest.raises(IntegerOverflowError):
        sr.multi_dot(ones, np.ones(3, np.int32), "plus_times", steps=30)


def test_what_is_added_to_a_product_counts_where_it_stands():
    """Great entries of C and of A · B raise only where they are added, and the message shows their sum."""
    least, C = np.eye(2, dtype=np.int16), np.array([[32767, 0], [0, -5]], np.int16)
    A = np.array([[0, 0], [0, 7]], np.int16)
    for out in (None, C.copy()):
        np.testing.assert_array_equal(sr.blas.gemm(A, least, C, "plus_times", beta=1, out=out), [[32767, 0], [0, 2]])
    np.testing.assert_array_equal(sr.blas.ger([0, 1], [0, 3], C, "plus_times"), [[32767, 0], [0, -2]])
    with pytest.raises(IntegerOverflowError, match=r"A ⊗ B ⊕ C may leave int16: .* add up to 32768\."):
        sr.blas.gemm(least, least, C, "plus_times", beta=1, out=C)
    with pytest.raises(IntegerOverflowError, match=r"A ⊗ B ⊕ β ⊗ C may leave int16: .* add up to 65535\."):
        sr.blas.gemm(least, least, C, "plus_times", beta=2)
    with pytest.raises(IntegerOverflowError, match=r"A ⊗ x ⊕ y may leave int16: .* add up to 32774\."):
        sr.blas.gemv(7 * least, least[0], C[0], "plus_times", beta=1)
