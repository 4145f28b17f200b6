"""Compute products, closures, contractions and products along sequences of JAX arrays, with gradients.

XLA calls the kernels of the library directly, on CPUs and NVIDIA GPUs: arrays stay where they are, and on a GPU the
work is enqueued on XLA's stream. On other platforms a callback computes on the host; ``semiring info`` says which of
the two is used. The functions work under `jax.jit`, `jax.vmap`, `jax.shard_map` and `jax.grad`. They can be
differentiated any number of times, in reverse mode. The functions of sequences (`multi_dot`, `scan`)
can be differentiated once.

``check`` validates the entries: no NaN, and none outside the domain. By default this happens on the host alone, because
on a GPU the host would have to wait for the result. ``check=True`` waits.
"""

# mypy: disallow-untyped-decorators=False
# The decorators of JAX have no types.

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypedDict, Unpack, overload

import numpy as np

from semiring.algebra import Semiring
from semiring.algebra.catalogue import as_semiring
from semiring.algebra.expressions.tree import is_half
from semiring.arrays.tensors import is_sparse_tensor
from semiring.autodiff import sequence_gradients
from semiring.autodiff.primitives import PRIMITIVES, ArrayLibrary, Primitive
from semiring.autodiff.rules import refuse_explain
from semiring.autodiff.xla import CHECK_ON_HOST, call
from semiring.errors import DTypeError, MissingExtraError, ShapeError, inner_size_error
from semiring.linalg.contraction.notation import read_notation, split_arguments
from semiring.linalg.contraction.orders import find_order
from semiring.linalg.contraction.steps import contract, prepare_terms
from semiring.linalg.elementwise import reduced_axes
from semiring.linalg.products import demand_selective
from semiring.linalg.sequences import ChainArrays, arrange_chain

try:
    import jax
except ImportError:
    raise MissingExtraError("JAX", "jax", "semiring.jax") from None
import jax.numpy as jnp

if TYPE_CHECKING:
    from jax import Array
else:
    Array: TypeAlias = Any

__all__ = ["closure", "einsum", "matmul", "multi_dot", "reduce", "scan"]


