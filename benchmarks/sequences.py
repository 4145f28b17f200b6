"""Measure steps of sequences beside loops over NumPy, Numba, SciPy and librosa, and products with witnesses.

python -m benchmarks.sequences [steps] [best_paths] [forward] [transitions] [witnesses]
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np

import semiring as sr
from benchmarks.common import Table, format_number, ours, run, theirs
from benchmarks.packages import has

__all__ = ["TABLES", "main"]

_STATES = (2, 5, 12, 20, 50, 100, 200, 500, 1440)
_PAIRS = 3 * 10**7  # of all steps of a measurement
_SHORT = 0.3  # seconds of a measurement
_BAND = 25


@cache
def _numba_loop() -> Callable[..., Any]:
    """Return the loop of ten lines that a user would write with Numba."""
    from numba import njit

    @njit  # type: ignore[untyped-decorator]  # Numba has no types
    def steps(A: Any, x: Any, count: int, before: Any) -> Any:
        y = np.empty_like(x)
        for t in range(count):
            y[:] = -np.inf
            for k in range(x.size):
                for j in range(x.size):
                    value = x[k] + A[k, j]
                    if value > y[j]:
                        y[j] = value
                        before[t, j] = k
            x, y = y, x
        return x

    return steps  # type: ignore[no-any-return]


def _numpy_steps(A: Any, x: Any, count: int) -> Any:
    for _ in range(count):
        x = (x[:, None] + A).max(0)
    return x


def _numpy_paths(A: Any, x: Any, count: int) -> Any:
    before, columns = np.empty((count, x.size), np.int32), np.arange(x.size)
    for t in range(count):
        terms = x[:, None] + A
        before[t] = terms.argmax(0)
        x = terms[before[t], columns]
    return x, before


def _numpy_forward(A: Any, x: Any, count: int) -> Any:
    for _ in range(count):
        x = np.logaddexp.reduce(x[:, None] + A, 0)
    return x


def _scipy_forward(A: Any, x: Any, count: int) -> Any:
    from scipy.special import logsumexp

    for _ in range(count):
        x = logsumexp(x[:, None] + A, 0)
    return x


def _librosa_paths(A: Any, x: Any, count: int) -> Callable[[], Any]:
    """Return a call of librosa for the same numbers of states and steps."""
    from librosa.sequence import viterbi

    chances = np.exp(A) / np.exp(A).sum(1, keepdims=True)
    seen = np.full((x.size, count + 1), 1 / x.size)
    return lambda: viterbi(seen, chances, p_init=np.full(x.size, 1 / x.size))


def _draw(n: int, dtype: Any) -> tuple[Any, Any, int]:
    rng = np.random.default_rng(n)
    return rng.random((n, n)).astype(dtype), rng.random(n).astype(dtype), max(10, min(2000, _PAIRS // n**2))


def _compare(title: str, options: argparse.Namespace, mine: Any, others: dict[str, Any]) -> Table:
    """Return the microseconds of a step by this library and by others, NumPy first, for every number of states."""
    rows = []
    for n in options.states:
        A, x, count = _draw(n, options.dtype)
        seconds = [ours(f"{title}, {n} states", lambda: mine(A, x, count), seconds=_SHORT)]  # noqa: B023
        seconds += [theirs(make(A, x, count), seconds=_SHORT) for make in others.values()]
        micros = [format_number(1e6 * value / count, 2) for value in seconds]
        rows.append([n, *micros, f"{format_number(seconds[1] / seconds[0], 1)}×"])
    columns = ["states", "ours, µs", *(f"{name}, µs" for name in others), "faster than NumPy by"]
    return Table(f"{title}, {options.dtype}, a step on one thread", columns, rows)


def _by_numba(A: Any, x: Any, count: int) -> Callable[[], Any]:
    before = np.empty((count, x.size), np.int32)
    return lambda: _numba_loop()(A, x.copy(), count, before)


def steps(options: argparse.Namespace) -> Table:
    """Compare steps of max_plus without witnesses."""
    others = {"NumPy": lambda *given: lambda: _numpy_steps(*given), "Numba, with witnesses": _by_numba}
    return _compare(
        "max_plus", options, lambda A, x, count: sr.multi_dot(A, x, "max_plus", steps=count, threads=1), others
    )


def best_paths(options: argparse.Namespace) -> Table:
    """Compare Viterbi's algorithm: steps with witnesses, and the search for the best paths to all states."""
    others = {
        "NumPy, witnesses alone": lambda *given: lambda: _numpy_paths(*given),
        "Numba, witnesses alone": _by_numba,
        **({"librosa, one path": _librosa_paths} if has("librosa") else {}),
    }

    def mine(A: Any, x: Any, count: int) -> Any:
        return sr.multi_dot(A, x, "max_plus", steps=count, return_witness=True, threads=1)

    return _compare("max_plus with paths", options, mine, others)


