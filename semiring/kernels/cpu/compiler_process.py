"""Compile kernels in a process beside the caller, which fills the cache on disk.

Numba compiles under one lock and holds the GIL, so a thread would stop the caller. A process costs the caller a start
of some milliseconds, and runs at a low priority. It is an ordinary command, ``python -c``, and not a process of
`multiprocessing`: it imports nothing of the caller's program, needs no ``__main__`` guard, and inherits no lock. It is
in a process group of its own, so Ctrl-C does not reach it, and in the root folder, so the caller's can be removed. It
outlives the caller, because its results serve the next process. A caller starts one such process at a time.

When a group of kernels is on disk, the process stores a *marker*, an entry of `semiring.kernels.code_store`. Its key
has what the kernels depend on, as far as it can be found without Numba. A marker that is wrong costs time only: the
caller then compiles. While a process compiles, a reservation in the cache prevents others from doing the same.

No process is started if nothing is stored on disk, if the folder cannot be written, or if the interpreter is embedded
in a program, so that ``sys.executable`` is no Python.
"""

from __future__ import annotations

import os
import pickle
import sys
import threading
import time
from contextlib import suppress
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from semiring.kernels import code_store
from semiring.kernels.contract import NO_PREDECESSOR, Adjacency, Array, CompressedRows, KernelPlan, Steps
from semiring.kernels.definition import define
from semiring.logs import logger

if TYPE_CHECKING:
    import subprocess

#: The groups of kernels that are compiled together, by what they compute.
PRODUCT, WITNESS, CLOSURE, PREDECESSORS, GAINING = "product", "witness", "closure", "predecessors", "gaining"
STEPS, ARRAYS, FOLDS = "steps", "arrays", "folds"
#: Products of two sparse matrices, and of a sparse and a dense one.
SPARSE, MIXED = "sparse", "mixed"
#: The groups of `semiring.kernels.cpu.loops`. Those of `PATTERNS` compute with positions of edges, in no semiring.
SEARCHES, COUNTS, UPDATES, RANKED, DEPENDENCIES = "searches", "counts", "updates", "ranked", "dependencies"
PATTERNS, WALKS = "patterns", "walks"
#: Sparse factors, and the vectors that they solve.
FACTOR = "factor"
#: Scans, components and permutations of the graphs of dense matrices, by `semiring.kernels.graphs`.
GRAPHS = "graphs"
LOOPS = frozenset((SEARCHES, COUNTS, UPDATES, RANKED, DEPENDENCIES, PATTERNS, WALKS))

_POLLING_SECONDS = 0.05  # between two reads of a marker
_RESERVED_SECONDS = 120.0  # after which a reservation belongs to a process that has ended
_START = (
    "import pickle, sys; path, request = pickle.load(sys.stdin.buffer); sys.path[:] = path; "
    "from semiring.kernels.cpu.compiler_process import main; main(request)"
)
#: Variables of Numba on which no code depends.
_NEUTRAL_VARIABLES = ("NUMBA_CACHE_DIR", "NUMBA_NUM_THREADS")


