"""Test tensors of PyTorch: values, gradients against autograd through dense expressions, the compiler, `torch.func`."""

from __future__ import annotations

import math
from functools import partial

import gradient_cases
import numpy as np
import pytest
from gradient_cases import NAMES, draw_weights
from hypothesis import given
from hypothesis import strategies as st
from tiers import full

import semiring as sr
from semiring.errors import AlgebraError, DeviceError, DomainError, DTypeError, NegativeCycleError

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

import semiring.torch as differentiable  # noqa: E402
from semiring.torch import operators  # noqa: E402

pytestmark = pytest.mark.full  # these libraries alone take seconds to import

INF = math.inf
#: The semirings of the full tier: each kind of ⊕ and of ⊗.
FULL = ("min_plus", "max_min", "max_times", "plus_times", "log_plus")
GADGET = sr.Semiring("gadget", "max(x, y)", "x * y / (x * y + (1 - x) * (1 - y) + 1)", 0, 1, domain=(0, 1))


def weights(rng, name, shape, dtype=np.float64, *, has_closure=False):
    return torch.from_numpy(draw_weights(rng, name, shape, has_closure=has_closure).astype(dtype))


@pytest.mark.parametrize(
    "dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.int32, torch.bool]
)
@pytest.mark.parametrize("name", ["min_plus", "log_plus", "lukasiewicz", "max_min", "plus_times", "gadget"])
def test_operations_of_a_semiring_take_tensors(name, dtype, rng):
    """Constants of an expression become tensors of the operands' dtype, and what NumPy rejects raises here too."""
    semiring = GADGET if name == "gadget" else getattr(sr, name)
    x, y = (torch.from_numpy(np.append(rng.random(7), 0)).to(dtype) for _ in range(2))
    wide = [v.float().numpy() if dtype is torch.bfloat16 else v.numpy() for v in (x, y)]
    for operation, count in ((semiring.add, 2), (semiring.mul, 2), (semiring.star, 1)):
        try:
            expected = operation(*wide[:count])
        except (AlgebraError, DTypeError) as refused:
            with pytest.raises(type(refused)):
                operation(*(x, y)[:count])
            continue
        result = operation(*(x, y)[:count])
        assert isinstance(result, torch.Tensor)
        assert result.dtype == dtype
        loose = 0.05 if dtype in (torch.float16, torch.bfloat16) else 1e-6
        np.testing.assert_allclose(result.double().numpy(), np.asarray(expected, float), rtol=loose, atol=loose)


# The oracles: products as expressions over all (i, k, j), closures as sums of powers or inverses, in plain PyTorch.


dense_product = partial(gradient_cases.dense_product, torch, torch.logsumexp)


def dense_closure(A, name):
    n, diagonal = A.shape[-1], torch.eye(A.shape[-1], dtype=torch.bool)
    if name == "plus_times":
        return torch.linalg.inv(torch.eye(n, dtype=A.dtype) - A)
    if name == "log_plus":
        return torch.linalg.inv(torch.eye(n, dtype=A.dtype) - A.exp()).log()
    best, one = torch.minimum if name.startswith("min_") else torch.maximum, float(sr.CATALOGUE[name].one.leaf)
    D = torch.where(diagonal, one, A)
    for _ in range(max(1, n - 1).bit_length()):
        D = torch.where(diagonal, one, best(D, dense_product(D, D, name)))
    return D


def gradients(function, *tensors, seed=0):
    """Return the value of a function, and the gradients of its product with random numbers."""
    leaves = [tensor.detach().clone().requires_grad_() for tensor in tensors]
    value = function(*leaves)
    g = torch.from_numpy(np.random.default_rng(seed).normal(size=value.shape)).to(value.dtype)
    return value.detach(), torch.autograd.grad(value, leaves, g)


def assert_alike(actual, expected, tolerance):
    torch.testing.assert_close(actual[0], expected[0], rtol=tolerance, atol=tolerance)
    for ours, theirs in zip(actual[1], expected[1], strict=True):
        torch.testing.assert_close(ours, theirs, rtol=tolerance, atol=tolerance)


