"""Provide gemm, gemv, ger, axpy and dot of the BLAS over any semiring."""

from __future__ import annotations

from math import isinf
from typing import Any

import numpy as np

from semiring.advice import quote
from semiring.algebra import Semiring
from semiring.algebra.catalogue import as_semiring
from semiring.algebra.expressions import typed_constant
from semiring.algebra.expressions.tree import is_floating
from semiring.arguments import require_flag
from semiring.arrays.bits import BitMatrix
from semiring.arrays.encoding import (
    Encoding,
    Scan,
    check_entries,
    decode,
    has_inner_zero,
    inner_zero,
)
from semiring.arrays.operands import (
    as_array,
    as_host_operand,
    as_output,
    common_dtype,
    operands,
    require_real_numbers,
    result_converter,
    run_on_operand_device,
    store,
)
from semiring.arrays.tensors import is_cupy_matrix, is_sparse_tensor, stored_values
from semiring.errors import DeviceError, DTypeError, ShapeError
from semiring.linalg import packed
from semiring.linalg.dispatch import (
    choose_destination,
    choose_encoding,
    demand_products,
    demand_range,
    encode_operand,
    engine_for,
    magnitudes,
    may_wrap,
    scan_operands,
    scanned_magnitude,
)
from semiring.linalg.elementwise import add, multiply, scaled_sum
from semiring.linalg.products import matmul
from semiring.linalg.sparse_products import has_sparse, is_on_device
from semiring.namespaces import Array, array_namespace, is_device_array, shape_of
from semiring.thread_counts import check_threads

__all__ = ["axpy", "dot", "gemm", "gemv", "ger"]


def _resolve_semiring(operand: Any, name: str, semiring: Semiring | str | None) -> Semiring:
    """Return the semiring, and raise `TypeError` if the operand before it, a matrix in BLAS, is a semiring."""
    if isinstance(operand, str | Semiring):
        raise TypeError(f"{quote(operand)} is given for {name}: pass it as semiring={quote(operand)}")
    return as_semiring(semiring)


def _check_addend(addend: Any, name: str, beta: Any, semiring: Semiring) -> None:
    """Raise `ValueError` unless an addend and its factor β are given together.

    An addend without β has two readings: SciPy and BLAS 95 take β = 0̄ and ignore it, `ger` and `axpy` add it.
    """
    if beta is not None and addend is None:
        raise ValueError(f"beta is given, but no {name} for it to scale")
    if beta is None and addend is not None:
        one = semiring.one.text.replace("inf", "np.inf")
        raise ValueError(
            f"{name} is given, but no beta: pass beta={one}, the one of {semiring.name}, to add {name} as it is, or "
            f"leave {name} out; out= says where the result goes"
        )


def _read_flips(transpose: Any) -> tuple[bool, bool]:
    """Return ``transpose=`` of `gemm`, one truth value for A and one for B. Raises `TypeError` for anything else."""
    pair = tuple(transpose) if isinstance(transpose, tuple | list) else ()
    if len(pair) != 2 or not all(isinstance(flip, bool | np.bool_) for flip in pair):
        raise TypeError(f"transpose is (for A, for B), such as (True, False) for Aᵀ ⊗ B, and not {quote(transpose)}")
    return bool(pair[0]), bool(pair[1])


