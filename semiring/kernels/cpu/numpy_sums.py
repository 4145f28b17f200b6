"""Compute products of floats with + and × in NumPy, for first calls, rounded as the compiled kernels round them.

The kernels add one term after the other by fused multiply-adds, which round once. NumPy's ``@`` rounds in other places,
and in an order that depends on the shape, the strides and the number of threads. So each step here is a fused
multiply-add that is computed from exact sums and products. A pair takes some 10 ns, hundreds of times as long as by
``@``, and small products still take less time than to compile a kernel.

Sources: S. Boldo, G. Melquiond, "Emulation of a FMA and correctly rounded sums: proved algorithms using rounding to
odd", IEEE Trans. Comput. 57 (2008), for float64; T. J. Dekker, Numer. Math. 18 (1971), for exact products. In float32
the product is exact in float64, and the sum is rounded to odd there.
"""

from __future__ import annotations

import numpy as np

from semiring.kernels.contract import Array, KernelPlan
from semiring.kernels.definition import define

_BLOCK = 1 << 13  # entries of C, so that all arrays of a step stay in the cache
_SPLITTER = 2.0**27 + 1
_LARGEST = 2.0**400  # magnitudes whose products have exact halves; their inverse is the least magnitude


def is_fused(plan: KernelPlan) -> bool:
    """Return whether the compiled products of a plan are sums of fused multiply-adds of float32 or float64."""
    if plan.storage != "elements" or plan.dtype.char not in "fd":
        return False
    definition = define(plan)
    return definition.contract and (definition.add.text, definition.mul.text) == ("x + y", "x * y")


def is_exact(*operands: Array) -> bool:
    """Return whether the steps are exact: all entries are finite, and those of float64 neither huge nor tiny."""
    for operand in operands:
        sizes = np.abs(operand)
        if not np.isfinite(sizes).all():
            return False
        if operand.dtype.char == "d" and ((sizes > _LARGEST) | ((sizes < 1 / _LARGEST) & (sizes > 0))).any():
            return False
    return True


def multiply(C: Array, A: Array, B: Array, accumulate: bool) -> None:
    """Compute C ← [C +] A · B of matrices or stacks, in the order of k. C shares no memory with A or B."""
    if C.ndim == 3:
        for matrices in zip(C, A, B, strict=True):
            multiply(*matrices, accumulate)
        return
    if not accumulate:
        C[...] = 0
    step, (m, n) = _step_of_single if C.dtype.char == "f" else _step_of_double, C.shape
    width = min(n, _BLOCK)
    height = max(1, _BLOCK // width)
    with np.errstate(all="ignore"):
        for top in range(0, m, height):
            for left in range(0, n, width):
                c = C[top : top + height, left : left + width].astype(np.float64)
                a, b = A[top : top + height].astype(np.float64), B[:, left : left + width].astype(np.float64)
                for k in range(A.shape[1]):
                    c = step(a[:, k : k + 1], b[k : k + 1], c)
                C[top : top + height, left : left + width] = c


def _two_sum(x: Array, y: Array) -> tuple[Array, Array]:
    """Return the rounded sum and its error."""
    total = x + y
    rest = total - x
    return total, (x - (total - rest)) + (y - rest)


def _sum_to_odd(x: Array, y: Array) -> Array:
    """Return a sum, rounded to the neighbour whose last bit is set if it is not exact."""
    total, error = _two_sum(x, y)
    bits = total.view(np.int64)
    is_even = (error != 0) & ((bits & 1) == 0)
    bits += np.where((error > 0) == (total > 0), 1, -1) * is_even
    return total


def _step_of_single(a: Array, b: Array, c: Array) -> Array:
    """Return a · b + c, rounded once to float32, of float64 that are float32."""
    return _sum_to_odd(a * b, c).astype(np.float32).astype(np.float64)


def _split(x: Array) -> tuple[Array, Array]:
    """Return two halves of a number, each of at most 26 bits."""
    large = x * _SPLITTER
    high = large - (large - x)
    return high, x - high


def _step_of_double(a: Array, b: Array, c: Array) -> Array:
    """Return a · b + c, rounded once."""
    (high_a, low_a), (high_b, low_b) = _split(a), _split(b)
    product = a * b
    error = low_a * low_b - (((product - high_a * high_b) - low_a * high_b) - high_a * low_b)
    upper, lower = _two_sum(c, error)
    total, rest = _two_sum(product, upper)
    return total + _sum_to_odd(lower, rest)
