"""What a semiring is: its elements and operations, the expressions they are written in, and the catalogue."""

from semiring.algebra.domains import Domain
from semiring.algebra.operations import Operation
from semiring.algebra.semiring import DTYPES, Semiring

__all__ = ["DTYPES", "Domain", "Operation", "Semiring"]
