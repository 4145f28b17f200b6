"""Multiply sparse matrices of SciPy, CuPy, PyTorch and JAX.

What a matrix does not store is the zero of the semiring. The result of sparse operands is sparse, and its pattern is
structural: an entry that some pair of stored entries reaches is stored, also if its value is the zero. No operand
becomes dense.
"""

from __future__ import annotations

from functools import lru_cache, partial
from math import prod
from typing import Any

import numpy as np

from semiring.algebra import Semiring
from semiring.algebra.catalogue import plus_times
from semiring.algebra.expressions.tree import is_half
from semiring.arrays.compressed import (
    Rows,
    as_rows,
    as_sparse,
    every_entry,
    mask_rows,
    narrow_rows,
    read_mask,
    row_numbers,
)
from semiring.arrays.encoding import Encoding, Scan, convert, decode
from semiring.arrays.memory import demand_memory
from semiring.arrays.operands import (
    as_host_operand,
    as_output,
    common_dtype,
    operands,
    require_real_numbers,
    result_converter,
    store,
)
from semiring.arrays.sparse import is_sparse
from semiring.arrays.tensors import is_cupy_matrix, is_sparse_tensor, other_sparse_error, stored_values
from semiring.errors import AlgebraError, DeviceError, DomainError, ShapeError, inner_size_error
from semiring.kernels import get_backend
from semiring.kernels.contract import CompressedRows, SparseKernels, count_pairs, has_operation
from semiring.linalg.dispatch import (
    batch_shape,
    choose_encoding,
    demand_range,
    encode_operand,
    engine_for,
    may_wrap,
    scan_operands,
    scanned_magnitude,
)
from semiring.linalg.product_explanation import is_recording, pause_recording, record_kernel
from semiring.namespaces import Array, array_namespace, is_device_array
from semiring.progress import in_parts

__all__ = [
    "has_sparse",
    "is_on_device",
    "make_sparse",
    "multiply_rows",
    "multiply_sparse",
    "read_sparse_operands",
    "rows_of_entries",
    "sparse_identity",
]


def has_sparse(*arguments: Any) -> bool:
    """Return whether an argument is a sparse matrix of SciPy or CuPy, a tensor of PyTorch, or a BCOO array of JAX.

    Raises `DTypeError` for the other sparse arrays of JAX.
    """
    for x in arguments:
        kind = type(x)
        if kind is np.ndarray or kind is list:
            continue
        if is_sparse(x) or is_sparse_tensor(x) or is_cupy_matrix(x):
            return True
        if kind.__module__.startswith("jax.experimental.sparse"):
            raise other_sparse_error(x)
    return False


def is_on_device(x: Any) -> bool:
    """Return whether an operand of any kind is on a GPU."""
    return is_cupy_matrix(x) or is_device_array(stored_values(x) if is_sparse_tensor(x) else x)


def read_sparse_operands(
    semiring: Semiring,
    check: bool,
    device: Any,
    threads: int | None = None,
    *,
    may_use_gpu: bool = False,
    **arguments: Any,
) -> tuple[list[Any], list[Scan], np.dtype[Any]]:
    """Return operands of one dtype, `Rows` or NumPy arrays, a scan of each, and the dtype.

    They are CuPy arrays if the operands are on a GPU or a ``device`` is named. Raises `AlgebraError` if the zero does
    not annihilate, because then what is not stored would count, and `DeviceError` for operands on a GPU unless
    ``may_use_gpu``.
    """
    _demand_annihilation(semiring)
    first, *others = arguments
    if others and all(arguments[name] is arguments[first] for name in others):  # A ⊗ A: read once
        options: dict[str, Any] = {"may_use_gpu": may_use_gpu, first: arguments[first]}
        results, scans, dtype = read_sparse_operands(semiring, check, device, threads, **options)
        return results * len(arguments), scans * len(arguments), dtype
    if device is not None or any(map(is_on_device, arguments.values())):
        if not may_use_gpu:
            raise DeviceError(
                "sequences with sparse transitions run on the host: leave out device=, and copy operands to the host"
            )
        from semiring.linalg.device_rows import read_device_operands

        results, found, dtype = read_device_operands(semiring, check, device, arguments)
        if found is None:
            found = [_scan(semiring, check, name, x) for name, x in zip(arguments, results, strict=True)]
        return results, found, dtype
    unread = {name: _arrays_of(x) for name, x in arguments.items()}
    readable = {name: as_host_operand(x, name) if unread[name] is None else x for name, x in arguments.items()}
    for name, x in readable.items():
        require_real_numbers(x, name)
    dtype = common_dtype(semiring, *readable.values())
    pairs = []
    for name, x in readable.items():
        pair = _scan_arrays(unread[name], semiring, dtype, check, threads)
        if pair is None:
            if is_sparse(x):
                rows = as_rows(x, semiring, name)
                x = rows._replace(values=convert(rows.values, semiring, dtype, f"{name}.data", check=check))
            else:
                x = operands(semiring, dtype, check=check, **{name: x})[0]
            pair = x, _scan(semiring, check, name, x)
        pairs.append(pair)
    return [x for x, _ in pairs], [scan for _, scan in pairs], dtype


