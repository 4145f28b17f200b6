"""Measure the first calls of a fresh process whose cache of compiled kernels is empty, beside NumPy.

python -m benchmarks.first_call [import] [calls] [sparse] [waiting] [--sizes N…] [--gpu]

Every row is a process of its own with an empty cache, which finds the byte code of all modules. `calls` and `sparse`
show the first and the second call, beside NumPy and SciPy. `waiting` shows how long the process beside the caller
compiles, the call that loads the kernels, and the next call. Its last columns show what this costs a caller that
computes with NumPy, and with a BLAS on all cores: while the process runs, relative to moments in which it is stopped,
and after the kernels were loaded. With --gpu the operands are CuPy arrays, and the last column shows a process that
finds the machine code in the cache: the difference is what a shipped cache would save.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from typing import Any

from benchmarks.common import Table, at_most, comparing, format_seconds, run
from benchmarks.packages import require

__all__ = ["main"]

_SIZES = (10, 100, 500, 1000)

_PREPARE = """
import atexit, json, os, sys, time
import numpy as np
before = set(sys.modules)
clock = time.perf_counter
t = clock(); import semiring as sr; imported = clock() - t
n, xp = int(sys.argv[1]), np
rng = np.random.default_rng(0)
A, x = rng.random((n, n)), rng.random(n)
if "sparse" in sys.argv:
    from scipy.sparse import csgraph, csr_array
    S = csr_array(np.where(rng.random((n, n)) < min(1, 8 / n), A, 0))
own = dict(name="safest", add="max(x, y)", mul="x * y", zero=0, one=1, domain=(0, 1))

def product(A, B, add, mul):
    if A.shape[0] * B.size <= 1 << 21:
        return add.reduce(mul(A[:, :, None], B), axis=1)
    C = mul(A[:, :1], B[:1])
    for k in range(1, len(B)):
        C = add(C, mul(A[:, k : k + 1], B[k]))
    return C

def closure(A, add, mul, one):
    D = A.copy()
    np.fill_diagonal(D, one)
    for k in range(len(D)):
        D = add(D, mul(D[:, k : k + 1], D[k]))
    return D

def shift_and_multiply(A, B):  # wrong if the terms of an entry underflow
    a, b = A.max(1, keepdims=True), B.max(0)
    return np.log(np.exp(A - a) @ np.exp(B - b)) + a + b

def sparse_product(A, B, add, mul):
    lengths = np.diff(B.indptr)[A.indices]
    rows = np.repeat(np.repeat(np.arange(A.shape[0]), np.diff(A.indptr)), lengths)
    ends = np.cumsum(lengths)
    entries = np.arange(ends[-1]) + np.repeat(B.indptr[A.indices] - ends + lengths, lengths)
    keys = rows * B.shape[1] + B.indices[entries]
    order = np.argsort(keys, kind="stable")
    found, starts = np.unique(keys[order], return_index=True)
    values = add.reduceat(mul(np.repeat(A.data, lengths), B.data[entries])[order], starts)
    return csr_array((values, np.divmod(found, B.shape[1])), shape=(A.shape[0], B.shape[1]))

def timed(call):
    t = clock(); call(); return clock() - t

@atexit.register
def stop_compiling():  # for the next row
    found = sys.modules.get("semiring.kernels.cpu.compiler_process")
    if found is not None and found._requests.process is not None:
        found._requests.process.kill()
