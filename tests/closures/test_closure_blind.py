"""Test that closures depend on no array library: the same files close arrays that NumPy may not touch."""

from __future__ import annotations

from contextlib import contextmanager, nullcontext
from dataclasses import replace
from itertools import product
from types import SimpleNamespace

import numpy as np
import oracles
import pytest
from matrices import CASES, matrix
from strict_arrays import StrictArray, StrictBackend, StrictPasses, StrictStreams, install_stand_in, on_device
from strips import rounding_matrix
from tiers import each_value, full, quick

import semiring as sr
from semiring.algorithms.methods import matrix_methods, method_named
from semiring.algorithms.ordered_integers import has_min_and_max
from semiring.algorithms.schedule import BLOCKED, schedule_for
from semiring.arrays import device as memory
from semiring.arrays.bits import pack
from semiring.closures import closure
from semiring.errors import DivergenceError, DomainError, DTypeError, IntegerOverflowError, NegativeCycleError
from semiring.kernels.contract import Capabilities, ClosureKernels, Status
from semiring.kernels.nearest_trees import nearest_tree
from semiring.kernels.reference import ReferenceBackend

DENSE = [name for name in matrix_methods() if name != "auto" and not method_named(name).needs]


@pytest.fixture(autouse=True)
def strict(monkeypatch):
    with install_stand_in(monkeypatch):
        yield


def check(A, expected, *arguments, **options):
    kept = A.copy()
    result = closure(on_device(A), *arguments, **options)
    assert type(result) is StrictArray
    assert result.dtype == expected.dtype
    np.testing.assert_array_equal(result.get(), expected)
    np.testing.assert_array_equal(A, kept)


@pytest.mark.full
@pytest.mark.parametrize("reflexive", full(bool, [True, False]))
@pytest.mark.parametrize(("name", "dtype"), each_value(CASES))
def test_every_semiring_and_dtype(rng, name, dtype, reflexive):
    for n in (0, 1, 33, 130):
        A = matrix(rng, n, name, dtype, density=min(1, 4 / max(n, 1)))
        check(A, oracles.closure(A, name, reflexive=reflexive), name, reflexive=reflexive)


@pytest.mark.parametrize("method", DENSE)
@pytest.mark.parametrize(
    ("name", "dtype"),
    quick(lambda name, _: name == "min_plus", [("min_plus", "float32"), ("max_plus", "int32"), ("max_min", "float32")]),
)
def test_every_method(rng, method, name, dtype):
    A = matrix(rng, 70, name, dtype, density=0.1)
    check(A, oracles.closure(A, name), name, method=method)
    if method != "squaring":
        check(A, oracles.closure(A, name), name, method=method, check=False)


def test_sums_that_are_not_idempotent(rng):
    A = rng.random((150, 150)) / 400
    for reflexive in (True, False):
        expected = closure(A, "plus_times", reflexive=reflexive, method="rkleene")
        result = closure(on_device(A), "plus_times", reflexive=reflexive)
        np.testing.assert_allclose(result.get(), expected, rtol=1e-12)


@pytest.mark.full
@pytest.mark.parametrize(
    ("name", "dtype"),
    full(
        lambda *case: case in (("min_plus", "float32"), ("max_plus", "int32")),
        product(["min_plus", "max_plus"], ["float32", "float64", "int32", "int64"]),
    ),
)
def test_mixed_signs(rng, name, dtype):
    for n in (40, 300):
        heights = rng.integers(0, 1000, n)
        edges = rng.random((n, n)) < 4 / n
        A = np.full((n, n), oracles.zero(name, np.dtype(dtype)), dtype)
        sign = 1 if name == "min_plus" else -1
        weights = sign * (heights[None, :] - heights[:, None] + rng.integers(0, 3, (n, n)))
        A[edges] = weights[edges].astype(dtype)
        check(A, closure(A, name), name)


def test_negative_cycles_and_divergence(rng):
    A = np.where(rng.random((300, 300)) < 0.05, rng.integers(5, 9, (300, 300)), np.inf)
    A[7, 250], A[250, 7] = 3.0, -4.0
    work = on_device(A.copy())
    with pytest.raises(NegativeCycleError) as caught:
        closure(work, out=work)
    total = sum(
        A[i, j] for i, j in zip(caught.value.cycle, caught.value.cycle[1:] + caught.value.cycle[:1], strict=True)
    )
    assert total < 0
    np.testing.assert_array_equal(work.get(), A)
    B = np.zeros((200, 200))
    B[150, 160] = B[160, 150] = 2.0
    for method in ("rkleene", "blocked_floyd_warshall", "squaring"):
        with pytest.raises(DivergenceError, match=r"vertex 1[56]0"):
            closure(on_device(B), "max_times", method=method)


