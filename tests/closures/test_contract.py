"""Test the kernel contract by one suite for every backend, semiring, dtype and storage of the validity matrix.

The matrix is ``semiring.dtypes``. The expected values come from `oracles`, which writes every semiring down again. The
data are chosen so that equality is exact (small integers held in floats, powers of two, eighths). Only log_plus has a
tolerance.
"""

from __future__ import annotations

import inspect
import itertools
import typing
from functools import partial

import numpy as np
import oracles
import pytest
import trees
from devices import OnDevice
from operands import (
    CASES,
    LAYOUTS,
    SELECTIVE,
    bind,
    closable,
    entries,
    laid_out,
    nilpotent,
    pack_words,
    to_caller_form,
    to_kernel_form,
    unpack_words,
)
from tiers import quick

import semiring
from semiring import CATALOGUE, Semiring
from semiring.errors import AlgebraError, DeviceError, DTypeError, UnknownNameError
from semiring.kernels import BACKENDS, backend_for, contract, get_backend
from semiring.kernels.contract import (
    GROUPS,
    OPERATIONS,
    Backend,
    Capabilities,
    ClosureKernels,
    GraphKernels,
    PathKernels,
    ProductKernels,
    Steps,
)
from semiring.kernels.cuda import CudaBackend
from semiring.kernels.engine import Engine, make_plan
from semiring.kernels.reference import ReferenceBackend
from semiring.kernels.tolerance import tolerance_for

HALVES = [
    (name, "float16") for name, semiring in CATALOGUE.items() if semiring.selective and semiring.supports("float16")
]
#: The cases of the quick tier.
COMMON = (("min_plus", "float32"), ("max_min", "int16"), ("boolean", "bool"), ("plus_times", "float64"))
PACKED = ["boolean", "max_min", "xor_and"]  # the semirings whose zero is False


def is_common(name, dtype):
    return (name, dtype) in COMMON


# (m, k, n): nothing at all, single entries, odd sizes, and one less and one more than the tiles of the kernels.
SHAPES = [
    *((0, 3, 2), (3, 0, 2), (2, 3, 0), (1, 1, 1), (1, 2, 1), (2, 5, 7), (6, 1, 65), (5, 64, 63)),
    *((7, 63, 65), (65, 65, 64), (64, 7, 97), (97, 97, 6), (13, 130, 33)),
]
SELECTIVE_SHAPES = [
    *((0, 3, 2), (3, 0, 2), (1, 1, 1), (2, 5, 7), (7, 63, 65), (65, 130, 63), (6, 200, 97)),
    *((1, 130, 70), (70, 130, 1), (1, 7, 65), (65, 7, 1), (40, 9, 33), (1, 33, 1)),
]
BLOCKS = [0, 1, 2, 5, 31, 65]


@pytest.fixture(params=[*sorted(BACKENDS), pytest.param("cuda", marks=pytest.mark.gpu)])
def backend(request):
    if request.param == "cuda":
        from semiring.kernels.cuda import CudaBackend

        return OnDevice(CudaBackend())
    return get_backend(request.param)


@pytest.fixture
def closing(backend):
    """Return a backend that closes blocks."""
    return backend


# ------------------------------------------------------------------------------------------------- what it declares


#: Operations of groups that a backend lacks, though it provides the group.
LACKS = {
    "cpu": {"can_close", "close", "find_tree", "find_distances"},
    "reference": {
        *("close_and_search", "find_tree", "fold_paths", "count_paths", "search_table", "search_near"),
        *("can_pull", "pull", "find_distances"),
    },
    "cuda": {
        *("multiply_upper", "propagates_nan", "gaining_rows", "survey_gaining", "close_gaining"),
        *("close_and_search", "search_table", "search_near", "fold_paths", "count_paths"),
        "scan_rows",
    },
}


def operations(protocol):
    """Return the public functions of a protocol, by name."""
    return {
        name: function for name, function in vars(protocol).items() if inspect.isfunction(function) and name[0] != "_"
    }


def differing_operations(group, protocol):
    """Return the names of the functions of a protocol that an object lacks, or has with other parameters."""
    return [
        name
        for name, function in operations(protocol).items()
        if not callable(getattr(group, name, None))
        or list(inspect.signature(getattr(group, name)).parameters) != list(inspect.signature(function).parameters)[1:]
    ]


def declared_groups(backend):
    return {name: found for name in GROUPS if (found := getattr(backend.capabilities, name)) is not None}


def every_backend():
    """Return every backend. The one that needs a device is an instance that only declares, which needs none."""
    return [*(get_backend(name) for name in sorted(BACKENDS)), object.__new__(CudaBackend)]


@pytest.mark.parametrize("backend", every_backend(), ids=lambda backend: backend.name)
def test_a_backend_has_what_it_declares(backend):
    assert differing_operations(backend, Backend) == []
    assert [name for name, found in declared_groups(backend).items() if differing_operations(found, GROUPS[name])] == []
    assert backend.capabilities is backend.capabilities


