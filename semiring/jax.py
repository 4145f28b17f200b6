"""Products, closures, contractions and products along sequences of JAX arrays, with gradients.

The work is done on the host, by a callback: arrays on the CPU are read without a copy, those of a GPU travel. The
functions work under `jax.jit`, `jax.vmap` and `jax.grad`, and can be differentiated again and again, in reverse mode;
those of sequences once.
"""

# mypy: disallow-untyped-decorators=False
# (those of JAX)

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import prod
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from semiring.algebra import Semiring
from semiring.algebra.catalogue import as_semiring
from semiring.algebra.expressions import Expression
from semiring.algebra.expressions.tree import array_functions, is_half
from semiring.autodiff import forward, path_trees, scaled, sequences
from semiring.autodiff.rules import Rule, factors, rule_of
from semiring.errors import AlgebraError, DTypeError, MissingExtraError, ShapeError
from semiring.linalg.contraction.notation import read_notation, split_arguments
from semiring.linalg.contraction.orders import order_of
from semiring.linalg.contraction.steps import contract, prepare_terms
from semiring.linalg.elementwise import reduced_axes
from semiring.linalg.sequences import Given, arranged

try:
    import jax
except ImportError:
    raise MissingExtraError("JAX", "jax", "semiring.jax") from None
import jax.numpy as jnp

if TYPE_CHECKING:
    from jax import Array
else:
    Array: TypeAlias = Any

__all__ = ["closure", "einsum", "matmul", "multi_dot", "multi_dot_witness", "reduce", "scan"]


def matmul(A: Any, B: Any, semiring: Semiring | str = "min_plus", *, check: bool = True) -> Array:
    """C[i, j] = ⊕ₖ A[i, k] ⊗ B[k, j], differentiable by A and B.

    A (..., m, k), B (..., k, n) are arrays of one dtype; leading dimensions broadcast, a 1-D operand is one row (left)
    or one column (right), as in `jax.numpy.matmul`. The semiring is static under `jax.jit`. ``check`` looks for NaN and
    entries outside the domain.

    The gradient. For a selective ⊕ it flows to the one term that was selected, the smallest k where several tie,
    through the derivative of ⊗ there: a subgradient where terms tie. For log_plus and plus_times it is exact. An entry
    that is the zero (no path) has the gradient 0. Differentiating in another semiring raises `AlgebraError`.

    Raises `DTypeError`, `ShapeError`, and what `semiring.matmul` raises (wrapped by JAX: it happens in a callback).
    Costs m·k·n pairs, about twice the time with a gradient to come for a selective ⊕; backwards O(m·n) for a selective
    ⊕, two products else.

    >>> import jax
    >>> A = jax.numpy.array([[0.0, 3.0], [7.0, 1.0]])
    >>> jax.grad(lambda A, B: matmul(A, B, "min_plus").sum())(A, A).tolist()
    [[2.0, 0.0], [1.0, 1.0]]
    """
    A, B, algebra = jnp.asarray(A), jnp.asarray(B), as_semiring(semiring)
    _check_operands(A, B)
    dtype, A, B = A.dtype, _wide(A, algebra), _wide(B, algebra)
    left, right = A[None, :] if A.ndim == 1 else A, B[:, None] if B.ndim == 1 else B
    if left.shape[-1] != right.shape[-2]:
        raise ShapeError(f"A is {A.shape}, B is {B.shape}: inner sizes {left.shape[-1]} and {right.shape[-2]} differ")
    try:
        jnp.broadcast_shapes(left.shape[:-2], right.shape[:-2])
    except ValueError:
        raise ShapeError(f"A is {A.shape}, B is {B.shape}: their leading dimensions do not broadcast") from None
    rank = max(left.ndim, right.ndim)
    left, right = (x.reshape((1,) * (rank - x.ndim) + x.shape) for x in (left, right))
    result = _matmul(left, right, algebra, check).astype(dtype)
    if A.ndim == 1:
        result = result[..., 0, :]
    return result[..., 0] if B.ndim == 1 else result


