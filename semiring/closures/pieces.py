"""Plan the closure of a matrix in pieces (strips or tiles), whose encoding is applied to one piece at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from semiring.algorithms.methods import Method
from semiring.closures.call import Call
from semiring.closures.matrix import EncodedMatrix
from semiring.closures.method_run import MethodRun
from semiring.closures.plan import Draft, Rewrite, reason_text
from semiring.closures.planner import plan_of
from semiring.errors import AlgebraError
from semiring.namespaces import Array
from semiring.out_of_core.last_round import LastRound
from semiring.out_of_core.strip_layout import format_bytes

__all__ = ["PieceWork", "Pieces", "plan_pieces"]


_MAPPED = 1 << 21  # entries that are encoded at a time: on a GPU maps make some copies of them


@dataclass
class PieceWork:
    """The plan of a matrix in pieces, with the results of all scans."""

    call: Call
    draft: Draft  # the decisions of the rules
    outer: EncodedMatrix  # the encoding of the caller's matrix
    inner: EncodedMatrix  # the encoding in which the method closes it
    #: Validates closed rows before maps are undone. It raises if the matrix must be read in a wider dtype.
    replan: Callable[[Call, Array], Any] | None = None
    last_round: LastRound | None = None

    def pieces_on(self, sample: Array, *vertices: Any) -> Pieces:
        """Return the encoding for pieces on the device of ``sample``; ``vertices``: the indices of rows and columns."""
        return Pieces(self, self.inner.relative_to(self.outer).restrict(sample, *vertices))

    def method(self) -> MethodRun:
        """Return the run of the method that closes the pieces."""
        method: str | Method = self.draft.method
        return MethodRun(self.call, self.draft, method)


class Pieces(NamedTuple):
    """The first and the last visit of a piece, in place; a piece begins with the row ``first`` of the matrix."""

    work: PieceWork
    matrix: EncodedMatrix

    def encode(self, first: int, piece: Array) -> None:
        """Encode a piece in place."""
        m = self.matrix
        if m.maps or not m.is_unchanged:
            for start, rows in self._row_groups(piece):
                m.encode(rows, rows, first + start)

    def decode(self, first: int, piece: Array) -> None:
        """Decode a closed piece in place.

        Raises `IntegerOverflowError` if the matrix must be read in a wider dtype, because a piece cannot be read again.
        """
        work = self.work
        for start, rows in self._row_groups(piece):
            if work.replan is not None:
                work.replan(work.call, rows)
            self.matrix.decode(rows, rows, first + start)

    def _row_groups(self, piece: Array) -> Iterator[tuple[int, Array]]:
        """Yield groups of rows that are encoded at a time, each with its first row; nothing for packed words."""
        if piece.size and self.matrix.storage == "elements":
            step = max(1, _MAPPED // piece.shape[1])
            yield from ((start, piece[start : start + step]) for start in range(0, len(piece), step))


def plan_pieces(call: Call, *, last_round: bool = False) -> PieceWork:
    """Return the plan of a matrix in pieces; ``last_round``: whether a round may follow the last pivot.

    Raises `AlgebraError` if a rule needs the whole matrix, or a wider dtype.
    """
    plan, strips, ending = plan_of(call), call.strips, None
    assert strips is not None
    for _, answer in plan.answers:
        if not isinstance(answer, Rewrite) or (answer.is_rowwise and not answer.is_final):
            continue
        if answer.last_round is None or not last_round:
            raise AlgebraError(
                f"{reason_text(answer.why, call)}: that needs the whole matrix in memory, and this matrix is closed "
                f"by {strips.piece_name} of them; read it and close it in memory, which takes "
                f"{format_bytes(call.A.nbytes)} at least"
            )
        ending = answer.last_round(call)
    d = plan.draft
    if d.dtype != call.kind.dtype:
        raise AlgebraError(
            f"{strips.piece_name} of {call.kind.dtype} cannot hold {d.dtype}: close the matrix in memory"
        )
    if call.explanation is not None:
        plan.explain(call)
    return PieceWork(call, d, plan.outer, d.matrix.bind(call), d.replan, ending)