def _arrays_of(x: Any) -> CompressedRows | None:
    """Return the arrays of a csr matrix without validation, or None if kernels cannot read them."""
    if not is_sparse(x) or x.format != "csr" or x.ndim != 2:
        return None
    starts, columns, values = arrays = x.indptr, x.indices, x.data
    fits = all(type(array) is np.ndarray and array.ndim == 1 and array.flags.c_contiguous for array in arrays)
    if not fits or starts.dtype != columns.dtype or starts.dtype not in (np.int32, np.int64):
        return None
    if starts.size != x.shape[0] + 1 or columns.size != values.size or values.dtype.kind not in "fiub":
        return None
    is_readable = values.dtype.isnative and values.itemsize <= 8
    return CompressedRows(starts, columns, values, x.shape[1]) if is_readable else None


def _scan_arrays(
    unread: CompressedRows | None, semiring: Semiring, dtype: np.dtype[Any], check: bool, threads: int | None
) -> tuple[Rows, Scan] | None:
    """Return validated `Rows` and a scan of their values, or None if `as_rows` must convert them or raise an error."""
    if unread is None or unread.values.dtype != dtype:
        return None
    product = _Product(semiring, dtype, [Scan(), Scan()], threads, False, unread.values)
    bounds = _bounds(semiring, dtype) if check else None
    is_valid, nonnegative = product.kernels.scan_rows(product.plan, unread, bounds)
    if not is_valid:
        return None
    rows = _as_rows(unread)
    if bounds is None:
        return rows, scan_operands(semiring, check, A=rows.values)[0]
    return rows, Scan(nonnegative=nonnegative)


def _as_rows(valid: CompressedRows) -> Rows:
    """Return the entries of validated arrays as `Rows`."""
    end = int(valid.starts[-1])
    return narrow_rows(valid.starts, valid.columns[:end], valid.values[:end], (valid.starts.size - 1, valid.width))


@lru_cache(maxsize=256)
def _bounds(semiring: Semiring, dtype: np.dtype[Any]) -> tuple[Any, Any] | None:
    """Return the ends of an interval of valid floats, without NaN, or None for other dtypes.

    The zero and the one are valid too, and may lie outside.
    """
    if dtype.kind != "f":
        return None
    domain, ends = semiring.domain, []
    for end, is_open, inward in ((domain.lower, domain.lower_open, np.inf), (domain.upper, domain.upper_open, -np.inf)):
        value = dtype.type(end)
        is_element = value in (semiring.zero_for(dtype), semiring.one_for(dtype))
        ends.append(np.nextafter(value, dtype.type(inward)) if is_open and not is_element else value)
    return ends[0], ends[1]


def _entries_of(x: Any) -> Any:
    """Return the array of the entries of an operand, `Rows` or an array."""
    return x.values if isinstance(x, Rows) else x