@refuse_explain
def matmul(
    A: Any, B: Any, semiring: Semiring | str | None = None, *, mask: Any = None, check: bool | None = None
) -> Any:
    """Return the product C[i, j] = ⊕ₖ A[i, k] ⊗ B[k, j], differentiable by A and B.

    Parameters
    ----------
    A, B : array_like, shapes (..., m, k) and (..., k, n)
        Arrays of one dtype. Leading dimensions broadcast. A 1-D operand is one row (left) or one column (right), as in
        `jax.numpy.matmul`. Each may be a BCOO matrix. What it does not store is the zero, ⊕ adds entries that are
        stored twice, and positions beyond the shape are no entries. A BCOO array A of the shape (m, k, n), whose data
        are (nse, n), has a value for each column of B: then C[i, j] = ⊕ₖ A[i, k, j] ⊗ B[k, j].
    semiring : Semiring or str, optional
        A `Semiring` or the name of one in the catalogue. It is static under `jax.jit`. The default is min-plus.
    mask : BCOO, shape (m, n), optional
        Only the entries that it stores are computed, of two matrices. Two BCOO operands need it, because the size of
        their product depends on the entries.
    check : bool, optional
        Scan for NaN and entries outside the domain, by default on the host alone.

    Returns
    -------
    jax.Array, shape (..., m, n)
        The product, in the dtype of A and B. A 1-D operand has no dimension in it. With a mask it is a BCOO array with
        the indices of the mask. Where no pair of entries meets, and where the mask repeats a position, it stores the
        zero.

    Raises
    ------
    ShapeError
        If an operand is a scalar, or the shapes do not fit.
    DTypeError
        If the dtypes differ.
    TypeError
        If both operands are BCOO arrays and there is no mask, or the mask is no BCOO array.
    AlgebraError
        For a gradient in a semiring that has none.
    DomainError, IntegerOverflowError
        As in `semiring.matmul`. These errors, and that for a dtype on which the semiring is not defined, occur inside
        XLA. JAX wraps them: it raises its own error with their names and messages.

    Notes
    -----
    For a selective ⊕ the gradient flows to the one term that was selected, the smallest k if several tie, through the
    derivative of ⊗ there. It is a subgradient if terms tie. For log_plus and plus_times it is exact. An entry that is
    the zero (no path) has the gradient 0.

    It costs m·k·n pairs. For a selective ⊕ it takes about twice the time under a gradient. The backward pass costs
    O(m·n) for a selective ⊕, and two products for log_plus and plus_times. BCOO operands cost the pairs of their
    entries, and are differentiable by their data, as `semiring.torch.matmul`.

    Examples
    --------
    >>> import jax
    >>> A = jax.numpy.array([[0.0, 3.0], [7.0, 1.0]])
    >>> jax.grad(lambda A, B: matmul(A, B, "min_plus").sum())(A, A).tolist()
    [[2.0, 0.0], [1.0, 1.0]]
    """
    algebra = as_semiring(semiring)
    if mask is not None or is_sparse_tensor(A) or is_sparse_tensor(B):
        return _sparse_matmul(A, B, algebra, mask, check)
    A, B = jnp.asarray(A), jnp.asarray(B)
    _check_operands(A, B)
    dtype, A, B = A.dtype, _to_float32(A, algebra), _to_float32(B, algebra)
    left, right = A[None, :] if A.ndim == 1 else A, B[:, None] if B.ndim == 1 else B
    if left.shape[-1] != right.shape[-2]:
        raise inner_size_error(A.shape, B.shape)
    try:
        jnp.broadcast_shapes(left.shape[:-2], right.shape[:-2])
    except ValueError:
        raise ShapeError(f"A is {A.shape}, B is {B.shape}: their leading dimensions do not broadcast") from None
    rank = max(left.ndim, right.ndim)
    left, right = (x.reshape((1,) * (rank - x.ndim) + x.shape) for x in (left, right))
    result = _matmul(left, right, algebra, _check_argument(check)).astype(dtype)
    if A.ndim == 1:
        result = result[..., 0, :]
    return result[..., 0] if B.ndim == 1 else result


def _sparse_matmul(A: Any, B: Any, semiring: Semiring, mask: Any, check: bool | None) -> Any:
    """Return A ⊗ B for a BCOO operand or mask, differentiable by its data and by dense operands."""
    A, B = (x if is_sparse_tensor(x) else jnp.asarray(x) for x in (A, B))
    (left, P), (right, Q) = _read_entries(A, "A"), _read_entries(B, "B")
    _check_operands(left, right)
    has_columns = P is not None and left.ndim == 2
    if A.shape[1 if has_columns else -1] != B.shape[-2 if B.ndim > 1 else 0]:
        raise inner_size_error(A.shape, B.shape)
    dtype, left, right = left.dtype, _to_float32(left, semiring), _to_float32(right, semiring)
    checked = _check_argument(check)
    if has_columns:
        if Q is not None or mask is not None or B.ndim < 2 or left.shape[1] != B.shape[-1]:
            raise ShapeError(
                f"A is {A.shape}, B is {B.shape}: for A with values of several columns, (m, k, n), B is an array "
                "(..., k, n), and mask= is left out"
            )
        (left, P), right = _make_messages(left, P, A.shape[:2], right, semiring, checked)
    left, right = left[None] if A.ndim == 1 else left, right[:, None] if B.ndim == 1 else right
    lead = (1,) * (max(left.ndim if P is None else 2, right.ndim if Q is None else 2) - 2)
    left, right = (
        x.reshape(*lead, -1) if place is not None else x.reshape(*lead[x.ndim - 2 :], *x.shape)
        for x, place in ((left, P), (right, Q))
    )
    P, Q = (place if place is None else place.reshape(*lead, *place.shape) for place in (P, Q))
    m, n = (
        (A.shape[0] if has_columns or A.ndim < 3 else A.shape[-2]) if A.ndim > 1 else 1,
        B.shape[-1] if B.ndim > 1 else 1,
    )
    inner = right.shape[-2] if Q is None else B.shape[0]
    if mask is None:
        if P is not None and Q is not None:
            raise TypeError("A and B are BCOO arrays: pass mask=, a BCOO array whose positions the result stores")
        result = _entry_product(left, right, P, Q, None, m, inner, n, semiring, checked, True).astype(dtype)
        result = result[..., 0, :] if A.ndim == 1 else result
        return result[..., 0] if B.ndim == 1 else result
    if not is_sparse_tensor(mask):
        raise TypeError(f"mask is a {type(mask).__name__}: pass a BCOO array, such as BCOO.fromdense(mask)")
    if mask.shape != (m, n) or A.ndim != 2 or B.ndim != 2:
        raise ShapeError(
            f"mask is {mask.shape}, A is {A.shape}, B is {B.shape}: pass two matrices, and a mask of the shape of "
            "their product"
        )
    R = _read_entries(mask, "mask")[1]
    data = _entry_product(left, right, P, Q, R, m, inner, n, semiring, checked, True).astype(dtype)
    if not mask.unique_indices:
        data = jnp.where(_is_first(R), data, jnp.asarray(semiring.zero_for(dtype), dtype))
    return type(mask)(
        (data, mask.indices), shape=mask.shape, indices_sorted=mask.indices_sorted, unique_indices=mask.unique_indices
    )


