"""Register the methods of closure by their names in the literature, with their traits.

A caller reads the traits of a method, and does not depend on its name. `register_method` registers a method of your
own, and so does an entry point of an installed package::

    [project.entry-points."semiring.methods"]
    series = "package.module:series"

The entry point is a function, or a `Method` with its traits. It is imported when its name is first used. It cannot
replace a method that is registered already.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field, fields, replace
from functools import cache
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from semiring.advice import option
from semiring.algorithms.blocked_floyd_warshall import blocked_floyd_warshall
from semiring.algorithms.floyd_warshall import floyd_warshall
from semiring.algorithms.johnson import johnson
from semiring.algorithms.papers import bertoldi, buluc, lund_smith
from semiring.algorithms.papers.gaioso import gaioso
from semiring.algorithms.papers.harish_narayanan import harish_narayanan
from semiring.algorithms.papers.katz_kider import katz_kider
from semiring.algorithms.progress import total_pairs
from semiring.algorithms.rkleene import rkleene
from semiring.algorithms.squaring import max_pairs, squaring
from semiring.algorithms.staged import staged
from semiring.algorithms.views import WORD
from semiring.errors import AlgebraError, DeviceError, MethodError, UnknownNameError
from semiring.kernels.contract import OPERATIONS, Backend, missing_operations
from semiring.kernels.engine import Engine
from semiring.registrations import notify

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

__all__ = [
    "METHODS",
    "Method",
    "MethodNames",
    "is_structural",
    "matrix_methods",
    "method_named",
    "methods_by_device",
    "methods_for",
    "register_method",
    "takes_edges",
    "unregister_method",
]

AUTO = "auto"  # the name by which a caller leaves the choice of a method to the planner

Storage: TypeAlias = Literal["elements", "bits"]

_STORAGES: tuple[Storage, ...] = ("elements", "bits")
_DEVICES = ("cpu", "cuda")
_GROUP = "semiring.methods"  # the group of entry points


@dataclass(frozen=True)
class Method:
    """A method of closure and its traits.

    Parameters
    ----------
    name : str
        The name for ``method=``, other than ``"auto"``.
    close : callable
        ``close(engine, A)``: A ← A* in place, A (n, n) of the engine's plan. It records a pivot without a star in
        ``engine.plan.status.diverged``. For edges it is ``close(graph, h, out, reflexive=..., progress=...)``, as
        `semiring.algorithms.johnson.johnson`.
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
    takes : {"matrix", "edges"}
        ``"edges"`` is for a method on the edges of a sparse graph, on the host, in min-plus of floats.
    pairs : callable or None
        ``pairs(n, width)``: the most pairs it reports for n rows of ``width`` entries, if that depends on the entries.
        Otherwise the pairs are counted by running ``close`` with kernels that do nothing. These provide the contract
        and closures of whole matrices only, so a method that needs another operation must give ``pairs``.
    structure : str
        The structure of the graph that the method needs, such as "an undirected graph". A rule of the planner builds a
        method of this name for each such matrix, from the results of the scans.
    source, reference : str
        Columns of the table of methods: authors, year and the place in the paper, and a verified "doi:…" or "arXiv:…".
    semirings, dtypes : str
        Columns of the table of methods: the semirings and dtypes of the method.
    devices : tuple of {"cpu", "cuda"}
        The devices where it runs. `check` refuses it elsewhere.
    cost : str
        A column of the table of methods: the cost.

    Raises
    ------
    MethodError
        If the name is no text, empty or ``"auto"``, ``close`` cannot be called, or a trait has another type or value.
    """

    name: str
    close: Callable[..., object] = field(repr=False)
    storages: tuple[Storage, ...] = ("elements",)
    recorded: bool = False
    apart: bool = field(default=False, repr=False)
    needs: tuple[str, ...] = ()
    takes: Literal["matrix", "edges"] = "matrix"
    pairs: Callable[[int, int], int] | None = field(default=None, repr=False)
    structure: str = field(default="", repr=False)
    source: str = field(default="", compare=False, repr=False)
    reference: str = field(default="", compare=False, repr=False)
    semirings: str = field(default="every semiring with a star", compare=False, repr=False)
    dtypes: str = field(default="every dtype of the semiring", compare=False, repr=False)
    devices: tuple[str, ...] = field(default=_DEVICES, compare=False, repr=False)
    cost: str = field(default="", compare=False, repr=False)

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
        self._check("takes", self.takes in ("matrix", "edges"), "'matrix' or 'edges'")
        walks = self.takes == "edges" or not set(self.needs) - {"can_close", "close"}
        remedy = f"a function pairs(n, width){', or None' if walks else ''}"
        self._check("pairs", callable(self.pairs) or (self.pairs is None and walks), remedy)

    def _check(self, trait: str, valid: object, remedy: str) -> None:
        if not valid:
            raise MethodError(f"the closure method {self.name!r} has {trait}={getattr(self, trait)!r}: give {remedy}")

    def check(self, backend: Backend, storage: str) -> None:
        """Raise an error unless the method can run on this backend and storage.

        Parameters
        ----------
        backend : Backend
            The backend of the matrix.
        storage : {"elements", "bits"}
            The storage of the matrix.

        Raises
        ------
        DeviceError
            If the method runs on another device, or the backend lacks an operation.
        AlgebraError
            If the method needs another storage.
        """
        device = "cuda" if backend.name == "cuda" else "cpu"
        if device not in self.devices:
            needed_place, matrix_place = ("a GPU", "on the CPU") if device == "cpu" else ("the CPU", "on a GPU")
            raise DeviceError(
                f"{self.name} runs on {needed_place}, and this matrix is closed {matrix_place}: pass "
                f"{option('device', self.devices[0])}, or use one of {', '.join(sorted(methods_for(device)))}"
            )
        if self.needs:
            lacks = [name for name in self.needs if not backend.capabilities.provides(name)]
            if lacks:
                raise missing_operations(self.name, lacks, backend)
        if storage not in self.storages:
            others = [method.name for method in _BUILT_IN if storage in method.storages and not method.structure]
            stored = "packed bits" if storage == "bits" else "matrices with one element for each entry"
            raise AlgebraError(f"{self.name} does not close {stored}: use {', '.join(others[:-1])} or {others[-1]}")

    def total_pairs(self, engine: Engine, n: int, columns: int) -> int:
        """Return the number of pairs that the method reports, or an upper bound.

        Parameters
        ----------
        engine : Engine
            The engine, whose plan decides the storage.
        n : int
            The number of rows of the matrix.
        columns : int
            The number of its columns as they are stored: words for packed bits.

        Returns
        -------
        int
            The number of pairs of one ⊗ and one ⊕.
        """
        if self.pairs is None:
            return total_pairs(self.close, engine, n, columns)
        return self.pairs(n, columns * (WORD if engine.plan.storage == "bits" else 1))


_TROPICAL = "min_plus and max_plus"
_UNIT_STAR = "an idempotent ⊕ whose star is 1 wherever it exists"
_HARISH = "doi:10.1007/978-3-540-77220-0_21"
_LUND = "arXiv:1001.4108"
_GAIOSO = "doi:10.5753/wscad.2013.16769"


def _cubic_pairs(n: int, width: int) -> int:
    """Return n³, the pairs of an elimination whose pairs are not counted by running it."""
    return n * n * width


def _paper_method(name: str, close: Callable[..., object], source: str, launches: str, reference: str = "") -> Method:
    """Return the method of a paper's kernel on a GPU."""
    return Method(
        name,
        close,
        needs=("close_as",),
        pairs=_cubic_pairs,
        source=source,
        reference=reference,
        semirings=_UNIT_STAR,
        devices=("cuda",),
        cost=f"n³ pairs in {launches}",
    )


