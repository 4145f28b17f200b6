"""What will be done for every call whose entries answer the questions in the same way.

A `Draft` is what the rules have decided so far. A `Plan` is the last draft: an encoding of the entries, and a method
that closes them, or a function that does it by calls on parts. It holds no entries. What belongs to one call
(potentials, components, the weight of the edges) is found by scans of the `Call`, and taken from there when the plan
runs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from semiring.algebra import Semiring
from semiring.algorithms.methods import Method
from semiring.arrays.operands import empty_like, has_adjacent_elements
from semiring.closures.call import Call, Kind
from semiring.closures.costs import CostEstimate
from semiring.closures.maps import MapOfCall
from semiring.closures.matrix import EncodedMatrix, EntryMap
from semiring.closures.method_run import MethodRun
from semiring.kernels.contract import KernelPlan
from semiring.kernels.engine import engine_of, make_plan
from semiring.out_of_core.last_round import LastRound

__all__ = ["Draft", "NotApplicable", "Plan", "Rewrite", "Stage", "Work", "text_of"]

Array: TypeAlias = Any  # a NumPy array, on a GPU a CuPy array
Text: TypeAlias = "str | Callable[[Call], str]"


class Stage(NamedTuple):
    """What is done to the closed matrix when the maps that came later are undone."""

    matrix: EncodedMatrix  # as it is read then
    finish: Callable[[Call, Array], Any]


@dataclass(frozen=True)
class Draft:
    """What the rules have decided so far, for all calls on a path."""

    semiring: Semiring  # in which the matrix is closed: min-plus for max-plus
    matrix: EncodedMatrix
    method: str | Method = ""
    method_of: Callable[[Call], Method] | None = None  # where it needs what a scan has found
    chosen: str = ""  # the method that a rule has found for matrices of such a structure, if one has
    nonnegative: bool = False  # whether no entry, as it is read, is below 0, and no sign bit is set
    at_least_zero: bool = False  # whether no entry is below 0
    signed: bool = False  # whether a weight of min-plus is below 0, as it is read
    examined: bool = False  # whether the structure of the graph may be asked for
    plus: bool = False
    stack: tuple[int, ...] = ()  # (...) of the caller's (..., n, n), where all of these are closed together
    #: ``again(call, D)``, asked of closed rows, some or all: the answers under which the call is planned again, or
    #: None.
    again: Callable[[Call, Array], dict[str, Any] | None] | None = None
    stages: tuple[Stage, ...] = ()
    #: ``close(work, D)`` closes the matrix in D, which has the shape and dtype in which it is read; it reads it by
    #: ``work.read(D)``. Where it is ``in_home``, D is the memory of the result.
    close: Callable[[Work, Any], Any] | None = None
    in_home: bool = False

    @classmethod
    def of(cls, call: Call) -> Draft:
        """What is decided before the first rule."""
        k, semiring = call.kind, call.semiring
        matrix = EncodedMatrix.of(k.dtype, call.none, packed=k.storage == "bits", turned=k.turned)
        if k.strips is not None:
            words = k.strips[1] == "bits"
            matrix = replace(matrix, storage="bits" if words else "elements", packed=words)
        if k.part is None:
            return cls(semiring, matrix, plus=k.plus)
        return cls(k.part.semiring, matrix, k.part.method, examined=k.part.examined, plus=k.plus)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of the entries as they are read."""
        return self.matrix.dtype

    def but(self, **changes: Any) -> Draft:
        """Another draft, with ``changes`` of this one or of its matrix."""
        own = {name: changes.pop(name) for name in list(changes) if name in _FIELDS}
        if changes:
            own["matrix"] = replace(own.get("matrix", self.matrix), **changes)
        return replace(self, **own)

    def mapped(self, map_: EntryMap, **changes: Any) -> Draft:
        """The draft whose matrix is read through one map more."""
        return self.but(maps=(*self.matrix.maps, map_), **changes)

    def kernel_plan(self, threads: int) -> KernelPlan:
        """The plan under which kernels close the matrix."""
        m, semiring, nonnegative = self.matrix, self.semiring, self.nonnegative
        if nonnegative and semiring.tropical is None:  # kernels also read 0̄ and 1̄, so these need a clear sign bit too
            nonnegative = m.dtype.kind == "f" and min(semiring.zero_for(m.dtype), semiring.one_for(m.dtype)) >= 0
        return make_plan(semiring, m.dtype, nonnegative=nonnegative, storage=m.storage, threads=threads)


_FIELDS = frozenset(Draft.__dataclass_fields__)


