"""Test factors on a GPU, with their kernels run on the host (`cuda_on_host`), against factors of the host."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace

import numpy as np
import pytest
from cuda_on_host import DeviceArray, HostKernels, needs_compiler, to_device
from tiers import full

import semiring as sr
from semiring.errors import DivergenceError, NegativeCycleError, NoPathError
from semiring.kernels.cuda.closing.kernel_text import arithmetic_of, source
from semiring.sparse import device_factor as on_device
from semiring.sparse import factorization, symbolic_factor

pytestmark = [needs_compiler, pytest.mark.full]

CASES = full(
    lambda name, dtype: (name, dtype) in (("min_plus", "float64"), ("min_plus", "int32"), ("plus_times", "float64")),
    [
        ("min_plus", "float64"),
        ("min_plus", "float32"),
        ("min_plus", "int16"),
        ("min_plus", "int32"),
        ("max_plus", "float64"),
        ("max_min", "int32"),
        ("boolean", "bool"),
        ("plus_times", "float64"),
        ("log_plus", "float64"),
    ],
)


@pytest.fixture(scope="module")
def kernel_cache():
    return {}


@pytest.fixture
def device(monkeypatch, kernel_cache):
    """Replace arrays and kernels of a GPU by those of the host, and return the list of the arrays in transfer."""
    coming = []

    def bring(x):
        coming.append(to_device(np.array(x)))
        return coming[-1]

    stream = SimpleNamespace(synchronize=coming.clear)
    cuda = SimpleNamespace(
        runtime=SimpleNamespace(getDevice=lambda: 0),
        Device=lambda number: nullcontext(),
        get_current_stream=lambda: stream,
    )
    xp = SimpleNamespace(
        cuda=cuda,
        asarray=bring,
        empty=lambda shape, dtype: to_device(np.empty(shape, dtype)),
        full=lambda shape, value, dtype: to_device(np.full(shape, value, dtype)),
    )

    def kernel(plan, name, *defines):
        key = arithmetic_of(plan), defines
        if key not in kernel_cache:
            kernel_cache[key] = HostKernels(source("elimination.cu", *key))

        def launch(grid, threads, arguments):
            given = [
                None if isinstance(x, int) else x.view(np.ndarray) if isinstance(x, DeviceArray) else x
                for x in arguments
            ]
            kernel_cache[key].launch(name, (*grid, 1, 1)[:3], (*threads, 1, 1)[:3], given)

        return launch

    def is_there(x):
        return isinstance(x, DeviceArray)

    monkeypatch.setattr("semiring.arrays.device.load_cupy", lambda what="": xp)
    monkeypatch.setattr("semiring.arrays.device.free_device_memory", lambda: 1 << 22)
    monkeypatch.setattr("semiring.arrays.device.to_host", np.array)
    monkeypatch.setattr(on_device, "_kernel", kernel)
    monkeypatch.setattr(on_device, "is_device_array", is_there)
    monkeypatch.setattr(factorization, "is_device_array", is_there)
    return coming


def graph(rng, n, name, dtype, *, symmetric=False):
    """Return few edges near one another, of small whole numbers. In plus_times and log_plus, walks converge."""
    rows = np.repeat(np.arange(n), 2)
    columns = (rows + rng.integers(1, 5, rows.size)) % n
    values = rng.integers(1, 9, rows.size)
    if name in ("plus_times", "log_plus"):
        values = values / 50 if name == "plus_times" else np.log(values / 50)
    values = (-values if name == "max_plus" else values).astype(dtype)
    if symmetric:
        rows, columns, values = np.r_[rows, columns], np.r_[columns, rows], np.r_[values, values]
    zero = sr.CATALOGUE[name].zero_for(np.dtype(dtype))
    A = np.full((n, n), zero, dtype)
    A[rows, columns] = values
    if symmetric:
        A[columns, rows] = A[rows, columns]
    return A


def path(F, source, target):
    """Return the path of a factor, or None where there is none."""
    try:
        return F.path(source, target)
    except NoPathError:
        return None


def test_what_a_factor_keeps_there_has_come(device, rng):
    """The arrays of a factor are complete when the call returns, because the next call may be on another stream."""
    A = graph(rng, 150, "min_plus", "float64")
    F = sr.factor(A, device="cuda")
    F.solve(np.ones(150))
    F.table([3], [5, 7])

    def arrays(value):
        if isinstance(value, dict | list | tuple):
            return [array for part in (value.values() if isinstance(value, dict) else value) for array in arrays(part)]
        return [value] if isinstance(value, DeviceArray) else []

    (tree,) = F._analysis.device_copies.values()
    kept = arrays(vars(tree))
    assert len(kept) > 15
    assert not any(one is other for one in kept for other in device)


@pytest.mark.parametrize(("name", "dtype"), CASES)
@pytest.mark.parametrize("n", full(lambda n: n in (2, 37), [1, 2, 37, 150]))
def test_answers_are_those_of_the_host(name, dtype, n, device, rng):
    for symmetric in (False, True):
        A = graph(rng, n, name, dtype, symmetric=symmetric)
        host, F = sr.factor(A, name), sr.factor(A, name, device="cuda")
        same = np.testing.assert_array_equal if dtype != "float64" else np.testing.assert_allclose
        same(F._numbers.memory.view(np.ndarray), host._numbers.memory)
        some, others = rng.integers(0, n, 5), rng.integers(0, n, 3)
        same(F.closure(), host.closure())
        same(F.table(some), host.table(some))
        same(F.table(some, others), host.table(some, others))
        ends = rng.integers(0, n, (2, 9))
        same(F.distances(*ends), host.distances(*ends))
        b = A[:, others]
        for transpose in (False, True):
            same(F.solve(b, transpose=transpose), host.solve(b, transpose=transpose))
            same(F.solve(b[:, 0], transpose=transpose), host.solve(b[:, 0], transpose=transpose))
        same(np.concatenate([block for _, block in F.rows(chunk=7)]), host.closure())
        same(F.rows(reduce=lambda block: block[:, 0]), host.closure()[:, 0])
        if sr.CATALOGUE[name].selective:
            same(F.rows(reduce="eccentricity"), host.rows(reduce="eccentricity"))
        rows = to_device(np.empty((n, n), dtype))
        F._placement.all_rows(F._numbers, F._numbers.plan, rows)
        inside = rows.view(np.ndarray)  # where integers have another "no path"
        none = inside == F._numbers.plan.zero
        same(np.where(none, sr.CATALOGUE[name].zero_for(inside.dtype), inside), host.closure())
        if name == "min_plus":
            for target in (n - 1, *others.tolist()):
                assert path(F, 0, target) == path(host, 0, target)
            same(F.rows(reduce=("nearest", 2)), host.rows(reduce=("nearest", 2)))


def test_large_fronts_go_to_products(device, monkeypatch, rng):
    monkeypatch.setattr(symbolic_factor, "_MIN_LARGE_PAIRS", 500)
    monkeypatch.setattr(symbolic_factor, "_MIN_LARGE_PIVOTS", 4)
    for name, dtype in (("min_plus", "float64"), ("plus_times", "float64")):
        for symmetric in (False, True):
            A = graph(rng, 120, name, dtype, symmetric=symmetric)
            F = sr.factor(A, name, device="cuda")
            assert F._analysis.is_large().any()
            np.testing.assert_allclose(F.closure(), sr.closure(A, name))


def test_products_that_do_not_commute(device, rng):
    last = sr.Semiring(
        "last", "min(x, y)", "where(x == inf, x, where(y == inf, y, 8 * x + y))", zero="inf", one="0", star="0"
    )
    last = last if not last.commutative else pytest.fail("⊗ commutes")
    A = np.triu(graph(rng, 9, "min_plus", "float64"), 1)
    A[A == 0] = np.inf
    host, F = sr.factor(A, last), sr.factor(A, last, device="cuda")
    np.testing.assert_array_equal(F.closure(), host.closure())
    for transpose in (False, True):
        np.testing.assert_array_equal(F.solve(A[:, :3], transpose=transpose), host.solve(A[:, :3], transpose=transpose))


def test_signs_and_cycles(device, rng):
    A = graph(rng, 60, "min_plus", "float64")
    h = rng.normal(size=60)
    signed = A + h - h[:, None]
    np.testing.assert_allclose(sr.factor(signed, device="cuda").closure(), sr.factor(signed).closure(), atol=1e-12)
    some, others = [3, 4], [5, 6, 7]
    F = sr.factor(signed, device="cuda")
    np.testing.assert_allclose(F.table(some, others), sr.factor(signed).table(some, others), atol=1e-12)
    np.testing.assert_allclose(F.distances([3, 4, 3], [5, 6, 7]), F.table([3, 4, 3], [5, 6, 7]).diagonal(), atol=1e-12)
    np.testing.assert_allclose(F.rows(reduce="eccentricity"), F.closure().max(axis=1))
    cyclic = np.where(np.isinf(A), 99, A).astype(np.int32)
    cyclic[np.isinf(A)] = np.iinfo(np.int32).max
    cyclic[7, 8], cyclic[8, 7] = -3, 2
    with pytest.raises(NegativeCycleError):
        sr.factor(cyclic, device="cuda").closure()
    with pytest.raises(DivergenceError):
        sr.factor(np.array([[0.0, 2.0], [0.5, 0.0]]), "plus_times", device="cuda")
    changed = A.copy()
    changed[0, 1] = 7
    updated = sr.factor(changed, device="cuda").update([(0, 1, 0.5)])
    changed[0, 1] = 0.5
    np.testing.assert_array_equal(updated.table([0]), sr.factor(changed).table([0]))
