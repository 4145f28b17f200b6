"""The CUDA backend: any semiring on NVIDIA GPUs from sm_80 on, by kernels of the CUTLASS Python DSL.

From the bottom up: `words` says how elements lie in registers, `lower` turns expressions into instructions, `gemm` is
the product, `search` finds witnesses, `tiles` and `layouts` decide in plain numbers, `compilation` keeps what is
compiled, `products` puts them together on CuPy arrays. Only `tiles` and `layouts` load without the extra ``cuda``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from semiring.algebra import Semiring
from semiring.errors import MissingExtraError
from semiring.kernels.contract import Plan

__all__ = ["CudaBackend"]

_DTYPES = frozenset(("float16", "float32", "float64", "int16", "int32", "int64", "uint8", "bool"))


class CudaBackend:
    """`semiring.kernels.contract.Backend` on CuPy arrays.

    Every call only enqueues work on ``plan.stream`` (CuPy's current stream where that is None): no synchronisation, no
    trip through the host. The first call for an operation, dtype and layout compiles for 1 to 3 s.

    Raises `MissingExtraError` where CuPy or nvidia-cutlass-dsl is not installed.
    """

    name = "cuda"
    stacks = False

    def __init__(self) -> None:
        for package, distribution in (("cupy", "CuPy"), ("cutlass.cute", "nvidia-cutlass-dsl")):
            try:
                __import__(package)
            except ImportError as error:
                raise MissingExtraError(distribution, "cuda", "computing on an NVIDIA GPU") from error
        from semiring.kernels.cuda import products

        self._products = products

    def supports(self, semiring: Semiring, dtype: np.dtype[Any], storage: str = "elements") -> bool:
        """Every semiring on every dtype that it is defined on; packed bits where the zero is False."""
        if dtype.name not in _DTYPES or not semiring.supports(dtype):
            return False
        return storage == "elements" or bool(dtype == np.bool_ and not semiring.zero_for(dtype))

    def multiply(self, plan: Plan, C: Any, A: Any, B: Any) -> None:
        """C ← A ⊗ B. C is not read."""
        self._products.multiply(plan, C, A, B)

    def multiply_add(self, plan: Plan, C: Any, A: Any, B: Any) -> None:
        """C ← C ⊕ A ⊗ B."""
        self._products.multiply_add(plan, C, A, B)

    def multiply_add_witness(self, plan: Plan, C: Any, W: Any, A: Any, B: Any, k0: int) -> None:
        """As `multiply_add`, with the smallest attaining k0 + k where the product is strictly better than C."""
        self._products.multiply_add_witness(plan, C, W, A, B, k0)

    def multiply_add_pivots(self, plan: Plan, C: Any, P: Any, A: Any, B: Any, k0: int) -> None:
        """As `multiply_add`; P becomes k0 + the first k of the last run of ``plan.pivot_chunk`` in which C improved."""
        self._products.multiply_add_pivots(plan, C, P, A, B, k0)

    def side_by_side(self, tasks: Sequence[Callable[[], None]]) -> None:
        """Enqueue tasks that touch no common data on streams of their own, the first on one of high priority."""
        from semiring.kernels.cuda.streams import side_by_side

        side_by_side(tasks)

    def mark(self) -> Any:
        """An event behind all that was enqueued on the current stream: ``done``, and ``synchronize()``."""
        from semiring.kernels.cuda.streams import mark

        return mark()

    def replay(
        self, plan: Plan, A: Any, name: str, engine_of: Callable[[Plan], Any], algorithm: Callable[..., None]
    ) -> None:
        """``algorithm(engine_of(plan), A)``, from the second time on as one launch of a CUDA graph."""
        from semiring.kernels.cuda.streams import replay

        replay(plan, A, name, engine_of, algorithm)

    def close_block(self, plan: Plan, A: Any) -> None:
        """A ← A* in place, fastest up to 128 rows (see `semiring.kernels.cuda.staged`)."""
        from semiring.kernels.cuda import staged

        staged.close_block(plan, A)

    def close_block_pivots(self, plan: Plan, A: Any, P: Any, k0: int) -> None:
        """As `close_block`; where pivot k changes A[i, j], P[i, j] becomes k0 + k."""
        from semiring.kernels.cuda import staged

        staged.close_block(plan, A, P, k0)