def _refuse_without_structure(engine: Engine, A: Any) -> None:
    """Raise `MethodError`, because a matrix must be scanned before this method can close it."""
    raise MethodError("this method needs the structure of the graph: closure(A, method=...) finds it, and closes A")


_BUILT_IN = (
    Method(
        "rkleene",
        rkleene,
        storages=_STORAGES,
        recorded=True,
        source="D'Alberto and Nicolau 2007; Buluç, Gilbert and Budak 2010, figure 3",
        cost="n³ pairs in place, nearly all in products",
    ),
    Method(
        "blocked_floyd_warshall",
        blocked_floyd_warshall,
        storages=_STORAGES,
        recorded=True,
        source="Venkataraman, Sahni and Mukhopadhyaya 2003; Katz and Kider 2008",
        cost="n³ pairs in place, in products of blocks of pivots",
    ),
    Method(
        "floyd_warshall",
        floyd_warshall,
        source="Floyd 1962, Warshall 1962; with stars Lehmann 1977",
        cost="n³ pairs in n updates of the whole matrix",
    ),
    Method(
        "squaring",
        squaring,
        storages=_STORAGES,
        pairs=max_pairs,
        source="Aho, Hopcroft and Ullman 1974, section 5.9",
        semirings="a selective ⊕, or 1 ⊕ a = 1",
        cost="at most n³ log n pairs, and a copy of the matrix",
    ),
    Method(
        "staged",
        staged,
        needs=("close",),
        source="our own successor of Lund and Smith 2010",
        semirings="an idempotent ⊕",
        devices=("cuda",),
        cost="n³ pairs in a few launches",
    ),
    _paper_method(
        *("harish_narayanan", harish_narayanan, "Harish and Narayanan 2007, a thread for each cell"),
        *("n launches", _HARISH),
    ),
    _paper_method("katz_kider", katz_kider, "Katz and Kider 2008, three phases of 32 × 32 tiles", "3 ⌈n/32⌉ launches"),
    _paper_method(
        *("lund_smith_unrolled", lund_smith.lund_smith_unrolled, "Lund and Smith 2010, section 4"),
        *("3 ⌈n/32⌉ launches", _LUND),
    ),
    _paper_method(
        *("lund_smith_registers", lund_smith.lund_smith_registers, "Lund and Smith 2010, section 4.1, figure 3"),
        *("3 ⌈n/32⌉ launches", _LUND),
    ),
    _paper_method(
        *("lund_smith", lund_smith.lund_smith, "Lund and Smith 2010, sections 4.2 and 4.3, figures 4 to 6"),
        *("3 ⌈n/32⌉ + 2 launches, and a copy of the matrix", _LUND),
    ),
    _paper_method(
        *("gaioso", gaioso, "Gaioso and others 2013, algorithm 3, figures 4 to 6", "2 ⌈n/32⌉ launches", _GAIOSO)
    ),
    _paper_method(
        *("buluc_iterative", buluc.buluc_iterative, "Buluç, Gilbert and Budak 2010, figure 2, rank-one updates"),
        "n launches",
    ),
    Method(
        "rkleene_plain",
        buluc.rkleene_plain,
        needs=("multiply_add_plain",),
        pairs=_cubic_pairs,
        source="Buluç, Gilbert and Budak 2010, figure 3, with plain products",
        cost="n³ pairs in O(n/64) plain products",
    ),
    _paper_method("bertoldi_cuda_shared", bertoldi.bertoldi_cuda_shared, "Bertoldi, algorithm 4", "n launches"),
    _paper_method("bertoldi_cuda", bertoldi.bertoldi_cuda, "Bertoldi, algorithm 5", "n launches"),
    Method(
        "bertoldi_openmp",
        bertoldi.bertoldi_openmp,
        needs=("close_as",),
        pairs=_cubic_pairs,
        source="Bertoldi, algorithm 3, dynamic schedule",
        devices=("cpu",),
        cost="n³ pairs, a barrier for each pivot",
    ),
    Method(
        "bertoldi_openmp_static",
        bertoldi.bertoldi_openmp_static,
        needs=("close_as",),
        pairs=_cubic_pairs,
        source="Bertoldi, algorithm 3, static schedule",
        devices=("cpu",),
        cost="n³ pairs, a barrier for each pivot",
    ),
    Method(
        "row_broadcast",
        bertoldi.row_broadcast,
        pairs=_cubic_pairs,
        source="Bertoldi, algorithms 2, 6 and 7; several ranks under mpiexec",
        semirings=_UNIT_STAR,
        cost="n³ pairs in n rank-one products and broadcasts",
    ),
    Method(
        "johnson",
        johnson,
        takes="edges",
        source="Johnson 1977",
        semirings=_TROPICAL,
        dtypes="float16, bfloat16, float32, float64",
        devices=("cpu",),
        cost="O(n (m + n) log n) for m edges",
    ),
    Method(
        "components",
        _refuse_without_structure,
        structure="several strong components",
        source="Sharir 1981; Tarjan 1972, for the components",
        cost="n³/6 pairs without cycles, n³ in one component",
    ),
    Method(
        "undirected",
        _refuse_without_structure,
        structure="an undirected graph, and ⊗ that commutes",
        source="blocked Floyd-Warshall on one triangle",
        cost="n³/2 pairs",
    ),
    Method(
        "spanning_tree",
        _refuse_without_structure,
        structure="an undirected graph",
        source="Hu 1961; Prim 1957 on a CPU, Borůvka 1926 on a GPU",
        semirings="⊕ and ⊗ that are minimum and maximum",
        cost="O(n²)",
    ),
    Method(
        "breadth_first_search",
        _refuse_without_structure,
        structure="edges of one weight above 0, whose sums are exact",
        source="Then et al. 2014",
        semirings=_TROPICAL,
        dtypes="integers, float32, float64",
        cost="a pass over the edges for each level and 512 vertices",
    ),
    Method(
        "supernodal",
        _refuse_without_structure,
        structure="few edges",
        source="Sao et al. 2020",
        semirings="an idempotent ⊕, and weights that do not gain",
        cost="the pairs of the factors, and twice their numbers for each row",
    ),
    Method(
        "purdom",
        _refuse_without_structure,
        storages=("bits",),
        structure="a graph of truth values",
        source="Purdom 1970; Nuutila 1994",
        semirings="an idempotent ⊕ of truth values",
        dtypes="bool",
        devices=("cpu",),
        cost="n bits for each edge that no other path replaces",
    ),
    Method(
        "triangular",
        _refuse_without_structure,
        storages=("bits",),
        structure="a graph of truth values",
        source="Purdom 1970, Kahn 1962; Fleischer, Hendrickson and Pınar 2000",
        semirings="an idempotent ⊕ of truth values",
        dtypes="bool",
        devices=("cuda",),
        cost="n³/6 bit pairs without cycles, n³ in one component",
    ),
)
_methods = {method.name: method for method in _BUILT_IN}  # registered and loaded methods are added


