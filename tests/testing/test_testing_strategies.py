"""Test that the strategies draw elements of the domain, the corners among them, in every memory order."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import oracles
import pytest
from hypothesis import Phase, find, given, settings
from hypothesis import strategies as st
from tiers import each_value, quick

import semiring as sr
from semiring.errors import DomainError, DTypeError
from semiring.testing import (
    EXAMPLES,
    LAYOUTS,
    check_law,
    closable_matrices,
    elements,
    exact_elements,
    in_layout,
    laws_of,
    matrices,
    semirings,
)

EVERY = {**sr.CATALOGUE, **EXAMPLES}
CASES = [(name, dtype) for name, semiring in EVERY.items() for dtype in semiring.dtypes]
QUICK = ("min_plus", "plus_times", "boolean", *EXAMPLES)
SOME = quick(lambda name, dtype: name in QUICK, each_value(CASES))


def find_example(strategy, condition):
    """Return a drawn value for which the condition holds, without shrinking."""
    return find(strategy, condition, settings=settings(max_examples=2000, phases=[Phase.generate]))


@pytest.mark.parametrize(("name", "dtype"), SOME)
def test_elements_lie_in_the_domain_and_hold_zero_and_one(name, dtype):
    semiring = EVERY[name]
    zero, one = semiring.zero_for(dtype), semiring.one_for(dtype)
    find_example(elements(semiring, dtype), lambda value: value == zero)
    find_example(elements(semiring, dtype), lambda value: value == one)

    @given(elements(semiring, dtype))
    def check(value):
        typed = np.dtype(dtype).type(value)
        assert typed == value, "the value is one of the dtype"
        assert semiring.domain.contains(typed) or typed == zero

    check()


def test_elements_reach_the_corners():
    floats = elements("min_plus", "float32")
    find_example(floats, lambda value: value == -np.inf)
    find_example(floats, lambda value: value == 0 and np.signbit(value))
    find_example(floats, lambda value: 0 < value < np.finfo(np.float32).tiny)
    find_example(floats, lambda value: value == np.finfo(np.float32).max)
    find_example(elements("min_plus", "int16"), lambda value: value == -(2**15))
    find_example(elements("max_min", "uint8"), lambda value: value == 254)
    with pytest.raises(DTypeError, match="boolean is not defined on float64"):
        elements("boolean")


def test_ends_that_are_no_float32_stay_inside_the_domain():
    tenth = sr.Semiring("tenths", "max(x, y)", "min(x, y)", 0.1, 0.7, domain=(0.1, 0.7))

    @given(elements(tenth, "float32"))
    def check(value):
        assert 0.1 <= value <= 0.7 or np.float32(value) == np.float32(0.1)

    check()


@pytest.mark.parametrize(("name", "dtype"), [case for case in SOME if case.values[0] != "log_plus"])
def test_laws_are_exact_on_exact_elements(name, dtype):
    """Rounding breaks none of the laws there, so tests on them need no tolerance."""
    semiring = EVERY[name]
    names = [law for law in laws_of(semiring) if law != "star"]  # 1 / (1 - x) rounds
    element = exact_elements(semiring, dtype)

    @settings(max_examples=15)
    @given(st.lists(st.tuples(element, element, element), min_size=1, max_size=8))
    def check(triples):
        x, y, z = (np.array(column, dtype) for column in zip(*triples, strict=True))
        for law in names:
            check_law(law, semiring, x, y, z)

    check()


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("shape", [(0, 0), (0, 3), (1, 1), (4, 1), (1, 4), (5, 3), (6, 6)])
def test_a_layout_changes_the_strides_and_nothing_else(layout, shape):
    for dtype in (bool, np.uint8, np.int32, np.float64):
        x = np.arange(np.prod(shape)).reshape(shape) % 2 if dtype is bool else np.arange(np.prod(shape)).reshape(shape)
        x = x.astype(dtype)
        y = in_layout(x, layout)
        assert y.dtype == dtype
        np.testing.assert_array_equal(y, x)
        assert not np.shares_memory(x, y)


def test_layouts_lie_as_they_are_called():
    x = np.arange(30.0).reshape(5, 6)
    strides = {layout: in_layout(x, layout).strides for layout in LAYOUTS}
    assert strides["C"] == (48, 8)
    assert strides["Fortran"] == (8, 40)
    assert strides["rows reversed"] == (-48, 8)
    assert strides["columns reversed"] == (48, -8)
    assert strides["both reversed, Fortran"] == (-8, -40)
    assert strides["every other"][1] == 24
    assert strides["every other, transposed"][0] == 24
    assert strides["window"] == (88, 8)
    assert not in_layout(x, "read-only").flags.writeable
    poisoned = in_layout(x, "window").base
    assert np.isnan(poisoned).sum() == poisoned.size - 30
    with pytest.raises(DomainError, match="'diagonal' is no memory order: C, Fortran"):
        in_layout(x, "diagonal")


def test_matrices_are_drawn_in_each_layout():
    strategy = matrices("min_plus", "float32", (3, 4))
    assert find_example(strategy, lambda A: A.strides[0] < 0).dtype == np.float32
    find_example(strategy, lambda A: A.flags.f_contiguous)
    find_example(strategy, lambda A: not A.flags.writeable)
    find_example(matrices("min_plus", shape=st.tuples(st.integers(0, 3), st.just(2))), lambda A: A.shape == (0, 2))
    find_example(matrices("min_plus", layouts=["C"]), lambda A: np.isinf(A).any() and np.isfinite(A).any())


@pytest.mark.parametrize(("name", "dtype"), SOME)
def test_closable_matrices_have_a_closure(name, dtype):
    """The elementwise operations alone check that another power of A adds nothing."""
    semiring = EVERY[name]

    @settings(max_examples=15)
    @given(closable_matrices(semiring, dtype, st.integers(0, 4)))
    def check(A):
        n = len(A)
        unit = np.where(np.eye(n, dtype=bool), semiring.one_for(dtype), semiring.zero_for(dtype))
        total = unit
        for _ in range(n + 1):
            before = total
            product = np.full((n, n), semiring.zero_for(dtype))
            for k in range(n):
                product = semiring.add(product, semiring.mul(A[:, k : k + 1], before[k : k + 1]))
            total = semiring.add(unit, product)
        np.testing.assert_array_equal(total, before)

    check()
    find_example(closable_matrices(semiring, dtype, st.just(3)), lambda A: (semiring.zero_for(dtype) != A).any())


def test_semirings_are_chosen_by_dtype_and_property():
    assert find(semirings(), lambda _: True) is sr.min_plus
    find_example(semirings(commutative=False), lambda semiring: semiring is EXAMPLES["relations"])

    @given(semirings(dtype="int16", selective=True, examples=False))
    def check(semiring):
        assert semiring.name in {"min_plus", "max_plus", "max_min", "min_max"}

    check()


def test_without_hypothesis_the_error_names_the_extra():
    code = """
import sys
sys.modules["hypothesis"] = None
from semiring import testing
from semiring.errors import MissingExtraError
testing.uniform_graph(5, 1)
for make in (testing.semirings, lambda: testing.elements("min_plus"), lambda: testing.matrices("min_plus")):
    try:
        make()
    except MissingExtraError as error:
        assert "pip install '.[testing]'" in str(error), error
    else:
        raise SystemExit("no error")
"""
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_closures_of_drawn_matrices_agree_with_the_oracle_on_what_exists():
    """The strategy must not shrink the world to trivial matrices: long paths occur."""
    A = find_example(
        closable_matrices("min_plus", sizes=st.just(5), layouts=["C"]),
        lambda A: (
            not np.array_equal(oracles.closure(A, "min_plus"), np.minimum(A, oracles.identity(5, "min_plus", float)))
        ),
    )
    assert A.shape == (5, 5)
