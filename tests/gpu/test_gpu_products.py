"""Test GPU products beyond the contract's suite: stacks, parts of k, streams, bfloat16, the cache on disk."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

import numpy as np
import oracles
import pytest
from operands import bind, entries, pack_words, to_caller_form, to_kernel_form, unpack_words

from semiring.kernels.engine import make_plan

pytestmark = pytest.mark.gpu

DTYPES = {
    "min_plus": ("float32", "int32", "int16", "float16"),
    "max_min": ("float32", "uint8"),
    "plus_times": ("float64",),
    "boolean": ("bool",),
    "xor_and": ("uint8",),
}
CASES = [(name, dtype) for name, dtypes in DTYPES.items() for dtype in dtypes]


@pytest.fixture
def backend():
    from semiring.kernels.cuda import CudaBackend

    return CudaBackend()


def on_device(*arrays):
    import cupy

    return [cupy.asarray(array) for array in arrays]


@pytest.mark.parametrize(("name", "dtype"), CASES)
def test_stacks(backend, name, dtype, rng):
    """Each matrix of a stack is multiplied as if alone, and a stride of 0 repeats one."""
    import cupy

    engine = bind(backend, name, dtype)
    for m, k, n in ((1, 1, 1), (7, 65, 66), (64, 64, 64), (70, 33, 130)):
        A, B, C = (entries(rng, name, dtype, (3, *shape)) for shape in ((m, k), (k, n), (m, n)))
        for repeat_a, repeat_b in ((False, False), (True, False), (False, True)):
            A_, B_ = (np.broadcast_to(x[:1], x.shape) if r else x for x, r in ((A, repeat_a), (B, repeat_b)))
            a, b, c = on_device(to_kernel_form(A, name), to_kernel_form(B, name), to_kernel_form(C, name))
            a, b = (cupy.broadcast_to(x[:1], x.shape) if r else x for x, r in ((a, repeat_a), (b, repeat_b)))
            product = cupy.empty_like(c)
            engine.multiply(product, a, b)
            engine.multiply_add(c, a, b)
            for i in range(3):
                expected = oracles.product(A_[i], B_[i], name), oracles.product(A_[i], B_[i], name, C[i])
                np.testing.assert_array_equal(to_caller_form(product[i].get(), name), expected[0])
                np.testing.assert_array_equal(to_caller_form(c[i].get(), name), expected[1])


def test_stacks_of_other_layouts(backend, rng):
    import cupy

    engine = bind(backend, "min_plus", "float32")
    A, B = rng.integers(0, 50, (5, 33, 40)).astype(np.float32), rng.integers(0, 50, (5, 40, 36)).astype(np.float32)
    expected = (A[:, :, :, None] + B[:, None]).min(axis=2)
    a, b = on_device(A, B)
    for order in ((0, 1, 2), (0, 2, 1), (1, 0, 2), (2, 1, 0)):
        back = np.argsort(order)
        a_, b_ = (cupy.ascontiguousarray(x.transpose(order)).transpose(*back) for x in (a, b))
        c_ = cupy.empty([expected.shape[axis] for axis in order], np.float32).transpose(*back)
        for left, right in ((a_, b), (a, b_), (a_[:, ::-1], b_)):
            engine.multiply(c_, left, right)
            found = c_.get()[:, ::-1] if left.strides[1] < 0 else c_.get()
            np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    ("name", "dtype"), [*CASES, ("plus_times", "float32"), ("min_plus", "int64"), ("lukasiewicz", "float32")]
)
def test_split_k(backend, name, dtype, rng):
    """A thin C with a long k is computed in parts, joined in their order, with identical bits every time."""
    import cupy

    engine = bind(backend, name, dtype)
    for m, k, n in ((64, 4000, 70), (3, 1300, 2), (1, 5000, 300)):
        A, B, C = (entries(rng, name, dtype, shape) for shape in ((m, k), (k, n), (m, n)))
        a, b, c = on_device(to_kernel_form(A, name), to_kernel_form(B, name), to_kernel_form(C, name))
        results = []
        for _ in range(3):
            product, total = cupy.empty_like(c), c.copy()
            engine.multiply(product, a, b)
            engine.multiply_add(total, a, b)
            results.append((product.get(), total.get()))
        np.testing.assert_array_equal(to_caller_form(results[0][0], name), oracles.product(A, B, name))
        np.testing.assert_array_equal(to_caller_form(results[0][1], name), oracles.product(A, B, name, C))
        assert len({tuple(array.tobytes() for array in pair) for pair in results}) == 1


def test_the_current_stream(backend, rng):
    """Products, copies and workspaces are on the current stream."""
    import cupy

    stream = cupy.cuda.Stream(non_blocking=True)
    for name, dtype, shape in (("max_min", "float32", (300, 300, 300)), ("min_plus", "float32", (5, 3000, 7))):
        m, k, n = shape
        A, B = entries(rng, name, dtype, (m, k)), entries(rng, name, dtype, (k, n))
        a, b = on_device(A, B)
        c = cupy.empty((m, n), dtype)
        cupy.cuda.Device().synchronize()
        with stream:
            backend.multiply(make_plan(name_of(name), dtype), c, a, b)
        stream.synchronize()
        np.testing.assert_array_equal(c.get(), oracles.product(A, B, name))


def test_a_thread_that_has_touched_no_gpu(backend, rng):
    """Such a thread loads kernels before any function of CUDA has run in it."""
    import cupy

    from semiring.kernels.cuda.product import launches
    from semiring.kernels.cuda.product import product_routes as products

    A = rng.integers(0, 50, (33, 33)).astype(np.float32)
    (a,) = on_device(A)
    c, failures = cupy.empty_like(a), []
    launches.load_kernel.cache_clear()
    products._routes.cache_clear()

    def work():
        try:
            backend.multiply(make_plan(name_of("min_plus"), "float32"), c, a, a)
        except RuntimeError as error:
            failures.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert not failures
    np.testing.assert_array_equal(c.get(), oracles.product(A, A, "min_plus"))


@pytest.fixture
def short_sides(monkeypatch):
    """Limit the sides of a launch to 64."""
    from semiring.kernels.cuda.product import product_routes as products

    monkeypatch.setattr(products, "LARGEST", 64)
    products._routes.cache_clear()
    yield
    products._routes.cache_clear()


@pytest.mark.parametrize(
    ("name", "dtype"),
    [("min_plus", "float32"), ("min_plus", "float16"), ("max_min", "uint8"), ("boolean", "bool"), ("xor_and", "int32")],
)
def test_sides_beyond_one_launch(backend, short_sides, name, dtype, rng):
    import cupy

    engine = bind(backend, name, dtype)
    for m, k, n in ((65, 3, 130), (3, 200, 2), (70, 129, 66)):
        A, B, C = (entries(rng, name, dtype, shape) for shape in ((m, k), (k, n), (m, n)))
        a, b, c = on_device(to_kernel_form(A, name), to_kernel_form(B, name), to_kernel_form(C, name))
        product = cupy.empty_like(c)
        engine.multiply(product, a, b)
        engine.multiply_add(c, a, b)
        np.testing.assert_array_equal(to_caller_form(product.get(), name), oracles.product(A, B, name))
        np.testing.assert_array_equal(to_caller_form(c.get(), name), oracles.product(A, B, name, C))
    if name == "boolean":
        engine = bind(backend, name, dtype, storage="bits")
        words = cupy.empty((m, -(-n // 32)), np.uint32)
        engine.multiply(words, *on_device(pack_words(A), pack_words(B)))
        np.testing.assert_array_equal(unpack_words(words.get(), n), oracles.product(A, B, name))
    if name == "min_plus":
        C, W = on_device(np.full((m, n), np.inf, dtype), np.full((m, n), -1, np.int64))
        engine.multiply_add_witness(C, W, a, b, 5)
        expected = np.where(oracles.product(A, B, name) == np.inf, -1, 5 + oracles.witness(A, B, name))
        np.testing.assert_array_equal(W.get(), expected)


#: Semiring and dtype, whether no sign bit is set, and the tile that a large product of it takes.
LARGE = [
    *(("min_plus", "float32", nonnegative, "_LARGE") for nonnegative in (False, True)),
    *(("min_plus", "int32", False, "_LARGE"), ("max_min", "float32", False, "_LARGE")),
    *(("min_plus", "float16", False, "_LARGE"), ("max_times", "float32", False, "_LARGE")),
    *(("min_plus", "int16", False, "_PACKED"), ("max_min", "uint8", False, "_PACKED")),
    *(("boolean", "bool", False, "_PACKED"), ("lukasiewicz", "float32", False, "_LONG")),
]


@pytest.mark.parametrize(("name", "dtype", "nonnegative", "tile"), LARGE)
def test_the_tiles_of_large_products(backend, name, dtype, nonnegative, tile, monkeypatch, rng):
    """The large tiles begin at some thousand rows. Here they compute matrices a little larger than one or two tiles."""
    from semiring.kernels.cuda.product import launches, tiles
    from semiring.kernels.cuda.product import product_routes as products
    from semiring.kernels.cuda.product.launches import load_kernel

    monkeypatch.setattr(tiles, "_MANY_LARGE", 0)
    monkeypatch.setattr(tiles, "_MANY_OTHERS", 0)
    monkeypatch.setattr(tiles, "_MANY_PACKED", 0)
    chosen = []

    def load(what, tile, device):
        chosen.append(tile)
        return load_kernel(what, tile, device)

    monkeypatch.setattr(launches, "load_kernel", load)
    products._routes.cache_clear()
    engine = bind(backend, name, dtype, nonnegative=nonnegative, separate=np.dtype(dtype).kind == "i")
    words = {"float16": 2, "int16": 2, "uint8": 2, "bool": 32}.get(dtype, 1)
    for m, k, n in ((65, 33, 129), (130, 64, 256)):  # two layouts: by words and by 16 bytes
        A, B, C = (
            entries(rng, name, dtype, shape, tame=nonnegative) for shape in ((m, k), (k, n * words), (m, n * words))
        )
        a, b, c = on_device(to_kernel_form(A, name), to_kernel_form(B, name), to_kernel_form(C, name))
        engine.multiply_add(c, a, b)
        np.testing.assert_array_equal(to_caller_form(c.get(), name), oracles.product(A, B, name, C))
    products._routes.cache_clear()
    assert set(chosen) == {getattr(tiles, tile)}


def test_more_than_two_to_the_31_elements(backend):
    """A, B and C may have more than 2³¹ elements, which are right at both ends, and a scan reads more than 2³²."""
    import cupy

    from semiring.arrays.entries import check_entries

    m, n = 46_500, 46_400
    engine, some = bind(backend, "min_plus", "float32"), [0, 1, m // 2, m - 2, m - 1]
    random = cupy.random.default_rng(0).random
    wide = random((m, n), dtype=np.float32)
    assert wide.size > 2**31
    thin, across = random((n, 3), dtype=np.float32), random((3, m), dtype=np.float32)
    c, d = cupy.empty((m, 3), np.float32), cupy.empty((3, n), np.float32)
    engine.multiply(c, wide, thin)
    np.testing.assert_array_equal(c[some].get(), (wide[some][:, :, None] + thin).min(axis=1).get())
    engine.multiply(d, across, wide)
    np.testing.assert_array_equal(d[:, -1].get(), (across + wide[:, -1]).min(axis=1).get())
    engine.multiply(c, wide[::-1, 1:], thin[1:])  # by single words, backwards
    np.testing.assert_array_equal(c[some].get(), (wide[::-1][some][:, 1:, None] + thin[1:]).min(axis=1).get())
    expected = cupy.minimum(wide[some], (c[some][:, :, None] + d).min(axis=1))
    engine.multiply_add(wide, c, d)
    np.testing.assert_array_equal(wide[some].get(), expected.get())
    del wide
    numbers = cupy.ones((65_537, 65_537), np.int16)
    numbers[-1, -1] = numbers[-1, -2] = -3
    for view in (numbers, numbers[1:, :-1]):
        assert view.size >= 2**32
        assert check_entries(view, engine.plan.semiring).low == -3
        assert check_entries(view[:-1], engine.plan.semiring).low == 1


def name_of(name):
    from semiring import CATALOGUE

    return CATALOGUE[name]


@pytest.mark.parametrize("name", ["min_plus", "max_plus", "max_min", "max_times", "lukasiewicz"])
def test_bfloat16(backend, name, rng):
    """Arrays of bfloat16, and 16-bit integers that hold its bits, agree with the reference on the same dtype."""
    import cupy

    ml_dtypes = pytest.importorskip("ml_dtypes")
    from semiring.kernels.reference import ReferenceBackend

    dtype = np.dtype(ml_dtypes.bfloat16)
    plan = make_plan(name_of(name), dtype)
    for m, k, n in ((3, 5, 7), (65, 130, 66), (64, 64, 64)):
        A, B, C = (rng.integers(0, 9, shape).astype(np.float32) / 8 for shape in ((m, k), (k, n), (m, n)))
        A, B, C = (array.astype(dtype) for array in (A, B, C))
        expected, total = np.empty_like(C), C.copy()
        ReferenceBackend().multiply(plan, expected, A, B)
        ReferenceBackend().multiply_add(plan, total, A, B)
        for layout in (lambda x: x, lambda x: np.asfortranarray(x)):
            a, b, c = (cupy.asarray(layout(array).view(np.int16)) for array in (A, B, C))
            product = cupy.empty_like(c)
            backend.multiply(plan, product, a, b)
            np.testing.assert_array_equal(product.get().view(dtype), expected)
            backend.multiply_add(plan, c, a, b)
            np.testing.assert_array_equal(c.get().view(dtype), total)
        a, b, c, w = (
            cupy.asarray(x) for x in (A.view(np.int16), B.view(np.int16), C.view(np.int16), np.full((m, n), -1))
        )
        backend.multiply_add_witness(plan, c, w, a, b, 0)
        np.testing.assert_array_equal(c.get().view(dtype), total)
        better = total != C
        assert (w.get()[~better] == -1).all()
        rows, columns = np.nonzero(better)
        attained = plan.semiring.mul.expression.evaluate(
            {"x": A[rows, w.get()[better]], "y": B[w.get()[better], columns]}, dtype
        )
        np.testing.assert_array_equal(attained, total[better])
    c = cupy.zeros((2, 2), np.int16)
    backend.multiply(plan, c, c[:, :0], c[:0])
    assert (c.get().view(dtype) == plan.zero).all()


PRODUCT = """
import sys
import cupy
import numpy as np
from semiring import min_plus
from semiring.kernels.cuda import CudaBackend
from semiring.kernels.engine import make_plan

A = cupy.asarray([[0, 5], [1, 2]], np.float32)
C = cupy.empty_like(A)
CudaBackend().multiply(make_plan(min_plus, "float32"), C, A, A)
assert C.get().tolist() == [[0, 5], [1, 4]], C
print("cutlass.cute" in sys.modules)
"""


def test_kernels_are_kept_on_disk(tmp_path):
    """A second process compiles nothing. A damaged entry is a miss, and several processes may fill the cache at
    once."""

    def start():
        environment = os.environ | {"SEMIRING_CACHE_DIR": str(tmp_path)}
        return subprocess.Popen([sys.executable, "-c", PRODUCT], env=environment, stdout=subprocess.PIPE, text=True)

    def compiles(*processes):
        outputs = [process.communicate(timeout=120)[0].strip() for process in processes]
        assert all(process.returncode == 0 for process in processes)
        return [output == "True" for output in outputs]

    assert compiles(start(), start()) == [True, True]
    (entry,) = tmp_path.glob("*.kernel")
    assert compiles(start()) == [False]
    entry.write_bytes(entry.read_bytes()[:-7])
    assert compiles(start()) == [True]
    assert compiles(start()) == [False]
    assert not list(tmp_path.glob("*.part"))
