"""Test properties of the public functions, drawn by Hypothesis over every semiring, dtype and memory order.

The catalogue and the semirings of `semiring.testing.strategies`, among them one whose ⊗ does not commute. Entries are
such that nothing rounds (except in log_plus), so equality is exact.
"""

from __future__ import annotations

import numpy as np
import oracles
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tiers import each_value, full, quick

import semiring as sr
from semiring import blas
from semiring.algorithms.methods import matrix_methods, method_named
from semiring.closures import closure
from semiring.errors import AlgebraError
from semiring.kernels.definition import has_unit_star
from semiring.linalg import matmul
from semiring.paths import best_paths
from semiring.testing import (
    EXAMPLES,
    LAYOUTS,
    check_closure,
    check_closure_law,
    check_matrix_law,
    check_path,
    check_predecessors,
    check_product,
    closable_matrices,
    closure_laws_of,
    elements,
    exact_elements,
    in_layout,
    matrices,
    matrix_laws_of,
)

EVERY = {**sr.CATALOGUE, **EXAMPLES}
CASES = [(name, dtype) for name, semiring in EVERY.items() for dtype in semiring.dtypes]
METHODS = (
    *("rkleene", "blocked_floyd_warshall", "floyd_warshall", "squaring", "dense"),
    *("rkleene_plain", "bertoldi_openmp", "bertoldi_openmp_static", "row_broadcast"),
)


# 1 / (1 - x) is no integer: plus_times has a closure of floats alone.
CLOSED = [(name, dtype) for name, dtype in CASES if name != "plus_times" or dtype.startswith("float")]
#: Operations that are others turned round: products of them are left to the exhaustive tier.
DUAL = ("max_plus", "min_max", "min_times")
PRODUCTS = full(lambda name, dtype: name not in DUAL, each_value(CASES))
#: The quick tier's semirings: of each kind of ⊕ and ⊗ one.
QUICK = ("min_plus", "max_times", "plus_times", "boolean", *EXAMPLES)
SOME = quick(lambda name, dtype: name in QUICK, each_value(CASES))
SOME_CLOSED = quick(lambda name, dtype: name in QUICK, each_value(CLOSED))
WIDEST = {name: [dtype for other, dtype in CLOSED if other == name][-1] for name in EVERY}


def rounding(semiring):
    """Return the relative tolerance of laws that reassociate: only log_plus and the division of a star round."""
    return 1e-4 if semiring.name in ("log_plus", "plus_times") else 0.0


@st.composite
def operands(draw, semiring, dtype, entries=None):
    """Draw A (m, k) and B (k, n), each size from 0, in layouts of their own."""
    m, k, n = draw(st.tuples(*[st.integers(0, 9)] * 3))
    return (
        draw(matrices(semiring, dtype, (m, k), entries=entries)),
        draw(matrices(semiring, dtype, (k, n), entries=entries)),
    )


@pytest.mark.full
@pytest.mark.parametrize(("name", "dtype"), PRODUCTS)
def test_the_product_is_its_definition(name, dtype):
    semiring = EVERY[name]

    @settings(max_examples=15)
    @given(operands(semiring, dtype))
    def check(pair):
        A, B = pair
        C = matmul(A, B, semiring)
        assert C.dtype == dtype
        check_product(A, B, C, semiring)
        if name in oracles.ORACLES and name != "log_plus":
            np.testing.assert_array_equal(C, oracles.product(A, B, name))

    check()


@pytest.mark.parametrize(("name", "dtype"), SOME)
def test_the_laws_of_matrix_products(name, dtype):
    semiring = EVERY[name]
    laws = matrix_laws_of(semiring)
    rtol = 1e-5 if name == "log_plus" else 0.0

    @settings(max_examples=10)
    @given(st.data(), st.integers(0, 6))
    def check(data, n):
        A, B, C = (data.draw(matrices(semiring, dtype, (n, n))) for _ in "ABC")
        for law in laws:
            check_matrix_law(law, semiring, A, B, C, rtol=rtol)

    check()


