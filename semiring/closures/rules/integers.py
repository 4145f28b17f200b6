"""Close integers of min-plus, with an inner value for "no path" at half their range: the rule `integers`.

No sum of two entries below this value (``inner``) overflows. Integers below 0 are read under potentials of the whole
graph. These are whole numbers too, so nothing is rounded.

Suppose that all weights are ≥ 0, and a path reached ``inner``. Before its last edge its length was in
[inner - largest, inner), because no edge is longer than the largest weight. If no distance lies in this range, no path
was cut off. Otherwise the matrix is closed again in the next wider dtype, which needs the input. In place and in int64
an `IntegerOverflowError` is raised.

Cost: one pass to encode and one to decode, and one scan more if distances may come near ``inner``. Potentials take some
sweeps over the matrix, or one elimination. The result is exact. Source and proof:
`semiring.algorithms.potentials.sweeps`.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from semiring.algebra.catalogue import min_plus
from semiring.arrays.encoding import inner_zero, next_wider_integer
from semiring.arrays.operands import is_same_memory
from semiring.arrays.parts import any_true, parts
from semiring.closures.call import Call
from semiring.closures.entry_maps import NEGATION, PotentialShift
from semiring.closures.matrix import EncodedMatrix
from semiring.closures.plan import Draft, NotApplicable, Rewrite
from semiring.closures.planner import Recorder, question, rule
from semiring.closures.rules.reweighted import SHIFTED, both_signs
from semiring.errors import IntegerOverflowError
from semiring.namespaces import is_device_array

__all__ = ["integers", "largest_weight", "widen_near_no_path"]

_WIDE = np.dtype(np.int64)


def largest_weight(call: Call) -> int:
    """Return the largest weight, or the largest weight under potentials if one is below 0."""
    if call.least_weight >= 0:
        return int(call.greatest_weight or 0)
    maps = (NEGATION, PotentialShift(call.potentials)) if call.sign < 0 else (PotentialShift(call.potentials),)
    inner = inner_zero(min_plus, _WIDE)
    m = EncodedMatrix(call.kind.dtype, call.none, _WIDE, inner, maps, "masked", is_transposed=call.kind.is_transposed)
    return int(m.number_range(call.A)[1])


@question(default=("", True))
def integer_width(call: Call) -> tuple[str, bool]:
    """Return the narrowest sufficient integer dtype for the weights, and whether all paths fit it too.

    The dtype is at least as wide as that of the matrix, for which the answer is "". Raises `NegativeCycleError`, and
    `IntegerOverflowError` if no integers suffice.
    """
    own, largest = call.kind.dtype, call.result_of(largest_weight)
    dtype = call.wider_dtype or own
    while largest >= _inner_no_path(dtype):
        dtype = next_wider_dtype(call, dtype)
    far = (call.n + 1) * largest < _inner_no_path(dtype)  # no distance comes near the value for "no path"
    return "" if dtype == own else dtype.name, far


@cache
def _inner_no_path(dtype: np.dtype[Any]) -> int:
    return int(inner_zero(min_plus, dtype))


@rule("integers")
def integers(q: Recorder, d: Draft) -> NotApplicable | Rewrite:
    """Close integers in their own dtype if all weights fit half its range, else in a wider one.

    Raises `NegativeCycleError`, and `IntegerOverflowError` if no dtype is wide enough, or sums of weights may leave the
    range of int64.
    """
    if d.semiring is not min_plus or d.matrix.sentinel != "masked":
        return NotApplicable("not integers in min-plus")
    name, far = q.ask(integer_width)
    dtype = q.kind.dtype if not name else np.dtype(name)
    maps = (*d.matrix.maps, SHIFTED) if d.has_negative_weight else d.matrix.maps
    read = d.replace(
        maps=maps,
        dtype=dtype,
        inner=dtype.type(inner_zero(min_plus, dtype)),
        # Weights ≥ 0 in their own dtype need only a minimum with "no path".
        sentinel="masked" if name or d.has_negative_weight else "held",
        nonnegative=True,
        at_least_zero=True,
        has_negative_weight=False,
        replan=None if far else widen_near_no_path,
    )
    signed, sign = d.has_negative_weight, d.matrix.sign

    def notes(call: Call) -> list[str]:
        reasons = [both_signs(sign)] if signed else []
        start: Any = call.kind.dtype
        while start != dtype:
            reasons.append(f"distances may leave half the range of {start}: computed in {next_wider_integer(start)}")
            start = next_wider_integer(start)
        return reasons

    return Rewrite(f"integers, {int(read.matrix.inner)} for “no path” inside", read, quiet=True, notes=notes)


def _comes_near_no_path(largest: int, D: Any) -> bool:
    """Return whether a closed entry lies within the ``largest`` weight of "no path", so a path may be cut off."""
    none = inner_zero(min_plus, D.dtype)
    bound = D.dtype.type(int(none) - largest)
    return any_true(((D[rows] >= bound) & (D[rows] < none)).any() for rows in parts(D.shape, is_device_array(D)))


def widen_near_no_path(call: Call, D: Any) -> dict[str, Any] | None:
    """Return the next wider dtype as an answer for another plan, if a path may have been cut off; else None."""
    return (
        {"wider_dtype": next_wider_dtype(call, D.dtype, result=D)}
        if _comes_near_no_path(call.result_of(largest_weight), D)
        else None
    )


def next_wider_dtype(call: Call, dtype: np.dtype[Any], *, result: Any = None) -> np.dtype[Any]:
    """Return the next wider integer dtype for the closure of a matrix; ``result``: the result in the narrower one.

    Raises `IntegerOverflowError` if there is no wider dtype, if strips cannot hold it, or if the result has overwritten
    the input.
    """
    after, name, strips = next_wider_integer(dtype), call.semiring.name, call.strips
    start = f"a weight or path is too long for the half of the range of {dtype} in which {name} computes"
    if after is None:
        raise IntegerOverflowError(f"{start}: use float64, which holds every sum, rounded")
    if strips is not None:
        raise IntegerOverflowError(
            f"{start}, and {strips.piece_name} have no room for wider ones: convert {strips.whole_name} to {after}"
        )
    if result is not None and dtype == call.kind.dtype and is_same_memory(call.A, result):
        raise IntegerOverflowError(
            f"{start}, and the input is overwritten by the result: pass {after}, or do not compute in place"
        )
    return after
