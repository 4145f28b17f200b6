"""The kernels of `semiring.kernels.cpu.small_graphs`, unless another backend is asked for."""

from __future__ import annotations

from functools import cache
from typing import Any

from semiring.kernels import named_backend

__all__ = ["MOST", "are_asked_for", "small_graphs"]

MOST = 64  # vertices; from there on the closures of this library are faster (Zen 4)


def are_asked_for() -> bool:
    """Whether SEMIRING_BACKEND names no other backend than that of these kernels."""
    return named_backend() in (None, "cpu")


def small_graphs() -> Any:
    """`SmallGraphs`, or None where another backend is asked for. Starts the compiler."""
    return _started() if are_asked_for() else None


@cache
def _started() -> Any:
    from semiring.kernels.cpu.small_graphs import SmallGraphs

    return SmallGraphs()
