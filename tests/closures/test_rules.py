"""Test a user's own rules and questions: between those of the library, in every closure, and unregistered again."""

from __future__ import annotations

import numpy as np
import pytest
from strict_arrays import install_stand_in, on_device

import semiring as sr
from semiring.closures import planner
from semiring.closures.entry_maps import EntryMap
from semiring.closures.plan import NotApplicable, Rewrite
from semiring.closures.planner import forget_plans, question, rule
from semiring.closures.questions import is_symmetric
from semiring.closures.rules import RULES, STRUCTURES, register_rule, rules_in_order, unregister_rule
from semiring.errors import DomainError, MethodError, UnknownNameError


@pytest.fixture(autouse=True)
def asked_once(monkeypatch):
    """Disable the verification of plans, so that a rule runs as often as it does for users."""
    monkeypatch.setattr(planner, "verify", False)


@pytest.fixture
def register_temporarily():
    """Yield `register_rule`. The rules are unregistered after the test."""
    before = set(rules_in_order())
    yield register_rule
    for each in rules_in_order():
        if each not in before:
            unregister_rule(each.name)


class HalfEntries(EntryMap):
    """An entry map that halves every weight exactly. ∞ stays itself."""

    may_change_numbers = True

    def encode(self, rows, at, out):
        return rows / 2

    def decode(self, rows, at, out):
        return rows * 2


@question()
def a_weight_is_above_8(call):
    """Whether a finite weight of min-plus is above 8."""
    return bool((call.A[np.isfinite(call.A)] > 8).any())


@pytest.fixture
def half_of():
    """Return a rule that halves all weights if one is above 8, and the kinds of call for which it ran."""
    asked = []

    def half_of_all(q, d):
        asked.append(q.kind)
        if d.semiring is not sr.min_plus or not q.ask(a_weight_is_above_8):
            return NotApplicable("no weight above 8")
        return Rewrite("a weight above 8", d.with_map(HalfEntries()))

    return half_of_all, asked


@pytest.fixture
def graph(rng):
    return np.where(rng.random((20, 20)) < 0.3, rng.integers(1, 17, (20, 20)), np.inf).astype(np.float64)


def applications(explanation, name):
    return [link.applies for link in explanation.chain if link.step == name]


# --------------------------------------------------------------------------------------------------- rules of one's own


def test_a_rule_is_asked_in_its_place(register_temporarily, half_of, graph):
    found, asked = half_of
    expected = sr.closure(graph)
    assert register_temporarily(found, before="narrow") is found
    D, explanation = sr.closure(graph, explain=True)
    assert np.array_equal(D, expected)
    names = [link.step for link in explanation.chain]
    assert names.index("minplus") + 1 == names.index("half of all") == names.index("narrow") - 1
    assert applications(explanation, "half of all") == [True]
    _, explanation = sr.closure(np.where(graph > 8, np.inf, graph), explain=True)
    assert applications(explanation, "half of all") == [False]
    assert len(asked) == 2


def test_matrices_planned_before_are_planned_anew_and_then_no_more(register_temporarily, half_of, graph):
    found, asked = half_of
    expected = sr.closure(graph)  # by a plan that is kept
    register_temporarily(found, before="narrow")
    for _ in range(3):
        assert np.array_equal(sr.closure(graph), expected)
    assert len(asked) == 1
    small = np.where(graph > 8, np.inf, graph)  # of the same kind, with another answer
    for _ in range(3):
        assert sr.closure(small, explain=True)[1].chain
    assert len(asked) == 2
    paths = sr.shortest_paths(graph)
    assert paths.distance(0, 7) == expected[0, 7]
    assert len(asked) == 3


@pytest.mark.filterwarnings("ignore::semiring.errors.SuspiciousWeightsWarning")
def test_a_rule_is_asked_about_stacks_and_other_semirings(register_temporarily, half_of, graph):
    found, asked = half_of
    stack = np.stack([graph, graph.T])
    expected, wide = sr.closure(stack), sr.closure(graph, "max_min")
    register_temporarily(found, before="narrow")
    assert np.array_equal(sr.closure(stack), expected)
    assert np.array_equal(sr.closure(graph, "max_min"), wide)
    assert {kind.options.semiring.name for kind in asked} == {"min_plus", "max_min"}


