"""Close a matrix by strips of rows: a strip is encoded when first read, and decoded when last written.

A journal stores the maps of the encodings and the state of their validation, so that a run continues without its input.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, TypeAlias

from semiring.algebra.catalogue import min_plus
from semiring.algorithms.stars import divergence_error
from semiring.arrays.encoding import inner_zero
from semiring.closures.entry_maps import (
    NEGATION,
    POSITIVE_ZEROS,
    FactorScaling,
    PotentialShift,
    VertexMap,
)
from semiring.closures.matrix import EntryMap
from semiring.closures.pieces import PieceWork, plan_pieces
from semiring.closures.problem import Problem, is_tropical
from semiring.closures.request import Request
from semiring.errors import StorageError
from semiring.kernels.definition import define
from semiring.kernels.engine import make_plan
from semiring.namespaces import Array
from semiring.out_of_core.disk import System
from semiring.out_of_core.journal import Journal, open_journal
from semiring.out_of_core.last_round import LastRound
from semiring.out_of_core.rounds import NoStarError
from semiring.out_of_core.run import FileRun, HostArrayRun
from semiring.out_of_core.stored_matrix import StoredMatrix, release_pages

__all__ = ["close_by_strips", "find_journal"]

AnyRun: TypeAlias = FileRun | HostArrayRun


def _close(
    work: PieceWork, run: AnyRun, description: Mapping[str, Any] | None, vectors: Mapping[str, Array] | None
) -> None:
    p = work.problem
    try:
        with run.pool:
            pieces, engine = work.pieces_on(p.facts.memory), work.engine()
            run.close(engine, pieces.encode, pieces.decode, p.progress, description, vectors, work.last_round)
    except NoStarError as error:
        raise divergence_error(p.options.semiring, error.vertex) from None


def close_by_strips(request: Request, p: Problem, run: AnyRun) -> None:
    """Close the matrix of a problem by strips, from the state in the journal if the run has one.

    The run writes the closure to its target.
    """
    try:
        if run.journal is not None and run.journal.state.is_finished:
            run.check_finished()
            return
        about, vectors = None, None
        if run.journal is not None:
            work = _read_plan(p, run.journal)
        else:
            work = plan_pieces(p, last_round=True)
            run.layout = run.layout.with_last_round(work.last_round is not None)
            if run.journal_name is not None:
                about, vectors = _describe_run(request, work, run.source, run.target)
        release_pages(p.facts.operand)
        _close(work, run, about, vectors)
    finally:
        if run.journal is not None:
            run.journal.close()


# -------------------------------------------------------------------------------------------------------- in a journal


def _identity(request: Request, source: StoredMatrix, target: StoredMatrix, backend: str) -> dict[str, Any]:
    """Return the properties that must be the same for a run to continue, by their names in an error."""
    plan = make_plan(request.semiring, source.dtype)
    return {
        "version of semiring": sys.modules["semiring"].__version__,  # loaded, because this module is a part of it
        "semiring": define(plan, closing=True).key,
        "backend": backend,
        "result": "A⁺" if request.plus else "A*",
        "number of vertices": source.n,
        "dtype": source.dtype.str,
        "order of the entries": "column after column" if source.is_column_major else "row after row",
        "file of A": source.real_path,
        "file of out": target.real_path,
        "place of A in its file": source.start,
        "place of out in its file": target.start,
    }


def _describe_run(
    request: Request, work: PieceWork, source: StoredMatrix, target: StoredMatrix
) -> tuple[dict[str, Any], dict[str, Array]]:
    """Return the description of a run for its journal, and the vectors that belong to it."""
    m, vectors, maps = work.matrix, {}, []
    for map_ in m.maps:
        maps.append(map_.name)
        if isinstance(map_, VertexMap):
            vectors["potentials"] = map_.tails
    if work.last_round is not None:
        vectors["loops"] = work.last_round.loops
    return {
        "name of the semiring": request.semiring.name,
        "identity": _identity(request, source, target, work.kernels().backend.name),
        "maps": maps,
        "sentinel": m.sentinel,
        "signs": work.problem.signs,
        "largest": work.problem.largest,
    }, vectors


def _read_plan(p: Problem, journal: Journal) -> PieceWork:
    """Return the problem as it was encoded when the run began, from the journal of the run."""
    about, semiring, dtype = journal.about, min_plus if is_tropical(p.semiring) else p.semiring, p.facts.dtype
    h = journal.vectors.get("potentials")
    by_name: dict[str, EntryMap] = {map_.name: map_ for map_ in (NEGATION, POSITIVE_ZEROS)}
    if h is not None:
        by_name |= {map_.name: map_ for map_ in (PotentialShift(h), FactorScaling(h, p.semiring))}
    maps = tuple(by_name[name] for name in about["maps"])
    inner = dtype.type(inner_zero(semiring, dtype))
    matrix = replace(p.unencoded, maps=maps, inner=inner, sentinel=about["sentinel"])  # its maps hold vectors
    loops = journal.vectors.get("loops")
    q = p.replace(semiring=semiring, matrix=matrix, signs=about["signs"], largest=about["largest"])
    return PieceWork(q, matrix, None if loops is None else LastRound(loops))


def find_journal(
    system: System, name: str, request: Request, source: StoredMatrix, target: StoredMatrix, backend: str
) -> Journal | None:
    """Return the journal of that name, or None if there is none.

    ``backend``: the name of the backend that would continue the run. Raises `OSError`, and `StorageError` with the
    differences if the journal belongs to another run.
    """
    journal = open_journal(system, name, request.communicator)
    if journal is None:
        return None
    current, previous = _identity(request, source, target, backend), journal.about["identity"]
    differ = {what: (previous.get(what), value) for what, value in current.items() if previous.get(what) != value}
    if differ:
        if "semiring" in differ:
            differ["semiring"] = journal.about.get("name of the semiring"), request.semiring.name
        differences = "; ".join(f"the {what} was {before}, and is {value}" for what, (before, value) in differ.items())
        journal.close()
        raise StorageError(f"{name} is the journal of another run: {differences}. Give another name, or remove it")
    return journal
