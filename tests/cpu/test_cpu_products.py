"""Test the CPU engine at its own borders: tiles, panels, depths of k, blocks, strides that need packing."""

from __future__ import annotations

import dataclasses
import warnings

import numpy as np
import pytest
from tiers import full, quick

import semiring as sr
from semiring.kernels.cpu import CpuBackend
from semiring.kernels.cpu import kernels as cpu_kernels
from semiring.kernels.cpu.kernels import kernels_for
from semiring.kernels.engine import make_plan

BACKEND = CpuBackend()
KINDS = ["float32", "float64", "int16", "int32", "int64"]
CLOSED = quick(lambda dtype: dtype == "float32", full(lambda dtype: dtype in ("float32", "int32"), KINDS[:4]))


def min_plus_by_numpy(A, B, C=None):
    """Multiply one k at a time, in the dtype of the operands. Sums of small whole numbers are exact."""
    result = np.full((A.shape[0], B.shape[1]), 10_000, A.dtype) if C is None else C.copy()
    for k in range(A.shape[1]):
        result = np.minimum(result, A[:, k, None] + B[None, k, :])
    return result


def numbers(rng, dtype, *shape):
    return rng.integers(0, 1000, shape).astype(dtype)


def plan_for(dtype, **options):
    return make_plan(sr.min_plus, dtype, nonnegative=True, **options)


def borders(dtype):
    """Yield rows, columns and steps of k just inside, on and just outside every border of the engine."""
    kernels = kernels_for(plan_for(dtype))
    shape = kernels.product_shape(kernels.speed.depth).shape
    around = (-1, 0, 1)
    rows = [kernels.tile.rows + d for d in around] + [shape.packed_rows + d for d in around]
    columns = [kernels.lanes + d for d in around] + [kernels.width + d for d in around]
    columns += [shape.packed_columns + d for d in around]
    steps = [1, 2, 15, 16, 17] + [shape.depth + d for d in around] + [2 * shape.depth + 1]
    return rows, columns, steps


@pytest.mark.parametrize(
    "dtype", quick(lambda dtype: dtype == "float32", full(lambda dtype: dtype in ("float32", "int16"), KINDS))
)
def test_every_border_of_the_engine(dtype, rng):
    rows, columns, steps = borders(dtype)
    sizes = [(m, 33, columns[i % len(columns)]) for i, m in enumerate(rows)]
    sizes += [(rows[i % 3], 20, n) for i, n in enumerate(columns)]
    sizes += [(rows[i % 3], k, columns[i % 6]) for i, k in enumerate(steps)]
    for m, k, n in sizes:
        A, B = numbers(rng, dtype, m, k), numbers(rng, dtype, k, n)
        C = np.full((m, n), -1, dtype)  # anything left of it, or read, would win every minimum
        BACKEND.multiply(plan_for(dtype), C, A, B)
        np.testing.assert_array_equal(C, min_plus_by_numpy(A, B), err_msg=f"{m} x {k} x {n}")
        old = numbers(rng, dtype, m, n) // 4
        C = old.copy()
        BACKEND.multiply_add(plan_for(dtype), C, A, B)
        np.testing.assert_array_equal(C, min_plus_by_numpy(A, B, old), err_msg=f"{m} x {k} x {n}, added")


def with_strides(values, how):
    m, n = values.shape
    if how == "transposed":
        return np.asfortranarray(values)
    if how == "every second":
        return np.repeat(np.repeat(values, 2, 0), 2, 1)[::2, ::2]
    if how == "backwards":
        return np.ascontiguousarray(values[::-1, ::-1])[::-1, ::-1]
    if how == "unaligned":
        room = np.zeros(values.nbytes + 1, np.uint8)
        view = room[1:].view(values.dtype) if values.itemsize == 1 else np.frombuffer(room, values.dtype, m * n, 1)
        view = view.reshape(m, n)
        view[...] = values
        return view
    if how == "one row for all":
        return np.broadcast_to(values[:1], values.shape)
    return values


LAYOUTS = ["plain", "transposed", "every second", "backwards", "unaligned", "one row for all"]


