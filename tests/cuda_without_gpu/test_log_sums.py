"""Test the sums of log_plus that the tensor cores leave open: the kernel for the GPU, compiled, and run on the host."""

from __future__ import annotations

import numpy as np
import pytest
from cuda_on_host import HostKernels, needs_compiler
from log_kinds import exactly
from machine_code import compile_for, needs_nvrtc, resources

from semiring.kernels.cuda.closing.kernel_text import text_of

INF = np.inf


def text(char):
    """Return the source without CuPy, which the module that launches it imports."""
    element, file = ("float", "log_splits.cu") if char == "f" else ("double", "log_sums.cu")
    return f"typedef {element} T;\n{text_of(file)}"


@pytest.mark.full
@needs_nvrtc
@pytest.mark.parametrize("char", ["f", "d"])
def test_it_compiles_with_few_spills(char):
    _, log = compile_for("sm_90a", text(char), ("--std=c++17",))
    spilled = [spills for _, spills in resources(log).values()]
    assert len(spilled) == (6 if char == "f" else 4)
    assert max(spilled) < 256


@pytest.fixture(scope="module")
def kernels():
    return {char: HostKernels(text(char)) for char in "fd"}


def normal(rng, m, k, n):
    return rng.normal(size=(m, k)), rng.normal(size=(k, n))


def hostile(rng, m, k, n):
    return rng.uniform(-4e5, 4e5, (m, k)), rng.uniform(-4e5, 4e5, (k, n))


def sparse(rng, m, k, n):
    def draw(*shape):
        return np.where(rng.random(shape) < 0.15, rng.normal(size=shape), -INF)

    return draw(m, k), draw(k, n)