@run_on_operand_device
def gemm(
    A: Any,
    B: Any,
    C: Any = None,
    semiring: Semiring | str | None = None,
    *,
    alpha: Any = None,
    beta: Any = None,
    transpose: tuple[bool, bool] = (False, False),
    mask: Any = None,
    complement: bool = False,
    out: Any = None,
    check: bool = True,
    threads: int | None = None,
    device: Any = None,
) -> Any:
    """Return (α ⊗ A ⊗ B) ⊕ (β ⊗ C), in this order of factors.

    Parameters
    ----------
    A, B : array_like, shapes (m, k) and (k, n)
        The factors, of the kinds that `matmul` takes. Labels of frames are not matched.
    C : array_like, shape (m, n), optional
        The addend, which needs β.
    semiring : Semiring or str, optional
        A `Semiring` or the name of one in the catalogue. The default is min-plus.
    alpha, beta : scalar, optional
        Numbers of the host, which take part in NumPy's promotion of the dtypes. α is 1̄ by default. C and β are given
        together, as in BLAS, or neither. β = 1̄ adds C unchanged, which is ``beta=0`` in min_plus and max_plus. With β
        = 0̄ **C is not read**, as in every BLAS.
    transpose : tuple of bool, default (False, False)
        Whether to transpose A, and whether to transpose B, as views and never as copies.
    mask : sparse matrix or array of bool, shape (m, n), optional
        Compute only these entries of A ⊗ B, as in `matmul`. C is added whole.
    complement : bool, default False
        Compute the entries outside the mask instead.
    out : array, shape (m, n), optional
        The array for the result. It may be C itself, or any operand.
    check : bool, default True
        Scan every entry for NaN and the domain, as in `matmul`.
    threads : int, optional
        The number of threads, by default that of `get_threads`.
    device : str, optional
        ``"cuda"`` or ``"cuda:1"`` computes on that GPU, as in `matmul`.

    Returns
    -------
    array, shape (m, n)
        The result in NumPy's promotion of the dtypes, or ``out``. A `BitMatrix` operand gives a `BitMatrix`. Operands
        that are all sparse, or a mask and no dense C, give a sparse matrix, for which there is no ``out``.

    Raises
    ------
    ValueError
        If only one of C and β is given, or ``complement`` without a mask.
    TypeError
        If a semiring is given for C, ``transpose`` is not two truth values, or ``out`` is given for a sparse result.
    ShapeError
        If an operand is not a matrix, α or β is not a scalar, or the shapes do not fit.
    DTypeError
        If the semiring is not defined on the dtype, or the dtype does not hold α or β.
    DeviceError
        If α or β is on a GPU, the operands are in different memories, or there is no GPU.
    DomainError, IntegerOverflowError, AlgebraError
        As in `matmul`.

    Notes
    -----
    It costs m·k·n pairs, two copies of A if α is not 1̄, and two copies of C if β is not 1̄.

    Examples
    --------
    >>> import numpy as np
    >>> A, C = np.array([[0.0, 2.0], [1.0, 0.0]]), np.array([[9.0, 1.0], [0.0, 9.0]])
    >>> gemm(A, A, C, "min_plus", alpha=5, beta=0)
    array([[5., 1.],
           [0., 5.]])
    >>> gemm(A, A, C)
    Traceback (most recent call last):
        ...
    ValueError: C is given, but no beta: pass beta=0, the one of min_plus, to add C as it is, or leave C out; ...
    >>> gemm(A, A, transpose=(False, True))
    array([[0., 1.],
           [1., 0.]])
    """
    semiring = _resolve_semiring(C, "C", semiring)
    _check_addend(C, "C", beta, semiring)
    flips = _read_flips(transpose)
    masking: Any = {"mask": mask, "complement": complement}
    read = {"A": A, "B": B} | ({} if C is None else {"C": C})
    if mask is None and not complement and any(isinstance(x, BitMatrix) for x in (A, B, C)):
        return packed.gemm(A, B, C, semiring, alpha, beta, flips, out, threads, device)
    if mask is not None or complement or has_sparse(A, B, C):
        left, right = (_transposed(x) if flip else x for x, flip in zip((A, B), flips, strict=True))
        result = _sparse_gemm(semiring, left, right, C, alpha, beta, masking, out, check, threads, device)
        if has_sparse(result) and has_sparse(A):  # a transpose has another format than its matrix
            return _in_format_of(result, A)
        return result
    arrays, first, second = _gather_operands(semiring, alpha, beta, read, device, check)
    for name, array in arrays.items():
        if array.ndim != 2:
            raise ShapeError(f"{name} is {array.shape}: gemm takes matrices (see matmul for stacks of them)")
    left, right = (arrays[name].T if flip else arrays[name] for name, flip in zip("AB", flips, strict=True))
    result = _compute_gemm(
        semiring, left, right, arrays.get("C"), first, second, out, check, threads, may_cross_memory=device is not None
    )
    return result_converter(A, B, *read.values())(result) if out is None else out


