"""Wrap a backend so that its kernels are spans of the open profile (`semiring.profiling`).

Every operation of a backend passes through the kernel contract: products, closures of blocks and of stacks,
predecessors, passes. So spans at the contract cover all algorithms. `backend_for` returns such a backend while a
profile is open.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, wraps
from typing import Any

from semiring.kernels.contract import (
    Backend,
    CompressedRows,
    KernelPlan,
    Steps,
    count_pairs,
    has_operation,
    product_shape,
)
from semiring.profiling import Span, span

_WORD_BITS = 32  # truth values in a word


@cache
def profile_backend(backend: Any) -> Backend:
    """Return a backend that runs the kernels of ``backend`` inside spans.

    Its class is derived from the class of ``backend``, so it has the same operations.
    """
    kind = type(backend)
    methods = {
        name: _record_span(getattr(backend, name), describe)
        for name, describe in _KERNELS.items()
        if has_operation(kind, name)
    }
    profiling_backend: Backend = object.__new__(type(f"Profiled{kind.__name__}", (kind,), methods))
    vars(profiling_backend).update(vars(backend))
    vars(profiling_backend).pop("capabilities", None)  # the cached capabilities refer to the original backend
    return profiling_backend


def _record_span(kernel: Callable[..., Any], describe: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that runs a kernel inside a span, together with the kernels that this kernel calls."""

    @wraps(kernel)
    def call(self: Any, *arguments: Any, **options: Any) -> Any:
        with describe(kernel.__name__, *arguments) as open_span:
            result = kernel(*arguments, **options)
            if isinstance(result, dict):  # how many rows each accumulator of a sparse product computed
                open_span.note(accumulators=", ".join(f"{rows:,} by {name}" for name, rows in result.items()))
            return result

    return call


def _describe_product(name: str, plan: KernelPlan, C: Any, *arrays: Any) -> Any:
    """Return the span of a product from C, marks if there are any, A and B.

    Columns of packed bits are words, and k is the number of rows of B.
    """
    A, B = arrays[:2] if len(arrays) == 2 else arrays[1:3]
    m, k, n = C.shape[-2], B.shape[-2], C.shape[-1] * (_WORD_BITS if plan.storage == "bits" else 1)
    count, stack = _describe_stack(C)
    moved = A.nbytes + B.nbytes + C.nbytes * (1 if name == "multiply" else 2)
    if len(arrays) > 2:
        moved += arrays[0].nbytes
    return span("product", name, pairs=count * m * k * n, moved=moved, **stack, shape=(m, k, n), **_describe_plan(plan))


def _describe_walk(name: str, plan: KernelPlan, preparation: Any, x: Any, steps: Steps, *arrays: Any) -> Any:
    (m, n), count = x.shape, steps.number
    moved = 2 * x.nbytes + sum(getattr(array, "nbytes", 0) for array in (*steps, *arrays))
    pairs = count * m * n * n * (2 if name == "pull" else 1)
    return span(
        "product", name, pairs=pairs, moved=moved, shape=(m, n, n), stack=f"{count:,} steps of", **_describe_plan(plan)
    )


def _describe_sparse(name: str, plan: KernelPlan, *operands: Any) -> Any:
    A, B = operands[1:3] if name == "multiply_mixed" else operands[:2]
    (m, k, n), pairs, moved = product_shape(A, B), count_pairs(A, B), 0
    for operand in operands:
        arrays = operand if isinstance(operand, CompressedRows) else (operand,)
        moved += sum(getattr(array, "nbytes", 0) for array in arrays)
    return span("product", name, pairs=pairs, moved=moved, shape=(m, k, n), **_describe_plan(plan))


