"""Test the passes over arrays on a GPU: their text compiled for the host, every statement on every element size."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from cuda_on_host import HostKernels, PreparedOnHost, aligned_array, needs_compiler, to_device
from tiers import full

from semiring.kernels.cuda.entries import entry_passes as kernels

_VECTOR = "struct uint4 { unsigned x, y, z, w; };\n"


@pytest.fixture
def launches(monkeypatch):
    """Run the passes on the host, and record (name, rows) of every dense launch, and of NumPy's loops their name."""
    calls, compiled = [], {}
    named = {which.name: which for which in vars(kernels).values() if isinstance(which, kernels.Pass)}

    def dense(which, integer, device):
        key = which, integer
        if key not in compiled:
            text = _VECTOR + kernels.source(which, integer)
            compiled[key] = HostKernels(text)

        def launch(grid, block, arguments):
            calls.append((which.name, int(arguments[2])))
            pointers = [np.int64(x) if isinstance(x, int) else x for x in arguments]
            compiled[key].launch("pass", (*grid, 1, 1), (*block, 1, 1), pointers)

        return launch

    monkeypatch.setattr(kernels, "_dense_kernel", dense)
    monkeypatch.setattr(kernels, "PreparedLaunch", PreparedOnHost)
    kernels._prepare_launch.cache_clear()

    def elementwise(inputs, outputs, code, name):
        """Declare a kernel as CuPy does, so that inputs cannot be written."""
        names = ["x", *(f"*{part.split()[-1]}" for part in outputs.split(", "))]
        parameters = [f"const {part}" for part in inputs.split(", ")[1:]] + [f"int {x}" for x in names[2:]]

        def each(A, *arguments):
            head = f"typedef {'unsigned ' if A.dtype.kind == 'u' else 'signed '}{kernels.SIZES[A.itemsize]} T;\n"
            kernel = (
                f'extern "C" __global__ void each({", ".join(["const T *xs", "T *ys", "int n", *parameters])}) {{\n'
                f"for (int i = 0; i < n; ++i) {{ const T &x = xs[i]; T &y = ys[i]; {code} }} }}\n"
            )
            key = name, A.dtype
            if key not in compiled:
                compiled[key] = HostKernels(head + kernel)
            numbers = inputs.count(",")
            values, (out, *words) = arguments[:numbers], arguments[numbers:]
            xs, ys = np.ascontiguousarray(A), np.ascontiguousarray(out).copy()
            xs = ys if np.shares_memory(A, out) else xs
            compiled[key].launch("each", (1, 1, 1), (1, 1, 1), [xs, ys, np.int32(A.size), *values, *words])
            out[...] = ys
            calls.append((name, 0))

        return each

    class Cupy:
        empty = staticmethod(lambda shape, dtype: to_device(np.full(shape, 77, dtype)))
        ElementwiseKernel = staticmethod(elementwise)
        cuda = SimpleNamespace(runtime=SimpleNamespace(getDevice=lambda: 0))

    monkeypatch.setattr(kernels, "load_cupy", Cupy)
    for which in named.values():
        vars(which).pop("_elementwise", None)
    yield calls
    for which in named.values():
        vars(which).pop("_elementwise", None)


def values(rng, shape, dtype):
    if np.dtype(dtype).kind == "i":
        limits = np.iinfo(dtype)
        found = rng.integers(limits.min, limits.max, shape, dtype, endpoint=True)
        found[rng.random(shape) < 0.3] = limits.max // 2
        return found
    found = rng.choice([0.0, -0.0, 1.5, 7.0, np.inf, np.nan, -np.nan], shape)
    return found.astype(dtype)


SHAPES = [(1, 1), (3, 5), (64, 64), (33, 70), (5, 4096), (7, 9, 11)]


