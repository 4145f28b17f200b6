"""Test products of sparse matrices on a GPU against those of the CPU."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from sparse_cases import (
    ALL,
    CONTRACT_CASES,
    FAULTS,
    OWN,
    check_contract,
    check_faults,
    check_functions,
    check_on_device,
    draw_case,
    get,
    put,
)

import semiring as sr
from semiring.errors import DeviceError, DomainError, DTypeError, ShapeError, TooLargeError
from semiring.kernels import device_backend
from semiring.kernels.engine import make_plan

pytestmark = pytest.mark.gpu

INF = np.inf


@pytest.fixture(scope="module")
def xs():
    pytest.importorskip("cupy")
    return pytest.importorskip("cupyx.scipy.sparse")


@pytest.mark.parametrize("block", range(10))
def test_random_products_are_those_of_the_cpu(block, xs, monkeypatch):
    monkeypatch.setenv("SEMIRING_BACKEND", "reference")  # on the CPU, which compiles no kernel for each case
    for seed in range(60 * block, 60 * block + 60):
        case = draw_case(np.random.default_rng(seed), ALL)
        try:
            check_on_device(case, put, get)
        except Exception as error:
            error.add_note(f"seed {seed}: {case}")
            raise


@pytest.mark.parametrize(("name", "dtype"), CONTRACT_CASES)
@pytest.mark.parametrize("index", [np.int32, np.int64])
def test_the_contract(name, dtype, index, xs, rng):
    kernels = device_backend(sr.CATALOGUE[name], np.dtype(dtype)).capabilities.sparse
    check_contract(kernels, make_plan(sr.CATALOGUE[name], dtype), rng, put, get, index=index)


@pytest.mark.parametrize("index", [np.int32, np.int64])
def test_no_kernel_reads_by_an_invalid_index(index, xs, rng):
    kernels = device_backend(sr.min_plus, np.dtype(np.float64)).capabilities.sparse
    for fault in FAULTS:
        check_faults(kernels, make_plan(sr.min_plus, "float64"), rng, fault, index, put, get)


def random_matrix(rng, m, n, lengths, dtype):
    rows = np.repeat(np.arange(m), lengths)
    A = sp.csr_array((rng.integers(1, 9, rows.size).astype(dtype), (rows, rng.integers(0, n, rows.size))), shape=(m, n))
    A.data = rng.integers(1, 9, A.data.size).astype(dtype)
    return A


@pytest.mark.parametrize("name", ["min_plus", "plus_times"])
@pytest.mark.parametrize("dtype", ["float32", "int64"])
def test_rows_of_every_size(name, dtype, xs, rng):
    """Rows of all classes: sorted by a warp, and in global memory, shared by the teams of a block."""
    lengths = np.r_[rng.integers(0, 40, 400), 3000, 1100, 0]
    A = random_matrix(rng, lengths.size, 5000, lengths, dtype)
    B = random_matrix(rng, 5000, 700, rng.integers(0, 30, 5000), dtype)
    mask = random_matrix(rng, lengths.size, 700, rng.integers(0, 60, lengths.size), dtype)
    for options in ({}, {"mask": mask, "complement": True}, {"mask": mask, "complement": False}):
        defaults = {"mask": None, "complement": False, "return_witness": name == "min_plus"}
        algebra = type("Algebra", (), {"semiring": sr.CATALOGUE[name], "dtype": np.dtype(dtype)})
        X, x = rng.integers(0, 9, (5000, 64)).astype(dtype), rng.integers(0, 9, 5000).astype(dtype)
        operands = ((A, B), (A, X), (X[:401].T @ np.eye(401, 5000, dtype=dtype), B)) if options else ((A, B),)
        for pair in operands:
            fits = pair[0].shape[0] == mask.shape[0] and pair[1].shape[1] == mask.shape[1]
            if not options or fits:
                check_on_device(("", algebra, pair, {**defaults, **options}), put, get)
    for pair in ((A, X), (A, x), (A, X[:, :3]), (x[: lengths.size], A), (X[: lengths.size].T.copy(), A)):
        check_on_device(("", algebra, pair, defaults), put, get)


@pytest.mark.parametrize("name", ["plus_times", "log_plus"])
def test_sums_that_round_are_identical_in_every_run(name, xs, rng):
    A = random_matrix(rng, 3000, 3000, np.r_[rng.integers(0, 60, 2999), 2900], "float32")
    A.data = rng.random(A.nnz).astype(np.float32)
    there, X = put(A), put(rng.random((3000, 17)).astype(np.float32))
    for operands, options in (
        ((there, there), {}),
        ((there, there), {"mask": there}),
        ((there, X), {}),
        ((there, X[:, 0]), {}),
        ((X.T, there), {}),
    ):
        results = [sr.matmul(*operands, name, **options) for _ in range(3)]
        arrays = [x.data.get() if hasattr(x, "format") else x.get() for x in results]
        assert arrays[0].tobytes() == arrays[1].tobytes() == arrays[2].tobytes()


@pytest.mark.parametrize("kind", ["csr", "csc", "coo"])
def test_functions_of_sparse_matrices(kind, xs, rng):
    import cupy as cp

    check_functions(kind, rng, put, get)
    A, x, out = sp.random_array((6, 6), density=0.5, rng=rng, format=kind), rng.random(6), cp.empty(6)
    assert sr.matmul(put(A), put(x), out=out) is out
    np.testing.assert_array_equal(out.get(), sr.matmul(A, x))
    same = sr.matmul(A, A, device="cuda")
    assert type(same) is type(A)
    np.testing.assert_array_equal(same.toarray(), sr.matmul(A, A).toarray())
    np.testing.assert_array_equal(sr.reduce(A, axis=1, device="cuda"), sr.reduce(A, axis=1))


@pytest.mark.parametrize("library", ["torch csr", "torch coo", "torch csc", "jax"])
def test_sparse_tensors_stay_on_the_gpu(library, xs, rng):
    numbers = [np.where(rng.random((6, 6)) < 0.5, rng.integers(1, 9, (6, 6)), 0).astype(np.float32) for _ in range(2)]
    S, T = map(sp.csr_array, numbers)
    x = rng.random(6, np.float32)
    if library == "jax":
        jax, sparse = pytest.importorskip("jax"), pytest.importorskip("jax.experimental.sparse")
        if jax.default_backend() != "gpu":
            pytest.skip("JAX has no GPU")
        A, B = (sparse.BCOO.fromdense(n, nse=np.count_nonzero(n) + 3) for n in numbers)
        vector = jax.numpy.asarray(x)
        dense = lambda y: np.asarray(y.todense() if hasattr(y, "todense") else y)  # noqa: E731
    else:
        torch = pytest.importorskip("torch")
        method = {"torch csr": "to_sparse_csr", "torch coo": "to_sparse", "torch csc": "to_sparse_csc"}[library]
        with warnings.catch_warnings(action="ignore"):
            A, B = (getattr(torch.tensor(n).cuda(), method)() for n in numbers)
        vector = torch.tensor(x).cuda()
        dense = lambda y: (y.to_dense() if y.layout != torch.strided else y).cpu().numpy()  # noqa: E731
    for call in (
        lambda A, B, x: sr.matmul(A, B),
        lambda A, B, x: sr.matmul(A, B, mask=A, complement=True),
        lambda A, B, x: sr.matmul(A, B, return_witness=True)[1],
        lambda A, B, x: sr.power(A, 3),
        lambda A, B, x: sr.add(A, B),
        lambda A, B, x: sr.multiply(A, 2.0),
        lambda A, B, x: sr.reduce(A, axis=1),
        lambda A, B, x: sr.matmul(A, x),
        lambda A, B, x: sr.blas.gemv(A, x, transpose=True),
    ):
        found: Any = call(A, B, vector)
        expected: Any = call(S, T, x)
        is_sparse = sp.issparse(expected)
        assert type(found) is type(A if is_sparse else vector)
        np.testing.assert_array_equal(dense(found), expected.toarray() if is_sparse else expected)


@pytest.mark.parametrize("shift", [0.0, 90.0])
@pytest.mark.parametrize("batch", [(), (3,)])
@pytest.mark.parametrize("width", [32, 5])
def test_gradients_of_log_plus(shift, batch, width, xs):
    """Exponentials are folded into factors, unless those leave the range of float32, as those of the shift do."""
    torch = pytest.importorskip("torch")
    from semiring.torch import spmm

    n, count = 500, 20_000
    generator = torch.Generator("cuda").manual_seed(0)
    edges = torch.randint(n, (2, count), generator=generator, device="cuda")
    edges[0, :n] = torch.arange(n, device="cuda")
    shapes = (count,), (*batch, n, width), (*batch, n, width)
    values, X, g = (torch.rand(shape, generator=generator, device="cuda") for shape in shapes)
    leaves = (4 * values).requires_grad_(), (X + shift).requires_grad_()
    found = torch.autograd.grad(spmm(edges, leaves[0], (n, n), leaves[1], "log_plus"), leaves, g - 0.3)
    wide = [leaf.detach().double().requires_grad_() for leaf in leaves]
    terms = (wide[0][:, None] + wide[1][..., edges[1], :] - shift).exp()
    sums = torch.zeros_like(wide[1]).index_add(-2, edges[0], terms)
    expected = torch.autograd.grad(sums.log(), wide, g.double() - 0.3)
    for own, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(own.cpu(), other.cpu(), rtol=1e-4, atol=1e-4 * float(other.abs().max()))


@pytest.mark.parametrize("dtype", ["uint8", "int16"])
def test_indices_of_narrow_dtypes(dtype, xs, rng):
    """The shape and the number of entries exceed the dtype of the indices."""
    jax, sparse = pytest.importorskip("jax"), pytest.importorskip("jax.experimental.sparse")
    if jax.default_backend() != "gpu":
        pytest.skip("JAX has no GPU")
    S = sp.coo_array(sp.random_array((120, 120), density=0.1, rng=rng, dtype=np.float32))
    S = sp.coo_array((S.data, S.coords), shape=(40_000, 40_000))
    A = sparse.BCOO((jax.numpy.asarray(S.data), jax.numpy.asarray(np.stack(S.coords, 1).astype(dtype))), shape=S.shape)
    x = rng.random(40_000, np.float32)
    np.testing.assert_array_equal(np.asarray(sr.matmul(A, jax.numpy.asarray(x))), sr.matmul(S, x))
    found, expected = sr.matmul(A, A), sr.matmul(S.tocsr(), S.tocsr()).tocoo()
    np.testing.assert_array_equal(np.asarray(found.indices), np.stack(expected.coords, 1))
    np.testing.assert_array_equal(np.asarray(found.data), expected.data)


def test_addresses_that_are_no_multiples_of_the_size(xs):
    import cupy as cp

    A, raw = put(sp.csr_array(np.eye(4))), cp.zeros(4 * 8 + 4, np.uint8)
    odd = raw[4:].view(np.float64) if raw.data.ptr % 8 == 0 else raw[:-4].view(np.float64)
    for check in (True, False):
        with pytest.raises(DeviceError, match="B has elements at addresses"):
            sr.matmul(A, odd, check=check)
    A.data = odd
    with pytest.raises(DeviceError, match="A has elements at addresses"):
        sr.matmul(A, cp.eye(4), check=False)


def test_what_is_refused(xs, monkeypatch):
    import cupy as cp

    S = sp.csr_array(np.array([[0, 2.0], [3.0, 0]]))
    A, eye = put(S), cp.eye(2)
    cases = {
        "mixed memory": (lambda: sr.matmul(A, np.eye(2)), DeviceError, "B is in the memory of the host"),
        "a mask of the host": (lambda: sr.matmul(A, A, mask=S), DeviceError, "mask is in the memory"),
        "a mask of numbers": (lambda: sr.matmul(A, A, mask=eye), DTypeError, "mask != 0"),
        "a mask of another shape": (lambda: sr.matmul(A, eye, mask=cp.ones((2, 3), bool)), ShapeError, "mask is"),
        "NaN": (lambda: sr.matmul(put(S * np.nan), A), DomainError, r"A\[0, 1\] is nan"),
        "the domain": (lambda: sr.matmul(A, put(-S), "max_times"), DomainError, r"B\[0, 1\] is -2"),
        "an array of zeros": (lambda: sr.matmul(A, eye * np.nan), DomainError, r"B\[0, 0\] is nan"),
        "a chain": (lambda: sr.multi_dot([A, A], eye), DeviceError, "copy operands to the host"),
        "out of a sparse result": (lambda: sr.matmul(A, A, out=eye), TypeError, "leave out= away"),
        "out on the host": (lambda: sr.matmul(A, eye, out=np.empty((2, 2))), DeviceError, "copy one of them"),
    }
    for call, error, message in cases.values():
        with pytest.raises(error, match=message):
            call()
    for part, wrong in (("indices", [1, 2]), ("indices", [-1, 0]), ("indptr", [0, 3, 2]), ("indptr", [1, 1, 2])):
        bad, host = put(S), S.copy()
        for matrix, array in ((bad, cp.asarray), (host, np.asarray)):
            setattr(matrix, part, array(wrong, np.int32))
        errors = []
        for operands in ((bad, A), (host, S)):
            with pytest.raises(ShapeError) as caught:
                sr.matmul(*operands)
            errors.append(str(caught.value))
        assert errors[0] == errors[1]
    monkeypatch.setattr("semiring.arrays.device.available_device_memory", lambda: 1 << 20)
    n = 9000
    star = put(sp.csr_array((np.ones(2 * n), (np.repeat([0, 1], n), np.tile(np.arange(n), 2))), shape=(n, n)))
    with pytest.raises(TooLargeError, match="entries or more takes"):
        sr.matmul(star.T.tocsr(), star)


def test_own_semirings_and_narrow_dtypes(xs, rng):
    A: Any = sp.random_array((30, 30), density=0.2, rng=rng, format="csr", dtype=np.float32)
    A.data = np.round(A.data * 8) / 8
    for semiring, *_ in OWN.values():
        expected = sr.matmul(A, A, semiring).data
        for dtype in (np.float16, np.float32):  # SciPy has no float16
            there = put(A)
            there.data = there.data.astype(dtype)
            found = sr.matmul(there, there, semiring).data
            assert found.dtype == dtype
            np.testing.assert_array_equal(found.get(), expected.astype(dtype))


if __name__ == "__main__":  # python tests/gpu/test_gpu_sparse.py FIRST LAST, with tests/support on the path
    import os
    import sys

    os.environ.setdefault("SEMIRING_BACKEND", "reference")
    for seed in range(int(sys.argv[1]), int(sys.argv[2])):
        print(f"seed {seed}", file=sys.stderr)
        check_on_device(draw_case(np.random.default_rng(seed), ALL), put, get)
    print("all equal")
