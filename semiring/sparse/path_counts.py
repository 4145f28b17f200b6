"""Count the paths of acyclic graphs exactly in integers, for ordinary sums and products whose star divides.

The closure of an acyclic graph needs no star: the sum of the cycles at every pivot is 0̄. So A* is computed with the
star 1̄, which integers have. Sums and products of integers that wrap around are exact modulo 2ᵇ, so a result is exact
if it fits the dtype, whatever its partial sums. A sum of magnitudes over the paths, in float64, shows that it does.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from semiring.algebra import Semiring
from semiring.algebra.catalogue import plus_times
from semiring.errors import DTypeError, IntegerOverflowError
from semiring.kernels.cpu.elimination import elimination_trees
from semiring.kernels.cpu.scalar_semiring import ScalarSemiring
from semiring.kernels.engine import make_plan
from semiring.sparse.edge_inputs import SparseEntries

__all__ = ["check_counts"]

Array = NDArray[Any]

_COLUMNS = 64  # columns of A* whose magnitudes are added up at a time
_ROUNDING = 1e-6  # relative: more than the rounding of the magnitudes


def check_counts(edges: SparseEntries, semiring: Semiring, b: Array | None = None, *, transpose: bool = False) -> None:
    """Raise an error unless A* (n, n), or A* ⊗ b for b (n, k), is exact in the integers of the edges.

    Raises `DTypeError` for a graph with a cycle, and `IntegerOverflowError` for a result that may leave the dtype.
    Cost: a pass over the edges, and one for each column of A* if the first one does not suffice.
    """
    pattern, dtype = edges.pattern, edges.values.dtype
    starts, indices, magnitudes = pattern.starts, pattern.indices, np.abs(edges.values.astype(np.float64))
    order = elimination_trees.topological_order(starts, indices)
    if order.size < pattern.n:
        raise DTypeError(
            f"the star of {semiring.name}, {semiring.star_expression}, does not exist on {dtype}, and A has a cycle, "
            "which needs it: use float64. Only the paths of a graph without cycles are counted in integers"
        )
    if transpose:
        starts, indices, entries = pattern.columns
        magnitudes, order = magnitudes[entries], order[::-1]
    scalars = ScalarSemiring(make_plan(plus_times, np.dtype(np.float64)))
    limit = float(np.iinfo(dtype).max) * (1 - _ROUNDING)

    def largest(X: Array) -> float:
        from semiring.kernels.cpu.elimination import triangular_solve  # it loads the compiler

        triangular_solve.sweep_acyclic(scalars, X, order, starts, indices, magnitudes)
        return float(X.max(initial=0.0))

    if b is not None:
        found = largest(np.abs(b.astype(np.float64)).reshape(pattern.n, -1))
    elif (found := largest(np.ones((pattern.n, 1)))) > limit:  # all paths from a vertex together
        n = pattern.n
        found = max(largest(np.eye(n, min(_COLUMNS, n - start), -start)) for start in range(0, n, _COLUMNS))
    if found > limit:
        raise IntegerOverflowError(
            f"the sums over the paths of A may reach {found:.3g}, and {dtype} ends at {np.iinfo(dtype).max}: use "
            f"{'float64' if dtype.itemsize == 8 else 'int64 or float64'}"
        )
