"""Test products with sparse operands and masks in PyTorch and JAX: values, gradients, ties, ∞, duplicates."""

from __future__ import annotations

import os
from contextlib import contextmanager
from functools import partial
from itertools import product

import numpy as np
import pytest
from gradient_cases import NAMES, draw_weights
from tiers import full

import semiring as sr
from semiring.errors import AlgebraError, DomainError, DTypeError, ShapeError

pytestmark = [
    pytest.mark.full,  # these libraries alone take seconds to import
    pytest.mark.filterwarnings("ignore:Sparse:UserWarning"),  # PyTorch's own, once a process
]

#: An operation whose derivatives by x and y differ; its 1 is neutral on the right alone.
GADGET = sr.Semiring("gadget", add="max(x, y)", mul="x * y * y", zero=0, one=1, domain=(0, 1), contract=True)
FEW = ("min_plus", "max_times", "plus_times", "log_plus", GADGET)
#: Which of A and B are sparse, and whether there is a mask.
FORMS = [
    "sparse dense",
    "dense sparse",
    "sparse sparse mask",
    "dense dense mask",
    "sparse dense mask",
    "dense sparse mask",
]


class Torch:
    def __init__(self, device: str = "cpu") -> None:
        import torch

        import semiring.torch as differentiable

        self.torch, self.functions, self.array = torch, differentiable, partial(torch.tensor, device=device)

    def sparse(self, values, rows, columns, shape, layout="coo"):
        torch, own = self.torch, {"device": values.device}
        if layout == "coo":
            return torch.sparse_coo_tensor(torch.tensor(np.stack([rows, columns]), **own), values, shape)
        by_rows = layout == "csr"
        major, minor = (rows, columns) if by_rows else (columns, rows)
        order = np.lexsort((minor, major))
        starts = np.searchsorted(major[order], np.arange(shape[not by_rows] + 1))
        make = torch.sparse_csr_tensor if by_rows else torch.sparse_csc_tensor
        arrays = (torch.tensor(x, **own) for x in (starts, minor[order], order))
        return make(next(arrays), next(arrays), values[next(arrays)], shape)

    def stored(self, C, rows, columns):
        """Return the stored values in the order of the places."""
        C = C.to_sparse_coo().coalesce()
        assert C.indices().tolist() == [rows.tolist(), columns.tolist()]
        return C.values()

    def pull_back(self, function, *arrays):
        leaves = [self.array(array).requires_grad_() for array in arrays]
        value = function(*leaves)
        g = self.array(np.random.default_rng(0).normal(size=tuple(value.shape))).to(value.dtype)
        return value.detach().cpu().numpy(), [x.cpu().numpy() for x in self.torch.autograd.grad(value, leaves, g)]


class Jax:
    def __init__(self) -> None:
        import jax
        from jax.experimental import sparse

        import semiring.jax as differentiable

        self.jax, self.functions, self.array, self.bcoo = jax, differentiable, jax.numpy.asarray, sparse.BCOO

    def sparse(self, values, rows, columns, shape, layout="coo"):
        return self.bcoo((values, self.jax.numpy.asarray(np.stack([rows, columns], axis=1))), shape=tuple(shape))

    def stored(self, C, rows, columns):
        return C.data  # C has the indices of the mask

    def pull_back(self, function, *arrays):
        value, pull = self.jax.vjp(self.jax.jit(function), *map(self.array, arrays))
        gradients = pull(self.array(np.random.default_rng(0).normal(size=value.shape)).astype(value.dtype))
        return np.asarray(value), [np.asarray(gradient) for gradient in gradients]


ON_GPU = pytest.mark.gpu
DEVICES = ["cpu", pytest.param("cuda", marks=ON_GPU)]


@contextmanager
def use_jax(device):
    """Yield JAX's library, with arrays of float64 on a device."""
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # processes share a GPU
    jax = pytest.importorskip("jax")
    jax.config.update("jax_disable_most_optimizations", True)
    try:
        place = jax.devices(device)[0]
    except RuntimeError:
        pytest.skip("JAX has no GPU")
    with jax.enable_x64(True), jax.default_device(place):
        yield Jax()


@pytest.fixture(params=["torch", "jax", pytest.param("torch cuda", marks=ON_GPU)])
def library(request):
    name, _, device = request.param.partition(" ")
    pytest.importorskip(name)
    if name == "torch":
        yield Torch(device or "cpu")
        return
    with use_jax(device or "cpu") as found:
        yield found


