"""Integers of min-plus with another value for "no path" inside: half the range, so that no sum of two entries wraps.

With weights ≥ 0 nothing was lost if no distance lies within one largest weight of that value, for an overlong path has
a prefix there. Otherwise the work is done again in the next wider dtype. That needs the input: in place, and in int64,
it is an `IntegerOverflowError`.

Cost: a pass there and one back, and where distances may come near the value one look more. The bits are exact.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from semiring.algebra.catalogue import min_plus
from semiring.arrays.encoding import inner_zero, widen
from semiring.arrays.parts import parts, some
from semiring.chain.problem import Again, Facts, No, Problem, Reduction
from semiring.errors import IntegerOverflowError
from semiring.namespaces import array_namespace

if TYPE_CHECKING:
    from semiring.chain.planner import Node

__all__ = ["integers"]

_OVERWRITTEN = "the input is overwritten: pass {}, or do not compute in place"
_STRIPS = "strips of a file have no room for wider ones: convert the file to {}"


@dataclass
class _Inside(Reduction):
    largest: int = 0

    @property
    def promised(self) -> bool:  # type: ignore[override]  # of this one
        """Whether no distance comes near “no path”."""
        assert self.mapped is not None
        return (self.mapped.n + 1) * self.largest < int(self.mapped.matrix.inner)

    def run(self, node: Node, D: Any) -> Any:
        (child,) = node.children
        p = child.outer
        child.run(D)
        if self.promised or not _near(p, D, self.largest):
            return D
        return Again(
            _read_in(p, _wider(p, p.dtype, _OVERWRITTEN if p.in_place and p.dtype == p.matrix.array.dtype else ""))
        )

    def by_strips(self) -> Callable[[Any], None]:
        p = self.mapped
        assert p is not None

        def look(rows: Any) -> None:
            if not self.promised and _near(p, rows, self.largest):
                _wider(p, p.dtype, _STRIPS)

        return look


def integers(p: Problem) -> No | Reduction:
    """The integers in their own dtype if all weights fit half its range, else in a wider one.

    Raises `IntegerOverflowError` where there is none.
    """
    if p.semiring is not min_plus or p.matrix.sentinel != "masked":
        return No("no integers of min-plus")
    largest = p.known.greatest if p.known.greatest is not None else _greatest(p)
    dtype = p.matrix.array.dtype
    while largest >= int(inner_zero(min_plus, dtype)):
        dtype = _wider(p, dtype, _STRIPS if p.strips else "")
    q = _read_in(p.but(Facts(0, largest, True)), dtype)
    return _Inside(f"integers, {int(q.matrix.inner)} for “no path” inside", q, [q], True, largest)


def _read_in(p: Problem, dtype: np.dtype[Any]) -> Problem:
    """The problem in integers of this dtype; those that need no more are held to "no path" by a minimum."""
    m = p.matrix
    plain = dtype == m.array.dtype and m.vertices is None and not any(map_.moves for map_ in m.maps)
    return p.but(
        p.facts,
        dtype=dtype,
        inner=dtype.type(inner_zero(min_plus, dtype)),
        sentinel="held" if plain else "masked",
    )


def _greatest(p: Problem) -> int:
    """The greatest weight, as it is read; 0 without one."""
    m, found = p.matrix, 0
    none = int(m.inner)
    for at in parts(m.shape, m.there):
        rows = m.rows(at)
        found = max(found, int(array_namespace(rows).where(rows < none, rows, 0).max()))
    return found


def _near(p: Problem, D: Any, largest: int) -> bool:
    """Whether a distance lies within ``largest`` of "no path": then a longer one may have been taken for none."""
    none = D.dtype.type(int(p.matrix.inner))
    bound = D.dtype.type(int(none) - largest)
    return some(((D[at] >= bound) & (D[at] < none)).any() for at in parts(D.shape, p.matrix.there))


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
