"""Multiply matrices, vectors and stacks of matrices, and compute powers."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias, TypedDict, Unpack, overload

import numpy as np
from numpy.typing import NDArray

from semiring.algebra import Semiring
from semiring.algebra.catalogue import as_semiring
from semiring.arguments import require_integer
from semiring.arrays.bits import BitMatrix
from semiring.arrays.encoding import Scan, has_inner_zero, round_to_dtype, to_compute_dtype
from semiring.arrays.labels import is_labelled, labelled_product, labelled_square
from semiring.arrays.memory import new_array
from semiring.arrays.operands import as_matrix, as_output, operands, result_converter, run_on_operand_device, store
from semiring.errors import AlgebraError, ShapeError, inner_size_error, square_error
from semiring.linalg import packed
from semiring.linalg.dispatch import (
    batch_shape,
    choose_destination,
    may_wrap,
    multiply_into,
    multiply_with_witness,
    reveals_invalid_entries,
    scan_operands,
)
from semiring.linalg.elementwise import identity
from semiring.linalg.product_explanation import ProductExplanation, record_product
from semiring.linalg.sparse_products import has_sparse, multiply_sparse, sparse_identity
from semiring.namespaces import Array, array_namespace, is_device_array
from semiring.progress import Progress, report_progress

__all__ = ["demand_selective", "matmul", "power"]


class _KernelOptions(TypedDict, total=False):
    """The options of `matmul` that functions for other operands take, too."""

    mask: Any
    complement: bool
    out: Any
    check: bool
    threads: int | None
    device: Any


class _ProductOptions(_KernelOptions, total=False):
    """The options of every overload of `matmul`."""

    progress: Progress | bool | None


_ArrayOrList: TypeAlias = NDArray[Any] | list[Any]


@overload
def matmul(
    A: BitMatrix,
    B: BitMatrix,
    semiring: Semiring | str | None = ...,
    *,
    return_witness: Literal[False] = ...,
    explain: Literal[False] = ...,
    **options: Unpack[_ProductOptions],
) -> BitMatrix: ...
@overload
def matmul(
    A: BitMatrix,
    B: BitMatrix,
    semiring: Semiring | str | None = ...,
    *,
    return_witness: Literal[True],
    explain: Literal[False] = ...,
    **options: Unpack[_ProductOptions],
) -> tuple[BitMatrix, NDArray[Any]]: ...
@overload
def matmul(
    A: _ArrayOrList,
    B: _ArrayOrList,
    semiring: Semiring | str | None = ...,
    *,
    return_witness: Literal[False] = ...,
    explain: Literal[False] = ...,
    **options: Unpack[_ProductOptions],
) -> NDArray[Any]: ...
@overload
def matmul(
    A: _ArrayOrList,
    B: _ArrayOrList,
    semiring: Semiring | str | None = ...,
    *,
    return_witness: Literal[True],
    explain: Literal[False] = ...,
    **options: Unpack[_ProductOptions],
) -> tuple[NDArray[Any], NDArray[Any]]: ...
@overload
def matmul(
    A: Any,
    B: Any,
    semiring: Semiring | str | None = ...,
    *,
    return_witness: Literal[True],
    explain: Literal[False] = ...,
    **options: Unpack[_ProductOptions],
) -> tuple[Any, Any]: ...
@overload
def matmul(
    A: Any,
    B: Any,
    semiring: Semiring | str | None = ...,
    *,
    return_witness: bool = ...,
    explain: Literal[True],
    **options: Unpack[_ProductOptions],
) -> tuple[Any, ProductExplanation]: ...
@overload
def matmul(
    A: Any,
    B: Any,
    semiring: Semiring | str | None = ...,
    *,
    return_witness: bool = ...,
    explain: bool = ...,
    **options: Unpack[_ProductOptions],
) -> Any: ...
@run_on_operand_device
def matmul(
    A: Any,
    B: Any,
    semiring: Semiring | str | None = None,
    *,
    mask: Any = None,
    complement: bool = False,
    return_witness: bool = False,
    explain: bool = False,
    out: Any = None,
    check: bool = True,
    threads: int | None = None,
    device: Any = None,
    progress: Progress | bool | None = None,
) -> Any:
    """Return the product C[i, j] = ⊕ₖ A[i, k] ⊗ B[k, j], and on request the k that attains each entry.

    Parameters
    ----------
    A, B : array_like, shapes (..., m, k) and (..., k, n)
        Matrices, or stacks of them whose leading dimensions broadcast, as in NumPy's matmul. A 1-D operand is one row
        (left) or one column (right), and the result lacks that dimension. They may be lists, read-only and strided
        arrays, sparse matrices of SciPy and CuPy, sparse tensors of PyTorch (CSR, CSC, COO) and BCOO arrays of JAX, or
        `BitMatrix` for a semiring on bool, with a `BitMatrix` as result. What a sparse matrix does not store is the
        zero; its stored entries count, also if they are 0 or the zero, and ⊕ adds entries that are stored twice. The
        columns of A and the rows of B of pandas frames and series are matched by label. The result has the rows of A
        and the columns of B. Arrays and sparse matrices on a GPU (CuPy, PyTorch, JAX, Numba) are multiplied there, on
        the current stream, and so is the result.
    semiring : Semiring or str, optional
        A `Semiring` or the name of one in the catalogue. The default is min-plus.
    mask : sparse matrix or array of bool, shape (m, n), optional
        Compute only these entries of a product of matrices: the stored entries of a sparse mask, whatever their values,
        or the True entries of an array. The result is sparse then, for operands of any kind. For a product of a matrix
        and a vector the mask is an array of bool of the shape of the result. The result is an array then, and its
        other entries are the zero.
    complement : bool, default False
        Compute the entries outside the mask instead. In a dense result the masked entries are the zero. A dense matrix
        is computed whole for this.
    return_witness : bool, default False
        Return (C, K), for a selective ⊕. C[i, j] = A[i, k] ⊗ B[k, j] for k = K[i, j].
    explain : bool, default False
        Return (r, explanation), where r is what the call returns otherwise. The explanation prints the kernel, the
        encoding, the dtype of the sums, the threads, the device and the number of pairs.
    out : array, optional
        An array of the product's shape and dtype, for the result. It may be one of the operands. A sparse result has no
        ``out``.
    check : bool, default True
        Scan every entry for NaN and the domain. Without it, no error that depends on the data is raised. Integers of
        min-plus and max-plus are then assumed to be at most a sixth of their dtype's range in magnitude. Those of
        plus_times are computed modulo 2ᵇ. On a GPU the call waits once, for the scan. Without the scan it does not
        wait, unless an operand is sparse.
    threads : int, optional
        The number of threads, by default that of `set_threads`. The result does not depend on it.
    device : str, optional
        ``"cuda"`` or ``"cuda:1"`` computes on that GPU. Operands in another memory are copied to it, and the result is
        copied back.
    progress : callable or bool, optional
        A function is called as ``progress(done, total)`` during the work, and True draws a bar, as in
        `semiring.closure`.

    Returns
    -------
    array, shape (..., m, n)
        The product, in NumPy's promotion of the operands' dtypes, and in their library and memory. With k = 0 every
        entry is the zero. With ``return_witness`` it is the first of two results. Two sparse matrices, or a mask, give
        a sparse matrix of the class of the first sparse argument, with sorted rows. csr, csc and coo keep their format;
        other formats give csr. It stores every entry that some pair of stored entries reaches, also if its value is
        the zero. One sparse matrix and a dense operand give an array.
    K : array of int32, shape (..., m, n)
        With ``return_witness``, the smallest k that attains each entry, and -1 where C is the zero. The dtype is int64
        for k ≥ 2³¹. K has the labels of C, and counts the columns of A. For a sparse C it is sparse, with the pattern
        of C, and stores k = 0.
    explanation : ProductExplanation
        With ``explain``, the second of two results.

    Raises
    ------
    ShapeError, DTypeError
        If the shapes do not fit, or the semiring is not defined on the dtype.
    DomainError
        If an entry is NaN or outside the domain.
    IntegerOverflowError
        If a result does not fit the dtype. The message names a dtype that would hold it.
    DeviceError
        If the operands are in different memories, or there is no GPU.
    AlgebraError
        If ⊕ is not associative and commutative, or the zero is not its neutral element. With ``return_witness`` if ⊕ is
        not selective, because then no single k attains a sum. For sparse operands if the zero does not annihilate.
    ValueError
        If ``complement`` is given without a mask.
    TypeError
        If ``out`` is given for a sparse result.
    TooLargeError
        If the result of sparse operands does not fit into memory. It is raised before the result is allocated.

    Notes
    -----
    On integers of min-plus and max-plus the extreme value of the dtype is "no path". If sums could leave half the
    dtype's range, a wider dtype is used inside. On integers of plus_times, sums that may leave the dtype are refused.

    It costs m·k·n pairs, and packing buffers: up to 16 MiB for each large operand whose rows are not contiguous. These
    are copied: operands of another dtype, integers that include "no path" or need a wider dtype inside, and a result
    whose ``out`` is an operand. With ``return_witness`` the host takes copies of both operands, and of K in int64.

    A sparse product costs a pair for each A[i, k] and B[k, j] that are stored, and for a mask those at its positions.
    Operands other than csr with sorted rows are copied. The workspace is a copy of the columns of the result, 0.2 n
    bytes for each thread, and 256 MiB. A dense operand of a masked product is copied with its columns. On a GPU such a
    product waits for the device, because it validates the indices and reads the size of a sparse result.

    Examples
    --------
    >>> import numpy as np
    >>> A = np.array([[0, 3], [np.inf, 1]])
    >>> matmul(A, A, "min_plus")
    array([[ 0.,  3.],
           [inf,  2.]])
    >>> matmul(A, [5, 1])
    array([4., 2.])
    >>> matmul([[4, 1]], [[1, 2], [7, 1]], return_witness=True)
    (array([[5., 2.]]), array([[0, 1]], dtype=int32))
    >>> C, explanation = matmul(A, A, explain=True, threads=1)
    >>> print(explanation)
    matmul in min_plus, float64
      kernel   product, on cpu with 1 thread
      encoding float64, as given
      sums     in float64
      cost     8 pairs of ⊗ and ⊕
    """
    semiring = as_semiring(semiring)
    if complement and mask is None:
        raise ValueError("complement=True needs a mask: pass mask=, whose entries are left out")
    if progress is not None and progress is not False:
        rest: _KernelOptions = {"out": out, "check": check, "threads": threads, "device": device}
        rest |= {"mask": mask, "complement": complement}
        with report_progress(progress, "product"):
            result = matmul(A, B, semiring, return_witness=return_witness, explain=explain, **rest)
            if any(is_device_array(getattr(x, "words", x)) for x in (A, B)):
                from semiring.arrays.device import wait_for_stream

                wait_for_stream()
        return result
    if explain:
        with record_product(semiring.name, "matmul") as explanation:
            rest = {"out": out, "check": check, "threads": threads, "device": device}
            rest |= {"mask": mask, "complement": complement}
            return matmul(A, B, semiring, return_witness=bool(return_witness), **rest), explanation
    if return_witness:
        demand_selective(semiring)
    if mask is not None or not (type(A) is np.ndarray and type(B) is np.ndarray):
        has_other_form = any(isinstance(x, BitMatrix) or is_labelled(x) for x in (A, B))
        if mask is not None and has_other_form:
            raise TypeError(
                "mask= takes arrays and sparse matrices: pass the values of frames, and unpack() packed bits"
            )
        if mask is not None or (has_sparse(A, B) and not has_other_form):
            rest = {"out": out, "check": check, "threads": threads, "device": device}
            rest |= {"mask": mask, "complement": bool(complement)}
            return multiply_sparse(A, B, semiring, return_witness=bool(return_witness), **rest)
    if isinstance(A, BitMatrix) or isinstance(B, BitMatrix):
        if return_witness:
            return packed.matmul_with_witness(A, B, semiring, out, threads, device)
        return packed.matmul(A, B, semiring, out, threads, device)
    if (type(A) is not np.ndarray or type(B) is not np.ndarray) and (is_labelled(A) or is_labelled(B)):
        A, B, labelled = labelled_product(A, B)
        options: _KernelOptions = {"out": out, "check": check, "threads": threads, "device": device}
        if return_witness:
            product, witness = matmul(A, B, semiring, return_witness=True, **options)
            return (labelled(product) if out is None else out), labelled(witness)
        product = matmul(A, B, semiring, **options)
        return labelled(product) if out is None else out
    if return_witness:
        return _matmul_with_witness(A, B, semiring, out, check, threads, device)
    arrays = left, right = operands(semiring, device=device, check=check, A=A, B=B)
    scans_result = check and reveals_invalid_entries(semiring, left, right, threads)
    a, b = (Scan(), Scan()) if scans_result else scan_operands(semiring, check, A=left, B=right)
    left, right, shape, axes = _align_dimensions(left, right)
    target = None if out is None else as_output(out, shape, left.dtype, like=left if device is None else None)
    result = choose_destination(None if scans_result else target, shape, left.dtype, left, right)
    C = result[axes] if axes else result
    if left.shape[-1] and C.size:
        multiply_into(semiring, C, left, right, a, b, threads)
    else:
        C[...] = semiring.zero_for(left.dtype)
    if scans_result and not (np.maximum.reduce(C, axis=None) < np.inf):  # NaN included
        scan_operands(semiring, True, A=arrays[0], B=arrays[1])
    if target is None:
        return result_converter(A, B)(result if result.ndim else result[()])
    if result is not target:
        store(target, result)
    return out


def _align_dimensions(A: Array, B: Array) -> tuple[Array, Array, tuple[int, ...], tuple[Any, ...]]:
    """Return operands with two or more dimensions, the result's shape, and the index that gives the result two axes."""
    if not A.ndim or not B.ndim:
        raise ShapeError(f"A is {A.shape}, B is {B.shape}: a scalar is no operand of a product (see multiply)")
    left, right = A[None, :] if A.ndim == 1 else A, B[:, None] if B.ndim == 1 else B
    if left.shape[-1] != right.shape[-2]:
        raise inner_size_error(A.shape, B.shape)
    batch = batch_shape(left, right) if left.ndim + right.ndim > 4 else ()
    rows = left.shape[-2:-1] if A.ndim > 1 else ()
    columns = right.shape[-1:] if B.ndim > 1 else ()
    row, column = A.ndim == 1, B.ndim == 1
    axes = (..., None, None) if row and column else (..., None, slice(None)) if row else (..., None) if column else ()
    return left, right, batch + rows + columns, axes