# ------------------------------------------------------------------------------------------------------------ products


@pytest.mark.full
@pytest.mark.parametrize("semiring", full(lambda semiring: semiring in (*FULL, GADGET), [*NAMES, GADGET]), ids=str)
def test_first_and_second_derivatives_of_products_by_finite_differences(semiring, rng):
    name = semiring if isinstance(semiring, str) else "max_times"
    A = weights(rng, name, (2, 3, 4)).requires_grad_()
    B = weights(rng, name, (4, 2)).requires_grad_()
    assert torch.autograd.gradcheck(lambda A, B: differentiable.matmul(A, B, semiring), (A, B))
    assert torch.autograd.gradgradcheck(lambda A, B: differentiable.matmul(A, B, semiring), (A, B))


def test_one_operand_may_be_without_gradient(rng):
    for name in ("min_plus", "log_plus", "plus_times"):
        A, B = weights(rng, name, (3, 4)).requires_grad_(), weights(rng, name, (4, 2))
        differentiable.matmul(A, B, name).sum().backward()
        differentiable.matmul(B.mT, A.mT, name).sum().backward()
        whole = gradients(lambda A: dense_product(A, B, name).sum(), A)[1][0]  # noqa: B023
        twice = gradients(lambda A: dense_product(B.mT, A.mT, name).sum(), A)[1][0]  # noqa: B023
        scale = np.random.default_rng(0).normal()
        torch.testing.assert_close(A.grad, (whole + twice) / scale)


@pytest.mark.parametrize("name", ["min_plus", "max_plus", "max_min", "min_max", "max_times", "min_times", "log_plus"])
def test_where_there_is_no_path_the_gradient_is_zero(name, rng):
    zero = float(sr.CATALOGUE[name].zero.leaf)
    A, B = weights(rng, name, (5, 6)), weights(rng, name, (6, 4))
    A[torch.from_numpy(rng.random((5, 6)) < 0.5)] = zero
    B[torch.from_numpy(rng.random((6, 4)) < 0.5)] = zero
    A[2] = B[:, 1] = zero
    C, (dA, dB) = gradients(lambda A, B: differentiable.matmul(A, B, name), A, B)
    assert (C[2] == zero).all()
    assert (C[:, 1] == zero).all()
    assert dA.isfinite().all()
    assert dB.isfinite().all()
    used = {"A": zero != A, "B": zero != B}
    assert (dA[~used["A"]] == 0).all()
    assert (dB[~used["B"]] == 0).all()
    for i, j in np.ndindex(5, 4):
        if C[i, j] != zero:  # on the terms that are there it is the dense expression
            k = used["A"][i] & used["B"][:, j]
            torch.testing.assert_close(dense_product(A[i : i + 1, k], B[k, j : j + 1], name)[0, 0], C[i, j])

    def second(A, B):
        grads = torch.autograd.grad(differentiable.matmul(A, B, name).square().sum(), (A, B), create_graph=True)
        return sum(grad.square().sum() for grad in grads)

    if not math.isinf(zero):
        assert all(grad.isfinite().all() for grad in gradients(second, A, B)[1])


def test_log_plus_is_exact_at_any_scale(rng):
    """Exponents beyond float64, -10⁹ in the place of -∞, and true -∞ give the weights of the softmax."""
    A, B = torch.from_numpy(rng.normal(size=(4, 6))), torch.from_numpy(rng.normal(size=(6, 5)))
    A[0] -= 1e4
    A[1, 2:] = -1e9
    A[2] *= 1000
    A[3, :5] = -INF
    B[:, 1] += 1e4
    B[:, 2] *= 700
    B[3, 3] = -1e9
    found = gradients(lambda A, B: differentiable.matmul(A, B, "log_plus"), A, B)
    assert_alike(found, gradients(lambda A, B: dense_product(A, B, "log_plus"), A, B), 1e-9)
    A, B = torch.full((2, 3), -INF, requires_grad=True), torch.zeros((3, 2), requires_grad=True)
    differentiable.matmul(A, B, "log_plus").sum().backward()
    assert not A.grad.any()
    assert not B.grad.any()


