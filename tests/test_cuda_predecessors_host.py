"""The kernels that find predecessors on a GPU, run on the host, threads and blocks in both orders."""

from __future__ import annotations

import re

import numpy as np
import pytest
from cuda_on_host import HostKernels, needs_compiler
from test_predecessors import check, zero_of

from semiring.catalogue import as_semiring
from semiring.closures import closure
from semiring.kernels.cuda.staged.modules import compile_for
from semiring.kernels.cuda.staged.sources import arithmetic_of, source
from semiring.kernels.engine import make_plan
from semiring.kernels.tolerance import tolerance_for

pytestmark = needs_compiler
PIECE = 16


def defines(tolerance):
    chosen = {"EXACT": tolerance.exact, "RELATIVE": tolerance.relative, "ROW_IN_SHARED": True}
    return tuple(name for name, wanted in chosen.items() if wanted)


@pytest.fixture(scope="module")
def kernels_for(tmp_path_factory):
    known = {}

    def get(plan, tolerance):
        text = source("predecessors.cu", arithmetic_of(plan), defines(tolerance))
        if text not in known:
            known[text] = HostKernels(text, tmp_path_factory.mktemp("kernels"))
        return known[text]

    return get


def predecessors(kernels, D, before, tolerance, *, threads=32, backwards=False, all_by_repair=False):
    """As `semiring.kernels.cuda.predecessors.find_predecessors`; (pred, how many rows were repaired, failed)."""
    n = len(D)
    limits = np.array([*tolerance.tight, *tolerance.loose, *tolerance.bound])
    matrices = (D, np.int64(n), before, np.int64(n), np.int32(n))
    pieces = -(-n // PIECE)
    counts, improves = np.empty((n, pieces), np.int32), np.zeros(1, np.int32)
    pred, flagged = np.empty((n, n), np.int32), np.full(n, all_by_repair, np.uint8)
    grid = (-(-n // 64), pieces, 1)

    def launch(name, grid, threads, *arguments):
        kernels.launch(name, grid, (threads, 1, 1), (*matrices, *arguments), backwards=backwards)

    launch("count_edges", grid, 64, np.int32(PIECE), limits, counts, improves)
    ends = np.cumsum(counts.ravel(), dtype=np.int64)
    sources, weights = np.full(int(ends[-1]) + 1, -1, np.int32), np.empty(int(ends[-1]) + 1, D.dtype)
    launch("fill_edges", grid, 64, np.int32(PIECE), limits, ends, sources, weights)
    if not all_by_repair:
        edges = (ends, np.int32(pieces), sources, weights, limits, improves, pred, flagged)
        launch("last_edges", (n, 1, 1), threads, *edges)
    failed, blocks = np.zeros(1, np.int32), 3
    scratch = np.empty((blocks, n)), np.empty((blocks, n), np.int32)
    launch("repair_trees", (blocks, 1, 1), threads, limits, pred, flagged, *scratch, failed)
    return pred, int(flagged.sum()), bool(failed[0])


def find(kernels_for, name, A, **options):
    semiring = as_semiring(name)
    nonnegative = A.dtype.kind == "f" and name in ("min_plus", "max_times") and bool((A >= 0).all())
    plan = make_plan(semiring, A.dtype, nonnegative=nonnegative)
    D = closure(A, semiring)
    if A.dtype.kind == "i" and semiring.tropical:
        inner = plan.zero
        D, A = np.where(semiring.zero_for(A.dtype) == D, inner, D), np.where(semiring.zero_for(A.dtype) == A, inner, A)
    tolerance = tolerance_for(plan, D)
    found = predecessors(kernels_for(plan, tolerance), D, A, tolerance, **options)
    again = predecessors(kernels_for(plan, tolerance), D, A, tolerance, **{**options, "backwards": True})
    np.testing.assert_array_equal(found[0], again[0])
    return D, *found


def graph(rng, name, dtype, n, density, kind):
    zero = zero_of(name, np.dtype(dtype))
    if dtype == "bool":
        return rng.random((n, n)) < density / 3
    if kind == "ties":
        values = rng.integers(0, 4, (n, n)).astype(dtype)
    elif kind == "zeros":
        values = (rng.integers(0, 3, (n, n)) // 2).astype(dtype)
    else:
        values = rng.random((n, n)).astype(dtype)
    if name == "max_times":
        values = np.where(values > 1, 1, values).astype(dtype)
    values[rng.random((n, n)) > density] = zero
    return values


@pytest.mark.parametrize(
    ("name", "dtype", "kind"),
    [
        ("min_plus", "float32", "random"),
        ("min_plus", "float32", "zeros"),
        ("min_plus", "float64", "random"),
        ("min_plus", "int32", "ties"),
        ("max_min", "float32", "random"),
        ("max_min", "float64", "random"),
        ("max_min", "int16", "ties"),
        ("max_times", "float32", "random"),
        ("boolean", "bool", "ties"),
        ("lukasiewicz", "float64", "random"),
    ],
)
def test_trees_of_best_paths(rng, kernels_for, name, dtype, kind):
    for n, density in ((1, 1.0), (2, 1.0), (33, 0.1), (65, 1.0), (97, 0.04)):
        A = graph(rng, name, dtype, n, density, kind)
        for by_repair in (False, True):
            D, pred, _, failed = find(kernels_for, name, A, all_by_repair=by_repair)
            assert not failed
            zero = zero_of(name, A.dtype)
            outer = as_outer(name, A, D)
            check(name, np.where(zero == A, zero, A), outer, pred, absolute=1e-14 if name == "lukasiewicz" else 0.0)


def as_outer(name, A, D):
    if A.dtype.kind == "i" and name == "min_plus":
        return np.where(np.iinfo(A.dtype).max // 2 == D, np.iinfo(A.dtype).max, D)
    return D


def test_random_weights_need_no_repair(rng, kernels_for):
    A = rng.random((130, 130)).astype(np.float32)
    _, _, repaired, failed = find(kernels_for, "min_plus", A)
    assert not repaired
    assert not failed


def test_long_paths_and_what_is_no_closure(rng, kernels_for):
    n = 120
    A = np.full((n, n), np.inf, np.float32)
    A[np.arange(n - 1), np.arange(1, n)] = rng.random(n - 1).astype(np.float32) + 0.1
    A[np.arange(1, n), np.arange(n - 1)] = rng.random(n - 1).astype(np.float32) + 0.1
    D, pred, _, failed = find(kernels_for, "min_plus", A)
    assert not failed
    check("min_plus", A, D, pred)
    plan = make_plan(as_semiring("min_plus"), np.float32, nonnegative=True)
    D[3, 100] /= 2
    tolerance = tolerance_for(plan, D)
    assert predecessors(kernels_for(plan, tolerance), D, A, tolerance)[2]


@pytest.mark.parametrize(("name", "dtype"), [("min_plus", "float32"), ("max_min", "int32"), ("max_times", "float64")])
def test_machine_code_keeps_to_registers(name, dtype):
    nvrtc = pytest.importorskip("cuda.bindings.nvrtc")
    try:
        nvrtc.nvrtcVersion()
    except RuntimeError as error:
        pytest.skip(f"NVRTC is not installed: {error}")
    plan = make_plan(as_semiring(name), np.dtype(dtype), nonnegative=name == "min_plus")
    arithmetic = arithmetic_of(plan)
    text = source("predecessors.cu", arithmetic, defines(tolerance_for(plan, np.ones((999, 999), dtype))))
    log = compile_for("sm_90a", text, arithmetic.options)[1]
    registers = [int(count) for count in re.findall(r"Used (\d+) registers", log)]
    assert len(registers) == 4
    assert max(registers) <= 64
    assert set(re.findall(r"(\d+) bytes spill", log)) <= {"0"}
