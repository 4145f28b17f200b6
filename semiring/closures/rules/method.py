"""The choice of the method, by what decides the bits alone: the size, the dtype, the semiring and the backend.

The number of threads and the speed of the machine have no say, and neither have the rules that follow.
"""

from __future__ import annotations

import numpy as np

from semiring.advice import option
from semiring.algorithms.methods import matrix_methods, method_named, takes_edges
from semiring.algorithms.ordered import selects
from semiring.algorithms.schedule import BLOCKED, schedule_for
from semiring.closures.call import is_tropical
from semiring.closures.explanation import gpu_names
from semiring.closures.plan import Draft, NotApplicable, Rewrite
from semiring.closures.planner import Recorder, rule
from semiring.errors import AlgebraError, DeviceError
from semiring.kernels.contract import Backend
from semiring.kernels.engine import Engine, make_plan

__all__ = ["method"]


def _alternatives(d: Draft, backend: Backend) -> str:
    """Return the options with the methods that close such a matrix, as a list in words."""
    names = ["auto"]
    for found in (method_named(name) for name in matrix_methods() if name != "auto"):
        squares = found.name != "squaring" or (
            d.semiring.idempotent and (d.semiring.selective or d.semiring.absorptive)
        )
        try:
            found.check(backend, d.matrix.storage)
        except (AlgebraError, DeviceError):
            continue
        if found.takes == "matrix" and squares:
            names.append(found.name)
    return f"{option('method', names[0])}, {', '.join(names[1:-1])} or {names[-1]}"


@rule("method")
def method(q: Recorder, d: Draft) -> NotApplicable | Rewrite:
    """Choose the method by which the matrix is closed, unless a rule finds an easier way.

    Raises `AlgebraError` and `DeviceError` where the caller's method does not take the matrix.
    """
    name, why, m = q.method, "asked for", d.matrix
    if q.kind.devices:
        if name not in ("auto", BLOCKED):
            raise AlgebraError(f"{name} does not run on several GPUs: use {BLOCKED}, or one of them")
        return _chosen(q, d, BLOCKED, f"rows on the GPUs {', '.join(gpu_names(q.kind.devices))}")
    backend = q.backend(d.semiring, m.dtype, m.storage)
    if takes_edges(name) and m.storage == "elements":
        if not is_tropical(d.semiring) or m.dtype not in (np.float32, np.float64):
            raise AlgebraError(
                f"{name} runs Dijkstra's algorithm, which needs weights of min_plus or max_plus in float32 or float64. "
                f"For {d.semiring.name} on {m.dtype}, pass {_alternatives(d, backend)}"
            )
        if backend.name == "cuda":
            raise DeviceError(
                f"{name} runs on the CPU, and the matrix is on a GPU: copy the matrix to the host, or use rkleene"
            )
    elif q.chooses:
        schedule = schedule_for(backend.name, m.dtype, m.storage, d.semiring)
        name = schedule.method(q.n, selecting=selects(d.semiring))
        whole = "close" in method_named(name).needs
        if whole and not Engine(backend, make_plan(d.semiring, m.dtype)).closes(q.n):
            name = BLOCKED
        if q.n <= schedule.leaf:
            why = f"{q.n} vertices: closed as one block, without products"
        else:
            why = f"{name} was measured fastest for dense matrices on a {'GPU' if backend.name == 'cuda' else 'CPU'}"
    else:
        method_named(name).check(backend, m.storage)
    return _chosen(q, d, name, why)


def _chosen(q: Recorder, d: Draft, name: str, why: str) -> Rewrite:
    why = f"{q.method} was asked for" if q.named_structural else why
    return Rewrite(why, d.but(method=name), quiet=q.method != "auto")
