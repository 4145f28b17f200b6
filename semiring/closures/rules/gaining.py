"""Close small matrices with weights that gain by one loop of the backend: the rule `gaining`.

Such weights are below 0 in min-plus, or above 1 in max-times. The result is bitwise identical to that of the rules
`signs`, `reweighted`, `scaled` and `integers` for larger matrices (`semiring.kernels.contract.ClosureKernels`). For few
vertices these rules would take more time than the n³ pairs.

Cost: n³ pairs; one launch for all matrices of a stack.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from semiring.algorithms.potentials.small_matrices import SMALL
from semiring.arrays.operands import empty_like
from semiring.closures.call import Call, is_tropical
from semiring.closures.plan import Draft, NotApplicable, Rewrite, Work
from semiring.closures.planner import Recorder, question, rule
from semiring.closures.questions import products_gain, signs, sums_are_safe
from semiring.closures.rules.structure import may_analyze
from semiring.kernels import backend_for
from semiring.kernels.engine import make_plan

__all__ = ["gaining"]


def _find_loop(call: Call) -> Any:
    """Scan the matrices, and return the backend's loop ``loop(out)``; None if a matrix needs the larger rules."""
    n, options = call.n, call.kind.options
    closures = backend_for(call.A, options.semiring, call.kind.dtype).capabilities.closures
    plan = make_plan(options.semiring, call.kind.dtype, threads=options.threads)
    if closures is None or n > closures.gaining_rows(plan):
        return None
    flat = call.A.reshape(-1, n, n)
    scan = closures.survey_gaining(plan, flat)
    return None if scan is None else partial(closures.close_gaining, plan, flat, scan)


@question()
def one_loop_takes_them(call: Call) -> bool:
    """Return whether the backend's loop closes these matrices."""
    return call.result_of(_find_loop) is not None


@rule("gaining")
def gaining(q: Recorder, d: Draft) -> NotApplicable | Rewrite:
    """Close small matrices with weights that gain by one loop of the backend."""
    k, is_stack = q.kind, len(q.kind.shape) > 2
    if q.on_device or k.strips is not None or k.part is not None or d.matrix.is_packed:
        return NotApplicable("only of matrices in the memory of the host")
    if q.method != "auto" or d.plus or k.needs_predecessors or k.has_progress or k.rounded_to is not None or k.devices:
        return NotApplicable("only of A*, by any method")
    if q.n > SMALL or 0 in k.shape or (k.options.structure and may_analyze(q.n)):
        return NotApplicable("too many vertices for one loop")
    if k.dtype not in (np.float32, np.float64) and k.dtype.kind != "i":
        return NotApplicable("no numbers that gain")
    if is_stack:
        stacked = q.backend(d.semiring, d.dtype).capabilities.provides("close_stack") and d.semiring.idempotent
        if not stacked or not q.may_scan or q.ask(sums_are_safe):
            return NotApplicable("no weight of the stack gains")
    elif is_tropical(d.semiring):
        if q.ask(signs) != "below":
            return NotApplicable("no weight gains")
    elif not q.may_scan or not q.ask(products_gain):
        return NotApplicable("no weight gains")
    if not q.ask(one_loop_takes_them):
        return NotApplicable("the weights take more care than one loop")
    why = "small matrices with weights that gain: potentials for all, then closed by one launch"
    if not is_stack:
        why = "few vertices, and weights that gain: components, potentials and blocks in one loop"
    return Rewrite(why, d.replace(close=_close, needs_out_buffer=True))


def _close(work: Work, out_buffer: Any) -> Any:
    A, loop = work.call.A, work.call.result_of(_find_loop)
    if work.call.explanation is not None:
        work.call.explanation.set_method(str(work.draft.method), "cpu")
    D = empty_like(A) if out_buffer is None else out_buffer
    flat = D.reshape(-1, *A.shape[-2:])
    loop(flat)
    if not np.may_share_memory(flat, D):  # strides that allow no view
        D[...] = flat.reshape(D.shape)
    return D