@pytest.mark.parametrize("how_a", LAYOUTS)
@pytest.mark.parametrize("how_b", LAYOUTS)
def test_operands_of_any_strides(how_a, how_b, rng):
    for dtype in ("float32", "int16", "float64"):
        A, B = with_strides(numbers(rng, dtype, 20, 530), how_a), with_strides(numbers(rng, dtype, 530, 70), how_b)
        A.flags.writeable = B.flags.writeable = False
        C = np.empty((20, 70), dtype)
        BACKEND.multiply(plan_for(dtype), C, A, B)
        np.testing.assert_array_equal(C, min_plus_by_numpy(A, B))


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("how_a", LAYOUTS[:4])
@pytest.mark.parametrize("how_b", LAYOUTS[:4])
def test_large_operands_of_any_strides_are_copied_in_strips(how_a, how_b, threads, monkeypatch, rng):
    """A product, a triangular product and a witness of more pairs than the kernels pack element by element."""
    for name, value in (("_COPY_BYTES", 1), ("_COPY_STRIP", 48)):
        monkeypatch.setattr(cpu_kernels, name, value)
    plan = dataclasses.replace(plan_for("int16"), threads=threads)
    A, B = numbers(rng, "int16", 150, 190), numbers(rng, "int16", 190, 170)
    a, b = with_strides(A, how_a), with_strides(B, how_b)
    C = np.empty((150, 170), np.int16)
    BACKEND.multiply(plan, C, a, b)
    expected = min_plus_by_numpy(A, B)
    np.testing.assert_array_equal(C, expected)
    C, W = np.full_like(C, plan.zero), np.full(C.shape, -1, np.int32)
    BACKEND.multiply_add_witness(plan, C, W, a, b, 0)
    np.testing.assert_array_equal(C, expected)
    np.testing.assert_array_equal(np.take_along_axis(A, W, 1) + np.take_along_axis(B, W, 0), expected)
    for is_left in (True, False):
        upper = [
            np.where(np.tri(*X.shape, -8, bool), plan.zero, X) if left == is_left else X
            for X, left in ((A, True), (B, False))
        ]
        BACKEND.multiply_upper(plan, C, *map(with_strides, upper, (how_a, how_b)), 8, is_left)
        np.testing.assert_array_equal(C, min_plus_by_numpy(*upper))


@pytest.mark.parametrize("how", ["transposed", "every second", "backwards", "unaligned"])
def test_results_of_any_strides(how, rng):
    for dtype in ("float32", "int16", "float64"):
        A, B = numbers(rng, dtype, 20, 40), numbers(rng, dtype, 40, 300)
        old = numbers(rng, dtype, 20, 300)
        C, W = with_strides(old, how), with_strides(np.full((20, 300), -1, np.int32), how)
        BACKEND.multiply_add_witness(plan_for(dtype), C, W, A, B, 7)
        expected = min_plus_by_numpy(A, B, old)
        np.testing.assert_array_equal(C, expected)
        np.testing.assert_array_equal(W >= 7, expected < old)


@pytest.mark.parametrize("chunk", [1, 3, 64, 100, 512, 513, 1200, 5000])
def test_marked_runs_shorter_and_longer_than_a_panel(chunk, rng):
    A, B = numbers(rng, "float32", 13, 1500), numbers(rng, "float32", 1500, 67)
    C, P = np.full((13, 67), np.inf, np.float32), np.full((13, 67), -1, np.int32)
    kernels_for(plan_for("float32")).product(C, A, B, P, 1, chunk, 11, 1)
    last = np.full(P.shape, -1)
    best = np.full(C.shape, np.inf)
    for start in range(0, 1500, chunk):
        run = min_plus_by_numpy(A[:, start : start + chunk], B[start : start + chunk])
        last[run < best] = 11 + start
        best = np.minimum(best, run)
    np.testing.assert_array_equal(C, best)
    np.testing.assert_array_equal(P, last)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int16"])
@pytest.mark.parametrize("shape", [(20, 63, 70), (9, 64, 5), (64, 200, 130), (7, 1100, 65)])
@pytest.mark.parametrize("width", [np.int32, np.int64])
def test_the_smallest_witness_among_many_ties(dtype, shape, width, rng):
    m, k, n = shape
    A, B = rng.integers(0, 3, (m, k)).astype(dtype), rng.integers(0, 3, (k, n)).astype(dtype)
    old = rng.integers(0, 2, (m, n)).astype(dtype)
    C, W = old.copy(), np.full((m, n), -1, width)
    BACKEND.multiply_add_witness(plan_for(dtype), C, W, A, B, 100)
    candidates = A[:, :, None] + B[None]
    best = candidates.min(axis=1)
    np.testing.assert_array_equal(C, np.minimum(best, old))
    np.testing.assert_array_equal(W, np.where(best < old, 100 + candidates.argmin(axis=1), -1))