def test_every_call_scans_the_graph_of_its_matrix(monkeypatch, rng):
    """Nothing that depends on entries is kept between calls."""
    monkeypatch.setattr("semiring.closures.problem.LEAST_ON_DEVICE", 23)
    looked, known = [], {"symmetric": False}

    def look(A, none):
        looked.append(A.shape)
        return known["symmetric"], True, A.size, None

    capabilities = Capabilities(
        streams=StrictStreams(), passes=StrictPasses(), graphs=SimpleNamespace(scan_structure=look)
    )
    monkeypatch.setattr(StrictBackend, "capabilities", capabilities)
    closed = []
    monkeypatch.setattr("semiring.algorithms.spanning_tree.spanning_tree", lambda engine, D, A: closed.append(A))
    A, few = rng.random((23, 23)), rng.random((22, 22))
    for given in (A, np.asfortranarray(A)[::1], A):  # the second has no adjacent rows
        looked.clear()
        closure(on_device(given), "max_min", structure="bottleneck")
        assert looked == ([(23, 23)] if given is A else [])
    known["symmetric"] = True
    for out in (None, on_device(A.copy())):
        closure(on_device(A), "max_min", structure="bottleneck", out=out)
    closure(on_device(np.stack([A, A])), "max_min", structure="bottleneck")
    assert len(closed) == 4
    looked.clear()
    closure(on_device(few), "max_min", structure="bottleneck")
    # the call may not wait for the result of the scan
    closure(on_device(A), "max_min", structure="bottleneck", check=False)
    closure(on_device(A), "max_min", structure=False)
    assert looked == []


def test_float16_is_closed_in_float32_and_rounded_once(monkeypatch, rng):
    """Closures are as on the host. They are in float16 if the caller requests it or nothing is rounded."""

    class RefusingKernels(ClosureKernels):
        def close(self, plan, A, *, has_concurrent_work=False):
            raise AssertionError("`can_close` is False")

    capabilities = Capabilities(streams=StrictStreams(), passes=StrictPasses(), closures=RefusingKernels())
    monkeypatch.setattr(StrictBackend, "capabilities", capabilities)
    for name in ("min_plus", "max_times"):
        A = rounding_matrix(rng, 71, name, "float16")
        expected = closure(on_device(A.astype(np.float32)), name).get().astype(np.float16)
        for given, out in ((A, expected), (np.stack([A, A]), np.stack([expected, expected]))):
            for _ in range(2):  # a plan that both calls could share
                check(given, out, name)
        found, why = closure(on_device(A), name, compute_dtype="float16", explain=True)
        assert why.answers[-1].why.endswith("closes 71 × 71 float16, cuda")
        np.testing.assert_array_equal(closure(on_device(A), name, compute_dtype=np.float16).get(), found.get())
        np.testing.assert_allclose(found.get(), expected, rtol=71 * 2.0**-11)
        assert (found.get() != expected).any()
    A = rounding_matrix(rng, 71, "max_min", "float16")
    found, why = closure(on_device(A), "max_min", explain=True)
    assert why.answers[-1].why.endswith("closes 71 × 71 float16, cuda")
    check(A, found.get(), "max_min")
    for given in (A.astype(np.float32), np.zeros((71, 71), np.int16)):
        with pytest.raises(DTypeError, match=f"compute_dtype is float16, and A is {given.dtype}"):
            closure(on_device(given), "max_min", compute_dtype="float16")


@pytest.fixture
def closes_stacks(monkeypatch):
    """Record the shapes that the backend closed as a whole, up to 64 rows in one launch."""
    calls = []

    class Stacks(ClosureKernels):
        def stack_rows(self, plan):
            return 64

        def close_stack(self, plan, A):
            calls.append(A.shape)
            for i, one in enumerate(A.inner):
                alone = replace(plan, status=Status())
                ReferenceBackend().close_block(alone, one)
                if alone.status.diverged >= 0 and plan.status.word is not None and int(plan.status.word[0]) < 0:
                    plan.status.word[0] = i * A.shape[1] + alone.status.diverged

    def select(target, absent, numbers, extreme):
        target.inner[...] = np.where(absent.inner, target.dtype.type(extreme), numbers.inner)

    capabilities = Capabilities(closures=Stacks(), streams=StrictStreams(), passes=StrictPasses())
    monkeypatch.setattr(StrictBackend, "capabilities", capabilities)
    monkeypatch.setattr("semiring.kernels.cuda.entries.entry_passes.select", select)
    return calls