class MethodNames(Collection[str]):
    """The values that ``method=`` accepts: ``"auto"``, and the names of all registered methods."""

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and (name == AUTO or name in _methods or name in _find_installed())

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys((AUTO, *_methods, *_find_installed())))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __repr__(self) -> str:
        return repr(tuple(self))


#: The values that ``method=`` accepts.
METHODS = MethodNames()


def register_method(name: str, method: Method | Callable[..., object], **traits: Any) -> Method:
    """Register a closure method of your own, for ``method=name`` in `closure`, the path functions and the command.

    Parameters
    ----------
    name : str
        A name that no method has.
    method : Method or callable
        ``close(engine, A)``, a function that closes a matrix A (n, n) in place by the operations of an
        `semiring.kernels.engine.Engine`. Or a `Method`, which is registered under this name. The caller of the method
        handles names, signs, "no path" of integers, stacks, A⁺ and predecessors. The method may raise `AlgebraError`
        for a semiring that it does not close.
    **traits : object
        Those of `Method`: ``storages``, ``recorded``, ``apart``, ``needs``, ``takes``, ``pairs``, ``devices``.

    Returns
    -------
    Method
        The registered method.

    Raises
    ------
    MethodError
        If a method has the name already, ``method`` is no function, or a trait is unknown.

    Examples
    --------
    >>> from semiring.algorithms.rkleene import rkleene
    >>> register_method("mine", lambda engine, A: rkleene(engine, A))
    Method(name='mine', storages=('elements',), recorded=False, needs=(), takes='matrix')
    >>> "mine" in METHODS
    True
    >>> unregister_method("mine")
    """
    new_method = _make_method(name, method, traits)
    if name in METHODS:
        raise MethodError(f"{name!r} is a closure method already: choose another name")
    _methods[name] = new_method
    notify()
    return new_method


