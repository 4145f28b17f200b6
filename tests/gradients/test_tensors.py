"""Test what tensors of PyTorch and arrays of JAX have in common: values and gradients against dense expressions."""

from __future__ import annotations

from functools import partial
from itertools import product

import gradient_cases
import numpy as np
import pytest
from gradient_cases import NAMES, draw_weights
from tiers import full

import semiring as sr
from semiring.errors import AlgebraError, DTypeError, ShapeError

pytestmark = pytest.mark.full  # these libraries alone take seconds to import

ANY_OF = sr.Semiring("any of", add="x + y - x * y", mul="x * y", zero=0, one=1, domain=(0, 1))
#: The semirings of JAX in the full tier, which compiles each of its calls.
FEW = ("min_plus", "max_times", "plus_times", "log_plus")


class Torch:
    def __init__(self) -> None:
        import torch

        import semiring.torch as differentiable

        self.array, self.functions = torch.tensor, differentiable
        self.dense_product = partial(gradient_cases.dense_product, torch, torch.logsumexp)

    def pull_back(self, function, *arrays):
        """Return the value, and the gradients of its product with random numbers."""
        leaves = [self.array(array).requires_grad_() for array in arrays]
        value = function(*leaves)
        g = self.array(np.random.default_rng(0).normal(size=value.shape)).to(value.dtype)
        value.backward(g)
        return value.detach().numpy(), [leaf.grad.numpy() for leaf in leaves]


class Jax:
    def __init__(self) -> None:
        import jax

        import semiring.jax as differentiable

        self.jax, self.array, self.functions = jax, jax.numpy.asarray, differentiable
        self.dense_product = partial(gradient_cases.dense_product, jax.numpy, jax.nn.logsumexp)

    def pull_back(self, function, *arrays):
        """Return the value, and the gradients of its product with random numbers."""
        value, pull = self.jax.vjp(self.jax.jit(function), *map(self.array, arrays))
        gradients = pull(self.array(np.random.default_rng(0).normal(size=value.shape)).astype(value.dtype))
        return np.asarray(value), [np.asarray(gradient) for gradient in gradients]


@pytest.fixture(params=["torch", "jax"])
def library(request):
    imported = pytest.importorskip(request.param)
    if request.param == "torch":
        yield Torch()
        return
    imported.config.update("jax_disable_most_optimizations", True)
    with imported.enable_x64(True):
        yield Jax()


def assert_alike(actual, expected, tolerance=1e-10):
    for found, wanted in zip((actual[0], *actual[1]), (expected[0], *expected[1]), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=tolerance, atol=tolerance)


SHAPES = [(1, 1, 1), (3, 1, 5), (17, 33, 6), (2, 65, 31)]


@pytest.mark.parametrize(
    ("library", "name", "m", "k", "n"),
    full(
        lambda library, name, m, k, n: library == "torch" or (name in FEW and m == 17),
        [(library, name, *shape) for library, name, shape in product(["torch", "jax"], NAMES, SHAPES)],
    ),
    indirect=["library"],
)
def test_products_agree_with_the_dense_expression(library, name, m, k, n, rng):
    A, B = draw_weights(rng, name, (m, k)), draw_weights(rng, name, (k, n))
    expected = library.pull_back(lambda A, B: library.dense_product(A, B, name), A, B)
    for dtype, tolerance in (("float64", 1e-10), ("float32", 1e-4)):
        found = library.pull_back(lambda A, B: library.functions.matmul(A, B, name), A.astype(dtype), B.astype(dtype))
        assert found[0].dtype == found[1][0].dtype == dtype
        assert_alike(found, expected, tolerance)


@pytest.mark.parametrize("name", ["min_plus", "max_times", "log_plus", "plus_times"])
@pytest.mark.parametrize(
    ("a", "b"),
    [
        *(((3,), (3,)), ((3,), (3, 2)), ((4, 3), (3,)), ((2, 4, 3), (3, 2)), ((4, 3), (2, 3, 2)), ((2, 4, 3), (3,))),
        *(((2, 1, 4, 3), (5, 3, 2)), ((3,), (2, 3, 2)), ((0, 4, 3), (3, 2))),
    ],
)
def test_vectors_and_stacks_broadcast_and_their_gradients_are_summed(library, name, a, b, rng):
    A, B = draw_weights(rng, name, a), draw_weights(rng, name, b)

    def dense(A, B):
        result = library.dense_product(A if A.ndim > 1 else A[None], B if B.ndim > 1 else B[:, None], name)
        result = result if A.ndim > 1 else result[..., 0, :]
        return result if B.ndim > 1 else result[..., 0]

    found = library.pull_back(lambda A, B: library.functions.matmul(A, B, name), A, B)
    assert_alike(found, library.pull_back(dense, A, B))


