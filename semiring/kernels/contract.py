"""What every backend provides, and what it may rely on.

Every call takes a `KernelPlan`: frozen, made once per public call, handed down a recursion. A, B and C are 2-D arrays
of ``plan.dtype`` on the backend's device, A (m, k), B (k, n), C (m, n).

* Any size, 0 and 1 included, and any strides: rows, columns, negative ones, the strides of a transpose. Kernels may be
  faster on unit column stride; they are right on all.
* No *element* of C is an element of A or B, but where a backend says that C may be B (`ProductKernels`). Interleaved
  views of one matrix are fine; so a recursion works in place.
* Entries are finite or ±∞, never NaN, and "no path" is ``plan.zero`` (not the caller's value for it: see
  `semiring.arrays.encoding`).
* Tiles that stick out of a matrix are filled with ``plan.zero``.
* 0̄ ⊗ x never improves on anything: where ⊗ itself does not see to that, kernels test for 0̄. Integers of min-plus
  and max-plus hold a sentinel for 0̄, at half the range, and the caller keeps every number within it, so that no sum
  of two entries wraps. The test for the sentinel is left out in two cases. With ``facts.nonnegative`` (min-plus)
  sentinel + x ≥ sentinel ≥ every entry of C, and an accumulator starts at the sentinel at most: no entry ever exceeds
  it, none falls below it without a path, and a whole recursion of products in place keeps it so. With
  ``facts.separate`` the caller reads results by a threshold of its own (`semiring.arrays.encoding.product_encoding`):
  good for one product, not for a chain.
* The same input gives the same bits, whatever the number of threads: no two threads ever add into one entry, and the
  order of k within an entry is fixed.
* A backend that says so (``stacks``) takes stacks in `multiply` and `multiply_add`: A (b, m, k), B (b, k, n) and C
  (b, m, n) of one leading size, of any strides along it; those of A and B may be 0, which repeats one matrix. One call
  is then one launch, however many matrices there are. All three arrays have the third dimension or none has.
* bfloat16 is NumPy's dtype of that name (package ml_dtypes); arrays are of it, or 16-bit integers that hold its bits.
* With ``storage="bits"`` the arrays hold uint32 words along the rows: bit b of word w is column 32·w + b, tail bits are
  zero, and the inner size k is the number of rows of B.

A backend that can do more derives from the groups of operations below, such as `ClosureKernels`. A caller reads the
group, ``backend.capabilities.closures``, and uses another method where it is None.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol

import numpy as np

from semiring.advice import option
from semiring.algebra import Semiring
from semiring.errors import DeviceError

if TYPE_CHECKING:
    from semiring.kernels.tolerance import Tolerance

__all__ = [
    "GROUPS",
    "NO_PREDECESSOR",
    "OPERATIONS",
    "Backend",
    "Capabilities",
    "ClosureKernels",
    "Facts",
    "GraphKernels",
    "KernelPlan",
    "Mark",
    "PassKernels",
    "PathKernels",
    "ProductKernels",
    "SequenceKernels",
    "Status",
    "Steps",
    "StreamKernels",
    "Streams",
    "has_operation",
    "lacking",
]

#: What stands for "no predecessor" in a matrix of them: SciPy's number, here and in every kernel.
NO_PREDECESSOR = -9999


@dataclass(frozen=True)
class Facts:
    """What is known of every entry of every operand of a public call. False means "not known"."""

    nonnegative: bool = False  # no entry is below zero and no sign bit is set (-0.0 has one)
    separate: bool = False  # integers of min-plus and max-plus: no sum with "no path" can be taken for a number


@dataclass
class Status:
    """What kernels noticed. The public call reads it once, at its end.

    On a device kernels cannot write ``diverged``: the caller provides ``word``, an int32 array of one element there, -1
    at first, and `close_block` leaves ``first`` + the index of the first pivot without a star in it, if it is still -1.
    """

    diverged: int = -1  # the first pivot without a star, -1 while there is none
    word: Any = None  # on a device: where kernels leave it instead; None where nobody will ask
    first: int = 0  # the vertex of the first row of the block that is closed: what a device adds to the pivot's index

    def read(self) -> int:
        """The first pivot without a star, -1 without one; waits for the device where there is one."""
        if self.word is not None and self.diverged < 0:
            self.diverged = int(self.word[0])
        return self.diverged


@dataclass(frozen=True)
class KernelPlan:
    """One public call, as the kernels see it."""

    semiring: Semiring
    dtype: np.dtype[Any]
    zero: Any  # 0̄ inside the call: half the range of an integer dtype in min-plus, so that no sum of two values wraps
    one: Any
    facts: Facts = Facts()
    storage: Literal["elements", "bits"] = "elements"
    threads: int = 1
    stream: Any = None
    pivot_chunk: int = 64  # the length of the runs of k that `multiply_add_pivots` tells apart
    status: Status = field(default_factory=Status, compare=False)
    #: What a backend derived from this plan, to find it again at the next call of its kind; nothing of one matrix.
    memo: dict[Any, Any] = field(default_factory=dict, init=False, compare=False, repr=False)

    def renewed(self, semiring: Semiring) -> KernelPlan:
        """The plan of another call: of an equal semiring, whatever its name; the same memo, a status of its own."""
        plan = object.__new__(KernelPlan)  # `replace` takes 3 µs, some tenth of a closure of few vertices
        vars(plan).update(vars(self), semiring=semiring, status=Status())
        return plan


class Backend(Protocol):
    """The kernel contract. ``C``, ``W``, ``P`` are written in place; nothing is returned."""

    name: str
    stacks: bool  # whether `multiply` and `multiply_add` take 3-D arrays; where not, the caller loops

    @property
    def capabilities(self) -> Capabilities:
        """What the backend provides beyond these operations; the same object at every call."""
        ...

    def supports(self, semiring: Semiring, dtype: np.dtype[Any], storage: str = "elements") -> bool:
        """Whether every kernel below accepts this combination."""
        ...

    def multiply(self, plan: KernelPlan, C: Any, A: Any, B: Any) -> None:
        """C ← A ⊗ B. C is not read, and may be uninitialised. With k = 0, C becomes all zero."""
        ...

    def multiply_add(self, plan: KernelPlan, C: Any, A: Any, B: Any) -> None:
        """C ← C ⊕ A ⊗ B, each entry folded as ((C ⊕ A₀B₀) ⊕ A₁B₁) ⊕ … up to reassociation fixed by the sizes alone."""
        ...

    def multiply_add_witness(self, plan: KernelPlan, C: Any, W: Any, A: Any, B: Any, k0: int) -> None:
        """As `multiply_add`, for a selective ⊕; W (m, n) is int32 or int64.

        Where A ⊗ B is strictly better than C, W[i, j] becomes k0 + the smallest k that attains it. Elsewhere C and W
        stay.
        """
        ...

    def multiply_add_pivots(self, plan: KernelPlan, C: Any, P: Any, A: Any, B: Any, k0: int) -> None:
        """As `multiply_add`, of elements, for a selective ⊕; P (m, n) is int32.

        k is cut into runs of ``plan.pivot_chunk``. Where C strictly improves in a run, P[i, j] becomes k0 + the first k
        of the *last* run in which it did. Elsewhere P stays. Costs some 5 % over `multiply_add` on a CPU (float32,
        n = 1024), some 45 % on an H200: this is how closures of matrices in files remember paths.
        """
        ...

    def close_block(self, plan: KernelPlan, A: Any) -> None:
        """A ← A* in place, A (n, n) of at most some hundred rows, one pivot at a time with the star at each pivot.

        A pivot whose star does not exist sets ``plan.status.diverged`` to its index and leaves A undefined.
        """
        ...

    def close_block_pivots(self, plan: KernelPlan, A: Any, P: Any, k0: int) -> None:
        """As `close_block`, of elements, for a selective ⊕.

        Where pivot k strictly improves A[i, j], P[i, j] becomes k0 + k.
        """
        ...


# ---------------------------------------------------------------------------------------------- what a backend may add


def _absent() -> NotImplementedError:
    """Return the error of an optional operation that a backend left out."""
    return NotImplementedError("this backend has no such kernel: ask `Capabilities.provides` before the call")


class ProductKernels(Protocol):
    """Products in place, products of triangular matrices, products that propagate NaN, and plain products.

    Optional: `multiply_upper`, `propagates_nan`, `multiply_add_plain`.
    """

    def replaces(self, plan: KernelPlan, m: int, n: int) -> bool:
        """Return whether C may be B, the same array, in `multiply` with B (m, n) and A (m, m).

        Of elements in `multiply_add_pivots` too.
        """
        ...

    def overlaps(self, plan: KernelPlan, m: int, n: int, k: int) -> bool:
        """Return whether A (m, k) may be columns of C (m, n) in `multiply_add`, where B are rows of pivots: B = K* ⊗ B.

        An entry that is set in A meanwhile belongs to A ⊗ K*, whose product is that of A.
        """
        ...

    def copy_panel(self, plan: KernelPlan, A: Any, out: Any) -> None:
        """Out ← A, which share no element."""
        ...

    def multiply_add_upper(self, plan: KernelPlan, C: Any, A: Any, B: Any) -> None:
        """C ← C ⊕ A ⊗ B on and above the diagonal, C (n, n). Entries below it may be overwritten."""
        ...

    def multiply_upper(self, plan: KernelPlan, C: Any, A: Any, B: Any, below: int, left: bool) -> None:
        """C ← A ⊗ B as `Backend.multiply`, by a triangular matrix; C (m, n) and B may be one where it `replaces`.

        ``left``: A (m, m) is 0̄ where k < i - below. Else B (n, n) is 0̄ where k > j + below. A kernel need not read
        these entries.
        """
        raise _absent()

    def propagates_nan(self, plan: KernelPlan, m: int, k: int, n: int) -> bool:
        """Return whether products (m, k) by (k, n), n or m 1, are NaN or ∞ where a row meets a NaN, or ∞ and no -∞.

        The caller then scans the product in place of the operands.
        """
        return False

    def multiply_add_plain(self, plan: KernelPlan, C: Any, A: Any, B: Any) -> None:
        """C ← C ⊕ A ⊗ B by the plainest kernel, to compare with."""
        raise _absent()


class ClosureKernels(Protocol):
    """Closures by kernels written for them: of whole matrices, of stacks, and of small matrices whose weights gain.

    Optional, each with the operations of its paragraph: `close`, `close_as`, `close_stack`, `close_gaining`.

    Weights gain below 0 in min-plus, above 0 in max-plus, above 1 in max-times. The matrices of `close_gaining` are
    those of the caller, with the "no path" of the caller. The semiring of the plan says what gains. The bits are those
    of a closure under potentials, component by component.
    """

    def can_close(self, plan: KernelPlan, n: int) -> bool:
        """Return whether `close` takes a matrix of n rows under this plan."""
        return False

    def close(self, plan: KernelPlan, A: Any, *, beside: bool = False) -> None:
        """A ← A* in place, A (n, n). ``beside``: whether other work keeps the device busy meanwhile."""
        raise _absent()

    def paper_names(self) -> tuple[str, ...]:
        """Return the methods that `close_as` has kernels of."""
        return ()

    def close_as(self, plan: KernelPlan, A: Any, name: str) -> None:
        """A ← A* in place, A (n, n) of any strides, by the kernel of a paper, under the name of its method.

        A pivot without a star goes to the status of the plan, as by `Backend.close_block`. Raises `AlgebraError` for a
        semiring that the kernel does not close.
        """
        raise _absent()

    def stack_rows(self, plan: KernelPlan) -> int:
        """Return the most rows of matrices that are closed side by side in a stack, each as a whole."""
        return 0

    def close_stack(self, plan: KernelPlan, A: Any) -> None:
        """A ← A* in place, of each matrix of A (count, n, n), of any n.

        A pivot without a star counts on from matrix to matrix: row i of matrix b is b·n + i.
        """
        raise _absent()

    def gaining_rows(self, plan: KernelPlan) -> int:
        """Return the most rows of matrices that `close_gaining` takes under this plan, 0 where it takes none."""
        return 0

    def look_gaining(self, plan: KernelPlan, A: Any) -> Any:
        """Return what `close_gaining` needs to know of A (count, n, n); None where some matrix needs more care.

        A matrix with a cycle that gains needs more care; the cycle is not named here. Nothing is written. Of max-times
        and min-times the result is the factors (count, n) float64 under which no weight gains.
        """
        raise _absent()

    def close_gaining(self, plan: KernelPlan, A: Any, found: Any, out: Any) -> None:
        """Out ← A* of every matrix, by the result of `look_gaining`; out may be A."""
        raise _absent()


class Mark(Protocol):
    """A place in the work that was enqueued."""

    @property
    def done(self) -> bool:
        """Whether all work before the mark has ended."""
        ...

    def synchronize(self) -> None:
        """Wait until all work before the mark has ended."""
        ...


class Streams(Protocol):
    """Work side by side: a context that begins behind the work enqueued before it, and that later work waits for.

    The lower the number of a stream, the more urgent its work.
    """

    def __enter__(self) -> Any: ...

    def __exit__(self, *error: Any) -> None: ...

    def run(self, number: int, task: Callable[[], None], after: Sequence[Any]) -> Any:
        """Enqueue a task on a stream, behind other tasks (the results of `run` for them; None is no task)."""
        ...


class StreamKernels(Protocol):
    """Kernels that only enqueue their work on the streams of a device.

    Optional: `replay`.
    """

    def lanes(self, plan: KernelPlan) -> Streams | None:
        """Return streams for work side by side; None where the plan allows one order only."""
        ...

    def mark(self) -> Mark:
        """Return a mark behind all work that was enqueued so far."""
        ...

    def replay(
        self, plan: KernelPlan, A: Any, engine_of: Callable[[KernelPlan], Any], algorithm: Callable[..., object]
    ) -> None:
        """Run ``algorithm(engine_of(plan), A)``, whose launches depend on the plan and on A's shape alone.

        The launches of one function on a plan and a shape of one kind are recorded once, and then repeated.
        """
        raise _absent()


class PassKernels(Protocol):
    """Passes over the entries of a matrix, each by one kernel of its stream."""

    def copy(self, A: Any, out: Any) -> None:
        """Out ← A, with the priority of the stream."""
        ...

    def copy_nonnegative(self, A: Any, out: Any) -> Any:
        """Out ← A, -0.0 as 0.0. Return a word for `spoil`: whether an entry was below 0. Nothing waits for it."""
        ...

    def spoil(self, A: Any, word: Any) -> None:
        """A ← NaN where that word says so."""
        ...

    def in_order(self, bits: Any, out: Any, replaced: Any, back: bool) -> None:
        """Out ← the bits of floats as integers in their order, or back; two pairs of values are replaced."""
        ...

    def largest_whole(self, A: Any) -> float:
        """Return the greatest size of a finite entry; ∞ where an entry is no whole number."""
        ...

    def relax(self, A: Any, h: Any, sign: int, epsilon: float) -> Any:
        """Return the minimum over i of h[i] + w[i, j], (n,), for weights w = ± A, each raised by ε times its size.

        An ∞ of either sign is no edge. This is a sweep of Bellman-Ford over the whole matrix.
        """
        ...


class GraphKernels(Protocol):
    """A matrix as a graph, where it lies: scans and permutations without an operation of the semiring.

    A matrix (n, n) of elements has rows of adjacent entries, and ``none`` is no edge. Packed truth values are words
    (n, ⌈n/32⌉); sets of their vertices are such rows on the host, and loops are no edges. Docstrings say what is on the
    host; all other arrays are where the matrix is.

    Optional: the operations of packed truth values, which begin with `has_edges`.
    """

    def look(self, A: Any, none: Any) -> tuple[bool, bool, int, Any]:
        """Return whether A = Aᵀ bit by bit, whether an edge lies below the diagonal, how many edges, and their weight.

        The weight is None unless all edges between two vertices have it. The call waits for the device.
        """
        ...

    def edge_words(self, A: Any, none: Any) -> Any:
        """Return the edges as bits: words (n, ⌈n/32⌉)."""
        ...

    def permute(self, D: Any, order: Any, source: Any = None) -> None:
        """D[i, j] ← D[order[i], order[j]] in place, or of the entries of a source apart from it; order on the host."""
        ...

    def permute_columns(self, D: Any, order: Any) -> None:
        """D[i, j] ← D[i, order[j]] in place; order on the host."""
        ...

    def transpose(self, A: Any, out: Any) -> None:
        """Out (n, m) ← the transpose of A (m, n)."""
        ...

    def mirror(self, A: Any) -> None:
        """Entries below the diagonal of A ← entries above it."""
        ...

    def count_hops(self, D: Any, starts: Any, heads: Any, words: Any, weight: Any, none: Any) -> None:
        """D ← the weight times the fewest edges of a path: 0 on the diagonal, ``none`` where there is no path.

        Edges as compressed rows on the host, or, where ``words`` is not None, as bits.
        """
        ...

    def spanning_edges(self, A: Any, none: Any, largest: bool) -> tuple[Any, Any, Any]:
        """Return the largest or smallest spanning forest of a symmetric A: tails, heads and weights, on the host."""
        ...

    def fill_bottlenecks(self, D: Any, order: Any, edges: Any, one: Any, largest: bool) -> None:
        """D[i, j] ← the worst of the edges behind i, up to j, in an order of the vertices; both (n,) on the host."""
        ...

    def has_edges(self, plan: KernelPlan, n: int) -> bool:
        """Return whether kernels take packed matrices of n rows under this plan: ⊕ is or, ⊗ is and."""
        return False

    def count_edges(self, words: Any) -> tuple[int, bool]:
        """Return how many edges there are, and whether one of them leads to an earlier vertex."""
        raise _absent()

    def peel(self, words: Any, edges: int, rounds: int) -> tuple[Any, Any, Any]:
        """Return the vertices that no cycle reaches, in topological order, as far as so many rounds find them.

        And all edges: where those of each vertex begin (n + 1,), and their heads. All on the host.
        """
        raise _absent()

    def sweep_along(self, words: Any, vertices: Any) -> Any:
        """Return the vertices that edges from some vertices lead to."""
        raise _absent()

    def sweep_against(self, words: Any, vertices: Any, asked: Any) -> Any:
        """Return the vertices of ``asked`` from which an edge leads to some vertices."""
        raise _absent()

    def permute_bits(self, words: Any, order: Any) -> None:
        """A[i, j] ← A[order[i], order[j]] in place; order (n,) on the host. Workspace: some columns."""
        raise _absent()

    def fill_component(self, words: Any, start: int, stop: int) -> None:
        """Complete A* where the vertices start … stop - 1 reach each other, and no later vertex reaches them."""
        raise _absent()


class PathKernels(Protocol):
    """Predecessors of a closure (`semiring.algorithms.predecessors`), and best paths of sparse graphs (`dijkstra`).

    A sparse graph is its compressed rows, starts (n + 1,) int64, heads (m,) int32 and weights (m,), and whether paths
    are combined from their ends on; no weight improves on 1̄.

    Optional: `find_tree`; `search_table` with `search_near`.
    """

    def find_predecessors(self, plan: KernelPlan, D: Any, tolerance: Tolerance, before: Any) -> Any:
        """Return the predecessors (n, n) int32 of D = A*, n > 0, from A (n, n)."""
        ...

    def find_tree(self, plan: KernelPlan, D: Any, weights: Any, tolerance: Tolerance, source: int) -> Any:
        """Return the predecessors (n,) int32 of the row ``source`` of D (n, n), from the weights (n, n)."""
        raise _absent()

    def search_table(self, plan: KernelPlan, graph: Any, sources: Any, targets: Any, out: Any, trees: Any) -> None:
        """Out (p, q) ← the best values from p sources to q targets; 0̄ where no path leads. Floats may be narrower.

        ``trees`` (p, n) int32 ← the vertex before each vertex that was reached by then, -9999; (0, n): not requested.
        """
        raise _absent()

    def search_near(self, plan: KernelPlan, graph: Any, sources: Any, wanted: Any, limit: Any) -> tuple[Any, Any, Any]:
        """Return the ``wanted`` (n,) bool within the limit of each source: rows as starts, vertices and values."""
        raise _absent()


class Steps(NamedTuple):
    """The operands of some steps x ← (x ⊗ B) ⊗ w of m rows, each row a sequence of its own.

    Arrays are (m, number, n), of any strides between lines. None: absent, or not requested. ``lengths`` (m,) holds the
    step from which on a row stays as it is. The ``states`` after each step are written. `SequenceKernels.walk` writes
    ``factors`` and ``sums``, which `SequenceKernels.pull` reads for gradients. ``more`` is added to a gradient after
    each step, and the gradient by the weights w is written to ``by_weights``.
    """

    number: int
    weights: Any = None
    lengths: Any = None
    states: Any = None
    factors: Any = None
    sums: Any = None
    more: Any = None
    by_weights: Any = None


class SequenceKernels(Protocol):
    """Sequences of steps by one matrix B (n, n), and their gradients."""

    def prepare(self, plan: KernelPlan, B: Any) -> Any:
        """Return what all steps share while B stays as it is; None where that saves nothing."""
        ...

    def walk(self, plan: KernelPlan, prepared: Any, x: Any, steps: Steps) -> None:
        """X (m, n), adjacent rows, ← its state after the steps, each product with the bits of `multiply` for m > 1."""
        ...

    def pulls(self, plan: KernelPlan, n: int) -> bool:
        """Return whether `pull` knows this semiring and dtype."""
        ...

    def pull(self, plan: KernelPlan, prepared: Any, G: Any, steps: Steps, by_matrix: Any) -> bool:
        """G (m, n), adjacent rows, the gradient by the last state, ← that by the first; False where values forbid it.

        The gradient by B is added to ``by_matrix`` (n, n) float64. After False all arrays that are written hold
        anything, but for ``by_matrix``. Gradients are right to the precision of their greatest.
        """
        ...


@dataclass(frozen=True)
class Capabilities:
    """What a backend provides beyond the contract, by groups of operations; None: the backend lacks the group.

    A backend derives from the protocol of each group that it provides, and `of` gives the capabilities. An operation
    that is named as optional in the docstring of its group has a default there. `provides` tells whether a backend has
    more than this default. `semiring.kernels.reference` provides no group.
    """

    products: ProductKernels | None = None
    closures: ClosureKernels | None = None
    streams: StreamKernels | None = None
    passes: PassKernels | None = None
    graphs: GraphKernels | None = None
    paths: PathKernels | None = None
    sequences: SequenceKernels | None = None

    @classmethod
    def of(cls, backend: Any) -> Capabilities:
        """Return the groups from whose protocols the class of a backend derives."""
        return cls(**{name: backend for name, group in GROUPS.items() if group in type(backend).__mro__})

    def provides(self, operation: str) -> bool:
        """Return whether the backend has an operation of some group, and not its default."""
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
}

#: What each operation beyond `Backend` does by default, by its name.
OPERATIONS: dict[str, Any] = {
    name: default for group in GROUPS.values() for name, default in vars(group).items() if name[0] != "_"
}


def has_operation(found: Any, operation: str) -> bool:
    """Return whether a backend, or the class of one, has an operation, and not the default of its group."""
    own = getattr(found, operation, None)
    return own is not None and getattr(own, "__func__", own) is not OPERATIONS.get(operation)


def lacking(who: str, needs: Iterable[str], backend: Backend) -> DeviceError:
    """Return the error to raise where ``who`` needs operations, by their names, that a backend does not provide."""
    names = list(needs)
    return DeviceError(
        f"{who} needs the kernel operation{'s' * (len(names) > 1)} {' and '.join(names)}, and this matrix is closed by "
        f"the {backend.name} backend, which has no such kernels: pass {option('device', 'cuda')} or an array on a "
        "GPU, or use rkleene"
    )
