"""What a look at the graph finds, for the steps that spare work: symmetry, few edges, one weight, components.

Cost: on the host a sixteenth of the matrix is read where there is nothing to find, else some passes; on a GPU one pass,
and a wait. Nothing is changed.
"""

from __future__ import annotations

from functools import partial

from semiring.algorithms.schedule import schedule_for
from semiring.arrays.operands import adjacent
from semiring.chain.problem import Look, Problem, Reduction, step
from semiring.graphs.components import has_loops
from semiring.graphs.structure import UNSEEN, Structure, structure_of, structure_on_device

__all__ = ["structure", "worth_a_look"]

_LEAST_ON_DEVICE = 8192  # vertices: there a look takes 1.2 % of a dense closure, and 6.7 % of that of 6144
_LEAST = 1536  # vertices: of fewer, a plan for each matrix and the look take more than 3 % of a dense closure


def worth_a_look(n: int) -> bool:
    """Whether a graph of so many vertices is looked at."""
    return n >= _LEAST


@step
def structure(p: Problem) -> Look:
    """The same problem, with what was found."""
    m, request = p.matrix, p.request
    yield not request.structure, "disabled by structure=False"
    yield request.method != "auto", "a method was named"
    yield len(m.shape) != 2 or p.strips, "only a single matrix in memory is analysed"
    if m.on_device and m.storage == "bits":
        return Reduction("packed bits are analysed when they are closed", p.but(p.facts, seen=Structure()), quiet=True)
    few = p.n < _LEAST_ON_DEVICE if m.on_device else not worth_a_look(p.n)
    if few:
        least = _LEAST_ON_DEVICE if m.on_device else _LEAST
        why = f"fewer than {least:,} vertices: the structure of the graph is not analysed"
        if p.n > schedule_for(p.backend.name, m.dtype, m.storage, p.semiring).leaf:  # else it is closed as one block
            request.explanation.note(why)
        yield True, why
    yield not has_loops(p.dtype), "no kernels analyse floats of 16 bytes"
    yield m.on_device and request.devices, "several GPUs close the matrix without structure analysis"
    waits = p.waits and (p.blank or adjacent(m.array))  # a blank array has strides of 0, and those of no caller
    yield m.on_device and not waits, "the entries are not adjacent, or the device may not be synchronized"
    graphs, found = p.backend.capabilities.graphs, p.seen
    if found is UNSEEN:
        look = structure_of if graphs is None else partial(structure_on_device, graphs=graphs)
        found = look(p.entries, m.none, request.threads)
    why = str(found) or "not undirected, not of few edges, and not of one weight"
    return Reduction(why, p.but(p.facts, seen=found), quiet=True)
