"""A problem, what is known of it, and what a look at it may answer.

A closure is solved by reducing it to easier problems. A *step* is a function that looks at a `Problem`. It reads, may
raise, and writes nothing; its answer is `No`, with the reason, or a `Reduction`. A step of the library is written as
what refuses it, a line each, and the reduction where nothing does (`step`). A reduction that only changes how the
entries are read adds a *map* to the matrix of the same problem (`mapped`): maps wait, and are done together when the
matrix is first read, and undone when the result is written. Any other reduction names the problems to be solved instead
(`problems`), and its `close` makes one result of theirs. All looks of a call come before its first write, so an input
is never half overwritten by an error that a look could have found.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from semiring.algebra import Semiring
from semiring.algebra.catalogue import max_times, min_plus, min_times
from semiring.algorithms.methods import Method
from semiring.algorithms.predecessors import Inspection
from semiring.arrays.encoding import inner_zero
from semiring.arrays.entries import check_by_threads
from semiring.arrays.operands import adjacent, memory_of, same_memory
from semiring.arrays.scans import Scan
from semiring.chain.explanation import Explanation
from semiring.chain.matrix import Matrix
from semiring.chain.prices import Prices
from semiring.errors import DivergenceError, DomainError, IntegerOverflowError, SemiringError
from semiring.graphs.structure import UNSEEN, Structure
from semiring.io.inputs import AS_IT_IS, Reading
from semiring.kernels import backend_for
from semiring.kernels.contract import Backend, Plan
from semiring.kernels.engine import make_plan
from semiring.ranks.links import ALONE, Team
from semiring.strips.last import LastRound

if TYPE_CHECKING:
    from semiring.chain.planner import Node

__all__ = [
    "STRUCTURES",
    "Facts",
    "Look",
    "No",
    "Options",
    "Problem",
    "Program",
    "Reduction",
    "Request",
    "Step",
    "Strips",
    "UndecidedError",
    "altered",
    "as_it_is",
    "is_tropical",
    "of_matrix",
    "promises",
    "step",
]

Array: TypeAlias = Any  # a NumPy array, on a GPU a CuPy array
Program: TypeAlias = Callable[..., Any]  # `Node.close`: it closes any array of a kind

#: The steps that spare work where the graph allows it, by their names: what ``structure=`` takes.
STRUCTURES = ("bottleneck", "hops", "reachability", "separators", "searches", "components", "undirected")


class Facts(NamedTuple):
    """What is known of the entries of a problem's matrix, as it is read through its maps.

    ``least`` and ``greatest`` bound the entries, those of integers without "no path"; None is unknown.
    """

    least: Any = None
    greatest: Any = None
    nonnegative: bool = False  # no entry is below 0, and no sign bit is set
    potentials: Any = None  # (n,), or `Exact` ones, where a look has found them

    def keep(self, promise: Facts) -> bool:
        """Whether the entries lie within those bounds, as far as is known."""
        above = self.least is None or self.least >= promise.least
        return bool(above and (self.greatest is None or self.greatest <= promise.greatest))


_NOTHING_KNOWN = Facts()
_NO_MATRIX = Matrix(None, None, np.dtype(np.float64), None)


class Options(NamedTuple):
    """What a public call asks for that decides how matrices of a kind are closed."""

    semiring: Semiring
    method: str = "auto"  # as the caller named it; "auto" leaves the choice to the chain
    threads: int = 1
    check: bool = True
    structure: frozenset[str] = frozenset()  # the names of the steps that may spare work
    compute_dtype: Any = None  # the dtype that the caller wants the arithmetic in; None is the library's choice


@dataclass(frozen=True)
class Request:
    """What one public call asks for: its `Options`, and all else. All problems of its chain share it."""

    semiring: Semiring
    method: str
    threads: int
    check: bool = True
    structure: frozenset[str] = frozenset()
    compute_dtype: Any = None
    explanation: Explanation = field(default_factory=Explanation)
    out: Any = None  # where the caller wants the result
    device: Any = None  # where the caller wants it computed
    devices: tuple[int, ...] = ()  # or the GPUs that are to do it together
    memory: int | str | Mapping[str, int | str] | None = None  # how much a matrix that is not all in it may take
    journal: Any = None  # the name of the file that says how far it is
    pivots: Any = None  # the name of the file that the pivots of a matrix in a file go to
    team: Team = ALONE  # the ranks that share the strips of a file
    reading: Reading = AS_IT_IS  # how edges are read
    rounded_to: Any = None  # the dtype whose rounding the entries bring, where it is not theirs
    #: From a problem whose matrix is `alone` to what was planned for its kind; None where steps are shown.
    programs: Callable[[Problem], Program | None] | None = None

    @property
    def options(self) -> Options:
        """What decides how matrices of a kind are closed."""
        return Options(self.semiring, self.method, self.threads, self.check, self.structure, self.compute_dtype)


class Strips(NamedTuple):
    """How a matrix is closed of which there are only some rows, or tiles, where they are worked on."""

    look: Callable[[Array, Semiring], Scan]  # `check_entries` of its array
    sample: Array  # (0, n): of the library of the rows that are worked on
    called: str = "strips"  # what these are, in an error
    whole: str = "the file"  # and what holds all of them


@dataclass(frozen=True)
class Problem:
    """A closure to be computed: A*, or A⁺ where ``plus``.

    At first there is only what was ``given``; the steps of the intake make a ``matrix`` of it. ``home`` is the memory
    that the result belongs in, None where any will do. A ``blank`` problem stands for all that have its facts: it has
    no `entries`.
    """

    request: Request
    semiring: Semiring
    given: Any = None
    matrix: Matrix = _NO_MATRIX
    facts: Facts | None = _NOTHING_KNOWN  # None: not looked for yet; `known` looks
    seen: Structure = UNSEEN  # of the graph, where a step has looked; maps leave it as it is, but for shifts
    plus: bool = False
    stack: tuple[int, ...] = ()  # (...) of the caller's (..., n, n), where all of these are closed together
    method: str | Method = "auto"  # its name, or one that a step has found for matrices of such a structure
    home: Any = None
    blank: bool = False
    alone: bool = False  # whether the matrix is an array that no step has changed: then its kind may have a program
    strips: Strips | None = None  # where a matrix is closed by strips of rows, which are mapped, and nothing more
    waits: bool = True  # whether a device may be waited for; if not, nothing that depends on the data is raised
    progress: Callable[[int, int], None] | None = None
    inspect: Inspection | None = None

    def but(self, facts: Facts | None = None, **changes: Any) -> Problem:
        """Another problem, with ``changes`` of this one or of its matrix. Its facts are those given, no others.

        Without ``facts`` (None) all entries are looked at again by the first step that asks what is `known`. `Facts()`
        means that nothing is known, and nobody looks.
        """
        own = {name: changes.pop(name) for name in list(changes) if name in _FIELDS}
        matrix = own.pop("matrix", self.matrix)
        own = {"alone": False, **own, "matrix": altered(matrix, **changes) if changes else matrix}
        other: Problem = altered(self, facts=facts, **own)
        return other

    def mapped(self, map_: Any, facts: Facts | None, **changes: Any) -> Problem:
        """The problem whose matrix is read through one map more."""
        return self.but(facts, maps=(*self.matrix.maps, map_), **changes)

    @property
    def taken(self) -> bool:
        """Whether what was given is a matrix by now."""
        return self.matrix is not _NO_MATRIX

    @property
    def known(self) -> Facts:
        """The facts, for which all entries are looked at if nobody has done that."""
        if self.facts is None:
            vars(self)["facts"] = _looked_at(self)  # found once: frozen is what the steps state
        assert self.facts is not None
        return self.facts

    @property
    def entries(self) -> Array:
        """The array, for a step that decides by what is in it. Raises `UndecidedError` where it stands for many."""
        if self.blank:
            raise UndecidedError
        return self.matrix.array

    @property
    def chosen(self) -> str:
        """What a step has found to close it by already, if one has."""
        return self.method.name.replace("_", " ") if isinstance(self.method, Method) else ""

    @property
    def in_place(self) -> bool:
        """Whether the result is made in the memory of the input: writing destroys it."""
        return self.home is not None and adjacent(self.home) and same_memory(self.home, self.matrix.array)

    @property
    def n(self) -> int:
        """How many vertices there are."""
        return int(self.matrix.shape[-1])

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of the entries as they are read."""
        return self.matrix.dtype

    @property
    def backend(self) -> Backend:
        """What has the kernels for the matrix, where it lives."""
        m = self.matrix
        return backend_for(memory_of(m.array), self.semiring, m.dtype, m.storage)

    def kernel_plan(self) -> Plan:
        """The plan under which kernels close the matrix."""
        m, semiring = self.matrix, self.semiring
        nonnegative = self.known.nonnegative
        if nonnegative and semiring.tropical is None:  # kernels also read 0̄ and 1̄, so these need a clear sign bit too
            nonnegative = m.dtype.kind == "f" and min(semiring.zero_for(m.dtype), semiring.one_for(m.dtype)) >= 0
        return make_plan(semiring, m.dtype, nonnegative=nonnegative, storage=m.storage, threads=self.request.threads)