"""

#: The name of a row, our call, and what a user of NumPy would write.
_CALLS = {
    "product, max_plus": ("sr.matmul(A, A, sr.max_plus)", "product(A, A, np.maximum, np.add)"),
    "vector, max_plus": ("sr.matmul(x, A, sr.max_plus)", "(x[:, None] + A).max(0)"),
    "closure, min_max": ("sr.closure(A, sr.min_max)", "closure(A, np.minimum, np.maximum, -np.inf)"),
    "closure, min_plus": ("sr.closure(A)", "closure(A, np.minimum, np.add, 0)"),
    "closure of truth values": (
        "sr.closure(A < 2 / n, sr.boolean)",
        "closure(A < 2 / n, np.logical_or, np.logical_and, True)",
    ),
    "product of an own semiring": (
        "sr.matmul(A, A, sr.Semiring(**own))",
        "product(A, A, np.maximum, np.multiply)",
    ),
    "closure of an own semiring": (
        "sr.closure(A, sr.Semiring(**own))",
        "closure(A, np.maximum, np.multiply, 1)",
    ),
    "shortest_paths": ("sr.shortest_paths(A)", None),
    "product, plus_times": ("sr.matmul(A, A, sr.plus_times)", "A @ A"),
    "vector, plus_times": ("sr.matmul(x, A, sr.plus_times)", "x @ A"),
    "closure, plus_times": ("sr.closure(A / n, sr.plus_times)", "np.linalg.inv(np.eye(n) - A / n)"),
    "paths, acyclic, of both signs": (
        "sr.shortest_paths(np.where(np.tri(n, k=-1), A - 0.5, np.inf))",
        "closure(np.where(np.tri(n, k=-1), A - 0.5, np.inf), np.minimum, np.add, 0)",
    ),
    "product, log_plus": ("sr.matmul(A, A, sr.log_plus)", "shift_and_multiply(A, A)"),
}

#: The same for a sparse graph of eight edges a vertex; the others are SciPy and NumPy.
_SPARSE_CALLS = {
    "paths from one vertex": (
        "sr.shortest_paths(S, sources=[0])",
        "csgraph.dijkstra(S, indices=[0], return_predecessors=True)",
    ),
    "paths within a limit": (
        "sr.shortest_paths(S, sources=[0], limit=0.3)",
        "csgraph.dijkstra(S, indices=0, limit=0.3)",
    ),
    "sparse product, min_plus": ("sr.matmul(S, S, sr.min_plus)", "sparse_product(S, S, np.minimum, np.add)"),
    "sparse product, plus_times": ("sr.matmul(S, S, sr.plus_times)", "S @ S"),
    "sparse matrix and vector": (
        "sr.matmul(S, x, sr.min_plus)",
        "np.minimum.reduceat(S.data + x[S.indices], S.indptr[:-1])",
    ),
    "three shortest paths": ("list(sr.k_shortest_paths(S, 0, 1, 3))", "list(csgraph.yen(S, 0, 1, 3))"),
    "update of an edge": ("P.update(0, 1, 1e-3 * rng.random())", None),
    "factor": ("sr.factor(S)", None),
}

#: What rows prepare besides.
_SETUP = {"update of an edge": "P = sr.shortest_paths(S)\n"}

_TIMES = """
peer = [timed(lambda: {peer}) for _ in range(2)] if {has_peer} else [float("nan")]
times = [imported, *(timed(lambda: {call}) for _ in range(2)), min(peer)]
print(json.dumps(times))
"""

_WAITING = """
import signal
G, alone, meanwhile, median = rng.random((700, 700)), [], [], lambda seconds: float(np.median(seconds))
peer = (lambda: closure(A, np.minimum, np.maximum, -np.inf)) if {is_numpy} else (lambda: [G @ G for _ in range(10)])
timed(peer)
from semiring.kernels.cpu import compiler_process
t, stopped = clock(), 0.0
while compiler_process._requests.process is None:
    assert clock() - t < 60, "no process was started"
    {call}
process = compiler_process._requests.process
while process.poll() is None and (clock() - t < {limit} or not meanwhile):
    began = clock()
    process.send_signal(signal.SIGSTOP)
    alone += [timed(peer) for _ in range(5)]
    process.send_signal(signal.SIGCONT)
    stopped += clock() - began
    meanwhile += [timed(peer) for _ in range(5)]
    if "numba" not in sys.modules: {call}
compiled = clock() - t - stopped
calls = [timed(lambda: {call}) for _ in range(5 if {is_numpy} else 0)]
after = [timed(peer) for _ in range(9)]
print(json.dumps([compiled, *calls[:2], *(median(times) / median(alone) for times in (meanwhile, after))]))
"""

_ON_GPU = """
import cupy
A, x = cupy.asarray(A), cupy.asarray(x)
def timed(call):
    cupy.cuda.runtime.deviceSynchronize()
    t = clock(); call(); cupy.cuda.runtime.deviceSynchronize(); return clock() - t
