"""Test products along a sequence, against sums over all paths and against one step after the other in NumPy."""

from __future__ import annotations

from itertools import pairwise, product

import numpy as np
import pytest

import semiring as sr
from semiring.errors import AlgebraError, DomainError, DTypeError, ShapeError
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


def test_lists_of_integers_keep_their_dtype():
    A = np.array([[2**53 + 1, 0], [0, 1]])
    for call in (lambda X: sr.multi_dot(X, semiring="plus_times"), lambda X: sr.reduce(X, "plus_times", 0)):
        for X in ([A, A[::-1] % 5], [[A], [A[::-1] % 5]]):
            found, expected = call(X), call(np.array(X))
            assert found.dtype == np.int64
            np.testing.assert_array_equal(found, expected)
