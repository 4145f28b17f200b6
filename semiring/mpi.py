"""Compute closures, products and paths of matrices larger than a machine, by MPI processes that hold tiles.

All functions are collective: all ranks of a communicator call them together. The arguments are the same on all ranks,
except the input or output of a single rank. ``mpiexec -n 4 python -m mpi4py program.py`` starts four ranks. A matrix
larger than one rank's memory is read from a file (`read`), or from the rows that each rank makes (`from_rows`)::

    from semiring import mpi
    A = mpi.read("big.npy")
    mpi.closure(A, out=A).write("closed.npy")

Results are bitwise identical to those of ``closure(A, method="blocked_floyd_warshall")`` in one process, for any number
of ranks and threads. An error in the entries is raised on all ranks. An error of one rank is raised on all ranks if
they can still agree on it. If the other ranks already wait for a message of this rank, the rank prints its error as one
line on standard error and ends all ranks.

Install with ``pip install '.[mpi]'`` in a clone of the repository. Source and cost: `semiring.distributed.closing`.
"""

from __future__ import annotations

from semiring.distributed.matrix_functions import (
    DistributedMatrix,
    DistributedPaths,
    best_paths,
    closure,
    distribute,
    from_rows,
    matmul,
    read,
    shortest_paths,
    together,
)

__all__ = [
    "DistributedMatrix",
    "DistributedPaths",
    "best_paths",
    "closure",
    "distribute",
    "from_rows",
    "matmul",
    "read",
    "shortest_paths",
    "together",
]