def test_which_groups_are_declared():
    """The fallback declares paths, sequences, sparse products, centrality, updates and ranked paths. Only the GPU
    declares streams, passes and graphs, and no sequences or sparse products."""
    both = {"products", "closures", "paths", "centrality", "updates"}
    assert {backend.name: set(declared_groups(backend)) for backend in every_backend()} == {
        "cpu": both | {"sequences", "sparse", "ranked"},
        "reference": {"paths", "sequences", "sparse", "centrality", "updates", "ranked"},
        "cuda": both | {"streams", "passes", "graphs", "sparse"},
    }
    hints = typing.get_type_hints(Capabilities, {**vars(contract), "Tolerance": object})
    assert {name: typing.get_args(hint)[0] for name, hint in hints.items()} == GROUPS
    names = [name for group in GROUPS.values() for name in operations(group)]
    assert len(names) == len(set(names)) > len(GROUPS)
    assert sorted(names) == sorted(OPERATIONS)
    assert not set(names) & set(operations(Backend))


@pytest.mark.parametrize("backend", every_backend(), ids=lambda backend: backend.name)
def test_which_operations_are_provided(backend):
    """A backend provides all operations of its groups except the optional ones in `LACKS`, and none of another
    group."""
    provided = {name for name in OPERATIONS if backend.capabilities.provides(name)}
    of_groups = {name for group in declared_groups(backend) for name in operations(GROUPS[group])}
    assert provided == of_groups - LACKS[backend.name]
    assert not backend.capabilities.provides("multiply")  # an operation of the contract, which every backend has
    assert not backend.capabilities.provides("fly")


def test_operations_that_are_left_out_say_so():
    class OnlyPanels(ReferenceBackend, ProductKernels, ClosureKernels, GraphKernels, PathKernels):
        @property
        def capabilities(self):
            return Capabilities.from_backend(self)

    backend, plan = OnlyPanels(), make_plan(CATALOGUE["min_plus"], "float32")
    closures = backend.capabilities.closures
    assert (closures.can_close(plan, 5), closures.stack_rows(plan), closures.gaining_rows(plan)) == (False, 0, 0)
    assert not backend.capabilities.products.propagates_nan(plan, 1, 2, 3)
    assert not backend.capabilities.graphs.has_bit_kernels(plan, 5)
    for name in ("close", "close_stack", "multiply_upper", "peel", "find_tree", "search_table"):
        default = OPERATIONS[name]
        with pytest.raises(NotImplementedError, match="no such kernel"):
            default(backend, *[None] * (len(inspect.signature(default).parameters) - (2 if name == "close" else 1)))
    with pytest.raises(DeviceError, match="this closure needs the kernel operation close"):
        Engine(backend, plan).close(np.zeros((2, 2), np.float32))


def test_an_operation_with_other_parameters_would_be_seen():
    class Careless(ReferenceBackend, ClosureKernels):
        def close_stack(self, plan):
            """Lack the parameter for the stack."""

    assert differing_operations(Careless(), ClosureKernels) == ["close_stack"]
    assert differing_operations(ReferenceBackend(), ClosureKernels) == list(operations(ClosureKernels))


@pytest.mark.parametrize("name", sorted(BACKENDS))
def test_predecessors_and_arrays_of_paths(rng, name):
    """Rows have the paths that a plain walk finds, of any sources and targets, and cycles are reported."""
    found = get_backend(name)
    A = np.where(rng.random((4, 30, 30)) < 0.1, rng.integers(1, 9, (4, 30, 30)), np.inf)
    plan = make_plan(CATALOGUE["min_plus"], A.dtype, nonnegative=True, threads=2)
    D = semiring.closure(A)
    pred = found.find_predecessors(plan, D, tolerance_for(plan, D), A)
    for number in range(4):
        trees.check("min_plus", A[number], D[number], pred[number])
    sources, targets = np.array([3, 7, 3], np.int32), np.array([29, 3, 0, 7], np.int32)
    rows, counts = pred[:, sources], np.empty((4, 3, 30), np.int32)
    found.count_vertices(rows, sources, counts, 2)
    counts = np.ascontiguousarray(counts[..., targets])
    out = np.full((4, 3, 4, 31), 99, np.int32)
    found.write_paths(rows, sources, targets, counts, out, 2)
    for (b, i, j), count in np.ndenumerate(counts):
        is_reached = D[b, sources[i], targets[j]] < np.inf
        path = trees.walk(pred[b], sources[i], targets[j]) if is_reached else []
        assert out[b, i, j].tolist() == [*path, *[-1] * (31 - count)]
        assert count == len(path)
    cycle = np.array([[[-9999, 2, 1, 3, 0, 6]]], np.int32)
    counts = np.empty(cycle.shape, np.int32)
    found.count_vertices(cycle, np.zeros(1, np.int32), counts, 1)
    assert counts.tolist() == [[[1, -1, -1, -1, 2, -1]]]


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize(("m", "n"), [(2, 2), (70, 3), (192, 385), (385, 192), (700, 400), (1024, 70)])
@pytest.mark.parametrize(
    ("name", "dtype"),
    quick(
        lambda name, _: name == "min_plus", [("plus_times", "float32"), ("min_plus", "float64"), ("max_min", "uint8")]
    ),
)
def test_products_in_place_are_those_of_a_copy(name, dtype, m, n, threads, rng):
    backend, plan = get_backend("cpu"), make_plan(CATALOGUE[name], dtype, threads=threads)
    assert backend.capabilities.products.can_multiply_in_place(plan, m, n)
    A, matrix = (rng.integers(0, 99, shape).astype(dtype) for shape in ((m, m), (m, n + 9)))
    if np.dtype(dtype).kind == "f":
        A, matrix = A / 7, matrix / 7
    copied, replaced = matrix[:, 5 : n + 5].copy(), matrix.copy()
    found, B = np.empty_like(copied), replaced[:, 5 : n + 5]
    backend.multiply(plan, found, A, copied)
    backend.multiply(plan, B, A, B)
    np.testing.assert_array_equal(B, found)
    np.testing.assert_array_equal(np.delete(replaced, np.s_[5 : n + 5], 1), np.delete(matrix, np.s_[5 : n + 5], 1))


