"""Choose the method by the size, the dtype, the semiring and the backend: the rule `method`.

Methods differ in their rounding, so the choice never depends on threads, on the speed of the machine, or on later
rules.
"""

from __future__ import annotations

import numpy as np

from semiring.advice import option
from semiring.algorithms.methods import matrix_methods, method_named, takes_edges
from semiring.algorithms.ordered_integers import has_min_and_max
from semiring.algorithms.schedule import BLOCKED, schedule_for
from semiring.closures.call import is_tropical
from semiring.closures.explanation import gpu_names
from semiring.closures.plan import Draft, NotApplicable, Rewrite
from semiring.closures.planner import Recorder, rule
from semiring.errors import AlgebraError, DeviceError
from semiring.kernels.contract import Backend
from semiring.kernels.engine import Engine, make_plan

__all__ = ["method"]


def _list_alternatives(d: Draft, backend: Backend) -> str:
    """Return the options with the methods that close such a matrix, as a list in words."""
    names = ["auto"]
    for each in (method_named(name) for name in matrix_methods() if name != "auto"):
        squares = each.name != "squaring" or (d.semiring.idempotent and (d.semiring.selective or d.semiring.absorptive))
        try:
            each.check(backend, d.matrix.storage)
        except (AlgebraError, DeviceError):
            continue
        if each.takes == "matrix" and squares:
            names.append(each.name)
    return f"{option('method', names[0])}, {', '.join(names[1:-1])} or {names[-1]}"


@rule("method")
def method(q: Recorder, d: Draft) -> NotApplicable | Rewrite:
    """Choose the method for a dense matrix without structure; a later rule may replace it.

    Raises `AlgebraError` and `DeviceError` if the caller's method does not support the matrix.
    """
    name, why, m = q.method, "asked for", d.matrix
    if q.kind.devices:
        if name not in ("auto", BLOCKED):
            raise AlgebraError(f"{name} does not run on several GPUs: use {BLOCKED}, or one of them")
        return _choose_method(q, d, BLOCKED, f"rows on the GPUs {', '.join(gpu_names(q.kind.devices))}")
    backend = q.backend(d.semiring, m.dtype, m.storage)
    if takes_edges(name) and m.storage == "elements":
        if not is_tropical(d.semiring) or m.dtype not in (np.float32, np.float64):
            raise AlgebraError(
                f"{name} runs Dijkstra's algorithm, which needs weights of min_plus or max_plus in float32 or float64. "
                f"For {d.semiring.name} on {m.dtype}, pass {_list_alternatives(d, backend)}"
            )
        if backend.name == "cuda":
            raise DeviceError(
                f"{name} runs on the CPU, and the matrix is on a GPU: copy the matrix to the host, or use rkleene"
            )
    elif q.may_choose_method:
        schedule = schedule_for(backend.name, m.dtype, m.storage, d.semiring)
        name = schedule.method(q.n, is_selective=has_min_and_max(d.semiring))
        whole = "close" in method_named(name).needs
        if whole and not Engine(backend, make_plan(d.semiring, m.dtype)).can_close(q.n):
            name = BLOCKED
        if q.n <= schedule.leaf:
            why = f"{q.n} vertices: closed as one block, without products"
        else:
            why = f"{name} was measured fastest for dense matrices on a {'GPU' if backend.name == 'cuda' else 'CPU'}"
    else:
        method_named(name).check(backend, m.storage)
    return _choose_method(q, d, name, why)


def _choose_method(q: Recorder, d: Draft, name: str, reason: str) -> Rewrite:
    reason = f"{q.method} was asked for" if q.has_structural_method else reason
    return Rewrite(reason, d.replace(method=name), quiet=q.method != "auto")
