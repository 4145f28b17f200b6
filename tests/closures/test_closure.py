"""Test `closure` against independent oracles: every method, semiring and dtype, awkward sizes, orders and strides."""

from __future__ import annotations

import itertools
import pickle

import numpy as np
import oracles
import pytest
from matrices import CASES, DTYPES, FLOATS, matrix
from scipy import sparse
from scipy.sparse.csgraph import shortest_path
from tiers import each_value, full, quick

import semiring as sr
from semiring.algorithms.methods import matrix_methods, method_named
from semiring.closures import METHODS, closure
from semiring.closures.explain import Explanation
from semiring.errors import DeviceError, DivergenceError, DomainError, IntegerOverflowError, NegativeCycleError
from semiring.kernels import get_backend

SIZES = [0, 1, 2, 3, 31, 32, 33, 63, 64, 65, 97, 130, 257]
DENSE = [name for name in matrix_methods() if name != "auto" and "cpu" in method_named(name).devices]


def close_to(result, expected):
    assert result.dtype == expected.dtype
    np.testing.assert_array_equal(result, expected)


@pytest.mark.full
@pytest.mark.parametrize("reflexive", quick(bool, [True, False]))
@pytest.mark.parametrize(("name", "dtype"), each_value(CASES))
def test_every_semiring_and_dtype(rng, name, dtype, reflexive):
    for n in (1, 3, 33, 130):
        A = matrix(rng, n, name, dtype, density=min(1, 4 / n))
        kept = A.copy()
        close_to(closure(A, name, reflexive=reflexive), oracles.closure(A, name, reflexive=reflexive))
        np.testing.assert_array_equal(A, kept)


@pytest.mark.full
@pytest.mark.parametrize("n", full(lambda n: n in (0, 1, 2, 33, 64, 65, 130), SIZES))
def test_every_method_and_size(rng, n):
    for name, dtype in (("min_plus", "float32"), ("max_min", "int16"), ("boolean", "bool"), ("max_plus", "int32")):
        A = matrix(rng, n, name, dtype, density=min(1, 3 / max(n, 1)))
        for reflexive in (True, False):
            expected = oracles.closure(A, name, reflexive=reflexive)
            for method in DENSE:
                close_to(closure(A, name, method=method, reflexive=reflexive), expected)


@pytest.mark.parametrize(
    ("name", "dtype"),
    quick(lambda *case: case in (("min_plus", "float32"), ("boolean", "bool")), each_value(CASES)),
)
def test_every_method_and_semiring(rng, name, dtype):
    A = matrix(rng, 37, name, dtype, density=0.1)
    expected = oracles.closure(A, name)
    for method in DENSE:
        close_to(closure(A, name, method=method), expected)


@pytest.mark.full
@pytest.mark.parametrize("n", full(lambda n: n in (5, 97), [5, 64, 97, 200]))
def test_against_dijkstra(rng, n):
    A = np.where(rng.random((n, n)) < 3 / n, rng.integers(0, 9, (n, n)), np.inf)  # ties, zeros, unreachable vertices
    expected = oracles.all_pairs_dijkstra(A)
    for method in ("auto", *DENSE, "johnson"):
        np.testing.assert_array_equal(closure(A, method=method), expected)
    close_to(closure(A.astype(np.float32)), expected.astype(np.float32))


@pytest.mark.full
@pytest.mark.parametrize("n", full(lambda n: n == 513, [300, 513, 700]))
def test_beyond_one_block(rng, n):
    A = np.where(rng.random((n, n)) < 4 / n, rng.integers(1, 9, (n, n)), np.inf)
    sources = range(0, n, 37)
    expected = [oracles.dijkstra(A, source)[0] for source in sources]
    scipys = shortest_path(sparse.coo_array((A[A < 10], np.nonzero(A < 10)), shape=A.shape), method="D")
    for method in ("rkleene", "blocked_floyd_warshall"):
        D = closure(A, method=method)
        np.testing.assert_array_equal(D[sources], expected)
        np.testing.assert_array_equal(D, scipys)


