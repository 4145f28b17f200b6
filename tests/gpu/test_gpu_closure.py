"""Test closures and paths on a GPU: every method, semiring, dtype and awkward size, against the CPU and repeated."""

from __future__ import annotations

import itertools
import threading

import numpy as np
import oracles
import pytest
from devices import assert_same
from matrices import CASES, matrix
from scipy import sparse
from trees import check

import semiring as sr
from semiring.algorithms.blocked_floyd_warshall import blocked_floyd_warshall
from semiring.closures import closure
from semiring.errors import (
    DeviceError,
    DivergenceError,
    DomainError,
    DTypeError,
    IntegerOverflowError,
    NegativeCycleError,
    NoPathError,
)
from semiring.kernels import get_backend
from semiring.kernels.engine import Engine, make_plan
from semiring.testing import check_predecessors, grid_graph

pytestmark = pytest.mark.gpu

SIZES = [0, 1, 2, 3, 63, 64, 65, 127, 128, 129, 257]
METHODS = ["auto", "rkleene", "blocked_floyd_warshall", "staged", "squaring"]


@pytest.mark.filterwarnings("ignore::semiring.errors.SuspiciousWeightsWarning")
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(("name", "dtype"), CASES)
def test_every_method_semiring_dtype_and_size(rng, cupy, name, dtype, method):
    for n in SIZES:
        A = matrix(rng, n, name, dtype, density=min(1, 4 / max(n, 1)))
        given = cupy.asarray(A)
        for reflexive in (True, False):
            assert_same(closure(given, name, method=method, reflexive=reflexive), closure(A, name, reflexive=reflexive))
        assert_same(given, A)


@pytest.mark.parametrize("method", ["rkleene", "blocked_floyd_warshall", "floyd_warshall"])
@pytest.mark.parametrize("name", ["plus_times", "log_plus", "xor_and"])
def test_sums_that_are_not_idempotent(rng, cupy, name, method):
    for n in (1, 65, 130, 300):
        dtype = "int32" if name == "xor_and" else "float64"
        A = rng.random((n, n)) / (2 * n) if name == "plus_times" else -3.0 - np.log(n) + rng.random((n, n))
        if name == "xor_and":
            A = np.triu(rng.integers(0, 1 << 20, (n, n)), 1)
        A = A.astype(dtype)
        for reflexive in (True, False):
            result = closure(cupy.asarray(A), name, method=method, reflexive=reflexive).get()
            np.testing.assert_allclose(result, closure(A, name, reflexive=reflexive), rtol=1e-11)


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_counts_of_paths_in_integers(rng, cupy, dtype):
    """Weights of both signs, against sums of powers in Python's integers; cycles and long sums are refused."""
    for n in (1, 20, 70, 129):
        order = rng.permutation(n)
        A = np.triu(rng.integers(-3, 4, (n, n)) * (rng.random((n, n)) < 3 / n), 1)[np.ix_(order, order)].astype(dtype)
        total = power = np.eye(n, dtype=object)
        while power.any():
            power = power.dot(A.astype(object))
            total = total + power
        assert_same(closure(cupy.asarray(A), "plus_times"), total.astype(dtype))
        assert_same(sr.factor(A, "plus_times", device="cuda").closure(), total.astype(dtype))
    assert_same(closure(cupy.asarray(np.stack([A, A.T])), "plus_times"), np.stack([total, total.T]).astype(dtype))
    ones = np.triu(np.ones((65, 65), dtype), 1)  # 2⁶³ paths from the first vertex to the last
    with pytest.raises(IntegerOverflowError, match=f"and {dtype} ends at"):
        closure(cupy.asarray(ones), "plus_times")
    ones[64, 0] = 1
    with pytest.raises(DTypeError, match="A has a cycle"):
        closure(cupy.asarray(ones), "plus_times")


