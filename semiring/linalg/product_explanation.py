"""Record how a product was computed, for ``explain=True``: kernel, dtypes, threads, device and number of pairs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from semiring.algebra.catalogue import adds_exponentials, adds_products
from semiring.namespaces import Array, is_device_array

if TYPE_CHECKING:
    from semiring.kernels.contract import KernelPlan

__all__ = ["ProductExplanation", "is_recording", "pause_recording", "record_kernel", "record_product"]


@dataclass
class ProductExplanation:
    """How a call computed its products, as ``explain=True`` returns it. ``str`` returns a summary of five or six lines.

    The parameters are also its attributes. If a call computes several products, `pairs` and `calls` are sums over all
    of them, and the other attributes describe the last one.

    Parameters
    ----------
    semiring : str
        The name of the semiring.
    function : str
        The name of the function that was called.
    kernel : str
        The kind of kernel, such as ``"product"``, ``"product with witness"`` or ``"product of packed bits"``. It is
        ``"none"`` if the result has no entries, or no terms.
    dtype : numpy.dtype or None
        The dtype of the result, or None if no kernel was called.
    encoding : str
        The form in which the kernel reads the operands.
    accumulation : numpy.dtype or None
        The dtype in which sums are computed: that of the kernel's entries, float64 for sums of exponentials, and
        float32 for sums of products in float16.
    threads : int
        The number of threads on a CPU.
    device : str
        ``"cpu"``, or the GPU in the form of ``device=``.
    pairs : int
        The number of pairs of one ⊗ and one ⊕.
    calls : int
        The number of calls of kernels, each for a matrix or a stack.
    accumulators : dict of str to int
        For sparse products, how many rows of the result each accumulator computed: ``"bitmap"``, ``"hash"`` or
        ``"list"``. They are sums over all products.
    """

    semiring: str = ""
    function: str = "matmul"
    kernel: str = "none"
    dtype: np.dtype[Any] | None = None
    encoding: str = ""
    accumulation: np.dtype[Any] | None = None
    threads: int = 1
    device: str = "cpu"
    pairs: int = 0
    calls: int = 0
    accumulators: dict[str, int] = field(default_factory=dict)

    def __str__(self) -> str:
        if not self.calls:
            return f"{self.function} in {self.semiring}\n  kernel   none, because the result has no entries or terms"
        threads = f" with {self.threads} thread{'s' * (self.threads > 1)}" if self.device == "cpu" else ""
        several = f" in {self.calls:,} calls of the kernel" if self.calls > 1 else ""
        rows = ", ".join(f"{count:,} by {name}" for name, count in self.accumulators.items())
        return "\n".join(
            [
                f"{self.function} in {self.semiring}, {self.dtype}",
                f"  kernel   {self.kernel}, on {self.device}{threads}",
                f"  encoding {self.encoding}",
                f"  sums     in {self.accumulation}",
                *([f"  rows     {rows}"] if rows else []),
                f"  cost     {self.pairs:,} pairs of ⊗ and ⊕{several}",
            ]
        )


_RECORD: ContextVar[ProductExplanation | None] = ContextVar("_RECORD", default=None)


@contextmanager
def record_product(semiring: str, function: str) -> Iterator[ProductExplanation]:
    """Record the products of this context in the explanation that it yields."""
    explanation = ProductExplanation(semiring, function)
    token = _RECORD.set(explanation)
    try:
        yield explanation
    finally:
        _RECORD.reset(token)


@contextmanager
def pause_recording() -> Iterator[None]:
    """Leave the products of this context out of the explanation, because they only validate operands."""
    token = _RECORD.set(None)
    try:
        yield
    finally:
        _RECORD.reset(token)


def is_recording() -> bool:
    """Return whether the caller requested an explanation of its products."""
    return _RECORD.get() is not None


def record_kernel(
    kernel: str,
    plan: KernelPlan,
    result: Array,
    pairs: int,
    dtype: Any,
    *,
    has_zero: bool,
    accumulators: dict[str, int] | None = None,
) -> None:
    """Add a call of a kernel to the explanation, if the caller requested one.

    Parameters
    ----------
    kernel
        The kind of kernel.
    plan
        The plan of the kernel.
    result
        An array in the memory of the result.
    pairs
        The number of pairs of the call.
    dtype
        The dtype of the caller's result.
    has_zero
        Whether the operands may have integers for "no path", which are encoded.
    accumulators
        For sparse products, how many rows each accumulator computed.
    """
    explanation = _RECORD.get()
    if explanation is None:
        return
    inner = np.dtype(plan.dtype)
    if plan.storage == "bits":
        encoding = "packed bits, 32 truth values to a word"
    elif has_zero and inner.kind in "iu":
        encoding = f"{inner}, with {plan.zero} for no path"
    else:
        encoding = f"{inner}, converted from {dtype}" if inner != dtype else f"{inner}, as given"
    explanation.kernel, explanation.dtype, explanation.encoding = kernel, np.dtype(dtype), encoding
    sums = inner
    if adds_exponentials(plan.semiring) and inner.kind == "f":
        sums = np.dtype(np.float64)
    elif adds_products(plan.semiring) and inner == np.float16:  # cuBLAS adds float16 in single precision
        sums = np.dtype(np.float32)
    explanation.accumulation, explanation.threads = sums, plan.threads
    explanation.device = f"cuda:{_device_of(result)}" if is_device_array(result) else "cpu"
    explanation.pairs += int(pairs)
    for name, rows in (accumulators or {}).items():
        explanation.accumulators[name] = explanation.accumulators.get(name, 0) + rows
    explanation.calls += 1


def _device_of(array: Any) -> int:
    """Return the number of the GPU of a CuPy array."""
    return int(array.device.id)
