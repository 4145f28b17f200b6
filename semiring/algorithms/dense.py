"""Close dense matrices without structure: the methods of the literature, and the choice between them by size.

Methods differ in their rounding, so the choice depends on the size, the dtype, the semiring and the backend
alone, never on threads or the speed of the machine. Dense methods are one candidate, because a table of measured sizes
decides.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from semiring.algebra import Semiring
from semiring.algorithms.algorithm import Algorithm, Method
from semiring.algorithms.blocked_floyd_warshall import blocked_floyd_warshall
from semiring.algorithms.floyd_warshall import floyd_warshall
from semiring.algorithms.ordered_integers import has_min_and_max
from semiring.algorithms.papers import bertoldi, buluc, lund_smith
from semiring.algorithms.papers.gaioso import gaioso
from semiring.algorithms.papers.harish_narayanan import harish_narayanan
from semiring.algorithms.papers.katz_kider import katz_kider
from semiring.algorithms.rkleene import rkleene
from semiring.algorithms.schedule import BLOCKED, schedule_for
from semiring.algorithms.squaring import max_pairs, squaring
from semiring.algorithms.staged import staged
from semiring.kernels import backend_for
from semiring.kernels.engine import Engine, make_plan

if TYPE_CHECKING:
    from semiring.closures.problem import Problem

__all__ = ["DENSE_METHODS", "Dense", "dense_method_of", "is_one_block"]

_STORAGES: Any = ("elements", "bits")
_UNIT_STAR = "an idempotent ⊕ whose star is 1 wherever it exists"
_HARISH = "doi:10.1007/978-3-540-77220-0_21"
_LUND = "arXiv:1001.4108"
_GAIOSO = "doi:10.5753/wscad.2013.16769"


_THREADS: Any = {"threads": (128, 32, 64, 256, 512, 1024)}
_FLAG = False, True
_ROWS = range(32, 1 << 20, 32)


def _one_a_pivot(n: int, grain: int) -> int:
    return n


@dataclass(frozen=True)
class PaperMethod(Method):
    """A method of a paper. An explanation names its place in the paper, its steps and its tile.

    Parameters
    ----------
    steps : callable
        ``steps(n, grain)``: how many launches, barriers or products close n vertices. ``grain`` is that of the
        schedule, by which recursions split.
    step : str
        What a step is, in the plural.
    tile : str
        What a thread block, a thread or a rank updates in a step.
    """

    steps: Callable[[int, int], int] = field(default=_one_a_pivot, compare=False, repr=False)
    step: str = field(default="launches", compare=False, repr=False)
    tile: str = field(default="", compare=False, repr=False)

    def describe(self, p: Problem) -> str:
        """Return the place in the paper, the steps and the tile.

        Parameters
        ----------
        p : Problem
            The problem.

        Returns
        -------
        str
            The reason.
        """
        count = self.steps(p.facts.shape[-1], schedule_for(p.backend.name, p.dtype).grain)
        return f"{self.source}; {self.step}: {count:,}; tile: {self.tile}"


def _three_a_stage(n: int, grain: int) -> int:
    """Return the launches of three phases for each 32 pivots. A single tile has only the first phase."""
    return 3 * -(-n // 32) if n > 32 else 1


def _paper_method(
    name: str,
    close: Callable[..., object],
    source: str,
    launches: str,
    reference: str = "",
    steps: Callable[[int, int], int] = _one_a_pivot,
    tile: str = "",
    **options: Any,
) -> PaperMethod:
    """Return the method of a paper's kernel on a GPU."""
    return PaperMethod(
        name,
        close,
        needs=("close_as",),
        options=options,
        source=source,
        reference=reference,
        semirings=_UNIT_STAR,
        devices=("cuda",),
        complexity=f"n³ pairs in {launches}",
        steps=steps,
        tile=tile,
    )


