"""Test linear algebra on GPU arrays against the CPU: sizes, orders, batches, libraries, streams, errors."""

from __future__ import annotations

import contextlib

import numpy as np
import oracles
import pytest

import semiring as sr
from semiring.arrays.entries import check_entries
from semiring.errors import DeviceError, DomainError, SemiringError

pytestmark = pytest.mark.gpu

INF = np.inf
CASES = [
    *(("min_plus", dtype) for dtype in ("float32", "float64", "float16", "int16", "int32", "int64")),
    *(("max_plus", "int32"), ("max_min", "float32"), ("max_min", "uint8"), ("boolean", "bool")),
    *(("plus_times", "float32"), ("plus_times", "float64"), ("plus_times", "float16"), ("max_times", "float32")),
]
SIZES = [(0, 2, 3), (2, 0, 3), (3, 2, 0), (1, 1, 1), (2, 2, 2), (17, 33, 65), (127, 15, 129), (128, 128, 128)]


@pytest.fixture(scope="module")
def cp():
    return pytest.importorskip("cupy")


def entries(rng, name, dtype, shape):
    zero = oracles.zero(name, dtype)
    if dtype == "bool":
        return rng.random(shape) < 0.3
    low = 0 if dtype == "uint8" or name == "max_times" else -9
    values = rng.integers(low, 10, shape).astype(dtype)
    return np.where(rng.random(shape) < 0.25, zero, values).astype(dtype)


def assert_same(actual, expected):
    """Check for a CuPy array of the dtype, the shape and the bits of all entries, except for the sign of a zero."""
    import cupy

    assert isinstance(actual, cupy.ndarray), type(actual)
    expected = np.asarray(expected)
    assert (actual.dtype, actual.shape) == (expected.dtype, expected.shape)
    np.testing.assert_array_equal(actual.get(), expected)


# ------------------------------------------------------------------------------------------------- the look


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int16", "int32", "int64", "uint8"])
def test_the_look_finds_what_the_cpu_finds(dtype, cp, rng):
    semirings = [
        name for name in ("min_plus", "max_plus", "max_times", "max_min") if sr.CATALOGUE[name].supports(dtype)
    ]
    for name in semirings:
        semiring = sr.CATALOGUE[name]
        for shape in [(), (1,), (7,), (3, 5), (257, 129), (2, 3, 4, 5), (1_000_003,)]:
            low = -3 if name != "max_times" and np.dtype(dtype).kind != "u" and rng.random() < 0.5 else 0
            values = np.asarray(rng.integers(low, 10, shape)).astype(dtype)
            values[rng.random(shape) < 0.1] = semiring.zero_for(dtype)
            for view in (lambda X: X, lambda X: X.T, lambda X: X[::-1] if X.ndim else X, lambda X: X[..., 1:]):
                if values.ndim == 0 and view(np.zeros((2, 2))).shape != (2, 2):
                    continue
                host, there = check_entries(view(values), semiring), check_entries(view(cp.asarray(values)), semiring)
                assert there.nonnegative == host.nonnegative
                assert there.has_zero == host.has_zero
                if host.low is not None:
                    assert there.low == host.low
                if host.high is not None:
                    assert there.high == host.high


def test_a_negative_zero_has_a_sign(cp):
    for value in (0.0, -0.0):
        array = np.array([3.0, value, INF], np.float32)
        assert check_entries(cp.asarray(array), sr.min_plus).nonnegative == (not np.signbit(value))


BAD = [
    ("min_plus", np.array([[1, 2, np.nan], [np.nan, 0, 1]], np.float32)),
    ("min_plus", np.array([[1, 2, 3], [0, -np.nan, 1]], np.float64)),
    ("max_times", np.array([[1, 2, 3], [0, -0.5, 1]], np.float32)),
    ("lukasiewicz", np.array([[1, 0, 1.5], [0, 0.5, 1]], np.float64)),
    ("log_plus", np.array([[1, 0, np.nan], [0, 0.5, 1]], np.float32)),
]


@pytest.mark.parametrize(("name", "values"), BAD)
def test_bad_entries_raise_the_same_error(name, values, cp):
    for host in (values, np.asfortranarray(values), values[:, ::-1]):
        with pytest.raises(SemiringError) as expected:
            sr.matmul(host.T, host, name)
        with pytest.raises(type(expected.value)) as found:
            sr.matmul(cp.asarray(host).T, cp.asarray(host), name)
        assert str(found.value) == str(expected.value)