@run_on_operand_device
def gemv(
    A: Any,
    x: Any,
    y: Any = None,
    semiring: Semiring | str | None = None,
    *,
    alpha: Any = None,
    beta: Any = None,
    transpose: bool = False,
    mask: Any = None,
    complement: bool = False,
    out: Any = None,
    check: bool = True,
    threads: int | None = None,
    device: Any = None,
) -> Any:
    """Return (α ⊗ A ⊗ x) ⊕ (β ⊗ y), or the same of Aᵀ in place of A.

    Parameters
    ----------
    A : array_like, shape (m, n)
        The matrix.
    x : array_like, shape (n,)
        The vector, (m,) with ``transpose``.
    y : array_like, shape (m,), optional
        The addend, (n,) with ``transpose``. y and β are given together, or neither.
    semiring : Semiring or str, optional
        A `Semiring` or the name of one in the catalogue. The default is min-plus.
    alpha, beta : scalar, optional
        Factors as in `gemm`. With β = 0̄ y is not read.
    transpose : bool, default False
        Multiply by Aᵀ, a view of A.
    mask : array of bool, shape (m,), optional
        Compute only these entries of A ⊗ x, as in `matmul`. The other ones are the zero, and y is added whole. The
        shape is (n,) with ``transpose``.
    complement : bool, default False
        Compute the entries outside the mask instead.
    out : array, shape (m,), optional
        The array for the result, (n,) with ``transpose``. It may be y itself, or any operand.
    check : bool, default True
        Scan every entry for NaN and the domain, as in `matmul`.
    threads : int, optional
        The number of threads, by default that of `get_threads`.
    device : str, optional
        ``"cuda"`` or ``"cuda:1"`` computes on that GPU, as in `matmul`.

    Returns
    -------
    array, shape (m,)
        The result in NumPy's promotion of the dtypes, or ``out``. It is (n,) with ``transpose``.

    Raises
    ------
    ValueError
        If only one of y and β is given, or ``complement`` without a mask.
    ShapeError
        If A is not a matrix, x or y is not a vector, or the sizes do not fit.
    TypeError, DTypeError, DomainError, IntegerOverflowError, DeviceError, AlgebraError
        As in `gemm`.

    Notes
    -----
    It costs m·n pairs, and copies as `gemm` makes them.

    Examples
    --------
    >>> gemv([[0, 3], [8, 1]], [5, 1])
    array([4., 2.])
    """
    require_flag(transpose, "transpose")
    semiring = _resolve_semiring(y, "y", semiring)
    _check_addend(y, "y", beta, semiring)
    read = {"A": A, "x": x} | ({} if y is None else {"y": y})
    if mask is not None or complement or has_sparse(A, x, y):
        if has_sparse(x, y) or any(len(shape_of(vector)) != 1 for vector in (x, y) if vector is not None):
            raise ShapeError("gemv takes vectors as x and y, which are dense: pass arrays of one dimension")
        masking: Any = {"mask": mask, "complement": complement}
        left = _transposed(A) if transpose else A
        return _sparse_gemm(semiring, left, x, y, alpha, beta, masking, out, check, threads, device)
    arrays, first, second = _gather_operands(semiring, alpha, beta, read, device, check)
    matrix, vector, last = arrays["A"].T if transpose else arrays["A"], arrays["x"], arrays.get("y")
    if matrix.ndim != 2 or vector.ndim != 1 or (last is not None and last.ndim != 1):
        shapes = ", ".join(f"{name} is {array.shape}" for name, array in arrays.items())
        raise ShapeError(f"{shapes}: gemv takes a matrix and vectors")
    if matrix.shape[1] != len(vector):
        sizes = f"inner sizes {matrix.shape[1]} and {len(vector)} differ"
        raise ShapeError(f"A is {matrix.shape}, x is {vector.shape}: {sizes}")
    column = None if last is None else last[:, None]
    like, may_cross_memory = matrix if device is None else None, device is not None
    target = None if out is None else as_output(out, matrix.shape[:1], matrix.dtype, like=like)[:, None]
    right = vector[:, None]
    result = _compute_gemm(
        semiring, matrix, right, column, first, second, target, check, threads, "Axy", may_cross_memory=may_cross_memory
    )
    return result_converter(A, x, y)(result[:, 0]) if out is None else out


