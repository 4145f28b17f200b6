"""Compute the products of the kernel contract on CuPy arrays: choose their words and their route."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import lru_cache, partial
from typing import Any, TypeAlias

import cupy
import numpy as np

from semiring.algebra.expressions import Expression
from semiring.arrays.float_order import flip_negative_bits
from semiring.kernels.contract import KernelPlan
from semiring.kernels.cuda.entries.elementwise import flip
from semiring.kernels.cuda.entries.packing import empty_words, pack, unpack
from semiring.kernels.cuda.product import bit_products
from semiring.kernels.cuda.product.bit_kernels import is_reachability
from semiring.kernels.cuda.product.calls import ProductCall, call_for, format_of
from semiring.kernels.cuda.product.launches import prepare
from semiring.kernels.cuda.product.layouts import LARGEST, Placement, pieces
from semiring.kernels.cuda.product.words import WordFormat

__all__ = ["multiply", "multiply_add", "overlaps", "replaces", "routes_of"]

#: A way to compute a product for operands of certain layouts: a function of plan, C, A, B.
Route: TypeAlias = Callable[[KernelPlan, Any, Any, Any], None]

_X, _Y = Expression("var", (), "x"), Expression("var", (), "y")
_SELECTIONS = (Expression("min", (_X, _Y)), Expression("max", (_X, _Y)))

#: From this m, n and k on, floats are mapped to integers for max-min: three passes of O(n²) to save 25 % of O(n³).
_ORDERED = 256
#: Entries of C that are copied at a time: enough for the tiles that are fastest.
_STRIP = 1 << 24
#: Routes that plans of one kind remember.
_ROUTES = 512


def multiply(plan: KernelPlan, C: Any, A: Any, B: Any) -> None:
    """Compute the product C ← A ⊗ B; C is not read."""
    _multiply(plan, None, C, A, B, False)


def multiply_add(plan: KernelPlan, C: Any, A: Any, B: Any, *, upper: bool = False) -> None:
    """Compute C ← C ⊕ A ⊗ B; with ``upper``, tiles below the diagonal may be skipped."""
    _multiply(plan, None, C, A, B, True, upper)


def replaces(plan: KernelPlan, m: int, n: int) -> bool:
    """Return whether C, packed bits (m, n) in words, may be B."""
    return bit_products.is_read_before(_packed(plan, False), m, n, m)


def overlaps(plan: KernelPlan, m: int, n: int, k: int) -> bool:
    """Return whether columns of C, packed bits (m, n) in words, may be A (m, k)."""
    call = _packed(plan, True)
    return is_reachability(call) and bit_products.is_read_before(call, m, n, k)


def _packed(plan: KernelPlan, accumulate: bool) -> ProductCall:
    return call_for(plan, format_of(plan), accumulate=accumulate)


def _multiply(
    plan: KernelPlan, call: ProductCall | None, C: Any, A: Any, B: Any, accumulate: bool, upper: bool = False
) -> None:
    """Multiply by the route that the plan remembers for these layouts; ``call`` replaces the plan's own call."""
    memory_c, memory_a, memory_b = C.data, A.data, B.data
    alignment = (memory_c.ptr & 15, memory_a.ptr & 15, memory_b.ptr & 15, memory_c.device_id)
    key = (call, accumulate, upper, C.shape, C.strides, A.strides, B.shape, B.strides, alignment)
    routes = routes_of(plan)
    route = routes.get(key)
    if route is None:
        route = routes[key] = _route(plan, call, C, A, B, accumulate, upper)
    route(plan, C, A, B)


def routes_of(plan: KernelPlan) -> dict[Any, Any]:
    """Return the cached routes for layouts, which all plans of this kind share."""
    routes: dict[Any, Any] | None = plan.memo.get("routes")
    if routes is None:
        zero = np.asarray(plan.zero).tobytes()
        routes = plan.memo["routes"] = _routes(plan.semiring, plan.dtype, zero, plan.facts, plan.storage)
    if len(routes) > _ROUTES:
        routes.clear()
    return routes


@lru_cache(maxsize=256)
def _routes(*kind: Any) -> dict[Any, Any]:
    return {}


# ------------------------------------------------------------------------------------------------- routes


def _route(
    plan: KernelPlan, product_call: ProductCall | None, C: Any, A: Any, B: Any, accumulate: bool, upper: bool
) -> Route:
    if not C.size or (not B.shape[-2] and accumulate):
        return _nothing
    if not B.shape[-2]:
        return _all_zero
    if max(*C.shape[-2:], B.shape[-2]) > LARGEST:
        return partial(_in_pieces, product_call, accumulate)
    if plan.dtype == np.bool_ and plan.storage != "bits" and product_call is None:
        bits = call_for(plan, WordFormat("int32", 32), accumulate=accumulate)
        return partial(_through_bits, bits)
    call = call_for(plan, format_of(plan), accumulate=accumulate) if product_call is None else product_call
    if product_call is None:
        if plan.dtype.itemsize == 1 and plan.storage != "bits":
            return partial(_through, call, np.int16 if call.words.lanes == 2 else call.words.numpy_word)
        if _as_integers(call, C, B):
            integers = replace(call, words=WordFormat("int32"), zero=_order_of(call.zero))
            if not call.nonnegative:
                return partial(_through_order, integers)
            call = integers
    on_tensor_cores = bit_products.route(call, C, A, B)
    if on_tensor_cores is not None:
        result: Route = on_tensor_cores
        return result
    if upper:
        call = replace(call, upper=True)
    launch = prepare(call, Placement.of(A), Placement.of(B), Placement.of(C), C.data.device_id)
    return partial(_through_pairs, replace(call, upper=False)) if launch is None else launch