def test_what_a_rule_asked_of_one_matrix_of_a_stack_is_not_taken_for_the_others(register_temporarily, rng):
    @question()
    def float32_holds_the_sums(call):
        return bool(call.A.max() <= 2**20)

    def single(q, d):
        m = d.matrix
        if m.dtype != np.float64 or not q.ask(float32_holds_the_sums):
            return NotApplicable("no float64, or a large one")
        return Rewrite("closed in float32", d.replace(dtype=np.dtype(np.float32), inner=np.float32(np.inf)))

    stack = rng.integers(1, 99, (3, 9, 9)).astype(np.float64)
    stack[1:] += 2**25
    expected = sr.closure(stack, method="rkleene")
    register_temporarily(single, before="minplus")
    for _ in range(2):
        D, explanation = sr.closure(stack, method="rkleene", explain=True)
        assert applications(explanation, "single") == [True]  # of the first matrix, which stands for all
        assert np.array_equal(D, expected)
    assert not np.array_equal(stack, stack.astype(np.float32))


def test_by_default_a_rule_is_the_last(register_temporarily, half_of, graph):
    found, _ = half_of
    register_temporarily(found)
    assert rules_in_order()[:-1] == RULES
    assert rules_in_order()[-1].find is found
    _, explanation = sr.closure(graph, explain=True)
    assert [link.step for link in explanation.chain][-2:] == ["half of all", "method"]


def test_a_rule_may_come_before_another_that_was_registered(register_temporarily, half_of):
    found, _ = half_of
    register_temporarily(found, before="plus")

    def earlier(q, d):
        return NotApplicable("never")

    register_temporarily(earlier, before="half of all")
    names = [each.name for each in rules_in_order()]
    assert names[names.index("earlier") :][:3] == ["earlier", "half of all", "plus"]


def test_a_rule_with_a_name_of_its_own(register_temporarily, graph):
    @rule("never here")
    def found(q, d):
        return NotApplicable("never")

    assert register_temporarily(found, before="entries") is found
    assert found in rules_in_order()
    _, explanation = sr.closure(graph, explain=True)
    assert applications(explanation, "never here") == [False]


def test_a_rule_that_uses_the_structure_is_asked_where_the_graph_is_examined(register_temporarily, graph):
    asked = []

    def found(q, d):
        asked.append(d.may_use_structure)
        return NotApplicable("never")

    register_temporarily(planner.Rule(found, "own structure", structure=True))
    _, explanation = sr.closure(graph, explain=True)
    (link,) = [link for link in explanation.chain if link.step == "own structure"]
    assert link.why == "structure analysis was not run"
    assert asked == []
    assert "own structure" not in STRUCTURES  # no value of structure= allows it


def test_an_error_of_a_rule_leaves_the_matrix_as_it_was(register_temporarily, graph):
    def refuse(q, d):
        raise DomainError("not this one")

    register_temporarily(refuse)
    before = graph.copy()
    for _ in range(2):  # and no plan is kept of it
        with pytest.raises(DomainError, match="not this one"):
            sr.closure(graph, out=graph)
    assert np.array_equal(graph, before)


def test_what_cannot_be_registered(half_of):
    found, _ = half_of
    with pytest.raises(MethodError, match="a function of a recorder and a draft, not 5"):
        register_rule(5)

    def minplus(q, d):
        return NotApplicable("never")

    with pytest.raises(MethodError, match="'minplus' is a rule already"):
        register_rule(minplus)
    for place in ("nowhere", "half of all", 3):
        with pytest.raises(UnknownNameError, match="Valid names: bottleneck, "):
            register_rule(found, before=place)
    assert rules_in_order() is RULES


def test_what_is_registered_can_be_forgotten(half_of, graph):
    found, asked = half_of
    sr.extend.register_rule(found)
    with pytest.raises(MethodError, match="already"):
        sr.extend.register_rule(found)
    unregister_rule("half of all")
    assert rules_in_order() is RULES
    sr.closure(graph)
    assert not asked
    for name in ("half of all", "minplus", "magic"):
        with pytest.raises(MethodError, match=f"'{name}' is not a registered rule"):
            unregister_rule(name)


# ------------------------------------------------------------------------------------------------- what a rule may read


def test_a_rule_that_reads_entries_sees_those_of_every_call(register_temporarily, graph):
    seen = []

    def look(q, d, call):
        seen.append(call.A.copy())
        if call.A[0, 0] != 7:
            return NotApplicable("no 7")
        return Rewrite("a 7", d.with_map(HalfEntries()))

    graph[0, 0] = np.inf
    with_7 = graph.copy()
    with_7[0, 0] = 7
    expected = [sr.closure(A) for A in (graph, with_7)]
    register_temporarily(look, before="narrow", reads_entries=True)
    for A, closed in zip((graph, with_7) * 2, expected * 2, strict=True):
        D, explanation = sr.closure(A, explain=True)
        assert applications(explanation, "look") == [A is with_7]
        assert np.array_equal(D, closed)
        assert np.array_equal(seen[-1], A)
    assert len(seen) == 4
    assert not planner._trees
    unregister_rule("look")
    sr.closure(graph)
    assert planner._trees


