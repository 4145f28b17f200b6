"""Test that the library allocates no more beside its results than its documentation promises.

On the host, the limits bound the memory that is alive at one time. On a device, they bound the memory that is ever
allocated. The allocator of a device keeps freed blocks for requests of that size or less, so a workspace that grows
counts in every size that it had.
"""

from __future__ import annotations

import gc
import importlib
import sys
import tracemalloc
import weakref
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
import strict_arrays
from tiers import full

import semiring as sr
from semiring.algorithms.blocked_floyd_warshall import blocked_floyd_warshall
from semiring.algorithms.irreflexive_closure import irreflexive_product
from semiring.algorithms.rkleene import rkleene
from semiring.arrays import bits as packing
from semiring.arrays import parts
from semiring.kernels.contract import Capabilities
from semiring.kernels.engine import Engine, make_plan
from semiring.kernels.machines import closure_speed

N = 2048
PANELS = 1024 / N  # n · 1024 entries
MIB = 1 << 20


def weights(n, dtype=np.float32):
    return np.random.default_rng(0).integers(1, 1000, (n, n)).astype(dtype)


def of_both_signs(n, dtype=np.float32):
    heights = np.random.default_rng(1).integers(0, 500, n)
    return (weights(n, np.int64) + heights[:, None] - heights).astype(dtype)


def chain(n):
    """Return a path of weights below 0 through all vertices in no order: sweeps do not settle, so it is eliminated."""
    vertices, A = np.random.default_rng(0).permutation(n), np.full((n, n), np.inf, np.float32)
    A[vertices[:-1], vertices[1:]] = -1
    return A


def truths(n):
    return np.random.default_rng(0).random((n, n)) < 2 / n


def in_place(semiring="min_plus", **options):
    return lambda A: sr.closure(A, semiring, out=A, **options)


