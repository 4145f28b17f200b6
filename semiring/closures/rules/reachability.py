"""Reachability in packed bits, by the order of components: rows are joined on a CPU, on a GPU blocks are multiplied.

A CPU joins a row to another in the time of 1,024 bit pairs a word, and a random graph needs some n log n joins. Joins
wait for one another, and the tensor cores of a GPU do thousands of times as many pairs: there pivots meet the rows
before them and the columns behind them, n³/6 pairs. Which of the two is decided here, and nowhere else.

Cost: on a CPU a pass over n bits for every edge that no other path replaces; where these are too many, that of a
closure. On a GPU a look of at most a tenth of the closure's time, and four passes over the bits. The bits are exact.
Sources: `semiring.algorithms.joined_rows`, `semiring.algorithms.purdom`.
"""

from __future__ import annotations

from semiring.algorithms.joined_rows import by_blocks, by_components
from semiring.algorithms.methods import Method, method_named
from semiring.closures.call import Call
from semiring.closures.plan import Draft, NotApplicable, Rewrite
from semiring.closures.planner import Recorder, rule

__all__ = ["reachability"]

_LEAST = 65536  # vertices: of fewer n³ pairs take a GPU some ms, and the host's part of a look as long


@rule("reachability", structure=True, methods=("purdom", "triangular"))
def reachability(q: Recorder, d: Draft) -> NotApplicable | Rewrite:
    """Join the words row by row, or block by block in an order that is looked for when they are closed."""
    k = q.kind
    if d.matrix.storage != "bits":
        return NotApplicable("no packed bits")
    if not d.semiring.idempotent:
        return NotApplicable("⊕ is not idempotent: it counts paths")
    if q.on_device:
        return _on_device(q, d)
    if q.method == "triangular":
        return NotApplicable("it multiplies blocks on a GPU, and a CPU joins rows by purdom")
    threads = k.options.threads

    def method_of(call: Call) -> Method:
        return by_components(call.structure.components, threads)

    return Rewrite(_why, d.but(method_of=method_of, chosen="purdom"))


def _on_device(q: Recorder, d: Draft) -> NotApplicable | Rewrite:
    if q.method == "purdom":
        return NotApplicable("it joins rows on a CPU, and a GPU multiplies blocks by triangular")
    if not q.chooses or q.kind.devices:
        return NotApplicable("a method was named, or several GPUs")
    if q.n < _LEAST and not q.named_structural:
        return NotApplicable("too few vertices for structure analysis to be worthwhile")
    graphs = q.backend(d.semiring, d.dtype, "bits").capabilities.graphs
    if graphs is None or not graphs.has_edges(d.kernel_plan(q.kind.options.threads), q.n):
        return NotApplicable("the backend has no kernels for edges of packed bits")
    if not q.waits or q.kind.reports:
        return NotApplicable("a progress callback was given, or the device may not be synchronized")
    otherwise = method_named(d.method)

    def method_of(call: Call) -> Method:
        return by_blocks(graphs, otherwise, call.note)

    why = "the order of the vertices decides between rows and blocks"
    return Rewrite(why, d.but(method_of=method_of, chosen="triangular"), quiet=True)


def _why(call: Call) -> str:
    count = len(call.structure.components)
    if count <= 1:
        return "one strong component: every vertex reaches every other"
    return f"{count} strong components: rows are joined along the edges between them"
