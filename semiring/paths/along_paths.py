"""Fold another weight along the best paths, by one pass over the predecessors.

Source: hops and other weights beside each distance are what the toolboxes of brain networks return, for example
bctpy (M. Rubinov, O. Sporns, NeuroImage 52, 2010). Cost: n² log₂ of the longest path, by
`PathKernels.fold_paths` where the backend has it, and else by array operations.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from semiring.algebra.catalogue import max_min, min_max, min_plus, plus_times
from semiring.algebra.expressions.tree import is_floating, is_half
from semiring.arguments import as_numbers
from semiring.arrays.labels import align_square, is_frame
from semiring.arrays.memory import demand_memory
from semiring.arrays.parts import to_host_array
from semiring.arrays.sparse import is_sparse
from semiring.errors import DomainError, DTypeError, IntegerOverflowError, ShapeError, UnknownNameError
from semiring.kernels import backend_for
from semiring.kernels.contract import has_operation
from semiring.kernels.engine import make_plan
from semiring.namespaces import array_namespace, is_device_array
from semiring.thread_counts import get_threads

__all__ = ["OPERATIONS", "fold_vertices", "fold_weights", "read_weights"]

Array: TypeAlias = NDArray[Any]

#: The semiring whose ⊗ is the operation, by the names of ``operation=``.
OPERATIONS = {"sum": min_plus, "product": plus_times, "min": max_min, "max": min_max}
_WHOLE = 2**63 - 1


def read_weights(W: Any, n: int, names: Any, operation: Any, *, may_be_sparse: bool = False) -> Any:
    """Return the weights to fold as an array (..., n, n) of float32, float64 or int64, on the device of W.

    With ``may_be_sparse`` a sparse matrix remains one.

    Raises `UnknownNameError` for an operation, `ShapeError` for a shape or labels, and `DTypeError` for a dtype.
    """
    if not isinstance(operation, str) or operation not in OPERATIONS:
        raise UnknownNameError("operation along paths", operation, OPERATIONS)
    if is_frame(W):
        W = align_square(W, names)
    if is_sparse(W) and may_be_sparse and W.shape == (n, n):
        return W.tocsr().astype(np.float64 if W.dtype.kind == "f" else np.int64)
    if is_sparse(W):
        demand_memory(8 * n * n, f"the array of the weights of {n:,} vertices", "name fewer vertices")
        W = W.toarray()
    array = W if is_device_array(W) else as_numbers(to_host_array(W), "W")
    if array.ndim < 2 or array.shape[-2:] != (n, n):
        raise ShapeError(f"W is {array.shape}: a weight for each edge is needed, an array ({n}, {n})")
    if array.dtype.kind not in "fiub" and not is_half(array.dtype):
        raise DTypeError(f"W has dtype {array.dtype}: real numbers are needed")
    if not is_floating(array.dtype):
        if array.dtype == np.uint64 and array.size and array.max() > _WHOLE:
            raise IntegerOverflowError("W has numbers beyond int64: pass W.astype(float)")
        return array.astype(np.int64, copy=False)
    return array.astype(np.float32 if is_half(array.dtype) else array.dtype, copy=False)


def fold_weights(before: Any, roots: Any, W: Any, operation: str) -> Any:
    """Fold the entries of W (..., n, n) along each path: an array like ``before`` (..., rows, n).

    A path without edges has the sum 0, the product 1, and no least or greatest weight. Where there is no value, floats
    are NaN, and whole numbers are masked (`numpy.ma.MaskedArray`).

    Raises `ValueError` if a row is no tree, `DomainError` for an edge whose weight is NaN, and `IntegerOverflowError`.
    """
    xp, dtype = array_namespace(before), W.dtype
    out = xp.empty(before.shape, dtype)
    whole = not is_floating(dtype)
    none = 0 if whole else np.nan
    if whole and operation in ("sum", "product"):
        _demand_range(before, roots, W, operation)
    _fold(before, roots, W, operation, none, out)
    rows = xp.arange(before.shape[-2])
    has_value = operation in ("sum", "product")
    if whole:
        has_path = before >= 0
        has_path[..., rows, xp.asarray(roots)] = has_value
        return np.ma.MaskedArray(to_host_array(out), mask=~to_host_array(has_path))
    with np.errstate(all="ignore"):
        is_finite = bool(xp.isfinite(W.sum(dtype=np.float64)))
    if not (is_finite or bool(((before < 0) | (out == out)).all())):
        raise DomainError("W is NaN at an edge of a best path: give each edge a number")
    if not has_value:
        out[..., rows, xp.asarray(roots)] = np.nan
    return out


def fold_vertices(vertices: list[int], W: Any, operation: str) -> Any:
    """Fold the entries of W (n, n), an array or a sparse matrix, along one path; None for a value that is none."""
    weights = [W[u, v] for u, v in pairwise(vertices)]
    if not weights:
        return {"sum": 0, "product": 1}.get(operation)
    exact = [float(w) if isinstance(w, float | np.floating) else int(w) for w in weights]
    if operation in ("min", "max"):
        return min(exact) if operation == "min" else max(exact)
    total = exact[0]
    for weight in exact[1:]:
        total = total + weight if operation == "sum" else total * weight
    return total


def _demand_range(before: Any, roots: Any, W: Any, operation: str) -> None:
    """Raise `IntegerOverflowError` if a sum or a product of whole numbers leaves int64."""
    if not W.size:
        return
    largest, longest = max(abs(int(W.min())), abs(int(W.max()))), before.shape[-1] - 1
    if (largest * longest if operation == "sum" else max(largest, 1) ** min(longest, 64)) < _WHOLE:
        return
    sizes = array_namespace(before).empty(before.shape, np.float64)
    _fold(before, roots, abs(W.astype(np.float64)), operation, 0.0, sizes)
    if sizes.size and not float(sizes.max()) < _WHOLE * (1 - 1e-9):
        raise IntegerOverflowError(f"a {operation} of W along a path does not fit int64: pass W.astype(float)")


def _fold(before: Any, roots: Any, W: Any, operation: str, none: Any, out: Any) -> None:
    """Fold the paths of all rows. Raises `ValueError` if the predecessors are not those of paths."""
    n, stack = before.shape[-1], before.shape[:-2]
    if not before.size:
        return
    if stack and W.ndim > 2:
        for index, own in zip(np.ndindex(stack), np.broadcast_to(W, (*stack, n, n)).reshape(-1, n, n), strict=True):
            _fold(before[index], roots, own, operation, none, out[index])
        return
    semiring = OPERATIONS[operation]
    backend = backend_for(before, semiring, np.dtype(np.float64))
    kernels = backend.capabilities.paths
    if kernels is None or not has_operation(kernels, "fold_paths"):
        failed = _fold_by_doubling(before, roots, W, operation, none, out)
    else:
        plan = make_plan(semiring, W.dtype, threads=get_threads())
        trees = before.reshape(-1, *before.shape[-2:])
        failed = kernels.fold_paths(plan, trees, np.asarray(roots, np.int32), W, W.dtype.type(none), out)
    if failed >= 0:
        raise ValueError(
            f"the predecessors of row {failed % before.shape[-2]} lead in a circle, or to a number that is no vertex: "
            "compute the paths again"
        )


def _fold_by_doubling(before: Any, roots: Any, W: Any, operation: str, none: Any, out: Any) -> int:
    """Fold the paths of all rows (..., p, n) by pointers, each of which leads twice as far after each round.

    Return the first row whose predecessors are not those of paths, or -1.
    """
    xp, n = array_namespace(before), before.shape[-1]
    vertices, is_root = xp.arange(n), xp.arange(n) == xp.asarray(roots)[:, None]
    has_edge = (before >= 0) & (before < n) & ~is_root
    pointers = xp.where(has_edge, before, vertices)
    wide = np.dtype(np.float64) if is_floating(W.dtype) else W.dtype
    values = xp.where(has_edge, W[pointers, vertices].astype(wide), OPERATIONS[operation].one_for(wide))
    mul = {"sum": xp.add, "product": xp.multiply, "min": xp.minimum, "max": xp.maximum}[operation]
    for _ in range(max(1, (n - 1).bit_length())):
        values = mul(xp.take_along_axis(values, pointers, -1), values)
        pointers = xp.take_along_axis(pointers, pointers, -1)
    is_wrong = xp.take_along_axis((before >= 0) & ~is_root, pointers, -1).any(axis=-1).reshape(-1)
    out[...] = xp.where(xp.take_along_axis(xp.broadcast_to(is_root, before.shape), pointers, -1), values, none)
    return int(xp.argmax(is_wrong)) if bool(is_wrong.any()) else -1
