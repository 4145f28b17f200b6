"""Convert bfloat16 and sparse tensors, which NumPy cannot read, and make errors for tensors and tracers."""

from __future__ import annotations

import sys
import warnings
from importlib import import_module
from typing import Any

import numpy as np

from semiring.algebra.expressions.tree import is_bfloat16
from semiring.errors import DeviceError, DTypeError, MissingExtraError, ShapeError
from semiring.namespaces import is_traced, library_of

__all__ = [
    "as_sparse_array",
    "as_tensor",
    "bfloat16_array",
    "compressed_tensor",
    "coordinate_tensor",
    "device_sparse_error",
    "gradients_error",
    "is_bfloat16_tensor",
    "is_cupy_matrix",
    "is_sparse_tensor",
    "other_sparse_error",
    "sparse_like",
    "stored_values",
    "tracer_error",
]


def is_bfloat16_tensor(x: Any) -> bool:
    """Return whether x is a PyTorch tensor of dtype bfloat16."""
    torch: Any = sys.modules.get("torch")
    return torch is not None and isinstance(x, torch.Tensor) and x.dtype == torch.bfloat16


def bfloat16_array(tensor: Any) -> Any:
    """Return a bfloat16 tensor of the host as an array of the dtype of ml_dtypes, without a copy."""
    try:
        dtype = import_module("ml_dtypes").bfloat16
    except ImportError as error:
        raise MissingExtraError("ml_dtypes", "torch", "bfloat16") from error
    return tensor.view(sys.modules["torch"].int16).numpy().view(dtype)


def is_sparse_tensor(x: Any) -> bool:
    """Return whether x is a PyTorch tensor in COO, CSR or CSC layout, or a BCOO array of JAX."""
    if type(x).__module__.startswith("jax.experimental.sparse"):
        return type(x).__name__ == "BCOO"
    torch: Any = sys.modules.get("torch")
    if torch is None or not isinstance(x, torch.Tensor):
        return False
    return x.layout in (torch.sparse_coo, torch.sparse_csr, torch.sparse_csc)


def is_cupy_matrix(x: Any) -> bool:
    """Return whether x is a sparse matrix of CuPy."""
    return library_of(x) == "cupyx" and hasattr(x, "format")


def stored_values(x: Any) -> Any:
    """Return the stored values of a sparse tensor or matrix of CuPy, as a tensor or an array of its library."""
    if type(x).__name__ == "BCOO" or is_cupy_matrix(x):
        return x.data
    return x._values() if x.layout == sys.modules["torch"].sparse_coo else x.values()


def as_sparse_array(x: Any, name: str) -> Any:
    """Return a sparse tensor of the host as a SciPy array, whose stored entries are edges, also those of weight 0.

    The values are not copied. An entry that is stored more than once stays so. Positions beyond the shape, with which
    JAX fills the arrays of BCOO, are no entries. Raises `ShapeError` for other than two dimensions, and `DTypeError`
    for a tracer.
    """
    from scipy.sparse import coo_array, csc_array, csr_array

    values = stored_values(x)
    if type(x).__name__ == "BCOO":
        if is_traced(values) or is_traced(x.indices):
            raise tracer_error(name)
        if len(x.shape) != 2 or x.n_batch or x.n_dense:
            raise ShapeError(f"{name} is a BCOO array of the shape {x.shape}: only matrices without batch are accepted")
        entries, (rows, columns) = np.asarray(values), np.asarray(x.indices).T
        inside = (rows < x.shape[0]) & (columns < x.shape[1])
        if not inside.all():
            entries, rows, columns = entries[inside], rows[inside], columns[inside]
        return coo_array((entries, (rows, columns)), shape=x.shape)
    torch: Any = sys.modules["torch"]
    if x.dim() != 2 or x.dense_dim():
        raise ShapeError(f"{name} is a sparse tensor of the shape {tuple(x.shape)}: only matrices are accepted")
    entries = bfloat16_array(values) if is_bfloat16_tensor(values) else values.numpy()
    if x.layout == torch.sparse_coo:  # `coalesce` would add equal positions by +
        return coo_array((entries, tuple(x._indices().numpy())), shape=tuple(x.shape))
    if x.layout == torch.sparse_csr:
        return csr_array((entries, x.col_indices().numpy(), x.crow_indices().numpy()), shape=tuple(x.shape))
    return csc_array((entries, x.row_indices().numpy(), x.ccol_indices().numpy()), shape=tuple(x.shape))


