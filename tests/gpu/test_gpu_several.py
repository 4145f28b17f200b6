"""Test closures on several GPUs of a host, which have the bits of one GPU wherever the matrix is. Calls on a GPU that
is not the first are tested too, because each GPU loads kernels of its own.
"""

from __future__ import annotations

import numpy as np
import oracles
import pytest
from matrices import matrix
from strips import METHOD, rounding_matrix, same_bits

import semiring as sr
from semiring.distributed import predecessor_rows, several_gpus
from semiring.errors import DivergenceError, DomainError, NegativeCycleError
from semiring.kernels.cuda.entries.entry_passes import copy
from semiring.testing import check_predecessors

pytestmark = pytest.mark.gpu

CASES = [
    *[("min_plus", dtype) for dtype in ("float32", "float64", "int32", "int64", "int16", "float16")],
    *[("max_plus", dtype) for dtype in ("float32", "int32")],
    *[("max_min", dtype) for dtype in ("float32", "float16", "uint8")],
    *[("max_times", "float32"), ("boolean", "bool")],
]


def count() -> int:
    cupy = pytest.importorskip("cupy")
    return cupy.cuda.runtime.getDeviceCount()


@pytest.fixture
def cupy():
    if count() < 2:
        pytest.skip("one GPU is there, and this is about several")
    return pytest.importorskip("cupy")


@pytest.fixture(params=[2, 4])
def several(request, cupy, monkeypatch):
    """Return the names of several GPUs. If fewer exist, each holds several shares, which are copied within it too."""
    names = tuple(f"cuda:{number}" for number in range(min(request.param, count())))
    for module, name in (
        (several_gpus, "method_on_devices"),
        (several_gpus, "close_stack_on_devices"),
        (predecessor_rows, "predecessors_on_devices"),
    ):
        monkeypatch.setattr(module, name, shared_by(getattr(module, name), request.param))
    return names


def shared_by(function, shares):
    """Return the function with the GPUs repeated until ``shares`` of them are named."""
    return lambda numbers, *more, **options: function((numbers * shares)[:shares], *more, **options)


def one(A, name="min_plus"):
    return sr.closure(A, name, method=METHOD, device="cuda")


def to_host(x):
    return x.get() if hasattr(x, "get") else np.asarray(x)


# Every launch of the first GPU is prepared before the same one of the second.


@pytest.mark.parametrize("dtype", ["uint8", "float16", "float32", "float64"])
def test_second_gpu_copies(rng, cupy, dtype):
    A = rng.integers(0, 100, (64, 256)).astype(dtype)
    for number in (0, 1, 0):
        with cupy.cuda.Device(number):
            given, out = cupy.asarray(A), cupy.zeros(A.shape, dtype)
            copy(given, out)
            assert same_bits(out.get(), A)
            copy(given[:, ::2], out[:, 1::2])
            assert same_bits(out.get()[:, 1::2], A[:, ::2])


@pytest.mark.parametrize("name", ["min_plus", "plus_times", "max_min", "log_plus", "boolean"])
def test_second_gpu_multiplies(rng, cupy, name):
    A = matrix(rng, 700, name, "bool" if name == "boolean" else "float32")
    found = []
    for number in (0, 1, 0):
        with cupy.cuda.Device(number):
            found.append(sr.matmul(cupy.asarray(A), cupy.asarray(A), name).get())
    assert same_bits(found[1], found[0])
    with cupy.cuda.Device(1):
        given = cupy.asarray(A)
    outside = sr.matmul(given, given, name)  # GPU 0 is current, but the operands are on GPU 1
    assert outside.device.id == 1
    assert same_bits(outside.get(), found[0])
    assert cupy.cuda.runtime.getDevice() == 0


@pytest.mark.parametrize("method", ["auto", "rkleene", METHOD, "staged"])
@pytest.mark.parametrize(("name", "dtype"), CASES)
def test_second_gpu_closes(rng, cupy, name, dtype, method):
    for n in (65, 300, 1100):
        A, found = rounding_matrix(rng, n, name, dtype), []
        for number in (0, 1, 0):
            with cupy.cuda.Device(number):
                found.append(sr.closure(cupy.asarray(A), name, method=method).get())
        assert same_bits(found[1], found[0])
        assert same_bits(found[2], found[0])
        assert same_bits(sr.closure(A, name, method=method, device="cuda:1"), found[0])


