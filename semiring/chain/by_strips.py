"""A problem closed by strips of rows: what the steps left of it, done when a strip is read first and written last.

What they left are maps, and what closed rows are asked; a journal holds both, so that a run goes on without its input.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, TypeAlias

from semiring.algebra.catalogue import min_plus
from semiring.algorithms.stars import divergence_error
from semiring.arrays.encoding import inner_zero
from semiring.chain.leaf import Leaf
from semiring.chain.maps import NEGATED, UNSIGNED, WITHOUT, OfVertices, Scaled, Shifted
from semiring.chain.matrix import Map
from semiring.chain.pieces import Work, planned
from semiring.chain.planner import Node
from semiring.chain.problem import Facts, Problem, is_tropical
from semiring.chain.steps.integers import Near
from semiring.errors import AlgebraError, StorageError
from semiring.kernels.definition import define
from semiring.kernels.engine import make_plan
from semiring.strips.disk import System
from semiring.strips.journal import Journal, opened
from semiring.strips.last import LastRound
from semiring.strips.rounds import NoStarError
from semiring.strips.run import HeldRun, Run
from semiring.strips.stored import Stored, let_go, pivots_of

__all__ = ["by_strips", "found_journal"]

Array: TypeAlias = Any
AnyRun: TypeAlias = Run | HeldRun

_HEADS = "heads of "  # and a tail: the name of a vector in a journal


def _close(work: Work, run: AnyRun, about: Mapping[str, Any] | None, vectors: Mapping[str, Array] | None) -> None:
    assert work.inner.strips is not None
    try:
        with run.room:
            pieces, engine = work.on(work.inner.strips.sample), Leaf(work.inner).engine()
            run.close(engine, pieces.encode, pieces.decode, work.outer.progress, about, vectors, work.last)
    except NoStarError as error:
        raise divergence_error(work.outer.request.semiring, error.vertex) from None


def by_strips(p: Problem, run: AnyRun, node: Node, D: Any) -> Any:
    """What the step `files` runs: the closure of p by strips, from where the journal says if there is one."""
    try:
        if run.journal is not None and run.journal.state.finished:
            run.check_finished()
            return run.result()
        about, vectors = None, None
        if run.journal is not None:
            work = _of_journal(p, run.journal)
        else:
            work = planned(node.children[0], last_round=True)
            if work.last.edges and p.request.pivots is not None:
                raise AlgebraError("pivots= does not support edges of unbounded gain: leave pivots= or these edges out")
            run.ending(work.last.rows)
            if run.keep is not None:
                about, vectors = _about(work, run.source, run.home)
        let_go(p.matrix.array)
        _close(work, run, about, vectors)
    finally:
        if run.journal is not None:
            run.journal.close()
    return run.result()


# -------------------------------------------------------------------------------------------------------- in a journal


def _identity(p: Problem, source: Stored, home: Stored, backend: str) -> dict[str, Any]:
    """What must be the same for a run to go on, by the names that an error gives it."""
    plan, pivots = make_plan(p.request.semiring, source.dtype), p.request.pivots
    return {
        "version of semiring": sys.modules["semiring"].__version__,  # loaded, for this module is a part of it
        "semiring": define(plan, closing=True).key,
        "backend": backend,
        "result": "A⁺" if p.plus else "A*",
        "number of vertices": source.n,
        "dtype": source.dtype.str,
        "order of the entries": "column after column" if source.turned else "row after row",
        "file of A": source.resolved,
        "file of out": home.resolved,
        "file of the pivots": pivots and pivots_of(pivots, home).resolved,
        "place of A in its file": source.start,
        "place of out in its file": home.start,
    }


def _about(work: Work, source: Stored, home: Stored) -> tuple[dict[str, Any], dict[str, Array]]:
    """What a journal says of a run, and the vectors that belong to it. Raises `AlgebraError` for what it cannot say."""
    m, vectors, maps = work.inner.matrix, {}, []
    for map_ in m.maps:
        if not map_.name:
            raise _unknown(type(map_).__name__)
        maps.append(map_.name)
        if isinstance(map_, OfVertices):
            vectors["potentials"] = map_.tails
    if work.last.loops is not None:
        vectors["loops"] = work.last.loops
    for tail, heads in work.last.edges.items():
        vectors[f"{_HEADS}{tail}"] = heads
    if not isinstance(work.again, Near | None):
        raise _unknown(repr(work.again))
    return {
        "name of the semiring": work.outer.request.semiring.name,
        "identity": _identity(work.outer, source, home, Leaf(work.inner).backend.name),
        "maps": maps,
        "sentinel": m.sentinel,
        "nonnegative": bool(work.inner.known.nonnegative),
        "largest": [] if work.again is None else [int(work.again.largest)],
    }, vectors


def _unknown(what: str) -> AlgebraError:
    return AlgebraError(
        f"a journal cannot store the state of a step of your own, {what}: leave journal= or the step out"
    )


def _of_journal(p: Problem, journal: Journal) -> Work:
    """What the steps had left when the run began."""
    about, semiring = journal.about, min_plus if is_tropical(p.semiring) else p.semiring
    h = journal.vectors.get("potentials")
    known: dict[str, Map] = {map_.name: map_ for map_ in (NEGATED, UNSIGNED, WITHOUT)}
    if h is not None:
        known |= {map_.name: map_ for map_ in (Shifted(h), Scaled(h, p.semiring))}
    maps = tuple(known[name] for name in about["maps"])
    dtype = p.matrix.dtype
    inner = dtype.type(inner_zero(semiring, dtype))
    matrix = replace(p.matrix, maps=maps, inner=inner, sentinel=about["sentinel"])
    facts = Facts(nonnegative=about["nonnegative"])
    q = replace(p, semiring=semiring, matrix=matrix, facts=facts, method=p.request.method)
    edges = {int(name[len(_HEADS) :]): v for name, v in journal.vectors.items() if name.startswith(_HEADS)}
    last = LastRound(journal.vectors.get("loops"), edges)
    return Work(p, q, next(map(Near, about["largest"]), None), last)


def found_journal(system: System, name: str, p: Problem, source: Stored, home: Stored, backend: str) -> Journal | None:
    """The journal of that name, if there is one. ``backend``: the name of the one that would do the work.

    Raises `OSError`, and `StorageError` for one of another run, which names what differs.
    """
    journal = opened(system, name, p.request.team)
    if journal is None:
        return None
    now, then = _identity(p, source, home, backend), journal.about["identity"]
    differ = {what: (then.get(what), value) for what, value in now.items() if then.get(what) != value}
    if differ:
        if "semiring" in differ:
            differ["semiring"] = journal.about.get("name of the semiring"), p.request.semiring.name
        shown = "; ".join(f"the {what} was {before}, and is {value}" for what, (before, value) in differ.items())
        journal.close()
        raise StorageError(f"{name} is the journal of another run: {shown}. Give another name, or remove it")
    return journal
