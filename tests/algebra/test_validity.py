"""Test that the table of the documentation says which semiring is defined on which dtype."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import semiring as sr
from semiring.algebra import DTYPES
from semiring.blas import gemm
from semiring.errors import AlgebraError, AlgebraWarning, DTypeError
from semiring.kernels.definition import define
from semiring.kernels.engine import make_plan
from semiring.kernels.reference import ReferenceBackend

PAGE = (Path(__file__).parents[2] / "docs" / "semirings.md").read_text()
TABLE = PAGE[PAGE.index("<!-- validity matrix") :]
HEADER = [cell.strip() for cell in re.search(r"^\| semiring \|(.*)\|$", TABLE, re.M)[1].split("|")]
ROWS = {
    name: [dtype for dtype, cell in zip(HEADER, cells.split("|"), strict=False) if cell.strip()]
    for name, cells in re.findall(r"^\| `(\w+)` \|(.*)\|$", TABLE, re.M)
}


def test_the_table_has_every_semiring_and_every_dtype():
    assert set(ROWS) == set(sr.CATALOGUE)
    assert tuple(HEADER) == DTYPES


@pytest.mark.parametrize("name", sorted(ROWS))
def test_a_row_says_where_the_semiring_is_defined(name):
    semiring = sr.CATALOGUE[name]
    assert tuple(ROWS[name]) == semiring.dtypes
    for dtype in DTYPES:
        assert semiring.supports(dtype) == (dtype in ROWS[name])
        if not semiring.supports(dtype):
            with pytest.raises(DTypeError, match=f"{name} is not defined on {dtype}: .* Use (one of|bool)"):
                semiring.check_dtype(np.dtype(dtype))
    assert not semiring.supports("complex128")
    assert not semiring.supports("datetime64[s]")


def test_the_table_of_zeros_and_ones_is_right():
    words = {"∞": float("inf"), "−∞": float("-inf"), "False": False, "True": True, "0": 0, "1": 1}
    rows = re.findall(r"^\| `(\w+)`[^|]*\|[^|]*\|[^|]*\| ([^|]*) \| ([^|]*) \|", PAGE[: PAGE.index("<!--")], re.M)
    assert {name for name, _, _ in rows} == set(sr.CATALOGUE)
    for name, zero, one in rows:
        semiring = sr.CATALOGUE[name]
        assert semiring.zero.leaf == words[zero], name
        assert one == "all bits" if name == "xor_and" else semiring.one.leaf == words[one], name


DISTANCES = [  # ⊗ of a finite zero is not the zero
    ("x + y", "abs(x - y)", 0, "[0, inf)", ["float64", "float32"]),
    ("max(x, y)", "abs(x - y)", 0, "[0, inf)", ["float64"]),
    ("x + y", "where(x != y, 1, 0)", 0, None, ["float64"]),
    ("x + y", "where(x == y, 1, 0)", 0, None, ["float32"]),  # 0̄ ⊗ 0̄ is not 0̄: no padding
    ("x | y", "x ^ y", 0, None, ["uint8", "bool"]),
    ("x & y", "~(x ^ y)", "~0", None, ["int16"]),
]


@pytest.mark.parametrize("shape", [(2, 3, 4), (1, 130, 90), (90, 130, 1), (40, 33, 70)])
@pytest.mark.parametrize(("add", "mul", "zero", "domain", "dtypes"), DISTANCES)
def test_a_finite_zero_that_does_not_annihilate_is_an_entry_like_any_other(rng, add, mul, zero, domain, dtypes, shape):
    semiring = sr.Semiring(f"distance {shape}", add, mul, zero, 1, domain=domain)
    assert not semiring.annihilates
    (m, k, n), plus, times = shape, semiring.add.expression, semiring.mul.expression
    for dtype in map(np.dtype, dtypes):
        A, B = (rng.integers(0, 3, size).astype(dtype) for size in ((m, k), (k, n)))
        terms = times.evaluate({"x": A[:, :, None], "y": B[None]}, dtype)
        expected = terms[:, 0]
        for i in range(1, k):
            expected = plus.evaluate({"x": expected, "y": terms[:, i]}, dtype)
        make_plan.__globals__["_warn_of_failed_annihilation"].cache_clear()
        make_plan.__globals__["_plan"].cache_clear()
        with pytest.warns(AlgebraWarning, match="is no semiring: .* fails: .* If the zero stands for no entry"):
            plan = make_plan(semiring, dtype)
        C, G = sr.matmul(A, B, semiring), gemm(A, B, semiring=semiring)
        R = np.empty_like(C)
        ReferenceBackend().multiply(plan, R, A, B)
        for result in (C, R, G):
            np.testing.assert_array_equal(result, expected)
        np.testing.assert_array_equal(semiring.mul(A[:, :, None], B[None]), terms)
    assert define(plan).may_pad == (mul != "where(x == y, 1, 0)")
    with pytest.raises(AlgebraError, match="closures are not the sums"):
        sr.closure(np.eye(2, dtype=dtype), semiring)


def test_the_product_with_refuted_annihilation_warns_once(recwarn):
    semiring = sr.Semiring("manhattan", "x + y", "abs(x - y)", 0, 1)
    A = np.array([[0.0, 1], [2, 3]])
    for dtype in ("float64", "float64", "float32"):
        assert sr.matmul(A.astype(dtype), A.astype(dtype), semiring).tolist() == [[1, 3], [3, 1]]
    assert [warning.category for warning in recwarn] == [AlgebraWarning]
    assert "refuted" in str(semiring.check_axioms()["annihilation"].outcome)


@pytest.mark.parametrize(
    ("add", "mul", "zero"),
    [("x + y", "x * y", 0), ("x + y", "x / y", 0), ("max(x, y)", "abs(x - y)", "-inf"), ("min(x, y)", "x + y", "inf")],
)
def test_an_infinite_zero_and_an_undefined_product_annihilate_by_definition(add, mul, zero):
    semiring = sr.Semiring("own", add, mul, zero, 1)
    assert semiring.annihilates
    A = np.array([[semiring.zero_for(float), 1.0]])
    np.testing.assert_array_equal(sr.matmul(A, [[5.0], [1.0]], semiring), semiring.mul([[1.0]], [[1.0]]))
