"""Test float16 and bfloat16 on the host: computed in float32 and rounded once, where terms are added up."""

from __future__ import annotations

import numpy as np
import pytest
from operands import entries, laid_out

import semiring as sr
from semiring.algebra.expressions.tree import float_limits
from semiring.errors import DomainError, DTypeError

pytestmark = pytest.mark.full

NAMES = ["min_plus", "max_plus", "max_min", "max_times", "min_times", "lukasiewicz", "log_plus", "plus_times"]
SHAPES = [(1, 1, 1), (3, 0, 2), (1, 300, 1), (5, 17, 1), (17, 8, 33), (33, 130, 20)]


@pytest.fixture(params=["float16", "bfloat16"])
def dtype(request):
    if request.param == "bfloat16":
        return np.dtype(pytest.importorskip("ml_dtypes").bfloat16)
    return np.dtype(request.param)


def wide(*arrays):
    return [array.astype(np.float32) for array in arrays]


def assert_rounded_once(actual, exact, dtype):
    """Check for errors within half a unit of the dtype and what float32 may have lost before."""
    actual, exact = np.asarray(actual).astype(float), np.asarray(exact, float)
    limits = float_limits(dtype)
    unit = np.maximum(np.abs(exact), float(limits.smallest_normal)) * float(limits.eps)
    assert (np.abs(actual - exact) <= 0.5 * unit * (1 + 1e-3) + 1e-5 * np.maximum(1, np.abs(exact))).all()


@pytest.mark.parametrize("name", NAMES)
def test_products_are_those_of_float32_rounded_once(rng, dtype, name):
    for m, k, n in SHAPES:
        A, B, C = (entries(rng, name, "float32", shape).astype(dtype) for shape in ((m, k), (k, n), (m, n)))
        for layout in ("rows", "columns", "strided", "reversed"):
            expected = sr.matmul(*wide(A, B), name).astype(dtype)
            found = sr.matmul(laid_out(A, layout), laid_out(B, layout), name)
            assert found.dtype == dtype
            np.testing.assert_array_equal(found, expected)
        one, factor = sr.as_semiring(name).one_for(dtype), dtype.type(0.5)
        options = {"alpha": factor, "beta": factor} if one != factor else {"beta": one}
        expected = sr.blas.gemm(*wide(A, B, C), name, **options).astype(dtype)
        assert sr.blas.gemm(A, B, C, name, **options, out=C) is C
        np.testing.assert_array_equal(C, expected)
        if sr.as_semiring(name).selective:
            product, witness = sr.matmul(A, B, name, return_witness=True)
            np.testing.assert_array_equal(product, sr.matmul(A, B, name))
            np.testing.assert_array_equal(witness, sr.matmul(*wide(A, B), name, return_witness=True)[1])
    stack = np.stack([A[:, :20], A[:, 20:40]])
    np.testing.assert_array_equal(sr.matmul(stack, B[:20], name)[1], sr.matmul(A[:, 20:40], B[:20], name))


def test_sums_of_many_terms(rng, dtype):
    for n in (1000, 5000):
        zeros, ones = np.zeros((1, n), dtype), np.ones((1, n), dtype)
        for sums in (
            [sr.matmul(zeros, zeros.T, "log_plus"), sr.blas.dot(zeros[0], zeros[0], "log_plus")],
            [sr.blas.gemv(zeros, zeros[0], semiring="log_plus"), sr.reduce(zeros, "log_plus")],
        ):
            for found in sums:
                assert found.dtype == dtype
                assert_rounded_once(found, np.log(n), dtype)
        for found in (sr.matmul(ones, ones.T, "plus_times"), sr.reduce(ones, "plus_times"), sr.reduce(ones, sums_of())):
            assert found.dtype == dtype
            assert_rounded_once(found, n, dtype)
    A, B = (rng.random(shape).astype(dtype) for shape in ((32, 512), (512, 32)))
    assert_rounded_once(sr.matmul(A, B, "plus_times"), A.astype(float) @ B.astype(float), dtype)
    out = np.empty((32, 32), dtype, order="F")
    assert sr.matmul(A, B, "plus_times", out=out) is out
    np.testing.assert_array_equal(out, sr.matmul(A, B, "plus_times"))


