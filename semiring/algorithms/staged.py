"""The staged Floyd-Warshall kernels of a GPU: a whole closure by a few launches written for it, without products.

Source: B. D. Lund, J. W. Smith, "A multi-stage CUDA kernel for Floyd-Warshall" (2010), and what has been learnt since;
the kernels and their history are in `semiring.kernels.cuda.closing`. Cost: n³ pairs.

What it does not compute: closures of a ⊕ that is not idempotent, of packed bits, A⁺ (see `irreflexive`), pivots.
Hazards: those of `rkleene`.
"""

from __future__ import annotations

from semiring.algorithms.views import Array
from semiring.errors import DeviceError
from semiring.kernels.contract import missing_operations
from semiring.kernels.engine import Engine

__all__ = ["staged"]


def staged(engine: Engine, A: Array) -> None:
    """A ← A* in place; A and divergence as in `rkleene`.

    Raises `DeviceError` where the backend has no such kernels, or the GPU too little shared memory for them;
    `AlgebraError` for packed bits and a ⊕ that is not idempotent.
    """
    plan, n = engine.plan, A.shape[0]
    if not engine.capabilities.provides("close"):
        raise missing_operations("staged", ["close"], engine.backend)
    if n and plan.storage == "elements" and plan.semiring.idempotent and not engine.closes(n):
        raise DeviceError(f"this GPU has too little shared memory to close {plan.dtype}: use rkleene")
    engine.close(A)
