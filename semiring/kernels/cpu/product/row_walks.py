"""Products of some rows and a matrix, with witnesses, and sequences of such products, in one native function.

A tile packs its operands, and finds witnesses by a second pass over them. Both take longer than a product of few rows.
Here the entries of a row of the result lie side by side in vectors, and the witness of an entry beside it. So an entry
takes three instructions more for its witness, and A is read once, in place:

    walk(job, y, w, first_row, last_row, first_step, last_step)

advances rows x of a batch by steps x ← (x ⊗ Aₜ) ⊗ wₜ. ``job`` is the address of a `Job`. ``y`` and ``w`` are the
addresses of rows of workspace, for the product and its witnesses. Neighbouring rows with one matrix share its loads.
``group`` rows of A are added in one pass over the columns: as many as hardware prefetches at a time, or all rows if the
columns fit into registers.

An entry is ((0̄ ⊕ x[0] ⊗ a[0]) ⊕ x[1] ⊗ a[1]) ⊕ …, whatever the number of rows and threads. A witness is the smallest k
whose term is strictly better than 0̄ and all earlier terms. Lanes beyond the last column hold 0̄. In log_plus an entry
is its greatest term plus the logarithm of the sum of exponentials relative to it, in two passes.

The matrix of all steps may be sparse. Its entries are then stored by columns, a vector of columns beside each other,
in slots of one entry each (Kreutzer and others, "A unified sparse matrix data format", SIAM J. Sci. Comput. 36, 2014).
If the columns of a vector have their entries on few diagonals, as those of a band, a slot is a diagonal, whose factors
x are adjacent. Otherwise the factors are gathered.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import llvmlite.ir as ir
import numpy as np

from semiring.algebra.catalogue import adds_exponentials
from semiring.algebra.expressions import Expression
from semiring.kernels.contract import Array, CompressedRows, KernelPlan, Steps
from semiring.kernels.cpu.codegen.lowering import Operand, instructions, lower
from semiring.kernels.cpu.codegen.native import compile_native
from semiring.kernels.cpu.codegen.numba_internals import for_range_slice
from semiring.kernels.cpu.codegen.target import Target, host
from semiring.kernels.cpu.codegen.vector import I32, I64, Value, make_opaque, splat
from semiring.kernels.cpu.numpy_sparse import walk_by_products
from semiring.kernels.cpu.product.micro_kernel import NativeBuilder
from semiring.kernels.cpu.sparse_loops import multiply_mixed
from semiring.kernels.cpu.thread_pool import run_on_ranges, run_tasks
from semiring.kernels.definition import KernelDefinition, absorbing_product, define

ARGUMENTS = ("job", "y", "w", "first_row", "last_row", "first_step", "last_step")
MANY_ROWS = 4  # rows of the batch that share the loads of a matrix
_HEAVY = 12  # instructions a pair from which on code for one vector and one row is long enough
_GROUP = 8  # rows of A that are streamed side by side
_REGISTER_COLUMNS = 1024  # bytes of a row up to which all rows of A are added in one pass

_SLOTS_PER_ENTRY = 4  # a gathered slot takes as long as so many diagonals
_SORTED_GAIN = 1.5  # columns are sorted by their numbers of entries if that saves a third of the slots
_MOST_PADDING = 8  # times as many lanes as entries and columns
_PARALLEL_PAIRS = 1 << 20  # fewer pairs of a sequence stay on one thread
_STEP_PAIRS = 1 << 20  # pairs of the first steps between two tests for Ctrl-C

_prototype: Any = ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * len(ARGUMENTS))


class Job(NamedTuple):
    """The words of a walk: sizes, addresses, and strides in bytes. An address of 0 means absent or not requested."""

    inner: int  # rows of the matrices
    columns: int
    matrix: int
    matrix_step: int  # 0 if one matrix serves all steps
    matrix_row: int
    offsets: int  # of the matrix of each row of the batch; three more words follow the last one
    x: int
    x_row: int
    y_row: int  # of the workspace
    w_row: int
    advances: int  # whether the product replaces x
    group: int
    weights: int
    weights_row: int
    weights_step: int
    lengths: int
    states: int
    states_row: int
    states_step: int
    witness: int
    witness_row: int
    witness_step: int
    slot_starts: int = 0  # of a sparse matrix: the first slot of each vector of columns, and one more
    slot_bases: int = 0  # the row of the first lane of a slot that is a diagonal, else `GATHERED`
    slot_rows: int = 0  # the rows of the lanes of all slots, int32
    order: int = 0  # the column of each lane, or 0 if the columns are in their own order; beyond the last one, n


GATHERED = -(1 << 40)


def build_walk(
    module: Any,
    name: str,
    definition: KernelDefinition,
    target: Target,
    *,
    has_witness: bool,
    vector_first: bool,
    is_sparse: bool,
    absorbs: bool,
    adds_exponentials: bool,
) -> None:
    """Add ``walk`` to an LLVM module.

    ``vector_first``: whether x is the left factor. ``absorbs``: whether 0̄ absorbs the weights. ``adds_exponentials``:
    whether ⊕ and ⊗ are those of log_plus.
    """
    kind = _ExponentialWalkBuilder if adds_exponentials else _WalkBuilder
    builder = kind(module, name, ARGUMENTS, definition, target)
    builder.has_witness, builder.vector_first, builder.is_sparse = has_witness, vector_first, is_sparse
    builder.weigh = absorbing_product(definition) if absorbs else definition.mul
    builder.build()


class _WalkBuilder(NativeBuilder):
    has_witness: bool
    vector_first: bool
    is_sparse: bool
    weigh: Expression

    # --------------------------------------------------------------------------------------------------- elements

    def prepare(self) -> None:
        """Build what all blocks use: the words of the job, and the mask of the last vector of columns."""
        b, v = self.builder, self.vectors
        _ = self.pair.one
        self.lanes, self.bytes = v.lanes, v.lanes * self.element.size
        self.zero, self.witness_type = v.constant(self.definition.zero.leaf), ir.VectorType(I32, v.lanes)
        self.words = {
            word: self.load(b.add(self.arguments["job"], self.number(8 * place)), I64)
            for place, word in enumerate(Job._fields)
        }
        lanes = self.number(self.lanes)
        self.whole = b.mul(b.udiv(self.words["columns"], lanes), lanes)  # columns in whole vectors
        self.mask = self.mask_of(b.sub(self.words["columns"], self.whole))
        self.has_rest = b.icmp_signed(">", self.words["columns"], self.whole)

    def number(self, value: int) -> Value:
        return ir.Constant(I64, value)

    def address(self, base: Value, *terms: tuple[Value, int | str]) -> Value:
        """Return an address: a base, and indices times their strides, which are numbers or words of the job."""
        b = self.builder
        for index, stride in terms:
            base = b.add(base, b.mul(index, self.words[stride] if isinstance(stride, str) else self.number(stride)))
        return base

    def add_term(self, c: Value, w: Value, x: Value, a: Value, k: Value) -> tuple[Value, Value]:
        """Return c ⊕ (x ⊗ a), and its witness: ``k`` if the term is strictly better than c."""
        b, v = self.builder, self.vectors
        if not self.has_witness:
            return (self.pair.accumulate(c, x, a) if self.vector_first else self.pair.accumulate(c, a, x)), w
        term = self.pair.product(x, a) if self.vector_first else self.pair.product(a, x)
        better = self.pair.is_better(term, c)
        return v.select(better, term.value, c), b.select(better, k, w)

    # --------------------------------------------------------------------------------------------------- products

    @property
    def is_heavy(self) -> bool:
        return instructions(self.definition.add, self.definition.mul) >= _HEAVY

    def block_vectors(self, rows: int) -> int:
        """Return how many vectors of columns fit into registers, for this number of rows."""
        if self.is_heavy:
            return 1
        registers = 1 + (max(1, 4 // self.element.size) if self.has_witness else 0)
        return max(1, (8 if self.target.has_avx512 or not self.has_witness else 4) // (rows * registers))

    def multiply(self, rows: int, x: list[Value], matrix: Value) -> None:
        """Write the products of some rows and a dense matrix, and their witnesses, to the workspace."""
        b, words = self.builder, self.words
        with for_range_slice(b, self.number(0), words["inner"], words["group"], I64) as (k, _):
            remaining = b.sub(words["inner"], k)
            steps = b.select(b.icmp_signed("<", remaining, words["group"]), remaining, words["group"])
            is_first = b.icmp_signed("==", k, self.number(0))
            many = self.block_vectors(rows)
            wide = self.number(many * self.lanes)
            whole = b.mul(b.udiv(self.whole, wide), wide) if many > 1 else self.number(0)
            a = self.address(matrix, (k, "matrix_row"))
            x_now = [self.address(line, (k, self.element.size)) for line in x]
            for start, stop, vectors in ((self.number(0), whole, many), (whole, self.whole, 1)):
                if vectors > 1 or many == 1 or start is whole:
                    step = self.number(vectors * self.lanes)
                    with for_range_slice(b, start, stop, step, I64) as (j, _):
                        self.multiply_block(x_now, a, j, (k, steps, is_first), vectors, is_masked=False)
            with b.if_then(self.has_rest):
                self.multiply_block(x_now, a, self.whole, (k, steps, is_first), 1, is_masked=True)

    def multiply_block(
        self, x: list[Value], a: Value, j: Value, span: tuple[Value, Value, Value], vectors: int, *, is_masked: bool
    ) -> None:
        """Add rows of A to ``vectors`` vectors of each row of the result, from column j on.

        ``span``: the first row, how many rows, and whether the result is still empty.
        """
        b, (first, count, is_first) = self.builder, span
        cells = [(i, v) for i in range(len(x)) for v in range(vectors)]

        def add(sums: list[Value], factors: list[Any], index: Value) -> list[Value]:
            k = splat(b, b.trunc(b.add(first, index), I32), self.lanes) if self.has_witness else None
            return self.add_terms(sums, factors, k)

        start = b.add(a, b.mul(j, self.number(self.element.size)))
        sums = self.load_cells(cells, j, is_first)
        self.store_cells(cells, self.fold_rows(x, start, count, vectors, is_masked, sums, add), j)

    def fold_rows(
        self, x: list[Value], a: Value, count: Value, vectors: int, is_masked: bool, sums: list[Value], body: Any
    ) -> list[Value]:
        """Return the sums after ``count`` ≥ 1 rows of A, of which vectors begin at the address a.

        ``body(sums, factors, index)`` returns the sums after a row, from the factors x and a of every cell.
        """
        b = self.builder
        starts = [self.number(0), a, *sums]
        before, loop, after = b.block, b.append_basic_block("row"), b.append_basic_block("rows_done")
        b.branch(loop)
        b.position_at_end(loop)
        phis = [b.phi(start.type) for start in starts]
        index, a_now, *now = phis
        line = []
        for v in range(vectors):
            address = b.add(a_now, self.number(v * self.bytes))
            line.append(self.load_masked(address, self.mask, self.zero) if is_masked else self.load(address))
        places = [self.address(row, (index, self.element.size)) for row in x]
        lefts = [self.vectors.splat(self.load(place, self.element.ir)) for place in places]
        results = body(now, [(left, right) for left in lefts for right in line], index)
        following = [b.add(index, self.number(1)), b.add(a_now, self.words["matrix_row"]), *results]
        for phi, start, value in zip(phis, starts, following, strict=True):
            phi.add_incoming(start, before)
            phi.add_incoming(value, b.block)
        b.cbranch(b.icmp_signed("<", following[0], count), loop, after)
        b.position_at_end(after)
        return list(results)

    def add_terms(self, sums: list[Value], factors: list[Any], k: Value) -> list[Value]:
        """Return the sums of all cells, and then their witnesses if they are requested, with one more term each."""
        count = len(factors)
        witnesses = sums[count:] or [None] * count
        pairs = [self.add_term(c, w, x, a, k) for c, w, (x, a) in zip(sums[:count], witnesses, factors, strict=True)]
        return [c for c, _ in pairs] + ([w for _, w in pairs] if self.has_witness else [])

    def cell_addresses(self, cells: list[Any], j: Value) -> list[tuple[Value, Value]]:
        """Return the addresses in the workspace of the sums and witnesses of cells: rows, and vectors from column j."""
        b = self.builder
        result = []
        for i, v in cells:
            column = b.add(j, self.number(v * self.lanes))
            y = self.address(self.line_address("y", i), (column, self.element.size))
            result.append((y, self.address(self.line_address("w", i), (column, 4))))
        return result

    def line_address(self, name: str, row: Value | int) -> Value:
        """Return the address of a row of the workspace."""
        number = self.number(row) if isinstance(row, int) else row
        return self.address(self.arguments[name], (number, f"{name}_row"))

    def load_cells(self, cells: list[Any], j: Value, is_first: Value) -> list[Value]:
        """Return the sums and witnesses so far; 0̄ and -1 if there are none."""
        b, v = self.builder, self.vectors
        kind = self.witness_type
        none = ir.Constant(kind, [-1] * self.lanes)
        addresses = self.cell_addresses(cells, j)
        sums = [b.select(is_first, self.zero, self.load(y, v.type)) for y, _ in addresses]
        if self.has_witness:
            sums += [b.select(is_first, none, self.load(w, kind)) for _, w in addresses]
        return sums

    def store_cells(self, cells: list[Any], results: list[Value], j: Value) -> None:
        for place, (y, w) in enumerate(self.cell_addresses(cells, j)):
            self.store(make_opaque(self.builder, results[place], self.target), y)
            if self.has_witness:
                self.store(make_opaque(self.builder, results[len(cells) + place], self.target), w)

    # --------------------------------------------------------------------------------------------- sparse products

    def multiply_sparse(self, x: Value) -> None:
        """Write the product of one row and a sparse matrix, and its witnesses, to the workspace."""
        b, words, lanes = self.builder, self.words, self.number(self.lanes)
        count = b.udiv(b.add(words["columns"], self.number(self.lanes - 1)), lanes)
        with for_range_slice(b, self.number(0), count, self.number(1), I64) as (place, _):
            first, last = (
                self.load(self.address(words["slot_starts"], (b.add(place, self.number(more)), 8)), I64)
                for more in (0, 1)
            )
            sums = self.add_slots(x, first, last)
            j = b.mul(place, lanes)
            in_order = b.icmp_signed("==", words["order"], self.number(0))
            with b.if_else(in_order) as (then, otherwise):
                with then:
                    self.store_cells([(0, 0)], sums, j)
                with otherwise:
                    self.scatter(sums, j)

    def add_slots(self, x: Value, first: Value, last: Value) -> list[Value]:
        """Return the sums, and witnesses, of the slots first … last - 1 of a vector of columns."""
        none = [ir.Constant(self.witness_type, [-1] * self.lanes)] if self.has_witness else []
        return self.fold_slots(x, first, last, [self.zero, *none], self.add_terms)

    def fold_slots(self, x: Value, first: Value, last: Value, sums: list[Value], body: Any) -> list[Value]:
        """Return the sums after the slots first … last - 1; ``body(sums, factors, rows)`` adds a slot."""
        b, v, size = self.builder, self.vectors, self.element.size
        kind = self.witness_type
        numbers = ir.Constant(kind, list(range(self.lanes)))
        starts = [first, *sums]
        before, head, loop, after = b.block, *(b.append_basic_block(name) for name in ("head", "slot", "slots_done"))
        b.branch(head)
        b.position_at_end(head)
        phis = [b.phi(start.type) for start in starts]
        for phi, start in zip(phis, starts, strict=True):
            phi.add_incoming(start, before)
        slot, *now = phis
        b.cbranch(b.icmp_signed("<", slot, last), loop, after)
        b.position_at_end(loop)
        a = self.load(self.address(self.words["matrix"], (slot, self.bytes)))
        base = self.load(self.address(self.words["slot_bases"], (slot, 8)), I64)
        is_diagonal = b.icmp_signed("!=", base, self.number(GATHERED))
        diagonal, gathered, joined = (b.append_basic_block(name) for name in ("diagonal", "gathered", "joined"))
        b.cbranch(is_diagonal, diagonal, gathered)
        b.position_at_end(diagonal)
        ways = [
            (
                self.load(self.address(x, (base, size))),
                b.add(splat(b, b.trunc(base, I32), self.lanes), numbers),
                b.block,
            )
        ]
        b.branch(joined)
        b.position_at_end(gathered)
        rows = self.load(self.address(self.words["slot_rows"], (slot, 4 * self.lanes)), kind)
        factors = ir.Constant(v.type, ir.Undefined)
        for lane in range(self.lanes):
            row = b.sext(b.extract_element(rows, ir.Constant(I32, lane)), I64)
            factor = self.load(self.address(x, (row, size)), self.element.ir)
            factors = b.insert_element(factors, factor, ir.Constant(I32, lane))
        ways.append((factors, rows, b.block))
        b.branch(joined)
        b.position_at_end(joined)
        factor, k = b.phi(v.type), b.phi(kind)
        for value, witness, block in ways:
            factor.add_incoming(value, block)
            k.add_incoming(witness, block)
        results = body(now, [(factor, a)], k)
        for phi, value in zip(phis, [b.add(slot, self.number(1)), *results], strict=True):
            phi.add_incoming(value, b.block)
        b.branch(head)
        b.position_at_end(after)
        return now

    def scatter(self, sums: list[Value], j: Value) -> None:
        """Store the lanes of a vector of columns at the places of their columns."""
        b = self.builder
        for lane in range(self.lanes):
            where = self.address(self.words["order"], (b.add(j, self.number(lane)), 8))
            column = self.load(where, I64)
            for value, name, size in zip(sums, ("y", "w"), (self.element.size, 4), strict=False):
                entry = b.extract_element(value, ir.Constant(I32, lane))
                self.store(entry, self.address(self.line_address(name, 0), (column, size)))

    # ------------------------------------------------------------------------------------------------------ steps

    def build(self) -> None:
        self.prepare()
        b, arguments = self.builder, self.arguments
        row = b.alloca(I64)
        with for_range_slice(b, arguments["first_step"], arguments["last_step"], self.number(1), I64) as (t, _):
            b.store(arguments["first_row"], row)
            head, body, end = (b.append_basic_block(name) for name in ("batch", "batch_body", "batch_end"))
            b.branch(head)
            b.position_at_end(head)
            r = b.load(row)
            b.cbranch(b.icmp_signed("<", r, arguments["last_row"]), body, end)
            b.position_at_end(body)
            count = self.multiply_rows(r, t)
            with for_range_slice(b, self.number(0), count, self.number(1), I64) as (i, _):
                self.finish(b.add(r, i), t, i)
            b.store(b.add(r, count), row)
            b.branch(head)
            b.position_at_end(end)
        b.ret_void()

    def multiply_rows(self, r: Value, t: Value) -> Value:
        """Write the products of step t to the workspace, of some rows of the batch from row r on; return how many."""
        b = self.builder
        one, many = self.number(1), self.number(MANY_ROWS)
        if self.is_sparse:
            with b.if_then(self.is_going(r, t)):
                self.multiply_sparse(self.address(self.words["x"], (r, "x_row")))
            return one
        offset = self.load(self.address(self.words["offsets"], (r, 8)), I64)
        matrix = b.add(self.address(self.words["matrix"], (t, "matrix_step")), offset)
        if self.is_heavy:
            with b.if_then(self.is_going(r, t)):
                self.multiply(1, [self.address(self.words["x"], (r, "x_row"))], matrix)
            return one
        shares = self.shares_matrix(r)
        with b.if_else(shares) as (then, otherwise):
            for branch, rows in ((then, MANY_ROWS), (otherwise, 1)):
                with branch:
                    numbers = [b.add(r, self.number(i)) for i in range(rows)]
                    some = self.is_going(r, t)
                    for number in numbers[1:]:
                        some = b.or_(some, self.is_going(number, t))
                    with b.if_then(some):
                        self.multiply(
                            rows, [self.address(self.words["x"], (number, "x_row")) for number in numbers], matrix
                        )
        return b.select(shares, many, one)

    def shares_matrix(self, r: Value) -> Value:
        """Return whether `MANY_ROWS` rows of the batch follow from row r on, and have one matrix."""
        b = self.builder
        result = b.icmp_signed("<=", b.add(r, self.number(MANY_ROWS)), self.arguments["last_row"])
        first = self.load(self.address(self.words["offsets"], (r, 8)), I64)
        for i in range(1, MANY_ROWS):
            other = self.load(self.address(self.words["offsets"], (b.add(r, self.number(i)), 8)), I64)
            result = b.and_(result, b.icmp_signed("==", first, other))
        return result

    def finish(self, number: Value, t: Value, i: Value) -> None:
        """Complete step t of a row of the batch, whose product is row i of the workspace."""
        b, size = self.builder, self.element.size
        x = self.address(self.words["x"], (number, "x_row"))
        y, w = self.line_address("y", i), self.line_address("w", i)
        is_going = self.is_going(number, t)
        with b.if_then(is_going):
            self.replace(number, t, x, y)
        self.write_line(b.select(is_going, y, x), "states", number, t, size)
        if self.has_witness:
            with b.if_then(b.not_(is_going)):
                for place, _ in self.vectors_of_line():
                    self.store(ir.Constant(self.witness_type, [-1] * self.lanes), self.address(w, (place, 4)))
            self.write_line(w, "witness", number, t, 4)

    def is_going(self, number: Value, t: Value) -> Value:
        """Return whether a row of the batch takes step t."""
        b, lengths = self.builder, self.words["lengths"]
        is_absent = b.icmp_signed("==", lengths, self.number(0))
        # Without lengths the first step is read in their place, which is never used.
        address = b.select(is_absent, self.arguments["job"], self.address(lengths, (number, 8)))
        return b.or_(is_absent, b.icmp_signed("<", t, self.load(address, I64)))

    def replace(self, number: Value, t: Value, x: Value, y: Value) -> None:
        """Multiply a row of products by the weights of the step, and replace x by it."""
        b, words = self.builder, self.words
        with b.if_then(b.icmp_signed("!=", words["weights"], self.number(0))):
            line = self.address(words["weights"], (number, "weights_row"), (t, "weights_step"))
            for place, is_masked in self.vectors_of_line():
                address = self.address(y, (place, self.element.size))
                source = self.address(line, (place, self.element.size))
                factor = self.load_masked(source, self.mask, self.zero) if is_masked else self.load(source)
                operands = {"x": Operand(self.load(address)), "y": Operand(factor)}
                value = lower(self.vectors, self.target, self.weigh, operands).value
                if is_masked:
                    value = self.vectors.select(self.mask, value, self.zero)
                self.store(value, address)
        with b.if_then(b.icmp_signed("!=", words["advances"], self.number(0))):
            for place, _ in self.vectors_of_line():
                offset = (place, self.element.size)
                self.store(self.load(self.address(y, offset)), self.address(x, offset))

    def write_line(self, source: Value, name: str, number: Value, t: Value, size: int) -> None:
        """Write a line to an array of results, if it is requested."""
        b = self.builder
        with b.if_then(b.icmp_signed("!=", self.words[name], self.number(0))):
            line = self.address(self.words[name], (number, f"{name}_row"), (t, f"{name}_step"))
            kind = self.vectors.type if name == "states" else self.witness_type
            for place, is_masked in self.vectors_of_line():
                value = self.load(self.address(source, (place, size)), kind)
                if is_masked:
                    self.store_masked(value, self.address(line, (place, size)), self.mask)
                else:
                    self.store(value, self.address(line, (place, size)))

    def vectors_of_line(self) -> Iterator[tuple[Value, bool]]:
        """Yield, inside a loop over whole vectors and then in a branch, the column and whether the vector is masked."""
        b = self.builder
        with for_range_slice(b, self.number(0), self.whole, self.number(self.lanes), I64) as (j, _):
            yield j, False
        with b.if_then(self.has_rest):
            yield self.whole, True


class _ExponentialWalkBuilder(_WalkBuilder):
    """The builder of walks in log_plus: log Σₖ exp(x[k] + a[k]), relative to the greatest term of each entry.

    A sum of float32 is added up in float64. If a single term is not -∞, the result is exactly this term.
    """

    def block_vectors(self, rows: int) -> int:
        return 2 if self.target.has_avx512 else 1

    def multiply_block(
        self, x: list[Value], a: Value, j: Value, span: tuple[Value, Value, Value], vectors: int, *, is_masked: bool
    ) -> None:
        start = self.builder.add(a, self.builder.mul(j, self.number(self.element.size)))
        cells = [(0, v) for v in range(vectors)]

        def fold(sums: list[Value], body: Any) -> list[Value]:
            return self.fold_rows(x, start, span[1], vectors, is_masked, sums, body)

        self.store_cells(cells, self.add_exponentials(vectors, fold), j)

    def add_slots(self, x: Value, first: Value, last: Value) -> list[Value]:
        return self.add_exponentials(1, lambda sums, body: self.fold_slots(x, first, last, sums, body))

    def add_exponentials(self, count: int, fold: Callable[[list[Value], Any], list[Value]]) -> list[Value]:
        """Return the sums of ``count`` vectors; ``fold(sums, body)`` passes all pairs of factors to a body."""
        b, v = self.builder, self.vectors
        wide = ir.VectorType(ir.DoubleType(), self.lanes)
        is_narrow = self.element.size == 4

        def raise_top(tops: list[Value], factors: list[Any], _: Value) -> list[Value]:
            terms = [self.pair.product(*pair).value for pair in factors]
            return [v.select(v.compare(">", term, top), term, top) for term, top in zip(terms, tops, strict=True)]

        tops = fold([self.zero] * count, raise_top)
        # Where all terms are -∞, or one is ∞, the exponentials themselves are added.
        shifts = [v.select(v.compare("<", v.call("fabs", top), v.constant(np.inf)), top, v.constant(0)) for top in tops]

        def add(sums: list[Value], factors: list[Any], _: Value) -> list[Value]:
            results = []
            for total, pair, shift in zip(sums, factors, shifts, strict=True):
                power = self.evaluate("exp", b.fsub(self.pair.product(*pair).value, shift))
                results.append(b.fadd(total, b.fpext(power, wide) if is_narrow else power))
            return results

        sums = fold([ir.Constant(wide, [0.0] * self.lanes)] * count, add)
        totals = [b.fptrunc(total, v.type) if is_narrow else total for total in sums]
        return [b.fadd(shift, self.evaluate("log", total)) for shift, total in zip(shifts, totals, strict=True)]

    def evaluate(self, function: str, value: Value) -> Value:
        expression = Expression(function, (Expression("var", (), "x"),))
        return lower(self.vectors, self.target, expression, {"x": Operand(value)}).value


# ------------------------------------------------------------------------------------------------------- the calls


class _Walk:
    """The native function of a plan, and the words of its job that no step changes."""

    def __init__(self, plan: KernelPlan, has_witness: bool, vector_first: bool, is_sparse: bool) -> None:
        definition = define(plan)
        what = f"{plan.semiring.name} {plan.dtype} products of rows{' with witnesses' if has_witness else ''}"
        address = compile_native(
            *(build_walk, definition, host()),
            purpose=what,
            has_witness=has_witness,
            vector_first=vector_first,
            is_sparse=is_sparse,
            absorbs=plan.semiring.annihilates,
            adds_exponentials=adds_exponentials(plan.semiring),
        )
        self.function, self.plan, self.size = _prototype(address), plan, plan.dtype.itemsize
        self.lanes = host().vector_bytes // self.size

    @classmethod
    def of(cls, plan: KernelPlan, *, has_witness: bool, vector_first: bool = True, is_sparse: bool = False) -> _Walk:
        """Return the function, which the plan keeps for the next call."""
        key = cls, has_witness, vector_first, is_sparse
        native: _Walk | None = plan.memo.get(key)
        if native is None:
            native = plan.memo[key] = cls(plan, has_witness, vector_first, is_sparse)
        return native

    def padded(self, n: int) -> int:
        """Return n, rounded up to whole vectors."""
        return -(-n // self.lanes) * self.lanes

    def group(self, n: int, inner: int) -> int:
        """Return how many rows of a matrix are added in one pass over its columns."""
        one_pass = n * self.size <= _REGISTER_COLUMNS or adds_exponentials(self.plan.semiring)
        return inner if one_pass else _GROUP

    def workspace(self, n: int) -> tuple[Array, Array]:
        """Return rows of workspace for products of n columns, and for their witnesses."""
        width = self.padded(n)
        return np.empty((MANY_ROWS, width), self.plan.dtype), np.empty((MANY_ROWS, width), np.int32)

    def run(self, job: Job, y: Array, w: Array, rows: tuple[int, int], steps: tuple[int, int]) -> None:
        words = np.array(job, np.int64)
        self.function(words.ctypes.data, y.ctypes.data, w.ctypes.data, *rows, *steps)


def _address(array: Array | None) -> int:
    return 0 if array is None else int(array.ctypes.data)


def _places(array: Array | None) -> tuple[int, int, int]:
    """Return the address of an array (m, steps, n), and its strides of rows and of steps."""
    return (0, 0, 0) if array is None else (array.ctypes.data, array.strides[0], array.strides[1])


class DenseMatrices:
    """Dense matrices A (g, 1 or T, n, n) of the steps of a batch. ``groups`` (m,): the g of each row of the batch."""

    def __init__(self, plan: KernelPlan, A: Array, groups: Array) -> None:
        if A.strides[3] != A.itemsize:
            A = np.ascontiguousarray(A)
        self.A, self.n = A, A.shape[-1]
        self.offsets = np.append(groups * A.strides[0], np.zeros(MANY_ROWS - 1, np.int64)).astype(np.int64)
        self.pairs = self.n**2

    def job(self, walk: _Walk) -> dict[str, int]:
        """Return the words of a job that describe the matrices."""
        A = self.A
        return {
            "matrix": A.ctypes.data,
            "matrix_step": A.strides[1] if A.shape[1] > 1 else 0,
            "matrix_row": A.strides[2],
            "offsets": self.offsets.ctypes.data,
            "group": walk.group(self.n, self.n),
        }


def pays_for_slots(plan: KernelPlan, A: CompressedRows) -> bool:
    """Return whether the longest column is so short that slots of all columns store at most some times the entries."""
    lanes = host().vector_bytes // plan.dtype.itemsize
    longest = int(np.bincount(A.columns, minlength=1).max())
    return bool(longest * lanes <= _MOST_PADDING * (A.columns.size + A.width))


class SparseMatrix:
    """A sparse matrix (n, n) that serves all steps, in slots: see the top of this file."""

    def __init__(self, plan: KernelPlan, A: CompressedRows) -> None:
        self.n, self.size, self.pairs = A.width, plan.dtype.itemsize, A.columns.size
        lanes = self.lanes = host().vector_bytes // self.size
        by_columns = np.argsort(A.columns, kind="stable")
        rows = np.repeat(np.arange(self.n), np.diff(A.starts))[by_columns]
        columns, values = A.columns[by_columns].astype(np.int64), A.values[by_columns]
        counts = np.bincount(columns, minlength=self.n)
        depth = np.arange(rows.size) - np.repeat(np.cumsum(counts) - counts, counts)  # the place within the column
        self.order: Array | None = None
        heights, lows, slots = self._measure(rows, columns, counts)
        is_diagonal = heights <= _SLOTS_PER_ENTRY * slots
        sorted_columns = np.argsort(-counts, kind="stable")
        if not is_diagonal.all():
            sorted_slots = counts[sorted_columns[::lanes]]
            if sorted_slots.sum() * _SORTED_GAIN < slots.sum():
                place = np.empty(self.n, np.int64)
                place[sorted_columns] = np.arange(self.n)
                columns, slots, is_diagonal = place[columns], sorted_slots, np.zeros(slots.size, np.bool_)
                self.order = np.append(sorted_columns, np.full(slots.size * lanes - self.n, self.n)).astype(np.int64)
        vector, lane = columns // lanes, columns % lanes
        sizes = np.where(is_diagonal, heights, slots)
        self.starts = np.append(0, np.cumsum(sizes)).astype(np.int64)
        slot = self.starts[vector] + np.where(is_diagonal[vector], rows - columns - lows[vector], depth)
        total = int(self.starts[-1])
        self.bases = np.full(total, GATHERED, np.int64)
        diagonals = np.repeat(is_diagonal, sizes)
        first = np.repeat(np.arange(slots.size) * lanes + lows, sizes)
        self.bases[diagonals] = (first + np.arange(total) - np.repeat(self.starts[:-1], sizes))[diagonals]
        self.rows, self.values = np.zeros((total, lanes), np.int32), np.full((total, lanes), plan.zero, plan.dtype)
        self.rows[slot, lane], self.values[slot, lane] = rows, values

    def _measure(self, rows: Array, columns: Array, counts: Array) -> tuple[Array, Array, Array]:
        """Return for each vector of columns how many diagonals its entries span, the lowest, and the longest column."""
        lanes, vectors = self.lanes, -(-self.n // self.lanes)
        longest = np.append(counts, np.zeros(vectors * lanes - self.n, counts.dtype)).reshape(vectors, lanes).max(1)
        heights, lows = np.zeros(vectors, np.int64), np.zeros(vectors, np.int64)
        occupied = np.flatnonzero(longest)
        if occupied.size:
            diagonals, vector = rows - columns, columns // lanes
            starts = np.searchsorted(vector, occupied)
            lows[occupied] = np.minimum.reduceat(diagonals, starts)
            heights[occupied] = np.maximum.reduceat(diagonals, starts) - lows[occupied] + 1
        return heights, lows, longest

    def job(self, native: _Walk) -> dict[str, int]:
        """Return the words of a job that describe the matrix."""
        return {
            "matrix": self.values.ctypes.data,
            "matrix_step": 0,
            "matrix_row": 0,
            "offsets": 0,
            "group": 1,
            "slot_starts": self.starts.ctypes.data,
            "slot_bases": self.bases.ctypes.data,
            "slot_rows": self.rows.ctypes.data,
            "order": _address(self.order),
        }


class SparseMatrices(NamedTuple):
    """Sparse matrices (n, n), one or one for each step, of which each step is a product of its own."""

    matrices: tuple[CompressedRows, ...]

    def walk(self, plan: KernelPlan, x: Array, steps: Steps) -> None:
        """Advance x (m, n) by the steps."""
        walk_by_products(plan, self.matrices, x, steps, multiply_mixed)


def prepare_sparse(plan: KernelPlan, matrices: tuple[CompressedRows, ...]) -> SparseMatrix | SparseMatrices:
    """Return the preparation of sparse matrices (n, n), one or one for each step."""
    has_slots = len(matrices) == 1 and pays_for_slots(plan, matrices[0])
    return SparseMatrix(plan, matrices[0]) if has_slots else SparseMatrices(matrices)


def walk(plan: KernelPlan, matrices: Any, x: Array, steps: Steps) -> None:
    """Compute `SequenceKernels.walk` of the contract for the matrices of this file."""
    (m, n), count = x.shape, steps.number
    if not (m and n and count):
        return
    if isinstance(matrices, SparseMatrices):
        matrices.walk(plan, x, steps)
        return
    native = _Walk.of(plan, has_witness=steps.witness is not None, is_sparse=not isinstance(matrices, DenseMatrices))
    lanes, width = native.lanes, native.padded(n)
    room = np.full((m, width + 2 * lanes), plan.zero, plan.dtype)  # a vector before and after each row may be read
    room[:, lanes : lanes + n] = x
    lengths = None if steps.lengths is None else np.ascontiguousarray(steps.lengths, np.int64)
    words = matrices.job(native)
    words |= {"inner": n, "columns": n, "x": room.ctypes.data + lanes * native.size, "x_row": room.strides[0]}
    words |= {"y_row": width * native.size, "w_row": width * 4, "advances": 1, "lengths": _address(lengths)}
    for name in ("weights", "states", "witness"):
        words |= dict(zip((name, f"{name}_row", f"{name}_step"), _places(getattr(steps, name)), strict=True))
    words["matrix"] += steps.first * words["matrix_step"]
    job = Job(**words)
    pairs = m * max(1, matrices.pairs)
    rows = -(-m // min(m, plan.threads)) if pairs * count >= _PARALLEL_PAIRS else m
    rows = -(-rows // MANY_ROWS) * MANY_ROWS
    parts = [(first, min(m, first + rows), native.workspace(n)) for first in range(0, m, rows)]

    def advance(start: int, stop: int) -> None:
        def advance_rows(first: int, last: int, workspace: tuple[Array, Array]) -> None:
            native.run(job, *workspace, (first, last), (start, stop))

        run_tasks(advance_rows, parts, plan.threads)

    if pairs * count <= _STEP_PAIRS:
        advance(0, count)
    else:  # one thread runs ranges of steps in their order, and between two of them Ctrl-C is raised
        run_on_ranges(advance, count, count, 1, unit=max(1, _STEP_PAIRS // pairs))
    x[...] = room[:, lanes : lanes + n]


def multiply_rows(
    plan: KernelPlan, x: Array, A: Array, threads: int, *, vector_first: bool = True
) -> tuple[Array, Array]:
    """Return x ⊗ A for x (m, k) and A (k, n), no size 0, and its witnesses, int32.

    The rows of A are contiguous. With ``vector_first=False`` the product is A[k, j] ⊗ x[i, k].
    """
    native = _Walk.of(plan, has_witness=True, vector_first=vector_first)
    (m, inner), n, lanes = x.shape, A.shape[1], native.lanes
    x = np.ascontiguousarray(x)
    C, W, offsets = np.empty((m, n), plan.dtype), np.empty((m, n), np.int32), np.zeros(m + MANY_ROWS, np.int64)

    def multiply(start: int, stop: int) -> None:
        y, w = native.workspace(stop - start)
        job = Job(
            *(inner, stop - start, A.ctypes.data + start * native.size, 0, A.strides[0], offsets.ctypes.data),
            *(x.ctypes.data, x.strides[0], y.strides[0], w.strides[0], 0, native.group(stop - start, inner)),
            *(0, 0, 0, 0, C.ctypes.data + start * native.size, C.strides[0], 0),
            *(W.ctypes.data + start * 4, W.strides[0], 0),
        )
        native.run(job, y, w, (0, m), (0, 1))

    pieces = threads if m * n * inner >= _PARALLEL_PAIRS else 1
    unit = 4 * lanes
    run_on_ranges(
        multiply, n, -(-n // (pieces * unit)) * unit, threads, unit=unit if pieces > 1 else -(-n // unit) * unit
    )
    return C, W


# ----------------------------------------------------------------------------------------------------- best paths

TRACE_ARGUMENTS = ("w", "w_row", "w_step", "rows", "columns", "lengths", "states", "spare", "first_step", "last_step")
_trace_prototype: Any = ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * len(TRACE_ARGUMENTS))


def build_trace(module: Any, name: str) -> None:
    """Add the search of best paths to an LLVM module.

    ``trace`` replaces the witnesses w (rows, steps, columns) of the steps first_step … last_step - 1, from the last one
    back, by the states before these steps on a best path to each last state. ``states`` (rows, columns) holds the
    states after the last step, -1 for none, and receives those before the first one. ``spare`` (columns,) is workspace.
    """
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), [I64] * len(TRACE_ARGUMENTS)), name)
    arguments = dict(zip(TRACE_ARGUMENTS, function.args, strict=True))
    b = ir.IRBuilder(function.append_basic_block("entry"))
    zero, one, none = ir.Constant(I64, 0), ir.Constant(I64, 1), ir.Constant(I32, -1)
    four, pointer = ir.Constant(I64, 4), I32.as_pointer()

    def place(base: Value, index: Value) -> Value:
        return b.inttoptr(b.add(base, b.mul(index, four)), pointer)

    with for_range_slice(b, zero, arguments["rows"], one, I64) as (row, _):
        states = b.add(arguments["states"], b.mul(row, b.mul(arguments["columns"], four)))
        with for_range_slice(b, arguments["first_step"], arguments["last_step"], one, I64) as (index, _):
            t = b.sub(b.sub(b.add(arguments["last_step"], arguments["first_step"]), index), one)
            line = b.add(arguments["w"], b.add(b.mul(row, arguments["w_row"]), b.mul(t, arguments["w_step"])))
            length = b.load(b.inttoptr(b.add(arguments["lengths"], b.mul(row, ir.Constant(I64, 8))), I64.as_pointer()))
            with b.if_else(b.icmp_signed("<", t, length)) as (going, ended):
                with going:
                    with for_range_slice(b, zero, arguments["columns"], one, I64) as (j, _):
                        state = b.load(place(states, j))
                        is_state = b.icmp_signed(">=", state, ir.Constant(I32, 0))
                        before = b.load(place(line, b.select(is_state, b.sext(state, I64), zero)))
                        b.store(b.select(is_state, before, none), place(arguments["spare"], j))
                    with for_range_slice(b, zero, arguments["columns"], one, I64) as (j, _):
                        before = b.load(place(arguments["spare"], j))
                        b.store(before, place(line, j))
                        b.store(before, place(states, j))
                with ended, for_range_slice(b, zero, arguments["columns"], one, I64) as (j, _):
                    b.store(none, place(line, j))
    b.ret_void()


def trace(W: Array, is_reached: Array, lengths: Array | None) -> None:
    """Compute `SequenceKernels.trace` of the contract."""
    m, count, n = W.shape
    if not W.size:
        return
    function = _trace_prototype(compile_native(build_trace, purpose="best paths of sequences"))
    lengths = np.full(m, count) if lengths is None else np.ascontiguousarray(lengths, np.int64)
    states = np.where(is_reached, np.arange(n, dtype=np.int32), np.int32(-1))
    spare = np.empty(n, np.int32)

    def trace_back(start: int, stop: int) -> None:
        function(
            *(W.ctypes.data, *W.strides[:2], m, n, lengths.ctypes.data, states.ctypes.data, spare.ctypes.data),
            *(count - stop, count - start),
        )

    run_on_ranges(trace_back, count, count, 1, unit=max(1, _STEP_PAIRS // (m * n)))