def calls_that_fail(xp):
    A, tall = xp.zeros((3, 4)), xp.zeros((5, 2))
    yield lambda: sr.matmul(A, tall)
    yield lambda: sr.matmul(A, xp.zeros(()))
    yield lambda: sr.matmul(xp.zeros((2, 3, 4)), xp.zeros((5, 4, 3)))
    yield lambda: sr.matmul(A, A.T, out=xp.zeros((3, 4)))
    yield lambda: sr.matmul(A, A.T, out=xp.zeros((3, 3), np.float32))
    yield lambda: sr.matmul(xp.zeros((2, 2), np.uint8), xp.zeros((2, 2), np.uint8))
    yield lambda: sr.matmul(xp.zeros((2, 2), complex), xp.zeros((2, 2)))
    yield lambda: sr.blas.gemm(A, A.T, xp.zeros((4, 3)), beta=0)
    yield lambda: sr.blas.gemm(A, A.T, beta=0)
    yield lambda: sr.blas.gemv(A, A)
    yield lambda: sr.add(A, tall)
    yield lambda: sr.power(A, 2)
    yield lambda: sr.matmul(A, A.T, "plus_times", return_witness=True)
    top = 2**62
    yield lambda: sr.multiply(xp.full(2, top), xp.full(2, top))
    yield lambda: sr.matmul(xp.full((1, 1), 2**14, np.int16), xp.full((1, 1), 2**14, np.int16))


@pytest.mark.parametrize("number", range(len(list(calls_that_fail(np)))))
def test_bad_calls_raise_the_same_error(number, cp):
    with pytest.raises((SemiringError, ValueError)) as expected:
        list(calls_that_fail(np))[number]()
    with pytest.raises(type(expected.value)) as found:
        list(calls_that_fail(cp))[number]()
    assert str(found.value) == str(expected.value)


# ------------------------------------------------------------------------------------------------- products


@pytest.mark.parametrize(("name", "dtype"), CASES)
def test_matmul(name, dtype, cp, rng):
    for m, k, n in SIZES:
        A, B = entries(rng, name, dtype, (m, k)), entries(rng, name, dtype, (k, n))
        if name == "plus_times" and dtype == "float16":
            A, B = A % 3, B % 3  # every sum is exact
        expected = sr.matmul(A, B, name)
        for check in (True, False):
            assert_same(sr.matmul(cp.asarray(A), cp.asarray(B), name, check=check), expected)


@pytest.mark.parametrize(
    ("name", "dtype"), [("min_plus", "float32"), ("min_plus", "int32"), ("plus_times", "float32"), ("boolean", "bool")]
)
def test_memory_orders(name, dtype, cp, rng):
    base_a, base_b = entries(rng, name, dtype, (18, 39)), entries(rng, name, dtype, (39, 22))
    orders = [
        lambda X: X[::2, ::3],
        lambda X: X[::2, ::3].T.copy().T,
        lambda X: X[::-2, ::-3],
        lambda X: X[1:, 1:],  # an address that 16 does not divide
    ]
    for order in orders:
        A, B = order(base_a), order(base_b.T).T
        k = min(A.shape[1], B.shape[0])
        expected = sr.matmul(A[:, :k], B[:k], name)
        A_, B_ = order(cp.asarray(base_a)), order(cp.asarray(base_b).T).T
        assert_same(sr.matmul(A_[:, :k], B_[:k], name), expected)
        out = cp.zeros((2 * expected.shape[0], 3 * expected.shape[1]), dtype)
        for target in (out[::2, ::3], out[::-2, ::-3], out[: expected.shape[0], 1 : 1 + expected.shape[1]]):
            assert sr.matmul(A_[:, :k], B_[:k], name, out=target) is target
            assert_same(target, expected)


BATCHES = [((3,), (3,)), ((3,), ()), ((), (3,)), ((2, 1), (3,)), ((2, 3), (2, 3)), ((1, 3), (2, 1)), ((0,), ())]


@pytest.mark.parametrize(("name", "dtype"), [("min_plus", "float32"), ("min_plus", "int32"), ("plus_times", "float64")])
def test_batches_broadcast(name, dtype, cp, rng):
    for left, right in BATCHES:
        A, B = entries(rng, name, dtype, (*left, 5, 7)), entries(rng, name, dtype, (*right, 7, 4))
        expected = sr.matmul(A, B, name)
        assert_same(sr.matmul(cp.asarray(A), cp.asarray(B), name), expected)
        assert_same(sr.matmul(cp.asarray(A)[..., ::-1], cp.asarray(B)[..., ::-1, :], name), expected)
        out = cp.zeros((*expected.shape[:-2], 4, 5), dtype).swapaxes(-1, -2)
        assert sr.matmul(cp.asarray(A), cp.asarray(B), name, out=out) is out
        assert_same(out, expected)


