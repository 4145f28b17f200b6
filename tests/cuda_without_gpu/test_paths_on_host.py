"""Test the kernels of centrality and of updates, run on the host (`cuda_on_host`), against the CPU."""

from __future__ import annotations

import sys
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
import trees
from cuda_on_host import HostKernels, needs_compiler, to_device
from machine_code import compile_for, needs_nvrtc, resources

import semiring as sr
from semiring.algorithms.brandes import shortest_path_graph, sum_dependencies
from semiring.kernels import cuda, get_backend
from semiring.kernels.contract import Adjacency
from semiring.kernels.cuda.closing.kernel_text import arithmetic_of, source
from semiring.kernels.engine import make_plan
from semiring.sparse.edge_inputs import edges_of

pytestmark = [needs_compiler, pytest.mark.full]
_kernels = {}


class Library(ModuleType):
    """The module ``cupy``, of arrays of the host."""

    cuda = SimpleNamespace(
        Device=lambda: SimpleNamespace(mem_info=(1 << 30, 1 << 30)), runtime=SimpleNamespace(getDevice=lambda: 0)
    )

    def __getattr__(self, name):
        function = getattr(np, name)
        return function if isinstance(function, type) else lambda *given, **how: to_device(function(*given, **how))


def launcher(text, name, order):
    """Return a function that launches a kernel of a text, in one of two orders of threads and blocks."""
    _kernels.setdefault(text, HostKernels(text))

    def launch(grid, threads, arguments, shared_mem=0):
        given = [x.view(np.ndarray) if isinstance(x, np.ndarray) else x for x in arguments]
        _kernels[text].launch(name, (*grid, 1, 1)[:3], (*threads, 1, 1)[:3], given, backwards=order)

    return launch


@pytest.fixture(params=[False, True], ids=["forwards", "backwards"])
def modules(monkeypatch, request):
    """Return the modules that launch the kernels, on arrays of the host."""
    monkeypatch.setitem(sys.modules, "cupy", Library("cupy"))
    names = [f"semiring.kernels.cuda.{name}" for name in ("centrality_kernels", "update_kernels")]
    for name in names:
        monkeypatch.delitem(sys.modules, name, raising=False)
    centrality, updates = map(import_module, names)
    monkeypatch.setattr(centrality, "current_device", lambda: 0)
    monkeypatch.setattr(
        centrality,
        "_kernel",
        lambda name, dtype, options, device: launcher(centrality.source(dtype, options), name, request.param),
    )
    monkeypatch.setattr(updates, "multiprocessors", lambda: 1)
    monkeypatch.setattr(
        updates,
        "compile_kernel",
        lambda file, name, arithmetic, defines, shared: launcher(
            source(file, arithmetic, defines), name, request.param
        ),
    )
    yield centrality, updates
    for name in names:
        sys.modules.pop(name)


def random_matrix(rng, n, kind):
    A = np.full((n, n), np.inf)
    m = 3 * n
    A[rng.integers(0, n, m), rng.integers(0, n, m)] = {
        "hops": np.ones(m),
        "ties": rng.integers(1, 4, m),
        "floats": rng.random(m) + 0.01,
        "large": rng.integers(1, 4, m) * 2.0**51,
    }[kind]
    if kind == "large":
        A = np.where(np.isinf(A), 2**63 - 1, np.where(np.isinf(A), 0, A).astype(np.int64))
    return A


def graph_of(A):
    edges = edges_of(A, sr.min_plus, check=False)
    return shortest_path_graph(edges.pattern, edges.values, None, 1)


def operand_of(graph):
    searches = graph.searches
    weights = searches.weights[:0] if graph.has_equal_weights else searches.weights
    return tuple(map(to_device, (searches.starts, searches.heads, weights, graph.ranks)))


