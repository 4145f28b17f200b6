"""Fold another weight along the best paths, by one pass over the predecessors.

Source: hops and other weights beside each distance are what the toolboxes of brain networks return, for example
bctpy (M. Rubinov, O. Sporns, NeuroImage 52, 2010). Cost: n² log₂ of the longest path, by
`PathKernels.fold_paths` where the backend has it, and else by array operations.
"""

from __future__ import annotations

import operator
from functools import reduce
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
from semiring.kernels.contract import NAN_FOLD, has_operation
from semiring.kernels.engine import make_plan
from semiring.namespaces import array_namespace, is_device_array
from semiring.thread_counts import get_threads

__all__ = ["OPERATIONS", "fold_vertices", "fold_weights", "read_weights"]

Array: TypeAlias = NDArray[Any]

#: The semiring whose ⊗ is the operation, by the names of ``operation=``.
OPERATIONS = {"sum": min_plus, "product": plus_times, "min": max_min, "max": min_max}
_FUNCTIONS: dict[str, Any] = {"sum": operator.add, "product": operator.mul, "min": min, "max": max}
_WHOLE = 2**63 - 1


def read_weights(
    W: Any, n: int, names: Any, operation: Any, *, stack: tuple[int, ...] = (), may_be_sparse: bool = False
) -> Any:
    """Return the weights to fold as an array (..., n, n) of float32, float64 or int64, on the device of W.

    ``stack`` is the shape of the stack of the paths. With ``may_be_sparse`` a sparse matrix remains one.

    Raises `UnknownNameError` for an operation, `ShapeError` for a shape or labels, `DTypeError` for a dtype, and
    `IntegerOverflowError` for numbers beyond int64.
    """
    if not isinstance(operation, str) or operation not in OPERATIONS:
        raise UnknownNameError("operation along paths", operation, OPERATIONS)
    if is_frame(W):
        W = align_square(W, names)
    if is_sparse(W):
        if W.shape != (n, n):
            raise _shape_error(W.shape, n, stack)
        rows = W.tocsr().copy()
        rows.data = _as_foldable(rows.data)
        if may_be_sparse:
            return rows
        demand_memory(8 * n * n, f"the array of the weights of {n:,} vertices", "name fewer vertices")
        return rows.toarray()
    array = W if is_device_array(W) else as_numbers(to_host_array(W), "W")
    is_matrix = array.ndim >= 2 and array.shape[-2:] == (n, n)
    if not is_matrix or len(array.shape[:-2]) > len(stack) or not _fits(array.shape[:-2], stack):
        raise _shape_error(array.shape, n, stack)
    return _as_foldable(array)


def _fits(own: tuple[int, ...], stack: tuple[int, ...]) -> bool:
    return all(size in (1, other) for size, other in zip(own[::-1], stack[::-1], strict=False))


def _shape_error(shape: tuple[int, ...], n: int, stack: tuple[int, ...]) -> ShapeError:
    own = f", or one for each matrix, an array {(*stack, n, n)}" if stack else ""
    return ShapeError(f"W is {shape}: a weight for each edge is needed, an array ({n}, {n}){own}")


def _as_foldable(array: Any) -> Any:
    """Return real numbers as float32, float64 or int64."""
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

    Raises `ValueError` if a row is no tree, `DomainError` for a path without a value, and `IntegerOverflowError`.
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
    if not has_value:
        out[..., rows, xp.asarray(roots)] = np.nan
    return out


def fold_vertices(vertices: list[int], W: Any, operation: str) -> Any:
    """Fold the entries of W (n, n), an array or a sparse matrix of `read_weights`, along one path, or return None.

    Raises `DomainError` and `IntegerOverflowError` as `fold_weights`.
    """
    if len(vertices) < 2:
        return {"sum": 0, "product": 1}.get(operation)
    weights = [W[u, v].item() for u, v in pairwise(vertices)]
    total = reduce(_FUNCTIONS[operation], weights)
    if is_floating(W.dtype):
        if any(w != w for w in weights) or total != total:
            raise _no_value(operation)
        return W.dtype.type(total)
    if operation in ("sum", "product"):
        _demand_int64(reduce(_FUNCTIONS[operation], map(abs, weights)), operation)
    return total


def _no_value(operation: str) -> DomainError:
    return DomainError(
        f"the {operation} of W along a best path has no value: W is NaN at an edge, or joins inf with -inf or 0"
    )


def _demand_int64(size: float, operation: str) -> None:
    if not size < _WHOLE * (1 - 1e-9):
        raise IntegerOverflowError(
            f"a {operation} of the absolute values of W along a path does not fit int64: pass W.astype(float)"
        )


def _demand_range(before: Any, roots: Any, W: Any, operation: str) -> None:
    """Raise `IntegerOverflowError` if a sum or a product of absolute values leaves int64."""
    if not W.size:
        return
    largest, longest = max(abs(int(W.min())), abs(int(W.max()))), before.shape[-1] - 1
    if (largest * longest if operation == "sum" else max(largest, 1) ** min(longest, 64)) < _WHOLE:
        return
    sizes = array_namespace(before).empty(before.shape, np.float64)
    try:
        _fold(before, roots, abs(W.astype(np.float64)), operation, 0.0, sizes)
    except DomainError:  # a product beyond the floats, times 0
        _demand_int64(float("inf"), operation)
    _demand_int64(float(sizes.max()) if sizes.size else 0.0, operation)


def _fold(before: Any, roots: Any, W: Any, operation: str, none: Any, out: Any) -> None:
    """Fold the paths of all rows. Raises `ValueError` and `DomainError` as `fold_weights`."""
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
    if failed == NAN_FOLD:
        raise _no_value(operation)
    if failed >= 0:
        raise ValueError(
            f"the predecessors of row {failed % before.shape[-2]} lead in a cycle, or to a number that is no vertex: "
            "compute the paths again"
        )


def _fold_by_doubling(before: Any, roots: Any, W: Any, operation: str, none: Any, out: Any) -> int:
    """Fold the paths of all rows (..., p, n) by pointers, each of which leads twice as far after each round.

    Return what `PathKernels.fold_paths` does.
    """
    xp, n = array_namespace(before), before.shape[-1]
    vertices, is_root = xp.arange(n), xp.arange(n) == xp.asarray(roots)[:, None]
    has_edge = (before >= 0) & (before < n) & ~is_root
    pointers = xp.where(has_edge, before, vertices)
    wide = np.dtype(np.float64) if is_floating(W.dtype) else W.dtype
    edges = values = xp.where(has_edge, W[pointers, vertices].astype(wide), OPERATIONS[operation].one_for(wide))
    mul = {"sum": xp.add, "product": xp.multiply, "min": xp.minimum, "max": xp.maximum}[operation]
    for _ in range(max(1, (n - 1).bit_length())):
        values = mul(xp.take_along_axis(values, pointers, -1), values)
        pointers = xp.take_along_axis(pointers, pointers, -1)
    is_wrong = xp.take_along_axis((before >= 0) & ~is_root, pointers, -1).any(axis=-1).reshape(-1)
    has_path = xp.take_along_axis(xp.broadcast_to(is_root, before.shape), pointers, -1)
    out[...] = xp.where(has_path, values, none)
    if bool(is_wrong.any()):
        return int(xp.argmax(is_wrong))
    return NAN_FOLD if bool((has_path & ((values != values) | (edges != edges))).any()) else -1