def closure(A: Any, semiring: Semiring | str = "min_plus", *, reflexive: bool = True, check: bool = True) -> Array:
    """A* = I ⊕ A ⊕ A² ⊕ …, differentiable by A; with ``reflexive=False`` A⁺ = A ⊗ A*. In min-plus: all distances.

    A (..., n, n) is an array whose entries are the weights of edges, the semiring's zero where there is none.

    The gradient. For a selective ⊕ each entry is the product along one best path, and its gradient flows to the edges
    of that path: a subgradient where several are best. For log_plus and plus_times it is exact. Pairs without a path
    have the gradient 0, and so has the diagonal of A*, which is 1̄. Differentiating in another semiring raises
    `AlgebraError`.

    Raises `DTypeError`, `ShapeError`, and what `semiring.closure` raises (wrapped by JAX: it happens in a callback).
    Costs n³ pairs; backwards O(n²) for a selective ⊕, two products else.

    >>> import jax
    >>> inf = jax.numpy.inf
    >>> A = jax.numpy.array([[inf, 1.0, 9.0], [inf, inf, 2.0], [inf, inf, inf]])
    >>> jax.grad(lambda A: closure(A)[0, 2])(A).tolist()
    [[0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [0.0, 0.0, 0.0]]
    """
    A, semiring = jnp.asarray(A), as_semiring(semiring)
    if A.ndim < 2 or A.shape[-1] != A.shape[-2]:
        raise ShapeError(f"A is {A.shape}: a closure needs square matrices, shape (n, n) or (..., n, n)")
    if not jnp.issubdtype(A.dtype, jnp.floating):
        return _closure(A, semiring, reflexive, check, "")
    dtype, A = A.dtype, _wide(A, semiring)
    result = _closure(A, semiring, True, check, "" if A.dtype == dtype else dtype.name)
    if not reflexive:
        result = _cycles(A, result, semiring)
    return result.astype(dtype)


def _cycles(A: Array, closed: Array, semiring: Semiring) -> Array:
    """A⁺ from A*. For a selective ⊕ they differ on the diagonal alone, where the empty path is one."""
    if not semiring.selective:
        return matmul(A, closed, semiring, check=False)
    loops = matmul(closed[..., None, :], jnp.swapaxes(A, -1, -2)[..., None], semiring, check=False)
    return jnp.where(jnp.eye(A.shape[-1], dtype=bool), loops[..., 0], closed)


def multi_dot(
    As: Any,
    x: Any = None,
    semiring: Semiring | str = "min_plus",
    *,
    weights: Any = None,
    lengths: Any = None,
    steps: int | None = None,
    check: bool = True,
) -> Array:
    """A₁ ⊗ A₂ ⊗ … ⊗ A_T, or x ⊗ A₁ ⊗ … ⊗ A_T, differentiable by As, x and the weights: see `semiring.multi_dot`.

    As (T, ..., n, n), or (n, n) for all steps; x (..., n); weights (T, ..., n), by which the entries are multiplied
    after each step; lengths (...), how many of the steps a sequence takes. The result is (..., n), or (..., n, n).

    The gradient is that of `matmul`, through all steps, and can be taken once. It has memory for √T vectors beside what
    is given and returned: those between are computed again.

    Raises what `matmul` and `semiring.multi_dot` raise. Costs T products with the vectors; with a gradient another
    T, and T·2 backwards.

    >>> import jax
    >>> A = jax.numpy.array([[0.5, 1.0], [2.0, 0.0]])
    >>> jax.grad(lambda A: multi_dot(A, jax.numpy.zeros(2), "max_plus", steps=3).max())(A).tolist()
    [[0.0, 1.0], [2.0, 0.0]]
    """
    given, steps = _sequence(As, x, as_semiring(semiring), weights, lengths, steps)
    return _multi_dot(given, steps, as_semiring(semiring), check).astype(jnp.asarray(As).dtype)


def scan(
    As: Any,
    x: Any = None,
    semiring: Semiring | str = "min_plus",
    *,
    weights: Any = None,
    lengths: Any = None,
    steps: int | None = None,
    check: bool = True,
) -> Array:
    """All prefixes of `multi_dot`, (T, ..., n), without x (T, ..., n, n), with gradients: see `semiring.scan`.

    Beyond the length of a sequence its last state is repeated. Parameters, gradient, errors and cost as in `multi_dot`.

    >>> import jax
    >>> scan(jax.numpy.array([[1.0, 5.0], [2.0, 1.0]]), jax.numpy.array([0.0, 9.0]), steps=3).tolist()
    [[1.0, 5.0], [2.0, 6.0], [3.0, 7.0]]
    """
    given, steps = _sequence(As, x, as_semiring(semiring), weights, lengths, steps)
    return jnp.moveaxis(_scan(given, steps, as_semiring(semiring), check), -2, 0).astype(jnp.asarray(As).dtype)


