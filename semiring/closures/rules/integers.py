"""Integers of min-plus, with another value for "no path" inside: half the range, so that no sum of two entries wraps.

Those below 0 are put under potentials first. These are whole numbers too, so nothing is rounded, and they may be those
of the whole graph, whatever its components.

With weights ≥ 0 a path that reached that value (``inner``) had, one edge before, a length in [inner - largest, inner),
for no edge is longer than the largest. If no distance lies there, no path was cut off. Otherwise the work is done again
in the next wider dtype. That needs the input: in place, and in int64, it is an `IntegerOverflowError`.

Cost: a pass there and one back, and where distances may come near the value one look more; for potentials some sweeps
over the matrix, or one elimination. The bits are exact. Source and proof: `semiring.algorithms.potentials.sweeps`.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from semiring.algebra.catalogue import min_plus
from semiring.arrays.encoding import inner_zero, widen
from semiring.arrays.operands import same_memory
from semiring.arrays.parts import any_true, parts
from semiring.closures.call import Call
from semiring.closures.maps import NEGATED, Shifted
from semiring.closures.matrix import EncodedMatrix
from semiring.closures.plan import Draft, NotApplicable, Rewrite
from semiring.closures.planner import Recorder, question, rule
from semiring.closures.rules.reweighted import SHIFTED, both_signs
from semiring.errors import IntegerOverflowError
from semiring.namespaces import is_device_array

__all__ = ["integers", "largest_weight", "near_no_path"]

_WIDE = np.dtype(np.int64)


def largest_weight(call: Call) -> int:
    """The largest weight, under potentials where one is below 0."""
    if call.least >= 0:
        return int(call.greatest or 0)
    maps = (NEGATED, Shifted(call.potentials)) if call.sign < 0 else (Shifted(call.potentials),)
    inner = inner_zero(min_plus, _WIDE)
    m = EncodedMatrix(call.kind.dtype, call.none, _WIDE, inner, maps, "masked", turned=call.kind.turned)
    return int(m.range(call.A)[1])


@question(default=("", True))
def integer_width(call: Call) -> tuple[str, bool]:
    """The narrowest integers that hold the weights, from those of the matrix on, "" for its own; whether all paths fit.

    Raises `IntegerOverflowError` where there are none, and `NegativeCycleError`.
    """
    own, largest = call.kind.dtype, call.found(largest_weight)
    dtype = call.wider or own
    while largest >= _none(dtype):
        dtype = wider(call, dtype)
    far = (call.n + 1) * largest < _none(dtype)  # no distance comes near it
    return "" if dtype == own else dtype.name, far


@cache
def _none(dtype: np.dtype[Any]) -> int:
    return int(inner_zero(min_plus, dtype))


@rule("integers")
def integers(q: Recorder, d: Draft) -> NotApplicable | Rewrite:
    """Close the integers in their own dtype if all weights fit half its range, else in a wider one.

    Raises `IntegerOverflowError` where there is none, or where sums of weights may leave the range of int64, and
    `NegativeCycleError`.
    """
    if d.semiring is not min_plus or d.matrix.sentinel != "masked":
        return NotApplicable("not integers in min-plus")
    name, far = q.ask(integer_width)
    dtype = q.kind.dtype if not name else np.dtype(name)
    maps = (*d.matrix.maps, SHIFTED) if d.signed else d.matrix.maps
    read = d.but(
        maps=maps,
        dtype=dtype,
        inner=dtype.type(inner_zero(min_plus, dtype)),
        # Those that need no more are held to "no path" by a minimum.
        sentinel="masked" if name or d.signed else "held",
        nonnegative=True,
        at_least_zero=True,
        signed=False,
        again=None if far else near_no_path,
    )
    signed, sign = d.signed, d.matrix.sign

    def notes(call: Call) -> list[str]:
        said = [both_signs(sign)] if signed else []
        start: Any = call.kind.dtype
        while start != dtype:
            said.append(f"distances may leave half the range of {start}: computed in {widen(start)}")
            start = widen(start)
        return said

    return Rewrite(f"integers, {int(read.matrix.inner)} for “no path” inside", read, quiet=True, notes=notes)


def _comes_near(largest: int, D: Any) -> bool:
    """Whether a closed entry came within the ``largest`` weight of "no path": a longer path may have been cut off."""
    none = inner_zero(min_plus, D.dtype)
    bound = D.dtype.type(int(none) - largest)
    return any_true(((D[at] >= bound) & (D[at] < none)).any() for at in parts(D.shape, is_device_array(D)))


def near_no_path(call: Call, D: Any) -> dict[str, Any] | None:
    """The next wider dtype, where a path may have been taken for none."""
    return {"wider": wider(call, D.dtype, closed=D)} if _comes_near(call.found(largest_weight), D) else None


def wider(call: Call, dtype: np.dtype[Any], *, closed: Any = None) -> np.dtype[Any]:
    """The dtype in which to do the work, again where it was ``closed``.

    Raises `IntegerOverflowError` where there is none, or no room, or nothing left to read.
    """
    after, name, strips = widen(dtype), call.semiring.name, call.strips
    start = f"a weight or path is too long for the half of the range of {dtype} in which {name} computes"
    if after is None:
        raise IntegerOverflowError(f"{start}: use float64, which holds every sum, rounded")
    if strips is not None:
        raise IntegerOverflowError(
            f"{start}, and {strips.called} have no room for wider ones: convert {strips.whole} to {after}"
        )
    if closed is not None and dtype == call.kind.dtype and same_memory(call.A, closed):
        raise IntegerOverflowError(
            f"{start}, and the input is overwritten by the result: pass {after}, or do not compute in place"
        )
    return after
