"""A matrix in pieces: what the rules leave of it, if all that they do can be done to a piece at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

from semiring.algorithms.methods import Method
from semiring.closures.call import Call
from semiring.closures.matrix import EncodedMatrix
from semiring.closures.method_run import MethodRun
from semiring.closures.plan import Draft, Rewrite, text_of
from semiring.closures.planner import plan_of
from semiring.errors import AlgebraError
from semiring.out_of_core.last_round import NO_LAST_ROUND, LastRound
from semiring.out_of_core.layout import format_bytes

__all__ = ["PieceWork", "Pieces", "planned"]

Array: TypeAlias = Any

_MAPPED = 1 << 21  # entries to which maps are done at a time: on a GPU there are some copies of them


@dataclass
class PieceWork:
    """What is left to do when all scans are over."""

    call: Call
    draft: Draft  # what the rules have decided
    outer: EncodedMatrix  # the matrix as it was given
    inner: EncodedMatrix  # and as the method sees it
    #: Asked of closed rows before maps are undone: it raises where they must be read in another way.
    again: Callable[[Call, Array], Any] | None = None
    last: LastRound = NO_LAST_ROUND

    def on(self, sample: Array, *vertices: Any) -> Pieces:
        """What is done to pieces that live where ``sample`` does; ``vertices``: of which rows and columns they are."""
        return Pieces(self, self.inner.relative_to(self.outer).beside(sample, *vertices))

    def method(self) -> MethodRun:
        """The method that closes the pieces."""
        method: str | Method = self.draft.method
        return MethodRun(self.call, self.draft, method)


class Pieces(NamedTuple):
    """The first and the last visit of a piece, in place; it begins with the row ``first`` of the matrix."""

    work: PieceWork
    matrix: EncodedMatrix

    def encode(self, first: int, piece: Array) -> None:
        """Do the maps to it."""
        m = self.matrix
        if m.maps or not m.is_unchanged:
            for start, rows in self._some(piece):
                m.encode(rows, rows, first + start)

    def decode(self, first: int, piece: Array) -> None:
        """Undo them. Raises what closed rows are asked for: there is no reading them once more."""
        work = self.work
        for start, rows in self._some(piece):
            if work.again is not None:
                work.again(work.call, rows)
            self.matrix.decode(rows, rows, first + start)

    def _some(self, piece: Array) -> Iterator[tuple[int, Array]]:
        """Rows to which maps are done at a time, and the first of each; none of words, which no map changes."""
        if piece.size and self.matrix.storage == "elements":
            step = max(1, _MAPPED // piece.shape[1])
            yield from ((start, piece[start : start + step]) for start in range(0, len(piece), step))


def planned(call: Call, *, last_round: bool = False) -> PieceWork:
    """What the rules leave, where that can be done by strips or tiles. Raises `AlgebraError`.

    ``last_round``: whether there may be a round after the last pivot.
    """
    plan, strips, ending = plan_of(call), call.strips, NO_LAST_ROUND
    assert strips is not None
    for _, found in plan.answers:
        if not isinstance(found, Rewrite) or (found.by_rows and not found.ends):
            continue
        if found.last_round is None or not last_round:
            raise AlgebraError(
                f"{text_of(found.why, call)}: that needs the whole matrix in memory, and this matrix is closed by "
                f"{strips.called} of them; read it and close it in memory, which takes {format_bytes(call.A.nbytes)} "
                "at least"
            )
        ending = ending & found.last_round(call)
    d = plan.draft
    if d.dtype != call.kind.dtype:
        raise AlgebraError(f"{strips.called} of {call.kind.dtype} cannot hold {d.dtype}: close the matrix in memory")
    if call.explanation is not None:
        plan.explain(call)
    return PieceWork(call, d, plan.outer, d.matrix.bound(call), d.again, ending)