def views(rng, shape, dtype):
    """Yield arrays of one shape in every layout that launches distinguish, and the number of rows of a dense launch."""
    one = aligned_array(shape, dtype)
    yield one, 1
    yield aligned_array(shape[::-1], dtype).T, 1
    yield aligned_array(shape, dtype, offset=1), 0
    if len(shape) == 2:
        lanes = 16 // one.itemsize
        wide = -(-shape[1] // lanes) * lanes + lanes
        yield aligned_array((shape[0], wide), dtype)[:, : shape[1]], 1 if shape[0] == 1 else shape[0]
        yield aligned_array((shape[0], 2 * shape[1]), dtype)[:, ::2], 1 if max(shape) == 1 else 0


@pytest.mark.full
@needs_compiler
@pytest.mark.parametrize("dtype", full(lambda dtype: dtype == "float16", ["float16", "float32", "float64"]))
def test_statements_about_floats(dtype, launches, rng):
    for shape in SHAPES:
        for A, rows in views(rng, shape, dtype):
            for has_negative in (False, True):
                given = values(rng, shape, dtype)
                if has_negative:
                    given[(-1,) * len(shape)] = -np.inf if rng.random() < 0.5 else -1e-3
                A[...] = given
                word = kernels.copy_nonnegative(A, A)
                assert launches[-1] == ("nonnegative", rows)
                assert bool(word[0]) == has_negative
                np.testing.assert_array_equal(A, given)
                assert not np.signbit(A[~(A < 0)]).any()  # of a NaN neither: it would come before all numbers
                kernels.spoil(A, word)
                assert np.isnan(A).all() if has_negative else np.array_equal(A, given, equal_nan=True)
                A[...] = given
                kernels.clear_zeros(A, A)
                np.testing.assert_array_equal(A, given)
                assert not np.signbit(A[A == 0]).any()
                A[...] = given
                kernels.negate(A, A)
                np.testing.assert_array_equal(A, -given)
                assert not np.signbit(A[A == 0]).any()


@pytest.mark.full
@needs_compiler
@pytest.mark.parametrize("dtype", full(lambda dtype: dtype == "int32", ["int16", "int32", "int64"]))
def test_statements_about_integers(dtype, launches, rng):
    for shape in SHAPES:
        for A, rows in views(rng, shape, dtype):
            given = values(rng, shape, dtype)
            bound = np.iinfo(dtype).max // 2
            for least, sign in ((True, 1), (True, -1), (False, 1), (False, -1)):
                A[...] = given
                end = bound if least else -bound
                kernels.replace_beyond(A, end, 17, A, is_least=least, sign=sign)
                assert launches[-1] == ("replace_beyond", rows)
                beyond = given >= end if least else given <= end
                np.testing.assert_array_equal(A, np.where(beyond, 17, np.dtype(dtype).type(sign) * given))


@pytest.mark.full
@needs_compiler
def test_the_order_of_floats(launches, rng):
    floats = np.array([-np.inf, -2.5, -1e-40, -0.0, 0.0, 1e-40, 1.0, 3.0, np.inf], np.float32)
    bits = aligned_array(floats.shape, np.int32)
    bits[...] = floats.view(np.int32)
    kernels.in_order(bits, bits, [(int(bits[4]), 2**31 - 1), (12, 12)], False)
    order = np.delete(bits, 4)
    assert (np.diff(order.astype(np.int64)) > 0).all()
    assert bits[4] == 2**31 - 1
    other = aligned_array(floats.shape, np.int32)
    kernels.in_order(bits, other, [(2**31 - 1, 0), (12, 12)], True)
    np.testing.assert_array_equal(other, floats.view(np.int32))
    bits[...] = other
    kernels.flip(bits, other)
    assert (np.diff(other.astype(np.int64)) > 0).all()


@pytest.mark.full
@needs_compiler
@pytest.mark.parametrize("dtype", full(lambda dtype: dtype == "uint8", ["uint8", "float16", "float32", "int64"]))
def test_copies(dtype, launches, rng):
    for shape in SHAPES[:-1]:
        given = rng.integers(0, 200, shape).astype(dtype)
        targets = [array for array, _ in views(rng, shape, dtype)]
        for A, _ in views(rng, shape, dtype):
            A[...] = given
            for out in targets:
                out[...] = 0
                kernels.copy(A, out)
                np.testing.assert_array_equal(out, given)
    dense = [rows for _, rows in launches]
    assert {0, 1, 64} <= set(dense)
    empty = aligned_array((0, 4), dtype)
    kernels.copy(empty, empty)
