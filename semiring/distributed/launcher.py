"""Whether this process is one of several that were started together, told by what mpiexec leaves in the environment."""

from __future__ import annotations

import os

__all__ = ["is_first", "launched"]

# Open MPI; MPICH and what is made of it, Intel MPI among them.
_SIZES, _RANKS = ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE"), ("OMPI_COMM_WORLD_RANK", "PMI_RANK")


def launched() -> bool:
    """Whether there are several."""
    return any(os.environ.get(name, "").isdecimal() and int(os.environ[name]) > 1 for name in _SIZES)


def is_first() -> bool:
    """Whether this is the one of them that speaks, or there are no others."""
    return not launched() or any(os.environ.get(name) == "0" for name in _RANKS)
