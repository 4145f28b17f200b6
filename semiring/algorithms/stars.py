"""Validate that a closure exists: check the star of a semiring, and build the errors and warnings for divergence."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from functools import lru_cache
from math import isfinite, prod
from typing import TYPE_CHECKING, Any

import numpy as np

from semiring.advice import advice, matrix_name, option
from semiring.algebra import Semiring
from semiring.algebra.catalogue import adds_products, is_proved, max_times, min_times
from semiring.algebra.expressions.tree import float_limits
from semiring.arrays.parts import to_host_array
from semiring.arrays.zero_conventions import stacklevel_of_caller
from semiring.errors import (
    AlgebraError,
    DivergenceError,
    DivergenceWarning,
    DomainError,
    DTypeError,
    IntegerOverflowError,
    RoundingWarning,
    SemiringError,
    cycle_text,
    no_star,
)
from semiring.kernels.contract import KernelPlan

if TYPE_CHECKING:
    from fractions import Fraction

__all__ = [
    "add_matrix_index",
    "check_star",
    "counts_paths",
    "divergence_error",
    "exact_product",
    "gain_error",
    "pivot_without_star",
    "vertex_without_star",
    "warn_of_divergence",
    "warn_of_diverging_sum",
]


_SILENCE = 'warnings.simplefilter("ignore", semiring.errors.DivergenceWarning)'
_MAX_ELIMINATED = 512  # vertices up to which a message recomputes the value of a pivot, which takes 0.2 s
_MAX_ULPS = 100  # units in the last place of a deviation without a warning: three digits of float64's sixteen
#: Units in the last place for each of √n sums: the error of the exponentials of all walks back to a vertex.
_SUM_ULPS = 8


def _check_laws(semiring: Semiring) -> None:
    """Raise `AlgebraError` where a law of semirings is refuted."""
    report = None if is_proved(semiring) else _axiom_report(semiring)
    if report is not None and report.refuted:
        consequence = "its closures are not the sums over all paths"
        raise report.refusal(semiring.name, report.refuted[0], consequence)


def _warn_of_rounding(semiring: Semiring) -> None:
    """Warn where rounding in a dtype breaks a law by more than `_MAX_ULPS` units in the last place."""
    if is_proved(semiring):
        return
    report = _axiom_report(semiring)
    rounded = max((v for v in report if v.rounding is not None), key=lambda v: _deviation(v.rounding), default=None)
    if rounded is not None and _deviation(rounded.rounding) > _MAX_ULPS:
        how, loss = "rounding", "closures may be wrong by as much"
        if rounded.rounding.overflow:
            how, loss = "its range", "so may closures of weights of this size"
        warnings.warn(
            f"{semiring.name} is a semiring of numbers, but in {report.dtype} {how} breaks {rounded.law.text} by "
            f"{rounded.rounding}: {loss}. See {advice(f'{semiring.name}.check_axioms()', 'semiring check')}",
            RoundingWarning,
            stacklevel=stacklevel_of_caller(),
        )


def _deviation(rounding: Any) -> float:
    return float("inf") if rounding.overflow else rounding.ulp


@lru_cache(maxsize=256)
def _axiom_report(semiring: Semiring) -> Any:
    return semiring.check_axioms()


@lru_cache(maxsize=256)
def counts_paths(semiring: Semiring, dtype: np.dtype[Any]) -> bool:
    """Return whether ⊕ and ⊗ are + and × of integers, whose star does not exist.

    Closures of graphs without cycles need none: they count paths (`semiring.sparse.path_counts`).
    """
    if dtype.kind != "i" or not adds_products(semiring) or semiring.star_expression is None:
        return False
    try:
        semiring.check_dtype(dtype)
        semiring.star_expression.check_dtype(dtype)
    except DTypeError:
        return str(dtype) in semiring.dtypes
    return False


@lru_cache(maxsize=256)
def check_star(semiring: Semiring, dtype: np.dtype[Any], *, may_count: bool = False) -> None:
    """Raise an error unless the semiring has closures on ``dtype``, or ``may_count`` and `counts_paths`.

    Raises `DTypeError` if the semiring or its star is not defined on ``dtype``, and `AlgebraError` if a law is refuted
    or the star is missing. Warns if rounding breaks a law (`RoundingWarning`). The result is cached, so the warning
    appears once for each semiring and dtype.
    """
    semiring.check_dtype(dtype)
    _check_laws(semiring)  # comes before the star, because no star helps if a law is broken
    star = semiring.star_expression
    if star is None:
        from semiring.algebra.verify.axioms import common_star  # only for this message

        suggestion = common_star(semiring)
        example = f", such as {option('star', suggestion)}" if suggestion else ""
        raise AlgebraError(
            f"{no_star(semiring.name, ', so it has no closure')}, the value of a* = 1 ⊕ a ⊕ a² ⊕ …, or nan{example}. "
            f"On a domain where 1 ⊕ a = 1, the star is 1: then {option('domain')} is enough"
        )
    try:
        star.check_dtype(dtype)
    except DTypeError as error:
        if may_count and counts_paths(semiring, dtype):
            return
        floats = [name for name in semiring.dtypes if name.startswith("float")]
        raise DTypeError(
            f"the star of {semiring.name}, {star}, does not exist on {dtype} ({error}): "
            f"use {' or '.join(floats) or 'another dtype'}"
        ) from None
    _warn_of_rounding(semiring)  # comes last, so that a call that fails does not also warn


def vertex_without_star(plan: KernelPlan, A: Any) -> int:
    """Return the first vertex whose entry on the diagonal of A (n, n) has no star, or -1.

    The function waits for a device.
    """
    divergence = plan.semiring.divergence
    if divergence is None:
        return -1
    diagonal = to_host_array(A.diagonal())
    bad = np.broadcast_to(divergence.evaluate({"x": diagonal}, plan.dtype), diagonal.shape)
    return int(bad.argmax()) if bad.any() else -1


def warn_of_divergence(semiring: Semiring, D: Any) -> None:
    """Warn if an entry of a closure D (..., n, n) that adds exponentials is rounding error only.

    The loop at a vertex is -log(1 - s), where s sums the exponentials of all walks back to the vertex. The warning
    appears where 1 - s is below the precision of s.
    """
    loops, n = D.diagonal(0, -2, -1).reshape(-1), D.shape[-1]
    index, unknown = int(loops.argmax()), _SUM_ULPS * n**0.5 * np.finfo(D.dtype).eps
    if loops[index] > -np.log(unknown):
        warnings.warn(
            f"the closure of {matrix_name('this matrix')} may not exist in {semiring.name}: the exponentials of all "
            f"walks from vertex {index % n} back to it add up to 1 within the precision of {D.dtype}. Then the sum "
            "over all paths diverges, as for a stochastic matrix, whose rows add up to 1, and the result is rounding "
            "error",
            RoundingWarning,
            stacklevel=stacklevel_of_caller(),
        )


def warn_of_diverging_sum(semiring: Semiring, values: Any, *, nonnegative: bool, is_closure: bool = False) -> None:
    """Warn where ordinary sums over all paths diverge, as far as one pass over ``values`` shows it.

    If a matrix A has no negative entries (``nonnegative``), the closure (..., n, n) and every block of a factor are (I
    - A)⁻¹ of some vertices. They have a negative entry if and only if the spectral radius of A is above 1. (I - A is an
    M-matrix where the radius is below 1: A. Berman, R. J. Plemmons, "Nonnegative Matrices in the Mathematical
    Sciences", chapter 6.) Rounding makes no negative entry, because only 1 - pivot is a difference.

    For other matrices, the trace of a closure (``is_closure``) is compared with n/2. If |λ| < 1, then 1 / (1 - λ) has a
    real part above 1/2. A trace of n/2 or less is therefore that of a diverging sum.
    """
    if nonnegative:
        diverges = bool(values.min() < 0)
        if is_closure and not diverges:
            _warn_of_lost_digits(semiring, values)
    elif is_closure:
        n = values.shape[-1]
        least = n / 2 - _SUM_ULPS * n * np.finfo(values.dtype).eps
        diverges = bool((values.diagonal(0, -2, -1).sum(-1) < least).any())
    else:
        return
    if diverges:
        warnings.warn(
            f"the sum over all paths of {matrix_name('this matrix')} diverges in {semiring.name}, as its spectral "
            "radius is above 1. The "
            "result is made of (I - A)⁻¹, which is not a sum of paths. Scale the weights so that the sum converges. If "
            f"(I - A)⁻¹ is meant, {_silencing_advice(is_closure)}",
            DivergenceWarning,
            stacklevel=stacklevel_of_caller(),
        )


def _warn_of_lost_digits(semiring: Semiring, D: Any) -> None:
    """Warn if an entry of the closure D (..., n, n) of a matrix ≥ 0 has less than half of the digits of its dtype.

    The loop at a vertex is 1 / (1 - s), where s adds up all walks back to the vertex. So its relative error is that of
    s times the loop.
    """
    loops, n = D.diagonal(0, -2, -1).reshape(-1), D.shape[-1]
    epsilon = float(float_limits(D.dtype).eps)
    index = int(loops.argmax())
    loop = loops[index].item()
    if loop > epsilon**-0.5:
        warnings.warn(
            f"the closure of {matrix_name('this matrix')} loses more than half of the digits of {D.dtype} in "
            f"{semiring.name}: all walks from vertex {index % n} back to it add up to nearly 1, and 1 / (1 - sum) is "
            f"{loop:.3g}. The rows of a stochastic matrix add up to 1, for which the sum over all paths diverges. "
            "Leave out the absorbing states, or use a wider dtype",
            RoundingWarning,
            stacklevel=stacklevel_of_caller(),
        )


def _silencing_advice(is_closure: bool) -> str:
    """Return the advice that silences the warning for callers that need (I - A)⁻¹."""
    check = f"pass {option('check', False)}" if is_closure else ""
    return advice(f"{check}{', or ' * is_closure}call {_SILENCE}", check or "ignore this warning")


def gain_error(semiring: Semiring, cycle: Sequence[int], weights: Sequence[float], *, check: bool) -> DivergenceError:
    """Return the error of max_times or min_times for a cycle that gains.

    ``weights`` are the weights of the edges of the cycle, in order.
    """
    first = cycle.index(min(cycle))
    cycle = [*cycle[first:], *cycle[:first]]
    detail = f": {cycle_text(cycle)}, with the product {_product_text(exact_product(weights))}"
    error = divergence_error(semiring, max(cycle), detail=detail, check=check)
    error.cycle = tuple(cycle)
    return error


def exact_product(weights: Sequence[float]) -> Fraction | float:
    """Return the product of the weights around a cycle without rounding, which may make it 1, 0 or infinite.

    An infinite weight, which a closure without a check may meet, makes it a float.
    """
    from fractions import Fraction

    return prod(map(Fraction, weights)) if all(map(isfinite, weights)) else prod(weights)


def _product_text(exact: Fraction | float) -> str:
    """Format a product in six digits, also beyond the range of floats."""
    if isinstance(exact, float):
        return _format_number(exact)
    from decimal import MAX_EMAX, MIN_EMIN, Decimal, localcontext

    with localcontext(prec=17, Emax=MAX_EMAX, Emin=MIN_EMIN):
        rounded = Decimal(exact.numerator) / Decimal(exact.denominator)
        is_float = not exact or sys.float_info.min <= abs(rounded) <= sys.float_info.max
    if is_float:
        return _format_number(float(exact))
    digits, exponent = f"{rounded:.5e}".split("e")
    return f"{digits.rstrip('0').rstrip('.')}e{exponent}"


def _format_number(value: Any) -> str:
    """Format a number with six digits, or with all its digits where six digits would print 1."""
    if not isinstance(value, float | np.floating):
        return str(value)
    short = f"{value:.6g}"
    return short if short != "1" or value == 1 else repr(float(value))


def pivot_without_star(A: Any, semiring: Semiring, vertex: int) -> Any:
    """Recompute the pivot of ``vertex``, at which a closure has failed, by eliminating the vertices before it.

    Returns None if that pivot has a star: rounding may differ from that of the closure, and so may the existence of the
    star. Also returns None beyond 512 vertices. A (n, n) is a matrix in the memory of the host. The cost is vertex³/3
    pairs, in NumPy.
    """
    if vertex >= _MAX_ELIMINATED or semiring.divergence is None:
        return None
    T = A[: vertex + 1, : vertex + 1].copy()
    with np.errstate(all="ignore"):
        for k in range(vertex):
            heads = semiring.mul(semiring.star(T[k, k]), T[k, k + 1 :])
            T[k + 1 :, k + 1 :] = semiring.add(T[k + 1 :, k + 1 :], semiring.mul(T[k + 1 :, k, np.newaxis], heads))
        pivot = T[vertex, vertex]
        return pivot if semiring.divergence.evaluate({"x": pivot}, T.dtype) else None


def divergence_error(
    semiring: Semiring, vertex: int, *, pivot: Any = None, detail: str = "", check: bool = True
) -> DivergenceError:
    """Return the error for a vertex whose pivot has no star.

    ``pivot`` is the value of the pivot, or None where it is unknown. ``detail`` is text about the cycle for the
    message. Without ``check``, weights above 1 are intended, and the message has no hint about percentages.
    """
    nowhere = semiring.divergence
    if semiring in (max_times, min_times):
        side, advice = "below", ""
        if semiring == max_times:
            side, advice = "above", " (probabilities lie in [0, 1]: 95 % is 0.95)" if check else ""
        gain = f"whose weights have a product {side} 1, gains with every round"
        why = f"a cycle through vertex {vertex}, {gain}{detail}{advice}"
    else:
        where = "" if nowhere is None else f" (x has none where {nowhere})"
        if nowhere is not None and nowhere.op == "invert":
            where = f" (x has one where {nowhere.args[0]})"
        sums = "the sum of the cycles through it over earlier vertices"
        has_none = "has no star" if pivot is None else f"is {_format_number(pivot)}, which has no star"
        why = f"at the pivot of vertex {vertex}, {sums} {has_none}{where}"
    return DivergenceError(f"the closure of this matrix does not exist in {semiring.name}: {why}", vertex)


def add_matrix_index(error: SemiringError, index: Sequence[Any]) -> SemiringError:
    """Add the index of a matrix in its stack to an error about the entries. Other errors stay unchanged."""
    if isinstance(error, DivergenceError | DomainError | IntegerOverflowError):
        place = tuple(map(int, index))
        about = f"{error}; this is about the matrix A[{', '.join(map(str, place))}] of the stack"
        error.args = (about, *error.args[1:])
        if isinstance(error, DivergenceError):
            error.matrix = place
    return error
