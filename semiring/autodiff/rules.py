"""Select the gradient rule of a semiring, and convert semirings to texts for operators of other libraries."""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Literal, TypeAlias

from semiring.algebra import Semiring
from semiring.algebra.catalogue import CATALOGUE, as_semiring, log_plus, plus_times
from semiring.algebra.expressions import Expression
from semiring.autodiff.derivatives import derivative
from semiring.errors import AlgebraError

__all__ = ["Rule", "factors", "key_of", "rule_of", "semiring_of"]

Rule: TypeAlias = Literal["selective", "log_plus", "plus_times"]


@lru_cache(maxsize=256)
def rule_of(semiring: Semiring) -> Rule:
    """Return the rule by which products and closures are differentiated.

    Raises `AlgebraError` if there is none: ⊕ is neither selective nor that of log_plus or plus_times, or ⊗ acts on
    bits.
    """
    if "float64" not in semiring.dtypes and "float32" not in semiring.dtypes:
        raise AlgebraError(f"{semiring.name} has no gradient: it is defined on {', '.join(semiring.dtypes)} only")
    for rule, example in (("log_plus", log_plus), ("plus_times", plus_times)):
        operations = (example.add.expression, example.mul.expression, example.zero)
        if (semiring.add.expression, semiring.mul.expression, semiring.zero) == operations:
            return rule  # type: ignore[return-value]  # the loop is over the names of rules
    if not semiring.selective:
        raise AlgebraError(
            f"{semiring.name} has no gradient: its ⊕ is neither selective nor that of log_plus or plus_times "
            "(detach the operands to compute without one)"
        )
    factors(semiring)
    return "selective"


@lru_cache(maxsize=256)
def factors(semiring: Semiring) -> tuple[Expression, Expression]:
    """Return the derivatives of x ⊗ y by x and by y."""
    product = semiring.mul.expression
    return derivative(product, "x"), derivative(product, "y")


_custom_semirings: dict[str, Semiring] = {}


def key_of(semiring: Semiring | str | None) -> str:
    """Return a text for the semiring, valid in every process: its name in the catalogue, or its definition.

    Raises `UnknownNameError` as `as_semiring`.
    """
    semiring = as_semiring(semiring)
    if CATALOGUE.get(semiring.name) == semiring:
        return semiring.name
    add, mul, zero, one, star, domain, contract, dtypes = semiring.definition
    key = json.dumps([semiring.name, add, mul, zero, one, star, str(domain), contract, dtypes])
    _custom_semirings.setdefault(key, semiring)
    return key


def semiring_of(key: str) -> Semiring:
    """Return the semiring of a text that `key_of` returned."""
    if key in CATALOGUE:
        return CATALOGUE[key]
    if key not in _custom_semirings:
        name, add, mul, zero, one, star, domain, contract, dtypes = json.loads(key)
        _custom_semirings[key] = Semiring(name, add, mul, zero, one, star, domain, contract=contract, dtypes=dtypes)
    return _custom_semirings[key]
