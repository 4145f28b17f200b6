"""Provide `einsum`, its plan and its witness for arrays that NumPy or CuPy can read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import prod
from typing import Any, Literal, TypedDict, Unpack, overload

import numpy as np

from semiring.advice import quote
from semiring.algebra import Semiring
from semiring.algebra.catalogue import as_semiring
from semiring.arrays.bits import BitMatrix
from semiring.arrays.encoding import Scan, has_inner_zero, is_rounded, round_to_dtype
from semiring.arrays.labels import is_frame, is_labelled
from semiring.arrays.memory import demand_memory, parse_bytes
from semiring.arrays.operands import operands, result_converter, run_on_operand_device
from semiring.arrays.scans import PIECE
from semiring.errors import DomainError, DTypeError
from semiring.linalg.contraction.notation import Notation, label_number, read_notation, split_arguments
from semiring.linalg.contraction.orders import ContractionOrder, find_order
from semiring.linalg.contraction.plans import ContractionPlan, ContractionProblem, Layout, plan_contraction
from semiring.linalg.contraction.steps import Choice, Choices, contract, contract_blocks, prepare_terms
from semiring.linalg.dispatch import may_wrap, multiply_into, reveals_invalid_entries, scan_operands
from semiring.linalg.elementwise import add, is_sum_of_numpy, multiply, reduce
from semiring.linalg.products import demand_selective, matmul
from semiring.linalg.sparse_products import has_sparse
from semiring.namespaces import Array, array_namespace, is_device_array

__all__ = ["einsum", "einsum_path"]


#: A call with more bytes of intermediate results compares its memory with the free memory.
_UNCHECKED_BYTES = 1 << 28


class ArrayOperations:
    """The implementation of `TermOperations` for arrays of NumPy and CuPy."""

    def __init__(self, semiring: Semiring, dtype: np.dtype[Any], check: bool, threads: int | None) -> None:
        self.semiring, self.check, self.threads = semiring, check, threads
        # Integers are scanned before every product, for "no path" and for their range.
        self.scans_results = check and (has_inner_zero(semiring, dtype) or may_wrap(semiring, dtype))

    def strides(self, x: Array) -> tuple[int, ...]:
        """Return the strides in bytes."""
        return tuple(x.strides)

    def diagonal(self, x: Array, first: int, second: int) -> Any:
        """Return a view that is writable if x is writable, because kernels are compiled again for read-only arrays."""
        axes = [axis for axis in range(x.ndim) if axis not in (first, second)]
        shape, strides = (tuple(values[axis] for axis in axes) for values in (x.shape, x.strides))
        as_strided = array_namespace(x).lib.stride_tricks.as_strided
        return as_strided(x, (*shape, x.shape[first]), (*strides, x.strides[first] + x.strides[second]))

    def group_axes(self, x: Array, groups: Sequence[Sequence[int]]) -> Array:
        """Return x with each group of axes as one axis: a view if strides allow, else a copy."""
        axes = [axis for group in groups for axis in group]
        if all(len(group) == 1 for group in groups):
            return _transpose(x, axes)
        return _transpose(x, axes).reshape([prod(x.shape[axis] for axis in group) for group in groups])

    def reshape(self, x: Array, shape: Sequence[int]) -> Array:
        """Return a view in another shape."""
        return x.reshape(tuple(shape))

    def align(self, x: Array, axes: Sequence[int | None]) -> Array:
        """Return a view with the axes in this order, and an axis of size 1 for None."""
        view = _transpose(x, [axis for axis in axes if axis is not None])
        return view[tuple(None if axis is None else slice(None) for axis in axes)] if None in axes else view

    def product(self, left: Array, right: Array, names: tuple[str, str]) -> Any:
        """Return the product of matrices or stacks. Entries that have not been scanned are scanned here."""
        C = array_namespace(left).empty((*left.shape[:-1], right.shape[-1]), left.dtype)
        unscanned = _select_unscanned(left, right, names)
        if not left.shape[-1] or not C.size:
            scan_operands(self.semiring, self.check, **unscanned)
            C[...] = self.semiring.zero_for(C.dtype)
            return C
        scans_result = (
            bool(unscanned) and self.check and reveals_invalid_entries(self.semiring, left, right, self.threads)
        )
        a, b = (Scan(), Scan()) if scans_result else self._scan(left, right, names)
        multiply_into(self.semiring, C, left, right, a, b, self.threads)
        if scans_result and not (np.maximum.reduce(C, axis=None) < np.inf):  # NaN included
            scan_operands(self.semiring, True, **unscanned)
        return C

    def _scan(self, left: Array, right: Array, names: tuple[str, str]) -> list[Scan]:
        """Return a scan of each operand; floats that are results are elements of the domain, and need no scan."""
        if self.scans_results or not self.check or all(names):
            return scan_operands(self.semiring, self.check, **{names[0] or "left": left, names[1] or "right": right})
        if names[0]:
            return [*scan_operands(self.semiring, True, **{names[0]: left}), Scan()]
        return [Scan(), *scan_operands(self.semiring, True, **{names[1]: right})] if names[1] else [Scan(), Scan()]

    def product_witness(self, left: Array, right: Array, names: tuple[str, str]) -> tuple[Array, Array]:
        """Return the product and its witness."""
        scan_operands(self.semiring, self.check, **_select_unscanned(left, right, names))
        return matmul(left, right, self.semiring, return_witness=True, check=self.scans_results, threads=self.threads)

    def entrywise(self, left: Array, right: Array, names: tuple[str, str]) -> Any:
        """Return the entrywise product, in pieces that need no large workspace."""
        scan_operands(self.semiring, self.check, **_select_unscanned(left, right, names))
        shape, xp = np.broadcast_shapes(left.shape, right.shape), array_namespace(left)
        if is_device_array(left):
            return xp.asarray(multiply(left, right, self.semiring, check=self.scans_results))
        result = np.empty(shape, left.dtype)
        left, right = np.broadcast_to(left, shape), np.broadcast_to(right, shape)
        for piece in _pieces(shape, left.itemsize):
            result[piece] = multiply(left[piece], right[piece], self.semiring, check=self.scans_results)
        return result

    def sum_axes(self, x: Array, axes: Sequence[int], name: str) -> Any | None:
        """Return the sum if a function of NumPy computes it, else None: other sums are faster as products with ones."""
        if not is_sum_of_numpy(self.semiring):
            return None
        if name:
            scan_operands(self.semiring, self.check, **{name: x})
        return array_namespace(x).asarray(reduce(x, self.semiring, tuple(axes), check=self.scans_results))

    def ones(self, x: Array, shape: tuple[int, int]) -> Any:
        """Return a matrix of 1̄."""
        return array_namespace(x).full(shape, self.semiring.one_for(x.dtype), x.dtype)

    def add_into(self, x: Array, y: Array) -> Any:
        """Return x ⊕ y, written into x."""
        if is_device_array(x) or not x.ndim:
            return array_namespace(x).asarray(add(x, y, self.semiring, check=self.scans_results))
        for piece in _pieces(x.shape, x.itemsize):
            x[piece] = add(x[piece], y[piece], self.semiring, check=self.scans_results)
        return x

    def empty(self, x: Array, shape: Sequence[int]) -> Any:
        """Return an uninitialized array of a shape."""
        return array_namespace(x).empty(tuple(shape), x.dtype)

    def verify(self, x: Array, name: str) -> None:
        """Scan the entries of an array."""
        scan_operands(self.semiring, self.check, **{name: x})


def _select_unscanned(left: Array, right: Array, names: tuple[str, str]) -> dict[str, Array]:
    """Return the operands whose entries have not been scanned."""
    return {name: x for name, x in zip(names, (left, right), strict=True) if name}


def _transpose(x: Array, axes: list[int]) -> Array:
    return x if axes == list(range(len(axes))) else array_namespace(x).transpose(x, axes)


def _pieces(shape: tuple[int, ...], itemsize: int) -> Iterator[tuple[Any, ...]]:
    """Return indices of parts of an array of at most `PIECE` bytes, or of one entry."""
    axis, inner = len(shape), itemsize
    while axis and inner * shape[axis - 1] <= PIECE:
        axis -= 1
        inner *= shape[axis]
    if not axis:
        yield (...,)
        return
    step = max(1, PIECE // max(1, inner))
    for outer in np.ndindex(shape[: axis - 1]):
        for start in range(0, shape[axis - 1], step):
            yield (*outer, slice(start, start + step))


# --------------------------------------------------------------------------------------------------- public functions


def _read_operands(
    arguments: Sequence[Any], semiring: Semiring, check: bool, device: Any
) -> tuple[Notation, Mapping[str, int], list[Any], list[Array]]:
    """Return the notation, the sizes of its labels, the caller's operands, and the operands as arrays of one dtype."""
    form, inputs = split_arguments(arguments)
    if not inputs:
        raise TypeError("einsum takes at least one operand, as in einsum('ij->i', A)")
    for place, x in enumerate(inputs):
        if isinstance(x, BitMatrix):
            raise DTypeError(f"operand {place} is a BitMatrix: einsum takes arrays, pass its unpack()")
        if has_sparse(x):
            raise DTypeError(
                f"operand {place} is a sparse matrix, and einsum takes dense arrays: use matmul, multiply and reduce, "
                "or make it dense, by add(A, zeros(A.shape, semiring), semiring)"
            )
        if type(x) is not np.ndarray and (is_frame(x) or is_labelled(x)):
            raise DTypeError(
                f"operand {place} is a {type(x).__name__} with labels of its own, and einsum finds axes by place "
                "alone: pass its to_numpy()"
            )
    named = {f"operand {place}": x for place, x in enumerate(inputs)}
    arrays = operands(semiring, device=device, check=check, **named)
    xp = array_namespace(*arrays)
    arrays = [xp.asarray(x) if isinstance(x, np.generic) else x for x in arrays]  # numbers among arrays on a GPU
    return *read_notation(form, tuple(x.shape for x in arrays)), inputs, arrays


