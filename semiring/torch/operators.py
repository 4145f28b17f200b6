"""Register each primitive of `semiring.autodiff.primitives` with PyTorch as a custom operator of `semiring.torch`.

An operator takes its semiring as text (`semiring.autodiff.rules.key_of`). Backward passes call operators by their
`DifferentiableOperator`, so they are compiled, batched and differentiated like everything else.
"""

# mypy: disallow-untyped-decorators=False
# The decorators of PyTorch have no types.

from __future__ import annotations

from collections.abc import Callable, Sequence
from inspect import Parameter, Signature
from types import new_class
from typing import Any

import torch
from torch import Tensor
from torch.utils import dlpack

from semiring.algebra import Semiring
from semiring.arrays.tensors import as_tensor, bfloat16_array, is_bfloat16_tensor
from semiring.autodiff.primitives import PRIMITIVES, STATIC, ArrayLibrary, Primitive
from semiring.autodiff.rules import key_of, semiring_of

__all__ = [
    "closure",
    "closure_trees",
    "entry_product",
    "entry_product_with_places",
    "entry_scaled_product",
    "matmul",
    "matmul_witness",
    "multi_dot",
    "multiply",
    "scaled_product",
    "scan",
    "sums_down",
    "sums_up",
]

_CUDA = 2  # the type of a GPU in DLPack


def _call_on_arrays(function: Callable[..., Any], tensors: Sequence[Tensor | None], *options: Any) -> Any:
    """Call a function on NumPy (on a GPU: CuPy) views of tensors, and return its results as tensors without a copy."""
    plain = [None if tensor is None else tensor.detach() for tensor in tensors]
    first = next(tensor for tensor in plain if tensor is not None)
    if first.device.type == "cpu":
        hosted = (x if x is None else bfloat16_array(x) if is_bfloat16_tensor(x) else x.numpy() for x in plain)
        return _export(as_tensor, function(*hosted, *options))
    from semiring.arrays.device import activate_device, as_cupy

    with activate_device([tensor for tensor in plain if tensor is not None]):
        arrays = (None if tensor is None else as_cupy(_Export(tensor)) for tensor in plain)
        return _export(_import, function(*arrays, *options))


class _Export:
    """A tensor on a GPU as CuPy reads it, on PyTorch's current stream.

    The protocol of PyTorch and CuPy compares their streams for each array, which takes longer than a launch.
    """

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor

    def __dlpack__(self, **_: Any) -> Any:
        return dlpack.to_dlpack(self.tensor)

    def __dlpack_device__(self) -> tuple[int, int]:
        return _CUDA, self.tensor.device.index


def _import(array: Any) -> Tensor:
    """Return a CuPy array as a tensor without a copy, on PyTorch's current stream."""
    tensor: Tensor = dlpack.from_dlpack(array.__dlpack__(stream=-1))
    return tensor


def _export(convert: Callable[[Any], Tensor], results: Any) -> Any:
    """Convert an array, or a tuple of arrays, to tensors."""
    return tuple(map(convert, results)) if isinstance(results, tuple) else convert(results)


class _TorchLibrary:
    """The implementation of `ArrayLibrary` for PyTorch."""

    xp = torch

    def call(self, name: str, *arguments: Any) -> Any:
        """Call an operator, with the text of a semiring in its place."""
        return _OPERATORS[name](*(key_of(x) if isinstance(x, Semiring) else x for x in arguments))

    def cast(self, x: Tensor, dtype: torch.dtype) -> Tensor:
        return x.to(dtype)

    def constant(self, value: float, like: Tensor) -> Tensor:
        return like.new_full((), value)

    def arange(self, n: int, like: Tensor) -> Tensor:
        return torch.arange(n, device=like.device)

    def indices(self, W: Tensor) -> Tensor:
        return W.clamp_min(0).long()

    def gather(self, x: Tensor, indices: Tensor, axis: int) -> Tensor:
        return x.gather(axis, indices)

    def scatter_add(self, terms: Tensor, indices: Tensor, axis: int, shape: tuple[int, ...]) -> Tensor:
        return terms.new_zeros(shape).scatter_add(axis, indices, terms)

    def sum_to(self, x: Tensor, shape: tuple[int, ...]) -> Tensor:
        return x.sum_to_size(shape)

    def dtype_name(self, x: Tensor) -> str:
        return str(x.dtype).removeprefix("torch.")

    def is_on_host(self, x: Tensor) -> bool:
        return bool(x.device.type == "cpu")


_LIBRARY: ArrayLibrary = _TorchLibrary()


def _schema(primitive: Primitive) -> str:
    """Return the schema of an operator, in PyTorch's notation."""
    types = {bool: "bool", int: "int", str: "str", Semiring: "str"}
    arrays = (f"Tensor? {name[:-1]}" if name.endswith("?") else f"Tensor {name}" for name in primitive.arrays)
    static = (f"{types[STATIC[name]]} {name}" for name in primitive.static)
    results = ", ".join(["Tensor"] * primitive.outputs)
    return f"({', '.join([*arrays, *static])}) -> {f'({results})' if primitive.outputs > 1 else results}"