@pytest.mark.full
@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize(("m", "n"), [(0, 3), (1, 1), (1, 70), (65, 130), (385, 192), (700, 400), (130, 1)])
@pytest.mark.parametrize(
    ("name", "dtype"),
    quick(
        lambda name, _: name == "min_plus",
        [("plus_times", "float32"), ("min_plus", "float64"), ("max_min", "uint8"), ("log_plus", "float64")],
    ),
)
def test_products_by_triangles_are_those_by_what_is_zero_below(name, dtype, m, n, threads, rng):
    """Entries that are 0̄ may be read or skipped, and sums of whole numbers are exact in any order."""
    backend, plan = get_backend("cpu"), make_plan(CATALOGUE[name], dtype, threads=threads)
    B = rng.integers(0, 99, (m, n + 9)).astype(dtype)[:, 5 : n + 5]
    close = partial(np.testing.assert_allclose, rtol=1e-12 if name == "log_plus" else 0)
    for below in (0, 1, 30, 2000):
        for left in (True, False):
            size = m if left else n
            factor = rng.integers(0, 99, (size, size)).astype(dtype)
            i, k = np.indices(factor.shape)
            factor[k < i - below] = plan.zero
            operands = (factor, B) if left else (B, factor)
            expected, found, other = np.empty((3, m, n), dtype)
            backend.multiply(plan, expected, *operands)
            backend.capabilities.products.multiply_upper(plan, found, *operands, below, left)
            close(found, expected)
            engine = Engine(backend, plan, 64)
            other[...] = B
            if left:
                engine.multiply_left(factor, other, subdiagonals=below)
            else:
                engine.multiply_right(other, factor, subdiagonals=below)
            close(other, expected)


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize(
    ("name", "dtype"),
    quick(
        lambda name, _: name == "min_plus",
        [("plus_times", "float64"), ("min_plus", "float32"), ("max_min", "uint8"), ("log_plus", "float64")],
    ),
)
def test_a_triangle_of_a_product(name, dtype, threads, rng):
    """The triangle on and above the diagonal equals the product, and no entry outside of C is written."""
    for backend in map(get_backend, ("cpu", "reference")):
        plan = make_plan(CATALOGUE[name], dtype, threads=threads)
        for n, k in ((0, 3), (1, 5), (2, 0), (63, 64), (130, 33), (700, 260)):
            if backend.name == "reference" and n > 200:
                continue
            A, B, C = (rng.integers(0, 99, shape).astype(dtype) for shape in ((n, k), (k, n), (n, n + 8)))
            found, whole = C.copy(), C.copy()
            Engine(backend, plan).multiply_add_upper(found[:, 5 : n + 5], A, B)
            backend.multiply_add(plan, whole[:, 5 : n + 5], A, B)
            close = partial(np.testing.assert_allclose, rtol=1e-12 if name == "log_plus" else 0)
            close(np.triu(found[:, 5 : n + 5]), np.triu(whole[:, 5 : n + 5]))
            np.testing.assert_array_equal(np.delete(found, np.s_[5 : n + 5], 1), np.delete(C, np.s_[5 : n + 5], 1))


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("shape", [(0, 5), (1, 1), (700, 129), (3, 90_001)])
def test_copied_panels(shape, threads, rng):
    backend, plan = get_backend("cpu"), make_plan(CATALOGUE["min_plus"], "float32", threads=threads)
    matrix = rng.random((shape[0], shape[1] + 3), np.float32)
    out = np.zeros((shape[0], shape[1] + 1), np.float32)
    backend.capabilities.products.copy_panel(plan, matrix[:, 2:-1], out[:, :-1])
    np.testing.assert_array_equal(out[:, :-1], matrix[:, 2:-1])
    assert not out[:, -1].any()


