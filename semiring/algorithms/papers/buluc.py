"""Close a matrix by rank-one updates, or by recursion over plain products.

Source: A. Buluç, J. R. Gilbert, C. Budak, "Solving path problems on the GPU", Parallel Computing 36 (2010).

- `buluc_iterative`, figure 2: A ← A ⊕ A(:, k) ⊗ A(k, :) for every k, by a kernel with a thread block for each 64 × 64
  submatrix. `semiring.algorithms.floyd_warshall` is the same algorithm on a CPU.
- `rkleene_plain`, figure 3: R-Kleene as in `semiring.algorithms.rkleene`, but with a plain product, which has a thread
  for each entry, in place of the library's product. The paper adapts the product of Volkov and Demmel, "LU, QR and
  Cholesky factorizations using vector capabilities of GPUs" (2008), 64 × 16 entries by 64 threads. It is not here.

Cost: n³ pairs. The iterative version takes n launches. The recursive version takes O(n/64) launches: six products for
each split into halves, and copies of panels. Workspace: a panel of the engine for the recursion, and none for the
iterative version.

Deviations: B ← B A and B ← A B overwrite their operand in the paper, and panels of it are copied here (see
`semiring.kernels.engine.Engine.multiply_left`). The iterative version does not write row k and column k, which changes
no value. The recursion has lines 7-8 and 11-12 of figure 3 swapped within each pair, so that it serves every semiring
with a star. Its smallest blocks have 64 rows, and one kernel closes them.

The iterative version does not close packed bits, nor semirings whose ⊕ is not idempotent or whose star is not 1̄.

``docs/papers.md``, section "Buluç, Gilbert and Budak", compares the results of the paper with measurements, and has a
picture.
"""

from __future__ import annotations

from typing import Any

from semiring.algorithms.rkleene import middle_row, rkleene
from semiring.kernels.contract import Backend, Capabilities, KernelPlan, ProductKernels, missing_operations
from semiring.kernels.engine import Engine
from semiring.namespaces import Array

__all__ = ["buluc_iterative", "count_launches", "rkleene_plain"]

LEAF = 64  # rows of the smallest blocks of the recursion


def buluc_iterative(engine: Engine, A: Array) -> None:
    """Close A in place, A ← A*, by a rank-one update for each pivot.

    Raises `DeviceError` where the backend has no such kernel, `AlgebraError` for other semirings and packed bits.

    Explained and measured in ``docs/papers.md``, section "Buluç, Gilbert and Budak".
    """
    engine.close_as("buluc_iterative", A)


def rkleene_plain(engine: Engine, A: Array) -> None:
    """Close A in place, A ← A*, by R-Kleene over plain products, with divergence as in `rkleene`.

    Raises `DeviceError` where the backend has no plain product.

    Explained and measured in ``docs/papers.md``, section "Buluç, Gilbert and Budak".
    """
    products = engine.capabilities.products
    if products is None or not engine.capabilities.provides("multiply_add_plain"):
        raise missing_operations("rkleene_plain", ["multiply_add_plain"], engine.backend)
    plain: Any = _PlainProducts(engine.backend, products)
    rkleene(engine.with_backend(plain), A, leaf=LEAF)


def count_launches(n: int, grain: int) -> int:
    """Return how many products and closures of blocks `rkleene_plain` launches for n vertices, without copies."""
    if n <= LEAF:
        return 1
    h = middle_row(n, grain)
    return 6 + count_launches(h, grain) + count_launches(n - h, grain)


class _PlainProducts:
    """The part of a backend that `rkleene` uses, with plain products and without capabilities."""

    stacks = False
    capabilities = Capabilities()

    def __init__(self, backend: Backend, products: ProductKernels) -> None:
        self._backend, self.name, self._products = backend, backend.name, products

    def close_block(self, plan: KernelPlan, A: Array) -> None:
        self._backend.close_block(plan, A)

    def multiply(self, plan: KernelPlan, C: Array, A: Array, B: Array) -> None:
        C[...] = plan.zero
        self.multiply_add(plan, C, A, B)

    def multiply_add(self, plan: KernelPlan, C: Array, A: Array, B: Array) -> None:
        self._products.multiply_add_plain(plan, C, A, B)
