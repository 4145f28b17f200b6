"""The planner: steps in their order, until a method is left; and the driver of what was planned.

A `Node` stands for a problem. Planning it asks one step after the other. Maps join those that wait, and the next step
sees the problem through them; a reduction to other problems ends the row, and they are planned by the steps that follow
it. So when the first node runs, every look of the call is over.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

from semiring.arrays.entries import check_by_threads
from semiring.chain.leaf import Leaf
from semiring.chain.matrix import Way, same_memory
from semiring.chain.problem import Again, Facts, Inspection, No, Problem, Reduction, Step, is_tropical
from semiring.errors import IntegerOverflowError, SemiringError
from semiring.kernels.engine import engine_of
from semiring.profiling import span
from semiring.strips.stored import is_name

__all__ = ["Node", "Program", "name_of", "solve"]


class Program(NamedTuple):
    """What is left of a planned problem where nothing but maps stands before its method."""

    leaf: Leaf
    way: Way
    ask: Callable[[Any], None] | None  # what is closed; an `IntegerOverflowError`: the chain must solve it after all

    def run(self, A: Any, out: Any = None, inspect: Inspection | None = None) -> Any:
        """Out ← the result for another matrix of the same kind, which keeps what the facts promise. Returns out.

        The rows of out are adjacent; it may be A. None is a new array. Returns None where the chain must solve it.
        """
        leaf, way, ask = self
        if ask is not None and A is out:
            return None
        if out is None and way.packs:
            leaf.close(words := way.encode(A, None))
            return words.unpack()
        if out is None:
            out = leaf.xp.empty(A.shape, A.dtype)
        D = way.encode(A, out if leaf.dtype is out.dtype else way.inner.memory(out))
        if inspect is None:
            leaf.close(D)
        else:
            leaf.close(D, inspect, A if way.inner.as_it_is and A is not out else None)
        if ask is not None:
            try:
                ask(D)
            except IntegerOverflowError:
                return None
        if way.ends:
            way.decode(D, out)
        return out


def solve(problem: Problem, steps: Sequence[Step]) -> Any:
    """The result of a problem: all looks, and then all work."""
    result = Node(problem, steps).run()
    out = problem.request.out
    return result if out is None or is_name(out) else out


def name_of(step: Step) -> str:
    """What a step is called in an explanation."""
    return str(getattr(step, "__name__", type(step).__name__)).replace("_", " ")


class Node:
    """A planned problem: maps, and then one reduction to other problems, or a method."""

    def __init__(self, problem: Problem, steps: Sequence[Step], parent: Node | None = None, which: int = 0) -> None:
        self.outer = problem
        self.reduction: Reduction | None = None
        self.leaf: Leaf | None = None
        self.children: list[Node] = []
        above = None if parent is None else parent.reduction  # not the parent, which would be a cycle of references
        self._blame, self._which = None if above is None else above.blame, which
        self._depth: int = 0 if parent is None else parent._depth + 1
        told = problem.request.explanation.told if parent is None else not parent._silent
        self._silent: bool = which > 0 or not told
        self._by_data = False  # whether anything was decided by the entries
        try:
            self._plan(problem, steps)
        except SemiringError as error:
            raise self._told(error) from None

    def _plan(self, p: Problem, steps: Sequence[Step]) -> None:
        explanation = p.request.explanation
        if p.taken:
            explanation.about(p.matrix)
        for i, step in enumerate(steps):
            if p.facts is None and p.taken and not getattr(step, "blind", False):
                p = p.but(looked_at(p))
            with span("step", name := name_of(step)):
                found = step(p)
            self._by_data |= found.by == "data"
            if not self._silent:
                explanation.say(self._depth, name, isinstance(found, Reduction), found.why)
            if isinstance(found, No):
                continue
            if not found.quiet:
                explanation.note(found.why)
            p = found.mapped or p
            if not found.only_maps:
                self.reduction, self._rest = found, steps[i + 1 :]
                break
        self._read_as(p)
        if self.reduction is not None:
            self.children = [self.plan(q, k) for k, q in enumerate(self.reduction.problems)]
            return
        self.leaf = Leaf(p)
        if not self._silent:
            explanation.say(self._depth, "method", True, str(self.leaf))
            explanation.closed_by(self.leaf)

    def _read_as(self, p: Problem) -> None:
        self.inner = p
        self.way = Way(self.outer.matrix, p.matrix)

    def plan(self, problem: Problem, which: int) -> Node:
        """Plan a problem of the reduction, the one of that number, by the steps that follow."""
        return Node(problem, self._rest, self, which)

    def _told(self, error: SemiringError) -> SemiringError:
        """An error of this problem, as one of the problem that it is a part of."""
        return error if self._blame is None else self._blame(error, self._which)

    def program(self) -> Program | None:
        """The same for any matrix with these facts; None where there is more than maps, or the entries decided."""
        last, ask = self, None
        if self.reduction is not None and self.reduction.by_strips is not None:
            (last,), ask = self.children, self.reduction.by_strips
        if last.leaf is None or self._by_data or last._by_data:
            return None
        return Program(last.leaf, Way(self.outer.matrix, last.inner.matrix), ask)

    def read(self, D: Any) -> Any:
        """D ← the matrix as it is read, for a reduction that closes it in place. What `show` wants is returned."""
        self.way.encode(self.inner.matrix.array, D)
        return None if self.inner.inspect is None else D.copy()

    def show(self, D: Any, before: Any) -> None:
        """Let who asked to see it look at the closed matrix."""
        if self.inner.inspect is not None:
            engine = engine_of(self.inner.kernel_plan(), D)
            self.inner.inspect.look(engine, D, before=before, pivots=None)

    def run(self, home: Any = None) -> Any:
        """Solve the problem. Returns its result, in ``home``, by default its own, where there is one.

        Between the first write and the last the memory is that of home, wherever it will do.
        """
        try:
            return self._run(self.outer.home if home is None else home)
        except SemiringError as error:
            raise self._told(error) from None

    def _run(self, home: Any) -> Any:
        reduction, p, m = self.reduction, self.inner, self.inner.matrix
        if reduction is None:
            assert self.leaf is not None
            D = self.way.encode(m.array, m.memory(home))
            self.leaf.close(D, p.inspect, m.array if m.as_it_is and not same_memory(m.array, D) else None)
        else:
            as_it_is = reduction.in_home or not self.outer.taken
            D = reduction.run(self, home if as_it_is else m.memory(home))
            if as_it_is:
                return D
            if isinstance(D, Again):  # read once more from the source
                p.request.explanation.say(self._depth, "again", True, f"in {D.problem.dtype}")
                self._read_as(D.problem)
                self.children = [self.plan(D.problem, 0)]
                return self._run(home)
        if home is None:
            return D
        self.way.decode(D, home)
        return home


def looked_at(p: Problem) -> Facts:
    """The facts of a matrix, by a look at all its entries where that may be waited for.

    The sign decides about the potentials, and the range of integers about their width; so the host looks whatever the
    caller says of ``check``. A device that must not be waited for is promised min-plus weights ≥ 0, and no path near
    half the range of an integer. Raises `DomainError` for NaN, and for what lies outside the domain.
    """
    m, tropical = p.matrix, p.semiring.tropical is not None
    if m.maps or m.sentinel:
        return Facts(*m.range())
    if not (p.request.check or (is_tropical(p.semiring) and p.waits)):
        return Facts(0, 0) if is_tropical(p.semiring) else Facts()
    look = partial(check_by_threads, threads=p.request.threads) if p.strips is None else p.strips.look
    scan = look(m.array, p.semiring)
    if tropical and scan.low is None:  # no numbers at all
        return Facts(0, 0, scan.nonnegative)
    return Facts(scan.low, scan.high, scan.nonnegative)
