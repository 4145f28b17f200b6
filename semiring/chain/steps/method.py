"""The choice of the method, by what decides the bits alone: the size, the dtype, the semiring and the backend.

The number of threads and the speed of the machine have no say, and neither have the reductions that follow.
"""

from __future__ import annotations

import numpy as np

from semiring.advice import option
from semiring.algorithms.methods import METHODS, method_named, takes_edges
from semiring.algorithms.ordered import selects
from semiring.algorithms.schedule import BLOCKED, schedule_for
from semiring.chain.explanation import gpu_names
from semiring.chain.problem import Problem, Reduction, is_tropical
from semiring.errors import AlgebraError, DeviceError
from semiring.kernels import get_backend
from semiring.kernels.engine import Engine, make_plan

__all__ = ["method"]


def _alternatives(p: Problem) -> str:
    """Return the options with the methods that close the matrix of a problem, as a list in words."""
    names = ["auto"]
    for found in (method_named(name) for name in METHODS if name != "auto"):
        squares = found.name != "squaring" or (
            p.semiring.idempotent and (p.semiring.selective or p.semiring.absorptive)
        )
        try:
            found.check(p.backend, p.matrix.storage)
        except (AlgebraError, DeviceError):
            continue
        if found.takes == "matrix" and squares:
            names.append(found.name)
    return f"{option('method', names[0])}, {', '.join(names[1:-1])} or {names[-1]}"


def method(p: Problem) -> Reduction:
    """The method by which the matrix will be closed, unless a step finds an easier way.

    Raises `AlgebraError` and `DeviceError` where the caller's method does not take the matrix.
    """
    request, m = p.request, p.matrix
    backend, name, why = p.backend, request.method, "asked for"
    if request.devices:
        if name not in ("auto", BLOCKED):
            raise AlgebraError(f"{name} does not run on several GPUs: use {BLOCKED}, or one of them")
        name, why = BLOCKED, f"rows on the GPUs {', '.join(gpu_names(request.devices))}"
        backend = get_backend("cuda")
    elif takes_edges(name) and m.storage == "elements":
        if not is_tropical(p.semiring) or m.dtype not in (np.float32, np.float64):
            raise AlgebraError(
                f"{name} runs Dijkstra's algorithm, which needs weights of min_plus or max_plus in float32 or float64. "
                f"For {p.semiring.name} on {m.dtype}, pass {_alternatives(p)}"
            )
        if backend.name == "cuda":
            raise DeviceError(
                f"{name} runs on the CPU, and the matrix is on a GPU: copy the matrix to the host, or use rkleene"
            )
    elif name == "auto":
        schedule = schedule_for(backend.name, m.dtype, m.storage, p.semiring)
        name = schedule.method(p.n, selecting=selects(p.semiring))
        whole = "whole_closures" in method_named(name).needs
        if whole and not Engine(backend, make_plan(p.semiring, m.dtype)).closes(p.n):
            name = BLOCKED
        if p.n <= schedule.leaf:
            why = f"{p.n} vertices: closed as one block, without products"
        else:
            why = f"{name} was measured fastest for dense matrices on a {'GPU' if backend.name == 'cuda' else 'CPU'}"
    else:
        method_named(name).check(backend, m.storage)
    request.explanation.method, request.explanation.backend = name, backend.name
    return Reduction(why, p.but(p.facts, method=name), quiet=request.method != "auto")
