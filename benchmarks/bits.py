"""Compare products and closures of packed boolean matrices with or-and in registers alone.

    python -m benchmarks.bits [products] [closures] [components] [--sizes 512 1024 ...] [--vertices 16384 20000]

The limit (`benchmarks.limits.word_limit`) is measured in the same run: or-and on vector registers, no memory. The
kernels exceed this limit, because one table look-up handles five values of k (the Method of Four Russians). The kernels
are bound by one vector load a cycle.

`components`: acyclic graphs whose order is hidden, and a sparse one, against the closure by all pairs. What reaches
what by other libraries: `benchmarks.peers`.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

import semiring as sr
from benchmarks.common import Table, format_number, ours, run, theirs
from benchmarks.limits import word_limit
from semiring.arrays.bits import BitMatrix
from semiring.kernels.cpu import CpuBackend
from semiring.kernels.engine import Engine, make_plan

__all__ = ["main"]


def _engine(semiring: sr.Semiring, threads: int) -> Engine:
    return Engine(CpuBackend(), make_plan(semiring, bool, storage="bits", threads=threads))


def _random(n: int, seed: int, density_bits: int = 1) -> BitMatrix:
    """Return entries that are True with probability 2^-density_bits."""
    rng = np.random.default_rng(seed)
    words = ~np.zeros((n, -(-n // 32)), np.uint32)
    for _ in range(density_bits):
        words &= rng.integers(0, 2**32, words.shape, dtype=np.uint32)
    matrix = BitMatrix.zeros((n, n))
    matrix.words[...] = words
    if n % 32:
        matrix.words[:, -1] &= matrix.tail
    return matrix


def products(options: argparse.Namespace) -> Table:
    """Measure C ← C ⊕ A ⊗ B of packed truth values."""
    rows = []
    for semiring in (sr.boolean, sr.xor_and):
        for n in options.sizes:
            cells: list[Any] = []
            for threads in (1, 2):
                engine = _engine(semiring, threads)
                A, B, C = (_random(n, seed).words for seed in range(3))
                label = f"{semiring.name}, n = {n}, threads: {threads}"
                rate = n**3 / ours(label, lambda: engine.multiply_add(C, A, B), repeats=9)  # noqa: B023
                cells += [rate / 1e12, format_number(rate / word_limit(threads), 2)]
            rows.append([semiring.name, n, *cells])
    columns = ["semiring", "n", "1 thread", "of the limit, 1 thread", "2 threads", "of the limit, 2 threads"]
    return Table("Products of packed bits, T bit pairs/s", columns, rows)


def closures(options: argparse.Namespace) -> Table:
    """Measure A ← A* by close_block."""
    rows = []
    for n in options.blocks:
        engine, A = _engine(sr.boolean, 1), _random(n, 0, density_bits=8).words
        work = A.copy()
        seconds = ours(
            f"close_block, n = {n}",
            lambda: engine.close_block(work),  # noqa: B023
            setup=lambda: np.copyto(work, A),  # noqa: B023
            repeats=9,
        )
        rate = n**3 / seconds
        rows.append([n, format_number(seconds * 1e6, 0), rate / 1e12, format_number(rate / word_limit(1), 2)])
    return Table("A ← A* (boolean) by close_block, 1 thread", ["n", "µs", "T bit pairs/s", "of the limit"], rows)


def _acyclic(n: int, degree: int, rng: np.random.Generator) -> Any:
    """Return edges (2, ≤ each · n) of a graph without cycles, in an order that is hidden."""
    edges = np.sort(rng.integers(0, n, (2, degree * n)), axis=0)
    return rng.permutation(n)[edges[:, edges[0] < edges[1]]]


def components(options: argparse.Namespace) -> Table:
    """Measure A* with components, which avoid work, and without, on two threads."""
    n, rng = options.vertices[0], np.random.default_rng(0)
    graphs = {
        f"{size} vertices, 10 edges each": BitMatrix.from_edges(*_acyclic(size, 10, rng), shape=(size, size))
        for size in options.vertices
    }
    for name, part in (("1 %", 0.01), ("half", 0.5)):
        order, entries = rng.permutation(n), np.triu(rng.random((n, n), np.float32) < part, 1)
        graphs[f"{n} vertices, {name} of all edges"] = sr.pack(entries[np.ix_(order, order)])
    rows = []
    for name, A in graphs.items():
        work = A.copy()
        timing_options: dict[str, Any] = {"setup": lambda A=A, work=work: np.copyto(work.words, A.words), "repeats": 5}
        call = lambda structure, work=work: sr.closure(  # noqa: E731
            work, "boolean", out=work, threads=2, structure=structure
        )
        spared, found = ours(name, lambda call=call: call(True), **timing_options), work.copy()
        dense = theirs(lambda call=call: call(False), **timing_options)
        assert work == found
        rows.append([name, spared * 1e3, dense * 1e3, f"{format_number(dense / spared, 1)}×"])
    columns = ["acyclic, order hidden", "by components, ms", "all pairs, ms", "ratio"]
    return Table("Closures of packed bits by components, 2 threads", columns, rows)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print the tables."""

    def configure(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--sizes", type=int, nargs="+", default=[512, 1024, 2048, 4096, 8192])
        parser.add_argument("--blocks", type=int, nargs="+", default=[128, 256, 512, 1024, 2048, 4096])
        parser.add_argument("--vertices", type=int, nargs="+", default=[16384, 20000], help="the first: dense ones too")

    tables = {"products": products, "closures": closures, "components": components}
    return run("benchmarks.bits", str(__doc__), tables, arguments, configure)


if __name__ == "__main__":
    sys.exit(main())