@given(st.data())
def test_min_plus_gradients_are_supergradients(data):
    """The product is concave in the weights, ties too: C(A') ≤ C(A) + ⟨gradient, A' - A⟩, exact on small integers."""
    m, k, n = (data.draw(st.integers(1, 5)) for _ in range(3))
    entries = st.integers(0, 4).map(float)
    before, after = (
        [torch.tensor(data.draw(st.lists(entries, min_size=r * c, max_size=r * c))).reshape(r, c) for r, c in shapes]
        for shapes in [((m, k), (k, n))] * 2
    )
    leaves = [x.requires_grad_() for x in before]
    value = differentiable.matmul(*leaves).sum()
    grads = torch.autograd.grad(value, leaves)
    bound = value + sum((g * (y - x)).sum() for g, x, y in zip(grads, before, after, strict=True))
    assert differentiable.matmul(*after).sum() <= bound
    assert all(g.sum() == m * n for g in grads)


@given(st.integers(1, 7), st.integers(0, 2**32 - 1))
def test_closure_gradients_are_supergradients(n, seed):
    """Gradients include zero weights, cycles of weight 0, ties and missing edges."""
    rng = np.random.default_rng(seed)
    there = rng.random((n, n)) < 0.6
    before, after = (torch.from_numpy(np.where(there, rng.integers(0, 4, (n, n)), INF)) for _ in range(2))
    leaf = before.clone().requires_grad_()
    D = differentiable.closure(leaf)
    finite = torch.isfinite(D.detach())
    (g,) = torch.autograd.grad(D[finite].sum(), leaf)
    change = torch.where(torch.from_numpy(there), after - before, 0.0)
    assert differentiable.closure(after)[finite].sum() <= D.detach()[finite].sum() + (g * change).sum()
    assert not g[~torch.from_numpy(there)].any()
    assert (g * before.nan_to_num(posinf=0)).sum() == D.detach()[finite].sum()  # Euler: paths add up


# ------------------------------------------------------------------------------------------------------------ closures


@pytest.mark.full
@pytest.mark.parametrize("name", full(lambda name: name in FULL, NAMES))
@pytest.mark.parametrize("n", full(lambda n: n in (2, 17), [1, 2, 5, 17, 40]))
def test_closures_agree_with_the_dense_expression(name, n, rng):
    A = weights(rng, name, (n, n), has_closure=True)
    found = gradients(lambda A: differentiable.closure(A, name), A)
    assert_alike(found, gradients(lambda A: dense_closure(A, name), A), 1e-8)
    found = gradients(lambda A: differentiable.closure(A, name, reflexive=False), A)
    assert_alike(found, gradients(lambda A: dense_product(A, dense_closure(A, name), name), A), 1e-8)


@pytest.mark.full
@pytest.mark.parametrize("name", full(lambda name: name in FULL, NAMES))
@pytest.mark.parametrize("reflexive", [True, False])
def test_first_and_second_derivatives_of_closures_by_finite_differences(name, reflexive, rng):
    A = weights(rng, name, (4, 4), has_closure=True).requires_grad_()
    finite = ~torch.eye(4, dtype=torch.bool) if name in ("max_min", "min_max") else slice(None)

    def close(A):
        return differentiable.closure(A, name, reflexive=reflexive)[finite]

    assert torch.autograd.gradcheck(close, (A,))
    assert torch.autograd.gradgradcheck(close, (A,))