#: A function, its operand of n vertices, and the most memory beside the operands, in matrices, result included.
ON_THE_HOST = {
    "closure": (in_place(), weights, N, PANELS),
    "closure, unchecked": (in_place(check=False), weights, N, PANELS),
    "closure, two threads": (in_place(threads=2), weights, N, PANELS),
    "closure with progress": (in_place(progress=lambda done, total: None), weights, N, PANELS),
    "closure, new": (sr.closure, weights, N, 1 + PANELS),
    "rkleene": (in_place(method="rkleene"), weights, N, PANELS),
    "max_plus": (in_place("max_plus"), lambda n: -weights(n), N, PANELS),
    "max_min": (in_place("max_min"), weights, N, PANELS),
    "int32": (in_place(), lambda n: weights(n, np.int32), N, PANELS),
    "both signs": (in_place(), of_both_signs, N, PANELS),
    "both signs, int32": (in_place(), lambda n: of_both_signs(n, np.int32), N, PANELS),
    "both signs, a long path": (in_place(), chain, N, 3),  # the matrix in float64 while potentials are found
    "A⁺": (in_place(reflexive=False), weights, N, PANELS + 0.25),
    "A⁺ by a sum": (in_place("plus_times", reflexive=False), lambda n: weights(n) / 1e6 / n, 1024, 2.25),
    "squaring": (in_place(method="squaring"), weights, N, 1.05),
    "bfloat16": (in_place(), lambda n: weights(n, bfloat16()), N, 2 + 2 * PANELS),  # in float32
    "columns": (in_place(), lambda n: np.asfortranarray(weights(n)), N, PANELS),
    "a sparse matrix": (sr.closure, lambda n: sparse(weights(n)), N, 1.1 + PANELS),  # a tenth: lists of its edges
    "bool": (in_place("boolean"), truths, 4096, 1 / 4),
    "bool, one component": (in_place("boolean"), lambda n: np.random.default_rng(0).random((n, n)) < 0.5, 8192, 1 / 8),
    "bool A⁺": (in_place("boolean", reflexive=False), truths, 4096, 1 / 4),
    "bits A⁺": (in_place("boolean", reflexive=False), lambda n: sr.pack(truths(n)), 8192, 1.1),
    "pack": (sr.pack, truths, 8192, 1 / 8),
    "stack": (in_place(), lambda n: weights(n).reshape(-1, 64, 64), N, 0.4),
    "stack of both signs": (in_place(), lambda n: np.stack([of_both_signs(64)] * (n // 64) ** 2), N, 0.75),
    "predecessors": (sr.shortest_paths, weights, 1024, 3 + 0.75),
    "product": (lambda A: sr.matmul(A, A), weights, N, 1.1),
    "product with no path": (lambda A: sr.matmul(A, A), lambda n: with_no_path(n), 1024, 3),
    "gemm": (lambda A: sr.blas.gemm(A, A, alpha=2.0), weights, N, 3.4),
    "entries, many operations": (lambda A: sr.add(A, A, "log_plus"), weights, N, 4.25),
    "entries, one": (lambda A: sr.multiply(A, A), weights, N, 1.5),
    "csgraph": (lambda A: csgraph().floyd_warshall(A, overwrite=True), lambda n: weights(n, float), N, PANELS),
    "csgraph, counting edges": (
        lambda A: csgraph().floyd_warshall(A, unweighted=True, overwrite=True),
        lambda n: weights(n, float),
        1024,
        0.75,
    ),
}


#: The operations of the full tier: each of another part of the library.
ON_EVERY_RUN = (
    *("closure, new", "both signs", "both signs, a long path", "A⁺ by a sum", "columns", "bool", "stack"),
    "bool, one component",
    *("predecessors", "product with no path", "entries, one"),
)


def bfloat16():
    return pytest.importorskip("ml_dtypes").bfloat16


def sparse(A):
    from scipy.sparse import csr_array

    return csr_array(np.where(A < 50, A, 0))


def with_no_path(n):
    A = weights(n, np.int32)
    return np.where(A < 300, np.iinfo(np.int32).max, A).astype(np.int32)


def csgraph():
    from semiring.compat import csgraph

    return csgraph


@pytest.mark.full
@pytest.mark.parametrize("name", full(lambda name: name in ON_EVERY_RUN, ON_THE_HOST))
def test_the_host(name):
    call, make, n, matrices = ON_THE_HOST[name]
    call(make(n))  # all that it needs is compiled and loaded by now
    operand = make(n)
    gc.collect()
    gc.disable()
    tracemalloc.start()
    try:
        result = call(operand)
        peak = tracemalloc.get_traced_memory()[1]
        del result
        kept = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
        gc.enable()
    size = operand.nbytes if hasattr(operand, "nbytes") else n * n * operand.dtype.itemsize
    assert peak <= matrices * size + 3 * MIB  # pieces, and what the kernels of each thread keep
    assert kept <= 8 * MIB, "a cycle of references keeps arrays until Python looks for cycles"


def test_values_of_expressions_are_freed_at_once():
    """Values of expressions are freed at once, because Python's collector does not count the memory of a device."""
    gc.collect()
    gc.disable()
    try:
        x = np.ones(MIB)
        tracemalloc.start()
        sr.log_plus.add.expression.evaluate({"x": x, "y": x}, x.dtype)
        assert tracemalloc.get_traced_memory()[0] < x.nbytes
    finally:
        tracemalloc.stop()
        gc.enable()


# ------------------------------------------------------------------------------------------- the allocator of a device


class Streams:
    """Lanes that run their tasks at once."""

    def __enter__(self):
        return self

    def __exit__(self, *error):
        pass

    def run(self, number, task, after):
        task()


class Kernels:
    """The backend of a GPU, by name: its kernels do nothing."""

    name = "cuda"

    def __init__(self, lanes):
        self.capabilities = Capabilities(streams=self if lanes else None)

    def lanes(self, plan):
        return Streams()

    def __getattr__(self, name):
        return lambda *arguments, **options: None


class Outline(np.ndarray):
    """A matrix with a shape and views, but one repeated entry: copies and assignments do not touch memory."""

    def copy(self, order="C"):
        return self

    def __setitem__(self, index, value):
        pass


def outline(shape, dtype):
    """Return an array of any size that takes no memory, because all its entries share one."""
    return np.lib.stride_tricks.as_strided(np.zeros(1, dtype), shape, (0,) * len(shape)).view(Outline)


@pytest.mark.parametrize(
    ("algorithm", "n", "dtype", "lanes", "entries"),
    [
        (blocked_floyd_warshall, 2561, "float32", True, 512 * (2561 + 2 * 2561 + 512)),
        (blocked_floyd_warshall, 4096, "float32", True, 512 * (4096 + 2 * 4096 + 512)),
        (blocked_floyd_warshall, 8192, "float32", True, 1024 * (8192 + 17408)),
        (blocked_floyd_warshall, 131072, "float32", True, 1024 * (131072 + 17408)),
        (blocked_floyd_warshall, 131072, "float32", False, 1024 * 131072),
        (blocked_floyd_warshall, 16384, "float64", True, 1024 * (16384 + 17408)),
        (blocked_floyd_warshall, 65536, "bits", True, 4096 * (65536 + 32768) // 32),
        (rkleene, 16384, "float32", False, 8192 * 8192),
        (rkleene, 131072, "float32", False, 65536 * 8192),
        (rkleene, 65536, "bits", False, 32768 * 32768 // 32),
        (lambda engine, A: irreflexive_product(engine, A, A), 16384, "float32", False, 1024 * 16384),
        (lambda engine, A: irreflexive_product(engine, A, A), 65536, "bits", False, 1024 * 65536 // 32),
    ],
)
def test_panels_on_a_device(monkeypatch, algorithm, n, dtype, lanes, entries):
    """A closure allocates the widest column panel, and a workspace for each lane that copies rows of pivots."""
    sizes = []

    class Counting:
        @staticmethod
        def empty(shape, dtype):
            shape = shape if isinstance(shape, tuple) else (shape,)
            sizes.append(int(np.prod(shape)))
            return outline(shape, dtype)

    for module in (blocked_floyd_warshall.__module__, Engine.__module__):
        monkeypatch.setattr(sys.modules[module], "array_namespace", lambda A: Counting)
    bits = dtype == "bits"
    plan = make_plan(
        sr.boolean if bits else sr.min_plus, bool if bits else dtype, storage="bits" if bits else "elements"
    )
    A = outline((n, n // 32 if bits else n), np.uint32 if bits else dtype)
    algorithm(Engine(Kernels(lanes), plan, closure_speed("cuda", plan.dtype).panel), A)
    assert 0.99 * entries <= sum(sizes) <= 1.01 * entries


@pytest.fixture
def products(monkeypatch):
    """Run the products of the GPU on arrays of the host, with launches replaced by plain loops."""
    sizes = []

    def empty(shape, dtype):
        sizes.append(int(np.prod(shape)))
        return np.full(shape, 77, dtype)

    fakes = {
        "cupy": SimpleNamespace(empty=empty, zeros=lambda shape, dtype: np.zeros(shape, dtype)),
        "semiring.kernels.cuda.product.bit_products": SimpleNamespace(),
        "semiring.kernels.cuda.product.launches": SimpleNamespace(prepare=None, load_kernel=None, enter_device=None),
    }
    for name, module in fakes.items():
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.delitem(sys.modules, "semiring.kernels.cuda.product.product_routes", raising=False)
    module = importlib.import_module("semiring.kernels.cuda.product.product_routes")
    monkeypatch.setattr(module, "_STRIP", 4096)
    by_columns = lambda C: SimpleNamespace(is_column_major=C.strides[-1] > C.strides[-2])  # noqa: E731
    monkeypatch.setattr(module, "Placement", SimpleNamespace(of=by_columns))

    def multiply(plan, call, C, A, B, accumulate):
        found = np.minimum(A[..., :, :, None], B[..., None, :, :]).max(-2)
        C[...] = np.maximum(C, found) if accumulate else found

    monkeypatch.setattr(module, "_multiply", multiply)
    yield module, sizes
    sys.modules.pop("semiring.kernels.cuda.product.product_routes")


@pytest.mark.parametrize("accumulate", [True, False])
@pytest.mark.parametrize("route", ["wider", "pairs", "pairs by columns"])
def test_copies_of_narrow_elements_are_of_few_sizes(rng, products, route, accumulate):
    """A closure multiplies into parts of all heights: the part above its pivots grows from round to round."""
    module, sizes = products
    plan = make_plan(sr.max_min, "uint8" if route == "wider" else "int16")
    call = SimpleNamespace(accumulate=accumulate)
    call.transposed = call  # max-min commutes
    through = (
        partial(module._multiply_widened, call, np.int16)
        if route == "wider"
        else partial(module._multiply_as_pairs, call)
    )
    k, n = 3, 65
    for m in range(1, 321, 8):
        A, B, C = (rng.integers(0, 99, shape).astype(plan.dtype) for shape in ((m, k), (k, n), (m, n)))
        C = np.asfortranarray(C) if route == "pairs by columns" else C
        expected = np.minimum(A[:, :, None], B[None]).max(1)
        expected = np.maximum(C, expected) if accumulate else expected
        through(plan, C, A, B)
        np.testing.assert_array_equal(C, expected)
    if route != "pairs by columns":  # no closure has those
        assert max(sizes) <= 2 * 4096
        assert len(set(sizes)) <= 7


@pytest.mark.parametrize("count", [1, 3])
def test_stacks_of_narrow_elements(rng, products, count):
    module, _ = products
    call = SimpleNamespace(accumulate=False)
    A, B = (rng.integers(0, 99, (count, *shape)).astype(np.int16) for shape in ((90, 5), (5, 65)))
    for through in (partial(module._multiply_widened, call, np.int32), partial(module._multiply_as_pairs, call)):
        C = np.empty((count, 90, 65), np.int16)
        through(None, C, A, B)
        np.testing.assert_array_equal(C, np.minimum(A[..., None], B[:, None]).max(-2))


class Pool:
    """An allocator as CuPy's on one stream: best fit, what is left over is free, neighbours join, nothing goes back."""

    def __init__(self):
        self.total, self.chunks = 0, []  # of [size, whether it is free], one list for each request to the device

    def take(self, size):
        size = -(-size // 512) * 512
        free = [
            (chunk[0], chunk, chunks) for chunks in self.chunks for chunk in chunks if chunk[1] and chunk[0] >= size
        ]
        if not free:
            self.total += size
            self.chunks.append([[size, False]])
            return self.chunks[-1], self.chunks[-1][0]
        _, chunk, chunks = min(free, key=lambda found: found[0])
        position = next(i for i, other in enumerate(chunks) if other is chunk)
        if chunk[0] > size:
            chunks.insert(position + 1, [chunk[0] - size, True])
        chunk[:] = size, False
        return chunks, chunk

    def give_back(self, chunks, chunk):
        chunk[1] = True
        for i in range(len(chunks) - 1, 0, -1):
            if chunks[i][1] and chunks[i - 1][1]:
                chunks[i - 1][0] += chunks.pop(i)[0]


@pytest.fixture
def pool(monkeypatch):
    """Install the allocator from which a stand-in of CuPy takes its arrays."""
    seen, pool, begin = set(), Pool(), strict_arrays.StrictArray.__init__

    def record_allocation(self, inner):
        begin(self, inner)
        while isinstance(inner.base, np.ndarray):
            inner = inner.base
        if inner.size and id(inner) not in seen:
            seen.add(id(inner))
            weakref.finalize(inner, seen.discard, id(inner))
            weakref.finalize(inner, pool.give_back, *pool.take(inner.nbytes))

    monkeypatch.setattr(strict_arrays.StrictArray, "__init__", record_allocation)
    with strict_arrays.install_stand_in(monkeypatch):
        yield pool


@pytest.mark.full
@pytest.mark.parametrize(
    ("make", "options"),
    [
        (weights, {}),
        pytest.param(weights, {"check": False}, marks=pytest.mark.exhaustive),
        (weights, {"reflexive": False}),
        pytest.param(weights, {"semiring": "max_min"}, marks=pytest.mark.exhaustive),
        pytest.param(lambda n: -weights(n), {"semiring": "max_plus"}, marks=pytest.mark.exhaustive),
        (of_both_signs, {}),
        pytest.param(lambda n: -of_both_signs(n), {"semiring": "max_plus"}, marks=pytest.mark.exhaustive),
        pytest.param(lambda n: of_both_signs(n, np.float64), {}, marks=pytest.mark.exhaustive),
        (lambda n: of_both_signs(n, np.int32), {}),
        (lambda n: weights(n, np.int32) * 10**5, {}),
        (truths, {"semiring": "boolean"}),
    ],
)
def test_temporaries_on_a_device(monkeypatch, pool, make, options):
    """The allocator serves the panels of the closure and at most 32 bytes for each entry of a piece."""
    n, piece = 400, 1 << 13
    monkeypatch.setattr(parts, "_PIECE_ON_DEVICE", piece)
    monkeypatch.setattr(parts, "_ROWS_ON_DEVICE", 1)
    A = make(n)
    there, before = strict_arrays.on_device(A), pool.total
    method = "auto" if A.dtype == bool else "blocked_floyd_warshall"
    gc.disable()
    try:
        sr.closure(there, out=there, method=method, **options)
    finally:
        gc.enable()
    panels = A.nbytes // 8 if A.dtype == bool else 256 * n * A.itemsize
    assert pool.total - before <= panels + 32 * piece + 64 * n


@pytest.mark.full
@pytest.mark.parametrize("make", [weights, of_both_signs, truths])
def test_what_is_moved_to_a_device_is_one_matrix(monkeypatch, pool, make):
    """A matrix that is moved to a device is closed in place and copied back, except integers, which may start again."""
    n = 400
    for module, name, value in (
        (parts, "_PIECE_ON_DEVICE", 1 << 12),
        (parts, "_ROWS_ON_DEVICE", 1),
        (packing, "_UNPACKED_ENTRIES", 1),
    ):
        monkeypatch.setattr(module, name, value)
    A = make(n)
    for target in (None, np.empty_like(A)):
        before = pool.total
        sr.closure(A, "boolean" if A.dtype == bool else "min_plus", device="cuda", out=target)
        panels = A.nbytes // 8 if A.dtype == bool else 256 * n * A.itemsize
        assert pool.total - before <= A.nbytes + panels + (32 << 12) + 64 * n


def test_pieces_of_large_matrices_are_some_rows(pool):
    """A piece takes 32 bytes an entry, at most 64 MiB or 8 KiB a vertex, as the page on closures says."""
    for n in (100, 1449, 4097, 8192, 8193, 131072):
        A = strict_arrays.on_device(np.broadcast_to(np.float32(0), (n, n)))
        rows = max(part.stop - part.start for part in parts.pieces(A))
        assert 32 * rows * n <= max(64 * MIB, 8 * 1024 * n)