def zero_of(semiring):
    return float(sr.as_semiring(semiring).zero_for(np.dtype(float)))


def draw(rng, semiring, shape, *, has_ties=False):
    """Return entries far from ties, or with many ties and some that are the zero; logarithms then lie far apart."""
    name = semiring if isinstance(semiring, str) else "max_times"
    if not has_ties:
        return draw_weights(rng, name, shape)
    values = {"min_times": 1.0, "lukasiewicz": 0.75}.get(name, 0.5) + 0.25 * rng.integers(0, 2, shape)
    values = 2000 * values if name == "log_plus" else values
    return np.where(rng.random(shape) < 0.2, zero_of(semiring), values)


def draw_places(rng, shape):
    """Return the rows and columns of random entries, with a full row, an empty row and an empty column."""
    is_stored = rng.random(shape) < 0.6
    is_stored[0], is_stored[2], is_stored[:, 3] = True, False, False
    return np.nonzero(is_stored)


#: ⊕ and ⊗ of each semiring, of NumPy.
OPERATIONS = {
    "min_plus": (np.minimum, np.add),
    "max_plus": (np.maximum, np.add),
    "max_min": (np.maximum, np.minimum),
    "min_max": (np.minimum, np.maximum),
    "max_times": (np.maximum, np.multiply),
    "min_times": (np.minimum, np.multiply),
    "plus_times": (np.add, np.multiply),
    "log_plus": (np.logaddexp, np.add),
    "lukasiewicz": (np.maximum, lambda x, y: np.maximum(x + y - 1, 0)),
    GADGET: (np.maximum, lambda x, y: x * y * y),
}


def differentiate_by_differences(semiring, A, B, weights):
    """Return A ⊗ B by its definition, and the derivatives of its weighted sum by A and B by central differences.

    Of tied terms the one with the smallest k is made the best one: entries become worse by 10⁻⁷ times k + 1. Results
    that are the zero have no weight, except in plus_times.
    """
    add, times = OPERATIONS[semiring]

    def multiply(X, Y):
        return add.reduce(times(X[..., :, :, None], Y[..., None, :, :]), axis=-2)

    C, (m, k), n = multiply(A, B), A.shape, B.shape[1]
    is_smooth = semiring in ("plus_times", "log_plus")
    step, worse = (1e-5, 0.0) if is_smooth else (1e-9, 1e-7 if add is np.minimum else -1e-7)
    is_weighted = (zero_of(semiring) != C) | (semiring == "plus_times")
    factors = worse * np.arange(1.0, k + 1)
    X, Y = A + factors, B + 0.99 * factors[:, None]  # so that of min(x, y) with x = y the first one is worse
    moves = [step * np.eye(size).reshape(size, *shape) for size, shape in ((m * k, (m, k)), (k * n, (k, n)))]
    slopes = []
    for dX, dY in ((moves[0], 0.0), (0.0, moves[1])):
        more, less = (np.where(is_weighted, multiply(X + s * dX, Y + s * dY), 0.0) for s in (1, -1))
        slopes.append((weights * (more - less)).sum((-2, -1)) / (2 * step))
    return C, slopes[0].reshape(m, k), slopes[1].reshape(k, n)