@pytest.mark.parametrize("kind", ["hops", "ties", "floats", "large"])
def test_dependencies_are_those_of_the_host(kind, modules, rng, monkeypatch):
    kernels, _ = modules
    monkeypatch.setattr(kernels, "_BATCH", 100)
    for n in (1, 2, 40, 90):
        A = random_matrix(rng, n, kind)
        graph = graph_of(A)
        searches, operand = graph.searches, operand_of(graph)
        assert graph.has_equal_weights or kind != "hops"
        for endpoints, sources in ((False, np.arange(n)), (True, rng.permutation(n)[: n // 2 + 1])):
            expected = sum_dependencies(graph, sources, endpoints=endpoints, edges=True)
            sums = to_device(np.zeros(n)), to_device(np.zeros(searches.heads.size))
            kernels.add_dependencies(searches.plan, operand, sources, endpoints, *sums)
            for ours, theirs in zip(sums, expected, strict=True):
                np.testing.assert_allclose(ours, theirs, rtol=1e-12, atol=1e-13)
        if kind == "floats":
            out = to_device(np.empty((n, n)))
            kernels.find_distances(searches.plan, (*operand[:2], to_device(searches.weights), None), np.arange(n), out)
            np.testing.assert_allclose(out, sr.closure(A), rtol=1e-14)


def test_counts_with_exponents_and_absorbed_weights(modules, monkeypatch):
    """Diamonds in a row, whose counts have exponents from 100 paths on; and 2^60, which absorbs 1."""
    kernels, _ = modules
    A, first = np.full((37, 37), np.inf), 3 * np.arange(12)
    for tails, heads, weight in ((0, 1, 1), (0, 2, 2), (1, 3, 2), (2, 3, 1)):
        A[first + tails, first + heads] = weight
    graph = graph_of(A)
    expected = sum_dependencies(graph, np.arange(37), endpoints=False, edges=True)
    source_of = kernels.source
    monkeypatch.setattr(kernels, "source", lambda *given: source_of(*given).replace("1e290", "100.0"))
    sums = to_device(np.zeros(37)), to_device(np.zeros(graph.searches.heads.size))
    kernels.add_dependencies(graph.searches.plan, operand_of(graph), np.arange(37), False, *sums)
    for ours, theirs in zip(sums, expected, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-12)
    A[0, 1] = A[0, 2] = 2.0**60
    graph = graph_of(A)
    with pytest.raises(sr.DomainError, match="absorb"):
        kernels.add_dependencies(graph.searches.plan, operand_of(graph), np.arange(3), False, *sums)


UPDATED = [
    ("min_plus", "float64", lambda rng, k: rng.integers(0, 9, k)),
    ("min_plus", "float64", lambda rng, k: rng.choice([0.0, 0.1, 0.2, 0.3], k)),
    ("min_plus", "int32", lambda rng, k: rng.integers(0, 9, k)),
    ("max_min", "uint8", lambda rng, k: rng.integers(0, 6, k)),
    ("boolean", "bool", lambda rng, k: np.ones(k)),
]


def check(A, D, P, semiring):
    D, P = D.view(np.ndarray), P.view(np.ndarray)
    np.testing.assert_allclose(
        D.astype(float), sr.closure(A, semiring, check=False).astype(float), rtol=1e-12, atol=1e-14
    )
    if P.size:
        trees.check(semiring.name, A, D, P, absolute=1e-13)


@pytest.mark.parametrize("gain", [0, 1])
@pytest.mark.parametrize(("name", "dtype", "draw"), UPDATED)
def test_changes_are_those_of_the_host(name, dtype, draw, gain, modules, rng):
    """With gains, edges have weights below 0, by potentials, and no cycle has."""
    if gain and (name, dtype) != ("min_plus", "float64"):
        return
    _, kernels = modules

    def weights_of(tails, heads):
        return draw(rng, tails.size) + gain * (heads % 7 - tails % 7)

    semiring = sr.as_semiring(name)
    zero = semiring.zero_for(dtype)
    plan = replace(make_plan(semiring, dtype), zero=zero)
    host = get_backend("cpu")
    for n in (2, 9, 40):
        for has_trees in (False, True):
            A = np.full((n, n), zero, dtype)
            tails, heads = rng.integers(0, n, (2, 2 * n))
            A[tails, heads] = weights_of(tails, heads)
            paths = sr.best_paths(A, semiring, check=False)
            D, P = paths.matrix, paths.predecessors if has_trees else np.empty((0, 0), np.int32)
            D, P = to_device(D), to_device(P)
            edges = np.argwhere(np.not_equal(A, zero) & ~np.eye(n, dtype=bool))
            some = edges[rng.permutation(len(edges))[:3]]
            tails, heads = some.T
            old, A = A[tails, heads], A.copy()
            A[tails, heads] = zero
            listed = host.list_edges(plan, A)
            for ours, theirs in zip(kernels.list_edges(plan, to_device(A)), listed, strict=True):
                np.testing.assert_array_equal(ours, theirs)
                assert ours.dtype == theirs.dtype
            users = tails, heads, old, (0.0, 0.0) if has_trees else (1e-9, 1e-9)
            counts = kernels.count_users(plan, D, P, Adjacency(*map(to_device, listed)), *users)
            np.testing.assert_array_equal(
                counts, host.count_users(plan, D.view(np.ndarray), P.view(np.ndarray), listed, *users)
            )
            before, touched = D.copy(), to_device(np.zeros((n, n), np.bool_))
            on_device = Adjacency(*map(to_device, listed))
            pairs, values = kernels.repair(plan, D, P, on_device, *users, counts, touched)
            np.testing.assert_array_equal(before.reshape(-1)[pairs], values)
            np.testing.assert_array_equal(np.flatnonzero(touched), np.sort(pairs))
            assert pairs.size == counts.sum()
            check(A, D, P, semiring)
            assert np.isin(np.flatnonzero(before != D), pairs).all()
            assert kernels.count_changed(plan, D, pairs, values) == np.count_nonzero(before != D)
            before = D.copy()
            fresh = np.unique(rng.integers(0, n * n, 3))
            tails, heads = fresh // n, fresh % n
            better = np.asarray(semiring.add(A[tails, heads], weights_of(tails, heads).astype(dtype)), dtype)
            A[tails, heads] = better
            touched = to_device(np.zeros((n, n), np.bool_))
            count = kernels.improve(plan, D, P, tails, heads, better, touched)
            check(A, D, P, semiring)
            assert count == np.count_nonzero(before != D)


def test_predecessors_that_are_no_trees_and_cycles_that_gain_end(modules):
    """Without an end, a GPU could not even be interrupted."""
    _, kernels = modules
    plan = replace(make_plan(sr.min_plus, "float64"), zero=np.inf)
    A = np.array([[np.inf, 5, 9], [np.inf, np.inf, 1], [np.inf, -2, np.inf]])  # 1 → 2 → 1 weighs -1
    D, no_trees = to_device(np.array([[0.0, 2, 3], [np.inf, 0, 1], [np.inf, -1, 0]])), to_device(np.empty((0, 0), "i4"))
    listed = kernels.list_edges(plan, to_device(A))
    users = np.array([0]), np.array([1]), np.array([2.0]), (0.0, 0.0)
    counts = kernels.count_users(plan, D, no_trees, listed, *users)
    assert counts.tolist() == [2, 0, 0]
    assert kernels.repair(plan, D, no_trees, listed, *users, counts, no_trees) is None
    D, P = sr.closure(np.array([[np.inf, 5, 9], [np.inf, np.inf, 1], [3, 2, np.inf]])), np.full((3, 3), 7, np.int32)
    P[1] = 2, -9999, 0
    kernels.improve(plan, to_device(D), to_device(P), np.array([0]), np.array([1]), np.array([1.0]), no_trees)


@pytest.mark.parametrize("share", [0.0, 0.02, 0.5, 1.0])
def test_lists_of_edges_are_those_of_the_host(share, modules, rng):
    _, kernels = modules
    plan = replace(make_plan(sr.min_plus, "float32"), zero=np.float32(np.inf))
    for n in (1, 31, 33, 70):
        A = np.where(rng.random((n, n)) < share, rng.random((n, n)), np.inf).astype(np.float32)
        for backend in ("cpu", "reference"):
            expected = get_backend(backend).list_edges(plan, A)
            for ours, theirs in zip(kernels.list_edges(plan, to_device(A)), expected, strict=True):
                np.testing.assert_array_equal(ours, theirs)
                assert ours.dtype == theirs.dtype


@needs_nvrtc
@pytest.mark.parametrize("dtype", ["float64", "int64", "int32"])
def test_machine_code_keeps_to_registers(dtype):
    plan = make_plan(sr.min_plus, dtype)
    texts = [source("updates.cu", arithmetic_of(plan), ("NONE (-9999)",))]
    library = Path(cuda.__file__).with_name("centrality.cu").read_text("utf-8")
    length = {"float64": "double", "int64": "long long", "int32": "int"}[dtype]
    texts.append(f"#define NO_PATH (({length})1e9)\n#define EXPONENTS\ntypedef {length} Length;\n{library}")
    for text in texts:
        found = resources(compile_for("sm_90a", text, ("--std=c++17", "--fmad=false"))[1])
        assert all(registers <= 64 and spills == 0 for registers, spills in found.values())
