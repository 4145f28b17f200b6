"""Test blocked Floyd-Warshall by lanes, with tasks in any order that their dependences allow, on the host's backend."""

from __future__ import annotations

import sys
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from tiers import quick

import semiring as sr
from semiring.algorithms import blocked_floyd_warshall as algorithm
from semiring.algorithms import schedule
from semiring.algorithms.blocked_floyd_warshall import blocked_floyd_warshall
from semiring.algorithms.components import _close_by_blocks
from semiring.algorithms.undirected import undirected
from semiring.closures import problem
from semiring.graphs.strongly_connected import component_ranges, strong_components
from semiring.kernels import get_backend
from semiring.kernels.contract import Capabilities
from semiring.kernels.engine import Engine, make_plan


class DeferredStreams:
    """Streams that run nothing before the end, and then the first task of any lane that waits for no other one."""

    def __init__(self, choose):
        self.choose, self.lanes = choose, {}

    def __enter__(self):
        return self

    def __exit__(self, *error):
        done = set()
        while self.lanes:
            ready = [number for number, tasks in self.lanes.items() if tasks[0][1] <= done]
            number = self.choose(ready)
            mark, _, task = self.lanes[number].pop(0)
            task()
            done.add(mark)
            if not self.lanes[number]:
                del self.lanes[number]

    def run(self, number, task, after):
        mark = object()
        self.lanes.setdefault(number, []).append((mark, {other for other in after if other is not None}, task))
        return mark


class WithLanes:
    """The backend of the host, with lanes."""

    def __init__(self, choose):
        self.host, self.choose = get_backend("cpu"), choose
        self.capabilities = Capabilities(streams=self)

    def __getattr__(self, name):
        return getattr(self.host, name)

    def lanes(self, plan):
        return DeferredStreams(self.choose)

    def mark(self):
        return SimpleNamespace(done=True)


#: The lane that continues: the first that has a task ready, or a random one, from a seed.
ORDERS = [(0, 1, 2, 3, 4), (4, 3, 2, 1, 0), (4, 0, 1, 2, 3), (3, 4, 0, 2, 1), (2, 4, 1, 0, 3), 0, 1, 2]


def chooser(order):
    if isinstance(order, tuple):
        return lambda ready: min(ready, key=order.index)
    return np.random.default_rng(order).choice


def matrix(rng, name, n):
    if name == "xor_and":  # acyclic, so that every star is one
        order = rng.permutation(n)
        return np.triu(rng.integers(0, 1 << 20, (n, n)), 1).astype(np.int32)[np.ix_(order, order)]
    A = rng.integers(1, 1000, (n, n)).astype(np.float32)
    return np.where(rng.random((n, n)) < 0.05, A, sr.as_semiring(name).zero_for(A.dtype)).astype(np.float32)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("name", ["min_plus", "max_min", "xor_and"])
@pytest.mark.parametrize(
    ("n", "width"),
    quick(lambda n, width: n in (97, 64, 5), [(97, 32), (160, 32), (130, 64), (65, 64), (64, 64), (5, 1)]),
)
@pytest.mark.parametrize("tasks", [algorithm._look_ahead, algorithm._look_ahead_by_rows])
def test_no_task_overtakes_what_it_needs(rng, monkeypatch, name, n, width, order, tasks):
    monkeypatch.setattr(algorithm, "_look_ahead", tasks)
    A = matrix(rng, name, n)
    D = A.copy()
    engine = Engine(WithLanes(chooser(order)), make_plan(sr.as_semiring(name), D.dtype))
    blocked_floyd_warshall(engine, D, width=width)
    np.testing.assert_array_equal(D, sr.closure(A, name, method="floyd_warshall"))


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("name", ["min_plus", "max_min"])
def test_one_triangle_by_lanes(rng, monkeypatch, name, order):
    narrow = {key: replace(each, triangle=13) for key, each in schedule._TABLE.items()}
    monkeypatch.setattr(schedule, "_TABLE", narrow)
    for n in (1, 13, 40, 79):
        A = matrix(rng, name, n)
        A = np.where(np.tri(n, k=-1, dtype=bool), A.T, A)
        D = A.copy()
        undirected(Engine(WithLanes(chooser(order)), make_plan(sr.as_semiring(name), D.dtype)), D)
        np.testing.assert_array_equal(D, sr.closure(A, name, method="floyd_warshall"))


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("kind", ["acyclic", "parts", "apart"])
def test_block_triangular_matrices_by_lanes(rng, monkeypatch, kind, order):
    """Ranges of weak components are closed one after the other, in blocks that divide components or hold several."""
    n, width = 90, 13
    A = matrix(rng, "min_plus", n) * np.float32(1)
    part = np.arange(n) if kind == "acyclic" else np.sort(rng.integers(0, 7, n))
    A[part[:, None] != part if kind == "apart" else part[:, None] > part] = np.inf
    found = strong_components(A, np.float32(np.inf))
    covered = 0
    for first, last in component_ranges(found, width):
        low, high = int(found.bounds[first]), int(found.bounds[last])
        assert low == covered
        assert high - low >= width or high == n
        covered = high
    assert covered == n
    narrow = {key: replace(each, triangle=width) for key, each in schedule._TABLE.items()}
    monkeypatch.setattr(schedule, "_TABLE", narrow)
    D = A[found.order][:, found.order].copy()
    _close_by_blocks(Engine(WithLanes(chooser(order)), make_plan(sr.min_plus, D.dtype)), D, found, None)
    place = np.argsort(found.order)
    np.testing.assert_array_equal(D[place][:, place], sr.closure(A, method="floyd_warshall"))