def test_second_gpu_finds_paths_and_closes_stacks(rng, cupy):
    A = np.where(rng.random((300, 300)) < 0.1, rng.integers(1, 99, (300, 300)), np.inf).astype(np.float32)
    stack = rng.random((9, 70, 70), dtype=np.float32)
    for number in (0, 1):
        with cupy.cuda.Device(number):
            paths = sr.shortest_paths(cupy.asarray(A))
            check_predecessors(A, paths.matrix.get(), cupy.asnumpy(paths.predecessors))
            found = sr.closure(cupy.asarray(stack))
            assert found.device.id == number
            assert same_bits(found.get(), sr.closure(stack))
            signed = sr.closure(cupy.asarray(-A), "max_plus")
            np.testing.assert_array_equal(signed.get(), sr.closure(-A, "max_plus"))


@pytest.mark.parametrize(("name", "dtype"), CASES)
def test_several_gpus_have_the_bits_of_one(rng, several, name, dtype):
    for n in (1, 200, 257, 1000, 1537, 2049):
        A = rounding_matrix(rng, n, name, dtype)
        expected = one(A, name)
        assert same_bits(sr.closure(A, name, device=several), expected)
        assert same_bits(sr.closure(A, name, device=several[::-1], method=METHOD), expected)


def test_several_gpus_are_named(rng, several):
    A = rounding_matrix(rng, 300, "min_plus", "float32")
    _, why = sr.closure(A, device=several, explain=True)
    assert f"on the GPUs {', '.join(several)}" in str(why)


@pytest.mark.parametrize("where", ["host", "device"])
def test_several_gpus_close_float16_as_the_host_does(rng, cupy, several, where):
    for n in (40, 600, 1100):
        A = rounding_matrix(rng, n, "min_plus", "float16")
        given = A if where == "host" else cupy.asarray(A)
        expected = to_host(sr.closure(cupy.asarray(A.astype(np.float32)), method=METHOD)).astype(np.float16)
        assert same_bits(to_host(sr.closure(given, device=several)), expected)
        fast = to_host(sr.closure(given, device=several, compute_dtype="float16"))
        assert same_bits(fast, to_host(sr.closure(cupy.asarray(A), method=METHOD, compute_dtype="float16")))
        np.testing.assert_allclose(fast, expected, rtol=n * 2.0**-11)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
def test_several_gpus_close_wide_blocks_of_pivots(rng, several, dtype):
    for n in (4096, 7400):
        A = rounding_matrix(rng, n, "min_plus", dtype)
        assert same_bits(sr.closure(A, device=several), one(A))


@pytest.mark.parametrize("name", ["plus_times", "log_plus"])
def test_several_gpus_add_up_but_for_rounding(rng, several, name):
    A = rounding_matrix(rng, 1000, name, "float64")
    np.testing.assert_allclose(sr.closure(A, name, device=several), one(A, name), rtol=1e-12)


@pytest.mark.parametrize("dtype", ["float32", "int32"])
@pytest.mark.parametrize("name", ["min_plus", "max_plus"])
def test_several_gpus_take_both_signs(rng, several, name, dtype):
    h = rng.integers(0, 500, 1000)
    A = (rng.integers(0, 1000, (1000, 1000)) + h[:, None] - h).astype(dtype)
    A[rng.random(A.shape) < 0.4] = sr.min_plus.zero_for(A.dtype)
    if name == "max_plus":
        edges = sr.min_plus.zero_for(A.dtype) != A
        A = np.where(edges, -A, sr.max_plus.zero_for(A.dtype)).astype(dtype)
    assert same_bits(sr.closure(A, name, device=several), sr.closure(A, name))


def test_several_gpus_take_arrays_of_any_gpu(rng, cupy, several):
    A = rounding_matrix(rng, 1537, "min_plus", "float32")
    expected = one(A)
    for number in range(len(several)):
        with cupy.cuda.Device(number):
            given = cupy.asarray(A)
            cut = cupy.full((1540, 1543), 7, np.float32)
            cut[2:1539, 3:1540] = given
        for where in {0, number}:  # the current one
            with cupy.cuda.Device(where):
                found = sr.closure(given, device=several)
                assert found.device.id == number
                assert same_bits(found.get(), expected)
                assert same_bits(sr.closure(cut[2:1539, 3:1540], device=several).get(), expected)
                assert cupy.cuda.runtime.getDevice() == where
        assert same_bits(given.get(), A)
        assert sr.closure(given, out=given, device=several) is given
        assert same_bits(given.get(), expected)
    every = sr.closure(A, device="cuda:*")
    assert same_bits(every, expected)


def test_several_gpus_take_packed_bits(rng, cupy, several):
    for n in (1000, 9000):  # the second in two blocks of pivots
        T = matrix(rng, n, "boolean", "bool", density=2 / n)
        expected = to_host(sr.closure(cupy.asarray(T), "boolean"))
        assert same_bits(sr.closure(sr.pack(T), "boolean", device=several).unpack(), expected)
        assert same_bits(sr.closure(cupy.asarray(T), "boolean", device=several).get(), expected)
        assert same_bits(to_host(sr.closure(sr.pack(cupy.asarray(T)), "boolean", device=several).unpack()), expected)


