"""Read sparse matrices on a GPU as compressed rows, and make sparse matrices of results there.

They are the csr, csc and coo matrices of CuPy, tensors of PyTorch in CSR, CSC or COO layout, and BCOO arrays of JAX. No
entry is copied to the host. Index arrays are validated before a kernel uses them as addresses: one pass, and one wait
for all operands of a call. csr ⊗ dense has a kernel that reads on the device what this pass has found.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any, Literal, NamedTuple, NoReturn

import numpy as np

from semiring.algebra import Semiring
from semiring.arrays.compressed import Rows, as_rows, as_sparse, mask_rows
from semiring.arrays.device import alignment_error, as_cupy, load_cupy, to_host
from semiring.arrays.encoding import Scan, convert
from semiring.arrays.operands import as_host_operand, common_dtype, operands
from semiring.arrays.sparse import check_sparse, is_sparse, warn_of_duplicates
from semiring.arrays.tensors import (
    compressed_tensor,
    coordinate_tensor,
    gradients_error,
    is_bfloat16_tensor,
    is_cupy_matrix,
    is_sparse_tensor,
    stored_values,
    tracer_error,
)
from semiring.errors import DeviceError, DomainError, DTypeError, ShapeError
from semiring.kernels.contract import CompressedRows, KernelPlan
from semiring.linalg.dispatch import scan_operands
from semiring.namespaces import Array, is_device_array, is_traced, shape_of

__all__ = ["as_device_sparse", "device_mask_rows", "read_device_operands", "read_unvalidated"]

_MAX_INT32 = 2**31 - 1


class _Stored(NamedTuple):
    """The arrays of a sparse matrix on a GPU, of CuPy.

    ``major`` and ``minor`` are the starts and the indices of compressed rows or columns, or the row and the column of
    each entry.
    """

    layout: Literal["csr", "csc", "coo"]
    major: Any
    minor: Any
    values: Any
    shape: tuple[int, int]


def read_device_operands(
    semiring: Semiring, check: bool, device: Any, arguments: dict[str, Any]
) -> tuple[list[Any], list[Scan] | None, np.dtype[Any]]:
    """Return operands of one dtype, each `Rows` of CuPy arrays or a CuPy array, a scan of each, and the dtype.

    The scans are None if the results must be scanned again, as for an entry that is NaN. With a ``device`` operands of
    the host are copied to it. Raises as `semiring.linalg.matmul`, for index arrays as
    `semiring.arrays.sparse.check_sparse`.
    """
    load_cupy("a product of sparse matrices on a GPU")
    readable: dict[str, Any] = {}
    for name, x in arguments.items():
        if is_device_array(stored_values(x) if _is_sparse_on_device(x) else x):
            readable[name] = _read_arrays(x, name) if _is_sparse_on_device(x) else as_cupy(x, name)
            if not isinstance(readable[name], _Stored):
                _demand_alignment(name, readable[name])
        else:
            if device is None and (is_sparse(x) or is_sparse_tensor(x) or shape_of(x)):
                raise _mixed_memory_error(name, arguments)
            readable[name] = as_host_operand(x, name)
    samples = [x.values if isinstance(x, _Stored) else x for x in readable.values()]
    dtype = common_dtype(semiring, *samples)
    if dtype.name == "bfloat16":
        raise DTypeError("sparse matrices of bfloat16 are not multiplied on a GPU: convert the operands to float32")
    stored = {name: x for name, x in readable.items() if isinstance(x, _Stored)}
    words = _scan_indices(stored)
    entries: dict[str, Any] = {}
    for name, x in readable.items():
        if isinstance(x, _Stored):
            entries[name] = convert(x.values, semiring, dtype, f"{name}.data", check=check)
        elif is_sparse(x):
            readable[name] = rows = _copy_to_device(as_rows(x, semiring, name))
            entries[name] = convert(rows.values, semiring, dtype, f"{name}.data", check=check)
        else:
            entries[name] = operands(semiring, dtype, device=device, check=check, **{name: x})[0]
    scans: list[Scan] | None
    try:  # this waits for the device, so that the words below are there
        scans = scan_operands(semiring, check, **entries)
    except DomainError:
        scans = None
    are_ascending = _check_indices(stored, words)
    results: list[Any] = []
    for name, x in readable.items():
        if isinstance(x, _Stored):
            count = stored[name].minor.size
            rows = _sort_rows(stored[name], entries[name][:count], are_ascending[name], semiring, name)
            results.append(rows)
            scans = scans if rows.columns.size == count else None  # ⊕ has added some entries
        else:
            results.append(x._replace(values=entries[name]) if isinstance(x, Rows) else entries[name])
    return results, scans, dtype


def read_unvalidated(A: Any, B: Any) -> tuple[CompressedRows, Any] | None:
    """Return the arrays of a csr matrix and of a dense operand on a GPU, without a copy and without validation.

    The result is None if kernels cannot read the arrays as they are. Raises as `read_device_operands`.
    """
    is_mixed = _is_sparse_on_device(A) and is_device_array(B) and not is_sparse_tensor(B)
    if not is_mixed or _layout_of(A) != "csr":
        return None
    if is_cupy_matrix(A) and A.format != "csr":
        return None
    stored, operand = _read_arrays(A, "A"), as_cupy(B, "B")
    starts, columns, values = arrays = stored.major, stored.minor, stored.values
    if any(x.ndim != 1 or not x.flags.c_contiguous or x.data.ptr % x.itemsize for x in arrays):
        return None
    if not operand.flags.c_contiguous or operand.data.ptr % operand.itemsize:
        return None
    if starts.size != stored.shape[0] + 1 or columns.size != values.size:
        return None
    if any(x.dtype not in (np.int32, np.int64) for x in (starts, columns)):
        return None
    return CompressedRows(starts, columns, values, stored.shape[1]), operand


def device_mask_rows(mask: Any, shape: tuple[int, int]) -> Rows:
    """Return the pattern of a mask in any memory as `semiring.arrays.compressed.mask_rows` does, as CuPy arrays."""
    cupy = load_cupy()
    if _is_sparse_on_device(mask):
        stored = _read_arrays(mask, "mask")
        _check_mask_shape(stored.shape, shape)
        matrices = {"mask": stored._replace(values=None)}
        is_ascending = _check_indices(matrices, _scan_indices(matrices))["mask"]
        return _sort_rows(matrices["mask"], None, is_ascending, None, "mask")
    if not is_device_array(mask):
        return _copy_to_device(mask_rows(mask, shape))
    from semiring.kernels.cuda.product.index_arrays import starts_of_rows

    array = read_device_mask(mask, shape)
    rows, columns = cupy.nonzero(array)
    return Rows(starts_of_rows(rows, shape[0]), columns.astype(_index_dtype(shape[1])), None, shape)


def read_device_mask(mask: Any, shape: tuple[int, ...]) -> Array:
    """Return a dense mask on a GPU as a CuPy array of bool. Raises `DTypeError` and `ShapeError`."""
    array: Array = as_cupy(mask, "mask")
    if array.dtype != np.bool_:
        raise DTypeError(
            f"mask has dtype {array.dtype}: pass truth values, such as mask != 0, or a sparse matrix, whose stored "
            "entries are the mask"
        )
    _check_mask_shape(array.shape, shape)
    return array


def as_device_sparse(rows: Rows, *like: Any) -> Any:
    """Return a sparse matrix of the class of the first one among ``like``, by default a csr matrix of CuPy.

    If the first one is in the memory of the host, so is the result.
    """
    from semiring.kernels.cuda.product.index_arrays import row_numbers

    first = next((x for x in like if is_sparse(x) or _is_sparse_on_device(x) or is_sparse_tensor(x)), None)
    if first is not None and not _is_sparse_on_device(first):
        starts, columns, values = (to_host(x) for x in rows[:3])
        return as_sparse(Rows(starts, columns, values, rows.shape), *like)
    small = max(rows.columns.size, *rows.shape) <= _MAX_INT32
    index = np.int32 if small else np.int64
    layout = "csr" if first is None else _layout_of(first)
    if layout == "coo":
        major, minor, values = row_numbers(rows.starts, rows.columns.size), rows.columns, rows.values
    elif layout == "csc":
        major, minor, values = _transpose(rows)
    else:
        major, minor, values = rows[:3]
    if first is not None and not is_cupy_matrix(first):
        return _as_tensor(layout, major, minor, values, rows.shape, first)
    sparse = import_module("cupyx.scipy.sparse")
    kind: Any = getattr(sparse, f"{layout}_matrix") if first is None or first.format != layout else type(first)
    result = kind(rows.shape, dtype=np.bool_)
    major, minor = major.astype(index, copy=False), minor.astype(index, copy=False)
    result.data = values  # the constructor accepts floats and bool alone
    if layout == "coo":
        result.row, result.col = major, minor
    else:
        result.indptr, result.indices = major, minor
        result.has_sorted_indices = True
    result.has_canonical_format = True
    return result


# ------------------------------------------------------------------------------------------------- arrays of a matrix


def _is_sparse_on_device(x: Any) -> bool:
    """Return whether x is a sparse matrix of CuPy, or a sparse tensor on a GPU."""
    return is_cupy_matrix(x) or (is_sparse_tensor(x) and is_device_array(stored_values(x)))


def _layout_of(x: Any) -> Literal["csr", "csc", "coo"]:
    """Return the layout of a sparse matrix on a GPU; that of the result for the other formats of CuPy, csr."""
    if is_cupy_matrix(x):
        return x.format if x.format in ("csr", "csc", "coo") else "csr"
    if type(x).__name__ == "BCOO":
        return "coo"
    torch: Any = sys.modules["torch"]
    return {torch.sparse_csr: "csr", torch.sparse_csc: "csc", torch.sparse_coo: "coo"}[x.layout]  # type: ignore[return-value]


def _read_arrays(x: Any, name: str) -> _Stored:
    """Return the arrays of a sparse matrix on a GPU, without a copy. Raises as `semiring.arrays.tensors`."""
    layout = _layout_of(x)
    if is_cupy_matrix(x):
        x = x if x.format == layout else x.tocsr()
        major, minor = (x.row, x.col) if layout == "coo" else (x.indptr, x.indices)
        _demand_alignment(name, x.data, major, minor)
        return _Stored(layout, _as_indices(major), _as_indices(minor), x.data, x.shape)
    values = stored_values(x)
    if type(x).__name__ == "BCOO":
        if is_traced(values) or is_traced(x.indices):
            raise tracer_error(name)
        if len(x.shape) != 2 or x.n_batch or x.n_dense:
            raise ShapeError(f"{name} is a BCOO array of the shape {x.shape}: only matrices without batch are accepted")
        entries, places = as_cupy(values, name), as_cupy(x.indices, name)
        _demand_alignment(name, entries, places)
        places = _as_indices(places)
        is_inside = (places < load_cupy().asarray(x.shape)).all(axis=1)  # JAX fills arrays with positions outside
        if not is_inside.all():
            entries, places = entries[is_inside], places[is_inside]
        return _Stored("coo", places[:, 0], places[:, 1], entries, tuple(x.shape))
    if x.requires_grad:
        raise gradients_error(name)
    if x.dim() != 2 or x.dense_dim():
        raise ShapeError(f"{name} is a sparse tensor of the shape {tuple(x.shape)}: only matrices are accepted")
    if is_bfloat16_tensor(values):
        raise DTypeError(f"{name} is of bfloat16, which is not multiplied on a GPU: pass {name}.float()")
    if layout == "coo":  # `coalesce` would add equal positions by +
        major, minor = x._indices()
    elif layout == "csr":
        major, minor = x.crow_indices(), x.col_indices()
    else:
        major, minor = x.ccol_indices(), x.row_indices()
    major, minor, values = (as_cupy(array, name) for array in (major, minor, values))
    return _Stored(layout, major, minor, values, tuple(x.shape))


def _as_indices(array: Any) -> Any:
    """Return an index array in int32 or int64, which kernels read, or an array of no integers as it is."""
    return array if array.dtype in (np.int32, np.int64) or array.dtype.kind not in "iu" else array.astype(np.int64)


def _demand_alignment(name: str, *arrays: Any) -> None:
    """Raise `DeviceError` for an array at an address that the size of its elements does not divide."""
    for array in arrays:
        if array.size and array.data.ptr % array.itemsize:
            raise alignment_error(name, array.dtype)


def _scan_indices(matrices: dict[str, _Stored]) -> Any:
    """Enqueue the validation of index arrays, and return the words of `index_arrays.scan_indices` for each matrix.

    Raises `ShapeError` for arrays of wrong sizes.
    """
    from semiring.kernels.cuda.product.index_arrays import scan_indices

    cupy = load_cupy()
    results = cupy.zeros((len(matrices), 3), np.uint64)
    for name, x, result in zip(matrices, matrices.values(), results, strict=True):
        count = x.minor.size if x.values is None else x.values.size
        lengths = x.shape[x.layout == "csc"] + 1, count
        if x.layout == "coo":
            lengths = count, count
        if (x.major.size, x.minor.size) != lengths or x.major.ndim != 1 or x.minor.ndim != 1:
            _raise_for_indices(x, name)
        if x.major.dtype.kind not in "iu" or x.minor.dtype.kind not in "iu":
            _raise_for_indices(x, name)
        if x.layout == "coo":
            for indices, size in zip((x.major, x.minor), x.shape, strict=True):
                result[0] |= ((indices < 0) | (indices >= size)).any().astype(np.uint64)
            continue
        major, minor = cupy.ascontiguousarray(x.major), cupy.ascontiguousarray(x.minor)
        scan_indices(major, minor, x.shape[x.layout != "csc"], result)
    return results


def _check_indices(matrices: dict[str, _Stored], words: Any) -> dict[str, bool]:
    """Read the words of `_scan_indices`, and return whether the indices of each compressed row ascend strictly.

    Indices behind the last row are cut off, in place. Raises `ShapeError` with the first wrong index.
    """
    are_ascending = {}
    for (name, x), (flags, descents, count) in zip(list(matrices.items()), words.get().tolist(), strict=True):
        if flags:
            _raise_for_indices(x, name)
        are_ascending[name] = x.layout == "csr" and not descents
        if x.layout != "coo":
            matrices[name] = x._replace(minor=x.minor[:count])
    return are_ascending


def _raise_for_indices(x: _Stored, name: str) -> NoReturn:
    """Raise the `ShapeError` of `check_sparse` for index arrays that are invalid, which are copied to the host."""
    from scipy import sparse

    host: Any = getattr(sparse, f"{x.layout}_array")(x.shape)
    host.data = np.zeros(x.minor.shape) if x.values is None else x.values.get()
    major, minor = x.major.get(), x.minor.get()
    if x.layout == "coo":
        host.coords = major, minor
    else:
        host.indptr, host.indices = major, minor
    check_sparse(host, name)
    raise ShapeError(f"the index arrays of {name} changed while they were read")


def _sort_rows(x: _Stored, values: Any, is_ascending: bool, semiring: Semiring | None, name: str) -> Rows:
    """Return a validated matrix by rows, with ascending columns. ⊕ adds entries that are stored twice, with a warning.

    ``values`` are its entries, converted. They are None, and the semiring, if only the pattern is read.
    """
    from semiring.kernels.cuda.product import index_arrays, sparse_rows

    cupy = load_cupy()
    m, n = x.shape
    if x.layout == "csr" and is_ascending:
        columns = cupy.ascontiguousarray(x.minor).astype(_index_dtype(n), copy=False)
        values = None if values is None else cupy.ascontiguousarray(values)
        return Rows(cupy.ascontiguousarray(x.major).astype(np.int64, copy=False), columns, values, x.shape)
    rows, columns = x.major, x.minor
    if x.layout != "coo":
        numbers = index_arrays.row_numbers(cupy.ascontiguousarray(x.major).astype(np.int64, copy=False), x.minor.size)
        rows, columns = (numbers, x.minor) if x.layout == "csr" else (x.minor, numbers)
    order = cupy.argsort(rows) if x.layout == "csc" else index_arrays.sort_order(rows, columns, x.shape)
    rows, columns = rows[order], columns[order].astype(_index_dtype(n), copy=False)
    is_first = cupy.ones(rows.size, np.bool_)
    is_first[1:] = (rows[1:] != rows[:-1]) | (columns[1:] != columns[:-1])
    heads = cupy.flatnonzero(is_first)
    if heads.size == rows.size:
        values = None if values is None else values[order]
    else:
        rows, columns = rows[heads], columns[heads]
        if values is not None and semiring is not None:
            zero, one = semiring.zero_for(values.dtype), semiring.one_for(values.dtype)
            plan = KernelPlan(semiring, values.dtype, zero, one)
            values = sparse_rows.add_runs(plan, heads, order, cupy.ascontiguousarray(values))
            warn_of_duplicates(semiring, name)
    return Rows(index_arrays.starts_of_rows(rows, m), columns, values, x.shape)


def _transpose(rows: Rows) -> tuple[Any, Any, Any]:
    """Return the starts, the indices and the values of compressed columns."""
    from semiring.kernels.cuda.product import index_arrays

    order = load_cupy().argsort(rows.columns)  # stable
    numbers = index_arrays.row_numbers(rows.starts, rows.columns.size)
    starts = index_arrays.starts_of_rows(rows.columns[order], rows.shape[1])
    return starts, numbers[order], rows.values[order]


def _as_tensor(layout: str, major: Any, minor: Any, values: Any, shape: tuple[int, int], like: Any) -> Any:
    """Return arrays of CuPy as a sparse tensor of the library of ``like``, without a copy of the values."""
    cupy = load_cupy()
    if type(like).__name__ == "BCOO":
        read, kind = import_module("jax.numpy").from_dlpack, type(like)
        places = cupy.stack([major, minor], axis=1).astype(_index_dtype(max(shape)))
        return kind((read(values), read(places)), shape=shape, indices_sorted=True, unique_indices=True)
    torch: Any = sys.modules["torch"]
    if layout == "coo":
        places = torch.from_dlpack(cupy.stack([major, minor.astype(np.int64)]))
        return coordinate_tensor(places, torch.from_dlpack(values), shape)
    starts = like.crow_indices() if layout == "csr" else like.ccol_indices()
    wide = starts.dtype == torch.int64 or values.size > _MAX_INT32
    arrays = (x.astype(np.int64 if wide else np.int32, copy=False) for x in (major, minor))
    starts, indices, entries = map(torch.from_dlpack, (*arrays, values))
    return compressed_tensor(layout == "csr", starts, indices, entries, shape)


def _copy_to_device(rows: Rows) -> Rows:
    """Return rows of the host as CuPy arrays."""
    cupy = load_cupy()
    values = None if rows.values is None else cupy.asarray(rows.values)
    return Rows(cupy.asarray(rows.starts), cupy.asarray(rows.columns), values, rows.shape)


def _index_dtype(width: int) -> Any:
    return np.int32 if width <= _MAX_INT32 else np.int64


def _check_mask_shape(found: tuple[int, ...], shape: tuple[int, ...]) -> None:
    if found != shape:
        raise ShapeError(f"mask is {found}, the product is {shape}: pass a mask of the shape of the product")


def _mixed_memory_error(name: str, arguments: dict[str, Any]) -> DeviceError:
    other = next(n for n, x in arguments.items() if _is_sparse_on_device(x) or is_device_array(x))
    return DeviceError(
        f"{other} is on a GPU, {name} is in the memory of the host: copy one of them, or pass device='cuda' to have it "
        "copied"
    )
