"""The micro-kernel of products: a tile of C in registers, C ← C ⊕ A ⊗ B over a run of k.

The scheme is that of BLIS (Van Zee, van de Geijn, "BLIS: a framework for rapidly instantiating BLAS functionality", ACM
TOMS 41, 2015), with ⊕ and ⊗ from an expression tree. C interface, every argument a 64-bit integer, strides in bytes:

    tile(steps, a, a_row, a_step, b, c, c_row, load, ahead)
    tile_marks(steps, a, a_row, a_step, b, c, c_row, load, ahead, p, p_row, run, first)

* A: element (i, k) at ``a + i·a_row + k·a_step``. Elements shorter than four bytes are repeated to fill four.
* B: packed, row k of the panel at ``b + k·width``, ``width`` the bytes of a row of the tile, aligned to vectors.
* C: row i at ``c + i·c_row``. It is read if ``load`` is not 0, otherwise all entries are 0̄. Any alignment.
* ``ahead``: the address of the next tile of C, whose lines are prefetched. It is never dereferenced.
* P: row i at ``p + i·p_row``, int32. k is cut into runs of ``run`` steps. If C changes in a run that begins at step s,
  P becomes ``first + s``.

Witnesses take little more time than the product. To keep the index of the best candidate in registers would cost as
much as to compute the candidates. Instead a tile marks only the short run of k in which an entry improved last. Then
only the candidates of that run are computed again, by the same instructions on the same operands. The first candidate
that equals the result is the witness: exact, and the smallest. C interface of the search:

    find(m, n, a, a_row, b, b_row, c, c_row, marks, marks_row, w, w_row, offset)

A (m, k) and the transpose of B (n, k) have contiguous rows, of which a run and a vector may be read beyond the last
run. Where marks[i, j] ≥ 0 (int32), w[i, j] (int64) becomes offset + the first k ≥ marks[i, j] whose candidate is C[i,
j].
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import llvmlite.ir as ir
import numpy as np

from semiring.kernels.contract import Array
from semiring.kernels.cpu.codegen.lowering import Operand, lower, sums_to_fuse
from semiring.kernels.cpu.codegen.memory_intrinsics import LANE_BYTES, load
from semiring.kernels.cpu.codegen.numba_internals import for_range
from semiring.kernels.cpu.codegen.target import Target
from semiring.kernels.cpu.codegen.vector import (
    I1,
    I8,
    I32,
    I64,
    ElementType,
    Value,
    Vectors,
    constant_vector,
    declare_function,
    make_opaque,
    prefetch,
    splat,
)
from semiring.kernels.cpu.thread_pool import run_tasks
from semiring.kernels.definition import KernelDefinition
from semiring.kernels.machines.speed_data import TileShape

PAIR_ARGUMENTS = ("steps", "a", "a_row", "a_step", "b", "c", "c_row", "load", "ahead")
MARK_ARGUMENTS = (*PAIR_ARGUMENTS, "p", "p_row", "run", "first")
RUN = 32  # steps of k in a marked run, at most 64: n = 1024, float32, Zen 4: 38 ms, with 16 or 64 some 41 ms
FIND_ARGUMENTS = (*("m", "n", "a", "a_row", "b", "b_row", "c", "c_row", "marks", "marks_row", "w", "w_row", "offset"),)
_BLOCK = 256, 64  # rows and columns of C in a task: the runs of 64 columns of B stay in the second-level cache


@dataclass(frozen=True, eq=False)
class Pair:
    """The builder of the instructions of one pair, c ⊕ (a ⊗ b), on vectors."""

    vectors: Vectors
    definition: KernelDefinition
    target: Target

    @cached_property
    def one(self) -> Value:
        """The factor 1 of sums that are written as multiply-adds, or None if there are no such sums."""
        fuse = self.vectors.element.is_floating and self.target.sums_by_fma and self.fused_sums
        return make_opaque(self.vectors.builder, self.vectors.constant(1), self.target) if fuse else None

    @cached_property
    def fused_sums(self) -> frozenset[Any]:
        return sums_to_fuse(self.definition.add, self.definition.mul)

    def product(self, a: Value, b: Value) -> Operand:
        """Return the product a ⊗ b."""
        variables = {"x": Operand(a), "y": Operand(b)}
        return lower(self.vectors, self.target, self.definition.mul, variables, fuse=self.fused_sums, one=self.one)

    def sum(self, c: Value, candidate: Operand) -> Value:
        """Return the sum c ⊕ candidate. The accumulator c is NaN only if ⊕ itself makes NaN of other numbers."""
        variables = {"x": Operand(c), "y": candidate}
        result = lower(self.vectors, self.target, self.definition.add, variables)
        if result.may_be_nan:
            result = lower(self.vectors, self.target, self.definition.add, {"x": Operand(c, True), "y": candidate})
        return result.value

    def accumulate(self, c: Value, a: Value, b: Value) -> Value:
        """Return c ⊕ (a ⊗ b) for one pair."""
        if self.definition.contract and self.vectors.element.is_floating and self._is_multiply_add:
            return self.vectors.fma(a, b, c)
        return self.sum(c, self.product(a, b))

    def is_better(self, term: Operand, c: Value) -> Value:
        """Return whether c ⊕ term is the term and not c, for a ⊕ that selects and a c that is not NaN."""
        add, v = self.definition.add, self.vectors
        order = {"min": "<", "max": ">", "or": ">"}.get(add.op)
        if order is not None and {arg.op for arg in add.args} == {"var"}:
            return v.compare(order, term.value, c)
        selected = lower(v, self.target, add, {"x": term, "y": Operand(c)}).value
        return v.builder.and_(v.compare("==", selected, term.value), v.compare("!=", selected, c))

    @property
    def _is_multiply_add(self) -> bool:
        plain = {"var"}
        operations = (("add", self.definition.add), ("mul", self.definition.mul))
        return all(tree.op == op and {arg.op for arg in tree.args} == plain for op, tree in operations)


class NativeBuilder:
    """The builder of a native function of 64-bit integers for one definition, on vectors of ``vector_bytes``."""

    def __init__(
        self,
        module: Any,
        name: str,
        labels: Sequence[str],
        definition: KernelDefinition,
        target: Target,
        *,
        vector_bytes: int = 0,
        result: Any = None,
    ) -> None:
        """Add the function to an LLVM module, with the names of its arguments.

        ``vector_bytes``: by default those of the target. ``result``: the type of its result, by default none.
        """
        function = ir.Function(module, ir.FunctionType(result or ir.VoidType(), [I64] * len(labels)), name)
        for argument, label in zip(function.args, labels, strict=True):
            argument.name = label
        self.arguments = {argument.name: argument for argument in function.args}
        self.builder = ir.IRBuilder(function.append_basic_block("entry"))
        self.definition, self.target, self.element = definition, target, ElementType(definition.dtype)
        lanes = (vector_bytes or target.vector_bytes) // self.element.size
        self.vectors = Vectors(self.builder, self.element, lanes)
        self.pair = Pair(self.vectors, definition, target)

    def load(self, address: Value, kind: Any = None, align: int = 1) -> Value:
        """Load a value of an LLVM type, by default a vector."""
        value = load(self.builder, kind or self.vectors.type, address)
        value.align = align
        return value

    def store(self, value: Value, address: Value, align: int = 1) -> None:
        self.builder.store(value, self.builder.inttoptr(address, value.type.as_pointer())).align = align

    def mask_of(self, count: Value) -> Value:
        """Return a mask of the first ``count`` lanes, an I64."""
        b, lanes = self.builder, self.vectors.lanes
        numbers = ir.Constant(ir.VectorType(I32, lanes), list(range(lanes)))
        return b.icmp_signed("<", numbers, splat(b, b.trunc(count, I32), lanes))

    def load_masked(self, address: Value, mask: Value, default: Value) -> Value:
        """Load a vector, and the lanes of ``default`` outside of the mask, where nothing is read."""
        kind, b = default.type, self.builder
        arguments = [b.inttoptr(address, kind.as_pointer()), ir.Constant(I32, 1), mask, default]
        function = ir.FunctionType(kind, [argument.type for argument in arguments])
        name = f"llvm.masked.load.v{kind.count}{_name_of_element(kind)}.p0"
        return b.call(declare_function(b.module, name, function), arguments)

    def store_masked(self, value: Value, address: Value, mask: Value) -> None:
        """Store the lanes of a vector in the mask."""
        kind, b = value.type, self.builder
        arguments = [value, b.inttoptr(address, kind.as_pointer()), ir.Constant(I32, 1), mask]
        function = ir.FunctionType(ir.VoidType(), [argument.type for argument in arguments])
        name = f"llvm.masked.store.v{kind.count}{_name_of_element(kind)}.p0"
        b.call(declare_function(b.module, name, function), arguments)

    def element_address(self, base: str, row: Value, column: Value, size: int = 0) -> Value:
        """Return the address of an element of ``size`` bytes, by default an element of the definition."""
        b = self.builder
        start = b.add(self.arguments[base], b.mul(row, self.arguments[f"{base}_row"]))
        return b.add(start, b.mul(column, ir.Constant(I64, size or self.element.size)))


def _name_of_element(kind: Any) -> str:
    """Return the name of the element of a vector in the names of intrinsics, such as ``f32``."""
    element = kind.element
    return f"i{element.width}" if hasattr(element, "width") else "f32" if isinstance(element, ir.FloatType) else "f64"


def build_tile(
    module: Any, name: str, definition: KernelDefinition, target: Target, shape: TileShape, *, has_marks: bool
) -> None:
    """Add the function to an LLVM module."""
    _TileBuilder(module, name, definition, target, shape, has_marks).build(has_marks)


class _TileBuilder(NativeBuilder):
    def __init__(
        self, module: Any, name: str, definition: KernelDefinition, target: Target, shape: TileShape, has_marks: bool
    ) -> None:
        labels = MARK_ARGUMENTS if has_marks else PAIR_ARGUMENTS
        super().__init__(module, name, labels, definition, target, vector_bytes=shape.vector_bytes)
        self.shape = shape
        self.zero = self.vectors.constant(definition.zero.leaf)
        self.width = shape.vectors * shape.vector_bytes
        self.cells = [(i, v) for i in range(shape.rows) for v in range(shape.vectors)]

    # ------------------------------------------------------------------------------------------------- addressing

    def offset(self, address: Value, row: int, stride: str, extra: int = 0) -> Value:
        b = self.builder
        if row:
            address = b.add(address, b.mul(ir.Constant(I64, row), self.arguments[stride]))
        return b.add(address, ir.Constant(I64, extra)) if extra else address

    def cell_address(self, i: int, v: int) -> Value:
        """Return the address of a vector of C."""
        return self.offset(self.arguments["c"], i, "c_row", v * self.shape.vector_bytes)

    def broadcast(self, address: Value, row: int) -> Value:
        """Return an element of A in every lane, without an arithmetic instruction.

        On AVX-512 LLVM would choose vbroadcastss for floats, which occupies a floating-point pipe on Zen 4.
        vpbroadcastd from memory has an identical result and occupies no such pipe. So this instruction is written as
        assembly. A narrow element is repeated to four bytes in A. LLVM's passes would move a constant of the product
        before its repetition, and its code generator moves it back, without end: assembly, or an opaque copy,
        separates them.
        """
        b, bits = self.builder, 8 * max(self.element.size, LANE_BYTES)
        if self.target.has_avx512 and (self.element.is_floating or self.element.size < LANE_BYTES):
            letter = {32: "d", 64: "q"}[bits]
            kind = ir.VectorType(ir.IntType(bits), 512 // bits)
            operands = [address, *([b.mul(ir.Constant(I64, row), self.arguments["a_row"])] if row else [])]
            text = f"vpbroadcast{letter} ($1{',$2' if row else ''}), $0"
            asm = ir.InlineAsm(ir.FunctionType(kind, [I64] * len(operands)), text, "=v" + ",r" * len(operands))
            return b.bitcast(b.call(asm, operands, attrs=("readonly", "nounwind")), self.vectors.type)
        address = self.offset(address, row, "a_row")
        if self.element.size >= LANE_BYTES:
            return self.vectors.splat(self.load(address, self.element.ir, 1))
        lanes = Vectors(b, self.element, self.shape.vector_bytes // LANE_BYTES)
        return make_opaque(b, b.bitcast(lanes.splat(self.load(address, I32, 1)), self.vectors.type), self.target)

    # ------------------------------------------------------------------------------------------------------- code

    def build(self, has_marks: bool) -> None:
        b = self.builder
        _ = self.pair.one
        lines = range(0, self.width, 64)
        for i in range(self.shape.rows):
            for line in lines:
                address = self.offset(self.arguments["ahead"], i, "c_row", line)
                prefetch(b, b.inttoptr(address, I8.as_pointer()), write=True)
        tile = self.load_tile()
        if not has_marks:
            tile, _, _ = self.build_run(tile, self.arguments["steps"], self.arguments["a"], self.arguments["b"])
            for (i, v), value in zip(self.cells, tile, strict=True):
                self.store(value, self.cell_address(i, v))
        else:
            self.build_marked_runs(tile)
        b.ret_void()

    def load_tile(self) -> list[Value]:
        """Return the vectors of the tile, loaded from C if ``load`` is not 0, else 0̄."""
        b = self.builder
        entry = b.block
        reading, ready = b.append_basic_block("reading"), b.append_basic_block("ready")
        b.cbranch(b.icmp_signed("!=", self.arguments["load"], ir.Constant(I64, 0)), reading, ready)
        b.position_at_end(reading)
        old = [self.load(self.cell_address(i, v), self.vectors.type, 1) for i, v in self.cells]
        b.branch(ready)
        b.position_at_end(ready)
        tile = []
        for value in old:
            phi = b.phi(self.vectors.type)
            phi.add_incoming(value, reading)
            phi.add_incoming(self.zero, entry)
            tile.append(phi)
        return tile

    def build_run(
        self, tile: list[Value], steps: Value, a: Value, b_address: Value
    ) -> tuple[list[Value], Value, Value]:
        """Build the loop over ``steps`` ≥ 1 of k. Return the tile, and the next addresses of A and B."""
        b, shape = self.builder, self.shape
        before, loop, after = b.block, b.append_basic_block("step"), b.append_basic_block("done")
        b.branch(loop)
        b.position_at_end(loop)
        starts = [ir.Constant(I64, 0), a, b_address, *tile]
        phis = [b.phi(start.type) for start in starts]
        index, a_now, b_now, *cells = phis
        row = [
            self.load(self.offset(b_now, 0, "", v * shape.vector_bytes), self.vectors.type, shape.vector_bytes)
            for v in range(shape.vectors)
        ]
        results: list[Value] = []
        for i in range(shape.rows):
            x = self.broadcast(a_now, i)
            old = cells[i * shape.vectors : (i + 1) * shape.vectors]
            results += [self.pair.accumulate(c, x, y) for c, y in zip(old, row, strict=True)]
        following = [
            b.add(index, ir.Constant(I64, 1)),
            b.add(a_now, self.arguments["a_step"]),
            b.add(b_now, ir.Constant(I64, self.width)),
            *results,
        ]
        end = b.block
        for phi, start, value in zip(phis, starts, following, strict=True):
            phi.add_incoming(start, before)
            phi.add_incoming(value, end)
        b.cbranch(b.icmp_signed("<", following[0], steps), loop, after)
        b.position_at_end(after)
        return results, following[1], following[2]

    def build_marked_runs(self, tile: list[Value]) -> None:
        """Build the runs of k one after the other, and after each run the marks of the entries of C that changed.

        C and P are stored at the end. The tile before a run and its marks lie on the stack. Rows of C and P are often a
        multiple of 4 KB apart, so they would evict each other from the first-level cache.
        """
        b = self.builder
        old = [self.allocate_vector(self.vectors.type) for _ in self.cells]
        none = constant_vector(I32, -1, self.vectors.lanes)
        marks = [self.allocate_vector(none.type) for _ in self.cells]
        for value, old_at, marks_at in zip(tile, old, marks, strict=True):
            b.store(value, old_at)
            b.store(none, marks_at)
        before, head, end = b.block, b.append_basic_block("run"), b.append_basic_block("end")
        b.branch(head)
        b.position_at_end(head)
        starts = [ir.Constant(I64, 0), ir.Constant(I1, 0), self.arguments["a"], self.arguments["b"], *tile]
        phis = [b.phi(start.type) for start in starts]
        step, touched, a, b_address, *cells = phis
        remaining_steps = b.sub(self.arguments["steps"], step)
        steps = b.select(
            b.icmp_signed("<", remaining_steps, self.arguments["run"]), remaining_steps, self.arguments["run"]
        )
        results, a_next, b_next = self.build_run(cells, steps, a, b_address)
        mark = b.trunc(b.add(self.arguments["first"], step), I32)
        changed = ir.Constant(I1, 0)
        for i in range(self.shape.rows):
            row = slice(i * self.shape.vectors, (i + 1) * self.shape.vectors)
            changed = b.or_(changed, self.mark_row(results[row], old[row], marks[row], mark))
        with b.if_then(b.and_(changed, b.not_(touched))):
            self.prefetch_marks()
        following = [b.add(step, steps), b.or_(touched, changed), a_next, b_next, *results]
        for phi, start, value in zip(phis, starts, following, strict=True):
            phi.add_incoming(start, before)
            phi.add_incoming(value, b.block)
        b.cbranch(b.icmp_signed("<", following[0], self.arguments["steps"]), head, end)
        b.position_at_end(end)
        with b.if_then(following[1]):
            for (i, v), value, marks_at in zip(self.cells, results, marks, strict=True):
                self.store(value, self.cell_address(i, v))
                new = b.load(marks_at)
                marked = b.icmp_signed("!=", new, none)
                total = b.select(marked, new, self.load(self.marks_address(i, v), new.type, 1))
                self.store(make_opaque(b, total, self.target), self.marks_address(i, v))

    def allocate_vector(self, kind: Any) -> Value:
        with self.builder.goto_entry_block():
            slot = self.builder.alloca(kind)
        slot.align = self.shape.vector_bytes
        return slot

    def marks_address(self, i: int, v: int) -> Value:
        """Return the address of the marks of a vector of C."""
        return self.offset(self.arguments["p"], i, "p_row", 4 * self.vectors.lanes * v)

    def prefetch_marks(self) -> None:
        """Prefetch P, which is needed at the end of the tile, into the second-level cache; A and B fill the first."""
        for i in range(self.shape.rows):
            for line in range(0, 4 * self.vectors.lanes * self.shape.vectors, 64):
                address = self.offset(self.arguments["p"], i, "p_row", line)
                prefetch(self.builder, self.builder.inttoptr(address, I8.as_pointer()), second_level=True)

    def mark_row(self, row: list[Value], old: list[Value], marks: list[Value], mark: Value) -> Value:
        """Write ``mark`` to the marks of the entries of a row of the tile that changed.

        Return whether an entry changed.
        """
        b, v = self.builder, self.vectors
        changes = [v.compare("!=", value, b.load(address)) for value, address in zip(row, old, strict=True)]
        anywhere = changes[0]
        for change in changes[1:]:
            anywhere = b.or_(anywhere, change)
        mask = b.bitcast(anywhere, ir.IntType(v.lanes))
        touched = b.icmp_unsigned("!=", mask, ir.Constant(mask.type, 0))
        with b.if_then(touched):
            new_marks = splat(b, mark, v.lanes)
            for value, change, old_at, marks_at in zip(row, changes, old, marks, strict=True):
                b.store(make_opaque(b, b.select(change, new_marks, b.load(marks_at)), self.target), marks_at)
                b.store(value, old_at)
        return touched


# ------------------------------------------------------------------------------------------------- witnesses


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
    blocks = [(top, left) for top in range(0, m, _BLOCK[0]) for left in range(0, n, _BLOCK[1])]
    run_tasks(search_block, blocks, threads, reports=True)
