"""Test that the laws hold where they must, also on the example semirings, and that each of them can fail."""

from __future__ import annotations

import itertools

import numpy as np
import oracles
import pytest

import semiring as sr
from semiring.errors import UnknownNameError
from semiring.testing import (
    EXAMPLES,
    check_closure_law,
    check_law,
    check_matrix_law,
    closure_laws_of,
    laws_of,
    matrix_laws_of,
)

INF = np.inf
ALWAYS = {
    *("add_associative", "add_commutative", "add_neutral", "mul_associative", "mul_neutral", "annihilation"),
    *("left_distributive", "right_distributive"),
}


def oracle_product(A, B, semiring):
    return oracles.product(np.asarray(A), np.asarray(B), semiring.name)


def oracle_closure(A, semiring, reflexive=True):
    return oracles.closure(A, semiring.name, reflexive=reflexive)


def test_the_laws_of_a_semiring_follow_from_its_properties():
    assert set(laws_of("plus_times")) == ALWAYS | {"commutative", "star"}
    assert set(laws_of("max_min")) == ALWAYS | {"commutative", "star", "idempotent", "selective", "absorptive"}
    assert set(laws_of(EXAMPLES["relations"])) == ALWAYS | {"idempotent", "star"}
    assert "transposition" in matrix_laws_of("min_plus")
    assert "transposition" not in matrix_laws_of(EXAMPLES["relations"])
    assert {"square", "closed"} & set(closure_laws_of("plus_times")) == set()
    assert {"square", "closed"} < set(closure_laws_of("min_plus"))


def test_relations_are_a_semiring_on_all_their_elements():
    """The laws hold for all triples of the 16 relations on two elements, whose composition is the Boolean product."""
    relations = EXAMPLES["relations"]
    x, y, z = np.meshgrid(*[np.arange(16, dtype=np.uint8)] * 3)
    for law in laws_of(relations):
        check_law(law, relations, x, y, z)
    for a, b in itertools.product(range(16), repeat=2):
        left, right = (np.array([[k & 1, k >> 1 & 1], [k >> 2 & 1, k >> 3 & 1]]) for k in (a, b))
        composed = (left @ right > 0) @ [[1], [2]]
        assert relations.mul(np.uint8(a), np.uint8(b)) == composed[0, 0] + 4 * composed[1, 0]
    with pytest.raises(AssertionError, match="x ⊗ y = y ⊗ x fails in relations for x = "):
        check_law("commutative", relations, x, y)
    with pytest.raises(AssertionError, match="x ⊕ y = x or x ⊕ y = y"):
        check_law("selective", relations, x, y)
    with pytest.raises(AssertionError, match="1̄ ⊕ x = 1̄"):
        check_law("absorptive", relations, x)


@pytest.mark.parametrize("name", ["capped_min_plus", "reliability"])
def test_the_other_examples_are_semirings(name):
    semiring = EXAMPLES[name]
    values = [0, 1, 2.5, 30, 64, 99.5, 100] if name == "capped_min_plus" else [0, 0.25, 0.5, 1]
    for dtype in semiring.dtypes:
        x, y, z = np.meshgrid(*[np.array(values, dtype)] * 3)
        for law in laws_of(semiring):
            check_law(law, semiring, x, y, z)


# For each law of elements, a structure in which it fails (these are deliberately no semirings).
BROKEN = {
    "add_associative": (sr.Semiring("mean", "(x + y) / 2", "x + y", 0, 1), (1.0, 2.0, 4.0)),
    "add_commutative": (sr.Semiring("first", "x + 2 * y", "x * y", 0, 1), (1.0, 2.0, 4.0)),
    "add_neutral": (sr.Semiring("no zero", "min(x, y)", "x + y", 5, 0), (9.0,)),
    "mul_associative": (sr.Semiring("minus", "min(x, y)", "x - y", float("inf"), 0), (1.0, 2.0, 4.0)),
    "mul_neutral": (sr.Semiring("minus", "min(x, y)", "x - y", float("inf"), 0), (1.0,)),
    "left_distributive": (sr.Semiring("min over product", "min(x, y)", "x * y", float("inf"), 1), (-1.0, 2.0, 4.0)),
    "right_distributive": (sr.Semiring("min over product", "min(x, y)", "x * y", float("inf"), 1), (2.0, 4.0, -1.0)),
    "idempotent": (sr.plus_times, (1.0,)),
    "selective": (sr.plus_times, (1.0, 1.0)),
    "commutative": (sr.Semiring("minus", "min(x, y)", "x - y", float("inf"), 0), (1.0, 2.0)),
    "absorptive": (sr.min_plus, (-1.0,)),
    "star": (sr.Semiring("wrong star", "x + y", "x * y", 0, 1, star="1 + x"), (2.0,)),
}