def _scan(semiring: Semiring, check: bool, name: str, x: Any) -> Scan:
    """Scan an operand, `Rows` or an array. Raises `DomainError` with the row and the column of an entry."""
    try:
        return scan_operands(semiring, check, **{name: _entries_of(x)})[0]
    except DomainError as error:
        if not isinstance(x, Rows):
            raise
        (entry,) = error.position
        row = int((x.starts <= entry).sum()) - 1
        raise error.at(row, int(x.columns[entry])) from None


def _scan_together(semiring: Semiring, check: bool, **arguments: Any) -> list[Scan]:
    """Scan operands as `_scan` does, with one wait for those on a GPU."""
    try:
        return scan_operands(semiring, check, **{name: _entries_of(x) for name, x in arguments.items()})
    except DomainError:  # of an entry without its row and column
        return [_scan(semiring, check, name, x) for name, x in arguments.items()]


def _demand_annihilation(semiring: Semiring) -> None:
    """Raise `AlgebraError` if the zero does not annihilate."""
    if semiring.failed_annihilation is not None:
        raise AlgebraError(
            f"{semiring.name} has no sparse matrices: {semiring.failed_annihilation}, and what a sparse matrix does "
            "not store is the zero. If the zero stands for no entry, define it as inf or -inf"
        )


def multiply_rows(
    A: Any, B: Any, mask: Rows | None, semiring: Semiring, *, check: bool, has_witness: bool
) -> tuple[Any, Any]:
    """Return A ⊗ B, at the positions of a mask or everywhere, and its witness or None.

    The operands are `Rows` or arrays of one dtype in one memory, and one of them or the result is sparse. With a mask,
    and for two sparse operands, the results are `Rows`: entries that some pair reaches. Otherwise they are arrays, and
    the witness of a sparse A is which of its entries attains the value, in place of k. A value that is the zero has the
    witness -1.
    """
    _demand_annihilation(semiring)
    scans = _scan_together(semiring, check, A=A, B=B)
    sample = A.values if isinstance(A, Rows) else A
    product = _Product(semiring, sample.dtype, scans, None, has_witness, sample)
    shape = _product_shape(A, B)
    product.demand_range(A, B, mask, False)
    if mask is not None or (isinstance(A, Rows) and isinstance(B, Rows)):
        return product.sparse(A, B, mask, False)
    return product.dense(A, B, shape, of_entries=isinstance(A, Rows))


def multiply_sparse(
    A: Any,
    B: Any,
    semiring: Semiring,
    *,
    mask: Any = None,
    complement: bool = False,
    return_witness: bool = False,
    out: Any = None,
    check: bool = True,
    threads: int | None = None,
    device: Any = None,
) -> Any:
    """Return A ⊗ B as `semiring.matmul` does, for a sparse operand or a mask."""
    restore = result_converter(A, B)

    def return_dense(C: Array, K: Array | None) -> Any:
        if out is not None:
            store(as_output(out, C.shape, C.dtype, like=C if device is None else None), C)
        result = out if out is not None else restore(C if C.ndim else C[()])
        return (result, restore(K if K.ndim else K[()])) if K is not None else result

    if mask is None and device is None and not return_witness:
        C = _multiply_unread(A, B, semiring, check, threads)
        if C is not None:
            return return_dense(C, None)
    (left, right), scans, dtype = read_sparse_operands(semiring, check, device, threads, may_use_gpu=True, A=A, B=B)
    shape = _product_shape(left, right)
    product = _Product(semiring, dtype, scans, threads, return_witness, _entries_of(left))

    if mask is not None and (max(left.ndim, right.ndim) > 2 or not shape):
        raise ShapeError(f"A is {left.shape}, B is {right.shape}: mask= is for products of matrices and vectors")
    if mask is not None and len(shape) == 1:
        return return_dense(*product.vector(left, right, product.read_vector_mask(mask, shape, device) != complement))
    read = {id(A): left, id(B): right}.get(id(mask))  # a mask that is an operand is not read again
    if isinstance(read, Rows) and read.shape == shape:
        pattern: Rows | None = read._replace(values=None)
    else:
        pattern = None if mask is None else product.read_mask(mask, (shape[0], shape[1]), device)
    is_dense = not (isinstance(left, Rows) and isinstance(right, Rows)) and (mask is None or complement)
    if out is not None and not is_dense:
        raise TypeError(
            "out= is given, and the product is sparse: leave out= away, because its size is not known before"
        )
    product.demand_range(left, right, pattern, complement)
    if is_dense:
        C, K = product.dense(left, right, shape)
        if pattern is not None:
            places = rows_of_entries(pattern), pattern.columns
            C[places] = semiring.zero_for(dtype)
            if K is not None:
                K[places] = -1
        return return_dense(C, K)
    entries, attained = product.sparse(left, right, pattern, complement)
    result = make_sparse(entries, A, B, mask)
    return (result, make_sparse(attained, A, B, mask)) if return_witness else result


