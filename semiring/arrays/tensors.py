"""Convert bfloat16 tensors of PyTorch, which NumPy cannot read, and make errors for tensors and tracers."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

import numpy as np

from semiring.algebra.expressions.tree import is_bfloat16
from semiring.errors import DTypeError, MissingExtraError, ShapeError

__all__ = [
    "as_sparse_array",
    "as_tensor",
    "bfloat16_array",
    "gradients_error",
    "is_bfloat16_tensor",
    "is_sparse_tensor",
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
    """Return whether x is a PyTorch tensor that stores the positions of its entries, in COO, CSR or CSC layout."""
    torch: Any = sys.modules.get("torch")
    if torch is None or not isinstance(x, torch.Tensor):
        return False
    return x.layout in (torch.sparse_coo, torch.sparse_csr, torch.sparse_csc)


def as_sparse_array(x: Any, name: str) -> Any:
    """Return a sparse tensor of the host as a SciPy array, whose stored entries are edges, also those of weight 0.

    An entry that a COO tensor stores more than once stays so. Raises `ShapeError` for other than two dimensions.
    """
    from scipy.sparse import coo_array, csc_array, csr_array

    torch: Any = sys.modules["torch"]
    if x.dim() != 2 or x.dense_dim():
        raise ShapeError(f"{name} is a sparse tensor of the shape {tuple(x.shape)}: only matrices are accepted")
    values = x._values() if x.layout == torch.sparse_coo else x.values()
    entries = bfloat16_array(values) if is_bfloat16_tensor(values) else values.numpy()
    if x.layout == torch.sparse_coo:  # `coalesce` would add equal positions by +
        return coo_array((entries, tuple(x._indices().numpy())), shape=tuple(x.shape))
    if x.layout == torch.sparse_csr:
        return csr_array((entries, x.col_indices().numpy(), x.crow_indices().numpy()), shape=tuple(x.shape))
    return csc_array((entries, x.row_indices().numpy(), x.ccol_indices().numpy()), shape=tuple(x.shape))


def as_tensor(array: Any) -> Any:
    """Return an array of numbers as a tensor that shares its memory."""
    torch: Any = sys.modules["torch"]
    if is_bfloat16(array.dtype):
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(array)


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