def test_many_small_products(cp, rng):
    A, B = entries(rng, "min_plus", "float32", (100_000, 4, 5)), entries(rng, "min_plus", "float32", (100_000, 5, 3))
    assert_same(sr.matmul(cp.asarray(A), cp.asarray(B)), (A[:, :, :, None] + B[:, None]).min(2))


def test_vectors(cp, rng):
    A, x = entries(rng, "min_plus", "float32", (6, 9)), entries(rng, "min_plus", "float32", (9,))
    assert_same(sr.matmul(cp.asarray(A), cp.asarray(x)), sr.matmul(A, x))
    assert_same(sr.matmul(cp.asarray(x), cp.asarray(A).T), sr.matmul(x, A.T))
    assert_same(sr.matmul(cp.asarray(x), cp.asarray(x)), sr.matmul(x, x))
    assert_same(sr.blas.dot(cp.asarray(x), cp.asarray(x)), sr.blas.dot(x, x))


def test_dtypes_meet(cp):
    A, B = np.array([[1, 2**15 - 1]], np.int16), np.array([[1], [7]], np.int32)
    assert_same(sr.matmul(cp.asarray(A), cp.asarray(B)), sr.matmul(A, B))
    assert_same(sr.matmul(cp.asarray(A), cp.asarray(B.astype(float))), sr.matmul(A, B.astype(float)))
    assert_same(sr.multiply(cp.asarray(A), cp.asarray(B)), sr.multiply(A, B))
    top = np.full((1, 2), 20_000, np.int16)  # the sums leave the dtype inside, not outside
    assert_same(sr.matmul(cp.asarray(top), cp.asarray(-top.T)), sr.matmul(top, -top.T))


@pytest.mark.parametrize(("name", "dtype"), [("min_plus", "float32"), ("min_plus", "int32"), ("plus_times", "float32")])
def test_out_may_be_an_operand(name, dtype, cp, rng):
    A, B = entries(rng, name, dtype, (9, 9)), entries(rng, name, dtype, (9, 9))
    expected = sr.matmul(A, B, name)
    first = cp.asarray(A)
    assert sr.matmul(first, cp.asarray(B), name, out=first) is first
    assert_same(first, expected)
    second = cp.asarray(B)
    sr.matmul(cp.asarray(A), second, name, out=second.T)
    assert_same(second.T, expected)
    whole = cp.asarray(np.concatenate([A, B]))
    sr.matmul(whole[:9], whole[9:], name, out=whole[4:13])
    assert_same(whole[4:13], expected)
    C = cp.asarray(A)
    sr.blas.gemm(cp.asarray(A), cp.asarray(B), C, name, beta=sr.CATALOGUE[name].one_for(dtype), out=C.T)
    assert_same(C.T, sr.blas.gemm(A, B, A, name, beta=sr.CATALOGUE[name].one_for(dtype)))


@pytest.mark.parametrize(("name", "dtype"), [c for c in CASES if c[0] != "plus_times" and c[1] != "bool"])
def test_witnesses(name, dtype, cp, rng):
    for m, k, n in [(0, 2, 3), (2, 0, 3), (1, 1, 1), (17, 65, 33), (129, 100, 127)]:
        A, B = entries(rng, name, dtype, (m, k)), entries(rng, name, dtype, (k, n))
        for found, expected in zip(
            sr.matmul(cp.asarray(A), cp.asarray(B), name, return_witness=True),
            sr.matmul(A, B, name, return_witness=True),
            strict=True,
        ):
            assert_same(found, expected)
    A, B = entries(rng, name, dtype, (3, 5, 7)), entries(rng, name, dtype, (7, 4))
    assert_same(
        sr.matmul(cp.asarray(A), cp.asarray(B), name, return_witness=True)[1],
        sr.matmul(A, B, name, return_witness=True)[1],
    )


ROUNDED = [
    *(("min_plus", dtype) for dtype in ("float32", "float64", "float16")),
    *(("max_plus", "float32"), ("max_min", "float32"), ("max_times", "float32"), ("min_times", "float64")),
    ("lukasiewicz", "float32"),
]


@pytest.mark.parametrize(("name", "dtype"), ROUNDED)
def test_a_product_has_the_bits_of_the_cpu(name, dtype, cp, rng):
    """Each candidate is rounded once or twice in one way, and ⊕ selects, so numbers that do not fit agree too."""
    lowest, highest = sr.CATALOGUE[name].domain.lower, sr.CATALOGUE[name].domain.upper
    for m, k, n in [(33, 70, 65), (130, 257, 128)]:
        for low in (0.0, -0.5) if lowest < 0 else (0.0,):
            A, B = ((rng.random(shape) + low).astype(dtype) for shape in ((m, k), (k, n)))
            if highest > 1:
                A, B = A * dtype_of(dtype)(37.3), B / dtype_of(dtype)(11.9)
            A[rng.random(A.shape) < 0.1] = sr.CATALOGUE[name].zero_for(dtype)
            assert_same(sr.matmul(cp.asarray(A), cp.asarray(B), name), sr.matmul(A, B, name))


