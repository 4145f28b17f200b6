"""Close by ranks that are threads of this process, with the small blocks that tests use."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

import semiring as sr
from semiring.algorithms import schedule
from semiring.closures.distributed_closures import close_distributed
from semiring.closures.problem import Options
from semiring.closures.request import Request
from semiring.distributed.grid import Grid, grid_shape
from semiring.distributed.tiled_matrix import TiledMatrix, collect_rows, distribute_rows, split_rows
from semiring.distributed.transports import Groups, HostTransport, run_ranks

METHOD = "blocked_floyd_warshall"


def make_small(patch, width=32):
    """Use blocks of 32 pivots."""
    for name in ("cpu", "reference"):
        patch.setitem(schedule._TABLE, name, replace(schedule._TABLE[name], pivots=((0, width),)))


def blocks(n, dtype):
    return tuple(schedule.schedule_for("cpu", np.dtype(dtype)).blocks(n))


def spread_of(ranks, A, shape=None):
    """Return A, dealt out from consecutive rows of each rank."""
    grid, held = Grid(blocks(len(A), A.dtype), shape or grid_shape(ranks.size)), split_rows(len(A), ranks.size)
    return TiledMatrix(ranks, grid, distribute_rows(ranks, grid, held, A[slice(*held[ranks.rank])], A.dtype))


def closed_by(size, A, semiring, shape=None):
    """Return the closure by a number of ranks."""

    def run(ranks):
        spread = spread_of(ranks, A, shape)
        request = Request(None, Options(sr.as_semiring(semiring)))
        close_distributed(request, spread, HostTransport(Groups(ranks, spread.grid)))
        return collect_rows(ranks, spread.grid, [(0, len(A))] + [(0, 0)] * (size - 1), spread.own)

    return run_ranks(size, run)[0]
