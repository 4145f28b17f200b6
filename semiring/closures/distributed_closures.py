"""Closures by several ranks, by tiles of a distributed matrix, or by strips of a file.

All ranks plan together, and each rank encodes its own tiles. Scans read the matrix through `DistributedMatrix`, so
all ranks get the same results, and raise the same errors. Work on tiles may fail on one rank only, so the ranks agree
on its outcome.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, TypeAlias

from semiring.algebra import Semiring
from semiring.algorithms.stars import check_star, divergence_error, may_diverge
from semiring.arrays.entries import check_entries
from semiring.arrays.scans import Scan
from semiring.closures.call import Call, Strips
from semiring.closures.front_ends import close_given
from semiring.closures.pieces import Pieces, plan_pieces
from semiring.closures.request import Request
from semiring.distributed.closing import close_tiles
from semiring.distributed.distributed_matrix import DistributedMatrix
from semiring.distributed.transports import Communicator, Ranks, Transport, agree
from semiring.errors import DomainError

__all__ = ["close_distributed", "close_file", "scan_distributed"]

Array: TypeAlias = Any
_METHOD = "blocked_floyd_warshall"


def close_distributed(
    request: Request,
    spread: DistributedMatrix,
    links: Transport,
    *,
    on: Callable[[Array], Array] = lambda own: own,
    close: Callable[..., int] = close_tiles,
    progress: Callable[[int, int], None] | None = None,
) -> None:
    """Close a distributed matrix in place, as a collective operation: all ranks call it together.

    Parameters
    ----------
    request
        The semiring and the options.
    spread
        The distributed matrix, whose tiles are replaced by those of its closure.
    links
        The connections between the ranks.
    on
        ``on(tiles)`` returns the tiles in the memory in which this rank computes: themselves, or a copy on its GPU.
    close
        `close_tiles`, or a function with the same result.
    progress
        A callback ``progress(done, total)``, or None.

    Raises the errors of `closure` for a matrix in strips, the same ones on all ranks. After an error that is found when
    the tiles were already encoded, the tiles are undefined.
    """
    semiring = request.semiring
    check_star(semiring, spread.dtype)
    tiles: Array = agree(spread.ranks, lambda: on(spread.own))
    strips = Strips(partial(scan_distributed, spread), tiles[:0], piece_name="tiles", whole_name="the matrix")
    options = request.options._replace(method=_METHOD)
    work = plan_pieces(Call.from_array(spread, options, strips=strips, rounded_to=request.rounded_to))
    pieces = work.pieces_on(tiles, spread.rows, spread.columns)
    agree(spread.ranks, partial(pieces.encode, 0, tiles))
    engine = work.method().engine()
    vertex = close(engine, links, spread.grid, tiles, diverges=may_diverge(engine.plan), progress=progress)
    if vertex >= 0:
        raise divergence_error(semiring, vertex)
    agree(spread.ranks, partial(_undo, pieces, spread.own, tiles))


def close_file(request: Request, ranks: Ranks) -> Any:
    """Close a matrix in a file with a journal, as a collective operation; the result is that of one process.

    The first rank scans the matrix, and begins or continues the run. The other ranks read its journal and join the
    run. Each rank closes its own strips.
    """
    communicator = Communicator(ranks)
    with communicator.follow():
        return close_given(replace(request, communicator=communicator))


def _undo(pieces: Pieces, own: Array, tiles: Array) -> None:
    pieces.decode(0, tiles)
    if own.size and tiles is not own:
        tiles.get(out=own)


def scan_distributed(spread: DistributedMatrix, array: Any, semiring: Semiring) -> Scan:
    """Return `check_entries` of all tiles as a collective operation, with the same result on all ranks."""
    scan: Scan | None = agree(spread.ranks, partial(_own_scan, spread, semiring))
    scans = [each for each in spread.ranks.allgather(scan) if each is not None]
    if not scans:
        return check_entries(spread.own, semiring)
    whole: Scan = scans[0]
    for each in scans[1:]:
        whole |= each
    return whole


def _own_scan(spread: DistributedMatrix, semiring: Semiring) -> Scan | None:
    try:
        return check_entries(spread.own, semiring) if spread.own.size else None
    except DomainError as error:
        row, column = error.position
        raise error.at(int(spread.rows[row]), int(spread.columns[column])) from None
