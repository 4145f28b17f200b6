"""Strong components: closed each by itself, and then what leads from one to the other, by products alone.

The vertices are permuted so that the matrix is block upper triangular, and block diagonal where there are several weak
components. Blocks on the diagonal of more than `SMALL` vertices are calls of their own; those above are products of
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

from semiring.algebra.catalogue import min_plus
from semiring.algorithms.blocked_floyd_warshall import blocked_floyd_warshall
from semiring.algorithms.irreflexive import cycles_from_closure
from semiring.algorithms.schedule import schedule_for
from semiring.algorithms.stars import divergence_error, may_diverge
from semiring.arrays.operands import has_adjacent_elements, same_memory
from semiring.arrays.scans import Scan
from semiring.closures.call import Call, Part
from semiring.closures.costs import compare_costs
from semiring.closures.plan import Draft, NotApplicable, Rewrite, Work
from semiring.closures.planner import Recorder, question, rule, solve
from semiring.closures.questions import products_gain
from semiring.errors import DivergenceError, NegativeCycleError
from semiring.graphs.components import SMALL, Components, component_ranges, join_components, permute
from semiring.kernels.engine import Engine, engine_of
from semiring.namespaces import array_namespace

__all__ = ["Block", "close_by_parts", "components", "spans"]

_WORTH = 0.8  # of n³ pairs that may be left: two permutations and a search cost something


class Block(NamedTuple):
    """A component that is a call of its own: where it lies, and what is known of its entries."""

    start: int
    stop: int
    known: dict[str, Any]


@question()
def components_are_known(call: Call) -> bool:
    """Whether the look at the graph leaves something to find for a search for components."""
    return call.structure.search is not None


@question()
def components_are_several(call: Call) -> bool:
    """Whether there is more than one strong component."""
    return len(call.structure.components) > 1


@question()
def components_spare_work(call: Call) -> bool:
    """Whether so little of the work is left that components are worth two permutations."""
    return bool(_left(call) <= _WORTH)


def _left(call: Call) -> float:
    return float(call.structure.components.pairs() / call.n**3)


@rule("components", structure=True, methods=("components",))
def components(q: Recorder, d: Draft) -> NotApplicable | Rewrite:
    """Close each large component by itself."""
    m, k = d.matrix, q.kind
    if len(k.shape) == 3:
        return NotApplicable("matrices of a stack are not split into components")
    if k.strips is not None:
        return NotApplicable("the matrix is closed by strips")
    if d.chosen:
        return NotApplicable(f"closed by its {d.chosen}")
    if m.storage == "bits":
        return NotApplicable("packed bits are closed as a whole")
    lanes = _has_lanes(q, d)
    if q.on_device and not lanes:
        return NotApplicable("on a GPU, products of components are not faster")
    if k.part is not None or not q.ask(components_are_known):
        return NotApplicable("the components are not known")
    if not q.ask(components_are_several):
        return NotApplicable("one strong component")
    if q.scanned and q.ask(products_gain):
        return NotApplicable("products that gain are closed as one matrix, scaled by factors")
    if d.plus and not d.semiring.idempotent:
        return NotApplicable("⊕ is not idempotent, so A⁺ takes a product of n³ pairs in any case")
    if q.method != "components" and not q.ask(components_spare_work):
        return NotApplicable(
            lambda call: (
                f"{len(call.structure.components)} strong components, and {_left(call):.0%} of the work would be left"
            )
        )
    dtype = d.dtype
    return Rewrite(
        lambda call: f"{len(call.structure.components)} strong components: {_left(call):.0%} of the work is left",
        d.but(close=partial(_close, lanes, d.plus), plus=False),
        costs=lambda call: compare_costs("components", call.n, dtype, call.structure),
    )


def spans(found: Components) -> Iterator[tuple[int, int]]:
    """Where each component begins and ends."""
    return zip(found.bounds[:-1].tolist(), found.bounds[1:].tolist(), strict=True)


def _has_lanes(q: Recorder, d: Draft) -> bool:
    """Whether blocks of pivots are closed beside other work; and whether that may be done more than once."""
    streams = q.backend(d.semiring, d.dtype).capabilities.streams
    plan = d.kernel_plan(q.kind.options.threads)
    return d.semiring.idempotent and streams is not None and streams.lanes(plan) is not None


def _close(lanes: bool, plus: bool, work: Work, D: Any) -> Any:
    """D ← D*; with ``plus`` D⁺."""
    call, d = work.call, work.draft
    found = call.structure.components
    loops = work.matrix.diagonal(call.A) if plus else None
    scan = Scan(0, None, nonnegative=d.nonnegative) if d.semiring is min_plus else call.scan
    known = {"scan": scan}
    blocks = [Block(*span, known) for span in spans(found) if span[1] - span[0] > SMALL]
    join = _close_by_blocks if lanes else join_components
    D = close_by_parts("components", found, [] if lanes else blocks, join, work, D)
    if loops is not None:
        cycles_from_closure(work.plan.kernel_plan, loops, D)
    return D


def close_by_parts(
    after: str,
    found: Components,
    blocks: list[Block],
    join: Callable[[Engine, Any, Components, Any], None],
    work: Work,
    D: Any,
) -> Any:
    """D ← the matrix, closed: blocks by themselves, and then all of it by ``join(engine, D, found, closed)``.

    In between the vertices are in the order of components, of which some are ``closed``. ``after``: the rule that
    closes it so.
    """
    call, m, before, engine = work.call, work.matrix, None, engine_of(work.plan.kernel_plan, D)
    moved = partial(permute, D, threads=call.threads, graphs=engine.capabilities.graphs)
    if call.inspect is None and m.is_unchanged and has_adjacent_elements(call.A) and not same_memory(call.A, D):
        moved(found.order, source=call.A)
    else:
        before = work.read(D)
        moved(found.order)
    closed, done = np.zeros(len(found), np.bool_), 0
    for number, block in enumerate(blocks):
        there = D[block.start : block.stop, block.start : block.stop]
        try:
            solve(_part(work, after, block, there, done, number), there)
        except NegativeCycleError:
            raise
        except DivergenceError as error:
            raise _of_caller(call, found, block.start + (error.vertex or 0)) from None
        done += (block.stop - block.start) ** 3
        closed[np.searchsorted(found.bounds, block.start)] = True
    join(engine, D, found, closed)
    if may_diverge(engine.plan) and engine.plan.status.read() >= 0:
        raise _of_caller(call, found, engine.plan.status.diverged)
    moved(np.argsort(found.order))
    if call.progress is not None:
        call.progress(call.n**3, call.n**3)
    work.show(D, before)
    return D


def _close_by_blocks(engine: Engine, D: Any, found: Components, closed: Any) -> None:
    """D ← D* for a block upper triangular D, in the order of ``found``: weak components one after the other."""
    width = schedule_for(engine.backend.name, engine.plan.dtype).triangle
    if may_diverge(engine.plan):
        engine.plan.status.word = array_namespace(D).full(1, -1, np.int32)  # where kernels of a device say it
    for first, last in component_ranges(found, width):
        low, high = int(found.bounds[first]), int(found.bounds[last])
        block, bounds = D[low:high, low:high], found.bounds[first : last + 1] - low
        blocked_floyd_warshall(engine, block, width=width, start=low, bounds=bounds)


def _part(work: Work, after: str, block: Block, there: Any, done: int, number: int) -> Call:
    """The call for a component, which is closed in place."""
    call, d = work.call, work.draft
    report = partial(_report, call.progress, done, block.stop - block.start, call.n)
    known = dict(block.known)
    if d.examined:
        known["structure"] = call.structure.component_structure()
    return call.part(
        there,
        part=Part(after, d.semiring, str(d.method), d.examined),
        plus=d.plus,
        inspect=None,
        progress=None if call.progress is None else report,
        matrix_of_stack=number,
        **known,
    )


def _report(progress: Any, done: int, size: int, n: int, now: int, total: int) -> None:
    """Tell of a component of so many vertices, and of what was done before."""
    progress(done + now * size**3 // max(1, total), n**3)


def _of_caller(call: Call, found: Components, place: int) -> DivergenceError:
    """The error of a pivot without a star."""
    return divergence_error(call.semiring, int(found.order[place]))
