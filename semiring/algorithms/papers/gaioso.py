"""Close a matrix by blocked Floyd-Warshall in two phases, by persistent thread blocks.

Source: Gaioso, Jradi, de Paula, Alencar, Martins, do Nascimento, Cáceres, "Paralelização do Algoritmo
Floyd–Warshall usando GPU", WSCAD 2013, doi:10.5753/wscad.2013.16769; algorithm 3, figures 4 to 6. The first phase has a
multiple of the blocks that run at once. Each block closes its own copy of the diagonal tile, which saves a launch, and
then updates its share of the tiles of the row and the column. The second phase has a block for each other tile, 1,024
threads for 32 × 32 entries.

Cost: n³ pairs in 2 ⌈n/32⌉ launches. Workspace: one tile, and a padded copy of the matrix where 32 does not divide n.

Deviations: all copies start from the same unclosed tile, and one block stores the closed tile in the workspace until
the second phase. In the paper that block writes the tile while other blocks may still read it, and a float tile that is
closed twice differs by rounding. With the option ``threads=256``, which the library adds, a block has 256 threads of
four entries, in registers in the second phase.

The method does not close packed bits, nor semirings whose ⊕ is not idempotent or whose star is not 1̄.

``docs/papers.md``, section "Gaioso et al.", compares the results of the paper with measurements, and has a picture.
"""

from __future__ import annotations

from semiring.kernels.engine import Engine
from semiring.namespaces import Array

__all__ = ["gaioso"]


def gaioso(engine: Engine, A: Array, **options: int) -> None:
    """Close A in place, A ← A*, by two launches for each 32 pivots.

    Options: ``threads`` of a block, 1024 or 256, and ``blocks`` of the first phase on each multiprocessor.

    Raises `DeviceError` where the backend has no such kernel, `AlgebraError` for other semirings and packed bits.

    Explained and measured in ``docs/papers.md``, section "Gaioso et al.".
    """
    engine.close_as("gaioso", A, **options)