def sums_of():
    """Return plus_times without named dtypes, so that no code recognizes it by name."""
    return sr.Semiring("sums", "x + y", "x * y", 0, 1)


def test_sequences_and_powers_are_rounded_at_their_end(rng, dtype):
    A, x = (np.log(rng.random(shape)).astype(dtype) for shape in ((7, 7), (3, 7)))
    for function in (sr.scan, sr.multi_dot):
        found = function(A, x, "log_plus", steps=11)
        assert found.dtype == dtype
        np.testing.assert_array_equal(found, function(*wide(A, x), "log_plus", steps=11).astype(dtype))
    np.testing.assert_array_equal(sr.power(A, 5, "log_plus"), sr.power(*wide(A), 5, "log_plus").astype(dtype))
    for function in (sr.add, sr.multiply):
        np.testing.assert_array_equal(function(A, A.T, "log_plus"), function(*wide(A, A.T), "log_plus").astype(dtype))
    found = sr.blas.axpy(dtype.type(0.5), x, x[0], "log_plus")
    assert found.dtype == dtype
    np.testing.assert_array_equal(found, sr.blas.axpy(np.float32(0.5), *wide(x, x[0]), "log_plus").astype(dtype))
    score, states = sr.multi_dot(A, x, "max_plus", steps=11, return_witness=True)
    expected, way = sr.multi_dot(*wide(A, x), "max_plus", steps=11, return_witness=True)
    np.testing.assert_array_equal(score, expected.astype(dtype))
    np.testing.assert_array_equal(states, way)


def test_what_is_beyond_the_range_is_infinite():
    """Up to 65520 a sum is rounded to 65504, the largest float16. From there on it is ∞, without a warning."""
    A, B = np.array([[65504], [32768], [60000]], "e"), np.array([[8, 32768]], "e")
    np.testing.assert_array_equal(sr.matmul(A, B), [[65504, np.inf], [32768, np.inf], [60000, np.inf]])
    np.testing.assert_array_equal(sr.matmul(A, B[:, :1], "plus_times"), [[np.inf], [np.inf], [np.inf]])
    _, witness = sr.matmul(A, B, return_witness=True)
    np.testing.assert_array_equal(witness, [[0, -1], [0, -1], [0, -1]])  # ∞ is no path
    path = np.array([[np.inf, 40000, np.inf], [np.inf, np.inf, 40000], [1, np.inf, np.inf]], "e")
    np.testing.assert_array_equal(sr.closure(path)[0], [0, 40000, np.inf])
    terms = np.full(4, 40000, "e")
    assert sr.reduce(terms, "plus_times") == np.inf
    assert sr.reduce(np.append(terms, -terms), "plus_times") == 0  # what is added up meanwhile may be larger
    assert sr.add(terms, terms, "plus_times")[0] == np.inf


def test_closures_are_rounded_once(rng, dtype):
    for n in (1, 7, 130):
        A = (rng.random((n, n)) / (2 * n)).astype(dtype)
        exact = np.linalg.inv(np.eye(n) - A.astype(float))
        assert_rounded_once(sr.closure(A, "plus_times"), exact, dtype)
        logs = np.log(A.astype(float)).astype(dtype)
        exact = np.log(np.linalg.inv(np.eye(n) - np.exp(logs.astype(float))))
        assert_rounded_once(sr.closure(logs, "log_plus"), exact, dtype)
        stack = np.stack([logs, logs.T])
        np.testing.assert_array_equal(sr.closure(stack, "log_plus")[0], sr.closure(logs, "log_plus"))
        assert sr.closure(stack, "log_plus", out=stack) is stack
        np.testing.assert_array_equal(stack[0], sr.closure(logs, "log_plus"))
        b = rng.random(n).astype(dtype)
        assert_rounded_once(
            sr.fixed_point(A, b, "plus_times"), np.linalg.solve(np.eye(n) - A.astype(float), b.astype(float)), dtype
        )


def both_signs(rng, dtype, n, density):
    """Return weights ≥ 0.5 around every cycle, of both signs, also in float16 and bfloat16."""
    heights = 8 * rng.random(n)
    A = 0.5 + 4 * rng.random((n, n)) + heights[:, np.newaxis] - heights
    return np.where(rng.random((n, n)) < density, A, np.inf).astype(dtype)


