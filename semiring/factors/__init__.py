"""Sparse graphs: factor once, ask many times; and x = A ⊗ x ⊕ b in one call."""

from semiring.factors.result import Factor, factor
from semiring.factors.solution import fixed_point

__all__ = ["Factor", "factor", "fixed_point"]
