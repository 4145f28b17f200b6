"""What a look at the graph finds, for the rules that spare work: symmetry, few edges, one weight, components.

Cost: on the host a sixteenth of the matrix is read where there is nothing to find, else some passes; on a GPU one pass,
and a wait. Nothing is changed.
"""

from __future__ import annotations

from semiring.algorithms.schedule import schedule_for
from semiring.closures.call import Call
from semiring.closures.plan import Draft, NotApplicable, Rewrite
from semiring.closures.planner import Recorder, rule
from semiring.graphs.components import has_loops

__all__ = ["structure", "worth_a_look"]

_LEAST_ON_DEVICE = 8192  # vertices: there a look takes 1.2 % of a dense closure, and 6.7 % of that of 6144
_LEAST = 1536  # vertices: of fewer, a look takes more than 3 % of a dense closure


def worth_a_look(n: int) -> bool:
    """Whether a graph of so many vertices is looked at."""
    return n >= _LEAST


@rule("structure")
def structure(q: Recorder, d: Draft) -> NotApplicable | Rewrite:
    """Let the rules that follow ask for the structure of the graph."""
    k = q.kind
    if not k.options.structure and not q.named_structural:
        return NotApplicable("disabled by structure=False")
    if not q.chooses:
        return NotApplicable("a method was named")
    if len(k.shape) != 2 or k.strips is not None:
        return NotApplicable("only a single matrix in memory is analysed")
    if q.on_device and d.matrix.storage == "bits":
        return Rewrite("packed bits are analysed when they are closed", d.but(examined=True), quiet=True)
    few = q.n < _LEAST_ON_DEVICE if q.on_device else not worth_a_look(q.n)
    if few and not q.named_structural:
        least = _LEAST_ON_DEVICE if q.on_device else _LEAST
        why, m = f"fewer than {least:,} vertices: the structure of the graph is not analysed", d.matrix
        backend = q.backend(d.semiring, m.dtype, m.storage)
        is_block = q.n <= schedule_for(backend.name, m.dtype, m.storage, d.semiring).leaf
        return NotApplicable(why, note="" if is_block else why)
    if not has_loops(d.dtype):
        return NotApplicable("no kernels analyse floats of 16 bytes")
    if q.on_device and k.devices:
        return NotApplicable("several GPUs close the matrix without structure analysis")
    if q.on_device and not (q.waits and k.adjacent):
        return NotApplicable("the entries are not adjacent, or the device may not be synchronized")
    return Rewrite(_found, d.but(examined=True), quiet=True)


def _found(call: Call) -> str:
    return str(call.structure) or "not undirected, not of few edges, and not of one weight"
