"""A matrix in a file: closed in memory where that has room for it, else by strips of rows.

Both by blocked Floyd-Warshall, whose bits do not depend on the memory. By strips the maps of the steps that follow are
done when a strip is read first, and undone when it is written last; a step that does more than to map is refused.

A journal has all that a run needs to go on without its input: the maps, and what is looked for at the end.

Cost: n³ pairs, and by strips `semiring.strips.layout.bytes_moved`. Source: `semiring.strips.rounds`, and of the journal
`semiring.strips.journal`.
"""

from __future__ import annotations

import os
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from semiring.algebra import Semiring
from semiring.algebra.catalogue import min_plus
from semiring.algorithms.blocked_floyd_warshall import workspace
from semiring.algorithms.methods import method_named
from semiring.algorithms.schedule import schedule_for
from semiring.arrays.bits import WORD_BITS, BitMatrix, pack
from semiring.arrays.entries import check_entries
from semiring.arrays.parts import pieces
from semiring.arrays.scans import Scan
from semiring.chain.by_strips import by_strips, found_journal
from semiring.chain.matrix import Matrix
from semiring.chain.problem import No, Problem, Reduction, is_tropical
from semiring.chain.steps.arrays import check_star
from semiring.errors import AlgebraError, DeviceError, DomainError, DTypeError, ShapeError, StorageError
from semiring.io.atomic import atomic_file
from semiring.io.npy import write_npy
from semiring.kernels import backend_for
from semiring.kernels.engine import Engine, make_plan
from semiring.kernels.machines import closure_speed
from semiring.strips.disk import File, Memory, Rows, System
from semiring.strips.journal import journaled
from semiring.strips.layout import bytes_of, free_memory, layout_for, shown
from semiring.strips.run import Run, complete, written
from semiring.strips.stored import Stored, is_name, new_file, stored

if TYPE_CHECKING:
    from semiring.chain.planner import Node

__all__ = ["SYSTEM", "files"]

SYSTEM = System()
_METHOD = "blocked_floyd_warshall"
_BESIDE = 16 << 20  # bytes of a closure in memory beside its matrices
_LOOK = 1 << 20  # bytes that are read at a time to look at them
_PIECE = 1 << 22  # truth values that are packed or unpacked at a time


def files(p: Problem) -> No | Reduction:
    """The matrix of a file, in memory or as strips.

    Raises `OSError`, `FormatError`, `ShapeError`, `DTypeError`; `StorageError` for a memory that is too small, files
    that cannot be written, and a journal of another run; `AlgebraError` for a method or a semiring that strips do not
    take.
    """
    request, out = p.request, p.request.out
    if p.taken:
        return No("a matrix already")
    asked = request.memory is not None or request.journal is not None or is_name(p.given) or is_name(out)
    if not (asked or _is_too_large(p.given, out)):
        return No("in memory")
    source = stored(p.given)
    if source is None:
        if request.memory is not None or request.journal is not None:
            raise StorageError(
                "memory= and journal= are for a matrix in a file, and A is in memory as a whole: leave them out, or "
                "save A and give the name of the file"
            )
        q = replace(p, request=replace(request, out=None))
        return Reduction("in memory", None, [q], partial(_save, os.fspath(out)), quiet=True)
    home = _home(out, source)
    if request.device is not None:
        raise DeviceError(
            "a matrix in a file is closed on the host: leave device out, or read the file and pass the array"
        )
    return _of_file(p, source, home)


def _is_too_large(A: Any, out: Any) -> bool:
    """Whether both are maps of files, of more than the memory that is free."""
    return isinstance(A, np.memmap) and isinstance(out, np.memmap) and A.ndim == 2 and A.nbytes > free_memory()


def _home(out: Any, source: Stored) -> Stored | None:
    """The file of ``out``, if it is one: what is mapped, the file of A itself, or a new one."""
    if not is_name(out) or (os.path.exists(out) and os.path.samefile(out, source.path)):
        return stored(out, "out")
    return new_file(os.fsdecode(out), source)