@pytest.mark.full
@pytest.mark.parametrize(
    "view",
    [
        lambda A: A.T,
        lambda A: np.asfortranarray(A),
        lambda A: np.repeat(np.repeat(A, 2, axis=0), 3, axis=1)[::2, ::3],
        lambda A: A[::-1, ::-1],
        lambda A: np.broadcast_to(A[:1, :1], A.shape),
    ],
)
def test_orders_and_strides(rng, view):
    for n in (3, 40, 170):
        A = view(matrix(rng, n, "min_plus", "float64"))
        expected = oracles.closure(np.ascontiguousarray(A), "min_plus")
        A.flags.writeable = False
        np.testing.assert_array_equal(closure(A), expected)
        A = view(matrix(rng, n, "max_plus", "int32"))
        close_to(closure(A, "max_plus"), oracles.closure(np.ascontiguousarray(A), "max_plus"))


def test_lists_and_batches(rng):
    inf = float("inf")
    assert closure([[inf, 1], [inf, inf]]).tolist() == [[0, 1], [inf, 0]]
    assert closure([[False, True], [False, False]], "boolean").tolist() == [[True, True], [False, True]]
    stack = np.stack([[matrix(rng, 19, "min_plus", "float32") for _ in range(3)] for _ in range(2)])
    result = closure(stack)
    for i in range(2):
        for j in range(3):
            close_to(result[i, j], oracles.closure(stack[i, j], "min_plus"))
    assert closure(np.empty((0, 4, 4))).shape == (0, 4, 4)


@pytest.mark.parametrize("reflexive", [True, False])
@pytest.mark.parametrize("order", ["C", "F", "strided"])
@pytest.mark.parametrize(
    ("name", "dtype"),
    quick(
        lambda name, _: name == "min_plus",
        [("min_plus", "float32"), ("max_plus", "int32"), ("boolean", "bool"), ("plus_times", "float64")],
    ),
)
def test_in_place_is_the_same_bit_for_bit(rng, name, dtype, order, reflexive):
    for n in (2, 33, 130, 300):
        A = matrix(rng, n, name, dtype, 2 / n) if name != "plus_times" else rng.random((n, n)) / n / 2
        expected = closure(A, name, reflexive=reflexive)
        work = np.empty((n, 2 * n), A.dtype)[:, ::2] if order == "strided" else np.empty((n, n), A.dtype, order=order)
        work[...] = A
        if order == "F" and name == "plus_times":  # the transpose is eliminated: the same sums in another order
            np.testing.assert_allclose(closure(work, name, reflexive=reflexive, out=work), expected, rtol=1e-12)
            continue
        assert closure(work, name, reflexive=reflexive, out=work) is work
        assert work.tobytes("C") == expected.tobytes("C")
        other = np.empty_like(A)
        assert closure(A, name, reflexive=reflexive, out=other) is other
        assert other.tobytes() == expected.tobytes()


def test_out_that_overlaps_the_input(rng):
    A = matrix(rng, 50, "min_plus", "float64")
    expected = closure(A)
    closure(A, out=A.T)
    np.testing.assert_array_equal(A.T, expected)


@pytest.mark.parametrize(("name", "dtype"), [("min_plus", "float64"), ("min_plus", "int32"), ("max_plus", "float32")])
def test_errors_are_about_the_matrix_given(rng, name, dtype):
    """Errors name the caller's matrix, not the transpose that is closed for adjacent columns, and the matrix of a
    stack."""
    A = matrix(rng, 60, name, dtype, density=0.1)
    tails, heads = [3, 17, 40], [17, 40, 3]
    A[tails, heads] = -9 if name == "min_plus" else 9
    columns = np.asfortranarray(A)
    for given, out in ((A, np.empty_like(columns)), (columns, columns), (np.stack([A, A]), None)):
        with pytest.raises(NegativeCycleError) as caught:
            closure(given, name, out=out)
        weight = oracles.cycle_weight(A, list(caught.value.cycle))
        assert weight < 0 if name == "min_plus" else weight > 0
        assert caught.value.matrix == ((0,) if given.ndim > 2 else ())
        assert ("this is about the matrix A[0] of the stack" in str(caught.value)) == (given.ndim > 2)
    if A.dtype.kind == "f":
        A[3, 17] = np.nan
        with pytest.raises(DomainError, match=r"A\[3, 17\]"):
            closure(A, name, out=columns)