@run_on_operand_device
def ger(
    x: Any,
    y: Any,
    A: Any = None,
    semiring: Semiring | str | None = None,
    *,
    alpha: Any = None,
    out: Any = None,
    check: bool = True,
    threads: int | None = None,
    device: Any = None,
) -> Any:
    """Return the rank-one update A ⊕ (α ⊗ x ⊗ yᵀ), or without A the product.

    Parameters
    ----------
    x, y : array_like, shapes (m,) and (n,)
        The vectors.
    A : array_like, shape (m, n), optional
        The matrix to which the product is added.
    semiring : Semiring or str, optional
        A `Semiring` or the name of one in the catalogue. The default is min-plus.
    alpha : scalar, optional
        A factor as in `gemm`, by default 1̄.
    out : array, shape (m, n), optional
        The array for the result. It may be A itself.
    check : bool, default True
        Scan every entry for NaN and the domain, as in `matmul`.
    threads : int, optional
        The number of threads, by default that of `get_threads`.
    device : str, optional
        ``"cuda"`` or ``"cuda:1"`` computes on that GPU, as in `matmul`.

    Returns
    -------
    array, shape (m, n)
        The result in NumPy's promotion of the dtypes, or ``out``.

    Raises
    ------
    ShapeError
        If x or y is not a vector, or A has another shape than the product.
    TypeError
        If a semiring is given for A.
    DTypeError, DomainError, IntegerOverflowError, DeviceError, AlgebraError
        As in `gemm`.

    Notes
    -----
    It costs m·n pairs.

    Examples
    --------
    >>> ger([0, 1], [5, 2, 7])
    array([[5., 2., 7.],
           [6., 3., 8.]])
    """
    semiring = _resolve_semiring(A, "A", semiring)
    arrays, first, _ = _gather_operands(
        semiring, alpha, None, {"x": x, "y": y} | ({} if A is None else {"A": A}), device, check
    )
    column, row = arrays["x"], arrays["y"]
    if column.ndim != 1 or row.ndim != 1:
        raise ShapeError(f"x is {column.shape}, y is {row.shape}: ger takes vectors")
    one = None if A is None else semiring.one_for(column.dtype)
    left, right, may_cross_memory = column[:, None], row[None, :], device is not None
    result = _compute_gemm(
        semiring,
        left,
        right,
        arrays.get("A"),
        first,
        one,
        out,
        check,
        threads,
        "xyA",
        may_cross_memory=may_cross_memory,
    )
    return result_converter(x, y, A)(result) if out is None else out


@run_on_operand_device
def axpy(
    alpha: Any,
    x: Any,
    y: Any,
    semiring: Semiring | str | None = None,
    *,
    out: Any = None,
    check: bool = True,
    threads: int | None = None,
    device: Any = None,
) -> Any:
    """Return (α ⊗ x) ⊕ y entry by entry, for α, x and y of shapes that broadcast.

    Parameters
    ----------
    alpha : scalar or array_like
        The left factor, a number or an array.
    x, y : array_like
        Arrays, lists, numbers or SciPy sparse matrices.
    semiring : Semiring or str, optional
        A `Semiring` or the name of one in the catalogue. The default is min-plus.
    out : array, optional
        An array of the result's shape and dtype, for the result. It may be an operand.
    check : bool, default True
        Scan every entry for NaN and the domain, as in `matmul`.
    threads : int, optional
        The number of threads, by default that of `get_threads`. One thread computes, because memory bounds the time.
    device : str, optional
        ``"cuda"`` or ``"cuda:1"`` computes on that GPU, as in `matmul`.

    Returns
    -------
    array
        The result in the shape to which all three broadcast, in NumPy's promotion of their dtypes, or ``out``.

    Raises
    ------
    ShapeError, DTypeError, DomainError, IntegerOverflowError, DeviceError
        As in `multiply`.

    Examples
    --------
    >>> axpy(2, [1, 4], [9, 5])
    array([3., 5.])
    """
    if threads is not None:
        check_threads(threads)
    if has_sparse(x) and has_sparse(y):
        if out is not None:
            raise TypeError("out= is given, and the result is sparse: leave out= away")
        algebra, options = as_semiring(semiring), {"check": check, "device": device}
        return add(multiply(alpha, x, algebra, **options), y, algebra, **options)
    return scaled_sum(as_semiring(semiring), alpha, x, y, out, check, device)


