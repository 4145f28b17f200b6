"""The planner: steps in their order, until a method is left; and the driver of what was planned.

A `Node` stands for a problem. Planning it asks one step after the other. Maps join those that wait, and the next step
sees the problem through them; a reduction to other problems ends the row, and they are planned by the steps that follow
it. So when the first node runs, every look of the call is over.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any, TypeAlias

from semiring import profiling
from semiring.algorithms.predecessors import Inspection
from semiring.algorithms.progress import Progress
from semiring.arrays.operands import empty_like, same_memory
from semiring.chain.leaf import Leaf
from semiring.chain.matrix import Map, Way
from semiring.chain.problem import STRUCTURES, No, Problem, Program, Reduction, Step, altered, as_it_is
from semiring.errors import SemiringError
from semiring.graphs.structure import UNSEEN
from semiring.kernels.engine import engine_of
from semiring.strips.stored import is_name

__all__ = ["OWN_STEPS", "Node", "name_of", "solve"]


Blame: TypeAlias = Callable[[SemiringError], SemiringError]

#: Steps that are not the library's. They look at a matrix as they like, so no plan is made for several while there are.
OWN_STEPS: set[Step] = set()


def solve(problem: Problem, steps: Sequence[Step]) -> Any:
    """The result of a problem: all looks, and then all work."""
    result = Node(problem, steps).solve()
    out = problem.request.out
    return result if out is None or is_name(out) else out


@cache
def name_of(step: Step) -> str:
    """What a step is called in an explanation."""
    return str(getattr(step, "__name__", type(step).__name__)).replace("_", " ")


def _answer(step: Step, p: Problem) -> No | Reduction:
    """What a step answers; one that spares work is asked where the caller lets it, and somebody looked at the graph."""
    name = name_of(step)
    if name in STRUCTURES and (p.seen is UNSEEN or name not in p.request.structure):
        return No("structure analysis was not run" if name in p.request.structure else "disabled by structure=")
    with profiling.span("step", name):
        return step(p)


def _cost(found: No | Reduction, p: Problem) -> str:
    """What an answer costs, beside what other ways would, and whether the input must survive the work."""
    said = [str(found.prices)] if found.prices else []
    if isinstance(found, Reduction):
        q = found.mapped
        if not said and found.only_maps and q and (q.matrix.maps, q.dtype) != (p.matrix.maps, p.dtype):
            said.append("no extra pass over the matrix")
        if found.again is not None:
            said.append("the input is kept until the result is there")
    return "; ".join(said)


class Node:
    """A planned problem: the program of its kind; or maps, and then one reduction to other problems, or a method."""

    def __init__(
        self, problem: Problem, steps: Sequence[Step], depth: int = 0, silent: bool = False, blame: Blame = as_it_is
    ) -> None:
        self.outer, self._depth, self._blame = problem, depth, blame
        self._silent = silent or not problem.request.explanation.told
        self.reduction: Reduction | None = None
        self.leaf: Leaf | None = None
        self.again: Any = None  # of the reduction that read the matrix in such a way
        self.more: list[Reduction] = []  # those that take more than to map some rows
        self._rest, programs = steps, problem.request.programs if problem.alone else None
        try:
            self.program: Program | None = None if programs is None else programs(problem)
            if self.program is None:
                self._plan(problem, steps)
        except SemiringError as error:
            raise blame(error) from None

    def _plan(self, p: Problem, steps: Sequence[Step]) -> None:
        explanation = p.request.explanation
        if p.taken:
            explanation.about(p.matrix)
        for i, step in enumerate(steps):
            found = _answer(step, p)
            if not self._silent:
                explanation.say(self._depth, name_of(step), isinstance(found, Reduction), found.why, _cost(found, p))
            if isinstance(found, No):
                continue
            if not found.quiet:
                explanation.note(found.why)
            if found.prices and not self._silent:
                explanation.predict(found.prices)
            p, self._rest = found.mapped or p, steps[i + 1 :]
            if found.again is not None:
                self.again, self._asked, self._then = found.again, p, self._rest
            if not (found.only_maps and found.by_rows):
                self.more.append(found)
            if not found.only_maps:
                self.reduction = found
                break
        self.inner = p
        if self.outer.taken:
            self.way = Way(self.outer.matrix, p.matrix)
        if self.reduction is not None:
            self.children = [self.plan(q, k) for k, q in enumerate(self.reduction.problems)]
            return
        self.leaf = Leaf(p)
        if not self._silent:
            explanation.say(self._depth, "method", True, str(self.leaf), self.leaf.cost)
            devices = p.request.devices
            backend = "cuda" if devices else self.leaf.backend.name
            explanation.closed_by(self.leaf.method.name, backend, p.matrix, devices)
            explanation.predict({} if self.leaf.pairs is None else {"dense": self.leaf.pairs})

    def plan(self, problem: Problem, which: int) -> Node:
        """Plan a problem of the reduction, the one of that number, by the steps that follow."""
        assert self.reduction is not None
        blame = partial(self.reduction.blame, which=which)
        return Node(problem, self._rest, self._depth + 1, self._silent or which > 0, blame)

    def at(self, A: Any, home: Any, progress: Progress | None) -> Node:
        """A program of more than one method, at work on a matrix."""
        p = self.inner.but(self.inner.facts, array=A, home=home, progress=progress, blank=False)
        node: Node = altered(self, inner=p)
        return node

    def under(self, map_: Map) -> Node:
        """A program whose matrix is read through one map more."""
        p = self.inner.mapped(map_, self.inner.facts)
        node: Node = altered(self, inner=p, way=Way(self.outer.matrix, p.matrix))
        return node

    def read(self, D: Any) -> Any:
        """D ← the matrix as it is read, for a reduction that closes it in place. What `show` wants is returned."""
        self.way.encode(self.inner.matrix.array, D)
        return None if self.inner.inspect is None else D.copy()

    def show(self, D: Any, before: Any) -> None:
        """Let who asked to see it look at the closed matrix."""
        if self.inner.inspect is not None:
            self.inner.inspect.look(engine_of(self.inner.kernel_plan(), D), D, before=before)

    def solve(self, home: Any = None) -> Any:
        """Solve the problem. Returns its result, in ``home``, by default its own, where there is one.

        Between the first write and the last the memory is that of home, wherever it will do.
        """
        p = self.outer
        home = p.home if home is None else home
        try:
            if self.program is not None:
                closed = self.program(p.matrix.array, home, p.inspect, p.progress)
                if closed is not None:
                    return closed
                self._plan(p, self._rest)
            p = self.inner
            return self.close(p.matrix.array, home, p.inspect, p.progress)
        except SemiringError as error:
            raise self._blame(error) from None

    def close(
        self, A: Any, home: Any = None, inspect: Inspection | None = None, progress: Progress | None = None
    ) -> Any:
        """Home ← the closure of A: the problem's array or, of a program, any of its kind; home None is a new array.

        Home may be A. A program that would have to begin again returns None: the chain must solve it.
        """
        found, leaf, p = self.reduction, self.leaf, self.inner
        if found is not None and not self.outer.taken:
            return found.close(self, None)
        if self.again is not None and p.blank and home is not None and same_memory(A, home):
            return None
        if home is None and not self.way.packs:
            home = empty_like(A)
        if found is not None and found.in_home:
            return found.close(self.at(A, home, progress) if p.blank else self, home)
        D = p.matrix.memory_in(home)
        if leaf is not None:
            D, original, kept = leaf.read(self.way, A, D, inspect)
            close = leaf.close_block if leaf.is_block else leaf.close
            close(D, inspect, progress, original)
            if p.plus:
                leaf.drop_empty_paths(kept, D)
        elif found is not None:
            D = found.close(self, D)
        if self.again is not None and (wider := self.again(self._asked, D)) is not None:
            return None if p.blank else self._once_more(wider(), home)
        if home is None:
            return D.unpack()
        if self.way.ends or D is not home:
            self.way.decode(D, home)
        return home

    def _once_more(self, q: Problem, home: Any) -> Any:
        """The problem, read in another way, from the source."""
        q.request.explanation.say(self._depth, "again", True, f"in {q.dtype}")
        self.reduction, self.leaf, self._asked, self.more = None, None, q, []
        self._plan(q, self._then)
        return self.close(q.matrix.array, home, q.inspect, q.progress)