@pytest.mark.parametrize("storage", ["elements", "bits"])
def test_all_that_is_ever_allocated_is_some_panels(rng, monkeypatch, storage):
    """A device's allocator keeps freed blocks, so a workspace that grew every round would take half a matrix."""
    sizes = []

    class Counting:
        @staticmethod
        def empty(shape, dtype):
            sizes.append(np.prod(shape))
            return np.empty(shape, dtype)

    for module in (algorithm, sys.modules[Engine.__module__]):
        monkeypatch.setattr(module, "array_namespace", lambda A: Counting)
    n, width = 640, 32
    bits, D = storage == "bits", matrix(rng, "min_plus", n)
    semiring, matrix_ = ("boolean", sr.pack(np.isfinite(D)).words.copy()) if bits else ("min_plus", D)
    plan = make_plan(sr.as_semiring(semiring), bool if bits else D.dtype, storage=storage)
    blocked_floyd_warshall(Engine(WithLanes(chooser(0)), plan), matrix_, width=width)
    assert n * width // (32 if bits else 1) <= sum(sizes) <= 6 * n * width // (32 if bits else 1)


@pytest.mark.full
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(("n", "width"), [(200, 32), (200, 64), (300, 96), (65, 64)])
def test_packed_bits(rng, n, width, order):
    A = rng.random((n, n)) < 1.5 / n
    words = sr.pack(A).words.copy()
    engine = Engine(WithLanes(chooser(order)), make_plan(sr.boolean, bool, storage="bits"))
    blocked_floyd_warshall(engine, words, width=width)
    expected = sr.pack(sr.closure(A, "boolean", method="floyd_warshall"))
    np.testing.assert_array_equal(words, expected.words)


def test_all_that_is_reported_is_all_there_was_to_do(rng, monkeypatch):
    A, seen = matrix(rng, "min_plus", 150), []
    expected = sr.closure(A)
    monkeypatch.setattr(problem, "backend_for", lambda *_: WithLanes(min))
    D = sr.closure(A, method="blocked_floyd_warshall", progress=lambda done, total: seen.append((done, total)))
    np.testing.assert_array_equal(D, expected)
    assert seen[-1] == (150**3, 150**3)


class RecordingStreams(DeferredStreams):
    """Deferred streams that record which tasks each task follows, by the order of its lane or a mark."""

    def __init__(self, choose):
        super().__init__(choose)
        self.predecessors, self.last, self.current = {}, {}, None

    def run(self, number, task, after):
        def record_and_run():
            self.current = mark
            task()

        mark = super().run(number, record_and_run, after)
        before = {other for other in (*after, self.last.get(number)) if other is not None}
        self.predecessors[mark] = before.union(*(self.predecessors[other] for other in before))
        self.last[number] = mark
        return mark

    def are_ordered(self, one, other):
        return one is other or one in self.predecessors[other] or other in self.predecessors[one]


@pytest.mark.parametrize(("n", "width"), [(65, 64), (160, 32), (350, 32)])
@pytest.mark.parametrize("kind", ["elements", "two matrices by one engine", "rows ahead", "xor_and", "bits"])
def test_who_copies_into_one_memory_is_ordered(rng, monkeypatch, kind, n, width):
    """A task reads its copy until it ends, so two tasks that copy into one place must be ordered."""
    lanes, copies, copied = RecordingStreams(min), [], Engine.copy_panel

    def record_copy(self, view, out=None):
        out = copied(self, view, out)
        copies.append((lanes.current, out))
        return out

    monkeypatch.setattr(Engine, "copy_panel", record_copy)
    monkeypatch.setattr(WithLanes, "lanes", lambda self, plan: lanes)
    if kind == "rows ahead":
        monkeypatch.setattr(algorithm, "_look_ahead", algorithm._look_ahead_by_rows)
    name = "xor_and" if kind == "xor_and" else "min_plus"
    A = matrix(rng, name, n)
    plan = make_plan(sr.as_semiring(name), A.dtype)
    if kind == "bits":
        A, plan = sr.pack(np.isfinite(A)).words, make_plan(sr.boolean, bool, storage="bits")
    engine = Engine(WithLanes(min), plan)
    blocked_floyd_warshall(engine, A, width=width)
    if kind.startswith("two"):  # the second behind the first, as work of one stream is
        copies.clear()
        blocked_floyd_warshall(engine, matrix(rng, name, n), width=width)
    assert len({task for task, _ in copies}) > 1
    for position, (task, out) in enumerate(copies):
        for other, later in copies[position + 1 :]:
            assert lanes.are_ordered(task, other) or not np.shares_memory(out, later)
