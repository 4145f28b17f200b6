"""Close each strong component separately, and join them by products: the rule `components`.

The vertices are permuted so that the matrix is block upper triangular, and block diagonal for several weak components.
Each block on the diagonal of more than `SMALL` vertices is a separate call. Blocks above the diagonal are products of
closed blocks. A graph without cycles needs products only: n³/6 pairs. A device with lanes for concurrent work, such as
a GPU, closes the whole matrix by blocks of pivots instead. A block updates the rows up to the end of its component, and
the columns from its beginning.

Cost: a search for the components, two passes in place for the permutation and two back; workspace O(n · panel). The
result is bitwise identical to that of ``structure=False`` where ⊗ and ⊕ are exact. Otherwise a path may be added up in
another order, with the same bound (docs/rounding.md).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from semiring.algebra.catalogue import min_plus
from semiring.algorithms.blocked_floyd_warshall import blocked_floyd_warshall
from semiring.algorithms.irreflexive_closure import make_irreflexive
from semiring.algorithms.schedule import schedule_for
from semiring.algorithms.stars import divergence_error, may_diverge
from semiring.arrays.operands import has_adjacent_elements, is_same_memory
from semiring.arrays.scans import Scan
from semiring.closures.call import Call, Part
from semiring.closures.costs import compare_costs
from semiring.closures.plan import Draft, NotApplicable, Rewrite, Work
from semiring.closures.planner import Recorder, question, rule, solve
from semiring.closures.questions import products_gain
from semiring.errors import DivergenceError, NegativeCycleError
from semiring.graphs.strongly_connected import SMALL, Components, component_ranges, join_components, permute
from semiring.kernels.engine import Engine, engine_of
from semiring.namespaces import array_namespace

__all__ = ["Block", "close_by_parts", "components", "spans"]

_LARGEST_SHARE = 0.8  # the largest share of n³ pairs that pays for two permutations and a search


class Block(NamedTuple):
    """A component that is closed by a separate call: its rows, and results of scans of its entries."""

    start: int
    stop: int
    results: dict[str, Any]


@question()
def components_are_known(call: Call) -> bool:
    """Return whether the structure of the graph includes a search for components."""
    return call.structure.search is not None


@question()
def components_are_several(call: Call) -> bool:
    """Return whether there is more than one strong component."""
    return len(call.structure.components) > 1


@question()
def components_spare_work(call: Call) -> bool:
    """Return whether components save enough work to pay for two permutations."""
    return bool(_work_share(call) <= _LARGEST_SHARE)


def _work_share(call: Call) -> float:
    """Return the pairs of a closure by components, as a share of n³."""
    return float(call.structure.components.pairs() / call.n**3)


@rule("components", structure=True, methods=("components",))
def components(q: Recorder, d: Draft) -> NotApplicable | Rewrite:
    """Close each strong component separately, and join the components by products."""
    m, k = d.matrix, q.kind
    if len(k.shape) == 3:
        return NotApplicable("matrices of a stack are not split into components")
    if k.strips is not None:
        return NotApplicable("the matrix is closed by strips")
    if d.structural_method:
        return NotApplicable(f"closed by its {d.structural_method}")
    if m.storage == "bits":
        return NotApplicable("packed bits are closed as a whole")
    lanes = _has_lanes(q, d)
    if q.on_device and not lanes:
        return NotApplicable("on a GPU, products of components are not faster")
    if k.part is not None or not q.ask(components_are_known):
        return NotApplicable("the components are not known")
    if not q.ask(components_are_several):
        return NotApplicable("one strong component")
    if q.may_scan and q.ask(products_gain):
        return NotApplicable("products that gain are closed as one matrix, scaled by factors")
    if d.plus and not d.semiring.idempotent:
        return NotApplicable("⊕ is not idempotent, so A⁺ takes a product of n³ pairs in any case")
    if q.method != "components" and not q.ask(components_spare_work):
        return NotApplicable(
            lambda call: (
                f"{len(call.structure.components)} strong components, and {_work_share(call):.0%} of the work would be "
                "left"
            )
        )
    dtype = d.dtype
    return Rewrite(
        lambda call: f"{len(call.structure.components)} strong components: {_work_share(call):.0%} of the work is left",
        d.replace(close=partial(_close, lanes, d.plus), plus=False),
        costs=lambda call: compare_costs("components", call.n, dtype, call.structure),
    )


def spans(components: Components) -> Iterator[tuple[int, int]]:
    """Yield the first row of each component, and the row behind its last one."""
    return zip(components.bounds[:-1].tolist(), components.bounds[1:].tolist(), strict=True)


def _has_lanes(q: Recorder, d: Draft) -> bool:
    """Return whether blocks of pivots are closed concurrently with other work, which needs an idempotent ⊕."""
    streams = q.backend(d.semiring, d.dtype).capabilities.streams
    plan = d.kernel_plan(q.kind.options.threads)
    return d.semiring.idempotent and streams is not None and streams.lanes(plan) is not None


def _close(lanes: bool, plus: bool, work: Work, D: Any) -> Any:
    """D ← D*, or D⁺ with ``plus``, by components."""
    call, d = work.call, work.draft
    parts = call.structure.components
    loops = work.matrix.diagonal(call.A) if plus else None
    scan = Scan(0, None, nonnegative=d.nonnegative) if d.semiring is min_plus else call.scan
    results = {"scan": scan}
    blocks = [Block(*span, results) for span in spans(parts) if span[1] - span[0] > SMALL]
    join = _close_by_blocks if lanes else join_components
    D = close_by_parts("components", parts, [] if lanes else blocks, join, work, D)
    if loops is not None:
        make_irreflexive(work.plan.kernel_plan, loops, D)
    return D


def close_by_parts(
    rule_name: str,
    parts: Components,
    blocks: list[Block],
    join: Callable[[Engine, Any, Components, Any], None],
    work: Work,
    D: Any,
) -> Any:
    """D ← the closure of the matrix: close some diagonal blocks separately, then join all blocks.

    Parameters
    ----------
    rule_name
        The name of the rule that calls this function: only the rules behind it apply to a block.
    parts
        The components. During the closure the vertices are in their order.
    blocks
        The components that are closed separately.
    join
        ``join(engine, D, parts, closed)`` closes D if the components in the mask ``closed`` are closed already.
    work, D
        The arguments of `Draft.close`.
    """
    call, m, before, engine = work.call, work.matrix, None, engine_of(work.plan.kernel_plan, D)
    reorder = partial(permute, D, threads=call.threads, graphs=engine.capabilities.graphs)
    if call.inspection is None and m.is_unchanged and has_adjacent_elements(call.A) and not is_same_memory(call.A, D):
        reorder(parts.order, source=call.A)
    else:
        before = work.read(D)
        reorder(parts.order)
    closed, pairs = np.zeros(len(parts), np.bool_), 0
    for number, block in enumerate(blocks):
        view = D[block.start : block.stop, block.start : block.stop]
        try:
            solve(_component_call(work, rule_name, block, view, pairs, number), view)
        except NegativeCycleError:
            raise
        except DivergenceError as error:
            raise _divergence_error(call, parts, block.start + (error.vertex or 0)) from None
        pairs += (block.stop - block.start) ** 3
        closed[np.searchsorted(parts.bounds, block.start)] = True
    join(engine, D, parts, closed)
    if may_diverge(engine.plan) and engine.plan.status.read() >= 0:
        raise _divergence_error(call, parts, engine.plan.status.diverged)
    reorder(np.argsort(parts.order))
    if call.progress is not None:
        call.progress(call.n**3, call.n**3)
    work.find_predecessors(D, before)
    return D


def _close_by_blocks(engine: Engine, D: Any, parts: Components, closed_mask: Any) -> None:
    """D ← D* for a block upper triangular D in the order of ``parts``, one weak component after the other."""
    width = schedule_for(engine.backend.name, engine.plan.dtype).triangle
    if may_diverge(engine.plan):
        engine.plan.status.word = array_namespace(D).full(1, -1, np.int32)  # kernels of a device write the vertex here
    for first, last in component_ranges(parts, width):
        low, high = int(parts.bounds[first]), int(parts.bounds[last])
        block, bounds = D[low:high, low:high], parts.bounds[first : last + 1] - low
        blocked_floyd_warshall(engine, block, width=width, start=low, bounds=bounds)


def _component_call(work: Work, rule_name: str, block: Block, view: Any, pairs: int, number: int) -> Call:
    """Return the call for a component, which is closed in place; ``pairs``: the pairs of the earlier components."""
    call, d = work.call, work.draft
    report = partial(_report_progress, call.progress, pairs, block.stop - block.start, call.n)
    results = dict(block.results)
    if d.may_use_structure:
        results["structure"] = call.structure.component_structure()
    return call.part(
        view,
        part=Part(rule_name, d.semiring, str(d.method), d.may_use_structure),
        plus=d.plus,
        inspection=None,
        progress=None if call.progress is None else report,
        matrix_of_stack=number,
        **results,
    )


def _report_progress(progress: Any, earlier_pairs: int, size: int, n: int, done: int, total: int) -> None:
    """Report the progress of a component of ``size`` vertices as progress of the whole matrix."""
    progress(earlier_pairs + done * size**3 // max(1, total), n**3)


def _divergence_error(call: Call, parts: Components, row: int) -> DivergenceError:
    """Return the error for a pivot without a star in a row of the permuted matrix."""
    return divergence_error(call.semiring, int(parts.order[row]))
