"""Close the matrices of a stack together if their entries allow it, else one after the other: the rule `stacks`.

Together they go through the rules as one matrix with one more axis, and a backend closes them by one call. This needs
A*, not A⁺, and an idempotent ⊕. In min-plus it needs weights ≥ 0, and sums of integers within half their range. The
rule `gaining` closes small matrices with weights that gain together, if the backend has a loop for them. Matrices that
are large enough to use the whole machine are closed separately. The result of one matrix never depends on another
matrix, with one exception: if the call must not wait for the signs, one weight below 0 makes all results NaN.

Cost: count · n³ pairs. The results are bitwise identical to those of separate calls.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import prod
from typing import Any

import numpy as np

from semiring.algebra.catalogue import min_plus
from semiring.algorithms.methods import Method
from semiring.algorithms.schedule import schedule_for
from semiring.arrays.operands import empty_like, has_adjacent_elements
from semiring.closures.call import Call, is_tropical
from semiring.closures.method_run import add_matrix_index
from semiring.closures.plan import Draft, NotApplicable, Rewrite, Work
from semiring.closures.planner import Recorder, plan_of, rule, solve
from semiring.closures.questions import sums_are_safe
from semiring.errors import SemiringError
from semiring.kernels.engine import Engine, make_plan
from semiring.namespaces import array_namespace

__all__ = ["stacks"]


@rule("stacks")
def stacks(q: Recorder, d: Draft) -> NotApplicable | Rewrite:
    """Close the matrices of a stack together by one call, or one after the other."""
    if d.matrix.storage == "bits" or len(q.kind.shape) == 2:
        return NotApplicable("one matrix")
    if q.kind.part is not None:
        return NotApplicable("matrices that are closed together already")
    is_validated = not q.may_scan or q.ask(sums_are_safe)
    answer = _close_together(q, d, is_validated)
    if isinstance(answer, Rewrite):
        return answer
    each = d.replace(close=partial(_close_each, is_validated), needs_out_buffer=True)
    return Rewrite(f"one matrix after the other: {answer}", each)


def _close_together(q: Recorder, d: Draft, is_validated: bool) -> Rewrite | str:
    """Return the rewrite that closes all matrices by one call, or the reason why this is not possible.

    ``is_validated``: whether one scan of the whole stack validates each matrix.
    """
    m, n, shape, method = d.matrix, q.n, q.kind.shape, q.method
    backend = q.backend(d.semiring, m.dtype)
    closures: Any = backend.capabilities.closures
    if 0 in shape:
        return "there is nothing to close"
    if method != "auto":
        return f"{method} was named, and a named method closes one matrix at a time"
    if d.plus:
        return "A⁺ of each matrix needs its own A*"
    if q.kind.has_progress:
        return "progress is reported for each matrix"
    if not backend.capabilities.provides("close_stack") or not d.semiring.idempotent:
        return "the backend closes one matrix at a time"
    if not is_validated:
        return "the weights of each matrix need a validation of their own"
    tropical = is_tropical(d.semiring)
    plan = make_plan(min_plus, m.dtype, nonnegative=True) if tropical else d.kernel_plan(q.kind.options.threads)
    count, least = prod(shape[:-2]), schedule_for(backend.name, m.dtype).min_stack(n)
    why = "small matrices: closed side by side by one launch"
    if n > closures.stack_rows(plan):
        if count < least:
            return "each matrix is large enough to use the whole machine"
        why = f"{least} or more matrices of this size: closed together, pivot by pivot"
    if len(shape) > 3:
        return Rewrite(why, d.replace(close=_close_flat, needs_out_buffer=True))
    name = str(d.method)
    return Rewrite(why, d.replace(stack=shape[:-2], method=Method(name, _close_stack), structural_method=name))


def _close_stack(engine: Engine, A: Any) -> None:
    closures: Any = engine.capabilities.closures
    closures.close_stack(engine.plan, A)


def _close_flat(work: Work, out_buffer: Any) -> Any:
    """Close a stack of several axes as a stack of one axis."""
    call = work.call
    D = empty_like(call.A) if out_buffer is None else out_buffer
    flat = D.reshape(-1, *D.shape[-2:])
    solve(
        call.part(call.A.reshape(flat.shape), scan=call.scan, has_adjacent_rows=True, stack=call.kind.shape[:-2]), flat
    )
    if not array_namespace(flat).may_share_memory(flat, D):  # strides that allow no view
        D[...] = flat.reshape(D.shape)
    return D


def _close_each(is_validated: bool, work: Work, out_buffer: Any) -> Any:
    """Close each matrix separately. Unless ``is_validated``, all are scanned before the first one is written."""
    call = work.call
    D = empty_like(call.A) if out_buffer is None else out_buffer
    indices = list(np.ndindex(call.kind.shape[:-2]))
    calls = [_matrix_call(call, number, index, is_validated, D[index]) for number, index in enumerate(indices)]
    closings: list[Callable[..., Any]] = [solve] * len(calls)
    if not is_validated:
        closings = [_call_with_index(index, plan_of, each).run for index, each in zip(indices, calls, strict=True)]
    for index, each, close in zip(indices, calls, closings, strict=True):
        _call_with_index(index, close, each, D[index].T if each.kind.is_transposed else D[index])
    return D


def _call_with_index(index: tuple[int, ...], function: Any, *arguments: Any) -> Any:
    """Call a function, and add the index of the matrix to its error."""
    try:
        return function(*arguments)
    except SemiringError as error:
        raise add_matrix_index(error, index) from None


def _matrix_call(call: Call, number: int, index: tuple[int, ...], is_validated: bool, out_buffer: Any) -> Call:
    report = call.progress and partial(_report_progress, call.progress, number, prod(call.kind.shape[:-2]))
    results = {"scan": call.scan} if is_validated else {}
    A = call.A[index]
    has_columns = not has_adjacent_elements(out_buffer) and has_adjacent_elements(out_buffer.T)
    is_transposed = has_columns and call.semiring.commutative
    return call.part(
        A.T if is_transposed else A,
        is_transposed=is_transposed,
        has_adjacent_rows=call.kind.device is None or has_adjacent_elements(A.T if is_transposed else A),
        progress=report,
        matrix_of_stack=number,
        **results,
    )


def _report_progress(progress: Any, position: int, count: int, done: int, total: int) -> None:
    """Report the progress of one matrix as progress of the whole stack."""
    progress(position * total + done, count * total)
