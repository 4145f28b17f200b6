"""What was given, as an array of one dtype where it is to be computed; and the result in the caller's library.

Lists and arrays of other libraries are read without a copy where that can be. With ``device`` an array of the host is
moved to the GPU, and closed there in place: what was moved is ours. (Integers are not, for they may have to begin again
in a wider dtype.)
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from semiring.algebra import Semiring
from semiring.algebra.catalogue import CATALOGUE
from semiring.arrays.operands import as_output, as_result, operands, store
from semiring.arrays.other_zeros import outside, warn_of_other_zeros
from semiring.chain.matrix import Matrix, same_memory
from semiring.chain.problem import No, Problem, Reduction
from semiring.errors import AlgebraError, DTypeError, RoundingWarning, ShapeError
from semiring.namespaces import array_namespace, is_device_array

if TYPE_CHECKING:
    from semiring.chain.planner import Node

__all__ = ["arrays", "check_star"]


def arrays(p: Problem) -> No | Reduction:
    """A matrix (..., n, n), and the memory that its closure goes to.

    Raises `ShapeError`, `DTypeError`, `DeviceError`, and `AlgebraError` for a semiring without a star.
    """
    if p.taken:
        return No("a matrix already")
    request, A, out = p.request, p.given, p.request.out
    (array,) = operands(p.semiring, device=request.device, A=A)
    on_device = is_device_array(array)
    moved = on_device and not is_device_array(A)
    run: Callable[[Node, Any], Any] = _computed
    home = array if moved and array.dtype.kind != "i" else p.home
    if out is None:
        run = partial(_returned, as_result(A))
    elif on_device and request.device is not None and not is_device_array(out):
        run = partial(_stored, as_output(out, array.shape, array.dtype))
    else:
        home = out
    if array.ndim < 2 or array.shape[-1] != array.shape[-2]:
        raise ShapeError(f"A is {array.shape}: a closure needs square matrices, shape (n, n) or (..., n, n)")
    p.semiring.check_dtype(array.dtype)
    check_star(p.semiring, array.dtype)
    if request.check and not on_device:
        warn_of_other_zeros(array, p.semiring)
    xp = array_namespace(array)
    in_place = False
    if home is None:
        home = xp.empty(array.shape, array.dtype)
    else:
        home = as_output(home, array.shape, array.dtype, like=array)
        in_place = same_memory(home, array)
        if in_place:
            array = home
        elif xp.may_share_memory(home, array):
            array = array.copy()
    zero = p.semiring.zero_for(array.dtype)
    matrix = Matrix(array, zero, array.dtype, zero)
    q = p.but(matrix=matrix, home=home, in_place=in_place, waits=request.check or not on_device)
    return Reduction("moved to the GPU" if moved else "an array", None, [q], run, quiet=True)


def _computed(node: Node, D: Any) -> Any:
    return node.children[0].run()


def _returned(result: Callable[[Any], Any], node: Node, D: Any) -> Any:
    return result(_computed(node, D))


def _stored(target: Any, node: Node, D: Any) -> Any:
    store(target, _computed(node, D))


_CATALOGUE = frozenset(CATALOGUE.values())  # proved by the tests
_FAR = 100  # units in the last place: three digits of float64's sixteen


def _check_laws(semiring: Semiring) -> None:
    """Raise `AlgebraError` where a law is refuted; warn where only the rounding of a dtype breaks one, by far."""
    if semiring in _CATALOGUE:
        return
    report = _laws(semiring)
    if not report.holds:
        failure = report.refuted[0]
        raise AlgebraError(
            f"{semiring.name} is no semiring on {report.domain}, so the sum over all paths is none that eliminating "
            f"vertices could find: {failure}. {report.hint} See {semiring.name}.check_axioms()".replace("  ", " ")
        )
    rounded = max((v for v in report if v.rounding is not None), key=lambda v: _size(v.rounding), default=None)
    if rounded is not None and _size(rounded.rounding) > _FAR:
        warnings.warn(
            f"{semiring.name} is a semiring of numbers, but in {report.dtype} rounding breaks {rounded.law.text} by "
            f"{rounded.rounding}: closures lose as much; see {semiring.name}.check_axioms()",
            RoundingWarning,
            stacklevel=outside(),
        )


def _size(rounding: Any) -> float:
    return float("inf") if rounding.overflow else rounding.ulp


@lru_cache(maxsize=256)
def _laws(semiring: Semiring) -> Any:
    return semiring.check_axioms()


@lru_cache(maxsize=256)
def check_star(semiring: Semiring, dtype: np.dtype[Any]) -> None:
    """Raise unless the semiring has closures on ``dtype``.

    `AlgebraError` where it has no star or breaks a law, `DTypeError` on another dtype.
    """
    star = semiring.star_expression
    if star is None:
        raise AlgebraError(
            f"{semiring.name} has no star, so it has no closure: give one, Semiring(..., star=...), where "
            "a* = 1 ⊕ a ⊕ a² ⊕ …, nan where there is none; or a domain on which 1 ⊕ a = 1, where a* = 1"
        )
    _check_laws(semiring)
    try:
        star.check_dtype(dtype)
    except DTypeError as error:
        floats = [name for name in semiring.dtypes if name.startswith("float")]
        raise DTypeError(
            f"the star of {semiring.name}, {star}, does not exist on {dtype} ({error}): "
            f"use {' or '.join(floats) or 'another dtype'}"
        ) from None
