"""Deprecated: the former name of `semiring.distributed.cost_model`, kept for one version."""

from semiring.deprecated import forward

__getattr__ = forward(__name__, "semiring.distributed.cost_model")
