"""Test the products of sparse matrices on a GPU with their kernels run on the host (`cuda_on_host`)."""

from __future__ import annotations

import re
import sys
from importlib import import_module
from itertools import pairwise
from types import ModuleType

import fake_cupy
import numpy as np
import pytest
import scipy.sparse as sp
from cuda_on_host import HostKernels, needs_compiler, to_device
from machine_code import compile_for, needs_nvrtc
from sparse_cases import (
    CONTRACT_CASES,
    FAULTS,
    check_contract,
    check_faults,
    check_functions,
    check_on_device,
    draw_case,
    move,
)

import semiring as sr
from semiring.errors import DeviceError, DomainError, ShapeError
from semiring.kernels.contract import Capabilities, CompressedRows
from semiring.kernels.cuda.closing.kernel_text import product_arithmetic_of, source
from semiring.kernels.engine import make_plan

pytestmark = pytest.mark.full
INF = np.inf
MODULES = [f"semiring.kernels.cuda.product.{name}" for name in ("index_arrays", "sparse_rows")]


class Library(ModuleType):
    """The module ``cupy``, of arrays of the host."""

    def __getattr__(self, name):
        function = getattr(np, name)
        if isinstance(function, type):
            return function
        stable = {"kind": "stable"} if name == "argsort" else {}
        return lambda *given, **how: to_device(function(*given, **how, **stable))


@pytest.fixture(scope="module")
def compiled():
    return {}


@pytest.fixture
def kernels(monkeypatch, compiled):
    """Return `semiring.kernels.cuda.product.sparse_rows` on arrays of the host, with a warp for each block."""
    monkeypatch.setitem(sys.modules, "cupy", Library("cupy"))
    yield from load_kernels(monkeypatch, compiled, lambda x: x.view(np.ndarray) if isinstance(x, np.ndarray) else x)


@pytest.fixture
def device(monkeypatch, compiled):
    """Make the library multiply on arrays that stand for those of a GPU, by the kernels of the fixture above."""
    cupy, backend = fake_cupy.install(monkeypatch)
    sparse = ModuleType("cupyx.scipy.sparse")
    for layout in ("csr", "csc", "coo"):
        members = {
            "format": layout,
            "ndim": 2,
            "__module__": sparse.__name__,
            "dtype": property(lambda x: x.data.dtype),
        }
        members["__init__"] = lambda x, shape, dtype: setattr(x, "shape", shape)
        setattr(sparse, f"{layout}_matrix", type(f"{layout}_matrix", (), members))
    monkeypatch.setitem(sys.modules, sparse.__name__, sparse)
    modules = load_kernels(monkeypatch, compiled, fake_cupy.unwrap)
    backend.capabilities = Capabilities(sparse=next(modules))
    yield cupy
    next(modules, None)


def load_kernels(monkeypatch, compiled, unwrap):
    """Yield the module of the kernels, which are launched on what ``unwrap`` makes of their arguments."""
    for name in MODULES:
        monkeypatch.delitem(sys.modules, name, raising=False)
    index_arrays, sparse_rows = map(import_module, MODULES)

    def launcher(text, name):
        if text not in compiled:
            compiled[text] = HostKernels(text)

        def launch(grid, threads, arguments, shared_mem=0):
            compiled[text].launch(name, (*grid, 1, 1)[:3], (*threads, 1, 1)[:3], list(map(unwrap, arguments)))

        return launch

    def compile_kernel(file, name, arithmetic, defines, shared_bytes, *, purpose):
        return launcher(source(file, arithmetic, defines), name)

    for module in (index_arrays, sparse_rows):
        monkeypatch.setattr(module, "_THREADS", 32)
    monkeypatch.setattr(index_arrays, "current_device", lambda: 0)
    monkeypatch.setattr(index_arrays, "_kernel", lambda name, *types: launcher(index_arrays.source(*types[:2]), name))
    monkeypatch.setattr(sparse_rows, "compile_kernel", compile_kernel)
    monkeypatch.setattr(sparse_rows, "_SORT_WARPS", 1)
    monkeypatch.setattr(sparse_rows, "_LONG", 40)
    monkeypatch.setattr(sparse_rows, "_CHUNK", 5000)
    yield sparse_rows
    for name in MODULES:
        sys.modules.pop(name, None)


@needs_compiler
@pytest.mark.parametrize(("name", "dtype"), CONTRACT_CASES)
@pytest.mark.parametrize("index", [np.int32, np.int64])
def test_the_contract(name, dtype, index, kernels, rng):
    check_contract(kernels, make_plan(sr.CATALOGUE[name], dtype), rng, to_device, lambda x: x.get(), index=index)


