"""Close each strong component by itself, and join the components by products.

The vertices are permuted so that the matrix is block upper triangular, and block diagonal for several weak components.
Each block on the diagonal of more than `SMALL` vertices is a problem of its own. Blocks above the diagonal are products
of closed blocks. A graph without cycles needs products only: n³/6 pairs. A device with lanes for concurrent work, such
as a GPU, closes the whole matrix by blocks of pivots instead. A block updates the rows up to the end of its component,
and the columns from its beginning.

Floats below 0 need it whatever it costs: potentials of the whole graph would add the weights of one component to those
of another, and lose the smaller ones. Weights of very different size in one component need exact potentials.

Cost: a search for the components, two passes in place for the permutation and two back; workspace O(n · panel). The
result is bitwise identical to that of ``structure=False`` where ⊗ and ⊕ are exact. Otherwise a path may be added up in
another order, with the same bound (docs/rounding.md).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from semiring.algebra.catalogue import min_plus
from semiring.algorithms.algorithm import AUTO, Algorithm, Circumstances
from semiring.algorithms.blocked_floyd_warshall import blocked_floyd_warshall
from semiring.algorithms.schedule import schedule_for
from semiring.algorithms.stars import divergence_error
from semiring.arrays.operands import has_adjacent_elements
from semiring.arrays.parts import to_host_array
from semiring.arrays.scans import Scan
from semiring.errors import DivergenceError, NegativeCycleError
from semiring.graphs.strongly_connected import SMALL, component_ranges, join_components, permute
from semiring.graphs.strongly_connected import Components as Parts
from semiring.kernels.engine import Engine
from semiring.namespaces import Array, array_namespace
from semiring.progress import share_of

if TYPE_CHECKING:
    from semiring.closures.problem import Block, Problem

__all__ = ["Components", "ComponentsUnderPotentials", "ExactPotentials"]

_LARGEST_SHARE = 0.8  # the largest share of n³ pairs that pays for two permutations and a search
_PASSES = 0.15  # the share of the time of n³ pairs that components take beside their own pairs
_TRIANGLE = 0.6  # the share that is left if each component is closed as a triangle


class Components(Algorithm):
    """Each strong component of more than some hundred vertices as a part, and products that join all."""

    name, structure, requires = "components", "components", "several strong components"
    apart = True
    reports_parts = True
    source = "Sharir 1981; Tarjan 1972, for the components"
    complexity = "n³/6 pairs without cycles, n³ in one component"

    def reason_against(self, p: Problem) -> str | None:
        facts, graph = p.facts, p.facts.structure
        if facts.on_device and not _has_lanes(p):
            return "on a GPU, products of components are not faster"
        if graph.search is None:
            return "the components are not known"
        if len(graph.components) < 2:
            return "one strong component"
        if facts.weights_gain and not facts.is_tropical:
            return "products that gain are closed as one matrix, scaled by factors"
        if p.plus and not p.semiring.idempotent:
            return "⊕ is not idempotent, so A⁺ takes a product of n³ pairs in any case"
        if _share(p) > _LARGEST_SHARE and p.options.method != self.name:
            return f"{len(graph.components)} strong components, and {_share(p):.0%} of the work would be left"
        return None

    def least_cost(self, p: Problem) -> float:
        return _PASSES * p.least_dense_cost

    def cost(self, p: Problem) -> float:
        triangles = p.facts.structure.is_symmetric and p.semiring.commutative
        return p.dense_cost * (_PASSES + (1 - _PASSES) * _share(p) * (_TRIANGLE if triangles else 1.0))

    def run(self, p: Problem, engine: Engine, D: Array, entries: Array) -> Array:
        facts, parts, lanes = p.facts, p.facts.structure.components, _has_lanes(p)
        scan = Scan(0, None, nonnegative=p.signs == "clear") if p.semiring is min_plus else facts.scan
        blocks = [] if lanes else [(*span, {"scan": scan}) for span in parts.spans() if span[1] - span[0] > SMALL]
        _close_by_parts(p, engine, parts, blocks, D, entries, _close_by_blocks if lanes else join_components)
        return D

    def describe(self, p: Problem) -> str:
        return f"{len(p.facts.structure.components)} strong components: {_share(p):.0%} of the work is left"


class _DivisionBelowZero(Algorithm):
    """A division of a graph with floats below 0, whose parts are closed in the caller's weights."""

    below_zero_only = divides = gives_plus = True
    serves: ClassVar[tuple[str, ...]] = ()  # the methods by a structure of the graph for which it stays a candidate

    def reason_by_options(self, c: Circumstances) -> str | None:
        if c.is_structural and c.method not in self.serves:  # that method needs a structure of the whole graph
            return "another method was named"
        return super().reason_by_options(c)

    def prepare(self, p: Problem) -> Problem:
        return p.unshifted()


class ComponentsUnderPotentials(_DivisionBelowZero):
    """Floats below 0: each strong component as a part, under potentials of its own, and products that join all.

    Blocks above the diagonal are products of closed blocks, in the caller's weights.
    """

    name = "components_below_zero"
    serves = (Components.name,)
    reports_parts = True
    apart = True

    def reason_against(self, p: Problem) -> str | None:
        return "one strong component" if p.facts.is_strongly_connected else None

    def least_cost(self, p: Problem) -> float:
        return _PASSES * p.least_dense_cost

    def cost(self, p: Problem) -> float:
        return p.dense_cost * (_PASSES + (1 - _PASSES) * float(p.facts.components.pairs() / p.n**3))

    def prepare(self, p: Problem) -> Problem:
        _ = p.facts.component_potentials  # raises `NegativeCycleError`
        return super().prepare(p)

    def run(self, p: Problem, engine: Engine, D: Array, entries: Array) -> Array:
        blocks = p.facts.component_potentials
        _close_by_parts(p, engine, p.facts.components, blocks, D, entries, partial(_join_below_cycles, p.plus), p.plus)
        return D

    def describe(self, p: Problem) -> str:
        blocks = len(p.facts.component_potentials)
        return f"{len(p.facts.components)} strong components, {blocks} of more than one vertex: each with potentials"