@pytest.mark.parametrize("law", BROKEN)
def test_a_broken_law_is_named_with_its_operands(law):
    structure, operands = BROKEN[law]
    with pytest.raises(AssertionError, match=f"fails in {structure.name} for x = {operands[0]}"):
        check_law(law, structure, *operands)


def test_an_infinite_zero_annihilates_whatever_the_definition_says():
    """The product ∞ ⊗ -∞ is no path in every order, so that this law holds for every ⊗."""
    check_law("annihilation", "min_plus", [-INF, 0.0, INF])
    check_law("annihilation", sr.Semiring("x", "min(x, y)", "x * y", "inf", 1), [3.0, -1.0])


def test_an_unknown_law_lists_the_valid_ones():
    for check in (check_law, check_matrix_law, check_closure_law):
        with pytest.raises(UnknownNameError, match=r"no law is named 'product'.* Valid names: .*, .*"):
            check("product", "min_plus", np.zeros((1, 1)))


def test_a_tolerance_is_relative_to_the_largest_magnitude(rng):
    x, y, z = rng.standard_normal((3, 1000))
    for scale in (1e-200, 1, 1e200):
        operands = x * scale, y * scale, z * scale
        check_law("add_associative", "plus_times", *operands, rtol=1e-15)
        for rtol in (0, 1e-18):
            with pytest.raises(AssertionError, match="fails in plus_times"):
                check_law("add_associative", "plus_times", *operands, rtol=rtol)


def three(rng):
    A, B, C = (rng.integers(0, 20, (6, 6)).astype(float) for _ in "ABC")
    A[0, 3] = B[2, 2] = C[5, 1] = INF
    return A, B, C


def test_matrix_laws_hold_for_a_right_product(rng):
    for law in matrix_laws_of("min_plus"):
        check_matrix_law(law, "min_plus", *three(rng), matmul=oracle_product)


def too_large(A, B, semiring):
    return oracle_product(A, B, semiring) + 1 + A + 2 * B


def filled_with_0(A, B, semiring):
    """Return a product by tiles that are filled with 0 instead of the zero."""
    return np.minimum(oracle_product(A, B, semiring), 0.0)


@pytest.mark.parametrize("law", matrix_laws_of("min_plus"))
def test_each_matrix_law_catches_a_wrong_product(law, rng):
    A, B, C = three(rng)
    wrong = filled_with_0 if law == "annihilation" else too_large
    with pytest.raises(AssertionError, match="fails in min_plus"):
        check_matrix_law(law, "min_plus", A, B, C, matmul=wrong)


def test_a_product_of_the_wrong_shape_is_caught(rng):
    A, B, C = three(rng)
    with pytest.raises(AssertionError, match=r"the sides are \(5, 6\) and \(6, 6\)"):
        check_matrix_law("left_neutral", "min_plus", A, B, C, matmul=lambda A, B, s: oracle_product(A, B, s)[:5])


def test_closure_laws_hold_for_a_right_closure(rng):
    A = three(rng)[0]
    for law in closure_laws_of("min_plus"):
        check_closure_law(law, "min_plus", A, closure=oracle_closure, matmul=oracle_product)


def one_step_short(A, semiring, reflexive=True):
    """Return I ⊕ A, or A without ``reflexive``: the paths of at most one edge."""
    return np.minimum(A, np.where(np.eye(len(A)), 0.0, INF)) if reflexive else A


def upper_only(A, semiring, reflexive=True):
    D = oracle_closure(A, semiring, reflexive)
    D[np.tril_indices(len(A), -1)] += 1
    return D


@pytest.mark.parametrize(
    ("law", "wrong"),
    [
        ("left_fixed_point", one_step_short),
        ("right_fixed_point", one_step_short),
        ("irreflexive", one_step_short),
        ("square", one_step_short),
        ("reflexive", lambda A, s, reflexive=True: one_step_short(A, s)[::-1]),
        ("closed", lambda A, s, reflexive=True: np.minimum(A, oracle_product(A, A, s))),
        ("transposition", upper_only),
    ],
)
def test_each_closure_law_catches_a_wrong_closure(law, wrong, rng):
    A = np.full((7, 7), INF)
    A[np.arange(6), np.arange(1, 7)] = rng.integers(1, 9, 6)  # a chain: the longest shortest paths
    A[6, 0] = 2
    with pytest.raises(AssertionError, match="fails in min_plus"):
        check_closure_law(law, "min_plus", A, closure=wrong, matmul=oracle_product)
