"""The witnesses of a product at nearly the speed of the product.

To keep the index of the best candidate in registers would cost as much as to compute the candidates. Instead the
product marks only the short run of k in which an entry improved last. Then only the candidates of that run are computed
again, by the same instructions on the same operands. The first candidate that equals the result is the witness: exact,
and the smallest.

C interface of the search, 64-bit integers, strides in bytes:

    find(m, n, a, a_row, b, b_row, c, c_row, marks, marks_row, w, w_row, offset)

A (m, k) and the transpose of B (n, k) have contiguous rows, of which a run and a vector may be read beyond the last
run. Where marks[i, j] ≥ 0 (int32), w[i, j] (int64) becomes offset + the first k ≥ marks[i, j] whose candidate is C[i,
j].
"""

from __future__ import annotations

import ctypes
from typing import Any

import llvmlite.ir as ir
import numpy as np

from semiring.kernels.contract import Array
from semiring.kernels.cpu.codegen.numba_internals import for_range
from semiring.kernels.cpu.codegen.target import Target
from semiring.kernels.cpu.codegen.vector import I32, I64, Value
from semiring.kernels.cpu.product.micro_kernel import NativeBuilder
from semiring.kernels.cpu.thread_pool import run_tasks
from semiring.kernels.definition import KernelDefinition

RUN = 32  # steps of k in a marked run, at most 64: n = 1024, float32, Zen 4: 38 ms, with 16 or 64 some 41 ms
FIND_ARGUMENTS = (*("m", "n", "a", "a_row", "b", "b_row", "c", "c_row", "marks", "marks_row", "w", "w_row", "offset"),)
_BLOCK = 256, 64  # rows and columns of C in a task: the runs of 64 columns of B stay in the second-level cache


def build_find(module: Any, name: str, definition: KernelDefinition, target: Target) -> None:
    """Add the search to an LLVM module."""
    _WitnessSearchBuilder(module, name, FIND_ARGUMENTS, definition, target).build()


class _WitnessSearchBuilder(NativeBuilder):
    def build(self) -> None:
        b = self.builder
        _ = self.pair.one
        with for_range(b, self.arguments["m"]) as rows, for_range(b, self.arguments["n"]) as columns:
            i, j = rows.index, columns.index
            mark = b.sext(self.load(self.element_address("marks", i, j, 4), I32), I64)
            with b.if_then(b.icmp_signed(">=", mark, ir.Constant(I64, 0))):
                self.search(i, j, mark)
        b.ret_void()

    def search(self, i: Value, j: Value, start: Value) -> None:
        """Return the first k from ``start`` on whose candidate is C[i, j].

        All candidates of the run are computed, without a branch.
        """
        b, v = self.builder, self.vectors
        target = v.splat(self.load(self.element_address("c", i, j), self.element.ir))
        hits = ir.Constant(I64, 0)
        for first in range(0, RUN, v.lanes):
            k = b.add(start, ir.Constant(I64, first))
            x, y = (self.load(self.element_address(base, row, k)) for base, row in (("a", i), ("b", j)))
            equal = v.compare("==", self.pair.product(x, y).value, target)
            lanes = b.bitcast(equal, ir.IntType(v.lanes))
            lanes = b.zext(lanes, I64) if v.lanes < 64 else lanes
            hits = b.or_(hits, b.shl(lanes, ir.Constant(I64, first)))
        witness = b.add(b.add(start, b.cttz(hits, ir.Constant(ir.IntType(1), 0))), self.arguments["offset"])
        self.store(witness, self.element_address("w", i, j, 8))


def padded_rows(matrix: Array, lanes: int, zero: Any) -> Array:
    """Return a copy with contiguous rows, aligned to cache lines, padded with zeros for a run and a vector."""
    m, k = matrix.shape
    columns = (-(-k // RUN) + 1) * max(RUN, lanes)
    memory = np.empty(m * columns * matrix.itemsize + 64, np.uint8)
    start = -memory.ctypes.data % 64
    copy = memory[start : start + m * columns * matrix.itemsize].view(matrix.dtype).reshape(m, columns)
    copy[:, :k] = matrix
    copy[:, k:] = zero
    return copy


def find_witnesses(
    find: int, C: Array, A: Array, B: Array, marks: Array, W: Array, k0: int, lanes: int, zero: Any, threads: int
) -> None:
    """Set W to k0 + the smallest k from the mark on with A[i, k] ⊗ B[k, j] = C[i, j], where the mark is not -1.

    W is int64 with contiguous rows; ``find`` is the address of a `build_find`.
    """
    a, b = padded_rows(A, lanes, zero), padded_rows(B.T, lanes, zero)
    c = np.ascontiguousarray(C)
    search = ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * len(FIND_ARGUMENTS))(find)

    def search_block(top: int, left: int) -> None:
        rows, columns = slice(top, top + _BLOCK[0]), slice(left, left + _BLOCK[1])
        views = (a[rows], b[columns], *(matrix[rows, columns] for matrix in (c, marks, W)))
        arguments = [argument for view in views for argument in (view.ctypes.data, view.strides[0])]
        search(*views[-1].shape, *arguments, k0)

    m, n = C.shape
    run_tasks(search_block, [(top, left) for top in range(0, m, _BLOCK[0]) for left in range(0, n, _BLOCK[1])], threads)