@pytest.mark.parametrize("has_ties", [False, True])
@pytest.mark.parametrize(
    ("library", "semiring", "form"),
    full(
        lambda library, semiring, form: library == "torch" and semiring in ("min_plus", "log_plus", "plus_times"),
        [
            (library, semiring, form)
            for library, semirings in (("torch", [*NAMES, GADGET]), ("jax", FEW))
            for semiring, form in product(semirings, FORMS)
        ],
    )
    + [
        pytest.param(f"{library} cuda", semiring, form, marks=ON_GPU)
        for library, semirings in (("torch", [*NAMES, GADGET]), ("jax", FEW))
        for semiring, form in product(semirings, FORMS)
    ],
    indirect=["library"],
    ids=str,
)
def test_sparse_operands_and_masks_have_the_products_and_gradients_of_dense_matrices(
    library, semiring, form, has_ties, rng
):
    (m, k, n), zero, matmul = (6, 7, 5), zero_of(semiring), library.functions.matmul
    shapes = [(m, k), (k, n)]
    sparse, has_mask = [word == "sparse" for word in form.split()[:2]], form.endswith("mask")
    places = [
        draw_places(rng, shape) if own else np.nonzero(np.ones(shape))
        for own, shape in zip(sparse, shapes, strict=True)
    ]
    mask = draw_places(rng, (m, n))
    arrays = [draw(rng, semiring, ends[0].size, has_ties=has_ties) for ends in places]
    if has_ties:
        arrays[0][places[0][0] == 0] = zero  # row 0 of the result is the zero
    layouts = rng.permutation(["coo", "csr", "csc"])

    def operand(values, side):
        shape = shapes[side]
        if sparse[side]:
            return library.sparse(values, *places[side], shape, layouts[side])
        return values.reshape(shape)

    def dense(values, side):
        flat = np.ravel_multi_index(places[side], shapes[side])
        whole = library.array(np.full(m * k if side == 0 else k * n, zero))
        if isinstance(library, Jax):
            return whole.at[flat].set(values).reshape(shapes[side])
        return whole.index_put((library.array(flat),), values).reshape(shapes[side])

    def found(x, y):
        A, B = operand(x, 0), operand(y, 1)
        if not has_mask:
            return matmul(A, B, semiring)
        pattern = library.sparse(library.array(np.zeros(mask[0].size)), *mask, (m, n), layouts[2])
        return library.stored(matmul(A, B, semiring, mask=pattern), *mask)

    def expected(x, y):
        C = matmul(dense(x, 0), dense(y, 1), semiring)
        return C[mask] if has_mask else C

    (C, slopes), (D, expected_slopes) = (library.pull_back(function, *arrays) for function in (found, expected))
    np.testing.assert_allclose(C, D, rtol=1e-12, atol=1e-12)
    for slope, other in zip(slopes, expected_slopes, strict=True):
        np.testing.assert_allclose(slope, other, rtol=1e-11, atol=1e-11)
    weights = np.random.default_rng(0).normal(size=C.shape)  # as `pull_back`
    if has_mask:
        weights, at_mask = np.zeros((m, n)), weights
        weights[mask] = at_mask
    whole = [np.asarray(dense(library.array(x), side).tolist()) for side, x in enumerate(arrays)]
    D, *differences = differentiate_by_differences(semiring, *whole, weights)
    np.testing.assert_allclose(C, D[mask] if has_mask else D, rtol=1e-12, atol=1e-12)
    for slope, other, ends in zip(slopes, differences, places, strict=True):
        np.testing.assert_allclose(slope, other[ends], rtol=1e-4, atol=1e-4)
    if has_ties and semiring != "plus_times":
        assert (zero == D).any()


def draw_repeated(rng):
    """Return unsorted places in a matrix (4, 5), of which most occur several times, and random values."""
    return np.stack([rng.integers(0, 4, 18), rng.integers(0, 5, 18)]), (18,), (2, 5, 3)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("by_column", [False, True])
@pytest.mark.parametrize("semiring", full(lambda semiring: semiring in FEW, NAMES))
def test_repeated_entries_and_values_by_column_by_finite_differences(semiring, by_column, device, rng):
    torch = pytest.importorskip("torch")
    from semiring.torch import spmm

    places, shape, whole = draw_repeated(rng)
    array = Torch(device).array
    places = array(places)
    values, B = (array(draw(rng, semiring, x)) for x in ((18, 3) if by_column else shape, whole))

    def multiply(values, B):
        return spmm(places, values, (4, 5), B, semiring)[:, places[0].unique()]

    leaves = values.requires_grad_(), B.requires_grad_()
    rounding = 0.0 if device == "cpu" else 1e-12  # the order of additions varies on a GPU
    assert torch.autograd.gradcheck(multiply, leaves, nondet_tol=rounding)
    assert torch.autograd.gradgradcheck(multiply, leaves, nondet_tol=rounding)
    if by_column:
        columns = [spmm(places, values[:, j], (4, 5), B[..., j : j + 1], semiring) for j in range(3)]
        torch.testing.assert_close(spmm(places, values, (4, 5), B, semiring), torch.cat(columns, -1))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("by_column", [False, True])
