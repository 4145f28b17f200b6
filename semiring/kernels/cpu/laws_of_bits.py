"""The laws that a semiring on bool has as operations on words, which decide whether truth values can be packed."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from semiring.algebra import Semiring
from semiring.arrays.bits import truth_table

_ALL = 0xFFFFFFFF


@dataclass(frozen=True)
class Laws:
    """The operations of a semiring on bool: words complemented by `flip`, ⊗ is "and", ⊕ is "or" or "xor"."""

    exclusive: bool  # ⊕ is "xor"
    flip: int  # all ones where 0̄ is True


@lru_cache(maxsize=256)
def laws_of(semiring: Semiring) -> Laws | None:
    """Return the laws that the truth tables give, or None if they break a law or bool is not in the domain."""
    if not semiring.supports(np.bool_):
        return None
    zero = int(semiring.zero_for(np.bool_))
    one = 1 - zero
    add = [truth_table(semiring.add.expression, ("x", "y")) >> row & 1 for row in range(4)]  # row x + 2·y
    mul = [truth_table(semiring.mul.expression, ("x", "y")) >> row & 1 for row in range(4)]
    if add[3 * zero] != zero or add[1] != one or add[2] != one:
        return None
    if mul[3 * one] != one or not mul[1] == mul[2] == mul[3 * zero] == zero:
        return None
    return Laws(exclusive=add[3 * one] == zero, flip=_ALL * zero)
