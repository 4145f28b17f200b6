"""Deprecated: the former name of the package `semiring.distributed`, kept for one version."""