class ExactPotentials(_DivisionBelowZero):
    """Weights of very different size in one strong component: exact potentials, and the shifted matrix as a part.

    It takes copies of the matrix in float64 and in integers, in host memory.
    """

    name = "exact_potentials"
    closes_parts = True

    def reason_against(self, p: Problem) -> str | None:
        if not p.facts.is_strongly_connected:
            return "several strong components"
        return None if p.facts.needs_exact_potentials else "potentials in float64 round no weight away"

    def least_cost(self, p: Problem) -> float:
        return p.least_dense_cost

    def run(self, p: Problem, engine: Engine, D: Array, entries: Array) -> Array:
        xp = array_namespace(D)
        found: dict[str, Any] = {"scan": Scan(0.0, None, nonnegative=True), "is_strongly_connected": True}
        found |= _structure_of_part(p)

        def close(R: Any) -> None:
            matrix = xp.asarray(R)
            p.part(matrix, fact_values=found, plus=p.plus).close(matrix)
            R[...] = to_host_array(matrix)

        potentials: Any = p.facts.potentials
        W = to_host_array(entries).astype(np.float64)
        with np.errstate(over="ignore"):  # a distance beyond the range of the dtype is ∞
            D[...] = xp.asarray(potentials.distances(W, close).astype(D.dtype))
        return D

    def describe(self, p: Problem) -> str:
        return "weights of very different size in one strong component: closed with exact potentials"


def _share(p: Problem) -> float:
    """Return the pairs of a closure by components, as a share of n³."""
    return float(p.facts.structure.components.pairs() / p.n**3)


def _has_lanes(p: Problem) -> bool:
    """Return whether blocks of pivots are closed concurrently with other work, which needs an idempotent ⊕."""
    streams = p.backend.capabilities.streams
    return p.semiring.idempotent and streams is not None and streams.lanes(p.kernel_plan) is not None


def _structure_of_part(p: Problem) -> dict[str, Any]:
    """Return the structure that a part inherits, if that of the whole graph is known or may be found."""
    c = p.circumstances
    may_inherit = p.structure_is_known or (not c.unanalysed and c.is_large and c.method == AUTO and bool(c.structure))
    return {"structure": p.facts.structure.component_structure()} if may_inherit else {}


def _close_by_parts(
    p: Problem,
    engine: Engine,
    parts: Parts,
    blocks: list[Block] | list[Any],
    D: Array,
    entries: Array,
    join: Callable[[Engine, Any, Parts, Any], None],
    plus: bool = False,
) -> None:
    """D ← the closure of the entries: close some diagonal blocks by themselves, then join all blocks.

    Parameters
    ----------
    p, engine, D, entries
        The arguments of `Algorithm.run`.
    parts
        The components. During the closure the vertices are in their order.
    blocks
        The components that are closed as problems of their own.
    join
        ``join(engine, D, parts, closed)`` closes D if the components in the mask ``closed`` are closed already.
    plus
        Whether the blocks give A⁺.
    """
    reorder = partial(permute, D, threads=p.options.threads, graphs=engine.capabilities.graphs)
    if entries is D or not has_adjacent_elements(entries):
        if entries is not D:
            D[...] = entries
        reorder(parts.order)
    else:
        reorder(parts.order, source=entries)
    closed, pairs, of_part = np.zeros(len(parts), np.bool_), 0, _structure_of_part(p)
    for place, (start, stop, found) in enumerate(blocks):
        view = D[start:stop, start:stop]
        report = share_of(p.progress, pairs, pairs + (stop - start) ** 3, p.n**3)
        part = p.part(view, fact_values=found | of_part, plus=plus, progress=report, place=place)
        try:
            part.close(view)
        except NegativeCycleError:
            raise
        except DivergenceError as error:
            raise divergence_error(p.options.semiring, int(parts.order[start + (error.vertex or 0)])) from None
        pairs += (stop - start) ** 3
        closed[np.searchsorted(parts.bounds, start)] = True
    join(engine, D, parts, closed)
    if engine.plan.may_diverge and engine.plan.status.read() >= 0:
        raise divergence_error(p.options.semiring, int(parts.order[engine.plan.status.diverged]))
    reorder(np.argsort(parts.order))


def _join_below_cycles(plus: bool, engine: Engine, D: Any, parts: Parts, is_closed: Any) -> None:
    """D ← D* for a block upper triangular D; with ``plus`` the diagonal of the closed blocks is kept."""
    vertices = array_namespace(D).arange(len(D))
    cycles = D[vertices, vertices] if plus else 0  # the blocks are closed, and no other diagonal entry is below 0
    D[vertices, vertices] = 0
    join_components(engine, D, parts, is_closed)
    D[vertices, vertices] = cycles


def _close_by_blocks(engine: Engine, D: Any, parts: Parts, is_closed: Any) -> None:
    """D ← D* for a block upper triangular D in the order of ``parts``, one weak component after the other."""
    width = schedule_for(engine.backend.name, engine.plan.dtype).triangle
    for first, last in component_ranges(parts, width):
        low, high = int(parts.bounds[first]), int(parts.bounds[last])
        block, bounds = D[low:high, low:high], parts.bounds[first : last + 1] - low
        blocked_floyd_warshall(engine, block, width=width, start=low, bounds=bounds)