def _nothing(plan: KernelPlan, C: Any, A: Any, B: Any) -> None:
    pass


def _all_zero(plan: KernelPlan, C: Any, A: Any, B: Any) -> None:
    if plan.storage == "bits":
        C[...] = 0  # there the zero is False
    else:  # by its bits: CuPy need not know the dtype
        bits = f"i{plan.dtype.itemsize}"
        C.view(bits)[...] = np.asarray(plan.zero, plan.dtype).view(bits)[()]


def _in_pieces(product_call: ProductCall | None, accumulate: bool, plan: KernelPlan, C: Any, A: Any, B: Any) -> None:
    """Multiply in pieces, because a side is too long for one launch."""
    in_words = plan.storage == "bits" or (product_call is not None and product_call.words.bits)
    for rows, columns, inner in pieces(C.shape[-2], C.shape[-1], B.shape[-2], LARGEST):
        across = slice(inner.start // 32, inner.stop // 32) if in_words else inner
        parts = C[..., rows, columns], A[..., rows, across], B[..., inner, columns]
        _multiply(plan, product_call, *parts, accumulate or inner.start > 0)


def _through_bits(call: ProductCall, plan: KernelPlan, C: Any, A: Any, B: Any) -> None:
    """Multiply truth values as bits, packed 32 to a word."""
    words = pack(C) if call.accumulate else empty_words(C.shape)
    _multiply(plan, call, words, _each(pack, A), _each(pack, B), call.accumulate)
    unpack(words, C.shape[-1], C)


def _through(call: ProductCall, wide: Any, plan: KernelPlan, C: Any, A: Any, B: Any) -> None:
    """Multiply copies of the operands in a wider dtype."""
    B_ = _each(lambda array: array.astype(wide), B)
    for rows in _strips(C):
        part, A_ = C[..., rows, :], _each(lambda array: array.astype(wide), A[..., rows, :])
        target = _scratch(part.shape, wide)
        if call.accumulate:
            target[...] = part
        _multiply(plan, call, target, A_, B_, call.accumulate)
        part[...] = target


def _through_order(call: ProductCall, plan: KernelPlan, C: Any, A: Any, B: Any) -> None:
    """Multiply float32 mapped to integers in the same order."""
    target = _flipped(C) if call.accumulate else cupy.empty(C.shape, np.int32)
    A_, B_ = (_each(_flipped, array) for array in (A, B))
    _multiply(plan, call, target, A_, B_, call.accumulate)
    flip(target, C.view(np.int32))


def _through_pairs(call: ProductCall, plan: KernelPlan, C: Any, A: Any, B: Any) -> None:
    """Multiply copies with an even number of columns; padding only meets padding."""
    C, A, B = (array.view(np.int16) for array in (C, A, B))  # CuPy need not know the dtype
    if Placement.of(C).column_major:
        call, C, A, B = call.transposed, C.swapaxes(-1, -2), B.swapaxes(-1, -2), A.swapaxes(-1, -2)
    n, B_ = C.shape[-1], _each(_padded, B)
    for rows in _strips(C):
        part = C[..., rows, :]
        target = _scratch((*part.shape[:-1], n + n % 2), C.dtype)
        if call.accumulate:
            target[..., :n], target[..., n:] = part, 0
        _multiply(plan, call, target, A[..., rows, :], B_, call.accumulate)
        part[...] = target[..., :n]


def _strips(C: Any) -> Iterator[slice]:
    """Yield ranges of rows that are copied at a time, or all of a stack, whose matrices are small."""
    rows = C.shape[-2]
    step = max(1, _STRIP // C.shape[-1]) if C.ndim == 2 else rows
    for start in range(0, rows, step):
        yield slice(start, min(rows, start + step))


def _scratch(shape: tuple[int, ...], dtype: Any) -> Any:
    """An uninitialised copy of a strip. The sizes are few, because an allocator keeps all sizes."""
    if len(shape) > 2:
        return cupy.empty(shape, dtype)
    rows, columns = shape
    return cupy.empty((1 << (rows - 1).bit_length(), columns), dtype)[:rows]


def _padded(array: Any) -> Any:
    n = array.shape[-1]
    copy = cupy.zeros((*array.shape[:-1], n + n % 2), array.dtype)
    copy[..., :n] = array
    return copy


def _each(function: Callable[[Any], Any], array: Any) -> Any:
    """Apply the function to an operand, only once for a matrix that is repeated in a stack."""
    if array.ndim == 2 or array.strides[0]:
        return function(array)
    once = function(array[:1])
    return cupy.broadcast_to(once, (array.shape[0], *once.shape[1:]))


# ------------------------------------------------------------------------------------------------- what is computed


def _as_integers(call: ProductCall, C: Any, B: Any) -> bool:
    """Return whether float32 is better mapped to integers: ⊕ and ⊗ only select, and the map costs less."""
    if call.words.dtype != "float32" or call.add not in _SELECTIONS or call.mul not in _SELECTIONS:
        return False
    return call.nonnegative or min(*C.shape[-2:], B.shape[-2]) >= _ORDERED


def _flipped(array: Any) -> Any:
    """Map floats to int32 in their order by one pass, or back."""
    out = cupy.empty(array.shape, np.int32)
    flip(array.view(np.int32), out)
    return out


def _order_of(value: Any) -> int:
    return int(flip_negative_bits(int(np.asarray(value, np.float32).view(np.int32))))
