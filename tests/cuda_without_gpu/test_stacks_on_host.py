"""Test stacks closed together, with the launches of the package and its CUDA C++ run on the host, against the
reference."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from cuda_on_host import DeviceArray, HostKernels, PreparedOnHost, aligned_copy, needs_compiler, to_device
from operands import entries, to_kernel_form
from tiers import full

from semiring import CATALOGUE, Semiring
from semiring.kernels.contract import Status
from semiring.kernels.cuda.closing import look_ahead as kernels
from semiring.kernels.cuda.closing import staged_stacks
from semiring.kernels.cuda.closing.kernel_text import source
from semiring.kernels.engine import make_plan
from semiring.kernels.reference import ReferenceBackend

pytestmark = needs_compiler


#: Of the parameters that come with a launch: address, stage, address of the status and its first vertex.
COMING = {
    "first_pivots": (DeviceArray.by_address.get, DeviceArray.by_address.get, np.uint32),
    "panels": (DeviceArray.by_address.get, np.int32),
    "remainders": (DeviceArray.by_address.get, np.int32, DeviceArray.by_address.get, np.uint32),
}


@pytest.fixture
def host(monkeypatch):
    """Replace kernels and arrays of a device by those of the host, and record how they run, and what they did."""
    seen = SimpleNamespace(backwards=False, races=[], launches=[], compiled={}, looks=True)

    def kernel(file, name, arithmetic, defines, shared_bytes):
        key = arithmetic, defines
        if key not in seen.compiled:
            seen.compiled[key] = HostKernels(source(file, arithmetic, defines), races=seen.looks)

        def launch(grid, threads, arguments):
            seen.launches.append(name)
            sizes, coming = ((*grid, 1, 1)[:3], (*threads, 1, 1)[:3]), iter(COMING[name])
            given = [x if isinstance(x, np.generic) else next(coming)(x) for x in arguments]
            seen.races += seen.compiled[key].launch(name, *sizes, given, backwards=seen.backwards)

        return SimpleNamespace(kernel=launch)

    def prepared(function, blocks, threads, parameters, shared_bytes):
        return PreparedOnHost(function, blocks, threads, parameters)

    monkeypatch.setattr(staged_stacks, "compile_kernel", kernel)
    monkeypatch.setattr(staged_stacks, "PreparedLaunch", prepared)
    monkeypatch.setattr(staged_stacks, "current_device", lambda: 0)
    cuda = SimpleNamespace(get_current_stream=nullcontext)
    cupy = SimpleNamespace(cuda=cuda, full=lambda *given: to_device(np.full(*given)))
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    staged_stacks._launches.cache_clear()
    yield seen
    staged_stacks._launches.cache_clear()
    DeviceArray.by_address.clear()


def stack_of(rng, name, dtype, count, n):
    return np.stack([to_kernel_form(entries(rng, name, dtype, (n, n), tame=True), name) for _ in range(count)])


def close(plan, stack):
    expected = stack.copy()
    for one in expected:
        ReferenceBackend().close_block(replace(plan, status=Status()), one)
    return expected


@pytest.mark.full
@pytest.mark.parametrize(
    ("name", "dtype", "count", "n", "launches"),
    full(
        lambda name, dtype, *_: (name, dtype) in (("min_plus", "float32"), ("boolean", "bool"), ("max_min", "uint8")),
        [
            ("min_plus", "float32", 1, 192, 7),
            ("min_plus", "float32", 2, 129, 7),  # in padded copies
            ("min_plus", "int32", 1, 256, 9),
            ("max_times", "float64", 2, 100, 5),
            ("min_plus", "float64", 1, 127, 5),
            ("min_plus", "int64", 1, 129, 7),
            ("max_min", "int16", 2, 65, 5),
            ("boolean", "bool", 2, 130, 7),
            ("max_min", "uint8", 2, 1, 1),
            ("max_min", "uint8", 0, 70, 0),
        ],
    ),
)
def test_stacks(host, rng, name, dtype, count, n, launches):
    plan = make_plan(CATALOGUE[name], dtype, nonnegative=name == "min_plus")
    stack = stack_of(rng, name, dtype, count, n) if count else np.empty((0, n, n), dtype)
    for host.backwards in (False, True):
        found = aligned_copy(stack)
        staged_stacks.close_stack(plan, found)
        np.testing.assert_array_equal(found, close(plan, stack))
        assert len(host.launches) == launches
        host.launches.clear()
    assert not host.races  # no block reads what another one of its launch writes


@pytest.mark.full
def test_the_same_bits_in_every_order_and_company(host, rng):
    host.looks = False
    plan = make_plan(CATALOGUE["min_plus"], "float32", nonnegative=True)
    stack = rng.random((4, 192, 192)).astype(np.float32)
    results = []
    for host.backwards in (False, True):
        found = aligned_copy(stack)
        staged_stacks.close_stack(plan, found)
        results.append(found)
    alone = aligned_copy(stack[2:3])
    staged_stacks.close_stack(plan, alone)
    assert results[0].tobytes() == results[1].tobytes()
    assert alone.tobytes() == results[0][2:3].tobytes()


@pytest.mark.full
def test_every_layout_and_parts(host, rng, monkeypatch):
    host.looks = False
    plan = make_plan(CATALOGUE["min_plus"], "float32", nonnegative=True)
    stack = stack_of(rng, "min_plus", "float32", 3, 128)
    expected = close(plan, stack)
    monkeypatch.setattr(staged_stacks, "_COPIES", 2 * 128 * 128 * 4)
    wide = aligned_copy(np.zeros((3, 130, 140), np.float32))
    for view, copied in (
        (wide[:, :128, :128], False),
        (wide[:, 1:129, 4:132], False),
        (wide[:, :128, 1:129], True),
        (wide[:, :128, :128].swapaxes(1, 2), True),
        (wide[::-1, 127::-1, 127::-1], True),
    ):
        view[...] = stack
        host.launches.clear()
        staged_stacks.close_stack(plan, view)
        np.testing.assert_array_equal(view, expected)
        assert host.launches.count("first_pivots") == (2 if copied else 1)


@pytest.mark.full
@pytest.mark.parametrize("n", [70, 128])
def test_the_first_pivot_without_a_star_is_named(host, n, monkeypatch):
    host.looks = False
    monkeypatch.setattr(staged_stacks, "_COPIES", 2 * 128 * 128 * 4)  # so the last matrix is a part of its own
    plan = make_plan(CATALOGUE["max_times"], "float32")
    stack = np.zeros((3, n, n), np.float32)
    for vertex, numbered in ((66, 2 * n + 66), (3, 2 * n + 3)):
        stack[2, vertex, vertex] = 2
        word = aligned_copy(np.array([-1], np.int32))
        staged_stacks.close_stack(replace(plan, status=Status(word=word)), aligned_copy(stack))
        assert word[0] == numbered
    stack[1, 68, 68] = 2
    staged_stacks.close_stack(replace(plan, status=Status(word=word)), aligned_copy(stack))
    assert word[0] == n + 68
    staged_stacks.close_stack(plan, aligned_copy(stack))  # the caller need not read the word


@pytest.mark.full
def test_one_matrix_goes_the_way_that_is_fastest(host, rng, monkeypatch):
    """Elements of 8 bytes take two launches a stage, except beside products or with a named kernel. Few rows take
    one."""
    host.looks, others = False, []
    monkeypatch.setattr(kernels, "max_shared_memory", lambda: 227 << 10)
    monkeypatch.setattr(kernels, "close_block", lambda plan, A: others.append("block"))
    look_ahead = lambda plan, A, arithmetic, has_concurrent_work: others.append("look ahead")  # noqa: E731
    monkeypatch.setattr(kernels, "_look_ahead", look_ahead)
    plan = make_plan(CATALOGUE["min_plus"], "float64", nonnegative=True)
    (A,) = stack_of(rng, "min_plus", "float64", 1, 193)
    (expected,) = close(plan, A[None])
    for found in (aligned_copy(A), aligned_copy(A).T, aligned_copy(A)[::-1, ::-1]):
        found[...] = A
        host.launches.clear()
        kernels.close(plan, found)
        np.testing.assert_array_equal(found, expected)
        assert host.launches == ["first_pivots", *["panels", "remainders"] * 4]
    assert not others
    host.launches.clear()
    heavy = Semiring("heavy", "max(x, y)", "x / (1 + x) * y", 0, 1, domain=(0, 1))
    for semiring, dtype, n, options, expected in (
        *((CATALOGUE["min_plus"], "float64", n, {}, "block") for n in (0, 1, 64, 65, 104)),
        (CATALOGUE["min_plus"], "float64", 65, {"look_ahead": True}, "look ahead"),
        (CATALOGUE["min_plus"], "float64", 300, {"look_ahead": True}, "look ahead"),
        (CATALOGUE["min_plus"], "int64", 300, {"has_concurrent_work": True}, "look ahead"),
        *((CATALOGUE["min_plus"], dtype, 105, {}, "look ahead") for dtype in ("int16", "float16")),
        *((CATALOGUE["min_plus"], dtype, 128, {}, "block") for dtype in ("float32", "int32")),
        *((CATALOGUE["min_plus"], dtype, 129, {}, "look ahead") for dtype in ("float32", "int32")),
        (CATALOGUE["max_min"], "uint8", 105, {}, "look ahead"),
        (heavy, "float32", 64, {}, "block"),
        (heavy, "float32", 65, {}, "look ahead"),
    ):
        others.clear()
        kernels.close(make_plan(semiring, dtype), np.empty((n, n), dtype), **options)
        assert others == [expected], (semiring.name, dtype, n, options)
    assert not host.launches
    monkeypatch.setattr(kernels, "max_shared_memory", lambda: 99 << 10)  # too little for the look-ahead kernel
    kernels.close(plan, aligned_copy(A), has_concurrent_work=True)
    assert len(host.launches) == 9


@pytest.mark.full
@pytest.mark.parametrize("name", full(lambda name: name == "min_plus", ["min_plus", "max_plus"]))
def test_a_candidate_that_is_undefined_is_dropped(host, rng, name):
    """The product ∞ ⊗ -∞ is NaN, which is no path. In float64, ⊕ is a comparison and a selection, and keeps the
    entry."""
    plan, n = make_plan(CATALOGUE[name], "float64"), 130
    host.looks = False
    stack = rng.choice([np.inf, -np.inf, 1, 2, 3], (1, n, n))
    stack[0][np.tri(n, dtype=bool)] = plan.zero  # no cycle
    found = aligned_copy(stack)
    staged_stacks.close_stack(plan, found)
    np.testing.assert_array_equal(found, close(plan, stack))
    assert not np.isnan(found).any()


@pytest.mark.full
def test_a_star_that_is_not_one(host, rng):
    strict = Semiring("strict", "min(x, y)", "x + y", "inf", 0, star="where(x > 0, 0, nan)")
    plan = make_plan(strict, "float32")
    stack = rng.integers(1, 1000, (2, 130, 130)).astype(np.float32)
    found = aligned_copy(stack)
    staged_stacks.close_stack(plan, found)
    np.testing.assert_array_equal(found, close(plan, stack))
    assert not host.races
