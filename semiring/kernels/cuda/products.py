"""The products of the kernel contract on CuPy arrays: which kernel, on which words, for which layout."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import cuda.bindings.driver as cuda
import cupy
import numpy as np
from cutlass import Int32, Int64

from semiring.bits import to_bitwise
from semiring.expressions import Expression
from semiring.kernels.contract import Plan
from semiring.kernels.cuda.compilation import compiled, compiled_search
from semiring.kernels.cuda.gemm import Product
from semiring.kernels.cuda.layouts import Placement, is_nonnegative, on_pairs, without_neutral
from semiring.kernels.cuda.search import Search
from semiring.kernels.cuda.tiles import Tile, tile_for
from semiring.kernels.cuda.truths import empty_words, pack, unpack
from semiring.kernels.cuda.words import WordFormat
from semiring.kernels.definition import define

__all__ = ["multiply", "multiply_add", "multiply_add_pivots", "multiply_add_witness"]

_X, _Y = Expression("var", (), "x"), Expression("var", (), "y")
_COMMUTATIVE = frozenset({"add", "mul", "min", "max", "and", "or", "xor"})
_SELECTIONS = (Expression("min", (_X, _Y)), Expression("max", (_X, _Y)))

#: Rows of one launch: a grid has at most 65,535 tiles along the rows.
_ROWS = 1 << 20
#: From this m, n and k on, floats are mapped to integers for max-min: three passes of O(n²) to save 25 % of O(n³).
_ORDERED = 256
#: Length of the runs among which a witness is searched: one tile.
_WITNESS_RUN = 16


@dataclass(frozen=True)
class _Call:
    """⊕ and ⊗ as the kernel computes them, and on what."""

    add: Expression
    mul: Expression
    zero: Any
    words: WordFormat
    accumulate: bool
    nonnegative: bool
    contract: bool
    record: bool = False

    @property
    def transposed(self) -> _Call:
        """For Cᵀ ← Bᵀ ⊗' Aᵀ: the operands of ⊗ change places, unless the order is nothing to its one operation."""
        if self.mul.op in _COMMUTATIVE and set(self.mul.args) == {_X, _Y}:
            return self
        return replace(self, mul=self.mul.substitute({"x": _Y, "y": _X}))

    def tile(self, B: Placement, C: Placement) -> Tile:
        nodes, floating = self.add.size + self.mul.size, self.words.dtype == "float16"
        return tile_for(B.itemsize, self.words.lanes, nodes, *C.shape, record=self.record, floating=floating)

    def product(self, A: Placement, B: Placement, C: Placement) -> Product:
        return Product(
            self.add.text,
            self.mul.text,
            self.zero.item() if isinstance(self.zero, np.generic) else self.zero,
            self.words,
            self.accumulate,
            copy_a=A.transposed.copy if self.words.lanes == 1 else A.splat,
            copy_b=B.copy,
            copy_c="vector" if C.copy == "vector" else "word",
            ordered_bits=self.nonnegative and self.words.dtype == "float32" and is_nonnegative(self.mul, self.add),
            contract=self.contract,
            record=self.record,
        )


def multiply(plan: Plan, C: Any, A: Any, B: Any) -> None:
    """C ← A ⊗ B. C is not read."""
    _multiply(plan, C, A, B, accumulate=False)


def multiply_add(plan: Plan, C: Any, A: Any, B: Any) -> None:
    """C ← C ⊕ A ⊗ B."""
    _multiply(plan, C, A, B, accumulate=True)


def _multiply(plan: Plan, C: Any, A: Any, B: Any, *, accumulate: bool) -> None:
    if not C.size:
        return
    if not B.shape[0]:
        if not accumulate:
            C[...] = plan.zero  # with packed truth values the zero is False
        return
    if plan.dtype == np.bool_:
        bits = _call(plan, WordFormat("int32", 32), accumulate=accumulate)
        if plan.storage == "bits":
            _launch(bits, plan, C, A, B)
            return
        words = pack(C) if accumulate else empty_words(C.shape)
        _launch(bits, plan, words, pack(A), pack(B))
        unpack(words, C)
        return
    call = _call(plan, _format(plan), accumulate=accumulate)
    if plan.dtype.itemsize == 1:
        wide = np.int16 if call.words.lanes == 2 else call.words.numpy_word
        _through(call, plan, wide, C, A, B)
    elif _as_integers(call, C, A, B):
        integers = replace(call, words=WordFormat("int32"), zero=_order_of(call.zero))
        C_, A_, B_ = (_ordered(array, call.nonnegative) for array in (C, A, B))
        _launch(integers, plan, C_, A_, B_)
        if not call.nonnegative:
            C[...] = _flipped(C_).view(np.float32)
    else:
        _launch(call, plan, C, A, B)