@pytest.mark.parametrize(
    ("name", "dtype", "method"),
    [
        *(("min_plus", "float64", method) for method in ("auto", "rkleene", "johnson")),
        pytest.param("min_plus", "int16", "auto", marks=pytest.mark.full),
        ("max_plus", "float32", "auto"),
        pytest.param("max_plus", "int64", "auto", marks=pytest.mark.full),
    ],
)
def test_a_stack_is_looked_at_before_any_of_it_is_written(rng, name, dtype, method):
    """If the last matrix of a stack is invalid, no closure of the first ones is written."""
    sign = 1 if name == "min_plus" else -1
    wrong = [("cycle", (40, 41), NegativeCycleError), ("loop", (7, 7), NegativeCycleError)]
    if np.dtype(dtype).kind == "f":
        wrong += [("nan", (3, 5), DomainError), ("unbounded", (41, 40), DomainError)]
    for what, where, expected in wrong:
        stack = np.stack([[matrix(rng, 50, name, dtype, density=0.2) for _ in range(2)] for _ in range(2)])
        stack[0, 1, 2, 3] = stack[1, 1, 41, 40] = sign  # on cycles
        stack[0, 1, 2, 3] = 0
        heights = np.zeros(50, np.int64)
        heights[10:20] = 30
        shift = (sign * (heights[:, None] - heights)).astype(dtype)
        edges = stack[0, 0] != oracles.zero(name, np.dtype(dtype))
        stack[0, 0][edges] += shift[edges]  # weights of both signs, no cycle
        stack[1, 1][where] = {"nan": np.nan, "unbounded": -sign * np.inf}.get(what, -sign * 9)
        kept = stack.copy()
        columns = np.full((2, 2, 50, 50), 3, dtype).swapaxes(2, 3)
        for out in (stack, np.full_like(stack, 3), columns, np.full((2, 2, 50, 100), 3, dtype)[..., ::2], None):
            with pytest.raises(expected) as caught:
                closure(stack, name, method=method, out=out)
            np.testing.assert_array_equal(stack, kept)
            assert out is stack or out is None or (out == 3).all()
            if expected is DomainError:
                assert caught.value.position == (1, 1, *where)
                continue
            assert caught.value.matrix == (1, 1)
            assert "the matrix A[1, 1] of the stack" in str(caught.value)
            cycle = caught.value.cycle
            weights = [float(stack[1, 1][edge]) for edge in zip(cycle, cycle[1:] + cycle[:1], strict=True)]
            assert sign * sum(weights) < 0
            again = pickle.loads(pickle.dumps(caught.value))
            assert (again.matrix, again.cycle, str(again)) == ((1, 1), cycle, str(caught.value))
        closure(stack[:1], name, method=method, out=stack[:1])
        np.testing.assert_array_equal(stack[0], [closure(one, name, method=method) for one in kept[0]])


@pytest.mark.full
@pytest.mark.parametrize(("name", "dtype"), each_value(CASES))
def test_small_matrices_of_a_stack_are_closed_as_if_alone(rng, name, dtype):
    """Results are bitwise identical for every number of threads, every layout, and every place of the result."""
    for count, n in ((3, 0), (0, 3), (5, 1), (4, 3), (7, 33), (300, 21), (2, 64), (2, 161)):
        shape = (count, n, n)
        stack = np.empty(shape, dtype)
        for i in range(count):
            stack[i] = matrix(rng, n, name, dtype, density=0.3) if i < 7 else stack[i % 7]
        expected = np.array([closure(one, name) for one in stack], dtype).reshape(shape)
        for threads in (1, 3):
            np.testing.assert_array_equal(closure(stack, name, threads=threads), expected)
        outs = (stack.copy(), np.empty((n, n, count), dtype).transpose(2, 0, 1), np.empty((count, n, n + 2), dtype))
        for given in (stack, np.ascontiguousarray(stack.swapaxes(1, 2)).swapaxes(1, 2)):
            for out in (*outs[:2], outs[2][..., :n], np.empty((count * 2, n, n), dtype)[::-2]):
                np.testing.assert_array_equal(closure(given, name, out=out), expected)
        work = stack.copy()
        assert closure(work, name, out=work) is work
        np.testing.assert_array_equal(work, expected)


