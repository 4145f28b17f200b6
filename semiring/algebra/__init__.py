"""Semirings: their domains, operations and expressions, and the catalogue."""

from semiring.algebra.domains import Domain
from semiring.algebra.operations import Operation
from semiring.algebra.semiring import DTYPES, Semiring

__all__ = ["DTYPES", "Domain", "Operation", "Semiring"]