def demand_selective(semiring: Semiring) -> None:
    """Raise `AlgebraError` unless ⊕ is selective, so that one term attains a sum."""
    if not semiring.selective:
        raise AlgebraError(f"{semiring.name} has no witnesses: x ⊕ y is not always one of x and y")


def _matmul_with_witness(
    A: Any, B: Any, semiring: Semiring, out: Any, check: bool, threads: int | None, device: Any
) -> tuple[Any, Any]:
    """Return the product of operands without labels, and its witness."""
    left, right = operands(semiring, device=device, check=check, A=A, B=B)
    a, b = scan_operands(semiring, check, A=left, B=right)
    left, right, shape, axes = _align_dimensions(left, right)
    target = None if out is None else as_output(out, shape, left.dtype, like=left if device is None else None)
    xp = array_namespace(left)
    result = new_array(xp, shape, left.dtype)
    result.fill(semiring.zero_for(left.dtype))
    witness = xp.full(shape, -1, np.int32 if left.shape[-1] < 2**31 else np.int64)
    C, W = result[axes], witness[axes]
    if left.shape[-1] and C.size:
        multiply_with_witness(semiring, C, W, left, right, a, b, threads)
    restore = result_converter(A, B)
    places = restore(witness if witness.ndim else witness[()])
    if target is None:
        return restore(result if result.ndim else result[()]), places
    store(target, result)
    return out, places