def reads_the_corner(q, d):
    """Read an entry without a question: no plan may depend on it."""
    if q._call.A[0, 0] == 7:
        return Rewrite("a 7", d.with_map(HalfEntries()))
    return NotApplicable("no 7")


def test_verify_finds_a_rule_that_reads_what_it_did_not_ask_for(register_temporarily, monkeypatch, graph):
    register_temporarily(reads_the_corner)
    monkeypatch.setattr(planner, "verify", True)
    for _ in range(2):  # nothing is wrong as long as it reads the same
        sr.closure(graph)
    graph[0, 0] = 7
    with pytest.raises(AssertionError, match="a rule depends on more than the answers to its questions") as found:
        sr.closure(graph)
    assert "reads the corner no 7" in str(found.value)
    assert "reads the corner a 7" in str(found.value)
    forget_plans()
    sr.closure(graph)


def test_verify_finds_a_rule_that_asks_other_questions_for_what_it_read(register_temporarily, monkeypatch, graph):
    def asks_of_the_corner(q, d):
        if q._call.A[0, 0] == 7:
            q.ask(a_weight_is_above_8)
        return NotApplicable("never")

    register_temporarily(asks_of_the_corner)
    monkeypatch.setattr(planner, "verify", True)
    graph[0, 0] = 7
    sr.closure(graph)
    graph[0, 0] = 6
    with pytest.raises(AssertionError, match="depends on more than the answers to its questions"):
        sr.closure(graph)


def test_a_tree_with_two_questions_in_one_place_is_an_error(register_temporarily, graph):
    """A path that does not fit the tree is never kept, even if plans are not verified."""

    @question()
    def corner(call):
        return float(call.A[0, 0])

    def either(q, d):
        q.ask(corner if q._call.A[0, 0] < 8 else a_weight_is_above_8)
        return NotApplicable("never")

    register_temporarily(either, before="sparse")
    graph[0, 0] = 5
    sr.closure(graph)
    graph[0, 0] = 9
    with pytest.raises(AssertionError, match="a rule depends on more than the answers to its questions"):
        sr.closure(graph)


def test_a_question_is_answered_once_for_a_call(register_temporarily, graph):
    answered = []

    @question()
    def first_entry_is_finite(call):
        answered.append(call)
        return bool(np.isfinite(call.A[0, 0]))

    def twice(q, d):
        return NotApplicable(str(q.ask(first_entry_is_finite) is q.ask(first_entry_is_finite)))

    def once_more(q, d):
        return NotApplicable(str(q.ask(first_entry_is_finite)))

    register_temporarily(twice)
    register_temporarily(once_more)
    sr.closure(graph)
    assert len(answered) == 1
    sr.closure(graph)  # on its way through the tree
    assert len(answered) == 2
    assert repr(first_entry_is_finite) == "<question: first entry is finite>"


def test_a_question_without_a_default_is_not_asked_where_nobody_may_wait(register_temporarily, monkeypatch, graph):
    with_default = question(default=True)(lambda call: False)
    answers = []

    def asks(q, d):
        answers.append(q.ask(with_default))
        return NotApplicable(str(q.ask(is_symmetric)))

    with install_stand_in(monkeypatch):
        register_temporarily(asks)
        with pytest.raises(MethodError, match="<question: is symmetric> has no default"):
            sr.closure(on_device(graph), check=False)
        assert answers == [True]
        unregister_rule("asks")

        def asks_less(q, d):
            answers.append(q.ask(with_default))
            return NotApplicable("never")

        register_temporarily(asks_less)
        for check in (False, True):
            sr.closure(on_device(graph), check=check)
    assert answers == [True, True, False]
    sr.closure(graph, check=False)  # nothing is waited for on the host
    assert answers == [True, True, False, False]


def test_results_that_would_be_ignored_are_refused():
    """A rule must return an answer, and a method must write to the matrix."""
    A = np.ones((3, 3))
    sr.extend.register_rule(lambda recorder, draft: None)
    try:
        with pytest.raises(sr.MethodError, match=r"the rule '<lambda>' returned None: return NotApplicable\(reason\)"):
            sr.closure(A)
    finally:
        sr.extend.unregister_rule("<lambda>")
    sr.extend.register_method("apart", lambda engine, A: A.copy())
    try:
        with pytest.raises(sr.MethodError, match=r"the method 'apart' returned a ndarray, .* closes A in place"):
            sr.closure(A, method="apart")
    finally:
        sr.extend.unregister_method("apart")