def _find_order(notation: Notation, sizes: Mapping[str, int], optimize: Any, semiring: Semiring) -> ContractionOrder:
    return find_order(notation, sizes, optimize, len(notation.terms) < 3 or semiring.commutative)


def _build_problem(
    notation: Notation,
    sizes: Mapping[str, int],
    order: ContractionOrder,
    semiring: Semiring,
    inputs: list[Any],
    arrays: list[Array],
) -> ContractionProblem:
    """Return the contraction without its entries, for predictions of memory and pairs."""
    halves = is_rounded(arrays[0], semiring)
    itemsize = 4 if halves else arrays[0].itemsize
    is_copied = tuple(halves or getattr(x, "dtype", None) != y.dtype for x, y in zip(inputs, arrays, strict=True))
    layouts = tuple(Layout(tuple(x.shape), tuple(x.strides)) for x in arrays)
    result_itemsize = arrays[0].itemsize if halves else None
    return ContractionProblem(notation, sizes, order.path, semiring, itemsize, layouts, is_copied, result_itemsize)


def _widen(arrays: list[Array], semiring: Semiring) -> None:
    """Replace float16 and bfloat16 arrays of the host by float32, see `semiring.arrays.encoding.is_rounded`."""
    for place, x in enumerate(arrays):
        if is_rounded(x, semiring):
            arrays[place] = x.astype(np.float32)


