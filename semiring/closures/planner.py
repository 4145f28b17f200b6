"""One planner: a plan is a path in a decision tree of questions.

A rule sees a call through a `Recorder`. It reads the kind of the call, and asks questions about the entries. A question
has a few discrete answers. The questions and answers of a call, in their order, are a path; it determines the plan, for
rules are pure functions of what they see. There is one tree for each kind of call, whose inner nodes are questions and
whose leaves are plans. A later call of the same kind answers the questions on its way through the tree, and runs no
rule.

Explaining or profiling a call changes nothing about its plan, because there is no other way to one. When `verify` is
set, as in the tests, the rules run again on every call and must give the plan that was kept: a rule that reads
something else than its questions is found so.

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
from semiring.arrays.operands import memory_of
from semiring.closures.call import Call, Kind, is_tropical
from semiring.closures.maps import UNSIGNED
from semiring.closures.plan import Draft, NotApplicable, Plan, Rewrite, text_of
from semiring.closures.questions import Question, question, signs
from semiring.errors import AlgebraError, MethodError
from semiring.kernels import backend_for
from semiring.kernels.contract import Backend
from semiring.registrations import on_change

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

KINDS = 4096  # trees that are kept: one for each kind of call
Answer = TypeVar("Answer")

#: Whether the rules run again on every call, and must give the plan that was kept.
verify = False


class Recorder:
    """What a rule sees of a call: its kind, and the answers to questions. It records the path."""

    def __init__(self, call: Call, draft: Draft | None = None) -> None:
        self._call, self.kind = call, call.kind
        self.path: list[tuple[Question[Any], Any]] = []
        self._answers: dict[Question[Any], Any] = {}

    def ask(self, asked: Question[Answer]) -> Answer:
        """The answer to a question, which is found once for a call."""
        if asked not in self._answers:
            if self.waits:
                found = asked.find(self._call)
                self.path.append((asked, found))
            elif asked.default is None:
                raise MethodError(f"{asked!r} has no default, and this call may not wait for the GPU")
            else:
                found = asked.default
            self._answers[asked] = found
        return self._answers[asked]  # type: ignore[no-any-return]

    # What the kind says, by the names that rules use.

    @property
    def semiring(self) -> Semiring:
        """The semiring of the caller."""
        return self.kind.options.semiring

    @property
    def method(self) -> str:
        """The method that the caller named, or "auto"."""
        return self.kind.options.method

    @property
    def named_structural(self) -> bool:
        """Whether the caller named a method that needs a graph with some structure."""
        return is_structural(self.method)

    @property
    def chooses(self) -> bool:
        """Whether the choice of the method is the planner's."""
        return self.method == "auto" or self.named_structural

    @property
    def n(self) -> int:
        """How many vertices there are."""
        return self.kind.shape[-1]

    @property
    def on_device(self) -> bool:
        """Whether the array lives on a GPU; of strips, where these are worked on does not count."""
        return self.kind.device is not None and self.kind.strips is None

    @property
    def waits(self) -> bool:
        """Whether a device may be waited for."""
        return self._call.waits

    @property
    def scanned(self) -> bool:
        """Whether the entries may be scanned for their range."""
        return self._call.scanned

    def backend(self, semiring: Semiring, dtype: np.dtype[Any], storage: str = "elements") -> Backend:
        """The backend that closes such a matrix where this one lives."""
        strips = self._call.strips
        return backend_for(memory_of(self._call.A) if strips is None else strips.sample, semiring, dtype, storage)


@dataclass(frozen=True)
class Rule:
    """A transformation to an easier call, or the reason why it does not apply; made by `rule`.

    ``find(recorder, draft)`` returns `NotApplicable` or a `Rewrite`. It may raise, and writes nothing.
    """

    find: Callable[[Recorder, Draft], NotApplicable | Rewrite]
    name: str
    structure: bool = False  # whether it uses the structure of the graph, where the caller and the size allow that
    methods: tuple[str, ...] = ()  # those that it leads to, by which a caller may ask for it
    reads_entries: bool = False  # whether it is given the call too: then no plan is kept

    def answer(self, q: Recorder, d: Draft, call: Call) -> NotApplicable | Rewrite:
        """What the rule says of a call."""
        if self.structure and not d.examined:
            return NotApplicable("structure analysis was not run")
        if self.structure and q.method not in self.methods:
            if q.named_structural:
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
    """Return all rules as they are asked: those of the library, and those that were registered."""
    return _rules


