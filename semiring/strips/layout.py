"""Deprecated: the former name of `semiring.out_of_core.layout`, kept for one version."""

from semiring.deprecated import forward

__getattr__ = forward(__name__, "semiring.out_of_core.layout")
