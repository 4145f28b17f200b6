"""Reachability in packed bits, by the order of components: rows are joined on a CPU, on a GPU blocks are multiplied.

A CPU joins a row to another in the time of 1,024 bit pairs a word, and a random graph needs some n log n joins. Joins
wait for one another, and the tensor cores of a GPU do thousands of times as many pairs: there pivots meet the rows
before them and the columns behind them, n³/6 pairs. Which of the two is decided here, and nowhere else.

Cost: on a CPU a pass over n bits for every edge that no other path replaces; where these are too many, that of a
closure. On a GPU a look of at most a tenth of the closure's time, and four passes over the bits. The bits are exact.
Sources: `semiring.graphs.reachability`, `semiring.graphs.triangular`.
"""

from __future__ import annotations

from semiring.algorithms.methods import method_named
from semiring.chain.problem import Look, Problem, Reduction, step
from semiring.graphs.reachability import by_blocks, by_components

__all__ = ["reachability"]

_LEAST = 65536  # vertices: of fewer n³ pairs take a GPU some ms, and the host's part of a look as long


@step
def reachability(p: Problem) -> Look:
    """The words, to be joined row by row, or block by block in an order that is looked for when they are closed."""
    m, request = p.matrix, p.request
    yield m.storage != "bits", "no packed bits"
    yield not p.semiring.idempotent, "⊕ is not idempotent: it counts paths"
    if m.on_device:
        yield request.method != "auto" or bool(request.devices), "a method was named, or several GPUs"
        yield p.n < _LEAST, "too few vertices for structure analysis to be worthwhile"
        relations = p.backend.capabilities.relations
        follows = relations is not None and relations.has_edges(p.kernel_plan(), p.n)
        yield not follows, "the backend has no kernels for edges of packed bits"
        waits = p.waits and p.progress is None
        yield not waits, "a progress callback was given, or the device may not be synchronized"
        assert relations is not None
        otherwise = p.method if not isinstance(p.method, str) else method_named(p.method)
        method = by_blocks(relations, otherwise, request.explanation.note)
        return Reduction(
            "the order of the vertices decides between rows and blocks", p.but(p.facts, method=method), quiet=True
        )
    yield p.seen.search is None, "the components are not known"
    found = p.seen.components
    if len(found) <= 1:
        why = "one strong component: every vertex reaches every other"
    else:
        why = f"{len(found)} strong components: rows are joined along the edges between them"
    return Reduction(why, p.but(p.facts, method=by_components(found, request.threads)))
