"""Small matrices some of whose weights gain, below 0 in min-plus or above 1 in max-times: one loop of the backend.

It does as the rules `signs`, `reweighted`, `scaled` and `integers` do to larger ones, with the same bits
(`semiring.kernels.contract.ClosureKernels`): for the n³ pairs of few vertices take less time than these rules.

Cost: n³ pairs; of a stack, one launch for all matrices.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from semiring.algorithms.potentials.small import SMALL
from semiring.arrays.operands import empty_like
from semiring.closures.call import Call, is_tropical
from semiring.closures.plan import Draft, NotApplicable, Rewrite, Work
from semiring.closures.planner import Recorder, question, rule
from semiring.closures.questions import products_gain, signs, sums_are_safe
from semiring.closures.rules.structure import worth_a_look
from semiring.kernels import backend_for
from semiring.kernels.engine import make_plan

__all__ = ["gaining"]


def _loop(call: Call) -> Any:
    """The backend's loop after a scan of the matrices, ``loop(out)``; None where a matrix of them takes more care."""
    n, options = call.n, call.kind.options
    closures = backend_for(call.A, options.semiring, call.kind.dtype).capabilities.closures
    plan = make_plan(options.semiring, call.kind.dtype, threads=options.threads)
    if closures is None or n > closures.gaining_rows(plan):
        return None
    flat = call.A.reshape(-1, n, n)
    found = closures.look_gaining(plan, flat)
    return None if found is None else partial(closures.close_gaining, plan, flat, found)


@question()
def one_loop_takes_them(call: Call) -> bool:
    """Whether the backend's loop closes these matrices."""
    return call.found(_loop) is not None


@rule("gaining")
def gaining(q: Recorder, d: Draft) -> NotApplicable | Rewrite:
    """Close a small matrix, or a stack of them, by the backend's loop."""
    k, is_stack = q.kind, len(q.kind.shape) > 2
    if q.on_device or k.strips is not None or k.part is not None or d.matrix.packed:
        return NotApplicable("only of matrices in the memory of the host")
    if q.method != "auto" or d.plus or k.traced or k.reports or k.rounded_to is not None or k.devices:
        return NotApplicable("only of A*, by any method")
    if q.n > SMALL or 0 in k.shape or (k.options.structure and worth_a_look(q.n)):
        return NotApplicable("too many vertices for one loop")
    if k.dtype not in (np.float32, np.float64) and k.dtype.kind != "i":
        return NotApplicable("no numbers that gain")
    if is_stack:
        stacked = q.backend(d.semiring, d.dtype).capabilities.provides("close_stack") and d.semiring.idempotent
        if not stacked or not q.scanned or q.ask(sums_are_safe):
            return NotApplicable("no weight of the stack gains")
    elif is_tropical(d.semiring):
        if q.ask(signs) != "below":
            return NotApplicable("no weight gains")
    elif not q.scanned or not q.ask(products_gain):
        return NotApplicable("no weight gains")
    if not q.ask(one_loop_takes_them):
        return NotApplicable("the weights take more care than one loop")
    why = "small matrices with weights that gain: potentials for all, then closed by one launch"
    if not is_stack:
        why = "few vertices, and weights that gain: components, potentials and blocks in one loop"
    return Rewrite(why, d.but(close=_closed, in_home=True))


def _closed(work: Work, home: Any) -> Any:
    A, loop = work.call.A, work.call.found(_loop)
    if work.call.explanation is not None:
        work.call.explanation.closed_by(str(work.draft.method), "cpu")
    D = empty_like(A) if home is None else home
    flat = D.reshape(-1, *A.shape[-2:])
    loop(flat)
    if not np.may_share_memory(flat, D):  # strides that allow no view
        D[...] = flat.reshape(D.shape)
    return D
