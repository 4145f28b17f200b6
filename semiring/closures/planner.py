"""Find the plan of a call as a path in a decision tree of questions.

A rule reads a call through a `Recorder`: the kind of the call, and answers to questions about the entries. A question
has a few discrete answers. The questions and answers of a call, in their order, are a path. The path determines the
plan, because rules are pure functions of the kind and the answers. There is one tree for each kind of call. Its inner
nodes are questions, and its leaves are plans. A later call of the same kind walks through the tree, and runs no rule.

Explaining or profiling a call does not change its plan, because the planner is the only source of plans. If `verify` is
set, as in the tests, the rules run again on every call and must give the cached plan. This finds a rule that reads
anything except the kind and its questions.

Cost: one look-up and the scans on the path, some microseconds; a new path takes 0.1 ms. At most `KINDS` trees are kept.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from semiring import profiling
from semiring.advice import option
from semiring.algebra import Semiring
from semiring.algorithms.methods import is_structural, method_named
from semiring.arrays.operands import common_dtype, memory_of
from semiring.closures.call import Call, Kind, is_tropical
from semiring.closures.entry_maps import POSITIVE_ZEROS
from semiring.closures.plan import Draft, NotApplicable, Plan, Rewrite, reason_text
from semiring.closures.questions import Question, question, signs
from semiring.errors import AlgebraError, MethodError
from semiring.kernels import backend_for
from semiring.kernels.contract import Backend
from semiring.logs import INFO, log_choice, logger
from semiring.registrations import register_callback

__all__ = [
    "KINDS",
    "Question",
    "Recorder",
    "Rule",
    "forget_plans",
    "plan_of",
    "question",
    "rule",
    "rules_in_order",
    "set_rules",
    "solve",
    "with_signs",
]

KINDS = 4096  # the bound of the number of cached trees, one for each kind of call
Answer = TypeVar("Answer")

#: Whether the rules run again on every call, and must give the cached plan.
verify = False


class Recorder:
    """The view of a call that rules receive: its kind, and the answers to questions. It records the path."""

    def __init__(self, call: Call, draft: Draft | None = None) -> None:
        self._call, self.kind = call, call.kind
        self.path: list[tuple[Question[Any], Any]] = []
        self._answers: dict[Question[Any], Any] = {}

    def ask(self, query: Question[Answer]) -> Answer:
        """Return the answer to a question, which is computed once for each call."""
        if query not in self._answers:
            if self.may_synchronize:
                answer = query.find(self._call)
                self.path.append((query, answer))
            elif query.default is None:
                raise MethodError(f"{query!r} has no default, and this call may not wait for the GPU")
            else:
                answer = query.default
            self._answers[query] = answer
        return self._answers[query]  # type: ignore[no-any-return]

    # Properties of the kind, by the names that rules use.

    @property
    def semiring(self) -> Semiring:
        """The semiring of the caller."""
        return self.kind.options.semiring

    @property
    def method(self) -> str:
        """The method that the caller named, or "auto"."""
        return self.kind.options.method

    @property
    def has_structural_method(self) -> bool:
        """Whether the caller named a method for graphs of one structure."""
        return is_structural(self.method)

    @property
    def may_choose_method(self) -> bool:
        """Whether the planner chooses the method."""
        return self.method == "auto" or self.has_structural_method

    @property
    def n(self) -> int:
        """The number of vertices."""
        return self.kind.shape[-1]

    @property
    def on_device(self) -> bool:
        """Whether the array is on a GPU; False for strips, even if a GPU closes them."""
        return self.kind.device is not None and self.kind.strips is None

    @property
    def may_synchronize(self) -> bool:
        """Whether the call may wait for a device."""
        return self._call.may_synchronize

    @property
    def may_scan(self) -> bool:
        """Whether the entries may be scanned for their range."""
        return self._call.may_scan

    def backend(self, semiring: Semiring, dtype: np.dtype[Any], storage: str = "elements") -> Backend:
        """Return the backend for a matrix of this semiring, dtype and storage in the memory of the call's array."""
        strips = self._call.strips
        return backend_for(memory_of(self._call.A) if strips is None else strips.sample, semiring, dtype, storage)


@dataclass(frozen=True)
class Rule:
    """A transformation to an easier call, or the reason why it does not apply; made by `rule`.

    ``find(recorder, draft)`` returns `NotApplicable` or a `Rewrite`. It may raise, and writes nothing.
    """

    find: Callable[[Recorder, Draft], NotApplicable | Rewrite]
    name: str
    structure: bool = False  # whether the rule uses the structure of the graph, if the caller and the size allow that
    methods: tuple[str, ...] = ()  # the methods that the rule leads to: ``method=`` with one of them requests the rule
    reads_entries: bool = False  # whether ``find`` also receives the call: then no plan is cached

    def answer(self, q: Recorder, d: Draft, call: Call) -> NotApplicable | Rewrite:
        """Apply the rule to a call and a draft, if the options of the call allow it."""
        if self.structure and not d.may_use_structure:
            return NotApplicable("structure analysis was not run")
        if self.structure and q.method not in self.methods:
            if q.has_structural_method:
                return NotApplicable("another method was named")
            if self.name not in q.kind.options.structure:
                return NotApplicable("disabled by structure=")
        if self.reads_entries:
            return self.find(q, d, call)  # type: ignore[call-arg]
        return self.find(q, d)


def rule(
    name: str, *, structure: bool = False, methods: tuple[str, ...] = ()
) -> Callable[[Callable[[Recorder, Draft], NotApplicable | Rewrite]], Rule]:
    """Make a rule of a function of a recorder and a draft."""
    return lambda find: Rule(find, name, structure, methods)


_rules: tuple[Rule, ...] = ()


