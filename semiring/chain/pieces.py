"""A problem whose matrix is in pieces: what the steps leave of it, if all they do is done to a piece at a time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from semiring.chain.problem import Problem
from semiring.errors import AlgebraError
from semiring.strips.last import NOTHING, LastRound
from semiring.strips.layout import shown

if TYPE_CHECKING:
    from semiring.chain.planner import Node

__all__ = ["Work", "planned"]

Array: TypeAlias = Any


@dataclass
class Work:
    """What is left to do when all looks are over."""

    outer: Problem  # as it was given
    inner: Problem  # as the method sees it
    asked: list[Callable[[Problem, Array], Callable[[], Problem] | None]]  # of closed rows, before maps are undone
    last: LastRound = NOTHING

    def ask(self, rows: Array) -> None:
        """Raise what closed rows are asked for: there is no reading them once more."""
        for again in self.asked:
            if (wider := again(self.inner, rows)) is not None:
                wider()


def planned(child: Node, *, last_round: bool = False) -> Work:
    """What the steps left, where that can be done by strips or tiles. Raises `AlgebraError`.

    ``last_round``: whether there may be a round after the last pivot.
    """
    last, asked, ending, array, strips = child, [], NOTHING, child.outer.matrix.array, child.outer.strips
    assert strips is not None
    while last.leaf is None:
        assert last.reduction is not None
        again, round_ = last.reduction.again, last.reduction.last_round
        if again is None and (round_ is None or not last_round):
            raise AlgebraError(
                f"{last.reduction.why}: that takes more than some rows at a time, and this matrix is closed by "
                f"{strips.called} of them; read it and close it in memory, which takes {shown(array.nbytes)} at least"
            )
        if again is not None:
            asked.append(again)
        elif round_ is not None:
            ending = ending & round_
        (last,) = last.children
    if last.inner.dtype != array.dtype:
        raise AlgebraError(
            f"{strips.called} of {array.dtype} have no room for {last.inner.dtype}: close the matrix in memory"
        )
    return Work(child.outer, last.inner, asked, ending)