def _of_file(p: Problem, source: Stored, home: Stored | None) -> Reduction:
    request = p.request
    p.semiring.check_dtype(source.dtype)
    check_star(p.semiring, source.dtype)
    if home is not None:
        _check_home(source, home)
    memory = free_memory() if request.memory is None else bytes_of(request.memory)
    tropical = is_tropical(p.semiring)
    copies = (source.dtype.itemsize if p.plus and not p.semiring.idempotent else 0) + (24 if tropical else 0)
    fits = request.journal is None and source.size + copies * source.n**2 + _BESIDE <= memory
    if fits or source.n == 0 or (home is None and request.memory is None and request.journal is None):
        request.explanation.note(f"a file of {shown(source.size)}, closed in memory")
        return _in_memory(p, source, home)
    if home is not None and request.journal is None and _fits_packed(p, source, memory):
        return _packed_in_memory(p, source, home)
    if home is None:
        raise StorageError(
            f"the closure of a file of {shown(source.size)} by strips, in {shown(memory)} of memory, goes to a file: "
            "give its name, out='closed.npy'"
        )
    if request.method not in ("auto", _METHOD):
        raise AlgebraError(f"{request.method} closes a matrix in memory, and this one does not fit: use {_METHOD}")
    if source.turned and not p.semiring.commutative:
        raise AlgebraError(
            f"{source.path} holds column after column, and ⊗ of {p.semiring.name} does not commute: save it in C order"
        )
    return _by_strips(p, source, home, memory)


def _check_home(source: Stored, home: Stored) -> None:
    if not home.writable:
        raise StorageError(f"out, {home.path}, is read-only")
    if (home.n, home.dtype) != (source.n, source.dtype):
        kind = ShapeError if home.n != source.n else DTypeError
        raise kind(
            f"out, {home.path}, holds {home.n} × {home.n} {home.dtype}, and A {source.n} × {source.n} {source.dtype}: "
            "give another name, or an equal file"
        )
    if home.turned != source.turned:
        raise StorageError(
            "one of A and out holds row after row, the other column after column: give another name for out"
        )
    if home.start != source.start and os.path.exists(home.path) and home.overlaps(source):
        raise StorageError("A and out are parts of one file that overlap: give the same part, or another file")


# ------------------------------------------------------------------------------------------------------------ in memory


def _save(path: str, node: Node, D: Any) -> Any:
    """The result, in a file of its own."""
    found = np.asarray(node.children[0].run())
    with atomic_file(path) as stream:
        write_npy(stream, found)
    return np.load(path, mmap_mode="r")


def _in_memory(p: Problem, source: Stored, home: Stored | None) -> Reduction:
    A = np.empty((source.n, source.n), source.dtype)
    file = File(SYSTEM, source.path, os.O_RDONLY)
    try:
        file.read(source.start, A)
    finally:
        file.close()
    A = A.T if source.turned else A
    own = p.request.method == "auto" and source.dtype != np.bool_  # truth values are exact by any method
    ours = A if home is not None or source.dtype.kind != "i" else None
    request = replace(p.request, out=None, method=_METHOD if own else p.request.method, memory=None)
    q = replace(p, given=A, home=ours, request=request)
    return Reduction("read from a file", None, [q], partial(_closed_in_memory, home), quiet=True)


def _closed_in_memory(home: Stored | None, node: Node, D: Any) -> Any:
    found = node.children[0].run()
    if home is None:
        return found
    with written(SYSTEM, home) as file:
        place = Rows(file, home.start, home.row)
        rows = found.T if home.turned else found
        for part in pieces(rows, 1 << 22):
            place.write(part.start, np.ascontiguousarray(rows[part]))
        complete(file, home)
    return home.result()