def stack_of(rng, count, n, name, dtype):
    stack = np.stack([matrix(rng, n, name, dtype, density=min(1, 4 / n)) for _ in range(count)])
    return stack, np.stack([oracles.closure(one, name) for one in stack])


@pytest.mark.full
@pytest.mark.parametrize("check_entries", full(bool, [True, False]))
@pytest.mark.parametrize(("name", "dtype"), each_value([*CASES, ("min_plus", "float16"), ("max_min", "float16")]))
def test_stacks_are_closed_in_one_call(rng, closes_stacks, name, dtype, check_entries):
    for count, n in ((6, 19), (1, 19), (2, 70)):
        stack, expected = stack_of(rng, count, n, name, dtype)
        check(stack, expected, name, check=check_entries)
        work = on_device(stack.copy())
        assert closure(work, name, check=check_entries, out=work) is work
        np.testing.assert_array_equal(work.get(), expected)
        assert closes_stacks == [(count, n, n)] * 2
        closes_stacks.clear()
    check(*stack_of(rng, 1, 70, name, dtype), name, check=check_entries)
    check(stack, np.stack([closure(one, name, reflexive=False) for one in stack]), name, reflexive=False)
    assert not closes_stacks


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("check_entries", [True, False])
def test_stacks_of_other_layouts_and_signs(rng, closes_stacks, check_entries, dtype):
    """Stacks of every layout and sign are closed. Without a scan, a weight below 0 makes the result NaN."""
    stack, expected = (each.reshape(2, 3, 19, 19) for each in stack_of(rng, 6, 19, "min_plus", dtype))
    check(stack, expected, check=check_entries)
    assert closes_stacks == [(6, 19, 19)]
    turned = on_device(np.empty((19, 19, 3, 2), dtype).transpose(3, 2, 0, 1))  # no reshape joins its stack
    closure(on_device(stack), check=check_entries, out=turned)
    np.testing.assert_array_equal(turned.get(), expected)
    stack[1, 2, 3, 4] = -0.0
    check(stack, np.abs(closure(stack)), check=check_entries)
    check(-stack, closure(-stack, "max_plus"), "max_plus", check=check_entries)
    stack[1, 2, 3, 4] = -1
    if not check_entries:
        assert np.isnan(closure(on_device(stack), check=False).get()).all()
        assert np.isnan(closure(on_device(-stack), "max_plus", check=False).get()).all()
    else:
        closes_stacks.clear()
        check(stack, closure(stack))
        check(-stack, closure(-stack, "max_plus"), "max_plus")
        assert not closes_stacks  # through potentials, one by one


def test_stacks_of_fractions_are_put_in_order(rng, closes_stacks):
    stack = rng.standard_normal((3, 70, 70)).astype(np.float32)
    for name in ("max_min", "min_max"):
        for look in (True, False):
            check(stack, closure(stack, name), name, check=look)
    assert len(closes_stacks) == 4


@pytest.mark.parametrize("n", [30, 90])
def test_what_stacks_refuse_is_named(closes_stacks, n):
    gains = np.zeros((4, n, n), np.float32)
    gains[1, 20, 25] = gains[1, 25, 20] = gains[3, 1, 2] = gains[3, 2, 1] = 2
    with pytest.raises(DivergenceError, match="vertex 25") as caught:
        closure(on_device(gains), "max_times")
    assert caught.value.matrix == (1,)
    assert str(caught.value).endswith("; this is about the matrix A[1] of the stack")
    gains[2, 3, 4] = np.nan
    with pytest.raises(DomainError, match=r"A\[2, 3, 4\]"):
        closure(on_device(gains), "max_times")
    assert not closes_stacks  # what gains is found in a look
    A = np.full((2, n, n), np.inf)
    A[1, 3, 5], A[1, 5, 3] = 2, -3
    with pytest.raises(NegativeCycleError):
        closure(on_device(A))


@pytest.mark.full
@pytest.mark.parametrize("n", [30, 90])
def test_long_chains_of_integers_are_closed_together(closes_stacks, n):
    chain = np.full((2, n, n), np.iinfo(np.int16).max, np.int16)
    chain[:, np.arange(n - 1), np.arange(1, n)] = 16000 // (n + 1)
    check(chain, closure(chain))
    assert closes_stacks == [(2, n, n)]
    chain[1, np.arange(n - 1), np.arange(1, n)] = 20000 // n  # beyond half the range
    check(chain, closure(chain))
    work = on_device(chain)
    with pytest.raises(IntegerOverflowError):
        closure(work, out=work)
    assert len(closes_stacks) == 1