@run_on_operand_device
def power(
    A: Any,
    k: int,
    semiring: Semiring | str | None = None,
    *,
    check: bool = True,
    threads: int | None = None,
    device: Any = None,
) -> Any:
    """Return Aᵏ = A ⊗ … ⊗ A by repeated squaring.

    A⁰ is the identity. In min-plus, entry (i, j) is the least weight of a walk of exactly k edges.

    Parameters
    ----------
    A : array_like, shape (n, n)
        A dense or sparse matrix, a square frame, or a `BitMatrix`.
    k : int
        The exponent, at least 0.
    semiring : Semiring or str, optional
        A `Semiring` or the name of one in the catalogue. The default is min-plus.
    check : bool, default True
        Scan every entry for NaN and the domain, as in `matmul`.
    threads : int, optional
        The number of threads, by default that of `get_threads`.
    device : str, optional
        ``"cuda"`` or ``"cuda:1"`` computes on that GPU, as in `matmul`.

    Returns
    -------
    array, shape (n, n)
        The power, in the dtype, library and memory of A. A frame gives a frame, a `BitMatrix` a `BitMatrix`, and a
        sparse matrix a sparse matrix.

    Raises
    ------
    ValueError
        If k is negative.
    TypeError
        If k is not an integer.
    ShapeError
        If A is not a square matrix.
    DTypeError, DomainError, IntegerOverflowError, DeviceError, AlgebraError
        As in `matmul`.

    Notes
    -----
    It costs at most 2·log₂ k products and three matrices. On a GPU, integers of min-plus and max-plus are scanned
    before every product, and the call waits for each scan.

    Examples
    --------
    >>> power([[0, 2], [float("inf"), 1]], 3)
    array([[ 0.,  2.],
           [inf,  3.]])
    """
    semiring, exponent = as_semiring(semiring), require_integer(k, "the exponent")
    if exponent < 0:
        raise ValueError(f"the exponent is {exponent}: a matrix over a semiring has no inverse, so k is at least 0")
    if isinstance(A, BitMatrix):
        return packed.power(A, exponent, semiring, threads, device)
    if has_sparse(A):
        return _sparse_power(A, exponent, semiring, check, threads, device)
    if is_labelled(A):
        labelled_matrix = labelled_square(A)
        return labelled_matrix.restore(
            power(labelled_matrix.matrix, exponent, semiring, check=check, threads=threads, device=device)
        )
    matrix = as_matrix(A, semiring, square=True, device=device, check=check)
    scan_operands(semiring, check, A=matrix)
    restore, base = result_converter(A), to_compute_dtype(matrix, semiring)
    if exponent == 0:
        device_name = "cuda" if is_device_array(base) else None
        return restore(identity(base.shape[0], semiring, matrix.dtype, device=device_name))
    # Entries of products are elements again. Integers must be scanned every time, for "no path" and their range.
    needs_scan = check and (has_inner_zero(semiring, base.dtype) or may_wrap(semiring, base.dtype))
    result: Array | None = None
    while True:
        if exponent & 1:
            result = (
                base.copy() if result is None else matmul(result, base, semiring, check=needs_scan, threads=threads)
            )
        exponent >>= 1
        if result is not None and not exponent:
            return restore(round_to_dtype(result, matrix.dtype))
        base = matmul(base, base, semiring, check=needs_scan, threads=threads)


def _sparse_power(A: Any, exponent: int, semiring: Semiring, check: bool, threads: int | None, device: Any) -> Any:
    """Return a power of a sparse matrix, as a sparse matrix of its class."""
    if A.shape[0] != A.shape[1]:
        raise square_error(A.shape, "A")
    result, base = sparse_identity(A, semiring, check, device), A
    while exponent:
        if exponent & 1:
            result = multiply_sparse(result, base, semiring, check=check, threads=threads, device=device)
        exponent >>= 1
        if exponent:
            base = multiply_sparse(base, base, semiring, check=check, threads=threads, device=device)
    return result
