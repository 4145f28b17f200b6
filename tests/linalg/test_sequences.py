"""Test products along a sequence, against sums over all paths and against one step after the other in NumPy."""

from __future__ import annotations

import math
from itertools import pairwise, product

import numpy as np
import oracles
import pytest
import scipy.sparse as sp
from operands import CASES, entries

import semiring as sr
from semiring.errors import AlgebraError, DomainError, DTypeError, IntegerOverflowError, ShapeError
from semiring.linalg import sequences

NAMES = ["min_plus", "max_plus", "max_min", "max_times", "plus_times", "log_plus"]
INF = np.inf


def stepwise(A, x, name, weights=None, lengths=None, steps=None):
    """Compute what `scan` returns, by one NumPy expression over all (k, j) for each step."""
    semiring, steps = sr.as_semiring(name), len(A) if A.ndim > 2 else len(weights) if steps is None else steps
    states, batch = [], x.shape[:-1]
    for t in range(steps):
        M = A if A.ndim == 2 else A[t]
        terms = semiring.mul(np.ascontiguousarray(np.broadcast_to(x[..., None], (*x.shape, x.shape[-1]))), M)
        after = sr.reduce(terms, name, axis=x.ndim - 1)
        after = after if weights is None else semiring.mul(after, weights[t])
        x = after if lengths is None else np.where((np.asarray(lengths) > t)[..., None], after, x)
        states.append(x)
    return np.array(states).reshape(steps, *batch, x.shape[-1])


def every_way(monkeypatch, function):
    """Return the results of compiled sequences, of a product for each step, and of neighbours multiplied side by
    side, as on a device without kernels of sequences."""
    yield function()
    with monkeypatch.context() as patch:
        patch.setattr(sequences.Chain, "walker", None)
        for steps in (10**9, 1):
            patch.setattr(sequences, "_MIN_STEPS", steps)
            yield function()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("steps", "batch", "n"), [(1, (), 1), (2, (3,), 2), (9, (2, 3), 4), (16, (5,), 3)])
def test_states_are_those_of_one_step_after_the_other(name, steps, batch, n, rng, monkeypatch):
    ones = (1,) * len(batch)
    for matrices in ((n, n), (steps, *ones, n, n), (steps, *batch, n, n), (steps, *batch[:-1], *ones[-1:], n, n)):
        A, x, w = rng.random(matrices), rng.random((*batch, n)), rng.random((steps, *batch, n))
        A[rng.random(matrices) < 0.2] = sr.as_semiring(name).zero_for(A.dtype)
        lengths = rng.integers(0, steps + 1, batch)
        for given in ({"weights": w}, {"weights": w, "lengths": lengths}, {"steps": steps}):
            expected = stepwise(A, x, name, **given)
            for found in every_way(monkeypatch, lambda: sr.scan(A, x, name, **given)):  # noqa: B023
                np.testing.assert_allclose(found, expected, rtol=1e-12)
            for found in every_way(monkeypatch, lambda: sr.multi_dot(A, x, name, **given)):  # noqa: B023
                np.testing.assert_allclose(found, expected[-1], rtol=1e-12)


@pytest.mark.parametrize("name", NAMES)
def test_without_a_vector_matrices_are_multiplied(name, rng, monkeypatch):
    A = rng.random((7, 2, 4, 4))
    one = sr.identity(4, name)
    prefixes = [A[0]]
    for M in A[1:]:
        prefixes.append(np.stack([sr.matmul(*pair, name) for pair in zip(prefixes[-1], M, strict=True)]))
    for found in every_way(monkeypatch, lambda: (sr.scan(A, None, name), sr.multi_dot(A, None, name))):
        np.testing.assert_allclose(found[0], prefixes, rtol=1e-12)
        np.testing.assert_allclose(found[1], prefixes[-1], rtol=1e-12)
    lengths = np.array([0, 5])
    for found in every_way(monkeypatch, lambda: sr.multi_dot(A, None, name, lengths=lengths)):
        np.testing.assert_allclose(found, [one, prefixes[4][1]], rtol=1e-12)
    np.testing.assert_allclose(sr.multi_dot(A[0, 0], None, name, steps=3), sr.power(A[0, 0], 3, name), rtol=1e-12)
    np.testing.assert_array_equal(sr.multi_dot(A[:0, 0], None, name), one)