def dtype_of(name):
    return np.dtype(name).type


def test_powers(cp, rng):
    for name, dtype in (("min_plus", "float32"), ("min_plus", "int32"), ("plus_times", "float64")):
        A = entries(rng, name, dtype, (33, 33))
        A = A % 2 if name == "plus_times" else A
        for k in (0, 1, 2, 5):
            assert_same(sr.power(cp.asarray(A), k, name), sr.power(A, k, name))


# ------------------------------------------------------------------------------------------------- gemm and the others


@pytest.mark.parametrize(
    ("name", "dtype"),
    [("min_plus", "float32"), ("min_plus", "int32"), ("max_plus", "int16"), ("plus_times", "float32")],
)
def test_gemm(name, dtype, cp, rng):
    semiring = sr.CATALOGUE[name]
    A, B, C = (entries(rng, name, dtype, shape) for shape in ((17, 31), (31, 9), (17, 9)))
    zero, one = semiring.zero_for(dtype), semiring.one_for(dtype)
    for alpha in (None, 2, zero, one):
        for beta in (None, 3, zero, one):
            addends = (None, None) if beta is None else (C, cp.asarray(C))
            expected = sr.blas.gemm(A, B, addends[0], name, alpha=alpha, beta=beta)
            assert_same(sr.blas.gemm(cp.asarray(A), cp.asarray(B), addends[1], name, alpha=alpha, beta=beta), expected)
            out = cp.asarray(C)
            options = {"transpose": (True, True), "out": out, "check": False}
            At, Bt = cp.asarray(A.T.copy()), cp.asarray(B.T.copy())
            addend = None if beta is None else out
            assert sr.blas.gemm(At, Bt, addend, name, alpha=alpha, beta=beta, **options) is out
            assert_same(out, expected)


def test_gemm_reads_c_only_where_beta_is_not_the_zero(cp, rng):
    A = entries(rng, "plus_times", "float32", (5, 5))
    C = cp.full((5, 5), np.nan, np.float32)
    found = sr.blas.gemm(cp.asarray(A), cp.asarray(A), C, "plus_times", beta=0, check=False)
    assert_same(found, sr.matmul(A, A, "plus_times"))
    with pytest.raises(ValueError, match="C is given, but no beta"):
        sr.blas.gemm(cp.asarray(A), cp.asarray(A), C, "plus_times")
    with pytest.raises(DeviceError, match="beta is an array on a GPU"):
        sr.blas.gemm(C, C, C, beta=cp.zeros(()))


@pytest.mark.parametrize(("name", "dtype"), [("min_plus", "float32"), ("min_plus", "int32"), ("plus_times", "float64")])
def test_relatives_of_gemm(name, dtype, cp, rng):
    A, x, y = (entries(rng, name, dtype, shape) for shape in ((17, 31), (31,), (17,)))
    A_, x_, y_ = map(cp.asarray, (A, x, y))
    assert_same(sr.blas.gemv(A_, x_, y_, name, alpha=2, beta=1), sr.blas.gemv(A, x, y, name, alpha=2, beta=1))
    assert_same(sr.blas.gemv(A_, y_, semiring=name, transpose=True), sr.blas.gemv(A, y, semiring=name, transpose=True))
    out = y_.copy()
    assert sr.blas.gemv(A_, x_, out, name, beta=1, out=out) is out
    assert_same(out, sr.blas.gemv(A, x, y, name, beta=1))
    assert_same(sr.blas.ger(y_, x_, A_, name, alpha=1), sr.blas.ger(y, x, A, name, alpha=1))
    assert_same(sr.blas.ger(y_, x_, semiring=name), sr.blas.ger(y, x, semiring=name))
    assert sr.blas.axpy(2, y_, y_[::-1], name, out=y_) is y_
    assert_same(y_, sr.blas.axpy(2, y, y[::-1], name))


# ------------------------------------------------------------------------------------------------- entry by entry


