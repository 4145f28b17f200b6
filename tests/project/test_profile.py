"""Test profiles, which are trees of the operations that ran, on every backend, and calls without a profile."""

from __future__ import annotations

import pickle
import re
import sys
import threading
from functools import cached_property
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

import semiring as sr
from semiring import profiling
from semiring.kernels import backend_for, contract, get_backend
from semiring.kernels.cpu import CpuBackend
from semiring.kernels.engine import Engine, make_plan
from semiring.kernels.reference import ReferenceBackend
from semiring.kernels.spans import KINDS, record_kernels
from semiring.logs import Compilation
from semiring.profiling import Span, record, span


@pytest.fixture(autouse=True, scope="module")
def _compile():
    """Compile the products whose spans are counted here, because compilations are spans too."""
    sr.matmul(np.eye(4), np.eye(4))


def matrix(n=300, dtype="float64"):
    return np.random.default_rng(n).integers(1, 100, (n, n)).astype(dtype)


def of_kind(spans, kind):
    return [one for one in spans.walk() if one.kind == kind]


def test_a_product_with_its_shape_its_pairs_and_its_bytes():
    A, B = matrix(20, "float32")[:10], matrix(20, "float32")[:, :7]
    with sr.profile() as ran:
        sr.matmul(A, B, "max_plus")
    (call,) = ran.children
    assert (call.kind, call.name) == ("call", "matmul")
    assert call.label == "matmul max_plus 10 × 20 float32, 20 × 7 float32"
    (product,) = of_kind(ran, "product")
    assert product.name == "multiply"
    assert product.details == {"shape": (10, 20, 7), "semiring": "max_plus", "dtype": "float32"}
    assert product.pairs == ran.pairs == 10 * 20 * 7
    assert product.bytes == ran.bytes == 4 * (10 * 20 + 20 * 7 + 10 * 7)
    assert 0 < product.seconds <= call.seconds <= ran.seconds


def test_stacks_and_packed_bits():
    with sr.profile() as ran:
        sr.matmul(np.ones((5, 4, 3)), np.ones((5, 3, 2)))
        packed = sr.pack(np.ones((40, 50), bool))
        sr.matmul(packed, sr.pack(np.ones((50, 70), bool)), "boolean")
    stack, bits = of_kind(ran, "product")
    assert (stack.label, stack.pairs) == ("multiply 5 of 4 × 3 × 2 min_plus float64", 5 * 4 * 3 * 2)
    assert (bits.details["shape"], bits.details["storage"]) == ((40, 50, 96), "as bits")


@pytest.mark.parametrize("method", ["rkleene", "blocked_floyd_warshall", "squaring"])
def test_a_closure_shows_its_products(method):
    A = matrix()
    expected = sr.closure(A, method=method)
    with sr.profile() as ran:
        D = sr.closure(A, method=method)
    assert np.array_equal(D, expected)
    assert {one.name for one in of_kind(ran, "product")} <= {"multiply", "multiply_add"}
    assert of_kind(ran, "product")
    assert ran.pairs >= 300**3 * 0.99


def test_predecessors_and_small_matrices_are_seen():
    with sr.profile() as ran:
        sr.shortest_paths(matrix())
        sr.closure(matrix(4, "float64"))
    assert len(of_kind(ran, "predecessors")) == 1
    assert any(one.details["shape"] == (4, 4) for one in of_kind(ran, "closing"))


def test_with_a_progress_bar_too():
    done = []
    with sr.profile() as ran:
        sr.closure(matrix(), progress=lambda part, whole: done.append((part, whole)))
    assert done[-1][0] == done[-1][1]
    assert of_kind(ran, "product")


def test_equal_things_side_by_side_are_one_line():
    with sr.profile() as ran:
        for _ in range(3):
            sr.matmul(np.eye(4), np.eye(4))
    heading, total, call, product = str(ran).splitlines()
    assert heading.split() == ["time", "calls", "pairs", "pairs/s", "bytes"]
    assert re.search(r" 1 +192 .* 1.12 KiB  in all$", total)
    assert re.search(r" 3 +192 .* 1.12 KiB    matmul 4 × 4 float64, 4 × 4 float64$", call)
    assert re.search(r" 3 +192 .* 1.12 KiB      multiply 4 × 4 × 4 min_plus float64$", product)


def test_scans_and_methods_are_spans():
    with (
        sr.profile() as ran,
        span("scan", "potentials", shape=(3, 3), because="an edge is below 0"),
        span("method", "rkleene", pairs=27, moved=100),
    ):
        pass
    (found,) = ran.children
    assert found.label == "potentials 3 × 3 an edge is below 0"
    assert [one.name for one in found.walk()] == ["potentials", "rkleene"]
    assert (found.pairs, found.bytes) == (27, 100)
    assert "  scan potentials" in str(ran)
    assert re.fullmatch(r"<method rkleene: .* µs>", repr(found.children[0]))


