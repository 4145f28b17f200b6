"""Weights under potentials, there and back; the kernels see a non-negative min-plus matrix whatever came in.

Max-plus is min-plus of the negatives, so both share the fast kernels for entries with clear sign bits. All sums are
formed in the dtype of the potentials, and rounded once to the matrix's.

Cost: a pass over the matrix there and one back, for integers two there; workspace one chunk of rows. What is not here:
finding the potentials (`potentials`).
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from semiring.algorithms.views import Array, pieces, put
from semiring.algorithms.weights import Weights
from semiring.errors import DomainError, IntegerOverflowError
from semiring.namespaces import array_namespace, is_device_array

__all__ = ["check_range", "negligible", "reweight", "shift_back"]


@cache
def negligible(dtype: np.dtype[Any]) -> float:
    """What may be added to any finite float of the dtype without leaving its range."""
    limits = np.finfo(dtype)
    return float(limits.max) * float(limits.eps) / 8


def check_range(h: Array, low: float, high: float, dtype: np.dtype[Any]) -> None:
    """Raise `DomainError` where weights from ``low`` to ``high`` under potentials h ≤ 0 might leave a float's range."""
    least = float(h.min()) if h.size else 0.0  # at most 0
    if least >= -negligible(dtype) or max(high, 0.0) / 2 - least / 2 < float(np.finfo(dtype).max) / 2:
        return
    raise DomainError(
        f"weights of both signs up to {max(-low, high):.4g} in size: their sums leave the range of {dtype}. "
        "Scale them down" + ("" if dtype == np.float64 else ", or use float64")
    )


def reweight(weights: Weights, h: Array, out: Array, none: Any) -> int:
    """Reweight: out ← w[i, j] + h[i] - h[j] ≥ 0, and ``none`` where there is no edge; out may be the matrix itself.

    Returns the largest of the new weights where they are integers (0 without one), and otherwise 0. Raises
    `IntegerOverflowError`, before anything is written, where ``out`` cannot hold one of them below ``none``.
    """
    integers = out.dtype.kind == "i"
    largest = 0
    if integers:
        largest = max((int(_finite_max(rows, weights)) for _, rows in _reweighted(weights, h)), default=0)
        if largest >= int(none):
            raise IntegerOverflowError(f"a weight of {largest} under potentials does not fit the inside of {out.dtype}")
    for index, rows in _reweighted(weights, h):
        if integers:
            absent = rows >= weights.no_edge
            put(rows, absent, 0)
            out[index] = rows
            put(out[index], absent, none)
        else:
            out[index] = rows
    return largest


def _finite_max(rows: Array, weights: Weights) -> Any:
    return array_namespace(rows).where(rows < weights.no_edge, rows, 0).max()


def _reweighted(weights: Weights, h: Array) -> Any:
    xp = array_namespace(h)
    for index in pieces(weights.A):
        rows = weights.rows(index)
        absent = rows >= weights.no_edge if weights.work.kind == "i" else None
        if absent is not None:
            put(rows, absent, 0)
        rows += h[index, None] - h
        xp.maximum(rows, 0, out=rows)
        if absent is None:
            rows += 0.0  # no sign bit: -0.0 becomes 0.0, and ∞ stays
        else:
            put(rows, absent, weights.no_edge)
        yield index, rows


def shift_back(D: Array, h: Array | None, sign: int, none: Any, out: Array, zero: Any) -> None:
    """Undo it: out ← ±(D[i, j] - h[i] + h[j]), and ``zero`` where D is ``none``; out may be D itself.

    ``none`` is "no path" in D, ``zero`` in out. A diagonal entry is not shifted. Without potentials (None) only sign
    and "no path" change. Raises `IntegerOverflowError` where a distance does not fit the integers of ``out``.
    """
    shift = _shift_integers if out.dtype.kind == "i" else _shift_floats
    for index in pieces(D):
        offset = None if h is None else h[None, :] - h[index, None]
        part = D[index]
        shift(part, offset, sign, none, part if out is D else out[index], zero)


def _shift_floats(part: Array, offset: Array | None, sign: int, none: Any, out: Array, zero: Any) -> None:
    with np.errstate(over="ignore"):  # a distance beyond the range of the dtype is ∞, as without potentials
        rows = part if offset is None else part + offset
        if sign < 0:
            out[...] = 0.0 - rows
        elif rows is not out:
            out[...] = rows


def _shift_integers(part: Array, offset: Array | None, sign: int, none: Any, out: Array, zero: Any) -> None:
    if offset is None and part.dtype == out.dtype and is_device_array(part):
        from semiring.arrays.device.elements import replace_beyond

        replace_beyond(part, none, zero, out, sign=sign)
        return
    absent = part >= none
    if offset is None and part.dtype == out.dtype:  # a distance below half the range fits, whatever its sign
        if sign < 0:
            array_namespace(part).negative(part, out=out)
        elif part is not out:
            out[...] = part
        put(out, absent, zero)
        return
    rows = part.astype(np.int64)
    if offset is not None:
        rows += offset.astype(np.int64)
    rows *= sign
    put(rows, absent, 0)
    limits = np.iinfo(out.dtype)
    bad = ((rows > limits.max) | (rows < limits.min) | (rows == zero)) & ~absent
    if bad.any():
        worst = int(rows[bad][:1].max())
        raise IntegerOverflowError(
            f"a distance of {worst} does not fit {out.dtype} beside {zero} for no path: use int64 or float64"
        )
    out[...] = rows
    put(out, absent, zero)
