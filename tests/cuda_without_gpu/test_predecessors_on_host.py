"""Test the kernels that find predecessors on a GPU, run on the host, threads and blocks in both orders."""

from __future__ import annotations

import re
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
from cuda_on_host import HostKernels, needs_compiler, to_device
from machine_code import compile_for, needs_nvrtc, resources
from tiers import full
from trees import check, walk, zero_of

import semiring as sr
from semiring.algebra.catalogue import as_semiring
from semiring.closures import closure
from semiring.kernels import cuda, get_backend
from semiring.kernels.contract import NO_PREDECESSOR
from semiring.kernels.cuda.closing.kernel_text import arithmetic_of, source
from semiring.kernels.engine import make_plan
from semiring.kernels.tolerance import tolerance_for

pytestmark = needs_compiler
PIECE, SLICE = 16, 32
ALL_ROWS = np.int32(0), None, None  # the last arguments of last_edges for all rows, with their weights


def defines(tolerance):
    chosen = {"EXACT": tolerance.is_exact, "RELATIVE": tolerance.is_relative, "ROW_IN_SHARED": True}
    return (f"NONE ({NO_PREDECESSOR})", *(name for name, wanted in chosen.items() if wanted))


@pytest.fixture(scope="module")
def kernels_for():
    known = {}

    def get(plan, tolerance):
        text = source("predecessors.cu", arithmetic_of(plan), defines(tolerance))
        if text not in known:
            known[text] = HostKernels(text)
        return known[text]

    return get