@pytest.mark.full
@pytest.mark.parametrize("name", ["min_plus", "max_times", "log_plus"])
def test_sparse_graphs_have_finite_gradients(name, rng):
    """Pairs without a path have no gradient, long paths have one on every edge, and each matrix of a stack has one."""
    zero, n = float(sr.CATALOGUE[name].zero.leaf), 30
    A = weights(rng, name, (3, n, n), has_closure=True)
    A[torch.from_numpy(rng.random((3, n, n)) < 0.9)] = zero
    A[2] = zero
    A[2, torch.arange(n - 1), torch.arange(1, n)] = 0.5 if zero == 0 else 0.0
    found = gradients(lambda A: differentiable.closure(A, name), A)
    g = np.random.default_rng(0).normal(size=(3, n, n))
    assert found[1][0].isfinite().all()
    assert not found[1][0][zero == A].any()
    for index in range(3):
        one = A[index].clone().requires_grad_()
        differentiable.closure(one, name).backward(torch.from_numpy(g[index]))
        torch.testing.assert_close(one.grad, found[1][0][index])
    if name == "min_plus":  # on a path, an edge counts once for every pair on both sides of it
        expected = [np.triu(g[2], 1)[: k + 1, k + 1 :].sum() for k in range(n - 1)]
        np.testing.assert_allclose(found[1][0][2].diagonal(1).numpy(), expected, rtol=1e-9, atol=1e-9)


def test_the_diagonal_is_a_constant_and_a_cycle_is_not():
    A = torch.tensor([[5.0, 1.0], [2.0, INF]], requires_grad=True)
    differentiable.closure(A).diagonal().sum().backward()
    assert not A.grad.any()
    A.grad = None
    differentiable.closure(A, reflexive=False).diagonal().sum().backward()
    assert A.grad.tolist() == [[0, 2], [2, 0]]


def test_signs_mix_and_a_negative_cycle_is_an_error():
    A = torch.tensor([[INF, 4.0, 1.0], [INF, INF, -2.0], [INF, INF, INF]], requires_grad=True)
    differentiable.closure(A)[0, 2].backward()
    assert A.grad.tolist() == [[0, 0, 1], [0, 0, 0], [0, 0, 0]]
    with pytest.raises(NegativeCycleError) as caught:
        differentiable.closure(torch.tensor([[INF, -1.5], [0.5, INF]], requires_grad=True))
    assert sorted(caught.value.cycle) == [0, 1]


# ------------------------------------------------------------------------------------------------- tensors of any kind


@pytest.mark.parametrize("name", ["min_plus", "log_plus", "plus_times"])
def test_any_strides_and_empty_tensors(name, rng):
    whole = weights(rng, name, (6, 14, 8), has_closure=True)
    for view in (whole.mT, whole[::2, 1::3], whole[0].expand(2, 14, 8), whole.permute(2, 1, 0), whole[:, :, :0]):
        A, B = view, weights(rng, name, (view.shape[-1], 3))
        found = gradients(lambda B: differentiable.matmul(A, B, name), B)  # noqa: B023
        assert_alike(found, gradients(lambda B: differentiable.matmul(A.contiguous(), B, name), B), 0)  # noqa: B023
    for shape in [(0, 3), (3, 0)]:
        A, B = weights(rng, name, shape), weights(rng, name, shape[::-1])
        C, (dA, dB) = gradients(lambda A, B: differentiable.matmul(A, B, name), A, B)
        assert (sr.CATALOGUE[name].zero.leaf == C).all()
        assert dA.shape == A.shape
        assert dB.shape == B.shape
    assert gradients(lambda A: differentiable.closure(A, name), torch.zeros(2, 0, 0))[1][0].shape == (2, 0, 0)
    square = weights(rng, name, (5, 5), has_closure=True)
    straight = gradients(lambda A: differentiable.closure(A, name), square)
    assert_alike(gradients(lambda A: differentiable.closure(A.mT, name).mT, square), straight, 1e-12)