@run_on_operand_device
def dot(
    x: Any,
    y: Any,
    semiring: Semiring | str | None = None,
    *,
    check: bool = True,
    threads: int | None = None,
    device: Any = None,
) -> Any:
    """Return ⊕ᵢ x[i] ⊗ y[i] of two vectors of one length.

    Parameters
    ----------
    x, y : array_like, shape (n,)
        The vectors.
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
    scalar
        The sum, in NumPy's promotion of the dtypes. On a GPU it is an array without dimensions.

    Raises
    ------
    ShapeError
        If x or y is not a vector, or their lengths differ.
    DTypeError, DomainError, IntegerOverflowError, DeviceError, AlgebraError
        As in `matmul`.

    Examples
    --------
    >>> dot([1, 2, 3], [3, 0, 1])
    np.float64(2.0)
    """
    semiring = as_semiring(semiring)
    for name, vector in (("x", x), ("y", y)):
        if isinstance(vector, list | tuple):
            require_real_numbers(vector, name)
    shapes = [vector.shape if is_device_array(vector) else np.shape(vector) for vector in (x, y)]
    for name, shape in zip("xy", shapes, strict=True):
        if len(shape) != 1:
            raise ShapeError(f"{name} has {len(shape)} dimensions: dot takes vectors (see matmul)")
    if shapes[0] != shapes[1]:
        raise ShapeError(f"x is {tuple(shapes[0])}, y is {tuple(shapes[1])}: dot takes vectors of one length")
    return matmul(x, y, semiring, check=check, threads=threads, device=device)


def _in_format_of(result: Any, A: Any) -> Any:
    """Return a sparse result in the format of a sparse matrix of the same library."""
    if hasattr(result, "asformat"):
        return result.asformat(A.format if A.format in ("csr", "csc", "coo") else "csr")
    return result.to_sparse(layout=A.layout) if hasattr(result, "layout") else result


def _transposed(x: Any) -> Any:
    """Return the transpose of an operand of any kind."""
    if is_sparse_tensor(x):
        return x.transpose(0, 1) if hasattr(x, "layout") else x.T  # PyTorch's CSR has no .T
    return x.T if hasattr(x, "T") else np.asarray(x).T


