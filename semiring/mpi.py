"""Matrices larger than a machine: closures, products and paths by several processes of MPI, each of which holds tiles.

Every function here is called by all ranks of a communicator together, with the same arguments, but for what one rank
alone gives or gets. ``mpiexec -n 4 python -m mpi4py program.py`` starts four; a matrix larger than one rank's memory
comes from a file (`read`) or from the rows that each rank makes (`from_rows`)::

    from semiring import mpi
    A = mpi.read("big.npy")
    mpi.closure(A, out=A).write("closed.npy")

Results have the bits of ``closure(A, method="blocked_floyd_warshall")`` in one process, for any number of ranks and of
their threads. What is wrong with the entries is raised on all ranks alike, and an error of one rank too, where the
others can be told; where they wait for what will not come, it ends all ranks with one line.

Install with ``pip install '.[mpi]'`` in a clone of the repository. Source and cost: `semiring.distributed.closing`.
"""

from __future__ import annotations

from semiring.deprecated import renamed
from semiring.distributed.functions import (
    DistributedPaths,
    Matrix,
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
    "DistributedPaths",
    "Matrix",
    "best_paths",
    "closure",
    "distribute",
    "from_rows",
    "matmul",
    "read",
    "shortest_paths",
    "together",
]

__getattr__ = renamed(__name__, {"Paths": "DistributedPaths"})
