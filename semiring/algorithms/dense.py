"""Close dense matrices without structure: the methods of the literature, and the choice between them by size.

Methods differ in their rounding, so the choice depends on the size, the dtype, the semiring and the backend
alone, never on threads or the speed of the machine. Dense methods are one candidate, because a table of measured sizes
decides.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

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

__all__ = ["DENSE_METHODS", "Dense", "dense_method_of"]

_STORAGES: Any = ("elements", "bits")
_UNIT_STAR = "an idempotent ⊕ whose star is 1 wherever it exists"
_HARISH = "doi:10.1007/978-3-540-77220-0_21"
_LUND = "arXiv:1001.4108"
_GAIOSO = "doi:10.5753/wscad.2013.16769"


_THREADS: Any = {"threads": (128, 32, 64, 256, 512, 1024)}
_FLAG = False, True
_ROWS = range(32, 1 << 20, 32)


def _paper_method(
    name: str, close: Callable[..., object], source: str, launches: str, reference: str = "", **options: Any
) -> Method:
    """Return the method of a paper's kernel on a GPU."""
    return Method(
        name,
        close,
        needs=("close_as",),
        options=options,
        source=source,
        reference=reference,
        semirings=_UNIT_STAR,
        devices=("cuda",),
        complexity=f"n³ pairs in {launches}",
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
        *("harish_narayanan", harish_narayanan, "Harish and Narayanan 2007, a thread for each cell"),
        *("n launches", _HARISH),
    ),
    _paper_method(
        *("katz_kider", katz_kider, "Katz and Kider 2008, three phases of 32 × 32 tiles", "3 ⌈n/32⌉ launches"),
        constants=_FLAG,
        threads=(256, 1024),
    ),
    _paper_method(
        *("lund_smith_unrolled", lund_smith.lund_smith_unrolled, "Lund and Smith 2010, section 4"),
        *("3 ⌈n/32⌉ launches", _LUND),
    ),
    _paper_method(
        *("lund_smith_registers", lund_smith.lund_smith_registers, "Lund and Smith 2010, section 4.1, figure 3"),
        *("3 ⌈n/32⌉ launches", _LUND),
    ),
    _paper_method(
        *("lund_smith", lund_smith.lund_smith, "Lund and Smith 2010, sections 4.2 and 4.3, figures 4 to 6"),
        *("3 ⌈n/32⌉ + 2 launches, and a copy of the matrix", _LUND),
        slice=(4, 8, 16, 32),
        asynchronous=_FLAG,
        wide=_FLAG,
        paired=_FLAG,
        reread=_FLAG,
        cyclic=(True, False),
    ),
    _paper_method(
        *("gaioso", gaioso, "Gaioso et al. 2013, algorithm 3, figures 4 to 6", "2 ⌈n/32⌉ launches", _GAIOSO),
        threads=(1024, 256),
        blocks=range(1, 33),
    ),
    _paper_method(
        *("buluc_iterative", buluc.buluc_iterative, "Buluç, Gilbert and Budak 2010, figure 2, rank-one updates"),
        "n launches",
    ),
    Method(
        "rkleene_plain",
        buluc.rkleene_plain,
        needs=("multiply_add_plain",),
        source="Buluç, Gilbert and Budak 2010, figure 3, with plain products",
        complexity="n³ pairs in O(n/64) plain products",
    ),
    _paper_method(
        *("bertoldi_cuda_shared", bertoldi.bertoldi_cuda_shared, "Bertoldi, algorithm 4", "n launches"), **_THREADS
    ),
    _paper_method("bertoldi_cuda", bertoldi.bertoldi_cuda, "Bertoldi, algorithm 5", "n launches", **_THREADS),
    Method(
        "bertoldi_openmp",
        bertoldi.bertoldi_openmp,
        needs=("close_as",),
        source="Bertoldi, algorithm 3, dynamic schedule",
        devices=("cpu",),
        complexity="n³ pairs, a barrier for each pivot",
    ),
    Method(
        "bertoldi_openmp_static",
        bertoldi.bertoldi_openmp_static,
        needs=("close_as",),
        source="Bertoldi, algorithm 3, static schedule",
        devices=("cpu",),
        complexity="n³ pairs, a barrier for each pivot",
    ),
    Method(
        "row_broadcast",
        bertoldi.row_broadcast,
        source="Bertoldi, algorithms 2, 6 and 7; several ranks under mpiexec",
        semirings=_UNIT_STAR,
        complexity="n³ pairs in n rank-one products and broadcasts",
    ),
)

_BY_NAME = {method.name: method for method in DENSE_METHODS}


def dense_method_of(p: Problem) -> Method:
    """Return the method that was measured fastest for a dense matrix like the caller's operand.

    A part of another problem is closed by the method of the whole.
    """
    facts = p.facts
    if isinstance(p.dense_method, Method):
        method = p.dense_method
    else:
        storage = "bits" if facts.storage == "bits" else "elements"
        backend = backend_for(facts.memory, facts.semiring, facts.dtype, storage)
        schedule = schedule_for(backend.name, facts.dtype, storage, facts.semiring)
        name = schedule.method(p.n, is_selective=has_min_and_max(facts.semiring))
        if "close" in _BY_NAME[name].needs:
            engine = Engine(backend, make_plan(facts.semiring, facts.dtype))
            name = name if engine.can_close(p.n) else BLOCKED
        method = _BY_NAME[name]
    return method if not p.is_packed or "bits" in method.storages else _BY_NAME["rkleene"]


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
        if p.n <= schedule_for(backend.name, p.dtype, p.matrix.storage, p.semiring).leaf:
            return f"{p.n} vertices: closed as one block, without products"
        where = "GPU" if backend.name == "cuda" else "CPU"
        return f"{method.name} was measured fastest for dense matrices of this size on a {where}"