@pytest.mark.full
@pytest.mark.parametrize("dtype", full(lambda dtype: dtype == "float32", ["float32", "float64"]))
@pytest.mark.parametrize("name", [name for name in EVERY if EVERY[name].selective and EVERY[name].supports("float64")])
def test_products_of_corner_values(name, dtype):
    """Products of infinities, subnormal numbers, -0.0 and overflowing sums are one rounded ⊗ and an exact choice."""
    semiring = EVERY[name]
    # A product that underflows in max_times, or overflows in min_times, is the zero, on every backend alike.

    @given(operands(semiring, dtype, elements(semiring, dtype)))
    def check(pair):
        A, B = pair
        check_product(A, B, matmul(A, B, semiring), semiring)

    check()


@pytest.mark.full
@pytest.mark.parametrize(("name", "dtype"), PRODUCTS)
def test_gemm_is_its_formula(name, dtype):
    """Elementwise operations give the same D = (α ⊗ A ⊗ B) ⊕ (β ⊗ C), with transposed operands too."""
    semiring = EVERY[name]
    entry = exact_elements(semiring, dtype)
    typed = np.dtype(dtype).type

    @settings(max_examples=10)
    @given(st.data(), operands(semiring, dtype), entry, entry, st.booleans(), st.booleans())
    def check(data, pair, alpha, beta, transpose_a, transpose_b):
        A, B = pair
        C = data.draw(matrices(semiring, dtype, (A.shape[0], B.shape[1])))
        left, right = (A.T if transpose_a else A), (B.T if transpose_b else B)
        D = blas.gemm(
            *(left, right, C, semiring), alpha=typed(alpha), beta=typed(beta), transpose=(transpose_a, transpose_b)
        )
        scaled = semiring.mul(np.full(A.shape, alpha, dtype), A)
        total = np.full(C.shape, semiring.zero_for(dtype))
        for k in range(A.shape[1]):
            total = semiring.add(total, semiring.mul(scaled[:, k : k + 1], B[k : k + 1]))
        expected = semiring.add(total, semiring.mul(np.full(C.shape, beta, dtype), C))
        if name == "log_plus":
            np.testing.assert_allclose(D, expected, rtol=1e-5, atol=1e-5)
        else:
            np.testing.assert_array_equal(D, expected)

    check()


@pytest.mark.full
@pytest.mark.parametrize(("name", "dtype"), each_value([case for case in CASES if EVERY[case[0]].selective]))
def test_a_witness_attains_its_entry_and_none_before_it_does(name, dtype):
    semiring = EVERY[name]

    @settings(max_examples=15)
    @given(operands(semiring, dtype))
    def check(pair):
        A, B = pair
        C, W = matmul(A, B, semiring, return_witness=True)
        np.testing.assert_array_equal(C, matmul(A, B, semiring))
        first = np.full(C.shape, -1)
        for k in reversed(range(A.shape[1])):
            attains = semiring.mul(A[:, k : k + 1], B[k : k + 1]) == C
            first[attains & (semiring.zero_for(dtype) != C)] = k
        np.testing.assert_array_equal(W, first)

    check()


@pytest.mark.parametrize(("name", "dtype"), SOME_CLOSED)
def test_the_closure_is_its_definition(name, dtype):
    semiring = EVERY[name]

    @settings(max_examples=15)
    @given(closable_matrices(semiring, dtype), st.booleans())
    def check(A, reflexive):
        D = closure(A, semiring, reflexive=reflexive)
        assert D.dtype == dtype
        check_closure(A, D, semiring, reflexive=reflexive, rtol=rounding(semiring) or None)
        if name in oracles.ORACLES and semiring.idempotent:
            np.testing.assert_array_equal(D, oracles.closure(A, name, reflexive=reflexive))

    check()