@pytest.mark.parametrize("dtype", ["float32", "int32"])
def test_a_stack_is_looked_at_before_any_of_it_is_written(rng, dtype):
    stack = np.stack([matrix(rng, 70, "min_plus", dtype, 0.1) for _ in range(3)])
    stack[1, 5, 5] = stack[0, 5, 6] = stack[2, 40, 60] = 3
    stack[2, 60, 40] = -4
    kept = stack.copy()
    work, other = on_device(stack), on_device(np.full_like(stack, 7))
    for out in (work, other):
        with pytest.raises(NegativeCycleError, match=r"A\[2\] of the stack") as caught:
            closure(work, out=out)
        assert caught.value.matrix == (2,)
        np.testing.assert_array_equal(stack, kept)
        assert (other.get() == 7).all()
    stack[2, 40, 60] = 4
    check(stack, np.stack([closure(one) for one in stack]))


def test_closures_in_place_and_strides(rng):
    A = np.where(rng.random((60, 60)) < 0.05, rng.integers(1, 9, (60, 60)), np.inf)
    A = np.triu(A, 1)
    A[A == 0] = np.inf
    check(A, closure(A))
    for view in (lambda x: x.T, lambda x: np.repeat(x, 2, axis=1)[:, ::2], lambda x: x[::-1, ::-1]):
        B = view(matrix(rng, 67, "min_plus", "float32", 0.1))
        check(B, oracles.closure(np.ascontiguousarray(B), "min_plus"))
        work = on_device(B.copy())
        assert closure(work, out=work) is work
        np.testing.assert_array_equal(work.get(), oracles.closure(np.ascontiguousarray(B), "min_plus"))
    stack = np.stack([matrix(rng, 19, "min_plus", "float32") for _ in range(3)])
    check(stack, np.stack([oracles.closure(one, "min_plus") for one in stack]))


def test_progress(rng):
    seen = []
    closure(on_device(matrix(rng, 300, "min_plus", "float32")), progress=lambda done, total: seen.append((done, total)))
    assert seen[-1][0] == seen[-1][1]
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)


def test_packed_bits(rng):
    truths = rng.random((100, 100)) < 0.02
    packed = pack(on_device(truths))
    for reflexive in (True, False):
        for method in ("auto", "blocked_floyd_warshall", "squaring"):
            result = closure(packed, "boolean", reflexive=reflexive, method=method)
            assert type(result.words) is StrictArray
            np.testing.assert_array_equal(
                result.unpack().get(), oracles.closure(truths, "boolean", reflexive=reflexive)
            )


# --------------------------------------------------------------------------------------------------- paths on a device


class HostCopyCounter:
    """A counter of the numbers that were copied to the host."""

    def __init__(self, monkeypatch):
        self.numbers = 0
        real = StrictArray.get

        def get(array):
            self.numbers += array.size
            return real(array)

        monkeypatch.setattr(StrictArray, "get", get)


def found_paths(rng, n):
    """Return a matrix, its paths on the host, and the same paths on the device."""
    A = matrix(rng, n, "min_plus", "float64", density=0.1)
    host = sr.shortest_paths(A)
    there = sr.Paths(on_device(host.matrix), sr.min_plus, on_device(host.predecessors), weights=on_device(A))
    return A, host, there


@pytest.mark.full
def test_a_path_moves_one_row_of_the_matrix(rng, monkeypatch):
    n = 90
    A, host, there = found_paths(rng, n)
    moved = HostCopyCounter(monkeypatch)
    for j in range(n):
        if host.reachable[3, j]:
            assert there.path(3, j) == host.path(3, j)
    assert moved.numbers == n + 1, "the row of predecessors, once for its source, and the distance to itself"
    assert there.distance(3, 5) == host.distance(3, 5)
    assert moved.numbers == n + 2

    def find_tree(plan, D, weights, tolerance, source):
        tree = nearest_tree(plan, A, host.matrix[source], source, tolerance)
        return on_device(tree)

    capabilities = Capabilities(streams=StrictStreams(), paths=SimpleNamespace(find_tree=find_tree))
    monkeypatch.setattr(StrictBackend, "capabilities", capabilities)
    without = sr.Paths(there.matrix, sr.min_plus, weights=on_device(A))
    moved.numbers = 0
    assert without.path(4, 4) == [4]
    assert moved.numbers == n + 1


