"""The compiled loops of sparse factors, and what they take in the place of a plan: see `numpy_loops`."""

from __future__ import annotations

from typing import Any

from semiring.kernels.contract import KernelPlan
from semiring.kernels.cpu.elimination.fronts import extend, reduce_front, reduce_open, reduce_subtree, scatter_values
from semiring.kernels.cpu.elimination.gathered_rows import folds_for
from semiring.kernels.cpu.elimination.hub_labels import climb, find_lowest_common, join_labels
from semiring.kernels.cpu.elimination.triangular_solve import (
    add_joined_labels,
    ascend,
    compute_labels,
    descend,
    gather_columns,
    scatter_rows,
    set_unit_vectors,
    solve_vectors,
    worst_of_rows,
)
from semiring.kernels.cpu.scalar_semiring import ScalarSemiring

__all__ = [
    "add_joined_labels",
    "ascend",
    "climb",
    "compute_labels",
    "descend",
    "extend",
    "find_lowest_common",
    "gather_columns",
    "join_labels",
    "operands",
    "reduce_front",
    "reduce_open",
    "reduce_subtree",
    "scatter_rows",
    "scatter_values",
    "set_unit_vectors",
    "solve_vectors",
    "worst_of_rows",
]


def operands(plan: KernelPlan, rows: int, **options: bool) -> tuple[Any, ...]:
    """Return the semiring, the native functions c ⊕ factor ⊗ x and c ⊕ x ⊗ factor, and the indices of rows.

    ``options`` are those of `ScalarSemiring`. The indices are an array, which the caller keeps while loops run.
    """
    folds = folds_for(plan, rows)
    return ScalarSemiring(plan, **options), folds.left, folds.right, folds.ordinals
