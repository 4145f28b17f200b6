"""Ranks that are processes of MPI, through mpi4py."""

from __future__ import annotations

import os
import sys
from typing import Any, TypeAlias

from semiring.errors import MissingExtraError

__all__ = ["MpiRanks", "load_mpi"]

Array: TypeAlias = Any


def load_mpi() -> Any:
    """The module ``mpi4py.MPI``. Raises `MissingExtraError` where it is not installed."""
    try:
        from mpi4py import MPI
    except ImportError as error:
        raise MissingExtraError("mpi4py", "mpi", "computing on several ranks") from error
    return MPI


class MpiRanks:
    """`semiring.ranks.links.Ranks` of a communicator.

    Arrays travel in elements of their own width, for a count of MPI's has 31 bits.
    """

    def __init__(self, comm: Any) -> None:
        self.comm, self.rank, self.size = comm, int(comm.rank), int(comm.size)

    def allgather(self, value: Any) -> list[Any]:
        found: list[Any] = self.comm.allgather(value)
        return found

    def exchange(self, values: list[Any]) -> list[Any]:
        found: list[Any] = self.comm.alltoall(values)
        return found

    def broadcast(self, array: Array, root: int) -> None:
        self.comm.Bcast(array.view(f"u{array.itemsize}"), root)

    def join(self, octets: Array) -> None:
        mpi = load_mpi()
        self.comm.Allreduce(mpi.IN_PLACE, [octets, mpi.BYTE], mpi.BOR)

    def split(self, group: int, order: int) -> MpiRanks:
        return MpiRanks(self.comm.Split(group, order))

    def free(self) -> None:
        """Give back what MPI keeps of the communicator; all ranks together."""
        self.comm.Free()

    def stop(self, error: BaseException) -> None:
        if self.size == 1:
            return
        if isinstance(error, SystemExit | KeyboardInterrupt):
            text = "interrupted"
        else:
            text = " ".join(str(error).split()) or type(error).__name__
        print(f"semiring: error: rank {self.rank} of {self.size}: {text}", file=sys.stderr, flush=True)
        self.comm.Abort(1)
        os._exit(1)  # where MPI only asks
