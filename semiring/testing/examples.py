"""Define semirings outside the catalogue, with operands that do not commute, branches, or an unusual zero.

Run your own code on them too. A product that swaps its operands, or a backend that recognizes the catalogue by name,
passes on every semiring of the catalogue and fails on these.
"""

from __future__ import annotations

from collections.abc import Mapping

from semiring.algebra.semiring import Semiring, semiring_with_claims

__all__ = ["EXAMPLES", "capped_min_plus", "relations", "reliability"]

#: Relations on two elements, as four bits: bit 2·i + j says that i is related to j. ⊕ is the union, ⊗ the composition.
relations: Semiring = semiring_with_claims(
    "relations",
    "x | y",
    "where((x & 1) != 0, y & 3, 0)"  # 0 → 0, then from 0
    " | where((x & 2) != 0, where((y & 4) != 0, 1, 0) | where((y & 8) != 0, 2, 0), 0)"  # 0 → 1, then from 1
    " | where((x & 4) != 0, where((y & 1) != 0, 4, 0) | where((y & 2) != 0, 8, 0), 0)"  # 1 → 0, then from 0
    " | where((x & 8) != 0, y & 12, 0)",  # 1 → 1, then from 1
    0,
    9,
    "x | 9",
    (0, 15),
    dtypes=("uint8", "int16", "int32", "int64"),
    claims={"idempotent": True, "selective": False, "commutative": False, "absorptive": False},
    description="composition of relations on two elements: the order of the operands matters",
)

#: Shortest paths no longer than 100: the zero is neither 0 nor ∞.
capped_min_plus: Semiring = semiring_with_claims(
    "capped_min_plus",
    "where(x < y, x, y)",
    "where(x + y < 100, x + y, 100)",
    100,
    0,
    domain=(0, 100),
    claims={"idempotent": True, "selective": True, "commutative": True, "absorptive": True},
    description="shortest paths shorter than 100; 100 is no path",
)

#: The most reliable path, with probabilities.
reliability: Semiring = semiring_with_claims(
    "reliability",
    "max(x, y)",
    "x * y",
    0,
    1,
    domain=(0, 1),
    claims={"idempotent": True, "selective": True, "commutative": True, "absorptive": True},
    description="the greatest product of probabilities",
)

EXAMPLES: Mapping[str, Semiring] = {semiring.name: semiring for semiring in (relations, capped_min_plus, reliability)}