def sparse_like(starts: Any, columns: Any, values: Any, shape: tuple[int, int], like: Any) -> Any:
    """Return compressed rows with sorted columns as a sparse tensor of the library and the layout of another one."""
    rows = np.repeat(np.arange(shape[0]), np.diff(starts))
    if type(like).__name__ == "BCOO":
        jnp, kind = import_module("jax.numpy"), type(like)
        index = np.int32 if max(shape) <= np.iinfo(np.int32).max else np.int64
        indices = jnp.asarray(np.stack([rows, columns], axis=1).astype(index))
        return kind((jnp.asarray(values), indices), shape=shape, indices_sorted=True, unique_indices=True)
    torch: Any = sys.modules["torch"]
    entries = as_tensor(values)
    if like.layout == torch.sparse_coo:
        return coordinate_tensor(torch.from_numpy(np.stack([rows, columns.astype(np.int64)])), entries, shape)
    by_rows = like.layout == torch.sparse_csr
    index = np.int64 if (like.crow_indices() if by_rows else like.ccol_indices()).dtype == torch.int64 else np.int32
    if values.size > np.iinfo(np.int32).max:
        index = np.int64
    if by_rows:
        ends, indices = (torch.from_numpy(x.astype(index)) for x in (starts, columns))
        return compressed_tensor(True, ends, indices, entries, shape)
    order = np.argsort(columns, kind="stable")
    sums = np.append(0, np.cumsum(np.bincount(columns, minlength=shape[1])))
    ends, indices = (torch.from_numpy(x.astype(index)) for x in (sums, rows[order]))
    return compressed_tensor(False, ends, indices, as_tensor(values[order]), shape)


def compressed_tensor(by_rows: bool, starts: Any, indices: Any, values: Any, shape: tuple[int, int]) -> Any:
    """Return valid arrays of PyTorch as a tensor in CSR or CSC layout, without the warning that none is checked."""
    torch: Any = sys.modules["torch"]
    make = torch.sparse_csr_tensor if by_rows else torch.sparse_csc_tensor
    with warnings.catch_warnings(action="ignore", category=UserWarning):
        return make(starts, indices, values, size=shape, check_invariants=False)


def coordinate_tensor(places: Any, values: Any, shape: tuple[int, int]) -> Any:
    """Return valid arrays of PyTorch, ascending places (2, nnz), as a tensor in COO layout, without that warning."""
    torch: Any = sys.modules["torch"]
    with warnings.catch_warnings(action="ignore", category=UserWarning):
        return torch.sparse_coo_tensor(places, values, size=shape, check_invariants=False, is_coalesced=True)


def as_tensor(array: Any) -> Any:
    """Return an array of numbers as a tensor that shares its memory."""
    torch: Any = sys.modules["torch"]
    if is_bfloat16(array.dtype):
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(array)


def device_sparse_error(name: str, copy: str) -> DeviceError:
    """Return the error for a sparse matrix on a GPU. ``copy`` is the expression of its copy on the host."""
    return DeviceError(
        f"{name} is a sparse matrix on a GPU, which this function does not support: pass {copy}, its copy in the "
        "memory of the host"
    )


def other_sparse_error(x: Any) -> DTypeError:
    """Return the error for a sparse array of JAX that is no BCOO array."""
    return DTypeError(f"a {type(x).__qualname__} array of JAX is given: convert it to BCOO, by its to_bcoo()")


def tracer_error(name: str) -> DTypeError:
    """Return the error for a tracer of JAX as the argument of a function that reads the entries."""
    return DTypeError(
        f"{name} is traced by JAX (jit, grad or vmap), and this function needs its numbers: call the function of "
        "semiring.jax, which has closure, einsum, matmul, multi_dot, reduce and scan"
    )


def gradients_error(name: str) -> TypeError:
    """Return the error for a tensor that records gradients, if the function does not support them."""
    return TypeError(
        f"{name} records gradients, which this function does not: use semiring.torch (semiring.torch.matmul for "
        f"semiring.matmul), or pass {name}.detach()"
    )
