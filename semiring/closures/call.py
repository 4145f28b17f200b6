"""Describe a call of `closure`: its array, its options, and the results of scans of the entries.

A `Kind` describes a call without reading its entries. Calls of one kind differ only in their entries. A *scan* is one
pass over the entries, or one search in them. A `Call` makes each scan once, when a question first needs its result.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar

import numpy as np

from semiring import profiling
from semiring.algebra import Semiring
from semiring.algebra.catalogue import min_plus
from semiring.algorithms.potentials.exact_arithmetic import ExactComponentPotentials
from semiring.algorithms.potentials.reweighting import choose_potentials
from semiring.algorithms.potentials.tropical_weights import Weights, finite_range
from semiring.arrays.encoding import inner_zero
from semiring.arrays.entries import check_by_threads, check_entries
from semiring.arrays.operands import has_adjacent_elements, memory_of
from semiring.arrays.scans import Scan, refuse_unbounded
from semiring.graphs.graph_structure import Structure, structure_of, structure_on_device
from semiring.kernels import named_backend
from semiring.namespaces import Array, is_device_array

if TYPE_CHECKING:
    from semiring.algorithms.methods import Method
    from semiring.algorithms.predecessors import PredecessorSearch
    from semiring.closures.explanation import Explanation

__all__ = ["Call", "Kind", "Options", "Part", "Strips", "is_tropical"]

Result = TypeVar("Result")

_SMALL = 1 << 24  # bytes: below this size one reduction finds the least weight, and no scan of the signs follows
_least, _greatest = np.minimum.reduce, np.maximum.reduce


class Options(NamedTuple):
    """The options of a public call that decide how matrices of a kind are closed."""

    semiring: Semiring
    method: str = "auto"  # the method that the caller named
    threads: int = 1
    check: bool = True
    structure: frozenset[str] = frozenset()  # the names of the rules that may use the structure of the graph
    compute_dtype: Any = None  # the dtype of the arithmetic that the caller requested; None: the library chooses


class Part(NamedTuple):
    """The decisions that a call for a part of a matrix inherits. The outer maps were already applied to its entries."""

    after_rule: str  # the rule that made the part: the rules behind it apply to the part
    semiring: Semiring  # the semiring in which the part is closed; that of the caller may differ
    method: str  # the method of the whole matrix
    may_use_structure: bool  # whether the structure of the whole matrix was scanned


class Strips(NamedTuple):
    """The source of a matrix that is closed in pieces: strips of rows of a file, or tiles of several ranks."""

    scan: Callable[[Array, Semiring], Scan]  # computes what `check_entries` does for the whole matrix
    sample: Array  # (0, n): an empty array of the library and device in which pieces are closed
    storage: Literal["elements", "bits"] = "elements"
    piece_name: str = "strips"  # the plural that errors print
    whole_name: str = "the file"  # the name that errors print for the memory that holds all pieces


class StripKind(NamedTuple):
    """The part of `Strips` that belongs to the kind of a call."""

    piece_name: str
    storage: Literal["elements", "bits"]


class Kind(NamedTuple):
    """The properties of a call that need no scan of its entries: the cache key of plans."""

    options: Options
    name: str  # the name of the semiring: equal semirings may have different names, and errors print the name
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    storage: Literal["elements", "bits", "sparse"] = "elements"
    device: int | None = None  # the number of the GPU that holds the array
    has_adjacent_rows: bool = True  # whether the entries of a row lie side by side; always True on the host
    is_transposed: bool = False  # whether the array is the transpose of the caller's: all edges are reversed
    plus: bool = False  # A⁺ instead of A*
    needs_predecessors: bool = False
    has_progress: bool = False  # whether progress is reported
    rounded_to: Any = None  # the dtype to which the entries were rounded, if it differs from their own
    backend: str | None = None  # the backend that the environment names
    is_profiled: bool = False
    part: Part | None = None
    strips: StripKind | None = None
    devices: tuple[int, ...] = ()  # the GPUs that close the matrix together
    joint_method: Method | None = None  # the method by which these GPUs do so


@lru_cache(maxsize=1024)
def is_tropical(semiring: Semiring) -> bool:
    """Return whether closures of the semiring are those of min-plus or max-plus: negative cycles have no star."""
    return semiring.tropical is not None and (semiring.divergence is not None or semiring.absorptive)


@lru_cache(maxsize=1024)
def _least_decides(semiring: Semiring, dtype: np.dtype[Any]) -> bool:
    """Return whether the least weight decides the signs, because every number except NaN is in the domain."""
    return dtype.kind == "f" and is_tropical(semiring) and semiring.domain.everything


class _CachedScan:
    """A property that is computed once for each call: `functools.cached_property` takes a lock before Python 3.12."""

    def __init__(self, find: Callable[[Any], Any]) -> None:
        self._find, self._name, self.__doc__ = find, find.__name__, find.__doc__

    def __get__(self, call: Any, _: Any) -> Any:
        if call is None:
            return self
        result = call.__dict__[self._name] = self._find(call)
        return result


class Call:
    """The array of one call, its kind, and the results of scans of the array.

    Parameters
    ----------
    A
        The array (n, n) or (..., n, n), a `BitMatrix`, or a SciPy sparse matrix.
    kind
        The kind of the call.
    results
        Attributes of this call, and results of scans by their names. A part of another call inherits results so.
    """

    progress: Callable[[int, int], None] | None = None
    inspection: PredecessorSearch | None = None
    explanation: Explanation | None = None  # None: no explanation was requested
    strips: Strips | None = None
    depth = 0  # the indentation of the lines of an explanation
    matrix_of_stack = 0  # the number of the matrix in the stack that it belongs to; only the first is explained
    stack: tuple[int, ...] = ()  # (...) of the caller's (..., n, n), where that is not the shape of the array
    wider_dtype: np.dtype[Any] | None = None  # the integer dtype of a second attempt

    def __init__(self, A: Any, kind: Kind, **results: Any) -> None:
        self.A, self.kind = A, kind
        if results:
            self.__dict__.update(results)

    @classmethod
    def from_plain_array(cls, A: Any, options: Options, plus: bool, progress: Any = None) -> Call:
        """Return the call for an array without further options, a microsecond faster than `from_array`."""
        is_on_host = type(A) is np.ndarray
        kind = Kind(
            options,
            options.semiring.name,
            A.dtype,
            A.shape,
            device=None if is_on_host else A.device.id,
            has_adjacent_rows=is_on_host or has_adjacent_elements(A),
            plus=plus,
            has_progress=progress is not None,
            backend=named_backend(),
            is_profiled=profiling.active,
        )
        call = cls(A, kind)
        if progress is not None:
            call.progress = progress
        return call

    @classmethod
    def from_array(
        cls,
        A: Any,
        options: Options,
        *,
        inspection: Any = None,
        progress: Any = None,
        strips: Any = None,
        **results: Any,
    ) -> Call:
        """Return the call for an array or a `BitMatrix`; ``results`` may also hold fields of its `Kind`."""
        memory = memory_of(A) if strips is None else strips.sample
        device = memory.device.id if is_device_array(memory) else None
        fields = {name: results.pop(name) for name in list(results) if name in Kind._fields}
        storage = "bits" if memory is not A and strips is None else "elements"
        if strips is not None:
            fields["strips"] = StripKind(strips.piece_name, strips.storage)
        kind = Kind(
            options,
            options.semiring.name,
            A.dtype,
            A.shape,
            storage=fields.pop("storage", storage),
            device=device,
            has_adjacent_rows=device is None or strips is not None or has_adjacent_elements(A),
            needs_predecessors=inspection is not None,
            has_progress=progress is not None,
            backend=named_backend(),
            is_profiled=profiling.active,
            **fields,
        )
        return cls(A, kind, inspection=inspection, progress=progress, strips=strips, **results)

    def part(self, A: Array, **changes: Any) -> Call:
        """Return the call for another array, whose explanation is indented one level deeper.

        ``changes``: fields of its kind, attributes, and results of scans. It inherits no other results of scans.
        """
        fields = {name: changes.pop(name) for name in list(changes) if name in Kind._fields}
        kind = self.kind._replace(dtype=A.dtype, shape=A.shape, **fields)
        changes = {"progress": self.progress, "inspection": self.inspection, **changes}
        kind = kind._replace(
            needs_predecessors=changes["inspection"] is not None, has_progress=changes["progress"] is not None
        )
        place = {"explanation": self.explanation, "depth": self.depth + 1, "strips": self.strips}
        return Call(A, kind, **{**place, **changes})

    def with_answers(self, **answers: Any) -> Call:
        """Return the same call with all its results of scans, and with ``answers`` in place of some of them."""
        other = object.__new__(Call)
        other.__dict__.update(self.__dict__, **answers)
        return other

    def result_of(self, scan: Callable[[Call], Result]) -> Result:
        """Return ``scan(call)``, which runs once for each call."""
        results = self.__dict__.setdefault("_results", {})
        if scan not in results:
            results[scan] = scan(self)
        return results[scan]  # type: ignore[no-any-return]

    def set_result(self, scan: Callable[[Call], Result], value: Result) -> None:
        """Set the result of ``scan`` to that of an earlier run."""
        self.__dict__.setdefault("_results", {})[scan] = value

    def note(self, reason: str) -> None:
        """Add a reason to the explanation, if one was requested."""
        if self.explanation is not None:
            self.explanation.note(reason)

    # --------------------------------------------------------------------------------------------------- the options

    @property
    def semiring(self) -> Semiring:
        """The semiring of the caller."""
        return self.kind.options.semiring

    @property
    def threads(self) -> int:
        return self.kind.options.threads

    @property
    def n(self) -> int:
        return self.kind.shape[-1]

    @property
    def sign(self) -> int:
        """-1 if the array holds weights of max-plus, which are closed as their negatives; else 1."""
        return -1 if self.kind.part is None and self.semiring.tropical == "max" and is_tropical(self.semiring) else 1

    @property
    def may_synchronize(self) -> bool:
        """Whether the call may wait for a device; otherwise it raises nothing that depends on the data."""
        k = self.kind
        return k.options.check or k.device is None or k.strips is not None

    @property
    def may_scan(self) -> bool:
        """Whether scans may read the entries: in min-plus and max-plus their signs and range decide the plan."""
        k = self.kind
        return k.options.check or (self.may_synchronize and is_tropical(k.options.semiring)) or k.part is not None

    def to_caller_direction(self, vertices: Sequence[int]) -> list[int]:
        """Return the vertices of a path or a cycle in the caller's direction, for an error."""
        path = list(map(int, vertices))
        return path[::-1] if self.kind.is_transposed else path

    # --------------------------------------------------------------------------------------------------- the entries

    @_CachedScan
    def none(self) -> Any:
        """The value for "no path" in the array."""
        k = self.kind
        return inner_zero(k.part.semiring, k.dtype) if k.part is not None else k.options.semiring.zero_for(k.dtype)

    @_CachedScan
    def scan(self) -> Scan:
        """The range and the signs of the entries. Raises `DomainError` for NaN and entries outside the domain.

        Without ``check`` weights of min-plus count as ≥ 0, and the range in other semirings is unknown.
        """
        semiring = self.semiring
        if not self.may_scan:
            return Scan(0, 0) if is_tropical(semiring) else Scan()
        A = self.A.T if self.kind.is_transposed and self.strips is None else self.A  # errors name the caller's entry
        if self.strips is not None:
            scan = self.strips.scan(A, semiring)
        elif type(A) is np.ndarray and A.nbytes < _SMALL:
            scan = check_entries(A, semiring)
        else:
            scan = check_by_threads(A, semiring, self.threads)
        if self.kind.part is None and is_tropical(semiring):
            refuse_unbounded(self.A.T if self.kind.is_transposed else self.A, scan, semiring)
        if semiring.tropical is not None and scan.low is None:  # the matrix has no edges
            return Scan(0, 0, nonnegative=scan.nonnegative)
        return scan

    @_CachedScan
    def needs_least_weight_only(self) -> bool:
        """Whether a reduction finds the least weight without a scan: in a small matrix of floats in host memory."""
        k = self.kind
        if k.part is not None or not _least_decides(k.options.semiring, k.dtype):
            return False
        return type(self.A) is np.ndarray and 0 < self.A.nbytes < _SMALL

    @_CachedScan
    def least_weight(self) -> Any:
        """The least weight as min-plus reads it, None where it is unknown. Raises `DomainError`.

        In a small matrix of floats one end of the range suffices, which takes half as long as the whole scan. All
        floats except NaN are in the domain, unless a user has restricted it.
        """
        A, semiring = self.A, self.kind.options.semiring
        if self.needs_least_weight_only and "scan" not in self.__dict__:
            least = _least(A, None) if semiring.tropical == "min" else -_greatest(A, None)
            if least != least or least == -np.inf:
                return self.scan.low  # raises, and names the entry
            return least
        low, high, *_ = self.scan
        if self.sign > 0:
            return low
        return None if high is None else -high

    @property
    def greatest_weight(self) -> Any:
        """The greatest weight as min-plus reads it, None where it is unknown."""
        low, high, *_ = self.scan
        if self.sign > 0:
            return high
        return None if low is None else -low

    @_CachedScan
    def weights(self) -> Weights:
        """The weights of min-plus in the form that the search for potentials reads."""
        k = self.kind
        if k.dtype.kind == "f":
            low, high = finite_range(self.A, self.sign)
        else:
            low, high = int(self.least_weight), int(self.greatest_weight)
        return Weights.from_matrix(self.A, self.sign, self.none, low, high, k.is_transposed, k.rounded_to)

    @_CachedScan
    def potentials(self) -> Array | ExactComponentPotentials:
        """Potentials (n,) under which no weight is below 0, in floating point or exact.

        Raises `NegativeCycleError`; `DomainError` where sums of weights may leave the range of floats.
        """
        return choose_potentials(self.weights, self.threads, in_memory=self.strips is None)

    @_CachedScan
    def structure(self) -> Structure:
        """The structure of the graph, found by one scan: symmetry, few edges, one weight, components."""
        from semiring.kernels import backend_for

        k, part = self.kind, self.kind.part
        if k.device is None:
            return structure_of(self.A, self.none, self.threads)
        semiring = min_plus if is_tropical(self.semiring) else self.semiring
        graphs: Any = backend_for(self.A, semiring if part is None else part.semiring, k.dtype).capabilities.graphs
        return structure_on_device(self.A, self.none, self.threads, graphs)
