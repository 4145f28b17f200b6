"""Warn of entries that have another meaning in other conventions.

SciPy's matrices have 0 for "no edge", tables of capacities have ∞, adjacency lists -1, and percentages have 95 for
95 %. Here such entries are edges, of weight 0, ∞ or -1. The result is then right, but probably not intended. A matrix
is not suspicious if the zero of the semiring occurs off its diagonal. Cost: some microseconds, and one pass for a
matrix with suspicious entries. For products of probabilities the results are checked instead, because weights above 1
may be intended if no cycle gains by them.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from functools import lru_cache
from math import isinf
from typing import Any

import numpy as np

from semiring.advice import advice, entry_name, matrix_name, option
from semiring.algebra import Semiring
from semiring.algebra.expressions.tree import is_floating
from semiring.arrays.scans import PIECE, Scan, limits_of
from semiring.errors import SuspiciousWeightsWarning
from semiring.namespaces import Array

__all__ = [
    "has_zero_edges",
    "stacklevel_of_caller",
    "trust_zeros",
    "warn_of_other_zeros",
    "warn_of_other_zeros_on_device",
    "warn_of_percentages",
]


_SAMPLE = 1 << 13  # the entries of a matrix that are examined, which takes 4 µs
_NO_WARNING = nullcontext()  # for dtypes of NumPy, whose minima never warn: `numpy.errstate` takes two microseconds
_VERTICES = 64  # the vertices of a matrix on a GPU that are copied to the host
_SILENCE = 'warnings.simplefilter("ignore", semiring.errors.SuspiciousWeightsWarning)'


_zeros_are_trusted: ContextVar[bool] = ContextVar("semiring_zeros_are_trusted", default=False)


@contextmanager
def trust_zeros() -> Iterator[None]:
    """Warn of no entries in the body: it closes matrices that the library made of lists of edges."""
    token = _zeros_are_trusted.set(True)
    try:
        yield
    finally:
        _zeros_are_trusted.reset(token)


def warn_of_other_zeros(A: Array, semiring: Semiring) -> None:
    """Warn if edges of A (..., n, n), in the memory of the host, probably mean "no edge" in another convention.

    Evenly spaced rows are examined, `_SAMPLE` entries. A suspicious value among them is reported if the zero of the
    semiring occurs nowhere off the diagonals.
    """
    n = A.shape[-1]
    if n < 2 or not A.size or _zeros_are_trusted.get() or not (A.dtype.kind in "if" or is_floating(A.dtype)):
        return
    if n != 3 and not _has_infinite_zero(semiring):
        return
    A = A if A.ndim == 2 else A[(0,) * (A.ndim - 3)][: 1 + _SAMPLE // (n * n)]
    rows = slice(None, None, 1 + n * n // _SAMPLE)
    sample, diagonal = A[..., rows, :], A.diagonal(0, -2, -1)[..., rows]

    zero = semiring.zero_for(A.dtype)
    value = _find_suspicious(sample, diagonal, semiring, zero)
    if value is not None and not _occurs(A, zero):
        _warn(_message(value, semiring, A, zero))
    elif n == 3 and A.ndim == 2 and may_list_edges(A, zero):
        _warn(
            f"{matrix_name()} has three rows of three integers, and is read as a matrix. If its rows are edges, pass "
            "semiring.as_network(A, columns=(0, 1)), for a frame with two titles. If it is a matrix, "
            f"{_silencing_advice()}"
        )


def has_zero_edges(A: Array) -> bool:
    """Return whether two or more entries of A (n, n) off the diagonal are 0.

    Otherwise `warn_of_other_zeros` finds nothing suspicious in floats ≥ 0 of min-plus, except three rows that
    `may_list_edges`. This answer takes a tenth of its time.
    """
    zeros, on_diagonal = A.size - np.count_nonzero(A), len(A) - np.count_nonzero(A.diagonal())
    return bool(zeros - on_diagonal >= 2)


def _find_suspicious(sample: Array, diagonal: Array, semiring: Semiring, zero: Any) -> Any:
    """Return a value that probably means "no edge" in entries without the ``zero`` of the semiring, or None.

    The zero is infinite. The value is ∞, if that is not the zero. It is a 0 that is the best of all weights and
    occurs twice, because one 0 may be the weight of an edge, or a 0 that is the worst weight, of two thirds of the
    edges. It is -1 for a tenth of the edges, if no other weight is negative. Some edge has another weight.

    The range of the sample excludes nearly all of these values, so few samples are compared with a value.
    """
    if not _has_infinite_zero(semiring):
        return None
    dtype = sample.dtype
    # NumPy warns of a NaN of bfloat16. The scan of the entries reports it.
    with _NO_WARNING if dtype.kind in "if" else np.errstate(invalid="ignore"):
        low, high = np.fmin.reduce(sample, None), np.fmax.reduce(sample, None)

    def count(value: Any) -> int:
        """Return how many entries of the sample off the diagonals are equal to a value."""
        return int(np.count_nonzero(sample == value) - np.count_nonzero(diagonal == value))

    infinite = limits_of(dtype).max if dtype.kind == "i" else dtype.type(np.inf)
    if zero in (low, high) and count(zero):
        return None
    if zero != infinite == high and count(infinite):
        return infinite
    edges = sample.size - diagonal.size
    if low == 0 or high == 0:
        least = 2 if semiring.add(low, high) == 0 else 2 * edges / 3
        return dtype.type(0) if least <= count(0) < edges else None
    if (
        low == -1
        and semiring.domain.contains(low)
        and edges / 10 <= count(-1) < edges
        and not ((sample < 0) & (sample != -1)).any()
    ):
        return dtype.type(-1)
    return None


@lru_cache(maxsize=1024)
def _has_infinite_zero(semiring: Semiring) -> bool:
    return semiring.zero.op == "const" and isinf(semiring.zero.leaf or 0)  # type: ignore[arg-type]  # a Constant


def _occurs(A: Array, value: Any) -> bool:
    """Return whether a value occurs off the diagonals of (..., n, n)."""
    on_diagonal = np.count_nonzero(A.diagonal(0, -2, -1) == value)
    rows = max(1, PIECE * len(A) // A.nbytes)
    count = sum(np.count_nonzero(A[i : i + rows] == value) for i in range(0, len(A), rows))
    return bool(count > on_diagonal)


def may_list_edges(A: Array, zero: Any) -> bool:
    """Return whether a 3 × 3 matrix may be three rows (source, target, weight): see `as_network`.

    Its first two columns are all vertices from 0 or 1 on, no row is a loop, and an entry of the diagonal is an edge.
    """
    rows = A.tolist()  # nine numbers: Python compares them in a tenth of NumPy's time
    used = {end for row in rows for end in row[:2]}
    return (
        used in ({0, 1, 2}, {1, 2, 3}, {0, 1, 2, 3}, {1, 2, 3, 4})
        and all(row[0] != row[1] for row in rows)
        and any(rows[i][i] not in (0, zero) for i in range(3))
    )


def warn_of_other_zeros_on_device(A: Any, semiring: Semiring, scan: Scan) -> None:
    """Warn of an array (..., n, n) on a GPU, whose entries have been scanned already.

    If the zero of the semiring does not occur, and a suspicious value may occur, the first vertices are copied to the
    host and examined there. Otherwise the call does not wait.
    """
    zero = semiring.zero_for(A.dtype)
    if scan.has_zero or scan.low is None or zero in (scan.low, scan.high) or _zeros_are_trusted.get():
        return
    if scan.low <= 0 or scan.high is None or np.isinf(float(scan.high)):
        A = A if A.ndim == 2 else A[(0,) * (A.ndim - 3)][: _SAMPLE // _VERTICES**2]
        warn_of_other_zeros(A[..., :_VERTICES, :_VERTICES].get(), semiring)


def _message(value: Any, semiring: Semiring, A: Array, zero: Any) -> str:
    """Return the warning about a suspicious value of (..., n, n)."""

    def name(x: Any) -> tuple[str, str]:
        if x in (0, -1):
            return f"{x:g}" if is_floating(A.dtype) else str(x), str(int(x))
        if is_floating(A.dtype):
            return ("∞", "np.inf") if x > 0 else ("-∞", "-np.inf")
        return str(x), f"np.iinfo(A.dtype).{'max' if x > 0 else 'min'}"

    (text, written), (zero_text, zero_written) = name(value), name(zero)
    places = np.argwhere((value == A) & ~np.eye(A.shape[-1], dtype=bool))
    remedy = advice(
        f"pass np.where(A == {written}, {zero_written}, A), for a frame A.mask(A == {written}, {zero_written}), which "
        "keeps its labels",
        f"write {zero_written.removeprefix('np.')} for no edge, or leave these edges out of a list",
    )
    return (
        f"entries of {matrix_name()} off the diagonal are {text}, none is {zero_text}: in {semiring.name}, {text} is "
        f"the weight of an edge, and {zero_text} is no edge. If {text} means no edge, {remedy}. If it is a weight, "
        f"{_silencing_advice()}. An example is {entry_name(*map(int, places[0]))}"
    )


def _silencing_advice() -> str:
    """Return the part of the message that says how to silence the warning."""
    return f"pass {option('check', False)}{advice(f', or call {_SILENCE}', '')}"


def _warn(message: str) -> None:
    warnings.warn(message, SuspiciousWeightsWarning, stacklevel=stacklevel_of_caller())


def warn_of_percentages(products: Array) -> None:
    """Warn if a product of probabilities, in the memory of the host, is above 1, as with 95 for 95 %."""
    greatest = float(products.max()) if products.size else 0.0
    if greatest > 1:
        _warn(
            f"the most reliable of these paths has the product {greatest:.6g}, and probabilities lie in [0, 1]. If the "
            f"weights are percentages, {advice('pass A / 100', 'divide them by 100')}. If they are factors that gain, "
            f"{_silencing_advice()}"
        )


def stacklevel_of_caller() -> int:
    """Return the ``stacklevel`` for `warnings.warn` of the first frame outside this package."""
    frame, level = sys._getframe(2), 2
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "semiring":
        frame, level = frame.f_back, level + 1
    return level
