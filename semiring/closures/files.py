"""A matrix in a file, or in more memory than a GPU has: closed as a whole where there is room for it, else by strips.

Strips are some rows, in the memory where the kernels work. Both by blocked Floyd-Warshall, whose bits do not depend on
the memory. By strips the maps of the rules are done when a strip is read first, and undone when it is written
last; a rule that does more than to map is refused.

A journal has all that a run needs to go on without its input: the maps, and what is looked for at the end.

Cost: n³ pairs, and by strips `semiring.out_of_core.layout.bytes_moved`. Source: `semiring.out_of_core.rounds`, and of
the journal `semiring.out_of_core.journal`.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, Literal, TypeAlias

import numpy as np

from semiring.advice import option
from semiring.algebra import Semiring
from semiring.algebra.catalogue import min_plus
from semiring.algebra.expressions.tree import is_half
from semiring.algorithms.blocked_floyd_warshall import workspace
from semiring.algorithms.methods import method_named
from semiring.algorithms.ordered import selects
from semiring.algorithms.schedule import schedule_for
from semiring.algorithms.stars import check_star
from semiring.arrays.bits import WORD_BITS, BitMatrix
from semiring.arrays.device import free_on_device, load_cupy
from semiring.arrays.entries import check_by_threads, check_entries
from semiring.arrays.operands import as_output, as_result, memory_of, operands, same_memory
from semiring.arrays.scans import Scan, rule_for
from semiring.closures.by_strips import by_strips, found_journal
from semiring.closures.call import Call, Strips, is_tropical
from semiring.closures.request import Request
from semiring.distributed.transports import Team
from semiring.errors import AlgebraError, DeviceError, DomainError, DTypeError, ShapeError, StorageError
from semiring.io.atomic import atomic_file
from semiring.io.network import Network
from semiring.io.npy import write_npy
from semiring.kernels import backend_for, packs
from semiring.kernels.engine import Engine, make_plan
from semiring.kernels.machines import closure_speed
from semiring.out_of_core import layout as layouts
from semiring.out_of_core.buffer_pools import BufferPool, DeviceBufferPool, HostBufferPool
from semiring.out_of_core.disk import TRUTHS, File, Memory, PackedRows, RowStore, System, rows_of_truths
from semiring.out_of_core.journal import with_journal
from semiring.out_of_core.layout import MemoryLimits, StripLayout, format_bytes, limits_of
from semiring.out_of_core.run import HostArrayRun, Run, complete, open_for_writing
from semiring.out_of_core.stored_matrix import PIVOT, StoredMatrix, as_stored, is_npy_name, new_file, new_pivot_file

__all__ = ["SYSTEM", "close_file", "refuse_options_of_files", "wants_files"]

_Close: TypeAlias = Callable[[Request], Any]

SYSTEM = System()
_METHOD = "blocked_floyd_warshall"
_BESIDE = 16 << 20  # bytes of a closure in memory beside its matrices, on two threads
_LOOK = 1 << 20  # bytes that are read at a time to look at them
_LARGE = 1 << 28  # bytes: nobody asks a GPU whether it has room for less
_STAGE, _STAGES = 64 << 20, 4  # bytes of pinned memory through which rows go to a GPU and back, and how often


def wants_files(request: Request) -> bool:
    """Whether the matrix is that of a file, the result goes to one, or there is no room for it where it is closed."""
    kept = request.journal is not None or request.pivots is not None
    asked = request.memory is not None or kept or is_npy_name(request.given) or is_npy_name(request.out)
    return asked or _is_too_large(request.given, request.out) or _is_too_large_there(request)


def close_file(request: Request, close: _Close) -> Any:
    """Return the closure of the matrix of a file, in memory or as strips.

    ``close(request)`` closes a matrix in memory: it is `close_given`, whose module imports this one.

    Raises `OSError`, `FormatError`, `ShapeError`, `DTypeError`; `StorageError` for a memory that is too small, files
    that cannot be written, and a journal of another run; `AlgebraError` for a method or a semiring that strips do not
    take.
    """
    source = as_stored(request.given)
    if source is not None:
        return _close_stored(request, source, _home(request.out, source), close)
    refuse_options_of_files(request)
    if request.memory is not None or not is_npy_name(request.out):
        return _close_array(request, close)
    request.explain("files", "in memory", quiet=True)
    found = close(request.but(request.given, out=None))
    return _saved(os.fspath(request.out), found.matrix if isinstance(found, Network) else found)


def refuse_options_of_files(request: Request) -> None:
    """Raise where a matrix in memory is to be closed with what only one in a file has."""
    named = isinstance(request.given, str | os.PathLike)
    where = "another kind of file" if named else "memory"
    if request.pivots is not None:
        raise StorageError(
            f"pivots= is for a matrix in an .npy file, and A is in {where}: shortest_paths, or another function of "
            "paths, finds the predecessors of all pairs there"
        )
    if request.journal is not None or (request.memory is not None and request.device is None):
        if named and not os.path.exists(request.given):
            raise FileNotFoundError(errno.ENOENT, "no such file", os.fspath(request.given))
        raise StorageError(
            f"{option('memory')} and {option('journal')} are for a matrix in an .npy file, and A is in {where}. Leave "
            "them out, or save A as .npy and give the name of the file. With device='cuda', memory= bounds its memory"
        )


def _is_too_large(A: Any, out: Any) -> bool:
    """Whether both are maps of files, of more than the memory that is free."""
    return isinstance(A, np.memmap) and isinstance(out, np.memmap) and A.ndim == 2 and A.nbytes > layouts.free_memory()


def _is_too_large_there(request: Request) -> bool:
    """Whether an array of the host is to be closed on a GPU that has no room for it."""
    A, device = request.given, request.device
    if device is None or not isinstance(A, np.ndarray) or A.ndim != 2 or A.nbytes < _LARGE:
        return False
    return A.nbytes + _BESIDE > free_on_device()


def _limits(request: Request) -> MemoryLimits:
    """The memory that a call may take."""
    return limits_of(request.memory, None if request.device is None else free_on_device)


def _home(out: Any, source: StoredMatrix) -> StoredMatrix | None:
    """The file of ``out``, if it is one: what is mapped, the file of A itself, or a new one."""
    if not is_npy_name(out) or (os.path.exists(out) and os.path.samefile(out, source.path)):
        return as_stored(out, "out")
    return new_file(os.fsdecode(out), source)


def _close_stored(request: Request, source: StoredMatrix, home: StoredMatrix | None, close: _Close) -> Any:
    check_star(request.semiring, source.dtype)
    if home is not None:
        _check_home(source, home)
    if request.pivots is not None:
        _check_pivots(request)
        if source.n == 0:
            _saved(os.fsdecode(request.pivots), np.empty((0, 0), PIVOT))
    limits = _limits(request)
    whole, kept = _whole(request, source.n, source.dtype), request.journal is not None or request.pivots is not None
    fits = not kept and whole <= limits.computing and source.size + _BESIDE <= limits.host
    if fits or source.n == 0 or (home is None and request.memory is None and not kept):
        request.note(f"a file of {format_bytes(source.size)}, closed in memory")
        return _in_memory(request, source, home, close)
    if home is not None and not kept and _fits_packed(request, source, limits):
        return _in_memory(request, source, home, close, packed=True)
    if home is None:
        raise StorageError(
            f"the closure of a file of {format_bytes(source.size)} by strips, in {format_bytes(limits.computing)} of "
            "memory, goes to an .npy file: give its name, out='closed.npy'"
        )
    _check_method(request)
    if source.is_column_major and not request.semiring.commutative:
        raise AlgebraError(
            f"{source.path} is in Fortran order, and ⊗ of {request.semiring.name} does not commute: save it in C order"
        )
    return _by_strips(request, source, home, limits)


def _whole(request: Request, n: int, dtype: np.dtype[Any]) -> int:
    """The bytes that a closure in memory takes at most: potentials may need copies in float64 and of integers."""
    semiring = request.semiring
    copies = (dtype.itemsize if request.plus and not semiring.idempotent else 0) + 24 * is_tropical(semiring)
    copies += 4 if is_half(dtype) else 0  # in float32
    return (dtype.itemsize + copies) * n * n + _beside(request)


def _beside(request: Request) -> int:
    """The bytes beside the matrices there, with what products on many threads copy."""
    return _BESIDE + max(0, request.options.threads - 2) * layouts.HOST.bit_bytes_per_thread


def _check_method(request: Request) -> None:
    method = request.options.method
    if method not in ("auto", _METHOD):
        raise AlgebraError(f"{method} closes a matrix in memory, and this one does not fit: use {_METHOD}")
    if request.reading.directed is False:
        raise StorageError(
            f"{option('directed', False)} is for a matrix in memory, and this one does not fit: add its transpose first"
        )


def _check_pivots(request: Request) -> None:
    """Raise where no pivots are kept."""
    semiring = request.semiring
    if not semiring.selective:
        raise AlgebraError(f"pivots= need a selective ⊕, and that of {semiring.name} is not: leave pivots out")
    if request.plus:
        raise AlgebraError(
            f"pivots= are those of A*, and {option('reflexive', False)} computes A⁺: leave one of them out"
        )
    if request.devices or request.team.ranks.size > 1:
        raise DeviceError("pivots= is for one process on the CPU or one GPU: leave pivots= out, or name one device")
    if not is_npy_name(request.pivots):
        raise StorageError(f"pivots is {request.pivots!r}, give the name of an .npy file, pivots='pivots.npy'")


def _check_home(source: StoredMatrix, home: StoredMatrix) -> None:
    if not home.is_writable:
        raise StorageError(f"out, {home.path}, is read-only")
    if (home.n, home.dtype) != (source.n, source.dtype):
        kind = ShapeError if home.n != source.n else DTypeError
        raise kind(
            f"out, {home.path}, holds {home.n} × {home.n} {home.dtype}, and A {source.n} × {source.n} {source.dtype}: "
            "give another name for out=, or a file of this shape and dtype"
        )
    if home.is_column_major != source.is_column_major:
        raise StorageError("A and out differ in order, C and Fortran: give another name for out=")
    if home.start != source.start and os.path.exists(home.path) and home.overlaps(source):
        raise StorageError("A and out= are parts of one file that overlap: give the same part, or another file")


# ------------------------------------------------------------------------------------------------------------ in memory


def _saved(path: str, found: Any) -> Any:
    """The result, in a file of its own."""
    with atomic_file(path) as stream:
        write_npy(stream, np.asarray(found))
    return np.load(path, mmap_mode="r")


def _in_memory(
    request: Request, source: StoredMatrix, home: StoredMatrix | None, close: _Close, *, packed: bool = False
) -> Any:
    """The closure of the matrix of a file, read as a whole; ``packed``: of truth values, 32 to a word."""
    A: Any = BitMatrix.zeros((source.n, source.n)) if packed else np.empty((source.n, source.n), source.dtype)
    with File(SYSTEM, source.path, os.O_RDONLY) as file:
        _place(file, source, packed).read(0, memory_of(A))
    if packed:
        request.explain("files", f"a file of {format_bytes(source.size)}, closed in memory, 32 truth values to a word")
        closed = close(request.but(A, out=A, memory=None, journal=None, pivots=None))
    else:
        A = A.T if source.is_column_major else A
        own = request.options.method == "auto" and source.dtype != np.bool_  # truth values are exact by any method
        options = request.options._replace(method=_METHOD) if own else request.options
        request.explain("files", "read from a file", quiet=True)
        ours = A if source.dtype.kind != "i" else None  # integers may have to begin again in a wider dtype
        out = request.out if home is None else None
        closed = close(request.but(A, home=ours, out=out, options=options, memory=None, journal=None, pivots=None))
    return closed if home is None else _written(home, request.team, closed)


def _written(home: StoredMatrix, team: Team, found: Any) -> Any:
    """The result, in the file; words were read column after column where that holds columns."""

    def write() -> None:
        packed = isinstance(found, BitMatrix)
        with open_for_writing(SYSTEM, home) as file:
            rows = found.T if home.is_column_major and not packed else found
            _place(file, home, packed).write(0, np.ascontiguousarray(memory_of(rows)))
            complete(file, home)

    if team.is_first:
        team.begin(write)  # the other ranks get here when it is there
    return home.result()


def _place(file: File, matrix: StoredMatrix, packed: bool) -> RowStore:
    rows = matrix.rows(file)
    return PackedRows.all([rows], matrix.n)[0] if packed else rows


def _fits_packed(request: Request, source: StoredMatrix, limits: MemoryLimits) -> bool:
    """Whether truth values are closed in memory 32 to a word: an eighth of the file."""
    method, n = request.options.method, source.n
    if source.dtype != np.bool_ or limits.device or (source.is_column_major and not request.semiring.commutative):
        return False
    if method != "auto" and "bits" not in method_named(method).storages:
        return False
    if not packs(request.semiring, on_device=False):
        return False
    matrices = 1 if request.semiring.idempotent or not request.plus else 2
    rows = max(n, TRUTHS) * 2  # that are packed, and copies of panels of words
    return matrices * n * -(-n // WORD_BITS) * 4 + rows + 256 * n + _beside(request) <= limits.host


# ------------------------------------------------------------------------------------------------------------ by strips


def _close_array(request: Request, close: _Close) -> Any:
    """The closure of an array of the host in the memory of a GPU."""
    options, semiring = request.options, request.semiring
    (A,) = operands(semiring, A=request.given)
    if A.ndim != 2 or A.shape[0] != A.shape[1]:
        raise ShapeError(f"A is {A.shape}: a closure by strips needs one square matrix, shape (n, n)")
    check_star(semiring, A.dtype)
    limits = _limits(request)
    if _whole(request, len(A), A.dtype) <= limits.device or not A.size:
        method = _METHOD if options.method == "auto" and A.dtype != np.bool_ else options.method
        request.explain("files", "in the memory of the GPU", quiet=True)
        closed = close(request.but(A, memory=None, options=options._replace(method=method)))
        return as_result(request.given)(closed)
    _check_method(request)
    if is_npy_name(request.out):
        raise StorageError(
            "out= is a file, and A is an array larger than the memory of the GPU: save A, and give the name of its file"
        )
    home = np.empty(A.shape, A.dtype) if request.out is None else as_output(request.out, A.shape, A.dtype)
    if np.may_share_memory(home, A) and not same_memory(home, A):
        raise StorageError("A and out= overlap: give A itself, or another array")
    bench = _Bench(request, len(A), A.dtype, limits)
    layout = bench.layout()
    run = HostArrayRun(A, home, layout, bench.room(layout), options.threads)
    request.explain(
        "files",
        f"an array of {format_bytes(A.nbytes)} in {format_bytes(layout.memory)} of the GPU's memory: {_told(layout)}",
    )
    return by_strips(request, bench.call(request, A, partial(check_by_threads, threads=options.threads)), run)


def _told(layout: StripLayout) -> str:
    count = len(layout.rounds)
    traffic = format_bytes(layout.traffic)
    return f"strips of {layout.rows} rows, {traffic} read and written in {count} round{'s' * (count != 1)}"


def _looked_at(source: StoredMatrix, view: Any, semiring: Semiring) -> Scan:
    """`check_entries`, some rows at a time: to read them takes a fifth of the time of touching them in a map."""
    found, rows = Scan(nonnegative=True), max(1, _LOOK // source.row)
    if rule_for(semiring, source.dtype).needs_no_scan:
        return found
    memory = Memory(min(rows, source.n), source.n, source.dtype)
    try:
        with File(SYSTEM, source.path, os.O_RDONLY) as file:
            place = source.rows(file)
            for first in range(0, source.n, rows):
                part = memory.rows_at(place.phase(first), min(rows, source.n - first))
                place.read(first, part)
                found |= check_entries(part, semiring)
    except DomainError:
        check_entries(view.T if source.is_column_major else view, semiring)  # says where
        raise
    return found


class _Bench:
    """Where strips of n × n entries are worked on, and how they are cut."""

    def __init__(self, request: Request, n: int, dtype: np.dtype[Any], limits: MemoryLimits) -> None:
        self._n, self._dtype, self._limits, self._ranks = n, dtype, limits, request.team.ranks.size
        self._cycles = request.plus and request.semiring.idempotent
        semiring = min_plus if is_tropical(request.semiring) else request.semiring
        xp = load_cupy() if limits.device else np
        self._pivots = 0 if request.pivots is None else PIVOT.itemsize
        packed = dtype == np.bool_ and not self._pivots and packs(request.semiring, xp is not np)
        self.storage: Literal["elements", "bits"] = "bits" if packed else "elements"
        width, entry = (-(-n // WORD_BITS), np.dtype(np.uint32)) if packed else (n, dtype)
        self.sample = xp.empty((0, width), entry)
        self.backend = backend_for(self.sample, semiring, dtype, self.storage)
        self._costs = layouts.DEVICE if limits.device else layouts.HOST
        self._blocks = schedule_for(self.backend.name, dtype, self.storage).blocks(n)
        self._widest = max(stop - start for start, stop in self._blocks)
        panel = closure_speed(self.backend.name, dtype).panel
        self._engine = Engine(self.backend, make_plan(semiring, dtype, storage=self.storage), panel)
        # Products of a GPU copy narrow elements into words, and floats into integers of their order.
        copied = not packed and (dtype.itemsize not in (4, 8) or selects(semiring))
        self._copied = 8 if limits.device and copied else 0
        self._width, self._entry = width, entry
        self.threads = self._threads(request.options.threads)

    def _threads(self, asked: int) -> int:
        """So many threads, of those asked for, that what more than two copy takes a quarter of the memory to spare."""
        few, copies = min(2, asked), self._costs.thread_bytes(self.storage)
        spare = self._limits.computing - self._cut(0, few)  # type: ignore[operator]  # no memory is too little
        return min(asked, few + max(0, spare) // 4 // copies) if copies else asked

    def _cut(self, memory: int, threads: int) -> StripLayout | int:
        costs = replace(self._costs, overhead=self._costs.overhead + threads * self._costs.thread_bytes(self.storage))
        cut = self._blocks, self._copies, memory, costs, self.storage == "bits", self._ranks, self._pivots
        return layouts.layout_for(self._n, self._dtype.itemsize, *cut)

    def layout(self) -> StripLayout:
        """Raises `StorageError` where the memory is too small."""
        n, memory = self._n, self._limits.computing
        found = self._cut(memory, self.threads)
        if isinstance(found, int):
            raise StorageError(
                f"{format_bytes(memory)} of memory are too small for {self._widest} rows of {n} {self._dtype}, which "
                f"are one block of pivots, and some more to work on: it takes {format_bytes(found)}"
            )
        found = found.with_last_round(int(self._cycles))
        if not self._limits.device:
            return found
        overhead = layouts.HOST.overhead + 2 * layouts.HOST.bytes_per_thread  # the host looks at rows and moves them
        piece = min(_STAGE, (self._limits.host - overhead) // _STAGES) // found.row
        if piece < 1:
            raise StorageError(
                f"{format_bytes(self._limits.host)} of the host's memory are too small for {_STAGES} rows of {n} "
                f"{self._dtype}, which go to the GPU and back: it takes "
                f"{format_bytes(_STAGES * found.row + overhead)}"
            )
        return replace(found, piece=piece)

    def call(self, request: Request, A: Any, scan: Callable[[Any, Semiring], Scan], *, turned: bool = False) -> Call:
        """The call that is closed by strips; ``scan`` as `check_entries`."""
        options = request.options._replace(method=_METHOD, threads=self.threads)
        call = Call.of(
            A,
            options,
            strips=Strips(scan, self.sample, self.storage),
            turned=turned,
            plus=request.plus,
            rounded_to=request.rounded_to,
            progress=request.progress,
            explanation=request.explanation,
        )
        call.depth = request.depth + 1
        return call

    def room(self, layout: StripLayout) -> BufferPool:
        """The memory of a layout."""
        if self._limits.device:
            return DeviceBufferPool(self._width, self._entry, self._limits.device, layout.piece, self._pivots > 0)
        return HostBufferPool(self._width, self._entry, self._pivots > 0)

    def _copies(self, rows: int) -> int:
        """Bytes of the copies that products with strips of so many rows need."""
        most = max(workspace(self._engine, self._n, rows + 1, self._widest)) * self._entry.itemsize
        if self.storage == "bits" and not self._limits.device:
            most += 4 * rows_of_truths(self._n) * self._n  # two stages, and what is packed or unpacked
        return most + self._copied * self._n * (rows + 1 + self._widest)


def _by_strips(request: Request, source: StoredMatrix, home: StoredMatrix, limits: MemoryLimits) -> Any:
    bench = _Bench(request, source.n, source.dtype, limits)
    call = bench.call(request, source.view(), partial(_looked_at, source), turned=source.is_column_major)
    name, backend = None if request.journal is None else os.fsdecode(request.journal), bench.backend
    pivots = None if request.pivots is None else new_pivot_file(request.pivots, home)
    matrices = [source.real_path, home.real_path]
    if pivots is not None and pivots.real_path in matrices:
        raise StorageError(f"{pivots.path} is the file of the matrix: give another name for pivots=")
    if name is not None and os.path.realpath(name) in (*matrices, *([pivots.real_path] if pivots else [])):
        raise StorageError(f"{name} is the file of the matrix: give another name for the journal")
    journal = None if name is None else found_journal(SYSTEM, name, request, source, home, backend.name)
    if journal is not None:
        run = Run(SYSTEM, source, home, journal.layout, bench.room(journal.layout), name, journal, request.team, pivots)
        if request.memory is not None and journal.layout.memory > limits.computing and not journal.state.is_finished:
            journal.close()
            raise StorageError(
                f"{name}: the run was begun in {format_bytes(journal.layout.memory)} of memory and goes on in as much, "
                f"which is more than {format_bytes(limits.computing)}"
            )
        now = f"in round {journal.state.round + 1} of {len(journal.layout.rounds)}"
        why = (
            "the journal of a run that has finished"
            if journal.state.is_finished
            else f"going on {now}, as the journal says"
        )
        request.explain("files", why)
        if request.explanation is not None:
            request.explanation.about(call.kind.shape, call.kind.dtype)
            request.explanation.closed_by(_METHOD, backend.name, bench.storage)
        return by_strips(request, call, run)
    layout = bench.layout()
    run = Run(SYSTEM, source, home, layout, bench.room(layout), name, team=request.team, pivots=pivots)
    if name is not None:
        layout = with_journal(layout, run.in_place, request.team.ranks.size)
    request.explain(
        "files", f"a file of {format_bytes(source.size)} in {format_bytes(layout.memory)} of memory: {_told(layout)}"
    )
    return by_strips(request, call, run)
