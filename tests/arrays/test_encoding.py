"""Test the scan of the data, conversions of dtypes, and integers that hold "no path"."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import semiring as sr
from semiring.arrays import entries
from semiring.arrays.encoding import (
    assumed_range,
    check_entries,
    convert,
    decode,
    encode,
    inner_zero,
    next_wider_integer,
    product_encoding,
)
from semiring.arrays.scans import PIECE, Scan
from semiring.errors import DomainError, DTypeError, IntegerOverflowError

INTEGERS = ("int16", "int32", "int64")
TOP = {"int16": 2**15 - 1, "int32": 2**31 - 1, "int64": 2**63 - 1}


@pytest.mark.parametrize(("name", "dtype"), [("min_plus", "float32"), ("max_plus", "int32"), ("max_min", "float64")])
def test_several_threads_see_what_one_sees(monkeypatch, rng, name, dtype):
    monkeypatch.setattr(entries, "_THREADED_BYTES", 0)
    monkeypatch.setattr(entries, "_TASK_BYTES", 1 << 12)
    A = rng.integers(-500, 500, (257, 131)).astype(dtype)
    A[200, 7] = sr.as_semiring(name).zero_for(A.dtype)
    for view in (A, A.T, A[::-2, 3:], np.abs(A), A[:0]):
        found = entries.check_by_threads(view, sr.as_semiring(name), 3)
        assert found == check_entries(view, sr.as_semiring(name))
    if A.dtype.kind == "f":
        A[31, 3] = A[250, 9] = np.nan
        with pytest.raises(DomainError, match=r"A\[31, 3\]"):
            entries.check_by_threads(A, sr.as_semiring(name), 3)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("layout", ["rows", "columns", "strided", "reversed", "stack"])
def test_a_nan_is_named_by_position(dtype, layout, rng):
    """A NaN is named by its position, around the borders of pieces of large arrays, in every memory order."""
    m, n = 700, 701  # several pieces in every dtype
    assert m * n * np.dtype(dtype).itemsize > PIECE
    base = rng.random((2 * m, 2 * n)).astype(dtype)
    A = {
        "rows": lambda: np.ascontiguousarray(base[:m, :n]),
        "columns": lambda: np.asfortranarray(base[:m, :n]),
        "strided": lambda: base[::2, ::2],
        "reversed": lambda: base[:m, :n][::-1, ::-1],
        "stack": lambda: np.ascontiguousarray(base[:m, :n]).reshape(7, 100, n)[:, ::-1],
    }[layout]()
    for position in [(0, 0), (123, 456), (m - 1, n - 1)]:
        where = position if A.ndim == 2 else (position[0] // 100, position[0] % 100, position[1])
        A[where] = np.nan
        with pytest.raises(DomainError, match=rf"W\[{', '.join(map(str, where))}\] is nan.*min_plus"):
            check_entries(A, sr.min_plus, "W")
        A[where] = 0
    assert check_entries(A, sr.min_plus).nonnegative


def test_the_first_of_several_is_named():
    A = np.zeros((4, 4))
    A[1, 3] = A[2, 0] = np.nan
    with pytest.raises(DomainError, match=r"A\[1, 3\]"):
        check_entries(A, sr.min_plus)
    with pytest.raises(DomainError, match=r"^A is nan"):
        check_entries(np.array(np.nan), sr.min_plus)
    with pytest.raises(DomainError, match=r"^x\[2\] is nan"):
        check_entries(np.array([0.0, 1.0, np.nan]), sr.min_plus, "x")


@pytest.mark.parametrize(
    ("semiring", "bad", "good"),
    [
        (sr.max_times, -0.5, [0.0, 0.5, 7.0]),
        (sr.max_times, np.inf, [0.0, 1.0]),
        (sr.lukasiewicz, 1.5, [0.0, 0.25, 1.0]),
        (sr.lukasiewicz, -0.25, [0.0, 0.25, 1.0]),
        (sr.min_times, 0.0, [0.5, np.inf]),
        (sr.plus_times, np.inf, [-5.0, 5.0]),
        (sr.plus_times, -np.inf, [-5.0, 5.0]),
        (sr.log_plus, np.inf, [-np.inf, 5.0]),
    ],
)
def test_the_domain(semiring, bad, good):
    for dtype in ("float32", "float64"):
        A = np.array([good * 2, good * 2], dtype)
        check_entries(A, semiring)
        A[1, 2] = bad
        with pytest.raises(DomainError, match=rf"A\[1, 2\] is {bad}, outside the domain .* of {semiring.name}"):
            check_entries(A, semiring)


def test_zero_and_one_are_always_inside():
    capped = sr.Semiring("capped", "min(x, y)", "x + y", float("inf"), 0, domain=(1, 10))
    check_entries(np.array([[np.inf, 0, 5.0]]), capped)
    with pytest.raises(DomainError, match=r"A\[0, 1\] is 11.0"):
        check_entries(np.array([[np.inf, 11, 5.0]]), capped)


def test_the_domain_of_integers_with_no_path():
    """The numbers of integer matrices must lie in the domain, and "no path" is the zero."""
    near = sr.Semiring("near", "min(x, y)", "x + y", float("inf"), 0, domain=(0, float("inf")))
    far = sr.Semiring("far", "max(x, y)", "x + y", float("-inf"), 0, domain=(float("-inf"), 0))
    for dtype in ("int8", "int64"):
        limits = np.iinfo(dtype)
        for semiring, none, bad in ((near, limits.max, -3), (far, limits.min, 3)):
            A = np.array([[0, none, -bad], [none, none, -2 * bad]], dtype)
            check_entries(A, semiring)
            check_entries(np.full((2, 2), none, dtype), semiring)
            A[1, 0] = bad
            with pytest.raises(DomainError, match=rf"A\[1, 0\] is {bad}, outside the domain .* of {semiring.name}"):
                check_entries(A, semiring)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
def test_signs(dtype):
    A = np.arange(6).astype(dtype)
    assert check_entries(A, sr.min_plus).nonnegative
    assert check_entries(A + 1, sr.min_plus).nonnegative
    A[3] = -1
    assert not check_entries(A, sr.min_plus).nonnegative
    if dtype != "int32":
        A[3] = -0.0
        assert not check_entries(A, sr.min_plus).nonnegative, "-0.0 has its sign bit set"
        A[3] = np.inf
        assert check_entries(A, sr.min_plus).nonnegative
    large = np.ones((1000, 1000), dtype)
    assert check_entries(large, sr.min_plus).nonnegative
    large[-1, -1] = -2
    found = check_entries(large, sr.min_plus)
    assert (found.low, found.nonnegative) == (-2, False)


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("shape", [(), (0, 3), (1,), (3, 5), (700, 801)])
def test_the_range_of_the_numbers(dtype, shape, rng):
    for semiring, zero in ((sr.min_plus, TOP[dtype]), (sr.max_plus, -TOP[dtype] - 1)):
        A = rng.integers(-50, 90, shape).astype(dtype)
        absent = rng.random(shape) < 0.3
        if absent.size:
            A = np.where(absent, zero, A).astype(dtype)
        found = check_entries(A, semiring)
        numbers = A[zero != A]
        assert found.has_zero == bool(absent.any())
        assert (found.low, found.high) == ((numbers.min(), numbers.max()) if numbers.size else (None, None))
        nothing = check_entries(np.full(shape, zero, dtype), semiring)
        assert (nothing.low, nothing.high, nothing.has_zero) == (None, None, 0 not in shape)
        extreme = np.array([-TOP[dtype] - 1, TOP[dtype]], dtype)
        found = check_entries(extreme, semiring)
        assert (found.low, found.high) == ((extreme[0],) * 2 if semiring is sr.min_plus else (extreme[1],) * 2)


def test_what_cannot_be_wrong_is_not_read():
    class Unreadable(np.ndarray):
        def __array_ufunc__(self, *arguments, **options):
            raise AssertionError("it was read")

    for dtype, semiring in (("bool", sr.boolean), ("uint8", sr.max_min)):
        assert check_entries(np.zeros(3, dtype).view(Unreadable), semiring).nonnegative


def test_no_path_survives_a_change_of_dtype():
    for narrow, wide in (("int16", "int32"), ("int16", "int64"), ("int32", "int64")):
        A = np.array([TOP[narrow], 5, -TOP[narrow] - 1], narrow)
        assert convert(A, sr.min_plus, wide).tolist() == [TOP[wide], 5, -TOP[narrow] - 1]
        assert convert(A, sr.max_plus, wide).tolist() == [TOP[narrow], 5, -TOP[wide] - 1]
        assert convert(A, sr.max_min, wide).tolist() == [TOP[wide], 5, -TOP[wide] - 1]
        assert convert(A, sr.min_plus, "float64").tolist() == [np.inf, 5, -TOP[narrow] - 1]
        assert convert(A, sr.max_min, "float64").tolist() == [np.inf, 5, -np.inf]
    assert convert(np.array([0, 7, 255], np.uint8), sr.max_min, "int16").tolist() == [-(2**15), 7, 2**15 - 1]
    assert convert(np.array([np.inf, 3.0]), sr.min_plus, "int16").tolist() == [2**15 - 1, 3]
    assert convert(np.array([0, 255], np.uint8), sr.xor_and, "int16").tolist() == [0, 255], "these are bits, not ∞"


def test_conversion_loses_no_number():
    same = np.array([1.0])
    assert convert(same, sr.min_plus, "float64") is same
    for values, dtype in (([1.5], "int32"), ([40_000], "int16"), ([np.nan], "int32"), ([-np.inf], "int32")):
        with pytest.raises(DTypeError, match=rf"A\[0\] is {values[0]}, which {dtype} does not hold"):
            convert(np.array(values), sr.min_plus, dtype)


def test_the_inner_zero_is_half_the_range():
    for dtype in INTEGERS:
        low, high = inner_zero(sr.max_plus, dtype), inner_zero(sr.min_plus, dtype)
        assert (low, high) == (-(TOP[dtype] + 1) // 2, TOP[dtype] // 2)
        assert low.dtype == high.dtype == np.dtype(dtype)
        assert 2 * int(high) <= TOP[dtype]
        assert 2 * int(low) >= -TOP[dtype] - 1
    assert inner_zero(sr.min_plus, "float32") == np.inf
    assert inner_zero(sr.max_min, "int16") == -(2**15)
    assert [next_wider_integer(dtype) for dtype in INTEGERS] == [np.dtype("int32"), np.dtype("int64"), None]


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("semiring", [sr.min_plus, sr.max_plus], ids=str)
@pytest.mark.parametrize("shape", [(), (0,), (7,), (300, 1001)])
def test_encode_and_decode_are_inverse(dtype, semiring, shape, rng):
    zero = semiring.zero_for(dtype)
    limit = TOP[dtype] // 2 - 1
    A = rng.integers(-limit, limit, shape, endpoint=True).astype(dtype)
    A = np.where(rng.random(shape) < 0.3, zero, A).astype(dtype)
    for wide in [dtype, *([next_wider_integer(dtype)] if next_wider_integer(dtype) else [])]:
        inner = encode(A, semiring, wide)
        assert inner.dtype == np.dtype(wide)
        assert inner is not A
        np.testing.assert_array_equal(inner == inner_zero(semiring, wide), zero == A)
        np.testing.assert_array_equal(inner[zero != A], A[zero != A])
        back = decode(inner.copy(), semiring, dtype)
        assert back.dtype == np.dtype(dtype)
        np.testing.assert_array_equal(back, A)
    in_place = A.copy()
    assert encode(in_place, semiring, out=in_place) is in_place
    assert decode(in_place, semiring) is in_place
    np.testing.assert_array_equal(in_place, A)


def test_other_semirings_are_copied():
    A = np.array([1, 2, TOP["int32"]], np.int32)
    for result in (encode(A, sr.max_min), encode(A.astype(float), sr.min_plus)):
        np.testing.assert_array_equal(result, A)
    assert decode(A, sr.max_min) is A


@pytest.mark.parametrize(("semiring", "sign"), [(sr.min_plus, 1), (sr.max_plus, -1)], ids=["min_plus", "max_plus"])
def test_a_number_that_does_not_fit_is_an_error(semiring, sign):
    narrow = TOP["int16"] if sign > 0 else -TOP["int16"] - 1
    for value in (40_000, -40_000, narrow):
        with pytest.raises(IntegerOverflowError, match=rf"holds {value}, which int16 .*pass int32 operands"):
            decode(np.array([1, value], np.int32), semiring, "int16")
    assert decode(np.array([sign * 2**30, 5], np.int32), semiring, "int16").tolist() == [narrow, 5]


def check_product(x, y, semiring, dtype):
    """Check that the entry ⊕ₖ xₖ + yₖ is exact, or that an error is raised because it does not fit the dtype."""
    zero, limits = int(semiring.zero_for(dtype)), np.iinfo(dtype)
    sums = [int(a) + int(b) for a, b in zip(x, y, strict=True) if zero not in (a, b)]
    exact = (min if semiring is sr.min_plus else max)(sums, default=zero)
    fits = not sums or (limits.min <= exact <= limits.max and exact != zero)
    try:
        found = sr.matmul(x[np.newaxis], y[:, np.newaxis], semiring).item()
    except IntegerOverflowError as error:
        large = max(abs(int(value)) for value in (*x, *y) if value != zero) > limits.max // 8
        assert not fits or (dtype == "int64" and large)  # no integers are wider
        assert re.search(f"{dtype}.*(use|pass)", str(error), re.IGNORECASE)  # noqa: PT017
    else:
        assert fits
        assert found == exact


@pytest.mark.full
@pytest.mark.parametrize("semiring", [sr.min_plus, sr.max_plus], ids=["min_plus", "max_plus"])
def test_products_at_every_threshold(semiring):
    """Values next to a half, a third and a quarter of the range and its ends are exact, beside negative detours too."""
    zero, half = int(semiring.zero_for("int16")), 2**14
    near = {
        sign * (edge + d) for edge in (0, half // 2, half, 2 * half // 3) for d in (-2, -1, 0, 1) for sign in (1, -1)
    }
    numbers = sorted(near | {2**15 - 2, -(2**15) + 1})
    detours = [[], [(zero, -1)], [(zero, 1)], [(zero, zero)], [(-half // 2, zero), (zero, half // 2)]]
    for p in numbers:
        for q in numbers:
            for detour in detours:
                x, y = (np.array(column, np.int16) for column in zip((p, q), *detour, strict=True))
                check_product(x, y, semiring, "int16")


@pytest.mark.full
@given(
    data=st.data(),
    dtype=st.sampled_from(INTEGERS),
    semiring=st.sampled_from([sr.min_plus, sr.max_plus]),
    scale=st.sampled_from([2, 3, 4, 6, 7, 8, 100]),
)
def test_a_product_is_right_or_an_error(data, dtype, semiring, scale):
    """Mixed signs, values near every threshold and "no path" give the product of plain NumPy, or an error."""
    zero, bound = int(semiring.zero_for(dtype)), TOP[dtype]
    near = [bound // scale + d for d in (-1, 0, 1)]
    number = st.sampled_from([*near, *(-value for value in near), 0, 1, -1, bound - 1, -bound]) | st.integers(
        -bound, bound
    )
    entry = st.just(zero) | number.filter(lambda value: value != zero)
    k = data.draw(st.integers(1, 4))
    x, y = (np.array(data.draw(st.lists(entry, min_size=k, max_size=k)), dtype) for _ in range(2))
    check_product(x, y, semiring, dtype)


def test_the_narrowest_dtype_that_holds_the_sums():
    small, large = Scan(-10, 100), Scan(-10, 8_190)
    assert product_encoding(sr.min_plus, np.dtype("int16"), small, large).dtype == "int16"
    assert product_encoding(sr.min_plus, np.dtype("int16"), large, large).dtype == "int32"
    assert product_encoding(sr.min_plus, np.dtype("int16"), Scan(0, 8_191), Scan(0, 8_191)).dtype == "int16"
    assert product_encoding(sr.min_plus, np.dtype("int16"), small, small, Scan(0, 20_000)).dtype == "int32"
    assert product_encoding(sr.max_plus, np.dtype("int32"), Scan(-(2**30), 0), small).dtype == "int64"
    with pytest.raises(IntegerOverflowError, match="float64"):
        product_encoding(sr.min_plus, np.dtype("int64"), Scan(0, 2**62), small)
    for dtype in INTEGERS:
        promise = assumed_range(sr.min_plus, np.dtype(dtype))
        assert product_encoding(sr.min_plus, np.dtype(dtype), promise, promise, promise).dtype == dtype
        assert promise.high >= TOP[dtype] // 6 - 2