def unregister_method(name: str) -> None:
    """Remove a registered closure method.

    Parameters
    ----------
    name : str
        The name of the method.

    Raises
    ------
    MethodError
        If the method is built in, or the name is unknown.
    """
    if name not in _methods or any(method.name == name for method in _BUILT_IN):
        raise MethodError(f"{name!r} is not a registered closure method")
    del _methods[name]
    notify()


def method_named(name: str | Method) -> Method:
    """Return the method with this name, or the `Method` itself.

    Raises `UnknownNameError`, which lists the valid names, and `MethodError` where an entry point cannot be imported or
    is no method.
    """
    if isinstance(name, Method):  # a rule has built it from the scans of one graph
        return name
    entry = _methods.get(name)
    return _load_method(name) if entry is None else entry


def takes_edges(name: str | Method) -> bool:
    """Return whether the method with this name takes edges; ``"auto"`` does not."""
    return name != AUTO and method_named(name).takes == "edges"


def is_structural(name: str | Method) -> bool:
    """Return whether the method with this name closes only matrices of graphs with some structure."""
    return name != AUTO and bool(method_named(name).structure)


def matrix_methods() -> list[str]:
    """Return the names of `METHODS`, except methods known to take edges or to need a structure of the graph."""
    entries = [(name, _methods.get(name)) for name in METHODS]
    return [name for name, method in entries if method is None or (method.takes == "matrix" and not method.structure)]