def rules_in_order() -> tuple[Rule, ...]:
    """Return the rules of the library and the registered rules, in the order in which they run."""
    return _rules


def set_rules(rules: tuple[Rule, ...]) -> None:
    """Replace the rules of the planner, and forget all plans."""
    global _rules
    _rules = rules
    forget_plans()


class _Node:
    """A question, and the subtree or plan for each of its answers."""

    __slots__ = ("answer", "branches", "question")

    def __init__(self, query: Question[Any]) -> None:
        self.question, self.answer = query, query.answer
        self.branches: dict[Any, _Node | Plan] = {}


_trees: dict[Kind, _Node | Plan] = {}


@register_callback
def forget_plans() -> None:
    """Replace all trees by empty ones, after a change of the rules, the methods or the backends.

    A thread that still plans by the former rules adds its plan to the former trees, which no later call reads.
    """
    global _trees
    _trees = {}


def plan_of(call: Call) -> Plan:
    """Return the plan of a call, by one look-up and one scan for each question on its path.

    Raises the errors of the scans and, on a new path, those of the rules.
    """
    node = _trees.get(call.kind)
    while node.__class__ is _Node:
        answer = node.question.find if profiling.active else node.answer
        node = node.branches.get(answer(call))
    if node is None:
        return _add_plan(call)
    if verify:
        _verify(call, node)  # type: ignore[arg-type]
    return node  # type: ignore[return-value]


def solve(call: Call, out_buffer: Any = None) -> Any:
    """Return the closure of a call's matrix, in ``out_buffer`` or in a new array."""
    return plan_of(call).run(call, out_buffer)


def _make_plan(call: Call) -> Plan:
    """Run the rules on a call, and return the new plan. Raises `DTypeError` if the semiring lacks the dtype."""
    part = call.kind.part
    if part is None:  # before the draft, which holds the zero in this dtype
        common_dtype(call.semiring, np.empty(0, call.kind.dtype))
    q, answers = Recorder(call), []
    draft, rules = Draft.from_call(call), rules_in_order()
    first = 0
    if part is not None:
        first = 1 + [each.name for each in rules].index(part.after_rule)
        draft = _make_part_draft(q, draft)
    for each in rules[first:]:
        answer = each.answer(q, draft, call)
        if not isinstance(answer, NotApplicable | Rewrite):
            raise MethodError(
                f"the rule {each.name!r} returned {answer!r}: return NotApplicable(reason), or Rewrite(reason, draft)"
            )
        if q.method in each.methods and part is None and isinstance(answer, NotApplicable):
            needs = method_named(q.method).structure
            raise AlgebraError(
                f"{q.method} closes {needs}, and does not close this matrix: {reason_text(answer.why, call)}. Use "
                f"{option('method', 'auto')}, or another method"
            )
        answers.append((each.name, answer))
        if isinstance(answer, Rewrite):
            draft = answer.draft
            if answer.is_final:
                break
    return Plan(call, draft, q.path, answers, plan_of)


def with_signs(q: Recorder, d: Draft) -> Draft:
    """Return the draft with the signs of its entries; weights of max-plus are not negated before `minplus`."""
    answer = q.ask(signs)
    negated = is_tropical(d.semiring) and d.semiring.tropical == "max"  # `signs` classifies the negatives
    return d.replace(nonnegative=answer == "clear", at_least_zero=answer in ("clear", "zero") and not negated)


def _make_part_draft(q: Recorder, d: Draft) -> Draft:
    """Return the draft for a part of another matrix, with the signs of its entries."""
    d = with_signs(q, d)
    if not is_tropical(d.semiring):
        return d
    if not d.at_least_zero:
        return d.replace(has_negative_weight=True)
    return d if d.nonnegative else d.with_map(POSITIVE_ZEROS, nonnegative=True)


def _add_plan(call: Call) -> Plan:
    """Run the rules for a new path, and add the plan to the tree of its kind."""
    trees = _trees  # read before the rules, see `forget_plans`
    plan = _make_plan(call)
    if logger().isEnabledFor(INFO):
        _log_plan(plan, call)
    if not _may_cache_plans():
        return plan
    if len(trees) >= KINDS:
        for kind in list(trees)[: KINDS // 2]:  # the oldest kinds; another thread may remove them at the same time
            trees.pop(kind, None)
    branches: dict[Any, Any] = trees
    key: Any = call.kind
    for query, answer in plan.path:
        node = branches.setdefault(key, _Node(query))
        if node.__class__ is not _Node or node.question is not query:
            raise AssertionError(
                f"a rule depends on more than the answers to its questions: {node!r}, and then {query!r}"
            )
        branches, key = node.branches, answer
    cached_plan: Plan = branches.setdefault(key, plan)  # another thread may have added a plan
    return cached_plan


def _log_plan(plan: Plan, call: Call) -> None:
    """Log the method of a new plan, or the rule that closes without one, and the reasons."""
    applied = [(name, answer) for name, answer in plan.answers if isinstance(answer, Rewrite)]
    reasons = [reason_text(answer.why, call) for _, answer in applied if not answer.quiet]
    choice = plan.method_for(call).method.name if plan.draft.close is None else applied[-1][0]
    shape = " × ".join(map(str, call.kind.shape))
    log_choice(f"closure of {shape} {call.kind.dtype} in {call.kind.name}", choice, "; ".join(reasons))


def _may_cache_plans() -> bool:
    return not any(each.reads_entries for each in rules_in_order())


def _verify(call: Call, cached_plan: Plan) -> None:
    plan = _make_plan(call)
    if not plan.is_equal_to(cached_plan):
        raise AssertionError(
            "a rule depends on more than the answers to its questions:\n"
            f"{plan.rules_text(call)}\n{cached_plan.rules_text(call)}"
        )
