"""Test products, sums and reductions of sparse matrices against dictionaries, which share no code with the library."""

from __future__ import annotations

import tracemalloc
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sparse_cases import (
    ALL,
    CONTRACT_CASES,
    FAULTS,
    KINDS,
    Algebra,
    as_dictionary,
    check_contract,
    check_faults,
    draw_case,
    draw_fault,
    multiply,
)

import semiring as sr
from semiring.arrays.operands import as_host_operand
from semiring.arrays.tensors import stored_values
from semiring.errors import (
    AlgebraError,
    DeviceError,
    DomainError,
    DTypeError,
    IntegerOverflowError,
    ShapeError,
    SuspiciousWeightsWarning,
    TooLargeError,
)
from semiring.kernels import get_backend
from semiring.kernels.contract import CompressedRows
from semiring.kernels.engine import make_plan

INF, FULL = np.inf, pytest.mark.full


def check_case(name, algebra, operands, options, threads=(1, 2, 8)):
    """Compare a product with the dictionaries, and with itself on other numbers of threads."""
    mask = options["mask"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SuspiciousWeightsWarning)
        results = [sr.matmul(*operands, algebra.semiring, threads=count, **options) for count in threads]
    masked = set() if mask is None else set(as_dictionary(mask if sp.issparse(mask) else sp.coo_array(mask), algebra))
    expected, witnesses = multiply(
        *(as_dictionary(x, algebra) for x in operands),
        algebra,
        lambda i, j: mask is None or ((i, j) in masked) != options["complement"],
    )
    m, n = operands[0].shape[0], operands[1].shape[1]
    is_sparse = all(map(sp.issparse, operands)) or (mask is not None and not options["complement"])
    for result in results:
        C, K = result if options["return_witness"] else (result, None)
        assert C.shape == (m, n)
        assert C.dtype == algebra.dtype
        assert sp.issparse(C) == is_sparse
        if is_sparse:
            first = next((x for x in (*operands, mask) if sp.issparse(x)), sp.csr_array((1, 1)))
            assert type(C) is type(first)
            found = C.tocoo()
            places = list(zip(found.row.tolist(), found.col.tolist(), strict=True))
            assert sorted(places) == sorted(expected)
            if C.format != "coo":
                assert C.indices.dtype == np.int32
                assert all((np.diff(C.indices[a:b]) > 0).all() for a, b in zip(C.indptr, C.indptr[1:], strict=False))
        else:
            places = [(i, j) for i in range(m) for j in range(n)]
            found = sp.coo_array((np.asarray(C).ravel(), tuple(np.array(places, int).reshape(-1, 2).T)), shape=(m, n))
        wanted = np.array([expected.get(place, algebra.zero) for place in places], algebra.dtype)
        if name == "log_plus":
            np.testing.assert_allclose(found.data, wanted, rtol=1e-5 if algebra.dtype == np.float32 else 1e-12)
        else:
            np.testing.assert_array_equal(found.data, wanted)
        if K is not None:
            ks = K.tocoo().data if is_sparse else K.ravel()
            wanted = [witnesses.get(place, -1) if expected.get(place) != algebra.zero else -1 for place in places]
            assert ks.dtype == np.int32
            assert ks.tolist() == wanted
        first = results[0][0] if options["return_witness"] else results[0]
        same = (C.tocoo().data, first.tocoo().data) if is_sparse else (C, first)
        assert same[0].tobytes() == same[1].tobytes()


def run_random_cases(seeds, names, **options):
    for seed in seeds:
        case = draw_case(np.random.default_rng(seed), names)
        try:
            check_case(*case, **options)
        except Exception as error:
            error.add_note(f"seed {seed}: {case}")
            raise


#: Semirings and dtypes whose kernels the quick tests compile.
COMMON = [("min_plus", "float64"), ("min_plus", "int32"), ("plus_times", "float64"), ("boolean", "bool")]


@pytest.mark.parametrize("names", [COMMON, pytest.param([("first", "float64"), ("log_plus", "float32")], marks=FULL)])
def test_products_are_those_of_dictionaries(names):
    run_random_cases(range(400), names)


def test_the_reference_computes_every_semiring(monkeypatch):
    monkeypatch.setenv("SEMIRING_BACKEND", "reference")
    run_random_cases(range(1000, 1400), ALL, threads=(1,))