def test_what_raises_says_so_and_ends_its_span():
    with pytest.raises(sr.errors.ShapeError), sr.profile() as ran:
        sr.matmul(np.eye(3), np.eye(4))
    assert ran.children[0].details["raised"] == "ShapeError"
    assert not profiling.active
    with sr.profile() as again:
        sr.matmul(np.eye(3), np.eye(3))
    assert [one.kind for one in again.walk()] == ["profile", "call", "product"]


def test_nothing_is_recorded_outside():
    assert span("scan", "x") is span("scan", "y"), "one object that does nothing"
    with span("scan", "x") as nothing:
        assert nothing is None
    record("compilation", "x", 1.0)
    sr.matmul(np.eye(5), np.eye(5))
    with sr.profile() as ran:
        pass
    assert ran.children == []


def calls_of(run, monkeypatch):
    """Return the kernels that a call runs, with their plans and the engines' backends, in order."""
    calls = []
    for name in KINDS.keys() & vars(CpuBackend).keys():
        kernel = getattr(CpuBackend, name)

        def call(self, *arguments, _name=name, _kernel=kernel, **options):
            shapes = [x.shape for x in arguments if isinstance(x, np.ndarray)]
            calls.append((_name, [x.facts for x in arguments if isinstance(x, contract.KernelPlan)], shapes))
            return _kernel(self, *arguments, **options)

        monkeypatch.setattr(CpuBackend, name, call)
    result = run()
    monkeypatch.undo()
    return calls, result


EDGES = [[0, 3, np.inf], [np.inf, 0, 4], [1, np.inf, 0]]
RUNS = {
    "product": lambda **_: sr.matmul(matrix(40), matrix(40)),
    "small closure": lambda **o: sr.closure(matrix(4), **o),
    "closure": lambda **o: sr.closure(matrix(200), **o),
    "stack": lambda **o: sr.closure(np.ones((3, 9, 9)), **o),
    "negative weights": lambda **o: sr.closure(np.triu(matrix(90) - 120.0, 1) + np.tril(matrix(90) + 1e5, -1), **o),
    "sparse": lambda **o: sr.closure(np.where(matrix(120) < 4, 1.0, np.inf), **o),
    "packed bits": lambda **o: sr.closure(sr.pack(matrix(200) < 3), "boolean", **o),
    "paths": lambda **o: sr.shortest_paths(EDGES, **o),
    "irreflexive": lambda **o: sr.closure(matrix(70), reflexive=False, **o),
    "integers": lambda **o: sr.closure(matrix(150, "int32"), **o),
}


@pytest.mark.parametrize("name", RUNS)
def test_a_profile_and_an_explanation_show_the_run_that_happens_without_them(name, monkeypatch):
    """The same kernels run, on the same shapes, with the same results."""
    run = RUNS[name]
    run()  # plans and compilations are those of later calls
    plain, result = calls_of(run, monkeypatch)

    def profiled():
        with sr.profile() as ran:
            return run(), ran

    watched, (measured, ran) = calls_of(profiled, monkeypatch)
    assert watched == plain
    assert plain
    recorded = [one.name for one in ran.walk() if one.kind in set(KINDS.values()) - {"replay"}]
    assert [one for one, *_ in plain if one in recorded], "the kernels are in the profile"
    if name != "product":
        explained, found = calls_of(lambda: run(explain=True), monkeypatch)
        assert explained == plain
        explained_result = found[0] if isinstance(found, tuple) else found
        assert same(explained_result, result)
    assert same(measured, result)


def same(one, other):
    values = [getattr(x, "words", getattr(x, "matrix", x)) for x in (one, other)]
    return np.array_equal(*values)


def test_profiles_and_axiom_reports_can_be_pickled():
    with sr.profile() as ran, span("scan", "x"):
        sr.closure(matrix(20))
        assert str(pickle.loads(pickle.dumps(ran))).count("\n") >= 2, "also while it is open"
    assert str(pickle.loads(pickle.dumps(ran))) == str(ran)
    for semiring in (sr.min_plus, sr.Semiring("difference", "max(x, y)", "x - y", zero="-inf", one=0)):
        report = semiring.check_axioms()
        assert str(pickle.loads(pickle.dumps(report))) == str(report)


def test_a_profile_sees_its_own_thread_alone():
    def work():
        sr.matmul(np.eye(6), np.eye(6))

    with sr.profile() as ran:
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        Engine(backend_for(None, sr.min_plus, np.dtype("f8")), make_plan(sr.min_plus, "f8")).multiply(
            np.empty((2, 2)), np.eye(2), np.eye(2)
        )
    assert [one.kind for one in ran.walk()] == ["profile", "product"]