#: Semirings of one's own: the definition, and its operations. Of two factors, ``first`` keeps the first one.
OWN = {
    "first": (
        sr.Semiring("first", add="min(x, y)", mul="where(y < inf, x, inf)", zero="inf", one=0),
        oracles.Oracle(np.minimum, lambda x, y: np.where(y < INF, x, INF), lambda _: INF, None),
    ),
    "late": (
        sr.Semiring("late", add="max(x, y)", mul="x + y + 1", zero="-inf", one=-1),
        oracles.Oracle(np.maximum, lambda x, y: x + y + 1, lambda _: -INF, None),
    ),
}


def loops(oracle, zero, matrices, x, weights, lengths):
    """Return the states after each step of rows x (m, n), and the best path to each last state, by loops over k."""
    states, before = [], np.full((len(matrices), *x.shape), -1)
    with np.errstate(all="ignore"):
        for t, A in enumerate(matrices):
            y, K = np.full(x.shape, zero, x.dtype), np.full(x.shape, -1)
            for k in range(x.shape[1]):
                left, right = x[:, k, None], A[:, k]
                term = np.where((left == zero) | (right == zero), zero, oracle.mul(left, right))
                after = oracle.add(y, term.astype(x.dtype))
                y, K = after, np.where(after != y, k, K)
            if weights is not None:
                w = weights[t]
                y = np.where((y == zero) | (w == zero), zero, oracle.mul(y, w)).astype(x.dtype)
            going = (lengths > t)[:, None]
            x, before[t] = np.where(going, y, x), np.where(going, K, -1)
            states.append(x)
    places = np.where(x == zero, -1, np.arange(x.shape[1])) if matrices else None
    for t in reversed(range(len(matrices))):
        going = (lengths > t)[:, None]
        earlier = np.where(places < 0, -1, np.take_along_axis(before[t], np.maximum(places, 0), 1))
        before[t], places = np.where(going, earlier, -1), np.where(going, earlier, places)
    return np.array(states, x.dtype).reshape(len(matrices), *x.shape), before


def draw(rng, name, dtype, shape, zero):
    if name == "plus_times":
        result = rng.integers(-2 if dtype.kind in "if" else 0, 3, shape).astype(dtype)
    else:
        result = rng.integers(0, 6, shape).astype(dtype) if name in OWN else entries(rng, name, dtype, shape)
    return np.where(rng.random(shape) < rng.choice([0, 0.3]), zero, result).astype(dtype)


def thin_out(rng, A, zero):
    """Return a matrix with entries in a band or anywhere, as an array and as a sparse matrix."""
    distance = np.abs(np.subtract.outer(*[np.arange(len(A))] * 2))
    stored = rng.random(A.shape) < rng.choice([0.1, 1]) if rng.random() < 0.5 else distance <= rng.integers(0, 4)
    kind = [sp.csr_array, sp.csc_matrix][rng.integers(2)]
    return np.where(stored, A, zero).astype(A.dtype), kind((A[stored], stored.nonzero()), shape=A.shape)


