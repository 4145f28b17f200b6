"""Close floats below 0 by strong components, each under potentials of its own: the rule `signs`.

Potentials of the whole graph would add the weights of one component to those of another, and lose the smaller ones. So
each component of more than one vertex is a separate call. Blocks above the diagonal are products of closed blocks, in
the caller's weights. See `semiring.closures.rules.components`.

Cost: a search for the components and potentials of each; two passes in place for the permutation and two back. Rounding
and hazards: docs/rounding.md.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

from semiring.algorithms.potentials.reweighting import choose_potentials, potentials_by_sweeps
from semiring.algorithms.potentials.tropical_weights import check_range, negligible_amount
from semiring.arrays.scans import Scan
from semiring.closures.call import Call
from semiring.closures.plan import Draft, NotApplicable, Rewrite, Work
from semiring.closures.planner import Recorder, question, rule
from semiring.closures.rules.components import Block, close_by_parts, spans
from semiring.graphs.strongly_connected import Components, join_components, strong_components
from semiring.kernels.engine import Engine
from semiring.namespaces import array_namespace

__all__ = ["signs"]


def _find_components(call: Call) -> Components:
    return strong_components(call.A, call.none, call.threads)


@question()
def is_strongly_connected(call: Call) -> bool:
    """Return whether the graph is one strong component."""
    return len(call.result_of(_find_components)) == 1


@question()
def components_have_potentials(call: Call) -> bool:
    """Find potentials of all components, and return True.

    Raises `NegativeCycleError`, and `DomainError` if sums of weights may leave the range of floats.
    """
    call.result_of(_find_blocks)
    return True


@rule("signs")
def signs(q: Recorder, d: Draft) -> NotApplicable | Rewrite:
    """Close floats below 0 by strong components, each under potentials of its own.

    Raises `NegativeCycleError`, and `DomainError` if sums of weights may leave the range of floats.
    """
    if not d.has_negative_weight or q.kind.dtype.kind != "f":
        return NotApplicable("no floating-point weight is below 0")
    if len(q.kind.shape) == 3:
        return NotApplicable("matrices of a stack are not split into components")
    if q.kind.strips is not None:
        return NotApplicable("the matrix is closed by strips")
    if q.ask(is_strongly_connected):
        return NotApplicable("one strong component")
    q.ask(components_have_potentials)
    return Rewrite(_reason, d.replace(close=_close))


def _reason(call: Call) -> str:
    parts, blocks = call.result_of(_find_components), call.result_of(_find_blocks)
    return f"{len(parts)} strong components, {len(blocks)} of more than one vertex: each with potentials of its own"


def _find_blocks(call: Call) -> list[Block]:
    """Return the components of more than one vertex, with potentials for each component that has a weight below 0."""
    parts, weights, threads = call.result_of(_find_components), call.weights, call.threads
    xp = array_namespace(call.A)
    singletons = parts.order[parts.bounds[:-1][parts.sizes == 1]]
    loops = call.A.diagonal()[xp.asarray(singletons)]
    if call.sign < 0:
        loops = xp.subtract(0, loops)
    if singletons.size and float(loops.min()) < 0:  # a negative cycle: `choose_potentials` raises its error
        choose_potentials(replace(weights, vertices=xp.asarray(singletons[[int(loops.argmin())]])), threads)
    least, dtype = float(weights.range[0]), call.kind.dtype
    # A path through several components may leave the range of floats.
    if not call.n * least > -negligible_amount(dtype):
        low, high = weights.range
        check_range(potentials_by_sweeps(weights, threads), low, high, dtype)
    blocks = []
    for start, stop in spans(parts):
        if stop - start > 1:
            part = replace(weights, vertices=xp.asarray(parts.order[start:stop]))
            least = min(float(part.rows(rows).min()) for rows in part.pieces())
            results: dict[str, Any] = {"scan": Scan(least, None, nonnegative=False)}
            if least < 0:
                results["potentials"] = choose_potentials(part, threads)
            blocks.append(Block(start, stop, results))
    return blocks


def _close(work: Work, D: Any) -> Any:
    parts, blocks = work.call.result_of(_find_components), work.call.result_of(_find_blocks)
    return close_by_parts("signs", parts, blocks, partial(_join, work.draft.plus), work, D)


def _join(plus: bool, engine: Engine, D: Any, parts: Components, closed_mask: Any) -> None:
    """D ← D* for a block upper triangular D; with ``plus`` the diagonal of the closed blocks is kept."""
    vertices = array_namespace(D).arange(len(D))
    cycles = D[vertices, vertices] if plus else 0  # the blocks are closed, and no other diagonal entry is below 0
    D[vertices, vertices] = 0
    join_components(engine, D, parts, closed_mask)
    D[vertices, vertices] = cycles