def _describe_triangle(name: str, plan: KernelPlan, C: Any, A: Any, B: Any) -> Any:
    n, k = C.shape[-1], B.shape[-2]
    moved = A.nbytes + B.nbytes + C.nbytes
    return span("product", name, pairs=n * (n + 1) // 2 * k, moved=moved, shape=(n, k, n), **_describe_plan(plan))


def _describe_upper(name: str, plan: KernelPlan, C: Any, A: Any, B: Any, subdiagonals: int, is_left: bool) -> Any:
    (m, n), k = C.shape, B.shape[-2]
    # Only the entries of the factor that may differ from 0̄ are read.
    count = k * (k + 1) // 2 + subdiagonals * k - subdiagonals * (subdiagonals + 1) // 2
    moved = A.nbytes + B.nbytes + C.nbytes
    return span(
        "product", name, pairs=count * (n if is_left else m), moved=moved, shape=(m, k, n), **_describe_plan(plan)
    )


def _describe_closure(name: str, plan: KernelPlan, A: Any, *marks: Any) -> Any:
    (count, stack), n = _describe_stack(A), A.shape[-2]
    moved = 2 * A.nbytes + sum(getattr(x, "nbytes", 0) for x in marks)
    return span("closing", name, pairs=count * n**3, moved=moved, **stack, shape=(n, n), **_describe_plan(plan))


def _describe_stack(array: Any) -> tuple[int, dict[str, Any]]:
    """Return how many matrices an array holds, and the entry of the span for a stack."""
    if array.ndim == 2:
        return 1, {}
    return array.shape[0], {"stack": f"{array.shape[0]:,} of"}


def _describe_plan(plan: KernelPlan) -> dict[str, Any]:
    storage = {"storage": "as bits"} if plan.storage == "bits" else {}
    return {"semiring": plan.semiring.name, "dtype": str(plan.dtype), **storage}


def _describe_predecessors(name: str, plan: KernelPlan, D: Any, *arrays: Any) -> Any:
    moved = D.nbytes + sum(getattr(x, "nbytes", 0) for x in arrays)
    return span("predecessors", name, moved=moved, shape=tuple(D.shape), **_describe_plan(plan))


def _describe_search(name: str, plan: KernelPlan, graph: Any, sources: Any, *arrays: Any) -> Any:
    starts, heads = graph[:2]
    return span("search", name, shape=(sources.size, starts.size - 1), edges=heads.size, **_describe_plan(plan))


def _describe_pass(name: str, *arrays: Any) -> Any:
    moved = sum(getattr(x, "nbytes", 0) for x in arrays)
    return span("pass", name, moved=moved, shape=tuple(arrays[0].shape), dtype=str(arrays[0].dtype))


def _describe_copy(name: str, plan: KernelPlan, *arrays: Any) -> Any:
    return _describe_pass(name, *arrays)


def _describe_replay(name: str, plan: KernelPlan, A: Any, engine_of: Any, algorithm: Callable[..., object]) -> Any:
    return span("replay", getattr(algorithm, "__name__", "launches"), shape=tuple(A.shape), **_describe_plan(plan))


#: The span of each operation of the contract, including the optional ones.
_KERNELS: dict[str, Callable[..., Span | Any]] = {
    **dict.fromkeys(("multiply", "multiply_add", "multiply_add_witness", "multiply_add_plain"), _describe_product),
    **dict.fromkeys(("close_block", "close", "close_stack", "close_as"), _describe_closure),
    **dict.fromkeys(("survey_gaining", "close_gaining"), _describe_closure),
    **dict.fromkeys(("find_predecessors", "find_tree"), _describe_predecessors),
    **dict.fromkeys(("search_table", "search_near"), _describe_search),
    **dict.fromkeys(("copy", "copy_nonnegative", "in_order", "largest_whole", "relax", "spoil"), _describe_pass),
    **dict.fromkeys(
        ("count_edges", "peel", "sweep_along", "sweep_against", "permute_bits", "fill_component"), _describe_pass
    ),
    **dict.fromkeys(
        ("scan_structure", "edge_words", "permute", "permute_columns", "transpose", "mirror"), _describe_pass
    ),
    **dict.fromkeys(("count_hops", "spanning_edges", "fill_bottlenecks"), _describe_pass),
    "copy_panel": _describe_copy,
    "multiply_add_upper": _describe_triangle,
    "multiply_upper": _describe_upper,
    "prepare": _describe_copy,
    "replay": _describe_replay,
    **dict.fromkeys(("walk", "pull"), _describe_walk),
    **dict.fromkeys(("find_pattern", "multiply_pattern", "multiply_mixed"), _describe_sparse),
}
