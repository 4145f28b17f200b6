"""Truth values 32 to a word.

Cost: two passes, n² / 8 bytes. The bits are the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from semiring.algorithms.methods import method_named
from semiring.arrays.bits import pack
from semiring.arrays.parts import pieces
from semiring.chain.leaf import Leaf
from semiring.chain.problem import Facts, No, Problem, Reduction
from semiring.errors import DTypeError
from semiring.kernels import backend_for
from semiring.kernels.machines import closure_speed

if TYPE_CHECKING:
    from semiring.chain.planner import Node

__all__ = ["packed"]

_ENTRIES = 1 << 20  # that are unpacked at a time


class _Packing(NamedTuple):
    """Truth values packed, closed, and unpacked, of any matrix of a kind."""

    leaf: Leaf

    def run(self, A: Any, out: Any = None, inspect: Any = None) -> Any:
        words = pack(A)
        self.leaf.close(words)
        if out is None:
            return words.unpack()
        out[...] = words.unpack()
        return out


class _Packed(Reduction):
    in_home = True

    def short(self, node: Node) -> Any:
        (child,) = node.children
        few = child.outer.n**2 <= _ENTRIES
        return _Packing(child.leaf) if few and child.leaf is not None else None

    def run(self, node: Node, D: Any) -> Any:
        words = node.children[0].run(None)
        if D.size <= _ENTRIES:
            D[...] = words.unpack()
            return D
        for rows in pieces(D, _ENTRIES):
            D[rows] = words[rows].unpack()
        return D


def packed(p: Problem) -> No | Reduction:
    """The words of a bool matrix."""
    m, request = p.matrix, p.request
    if m.dtype != np.bool_ or m.storage == "bits":
        return No("no truth values, one to a byte")
    if p.strips:
        return No("strips stay as wide as they are")
    if request.method != "auto" or len(m.shape) != 2 or m.maps:
        return No("only where the choice is ours, and of one matrix")
    if p.n < closure_speed(request.explanation.backend, m.dtype).pack:
        return No("too few to be worth it")
    try:
        backend_for(m.array, p.semiring, m.dtype, "bits")
    except DTypeError:
        return No("no backend packs these")
    request.explanation.storage = "packed bits"
    method = p.method if "bits" in method_named(p.method).storages else "rkleene"
    request.explanation.method = method
    q = p.but(Facts(), storage="bits", method=method, home=None, in_place=False)
    return _Packed("a bool matrix of this size: 32 entries to a word", p, [q])