def test_tensors_share_their_memory_with_numpy():
    given = torch.arange(6.0).reshape(2, 3)
    seen = []
    result = operators._call_on_arrays(lambda a: seen.append(a) or a * 2, (given.mT,))
    assert seen[0].ctypes.data == given.data_ptr()
    assert seen[0].strides == (4, 12)
    assert result.tolist() == (given.mT * 2).tolist()


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda A: differentiable.matmul(A, A.mT.double()), DTypeError, r"B\.to\(torch\.float32\)"),
        (lambda A: differentiable.matmul(A.int(), A.mT.int(), "max_times"), DTypeError, "is not defined on int32"),
        (lambda A: differentiable.closure([[0.0]]), TypeError, r"A is a list: semiring\.torch takes tensors"),
        (lambda A: differentiable.closure(torch.eye(2).to_sparse()), TypeError, "to_dense"),
        (lambda A: differentiable.matmul(A, A.mT * math.nan), DomainError, r"B\[0, 0\] is nan"),
    ],
)
def test_errors_name_what_is_wrong(call, error, message):
    with pytest.raises(error, match=message):
        call(torch.zeros(2, 3))
    B = torch.tensor([[0.0, math.nan]] * 3)
    assert differentiable.matmul(torch.zeros(2, 3), B, check=False).shape == (2, 2)
    assert not differentiable.closure(torch.tensor([[False, True], [False, False]]), "boolean").requires_grad


# ------------------------------------------------------------------------------------- the compiler and `torch.func`


def step(A, B, Q, semiring):
    loops = differentiable.closure(Q, semiring, reflexive=False).diagonal()
    return (differentiable.matmul(A, B, semiring) * differentiable.closure(Q, semiring)).sum() + loops.square().sum()


@pytest.mark.full
@pytest.mark.parametrize(
    "semiring", full(lambda semiring: semiring == "log_plus", ["min_plus", "log_plus", "plus_times", GADGET]), ids=str
)
def test_the_compiler_finds_one_graph(semiring, rng):
    if semiring is GADGET:
        semiring = sr.Semiring("own", add="max(x, y)", mul="x * y * 1.0", zero=0, one=1, domain=(0, 1))
    name = semiring if isinstance(semiring, str) else "max_times"
    given = [weights(rng, name, shape, has_closure=True) for shape in [(5, 4), (4, 5), (5, 5)]]
    torch._dynamo.reset()
    found = torch._dynamo.explain(step)(*given, semiring)
    assert (found.graph_count, found.graph_break_count) == (1, 0)
    compiled = torch.compile(step, fullgraph=True, backend="aot_eager")
    expected = gradients(lambda *leaves: step(*leaves, semiring), *given)
    assert_alike(gradients(lambda *leaves: compiled(*leaves, semiring), *given), expected, 1e-12)


def cases():
    A, B = torch.rand(2, 3, 4, dtype=torch.float64), torch.rand(1, 4, 2, dtype=torch.float64)
    Q = torch.rand(2, 4, 4, dtype=torch.float64) / 8
    pred = operators.closure_trees(Q, "min_plus", True, "")[1]
    entries = torch.rand(3, dtype=torch.float64), B[0], torch.tensor([[0, 2, 2], [1, 0, 3]])
    return {
        "matmul": (A, B, "log_plus", True),
        "matmul_witness": (A, B, "min_plus", True),
        "closure": (Q, "plus_times", True, True, ""),
        "closure_trees": (Q, "max_times", True, ""),
        "entry_product": (*entries, None, None, 3, 4, 2, "log_plus", True, False),
        "entry_product_with_places": (*entries, None, None, 3, 4, 2, "min_plus", True, False),
        "entry_scaled_product": (*entries[:1] * 2, B[0], B[0], B[0, :3], entries[2], None, None, 3, 4, 2),
        "scaled_product": (Q, Q, Q, Q, Q),
        "sums_up": (Q, Q, pred),
        "sums_down": (Q, Q, pred),
    }


@pytest.mark.full
@pytest.mark.filterwarnings("ignore:The .grad attribute:UserWarning")  # opcheck's own
@pytest.mark.parametrize(
    "name",
    [
        *("matmul", "matmul_witness", "entry_product", "entry_product_with_places", "closure", "closure_trees"),
        *("entry_scaled_product", "scaled_product", "sums_up", "sums_down"),
    ],
)
def test_each_operator_is_registered_as_pytorch_wants(name):
    arguments = [x.requires_grad_(x.is_floating_point()) if isinstance(x, torch.Tensor) else x for x in cases()[name]]
    report = torch.library.opcheck(getattr(operators, name).operator, tuple(arguments))
    assert set(report.values()) == {"SUCCESS"}


