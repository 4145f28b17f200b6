"""Close packed bits in the order of strong components, by rows or by blocks: the rule `reachability`.

A join of row j to row i sets row i to row i ⊕ row j. A CPU joins a row to another in the time of 1,024 bit pairs for
each word, and a random graph needs about n log n joins. Joins depend on one another, and the tensor cores of a GPU
compute thousands of times as many pairs. So a GPU multiplies pivots by the rows before them and the columns behind
them: n³/6 pairs. This rule alone decides between joins and products.

Cost on a CPU: a pass over n bits for every edge that no other path replaces, and at most that of a closure. Cost on a
GPU: a scan of at most a tenth of the closure's time, and four passes over the bits. The result is exact. Sources:
`semiring.algorithms.purdom`, `semiring.algorithms.triangular`.
"""

from __future__ import annotations

from semiring.algorithms.methods import Method, method_named
from semiring.algorithms.purdom import purdom_method, triangular_method
from semiring.closures.call import Call
from semiring.closures.plan import Draft, NotApplicable, Rewrite
from semiring.closures.planner import Recorder, rule

__all__ = ["reachability"]

_LEAST = 65536  # for fewer, n³ pairs take a GPU some ms, and the host's part of the scan takes as long


@rule("reachability", structure=True, methods=("purdom", "triangular"))
def reachability(q: Recorder, d: Draft) -> NotApplicable | Rewrite:
    """Join packed rows on a CPU, or packed blocks on a GPU, in the order of strong components."""
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
        return purdom_method(call.structure.components, threads)

    return Rewrite(_reason, d.replace(method_of=method_of, structural_method="purdom"))


def _on_device(q: Recorder, d: Draft) -> NotApplicable | Rewrite:
    """Apply the rule to a matrix on a GPU."""
    if q.method == "purdom":
        return NotApplicable("it joins rows on a CPU, and a GPU multiplies blocks by triangular")
    if not q.may_choose_method or q.kind.devices:
        return NotApplicable("a method was named, or several GPUs")
    if q.n < _LEAST and not q.has_structural_method:
        return NotApplicable("too few vertices for structure analysis to be worthwhile")
    graphs = q.backend(d.semiring, d.dtype, "bits").capabilities.graphs
    if graphs is None or not graphs.has_bit_kernels(d.kernel_plan(q.kind.options.threads), q.n):
        return NotApplicable("the backend has no kernels for edges of packed bits")
    if not q.may_synchronize or q.kind.has_progress:
        return NotApplicable("a progress callback was given, or the device may not be synchronized")
    otherwise = method_named(d.method)

    def method_of(call: Call) -> Method:
        return triangular_method(graphs, otherwise, call.note)

    why = "the order of the vertices decides between rows and blocks"
    return Rewrite(why, d.replace(method_of=method_of, structural_method="triangular"), quiet=True)


def _reason(call: Call) -> str:
    count = len(call.structure.components)
    if count <= 1:
        return "one strong component: every vertex reaches every other"
    return f"{count} strong components: rows are joined along the edges between them"