@needs_compiler
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("n", "is_stack"), [(1, False), (8, False), (8, True), (6, True), (1, True)])
def test_sums_of_exponentials(dtype, n, is_stack, kernels, rng):
    """Rows hold ∞, -∞, equal terms, and a term far below the greatest one."""
    lengths = np.array([0, 1, 2, 2, 2, 2, 3, 7, 8, 90])
    starts, k = np.concatenate([[0], np.cumsum(lengths)]), 100
    columns = np.concatenate([np.sort(rng.permutation(k)[:length]) for length in lengths]).astype(np.int32)
    values = rng.normal(scale=20, size=columns.size).astype(dtype)
    values[:12] = [-INF, 0, -12, 3, 3, -INF, 5, INF, INF, -INF, 2, -INF]
    B = rng.normal(size=(3 if is_stack else 1, k, n)).astype(dtype)
    B[:, columns[:3]] = 0
    B[:, columns[3:5]] = 1
    A = CompressedRows(*map(to_device, (starts, columns, values)), k)
    C = to_device(np.empty((len(B), lengths.size, n), dtype))
    given = (C, A, to_device(B)) if is_stack else (C[0], A, to_device(B[0]))
    kernels.multiply_mixed(make_plan(sr.log_plus, dtype), *given, None)
    with np.errstate(divide="ignore"):
        expected = [
            np.logaddexp.reduce(values[a:b, None] + B[:, columns[a:b]].astype(np.float64), axis=1, initial=-INF)
            for a, b in pairwise(starts)
        ]
    found, eps = np.asarray(C.view(np.ndarray)), np.finfo(dtype).eps
    np.testing.assert_allclose(found, np.stack(expected, 1), rtol=4 * eps, atol=40 * eps)
    np.testing.assert_allclose(found[:, 2], np.log1p(np.exp(-12.0)), rtol=8 * eps)  # which is near 0


@needs_compiler
def test_invalid_and_unsorted_indices_are_found(kernels, rng):
    index_arrays = sys.modules[MODULES[0]]
    A = sp.random_array((50, 30), density=0.2, rng=rng, format="csr")
    cases = {
        "valid": (A.indptr, A.indices, (0, 0, A.nnz)),
        "an index beyond": (A.indptr, np.where(np.arange(A.nnz) == 7, 30, A.indices), (2, None, A.nnz)),
        "an index below": (A.indptr, np.where(np.arange(A.nnz) == 7, -1, A.indices), (2, None, A.nnz)),
        "a falling start": (np.where(np.arange(51) == 20, 0, A.indptr), A.indices, (1, None, A.nnz)),
        "a start beyond": (np.where(np.arange(51) == 50, A.nnz + 1, A.indptr), A.indices, (1, None, A.nnz)),
        "unused entries": (A.indptr, np.append(A.indices, 99), (0, 0, A.nnz)),
        "unsorted": (A.indptr, A.indices[::-1].copy(), (0, None, A.nnz)),
        "twice": (A.indptr * 0 + np.r_[0, np.full(50, 2)], np.array([3, 3]), (0, 1, 2)),
        "nothing": (A.indptr * 0, A.indices[:0], (0, 0, 0)),
    }
    for name, (starts, indices, (flags, descents, count)) in cases.items():
        for dtype in (np.int32, np.int64):
            result = to_device(np.zeros(3, np.uint64))
            index_arrays.scan_indices(to_device(starts.astype(dtype)), to_device(indices.astype(dtype)), 30, result)
            assert (int(result[0]), int(result[2])) == (flags, count), name
            if descents is not None:
                assert int(result[1]) == descents, name
            elif not flags:
                assert int(result[1]) != 0, name


@needs_compiler
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("index", [np.int32, np.int64])
def test_no_kernel_reads_by_an_invalid_index(fault, index, device, rng):
    kernels = sys.modules[MODULES[1]]
    check_faults(kernels, make_plan(sr.min_plus, "float64"), rng, fault, index, device.asarray, lambda x: x.get())


@needs_compiler
def test_a_product_with_a_dense_operand_waits_once(device, rng):
    """It waits again where the columns of a row do not ascend, and raises errors as other products do."""
    sparse = sys.modules["cupyx.scipy.sparse"]
    S, X = sp.random_array((50, 30), density=0.2, rng=rng, format="csr"), rng.random((30, 4))
    there = device.asarray(X)
    turned = [place for a, b in pairwise(S.indptr.tolist()) for place in range(b - 1, a - 1, -1)]  # descending columns
    for order, waits in ((np.arange(S.nnz), 1), (turned, None)):
        host = sp.csr_array((S.data[order], S.indices[order], S.indptr), shape=S.shape)
        A = move(host, lambda x: sparse.csr_matrix(x.shape, None), device.asarray)
        for operand in (X, X[:, 0].copy()):
            before = device.ndarray.wait_count
            found = sr.matmul(A, device.asarray(operand))
            if waits is not None:
                assert device.ndarray.wait_count - before == waits
            np.testing.assert_array_equal(found.get(), sr.matmul(host, operand))
    A.indices.inner[3] = 30
    with pytest.raises(ShapeError, match="30"):
        sr.matmul(A, there)
    with pytest.raises(DomainError, match=r"B\[1, 2\] is nan"):
        sr.matmul(
            move(S, lambda x: sparse.csr_matrix(x.shape, None), device.asarray),
            device.asarray(np.where(np.arange(120).reshape(30, 4) == 6, np.nan, X)),
        )