@pytest.mark.parametrize("semiring", ["min_plus", "log_plus", "plus_times"])
def test_arrays_of_jax_with_repeated_and_padded_entries_have_the_gradients_of_tensors(semiring, by_column, device, rng):
    jax, torch = pytest.importorskip("jax"), pytest.importorskip("torch")
    import semiring.jax as differentiable
    from semiring.torch import spmm

    with use_jax(device) as library:
        places, shape, whole = draw_repeated(rng)
        values, B = (draw(rng, semiring, x) for x in ((18, 3) if by_column else shape, whole))
        padded = np.concatenate([values, np.full_like(values[:2], np.nan)]), np.append(places, [[4, 4], [5, 5]], axis=1)

        def multiply(values, B):
            A = library.sparse(values, *padded[1], (4, 5, *values.shape[1:]))
            return differentiable.matmul(A, B, semiring)

        C, (by_values, by_matrix) = library.pull_back(multiply, padded[0], B)
        D, expected = Torch().pull_back(
            lambda values, B: spmm(torch.tensor(places), values, (4, 5), B, semiring), values, B
        )
        for found, other in ((C, D), (by_values[:-2], expected[0]), (by_matrix, expected[1])):
            np.testing.assert_allclose(found, other, rtol=1e-12, atol=1e-12)
        assert not by_values[-2:].any()

        def loss(values, B):
            C = multiply(values, B)
            return jax.numpy.where(jax.numpy.isfinite(C), jax.numpy.sin(C), 0).sum()

        slope, others = jax.grad(loss, (0, 1)), [(padded[0] * s, B * s) for s in (1.0, 0.5)]
        stacks = [np.stack(pair) for pair in zip(*others, strict=True)]
        for found, each in zip(zip(*jax.jit(jax.vmap(slope))(*stacks), strict=True), others, strict=True):
            for x, y in zip(found, slope(*map(jax.numpy.asarray, each)), strict=True):
                np.testing.assert_allclose(x, y, rtol=1e-12, atol=1e-12)
        if by_column:
            return
        # A repeated position of a mask is stored once, and under vmap each mask has its own product.
        A, mask = rng.random((3, 4, 5)), library.sparse(np.ones(18), *places, (4, 5))
        found = jax.vmap(lambda A: differentiable.matmul(A, A.T @ A, semiring, mask=mask).data)(A)
        for data, each in zip(found, A, strict=True):
            C = sr.matmul(each, each.T @ each, semiring)
            stored = np.full((4, 5), zero_of(semiring))
            for (i, j), value in zip(places.T, data, strict=True):
                stored[i, j] = sr.as_semiring(semiring).add(stored[i, j], value)
            np.testing.assert_allclose(stored, np.where(stored == zero_of(semiring), stored, C), rtol=1e-12)
            assert (stored != zero_of(semiring)).sum() == len(np.unique(places, axis=1).T)


@pytest.mark.filterwarnings("ignore:. stores some entries more than once")
@pytest.mark.parametrize("semiring", ["min_plus", "plus_times"])
def test_every_library_adds_repeated_entries_by_the_sum_of_the_semiring(semiring, rng):
    torch, jax = pytest.importorskip("torch"), pytest.importorskip("jax")
    from scipy.sparse import coo_array

    import semiring.jax as sj
    import semiring.torch as st

    (rows, columns), values, B = draw_repeated(rng)[0], rng.random(18), rng.random((5, 3))
    A = np.full((4, 5), zero_of(semiring))
    for i, j, value in zip(rows, columns, values, strict=True):
        A[i, j] = sr.as_semiring(semiring).add(A[i, j], value)
    expected, tensors, matrix = sr.matmul(A, B, semiring), Torch(), torch.tensor(B)
    A = tensors.sparse(torch.tensor(values), rows, columns, (4, 5))
    with jax.enable_x64(True):
        found = [sj.matmul(Jax().sparse(values, rows, columns, (4, 5)), B, semiring)]
    found += [sr.matmul(x, B, semiring) for x in (A, coo_array((values, (rows, columns)), shape=(4, 5)))]
    found += [st.matmul(A, matrix, semiring), st.spmm(A._indices(), A._values(), A.shape, matrix, semiring)]
    for C in found:
        np.testing.assert_allclose(C, expected, rtol=1e-14)
    A = A.requires_grad_()
    if semiring == "plus_times":
        st.matmul(A, matrix, semiring).sum().backward()
        np.testing.assert_allclose(A.grad.coalesce().values(), B.sum(1)[A.grad.coalesce().indices()[1]])
    else:
        with pytest.raises(ValueError, match=r"more than once.*A\.coalesce\(\).*semiring\.torch\.spmm"):
            st.matmul(A, matrix, semiring)