def _read_entries(x: Any, name: str) -> tuple[Array, Any]:
    """Return the values and the places (2, nnz) of a BCOO matrix, or an array and None."""
    if not is_sparse_tensor(x):
        return x, None
    if x.n_batch or x.n_sparse != 2 or x.n_dense > (name == "A"):
        raise ShapeError(f"{name} is a BCOO array of the shape {x.shape}: only matrices without batch are accepted")
    places = x.indices.T
    return x.data, places if places.dtype in (jnp.int32, jnp.int64) else places.astype(int)  # others may be too narrow


def _make_messages(
    values: Array, places: Array, shape: tuple[int, int], B: Array, semiring: Semiring, check: bool | str
) -> tuple[tuple[Array, Array], Array]:
    """Return a matrix of ones and the products values[e] ⊗ B[column of e]: their product is A ⊗ B by columns."""
    (rows, columns), one = places, jnp.asarray(semiring.one_for(values.dtype), values.dtype)
    is_entry = (rows < shape[0]) & (columns < shape[1])
    terms = jnp.where(is_entry[:, None], values, one).reshape((1,) * (B.ndim - 2) + values.shape)
    messages = _multiply(terms, jnp.take(B, jnp.clip(columns, 0, shape[1] - 1), axis=-2), semiring, check)
    rows = jnp.where(is_entry, rows, shape[0])
    rows = jnp.where(columns < 0, -1, rows)  # which `entry_product` refuses
    return (jnp.full(rows.shape, one), jnp.stack([rows, jnp.arange(rows.size, dtype=rows.dtype)])), messages


def _is_first(places: Array) -> Array:
    """Return whether each place (2, nnz) is the first of its kind."""
    order = jnp.lexsort(places[::-1])
    ordered = places[:, order]
    is_new = jnp.append(True, (ordered[:, 1:] != ordered[:, :-1]).any(0))[: order.size]
    return jnp.zeros(order.size, bool).at[order].set(is_new)


