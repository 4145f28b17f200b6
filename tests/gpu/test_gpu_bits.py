"""Test products and closures of packed truth values on the tensor cores of a GPU."""

from __future__ import annotations

from importlib import import_module

import numpy as np
import pytest

import semiring as sr
from semiring import CATALOGUE, BitMatrix, pack
from semiring.kernels import device_backend
from semiring.kernels.engine import make_plan

pytestmark = pytest.mark.gpu

BOOL = np.dtype(bool)
SIZES = (1, 2, 31, 32, 33, 63, 64, 65, 127, 128, 129, 255, 256, 257, 500, 512, 513, 1000, 1024, 1025, 2048, 2049, 3000)
DEPTHS = (*SIZES, 4096, 4097, 5000)


@pytest.fixture
def tensor_cores(monkeypatch):
    """Send products of every size to the tensor cores, and record the shapes of the operands."""
    from semiring.kernels.cuda.closing.modules import current_device
    from semiring.kernels.cuda.product import bit_kernels, bit_products, product_routes
    from semiring.kernels.cuda.product.launches import architecture

    if architecture(current_device()) != bit_kernels.TARGET:
        pytest.skip("the tensor cores of this GPU have no products of bits")
    calls, multiply = [], bit_products._multiply

    def record_and_multiply(parity, accumulate, plan, C, A, B):
        calls.append((C.shape, B.shape))
        multiply(parity, accumulate, plan, C, A, B)

    monkeypatch.setattr(bit_products, "_multiply", record_and_multiply)
    monkeypatch.setattr(bit_kernels, "_PAIRS", 1)
    monkeypatch.setattr(product_routes, "routes_of", lambda plan: {})
    return calls


def embed(words, left_words, right_words):
    """Return the words as a view inside larger memory, and all of that memory, which must stay as it is around them."""
    import cupy

    rows, columns = words.shape
    whole = cupy.full((rows + 2, left_words + columns + right_words), 0xA5A5A5A5, np.uint32)
    view = whole[1 : rows + 1, left_words : left_words + columns]
    view[...] = cupy.asarray(words)
    return whole, view


@pytest.mark.parametrize("seed", range(60))
def test_products_of_every_shape(seed, tensor_cores):
    """Each seed draws six shapes, views at any word, C read or not, ⊕ or and xor. No word around C changes."""
    rng = np.random.default_rng(seed)
    for i in range(6):
        name, accumulate = ("boolean", "xor_and")[(seed + i) % 2], bool(rng.integers(2))
        m, n, k = (int(rng.choice(sizes)) for sizes in (SIZES, SIZES, DEPTHS))
        density = min(0.5, (0.7 / k) ** 0.5) if name == "boolean" else 0.3
        a, b, c = (rng.random(shape) < density for shape in ((m, k), (k, n), (m, n)))
        _, A = embed(pack(a).words, *rng.integers(0, 6, 2))
        _, B = embed(pack(b).words, *rng.integers(0, 6, 2))
        around, C = embed(pack(c).words, *rng.integers(0, 6, 2))
        plan = make_plan(CATALOGUE[name], BOOL, storage="bits")
        backend = device_backend(CATALOGUE[name], BOOL, "bits")
        (backend.multiply_add if accumulate else backend.multiply)(plan, C, A, B)
        counts = a.astype(np.float32) @ b.astype(np.float32)  # exact: below 2²⁴
        product = counts > 0 if name == "boolean" else counts % 2 > 0
        expected = product if not accumulate else c | product if name == "boolean" else c ^ product
        np.testing.assert_array_equal(C.get(), pack(expected).words, f"{name} {m} × {k} × {n}")
        C[...] = 0xA5A5A5A5
        assert bool((around == 0xA5A5A5A5).all()), f"{name} {m} × {k} × {n} wrote beside C"
    assert len(tensor_cores) == 6


