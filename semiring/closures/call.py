"""A call of `closure`: what was asked for, and what scans of the entries have found.

A `Kind` is what is known of a call before anybody looks at its entries. Calls of one kind differ in their entries
alone. A *scan* is one pass over the entries, or one search in them. A `Call` makes each scan once, when a question
first needs its result.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias, TypeVar

import numpy as np

from semiring import profiling
from semiring.algebra import Semiring
from semiring.algebra.catalogue import min_plus
from semiring.algorithms.potentials.exact import Exact
from semiring.algorithms.potentials.reweighting import reweighting
from semiring.algorithms.potentials.weights import Weights, finite_range
from semiring.arrays.encoding import inner_zero
from semiring.arrays.entries import check_by_threads, check_entries
from semiring.arrays.operands import has_adjacent_elements, memory_of
from semiring.arrays.scans import Scan
from semiring.graphs.structure import Structure, structure_of, structure_on_device
from semiring.kernels import named_backend
from semiring.namespaces import is_device_array

if TYPE_CHECKING:
    from semiring.algorithms.methods import Method
    from semiring.algorithms.predecessors import Inspection
    from semiring.closures.explanation import Explanation

__all__ = ["Call", "Kind", "Options", "Part", "Strips", "is_tropical"]

Array: TypeAlias = Any  # a NumPy array, on a GPU a CuPy array; a `BitMatrix`; a SciPy sparse matrix
Found = TypeVar("Found")

_SMALL = 1 << 24  # bytes: the least of fewer is found alone, for a look at the signs would read them once more
_least, _greatest = np.minimum.reduce, np.maximum.reduce


class Options(NamedTuple):
    """What a public call asks for that decides how matrices of a kind are closed."""

    semiring: Semiring
    method: str = "auto"  # as the caller named it
    threads: int = 1
    check: bool = True
    structure: frozenset[str] = frozenset()  # the names of the rules that may use the structure of the graph
    compute_dtype: Any = None  # the dtype that the caller wants the arithmetic in; None is the library's choice


class Part(NamedTuple):
    """What a call inherits whose matrix is a part of another, already read through the maps of that one."""

    after: str  # the rule that made it: those that follow are asked
    semiring: Semiring  # in which it is closed, whatever the semiring of the caller
    method: str  # which was chosen for the whole matrix
    examined: bool  # whether the structure of the whole was scanned


class Strips(NamedTuple):
    """How a matrix is closed of which there are only some rows, or tiles, where they are worked on."""

    scan: Callable[[Array, Semiring], Scan]  # `check_entries` of its array
    sample: Array  # (0, n): of the library of the rows that are worked on
    storage: Literal["elements", "bits"] = "elements"
    called: str = "strips"  # what these are, in an error
    whole: str = "the file"  # and what holds all of them


class Kind(NamedTuple):
    """What is known of a call before any scan of its entries: plans are kept by it."""

    options: Options
    name: str  # of the semiring: equal ones may be called differently, and errors print the name
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    storage: Literal["elements", "bits", "sparse"] = "elements"
    device: int | None = None  # the number of the GPU that holds the array
    adjacent: bool = True  # whether the entries of a row lie side by side; asked on a GPU alone
    turned: bool = False  # whether columns are closed for rows: edges are the caller's, reversed
    plus: bool = False  # A⁺ instead of A*
    traced: bool = False  # whether predecessors are found
    reports: bool = False  # whether progress is reported
    rounded_to: Any = None  # the dtype whose rounding the entries bring, where it is not theirs
    backend: str | None = None  # the one that the environment names
    profiled: bool = False
    part: Part | None = None
    strips: tuple[str, str] | None = None  # of `Strips`: what it is called, and its storage
    devices: tuple[int, ...] = ()  # the GPUs that close it together
    spread: Method | None = None  # and how


@lru_cache(maxsize=1024)
def is_tropical(semiring: Semiring) -> bool:
    """Whether closures of the semiring are those of min-plus or max-plus: negative cycles have no star in it."""
    return semiring.tropical is not None and (semiring.divergence is not None or semiring.absorptive)


@lru_cache(maxsize=1024)
def _one_end_decides(semiring: Semiring, dtype: np.dtype[Any]) -> bool:
    """Whether the least weight says all: then no number is outside the domain."""
    return dtype.kind == "f" and is_tropical(semiring) and semiring.domain.everything


class _FoundOnce:
    """A property that is found once, and kept: `functools.cached_property` takes a lock before Python 3.12."""

    def __init__(self, find: Callable[[Any], Any]) -> None:
        self._find, self._name, self.__doc__ = find, find.__name__, find.__doc__

    def __get__(self, call: Any, _: Any) -> Any:
        if call is None:
            return self
        found = call.__dict__[self._name] = self._find(call)
        return found


class Call:
    """The array of one call, its kind, and what scans of it have found.

    ``known`` sets results of scans in advance, by their names: those of a part of another call.
    """

    progress: Callable[[int, int], None] | None = None
    inspect: Inspection | None = None
    explanation: Explanation | None = None  # None where nobody wants to read it
    strips: Strips | None = None
    depth = 0  # of the lines of an explanation
    matrix_of_stack = 0  # the number of the matrix in the stack that it belongs to; only the first is explained
    stack: tuple[int, ...] = ()  # (...) of the caller's (..., n, n), where that is not the shape of the array
    wider: np.dtype[Any] | None = None  # the integers of a second attempt

    def __init__(self, A: Array, kind: Kind, **known: Any) -> None:
        self.A, self.kind = A, kind
        if known:
            self.__dict__.update(known)

    @classmethod
    def of_array(cls, A: Array, options: Options, plus: bool, progress: Any = None) -> Call:
        """The call for an array as it is: as `of`, which takes a microsecond more."""
        where = named_backend(), profiling.active
        on_host = type(A) is np.ndarray
        device, in_rows = (None, True) if on_host else (A.device.id, has_adjacent_elements(A))
        kind = Kind(
            *(options, options.semiring.name, A.dtype, A.shape, "elements", device, in_rows, False),
            *(plus, False, progress is not None, None, *where),
        )
        call = cls(A, kind)
        if progress is not None:
            call.progress = progress
        return call

    @classmethod
    def of(
        cls, A: Array, options: Options, *, inspect: Any = None, progress: Any = None, strips: Any = None, **known: Any
    ) -> Call:
        """The call for an array, or a `BitMatrix`; ``known``: also fields of its `Kind`."""
        memory = memory_of(A) if strips is None else strips.sample
        device = memory.device.id if is_device_array(memory) else None
        fields = {name: known.pop(name) for name in list(known) if name in Kind._fields}
        storage = "bits" if memory is not A and strips is None else "elements"
        if strips is not None:
            fields["strips"] = strips.called, strips.storage
        kind = Kind(
            options,
            options.semiring.name,
            A.dtype,
            A.shape,
            storage=fields.pop("storage", storage),
            device=device,
            adjacent=device is None or strips is not None or has_adjacent_elements(A),
            traced=inspect is not None,
            reports=progress is not None,
            backend=named_backend(),
            profiled=profiling.active,
            **fields,
        )
        return cls(A, kind, inspect=inspect, progress=progress, strips=strips, **known)

    def part(self, A: Array, **changes: Any) -> Call:
        """The call for another array; ``changes`` of fields of its kind, and what is known of the entries.

        It explains itself one level deeper. Nothing is known of its entries, but for what is said.
        """
        fields = {name: changes.pop(name) for name in list(changes) if name in Kind._fields}
        kind = self.kind._replace(dtype=A.dtype, shape=A.shape, **fields)
        changes = {"progress": self.progress, "inspect": self.inspect, **changes}
        kind = kind._replace(traced=changes["inspect"] is not None, reports=changes["progress"] is not None)
        place = {"explanation": self.explanation, "depth": self.depth + 1, "strips": self.strips}
        return Call(A, kind, **{**place, **changes})

    def again(self, **answers: Any) -> Call:
        """The same call, with all that is known of its entries, and other ``answers``."""
        other = object.__new__(Call)
        other.__dict__.update(self.__dict__, **answers)
        return other

    def found(self, find: Callable[[Call], Found]) -> Found:
        """What ``find(call)`` has found, once for a call."""
        kept = self.__dict__.setdefault("_found", {})
        if find not in kept:
            kept[find] = find(self)
        return kept[find]  # type: ignore[no-any-return]

    def set_found(self, find: Callable[[Call], Found], value: Found) -> None:
        """Keep what another run has found by ``find``."""
        self.__dict__.setdefault("_found", {})[find] = value

    def note(self, reason: str) -> None:
        """Add a reason to the explanation, if somebody wants to read one."""
        if self.explanation is not None:
            self.explanation.note(reason)

    # ------------------------------------------------------------------------------------------------ what is asked

    @property
    def semiring(self) -> Semiring:
        """As the caller named it."""
        return self.kind.options.semiring

    @property
    def threads(self) -> int:
        return self.kind.options.threads

    @property
    def n(self) -> int:
        return self.kind.shape[-1]

    @property
    def sign(self) -> int:
        """-1 where the array holds weights of max-plus, which are closed as their negatives."""
        return -1 if self.kind.part is None and self.semiring.tropical == "max" and is_tropical(self.semiring) else 1

    @property
    def waits(self) -> bool:
        """Whether a device may be waited for; if not, nothing that depends on the data is raised."""
        k = self.kind
        return k.options.check or k.device is None or k.strips is not None

    @property
    def scanned(self) -> bool:
        """Whether the entries are scanned: in min-plus and max-plus their signs and range decide."""
        k = self.kind
        return k.options.check or (self.waits and is_tropical(k.options.semiring)) or k.part is not None

    def caller(self, vertices: Sequence[int]) -> list[int]:
        """The vertices of a path or a cycle as the caller walks it, so that an error is right where it is raised."""
        found = list(map(int, vertices))
        return found[::-1] if self.kind.turned else found

    # --------------------------------------------------------------------------------------------------- the entries

    @_FoundOnce
    def none(self) -> Any:
        """What stands for "no path" in the array."""
        k = self.kind
        return inner_zero(k.part.semiring, k.dtype) if k.part is not None else k.options.semiring.zero_for(k.dtype)

    @_FoundOnce
    def scan(self) -> Scan:
        """NaN, the domain, the range and the signs. Raises `DomainError`.

        Without ``check`` min-plus weights are taken to be ≥ 0, and nothing is known of others.
        """
        semiring = self.semiring
        if not self.scanned:
            return Scan(0, 0) if is_tropical(semiring) else Scan()
        A = self.A.T if self.kind.turned and self.strips is None else self.A  # errors name the caller's entry
        if self.strips is not None:
            found = self.strips.scan(A, semiring)
        elif type(A) is np.ndarray and A.nbytes < _SMALL:
            found = check_entries(A, semiring)
        else:
            found = check_by_threads(A, semiring, self.threads)
        if semiring.tropical is not None and found.low is None:  # no numbers at all
            return Scan(0, 0, nonnegative=found.nonnegative)
        return found

    @_FoundOnce
    def one_end(self) -> bool:
        """Whether the least weight is found alone: in a small matrix of floats, of which nobody asks more."""
        k = self.kind
        if k.part is not None or not _one_end_decides(k.options.semiring, k.dtype):
            return False
        return type(self.A) is np.ndarray and 0 < self.A.nbytes < _SMALL

    @_FoundOnce
    def least(self) -> Any:
        """The least weight as min-plus sees it, None where it is unknown. Raises `DomainError`.

        Of a small matrix of floats one end of their range says all, and takes half as long as the whole scan: all of
        them but NaN are in the domain, if that is not a user's.
        """
        A, semiring = self.A, self.kind.options.semiring
        if self.one_end and "scan" not in self.__dict__:
            found = _least(A, None) if semiring.tropical == "min" else -_greatest(A, None)
            if found != found:
                check_entries(A.T if self.kind.turned else A, semiring)  # raises, and names the entry
            return found
        low, high, *_ = self.scan
        if self.sign > 0:
            return low
        return None if high is None else -high

    @property
    def greatest(self) -> Any:
        """The greatest weight as min-plus sees it, None where it is unknown."""
        low, high, *_ = self.scan
        if self.sign > 0:
            return high
        return None if low is None else -low

    @_FoundOnce
    def weights(self) -> Weights:
        """The weights of min-plus, as the search for potentials sees them."""
        k = self.kind
        if k.dtype.kind == "f":
            low, high = finite_range(self.A, self.sign)
        else:
            low, high = int(self.least), int(self.greatest)
        unbounded = k.part is None and bool(self.least == -np.inf)
        return Weights.of(self.A, self.sign, self.none, low, high, unbounded, k.turned, k.rounded_to)

    @_FoundOnce
    def potentials(self) -> Array | Exact:
        """Potentials (n,) under which no weight is below 0, or exact ones.

        Raises `NegativeCycleError`; `DomainError` where sums of weights may leave the range of floats.
        """
        return reweighting(self.weights, self.threads, in_memory=self.strips is None)

    @_FoundOnce
    def structure(self) -> Structure:
        """What one look at the graph finds: symmetry, few edges, one weight, components."""
        from semiring.kernels import backend_for

        k, part = self.kind, self.kind.part
        if k.device is None:
            return structure_of(self.A, self.none, self.threads)
        semiring = min_plus if is_tropical(self.semiring) else self.semiring
        graphs: Any = backend_for(self.A, semiring if part is None else part.semiring, k.dtype).capabilities.graphs
        return structure_on_device(self.A, self.none, self.threads, graphs)