def rows_of_entries(rows: Rows) -> Any:
    """Return the row of each entry, in the memory of the matrix."""
    if not is_device_array(rows.columns):
        return row_numbers(rows.starts)
    from semiring.kernels.cuda.product import index_arrays

    return index_arrays.row_numbers(rows.starts, rows.columns.size)


def make_sparse(entries: Rows, *like: Any) -> Any:
    """Return a sparse matrix of the class of the first one among ``like``, in its memory."""
    if not is_device_array(entries.columns):
        return as_sparse(entries, *like)
    from semiring.linalg.device_rows import as_device_sparse

    return as_device_sparse(entries, *like)


def _multiply_unread(A: Any, B: Any, semiring: Semiring, check: bool, threads: int | None) -> Array | None:
    """Return A ⊗ B for a csr matrix and an array of floats or truth values, which kernels validate and then multiply.

    The result is None for other operands, and for invalid operands, of which `read_sparse_operands` raises the error.
    """
    is_on_host = type(B) is np.ndarray
    rows = _arrays_of(A) if is_on_host else None
    if not is_on_host and is_on_device(A) and is_on_device(B):
        from semiring.linalg.device_rows import read_unvalidated

        rows, B = read_unvalidated(A, B) or (None, B)
    if rows is None or B.ndim not in (1, 2) or B.shape[0] != rows.width:
        return None
    m, dtype = rows.starts.size - 1, B.dtype
    n = B.shape[1] if B.ndim == 2 else 1
    if rows.values.dtype != dtype or dtype.kind not in "fb" or not semiring.supports(dtype) or not m * n * B.size:
        return None
    if semiring.failed_annihilation is not None:
        return None
    product = _Product(semiring, dtype, [Scan(), Scan()], threads, False, B)
    if product.code is not None or not (is_on_host or has_operation(product.kernels, "multiply_unvalidated")):
        return None
    return product.unread(rows, B, _bounds(semiring, dtype) if check else None)


def sparse_identity(A: Any, semiring: Semiring, check: bool, device: Any) -> Any:
    """Return the identity of the size, dtype and class of a sparse square matrix, which is scanned."""
    (rows,), _, dtype = read_sparse_operands(semiring, check, device, may_use_gpu=True, A=A)
    n, xp = A.shape[0], array_namespace(rows.columns)
    ones = xp.full(n, semiring.one_for(dtype), dtype)
    return make_sparse(Rows(xp.arange(n + 1), xp.arange(n, dtype=rows.columns.dtype), ones, (n, n)), A)


def _product_shape(A: Any, B: Any) -> tuple[int, ...]:
    """Return the shape of A ⊗ B, each `Rows` or an array. Raises `ShapeError`."""
    if not A.ndim or not B.ndim:
        raise ShapeError(f"A is {A.shape}, B is {B.shape}: a scalar is no operand of a product (see multiply)")
    if A.shape[-1] != (B.shape[-2] if B.ndim > 1 else B.shape[0]):
        raise inner_size_error(A.shape, B.shape)
    return (*batch_shape(A, B), *A.shape[-2:-1], *(B.shape[-1:] if B.ndim > 1 else ()))