def _raise_for_operand(error: DomainError, semiring: Semiring, inputs: list[Any], device: Any) -> None:
    """Raise the error with the caller's name of the operand if an operand has an invalid entry."""
    named = {f"operand {place}": x for place, x in enumerate(inputs)}
    scan_operands(semiring, True, **dict(zip(named, operands(semiring, device=device, **named), strict=True)))
    raise error


class _EinsumOptions(TypedDict, total=False):
    """The options of every overload of `einsum`."""

    semiring: Semiring | str
    optimize: Any
    memory: int | str | None
    check: bool
    threads: int | None
    device: Any


@overload
def einsum(
    subscripts: Any,
    *operands: Any,
    return_witness: Literal[False] = ...,
    explain: Literal[False] = ...,
    **options: Unpack[_EinsumOptions],
) -> Any: ...
@overload
def einsum(
    subscripts: Any,
    *operands: Any,
    return_witness: Literal[True],
    explain: Literal[False] = ...,
    **options: Unpack[_EinsumOptions],
) -> tuple[Any, dict[Any, Any]]: ...
@overload
def einsum(
    subscripts: Any,
    *operands: Any,
    return_witness: bool = ...,
    explain: Literal[True],
    **options: Unpack[_EinsumOptions],
) -> tuple[Any, ContractionPlan]: ...
@run_on_operand_device
def einsum(
    subscripts: Any,
    *operands: Any,
    semiring: Semiring | str | None = None,
    return_witness: bool = False,
    explain: bool = False,
    optimize: Any = "auto",
    memory: int | str | None = None,
    check: bool = True,
    threads: int | None = None,
    device: Any = None,
) -> Any:
    """Return a sum of products of arrays in the notation of `numpy.einsum`, and on request the indices that attain it.

    ``einsum("ij,jk->ik", A, B)`` is `matmul`. Labels that the result does not have are summed by ⊕, over the ⊗ of the
    entries of all operands, in their order.

    Parameters
    ----------
    subscripts : str
        The labels of the axes, a letter each, of any alphabet. Everything is as in `numpy.einsum`: ``...`` stands for
        axes that broadcast, and a label twice in a term is a diagonal. A label may stand in any number of terms, and
        axes of size 1 broadcast. Without ``->`` the result has the labels that occur once.
    *operands : array_like
        One array for each term, as in `matmul`. SciPy sparse matrices, frames and `BitMatrix` are refused.
        Without subscripts, arrays and lists of labels alternate.
    semiring : Semiring or str, optional
        A `Semiring` or the name of one in the catalogue. The default is min-plus.
    return_witness : bool, default False
        Return (C, K), for a selective ⊕.
    explain : bool, default False
        Return (r, plan), where r is what the call returns otherwise, and the plan is that of `einsum_path`.
    optimize : str or list of tuple, default "auto"
        How the order of three or more operands is found: the name of a strategy of opt_einsum, or a path, such as
        ``einsum_path(...).path``. If ⊗ does not commute, only neighbours are contracted, and opt_einsum is not needed.
    memory : int or str, optional
        The most bytes, or a text such as ``"2 GiB"``, that the call may hold beside the operands. If it would take
        more, some labels are cut into parts, which are computed in turn.
    check : bool, default True
        Scan the entries that take part for NaN and the domain, as in `matmul`.
    threads : int, optional
        The number of threads, by default that of `get_threads`.
    device : str, optional
        ``"cuda"`` or ``"cuda:1"`` computes on that GPU, as in `matmul`.

    Returns
    -------
    array or scalar
        The result, with an axis for each label of the output. It is in NumPy's promotion of the operands' dtypes, and
        in their library and memory. It may be a view of the only operand. With ``return_witness`` it is the first of
        two results.
    K : dict
        With ``return_witness``, the int32 indices of each summed label, in the shape of the result. Keys are letters,
        or the numbers in lists of labels. The ⊗ of the operands at these indices is the entry. The indices are -1 where
        the entry is the zero.
    plan : ContractionPlan
        With ``explain``, the second of two results.

    Raises
    ------
    ValueError
        For invalid subscripts, and for an ``optimize`` that is neither a strategy nor a path.
    TypeError
        Without operands, or if the subscripts are neither text nor lists of labels.
    AlgebraError
        For a path that exchanges operands of a ⊗ that does not commute. With ``return_witness`` if ⊕ is not selective.
    TooLargeError
        If the free memory or ``memory`` does not suffice.
    StorageError
        If ``memory`` is not a size.
    ShapeError
        If shapes do not fit.
    MissingExtraError
        If opt_einsum is needed, and is not installed.
    DTypeError
        For a frame or a `BitMatrix`, and as in `matmul`.
    DomainError, IntegerOverflowError, DeviceError
        As in `matmul`.

    See Also
    --------
    einsum_path : The cost of a call.

    Notes
    -----
    Each pairwise contraction is one product of stacks of matrices, one sum or one entrywise product. Operands are
    transposed and reshaped without a copy if their strides allow it. float16 and bfloat16 are computed in float32 on
    the host, and rounded once. The order of the operands does not depend on their entries, so equal calls give bitwise
    equal results.

    If several assignments attain an entry, ``return_witness`` returns the same one in every call. In max-plus on
    logarithms it is the most probable explanation. Along a chain it is Viterbi's path. Every step keeps the witness of
    its result, four bytes for each entry.

    Examples
    --------
    >>> import numpy as np
    >>> roads = np.array([[0.0, 3.0], [8.0, 0.0]])
    >>> einsum("ij,jk->ik", roads, roads)
    array([[0., 3.],
           [8., 0.]])
    >>> einsum("ii->i", roads, semiring="max_plus"), einsum("ij->", roads, semiring="max_plus")
    (array([0., 0.]), np.float64(8.0))
    >>> score, where = einsum("i,ij,j->", [1, 5], [[9, 0], [1, 2]], [0, 3], semiring="max_plus", return_witness=True)
    >>> score, {label: int(place) for label, place in where.items()}
    (np.float64(10.0), {'i': 0, 'j': 0})
    """
    algebra = as_semiring(semiring)
    if explain:
        witness: Any = bool(return_witness)  # Any, because the overloads distinguish True and False
        result = einsum(
            subscripts,
            *operands,
            semiring=algebra,
            return_witness=witness,
            optimize=optimize,
            memory=memory,
            check=check,
            threads=threads,
            device=device,
        )
        return result, einsum_path(
            subscripts, *operands, semiring=algebra, optimize=optimize, memory=memory, device=device
        )
    if return_witness:
        demand_selective(algebra)
        if memory is not None:
            raise ValueError("memory= is for a result alone: leave it out, or leave out return_witness=True")
    notation, sizes, inputs, arrays = _read_operands((subscripts, *operands), algebra, check, device)
    order = _find_order(notation, sizes, optimize, algebra)
    dtype = arrays[0].dtype
    blocks: dict[str, int] = {}
    if memory is not None:
        limit = parse_bytes(memory, "memory")
        blocks = plan_contraction(_build_problem(notation, sizes, order, algebra, inputs, arrays), limit).blocks
    elif not return_witness and order.entries * dtype.itemsize > _UNCHECKED_BYTES and not is_device_array(arrays[0]):
        required = _build_problem(notation, sizes, order, algebra, inputs, arrays).memory({})
        demand_memory(required, f"einsum of {quote(notation.text)}", "give memory=, which computes it in parts")
    _widen(arrays, algebra)
    ops = ArrayOperations(algebra, arrays[0].dtype, check, threads)
    choices = Choices(ops.product_witness) if return_witness else None
    try:
        terms = prepare_terms(ops, notation, sizes, arrays)
        if choices is None:
            result = contract_blocks(ops, terms, order.path, notation.output, blocks, sizes)
        else:
            result = contract(ops, terms, order.path, notation.output, choices)
    except DomainError as error:
        _raise_for_operand(error, algebra, inputs, device)
        raise
    restore = result_converter(*inputs)
    where = {} if choices is None else _trace_indices(choices.steps, result, notation.output, algebra)
    result = round_to_dtype(result, dtype)
    restored = restore(result if result.ndim else result[()])
    if choices is None:
        return restored
    labels = {label: where[label] for term in notation.terms for label in term if label not in notation.output}
    return restored, {
        label if isinstance(subscripts, str) else label_number(label): restore(places if places.ndim else places[()])
        for label, places in labels.items()
    }