@pytest.mark.full
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("sparse", [False, True])
def test_steps_by_one_matrix_are_products(dtype, sparse, rng):
    backend, plan = get_backend("cpu"), make_plan(CATALOGUE["log_plus"], dtype)
    kernels, n, steps = backend.capabilities.sequences, 70, 4
    B = rng.normal(size=(n, n)).astype(dtype)
    if sparse:
        B[rng.random(B.shape) < 0.95] = -np.inf
    prepared = kernels.prepare(plan, B[None, None], np.zeros(8, int))
    for m in (8, 40):
        x, w = (rng.normal(size=shape).astype(dtype) for shape in ((m, n), (steps, m, n)))
        x[rng.random(x.shape) < 0.3], lengths = -np.inf, rng.integers(0, steps + 1, m)
        expected, found = [x], np.empty((m, steps, n), dtype)
        for t in range(steps):
            product = np.empty_like(x)
            backend.multiply(plan, product, expected[-1], B)
            expected.append(np.where((lengths > t)[:, None], product + w[t], expected[-1]))
        last = x.copy()
        kernels.walk(plan, prepared, last, Steps(steps, w.swapaxes(0, 1), lengths, found))
        np.testing.assert_array_equal(found, np.array(expected[1:]).swapaxes(0, 1))
        np.testing.assert_array_equal(last, expected[-1])
    assert kernels.can_pull(plan, n) == (dtype == "float32")


@pytest.mark.parametrize("backend", [get_backend("cpu")], ids=lambda backend: backend.name)
@pytest.mark.parametrize(
    ("name", "dtype"),
    quick(lambda name, _: name == "boolean", [("min_plus", "float32"), ("max_min", "int16"), ("boolean", "bool")]),
)
def test_stacks_are_closed_as_their_matrices_are(backend, name, dtype, rng):
    closures = backend.capabilities.closures
    plan = make_plan(CATALOGUE[name], dtype)
    for count, n in ((0, 3), (3, 0), (4, 5), (2, closures.stack_rows(plan) + 1)):
        stack = to_kernel_form(entries(rng, name, dtype, (count, n, n), tame=True), name)
        alone = [matrix.copy() for matrix in stack]
        closures.close_stack(plan, stack)
        for closed, matrix in zip(stack, alone, strict=True):
            backend.close_block(plan, matrix)
            np.testing.assert_array_equal(closed, matrix)


# ------------------------------------------------------------------------------------------------- data


def poison(shape, dtype):
    """Return an array of the values of uninitialised memory that are worst for every ⊕."""
    dtype = np.dtype(dtype)
    if dtype.kind == "f":
        return np.full(shape, np.nan, dtype)
    if dtype.kind == "b":
        return np.ones(shape, dtype)
    worst = np.full(shape, np.iinfo(dtype).min, dtype)
    worst.reshape(-1)[1::2] = np.iinfo(dtype).max
    return worst


def agree(actual, expected, name):
    __tracebackhide__ = True
    if name == "log_plus":
        tolerance = 2e-5 if actual.dtype == np.float32 else 1e-12
        np.testing.assert_allclose(actual, expected, rtol=tolerance, atol=tolerance)
    else:
        np.testing.assert_array_equal(actual, expected)


# ------------------------------------------------------------------------------------------------- products


@pytest.mark.parametrize(("name", "dtype"), quick(is_common, [*CASES, *HALVES]))
def test_products(backend, name, dtype, rng):
    engine = bind(backend, name, dtype)
    layouts = itertools.cycle(itertools.product(LAYOUTS, repeat=3))
    for m, k, n in SHAPES:
        first, second, third = next(layouts)
        A, B, C = (entries(rng, name, dtype, shape) for shape in ((m, k), (k, n), (m, n)))
        inner_a, inner_b = laid_out(to_kernel_form(A, name), first), laid_out(to_kernel_form(B, name), second)
        result = laid_out(poison((m, n), dtype), third)
        engine.multiply(result, inner_a, inner_b)
        agree(to_caller_form(result, name), oracles.product(A, B, name), name)
        result = laid_out(to_kernel_form(C, name), third)
        engine.multiply_add(result, inner_a, inner_b)
        agree(to_caller_form(result, name), oracles.product(A, B, name, C), name)
        np.testing.assert_array_equal(inner_a, to_kernel_form(A, name), "an operand was written to")
        np.testing.assert_array_equal(inner_b, to_kernel_form(B, name), "an operand was written to")


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        ("min_plus", "float32"),
        ("plus_times", "float64"),
        ("max_min", "int16"),
        ("boolean", "bool"),
        ("min_plus", "int64"),
    ],
)
def test_every_layout_of_every_operand(backend, name, dtype, rng):
    engine = bind(backend, name, dtype)
    A, B, C = (entries(rng, name, dtype, shape) for shape in ((19, 33), (33, 70), (19, 70)))
    expected = oracles.product(A, B, name), oracles.product(A, B, name, C)
    for first, second, third in itertools.product(LAYOUTS, repeat=3):
        inner = laid_out(to_kernel_form(A, name), first), laid_out(to_kernel_form(B, name), second)
        result = laid_out(poison(C.shape, dtype), third)
        engine.multiply(result, *inner)
        np.testing.assert_array_equal(to_caller_form(result, name), expected[0], f"{first}, {second}, {third}")
        result = laid_out(to_kernel_form(C, name), third)
        engine.multiply_add(result, *inner)
        np.testing.assert_array_equal(to_caller_form(result, name), expected[1], f"{first}, {second}, {third}")


