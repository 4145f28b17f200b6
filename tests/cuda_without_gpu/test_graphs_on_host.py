"""Test the kernels that scan a matrix as a graph, run on the host (`cuda_on_host`), against NumPy and SciPy."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from cuda_on_host import HostKernels, needs_compiler, to_device
from machine_code import compile_for, needs_nvrtc

import semiring as sr
from semiring.kernels import cuda as folder
from semiring.kernels.graphs.spanning_forest import order_forest

SOURCE = (Path(folder.__file__).parent / "graphs.cu").read_text("utf-8")
ENTRIES = {1: "unsigned char", 2: "unsigned short", 4: "unsigned", 8: "unsigned long long"}
SIZES = (1, 33, 70)
DTYPES = ("float16", "float64", "int64", "uint8")
pytestmark = [needs_compiler, pytest.mark.full]


@pytest.fixture(scope="module")
def kernel_cache():
    return {}


class Library(ModuleType):
    """The module ``cupy``, of such arrays."""

    def __getattr__(self, name):
        function = getattr(np, name)
        return function if isinstance(function, type) else lambda *given, **how: to_device(function(*given, **how))


@pytest.fixture
def graphs(monkeypatch, kernel_cache):
    """Return `semiring.kernels.cuda.graph_kernels` on arrays of the host."""
    library = Library("cupy")
    library.asarray = lambda x: to_device(np.array(x))
    monkeypatch.setitem(sys.modules, "cupy", library)
    monkeypatch.delitem(sys.modules, "semiring.kernels.cuda.graph_kernels", raising=False)
    module = import_module("semiring.kernels.cuda.graph_kernels")

    def kernel(name, itemsize, kind, device):
        key = itemsize, kind
        if key not in kernel_cache:
            text = f"#define KIND {kind}\ntypedef {ENTRIES[itemsize]} U;\n{SOURCE}"
            kernel_cache[key] = HostKernels(text)

        def launch(grid, threads, arguments, shared_mem=0):
            given = [x.view(np.ndarray) if isinstance(x, np.ndarray) else x for x in arguments]
            kernel_cache[key].launch(name, (*grid, 1, 1)[:3], (*threads, 1, 1)[:3], given)

        return launch

    def set_bits(words, rows, columns):
        np.bitwise_or.at(words, (rows, columns // 32), (1 << (columns % 32)).astype(np.uint32))

    monkeypatch.setattr(module, "_kernel", kernel)
    monkeypatch.setattr(module, "current_device", lambda: 0)
    monkeypatch.setattr(module, "max_shared_memory", lambda: 2000)  # bytes: rows of 600 entries do not fit
    monkeypatch.setattr(module, "set_bits", set_bits)
    yield module
    sys.modules.pop("semiring.kernels.cuda.graph_kernels")


def matrix(rng, n, dtype, density, *, symmetric=False, padding=3):
    """Return small numbers of both signs if the dtype has them, many of them equal, and the value of no edge."""
    dtype = np.dtype(dtype)
    none = dtype.type(np.inf if dtype.kind == "f" else np.iinfo(dtype).max)
    values = rng.integers(0 if dtype.kind == "u" else -4, 5, (n, n)).astype(dtype)
    whole = np.full((n, n + padding), dtype.type(7), dtype)
    A = whole[:, :n]
    A[...] = np.where(rng.random((n, n)) < density, values, none)
    if symmetric:
        A[...] = np.where(np.tri(n, k=-1, dtype=bool), A.T, A)
    return A, none


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("dtype", ["float32", "int64", "uint8"])
@pytest.mark.parametrize("density", [0.0, 0.1])
def test_a_look(n, dtype, density, graphs, rng):
    for symmetric in (False, True):
        for change in ("nothing", "upper", "one weight"):
            A, none = matrix(rng, n, dtype, density, symmetric=symmetric)
            if change == "upper":
                A[np.tri(n, k=-1, dtype=bool)] = none
            if change == "one weight":
                A[none != A] = A.dtype.type(-1 if A.dtype.kind == "i" else 3)
                A[0, 0] = 2
            found = graphs.scan_structure(to_device(A), none)
            off = A[(none != A) & ~np.eye(n, dtype=bool)]
            assert found[0] == bool((A == A.T).all())
            assert found[1] == bool((np.tril(A, -1) != np.tril(np.full_like(A, none), -1)).any())
            assert found[2] == (none != A).sum()
            assert (found[3] is None) == (len(set(off.tolist())) != 1)
            assert found[3] is None or (found[3] == off[0] and found[3].dtype == A.dtype)
            np.testing.assert_array_equal(graphs.edge_words(to_device(A), none), sr.pack(none != A).words)


@pytest.mark.parametrize(("n", "dtype"), [(1, "uint8"), (33, "int16"), (70, "float64"), (530, "float32")])
def test_panels_are_moved(n, dtype, graphs, rng):
    A, _ = matrix(rng, n, dtype, 1.0)
    order = rng.permutation(n)
    whole = A.base.copy()
    expected = A[order][:, order]
    out, _ = matrix(rng, n, dtype, 1.0, padding=5)
    graphs.permute(to_device(out), order, to_device(A))
    np.testing.assert_array_equal(out, expected)
    turned = np.zeros((n, n + 2), dtype)
    graphs.transpose(to_device(A), to_device(turned)[:, :n])
    np.testing.assert_array_equal(turned[:, :n], A.T)
    part = to_device(np.zeros((max(1, n // 3), n), dtype))
    graphs.transpose(to_device(A)[:, : len(part)], part)
    np.testing.assert_array_equal(part, A[:, : len(part)].T)
    graphs.permute(to_device(A), order)
    np.testing.assert_array_equal(A, expected)
    np.testing.assert_array_equal(A.base[:, n:], whole[:, n:])
    graphs.mirror(to_device(A))
    np.testing.assert_array_equal(A, np.where(np.tri(n, k=-1, dtype=bool), expected.T, expected))


@pytest.mark.parametrize(("n", "dtype"), [(1, "float32"), (2, "int64"), (33, "int16"), (40, "float32")])
def test_hops(n, dtype, graphs, rng):
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import shortest_path

    for kind in ("few", "many", "path", "none"):
        order = rng.permutation(n)
        edges = rng.random((n, n)) < {"few": 1.5 / n, "many": 0.5, "path": 0, "none": 0}[kind]
        if kind == "path":
            edges[order[:-1], order[1:]] = True
        np.fill_diagonal(edges, rng.random(n) < 0.3)
        none = np.iinfo(dtype).max if dtype != "float32" else np.inf
        hops = shortest_path(edges.astype(float), unweighted=True)
        expected = np.full((n, n), none, dtype)
        expected[np.isfinite(hops)] = 3 * hops[np.isfinite(hops)]
        lists = csr_array(edges)
        for words in (None, to_device(sr.pack(edges).words)):
            D = to_device(np.full((n, n + 1), 5, dtype))
            given = lists.indptr.astype(np.int64), lists.indices.astype(np.int32)
            graphs.count_hops(D[:, :n], *given, words, 3, np.dtype(dtype).type(none))
            np.testing.assert_array_equal(D[:, :n], expected)
            assert (D[:, n] == 5).all()


@pytest.mark.parametrize("n", [1, 21])
@pytest.mark.parametrize("dtype", DTYPES)
def test_bottlenecks(n, dtype, graphs, rng):
    """Bottlenecks equal n³ selections, for spanning forests with ties, single vertices, separate trees and a chain."""
    for largest in (False, True):
        for density in (0.0, 1.5 / n, 0.3, 1.0):
            A, none = matrix(rng, n, dtype, density, symmetric=True)
            low, high = (np.iinfo(dtype).min, np.iinfo(dtype).max) if A.dtype.kind != "f" else (-np.inf, np.inf)
            if largest:  # there nothing is worse than the least
                A[none == A] = low
                none = A.dtype.type(low)
            one = A.dtype.type(high if largest else low)
            expected = A.copy()
            np.fill_diagonal(expected, one)
            best, worst = (np.maximum, np.minimum) if largest else (np.minimum, np.maximum)
            for k in range(n):
                expected = best(expected, worst(expected[:, k, None], expected[k]))
            tails, heads, weights = graphs.spanning_edges(to_device(A), none, largest)
            np.testing.assert_array_equal(A[tails, heads], weights)
            order = np.argsort(weights, kind="stable")[:: -1 if largest else 1]
            row, which = order_forest(n, tails[order], heads[order])
            D = to_device(np.zeros((n, n), dtype))
            graphs.fill_bottlenecks(D, row, np.append(weights[order], none)[which], one, largest)
            np.testing.assert_array_equal(D, expected)


@pytest.mark.parametrize(("itemsize", "kind"), [(1, 0), (2, 1), (4, 2), (8, 2)])
@needs_nvrtc
def test_nothing_is_spilled(itemsize, kind):
    text = f"typedef {ENTRIES[itemsize]} U;\n{SOURCE}"
    _, log = compile_for("sm_90a", text, ("-std=c++17", f"-DKIND={kind}"))
    assert log.count("bytes stack frame") >= 11
    assert log.count("0 bytes spill stores, 0 bytes spill loads") == log.count("bytes stack frame")