def test_a_semiring_of_the_users_own(rng, cupy):
    own = sr.Semiring("own", add="max(x, y)", mul="max(0, x + y - 1)", zero=0, one=1, domain=(0, 1))
    A = np.where(rng.random((140, 140)) < 0.05, rng.integers(56, 64, (140, 140)) / 64, 0).astype(np.float32)
    for method in METHODS[:4]:
        assert_same(closure(cupy.asarray(A), own, method=method), closure(A, own, method="floyd_warshall"))


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64"])
@pytest.mark.parametrize("name", ["min_plus", "max_plus"])
def test_mixed_signs_go_through_potentials(rng, cupy, name, dtype):
    sign = 1 if name == "min_plus" else -1
    for n in (3, 65, 300, 700):
        heights = rng.integers(0, 1000, n)
        weights = sign * (heights[None, :] - heights[:, None] + rng.integers(0, 3, (n, n)))
        A = np.full((n, n), oracles.zero(name, np.dtype(dtype)), dtype)
        edges = rng.random((n, n)) < 4 / n
        A[edges] = weights[edges].astype(dtype)
        for method in METHODS[:4]:
            assert_same(closure(cupy.asarray(A), name, method=method), closure(A, name))
        assert_same(closure(cupy.asarray(A), name, reflexive=False), closure(A, name, reflexive=False))


def test_heights_in_float32_stay_near_the_truth(rng, cupy):
    n = 200
    heights = rng.random(n) * 100
    A = np.where(rng.random((n, n)) < 0.05, heights[None, :] - heights[:, None], np.inf)
    exact, found = closure(A), closure(cupy.asarray(A.astype(np.float32))).get()
    finite = np.isfinite(exact)
    np.testing.assert_array_equal(finite, np.isfinite(found))
    assert np.abs(exact - found)[finite].max() < 1e-3


def test_a_negative_cycle_is_named_and_the_matrix_untouched(rng, cupy):
    for n in (50, 400):
        A = np.where(rng.random((n, n)) < 10 / n, rng.integers(5, 9, (n, n)), np.inf).astype(np.float32)
        A[7, n - 3], A[n - 3, 7] = 3.0, -4.0
        work = cupy.asarray(A)
        with pytest.raises(NegativeCycleError) as caught:
            closure(work, out=work)
        assert oracles.cycle_weight(A, list(caught.value.cycle)) < 0
        assert_same(work, A)


def test_divergence_and_nan(cupy):
    A = np.zeros((300, 300), np.float32)
    A[150, 160] = A[160, 150] = 2.0
    for method in ("auto", "rkleene", "blocked_floyd_warshall", "staged", "squaring"):
        with pytest.raises(DivergenceError, match=r"vertex 1[56]0"):
            closure(cupy.asarray(A), "max_times", method=method)
    A[3, 4] = np.nan
    with pytest.raises(DomainError, match=r"A\[3, 4\]"):
        closure(cupy.asarray(A), "max_times")
    assert_same(closure(cupy.asarray(np.float32([[0.5]])), "max_times", check=False), np.float32([[1]]))
    below = np.ones((70, 70), np.float32)
    below[30, 40] = -0.25
    assert np.isnan(closure(cupy.asarray(below), check=False).get()).all()
    assert np.isnan(closure(cupy.asarray(-below), "max_plus", check=False).get()).all()
    stack = np.ones((5, 70, 70), np.float32)
    stack[3] = below
    assert np.isnan(closure(cupy.asarray(stack), check=False).get()).all()
    below[30, 40] = -0.0
    assert_same(closure(cupy.asarray(below), check=False), closure(below))


@pytest.mark.parametrize("name", ["min_plus", "max_min"])
@pytest.mark.parametrize("method", METHODS)
def test_the_same_bits_run_after_run(rng, cupy, name, method):
    n = 4097
    A = cupy.asarray(rng.random((n, n), dtype=np.float32))
    first = closure(A, name, method=method)
    for _ in range(3):
        assert bool((closure(A, name, method=method).view(np.int32) == first.view(np.int32)).all())
    assert bool((closure(A, name, method=method, check=False).view(np.int32) == first.view(np.int32)).all())
    if name == "min_plus":
        assert float((first - closure(A, name)).__abs__().max()) < 1e-5