@pytest.mark.full
@pytest.mark.parametrize("dtype", full(lambda dtype: dtype == "float64", ["float32", "float64"]))
def test_small_matrices_of_both_signs_are_closed_as_if_alone(rng, dtype):
    for count, n in ((5, 1), (4, 3), (7, 33), (60, 21), (2, 160), (2, 161)):
        heights = 3 * rng.random((count, n))
        heights[0] = 0
        stack = (rng.random((count, n, n)) + heights[:, :, None] - heights[:, None]).astype(dtype)
        ring = np.eye(n, k=1, dtype=bool) | np.eye(n, k=1 - n, dtype=bool)  # so each matrix is one strong component
        stack[(rng.random(stack.shape) < 0.3) & ~ring] = np.inf
        expected = np.array([closure(one) for one in stack])
        found, said = closure(stack, explain=True)
        np.testing.assert_array_equal(found, expected)
        assert ("potentials for all" in str(said)) == (1 < n < 161)
        if n == 161:  # one after the other: into columns the transpose is closed, and rounded otherwise
            continue
        kept = stack.copy()
        for given in (stack, np.ascontiguousarray(stack.swapaxes(1, 2)).swapaxes(1, 2)):
            turned = np.empty((n, n, count), dtype).transpose(2, 0, 1)
            for out in (turned, np.empty((count * 2, n, n), dtype)[::-2], given):
                np.testing.assert_array_equal(closure(given, out=out, threads=3), expected)
        if n > 1:
            kept[-1] = np.inf
            kept[-1, 0, -1], kept[-1, -1, 0] = 3.1, -3.1  # a cycle of weight 0
            closed = closure(kept)
            np.testing.assert_array_equal(closed[:-1], expected[:-1])
            np.testing.assert_array_equal(closed[-1], closure(kept[-1]))


def test_small_matrices_of_a_stack_are_closed_by_one_call(rng):
    stack = np.stack([matrix(rng, 21, "min_plus", "float32") for _ in range(300)])
    _, said = closure(stack, explain=True)
    assert "side by side" in str(said)
    gains = np.zeros((300, 21, 21))
    for first in (299, 200, 17, 0):
        gains[first, 3, 9] = gains[first, 9, 3] = 2
        for threads in (1, 2, 7):
            with pytest.raises(DivergenceError, match="vertex 9") as caught:
                closure(gains, "max_times", threads=threads)
            assert caught.value.matrix == (first,)
    assert "side by side" not in str(closure(stack[:2], progress=lambda done, total: None, explain=True)[1])


@pytest.mark.parametrize(
    ("name", "weight", "check", "product"),
    [
        ("max_times", 2.0, True, "4"),
        ("max_times", 1e200, True, "1e[+]400"),
        ("max_times", 1.2345e200, True, "1.52399e[+]400"),
        ("max_times", np.inf, False, "inf"),
        ("min_times", 1e-200, True, "1e-400"),
    ],
)
def test_the_product_of_a_cycle_is_named_beyond_the_range_of_floats(name, weight, check, product):
    A = np.full((2, 2), sr.CATALOGUE[name].zero_for(np.float64))
    A[0, 1] = A[1, 0] = weight
    with pytest.raises(DivergenceError, match=rf"0 → 1 → 0, with the product {product}($| \()") as caught:
        closure(A, name, check=check)
    assert caught.value.cycle == (0, 1)


@pytest.mark.filterwarnings("ignore::semiring.errors.SuspiciousWeightsWarning")
@pytest.mark.parametrize("backend", ["cpu", "reference"])
def test_errors_of_any_semiring_name_the_matrix(monkeypatch, backend):
    monkeypatch.setattr("semiring.kernels._backend", lambda *arguments: get_backend(backend))
    gains = np.zeros((2, 3, 4, 4))
    gains[1, 0, 1, 2] = gains[1, 0, 2, 1] = 2
    with pytest.raises(DivergenceError, match=r"vertex 2.*the matrix A\[1, 0\] of the stack") as caught:
        closure(gains, "max_times")
    assert caught.value.matrix == (1, 0)
    with pytest.raises(DivergenceError) as caught:
        closure(gains[1, 0], "max_times")
    assert caught.value.matrix == ()
    assert "stack" not in str(caught.value)
    gains[1, 2, 3, 0] = np.nan
    for name in ("max_times", "min_plus", "max_min"):
        with pytest.raises(DomainError, match=r"A\[1, 2, 3, 0\] is nan"):
            closure(gains, name)
    long = np.full((3, 4, 4), np.iinfo(np.int32).max, np.int32)
    long[2, [0, 1, 2], [1, 2, 3]] = 400_000_000
    with pytest.raises(IntegerOverflowError, match=r"the matrix A\[2\] of the stack"):
        closure(long, out=long)


