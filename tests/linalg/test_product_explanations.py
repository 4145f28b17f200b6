"""Test ``explain=True`` of products: (r, explanation), where r is what the call returns otherwise."""

from __future__ import annotations

import numpy as np
import pytest

import semiring as sr
from semiring.kernels.engine import make_plan
from semiring.linalg.contraction.plans import ContractionPlan
from semiring.linalg.product_explanation import record_kernel, record_product

A = np.array([[0.0, 3.0, np.inf], [2.0, 0.0, 1.0], [np.inf, 7.0, 0.0]])
BITS = sr.pack(A < 3)
STEPS = np.stack([A, A, A])
DISTANCES = np.where(np.inf == A, np.iinfo(np.int32).max, A).astype(np.int32)

#: A function, its arguments and options, and the kernel, pairs and dtype of the sums.
PRODUCTS = {
    "floats": (sr.matmul, (A, A), {}, "product", 27, "float64"),
    "witness": (sr.matmul, (A, A), {"return_witness": True}, "product with witness", 27, "float64"),
    "float16": (sr.matmul, (A.astype(np.float16),) * 2, {}, "product", 27, "float32"),
    "log_plus": (sr.matmul, (A[:2, :2].astype(np.float32),) * 2, {"semiring": "log_plus"}, "product", 8, "float64"),
    "integers": (sr.matmul, (DISTANCES, DISTANCES), {}, "product", 27, "int32"),
    "scanned integers": (sr.matmul, (DISTANCES % 9,) * 2, {"semiring": "plus_times"}, "product", 27, "int32"),
    "bits": (sr.matmul, (BITS, BITS, "boolean"), {}, "product of packed bits", 27, "bool"),
    "stack": (sr.matmul, (STEPS, A), {}, "product", 81, "float64"),
    "chain": (sr.multi_dot, (STEPS, A[0]), {}, "steps of a sequence", 27, "float64"),
    "paths": (sr.multi_dot, (STEPS, A[0]), {"return_witness": True}, "steps of a sequence with witness", 27, "float64"),
}


@pytest.mark.parametrize("name", PRODUCTS)
def test_a_product_is_returned_with_its_explanation(name):
    function, arguments, options, kernel, pairs, sums = PRODUCTS[name]
    result, explanation = function(*arguments, **options, threads=1, explain=True)
    expected = function(*arguments, **options, threads=1)
    assert type(result) is type(expected)
    for one, other in zip(*((x if isinstance(x, tuple) else (x,)) for x in (result, expected)), strict=True):
        assert np.array_equal(*(x.unpack() if isinstance(x, sr.BitMatrix) else x for x in (one, other)))
    assert (explanation.kernel, explanation.pairs, str(explanation.accumulation)) == (kernel, pairs, sums)
    assert (explanation.function, explanation.threads, explanation.device) == (function.__name__, 1, "cpu")
    lines = str(explanation).splitlines()
    assert [line.split()[0] for line in lines[1:]] == ["kernel", "encoding", "sums", "cost"]


def test_an_explanation_states_the_encoding_of_no_path():
    explanations = [sr.matmul(x, x, explain=True)[1] for x in (DISTANCES, DISTANCES[:2, :2], A)]
    assert ["for no path" in explanation.encoding for explanation in explanations] == [True, False, False]


def test_an_explanation_states_that_products_of_float16_are_added_in_float32():
    """Only GPUs have kernels for float16, so the plan is recorded without a product."""
    with record_product("plus_times", "matmul") as explanation:
        plan = make_plan(sr.plus_times, np.float16)
        record_kernel("product", plan, A, 27, np.float16, has_zero=False)
    assert (explanation.encoding, explanation.accumulation) == ("float16, as given", np.float32)


def test_a_product_without_terms_calls_no_kernel():
    C, explanation = sr.matmul(np.zeros((2, 0)), np.zeros((0, 2)), explain=True)
    assert np.array_equal(C, np.full((2, 2), np.inf))
    assert (explanation.kernel, explanation.pairs) == ("none", 0)
    assert "no entries or terms" in str(explanation)


@pytest.mark.parametrize("options", [{}, {"return_witness": True}, {"memory": "1 MiB"}])
def test_einsum_is_explained_by_its_plan(options):
    call = ("ij,jk->ik", A, A)
    result, plan = sr.einsum(*call, **options, explain=True)
    assert isinstance(plan, ContractionPlan)
    assert str(plan) == str(sr.einsum_path(*call, memory=options.get("memory")))
    expected = sr.einsum(*call, **options)
    assert type(result) is type(expected)
    first, second = (x[0] if options.get("return_witness") else x for x in (result, expected))
    assert np.array_equal(first, second)


@pytest.mark.parametrize("function", [lambda **o: sr.matmul(A, A, **o), lambda **o: sr.einsum("ij->i", A, **o)])
def test_a_flag_is_true_or_false(function):
    with pytest.raises(TypeError, match="explain is"):
        function(explain="yes")