@pytest.mark.parametrize(("name", "dtype"), CASES)
def test_entrywise_and_reductions(name, dtype, cp, rng):
    A, B = entries(rng, name, dtype, (33, 65)), entries(rng, name, dtype, (65,))
    A_, B_ = cp.asarray(A), cp.asarray(B)
    for check in (True, False):
        assert_same(sr.add(A_, B_, name, check=check), sr.add(A, B, name))
        assert_same(sr.multiply(A_.T[::-1], B_[:, None], name, check=check), sr.multiply(A.T[::-1], B[:, None], name))
    out = cp.zeros((65, 33), dtype)
    assert sr.add(A_.T, A_.T, name, out=out) is out
    assert_same(out, sr.add(A.T, A.T, name))
    for axis in (None, 0, 1, (0, 1), -1):
        assert_same(sr.reduce(A_, name, axis), sr.reduce(A, name, axis))
        assert_same(sr.reduce(A_[::2, ::-3], name, axis, check=False), sr.reduce(A[::2, ::-3], name, axis))
    assert_same(sr.reduce(A_[:0], name, 0), sr.reduce(A[:0], name, 0))
    semiring = sr.CATALOGUE[name]
    assert_same(sr.zeros((2, 3), semiring, dtype, device="cuda"), sr.zeros((2, 3), semiring, dtype))
    assert_same(sr.identity(3, semiring, dtype, device="cuda"), sr.identity(3, semiring, dtype))


def test_a_semiring_without_a_ufunc(cp, rng):
    add = "where(x == y, x + 0.6931471805599453, max(x, y) + log1p(exp(-abs(x - y))))"  # -∞ ⊕ -∞ without a NaN
    R = sr.Semiring("log", add=add, mul="x + y", zero="-inf", one=0, domain="[-inf, inf)", dtypes=["float64"])
    A = rng.random((5, 7))
    np.testing.assert_allclose(sr.reduce(cp.asarray(A), R, 1).get(), sr.reduce(A, R, 1), rtol=1e-14)
    np.testing.assert_allclose(sr.add(cp.asarray(A), 1.0, R).get(), sr.add(A, 1.0, R), rtol=1e-14)


# ------------------------------------------------------------------------------------------------- packed bits


@pytest.mark.parametrize("size", [(0, 3, 5), (1, 1, 1), (33, 31, 65), (100, 200, 300)])
def test_packed_bits(size, cp, rng):
    m, k, n = size
    A, B, C = (rng.random(shape) < 0.2 for shape in ((m, k), (k, n), (m, n)))
    A_, B_, C_ = map(sr.pack, map(cp.asarray, (A, B, C)))
    assert A_.on_device
    assert_same(A_.unpack(), A)
    assert_same(A_.T.unpack(), A.T)
    assert_same(sr.pack(cp.asarray(A)[::-1, ::-1]).unpack(), A[::-1, ::-1])
    assert A_.count() == A.sum()
    for name in ("boolean", "xor_and"):
        for check in (True, False):
            assert_same(sr.matmul(A_, B_, name, check=check).unpack(), sr.matmul(A, B, name))
        assert_same(sr.blas.gemm(A_, B_, C_, name, beta=True).unpack(), sr.blas.gemm(A, B, C, name, beta=True))
        assert_same(sr.add(C_, ~C_, name).unpack(), sr.add(C, ~C, name))
    assert_same(
        sr.matmul(A_, B_, "boolean", return_witness=True)[1], sr.matmul(A, B, "boolean", return_witness=True)[1]
    )
    assert sr.matmul(sr.pack(A), sr.pack(B), "boolean", device="cuda") == sr.pack(sr.matmul(A, B, "boolean"))


def test_powers_of_packed_bits(cp, rng):
    A = rng.random((70, 70)) < 0.03
    for k in (0, 1, 5):
        assert_same(sr.power(sr.pack(cp.asarray(A)), k, "boolean").unpack(), sr.power(A, k, "boolean"))


# ------------------------------------------------------------------------------------------------- where arrays live


def test_host_arrays_are_moved_and_come_back(rng):
    A, B = entries(rng, "min_plus", "float32", (17, 31)), entries(rng, "min_plus", "float32", (31, 9))
    expected = sr.matmul(A, B)
    for device in ("cuda", "cuda:0"):
        found = sr.matmul(A, B.tolist(), device=device, semiring="min_plus")
        assert isinstance(found, np.ndarray)
        np.testing.assert_array_equal(found, expected)
    out = np.zeros_like(expected)
    assert sr.matmul(A, B, out=out, device="cuda") is out
    np.testing.assert_array_equal(out, expected)
    assert isinstance(sr.blas.dot(A[0], B[:, 0], device="cuda"), np.float32)
    for call in (
        lambda **o: sr.blas.gemm(A, B, expected, beta=0, **o),
        lambda **o: sr.blas.gemv(A, B[:, 0], **o),
        lambda **o: sr.blas.ger(A[0], B[:, 0], **o),
        lambda **o: sr.power(A[:, :17], 3, **o),
        lambda **o: sr.reduce(A, axis=0, **o),
        lambda **o: sr.blas.axpy(2, A, A, **o),
        lambda **o: sr.matmul(A, B, **o, return_witness=True)[1],
    ):
        found = call(device="cuda")
        assert type(found) is np.ndarray
        np.testing.assert_array_equal(found, call())
    scipy_sparse = pytest.importorskip("scipy.sparse")
    S = scipy_sparse.csr_array(np.array([[0.0, 2.0], [3.0, 0.0]]))
    found = sr.matmul(S, S, device="cuda")
    assert isinstance(found, scipy_sparse.csr_array)
    np.testing.assert_array_equal(found.toarray(), sr.matmul(S, S).toarray())