@pytest.mark.full
@pytest.mark.parametrize(
    ("name", "dtype"), [("min_plus", "float32"), ("plus_times", "float64"), ("log_plus", "float64")]
)
def test_threads_do_not_change_a_bit(rng, name, dtype):
    n = 500
    A = rng.random((n, n)).astype(dtype) / n if name != "log_plus" else np.log(rng.random((n, n)) / n / 2)
    for method in ("rkleene", "blocked_floyd_warshall"):
        one = closure(A, name, method=method, threads=1)
        for threads in (2, 3):
            assert closure(A, name, method=method, threads=threads).tobytes() == one.tobytes()


# ------------------------------------------------------------------------------------------------- not idempotent


@pytest.mark.full
@pytest.mark.parametrize("method", ["auto", "rkleene", "blocked_floyd_warshall", "floyd_warshall"])
def test_plus_times_is_the_inverse(rng, method):
    A = rng.integers(-8, 9, (14, 14)) / 64
    exact = np.array(oracles.inverse_closure(A), object).astype(float)
    np.testing.assert_allclose(closure(A, "plus_times", method=method), exact, rtol=1e-12, atol=1e-13)
    for n in (1, 33, 97, 257, 600):
        A = (rng.random((n, n)) - 0.5) / n
        expected = np.linalg.inv(np.eye(n) - A)
        np.testing.assert_allclose(closure(A, "plus_times", method=method), expected, rtol=1e-9, atol=1e-12)
        plus = closure(A, "plus_times", method=method, reflexive=False)
        np.testing.assert_allclose(plus, expected - np.eye(n), rtol=1e-9, atol=1e-12)


def test_plus_times_beyond_the_spectral_radius():
    """Elimination reaches (I - A)⁻¹ also where the sum diverges, as documented."""
    with pytest.warns(sr.errors.DivergenceWarning):
        assert closure([[2.0]], "plus_times")[0, 0] == -1.0
    with pytest.raises(sr.errors.DivergenceError, match=r"vertex 1.* no star \(x has none where x == 1\)"):
        closure([[0.5, 0.0], [0.0, 1.0]], "plus_times")


@pytest.mark.full
@pytest.mark.parametrize("method", ["rkleene", "blocked_floyd_warshall", "floyd_warshall"])
@pytest.mark.parametrize("dtype", FLOATS)
def test_log_plus_is_the_logarithm_of_the_inverse(rng, dtype, method):
    A = np.log(rng.random((9, 9)) / 20)
    A[rng.random((9, 9)) < 0.4] = -np.inf
    tolerance = 1e-12 if dtype == "float64" else 1e-5
    expected = oracles.log_closure(A).astype(float)
    np.testing.assert_allclose(closure(A.astype(dtype), "log_plus", method=method), expected, rtol=tolerance)
    for n in (33, 130, 300):
        P = rng.random((n, n)) / n / 2
        result = closure(np.log(P).astype(dtype), "log_plus", method=method)
        np.testing.assert_allclose(np.exp(result), np.linalg.inv(np.eye(n) - P), rtol=30 * tolerance)


@pytest.mark.parametrize("dtype", DTYPES["xor_and"])
def test_xor_and_is_the_inverse_over_gf2(rng, dtype):
    """Elimination without pivoting finds the inverse if no leading block is singular, as in triangular blocks."""
    for n in (1, 5, 12, 40):
        limits = (0, 2) if dtype == "bool" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
        A = np.triu(rng.integers(*limits, (n, n), dtype=np.int64).astype(dtype), 1)
        permutation = rng.permutation(n)
        A = A[np.ix_(permutation, permutation)]
        expected = oracles.gf2_closure(A)
        for method in ("rkleene", "blocked_floyd_warshall", "floyd_warshall"):
            close_to(closure(A, "xor_and", method=method), expected)
        if dtype != "bool":
            close_to(closure(A, "xor_and", reflexive=False), expected ^ oracles.identity(n, "xor_and", A.dtype))


