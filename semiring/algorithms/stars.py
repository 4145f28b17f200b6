"""Whether a closure exists: the star of a semiring, and what to raise where there is none."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from math import prod
from typing import Any

import numpy as np

from semiring.advice import advice, matrix_name, option
from semiring.algebra import Semiring
from semiring.algebra.catalogue import is_proved, max_times, min_times
from semiring.arrays.parts import on_host
from semiring.arrays.zero_conventions import stacklevel_of_caller
from semiring.errors import (
    AlgebraError,
    DivergenceError,
    DivergenceWarning,
    DTypeError,
    RoundingWarning,
    no_star,
    shown_cycle,
)
from semiring.kernels.contract import KernelPlan

__all__ = [
    "check_star",
    "divergence_error",
    "gain_error",
    "lost_pivot",
    "may_diverge",
    "vertex_without_star",
    "warn_of_divergence",
    "warn_of_diverging_sum",
]


_SILENCE = 'warnings.simplefilter("ignore", semiring.errors.DivergenceWarning)'
_ELIMINATED = 512  # vertices up to which the value of a pivot is found again for a message: 0.2 s
_FAR = 100  # units in the last place: three digits of float64's sixteen
_NEAR = 8  # of them, for each of √n sums: what is not known of the exponentials of all ways back to a vertex


def _check_laws(semiring: Semiring) -> None:
    """Raise `AlgebraError` where a law is refuted."""
    report = None if is_proved(semiring) else _laws(semiring)
    if report is not None and report.refuted:
        found = "its closures are not the sums over all paths"
        raise report.refusal(semiring.name, report.refuted[0], found)


def _warn_of_rounding(semiring: Semiring) -> None:
    """Warn where only the rounding of a dtype breaks a law, by far."""
    if is_proved(semiring):
        return
    report = _laws(semiring)
    rounded = max((v for v in report if v.rounding is not None), key=lambda v: _size(v.rounding), default=None)
    if rounded is not None and _size(rounded.rounding) > _FAR:
        how, loss = "rounding", "closures may be wrong by as much"
        if rounded.rounding.overflow:
            how, loss = "its range", "so may closures of weights of this size"
        warnings.warn(
            f"{semiring.name} is a semiring of numbers, but in {report.dtype} {how} breaks {rounded.law.text} by "
            f"{rounded.rounding}: {loss}. See {advice(f'{semiring.name}.check_axioms()', 'semiring check')}",
            RoundingWarning,
            stacklevel=stacklevel_of_caller(),
        )


def _size(rounding: Any) -> float:
    return float("inf") if rounding.overflow else rounding.ulp


@lru_cache(maxsize=256)
def _laws(semiring: Semiring) -> Any:
    return semiring.check_axioms()


@lru_cache(maxsize=256)
def check_star(semiring: Semiring, dtype: np.dtype[Any]) -> None:
    """Raise unless the semiring has closures on ``dtype``.

    `AlgebraError` where it has no star or breaks a law, `DTypeError` on another dtype, of its entries or of its star.
    """
    semiring.check_dtype(dtype)
    _check_laws(semiring)  # first: no star would help where a law is broken
    star = semiring.star_expression
    if star is None:
        from semiring.algebra.verify.check import known_star  # only for this message

        known = known_star(semiring)
        example = f", such as {option('star', known)}" if known else ""
        raise AlgebraError(
            f"{no_star(semiring.name, ', so it has no closure')}, the value of a* = 1 ⊕ a ⊕ a² ⊕ …, or nan{example}. "
            f"On a domain where 1 ⊕ a = 1, the star is 1: then {option('domain')} is enough"
        )
    try:
        star.check_dtype(dtype)
    except DTypeError as error:
        floats = [name for name in semiring.dtypes if name.startswith("float")]
        raise DTypeError(
            f"the star of {semiring.name}, {star}, does not exist on {dtype} ({error}): "
            f"use {' or '.join(floats) or 'another dtype'}"
        ) from None
    _warn_of_rounding(semiring)  # last: a call that fails says one thing


def may_diverge(plan: KernelPlan) -> bool:
    """Whether a pivot may have no star: not where all weights of min-plus are ≥ 0."""
    known = plan.facts.nonnegative and plan.semiring.tropical == "min"
    return plan.semiring.divergence is not None and not known


def vertex_without_star(plan: KernelPlan, A: Any) -> int:
    """Return the first vertex whose entry on the diagonal of A (n, n) has no star, or -1. Waits for a device."""
    divergence = plan.semiring.divergence
    if divergence is None:
        return -1
    diagonal = on_host(A.diagonal())
    bad = np.broadcast_to(divergence.evaluate({"x": diagonal}, plan.dtype), diagonal.shape)
    return int(bad.argmax()) if bad.any() else -1


def warn_of_divergence(semiring: Semiring, D: Any) -> None:
    """Warn where a closure D (..., n, n) that adds exponentials is nothing but rounding.

    Its loop at a vertex is -log(1 - s), s the exponentials of all ways back, and so small a 1 - s is not known.
    """
    loops, n = D.diagonal(0, -2, -1).reshape(-1), D.shape[-1]
    at, unknown = int(loops.argmax()), _NEAR * n**0.5 * np.finfo(D.dtype).eps
    if loops[at] > -np.log(unknown):
        warnings.warn(
            f"the closure of {matrix_name('this matrix')} may not exist in {semiring.name}: the exponentials of all "
            f"walks from vertex {at % n} back to it add up to 1 within the precision of {D.dtype}. Then the sum over "
            "all paths diverges, as for a stochastic matrix, whose rows add up to 1, and the result is rounding error",
            RoundingWarning,
            stacklevel=stacklevel_of_caller(),
        )


def warn_of_diverging_sum(semiring: Semiring, found: Any, *, nonnegative: bool, is_closure: bool = False) -> None:
    """Warn where ordinary sums over all paths diverge, as far as one pass over what was ``found`` tells.

    Of a matrix A without negative entries (``nonnegative``) the closure (..., n, n) and every block of a factor are
    (I - A)⁻¹ of some vertices. They have a negative entry if and only if the spectral radius of A is above 1 (I - A is
    an M-matrix where it is below: A. Berman, R. J. Plemmons, "Nonnegative Matrices in the Mathematical Sciences",
    chapter 6), and rounding makes none, for only 1 - pivot is a difference. Of other matrices the trace of a closure
    (``is_closure``) tells: |λ| < 1 gives 1 / (1 - λ) a real part above 1/2, so a trace of n/2 or less is that of a sum
    that diverges.
    """
    if nonnegative:
        diverges = bool(found.min() < 0)
    elif is_closure:
        n = found.shape[-1]
        least = n / 2 - _NEAR * n * np.finfo(found.dtype).eps
        diverges = bool((found.diagonal(0, -2, -1).sum(-1) < least).any())
    else:
        return
    if diverges:
        warnings.warn(
            f"the sum over all paths of {matrix_name('this matrix')} diverges in {semiring.name}, as its spectral "
            "radius is above 1. The "
            "result is made of (I - A)⁻¹, which is not a sum of paths. Scale the weights so that the sum converges. If "
            f"(I - A)⁻¹ is meant, {_silenced(is_closure)}",
            DivergenceWarning,
            stacklevel=stacklevel_of_caller(),
        )


def _silenced(is_closure: bool) -> str:
    """Return how a caller who means (I - A)⁻¹ silences the warning."""
    check = f"pass {option('check', False)}" if is_closure else ""
    return advice(f"{check}{', or ' * is_closure}call {_SILENCE}", check or "ignore this warning")


def gain_error(semiring: Semiring, cycle: Sequence[int], weights: Sequence[float], *, check: bool) -> DivergenceError:
    """Return the error of max_times or min_times for a cycle that gains, with the weights of its edges in order."""
    first = cycle.index(min(cycle))
    cycle, product = [*cycle[first:], *cycle[:first]], prod(map(Fraction, weights))
    found = f": {shown_cycle(cycle)}, with the product {_shown(float(product))}"
    error = divergence_error(semiring, max(cycle), found=found, check=check)
    error.cycle = tuple(cycle)
    return error


def _shown(value: Any) -> str:
    """Return a number as a message shows it: with six digits, or with all where six are those of 1."""
    if not isinstance(value, float | np.floating):
        return str(value)
    short = f"{value:.6g}"
    return short if short != "1" or value == 1 else repr(float(value))


def lost_pivot(A: Any, semiring: Semiring, vertex: int) -> Any:
    """Return the pivot of a vertex that has no star, by elimination of the vertices before it; None where it has one.

    A (n, n) is a matrix in the memory of the host. Cost: vertex³/3 pairs, in NumPy, up to 512 vertices; None beyond.
    Rounding may differ from that of the closure, and so may whether there is a star.
    """
    if vertex >= _ELIMINATED or semiring.divergence is None:
        return None
    T = A[: vertex + 1, : vertex + 1].copy()
    with np.errstate(all="ignore"):
        for k in range(vertex):
            heads = semiring.mul(semiring.star(T[k, k]), T[k, k + 1 :])
            T[k + 1 :, k + 1 :] = semiring.add(T[k + 1 :, k + 1 :], semiring.mul(T[k + 1 :, k, np.newaxis], heads))
        pivot = T[vertex, vertex]
        return pivot if semiring.divergence.evaluate({"x": pivot}, T.dtype) else None


def divergence_error(
    semiring: Semiring, vertex: int, *, pivot: Any = None, found: str = "", check: bool = True
) -> DivergenceError:
    """Return the error for a vertex whose pivot has no star.

    ``pivot`` is its value, if it is known, and ``found`` what a message adds about the cycle. Without ``check`` weights
    above 1 are meant as they are, and the message has no hint about percentages.
    """
    nowhere = semiring.divergence
    if semiring in (max_times, min_times):
        side, advice = "below", ""
        if semiring == max_times:
            side, advice = "above", " (probabilities lie in [0, 1]: 95 % is 0.95)" if check else ""
        gain = f"whose weights have a product {side} 1, gains with every round"
        why = f"a cycle through vertex {vertex}, {gain}{found}{advice}"
    else:
        where = "" if nowhere is None else f" (x has none where {nowhere})"
        if nowhere is not None and nowhere.op == "invert":
            where = f" (x has one where {nowhere.args[0]})"
        sums = "the sum of the cycles through it over earlier vertices"
        has_none = "has no star" if pivot is None else f"is {_shown(pivot)}, which has no star"
        why = f"at the pivot of vertex {vertex}, {sums} {has_none}{where}"
    return DivergenceError(f"the closure of this matrix does not exist in {semiring.name}: {why}", vertex)