def multiply_add_pivots(plan: Plan, C: Any, P: Any, A: Any, B: Any, k0: int) -> None:
    """As `multiply_add`; P becomes k0 + the first k of the last run of ``plan.pivot_chunk`` in which C improved."""
    if C.size and B.shape[0]:
        truths = plan.storage == "bits"
        if truths:
            C_, A_, B_ = unpack(C, columns=P.shape[1]), unpack(A, columns=B.shape[0]), unpack(B, columns=P.shape[1])
        else:
            C_, A_, B_ = C, A, B
        C_, A_, B_ = _recordable(plan, C_, A_, B_)
        _record(plan, C_, P, A_, B_, k0, plan.pivot_chunk)
        _put_back(C, C_, truths)


def multiply_add_witness(plan: Plan, C: Any, W: Any, A: Any, B: Any, k0: int) -> None:
    """As `multiply_add`; W becomes k0 + the smallest attaining k where the product is strictly better than C."""
    if not C.size or not B.shape[0]:
        return
    truths = plan.storage == "bits"
    if truths:
        C_, A_, B_ = unpack(C, columns=W.shape[1]), unpack(A, columns=B.shape[0]), unpack(B, columns=W.shape[1])
    else:
        C_, A_, B_ = C, A, B
    C_, A_, B_ = _recordable(plan, C_, A_, B_)
    runs = cupy.full(W.shape, -1, np.int32)
    call = _record(plan, C_, runs, A_, B_, 0, _WITNESS_RUN)
    search = compiled_search(Search(define(plan).mul.text, call.words, _WITNESS_RUN, W.dtype == np.int64))
    operands = [Placement.of(array) for array in (A_, B_, C_, runs, W)]
    search(
        tuple(Int64(operand.address) for operand in operands),
        tuple(Int32(size) for size in (*C_.shape, B_.shape[0])),
        *(tuple(Int64(stride) for stride in operand.strides) for operand in operands),
        Int64(k0),
        _stream(plan),
    )
    _put_back(C, C_, truths)


# ------------------------------------------------------------------------------------------------- what is computed


def _format(plan: Plan) -> WordFormat:
    """The words of a product that records nothing."""
    dtype = plan.dtype
    if dtype == np.uint8:
        semiring = plan.semiring
        return (
            WordFormat("int16", 2)
            if on_pairs(semiring.add.expression, semiring.mul.expression)
            else WordFormat("uint8")
        )
    return WordFormat(dtype.name, 2 if dtype.itemsize == 2 else 1)


def _call(plan: Plan, words: WordFormat, *, accumulate: bool, record: bool = False) -> _Call:
    definition = define(plan)
    add, mul = definition.add, definition.mul
    if words.bits:
        add, mul = to_bitwise(add), to_bitwise(mul)
    else:
        mul = without_neutral(add, mul, plan.zero)
    return _Call(add, mul, plan.zero, words, accumulate, plan.facts.nonnegative, definition.contract, record)


def _as_integers(call: _Call, C: Any, A: Any, B: Any) -> bool:
    """Whether float32 is better mapped to integers in the same order: ⊕ and ⊗ only select, and that map costs less."""
    if call.words.dtype != "float32" or call.add not in _SELECTIONS or call.mul not in _SELECTIONS:
        return False
    return call.nonnegative or min(*C.shape, B.shape[0]) >= _ORDERED


_SIGN_KEPT = np.int32(0x7FFFFFFF)


def _ordered(array: Any, nonnegative: bool) -> Any:
    """int32 in the order of the floats; a view where no sign bit is set."""
    bits = array.view(np.int32)
    return bits if nonnegative else _flipped(bits)


