"""Close a matrix by Floyd-Warshall with its rows distributed over threads, ranks or thread blocks.

Source: D. Bertoldi, "Parallelization of the Floyd-Warshall algorithm", report, University of Milano-Bicocca, June
2020 or later.

- `row_broadcast`, algorithms 2, 6 and 7 (sections 3.2, 3.5 and 3.6): each rank has some rows, and the row of every
  pivot is broadcast. With one thread for each rank it is algorithm 2 (MPI), with several threads algorithm 6 (MPI and
  OpenMP), on GPUs algorithm 7 (MPI and CUDA). They differ only in the engine that computes C ← C ⊕ A_RK ⊗ A_K for one
  k. In one process there is one rank. `semiring.mpi.closure` and the command under ``mpiexec`` have several.
- `bertoldi_openmp`, algorithm 3 (section 3.3): all threads share a copy of the pivot row, and take rows one at a time
  (``schedule(dynamic)``). `bertoldi_openmp_static` gives each thread an equal number of adjacent rows
  (``schedule(static)``).
- `bertoldi_cuda_shared`, algorithm 4, and `bertoldi_cuda`, algorithm 5 (section 3.4): thread blocks one row high,
  which read A[i, k] into shared memory or not.

Cost: n³ pairs, of which each rank or thread has its share. The matrix is read and written n times. There are n
broadcasts or barriers, for which all ranks or threads wait. A GPU takes n launches. Workspace: a row for each rank, and
a column.

Deviations: a rank updates its rows by a product with one pivot, in place of the row loops of algorithms 2 and 6 and of
the kernel of algorithm 7. The comparison ``M_ij < M_ik + K_j`` of the paper has the wrong direction in algorithms 2 to
6. Here ⊕ compares. In algorithm 3 threads may read the copy of the pivot row before the master has made it, because
``omp master`` ends without a barrier. Here the threads wait. The library's threads take the rows, in place of OpenMP's.
The loop serves every semiring with a star, because it multiplies the pivot row by the star of the pivot. On a GPU row k
and column k are not written, because they would keep their values.

The methods do not close packed bits. All except the OpenMP loops do not close semirings whose ⊕ is not idempotent or
whose star is not 1̄.

``docs/papers.md``, section "Bertoldi", compares the results of the paper with measurements, and has a picture.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from semiring.advice import option
from semiring.algorithms.stars import vertex_without_star
from semiring.errors import AlgebraError
from semiring.kernels.contract import KernelPlan
from semiring.kernels.definition import has_unit_star
from semiring.kernels.engine import Engine
from semiring.namespaces import Array, array_namespace

__all__ = [
    *("bertoldi_cuda", "bertoldi_cuda_shared", "bertoldi_openmp", "bertoldi_openmp_static"),
    *("close_rows", "row_broadcast"),
]

_REST = 3  # the lane of work that is not urgent: see `semiring.distributed.transports`


def bertoldi_openmp(engine: Engine, A: Array, **options: bool) -> None:
    """Close A in place, A ← A*, by threads that take one row at a time of every pivot.

    With the option ``copied_row=False`` the threads read the row of the pivot in A, not a copy of it.

    Raises `DeviceError` where the backend has no such loop, `AlgebraError` for packed bits.

    Explained and measured in ``docs/papers.md``, section "Bertoldi".
    """
    engine.close_as("bertoldi_openmp", A, **options)


def bertoldi_openmp_static(engine: Engine, A: Array, **options: bool) -> None:
    """Close A in place, A ← A*, as `bertoldi_openmp` does, with an equal share of adjacent rows for each thread.

    The option is that of `bertoldi_openmp`.

    Explained and measured in ``docs/papers.md``, section "Bertoldi".
    """
    engine.close_as("bertoldi_openmp_static", A, **options)


def bertoldi_cuda_shared(engine: Engine, A: Array, **options: int) -> None:
    """Close A in place, A ← A*, by thread blocks one row high that read A[i, k] into shared memory.

    The option ``threads`` is the number of threads of a block (table 5).

    Raises `DeviceError` where the backend has no such kernel, `AlgebraError` for other semirings and packed bits.

    Explained and measured in ``docs/papers.md``, section "Bertoldi".
    """
    engine.close_as("bertoldi_cuda_shared", A, **options)


def bertoldi_cuda(engine: Engine, A: Array, **options: int) -> None:
    """Close A in place, A ← A*, by thread blocks one row high in which every thread reads A[i, k].

    It has the options and raises the errors of `bertoldi_cuda_shared`.

    Explained and measured in ``docs/papers.md``, section "Bertoldi".
    """
    engine.close_as("bertoldi_cuda", A, **options)


def row_broadcast(engine: Engine, A: Array) -> None:
    """Close A in place, A ← A*, by the algorithm of ranks with a single rank.

    If a cycle has no star, ``plan.status.diverged`` is set to one of its vertices, unless the engine must not wait for
    its device. Raises `AlgebraError` if ⊕ is not idempotent, if a star may differ from 1̄, and for packed bits.

    Explained and measured in ``docs/papers.md``, section "Bertoldi".
    """
    plan = engine.plan
    if plan.storage == "bits":
        raise AlgebraError("row_broadcast takes one pivot at a time, and packed bits hold 32: use rkleene")
    close_rows(engine, _OneRank(), _OneSlab(A.shape[0]), A, diverges=False)
    if engine.may_synchronize and plan.may_diverge:
        plan.status.diverged = vertex_without_star(plan, A)


def close_rows(
    engine: Engine,
    links: Any,
    grid: Any,
    A: Array,
    *,
    diverges: bool = True,
    progress: Callable[[int, int], None] | None = None,
) -> int:
    """Compute the rows of the closure that belong to this rank, in place, as `close_tiles` of `distributed` does.

    ``links`` and ``grid`` are the `Transport` and the `Grid` of `semiring.distributed`; the grid has one column. The
    result is -1. Raises `AlgebraError` if ⊕ is not idempotent, or a pivot may have no star or a star other than 1̄.
    """
    plan, n = engine.plan, grid.n
    if diverges or not _needs_no_star(plan):
        raise _star_error(plan, isinstance(links, _OneRank), array_namespace(A) is np)
    rows, xp = grid.rows(links.rank), array_namespace(A)
    pivot, column = xp.empty((1, n), A.dtype), xp.empty((len(A), 1), A.dtype)
    numbers = xp.arange(len(A))
    loops = (numbers, xp.asarray(rows.vertices))
    A[loops] = plan.semiring.add(A[loops], plan.dtype.type(plan.one))
    with links.lanes(engine) as lanes:
        for p, block in enumerate(grid.blocks):
            for k in range(*block):

                def relax(lane: Engine, k: int = k, p: int = p) -> None:
                    low, high = rows.held_range((k, k + 1))
                    if low < high:
                        pivot[...] = A[low:high]
                    links.broadcast(pivot, p, "column")
                    if len(A):
                        column[...] = A[:, k : k + 1]
                        lane.multiply_add(A, column, pivot)

                lanes.run(_REST, relax)
            if progress is not None:
                progress(block[1] * n**2, n**3)
    return -1


def _needs_no_star(plan: KernelPlan) -> bool:
    return plan.semiring.idempotent and has_unit_star(plan.semiring, plan.dtype)


def _star_error(plan: KernelPlan, is_one_rank: bool, is_on_host: bool) -> AlgebraError:
    """Return the error for pivots that may need a star, which names the methods that close such matrices."""
    name = plan.semiring.name
    if _needs_no_star(plan):
        reason = f"row_broadcast needs pivots without a star, and the weights in {name} may need one"
    else:
        closed = "semirings with an idempotent ⊕ whose star is 1̄ wherever it exists"
        reason = f"row_broadcast closes {closed}, which {name} is not"
    methods = ["rkleene", *(["bertoldi_openmp"] if is_on_host else [])] if is_one_rank else ["blocked_floyd_warshall"]
    return AlgebraError(f"{reason}: pass {' or '.join(option('method', method) for method in methods)}")


class _OneSlab:
    """The `Grid` of a single rank, which has all n rows."""

    def __init__(self, n: int) -> None:
        self.n, self.blocks, self.vertices = n, [(0, n)], np.arange(n)

    def rows(self, rank: int) -> _OneSlab:
        return self

    def held_range(self, vertices: tuple[int, int]) -> tuple[int, int]:
        return vertices


class _OneRank:
    """The `Transport` of a single rank, which sends nothing."""

    rank = 0

    def broadcast(self, array: Array, root: int, group: str) -> None: ...

    @contextmanager
    def lanes(self, engine: Engine) -> Iterator[_OneLane]:
        yield _OneLane(engine)


class _OneLane:
    """The lanes of a single rank, which run each task at once."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def run(self, number: int, task: Callable[[Engine], None]) -> None:
        task(self._engine)
