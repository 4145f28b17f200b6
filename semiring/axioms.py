"""Forward the former name of `semiring.algebra.verify`, which is deprecated and kept for one version."""

from semiring.deprecated import forward

__getattr__ = forward(__name__, "semiring.algebra.verify")