def _sparse_gemm(
    semiring: Semiring,
    A: Any,
    B: Any,
    C: Any,
    alpha: Any,
    beta: Any,
    masking: Any,
    out: Any,
    check: bool,
    threads: int | None,
    device: Any,
) -> Any:
    """Return (α ⊗ A ⊗ B) ⊕ (β ⊗ C) for a sparse operand or a mask: sparse if the product is, and C if there is one.

    ``masking``: the arguments ``mask`` and ``complement`` of `matmul`.
    """
    for name, scalar in (("alpha", alpha), ("beta", beta)):
        if np.ndim(scalar):
            raise ShapeError(f"{name} is {np.shape(scalar)}: it must be a scalar")
    options: Any = {"check": check, "device": device}
    is_dense_sum = C is not None and not has_sparse(C)
    is_masked = masking["mask"] is not None and not masking["complement"] and len(shape_of(B)) == 2
    if out is not None and (is_masked or (has_sparse(A) and has_sparse(B))) and not is_dense_sum:
        raise TypeError("out= is given, and the result is sparse: leave out= away")
    dtype = common_dtype(semiring, *(_values_of(x) for x in (A, B, C) if x is not None))
    # A zero or a one that is ±∞ takes no part in the promotion.
    alpha, beta = (typed_constant(x, dtype) if isinstance(x, float) and isinf(x) else x for x in (alpha, beta))
    scaled = A if alpha is None else multiply(alpha, A, semiring, **options)
    result = matmul(scaled, B, semiring, threads=threads, **masking, **options)
    if C is not None and beta != semiring.zero_for(dtype):
        shape = shape_of(C)
        if shape != tuple(result.shape):
            raise ShapeError(f"the addend is {shape}, the product is {tuple(result.shape)}")
        result = add(result, multiply(beta, C, semiring, **options), semiring, **options)
    if out is None:
        return result
    on_device = any(is_on_device(x) for x in (A, B, C) if x is not None)
    array, like = _values_of(result), result if on_device and device is None else None
    store(as_output(out, result.shape, array.dtype, like=like), array if is_device_array(array) else np.asarray(array))
    return out


def _values_of(x: Any) -> Any:
    """Return an operand as an object that NumPy or CuPy reads, of a sparse one on a GPU its stored values."""
    if not is_on_device(x):
        return as_host_operand(x)
    from semiring.arrays.device import as_cupy

    return as_cupy(stored_values(x) if is_cupy_matrix(x) or is_sparse_tensor(x) else x)


def _gather_operands(
    semiring: Semiring, alpha: Any, beta: Any, inputs: dict[str, Any], device: Any, check: bool
) -> tuple[dict[str, Array], Any, Any]:
    """Return the operands, and α and β as scalars, all of one dtype."""
    scalars = {name: value for name, value in (("alpha", alpha), ("beta", beta)) if value is not None}
    for name, value in scalars.items():
        if is_device_array(value):
            raise DeviceError(f"{name} is an array on a GPU: pass a Python number")
    # A zero or a one that is ±∞ exists in every dtype, as its extreme value, so it takes no part in the promotion.
    infinite = {name for name, value in scalars.items() if isinstance(value, float) and isinf(value)}
    finite = tuple(as_host_operand(value, name) for name, value in scalars.items() if name not in infinite)
    arrays = dict(zip(inputs, operands(semiring, device=device, scalars=finite, check=check, **inputs), strict=True))
    dtype = next(iter(arrays.values())).dtype
    for name, value in scalars.items():
        if name in infinite:
            if not is_floating(dtype) and value not in (semiring.zero.leaf, semiring.one.leaf):
                raise DTypeError(f"{name} is {value}, which {dtype} does not hold")
            scalars[name] = typed_constant(value, dtype)
            continue
        converted = as_array(value, semiring, dtype, name=name)
        if converted.ndim:
            raise ShapeError(f"{name} is {converted.shape}: it must be a scalar")
        scalars[name] = converted[()]
    return arrays, scalars.get("alpha"), scalars.get("beta")


