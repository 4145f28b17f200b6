"""A problem whose matrix is in pieces: what the steps leave of it, if all they do is done to a piece at a time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from semiring.chain.problem import Problem
from semiring.errors import AlgebraError
from semiring.strips.layout import shown

if TYPE_CHECKING:
    from semiring.chain.planner import Node

__all__ = ["Work", "planned"]

Array: TypeAlias = Any


@dataclass
class Work:
    """What is left to do when all looks are over."""

    outer: Problem  # as it was given
    inner: Problem  # as the method sees it
    asked: list[Callable[[Array], None]]  # of closed rows, as the outer ones see them
    loops: Array = None  # (n,) as the method sees them, where A⁺ is wanted


def planned(child: Node) -> Work:
    """What the steps left, where that can be done by strips or tiles. Raises `AlgebraError`."""
    last, asked, loops, array, strips = child, [], None, child.outer.matrix.array, child.outer.strips
    assert strips is not None
    while last.leaf is None:
        assert last.reduction is not None
        if last.reduction.by_strips is None:
            raise AlgebraError(
                f"{last.reduction.why}: that takes more than some rows at a time, and this matrix is closed by "
                f"{strips.called} of them; read it and close it in memory, which takes {shown(array.nbytes)} at least"
            )
        if hasattr(last.reduction.by_strips, "loops"):  # `semiring.chain.steps.plus.Cycles`
            loops = last.reduction.by_strips.loops
        else:
            asked.append(last.reduction.by_strips)
        (last,) = last.children
    if last.inner.dtype != array.dtype:
        raise AlgebraError(
            f"{strips.called} of {array.dtype} have no room for {last.inner.dtype}: close the matrix in memory"
        )
    return Work(child.outer, last.inner, asked, loops)
