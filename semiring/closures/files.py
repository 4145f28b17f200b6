"""Close matrices in files, or larger than the memory of a GPU: as a whole if they fit, else by strips.

A strip is a group of rows in the memory of the kernels. Both ways use blocked Floyd-Warshall, and the result is bitwise
identical for every amount of memory. Entries are encoded when a strip is first read, and decoded when it is last
written.

A journal holds the maps and the state of the last validation, so that a run continues without its input.

Cost: n³ pairs, and by strips `semiring.out_of_core.strip_layout.bytes_moved`. Sources: `semiring.out_of_core.rounds`
and, of the journal, `semiring.out_of_core.journal`.
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
from semiring.algorithms.ordered_integers import has_min_and_max
from semiring.algorithms.schedule import BLOCKED, schedule_for
from semiring.algorithms.stars import check_star
from semiring.arrays.bits import WORD_BITS, BitMatrix
from semiring.arrays.device import free_device_memory, load_cupy
from semiring.arrays.entries import check_by_threads, check_entries
from semiring.arrays.memory import demand_memory
from semiring.arrays.operands import as_output, is_same_memory, memory_of, operands, result_converter
from semiring.arrays.scans import Scan, rule_for
from semiring.closures.problem import Facts, Problem, Strips, is_tropical
from semiring.closures.request import Request
from semiring.closures.strip_closures import close_by_strips, find_journal
from semiring.distributed.transports import Communicator
from semiring.errors import AlgebraError, DeviceError, DomainError, DTypeError, ShapeError, StorageError
from semiring.io.atomic import atomic_file
from semiring.io.files import is_npy_name
from semiring.io.network import Network
from semiring.io.npy import write_npy
from semiring.kernels import backend_for, can_pack
from semiring.kernels.engine import Engine, make_plan
from semiring.kernels.machines import closure_speed
from semiring.out_of_core import strip_layout as layouts
from semiring.out_of_core.buffer_pools import BufferPool, DeviceBufferPool, HostBufferPool
from semiring.out_of_core.disk import TRUTHS, File, Memory, PackedRows, RowStore, System, rows_of_truths
from semiring.out_of_core.journal import add_journal
from semiring.out_of_core.run import FileRun, HostArrayRun, complete_file, open_for_writing
from semiring.out_of_core.stored_matrix import StoredMatrix, as_stored, new_file
from semiring.out_of_core.strip_layout import MemoryLimits, StripLayout, format_bytes, limits_of

__all__ = ["SYSTEM", "close_file", "needs_files", "reject_file_options"]

_Close: TypeAlias = Callable[[Request], Any]

SYSTEM = System()
_WORKSPACE = 16 << 20  # bytes of a closure in memory in addition to its matrices, on two threads
_SCAN = 1 << 20  # bytes of a file that a scan reads at a time
_LARGE = 1 << 28  # bytes: a smaller matrix fits every GPU, so its free memory is not queried
_STAGE, _STAGES = 64 << 20, 4  # bytes of a part of the pinned memory between host and GPU, and the number of parts


def needs_files(request: Request) -> bool:
    """Return whether the matrix or the result is a file, or the matrix does not fit the memory that closes it."""
    has_file = request.journal is not None or request.memory is not None
    has_file = has_file or is_npy_name(request.operand) or is_npy_name(request.out)
    return has_file or _is_too_large(request.operand, request.out) or _is_too_large_for_gpu(request)


def close_file(request: Request, close: _Close) -> Any:
    """Return the closure of the matrix of a file, in memory or by strips.

    ``close(request)`` closes a matrix in memory. It is `close_request`, whose module imports this one.

    Raises `OSError`, `FormatError`, `ShapeError` and `DTypeError` for the files. Raises `StorageError` if the memory is
    too small, a file cannot be written, or the journal belongs to another run. Raises `AlgebraError` for a method or a
    semiring that strips do not support.
    """
    source = as_stored(request.operand)
    if source is not None and source.dtype == np.bool_ and not request.semiring.supports(np.bool_):
        return _close_truth_values(request, source, close)
    if source is not None:
        return _close_stored(request, source, _open_target(request.out, source), close)
    reject_file_options(request)
    if request.memory is not None or not is_npy_name(request.out):
        return _close_array(request, close)
    request.explain("files", "in memory", quiet=True)
    closed = close(request.with_operand(request.operand, out=None))
    return _save(os.fspath(request.out), closed.matrix if isinstance(closed, Network) else closed)


def _close_truth_values(request: Request, source: StoredMatrix, close: _Close) -> Any:
    """Close a file of truth values over weights, in memory: True is an edge of weight 1, and False is no edge."""
    if request.journal is not None or request.memory is not None:
        name, zero = request.semiring.name, request.semiring.zero
        raise StorageError(
            f"{source.path} holds truth values, which {name} closes in memory alone: leave {option('memory')} and "
            f"{option('journal')} out, or save the weights, numpy.where(A, 1.0, {zero})"
        )
    demand_memory(2 * 8 * source.n**2, f"the closure of {source.n:,} vertices", "save the weights, and close that file")
    request.explain("files", "truth values, read from a file", quiet=True)
    is_file = is_npy_name(request.out)
    closed = close(request.with_operand(source.view(), out=None if is_file else request.out))
    return _save(os.fspath(request.out), closed) if is_file else closed


def reject_file_options(request: Request) -> None:
    """Raise `StorageError` for a matrix in memory with an option that needs a file."""
    named = isinstance(request.operand, str | os.PathLike)
    where = "another kind of file" if named else "memory"
    if request.journal is not None or (request.memory is not None and request.device is None):
        if named and not os.path.exists(request.operand):
            raise FileNotFoundError(errno.ENOENT, "no such file", os.fspath(request.operand))
        raise StorageError(
            f"{option('memory')} and {option('journal')} are for a matrix in an .npy file, and A is in {where}. Leave "
            f"them out, or save A as .npy and give the name of the file. With {option('device', 'cuda')}, "
            f"{option('memory')} bounds the memory of the GPU"
        )


def _is_too_large(A: Any, out: Any) -> bool:
    """Return whether both matrices are memory maps of files larger than the free memory."""
    return isinstance(A, np.memmap) and isinstance(out, np.memmap) and A.ndim == 2 and A.nbytes > layouts.free_memory()


def _is_too_large_for_gpu(request: Request) -> bool:
    """Return whether an array of the host is to be closed on a GPU whose free memory is too small for it."""
    A, device = request.operand, request.device
    if device is None or not isinstance(A, np.ndarray) or A.ndim != 2 or A.nbytes < _LARGE:
        return False
    return A.nbytes + _WORKSPACE > free_device_memory()


def _memory_limits(request: Request) -> MemoryLimits:
    """Return the memory limits of a call."""
    return limits_of(request.memory, None if request.device is None else free_device_memory)


def _open_target(out: Any, source: StoredMatrix) -> StoredMatrix | None:
    """Return the file of ``out``: a mapped file, the file of A, or a new file; None if the result stays in memory."""
    if not is_npy_name(out) or (os.path.exists(out) and os.path.samefile(out, source.path)):
        return as_stored(out, "out")
    return new_file(os.fsdecode(out), source)


def _close_stored(request: Request, source: StoredMatrix, target: StoredMatrix | None, close: _Close) -> Any:
    check_star(request.semiring, source.dtype)
    if target is not None:
        _check_target(source, target)
    limits = _memory_limits(request)
    needed = _bytes_in_memory(request, source.n, source.dtype)
    needs_strips = request.journal is not None
    fits = not needs_strips and needed <= limits.computing and source.size + _WORKSPACE <= limits.host
    if fits or source.n == 0 or (target is None and request.memory is None and not needs_strips):
        request.note(f"a file of {format_bytes(source.size)}, closed in memory")
        return _close_in_memory(request, source, target, close)
    if target is not None and not needs_strips and _fits_packed(request, source, limits):
        return _close_in_memory(request, source, target, close, is_packed=True)
    if target is None:
        raise StorageError(
            f"the closure of a file of {format_bytes(source.size)} by strips, in {format_bytes(limits.computing)} of "
            "memory, goes to an .npy file: give its name, out='closed.npy'"
        )
    _check_method(request)
    if source.is_column_major and not request.semiring.commutative:
        raise AlgebraError(
            f"{source.path} is in Fortran order, and ⊗ of {request.semiring.name} does not commute: save it in C order"
        )
    return _close_file_by_strips(request, source, target, limits)


def _bytes_in_memory(request: Request, n: int, dtype: np.dtype[Any]) -> int:
    """Return the largest memory of a closure as a whole: potentials may need copies in float64 and in integers."""
    semiring = request.semiring
    copies = (dtype.itemsize if request.plus and not semiring.idempotent else 0) + 24 * is_tropical(semiring)
    copies += 4 if is_half(dtype) else 0  # a copy in float32
    return (dtype.itemsize + copies) * n * n + _workspace_bytes(request)


def _workspace_bytes(request: Request) -> int:
    """Return the bytes in addition to the matrices, with the copies that products on many threads make."""
    return _WORKSPACE + max(0, request.options.threads - 2) * layouts.HOST.bit_bytes_per_thread


def _check_method(request: Request) -> None:
    method, options = request.options.method, request.options.method_options
    if request.devices:
        raise DeviceError(
            "several GPUs close a matrix in memory, and this one does not fit, or has a journal: name one GPU, "
            f"{option('device', 'cuda')}, or leave {option('device')} out"
        )
    if method not in ("auto", BLOCKED):
        raise AlgebraError(f"{method} closes a matrix in memory, and this one does not fit: use {BLOCKED}")
    if options:
        raise StorageError("method_options are for a matrix in memory, and this one does not fit: leave them out")
    if request.reading.directed is False:
        raise StorageError(
            f"{option('directed', False)} is for a matrix in memory, and this one does not fit: add its transpose first"
        )


def _check_target(source: StoredMatrix, target: StoredMatrix) -> None:
    if not target.is_writable:
        raise StorageError(f"out, {target.path}, is read-only")
    if (target.n, target.dtype) != (source.n, source.dtype):
        kind = ShapeError if target.n != source.n else DTypeError
        raise kind(
            f"out, {target.path}, holds {target.n} × {target.n} {target.dtype}, and A {source.n} × {source.n} "
            f"{source.dtype}: give another name for out=, or a file of this shape and dtype"
        )
    if target.is_column_major != source.is_column_major:
        raise StorageError("A and out differ in order, C and Fortran: give another name for out=")
    if target.start != source.start and os.path.exists(target.path) and target.overlaps(source):
        raise StorageError("A and out= are parts of one file that overlap: give the same part, or another file")


# ------------------------------------------------------------------------------------------------------------ in memory


def _save(path: str, matrix: Any) -> Any:
    """Write a matrix to a new .npy file, and return its memory map."""
    with atomic_file(path) as stream:
        write_npy(stream, np.asarray(matrix))
    return np.load(path, mmap_mode="r")


def _close_in_memory(
    request: Request, source: StoredMatrix, target: StoredMatrix | None, close: _Close, *, is_packed: bool = False
) -> Any:
    """Close the matrix of a file in memory; ``is_packed``: whether its truth values are packed, 32 to a word."""
    A: Any = BitMatrix.zeros((source.n, source.n)) if is_packed else np.empty((source.n, source.n), source.dtype)
    with File(SYSTEM, source.path, os.O_RDONLY) as file:
        _row_store(file, source, is_packed).read(0, memory_of(A))
    if is_packed:
        request.explain("files", f"a file of {format_bytes(source.size)}, closed in memory, 32 truth values to a word")
        closed = close(request.with_operand(A, out=A, memory=None, journal=None))
    else:
        A = A.T if source.is_column_major else A
        own = request.options.method == "auto" and source.dtype != np.bool_  # truth values are exact by any method
        options = request.options._replace(method=BLOCKED) if own else request.options
        request.explain("files", "read from a file", quiet=True)
        out_buffer = A if source.dtype.kind != "i" else None  # integers may be read again, in a wider dtype
        out = request.out if target is None else None
        in_memory = {"memory": None, "journal": None}
        closed = close(request.with_operand(A, out_buffer=out_buffer, out=out, options=options, **in_memory))
    return closed if target is None else _write(target, request.communicator, closed)


def _write(target: StoredMatrix, communicator: Communicator, result: Any) -> Any:
    """Write the result to the file. Packed words are already in the file's order of entries."""

    def write() -> None:
        is_packed = isinstance(result, BitMatrix)
        with open_for_writing(SYSTEM, target) as file:
            rows = result.T if target.is_column_major and not is_packed else result
            _row_store(file, target, is_packed).write(0, np.ascontiguousarray(memory_of(rows)))
            complete_file(file, target)

    if communicator.is_first:
        communicator.begin(write)  # the other ranks wait until the file exists
    return target.result()


