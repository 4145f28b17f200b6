"""Integers of min-plus with another value for "no path" inside: half the range, so that no sum of two entries wraps.

Weights are ≥ 0. A path that reached that value (``inner``) had, one edge before, a length in [inner - largest, inner),
for no edge is longer than the largest. If no distance lies there, no path was cut off. Otherwise the work is done again
in the next wider dtype. That needs the input: in place, and in int64, it is an `IntegerOverflowError`.

Cost: a pass there and one back, and where distances may come near the value one look more. The bits are exact.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from semiring.algebra.catalogue import min_plus
from semiring.arrays.encoding import inner_zero, widen
from semiring.arrays.parts import parts, some
from semiring.chain.problem import Again, Facts, No, Problem, Reduction
from semiring.errors import IntegerOverflowError
from semiring.namespaces import is_device_array

if TYPE_CHECKING:
    from semiring.chain.planner import Node

__all__ = ["Near", "integers"]

_OVERWRITTEN = "the input is overwritten: pass {}, or do not compute in place"


@dataclass(frozen=True)
class Near:
    """What closed rows are asked: whether a distance came near "no path". Raises `IntegerOverflowError`."""

    problem: Problem
    largest: int  # weight

    def __call__(self, rows: Any) -> None:
        if self.near(rows):
            _wider(self.problem, self.problem.dtype, _no_room(self.problem) or _OVERWRITTEN)

    def near(self, D: Any) -> bool:
        """Whether a distance lies within ``largest`` of "no path": then a longer one may have been taken for none."""
        none = inner_zero(min_plus, D.dtype)
        bound = D.dtype.type(int(none) - self.largest)
        return some(((D[at] >= bound) & (D[at] < none)).any() for at in parts(D.shape, is_device_array(D)))


def integers(p: Problem) -> No | Reduction:
    """The integers in their own dtype if all weights fit half its range, else in a wider one.

    Raises `IntegerOverflowError` where there is none.
    """
    if p.semiring is not min_plus or p.matrix.sentinel != "masked":
        return No("no integers of min-plus")
    largest = p.known.greatest if p.known.greatest is not None else int(p.matrix.range()[1])
    dtype = p.matrix.array.dtype
    while largest >= int(inner_zero(min_plus, dtype)):
        dtype = _wider(p, dtype, _no_room(p))
    q = _read_in(p.but(Facts(0, largest, True)), dtype)
    why = f"integers, {int(q.matrix.inner)} for “no path” inside"
    if (p.n + 1) * largest < int(q.matrix.inner):  # no distance comes near it
        return Reduction(why, q, quiet=True, by="kind")
    asked = Near(q, largest)
    found = Reduction(why, q, [q], partial(_checked, asked), by_strips=asked, quiet=True)
    return replace(found, by="kind") if p.blank else found


def _no_room(p: Problem) -> str:
    """Why wider integers are forbidden, before anything is written and after."""
    return (
        "" if p.strips is None else f"{p.strips.called} have no room for wider ones: convert {p.strips.whole} to {{}}"
    )


def _checked(asked: Near, node: Node, D: Any) -> Any:
    p = node.inner
    node.children[0].run(D)
    if not asked.near(D):
        return D
    overwritten = p.in_place and p.dtype == p.matrix.array.dtype
    return Again(_read_in(p, _wider(p, p.dtype, _OVERWRITTEN if overwritten else "")))


def _read_in(p: Problem, dtype: np.dtype[Any]) -> Problem:
    """The problem in integers of this dtype; those that need no more are held to "no path" by a minimum."""
    m = p.matrix
    plain = dtype == m.array.dtype and not any(map_.moves for map_ in m.maps)
    return p.but(
        p.facts,
        dtype=dtype,
        inner=dtype.type(inner_zero(min_plus, dtype)),
        sentinel="held" if plain else "masked",
    )


def _wider(p: Problem, dtype: np.dtype[Any], forbidden: str) -> np.dtype[Any]:
    """The dtype in which to do the work again; raises `IntegerOverflowError` where that is impossible, or forbidden."""
    wider = widen(dtype)
    start = (
        f"a weight or path is too long for the half of the range of {dtype} in which {p.request.semiring.name} computes"
    )
    if wider is None:
        raise IntegerOverflowError(f"{start}: use float64, which holds every sum, rounded")
    if forbidden:
        raise IntegerOverflowError(f"{start}, and {forbidden.format(wider)}")
    p.request.explanation.note(f"distances may leave half the range of {dtype}: computed in {wider}")
    return wider
