"""Packed bits: products and closures of boolean matrices, beside what or-and in registers alone could do.

    python -m benchmarks.bits [n ...]

The limit (`benchmarks.limits.word_limit`) is measured in the same run: or-and on vector registers, no memory. The
kernels go beyond it, because one look-up in a table does five k at once (the Method of Four Russians). Their own bound
is one load of a vector a cycle.
"""

from __future__ import annotations

import sys
import time
from typing import Any

import numpy as np

import semiring as sr
from benchmarks.common import environment, median_seconds, print_table
from benchmarks.limits import word_limit
from semiring.arrays.bits import BitMatrix
from semiring.kernels.cpu import CpuBackend
from semiring.kernels.engine import Engine, make_plan

__all__ = ["main"]


def _engine(semiring: sr.Semiring, threads: int) -> Engine:
    return Engine(CpuBackend(), make_plan(semiring, bool, storage="bits", threads=threads))


def _random(n: int, seed: int, density_bits: int = 1) -> BitMatrix:
    """Entries that are True with probability 2^-density_bits."""
    rng = np.random.default_rng(seed)
    words = ~np.zeros((n, -(-n // 32)), np.uint32)
    for _ in range(density_bits):
        words &= rng.integers(0, 2**32, words.shape, dtype=np.uint32)
    matrix = BitMatrix.zeros((n, n))
    matrix.words[...] = words
    if n % 32:
        matrix.words[:, -1] &= matrix.tail
    return matrix


def _product_seconds(semiring: sr.Semiring, n: int, threads: int) -> float:
    engine = _engine(semiring, threads)
    A, B, C = (_random(n, seed).words for seed in range(3))
    end = time.perf_counter() + 0.3  # by time: a scheduler may leave new threads on one core for a while
    while time.perf_counter() < end:
        engine.multiply_add(C, A, B)
    return median_seconds(lambda: engine.multiply_add(C, A, B), repeats=9)


def _closure_seconds(n: int) -> float:
    engine, A = _engine(sr.boolean, 1), _random(n, 0, density_bits=8).words
    work = A.copy()
    return median_seconds(lambda: engine.close_block(work), setup=lambda: np.copyto(work, A), repeats=9)


def main(sizes: list[int]) -> None:
    """Print both tables."""
    print(environment())
    limits = {threads: word_limit(threads) for threads in (1, 2)}
    for threads, limit in limits.items():
        print(f"or-and in registers, {threads} thread{'s' * (threads > 1)}: {limit / 1e12:.2f} T bit pairs/s")
    rows = []
    for semiring in (sr.boolean, sr.xor_and):
        for n in sizes:
            rates = {threads: n**3 / _product_seconds(semiring, n, threads) for threads in limits}
            cells: list[Any] = [cell for t, rate in rates.items() for cell in (rate / 1e12, f"{rate / limits[t]:.2f}")]
            rows.append([semiring.name, n, *cells])
    header = ["semiring", "n", "1 thread", "of registers", "2 threads", "of registers"]
    print_table("C ← C ⊕ A ⊗ B on packed bits, T bit pairs/s", header, rows)
    rows = []
    for n in (128, 256, 512, 1024, 2048, 4096):
        seconds = _closure_seconds(n)
        rate = n**3 / seconds
        rows.append([n, f"{seconds * 1e6:.0f}", rate / 1e12, f"{rate / limits[1]:.2f}"])
    print_table("A ← A* (boolean) by close_block, 1 thread", ["n", "µs", "T bit pairs/s", "of registers"], rows)


if __name__ == "__main__":
    main([int(argument) for argument in sys.argv[1:]] or [512, 1024, 2048, 4096, 8192])