@pytest.mark.parametrize("method", ["auto", "blocked_floyd_warshall", "staged"])
@pytest.mark.parametrize("n", [193, 1025, 2560])
def test_the_same_bits_run_after_run_in_float64(rng, cupy, n, method):
    A = cupy.asarray(rng.random((n, n)))
    found = [closure(A, method=method, check=check).get() for check in (True, True, False, True)]
    assert len({D.tobytes() for D in found}) == 1
    np.testing.assert_allclose(found[0], closure(A.get()), rtol=1e-12)


@pytest.mark.parametrize(
    ("name", "dtype"), [("plus_times", "float32"), ("plus_times", "float64"), ("log_plus", "float32")]
)
def test_sums_have_the_same_bits_run_after_run(rng, cupy, name, dtype):
    """The second closure of a size, which is recorded, and the third, which is replayed, keep kernels and order."""
    for n in (700, 2600):
        A = rng.random((n, n)) / (2 * n) if name == "plus_times" else -3.0 - np.log(n) + rng.random((n, n))
        A = cupy.asarray(A.astype(dtype))
        for method in ("rkleene", "blocked_floyd_warshall"):
            results = [closure(A, name, method=method).get().tobytes() for _ in range(4)]
            assert len(set(results)) == 1, (n, method)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("name", ["min_plus", "max_plus", "max_min", "max_times", "lukasiewicz"])
def test_half_precision(rng, cupy, name, dtype):
    if dtype == "bfloat16":
        dtype = np.dtype(pytest.importorskip("ml_dtypes").bfloat16)
    for n in (1, 65, 130, 300):
        A = matrix(rng, n, name, "float32", density=min(1, 4 / n)).astype(dtype)
        given, expected = cupy.asarray(A), closure(A, name)
        for method in METHODS:
            assert_same(closure(given, name, method=method), expected)
        for predecessors in (True, False):
            P = sr.best_paths(given, name, predecessors=predecessors)
            assert_same(P.matrix, expected)
            for j in np.flatnonzero(P.reachable[0].get()):
                assert P.path(0, int(j))[-1] == j


@pytest.mark.parametrize("name", ["min_plus", "max_plus", "max_times"])
def test_float16_is_closed_in_float32_and_rounded_once(rng, cupy, name):
    """Every method does so, alone and in a stack, and closes in float16 if the caller requests it."""
    for n in (40, 200, 600, 1100):
        A = rng.random((n, n)) ** 3 * (-1 if name == "max_plus" else 1)
        A[rng.random((n, n)) < 0.5] = sr.as_semiring(name).zero_for(np.dtype(np.float16))
        A = A.astype(np.float16)
        given, wide = cupy.asarray(A), cupy.asarray(A.astype(np.float32))
        for method in ("auto", "staged", "blocked_floyd_warshall"):
            expected = closure(wide, name, method=method).get().astype(np.float16)
            assert_same(closure(given, name, method=method), expected)
            for _ in range(2):
                fast = closure(given, name, method=method, compute_dtype="float16").get()
                np.testing.assert_allclose(fast, expected, rtol=n * 2.0**-11)
        assert_same(closure(given, name, check=False), closure(wide, name).get().astype(np.float16))
        stack = cupy.asarray(np.stack([A, A, A]))
        assert_same(closure(stack, name), closure(stack.astype(np.float32), name).get().astype(np.float16))
        np.testing.assert_allclose(sr.best_paths(given, name).matrix.get(), closure(given, name).get(), rtol=2.0**-10)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_cycles_that_gain_by_the_rounding_of_halves_are_none(rng, cupy, dtype):
    """Such cycles are accepted as on the host, alone and in a stack. A cycle that gains by more is not."""
    dtype = np.dtype(dtype if dtype == "float16" else pytest.importorskip("ml_dtypes").bfloat16)
    for n in (2, 40, 300, 1100):
        heights, sizes = 10 * rng.normal(size=n), rng.random(n) + 0.1
        for name, A in (("min_plus", heights - heights[:, None]), ("max_times", sizes / sizes[:, None])):
            A = A.astype(dtype)
            expected = closure(A, name).astype(np.float32)
            for given in (A, np.stack([A, A, A])):
                found = closure(cupy.asarray(given), name)
                assert found.dtype == dtype
                np.testing.assert_allclose(
                    found.get().astype(np.float32), np.broadcast_to(expected, given.shape), 0.02, 0.75
                )
            A[0, 1] = A[0, 1] - np.float32(1) if name == "min_plus" else A[0, 1] * np.float32(1.1)
            A[1, 0] = -A[0, 1] - np.float32(1) if name == "min_plus" else np.float32(1.1) / A[0, 1]
            with pytest.raises(NegativeCycleError if name == "min_plus" else DivergenceError):
                closure(cupy.asarray(A), name)