"""


def _fresh(code: str, n: int, cache: str, has_sparse: bool = False) -> list[float]:
    """Return the numbers that code prints in a new process with a cache."""
    changing = ("SEMIRING_NUMPY_SECONDS", "SEMIRING_BACKEND", "PYTHONDONTWRITEBYTECODE")
    environment = {name: value for name, value in os.environ.items() if name not in changing}
    environment |= {"SEMIRING_CACHE_DIR": cache, "CUPY_CACHE_DIR": os.path.join(cache, "cupy")}
    done = subprocess.run(
        [sys.executable, "-c", _PREPARE + code, str(n), *["sparse"] * has_sparse],
        capture_output=True,
        text=True,
        check=True,
        env=environment,
    )
    result: list[float] = json.loads(done.stdout.splitlines()[-1])
    return result


def imports(_: argparse.Namespace) -> Table:
    """Measure the import, and the import of single names."""
    rows = []
    for name in ("", "min_plus", "Semiring", "matmul", "closure", "shortest_paths"):
        code = (
            f"t = clock(); sr.{name}; print(json.dumps([imported + clock() - t]))"
            if name
            else _TIMES.format(peer="0", has_peer=False, call="0")
        )
        with tempfile.TemporaryDirectory() as cache:
            rows.append(
                [f"import semiring{f', semiring.{name}' * bool(name)}", format_seconds(_fresh(code, 2, cache)[0])]
            )
    return Table("Import, beyond NumPy", ["what", "time"], rows)


def calls(options: argparse.Namespace) -> Table | None:
    """Compare the first two calls with NumPy."""
    return _compare_calls(options, _CALLS, "First calls, empty cache")


def sparse(options: argparse.Namespace) -> Table | None:
    """Compare the first two calls for a sparse graph with SciPy and NumPy."""
    return None if options.gpu else _compare_calls(options, _SPARSE_CALLS, "First calls for sparse graphs, empty cache")


def _compare_calls(
    options: argparse.Namespace, named_calls: dict[str, tuple[str, str | None]], title: str
) -> Table | None:
    if comparing():
        return None
    if options.gpu:
        require("cupy")
    rows: list[list[Any]] = []
    for name, (call, peer) in named_calls.items():
        for n in options.sizes:
            code = (
                (_ON_GPU if options.gpu else "")
                + _SETUP.get(name, "")
                + _TIMES.format(call=call, peer=peer or 0, has_peer=bool(peer) and not options.gpu)
            )
            with tempfile.TemporaryDirectory() as cache:
                _, first, second, numpy = _fresh(code, n, cache, has_sparse=named_calls is _SPARSE_CALLS)
                row = [name, n, format_seconds(first), format_seconds(second)]
                if options.gpu:
                    row.append(format_seconds(_fresh(code, n, cache)[1]))
                else:
                    row += (
                        [format_seconds(numpy), f"{first / numpy:.2f}", f"{second / numpy:.2f}"]
                        if peer
                        else ["", "", ""]
                    )
                rows.append(row)
                print(*row, sep=", ", flush=True)
    beside = ["first call, code in the cache"] if options.gpu else ["NumPy", "first / NumPy", "second / NumPy"]
    return Table(title, ["call", "n", "first", "second", *beside], rows)


def waiting(options: argparse.Namespace) -> Table | None:
    """Measure the process beside the caller, and the caller's NumPy while it runs, while it is stopped, and later."""
    if comparing():
        return None
    rows: list[list[Any]] = []
    for name in ("product, max_plus", "closure, min_max"):
        measured = []
        for is_numpy, limit in ((True, 60), (False, 15)):
            code = _WAITING.format(call=_CALLS[name][0], limit=at_most(limit), is_numpy=is_numpy)
            with tempfile.TemporaryDirectory() as cache:
                measured.append(_fresh(code, 500, cache))
        (*seconds, meanwhile, after), (_, blas, _) = measured
        rows.append([name, *map(format_seconds, seconds), *(f"{cost:.2f}" for cost in (meanwhile, blas, after))])
        print(*rows[-1], sep=", ", flush=True)
    costs = "NumPy meanwhile", "BLAS meanwhile", "NumPy afterwards"
    return Table(
        "The process that compiles beside the caller, n = 500",
        ["call", "compiled after", "next call", "call after it", *(f"{cost}, × alone" for cost in costs)],
        rows,
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print the tables."""

    def configure(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--sizes", type=int, nargs="+", default=_SIZES)
        parser.add_argument("--gpu", action="store_true", help="operands on a GPU")

    with tempfile.TemporaryDirectory() as cache:  # writes the byte code
        _fresh("sr.matmul(A, A); sr.shortest_paths(A); print(json.dumps([]))", 5, cache)
    tables = {"import": imports, "calls": calls, "sparse": sparse, "waiting": waiting}
    return run("benchmarks.first_call", str(__doc__), tables, arguments, configure)


if __name__ == "__main__":
    sys.exit(main())