def test_non_commutative_and_non_absorptive_star():
    """A user's semiring may have a star that is not 1: min-plus with -∞ for what improves without end."""
    closed = sr.Semiring("closed", "min(x, y)", "x + y", float("inf"), 0, "where(x >= 0, 0, -inf)")
    inf = float("inf")
    A = np.array([[inf, -1.0, inf], [0.5, inf, 2.0], [inf, inf, inf]])
    result = closure(A, closed)
    assert (result[:2] == -inf).all()
    assert result[2].tolist() == [inf, inf, 0]


def test_squaring_refuses_what_is_not_idempotent():
    with pytest.raises(sr.errors.AlgebraError, match="idempotent"):
        closure([[0.5]], "plus_times", method="squaring")


# ------------------------------------------------------------------------------------------------- divergence


@pytest.mark.parametrize("n", [2, 40, 300])
@pytest.mark.parametrize("method", DENSE)
def test_a_gain_above_one_diverges(rng, method, n):
    A = np.where(rng.random((n, n)) < 0.2, 0.5, 0.0)
    u, v = n // 2 - 1, n - 1
    A[u, v], A[v, u] = 1.5, 0.75
    with pytest.raises(sr.errors.DivergenceError, match=r"vertex \d+") as caught:
        closure(A, "max_times", method=method)
    vertex = int(str(caught.value).split("vertex ")[1].split(",")[0])
    if method != "squaring":
        assert vertex == v  # the later one of the two: at the earlier, the other has not been a pivot


@pytest.mark.parametrize("method", ["auto", "rkleene", "rkleene_plain", "blocked_floyd_warshall"])
def test_a_pivot_without_a_star_is_named_in_every_block(method):
    for n, vertex in ((50, 45), (300, 153), (300, 295), (700, 695)):
        A = np.zeros((n, n))
        A[vertex, vertex] = 1
        with pytest.raises(DivergenceError) as caught:
            closure(A, "plus_times", method=method)
        assert caught.value.vertex == vertex


def test_log_plus_diverges_at_probability_one():
    with pytest.raises(sr.errors.DivergenceError, match=r"vertex 0.* no star \(x has one where x < 0\)"):
        closure([[0.0]], "log_plus")


@pytest.mark.parametrize("order", ["C", "F"])
def test_the_error_gives_the_value_that_has_no_star(order):
    sums = sr.Semiring("sums", "x + y", "x * y", 0, 1, star="where(x < 1, 1 / (1 - x), nan)", domain="[0, inf)")
    with pytest.raises(DivergenceError, match=r"vertex 1, .* is 4\.5, which has no star \(x has one where x < 1\)"):
        closure(np.array([[0, 2], [2.25, 0]], order=order), sums)
    with pytest.raises(DivergenceError, match=r"vertex 2, .* is 1\.40339, which has no star"):
        closure([[0.1, 0.2, 0.3], [0.2, 0.3, 0.4], [0.3, 0.5, 0.9]], sums)
    A = np.zeros((600, 600))
    A[520, 520] = 2
    with pytest.raises(DivergenceError, match=r"vertex 520, .* earlier vertices has no star"):
        closure(A, sums)


@pytest.mark.parametrize("check", [True, False])
def test_a_cycle_that_gains_is_named_with_its_product(check):
    A = np.zeros((5, 5))
    A[[1, 3, 4], [3, 4, 1]] = 2, 0.75, 0.8
    with pytest.raises(DivergenceError, match=r": 1 → 3 → 4 → 1, with the product 1\.2") as caught:
        closure(A, "max_times", check=check)
    assert caught.value.cycle == (1, 3, 4)
    assert caught.value.vertex == 4
    assert ("probabilities" in str(caught.value)) == check
    assert pickle.loads(pickle.dumps(caught.value)).cycle == (1, 3, 4)
    assert "b → d → e → b" in str(caught.value.named("abcde"))
    with pytest.raises(DivergenceError, match=r"1 → 3 → 4 → 1.*A\[1\] of the stack"):
        closure(np.stack([0 * A, A]), "max_times", check=check)


def test_gf2_pivot_without_a_star():
    with pytest.raises(sr.errors.DivergenceError, match="vertex 0"):
        closure(np.array([[True]]), "xor_and")


# ------------------------------------------------------------------------------------------------- arguments and errors