@pytest.mark.parametrize(("name", "dtype"), [("min_plus", "float32"), ("max_min", "int32"), ("max_times", "float64")])
def test_the_cycles_of_each_matrix_are_its_own(rng, cupy, name, dtype):
    """A⁺ from A* is recorded at the second call of a kind, and later calls have other loops, layouts and places."""
    for n in (65, 130, 1100):
        for k in range(5):
            A = matrix(rng, n, name, dtype, density=3 / n)
            if k % 2:
                np.fill_diagonal(
                    A, np.where(rng.random(n) < 0.5, np.diag(matrix(rng, n, name, dtype, density=1)), A[0, 1])
                )
            given = cupy.asarray(np.asfortranarray(A) if k == 3 else A)
            out = given if k == 4 else None
            assert_same(closure(given, name, reflexive=False, out=out), closure(A, name, reflexive=False))


CAPTURED = {
    "one block": (100, "min_plus", "float32", {}),
    "staged": (300, "min_plus", "float32", {}),
    "staged, 8 bytes": (300, "min_plus", "float64", {}),
    "staged, 8 bytes, nothing copied": (320, "min_plus", "int64", {}),
    "in tiles of 128": (1800, "max_min", "float32", {"method": "staged"}),
    "blocked": (2600, "min_plus", "float32", {}),
    "rkleene": (700, "max_times", "float32", {"method": "rkleene"}),
    "squaring": (130, "min_plus", "float32", {"method": "squaring"}),
    "integers": (300, "max_plus", "int32", {}),
    "without loops": (300, "min_plus", "float32", {"reflexive": False}),
    "packed bits": (300, "boolean", "bool", {}),
    "a stack": ((4, 257), "min_plus", "float32", {}),
    "a stack, nothing copied": ((4, 192), "max_min", "float32", {}),
    "a stack of truth values": ((4, 200), "boolean", "bool", {}),
}


@pytest.mark.parametrize("case", CAPTURED)
def test_nothing_waits_without_a_check(rng, cupy, case):
    """A closure is captured into a graph, which a wait would break. Launched twice, it computes anew."""
    shape, name, dtype, options = CAPTURED[case]
    count, n = shape if isinstance(shape, tuple) else (1, shape)
    first, second = (
        np.stack([matrix(rng, n, name, dtype, density=min(1, 4 / n)) for _ in range(count)]) for _ in range(2)
    )
    if not isinstance(shape, tuple):
        first, second = first[0], second[0]
    A = cupy.asarray(first)
    expected = [cupy.asnumpy(closure(cupy.asarray(given), name, **options)) for given in (first, second)]
    stream, pool = cupy.cuda.Stream(non_blocking=True), cupy.cuda.MemoryPool()
    cupy.cuda.runtime.deviceSynchronize()
    with stream:
        for _ in range(3):
            assert_same(closure(A, name, check=False, **options), expected[0])
        with cupy.cuda.using_allocator(pool.malloc):
            stream.begin_capture()
            result = closure(A, name, check=False, **options)
            graph = stream.end_capture()
        for given, found in ((first, expected[0]), (second, expected[1])):
            A.set(given)
            graph.launch(stream)
            stream.synchronize()
            assert_same(result, found)