@pytest.mark.parametrize("name", ["min_plus", "max_plus"])
def test_closures_of_both_signs_are_those_of_float32_rounded_once(rng, dtype, name):
    """Small matrices take the potentials of an elimination, large ones of sweeps, and lists of edges their own."""
    for n, density in ((100, 0.2), (170, 1.0), (170, 0.1), (300, 0.1)):
        A = both_signs(rng, dtype, n, density) * dtype.type(1 if name == "min_plus" else -1)
        (whole,) = wide(A)
        for options in ({}, {"reflexive": False}, {"method": "johnson"}, {"structure": "components"}):
            expected = sr.closure(whole, name, **options).astype(dtype)
            np.testing.assert_array_equal(sr.closure(A, name, **options), expected)
        assert_rounded_once(sr.factor(A, name).table([0, 5]), sr.factor(whole, name).table([0, 5]), dtype)


def test_least_solutions_of_both_signs_are_rounded_once(rng, dtype):
    A, b = both_signs(rng, dtype, 60, 0.3), (8 * rng.random(60)).astype(dtype)
    for transposed in (False, True):
        expected = sr.fixed_point(*wide(A, b), transpose=transposed).astype(dtype)
        np.testing.assert_array_equal(sr.fixed_point(A, b, transpose=transposed), expected)
    heights = 10 * rng.random(60)
    D = (heights - heights[:, np.newaxis]).astype(dtype)  # cycles gain by the rounding of halves alone
    np.testing.assert_allclose(sr.fixed_point(D, b)[0].astype(float), (D[0] + b).min().astype(float), rtol=0.1)


def test_weights_of_very_different_size_in_halves(rng):
    """Exact potentials are used if float64 would lose a small weight, also for rounded weights."""
    dtype = np.dtype(pytest.importorskip("ml_dtypes").bfloat16)
    A = both_signs(rng, dtype, 12, 1.0)
    A[:, 3], A[3] = -3e19, 1e20
    (whole,) = wide(A)
    result, why = sr.closure(A, explain=True)
    assert "exact potentials" in str(why)
    np.testing.assert_array_equal(result, sr.closure(whole).astype(dtype))


@pytest.mark.parametrize("name", ["min_plus", "max_plus", "max_times"])
def test_cycles_that_gain_by_the_rounding_of_halves_alone(rng, dtype, name):
    """Height differences add up to 0 around a cycle, and ratios multiply to 1, except for the rounding of each."""
    for n in (2, 9, 40, 130, 300):
        heights = 1 + 9 * rng.random(n)
        A = heights - heights[:, np.newaxis] if name != "max_times" else heights / heights[:, np.newaxis]
        A, epsilon = A.astype(dtype), float(float_limits(dtype).eps)
        for found in (
            sr.closure(A, name),
            sr.closure(np.stack([A, A]), name)[1],
            sr.closure(A, name, reflexive=False),
            sr.best_paths(A, name).matrix,
        ):
            assert found.dtype == dtype
            np.testing.assert_allclose(found.astype(float), A.astype(float), rtol=8 * epsilon, atol=80 * epsilon)


@pytest.mark.parametrize("name", ["plus_times", "log_plus", "max_times"])
def test_the_order_in_memory_changes_no_bit(rng, name):
    A = (0.003 * rng.random((300, 300))).astype(np.float16)
    A = np.log(A) if name == "log_plus" else A
    expected = sr.closure(A.astype(np.float32), name).astype(np.float16)
    np.testing.assert_array_equal(sr.closure(A, name), expected)
    np.testing.assert_array_equal(sr.closure(np.asfortranarray(A), name), expected)


def test_a_cpu_computes_in_no_float16():
    for given in (np.eye(3, dtype=np.float16), np.zeros((2, 3, 3), np.float16)):
        with pytest.raises(DTypeError, match=r"a CPU computes float16 in float32: leave it out, or .* device='cuda'"):
            sr.closure(given, compute_dtype="float16")
    for wrong in ("float32", "bfloat16", "half way", 3):
        with pytest.raises(DTypeError, match="only 'float16' can be requested"):
            sr.closure(np.eye(3, dtype=np.float16), compute_dtype=wrong)
    for given in (np.eye(3), sr.pack(np.eye(3, dtype=bool))):
        with pytest.raises(DTypeError, match=f"and A is {given.dtype}"):
            sr.closure(given, "max_min" if given.dtype != bool else "boolean", compute_dtype="float16")