def multi_dot_witness(
    As: Any,
    x: Any,
    semiring: Semiring | str = "min_plus",
    *,
    weights: Any = None,
    lengths: Any = None,
    steps: int | None = None,
    check: bool = True,
) -> tuple[Array, Array]:
    """`multi_dot` with an x, and the best path to each state, (C, W) as in `semiring.multi_dot_witness`.

    W (T, ..., n) int32 are the states before the steps. C is differentiable as that of `multi_dot`, which computes it
    again. Operands and errors as there, and `AlgebraError` where ⊕ is not selective.

    >>> import jax
    >>> A, x = jax.numpy.array([[0.0, 5.0], [1.0, 0.0]]), jax.numpy.array([0.0, 9.0])
    >>> score, states = jax.jit(lambda A: multi_dot_witness(A, x, "max_plus", steps=3))(A)
    >>> score.tolist(), states[:, score.argmax()].tolist()
    ([16.0, 15.0], [1, 0, 1])
    """
    algebra = as_semiring(semiring)
    if not algebra.selective:
        raise AlgebraError(f"{algebra.name} has no witnesses: x ⊕ y is not always one of x and y")
    given, steps = _sequence(As, jnp.asarray(x), algebra, weights, lengths, steps)
    shape = jax.ShapeDtypeStruct((*_batch(given), steps, given.x.shape[-1]), np.int32)
    W = _on_host(sequences.attained, shape, (jax.lax.stop_gradient(given),), steps, algebra, check)
    return _multi_dot(given, steps, algebra, check).astype(jnp.asarray(As).dtype), jnp.moveaxis(W, -2, 0)


