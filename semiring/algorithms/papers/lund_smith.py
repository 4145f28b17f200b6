"""Close a matrix by blocked Floyd-Warshall with fewer instructions, with tiles in registers and panels in slices.

Source: B. Lund, J. W. Smith, "A multi-stage CUDA kernel for Floyd-Warshall", arXiv:1001.4108 (2010). The paper
improves on Katz and Kider in three steps, each of which is a method:

- `lund_smith_unrolled`, section 4 ("optimized and blocked"): shifts in place of divisions, loops unrolled.
- `lund_smith_registers`, section 4.1, figure 3: the doubly dependent tile in registers, which alone is not faster.
- `lund_smith`, sections 4.2 and 4.3, figures 4 to 6 ("staged load"): panels in slices of four pivots. It has 64 threads
  of 16 entries, the doubly tiled order of the matrix, and the cyclic order of pivots.

Cost: n³ pairs in 3 ⌈n/32⌉ launches, and 2 more with staged load. Workspace: a padded copy of the matrix where 32 does
not divide n; with staged load a copy in the tiled order.

Deviations: figure 2 of the paper runs its loops to n/s inclusive, and over the tiles of earlier phases. Here they do
neither. The first two phases, of which the paper says little, have the same instructions for each entry in all three
methods. `staged` is the library's successor of these methods.

The machine code of the options of `lund_smith` was compared for sm_90a. Counts are for a pair in float32 min-plus.
Staged load as first compiled here (``reread``) read shared memory 1.1 times and took one minimum. It had 128 registers,
so that a multiprocessor held a quarter of its threads. `lund_smith` reads the rows that two tiles share once, with 0.6
reads and 48 registers. The unrolled kernel has 0.5 reads and 0.5 minima, because the compiler merges two pivots into
one 3-input minimum. ``paired`` merges pivots in staged load. ``wide`` reads four elements at a time (0.1 reads).
``slice=16`` and ``asynchronous`` have fewer barriers. ``cyclic=False`` takes the pivots in their order, the middle of
figure 6.

The methods do not close packed bits, nor semirings whose ⊕ is not idempotent or whose star is not 1̄.

``docs/papers.md``, section "Lund and Smith", compares the results of the paper with measurements, and has a picture.
"""

from __future__ import annotations

from semiring.kernels.engine import Engine
from semiring.namespaces import Array

__all__ = ["lund_smith", "lund_smith_registers", "lund_smith_unrolled"]


def lund_smith_unrolled(engine: Engine, A: Array) -> None:
    """Close A in place, A ← A*, by three launches for each 32 pivots, with unrolled loops.

    Raises `DeviceError` where the backend has no such kernel, `AlgebraError` for other semirings and packed bits.

    Explained and measured in ``docs/papers.md``, section "Lund and Smith".
    """
    engine.close_as("lund_smith_unrolled", A)


def lund_smith_registers(engine: Engine, A: Array, **options: int) -> None:
    """Close A in place, A ← A*, as `lund_smith_unrolled` does, with the doubly dependent tile in registers.

    The option ``staged`` loads panels in slices of four pivots, as `lund_smith` does, in the order of rows. With
    ``cyclic`` each thread then begins with another pivot.

    Explained and measured in ``docs/papers.md``, section "Lund and Smith".
    """
    engine.close_as("lund_smith_registers", A, **options)


def lund_smith(engine: Engine, A: Array, **options: int) -> None:
    """Close A in place, A ← A*, by staged load: tiles in registers, panels in slices, cyclic order.

    The options ``slice`` (pivots), ``asynchronous``, ``wide``, ``paired``, ``reread`` and ``cyclic`` are those of the
    machine code above. Raises the same errors as `lund_smith_unrolled`.

    Explained and measured in ``docs/papers.md``, section "Lund and Smith".
    """
    engine.close_as("lund_smith", A, **options)
