"""Reduce rows of A* for `Factor.rows` by named functions, so that n² entries are never held.

A reduction takes the numbers of k vertices and their rows (k, n), which it may overwrite, and returns an array (k, …).
The worst value of a row does not depend on the order of its entries, so the solver computes it with the rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from semiring.advice import quote
from semiring.algebra import Semiring
from semiring.arguments import is_one_of
from semiring.arrays.folds import farthest_entries
from semiring.errors import AlgebraError, UnknownNameError

__all__ = ["REDUCTIONS", "Reduction", "find_reduction"]

Array = NDArray[Any]
_RowFunction: TypeAlias = Callable[[Array, Array], Any]


@dataclass(frozen=True)
class Reduction:
    """A function that reduces rows, and its requirements."""

    reduce_rows: _RowFunction
    is_builtin: bool = False  # whether it is a function of this module, which takes rows in the memory of the host
    needs_only_worst: bool = False  # whether the worst value of each row suffices


def find_reduction(choice: Any, semiring: Semiring) -> Reduction:
    """Return the reduction of a name, of a pair of a name and its argument, or of a function of rows.

    Raises `UnknownNameError`, `AlgebraError` if the ⊕ does not support it, and `ValueError` for an invalid argument.
    """
    if callable(choice):
        return Reduction(lambda _, block: choice(block))
    name, *arguments = choice if isinstance(choice, list | tuple) and choice else (choice,)
    if not isinstance(name, str) or name not in REDUCTIONS:
        raise UnknownNameError("reduction of rows", name, REDUCTIONS)
    if len(arguments) != (name in _WITH_ARGUMENT):
        expected = (
            f"the pair ({quote(name)}, {_WITH_ARGUMENT[name]})" if name in _WITH_ARGUMENT else f"{quote(name)} alone"
        )
        raise ValueError(f"reduce is {quote(choice)}: give {expected}")
    needs_only_worst = name == "eccentricity" and semiring.tropical != "max"
    return Reduction(REDUCTIONS[name](semiring, *arguments), is_builtin=True, needs_only_worst=needs_only_worst)


def _selection_order(semiring: Semiring, name: str, *, sums: bool) -> str:
    """Return "min" or "max", the operation ⊕. Raises `AlgebraError` for another ⊕."""
    op = semiring.add.expression.op
    if not is_one_of(op, ("min", "max")) or (sums and semiring.tropical is None):
        kind = "min_plus and max_plus" if sums else "a ⊕ that is a minimum or a maximum"
        raise AlgebraError(f"{name} is for {kind}, and not for {semiring.name}: give reduce= a function of rows (k, n)")
    return op


def _eccentricity(semiring: Semiring) -> _RowFunction:
    """Return a function for the worst value of each row: 0̄ if a vertex is not reached, in max-plus the greatest."""
    if not semiring.selective:
        raise AlgebraError(f"the ⊕ of {semiring.name} adds paths instead of selecting one, so no path is the worst")
    return lambda _, block: farthest_entries(block, semiring)


def _find_reached(vertices: Array, block: Array, semiring: Semiring) -> Array:
    """Return a mask of the entries that are paths to another vertex."""
    reached: Array = block != semiring.zero_for(block.dtype)
    reached[np.arange(vertices.size), vertices] = False
    return reached


def _mean(semiring: Semiring) -> _RowFunction:
    """Return a function for the mean over the other vertices that are reached, float64; NaN if there are none."""
    _selection_order(semiring, "mean", sums=True)

    def mean(vertices: Array, block: Array) -> Array:
        reached = _find_reached(vertices, block, semiring)
        counts = reached.sum(axis=1)
        sums = block.sum(axis=1, dtype=np.float64, where=reached)
        means: Array = np.divide(sums, counts, out=np.full(counts.size, np.nan), where=counts > 0)
        return means

    return mean


def _closeness(semiring: Semiring) -> _RowFunction:
    """Return a function for (r / (n - 1)) · (r / s), where distances to r other vertices sum to s; 0 for r = 0."""
    _selection_order(semiring, "closeness", sums=True)

    def closeness(vertices: Array, block: Array) -> Array:
        reached = _find_reached(vertices, block, semiring)
        counts = reached.sum(axis=1).astype(np.float64)
        sums = np.abs(block.sum(axis=1, dtype=np.float64, where=reached))
        most, none = max(1, block.shape[1] - 1), np.zeros(counts.size)
        result: Array = np.divide(counts * counts, sums * most, out=none, where=sums > 0)
        return result

    return closeness


def _histogram(semiring: Semiring, bins: Any) -> _RowFunction:
    """Return a function that counts the other vertices with a value in each bin, as `numpy.histogram` does."""
    edges = np.asarray(bins)
    if edges.ndim != 1 or edges.size < 2 or not (edges[1:] >= edges[:-1]).all():
        raise ValueError(f"the edges of bins are an increasing list of two or more, not {quote(bins)}")

    def histogram(vertices: Array, block: Array) -> Array:
        rows = zip(block, _find_reached(vertices, block, semiring), strict=True)
        result = [np.histogram(row[reached], edges)[0] for row, reached in rows]
        return np.array(result, np.int64).reshape(vertices.size, edges.size - 1)

    return histogram


def _nearest(semiring: Semiring, k: Any) -> _RowFunction:
    """Return a function for the k best other vertices, the best first, with ties by number, and -1 for no vertex."""
    sign = 1 if _selection_order(semiring, "nearest", sums=False) == "min" else -1
    if not isinstance(k, int | np.integer) or isinstance(k, bool) or k < 1:
        raise ValueError(f"k counts the nearest, 1 or more, and is {quote(k)}")

    def nearest(vertices: Array, block: Array) -> Array:
        out = np.full((vertices.size, k), -1, np.int64)
        for row, reached, into in zip(block, _find_reached(vertices, block, semiring), out, strict=True):
            ends = np.flatnonzero(reached)
            values = row[ends] if sign > 0 else -row[ends].astype(np.float64 if row.dtype.kind == "u" else row.dtype)
            if ends.size > k:
                close = values <= np.partition(values, k - 1)[k - 1]
                ends, values = ends[close], values[close]
            chosen = ends[np.argsort(values, kind="stable")[:k]]
            into[: chosen.size] = chosen
        return out

    return nearest


#: The functions by the names that ``reduce=`` accepts. The names in `_WITH_ARGUMENT` need an argument.
REDUCTIONS: dict[str, Callable[..., _RowFunction]] = {
    "eccentricity": _eccentricity,
    "mean": _mean,
    "closeness": _closeness,
    "histogram": _histogram,
    "nearest": _nearest,
}
_WITH_ARGUMENT = {"histogram": "the edges of bins", "nearest": "how many"}
