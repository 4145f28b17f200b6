"""Stacks of matrices on a backend that closes many at once: one call for all, where the values of all allow it.

Where they do not (weights of both signs, integers whose sums might leave half their range, A⁺), and where matrices are
so large that each keeps the device busy by itself, nothing is done here, and they are closed one after the other. A
distance never depends on the other matrices of the stack; only where nobody may wait to see the weights, one below 0
makes all of them NaN.

Cost: count · n³ pairs; a pass or two over the stack before and after. Workspace: what the backend takes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from semiring.algebra.catalogue import min_plus
from semiring.algorithms.call import Call
from semiring.algorithms.execution import divergence_error, may_diverge
from semiring.algorithms.ordered import as_integers, from_integers, has_order
from semiring.algorithms.schedule import schedule_for
from semiring.algorithms.small import SMALL, close_small_stack
from semiring.algorithms.tropical import encode_integers, is_tropical
from semiring.algorithms.views import Array, clear_zeros, negate
from semiring.arrays.encoding import decode, inner_zero
from semiring.arrays.scans import Scan
from semiring.errors import DivergenceError, SemiringError
from semiring.kernels.contract import Backend, Passes, Plan, StackClosures
from semiring.kernels.engine import make_plan
from semiring.namespaces import array_namespace, is_device_array

__all__ = ["close_stack", "name_matrix"]


def close_stack(call: Call, A: Array, target: Array, backend: Backend, scan: Scan) -> bool:
    """Close: target ← A* of every matrix of A (..., n, n), if that is done here; whether it was.

    The target is A, or shares no memory with it; ``scan`` is what a look at A found. Raises `DivergenceError`, naming
    the vertex of the first matrix in which a pivot has no star; the target is then undefined.
    """
    unwanted = call.asked != "auto" or not call.reflexive or call.execution.progress or not A.size
    closures = backend.capabilities.stack_closures
    if unwanted or closures is None:
        return False
    semiring, dtype = call.semiring, A.dtype
    if not semiring.idempotent:
        return False
    if is_tropical(semiring):
        return _close_tropical(call, A, target, scan, closures, backend.capabilities.passes)
    identities = (semiring.zero_for(dtype), semiring.one_for(dtype))
    nonnegative = dtype.kind == "f" and scan.nonnegative and min(identities) >= 0
    plan = make_plan(semiring, dtype, nonnegative=nonnegative, threads=call.execution.threads)
    if not _takes(call, plan, A, closures):
        return False
    if target is not A:
        target[...] = A
    stack = _flat(target)
    large = A.shape[-1] > closures.stack_rows(plan)  # then two passes save more than they cost
    if large and not nonnegative and has_order(semiring, dtype):
        _close(call, make_plan(semiring, np.int32, threads=plan.threads), as_integers(stack, semiring), closures)
        from_integers(stack.view(np.int32), semiring)
    else:
        _close(call, plan, stack, closures)
    _store(stack, target)
    return True


def _takes(call: Call, plan: Plan, A: Array, closures: StackClosures) -> bool:
    """Whether these matrices are closed together; if so, the explanation says how."""
    n = A.shape[-1]
    if n <= closures.stack_rows(plan):
        call.note("small matrices: closed side by side by one launch")
        return True
    least = schedule_for(call.explanation.backend, plan.dtype).together(n)
    if A.size // n**2 < least:
        return False
    call.note(f"{least} or more matrices of this size: closed together, the same pivots of all of them at a time")
    return True


def _close(call: Call, plan: Plan, stack: Array, closures: StackClosures) -> None:
    """Close every matrix in place. Raises `DivergenceError` for the first pivot without a star of the first matrix."""
    if call.execution.waits and may_diverge(plan) and is_device_array(stack):
        plan.status.word = array_namespace(stack).full(1, -1, np.int32)
    closures.close_stack(plan, stack)
    if plan.status.read() >= 0:
        matrix, vertex = divmod(plan.status.diverged, stack.shape[-1])
        error = divergence_error(call.semiring, vertex)
        name_matrix(error, np.unravel_index(matrix, call.explanation.shape[:-2]))
        raise error


def name_matrix(error: SemiringError, index: Sequence[Any]) -> None:
    """Let an error say which matrix of a stack it is about."""
    where = tuple(map(int, index))
    error.args = (f"{error}; this is about the matrix A[{', '.join(map(str, where))}] of the stack", *error.args[1:])
    if isinstance(error, DivergenceError):
        error.matrix = where


def _flat(target: Array) -> Array:
    """The matrices (count, n, n) of a target (..., n, n): a view, or a copy where strides allow none."""
    return target.reshape(-1, *target.shape[-2:])


def _store(stack: Array, target: Array) -> None:
    """What was done to `_flat` of a target is done to the target."""
    if not array_namespace(stack).may_share_memory(stack, target):
        target[...] = stack.reshape(target.shape)


def _close_tropical(
    call: Call, A: Array, target: Array, scan: Scan, closures: StackClosures, passes: Passes | None
) -> bool:
    """The same by min-plus of weights ≥ 0, as `semiring.algorithms.tropical` does of one matrix."""
    sign, n, dtype = 1 if call.semiring.tropical == "min" else -1, A.shape[-1], A.dtype
    least, greatest = sorted(sign * (0 if end is None else end) for end in (scan.low, scan.high))
    plan = make_plan(min_plus, dtype, nonnegative=True, threads=call.execution.threads)
    if sign > 0 and -np.inf < least < 0 and dtype.kind == "f" and call.execution.waits:
        return _close_small(call, plan, A, target, closures)
    if not least >= 0 or (dtype.kind == "i" and (n + 1) * int(greatest) >= int(plan.zero)):
        return False
    if not _takes(call, plan, A, closures):
        return False
    if dtype.kind == "i":
        encode_integers(A, sign, dtype.type(inner_zero(min_plus, dtype)), target)
    elif sign < 0:
        negate(A, target)
    elif call.execution.waits or passes is None:
        clear_zeros(A, target)
    unseen = None if call.execution.waits or dtype.kind == "i" else passes  # floats that nobody waits to see
    negative = None if unseen is None else unseen.copy_nonnegative(A if sign > 0 else target, target)
    stack = _flat(target)
    _close(call, plan, stack, closures)
    if unseen is not None:
        unseen.spoil(stack, negative)
    if sign < 0:
        negate(stack, stack)
    if dtype.kind == "i":
        decode(stack, call.semiring, limit=sign * int(plan.zero))
    _store(stack, target)
    return True


def _close_small(call: Call, plan: Plan, A: Array, target: Array, closures: StackClosures) -> bool:
    """The same of small matrices with weights of both signs, by potentials, where all are plain."""
    if is_device_array(A) or A.shape[-1] > min(SMALL, closures.stack_rows(plan)):
        return False
    stack = _flat(target)
    if not close_small_stack(_flat(A), stack, plan.threads):
        return False
    call.note("small matrices with weights below 0: potentials of all, and then all closed by one launch")
    _store(stack, target)
    return True
