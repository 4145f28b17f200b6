"""State how `factor` eliminated a matrix, for ``explain=True``: ordering, fill, supernodes and work."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from semiring.arrays.memory import format_bytes

__all__ = ["FactorExplanation"]


@dataclass(frozen=True)
class FactorExplanation:
    """How `factor` eliminated a matrix. ``str`` returns a summary of five or six lines.

    The parameters are also its attributes.

    Parameters
    ----------
    semiring : str
        The name of the semiring.
    n, edges : int
        The numbers of vertices and of edges.
    dtype : numpy.dtype
        The dtype of the matrix.
    ordering : str
        The name of the method that computed the elimination order.
    symmetric : bool
        Whether the factor has one triangle, because A equals its transpose and ⊗ commutes.
    nnz : int
        The number of entries of the factor.
    supernodes : int
        The number of groups of vertices that are eliminated together.
    largest_front : int
        The number of rows of the largest dense front.
    operations : int
        The number of pairs of one ⊗ and one ⊕ in the elimination.
    memory : int
        The bytes of the factor and of its structure.
    work_dtype : numpy.dtype
        The dtype in which the factor is computed and stored.
    potentials : {"", "float64", "exact"}
        The arithmetic of the potentials under which weights of both signs are eliminated. It is empty without
        potentials.
    threads : int
        The number of threads on a CPU.
    device : str
        ``"cpu"`` or ``"cuda"``.
    """

    semiring: str
    n: int
    edges: int
    dtype: np.dtype[Any]
    ordering: str
    symmetric: bool
    nnz: int
    supernodes: int
    largest_front: int
    operations: int
    memory: int
    work_dtype: np.dtype[Any]
    potentials: str
    threads: int
    device: str

    @property
    def fill(self) -> float:
        """The entries of the factor for each edge of the matrix, 0 without edges."""
        return self.nnz / self.edges if self.edges else 0.0

    def __str__(self) -> str:
        threads = f" with {self.threads} thread{'s' * (self.threads > 1)}" if self.device == "cpu" else ""
        triangles = "one triangle, because A is symmetric" if self.symmetric else "two triangles"
        potentials = [f"  weights  of both signs, under {self.potentials} potentials"] if self.potentials else []
        groups = f"{self.supernodes:,} supernode{'s' * (self.supernodes != 1)}"
        rows = f"{self.largest_front:,} row{'s' * (self.largest_front != 1)}"
        return "\n".join(
            [
                f"factor of {self.n:,} vertices and {self.edges:,} edges in {self.semiring}, {self.dtype}",
                f"  order    {self.ordering.replace('_', ' ')}, {groups}, the largest front has {rows}",
                f"  fill     {self.nnz:,} entries, {self.fill:.2g} for each edge, in {triangles}",
                *potentials,
                f"  method   elimination in {self.work_dtype}, on {self.device}{threads}",
                f"  cost     {self.operations:,} pairs of ⊗ and ⊕, {format_bytes(self.memory)}",
            ]
        )