def test_semirings_without_a_star():
    bare = sr.Semiring("bare", "min(x, y)", "x + y", float("inf"), 0)
    with pytest.raises(sr.errors.AlgebraError, match=r"has no star.*star=") as caught:
        closure([[1.0]], bare)
    assert "bare" in str(caught.value)
    with pytest.raises(sr.errors.DTypeError, match=r"plus_times.*int32.*float64"):
        closure(np.ones((2, 2), np.int32), "plus_times")


def test_wrong_arguments():
    with pytest.raises(sr.errors.ShapeError, match=r"\(2, 3\)"):
        closure(np.zeros((2, 3)))
    with pytest.raises(sr.errors.ShapeError):
        closure(np.zeros(3))
    with pytest.raises(sr.errors.UnknownNameError, match="rkleene"):
        closure(np.zeros((2, 2)), method="rklene")
    with pytest.raises(sr.errors.UnknownNameError, match="min_plus"):
        closure(np.zeros((2, 2)), "min_pluss")
    with pytest.raises(sr.errors.ShapeError):
        closure(np.zeros((2, 2)), out=np.zeros((3, 3)))
    with pytest.raises(sr.errors.DTypeError):
        closure(np.zeros((2, 2)), out=np.zeros((2, 2), np.float32))
    with pytest.raises(sr.errors.DTypeError):
        closure(np.zeros((2, 2), complex))
    with pytest.raises(ValueError, match="at least 1"):
        closure(np.zeros((200, 200)), threads=0)
    with pytest.raises(ValueError, match="at least 1"):
        closure(np.zeros((2, 2)), threads=0)
    with pytest.raises(sr.errors.AlgebraError, match="johnson"):
        closure(np.zeros((2, 2)), "max_min", method="johnson")
    with pytest.raises(sr.errors.AlgebraError, match="johnson closes min_plus and max_plus in"):
        closure(np.zeros((2, 2), np.int32), method="johnson")


@pytest.mark.parametrize("n", [3, 200])
def test_nan_and_the_domain(rng, n):
    A = rng.random((n, n))
    A[1, 2] = np.nan
    for name in ("min_plus", "max_plus", "max_min", "plus_times"):
        with pytest.raises(sr.errors.DomainError, match=r"\[1, 2\] is nan"):
            closure(A, name)
    with pytest.raises(sr.errors.DomainError, match=r"\[1, 2\] is nan"):
        closure(A, check=False)  # min-plus looks in any case
    assert closure(A, "max_min", check=False).shape == A.shape
    A[1, 2] = -0.5
    with pytest.raises(sr.errors.DomainError, match=r"\[1, 2\] is -0.5"):
        closure(A, "max_times")


def test_negative_zero_is_a_zero():
    for n in (2, 300):
        A = np.full((n, n), np.inf, np.float32)
        A[0, 1], A[1, 0] = -0.0, 3.0
        D = closure(A)
        assert D[0, 1] == 0
        assert D[1, 0] == 3
        assert not np.signbit(closure(-A, "max_plus")).any() or D[0, 1] == 0


@pytest.mark.full
@pytest.mark.parametrize(
    "name", full(lambda name: name in ("min_plus", "max_min"), ["min_plus", "max_plus", "max_min", "max_times"])
)
def test_bfloat16_is_closed_in_float32(rng, name):
    """Matrices of bfloat16 are closed in float32 and rounded once, with every sign, and their paths too."""
    dtype = np.dtype(pytest.importorskip("ml_dtypes").bfloat16)
    for n in (0, 1, 40, 170):
        A = matrix(rng, n, name, "float32", density=0.1)
        if name == "min_plus" and n > 1:
            heights = rng.integers(0, 9, n).astype(np.float32)
            A = A + heights - heights[:, None]
        A = A.astype(dtype)
        wide = A.astype(np.float32)
        for options in ({}, {"method": "blocked_floyd_warshall"}, {"reflexive": False}):
            found = closure(A, name, **options)
            assert found.dtype == dtype
            np.testing.assert_array_equal(found, closure(wide, name, **options).astype(dtype))
        work = A.copy()
        result, why = closure(work, name, out=work, explain=True)
        assert result is work
        np.testing.assert_array_equal(work, closure(A, name))
        assert why.dtype == "bfloat16"
        assert "rounded once" in str(why)
        for predecessors in (True, False):
            paths = sr.best_paths(A, name, predecessors=predecessors)
            assert paths.matrix.dtype == dtype
            for j in np.flatnonzero(paths.reachable[0]) if n else ():
                legs = list(itertools.pairwise(paths.path(0, int(j))))
                total = closure(wide, name).dtype.type(sr.as_semiring(name).one_for(np.float32))
                for a, b in legs:
                    total = sr.as_semiring(name).mul(total, wide[a, b])
                np.testing.assert_allclose(total, float(paths.distance(0, j)), rtol=0.02, atol=0.1)