@refuse_explain
def closure(
    A: Any, semiring: Semiring | str | None = None, *, reflexive: bool = True, check: bool | None = None
) -> Array:
    """Return the closure A* = I ⊕ A ⊕ A² ⊕ …, or with ``reflexive=False`` A⁺ = A ⊗ A*, differentiable by A.

    In min-plus, the result holds all distances.

    Parameters
    ----------
    A : array_like, shape (..., n, n)
        The weights of edges, the semiring's zero where there is none.
    semiring : Semiring or str, optional
        A `Semiring` with a star, or the name of one in the catalogue. It is static under `jax.jit`. The default is
        min-plus.
    reflexive : bool, default True
        Whether the empty path counts.
    check : bool, optional
        Scan for NaN and entries outside the domain, by default on the host alone.

    Returns
    -------
    jax.Array, shape (..., n, n)
        The closure, in the dtype of A.

    Raises
    ------
    ShapeError
        If the matrices are not square.
    AlgebraError
        For a gradient in a semiring that has none.
    NegativeCycleError, DivergenceError, DomainError, DTypeError, IntegerOverflowError
        As in `semiring.closure`. These errors, and that for a semiring without a star, occur inside XLA. JAX wraps
        them: it raises its own error with their names and messages.

    Notes
    -----
    For a selective ⊕ each entry is the product along one best path, and its gradient flows to the edges of that path.
    It is a subgradient if several paths are best. For log_plus and plus_times it is exact. Pairs without a path have
    the gradient 0, and so has the diagonal of A*, which is 1̄.

    It costs n³ pairs. The backward pass costs O(n²) for a selective ⊕, and two products for log_plus and plus_times.

    Examples
    --------
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
        return _closure(A, semiring, reflexive, _check_argument(check), "")
    dtype, A = A.dtype, _to_float32(A, semiring)
    result = _closure(A, semiring, True, _check_argument(check), "" if A.dtype == dtype else dtype.name)
    if not reflexive:
        result = _replace_empty_paths(A, result, semiring)
    return result.astype(dtype)


def _replace_empty_paths(A: Array, star: Array, semiring: Semiring) -> Array:
    """Compute A⁺ from A*. For a selective ⊕ they differ on the diagonal alone, where A* has the empty path."""
    if not semiring.selective:
        return matmul(A, star, semiring, check=False)
    loops = matmul(star[..., None, :], jnp.swapaxes(A, -1, -2)[..., None], semiring, check=False)
    return jnp.where(jnp.eye(A.shape[-1], dtype=bool), loops[..., 0], star)


class _SequenceOptions(TypedDict, total=False):
    """The options of every overload of `multi_dot`."""

    weights: Any
    lengths: Any
    steps: int | None
    check: bool | None


@overload
def multi_dot(
    As: Any,
    x: Any = ...,
    semiring: Semiring | str | None = ...,
    *,
    return_witness: Literal[False] = ...,
    **options: Unpack[_SequenceOptions],
) -> Array: ...
@overload
def multi_dot(
    As: Any,
    x: Any,
    semiring: Semiring | str | None = ...,
    *,
    return_witness: Literal[True],
    **options: Unpack[_SequenceOptions],
) -> tuple[Array, Array]: ...
@refuse_explain
def multi_dot(
    As: Any,
    x: Any = None,
    semiring: Semiring | str | None = None,
    *,
    return_witness: bool = False,
    weights: Any = None,
    lengths: Any = None,
    steps: int | None = None,
    check: bool | None = None,
) -> Array | tuple[Array, Array]:
    """Return A₁ ⊗ … ⊗ A_T, or x ⊗ A₁ ⊗ … ⊗ A_T, differentiable by As, x and the weights: see `semiring.multi_dot`.

    Parameters
    ----------
    As : array_like, shape (T, ..., n, n) or (n, n)
        The matrices of all steps, or one matrix for all steps.
    x : array_like, shape (..., n), optional
        The vectors before the first step, of the dtype of As.
    semiring : Semiring or str, optional
        A `Semiring` or the name of one in the catalogue. It is static under `jax.jit`. The default is min-plus.
    return_witness : bool, default False
        Return (C, K), for a selective ⊕ and an x. It is static under `jax.jit`.
    weights : array_like, shape (T, ..., n), optional
        The factors of the entries after each step, of the dtype of As.
    lengths : array_like of int, shape (...), optional
        The number of steps of each sequence.
    steps : int, optional
        T, needed if neither As nor weights have a dimension for the steps.
    check : bool, optional
        Scan for NaN and entries outside the domain, by default on the host alone.

    Returns
    -------
    jax.Array, shape (..., n) or (..., n, n)
        The last state, or without x the product of the matrices, in the dtype of As. With ``return_witness`` it is the
        first of two results, is computed apart from the second, and is differentiable too.
    K : jax.Array of int32, shape (T, ..., n)
        With ``return_witness``, the states before the steps of the best path to each state, as in `semiring.multi_dot`.

    Raises
    ------
    DTypeError
        If the dtypes of the operands differ, or lengths are not integers.
    AlgebraError
        For a gradient in a semiring that has none. A second derivative raises it too. With ``return_witness`` if ⊕ is
        not selective.
    ShapeError, ValueError, TypeError, DomainError, IntegerOverflowError
        As in `matmul` and `semiring.multi_dot`. JAX wraps the error for lengths out of range, too.

    Notes
    -----
    The gradient is that of `matmul`, through all steps, and can be computed once. Its workspace is √T vectors. The
    remaining intermediate vectors are computed again.

    It costs T products with the vectors. A gradient takes another T, and the backward pass T·2.

    Examples
    --------
    >>> import jax
    >>> A = jax.numpy.array([[0.5, 1.0], [2.0, 0.0]])
    >>> jax.grad(lambda A: multi_dot(A, jax.numpy.zeros(2), "max_plus", steps=3).max())(A).tolist()
    [[0.0, 1.0], [2.0, 0.0]]
    >>> A, x = jax.numpy.array([[0.0, 5.0], [1.0, 0.0]]), jax.numpy.array([0.0, 9.0])
    >>> score, states = jax.jit(lambda A: multi_dot(A, x, "max_plus", steps=3, return_witness=True))(A)
    >>> score.tolist(), states[:, score.argmax()].tolist()
    ([16.0, 15.0], [1, 0, 1])
    """
    algebra = as_semiring(semiring)
    if return_witness:
        demand_selective(algebra)
        if x is None:
            raise TypeError("x is None: with return_witness=True, pass the states before the first step")
    chain, steps = _arrange_sequence(As, x, algebra, weights, lengths, steps)
    C: Array = _multi_dot(*chain, steps, algebra, _check_argument(check))[0].astype(jnp.asarray(As).dtype)
    if not return_witness:
        return C
    shape = jax.ShapeDtypeStruct((*jnp.broadcast_shapes(*chain.batches), steps, chain.x.shape[-1]), np.int32)
    K = call(
        sequence_gradients.best_states, shape, (jax.lax.stop_gradient(chain),), steps, algebra, _check_argument(check)
    )
    return C, jnp.moveaxis(K, -2, 0)


def scan(
    As: Any,
    x: Any = None,
    semiring: Semiring | str | None = None,
    *,
    weights: Any = None,
    lengths: Any = None,
    steps: int | None = None,
    check: bool | None = None,
) -> Array:
    """Return all prefixes of `multi_dot`, with gradients: see `semiring.scan`.

    Parameters
    ----------
    As : array_like, shape (T, ..., n, n) or (n, n)
        The matrices of all steps, or one matrix for all steps.
    x : array_like, shape (..., n), optional
        The vectors before the first step, of the dtype of As.
    semiring : Semiring or str, optional
        A `Semiring` or the name of one in the catalogue. It is static under `jax.jit`. The default is min-plus.
    weights : array_like, shape (T, ..., n), optional
        The factors of the entries after each step, of the dtype of As.
    lengths : array_like of int, shape (...), optional
        The number of steps of each sequence. Beyond it the last state of the sequence is repeated.
    steps : int, optional
        T, needed if neither As nor weights have a dimension for the steps.
    check : bool, optional
        Scan for NaN and entries outside the domain, by default on the host alone.

    Returns
    -------
    jax.Array, shape (T, ..., n) or (T, ..., n, n)
        The state after each step, in the dtype of As. Without x the shape is (T, ..., n, n).

    Raises
    ------
    ShapeError, ValueError, TypeError, DTypeError, DomainError, IntegerOverflowError, AlgebraError
        As in `multi_dot`.

    Notes
    -----
    The gradient and the cost are those of `multi_dot`.

    Examples
    --------
    >>> import jax
    >>> scan(jax.numpy.array([[1.0, 5.0], [2.0, 1.0]]), jax.numpy.array([0.0, 9.0]), steps=3).tolist()
    [[1.0, 5.0], [2.0, 6.0], [3.0, 7.0]]
    """
    chain, steps = _arrange_sequence(As, x, as_semiring(semiring), weights, lengths, steps)
    states = _scan(*chain, steps, as_semiring(semiring), _check_argument(check))
    return jnp.moveaxis(states, -2, 0).astype(jnp.asarray(As).dtype)


def reduce(
    A: Any,
    semiring: Semiring | str | None = None,
    axis: int | tuple[int, ...] | None = None,
    *,
    keepdims: bool = False,
    check: bool | None = None,
) -> Array:
    """Return the ⊕ of all entries, or along one axis or several, differentiable by A: see `semiring.reduce`.

    Parameters
    ----------
    A : array_like
        An array of any shape.
    semiring : Semiring or str, optional
        A `Semiring` or the name of one in the catalogue. It is static under `jax.jit`. The default is min-plus.
    axis : int or tuple of int, optional
        An axis, a tuple of axes, or None for all axes.
    keepdims : bool, default False
        Keep the reduced axes with size 1.
    check : bool, optional
        Scan for NaN and entries outside the domain, by default on the host alone.

    Returns
    -------
    jax.Array
        The sums, in the dtype of A. The sum of all entries has no dimensions.

    Raises
    ------
    numpy.exceptions.AxisError, ValueError, TypeError
        For an invalid ``axis``, as in `semiring.reduce`.
    DTypeError, DomainError, IntegerOverflowError, AlgebraError
        As in `matmul`.

    Notes
    -----
    The result is the product with a vector of ones, and the gradient is that of `matmul`.

    Examples
    --------
    >>> import jax
    >>> A = jax.numpy.array([[3.0, 1.0], [2.0, 5.0]])
    >>> jax.grad(lambda A: reduce(A, "max_plus", axis=0).sum())(A).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    A, semiring = jnp.asarray(A), as_semiring(semiring)
    axes = reduced_axes(axis, A.ndim)
    sizes = [size for place, size in enumerate(A.shape) if place not in axes]
    lines = jnp.moveaxis(A, axes, tuple(range(A.ndim - len(axes), A.ndim)))
    lines = lines.reshape(prod(sizes), prod(A.shape[place] for place in axes))
    ones = jnp.full(lines.shape[1:], semiring.one_for(A.dtype), A.dtype)
    shape = [1 if place in axes else size for place, size in enumerate(A.shape)] if keepdims else sizes
    return matmul(lines, ones, semiring, check=check).reshape(shape)


