"""Truth values 32 to a word.

Cost: two passes, n² / 8 bytes. The bits are the same.
"""

from __future__ import annotations

import numpy as np

from semiring.algorithms.methods import method_named
from semiring.algorithms.schedule import dense_operations
from semiring.chain.prices import Prices
from semiring.chain.problem import Facts, Look, Problem, Reduction, step
from semiring.kernels import packs
from semiring.kernels.machines import closure_speed

__all__ = ["packed"]


@step
def packed(p: Problem) -> Look:
    """The words of a bool matrix."""
    m, request = p.matrix, p.request
    yield m.dtype != np.bool_ or m.storage == "bits", "not truth values of one byte each"
    yield request.method != "auto" or len(m.shape) != 2 or m.maps, "a method was named, or the input is a stack"
    yield p.n < closure_speed(p.backend.name, m.dtype).pack, "too few vertices for packing to be faster"
    yield not packs(p.semiring, m.on_device), "the backend has no packed bits for this semiring and dtype"
    method = p.method if "bits" in method_named(p.method).storages else "rkleene"
    q = p.but(Facts(), storage="bits", method=method, home=None)
    prices = Prices({"bits": dense_operations(p.n, 1 / 8), "bytes": dense_operations(p.n, 1)})
    return Reduction("a bool matrix of this size: 32 entries to a word", q, prices=prices)