#: The methods for every matrix of their storages.
DENSE_METHODS = (
    Method(
        "rkleene",
        rkleene,
        storages=_STORAGES,
        recorded=True,
        options={"leaf": _ROWS},
        source="D'Alberto and Nicolau 2007; Buluç, Gilbert and Budak 2010, figure 3",
        complexity="n³ pairs in place, nearly all in products",
    ),
    Method(
        "blocked_floyd_warshall",
        blocked_floyd_warshall,
        storages=_STORAGES,
        recorded=True,
        options={"width": _ROWS},
        source="Venkataraman, Sahni and Mukhopadhyaya 2003; Katz and Kider 2008",
        complexity="n³ pairs in place, in products of blocks of pivots",
    ),
    Method(
        "floyd_warshall",
        floyd_warshall,
        source="Floyd 1962, Warshall 1962; with stars Lehmann 1977",
        complexity="n³ pairs in n updates of the whole matrix",
    ),
    Method(
        "squaring",
        squaring,
        storages=_STORAGES,
        pairs=max_pairs,
        source="Aho, Hopcroft and Ullman 1974, section 5.9",
        semirings="a selective ⊕, or 1 ⊕ a = 1",
        complexity="at most n³ log n pairs, and a copy of the matrix",
    ),
    Method(
        "staged",
        staged,
        needs=("close",),
        source="our own successor of Lund and Smith 2010",
        semirings="an idempotent ⊕",
        devices=("cuda",),
        complexity="n³ pairs in a few launches",
    ),
    _paper_method(
        *("harish_narayanan", harish_narayanan, "Harish and Narayanan 2007, by Lund and Smith 2010, section 3.1"),
        *("n launches", _HARISH),
        tile="a thread for each entry, blocks of 16 × 16",
    ),
    _paper_method(
        *("katz_kider", katz_kider, "Katz and Kider 2008, by Lund and Smith 2010, section 3.2, figure 2"),
        "3 ⌈n/32⌉ launches",
        steps=_three_a_stage,
        tile="three tiles of 32 × 32 in shared memory",
        constants=_FLAG,
        threads=(256, 1024),
    ),
    _paper_method(
        *("lund_smith_unrolled", lund_smith.lund_smith_unrolled, "Lund and Smith 2010, section 4"),
        *("3 ⌈n/32⌉ launches", _LUND),
        steps=_three_a_stage,
        tile="three tiles of 32 × 32 in shared memory",
    ),
    _paper_method(
        *("lund_smith_registers", lund_smith.lund_smith_registers, "Lund and Smith 2010, section 4.1, figure 3"),
        *("3 ⌈n/32⌉ launches", _LUND),
        steps=_three_a_stage,
        tile="tiles of 32 × 32, the updated one in registers",
        staged=_FLAG,
        cyclic=_FLAG,
    ),
    _paper_method(
        *("lund_smith", lund_smith.lund_smith, "Lund and Smith 2010, sections 4.2 and 4.3, figures 4 to 6"),
        *("3 ⌈n/32⌉ + 2 launches, and a copy of the matrix", _LUND),
        steps=lambda n, grain: 2 + _three_a_stage(n, grain),
        tile="tiles of 32 × 32 in registers, panels in slices of pivots",
        slice=(4, 8, 16, 32),
        asynchronous=_FLAG,
        wide=_FLAG,
        paired=_FLAG,
        reread=_FLAG,
        cyclic=(True, False),
    ),
    _paper_method(
        *("gaioso", gaioso, "Gaioso et al. 2013, section V, algorithm 3, figures 4 to 6", "2 ⌈n/32⌉ launches", _GAIOSO),
        steps=lambda n, grain: 2 * -(-n // 32),
        tile="tiles of 32 × 32, the diagonal one in every block",
        threads=(1024, 256),
        blocks=range(1, 33),
    ),
    _paper_method(
        *("buluc_iterative", buluc.buluc_iterative, "Buluç, Gilbert and Budak 2010, section 4.2, figures 2 and 7"),
        "n launches",
        tile="a block for each 64 × 64 entries",
    ),
    PaperMethod(
        "rkleene_plain",
        buluc.rkleene_plain,
        needs=("multiply_add_plain",),
        source="Buluç, Gilbert and Budak 2010, section 2.2, figure 3, with plain products",
        complexity="n³ pairs in O(n/64) plain products",
        steps=buluc.count_launches,
        step="launches without copies",
        tile="products in tiles of 16 × 16, blocks of 64 vertices",
    ),
    _paper_method(
        *("bertoldi_cuda_shared", bertoldi.bertoldi_cuda_shared, "Bertoldi, section 3.4, algorithm 4", "n launches"),
        tile="blocks one row high",
        **_THREADS,
    ),
    _paper_method(
        *("bertoldi_cuda", bertoldi.bertoldi_cuda, "Bertoldi, section 3.4, algorithm 5", "n launches"),
        tile="blocks one row high",
        **_THREADS,
    ),
    PaperMethod(
        "bertoldi_openmp",
        bertoldi.bertoldi_openmp,
        needs=("close_as",),
        options={"copied_row": (True, False)},
        source="Bertoldi, section 3.3, algorithm 3, dynamic schedule",
        devices=("cpu",),
        complexity="n³ pairs, a barrier for each pivot",
        step="barriers",
        tile="a row for each thread at a time",
    ),
    PaperMethod(
        "bertoldi_openmp_static",
        bertoldi.bertoldi_openmp_static,
        needs=("close_as",),
        options={"copied_row": (True, False)},
        source="Bertoldi, section 3.3, algorithm 3, static schedule",
        devices=("cpu",),
        complexity="n³ pairs, a barrier for each pivot",
        step="barriers",
        tile="an equal share of adjacent rows for each thread",
    ),
    PaperMethod(
        "row_broadcast",
        bertoldi.row_broadcast,
        source="Bertoldi, sections 3.2, 3.5 and 3.6, algorithms 2, 6 and 7; several ranks under mpiexec",
        semirings=_UNIT_STAR,
        complexity="n³ pairs in n rank-one products and broadcasts",
        step="products with one pivot",
        tile="the rows of a rank",
    ),
)

_BY_NAME = {method.name: method for method in DENSE_METHODS}


def dense_method_of(p: Problem) -> Method:
    """Return the method that was measured fastest for a dense matrix like the caller's operand, or for packed bits.

    A part of another problem is closed by the method of the whole.
    """
    facts = p.facts
    if isinstance(p.dense_method, Method):
        method = p.dense_method
    else:
        storage, is_own = p.matrix.storage, p.semiring is facts.semiring and p.dtype == facts.dtype
        backend = p.backend if is_own else backend_for(facts.memory, facts.semiring, facts.dtype, storage)
        method = _fastest(backend.name, facts.dtype, storage, facts.semiring, p.n)
        if "close" in method.needs:
            closures, plan = backend.capabilities.closures, make_plan(facts.semiring, facts.dtype)
            method = method if closures is not None and closures.can_close(plan, p.n) else _BY_NAME[BLOCKED]
    return method if not p.is_packed or "bits" in method.storages else _BY_NAME["rkleene"]


@lru_cache(maxsize=1024)
def _fastest(backend_name: str, dtype: np.dtype[Any], storage: str, semiring: Semiring, n: int) -> Method:
    schedule = schedule_for(backend_name, dtype, storage, semiring)
    return _BY_NAME[schedule.method(n, is_selective=has_min_and_max(semiring))]


def is_one_block(p: Problem) -> bool:
    """Return whether R-Kleene closes the encoded matrix as one block, without products."""
    return p.n <= schedule_for(p.backend.name, p.dtype, p.matrix.storage, p.semiring).leaf


class Dense(Algorithm):
    """The elimination of all pivots, by the method that was measured fastest for the size of the matrix."""

    name = "dense"
    storages = _STORAGES
    closes_parts = True
    source = "the method of a table of sizes"
    complexity = "n³ pairs"

    def least_cost(self, p: Problem) -> float:
        return p.least_dense_cost

    def run(self, p: Problem, engine: Engine, D: Any, entries: Any) -> Any:
        raise NotImplementedError  # `semiring.closures.run` runs `dense_method_of` in its place

    def describe(self, p: Problem) -> str:
        method, backend = dense_method_of(p), p.backend
        if p.facts.devices or isinstance(p.dense_method, Method):
            return ""
        if is_one_block(p):
            return f"{p.n} vertices: closed as one block, without products"
        where = "GPU" if backend.name == "cuda" else "CPU"
        return f"{method.name} was measured fastest for dense matrices of this size on a {where}"
