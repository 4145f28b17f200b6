"""Packed truth values on a GPU, vertices that reach each other together: n³/6 for an acyclic graph, less for one part.

Cost: a look of at most a tenth of the closure's time, and four passes over the bits. The bits are the same. See
`semiring.graphs.triangular`.
"""

from __future__ import annotations

from typing import Any

from semiring.arrays.operands import memory_of
from semiring.chain.planner import Node
from semiring.chain.problem import Look, Problem, Reduction, step
from semiring.graphs.triangular import close_in_order, order_of
from semiring.kernels import backend_for

__all__ = ["triangular"]

_LEAST = 65536  # vertices: of fewer n³ pairs take some ms, and the host's part of a look as long


@step
def triangular(p: Problem) -> Look:
    """The same closure, in an order that is looked for when the bits are where they are closed."""
    m = p.matrix
    yield m.storage != "bits", "no packed truth values"
    yield p.request.method != "auto", "a method was named"
    yield "components" not in p.request.structure, "not among what may be spared"
    yield p.n < _LEAST, "too few vertices to be worth a look"
    relations = backend_for(memory_of(m.array), p.semiring, m.dtype, "bits").capabilities.relations
    follows = relations is not None and relations.has_edges(p.kernel_plan(), p.n)
    yield not follows, "no kernels that follow the edges of such bits"
    yield not p.waits or p.progress is not None, "only where a device may be waited for, and nobody asks for progress"
    return Reduction("the order of the vertices decides", p, [p.but(p.facts)], run=_close, quiet=True, by="kind")


def _close(node: Node, D: Any) -> Any:
    p, leaf = node.inner, node.children[0].leaf
    assert leaf is not None
    D = node.way.encode(p.matrix.array, D)
    relations = leaf.backend.capabilities.relations
    assert relations is not None
    found = order_of(relations, D.words)
    p.request.explanation.note(str(found or "no order of the vertices spares anything"))
    if found is None:
        leaf.close(D)
    else:
        close_in_order(leaf.engine(), relations, D.words, found)
    return D