@pytest.mark.parametrize(("name", "dtype"), [("min_plus", "float32"), ("plus_times", "float64"), ("xor_and", "uint8")])
def test_views_of_one_matrix(backend, name, dtype, rng):
    engine = bind(backend, name, dtype)
    views = {  # A, B, C: the quadrants of a recursion, and rows and columns that interleave
        "quadrants": (np.s_[65:, :65], np.s_[:65, 65:], np.s_[65:, 65:]),
        "columns": (np.s_[:65, 1::2], np.s_[65:, 1::2], np.s_[:65, ::2]),
        "rows": (np.s_[1::2, :65], np.s_[1::2, 65:], np.s_[::2, 65:]),
    }
    for a, b, c in views.values():
        M = entries(rng, name, dtype, (130, 130))
        expected = M.copy()
        expected[c] = oracles.product(M[a], M[b], name, M[c])
        engine.multiply_add(M[c], M[a], M[b])
        np.testing.assert_array_equal(M, expected)
        expected[c] = oracles.product(M[a], M[b], name)
        engine.multiply(M[c], M[a], M[b])
        np.testing.assert_array_equal(M, expected)


@pytest.mark.parametrize(("name", "dtype"), quick(is_common, CASES))
def test_products_where_no_sign_bit_is_set(backend, name, dtype, rng):
    """Facts may select faster kernels, whose result is that of the other kernels."""
    engine = bind(backend, name, dtype, nonnegative=True)
    top = 9 if np.dtype(dtype).kind in "fi" else 2
    for m, k, n in [(2, 5, 7), (65, 130, 67)]:
        A, B, C = (rng.integers(0, top, shape).astype(dtype) for shape in ((m, k), (k, n), (m, n)))
        if name == "lukasiewicz":
            A, B, C = A / 8, B / 8, C / 8
            A, B, C = A.astype(dtype), B.astype(dtype), C.astype(dtype)
        if name in ("min_plus", "min_max") and A.dtype.kind == "f":
            A[rng.random(A.shape) < 0.3] = np.inf
            C[rng.random(C.shape) < 0.3] = np.inf
        result = C.copy()
        engine.multiply_add(result, A, B)
        agree(result, oracles.product(A, B, name, C), name)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("name", "data"), [("max_plus", -1), ("max_min", -1), ("min_plus", 1), ("max_plus", 1)])
def test_the_zero_is_the_semirings_own(backend, name, data, dtype, rng):
    """Negative and positive data reveal a kernel that starts from 0 or pads with 0."""
    engine = bind(backend, name, dtype)
    A, B = (data * rng.integers(100, 200, shape).astype(dtype) for shape in ((7, 9), (9, 67)))
    result = poison((7, 67), dtype)
    engine.multiply(result, A, B)
    combine = {"max_plus": np.add, "max_min": np.minimum, "min_plus": np.add}[name]
    choose = np.max if name.startswith("max") else np.min
    np.testing.assert_array_equal(result, choose(combine(A[:, :, None], B[None]), axis=1))


def test_an_undefined_candidate_is_no_path(backend):
    """The candidate ∞ ⊗ -∞ is NaN in IEEE arithmetic and no path here, at every position among the candidates."""
    for name, other in (("min_plus", 5.0), ("max_plus", -5.0)):
        engine = bind(backend, name, "float64")
        for position in range(70):
            A, B = np.full((1, 70), engine.plan.zero), np.full((70, 1), -engine.plan.zero)
            result = np.empty((1, 1))
            engine.multiply(result, A, B)
            assert result == engine.plan.zero
            A[0, position], B[position] = other, 1.0
            engine.multiply(result, A, B)
            assert result == other + 1.0


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
def test_the_order_of_the_factors(backend, dtype, rng):
    """An operation that does not commute reveals a kernel that swaps operands."""
    uneven = Semiring("uneven", "max(x, y)", "where(x < y, x + 2 * y, x)", float("-inf"), 0, dtypes=[dtype])
    if not backend.supports(uneven, np.dtype(dtype)):
        pytest.skip(f"{backend.name} does not take it")
    engine = Engine(backend, make_plan(uneven, dtype))
    A, B = rng.integers(1, 50, (7, 65)).astype(dtype), rng.integers(1, 50, (65, 66)).astype(dtype)
    candidates = np.where(A[:, :, None] < B[None], A[:, :, None] + 2 * B[None], A[:, :, None])
    for first, second, third in itertools.product(("rows", "columns"), repeat=3):
        result = laid_out(poison((7, 66), dtype), third)
        engine.multiply(result, laid_out(A, first), laid_out(B, second))
        np.testing.assert_array_equal(result, candidates.max(axis=1))


@pytest.mark.full
@pytest.mark.parametrize(
    ("name", "dtype"), [("min_plus", "float32"), ("plus_times", "float32"), ("log_plus", "float64")]
)
def test_threads_change_no_bit(backend, name, dtype, rng):
    A, B, C = (rng.standard_normal(shape).astype(dtype) for shape in ((301, 67), (67, 289), (301, 289)))
    results = []
    for threads in (1, 2, 3, 5, 1):
        engine = bind(backend, name, dtype, threads=threads)
        product, total = np.empty_like(C), C.copy()
        engine.multiply(product, A, B)
        engine.multiply_add(total, A, B)
        results.append((product.tobytes(), total.tobytes()))
    assert len(set(results)) == 1


# ----------------------------------------------------------------------------------------------------------- witnesses


def strictly_better(values, best, name):
    return oracles.ORACLES[name].add(values, best) != best


