"""A problem whose matrix is in pieces: what the steps leave of it, if all they do is done to a piece at a time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

from semiring.chain.matrix import Way
from semiring.chain.planner import Node
from semiring.chain.problem import Problem
from semiring.errors import AlgebraError
from semiring.strips.last import NOTHING, LastRound
from semiring.strips.layout import shown

__all__ = ["Pieces", "Work", "planned"]

Array: TypeAlias = Any

_MAPPED = 1 << 21  # entries to which maps are done at a time: on a GPU there are some copies of them


@dataclass
class Work:
    """What is left to do when all looks are over."""

    outer: Problem  # as it was given
    inner: Problem  # as the method sees it
    again: Any = None  # as in `Reduction`: what closed rows are asked before maps are undone
    last: LastRound = NOTHING

    def on(self, sample: Array, *vertices: Any) -> Pieces:
        """What is done to pieces that live where ``sample`` does; ``vertices``: of which rows and columns they are."""
        return Pieces(self, Way(*(p.matrix.beside(sample, *vertices) for p in (self.outer, self.inner))))


class Pieces(NamedTuple):
    """The first and the last visit of a piece, in place; it begins with the row ``first`` of the matrix."""

    work: Work
    way: Way

    def encode(self, first: int, piece: Array) -> None:
        """Do the maps to it."""
        m = self.way.inner
        if m.maps or not m.as_it_is:
            for start, rows in self._some(piece):
                self.way.encode(rows, rows, first + start)

    def decode(self, first: int, piece: Array) -> None:
        """Undo them. Raises what closed rows are asked for: there is no reading them once more."""
        again, p = self.work.again, self.work.inner
        for start, rows in self._some(piece):
            if again is not None and (wider := again(p, rows)) is not None:
                wider()
            self.way.decode(rows, rows, first + start)

    def _some(self, piece: Array) -> Iterator[tuple[int, Array]]:
        """Rows to which maps are done at a time, and the first of each; none of words, which no map changes."""
        if piece.size and self.way.inner.storage == "elements":
            step = max(1, _MAPPED // piece.shape[1])
            yield from ((start, piece[start : start + step]) for start in range(0, len(piece), step))


def planned(child: Node, *, last_round: bool = False) -> Work:
    """What the steps left, where that can be done by strips or tiles. Raises `AlgebraError`.

    ``last_round``: whether there may be a round after the last pivot.
    """
    last, asked, ending, array, strips = child, None, NOTHING, child.outer.matrix.array, child.outer.strips
    assert strips is not None
    while True:
        for found in last.more:
            if found.last_round is None or not last_round:
                raise AlgebraError(
                    f"{found.why}: that needs the whole matrix in memory, and this matrix is closed by "
                    f"{strips.called} of them; read it and close it in memory, which takes {shown(array.nbytes)} at "
                    "least"
                )
            ending = ending & found.last_round
        asked = asked or last.again
        if last.leaf is not None:
            break
        (last,) = last.children
    if last.inner.dtype != array.dtype:
        raise AlgebraError(
            f"{strips.called} of {array.dtype} cannot hold {last.inner.dtype}: close the matrix in memory"
        )
    return Work(child.outer, last.inner, asked, ending)
