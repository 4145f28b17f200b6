"""Record the kernels of a backend as spans of an open profile (`semiring.profiling`).

Every operation of a backend passes through the kernel contract: products, closures of blocks and of stacks,
predecessors, passes. So spans at the contract cover all algorithms.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import wraps
from typing import Any, TypeVar

from semiring import profiling
from semiring.kernels.contract import CompressedRows, GraphKernels, KernelPlan, PassKernels, count_pairs, product_shape

__all__ = ["KINDS", "record_kernels"]

#: The kind of the span of each operation of the contract. The other operations only return properties of a backend.
KINDS: dict[str, str] = {
    **{name: "pass" for group in (PassKernels, GraphKernels) for name in vars(group) if name[0] != "_"},
    **dict.fromkeys(("copy_panel", "prepare", "trace", "count_vertices", "write_paths", "scan_rows"), "pass"),
    **dict.fromkeys(("multiply", "multiply_add", "multiply_add_witness", "multiply_add_plain"), "product"),
    **dict.fromkeys(("multiply_add_upper", "multiply_upper", "walk", "pull"), "product"),
    **dict.fromkeys(("multiply_sparse", "multiply_masked", "multiply_mixed", "multiply_unvalidated"), "product"),
    **dict.fromkeys(
        ("close_block", "close", "close_stack", "close_as", "close_and_search", "survey_gaining", "close_gaining"),
        "closing",
    ),
    **dict.fromkeys(("find_predecessors", "find_tree", "fold_paths", "count_paths"), "predecessors"),
    **dict.fromkeys(("search_table", "search_near", "add_dependencies", "find_distances"), "search"),
    **dict.fromkeys(("list_edges", "improve", "count_users", "repair", "count_changed"), "update"),
    "replay": "replay",
}
del KINDS["has_bit_kernels"]

_WORD_BITS = 32  # truth values in a word
_LEAVES = frozenset(KINDS.values()) - {"replay"}  # inside spans of these kinds no kernel is recorded

AnyClass = TypeVar("AnyClass", bound=type)


def record_kernels(backend: AnyClass) -> AnyClass:
    """Decorate the class of a backend: each operation of `KINDS` that it defines is a span while a profile is open.

    A kernel that another kernel calls is part of the span of its caller. Only the algorithm that `replay` runs has
    spans of its own. Outside a profile an operation takes a tenth of a microsecond longer.
    """
    for name in KINDS.keys() & vars(backend).keys():
        setattr(backend, name, _record(name, vars(backend)[name]))
    return backend


def _record(name: str, kernel: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(kernel)
    def call(self: Any, *arguments: Any, **options: Any) -> Any:
        if profiling.active:
            caller = profiling.innermost()
            if caller is not None and caller.kind not in _LEAVES:
                with _span(name, *arguments) as one:
                    result = kernel(self, *arguments, **options)
                    if name in ("multiply_sparse", "multiply_masked"):
                        used = result[-1]  # how many rows each accumulator computed
                        one.details["accumulators"] = ", ".join(f"{rows:,} by {key}" for key, rows in used.items())
                    return result
        return kernel(self, *arguments, **options)

    return call


def _span(name: str, *arguments: Any) -> AbstractContextManager[Any]:
    """Return the span of an operation that is called with these arguments."""
    kind, arrays = KINDS[name], [x for x in arguments if getattr(x, "ndim", 0)]
    if name == "scan_rows":
        arrays = [arguments[1].values, *arguments[1][:2]]
    moved = sum(array.nbytes for array in arrays)
    if kind == "pass":
        return profiling.span(kind, name, moved=moved, shape=tuple(arrays[0].shape), dtype=str(arrays[0].dtype))
    plan, *operands = arguments
    details: dict[str, Any] = {}
    pairs = 0
    if kind == "search":
        (starts, heads), sources = operands[0][:2], operands[1]
        details = {"shape": (sources.size, starts.size - 1), "edges": heads.size}
        moved = 0
    elif name in ("walk", "pull"):
        x, steps = operands[1:3]
        (m, n), moved = x.shape, moved + x.nbytes + sum(getattr(array, "nbytes", 0) for array in steps)
        details = {"shape": (m, n, n), "stack": f"{steps.number:,} steps of"}
        pairs = steps.number * m * n * n * (2 if name == "pull" else 1)
    elif name in ("multiply_sparse", "multiply_masked", "multiply_mixed", "multiply_unvalidated"):
        factors = operands[1:3] if name in ("multiply_mixed", "multiply_unvalidated") else operands[:2]
        stored: list[Any] = [x for x in operands if isinstance(x, CompressedRows)]
        moved += sum(array.nbytes for matrix in stored for array in matrix if getattr(array, "ndim", 0))
        pairs, details["shape"] = count_pairs(*factors), product_shape(*factors)
    elif kind == "product":
        pairs, details["shape"] = _product(name, plan, operands, arrays)
        moved += 0 if name in ("multiply", "multiply_upper", "multiply_add_upper") else arrays[0].nbytes
    elif kind == "closing":
        pairs, details["shape"] = arrays[0].shape[-2] ** 3, (arrays[0].shape[-2],) * 2
        moved += arrays[0].nbytes
    else:
        details["shape"] = tuple(arrays[0].shape)
    if kind in ("product", "closing") and arrays and arrays[0].ndim == 3 and "stack" not in details:
        pairs, details = pairs * len(arrays[0]), {"stack": f"{len(arrays[0]):,} of", **details}
    details |= {"semiring": plan.semiring.name, "dtype": str(plan.dtype)}
    if plan.storage == "bits":
        details["storage"] = "as bits"
    name = getattr(operands[2], "__name__", "launches") if kind == "replay" else name
    return profiling.span(kind, name, pairs=pairs, moved=moved, **details)


def _product(name: str, plan: KernelPlan, operands: list[Any], arrays: list[Any]) -> tuple[int, tuple[int, int, int]]:
    """Return the pairs and the shape (m, k, n) of one product. Columns of packed bits are words."""
    C, B = arrays[0], arrays[-1]
    m, k, n = C.shape[-2], B.shape[-2], C.shape[-1] * (_WORD_BITS if plan.storage == "bits" else 1)
    if name == "multiply_add_upper":
        return n * (n + 1) // 2 * k, (n, k, n)
    if name == "multiply_upper":  # only the entries of the factor that may differ from 0̄ are read
        subdiagonals, is_left = operands[3:]
        count = k * (k + 1) // 2 + subdiagonals * k - subdiagonals * (subdiagonals + 1) // 2
        return count * (n if is_left else m), (m, k, n)
    return m * k * n, (m, k, n)
