"""Floats below 0: each strong component under potentials of its own, and what leads from one to the other as it is.

So what one vertex cannot reach does not disturb it: potentials of the whole graph would add the weights of one
component to those of another, and lose the smaller ones. Each component of more than one vertex is a call of its own;
blocks above the diagonal are products of closed blocks, in the caller's weights. See
`semiring.closures.rules.components`.

Cost: a search for the components and potentials of each; two passes in place for the permutation and two back. Rounding
and hazards: docs/rounding.md.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

from semiring.algorithms.potentials.reweighting import reweighting, swept_potentials
from semiring.algorithms.potentials.weights import check_range, negligible
from semiring.arrays.scans import Scan
from semiring.closures.call import Call
from semiring.closures.plan import Draft, NotApplicable, Rewrite, Work
from semiring.closures.planner import Recorder, question, rule
from semiring.closures.rules.components import Block, close_by_parts, spans
from semiring.graphs.components import Components, join_components, strong_components
from semiring.kernels.engine import Engine
from semiring.namespaces import array_namespace

__all__ = ["signs"]


def _components(call: Call) -> Components:
    return strong_components(call.A, call.none, call.threads)


@question()
def is_strongly_connected(call: Call) -> bool:
    """Whether there is one strong component."""
    return len(call.found(_components)) == 1


@question()
def components_have_potentials(call: Call) -> bool:
    """True; raises `NegativeCycleError`, and `DomainError` where sums of weights may leave the range of floats."""
    call.found(_blocks)
    return True


@rule("signs")
def signs(q: Recorder, d: Draft) -> NotApplicable | Rewrite:
    """Close each component of more than one vertex by itself.

    Raises `NegativeCycleError`; `DomainError` where sums of weights may leave the range of floats.
    """
    if not d.signed or q.kind.dtype.kind != "f":
        return NotApplicable("no floating-point weight is below 0")
    if len(q.kind.shape) == 3:
        return NotApplicable("matrices of a stack are not split into components")
    if q.kind.strips is not None:
        return NotApplicable("the matrix is closed by strips")
    if q.ask(is_strongly_connected):
        return NotApplicable("one strong component")
    q.ask(components_have_potentials)
    return Rewrite(_why, d.but(close=_close))


def _why(call: Call) -> str:
    found, blocks = call.found(_components), call.found(_blocks)
    return f"{len(found)} strong components, {len(blocks)} of more than one vertex: each with potentials of its own"


def _blocks(call: Call) -> list[Block]:
    found, weights, threads = call.found(_components), call.weights, call.threads
    xp = array_namespace(call.A)
    alone = found.order[found.bounds[:-1][found.sizes == 1]]
    loops = call.A.diagonal()[xp.asarray(alone)]
    if call.sign < 0:
        loops = xp.subtract(0, loops)
    if alone.size and float(loops.min()) < 0:  # a negative cycle, which is named there
        reweighting(replace(weights, vertices=xp.asarray(alone[[int(loops.argmin())]])), threads)
    least, dtype = float(weights.range[0]), call.kind.dtype
    if not call.n * least > -negligible(dtype):  # a path through several components may leave the range of floats
        low, high = weights.range
        check_range(swept_potentials(weights, threads), low, high, dtype)
    blocks = []
    for start, stop in spans(found):
        if stop - start > 1:
            part = replace(weights, vertices=xp.asarray(found.order[start:stop]))
            least = min(float(part.rows(rows).min()) for rows in part.pieces())
            known: dict[str, Any] = {"scan": Scan(least, None, nonnegative=False)}
            if least < 0:
                known["potentials"] = reweighting(part, threads)
            blocks.append(Block(start, stop, known))
    return blocks


def _close(work: Work, D: Any) -> Any:
    found, blocks = work.call.found(_components), work.call.found(_blocks)
    return close_by_parts("signs", found, blocks, partial(_join, work.draft.plus), work, D)


def _join(plus: bool, engine: Engine, D: Any, found: Components, closed: Any) -> None:
    """D ← D* of a block upper triangular D, but for the diagonal, which is that of its blocks."""
    vertices = array_namespace(D).arange(len(D))
    cycles = D[vertices, vertices] if plus else 0  # they are closed, and nothing else is below 0 on the diagonal
    D[vertices, vertices] = 0
    join_components(engine, D, found, closed)
    D[vertices, vertices] = cycles