@refuse_explain
def einsum(
    subscripts: Any,
    *operands: Any,
    semiring: Semiring | str | None = None,
    optimize: Any = "auto",
    check: bool | None = None,
) -> Array:
    """Return a sum of products of arrays, differentiable by each of them: see `semiring.einsum`.

    Parameters
    ----------
    subscripts : str
        The labels of the axes, as in `semiring.einsum`. They are static under `jax.jit`.
    *operands : array_like
        One array for each term, all of one dtype.
    semiring : Semiring or str, optional
        A `Semiring` or the name of one in the catalogue. It is static under `jax.jit`. The default is min-plus.
    optimize : str or list of tuple, default "auto"
        How the order of three or more operands is found, as in `semiring.einsum`. It is static under `jax.jit`, and the
        order is found when the function is traced.
    check : bool, optional
        Scan the entries that enter a product or a sum for NaN and the domain, by default on the host alone.

    Returns
    -------
    jax.Array
        The result, with an axis for each label of the output, in the dtype of the operands.

    Raises
    ------
    DTypeError
        If the dtypes of the operands differ.
    TypeError
        Without operands, and as in `semiring.einsum`.
    ValueError, ShapeError, AlgebraError, MissingExtraError, DomainError, IntegerOverflowError
        As in `semiring.einsum`.

    Notes
    -----
    The gradient is that of `matmul`, through all pairwise contractions.

    Examples
    --------
    >>> import jax
    >>> A, x = jax.numpy.array([[0.0, 3.0], [7.0, 1.0]]), jax.numpy.array([1.0, 5.0])
    >>> jax.grad(lambda A: einsum("i,ij->", x, A, semiring="max_plus"))(A).tolist()
    [[0.0, 0.0], [1.0, 0.0]]
    """
    form, operand_list = split_arguments((subscripts, *operands))
    if not operand_list:
        raise TypeError("einsum takes at least one operand, as in einsum('ij->i', A)")
    algebra, arrays = as_semiring(semiring), [jnp.asarray(x) for x in operand_list]
    for place, array in enumerate(arrays):
        if array.dtype != arrays[0].dtype:
            raise DTypeError(f"operand 0 has dtype {arrays[0].dtype}, operand {place} {array.dtype}: convert one")
    dtype, arrays = arrays[0].dtype, [_to_float32(array, algebra) for array in arrays]
    notation, sizes = read_notation(form, tuple(array.shape for array in arrays))
    path = find_order(notation, sizes, optimize, len(operand_list) < 3 or algebra.commutative).path
    ops = _TracedOperations(algebra, check)
    result: Array = contract(ops, prepare_terms(ops, notation, sizes, arrays), path, notation.output)
    return result.astype(dtype)