def test_host_and_device_do_not_mix(cp):
    A = np.zeros((2, 2))
    for call in (
        lambda: sr.matmul(cp.asarray(A), A),
        lambda: sr.matmul([[1.0]], cp.ones((1, 1))),
        lambda: sr.add(A, cp.asarray(A)),
        lambda: sr.blas.gemm(cp.asarray(A), cp.asarray(A), A, beta=0),
        lambda: sr.matmul(A, A, out=cp.asarray(A)),
        lambda: sr.matmul(cp.asarray(A), cp.asarray(A), out=A),
    ):
        with pytest.raises(DeviceError, match="GPU"):
            call()
    assert_same(sr.multiply(cp.asarray(A), 3), sr.multiply(A, 3))
    assert isinstance(sr.matmul(cp.asarray(A), A, device="cuda"), cp.ndarray)


def test_torch_tensors(cp, rng):
    torch = pytest.importorskip("torch")
    for name, dtype in (("min_plus", "float32"), ("min_plus", "int16"), ("boolean", "bool"), ("plus_times", "float16")):
        A, B = entries(rng, name, dtype, (17, 8)), entries(rng, name, dtype, (8, 9))
        A, B = (A % 3, B % 3) if dtype == "float16" else (A, B)
        A_, B_ = torch.from_numpy(A).cuda(), torch.from_numpy(B.T.copy()).cuda().T
        C = sr.matmul(A_, B_, name)
        assert isinstance(C, torch.Tensor)
        assert C.device == A_.device
        np.testing.assert_array_equal(C.cpu().numpy(), sr.matmul(A, B, name))
        out = torch.zeros((9, 17), dtype=A_.dtype, device="cuda").T
        address = out.data_ptr()
        assert sr.matmul(A_, B_, name, out=out) is out
        assert out.data_ptr() == address
        np.testing.assert_array_equal(out.cpu().numpy(), sr.matmul(A, B, name))
    x = torch.arange(5.0, device="cuda")
    assert sr.reduce(x).item() == 0
    assert isinstance(sr.add(x, x), torch.Tensor)
    with pytest.raises(TypeError, match=r"pass A.detach\(\)"):
        sr.matmul(x.clone().requires_grad_(), x)
    with pytest.raises(DeviceError):
        sr.matmul(x, x.cpu())
    assert sr.matmul(x.cpu(), x.cpu(), device="cuda") == 0
    assert not x.cpu().is_cuda


@pytest.mark.parametrize("name", ["min_plus", "max_min", "max_times"])
def test_bfloat16(name, cp, rng):
    torch, dtype = pytest.importorskip("torch"), np.dtype(pytest.importorskip("ml_dtypes").bfloat16)
    for shape in ((1, 1, 1), (17, 8, 33), (65, 130, 64)):
        m, k, n = shape
        A, B = (np.abs(entries(rng, name, "float32", s)).astype(dtype) for s in ((m, k), (k, n)))
        expected = sr.matmul(A, B, name)
        for check in (True, False):
            assert_same(sr.matmul(cp.asarray(A), cp.asarray(B), name, check=check), expected)
            A_, B_ = (torch.from_numpy(X.astype(np.float32)).cuda().bfloat16() for X in (A, B))
            C = sr.matmul(A_, B_, name, check=check)
            assert (C.dtype, C.is_cuda) == (torch.bfloat16, True)
            np.testing.assert_array_equal(C.float().cpu().numpy(), expected.astype(np.float32))
        assert_same(sr.add(cp.asarray(A), cp.asarray(A)[:1], name), sr.add(A, A[:1], name))
        assert_same(sr.multiply(cp.asarray(A), 2.0, name), sr.multiply(A, dtype.type(2), name))
        assert_same(sr.reduce(cp.asarray(A), name, 1), sr.reduce(A, name, 1))
        assert_same(
            sr.blas.gemm(cp.asarray(A), cp.asarray(B), semiring=name, alpha=2.0),
            sr.blas.gemm(A, B, semiring=name, alpha=2.0),
        )
        assert_same(
            sr.matmul(cp.asarray(A), cp.asarray(B), name, return_witness=True)[1],
            sr.matmul(A, B, name, return_witness=True)[1],
        )
    A[0, 0] = np.nan
    with pytest.raises(DomainError, match=r"A\[0, 0\] is nan"):
        sr.matmul(cp.asarray(A), cp.asarray(B), name)


