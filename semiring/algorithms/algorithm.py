"""Define what an algorithm for closures is: when it applies, what it costs, and how it runs.

`semiring.closures.choose` evaluates all algorithms, and takes the cheapest. An algorithm never mentions another.

To add an algorithm to the library, write a file in this folder with a subclass of `Algorithm`, and add an instance to
`semiring.algorithms.methods.ALGORITHMS`. The subclass sets ``name``, and defines `Algorithm.reason_against` (when it
does not apply), `Algorithm.cost`, `Algorithm.least_cost` (a bound that needs no scan) and `Algorithm.run`. A program
registers its own (`semiring.extend.register_method`): a subclass, or a function ``close(engine, A)`` as a `Method`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, TypeAlias

from semiring.advice import option
from semiring.errors import DeviceError, MethodError
from semiring.kernels.contract import OPERATIONS, Backend, missing_operations
from semiring.kernels.engine import Engine
from semiring.namespaces import Array

if TYPE_CHECKING:
    from semiring.closures.problem import Facts, Problem

__all__ = [
    "AUTO",
    "LEAST",
    "LEAST_ON_DEVICE",
    "Algorithm",
    "Circumstances",
    "Method",
    "MethodOptions",
    "Storage",
    "bind_options",
    "check_backend",
    "missing_needs",
]

AUTO = "auto"  # the name by which a caller leaves the choice of an algorithm to the library

#: The number of vertices from which on the structure of a graph is analysed: for fewer, the scan takes more than 3 % of
#: a dense closure.
LEAST = 1536
LEAST_ON_DEVICE = 8192  # on a GPU: the scan takes 1.2 % of a dense closure, and 6.7 % for 6144 vertices

Storage: TypeAlias = Literal["elements", "bits"]

MethodOptions: TypeAlias = tuple[tuple[str, Any], ...]  # validated options of one method, in the order of their names

_STORAGES: tuple[Storage, ...] = ("elements", "bits")
_DEVICES = ("cpu", "cuda")


class Circumstances(NamedTuple):
    """What excludes an algorithm before any entry is read: options, and the form of the operand."""

    method: str  # the name that the caller gave, or "auto"
    method_options: MethodOptions  # the options of that method
    is_structural: bool  # whether that method needs a structure of the graph
    structure: frozenset[str]  # the uses of the structure of the graph that the caller allows
    axes: int  # 2 for a matrix, 3 for a stack
    storage: Literal["elements", "bits", "sparse"]
    on_device: bool  # whether the entries are in the memory of a GPU
    several: bool  # whether several GPUs compute together
    in_pieces: bool  # whether the matrix is closed by strips of a file, or by tiles of ranks
    is_part: bool  # whether the matrix is a part of another problem
    is_small: bool  # whether one compiled loop may close a matrix of this size
    is_large: bool  # whether the structure of a matrix of this size is analysed
    is_medium: bool  # whether stored edges of this number of vertices are analysed
    unanalysed: str  # why the structure cannot be analysed, whatever the size; "" if it can


class Algorithm:
    """An algorithm that closes a matrix.

    Attributes
    ----------
    name : str
        The name for ``method=``.
    structure : str
        The name for ``structure=`` of an algorithm that uses the structure of the graph, else "".
    requires : str
        The structure that the graph must have, such as "an undirected graph", or "".
    storages : tuple of {"elements", "bits"}
        The storages of the encoded matrix that it closes.
    forms : tuple of {"elements", "bits", "sparse"}
        The storages of the operand from which it starts.
    axes : tuple of int
        The numbers of axes of the operands that it closes: 2 for a matrix, 3 for a stack.
    closes_parts : bool
        Whether it may close a part of another problem.
    below_zero_only : bool
        Whether it closes only floats below 0, which are read under potentials.
    gaining_only : bool
        Whether it closes only weights that gain, of which no potentials and factors were found.
    divides : bool
        Whether it only divides the problem into parts, because nothing else is correct. It stays a candidate when
        another method was named.
    is_encoded : bool
        Whether it reads the encoded entries. Otherwise it reads the caller's, and writes the caller's result.
    apart : bool
        Whether it reads one matrix and writes another. The caller need not copy a matrix that must not change.
    copies_entries : bool
        Whether it writes the entries to the result itself, where predecessors are searched.
    reads_entries : bool
        Whether it reads the entries of stored edges as a matrix. Otherwise facts about the edges suffice.
    gives_plus : bool
        Whether it returns A⁺ itself where A⁺ is wanted.
    reports_parts : bool
        Whether its parts report their progress.
    reads_edges : bool
        Whether it closes the edges of a graph on the host, in min-plus and max-plus of floats.
    needs : tuple of str
        The operations of `Capabilities` that the backend must provide, by name.
    options : mapping of str to collection
        The options of the method for ``method_options=``: for each name the values, a tuple or a range. `run` finds
        the caller's options in ``p.options.method_options``.
    fallbacks : dict of str to str
        The method that a caller who named this one gets, by the reason against this one.
    source, reference : str
        Columns of the table of methods: authors, year and the place in the paper, and a verified "doi:…" or "arXiv:…".
    semirings, dtypes : str
        Columns of the table of methods: the semirings and dtypes of the algorithm.
    devices : tuple of {"cpu", "cuda"}
        The devices where it runs.
    complexity : str
        A column of the table of methods: the cost in words.
    """

    name: str = ""
    structure: str = ""
    requires: str = ""
    storages: tuple[Storage, ...] = ("elements",)
    forms: ClassVar[tuple[str, ...]] = ("elements", "bits", "sparse")
    axes: ClassVar[tuple[int, ...]] = (2,)
    closes_parts: ClassVar[bool] = False
    below_zero_only: ClassVar[bool] = False
    gaining_only: ClassVar[bool] = False
    divides: ClassVar[bool] = False
    is_encoded: ClassVar[bool] = True
    apart: bool = False
    copies_entries: ClassVar[bool] = False
    reads_entries: ClassVar[bool] = True
    gives_plus: ClassVar[bool] = False
    reports_parts: ClassVar[bool] = False
    reads_edges: ClassVar[bool] = False
    needs: tuple[str, ...] = ()
    options: Mapping[str, Collection[Any]] = MappingProxyType({})
    fallbacks: ClassVar[dict[str, str]] = {}
    source: str = ""
    reference: str = ""
    semirings: str = "every semiring with a star"
    dtypes: str = "every dtype of the semiring"
    devices: tuple[str, ...] = _DEVICES
    complexity: str = ""

    def reason_by_options(self, c: Circumstances) -> str | None:
        """Return why the options or the form of the operand exclude the algorithm, or None. It reads no entry.

        Parameters
        ----------
        c : Circumstances
            The options, and the form of the operand.

        Returns
        -------
        str or None
            The reason.
        """
        if c.axes not in self.axes:
            return "the operand is a stack" if c.axes > 2 else "the operand is one matrix"
        if c.is_part and not self.closes_parts:
            return "the matrix is a part of another one"
        if c.method not in (AUTO, self.name) and (not self.divides or c.in_pieces):
            return "another method was named"
        if c.storage not in self.forms:
            return "truth values are packed" if c.storage == "bits" else "only of stored edges"
        if ("cuda" if c.on_device or c.several else "cpu") not in self.devices:
            return "it runs on the CPU" if c.on_device or c.several else "it runs on a GPU"
        if not self.structure:
            return None
        if c.unanalysed:
            return c.unanalysed
        if c.method == self.name:
            return None
        if self.structure not in c.structure:
            return "disabled by structure="
        if c.is_large:
            return None
        return f"fewer than {LEAST_ON_DEVICE if c.on_device else LEAST:,} vertices: the graph is not analysed"

    def supports(self, facts: Facts) -> bool:
        """Return whether the algorithm closes the semiring on the dtype, whatever the entries.

        Parameters
        ----------
        facts : Facts
            The facts, of which only ``semiring``, ``dtype`` and what follows from them are read.

        Returns
        -------
        bool
            Whether it does. The error for a named method that does not prints `semirings` and `dtypes`.
        """
        return True

    def reason_against(self, p: Problem) -> str | None:
        """Return why the algorithm does not close the problem, or None.

        Conditions that hold whatever the entries are belong to the traits and to `reason_by_options`. The function may
        raise the errors of a scan. It writes nothing.

        Parameters
        ----------
        p : Problem
            The problem, encoded if the algorithm reads encoded entries.

        Returns
        -------
        str or None
            The reason.
        """
        return None

    def late_reason(self, p: Problem) -> str | None:
        """Return why the algorithm does not close the problem after all, or None.

        It is evaluated only if the algorithm is the cheapest so far, because it takes a search in the entries.

        Parameters
        ----------
        p : Problem
            The problem, encoded if the algorithm reads encoded entries.

        Returns
        -------
        str or None
            The reason.
        """
        return None

    def least_cost(self, p: Problem) -> float:
        """Return a lower bound of `cost`, which needs no scan.

        Parameters
        ----------
        p : Problem
            The problem; it is not encoded yet.

        Returns
        -------
        float
            Pairs of a dense closure in float64.
        """
        return 0.0

    def tighter_bound(self, p: Problem) -> float:
        """Return a higher lower bound of `cost`, which may take a search; it is read if `least_cost` does not exclude.

        Parameters
        ----------
        p : Problem
            The problem; it is not encoded yet.

        Returns
        -------
        float
            Pairs of a dense closure in float64.
        """
        return 0.0

    def cost(self, p: Problem) -> float:
        """Return the cost in pairs of a dense closure in float64.

        It depends on the problem alone, never on the machine or the threads, because the algorithm decides how results
        are rounded.

        Parameters
        ----------
        p : Problem
            The problem, encoded if the algorithm reads encoded entries.

        Returns
        -------
        float
            Pairs of a dense closure in float64.
        """
        return p.dense_cost

    def prepare(self, p: Problem) -> Problem:
        """Return the problem as the algorithm closes it. Find what it needs of the entries, and raise their errors.

        Nothing is written before.

        Parameters
        ----------
        p : Problem
            The problem, encoded if the algorithm reads encoded entries.

        Returns
        -------
        Problem
            The problem that `run` receives.
        """
        return p

    def run(self, p: Problem, engine: Engine, D: Any, entries: Any) -> Any:
        """D ← the closure of the ``entries``, which may be D itself. Return D, or other memory that holds it.

        An algorithm that does not read encoded entries finds them in the facts.

        Parameters
        ----------
        p : Problem
            The result of `prepare`.
        engine : Engine
            The kernels, or None for an algorithm that does not read encoded entries.
        D : array or BitMatrix, shape (..., n, n)
            The memory of the result.
        entries : array or BitMatrix, shape (..., n, n)
            The encoded entries.

        Returns
        -------
        array or BitMatrix, shape (..., n, n)
            The closure.
        """
        raise NotImplementedError

    def describe(self, p: Problem) -> str:
        """Return the reason for the algorithm in an explanation, or "".

        Parameters
        ----------
        p : Problem
            The problem, encoded if the algorithm reads encoded entries.

        Returns
        -------
        str
            The reason.
        """
        return ""


@dataclass(frozen=True)
class Method(Algorithm):
    """An algorithm for every matrix of some storages: a function that eliminates pivots, or squares.

    Its parameters are also its attributes; those that are missing here are of `Algorithm`.

    Parameters
    ----------
    name : str
        The name for ``method=``, other than ``"auto"``.
    close : callable
        ``close(engine, A)``: A ← A* in place, A (n, n) of the engine's plan. It records a pivot without a star in
        ``engine.plan.status.diverged``.
    storages : tuple of {"elements", "bits"}
        The storages of the matrix that it closes: one element an entry, or 32 truth values to a word.
    recorded : bool
        Whether its kernels depend on the plan and on n alone, not on the entries. A device may then record and repeat
        them.
    apart : bool
        Whether it reads one matrix and writes another, ``close(engine, D, A)``: D ← A*. D may be A. Otherwise the
        entries of D are not read. The caller then need not copy a matrix that must not change.
    needs : tuple of str
        The operations of `Capabilities` that the backend must provide, by name.
    options : mapping of str to collection
        The options for ``method_options=``: for each name the values, a tuple or a range. ``close`` receives those of
        a call as keyword arguments, and has the defaults.
    pairs : callable or None
        ``pairs(n, width)``: the most pairs it reports for n rows of ``width`` entries. None: n³.
    source, reference, semirings, dtypes, devices, complexity : str
        Columns of the table of methods, as in `Algorithm`.

    Raises
    ------
    MethodError
        If the name is no text, empty or ``"auto"``, ``close`` cannot be called, or a trait has another type or value.
    """

    name: str = field()
    close: Callable[..., object] = field(repr=False)
    storages: tuple[Storage, ...] = ("elements",)
    recorded: bool = False
    apart: bool = field(default=False, repr=False)
    needs: tuple[str, ...] = ()
    options: Mapping[str, Collection[Any]] = field(default_factory=dict, compare=False, repr=False)
    pairs: Callable[[int, int], int] | None = field(default=None, repr=False)
    source: str = field(default="", compare=False, repr=False)
    reference: str = field(default="", compare=False, repr=False)
    semirings: str = field(default=Algorithm.semirings, compare=False, repr=False)
    dtypes: str = field(default=Algorithm.dtypes, compare=False, repr=False)
    devices: tuple[str, ...] = field(default=_DEVICES, compare=False, repr=False)
    complexity: str = field(default="", compare=False, repr=False)

    closes_parts: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name or self.name == AUTO:
            raise MethodError(f"the name of a closure method is {self.name!r}: give a text other than {AUTO!r}")
        if not callable(self.close):
            raise MethodError(f"the closure method {self.name!r} is {self.close!r}: give a function close(engine, A)")
        for name in ("recorded", "apart"):
            self._check(name, isinstance(getattr(self, name), bool), "True or False")
        valid = isinstance(self.storages, tuple) and self.storages and all(each in _STORAGES for each in self.storages)
        self._check("storages", valid, f"a tuple of {', '.join(map(repr, _STORAGES))}")
        has_names = isinstance(self.devices, tuple) and self.devices and all(each in _DEVICES for each in self.devices)
        self._check("devices", has_names, f"a tuple of {', '.join(map(repr, _DEVICES))}")
        valid = isinstance(self.needs, tuple) and all(each in OPERATIONS for each in self.needs)
        self._check("needs", valid, "a tuple of optional operations of the kernel contract, such as 'close'")
        valid = isinstance(self.options, Mapping) and all(
            isinstance(name, str) and isinstance(values, tuple | range) and values
            for name, values in self.options.items()
        )
        self._check("options", valid, "a dict of the name of each option to a tuple or range of its values")
        self._check("pairs", self.pairs is None or callable(self.pairs), "a function pairs(n, width), or None for n³")

    def _check(self, trait: str, valid: object, remedy: str) -> None:
        if not valid:
            raise MethodError(f"the closure method {self.name!r} has {trait}={getattr(self, trait)!r}: give {remedy}")

    def run(self, p: Problem, engine: Engine, D: Array, entries: Array) -> Any:
        """D ← D* by the function ``close``.

        Parameters
        ----------
        p : Problem
            The problem.
        engine : Engine
            The kernels.
        D : array, shape (n, n)
            The memory of the result, which holds the entries unless the method reads another matrix.
        entries : array, shape (n, n)
            The encoded entries.

        Returns
        -------
        array, shape (n, n)
            D.

        Raises
        ------
        MethodError
            If the function returned another array.
        """
        self.refuse_result(self.close(engine, D, entries) if self.apart else self.close(engine, D), D)
        return D

    def refuse_result(self, result: Any, D: Array) -> None:
        """Raise `MethodError` if the function returned another array, because only what it writes is the closure.

        Parameters
        ----------
        result : object
            What the function returned.
        D : array, shape (n, n)
            The memory of the result.

        Raises
        ------
        MethodError
            If the result is another array.
        """
        if result is not None and result is not D and hasattr(result, "shape"):
            raise MethodError(
                f"the method {self.name!r} returned a {type(result).__name__}, and a method closes A in place: write "
                "the result to A, as by A[...] = result"
            )


@lru_cache(maxsize=256)
def bind_options(method: Method, options: MethodOptions) -> Method:
    """Return a method with options of a call; one object serves all calls, because a device records its runs."""
    return replace(method, close=partial(method.close, **dict(options)))


def missing_needs(a: Algorithm, backend: Backend) -> list[str]:
    """Return the operations that an algorithm needs and the backend lacks."""
    return [name for name in a.needs if not backend.capabilities.provides(name)]


def check_backend(a: Algorithm, backend: Backend, rivals: Callable[[str], list[str]]) -> None:
    """Raise `DeviceError` if an algorithm runs on another device, or the backend lacks an operation it needs.

    ``rivals(device)`` returns the names of the methods that run on a device.
    """
    device = "cuda" if backend.name == "cuda" else "cpu"
    if device not in a.devices:
        needed_place, matrix_place = ("a GPU", "on the CPU") if device == "cpu" else ("the CPU", "on a GPU")
        raise DeviceError(
            f"{a.name} runs on {needed_place}, and this matrix is closed {matrix_place}: pass "
            f"{option('device', a.devices[0])}, or use one of {', '.join(sorted(rivals(device)))}"
        )
    if lacks := missing_needs(a, backend):
        raise missing_operations(a.name, lacks, backend)