class NotApplicable(NamedTuple):
    """Why a rule does not apply."""

    why: Text
    costs: Callable[[Call], CostEstimate | None] | None = None  # what it would cost, and the others do
    note: str = ""  # a reason of the explanation


class Rewrite(NamedTuple):
    """What a rule that applies makes of a draft."""

    why: Text
    draft: Draft
    quiet: bool = False  # listed among the rules, but not among the reasons
    by_rows: bool = True  # whether no more is to be done than can be done to some rows at a time
    #: What does the rest where all strips are visited once more.
    last_round: Callable[[Call], LastRound] | None = None
    costs: Callable[[Call], CostEstimate | None] | None = None
    notes: Callable[[Call], Sequence[str]] | None = None  # more reasons

    @property
    def ends(self) -> bool:
        """Whether no rule is asked after this one."""
        return self.draft.close is not None


class Work(NamedTuple):
    """A plan at work on a call."""

    plan: Plan
    call: Call
    matrix: EncodedMatrix  # as it is closed

    @property
    def draft(self) -> Draft:
        return self.plan.draft

    def read(self, D: Any) -> Any:
        """D ← the matrix as it is read, for what closes it in place. What `show` wants is returned."""
        self.matrix.encode(self.call.A, D)
        return None if self.call.inspect is None else D.copy()

    def show(self, D: Any, before: Any) -> None:
        """Let who asked to see it look at the closed matrix."""
        if self.call.inspect is not None:
            self.call.inspect.look(engine_of(self.plan.kernel_plan, D), D, before)


