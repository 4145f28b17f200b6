"""What rounding may do to the weight of a path: when an edge or a path counts as attaining a distance."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from semiring.algebra.expressions import Expression
from semiring.algebra.expressions.tree import float_limits, is_floating
from semiring.errors import AlgebraError
from semiring.kernels.contract import KernelPlan
from semiring.namespaces import array_namespace, is_device_array

__all__ = ["Tolerance", "tolerance_for", "unattained"]

Array: TypeAlias = NDArray[Any]

_EXACT = {"min", "max", "and", "or", "xor", "invert", "where", "lt", "le", "gt", "ge", "eq", "ne", "neg", "abs"}
_X, _Y = Expression("var", (), "x"), Expression("var", (), "y")
_PRODUCTS = {Expression("mul", (_X, _Y)), Expression("mul", (_Y, _X))}


@dataclass(frozen=True)
class Tolerance:
    """How far rounding may take the weight of a path from the distance D[i, j].

    Each limit is a pair (a, b), and means: by less than a·|D[i, j]| + b. Where ⊗ is exact, all are (0, 0).
    """

    tight: tuple[float, float] = (0.0, 0.0)  # for D[i, p] ⊗ w(p, j): such an edge may end a best path
    loose: tuple[float, float] = (0.0, 0.0)  # the same, where the path is added up and compared with ``bound`` as well
    bound: tuple[float, float] = (0.0, 0.0)  # for the sum of a whole path
    relative: bool = False  # whether errors add up in units of |D[i, j]|
    one_is_exact: bool = True  # whether 1̄ ⊗ x is x, bit by bit

    @property
    def exact(self) -> bool:
        return self.bound == (0.0, 0.0)

    def meets(self, x: Array, y: Array) -> Array:
        """Entry by entry, whether a path's sum x is the distance y."""
        with np.errstate(all="ignore"):
            met: Array = x == y
            if not self.exact:
                met = met | (np.abs(x - y) < self.bound[0] * np.abs(y) + self.bound[1])
        return met


def tolerance_for(plan: KernelPlan, D: Array) -> Tolerance:
    """What rounding may have done to the entries of D, a closure under ``plan``.

    It does nothing on integers and where ⊗ only selects. The error is relative to an entry where ⊗ is a product, or a
    sum of numbers ≥ 0; otherwise its unit is the largest finite entry of D, or 1 where that is less.
    """
    mul = plan.semiring.mul.expression
    if not is_floating(plan.dtype) or mul.operations <= _EXACT:
        return Tolerance()
    limits = float_limits(plan.dtype)
    # (Long doubles have potentials in float64. Their trees miss distances the least, whatever is allowed.)
    n, epsilon = max(2, D.shape[0]), max(float(limits.eps), float(np.finfo(np.float64).eps))
    product = mul in _PRODUCTS
    floor = float(limits.smallest_subnormal) * n if product else 0.0
    summing = plan.semiring.tropical is not None
    if not product and not (summing and plan.facts.nonnegative):
        floor = epsilon * max(1.0, _largest(D))
        rounded = 8 if summing else 1  # mixed signs: weights under potentials, and the way back, are rounded as well
        bound = (n * epsilon / 2, rounded * n * floor / 2)
        return Tolerance((epsilon, rounded * floor), (16 * epsilon, 16 * floor), bound, False, summing)
    return Tolerance((epsilon, floor), (16 * epsilon, floor), (n * epsilon / 2, floor), product)


def _largest(D: Array) -> float:
    """The size of the largest finite entry, 0 without one."""
    if is_device_array(D):
        xp = array_namespace(D)
        return float(xp.where(xp.isfinite(D), xp.abs(D), 0).max()) if D.size else 0.0
    return float(np.max(np.abs(D), initial=0.0, where=np.isfinite(D)))


def unattained(plan: KernelPlan) -> AlgebraError:
    """The error where a distance is not the weight of any path, which in a semiring it always is, up to rounding."""
    return AlgebraError(
        f"an entry of the closure in {plan.semiring.name} on {plan.dtype} is not the weight of a path, even "
        "up to rounding: validate the semiring by check_axioms()"
    )
