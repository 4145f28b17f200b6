"""The closures in CUDA C++ on a GPU: blocks in one launch. Needs CuPy alone, not the CUTLASS DSL."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from devices import OnDevice
from test_contract import CASES, SELECTIVE, closable, entries, inside, laid_out, nilpotent, packed

from semiring import CATALOGUE, Semiring
from semiring.kernels.cuda import staged
from semiring.kernels.engine import Engine, make_plan
from semiring.kernels.reference import ReferenceBackend

pytestmark = pytest.mark.gpu

SIZES = (1, 2, 31, 32, 33, 64, 65, 127, 128, 129)
LAYOUTS = ("rows", "columns", "strided", "reversed")


class Staged:
    """What this package provides of the kernel contract."""

    name = "staged"

    def supports(self, semiring, dtype, storage="elements"):
        return True

    def close_block(self, plan, A):
        staged.close_block(plan, A)

    def close_block_pivots(self, plan, A, P, k0):
        staged.close_block(plan, A, P, k0)


def engines(semiring, dtype, **facts):
    """This package's, and the reference's."""
    plan = make_plan(semiring, dtype, **facts)
    return Engine(OnDevice(Staged()), plan), Engine(ReferenceBackend(), make_plan(semiring, dtype, **facts))


def matrix(rng, name, dtype, n):
    """One whose closure exists: acyclic, or of cycles that do not improve."""
    if CATALOGUE[name].idempotent:
        return inside(entries(rng, name, dtype, (n, n), tame=True), name)
    return inside(nilpotent(rng, name, dtype, n), name)


def agree(found, expected, semiring):
    """Bit for bit; inexact functions (exp, log) and contracted sums to rounding."""
    __tracebackhide__ = True
    if semiring.idempotent or found.dtype.kind != "f":
        np.testing.assert_array_equal(found, expected)
    else:
        tolerance = 1e-12 if found.dtype == np.float64 else 2e-5
        np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)


HALVES = [(name, "float16") for name in ("min_plus", "max_plus", "max_min", "min_max", "max_times")]


@pytest.mark.parametrize(("name", "dtype"), [*(case for case in CASES if closable(*case)), *HALVES])
def test_blocks(name, dtype, rng):
    for index, n in enumerate(SIZES):
        ours, theirs = engines(CATALOGUE[name], dtype, nonnegative=name == "min_plus" and index % 2 == 0)
        A = matrix(rng, name, dtype, n)
        expected, found = A.copy(), laid_out(A, LAYOUTS[index % 4])
        theirs.close_block(expected)
        ours.close_block(found)
        agree(found, expected, CATALOGUE[name])
        assert ours.plan.status.diverged == -1


@pytest.mark.parametrize(("name", "dtype"), SELECTIVE)
def test_blocks_with_pivots(name, dtype, rng):
    for index, n in enumerate(SIZES):
        ours, theirs = engines(CATALOGUE[name], dtype)
        A = matrix(rng, name, dtype, n)
        P = np.full(A.shape, -1, np.int32)
        expected, pivots = A.copy(), P.copy()
        found, marks = laid_out(A, LAYOUTS[index % 4]), laid_out(P, LAYOUTS[(index + 1) % 4])
        theirs.close_block_pivots(expected, pivots, 64)
        ours.close_block_pivots(found, marks, 64)
        np.testing.assert_array_equal(found, expected)
        np.testing.assert_array_equal(marks, pivots)


def test_a_semiring_of_the_users_own(rng):
    reliability = Semiring("reliability", "max(x, y)", "x * y", 0, 1, domain=(0, 1))
    heavy = Semiring("heavy", "max(x, y)", "where(x * y > 0.5, x * y, min(x, y) * max(x, y))", 0, 1, domain=(0, 1))
    for semiring in (reliability, heavy):
        for n in SIZES:
            ours, theirs = engines(semiring, "float32")
            A = np.exp2(-rng.integers(0, 5, (n, n))).astype(np.float32)
            expected, found = A.copy(), A.copy()
            theirs.close_block(expected)
            ours.close_block(found)
            np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("name", ["boolean", "max_min", "xor_and"])
def test_packed_blocks(name, rng):
    for n in (1, 31, 33, 64, 200, 1000):
        ours, theirs = engines(CATALOGUE[name], "bool", storage="bits")
        A = rng.random((n, n)) < 1.5 / n if name != "xor_and" else nilpotent(rng, name, "bool", n)
        expected, found = packed(A), packed(A, 1)
        theirs.close_block(expected)
        ours.close_block(found)
        np.testing.assert_array_equal(found, expected)
        if name != "xor_and":
            P, marks = (np.full((n, n), -1, np.int32) for _ in range(2))
            expected, found = packed(A), packed(A, 1)
            theirs.close_block_pivots(expected, marks, 5)
            ours.close_block_pivots(found, P, 5)
            np.testing.assert_array_equal(P, marks)


@pytest.mark.parametrize(
    ("name", "dtype", "loop"),
    [("min_plus", "float32", -1), ("max_plus", "int16", 1), ("max_times", "float64", 2), ("xor_and", "bool", True)],
)
@pytest.mark.parametrize("n", [5, 40, 128, 150])
def test_a_pivot_without_a_star_is_named(name, dtype, loop, n):
    for first in (0, 1000):
        ours, _ = engines(CATALOGUE[name], dtype)
        A = np.full((n, n), ours.plan.zero, dtype)
        A[3, 3] = A[n - 1, n - 1] = loop
        ours.plan.status.first = first
        ours.close_block(A)
        assert ours.plan.status.diverged == first + 3


def test_nobody_need_ask_for_the_status():
    import cupy

    plan = replace(make_plan(CATALOGUE["min_plus"], "float32"))
    A = cupy.full((3, 3), -1, np.float32)
    staged.close_block(plan, A)
    assert plan.status.diverged == -1
