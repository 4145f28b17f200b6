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

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from semiring.algebra.catalogue import min_plus
from semiring.algorithms.potentials.reweighting import reweighting
from semiring.arrays.encoding import inner_zero, widen
from semiring.arrays.parts import parts, some
from semiring.chain.problem import Facts, Look, Problem, Reduction, step
from semiring.chain.steps.reweighted import is_signed, under_potentials, weights_of
from semiring.errors import IntegerOverflowError
from semiring.namespaces import is_device_array

__all__ = ["Near", "integers"]


@dataclass(frozen=True)
class Near:
    """What closed rows are asked: whether a distance came within the ``largest`` weight of "no path".

    Then a longer one may have been taken for none, and the problem must be solved in a wider dtype.
    """

    largest: int

    def __call__(self, p: Problem, D: Any) -> Callable[[], Problem] | None:
        none = inner_zero(min_plus, D.dtype)
        bound = D.dtype.type(int(none) - self.largest)
        near = some(((D[at] >= bound) & (D[at] < none)).any() for at in parts(D.shape, is_device_array(D)))
        return (lambda: _read_in(p, _wider(p, p.dtype, closed=True))) if near else None


@step
def integers(p: Problem) -> Look:
    """The integers in their own dtype if all weights fit half its range, else in a wider one.

    Raises `IntegerOverflowError` where there is none, or where sums of weights may leave the range of int64, and
    `NegativeCycleError`.
    """
    yield p.semiring is not min_plus or p.matrix.sentinel != "masked", "not integers in min-plus"
    if is_signed(p):
        why, p = under_potentials(p, reweighting(weights_of(p), p.request.threads, in_memory=not p.strips))
        p.request.explanation.note(why)
    largest = p.known.greatest if p.known.greatest is not None else int(p.matrix.range()[1])
    dtype = p.matrix.array.dtype
    while largest >= int(inner_zero(min_plus, dtype)):
        dtype = _wider(p, dtype)
    q = _read_in(p.but(Facts(0, largest, True)), dtype)
    why = f"integers, {int(q.matrix.inner)} for “no path” inside"
    far = (p.n + 1) * largest < int(q.matrix.inner)  # no distance comes near it
    return Reduction(why, q, again=None if far else Near(largest), quiet=True)


def _read_in(p: Problem, dtype: np.dtype[Any]) -> Problem:
    """The problem in integers of this dtype; those that need no more are held to "no path" by a minimum."""
    m = p.matrix
    plain = dtype == m.array.dtype and not m.moved
    return p.but(
        p.facts,
        dtype=dtype,
        inner=dtype.type(inner_zero(min_plus, dtype)),
        sentinel="held" if plain else "masked",
    )


def _wider(p: Problem, dtype: np.dtype[Any], *, closed: bool = False) -> np.dtype[Any]:
    """The dtype in which to do the work, again where it was ``closed``.

    Raises `IntegerOverflowError` where there is none, or no room, or nothing left to read.
    """
    wider = widen(dtype)
    start = (
        f"a weight or path is too long for the half of the range of {dtype} in which {p.request.semiring.name} computes"
    )
    if wider is None:
        raise IntegerOverflowError(f"{start}: use float64, which holds every sum, rounded")
    if p.strips is not None:
        raise IntegerOverflowError(
            f"{start}, and {p.strips.called} have no room for wider ones: convert {p.strips.whole} to {wider}"
        )
    if closed and p.in_place and dtype == p.matrix.array.dtype:
        raise IntegerOverflowError(
            f"{start}, and the input is overwritten by the result: pass {wider}, or do not compute in place"
        )
    p.request.explanation.note(f"distances may leave half the range of {dtype}: computed in {wider}")
    return wider
