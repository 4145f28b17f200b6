"""Plan the closure of a matrix in pieces (strips or tiles), whose encoding is applied to one piece at a time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from semiring.algorithms.methods import check_method, method_named
from semiring.closures.choose import whole_matrix_error
from semiring.closures.encodings import is_near_no_path, wider_integers
from semiring.closures.matrix import EncodedMatrix
from semiring.closures.problem import Problem
from semiring.closures.run import Kernels
from semiring.errors import AlgebraError
from semiring.kernels.engine import Engine
from semiring.namespaces import Array
from semiring.out_of_core.last_round import LastRound

__all__ = ["PieceWork", "Pieces", "plan_pieces"]


_MAPPED = 1 << 21  # entries that are encoded at a time: on a GPU maps make some copies of them


class PieceWork(NamedTuple):
    """A problem in pieces, as it is encoded, with the results of all scans."""

    problem: Problem
    matrix: EncodedMatrix  # the encoding in which the pieces are closed, whose inverse gives the operand's
    last_round: LastRound | None = None

    def pieces_on(self, sample: Array, *vertices: Any) -> Pieces:
        """Return the encoding for pieces on the device of ``sample``; ``vertices``: the indices of rows and columns."""
        return Pieces(self, self.matrix.relative_to(self.problem.outer).restrict(sample, *vertices))

    def engine(self) -> Engine:
        """Return an engine for the pieces."""
        return self.kernels().engine()

    def kernels(self) -> Kernels:
        """Return the kernels that close the pieces."""
        method = method_named(self.problem.options.method)
        check_method(method.name, self.problem.backend, self.matrix.storage)
        return Kernels(self.problem, method)


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
            p = work.problem
            if p.largest is not None and is_near_no_path(p.largest, rows):
                wider_integers(p, p.dtype, result=rows)  # raises
            self.matrix.decode(rows, rows, first + start)

    def _row_groups(self, piece: Array) -> Iterator[tuple[int, Array]]:
        """Yield groups of rows that are encoded at a time, each with its first row; nothing for packed words."""
        if piece.size and self.matrix.storage == "elements":
            step = max(1, _MAPPED // piece.shape[1])
            yield from ((start, piece[start : start + step]) for start in range(0, len(piece), step))


def plan_pieces(p: Problem, *, last_round: bool = False) -> PieceWork:
    """Return a problem in pieces as it is encoded; ``last_round``: whether a round may follow the last pivot.

    Raises the errors of `choose`, and `AlgebraError` if an encoding needs the whole matrix, or a wider dtype.
    """
    facts, choice, ending = p.facts, p.choose(), None
    q, strips = choice.problem, facts.strips
    assert strips is not None
    if p.plus and not p.semiring.idempotent:
        raise whole_matrix_error(
            facts, f"⊕ of {p.semiring.name} is not idempotent: A⁺ = A ⊗ A*, and A is kept until then"
        )
    if q.dtype != facts.dtype:
        raise AlgebraError(f"{strips.piece_name} of {facts.dtype} cannot hold {q.dtype}: close the matrix in memory")
    matrix = q.bound_matrix
    if p.plus:
        if not last_round:
            raise whole_matrix_error(facts, "A⁺ differs from A* on the diagonal alone")
        ending = LastRound(matrix.diagonal(facts.A))
    if p.explanation is not None:
        p.explanation.add_choice(choice)
    return PieceWork(q, matrix, ending)
