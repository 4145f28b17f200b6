"""Draw matrices whose closures are exact, for every semiring and every dtype that it has a closure on."""

from __future__ import annotations

import numpy as np
import oracles

IDEMPOTENT = [name for name, oracle in oracles.ORACLES.items() if oracle.idempotent]
# The dtypes on which each semiring has a closure, written down independently of the library's validity matrix.
FLOATS, SIGNED = ("float32", "float64"), ("int16", "int32", "int64")
DTYPES = {
    **dict.fromkeys(("min_plus", "max_plus"), FLOATS + SIGNED),
    "boolean": ("bool",),
    **dict.fromkeys(("max_min", "min_max"), (*FLOATS, *SIGNED, "uint8", "bool")),
    **dict.fromkeys(("max_times", "min_times", "plus_times", "log_plus", "lukasiewicz"), FLOATS),
    "xor_and": (*SIGNED, "uint8", "bool"),
}
CASES = [(name, dtype) for name in IDEMPOTENT for dtype in DTYPES[name]]


def matrix(rng, n, name, dtype, density=0.3):
    """Return entries on which every path is exact: small integers, powers of two, multiples of 1/64."""
    dtype = np.dtype(dtype)
    if dtype.kind == "b":
        return rng.random((n, n)) < density / 3
    if name in ("min_plus", "max_plus"):
        values = rng.integers(0, 20, (n, n)) * (1 if name == "min_plus" else -1)
    elif name == "max_times":
        values = 2.0 ** -rng.integers(0, 3, (n, n))
    elif name == "min_times":
        values = 2.0 ** rng.integers(0, 3, (n, n))
    elif name == "lukasiewicz":
        values = rng.integers(32, 65, (n, n)) / 64
    else:
        values = rng.integers(0 if dtype.kind == "u" else -50, 50, (n, n))
    A = values.astype(dtype)
    A[rng.random((n, n)) > density] = oracles.zero(name, dtype)
    return A
