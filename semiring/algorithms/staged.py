"""Close a matrix on a GPU by the staged Floyd-Warshall kernels, in a few launches of special kernels, without products.

Source: B. Lund, J. W. Smith, "A multi-stage CUDA kernel for Floyd-Warshall" (2010), and later improvements; the
kernels and their history are in `semiring.kernels.cuda.closing`. Cost: n³ pairs.

The kernels do not close matrices of a ⊕ that is not idempotent, nor of packed bits. They compute neither A⁺ (see
`irreflexive_closure`) nor pivots. Hazards: those of `rkleene`.
"""

from __future__ import annotations

from semiring.errors import DeviceError
from semiring.kernels.contract import missing_operations
from semiring.kernels.engine import Engine
from semiring.namespaces import Array

__all__ = ["staged"]


def staged(engine: Engine, A: Array) -> None:
    """Compute A ← A* in place; A and divergence are as in `rkleene`.

    Raises `DeviceError` where the backend has no such kernels, or the GPU has too little shared memory for them. Raises
    `AlgebraError` for packed bits, and for a ⊕ that is not idempotent.
    """
    plan, n = engine.plan, A.shape[0]
    if not engine.capabilities.provides("close"):
        raise missing_operations("staged", ["close"], engine.backend)
    if n and plan.storage == "elements" and plan.semiring.idempotent and not engine.can_close(n):
        raise DeviceError(f"this GPU has too little shared memory to close {plan.dtype}: use rkleene")
    engine.close(A)
