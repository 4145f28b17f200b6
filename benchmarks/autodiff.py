"""Measure products and closures with gradients, against the dense expressions of PyTorch that give the same.

    python -m benchmarks.autodiff [product] [closure] [--n 512] [--device cpu] [--threads 1]

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

__all__ = ["main"]

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
    for name in _SEMIRINGS:
        A, B = (torch.rand(n, n, generator=generator).to(device) for _ in range(2))
        if operation == "closure":
            A = A.fill_diagonal_(0.0) if name == "max_times" else A - 12 if name == "log_plus" else A
            call: Any = lambda A: differentiable.closure(A, name)  # noqa: B023, E731
            operands, plain = [A], _plain_closure(name)
        else:
            call = lambda A, B: differentiable.matmul(A, B, name)  # noqa: B023, E731
            operands, plain = [A, B], _plain_product(name)
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
        parser.add_argument("--device", default="cpu")
        parser.add_argument("--threads", type=int, default=1)

    tables = {what: lambda options, what=what: _table(what, options) for what in ("product", "closure")}
    return run("benchmarks.autodiff", str(__doc__), tables, arguments, configure)  # type: ignore[arg-type]


if __name__ == "__main__":
    sys.exit(main())
