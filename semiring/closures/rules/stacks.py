"""A stack of matrices: all of them together where the values of all allow it, else one after the other.

Together they go through the rules as one matrix with an axis more, and a backend closes them by one call. That takes
A*, not A⁺, and an idempotent ⊕. Of min-plus it takes weights ≥ 0, of integers sums that stay in half their range. Small
matrices some of whose weights gain are closed together where the backend has a loop for them (the rule `gaining`).
Matrices so large that each keeps the machine busy by itself go alone. The result of one never depends on the others;
only where nobody may wait to see the weights, one below 0 makes all of them NaN.

Cost: count · n³ pairs. The bits are those of the matrices closed alone.
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
from semiring.closures.method_run import of_matrix
from semiring.closures.plan import Draft, NotApplicable, Rewrite, Work
from semiring.closures.planner import Recorder, plan_of, rule, solve
from semiring.closures.questions import sums_are_safe
from semiring.errors import SemiringError
from semiring.kernels.engine import Engine, make_plan
from semiring.namespaces import array_namespace

__all__ = ["stacks"]


@rule("stacks")
def stacks(q: Recorder, d: Draft) -> NotApplicable | Rewrite:
    """Close all matrices by one call, or each by itself."""
    if d.matrix.storage == "bits" or len(q.kind.shape) == 2:
        return NotApplicable("one matrix")
    if q.kind.part is not None:
        return NotApplicable("matrices that are closed together already")
    alike = not q.scanned or q.ask(sums_are_safe)
    found = _together(q, d, alike)
    if isinstance(found, Rewrite):
        return found
    return Rewrite(f"one matrix after the other: {found}", d.but(close=partial(_close_each, alike), in_home=True))


def _together(q: Recorder, d: Draft, alike: bool) -> Rewrite | str:
    """All matrices by one call, or why not; ``alike``: whether a scan of all of them spares a scan of each."""
    m, n, shape, method = d.matrix, q.n, q.kind.shape, q.method
    backend = q.backend(d.semiring, m.dtype)
    closures: Any = backend.capabilities.closures
    if 0 in shape:
        return "there is nothing to close"
    if method != "auto":
        return f"{method} was named, and a named method closes one matrix at a time"
    if d.plus:
        return "A⁺ of each matrix needs its own A*"
    if q.kind.reports:
        return "progress is reported for each matrix"
    if not backend.capabilities.provides("close_stack") or not d.semiring.idempotent:
        return "the backend closes one matrix at a time"
    if not alike:
        return "the weights of each matrix need a validation of their own"
    tropical = is_tropical(d.semiring)
    plan = make_plan(min_plus, m.dtype, nonnegative=True) if tropical else d.kernel_plan(q.kind.options.threads)
    count, least = prod(shape[:-2]), schedule_for(backend.name, m.dtype).together(n)
    why = "small matrices: closed side by side by one launch"
    if n > closures.stack_rows(plan):
        if count < least:
            return "each matrix is large enough to use the whole machine"
        why = f"{least} or more matrices of this size: closed together, pivot by pivot"
    if len(shape) > 3:
        return Rewrite(why, d.but(close=_close_flat, in_home=True))
    name = str(d.method)
    return Rewrite(why, d.but(stack=shape[:-2], method=Method(name, _close_stack), chosen=name))


def _close_stack(engine: Engine, A: Any) -> None:
    closures: Any = engine.capabilities.closures
    closures.close_stack(engine.plan, A)


def _close_flat(work: Work, home: Any) -> Any:
    """Close all as one stack with one axis before the matrices."""
    call = work.call
    D = empty_like(call.A) if home is None else home
    flat = D.reshape(-1, *D.shape[-2:])
    solve(call.part(call.A.reshape(flat.shape), scan=call.scan, adjacent=True, stack=call.kind.shape[:-2]), flat)
    if not array_namespace(flat).may_share_memory(flat, D):  # strides that allow no view
        D[...] = flat.reshape(D.shape)
    return D


def _close_each(alike: bool, work: Work, home: Any) -> Any:
    """Close each matrix. All are scanned before the first is written, unless they are alike."""
    call = work.call
    D = empty_like(call.A) if home is None else home
    indices = list(np.ndindex(call.kind.shape[:-2]))
    calls = [_one(call, number, index, alike, D[index]) for number, index in enumerate(indices)]
    closings: list[Callable[..., Any]] = [solve] * len(calls)
    if not alike:
        closings = [_of_stack(index, plan_of, each).run for index, each in zip(indices, calls, strict=True)]
    for index, each, close in zip(indices, calls, closings, strict=True):
        _of_stack(index, close, each, D[index].T if each.kind.turned else D[index])
    return D


def _of_stack(index: tuple[int, ...], do: Any, *given: Any) -> Any:
    """What ``do`` returns; an error is one of the matrix with that place."""
    try:
        return do(*given)
    except SemiringError as error:
        raise of_matrix(error, index) from None


def _one(call: Call, number: int, index: tuple[int, ...], alike: bool, home: Any) -> Call:
    report = call.progress and partial(_report, call.progress, number, prod(call.kind.shape[:-2]))
    known = {"scan": call.scan} if alike else {}
    A = call.A[index]
    turned = not has_adjacent_elements(home) and call.semiring.commutative and has_adjacent_elements(home.T)
    return call.part(
        A.T if turned else A,
        turned=turned,
        adjacent=call.kind.device is None or has_adjacent_elements(A.T if turned else A),
        progress=report,
        matrix_of_stack=number,
        **known,
    )


def _report(progress: Any, position: int, count: int, done: int, total: int) -> None:
    """Tell of the matrix at that position."""
    progress(position * total + done, count * total)
