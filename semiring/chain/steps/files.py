"""A matrix in a file: closed in memory where that has room for it, else by strips of rows.

Both by blocked Floyd-Warshall, whose bits do not depend on the memory. By strips the maps of the steps that follow are
done when a strip is read first, and undone when it is written last; a step that does more than to map is refused.

Cost: n³ pairs, and by strips `semiring.strips.layout.bytes_moved`. Source: `semiring.strips.rounds`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from semiring.algebra.catalogue import min_plus
from semiring.algorithms.blocked_floyd_warshall import workspace
from semiring.algorithms.schedule import schedule_for
from semiring.arrays.parts import pieces
from semiring.chain.leaf import divergence_error
from semiring.chain.matrix import Matrix, Way
from semiring.chain.problem import No, Problem, Reduction, is_tropical
from semiring.chain.steps.arrays import check_star
from semiring.errors import AlgebraError, DeviceError, DTypeError, ShapeError
from semiring.io.atomic import atomic_file
from semiring.io.npy import write_npy
from semiring.kernels import backend_for
from semiring.kernels.engine import Engine, make_plan
from semiring.kernels.machines import closure_speed
from semiring.strips.disk import File, Rows, System
from semiring.strips.layout import Layout, bytes_of, free_memory, layout_for, shown
from semiring.strips.rounds import close_strips
from semiring.strips.stored import Stored, header, is_name, let_go, new_file, stored

if TYPE_CHECKING:
    from semiring.chain.planner import Node

__all__ = ["SYSTEM", "files"]

SYSTEM = System()
_METHOD = "blocked_floyd_warshall"
_BESIDE = 16 << 20  # bytes of a closure in memory beside its matrices


def files(p: Problem) -> No | Reduction:
    """The matrix of a file, in memory or as strips.

    Raises `OSError`, `FormatError`, `ShapeError`, `DTypeError`; `ValueError` for a memory that is too small and for
    files that cannot be written; `AlgebraError` for a method or a semiring that strips do not take.
    """
    request, out = p.request, p.request.out
    if p.taken:
        return No("a matrix already")
    source, home = stored(p.given), _home(out)
    if source is None:
        if request.memory is not None:
            raise ValueError(
                "memory= says how much of a matrix in a file may be in memory at a time, and A is there as a whole: "
                "leave it out, or save A and give the name of the file"
            )
        if not is_name(out):
            return No("in memory")
        q = replace(p, request=replace(request, out=None))
        return Reduction("in memory", None, [q], partial(_save, os.fspath(out)), quiet=True)
    asked = request.memory is not None or is_name(p.given) or is_name(out)
    if not asked and (home is None or source.size <= free_memory()):
        return No("mapped to memory")
    if request.device is not None:
        raise DeviceError(
            "a matrix in a file is closed on the host: leave device out, or read the file and pass the array"
        )
    return _of_file(p, source, home)


def _home(out: Any) -> Stored | None:
    """The file of ``out``, if it is one that exists."""
    return None if is_name(out) and not os.path.exists(out) else stored(out, "out")


def _of_file(p: Problem, source: Stored, home: Stored | None) -> Reduction:
    request, out = p.request, p.request.out
    p.semiring.check_dtype(source.dtype)
    check_star(p.semiring, source.dtype)
    if is_name(out) and (home is None or not home.same_file(source)):
        home = new_file(os.fspath(out), source)
    if home is not None:
        _check_home(source, home)
    memory = free_memory() if request.memory is None else bytes_of(request.memory)
    tropical = is_tropical(p.semiring)
    copies = (source.dtype.itemsize if p.plus and not p.semiring.idempotent else 0) + (24 if tropical else 0)
    fits = source.n == 0 or source.size + copies * source.n**2 + _BESIDE <= memory
    if fits or (home is None and request.memory is None):
        request.explanation.note(f"a file of {shown(source.size)}, closed in memory")
        return _in_memory(p, source, home)
    if home is None:
        raise ValueError(
            f"the closure of a file of {shown(source.size)} does not fit {shown(memory)} of memory: give the name of a "
            "file to write it to, out='closed.npy'"
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
        raise ValueError(f"out, {home.path}, is read-only")
    if (home.n, home.dtype) != (source.n, source.dtype):
        kind = ShapeError if home.n != source.n else DTypeError
        raise kind(
            f"out, {home.path}, holds {home.n} × {home.n} {home.dtype}, and A {source.n} × {source.n} {source.dtype}: "
            "give another name, or an equal file"
        )
    if home.turned != source.turned:
        raise ValueError(
            "one of A and out holds row after row, the other column after column: give another name for out"
        )
    if home.start != source.start and os.path.exists(home.path) and home.overlaps(source):
        raise ValueError("A and out are parts of one file that overlap: give the same part, or another file")


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
    with _written(home) as file:
        place = Rows(file, home.start, home.row)
        rows = found.T if home.turned else found
        for part in pieces(rows, 1 << 22):
            place.write(part.start, np.ascontiguousarray(rows[part]))
    return _result(home)


def _result(home: Stored) -> Any:
    """What the caller gave, or the file behind the name that he gave, which is only read."""
    return home.given if isinstance(home.given, np.ndarray) else np.load(home.path, mmap_mode="r")


@contextmanager
def _written(home: Stored) -> Iterator[File]:
    """A file that is written. A new one gets its header last; if all fails it is removed."""
    new = home.given is None
    file = File(SYSTEM, home.path, os.O_RDWR | (os.O_CREAT | os.O_TRUNC if new else 0))
    try:
        if new:
            file.allocate(home.start + home.size)
        yield file
        file.sync()
        if new:
            file.write(home.start - len(header(home)), np.frombuffer(header(home), np.uint8))
            file.sync()
    except BaseException:
        if new:
            SYSTEM.remove(home.path)
        raise
    finally:
        file.close()


# ------------------------------------------------------------------------------------------------------------ by strips


def _close_strips(source: Stored, home: Stored, layout: Layout, node: Node, D: Any) -> Any:
    (child,) = node.children
    outer, last, looks = child.outer, child, []
    while last.leaf is None:
        assert last.reduction is not None
        if last.reduction.by_strips is None:
            raise AlgebraError(
                f"{last.reduction.why}: that takes more than some rows at a time, and this matrix is closed by "
                f"strips of a file; read it and close it in memory, which takes {shown(source.size)} at least"
            )
        looks.append(last.reduction.by_strips)
        (last,) = last.children
    inner = last.inner
    if inner.dtype != source.dtype:
        raise AlgebraError(f"strips of {source.dtype} have no room for {inner.dtype}: read the file")
    engine, way = last.leaf.engine(), Way(outer.matrix, inner.matrix)
    let_go(outer.matrix.array)

    def read(first: int, strip: Any) -> None:
        if not inner.matrix.as_it_is or inner.matrix.maps:
            way.there(strip, strip, first)

    def written(first: int, strip: Any) -> None:
        for look in looks[::-1]:
            look(strip)
        way.back(strip, strip, first)

    file = File(SYSTEM, source.path, os.O_RDONLY)
    try:
        with _written(home) as target:
            places = [Rows(target, home.start, home.row)] * len(layout.rounds)
            first = Rows(file, source.start, source.row)
            close_strips(engine, layout, [first, *places], encode=read, decode=written, progress=outer.progress)
            vertex = engine.plan.status.diverged
            if vertex >= 0:
                raise divergence_error(outer.request.semiring, vertex)
    finally:
        file.close()
    return _result(home)


def _by_strips(p: Problem, source: Stored, home: Stored, memory: int) -> Reduction:
    semiring = min_plus if is_tropical(p.semiring) else p.semiring
    view = source.view()
    backend = backend_for(view, semiring, source.dtype)
    blocks = schedule_for(backend.name, source.dtype).blocks(source.n)
    widest = max(stop - start for start, stop in blocks)
    engine = Engine(backend, make_plan(semiring, source.dtype), closure_speed(backend.name, source.dtype).panel)

    def copies(rows: int) -> int:
        return max(workspace(engine, source.n, rows + 1, widest)) * source.dtype.itemsize

    layout = layout_for(source.n, source.dtype.itemsize, blocks, copies, memory)
    if isinstance(layout, int):
        raise ValueError(
            f"{shown(memory)} of memory are too small for {widest} rows of {source.n} {source.dtype}, which are one "
            f"block of pivots, and some more to work on: it takes {shown(layout)}"
        )
    zero = p.semiring.zero_for(source.dtype)
    q = p.but(
        matrix=Matrix(view, zero, source.dtype, zero, turned=source.turned),
        strips=True,
        in_place=True,
        request=replace(p.request, method=_METHOD),
    )
    why = (
        f"a file of {shown(source.size)} in {shown(layout.memory)} of memory: strips of {layout.rows} rows in "
        f"{len(layout.rounds)} rounds, which read and write {shown(layout.moved)}"
    )
    return Reduction(why, None, [q], partial(_close_strips, source, home, layout))
