"""Compute the products of the kernel contract on CuPy arrays: choose their words and their route.

A product with witnesses, the smallest k that attains an entry, records the last run of k that improved an entry. Then a
search finds the k in this run.
"""

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
from semiring.kernels.cuda.entries.entry_passes import flip
from semiring.kernels.cuda.entries.packing import empty_words, pack, unpack
from semiring.kernels.cuda.product import bit_products
from semiring.kernels.cuda.product.bit_kernels import is_reachability
from semiring.kernels.cuda.product.calls import LARGEST, Placement, ProductCall, call_for, format_of, pieces
from semiring.kernels.cuda.product.launches import enter_device, load_kernel, prepare
from semiring.kernels.cuda.product.specification import THREADS, Search, WordFormat
from semiring.kernels.definition import define

#: A function of plan, C, A and B that computes a product for operands of certain layouts.
Route: TypeAlias = Callable[[KernelPlan, Any, Any, Any], None]

_X, _Y = Expression("var", (), "x"), Expression("var", (), "y")
_SELECTIONS = (Expression("min", (_X, _Y)), Expression("max", (_X, _Y)))

#: The least m, n and k for which floats are mapped to integers for max-min: three passes of O(n²) save 25 % of O(n³).
_ORDERED = 256
#: The entries of C that are copied at a time, enough for the fastest tiles.
_STRIP = 1 << 24
#: The length of the recorded runs, in which a witness is searched: the k of one tile.
_RUN = 16
#: The most routes in the cache of the plans of one kind.
_ROUTES = 512


def multiply(plan: KernelPlan, C: Any, A: Any, B: Any) -> None:
    """Compute the product C ← A ⊗ B. C is not read."""
    _multiply(plan, None, C, A, B, False)


def multiply_add(plan: KernelPlan, C: Any, A: Any, B: Any, *, upper: bool = False) -> None:
    """Compute C ← C ⊕ A ⊗ B. With ``upper``, tiles below the diagonal may be skipped."""
    _multiply(plan, None, C, A, B, True, upper)


def replaces(plan: KernelPlan, m: int, n: int) -> bool:
    """Return whether C, packed bits (m, n) in words, may be B."""
    return bit_products.is_read_before(_bit_call(plan, False), m, n, m)


def overlaps(plan: KernelPlan, m: int, n: int, k: int) -> bool:
    """Return whether columns of C, packed bits (m, n) in words, may be A (m, k)."""
    call = _bit_call(plan, True)
    return is_reachability(call) and bit_products.is_read_before(call, m, n, k)


def _bit_call(plan: KernelPlan, accumulate: bool) -> ProductCall:
    return call_for(plan, format_of(plan), accumulate=accumulate)


def _multiply(
    plan: KernelPlan, call: ProductCall | None, C: Any, A: Any, B: Any, accumulate: bool, upper: bool = False
) -> None:
    """Multiply by the cached route for these layouts. ``call`` replaces the call that the plan defines."""
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
        return _do_nothing
    if not B.shape[-2]:
        return _fill_zero
    if max(*C.shape[-2:], B.shape[-2]) > LARGEST:
        return partial(_multiply_in_pieces, product_call, accumulate)
    if plan.dtype == np.bool_ and plan.storage != "bits" and product_call is None:
        bits = call_for(plan, WordFormat("int32", 32), accumulate=accumulate)
        return partial(_multiply_as_bits, bits)
    call = call_for(plan, format_of(plan), accumulate=accumulate) if product_call is None else product_call
    if product_call is None:
        if plan.dtype.itemsize == 1 and plan.storage != "bits":
            return partial(_multiply_widened, call, np.int16 if call.words.lanes == 2 else call.words.numpy_word)
        if _is_faster_as_integers(call, C, B):
            integers = replace(call, words=WordFormat("int32"), zero=_ordered_integer(call.zero))
            if not call.nonnegative:
                return partial(_multiply_as_integers, integers)
            call = integers
    on_tensor_cores = bit_products.route(call, C, A, B)
    if on_tensor_cores is not None:
        result: Route = on_tensor_cores
        return result
    if upper:
        call = replace(call, upper=True)
    launch = prepare(call, Placement.of(A), Placement.of(B), Placement.of(C), C.data.device_id)
    return partial(_multiply_as_pairs, replace(call, upper=False)) if launch is None else launch