class _TracedOperations:
    """The `semiring.linalg.contraction.steps.TermOperations` on JAX arrays, by differentiable functions alone."""

    def __init__(self, semiring: Semiring, check: bool | None) -> None:
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
        return _multiply(left, right, self.semiring, _check_argument(self.check))

    def sum_axes(self, x: Array, axes: Any, name: str) -> None:
        """Return None, because a sum is computed as a product with ones, as in `reduce`."""

    def ones(self, x: Array, shape: tuple[int, int]) -> Array:
        return jnp.full(shape, self.semiring.one_for(x.dtype), x.dtype)

    def verify(self, x: Array, name: str) -> None:
        """Do nothing, because entries that are part of no product and no sum are returned unchanged."""


def _arrange_sequence(
    As: Any, x: Any, semiring: Semiring, weights: Any, lengths: Any, steps: int | None
) -> tuple[ChainArrays, int]:
    """Return the validated operands of the functions of sequences, and the number of steps."""
    As, square = jnp.asarray(As), x is None
    if x is None:
        n = As.shape[-1] if As.ndim else 0
        x = jnp.where(jnp.eye(n, dtype=bool), semiring.one_for(As.dtype), semiring.zero_for(As.dtype))
    x = jnp.asarray(x)
    _require_same_dtype(As, x=x)
    if weights is not None:
        weights = jnp.asarray(weights)
        _require_same_dtype(As, weights=weights)
    As, x, weights = (array if array is None else _to_float32(array, semiring) for array in (As, x, weights))
    if lengths is not None:
        lengths = jnp.asarray(lengths)
        if not jnp.issubdtype(lengths.dtype, jnp.integer):
            raise DTypeError(f"lengths has dtype {lengths.dtype}: lengths are whole numbers of steps")
    *arrays, steps = arrange_chain(jnp, As, x, weights, lengths, steps, square=square)
    return ChainArrays(*arrays), steps