def test_the_stream_of_the_tensors(cp):
    """Work of PyTorch before and after a call is ordered with it, on a stream that nothing else waits for."""
    torch = pytest.importorskip("torch")
    stream = torch.cuda.Stream()
    A = torch.zeros(4096, 4096, device="cuda")
    torch.cuda.synchronize()
    with torch.cuda.stream(stream):
        for step in range(3):
            torch.cuda._sleep(20_000_000)
            A.fill_(step)
            C = sr.matmul(A[:64], A[:, :64], check=False)
            total = C.sum()
            A.fill_(-1)
            assert total.item() == 2 * step * 64 * 64


def test_numba_arrays(cp, rng):
    cuda = pytest.importorskip("numba.cuda")
    A = entries(rng, "min_plus", "float32", (17, 17))
    try:
        A_ = cuda.to_device(A)
    except Exception as error:  # Numba's own driver may not support this machine's
        pytest.skip(f"Numba does not reach the GPU: {error}")
    C = sr.matmul(A_, A_)
    assert type(C) is type(A_)
    np.testing.assert_array_equal(C.copy_to_host(), sr.matmul(A, A))
    out = cuda.to_device(np.zeros_like(A))
    assert sr.matmul(A_, A_, out=out) is out
    np.testing.assert_array_equal(out.copy_to_host(), sr.matmul(A, A))


