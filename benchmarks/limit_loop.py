"""Compile loops of independent pairs on vector registers, in every instruction mix that computes the same values.

`benchmarks.limits` measures them. They are a module of their own, because they use the compiler's own parts.

All operands are 1, and accumulators begin at the semiring's zero. So every product and sum is a normal number: 1, or 2
where ⊗ is +, or a count of steps where ⊕ is. A processor takes up to a hundred times as long for subnormal numbers.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import llvmlite.ir as ir
import numpy as np

import semiring as sr
from benchmarks.common import at_most
from semiring.kernels.cpu.codegen.native import compile_native
from semiring.kernels.cpu.codegen.target import Target, host
from semiring.kernels.cpu.codegen.vector import I64, ElementType, Vectors, make_opaque
from semiring.kernels.cpu.product.micro_kernel import Pair
from semiring.kernels.definition import KernelDefinition, define
from semiring.kernels.engine import make_plan

__all__ = ["Loop", "fastest_rate", "loops"]

_CHAINS = 12  # the accumulators hide latencies and fit into 16 registers
_SECONDS = 0.02  # the length of a timing, of which the fastest counts

Mix = Callable[[Vectors, Any, Any, Any, Any], Any]  # vectors, pair, accumulator, a, b -> accumulator


def _by_expression(v: Vectors, pair: Pair, c: Any, a: Any, b: Any) -> Any:
    return pair.accumulate(c, a, b)


def _by_bits(v: Vectors, pair: Pair, c: Any, a: Any, b: Any) -> Any:
    """Return minima of sums of non-negative floats, compared as the integers that have the same bits."""
    candidate = v.as_bits(pair.product(a, b).value)
    truth = v.builder.icmp_signed("<", candidate, v.as_bits(c))
    return v.from_bits(v.select(truth, candidate, v.as_bits(c)))


def _build(module: Any, name: str, definition: KernelDefinition, target: Target, mix: Mix) -> None:
    """Build ``void name(steps, data)``: ``steps`` times 12 pairs of vectors, then the accumulators into ``data``."""
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), [I64, I64]), name)
    builder = ir.IRBuilder(function.append_basic_block())
    element = ElementType(definition.dtype)
    v = Vectors(builder, element, target.vector_bytes // element.size)
    pair = Pair(v, definition, target)
    _ = pair.one
    pointer = builder.inttoptr(function.args[1], v.type.as_pointer())
    at = [builder.gep(pointer, [ir.Constant(I64, i)]) for i in range(_CHAINS + 2)]
    values = [builder.load(address) for address in at]
    before, loop, after = builder.block, builder.append_basic_block(), builder.append_basic_block()
    builder.branch(loop)
    builder.position_at_end(loop)
    index = builder.phi(I64)
    phis = [builder.phi(v.type) for _ in values[:_CHAINS]]
    # `make_opaque`, because a ⊗ b must not leave the loop
    results = [
        mix(v, pair, phi, make_opaque(builder, values[_CHAINS + i % 2], target), values[_CHAINS + (i + 1) % 2])
        for i, phi in enumerate(phis)
    ]
    following = builder.add(index, ir.Constant(I64, 1))
    index.add_incoming(ir.Constant(I64, 0), before)
    index.add_incoming(following, loop)
    for phi, value, result in zip(phis, values, results, strict=False):
        phi.add_incoming(value, before)
        phi.add_incoming(result, loop)
    builder.cbranch(builder.icmp_signed("<", following, function.args[0]), loop, after)
    builder.position_at_end(after)
    for address, result in zip(at, results, strict=False):
        builder.store(result, address)
    builder.ret_void()


def _mixes(semiring: sr.Semiring, dtype: np.dtype[Any]) -> Iterable[tuple[Target, Mix]]:
    target = host()
    plain = replace(target, features=target.features.replace("+fma,", "-fma,"))
    yield target, _by_expression
    if dtype.kind == "f":
        yield plain, _by_expression
        if semiring.tropical == "min":  # sums of non-negative numbers, as in closures of shortest paths
            yield target, _by_bits
            yield plain, _by_bits


class Loop:
    """A compiled loop of one instruction mix: ``loop(steps, registers)``."""

    def __init__(self, address: int, zero: np.generic, lanes: int) -> None:
        self.pairs = _CHAINS * lanes  # the pairs of one step
        self._function = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_int64)(address)
        self._zero, self._lanes = zero, lanes

    def registers(self) -> np.ndarray:
        """Return the values (14, lanes) with which a loop begins: the accumulators, and the operands a and b."""
        count = (_CHAINS + 2) * self._lanes
        memory = np.empty(count * self._zero.itemsize + 64, np.uint8)
        start = -memory.ctypes.data % 64  # vectors are aligned
        values = memory[start : start + count * self._zero.itemsize].view(self._zero.dtype)
        values = values.reshape(_CHAINS + 2, self._lanes)
        values[:_CHAINS], values[_CHAINS:] = self._zero, 1
        return values

    def __call__(self, steps: int, registers: np.ndarray) -> None:
        """Do so many steps on the registers. The accumulators are in their first rows afterwards."""
        self._function(steps, registers.ctypes.data)


def loops(semiring: str, dtype: str) -> Iterator[Loop]:
    """Yield the loop of each instruction mix that computes the semiring's pairs in this dtype."""
    algebra, kind = sr.CATALOGUE[semiring], np.dtype(dtype)
    definition = define(make_plan(algebra, kind, nonnegative=True))
    for target, mix in _mixes(algebra, kind):
        address = compile_native(_build, definition, target, mix, purpose="a mix of instructions")
        yield Loop(address, kind.type(algebra.zero_for(kind)), target.vector_bytes // kind.itemsize)


def _rate(loop: Loop, threads: int) -> float:
    """Return the pairs a second on each of ``threads`` threads together."""
    registers = [loop.registers() for _ in range(threads)]
    steps, elapsed, enough = 1000, 0.0, at_most(_SECONDS)
    while elapsed < enough:
        steps *= 2
        begin = time.perf_counter()
        loop(steps, registers[0])
        elapsed = time.perf_counter() - begin
    with ThreadPoolExecutor(threads) as pool:
        best = 0.0
        for _ in range(7):
            begin = time.perf_counter()
            list(pool.map(lambda values: loop(steps, values), registers))
            best = max(best, threads * steps * loop.pairs / (time.perf_counter() - begin))
    return best


def fastest_rate(semiring: str, dtype: str, threads: int) -> float:
    """Return the pairs a second of the fastest mix. It takes about half a second."""
    return max(_rate(loop, threads) for loop in loops(semiring, dtype))
