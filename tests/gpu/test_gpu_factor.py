"""Test factors on a GPU against factors of the host."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

import semiring as sr
from semiring.errors import NegativeCycleError
from semiring.namespaces import is_device_array

pytestmark = pytest.mark.gpu

CASES = [
    ("min_plus", "float32"),
    ("min_plus", "float64"),
    ("min_plus", "int16"),
    ("max_plus", "int64"),
    ("max_min", "int32"),
    ("boolean", "bool"),
    ("plus_times", "float64"),
    ("log_plus", "float32"),
]


def graph(rng, side, name, dtype, *, symmetric=False):
    """Return the streets of towns side by side. In plus_times and log_plus sums over walks converge."""
    at = np.arange(side * side).reshape(side, side)
    tails = np.concatenate([at[:, :-1].ravel(), at[:-1].ravel()])
    heads = np.concatenate([at[:, 1:].ravel(), at[1:].ravel()])
    values = rng.integers(1, 9, tails.size if symmetric else 2 * tails.size)
    if symmetric:
        values = np.r_[values, values]
    if name in ("plus_times", "log_plus"):
        values = values / 50 if name == "plus_times" else np.log(values / 50)
    values = (-values if name == "max_plus" else values).astype(dtype)
    ends = np.r_[tails, heads], np.r_[heads, tails]
    return sparse.coo_array((values, ends), shape=(side**2, side**2)).tocsr()


def assert_same(actual, expected):
    assert is_device_array(actual)
    close = actual.dtype.kind != "f" or expected.dtype.kind != "f"
    if close:
        np.testing.assert_array_equal(actual.get(), expected)
    else:
        np.testing.assert_allclose(actual.get(), expected, rtol=1e-4 if actual.dtype == np.float32 else 1e-10)


@pytest.mark.parametrize(("name", "dtype"), CASES)
@pytest.mark.parametrize("side", [1, 3, 24, 61])
def test_answers_are_those_of_the_host(name, dtype, side, rng):
    n = side * side
    for symmetric in (False, True):
        A = graph(rng, side, name, dtype, symmetric=symmetric)
        host, F = sr.factor(A, name), sr.factor(A, name, device="cuda")
        assert F.symmetric == host.symmetric
        assert_same(F.closure(), host.closure())
        some, others = rng.integers(0, n, 7), rng.integers(0, n, 5)
        assert_same(F.table(some), host.table(some))
        assert_same(F.table(some, others), host.table(some, others))
        ends = rng.integers(0, n, (2, 500))
        assert_same(F.distances(*ends), host.distances(*ends))
        b = rng.integers(1, 9, (n, 3)).astype(dtype)
        for transposed in (False, True):
            assert_same(F.solve(b, transpose=transposed), host.solve(b, transpose=transposed))
        if sr.CATALOGUE[name].selective:
            np.testing.assert_array_equal(F.rows(reduce="eccentricity"), host.rows(reduce="eccentricity"))
        blocks = [block.get() for _, block in F.rows(chunk=max(1, n // 3))]
        np.testing.assert_array_equal(np.concatenate(blocks), F.closure().get())
        assert_same(F.refactor(A).closure(), F.closure().get())


def test_large_fronts(rng):
    """The fronts of a graph that fills up are large, so most of the work is in products."""
    n = 700
    A = sparse.random_array((n, n), density=4 / n, rng=rng, data_sampler=lambda size: rng.integers(1, 99, size)).tocsr()
    for dtype in (np.float32, np.int32):
        given = A.astype(dtype)
        for symmetric in (False, True):
            given = given.maximum(given.T).tocsr() if symmetric else given
            host, F = sr.factor(given), sr.factor(given, device="cuda")
            assert F._analysis.is_large().any()
            assert_same(F.closure(), host.closure())


def test_signs(rng):
    A = graph(rng, 20, "min_plus", "float64")
    h = rng.normal(size=400)
    signed = A.tocoo()
    signed.data = signed.data + h[signed.col] - h[signed.row]
    F = sr.factor(signed, device="cuda")
    assert_same(F.table([3, 5], [1, 2, 7]), sr.factor(signed).table([3, 5], [1, 2, 7]))
    np.testing.assert_allclose(F.rows(reduce="eccentricity"), F.closure().max(axis=1).get())
    cyclic = sparse.block_array([[A, None], [None, A]]).astype(np.float64).tolil()
    cyclic[7, 8], cyclic[8, 7] = -3, 2
    cyclic = cyclic.tocsr()
    apart, some = np.arange(400, 405), np.array([7, 400, 12, 401])
    with pytest.raises(NegativeCycleError):
        sr.factor(cyclic, device="cuda").closure()
    assert_same(sr.factor(cyclic, device="cuda").table(apart), sr.factor(cyclic).table(apart))
    F, host = (sr.factor(cyclic, on_cycle="unbounded", device=device) for device in ("cuda", None))
    assert_same(F.closure(), host.closure())
    assert_same(F.table(some, some), host.table(some, some))
    assert_same(F.distances(some, some[::-1]), host.distances(some, some[::-1]))
    b = np.where(np.arange(800) == 405, 0.0, np.inf)
    assert_same(F.solve(b), host.solve(b))
    assert np.isneginf(host.closure()).sum() == 400 * 400
    assert sr.factor(A, device="cuda").path(0, 399) == sr.factor(A).path(0, 399)


SPIN = """
extern "C" __global__ void spin(long long clocks) {
    long long start = clock64();
    while (clock64() - start < clocks) {}
}
"""


def test_what_one_stream_brought_is_there_for_another(rng):
    """A factor keeps lists on the GPU from the first call that needs them, here one that waits behind other work."""
    import cupy

    A = graph(rng, 24, "min_plus", "float32")
    b = rng.integers(1, 9, (576, 3)).astype(np.float32)
    host, spin = sr.factor(A), cupy.RawKernel(SPIN, "spin")
    busy, idle = (cupy.cuda.Stream(non_blocking=True) for _ in range(2))
    spin((1,), (1,), (np.int64(1),))  # compiled
    for ask in (lambda F: F.solve(b), lambda F: F.table([3, 5], [1, 2, 7]), lambda F: F.refactor(A).solve(b)):
        sr.factor(A, device="cuda").solve(b)  # its kernels too
        F, expected = sr.factor(A, device="cuda"), ask(host)
        cupy.cuda.Device().synchronize()
        with busy:
            spin((1,), (1,), (np.int64(300_000_000),))
            first = ask(F)
        with idle:
            assert_same(ask(F), expected)
        with busy:
            assert_same(first, expected)
