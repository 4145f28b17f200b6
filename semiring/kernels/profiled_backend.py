"""Wrap a backend so that its kernels are spans of the open profile (`semiring.profiling`).

Every operation of a backend passes through the kernel contract: products, closures of blocks and of stacks,
predecessors, passes. So spans at the contract cover all algorithms. `backend_for` returns such a backend while a
profile is open.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, wraps
from typing import Any

from semiring.kernels.contract import Backend, KernelPlan, Steps, has_operation
from semiring.profiling import Span, span

__all__ = ["profile_backend"]

_WORD = 32  # truth values in a word


@cache
def profile_backend(backend: Any) -> Backend:
    """Return a backend with the kernels of another one inside spans.

    Its class is derived, so it lacks no operation.
    """
    kind = type(backend)
    methods = {
        name: _record_span(getattr(backend, name), describe)
        for name, describe in _KERNELS.items()
        if has_operation(kind, name)
    }
    wrapped: Backend = object.__new__(type(f"Profiled{kind.__name__}", (kind,), methods))
    vars(wrapped).update(vars(backend))
    vars(wrapped).pop("capabilities", None)  # the wrapped backend declares its own capabilities
    return wrapped


def _record_span(kernel: Callable[..., Any], describe: Callable[..., Any]) -> Callable[..., Any]:
    """Return a kernel inside a span.

    Kernels that it calls itself are part of the span.
    """

    @wraps(kernel)
    def call(self: Any, *arguments: Any, **options: Any) -> Any:
        with describe(kernel.__name__, *arguments):
            return kernel(*arguments, **options)

    return call


def _product(name: str, plan: KernelPlan, C: Any, *others: Any) -> Any:
    """Return the span of a product from C, marks if there are any, A and B.

    Columns of packed bits are words, and k is the number of rows of B.
    """
    A, B = others[:2] if len(others) == 2 else others[1:3]
    m, k, n = C.shape[-2], B.shape[-2], C.shape[-1] * (_WORD if plan.storage == "bits" else 1)
    count, stack = _stack(C)
    moved = A.nbytes + B.nbytes + C.nbytes * (1 if name == "multiply" else 2)
    if len(others) > 2:
        moved += others[0].nbytes
    return span("product", name, pairs=count * m * k * n, moved=moved, **stack, shape=(m, k, n), **_plan(plan))


def _walk(name: str, plan: KernelPlan, prepared: Any, x: Any, steps: Steps, *matrix: Any) -> Any:
    (m, n), count = x.shape, steps.number
    moved = 2 * x.nbytes + sum(getattr(array, "nbytes", 0) for array in (*steps, *matrix))
    pairs = count * m * n * n * (2 if name == "pull" else 1)
    return span("product", name, pairs=pairs, moved=moved, shape=(m, n, n), stack=f"{count:,} steps of", **_plan(plan))


def _triangle(name: str, plan: KernelPlan, C: Any, A: Any, B: Any) -> Any:
    n, k = C.shape[-1], B.shape[-2]
    moved = A.nbytes + B.nbytes + C.nbytes
    return span("product", name, pairs=n * (n + 1) // 2 * k, moved=moved, shape=(n, k, n), **_plan(plan))


def _upper(name: str, plan: KernelPlan, C: Any, A: Any, B: Any, below: int, left: bool) -> Any:
    (m, n), k = C.shape, B.shape[-2]
    entries = k * (k + 1) // 2 + below * k - below * (below + 1) // 2  # entries of the factor that are read
    moved = A.nbytes + B.nbytes + C.nbytes
    return span("product", name, pairs=entries * (n if left else m), moved=moved, shape=(m, k, n), **_plan(plan))


def _closing(name: str, plan: KernelPlan, A: Any, *marks: Any) -> Any:
    (count, stack), n = _stack(A), A.shape[-2]
    moved = 2 * A.nbytes + sum(getattr(x, "nbytes", 0) for x in marks)
    return span("closing", name, pairs=count * n**3, moved=moved, **stack, shape=(n, n), **_plan(plan))


def _stack(array: Any) -> tuple[int, dict[str, Any]]:
    """Return how many matrices an array holds, and the detail of the span that says so."""
    if array.ndim == 2:
        return 1, {}
    return array.shape[0], {"stack": f"{array.shape[0]:,} of"}


def _plan(plan: KernelPlan) -> dict[str, Any]:
    storage = {"storage": "as bits"} if plan.storage == "bits" else {}
    return {"semiring": plan.semiring.name, "dtype": str(plan.dtype), **storage}


def _predecessors(name: str, plan: KernelPlan, D: Any, *others: Any) -> Any:
    moved = D.nbytes + sum(getattr(x, "nbytes", 0) for x in others)
    return span("predecessors", name, moved=moved, shape=tuple(D.shape), **_plan(plan))


def _search(name: str, plan: KernelPlan, graph: Any, sources: Any, *others: Any) -> Any:
    starts, heads = graph[:2]
    return span("search", name, shape=(sources.size, starts.size - 1), edges=heads.size, **_plan(plan))


def _pass(name: str, *arrays: Any) -> Any:
    moved = sum(getattr(x, "nbytes", 0) for x in arrays)
    return span("pass", name, moved=moved, shape=tuple(arrays[0].shape), dtype=str(arrays[0].dtype))


def _copy(name: str, plan: KernelPlan, *arrays: Any) -> Any:
    return _pass(name, *arrays)


def _replay(name: str, plan: KernelPlan, A: Any, engine_of: Any, algorithm: Callable[..., object]) -> Any:
    return span("replay", getattr(algorithm, "__name__", "launches"), shape=tuple(A.shape), **_plan(plan))


#: The span of each operation of the contract, including the optional ones.
_KERNELS: dict[str, Callable[..., Span | Any]] = {
    **dict.fromkeys(
        ("multiply", "multiply_add", "multiply_add_witness", "multiply_add_pivots", "multiply_add_plain"), _product
    ),
    **dict.fromkeys(("close_block", "close_block_pivots", "close", "close_stack", "close_as"), _closing),
    **dict.fromkeys(("look_gaining", "close_gaining"), _closing),
    **dict.fromkeys(("find_predecessors", "find_tree"), _predecessors),
    **dict.fromkeys(("search_table", "search_near"), _search),
    **dict.fromkeys(("copy", "copy_nonnegative", "in_order", "largest_whole", "relax", "spoil"), _pass),
    **dict.fromkeys(("count_edges", "peel", "sweep_along", "sweep_against", "permute_bits", "fill_component"), _pass),
    **dict.fromkeys(("look", "edge_words", "permute", "permute_columns", "transpose", "mirror"), _pass),
    **dict.fromkeys(("count_hops", "spanning_edges", "fill_bottlenecks"), _pass),
    "copy_panel": _copy,
    "multiply_add_upper": _triangle,
    "multiply_upper": _upper,
    "prepare": _copy,
    "replay": _replay,
    **dict.fromkeys(("walk", "pull"), _walk),
}
