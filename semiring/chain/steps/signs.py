"""Floats below 0: each strong component under potentials of its own, and what leads from one to the other as it is.

So what one vertex cannot reach does not disturb it: potentials of the whole graph would add the weights of one
component to those of another, and lose the smaller ones. Each component of more than one vertex is a problem of its
own; blocks above the diagonal are products of closed blocks, in the caller's weights. See
`semiring.chain.steps.components`.

Cost: a search for the components and potentials of each; two passes in place for the permutation and two back. Rounding
and hazards: docs/rounding.md.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

from semiring.algorithms.potentials.reweighting import reweighting, swept_potentials
from semiring.algorithms.potentials.weights import check_range, negligible
from semiring.chain.maps import UNSIGNED
from semiring.chain.planner import Node
from semiring.chain.problem import Facts, Look, Problem, Reduction, step
from semiring.chain.steps.components import Part, close_by_parts, spans
from semiring.chain.steps.reweighted import is_signed, weights_of
from semiring.graphs.components import Components, join_components, strong_components
from semiring.kernels.engine import Engine
from semiring.namespaces import array_namespace

__all__ = ["signs"]


@step
def signs(p: Problem) -> Look:
    """Each component of more than one vertex as a problem of its own.

    Raises `NegativeCycleError`; `DomainError` where sums of weights may leave the range of floats.
    """
    m = p.matrix
    yield not is_signed(p) or m.array.dtype.kind != "f", "no floating-point weight is below 0"
    yield len(m.shape) == 3, "matrices of a stack are not split into components"
    yield p.strips, "the matrix is closed by strips"
    found = strong_components(p.entries, m.none, p.request.threads)
    yield len(found) == 1, "one strong component"
    parts = _parts(p, found)
    why = f"{len(found)} strong components, {len(parts)} of more than one vertex: each with potentials of its own"
    return Reduction(why, p, close=partial(_close, found, parts))


def _parts(p: Problem, found: Components) -> list[Part]:
    m = p.matrix
    xp, weights, threads = array_namespace(m.array), weights_of(p), p.request.threads
    alone = found.order[found.bounds[:-1][found.sizes == 1]]
    loops = m.diagonal()[xp.asarray(alone)]
    if alone.size and float(loops.min()) < 0:  # a negative cycle, which is named there
        reweighting(replace(weights, vertices=xp.asarray(alone[[int(loops.argmin())]])), threads)
    least = float(weights.range[0])
    if not p.n * least > -negligible(m.array.dtype):  # a path through several components may leave the range of floats
        check_range(swept_potentials(weights, threads), *weights.range, m.array.dtype)
    parts = []
    for start, stop in spans(found):
        if stop - start > 1:
            part = replace(weights, vertices=xp.asarray(found.order[start:stop]))
            least = min(float(part.rows(rows).min()) for rows in part.pieces())
            facts = Facts(least, p.known.greatest, nonnegative=least >= 0)
            if least < 0:
                facts = facts._replace(potentials=reweighting(part, threads))
            parts.append(Part(start, stop, facts, (UNSIGNED,) if facts.nonnegative else ()))
    return parts


def _close(found: Components, parts: list[Part], node: Node, D: Any) -> Any:
    return close_by_parts(found, parts, partial(_join, node.inner.plus), node, D)


def _join(plus: bool, engine: Engine, D: Any, found: Components, closed: Any) -> None:
    """D ← D* of a block upper triangular D, but for the diagonal, which is that of its blocks."""
    vertices = array_namespace(D).arange(len(D))
    cycles = D[vertices, vertices] if plus else 0  # they are closed, and nothing else is below 0 on the diagonal
    D[vertices, vertices] = 0
    join_components(engine, D, found, closed)
    D[vertices, vertices] = cycles