def forward(options: argparse.Namespace) -> Table:
    """Compare the forward algorithm, steps of log_plus."""
    others = {
        "NumPy logaddexp": lambda *given: lambda: _numpy_forward(*given),
        "SciPy logsumexp": lambda *given: lambda: _scipy_forward(*given),
    }
    return _compare(
        "log_plus", options, lambda A, x, count: sr.multi_dot(A, x, "log_plus", steps=count, threads=1), others
    )


def transitions(options: argparse.Namespace) -> Table:
    """Compare sparse transitions with dense ones."""
    import scipy.sparse as sp

    n, count = options.banded
    rng = np.random.default_rng(0)
    distance = np.abs(np.subtract.outer(np.arange(n), np.arange(n)))
    rows = []
    for pattern, stored in (
        (f"band of {_BAND}", distance <= _BAND // 2),
        (f"{_BAND} a row", rng.random((n, n)) < _BAND / n),
    ):
        values = rng.random((n, n)).astype(options.dtype)
        dense, x = np.where(stored, values, -np.inf).astype(options.dtype), rng.random(n).astype(options.dtype)
        sparse = sp.csr_array((values[stored], stored.nonzero()), shape=(n, n))
        for name, has_witness in (("max_plus", False), ("max_plus", True), ("log_plus", False)):

            def repeat(A: Any, steps: int, name: str = name, has_witness: bool = has_witness, x: Any = x) -> Any:
                return sr.multi_dot(A, x, name, steps=steps, return_witness=has_witness, threads=1)

            what = f"{name} with paths" if has_witness else name
            few = max(1, count // 100)
            fast = ours(f"{pattern}, {what}", lambda: repeat(sparse, count), repeats=3) / count  # noqa: B023
            slow = ours(f"dense, {pattern}, {what}", lambda: repeat(dense, few), repeats=3) / few  # noqa: B023
            micros = [format_number(1e6 * value, 2) for value in (fast, slow)]
            rows.append([pattern, what, *micros, f"{format_number(slow / fast, 1)}×"])
    title = f"Sparse transitions of {n} states, {count} steps, {options.dtype}, a step on one thread"
    return Table(title, ["transitions", "semiring", "sparse, µs", "dense, µs", "faster by"], rows)


def witnesses(options: argparse.Namespace) -> Table:
    """Compare products with witnesses with the products alone."""
    import scipy.sparse as sp

    n, rng = options.product, np.random.default_rng(0)
    A, S = rng.random((n, n), np.float32), sp.random(5 * n, 5 * n, 20 / (5 * n), format="csr", random_state=0)
    operands = {
        "one row": (A[:1], A),
        "four rows": (A[:4], A),
        "one column": (A, A[0]),
        "sparse by 32 columns": (S, rng.random((5 * n, 32))),
        "a row by sparse": (rng.random(5 * n), S),
    }
    rows = []
    for what, (left, right) in operands.items():
        alone = ours(what, lambda: sr.matmul(left, right, "min_plus", threads=1))  # noqa: B023
        both = ours(
            f"{what} with witness",
            lambda: sr.matmul(left, right, "min_plus", return_witness=True, threads=1),  # noqa: B023
        )
        millis = [format_number(1e3 * value, 2) for value in (alone, both)]
        rows.append([what, *millis, f"{format_number(both / alone, 2)}×"])
    title = f"min_plus, float32 of n = {n}, sparse float64 of n = {5 * n} with 20 entries a row, one thread"
    return Table(title, ["product", "alone, ms", "with witness, ms", "ratio"], rows)


TABLES: dict[str, Callable[[argparse.Namespace], Table]] = {
    "steps": steps,
    "best_paths": best_paths,
    "forward": forward,
    "transitions": transitions,
    "witnesses": witnesses,
}


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of the tables."""
    parser.add_argument("--states", type=int, nargs="+", default=_STATES)
    parser.add_argument("--dtype", default="float32", help="the dtype of the states")
    parser.add_argument("--banded", type=int, nargs=2, default=(1440, 10_000), help="states, steps of `transitions`")
    parser.add_argument("--product", type=int, default=4096, help="rows of the matrix for `witnesses`")


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print the tables."""
    return run("benchmarks.sequences", str(__doc__), TABLES, arguments, configure)


if __name__ == "__main__":
    sys.exit(main())