def kernel_rows(x, width):
    return CompressedRows(x.indptr.astype(np.int64), x.indices, x.data, width)


@pytest.mark.parametrize("name", ["cpu", "reference"])
@pytest.mark.parametrize("width", [7, 300, 1 << 22, 1 << 34])
def test_every_accumulator_of_the_kernels(name, width, rng):
    """A wide matrix needs merges, hash tables and lists, and a long row of B is searched for the columns of a mask."""
    kernels, plan = get_backend(name).capabilities.sparse, make_plan(sr.min_plus, "float64", threads=2)
    algebra = Algebra.of("min_plus", "float64")
    index = np.int32 if width < 2**31 else np.int64
    columns = np.unique(rng.integers(0, width, 150))  # some rows are screened
    rows = [rng.permutation(columns)[: rng.integers(0, len(columns) + 1)] for _ in range(12)]
    B = CompressedRows(
        np.cumsum([0, *map(len, rows)]),
        np.concatenate([np.sort(row) for row in rows]).astype(index),
        rng.integers(0, 50, sum(map(len, rows))).astype(float),
        width,
    )
    A = kernel_rows(sp.random_array((9, 12), density=0.4, rng=rng, format="csr"), 12)
    wanted = pairs_of(B)
    left = {(i, k): a for (i, k), a in pairs_of(A).items()}
    expected, witnesses = multiply(left, wanted, algebra, lambda i, j: True)
    found = []
    pattern, witness, used = kernels.multiply_sparse(plan, A, B, None, found.append, np.dtype(np.int32))
    assert found[-1] == len(expected) == pattern.columns.size
    assert pairs_of(pattern) == expected
    assert pairs_of(pattern._replace(values=witness)) == witnesses
    if name == "cpu":
        assert set(used) <= ({"bitmap"} if width < 1 << 21 else {"hash", "list"})
        assert sum(used.values()) == np.count_nonzero(np.diff(pattern.starts))
    nothing = pattern._replace(starts=pattern.starts * 0, columns=pattern.columns[:0])
    assert kernels.multiply_sparse(plan, A, B, nothing, found.append, None)[0].columns.size == len(expected)
    few = np.sort(rng.permutation(columns)[:2]).astype(index)
    mask = CompressedRows(np.arange(10) * 2, np.tile(few, 9), None, width)
    entries, ks, _ = kernels.multiply_masked(plan, A, B, mask, np.dtype(np.int32))
    inside = {place: value for place, value in expected.items() if place[1] in few}
    assert pairs_of(entries) == inside
    assert pairs_of(entries._replace(values=ks)) == {place: witnesses[place] for place in inside}
    rest, *_ = kernels.multiply_sparse(plan, A, B, mask, found.append, None)
    assert pairs_of(rest) == {place: value for place, value in expected.items() if place not in inside}