def _check_argument(check: bool | None) -> bool | str:
    """Return the static argument ``check`` of a primitive: by default entries are validated on the host alone."""
    return CHECK_ON_HOST if check is None else check


def _require_same_dtype(As: Array, **arrays: Array) -> None:
    """Raise `DTypeError` if an array has another dtype than As."""
    for name, array in arrays.items():
        if array.dtype != As.dtype:
            raise DTypeError(f"As has dtype {As.dtype}, {name} {array.dtype}: convert one, {name}.astype(As.dtype)")


def _check_operands(A: Array, B: Array) -> None:
    """Raise `ShapeError` for a scalar, and `DTypeError` if the dtypes differ."""
    if not A.ndim or not B.ndim:
        raise ShapeError(f"A is {A.shape}, B is {B.shape}: a scalar is no operand of a product")
    if A.dtype != B.dtype:
        raise DTypeError(f"A has dtype {A.dtype}, B {B.dtype}: convert one, B.astype(A.dtype)")


def _to_float32(x: Array, semiring: Semiring) -> Array:
    """Return float16 and bfloat16 arrays in float32, because results are rounded once.

    See `semiring.arrays.encoding.is_rounded`.
    """
    return x.astype(jnp.float32) if is_half(x.dtype) and semiring.supports(np.float32) else x


