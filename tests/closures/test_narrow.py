"""Test whole numbers closed in narrower integers: bits as in their own dtype, and only if it is proven to hold them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import oracles
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strict_arrays import install_stand_in, on_device

import semiring as sr
from semiring.algorithms import narrow_integers
from semiring.algorithms.narrow_integers import find_narrow_dtype
from semiring.arrays import parts
from semiring.closures import closure, closure_with_predecessors
from semiring.errors import DomainError
from semiring.kernels.machines import tables
from semiring.testing import check_predecessors

INT16, INT32 = (1 << 14) - 2, (1 << 30) - 2  # the greatest distances that these dtypes hold
WIDE = ["float32", "float64", "int32", "int64"]


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Return the device of the tests, which narrows from the first vertex on, eight rows at a time."""
    with install_stand_in(monkeypatch):
        for speed, dtypes in (("_CLOSURES", ["int16"]), ("_OF_8_BYTES", ["int16", "int32"])):
            always = tuple((name, 0) for name in dtypes)
            monkeypatch.setattr(tables, speed, replace(getattr(tables, speed), narrow=always))
        monkeypatch.setattr(parts, "_PIECE_ON_DEVICE", 64)
        monkeypatch.setattr(parts, "_ROWS_ON_DEVICE", 8)
        yield


def check(A, dtype, name="min_plus", **options):
    """Check for bits as on the host, in a new array and in place, and for a closure in ``dtype`` (None: A's own)."""
    expected = closure(A, name, **options)
    given = on_device(A.copy())
    result, explanation = closure(given, name, explain=True, **options)
    assert result.dtype == A.dtype
    assert result.get().tobytes() == np.ascontiguousarray(expected).tobytes()
    np.testing.assert_array_equal(given.get(), A)
    closed_in = explanation.answers[-1].why.split()[-2].rstrip(",")
    assert closed_in == (dtype or A.dtype)
    assert closure(given, name, out=given, **options) is given
    assert given.get().tobytes() == np.ascontiguousarray(expected).tobytes()


def graph(rng, n, dtype, edges=4.0, low=1, high=1000, name="min_plus"):
    """Return a random graph on a Hamiltonian cycle: strongly connected, about ``edges`` edges a vertex."""
    A = np.full((n, n), oracles.zero(name, np.dtype(dtype)), dtype)
    chosen = rng.random((n, n)) < edges / max(n, 1)
    order = rng.permutation(n)
    chosen[order, np.roll(order, -1)] = True
    weights = rng.integers(low, high, (n, n), endpoint=True) * (1 if name == "min_plus" else -1)
    A[chosen] = weights[chosen].astype(dtype)
    return A


@pytest.mark.filterwarnings("ignore::semiring.errors.SuspiciousWeightsWarning")
@pytest.mark.full
@pytest.mark.parametrize("reflexive", [True, False])
@pytest.mark.parametrize("dtype", WIDE)
@pytest.mark.parametrize("name", ["min_plus", "max_plus"])
def test_random_graphs(rng, name, dtype, reflexive):
    for n in (1, 2, 33, 70):
        check(graph(rng, n, dtype, name=name), "int16" if n > 1 else None, name, reflexive=reflexive)
    complete = rng.integers(0, 1000, (40, 40)) * (1 if name == "min_plus" else -1)
    check(complete.astype(dtype), "int16", name, reflexive=reflexive)


@pytest.mark.parametrize("dtype", WIDE)
def test_nothing_and_no_edges(dtype):
    A = np.full((9, 9), oracles.zero("min_plus", np.dtype(dtype)), dtype)
    check(A[:0, :0], None)
    check(A, "int16" if dtype.startswith("float") else None)  # integers without a number need no help


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_one_fraction_and_signed_zeros(rng, dtype):
    A = graph(rng, 60, dtype, low=0, high=3)
    A[A == 0] = -0.0
    assert np.signbit(A).any()
    check(A, "int16")
    A[17, 23] = 999.5
    check(A, None)
    A[17, 23] = np.nan
    with pytest.raises(DomainError, match=r"A\[17, 23\] is nan"):
        closure(on_device(A))


@pytest.mark.parametrize("dtype", WIDE)
def test_negative_weights_stay_wide(rng, dtype):
    A = graph(rng, 50, dtype, low=5)
    A[3, 4] = -1
    check(A, None)


