"""Test `semiring.torch.einsum` and `semiring.jax.einsum`: values, and gradients by finite differences."""

from __future__ import annotations

import expressions
import numpy as np
import pytest

import semiring as sr
from semiring.errors import AlgebraError, DTypeError, ShapeError

NAMES = ["min_plus", "log_plus", "plus_times", "max_times", "min_max"]


@pytest.fixture
def st():
    pytest.importorskip("torch")
    import semiring.torch

    return semiring.torch


@pytest.fixture
def sj():
    jax = pytest.importorskip("jax")
    import semiring.jax

    with jax.enable_x64(True):
        yield semiring.jax


def cases(rng, count):
    for place in range(count):
        name = NAMES[place % len(NAMES)]
        one = expressions.expression(rng)
        yield name, one.subscripts, one.shapes


@pytest.mark.full
def test_values_and_gradients_of_random_expressions(st, rng):
    import torch

    checked = 0
    for name, subscripts, shapes in cases(rng, 120):
        arrays = [np.asarray(expressions.entries(rng, name, "float64", shape)) for shape in shapes]
        found = st.einsum(subscripts, *(torch.from_numpy(array.copy()) for array in arrays), semiring=name)
        expected = sr.einsum(subscripts, *arrays, semiring=name)
        np.testing.assert_allclose(found.numpy(), expected, rtol=1e-12, err_msg=f"{subscripts} {shapes} {name}")
        if all(array.size for array in arrays):
            leaves = [torch.tensor(rng.uniform(0.5, 2, shape), requires_grad=True) for shape in shapes]
            assert torch.autograd.gradcheck(
                lambda *leaves, of=(subscripts, name): st.einsum(of[0], *leaves, semiring=of[1]), leaves
            )
            checked += 1
    assert checked > 80


@pytest.mark.full
def test_second_derivatives_and_transforms(st, rng):
    import torch

    A, B = (torch.tensor(rng.uniform(0.5, 2, (3, 3)), requires_grad=True) for _ in range(2))
    x = torch.tensor(rng.uniform(0.5, 2, 3), requires_grad=True)

    def total(A, B, x):
        return st.einsum("ij,jk,k,ij->ik", A, B, x, A, semiring="log_plus")

    assert torch.autograd.gradgradcheck(total, (A, B, x))
    stack = torch.tensor(rng.random((4, 3, 3)))
    B, x = B.detach(), x.detach()
    found = torch.func.vmap(lambda A: st.einsum("ij,jk,k,ij->ik", A, B, x, A))(stack)
    np.testing.assert_allclose(found, torch.stack([st.einsum("ij,jk,k,ij->ik", A, B, x, A) for A in stack]))
    gradient = torch.func.grad(lambda A: st.einsum("ij,jk,k->", A, B, x))(stack[0])
    assert gradient.sum() == 1
    compiled = torch.compile(lambda A: st.einsum("ij,jk,k,ij->ik", A, B, x, A), fullgraph=True, backend="aot_eager")
    np.testing.assert_allclose(compiled(stack[0]), found[0])


@pytest.mark.full
def test_entries_without_a_path_have_no_gradient(st):
    import torch

    A = torch.tensor([[0.0, torch.inf], [torch.inf, torch.inf]], requires_grad=True)
    for subscripts in ("ij,ij->ij", "ij,jk->ik", "ij,ij,ij->"):
        operands = [A] * (subscripts.count(",") + 1)
        result = st.einsum(subscripts, *operands)
        result[torch.isfinite(result)].sum().backward()
        assert A.grad.tolist() == [[len(operands), 0.0], [0.0, 0.0]]
        A.grad = None


@pytest.mark.full
def test_the_gradient_of_a_sum_of_exponentials_is_the_posterior(st, rng):
    import torch

    A = torch.tensor(rng.standard_normal((3, 4)), requires_grad=True)
    x = torch.tensor(rng.standard_normal(3))
    st.einsum("i,ij->", x, A, semiring="log_plus").backward()
    np.testing.assert_allclose(A.grad, torch.softmax((x[:, None] + A.detach()).ravel(), 0).reshape(3, 4))


@pytest.mark.full
def test_halves_devices_and_semirings_are_checked(st):
    import torch

    half = torch.ones(2, 2, dtype=torch.float16)
    assert st.einsum("ij,jk,kl->il", half, half, half).dtype == torch.float16
    with pytest.raises(DTypeError, match="operand 1"):
        st.einsum("ij,jk->ik", half, half.float())
    with pytest.raises(TypeError, match="operand 0 is a ndarray"):
        st.einsum("ij->ji", np.ones((2, 2)))
    with pytest.raises(ShapeError, match="'j' has the size"):
        st.einsum("ij,jk->ik", half, torch.ones(3, 2, dtype=torch.float16))
    with pytest.raises(AlgebraError, match="no gradient"):
        st.einsum("ij,ij->ij", *[torch.ones(2, 2, requires_grad=True)] * 2, semiring=_capped_sums())
    with pytest.raises(TypeError, match="at least one operand"):
        st.einsum("ij")


def _capped_sums():
    """Return a semiring whose sum is neither selective nor one with a rule: min(x + y, 1)."""
    return sr.Semiring("capped", "min(x + y, 1)", "x * y", 0, 1, domain=(0, 1), selective=False)


@pytest.mark.full
def test_tensors_take_the_kernels_of_the_host(st, rng):
    import torch

    A = torch.from_numpy(rng.random((3, 4)))
    found = sr.einsum("ij,kj->ik", A, A)
    assert isinstance(found, torch.Tensor)
    np.testing.assert_array_equal(found, st.einsum("ij,kj->ik", A, A))


@pytest.mark.full
def test_jax_has_the_same_values_and_gradients(sj, rng):
    import jax
    from jax.test_util import check_grads

    for name, subscripts, shapes in [
        ("min_plus", "ij,jk,kl->il", ((2, 3), (3, 2), (2, 2))),
        ("log_plus", "bij,bjk,k->b", ((2, 3, 2), (2, 2, 3), (3,))),
        ("plus_times", "ij,ij,j->i", ((2, 3), (2, 3), (3,))),
        ("max_times", "...ii,...->i", ((2, 3, 3), (2,))),
    ]:
        if subscripts == "...ii,...->i":
            subscripts = "...ii,...->...i"
        arrays = [jax.numpy.asarray(rng.uniform(0.5, 2, shape)) for shape in shapes]

        def call(*arrays, subscripts=subscripts, name=name):
            return sj.einsum(subscripts, *arrays, semiring=name)

        expected = sr.einsum(subscripts, *map(np.asarray, arrays), semiring=name)
        np.testing.assert_allclose(call(*arrays), expected, rtol=1e-12)
        np.testing.assert_allclose(jax.jit(call)(*arrays), expected, rtol=1e-12)
        check_grads(call, arrays, order=1, modes=["rev"], eps=1e-6)
    stack = jax.numpy.asarray(rng.random((2, 3, 3)))
    found = jax.vmap(lambda A: sj.einsum("ij,ij,i->i", A, A, A[:, 0]))(stack)
    np.testing.assert_allclose(
        found[1], sr.einsum("ij,ij,i->i", *[np.asarray(stack[1])] * 2, np.asarray(stack[1, :, 0]))
    )
    with pytest.raises(DTypeError, match="operand 1"):
        sj.einsum("i,i->", stack[0, 0], stack[0, 0].astype("float32"))
    assert isinstance(sr.einsum("ij->ji", stack[0]), jax.Array)