@pytest.mark.parametrize("backend", ["cpu", "reference"])
def test_a_named_backend_takes_halves(rng, backend, monkeypatch):
    A = rng.integers(1, 50, (20, 20)).astype(np.float16)
    expected = sr.closure(A)
    monkeypatch.setenv("SEMIRING_BACKEND", backend)
    np.testing.assert_array_equal(sr.closure(A), expected)
    np.testing.assert_array_equal(sr.closure(np.stack([A, A]))[1], expected)
    np.testing.assert_array_equal(sr.shortest_paths(A).matrix, expected)


def test_a_factor_of_halves(rng, dtype):
    A = rng.integers(1, 9, (40, 40)).astype(np.float32)
    A[rng.random((40, 40)) < 0.9] = np.inf
    for graph in (A, np.minimum(A, A.T)):
        half, whole = sr.factor(graph.astype(dtype)), sr.factor(graph)
        found = half.solve(graph[:, 0].astype(dtype))
        assert found.dtype == half.table([0], [1]).dtype == dtype
        np.testing.assert_array_equal(found, whole.solve(graph[:, 0]).astype(dtype))
        np.testing.assert_array_equal(half.table([0, 7]), whole.table([0, 7]).astype(dtype))


def test_a_semiring_without_float32_is_computed_as_it_is():
    S = sr.Semiring(
        "narrow", "min(x, y)", "x + y", float("inf"), 0, "where(x >= 0, 0, nan)", dtypes=("float16", "float64")
    )
    A = np.array([[0, 1], [2, 0]], "e")
    for found in (sr.matmul(A, A, S), sr.closure(A, S)):
        assert found.dtype == np.float16
        np.testing.assert_array_equal(found, A)
    assert sr.Semiring("named", "x + y", "x * y", 0, 1, dtypes=("bfloat16", "float32")).dtypes == ("float32",)


def test_gradients_of_tensors_are_those_of_float32(rng):
    torch = pytest.importorskip("torch")
    differentiable = pytest.importorskip("semiring.torch")
    for dtype in (torch.float16, torch.bfloat16):
        for n in (1000, 3000):
            A = torch.zeros(1, n, dtype=dtype, requires_grad=True)
            differentiable.matmul(A, torch.zeros(n, 1, dtype=dtype), "log_plus").sum().backward()
            assert A.grad.dtype == dtype
            torch.testing.assert_close(A.grad.double().sum(), torch.tensor(1.0, dtype=torch.float64), rtol=4e-3, atol=0)
        given = -2 - 5 * torch.from_numpy(rng.random((9, 9)))
        calls = [
            lambda A: differentiable.matmul(A, A, "max_plus"),
            lambda A: differentiable.closure(A, "log_plus"),
            lambda A: differentiable.closure(A, "max_plus", reflexive=False),
            lambda A: differentiable.multi_dot(A, A[0], "log_plus", weights=A),
            lambda A: differentiable.scan(A, None, "log_plus", steps=4),
            lambda A: differentiable.reduce(A, "log_plus", 1),
        ]
        for call in calls:
            half, whole = given.to(dtype).requires_grad_(), given.to(dtype).float().requires_grad_()
            found, expected = call(half), call(whole)
            assert found.dtype == dtype
            assert torch.equal(found, expected.to(dtype))
            found.sum().backward()
            expected.to(dtype).sum().backward()
            # Where a tensor stands in several places of a call, what comes from each is rounded before it is added up.
            torch.testing.assert_close(half.grad.float(), whole.grad, rtol=2 * torch.finfo(dtype).eps, atol=1e-4)
    with pytest.raises(sr.errors.DTypeError, match="convert one"):
        differentiable.matmul(given.half(), given.float())


def test_nan_is_refused_without_a_warning_of_numpy(dtype, recwarn):
    A = np.array([[1, np.nan], [0, 1]], dtype)
    for ask in (lambda A: sr.matmul(A, A), sr.reduce, sr.closure, lambda A: sr.closure(A, "max_times")):
        with pytest.raises(DomainError, match=r"A\[0, 1\] is nan"):
            ask(A)
    assert not recwarn
