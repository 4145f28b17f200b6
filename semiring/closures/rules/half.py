"""Close float16 and bfloat16 in float32, and round once: the rule `half`.

Sums along a long path would lose the few digits of these dtypes. The rule applies on a CPU, a GPU, several GPUs and
ranks, and to stacks. It has two exceptions. If ⊕ and ⊗ only select, nothing is rounded, and a GPU or a run by strips
keeps float16. With ``compute_dtype="float16"`` they keep it too, and round every sum and product.

Cost: a copy of the matrix in float32. Predecessors are found in float32, before the result is rounded.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from semiring.advice import option
from semiring.algebra.expressions.tree import is_half
from semiring.algorithms.ordered_integers import has_min_and_max
from semiring.arrays.encoding import decode
from semiring.arrays.zero_conventions import warn_of_other_zeros_on_device
from semiring.closures.call import Options
from semiring.closures.plan import Draft, NotApplicable, Rewrite, Work
from semiring.closures.planner import Recorder, plan_of, rule
from semiring.errors import AlgebraError, DTypeError

__all__ = ["half", "stays_float16"]


def stays_float16(dtype: np.dtype[Any], options: Options) -> bool:
    """Return whether kernels for float16 may close the matrix: nothing is rounded, or the caller requested it."""
    return dtype == np.float16 and (options.compute_dtype is not None or has_min_and_max(options.semiring))


@rule("half")
def half(q: Recorder, d: Draft) -> NotApplicable | Rewrite:
    """Close float16 and bfloat16 in float32, and round the result once.

    Raises `AlgebraError` if strips cannot hold float32, and `DTypeError` if ``compute_dtype=`` is not supported.
    """
    requested, dtype, k = q.kind.options.compute_dtype, q.kind.dtype, q.kind
    if requested is not None and dtype != requested:
        raise DTypeError(f"compute_dtype is {requested}, and A is {dtype}: leave it out, or give A in {requested}")
    if not (is_half(dtype) and d.semiring.supports(np.float32)):
        return NotApplicable("the dtype is wide enough")
    if _has_kernels(q, d) and stays_float16(dtype, k.options):
        return NotApplicable(f"{'⊕ and ⊗ only select' if requested is None else 'compute_dtype'}: computed in {dtype}")
    if requested is not None:
        raise DTypeError(
            "compute_dtype is float16, and a CPU computes float16 in float32: leave it out, or compute on a GPU, "
            f"{option('device', 'cuda')}"
        )
    if k.strips is not None:
        remedy = "close the matrix in memory, or convert it to float32"
        if dtype == np.float16 and d.semiring.selective:
            remedy += ", or round whenever a strip is written, compute_dtype='float16'"
        raise AlgebraError(f"{k.strips.piece_name} of {dtype} cannot hold float32: {remedy}")
    return Rewrite(
        f"{dtype} is closed in float32, and rounded once", d.replace(close=_close_in_float32, needs_out_buffer=True)
    )


def _has_kernels(q: Recorder, d: Draft) -> bool:
    """Return whether float16 is supported: by the kernels of a GPU, or by strips, which are rounded when written."""
    if q.kind.strips is not None:
        return d.semiring.selective
    if q.kind.devices:
        return True
    return q.on_device and q.backend(d.semiring, d.dtype).capabilities.provides("close")


def _close_in_float32(work: Work, out_buffer: Any) -> Any:
    call = work.call
    wide = call.A.astype(np.float32, order="C")  # in the result's order of entries, not that of the operand
    rounded_to = call.kind.rounded_to or call.kind.dtype
    inner = call.part(wide, has_adjacent_rows=True, rounded_to=rounded_to)
    plan = plan_of(inner)
    if call.kind.device is not None and call.kind.options.check:  # a scan of the float16 entries would wait once more
        warn_of_other_zeros_on_device(wide, call.semiring, inner.scan)
    closed = plan.run(inner, wide)
    return (
        decode(closed, call.semiring, call.kind.dtype)
        if out_buffer is None
        else decode(closed, call.semiring, out=out_buffer)
    )