#: The signature of an operator, which `autograd.Function` would else derive in each call.
_ANY_ARGUMENTS = Signature([Parameter("arguments", Parameter.VAR_POSITIONAL)])


class DifferentiableOperator:
    """A primitive as a custom operator, for the compiler, for autograd and for the transforms of `torch.func`.

    The compiler needs the gradient registered with the operator. `torch.func` does not find it there, and needs an
    `autograd.Function`.
    """

    def __init__(self, primitive: Primitive) -> None:
        self.primitive = primitive
        self._semiring_index = primitive.static.index("semiring") if "semiring" in primitive.static else -1
        self._no_gradients = (None,) * len(primitive.static)
        name = f"semiring::{primitive.name}"
        operator = torch.library.custom_op(name, self._run, mutates_args=(), schema=_schema(primitive))
        operator.register_fake(self._make_fake)
        operator.register_autograd(self._backward, setup_context=self._save_arrays)
        operator.register_vmap(self._apply_vmap)
        operator.__signature__ = _ANY_ARGUMENTS
        self.operator = operator
        members = {
            "forward": staticmethod(operator),
            "setup_context": staticmethod(self._save_arrays),
            "backward": staticmethod(self._backward),
            "generate_vmap_rule": True,
        }
        bases = (torch.autograd.Function,)
        self.function: Any = new_class(f"{primitive.name}_function", bases, exec_body=lambda body: body.update(members))

    def __call__(self, *arguments: Any) -> Any:
        if torch.compiler.is_compiling():
            return self.operator(*arguments)
        return self.function.apply(*arguments)

    def _resolve_static(self, static: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return the static arguments, with the semiring in place of its text."""
        place = self._semiring_index
        return static if place < 0 else (*static[:place], semiring_of(static[place]), *static[place + 1 :])

    def _split_with_plan(self, arguments: Sequence[Any]) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        """Return the tensors, and the static arguments followed by the plan."""
        arrays, static = self.primitive.split(arguments)
        static, plan = self._resolve_static(static), self.primitive.plan
        return arrays, static if plan is None else (*static, *plan(_LIBRARY, arrays, *static))

    def _run(self, *arguments: Any) -> Any:
        arrays, others = self._split_with_plan(arguments)
        return _call_on_arrays(self.primitive.forward, arrays, *others)

    def _make_fake(self, *arguments: Any) -> Any:
        """Return tensors of the shapes and dtypes of the results, without contents, for the compiler."""
        arrays, others = self._split_with_plan(arguments)
        shapes = self.primitive.shapes(_LIBRARY, *arrays, *others)
        like = arrays[0]
        results = tuple(like.new_empty(shape, dtype=dtype and getattr(torch, dtype)) for shape, dtype in shapes)
        return results if self.primitive.outputs > 1 else results[0]

    def _save_arrays(self, ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        arrays, ctx.static = self.primitive.split(inputs)
        ctx.set_materialize_grads(False)  # zeros in place of absent gradients would take time
        ctx.save_for_backward(*self.primitive.saved_arrays(arrays, output))

    def _backward(self, ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, ...]:
        """Return the gradient by each argument, which is None for static arguments."""
        nothing, count = self._no_gradients, len(self.primitive.arrays)
        if gradients[0] is None and all(g is None for g in gradients):
            return (None,) * count + nothing
        static, needs = self._resolve_static(ctx.static), ctx.needs_input_grad[:count]
        return *self.primitive.gradient(_LIBRARY, ctx.saved_tensors, static, gradients, needs), *nothing

    def _apply_vmap(self, info: Any, in_dims: tuple[int | None, ...], *arguments: Any) -> tuple[Any, Any]:
        """Apply the operator to stacks, whose new dimension comes first, as the rule for `torch.func.vmap`."""
        stacks = [
            x if not isinstance(x, Tensor) else x.expand(info.batch_size, *x.shape) if d is None else x.movedim(d, 0)
            for x, d in zip(arguments, in_dims, strict=True)
        ]
        result = self.operator(*stacks)
        return result, (0,) * len(result) if isinstance(result, tuple) else 0


_OPERATORS = {name: DifferentiableOperator(primitive) for name, primitive in PRIMITIVES.items()}

closure, closure_trees = _OPERATORS["closure"], _OPERATORS["closure_trees"]
entry_product, entry_product_with_places = (_OPERATORS[name] for name in ("entry_product", "entry_product_with_places"))
entry_scaled_product = _OPERATORS["entry_scaled_product"]
matmul, matmul_witness = _OPERATORS["matmul"], _OPERATORS["matmul_witness"]
multiply = _OPERATORS["multiply"]
multi_dot, scan = _OPERATORS["multi_dot"], _OPERATORS["scan"]
scaled_product, sums_down, sums_up = (_OPERATORS[name] for name in ("scaled_product", "sums_down", "sums_up"))
