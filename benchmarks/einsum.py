"""Measure contractions by `einsum`, beside the same products written by hand and beside sesum.

    python -m benchmarks.einsum [hand] [peers] [networks] [--size 1000] [--sizes 512 1024 2048] [--threads 1]

*hand*: chains and a tree, and the same `matmul` calls in the same order. The two calls take turns, and the ratio is
that of the least times. With one thread they are seconds of the processor. *peers*: contractions in max-plus by sesum
(PyPI), whose other semiring is the standard one, and by a broadcast of NumPy that is summed at once. sesum takes the
processors that it finds: bind the process to one (``taskset -c 0``) to compare one thread. *networks*: independent
sets of random 3-regular graphs, the greatest and the number of all.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import semiring as sr
from benchmarks.common import Table, at_most, comparing, ours, run, theirs
from benchmarks.packages import has

__all__ = ["main"]

_BROADCAST = 1 << 28  # bytes: a larger broadcast over all indices is left out


def _weights(rng: np.random.Generator, *shape: int) -> np.ndarray:
    """Return whole numbers, whose sums no order of the terms rounds."""
    return rng.integers(0, 1000, shape).astype(np.float32)


def _chains(n: int) -> list[tuple[str, str, list[tuple[int, ...]], Callable[..., Any]]]:
    """Return names, subscripts, shapes, and the same by hand, from a product."""
    s = n // 10
    return [
        ("chain of matrices", "ij,jk,kl->il", [(n, n), (n, n), (n, n)], lambda mm, A, B, C: mm(mm(A, B), C)),
        (
            "chain of stacks",
            "bij,bjk,bkl->bil",
            [(10, 2 * s, 3 * s), (10, 3 * s, 2 * s), (10, 2 * s, 4 * s)],
            lambda mm, A, B, C: mm(mm(A, B), C),
        ),
        (
            "chain between vectors",
            "i,ij,jk,k->",
            [(2 * n,), (2 * n, 2 * n), (2 * n, 2 * n), (2 * n,)],
            lambda mm, x, A, B, y: mm(mm(x, A), mm(B, y)),
        ),
        (
            "tree",
            "rab,ac,cd,be,ef->rdf",
            [(10, s, 2 * s), (s, n), (n, n), (2 * s, n), (n, n)],
            _tree,
        ),
    ]


def _tree(mm: Callable[..., Any], R: Any, A: Any, C: Any, B: Any, D: Any) -> Any:
    left, right = mm(A, C), mm(B, D)  # (a, d), (b, f)
    return mm(left.T, mm(R, right))


_TREE_PATH = [(1, 2), (1, 2), (0, 2), (0, 1)]  # the result of `_tree`


def _hand(options: argparse.Namespace) -> Table:
    rng, rows = np.random.default_rng(0), []
    threads = options.threads
    mm = lambda A, B: sr.matmul(A, B, options.semiring, threads=threads)  # noqa: E731
    for name, subscripts, shapes, hand in _chains(options.size):
        arrays = [_weights(rng, *shape) for shape in shapes]
        given = {"optimize": _TREE_PATH} if name == "tree" else {}
        plan = sr.einsum_path(subscripts, *arrays, semiring=options.semiring, **given)

        def einsum(subscripts: str = subscripts, arrays: Any = arrays, path: Any = plan.path) -> Any:
            return sr.einsum(subscripts, *arrays, semiring=options.semiring, optimize=path, threads=threads)

        def by_hand(hand: Any = hand, arrays: Any = arrays) -> Any:
            return hand(mm, *arrays)

        if not np.array_equal(einsum(), by_hand()):
            raise AssertionError(f"{name}: einsum and the products by hand differ")
        seconds, other = _time_both(f"einsum, {name}, n = {options.size}", einsum, by_hand, threads)
        rows.append([name, subscripts, plan.pairs / 1e9, seconds * 1e3, other * 1e3, seconds / other])
    columns = ["what", "subscripts", "G pairs", "einsum, ms", "by hand, ms", "ratio"]
    return Table(f"einsum and the same products by hand, {options.semiring}, float32, {threads} threads", columns, rows)


def _time_both(label: str, einsum: Callable[[], Any], other: Callable[[], Any], threads: int) -> tuple[float, float]:
    """Return the least seconds of both calls, which take turns for three seconds, or for three turns.

    Of one thread these are seconds of the processor, which other programs disturb less than those of the clock.
    """
    if comparing():
        return ours(label, einsum), theirs(other)
    clock = time.process_time if threads == 1 else time.perf_counter
    times: tuple[list[float], list[float]] = [], []
    end = time.perf_counter() + at_most(3.0)
    while len(times[0]) < 3 or time.perf_counter() < end:
        for call, found in zip((einsum, other), times, strict=True):
            begin = clock()
            call()
            found.append(clock() - begin)
    return min(times[0]), min(times[1])


def _peers(options: argparse.Namespace) -> Table:
    rng, rows = np.random.default_rng(1), []
    for n in options.sizes:
        s = max(2, n // 16)
        for subscripts, shapes in [
            ("ij,jk->ik", [(n, n), (n, n)]),
            ("ij,kj,kl->il", [(n, n), (n, n), (n, n)]),
            ("ij,jk,k->i", [(n, n), (n, n), (n,)]),
            ("bij,bjk->bik", [(8, n // 2, n // 2), (8, n // 2, n // 2)]),
            ("abc,cda->bd", [(16, n, s), (s, n, 16)]),
        ]:
            arrays = [_weights(rng, *shape) for shape in shapes]

            def einsum(subscripts: str = subscripts, arrays: Any = arrays) -> Any:
                return sr.einsum(subscripts, *arrays, semiring="max_plus", threads=options.threads)

            for name, call in _libraries(subscripts, arrays):
                if not np.array_equal(call(), einsum()):
                    raise AssertionError(f"{subscripts}: {name} has another result")
                seconds, other = _time_both(f"einsum, {subscripts}, n = {n}", einsum, call, options.threads)
                rows.append([subscripts, n, seconds * 1e3, name, other * 1e3, other / seconds])
    columns = ["subscripts", "n", "einsum, ms", "other", "other, ms", "times as fast"]
    return Table(f"Contractions in max_plus, float32, {options.threads} threads", columns, rows)


def _libraries(subscripts: str, arrays: list[np.ndarray]) -> list[tuple[str, Callable[[], Any]]]:
    result: list[tuple[str, Callable[[], Any]]] = []
    if has("sesum"):
        import sesum

        path, *_ = sesum.compute_path(subscripts, *arrays, progbar=False)
        result.append(
            ("sesum", lambda: sesum.sesum(subscripts, *arrays, path=path, semiring=sesum.max_plus, dtype=np.float32))
        )
    terms, output = subscripts.partition("->")[::2]
    sizes = {
        label: size
        for term, array in zip(terms.split(","), arrays, strict=True)
        for label, size in zip(term, array.shape, strict=True)
    }
    labels = output + "".join(label for label in sizes if label not in output)
    if 4 * np.prod([sizes[label] for label in labels], dtype=float) <= _BROADCAST:

        def broadcast() -> Any:
            whole = np.zeros((), np.float32)
            for term, array in zip(terms.split(","), arrays, strict=True):
                order = [term.index(label) for label in labels if label in term]
                index = tuple(slice(None) if label in term else None for label in labels)
                whole = whole + array.transpose(order)[index]
            return whole.max(tuple(range(len(output), len(labels))))

        result.append(("broadcast of NumPy", broadcast))
    return result


def _networks(options: argparse.Namespace) -> Table:
    """Measure contractions for independent sets of random 3-regular graphs: a label a vertex, a matrix an edge."""
    rows = []
    for vertices in options.vertices:
        edges = _regular(vertices, np.random.default_rng(vertices))
        labels = [*(list(edge) for edge in edges), *([vertex] for vertex in range(vertices))]
        for semiring, apart, member in (("max_plus", -np.inf, 1.0), ("plus_times", 0.0, 1.0)):
            one = 0.0 if semiring == "max_plus" else 1.0
            edge, vertex = np.array([[one, one], [one, apart]]), np.array([one, member])
            arrays = [edge] * len(edges) + [vertex] * vertices
            operands = [part for pair in zip(arrays, labels, strict=True) for part in pair]
            call: Callable[[], Any] = lambda operands=operands, semiring=semiring: sr.einsum(  # noqa: E731
                *operands, [], semiring=semiring, optimize="greedy", threads=options.threads
            )
            plan = sr.einsum_path(*operands, [], semiring=semiring, optimize="greedy")
            seconds = ours(f"einsum, independent sets, {semiring}, {vertices} vertices", call)
            rows.append([vertices, semiring, float(call()), seconds * 1e3, plan.pairs, plan.memory])
    columns = ["vertices", "semiring", "value", "ms", "pairs", "bytes"]
    return Table("Independent sets of random 3-regular graphs", columns, rows)


def _regular(vertices: int, rng: np.random.Generator) -> list[tuple[int, int]]:
    """Return the edges of a random graph in which each vertex has three neighbours."""
    while True:
        ends = rng.permutation(np.repeat(np.arange(vertices), 3)).reshape(-1, 2)
        edges = {(int(min(pair)), int(max(pair))) for pair in ends}
        if len(edges) == len(ends) and all(i != j for i, j in edges):
            return sorted(edges)


def _options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--size", type=int, default=1000, help="of the chains and trees")
    parser.add_argument("--sizes", type=int, nargs="+", default=[512, 1024, 2048], help="beside other packages")
    parser.add_argument("--vertices", type=int, nargs="+", default=[30, 60, 90], help="of the networks")
    parser.add_argument("--semiring", default="max_plus", help="of the chains and trees")
    parser.add_argument("--threads", type=int, default=1)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print the tables that are named, or all."""
    return run(
        "benchmarks.einsum",
        str(__doc__),
        {"hand": _hand, "peers": _peers, "networks": _networks},
        arguments,
        _options,
    )


if __name__ == "__main__":
    sys.exit(main())