class _Requests:
    """The markers that this process knows, and the process that compiles for it."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.ready: set[str] = set()
        self.polled: dict[str, float] = {}  # when a marker was looked for last
        self.waiting: dict[str, float] = {}  # until when another process compiles a group
        self.failed: set[str] = set()
        self.process: subprocess.Popen[bytes] | None = None
        self.compiling = ""  # the key of the group that `process` compiles


_requests = _Requests()


def _renew() -> None:
    """Forget the process after a fork: it is no child of the new process."""
    global _requests
    _requests = _Requests()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew)


def is_ready(plan: KernelPlan, group: str) -> bool:
    """Return whether a group of kernels is on disk. The disk is read at most every twentieth of a second."""
    key, now = _key(plan, group), time.monotonic()
    if key not in _requests.ready:
        if now - _requests.polled.get(key, -1.0) < _POLLING_SECONDS:
            return False
        _requests.polled[key] = now
        if not code_store.has_entry(_version(), key):
            return False
        _requests.ready.add(key)
    return True


def ensure_compiling(plan: KernelPlan, group: str) -> bool:
    """Start a process that compiles a group of kernels, unless one runs. Return False if no process can compile it."""
    key, now = _key(plan, group), time.monotonic()
    with _requests.lock:
        if _requests.process is not None and _requests.process.poll() is not None:
            if not code_store.has_entry(_version(), _requests.compiling):
                _requests.failed.add(_requests.compiling)
            _requests.process = None
        if key in _requests.failed:
            return False
        if _requests.process is not None or now < _requests.waiting.get(key, 0.0):
            return True
        is_reserved = False
        try:
            if not _can_start():
                raise OSError("no process can be started")
            is_reserved = code_store.reserve(_version(), key, _RESERVED_SECONDS)
            if is_reserved:
                _requests.process, _requests.compiling = _start(plan, group), key
            else:
                _requests.waiting[key] = now + _RESERVED_SECONDS
        except (OSError, ValueError, TypeError, AttributeError, pickle.PicklingError) as error:
            logger().debug("%s %s: no process compiles beside the caller: %s", plan.semiring.name, plan.dtype, error)
            _requests.failed.add(key)
            if is_reserved:
                code_store.release(_version(), key)
            return False
    return True


def _can_start() -> bool:
    """Return whether ``sys.executable`` is a Python that can run beside this one, and may fill the cache."""
    name = os.path.basename(sys.executable or "").lower()
    is_python = name.startswith(("python", "pypy")) and not getattr(sys, "frozen", False)
    return is_python and sys.platform not in ("emscripten", "wasi") and not sys.is_finalizing()


def _start(plan: KernelPlan, group: str) -> subprocess.Popen[bytes]:
    import subprocess

    class Process(subprocess.Popen[bytes]):
        """A process that outlives its caller: the destructor of `subprocess.Popen` would warn about that."""

        def __del__(self) -> None:
            pass

    plan, folder = replace(plan, threads=2), code_store.cache_folder()
    assert folder is not None
    folder = folder.absolute()
    payload = pickle.dumps((list(map(os.path.abspath, sys.path)), pickle.dumps((plan, group))))
    options: dict[str, Any] = {"process_group": 0} if os.name == "posix" else {}
    if sys.platform == "win32":
        options["creationflags"] = subprocess.IDLE_PRIORITY_CLASS | subprocess.CREATE_NEW_PROCESS_GROUP
    silent, flags = subprocess.DEVNULL, ["-P", *["-E"] * sys.flags.ignore_environment, *["-s"] * sys.flags.no_user_site]
    process = Process(
        [sys.executable, *flags, "-c", _START],
        stdin=subprocess.PIPE,
        stdout=silent,
        stderr=silent,
        cwd=folder.anchor,
        env={**os.environ, "SEMIRING_NUMPY_SECONDS": "0", "SEMIRING_CACHE_DIR": str(folder)},
        **options,
    )
    # The thread receives the status of the process, which would be a zombie else.
    threading.Thread(target=process.wait, name="semiring-compiler", daemon=True).start()
    assert process.stdin is not None
    with suppress(BrokenPipeError), process.stdin as pipe:
        pipe.write(payload)
    logger().info(
        "compiling the %s kernels of %s %s in process %d, beside this one",
        *(group, plan.semiring.name, plan.dtype, process.pid),
    )
    return process


def main(request: bytes) -> None:
    """Compile a group of kernels and store its marker, in the process beside a caller."""
    if hasattr(os, "nice"):
        os.nice(12)  # a busy core gives the process 6 % of its time
    plan, group = pickle.loads(request)
    try:
        compile_group(plan, group)
        mark_ready(plan, group)
    finally:
        code_store.release(_version(), _key(plan, group))


def mark_ready(plan: KernelPlan, group: str) -> None:
    """Store the marker of a group that is compiled."""
    code_store.save(_version(), _key(plan, group), True)


def compile_group(plan: KernelPlan, group: str) -> None:
    """Compile a group of kernels of a plan by calls on small operands, none of which NumPy may compute."""
    from semiring.kernels import get_backend

    backend: Any = get_backend("cpu")
    if plan.storage == "bits":
        words = np.zeros((256, 8), np.uint32)
        backend.multiply(plan, words.copy(), words, words)
        if group == CLOSURE:
            backend.close_block(plan, words.copy())
        return
    one, alone = plan.dtype.type(plan.one), replace(plan, threads=1)
    square = np.full((320, 320), one)
    if group == PRODUCT:
        for each, A in ((alone, square[:40, :40]), (plan, square), (plan, square.T)):
            backend.multiply(each, np.empty_like(A), A, A)
        for column in (square[:, :1], square[:1]):
            backend.multiply_add(plan, column.copy(), *((square, column) if column.shape[1] == 1 else (column, square)))
        stack = np.full((3, 8, 8), one)
        backend.multiply(plan, stack.copy(), stack, stack)
        backend.copy_panel(plan, np.full((640, 640), one), np.full((640, 640), one))
    elif group == WITNESS:
        for size in (40, 320):
            A = square[:size, :size]
            backend.multiply_add_witness(plan, A.copy(), np.zeros(A.shape, np.int32), A, A, 0)
    elif group == STEPS:
        _walk(backend, alone, square[:20, :20])
    elif group == CLOSURE:
        backend.close_block(plan, square[:100, :100].copy())
        backend.close_stack(plan, np.full((3, 8, 8), one))
    elif group == PREDECESSORS:
        _find_predecessors(backend, plan)
    elif group == ARRAYS:
        _write_paths(backend)
    elif group == FOLDS:
        trees, none, out = (
            np.full((1, 1, 40), NO_PREDECESSOR, np.int32),
            plan.dtype.type(0),
            square[None, :1, :40].copy(),
        )
        backend.fold_paths(alone, trees, np.zeros(1, np.int32), square[:40, :40].copy(), none, out)
    elif group in (SPARSE, MIXED):
        _multiply_sparse(backend, plan, group)
    elif group in LOOPS:
        _run_loops(backend, plan, group)
    elif group == FACTOR:
        _factorize(plan)
    elif group == GRAPHS:
        _scan_graphs()
    else:
        _close_gaining(backend, plan)


def _multiply_sparse(backend: Any, plan: KernelPlan, group: str) -> None:
    """Multiply a sparse matrix of three rows by itself, or by a dense one."""
    ends, square = np.arange(3, dtype=np.int32), np.full((3, 3), plan.one, plan.dtype)
    A = CompressedRows(np.arange(4), ends, square[0].copy(), 3)
    kinds = (None, np.dtype(np.int32)) if plan.semiring.selective else (None,)
    if group == SPARSE:
        for kind in kinds:
            backend.multiply_sparse(plan, A, A, None, lambda count: None, kind)
            for B in (A, square):
                backend.multiply_masked(plan, A, B, A._replace(values=None), kind)
        backend.multiply_sparse(plan, A, A, A._replace(values=None), lambda count: None, None)
        return
    for kind in kinds:
        W = None if kind is None else np.empty((3, 3), kind)
        backend.multiply_mixed(plan, square.copy(), A, square, W)
        backend.multiply_mixed(plan, square.copy(), square, A, W)
    column, bounds = square[:, :1].copy(), (plan.dtype.type(0), plan.dtype.type(1))
    backend.multiply_mixed(plan, column.copy(), A, column, None)
    for starts in (A.starts, A.starts.astype(np.int32)):
        for given in (bounds, None):
            backend.scan_rows(plan, A._replace(starts=starts), given)
        backend.multiply_unvalidated(plan, column.copy(), A._replace(starts=starts), column, bounds)


def _run_loops(backend: Any, plan: KernelPlan, group: str) -> None:
    """Call the loops of a group on a path of three vertices."""
    zero, starts, heads = plan.zero, np.array([0, 1, 2, 2]), np.array([1, 2], np.int32)
    weights, source, ends = np.full(2, plan.one, plan.dtype), np.zeros(1, np.int64), np.arange(3)
    D = np.where(np.eye(3, dtype=np.bool_), plan.one, zero).astype(plan.dtype)
    if group == SEARCHES:
        for is_opposite in (False, True):
            graph = starts, heads, weights, is_opposite
            backend.search_table(plan, graph, source, ends, D[:1].copy(), np.empty((1, 3), np.int32))
            backend.search_near(plan, graph, source, np.ones(3, np.bool_), plan.one)
    elif group == COUNTS:
        for kind in (np.int64, np.float64):
            backend.count_paths(
                *(plan, D, ends, (starts, heads, weights), zero, 0.0, False, np.empty((3, 3), kind)),
            )
    elif group == UPDATES:
        adjacency, tolerance = Adjacency(starts, heads, weights, starts, heads, weights), (0.0, 0.0)
        for P in (np.full((3, 3), NO_PREDECESSOR, np.int32), np.empty((0, 0), np.int32)):
            changed, touched = (ends[1:2], ends[:1], weights[:1]), np.zeros((0, 0), np.bool_)
            backend.improve(plan, D.copy(), P.copy(), *changed, touched)
            counts = backend.count_users(plan, D, P, adjacency, *changed, tolerance)
            backend.repair(plan, D.copy(), P.copy(), adjacency, *changed, tolerance, counts + 1, touched)
    elif group == RANKED:
        h, rows = np.full(3, float(plan.one)), (starts, heads, weights.astype(np.float64))
        searches = backend.open_spur_searches(plan, rows, h, 2, (1.0, 0.0))
        path, banned = np.arange(3, dtype=np.int32), np.empty(0, np.int32)
        searches.search(path[:1], banned, h[0])
        searches.bound(path, 0, banned)
    elif group == DEPENDENCIES:
        for some in (weights, weights[:0]):
            weighted = starts, heads, some, np.empty(0, np.int32)
            backend.add_dependencies(plan, weighted, source, False, np.zeros(3), np.zeros(0))
    elif group == WALKS:
        _factorize(plan, finds_walk=True)
    else:
        from semiring.kernels.cpu.elimination import elimination_trees

        elimination_trees.compress_rows(3, heads, heads)
        elimination_trees.transpose_rows(starts, heads)
        elimination_trees.rows_of(starts, 2)
        elimination_trees.topological_order(starts, heads)
        _analyze(starts, heads)


def _analyze(starts: Array, heads: Array) -> None:
    """Find the elimination tree, the supernodes and the slots of a graph in compressed rows."""
    from semiring.kernels.cpu.elimination import elimination_trees as kernels

    order = np.arange(3, dtype=np.int32)
    kernels.widest_level(starts, heads)
    first, rows, _ = kernels.transpose_rows(starts, heads)
    begins, both = kernels.symmetric_pattern(starts, heads, first, rows)
    parent, _ = kernels.elimination_tree(begins, both, order)
    counts = kernels.column_counts(begins, both, order, parent)
    pivot_starts = kernels.find_supernodes(parent, counts, 4, 8, 0.15)
    owners, parents, row_starts, below = kernels.find_structures(begins, both, order, parent, counts, pivot_starts)
    blocks = np.zeros(pivot_starts.size, np.int64)
    kernels.find_slots(starts, heads, order, owners, pivot_starts, row_starts, below, blocks, blocks, blocks, False)
    kernels.sums_from_roots(parents, np.diff(pivot_starts))


def _factorize(plan: KernelPlan, *, finds_walk: bool = False) -> None:
    """Factorize the matrix of an edge between two vertices, each of which is a supernode, and solve by the factor."""
    from semiring.kernels.cpu.elimination import compiled_loops as loops

    zero, one, ends = plan.zero, plan.one, np.arange(2, dtype=np.int32)
    memory, place = np.full(4, zero, plan.dtype), ends.copy()
    parents, pivot_starts, row_starts = np.array([1, -1], np.int32), np.arange(3), np.array([0, 1, 1])
    rows, blocks, right, below = ends[1:].copy(), np.arange(2), np.array([2, 3]), np.array([3, 4])
    tree, fronts = (pivot_starts, row_starts, rows, parents), (blocks, right, below, False)
    update, starts, counts = np.full(1, zero, plan.dtype), np.arange(3), np.ones(2, np.int64)
    if finds_walk:
        from semiring.kernels.cpu.elimination.factor_walks import find_walk

        graph = ends, np.array([0, 1, 1]), rows, update, ends, parents, *tree[:3], memory, *fronts
        closing = loops.operands(plan, 1, closing=True)[0]
        find_walk(closing, ends[0], ends[1], *graph, np.array([0, 0, 1]), ends[:1].copy(), zero, one)
        return
    loops.scatter_values(update, blocks[:1].copy(), memory)
    sr, left, right_fold, indices = loops.operands(plan, 1, closing=True)
    folds = left, right_fold, indices.ctypes.data
    space = place, np.full(4, zero, plan.dtype), np.full(4, zero, plan.dtype)
    loops.reduce_subtree(sr, folds, memory, 0, 2, tree, fronts, zero, *space, update)
    loops.extend(sr, memory, 1, tree, fronts, update, 0, update.copy(), place)
    loops.reduce_front(sr, folds, memory, 0, tree, fronts, zero, update)
    loops.reduce_open(sr, memory, tree, fronts, zero, *space[:2])
    sr = loops.operands(plan, 1, opposite=False)[0]
    x, X, active, label = *np.full((2, 2, 1), zero, plan.dtype), np.ones(2, np.bool_), np.full(2, zero, plan.dtype)
    loops.set_unit_vectors(X, ends[:1].copy(), active, ends, parents, pivot_starts, zero, one)
    solve = left, folds[2], X, active, *tree[:3], memory, blocks, right, below, False, zero, 1
    loops.solve_vectors(*solve)
    loops.scatter_rows(X, ends, np.zeros(1, np.int64), np.full((1, 2), zero, plan.dtype))
    loops.ascend(left, folds[2], x[:, 0].copy(), 0, ends, parents, *tree[:3], memory, right, zero, 1)
    loops.descend(sr, x[:, 0].copy(), blocks, *tree[:3], memory, blocks, below, False, zero, 1, 1)
    labels = ends[:1].copy(), np.zeros(2, np.int64), ends, *tree[:3], memory, right, starts, counts, zero, one, label
    loops.compute_labels(left, folds[2], *labels)
    loops.add_joined_labels(sr, x[:1], X[:1], x[:1], zero, x[:1].copy(), x[1:].copy())
    loops.find_lowest_common(ends, ends, ends, parents)
    climbing = (ends, parents, *tree[:3]), memory, right, blocks, np.array([1, 0]), zero, one, starts[:1].copy(), label
    loops.climb(left, left, folds[2], ends[:1].copy(), starts[:1].copy(), True, *climbing)
    loops.join_labels(sr, label, starts[:1].copy(), label, starts[:1].copy(), counts[:1].copy(), zero, x[0])


def _scan_graphs() -> None:
    """Find the components of a path of 40 vertices, whose weights take 4 and 8 bytes, and permute its matrix."""
    from semiring.kernels.graphs import component_search, edge_scan, permutation

    order, words, transposed = np.arange(40)[::-1].copy(), *np.zeros((2, 40, 2), np.uint32)
    for dtype in (np.uint64, np.uint32):
        A = np.eye(40, k=1, dtype=dtype)
        for B in (A, A.T):
            edge_scan.mark_edges(B, dtype(0), dtype(0), words, 0, 40)
        permutation.copy_rows(A, order, 0, 40, A.copy())
        vertices, starts, _ = permutation.find_chains(order, 2)
        permutation.move_rows(A, vertices, starts[0], starts[1], A[0].copy(), order)
        permutation.gather_columns(A, order, order)
    permutation.transpose_words(words, transposed, 0, 2)
    component_search.is_strongly_connected(words, 40, 1)
    component_search.components_of_words(words, transposed, 40)


def _walk(backend: Any, plan: KernelPlan, A: Array) -> None:
    """Take a vector through steps, with and without witnesses."""
    n, row = len(A), np.zeros(1, np.int64)
    band = CompressedRows(np.arange(n + 1), np.arange(n, dtype=np.int32), A[0].copy(), n)
    W = np.empty((1, 2, n), np.int32)
    for matrices in (A[None, None], (band,), (band, band)):
        prepared = backend.prepare(plan, matrices, row)
        for witness in (None, W) if plan.semiring.selective else (None,):
            backend.walk(plan, prepared, A[:1].copy(), Steps(2, witness=witness))
    backend.trace(plan, W, np.zeros((1, len(A)), np.bool_), None)


def _find_predecessors(backend: Any, plan: KernelPlan) -> None:
    """Search predecessors in graphs of many and of few edges."""
    from semiring.kernels.tolerance import tolerance_for

    rng = np.random.default_rng(0)
    for n, share in ((20, 1.0), (200, 0.03), (200, 1.0)):
        values = rng.random((n, n)) if plan.dtype.kind == "f" else rng.integers(1, 100, (n, n))
        A = np.where(rng.random(values.shape) < share, values, plan.zero).astype(plan.dtype)
        D = A.copy()
        backend.close_block(plan, D)
        tolerance = tolerance_for(plan, D)
        backend.find_predecessors(plan, D, tolerance, A)
        if n == 20:
            backend.find_predecessors(plan, D[None], tolerance, A[None])


def _write_paths(backend: Any) -> None:
    """Write paths of few and of many vertices, whose links have other dtypes."""
    source = np.zeros(1, np.int32)
    for n in (2, 1 << 15):
        predecessors, counts = np.full((1, 1, n), NO_PREDECESSOR, np.int32), np.empty((1, 1, n), np.int32)
        backend.count_vertices(predecessors, source, counts, 1)
        backend.write_paths(predecessors, source, source, counts[..., :1], np.empty((1, 1, 1, 1), np.int32), 1)


def _close_gaining(backend: Any, plan: KernelPlan) -> None:
    """Close small matrices with weights that gain along no cycle."""
    if not backend.gaining_rows(plan):
        return
    A = np.full((2, 20, 20), plan.semiring.zero_for(plan.dtype))
    upper = np.triu_indices(20, 1)
    for sign in (-1, 1):
        A[:, upper[0], upper[1]] = sign
        survey = backend.survey_gaining(plan, A)
        if survey is not None:
            backend.close_gaining(plan, A, survey, A.copy())


def _key(plan: KernelPlan, group: str) -> str:
    key: str | None = plan.memo.get((_key, group))
    if key is None:
        closing = group != PRODUCT and plan.semiring.star_expression is not None
        key = plan.memo[_key, group] = f"marker {group} {plan.storage} {define(plan, closing=closing).key}"
    return key


@cache
def _version() -> str | None:
    """Return a digest of the files, versions and settings that kernels depend on, found without loading Numba.

    Return None if a file cannot be read, for instance during an upgrade. Then nothing is stored.
    """
    from importlib.util import find_spec
    from pathlib import Path

    root = Path(__file__).parents[2]
    folders = (root / "kernels", root / "algebra" / "expressions")
    try:
        sources = sorted(path for folder in folders for path in folder.rglob("*.py"))
        compilers = [spec.origin for name in ("numba", "llvmlite") if (spec := find_spec(name)) and spec.origin]
        stamps = [
            (str(path), stat.st_size, int(stat.st_mtime))
            for path in [*sources, *map(Path, compilers)]
            if (stat := path.stat())
        ]
    except (OSError, ImportError, ValueError):
        return None
    variables = sorted(
        (name, value)
        for name, value in os.environ.items()
        if name.startswith("NUMBA_") and name not in _NEUTRAL_VARIABLES
    )
    import hashlib  # it loads OpenSSL

    return hashlib.sha256(repr((stamps, sys.version, np.__version__, variables, _processor())).encode()).hexdigest()


@cache
def vector_bytes() -> int | None:
    """Return the bytes of a vector of this processor, as `semiring.kernels.cpu.codegen.target` finds them.

    Return None if they depend on settings of Numba, or the operating system lists no features of an x86 processor.
    """
    if any(name.startswith("NUMBA_CPU") for name in os.environ):
        return None
    line = next((line for line in _processor().splitlines() if line.startswith("flags")), "")
    features = set(line.partition(":")[2].split())
    if not features:
        return None
    has_wide = {"avx512f", "avx512bw", "avx512vl", "avx512dq"} <= features
    return 64 if has_wide else 32 if "avx2" in features else 16


def _processor() -> str:
    """Return the name and the features of the processor, as the operating system lists them."""
    try:
        with open("/proc/cpuinfo") as file:
            lines = file.read(1 << 13).splitlines()
    except OSError:
        import platform

        return platform.processor()
    wanted = ("model name", "flags", "CPU implementer", "CPU part", "Features")
    return "\n".join(dict.fromkeys(line for line in lines if line.startswith(wanted)))