@pytest.mark.parametrize("name", ["min_plus", "max_min", "max_times", "xor_and"])
def test_lanes_side_by_side(rng, cupy, name):
    """Tasks that overtook each other would show in some of many closures of many rounds of small blocks."""
    n, semiring, backend = 1100, sr.as_semiring(name), get_backend("cuda")
    if name == "xor_and":
        order = rng.permutation(n)
        A = np.triu(rng.integers(0, 1 << 20, (n, n)), 1).astype(np.int32)[np.ix_(order, order)]
    else:
        A = matrix(rng, n, name, "float32", density=8 / n)
    expected = closure(A, name)
    for width in (64, 64, 64, 192, 512):
        D = cupy.asarray(A)
        blocked_floyd_warshall(Engine(backend, make_plan(semiring, A.dtype), 8192), D, width=width)
        assert_same(D, expected)


def test_threads_close_side_by_side(rng, cupy):
    """Threads close on streams of their own, and share recordings and kernels."""
    matrices = [
        np.where(rng.random((n, n)) < 6 / n, rng.integers(1, 99, (n, n)), np.inf).astype(np.float32)
        for n in (100, 700, 2600, 2600)
    ]
    expected, wrong = [closure(A) for A in matrices], []

    def work(i):
        with cupy.cuda.Stream(non_blocking=True) as stream:
            A = cupy.asarray(matrices[i])
            for _ in range(4):
                results = [closure(A, check=check) for check in (True, False)]
                stream.synchronize()
                wrong.extend(i for D in results if not np.array_equal(D.get(), expected[i]))

    threads = [threading.Thread(target=work, args=(i,)) for i in range(len(matrices))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_a_second_gpu(rng, cupy):
    """Kernels, their limits, rules and recordings are kept for each device."""
    if cupy.cuda.runtime.getDeviceCount() < 2:
        pytest.skip("one GPU")
    for n in (100, 300, 1900, 2600):
        A = np.where(rng.random((n, n)) < 6 / n, rng.integers(1, 99, (n, n)), np.inf).astype(np.float32)
        expected = closure(A)
        for number in (0, 1, 0, 1):
            with cupy.cuda.Device(number):
                there = cupy.asarray(A)
            found = closure(there)  # device 0 is the current one
            assert found.device.id == number
            assert_same(found, expected)
            P = sr.shortest_paths(there)
            assert P.path(0, 0) == [0]
            assert_same(P.matrix, expected)
            assert_same(sr.matmul(there, there), sr.matmul(A, A))
    with pytest.raises(DeviceError, match="is on GPU 1"):
        sr.matmul(cupy.asarray(A), there)


@pytest.mark.parametrize(
    ("dtype", "n"), [("float32", 1000), ("float32", 2049), ("float32", 3000), ("float64", 1023), ("float64", 2111)]
)
def test_beyond_one_block_in_place(rng, cupy, dtype, n):
    A = np.where(rng.random((n, n)) < 6 / n, rng.integers(1, 99, (n, n)), np.inf).astype(dtype)
    expected = closure(A)
    for method in METHODS[:4]:
        for _ in range(3):  # the second run is recorded, the third replayed
            work = cupy.asarray(A)
            assert closure(work, method=method, out=work) is work
            assert_same(work, expected)


def test_in_place_takes_panels_and_no_second_matrix(rng, cupy):
    n, pool = 6000, cupy.cuda.MemoryPool()
    A = np.where(rng.random((n, n), np.float32) < 6 / n, np.float32(3), np.float32(np.inf))
    expected, work = closure(cupy.asarray(A)).get(), cupy.asarray(A)
    with cupy.cuda.using_allocator(pool.malloc):
        assert closure(work, out=work) is work
    assert_same(work, expected)
    assert pool.total_bytes() <= 6 * n * 512 * 4 < work.nbytes  # what the pool ever had: blocks are of 512


def test_strides_stacks_and_devices(rng, cupy):
    A = matrix(rng, 131, "min_plus", "float32", 0.05)
    expected = closure(A)
    assert_same(closure(cupy.asarray(A.T.copy()).T), expected)
    assert_same(closure(cupy.asarray(np.repeat(A, 2, axis=1))[:, ::2]), expected)
    assert_same(closure(cupy.asarray(A[::-1, ::-1].copy())[::-1, ::-1]), expected)
    strided = cupy.empty((131, 300), np.float32)[:, 7:138]
    assert closure(cupy.asarray(A), out=strided) is strided
    assert_same(strided, expected)
    stack = np.stack([matrix(rng, 37, "min_plus", "float32") for _ in range(7)])
    closed, why = closure(cupy.asarray(stack), explain=True)
    assert_same(closed, closure(stack))
    assert "side by side by one launch" in str(why)
    assert_same(closure(cupy.asarray(stack), reflexive=False), closure(stack, reflexive=False))
    widths = rng.integers(-9, 9, (5, 64, 64)).astype(np.float32)
    assert_same(closure(cupy.asarray(widths), "max_min"), closure(widths, "max_min"))
    moved = closure(A, device="cuda")
    assert type(moved) is np.ndarray
    np.testing.assert_array_equal(moved, expected)
    out = np.empty_like(A)
    assert closure(A, device="cuda", out=out) is out
    np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize("n", [7, 96, 300, 1030])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "float16"])