def test_a_large_offset_of_witnesses(rng):
    A, B = numbers(rng, "float32", 5, 70), numbers(rng, "float32", 70, 5)
    C, W = np.full((5, 5), np.inf, np.float32), np.full((5, 5), -1, np.int64)
    BACKEND.multiply_add_witness(plan_for("float32"), C, W, A, B, 1 << 40)
    np.testing.assert_array_equal(W, (1 << 40) + (A[:, :, None] + B[None]).argmin(axis=1))


@pytest.mark.parametrize("dtype", CLOSED)
@pytest.mark.parametrize("n", [1, 2, 23, 24, 25, 31, 32, 33, 47, 48, 49, 65, 150, 300])
def test_blocks_are_closed_whatever_their_size(n, rng, dtype):
    A = numbers(rng, dtype, n, n) + 1
    A[rng.random((n, n)) < 0.7] = 10_000
    expected = A.copy()
    np.fill_diagonal(expected, 0)
    for k in range(n):
        expected = np.minimum(expected, expected[:, k, None] + expected[None, k, :])
    closed = A.copy()
    BACKEND.close_block(plan_for(dtype), closed)
    np.testing.assert_array_equal(closed, expected)


def test_closing_a_block_without_contiguous_rows(rng):
    A = numbers(rng, "float32", 60, 60)
    expected = A.copy()
    BACKEND.close_block(plan_for("float32"), expected)
    for how in ("transposed", "every second", "backwards"):
        view = with_strides(A, how)
        BACKEND.close_block(plan_for("float32"), view)
        np.testing.assert_array_equal(view, expected)


def test_sums_that_overflow_a_float_are_no_path():
    huge = np.full((3, 3), np.finfo(np.float32).max, np.float32)
    C = np.empty((3, 3), np.float32)
    BACKEND.multiply(plan_for("float32"), C, huge, huge)
    assert np.isposinf(C).all()


def test_mixed_signs_leave_no_path_no_path():
    plan = make_plan(sr.min_plus, "int32")
    A = np.array([[plan.zero, 5]], np.int32)
    B = np.array([[-7], [plan.zero]], np.int32)
    C = np.empty((1, 1), np.int32)
    BACKEND.multiply(plan, C, A, B)
    assert C[0, 0] == plan.zero


def test_a_multiply_add_rounds_once_only_where_the_semiring_says_so():
    x = np.float32(1 + 2**-12)
    A, B = np.array([[x]]), np.array([[x]])
    C = np.array([[-1 - 2**-11]], np.float32)
    contracted, plain = C.copy(), C.copy()
    BACKEND.multiply_add(make_plan(sr.plus_times, "float32"), contracted, A, B)
    twice = sr.Semiring("twice rounded", "x + y", "x * y", 0, 1, dtypes=("float32",))
    BACKEND.multiply_add(make_plan(twice, "float32"), plain, A, B)
    assert contracted[0, 0] == np.float32(2**-24)  # x² = 1 + 2⁻¹¹ + 2⁻²⁴, of which a float32 keeps the first two
    assert plain[0, 0] == 0


@pytest.mark.full
@pytest.mark.timeout(60)  # LLVM moved constants in front of the repetition of an entry, and back, without end
@pytest.mark.parametrize("dtype", ["uint8", "int16", "bool"])
@pytest.mark.parametrize(
    ("add", "mul", "zero", "one"),
    [
        ("x ^ y ^ 1", "((x ^ 1) & (y ^ 1)) ^ 1", "1", "0"),
        ("x | y", "((x ^ 1) | ~y) & (x | 1)", "0", "~0"),
        ("x & y", "(x | y ^ 1) ^ (y & ~x)", "~0", "0"),
    ],
)
def test_narrow_tiles_with_constants_compile(monkeypatch, rng, dtype, add, mul, zero, one):
    monkeypatch.setenv("SEMIRING_NUMPY_SECONDS", "0")
    semiring = sr.Semiring("bits", add, mul, zero, one, dtypes=[dtype])
    with warnings.catch_warnings(action="ignore", category=sr.errors.AlgebraWarning):
        plan = make_plan(semiring, dtype)
    A, B = numbers(rng, dtype, 7, 9), numbers(rng, dtype, 9, 70)
    C = np.empty((7, 70), np.dtype(dtype))
    BACKEND.multiply(plan, C, A, B)
    expected = np.full_like(C, semiring.zero_for(dtype))
    for k in range(9):
        expected = semiring.add(expected, semiring.mul(A[:, k, None], B[k]))
    np.testing.assert_array_equal(C, expected)