class Plan:
    """The end of a path: what the rules have decided for all calls that give these answers."""

    def __init__(
        self,
        call: Call,
        draft: Draft,
        path: list[Any],
        answers: list[tuple[str, Any]],
        plan_of: Callable[[Call], Plan],
    ) -> None:
        self.kind: Kind = call.kind
        self._plan_of = plan_of  # of the planner, for a call with other answers
        self.draft, self.path, self.answers = draft, path, answers
        self.outer = Draft.of(call).matrix
        levels = [self.outer, *(stage.matrix for stage in draft.stages), draft.matrix]
        self._bound = any(isinstance(map_, MapOfCall) for map_ in draft.matrix.maps)
        self._levels = [inner.relative_to(outer) for outer, inner in pairwise(levels)]
        self._matrix = draft.matrix.relative_to(self.outer)
        self.method: MethodRun | None = None
        if draft.close is None and draft.method_of is None:
            self.method = MethodRun(call, draft, draft.method)
        plain = self.method is not None and not (
            self._bound or draft.stages or draft.again or self._matrix.needs_packing
        )
        #: Whether the matrix is read, closed and written, and nothing else: what few vertices take is felt.
        self._is_plain = plain and draft.dtype == self.outer.dtype and draft.matrix.storage == "elements"

    @cached_property
    def kernel_plan(self) -> KernelPlan:
        """The plan under which kernels close the matrix."""
        return self.draft.kernel_plan(self.kind.options.threads)

    def method_for(self, call: Call) -> MethodRun:
        """The method that closes the matrix of a call, where no function does."""
        if self.method is not None:
            return self.method
        assert self.draft.method_of is not None
        return MethodRun(call, self.draft, self.draft.method_of(call))

    def encodings(self, call: Call) -> tuple[EncodedMatrix, list[EncodedMatrix]]:
        """Return the encoding in which the matrix is closed, relative to the array; and those from stage to stage."""
        if not self._bound:
            return self._matrix, self._levels
        inner = self.draft.matrix.bound(call)
        levels = [self.outer, *(stage.matrix.bound(call) for stage in self.draft.stages), inner]
        matrix = inner.relative_to(self.outer)
        if len(levels) == 2:
            return matrix, [matrix]
        return matrix, [later.relative_to(earlier) for earlier, later in pairwise(levels)]

    def run(self, call: Call, home: Any = None) -> Any:
        """The closure of the call's array, in ``home`` or in a new array. Home may be the array.

        Between the first write and the last the memory is that of home, wherever it will do.
        """
        if call.explanation is not None:
            self.explain(call)
        d, A = self.draft, call.A
        if self._is_plain and (home is None or (home.dtype == d.matrix.dtype and has_adjacent_elements(home))):
            D = home = empty_like(A) if home is None else home
            plain: Any = self.method
            D, original, kept = plain.read(self._matrix, A, D, call.inspect)
            plain.close(call, D, original)
            if d.plus:
                plain.drop_empty_paths(kept, D)
            if self._matrix.needs_decoding:
                self._matrix.decode(D, home)
            return home
        matrix, levels = self.encodings(call)
        if d.close is not None and d.in_home:
            return d.close(Work(self, call, matrix), home)
        method = None if d.close is not None else self.method or self.method_for(call)
        if home is None and not matrix.needs_packing:
            home = empty_like(A)
        D = matrix.memory_in(home, A)
        if method is not None:
            D, original, kept = method.read(matrix, A, D, call.inspect)
            method.close(call, D, original)
            if d.plus:
                method.drop_empty_paths(kept, D)
        else:
            D = d.close(Work(self, call, matrix), D)  # type: ignore[misc]
        if d.again is not None and (answers := d.again(call, D)) is not None:
            return self._once_more(call.again(**answers), home)
        for stage, between in zip(d.stages[::-1], levels[:0:-1], strict=False):
            if between.needs_decoding:
                between.decode(D, D)
            stage.finish(call, D)
        if home is None:
            return D.unpack()
        if levels[0].needs_decoding or D is not home:
            levels[0].decode(D, home)
        return home

    def _once_more(self, call: Call, home: Any) -> Any:
        """The call, planned with other answers, from the source."""
        plan = self._plan_of(call)
        if call.explanation is not None:
            call.explanation.say(call.depth, "again", True, f"in {plan.draft.dtype}")
        return plan.run(call, home)

    def same_as(self, other: Plan) -> bool:
        """Whether the same rules apply, for the same answers to the same questions."""
        mine, others = (
            [(name, type(found), found.why if isinstance(found.why, str) else "") for name, found in plan.answers]
            for plan in (self, other)
        )
        return mine == others and self.path == other.path and _form(self.draft) == _form(other.draft)

    # --------------------------------------------------------------------------------------------------- explanation

    def rules(self, call: Call) -> str:
        """The path and the answer of every rule, as text."""
        lines = [f"  ? {asked.text:<24} {found}" for asked, found in self.path]
        for name, found in self.answers:
            lines.append(f"  {'✓' if isinstance(found, Rewrite) else '·'} {name:<14} {text_of(found.why, call)}")
        return "\n".join(lines)

    def explain(self, call: Call) -> None:
        """Tell the explanation of a call what this plan does to it."""
        explanation, k, before = call.explanation, call.kind, Draft.of(call)
        assert explanation is not None
        explanation.about(k.shape, k.dtype)
        is_first = call.matrix_of_stack == 0
        for name, found in self.answers:
            applies, costs = isinstance(found, Rewrite), found.costs and found.costs(call)
            why = text_of(found.why, call)
            if is_first:
                explanation.say(call.depth, name, applies, why, _cost(found, before, costs))
            if not applies:
                explanation.note(found.note)
                continue
            if found.notes is not None:
                for note in found.notes(call):
                    explanation.note(note)
            if name == "method":
                explanation.method = found.draft.method
            if not found.quiet:
                explanation.note(why)
            if costs and is_first:
                explanation.predict(costs)
            before = found.draft
        if self.draft.close is not None:
            return
        method = self.method_for(call)
        if is_first:
            explanation.say(call.depth, "method", True, str(method), method.cost)
            backend = "cuda" if k.devices else method.backend.name
            explanation.closed_by(method.method.name, backend, self.draft.matrix.storage, k.devices)
            explanation.predict({} if method.pairs is None else {"dense": method.pairs})


def text_of(why: Text, call: Call) -> str:
    """Return the reason of a rule, which may be a function of the call that it was asked about."""
    return why(call) if callable(why) else why


def _form(d: Draft) -> tuple[Any, ...]:
    """What of a draft can be compared: functions and maps are made anew by every rule."""
    m, method = d.matrix, d.method if isinstance(d.method, str) else d.method.name
    maps = tuple(type(map_) for map_ in m.maps)
    kept = d.semiring, method, d.nonnegative, d.signed, d.examined, d.plus, d.stack, len(d.stages), d.in_home
    return (*kept, maps, m.dtype, m.inner, m.sentinel, m.storage, d.close is None, d.again is None)


def _cost(found: NotApplicable | Rewrite, before: Draft, costs: CostEstimate | None) -> str:
    """What an answer costs, beside what other ways would, and whether the input must survive the work."""
    said = [str(costs)] if costs else []
    if isinstance(found, Rewrite):
        now = found.draft
        if not said and not found.ends and (now.matrix.maps, now.dtype) != (before.matrix.maps, before.dtype):
            said.append("no extra pass over the matrix")
        if now.again is not None and before.again is None:
            said.append("the input is kept until the result is there")
    return "; ".join(said)
