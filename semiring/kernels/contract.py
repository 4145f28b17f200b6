"""What every backend provides, and what it may rely on.

Every call takes a `KernelPlan`: frozen, made once per public call, handed down a recursion. A, B and C are 2-D arrays
of ``plan.dtype`` on the backend's device, A (m, k), B (k, n), C (m, n).

* Any size, 0 and 1 included, and any strides: rows, columns, negative ones, the strides of a transpose. Kernels may be
  faster on unit column stride; they are right on all.
* No *element* of C is an element of A or B, but where a backend says that C may be B (`Panels`). Interleaved views of
  one matrix are fine; so a recursion works in place.
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

A backend that can do more declares it, as `Capabilities`: each is a protocol below, and whoever wants one asks for it,
``backend.capabilities.stack_closures``, and does without where that is None.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol

import numpy as np

from semiring.algebra import Semiring
from semiring.errors import DeviceError

if TYPE_CHECKING:
    from semiring.kernels.tolerance import Tolerance

__all__ = [
    "NO_PREDECESSOR",
    "Backend",
    "Capabilities",
    "Factors",
    "Facts",
    "GainingClosures",
    "Graphs",
    "KernelPlan",
    "LaunchRecorder",
    "Mark",
    "Panels",
    "Passes",
    "PredecessorSearch",
    "Queues",
    "Relations",
    "Relaxation",
    "StackClosures",
    "Status",
    "Streams",
    "TellingProducts",
    "TreeSearch",
    "Triangles",
    "Walks",
    "WholeClosures",
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
        """What else the backend can do; the same object at every call."""
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
        """As `multiply_add`, for a selective ⊕; P (m, n) is int32.

        k is cut into runs of ``plan.pivot_chunk``. Where C strictly improves in a run, P[i, j] becomes k0 + the first k
        of the *last* run in which it did. Elsewhere P stays. Costs some 5 % over `multiply_add` on a CPU (float32,
        n = 1024), some 45 % on an H200: this is how closures remember paths where comparing matrices would not do.
        """
        ...

    def close_block(self, plan: KernelPlan, A: Any) -> None:
        """A ← A* in place, A (n, n) of at most some hundred rows, one pivot at a time with the star at each pivot.

        A pivot whose star does not exist sets ``plan.status.diverged`` to its index and leaves A undefined.
        """
        ...

    def close_block_pivots(self, plan: KernelPlan, A: Any, P: Any, k0: int) -> None:
        """As `close_block`, for a selective ⊕: where pivot k strictly improves A[i, j], P[i, j] becomes k0 + k."""
        ...


# ---------------------------------------------------------------------------------------------- what a backend may add


class WholeClosures(Protocol):
    """Closures of whole matrices by kernels written for them, without products."""

    def can_close(self, plan: KernelPlan, n: int) -> bool:
        """Whether `close` takes a matrix of n rows under this plan."""
        ...

    def close(self, plan: KernelPlan, A: Any, *, beside: bool = False) -> None:
        """A ← A* in place, A (n, n). ``beside``: whether other work keeps the device busy meanwhile."""
        ...


class StackClosures(Protocol):
    """Closures of all matrices of a stack by one call."""

    def stack_rows(self, plan: KernelPlan) -> int:
        """The most rows of matrices that are closed side by side in a stack, each as a whole."""
        ...

    def close_stack(self, plan: KernelPlan, A: Any) -> None:
        """A ← A* in place, of each matrix of A (count, n, n), of any n.

        A pivot without a star counts on from matrix to matrix: row i of matrix b is b·n + i.
        """
        ...


class GainingClosures(Protocol):
    """Closures of small matrices whose weights gain: below 0 in min-plus, above 0 in max-plus, above 1 in max-times.

    Of what a caller gave, with his "no path". The semiring of the plan says what gains; the bits are those of closing
    under potentials, component by component.
    """

    def gaining_rows(self, plan: KernelPlan) -> int:
        """The most rows of matrices that these take under this plan, 0 where they take none."""
        ...

    def look_gaining(self, plan: KernelPlan, A: Any) -> Any:
        """What is to be known of A (count, n, n) before it is closed; None where some matrix needs more care.

        So does one with a cycle that gains, which is not named here. Nothing is written. Of max-times and min-times
        these are the factors (count, n) float64 under which no weight gains.
        """
        ...

    def close_gaining(self, plan: KernelPlan, A: Any, found: Any, out: Any) -> None:
        """Out ← A* of every matrix, for what was found of A; out may be A."""
        ...


class Mark(Protocol):
    """A place in the work that was enqueued."""

    @property
    def done(self) -> bool:
        """Whether all work before the mark has ended."""
        ...

    def synchronize(self) -> None:
        """Wait until it has."""
        ...


class Streams(Protocol):
    """Work side by side: a context that begins behind what was enqueued before it, and that what comes next waits for.

    The lower the number of a stream, the more urgent its work.
    """

    def __enter__(self) -> Any: ...

    def __exit__(self, *error: Any) -> None: ...

    def run(self, number: int, task: Callable[[], None], after: Sequence[Any]) -> Any:
        """Enqueue a task on a stream, behind others (what `run` returned of them; None is no one)."""
        ...


class Queues(Protocol):
    """Kernels that only enqueue their work, as those of a device do."""

    def lanes(self, plan: KernelPlan) -> Streams | None:
        """Streams for work side by side; None where the plan allows one order only."""
        ...

    def mark(self) -> Mark:
        """A mark behind all that was enqueued so far."""
        ...


class LaunchRecorder(Protocol):
    """Closures whose launches are recorded, and repeated by the next of their kind."""

    def replay(
        self, plan: KernelPlan, A: Any, engine_of: Callable[[KernelPlan], Any], algorithm: Callable[..., object]
    ) -> None:
        """``algorithm(engine_of(plan), A)``, for an algorithm whose launches depend on the plan and on A's shape alone.

        The same function on a plan and a shape of the same kind is recorded once.
        """
        ...


class Relaxation(Protocol):
    """Sweeps of Bellman-Ford over a whole matrix."""

    def relax(self, A: Any, h: Any, sign: int, epsilon: float) -> Any:
        """The minimum over i of h[i] + w[i, j], (n,), for weights w = ± A, each raised by ε times its size."""
        ...


class Panels(Protocol):
    """Products in place without a copy, or with one that is made as products are."""

    def replaces(self, plan: KernelPlan, m: int, n: int) -> bool:
        """Whether C may be B, the same array, in `multiply` with B (m, n) and A (m, m).

        Of elements in `multiply_add_pivots` too.
        """
        ...

    def overlaps(self, plan: KernelPlan, m: int, n: int, k: int) -> bool:
        """Whether A (m, k) may be columns of C (m, n) in `multiply_add`, where B are rows of pivots: B = K* ⊗ B.

        What is set in A meanwhile is then of A ⊗ K*, whose product is that of A.
        """
        ...

    def copy_panel(self, plan: KernelPlan, A: Any, out: Any) -> None:
        """Out ← A, which share no element."""
        ...


class Steps(NamedTuple):
    """Some steps x ← (x ⊗ B) ⊗ w of m rows that go their ways apart, with what is read and written beside the states.

    Arrays are (m, number, n), of any strides between lines; None is what there is none of, or nobody asks for. Of the
    ``lengths`` (m,) each says from which step on a row stays as it is. The ``states`` after each step are written.
    ``factors`` and ``sums`` are what gradients want of the steps: `Walks.walk` writes, and `Walks.pull` reads them.
    ``more`` is added to a gradient after each step, and that by the weights w is written to ``by_weights``.
    """

    number: int
    weights: Any = None
    lengths: Any = None
    states: Any = None
    factors: Any = None
    sums: Any = None
    more: Any = None
    by_weights: Any = None


class Walks(Protocol):
    """Steps by one matrix B (n, n), and their gradients."""

    def prepare(self, plan: KernelPlan, B: Any) -> Any:
        """What all steps have in common, while B stays as it is; None where that saves nothing."""
        ...

    def walk(self, plan: KernelPlan, prepared: Any, x: Any, steps: Steps) -> None:
        """X (m, n), adjacent rows, ← its state after the steps, each product with the bits of `multiply` for m > 1."""
        ...

    def pulls(self, plan: KernelPlan, n: int) -> bool:
        """Whether `pull` knows this semiring and dtype."""
        ...

    def pull(self, plan: KernelPlan, prepared: Any, G: Any, steps: Steps, by_matrix: Any) -> bool:
        """G (m, n), adjacent rows, the gradient by the last state, ← that by the first; False where values forbid it.

        That by B is added to ``by_matrix`` (n, n) float64. After False all that is written holds anything, but for
        ``by_matrix``. Gradients are right to the precision of their greatest.
        """
        ...


class TellingProducts(Protocol):
    """Products that show what is in their operands, so that nobody needs to look for it before."""

    def tells(self, plan: KernelPlan, m: int, k: int, n: int) -> bool:
        """Whether products (m, k) by (k, n), n or m 1, are NaN or ∞ where a row meets a NaN, or ∞ and no -∞."""
        ...


class Passes(Protocol):
    """Passes over the entries of a matrix, each by one kernel of its stream."""

    def copy(self, A: Any, out: Any) -> None:
        """Out ← A, with the priority of the stream."""
        ...

    def copy_nonnegative(self, A: Any, out: Any) -> Any:
        """Out ← A, -0.0 as 0.0. Returns a word for `spoil`: whether an entry was below 0, which nobody waits to see."""
        ...

    def spoil(self, A: Any, word: Any) -> None:
        """A ← NaN where that word says so."""
        ...

    def in_order(self, bits: Any, out: Any, replaced: Any, back: bool) -> None:
        """Out ← the bits of floats as integers in their order, or back; two pairs of values are replaced."""
        ...

    def largest_whole(self, A: Any) -> float:
        """The greatest size of a finite entry; ∞ where one is no whole number."""
        ...


class PredecessorSearch(Protocol):
    """Predecessors of a closure: see `semiring.algorithms.predecessors`."""

    def find_predecessors(self, plan: KernelPlan, D: Any, tolerance: Tolerance, before: Any, pivots: Any) -> Any:
        """The predecessors (n, n) int32 of D = A*, n > 0, from A (n, n) or from pivots (n, n) int32; one is None."""
        ...


class TreeSearch(Protocol):
    """Predecessors of one source."""

    def find_tree(self, plan: KernelPlan, D: Any, weights: Any, tolerance: Tolerance, source: int) -> Any:
        """The predecessors (n,) int32 of the row ``source`` of D (n, n), from the weights (n, n)."""
        ...


class SourceSearch(Protocol):
    """Best paths from some vertices of a sparse graph: see `semiring.algorithms.dijkstra`.

    A graph is its compressed rows, starts (n + 1,) int64, heads (m,) int32 and weights (m,), and whether paths are
    combined from their ends on; no weight improves on 1̄.
    """

    def search_table(self, plan: KernelPlan, graph: Any, sources: Any, targets: Any, out: Any, trees: Any) -> None:
        """Out (p, q) ← the best values from p sources to q targets; 0̄ where no path leads. Floats may be narrower.

        ``trees`` (p, n) int32 ← the vertex before each that was reached by then, -9999; (0, n) where nobody asks.
        """
        ...

    def search_near(self, plan: KernelPlan, graph: Any, sources: Any, wanted: Any, limit: Any) -> tuple[Any, Any, Any]:
        """The ``wanted`` (n,) bool no worse than the limit from each source: rows as starts, vertices and values."""
        ...


class Triangles(Protocol):
    """Products of which one triangle is wanted."""

    def multiply_add_upper(self, plan: KernelPlan, C: Any, A: Any, B: Any) -> None:
        """C ← C ⊕ A ⊗ B on and above the diagonal, C (n, n). What is below it may be overwritten."""
        ...


class Factors(Protocol):
    """Products by a triangular matrix."""

    def multiply_upper(self, plan: KernelPlan, C: Any, A: Any, B: Any, below: int, left: bool) -> None:
        """C ← A ⊗ B as `Backend.multiply`, C (m, n) and B may be one where `Panels` says so.

        ``left``: A (m, m) is 0̄ where k < i - below. Else B (n, n) is, where k > j + below. What is 0̄ need not be read.
        """
        ...


class Graphs(Protocol):
    """A matrix (n, n) as a graph, where it lies: what is done to its entries without an operation of the semiring.

    Rows are adjacent entries. ``none`` is no edge. What is on the host is said; all else is where the matrix is.
    """

    def look(self, A: Any, none: Any) -> tuple[bool, bool, int, Any]:
        """Whether A = Aᵀ bit by bit, whether an edge lies below the diagonal, how many there are, and their weight.

        The weight is None unless all edges between two vertices have it. It waits.
        """
        ...

    def edge_words(self, A: Any, none: Any) -> Any:
        """The edges as bits: words (n, ⌈n/32⌉)."""
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
        """What lies below the diagonal of A ← what lies above it."""
        ...

    def count_hops(self, D: Any, starts: Any, heads: Any, words: Any, weight: Any, none: Any) -> None:
        """D ← the weight times the fewest edges of a path: 0 on the diagonal, ``none`` where there is no path.

        Edges as compressed rows on the host, or, where ``words`` is not None, as bits.
        """
        ...

    def spanning_edges(self, A: Any, none: Any, largest: bool) -> tuple[Any, Any, Any]:
        """Tails, heads and weights, on the host, of a spanning forest of a symmetric A, the largest or the smallest."""
        ...

    def fill_bottlenecks(self, D: Any, order: Any, edges: Any, one: Any, largest: bool) -> None:
        """D[i, j] ← the worst of the edges behind i, up to j, in an order of the vertices; both (n,) on the host."""
        ...


class Relations(Protocol):
    """Packed truth values as edges: words (n, ⌈n/32⌉) on the device. Sets of vertices are such rows on the host.

    Loops are no edges.
    """

    def has_edges(self, plan: KernelPlan, n: int) -> bool:
        """Whether these take matrices of n rows under this plan: ⊕ is or, ⊗ is and."""
        ...

    def count_edges(self, words: Any) -> tuple[int, bool]:
        """How many edges there are, and whether one of them leads to an earlier vertex."""
        ...

    def peel(self, words: Any, edges: int, rounds: int) -> tuple[Any, Any, Any]:
        """The vertices that no cycle reaches, each behind those before it, as far as so many rounds find them.

        And all edges: where those of each vertex begin (n + 1,), and their heads. All on the host.
        """
        ...

    def sweep_along(self, words: Any, vertices: Any) -> Any:
        """The vertices that edges from some vertices lead to."""
        ...

    def sweep_against(self, words: Any, vertices: Any, asked: Any) -> Any:
        """Those of the vertices that are asked about from which an edge leads to some vertices."""
        ...

    def permute_bits(self, words: Any, order: Any) -> None:
        """A[i, j] ← A[order[i], order[j]] in place; order (n,) on the host. Workspace: some columns."""
        ...

    def fill_component(self, words: Any, start: int, stop: int) -> None:
        """What follows for A* where the vertices start … stop - 1 reach each other, and no later one reaches them."""
        ...


@dataclass(frozen=True)
class Capabilities:
    """What a backend can do beyond the contract; None is what it cannot.

    Mostly the backend itself is what stands here. `semiring.kernels.reference` has none.
    """

    whole_closures: WholeClosures | None = None
    stack_closures: StackClosures | None = None
    gaining: GainingClosures | None = None
    queues: Queues | None = None
    recorder: LaunchRecorder | None = None
    relaxation: Relaxation | None = None
    panels: Panels | None = None
    passes: Passes | None = None
    predecessors: PredecessorSearch | None = None
    trees: TreeSearch | None = None
    searches: SourceSearch | None = None
    relations: Relations | None = None
    walks: Walks | None = None
    telling: TellingProducts | None = None
    triangles: Triangles | None = None
    factors: Factors | None = None
    graphs: Graphs | None = None

    @classmethod
    def names(cls) -> tuple[str, ...]:
        """The names of all."""
        return tuple(field.name for field in fields(cls))


def lacking(who: str, needs: Iterable[str], backend: Backend) -> DeviceError:
    """The error to raise where ``who`` needs capabilities, by their names, that a backend does not have."""
    missing = " and ".join(name.replace("_", " ") for name in needs)
    return DeviceError(
        f"{who} needs {missing}, and this matrix is closed by the {backend.name} backend, which has no such kernels: "
        "pass device='cuda' or an array on a GPU, or use rkleene"
    )
