"""Warn of entries that have another meaning in other conventions.

SciPy's matrices have 0 for "no edge", tables of capacities have ∞, and percentages have 95 for 95 %. Here such entries
are edges, of weight 0 or ∞. The result is then right, but probably not intended. The semiring decides which entries are
suspicious (`_other_zeros`). A matrix is not suspicious if the zero of the semiring occurs off its diagonal.
Cost: some microseconds, and one counting pass for a matrix of more than 65,536 entries without "no edge". For products
of probabilities the results are checked instead, because weights above 1 may be intended if no cycle gains by them.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from semiring.advice import advice, entry_name, matrix_name, option
from semiring.algebra import Semiring
from semiring.algebra.catalogue import max_min, max_plus, min_max, min_plus
from semiring.algebra.expressions.tree import is_floating
from semiring.arrays.scans import PIECE, Scan
from semiring.errors import SuspiciousWeightsWarning

__all__ = [
    "minus_one_hint",
    "stacklevel_of_caller",
    "trust_zeros",
    "warn_of_other_zeros",
    "warn_of_other_zeros_on_device",
    "warn_of_percentages",
]

Array: TypeAlias = Any

_TINY = 1 << 11  # entries up to which NumPy counts numbers as fast as it compares them
_FEW = 1 << 16  # a matrix of more entries is counted only if a sample of its rows is suspicious
_SAMPLE = 1 << 13  # the entries of the sample, which takes 4 µs
_VERTICES = 64  # the vertices of a matrix on a GPU that are copied to the host
_PAIRS = 32  # the pairs of vertices at distance 0 whose rows are compared
_SILENCE = 'warnings.simplefilter("ignore", semiring.errors.SuspiciousWeightsWarning)'
_reduce_min, _reduce_max = np.minimum.reduce, np.maximum.reduce
_NEAR = 8  # rounded distances from one place differ by at most an eighth of the longest distance


_zeros_are_trusted: ContextVar[bool] = ContextVar("semiring_zeros_are_trusted", default=False)


@contextmanager
def trust_zeros() -> Iterator[None]:
    """Warn of no entries in the body: it closes matrices that the library made of lists of edges."""
    token = _zeros_are_trusted.set(True)
    try:
        yield
    finally:
        _zeros_are_trusted.reset(token)


class _Suspect(NamedTuple):
    """A value that may stand for "no edge", and how many entries off the diagonal make it suspicious."""

    value: Any
    min_count: int  # the number of such entries that is suspicious
    needs_majority: bool = False  # whether two thirds of all entries off the diagonal must be equal to it
    best: Any = None  # the reduction that returns the best weight of an array


def warn_of_other_zeros(A: Array, semiring: Semiring) -> None:
    """Warn if edges of A (..., n, n), in the memory of the host, probably mean "no edge" in another convention.

    Only the first matrices of a stack are examined: at least one, and at most 65,536 entries if there are several.
    """
    n = A.shape[-1]
    suspects = _other_zeros(semiring, A.dtype)
    if not suspects or n < 2 or not A.size or _zeros_are_trusted.get():
        return
    matrices = A if A.ndim == 2 else A[(0,) * (A.ndim - 3)][: max(1, _FEW // (n * n))]
    if matrices.size > _FEW:  # only one matrix may have so many entries
        rows = matrices.reshape(n, n)[:: 1 + n * n // _SAMPLE]
        if np.count_nonzero(rows == semiring.zero_for(A.dtype)) > len(rows):  # a row has one entry on the diagonal
            return
        suspects = tuple(
            suspect
            for suspect in suspects
            if not suspect.needs_majority or 3 * np.count_nonzero(rows == suspect.value) >= 2 * len(rows) * (n - 1)
        )
    for suspect in suspects:
        if _occurs_often(matrices, suspect):
            if _count_edges(matrices, semiring.zero_for(A.dtype)):
                return
            for place, matrix in enumerate(matrices.reshape(-1, n, n)):
                if _is_suspicious(matrix, suspect):
                    position = (*[0] * (A.ndim - 3), *[place] * (A.ndim > 2), *_first_edge(matrix, suspect.value))
                    message = _message(suspect, semiring, A.dtype, position)
                    warnings.warn(message, SuspiciousWeightsWarning, stacklevel=stacklevel_of_caller())
                    return


def warn_of_other_zeros_on_device(A: Array, semiring: Semiring, scan: Scan) -> None:
    """Warn of an array (..., n, n) on a GPU, whose entries have been scanned already.

    If the zero of the semiring does not occur, and a suspicious value may occur, the first vertices are copied to the
    host and examined there. Otherwise the call does not wait.
    """
    zero, suspects = semiring.zero_for(A.dtype), _other_zeros(semiring, A.dtype)
    if scan.has_zero or scan.low is None or zero in (scan.low, scan.high) or _zeros_are_trusted.get():
        return
    greatest = np.inf if scan.high is None else scan.high
    if any(scan.low <= suspect.value <= greatest for suspect in suspects):
        few = max(1, _SAMPLE // _VERTICES**2)
        A = A if A.ndim == 2 else A[(0,) * (A.ndim - 3)][:few]
        warn_of_other_zeros(A[..., :_VERTICES, :_VERTICES].get(), semiring)


def _occurs_often(matrices: Array, suspect: _Suspect) -> bool:
    """Return whether a value occurs off the diagonals of (..., n, n) so often that they have to be examined."""
    if suspect.value != 0:
        with np.errstate(invalid="ignore"):  # a NaN of bfloat16; the scan of the entries reports it
            if _reduce_max(matrices, None) < suspect.value:
                return False
    return _count_edges(matrices, suspect.value) >= suspect.min_count


@lru_cache(maxsize=256)
def _other_zeros(semiring: Semiring, dtype: np.dtype[Any]) -> tuple[_Suspect, ...]:
    """Return the values other than the zero of the semiring that may mean "no edge": 0 and ∞.

    The best possible weight is suspicious wherever it occurs. That is 0 if ⊕ is min and no weight is below 0, and 0 in
    max-plus if no weight is above 0. Such a 0 must occur twice, because one 0 may be an edge. The best weight is ∞ if ⊕
    is max, and one ∞ suffices. In other cases, such as capacities of 0, most edges must be equal.
    """
    if dtype.kind != "i" and not is_floating(dtype):
        return ()
    infinity = np.inf if is_floating(dtype) else np.iinfo(dtype).max
    zero = semiring.zero_for(dtype)
    twice = semiring in (min_plus, min_max, max_plus)
    best = _reduce_max if semiring == max_plus else _reduce_min
    suspects = (
        _Suspect(dtype.type(0), 2 if twice else 1, needs_majority=not twice, best=best),
        _Suspect(dtype.type(infinity), 1, needs_majority=semiring not in (max_min, max_plus)),
    )
    return tuple(suspect for suspect in suspects if suspect.value != zero)


def _count(array: Array, value: Any) -> int:
    """Return how many entries are equal to a value."""
    if value == 0 and array.size <= _TINY:
        return int(array.size - np.count_nonzero(array))
    if array.nbytes <= PIECE:
        return int(np.count_nonzero(array == value))  # NumPy counts truth values three times as fast as numbers
    rows = max(1, PIECE * len(array) // array.nbytes)
    return sum(int(np.count_nonzero(array[i : i + rows] == value)) for i in range(0, len(array), rows))


def _count_edges(matrices: Array, value: Any) -> int:
    """Return how many entries off the diagonals of (..., n, n) are equal to a value."""
    count = _count(matrices, value)
    return count and count - _count(matrices.diagonal(0, -2, -1), value)


def _first_edge(matrix: Array, value: Any) -> tuple[int, int]:
    """Return the position of the first entry off the diagonal of a matrix that is equal to a value."""
    for i, row in enumerate(matrix):
        columns = np.flatnonzero(row == value)
        if (columns := columns[columns != i]).size:
            return i, int(columns[0])
    raise AssertionError("no entry off the diagonal has the value")


def _is_suspicious(matrix: Array, suspect: _Suspect) -> bool:
    """Return whether equal entries of a matrix without the zero of the semiring probably mean "no edge"."""
    count, edges = _count_edges(matrix, suspect.value), len(matrix) * (len(matrix) - 1)
    if count < suspect.min_count or (suspect.needs_majority and 3 * count < 2 * edges):
        return False
    if suspect.value != 0:
        return not suspect.needs_majority or count < edges
    if count == edges:  # the matrix may have no edges, or all edges of weight 0
        return False
    if suspect.needs_majority or 3 * count >= 2 * edges:
        return True
    # Among weights of both signs, 0 may be a weight. If it means no edge, some cycle nearly always gains.
    return suspect.best(matrix, None) == 0 and not _may_be_distances(matrix, edges - count)


def _may_be_distances(matrix: Array, positive: int) -> bool:
    """Return whether the zeros of a matrix may be distances between vertices at one place, whose rows then agree.

    For some zeros off the diagonal, the function tests whether the two vertices have equal rows and equal columns, up
    to the rounding of distances. If all other edges (``positive`` counts them) have one weight, the matrix is more
    likely an adjacency matrix.
    """
    n = len(matrix)
    for step in (1 + n * n // _FEW, 1):
        tails, heads = np.nonzero(matrix[::step] == 0)
        tails = tails * step
        tails, heads = tails[tails != heads], heads[tails != heads]
        if tails.size:
            break
    chosen = np.linspace(0, len(tails) - 1, min(_PAIRS, len(tails))).astype(np.intp)
    i, j, each = tails[chosen], heads[chosen], np.arange(len(chosen))
    with np.errstate(invalid="ignore"):  # ∞ - ∞ is NaN, and such a pair does not agree
        for distances in (matrix, matrix.T):
            one, other = distances[i].astype(np.float64), distances[j].astype(np.float64)
            one[each, i], one[each, j] = 0, 0
            other[each, i], other[each, j] = distances[j, i], 0  # the distance back is 0 too
            longest = np.maximum(np.abs(one).max(1), np.abs(other).max(1))
            if not (np.abs(one - other).max(1) <= longest / _NEAR).all():
                return False
    k = int(np.argmax(one[0] != 0))
    return _count_edges(matrix, matrix[k, i[0]]) < positive


def _message(suspect: _Suspect, semiring: Semiring, dtype: np.dtype[Any], position: tuple[int, ...]) -> str:
    """Return the warning about a suspicious value. ``position`` is that of its first occurrence off the diagonal."""

    def name(x: Any) -> tuple[str, str]:
        if x == 0:
            return "0", "0"
        if is_floating(dtype):
            return ("∞", "np.inf") if x > 0 else ("-∞", "-np.inf")
        return str(x), f"np.iinfo(A.dtype).{'max' if x > 0 else 'min'}"

    (text, written), (zero, zero_written) = name(suspect.value), name(semiring.zero_for(dtype))
    remedy = advice(
        f"pass np.where(A == {written}, {zero_written}, A), for a frame A.mask(A == {written}, {zero_written}), which "
        "keeps its labels",
        f"write {zero_written.removeprefix('np.')} for no edge, or leave these edges out of a list",
    )
    return (
        f"entries of {matrix_name()} off the diagonal are {text}, none is {zero}: in {semiring.name}, {text} is the "
        f"weight of an edge, and {zero} is no edge. If {text} means no edge, {remedy}. If it is a weight, "
        f"{_silencing_advice()}. An example is {entry_name(*position)}"
    )


def _silencing_advice() -> str:
    """Return the part of the message that says how to silence the warning."""
    return f"pass {option('check', False)}{advice(f', or call {_SILENCE}', '')}"


def minus_one_hint(weights: Array, *, integers: bool = False) -> str:
    """Return a hint for the error about a negative cycle: if every negative weight is -1, it may mean no edge."""
    negative = weights[weights < 0]
    if not negative.size or not (negative == -1).all():
        return ""
    none = "np.iinfo(A.dtype).max" if integers else "np.inf"
    remedy = advice(f"pass np.where(A == -1, {none}, A)", "write inf, or leave these edges out of a list")
    return f" (if -1 means no edge, {remedy})"


def warn_of_percentages(products: Array) -> None:
    """Warn if a product of probabilities, in the memory of the host, is above 1, as with 95 for 95 %."""
    greatest = float(products.max()) if products.size else 0.0
    if greatest > 1:
        warnings.warn(
            f"the most reliable of these paths has the product {greatest:.6g}, and probabilities lie in [0, 1]. If the "
            f"weights are percentages, {advice('pass A / 100', 'divide them by 100')}. If they are factors that gain, "
            f"{_silencing_advice()}",
            SuspiciousWeightsWarning,
            stacklevel=stacklevel_of_caller(),
        )


def stacklevel_of_caller() -> int:
    """Return the ``stacklevel`` for `warnings.warn` of the first frame outside this package."""
    frame, level = sys._getframe(2), 2
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "semiring":
        frame, level = frame.f_back, level + 1
    return level
