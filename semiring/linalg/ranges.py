"""Detect results of plus_times that may leave an integer dtype, because NumPy's arithmetic would wrap.

The scans of the operands bound the results. If the bound is more than the dtype holds, the magnitudes of the terms are
added up in float64, which costs as much as the product. If these sums do not fit either, the call is refused, although
terms of both signs might cancel. `semiring.arrays.encoding` handles integers of min_plus and max_plus.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from semiring.algebra import Semiring
from semiring.algebra.catalogue import plus_times
from semiring.arrays.scans import Scan, limits_of
from semiring.errors import IntegerOverflowError
from semiring.namespaces import Array, array_namespace

__all__ = ["demand_range", "magnitudes", "may_wrap", "scanned_magnitude"]


def may_wrap(semiring: Semiring, dtype: np.dtype[Any]) -> bool:
    """Return whether results of this semiring may leave the dtype without an error."""
    return dtype.kind == "i" and semiring == plus_times


def scanned_magnitude(scan: Scan) -> int:
    """Return the largest magnitude of the scanned entries; 0 if the scan has no range."""
    return max((abs(int(end)) for end in (scan.low, scan.high) if end is not None), default=0)


def magnitudes(array: Any) -> Any:
    """Return the magnitudes of the entries in float64."""
    return array_namespace(array).abs(array.astype(np.float64))


def demand_range(dtype: np.dtype[Any], bound: int, compute_sums: Callable[[], Array], result_name: str) -> None:
    """Raise `IntegerOverflowError` if both ``bound`` and the greatest of the sums leave the dtype."""
    limit = limits_of(dtype).max
    if bound <= limit:
        return
    greatest = float(compute_sums().max())
    margin = 1e-9 if greatest > 2**53 else 0.0  # exceeds the rounding of any sum whose terms fit memory
    if greatest * (1 + margin) > limit:
        raise IntegerOverflowError(
            f"{result_name} may leave {dtype}: the sizes of its terms add up to {greatest:.6g}. Use "
            f"{'float64' if dtype.itemsize == 8 else 'int64 or float64'}. With check=False they are computed modulo "
            f"2^{8 * dtype.itemsize}, as NumPy does"
        )
