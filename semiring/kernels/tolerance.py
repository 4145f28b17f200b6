"""Bounds of the rounding error of a path's weight, within which an edge or a path counts as attaining a distance."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from semiring.algebra.expressions import Expression
from semiring.algebra.expressions.tree import float_limits, is_floating
from semiring.errors import AlgebraError
from semiring.kernels.contract import Array, KernelPlan
from semiring.namespaces import array_namespace, is_device_array

_SMALL = 256  # rows of a matrix whose tolerance is kept for the next call of its kind

_EXACT_OPERATIONS = {
    *("min", "max", "and", "or", "xor", "invert", "where", "lt", "le", "gt", "ge", "eq", "ne"),
    *("neg", "abs"),
}
_X, _Y = Expression("var", (), "x"), Expression("var", (), "y")
_PRODUCTS = {Expression("mul", (_X, _Y)), Expression("mul", (_Y, _X))}


@dataclass(frozen=True)
class Tolerance:
    """Bounds of the rounding error between the weight of a path and the distance D[i, j].

    Each limit is a pair (a, b) and allows an error below a·|D[i, j]| + b. If ⊗ is exact, all limits are (0, 0).
    """

    tight: tuple[float, float] = (0.0, 0.0)  # the limit for D[i, p] ⊗ w(p, j): such an edge may end a best path
    loose: tuple[float, float] = (0.0, 0.0)  # the limit if the path is also added up and compared with ``bound``
    bound: tuple[float, float] = (0.0, 0.0)  # the limit for the sum of a whole path
    is_relative: bool = False  # whether errors add up in units of |D[i, j]|

    @property
    def is_exact(self) -> bool:
        """Whether ⊗ is exact, so that a path must attain the distance exactly."""
        return self.bound == (0.0, 0.0)

    def meets(self, x: Array, y: Array) -> Array:
        """Return entry by entry whether a path's sum x is the distance y, up to ``bound``."""
        with np.errstate(all="ignore"):
            is_met: Array = x == y
            if not self.is_exact:
                is_met = is_met | (np.abs(x - y) < self.bound[0] * np.abs(y) + self.bound[1])
        return is_met


def depends_on_distances(plan: KernelPlan) -> bool:
    """Return whether the tolerance depends on the largest distance of a matrix, beside its size."""
    mul = plan.semiring.mul.expression
    if not is_floating(plan.dtype) or mul.operations <= _EXACT_OPERATIONS or mul in _PRODUCTS:
        return False
    return plan.semiring.tropical is None or not plan.facts.nonnegative


def tolerance_for(plan: KernelPlan, D: Array) -> Tolerance:
    """Return the rounding error that the entries of D (…, n, n), closures under ``plan``, may have."""
    rows = D.shape[-1]
    known: Tolerance | None = plan.memo.get(("tolerance", rows))  # of small matrices
    return known or tolerance_of(plan, rows, _largest(D) if depends_on_distances(plan) else 0.0)


def tolerance_of(plan: KernelPlan, rows: int, largest: float) -> Tolerance:
    """Return the rounding error of a closure of so many rows, whose largest finite entry has the magnitude ``largest``.

    The error is 0 on integers, and if ⊗ only selects. If ⊗ is a product, or a sum of numbers ≥ 0, the error is relative
    to an entry. Otherwise its unit is the largest finite entry of D, or 1 if that entry is smaller.
    """
    mul = plan.semiring.mul.expression
    if not is_floating(plan.dtype) or mul.operations <= _EXACT_OPERATIONS:
        return Tolerance()
    limits = float_limits(plan.dtype)
    # Closures of long doubles use potentials in float64. Their trees have the least errors for any tolerance.
    n, epsilon = max(2, rows), max(float(limits.eps), float(np.finfo(np.float64).eps))
    product = mul in _PRODUCTS
    floor = float(limits.smallest_subnormal) * n if product else 0.0
    if depends_on_distances(plan):
        summing = plan.semiring.tropical is not None
        floor = epsilon * max(1.0, largest)
        # With mixed signs, weights under potentials and the distances from them are rounded too.
        rounded = 8 if summing else 1
        bound = (n * epsilon / 2, rounded * n * floor / 2)
        return Tolerance((epsilon, rounded * floor), (16 * epsilon, 16 * floor), bound)
    found = Tolerance((epsilon, floor), (16 * epsilon, floor), (n * epsilon / 2, floor), product)
    if n <= _SMALL:
        plan.memo["tolerance", rows] = found
    return found


def _largest(D: Array) -> float:
    """Return the magnitude of the largest finite entry, or 0 if there is none."""
    if is_device_array(D):
        xp = array_namespace(D)
        return float(xp.where(xp.isfinite(D), xp.abs(D), 0).max()) if D.size else 0.0
    return float(np.max(np.abs(D), initial=0.0, where=np.isfinite(D)))


def unattained_distance(plan: KernelPlan) -> AlgebraError:
    """Return the error for a distance that is not the weight of a path.

    In a semiring every distance is the weight of a path, up to rounding.
    """
    return AlgebraError(
        f"an entry of the closure in {plan.semiring.name} on {plan.dtype} is not the weight of a path, even "
        "up to rounding: validate the semiring by check_axioms()"
    )
