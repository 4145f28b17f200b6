"""Sparse graphs: factor once, ask many times; and x = A ⊗ x ⊕ b in one call."""

from semiring.factors.result import Factor, factor

__all__ = ["Factor", "factor"]
