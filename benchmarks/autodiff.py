"""Measure products and closures with gradients, against the dense expressions of PyTorch that give the same.

    python -m benchmarks.autodiff [product] [closure] [layer] [relations] [--n 512] [--device cpu] [--threads 1]

A layer of a graph network has the size of FB15k-237: 14,541 vertices, 544,230 edges, 64 features. Its edges have a
value each, and for relations a value for each feature. Plain PyTorch gathers all messages and reduces them by
`scatter_reduce`.

A product in plain PyTorch broadcasts A[i, k] and B[k, j] into m·k·n terms and reduces them. A closure goes through the
pivots one by one, by array operations. Both keep what autograd needs.

The last column compares ⟨gradient, operands⟩, relatively: where terms tie (sums in float32 do), one gradient chooses
the first and the other divides, and this product is the same. One thread by default: with more, a virtual machine may
wake the threads of both libraries on one core, and the times are of waiting.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from typing import Any

import semiring as sr
from benchmarks.common import Table, comparing, format_number, ours, run, theirs
from benchmarks.packages import require

__all__ = ["FB15K", "main", "plain_layer"]

_SEMIRINGS = ("min_plus", "max_min", "max_times", "log_plus")


def _operations(name: str) -> tuple[Callable[..., Any], Callable[..., Any], Callable[..., Any]]:
    """Return ⊗, the reduction of terms by ⊕, and ⊕ as functions of PyTorch."""
    import torch

    return {
        "min_plus": (torch.add, lambda terms: terms.amin(-2), torch.minimum),
        "max_min": (torch.minimum, lambda terms: terms.amax(-2), torch.maximum),
        "max_times": (torch.mul, lambda terms: terms.amax(-2), torch.maximum),
        "log_plus": (torch.add, lambda terms: terms.logsumexp(-2), torch.logaddexp),
    }[name]


def _plain_product(name: str) -> Callable[..., Any]:
    mul, reduce, _ = _operations(name)
    return lambda A, B: reduce(mul(A[:, :, None], B[None]))


def _plain_closure(name: str) -> Callable[..., Any]:
    import torch

    mul, _, add = _operations(name)
    one = {"min_plus": 0.0, "max_min": torch.inf, "max_times": 1.0, "log_plus": 0.0}[name]

    def close(A: Any) -> Any:
        n, D = A.shape[0], A
        for k in range(n):
            row = D[k]
            if name == "log_plus":  # ⊗ of log_plus with the star of the pivot
                row = row - torch.log1p(-D[k, k].exp())
            D = add(D, mul(D[:, k, None], row[None]))
        diagonal = torch.eye(n, dtype=torch.bool, device=A.device)
        return torch.where(diagonal, torch.logaddexp(D, torch.zeros_like(D)) if name == "log_plus" else one, D)

    return close


#: The vertices, edges and features of a layer of the size of FB15k-237.
FB15K = 14_541, 544_230, 64


def plain_layer(name: str, edges: Any, size: tuple[int, int]) -> Callable[..., Any]:
    """Return a layer of a graph network in plain PyTorch: of values of the edges and features (vertices, features)."""
    import torch

    mul, heads = _operations(name)[0], edges[0][:, None].expand(-1, size[1])

    def collect(terms: Any, reduce: str) -> Any:
        return torch.zeros(size, device=terms.device).scatter_reduce(0, heads, terms, reduce, include_self=False)

    def layer(values: Any, x: Any) -> Any:
        terms = mul(values if values.dim() == 2 else values[:, None], x.index_select(0, edges[1]))
        if name != "log_plus":
            return collect(terms, "amin" if name == "min_plus" else "amax")
        most = collect(terms.detach(), "amax")
        return most + collect((terms - most.gather(0, heads)).exp(), "sum").log()

    return layer


def _layer(
    operation: str, name: str, device: str, generator: Any, sizes: tuple[int, int, int]
) -> tuple[list[Any], Any, Any]:
    """Return the values of the edges and the features, and a layer of both libraries."""
    import torch

    import semiring.torch as differentiable

    n, count, features = sizes
    edges = torch.randint(n, (2, count), generator=generator)
    edges[0, :n] = torch.arange(n)  # every vertex has an edge
    edges = edges[:, torch.argsort(edges[0] * n + edges[1])].to(device)
    shapes = (count, features) if operation == "relations" else (count,), (n, features)
    operands = [torch.rand(shape, generator=generator).to(device) for shape in shapes]
    plain = plain_layer(name, edges, (n, features))
    return operands, lambda v, x: differentiable.spmm(edges, v, (n, n), x, name), plain


def _seconds(
    measure: Callable[..., float], function: Callable[..., Any], operands: list[Any], wait: Callable[[], None]
) -> tuple[float, float, Any]:
    """Return the seconds of the values alone, the seconds of values and gradients, and the gradients."""
    import torch

    plain, leaves = [x.detach() for x in operands], [x.detach().requires_grad_() for x in operands]
    result: list[Any] = []

    def values_and_gradients() -> None:
        result[:] = torch.autograd.grad(function(*leaves).sum(), leaves)
        wait()

    def values() -> None:
        function(*plain)
        wait()

    return measure("values", values), measure("gradients", values_and_gradients), list(result)


def _table(operation: str, options: argparse.Namespace) -> Table:
    require("torch", *(["cupy"] if options.device != "cpu" else []))
    import torch

    import semiring.torch as differentiable

    n, device = options.n, options.device
    sr.set_threads(options.threads)
    torch.set_num_threads(options.threads)
    generator = torch.Generator().manual_seed(0)
    wait = torch.cuda.synchronize if device != "cpu" else lambda: None
    rows = []
    call: Any
    n = options.layer[0] if operation in ("layer", "relations") else n
    for name in _SEMIRINGS:
        if operation in ("layer", "relations"):
            operands, call, plain = _layer(operation, name, device, generator, options.layer)
        elif operation == "closure":
            A = torch.rand(n, n, generator=generator).to(device)
            A = A.fill_diagonal_(0.0) if name == "max_times" else A - 12 if name == "log_plus" else A
            call = lambda A: differentiable.closure(A, name)  # noqa: B023, E731
            operands, plain = [A], _plain_closure(name)
        else:
            call = lambda A, B: differentiable.matmul(A, B, name)  # noqa: B023, E731
            operands = [torch.rand(n, n, generator=generator).to(device) for _ in range(2)]
            plain = _plain_product(name)
        said = f"{operation}, {name}, n = {n}, {device}"
        mine, other = (
            lambda label, call: ours(f"{said}, {label}", call, seconds=0.3),  # noqa: B023
            lambda _, call: theirs(call, seconds=0.3),
        )
        forward, both, found = _seconds(mine, call, operands, wait)
        if comparing():
            continue
        plain_forward, plain_both, expected = _seconds(other, plain, operands, wait)
        one, two = (
            sum(float((g.double() * x.double()).sum()) for g, x in zip(grads, operands, strict=True))
            for grads in (found, expected)
        )
        rows.append(
            [
                *(name, format_number(1e3 * forward, 1), format_number(1e3 * plain_forward, 0)),
                *(
                    f"{format_number(plain_forward / forward, 0)}×",
                    format_number(1e3 * both, 1),
                    format_number(1e3 * plain_both, 0),
                ),
                *(f"{format_number(plain_both / both, 0)}×", f"{abs(one - two) / abs(two):.0e}"),
            ]
        )
    columns = [
        *("semiring", "values, ms", "PyTorch, ms", "faster"),
        *("with gradients, ms", "PyTorch with gradients, ms", "faster with gradients", "differ by"),
    ]
    return Table(f"{operation}, n = {n}, float32, {device}, threads: {options.threads}", columns, rows)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print the tables."""

    def configure(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--n", type=int, default=512)
        parser.add_argument("--layer", type=int, nargs=3, default=FB15K, metavar=("VERTICES", "EDGES", "FEATURES"))
        parser.add_argument("--device", default="cpu")
        parser.add_argument("--threads", type=int, default=1)

    tables = {
        what: lambda options, what=what: _table(what, options) for what in ("product", "closure", "layer", "relations")
    }
    return run("benchmarks.autodiff", str(__doc__), tables, arguments, configure)  # type: ignore[arg-type]


if __name__ == "__main__":
    sys.exit(main())