def einsum_path(
    subscripts: Any,
    *operands: Any,
    semiring: Semiring | str | None = None,
    optimize: Any = "auto",
    memory: int | str | None = None,
    device: Any = None,
) -> ContractionPlan:
    """Return the plan of `einsum` for these operands: its steps, pairs and memory.

    Parameters
    ----------
    subscripts : str
        The labels of the axes, as in `einsum`.
    *operands : array_like
        One array for each term. No entry takes part: the plan depends on shapes, strides and dtypes.
    semiring : Semiring or str, optional
        A `Semiring` or the name of one in the catalogue. The default is min-plus.
    optimize : str or list of tuple, default "auto"
        How the order of three or more operands is found, as in `einsum`.
    memory : int or str, optional
        The most bytes, or a text such as ``"2 GiB"``, that the call may hold beside the operands.
    device : str, optional
        The GPU on which the call would compute, as in `matmul`.

    Returns
    -------
    ContractionPlan
        The plan. Its ``memory`` is the peak of a call on the host, beside the operands.

    Raises
    ------
    ValueError, TypeError, AlgebraError, TooLargeError, StorageError, ShapeError, DTypeError, MissingExtraError
        As in `einsum`.

    Notes
    -----
    Two things are not part of ``memory``: some MiB of packing buffers, which a process keeps, and copies of integers of
    min-plus and max-plus that include "no path". For log_plus it is an upper bound.

    Examples
    --------
    >>> import numpy as np
    >>> A, B, x = np.ones((100, 1000)), np.ones((1000, 1000)), np.ones(1000)
    >>> print(einsum_path("ij,jk,k->i", A, B, x))
    ij,jk,k->i
    contraction  batch × rows × inner × columns      pairs     result
    jk,k->j      1 × 1000 × 1000 × 1             1,000,000      8 KiB
    ij,j->i      1 × 100 × 1000 × 1                100,000  800 bytes
    1,100,000 pairs, 9 KiB of memory
    """
    algebra = as_semiring(semiring)
    notation, sizes, inputs, arrays = _read_operands((subscripts, *operands), algebra, False, device)
    order = _find_order(notation, sizes, optimize, algebra)
    limit = None if memory is None else parse_bytes(memory, "memory")
    return plan_contraction(_build_problem(notation, sizes, order, algebra, inputs, arrays), limit)


def _trace_indices(choices: list[Choice], result: Array, output: str, semiring: Semiring) -> dict[str, Array]:
    """Trace the choices from the last to the first, and return the index of each label in the shape of the result."""
    xp = array_namespace(result)
    matches: dict[str, Array] = {}
    for axis, label in enumerate(output):
        shape = [1] * len(output)
        shape[axis] = -1
        matches[label] = xp.arange(result.shape[axis], dtype=np.int32).reshape(shape)
    none = xp.equal(result, semiring.zero_for(result.dtype))
    if any(0 in choice.sizes for choice in choices):  # the sum has no terms, so every entry is the zero
        absent = xp.full(result.shape, -1, np.int32)
        return matches | {label: absent for choice in choices for label in choice.summed_labels}
    while choices:
        choice = choices.pop()
        places = choice.witness[tuple(matches[label] for label in choice.labels)]
        places = xp.broadcast_to(xp.maximum(places, 0), result.shape)
        for label, size in zip(reversed(choice.summed_labels), reversed(choice.sizes), strict=True):
            matches[label] = (places % size).astype(np.int32)
            places = places // size
    return {label: places if label in output else xp.where(none, -1, places) for label, places in matches.items()}