def _compute_gemm(
    semiring: Semiring,
    A: Array,
    B: Array,
    C: Array | None,
    alpha: Any,
    beta: Any,
    out: Any,
    check: bool,
    threads: int | None,
    names: str = "ABC",
    *,
    may_cross_memory: bool = False,
) -> Any:
    """Return (α ⊗ A ⊗ B) ⊕ (β ⊗ C) of arrays of one dtype. α and β are 1̄ if they are None, and C is 0̄ if it is None.

    ``may_cross_memory``: whether the target may be in another memory than the operands.
    """
    dtype, shape = A.dtype, (A.shape[0], B.shape[1])
    if A.shape[1] != B.shape[0]:
        raise ShapeError(
            f"{names[0]} is {A.shape}, {names[1]} is {B.shape}: inner sizes {A.shape[1]} and {B.shape[0]} differ"
        )
    if C is not None and C.shape != shape:
        raise ShapeError(f"{names[2]} is {C.shape}, the product is {shape}")
    zero, one = semiring.zero_for(dtype), semiring.one_for(dtype)
    if beta is not None and beta == zero:
        C = beta = None
    named = dict(zip(names, (A, B) if C is None else (A, B, C), strict=False))
    a, b, c = [*scan_operands(semiring, check, **named), Scan(nonnegative=True)][:3]
    for name, scalar in (("alpha", alpha), ("beta", beta)):
        if scalar is not None and check:
            check_entries(np.asarray(scalar), semiring, name)
    has_product = A.shape[1] > 0 and (alpha is None or alpha != zero)
    addend = C
    alpha, beta = (None if scalar is None or scalar == one else scalar for scalar in (alpha, beta))
    nonnegative = a.nonnegative and b.nonnegative and c.nonnegative and alpha is None and beta is None

    target = None if out is None else as_output(out, shape, dtype, like=None if may_cross_memory else A)
    result = choose_destination(target, shape, dtype, A, B, addend=addend)
    if check and has_inner_zero(semiring, dtype):  # with check=False, the assumed ranges are those of α ⊗ A and β ⊗ C
        a, c = _shift_scan(a, alpha), _shift_scan(c, beta)
    terms = (a, b) if has_product else (Scan(), Scan())
    code = choose_encoding(semiring, result, *terms, c if addend is not None else Scan())
    if check and may_wrap(semiring, dtype):
        scale, factor = (1 if scalar is None else abs(int(scalar)) for scalar in (alpha, beta))
        more = None if addend is None else (addend, c, factor)
        product, added = f"{names[0]} ⊗ {names[1]}", names[2:] if factor == 1 else f"β ⊗ {names[2:]}"
        if has_product:
            what = product if more is None else f"{product} ⊕ {added}"
            demand_products(A, B, a, b, threads, scale=scale, addend=more, result_name=what)
        elif more is not None:
            demand_range(dtype, scanned_magnitude(c) * factor, lambda: magnitudes(addend) * factor, added)
    work = result if code is None or code.dtype == dtype else array_namespace(A).empty(shape, code.dtype)
    engine = engine_for(work, semiring, work.dtype, nonnegative, threads)
    if addend is not None:
        work[...] = _scale(semiring, addend, beta, c, code)
    if has_product:
        left, right = _scale(semiring, A, alpha, a, code), B if code is None else encode_operand(B, semiring, b, code)
        kernel = engine.multiply if addend is None else engine.multiply_add
        kernel(work, left, right)
    elif addend is None:
        work[...] = engine.plan.zero
    if code is not None:
        decode(work, semiring, dtype, limit=code.limit, out=result)
    if target is not None and result is not target:
        store(target, result)
    return result


def _shift_scan(scan: Scan, scalar: Any) -> Scan:
    """Return the range of ``scalar`` ⊗ array in min_plus or max_plus, for the scan of the array."""
    if scalar is None or scan.low is None:
        return scan
    return Scan(scan.low + int(scalar), scan.high + int(scalar), scan.has_zero)


def _scale(semiring: Semiring, array: Array, scalar: Any, scan: Scan, code: Encoding | None) -> Any:
    """Return ``scalar`` ⊗ array in the kernels' encoding, where a zero stays a zero if the semiring annihilates.

    None stands for 1̄.
    """
    if scalar is None:
        return array if code is None else encode_operand(array, semiring, scan, code)
    dtype, xp = array.dtype if code is None else code.dtype, array_namespace(array)
    terms = {"x": dtype.type(scalar), "y": array.astype(dtype, copy=False)}
    product = semiring.mul.expression.evaluate(terms, dtype, xp)
    if not semiring.annihilates:
        return product.astype(dtype, copy=False)
    none = array == semiring.zero_for(array.dtype)
    result = xp.where(none, inner_zero(semiring, dtype), product)
    return result.astype(dtype, copy=False)  # CuPy computes bfloat16 as float32