def test_several_gpus_find_predecessors(rng, cupy, several):
    for n, density in ((1000, 0.02), (1300, 1.0)):
        A = np.where(rng.random((n, n)) < density, rng.integers(1, 999, (n, n)), np.inf).astype(np.float32)
        for given in (A, cupy.asarray(A)):
            paths = sr.shortest_paths(given, device=several)
            assert same_bits(to_host(paths.matrix), to_host(sr.closure(A)))
            check_predecessors(A, to_host(paths.matrix), to_host(paths.predecessors))


@pytest.mark.parametrize("height", [1, 100, 5000])
@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        ("min_plus", "float32"),
        ("min_plus", "float64"),
        ("min_plus", "int32"),
        ("max_min", "float32"),
        ("max_times", "float32"),
    ],
)
def test_several_gpus_search_rows_of_the_host(rng, several, monkeypatch, name, dtype, height):
    """The trees are those of one GPU, whatever the height of a strip; many ties and few edges are tried too."""
    found, search = [], predecessor_rows.predecessors_on_devices  # shared out by the fixture

    def recorded(*arguments):
        found.append(search(*arguments))
        return found[-1]

    monkeypatch.setattr(predecessor_rows, "_LEAST_ROWS", 1)
    monkeypatch.setattr(predecessor_rows, "_STRIP_BYTES", height * 700 * 8)
    monkeypatch.setattr(predecessor_rows, "predecessors_on_devices", recorded)
    values = rng.integers(1, 10**6, (700, 700)) if dtype == "int32" else 1 - rng.random((700, 700))
    ties = values // 250_000 if dtype == "int32" else np.rint(4 * values) / 8
    for weights, density in ((values, 1.0), (values, 0.01), (ties, 0.02)):
        zero = sr.CATALOGUE[name].zero_for(np.dtype(dtype))
        A = np.where(rng.random((700, 700)) < density, weights, zero).astype(dtype)
        paths = sr.best_paths(A, name, device=several, structure=False, method=METHOD)
        assert found[-1] is not None
        alone = sr.best_paths(A, name, device="cuda", structure=False, method=METHOD)
        assert same_bits(paths.matrix, to_host(alone.matrix))
        assert same_bits(paths.predecessors, to_host(alone.predecessors))


def test_several_gpus_leave_rows_to_the_host(rng, several, monkeypatch):
    """Weights of both signs, and many direct edges, are searched by the host."""
    monkeypatch.setattr(predecessor_rows, "_LEAST_ROWS", 1)
    potentials = rng.integers(0, 50, 300)
    signed = (rng.integers(1, 9, (300, 300)) + potentials[:, None] - potentials).astype(np.float32)
    for A in (signed, 1 + rng.random((300, 300), dtype=np.float32)):
        paths = sr.shortest_paths(A, device=several)
        check_predecessors(A, paths.matrix, paths.predecessors)


def test_several_gpus_share_out_stacks(rng, cupy, several):
    for name, dtype in (("min_plus", "float32"), ("max_plus", "int32"), ("boolean", "bool")):
        stack = np.stack([rounding_matrix(rng, 130, name, dtype) for _ in range(7)])
        if dtype == "float32":  # whole numbers, which no order rounds: how many are closed together decides it
            stack = np.rint(1000 * stack)
        expected = np.stack([to_host(sr.closure(cupy.asarray(A), name)) for A in stack])
        assert same_bits(sr.closure(stack, name, device=several), expected)
        with cupy.cuda.Device(1):
            given = cupy.asarray(stack.reshape(7, 1, 130, 130))
        found = sr.closure(given, name, device=several)
        assert found.device.id == 1
        assert same_bits(found.get()[:, 0], expected)


def test_several_gpus_tell_what_is_wrong(rng, cupy, several):
    A = np.zeros((1000, 1000), np.float32)
    A[650, 660] = A[660, 650] = 2.0
    for given in (A, cupy.asarray(A)):
        with pytest.raises(DivergenceError, match=r"vertex 6[56]0"):
            sr.closure(given, "max_times", device=several)
    A = rng.random((1000, 1000), dtype=np.float32)
    A[7, 9], A[9, 7] = 0.25, -0.5
    for given in (A, cupy.asarray(A)):
        with pytest.raises(NegativeCycleError) as caught:
            sr.closure(given, device=several)
        assert oracles.cycle_weight(A, list(caught.value.cycle)) < 0
    A[3, 4] = np.nan
    with pytest.raises(DomainError, match=r"A\[3, 4\]"):
        sr.closure(cupy.asarray(A), device=several)
    assert same_bits(sr.closure(np.empty((0, 0)), device=several), np.empty((0, 0)))
