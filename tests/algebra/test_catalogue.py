"""The semirings of the catalogue: their claims proved, their elements, their stars against sums of powers."""

from __future__ import annotations

import math

import numpy as np
import pytest
from oracles import ORACLES

import semiring as sr
from semiring.algebra.catalogue import ALIASES
from semiring.algebra.verify import PROPERTIES, derive_property
from semiring.errors import UnknownNameError

INF = math.inf
NAMES = list(sr.CATALOGUE)
FLOATING = [name for name in NAMES if sr.CATALOGUE[name].supports("float64")]


#: Values of the domain, special ones among them.
VALUES = {
    "min_plus": [INF, -INF, 0, -0.0, 1, -3, 2.5],
    "max_plus": [INF, -INF, 0, -0.0, 1, -3, 2.5],
    "max_min": [INF, -INF, 0, -0.0, 1, -3, 2.5],
    "min_max": [INF, -INF, 0, -0.0, 1, -3, 2.5],
    "max_times": [0, 1, 0.5, 2, 3.25],
    "min_times": [INF, 1, 0.5, 2, 3.25],
    "plus_times": [0, 1, -1, 0.5, 2, -3.25],
    "log_plus": [-INF, 0, -1, 2.5, 0.5],
    "lukasiewicz": [0, 1, 0.5, 0.25, 0.75],
}


def test_the_catalogue_is_what_the_library_promises():
    assert set(NAMES) == set(ORACLES)
    for name, semiring in sr.CATALOGUE.items():
        assert semiring.name == name
        assert getattr(sr, name) is semiring
        assert semiring.description


@pytest.mark.parametrize("name", NAMES)
def test_the_elements_are_right_in_every_dtype(name):
    semiring = sr.CATALOGUE[name]
    for dtype in map(np.dtype, semiring.dtypes):
        zero, one = semiring.zero_for(dtype), semiring.one_for(dtype)
        assert zero.dtype == one.dtype == dtype
        assert zero == ORACLES[name].zero(dtype)
        assert one == ORACLES[name].one(dtype)


@pytest.mark.parametrize("key", PROPERTIES)
@pytest.mark.parametrize("name", NAMES)
def test_every_claim_is_proved(name, key):
    semiring = sr.CATALOGUE[name]
    verdict = derive_property(semiring, key)
    assert verdict.outcome in ("proved", "refuted")
    assert bool(verdict) == getattr(semiring, key)
    assert key in semiring._claims


@pytest.mark.parametrize("name", FLOATING)
def test_the_operations_are_those_of_the_oracle(name):
    semiring, oracle = sr.CATALOGUE[name], ORACLES[name]
    for dtype in (np.float32, np.float64):
        x, y = (grid.ravel() for grid in np.meshgrid(*[np.array(VALUES[name], dtype)] * 2))
        zero = oracle.zero(np.dtype(dtype))
        with np.errstate(all="ignore"):
            product = np.where((x == zero) | (y == zero), zero, oracle.mul(x, y))
        tolerance = 4 * np.finfo(dtype).eps if name == "log_plus" else 0
        np.testing.assert_allclose(semiring.add(x, y), oracle.add(x, y), rtol=tolerance)
        np.testing.assert_allclose(semiring.mul(x, y), product, rtol=0)


def truncated_star(name, x, terms=4000):
    """Return 1 ⊕ x ⊕ x² ⊕ … by the oracle's operations as far as it changes, and whether it has settled."""
    oracle, dtype = ORACLES[name], np.dtype(float)
    zero, one = oracle.zero(dtype), oracle.one(dtype)
    total = power = one
    with np.errstate(all="ignore"):
        for _ in range(terms):
            power = zero if zero in (power, x) else oracle.mul(power, np.float64(x))
            before, total = total, oracle.add(total, power)
    return total, before == total