@pytest.mark.parametrize("shape", [(), (3,)], ids=str)
def test_another_array_is_written(rng, cupy, shape, dtype, n):
    """Any array may be the output, whatever its memory is, and also if it overlaps that of the matrix."""
    A = rng.integers(1, 99, (*shape, n, n)).astype(dtype)
    given = cupy.asarray(A)
    for reflexive in (True, False):
        expected = closure(given, reflexive=reflexive).get()
        memory = cupy.empty((*shape, 2 * n, 2 * n), dtype)
        for out in (cupy.empty_like(given), memory[..., :n, :n], memory[..., :n, 1 : n + 1], memory[..., ::2, ::2]):
            for looks in (True, False):
                out[...] = -1
                assert closure(given, reflexive=reflexive, out=out, check=looks) is out
                assert_same(out, expected)
                assert_same(given, A)
        memory[..., :n, :n] = given
        meets = memory[..., 1 : n + 1, :n]
        assert_same(closure(memory[..., :n, :n], reflexive=reflexive, out=meets), expected)


def test_packed_bits_and_sparse_matrices(rng, cupy):
    truths = rng.random((300, 300)) < 0.005
    for reflexive in (True, False):
        result = closure(sr.pack(cupy.asarray(truths)), "boolean", reflexive=reflexive)
        assert_same(result.unpack(), closure(truths, "boolean", reflexive=reflexive))
    A = matrix(rng, 90, "min_plus", "float32", 0.05)
    edges = sparse.coo_array((A[np.isfinite(A)], np.nonzero(np.isfinite(A))), shape=A.shape)
    np.testing.assert_array_equal(closure(edges, device="cuda"), closure(A))


def test_tensors_of_pytorch(rng):
    torch = pytest.importorskip("torch")
    A = matrix(rng, 65, "min_plus", "float32", 0.1)
    result = closure(torch.asarray(A, device="cuda"))
    assert isinstance(result, torch.Tensor)
    np.testing.assert_array_equal(result.cpu().numpy(), closure(A))
    P = sr.shortest_paths(torch.asarray(A, device="cuda"))
    assert isinstance(P.matrix, torch.Tensor)
    assert isinstance(P.predecessors, torch.Tensor)
    assert P.path(3, 3) == [3]


def test_progress_and_explanation(rng, cupy):
    A, seen = cupy.asarray(rng.random((1500, 1500), dtype=np.float32)), []
    expected = closure(A)
    result = closure(A, progress=lambda done, total: seen.append((done, total)))
    assert bool((result == expected).all())
    assert seen[-1][0] == seen[-1][1]
    assert all(a[0] <= b[0] for a, b in itertools.pairwise(seen))
    with pytest.raises(KeyboardInterrupt):
        closure(A, progress=interrupt)
    A, seen = cupy.asarray(rng.random((2700, 2700), dtype=np.float32)), []
    result = closure(A, progress=lambda done, total: seen.append((done, total)))
    assert bool((result == closure(A)).all())
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)
    assert seen[-1] == (seen[0][1], seen[0][1])
    assert len({done for done, _ in seen}) > 5, "it is told while the work goes on"
    _, why = closure(A, explain=True)
    assert why.backend == "cuda"
    assert "on the GPU" in str(why)