def predecessors(
    kernels,
    plan,
    D,
    A,
    tolerance,
    *,
    threads=32,
    backwards=False,
    all_by_repair=False,
    drop_bounded_edges=False,
    longest=99,
):
    """Search as `find_predecessors` does, and return (pred, how many rows were repaired, failed).

    drop_bounded_edges: leave out edges that end no path. longest: the length up to which a list is sorted. See
    `semiring.kernels.cuda.predecessor_kernels`.
    """
    n = len(D)
    limits = np.array([*tolerance.tight, *tolerance.loose, *tolerance.bound])
    matrices = (D, np.int64(n), A, np.int64(n), np.int32(n))
    pieces, slices = -(-n // PIECE), -(-n // SLICE)
    counts, improves = np.empty((pieces, n), np.int32), np.zeros(1, np.int32)
    degrees, widths = np.empty(n, np.int32), np.empty(slices, np.int32)
    pred, flagged = np.empty((n, n), np.int32), np.full(n, all_by_repair, np.uint8)
    grid = (-(-n // 64), pieces, 1)

    def run(name, grid, threads, *arguments):
        kernels.launch(name, grid, (threads, 1, 1), arguments, backwards=backwards)

    def launch(name, grid, threads, *arguments):
        run(name, grid, threads, *matrices, *arguments)

    def count(best, worst):
        launch("count_edges", grid, 64, np.int32(PIECE), limits, best, worst, counts, improves)
        run("lay_out", (-(-n // 64), 1, 1), 64, np.int32(n), np.int32(pieces), counts, degrees, widths)

    best = worst = None
    count(best, worst)
    listed = int(degrees.sum())
    if drop_bounded_edges:
        best, worst = np.empty(n, D.dtype), np.empty(n, D.dtype)
        launch("bounds", (slices, 1, 1), 512, limits, best, worst)
        count(best, worst)
        assert degrees.sum() <= listed
    ends = np.cumsum(widths, dtype=np.int64)
    places = int(ends[-1]) * SLICE + 1
    sources, weights = np.full(places, -1, np.int32), np.empty(places, D.dtype)
    launch("fill_edges", grid, 64, np.int32(PIECE), limits, best, worst, counts, ends, sources, weights)
    as_filled = sources.copy(), weights.copy()
    run("sort_edges", (slices, 1, 1), 64, np.int32(n), np.int32(longest), degrees, ends, sources, weights)
    for j in range(n):
        is_sorted = widths[j // SLICE] <= longest
        check_list(plan, as_filled, (sources, weights), slice(*list_of(degrees, ends, j), SLICE), is_sorted)
    if not all_by_repair:
        lists = (degrees, ends, np.int32(longest), sources, weights)
        launch("last_edges", (n, 1, 1), threads, *lists, limits, improves, pred, flagged, *ALL_ROWS)
        if not drop_bounded_edges:
            by_rows = search_by_rows(kernels, D, A, lists, limits, improves, threads, backwards)
            np.testing.assert_array_equal(by_rows, np.column_stack([pred, flagged]))
    failed, blocks = np.zeros(1, np.int32), 3
    scratch = np.empty((blocks, n)), np.empty((blocks, n), np.int32)
    launch("repair_trees", (blocks, 1, 1), 8, limits, pred, flagged, *scratch, failed, np.int32(n))
    return pred, int(flagged.sum()), bool(failed[0])


def search_by_rows(kernels, D, A, lists, limits, improves, threads, backwards):
    """Collect the edges and search as `RowSearch` does, in two strips; return pred and a column of the flags."""
    n, middle = len(D), len(D) // 3
    limit = D.size
    found, has_gain, edges = np.zeros(1, np.uint64), np.zeros(1, np.int32), [np.empty(limit, np.int32) for _ in "th"]
    edges.append(np.empty(limit, D.dtype))
    strips = [slice(0, middle), slice(middle, n)] if middle else [slice(0, n)]
    for rows in strips:
        matrices = (D[rows], np.int64(n), A[rows], np.int64(n), np.int32(n), np.int32(rows.start))
        collected = (*matrices, limits, np.int32(limit), found, *edges, has_gain)
        kernels.launch("collect_edges", (rows.stop - rows.start, 1, 1), (32, 1, 1), collected, backwards=backwards)
    count = int(found[0])
    tails, heads, weights = (array[:count] for array in edges)
    degrees, ends, _, sources, listed = lists
    for j in range(n):
        places = slice(*list_of(degrees, ends, j), SLICE)
        expected = sorted(zip(sources[places].tolist(), listed[places].tolist(), strict=True))
        assert sorted(zip(tails[heads == j].tolist(), weights[heads == j].tolist(), strict=True)) == expected
    assert bool(has_gain[0]) == bool(improves[0])
    starts = np.searchsorted(np.sort(tails), np.arange(n + 1)).astype(np.int64)
    heads = heads[np.argsort(tails, kind="stable")]
    result = np.full((n, n + 1), -7, np.int32)
    for rows in strips:
        pred, flags = np.empty((rows.stop - rows.start, n), np.int32), np.empty(rows.stop - rows.start, np.uint8)
        matrices = (D[rows], np.int64(n), None, np.int64(0), np.int32(n))
        searched = (*matrices, *lists, limits, improves, pred, flags, np.int32(rows.start), starts, heads)
        kernels.launch("last_edges", (len(pred), 1, 1), (threads, 1, 1), searched, backwards=backwards)
        result[rows, :n], result[rows, n] = pred, flags
    return result


def list_of(degrees, ends, j):
    """Return the range of the edges into vertex j, of which every 32nd is one."""
    first = (int(ends[j // SLICE - 1]) if j >= SLICE else 0) * SLICE + j % SLICE
    assert j // SLICE == len(ends) - 1 or first + (int(degrees[j]) - 1) * SLICE < ends[j // SLICE] * SLICE
    return first, first + int(degrees[j]) * SLICE


def check_list(plan, unsorted_list, sorted_list, places, is_sorted):
    """Check that a list holds the same edges, first in the order of their tails, then sorted with the best first."""
    (tails, weights), (tails_after, weights_after) = (
        [array[places] for array in pair] for pair in (unsorted_list, sorted_list)
    )
    assert (np.diff(tails) > 0).all()
    assert sorted(zip(tails, weights, strict=True)) == sorted(zip(tails_after, weights_after, strict=True))
    if is_sorted:
        pairs = {"x": weights_after[:-1], "y": weights_after[1:]}
        assert (plan.semiring.add.expression.evaluate(pairs, plan.dtype) == weights_after[:-1]).all()
        tied = weights_after[:-1] == weights_after[1:]
        assert (np.diff(tails_after)[tied] > 0).all()


def find(kernels_for, name, A, **options):
    semiring = as_semiring(name)
    nonnegative = A.dtype.kind == "f" and name in ("min_plus", "max_times") and bool((A >= 0).all())
    plan = make_plan(semiring, A.dtype, nonnegative=nonnegative)
    D = closure(A, semiring)
    if A.dtype.kind == "i" and semiring.tropical:
        inner = plan.zero
        D, A = np.where(semiring.zero_for(A.dtype) == D, inner, D), np.where(semiring.zero_for(A.dtype) == A, inner, A)
    tolerance = tolerance_for(plan, D)
    found = predecessors(kernels_for(plan, tolerance), plan, D, A, tolerance, **options)
    again = predecessors(kernels_for(plan, tolerance), plan, D, A, tolerance, **{**options, "backwards": True})
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


@pytest.mark.full
@pytest.mark.parametrize(
    ("name", "dtype", "kind"),
    full(
        lambda name, dtype, kind: (
            (name, kind) in (("min_plus", "zeros"), ("boolean", "ties"), ("lukasiewicz", "random"))
        ),
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
    ),
)
@pytest.mark.filterwarnings("ignore::semiring.errors.SuspiciousWeightsWarning")
def test_trees_of_best_paths(rng, kernels_for, name, dtype, kind):
    for n, density in ((1, 1.0), (2, 1.0), (33, 0.1), (65, 1.0), (97, 0.04)):
        A = graph(rng, name, dtype, n, density, kind)
        ways = [{}, {"all_by_repair": True}]
        if n >= 65:
            ways += [{"drop_bounded_edges": True}, {"drop_bounded_edges": True, "longest": 3, "threads": 96}]
        for options in ways:
            D, pred, _, failed = find(kernels_for, name, A, **options)
            assert not failed
            zero = zero_of(name, A.dtype)
            outer = as_outer(name, A, D)
            check(name, np.where(zero == A, zero, A), outer, pred, absolute=1e-14 if name == "lukasiewicz" else 0.0)


def as_outer(name, A, D):
    if A.dtype.kind == "i" and name == "min_plus":
        return np.where(np.iinfo(A.dtype).max // 2 == D, np.iinfo(A.dtype).max, D)
    return D


@pytest.mark.full
def test_random_weights_need_no_repair(rng, kernels_for):
    A = rng.random((130, 130)).astype(np.float32)
    for bounded in (False, True):
        _, _, repaired, failed = find(kernels_for, "min_plus", A, drop_bounded_edges=bounded)
        assert not repaired
        assert not failed


@pytest.mark.filterwarnings("ignore::semiring.errors.SuspiciousWeightsWarning")
@pytest.mark.full
@pytest.mark.parametrize(
    ("name", "dtype", "weights"),
    full(
        lambda name, dtype, weights: name == "boolean" or len(weights) == 3,
        [
            ("min_plus", "int32", [0, 1, 2]),
            ("min_plus", "float32", [0.0, 1.0]),
            ("max_min", "int16", [1, 2]),
            ("boolean", "bool", [True]),
            ("max_times", "float32", [0.5, 1.0]),
            ("max_times", "float32", [0.5, 1.0, 2.0]),
        ],
    ),
)
def test_where_nothing_rounds_the_lists_lead_to_every_vertex(rng, kernels_for, name, dtype, weights):
    """No row is left to Dijkstra's algorithm, whatever the lists leave out."""
    for _ in range(12):
        n = int(rng.integers(2, 71))
        is_edge = rng.random((n, n)) < rng.choice([1.5 / n, 0.1, 1.0])
        is_edge[:, rng.integers(n)] = True
        if max(weights) > 1 and name == "max_times":  # no cycle may gain
            is_edge &= np.less.outer(*2 * [rng.permutation(n)])
        A = np.where(is_edge, rng.choice(weights, (n, n)), zero_of(name, np.dtype(dtype))).astype(dtype)
        options = {"drop_bounded_edges": bool(rng.integers(4)), "longest": int(rng.choice([0, 2, 99]))}
        D, pred, repaired, failed = find(kernels_for, name, A, **options)
        assert not repaired
        assert not failed
        check(name, A, as_outer(name, A, D), pred)


@pytest.mark.full
def test_bounds_leave_out_what_ends_no_path(rng, kernels_for):
    """Bounds leave out most edges, because few weigh so little that two of them make a path."""
    A = (rng.random((130, 130)) * 0.7 + 0.3).astype(np.float32)
    D, pred, repaired, failed = find(kernels_for, "min_plus", A, drop_bounded_edges=True)
    assert not repaired
    assert not failed
    check("min_plus", A, D, pred)
    assert (A == D).sum() > 130 * 30
    plan = make_plan(as_semiring("min_plus"), np.float32, nonnegative=True)
    tolerance = tolerance_for(plan, D)
    kernels, limits = kernels_for(plan, tolerance), np.array([*tolerance.tight, *tolerance.loose, *tolerance.bound])
    best, worst = np.empty(130, np.float32), np.empty(130, np.float32)
    kernels.launch(
        "bounds", (5, 1, 1), (512, 1, 1), (D, np.int64(130), A, np.int64(130), np.int32(130), limits, best, worst)
    )
    others = D + np.where(np.eye(130, dtype=bool), np.float32(np.inf), np.float32(0))
    np.testing.assert_array_equal(best, others.min(axis=0))
    np.testing.assert_array_equal(worst, np.where((A == D) | np.eye(130, dtype=bool), 0, D).max(axis=0))


@pytest.mark.full
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
    assert predecessors(kernels_for(plan, tolerance), plan, D, A, tolerance)[2]


def stack_predecessors(kernels, plan, D, A, tolerance, many):
    """Search a stack as `find_predecessors` does."""
    count, n, _ = D.shape
    limits, slices = np.array([*tolerance.tight, *tolerance.loose, *tolerance.bound]), -(-n // SLICE)
    ends = np.arange(1, slices + 1, dtype=np.int64) * n
    degrees, improves = np.empty((count, n), np.int32), np.zeros(count, np.int32)
    sources, weights = np.empty(count * slices * SLICE * n, np.int32), np.empty(count * slices * SLICE * n, D.dtype)
    pred, flagged, failed = np.empty(D.shape, np.int32), np.empty(count * n, np.uint8), np.zeros(1, np.int32)
    listed = (D, A, np.int32(n), limits, np.int32(many), degrees, sources, weights, improves)
    kernels.launch("list_edges", (count, 1, 1), (slices * SLICE, 1, 1), listed)
    matrices = (D, np.int64(n), A, np.int64(n), np.int32(n))
    lists = (degrees, ends, np.int32(n), sources, weights)
    searched = (*matrices, *lists, limits, improves, pred, flagged, *ALL_ROWS)
    kernels.launch("last_edges", (n, count, 1), (slices * SLICE, 1, 1), searched)
    scratch = np.empty((3, n)), np.empty((3, n), np.int32)
    repaired = (*matrices, limits, pred, flagged, *scratch, failed, np.int32(flagged.size))
    kernels.launch("repair_trees", (3, 1, 1), (8, 1, 1), repaired)
    return pred, bool(failed[0])


@pytest.mark.full
@pytest.mark.filterwarnings("ignore::semiring.errors.SuspiciousWeightsWarning")
@pytest.mark.parametrize(
    ("name", "dtype", "kind"),
    full(
        lambda name, dtype, kind: name in ("min_plus", "max_min"),
        [
            ("min_plus", "float32", "random"),
            ("min_plus", "float32", "zeros"),
            ("max_min", "float32", "ties"),
            ("max_times", "float32", "random"),
            ("boolean", "bool", "ties"),
        ],
    ),
)
def test_matrices_of_a_stack_have_the_trees_of_single_matrices(rng, kernels_for, name, dtype, kind):
    for n, many in ((1, 64), (24, 64), (40, 2), (70, 2)):
        A = np.stack([graph(rng, name, dtype, n, density, kind) for density in (0.1, 1.0, 0.0, 0.5)])
        nonnegative = dtype == "float32" and name in ("min_plus", "max_times")
        plan = make_plan(as_semiring(name), A.dtype, nonnegative=nonnegative)
        D = closure(A, name)
        tolerance = tolerance_for(plan, D)
        kernels = kernels_for(plan, tolerance)
        found, failed = stack_predecessors(kernels, plan, D, A, tolerance, many)
        assert not failed
        for number in range(len(A)):
            longest = kernels_longest(kernels, plan, D[number], A[number], tolerance)
            alone = predecessors(
                kernels, plan, D[number], A[number], tolerance, drop_bounded_edges=longest.mean() > many, longest=n
            )
            np.testing.assert_array_equal(found[number], alone[0])


def kernels_longest(kernels, plan, D, A, tolerance):
    """Return the longest list of direct edges of each slice, before any is dropped."""
    is_edge = (zero_of(plan.semiring.name, A.dtype) != A) & (A == D) & ~np.eye(len(A), dtype=bool)
    degrees = np.concatenate([is_edge.sum(axis=0), np.zeros(-len(A) % SLICE, int)])
    return degrees.reshape(-1, SLICE).max(axis=1)


@pytest.fixture
def launches(monkeypatch, kernels_for):
    """Return `semiring.kernels.cuda.predecessor_kernels` on arrays of the host, which runs the kernels there."""
    library = ModuleType("cupy")
    for make in (np.empty, np.zeros, np.asarray, np.ascontiguousarray):
        setattr(library, make.__name__, lambda *given, make=make, **how: to_device(make(*given, **how)))
    library.cuda = SimpleNamespace(
        Device=lambda: SimpleNamespace(id=0),
        get_current_stream=lambda: SimpleNamespace(synchronize=lambda: None),
        runtime=SimpleNamespace(getDevice=lambda: 0),
    )
    monkeypatch.setitem(sys.modules, "cupy", library)
    monkeypatch.delitem(sys.modules, "semiring.kernels.cuda.predecessor_kernels", raising=False)
    module = import_module("semiring.kernels.cuda.predecessor_kernels")
    known = {}

    def launcher(text, name):
        known.setdefault(text, HostKernels(text))

        def launch(grid, threads, arguments, shared_mem=0):
            threads = min(threads[0], 16) if name == "repair_trees" else threads[0]
            given = [x.view(np.ndarray) if isinstance(x, np.ndarray) else x for x in arguments]
            known[text].launch(name, (*grid, 1, 1)[:3], (threads, 1, 1), given)

        return launch

    def compile_kernel(file, name, arithmetic, macros, shared_bytes=0):
        return launcher(source(file, arithmetic, macros), name)

    path_arrays = (Path(cuda.__file__).parent / "path_arrays.cu").read_text("utf-8")
    monkeypatch.setattr(module, "compile_kernel", compile_kernel)
    monkeypatch.setattr(module, "current_device", lambda: 0)
    monkeypatch.setattr(module, "max_shared_memory", lambda: 64 << 10)
    monkeypatch.setattr(module, "_path_kernel", lambda name, device: launcher(path_arrays, name))
    yield module
    sys.modules.pop("semiring.kernels.cuda.predecessor_kernels")


@pytest.mark.full
@pytest.mark.parametrize("n", [3, 40, 129])
def test_launches_of_a_stack(rng, launches, monkeypatch, n):
    """Parts of a stack, and matrices beyond one block, which are searched one by one."""
    count = 5 if n < 129 else 2
    monkeypatch.setattr(launches, "_STACK_BYTES", 2 * 8 * SLICE * n * -(-n // SLICE))
    A = np.stack([graph(rng, "min_plus", "float32", n, 4 / n, "random") for _ in range(count)])
    plan, D = make_plan(as_semiring("min_plus"), A.dtype, nonnegative=True), closure(A)
    columns = A.swapaxes(1, 2).copy().swapaxes(1, 2)  # adjacent columns
    pred = launches.find_predecessors(plan, to_device(D), tolerance_for(plan, D), to_device(columns))
    for number in range(count):
        check("min_plus", A[number], D[number], pred[number])
    sources, targets = np.array([2, 0], np.int32), np.arange(n, dtype=np.int32)[::-1].copy()
    rows, counts = pred[:, sources], np.empty((count, 2, n), np.int32)
    launches.count_vertices(rows, sources, counts)
    counts = counts[..., targets].copy()
    out = np.empty((*counts.shape, n), np.int32)
    launches.write_paths(rows, targets, counts, out)
    expected = sr.shortest_paths(A, sources=[2, 0], targets=targets).to_array(n)[1]
    np.testing.assert_array_equal((out >= 0).sum(axis=-1), counts)
    np.testing.assert_array_equal(counts > 0, expected > 0)
    for (b, i, j), length in np.ndenumerate(counts):
        path = out[b, i, j, :length].tolist()
        assert path == (walk(pred[b], sources[i], targets[j]) if length else [])


@pytest.mark.full
def test_arrays_of_paths(rng):
    kernels = HostKernels((Path(cuda.__file__).parent / "path_arrays.cu").read_text("utf-8"))
    pred = np.stack([np.where(np.arange(40) > 0, rng.integers(-1, 40, 40) % 40, -1) for _ in range(12)])
    pred = np.where(pred < np.arange(40), pred, -9999).astype(np.int32).reshape(3, 4, 40)
    pred[0, 0, 7:9] = 8, 7  # a cycle
    pred[0, 1, 5] = 40
    sources, targets = np.zeros(4, np.int32), np.array([3, 39, 0], np.int32)
    reference, counts, expected = get_backend("reference"), *np.empty((2, *pred.shape), np.int32)
    reference.count_vertices(pred, sources, expected, 1)
    sizes = np.int32(4), np.int32(40), np.int64(counts.size)
    kernels.launch("count_vertices", (2, 1, 1), (256, 1, 1), (pred, sources, *sizes, counts))
    np.testing.assert_array_equal(counts, expected)
    assert (counts < 0).any()
    pred[0, 0] = pred[0, 1] = pred[0, 2]
    reference.count_vertices(pred, sources, expected, 1)
    some = np.ascontiguousarray(expected[..., targets])
    out, wanted = np.empty((2, 3, 4, 3, 40), np.int32)
    reference.write_paths(pred, sources, targets, some, wanted, 1)
    sizes = np.int32(40), np.int32(3), np.int64(some.size), np.int32(40)
    kernels.launch("write_paths", (1, 1, 1), (256, 1, 1), (pred, targets, some, *sizes, out))
    np.testing.assert_array_equal(out, wanted)


@pytest.mark.full
@needs_nvrtc
@pytest.mark.parametrize(("name", "dtype"), [("min_plus", "float32"), ("max_min", "int32"), ("max_times", "float64")])
def test_machine_code_keeps_to_registers(name, dtype):
    plan = make_plan(as_semiring(name), np.dtype(dtype), nonnegative=name == "min_plus")
    arithmetic = arithmetic_of(plan)
    text = source("predecessors.cu", arithmetic, defines(tolerance_for(plan, np.ones((999, 999), dtype))))
    log = compile_for("sm_90a", text, arithmetic.options)[1]
    registers = [count for count, _ in resources(log).values()]
    assert len(registers) == 9
    assert max(registers) <= 64
    assert set(re.findall(r"(\d+) bytes spill", log)) <= {"0"}