def _do_nothing(plan: KernelPlan, C: Any, A: Any, B: Any) -> None:
    pass


def _fill_zero(plan: KernelPlan, C: Any, A: Any, B: Any) -> None:
    if plan.storage == "bits":
        C[...] = 0  # the zero of packed bits is False
    else:  # by the bits of the zero, because CuPy may lack the dtype
        bits = f"i{plan.dtype.itemsize}"
        C.view(bits)[...] = np.asarray(plan.zero, plan.dtype).view(bits)[()]


def _multiply_in_pieces(
    product_call: ProductCall | None, accumulate: bool, plan: KernelPlan, C: Any, A: Any, B: Any
) -> None:
    """Multiply in pieces, because a side is too long for one launch."""
    in_words = plan.storage == "bits" or (product_call is not None and product_call.words.has_bits)
    for rows, columns, inner in pieces(C.shape[-2], C.shape[-1], B.shape[-2], LARGEST):
        across = slice(inner.start // 32, inner.stop // 32) if in_words else inner
        parts = C[..., rows, columns], A[..., rows, across], B[..., inner, columns]
        _multiply(plan, product_call, *parts, accumulate or inner.start > 0)


def _multiply_as_bits(call: ProductCall, plan: KernelPlan, C: Any, A: Any, B: Any) -> None:
    """Multiply truth values as bits, packed 32 to a word."""
    words = pack(C) if call.accumulate else empty_words(C.shape)
    _multiply(plan, call, words, _apply_to_operand(pack, A), _apply_to_operand(pack, B), call.accumulate)
    unpack(words, C.shape[-1], C)


def _multiply_widened(call: ProductCall, wide: Any, plan: KernelPlan, C: Any, A: Any, B: Any) -> None:
    """Multiply copies of the operands in a wider dtype."""
    B_ = _apply_to_operand(lambda array: array.astype(wide), B)
    for rows in _strips(C):
        part, A_ = C[..., rows, :], _apply_to_operand(lambda array: array.astype(wide), A[..., rows, :])
        target = _scratch(part.shape, wide)
        if call.accumulate:
            target[...] = part
        _multiply(plan, call, target, A_, B_, call.accumulate)
        part[...] = target


def _multiply_as_integers(call: ProductCall, plan: KernelPlan, C: Any, A: Any, B: Any) -> None:
    """Multiply float32 mapped to integers in the same order."""
    target = _flip_copy(C) if call.accumulate else cupy.empty(C.shape, np.int32)
    A_, B_ = (_apply_to_operand(_flip_copy, array) for array in (A, B))
    _multiply(plan, call, target, A_, B_, call.accumulate)
    flip(target, C.view(np.int32))


def _multiply_as_pairs(call: ProductCall, plan: KernelPlan, C: Any, A: Any, B: Any) -> None:
    """Multiply copies with an even number of columns, whose padding does not change the other columns."""
    C, A, B = (array.view(np.int16) for array in (C, A, B))  # CuPy may lack the dtype
    if Placement.of(C).is_column_major:
        call, C, A, B = call.transposed, C.swapaxes(-1, -2), B.swapaxes(-1, -2), A.swapaxes(-1, -2)
    n, B_ = C.shape[-1], _apply_to_operand(_pad_columns, B)
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
    """Allocate an array for a copy of a strip, with a power of two of rows, because CuPy's pool keeps all sizes."""
    if len(shape) > 2:
        return cupy.empty(shape, dtype)
    rows, columns = shape
    return cupy.empty((1 << (rows - 1).bit_length(), columns), dtype)[:rows]


def _pad_columns(array: Any) -> Any:
    n = array.shape[-1]
    copy = cupy.zeros((*array.shape[:-1], n + n % 2), array.dtype)
    copy[..., :n] = array
    return copy


def _apply_to_operand(function: Callable[[Any], Any], array: Any) -> Any:
    """Apply the function to an operand, only once for a matrix that is repeated in a stack."""
    if array.ndim == 2 or array.strides[0]:
        return function(array)
    once = function(array[:1])
    return cupy.broadcast_to(once, (array.shape[0], *once.shape[1:]))


# ------------------------------------------------------------------------------------------------- floats as integers


def _is_faster_as_integers(call: ProductCall, C: Any, B: Any) -> bool:
    """Return whether a float32 product is faster as integers: ⊕ and ⊗ only select, and m, n and k are large enough."""
    if call.words.dtype != "float32" or call.add not in _SELECTIONS or call.mul not in _SELECTIONS:
        return False
    return call.nonnegative or min(*C.shape[-2:], B.shape[-2]) >= _ORDERED


def _flip_copy(array: Any) -> Any:
    """Return float32 mapped to int32 in the same order, or inversely, by one pass."""
    out = cupy.empty(array.shape, np.int32)
    flip(array.view(np.int32), out)
    return out


def _ordered_integer(value: Any) -> int:
    return int(flip_negative_bits(int(np.asarray(value, np.float32).view(np.int32))))


# ------------------------------------------------------------------------------------------------- witnesses


def multiply_add_witness(plan: KernelPlan, C: Any, W: Any, A: Any, B: Any, k0: int) -> None:
    """Compute `multiply_add`, and the smallest attaining k0 + k where the product is strictly better than C."""
    if not C.size or not B.shape[0]:
        return
    if max(*C.shape, B.shape[0]) > LARGEST and plan.storage == "elements":
        for rows, columns, inner in pieces(C.shape[0], C.shape[1], B.shape[0], LARGEST):
            parts = C[rows, columns], W[rows, columns], A[rows, inner], B[inner, columns]
            multiply_add_witness(plan, *parts, k0 + inner.start)
        return
    C_, A_, B_ = _as_words(plan, C, A, B, W.shape[1])
    runs = cupy.full(W.shape, -1, np.int32)
    call = _record(plan, C_, runs, A_, B_)
    search = Search(define(plan).mul.text, call.words, _RUN, W.dtype == np.int64)
    operands = (A_, B_, C_, runs, W)
    m, n = C_.shape
    strides = [stride // array.itemsize for array in operands for stride in array.strides]
    kernel = load_kernel(search, None, C_.data.device_id)
    launch = kernel.prepare_launch(
        m * -(-n // THREADS), *(x.data.ptr for x in operands), *strides, k0, m, n, B_.shape[0]
    )
    launch()
    _write_back(plan, C, C_)


def _as_words(plan: KernelPlan, C: Any, A: Any, B: Any, n: int) -> tuple[Any, Any, Any]:
    """Return the operands as words of one element. Narrower elements are copied. C has n columns."""
    if plan.dtype.name == "bfloat16":  # by the bits, because CuPy may lack the dtype
        C, A, B = ((array.view(np.int16).astype(np.int32) << 16).view(np.float32) for array in (C, A, B))
        return C, A, B
    word = WordFormat(plan.dtype.name).numpy_word
    if plan.storage == "bits":
        C, A, B = unpack(C, n), unpack(A, B.shape[0]), unpack(B, n)
    C, A, B = (array.astype(word, copy=False) for array in (C, A, B))
    return C, A, B


def _write_back(plan: KernelPlan, C: Any, result: Any) -> None:
    """Convert the result of `_as_words` to the elements of C, and write it into C unless it is C."""
    if plan.storage == "bits":
        C[...] = pack(result != 0).view(C.dtype)
    elif plan.dtype.name == "bfloat16":
        C.view(np.int16)[...] = result.view(np.int32) >> 16
    elif result is not C:
        C[...] = result


def _record(plan: KernelPlan, C: Any, runs: Any, A: Any, B: Any) -> ProductCall:
    """Compute `multiply_add` on words of one element, and return the call that defines the product.

    ``runs`` (m, n) int32 becomes the first k of the last run in which C improved, and keeps its other entries.
    """
    device = C.data.device_id
    enter_device(device)
    call = call_for(plan, WordFormat(plan.dtype.name), accumulate=True, record=True)
    routes = routes_of(plan)
    key = (
        *("record", C.shape, C.strides, A.strides, B.shape, B.strides),
        *(C.data.ptr & 15, A.data.ptr & 15, B.data.ptr & 15, device),
    )
    launch = routes.get(key)
    if launch is None:
        launch = prepare(call, Placement.of(A), Placement.of(B), Placement.of(C), device)
        assert launch is not None  # words of one element have no alignment to violate
        routes[key] = launch
    launch.record(C, runs, A, B, _RUN)
    return call