def test_a_masked_product_takes_the_memory_of_its_mask_once():
    kernels, plan = get_backend("cpu").capabilities.sparse, make_plan(sr.min_plus, "float64", threads=2)
    m, n = 1000, 500
    A = CompressedRows(np.arange(-m // 2, m // 2 + 1).clip(0), np.zeros(m // 2, np.int32), np.arange(m / 2), 1)
    B = CompressedRows(np.array([0, n]), np.arange(n, dtype=np.int32), np.arange(float(n)), n)
    mask = CompressedRows(np.arange(m + 1) * n, np.tile(B.columns, m), None, n)
    kernels.multiply_masked(plan, A, B, mask, None)
    tracemalloc.start()
    (starts, columns, values, _), *_ = kernels.multiply_masked(plan, A, B, mask, None)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1.25 * mask.columns.size * 12
    assert starts.tolist() == (A.starts * n).tolist()
    assert columns.tolist() == np.tile(B.columns, m // 2).tolist()
    assert values.tolist() == (A.values[:, None] + B.values).ravel().tolist()


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("index", [np.int32, np.int64])
@pytest.mark.parametrize("name", ["cpu", "reference"])
def test_kernels_validate_operands_while_they_multiply(name, index, fault, rng):
    """Each invalid number is found wherever it stands, and entries behind the last row are no entries."""
    kernels, plan = get_backend(name).capabilities.sparse, make_plan(sr.min_plus, "float64", threads=2)
    A, _, _, bounds = draw_fault(rng, fault, index)
    is_valid, is_nonnegative = kernels.scan_rows(plan, A, bounds)
    assert is_valid == (fault in ("none", "operand"))
    assert is_nonnegative or not is_valid
    assert kernels.scan_rows(plan, A, None)[0] == (fault in ("none", "operand", "large entry", "nan"))
    if fault == "none":
        assert not kernels.scan_rows(plan, A._replace(values=-A.values), (-10.0, 0.0))[1]
    check_faults(kernels, plan, rng, fault, index)


@FULL
@pytest.mark.parametrize(("name", "dtype"), CONTRACT_CASES)
def test_the_contract(name, dtype, rng):
    kernels, plan = get_backend("cpu").capabilities.sparse, make_plan(sr.CATALOGUE[name], dtype)
    check_contract(kernels, plan, rng, np.copy, np.asarray)


def pairs_of(rows):
    """Return the entries of compressed rows by position."""
    numbers = np.repeat(np.arange(rows.starts.size - 1), np.diff(rows.starts))
    return dict(zip(zip(numbers.tolist(), rows.columns.tolist(), strict=True), rows.values.tolist(), strict=True))


def dense(x, semiring):
    """Return the dense matrix of a sparse one, with the zero of the semiring where nothing is stored."""
    return sr.add(x, sr.zeros(x.shape, semiring, x.dtype), semiring)


def same(x, y):
    assert type(x) is type(y)
    assert x.shape == y.shape
    assert (x.tocoo().data == y.tocoo().data).all()
    assert np.array_equal(x.tocoo().coords, y.tocoo().coords)


@pytest.mark.parametrize("kind", KINDS)
def test_functions_of_sparse_matrices_are_those_of_dense_ones(kind, rng):
    A, B = (kind(np.where(rng.random((6, 6)) < 0.4, rng.integers(1, 9, (6, 6)), 0).astype(float)) for _ in range(2))
    D, E, x = dense(A, "min_plus"), dense(B, "min_plus"), rng.integers(0, 9, 6).astype(float)
    results = {
        "power": (sr.power(A, 5), sr.power(D, 5)),
        "identity": (sr.power(A, 0), sr.power(D, 0)),
        "add": (sr.add(A, B), sr.add(D, E)),
        "multiply": (sr.multiply(A, B), sr.multiply(D, E)),
        "scale": (sr.multiply(2.0, A), sr.multiply(2.0, D)),
        "columns": (sr.multiply(A, x), sr.multiply(D, x)),
        "gemm": (sr.blas.gemm(A, B, A, alpha=1.0, beta=2.0), sr.blas.gemm(D, E, D, alpha=1.0, beta=2.0)),
        "transposed": (sr.blas.gemm(A, B, transpose=(True, True)), sr.blas.gemm(D.T, E.T)),
        "axpy": (sr.blas.axpy(3.0, A, B), sr.blas.axpy(3.0, D, E)),
        "chain": (sr.multi_dot([A, B, A]), sr.multi_dot(np.stack([D, E, D]))),
        "steps": (sr.multi_dot(A, steps=3), sr.multi_dot(D, steps=3)),
        "length": (sr.multi_dot(A, steps=3, lengths=2), sr.multi_dot(D, steps=2)),
    }
    for name, (found, expected) in results.items():
        assert type(found) is kind, name
        np.testing.assert_array_equal(dense(found, "min_plus"), expected, err_msg=name)
    arrays = {
        "gemm with a dense addend": (sr.blas.gemm(A, B, D, beta=1.0), sr.blas.gemm(D, E, D, beta=1.0)),
        "gemv": (sr.blas.gemv(A, x, x, alpha=1.0, beta=2.0), sr.blas.gemv(D, x, x, alpha=1.0, beta=2.0)),
        "gemv transposed": (sr.blas.gemv(A, x, transpose=True), sr.blas.gemv(D, x, transpose=True)),
        "vector": (sr.matmul(x, A), sr.matmul(x, D)),
        "stack": (sr.matmul(np.stack([D, E]), A), sr.matmul(np.stack([D, E]), D)),
        "chain": (sr.multi_dot([A, B], x), sr.multi_dot(np.stack([D, E]), x)),
        "weights": (sr.multi_dot(A, x, weights=[x, x]), sr.multi_dot(D, x, weights=[x, x])),
        "scan": (sr.scan(A, x, steps=3), sr.scan(D, x, steps=3)),
        "rows": (sr.reduce(A, axis=1), sr.reduce(D, axis=1)),
        "every entry": (sr.reduce(A), sr.reduce(D)),
        "column": (sr.reduce(A, "log_plus", axis=0), sr.reduce(dense(A, "log_plus"), "log_plus", axis=0)),
        "kept": (sr.reduce(A, axis=-1, keepdims=True), sr.reduce(D, axis=-1, keepdims=True)),
    }
    for name, (found, expected) in arrays.items():  # sums of log_plus are rounded in another order
        np.testing.assert_allclose(found, expected, rtol=1e-14, err_msg=name)
    same(sr.scan([A, B])[1], sr.matmul(A, B))
    packed = sr.matmul(sr.pack(A.toarray() != 0), B != 0, "boolean")
    assert isinstance(packed, sr.BitMatrix)
    assert np.array_equal(packed.unpack(), sr.matmul(A != 0, B != 0, "boolean").toarray())
    out = np.empty(6)
    assert sr.matmul(A, x, out=out) is out


def test_stored_zeros_and_the_zero_of_the_semiring_are_entries():
    A = sp.csr_array(([0.0, INF], ([0, 1], [1, 0])), shape=(2, 2))
    C, K = sr.matmul(A, A, return_witness=True)
    assert (C.nnz, C.data.tolist(), K.data.tolist()) == (2, [INF, INF], [-1, -1])  # structural
    assert sr.matmul(A, sp.eye_array(2, format="csr")).data.tolist() == [1.0, INF]
    mask = sp.csr_array(([0.0], ([0], [0])), shape=(2, 2))
    assert sr.matmul(A, A, mask=mask).nnz == 1
    assert sr.matmul(A, A, mask=mask.astype(bool), complement=True).nnz == 1


def test_other_formats_and_wide_indices():
    S = sp.csr_array(np.array([[0, 2.0], [3.0, 0]]))
    for format_ in ("lil", "dok", "dia", "bsr"):
        same(sr.matmul(S.asformat(format_), S), sr.matmul(S, S))
    rows = np.array([0, 1], np.int64)
    tall = sp.coo_array(([1.0, 2.0], (rows, np.array([2**33, 5]))), shape=(2, 2**34))
    C = sr.matmul(sp.csr_array(S), tall)
    assert C.indices.dtype == np.int64
    assert C.indices.tolist() == [5, 2**33]


def test_masks_take_no_work_outside(rng):
    A, X = sp.random_array((40, 40), density=0.3, rng=rng, format="csr"), rng.random((40, 40))
    mask = sp.csr_array(rng.random((40, 40)) < 0.05)
    for operands in ((A, A), (X, X), (A, X), (X, A)):
        C = sr.matmul(*operands, "max_times", mask=mask)
        whole = [dense(x, "max_times") if sp.issparse(x) else x for x in operands]
        expected = sr.matmul(*whole, "max_times")
        np.testing.assert_array_equal(C.tocoo().data, expected[C.tocoo().coords])
        outside = sr.matmul(*operands, "max_times", mask=mask, complement=True)
        outside = dense(outside, "max_times") if sp.issparse(outside) else outside
        np.testing.assert_array_equal(outside, np.where(mask.toarray(), 0, expected))
    _, explanation = sr.matmul(A, A, mask=mask, explain=True)
    lengths = np.diff(A.indptr)
    assert explanation.pairs == lengths[A.indices].sum()
    assert explanation.accumulators == {"list": np.count_nonzero(np.diff(mask.indptr))}
    assert f"{explanation.pairs:,} pairs" in str(explanation)
    with sr.profile() as ran:
        sr.matmul(A, A, mask=mask)
    (product,) = [span for span in ran.walk() if span.name == "multiply_masked"]
    assert product.pairs == explanation.pairs
    assert product.details["accumulators"] == f"{explanation.accumulators['list']} by list"


@pytest.mark.parametrize("complement", [False, True])
@pytest.mark.parametrize("kind", [sp.csr_array, np.asarray], ids=["sparse", "dense"])
def test_masks_of_vectors_and_in_blas(kind, complement, rng):
    numbers = np.where(rng.random((5, 7)) < 0.6, rng.integers(0, 9, (5, 7)), 0).astype(float)
    A, x, y = kind(numbers), rng.integers(0, 9, 7).astype(float), rng.integers(0, 9, 5).astype(float)
    D = dense(A, "min_plus") if sp.issparse(A) else A
    rows, columns, M = rng.random(5) < 0.5, rng.random(7) < 0.5, rng.random((5, 5)) < 0.5
    for operands, whole, mask in (((A, x), (D, x), rows), ((y, A), (y, D), columns)):
        C, K = sr.matmul(*operands, mask=mask.tolist(), complement=complement, return_witness=True)
        expected, places = sr.matmul(*whole, return_witness=True)
        np.testing.assert_array_equal(C, np.where(mask != complement, expected, INF))
        np.testing.assert_array_equal(K, np.where(mask != complement, places, -1))
        out = np.empty_like(C)
        assert sr.matmul(*operands, mask=mask, complement=complement, out=out) is out
        np.testing.assert_array_equal(out, C)
    sums = sr.matmul(A, np.ones(7), "plus_times", mask=rows, complement=complement)
    np.testing.assert_array_equal(sums, (rows != complement) * numbers.sum(1))
    options = {"complement": complement, "alpha": 1.0, "beta": 2.0}
    part = np.where(complement != M, sr.matmul(D, D.T) + 1, INF)
    np.testing.assert_array_equal(sr.blas.gemm(A, A, part, transpose=(False, True), mask=M, **options), part)
    product = sr.blas.gemm(A, A, transpose=(False, True), mask=M, complement=complement)
    assert sp.issparse(product) == (kind is not np.asarray or not complement)
    np.testing.assert_array_equal(dense(product, "min_plus") if sp.issparse(product) else product, part - 1)
    expected = np.minimum(np.where(rows != complement, sr.matmul(D, x) + 1, INF), y + 2)
    np.testing.assert_array_equal(sr.blas.gemv(A, x, y, mask=rows, **options), expected)
    np.testing.assert_array_equal(sr.blas.gemv(A.T, x, y, transpose=True, mask=rows, **options), expected)


S = sp.csr_array(np.array([[0, 2.0], [3.0, 0]]))
BITS = sr.pack(np.eye(2, dtype=bool))
BIG = sp.csr_array(np.full((2, 2), 2**31 - 2, np.int32))
REFUSED = {
    "complement without a mask": (lambda: sr.matmul(S, S, complement=True), ValueError, "needs a mask"),
    "a mask of numbers": (lambda: sr.matmul(S, S, mask=np.ones((2, 2))), DTypeError, "mask != 0"),
    "a mask of another shape": (lambda: sr.matmul(S, S, mask=np.ones((2, 3), bool)), ShapeError, r"mask is \(2, 3\)"),
    "a mask of a number": (lambda: sr.matmul([1.0], [2.0], mask=True), ShapeError, "matrices and vectors"),
    "a mask of a stack": (
        lambda: sr.matmul([1.0], np.ones((2, 1, 3)), mask=np.ones((2, 3), bool)),
        ShapeError,
        "vectors",
    ),
    "a sparse mask of a vector": (lambda: sr.matmul(S, [1.0, 2.0], mask=S), ShapeError, "an array of bool"),
    "a mask of packed bits": (lambda: sr.blas.gemm(BITS, BITS, semiring="boolean", mask=S), TypeError, "unpack"),
    "complement in gemv": (lambda: sr.blas.gemv(S, [1.0, 2.0], complement=True), ValueError, "needs a mask"),
    "out of a masked gemm": (
        lambda: sr.blas.gemm(np.eye(2), np.eye(2), mask=S, out=np.empty((2, 2))),
        TypeError,
        "leave out= away",
    ),
    "out of a sparse result": (lambda: sr.matmul(S, S, out=np.empty((2, 2))), TypeError, "leave out= away"),
    "out of a masked result": (
        lambda: sr.matmul(np.eye(2), np.eye(2), mask=np.eye(2, dtype=bool), out=np.empty((2, 2))),
        TypeError,
        "leave out= away",
    ),
    "no selection": (lambda: sr.matmul(S, S, "plus_times", return_witness=True), AlgebraError, "no witnesses"),
    "inner sizes": (lambda: sr.matmul(S, np.ones((3, 2))), ShapeError, "inner sizes 2 and 3 differ"),
    "a scalar": (lambda: sr.matmul(S, 2.0), ShapeError, "a scalar is no operand"),
    "NaN": (lambda: sr.matmul(S * np.nan, S), DomainError, r"A\[0, 1\] is nan"),
    "the domain": (lambda: sr.matmul(S, -S, "max_times"), DomainError, r"B\[0, 1\] is -2"),
    "a chain on a device": (
        lambda: sr.multi_dot(S, [1.0, 2.0], steps=2, device="cuda"),
        DeviceError,
        "copy operands to the host",
    ),
    "overflow": (lambda: sr.matmul(BIG, BIG, "plus_times"), IntegerOverflowError, "may leave int32"),
    "overflow of min_plus": (lambda: sr.matmul(BIG, BIG), IntegerOverflowError, "int64 operands"),
    "two shapes": (lambda: sr.add(S, sp.csr_array((2, 3))), ShapeError, "two shapes"),
    "a wide factor": (lambda: sr.multiply(S, np.ones((2, 3))), ShapeError, "broadcasts to the shape"),
    "lengths": (lambda: sr.multi_dot(S, steps=2, lengths=[1, 2]), TypeError, r"lengths has shape \(2,\)"),
    "lengths of a sparse x": (lambda: sr.scan(S, S, steps=2, lengths=1), TypeError, "x is sparse"),
    "witnesses of a sparse x": (
        lambda: sr.multi_dot(S, S, steps=2, return_witness=True),
        TypeError,
        "pass a dense x",
    ),
    "packed bits": (
        lambda: sr.matmul(sr.pack(np.eye(2, dtype=bool)), S, "boolean", mask=np.eye(2, dtype=bool)),
        TypeError,
        "unpack",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused(case):
    call, error, message = REFUSED[case]
    with pytest.raises(error, match=message):
        call()


@pytest.mark.filterwarnings("ignore::semiring.errors.AlgebraWarning")
def test_a_zero_that_does_not_annihilate_is_refused():
    shifted = sr.Semiring("shifted", add="max(x, y)", mul="x + y", zero=0, one=1, domain=(0, INF))
    for call in (
        lambda: sr.matmul(S, S, shifted),
        lambda: sr.multiply(S, S, shifted),
        lambda: sr.add(S, S, shifted),
        lambda: sr.reduce(S, shifted),
        lambda: sr.matmul(S, np.eye(2), shifted),
    ):
        with pytest.raises(AlgebraError, match="no sparse matrices"):
            call()


def as_tensor_of(layout, array):
    """Return an array as a sparse tensor of PyTorch in a layout, or as a BCOO array of JAX with unused places."""
    if layout == "bcoo":
        sparse = pytest.importorskip("jax.experimental.sparse")
        return sparse.BCOO.fromdense(array, nse=np.count_nonzero(array) + 3)
    torch = pytest.importorskip("torch")
    with warnings.catch_warnings(action="ignore"):  # PyTorch calls the layouts beta
        return getattr(torch.tensor(array), layout)()


def as_array(x):
    """Return a sparse or a dense tensor as an array, whose other entries are 0."""
    for name in ("to_dense", "todense"):
        x = getattr(x, name)() if hasattr(x, name) and not isinstance(x, np.ndarray) else x
    return np.asarray(x)


@pytest.mark.parametrize("layout", ["to_sparse", "to_sparse_csr", "to_sparse_csc", "bcoo"])
def test_sparse_tensors_give_sparse_tensors(layout, rng):
    numbers = [np.where(rng.random((6, 6)) < 0.5, rng.integers(1, 9, (6, 6)), 0).astype(np.float32) for _ in range(2)]
    (A, B), (S, T) = ([make(x) for x in numbers] for make in (lambda x: as_tensor_of(layout, x), sp.csr_array))
    x = rng.random(6, np.float32)
    vector = stored_values(A)[:6] * 0 + (x if layout == "bcoo" else pytest.importorskip("torch").tensor(x))
    results = {
        "product": lambda A, B, x: sr.matmul(A, B),
        "mask": lambda A, B, x: sr.matmul(A, B, mask=A, complement=True),
        "witness": lambda A, B, x: sr.matmul(A, B, return_witness=True)[1],
        "gemm": lambda A, B, x: sr.blas.gemm(A, B, B, alpha=2.0, beta=1.0, transpose=(True, False)),
        "power": lambda A, B, x: sr.power(A, 3),
        "add": lambda A, B, x: sr.add(A, B),
        "multiply": lambda A, B, x: sr.multiply(A, 2.0),
        "chain": lambda A, B, x: sr.multi_dot([A, B]),
        "vector": lambda A, B, x: sr.matmul(A, x),
        "gemv": lambda A, B, x: sr.blas.gemv(A, x, transpose=True),
        "rows": lambda A, B, x: sr.reduce(A, axis=1),
        "steps": lambda A, B, x: sr.multi_dot(A, x, steps=3),
        "steps of a sparse x": lambda A, B, x: sr.multi_dot(A, B, steps=2),
        "before": lambda A, B, x: sr.multi_dot(A, x, steps=3, return_witness=True)[1],
    }
    for name, call in results.items():
        found, expected = call(A, B, vector), call(S, T, x)
        is_sparse = sp.issparse(expected)
        assert type(found) is type(A if is_sparse else vector), name
        if layout != "bcoo":
            assert found.layout == (A if is_sparse else vector).layout, name
        np.testing.assert_array_equal(as_array(found), expected.toarray() if is_sparse else expected, err_msg=name)
    entries = as_host_operand(A).data
    assert layout == "bcoo" or np.shares_memory(entries, stored_values(A).numpy())


def test_sparse_tensors_that_are_refused():
    torch, jax = pytest.importorskip("torch"), pytest.importorskip("jax")
    BCOO, BCSR = (getattr(pytest.importorskip("jax.experimental.sparse"), name) for name in ("BCOO", "BCSR"))
    places, x = np.zeros((2, 2), np.int32), np.ones(2, np.float32)
    with pytest.raises(TypeError, match=r"semiring\.torch"):
        sr.matmul(torch.eye(2).to_sparse().requires_grad_(), x)
    with pytest.raises(DTypeError, match=r"to_bcoo"):
        sr.matmul(BCSR.fromdense(np.eye(2)), x)
    with pytest.raises(DTypeError, match="traced by JAX"):
        jax.jit(lambda values: sr.matmul(BCOO((values, places), shape=(2, 2)), x))(x)
    with pytest.raises(ShapeError, match="only matrices"):
        sr.matmul(BCOO.fromdense(np.ones((2, 2, 2))), x)


def test_a_result_that_does_not_fit_is_refused_before_it_is_allocated(monkeypatch):
    n = 9000
    star = sp.csr_array((np.ones(2 * n), (np.repeat([0, 1], n), np.tile(np.arange(n), 2))), shape=(n, n))
    monkeypatch.setattr("semiring.arrays.memory.free_memory", lambda: 1 << 20)
    with pytest.raises(TooLargeError, match="entries or more takes"):
        sr.matmul(star.T.tocsr(), star)
    assert sr.matmul(star, star).nnz == 2 * n


def test_results_of_large_products_do_not_depend_on_threads(rng):
    A = sp.random_array((3000, 3000), density=0.01, rng=rng, format="csr")
    A = sp.vstack([sp.csr_array(np.ones((2, 3000))), A[2:]]).tocsr()  # two rows are screened in several blocks
    for mask in (None, A.T.tocsr()):
        results = [sr.matmul(A, A, "plus_times", mask=mask, threads=threads) for threads in (1, 2, 8)]
        for other in results[1:]:
            assert all(getattr(other, part).tobytes() == getattr(results[0], part).tobytes() for part in PARTS)
        expected = (A @ A).toarray() * (1 if mask is None else mask.toarray() != 0)
        np.testing.assert_allclose(results[0].toarray(), expected, rtol=1e-12)


PARTS = ("indptr", "indices", "data")


if __name__ == "__main__":  # python tests/linalg/test_sparse_products.py FIRST LAST
    import sys

    run_random_cases(range(int(sys.argv[1]), int(sys.argv[2])), ALL)
    print("all equal")
