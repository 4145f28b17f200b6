"""Check laws in the arithmetic of a dtype, on every element of a small dtype, or on samples of a large one."""

from __future__ import annotations

import itertools
import math
import zlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from semiring.algebra.verify.intervals import Violation, make_counterexample
from semiring.algebra.verify.polynomials import UndecidedError
from semiring.algebra.verify.report import Rounding, Verdict
from semiring.algebra.verify.statements import Law
from semiring.errors import IntegerOverflowError

if TYPE_CHECKING:
    from semiring.algebra import Semiring

__all__ = ["dtype_verdict", "measure_rounding"]

MAX_TUPLES = 1 << 17  # tuples of elements in an exhaustive check


class ArrayAlgebra:
    """The operations of a semiring on arrays of one dtype."""

    def __init__(self, semiring: Semiring, dtype: np.dtype[Any]) -> None:
        self.semiring, self.dtype = semiring, dtype
        self.zero, self.one = semiring.zero_for(dtype), semiring.one_for(dtype)

    def add(self, x: Any, y: Any) -> Any:
        return self.semiring.add(x, y)

    def mul(self, x: Any, y: Any) -> Any:
        return self.semiring.mul(x, y)

    def raw_mul(self, x: Any, y: Any) -> Any:
        return self.semiring.mul.expression.evaluate({"x": x, "y": y}, self.dtype)

    def star(self, x: Any) -> Any:
        return self.semiring.star(x)


def dtype_verdict(semiring: Semiring, law: Law, names: Sequence[str], samples: int, seed: int) -> Verdict:
    """Return the verdict on every tuple of elements of small dtypes, and on samples of large dtypes."""
    every, sampled, count = [], [], 0
    for name in sorted(names, key=lambda name: (np.dtype(name).itemsize, np.dtype(name).kind)):
        dtype = np.dtype(name)
        elements = _list_elements(semiring, dtype)
        if elements is not None and len(elements) ** law.arity <= MAX_TUPLES:
            columns = [
                np.asarray(column, dtype) for column in zip(*itertools.product(elements, repeat=law.arity), strict=True)
            ]
            every.append(name)
        else:
            columns = _draw_columns(semiring, law, dtype, samples, seed)
            sampled.append(name)
            count += samples
        first_clash = _first_violation(semiring, law, dtype, columns)
        if first_clash is not None:
            values, clash = first_clash
            return Verdict(law, "refuted", f"values of {name}", make_counterexample(law, values, clash))
    parts = [f"all values of {', '.join(every)}"] if every else []
    parts += [f"{count} samples of {', '.join(sampled)}"] if sampled else []
    return Verdict(law, "sampled" if sampled else "proved", " and ".join(parts))


def _list_elements(semiring: Semiring, dtype: np.dtype[Any]) -> Any:
    """Return the elements of the domain in a dtype, or None if they are too many."""
    domain = semiring.domain
    elements = np.array([False, True])
    if dtype.kind != "b":
        limits = np.iinfo(dtype)
        first, last = (int(limits.min), int(limits.max))
        first = first if domain.lower < first else math.ceil(domain.lower)
        last = last if domain.upper > last else math.floor(domain.upper)
        if last - first >= MAX_TUPLES:
            return None
        elements = np.arange(first, last + 1).astype(dtype)
    return elements[domain.contains(elements)]


def _first_violation(
    semiring: Semiring, law: Law, dtype: np.dtype[Any], columns: list[Any]
) -> tuple[list[Any], Violation] | None:
    """Return the simplest tuple that violates the law, with the statement and its sides, or None."""
    algebra = ArrayAlgebra(semiring, dtype)
    for statement, left, right in law.demands(algebra, *columns):
        if right:
            holds = np.logical_or.reduce([_equal_or_nan(left, side) for side in right])
        else:
            holds = semiring.domain.contains(np.asarray(left))
        if law.starred:
            holds = holds | ~_star_exists(semiring, columns[0])
        failures = np.flatnonzero(np.broadcast_to(~holds, np.shape(columns[0]) if columns else ()))
        if failures.size:
            size = np.zeros(failures.size)
            for column in columns:
                size += np.abs(column[failures].astype(np.float64))
            chosen = failures[np.argmin(size)]

            def entry(side: Any, index: Any = chosen) -> int:
                return int(side if np.ndim(side) == 0 else side[index])

            return [int(column[chosen]) for column in columns], (statement, entry(left), tuple(map(entry, right)))
    return None


def _equal_or_nan(left: Any, right: Any) -> Any:
    """Return entry by entry whether two sides are equal, or are both NaN."""
    left, right = np.asarray(left), np.asarray(right)
    return (left == right) | ((left != left) & (right != right))


def _star_exists(semiring: Semiring, x: Any) -> Any:
    """Return entry by entry whether the star exists."""
    if semiring.divergence is None:
        return np.ones(np.shape(x), dtype=bool)
    return ~np.asarray(semiring.divergence.evaluate({"x": x}, np.asarray(x).dtype))