def _row_store(file: File, matrix: StoredMatrix, is_packed: bool) -> RowStore:
    rows = matrix.rows(file)
    return PackedRows(rows, matrix.n) if is_packed else rows


def _fits_packed(request: Request, source: StoredMatrix, limits: MemoryLimits) -> bool:
    """Return whether truth values fit the memory as packed bits, which take an eighth of the file."""
    method, n = request.options.method, source.n
    if source.dtype != np.bool_ or limits.device or (source.is_column_major and not request.semiring.commutative):
        return False
    if method != "auto" and "bits" not in method_named(method).storages:
        return False
    if not can_pack(request.semiring, on_device=False):
        return False
    matrices = 1 if request.semiring.idempotent or not request.plus else 2
    rows = max(n, TRUTHS) * 2  # bytes of rows before they are packed, and copies of panels of words
    return matrices * n * -(-n // WORD_BITS) * 4 + rows + 256 * n + _workspace_bytes(request) <= limits.host


# ------------------------------------------------------------------------------------------------------------ by strips


def _close_array(request: Request, close: _Close) -> Any:
    """Close an array of the host within a bound of GPU memory, as a whole or by strips."""
    options, semiring = request.options, request.semiring
    (A,) = operands(semiring, A=request.operand)
    if A.ndim != 2 or A.shape[0] != A.shape[1]:
        raise ShapeError(f"A is {A.shape}: a closure by strips needs one square matrix, shape (n, n)")
    check_star(semiring, A.dtype)
    limits = _memory_limits(request)
    if _bytes_in_memory(request, len(A), A.dtype) <= limits.device or not A.size:
        method = BLOCKED if options.method == "auto" and A.dtype != np.bool_ else options.method
        request.explain("files", "in the memory of the GPU", quiet=True)
        closed = close(request.with_operand(A, memory=None, options=options._replace(method=method)))
        return result_converter(request.operand)(closed)
    _check_method(request)
    if is_npy_name(request.out):
        raise StorageError(
            "out= is a file, and A is an array larger than the memory of the GPU: save A, and give the name of its file"
        )
    target = np.empty(A.shape, A.dtype) if request.out is None else as_output(request.out, A.shape, A.dtype)
    if np.may_share_memory(target, A) and not is_same_memory(target, A):
        raise StorageError("A and out= overlap: give A itself, or another array")
    setup = _StripSetup(request, len(A), A.dtype, limits)
    layout = setup.layout()
    run = HostArrayRun(A, target, layout, setup.buffer_pool(layout, options.threads))
    request.explain(
        "files",
        f"an array of {format_bytes(A.nbytes)} in {format_bytes(layout.memory)} of the GPU's memory: "
        f"{_describe_layout(layout)}",
    )
    problem = setup.problem(request, A, partial(check_by_threads, threads=options.threads))
    close_by_strips(request, problem, run)
    return target


def _describe_layout(layout: StripLayout) -> str:
    count = len(layout.rounds)
    traffic = format_bytes(layout.traffic)
    return f"strips of {layout.rows} rows, {traffic} read and written in {count} round{'s' * (count != 1)}"


def _scan_file(source: StoredMatrix, view: Any, semiring: Semiring) -> Scan:
    """Return `check_entries` of a file, in a fifth of the time that reading its memory map takes."""
    scan, rows = Scan(nonnegative=True), max(1, _SCAN // source.row_bytes)
    if rule_for(semiring, source.dtype).needs_no_scan:
        return scan
    memory = Memory(min(rows, source.n), source.n, source.dtype)
    try:
        with File(SYSTEM, source.path, os.O_RDONLY) as file:
            place = source.rows(file)
            for first in range(0, source.n, rows):
                part = memory.rows_at(place.page_offset(first), min(rows, source.n - first))
                place.read(first, part)
                scan |= check_entries(part, semiring)
    except DomainError:
        check_entries(view.T if source.is_column_major else view, semiring)  # raises, and names the entry
        raise
    return scan


class _StripSetup:
    """The backend, storage and memory for a closure by strips of an n × n matrix, and the layout of its strips."""

    def __init__(self, request: Request, n: int, dtype: np.dtype[Any], limits: MemoryLimits) -> None:
        self._n, self._dtype, self._memory_limits, self._ranks = n, dtype, limits, request.communicator.ranks.size
        self._needs_cycles = request.plus and request.semiring.idempotent
        semiring = min_plus if is_tropical(request.semiring) else request.semiring
        xp = load_cupy() if limits.device else np
        packed = dtype == np.bool_ and can_pack(request.semiring, xp is not np)
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
        copied = not packed and (dtype.itemsize not in (4, 8) or has_min_and_max(semiring))
        self._copied_itemsize = 8 if limits.device and copied else 0
        self._width, self._entry = width, entry
        self.threads = self._choose_threads(request.options.threads)

    def _choose_threads(self, thread_limit: int) -> int:
        """Return a number of threads, so that the copies of all but two take at most a quarter of the spare memory."""
        few, copies = min(2, thread_limit), self._costs.thread_bytes(self.storage)
        spare = self._memory_limits.computing - self._layout_within(0, few)  # type: ignore[operator]  # 0 bytes: the need
        return min(thread_limit, few + max(0, spare) // 4 // copies) if copies else thread_limit

    def _layout_within(self, memory: int, threads: int) -> StripLayout | int:
        """Return the layout of strips in ``memory`` bytes, or the bytes that it needs if these are too few."""
        costs = replace(self._costs, overhead=self._costs.overhead + threads * self._costs.thread_bytes(self.storage))
        form = self._blocks, self._copy_bytes, memory, costs, self.storage == "bits", self._ranks
        return layouts.layout_for(self._n, self._dtype.itemsize, *form)

    def layout(self) -> StripLayout:
        """Return the layout of the strips. Raises `StorageError` if the memory is too small."""
        n, memory = self._n, self._memory_limits.computing
        layout = self._layout_within(memory, self.threads)
        if isinstance(layout, int):
            raise StorageError(
                f"{format_bytes(memory)} of memory are too small for {self._widest} rows of {n} {self._dtype}, which "
                f"are one block of pivots, and some more to work on: it takes {format_bytes(layout)}"
            )
        layout = layout.with_last_round(self._needs_cycles)
        if not self._memory_limits.device:
            return layout
        overhead = layouts.HOST.overhead + 2 * layouts.HOST.bytes_per_thread  # the host scans rows and moves them
        piece = min(_STAGE, (self._memory_limits.host - overhead) // _STAGES) // layout.row_bytes
        if piece < 1:
            raise StorageError(
                f"{format_bytes(self._memory_limits.host)} of the host's memory are too small for {_STAGES} rows of "
                f"{n} {self._dtype}, which go to the GPU and back: it takes "
                f"{format_bytes(_STAGES * layout.row_bytes + overhead)}"
            )
        return replace(layout, piece=piece)

    def problem(
        self, request: Request, A: Any, scan: Callable[[Any, Semiring], Scan], *, is_transposed: bool = False
    ) -> Problem:
        """Return the problem of a closure by strips; ``scan`` computes the result of `check_entries`."""
        options = request.options._replace(method=BLOCKED, threads=self.threads)
        facts = Facts(
            A,
            options,
            strips=Strips(scan, self.sample, self.storage),
            is_transposed=is_transposed,
            rounded_to=request.rounded_to,
        )
        return Problem(facts, plus=request.plus, progress=request.progress, explanation=request.explanation)

    def buffer_pool(self, layout: StripLayout, copiers: int = 1) -> BufferPool:
        """Return the pool of buffers for a layout, with a number of threads that transfer rows to and from a GPU."""
        if self._memory_limits.device:
            return DeviceBufferPool(self._width, self._entry, self._memory_limits.device, layout.piece, copiers)
        return HostBufferPool(self._width, self._entry)

    def _copy_bytes(self, rows: int) -> int:
        """Return the bytes of the copies that products with strips of ``rows`` rows make."""
        copies = max(workspace(self._engine, self._n, rows + 1, self._widest)) * self._entry.itemsize
        if self.storage == "bits" and not self._memory_limits.device:
            copies += 4 * rows_of_truths(self._n) * self._n  # two stages, and rows that are packed or unpacked
        return copies + self._copied_itemsize * self._n * (rows + 1 + self._widest)


def _close_file_by_strips(request: Request, source: StoredMatrix, target: StoredMatrix, limits: MemoryLimits) -> Any:
    setup = _StripSetup(request, source.n, source.dtype, limits)
    problem = setup.problem(request, source.view(), partial(_scan_file, source), is_transposed=source.is_column_major)
    name, backend = None if request.journal is None else os.fsdecode(request.journal), setup.backend
    if name is not None and os.path.realpath(name) in (source.real_path, target.real_path):
        raise StorageError(f"{name} is the file of the matrix: give another name for the journal")
    journal = None if name is None else find_journal(SYSTEM, name, request, source, target, backend.name)
    if journal is not None:
        pool, communicator = setup.buffer_pool(journal.layout), request.communicator
        run = FileRun(SYSTEM, source, target, journal.layout, pool, name, journal, communicator)
        if request.memory is not None and journal.layout.memory > limits.computing and not journal.state.is_finished:
            journal.close()
            raise StorageError(
                f"{name}: the run was begun in {format_bytes(journal.layout.memory)} of memory and goes on in as much, "
                f"which is more than {format_bytes(limits.computing)}"
            )
        position = f"in round {journal.state.round + 1} of {len(journal.layout.rounds)}"
        why = (
            "the journal of a run that has finished"
            if journal.state.is_finished
            else f"going on {position}, as the journal says"
        )
        request.explain("files", why)
        if request.explanation is not None:
            request.explanation.set_matrix(problem.facts.shape, problem.facts.dtype)
            request.explanation.set_method(BLOCKED, backend.name, setup.storage)
        close_by_strips(request, problem, run)
        return target.result()
    layout = setup.layout()
    communicator = request.communicator
    run = FileRun(SYSTEM, source, target, layout, setup.buffer_pool(layout), name, communicator=communicator)
    if name is not None:
        layout = add_journal(layout, run.is_in_place, request.communicator.ranks.size)
    size, memory = format_bytes(source.size), format_bytes(layout.memory)
    request.explain("files", f"a file of {size} in {memory} of memory: {_describe_layout(layout)}")
    close_by_strips(request, problem, run)
    return target.result()