def _flipped(bits: Any) -> Any:
    """Of a negative number all bits but the sign are inverted: its own inverse."""
    return bits ^ ((bits >> 31) & _SIGN_KEPT)


def _order_of(value: Any) -> int:
    bits = np.asarray(value, np.float32).view(np.int32)
    return int(bits ^ ((bits >> 31) & _SIGN_KEPT))


def _through(call: _Call, plan: Plan, wide: Any, C: Any, A: Any, B: Any) -> None:
    """The product on wider copies."""
    target = C.astype(wide) if call.accumulate else cupy.empty(C.shape, wide)
    _launch(call, plan, target, A.astype(wide), B.astype(wide))
    C[...] = target


# ------------------------------------------------------------------------------------------------- launches


def _launch(call: _Call, plan: Plan, C: Any, A: Any, B: Any) -> None:
    """Bring the layout into a form that a kernel takes, and start it."""
    if not call.words.bits and Placement.of(C).column_major:
        call, C, A, B = call.transposed, C.T, B.T, A.T
    if call.words.lanes == 2:
        if not (Placement.of(C).holds_pairs and Placement.of(B).holds_pairs):
            target = _padded(C) if call.accumulate else cupy.empty((C.shape[0], C.shape[1] + C.shape[1] % 2), C.dtype)
            _start(call, plan, target.view(np.int32), A, _padded(B).view(np.int32))
            C[...] = target[:, : C.shape[1]]
            return
        C, B = C.view(np.int32), B.view(np.int32)
    _start(call, plan, C, A, B)


def _padded(array: Any) -> Any:
    """A copy with an even number of columns; what pads meets only itself."""
    copy = cupy.zeros((array.shape[0], array.shape[1] + array.shape[1] % 2), array.dtype)
    copy[:, : array.shape[1]] = array
    return copy


def _start(call: _Call, plan: Plan, C: Any, A: Any, B: Any, P: Any = None, k0: int = 0, run: int = 16) -> None:
    for top in range(0, C.shape[0], _ROWS):
        rows = slice(top, top + _ROWS)
        a, b, c = Placement.of(A[rows]), Placement.of(B), Placement.of(C[rows])
        p = c if P is None else Placement.of(P[rows])
        product = call.product(a, b, c)
        tile = call.tile(b, c)
        kernel = compiled(product, tile)
        kernel(
            tuple(Int64(operand.address) for operand in (a, b, c, p)),
            tuple(Int32(size) for size in (*c.shape, b.shape[0], 1)),
            *(tuple(Int64(stride) for stride in (*operand.strides, 0)) for operand in (a, b, c, p)),
            (Int32(run // tile.tile_k), Int32(k0)),
            _stream(plan),
        )


def _stream(plan: Plan) -> Any:
    stream = cupy.cuda.get_current_stream() if plan.stream is None else plan.stream
    return cuda.CUstream(stream.ptr)


# ------------------------------------------------------------------------------------------------- recording


def _recordable(plan: Plan, *arrays: Any) -> tuple[Any, ...]:
    """The arrays as words of one element: copies where elements are narrower."""
    word = WordFormat(plan.dtype.name).numpy_word
    return tuple(array.astype(word, copy=False) for array in arrays)


def _put_back(C: Any, computed: Any, truths: bool) -> None:
    if truths:
        C[...] = pack(computed != 0).view(C.dtype)
    elif computed is not C:
        C[...] = computed


def _record(plan: Plan, C: Any, P: Any, A: Any, B: Any, k0: int, chunk: int) -> _Call:
    """As `multiply_add_pivots`, on words of one element. Returns the call, as for a row-major C."""
    given = call = _call(plan, WordFormat(plan.dtype.name), accumulate=True, record=True)
    if Placement.of(C).column_major:
        call, C, P, A, B = call.transposed, C.T, P.T, B.T, A.T
    k = B.shape[0]
    if chunk % 16 == 0:
        _start(call, plan, C, A, B, P, k0, chunk)
    else:  # runs that are no whole number of tiles: one launch each
        for start in range(0, k, chunk):
            stop = min(k, start + chunk)
            _start(call, plan, C, A[:, start:stop], B[start:stop], P, k0 + start, 16 * (chunk // 16 + 1))
    return given
