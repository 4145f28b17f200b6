"""Plan how to close every matrix whose entries answer the questions of the rules in the same way.

A `Draft` holds the decisions of the rules that ran so far. A `Plan` is the last draft: an encoding of the entries, and
a method that closes them, or a function that closes them by calls on parts. It holds no entries. Potentials,
components and the weight of the edges belong to one call. Scans of the `Call` find them, and the plan reads them when
it runs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from semiring.algebra import Semiring
from semiring.algorithms.methods import Method
from semiring.arrays.operands import empty_like, has_adjacent_elements
from semiring.closures.call import Call, Kind
from semiring.closures.costs import CostEstimate
from semiring.closures.entry_maps import CallMap
from semiring.closures.matrix import EncodedMatrix, EntryMap
from semiring.closures.method_run import MethodRun
from semiring.kernels.contract import KernelPlan
from semiring.kernels.engine import engine_of, make_plan
from semiring.namespaces import Array
from semiring.out_of_core.last_round import LastRound

__all__ = ["Draft", "NotApplicable", "Plan", "Rewrite", "Work", "reason_text"]

Text: TypeAlias = "str | Callable[[Call], str]"


@dataclass(frozen=True)
class Draft:
    """The decisions of the rules that ran so far, which hold for all calls on a path."""

    semiring: Semiring  # the semiring in which the matrix is closed: min-plus for max-plus
    matrix: EncodedMatrix
    method: str | Method = ""
    method_of: Callable[[Call], Method] | None = None  # makes the method from the result of a scan
    structural_method: str = ""  # the name of the method that a rule has found for matrices of this structure
    nonnegative: bool = False  # whether no encoded entry is below 0, and no sign bit is set
    at_least_zero: bool = False  # whether no encoded entry is below 0
    has_negative_weight: bool = False  # whether an encoded weight of min-plus is below 0
    may_use_structure: bool = False  # whether questions about the structure of the graph are allowed
    plus: bool = False  # A⁺ instead of A*
    stack: tuple[int, ...] = ()  # (...) of the caller's (..., n, n), where all matrices are closed together
    #: ``replan(call, D)`` validates closed rows D. It returns None, or answers with which the call is planned again.
    replan: Callable[[Call, Array], dict[str, Any] | None] | None = None
    #: ``close(work, D)`` closes the matrix in D, which has the shape and dtype of the encoded matrix, and calls
    #: ``work.read(D)`` for its entries. If it ``needs_out_buffer``, D is the caller's output, or None.
    close: Callable[[Work, Any], Any] | None = None
    needs_out_buffer: bool = False

    @classmethod
    def from_call(cls, call: Call) -> Draft:
        """Return the draft that the first rule receives."""
        k, semiring = call.kind, call.semiring
        matrix = EncodedMatrix.identity(
            k.dtype, call.none, is_packed=k.storage == "bits", is_transposed=k.is_transposed
        )
        if k.strips is not None:
            matrix = replace(matrix, storage=k.strips.storage, is_packed=k.strips.storage == "bits")
        if k.part is None:
            return cls(semiring, matrix, plus=k.plus)
        return cls(k.part.semiring, matrix, k.part.method, may_use_structure=k.part.may_use_structure, plus=k.plus)

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of the encoded entries."""
        return self.matrix.dtype

    def replace(self, **changes: Any) -> Draft:
        """Return a copy of this draft with ``changes`` of its fields, or of fields of its matrix."""
        own = {name: changes.pop(name) for name in list(changes) if name in _FIELDS}
        if changes:
            own["matrix"] = replace(own.get("matrix", self.matrix), **changes)
        return replace(self, **own)

    def with_map(self, map_: EntryMap, **changes: Any) -> Draft:
        """Return a copy of this draft whose matrix is read through one map more."""
        return self.replace(maps=(*self.matrix.maps, map_), **changes)

    def kernel_plan(self, threads: int) -> KernelPlan:
        """Return the kernel plan for closing the matrix."""
        m, semiring, nonnegative = self.matrix, self.semiring, self.nonnegative
        if nonnegative and semiring.tropical is None:  # kernels also read 0̄ and 1̄, which must have clear sign bits too
            nonnegative = m.dtype.kind == "f" and min(semiring.zero_for(m.dtype), semiring.one_for(m.dtype)) >= 0
        return make_plan(semiring, m.dtype, nonnegative=nonnegative, storage=m.storage, threads=threads)


_FIELDS = frozenset(Draft.__dataclass_fields__)


