"""Blocked Floyd-Warshall in three phases, with all tiles in shared memory.

Source: G. J. Katz, J. T. Kider, "All-pairs shortest-paths for large graphs on the GPU", Graphics Hardware 2008; after
G. Venkataraman, S. Sahni, S. Mukhopadhyaya, "A blocked all-pairs shortest-paths algorithm", ACM J. Exp. Algorithmics 8
(2003). As Lund and Smith describe it (section 3.2, figure 2): tiles of 32 × 32, three of them in shared memory.

Cost: n³ pairs in 3 ⌈n/32⌉ launches; each entry is read and written n/32 times. Workspace: a padded copy of the matrix
where 32 does not divide n.

What deviates: a thread computes four entries. The authors' code is not at hand. So the kernel does what was usual in
its time: the side of a tile is an argument, and each entry costs a division and a remainder. The variant
``katz_kider_constants`` of `semiring.kernels.cuda.closing.papers.launches` has a constant side and is otherwise the
same: use the faster one as the baseline. In the figure of Lund and Smith loops run to n/s inclusive, and over the
tiles of earlier phases; here they do neither.

What it does not close: semirings whose ⊕ is not idempotent or whose star is not 1̄; packed bits.

Then and now, and a picture: ``docs/papers.md``, section "Lund and Smith".
"""

from __future__ import annotations

from semiring.algorithms.views import Array
from semiring.kernels.engine import Engine

__all__ = ["katz_kider"]


def katz_kider(engine: Engine, A: Array) -> None:
    """Close A in place, A ← A*, by three launches for each 32 pivots.

    Raises `DeviceError` where the backend has no such kernel, `AlgebraError` for other semirings and packed bits.

    Explained and measured in ``docs/papers.md``, section "Lund and Smith".
    """
    engine.close_as("katz_kider", A)
