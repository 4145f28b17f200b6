"""Detect from the environment whether mpiexec started this process as one of several."""

from __future__ import annotations

import os

__all__ = ["is_first", "is_under_mpiexec"]

# The variables of Open MPI, and of MPICH and its derivatives, such as Intel MPI.
_SIZES, _RANKS = ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE"), ("OMPI_COMM_WORLD_RANK", "PMI_RANK")


def is_under_mpiexec() -> bool:
    """Return whether mpiexec started several processes."""
    return any(os.environ.get(name, "").isdecimal() and int(os.environ[name]) > 1 for name in _SIZES)


def is_first() -> bool:
    """Return whether this process has rank 0, or is the only one."""
    return not is_under_mpiexec() or any(os.environ.get(name) == "0" for name in _RANKS)