@pytest.mark.full
@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("min_plus", [0, 1, 2.5, INF]),
        ("max_plus", [0, -1, -2.5, -INF]),
        ("max_min", [-INF, -1, 0, 5, INF]),
        ("min_max", [-INF, -1, 0, 5, INF]),
        ("max_times", [0, 0.5, 1]),
        ("min_times", [1, 2, INF]),
        ("plus_times", [0, 0.5, -0.5, 0.9, -0.25]),
        ("log_plus", [-INF, -0.1, -0.5, -0.6931471805599453, -0.7, -1, -30, -1000]),
        ("lukasiewicz", [0, 0.3, 1]),
    ],
)
def test_the_star_is_the_sum_of_all_powers(name, values):
    for x in values:
        total, settled = truncated_star(name, x)
        assert settled, x
        assert float(sr.CATALOGUE[name].star(x)) == pytest.approx(float(total), rel=1e-12), x


@pytest.mark.full
@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("min_plus", [-1, -1e-300, -INF]),
        ("max_plus", [1, 1e-300, INF]),
        ("max_times", [1.0000001, 2, 1e300]),
        ("min_times", [0.9999999, 0.5, 1e-300]),
        ("plus_times", [1]),
        ("log_plus", [0, 1e-300, 1, 1000]),
    ],
)
def test_where_the_sum_does_not_settle_there_is_no_star(name, values):
    semiring = sr.CATALOGUE[name]
    for x in values:
        total, settled = truncated_star(name, x)
        assert not settled or total in (0, INF, -INF), x  # it ran out of the domain
        assert np.isnan(semiring.star(x)), x
        condition = semiring.divergence.evaluate({"x": np.float64(x)}, np.dtype(float))
        assert condition, x


@pytest.mark.parametrize("name", FLOATING)
def test_divergence_is_where_the_star_is_nan(name):
    semiring = sr.CATALOGUE[name]
    x = np.unique(np.concatenate([np.linspace(-4, 4, 161), [1e-300, -1e-300, 1e300, -1e300, INF, -INF]]))
    x = x[semiring.domain.contains(x)]
    star = semiring.star(x)
    if semiring.divergence is None:
        assert not np.isnan(star).any()
    else:
        np.testing.assert_array_equal(semiring.divergence.evaluate({"x": x}, x.dtype), np.isnan(star))
        assert np.isnan(star).any()
    # The tree that kernels use has 0̄ there, and is never NaN.
    inside = semiring.star_expression.evaluate({"x": x}, x.dtype)
    np.testing.assert_array_equal(
        np.broadcast_to(inside, x.shape), np.where(np.isnan(star), semiring.zero_for(x.dtype), star)
    )


def test_the_star_of_xor_and():
    x = np.arange(256).astype(np.uint8)
    star = sr.xor_and.star(x)
    assert star[0] == 255
    assert (star[1:] == 0).all()  # no star: 0̄ stands there, and the divergence says so
    assert (sr.xor_and.divergence.evaluate({"x": x}, x.dtype) == (x != 0)).all()


def test_log_plus_is_stable():
    x = np.array([1000.0, -1000.0, 0.0, 710.0])
    np.testing.assert_allclose(sr.log_plus.add(x, x - 1), np.logaddexp(x, x - 1), rtol=1e-15)
    assert sr.log_plus.star(-1e-300) == pytest.approx(690.7755278982137)  # -log(1 - e^x) ≈ -log(-x)
    assert sr.log_plus.star(-40.0) == pytest.approx(math.exp(-40), rel=1e-12)


def test_names_and_aliases_are_found():
    for name in NAMES:
        assert sr.as_semiring(name) is sr.CATALOGUE[name]
        assert sr.as_semiring(sr.CATALOGUE[name]) is sr.CATALOGUE[name]
    for alias, name in ALIASES.items():
        assert sr.as_semiring(alias) is sr.CATALOGUE[name]
    assert {"tropical", "lor_land", "bottleneck", "viterbi", "reliability"} <= set(ALIASES)
    assert not set(ALIASES) & set(NAMES)


def test_a_name_that_is_not_there_lists_those_that_are():
    with pytest.raises(UnknownNameError, match="Did you mean 'min_plus'") as caught:
        sr.as_semiring("minplus")
    for name in (*NAMES, *ALIASES):
        assert name in str(caught.value)
    with pytest.raises(LookupError):
        sr.as_semiring("")
    with pytest.raises(TypeError, match="a Semiring or the name"):
        sr.as_semiring(3)
