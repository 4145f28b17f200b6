"""Strong components: closed each by itself, and then what leads from one to the other, by products alone.

The vertices are permuted so that the matrix is block upper triangular, and block diagonal where there are several weak
components. Blocks on the diagonal of more than `SMALL` vertices are problems of their own; those above are products of
closed blocks. A graph without cycles is products only: n³/6 pairs. Where work can go side by side, as on a GPU, the
whole matrix is closed by blocks of pivots instead, each of which meets the rows up to the end of its component and the
columns from its beginning on.

Cost: a search for the components, two passes in place for the permutation and two back; workspace O(n · panel). The
bits are those of ``structure=False`` where ⊗ and ⊕ are exact; else a path may be added up in another order, with the
same bound (docs/rounding.md).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from semiring.algorithms.blocked_floyd_warshall import blocked_floyd_warshall
from semiring.algorithms.irreflexive import cycles_from_closure
from semiring.algorithms.potentials.scales import gains
from semiring.algorithms.schedule import schedule_for
from semiring.algorithms.stars import divergence_error, may_diverge
from semiring.arrays.operands import adjacent, same_memory
from semiring.chain.planner import Node
from semiring.chain.prices import compared
from semiring.chain.problem import Facts, Look, Problem, Reduction, step
from semiring.errors import DivergenceError, NegativeCycleError
from semiring.graphs.components import SMALL, Components, join_components, permute, ranges
from semiring.kernels.engine import Engine, engine_of
from semiring.namespaces import array_namespace

__all__ = ["Part", "close_by_parts", "components", "spans"]

_WORTH = 0.8  # of n³ pairs that may be left: two permutations and a search cost something


class Part(NamedTuple):
    """A component that is a problem of its own: where it lies, what is known of its weights, and how it is read."""

    start: int
    stop: int
    facts: Facts
    maps: tuple[Any, ...] = ()


@step
def components(p: Problem) -> Look:
    """Each large component as a problem of its own."""
    m = p.matrix
    yield len(m.shape) == 3, "matrices of a stack are not split into components"
    yield p.strips, "the matrix is closed by strips"
    yield p.chosen, f"closed by its {p.chosen}"
    yield p.seen.search is None, "the components are not known"
    yield m.storage == "bits", "packed bits are closed as a whole"
    yield m.on_device and not _has_lanes(p), "on a GPU, products of components are not faster"
    found = p.seen.components
    yield len(found) <= 1, "one strong component"
    yield (
        gains(p.semiring, p.known.least, p.known.greatest),
        "products that gain are closed as one matrix, scaled by factors",
    )
    yield p.plus and not p.semiring.idempotent, "⊕ is not idempotent, so A⁺ takes a product of n³ pairs in any case"
    left = found.pairs() / p.n**3
    yield left > _WORTH, f"{len(found)} strong components, and {left:.0%} of the work would be left"
    parts = [] if _has_lanes(p) else [Part(*span, p.known) for span in spans(found) if span[1] - span[0] > SMALL]
    close = partial(_close, found, parts, m.diagonal() if p.plus else None)
    why = f"{len(found)} strong components: {left:.0%} of the work is left"
    return Reduction(why, p.but(p.facts, plus=False), close=close, prices=compared("components", p.n, p.dtype, p.seen))


def spans(found: Components) -> Iterator[tuple[int, int]]:
    """Where each component begins and ends."""
    return zip(found.bounds[:-1].tolist(), found.bounds[1:].tolist(), strict=True)


def _has_lanes(p: Problem) -> bool:
    """Whether blocks of pivots are closed beside other work; and whether that may be done more than once."""
    queues = p.backend.capabilities.queues
    return p.semiring.idempotent and queues is not None and queues.lanes(p.kernel_plan()) is not None


def _close(found: Components, parts: list[Part], loops: Any, node: Node, D: Any) -> Any:
    """D ← D*; with ``loops``, the diagonal of A, D⁺."""
    join = _close_by_blocks if _has_lanes(node.inner) else join_components
    D = close_by_parts(found, parts, join, node, D)
    if loops is not None:
        cycles_from_closure(node.inner.kernel_plan(), loops, D)
    return D


def close_by_parts(
    found: Components, parts: list[Part], join: Callable[[Engine, Any, Components, Any], None], node: Node, D: Any
) -> Any:
    """D ← the matrix, closed: parts by themselves, and then all of it by ``join(engine, D, found, closed)``.

    In between the vertices are in the order of components, of which some are ``closed``.
    """
    p = node.inner
    m, before, engine = p.matrix, None, engine_of(p.kernel_plan(), D)
    moved = partial(permute, D, threads=p.request.threads, graphs=engine.capabilities.graphs)
    if p.inspect is None and m.as_it_is and adjacent(m.array) and not same_memory(m.array, D):
        moved(found.order, source=m.array)
    else:
        before = node.read(D)
        moved(found.order)
    closed, done = np.zeros(len(found), np.bool_), 0
    for k, part in enumerate(parts):
        block = D[part.start : part.stop, part.start : part.stop]
        try:
            node.plan(_block(p, part, block, done), k).solve(block)
        except NegativeCycleError:
            raise
        except DivergenceError as error:
            raise _of_caller(p, found, part.start + (error.vertex or 0)) from None
        done += (part.stop - part.start) ** 3
        closed[np.searchsorted(found.bounds, part.start)] = True
    join(engine, D, found, closed)
    if may_diverge(engine.plan) and engine.plan.status.read() >= 0:
        raise _of_caller(p, found, engine.plan.status.diverged)
    moved(np.argsort(found.order))
    if p.progress is not None:
        p.progress(p.n**3, p.n**3)
    node.show(D, before)
    return D


def _close_by_blocks(engine: Engine, D: Any, found: Components, closed: Any) -> None:
    """D ← D* for a block upper triangular D, in the order of ``found``: weak components one after the other."""
    width = schedule_for(engine.backend.name, engine.plan.dtype).triangle
    if may_diverge(engine.plan):
        engine.plan.status.word = array_namespace(D).full(1, -1, np.int32)  # where kernels of a device say it
    for first, last in ranges(found, width):
        low, high = int(found.bounds[first]), int(found.bounds[last])
        block, bounds = D[low:high, low:high], found.bounds[first : last + 1] - low
        blocked_floyd_warshall(engine, block, width=width, start=low, bounds=bounds)


def _block(p: Problem, part: Part, block: Any, done: int) -> Problem:
    """The closure of a component, in place."""
    report = partial(_report, p.progress, done, part.stop - part.start, p.n)
    return p.but(
        part.facts,
        array=block,
        none=p.matrix.inner,
        maps=part.maps,
        sentinel="",
        seen=p.seen.of_part(),
        home=block,
        inspect=None,
        progress=None if p.progress is None else report,
    )


def _report(progress: Any, done: int, size: int, n: int, now: int, total: int) -> None:
    """Tell of a component of so many vertices, and of what was done before."""
    progress(done + now * size**3 // max(1, total), n**3)


def _of_caller(p: Problem, found: Components, place: int) -> DivergenceError:
    """The error of a pivot without a star."""
    return divergence_error(p.request.semiring, int(found.order[place]))