def test_jax_arrays(cp, rng, monkeypatch):
    monkeypatch.setenv("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    jax = pytest.importorskip("jax")
    try:
        device = jax.devices("gpu")[0]
    except RuntimeError as error:
        pytest.skip(f"JAX does not reach the GPU: {error}")
    A = entries(rng, "min_plus", "float32", (17, 17))
    A_ = jax.device_put(A, device)
    C = sr.matmul(A_, A_)
    assert isinstance(C, jax.Array)
    np.testing.assert_array_equal(np.asarray(C), sr.matmul(A, A))
    with pytest.raises(ValueError, match="out is read-only"):
        sr.matmul(A_, A_, out=A_)


# ------------------------------------------------------------------------------------------------- nothing waits


CAPTURED = {
    "matmul": lambda A, x, out: sr.matmul(A, A, out=out, check=False),
    "matmul of integers": lambda A, x, out: sr.matmul(A.astype("i4"), A.astype("i4"), check=False),
    "plus_times": lambda A, x, out: sr.matmul(A, A, "plus_times", out=out, check=False),
    "gemm": lambda A, x, out: sr.blas.gemm(A, A, A, alpha=2, beta=1, out=out, check=False),
    "gemv": lambda A, x, out: sr.blas.gemv(A, x, check=False),
    "ger": lambda A, x, out: sr.blas.ger(x, x, A, check=False),
    "axpy": lambda A, x, out: sr.blas.axpy(2, A, A, out=out, check=False),
    "dot": lambda A, x, out: sr.blas.dot(x, x, check=False),
    "power": lambda A, x, out: sr.power(A, 3, check=False),
    "witness": lambda A, x, out: sr.matmul(A, A, check=False, return_witness=True)[1],
    "add": lambda A, x, out: sr.add(A, x, check=False),
    "multiply": lambda A, x, out: sr.multiply(A, x, check=False),
    "multiply integers": lambda A, x, out: sr.multiply(A.astype("i4"), 3, check=False),
    "reduce": lambda A, x, out: sr.reduce(A, axis=1, check=False),
    "batches": lambda A, x, out: sr.matmul(A.reshape(4, 16, 64), A, check=False),
    "identity": lambda A, x, out: sr.identity(5, device="cuda"),
}


@pytest.mark.parametrize("call", CAPTURED)
def test_nothing_waits_without_a_check(call, cp, rng):
    """A call is captured into a graph, which a wait or a copy to the host would break. Replayed, it computes anew.

    The memory that it had for a while is the graph's: of a pool that nothing else takes from.
    """
    A = cp.asarray(rng.integers(0, 9, (64, 64)).astype(np.float32))
    x, out = A[0].copy(), cp.zeros_like(A)
    run = CAPTURED[call]
    stream, pool = cp.cuda.Stream(non_blocking=True), cp.cuda.MemoryPool()
    cp.cuda.runtime.deviceSynchronize()
    with stream:
        run(A, x, out)  # compiles
        stream.synchronize()
        with cp.cuda.using_allocator(pool.malloc):
            stream.begin_capture()
            result = run(A, x, out)
            graph = stream.end_capture()
        A[...] = A[::-1] + 1
        x[...] = A[3]
        graph.launch(stream)
        stream.synchronize()
    np.testing.assert_array_equal(result.get(), run(A, x, cp.zeros_like(A)).get())


def test_a_check_does_wait(cp):
    stream = cp.cuda.Stream(non_blocking=True)
    A = cp.zeros((4, 4))
    sr.matmul(A, A)
    with stream:
        stream.begin_capture()
        with pytest.raises(Exception, match=r"(?i)captur"):
            sr.matmul(A, A)
        with contextlib.suppress(cp.cuda.runtime.CUDARuntimeError):
            stream.end_capture()


# ------------------------------------------------------------------------------------------------- einsum


@pytest.mark.parametrize(("name", "dtype"), [*CASES, ("log_plus", "float32"), ("log_plus", "float64")])
def test_contractions(name, dtype, cp, rng):
    for subscripts, shapes in [
        ("ij,jk->ik", ((33, 40), (40, 17))),
        ("bij,bjk,kl->lib", ((3, 20, 30), (3, 30, 16), (16, 9))),
        ("ab,ac,ad->bcd", ((6, 7), (6, 8), (6, 9))),
        ("iij,j,j->i", ((12, 12, 5), (5,), (5,))),
        ("...i,...i->...", ((4, 1, 9), (3, 9))),
        ("ijk->j", ((5, 6, 7),)),
    ]:
        arrays = [entries(rng, name, dtype, shape) for shape in shapes]
        found = sr.einsum(subscripts, *map(cp.asarray, arrays), semiring=name)
        expected = sr.einsum(subscripts, *arrays, semiring=name)
        if name == "log_plus" or dtype == "float16" or (dtype.startswith("float") and name.endswith("times")):
            assert found.dtype == expected.dtype
            wide = expected.astype(float)
            # intermediate products of float16 are rounded before they cancel: cuBLAS and other kernels differ there
            largest = np.abs(wide, where=np.isfinite(wide), out=np.zeros_like(wide)).max()
            rtol, atol = (2e-2, 2e-3 * largest) if dtype == "float16" else (1e-5, 1e-6)
            np.testing.assert_allclose(found.get().astype(float), wide, rtol=rtol, atol=atol)
        else:
            assert_same(found, expected)
        if sr.CATALOGUE[name].selective and dtype != "float16":
            C, where = sr.einsum(subscripts, *map(cp.asarray, arrays), semiring=name, return_witness=True)
            np.testing.assert_array_equal(
                C.get(), sr.einsum(subscripts, *arrays, semiring=name, return_witness=True)[0]
            )
            assert all(isinstance(places, cp.ndarray) for places in where.values())


def test_contractions_of_tensors_have_gradients(rng):
    torch = pytest.importorskip("torch")
    import semiring.torch as st

    for name in ("min_plus", "log_plus", "plus_times"):
        host = [torch.tensor(rng.uniform(0.5, 2, shape), requires_grad=True) for shape in ((7, 8), (8, 6), (6,))]
        there = [leaf.detach().cuda().requires_grad_() for leaf in host]
        for leaves in (host, there):
            st.einsum("ij,jk,k->i", *leaves, semiring=name).sum().backward()
        for one, other in zip(host, there, strict=True):
            np.testing.assert_allclose(one.grad, other.grad.cpu(), rtol=1e-10)


@pytest.mark.parametrize(("name", "dtype"), [("min_plus", "float32"), ("max_plus", "int32"), ("max_min", "float64")])
@pytest.mark.parametrize(("steps", "batch", "n"), [(3, (), 5), (20, (4,), 3), (9, (2,), 70)])
def test_sequences_are_those_of_the_host(name, dtype, steps, batch, n, cp, rng):
    A, x, w = (entries(rng, name, dtype, shape) for shape in ((n, n), (*batch, n), (steps, *batch, n)))
    options = {"weights": w, "lengths": rng.integers(0, steps + 1, batch) if batch else None}
    on_device = {key: None if value is None else cp.asarray(value) for key, value in options.items()}
    for call in (sr.multi_dot, sr.scan):
        assert_same(call(cp.asarray(A), cp.asarray(x), name, **on_device), call(A, x, name, **options))
    found = sr.multi_dot(cp.asarray(A), cp.asarray(x), name, return_witness=True, **on_device)
    for one, other in zip(found, sr.multi_dot(A, x, name, return_witness=True, **options), strict=True):
        assert_same(one, other)
