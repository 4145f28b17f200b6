"""What every backend provides, and what it may rely on.

Every call takes a `Plan`: frozen, made once per public call, handed down a recursion. A, B and C are 2-D arrays of
``plan.dtype`` on the backend's device, A (m, k), B (k, n), C (m, n).

* Any size, 0 and 1 included, and any strides: rows, columns, negative ones, the strides of a transpose. Kernels may be
  faster on unit column stride; they are right on all.
* No *element* of C is an element of A or B. Interleaved views of one matrix are fine; so a recursion works in place.
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
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

import numpy as np

from semiring.algebra import Semiring

__all__ = ["Backend", "Facts", "Plan", "Status"]


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
class Plan:
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

    def renewed(self, semiring: Semiring) -> Plan:
        """The plan of another call: of an equal semiring, whatever its name; the same memo, a status of its own."""
        plan = object.__new__(Plan)  # `replace` takes 3 µs, some tenth of a closure of few vertices
        vars(plan).update(vars(self), semiring=semiring, status=Status())
        return plan


class Backend(Protocol):
    """The kernel contract. ``C``, ``W``, ``P`` are written in place; nothing is returned.

    A backend may offer more, and is asked for it by name: ``close(plan, A)``, a whole closure as one fast path, where
    ``can_close(plan, n)``; ``close_stack(plan, A)``, the same of all matrices of a stack (count, n, n), in one launch
    up to ``stack_rows(plan)`` rows, pivots without a star counting on from matrix to matrix; ``find_predecessors`` and
    ``find_tree``; ``lanes(plan)``, streams for work side by side, or None, and then ``close(plan, A, beside=True)`` for
    closures beside other work; ``mark()``, an event that says when what was enqueued has ended; ``replay``, a closure
    recorded once; ``relax``, a sweep of Bellman-Ford; ``largest_whole``, which tells whole numbers; ``in_order``, which
    makes floats integers in their order; ``copy``, which has the priority of its stream; and ``copy_nonnegative``
    with ``spoil``, for weights that nobody may wait to see. `semiring.kernels.cuda` has all.
    """

    name: str
    stacks: bool  # whether `multiply` and `multiply_add` take 3-D arrays; where not, the caller loops

    def supports(self, semiring: Semiring, dtype: np.dtype[Any], storage: str = "elements") -> bool:
        """Whether every kernel below accepts this combination."""
        ...

    def multiply(self, plan: Plan, C: Any, A: Any, B: Any) -> None:
        """C ← A ⊗ B. C is not read, and may be uninitialised. With k = 0, C becomes all zero."""
        ...

    def multiply_add(self, plan: Plan, C: Any, A: Any, B: Any) -> None:
        """C ← C ⊕ A ⊗ B, each entry folded as ((C ⊕ A₀B₀) ⊕ A₁B₁) ⊕ … up to reassociation fixed by the sizes alone."""
        ...

    def multiply_add_witness(self, plan: Plan, C: Any, W: Any, A: Any, B: Any, k0: int) -> None:
        """As `multiply_add`, for a selective ⊕; W (m, n) is int32 or int64.

        Where A ⊗ B is strictly better than C, W[i, j] becomes k0 + the smallest k that attains it. Elsewhere C and W
        stay.
        """
        ...

    def multiply_add_pivots(self, plan: Plan, C: Any, P: Any, A: Any, B: Any, k0: int) -> None:
        """As `multiply_add`, for a selective ⊕; P (m, n) is int32.

        k is cut into runs of ``plan.pivot_chunk``. Where C strictly improves in a run, P[i, j] becomes k0 + the first k
        of the *last* run in which it did. Elsewhere P stays. Costs some 5 % over `multiply_add` on a CPU (float32,
        n = 1024), some 45 % on an H200: this is how closures remember paths where comparing matrices would not do.
        """
        ...

    def close_block(self, plan: Plan, A: Any) -> None:
        """A ← A* in place, A (n, n) of at most some hundred rows, one pivot at a time with the star at each pivot.

        A pivot whose star does not exist sets ``plan.status.diverged`` to its index and leaves A undefined.
        """
        ...

    def close_block_pivots(self, plan: Plan, A: Any, P: Any, k0: int) -> None:
        """As `close_block`, for a selective ⊕: where pivot k strictly improves A[i, j], P[i, j] becomes k0 + k."""
        ...
