"""Measure products of log_plus beside other ways to compute them, and their errors.

    python -m benchmarks.log_plus [products] [closures] [peers] [small] [sequences] [--size 2048] [--threads 1]

The kernel of the definition treats one pair after the other, as any semiring's does. Products of numbers take its place
from 8 rows of B on. Errors of some entries are in units u of the last place of max(1, |c|): 2⁻²³ in float32, 2⁻⁵² in
float64. The reference is a sum in 80 bits after subtracting the maximum.

torch-struct takes genbmm where that is installed: it is built from its sources, with CUDA, and computes on GPUs. So
does mm-kermac 1.0 (PyPI), whose accumulators start at 0. Neither has products on a CPU.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from typing import Any

import numpy as np

import semiring as sr
from benchmarks.common import Table, ours, run, theirs
from benchmarks.packages import has
from semiring.kernels.cpu.kernels import kernels_for
from semiring.kernels.engine import make_plan

__all__ = ["error_of", "kinds_of_data", "main"]

_SAMPLE = 500  # entries whose errors are computed
# kinds that are also measured in float64
_WIDE = ("normal", "uniform, ±1000", "2 % finite, else -∞", "maxima that never meet")


def kinds_of_data(n: int) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """Return operands (n, n) of twelve kinds, float32, by name."""
    rng = np.random.default_rng(1)

    def normal() -> np.ndarray:
        return rng.standard_normal((n, n), np.float32)

    def uniform(bound: float) -> np.ndarray:
        return rng.uniform(-bound, bound, (n, n)).astype(np.float32)

    def sparse() -> np.ndarray:
        return np.where(rng.random((n, n)) < 0.02, normal(), np.float32(-np.inf))

    yield "normal", normal(), normal()
    yield "uniform, ±1000", uniform(1000), uniform(1000)
    yield "2 % finite, else -∞", sparse(), sparse()
    A, B = normal(), normal()
    A[:, 1::2] -= 4000
    B[::2] -= 4000
    yield "maxima that never meet", A, B
    A, B = normal(), normal()
    A[: n // 16, 1::2] -= 4000
    B[::2, : n // 16] -= 4000
    yield "the same in a corner", A, B
    yield "uniform, ±10⁴", uniform(1e4), uniform(1e4)
    yield "uniform, ±4 · 10⁵", uniform(4e5), uniform(4e5)
    A, B = 3 * normal(), 3 * normal()
    yield (
        "log-softmax of rows and columns",
        *(X - np.logaddexp.reduce(X, axis, keepdims=True) for axis, X in ((1, A), (0, B))),
    )
    yield "equal terms", np.full((n, n), 0.3, np.float32), np.full((n, n), -0.7, np.float32)
    A, B = normal(), normal()
    A[3, 5], A[7, 8], B[11, 13] = 1e6, 4e5, 1e25
    yield "one huge entry", A, B
    A = np.full((n, n), np.float32(-np.inf))
    A[np.arange(n), rng.integers(0, n, n)] = rng.standard_normal(n, np.float32)
    yield "a single path, else -∞", A, normal()
    A, B = normal(), normal()
    A[:, 1:] -= 705
    B[0] -= 705
    A[:, 0], B[1:, 0] = 0, 0
    yield "subnormal sums", A, B


def error_of(A: np.ndarray, B: np.ndarray, C: np.ndarray) -> float:
    """Return the greatest error of some entries of C, in u."""
    rng = np.random.default_rng(2)
    i, j = rng.integers(0, A.shape[0], _SAMPLE), rng.integers(0, B.shape[1], _SAMPLE)
    i[::2] %= max(1, A.shape[0] // 16)
    j[::2] %= max(1, B.shape[1] // 16)  # half of the entries lie in the corner that one kind of data has
    terms = A[i].astype(np.longdouble) + B.T[j]
    top = terms.max(1, keepdims=True)
    with np.errstate(invalid="ignore"):
        expected = np.where(top > -np.inf, top + np.log(np.exp(terms - top).sum(1, keepdims=True)), top)[:, 0]
        difference = np.where(C[i, j] == expected, 0, np.abs(C[i, j] - expected))
    scale = np.where(np.isfinite(expected), np.maximum(1, np.abs(expected)), 1) * np.finfo(C.dtype).eps
    return float(np.nan_to_num(difference / scale, nan=np.inf).max())


def _products(options: argparse.Namespace) -> Table:
    n, rows = options.size, []
    kinds = [(name, "float32", A, B) for name, A, B in kinds_of_data(n)]
    kinds += [(name, "float64", A.astype(float), B.astype(float)) for name, _, A, B in kinds if name in _WIDE]
    for name, dtype, A, B in kinds:
        C = sr.matmul(A, B, "log_plus", threads=options.threads)
        call: Callable[[], object] = lambda A=A, B=B: sr.matmul(A, B, "log_plus", threads=options.threads)  # noqa: E731
        seconds = ours(f"log_plus, {name}, {dtype}, n = {n}", call)
        rows.append([name, dtype, n**3 / seconds / 1e9, error_of(A, B, C)])
    return Table(f"log_plus, n = {n}, {options.threads} threads", ["data", "dtype", "G pairs/s", "error, u"], rows)


def _closures(options: argparse.Namespace) -> Table:
    """Measure sums over all paths, of weights under which they exist."""
    n = options.size // 2
    A = np.random.default_rng(5).standard_normal((n, n), np.float32) - np.float32(2 * np.log(n))
    seconds = ours(f"log_plus, closure, n = {n}", lambda: sr.closure(A, "log_plus", threads=options.threads))
    columns = ["n", "ms", "G pairs/s"]
    return Table(
        f"Closures of log_plus, float32, {options.threads} threads", columns, [[n, seconds * 1e3, n**3 / seconds / 1e9]]
    )


def _by_hand(A: np.ndarray, B: np.ndarray) -> np.ndarray:
    """Compute it as users write it: shift, exponentials, BLAS, logarithm. Wrong where exponentials underflow."""
    u, w = A.max(1, keepdims=True), B.max(0, keepdims=True)
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(np.exp(A - u) @ np.exp(B - w)) + u + w)


def _peers(options: argparse.Namespace) -> Table:
    n = options.small
    kinds = {name: (A, B) for name, A, B in kinds_of_data(n)}
    rows, none = [], np.empty((0, 0), np.int32)
    plan = make_plan(sr.log_plus, np.float32, threads=options.threads)

    def definition(A: np.ndarray, B: np.ndarray) -> np.ndarray:
        C = np.empty((A.shape[0], B.shape[1]), np.float32)
        kernels_for(plan).product(C, A, B, none, 0, 0, 0, options.threads)
        return C

    calls = {
        "semiring": lambda A, B: sr.matmul(A, B, "log_plus", threads=options.threads),
        "semiring, the kernel of the definition": definition,
        "shift, exp, BLAS, log (NumPy)": _by_hand,
    }
    if has("torch"):
        import torch

        torch.set_num_threads(options.threads)
        calls["torch.logsumexp of a broadcast"] = lambda A, B: torch.logsumexp(
            torch.from_numpy(A)[:, :, None] + torch.from_numpy(B)[None], dim=1
        ).numpy()
    if has("torch") and has("torch_struct"):
        their: Any = import_module("torch_struct").LogSemiring
        calls["torch-struct's LogSemiring.matmul"] = lambda A, B: np.asarray(
            their.matmul(torch.from_numpy(A)[None], torch.from_numpy(B)[None])[0]
        )
    for name, call in calls.items():
        A, B = kinds["normal"]
        clock = ours if name == "semiring" else None
        run_once = lambda call=call, A=A, B=B: call(A, B)  # noqa: E731
        seconds = clock("log_plus beside peers", run_once) if clock else theirs(run_once)
        errors = [error_of(*kinds[kind], call(*kinds[kind])) for kind in ("normal", "the same in a corner")]
        rows.append([name, n**3 / seconds / 1e9, *errors])
    columns = ["who", "G pairs/s", "error on normal data, u", "error where maxima never meet in a corner, u"]
    return Table(f"log_plus, float32, n = {n}, {options.threads} threads", columns, rows)


def _small(options: argparse.Namespace) -> Table:
    """Measure products with little reuse of operands: of a matrix and a vector, and of many small matrices."""
    rng, n, small, count = np.random.default_rng(4), options.size, options.small, options.stacked
    rows = []

    def normal(*shape: int) -> np.ndarray:
        return rng.standard_normal(shape, np.float32)

    A, x, few = normal(n, n), normal(n), normal(small, small)
    stacks = normal(count, 64, 64), normal(count, 64, 64)
    # indices that make each operand a matrix, to compute its error
    whole, column, row = np.s_[:], np.s_[:, None], np.s_[None]
    for name, left, right, pairs, places in (
        (f"A ⊗ x, {n} × {n}", A, x, n**2, (whole, column, column)),
        (f"x ⊗ A, {n} × {n}", x, A, n**2, (row, whole, row)),
        (f"A ⊗ x, {small} × {small}", few, x[:small], small**2, (whole, column, column)),
        (f"{count} products of 64 × 64", *stacks, count * 64**3, (0, 0, 0)),
    ):

        def product(left: np.ndarray = left, right: np.ndarray = right) -> Any:
            return sr.matmul(left, right, "log_plus", threads=options.threads)

        error = error_of(*(array[place] for array, place in zip((left, right, product()), places, strict=True)))
        seconds = ours(f"log_plus, {name}", product)
        rows.append([name, seconds * 1e3, pairs / seconds / 1e9, error])
    columns = ["what", "ms", "G pairs/s", "error, u"]
    return Table(f"log_plus, float32, vectors and stacks, {options.threads} threads", columns, rows)


def _sequences(options: argparse.Namespace) -> Table:
    """Measure the forward algorithm of hidden Markov models, and its gradient by transitions and emissions."""
    batch, steps, states = 64, options.steps, options.states
    rng = np.random.default_rng(3)
    change = rng.standard_normal((states, states), np.float32)
    start, emit = (
        rng.standard_normal((batch, states), np.float32),
        rng.standard_normal((steps, batch, states), np.float32),
    )

    def by_hand() -> np.ndarray:
        x, probabilities = start, np.exp(change)
        for emission in emit:
            top = x.max(1, keepdims=True)
            x = np.log(np.exp(x - top) @ probabilities) + top + emission
        return x

    def forward() -> object:
        return sr.multi_dot(change, start, "log_plus", weights=emit, threads=options.threads)

    what = f"{batch} sequences × {steps} steps × {states} states"
    rows: list[list[object]] = [
        ["semiring.multi_dot", "forward", ours(f"log_plus, forward, {what}", forward)],
        ["shift, exp, BLAS, log (NumPy)", "forward", theirs(by_hand)],
    ]
    if has("torch"):
        import torch

        import semiring.torch as differentiable

        torch.set_num_threads(options.threads)
        leaves = [torch.from_numpy(array).requires_grad_() for array in (change, emit)]
        x = torch.from_numpy(start)

        def gradient() -> object:
            end = differentiable.multi_dot(leaves[0], x, "log_plus", weights=leaves[1])
            return torch.autograd.grad(differentiable.reduce(end, "log_plus", 1).sum(), leaves)

        def autograd() -> object:
            state, probabilities = x, leaves[0].exp()
            for emission in leaves[1]:
                top = state.detach().amax(1, keepdim=True)
                state = ((state - top).exp() @ probabilities).log() + top + emission
            return torch.autograd.grad(state.logsumexp(1).sum(), leaves)

        rows.append(["semiring.torch.multi_dot", "with gradients", ours(f"log_plus, gradients, {what}", gradient)])
        rows.append(["shift, exp, BLAS, log (PyTorch's autograd)", "with gradients", theirs(autograd)])
    return Table(f"Hidden Markov models, float32, {what}, {options.threads} threads", ["who", "what", "s"], rows)


def _options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--size", type=int, default=2048)
    parser.add_argument("--small", type=int, default=512, help="rows of what takes a nanosecond a pair")
    parser.add_argument("--stacked", type=int, default=10_000, help="small products in one call")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--steps", type=int, default=200, help="of the sequences")
    parser.add_argument("--states", type=int, default=512, help="of the sequences")


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print the tables that are named, or all."""
    return run(
        "benchmarks.log_plus",
        str(__doc__),
        {"products": _products, "closures": _closures, "peers": _peers, "small": _small, "sequences": _sequences},
        arguments,
        _options,
    )


if __name__ == "__main__":
    sys.exit(main())
