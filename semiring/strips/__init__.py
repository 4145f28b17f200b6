"""Deprecated: the former name of the package `semiring.out_of_core`, kept for one version."""