def test_a_profile_inside_another_belongs_to_both():
    with sr.profile() as outer:
        with sr.profile() as inner:
            sr.matmul(np.eye(3), np.eye(3))
        sr.matmul(np.eye(3), np.eye(3))
    assert len(of_kind(inner, "product")) == 1
    assert len(of_kind(outer, "product")) == 2


def test_compilations_are_in_it():
    with sr.profile() as ran:
        Compilation("min_plus float32 product").finish()
    (found,) = ran.children
    assert (found.kind, found.label) == ("compilation", "min_plus float32 product")


@pytest.mark.parametrize("name", ["cpu", "reference"])
def test_every_kernel_of_a_backend_is_measured(name):
    backend = get_backend(name)
    plan = make_plan(sr.min_plus, "float64")
    A, C, W = np.ones((3, 3)), np.ones((3, 3)), np.zeros((3, 3), np.int64)
    with sr.profile() as ran:
        backend.multiply(plan, C, A, A)
        backend.multiply_add(plan, C, A, A)
        backend.multiply_add_witness(plan, C, W, A, A, 0)
        backend.close_block(plan, C)
    assert [one.name for one in ran.children] == ["multiply", "multiply_add", "multiply_add_witness", "close_block"]
    assert {one.pairs for one in ran.children} == {27}
    assert [one.bytes for one in ran.children] == [216, 288, 360, 144]


#: What a backend says of itself, or hands out, without work on a matrix.
SAYINGS = {
    *("can_pull", "capabilities", "supports", "can_close", "stack_rows", "gaining_rows"),
    *("lanes", "mark", "can_multiply_in_place", "can_overlap", "has_bit_kernels", "propagates_nan", "paper_names"),
    "open_spur_searches",  # it returns an object, whose searches are no operations of the backend
}


def test_every_operation_of_the_contract_is_described():
    operations = {name for name in vars(contract.Backend) if not name.startswith("_")} | set(contract.OPERATIONS)
    assert {"multiply", "close_stack", "replay", "find_tree"} <= operations - SAYINGS
    assert operations - SAYINGS == set(KINDS)


@record_kernels
class Recording(ReferenceBackend, contract.StreamKernels, contract.ClosureKernels):
    """A backend with abilities of a GPU, on arrays of the host."""

    @cached_property
    def capabilities(self):
        return contract.Capabilities.from_backend(self)

    def stack_rows(self, plan):
        return 10

    def close_stack(self, plan, A):
        A[...] = plan.zero

    def lanes(self, plan):
        return None

    def mark(self):
        return None

    def replay(self, plan, A, engine_of, algorithm):
        algorithm(engine_of(plan), A)


def test_capabilities_are_measured_too():
    watched, plan = Recording(), make_plan(sr.min_plus, "float64")
    engine = Engine(watched, plan)
    with sr.profile() as ran:
        watched.capabilities.closures.close_stack(plan, np.ones((4, 3, 3)))
        watched.capabilities.streams.replay(plan, np.eye(5), lambda _: engine, Engine.close_block)
    stack, replay = ran.children
    assert stack.label == "close_stack 4 of 3 × 3 min_plus float64"
    assert stack.pairs == 4 * 27
    assert (replay.kind, [one.name for one in replay.children]) == ("replay", ["close_block"])
    assert not watched.capabilities.provides("close")  # a default of its group is no kernel to measure
    assert watched.capabilities.provides("close_stack")


def test_waiting_for_a_gpu_only_where_asked_and_never_while_launches_are_recorded(monkeypatch):
    waited = []
    stream = SimpleNamespace(is_capturing=lambda: capturing)
    cupy = ModuleType("cupy")
    cupy.is_available = lambda: True
    runtime = SimpleNamespace(deviceSynchronize=lambda: waited.append(1))
    cupy.cuda = SimpleNamespace(get_current_stream=lambda: stream, runtime=runtime)
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    capturing = False
    with sr.profile(), span("scan", "x"):
        pass
    assert not waited
    with sr.profile(synchronize=True):
        assert len(waited) == 1
        with span("scan", "x"):
            assert len(waited) == 2
            capturing = True
            with span("product", "multiply"):
                pass
            assert len(waited) == 2
            capturing = False
    assert len(waited) == 4


def test_durations_and_sizes_are_for_people():
    root = Span("profile", "in all", pairs=2_500_000_000, moved=3 << 30)
    for seconds, shown in ((0.0000123, "12.3 µs"), (0.25, "250 ms"), (2.5, "2.5 s"), (4000.0, "4,000 s")):
        root.seconds = seconds
        assert str(root).splitlines()[1].startswith(shown)
    assert "2.5 G" in str(root)
    assert "3 GiB" in str(root)
