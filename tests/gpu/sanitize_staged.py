"""Run GPU closures for compute-sanitizer: those of papers, look-ahead in every shape, blocks, predecessors.

    export PYTHONPATH=.:tests/support
    compute-sanitizer --tool memcheck --report-api-errors no --error-exitcode 1 python tests/gpu/sanitize_staged.py
    compute-sanitizer --tool racecheck --error-exitcode 1 python tests/gpu/sanitize_staged.py

Arguments are the parts to run: see `PARTS`. Without any, all of them run. Run it once without the sanitizer before. The
kernels then come from disk, and the sanitizer does not see their compilation. racecheck checks shared memory.
test_staged_on_host.py shows that no thread block of a launch reads what another block of it writes, so small matrices
suffice here.
"""

from __future__ import annotations

import sys
from unittest.mock import patch

import cupy
import numpy as np
from operands import entries, pack_words, to_kernel_form
from variants import VARIANTS

from semiring import CATALOGUE
from semiring.kernels.contract import KernelPlan
from semiring.kernels.cuda import closing as staged
from semiring.kernels.cuda.closing import look_ahead as kernels
from semiring.kernels.cuda.closing import paper_kernels
from semiring.kernels.cuda.predecessor_kernels import find_predecessors, find_tree
from semiring.kernels.engine import make_plan
from semiring.kernels.reference import ReferenceBackend
from semiring.kernels.tolerance import tolerance_for
from semiring.testing import check_predecessors

CASES = [("min_plus", "float32", True), ("max_min", "int16", False), ("max_times", "float64", False)]
HELD = ((128, 64), (128, 128), (192, 128), (256, 128))
SHAPES = [
    *(kernels.LookAheadTiles(*tile, True) for tile in HELD),
    *(kernels.LookAheadTiles(*tile, False) for tile in HELD[:2]),
]


def case(name: str, dtype: str, nonnegative: bool, n: int) -> tuple[KernelPlan, np.ndarray, np.ndarray]:
    """Return a plan with a word for its status, a matrix, and its closure."""
    plan = make_plan(CATALOGUE[name], dtype, nonnegative=nonnegative)
    rng = np.random.default_rng(n)
    A = to_kernel_form(entries(rng, name, dtype, (n, n), tame=True), name)
    expected = A.copy()
    ReferenceBackend().close_block(make_plan(CATALOGUE[name], dtype), expected)
    plan.status.word = cupy.full(1, -1, np.int32)
    return plan, A, expected


def papers() -> None:
    """Run the kernels of the papers and their variants, at a size that tiles do not divide."""
    for kernel, options in VARIANTS:
        for name, dtype, nonnegative in CASES[:2]:
            plan, A, expected = case(name, dtype, nonnegative, 131)
            found = cupy.asarray(A)
            paper_kernels.close(plan, found, kernel, **options)
            np.testing.assert_array_equal(found.get(), expected)


def look_ahead() -> None:
    """Run the look-ahead kernel in each of its shapes, some of which are for larger matrices."""
    for name, dtype, nonnegative in (CASES[0], ("min_plus", "int32", True)):
        plan, A, expected = case(name, dtype, nonnegative, 260)
        for shape in SHAPES:
            with patch.object(kernels, "look_ahead_shape", lambda *_, shape=shape: shape):
                kernels.launch_configuration.cache_clear()
                found = cupy.asarray(A)
                staged.close(plan, found, look_ahead=True)
            np.testing.assert_array_equal(found.get(), expected)


def close_blocks(cases: list[tuple[str, str, bool]], sizes: tuple[int, ...]) -> None:
    """Close one block, in both orders of its entries."""
    for name, dtype, nonnegative in cases:
        for n in sizes:
            plan, A, expected = case(name, dtype, nonnegative, n)
            found, again = cupy.asarray(A), cupy.asarray(A.T).T
            staged.close_block(plan, found)
            staged.close_block(plan, again)
            np.testing.assert_array_equal(found.get(), expected)
            np.testing.assert_array_equal(again.get(), expected)


def blocks() -> None:
    """Close blocks in registers, a stack of them, and a stack of matrices of several blocks."""
    close_blocks(CASES, (64, 100))
    for n in (100, 140):
        plan, A, expected = case(*CASES[0], n)
        stack = cupy.asarray(np.stack([A, A, A]))
        staged.close(plan, stack)
        np.testing.assert_array_equal(stack.get(), np.stack([expected] * 3))


def large_blocks() -> None:
    """Close the smallest block beyond the registers: racecheck took more than a minute for some of 200 rows."""
    close_blocks(CASES[:1], (129,))


def bits() -> None:
    """Close matrices of packed bits."""
    for n in (70, 200):
        plan = make_plan(CATALOGUE["boolean"], "bool", storage="bits")
        expected = pack_words(np.random.default_rng(n).random((n, n)) < 1.5 / n)
        found = cupy.asarray(expected)
        ReferenceBackend().close_block(plan, expected)
        staged.close_block(plan, found)
        np.testing.assert_array_equal(found.get(), expected)


def predecessors() -> None:
    """Search predecessors of all pairs, and of the paths from one vertex."""
    for dtype in ("float32", "int32"):
        n = 150
        plan, A, D = case("min_plus", dtype, True, n)
        weights, closed = cupy.asarray(A), cupy.asarray(D)
        tolerance = tolerance_for(plan, D)
        found = find_predecessors(plan, closed, tolerance, weights)
        tree = find_tree(plan, closed, weights, tolerance, 7)
        graph, distances = A.astype(np.float64), D.astype(np.float64)
        graph[plan.zero == A], distances[plan.zero == D] = np.inf, np.inf
        for rows in (found.get(), np.vstack([found.get()[:7], tree.get()[None], found.get()[8:]])):
            check_predecessors(graph, distances, rows)


PARTS = {part.__name__: part for part in (papers, look_ahead, blocks, large_blocks, bits, predecessors)}


def main() -> None:
    chosen = sys.argv[1:] or list(PARTS)
    for part in chosen:
        PARTS[part]()
    cupy.cuda.Device().synchronize()
    print(f"{', '.join(chosen)} ran")


if __name__ == "__main__":
    main()
