"""The kernel contract: the operations that a backend provides, and the preconditions that it may rely on.

Every call takes a `KernelPlan`, which is frozen and made once per public call. A, B and C are 2-D arrays of
``plan.dtype`` on the backend's device: A (m, k), B (k, n), C (m, n).

* Sizes may be 0 or 1. Strides may be any: of rows, of columns, negative, or those of a transpose. Kernels may be faster
  if the column stride is one element.
* No *element* of C is an element of A or B, unless a backend allows C to be B (`ProductKernels`). Interleaved views of
  one matrix are allowed, so a recursion works in place.
* Entries are finite or ±∞, never NaN. "No path" is ``plan.zero``, which may differ from the caller's value for it
  (`semiring.arrays.encoding`).
* Tiles that reach beyond a matrix are filled with ``plan.zero``.
* 0̄ ⊗ x never improves an entry. If ⊗ itself does not ensure this, kernels test for 0̄. Integers of min-plus and
  max-plus have a sentinel for 0̄ at half the range. The caller keeps every number within it, so that no sum of two
  entries wraps. The test for the sentinel is omitted in two cases. The first is ``facts.nonnegative`` (min-plus):
  sentinel + x ≥ sentinel ≥ every entry of C, and an accumulator starts at the sentinel at most. So no entry exceeds the
  sentinel, no entry falls below it without a path, and this holds for a whole recursion of products in place. The
  second is ``facts.separate``: the caller reads results by a threshold (`semiring.arrays.encoding.product_encoding`).
  This is valid for one product, not for a chain of products.
* Identical input gives bitwise identical results for any number of threads. No two threads add into one entry, and the
  order of k within an entry is fixed.
* A backend with ``stacks`` accepts stacks in `multiply` and `multiply_add`: A (b, m, k), B (b, k, n) and C (b, m, n) of
  one leading size. The leading strides of A and B may be 0, which repeats one matrix. One call is one launch for any
  number of matrices. Either all three arrays have the third dimension or none has it.
* bfloat16 is NumPy's dtype of that name (package ml_dtypes). Arrays have this dtype, or are 16-bit integers that hold
  its bits.
* With ``storage="bits"`` the arrays hold uint32 words along the rows. Bit b of word w is column 32·w + b, tail bits are
  zero, and the inner size k is the number of rows of B.

A backend with more operations derives from the groups below, such as `ClosureKernels`. A caller reads the group,
``backend.capabilities.closures``, and uses another method if it is None.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from semiring.advice import option
from semiring.algebra import Semiring
from semiring.errors import DeviceError

if TYPE_CHECKING:
    from semiring.kernels.tolerance import Tolerance

#: An array in host memory.
Array: TypeAlias = NDArray[Any]

#: The sentinel for "no predecessor" in a predecessor matrix: SciPy's number, here and in every kernel.
NO_PREDECESSOR = -9999
NAN_FOLD = -2  # the result of `PathKernels.fold_paths` if an edge or a value is NaN


@dataclass(frozen=True)
class Facts:
    """Facts about every entry of every operand of a public call. False means that the fact is not known."""

    nonnegative: bool = False  # no entry is below zero and no sign bit is set (-0.0 has one)
    separate: bool = False  # integers of min-plus and max-plus: every sum with "no path" differs from every number


@dataclass
class Status:
    """The outcome that kernels report to a public call, which reads it once, at its end.

    Kernels on a device cannot write ``diverged``. The caller provides ``word`` there, an int32 array of one element,
    initially -1. `close_block` writes ``first_vertex`` + the index of the first pivot without a star to it, if it is
    still -1.
    """

    diverged: int = -1  # the first pivot without a star, or -1 if there is none
    word: Any = None  # on a device: the word that kernels write; None if the call does not read it
    first_vertex: int = 0  # the vertex of the first row of the block that is closed; only devices read it

    def read(self) -> int:
        """Return the first pivot without a star, or -1 if there is none.

        Wait for the device if there is one.
        """
        if self.word is not None and self.diverged < 0:
            self.diverged = int(self.word[0])
        return self.diverged


@dataclass(frozen=True)
class KernelPlan:
    """The semiring, the dtype and the facts of one public call, for kernels."""

    semiring: Semiring
    dtype: np.dtype[Any]
    zero: Any  # 0̄ inside the call: half the range of an integer dtype in min-plus, so that no sum of two values wraps
    one: Any
    facts: Facts = Facts()
    storage: Literal["elements", "bits"] = "elements"
    threads: int = 1
    status: Status = field(default_factory=Status, compare=False)
    #: Objects that a backend derives from this plan and caches for the next call; nothing depends on a matrix.
    memo: dict[Any, Any] = field(default_factory=dict, init=False, compare=False, repr=False)

    def __getstate__(self) -> dict[str, Any]:
        """Return the fields without the memo, whose kernels belong to this process."""
        return {**vars(self), "memo": {}}

    @property
    def may_diverge(self) -> bool:
        """Whether a pivot may have no star. In min-plus with weights ≥ 0 every pivot has a star."""
        is_bounded = self.facts.nonnegative and self.semiring.tropical == "min"
        return self.semiring.divergence is not None and not is_bounded

    def with_semiring(self, semiring: Semiring) -> KernelPlan:
        """Return the plan of another call with an equal semiring of any name.

        It shares the memo but not the status.
        """
        plan = object.__new__(KernelPlan)  # `replace` takes 3 µs, some tenth of a closure of few vertices
        vars(plan).update(vars(self), semiring=semiring, status=Status())
        return plan


class Backend(Protocol):
    """The kernel contract: every operation writes ``C`` and ``W`` in place and returns nothing."""

    name: str
    stacks: bool  # whether `multiply` and `multiply_add` accept 3-D arrays; if not, the caller loops

    @property
    def capabilities(self) -> Capabilities:
        """The operations that the backend provides beyond the contract, as the same object at every call."""
        ...

    def supports(self, semiring: Semiring, dtype: np.dtype[Any], storage: str = "elements") -> bool:
        """Return whether every kernel below accepts this combination of semiring, dtype and storage."""
        ...

    def multiply(self, plan: KernelPlan, C: Any, A: Any, B: Any) -> None:
        """Compute C ← A ⊗ B without reading C, which may be uninitialised.

        With k = 0, C becomes all zero.
        """
        ...

    def multiply_add(self, plan: KernelPlan, C: Any, A: Any, B: Any) -> None:
        """Compute C ← C ⊕ A ⊗ B.

        Each entry is folded as ((C ⊕ A₀B₀) ⊕ A₁B₁) ⊕ …, up to a reassociation that the sizes alone fix.
        """
        ...

    def multiply_add_witness(self, plan: KernelPlan, C: Any, W: Any, A: Any, B: Any, k0: int) -> None:
        """Compute `multiply_add` and its witnesses, for a selective ⊕.

        W (m, n) is int32 or int64. If A ⊗ B is strictly better than C at an entry, W[i, j] becomes k0 + the smallest k
        that attains it. All other entries of C and W stay.
        """
        ...

    def close_block(self, plan: KernelPlan, A: Any) -> None:
        """Compute A ← A* in place, one pivot at a time with the star at each pivot.

        A (n, n) has at most some hundred rows. A pivot without a star sets ``plan.status.diverged`` to its index and
        leaves A undefined.
        """
        ...


# -------------------------------------------------------------------------------------------------- optional operations


def _missing_operation() -> NotImplementedError:
    """Return the error of an optional operation that a backend does not provide."""
    return NotImplementedError("this backend has no such kernel: call `Capabilities.provides` first")


class ProductKernels(Protocol):
    """Products in place, products of triangular matrices, products that propagate NaN, and plain products.

    Optional: `multiply_upper`, `propagates_nan`, `multiply_add_plain`.
    """

    def can_multiply_in_place(self, plan: KernelPlan, m: int, n: int) -> bool:
        """Return whether C may be the same array as B in `multiply`, with B (m, n) and A (m, m)."""
        ...

    def can_overlap(self, plan: KernelPlan, m: int, n: int, k: int) -> bool:
        """Return whether A (m, k) may be columns of C (m, n) in `multiply_add` if B are rows of pivots: B = K* ⊗ B.

        An entry of A that is overwritten meanwhile belongs to A ⊗ K*, whose product with B is the same.
        """
        ...

    def copy_panel(self, plan: KernelPlan, A: Any, out: Any) -> None:
        """Copy A to ``out``.

        The two arrays share no element.
        """
        ...

    def multiply_add_upper(self, plan: KernelPlan, C: Any, A: Any, B: Any) -> None:
        """Compute C ← C ⊕ A ⊗ B on and above the diagonal of C (n, n).

        Entries below it may be overwritten.
        """
        ...

    def multiply_upper(self, plan: KernelPlan, C: Any, A: Any, B: Any, subdiagonals: int, is_left: bool) -> None:
        """Compute C ← A ⊗ B as `Backend.multiply`, with one triangular operand.

        C (m, n) and B may be the same array if the backend `can_multiply_in_place`. With ``is_left``, A (m, m) is 0̄ for
        k < i - subdiagonals. Otherwise B (n, n) is 0̄ for k > j + subdiagonals. A kernel need not read these entries.
        """
        raise _missing_operation()

    def propagates_nan(self, plan: KernelPlan, m: int, k: int, n: int) -> bool:
        """Return whether products (m, k) by (k, n), with n or m = 1, show every NaN and ∞ of their operands.

        An entry of such a product is NaN or ∞ if the operands of its terms include a NaN, or an ∞ and no -∞. The caller
        then scans the product instead of the operands.
        """
        return False

    def multiply_add_plain(self, plan: KernelPlan, C: Any, A: Any, B: Any) -> None:
        """Compute C ← C ⊕ A ⊗ B by the plainest kernel, for comparisons."""
        raise _missing_operation()


class ClosureKernels(Protocol):
    """Specialised closures of whole matrices, of stacks, and of small matrices whose weights gain.

    The optional operations are `close`, `close_as`, `close_stack`, and `close_gaining` with `survey_gaining`.

    A weight gains if it is below 0 in min-plus, above 0 in max-plus, and above 1 in max-times. The semiring of the plan
    determines this. `close_gaining` takes the caller's matrices, with the caller's value for "no path". Results are
    bitwise identical to a closure under potentials, component by component.
    """

    def can_close(self, plan: KernelPlan, n: int) -> bool:
        """Return whether `close` takes a matrix of n rows under this plan."""
        return False

    def close(self, plan: KernelPlan, A: Any, *, has_concurrent_work: bool = False) -> None:
        """Compute A ← A* in place, A (n, n).

        ``has_concurrent_work``: whether other work keeps the device busy.
        """
        raise _missing_operation()

    def paper_names(self) -> tuple[str, ...]:
        """Return the names of the methods for which `close_as` has kernels."""
        return ()

    def close_as(self, plan: KernelPlan, A: Any, name: str, **options: Any) -> None:
        """Compute A ← A* in place by the kernel of a paper.

        ``name`` is the name of its method, and ``options`` are those of the method. A (n, n) may have any strides. A
        pivot without a star is reported as by `Backend.close_block`. Raises `AlgebraError` for a semiring that the
        kernel does not close.
        """
        raise _missing_operation()

    def stack_rows(self, plan: KernelPlan) -> int:
        """Return up to how many rows the matrices of a stack are closed side by side, each as a whole."""
        return 0

    def close_stack(self, plan: KernelPlan, A: Any) -> None:
        """Compute A ← A* in place for each matrix of A (count, n, n), of any n.

        Pivots without a star are numbered through all matrices: row i of matrix b is b·n + i.
        """
        raise _missing_operation()

    def gaining_rows(self, plan: KernelPlan) -> int:
        """Return up to how many rows `close_gaining` closes a matrix under this plan, 0 if it closes none."""
        return 0

    def survey_gaining(self, plan: KernelPlan, A: Any) -> Any:
        """Return the survey of A (count, n, n) that `close_gaining` needs, or None if a matrix needs another method.

        A matrix with a cycle that gains needs another method. The cycle is not returned. Nothing is written. For
        max-times and min-times the survey is the factors (count, n) float64 under which no weight gains.
        """
        raise _missing_operation()

    def close_gaining(self, plan: KernelPlan, A: Any, survey: Any, out: Any) -> None:
        """Write A* of every matrix to ``out``, which may be A.

        ``survey`` is the result of `survey_gaining`.
        """
        raise _missing_operation()


class Mark(Protocol):
    """An event in the work that was enqueued on a stream.

    The members have the names of CuPy's events.
    """

    @property
    def done(self) -> bool:
        """Return whether all work before the mark has ended."""
        ...

    def synchronize(self) -> None:
        """Wait until all work before the mark has ended."""
        ...


class Streams(Protocol):
    """A context for concurrent work on several streams.

    The context begins after the work enqueued before it, and later work waits for it. The lower the number of a stream,
    the higher the priority of its work.
    """

    def __enter__(self) -> Any: ...

    def __exit__(self, *error: Any) -> None: ...

    def run(self, number: int, task: Callable[[], None], dependencies: Sequence[Any]) -> Any:
        """Enqueue a task on a stream after other tasks.

        ``dependencies`` are results of `run` for these tasks; a None among them is ignored.
        """
        ...


class StreamKernels(Protocol):
    """Kernels that only enqueue their work on the streams of a device.

    Optional: `replay`.
    """

    def lanes(self, plan: KernelPlan) -> Streams | None:
        """Return streams for concurrent work, or None if the plan allows one order only."""
        ...

    def mark(self) -> Mark:
        """Return a mark after all work that was enqueued so far."""
        ...

    def replay(
        self, plan: KernelPlan, A: Any, engine_of: Callable[[KernelPlan], Any], algorithm: Callable[..., object]
    ) -> None:
        """Run ``algorithm(engine_of(plan), A)``, whose launches depend on the plan and on A's shape alone.

        The launches of one function on a plan and a shape of one kind are recorded once, and then repeated.
        """
        raise _missing_operation()


class PassKernels(Protocol):
    """Passes over the entries of a matrix, each by one kernel of its stream."""

    def copy(self, A: Any, out: Any) -> None:
        """Copy A to ``out``, with the priority of the stream."""
        ...

    def copy_nonnegative(self, A: Any, out: Any) -> Any:
        """Copy A to ``out`` with -0.0 as 0.0.

        Return a word for `spoil` that holds whether an entry is below 0. The call does not wait for the device.
        """
        ...

    def spoil(self, A: Any, word: Any) -> None:
        """Set A to NaN if the word of `copy_nonnegative` is set."""
        ...

    def in_order(self, bits: Any, out: Any, replacements: Any, is_inverse: bool) -> None:
        """Map the bits of floats to integers in the same order, and replace two pairs of values.

        With ``is_inverse`` the integers are mapped to the bits of floats. ``replacements``: the two pairs (old, new).
        """
        ...

    def largest_whole(self, A: Any) -> float:
        """Return the greatest magnitude of a finite entry, or ∞ if an entry is not a whole number."""
        ...

    def relax(self, A: Any, h: Any, sign: int, epsilon: float) -> Any:
        """Return the minimum over i of h[i] + w[i, j], (n,), for weights w = ± A, each raised by ε times its magnitude.

        Entries of ∞ or -∞ are no edges. This is a sweep of Bellman-Ford over the whole matrix.
        """
        ...


class GraphKernels(Protocol):
    """Scans and permutations of a matrix as a graph, without an operation of the semiring.

    A matrix (n, n) of elements has rows of adjacent entries, and ``none`` is the value for "no edge". Packed truth
    values are words (n, ⌈n/32⌉). A set of vertices is one such row on the host. Loops do not count as edges there.
    Docstrings name the arrays on the host. All other arrays are on the device of the matrix.

    Optional: the operations of packed truth values, which begin with `has_bit_kernels`.
    """

    def scan_structure(self, A: Any, none: Any) -> tuple[bool, bool, int, Any]:
        """Return whether A = Aᵀ bitwise, whether an edge lies below the diagonal, how many edges, and their weight.

        The weight is None unless all edges between different vertices have it. The call waits for the device.
        """
        ...

    def edge_words(self, A: Any, none: Any) -> Any:
        """Return the edges as bits: words (n, ⌈n/32⌉)."""
        ...

    def permute(self, D: Any, order: Any, source: Any = None) -> None:
        """Set D[i, j] ← D[order[i], order[j]] in place, or from a separate source.

        order is on the host.
        """
        ...

    def permute_columns(self, D: Any, order: Any) -> None:
        """Set D[i, j] ← D[i, order[j]] in place.

        order is on the host.
        """
        ...

    def transpose(self, A: Any, out: Any) -> None:
        """Write the transpose of A (m, n) to ``out`` (n, m)."""
        ...

    def mirror(self, A: Any) -> None:
        """Copy each entry of A above the diagonal to its mirror image below."""
        ...

    def count_hops(self, D: Any, starts: Any, heads: Any, words: Any, weight: Any, none: Any) -> None:
        """Set D to the weight times the fewest edges of a path, 0 on the diagonal, ``none`` if there is no path.

        The edges are compressed rows on the host, or bits if ``words`` is not None.
        """
        ...

    def spanning_edges(self, A: Any, none: Any, largest: bool) -> tuple[Any, Any, Any]:
        """Return the largest or smallest spanning forest of a symmetric A: tails, heads and weights, on the host."""
        ...

    def fill_bottlenecks(self, D: Any, order: Any, edges: Any, one: Any, largest: bool) -> None:
        """Set D[i, j] to the worst of the edges after i, up to j, in an order of the vertices.

        ``order`` and ``edges`` (n,) are on the host.
        """
        ...

    def has_bit_kernels(self, plan: KernelPlan, n: int) -> bool:
        """Return whether kernels support packed matrices of n rows under this plan: ⊕ is "or" and ⊗ is "and"."""
        return False

    def count_edges(self, words: Any) -> tuple[int, bool]:
        """Return how many edges there are, and whether one of them leads to an earlier vertex."""
        raise _missing_operation()

    def peel(self, words: Any, edges: int, rounds: int) -> tuple[Any, Any, Any]:
        """Return the vertices that no cycle reaches, in topological order, as far as ``rounds`` rounds find them.

        Also return all edges: the start of the list of each vertex (n + 1,), and the heads. All arrays are on the host.
        """
        raise _missing_operation()

    def sweep_along(self, words: Any, vertices: Any) -> Any:
        """Return the heads of the edges that begin at some vertices."""
        raise _missing_operation()

    def sweep_against(self, words: Any, vertices: Any, candidates: Any) -> Any:
        """Return the vertices of ``candidates`` from which an edge leads to some vertices."""
        raise _missing_operation()

    def permute_bits(self, words: Any, order: Any) -> None:
        """Set A[i, j] ← A[order[i], order[j]] in place.

        order (n,) is on the host. Workspace: some columns.
        """
        raise _missing_operation()

    def fill_component(self, words: Any, start: int, stop: int) -> None:
        """Complete A* if the vertices start … stop - 1 reach each other and no later vertex reaches them."""
        raise _missing_operation()


class PathKernels(Protocol):
    """Predecessors of closures (`semiring.algorithms.predecessors`), arrays of paths, and best paths of sparse graphs.

    A sparse graph is a tuple: starts (n + 1,) int64, heads (m,) int32 and weights (m,) of its compressed rows, and
    whether ⊗ is applied in the opposite order. No weight improves on 1̄.

    Arrays of paths need no semiring: predecessors (count, p, n) int32 and sources (p,) int32, on the device of the
    backend, determine them. Row i of each matrix holds the paths from the vertex sources[i].

    Optional: `close_and_search`; `find_tree`; `search_table` with `search_near`; `fold_paths`;
    `count_paths`.
    """

    def find_predecessors(self, plan: KernelPlan, D: Any, tolerance: Tolerance | list[Tolerance], A: Any) -> Any:
        """Return the predecessors int32 of D = A*, from A.

        D and A are (n, n), or stacks (count, n, n), without a size of 0. The tolerance is that of all matrices, or a
        list with one for each matrix of a stack. The predecessors of a matrix do not depend on the others.
        """
        ...

    def close_and_search(
        self, plan: KernelPlan, D: Any, tolerance: Tolerance, A: Any, fill: Callable[[slice], None]
    ) -> Any:
        """Compute D = A* (count, n, n), and return the result of `find_predecessors`.

        ``fill(part)`` writes the matrices A[part] to D[part], which are in other memory. If a pivot has no star, any
        result may be returned.
        """
        raise _missing_operation()

    def count_vertices(self, predecessors: Any, sources: Any, counts: Any, threads: int) -> None:
        """Write how many vertices each path has to ``counts`` (count, p, n) int32: 0 for no path, 1 for the source.

        The number is -1 if the predecessors lead in a cycle, or to a number that is no vertex.
        """
        ...

    def write_paths(self, predecessors: Any, sources: Any, targets: Any, counts: Any, out: Any, threads: int) -> None:
        """Write the vertices of each path to the targets (q,) int32 to ``out`` (count, p, q, length) int32, then -1.

        The ``counts`` (count, p, q) of these paths are from 0 to ``length``. ``out`` is C-contiguous.
        """
        ...

    def find_tree(self, plan: KernelPlan, D: Any, weights: Any, tolerance: Tolerance, source: int) -> Any:
        """Return the predecessors (n,) int32 of the row ``source`` of D (n, n), from the weights (n, n)."""
        raise _missing_operation()

    def search_table(self, plan: KernelPlan, graph: Any, sources: Any, targets: Any, out: Any, trees: Any) -> None:
        """Write the best values from p sources to q targets to ``out`` (p, q), 0̄ if there is no path.

        The floats of ``out`` may be narrower than the dtype of the plan. ``trees`` (p, n) int32 receives the
        predecessor of each vertex that was settled, -9999 for all other vertices. With shape (0, n) it is not
        requested.
        """
        raise _missing_operation()

    def search_near(self, plan: KernelPlan, graph: Any, sources: Any, targets: Any, limit: Any) -> tuple[Any, Any, Any]:
        """Return the vertices of ``targets`` (n,) bool within the limit of each source: starts, vertices and values."""
        raise _missing_operation()

    def fold_paths(self, plan: KernelPlan, predecessors: Any, sources: Any, W: Any, none: Any, out: Any) -> int:
        """Fold the entries of W (n, n) along each path by ⊗ into ``out`` (count, p, n).

        A source receives 1̄, and a vertex without a path ``none``. Floats are folded in float64. Return the first of the
        count · p rows whose predecessors lead in a cycle, or to a number that is no vertex, else `NAN_FOLD` if an
        edge or the value of a path is NaN, else -1.
        """
        raise _missing_operation()

    def count_paths(
        self,
        plan: KernelPlan,
        rows: Any,
        roots: Any,
        edges: Any,
        zero: Any,
        rtol: float,
        is_relative: bool,
        counts: Any,
    ) -> tuple[int, int, int]:
        """Write the numbers of best paths to ``counts`` (p, n), of int64 or float64.

        ``rows`` (p, n) holds the distances from the vertices ``roots`` (p,), and ``zero`` where no path leads.
        ``edges`` are starts (n + 1,), tails and weights of the edges into each vertex, without loops. x ⊗ w is y within
        ``rtol`` times their sizes: that of y and of x ⊗ w if ``is_relative``, else ``|x| + |w|``. Return (-1, 0, 0), or
        the first row that has no counts, a vertex, and the reason: 1 if a count leaves int64, 2 for a cycle.
        """
        raise _missing_operation()


class Steps(NamedTuple):
    """The operands of several steps x ← (x ⊗ Aₜ) ⊗ w of m rows, each row a sequence of its own.

    All arrays but ``lengths`` are (m, number, n). The n entries of a line are adjacent, and the other strides are
    arbitrary. None: absent, or not requested. ``lengths`` (m,) holds how many steps each row takes; later steps leave
    it unchanged. The ``states`` after each step are written. ``witness``, int32, receives the smallest k that attains
    each entry of x ⊗ Aₜ, or -1 if the entry is 0̄ or the row has ended. ``first`` is the t of the first step.
    `SequenceKernels.walk` writes ``factors`` and ``sums``, which `SequenceKernels.pull` reads for gradients.
    ``state_gradients``, the gradients by the ``states``, are added to the gradient after each step. The gradient by the
    weights w is written to ``weight_gradients``.
    """

    number: int
    weights: Any = None
    lengths: Any = None
    states: Any = None
    factors: Any = None
    sums: Any = None
    state_gradients: Any = None
    weight_gradients: Any = None
    witness: Any = None
    first: int = 0


class SequenceKernels(Protocol):
    """Sequences of steps by one matrix, or by one for each step, and their gradients.

    Optional: `can_pull` with `pull`.
    """

    def prepare(self, plan: KernelPlan, A: Any, groups: Any) -> Any:
        """Return the preparation that all steps of a batch share while A does not change, or None if it saves no time.

        A (g, 1 or T, n, n) holds matrices for all steps or for each step. ``groups`` (m,) int64 is the g of each row of
        the batch. Or A is a tuple of 1 or T sparse matrices, (n, n) `CompressedRows`, and 0̄ annihilates.
        """
        ...

    def walk(self, plan: KernelPlan, preparation: Any, x: Any, steps: Steps) -> None:
        """Advance x (m, n), of adjacent rows, to its state after the steps.

        A factor 0̄ makes a product with weights 0̄, if the semiring annihilates. Sums of rounded terms may differ from
        those of `multiply` in their last digits.
        """
        ...

    def trace(self, plan: KernelPlan, W: Any, is_reached: Any, lengths: Any) -> None:
        """Replace the witnesses W (m, T, n) of all steps by the states before the steps on a best path to each state.

        W is -1 for the last states that are not ``is_reached`` (m, n), and after the ``lengths`` (m,), which are None
        if all rows take all steps.
        """
        ...

    def can_pull(self, plan: KernelPlan, n: int) -> bool:
        """Return whether `pull` supports this semiring and dtype, for one matrix and m > 1 rows."""
        return False

    def pull(self, plan: KernelPlan, preparation: Any, G: Any, steps: Steps, matrix_gradient: Any) -> bool:
        """Replace G, the gradient by the last state, by the gradient by the first state.

        Return False if the kernel does not support the values. Then all arrays that are written hold arbitrary values,
        except for ``matrix_gradient``. G (m, n) has adjacent rows. The gradient by B is added to ``matrix_gradient``
        (n, n) float64. Gradients are accurate relative to the greatest gradient.
        """
        raise _missing_operation()


class CompressedRows(NamedTuple):
    """A sparse matrix of ``width`` columns by rows.

    Row i has the entries starts[i] … starts[i + 1] - 1 of ``columns`` and ``values``. Its columns ascend strictly.
    ``starts`` (m + 1,) is int64. ``columns`` (nnz,) is int32, or int64 if the width exceeds int32. ``values`` (nnz,)
    has the dtype of the plan. It is None in a pattern.
    """

    starts: Any
    columns: Any
    values: Any
    width: int


def product_shape(A: CompressedRows | Any, B: CompressedRows | Any) -> tuple[int, int, int]:
    """Return (m, k, n) of a product of matrices, each sparse or dense."""
    m = A.starts.size - 1 if isinstance(A, CompressedRows) else A.shape[0]
    return m, *((x.width if isinstance(x, CompressedRows) else x.shape[-1]) for x in (A, B))


def count_pairs(A: CompressedRows | Any, B: CompressedRows | Any) -> int:
    """Return how many pairs A[i, k], B[k, j] of entries a product has, of matrices that are sparse or dense."""
    m, _, n = product_shape(A, B)
    if not isinstance(A, CompressedRows):
        return int(m * (B.columns.size if isinstance(B, CompressedRows) else A.shape[1] * n))
    if not isinstance(B, CompressedRows):
        return int(A.columns.size * n * prod(B.shape[:-2]))
    return int((B.starts[1:] - B.starts[:-1])[A.columns].sum())


class SparseKernels(Protocol):
    """Products of sparse matrices, which are `CompressedRows`.

    Optional: `scan_rows`, which the backends of the host provide, and on a GPU `multiply_unvalidated`.

    Every position of a product that some pair A[i, k], B[k, j] of stored entries reaches is an entry of the result,
    also if its value is 0̄. The terms of an entry are added in the order of k, to 0̄. A dense operand is C-contiguous.

    Witnesses need a selective ⊕. They are int32 or int64, and become the smallest k whose term is strictly better than
    all earlier terms and 0̄. The caller fills them with -1 on the host. Kernels of a GPU write -1 where no term is.
    """

    def multiply_sparse(
        self,
        plan: KernelPlan,
        A: CompressedRows,
        B: CompressedRows,
        excluded: CompressedRows | None,
        demand: Callable[[int], None],
        witness_dtype: Any,
    ) -> tuple[CompressedRows, Any, dict[str, int]]:
        """Return the entries of A (m, k) ⊗ B (k, n) outside the positions of ``excluded`` (m, n).

        No term of an excluded position is added. ``demand`` receives the number of entries found so far, from any
        thread, and their total before the memory of the values is allocated. An exception that it raises ends the call.
        The second result holds the witnesses of the entries in ``witness_dtype``, or is None if that is None. The third
        one says how many rows each accumulator computed, by its name.
        """
        ...

    def multiply_masked(
        self,
        plan: KernelPlan,
        A: CompressedRows,
        B: CompressedRows | Any,
        mask: CompressedRows,
        witness_dtype: Any,
    ) -> tuple[CompressedRows, Any, dict[str, int]]:
        """Return the entries of A (m, k) ⊗ B (k, n) at those positions of ``mask`` (m, n) that a term reaches.

        No term of any other position is computed. B is sparse or dense. The other results and ``witness_dtype`` are
        those of `multiply_sparse`.
        """
        ...

    def multiply_mixed(
        self,
        plan: KernelPlan,
        C: Any,
        A: CompressedRows | Any,
        B: CompressedRows | Any,
        witness: Any,
        of_entries: bool = False,
    ) -> None:
        """Compute C ← A ⊗ B without reading C, for one sparse and one dense operand.

        C (m, n) and ``witness`` (m, n), which is None if it is not requested, are C-contiguous. With ``of_entries``
        witnesses are positions in the columns of a sparse A, in place of k. Columns of a row of A may then repeat. On a
        GPU a sparse A multiplies a stack: B (b, k, n), C and ``witness`` (b, m, n).
        """
        ...

    def scan_rows(self, plan: KernelPlan, A: CompressedRows, bounds: Any) -> tuple[bool, bool]:
        """Return whether an unvalidated matrix is valid, and whether no value has a sign bit.

        It is valid if ``starts`` begin with 0, do not decrease, and end within ``columns``, the columns of each row
        ascend strictly below the width, and all values lie in ``bounds``: a pair (least, greatest), in which NaN never
        lies, or None for values that are not scanned. No memory outside the arrays is read. ``starts`` may be int32
        too, and entries behind the last row are ignored. The second result is arbitrary if A is not valid.
        """
        raise _missing_operation()

    def multiply_unvalidated(self, plan: KernelPlan, C: Any, A: CompressedRows, B: Any, bounds: Any) -> bool:
        """Compute C ← A ⊗ B for a dense B, and return whether A is valid and B within the bounds, as in `scan_rows`.

        If they are not, C holds arbitrary values. C and B are C-contiguous, and C is not empty.
        """
        raise _missing_operation()


def dependency_block(size: int) -> int:
    """Return how many sources of a graph with n + m = ``size`` vertices and edges have one sum of dependencies."""
    return max(1, min(16, (1 << 20) // max(1, size)))


class CentralityKernels(Protocol):
    """Sums over all shortest paths of a sparse graph in min-plus.

    A sparse graph is a tuple: starts (n + 1,) int64, heads (m,) int32, weights (m,) and ranks (n,) int32. The weights
    are at least 0, without parallel edges, or empty (0,) if every edge counts 1. Where edges between different vertices
    weigh 0, they lead from lower to higher ranks. Otherwise the ranks are empty. Loops are on no shortest path. The
    arrays of a backend for a GPU are there, but for the sources.

    Optional: `find_distances`, for a backend whose `PathKernels` have no search.
    """

    def add_dependencies(
        self, plan: KernelPlan, graph: Any, sources: Any, has_endpoints: bool, vertex_sums: Any, edge_sums: Any
    ) -> None:
        """Add the dependencies of all sources on the vertices and the edges to their sums.

        The dependency of a source s on v is the sum over all t of the share of the shortest paths from s to t that pass
        through v; v ≠ s, t unless ``has_endpoints``, and t ≠ s. The dependency on an edge is the sum of the shares that
        use it. ``vertex_sums`` (n,) and ``edge_sums`` (m,) are float64; edge_sums of shape (0,) were not requested.
        Blocks of `dependency_block` sources are added up alone, and then in order; on a GPU groups of 32 sources.
        """
        ...

    def find_distances(self, plan: KernelPlan, graph: Any, sources: Any, out: Any) -> None:
        """Write the distances (p, n) from p sources to ``out``, "no path" as in the weights, which are not empty."""
        raise _missing_operation()


class Adjacency(NamedTuple):
    """The edges of a graph by their tails and by their heads, as compressed rows.

    ``starts`` and ``first`` (n + 1,) are int64, ``heads`` and ``tails`` (m,) int32. An edge of weight 0̄ is no edge.
    """

    starts: Any
    heads: Any
    weights: Any
    first: Any
    tails: Any
    weights_in: Any


class UpdateKernels(Protocol):
    """Changes of a closure D (n, n) after changes of edges, in place, for a ⊕ that selects.

    The rows of D are C-contiguous. P (n, n) int32 are the predecessors, or of shape (0, 0) if they are absent. "No
    path" is ``plan.zero``, which is the caller's value here. No sum leaves the range of an integer dtype. D, P, the
    adjacency and the results are in one memory, and the edges that change in that of the host.
    """

    def list_edges(self, plan: KernelPlan, A: Any) -> Adjacency:
        """Return the edges of A (n, n), which is C-contiguous, between different vertices.

        The edges of a vertex are in the order of their other ends.
        """
        ...

    def improve(self, plan: KernelPlan, D: Any, P: Any, tails: Any, heads: Any, weights: Any, touched: Any) -> int:
        """Make D the closure with further edges, one after the other; no cycle gains.

        Return how many pairs improve for the first time. ``touched`` (n, n) bool holds the pairs that changed before,
        and receives these pairs; with shape (0, 0), each improvement counts.
        """
        ...

    def count_users(
        self,
        plan: KernelPlan,
        D: Any,
        P: Any,
        adjacency: Adjacency,
        tails: Any,
        heads: Any,
        weights: Any,
        tolerance: tuple[float, float],
    ) -> Any:
        """Return for each row (n,) int64 how many best paths may use one of some edges, before a change of D.

        ``weights`` are the old weights of the edges; the adjacency may have the new ones. Without predecessors an edge
        counts as part of a path if its sum is the value of its head, up to the tolerance (a, b), which allows
        ``a · (|x| + |y|) + b``.
        """
        ...

    def repair(
        self,
        plan: KernelPlan,
        D: Any,
        P: Any,
        adjacency: Adjacency,
        tails: Any,
        heads: Any,
        weights: Any,
        tolerance: tuple[float, float],
        counts: Any,
        touched: Any,
    ) -> tuple[Any, Any] | None:
        """Make D the closure after some edges became worse, as the adjacency has them.

        The parameters are those of `count_users`, and ``counts`` is its result. Return pairs i · n + j, int64, and
        their old values: all pairs that changed, and perhaps pairs that did not. ``touched`` (n, n) bool receives these
        pairs, unless its shape is (0, 0). None: the search did not end, and D, P and ``touched`` are undefined.
        """
        ...

    def count_changed(self, plan: KernelPlan, D: Any, pairs: Any, values: Any) -> int:
        """Return how many pairs i · n + j of D, int64, have another value than before."""
        ...


class SpurSearches(Protocol):
    """Searches for the best simple path to one target that begins with a prefix, and leaves it by some edges only."""

    def search(self, prefix: Any, banned: Any, bound: float) -> tuple[Any, float]:
        """Return the lexicographically first best path, int32, and its value; an empty path and 0̄ if there is none.

        ``banned`` are the vertices that may not follow the prefix. No such path is better than ``bound``.
        """
        ...

    def bound(self, path: Any, first: int, banned: Any) -> Any:
        """Return, for c from ``first`` on, a bound (len(path),) of the paths that leave the path at path[c].

        For c = ``first`` the vertices ``banned`` do not follow path[c] either.
        """
        ...


class RankedPathKernels(Protocol):
    """Searches for the next best paths between two vertices, in a semiring whose ⊕ is an order that ⊗ keeps."""

    def open_spur_searches(
        self, plan: KernelPlan, rows: tuple[Any, Any, Any], h: Any, target: int, margin: tuple[float, float]
    ) -> SpurSearches:
        """Return the searches in a graph: starts, heads and weights (float64) of its rows.

        ``h`` (n,) are the values of best paths to the target, 0̄ where there is none. With ``margin`` (a, b) their
        rounding never makes a · h - b worse than an exact value. (1, 0): all values are exact.
        """
        ...


@dataclass(frozen=True)
class Capabilities:
    """The groups of operations that a backend provides beyond the contract; None: the backend lacks the group.

    A backend derives from the protocol of each group that it provides, and `from_backend` returns the groups. An
    operation that the docstring of its group names as optional has a default there. `provides` returns whether a
    backend overrides this default. `semiring.kernels.reference` provides ``paths``, ``sequences``, ``sparse``,
    ``centrality``, ``updates`` and ``ranked``.
    """

    products: ProductKernels | None = None
    closures: ClosureKernels | None = None
    streams: StreamKernels | None = None
    passes: PassKernels | None = None
    graphs: GraphKernels | None = None
    paths: PathKernels | None = None
    sequences: SequenceKernels | None = None
    sparse: SparseKernels | None = None
    centrality: CentralityKernels | None = None
    updates: UpdateKernels | None = None
    ranked: RankedPathKernels | None = None

    @classmethod
    def from_backend(cls, backend: Any) -> Capabilities:
        """Return the groups from whose protocols the class of a backend derives."""
        return cls(**{name: backend for name, group in GROUPS.items() if group in type(backend).__mro__})

    def provides(self, operation: str) -> bool:
        """Return whether the backend has an operation of some group, and not the default of the group."""
        return any(has_operation(getattr(self, name), operation) for name in GROUPS if operation in vars(GROUPS[name]))


#: The protocol of each group, by the name of its field in `Capabilities`.
GROUPS: dict[str, type] = {
    "products": ProductKernels,
    "closures": ClosureKernels,
    "streams": StreamKernels,
    "passes": PassKernels,
    "graphs": GraphKernels,
    "paths": PathKernels,
    "sequences": SequenceKernels,
    "sparse": SparseKernels,
    "centrality": CentralityKernels,
    "updates": UpdateKernels,
    "ranked": RankedPathKernels,
}

#: The default of each operation beyond `Backend`, by its name.
OPERATIONS: dict[str, Any] = {
    name: default for group in GROUPS.values() for name, default in vars(group).items() if name[0] != "_"
}


def has_operation(backend: Any, operation: str) -> bool:
    """Return whether a backend, or the class of one, has an operation, and not the default of its group."""
    own = getattr(backend, operation, None)
    return own is not None and getattr(own, "__func__", own) is not OPERATIONS.get(operation)


def missing_operations(caller: str, operations: Iterable[str], backend: Backend) -> DeviceError:
    """Return the error for a ``caller`` that needs ``operations`` (names) that a backend does not provide."""
    names = list(operations)
    return DeviceError(
        f"{caller} needs the kernel operation{'s' * (len(names) > 1)} {' and '.join(names)}, and this matrix is closed "
        f"by the {backend.name} backend, which has no such kernels: pass {option('device', 'cuda')} or an array on a "
        "GPU, or use rkleene"
    )