@pytest.mark.gpu
@pytest.mark.parametrize("form", [*FORMS, "by column"])
@pytest.mark.parametrize("semiring", FEW, ids=str)
def test_tensors_on_a_gpu_have_the_products_and_gradients_of_the_host(semiring, form, rng):
    torch, library = pytest.importorskip("torch"), Torch()
    sparse, shapes = [word == "sparse" for word in form.split()[:2]], [(40, 50), (50, 33)]
    places = [draw_places(rng, shape) for shape in (*shapes, (40, 33))]
    if form == "by column":
        places[0], arrays = rng.integers(0, 40, (2, 300)), [draw(rng, semiring, x) for x in ((300, 33), (2, 50, 33))]
    else:
        sizes = [place[0].size if own else shape for own, place, shape in zip(sparse, places, shapes, strict=False)]
        arrays = [draw(rng, semiring, size, has_ties=True) for size in sizes]

    def multiply(x, y, device):
        operands = [x.to(device), y.to(device)]
        if form == "by column":
            ends = torch.tensor(places[0], device=device)
            return library.functions.spmm(ends, operands[0], (40, 50), operands[1], semiring).cpu()
        for side, own in enumerate(sparse):
            if own:
                operands[side] = library.sparse(operands[side], *places[side], shapes[side], ("csr", "coo")[side])
        pattern = library.sparse(torch.zeros(places[2][0].size, device=device), *places[2], (40, 33))
        C = library.functions.matmul(*operands, semiring, mask=pattern if "mask" in form else None)
        return library.stored(C, *places[2]).cpu() if "mask" in form else C.cpu()

    if form != "by column" or semiring != GADGET:
        (C, slopes), (D, expected) = (
            library.pull_back(lambda x, y: multiply(x, y, device), *arrays)  # noqa: B023
            for device in ("cuda", "cpu")
        )
        for found, other in zip((C, *slopes), (D, *expected), strict=True):
            np.testing.assert_allclose(found, other, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("by_column", [False, True])
@pytest.mark.parametrize("semiring", ["max_times", "log_plus", "plus_times"])
def test_the_compiler_and_the_transforms_of_torch_func(semiring, by_column, device, rng):
    torch = pytest.importorskip("torch")
    from semiring.torch import matmul, spmm

    places, shape, whole = draw_repeated(rng)
    array = Torch(device).array
    values, B = (array(draw(rng, semiring, (3, *x))) for x in ((18, 3) if by_column else shape, whole))
    places = array(places)

    def loss(values, B):
        C = spmm(places, values, (4, 5), B, semiring)
        return torch.where(C.isfinite(), C.cos(), 0).sum()

    slope, each = torch.func.grad(loss, (0, 1)), range(3)
    expected = [slope(values[i], B[i]) for i in each]
    for in_dims, other in (((0, 0), expected), ((None, 0), [slope(values[0], B[i]) for i in each])):
        found = torch.func.vmap(slope, in_dims=in_dims)(values if in_dims[0] == 0 else values[0], B)
        torch.testing.assert_close(found, tuple(map(torch.stack, zip(*other, strict=True))))
    torch._dynamo.reset()
    compiled = torch.compile(loss, fullgraph=True, backend="aot_eager")
    leaves = values[0].requires_grad_(), B[0].requires_grad_()
    torch.testing.assert_close(torch.autograd.grad(compiled(*leaves), leaves), expected[0])
    A = torch.sparse_coo_tensor(places, values[0].detach(), (4, 5, *values.shape[2:])).coalesce()
    hybrid = matmul(A, B[0], semiring)
    torch.testing.assert_close(torch.func.vmap(lambda B: matmul(A, B, semiring))(B)[0], hybrid)
    torch.testing.assert_close(spmm(A.indices(), A.values(), (4, 5), B[0], semiring), hybrid)


def test_sparse_by_sparse_and_vectors(rng):
    torch = pytest.importorskip("torch")
    from semiring.torch import matmul

    tensors, vector = Torch(), torch.tensor(rng.random(6)).requires_grad_()
    rows, columns = draw_places(rng, (6, 6))
    values = torch.tensor(rng.random(rows.size)).requires_grad_()
    A = tensors.sparse(values, rows, columns, (6, 6), "csr")
    with pytest.raises(DTypeError, match="int64: pass truth values"):
        matmul(A, A, mask=torch.ones(6, 6, dtype=torch.int64))
    assert matmul(A, A, mask=torch.eye(6, dtype=torch.bool)).layout == torch.sparse_csr
    for semiring in ("min_plus", "log_plus"):
        whole = torch.full((6, 6), zero_of(semiring), dtype=torch.float64).index_put(
            (torch.tensor(rows), torch.tensor(columns)), values
        )
        C, D = matmul(A, A, semiring), matmul(whole, whole, semiring)
        assert C.layout == torch.sparse_csr
        stored = C.to_sparse_coo().coalesce()
        for found, expected in (
            (stored.values(), D[tuple(stored.indices())]),
            (matmul(A, vector, semiring)[:2], matmul(whole, vector, semiring)[:2]),
            (matmul(vector, A, semiring)[:2], matmul(vector, whole, semiring)[:2]),
        ):
            torch.testing.assert_close(found, expected)
            slopes = [torch.autograd.grad(x.sin().sum(), values, retain_graph=True) for x in (found, expected)]
            torch.testing.assert_close(*slopes)


def test_what_is_refused(library):
    array, functions = library.array, library.functions
    A, B = library.sparse(array(np.array([1.0, 2.0])), np.array([0, 1]), np.array([1, 0]), (2, 2)), array(np.eye(2))
    refused = [
        ((A, array(np.ones(3))), {}, ShapeError, "inner sizes 2 and 3 differ"),
        ((A, array(np.eye(2, dtype=np.float32))), {}, DTypeError, "float32"),
        ((A, B, sr.Semiring("shifted", "max(x, y)", "x + y + 1", 0, -1, domain=(0, 9))), {}, AlgebraError, "no sparse"),
        ((A * np.nan, B), {}, DomainError, r"A\[0, 1\] is nan"),
        ((B, B), {"mask": B}, (DTypeError, TypeError), "mask"),
        ((B[:1], B), {"mask": A}, ShapeError, "mask is"),
        ((B[None], B), {"mask": A}, ShapeError, "two matrices"),
    ]
    if isinstance(library, Jax):
        refused.append(((A, A), {}, TypeError, "pass mask="))
        refused = [
            (*call, kind if kind not in (DomainError, AlgebraError) else Exception, text)
            for *call, kind, text in refused
        ]
    else:
        wrong = array([[0], [2]])
        starts, one = array([0, 2, 1]), array(np.ones(1))
        falling = library.torch.sparse_csr_tensor(starts, wrong[0], one, (2, 2), check_invariants=False)
        refused.append(((falling, B), {}, ShapeError, "an index of A is"))
        refused.append(
            (
                (library.torch.sparse_coo_tensor(wrong, array(np.ones(1)), (2, 2), check_invariants=False), B),
                {},
                ShapeError,
                "outside its shape",
            )
        )
    for arguments, options, error, message in refused:
        with pytest.raises(error, match=message):
            functions.matmul(*arguments, **options)
    by_column = array(np.ones((2, 2)))
    for places in (([0, 1], [0, -1]), ([0, -1], [0, 1]), ([0, 1], [0, 7]), ([0, 5], [0, 1])):
        if not isinstance(library, Jax):
            with pytest.raises(ShapeError, match=r"an index of A is outside its shape \(2, 2\)"):
                functions.spmm(array(places), by_column, (2, 2), B)
        elif np.min(places) < 0:
            with pytest.raises(Exception, match="an index of A is negative"):
                functions.matmul(library.sparse(by_column, *map(np.array, places), (2, 2, 2)), B)


@pytest.mark.parametrize("by_column", [False, True])
@pytest.mark.parametrize("dtype", ["uint8", "int16"])
def test_indices_of_narrow_dtypes(library, dtype, by_column, rng):
    """The shape and the number of entries exceed the dtype of the indices."""
    rows, columns = rng.integers(0, 120, (2, 40_000 if dtype == "int16" else 300)).astype(dtype)
    values = rng.random((rows.size, 2) if by_column else rows.size)
    B, shape, found = rng.random((400, 2)), (300, 400), []
    for kind in (dtype, "int64"):
        places = [x.astype(kind) for x in (rows, columns)]
        if isinstance(library, Jax):
            A = library.sparse(library.array(values), *places, (*shape, *values.shape[1:]))
            found.append(np.asarray(library.functions.matmul(A, B)))
        else:
            indices = library.array(np.stack(places))
            C = library.functions.spmm(indices, library.array(values), shape, library.array(B))
            found.append(C.cpu().numpy())
    np.testing.assert_array_equal(*found)
    assert np.isfinite(found[0]).all(1).sum() == len(np.unique(rows))