# ---------------------------------------------------------------------- the primitives of `semiring.autodiff`, in JAX


class _JaxLibrary:
    """The operations of JAX that the table of primitives needs."""

    xp = jnp

    def call(self, name: str, *arguments: Any) -> Any:
        return _FUNCTIONS[name](*arguments)

    def cast(self, x: Array, dtype: Any) -> Array:
        return x.astype(dtype)

    def constant(self, value: float, like: Array) -> Array:
        return jnp.asarray(value, like.dtype)

    def arange(self, n: int, like: Array) -> Array:
        return jnp.arange(n)

    def indices(self, W: Array) -> Array:
        return jnp.maximum(W, 0)

    def gather(self, x: Array, indices: Array, axis: int) -> Array:
        return jnp.take_along_axis(x, indices, axis=axis)

    def scatter_add(self, terms: Array, indices: Array, axis: int, shape: tuple[int, ...]) -> Array:
        places = list(jnp.indices(terms.shape, sparse=True))
        places[axis] = indices
        return jnp.zeros(shape, terms.dtype).at[tuple(places)].add(terms)

    def sum_to(self, x: Array, shape: tuple[int, ...]) -> Array:
        axes = tuple(axis for axis, size in enumerate(shape) if size == 1 and x.shape[axis] != 1)
        return x.sum(axes, keepdims=True)

    def dtype_name(self, x: Array) -> str:
        return str(x.dtype.name)

    def is_on_host(self, x: Array) -> bool:
        return bool(jax.default_backend() == "cpu")


_LIBRARY: ArrayLibrary = _JaxLibrary()


def _make_differentiable(primitive: Primitive) -> Callable[..., Any]:
    """Return a primitive as a function of JAX, whose arguments are its arrays and then its static arguments."""
    count = len(primitive.arrays)

    def run(*arguments: Any) -> Any:
        arrays, static = primitive.split(arguments)
        others = static if primitive.plan is None else (*static, *primitive.plan(_LIBRARY, arrays, *static))
        structs = tuple(
            jax.ShapeDtypeStruct(shape, dtype or arrays[0].dtype)
            for shape, dtype in primitive.shapes(_LIBRARY, *arrays, *others)
        )
        return call(primitive.forward, structs if primitive.outputs > 1 else structs[0], arrays, *others)

    def keep(*arguments: Any) -> tuple[Any, Any]:
        arrays, static = primitive.split(arguments)
        chosen, static = primitive.gradient_form(static)
        outputs = _FUNCTIONS[chosen.name](*arrays, *static)
        return outputs if chosen is primitive else outputs[0], chosen.saved_arrays(arrays, outputs)

    def backward(*arguments: Any) -> Any:
        *inputs, residuals, g = arguments
        chosen, static = primitive.gradient_form(tuple(inputs))
        return chosen.gradient(_LIBRARY, residuals, static, g if primitive.outputs > 1 else (g,), (True,) * count)

    function = jax.custom_vjp(run, nondiff_argnums=tuple(range(count, count + len(primitive.static))))
    function.defvjp(keep, backward)
    return function  # type: ignore[no-any-return]


_FUNCTIONS = {name: _make_differentiable(primitive) for name, primitive in PRIMITIVES.items()}
_entry_product = _FUNCTIONS["entry_product"]
_matmul, _multiply, _closure = _FUNCTIONS["matmul"], _FUNCTIONS["multiply"], _FUNCTIONS["closure"]
_multi_dot, _scan = _FUNCTIONS["multi_dot"], _FUNCTIONS["scan"]
