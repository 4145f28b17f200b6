"""Strong components, each under potentials of its own: what one vertex cannot reach does not disturb it.

Of weights in floats, some of which are below 0. The vertices are permuted so that the matrix is block upper triangular;
the blocks on the diagonal are problems of their own, and those above are products of closed blocks in the weights as
they are. A vertex that is a component alone is no problem at all, so an acyclic graph is products only.

Cost: a search for the components, two passes in place for the permutation and two back, and n³ pairs at most; workspace
O(n · panel). Rounding: docs/rounding.md.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from semiring.algebra.catalogue import min_plus
from semiring.algorithms.components import Components, join_components, permute, strong_components
from semiring.algorithms.weights import check_range, negligible
from semiring.chain.leaf import engine_of
from semiring.chain.maps import UNSIGNED
from semiring.chain.problem import Facts, No, Problem, Reduction
from semiring.chain.steps.shifted import part_potentials, potentials_of, weights_of
from semiring.namespaces import array_namespace

if TYPE_CHECKING:
    from semiring.chain.planner import Node

__all__ = ["components"]


class _Part(NamedTuple):
    """A component of more than one vertex: where it lies, and what is known of its weights."""

    start: int
    stop: int
    facts: Facts


def _close(found: Components, parts: list[_Part], node: Node, D: Any) -> Any:
    p, xp = node.inner, array_namespace(D)
    inspect = p.request.inspect
    node.way.encode(p.matrix.array, D)
    before = None if inspect is None else D.copy()
    permute(D, found.order)
    done = 0
    for k, part in enumerate(parts):
        block = D[part.start : part.stop, part.start : part.stop]
        node.plan(_block(p, part, block, done), k).run(block)
        done += (part.stop - part.start) ** 3
    vertices = xp.arange(p.n)
    loops = D[vertices, vertices] if p.plus else 0
    D[vertices, vertices] = 0
    engine = engine_of(p.kernel_plan(), D)
    join_components(engine, D, found.bounds)
    D[vertices, vertices] = loops
    permute(D, np.argsort(found.order))
    if p.progress is not None:
        p.progress(p.n**3, p.n**3)
    if inspect is not None:
        inspect.look(engine, D, before=before, pivots=None)
    return D


def _block(p: Problem, part: _Part, block: Any, done: int) -> Problem:
    """The closure of a component, in place."""
    progress, n, size = p.progress, p.n, part.stop - part.start

    def report(now: int, total: int) -> None:
        assert progress is not None
        progress(done + now * size**3 // max(1, total), n**3)

    return p.but(
        part.facts,
        array=block,
        none=p.matrix.inner,
        maps=(UNSIGNED,) if part.facts.nonnegative else (),
        home=block,
        in_place=True,
        request=replace(p.request, inspect=None),
        progress=None if progress is None else report,
    )


def components(p: Problem) -> No | Reduction:
    """Each component as a problem of its own.

    Raises `NegativeCycleError`; `DomainError` where sums of weights may leave the range of floats.
    """
    m = p.matrix
    if p.semiring is not min_plus or p.known.least is None or not p.known.least < 0:
        return No("no weight is below 0")
    if m.array.dtype.kind == "i":
        return No("integers are not rounded")
    if len(m.shape) == 3:
        return No("each matrix of the stack is one component")
    if p.strips:
        return No("strips stay where they are")
    found = strong_components(m.array, m.none)
    if len(found) == 1:
        return No("one strong component", "data")
    xp, weights = array_namespace(m.array), weights_of(p)
    alone = found.order[found.bounds[:-1][np.diff(found.bounds) == 1]]
    loops = m.diagonal()[xp.asarray(alone)]
    if alone.size and float(loops.min()) < 0:  # a negative cycle, which is named there
        part_potentials(p, replace(weights, vertices=xp.asarray(alone[[int(loops.argmin())]])))
    least = float(weights.range[0])
    if not p.n * least > -negligible(m.array.dtype):  # a path through several components may leave the range of floats
        check_range(potentials_of(p, weights), *weights.range, m.array.dtype)
    parts = []
    for start, stop in zip(found.bounds[:-1].tolist(), found.bounds[1:].tolist(), strict=True):
        if stop - start > 1:
            part = replace(weights, vertices=xp.asarray(found.order[start:stop]))
            least = min(float(part.rows(rows).min()) for rows in part.pieces())
            facts = Facts(least, p.known.greatest, nonnegative=least >= 0)
            if least < 0:
                facts = facts._replace(potentials=part_potentials(p, part))
            parts.append(_Part(start, stop, facts))
    why = f"{len(found)} strong components, {len(parts)} of more than one vertex: each under its own potentials"
    return Reduction(why, p, run=partial(_close, found, parts))