@pytest.mark.parametrize("semiring", ["min_plus", "max_times", "log_plus", "plus_times"])
def test_the_transforms_of_torch_func(semiring, rng):
    A, B, Q = (weights(rng, semiring, shape, has_closure=True) for shape in [(3, 5, 4), (4, 5), (3, 5, 5)])

    def loss(A, B, Q):
        return step(A, B, Q, semiring)

    every = torch.func.vmap(torch.func.grad(loss, (0, 1, 2)), in_dims=(0, None, 0))(A, B, Q)
    for index in range(3):
        expected = torch.func.grad(loss, (0, 1, 2))(A[index], B, Q[index])
        leaves = [x.clone().requires_grad_() for x in (A[index], B, Q[index])]
        plain = torch.autograd.grad(loss(*leaves), leaves)
        for one, two, three in zip(every, expected, plain, strict=True):
            torch.testing.assert_close(one[index], two)
            torch.testing.assert_close(two, three)
    hessian = torch.func.jacrev(torch.func.grad(lambda Q: loss(A[0], B, Q)))(Q[0])
    torch.testing.assert_close(hessian, torch.autograd.functional.hessian(lambda Q: loss(A[0], B, Q), Q[0]))


# ------------------------------------------------------------------------------------------------------------- a GPU


def on_gpu(function):
    return lambda *tensors: function(*(tensor.cuda() for tensor in tensors)).cpu()


@pytest.mark.gpu
@pytest.mark.parametrize("name", NAMES)
def test_tensors_on_a_gpu_have_the_values_and_gradients_of_the_host(name, rng):
    for dtype, tolerance in ((np.float64, 1e-9), (np.float32, 1e-4)):
        A, B = weights(rng, name, (3, 33, 70), dtype), weights(rng, name, (70, 65), dtype)
        product = lambda A, B: differentiable.matmul(A, B, name)  # noqa: E731
        assert_alike(gradients(on_gpu(product), A, B), gradients(product, A, B), tolerance)
        Q = weights(rng, name, (2, 130, 130), dtype, has_closure=True)
        for reflexive in (True, False):
            close = lambda Q: differentiable.closure(Q, name, reflexive=reflexive)  # noqa: E731, B023
            assert_alike(gradients(on_gpu(close), Q), gradients(close, Q), 10 * tolerance)


@pytest.mark.gpu
@pytest.mark.parametrize("name", ["min_plus", "log_plus"])
def test_no_path_ties_and_far_exponents_on_a_gpu(name, rng):
    Q = weights(rng, name, (60, 60), has_closure=True)
    Q[torch.from_numpy(rng.random((60, 60)) < 0.9)] = float(sr.CATALOGUE[name].zero.leaf)
    close = lambda Q: differentiable.closure(Q, name)  # noqa: E731
    found = gradients(on_gpu(close), Q)
    assert found[1][0].isfinite().all()
    assert_alike(found, gradients(close, Q), 1e-9)
    A, B = (
        torch.from_numpy(rng.integers(0, 3, (40, 50)) * 700.0),
        torch.from_numpy(rng.integers(0, 3, (50, 30)) * 700.0),
    )
    product = lambda A, B: differentiable.matmul(A, B, name)  # noqa: E731
    assert_alike(gradients(on_gpu(product), A, B), gradients(product, A, B), 1e-9)


@pytest.mark.gpu
def test_second_derivatives_the_compiler_and_streams_on_a_gpu(rng):
    for name in ("max_times", "log_plus"):
        Q = weights(rng, name, (5, 5), has_closure=True).cuda().requires_grad_()
        assert torch.autograd.gradgradcheck(lambda Q: differentiable.closure(Q, name), (Q,))  # noqa: B023
        leaves = [Q.detach()[:, :4], Q.detach()[:4], Q.detach()]
        torch._dynamo.reset()
        compiled = torch.compile(step, fullgraph=True, backend="aot_eager")
        with torch.cuda.stream(torch.cuda.Stream()):
            found = [gradients(lambda *x: f(*x, name), *leaves) for f in (compiled, step)]  # noqa: B023
            torch.cuda.synchronize()
        assert_alike(*found, 1e-9)


