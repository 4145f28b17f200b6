"""Close a matrix by Floyd-Warshall with a thread for each cell of the matrix.

Source: P. Harish, P. J. Narayanan, "Accelerating large graph algorithms on the GPU using CUDA", HiPC 2007,
doi:10.1007/978-3-540-77220-0_21. The code follows the descriptions of Lund and Smith (section 3.1), and of Gaioso and
others (algorithm 2, blocks of 16 × 16).

Cost: n³ pairs in n launches, each of which reads and writes the whole matrix: 16 bytes for each pair of float32.
Workspace: none.

Deviations: row k and column k are not written when k is the pivot, because they would keep their values. So no thread
reads an entry that another thread writes, and every run gives the same result.

The method does not close packed bits, nor semirings whose ⊕ is not idempotent or whose star is not 1̄.

``docs/papers.md``, section "Lund and Smith", compares the results of the paper with measurements, and has a picture.
"""

from __future__ import annotations

from semiring.kernels.engine import Engine
from semiring.namespaces import Array

__all__ = ["harish_narayanan"]


def harish_narayanan(engine: Engine, A: Array) -> None:
    """Close A in place, A ← A*, by a launch for each pivot and a thread for each cell.

    Raises `DeviceError` where the backend has no such kernel, `AlgebraError` for other semirings and packed bits.

    Explained and measured in ``docs/papers.md``, section "Lund and Smith".
    """
    engine.close_as("harish_narayanan", A)
