"""Describe a closure: its operand and options, what scans find out about the entries, and how the entries are read.

`Facts` hold what scans find out about the entries of one operand. A *scan* is one pass over the entries, or one search
in them. A fact is found when it is first read, and then kept. A `Problem` says what is wanted, and how the entries are
read: in which semiring and dtype, through which maps. An encoding makes another problem of the same facts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, NamedTuple, TypeVar

import numpy as np

from semiring import profiling
from semiring.algebra import Semiring
from semiring.algebra.catalogue import min_plus
from semiring.algorithms.algorithm import AUTO, LEAST, LEAST_ON_DEVICE, Circumstances, Method, MethodOptions
from semiring.algorithms.dense import dense_method_of
from semiring.algorithms.johnson import SparseGraph, graph_potentials, sparse_graph
from semiring.algorithms.methods import is_structural, method_named
from semiring.algorithms.potentials.exact_arithmetic import ExactComponentPotentials
from semiring.algorithms.potentials.reweighting import choose_potentials, potentials_by_sweeps
from semiring.algorithms.potentials.scales import cycle_weights, may_gain, scales
from semiring.algorithms.potentials.small_matrices import SMALL
from semiring.algorithms.potentials.tropical_weights import Weights, check_range, finite_range, negligible_amount
from semiring.algorithms.schedule import dense_operations
from semiring.algorithms.stacks import find_small_loop
from semiring.algorithms.stars import counts_paths, gain_error
from semiring.arrays.encoding import inner_zero
from semiring.arrays.entries import check_by_threads, check_entries
from semiring.arrays.operands import as_array, common_dtype, has_adjacent_elements, memory_of
from semiring.arrays.parts import to_host_array
from semiring.arrays.scans import Scan, refuse_unbounded
from semiring.arrays.sparse import stored_entries, warn_of_duplicates
from semiring.closures.matrix import EncodedMatrix, EntryMap
from semiring.errors import DomainError
from semiring.graphs.graph_structure import NO_STRUCTURE, Structure, analyze_sparse, structure_of, structure_on_device
from semiring.graphs.strongly_connected import Components, has_compiled_loops, run_strips, strong_components
from semiring.kernels import backend_for
from semiring.kernels.contract import Backend, KernelPlan
from semiring.kernels.engine import make_plan
from semiring.namespaces import Array, array_namespace, is_device_array

if TYPE_CHECKING:
    from semiring.algorithms.algorithm import Algorithm
    from semiring.algorithms.predecessors import PredecessorSearch
    from semiring.closures.choose import Choice
    from semiring.closures.explain import Explanation

__all__ = ["LEAST", "STRUCTURES", "Block", "Facts", "Options", "Problem", "Strips", "fact", "is_tropical"]

Result = TypeVar("Result")

LEAST_STORED = 256  # for stored edges of one weight: counting hops takes at most half the time of a dense closure

#: The uses of the structure of a graph, by the names for ``structure=``.
STRUCTURES = ("bottleneck", "hops", "reachability", "searches", "separators", "components", "undirected")

_SMALL = 1 << 24  # bytes: below this size one reduction finds the least weight, and no scan of the signs follows
_least, _greatest = np.minimum.reduce, np.maximum.reduce


class Options(NamedTuple):
    """The options of a public call that decide how a matrix is closed."""

    semiring: Semiring
    method: str = "auto"  # the method that the caller named
    threads: int = 1
    check: bool = True
    structure: frozenset[str] = frozenset()  # the uses of the structure of the graph that the caller allows
    compute_dtype: Any = None  # the dtype of the arithmetic that the caller requested; None: the library chooses
    method_options: MethodOptions = ()  # the options of the named method


class Strips(NamedTuple):
    """The source of a matrix that is closed in pieces: strips of rows of a file, or tiles of several ranks."""

    scan: Callable[[Array, Semiring], Scan]  # computes what `check_entries` does for the whole matrix
    sample: Array  # (0, n): an empty array of the library and device in which pieces are closed
    storage: Literal["elements", "bits"] = "elements"
    piece_name: str = "strips"  # the plural that errors print
    whole_name: str = "the file"  # the name that errors print for the memory that holds all pieces


class Block(NamedTuple):
    """A strong component that is closed as a problem of its own: its rows, and some of its facts by their names."""

    start: int
    stop: int
    facts: dict[str, Any]


class fact(Generic[Result]):  # noqa: N801, a decorator
    """A property that is found once for each operand: `functools.cached_property` takes a lock before Python 3.12."""

    def __init__(self, find: Callable[[Any], Result]) -> None:
        self.find, self.name, self.__doc__ = find, find.__name__, find.__doc__

    def __get__(self, facts: Any, _: Any) -> Result:
        if facts is None:
            return self  # type: ignore[return-value]
        if profiling.active:
            with profiling.span("scan", self.name.replace("_", " ")):
                result = facts.__dict__[self.name] = self.find(facts)
        else:
            result = facts.__dict__[self.name] = self.find(facts)
        return result


@lru_cache(maxsize=1024)
def is_tropical(semiring: Semiring) -> bool:
    """Return whether closures of the semiring are those of min-plus or max-plus: negative cycles have no star."""
    return semiring.tropical is not None and (semiring.divergence is not None or semiring.absorptive)


@lru_cache(maxsize=1024)
def _traits(semiring: Semiring, dtype: np.dtype[Any]) -> tuple[Any, bool, int, bool]:
    """Return 0̄, `Facts.is_tropical`, `Facts.sign`, and whether the least weight decides the signs of a small matrix.

    It does if every number except NaN is in the domain. Raises `DTypeError` if the semiring is not defined on the
    dtype.
    """
    if not semiring.supports(dtype):
        common_dtype(semiring, np.empty(0, dtype))  # raises
    tropical = is_tropical(semiring)
    sign = -1 if tropical and semiring.tropical == "max" else 1
    return semiring.zero_for(dtype), tropical, sign, dtype.kind == "f" and tropical and semiring.domain.everything


class Facts:
    """The operand of a closure, and what scans find out about its entries.

    Parameters
    ----------
    operand
        An array (n, n) or (count, n, n), a `BitMatrix`, a SciPy sparse matrix, or a matrix in pieces.
    options
        The options of the public call.
    semiring
        The semiring of a part of another problem, whose encodings were already applied to its entries; None otherwise.
    strips
        The source of a matrix in pieces.
    rounded_to
        The dtype to which the entries were rounded, if it differs from their own.
    is_transposed
        Whether the operand is the transpose of the caller's: all edges are reversed.
    devices
        The numbers of the GPUs that close the matrix together.
    fact_values
        Facts that were found before, by their names.

    Raises `DTypeError` if the semiring is not defined on the dtype.
    """

    def __init__(
        self,
        operand: Any,
        options: Options,
        *,
        semiring: Semiring | None = None,
        strips: Strips | None = None,
        rounded_to: Any = None,
        is_transposed: bool = False,
        devices: tuple[int, ...] = (),
        **fact_values: Any,
    ) -> None:
        self.operand, self.options, self.strips, self.devices = operand, options, strips, devices
        self.rounded_to, self.is_transposed, self.is_part = rounded_to, is_transposed, semiring is not None
        self.semiring = semiring or options.semiring
        self.shape, self.dtype, self.n = operand.shape, operand.dtype, operand.shape[-1]
        self.storage: Literal["elements", "bits", "sparse"] = "elements"
        sample: Any = operand if strips is None else strips.sample
        if type(operand) is not np.ndarray and strips is None:
            self.storage = "bits" if hasattr(operand, "words") else "sparse" if hasattr(operand, "nnz") else "elements"
            sample = memory_of(operand)
        elif strips is not None:
            self.storage = strips.storage
        if self.storage != "sparse":
            self.__dict__["A"] = operand  # the fact `A`
        self.memory = sample  # an array in the memory of the kernels that close the matrix
        #: Whether the kernels of a GPU close the matrix.
        self.uses_device = type(sample) is not np.ndarray and self.storage != "sparse" and is_device_array(sample)
        #: Whether the entries are in the memory of a GPU.
        self.on_device = self.uses_device and strips is None
        #: Whether closures are those of min-plus or max-plus, and -1 for weights of max-plus, which are closed as their
        #: negatives.
        none, self.is_tropical, self.sign, self._least_decides = _traits(self.semiring, self.dtype)
        #: The value for "no path" in the operand.
        self.none: Any = inner_zero(semiring, self.dtype) if semiring is not None else none
        #: Whether the call may wait for a device; otherwise it raises nothing that depends on the entries.
        self.may_synchronize = options.check or not self.on_device
        #: Whether scans may read the entries: in min-plus and max-plus their signs and range decide.
        self.may_scan = options.check or (self.may_synchronize and self.is_tropical) or self.is_part
        if fact_values:
            self.__dict__.update(fact_values)

    def of(self, operand: Any, options: Options, *, is_transposed: bool | None = None, **fact_values: Any) -> Facts:
        """Return the facts of another operand for the same devices, whose entries were rounded to the same dtype."""
        transposed = self.is_transposed if is_transposed is None else is_transposed
        fact_values.setdefault("rounded_to", self.rounded_to)
        return Facts(operand, options, is_transposed=transposed, devices=self.devices, **fact_values)

    @fact
    def A(self) -> Any:  # noqa: N802, the field's name for the matrix
        """The array of all entries: the operand, or stored edges, which become an array when an algorithm reads them.

        The array is written in groups of rows by all threads if the edges are sorted: on one thread the page faults of
        new memory would take longer than the scan of the structure.
        """
        graph = self.__dict__.get("structure", NO_STRUCTURE)
        if graph.pattern is None or self.n < LEAST:
            return as_array(self.operand, self.semiring)
        array = np.empty(self.shape, self.dtype)
        starts, tails, heads = graph.pattern.starts, graph.pattern.rows, graph.pattern.indices

        def write(rows: slice) -> None:
            edges, part = slice(starts[rows.start], starts[rows.stop]), array[rows]
            part[...] = self.none
            places = (tails[edges].astype(np.int64) - rows.start) * self.n + heads[edges]
            part.reshape(-1)[places] = graph.values[edges]

        run_strips(write, self.n, self.options.threads)
        return array

    def to_caller_direction(self, vertices: Sequence[int]) -> list[int]:
        """Return the vertices of a path or a cycle in the caller's direction, for an error."""
        path = list(map(int, vertices))
        return path[::-1] if self.is_transposed else path

    # --------------------------------------------------------------------------------------------- range and signs

    @fact
    def scan(self) -> Scan:
        """The range and the signs of the entries. Raises `DomainError` for NaN and entries outside the domain.

        Without ``check`` weights of min-plus count as ≥ 0, and the range in other semirings is unknown.
        """
        semiring = self.semiring
        if not self.may_scan or self.storage == "bits":
            return Scan(0, 0) if self.is_tropical else Scan()
        scan = self._scan_stored_edges() if self.storage == "sparse" else self._scan_array()
        end = scan.low if self.sign > 0 else scan.high
        if not self.is_part and self.is_tropical and end is not None and end == -self.sign * np.inf:
            refuse_unbounded(self.A.T if self.is_transposed else self.A, scan, semiring)
        if semiring.tropical is not None and scan.low is None:  # the matrix has no edges
            return Scan(0, 0, nonnegative=scan.nonnegative)
        return scan

    def _scan_array(self) -> Scan:
        A, options = self.A, self.options
        if self.is_transposed and self.strips is None:  # errors name the caller's entry
            A = A.T
        if self.strips is not None:
            return self.strips.scan(A, options.semiring)
        if type(A) is np.ndarray and A.nbytes < _SMALL:
            return check_entries(A, options.semiring)
        return check_by_threads(A, options.semiring, options.threads)

    def _scan_stored_edges(self) -> Scan:
        """Return the scan of stored edges, and of the value for "no path" if some pair has none."""
        values = stored_entries(self.operand)[2]
        entries = np.append(values, np.asarray(self.none, self.dtype)) if values.size < self.n**2 else values
        try:
            return check_entries(entries, self.options.semiring)
        except DomainError:
            check_entries(self.A, self.options.semiring)  # raises, and names the entry
            raise

    @property
    def one_end_decides(self) -> bool:
        """Whether one end of the range decides the signs: in a small matrix of floats in host memory."""
        is_small = self._least_decides and not self.is_part and type(self.operand) is np.ndarray
        return is_small and 0 < self.operand.nbytes < _SMALL

    @fact
    def least_weight(self) -> Any:
        """The least weight as min-plus reads it, None where it is unknown. Raises `DomainError`.

        In a small matrix of floats one end of the range suffices, which takes half as long as the whole scan.
        """
        if self.one_end_decides and "scan" not in self.__dict__:
            least = _least(self.A, None) if self.sign > 0 else -_greatest(self.A, None)
            if least != least or least == -np.inf:
                return self.scan.low  # raises, and names the entry
            return least
        if self.sign > 0:
            return self.scan.low
        return None if self.scan.high is None else -self.scan.high

    @property
    def greatest_weight(self) -> Any:
        """The greatest weight as min-plus reads it, None where it is unknown."""
        if self.sign > 0:
            return self.scan.high
        return None if self.scan.low is None else -self.scan.low

    @fact
    def signs(self) -> Literal["clear", "zero", "below"]:
        """The signs of the weights; weights of max-plus are negated first.

        "clear": no weight is below 0, and no sign bit is set. "zero": no weight is below 0. "below": a weight is below
        0, or the range is unknown. Where the call must not wait for a device, weights of min-plus count as "zero".
        """
        if not self.is_tropical:
            low, _, _, nonnegative = self.scan
            return "clear" if nonnegative else "zero" if low is not None and low >= 0 else "below"
        if not self.may_synchronize:
            return "zero"
        least = self.least_weight
        if least is None or least < 0:
            return "below"
        if self.one_end_decides:
            return "clear" if least > 0 and self.sign > 0 else "zero"
        return "clear" if self.scan.nonnegative and self.sign > 0 else "zero"

    @fact
    def counts_paths(self) -> bool:
        """Whether the closure counts the paths of graphs without cycles, because the star of integers does not exist.

        Raises `DTypeError` for a cycle, and `IntegerOverflowError` for a number of paths that may leave the dtype.
        """
        if not counts_paths(self.semiring, self.dtype):
            return False
        from semiring.sparse.edge_inputs import edges_of
        from semiring.sparse.path_counts import check_counts

        operand = self.operand if self.storage == "sparse" else to_host_array(self.operand)
        for matrix in (operand,) if len(self.shape) == 2 else operand:
            check_counts(edges_of(matrix, self.semiring, check=False), self.semiring)
        return True

    @fact
    def weights_gain(self) -> bool:
        """Whether a path may be better than its parts: weights below 0 in min-plus, above 1 in max-times.

        Without ``check`` only the weights of min-plus and max-plus are read.
        """
        if self.is_tropical:
            return self.signs == "below"
        return self.may_scan and self.may_synchronize and bool(may_gain(self.semiring, self.scan.low, self.scan.high))

    @fact
    def sums_are_safe(self) -> bool:
        """Whether no weight of a stack gains, and no sum of integers comes near "no path"."""
        if self.weights_gain:
            return False
        if not self.is_tropical or self.dtype.kind != "i" or not self.may_synchronize:
            return True
        none = int(inner_zero(min_plus, self.dtype))
        return self.greatest_weight is None or bool(self.greatest_weight <= (none - 1) // (self.n + 1))

    @fact
    def small_loop(self) -> Any:
        """The backend's loop over few vertices whose weights gain, or None if they take more care."""
        return find_small_loop(self.operand, self.options.semiring, self.options.threads)

    # ----------------------------------------------------------------------------------------------- the structure

    @fact
    def structure(self) -> Structure:
        """The structure of the graph, found by one scan: symmetry, few edges, one weight, components."""
        if self.storage == "sparse" and not is_structural(self.options.method):
            return self._structure_of_stored_edges()
        if not self.uses_device:
            return structure_of(self.A, self.none, self.options.threads)
        semiring = min_plus if self.is_tropical else self.semiring
        graphs: Any = backend_for(self.A, semiring, self.dtype).capabilities.graphs
        return structure_on_device(self.A, self.none, self.options.threads, graphs)

    def _structure_of_stored_edges(self) -> Structure:
        """Return the structure of stored edges; of few vertices only if all stored weights are equal."""
        if self.options.method != "auto" or not self.options.structure:
            return NO_STRUCTURE
        if self.dtype.kind not in "fiub" or not has_compiled_loops(self.dtype):
            return NO_STRUCTURE
        if self.n < LEAST:
            stored = stored_entries(self.operand)[2]
            if self.n < LEAST_STORED or not stored.size or not (stored == stored[0]).all():
                return NO_STRUCTURE
        return analyze_sparse(self.operand) or NO_STRUCTURE

    @property
    def edges(self) -> int | None:
        """The number of edges, or None if it is large or unknown."""
        return self.operand.nnz if self.storage == "sparse" else self.structure.edges

    @property
    def one_weight(self) -> Any:
        """The one weight of all edges except loops, as min-plus reads it, or None."""
        weight = self.structure.weight
        return None if weight is None else self.sign * weight.item()

    @fact
    def components(self) -> Components:
        """The strong components of the graph."""
        return strong_components(self.A, self.none, self.options.threads)

    @fact
    def is_strongly_connected(self) -> bool:
        """Whether the graph is one strong component."""
        return len(self.components) == 1

    @fact
    def graph(self) -> tuple[SparseGraph, Any]:
        """The edges for Dijkstra's algorithm, and potentials for them; these are None if they must be exact.

        Raises `NegativeCycleError`, and `DomainError` for NaN and for sums beyond the range of floats.
        """
        from scipy.sparse import coo_array, csr_array

        entries, pattern = self.operand, None
        if self.storage == "sparse":
            rows, columns, stored = stored_entries(self.operand)
            if np.unique(rows.astype(np.int64) * self.n + columns).size < stored.size:
                warn_of_duplicates(self.semiring)
        else:
            pattern = self.structure.pattern if "structure" in self.__dict__ else None
            A = np.asarray(self.A)
            if pattern is None:
                places = np.nonzero(self.none != A)
                entries = coo_array((A[places], places), shape=self.shape)
            else:
                values = A[pattern.rows, pattern.indices]
                entries = csr_array((values, pattern.indices, pattern.starts), shape=self.shape)
        graph = replace(sparse_graph(entries, self.sign, self.rounded_to), is_reversed=self.is_transposed)
        return graph, graph_potentials(graph, self.dtype)

    # ---------------------------------------------------------------------------------------- potentials and factors

    @fact
    def weights(self) -> Weights:
        """The weights of min-plus in the form that the search for potentials reads."""
        if self.dtype.kind == "f":
            low, high = finite_range(self.A, self.sign)
        else:
            low, high = int(self.least_weight), int(self.greatest_weight)
        return Weights.from_matrix(self.A, self.sign, self.none, low, high, self.is_transposed, self.rounded_to)

    @fact
    def potentials(self) -> Array | ExactComponentPotentials:
        """Potentials (n,) under which no weight is below 0, in floating point or exact.

        Raises `NegativeCycleError`; `DomainError` where sums of weights may leave the range of floats.
        """
        return choose_potentials(self.weights, self.options.threads, in_memory=self.strips is None)

    @property
    def needs_exact_potentials(self) -> bool:
        """Whether the magnitudes of weights differ so much that potentials in float64 would round one away."""
        return isinstance(self.potentials, ExactComponentPotentials)

    @fact
    def component_potentials(self) -> list[Block]:
        """The components of more than one vertex, with potentials for each component that has a weight below 0.

        Raises `NegativeCycleError`, and `DomainError` where sums of weights may leave the range of floats.
        """
        parts, weights, threads = self.components, self.weights, self.options.threads
        xp = array_namespace(self.A)
        singletons = parts.order[parts.bounds[:-1][parts.sizes == 1]]
        loops = self.A.diagonal()[xp.asarray(singletons)]
        if self.sign < 0:
            loops = xp.subtract(0, loops)
        if singletons.size and float(loops.min()) < 0:  # a negative cycle: `choose_potentials` raises its error
            choose_potentials(replace(weights, vertices=xp.asarray(singletons[[int(loops.argmin())]])), threads)
        # A path through several components may leave the range of floats.
        if not self.n * float(weights.range[0]) > -negligible_amount(self.dtype):
            check_range(potentials_by_sweeps(weights, threads), *weights.range, self.dtype)
        blocks = []
        for start, stop in parts.spans():
            if stop - start > 1:
                part = replace(weights, vertices=xp.asarray(parts.order[start:stop]))
                least = min(float(part.rows(rows).min()) for rows in part.pieces())
                facts: dict[str, Any] = {"scan": Scan(least, None, nonnegative=False), "is_strongly_connected": True}
                if least < 0:
                    facts["potentials"] = choose_potentials(part, threads)
                blocks.append(Block(start, stop, facts))
        return blocks

    @fact
    def factors(self) -> Any:
        """Factors (n,) under which no product gains; None if products leave the range of float64.

        Raises `DivergenceError` with the vertices of a cycle that gains.
        """
        factors = scales(self.A, self.semiring, self.rounded_to)
        if isinstance(factors, list):  # a cycle that gains
            weights = cycle_weights(self.A, factors)
            cycle = self.to_caller_direction(factors)
            raise gain_error(self.semiring, cycle, weights, check=self.options.check)
        return factors


def named_method(options: Options) -> Method | None:
    """Return the `Method` for dense matrices that the caller named, with its options, or None."""
    method = None if options.method == AUTO else method_named(options.method, options.method_options)
    return method if isinstance(method, Method) else None


@lru_cache(maxsize=1024)
def _unchanged(
    dtype: np.dtype[Any], none: Any, is_packed: bool, is_transposed: bool
) -> tuple[EncodedMatrix, EncodedMatrix]:
    """Return the encoding that reads entries unchanged, and the same relative to it, as `Problem` holds them.

    They hold no entries, so they serve all arrays of a dtype.
    """
    outer = EncodedMatrix.identity(dtype, none, is_packed=is_packed, is_transposed=is_transposed)
    return outer, outer.relative_to(outer)


@lru_cache(maxsize=1024)
def _changed(matrix: EncodedMatrix, outer: EncodedMatrix, maps: tuple[EntryMap, ...], **changes: Any) -> EncodedMatrix:
    """Return an encoding with more maps and other changes; one object, and its cached properties, serve all calls."""
    return replace(matrix, maps=(*matrix.maps, *maps), outer=outer, **changes)


_READING = frozenset(
    ("facts", "options", "n", "semiring", "outer", "matrix", "dtype", "is_packed", "_backend", "signs", "largest")
)


class Problem:
    """A closure to compute: what is wanted, the facts about the entries, and how the entries are read.

    Attributes
    ----------
    facts, options, n
        The facts about the entries of the caller's operand, or of a part of another problem; the options of the call;
        the number of vertices.
    semiring
        The semiring in which the matrix is closed: min-plus for max-plus.
    outer, matrix, dtype, is_packed
        The encoding of the operand, which changes nothing; the encoding of the entries as they are read; its dtype, and
        whether it holds packed bits.
    signs
        "clear", "zero", "below", or "shifted" (below, and read under potentials): the signs of the entries as they are
        read, as in `Facts.signs`.
    plus
        Whether A⁺ is wanted instead of A*.
    stack
        The shape (...) of the caller's stack (..., n, n), or ().
    predecessors
        The search for predecessors on best paths, if these are wanted too.
    progress
        The callback ``progress(done, total)``, or None.
    dense_method
        The method for dense matrices of the problem of which this is a part, or of the GPUs that compute together.
        None: the size decides.
    structure_is_known
        Whether the structure of a part is known from the whole matrix.
    integers
        The dtype of another attempt in wider integers.
    largest
        The largest integer weight if distances may come near "no path", so that the closed matrix must be checked.
    rounded_result
        The dtype to which the result is rounded, or None.
    explanation, depth, place
        The explanation, if one was requested; the depth of this part in it, and its place among the parts.
    """

    matrix: EncodedMatrix
    dtype: np.dtype[Any]
    is_packed: bool
    _backend: Backend | None
    options: Options
    n: int
    signs: str | None = None
    plus = False
    stack: tuple[int, ...] = ()
    predecessors: PredecessorSearch | None = None
    progress: Callable[[int, int], None] | None = None
    dense_method: Algorithm | None = None
    structure_is_known = False
    integers: np.dtype[Any] | None = None
    largest: int | None = None
    rounded_result: np.dtype[Any] | None = None
    explanation: Explanation | None = None
    depth = 0
    place = 0

    def __init__(self, facts: Facts, **fields: Any) -> None:
        self.facts, self.semiring, self.options, self.n = facts, facts.semiring, facts.options, facts.n
        self.outer, matrix = _unchanged(facts.dtype, facts.none, facts.storage == "bits", facts.is_transposed)
        self._set_matrix(matrix)
        if fields:
            self.__dict__.update(fields)

    def _set_matrix(self, m: EncodedMatrix) -> None:
        self.matrix, self.dtype, self.is_packed, self._backend = m, m.dtype, m.storage == "bits", None

    def replace(self, **changes: Any) -> Problem:
        """Return a copy of this problem with some changes; both share the facts."""
        other = object.__new__(Problem)
        other.__dict__.update(self.__dict__, **changes)
        if "matrix" in changes:
            other._set_matrix(other.matrix)
        elif "semiring" in changes:
            other._backend = None
        return other

    def with_facts(self, facts: Facts) -> Problem:
        """Return the same problem of another operand with the same entries, which are read unchanged."""
        kept = {name: value for name, value in self.__dict__.items() if name not in _READING}
        return Problem(facts, **kept)

    def read(self, *more_maps: EntryMap, **changes: Any) -> EncodedMatrix:
        """Return the encoding with more maps, and with changes of other fields."""
        return _changed(self.matrix, self.outer, more_maps, **changes)

    @property
    def unencoded(self) -> EncodedMatrix:
        """The encoding that reads the entries of the operand unchanged."""
        return _changed(self.outer, self.outer, ())

    def unshifted(self) -> Problem:
        """Return the problem whose floats below 0 are read without potentials, for an algorithm that divides it."""
        return self.replace(signs="below", matrix=replace(self.matrix, maps=self.matrix.maps[:-1], outer=self.outer))

    def part(self, view: Array, *, fact_values: dict[str, Any], **fields: Any) -> Problem:
        """Return the problem of closing a part of the encoded matrix, some of whose facts are known: ``fact_values``.

        It is closed by the method for dense matrices of this problem. ``fields``: those of `Problem`.
        """
        allowed = self.options.structure & {"undirected"} if self.options.method == "auto" else frozenset()
        options = self.options._replace(method="auto", method_options=(), structure=allowed)
        facts = self.facts.of(view, options, semiring=self.semiring, is_transposed=False, **fact_values)
        method = self.dense_method or named_method(self.options) or dense_method_of(self)
        inherited = {"explanation": self.explanation, "depth": self.depth + 1, "dense_method": method}
        return Problem(facts, **{**inherited, "structure_is_known": "structure" in fact_values, **fields})

    def matrix_of_stack(self, A: Array, fact_values: dict[str, Any], is_transposed: bool, **fields: Any) -> Problem:
        """Return the problem of one matrix of a stack, some of whose facts are known: ``fact_values``."""
        facts = self.facts.of(A, self.options, is_transposed=is_transposed, **fact_values)
        inherited = {"explanation": self.explanation, "depth": self.depth + 1, "dense_method": self.dense_method}
        return Problem(facts, plus=self.plus, **inherited, **fields)

    #: Returns the choice of an algorithm; raises the errors of the entries, and writes nothing. The module
    #: `semiring.closures.choose` sets it, because it imports this one.
    choose: ClassVar[Callable[[Problem], Choice]]

    def close(self, out: Any = None) -> Any:
        """Return the closure, in ``out`` or in a new array; ``out`` may be the operand."""
        return self.choose().run(out)

    @property
    def is_stack(self) -> bool:
        return len(self.facts.shape) > 2

    @property
    def is_shifted(self) -> bool:
        """Whether floats below 0 are read under potentials, which each strong component must have of its own."""
        return self.signs == "shifted"

    @property
    def bound_matrix(self) -> EncodedMatrix:
        """The encoding with the potentials or factors of this problem. Finding them may raise errors."""
        m = self.matrix
        return m.bind(self.facts).relative_to(self.outer) if m.needs_binding else m

    @property
    def backend(self) -> Backend:
        """The kernels for the entries as they are read."""
        if self._backend is None:
            self._backend = backend_for(self.facts.memory, self.semiring, self.dtype, self.matrix.storage)
        return self._backend

    @property
    def kernel_plan(self) -> KernelPlan:
        """The plan under which kernels close the encoded matrix."""
        m, semiring, clear = self.matrix, self.semiring, self.signs in ("clear", "shifted")
        if clear and semiring.tropical is None:  # kernels also read 0̄ and 1̄, which must have clear sign bits too
            clear = m.dtype.kind == "f" and min(semiring.zero_for(m.dtype), semiring.one_for(m.dtype)) >= 0
        return make_plan(semiring, m.dtype, nonnegative=clear, storage=m.storage, threads=self.options.threads)

    @property
    def dense_cost(self) -> float:
        """The cost of a dense closure, in pairs of ⊕ and ⊗ of float64."""
        return dense_operations(self.n, 1 / 8 if self.is_packed else self.dtype.itemsize)

    @property
    def least_dense_cost(self) -> float:
        """A lower bound of `dense_cost` for every encoding of the operand."""
        facts = self.facts
        narrowest = 1 / 8 if facts.dtype == np.bool_ else min(facts.dtype.itemsize, 2 if facts.uses_device else 16)
        return dense_operations(self.n, narrowest)

    def note(self, reason: str) -> None:
        """Add a reason to the explanation, if one was requested."""
        if self.explanation is not None:
            self.explanation.note(reason)

    @property
    def circumstances(self) -> Circumstances:
        """What excludes algorithms before any entry is read."""
        facts, (_, method, _, _, structure, _, method_options) = self.facts, self.facts.options
        is_large = facts.n >= (LEAST_ON_DEVICE if facts.on_device else LEAST) or self.structure_is_known
        may_analyse = is_large or method != AUTO or facts.storage == "sparse"
        return Circumstances(
            method=method,
            method_options=method_options,
            is_structural=method != "auto" and is_structural(method),
            structure=structure,
            axes=2 if len(facts.shape) == 2 else 3,
            storage=facts.storage,
            on_device=facts.on_device,
            several=bool(facts.devices),
            in_pieces=facts.strips is not None,
            is_part=facts.is_part,
            is_small=facts.n <= SMALL,
            is_large=is_large,
            is_medium=facts.n >= LEAST_STORED,
            unanalysed=self._reason_against_analysis() if may_analyse else "",
        )

    def _reason_against_analysis(self) -> str:
        """Return why the structure of the graph cannot be analysed, whatever its size and the method, or ""."""
        facts = self.facts
        if self.structure_is_known:
            return ""
        if facts.is_part or facts.strips is not None or len(facts.shape) != 2:
            return "only a single matrix in memory is analysed"
        if facts.storage == "elements" and not has_compiled_loops(facts.dtype):
            return "no kernels analyse floats of 16 bytes"
        if facts.devices:
            return "several GPUs close the matrix without structure analysis"
        adjacent = facts.storage != "elements" or not facts.on_device or has_adjacent_elements(facts.operand)
        if facts.on_device and not (facts.may_synchronize and adjacent):
            return "the entries are not adjacent, or the device may not be synchronized"
        return ""