def test_progress_is_monotone_and_ends(rng):
    A = matrix(rng, 400, "min_plus", "float32")
    steps = []

    def record(done, total):
        steps.append((done, total))

    for method in ("auto", "rkleene", "blocked_floyd_warshall", "squaring"):
        steps.clear()
        closure(A, method=method, progress=record)
        done = [step[0] for step in steps]
        assert done == sorted(done)
        assert {step[1] for step in steps} == {steps[-1][0]}
    steps.clear()
    closure(np.stack([A[:50, :50]] * 4), progress=record)
    assert steps == sorted(steps)
    assert steps[-1][0] == steps[-1][1]


@pytest.mark.parametrize("function", [closure, sr.shortest_paths, sr.transitive_closure])
def test_progress_is_called(function):
    with pytest.raises(TypeError, match=r"progress is 3: .* progress\(done, total\)"):
        function([[1, 0], [0, 1]], progress=3)


def test_progress_can_stop_the_work(rng):
    class Stop(Exception):  # noqa: N818  # it is no error
        pass

    def stop(done, total):
        raise Stop

    with pytest.raises(Stop):
        closure(matrix(rng, 300, "min_plus", "float32"), progress=stop)
    with pytest.raises(DeviceError, match="staged runs on a GPU"):  # what only a GPU does is refused before
        closure(matrix(rng, 30, "min_plus", "float32"), method="staged", progress=stop)


def test_explanation(rng):
    result, explanation = closure(matrix(rng, 300, "min_plus", "float32"), explain=True, threads=2)
    assert result.shape == (300, 300)
    assert explanation.method in METHODS
    text = str(explanation)
    for word in ("300 × 300", "float32", "min_plus", explanation.method, "2 threads", "because"):
        assert word in text
    assert len(text.splitlines()) <= 8
    assert "pairs of ⊗ and ⊕ predicted" in text
    assert "no weight below 0" in text
    assert "why.details" in text
    assert "fewer than 1,536 vertices: the graph is not analysed" in explanation.details
    _, full = closure(np.ones((4, 4)), explain="full")
    assert str(full) == full.details
    names = {answer.name for answer in full.answers}
    assert {"johnson", "supernodal", "components", "dense", "potentials"} <= names
    assert full.answers[-1].name == "rkleene"
    _, four = closure(np.ones((4, 4)), explain=True)
    assert len(str(four).splitlines()) <= 8


def test_the_explanation_of_a_sparse_closure_agrees_with_itself(rng):
    """The summary and the rules give the same cost of the dense method."""
    from scipy.sparse import random_array

    _, why = closure(random_array((300, 300), density=0.01, rng=rng), explain=True)
    assert why.method != "johnson"
    dense, searches = (f"{why.costs[name]:.2g}" for name in ("dense", "johnson"))
    assert f"cost     {dense} pairs of ⊗ and ⊕ predicted, {searches} by johnson" in str(why)


def test_an_explanation_compares_the_predicted_costs():
    found = Explanation("min_plus", (9, 9), np.dtype("float64"), "johnson", "cpu", threads=3)
    found.reasons = ["few edges", "one weight", "two parts"]
    assert "cost" not in str(found)
    found.costs = {"dense": 20.0, "johnson": 5.0, "supernodal": 7.0, "undirected": 9.0}
    assert str(found).splitlines() == [
        "closure of a 9 × 9 float64 matrix in min_plus",
        "  method   johnson, on the CPU with 3 threads",
        "  because  few edges; one weight; two parts",
        "  cost     5 pairs of ⊗ and ⊕ predicted, 7 by supernodal, 9 by undirected",
    ]
    found.backend, found.storage = "cuda", "packed bits"
    assert "on the GPU, in packed bits" in str(found)