class NotApplicable(NamedTuple):
    """The reason why a rule does not apply."""

    why: Text
    costs: Callable[[Call], CostEstimate | None] | None = None  # the predicted costs of this rule and its rivals
    note: str = ""  # an additional reason for the explanation


class Rewrite(NamedTuple):
    """The draft that a rule makes of an earlier draft, with the reason."""

    why: Text
    draft: Draft
    quiet: bool = False  # whether ``why`` is shown among the rules only, not among the reasons
    is_rowwise: bool = True  # whether the rewrite can be applied to some rows at a time, as strips require
    #: The work on a rewrite that is not rowwise, if it can be done in one more round over all strips.
    last_round: Callable[[Call], LastRound] | None = None
    costs: Callable[[Call], CostEstimate | None] | None = None
    notes: Callable[[Call], Sequence[str]] | None = None  # additional reasons for the explanation

    @property
    def is_final(self) -> bool:
        """Whether no rule runs after this one."""
        return self.draft.close is not None


class Work(NamedTuple):
    """The run of a plan on one call: the argument of the functions that close a matrix by parts."""

    plan: Plan
    call: Call
    matrix: EncodedMatrix  # the encoding in which the matrix is closed

    @property
    def draft(self) -> Draft:
        return self.plan.draft

    def read(self, D: Any) -> Any:
        """D ← the encoded matrix. Return a copy of it for `find_predecessors`, or None if none are needed."""
        self.matrix.encode(self.call.A, D)
        return None if self.call.inspection is None else D.copy()

    def find_predecessors(self, D: Any, original: Any) -> None:
        """Run the predecessor search on the closed matrix D; ``original`` is the encoded matrix."""
        if self.call.inspection is not None:
            self.call.inspection.find(engine_of(self.plan.kernel_plan, D), D, original)