def interrupt(done, total):
    raise KeyboardInterrupt


# ------------------------------------------------------------------------------------------------------------- paths


@pytest.mark.filterwarnings("ignore::semiring.errors.SuspiciousWeightsWarning")  # complete graphs with weights of 0
@pytest.mark.parametrize(("name", "dtype"), [case for case in CASES if case[0] != "xor_and"])
def test_predecessors(rng, cupy, name, dtype):
    for n, density in ((1, 1.0), (2, 1.0), (65, 0.05), (129, 1.0), (257, 0.02)):
        A = matrix(rng, n, name, dtype, density)
        found = sr.best_paths(cupy.asarray(A), name)
        assert_same(found.matrix, closure(A, name))
        absolute = 1e-12 if name == "lukasiewicz" else 0.0
        check(name, A, found.matrix.get(), cupy.asnumpy(found.predecessors), absolute=absolute)


@pytest.mark.parametrize("kind", ["random", "near ties", "ties", "zeros", "grid", "heights"])
def test_predecessors_by_certificate(rng, cupy, kind):
    for n in (400, 900):
        A = rng.random((n, n)).astype(np.float32)
        if kind == "near ties":  # half the edges are direct
            A = 0.3 + 0.7 * A
        if kind == "ties":
            A = np.where(8 / n > A, rng.integers(1, 4, (n, n)), np.inf)
        if kind == "zeros":
            A = np.where(8 / n > A, rng.integers(0, 2, (n, n)), np.inf)
        if kind == "grid":
            A = grid_graph(round(n**0.5), round(n**0.5), seed=1)
        if kind == "heights":
            heights = rng.integers(0, 50, n)
            A = np.where(A < 0.1, heights[None, :] - heights[:, None], np.inf)
        A = np.ascontiguousarray(A, np.float32)
        for method in ("auto", "rkleene"):
            P = sr.shortest_paths(cupy.asarray(A), method=method)
            check_predecessors(A, P.matrix.get(), cupy.asnumpy(P.predecessors))
            assert P.predecessors.dtype == np.int32


def test_questions_to_paths(rng, cupy):
    A = matrix(rng, 90, "min_plus", "float32", 0.05)
    host, there = sr.shortest_paths(A), sr.shortest_paths(cupy.asarray(A))
    without = sr.shortest_paths(cupy.asarray(A), predecessors=False)
    assert repr(host) == repr(there)
    for i, j in itertools.product(range(0, 90, 7), range(90)):
        assert there.distance(i, j) == host.distance(i, j)
        for found in (there, without):
            if host.reachable[i, j]:
                path = found.path(i, j)
                assert sum(A[a, b] for a, b in itertools.pairwise(path)) == host.distance(i, j)
            else:
                with pytest.raises(NoPathError):
                    found.path(i, j)
    assert there.center == host.center
    assert float(there.diameter) == host.diameter
    assert there.mean_distance == pytest.approx(host.mean_distance)
    assert_same(there.reachable, host.reachable)


def test_the_named_functions(rng, cupy):
    capacity = matrix(rng, 70, "max_min", "float32", 0.1)
    assert_same(sr.widest_paths(cupy.asarray(capacity)).matrix, closure(capacity, "max_min"))
    reliability = matrix(rng, 70, "max_times", "float64", 0.1)
    assert_same(sr.most_reliable_paths(cupy.asarray(reliability)).matrix, closure(reliability, "max_times"))
    tasks = np.triu(rng.integers(1, 9, (70, 70)), 1).astype(np.float64)
    tasks[tasks == 0] = -np.inf
    assert_same(sr.longest_paths(cupy.asarray(tasks)).matrix, closure(tasks, "max_plus"))
    edges = rng.random((300, 300)) < 0.004
    for reflexive in (True, False):
        found = sr.transitive_closure(cupy.asarray(edges), reflexive=reflexive)
        assert_same(found.matrix, sr.transitive_closure(edges, reflexive=reflexive).matrix)
