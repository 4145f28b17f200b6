"""A matrix closed by several ranks, by tiles of it, or by strips of a file.

Tiles are planned by all ranks together, and each maps its own. What looks at the matrix reads it through `Spread`, so
all ranks find the same, and raise the same. What is done to tiles may fail on one rank alone, and is agreed upon.
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
from semiring.closures.pieces import Pieces, planned
from semiring.closures.request import Request
from semiring.distributed.closing import close_tiles
from semiring.distributed.distributed_matrix import Spread
from semiring.distributed.transports import Links, Ranks, Team, agreed
from semiring.errors import DomainError

__all__ = ["close_file", "close_spread", "looked_at"]

Array: TypeAlias = Any
_METHOD = "blocked_floyd_warshall"


def close_spread(
    request: Request,
    spread: Spread,
    links: Links,
    *,
    on: Callable[[Array], Array] = lambda own: own,
    close: Callable[..., int] = close_tiles,
    progress: Callable[[int, int], None] | None = None,
) -> None:
    """The tiles of ``spread`` ← those of its closure. All ranks call it together.

    ``on(tiles)``: the tiles where this rank computes: themselves, or a copy on its GPU. ``close``: `close_tiles`, or
    what does the same. Raises what `closure` does for a matrix in strips, on all ranks alike; the tiles are undefined
    then if that was found after they were mapped.
    """
    semiring = request.semiring
    check_star(semiring, spread.dtype)
    there: Array = agreed(spread.ranks, lambda: on(spread.own))
    strips = Strips(partial(looked_at, spread), there[:0], called="tiles", whole="the matrix")
    options = request.options._replace(method=_METHOD)
    work = planned(Call.of(spread, options, strips=strips, rounded_to=request.rounded_to))
    pieces = work.on(there, spread.rows, spread.columns)
    agreed(spread.ranks, partial(pieces.encode, 0, there))
    engine = work.method().engine()
    found = close(engine, links, spread.grid, there, diverges=may_diverge(engine.plan), progress=progress)
    if found >= 0:
        raise divergence_error(semiring, found)
    agreed(spread.ranks, partial(_undo, pieces, spread.own, there))


def close_file(request: Request, ranks: Ranks) -> Any:
    """The closure of a matrix in a file, with a journal, as one process makes it; all ranks call it together.

    The first looks at the matrix and begins the run, or goes on with it. The others go on with what it has begun, as
    the journal says, and each takes its own strips.
    """
    team = Team(ranks)
    with team.followed():
        return close_given(replace(request, team=team))


def _undo(pieces: Pieces, own: Array, there: Array) -> None:
    pieces.decode(0, there)
    if own.size and there is not own:
        there.get(out=own)


def looked_at(spread: Spread, array: Any, semiring: Semiring) -> Scan:
    """`check_entries` of all tiles, the same on all ranks."""
    scan: Scan | None = agreed(spread.ranks, partial(_own_scan, spread, semiring))
    found = [each for each in spread.ranks.allgather(scan) if each is not None]
    if not found:
        return check_entries(spread.own, semiring)
    whole: Scan = found[0]
    for each in found[1:]:
        whole |= each
    return whole


def _own_scan(spread: Spread, semiring: Semiring) -> Scan | None:
    try:
        return check_entries(spread.own, semiring) if spread.own.size else None
    except DomainError as error:
        row, column = error.position
        raise error.at(int(spread.rows[row]), int(spread.columns[column])) from None