def methods_for(device: str) -> list[str]:
    """Return the names of `METHODS` that run on a device, "cpu" or "cuda", including methods not yet loaded."""
    entries = [(name, _methods.get(name)) for name in METHODS]
    return [name for name, method in entries if method is None or device in method.devices]


def methods_by_device(names: Iterable[str]) -> dict[str, list[str]]:
    """Group names of methods by the devices on which they run, as `UnknownNameError` lists them."""
    names = set(names)
    return {where: sorted(names & set(methods_for(device))) for where, device in _DEVICE_NAMES.items()}


_DEVICE_NAMES = {"on the CPU": "cpu", "on a GPU": "cuda"}


def _make_method(name: str, method: Any, traits: dict[str, Any]) -> Method:
    names = [field.name for field in fields(Method)[2:]]
    unknown = sorted(set(traits) - set(names))
    if unknown:
        raise MethodError(f"a closure method has no trait {', '.join(unknown)}: its traits are {', '.join(names)}")
    return replace(method, name=name, **traits) if isinstance(method, Method) else Method(name, method, **traits)


@cache
def _find_installed() -> dict[str, EntryPoint]:
    """Return the entry points of methods of installed packages, by name.

    The search takes some milliseconds, so it runs only for a name that is not registered.
    """
    from importlib.metadata import entry_points

    return {entry.name: entry for entry in entry_points(group=_GROUP)}


def _load_method(name: str) -> Method:
    """Load the method of another package, and register it."""
    if name not in _find_installed():
        raise UnknownNameError("closure method", name, METHODS, methods_by_device(METHODS))
    entry = _find_installed()[name]
    try:
        method = _methods[name] = _make_method(name, entry.load(), {})
    except Exception as error:  # the code of another package may raise any exception
        raise MethodError(f"the closure method {name!r} cannot be loaded from {entry.value}: {error}") from error
    return method