@pytest.mark.gpu
def test_half_precision_and_mixed_devices_on_a_gpu(rng):
    A = weights(rng, "min_plus", (40, 40), np.float16)
    whole = gradients(lambda A: differentiable.closure(A) + differentiable.matmul(A, A.mT), A.float())
    half = gradients(on_gpu(lambda A: differentiable.closure(A) + differentiable.matmul(A, A.mT)), A)
    assert half[0].dtype == half[1][0].dtype == torch.float16
    torch.testing.assert_close(half[0].float(), whole[0], rtol=4e-3, atol=4e-3)
    with pytest.raises(DeviceError, match=r"A is on cpu, B on cuda:0"):
        differentiable.matmul(A, A.cuda())


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_cycles_that_gain_by_the_rounding_of_halves_are_none(rng, dtype):
    heights = torch.from_numpy(10 * rng.normal(size=40))
    A = (heights - heights[:, None]).to(dtype)
    for reflexive in (True, False):
        found = differentiable.closure(A, reflexive=reflexive)
        assert found.dtype == dtype
        assert torch.equal(found, sr.closure(A, reflexive=reflexive))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_cycles_of_halves_have_gradients(rng, dtype):
    """A⁺ equals that without a gradient, on its diagonal up to what the rounding of the weights explains."""
    heights, epsilon = torch.from_numpy(8 * rng.random(40)), torch.finfo(dtype).eps
    for least in (0.0, 0.5):  # with cycles that gain by rounding alone, and without
        given = least + torch.from_numpy(rng.random((40, 40))) / 50 + heights[:, None] - heights
        A = given.to(dtype).requires_grad_()
        found, expected = differentiable.closure(A, reflexive=False), sr.closure(A.detach(), reflexive=False)
        assert found.dtype == dtype
        apart = ~torch.eye(40, dtype=torch.bool)
        assert torch.equal(found[apart], expected[apart])
        torch.testing.assert_close(
            found.diagonal(), expected.diagonal(), rtol=epsilon, atol=(0 if least else 80) * epsilon
        )
        found.sum().backward()
        assert A.grad.dtype == dtype
        assert A.grad.sum() >= 40 * 40  # every entry is a path


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("name", ["min_plus", "max_plus"])
def test_halves_whose_cycles_gain_by_rounding_alone_have_gradients(rng, dtype, name):
    """Cycles of height differences weigh 0, except for rounding, and the value is that without a gradient."""
    height = torch.from_numpy(8 * rng.random(6))
    A = (height - height[:, None]).to(dtype)
    wanted = A.clone().requires_grad_()
    D = differentiable.closure(wanted, name)
    assert torch.equal(D.detach(), differentiable.closure(A, name))
    D[0, 3].backward()
    # A path from 0 to 3: one edge more out of 0 than into it, one more into 3.
    assert wanted.grad.dtype == dtype
    flow = wanted.grad.sum(1) - wanted.grad.sum(0)
    assert flow.tolist() == [1, 0, 0, -1, 0, 0]


def test_sequences_of_stacks_under_vmap():
    A, x, w = torch.rand(3, 4, 5, 2, 2), torch.rand(3, 5, 2), torch.rand(3, 4, 5, 2)
    for function in (differentiable.multi_dot, differentiable.scan):
        call = lambda A, x, w, function=function: function(A, x, "log_plus", weights=w)  # noqa: E731
        expected = torch.stack([call(*each) for each in zip(A, x, w, strict=True)])
        torch.testing.assert_close(torch.func.vmap(call)(A, x, w), expected)
        assert torch.func.vmap(function)(A).shape[0] == 3
