"""Find best paths by the entries of a factor, with the loops of `semiring.kernels.cpu.elimination.factor_walks`."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from semiring.errors import AlgebraError
from semiring.kernels.contract import KernelPlan
from semiring.kernels.cpu.codegen.scalars import ScalarSemiring
from semiring.kernels.cpu.elimination import elimination_trees
from semiring.kernels.cpu.elimination import factor_walks as kernels
from semiring.kernels.cpu.elimination import fronts as elimination
from semiring.sparse.numeric_factor import PivotError
from semiring.sparse.symbolic_factor import Analysis, FactorLayout

__all__ = ["OpenFactor"]

Array = NDArray[Any]


class OpenFactor:
    """The entries of a factor over earlier pivots, for a selective ⊕ whose stars are 1̄.

    It takes as much memory as the factor.
    """

    def __init__(self, analysis: Analysis, layout: FactorLayout, plan: KernelPlan, values: Array) -> None:
        """Eliminate the matrix with the analysed pattern and ``values``, which are encoded as the kernels hold them."""
        a = self.analysis = analysis
        self.layout, self.plan, self.values = layout, plan, values
        self.sr = ScalarSemiring(plan, closing=True)
        self.memory = np.full(layout.size, plan.zero, plan.dtype)
        elimination.scatter_values(values, layout.slots, self.memory)
        # `lists` holds, for each place, the supernodes whose rows include the place; `ends` delimits them.
        supernodes = elimination_trees.rows_of(a.row_starts, a.rows.size)
        self.ends: Array
        self.ends, order = (
            elimination_trees.compress_rows(a.n, a.rows, supernodes) if a.n else (np.zeros(1, np.int64), supernodes)
        )
        self.lists = supernodes[order]
        *_, need = a.tasks
        stack = np.empty(int(need.max(initial=0)) + int((a.depths[a.parents < 0] ** 2).sum()), plan.dtype)
        space = (plan.zero, np.empty(a.n, np.int32), stack)
        failed = elimination.reduce_open(self.sr, self.memory, a.tree, layout.fronts, *space)
        if failed >= 0:
            raise PivotError(int(failed))
        pivots = [self.memory[block : block + k * k : k + 1] for block, k in zip(layout.blocks, a.pivots, strict=True)]
        stars = plan.semiring.star(np.concatenate([*pivots, np.empty(0, plan.dtype)]))
        if not (stars == plan.one).all():
            raise AlgebraError(
                f"{plan.semiring.name} has loops whose star is not its one, so entries of the closure are not weights "
                "of paths"
            )

    def path(self, source: int, target: int) -> list[int]:
        """Return the vertices of a best path, both ends included, or [] if no path exists."""
        a, layout, plan = self.analysis, self.layout, self.plan
        walk = kernels.find_walk(
            self.sr,
            a.place[source],
            a.place[target],
            a.order,
            a.pattern.starts,
            a.pattern.indices,
            self.values,
            a.supernode_of,
            a.parents,
            a.pivot_starts,
            a.row_starts,
            a.rows,
            self.memory,
            layout.blocks,
            layout.row_panels,
            layout.column_panels,
            layout.symmetric,
            self.ends,
            self.lists,
            plan.zero,
            plan.one,
        )
        if walk.size == 1 and walk[0] < 0:
            raise ValueError(
                "the entries of the factor do not belong to its edges, which were changed: call factor again"
            )
        return [int(vertex) for vertex in walk]
