"""Draw sparse products of every semiring, and compute them by dictionaries or on a GPU."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import oracles
import scipy.sparse as sp
from operands import CASES, entries

import semiring as sr
from semiring import CATALOGUE
from semiring.errors import SuspiciousWeightsWarning
from semiring.kernels import get_backend
from semiring.kernels.contract import CompressedRows

INF = np.inf
KINDS = [sp.csr_array, sp.csc_array, sp.coo_array, sp.csr_matrix, sp.csc_matrix, sp.coo_matrix]

#: Semirings of one's own. Of two factors, ``first`` keeps the first one, so it does not commute.
OWN = {
    "first": (
        sr.Semiring("first", add="min(x, y)", mul="where(y < inf, x, inf)", zero="inf", one=0),
        np.minimum,
        lambda x, y: x,
        INF,
    ),
    "safest": (
        sr.Semiring("safest", add="max(x, y)", mul="x * y", zero=0, one=1, domain=(0, 1)),
        np.maximum,
        np.multiply,
        0.0,
    ),
    "late": (
        sr.Semiring("late", add="max(x, y)", mul="x + y + 1", zero="-inf", one=-1),
        np.maximum,
        lambda x, y: x + y + 1,
        -INF,
    ),
}


@dataclass
class Algebra:
    """A semiring of the library with its operations, written down independently."""

    semiring: Any
    add: Any
    mul: Any
    zero: Any
    dtype: np.dtype

    @classmethod
    def of(cls, name, dtype):
        dtype = np.dtype(dtype)
        if name in OWN:
            semiring, add, mul, zero = OWN[name]

            def absorbing(x, y):
                return dtype.type(zero) if zero in (x, y) else mul(x, y)

            return cls(semiring, add, absorbing, dtype.type(zero), dtype)
        oracle = oracles.ORACLES[name]
        return cls(CATALOGUE[name], oracle.add, oracle.mul, oracle.zero(dtype), dtype)

    def draw(self, rng, name, shape):
        if name == "safest":
            return (rng.integers(0, 9, shape) / 8).astype(self.dtype)
        if name in OWN or (name == "plus_times" and self.dtype.kind == "i"):
            return rng.integers(0 if name in OWN else -5, 6, shape).astype(self.dtype)
        return entries(rng, name, self.dtype, shape)


def as_dictionary(x, algebra):
    """Return the entries of an operand by position; ⊕ adds duplicates."""
    result = {}
    if sp.issparse(x):
        y = x.tocoo()
        places = zip(y.row.tolist(), y.col.tolist(), y.data, strict=True)
    else:
        places = ((i, j, x[i, j]) for i in range(x.shape[0]) for j in range(x.shape[1]))
    for i, j, value in places:
        result[i, j] = algebra.add(result[i, j], value) if (i, j) in result else value
    return result


def multiply(A, B, algebra, is_included):
    """Return the entry and the witness of every position that a pair of entries reaches."""
    values, witnesses, rows = {}, {}, {}
    for (k, j), b in sorted(B.items()):
        rows.setdefault(k, []).append((j, b))
    for (i, k), a in sorted(A.items()):
        for j, b in rows.get(k, ()):
            if not is_included(i, j):
                continue
            before = values.setdefault((i, j), algebra.zero)
            witnesses.setdefault((i, j), -1)
            after = algebra.add(before, algebra.mul(a, b))
            if after != before:
                values[i, j], witnesses[i, j] = after, k
    return values, witnesses


def draw_sparse(rng, algebra, name, m, n, *, kinds=KINDS):
    """Draw a sparse matrix of any class, with stored zeros, duplicates, unsorted rows or int64 indices."""
    count = int(rng.integers(0, 2 * max(m, n) + 1)) if m and n else 0
    rows, columns = rng.integers(0, max(m, 1), count), rng.integers(0, max(n, 1), count)
    if rng.random() < 0.5 and count:  # no duplicates
        places = np.unique(np.stack([rows, columns]), axis=1)
        rows, columns = places[:, rng.permutation(places.shape[1])]
    values = algebra.draw(rng, name, rows.size)
    kind = kinds[rng.integers(len(kinds))]
    index = rng.choice([np.int32, np.int64])
    if kind in (sp.coo_array, sp.coo_matrix):
        return kind((values, (rows.astype(index), columns.astype(index))), shape=(m, n))
    major, minor = (rows, columns) if "csr" in kind.__name__ else (columns, rows)
    order = np.argsort(major, kind="stable")
    starts = np.searchsorted(major[order], np.arange((m if "csr" in kind.__name__ else n) + 1))
    result = kind((m, n), dtype=algebra.dtype)
    result.indptr, result.indices, result.data = starts.astype(index), minor[order].astype(index), values[order]
    return result


def draw_case(rng, names):
    """Draw a semiring and the arguments of a product."""
    name, dtype = names[rng.integers(len(names))]
    algebra = Algebra.of(name, dtype)
    m, k, n = rng.integers(0, 9, 3) if rng.random() < 0.9 else (1, 1, 1)
    if rng.random() < 0.1:
        n = int(rng.integers(60, 200))
    operands = [
        draw_sparse(rng, algebra, name, *shape) if rng.random() < 0.75 else algebra.draw(rng, name, shape)
        for shape in ((m, k), (k, n))
    ]
    mask = None
    if rng.random() < 0.6:
        mask = rng.random((m, n)) < 0.4
        if rng.random() < 0.6:
            mask = draw_sparse(rng, Algebra.of("boolean", "bool"), "boolean", m, n)
    options = {"mask": mask, "complement": bool(mask is not None and rng.random() < 0.5)}
    options["return_witness"] = bool(algebra.semiring.selective and rng.random() < 0.5)
    return name, algebra, operands, options


ALL = [*CASES, *((name, dtype) for name in OWN for dtype in ("float32", "float64"))]


def move(x, make, array):
    """Return a sparse or dense matrix with its arrays moved by ``array``, and a class and shape given to ``make``."""
    if not hasattr(x, "format"):
        return array(x)
    result = make(x)
    for name in ("row", "col", "data") if x.format == "coo" else ("indptr", "indices", "data"):
        setattr(result, name, array(getattr(x, name)))
    return result


def put(x):
    """Return a SciPy matrix or an array on the GPU, with any dtype of its values."""
    import cupy
    import cupyx.scipy.sparse as xs

    return move(x, lambda x: getattr(xs, f"{x.format}_matrix")(x.shape, dtype=bool), cupy.asarray)


def get(x):
    """Return a matrix or an array of the GPU on the host."""
    return move(x, lambda x: getattr(sp, f"{x.format}_array")(x.shape), lambda array: array.get())


def check_on_device(case, put, get):
    """Compare a product on a device with that of the host, bitwise where ⊕ selects or is exact.

    ``put`` and ``get`` move a matrix or an array of SciPy and NumPy to the device and back.
    """
    name, algebra, operands, options = case
    there = {**options, "mask": None if options["mask"] is None else put(options["mask"])}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SuspiciousWeightsWarning)
        expected = sr.matmul(*operands, algebra.semiring, **options)
        found = sr.matmul(*map(put, operands), algebra.semiring, **there)
    pairs = zip(found, expected, strict=True) if options["return_witness"] else [(found, expected)]
    for moved, wanted in pairs:
        result = get(moved)
        assert sp.issparse(result) == sp.issparse(wanted)
        assert result.shape == wanted.shape
        if sp.issparse(result):
            assert result.format == wanted.format
            for part in ("row", "col") if result.format == "coo" else ("indptr", "indices"):
                np.testing.assert_array_equal(getattr(result, part), getattr(wanted, part))
            result, wanted = result.data, wanted.data
        assert result.dtype == wanted.dtype
        if name == "log_plus" or (name == "plus_times" and algebra.dtype.kind == "f"):
            tolerance = {2: 1e-3, 4: 1e-5, 8: 1e-12}[algebra.dtype.itemsize]
            np.testing.assert_allclose(result, wanted, rtol=tolerance, atol=tolerance)
        else:
            np.testing.assert_array_equal(result, wanted)


#: Functions of two sparse matrices, a vector and a matrix.
FUNCTIONS = {
    "power": lambda A, B, x, X: sr.power(A, 3),
    "identity": lambda A, B, x, X: sr.power(A, 0),
    "add": lambda A, B, x, X: sr.add(A, B),
    "multiply": lambda A, B, x, X: sr.multiply(A, B),
    "scale": lambda A, B, x, X: sr.multiply(2.0, A),
    "scale columns": lambda A, B, x, X: sr.multiply(A, x),
    "masked vector": lambda A, B, x, X: sr.matmul(A, x, mask=x < 0.5, return_witness=True)[1],
    "gemm": lambda A, B, x, X: sr.blas.gemm(A, B, A, alpha=2.0, beta=1.0),
    "gemm of a dense operand": lambda A, B, x, X: sr.blas.gemm(A, X, X, beta=1.0),
    "gemv": lambda A, B, x, X: sr.blas.gemv(A, x, x, alpha=1.0, beta=1.0),
    "chain": lambda A, B, x, X: sr.multi_dot([A, B, A]),
    "stack": lambda A, B, x, X: sr.matmul(A, X.reshape(6, 2, 2).swapaxes(0, 1)),
    "stack of vectors": lambda A, B, x, X: sr.matmul(A, X.T.reshape(4, 6, 1), return_witness=True)[1],
    "rows": lambda A, B, x, X: sr.reduce(A, axis=1),
    "columns": lambda A, B, x, X: sr.reduce(A, axis=0, keepdims=True),
}


def check_functions(kind, rng, put, get):
    """Compare `FUNCTIONS` on a device with those on the host, for matrices of a format, as `check_on_device` does."""
    A, B = (sp.random_array((6, 6), density=0.5, rng=rng, format=kind) for _ in range(2))
    arguments = A, B, rng.random(6), rng.random((6, 4))
    for name, function in FUNCTIONS.items():
        found, expected = get(function(*map(put, arguments))), function(*arguments)
        assert found.shape == expected.shape, name
        assert getattr(found, "format", None) == getattr(expected, "format", None), name
        if sp.issparse(expected):
            found, expected = found.toarray(), expected.toarray()
        np.testing.assert_array_equal(found, expected, err_msg=name)


#: Semirings and dtypes whose kernels are compared with the reference backend.
CONTRACT_CASES = [("min_plus", "float32"), ("plus_times", "float64"), ("boolean", "bool"), ("max_plus", "int64")]


def random_rows(rng, plan, m, n, lengths, index):
    """Return random compressed rows of ``lengths`` (m,), with the zero of the semiring among the entries."""
    columns = [np.sort(rng.permutation(n)[:length]) for length in lengths]
    size = sum(map(len, columns))
    values = np.asarray(rng.integers(0, 9, size)).astype(plan.dtype)
    values[rng.random(size) < 0.05] = plan.zero
    starts = np.cumsum([0, *map(len, columns)])
    return CompressedRows(starts, np.concatenate([*columns, []]).astype(index), values, n)


#: An array of `check_faults`, a place in it, and the number there that makes it invalid.
FAULTS = {
    "none": None,
    "first start": ("starts", 0, 1),
    "falling start": ("starts", 60, 0),
    "last start": ("starts", -1, 2**20),
    "negative start": ("starts", 30, -1),
    "far column": ("columns", 70, 40),
    "negative column": ("columns", 70, -1),
    "equal columns": ("columns", 70, 0),
    "large entry": ("values", 5, 11.0),
    "nan": ("values", -3, np.nan),
    "operand": ("operand", 7, -0.5),
}


def draw_fault(rng, fault, index):
    """Return compressed rows of min-plus in bounds, with entries behind the last row, and an operand, with a fault.

    The last results are the valid rows, and the bounds.
    """
    counts = rng.permutation([0, 0, 1, 2, 5, 9] * 50)
    starts = np.append(0, np.cumsum(counts))
    columns = np.concatenate([np.sort(rng.permutation(40)[:count]) for count in counts])
    behind = np.full(9, 99)
    arrays = {
        "starts": starts.astype(index),
        "columns": np.append(columns, behind).astype(index),
        "values": np.append(rng.integers(1, 10, columns.size), -behind).astype(float),
        "operand": rng.integers(0, 10, (40, 1)).astype(float),
    }
    valid = CompressedRows(starts, columns.astype(np.int32), arrays["values"][: columns.size].copy(), 40)
    if FAULTS[fault] is not None:
        array, place, value = FAULTS[fault]
        if fault == "equal columns":
            place = int(starts[np.flatnonzero(counts == 9)[0]]) + 4
            value = arrays["columns"][place - 1]
        if array in ("columns", "values") and place < 0:
            place += columns.size
        arrays[array][place] = value
    B = arrays.pop("operand")
    return CompressedRows(**arrays, width=40), B, valid, (0.0, 10.0)


def check_faults(kernels, plan, rng, fault, index, put=np.asarray, get=np.asarray):
    """Check `SparseKernels.multiply_unvalidated` for operands with a fault. ``put`` and ``get`` move an array."""
    A, B, valid, bounds = draw_fault(rng, fault, index)
    there, own = (CompressedRows(*map(put, x[:3]), x.width) for x in (A, valid))
    for right in (B, np.tile(B, 3)):
        C, expected = (put(np.empty((300, right.shape[1]))) for _ in range(2))
        right = put(right)
        assert kernels.multiply_unvalidated(plan, C, there, right, bounds) == (fault == "none")
        is_unscanned = fault in ("none", "large entry", "nan", "operand")
        assert kernels.multiply_unvalidated(plan, C, there, right, None) == is_unscanned
        if fault in ("none", "operand"):
            kernels.multiply_mixed(plan, expected, own, right, None)
            np.testing.assert_array_equal(get(C), get(expected))


def check_contract(kernels, plan, rng, put, get, *, index=np.int32):
    """Compare `semiring.kernels.contract.SparseKernels` with the reference backend.

    ``put`` and ``get`` move an array to the memory of the kernels and back. Entries are whole numbers, so sums are
    exact.
    """
    reference = get_backend("reference").capabilities.sparse
    witness = np.dtype(np.int32) if plan.semiring.selective else None

    def there(x):
        if x is None or not isinstance(x, CompressedRows):
            return None if x is None else put(x)
        return CompressedRows(*map(there, x[:3]), x.width)

    def assert_same(found, expected):
        (entries, ks, _), (wanted, numbers, _) = found, expected
        for x, y in zip((*entries[:3], ks), (*wanted[:3], numbers), strict=True):
            assert (x is None) == (y is None)
            if x is not None:
                np.testing.assert_array_equal(get(x), y)

    for m, k, n in ((0, 3, 2), (7, 0, 5), (3, 5, 0), (20, 30, 40), (41, 60, 150)):
        lengths = rng.integers(0, 9, m).clip(max=k)
        if m > 40:
            lengths[:6] = 0, 60, 60, 1, 30, 12  # a warp does not sort the longest ones
        A = random_rows(rng, plan, m, k, lengths, index)
        B = random_rows(rng, plan, k, n, rng.integers(0, 40, k).clip(max=n), index)
        mask = random_rows(rng, plan, m, n, rng.integers(0, 30, m).clip(max=n), index)._replace(values=None)
        dense = np.asarray(rng.integers(0, 9, (k, n))).astype(plan.dtype)
        for excluded in (None, mask):
            given = excluded, lambda _: None, witness
            found = kernels.multiply_sparse(plan, there(A), there(B), there(excluded), *given[1:])
            assert_same(found, reference.multiply_sparse(plan, A, B, *given))
        for second in (B, dense):
            found = kernels.multiply_masked(plan, there(A), there(second), there(mask), witness)
            assert_same(found, reference.multiply_masked(plan, A, second, mask, witness))
    m, k = 37, 70
    lengths = rng.integers(0, 9, m)
    lengths[:3] = 0, 70, 45
    A = random_rows(rng, plan, m, k, lengths, index)
    for n in (1, 2, 7, 64, 150):
        B = np.asarray(rng.integers(0, 9, (k, n))).astype(plan.dtype)
        D = np.asarray(rng.integers(0, 9, (n, m))).astype(plan.dtype)
        for left, right, of_entries in ((A, B, False), (A, B, True), (D, A, False)):
            for noted in {None, witness}:
                shape = (m, n) if left is A else (n, k)
                C, K = np.empty(shape, plan.dtype), None if noted is None else np.full(shape, -1, noted)
                found = there(C), there(K)
                kernels.multiply_mixed(plan, found[0], there(left), there(right), found[1], of_entries)
                reference.multiply_mixed(plan, C, left, right, K, of_entries)
                np.testing.assert_array_equal(get(found[0]), C)
                if K is not None:
                    np.testing.assert_array_equal(get(found[1]), K)