def _fits_packed(p: Problem, source: Stored, memory: int) -> bool:
    """Whether truth values are closed in memory 32 to a word: an eighth of the file."""
    method, n = p.request.method, source.n
    if source.dtype != np.bool_ or (source.turned and not p.semiring.commutative):
        return False
    if method != "auto" and "bits" not in method_named(method).storages:
        return False
    try:
        backend_for(np.empty(0, np.uint32), p.semiring, source.dtype, "bits")
    except DTypeError:
        return False
    matrices = 1 if p.semiring.idempotent or not p.plus else 2
    rows = max(n, _PIECE) * 2  # that are packed, and copies of panels of words
    return matrices * n * -(-n // WORD_BITS) * 4 + rows + 256 * n + _BESIDE <= memory


def _packed_in_memory(p: Problem, source: Stored, home: Stored) -> Reduction:
    A = BitMatrix.zeros((source.n, source.n))
    file = File(SYSTEM, source.path, os.O_RDONLY)
    try:
        for rows in pieces(A, _PIECE // WORD_BITS):
            truths = np.empty((rows.stop - rows.start, source.n), np.bool_)
            file.read(source.start + rows.start * source.row, truths)
            A.words[rows] = pack(truths).words
    finally:
        file.close()
    q = replace(p, given=A, request=replace(p.request, out=A, memory=None))
    why = f"a file of {shown(source.size)}, closed in memory, 32 truth values to a word"
    return Reduction(why, None, [q], partial(_unpacked, home))


def _unpacked(home: Stored, node: Node, D: Any) -> Any:
    found = node.children[0].run()
    with written(SYSTEM, home) as file:
        for rows in pieces(found, _PIECE // WORD_BITS):
            file.write(home.start + rows.start * home.row, found[rows].unpack())
        complete(file, home)
    return home.result()


# ------------------------------------------------------------------------------------------------------------ by strips


def _looked_at(source: Stored, view: Any, semiring: Semiring) -> Scan:
    """`check_entries`, some rows at a time: to read them takes a fifth of the time of touching them in a map."""
    found, rows = Scan(nonnegative=True), max(1, _LOOK // source.row)
    file, memory = File(SYSTEM, source.path, os.O_RDONLY), Memory(min(rows, source.n), source.n, source.dtype)
    place = Rows(file, source.start, source.row)
    try:
        for first in range(0, source.n, rows):
            part = memory.at(place.phase(first), min(rows, source.n - first))
            place.read(first, part)
            found |= check_entries(part, semiring)
    except DomainError:
        check_entries(view, semiring)  # says where
        raise
    finally:
        file.close()
    return found


def _by_strips(p: Problem, source: Stored, home: Stored, memory: int) -> Reduction:
    request, zero = p.request, p.semiring.zero_for(source.dtype)
    matrix = Matrix(source.view(), zero, source.dtype, zero, turned=source.turned)
    request = replace(request, method=_METHOD)
    q = p.but(matrix=matrix, strips=partial(_looked_at, source), in_place=True, request=request)
    name = None if request.journal is None else os.fsdecode(request.journal)
    semiring = min_plus if is_tropical(p.semiring) else p.semiring
    backend = backend_for(matrix.array, semiring, source.dtype)
    blocks = schedule_for(backend.name, source.dtype).blocks(source.n)
    widest = max(stop - start for start, stop in blocks)
    engine = Engine(backend, make_plan(semiring, source.dtype), closure_speed(backend.name, source.dtype).panel)

    def copies(rows: int) -> int:
        return max(workspace(engine, source.n, rows + 1, widest)) * source.dtype.itemsize

    if name is not None and os.path.realpath(name) in (source.resolved, home.resolved):
        raise StorageError(f"{name} is the matrix itself, and the journal is a file of its own: give another name")
    if name is not None and (journal := found_journal(SYSTEM, name, q, source, home, backend.name)) is not None:
        run = Run(SYSTEM, source, home, journal.layout, name, journal)
        if request.memory is not None and journal.layout.memory > memory and not journal.state.finished:
            journal.close()
            raise StorageError(
                f"{name}: the run was begun in {shown(journal.layout.memory)} of memory and goes on in as much, which "
                f"is more than {shown(memory)}"
            )
        request.explanation.about(matrix)
        request.explanation.method, request.explanation.backend = _METHOD, backend.name
        now = f"in round {journal.state.round + 1} of {len(journal.layout.rounds)}"
        why = (
            "the journal of a run that has finished"
            if journal.state.finished
            else f"going on {now}, as the journal says"
        )
        return Reduction(why, None, (), partial(by_strips, q, run))
    layout = layout_for(source.n, source.dtype.itemsize, blocks, copies, memory)
    if isinstance(layout, int):
        raise StorageError(
            f"{shown(memory)} of memory are too small for {widest} rows of {source.n} {source.dtype}, which are one "
            f"block of pivots, and some more to work on: it takes {shown(layout)}"
        )
    run = Run(SYSTEM, source, home, layout, name)
    if name is not None:
        run.layout = layout = journaled(layout, run.in_place)
    why = (
        f"a file of {shown(source.size)} in {shown(layout.memory)} of memory: strips of {layout.rows} rows in "
        f"{len(layout.rounds)} rounds, which read and write {shown(layout.moved)}"
    )
    return Reduction(why, None, [q], partial(by_strips, q, run))
