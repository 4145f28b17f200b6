"""Products and closures with gradients, against the dense expressions of PyTorch that give the same.

python -m benchmarks.autodiff [product] [closure] [--n 512] [--device cpu] [--threads 1]

A product in plain PyTorch broadcasts A[i, k] and B[k, j] into m·k·n terms and reduces them; a closure goes through the
pivots one by one, by array operations. Both keep what autograd needs.

The last column compares ⟨gradient, operands⟩, relatively: where terms tie (sums in float32 do), one gradient chooses
the first and the other divides, and this product is the same. One thread by default: with more, a virtual machine may
wake the threads of both libraries on one core, and the times are of waiting.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import torch

import semiring.torch as differentiable
from benchmarks.common import environment, median_seconds, print_table
from semiring import set_threads

__all__ = ["main"]

_CASES = {
    "min_plus": (torch.add, lambda terms: terms.amin(-2), torch.minimum),
    "max_min": (torch.minimum, lambda terms: terms.amax(-2), torch.maximum),
    "max_times": (torch.mul, lambda terms: terms.amax(-2), torch.maximum),
    "log_plus": (torch.add, lambda terms: terms.logsumexp(-2), torch.logaddexp),
}


def _plain_product(name: str) -> Callable[..., Any]:
    mul, reduce, _ = _CASES[name]
    return lambda A, B: reduce(mul(A[:, :, None], B[None]))


def _plain_closure(name: str) -> Callable[..., Any]:
    mul, _, add = _CASES[name]
    one = {"min_plus": 0.0, "max_min": torch.inf, "max_times": 1.0, "log_plus": 0.0}[name]

    def close(A: Any) -> Any:
        n, D = A.shape[0], A
        for k in range(n):
            row = D[k]
            if name == "log_plus":  # times the star of the pivot
                row = row - torch.log1p(-D[k, k].exp())
            D = add(D, mul(D[:, k, None], row[None]))
        diagonal = torch.eye(n, dtype=torch.bool, device=A.device)
        return torch.where(diagonal, torch.logaddexp(D, torch.zeros_like(D)) if name == "log_plus" else one, D)

    return close


def _seconds(function: Callable[..., Any], operands: list[Any], wait: Callable[[], None]) -> tuple[float, float, Any]:
    """The times of the values alone, and of values and gradients; the gradients."""
    plain, leaves = [x.detach() for x in operands], [x.detach().requires_grad_() for x in operands]
    found: list[Any] = []

    def both() -> None:
        found[:] = torch.autograd.grad(function(*leaves).sum(), leaves)
        wait()

    def values() -> None:
        function(*plain)
        wait()

    return median_seconds(values, seconds=0.3), median_seconds(both, seconds=0.3), list(found)


def _rows(what: str, n: int, device: str) -> list[list[Any]]:
    generator = torch.Generator().manual_seed(0)
    wait = torch.cuda.synchronize if device != "cpu" else lambda: None
    rows = []
    for name in _CASES:
        A, B = (torch.rand(n, n, generator=generator).to(device) for _ in range(2))
        if what == "closure":
            A = A.fill_diagonal_(0.0) if name == "max_times" else A - 12 if name == "log_plus" else A
            ours: Any = lambda A: differentiable.closure(A, name)  # noqa: B023, E731
            operands, plain = [A], _plain_closure(name)
        else:
            ours = lambda A, B: differentiable.matmul(A, B, name)  # noqa: B023, E731
            operands, plain = [A, B], _plain_product(name)
        forward, both, found = _seconds(ours, operands, wait)
        plain_forward, plain_both, expected = _seconds(plain, operands, wait)
        one, other = (
            sum(float((g.double() * x.double()).sum()) for g, x in zip(grads, operands, strict=True))
            for grads in (found, expected)
        )
        rows.append(
            [
                *(name, f"{1e3 * forward:.1f}", f"{1e3 * plain_forward:.0f}"),
                *(f"{plain_forward / forward:.0f}×", f"{1e3 * both:.1f}", f"{1e3 * plain_both:.0f}"),
                *(f"{plain_both / both:.0f}×", f"{abs(one - other) / abs(other):.0e}"),
            ]
        )
    return rows


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="*", default=["product", "closure"])
    parser.add_argument("--n", type=int, default=512)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--threads", type=int, default=1)
    given = parser.parse_args()
    set_threads(given.threads)
    torch.set_num_threads(given.threads)
    where = environment() if given.device == "cpu" else torch.cuda.get_device_name(given.device)
    print(f"{where}, PyTorch {torch.__version__}, threads: {given.threads}")
    header = [
        "semiring",
        "values, ms",
        "PyTorch, ms",
        "faster",
        "with gradients, ms",
        "PyTorch, ms",
        "faster",
        "differ by",
    ]
    for what in given.what:
        print_table(f"{what}, n = {given.n}, float32, {given.device}", header, _rows(what, given.n, given.device))


if __name__ == "__main__":
    main()