class _Product:
    """The kernels, the encoding and the threads of one product of operands that were read and scanned."""

    def __init__(
        self,
        semiring: Semiring,
        dtype: np.dtype[Any],
        scans: list[Scan],
        threads: int | None,
        has_witness: bool,
        sample: Array,
    ) -> None:
        """``sample`` is an array of the dtype in the memory of the operands."""
        self.semiring, self.dtype, self.scans, self.threads = semiring, dtype, scans, threads
        self.has_witness, self.xp = has_witness, array_namespace(sample)
        self.code: Encoding | None = choose_encoding(semiring, sample, *scans)
        if self.code is None and is_half(dtype) and semiring.supports(np.float32):
            self.code = Encoding(np.dtype(np.float32))  # on a GPU too, where dense products have other kernels
        inner = dtype if self.code is None else self.code.dtype
        nonnegative = all(scan.nonnegative for scan in scans)
        engine = engine_for(sample, semiring, inner, nonnegative, threads)
        self.engine, self.plan = engine, engine.plan
        kernels = engine.capabilities.sparse or get_backend("reference").capabilities.sparse
        assert kernels is not None
        self.kernels: SparseKernels = kernels

    @property
    def is_on_device(self) -> bool:
        """Whether the operands are on a GPU."""
        return self.xp is not np

    def read_vector_mask(self, mask: Any, shape: tuple[int, ...], device: Any) -> Any:
        """Return a mask of a vector in the memory of the operands, as `semiring.arrays.compressed.read_mask` does."""
        self._demand_same_memory(mask, device)
        if is_on_device(mask):
            from semiring.linalg.device_rows import read_device_mask

            return read_device_mask(mask, shape)
        array = read_mask(mask, shape)
        return self.xp.asarray(array) if self.is_on_device else array

    def _demand_same_memory(self, mask: Any, device: Any) -> None:
        """Raise `DeviceError` for a mask in another memory than the operands, unless it is copied to the device."""
        if is_on_device(mask) and not self.is_on_device:
            raise DeviceError("mask is on a GPU, and the operands are in the memory of the host: copy the mask")
        if self.is_on_device and device is None and not is_on_device(mask):
            raise DeviceError(
                "mask is in the memory of the host, and the operands are on a GPU: copy it, or pass device='cuda'"
            )

    def demand_memory(self, required_bytes: int, subject: str, remedy: str) -> None:
        """Raise `TooLargeError` if so many bytes are not free in the memory of the operands."""
        demand_memory(required_bytes, subject, remedy, is_on_device=self.is_on_device)

    def demand_range(self, A: Any, B: Any, mask: Rows | None, complement: bool) -> None:
        """Raise `IntegerOverflowError` if an entry in plus_times may leave its integer dtype."""
        if not may_wrap(self.semiring, self.dtype):
            return
        terms = A.shape[-1]
        if isinstance(A, Rows):
            terms = int((A.starts[1:] - A.starts[:-1]).max()) if A.shape[0] else 0
        most = terms * scanned_magnitude(self.scans[0]) * scanned_magnitude(self.scans[1])

        def sums() -> Any:
            known = [Scan(nonnegative=True)] * 2
            sample = self.xp.empty(0, np.float64)
            product = _Product(plus_times, np.dtype(np.float64), known, self.threads, False, sample)
            A_, B_ = (
                x._replace(values=abs(x.values.astype(np.float64)))
                if isinstance(x, Rows)
                else abs(x.astype(np.float64))
                for x in (A, B)
            )
            with pause_recording():
                if (isinstance(A, Rows) and isinstance(B, Rows)) or (mask is not None and not complement):
                    values = product.sparse(A_, B_, mask, complement)[0].values
                else:
                    values = product.dense(A_, B_, _product_shape(A, B))[0]
            return self.xp.append(values.ravel(), 0.0)

        demand_range(self.dtype, most, sums, "A ⊗ B")

    def read_mask(self, mask: Any, shape: tuple[int, int], device: Any = None) -> Rows:
        """Return the pattern of a mask of a matrix in the memory of the operands, as `mask_rows` does."""
        self._demand_same_memory(mask, device)
        if self.is_on_device:
            from semiring.linalg.device_rows import device_mask_rows

            return device_mask_rows(mask, shape)
        unread = _arrays_of(mask)
        if unread is not None and mask.shape == shape:
            unread = unread._replace(values=unread.columns)  # of one dtype, for which the kernel is compiled once
            if self.kernels.scan_rows(self.plan, unread, None)[0]:
                return _as_rows(unread)._replace(values=None)
        return mask_rows(mask, shape)

    def _encode(self, x: Any, scan: Scan) -> Any:
        """Return an operand as the kernels read it."""
        if isinstance(x, Rows):
            values = x.values if self.code is None else encode_operand(x.values, self.semiring, scan, self.code)
            return CompressedRows(x.starts, x.columns, values, x.shape[1])
        return x if self.code is None else encode_operand(x, self.semiring, scan, self.code)

    def _decode(self, values: Array, witness: Array | None) -> Array:
        """Return the kernels' entries as the caller's, and note -1 as the witness of entries that are the zero."""
        result = values
        if self.code is not None:
            result = decode(values, self.semiring, self.dtype, limit=self.code.limit)
        is_noted = self.is_on_device and self.code is None  # by the kernels of a GPU
        if witness is not None and not is_noted:
            witness[result == self.semiring.zero_for(self.dtype)] = -1
        return result

    def _witness_dtype(self, inner: int) -> np.dtype[Any]:
        return np.dtype(np.int32 if inner < 2**31 else np.int64)

    def _make_witness(self, inner: int, shape: Any, *, is_written: bool = False) -> Array | None:
        """Return an array for witnesses below ``inner``, filled with -1 unless kernels write every element, or None."""
        if not self.has_witness:
            return None
        make: Any = self.xp.empty if is_written else partial(self.xp.full, fill_value=-1)
        witness: Array = make(shape, dtype=self._witness_dtype(inner))
        return witness

    def _record(self, kernel: str, A: Any, B: Any, values: Array, accumulators: dict[str, int] | None = None) -> None:
        if is_recording():
            has_zero = any(scan.has_zero for scan in self.scans)
            name = f"{kernel} with witness" if self.has_witness else kernel
            pairs = count_pairs(A, B)
            record_kernel(name, self.plan, values, pairs, self.dtype, has_zero=has_zero, accumulators=accumulators)

    def sparse(self, A: Any, B: Any, mask: Rows | None, complement: bool) -> tuple[Rows, Rows]:
        """Return the sparse product and its witness: of sparse operands, or at the positions of a mask."""
        shape, xp = (A.shape[0], B.shape[1]), self.xp
        left = self._encode(A if isinstance(A, Rows) else every_entry(A), self.scans[0])
        right = self._encode(B if isinstance(B, Rows) else xp.ascontiguousarray(B), self.scans[1])
        size = self.plan.dtype.itemsize + 4 + (8 if self.has_witness else 0)
        known = None if mask is None else CompressedRows(mask.starts, mask.columns, None, shape[1])

        def demand(entries: int) -> None:
            self.demand_memory(
                entries * size, f"a product of {entries:,} entries or more", "pass mask=, or fewer rows of A"
            )

        dtype = self._witness_dtype(A.shape[1]) if self.has_witness else None
        if known is not None and not complement:
            demand(known.columns.size)
            entries, witness, used = self.kernels.multiply_masked(self.plan, left, right, known, dtype)
        else:
            entries, witness, used = self.kernels.multiply_sparse(self.plan, left, right, known, demand, dtype)
        starts, columns, values, _ = entries
        self._record("masked sparse product" if mask is not None else "sparse product", left, right, values, used)
        values = xp.asarray(self._decode(values, witness))
        return Rows(starts, columns, values, shape), Rows(starts, columns, witness, shape)

    def dense(self, A: Any, B: Any, shape: tuple[int, ...], *, of_entries: bool = False) -> tuple[Array, Array | None]:
        """Return the dense product of operands of which one may be sparse, and its witness.

        With ``of_entries`` the witness is the position of an entry of a sparse A, in place of k.
        """
        self._demand_dense(shape)
        left, right = self._encode(A, self.scans[0]), self._encode(B, self.scans[1])
        rows, columns = (1 if x.ndim == 1 else x.shape[axis] for x, axis in ((A, -2), (B, -1)))
        batch = shape[: len(shape) - (A.ndim > 1) - (B.ndim > 1)]
        C = self.xp.empty((*batch, rows, columns), self.plan.dtype)
        is_mixed = isinstance(left, CompressedRows) or isinstance(right, CompressedRows)
        inner = A.columns.size if of_entries else A.shape[-1]
        witness = self._make_witness(inner, C.shape, is_written=is_mixed and self.is_on_device)
        if batch and 0 not in batch and self.is_on_device and isinstance(left, CompressedRows):
            count = prod(batch)
            stacks = [x if x is None else x.reshape(count, rows, columns) for x in (C, witness)]
            matrices = self.xp.ascontiguousarray(right).reshape(count, *right.shape[-2:])
            self.kernels.multiply_mixed(self.plan, stacks[0], left, matrices, stacks[1], of_entries)
            self._record("product of mixed operands", left, matrices, C)
            batch = (0,)
        for index in in_parts([*np.ndindex(batch)]):
            pair: list[Any] = [
                x if isinstance(x, CompressedRows) else self.xp.ascontiguousarray(_matrix_of(x, batch, index, flat))
                for x, flat in ((left, (1, -1)), (right, (-1, 1)))
            ]
            K = None if witness is None else witness[index]
            if any(isinstance(x, CompressedRows) for x in pair):
                self.kernels.multiply_mixed(self.plan, C[index], pair[0], pair[1], K, of_entries)
            elif K is None:
                self.engine.multiply(C[index], *pair)
            else:
                C[index] = self.plan.zero
                self.engine.multiply_add_witness(C[index], K, *pair)
            self._record("product of mixed operands", pair[0], pair[1], C)
        result = self._decode(C, witness).reshape(shape)
        return result, None if witness is None else witness.reshape(shape)

    def _demand_dense(self, shape: tuple[int, ...]) -> None:
        size = prod(shape) * self.plan.dtype.itemsize
        self.demand_memory(size, f"a dense product {shape}", "make both operands sparse")

    def unread(self, A: CompressedRows, B: Array, bounds: tuple[Any, Any] | None) -> Array | None:
        """Return the product of a sparse matrix and an array, neither of them validated, or None if one is invalid."""
        shape = (A.starts.size - 1, *B.shape[1:])
        self._demand_dense(shape)
        right = self.xp.ascontiguousarray(B).reshape(B.shape[0], -1)
        C: Array = self.xp.empty((shape[0], right.shape[1]), self.dtype)
        if not self.kernels.multiply_unvalidated(self.plan, C, A, right, bounds):
            return None
        self._record("product of mixed operands", A, right, C)
        return C.reshape(shape)

    def vector(self, A: Any, B: Any, mask: Array) -> tuple[Array, Array | None]:
        """Return the product of a matrix and a vector, which is the zero where ``mask`` is False, and its witness."""
        is_column = B.ndim == 1
        left, right = (A, B[:, None]) if is_column else (A[None], B)
        pattern = self.read_mask(mask[:, None] if is_column else mask[None], (left.shape[0], right.shape[1]))
        self.demand_range(left, right, pattern, False)
        C = self.xp.full(mask.shape, self.semiring.zero_for(self.dtype), self.dtype)
        K = self._make_witness(A.shape[-1], mask.shape)
        if isinstance(left, Rows) or isinstance(right, Rows):
            entries, attained = self.sparse(left, right, pattern, False)
            places = rows_of_entries(entries) if is_column else entries.columns
            C[places] = entries.values
            if K is not None:
                K[places] = attained.values
            return C, K
        left, right = (left[mask], right) if is_column else (left, right[:, mask])
        values, witness = self.dense(left, right, (left.shape[0], right.shape[1]))
        C[mask] = values.ravel()
        if K is not None and witness is not None:
            K[mask] = witness.ravel()
        return C, K


def _matrix_of(x: Array, batch: tuple[int, ...], index: tuple[int, ...], flat: tuple[int, int]) -> Array:
    """Return the matrix of a dense operand at an index of the batch; a vector becomes a row or a column."""
    if x.ndim == 1:
        return x.reshape(flat)
    matrix: Array = array_namespace(x).broadcast_to(x, (*batch, *x.shape[-2:]))[index]
    return matrix