class Plan:
    """The decisions of the rules for all calls that give the same answers: the end of a path."""

    def __init__(
        self,
        call: Call,
        draft: Draft,
        path: list[Any],
        answers: list[tuple[str, Any]],
        plan_of: Callable[[Call], Plan],
    ) -> None:
        self.kind: Kind = call.kind
        self._plan_of = plan_of  # the planner's function, for a call with other answers
        self.draft, self.path, self.answers = draft, path, answers
        self.outer = Draft.from_call(call).matrix
        self._needs_binding = any(isinstance(map_, CallMap) for map_ in draft.matrix.maps)
        self._matrix = draft.matrix.relative_to(self.outer)
        self.method: MethodRun | None = None
        if draft.close is None and draft.method_of is None:
            self.method = MethodRun(call, draft, draft.method)
        plain = self.method is not None and not (self._needs_binding or draft.replan or self._matrix.needs_packing)
        #: Whether the matrix is only read, closed and written. This short route matters for few vertices.
        self._is_plain = plain and draft.dtype == self.outer.dtype and draft.matrix.storage == "elements"

    @cached_property
    def kernel_plan(self) -> KernelPlan:
        """The plan under which kernels close the matrix."""
        return self.draft.kernel_plan(self.kind.options.threads)

    def method_for(self, call: Call) -> MethodRun:
        """Return the method that closes the matrix of a call, for a draft without a function ``close``."""
        if self.method is not None:
            return self.method
        assert self.draft.method_of is not None
        return MethodRun(call, self.draft, self.draft.method_of(call))

    def encoding(self, call: Call) -> EncodedMatrix:
        """Return the encoding of the closed matrix relative to the array."""
        return self.draft.matrix.bind(call).relative_to(self.outer) if self._needs_binding else self._matrix

    def run(self, call: Call, out_buffer: Any = None) -> Any:
        """Return the closure of the call's array, in ``out_buffer`` or in a new array.

        ``out_buffer`` may be the array itself. The matrix is closed in its memory if that is large enough and adjacent.
        """
        if call.explanation is not None:
            self.explain(call)
        d, A = self.draft, call.A
        if self._is_plain and (
            out_buffer is None or (out_buffer.dtype == d.matrix.dtype and has_adjacent_elements(out_buffer))
        ):
            D = out_buffer = empty_like(A) if out_buffer is None else out_buffer
            plain: Any = self.method
            D, original, operand = plain.read(self._matrix, A, D, call.inspection)
            plain.close(call, D, original)
            if d.plus:
                plain.drop_empty_paths(operand, D)
            if self._matrix.needs_decoding:
                self._matrix.decode(D, out_buffer)
            return out_buffer
        matrix = self.encoding(call)
        if d.close is not None and d.needs_out_buffer:
            return d.close(Work(self, call, matrix), out_buffer)
        method = None if d.close is not None else self.method or self.method_for(call)
        if out_buffer is None and not matrix.needs_packing:
            out_buffer = empty_like(A)
        D = matrix.memory_in(out_buffer, A)
        if method is not None:
            D, original, operand = method.read(matrix, A, D, call.inspection)
            method.close(call, D, original)
            if d.plus:
                method.drop_empty_paths(operand, D)
        else:
            D = d.close(Work(self, call, matrix), D)  # type: ignore[misc]
        if d.replan is not None and (answers := d.replan(call, D)) is not None:
            return self._run_again(call.with_answers(**answers), out_buffer)
        if out_buffer is None:
            return D.unpack()
        if matrix.needs_decoding or D is not out_buffer:
            matrix.decode(D, out_buffer)
        return out_buffer

    def _run_again(self, call: Call, out_buffer: Any) -> Any:
        """Plan a call with other answers, and close its matrix from the source."""
        plan = self._plan_of(call)
        if call.explanation is not None:
            call.explanation.add_rule(call.depth, "again", True, f"in {plan.draft.dtype}")
        return plan.run(call, out_buffer)

    def is_equal_to(self, other: Plan) -> bool:
        """Return whether the same rules apply, for the same answers to the same questions."""
        first, second = (
            [(name, type(answer), answer.why if isinstance(answer.why, str) else "") for name, answer in plan.answers]
            for plan in (self, other)
        )
        return (
            first == second and self.path == other.path and _comparison_key(self.draft) == _comparison_key(other.draft)
        )

    # --------------------------------------------------------------------------------------------------- explanation

    def rules_text(self, call: Call) -> str:
        """Return the path and the answer of every rule as text."""
        lines = [f"  ? {question.text:<24} {answer}" for question, answer in self.path]
        for name, answer in self.answers:
            lines.append(f"  {'✓' if isinstance(answer, Rewrite) else '·'} {name:<14} {reason_text(answer.why, call)}")
        return "\n".join(lines)

    def explain(self, call: Call) -> None:
        """Add the rules and the method of this plan to the explanation of a call."""
        explanation, k, before = call.explanation, call.kind, Draft.from_call(call)
        assert explanation is not None
        explanation.set_matrix(k.shape, k.dtype)
        is_first = call.matrix_of_stack == 0
        for name, answer in self.answers:
            applies, costs = isinstance(answer, Rewrite), answer.costs and answer.costs(call)
            why = reason_text(answer.why, call)
            if is_first:
                explanation.add_rule(call.depth, name, applies, why, _cost_text(answer, before, costs))
            if not applies:
                explanation.note(answer.note)
                continue
            if answer.notes is not None:
                for note in answer.notes(call):
                    explanation.note(note)
            if name == "method":
                explanation.method = answer.draft.method
            if not answer.quiet:
                explanation.note(why)
            if costs and is_first:
                explanation.predict(costs)
            before = answer.draft
        if self.draft.close is not None:
            return
        method = self.method_for(call)
        if is_first:
            explanation.add_rule(call.depth, "method", True, str(method), method.cost)
            backend = "cuda" if k.devices else method.backend.name
            explanation.set_method(method.method.name, backend, self.draft.matrix.storage, k.devices)
            explanation.predict({} if method.pairs is None else {"dense": method.pairs})


def reason_text(reason: Text, call: Call) -> str:
    """Return the reason of a rule, which may be a function of the call."""
    return reason(call) if callable(reason) else reason


def _comparison_key(d: Draft) -> tuple[Any, ...]:
    """Return the properties of a draft that can be compared. Each run of a rule makes new functions and maps."""
    m = d.matrix
    return (
        *(d.semiring, d.method if isinstance(d.method, str) else d.method.name),
        *(d.nonnegative, d.has_negative_weight, d.may_use_structure, d.plus, d.stack),
        *(d.needs_out_buffer, d.close is None, d.replan is None),
        *(tuple(type(map_) for map_ in m.maps), m.dtype, m.inner, m.sentinel, m.storage),
    )


def _cost_text(answer: NotApplicable | Rewrite, earlier: Draft, costs: CostEstimate | None) -> str:
    """Return the costs of a rule and its rivals, and whether the input must survive until the result exists."""
    texts = [str(costs)] if costs else []
    if isinstance(answer, Rewrite):
        after = answer.draft
        if (
            not texts
            and not answer.is_final
            and (after.matrix.maps, after.dtype) != (earlier.matrix.maps, earlier.dtype)
        ):
            texts.append("no extra pass over the matrix")
        if after.replan is not None and earlier.replan is None:
            texts.append("the input is kept until the result is there")
    return "; ".join(texts)
