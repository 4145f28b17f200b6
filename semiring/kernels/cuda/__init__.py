"""Implement the CUDA backend: any semiring on NVIDIA GPUs from sm_80 on, by kernels of the CUTLASS Python DSL.

`product` has the product. Some modules decide in plain numbers: `specification` defines the words of a register and the
parameters of a compiled kernel, and `tiles` and `calls` the kernel for some operands. The DSL compiles others: `gemm`
with `shared_memory` is the kernel, `k_reductions` joins the parts of a product whose k was split and finds witnesses,
and `lower` has their operations on words. `cubins` runs the compiler and stores machine code on disk. A process that
finds the code on disk does not need the DSL. The remaining modules work on CuPy arrays. `launches` loads the code and
prepares one product, and `product_routes` implements the contract. `classical` multiplies plus_times by cuBLAS,
`log_sums` log_plus, and `sparse_rows` sparse matrices, whose indices are in `index_arrays`.

`entries` scans and converts entries. `closing` closes blocks and matrices, in CUDA C++. `streams` runs concurrent work
and records closures. `predecessor_kernels` finds paths, and `graph_kernels` analyses structures. `centrality_kernels`
adds up dependencies over shortest paths, and `update_kernels` changes closures.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from importlib.util import find_spec
from typing import Any

import numpy as np

from semiring.algebra import Semiring
from semiring.algebra.catalogue import plus_times
from semiring.errors import MissingExtraError
from semiring.kernels.contract import (
    Adjacency,
    Capabilities,
    CentralityKernels,
    ClosureKernels,
    CompressedRows,
    GraphKernels,
    KernelPlan,
    Mark,
    PassKernels,
    PathKernels,
    ProductKernels,
    SparseKernels,
    StreamKernels,
    Streams,
    UpdateKernels,
)
from semiring.kernels.engine import split_range
from semiring.kernels.spans import record_kernels
from semiring.kernels.tolerance import Tolerance

_DTYPES = frozenset(("bfloat16", "float16", "float32", "float64", "int16", "int32", "int64", "uint8", "bool"))
_STRIP = 2048  # the columns of a triangle that cuBLAS multiplies at a time


@record_kernels
class CudaBackend(
    ProductKernels,
    ClosureKernels,
    StreamKernels,
    PassKernels,
    GraphKernels,
    PathKernels,
    SparseKernels,
    CentralityKernels,
    UpdateKernels,
):
    """The `semiring.kernels.contract.Backend` for CuPy arrays, which documents the operations.

    Every call only enqueues work on CuPy's current stream, without synchronization or transfers through the host. The
    exceptions are `find_predecessors`, `find_tree`, centrality, updates and the products of sparse matrices, which
    wait. The first call for an operation, dtype and layout compiles for 1 to 3 s, or loads the code that an earlier
    process compiled.

    Raises `MissingExtraError` where CuPy or nvidia-cutlass-dsl is not installed.
    """

    name = "cuda"
    stacks = True

    def __init__(self) -> None:
        for package, distribution in (("cupy", "CuPy"), ("cuda", "cuda-bindings"), ("cutlass", "nvidia-cutlass-dsl")):
            if find_spec(package) is None:
                raise MissingExtraError(distribution, "cuda", "computing on an NVIDIA GPU")
        try:
            from semiring.kernels.cuda import closing, graph_kernels
            from semiring.kernels.cuda.closing import paper_kernels as papers
            from semiring.kernels.cuda.closing import relations
            from semiring.kernels.cuda.entries import entry_passes
            from semiring.kernels.cuda.product import classical, log_sums
            from semiring.kernels.cuda.product import product_routes as products
        except ImportError as error:
            raise MissingExtraError("CuPy", "cuda", "computing on an NVIDIA GPU") from error
        self._classical, self._log_sums, self._products = classical, log_sums, products
        self._closing, self._entry_kernels = closing, entry_passes
        self._relations, self._graphs, self._papers = relations, graph_kernels, papers

    @cached_property
    def capabilities(self) -> Capabilities:
        """Return the groups of operations from which this class derives."""
        return Capabilities.from_backend(self)

    def supports(self, semiring: Semiring, dtype: np.dtype[Any], storage: str = "elements") -> bool:
        """Return whether the semiring is defined on the dtype. Packed bits need a False zero.

        The exception is plus_times in bfloat16, because no kernel of this backend adds its sums in float32.
        """
        if dtype.name not in _DTYPES or not semiring.supports(dtype):
            return False
        if dtype.name == "bfloat16" and semiring == plus_times:
            return False
        return storage == "elements" or bool(dtype == np.bool_ and not semiring.zero_for(dtype))

    def multiply(self, plan: KernelPlan, C: Any, A: Any, B: Any) -> None:
        if not self._multiply_by_cublas(plan, C, A, B, False):
            self._products.multiply(plan, C, A, B)

    def multiply_add(self, plan: KernelPlan, C: Any, A: Any, B: Any) -> None:
        if not self._multiply_by_cublas(plan, C, A, B, True):
            self._products.multiply_add(plan, C, A, B)

    def multiply_add_upper(self, plan: KernelPlan, C: Any, A: Any, B: Any) -> None:
        """Compute C ← C ⊕ A ⊗ B on and above the diagonal. Tiles of C below it are skipped."""
        if self._classical.supports(plan) or self._log_sums.supports(plan):
            for columns in split_range(0, C.shape[1], _STRIP):
                self.multiply_add(plan, C[: columns.stop, columns], A[: columns.stop], B[:, columns])
            return
        self._products.multiply_add(plan, C, A, B, upper=True)

    def _multiply_by_cublas(self, plan: KernelPlan, C: Any, A: Any, B: Any, accumulate: bool) -> bool:
        """Multiply by cuBLAS if the product is one of plus_times or log_plus, and return whether it was."""
        ways = self._classical.multiply, self._log_sums.multiply
        return any(way(plan, C, A, B, accumulate=accumulate) for way in ways)

    def can_multiply_in_place(self, plan: KernelPlan, m: int, n: int) -> bool:
        """Return whether C may be B in `multiply`: kernels for bits on tensor cores transpose all of B first."""
        return plan.storage == "bits" and self._products.replaces(plan, m, n)

    def can_overlap(self, plan: KernelPlan, m: int, n: int, k: int) -> bool:
        """Return whether columns of C may be A in `multiply_add`.

        If ⊕ is or, a bit that is set early does not change the result.
        """
        return plan.storage == "bits" and self._products.overlaps(plan, m, n, k)

    def copy_panel(self, plan: KernelPlan, A: Any, out: Any) -> None:
        self._entry_kernels.copy(A, out)

    def multiply_add_witness(self, plan: KernelPlan, C: Any, W: Any, A: Any, B: Any, k0: int) -> None:
        self._products.multiply_add_witness(plan, C, W, A, B, k0)

    def can_close(self, plan: KernelPlan, n: int) -> bool:
        """Return whether `close` takes a matrix of n rows under this plan.

        It needs an idempotent ⊕, elements, and a device with enough shared memory for the kernel.
        """
        if plan.storage == "bits":
            return self._relations.can_square(plan, n)
        return plan.semiring.idempotent and n > 0 and self._closing.fits(plan, n)

    def stack_rows(self, plan: KernelPlan) -> int:
        """Return the most rows of matrices that `close_stack` closes in one launch. Larger matrices take several."""
        return self._closing.fast_rows(self._closing.arithmetic_of(plan))

    def copy_nonnegative(self, A: Any, out: Any) -> Any:
        return self._entry_kernels.copy_nonnegative(A, out)

    def relax(self, A: Any, h: Any, sign: int, epsilon: float) -> Any:
        return self._entry_kernels.relax(A, h, sign, epsilon)

    def largest_whole(self, A: Any) -> float:
        return self._entry_kernels.largest_whole(A)

    def copy(self, A: Any, out: Any) -> None:
        """Copy A to out by a kernel.

        In a recorded graph, any other copy of contiguous memory is a node without a priority. It may wait for all
        blocks of the concurrent products.
        """
        self._entry_kernels.copy(A, out)

    def in_order(self, bits: Any, out: Any, replacements: Any, is_inverse: bool) -> None:
        self._entry_kernels.in_order(bits, out, replacements, is_inverse)

    def spoil(self, A: Any, word: Any) -> None:
        self._entry_kernels.spoil(A, word)

    def find_predecessors(self, plan: KernelPlan, D: Any, tolerance: Tolerance | list[Tolerance], A: Any) -> Any:
        from semiring.kernels.cuda.predecessor_kernels import find_predecessors

        return find_predecessors(plan, D, tolerance, A)

    def count_vertices(self, predecessors: Any, sources: Any, counts: Any, threads: int) -> None:
        from semiring.kernels.cuda.predecessor_kernels import count_vertices

        count_vertices(predecessors, sources, counts)

    def write_paths(self, predecessors: Any, sources: Any, targets: Any, counts: Any, out: Any, threads: int) -> None:
        from semiring.kernels.cuda.predecessor_kernels import write_paths

        write_paths(predecessors, targets, counts, out)

    def find_tree(self, plan: KernelPlan, D: Any, weights: Any, tolerance: Tolerance, source: int) -> Any:
        from semiring.kernels.cuda.predecessor_kernels import find_tree

        return find_tree(plan, D, weights, tolerance, source)

    def add_dependencies(
        self, plan: KernelPlan, graph: Any, sources: Any, has_endpoints: bool, vertex_sums: Any, edge_sums: Any
    ) -> None:
        from semiring.kernels.cuda import centrality_kernels

        centrality_kernels.add_dependencies(plan, graph, sources, has_endpoints, vertex_sums, edge_sums)

    def find_distances(self, plan: KernelPlan, graph: Any, sources: Any, out: Any) -> None:
        from semiring.kernels.cuda import centrality_kernels

        centrality_kernels.find_distances(plan, graph, sources, out)

    def list_edges(self, plan: KernelPlan, A: Any) -> Adjacency:
        from semiring.kernels.cuda import update_kernels

        return update_kernels.list_edges(plan, A)

    def improve(self, plan: KernelPlan, D: Any, P: Any, tails: Any, heads: Any, weights: Any, touched: Any) -> int:
        from semiring.kernels.cuda import update_kernels

        return update_kernels.improve(plan, D, P, tails, heads, weights, touched)

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
        from semiring.kernels.cuda import update_kernels

        return update_kernels.count_users(plan, D, P, adjacency, tails, heads, weights, tolerance)

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
        from semiring.kernels.cuda import update_kernels

        return update_kernels.repair(plan, D, P, adjacency, tails, heads, weights, tolerance, counts, touched)

    def count_changed(self, plan: KernelPlan, D: Any, pairs: Any, values: Any) -> int:
        from semiring.kernels.cuda import update_kernels

        return update_kernels.count_changed(plan, D, pairs, values)

    def has_bit_kernels(self, plan: KernelPlan, n: int) -> bool:
        return self._relations.has_bit_kernels(plan, n)

    def count_edges(self, words: Any) -> tuple[int, bool]:
        return self._relations.count_edges(words)

    def peel(self, words: Any, edges: int, rounds: int) -> tuple[Any, Any, Any]:
        return self._relations.peel(words, edges, rounds)

    def sweep_along(self, words: Any, vertices: Any) -> Any:
        return self._relations.sweep_along(words, vertices)

    def sweep_against(self, words: Any, vertices: Any, candidates: Any) -> Any:
        return self._relations.sweep_against(words, vertices, candidates)

    def permute_bits(self, words: Any, order: Any) -> None:
        self._relations.permute_bits(words, order)

    def fill_component(self, words: Any, start: int, stop: int) -> None:
        self._relations.fill_component(words, start, stop)

    def scan_structure(self, A: Any, none: Any) -> tuple[bool, bool, int, Any]:
        return self._graphs.scan_structure(A, none)

    def edge_words(self, A: Any, none: Any) -> Any:
        return self._graphs.edge_words(A, none)

    def permute(self, D: Any, order: Any, source: Any = None) -> None:
        self._graphs.permute(D, order, source)

    def permute_columns(self, D: Any, order: Any) -> None:
        self._graphs.permute_columns(D, order)

    def transpose(self, A: Any, out: Any) -> None:
        self._graphs.transpose(A, out)

    def mirror(self, A: Any) -> None:
        self._graphs.mirror(A)

    def count_hops(self, D: Any, starts: Any, heads: Any, words: Any, weight: Any, none: Any) -> None:
        self._graphs.count_hops(D, starts, heads, words, weight, none)

    def spanning_edges(self, A: Any, none: Any, largest: bool) -> tuple[Any, Any, Any]:
        return self._graphs.spanning_edges(A, none, largest)

    def fill_bottlenecks(self, D: Any, order: Any, edges: Any, one: Any, largest: bool) -> None:
        self._graphs.fill_bottlenecks(D, order, edges, one, largest)

    def multiply_sparse(
        self,
        plan: KernelPlan,
        A: CompressedRows,
        B: CompressedRows,
        excluded: CompressedRows | None,
        demand: Callable[[int], None],
        witness_dtype: Any,
    ) -> tuple[CompressedRows, Any, dict[str, int]]:
        from semiring.kernels.cuda.product import sparse_rows

        return sparse_rows.multiply_sparse(plan, A, B, excluded, demand, witness_dtype)

    def multiply_masked(
        self, plan: KernelPlan, A: CompressedRows, B: CompressedRows | Any, mask: CompressedRows, witness_dtype: Any
    ) -> tuple[CompressedRows, Any, dict[str, int]]:
        from semiring.kernels.cuda.product import sparse_rows

        return sparse_rows.multiply_masked(plan, A, B, mask, witness_dtype)

    def multiply_mixed(
        self,
        plan: KernelPlan,
        C: Any,
        A: CompressedRows | Any,
        B: CompressedRows | Any,
        witness: Any,
        of_entries: bool = False,
    ) -> None:
        from semiring.kernels.cuda.product import sparse_rows

        sparse_rows.multiply_mixed(plan, C, A, B, witness, of_entries)

    def multiply_unvalidated(self, plan: KernelPlan, C: Any, A: CompressedRows, B: Any, bounds: Any) -> bool:
        from semiring.kernels.cuda.product import sparse_rows

        return sparse_rows.multiply_unvalidated(plan, C, A, B, bounds)

    def lanes(self, plan: KernelPlan) -> Streams | None:
        """Return concurrent streams, the first of the highest priority (see `semiring.kernels.cuda.streams`).

        The result is None where cuBLAS multiplies, because its results on concurrent streams are not reproducible.
        """
        from semiring.kernels.cuda import streams

        return None if self._classical.supports(plan) or self._log_sums.may_use_cublas(plan) else streams.CudaStreams()

    def mark(self) -> Mark:
        from semiring.kernels.cuda.streams import mark

        return mark()  # type: ignore[no-any-return]  # CuPy has no types

    def replay(
        self, plan: KernelPlan, A: Any, engine_of: Callable[[KernelPlan], Any], algorithm: Callable[..., object]
    ) -> None:
        """Run ``algorithm(engine_of(plan), A)``, from the second time on as one launch of a CUDA graph.

        Products of cuBLAS are never recorded. CuPy refuses to capture them, and the second result would come from other
        kernels.
        """
        from semiring.kernels.cuda.streams import replay

        if self._classical.supports(plan) or self._log_sums.may_use_cublas(plan, A.shape[-1]):
            algorithm(engine_of(plan), A)
        else:
            replay(plan, A, engine_of, algorithm)

    def close_block(self, plan: KernelPlan, A: Any) -> None:
        """Compute A ← A* in place, fastest for up to 128 rows (see `semiring.kernels.cuda.closing`)."""
        self._closing.close_block(plan, A)

    def close(self, plan: KernelPlan, A: Any, *, has_concurrent_work: bool = False) -> None:
        if plan.storage == "bits":
            self._relations.close_by_squares(plan, A)
        else:
            self._closing.close(plan, A, has_concurrent_work=has_concurrent_work)

    def paper_names(self) -> tuple[str, ...]:
        return self._papers.METHODS

    def close_as(self, plan: KernelPlan, A: Any, name: str, **options: Any) -> None:
        self._papers.close(plan, A, name, **options)

    def multiply_add_plain(self, plan: KernelPlan, C: Any, A: Any, B: Any) -> None:
        self._papers.multiply_add_plain(plan, C, A, B)

    def close_stack(self, plan: KernelPlan, A: Any) -> None:
        self._closing.close(plan, A)
