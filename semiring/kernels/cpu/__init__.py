"""The CPU backend: any semiring, compiled to the vector instructions of the machine.

From the bottom up:

* `codegen` turns expressions into vector instructions, compiles them and stores the code on disk.
* `product` has the micro-kernel of a tile and the loops around it.
* `closing` has the closure of a block.
* `elimination` has the loops of sparse elimination.
* `bit_matrices` has products and closures of truth values packed into words.
* `sparse_loops` has the products of sparse matrices.
* `predecessor_search` has the search for predecessors, `path_arrays` all paths as arrays, `dijkstra_loops` Dijkstra's
  algorithm, `dependency_loops` sums over all shortest paths, `spur_searches` the next
  best paths, and `update_loops` changes of a closure.
* `thread_pool` has threads for functions of Python, and `thread_team` threads for native blocks of a product.
* `kernels` holds the kernels of one definition.
* `loops` has loops over edges that Numba compiles, or Python runs.
* `first_calls` computes the first calls of a definition by `numpy_kernels` and `loops`, while `compiler_process` starts
  a process that compiles its kernels.

This module loads neither Numba nor a module that does. A method imports the loops that it calls.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import cached_property, lru_cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from semiring.algebra import Semiring
from semiring.algebra.catalogue import adds_exponentials, max_plus, max_times, min_plus, min_times
from semiring.errors import AlgebraError
from semiring.kernels.contract import (
    Adjacency,
    Array,
    Capabilities,
    CentralityKernels,
    ClosureKernels,
    CompressedRows,
    KernelPlan,
    PathKernels,
    ProductKernels,
    RankedPathKernels,
    SequenceKernels,
    SparseKernels,
    SpurSearches,
    Steps,
    UpdateKernels,
    count_pairs,
)
from semiring.kernels.cpu.compiler_process import (
    CLOSURE,
    COUNTS,
    DEPENDENCIES,
    FOLDS,
    GAINING,
    MIXED,
    PREDECESSORS,
    PRODUCT,
    RANKED,
    SEARCHES,
    SPARSE,
    STEPS,
    UPDATES,
    WITNESS,
)
from semiring.kernels.cpu.first_calls import FirstCalls, first_calls_of, plan_of_indices
from semiring.kernels.cpu.laws_of_bits import laws_of
from semiring.kernels.cpu.numpy_kernels import StepMatrices
from semiring.kernels.cpu.numpy_sparse import SparseStepMatrices
from semiring.kernels.reference import follow_witnesses
from semiring.kernels.spans import record_kernels
from semiring.kernels.tolerance import Tolerance
from semiring.progress import in_parts

if TYPE_CHECKING:
    from semiring.kernels.cpu.kernels import Kernels

_DTYPES = frozenset("fdhilqB?")
_STACKED_PAIRS = 1 << 18  # pairs: for a larger product of a stack, the cost of a call is negligible
_EXPONENTIAL_PAIRS = 1 << 15  # pairs of a step of log_plus by a matrix, above which its exponentials are shared
_TILE_ROWS, _TILE_PAIRS = 8, 1 << 25  # rows of a batch with one matrix, and pairs of a step, that tiles compute
_STACK_ROWS = 160  # rows from which on the cost of a call for each matrix is negligible
_STACK_ROWS_OF_BOOL = 63  # rows from which on truth values are closed faster as packed bits
_INTERPRETED_VISITS = 1 << 17  # of edges and vertices by Python, in some 0.3 s, before compiled loops are looked for
_STRIP = 256  # columns of a triangle of log_plus that are multiplied together
#: The methods of papers, and whether free threads take rows dynamically.
_DYNAMIC = {"bertoldi_openmp": True, "bertoldi_openmp_static": False}
_NO_MARKS = np.empty((0, 0), np.int32)


def _raise_trim_threshold() -> None:
    """Free a large block, so that malloc keeps the freed memory of the caller's arrays instead of returning it.

    glibc returns the free memory at the end of its heap to the system from twice the largest block on that a process
    has freed. A first call loads modules and kernels, which keep memory that was allocated beside the result. A NumPy
    loop of the caller over arrays as large as the result then returned and faulted in an array at each step, and took 3
    to 6 times as long. With the largest block that glibc takes into account, it keeps up to 62 MiB. The block is never
    touched, so it costs no memory.
    """
    with suppress(MemoryError):
        np.empty(31 << 20, np.uint8)


_raise_trim_threshold()


@record_kernels
class CpuBackend(
    ProductKernels,
    ClosureKernels,
    PathKernels,
    SequenceKernels,
    SparseKernels,
    CentralityKernels,
    UpdateKernels,
    RankedPathKernels,
):
    """The kernel contract, which documents the operations, on every dtype of the host, and on packed bits."""

    name = "cpu"
    stacks = True

    @cached_property
    def capabilities(self) -> Capabilities:
        """The groups of operations from which this class derives."""
        return Capabilities.from_backend(self)

    def supports(self, semiring: Semiring, dtype: np.dtype[Any], storage: str = "elements") -> bool:
        """Return whether the semiring is defined on the dtype, which must be one of the host."""
        if storage == "bits":
            return bool(dtype == np.bool_) and laws_of(semiring) is not None
        return dtype.char in _DTYPES and dtype.isnative and semiring.supports(dtype)

    def multiply(self, plan: KernelPlan, C: Array, A: Array, B: Array) -> None:
        self._multiply(plan, C, A, B, 0)

    def multiply_add(self, plan: KernelPlan, C: Array, A: Array, B: Array) -> None:
        self._multiply(plan, C, A, B, 1)

    def _multiply(self, plan: KernelPlan, C: Array, A: Array, B: Array, accumulate: int) -> None:
        """Compute C ← [C ⊕] A ⊗ B."""
        if plan.storage == "elements" and not (C.size and A.shape[-1]):
            if not accumulate:
                C[...] = plan.zero
            return
        first_calls = first_calls_of(plan)
        if PRODUCT in first_calls.pending and first_calls.product(plan, C, A, B, accumulate):
            return
        if plan.storage == "bits":
            (self._bits.multiply_add if accumulate else self._bits.multiply)(plan, C, A, B)
            return
        if _adds_exponentials(plan) and self._multiply_exponentials(plan, C, A, B, accumulate):
            return
        if C.ndim == 3:
            self._multiply_stacks(plan, C, A, B, accumulate)
            return
        kernels = self._kernels_for(plan)
        if 1 not in C.shape or not kernels.vector_product(C, A, B, accumulate, plan.threads):
            kernels.product(C, A, B, _NO_MARKS, accumulate, 0, 0, plan.threads, in_place=C is B)

    @cached_property
    def _kernels_for(self) -> Callable[[KernelPlan], Kernels]:
        from semiring.kernels.cpu.kernels import kernels_for

        return kernels_for

    @cached_property
    def _bits(self) -> Any:
        from semiring.kernels.cpu import bit_matrices

        return bit_matrices

    @cached_property
    def _log_kernels(self) -> tuple[Any, Any, Any]:
        """The modules of products, products by vectors, and walks of log_plus."""
        from semiring.kernels.cpu.product import log_products, log_vectors, log_walks

        return log_products, log_vectors, log_walks

    def _multiply_exponentials(self, plan: KernelPlan, C: Array, A: Array, B: Array, accumulate: int) -> bool:
        """Compute C ← [C ⊕] A ⊗ B of log_plus by products of plus_times. Return False if that is not possible."""
        log_products, log_vectors, _ = self._log_kernels
        # A product that is added to C may be a row of a larger product, whose results must be bitwise identical. So it
        # is computed as the larger product is.
        if 1 in C.shape[-2:] and not accumulate:
            if not log_vectors.can_multiply(plan, C.shape[-2], A.shape[-1], C.shape[-1]):
                return False
            stacks = (C, A, B) if C.ndim == 3 else (C[None], A[None], B[None])
            log_vectors.multiply(plan, *stacks)
            return True
        if not log_products.can_multiply(plan, B.shape[-2]):
            return False
        if C.ndim == 3:
            log_products.multiply(self, plan, C, A, B, accumulate)
        else:
            stack = C[None]
            log_products.multiply(self, plan, stack, A[None], stack if C is B else B[None], accumulate)
        return True

    def propagates_nan(self, plan: KernelPlan, m: int, k: int, n: int) -> bool:
        """Return whether products of these sizes show every NaN and ∞ of their operands: see `log_vectors`."""
        return _adds_exponentials(plan) and self._log_kernels[1].can_multiply(plan, m, k, n)

    def prepare(self, plan: KernelPlan, A: Array | tuple[CompressedRows, ...], groups: Array) -> Any:
        """Return the preparation of A for the steps of a batch.

        It is None if the products of steps are so large that threads should share them, or tiles compute them faster.
        """
        n, rows = 0, 0
        if not isinstance(A, tuple):
            n, rows = A.shape[-1], -(-groups.size // max(1, A.shape[0]))  # rows of the batch for each matrix
        # Compiled kernels and NumPy must join the products of steps in the same order. So the sizes come first.
        is_large = rows >= _TILE_ROWS and rows * n * n >= _TILE_PAIRS
        first_calls = first_calls_of(plan)
        if not is_large and first_calls.computes(STEPS) and first_calls.may_walk(A):
            return SparseStepMatrices(A) if isinstance(A, tuple) else StepMatrices(A, groups)
        from semiring.kernels.cpu.product import row_walks
        from semiring.kernels.machines import cpu_speed

        if isinstance(A, tuple):
            return row_walks.prepare_sparse(plan, A)
        pairs, most = rows * n * n, cpu_speed().parallel_pairs
        if self._has_log_products(plan, n):
            is_single, many = plan.dtype.char == "f", pairs > _EXPONENTIAL_PAIRS
            if A.shape[:2] == (1, 1) and rows > 1 and (is_single or many):
                return self._log_kernels[2].PreparedMatrix(plan, A[0, 0])
            if many and (rows > 1 or (is_single and pairs > 2 * _EXPONENTIAL_PAIRS)):
                return None
        if n * n >= most or is_large:
            return None
        return row_walks.DenseMatrices(plan, A, groups)

    def _has_log_products(self, plan: KernelPlan, k: int) -> bool:
        """Return whether products by B (k, n) are those of log_plus, which have loops of their own."""
        return _adds_exponentials(plan) and bool(self._log_kernels[0].can_multiply(plan, k))

    def walk(self, plan: KernelPlan, preparation: Any, x: Array, steps: Steps) -> None:
        if isinstance(preparation, StepMatrices):
            if first_calls_of(plan).walk(plan, preparation, x, steps):
                return
            from semiring.kernels.cpu.product.row_walks import DenseMatrices

            preparation.compiled = preparation.compiled or DenseMatrices(plan, preparation.A, preparation.groups)
            preparation = preparation.compiled
        elif isinstance(preparation, SparseStepMatrices):
            if first_calls_of(plan).walk_sparse(plan, preparation, x, steps):
                return
            from semiring.kernels.cpu.product.row_walks import prepare_sparse

            preparation.compiled = preparation.compiled or prepare_sparse(plan, preparation.matrices)
            preparation = preparation.compiled
        from semiring.kernels.cpu.product import row_walks

        if isinstance(preparation, row_walks.DenseMatrices | row_walks.SparseMatrix | row_walks.SparseMatrices):
            row_walks.walk(plan, preparation, x, steps)
        else:
            self._log_kernels[2].walk(self, plan, preparation, x, steps)

    def trace(self, plan: KernelPlan, W: Array, is_reached: Array, lengths: Array | None) -> None:
        if first_calls_of(plan).computes(STEPS):
            follow_witnesses(W, is_reached, lengths)
            return
        from semiring.kernels.cpu.product import row_walks

        row_walks.trace(W, is_reached, lengths)

    def can_pull(self, plan: KernelPlan, n: int) -> bool:
        """Return whether gradients are computed: for log_plus in float32."""
        return plan.dtype.char == "f" and self._has_log_products(plan, n)

    def pull(self, plan: KernelPlan, preparation: Any, G: Array, steps: Steps, matrix_gradient: Array) -> bool:
        return bool(self._log_kernels[2].pull(plan, preparation, G, steps, matrix_gradient))

    def _multiply_stacks(self, plan: KernelPlan, C: Array, A: Array, B: Array, accumulate: int) -> None:
        """Compute small products in one compiled loop, each on one thread, and large products on all threads."""
        if C.shape[1] * C.shape[2] * A.shape[2] <= _STACKED_PAIRS:
            self._kernels_for(plan).stacked_product(C, A, B, accumulate, plan.threads)
            return
        for matrices in in_parts([*zip(C, A, B, strict=True)]):
            self._multiply(plan, *matrices, accumulate)

    def can_multiply_in_place(self, plan: KernelPlan, m: int, n: int) -> bool:
        """Return whether C may be B in a product: if whole columns of B are packed before a column of C is written."""
        if plan.storage == "bits" or m < 2 or n < 2:
            return False
        if self._has_log_products(plan, m):
            return True
        if first_calls_of(plan).computes(PRODUCT):
            return False  # NumPy would copy B
        from semiring.kernels.machines import cpu_speed  # not at the first product, which is computed in NumPy

        return m <= 2 * cpu_speed().depth  # deeper columns would not stay in the cache

    def can_overlap(self, plan: KernelPlan, m: int, n: int, k: int) -> bool:
        """Return False, because A is packed some columns at a time, after C has been written."""
        return False

    def copy_panel(self, plan: KernelPlan, A: Array, out: Array) -> None:
        if first_calls_of(plan).computes(PRODUCT):
            out[...] = A
            return
        from semiring.kernels.cpu.kernels import copy_matrix

        copy_matrix(A, out, plan.threads)

    def multiply_upper(self, plan: KernelPlan, C: Array, A: Array, B: Array, subdiagonals: int, is_left: bool) -> None:
        """Compute `multiply` by a triangular matrix, whose entries that are 0̄ are skipped by whole tiles."""
        has_own_loop = 1 in C.shape or self._has_log_products(plan, B.shape[0])  # products by vectors, and log_plus
        if plan.storage == "bits" or has_own_loop or not C.size or first_calls_of(plan).computes(PRODUCT):
            self.multiply(plan, C, A, B)
            return
        from semiring.kernels.cpu.product.macro_kernel import FULL

        a_subdiagonals, b_subdiagonals = (subdiagonals, FULL) if is_left else (FULL, subdiagonals)
        self._kernels_for(plan).product(
            *(C, A, B, _NO_MARKS, 0, 0, 0, plan.threads),
            in_place=C is B,
            a_subdiagonals=a_subdiagonals,
            b_subdiagonals=b_subdiagonals,
        )

    def multiply_add_upper(self, plan: KernelPlan, C: Array, A: Array, B: Array) -> None:
        """Compute `multiply_add` by blocks that cover C on and above the diagonal."""
        n = C.shape[1]
        if self._has_log_products(plan, B.shape[0]):
            for start in range(0, n, _STRIP):
                stop = min(n, start + _STRIP)
                self.multiply_add(plan, C[:stop, start:stop], A[:stop], B[:, start:stop])
        elif plan.storage == "bits" or n < 2 or not B.shape[0] or first_calls_of(plan).computes(PRODUCT):
            self.multiply_add(plan, C, A, B)
        else:
            self._kernels_for(plan).upper_product(C, A, B, plan.threads)

    def multiply_add_witness(self, plan: KernelPlan, C: Array, W: Array, A: Array, B: Array, k0: int) -> None:
        if plan.storage == "bits":
            self._bits.multiply_add_witness(self, plan, C, W, A, B, k0)
            return
        if not A.shape[1] or not C.size:
            return
        first_calls = first_calls_of(plan)
        if WITNESS not in first_calls.pending or not first_calls.witness_product(plan, C, W, A, B, k0):
            self._kernels_for(plan).witness_product(C, W, A, B, k0, plan.threads)

    def close_block(self, plan: KernelPlan, A: Array) -> None:
        """Compute A ← A* in place, as one block."""
        if A.shape[0] == 0:
            return
        first_calls = first_calls_of(plan)
        if CLOSURE in first_calls.pending and first_calls.close(plan, A):
            return
        first_calls.leave_closures()
        if plan.storage == "bits":
            self._bits.close_block(plan, A)
            return
        if A.strides[1] != A.itemsize:
            _apply_to_copy(self.close_block, plan, A)
            return
        _report_divergence(plan, self._kernels_for(plan).close(A))

    def paper_names(self) -> tuple[str, ...]:
        return tuple(_DYNAMIC)

    def close_as(self, plan: KernelPlan, A: Array, name: str, **options: Any) -> None:
        if plan.storage == "bits":
            raise AlgebraError(f"{name} takes elements, not packed bits: use rkleene")
        if not A.size:
            return
        if A.strides[1] != A.itemsize:
            _apply_to_copy(partial(self.close_as, **options), plan, A, name)
            return
        kernels = self._kernels_for(plan)
        _report_divergence(plan, kernels.close_by_rows(A, plan.threads, dynamic=_DYNAMIC[name], **options))

    def multiply_add_plain(self, plan: KernelPlan, C: Array, A: Array, B: Array) -> None:
        if not C.size or not A.shape[1]:
            return
        rows = np.ascontiguousarray(B) if B.strides[1] != B.itemsize else B
        home = C if C.strides[1] == C.itemsize else np.array(C, order="C")
        self._kernels_for(plan).plain_product(home, A, rows, plan.threads)
        if home is not C:
            C[...] = home

    def stack_rows(self, plan: KernelPlan) -> int:
        return _STACK_ROWS_OF_BOOL if plan.dtype == np.bool_ else _STACK_ROWS

    def close_stack(self, plan: KernelPlan, A: Array) -> None:
        if not A.size:
            return
        first_calls = first_calls_of(plan)
        if CLOSURE in first_calls.pending and first_calls.close(plan, A):
            return
        first_calls.leave_closures()
        if A.strides[2] != A.itemsize:
            _apply_to_copy(self.close_stack, plan, A)
            return
        _report_divergence(plan, self._kernels_for(plan).close_stack(A, plan.threads))

    @cached_property
    def _small_gains(self) -> Any:
        # Imported here, because it imports kernels.graphs, which imports codegen of this package.
        from semiring.kernels.cpu.closing import small_gains

        return small_gains

    def gaining_rows(self, plan: KernelPlan) -> int:
        return _gaining_rows(plan.semiring, plan.dtype)

    def survey_gaining(self, plan: KernelPlan, A: Array) -> Any:
        first_calls = first_calls_of(plan)
        if GAINING in first_calls.pending and first_calls.closes_gaining():
            return None
        return self._small_gains.survey(plan, A)

    def close_gaining(self, plan: KernelPlan, A: Array, survey: Any, out: Array) -> None:
        self._small_gains.close(plan, A, survey, out)

    def find_predecessors(self, plan: KernelPlan, D: Array, tolerance: Tolerance | list[Tolerance], A: Array) -> Array:
        """Return the predecessors int32 of closed matrices D: see `semiring.algorithms.predecessors`."""
        first_calls = first_calls_of(plan)
        if PREDECESSORS in first_calls.pending and not isinstance(tolerance, list):
            trees = first_calls.predecessors(plan, D, tolerance, A)
            if trees is not None:
                return trees
        from semiring.kernels.cpu.predecessor_search import find_predecessors

        return find_predecessors(plan, D, tolerance, A)

    def close_and_search(
        self, plan: KernelPlan, D: Array, tolerance: Tolerance, A: Array, fill: Callable[[slice], None]
    ) -> Array | None:
        from semiring.kernels.cpu.predecessor_search import StackSearch, is_small

        first_calls = first_calls_of(plan)
        in_numpy = first_calls.computes(CLOSURE) or first_calls.computes(PREDECESSORS)
        if in_numpy or not is_small(D.shape[-1]) or not D.flags.c_contiguous:
            fill(slice(None))
            self.close_stack(plan, D)
            return self.find_predecessors(plan, D, tolerance, A) if plan.status.diverged < 0 else None
        search = StackSearch(plan, D, tolerance, A)
        _report_divergence(plan, self._kernels_for(plan).close_and_search(D, plan.threads, fill, search.run))
        return search.settle() if plan.status.diverged < 0 else search.predecessors

    def count_vertices(self, predecessors: Array, sources: Array, counts: Array, threads: int) -> None:
        if first_calls_of(plan_of_indices()).counts_vertices(predecessors, sources, counts):
            return
        from semiring.kernels.cpu.path_arrays import count_vertices

        count_vertices(predecessors, sources, counts, threads)

    def write_paths(
        self, predecessors: Array, sources: Array, targets: Array, counts: Array, out: Array, threads: int
    ) -> None:
        if first_calls_of(plan_of_indices()).writes_paths(predecessors, targets, counts, out):
            return
        from semiring.kernels.cpu.path_arrays import write_paths

        write_paths(predecessors, targets, counts, out, threads)

    def search_table(
        self, plan: KernelPlan, graph: Any, sources: Array, targets: Array, out: Array, trees: Array
    ) -> None:
        from semiring.kernels.cpu import dijkstra_loops

        first_calls, visits = first_calls_of(plan), graph[0].size + graph[1].size
        step = max(1, _INTERPRETED_VISITS // visits) if SEARCHES in first_calls.pending else max(1, sources.size)
        for start in range(0, sources.size, step):  # kernels may be compiled meanwhile
            part = slice(start, start + step)
            own = trees[part] if trees.shape[0] else trees
            with first_calls.loops(plan, SEARCHES, visits * sources[start:].size, graph[2]) as used:
                dijkstra_loops.search_table(used, graph, sources[part], targets, out[part], own)

    def search_near(
        self, plan: KernelPlan, graph: Any, sources: Array, targets: Array, limit: Any
    ) -> tuple[Array, Array, Array]:
        from semiring.kernels.cpu import dijkstra_loops

        visits = sources.size * (graph[0].size + graph[1].size)
        with first_calls_of(plan).loops(plan, SEARCHES, visits, graph[2]) as used:
            return dijkstra_loops.search_near(used, graph, sources, targets, limit)

    def fold_paths(self, plan: KernelPlan, predecessors: Array, sources: Array, W: Array, none: Any, out: Array) -> int:
        first_calls = first_calls_of(plan)
        if FOLDS in first_calls.pending:
            row = first_calls.fold_paths(plan, predecessors, sources, W, none, out)
            if row is not None:
                return row
        from semiring.kernels.cpu.path_arrays import fold_paths

        return fold_paths(plan, predecessors, sources, W, none, out)

    def count_paths(
        self,
        plan: KernelPlan,
        rows: Array,
        roots: Array,
        edges: tuple[Array, Array, Array],
        zero: Any,
        rtol: float,
        is_relative: bool,
        counts: Array,
    ) -> tuple[int, int, int]:
        from semiring.kernels.cpu.tight_counts import count_paths

        visits = rows.size + len(rows) * edges[1].size
        with first_calls_of(plan).loops(plan, COUNTS, visits, rows, edges[2]) as used:
            return count_paths(used, rows, roots, edges, zero, rtol, is_relative, counts)

    def multiply_sparse(
        self,
        plan: KernelPlan,
        A: CompressedRows,
        B: CompressedRows,
        excluded: CompressedRows | None,
        demand: Callable[[int], None],
        witness_dtype: Any,
    ) -> tuple[CompressedRows, Array | None, dict[str, int]]:
        module = self._sparse_module(plan, SPARSE, A, B)
        result: tuple[CompressedRows, Array | None, dict[str, int]] = module.multiply_sparse(
            plan, A, B, excluded, demand, witness_dtype
        )
        return result

    @staticmethod
    def _sparse_module(plan: KernelPlan, group: str, A: CompressedRows | Array, B: CompressedRows | Array) -> Any:
        """Return the module that computes a product of sparse matrices."""
        first_calls = first_calls_of(plan)
        if group in first_calls.pending:
            entries = [x.values if isinstance(x, CompressedRows) else x for x in (A, B)]
            if first_calls.sparse_product(group, count_pairs(A, B), *entries):
                from semiring.kernels.cpu import numpy_sparse

                return numpy_sparse
        from semiring.kernels.cpu import sparse_loops

        return sparse_loops

    def multiply_masked(
        self,
        plan: KernelPlan,
        A: CompressedRows,
        B: CompressedRows | Array,
        mask: CompressedRows,
        witness_dtype: Any,
    ) -> tuple[CompressedRows, Array | None, dict[str, int]]:
        module = self._sparse_module(plan, SPARSE, A, B)
        result: tuple[CompressedRows, Array | None, dict[str, int]] = module.multiply_masked(
            plan, A, B, mask, witness_dtype
        )
        return result

    def multiply_mixed(
        self,
        plan: KernelPlan,
        C: Array,
        A: CompressedRows | Array,
        B: CompressedRows | Array,
        witness: Array | None,
        of_entries: bool = False,
    ) -> None:
        self._sparse_module(plan, MIXED, A, B).multiply_mixed(plan, C, A, B, witness, of_entries)

    def scan_rows(self, plan: KernelPlan, A: CompressedRows, bounds: tuple[Any, Any] | None) -> tuple[bool, bool]:
        if first_calls_of(plan).sparse_product(MIXED, A.columns.size):
            from semiring.kernels.cpu import numpy_sparse

            return numpy_sparse.scan_rows(plan, A, bounds)
        from semiring.kernels.cpu import sparse_loops

        return sparse_loops.scan_rows(plan, A, bounds)

    def multiply_unvalidated(
        self, plan: KernelPlan, C: Array, A: CompressedRows, B: Array, bounds: tuple[Any, Any] | None
    ) -> bool:
        result: bool = self._sparse_module(plan, MIXED, A, B).multiply_unvalidated(plan, C, A, B, bounds)
        return result

    def add_dependencies(
        self, plan: KernelPlan, graph: Any, sources: Array, has_endpoints: bool, vertex_sums: Array, edge_sums: Array
    ) -> None:
        from semiring.kernels.cpu import dependency_loops

        visits = 4 * sources.size * (graph[0].size + graph[1].size)
        with first_calls_of(plan).loops(plan, DEPENDENCIES, visits, graph[2]) as used:
            dependency_loops.add_dependencies(used, graph, sources, has_endpoints, vertex_sums, edge_sums)

    def open_spur_searches(
        self, plan: KernelPlan, rows: tuple[Array, Array, Array], h: Array, target: int, margin: tuple[float, float]
    ) -> SpurSearches:
        from semiring.kernels.cpu.spur_searches import SpurLoops

        searches, first_calls = SpurLoops(plan, rows, h, target, margin), first_calls_of(plan)
        return _FirstSpurSearches(first_calls, searches, plan, rows) if RANKED in first_calls.pending else searches

    def list_edges(self, plan: KernelPlan, A: Array) -> Adjacency:
        from semiring.kernels.cpu import update_loops

        return update_loops.list_edges(plan, A)

    def improve(
        self, plan: KernelPlan, D: Array, P: Array, tails: Array, heads: Array, weights: Array, touched: Array
    ) -> int:
        from semiring.kernels.cpu import update_loops

        with first_calls_of(plan).loops(plan, UPDATES, 3 * tails.size * len(D), D, weights) as used:
            return update_loops.improve(used, D, P, tails, heads, weights, touched)

    def count_users(
        self,
        plan: KernelPlan,
        D: Array,
        P: Array,
        adjacency: Adjacency,
        tails: Array,
        heads: Array,
        weights: Array,
        tolerance: tuple[float, float],
    ) -> Array:
        from semiring.kernels.cpu import update_loops

        with first_calls_of(plan).loops(plan, UPDATES, 3 * tails.size * len(D), D, weights) as used:
            return update_loops.count_users(used, D, P, adjacency, tails, heads, weights, tolerance)

    def repair(
        self,
        plan: KernelPlan,
        D: Array,
        P: Array,
        adjacency: Adjacency,
        tails: Array,
        heads: Array,
        weights: Array,
        tolerance: tuple[float, float],
        counts: Array,
        touched: Array,
    ) -> tuple[Array, Array] | None:
        from semiring.kernels.cpu import update_loops

        visits = int(counts.sum()) * (5 + 2 * adjacency.heads.size // max(1, len(D)))
        with first_calls_of(plan).loops(plan, UPDATES, visits, D, adjacency.weights) as used:
            return update_loops.repair(used, D, P, adjacency, tails, heads, weights, tolerance, counts, touched)

    def count_changed(self, plan: KernelPlan, D: Array, pairs: Array, values: Array) -> int:
        return int((D.reshape(-1)[pairs] != values).sum())


class _FirstSpurSearches:
    """Spur searches each of which Python runs until their loops are compiled."""

    def __init__(self, first_calls: FirstCalls, searches: Any, plan: KernelPlan, rows: tuple[Array, ...]) -> None:
        self._searches, self._weights = searches, rows[2]
        self._loops = partial(first_calls.loops, plan, RANKED)
        self._visits = rows[0].size + rows[1].size

    def search(self, prefix: Array, banned: Array, bound: float) -> tuple[Array, float]:
        with self._loops(self._visits, self._weights):
            found: tuple[Array, float] = self._searches.search(prefix, banned, bound)
        return found

    def bound(self, path: Array, first: int, banned: Array) -> Array:
        with self._loops(self._visits, self._weights):
            bounds: Array = self._searches.bound(path, first, banned)
        return bounds


def _report_divergence(plan: KernelPlan, pivot: int) -> None:
    if pivot >= 0:
        plan.status.diverged = pivot


def _apply_to_copy(operation: Callable[..., None], plan: KernelPlan, A: Array, *arguments: Any) -> None:
    """Run an operation in place on a contiguous copy of A, and write the result to A."""
    contiguous = np.array(A, order="C")  # always a copy: NumPy takes a 1 x 1 array for contiguous with any strides
    operation(plan, contiguous, *arguments)
    A[...] = contiguous


@lru_cache(maxsize=1024)
def _gaining_rows(semiring: Semiring, dtype: np.dtype[Any]) -> int:
    """Return the most rows of a matrix whose weights gain that `small_gains` closes, or 0."""
    sums, products = (min_plus, max_plus), (max_times, min_times)
    gaining = {"i": sums, "f": (*sums, *products) if dtype.char in "fd" else ()}
    return _STACK_ROWS if semiring in gaining.get(dtype.kind, ()) else 0


def _adds_exponentials(plan: KernelPlan) -> bool:
    """Return whether log_plus has kernels of its own for the plan."""
    result: bool | None = plan.memo.get(adds_exponentials)
    if result is None:
        is_log = plan.dtype.kind == "f" and plan.zero == -np.inf and adds_exponentials(plan.semiring)
        result = plan.memo[adds_exponentials] = is_log
    return result
