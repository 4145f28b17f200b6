"""Close a matrix by several ranks, by tiles of a distributed matrix, or by strips of a file.

All ranks plan together, and each rank encodes its own tiles. Scans read the matrix through `TiledMatrix`, so
all ranks get the same results, and raise the same errors. Work on tiles may fail on one rank only, so the ranks agree
on its outcome.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from semiring.algebra import Semiring
from semiring.algorithms.schedule import BLOCKED
from semiring.algorithms.stars import check_star, divergence_error
from semiring.arrays.entries import check_entries
from semiring.arrays.scans import Scan, refuse_unbounded
from semiring.closures.front_ends import close_request
from semiring.closures.pieces import Pieces, plan_pieces
from semiring.closures.problem import Facts, Problem, Strips, is_tropical
from semiring.closures.request import Request
from semiring.distributed.closing import close_tiles
from semiring.distributed.tiled_matrix import TiledMatrix
from semiring.distributed.transports import Communicator, Ranks, Transport, agree
from semiring.errors import DomainError
from semiring.namespaces import Array

__all__ = ["close_distributed", "close_file", "scan_distributed"]


def close_distributed(
    request: Request,
    matrix: TiledMatrix,
    transport: Transport,
    *,
    place: Callable[[Array], Array] = lambda tiles: tiles,
    close: Callable[..., int] = close_tiles,
    progress: Callable[[int, int], None] | None = None,
) -> None:
    """Close a distributed matrix in place, as a collective operation: all ranks call it together.

    Parameters
    ----------
    request
        The semiring and the options.
    matrix
        The distributed matrix, whose tiles are replaced by those of its closure.
    transport
        The connections between the ranks.
    place
        ``place(tiles)`` returns the tiles in the memory in which this rank computes: the same array, or a copy on its
        GPU.
    close
        `close_tiles`, or a function with the same result.
    progress
        A callback ``progress(done, total)``, or None.

    Raises the errors of `closure` for a matrix in strips, the same ones on all ranks. After an error that is found when
    the tiles were already encoded, the tiles are undefined.
    """
    semiring = request.semiring
    check_star(semiring, matrix.dtype)
    tiles: Array = agree(matrix.ranks, lambda: place(matrix.own))
    scan = partial(scan_distributed, matrix, is_closed=True)
    strips = Strips(scan, tiles[:0], piece_name="tiles", whole_name="the matrix")
    options = request.options._replace(method=BLOCKED)
    work = plan_pieces(Problem(Facts(matrix, options, strips=strips, rounded_to=request.rounded_to)))
    pieces = work.pieces_on(tiles, matrix.rows, matrix.columns)
    agree(matrix.ranks, partial(pieces.encode, 0, tiles))
    engine = work.engine()
    vertex = close(engine, transport, matrix.grid, tiles, diverges=engine.plan.may_diverge, progress=progress)
    if vertex >= 0:
        raise divergence_error(semiring, vertex)
    agree(matrix.ranks, partial(_decode_tiles, pieces, matrix.own, tiles))


def close_file(request: Request, ranks: Ranks) -> Any:
    """Close a matrix in a file with a journal, as a collective operation; the result is that of one process.

    The first rank scans the matrix, and begins or continues the run. The other ranks read its journal and join the
    run. Each rank closes its own strips.
    """
    communicator = Communicator(ranks)
    with communicator.follow():
        return close_request(replace(request, communicator=communicator))


def _decode_tiles(pieces: Pieces, own_tiles: Any, tiles: Any) -> None:
    pieces.decode(0, tiles)
    if own_tiles.size and tiles is not own_tiles:
        tiles.get(out=own_tiles)


def scan_distributed(matrix: TiledMatrix, array: Any, semiring: Semiring, *, is_closed: bool = False) -> Scan:
    """Return `check_entries` of all tiles as a collective operation, with the same result on all ranks.

    If the matrix ``is_closed``, the function also refuses edges of unbounded gain.
    """
    scan: Scan | None = agree(matrix.ranks, partial(_scan_own_tiles, matrix, semiring, is_closed))
    scans = [each for each in matrix.ranks.allgather(scan) if each is not None]
    if not scans:
        return check_entries(matrix.own, semiring)
    total: Scan = scans[0]
    for each in scans[1:]:
        total |= each
    return total


def _scan_own_tiles(matrix: TiledMatrix, semiring: Semiring, is_closed: bool) -> Scan | None:
    if not matrix.own.size:
        return None
    try:
        scan = check_entries(matrix.own, semiring)
        if is_closed and is_tropical(semiring):
            refuse_unbounded(matrix.own, scan, semiring)
        return scan
    except DomainError as error:
        row, column = error.position
        raise error.at(int(matrix.rows[row]), int(matrix.columns[column])) from None
