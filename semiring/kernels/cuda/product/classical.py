"""Multiply floats over plus_times by cuBLAS, which has kernels for tensor cores and for every size.

float64 and float16 use tensor cores, and float16 is added in single precision. float32 does not use them, so that its
products keep 24 bits. cuBLAS supports a layout if one of the two strides is the size of an element. The kernels of this
library multiply matrices of other layouts.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from semiring.algebra import Semiring
from semiring.algebra.catalogue import plus_times
from semiring.kernels.contract import KernelPlan

# By dtype: the codes of cuBLAS for the elements and for the arithmetic, and the dtype of α and β.
_CODES = {"float16": (2, 68, np.float32), "float32": (0, 68, np.float32), "float64": (1, 70, np.float64)}
_DEFAULT_ALGORITHM = -1
_LARGEST = 2**31 - 1


class CublasLayout(NamedTuple):
    """The layout of a matrix as parameters of cuBLAS, which expects column-major matrices."""

    transposed: int  # 1 if the matrix is stored by columns
    stride: int  # the leading dimension: from one row (or column) to the next, in elements
    batch: int  # from one matrix of a stack to the next, in elements

    @classmethod
    def of(cls, shape: tuple[int, ...], strides: tuple[int, ...], itemsize: int) -> CublasLayout | None:
        """Return the layout for strides in bytes of a matrix or a stack, or None where cuBLAS does not support it."""
        rows, columns = shape[-2:]
        batch = strides[0] if len(shape) == 3 and shape[0] > 1 else 0
        down, across = strides[-2:]
        if batch < 0 or any(stride % itemsize for stride in (batch, down, across)):
            return None
        for transposed, length, other, step, unit in (
            (0, columns, rows, down, across),
            (1, rows, columns, across, down),
        ):
            along = step // itemsize if other > 1 else length
            if (length == 1 or unit == itemsize) and max(1, length) <= along <= _LARGEST:
                return cls(transposed, along, batch // itemsize)
        return None


def supports(plan: KernelPlan) -> bool:
    """Return whether cuBLAS computes products under this plan, in supported layouts."""
    return plan.storage == "elements" and _is_classical(plan.semiring, plan.dtype)


@lru_cache(maxsize=256)
def _is_classical(semiring: Semiring, dtype: np.dtype[Any]) -> bool:
    if dtype.name not in _CODES or semiring.definition != plus_times.definition:
        return False
    try:
        from cupy_backends.cuda.libs import cublas  # noqa: F401
    except ImportError:  # CuPy without the libraries of CUDA: the kernels of this library multiply
        return False
    return True


def multiply(plan: KernelPlan, C: Any, A: Any, B: Any, *, accumulate: bool) -> bool:
    """Compute C ← A ⊗ B or C ⊕ A ⊗ B on the current stream, and return whether cuBLAS supports it."""
    if not supports(plan) or not A.size or not B.size or max(A.shape + B.shape) > _LARGEST:
        return False
    layouts = [CublasLayout.of(X.shape, X.strides, X.itemsize) for X in (C, A, B)]
    if any(layout is None for layout in layouts):
        return False
    c, a, b = layouts
    assert a is not None
    assert b is not None
    assert c is not None
    if c.transposed:  # then Cᵀ = Bᵀ Aᵀ is stored by rows
        C, A, B = (X.swapaxes(-1, -2) for X in (C, A, B))
        a, b = (CublasLayout(1 - x.transposed, x.stride, x.batch) for x in (b, a))
        A, B = B, A
    m, n, k, batch = C.shape[-2], C.shape[-1], A.shape[-1], C.shape[0] if C.ndim == 3 else 1
    if batch > _LARGEST:
        return False
    code, arithmetic, scalar = _CODES[plan.dtype.name]
    one, beta = np.ones((), scalar), np.full((), accumulate, scalar)
    from cupy.cuda.device import get_cublas_handle
    from cupy_backends.cuda.libs import cublas

    try:
        cublas.gemmStridedBatchedEx(
            get_cublas_handle(),
            *(b.transposed, a.transposed, n, m, k, one.ctypes.data),
            *(B.data.ptr, code, b.stride, b.batch),
            *(A.data.ptr, code, a.stride, a.batch, beta.ctypes.data),
            *(C.data.ptr, code, c.stride, c.batch, batch, arithmetic, _DEFAULT_ALGORITHM),
        )
    except NotImplementedError:  # CuPy raises it while a stream is captured, before it enqueues any work
        return False
    return True
