"""Map floats to integers in the same order, for closures whose ⊕ and ⊗ only select.

Such a closure depends on the order of the entries only. Mapping the matrix once avoids the mapping in every product,
and GPUs have 3-input minimum and maximum instructions for integers. Cost: two passes over the matrix, by the backend's
`PassKernels` if it has them. There is no workspace, because the integers may overwrite the floats.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from semiring.algebra import Semiring
from semiring.arrays.float_order import flip_negative_bits
from semiring.arrays.parts import pieces
from semiring.kernels import backend_for
from semiring.namespaces import Array, array_namespace

__all__ = ["has_integer_order", "has_min_and_max", "map_in_order"]


@lru_cache(maxsize=256)
def has_integer_order(semiring: Semiring, dtype: np.dtype[Any]) -> bool:
    """Return whether a closure of float32 only selects by order, and its star is 1̄."""
    return bool(
        dtype == np.float32
        and has_min_and_max(semiring)
        and semiring.absorptive
        and semiring.supports(np.dtype(np.int32))
    )


@lru_cache(maxsize=256)
def has_min_and_max(semiring: Semiring) -> bool:
    """Return whether one of ⊕ and ⊗ is min(x, y) and the other max(x, y)."""
    operations = [operation.expression for operation in (semiring.add, semiring.mul)]
    plain = all(len(tree.args) == 2 and all(arg.op == "var" for arg in tree.args) for tree in operations)
    return plain and {tree.op for tree in operations} == {"min", "max"}


@lru_cache(maxsize=256)
def _map_identities(semiring: Semiring, inverse: bool) -> tuple[tuple[Any, Any], ...]:
    """Return the image of the float and the integer of int32 for 0̄ and for 1̄, swapped if ``inverse``."""
    floats, integers = np.dtype(np.float32), np.dtype(np.int32)
    elements = semiring.zero_for, semiring.one_for
    values = [(np.asarray(typed(floats), floats).view(np.int32), typed(integers)) for typed in elements]
    pairs = [(flip_negative_bits(bits)[()], integer) for bits, integer in values]
    return tuple((after, before) if inverse else (before, after) for before, after in pairs)


def map_in_order(A: Array, semiring: Semiring, out: Array, *, inverse: bool = False) -> None:
    """Write into out the integers in the order of the floats A, or with ``inverse`` the floats of the integers A.

    A and out are float32 and int32 arrays of one shape, and may share memory. The zero and the one of the semiring in
    float32 become its zero and one in int32.
    """
    bits, out, pairs = A.view(np.int32), out.view(np.int32), _map_identities(semiring, inverse)
    passes = backend_for(bits, semiring, bits.dtype).capabilities.passes
    if passes is not None:
        passes.in_order(bits, out, pairs, inverse)
        return
    xp = array_namespace(bits)
    for rows in pieces(bits):
        part = bits[rows] if inverse else flip_negative_bits(bits[rows])
        for before, after in pairs:
            part = xp.where(part == before, after, part)
        out[rows] = flip_negative_bits(part) if inverse else part