@pytest.mark.full
@pytest.mark.parametrize("dtype", WIDE)
def test_several_parts_go_by_the_greatest_edge(rng, dtype):
    n, eight = 40, np.dtype(dtype).itemsize == 8
    none = oracles.zero("min_plus", np.dtype(dtype))
    A = np.full((n, n), none, dtype)
    A[:20, :20], A[20:, 20:] = graph(rng, 20, dtype), graph(rng, 20, dtype)
    for greatest, expected in ((INT16 // n, "int16"), (INT16 // n + 1, "int32" if eight else None)):
        B = np.where(none > A, np.minimum(A, greatest), none).astype(dtype)
        B[0, 1] = greatest
        check(B, expected)
        check(B, expected, reflexive=False)


@pytest.mark.parametrize(("dtype", "limit", "expected_below", "expected_above"), [
    ("float32", INT16, "int16", None),
    ("int32", INT16, "int16", None),
    ("float64", INT16, "int16", "int32"),
    ("int64", INT16, "int16", "int32"),
    ("float64", INT32, "int32", None),
    ("int64", INT32, "int32", None),
])  # fmt: skip
@pytest.mark.full
def test_at_the_limit(rng, dtype, limit, expected_below, expected_above):
    """The bound of two stars around vertex 0 is the greatest distance, from one leaf to another."""
    for excess, expected in ((0, expected_below), (1, expected_above)):
        A = np.full((30, 30), oracles.zero("min_plus", np.dtype(dtype)), dtype)
        A[0, 1:], A[1:, 0] = rng.integers(1, limit // 3, 29), rng.integers(1, limit // 3, 29)
        A[0, 7], A[9, 0] = limit // 2, limit - limit // 2 + excess
        assert closure(A)[9, 7] == limit + excess
        for reflexive in (True, False):
            check(A, expected, reflexive=reflexive)
        A[7, 9] = 10 * limit  # more than the bound, so it is on no best path
        check(A, expected)


def test_sweeps_find_what_the_greatest_edge_does_not(rng):
    """Sweeps find distances within the range although some weights lie beyond it, some hops from vertex 0."""
    A = graph(rng, 200, "float64", edges=8, low=1, high=40)
    A[rng.random(A.shape) < 0.3] = 1e9
    order = rng.permutation(200)
    A[order, np.roll(order, -1)] = 20
    check(A, "int16")


@pytest.mark.filterwarnings("ignore::semiring.errors.SuspiciousWeightsWarning")
@pytest.mark.full
def test_sweeps_end_early(rng, monkeypatch):
    """A chain through all vertices is given up after a few sweeps, and one dtype later by its greatest edge."""
    sweeps = []
    one = narrow_integers._Lengths.sweep
    monkeypatch.setattr(narrow_integers._Lengths, "sweep", lambda self: sweeps.append(one(self)))
    n, none = 200, np.inf
    chain = np.full((n, n), none)
    chain[np.arange(n), (np.arange(n) + 1) % n] = 100.0
    check(chain, "int32")
    assert 0 < len(sweeps) <= 8  # of two calls
    sweeps.clear()
    check(chain.astype(np.float32), None)
    assert 0 < len(sweeps) <= 8
    sweeps.clear()
    check(np.triu(np.full((n, n), 100.0)), "int16")  # zeros below: one sweep sees that
    assert len(sweeps) <= 2


@pytest.mark.parametrize("method", ["rkleene", "blocked_floyd_warshall"])
def test_only_auto_and_only_with_a_look(rng, method):
    A = graph(rng, 40, "float64")
    check(A, None, method=method)
    _, explanation = closure(on_device(A), check=False, explain=True)
    assert not any("closed in" in reason for reason in explanation.reasons)
    _, explanation = closure(A, explain=True)
    assert not any("closed in" in reason for reason in explanation.reasons)


@pytest.mark.parametrize("view", ["transposed", "columns", "reversed", "rows", "stack"])
def test_strides(rng, view):
    A = graph(rng, 41, "float32")
    expected = closure(A)
    if view == "stack":
        stack = on_device(np.stack([A, A.T.copy()]))
        np.testing.assert_array_equal(closure(stack).get(), np.stack([expected, expected.T]))
        return
    memory = np.full((82, 82), 7, np.float32)
    chosen = {
        "transposed": memory[:41, :41].T,
        "columns": memory[:41, ::2],
        "reversed": memory[:41, :41][::-1, ::-1],
        "rows": memory[::2, 20:61],
    }[view]
    chosen[...] = A
    for out in (None, on_device(chosen)):
        result = closure(on_device(chosen), out=out)
        np.testing.assert_array_equal(result.get(), expected)
    chosen[...] = 7
    assert (memory == 7).all()  # nothing was written beside the matrix


@pytest.mark.full
@pytest.mark.parametrize("dtype", WIDE)
def test_predecessors(rng, dtype):
    A = graph(rng, 90, dtype, edges=5, low=0, high=6)
    D, pred = closure_with_predecessors(on_device(A), sr.min_plus)
    np.testing.assert_array_equal(D.get(), closure(A))
    check_predecessors(A, D.get(), pred.get())


def test_progress(rng):
    seen = []
    A = graph(rng, 300, "float64")
    closure(on_device(A), progress=lambda done, total: seen.append((done, total)))
    assert seen[-1][0] == seen[-1][1]


@pytest.mark.full
@given(st.data())
def test_what_is_proven_holds(data):
    """The bound holds for distances and cycles, and the dtype is the narrowest that holds the bound."""
    n = data.draw(st.integers(1, 7))
    weight = st.one_of(st.integers(0, 20), st.integers(0, 1 << 15), st.integers(0, 1 << 31), st.just(np.inf))
    A = np.array(data.draw(st.lists(st.lists(weight, min_size=n, max_size=n), min_size=n, max_size=n)), np.float64)
    found = find_narrow_dtype(on_device(A), 1, None, [np.dtype(np.int16), np.dtype(np.int32)])
    expected, cycles = closure(A), closure(A, reflexive=False)
    if found is not None:
        dtype, bound = found
        assert bound <= {2: INT16, 4: INT32}[dtype.itemsize]
        assert max(np.max(x, where=np.isfinite(x), initial=0) for x in (expected, cycles)) <= bound
    for reflexive, closed in ((True, expected), (False, cycles)):
        assert closure(on_device(A), reflexive=reflexive).get().tobytes() == closed.tobytes()