@pytest.mark.filterwarnings("ignore::semiring.errors.SuspiciousWeightsWarning")
@pytest.mark.parametrize(("name", "dtype"), SOME_CLOSED)
def test_the_laws_of_closures(name, dtype):
    semiring = EVERY[name]
    laws, rtol = closure_laws_of(semiring), rounding(semiring)

    @settings(max_examples=6)
    @given(closable_matrices(semiring, dtype))
    def check(A):
        for law in laws:
            check_closure_law(law, semiring, A, rtol=rtol)

    check()


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", quick(lambda name: name in QUICK, EVERY))
def test_every_method_gives_the_same_closure(name, method):
    semiring = EVERY[name]
    dtype = WIDEST[name]
    if method == "squaring" and not (semiring.selective or semiring.absorptive):
        # Squares sum up to the closure only where going round a cycle adds nothing.
        with pytest.raises(AlgebraError, match="squaring needs"):
            closure(np.full((2, 2), semiring.zero_for(dtype)), semiring, method=method)
        return
    if method == "row_broadcast" and not (semiring.idempotent and has_unit_star(semiring, np.dtype(dtype))):
        with pytest.raises(AlgebraError, match="row_broadcast closes semirings with an idempotent ⊕"):
            closure(np.full((2, 2), semiring.zero_for(dtype)), semiring, method=method)
        return

    @settings(max_examples=10)
    @given(closable_matrices(semiring, dtype))
    def check(A):
        D = closure(A, semiring, method=method)
        check_closure(A, D, semiring, rtol=rounding(semiring) or None)
        if semiring.idempotent:
            np.testing.assert_array_equal(D, closure(A, semiring))

    check()


@pytest.mark.parametrize("name", quick(lambda name: name in QUICK, EVERY))
def test_a_closure_in_place_is_the_closure(name):
    semiring = EVERY[name]

    @given(closable_matrices(semiring, WIDEST[name], layouts=["C"]), st.sampled_from(list(LAYOUTS)))
    @example(np.full((1, 1), semiring.zero_for(WIDEST[name])), "every other")  # contiguous, whatever its strides
    def check(A, layout):
        expected = closure(A, semiring)
        B = in_layout(A, layout)
        if layout == "read-only":
            np.testing.assert_array_equal(closure(B, semiring), expected)
            np.testing.assert_array_equal(B, A)
        else:
            assert closure(B, semiring, out=B) is B
            np.testing.assert_array_equal(B, expected)

    check()


def test_results_do_not_depend_on_the_number_of_threads(rng):
    """Results are bitwise identical in a semiring whose sums round."""
    A, B = rng.standard_normal((2, 150, 150))
    np.testing.assert_array_equal(matmul(A, B, "plus_times", threads=1), matmul(A, B, "plus_times", threads=2))
    small = A / 100
    np.testing.assert_array_equal(closure(small, "plus_times", threads=1), closure(small, "plus_times", threads=2))
    weights = np.abs(A)
    np.testing.assert_array_equal(closure(weights, threads=1), closure(weights, threads=2))


def test_squaring_refuses_a_cycle_whose_star_is_not_one():
    """Squaring goes round a negative cycle a few times, while its star is -∞, so it must raise."""
    unbounded = sr.Semiring("unbounded", "min(x, y)", "x + y", np.inf, 0, "where(x >= 0, 0, -inf)")
    A = np.array([[np.inf, -1, np.inf], [0.5, np.inf, 2], [np.inf, np.inf, np.inf]])
    for method in ("rkleene", "blocked_floyd_warshall", "floyd_warshall"):
        assert closure(A, unbounded, method=method).tolist() == [[-np.inf] * 3, [-np.inf] * 3, [np.inf, np.inf, 0]]
    with pytest.raises(AlgebraError, match="vertex 0 improves"):
        closure(A, unbounded, method="squaring")


def test_the_methods_named_here_are_those_that_exist():
    here = {name for name in matrix_methods() if name != "auto" and "cpu" in method_named(name).devices}
    assert here == set(METHODS)


@pytest.mark.full
@pytest.mark.parametrize(
    "name", full(lambda name: name == "min_plus", [name for name in EVERY if EVERY[name].selective])
)
def test_best_paths_are_certified(name):
    """Predecessors form trees and paths weigh what the matrix says, in every semiring that chooses without rounding."""
    semiring, dtype = EVERY[name], WIDEST[name]

    @settings(max_examples=15)
    @given(closable_matrices(semiring, dtype), st.booleans())
    def check(A, predecessors):
        found = best_paths(A, semiring, predecessors=predecessors)
        D = found.matrix
        np.testing.assert_array_equal(D, closure(A, semiring))
        if predecessors:
            check_predecessors(A, D, found.predecessors, semiring, rtol=0)
        for i, j in np.argwhere(semiring.zero_for(dtype) != D).tolist():
            check_path(A, found.path(i, j), D[i, j], semiring, source=i, target=j, rtol=0)

    check()