def altered(x: Any, **fields: Any) -> Any:
    """A copy with other fields in a microsecond: `dataclasses.replace` takes six, and a call makes some ten."""
    copy = object.__new__(type(x))
    vars(copy).update(vars(x), **fields)
    return copy


_FIELDS = frozenset(Problem.__dataclass_fields__)


def is_tropical(semiring: Semiring) -> bool:
    """Whether closures of the semiring are those of min-plus or max-plus: negative cycles have no star in it."""
    return semiring.tropical is not None and (semiring.divergence is not None or semiring.absorptive)


def promises(semiring: Semiring, dtype: np.dtype[Any], n: int, asks: bool) -> list[Facts]:
    """What entries may keep, so that n vertices are closed without a look at more than their range.

    The strictest first. Min-plus: no weight below 0 (max-plus: none above). Of integers none is so large that a path of
    n edges reaches the number that stands for "no path"; and then, where closed rows may be looked at (``asks``), none
    above a quarter of it, for `Near` finds the paths that do. Elsewhere: no cycle gains; first with all sign bits
    clear, then without.
    """
    if is_tropical(semiring):
        none = int(inner_zero(min_plus, dtype)) if dtype.kind == "i" else np.inf
        ends = [(none - 1) // (n + 1), none // 4][: 1 + asks] if dtype.kind == "i" else [none]
        return [Facts(-end, 0) if semiring.tropical == "max" else Facts(0, end) for end in ends]
    least, greatest = 1 if semiring == min_times else -np.inf, 1 if semiring == max_times else np.inf
    return [Facts(least, greatest, nonnegative) for nonnegative in (True, False)]


def _looked_at(p: Problem) -> Facts:
    """The facts of a matrix, by a look at all its entries where that may be waited for.

    In min-plus and max-plus the sign decides about the potentials, and the range of integers about their width: there
    the host looks whatever the caller says of ``check``. A device that must not be waited for is promised min-plus
    weights ≥ 0, and no path near half the range of an integer. Raises `DomainError` for NaN, and for what lies outside
    the domain; what is read through maps was looked at before them.
    """
    m, tropical = p.matrix, is_tropical(p.semiring)
    if m.maps or m.sentinel:
        return Facts(*m.range())
    if not (p.request.check or (tropical and p.waits)):
        return Facts(0, 0) if tropical else Facts()
    look = partial(check_by_threads, threads=p.request.threads) if p.strips is None else p.strips.look
    scan = look(p.entries, p.semiring)
    if p.semiring.tropical is not None and scan.low is None:  # no numbers at all
        return Facts(0, 0, scan.nonnegative)
    return Facts(scan.low, scan.high, scan.nonnegative)


class UndecidedError(Exception):
    """A blank problem has no entries to decide by."""


class No(NamedTuple):
    """A refusal."""

    why: str
    prices: Prices | None = None  # what it would cost, and the others do


def as_it_is(error: SemiringError, which: int = 0) -> SemiringError:
    """An error of a problem, where that is one of the problem that it is a part of."""
    return error


def of_matrix(error: SemiringError, where: Sequence[Any]) -> SemiringError:
    """An error about the entries of a matrix, as one of the stack in which it has that place; others as they are."""
    if isinstance(error, DivergenceError | DomainError | IntegerOverflowError):
        place = tuple(map(int, where))
        about = f"{error}; this is about the matrix A[{', '.join(map(str, place))}] of the stack"
        error.args = (about, *error.args[1:])
        if isinstance(error, DivergenceError):
            error.matrix = place
    return error


def _solved(node: Node, D: Any) -> Any:
    (child,), reduction = node.children, node.reduction
    closed = child.solve(D)
    return closed if reduction is None or reduction.back is None else reduction.back(closed)


@dataclass(frozen=True)
class Reduction:
    """What a look that applies returns. Nothing is written yet.

    ``close(node, D)`` makes the result in D, by those of the problems, which ``node.children`` will solve. D has the
    shape and dtype in which ``mapped`` is read; it is None where bits are packed first, and for a step of the intake,
    whose result is what the caller gets. By default the one problem is solved there, and ``back(closed)`` makes the
    result of its own.
    """

    why: str
    mapped: Problem | None = None  # the same matrix, read through more maps, or with more known of it
    problems: Sequence[Problem] = ()  # what is to be solved instead
    back: Callable[[Any], Any] | None = None
    close: Callable[[Node, Any], Any] = _solved
    in_home: bool = False  # whether `close` is given the home as it is, rather than memory in which kernels can work
    #: Of maps: asked of closed rows, some or all: None, or what makes ``mapped``, read in another way, to be solved.
    again: Callable[[Problem, Array], Callable[[], Problem] | None] | None = None
    by_rows: bool = True  # of maps: whether no more is to be done than can be done to some rows at a time
    last_round: LastRound | None = None  # what does the rest, or `back`, where all strips are visited once more
    blame: Callable[..., SemiringError] = as_it_is  # of (error, which): one of that problem, as one of this
    quiet: bool = False  # listed in the chain, but not among the reasons
    prices: Prices | None = None  # what it costs, and the others would

    @property
    def only_maps(self) -> bool:
        """Whether the steps that follow look at this problem still, as ``mapped`` reads it."""
        return not self.problems and self.close is _solved


#: A look at a problem: why the step does not apply, or what it reduces the problem to. Writes nothing.
Step: TypeAlias = Callable[[Problem], No | Reduction]
#: The same, line by line: what refuses, `(whether, why)`, perhaps with the rest of a `No`; and what is left to return.
Look: TypeAlias = Generator[tuple[Any, ...], None, "No | Reduction"]


def step(look: Callable[..., Look]) -> Callable[..., No | Reduction]:
    """A step, written as a function that yields its refusals, ``whether, why``; the first that holds is the answer."""

    @wraps(look)
    def asked(p: Problem, *more: Any) -> No | Reduction:
        refusals = look(p, *more)
        try:
            while True:
                found = next(refusals)
                if found[0]:
                    return No(*found[1:])
        except StopIteration as last:
            return last.value  # type: ignore[no-any-return]

    return asked
