"""The planner: steps in their order, until a method is left; and the driver of what was planned.

A `Node` stands for a problem. Planning it asks one step after the other. Maps join those that wait, and the next step
sees the problem through them; a reduction to other problems ends the row, and they are planned by the steps that follow
it. So when the first node runs, every look of the call is over.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, TypeAlias

from semiring.arrays.entries import check_entries
from semiring.arrays.parts import parts
from semiring.chain.leaf import Leaf
from semiring.chain.matrix import Decoder, Encoder, Marks, decode, decoder, encode, encoder, nothing, same_memory
from semiring.chain.problem import Again, Facts, Inspection, No, Problem, Reduction, Step, is_tropical
from semiring.errors import DivergenceError, DomainError, IntegerOverflowError, SemiringError
from semiring.profiling import span

__all__ = ["Node", "Passes", "name_of", "solve"]


class Passes(NamedTuple):
    """What is left of a planned problem where only maps that do a whole array in one pass stand before its method."""

    leaf: Leaf
    encode: Encoder
    decode: Decoder | None  # None where there is nothing to undo
    as_it_is: bool  # whether what is closed equals what came in

    def run(self, A: Any, out: Any = None, inspect: Inspection | None = None) -> Any:
        """Out ← the result for another matrix of the same kind, which keeps what the facts promise. Returns out.

        The rows of out are adjacent; it may be A. None is a new array.
        """
        if out is None:
            out = self.leaf.xp.empty(A.shape, A.dtype)
        leaf = self.leaf
        D = out if leaf.dtype is out.dtype else out.view(leaf.dtype)
        marks = self.encode(A, D)
        if inspect is None:
            leaf.close(D)
        else:
            leaf.close(D, inspect, A if self.as_it_is and A is not out else None)
        if self.decode is not None:
            self.decode(D, out, marks)
        return out


_DATA = (DivergenceError, DomainError, IntegerOverflowError)  # errors that are about the entries of a matrix
Blame: TypeAlias = Callable[[SemiringError], SemiringError]  # an error of a part, as one of the whole


def _as_it_is(error: SemiringError) -> SemiringError:
    return error


def solve(problem: Problem, steps: Sequence[Step]) -> Any:
    """The result of a problem: all looks, and then all work."""
    return Node(problem, steps).run(problem.home)


def name_of(step: Step) -> str:
    """What a step is called in an explanation."""
    return str(getattr(step, "__name__", type(step).__name__)).replace("_", " ")


class Node:
    """A planned problem: maps, and then one reduction to other problems, or a method."""

    def __init__(
        self, problem: Problem, steps: Sequence[Step], depth: int = 0, blame: Blame = _as_it_is, silent: bool = False
    ) -> None:
        self.outer = problem
        self._blame = blame
        self.reduction: Reduction | None = None
        self.leaf: Leaf | None = None
        self.children: list[Node] = []
        self._marks: Marks = ()  # what the maps left when the matrix was encoded
        self._depth = depth
        self._silent = silent
        try:
            self.inner = self._plan(problem, steps)
        except _DATA as error:
            raise blame(error) from None

    def _plan(self, p: Problem, steps: Sequence[Step]) -> Problem:
        explanation = p.request.explanation
        for i, step in enumerate(steps):
            if p.facts is None and p.taken and not getattr(step, "blind", False):
                p = replace(p, facts=looked_at(p))
            with span("step", name_of(step)):
                found = step(p)
            if not self._silent:
                explanation.say(self._depth, name_of(step), isinstance(found, Reduction), found.why)
            if isinstance(found, No):
                continue
            if not found.quiet:
                explanation.note(found.why)
            p = found.mapped or p
            if found.divides:
                self.reduction, self._rest = found, steps[i + 1 :]
                self.children = [self.plan(q, k) for k, q in enumerate(found.problems)]
                return p
        self.leaf = Leaf(p)
        if not self._silent:
            explanation.say(self._depth, "method", True, str(self.leaf))
        return p

    def plan(self, problem: Problem, which: int) -> Node:
        """Plan a problem of the reduction, the one of that number, by the steps that follow."""
        reduction, silent = self.reduction, self._silent or which > 0
        assert reduction is not None
        return Node(problem, self._rest, self._depth + 1, lambda error: reduction.blame(error, which), silent)

    def passes(self) -> Any:
        """`Passes`, or what runs as they do: the same work for any matrix of the kind; None where there is no way."""
        node = self
        while node.leaf is None:
            if node.reduction is None or not node.reduction.promised:
                return None if node.reduction is None else node.reduction.short(node)
            (node,) = node.children
        inner = node.inner.matrix
        encode, decode = encoder(inner), decoder(self.outer.matrix, inner)
        if encode is None or decode is None:
            return None
        return Passes(node.leaf, encode, None if decode is nothing else decode, inner.as_it_is)

    def run(self, home: Any) -> Any:
        """Solve the problem. Returns its result, in ``home`` where that is given.

        Between the first write and the last the memory is that of home, wherever it will do.
        """
        try:
            if not self.outer.taken:
                assert self.reduction is not None
                return self.reduction.give(self.children[0] if self.children else None)
            return self._run(home)
        except _DATA as error:
            raise self._blame(error) from None

    def _run(self, home: Any) -> Any:
        outer, inner = self.outer.matrix, self.inner.matrix
        in_home = self.reduction is not None and self.reduction.in_home
        D = home if in_home else inner.memory(home)
        if self.leaf is not None:
            D, self._marks = encode(inner, D)
            original = inner.array if inner.as_it_is and not same_memory(inner.array, D) else None
            self.leaf.close(D, self.outer.request.inspect, original)
        else:
            assert self.reduction is not None
            D = self.reduction.run(self, D)
            if isinstance(D, Again):  # read once more from the source
                self.inner = again = D.problem
                self.outer.request.explanation.say(self._depth, "again", True, f"in {again.matrix.dtype}")
                self.children = [self.plan(again, 0)]
                return self._run(home)
            if len(self.children) == 1:
                self._marks = self.children[0]._marks
        if home is None or in_home:
            return D
        decode(outer, inner, D, home, self._marks)
        return home


def looked_at(p: Problem) -> Facts:
    """The facts of a matrix, by a look at all its entries where that may be waited for.

    The sign decides about the potentials, and the range of integers about their width; so the host looks whatever the
    caller says of ``check``. A device that must not be waited for is promised min-plus weights ≥ 0, and no path near
    half the range of an integer. Raises `DomainError` for NaN, and for what lies outside the domain.
    """
    m, tropical = p.matrix, p.semiring.tropical is not None
    if m.maps or m.vertices is not None or m.sentinel:
        return _looked_through_maps(p)
    if not (p.request.check or (is_tropical(p.semiring) and p.waits)):
        return Facts(0, 0) if is_tropical(p.semiring) else Facts()
    scan = check_entries(m.array, p.semiring)
    if tropical and scan.low is None:  # no numbers at all
        return Facts(0, 0, scan.nonnegative)
    return Facts(scan.low, scan.high, scan.nonnegative)


def _looked_through_maps(p: Problem) -> Facts:
    m, ends = p.matrix, []
    for at in parts(m.shape, m.there):
        rows = m.rows(at)
        numbers = rows[rows < int(m.inner)] if m.sentinel else rows
        if numbers.size:
            ends += [numbers.min(), numbers.max()]
    return Facts(min(ends, default=0), max(ends, default=0))
