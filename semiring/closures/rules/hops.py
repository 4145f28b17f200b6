"""Search breadth-first from 512 vertices at a time, if all edges have one weight: the rule `hops`.

It applies only if every sum of the weight is exact, so the result is bitwise identical to that of ``structure=False``.
Cost: a pass over the edges for every level of the search and 512 vertices; memory 4 bytes for each edge, or a bit for
each entry. Source: `semiring.algorithms.breadth_first_search`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from semiring.algebra.catalogue import min_plus
from semiring.algorithms.breadth_first_search import breadth_first_method, is_exact
from semiring.algorithms.methods import Method
from semiring.arrays.encoding import inner_zero
from semiring.closures.call import Call
from semiring.closures.costs import compare_costs
from semiring.closures.plan import Draft, NotApplicable, Rewrite
from semiring.closures.planner import Recorder, question, rule

__all__ = ["hops"]

_LEVELS = 1024  # the most levels of a search on a GPU, where each level is a launch for all vertices
_BITS = 3  # bits of memory for every entry


def _free_device_memory() -> int:
    from semiring.arrays.device import free_device_memory

    return free_device_memory()


def _edge_weight(call: Call) -> Any:
    """Return the one weight of all edges, as min-plus reads it."""
    return call.sign * call.structure.weight.item()


@question()
def edges_have_one_weight(call: Call) -> str:
    """Return "yes" if all edges have one weight above 0, "other" if it is not above 0, "no" for several weights."""
    if call.structure.weight is None:
        return "no"
    return "yes" if _edge_weight(call) > 0 else "other"


@question()
def exact_in(call: Call) -> tuple[str, ...]:
    """Return the dtypes of an encoded matrix in which every sum of the one weight is exact, and not "no path"."""
    dtypes = [call.kind.dtype] if call.kind.dtype.kind == "f" else []
    dtypes += [np.dtype(name) for name in ("int16", "int32", "int64")]
    return tuple(t.name for t in dtypes if is_exact(_edge_weight(call), call.n, t, inner_zero(min_plus, t)))


@question()
def paths_are_long(call: Call) -> bool:
    """Return whether paths have more edges than a GPU searches fast."""
    return bool(call.structure.pattern is not None and call.structure.widest_level * _LEVELS < call.n)


@question()
def memory_holds_the_reached(call: Call) -> bool:
    """Return whether the GPU has memory for the sets of reached vertices."""
    return _BITS * call.n**2 // 8 <= _free_device_memory()


@question()
def sums_stay_below_the_sentinel(call: Call) -> tuple[str, ...]:
    """Return the integer dtypes in which no sum of n + 1 weights comes near "no path"."""
    if call.greatest_weight is None:
        return ()
    dtypes = map(np.dtype, ("int16", "int32", "int64"))
    return tuple(t.name for t in dtypes if (call.n + 1) * int(call.greatest_weight) < int(inner_zero(min_plus, t)))


@rule("hops", structure=True, methods=("breadth_first_search",))
def hops(q: Recorder, d: Draft) -> NotApplicable | Rewrite:
    """Count the edges of paths by breadth-first search, if all edges have one weight."""
    m, k = d.matrix, q.kind
    if d.semiring is not min_plus or (weight := q.ask(edges_have_one_weight)) == "no":
        return NotApplicable("not min-plus, or edges of different weights")
    if weight == "other" or m.may_change_numbers:
        return NotApplicable("the weight is not above 0")
    if d.has_negative_weight:
        return NotApplicable("a loop has a weight below 0, which is a negative cycle")
    if m.dtype.name not in q.ask(exact_in):
        return NotApplicable(lambda call: f"sums of {_edge_weight(call)} are rounded")
    if q.on_device and q.ask(paths_are_long):
        return NotApplicable("paths have more edges than are fast on a GPU")
    if q.on_device and not q.ask(memory_holds_the_reached):
        return NotApplicable("the GPU has too little free memory for the sets of reached vertices")
    # Only the weight is read, so the caller's numbers can be written directly. This is not allowed if a later step
    # reads them through the maps, or if they are integers and a path might come near the inner value for "no path".
    own = not d.plus and not k.needs_predecessors and m.dtype == k.dtype
    if own and m.sentinel:
        own = m.dtype.name in q.ask(sums_stay_below_the_sentinel)
    changes: dict[str, Any] = {"method_of": _inner_method_maker(m.inner)}
    if own:
        changes = {"method_of": _make_caller_method, "maps": (), "sentinel": "", "dtype": k.dtype, "inner": m.none}
    costs = compare_costs("hops", q.n, d.dtype)
    return Rewrite(_reason, d.replace(**changes, structural_method="breadth first search"), costs=lambda call: costs)


def _reason(call: Call) -> str:
    return f"all edges have the weight {_edge_weight(call)}: hops, by breadth-first search"


def _make_caller_method(call: Call) -> Method:
    """Return the method that writes the caller's numbers directly."""
    return breadth_first_method(call.structure.weight, call.none, call.structure)


def _inner_method_maker(inner: Any) -> Any:
    """Return a function of a call that returns the method for an encoded matrix, where ``inner`` is "no path"."""
    return lambda call: breadth_first_method(_edge_weight(call), inner, call.structure)