def _draw_columns(semiring: Semiring, law: Law, dtype: np.dtype[Any], samples: int, seed: int) -> list[Any]:
    """Return an array of random elements of the domain, with corner values, for each variable of a law."""
    generator = np.random.default_rng([seed, zlib.crc32(law.key.encode())])
    domain = semiring.domain
    lower, upper = (float(end) for end in (domain.lower, domain.upper))
    # Exponentials of some hundreds leave the range of a dtype that holds the hundreds themselves.
    exponential = not {"exp", "expm1"}.isdisjoint(
        semiring.add.expression.operations | semiring.mul.expression.operations
    )
    corners = np.array([semiring.zero_for(dtype), semiring.one_for(dtype), *np.array([0, 1, 2], dtype)], dtype)
    columns = []
    for _ in law.variables:
        if dtype.kind == "b":
            columns.append(generator.random(samples) < 0.5)
            continue
        if dtype.kind == "f":
            values = generator.standard_normal(samples) * 2.0 ** generator.integers(-6, 7, samples)
        else:
            # Three values of an eighth of the range have a sum in the range, so no overflow looks like a false law.
            limits = np.iinfo(dtype)
            values = generator.integers(limits.min // 8, limits.max // 8, samples, dtype=np.int64).astype(np.float64)
            values = np.where(generator.random(samples) < 0.5, values, generator.integers(-9, 10, samples))
        if np.isfinite(lower) and np.isfinite(upper):
            values = lower + (upper - lower) * generator.random(samples)
        elif np.isfinite(lower) or dtype.kind == "u":
            values = max(lower, 0.0 if dtype.kind == "u" else lower) + np.abs(values)
        elif np.isfinite(upper):
            values = upper - np.abs(values)
        column = values.astype(dtype)
        chosen = generator.random(samples) < 0.1
        column[chosen] = generator.choice(corners, int(chosen.sum()))
        if dtype.kind == "f":
            infinite = generator.random(samples) < 0.03
            column[infinite] = generator.choice(np.array([np.inf, -np.inf], dtype), int(infinite.sum()))
            if exponential:
                large = np.flatnonzero(generator.random(samples) < 0.03)
                column[large] = generator.choice([-1.0, 1.0], large.size) * 10.0 ** generator.uniform(1, 4, large.size)
        column[~domain.contains(column)] = semiring.one_for(dtype)
        columns.append(column)
    return columns


def measure_rounding(semiring: Semiring, law: Law, dtype: np.dtype[Any], samples: int, seed: int) -> Rounding:
    """Return the largest deviation between the sides of an exact law in the arithmetic of ``dtype``."""
    columns = _draw_columns(semiring, law, dtype, samples, seed)
    worst, overflow = 0.0, ""
    try:
        for statement, left, right in law.demands(ArrayAlgebra(semiring, dtype), *columns):
            if not right or law.key == "annihilation":
                continue
            operands = [*columns, *([semiring.one_for(dtype)] if "1̄" in statement else [])]
            distance, is_lost = _ulp_distance(left, right, operands, dtype)
            if law.starred:
                exists = _star_exists(semiring, columns[0])
                distance, is_lost = np.where(exists, distance, 0.0), is_lost & exists
            worst = max(worst, float(np.max(distance, initial=0.0)))
            if is_lost.any() and not overflow:
                overflow = _overflow_message(law, statement, left, columns, np.flatnonzero(is_lost))
    except IntegerOverflowError as error:
        overflow = str(error)
    except UndecidedError:
        return Rounding(dtype.name, 0)
    return Rounding(dtype.name, samples, worst, overflow)


def _overflow_message(law: Law, statement: str, left: Any, columns: Sequence[Any], failures: Any) -> str:
    """Return the message about a side of a law that is not finite, with the smallest values that cause it.

    ``failures`` are the positions of such values in the columns.
    """
    chosen = failures[np.argmin(sum(np.abs(column[failures].astype(np.float64)) for column in columns))]
    values = ", ".join(f"{name} = {column[chosen]:.6g}" for name, column in zip(law.variables, columns, strict=True))
    left_values = np.broadcast_to(np.asarray(left), columns[0].shape)[chosen]
    detail = "" if np.isfinite(left_values) else f", where the left side is {left_values}"
    return f"{statement} leaves the range at {values}{detail}"


def _ulp_distance(left: Any, right: Sequence[Any], operands: list[Any], dtype: np.dtype[Any]) -> tuple[Any, Any]:
    """Return the distance of the sides in ulp of the largest operand or result, and where their finiteness differs."""
    shape = np.shape(operands[0])
    sides = [np.broadcast_to(np.asarray(side), shape) for side in (left, *right)]
    same = np.logical_or.reduce([_equal_or_nan(sides[0], side) for side in sides[1:]])
    if dtype.kind != "f":
        return np.zeros(shape), ~same
    finite = np.logical_and.reduce([np.isfinite(side) for side in sides])
    with np.errstate(all="ignore"):
        sizes = [np.where(np.isfinite(value), np.abs(value), 0) for value in (*sides, *operands)]
        scale = np.maximum.reduce([np.broadcast_to(size, shape) for size in sizes])
        gaps = np.min([np.abs(sides[0] - side) for side in sides[1:]], axis=0)
        ulps = gaps / np.spacing(np.asarray(scale, dtype))
    return np.where(same | ~finite, 0.0, ulps), ~same & ~finite