def selective_data(rng, name, dtype, shape):
    """Draw integers of min-plus without negatives (max-plus without positives): the sentinel is never better."""
    return entries(rng, name, dtype, shape, tame=np.dtype(dtype).kind == "i" and name in ("min_plus", "max_plus"))


def selective_cases(rng, name, dtype):
    """Yield a number, operands A, B, C and two layouts for every shape."""
    layouts = itertools.cycle(itertools.product(LAYOUTS, repeat=2))
    for index, (m, k, n) in enumerate(SELECTIVE_SHAPES):
        yield index, [selective_data(rng, name, dtype, shape) for shape in ((m, k), (k, n), (m, n))], *next(layouts)


@pytest.mark.parametrize(("name", "dtype"), quick(is_common, [*SELECTIVE, *HALVES]))
def test_witnesses(backend, name, dtype, rng):
    engine = bind(backend, name, dtype)
    for index, (A, B, C), first, second in selective_cases(rng, name, dtype):
        k0 = 0 if index % 2 else 1000
        witness_dtype = np.int64 if index % 3 == 2 else np.int32
        product = oracles.product(A, B, name)
        better = strictly_better(product, C, name)
        W = rng.integers(-1, 7, C.shape).astype(witness_dtype)
        expected = np.where(better, k0 + oracles.witness(A, B, name), W)
        result, found = laid_out(to_kernel_form(C, name), first), laid_out(W, second)
        engine.multiply_add_witness(
            result, found, laid_out(to_kernel_form(A, name), second), laid_out(to_kernel_form(B, name), first), k0
        )
        np.testing.assert_array_equal(to_caller_form(result, name), np.where(better, product, C))
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(("name", "dtype"), quick(is_common, SELECTIVE))
def test_steps_and_best_paths(backend, name, dtype, rng):
    engine, kernels = bind(backend, name, dtype), backend.capabilities.sequences
    if kernels is None:
        pytest.skip(f"{backend.name} has no kernels of sequences")
    groups, lengths, mul = np.array([0, 0, 0, 0, 0, 1]), np.array([3, 3, 2, 0, 3, 1]), oracles.ORACLES[name].mul
    none = oracles.zero(name, dtype)
    for n, matrices in ((1, 1), (5, 3), (20, 1), (33, 3), (130, 3)):
        A, x, w = (entries(rng, name, dtype, shape, tame=True) for shape in ((2, matrices, n, n), (6, n), (6, 3, n)))
        state, expected = x, np.empty((6, 3, n), dtype)
        before, traced = np.empty((2, 6, 3, n), int)
        for t in range(3):
            M, going = A[groups, t % matrices], (lengths > t)[:, None]
            y = np.stack([oracles.product(x[None], B, name)[0] for x, B in zip(state, M, strict=True)])
            K = np.stack([oracles.witness(x[None], B, name)[0] for x, B in zip(state, M, strict=True)])
            with np.errstate(all="ignore"):
                weighed = np.where((y == none) | (w[:, t] == none), none, mul(y, w[:, t])).astype(dtype)
            state, before[:, t] = np.where(going, weighed, state), np.where(going, K, -1)
            expected[:, t] = state
        found, W = np.empty_like(expected), np.empty(before.shape, np.int32)
        inner = [to_kernel_form(X, name) for X in (A, x, w)]
        prepared = kernels.prepare(engine.plan, inner[0], groups)
        for witness in (None, W):
            last = inner[1].copy()
            kernels.walk(engine.plan, prepared, last, Steps(3, inner[2], lengths, found, witness=witness))
            np.testing.assert_array_equal(to_caller_form(found, name), expected)
            np.testing.assert_array_equal(to_caller_form(last, name), state)
        np.testing.assert_array_equal(W, before)
        for i, j in itertools.product(range(6), range(n)):
            k = j if state[i, j] != none else -1
            for t in reversed(range(3)):
                k = k if k < 0 or t >= lengths[i] else before[i, t, k]
                traced[i, t, j] = -1 if t >= lengths[i] else k
        kernels.trace(engine.plan, W, state != none, lengths)
        np.testing.assert_array_equal(W, traced)


# ------------------------------------------------------------------------------------------------- closures of a block


def sum_of_powers(A, name):
    start = oracles.identity(len(A), name, A.dtype)
    result = start
    for _ in range(len(A)):
        result = oracles.ORACLES[name].add(start, oracles.product(A, result, name)).astype(A.dtype)
    return result


