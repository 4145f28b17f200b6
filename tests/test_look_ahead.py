"""Blocked Floyd-Warshall by lanes: its tasks in any order that their dependences allow, on the backend of the host."""

from __future__ import annotations

import sys

import numpy as np
import pytest

import semiring as sr
from semiring.algorithms import blocked_floyd_warshall as algorithm
from semiring.algorithms.blocked_floyd_warshall import blocked_floyd_warshall
from semiring.algorithms.execution import Execution
from semiring.algorithms.progress import total_pairs
from semiring.kernels import get_backend
from semiring.kernels.engine import Engine, make_plan


class Deferred:
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

    def __getattr__(self, name):
        return getattr(self.host, name)

    def lanes(self, plan):
        return Deferred(self.choose)


#: Of the lanes: the first of them that has a task ready goes on; or at random, from a seed.
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
@pytest.mark.parametrize(("n", "width"), [(97, 32), (160, 32), (130, 64), (65, 64), (64, 64), (5, 1)])
@pytest.mark.parametrize("tasks", [algorithm._look_ahead, algorithm._rows_ahead])
def test_no_task_overtakes_what_it_needs(rng, monkeypatch, name, n, width, order, tasks):
    monkeypatch.setattr(algorithm, "_look_ahead", tasks)
    A = matrix(rng, name, n)
    D = A.copy()
    engine = Engine(WithLanes(chooser(order)), make_plan(sr.as_semiring(name), D.dtype))
    blocked_floyd_warshall(engine, D, width=width)
    np.testing.assert_array_equal(D, sr.closure(A, name, method="floyd_warshall"))


@pytest.mark.parametrize("storage", ["elements", "bits"])
def test_all_that_is_ever_allocated_is_some_panels(rng, monkeypatch, storage):
    """An allocator of a device keeps what comes back: a workspace that grew with every round would be half a matrix."""
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


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(("n", "width"), [(200, 32), (200, 64), (300, 96), (65, 64)])
def test_packed_bits(rng, n, width, order):
    A = rng.random((n, n)) < 1.5 / n
    words = sr.pack(A).words.copy()
    engine = Engine(WithLanes(chooser(order)), make_plan(sr.boolean, bool, storage="bits"))
    blocked_floyd_warshall(engine, words, width=width)
    expected = sr.pack(sr.closure(A, "boolean", method="floyd_warshall"))
    np.testing.assert_array_equal(words, expected.words)


@pytest.mark.parametrize("order", ORDERS)
def test_pivots_are_those_of_one_round_after_the_other(rng, order):
    n, width = 150, 32
    A = matrix(rng, "min_plus", n)
    results = []
    for backend in (get_backend("cpu"), WithLanes(chooser(order))):
        D, P = A.copy(), np.full((n, n), -1, np.int32)
        blocked_floyd_warshall(Engine(backend, make_plan(sr.min_plus, D.dtype)), D, P, width=width)
        results.append((D, P))
    for one, other in zip(*results, strict=True):
        np.testing.assert_array_equal(one, other)


def test_all_that_is_reported_is_all_there_was_to_do(rng, monkeypatch):
    from semiring.algorithms import execution

    A, seen = matrix(rng, "min_plus", 150), []
    monkeypatch.setattr(execution, "backend_for", lambda *_: WithLanes(min))
    D = A.copy()
    Execution("blocked_floyd_warshall", 1, lambda done, total: seen.append((done, total))).close(sr.min_plus, D)
    np.testing.assert_array_equal(D, sr.closure(A))
    assert seen[-1][0] == seen[-1][1]
    plan = make_plan(sr.min_plus, A.dtype)
    assert total_pairs(blocked_floyd_warshall, Engine(WithLanes(min), plan), *A.shape) == seen[-1][1]