@needs_compiler
@pytest.mark.parametrize("name", ["min_plus", "plus_times", "boolean"])
def test_the_way_of_a_call(name, device):
    """Index arrays are validated, sorted and converted on the device, whatever their layout."""
    dtype = {"min_plus": "float64", "plus_times": "int32", "boolean": "bool"}[name]
    sparse = sys.modules["cupyx.scipy.sparse"]

    def put(x):
        return move(x, lambda x: getattr(sparse, f"{x.format}_matrix")(x.shape, None), device.asarray)

    def get(x):
        return move(x, lambda x: getattr(sp, f"{x.format}_array")(x.shape), lambda array: array.get())

    if name == "min_plus":
        for kind in ("csr", "csc", "coo"):
            check_functions(kind, np.random.default_rng(0), put, get)
    for seed in range(60):
        case = draw_case(np.random.default_rng(seed), [(name, dtype)])
        try:
            check_on_device(case, put, get)
        except Exception as error:
            error.add_note(f"seed {seed}: {case}")
            raise


@needs_compiler
@pytest.mark.parametrize(("m", "k", "n"), [(0, 4, 3), (5, 0, 3), (5, 4, 0)])
def test_stacks_of_matrices_without_entries(m, k, n, device):
    sparse, S, X = sys.modules["cupyx.scipy.sparse"], sp.csr_array((m, k)), np.zeros((2, k, n))
    A = move(S, lambda x: sparse.csr_matrix(x.shape, None), device.asarray)
    for options in ({}, {"return_witness": True}):
        found = sr.matmul(A, device.asarray(X), **options)
        expected = sr.matmul(S, X, **options)
        for x, y in zip(*((r if options else (r,)) for r in (found, expected)), strict=True):
            np.testing.assert_array_equal(x.get(), y)


def test_what_is_refused(device):
    sparse, S = sys.modules["cupyx.scipy.sparse"], sp.csr_array(np.eye(3))
    A = move(S, lambda x: sparse.csr_matrix(x.shape, None), device.asarray)
    X, truths = device.asarray(np.eye(3)), device.asarray(np.eye(3, dtype=bool))
    cases = {
        "mixed operands": (lambda: sr.matmul(A, S), "B is in the memory of the host"),
        "a mask of the host": (lambda: sr.matmul(A, A, mask=S), "mask is in the memory of the host"),
        "a mask of a vector": (lambda: sr.matmul(A, X[0], mask=np.ones(3, bool)), "mask is in the memory of the host"),
        "a mask on the GPU": (lambda: sr.matmul(S, S, mask=A), "mask is on a GPU"),
        "truth values on the GPU": (lambda: sr.matmul(S, S, mask=truths), "mask is on a GPU"),
        "out of the host": (lambda: sr.matmul(A, X, out=np.eye(3)), "copy one of them"),
        "a sum with a dense matrix": (lambda: sr.add(A, X), "copy both of them"),
        "a dense addend": (lambda: sr.blas.gemm(A, A, X, beta=0.0), "copy both of them"),
        "a sequence": (lambda: sr.multi_dot(A, X[0], steps=2), "copy operands to the host"),
        "a closure": (lambda: sr.closure(A), r"pass A\.get\(\)"),
        "paths": (lambda: sr.shortest_paths(A), r"pass A\.get\(\)"),
        "factor": (lambda: sr.factor(A), r"pass A\.get\(\)"),
    }
    for name, (call, message) in cases.items():
        with pytest.raises(DeviceError) as caught:
            call()
        assert re.search(message, str(caught.value)), name


TYPES = "inner_t int", "column_t int"


@needs_nvrtc
@pytest.mark.parametrize(("name", "dtype"), [*CONTRACT_CASES, ("log_plus", "float64"), ("max_times", "float16")])
@pytest.mark.parametrize("witness", [(), ("WITNESS int",)])
def test_nothing_is_spilled_in_a_loop(name, dtype, witness):
    plan = make_plan(sr.CATALOGUE[name], dtype)
    if witness and not plan.semiring.selective:
        pytest.skip("no witnesses")
    arithmetic = product_arithmetic_of(plan)
    dense = "LANES 16", "LONG 1024", f"VECTOR {min(4, 16 // plan.dtype.itemsize)}"
    files = {
        "sparse_dense.cu": [dense, (*dense, "LOG_SUMS")] if name == "log_plus" else [dense],
        "sparse_sample.cu": [("LANES 8",), ("LANES 8", "DENSE")],
        "sparse_pairs.cu": [("LANES 1",)],
        "sparse_sort.cu": [
            (f"ITEMS {1 << which}", f"BITS {which + 5}", "sort_key_t unsigned", *fill)
            for which in (0, 1, 5)
            for fill in ((), ("FILL",), ("FILL", "MASKED"))
        ],
    }
    for file, variants in files.items():
        for defines in variants:
            _, log = compile_for("sm_90a", source(file, arithmetic, (*TYPES, *defines, *witness)), arithmetic.options)
            spills = [int(size) for size in re.findall(r"(\d+) bytes spill stores", log)]
            assert spills, (file, defines)
            assert max(spills) <= 32, (file, defines)  # a register that the compiler saves outside loops