@pytest.mark.parametrize(("name", "dtype"), quick(is_common, [case for case in CASES if closable(*case)]))
def test_close_block(closing, name, dtype, rng):
    engine = bind(closing, name, dtype)
    idempotent = oracles.ORACLES[name].idempotent
    for n, layout in zip(BLOCKS, itertools.cycle(LAYOUTS), strict=False):
        A = nilpotent(rng, name, dtype, n)
        result = laid_out(to_kernel_form(A, name), layout)
        engine.close_block(result)
        agree(to_caller_form(result, name), sum_of_powers(A, name), name)
        assert engine.plan.status.diverged == -1
        if idempotent:  # cycles too, as long as none improves
            A = entries(rng, name, dtype, (n, n), tame=True)
            result = laid_out(to_kernel_form(A, name), layout)
            engine.close_block(result)
            agree(to_caller_form(result, name), oracles.closure(A, name), name)
            assert engine.plan.status.diverged == -1


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_close_block_is_an_inverse(closing, dtype, rng):
    engine = bind(closing, "plus_times", dtype)
    for n in (1, 2, 7):
        A = (rng.integers(-3, 4, (n, n)) / (4 * n)).astype(dtype)
        expected = np.array([[float(value) for value in row] for row in oracles.inverse_closure(A)])
        engine.close_block(A)
        np.testing.assert_allclose(A, expected, rtol=1e-5 if dtype == "float32" else 1e-13, atol=1e-7)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_close_block_sums_probabilities(closing, dtype, rng):
    engine = bind(closing, "log_plus", dtype)
    A = (-rng.random((6, 6)) - 2.5).astype(dtype)
    expected = oracles.log_closure(A)
    engine.close_block(A)
    np.testing.assert_allclose(A, expected.astype(float), rtol=1e-4 if dtype == "float32" else 1e-12)


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int32"])
def test_close_block_inverts_over_gf2(closing, dtype, rng):
    engine = bind(closing, "xor_and", dtype)
    n, order = 12, rng.permutation(12)
    loops = np.triu(entries(rng, "xor_and", dtype, (n, n)), 1)[np.ix_(order, order)]
    expected = oracles.gf2_closure(loops)
    engine.close_block(loops)
    np.testing.assert_array_equal(loops, expected)


@pytest.mark.parametrize(
    ("name", "dtype", "loop"),
    [
        *(("min_plus", dtype, -1) for dtype in CATALOGUE["min_plus"].dtypes),
        *(("max_plus", dtype, 1) for dtype in CATALOGUE["max_plus"].dtypes),
        *(("max_times", dtype, 2) for dtype in CATALOGUE["max_times"].dtypes),
        *(("plus_times", dtype, 1) for dtype in ("float32", "float64")),
        ("xor_and", "bool", True),
    ],
)
def test_a_pivot_without_a_star_is_named(closing, name, dtype, loop):
    for n, first in ((1, 0), (5, 3), (40, 33)):
        engine = bind(closing, name, dtype)
        A = to_kernel_form(np.full((n, n), oracles.zero(name, dtype)), name)
        A[first, first] = loop
        A[n - 1, n - 1] = loop
        engine.close_block(A)
        assert engine.plan.status.diverged == first


def test_a_closure_needs_a_star(closing):
    engine = Engine(closing, make_plan(Semiring("starless", "max(x, y)", "x * y", 0, 1, domain="[0, inf)"), "float64"))
    with pytest.raises(AlgebraError, match="star"):
        engine.close_block(np.ones((2, 2)))


# ------------------------------------------------------------------------------------------------- packed bits


