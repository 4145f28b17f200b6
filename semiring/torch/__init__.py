"""Compute products, closures, contractions and products along sequences of PyTorch tensors, with gradients.

Tensors on the CPU share their memory with NumPy, and tensors on a GPU (with the extra ``cuda``) with CuPy. The
functions are custom operators: they work under `torch.compile` without a graph break, under `torch.func.vmap` and
`torch.func.grad`. They can be differentiated twice, but the functions of sequences once.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from semiring.algebra import Semiring
from semiring.arrays.tensors import compressed_tensor, coordinate_tensor
from semiring.autodiff.rules import Rule, key_of, refuse_explain, rule_of, semiring_of
from semiring.errors import DeviceError, DTypeError, MissingExtraError, ShapeError, inner_size_error
from semiring.linalg import matmul as matmul_without_gradient
from semiring.linalg.contraction.notation import Notation, Subscripts, read_notation, split_arguments
from semiring.linalg.contraction.orders import find_order
from semiring.linalg.contraction.steps import contract, prepare_terms
from semiring.linalg.elementwise import reduced_axes
from semiring.linalg.sequences import arrange_chain

try:
    import torch
except ImportError:
    raise MissingExtraError("PyTorch", "torch", "semiring.torch") from None

from semiring.torch import operators

if TYPE_CHECKING:
    from torch import Tensor
else:
    Tensor: TypeAlias = torch.Tensor

__all__ = ["closure", "einsum", "matmul", "multi_dot", "reduce", "scan", "spmm"]

# A semiring never changes. Without this registration, the compiler of PyTorch 2.11 accepts only names of semirings.
torch.utils._pytree.register_constant(Semiring)


@refuse_explain
def matmul(
    A: Tensor, B: Tensor, semiring: Semiring | str | None = None, *, mask: Tensor | None = None, check: bool = True
) -> Tensor:
    """Return the product C[i, j] = ⊕ₖ A[i, k] ⊗ B[k, j], differentiable by A and B.

    Parameters
    ----------
    A, B : Tensor, shapes (..., m, k) and (..., k, n)
        Tensors of one dtype on one device, of any strides. Leading dimensions broadcast. A 1-D operand is one row
        (left) or one column (right), as in `torch.matmul`. Each may be a sparse matrix in COO, CSR or CSC layout. What
        it does not store is the zero, and ⊕ adds entries that are stored twice. A sparse A of the shape (m, k, n),
        whose values are (nnz, n), has a value for each column of B: then C[i, j] = ⊕ₖ A[i, k, j] ⊗ B[k, j].
    semiring : Semiring or str, optional
        A `Semiring` or the name of one in the catalogue. The default is min-plus.
    mask : Tensor, shape (m, n), optional
        A sparse tensor, whose stored entries are the mask, or a tensor of bool. The result of two matrices is then
        sparse, and only its entries at the mask are computed.
    check : bool, default True
        Scan for NaN and entries outside the domain.

    Returns
    -------
    Tensor, shape (..., m, n)
        The product, in the dtype and on the device of A and B. A 1-D operand has no dimension in it. It is sparse for
        two sparse operands and with a mask, in the layout of the first sparse argument, COO without one. With a mask it
        stores every entry of the mask: where no pair of entries meets, the zero.

    Raises
    ------
    ShapeError
        If an operand is a scalar, the shapes do not fit, or an index of a sparse tensor is outside its shape.
    DTypeError, DeviceError
        If the dtypes or the devices of the operands differ, or a dense mask is not bool.
    TypeError
        If an argument is not a tensor, or a sparse A of three dimensions multiplies a sparse matrix.
    ValueError
        If an operand in COO layout stores an entry twice and requires a gradient, and ⊕ is not +. PyTorch gives each of
        the two values the gradient of their sum by +, which is wrong then. `spmm` takes such entries.
    AlgebraError
        If an operand requires a gradient, and the semiring has none. For a sparse operand, if the zero does not
        annihilate.
    DomainError, IntegerOverflowError
        As in `semiring.matmul`.

    Notes
    -----
    For a selective ⊕ the gradient flows to the selected term, the one with the smallest k if several tie, through the
    derivative of ⊗ there. It is a subgradient if terms tie. For log_plus and plus_times it is exact. An entry that is
    the zero (no path) has the gradient 0. Other semirings have none. On integers and truth values everything is as in
    `semiring.matmul`.

    It costs m·k·n pairs. For a selective ⊕ it takes about twice the time if an operand requires a gradient. The
    backward pass costs O(m·n) for a selective ⊕, and two products for log_plus and plus_times. Sparse operands cost the
    pairs of their entries, and are differentiable by their stored values. Their backward pass costs O(nnz) of the
    result for a selective ⊕, two products for plus_times, and two to four for log_plus. `torch.compile` breaks its
    graph at a sparse tensor: `spmm` has none.

    Examples
    --------
    >>> A = torch.tensor([[0.0, 3.0], [7.0, 1.0]], requires_grad=True)
    >>> C = matmul(A, A.detach(), "min_plus")
    >>> C.sum().backward()
    >>> C.tolist(), A.grad.tolist()
    ([[0.0, 3.0], [7.0, 2.0]], [[2.0, 0.0], [1.0, 1.0]])
    """
    if mask is not None or _is_sparse(A) or _is_sparse(B):
        product: Tensor = _sparse_matmul(A, B, semiring, mask, check)
        return product
    _check_tensors(A=A, B=B)
    if _is_rounded(A):
        return matmul(A.float(), B.float(), semiring, check=check).to(A.dtype)
    if not A.dim() or not B.dim():
        raise ShapeError(f"A is {tuple(A.shape)}, B is {tuple(B.shape)}: a scalar is no operand of a product")
    left, right = A.unsqueeze(0) if A.dim() == 1 else A, B.unsqueeze(1) if B.dim() == 1 else B
    _check_shapes(A, B, left, right)
    rank = max(left.dim(), right.dim())
    left, right = (x.reshape((1,) * (rank - x.dim()) + tuple(x.shape)) for x in (left, right))
    key = _semiring_key(semiring)
    if _records_gradients(left, right) and _gradient_rule(key) == "selective":
        result: Tensor = operators.matmul_witness(left, right, key, check)[0]
    else:
        result = operators.matmul(left, right, key, check)
    if A.dim() == 1:
        result = result.squeeze(-2)
    return result.squeeze(-1) if B.dim() == 1 else result


@refuse_explain
def spmm(
    indices: Tensor,
    values: Tensor,
    size: tuple[int, int],
    B: Tensor,
    semiring: Semiring | str | None = None,
    *,
    check: bool = True,
) -> Tensor:
    """Return A ⊗ B for a sparse A that is given by its entries, differentiable by the values and by B.

    It is the form of `matmul` for `torch.compile` and `torch.func.vmap`, which do not trace sparse tensors.

    Parameters
    ----------
    indices : Tensor of int, shape (2, nnz)
        The rows and the columns of the entries, in any order, as of `torch.sparse_coo_tensor`. Entries that are listed
        twice are added by ⊕.
    values : Tensor, shape (nnz,) or (nnz, n)
        The value of each entry, or one for each column of B: then C[i, j] = ⊕ₖ A[i, k, j] ⊗ B[k, j].
    size : tuple of int
        The shape (m, k) of A.
    B : Tensor, shape (..., k, n)
        A dense tensor of the dtype and on the device of the values.
    semiring : Semiring or str, optional
        A `Semiring` or the name of one in the catalogue. The default is min-plus.
    check : bool, default True
        Scan for NaN and entries outside the domain.

    Returns
    -------
    Tensor, shape (..., m, n)
        The product. A row without entries holds the zero.

    Raises
    ------
    ShapeError
        If the shapes do not fit, or an index is outside the size.
    TypeError, DTypeError, DeviceError, AlgebraError, DomainError, IntegerOverflowError
        As in `matmul`.

    Notes
    -----
    The gradient is that of `matmul`. It costs nnz·n pairs. Values for each column take a workspace for all pairs.

    Examples
    --------
    >>> edges = torch.tensor([[1, 2, 2], [0, 0, 1]])  # heads, tails
    >>> weights = torch.tensor([[2.0, 0.0], [9.0, 1.0], [3.0, 5.0]])
    >>> spmm(edges, weights, (3, 3), torch.tensor([[0.0, 0.0], [1.0, 1.0], [5.0, 5.0]])).tolist()
    [[inf, inf], [2.0, 0.0], [4.0, 1.0]]
    """
    _check_tensors(values=values, B=B)
    if indices.dim() != 2 or indices.shape[0] != 2 or indices.shape[1:] != values.shape[:1] or values.dim() > 2:
        raise ShapeError(
            f"indices is {tuple(indices.shape)}, values is {tuple(values.shape)}: shapes (2, nnz) and (nnz,) or "
            "(nnz, n) are expected"
        )
    if B.dim() < 2 or size[1] != B.shape[-2]:
        raise inner_size_error(tuple(size), tuple(B.shape))
    if values.dim() == 2 and values.shape[1] != B.shape[-1]:
        raise ShapeError(f"values is {tuple(values.shape)}, B is {tuple(B.shape)}: their numbers of columns differ")
    dtype = values.dtype
    if _is_rounded(B):
        values, B = values.float(), B.float()
    key, (m, k) = _semiring_key(semiring), size
    if values.dim() == 2:  # messages, which are added by a matrix of ones
        if not k and values.shape[0]:
            raise _index_error(size)
        # An index outside the size is no address, and its row becomes one that `entry_product` refuses.
        rows, columns = indices.long()
        is_inside = (columns >= 0) & (columns < k)
        messages = B.index_select(-2, columns.clamp(0, max(0, k - 1)))
        values = values.reshape((1,) * (B.dim() - 2) + tuple(values.shape))
        B = operators.multiply(values, messages, key, check)
        indices = torch.stack([torch.where(is_inside, rows, -1), torch.arange(B.shape[-2], device=indices.device)])
        one = _zero_and_one(key, _dtype_name(B))[1]
        values, k, check = torch.full(values.shape[-2:-1], one, dtype=B.dtype, device=B.device), B.shape[-2], False
    lead = (1,) * (B.dim() - 2)
    places = indices.reshape(*lead, *indices.shape)
    arguments = values.reshape(*lead, -1), B, (places, None, None), (m, k, B.shape[-1]), key, check
    if torch.compiler.is_compiling():
        return _multiply_entries(*arguments).to(dtype)
    try:
        return _multiply_entries(*arguments).to(dtype)
    except ShapeError:  # which may name the size of the matrix of ones
        raise _index_error(size) from None


def _index_error(size: tuple[int, int]) -> ShapeError:
    """Return the error for an index outside the size of a sparse matrix that is given by its entries."""
    return ShapeError(
        f"an index of A is outside its shape {tuple(size)}: rows are below {size[0]}, columns below {size[1]}"
    )


def _multiply_entries(
    A: Tensor, B: Tensor, places: tuple[Tensor | None, ...], sizes: tuple[int, int, int], key: str, check: bool
) -> Tensor:
    """Return A ⊗ B by the operator `entry_product`, or by the one with the gradient of a selective ⊕."""
    arguments = A, B, *places, *sizes, key, check, False
    if _records_gradients(A, B) and _gradient_rule(key) == "selective":
        result: Tensor = operators.entry_product_with_places(*arguments)[0]
    else:
        result = operators.entry_product(*arguments)
    return result


@torch.compiler.disable  # type: ignore[untyped-decorator]  # the compiler does not trace sparse tensors
def _sparse_matmul(A: Tensor, B: Tensor, semiring: Semiring | str | None, mask: Tensor | None, check: bool) -> Tensor:
    """Return A ⊗ B for a sparse operand or a mask, differentiable by the stored values and by dense operands."""
    key = _semiring_key(semiring)
    values, places = zip(*(_read_entries(x, name, key) for name, x in (("A", A), ("B", B))), strict=True)
    _check_tensors(A=values[0], B=values[1])
    if not A.dim() or not B.dim():
        raise ShapeError(f"A is {tuple(A.shape)}, B is {tuple(B.shape)}: a scalar is no operand of a product")
    if _is_sparse(A) and A.dense_dim():
        if _is_sparse(B) or mask is not None:
            raise TypeError("A has values of several columns: then B is a dense tensor, and mask= is left out")
        return spmm(places[0], values[0], tuple(A.shape[:2]), B, semiring, check=check)
    if A.shape[-1] != B.shape[-2 if B.dim() > 1 else 0]:
        raise inner_size_error(tuple(A.shape), tuple(B.shape))
    if mask is None and _is_sparse(A) and _is_sparse(B):
        mask = matmul_without_gradient(A.detach(), B.detach(), semiring, check=check)
        if not _records_gradients(*values):
            return mask
    left, right = (x.float() if _is_rounded(x) else x for x in values)
    left = left.unsqueeze(0) if A.dim() == 1 else left
    right = right.unsqueeze(1) if B.dim() == 1 else right
    rank, dtype = max(2, A.dim(), B.dim()), values[0].dtype
    (left, P), (right, Q) = (_pad(x, place, rank) for x, place in zip((left, right), places, strict=True))
    m, k, n = (A.shape[-2] if A.dim() > 1 else 1), A.shape[-1], (B.shape[-1] if B.dim() > 1 else 1)
    if mask is None:
        result = _multiply_entries(left, right, (P, Q, None), (m, k, n), key, check).to(dtype)
        result = result.squeeze(-2) if A.dim() == 1 else result
        return result.squeeze(-1) if B.dim() == 1 else result
    if rank > 2 or A.dim() == 1 or B.dim() == 1:
        raise ShapeError(f"A is {tuple(A.shape)}, B is {tuple(B.shape)}: mask= is for products of two matrices")
    R = _read_mask(mask, (m, n), left.device)
    C = _multiply_entries(left, right, (P, Q, R), (m, k, n), key, check).to(dtype)
    return _as_sparse(C, R, (m, n), next((x.layout for x in (A, B, mask) if _is_sparse(x)), torch.sparse_coo))


_SPARSE_LAYOUTS = (torch.sparse_coo, torch.sparse_csr, torch.sparse_csc)


def _is_sparse(x: Any) -> bool:
    return isinstance(x, torch.Tensor) and x.layout in _SPARSE_LAYOUTS


def _pad(x: Tensor, places: Tensor | None, rank: int) -> tuple[Tensor, Tensor | None]:
    """Return an operand with as many leading dimensions as the other one, and its places."""
    if places is None:
        return x.reshape((1,) * (rank - x.dim()) + tuple(x.shape)), None
    lead = (1,) * (rank - 2)
    return x.reshape(*lead, -1), places.reshape(*lead, *places.shape)


def _read_entries(x: Tensor, name: str, key: str) -> tuple[Tensor, Tensor | None]:
    """Return the values and the places (2, nnz) of a sparse matrix, or a dense tensor and None.

    Raises `ValueError` for entries in COO layout that are stored twice, if PyTorch's gradient by them were wrong.
    """
    if not _is_sparse(x):
        return x, None
    if x.sparse_dim() != 2 or x.dense_dim() > (name == "A") or x.dim() - x.dense_dim() != 2:
        raise ShapeError(f"{name} is a sparse tensor of the shape {tuple(x.shape)}: only matrices are accepted")
    if x.layout != torch.sparse_coo:
        by_rows = x.layout == torch.sparse_csr
        starts, minor = (x.crow_indices(), x.col_indices()) if by_rows else (x.ccol_indices(), x.row_indices())
        # The starts may be invalid. Then every row becomes one that `entry_product` refuses.
        is_valid = (starts[0] == 0) & (starts[-1] == minor.shape[0]) & (starts.diff() >= 0).all()
        numbers = torch.arange(minor.shape[0], dtype=starts.dtype, device=x.device)
        major = torch.where(is_valid, torch.searchsorted(starts, numbers, right=True) - 1, -1).to(minor.dtype)
        return x.values(), torch.stack([major, minor] if by_rows else [minor, major])
    if not _records_gradients(x):
        return x._values(), x._indices()
    entries = x.coalesce()
    if entries._nnz() != x._nnz() and _gradient_rule(key) != "plus_times":  # `coalesce` adds them by +
        raise ValueError(
            f"{name} stores an entry more than once, and PyTorch gives both values the gradient of their sum by +: "
            f"call {name}.coalesce() first if that sum is meant, else pass the entries to semiring.torch.spmm"
        )
    return entries.values(), entries.indices()


def _read_mask(mask: Tensor, shape: tuple[int, int], device: Any) -> Tensor:
    """Return the places (2, nnz) of a mask, each once, in ascending order.

    Raises `DTypeError`, `ShapeError` and `DeviceError`.
    """
    if not isinstance(mask, torch.Tensor):
        raise TypeError(f"mask is a {type(mask).__name__}: pass a sparse tensor or a tensor of bool")
    if tuple(mask.shape) != shape:
        raise ShapeError(
            f"mask is {tuple(mask.shape)}, the product is {shape}: pass a mask of the shape of the product"
        )
    if mask.device != device:
        raise DeviceError(f"A is on {device}, mask on {mask.device}: move one, mask.to('{device}')")
    mask = mask.detach()
    if _is_sparse(mask):
        places = _read_entries(mask, "mask", "")[1]
        ones = torch.ones(mask._nnz(), dtype=torch.uint8, device=device)
        return torch.sparse_coo_tensor(places, ones, shape, check_invariants=True).coalesce().indices()
    if mask.dtype != torch.bool:
        raise DTypeError(
            f"mask has dtype {mask.dtype}: pass truth values, such as mask != 0, or a sparse tensor, whose stored "
            "entries are the mask"
        )
    return mask.nonzero().mT


def _as_sparse(values: Tensor, places: Tensor, shape: tuple[int, int], layout: Any) -> Tensor:
    """Return values at ascending places as a sparse tensor of a layout, differentiable by the values."""
    if layout == torch.sparse_coo:
        return coordinate_tensor(places, values, shape)
    (major, minor), length = places, shape[0]
    if layout == torch.sparse_csc:
        order = torch.argsort(minor, stable=True)
        major, minor, values, length = minor[order], major[order], values[order], shape[1]
    starts = torch.searchsorted(major.contiguous(), torch.arange(length + 1, device=major.device))
    return compressed_tensor(layout == torch.sparse_csr, starts, minor, values, shape)


@refuse_explain
def closure(A: Tensor, semiring: Semiring | str | None = None, *, reflexive: bool = True, check: bool = True) -> Tensor:
    """Return A* = I ⊕ A ⊕ A² ⊕ …, or with ``reflexive=False`` A⁺ = A ⊗ A*, differentiable by A.

    In min-plus the entries are all distances.

    Parameters
    ----------
    A : Tensor, shape (..., n, n)
        The weights of edges, the semiring's zero where there is none.
    semiring : Semiring or str, optional
        A `Semiring` with a star, or the name of one in the catalogue. The default is min-plus.
    reflexive : bool, default True
        Whether the empty path counts.
    check : bool, default True
        Scan for NaN and entries outside the domain.

    Returns
    -------
    Tensor, shape (..., n, n)
        The closure, in the dtype and on the device of A.

    Raises
    ------
    ShapeError
        If the matrices are not square.
    TypeError
        If A is not a dense tensor.
    AlgebraError
        If A requires a gradient, and the semiring has none. If the semiring has no star.
    NegativeCycleError, DivergenceError, DomainError, DTypeError, IntegerOverflowError
        As in `semiring.closure`.

    Notes
    -----
    For a selective ⊕ each entry is the product along one best path, and its gradient flows to the edges of that path.
    It is a subgradient if several paths are best. For log_plus and plus_times it is exact. Pairs without a path have
    the gradient 0, and so has the diagonal of A*, which is 1̄. Other semirings have none.

    It costs n³ pairs. The backward pass costs O(n²) for a selective ⊕, and two products for log_plus and plus_times.

    Examples
    --------
    >>> A = torch.tensor([[torch.inf, 1.0, 9.0], [torch.inf, torch.inf, 2.0], [torch.inf] * 3], requires_grad=True)
    >>> D = closure(A, "min_plus")
    >>> D[0, 2].backward()
    >>> D[0, 2].item(), A.grad.tolist()
    (3.0, [[0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [0.0, 0.0, 0.0]])
    """
    _check_tensors(A=A)
    if A.dim() < 2 or A.shape[-1] != A.shape[-2]:
        raise ShapeError(f"A is {tuple(A.shape)}: a closure needs square matrices, shape (n, n) or (..., n, n)")
    key = _semiring_key(semiring)
    rule = _gradient_rule(key) if _records_gradients(A) else None
    dtype, rounded_to = A.dtype, ""
    # Sums of a gradient are computed in float32. Sums along trees are in float32 anyway, and a closure rounds once.
    if _is_rounded(A) and rule is not None and not (reflexive and rule == "selective"):
        A, rounded_to = A.float(), _dtype_name(A)
    result: Tensor
    if rule == "selective":
        result = operators.closure_trees(A, key, check, rounded_to)[0]
    else:
        result = operators.closure(A, key, reflexive or rule is not None, check, rounded_to)
    if rule is not None and not reflexive:
        result = _replace_empty_paths(A, result, semiring, rule)
    return result.to(dtype)


@refuse_explain
def multi_dot(
    As: Tensor,
    x: Tensor | None = None,
    semiring: Semiring | str | None = None,
    *,
    weights: Tensor | None = None,
    lengths: Tensor | None = None,
    steps: int | None = None,
    check: bool = True,
) -> Tensor:
    """Return A₁ ⊗ … ⊗ A_T, or x ⊗ A₁ ⊗ … ⊗ A_T, differentiable by As, x and the weights: see `semiring.multi_dot`.

    Parameters
    ----------
    As : Tensor, shape (T, ..., n, n) or (n, n)
        The matrices of all steps, or one matrix for all steps.
    x : Tensor, shape (..., n), optional
        The vectors before the first step.
    semiring : Semiring or str, optional
        A `Semiring` or the name of one in the catalogue. The default is min-plus.
    weights : Tensor, shape (T, ..., n), optional
        The factors of the entries after each step.
    lengths : Tensor of int, shape (...), optional
        The number of steps of each sequence.
    steps : int, optional
        T, needed if neither As nor weights have a dimension for the steps.
    check : bool, default True
        Scan for NaN and entries outside the domain.

    Returns
    -------
    Tensor, shape (..., n) or (..., n, n)
        The last state, or without x the product of the matrices, in the dtype and on the device of As.

    Raises
    ------
    DTypeError
        If the dtypes of the operands differ, or lengths are not integers.
    AlgebraError
        If an operand requires a gradient, and the semiring has none. A second derivative raises it too.
    ShapeError, ValueError, TypeError, DeviceError, DomainError, IntegerOverflowError
        As in `matmul` and `semiring.multi_dot`.

    Notes
    -----
    The gradient is that of `matmul`, through all steps, and can be computed once. Besides the arguments and the result,
    it has memory for √T vectors, and recomputes the vectors between them. `log_plus` in float32 on the host, with one
    matrix for all steps, keeps 2·T vectors if they take at most 128 MiB. The next call uses this memory again, and
    gradients are rounded relative to the greatest.

    In `log_plus` the gradient of the result by the weights is the posterior of the states.

    It costs T products with the vectors. A gradient takes another T, and the backward pass T·2.

    Examples
    --------
    >>> A = torch.tensor([[0.5, 1.0], [2.0, 0.0]], requires_grad=True)
    >>> total = multi_dot(A, torch.zeros(2), "max_plus", steps=3)
    >>> total.max().backward()
    >>> total.tolist(), A.grad.tolist()
    ([5.0, 4.0], [[0.0, 1.0], [2.0, 0.0]])
    """
    result: Tensor = operators.multi_dot(*_arrange_sequence(As, x, semiring, weights, lengths, steps), check)[0]
    return result.to(As.dtype)


def scan(
    As: Tensor,
    x: Tensor | None = None,
    semiring: Semiring | str | None = None,
    *,
    weights: Tensor | None = None,
    lengths: Tensor | None = None,
    steps: int | None = None,
    check: bool = True,
) -> Tensor:
    """Return all prefixes of `multi_dot`, with gradients: see `semiring.scan`.

    Parameters
    ----------
    As : Tensor, shape (T, ..., n, n) or (n, n)
        The matrices of all steps, or one matrix for all steps.
    x : Tensor, shape (..., n), optional
        The vectors before the first step.
    semiring : Semiring or str, optional
        A `Semiring` or the name of one in the catalogue. The default is min-plus.
    weights : Tensor, shape (T, ..., n), optional
        The factors of the entries after each step.
    lengths : Tensor of int, shape (...), optional
        The number of steps of each sequence. Beyond it the last state of the sequence is repeated.
    steps : int, optional
        T, needed if neither As nor weights have a dimension for the steps.
    check : bool, default True
        Scan for NaN and entries outside the domain.

    Returns
    -------
    Tensor, shape (T, ..., n) or (T, ..., n, n)
        The state after each step, in the dtype and on the device of As. Without x the shape is (T, ..., n, n).

    Raises
    ------
    ShapeError, ValueError, TypeError, DTypeError, DeviceError, DomainError, IntegerOverflowError, AlgebraError
        As in `multi_dot`.

    Notes
    -----
    The gradient and the cost are those of `multi_dot`.

    Examples
    --------
    >>> scan(torch.tensor([[1.0, 5.0], [2.0, 1.0]]), torch.tensor([0.0, 9.0]), steps=3).tolist()
    [[1.0, 5.0], [2.0, 6.0], [3.0, 7.0]]
    """
    result: Tensor = operators.scan(*_arrange_sequence(As, x, semiring, weights, lengths, steps), check)
    return result.movedim(-2, 0).to(As.dtype)


def reduce(
    A: Tensor,
    semiring: Semiring | str | None = None,
    axis: int | tuple[int, ...] | None = None,
    *,
    keepdims: bool = False,
    check: bool = True,
) -> Tensor:
    """Return the ⊕ of all entries, or along one axis or several, differentiable by A: see `semiring.reduce`.

    Parameters
    ----------
    A : Tensor
        A tensor of any shape.
    semiring : Semiring or str, optional
        A `Semiring` or the name of one in the catalogue. The default is min-plus.
    axis : int or tuple of int, optional
        An axis, a tuple of axes, or None for all axes.
    keepdims : bool, default False
        Keep the reduced axes with size 1.
    check : bool, default True
        Scan for NaN and entries outside the domain.

    Returns
    -------
    Tensor
        The sums, in the dtype and on the device of A. The sum of all entries has no dimensions.

    Raises
    ------
    numpy.exceptions.AxisError, ValueError, TypeError
        For an invalid ``axis``, as in `semiring.reduce`.
    DTypeError, DomainError, IntegerOverflowError, AlgebraError
        As in `matmul`.

    Notes
    -----
    It is the product with a vector of ones, and so is its gradient: that of `matmul`.

    Examples
    --------
    >>> A = torch.tensor([[3.0, 1.0], [2.0, 5.0]], requires_grad=True)
    >>> reduce(A, "max_plus", axis=0).sum().backward()
    >>> A.grad.tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    _check_tensors(A=A)
    axes = reduced_axes(axis, A.dim())
    sizes = [size for place, size in enumerate(A.shape) if place not in axes]
    size = math.prod([A.shape[place] for place in axes])
    lines = A.movedim(axes, tuple(range(A.dim() - len(axes), A.dim()))).reshape(math.prod(sizes), size)
    _, one = _zero_and_one(_semiring_key(semiring), _dtype_name(A))
    ones = torch.full(lines.shape[1:], one, dtype=A.dtype, device=A.device)
    shape = [1 if place in axes else size for place, size in enumerate(A.shape)] if keepdims else sizes
    return matmul(lines, ones, semiring, check=check).reshape(shape)


@refuse_explain
def einsum(
    subscripts: Any,
    *operands: Any,
    semiring: Semiring | str | None = None,
    optimize: Any = "auto",
    check: bool = True,
) -> Tensor:
    """Return a sum of products of tensors, differentiable by each of them: see `semiring.einsum`.

    Parameters
    ----------
    subscripts : str
        The labels of the axes, as in `semiring.einsum`.
    *operands : Tensor
        One tensor for each term, of one dtype on one device.
    semiring : Semiring or str, optional
        A `Semiring` or the name of one in the catalogue. The default is min-plus.
    optimize : str or list of tuple, default "auto"
        How the order of three or more operands is found, as in `semiring.einsum`.
    check : bool, default True
        Scan the entries that enter a product or a sum for NaN and the domain.

    Returns
    -------
    Tensor
        The result, with an axis for each label of the output, in the dtype and on the device of the operands.

    Raises
    ------
    TypeError
        Without operands, for an operand that is not a dense tensor, and as in `semiring.einsum`.
    DTypeError, DeviceError
        If the dtypes or the devices of the operands differ.
    AlgebraError
        If an operand requires a gradient, and the semiring has none. Also as in `semiring.einsum`.
    ValueError, ShapeError, MissingExtraError, DomainError, IntegerOverflowError
        As in `semiring.einsum`.

    Notes
    -----
    The gradient is that of `matmul`, through all pairwise contractions. For a selective ⊕ it flows to the selected
    entries. For log_plus it is the posterior of the labels, and for plus_times it is exact. The cost is that of
    `semiring.einsum_path`, and backwards the cost of `matmul` for each of its products.

    Examples
    --------
    >>> A, x = torch.tensor([[0.0, 3.0], [7.0, 1.0]], requires_grad=True), torch.tensor([1.0, 5.0])
    >>> best = einsum("i,ij->", x, A, semiring="max_plus")
    >>> best.backward()
    >>> best.item(), A.grad.tolist()
    (12.0, [[0.0, 0.0], [1.0, 0.0]])
    """
    form, tensors = split_arguments((subscripts, *operands))
    if not tensors:
        raise TypeError("einsum takes at least one operand, as in einsum('ij->i', A)")
    _check_tensors(**{f"operand {place}": x for place, x in enumerate(tensors)})
    key, dtype = _semiring_key(semiring), tensors[0].dtype
    if _records_gradients(*tensors):
        _gradient_rule(key)
    if _is_rounded(tensors[0]):
        tensors = [x.float() for x in tensors]
    notation, sizes, path = _find_order(form, tuple(tuple(x.shape) for x in tensors), optimize, key)
    ops = _TensorOperations(semiring, check)
    result: Tensor = contract(ops, prepare_terms(ops, Notation(*notation), dict(sizes), tensors), path, notation[1])
    return result.to(dtype)


class _TensorOperations:
    """The implementation of `TermOperations` for tensors, by differentiable functions alone."""

    def __init__(self, semiring: Semiring | str | None, check: bool) -> None:
        self.semiring, self.check = semiring, check

    def strides(self, x: Tensor) -> tuple[int, ...]:
        return tuple(x.stride())

    def diagonal(self, x: Tensor, first: int, second: int) -> Tensor:
        return x.diagonal(0, first, second)

    def group_axes(self, x: Tensor, groups: Any) -> Tensor:
        shape = [math.prod([x.shape[axis] for axis in group]) for group in groups]
        return x.permute([axis for group in groups for axis in group]).reshape(shape)

    def reshape(self, x: Tensor, shape: Any) -> Tensor:
        return x.reshape(tuple(shape))

    def align(self, x: Tensor, axes: Any) -> Tensor:
        view = x.permute([axis for axis in axes if axis is not None])
        return view[tuple(None if axis is None else slice(None) for axis in axes)] if None in axes else view

    def product(self, left: Tensor, right: Tensor, names: Any) -> Tensor:
        return matmul(left, right, self.semiring, check=self.check)

    def entrywise(self, left: Tensor, right: Tensor, names: Any) -> Tensor:
        result: Tensor = operators.multiply(left, right, _semiring_key(self.semiring), self.check)
        return result

    def sum_axes(self, x: Tensor, axes: Any, name: str) -> None:
        """Return None, because a sum is computed as a product with ones, as in `reduce`."""

    def ones(self, x: Tensor, shape: tuple[int, int]) -> Tensor:
        return torch.full(
            shape, _zero_and_one(_semiring_key(self.semiring), _dtype_name(x))[1], dtype=x.dtype, device=x.device
        )

    def verify(self, x: Tensor, name: str) -> None:
        """Do nothing, because entries that are part of no product and no sum are returned unchanged."""


def _arrange_sequence(
    As: Tensor,
    x: Tensor | None,
    semiring: Semiring | str | None,
    weights: Tensor | None,
    lengths: Any,
    steps: int | None,
) -> tuple[Any, ...]:
    """Return the arguments of the operators of sequences."""
    named = {"As": As, "x": x, "weights": weights}
    tensors = {name: tensor for name, tensor in named.items() if tensor is not None}
    _check_tensors(**tensors)
    if _is_rounded(As):
        As, x, weights = (tensor if tensor is None else tensor.float() for tensor in (As, x, weights))
    key, square = _semiring_key(semiring), x is None
    if _records_gradients(*tensors.values()):
        _gradient_rule(key)
    if lengths is not None:
        lengths = torch.as_tensor(lengths, device=As.device)
        if lengths.is_floating_point() or lengths.dtype == torch.bool:
            raise DTypeError(f"lengths has dtype {lengths.dtype}: lengths are whole numbers of steps")
    if x is None:
        zero, one = _zero_and_one(key, _dtype_name(As))
        n = As.shape[-1] if As.dim() else 0
        x = torch.full((n, n), zero, dtype=As.dtype, device=As.device).fill_diagonal_(one)
    return *arrange_chain(torch, As, x, weights, lengths, steps, square=square), key


def _replace_empty_paths(A: Tensor, star: Tensor, semiring: Semiring | str | None, rule: Rule | None) -> Tensor:
    """Return A⁺ from A*. For a selective ⊕ they differ only on the diagonal, because of the empty path."""
    if rule != "selective":
        return matmul(A, star, semiring, check=False)
    loops = matmul(star.unsqueeze(-2), A.mT.unsqueeze(-1), semiring, check=False)
    diagonal = torch.eye(A.shape[-1], dtype=torch.bool, device=A.device)
    return torch.where(diagonal, loops.squeeze(-1), star)


def _check_tensors(**tensors: Tensor) -> None:
    """Raise `TypeError`, `DTypeError` or `DeviceError` unless all are dense tensors of one dtype and one device."""
    first = next(iter(tensors.values()))
    for name, x in tensors.items():
        if not isinstance(x, torch.Tensor):
            raise TypeError(f"{name} is a {type(x).__name__}: semiring.torch takes tensors (see semiring.matmul)")
        if x.layout != torch.strided:
            raise TypeError(f"{name} is {x.layout}: a dense tensor is needed, {name}.to_dense() with 0̄ for no edge")
        if x.dtype != first.dtype:
            raise DTypeError(f"A has dtype {first.dtype}, {name} {x.dtype}: convert one, {name}.to({first.dtype})")
        if x.device != first.device:
            raise DeviceError(f"A is on {first.device}, {name} on {x.device}: move one, {name}.to('{first.device}')")


def _is_rounded(x: Tensor) -> bool:
    """Return whether float16 and bfloat16 are computed in float32 and rounded once: see `encoding.is_rounded`."""
    return x.device.type == "cpu" and x.dtype in (torch.float16, torch.bfloat16)


def _check_shapes(A: Tensor, B: Tensor, left: Tensor, right: Tensor) -> None:
    """Raise `ShapeError` unless the product of two stacks of matrices exists."""
    shapes = f"A is {tuple(A.shape)}, B is {tuple(B.shape)}"
    if left.shape[-1] != right.shape[-2]:
        raise ShapeError(f"{shapes}: inner sizes {left.shape[-1]} and {right.shape[-2]} differ")
    for one, other in zip(reversed(left.shape[:-2]), reversed(right.shape[:-2]), strict=False):
        if one != other and 1 not in (one, other):
            raise ShapeError(f"{shapes}: their leading dimensions do not broadcast")


def _records_gradients(*tensors: Tensor) -> bool:
    return torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors)


# The compiler does not trace the next functions. It treats their results as constants.


@torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]
def _semiring_key(semiring: Semiring | str | None) -> str:
    return key_of(semiring)


@torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]
def _gradient_rule(key: str) -> Rule:
    return rule_of(semiring_of(key))


@torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]
def _find_order(
    subscripts: Subscripts, shapes: tuple[tuple[int, ...], ...], optimize: Any, key: str
) -> tuple[Any, ...]:
    """Return the labels of the operands and of the result, the size of each label, and the path."""
    notation, sizes = read_notation(subscripts, shapes)
    commutative = len(shapes) < 3 or semiring_of(key).commutative
    return tuple(notation), tuple(sizes.items()), find_order(notation, sizes, optimize, commutative).path


@torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]
def _zero_and_one(key: str, dtype: str) -> tuple[Any, Any]:
    """Return 0̄ and 1̄ as Python numbers."""
    semiring = semiring_of(key)
    kind = np.dtype(np.float32 if dtype == "bfloat16" else dtype)
    return semiring.zero_for(kind).item(), semiring.one_for(kind).item()


def _dtype_name(x: Tensor) -> str:
    """Return the name of the dtype in NumPy."""
    return str(x.dtype).removeprefix("torch.")