def test_among_ties_the_smallest_k_has_the_gradient(library):
    matmul = library.functions.matmul
    A, B = np.array([[1.0, 3, 2], [5, 4, 4]]), np.array([[4.0], [2], [2]])
    _, (dA, dB) = library.pull_back(lambda A, B: matmul(A, B).sum(), A, B)  # 5, 5, 4 and 9, 6, 6
    scale = np.random.default_rng(0).normal()
    np.testing.assert_allclose(dA / scale, [[0, 0, 1], [0, 1, 0]])
    np.testing.assert_allclose(dB / scale, [[0], [1], [1]])
    A, B = np.full((2, 3), 0.5), np.full((3, 1), 0.5)
    _, (dA, dB) = library.pull_back(lambda A, B: matmul(A, B, "max_min").sum(), A, B)  # of min(x, y) it is x
    np.testing.assert_allclose(dA / scale, [[1, 0, 0], [1, 0, 0]])
    assert not dB.any()


@pytest.mark.parametrize("name", ["min_plus", "max_plus", "max_min", "min_max", "max_times", "min_times", "log_plus"])
def test_where_there_is_no_path_the_gradient_is_zero(library, name, rng):
    zero = float(sr.CATALOGUE[name].zero.leaf)
    A = draw_weights(rng, name, (3, 9, 9), has_closure=True)
    A[rng.random((3, 9, 9)) < 0.8] = zero
    A[1] = zero
    closure, matmul = library.functions.closure, library.functions.matmul
    for function in (lambda A: closure(A, name), lambda A: matmul(A, A, name)):
        value, (gradient,) = library.pull_back(function, A)
        assert np.isfinite(gradient).all()
        assert not gradient[zero == A].any()
        assert (value == zero).any()


@pytest.mark.parametrize("name", ["min_plus", "log_plus", "plus_times"])
def test_empty_arrays(library, name):
    for shape in [(0, 3), (3, 0)]:
        C, (dA, dB) = library.pull_back(
            lambda A, B: library.functions.matmul(A, B, name), np.zeros(shape), np.zeros(shape[::-1])
        )
        assert (sr.CATALOGUE[name].zero.leaf == C).all()
        assert (dA.shape, dB.shape) == (shape, shape[::-1])
    _, (gradient,) = library.pull_back(lambda A: library.functions.closure(A, name), np.zeros((2, 0, 0)))
    assert gradient.shape == (2, 0, 0)


def test_integers_and_truths_have_values(library):
    values, functions = np.array([[1, 7], [2**31 - 1, 3]], np.int32), library.functions
    A, truths = library.array(values), library.array(np.array([[False, True], [False, False]]))
    assert functions.matmul(A, A).tolist() == sr.matmul(values, values).tolist()
    assert functions.closure(A, reflexive=False).tolist() == [[1, 7], [2**31 - 1, 3]]
    assert functions.closure(truths, "boolean").tolist() == [[True, True], [False, True]]


@pytest.mark.parametrize(
    ("function", "shapes", "error", "message"),
    [
        ("matmul", [(2, 3), (2, 3)], ShapeError, r"A is \(2, 3\), B is \(2, 3\): inner sizes 3 and 2 differ"),
        ("matmul", [(2, 3, 3), (4, 3, 3)], ShapeError, "leading dimensions do not broadcast"),
        ("matmul", [(2, 3), ()], ShapeError, "scalar"),
        ("closure", [(2, 3)], ShapeError, "square"),
    ],
)
def test_shapes_that_do_not_fit_are_named(library, function, shapes, error, message):
    with pytest.raises(error, match=message):
        getattr(library.functions, function)(*(library.array(np.zeros(shape)) for shape in shapes))


def test_dtypes_and_semirings_that_have_no_gradient_are_named(library):
    A, B = library.array(np.zeros((2, 3))), library.array(np.zeros((3, 2), np.float32))
    with pytest.raises(DTypeError, match=r"float64.*float32"):
        library.functions.matmul(A, B)
    with pytest.raises(AlgebraError, match="any of has no gradient"):
        library.pull_back(lambda A: library.functions.matmul(A, A, ANY_OF), np.full((2, 2), 0.5))
    assert library.functions.matmul(A[:, :2] + 0.5, A[:, :2] + 0.5, ANY_OF).tolist() == [[0.4375] * 2] * 2


@pytest.mark.parametrize("name", ["closure", "einsum", "matmul", "multi_dot"])
def test_traced_functions_refuse_to_explain(library, name):
    module = library.functions.__name__
    with pytest.raises(TypeError, match=rf"{module}\.{name} has no explain=.*call semiring\.{name}\("):
        getattr(library.functions, name)(np.eye(2), explain=True)
