"""Close a matrix by blocked Floyd-Warshall in three phases, with all tiles in shared memory.

Source: G. J. Katz, J. T. Kider, "All-pairs shortest-paths for large graphs on the GPU", Graphics Hardware 2008; after
G. Venkataraman, S. Sahni, S. Mukhopadhyaya, "A blocked all-pairs shortest-paths algorithm", ACM J. Exp. Algorithmics 8
(2003). The code follows the description of Lund and Smith (section 3.2, figure 2), with tiles of 32 × 32, three of them
in shared memory.

Cost: n³ pairs in 3 ⌈n/32⌉ launches; each entry is read and written n/32 times. Workspace: a padded copy of the matrix
where 32 does not divide n.

Deviations: a thread computes four entries. The code of the authors is not available. So the kernel has the usual form
of its time: the side of a tile is an argument, and each entry costs a division and a remainder. With the option
``constants`` the side is a constant, and with ``threads=1024`` a thread has one entry, as in the comparison of Gaioso
et al. Use the fastest variant as the baseline. In the figure of Lund and Smith loops run to n/s inclusive, and over the
tiles of earlier phases. Here they do neither.

The method does not close packed bits, nor semirings whose ⊕ is not idempotent or whose star is not 1̄.

``docs/papers.md``, section "Lund and Smith", compares the results of the paper with measurements, and has a picture.
"""

from __future__ import annotations

from semiring.kernels.engine import Engine
from semiring.namespaces import Array

__all__ = ["katz_kider"]


def katz_kider(engine: Engine, A: Array, **options: int) -> None:
    """Close A in place, A ← A*, by three launches for each 32 pivots.

    The option ``constants`` makes the side of a tile a constant. ``threads`` of a block are 256 or 1024.

    Raises `DeviceError` where the backend has no such kernel, `AlgebraError` for other semirings and packed bits.

    Explained and measured in ``docs/papers.md``, section "Lund and Smith".
    """
    engine.close_as("katz_kider", A, **options)
