"""Steps of one's own: between those of the library, in every closure, and forgotten again."""

from __future__ import annotations

import numpy as np
import pytest

import semiring as sr
from semiring.chain.maps import Map
from semiring.chain.planner import name_of
from semiring.chain.problem import No, Reduction
from semiring.chain.steps import STEPS, register_step, steps_in_order, unregister_step
from semiring.errors import MethodError, UnknownNameError


@pytest.fixture
def registered():
    """`register_step` for one test."""
    names = []

    def register(step, **place):
        made = register_step(step, **place)
        names.append(name_of(step))
        return made

    yield register
    for name in names:
        unregister_step(name)


class Halved(Map):
    """Half of every weight, exactly; ∞ stays itself."""

    moves = True

    def encode(self, rows, at, out):
        return rows / 2

    def decode(self, rows, at, out):
        return rows * 2


@pytest.fixture
def half_of():
    """A step that halves all weights where one of them is above 8, and the problems that it was asked about."""
    asked = []

    def half_of_all(p):
        asked.append(p)
        m = p.matrix
        if p.semiring is not sr.min_plus or not (m.array[np.isfinite(m.array)] > 8).any():
            return No("no weight above 8")
        return Reduction("a weight above 8", p.mapped(Halved(), p.known))

    return half_of_all, asked


@pytest.fixture
def graph(rng):
    return np.where(rng.random((20, 20)) < 0.3, rng.integers(1, 17, (20, 20)), np.inf).astype(np.float64)


def taken(explanation, name):
    return [link.applies for link in explanation.chain if link.step == name]


def test_a_step_is_asked_in_its_place(registered, half_of, graph):
    step, asked = half_of
    expected = sr.closure(graph)
    assert registered(step, before="unbounded") is step
    D, explanation = sr.closure(graph, explain=True)
    assert np.array_equal(D, expected)
    names = [link.step for link in explanation.chain]
    assert names.index("minplus") + 1 == names.index("half of all") == names.index("unbounded") - 1
    assert taken(explanation, "half of all") == [True]
    _, explanation = sr.closure(np.where(graph > 8, np.inf, graph), explain=True)
    assert taken(explanation, "half of all") == [False]
    assert len(asked) == 2


def test_small_matrices_planned_before_are_planned_anew(registered, half_of, graph):
    step, asked = half_of
    expected = sr.closure(graph)  # by a program, that is kept
    registered(step, before="unbounded")
    for _ in range(2):
        assert np.array_equal(sr.closure(graph), expected)
    assert len(asked) == 2
    paths = sr.shortest_paths(graph)
    assert paths.distance(0, 7) == expected[0, 7]
    assert len(asked) == 3


@pytest.mark.filterwarnings("ignore::semiring.errors.SuspiciousWeightsWarning")
def test_a_step_is_asked_about_stacks_and_other_semirings(registered, half_of, graph):
    step, asked = half_of
    stack = np.stack([graph, graph.T])
    expected, wide = sr.closure(stack), sr.closure(graph, "max_min")
    registered(step, before="unbounded")
    assert np.array_equal(sr.closure(stack), expected)
    assert np.array_equal(sr.closure(graph, "max_min"), wide)
    assert {p.semiring.name for p in asked} == {"min_plus", "max_min"}


def test_what_a_step_saw_in_one_matrix_of_a_stack_is_not_taken_for_the_others(registered, rng):
    def single(p):
        m = p.matrix
        if m.dtype != np.float64 or m.maps or m.array.max() > 2**20:
            return No("no float64, or a large one")
        return Reduction("closed in float32", p.but(p.facts, dtype=np.dtype(np.float32), inner=np.float32(np.inf)))

    stack = rng.integers(1, 99, (3, 9, 9)).astype(np.float64)
    stack[1:] += 2**25
    expected = sr.closure(stack, method="rkleene")
    registered(single, before="unbounded")
    assert np.array_equal(sr.closure(stack, method="rkleene"), expected)
    assert not np.array_equal(stack, stack.astype(np.float32))


def test_by_default_a_step_is_the_last(registered, half_of, graph):
    step, _ = half_of
    registered(step)
    assert steps_in_order() == (*STEPS, step)
    _, explanation = sr.closure(graph, explain=True)
    assert [link.step for link in explanation.chain][-2:] == ["half of all", "method"]


def test_a_step_may_come_before_another_that_was_registered(registered, half_of):
    step, _ = half_of
    registered(step, before="plus")

    def earlier(p):
        return No("never")

    registered(earlier, before="half of all")
    names = [name_of(each) for each in steps_in_order()]
    assert names[names.index("earlier") :][:3] == ["earlier", "half of all", "plus"]


def test_what_the_caller_gave_is_seen_before_the_intake(registered, graph):
    given = []

    def seen(p):
        given.append(p.given)
        return No("only looks")

    registered(seen, before="names")
    sr.closure(graph)
    assert len(given) == 1
    assert given[0] is graph


def test_an_error_of_a_step_leaves_the_matrix_as_it_was(registered, graph):
    def refused(p):
        raise sr.errors.DomainError("not this one")

    registered(refused)
    before = graph.copy()
    with pytest.raises(sr.errors.DomainError, match="not this one"):
        sr.closure(graph, out=graph)
    assert np.array_equal(graph, before)


def test_what_cannot_be_registered(half_of):
    step, _ = half_of
    with pytest.raises(MethodError, match="a function of a problem, not 5"):
        register_step(5)

    def minplus(p):
        return No("never")

    with pytest.raises(MethodError, match="'minplus' is a step already"):
        register_step(minplus)
    for place in ("nowhere", "half of all", 3):
        with pytest.raises(UnknownNameError, match="Valid names: arrays, "):
            register_step(step, before=place)
    assert steps_in_order() is STEPS


def test_what_is_registered_can_be_forgotten(half_of, graph):
    step, asked = half_of
    sr.register_step(step)
    with pytest.raises(MethodError, match="already"):
        sr.register_step(step)
    unregister_step("half of all")
    assert steps_in_order() is STEPS
    sr.closure(graph)
    assert not asked
    for name in ("half of all", "minplus", "magic"):
        with pytest.raises(MethodError, match=f"'{name}' is not a registered step"):
            unregister_step(name)
