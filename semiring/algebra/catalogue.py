"""The catalogue of common semirings, by their names in GraphBLAS: ``<add>_<mul>``.

The properties in this module are claims, and the tests prove each of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from semiring.advice import quote
from semiring.algebra.semiring import Semiring, semiring_with_claims
from semiring.errors import UnknownNameError

__all__ = ["ALIASES", "CATALOGUE", "as_semiring", "check_sum_laws", "is_proved"]

_SELECTIVE_CLAIMS = {"idempotent": True, "selective": True, "commutative": True}

min_plus = semiring_with_claims(
    *("min_plus", "min(x, y)", "x + y", float("inf"), 0, "where(x >= 0, 0, nan)"),
    claims={**_SELECTIVE_CLAIMS, "absorptive": False},
    description="shortest paths: the least sum of weights; ∞ is no path",
)
max_plus = semiring_with_claims(
    *("max_plus", "max(x, y)", "x + y", float("-inf"), 0, "where(x <= 0, 0, nan)"),
    claims={**_SELECTIVE_CLAIMS, "absorptive": False},
    description="longest (critical) paths: the greatest sum of weights; -∞ is no path",
)
boolean = semiring_with_claims(
    *("boolean", "x | y", "x & y", False, True),
    claims={**_SELECTIVE_CLAIMS, "absorptive": True},
    dtypes=("bool",),
    description="reachability: whether a path exists",
)
max_min = semiring_with_claims(
    *("max_min", "max(x, y)", "min(x, y)", float("-inf"), float("inf")),
    claims={**_SELECTIVE_CLAIMS, "absorptive": True},
    description="widest paths: the greatest capacity of a narrowest edge",
)
min_max = semiring_with_claims(
    *("min_max", "min(x, y)", "max(x, y)", float("inf"), float("-inf")),
    claims={**_SELECTIVE_CLAIMS, "absorptive": True},
    description="minimax paths: the least height of a highest edge",
)
max_times = semiring_with_claims(
    *("max_times", "max(x, y)", "x * y", 0, 1, "where(x <= 1, 1, nan)", "[0, inf)"),
    claims={**_SELECTIVE_CLAIMS, "absorptive": False},
    description="most reliable paths: the greatest product of probabilities; 0 is no path",
)
min_times = semiring_with_claims(
    *("min_times", "min(x, y)", "x * y", float("inf"), 1, "where(x >= 1, 1, nan)", "(0, inf]"),
    claims={**_SELECTIVE_CLAIMS, "absorptive": False},
    description="cheapest exchange: the least product of factors; ∞ is no path",
)
plus_times = semiring_with_claims(
    *("plus_times", "x + y", "x * y", 0, 1, "where(x == 1, nan, 1 / (1 - x))", "(-inf, inf)"),
    claims={"idempotent": False, "selective": False, "commutative": True, "absorptive": False},
    contract=True,
    dtypes=("bfloat16", "float16", "float32", "float64", "int16", "int32", "int64"),
    description="ordinary linear algebra",
)
log_plus = semiring_with_claims(
    *("log_plus", "where(x == y, x + 0.6931471805599453, max(x, y) + max(0, log1p(exp(-abs(x - y)))))", "x + y"),
    *(float("-inf"), 0),
    "where(x < 0, where(x < -0.6931471805599453, -log1p(-exp(x)), -log(-expm1(x))), nan)",
    "[-inf, inf)",
    claims={"idempotent": False, "selective": False, "commutative": True, "absorptive": False},
    description="sums of probabilities by their logarithms; -∞ is probability 0",
)
xor_and = semiring_with_claims(
    *("xor_and", "x ^ y", "x & y", 0, "~0", "where(x == 0, ~0, nan)"),
    claims={"idempotent": False, "selective": False, "commutative": True, "absorptive": False},
    dtypes=("bool", "uint8", "int16", "int32", "int64"),
    description="GF(2), bit by bit: the parity of the number of paths",
)
lukasiewicz = semiring_with_claims(
    *("lukasiewicz", "max(x, y)", "max(0, x + y - 1)", 0, 1),
    domain=(0, 1),
    claims={**_SELECTIVE_CLAIMS, "absorptive": True},
    description="the Łukasiewicz t-norm: truth degrees, of which a path loses 1 - x on each edge",
)

CATALOGUE: Mapping[str, Semiring] = {
    semiring.name: semiring
    for semiring in (
        *(min_plus, max_plus, boolean, max_min, min_max, max_times, min_times),
        *(plus_times, log_plus, xor_and, lukasiewicz),
    )
}
ALIASES: Mapping[str, str] = {
    "tropical": "min_plus",
    "shortest": "min_plus",
    "lor_land": "boolean",
    "bottleneck": "max_min",
    "reliability": "max_times",
    "viterbi": "max_times",
    "log_sum_exp": "log_plus",
    "gf2": "xor_and",
}


def as_semiring(given: Semiring | str | None) -> Semiring:
    """Return the semiring itself, or the semiring of the catalogue with that name or alias.

    Parameters
    ----------
    given : Semiring, str or None
        A semiring, or a name in lower case. None is the default of every function, min-plus.

    Returns
    -------
    Semiring
        The semiring.

    Raises
    ------
    UnknownNameError
        The catalogue has no such name. The message lists the valid names and suggests the nearest.
    TypeError
        The argument is neither a semiring nor a text.
    """
    if isinstance(given, Semiring):
        return given
    if isinstance(given, str):
        name = ALIASES.get(given, given)
        if name in CATALOGUE:
            return CATALOGUE[name]
        raise UnknownNameError("semiring", given, [*CATALOGUE, *ALIASES])
    if given is None:
        return min_plus
    raise TypeError(
        f"a semiring is a Semiring or the name of one, such as 'min_plus', not {quote(given)} of type "
        f"{type(given).__name__}"
    )


_PROVED_SEMIRINGS = frozenset(CATALOGUE.values())


@lru_cache(maxsize=64)
def path_counts(name: str) -> Semiring:
    """Return + and × of integers with the star 1, that of 0: the closures of acyclic graphs need no other.

    Callers must refuse graphs with cycles.
    """
    return semiring_with_claims(
        *(name, "x + y", "x * y", 0, 1, "1"),
        claims={"idempotent": False, "selective": False, "commutative": True, "absorptive": False},
        dtypes=("int16", "int32", "int64"),
    )


def is_proved(semiring: Semiring) -> bool:
    """Return whether a semiring of any name equals a semiring of the catalogue, whose laws the tests prove."""
    return semiring in _PROVED_SEMIRINGS or semiring == path_counts("path_counts")


def _texts_of(semiring: Semiring) -> tuple[str, str]:
    return semiring.add.expression.text, semiring.mul.expression.text


@lru_cache(maxsize=64)
def adds_exponentials(semiring: Semiring) -> bool:
    """Return whether ⊕ and ⊗ are those of `log_plus`, for any name and star."""
    return _texts_of(semiring) == _texts_of(log_plus)


@lru_cache(maxsize=64)
def adds_products(semiring: Semiring) -> bool:
    """Return whether ⊕ and ⊗ are those of `plus_times`, for any name and star."""
    return _texts_of(semiring) == _texts_of(plus_times)


def check_sum_laws(semiring: Semiring) -> None:
    """Raise `AlgebraError` unless ⊕ is associative and commutative with neutral 0̄, as every product requires."""
    if is_proved(semiring):
        return
    from semiring.algebra.verify.axioms import check_sums

    report = check_sums(semiring)
    if report.refuted:
        consequence = "a product depends on the order in which its terms are added up, and on zeros among them"
        raise report.refusal(semiring.name, report.refuted[0], consequence)
