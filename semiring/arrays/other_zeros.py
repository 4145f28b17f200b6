"""Entries that another convention takes for something else: the 0 of SciPy's matrices and the ∞ of tables of capacities
for "no edge", 95 for 95 %.

Zeros are edges here, of weight 0 or ∞, and then every path is: the result is right, and not what was meant. So the
first rows of a matrix are looked at, and where they are suspicious all of it. Cost: some microseconds. Of products of
probabilities the results are looked at, for weights above 1 may have been meant where none gains by them.
"""

from __future__ import annotations

import sys
import warnings
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np

from semiring.algebra import Semiring
from semiring.algebra.expressions.tree import is_floating
from semiring.errors import SuspiciousWeightsWarning

__all__ = ["outside", "warn_of_other_zeros", "warn_of_percentages"]

Array: TypeAlias = Any

_SAMPLE = 1 << 13  # entries: 4 µs


def warn_of_other_zeros(A: Array, semiring: Semiring) -> None:
    """Warn where most edges of A (..., n, n), in the memory of the host, look as if they were meant to be none.

    Two thirds of the entries off the diagonal are 0, or ∞, whatever the diagonal holds; and the zero of the semiring
    does not occur. Of a stack the first matrix is looked at.
    """
    values = _other_zeros(semiring, A.dtype)
    n = A.shape[-1]
    if not values or n < 3 or not A.size:
        return
    matrix = A if A.ndim == 2 else A[(0,) * (A.ndim - 2)]
    rows = matrix[:: 1 + n * n // _SAMPLE]
    for value in values:
        found = np.count_nonzero(rows == value)  # of truths: of numbers it takes three times as long
        if 3 * found >= 2 * len(rows) * (n - 1) and _are_meant(matrix, value, semiring):
            warnings.warn(_message(value, semiring, A.dtype), SuspiciousWeightsWarning, stacklevel=outside())
            return


@lru_cache(maxsize=256)
def _other_zeros(semiring: Semiring, dtype: np.dtype[Any]) -> tuple[Any, ...]:
    """What else could have been meant by "no edge": 0 and ∞, but for the zero of the semiring itself."""
    if dtype.kind != "i" and not is_floating(dtype):
        return ()
    infinity = np.inf if is_floating(dtype) else np.iinfo(dtype).max
    zero = semiring.zero_for(dtype)
    return tuple(value for value in (dtype.type(0), dtype.type(infinity)) if value != zero)


def _are_meant(matrix: Array, value: Any, semiring: Semiring) -> bool:
    """Whether the whole matrix is as suspicious as its first rows."""
    n = len(matrix)
    equal = matrix == value
    count = int(np.count_nonzero(equal)) - int(np.count_nonzero(equal.diagonal()))
    if not 2 * n * (n - 1) <= 3 * count < 3 * n * (n - 1):
        return False
    return not (matrix == semiring.zero_for(matrix.dtype)).any()


def _message(value: Any, semiring: Semiring, dtype: np.dtype[Any]) -> str:
    def name(x: Any) -> tuple[str, str]:
        if x == 0:
            return "0", "0"
        if is_floating(dtype):
            return ("∞", "np.inf") if x > 0 else ("-∞", "-np.inf")
        return str(x), f"np.iinfo(A.dtype).{'max' if x > 0 else 'min'}"

    (said, written), (zero, zero_written) = name(value), name(semiring.zero_for(dtype))
    return (
        f"most entries of A off the diagonal are {said}, none is {zero}: {semiring.name} takes {said} for the weight "
        f"of an edge, and {zero} for no edge; if {said} means no edge, pass np.where(A == {written}, {zero_written}, A)"
        f", and of a frame A.mask(A == {written}, {zero_written}), which keeps its labels; "
        "if it is a weight, as where edges were listed, ignore this SuspiciousWeightsWarning, or say check=False"
    )


def warn_of_percentages(products: Array) -> None:
    """Warn where a product of probabilities is above 1, as of 95 for 95 %. Results are in the memory of the host."""
    greatest = float(products.max()) if products.size else 0.0
    if greatest > 1:
        warnings.warn(
            f"the most reliable of these paths has the product {greatest:.6g}, and probabilities lie in [0, 1]: if the "
            "weights are percentages, pass A / 100; if they are factors that gain, ignore this "
            "SuspiciousWeightsWarning, or say check=False",
            SuspiciousWeightsWarning,
            stacklevel=outside(),
        )


def outside() -> int:
    """The level of the stack, as `warnings.warn` of the caller counts it, of the first frame that is not ours."""
    frame, level = sys._getframe(2), 2
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "semiring":
        frame, level = frame.f_back, level + 1
    return level
