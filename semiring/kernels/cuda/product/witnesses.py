"""Compute products with witnesses: the smallest k that attains an entry.

A product records the last run of k that improved an entry. Then a search finds the k in this run.
"""

from __future__ import annotations

from typing import Any

import cupy
import numpy as np

from semiring.kernels.contract import KernelPlan
from semiring.kernels.cuda.compile.loading import load_kernel
from semiring.kernels.cuda.entries.packing import pack, unpack
from semiring.kernels.cuda.product.calls import ProductCall, call_for
from semiring.kernels.cuda.product.launches import enter_device, prepare
from semiring.kernels.cuda.product.layouts import LARGEST, Placement, pieces
from semiring.kernels.cuda.product.product_routes import routes_of
from semiring.kernels.cuda.product.specification import THREADS, Search
from semiring.kernels.cuda.product.words import WordFormat
from semiring.kernels.definition import define

__all__ = ["multiply_add_witness"]

#: The length of the recorded runs, in which a witness is searched: the k of one tile.
_RUN = 16


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