@pytest.mark.parametrize("sides", [(0, 70, 50), (70, 0, 50), (70, 50, 0), (0, 0, 0)])
@pytest.mark.parametrize("name", ["boolean", "xor_and"])
def test_products_of_nothing(name, sides, tensor_cores):
    """If k is 0, C is 0 after a product, and an accumulating product leaves C unchanged."""
    import cupy

    m, n, k = sides
    A, B = (cupy.zeros((rows, -(-columns // 32)), np.uint32) for rows, columns in ((m, k), (k, n)))
    C = cupy.full((m, -(-n // 32)), 5, np.uint32)
    plan, backend = make_plan(CATALOGUE[name], BOOL, storage="bits"), device_backend(CATALOGUE[name], BOOL, "bits")
    backend.multiply_add(plan, C, A, B)
    assert bool((C == 5).all())
    backend.multiply(plan, C, A, B)
    assert not bool(C.any())


def test_a_stack_and_one_operand_for_all(tensor_cores, rng):
    import cupy

    a, b = rng.random((3, 200, 300)) < 0.05, rng.random((300, 400)) < 0.05
    A = cupy.asarray(np.stack([pack(x).words for x in a]))
    B = cupy.broadcast_to(cupy.asarray(pack(b).words), (3, 300, 13))
    C = cupy.zeros((3, 200, 13), np.uint32)
    plan = make_plan(sr.boolean, BOOL, storage="bits")
    device_backend(sr.boolean, BOOL, "bits").multiply(plan, C, A, B)
    for found, x in zip(C.get(), a, strict=True):
        np.testing.assert_array_equal(found, pack(x.astype(np.float32) @ b.astype(np.float32) > 0).words)
    assert len(tensor_cores) == 4  # the stack, and each of its matrices


def reachable(a):
    """Compute the closure by squaring on the host."""
    found = a | np.eye(len(a), dtype=bool)
    while True:
        further = found.astype(np.float32) @ found.astype(np.float32) > 0
        if (further == found).all():
            return found
        found = further


@pytest.mark.parametrize("n", [1, 100, 129, 130, 511, 1000, 1024, 1025, 2048, 3001, 4096, 4500])
@pytest.mark.parametrize("degree", [0.6, 1.2])
@pytest.mark.parametrize("method", ["auto", "rkleene", "blocked_floyd_warshall"])
def test_closures(n, degree, method, rng):
    """Closures by squares and by elimination in blocks of squares are right, in place and for A⁺ too."""
    a = np.zeros((n, n), bool)
    count = int(degree * n)
    a[rng.integers(0, n, count), rng.integers(0, n, count)] = True
    expected = reachable(a)
    given = pack(a).to_device()
    np.testing.assert_array_equal(sr.closure(given, "boolean", method=method).to_host().unpack(), expected)
    walks = a.astype(np.float32) @ expected.astype(np.float32) > 0
    plus = sr.closure(given, "boolean", method=method, reflexive=False)
    np.testing.assert_array_equal(plus.to_host().unpack(), walks)
    assert sr.closure(given, "boolean", method=method, out=given) is given
    np.testing.assert_array_equal(given.to_host().unpack(), expected)


@pytest.mark.parametrize("side", [(129, 700), (1000, 513), (4096, 5000)])
@pytest.mark.parametrize("name", ["boolean", "xor_and"])
def test_a_product_in_the_place_of_its_operand(name, side, tensor_cores, rng):
    """If C is B, all of B is read before C is written."""
    (m, n), backend = side, device_backend(CATALOGUE[name], BOOL, "bits")
    plan = make_plan(CATALOGUE[name], BOOL, storage="bits")
    a, b = rng.random((m, m)) < 0.002, rng.random((m, n)) < 0.3
    A, (around, B) = pack(a).to_device().words, embed(pack(b).words, 3, 2)
    assert backend.capabilities.products.can_multiply_in_place(plan, *B.shape)
    backend.multiply(plan, B, A, B)
    counts = a.astype(np.float32) @ b.astype(np.float32)
    product = counts > 0 if name == "boolean" else counts % 2 > 0
    np.testing.assert_array_equal(B.get(), pack(product).words)
    B[...] = 0xA5A5A5A5
    assert bool((around == 0xA5A5A5A5).all())


@pytest.mark.parametrize("first", [0, 512, 2016, 2048])
def test_a_product_with_columns_of_its_result(first, tensor_cores, rng):
    """A product with rows of closed pivots, and A among the columns of C, has the bits of a product with a copy."""
    m, n, k = 3000, 2560, 480  # rows begin at multiples of 16 bytes, so that nothing is copied but from column 2016 on
    pivots = reachable(rng.random((k, k)) < 1.5 / k)
    b, c = rng.random((k, n)) < 0.01, rng.random((m, n)) < 0.003
    b[:, first : first + k] = pivots
    b = pivots.astype(np.float32) @ b.astype(np.float32) > 0
    expected = c | (c[:, first : first + k].astype(np.float32) @ b.astype(np.float32) > 0)
    backend, plan = device_backend(sr.boolean, BOOL, "bits"), make_plan(sr.boolean, BOOL, storage="bits")
    B, C = pack(b).to_device().words, pack(c).to_device().words
    assert backend.capabilities.products.can_overlap(plan, m, C.shape[1], k)
    backend.multiply_add(plan, C, C[:, first // 32 : (first + k) // 32], B)
    np.testing.assert_array_equal(C.get(), pack(expected).words)
    assert not backend.capabilities.products.can_overlap(make_plan(sr.xor_and, BOOL, storage="bits"), m, C.shape[1], k)


def test_a_path_through_all_vertices(rng):
    """The path is as long as possible, in an order unrelated to the blocks, so squares must not stop too early."""
    for n in (129, 257, 1024, 4096):
        order = rng.permutation(n)
        a = np.zeros((n, n), bool)
        a[order[:-1], order[1:]] = True
        place = np.argsort(order)
        found = sr.closure(pack(a).to_device(), "boolean").to_host().unpack()
        np.testing.assert_array_equal(found, place[:, None] <= place[None, :])


def test_rows_that_begin_between_multiples_of_sixteen_bytes(rng):
    """The squares of such rows use copies, one for each round."""
    import cupy

    n = 1000  # rows of 32 words, in memory of 35 words a row
    order = rng.permutation(n)
    a = np.zeros((n, n), bool)
    a[order[:-1], order[1:]] = True
    whole = cupy.zeros((n, 35), np.uint32)
    whole[:, 1:33] = cupy.asarray(pack(a).words)
    A = BitMatrix(whole[:, 1:33], (n, n))
    sr.closure(A, "boolean", out=A)
    place = np.argsort(order)
    np.testing.assert_array_equal(A.to_host().unpack(), place[:, None] <= place[None, :])
    assert not whole[:, 0].any()
    assert not whole[:, 33:].any()


@pytest.mark.parametrize("n", [5000, 20000, 33000])
def test_the_same_bits_every_time(n, rng):
    """Results are bitwise identical by one recorded launch or task by task, in one lane (5000 vertices) or several."""
    tails, heads = rng.integers(0, n, (2, int(1.2 * n)))
    A = BitMatrix.from_edges(tails, heads, (n, n)).to_device()
    first = sr.closure(A, "boolean").words
    for _ in range(50):
        assert bool((sr.closure(A, "boolean").words == first).all())


def test_large_closures_against_searches_from_single_vertices(rng):
    """Breadth-first searches of SciPy give the same 64 rows of a closure of 32768 vertices."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import breadth_first_order

    n = 32768
    tails, heads = rng.integers(0, n, (2, int(1.5 * n)))
    graph = coo_array((np.ones(tails.size, np.int8), (tails, heads)), shape=(n, n)).tocsr()
    graph.data[:] = 1
    import cupy

    words = cupy.zeros((n, n // 32), np.uint32)
    edges = cupy.ElementwiseKernel(
        "int64 tail, int64 head",
        "raw uint32 W",
        f"atomicOr(&W[tail * {n // 32} + head / 32], 1u << head % 32)",
        "edges",
    )
    edges(cupy.asarray(tails), cupy.asarray(heads), words)
    A = BitMatrix(words, (n, n))
    sr.closure(A, "boolean", out=A)
    for vertex in rng.integers(0, n, 64):
        expected = np.zeros(n, bool)
        expected[breadth_first_order(graph, int(vertex), return_predecessors=False)] = True
        found = np.unpackbits(words[int(vertex)].get().view(np.uint8), bitorder="little").astype(bool)
        np.testing.assert_array_equal(found, expected)


def components_of_all_kinds(n, rng):
    """Yield edges (tails, heads) of graphs with the kinds of components that closures distinguish."""
    for degree in (0.8, 1.5, 6):
        tails, heads = rng.integers(0, n, (2, int(degree * n)))
        yield f"{degree} edges a vertex", tails, heads
        yield f"{degree} edges a vertex, no cycle", np.minimum(tails, heads), np.maximum(tails, heads)
    ring = np.arange(n // 4, n - n // 5)
    tails, heads = np.sort(rng.integers(0, n, (2, n)), axis=0)
    yield "a ring in the middle", np.append(tails, ring), np.append(heads, np.roll(ring, 1))


@pytest.mark.parametrize("few_edges", [64, 0], ids=["edges", "sweeps"])
@pytest.mark.parametrize("n", [700, 4500, 9001])
def test_closures_by_components(n, few_edges, monkeypatch, rng):
    """The bits equal those of all n³ pairs in every order of the vertices, in rows that may begin at any word."""
    import cupy

    from semiring.algorithms import triangular

    monkeypatch.setattr(import_module("semiring.algorithms.triangular"), "_LEAST", 1)
    monkeypatch.setattr(triangular, "_FEW", few_edges)
    monkeypatch.setattr(triangular, "_LISTED", 1)
    monkeypatch.setattr(triangular, "_SWEEPS", 1.0)
    for kind, tails, heads in components_of_all_kinds(n, rng):
        for order in (np.arange(n), rng.permutation(n)):
            a = np.zeros((n, n), bool)
            a[order[tails], order[heads]] = True
            given = pack(a).to_device()
            whole = cupy.zeros((n, given.words.shape[1] + 3), np.uint32)
            A = BitMatrix(whole[:, : given.words.shape[1]], (n, n))
            A.words[...] = given.words
            expected = sr.closure(given, "boolean", structure=False)
            sr.closure(A, "boolean", out=A)
            assert bool((A.words == expected.words).all()), kind
            assert not whole[:, given.words.shape[1] :].any(), kind
            plus = sr.closure(given, "boolean", reflexive=False)
            assert plus == sr.closure(given, "boolean", reflexive=False, structure=False), kind


def test_what_a_look_finds_is_told(monkeypatch):
    monkeypatch.setattr(import_module("semiring.algorithms.triangular"), "_LEAST", 1)
    given = pack(np.eye(300, k=1, dtype=bool)).to_device()
    found, why = sr.closure(given, "boolean", explain=True)
    np.testing.assert_array_equal(found.to_host().unpack(), np.triu(np.ones((300, 300), bool)))
    assert "300 vertices, no two of which reach each other, in topological order" in str(why)


def test_edges_in_and_out_on_a_gpu(rng):
    """A GPU converts edges to matrices and back, finds components and reduces an acyclic graph, as the host does."""
    import cupy

    n = 300
    tails, heads = np.sort(rng.integers(0, n, (2, 900)), axis=0)
    tails, heads = tails[tails < heads], heads[tails < heads]
    host = BitMatrix.from_edges(tails, heads, (n, n))
    A = BitMatrix.from_edges(cupy.asarray(tails), cupy.asarray(heads), (n, n))
    assert A.on_device
    assert A.to_host() == host
    for entries in (1, 1 << 24):
        parts = [(x.get(), y.get()) for x, y in A.edges(entries)]
        np.testing.assert_array_equal(np.concatenate([x for x, _ in parts]), np.nonzero(host.unpack())[0])
        np.testing.assert_array_equal(np.concatenate([y for _, y in parts]), np.nonzero(host.unpack())[1])
    assert sr.transitive_reduction(A).to_host() == sr.transitive_reduction(host)
    vertices = np.arange(n)
    expected = sr.condensation(host).reaches(vertices, vertices)
    np.testing.assert_array_equal(sr.condensation(A).reaches(vertices, vertices), expected)
    np.testing.assert_array_equal(sr.closure(host, "boolean").unpack(), expected)
    with pytest.raises(sr.errors.DeviceError, match="the other is not"):
        BitMatrix.from_edges(tails, cupy.asarray(heads), (n, n))


def test_truth_values_of_the_host_are_packed_on_the_way(rng):
    """Only some rows of the bytes are on the GPU at a time, because its memory cannot hold all of them."""
    import cupy

    n = 20000
    edges = rng.integers(0, n, (2, n))
    A = np.zeros((n, n), bool)
    A[edges[0], edges[1]] = True
    expected = sr.closure(pack(A).to_device(), "boolean").to_host()
    pool = cupy.get_default_memory_pool()
    pool.free_all_blocks()
    before = pool.get_limit()
    pool.set_limit(size=pool.total_bytes() + n * n * 3 // 4)  # the bytes would take n², the words take n² / 8
    try:
        found, why = sr.closure(A, "boolean", device="cuda", explain=True)
        in_place = A.copy()
        assert sr.closure(in_place, "boolean", device="cuda", out=in_place) is in_place
    finally:
        pool.set_limit(size=before)
    assert "packed on the way" in str(why)
    np.testing.assert_array_equal(pack(found).words, expected.words)
    np.testing.assert_array_equal(pack(in_place).words, expected.words)


@pytest.mark.parametrize("n", [64, 65, 100, 1000])
def test_few_truth_values_of_the_host(n, rng):
    A = rng.random((n, n)) < 1.2 / n
    np.testing.assert_array_equal(sr.closure(A, "boolean", device="cuda"), reachable(A))
    walks = A.astype(np.float32) @ reachable(A).astype(np.float32) > 0
    np.testing.assert_array_equal(sr.closure(A, "boolean", device="cuda", reflexive=False), walks)


def test_packed_words_of_the_host_go_to_the_gpu_and_back(rng):
    A = rng.random((300, 300)) < 0.01
    for reflexive in (True, False):
        expected = sr.closure(pack(A), "boolean", reflexive=reflexive)
        found = sr.closure(pack(A), "boolean", reflexive=reflexive, device="cuda")
        assert not found.on_device
        assert found == expected
        out = pack(np.zeros_like(A))
        assert sr.closure(pack(A), "boolean", reflexive=reflexive, device="cuda", out=out) is out
        assert out == expected
