"""Allow later rules to use the structure of the graph, and report the structure: the rule `structure`.

The structure is symmetry, few edges, one weight, and components. Cost: on the host a sixteenth of the matrix is read if
the graph has no structure, else some passes; on a GPU one pass, and a wait. The matrix is not changed.
"""

from __future__ import annotations

from semiring.algorithms.schedule import schedule_for
from semiring.closures.call import Call
from semiring.closures.plan import Draft, NotApplicable, Rewrite
from semiring.closures.planner import Recorder, rule
from semiring.graphs.strongly_connected import has_compiled_loops

__all__ = ["may_analyze", "structure"]

_LEAST_ON_DEVICE = 8192  # vertices: the scan takes 1.2 % of a dense closure, and 6.7 % for 6144 vertices
_LEAST = 1536  # vertices: for fewer, the scan takes more than 3 % of a dense closure


def may_analyze(n: int) -> bool:
    """Return whether the structure of a graph of n vertices is analysed on the host."""
    return n >= _LEAST


@rule("structure")
def structure(q: Recorder, d: Draft) -> NotApplicable | Rewrite:
    """Allow the later rules to use the structure of the graph, if the graph is large enough."""
    k = q.kind
    if not k.options.structure and not q.has_structural_method:
        return NotApplicable("disabled by structure=False")
    if not q.may_choose_method:
        return NotApplicable("a method was named")
    if len(k.shape) != 2 or k.strips is not None:
        return NotApplicable("only a single matrix in memory is analysed")
    if q.on_device and d.matrix.storage == "bits":
        return Rewrite("packed bits are analysed when they are closed", d.replace(may_use_structure=True), quiet=True)
    few = q.n < _LEAST_ON_DEVICE if q.on_device else not may_analyze(q.n)
    if few and not q.has_structural_method:
        least = _LEAST_ON_DEVICE if q.on_device else _LEAST
        why, m = f"fewer than {least:,} vertices: the structure of the graph is not analysed", d.matrix
        backend = q.backend(d.semiring, m.dtype, m.storage)
        is_block = q.n <= schedule_for(backend.name, m.dtype, m.storage, d.semiring).leaf
        return NotApplicable(why, note="" if is_block else why)
    if not has_compiled_loops(d.dtype):
        return NotApplicable("no kernels analyse floats of 16 bytes")
    if q.on_device and k.devices:
        return NotApplicable("several GPUs close the matrix without structure analysis")
    if q.on_device and not (q.may_synchronize and k.has_adjacent_rows):
        return NotApplicable("the entries are not adjacent, or the device may not be synchronized")
    return Rewrite(_reason, d.replace(may_use_structure=True), quiet=True)


def _reason(call: Call) -> str:
    return str(call.structure) or "not undirected, not of few edges, and not of one weight"