@pytest.mark.parametrize(
    "count", [40, pytest.param(500, marks=pytest.mark.full), pytest.param(5000, marks=pytest.mark.exhaustive)]
)
@pytest.mark.timeout(3000)  # of 5,000 cases, whose loops and kernels take minutes
@pytest.mark.filterwarnings("ignore::semiring.errors.SuspiciousWeightsWarning")
def test_sequences_are_those_of_loops_whatever_the_threads(count, rng):
    cases = [*CASES, *((name, dtype) for name in OWN for dtype in ("float32", "float64"))]
    refused = 0
    for _ in range(count):
        name, dtype = cases[rng.integers(len(cases))]
        semiring, oracle = OWN.get(name) or (sr.as_semiring(name), oracles.ORACLES[name])
        dtype = np.dtype(dtype)
        if dtype.itemsize == 2 and dtype.kind != "i":  # float16 and bfloat16 are rounded once, after the last step
            continue
        zero, n, steps = oracle.zero(dtype), int(rng.choice([1, 2, 5, 9, 16, 17, 33, 40])), int(rng.integers(0, 6))
        batch = [(), (), (0,), (1,), (2, 3), (9,)][rng.integers(6)]
        is_sparse, per_step = rng.random() < 0.5 and semiring.failed_annihilation is None, rng.random() < 0.5 and steps
        ones = (1,) * len(batch)
        own = () if is_sparse else [batch, ones, batch[:-1] + ones[-1:]][rng.integers(3)]
        A = draw(rng, name, dtype, (steps, *own, n, n) if per_step else (n, n), zero)
        given = A
        if is_sparse and per_step:
            A, given = zip(*(thin_out(rng, M, zero) for M in A), strict=True)
            A, given = np.array(A), list(given)
        elif is_sparse:
            A, given = thin_out(rng, A, zero)
        x = draw(rng, name, dtype, (*batch, n), zero)
        weights = draw(rng, name, dtype, (steps, *batch, n), zero) if rng.random() < 0.5 else None
        lengths = rng.integers(0, steps + 1, batch) if batch and rng.random() < 0.5 else None
        m = math.prod(batch)
        rows, options = x.reshape(m, n), {"weights": weights, "lengths": lengths, "steps": steps}
        matrices = [np.broadcast_to(A[t] if per_step else A, (*batch, n, n)).reshape(m, n, n) for t in range(steps)]
        factors = None if weights is None else weights.reshape(steps, m, n)
        counts = np.full(m, steps) if lengths is None else lengths.ravel()
        states, paths = loops(oracle, zero, matrices, rows, factors, counts)
        last = states[-1] if steps else rows
        try:
            found = [
                (
                    sr.multi_dot(given, x, semiring, threads=threads, **options),
                    sr.scan(given, x, semiring, threads=threads, **options),
                    *(
                        sr.multi_dot(given, x, semiring, threads=threads, return_witness=True, **options)
                        if semiring.selective
                        else ()
                    ),
                )
                for threads in (1, 2, 8)
            ]
        except IntegerOverflowError:
            refused += 1
            continue
        assert len({tuple(part.tobytes() for part in parts) for parts in found}) == 1
        for part, expected in zip(found[0], (last, states, last, paths), strict=False):
            expected = expected.reshape(part.shape)
            if name in ("log_plus", "plus_times") and dtype.kind == "f":
                np.testing.assert_allclose(part, expected, rtol=1e-5 if dtype.itemsize == 4 else 1e-10, atol=2e-5)
            else:
                np.testing.assert_array_equal(part, expected)
        assert [part.dtype for part in found[0]] == [dtype, dtype, dtype, np.int32][: len(found[0])]
    assert refused < count / 10


def test_no_step_leaves_the_vector_and_a_copy_of_it():
    x = np.array([1.0, 2.0])
    found = sr.multi_dot(np.zeros((0, 2, 2)), x)
    np.testing.assert_array_equal(found, x)
    assert not np.shares_memory(found, x)
    assert sr.scan(np.zeros((0, 2, 2)), x).shape == (0, 2)
    assert sr.multi_dot(np.zeros((0, 2, 2)), x, return_witness=True)[1].shape == (0, 2)


def test_no_states_at_all():
    for name in ("plus_times", "log_plus"):
        for shape in ((0,), (2, 0)):
            A, x = np.zeros((0, 0)), np.zeros(shape)
            assert sr.scan(A, x, name, steps=3).shape == (3, *shape)
            assert sr.multi_dot(A, x, name, steps=3).shape == shape