def set_rules(rules: tuple[Rule, ...]) -> None:
    """Let these rules be asked from now on, and forget all plans."""
    global _rules
    _rules = rules
    forget_plans()


class _Node:
    """One question, and where each of its answers leads."""

    __slots__ = ("answer", "asked", "branches")

    def __init__(self, asked: Question[Any]) -> None:
        self.asked, self.answer = asked, asked.answer
        self.branches: dict[Any, _Node | Plan] = {}


_trees: dict[Kind, _Node | Plan] = {}


@on_change
def forget_plans() -> None:
    """Begin with empty trees: what a rule, a method or a backend decides has changed.

    The trees are other ones, so that a thread that plans by the former rules puts its plan where nobody finds it.
    """
    global _trees
    _trees = {}


def plan_of(call: Call) -> Plan:
    """The plan of a call: one look-up, and one scan for each question on its path. Raises what a scan does."""
    node = _trees.get(call.kind)
    while node.__class__ is _Node:
        answer = node.asked.find if profiling.active else node.answer
        node = node.branches.get(answer(call))
    if node is None:
        return _grown(call)
    if verify:
        _verify(call, node)  # type: ignore[arg-type]
    return node  # type: ignore[return-value]


def solve(call: Call, home: Any = None) -> Any:
    """The closure of a call's matrix, in ``home`` or in a new array."""
    return plan_of(call).run(call, home)


def _planned(call: Call) -> tuple[Plan, Recorder]:
    """A new plan, by the rules."""
    q, answers = Recorder(call), []
    draft, rules = Draft.of(call), rules_in_order()
    part = call.kind.part
    first = 0
    if part is not None:
        first = 1 + [each.name for each in rules].index(part.after)
        draft = _of_part(q, draft)
    for each in rules[first:]:
        found = each.answer(q, draft, call)
        if q.method in each.methods and part is None and isinstance(found, NotApplicable):
            needs = method_named(q.method).structure
            raise AlgebraError(
                f"{q.method} closes {needs}, and does not close this matrix: {text_of(found.why, call)}. Use "
                f"{option('method', 'auto')}, or another method"
            )
        answers.append((each.name, found))
        if isinstance(found, Rewrite):
            draft = found.draft
            if found.ends:
                break
    return Plan(call, draft, q.path, answers, plan_of), q


def with_signs(q: Recorder, d: Draft) -> Draft:
    """Return the draft with the signs of its entries; those of max-plus are read as they are until `minplus`."""
    found = q.ask(signs)
    negated = is_tropical(d.semiring) and d.semiring.tropical == "max"  # `signs` is about the negatives
    return d.but(nonnegative=found == "clear", at_least_zero=found in ("clear", "zero") and not negated)


def _of_part(q: Recorder, d: Draft) -> Draft:
    """The draft of a part of another matrix, whose signs are known."""
    d = with_signs(q, d)
    if not is_tropical(d.semiring):
        return d
    if not d.at_least_zero:
        return d.but(signed=True)
    return d if d.nonnegative else d.mapped(UNSIGNED, nonnegative=True)


def _grown(call: Call) -> Plan:
    """Run the rules for a new path, and put the plan into its tree."""
    trees = _trees  # before the rules are read: see `forget_plans`
    plan, _ = _planned(call)
    if not _keeps_plans():
        return plan
    if len(trees) >= KINDS:
        for kind in list(trees)[: KINDS // 2]:  # the oldest; a thread may have been faster
            trees.pop(kind, None)
    branches: dict[Any, Any] = trees
    key: Any = call.kind
    for asked, found in plan.path:
        node = branches.setdefault(key, _Node(asked))
        if node.__class__ is not _Node or node.asked is not asked:
            raise AssertionError(f"a rule is no function of what it asked: {node!r}, and then {asked!r}")
        branches, key = node.branches, found
    kept: Plan = branches.setdefault(key, plan)  # another thread may have been here
    return kept


def _keeps_plans() -> bool:
    return not any(each.reads_entries for each in rules_in_order())


def _verify(call: Call, kept: Plan) -> None:
    plan, _ = _planned(call)
    if not plan.same_as(kept):
        raise AssertionError(f"a rule read something that it did not ask for:\n{plan.rules(call)}\n{kept.rules(call)}")