def huge(rng, m, k, n):
    A, B = normal(rng, m, k, n)
    A[m // 2, 1], B[2, n // 3], A[0, 0] = 3e8, 1e25, -1e30
    return A, B


def infinite(rng, m, k, n):
    A, B = normal(rng, m, k, n)
    A[0, 0], B[1, 0], A[1] = INF, -INF, -INF
    return A, B


def strides(X):
    return [np.int64(stride // X.itemsize) for stride in X.strides]


def add_splits(kernels, sums, A, B, C, reads, backwards=False, is_open=1):
    """Launch what `semiring.kernels.cuda.product.log_sums` launches for float32."""
    (m, k), n, (rows, columns), depth = A.shape, B.shape[1], (128, 64), 16
    is_open, deep = np.full(1, is_open, np.int32), -(-k // depth)

    def split(X, tile, lowest):
        tiles = -(-X.shape[0] // tile)
        splits, odd = np.full(3 * tiles * tile * deep * depth, np.nan, np.float32), np.zeros(tiles, np.int32)
        sizes = np.int64(X.shape[0]), np.int64(k), np.int32(tile), np.int32(lowest)
        given = is_open, X, *strides(X), *sizes, splits, odd
        kernels.launch("split", (deep, tiles, 1), (256, 1, 1), given, backwards=backwards)
        return splits, odd

    (left, odd_rows), (right, odd_columns) = split(A, rows, 0), split(B.T, columns, -125)
    result = C, *strides(C), np.int64(m), np.int64(n), np.int32(reads), np.int32(1 << 23)
    given = is_open, odd_rows, odd_columns, sums, np.int64(n), left, right, np.int32(deep), *result
    kernels.launch("add_splits", (odd_columns.size, odd_rows.size, 1), (128, 1, 1), given, backwards=backwards)


@needs_compiler
@pytest.mark.full
@pytest.mark.parametrize("char", ["f", "d"])
@pytest.mark.parametrize("kind", [normal, hostile, sparse, huge, infinite])
@pytest.mark.parametrize("order", ["C", "F"])
def test_open_entries_become_their_sums_and_others_stay(kernels, char, kind, order, rng):
    m, k, n = 131, 37, 67
    A, B = (np.asarray(X, char, order=order) for X in kind(rng, m, k, n))
    terms, best, exact = exactly(A, B)
    for reads in (0, 1):
        S = np.where(rng.random((m, n)) < 0.8, np.nan, 1.0)
        S[:, 64:] = 1.0  # one tile of them has nothing to do
        before = np.asarray(
            np.where(rng.random((m, n)) < 0.3, -INF, exact + rng.normal(size=(m, n))), char, order=order
        )
        C = before.copy(order)
        expected = np.logaddexp(exact, before.astype(float)) if reads else exact
        marked = np.isnan(S)
        for backwards in (False, True):
            found, sums = C.copy(order), S.copy()
            if char == "f":
                add_splits(kernels[char], sums, A, B, found, reads, backwards)
                left_out = np.isnan(sums)
                assert not left_out[~marked].any()
                assert left_out.any() == (kind in (huge, infinite))
            matrices = A, *strides(A), B, *strides(B), found, *strides(found)
            given = np.ones(1, np.int32), sums, np.int64(n), *matrices, *map(np.int64, (m, n, k)), np.int32(reads)
            tall = 2 if char == "f" else 3
            kernels[char].launch("log_sums", (2, tall, 1), (256, 1, 1), given, backwards=backwards)
            np.testing.assert_array_equal(found[~marked], before[~marked])
            endless = ~np.isfinite(expected) & marked
            np.testing.assert_array_equal(found[endless], expected[endless])
            rest = marked & np.isfinite(expected)
            scale = np.maximum(1, np.abs(expected[rest])) * np.finfo(char).eps
            assert (np.abs(found[rest] - expected[rest]) / scale).max() <= (2.5 if char == "f" else 8)
        single = marked & (np.isfinite(terms).sum(1) == 1) & (reads == 0)
        np.testing.assert_array_equal(found[single], best.astype(char)[single])


@needs_compiler
@pytest.mark.full
@pytest.mark.parametrize("char", ["f", "d"])
@pytest.mark.parametrize("kind", [normal, hostile, sparse, huge, infinite])
@pytest.mark.parametrize(
    ("count", "m", "k", "n", "part"),
    [
        (1, 33, 37, 67, 48),
        (2, 5, 50, 31, 16),
        (3, 32, 7, 32, 16),
        (1, 1, 40, 300, 16),
        (2, 1, 90, 5, 96),
        (1, 2, 0, 3, 16),
    ],
)
def test_all_entries_in_parts_of_k(kernels, char, kind, count, m, k, n, part, rng):
    kind = normal if k < 3 or (m < 2 and kind is infinite) else kind
    drawn = [kind(rng, m, k, n) for _ in range(count)]
    A, B = (np.asarray(X, char) for X in map(np.stack, zip(*drawn, strict=True)))
    B = np.asarray(B.swapaxes(1, 2), order="C").swapaxes(1, 2) if part == 48 else B
    terms, best, exact = exactly(A, B)
    parts, (rows, columns, name) = max(1, -(-k // part)), (1, 256, "log_lines") if m == 1 else (32, 32, "log_tiles")
    blocks, size = -(-m // rows) * -(-n // columns) * count * parts, count * m * n
    for reads in (0, 1):
        before = np.where(rng.random(exact.shape) < 0.3, -INF, rng.normal(size=exact.shape)).astype(char)
        expected = np.logaddexp(exact, before.astype(float)) if reads else exact
        for backwards in (False, True):
            found = before.copy()
            sums, tops = np.full(size * parts, np.nan), np.full(size * parts, np.nan, char)
            matrices = A, *strides(A), B, *strides(B), found, *strides(found)
            given = *matrices, *map(np.int64, (m, n, k, part)), np.int32(reads), sums, tops
            kernels[char].launch(name, (blocks, 1, 1), (256, 1, 1), given, backwards=backwards)
            if parts > 1:
                given = found, *strides(found), *map(np.int64, (m, n, count, parts)), np.int32(reads), sums, tops
                kernels[char].launch("log_parts", (-(-size // 256), 1, 1), (256, 1, 1), given, backwards=backwards)
            else:
                assert np.isnan(sums).all()
            endless = ~np.isfinite(expected)
            np.testing.assert_array_equal(found[endless], expected[endless])
            rest = ~endless
            scale = np.maximum(1, np.abs(expected[rest])) * np.finfo(char).eps
            assert (np.abs(found[rest] - expected[rest]) / scale).max(initial=0) <= (2.5 if char == "f" else 8)
            single = (np.isfinite(terms).sum(-2) == 1) & (reads == 0)
            np.testing.assert_array_equal(found[single], best.astype(char)[single])