@pytest.mark.parametrize("name", PACKED)
def test_packed_products(backend, name, rng):
    engine = bind(backend, name, "bool", storage="bits")
    sizes = [
        (0, 3, 2),
        (3, 0, 2),
        (2, 3, 0),
        (1, 1, 1),
        (2, 31, 33),
        (65, 32, 64),
        (7, 65, 97),
        (33, 130, 31),
        (64, 64, 257),
    ]
    for m, k, n in sizes:
        A, B, C = (rng.random(shape) < density for shape, density in (((m, k), 0.2), ((k, n), 0.2), ((m, n), 0.1)))
        result = np.full((m, -(-n // 32) + 1), 0xFFFFFFFF, np.uint32)[:, : -(-n // 32)]
        engine.multiply(result, pack_words(A, 1), pack_words(B, 2))
        np.testing.assert_array_equal(unpack_words(result, n), oracles.product(A, B, name))
        result = pack_words(C, 1)
        engine.multiply_add(result, pack_words(A), pack_words(B))
        np.testing.assert_array_equal(unpack_words(result, n), oracles.product(A, B, name, C))


@pytest.mark.parametrize("name", ["boolean", "max_min"])
def test_packed_witnesses(backend, name, rng):
    engine = bind(backend, name, "bool", storage="bits")
    for m, k, n in [(1, 1, 1), (3, 0, 5), (5, 70, 33), (33, 130, 65)]:
        A, B, C = (rng.random(shape) < 0.15 for shape in ((m, k), (k, n), (m, n)))
        product = oracles.product(A, B, name)
        start = np.full((m, n), -1, np.int32)
        W, result = start.copy(), pack_words(C, 1)
        engine.multiply_add_witness(result, W, pack_words(A), pack_words(B), 7)
        np.testing.assert_array_equal(unpack_words(result, n), C | product)
        np.testing.assert_array_equal(W, np.where(product & ~C, 7 + oracles.witness(A, B, name), -1))


def test_packed_closures(closing, rng):
    engine = bind(closing, "boolean", "bool", storage="bits")
    for n in (0, 1, 2, 31, 32, 33, 97):
        A = rng.random((n, n)) < 1.5 / max(1, n)
        words = pack_words(A, 1)
        engine.close_block(words)
        np.testing.assert_array_equal(unpack_words(words, n), oracles.reachable(A))


# ------------------------------------------------------------------------------------------------- products in place


@pytest.mark.parametrize(("name", "dtype"), [("min_plus", "float32"), ("plus_times", "float64"), ("max_plus", "int32")])
@pytest.mark.parametrize("panel", [1, 7, 64, 512])
def test_products_in_place(backend, name, dtype, panel, rng):
    plan = bind(backend, name, dtype).plan
    engine = Engine(backend, plan, panel=panel)
    for m, n in [(1, 1), (3, 0), (5, 70), (67, 65)]:
        A, B = entries(rng, name, dtype, (m, m)), entries(rng, name, dtype, (m, n))
        result = laid_out(to_kernel_form(B, name), "columns")
        engine.multiply_left(to_kernel_form(A, name), result)
        agree(to_caller_form(result, name), oracles.product(A, B, name), name)
        result = laid_out(to_kernel_form(B.T, name), "rows")
        engine.multiply_right(result, to_kernel_form(A, name))
        agree(to_caller_form(result, name), oracles.product(B.T, A, name), name)


def test_packed_products_in_place(backend, rng):
    plan = bind(backend, "boolean", "bool", storage="bits").plan
    for panel in (32, 64, 512):
        engine = Engine(backend, plan, panel=panel)
        A, B = rng.random((67, 67)) < 0.1, rng.random((67, 130)) < 0.1
        words = pack_words(B)
        engine.multiply_left(pack_words(A), words)
        np.testing.assert_array_equal(unpack_words(words, 130), oracles.product(A, B, "boolean"))
        words = pack_words(B.T)
        engine.multiply_right(words, pack_words(A))
        np.testing.assert_array_equal(unpack_words(words, 67), oracles.product(B.T, A, "boolean"))


# ------------------------------------------------------------------------------------------------- choosing a backend


def test_every_case_has_a_backend():
    for name, dtype in CASES:
        assert backend_for(None, CATALOGUE[name], np.dtype(dtype)).supports(CATALOGUE[name], np.dtype(dtype))
    for name in PACKED:
        assert backend_for(None, CATALOGUE[name], np.dtype(bool), "bits").name in BACKENDS
    half = np.dtype(np.float16)
    assert backend_for(None, CATALOGUE["min_plus"], half).supports(CATALOGUE["min_plus"], half)


def test_a_backend_that_is_named_after_the_first_call_is_used(monkeypatch):
    shortest, double, used = CATALOGUE["min_plus"], np.dtype(np.float64), []
    A = np.array([[0.0, 2.0], [1.0, 0.0]])
    multiply, close = ReferenceBackend.multiply, ReferenceBackend.close_block
    monkeypatch.setattr(ReferenceBackend, "multiply", lambda *args: used.append("product") or multiply(*args))
    monkeypatch.setattr(ReferenceBackend, "close_block", lambda *args: used.append("closure") or close(*args))

    def calls():
        used.clear()
        semiring.matmul(A, A)
        semiring.closure(A)
        return list(dict.fromkeys(used)), backend_for(None, shortest, double).name

    monkeypatch.delenv("SEMIRING_BACKEND", raising=False)
    assert calls() == ([], "cpu")
    monkeypatch.setenv("SEMIRING_BACKEND", "reference")
    assert calls() == (["product", "closure"], "reference")
    monkeypatch.setenv("SEMIRING_BACKEND", "")
    assert calls() == ([], "cpu")
    monkeypatch.setenv("SEMIRING_BACKEND", "abacus")
    for call in (semiring.matmul, lambda *_: semiring.closure(A)):
        with pytest.raises(UnknownNameError, match="no backend is named 'abacus'"):
            call(A, A)
    monkeypatch.delenv("SEMIRING_BACKEND")
    assert calls() == ([], "cpu")


def test_what_no_backend_takes_is_an_error():
    with pytest.raises(UnknownNameError, match="cpu, cuda, reference"):
        get_backend("abacus")
    with pytest.raises(DTypeError, match="min_plus on float32 cannot be stored as bits"):
        backend_for(None, CATALOGUE["min_plus"], np.dtype(np.float32), "bits")
    with pytest.raises(DTypeError, match="not defined on uint8"):
        backend_for(None, CATALOGUE["min_plus"], np.dtype(np.uint8))


# -------------------------------------------------------------------------------------------------------------- plans


def test_plans_of_one_kind_share_what_is_derived_and_nothing_that_is_noticed():
    shortest = CATALOGUE["min_plus"]
    one, other = make_plan(shortest, "float32"), make_plan(shortest, np.float32)
    assert one == other
    assert one.memo is other.memo
    one.status.diverged = 3
    assert other.status.diverged == make_plan(shortest, "float32").status.diverged == -1
    kinds = [{"nonnegative": True}, {"separate": True}, {"threads": 2}]
    assert len({id(make_plan(shortest, "float32", **kind).memo) for kind in [{}, *kinds]}) == 4


def test_the_plan_of_an_equal_semiring_names_its_own():
    twin = Semiring("twin", "max(x, y)", "min(x, y)", float("-inf"), float("inf"))
    assert twin == CATALOGUE["max_min"]
    assert [make_plan(semiring, "int32").semiring.name for semiring in (CATALOGUE["max_min"], twin)] == [
        "max_min",
        "twin",
    ]
