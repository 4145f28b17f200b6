"""Compute sums of products of arrays in the notation of `numpy.einsum`, over any semiring.

`notation` reads the subscripts, and `orders` finds the order of the pairwise contractions. `steps` computes each
contraction by one product, sum or entrywise product, on arrays of any library. `plans` predicts pairs and memory.
`functions` has the public functions.
"""

from semiring.linalg.contraction.functions import einsum, einsum_path
from semiring.linalg.contraction.plans import ContractionPlan, PlannedStep

__all__ = ["ContractionPlan", "PlannedStep", "einsum", "einsum_path"]