def reduce(
    A: Any,
    semiring: Semiring | str = "min_plus",
    axis: int | tuple[int, ...] | None = None,
    *,
    keepdims: bool = False,
    check: bool = True,
) -> Array:
    """The ⊕ of all entries, or along one axis or several, differentiable by A: see `semiring.reduce`.

    It is the product with a vector of ones, and so is its gradient: that of `matmul`.

    >>> import jax
    >>> A = jax.numpy.array([[3.0, 1.0], [2.0, 5.0]])
    >>> jax.grad(lambda A: reduce(A, "max_plus", axis=0).sum())(A).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    A, semiring = jnp.asarray(A), as_semiring(semiring)
    axes = reduced_axes(axis, A.ndim)
    kept = [size for place, size in enumerate(A.shape) if place not in axes]
    lines = jnp.moveaxis(A, axes, tuple(range(A.ndim - len(axes), A.ndim)))
    lines = lines.reshape(prod(kept), prod(A.shape[place] for place in axes))
    ones = jnp.full(lines.shape[1:], semiring.one_for(A.dtype), A.dtype)
    shape = [1 if place in axes else size for place, size in enumerate(A.shape)] if keepdims else kept
    return matmul(lines, ones, semiring, check=check).reshape(shape)


def einsum(
    subscripts: Any,
    *operands: Any,
    semiring: Semiring | str = "min_plus",
    optimize: Any = "auto",
    check: bool = True,
) -> Array:
    """Return a sum of products of arrays, differentiable by each of them: see `semiring.einsum`.

    The operands are arrays of one dtype. Subscripts, ``optimize`` and errors are as in `semiring.einsum`. They and the
    semiring are static under `jax.jit`, and the order is found when the function is traced. The gradient is that of
    `matmul`, through all pairwise contractions. ``check`` looks at the entries that enter a product or a sum.

    >>> import jax
    >>> A, x = jax.numpy.array([[0.0, 3.0], [7.0, 1.0]]), jax.numpy.array([1.0, 5.0])
    >>> jax.grad(lambda A: einsum("i,ij->", x, A, semiring="max_plus"))(A).tolist()
    [[0.0, 0.0], [1.0, 0.0]]
    """
    form, given = split_arguments((subscripts, *operands))
    if not given:
        raise TypeError("einsum takes at least one operand, as in einsum('ij->i', A)")
    algebra, arrays = as_semiring(semiring), [jnp.asarray(x) for x in given]
    for place, array in enumerate(arrays):
        if array.dtype != arrays[0].dtype:
            raise DTypeError(f"operand 0 has dtype {arrays[0].dtype}, operand {place} {array.dtype}: convert one")
    dtype, arrays = arrays[0].dtype, [_wide(array, algebra) for array in arrays]
    notation, sizes = read_notation(form, tuple(array.shape for array in arrays))
    path = order_of(notation, sizes, optimize, len(given) < 3 or algebra.commutative).path
    ops = _TermOperations(algebra, check)
    result: Array = contract(ops, prepare_terms(ops, notation, sizes, arrays), path, notation.output)
    return result.astype(dtype)


class _TermOperations:
    """`semiring.linalg.contraction.steps.TermOperations` on JAX arrays, by differentiable functions alone."""

    def __init__(self, semiring: Semiring, check: bool) -> None:
        self.semiring, self.check = semiring, check

    def strides(self, x: Array) -> tuple[int, ...]:
        return tuple(prod(x.shape[axis + 1 :]) for axis in range(x.ndim))

    def diagonal(self, x: Array, first: int, second: int) -> Array:
        return jnp.diagonal(x, 0, first, second)

    def group_axes(self, x: Array, groups: Any) -> Array:
        shape = [prod(x.shape[axis] for axis in group) for group in groups]
        return jnp.transpose(x, [axis for group in groups for axis in group]).reshape(shape)

    def reshape(self, x: Array, shape: Any) -> Array:
        return x.reshape(tuple(shape))

    def align(self, x: Array, axes: Any) -> Array:
        view = jnp.transpose(x, [axis for axis in axes if axis is not None])
        return view[tuple(None if axis is None else slice(None) for axis in axes)] if None in axes else view

    def product(self, left: Array, right: Array, names: Any) -> Array:
        return matmul(left, right, self.semiring, check=self.check)

    def entrywise(self, left: Array, right: Array, names: Any) -> Array:
        return _multiply(left, right, self.semiring, self.check)

    def sum_axes(self, x: Array, axes: Any, name: str) -> None:
        """Return None: a sum is a product with ones, as in `reduce`."""

    def ones(self, x: Array, shape: tuple[int, int]) -> Array:
        return jnp.full(shape, self.semiring.one_for(x.dtype), x.dtype)

    def verify(self, x: Array, name: str) -> None:
        """Do nothing: entries that enter no product and no sum are handed back as they are."""


def _sequence(As: Any, x: Any, semiring: Semiring, weights: Any, lengths: Any, steps: int | None) -> tuple[Given, int]:
    """What the functions of sequences take, and how many steps there are."""
    As, square = jnp.asarray(As), x is None
    if x is None:
        n = As.shape[-1] if As.ndim else 0
        x = jnp.where(jnp.eye(n, dtype=bool), semiring.one_for(As.dtype), semiring.zero_for(As.dtype))
    x = jnp.asarray(x)
    _same_dtype(As, x=x)
    if weights is not None:
        weights = jnp.asarray(weights)
        _same_dtype(As, weights=weights)
    As, x, weights = (array if array is None else _wide(array, semiring) for array in (As, x, weights))
    if lengths is not None:
        lengths = jnp.asarray(lengths)
        if not jnp.issubdtype(lengths.dtype, jnp.integer):
            raise DTypeError(f"lengths has dtype {lengths.dtype}: lengths are whole numbers of steps")
    *arrays, steps = arranged(jnp, As, x, weights, lengths, steps, square=square)
    return Given(*arrays), steps


def _same_dtype(As: Array, **named: Array) -> None:
    for name, array in named.items():
        if array.dtype != As.dtype:
            raise DTypeError(f"As has dtype {As.dtype}, {name} {array.dtype}: convert one, {name}.astype(As.dtype)")


def _check_operands(A: Array, B: Array) -> None:
    if not A.ndim or not B.ndim:
        raise ShapeError(f"A is {A.shape}, B is {B.shape}: a scalar is no operand of a product")
    if A.dtype != B.dtype:
        raise DTypeError(f"A has dtype {A.dtype}, B {B.dtype}: convert one, B.astype(A.dtype)")


def _wide(x: Array, semiring: Semiring) -> Array:
    """Halves in float32: what is computed of them is rounded once. See `semiring.arrays.encoding.is_rounded`."""
    return x.astype(jnp.float32) if is_half(x.dtype) and semiring.supports(np.float32) else x


def _on_host(function: Callable[..., Any], shapes: Any, arrays: tuple[Any, ...], *others: Any) -> Any:
    """The function on NumPy views of arrays, or tuples of some, as many leading dimensions each; ``vmap`` adds one."""

    def call(*values: Any) -> Any:
        return function(*jax.tree.map(np.asarray, values), *others)

    return jax.pure_callback(call, shapes, *arrays, vmap_method="broadcast_all")


def _transposed(x: Array) -> Array:
    return jnp.swapaxes(x, -1, -2)


def _summed_to(x: Array, shape: tuple[int, ...]) -> Array:
    """The sum over the dimensions that ``shape`` has broadcast to that of x; both have as many."""
    axes = tuple(axis for axis, size in enumerate(shape) if size == 1 and x.shape[axis] != 1)
    return x.sum(axes, keepdims=True)


# ---------------------------------------------------------------------------------------------------------- products


def _product_shape(A: Array, B: Array) -> tuple[int, ...]:
    return (*jnp.broadcast_shapes(A.shape[:-2], B.shape[:-2]), A.shape[-2], B.shape[-1])


@partial(jax.custom_vjp, nondiff_argnums=(2, 3))
def _matmul(A: Array, B: Array, semiring: Semiring, check: bool) -> Array:
    """A ⊗ B for A (..., m, k), B (..., k, n) of the same number of dimensions."""
    shape = jax.ShapeDtypeStruct(_product_shape(A, B), A.dtype)
    return _on_host(forward.product, shape, (A, B), semiring, check)


@partial(jax.custom_vjp, nondiff_argnums=(2, 3))
def _matmul_witness(A: Array, B: Array, semiring: Semiring, check: bool) -> tuple[Array, Array]:
    """A ⊗ B and its int32 witness, for a selective ⊕."""
    shape = _product_shape(A, B)
    shapes = jax.ShapeDtypeStruct(shape, A.dtype), jax.ShapeDtypeStruct(shape, np.int32)
    result: tuple[Array, Array] = _on_host(forward.product_with_witness, shapes, (A, B), semiring, check)
    return result


def _matmul_forward(A: Array, B: Array, semiring: Semiring, check: bool) -> tuple[Array, Any]:
    if rule_of(semiring) == "selective":
        C, W = _matmul_witness(A, B, semiring, check)
        return C, (A, B, W)
    C = _matmul(A, B, semiring, check)
    return C, (A, B, C)


def _matmul_backward(semiring: Semiring, check: bool, kept: Any, g: Array) -> tuple[Array, Array]:
    A, B, C = kept
    rule = rule_of(semiring)
    if rule == "selective":
        return _selected_backward(semiring, A, B, C, g)
    if rule == "plus_times":
        dA, dB = g @ _transposed(B), _transposed(A) @ g
    else:  # exp(A[i, k] + B[k, j] - C[i, j])
        A_, B_ = (jnp.broadcast_to(x, (*C.shape[:-2], *x.shape[-2:])) for x in (A, B))
        minus, left, right = _negated(C), _transposed(A_), _transposed(B_)
        dA = _scaled_product(g, minus, jnp.ones_like(right), right, A_)
        dB = _scaled_product(jnp.ones_like(left), left, g, minus, B_)
    return _summed_to(dA, A.shape), _summed_to(dB, B.shape)


def _negated(C: Array) -> Array:
    """The exponents -C, of weights that are 0 where there is no path."""
    return jnp.where(jnp.isneginf(C), -jnp.inf, -C)


def _witness_forward(A: Array, B: Array, semiring: Semiring, check: bool) -> tuple[Any, Any]:
    C, W = _matmul_witness(A, B, semiring, check)
    return (C, W), (A, B, W)


def _witness_backward(semiring: Semiring, check: bool, kept: Any, g: Any) -> tuple[Array, Array]:
    A, B, W = kept
    return _selected_backward(semiring, A, B, W, g[0])


def _selected_backward(semiring: Semiring, A: Array, B: Array, W: Array, g: Array) -> tuple[Array, Array]:
    if not A.shape[-1]:  # sums of no terms
        return jnp.zeros_like(A), jnp.zeros_like(B)
    da, db = _selected(semiring, A, B, W)
    return _scatter(jnp.where(W >= 0, g * da, 0), W, -1, A), _scatter(jnp.where(W >= 0, g * db, 0), W, -2, B)


def _selected(semiring: Semiring, A: Array, B: Array, W: Array) -> tuple[Any, Any]:
    """The derivatives of A[i, w] ⊗ B[w, j] by both, at w = W[i, j] ≥ 0: arrays (..., m, n), or numbers."""
    by_x, by_y = factors(semiring)
    values = {}
    for name, operand, axis in (("x", A, -1), ("y", B, -2)):
        if name in by_x.variables | by_y.variables:
            whole = jnp.broadcast_to(operand, (*W.shape[:-2], *operand.shape[-2:]))
            gathered = jnp.take_along_axis(whole, jnp.maximum(W, 0), axis=axis)
            values[name] = jnp.where(W >= 0, gathered, 1)  # derivatives of a place that is not used are not NaN
    return _evaluate(by_x, values), _evaluate(by_y, values)


def _evaluate(expression: Expression, values: dict[str, Array]) -> Any:
    if not expression.variables:
        return float(expression.evaluate({}, np.dtype(np.float64)))
    dtype, functions = next(iter(values.values())).dtype, array_functions(jnp)

    def leaf(node: Expression) -> Array:
        return values[str(node.leaf)] if node.op == "var" else jnp.asarray(node.leaf, dtype)

    return expression.fold(leaf, lambda node, args: functions[node.op](*args))


def _scatter(terms: Array, W: Array, axis: int, operand: Array) -> Array:
    """The sums of the terms that came from the same entry of the operand: the transpose of its gather."""
    indices = list(jnp.indices(terms.shape, sparse=True))
    indices[axis] = jnp.maximum(W, 0)
    shape = (*terms.shape[:-2], *operand.shape[-2:])
    return _summed_to(jnp.zeros(shape, terms.dtype).at[tuple(indices)].add(terms), operand.shape)


@partial(jax.custom_vjp, nondiff_argnums=(2, 3))
def _multiply(A: Array, B: Array, semiring: Semiring, check: bool) -> Array:
    """Return A ⊗ B entry by entry, of arrays with as many dimensions that broadcast."""
    shape = jax.ShapeDtypeStruct(jnp.broadcast_shapes(A.shape, B.shape), A.dtype)
    return _on_host(forward.entrywise, shape, (A, B), semiring, check)


def _multiply_forward(A: Array, B: Array, semiring: Semiring, check: bool) -> tuple[Array, Any]:
    rule_of(semiring)
    C = _multiply(A, B, semiring, check)
    return C, (A, B, C)


def _multiply_backward(semiring: Semiring, check: bool, kept: Any, g: Array) -> tuple[Array, Array]:
    A, B, C = kept
    # An entry that is 0̄ has no gradient, as in `matmul`; 0 of plus_times is a number like others.
    there = jnp.ones(C.shape, bool) if rule_of(semiring) == "plus_times" else semiring.zero_for(C.dtype) != C
    values = {name: jnp.where(there, operand, 1) for name, operand in (("x", A), ("y", B))}
    dA, dB = (jnp.where(there, g * _evaluate(factor, values), 0) for factor in factors(semiring))
    return _summed_to(dA, A.shape), _summed_to(dB, B.shape)


_multiply.defvjp(_multiply_forward, _multiply_backward)
_matmul.defvjp(_matmul_forward, _matmul_backward)
_matmul_witness.defvjp(_witness_forward, _witness_backward)


# ---------------------------------------------------------------------------------------------------------- closures


@partial(jax.custom_vjp, nondiff_argnums=(1, 2, 3, 4))
def _closure(A: Array, semiring: Semiring, reflexive: bool, check: bool, rounded_to: str) -> Array:
    """A*, or A⁺, for A (..., n, n). Gradients: A* only. ``rounded_to`` as in `forward.closed`."""
    shape = jax.ShapeDtypeStruct(A.shape, A.dtype)
    return _on_host(forward.closed, shape, (A,), semiring, reflexive, check, rounded_to)


@partial(jax.custom_vjp, nondiff_argnums=(1, 2, 3))
def _closure_trees(A: Array, semiring: Semiring, check: bool, rounded_to: str) -> tuple[Array, Array]:
    """A* and its int32 predecessors, for a selective ⊕."""
    shapes = jax.ShapeDtypeStruct(A.shape, A.dtype), jax.ShapeDtypeStruct(A.shape, np.int32)
    result: tuple[Array, Array] = _on_host(forward.closed_with_trees, shapes, (A,), semiring, check, rounded_to)
    return result


def _closure_forward(A: Array, semiring: Semiring, reflexive: bool, check: bool, rounded_to: str) -> tuple[Array, Any]:
    if rule_of(semiring) == "selective":
        D, pred = _closure_trees(A, semiring, check, rounded_to)
        return D, (A, D, pred)
    S = _closure(A, semiring, reflexive, check, rounded_to)
    return S, (A, S)


def _closure_backward(
    semiring: Semiring, reflexive: bool, check: bool, rounded_to: str, kept: Any, g: Array
) -> tuple[Array]:
    rule: Rule = rule_of(semiring)
    if rule == "selective":
        return _trees_backward(semiring, check, rounded_to, kept, (g, None))
    A, S = kept
    back = _transposed(S)
    if rule == "plus_times":
        return (back @ g @ back,)
    # exp(S[i, k] + A[k, l] + S[l, j] - S[i, j]): first the sum over i, of what flows over k to j, then that over j.
    ones, minus = jnp.ones_like(S), _negated(S)
    through = _scaled_product(ones, back, g, minus, S)
    return (_scaled_product(through, minus, ones, back, A),)


def _trees_forward(A: Array, semiring: Semiring, check: bool, rounded_to: str) -> tuple[Any, Any]:
    D, pred = _closure_trees(A, semiring, check, rounded_to)
    return (D, pred), (A, D, pred)


def _trees_backward(semiring: Semiring, check: bool, rounded_to: str, kept: Any, g: Any) -> tuple[Array]:
    A, D, pred = kept
    dx, dy = _selected(semiring, D, A, pred)
    factor = jnp.where(pred >= 0, dx, 0).astype(A.dtype)
    below = _sums_up(factor, g[0], pred)
    return (_scatter(jnp.where(pred >= 0, below * dy, 0), pred, -2, A),)


_closure.defvjp(_closure_forward, _closure_backward)
_closure_trees.defvjp(_trees_forward, _trees_backward)


# ----------------------------------------------------------------------------------------------------------- sequences


def _batch(given: Given) -> tuple[int, ...]:
    return jnp.broadcast_shapes(*given.batches)


@partial(jax.custom_vjp, nondiff_argnums=(1, 2, 3))
def _scan(given: Given, steps: int, semiring: Semiring, check: bool) -> Array:
    """The states after every step, (..., steps, n)."""
    shape = jax.ShapeDtypeStruct((*_batch(given), steps, given.x.shape[-1]), given.x.dtype)
    return _on_host(sequences.scanned, shape, (given,), steps, semiring, check)


@partial(jax.custom_vjp, nondiff_argnums=(1, 2, 3))
def _multi_dot(given: Given, steps: int, semiring: Semiring, check: bool) -> Array:
    """The state after the last step, (..., n)."""
    return _ended(given, steps, semiring, check)[0]


def _ended(given: Given, steps: int, semiring: Semiring, check: bool) -> Any:
    """The state after the last step, (..., n), and what is kept for the gradient."""
    batch, x = _batch(given), given.x
    kept = sequences.lines(semiring, given.A.shape, batch, x.shape[-1], steps, x.dtype.name, True)
    shapes = ((*batch, x.shape[-1]), (*batch, kept, x.shape[-1]))
    structs = tuple(jax.ShapeDtypeStruct(shape, x.dtype) for shape in shapes)
    return _on_host(sequences.ended, structs, (given,), steps, semiring, check, kept)


def _scan_forward(given: Given, steps: int, semiring: Semiring, check: bool) -> tuple[Array, Any]:
    rule_of(semiring)
    X = _scan(given, steps, semiring, check)
    return X, (given, X)


def _multi_dot_forward(given: Given, steps: int, semiring: Semiring, check: bool) -> tuple[Array, Any]:
    rule_of(semiring)
    end, borders = _ended(given, steps, semiring, check)
    return end, (given, borders)


def _scan_backward(steps: int, semiring: Semiring, check: bool, kept: Any, g: Array) -> tuple[Given]:
    given, X = kept
    first = jnp.broadcast_to(given.x, (*X.shape[:-2], given.x.shape[-1]))[..., None, :]
    firsts = np.array([run.start - 1 for run in sequences.segments(steps)[1:]], int)
    borders = jnp.concatenate([first, X[..., firsts, :]], axis=-2)
    return _pulled(given, borders, g, steps, semiring)


def _multi_dot_backward(steps: int, semiring: Semiring, check: bool, kept: Any, g: Array) -> tuple[Given]:
    given, borders = kept
    return _pulled(given, borders, g[..., None, :], steps, semiring)


def _pulled(given: Given, borders: Array, g: Array, steps: int, semiring: Semiring) -> tuple[Given]:
    arrays = [array for array in given[:3] if array is not None]
    structs = tuple(jax.ShapeDtypeStruct(array.shape, array.dtype) for array in arrays)

    def gradients(given: Given, borders: Any, g: Any) -> Any:
        return sequences.pulled(given, borders, g, steps, semiring)[: len(structs)]

    return (Given(*_on_host(gradients, structs, (given, borders, g))),)


_scan.defvjp(_scan_forward, _scan_backward)
_multi_dot.defvjp(_multi_dot_forward, _multi_dot_backward)


# ------------------------------------------------------------------------------------------ what backward passes need


@jax.custom_vjp
def _scaled_product(X: Array, alpha: Array, Y: Array, beta: Array, gamma: Array) -> Array:
    """`semiring.autodiff.scaled.scaled_product`."""
    shape = jax.ShapeDtypeStruct(gamma.shape, gamma.dtype)
    return _on_host(scaled.scaled_product, shape, (X, alpha, Y, beta, gamma))


def _scaled_forward(X: Array, alpha: Array, Y: Array, beta: Array, gamma: Array) -> tuple[Array, Any]:
    R = _scaled_product(X, alpha, Y, beta, gamma)
    return R, (X, alpha, Y, beta, gamma, R)


def _scaled_backward(kept: Any, g: Array) -> tuple[Array, ...]:
    X, alpha, Y, beta, gamma, R = kept
    dX = _scaled_product(g, gamma, _transposed(Y), _transposed(beta), alpha)
    dY = _scaled_product(_transposed(X), _transposed(alpha), g, gamma, beta)
    return dX, X * dX, dY, Y * dY, g * R


_scaled_product.defvjp(_scaled_forward, _scaled_backward)


@jax.custom_vjp
def _sums_up(c: Array, g: Array, pred: Array) -> Array:
    """`semiring.autodiff.path_trees.sums_up`."""
    return _on_host(path_trees.sums_up, jax.ShapeDtypeStruct(g.shape, g.dtype), (c, g, pred))


@jax.custom_vjp
def _sums_down(c: Array, x: Array, pred: Array) -> Array:
    """`semiring.autodiff.path_trees.sums_down`."""
    return _on_host(path_trees.sums_down, jax.ShapeDtypeStruct(x.shape, x.dtype), (c, x, pred))


def _sums_up_forward(c: Array, g: Array, pred: Array) -> tuple[Array, Any]:
    z = _sums_up(c, g, pred)
    return z, (c, pred, z)


def _sums_down_forward(c: Array, x: Array, pred: Array) -> tuple[Array, Any]:
    y = _sums_down(c, x, pred)
    return y, (c, pred, y)


def _sums_up_backward(kept: Any, g: Array) -> tuple[Array, Array, None]:
    c, pred, z = kept
    y = _sums_down(c, g, pred)
    return _by_factors(z, y, pred), y, None


def _sums_down_backward(kept: Any, g: Array) -> tuple[Array, Array, None]:
    c, pred, y = kept
    z = _sums_up(c, g, pred)
    return _by_factors(z, y, pred), z, None


def _by_factors(z: Array, y: Array, pred: Array) -> Array:
    """The gradient by c[i, j] of both sums: y[i, p]·z[i, j], for the predecessor p ≠ i of j."""
    root = jnp.arange(pred.shape[-1])[:, None]
    before = jnp.take_along_axis(y, jnp.maximum(pred, 0), axis=-1)
    return jnp.where((pred >= 0) & (pred != root), before * z, 0)


_sums_up.defvjp(_sums_up_forward, _sums_up_backward)
_sums_down.defvjp(_sums_down_forward, _sums_down_backward)