@pytest.mark.parametrize("name", ["min_plus", "max_plus", "max_times"])
def test_witnesses_are_the_states_of_a_best_path(name, rng):
    semiring, n, steps = sr.as_semiring(name), 3, 4
    A, w = rng.random((steps, 2, n, n)), rng.random((steps, 2, n))
    x, lengths = rng.random((2, n)), np.array([4, 2])
    A[:, 1, :, 0] = semiring.zero_for(A.dtype)  # nothing reaches state 0
    C, W = sr.multi_dot(A, x, name, weights=w, lengths=lengths, return_witness=True)
    np.testing.assert_array_equal(C, stepwise(A, x, name, w, lengths)[-1])
    times = np.add if name.endswith("plus") else np.multiply
    for b, length in enumerate(lengths):
        for j in range(n):
            values = {}
            for path in product(range(n), repeat=length):
                value = x[b, path[0]]
                for t, (k, after) in enumerate(zip(path, (*path[1:], j), strict=True)):
                    value = times(times(value, A[t, b, k, after]), w[t, b, after])
                values[path] = value
            best = (min if semiring.add.expression.op == "min" else max)(values.values())
            path = tuple(W[:length, b, j])
            assert (W[length:, b, j] == -1).all()
            if best == semiring.zero_for(A.dtype):
                assert set(path) == {-1}
            else:
                assert values[path] == best
                assert C[b, j] == best


def test_of_several_best_paths_the_smallest_states_are_given():
    C, W = sr.multi_dot(np.zeros((3, 3)), np.zeros((2, 3)), steps=5, return_witness=True)
    assert not C.any()
    assert not W.any()


@pytest.mark.parametrize("dtype", [np.int16, np.int64])
def test_integers_keep_no_path(dtype, rng):
    none = np.iinfo(dtype).max
    A = np.where(rng.random((12, 5, 5)) < 0.6, none, rng.integers(0, 9, (12, 5, 5))).astype(dtype)
    x = np.array([0, none, none, 3, none], dtype)
    wide = stepwise(np.where(none == A, INF, A), np.where(x == none, INF, x), "min_plus")
    for found in (sr.scan(A, x), sr.scan(A, x)[-1][None]):
        assert found.dtype == dtype
        np.testing.assert_array_equal(np.where(found == none, INF, found), wide[-len(found) :])


def test_rows_that_share_a_matrix_are_one_product(monkeypatch, rng):
    shapes = []
    monkeypatch.setattr(sequences.Chain, "walker", None)
    monkeypatch.setattr(sequences, "matmul", lambda A, B, *rest, **more: shapes.append(A.shape) or sr.matmul(A, B))
    A, w = rng.random((20, 20)), rng.random((3, 4, 2, 20))
    sr.scan(A, rng.random((4, 2, 20)), "min_plus", weights=w)
    assert shapes == [(8, 20)] * 3


@pytest.mark.full
def test_long_sequences_neither_underflow_nor_lose_their_path(rng):
    A = np.log(rng.dirichlet(np.ones(4), 4))
    w = np.log(rng.random((5000, 4)))
    total = sr.reduce(sr.multi_dot(A, np.zeros(4), "log_plus", weights=w), "log_plus")
    p, scale = np.ones(4), 0.0
    for emission in np.exp(w):
        p = (p @ np.exp(A)) * emission
        scale, p = scale + np.log(p.sum()), p / p.sum()
    assert np.isclose(total, scale, rtol=1e-12)
    score, states = sr.multi_dot(A, np.zeros(4), "max_plus", weights=w, return_witness=True)
    path = [*states[:, score.argmax()], score.argmax()]
    walked = sum(A[k, j] + w[t, j] for t, (k, j) in enumerate(pairwise(path)))
    assert np.isclose(score.max(), walked, rtol=1e-12)


@pytest.mark.full
def test_results_are_of_the_library_and_dtype_of_the_operands(rng):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    A, x = rng.random((9, 3, 3)), rng.random(3)
    found = sr.scan(torch.from_numpy(A), torch.from_numpy(x), "max_plus")
    assert isinstance(found, torch.Tensor)
    np.testing.assert_array_equal(found.numpy(), sr.scan(A, x, "max_plus"))
    C, W = sr.multi_dot(torch.from_numpy(A), torch.from_numpy(x), "max_plus", return_witness=True)
    assert C.dtype == torch.float64
    assert W.dtype == torch.int32
    assert sr.multi_dot(A.astype(np.float32), x.astype(np.float32)).dtype == np.float32
    assert sr.multi_dot([[0, 1], [2, 0]], [0, 0], steps=2).tolist() == [0, 0]


