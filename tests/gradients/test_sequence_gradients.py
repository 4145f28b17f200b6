"""Test gradients along sequences: by finite differences, against autograd of single products, and in little memory."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
import tiers
from gradient_cases import draw_weights
from tiers import full

import semiring as sr
from semiring.autodiff import sequence_gradients
from semiring.autodiff.sequence_gradients import allocate_recycled, segments
from semiring.errors import AlgebraError, DTypeError, ShapeError
from semiring.linalg.sequences import ChainArrays

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

import semiring.torch as differentiable  # noqa: E402
from semiring.torch import operators  # noqa: E402

pytestmark = pytest.mark.full  # these libraries alone take seconds to import

NAMES = ["min_plus", "max_times", "max_min", "plus_times", "log_plus"]
GADGET = sr.Semiring("gadget", "max(x, y)", "x * y / (x * y + (1 - x) * (1 - y) + 1)", 0, 1, domain=(0, 1))


def draw_tensors(rng, name, *shapes):
    return [torch.from_numpy(draw_weights(rng, name, shape)).requires_grad_() for shape in shapes]


def stepwise(A, x, w, name, lengths=None):
    """Return the states by one `matmul` after the other, which PyTorch differentiates."""
    states, semiring = [], sr.as_semiring(name)
    for t in range(len(w)):
        M = A if A.dim() == 2 else A[t]
        after = differentiable.matmul(x.unsqueeze(-2), M, semiring).squeeze(-2)
        after = (
            after * w[t]
            if name.endswith("times")
            else torch.minimum(after, w[t])
            if name == "max_min"
            else after + w[t]
        )
        x = after if lengths is None else torch.where((lengths > t).unsqueeze(-1), after, x)
        states.append(x)
    return torch.stack(states)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("matrices", [(4, 4), (7, 1, 1, 4, 4), (7, 2, 3, 4, 4), (7, 2, 1, 4, 4)])
def test_gradients_are_those_of_single_products(name, matrices, rng):
    A, x, w = draw_tensors(rng, name, matrices, (2, 3, 4), (7, 2, 3, 4))
    lengths = torch.from_numpy(rng.integers(0, 8, (2, 3)))
    for given in (None, lengths):
        expected = stepwise(A, x, w, name, given)
        g = torch.from_numpy(rng.normal(size=expected.shape))
        found = differentiable.scan(A, x, name, weights=w, lengths=given)
        torch.testing.assert_close(found, expected)
        torch.testing.assert_close(
            torch.autograd.grad(found, (A, x, w), g), torch.autograd.grad(expected, (A, x, w), g)
        )
        expected = stepwise(A, x, w, name, given)[-1]
        found = differentiable.multi_dot(A, x, name, weights=w, lengths=given)
        torch.testing.assert_close(
            torch.autograd.grad(found, (A, x, w), g[-1]), torch.autograd.grad(expected, (A, x, w), g[-1])
        )


@pytest.mark.full
@pytest.mark.parametrize("semiring", full(lambda semiring: semiring in ("log_plus", GADGET), [*NAMES, GADGET]), ids=str)
def test_derivatives_by_finite_differences(semiring, rng):
    name = semiring if isinstance(semiring, str) else "max_times"
    shapes = [(5, 2, 3, 3)]
    if semiring == "log_plus" or tiers.selected_tier == "exhaustive":
        shapes += [(3, 3), (5, 1, 3, 3)]
    for matrices in shapes[::-1]:
        A, x, w = draw_tensors(rng, name, matrices, (2, 3), (5, 2, 3))
        lengths = torch.tensor([3, 5])
        for function in (differentiable.scan, differentiable.multi_dot):

            def of_all(A, x, w):
                return function(A, x, semiring, weights=w, lengths=lengths)  # noqa: B023

            assert torch.autograd.gradcheck(of_all, (A, x, w))
            assert torch.autograd.gradcheck(lambda A: function(A, None, semiring, steps=5), (A,))  # noqa: B023
    for axis in (None, 0, (0, 2)):
        assert torch.autograd.gradcheck(lambda A: differentiable.reduce(A, semiring, axis), (A,))  # noqa: B023


@pytest.mark.parametrize("name", NAMES)
def test_sums_are_those_of_reduce(name, rng):
    (A,) = draw_tensors(rng, name, (2, 3, 4))
    for axis in (None, 1, -1, (0, 2), ()):
        found = differentiable.reduce(A, name, axis)
        expected = torch.from_numpy(np.asarray(sr.reduce(A.detach().numpy(), name, axis)))
        torch.testing.assert_close(found.detach(), expected)
    for axis, error in ((5, np.exceptions.AxisError), ("x", TypeError), ((0, 0), ValueError)):
        with pytest.raises(error, match="axis"):
            differentiable.reduce(A, name, axis)
    whole = torch.compile(lambda A: differentiable.reduce(A, name, (0, -1)), fullgraph=True, backend="eager")
    assert torch.equal(whole(A), differentiable.reduce(A, name, (0, -1)))
    assert differentiable.reduce(torch.zeros((2, 0)), name, 1).tolist() == [float(sr.zeros((), name))] * 2


def test_the_gradient_by_emissions_is_the_posterior(rng):
    """The posterior comes from the forward and the backward algorithm, with probabilities."""
    steps, n = 30, 4
    begin, A, emit = rng.dirichlet(np.ones(n)), rng.dirichlet(np.ones(n), n), rng.random((steps, n))
    forward, backward = [begin], [np.ones(n)]
    for e in emit:
        forward.append(forward[-1] @ A * e)
    for e in emit[::-1]:
        backward.insert(0, A @ (e * backward[0]))
    posterior = np.array(forward[1:]) * np.array(backward[1:]) / forward[-1].sum()
    w = torch.from_numpy(np.log(emit)).requires_grad_()
    end = differentiable.multi_dot(torch.from_numpy(np.log(A)), torch.from_numpy(np.log(begin)), "log_plus", weights=w)
    total = differentiable.reduce(end, "log_plus")
    (found,) = torch.autograd.grad(total, w)
    np.testing.assert_allclose(found, posterior, rtol=1e-10)
    assert np.isclose(total.item(), np.log(forward[-1].sum()))


def test_a_row_with_small_gradients_keeps_them_beside_others(rng):
    A, x = (torch.tensor(rng.normal(size=shape), dtype=torch.float32) for shape in ((64, 64), (4, 64)))
    x.requires_grad_()
    scales = torch.tensor([[1], [1e-20], [0], [1e-30]], dtype=torch.float32)
    differentiable.multi_dot(A, x, sr.log_plus, steps=5).backward(scales.expand(4, 64))
    torch.testing.assert_close(x.grad.sum(1), 64 * scales[:, 0], rtol=1e-5, atol=0)


def test_where_there_is_no_path_the_gradient_is_zero(rng):
    inf = float("inf")
    for name, zero in (("min_plus", inf), ("log_plus", -inf)):
        A, x, w = draw_tensors(rng, name, (3, 3), (2, 3), (5, 2, 3))
        with torch.no_grad():
            A[0], A[:, 1], w[2, 0] = zero, zero, zero  # row 0 of the batch ends there
        end = differentiable.multi_dot(A, x, name, weights=w)
        assert (end[0] == zero).all()
        dA, dx, dw = torch.autograd.grad(torch.where(end == zero, 0.0, end).sum(), (A, x, w))
        for gradient in (dA, dx, dw):
            assert torch.isfinite(gradient).all()
        assert not dA[0].any()
        assert not dA[:, 1].any()
        assert not dx[0].any()
        assert not dw[:, 0].any()
        assert dx[1].any()


@pytest.mark.full
def test_memory_grows_with_the_root_of_the_steps(rng):
    """The memory beside operands, gradients and result grows with √T for a sequence of T steps."""
    n, rows = 32, 40
    peaks = []
    for steps in (100, 1600):
        A, x = rng.random((n, n)) - 4, rng.random((rows, n))
        tracemalloc.start()
        given = ChainArrays(A[None], x)
        _, borders = sequence_gradients.final_state(given, steps, sr.log_plus, False, len(segments(steps)))
        sequence_gradients.pull_back(given, borders, np.ones((rows, 1, n)), steps, sr.log_plus)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 5 * peaks[0]  # 16 times as many steps, whose states alone are 16 MiB
    assert peaks[1] < 1600 * rows * n * 8 / 2
    assert [len(run) for run in segments(10)] == [4, 4, 2]
    assert segments(0) == []


def test_the_transforms_of_torch_func(rng):
    A, x, w = draw_tensors(rng, "log_plus", (3, 3), (4, 3), (6, 4, 3))
    for function in (differentiable.scan, differentiable.multi_dot):

        def loss(A, x, w):
            return function(A, x, "log_plus", weights=w).sum()  # noqa: B023

        every = torch.func.vmap(torch.func.grad(loss, (0, 1, 2)), in_dims=(None, 0, 1))(A, x, w)
        for index in range(4):
            alone = torch.func.grad(loss, (0, 1, 2))(A, x[index], w[:, index])
            for many, one in zip(every, alone, strict=True):
                torch.testing.assert_close(many[index], one)


@pytest.mark.full
@pytest.mark.filterwarnings("ignore:The .grad attribute:UserWarning")  # opcheck's own
def test_the_compiler_finds_one_graph_and_operators_are_registered_as_it_wants(rng):
    A, x, w = draw_tensors(rng, "log_plus", (3, 3), (4, 3), (6, 4, 3))

    def loss(A, x, w):
        states = differentiable.scan(A, x, "log_plus", weights=w)
        end = differentiable.multi_dot(A, None, "log_plus", steps=3)
        return states.square().sum() + differentiable.reduce(end, "log_plus")

    torch._dynamo.reset()
    compiled = torch.compile(loss, fullgraph=True, backend="aot_eager")
    found, expected = (torch.autograd.grad(f(A, x, w), (A, x, w)) for f in (compiled, loss))
    torch.testing.assert_close(found, expected)
    leaves = [tensor.detach().clone().requires_grad_() for tensor in (A[None, None], x, w.movedim(0, -2))]
    given = *leaves, torch.tensor([0, 6, 2, 3]), 6, "log_plus", True
    for operator in (operators.scan, operators.multi_dot):
        assert set(torch.library.opcheck(operator.operator, given).values()) == {"SUCCESS"}


def test_integers_bfloat16_and_semirings_without_a_gradient(rng):
    A = torch.from_numpy(rng.integers(0, 9, (9, 4, 4)))
    assert differentiable.scan(A, A[0, 0]).tolist() == sr.scan(A.numpy(), A[0, 0].numpy()).tolist()
    half = torch.from_numpy(rng.normal(size=(5, 4, 4))).to(torch.bfloat16).requires_grad_()
    end = differentiable.multi_dot(half, None, "log_plus")
    end.sum().backward()
    assert end.dtype == half.grad.dtype == torch.bfloat16
    wide = half.detach().double().requires_grad_()
    differentiable.multi_dot(wide, None, "log_plus").sum().backward()
    torch.testing.assert_close(half.grad.double(), wide.grad, rtol=0.1, atol=0.1)
    product = differentiable.matmul(half, half, "max_plus")
    product.sum().backward()
    assert product.dtype == torch.bfloat16
    any_of = sr.Semiring("any of", add="x + y - x * y", mul="x * y", zero=0, one=1, domain=(0, 1))
    with pytest.raises(AlgebraError, match="no gradient"):
        differentiable.multi_dot(torch.rand(3, 2, 2, requires_grad=True), None, any_of)
    assert differentiable.multi_dot(torch.rand(3, 2, 2), None, any_of).shape == (2, 2)


def test_errors_name_what_is_wrong():
    A, x = torch.rand(4, 3, 3), torch.rand(3)
    with pytest.raises(TypeError, match=r"semiring\.torch\.matmul for semiring\.matmul.*A\.detach"):
        sr.matmul(A[0].requires_grad_(), A[1])
    with pytest.raises(DTypeError, match="float64"):
        differentiable.scan(A, x.double())
    with pytest.raises(DTypeError, match="lengths has dtype"):
        differentiable.scan(A, x, lengths=1.5)
    with pytest.raises(ShapeError, match="square"):
        differentiable.multi_dot(A[:, :2])
    with pytest.raises(AlgebraError, match="no second derivative"):
        torch.autograd.functional.hessian(lambda x: differentiable.multi_dot(A, x, "log_plus").sum(), x)


@pytest.mark.full
def test_jax_has_the_same_values_and_gradients(rng):
    jax = pytest.importorskip("jax", reason="JAX is not installed")
    import semiring.jax as in_jax

    with jax.enable_x64(True):
        for name in ("min_plus", "log_plus"):
            A, x, w = draw_tensors(rng, name, (3, 3), (2, 3), (5, 2, 3))
            lengths = np.array([4, 5])
            plain = [tensor.detach().numpy() for tensor in (A, x, w)]
            for which in ("scan", "multi_dot"):

                def value(A, x, w, library, which=which, name=name):
                    return getattr(library, which)(A, x, name, weights=w, lengths=lengths).sum()  # noqa: B023

                expected = torch.autograd.grad(value(A, x, w, differentiable), (A, x, w))
                found = jax.jit(jax.grad(lambda *a: value(*a, in_jax), (0, 1, 2)))(*plain)
                for ours, theirs in zip(found, expected, strict=True):
                    np.testing.assert_allclose(ours, theirs, rtol=1e-10)
            found = jax.vmap(lambda x: in_jax.multi_dot(plain[0], x, name, steps=4))(plain[1])  # noqa: B023
            np.testing.assert_allclose(found, sr.multi_dot(plain[0], plain[1], name, steps=4), rtol=1e-12)
            with pytest.raises(AlgebraError, match="no second derivative"):
                jax.jacrev(jax.grad(lambda x: in_jax.multi_dot(plain[0], x, name, steps=4).sum()))(plain[1])  # noqa: B023
            total = jax.grad(lambda A: in_jax.reduce(A, name))(plain[0])  # noqa: B023
            np.testing.assert_allclose(total, torch.autograd.grad(differentiable.reduce(A, name), A)[0], rtol=1e-10)


@pytest.mark.gpu
@pytest.mark.parametrize("name", NAMES)
def test_tensors_on_a_gpu_have_the_values_and_gradients_of_the_host(name, rng):
    for matrices, n in (((60, 60), 60), ((12, 2, 1, 90, 90), 90), ((12, 2, 3, 5, 5), 5)):
        A, x, w = draw_tensors(rng, name, matrices, (2, 3, n), (12, 2, 3, n))
        lengths = torch.from_numpy(rng.integers(0, 13, (2, 3)))
        there = [tensor.detach().cuda().requires_grad_() for tensor in (A, x, w)]
        for function in (differentiable.scan, differentiable.multi_dot):
            expected = function(A, x, name, weights=w, lengths=lengths)
            found = function(there[0], there[1], name, weights=there[2], lengths=lengths)
            assert found.is_cuda
            torch.testing.assert_close(found.cpu(), expected)
            gradients = torch.autograd.grad(found.sum(), there)
            for ours, theirs in zip(gradients, torch.autograd.grad(expected.sum(), (A, x, w)), strict=True):
                torch.testing.assert_close(ours.cpu(), theirs)
        if sr.as_semiring(name).selective:
            plain = [tensor.detach() for tensor in (A, x, w)]
            C, W = sr.multi_dot(
                *(tensor.cuda() for tensor in plain[:2]), name, weights=plain[2].cuda(), return_witness=True
            )
            expected = sr.multi_dot(*plain[:2], name, weights=plain[2], return_witness=True)
            torch.testing.assert_close((C.cpu(), W.cpu()), expected)


@pytest.mark.parametrize("lengths", [[5, 1, 1], [4, -1, 1]])
def test_lengths_beyond_the_steps_are_refused(lengths):
    """Lengths that count states, one more than the steps, raise instead of giving likelihoods silently."""
    A, x, w = np.zeros((2, 2)), np.zeros((3, 2)), np.zeros((4, 3, 2))
    with pytest.raises(ValueError, match="lengths are 0 to 4, the number of steps"):
        sr.multi_dot(A, x, "log_plus", weights=w, lengths=lengths)
    tensors = [torch.from_numpy(array) for array in (A, x, w)]
    for function in (differentiable.multi_dot, differentiable.scan):
        with pytest.raises(ValueError, match="lengths are 0 to 4, the number of steps"):
            function(*tensors[:2], "log_plus", weights=tensors[2], lengths=lengths)
        assert function(*tensors[:2], "log_plus", weights=tensors[2], lengths=lengths, check=False).shape[-1] == 2


def test_what_is_kept_for_gradients_uses_memory_that_is_free_again():
    shape, dtype = (3, 1 << 17), np.dtype(np.float32)
    first = allocate_recycled(shape, dtype)
    place, view = first.ctypes.data, first[1:].reshape(-1)
    view[:] = 7
    del first
    second = allocate_recycled(shape, dtype)  # the view is still there
    second[:] = 5
    assert second.ctypes.data != place
    assert (view == 7).all()
    del view
    third = allocate_recycled((2, 1 << 17), dtype)
    assert third.ctypes.data == place
    assert third.shape == (2, 1 << 17)
    del second, third
    larger = allocate_recycled((4, 1 << 20), dtype)
    larger[:] = 1
    assert larger.flags.writeable
    assert larger.dtype == dtype
    place = larger.ctypes.data
    del larger
    small = allocate_recycled((1, 1 << 18), dtype)
    assert not place <= small.ctypes.data < place + (1 << 24), "a small array does not hold what is large"
    assert isinstance(allocate_recycled((1, (1 << 25) + 1), dtype).base, type(None)), "beyond 128 MiB nothing is kept"
