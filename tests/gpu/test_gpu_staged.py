"""Test the closures in CUDA C++ on a GPU: blocks in one launch. Needs CuPy alone, not the CUTLASS DSL."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from devices import OnDevice, move_to_device
from operands import CASES, closable, entries, laid_out, nilpotent, pack_words, to_kernel_form
from variants import ALL_STEPS

from semiring import CATALOGUE, Semiring
from semiring.kernels.cuda import closing as staged
from semiring.kernels.cuda.closing import blocks
from semiring.kernels.cuda.closing import look_ahead as kernels
from semiring.kernels.cuda.closing import paper_kernels as papers
from semiring.kernels.cuda.closing.staged_stacks import close_stack
from semiring.kernels.engine import Engine, make_plan
from semiring.kernels.reference import ReferenceBackend

pytestmark = pytest.mark.gpu

SIZES = (1, 2, 31, 32, 33, 64, 65, 127, 128, 129)
LAYOUTS = ("rows", "columns", "strided", "reversed")


class StagedBackend:
    """A backend with the functions of the kernel contract that this package provides."""

    name = "staged"

    def supports(self, semiring, dtype, storage="elements"):
        return True

    def close_block(self, plan, A):
        staged.close_block(plan, A)


def engines(semiring, dtype, **facts):
    """Return the engines of this package and of the reference backend."""
    plan = make_plan(semiring, dtype, **facts)
    return Engine(OnDevice(StagedBackend()), plan), Engine(ReferenceBackend(), make_plan(semiring, dtype, **facts))


def matrix(rng, name, dtype, n):
    """Return a matrix whose closure exists: acyclic, or with cycles that do not improve."""
    if CATALOGUE[name].idempotent:
        return to_kernel_form(entries(rng, name, dtype, (n, n), tame=True), name)
    return to_kernel_form(nilpotent(rng, name, dtype, n), name)


def agree(actual, expected, semiring):
    """Check for identical bits. Inexact functions (exp, log) and contracted sums agree to rounding."""
    __tracebackhide__ = True
    if semiring.idempotent or actual.dtype.kind != "f":
        np.testing.assert_array_equal(actual, expected)
    else:
        tolerance = 1e-12 if actual.dtype == np.float64 else 2e-5
        np.testing.assert_allclose(actual, expected, rtol=tolerance, atol=tolerance)


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
        expected, found = pack_words(A), pack_words(A, 1)
        theirs.close_block(expected)
        ours.close_block(found)
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    ("name", "dtype", "loop"),
    [("min_plus", "float32", -1), ("max_plus", "int16", 1), ("max_times", "float64", 2), ("xor_and", "bool", True)],
)
@pytest.mark.parametrize("n", [5, 40, 128, 150])
def test_a_pivot_without_a_star_is_named(name, dtype, loop, n):
    import cupy

    for first in (0, 1000):
        plan = make_plan(CATALOGUE[name], dtype)
        A = cupy.full((n, n), plan.zero, dtype)
        A[3, 3] = A[n - 1, n - 1] = loop
        plan.status.word, plan.status.first_vertex = cupy.full(1, -1, np.int32), first
        staged.close_block(plan, A)
        assert plan.status.read() == first + 3


def test_nobody_need_ask_for_the_status():
    import cupy

    plan = replace(make_plan(CATALOGUE["min_plus"], "float32"))
    A = cupy.full((3, 3), -1, np.float32)
    staged.close_block(plan, A)
    assert plan.status.diverged == -1


# ------------------------------------------------------------------------------------------------- whole closures

CLOSURES = [
    *(("min_plus", dtype) for dtype in ("float32", "float64", "float16", "int32", "int64", "int16")),
    *(("max_plus", dtype) for dtype in ("float32", "int32")),
    *(("max_min", dtype) for dtype in ("float32", "int32", "uint8", "int16")),
    *(("min_max", dtype) for dtype in ("float64", "uint8")),
    *(("max_times", dtype) for dtype in ("float32", "float64")),
    ("boolean", "bool"),
    ("lukasiewicz", "float32"),
]
AWKWARD = {"look_ahead": (0, 1, 63, 65, 127, 128, 193, 260)}  # in stages of 64, while stages of papers are 32 or less
EVERY_KERNEL = ("look_ahead", *papers.KERNELS)


def on_device(array):
    import cupy

    return cupy.asarray(array)


def close_by(plan, A, kernel, **options):
    """Compute A ← A* by a kernel of a paper, by the look-ahead kernel, or with None by the fastest kernel."""
    if kernel in papers.KERNELS:
        papers.close(plan, A, kernel, **options)
    else:
        staged.close(plan, A, look_ahead=kernel is not None)


def close_on_device(plan, A, kernel, **options):
    import cupy

    plan.status.word = cupy.full(1, -1, np.int32)
    plan.status.diverged = -1
    found = on_device(A)
    close_by(plan, found, kernel, **options)
    plan.status.read()
    return found.get()


@pytest.mark.parametrize("kernel", EVERY_KERNEL)
@pytest.mark.parametrize(("name", "dtype"), CLOSURES)
def test_closures(kernel, name, dtype, rng):
    for index, n in enumerate(AWKWARD.get(kernel, (0, 1, 31, 65, 96, 130))):
        plan = make_plan(CATALOGUE[name], dtype, nonnegative=name == "min_plus" and index % 2 == 0)
        A = matrix(rng, name, dtype, n)
        expected = A.copy()
        ReferenceBackend().close_block(make_plan(CATALOGUE[name], dtype), expected)
        np.testing.assert_array_equal(close_on_device(plan, A, kernel), expected, f"n = {n}")
        assert plan.status.diverged == -1


@pytest.mark.parametrize(("name", "dtype"), [("min_plus", "float32"), ("max_min", "float32"), ("min_plus", "int32")])
def test_large_tiles(name, dtype, rng):
    """Tiles grow from 1025, 1409 and 1537 rows on, and from 2049 on no tile is held. Results are those of the host."""
    from semiring import closure

    for n in (1030, 1536, 1801, 2051):
        A = matrix(rng, name, dtype, n)
        plan = make_plan(CATALOGUE[name], dtype, nonnegative=name == "min_plus")
        outer = A.copy()
        if np.dtype(dtype).kind == "i":
            outer[plan.zero == A] = CATALOGUE[name].zero_for(dtype)
        expected = closure(outer, name)
        found = close_on_device(plan, A, "look_ahead")
        if np.dtype(dtype).kind == "i":
            found[found == plan.zero] = CATALOGUE[name].zero_for(dtype)
        np.testing.assert_array_equal(found, expected)


WIDE = [("min_plus", "float64"), ("max_plus", "float64"), ("max_min", "float64"), ("max_times", "float64")]


@pytest.mark.parametrize(("name", "dtype"), [*WIDE, ("min_plus", "int64"), ("max_min", "int16")])
def test_one_matrix_by_two_launches_a_stage(name, dtype, rng, monkeypatch):
    """A matrix is closed as a stack of one, and by default where that is expected to be fastest, in every layout."""
    import cupy

    plan = make_plan(CATALOGUE[name], dtype, nonnegative=name == "min_plus")
    taken = []
    monkeypatch.setattr(kernels, "close_stack", lambda plan, A: taken.append(A.shape) or close_stack(plan, A))
    monkeypatch.setattr(kernels, "SINGLE_MATRIX_ITEMSIZES", {plan.dtype.itemsize})
    for index, n in enumerate((65, 104, 105, 127, 128, 191, 193, 257, 320, 449)):
        A = matrix(rng, name, dtype, n)
        expected = A.copy()
        ReferenceBackend().close_block(make_plan(CATALOGUE[name], dtype), expected)
        alone, chosen = cupy.asarray(A)[None], move_to_device(laid_out(A, LAYOUTS[index % 4]), {})
        staged.close(plan, alone)
        np.testing.assert_array_equal(alone.get()[0], expected, f"n = {n}")
        before = len(taken)
        staged.close(plan, chosen)
        few = n <= blocks.single_block_rows(staged.arithmetic_of(plan))
        assert taken[before:] == ([] if few else [(1, n, n)])  # few rows: by one thread block
        np.testing.assert_array_equal(chosen.get(), expected, f"n = {n}")


@pytest.mark.parametrize(("name", "dtype"), WIDE)
@pytest.mark.parametrize("n", [1025, 1471])
def test_large_matrices_of_wide_elements(name, dtype, n, rng):
    """The default kernel and look-ahead agree with the host, and rounded sums have identical bits in every run."""
    from semiring import closure

    plan = make_plan(CATALOGUE[name], dtype, nonnegative=name == "min_plus")
    A = matrix(rng, name, dtype, n)
    expected = closure(A, name)
    for kernel in (None, "look_ahead"):
        np.testing.assert_array_equal(close_on_device(plan, A, kernel), expected)
        assert plan.status.diverged == -1
    if name == "min_plus":
        A = rng.random((n, n))
        results = {close_on_device(plan, A, None).tobytes() for _ in range(3)}
        assert len(results) == 1


@pytest.mark.parametrize("name", ["min_plus", "max_plus"])
def test_a_candidate_that_is_undefined_is_dropped(name, rng):
    """The candidate ∞ ⊗ -∞ is NaN, which is no path."""
    import cupy

    plan, n = make_plan(CATALOGUE[name], "float64"), 200
    A = rng.choice([np.inf, -np.inf, 1, 2, 3], (n, n))
    A[np.tri(n, dtype=bool)] = plan.zero  # no cycle
    expected = A.copy()
    ReferenceBackend().close_block(plan, expected)
    assert not np.isnan(expected).any()
    for kernel in ("harish_narayanan", "lund_smith", "look_ahead", None):
        np.testing.assert_array_equal(close_on_device(plan, A, kernel), expected, f"{kernel}")
    small = cupy.asarray(A[:100, :100])
    staged.close_block(plan, small)
    np.testing.assert_array_equal(small.get(), expected[:100, :100])


def test_strides_of_every_kind(rng):
    plan = make_plan(CATALOGUE["min_plus"], "float32", nonnegative=True)
    A = matrix(rng, "min_plus", "float32", 192)
    expected = A.copy()
    ReferenceBackend().close_block(plan, expected)
    for kernel in EVERY_KERNEL:
        for layout in LAYOUTS:
            found = move_to_device(laid_out(A, layout), {})
            close_by(plan, found, kernel)
            np.testing.assert_array_equal(found.get(), expected, f"{kernel}, {layout}")


@pytest.mark.parametrize(
    ("kernel", "options"),
    [("lund_smith", {}), ("lund_smith", ALL_STEPS), ("gaioso", {}), ("gaioso", {"threads": 256}), ("look_ahead", {})],
)
def test_the_same_bits_run_after_run(kernel, options, rng):
    A = rng.random((4097, 4097)).astype(np.float32)
    plan = make_plan(CATALOGUE["min_plus"], "float32", nonnegative=True)
    first = close_on_device(plan, A, kernel, **options)
    for _ in range(2):
        assert first.tobytes() == close_on_device(plan, A, kernel, **options).tobytes()


@pytest.mark.parametrize(
    ("kernel", "dtype"),
    [
        *((kernel, "float32") for kernel in ("harish_narayanan", "lund_smith_unrolled", "gaioso", "look_ahead")),
        *(("look_ahead", "float64"), (None, "float64"), (None, "int64")),
    ],
)
def test_a_cycle_that_improves_is_named(kernel, dtype):
    plan = make_plan(CATALOGUE["min_plus"], dtype)
    A = np.full((300, 300), plan.zero, dtype)
    A[200, 210], A[210, 200] = -2, 1
    plan.status.first_vertex = 1000
    close_on_device(plan, A, kernel)
    assert plan.status.diverged - 1000 in ((210,) if kernel in ("look_ahead", None) else (200, 210))


def test_what_the_kernels_refuse(rng):
    import cupy

    from semiring.errors import AlgebraError, UnknownNameError

    A = cupy.zeros((3, 3), np.float32)
    with pytest.raises(AlgebraError, match="idempotent"):
        staged.close(make_plan(CATALOGUE["plus_times"], "float32"), A)
    with pytest.raises(UnknownNameError, match="katz_kider"):
        papers.close(make_plan(CATALOGUE["min_plus"], "float32"), A, "7")
    unbounded = Semiring("unbounded", "min(x, y)", "x + y", np.inf, 0, "where(x >= 0, 0, -inf)")
    for semiring, said in ((CATALOGUE["plus_times"], "idempotent"), (unbounded, "whose star is 1")):
        with pytest.raises(AlgebraError, match=said):
            papers.close(make_plan(semiring, "float32"), A, "gaioso")
    bits = make_plan(CATALOGUE["boolean"], "bool", storage="bits")
    with pytest.raises(AlgebraError, match="packed"):
        staged.close(bits, cupy.zeros((3, 1), np.uint32))


@pytest.mark.parametrize("blocks", range(1, 9))
def test_blocks_of_gaioso_on_each_multiprocessor(blocks, rng):
    plan = make_plan(CATALOGUE["min_plus"], "float32", nonnegative=True)
    A = matrix(rng, "min_plus", "float32", 520)
    expected, found = on_device(A), on_device(A)
    staged.close(plan, expected)
    for options in ({}, {"threads": 256}):
        found = on_device(A)
        papers.close(plan, found, "gaioso", blocks=blocks, **options)
        np.testing.assert_array_equal(found.get(), expected.get())


@pytest.mark.parametrize(
    ("name", "dtype"), [("min_plus", "float32"), ("plus_times", "float64"), ("max_min", "uint8"), ("boolean", "bool")]
)
def test_the_plain_product(name, dtype, rng):
    plan = make_plan(CATALOGUE[name], dtype)
    for m, k, n in ((1, 1, 1), (17, 33, 70), (130, 16, 65), (3, 0, 2)):
        A, B, C = (
            rng.integers(0, 2 if dtype == "bool" else 9, shape).astype(dtype) for shape in ((m, k), (k, n), (m, n))
        )
        expected = C.copy()
        ReferenceBackend().multiply_add(plan, expected, A, B)
        for layout in LAYOUTS:
            found = move_to_device(laid_out(C, layout), {})
            papers.multiply_add_plain(plan, found, on_device(A), move_to_device(laid_out(B, layout), {}))
            np.testing.assert_array_equal(found.get(), expected)