@pytest.mark.full  # PyTorch alone takes seconds to import
def test_bfloat16_is_computed_in_float32_and_rounded_once(rng):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    A, B = (torch.from_numpy(rng.random(shape)).to(torch.bfloat16) for shape in ((60, 300), (300, 50)))
    for name in ("log_plus", "max_times", "min_plus"):
        found = sr.matmul(A, B, name)
        assert found.dtype == torch.bfloat16
        wide = torch.from_numpy(sr.matmul(A.float().numpy(), B.float().numpy(), name)).to(torch.bfloat16)
        assert torch.equal(found, wide)
    C, W = sr.matmul(A, B, return_witness=True)
    assert torch.equal(C, sr.matmul(A, B))
    assert sr.closure(torch.ones(3, 3, dtype=torch.bfloat16)).dtype == torch.bfloat16
    assert torch.equal(W, sr.matmul(A.float(), B.float(), return_witness=True)[1])


STEPS, START, WEIGHTS = np.ones((4, 3, 3)), np.ones(3), np.ones((4, 3))
NAN = np.where(np.arange(12).reshape(4, 3) == 5, np.nan, 1.0)


@pytest.mark.parametrize(
    ("arguments", "options", "error", "message"),
    [
        ((STEPS[..., :2], START), {}, ShapeError, r"As is \(4, 3, 2\).*square"),
        (([[[1.0], [1.0, 2.0]], sp.eye_array(2)], START), {}, ShapeError, "rows differ in length"),
        (([START, sp.eye_array(3)], START), {}, ShapeError, r"As holds \(3,\)"),
        ((STEPS, START[:2]), {}, ShapeError, r"x is \(2,\)"),
        ((STEPS, START), {"weights": WEIGHTS[:3]}, ShapeError, "As has 4, weights has 3"),
        ((STEPS, np.ones((5, 3))), {"weights": np.ones((4, 2, 3))}, ShapeError, "do not broadcast"),
        ((STEPS[0], START), {}, ValueError, "the number of steps is not known"),
        ((STEPS[0], START), {"steps": -1}, ValueError, "at least 0"),
        ((STEPS[0], START), {"steps": 1.5}, TypeError, "the number of steps is an integer"),
        ((STEPS, np.ones((2, 3))), {"lengths": [0, 5]}, ValueError, "lengths are 0 to 4, .* these reach from 0 to 5"),
        ((STEPS, START), {"lengths": 1.5}, DTypeError, "float64"),
        ((STEPS, START, "log_plus"), {"return_witness": True}, AlgebraError, "log_plus has no witnesses"),
        ((STEPS, None), {"return_witness": True}, TypeError, "pass the states before the first step"),
        ((STEPS, START), {"weights": NAN}, DomainError, r"weights\[1, 2\] is nan"),
    ],
)
def test_errors_name_what_is_wrong(arguments, options, error, message):
    with pytest.raises(error, match=message):
        sr.multi_dot(*arguments, **options)
    if "return_witness" not in options:
        with pytest.raises(error, match=message):
            sr.scan(*arguments, **options)


def test_lists_may_stand_beside_sparse_matrices():
    A, B = [[0.0, 2.0], [3.0, 1.0]], sp.csr_array([[1.0, 2.0], [0.0, 1.0]])
    for As in ([A, B], [B, A]):
        dense = [np.asarray(M) if M is A else M.toarray() for M in As]
        found = sr.multi_dot(As, START[:2], "plus_times")
        np.testing.assert_array_equal(found, START[:2] @ dense[0] @ dense[1])


def test_lists_of_integers_keep_their_dtype():
    A = np.array([[2**53 + 1, 0], [0, 1]])
    for call in (lambda X: sr.multi_dot(X, semiring="plus_times"), lambda X: sr.reduce(X, "plus_times", 0)):
        for X in ([A, A[::-1] % 5], [[A], [A[::-1] % 5]]):
            found, expected = call(X), call(np.array(X))
            assert found.dtype == np.int64
            np.testing.assert_array_equal(found, expected)
