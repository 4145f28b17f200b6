"""Measure sparse products on a GPU beside cuSPARSE (by CuPy and PyTorch) and PyTorch's scatter_reduce.

python -m benchmarks.gpu.sparse_products [products] [dense] [triangles] [layers]

cuSPARSE computes plus_times, without a mask; its results are not sorted. Times are those of whole calls by the clock,
with the validation of all indices and entries; the column "unchecked" is a call with check=False, and "kernel" the
kernel alone. No matrix has an entry twice.

The layers are those of a graph network of the size of FB15k-237, with a value for each edge: 16 matrices of 64 features
each, or one matrix of 1,024 features. PyTorch gathers all messages and reduces them by scatter_reduce.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

import semiring as sr
from benchmarks.autodiff import FB15K, plain_layer
from benchmarks.common import Table, by_device, by_synchronized_clock, format_number, ours, run, theirs
from benchmarks.sparse_products import random_sparse
from semiring.kernels import device_backend
from semiring.kernels.contract import CompressedRows
from semiring.kernels.engine import make_plan

__all__ = ["main"]


def device_matrix(n: int, degree: int, dtype: str) -> Any:
    """Return a random matrix of n rows with about ``degree`` entries each, as a csr matrix of CuPy."""
    import cupyx.scipy.sparse as sparse

    return sparse.csr_matrix(random_sparse(n, degree).astype(dtype))


def _milliseconds(seconds: float) -> str:
    return format_number(1e3 * seconds, 3)


def products(options: argparse.Namespace) -> Table:
    """Measure the product of a sparse matrix with itself."""
    rows = []
    for n, degree in zip(options.vertices, (8, 32), strict=True):
        for dtype in ("float32", "float64"):
            A = device_matrix(n, degree, dtype)
            label = f"n = {n:,}, {degree} a row, {dtype}"
            checked, unchecked = (
                ours(
                    f"{label}, check={check}",
                    lambda check=check, A=A: sr.matmul(A, A, "min_plus", check=check),  # type: ignore[misc]
                    clock=by_synchronized_clock,
                    repeats=9,
                )
                for check in (True, False)
            )
            peer = theirs(lambda A=A: A @ A, clock=by_synchronized_clock, repeats=9)  # type: ignore[misc]
            numbers = [f"{sr.matmul(A, A).nnz:,}", *map(_milliseconds, (checked, unchecked, peer))]
            rows.append([label, *numbers, format_number(checked / peer, 2)])
    columns = ["matrix", "entries of A ⊗ A", "min_plus, ms", "unchecked, ms", "cuSPARSE, ms", "ratio"]
    return Table("A ⊗ A on a GPU (cuSPARSE: plus_times, unsorted)", columns, rows)


def dense(options: argparse.Namespace) -> Table:
    """Measure products with 64 columns and with a vector."""
    import cupy
    import torch

    rows = []
    for n in (options.vertices[0] // 10, options.vertices[0]):
        A = device_matrix(n, 8, "float32")
        for width in (64, 1):
            X = cupy.random.random((n, width), np.float32)
            X = X if width > 1 else X[:, 0]
            label, C = f"n = {n:,}, {width} column{'s' * (width > 1)}", cupy.empty((n, width), np.float32)
            plan = make_plan(sr.min_plus, np.dtype(np.float32))
            backend: Any = device_backend(sr.min_plus, np.dtype(np.float32))
            given = CompressedRows(A.indptr.astype(np.int64), A.indices, A.data, n), X.reshape(n, width)
            calls = {
                "checked": (lambda A=A, X=X: sr.matmul(A, X, "min_plus"), by_synchronized_clock),
                "unchecked": (lambda A=A, X=X: sr.matmul(A, X, "min_plus", check=False), by_synchronized_clock),
                "kernel": (
                    lambda C=C, given=given, plan=plan, b=backend: b.multiply_mixed(plan, C, *given, None),
                    by_device,
                ),
            }
            times = [ours(f"{label}, {name}", call, clock=clock, repeats=15) for name, (call, clock) in calls.items()]
            with warnings.catch_warnings(action="ignore"):  # PyTorch calls the layout beta
                parts = (A.indptr, A.indices, A.data)
                T = torch.sparse_csr_tensor(*map(torch.from_dlpack, parts), size=A.shape)
            x = torch.from_dlpack(X)
            head = torch.repeat_interleave(torch.arange(n, device="cuda"), torch.diff(T.crow_indices()))
            tail, weights = T.col_indices().long(), T.values()

            def scatter(x: Any = x, head: Any = head, tail: Any = tail, weights: Any = weights) -> Any:
                terms = x[tail] + (weights[:, None] if x.ndim > 1 else weights)
                index = head[:, None].expand(-1, terms.shape[1]) if x.ndim > 1 else head
                return torch.full_like(x, float("inf")).scatter_reduce_(0, index, terms, "amin")

            peers = [
                theirs(lambda A=A, X=X: A @ X, clock=by_device, repeats=15),  # type: ignore[misc]
                theirs(lambda T=T, x=x: T @ x, clock=_by_torch, repeats=15),  # type: ignore[misc]
                theirs(scatter, clock=_by_torch, repeats=15),
            ]
            numbers = [*map(_milliseconds, (*times, *peers))]
            rows.append([label, *numbers, format_number(times[2] / peers[1], 2), format_number(peers[2] / times[2], 1)])
    columns = ["product", "min_plus, ms", "unchecked, ms", "kernel, ms", "CuPy @, ms", "PyTorch CSR @, ms"]
    columns += ["scatter_reduce amin, ms", "kernel / PyTorch", "scatter_reduce / kernel"]
    return Table("A ⊗ X, float32, 8 a row, on a GPU (@: plus_times of cuSPARSE; peers: device time)", columns, rows)


def _by_torch(call: Any) -> float:
    """Return the seconds in which the GPU executes a call of PyTorch, on PyTorch's stream."""
    import torch

    start, stop = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    torch.cuda._sleep(4_000_000)  # the host enqueues the call meanwhile
    start.record()
    call()
    stop.record()
    stop.synchronize()
    return float(start.elapsed_time(stop)) / 1e3