@pytest.mark.full
def test_questions_are_asked_where_the_matrix_lives(rng, monkeypatch):
    """Questions run on the GPU of the matrix, and for a tensor on the current stream of PyTorch, from any device."""
    _, host, there = found_paths(rng, 40)
    entered = []

    @contextmanager
    def on_device_of(arrays, device=None):
        entered.append(arrays[0])
        yield

    monkeypatch.setattr(memory, "activate_device", on_device_of)
    i, j = (int(index) for index in np.argwhere(host.reachable & ~np.eye(40, dtype=bool))[0])
    for question in (
        lambda P: P.distance(i, j),
        lambda P: P.path(i, j),
        lambda P: P.reachable,
        lambda P: P.eccentricity(0),
        lambda P: P.diameter,
        lambda P: P.center,
        lambda P: P.mean_distance,
        repr,
    ):
        entered.clear()
        question(there)
        assert entered
        assert all(array is there.matrix for array in entered)
        question(host)
        assert all(array is there.matrix for array in entered)


class Tensor:
    """An array of another library on a GPU, which CuPy reads without a copy."""

    def __init__(self, inner):
        self.inner, self.shape, self.dtype = inner, inner.shape, inner.dtype

    def __dlpack_device__(self):
        return 2, 0


@pytest.mark.parametrize("dtype", [np.float32, np.int32])
def test_only_what_was_moved_to_the_device_is_closed_in_place(rng, monkeypatch, dtype):
    """An array that was on the device before belongs to the caller, even if CuPy reads it under another name."""
    A = rng.integers(1, 99, (300, 300)).astype(dtype)
    tensor, expected, read = Tensor(A.copy()), sr.closure(A), memory.as_cupy
    monkeypatch.setattr(memory, "activate_device", lambda arrays, device=None: nullcontext())
    monkeypatch.setattr(memory, "as_cupy", lambda x, name="A": on_device(x.inner) if isinstance(x, Tensor) else read(x))
    for given, values in ((tensor, tensor.inner), (A, A)):
        out = np.empty_like(A)
        assert sr.closure(given, out=out, device="cuda") is out
        np.testing.assert_array_equal(out, expected)
        np.testing.assert_array_equal(values, A)


@pytest.mark.full
def test_integers_that_were_moved_may_begin_again_in_a_wider_dtype():
    A = np.full((90, 90), np.iinfo(np.int16).max, np.int16)
    A[np.arange(89), np.arange(1, 90)] = 200
    out = np.empty_like(A)
    sr.closure(A, out=out, device="cuda")
    np.testing.assert_array_equal(out, sr.closure(A))
    np.testing.assert_array_equal(sr.closure(A, device="cuda"), out)


def test_the_measured_method_depends_on_what_a_pair_costs():
    """Semirings that only select use the staged kernels for larger matrices, in 4 bytes as long as they may copy it."""
    schedule = schedule_for("cuda", np.dtype("float32"))
    for n, usual, selecting in ((100, "staged", "staged"), (4096, BLOCKED, "staged"), (4097, BLOCKED, BLOCKED)):
        assert (schedule.method(n), schedule.method(n, is_selective=True)) == (usual, selecting)
    wide = schedule_for("cuda", np.dtype("float64"))
    for n, usual, selecting in ((3328, "staged", "staged"), (3329, BLOCKED, "staged"), (4097, BLOCKED, BLOCKED)):
        assert (wide.method(n), wide.method(n, is_selective=True)) == (usual, selecting)
    half, byte = (schedule_for("cuda", np.dtype(dtype)) for dtype in ("int16", "uint8"))
    for n, usual, selecting in ((1408, "staged", "staged"), (1409, "staged", BLOCKED), (2048, BLOCKED, BLOCKED)):
        assert (half.method(n), half.method(n, is_selective=True)) == (usual, selecting)
        assert byte.method(n, is_selective=True) == usual
    assert schedule_for("cpu", np.dtype("float32")).method(300, is_selective=True) == BLOCKED
    assert [name for name, semiring in sr.CATALOGUE.items() if has_min_and_max(semiring)] == ["max_min", "min_max"]


def test_the_host_closes_what_lives_on_a_device(rng):
    """The result returns to the device, to a new array or ``out``, also from a method that only the CPU has."""
    A = matrix(rng, 40, "min_plus", "float32")
    expected = oracles.closure(A, "min_plus")
    check(A, expected, device="cpu")
    check(A, expected, device="cpu", method="bertoldi_openmp")
    out = on_device(np.empty_like(A))
    assert closure(on_device(A), device="cpu", out=out) is out
    np.testing.assert_array_equal(out.get(), expected)
    words = pack(on_device(np.isfinite(A)))
    closed = closure(words, "boolean", device="cpu")
    assert type(closed.words) is StrictArray
    np.testing.assert_array_equal(closed.unpack().get(), np.isfinite(expected))