def triangular_rmat(scale: int, factor: int) -> Any:
    """Return the lower triangle of an undirected R-MAT graph (0.57, 0.19, 0.19, 0.05), vertices by ascending degree."""
    import cupy
    import cupyx.scipy.sparse as sparse

    rng, n = cupy.random.RandomState(0), 1 << scale
    ends = cupy.zeros((2, n * factor), np.int64)
    for _ in range(scale):
        quadrant = cupy.searchsorted(cupy.asarray([0.57, 0.76, 0.95]), rng.random_sample(ends.shape[1]))
        ends = 2 * ends + cupy.stack([quadrant >> 1, quadrant & 1])
    ends = ends[:, ends[0] != ends[1]]
    ends = cupy.unique(ends.max(axis=0) * n + ends.min(axis=0))
    ends = cupy.stack([ends // n, ends % n])
    rank = cupy.empty(n, np.int64)
    rank[cupy.argsort(cupy.bincount(ends.ravel(), minlength=n))] = cupy.arange(n)
    ends = rank[ends]
    places = cupy.sort(ends.max(axis=0) * n + ends.min(axis=0))
    starts = cupy.searchsorted(places, cupy.arange(n + 1) * n).astype(np.int32)
    return sparse.csr_matrix((cupy.ones(places.size, np.float32), (places % n).astype(np.int32), starts), shape=(n, n))


def triangles(options: argparse.Namespace) -> Table:
    """Measure L ⊗ L at the entries of L, whose sum is the number of triangles, beside the whole product."""
    L = triangular_rmat(options.scale, 16)
    calls = {
        "masked": lambda: sr.matmul(L, L, "plus_times", mask=L, check=False),
        "whole": lambda: sr.matmul(L, L, "plus_times", check=False),
    }
    masked, whole = (
        ours(f"triangles, {name}", call, clock=by_synchronized_clock, repeats=3, seconds=10)
        for name, call in calls.items()
    )
    count = int(sr.matmul(L, L, "plus_times", mask=L).data.sum(dtype=np.float64))
    numbers = [*map(_milliseconds, (masked, whole)), format_number(whole / masked, 1), f"{count:,}"]
    columns = ["graph", "at the entries of L, ms", "whole, ms", "ratio", "triangles"]
    rows = [[f"R-MAT, scale {options.scale}, {L.nnz:,} edges", *numbers]]
    return Table("L ⊗ L with the mask L, float32, on a GPU", columns, rows)


def layers(options: argparse.Namespace) -> Table:
    """Measure layers of a graph network, forward and backward, beside scatter_reduce."""
    import torch

    from semiring.torch import spmm

    (n, count, features), batch = options.layer, options.batch
    generator = torch.Generator("cuda").manual_seed(0)
    edges = torch.randint(n, (2, count), generator=generator, device="cuda")
    edges[0, :n] = torch.arange(n, device="cuda")  # every vertex has an edge
    edges = edges[:, torch.argsort(edges[0] * n + edges[1])]
    values, X = (torch.rand(shape, generator=generator, device="cuda") for shape in ((count,), (batch, n, features)))
    rows = []
    for name, is_stack in (("min_plus", True), ("min_plus", False), ("log_plus", True)):
        wide = X.movedim(0, 1).reshape(n, -1)
        x = X if is_stack else wide
        calls: dict[str, tuple[Any, Any]] = {
            "layer": (lambda v, x, name=name: spmm(edges, v, (n, n), x, name), x),
            "scatter_reduce": (plain_layer(name, edges, (n, batch * features)), wide),
        }
        times, label = [], f"{name}, {batch} × {features}" if is_stack else f"{name}, 1 × {batch * features}"
        for which, (call, x) in calls.items():
            measure: Any = ours if which == "layer" else lambda said, *given, **how: theirs(*given, **how)
            leaves = values.clone().requires_grad_(), x.clone().requires_grad_()
            result = call(*leaves)
            g = torch.ones_like(result)
            passes = {
                "forward": lambda call=call, x=x: call(values, x),
                "with saved tensors": lambda call=call, leaves=leaves: call(*leaves),
                "backward": lambda r=result, leaves=leaves, g=g: torch.autograd.grad(r, leaves, g, retain_graph=True),
            }
            for part, run_pass in passes.items():
                times.append(measure(f"{label}, {part}", run_pass, clock=by_synchronized_clock, repeats=7, seconds=1.0))
            del result, g, passes
        ratios = [format_number(other / own, 1) for own, other in zip(times[:3], times[3:], strict=True)]
        cells = [cell for part in zip(times[:3], times[3:], ratios, strict=True) for cell in part]
        rows.append([label, *(x if isinstance(x, str) else _milliseconds(x) for x in cells)])
    columns = ["layer"]
    for part in ("forward", "forward for a gradient", "backward"):
        columns += [f"{part}, ms", f"{part}, scatter_reduce, ms", f"{part}, ratio"]
    title = f"A layer of a graph network, {n:,} vertices, {count:,} edges, batch × features, float32, on a GPU"
    return Table(title, columns, rows)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print the tables."""

    def configure(parser: argparse.ArgumentParser) -> None:
        vertices = "vertices of the matrices of 8 and of 32 entries a row"
        parser.add_argument("--vertices", type=int, nargs=2, default=(1_000_000, 20_000), help=vertices)
        parser.add_argument("--scale", type=int, default=20, help="log₂ of the vertices of the R-MAT graph")
        parser.add_argument("--layer", type=int, nargs=3, default=FB15K, metavar=("VERTICES", "EDGES", "FEATURES"))
        parser.add_argument("--batch", type=int, default=16, help="matrices of features of a layer")

    tables = {"products": products, "dense": dense, "triangles": triangles, "layers": layers}
    return run("benchmarks.gpu.sparse_products", str(__doc__), tables, arguments, configure, ["cupy", "torch"])


if __name__ == "__main__":
    sys.exit(main())
