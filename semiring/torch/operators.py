"""The custom operators behind `semiring.torch`: what runs, what the compiler is told, and how each is differentiated.

An operator takes its semiring as text (`semiring.autodiff.rules.key_of`). Backward passes consist of operations of
PyTorch and of these operators, so they are compiled, batched and differentiated like everything else. That is why each
operator is called by its `Differentiable`.
"""

# mypy: disallow-untyped-decorators=False
# (those of PyTorch)

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from semiring.algebra import Semiring
from semiring.algebra.expressions import Expression
from semiring.algebra.expressions.tree import array_functions
from semiring.arrays.tensors import array_of, is_half_tensor, tensor_of
from semiring.autodiff import forward, path_trees, scaled, sequences
from semiring.autodiff.rules import factors, rule_of, semiring_of
from semiring.errors import AlgebraError
from semiring.linalg.sequences import Given

__all__ = [
    "closure",
    "closure_trees",
    "matmul",
    "matmul_witness",
    "multi_dot",
    "multiply",
    "scaled_product",
    "scan",
    "sums_down",
    "sums_up",
]


def _on_arrays(function: Callable[..., Any], tensors: tuple[Tensor | None, ...], *others: Any) -> Any:
    """The function on NumPy (on a GPU: CuPy) views of the tensors; its results as tensors that share their memory."""
    plain = [None if tensor is None else tensor.detach() for tensor in tensors]
    first = next(tensor for tensor in plain if tensor is not None)
    if first.device.type == "cpu":
        hosted = (x if x is None else array_of(x) if is_half_tensor(x) else x.numpy() for x in plain)
        return _exported(tensor_of, function(*hosted, *others))
    from semiring.arrays.device import as_cupy, on_device

    with on_device([tensor for tensor in plain if tensor is not None]):
        arrays = (None if tensor is None else as_cupy(tensor) for tensor in plain)
        return _exported(torch.from_dlpack, function(*arrays, *others))


def _exported(convert: Callable[[Any], Tensor], results: Any) -> Any:
    if isinstance(results, tuple):
        return tuple(None if result is None else convert(result) for result in results)
    return convert(results)


class Differentiable:
    """A custom operator with its gradient, for the compiler, for autograd and for the transforms of `torch.func`.

    The compiler wants the gradient registered with the operator, where `torch.func` does not find it: that wants an
    `autograd.Function`.
    """

    def __init__(self, operator: Any, keep: Callable[..., None], backward: Callable[..., Any]) -> None:
        self.operator = operator
        operator.register_autograd(backward, setup_context=keep)
        operator.register_vmap(self._batched)
        self.function: Any = type(
            f"{operator._name}_function",
            (torch.autograd.Function,),
            {
                "forward": staticmethod(operator),
                "setup_context": staticmethod(keep),
                "backward": staticmethod(backward),
                "generate_vmap_rule": True,
            },
        )

    def __call__(self, *arguments: Any) -> Any:
        if torch.compiler.is_compiling():
            return self.operator(*arguments)
        return self.function.apply(*arguments)

    def _batched(self, info: Any, in_dims: tuple[int | None, ...], *arguments: Any) -> tuple[Any, Any]:
        """The rule of `torch.func.vmap`: all operators take stacks, whose new dimension comes first."""
        stacks = [
            x if not isinstance(x, Tensor) else x.expand(info.batch_size, *x.shape) if d is None else x.movedim(d, 0)
            for x, d in zip(arguments, in_dims, strict=True)
        ]
        result = self.operator(*stacks)
        return result, (0,) * len(result) if isinstance(result, tuple) else 0


# ---------------------------------------------------------------------------------------------------------- products


@torch.library.custom_op("semiring::matmul", mutates_args=())
def _matmul(A: Tensor, B: Tensor, key: str, check: bool) -> Tensor:
    """A ⊗ B for A (..., m, k), B (..., k, n) of the same number of dimensions. Gradients: log_plus and plus_times."""
    return _on_arrays(forward.product, (A, B), semiring_of(key), check)


@torch.library.custom_op("semiring::matmul_witness", mutates_args=())
def _matmul_witness(A: Tensor, B: Tensor, key: str, check: bool) -> tuple[Tensor, Tensor]:
    """A ⊗ B and its int32 witness, for a selective ⊕."""
    C, W = _on_arrays(forward.product_with_witness, (A, B), semiring_of(key), check)
    return C, W


def _product_shape(A: Tensor, B: Tensor) -> tuple[int, ...]:
    return (*torch.broadcast_shapes(A.shape[:-2], B.shape[:-2]), A.shape[-2], B.shape[-1])


@_matmul.register_fake
def _(A: Tensor, B: Tensor, key: str, check: bool) -> Tensor:
    return A.new_empty(_product_shape(A, B))


@_matmul_witness.register_fake
def _(A: Tensor, B: Tensor, key: str, check: bool) -> tuple[Tensor, Tensor]:
    shape = _product_shape(A, B)
    return A.new_empty(shape), A.new_empty(shape, dtype=torch.int32)


def _keep_product(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    A, B, ctx.key, _ = inputs
    ctx.save_for_backward(A, B, output[1] if isinstance(output, tuple) else output)


def _matmul_backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
    A, B, C = ctx.saved_tensors
    dA = dB = None
    if rule_of(semiring_of(ctx.key)) == "plus_times":
        dA = (g @ B.mT).sum_to_size(A.shape) if ctx.needs_input_grad[0] else None
        dB = (A.mT @ g).sum_to_size(B.shape) if ctx.needs_input_grad[1] else None
        return dA, dB, None, None
    minus = _negated(C)
    A_, B_ = (x.expand(*C.shape[:-2], *x.shape[-2:]) for x in (A, B))
    if ctx.needs_input_grad[0]:  # Σⱼ g[i, j] · exp(A[i, k] + B[k, j] - C[i, j])
        dA = scaled_product(g, minus, torch.ones_like(B_.mT), B_.mT, A_).sum_to_size(A.shape)
    if ctx.needs_input_grad[1]:
        dB = scaled_product(torch.ones_like(A_.mT), A_.mT, g, minus, B_).sum_to_size(B.shape)
    return dA, dB, None, None


def _negated(C: Tensor) -> Tensor:
    """The exponents -C, of weights that are 0 where there is no path."""
    return torch.where(torch.isneginf(C), -torch.inf, -C)


def _witness_backward(ctx: Any, g: Tensor, _: Any) -> tuple[Tensor | None, ...]:
    A, B, W = ctx.saved_tensors
    if not A.shape[-1]:  # sums of no terms
        return torch.zeros_like(A), torch.zeros_like(B), None, None
    da, db = _selected(semiring_of(ctx.key), A, B, W)
    there, index = W >= 0, W.clamp_min(0).long()
    dA = _scatter(torch.where(there, g * da, 0.0), index, -1, A) if ctx.needs_input_grad[0] else None
    dB = _scatter(torch.where(there, g * db, 0.0), index, -2, B) if ctx.needs_input_grad[1] else None
    return dA, dB, None, None


def _selected(semiring: Semiring, A: Tensor, B: Tensor, W: Tensor) -> tuple[Any, Any]:
    """The derivatives of A[i, w] ⊗ B[w, j] by both, at w = W[i, j] ≥ 0: tensors (..., m, n), or numbers."""
    by_x, by_y = factors(semiring)
    values = {}
    there, index, batch = W >= 0, W.clamp_min(0).long(), W.shape[:-2]
    for name, operand, axis in (("x", A, -1), ("y", B, -2)):
        if name in by_x.variables | by_y.variables:
            gathered = operand.expand(*batch, *operand.shape[-2:]).gather(axis, index)
            values[name] = torch.where(there, gathered, 1.0)  # derivatives of a place that is not used are not NaN
    return _evaluate(by_x, values), _evaluate(by_y, values)


def _evaluate(expression: Expression, values: dict[str, Tensor]) -> Any:
    if not expression.variables:
        return float(expression.evaluate({}, np.dtype(np.float64)))
    some = next(iter(values.values()))
    functions = array_functions(torch)

    def leaf(node: Expression) -> Tensor:
        return values[str(node.leaf)] if node.op == "var" else some.new_full((), node.leaf)

    return expression.fold(leaf, lambda node, args: functions[node.op](*args))


def _scatter(terms: Tensor, index: Tensor, axis: int, operand: Tensor) -> Tensor:
    """The sums of the terms that came from the same entry of the operand: the transpose of its gather."""
    shape = (*terms.shape[:-2], *operand.shape[-2:])
    return terms.new_zeros(shape).scatter_add(axis, index, terms).sum_to_size(operand.shape)


matmul = Differentiable(_matmul, _keep_product, _matmul_backward)
matmul_witness = Differentiable(_matmul_witness, _keep_product, _witness_backward)


# ------------------------------------------------------------------------------------------------ entrywise products


@torch.library.custom_op("semiring::multiply", mutates_args=())
def _multiply(A: Tensor, B: Tensor, key: str, check: bool) -> Tensor:
    """Return A ⊗ B entry by entry, of tensors with as many dimensions that broadcast."""
    return _on_arrays(forward.entrywise, (A, B), semiring_of(key), check)


@_multiply.register_fake
def _(A: Tensor, B: Tensor, key: str, check: bool) -> Tensor:
    return A.new_empty(torch.broadcast_shapes(A.shape, B.shape))


def _multiply_backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
    A, B, C = ctx.saved_tensors
    semiring = semiring_of(ctx.key)
    # An entry that is 0̄ has no gradient, as in `matmul`; 0 of plus_times is a number like others.
    there = torch.ones_like(C, dtype=torch.bool)
    if rule_of(semiring) != "plus_times":
        there = semiring.zero_for(np.dtype(np.float64)).item() != C
    values = {name: torch.where(there, operand, 1.0) for name, operand in (("x", A), ("y", B))}
    terms = (torch.where(there, g * _evaluate(factor, values), 0.0) for factor in factors(semiring))
    dA, dB = (
        term.sum_to_size(operand.shape) if needed else None
        for term, operand, needed in zip(terms, (A, B), ctx.needs_input_grad, strict=False)
    )
    return dA, dB, None, None


multiply = Differentiable(_multiply, _keep_product, _multiply_backward)


# ---------------------------------------------------------------------------------------------------------- closures


@torch.library.custom_op("semiring::closure", mutates_args=())
def _closure(A: Tensor, key: str, reflexive: bool, check: bool, rounded_to: str) -> Tensor:
    """A*, or A⁺, for A (..., n, n). Gradients: log_plus and plus_times, A* only."""
    return _on_arrays(forward.closed, (A,), semiring_of(key), reflexive, check, rounded_to)


@torch.library.custom_op("semiring::closure_trees", mutates_args=())
def _closure_trees(A: Tensor, key: str, check: bool, rounded_to: str) -> tuple[Tensor, Tensor]:
    """A* and its int32 predecessors, for a selective ⊕."""
    D, pred = _on_arrays(forward.closed_with_trees, (A,), semiring_of(key), check, rounded_to)
    return D, pred


@_closure.register_fake
def _(A: Tensor, key: str, reflexive: bool, check: bool, rounded_to: str) -> Tensor:
    return A.new_empty(A.shape)


@_closure_trees.register_fake
def _(A: Tensor, key: str, check: bool, rounded_to: str) -> tuple[Tensor, Tensor]:
    return A.new_empty(A.shape), A.new_empty(A.shape, dtype=torch.int32)


def _keep_closure(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    ctx.key = inputs[1]
    ctx.save_for_backward(inputs[0], *(output if isinstance(output, tuple) else (output,)))


def _closure_backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
    A, S = ctx.saved_tensors
    if rule_of(semiring_of(ctx.key)) == "plus_times":
        return S.mT @ g @ S.mT, None, None, None, None
    # exp(S[i, k] + A[k, l] + S[l, j] - S[i, j]): first the sum over i, of what flows over k to j, then that over j.
    ones, back = torch.ones_like(S), S.mT
    through = scaled_product(ones, back, g, _negated(S), S)
    return scaled_product(through, _negated(S), ones, back, A), None, None, None, None


def _trees_backward(ctx: Any, g: Tensor, _: Any) -> tuple[Tensor | None, ...]:
    A, D, pred = ctx.saved_tensors
    dx, dy = _selected(semiring_of(ctx.key), D, A, pred)
    there, wide = pred >= 0, torch.promote_types(g.dtype, torch.float32)
    below = sums_up(torch.where(there, dx, 0.0).to(wide), g.to(wide), pred)
    terms = torch.where(there, below * dy, 0.0)
    return _scatter(terms, pred.clamp_min(0).long(), -2, A).to(g.dtype), None, None, None


closure = Differentiable(_closure, _keep_closure, _closure_backward)
closure_trees = Differentiable(_closure_trees, _keep_closure, _trees_backward)


# --------------------------------------------------------------------------------------------------------- sequences


def _of_given(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function of `Given` as one of its four arrays: operators take tensors one by one."""
    return lambda A, x, weights, lengths, *others: function(Given(A, x, weights, lengths), *others)


@torch.library.custom_op("semiring::scan", mutates_args=())
def _scan(
    A: Tensor, x: Tensor, weights: Tensor | None, lengths: Tensor | None, steps: int, key: str, check: bool
) -> Tensor:
    """The states after every step, (..., steps, n), of what `semiring.linalg.sequences.Chain` takes."""
    return _on_arrays(_of_given(sequences.scanned), (A, x, weights, lengths), steps, semiring_of(key), check)


@torch.library.custom_op("semiring::multi_dot", mutates_args=())
def _multi_dot(
    A: Tensor, x: Tensor, weights: Tensor | None, lengths: Tensor | None, steps: int, key: str, check: bool
) -> tuple[Tensor, Tensor]:
    """The state after the last step, (..., n), and what is kept for the gradient, (..., `_lines`, n)."""
    kept = _lines(A, x, weights, lengths, steps, key)
    end, borders = _on_arrays(
        _of_given(sequences.ended), (A, x, weights, lengths), steps, semiring_of(key), check, kept
    )
    return end, borders


@torch.library.custom_op("semiring::sequence_gradient", mutates_args=())
def _sequence_gradient(
    A: Tensor,
    x: Tensor,
    weights: Tensor | None,
    lengths: Tensor | None,
    borders: Tensor,
    g: Tensor,
    steps: int,
    key: str,
) -> tuple[Tensor, Tensor, Tensor]:
    """`semiring.autodiff.sequences.pulled`; without weights the last is empty."""
    dA, dx, dw = _on_arrays(_of_given(sequences.pulled), (A, x, weights, lengths, borders, g), steps, semiring_of(key))
    return dA, dx, A.new_empty(0) if dw is None else dw


def _batch(A: Tensor, x: Tensor, weights: Tensor | None, lengths: Tensor | None) -> tuple[int, ...]:
    shape: tuple[int, ...] = torch.broadcast_shapes(*Given(A, x, weights, lengths).batches)
    return shape


def _lines(A: Tensor, x: Tensor, weights: Any, lengths: Any, steps: int, key: str) -> int:
    """How many vectors are kept for the gradient of each sequence."""
    batch, name = _batch(A, x, weights, lengths), str(x.dtype).removeprefix("torch.")
    on_host = x.device.type == "cpu"
    return sequences.lines(semiring_of(key), tuple(A.shape), batch, x.shape[-1], steps, name, on_host)


@_scan.register_fake
def _(
    A: Tensor, x: Tensor, weights: Tensor | None, lengths: Tensor | None, steps: int, key: str, check: bool
) -> Tensor:
    return x.new_empty((*_batch(A, x, weights, lengths), steps, x.shape[-1]))


@_multi_dot.register_fake
def _(
    A: Tensor, x: Tensor, weights: Tensor | None, lengths: Tensor | None, steps: int, key: str, check: bool
) -> tuple[Tensor, Tensor]:
    batch, n = _batch(A, x, weights, lengths), x.shape[-1]
    return x.new_empty((*batch, n)), x.new_empty((*batch, _lines(A, x, weights, lengths, steps, key), n))


@_sequence_gradient.register_fake
def _(
    A: Tensor,
    x: Tensor,
    weights: Tensor | None,
    lengths: Tensor | None,
    borders: Tensor,
    g: Tensor,
    steps: int,
    key: str,
) -> tuple[Tensor, Tensor, Tensor]:
    last = A.new_empty(0) if weights is None else weights.new_empty(weights.shape)
    return A.new_empty(A.shape), x.new_empty(x.shape), last


def _keep_sequence(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    *arrays, ctx.steps, ctx.key, _ = inputs
    ctx.set_materialize_grads(False)  # what is kept has no gradient, and a matrix of zeros in its place takes time
    ctx.save_for_backward(*arrays, output[1] if isinstance(output, tuple) else output)


def _scan_backward(ctx: Any, g: Tensor | None) -> Any:
    if g is None:
        return (None,) * 7
    A, x, weights, lengths, X = ctx.saved_tensors
    firsts = [run.start - 1 for run in sequences.segments(ctx.steps)[1:]]
    first = x.expand(*X.shape[:-2], x.shape[-1]).unsqueeze(-2)
    return _pulled(ctx, A, x, weights, lengths, torch.cat([first, X[..., firsts, :]], -2), g)


def _multi_dot_backward(ctx: Any, g: Tensor | None, _: Any) -> Any:
    if g is None:
        return (None,) * 7
    A, x, weights, lengths, borders = ctx.saved_tensors
    return _pulled(ctx, A, x, weights, lengths, borders, g.unsqueeze(-2))


def _pulled(ctx: Any, A: Tensor, x: Tensor, weights: Any, lengths: Any, borders: Tensor, g: Tensor) -> Any:
    dA, dx, dw = sequence_gradient(A, x, weights, lengths, borders, g, ctx.steps, ctx.key)
    return dA, dx, None if weights is None else dw, None, None, None, None


def _keep_nothing(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    pass


def _once(ctx: Any, *gradients: Tensor) -> None:
    raise AlgebraError("the gradient of a sequence has no second derivative: multiply the steps one by one with matmul")


sequence_gradient = Differentiable(_sequence_gradient, _keep_nothing, _once)
scan = Differentiable(_scan, _keep_sequence, _scan_backward)
multi_dot = Differentiable(_multi_dot, _keep_sequence, _multi_dot_backward)


# ------------------------------------------------------------------------------------------ what backward passes need


@torch.library.custom_op("semiring::scaled_product", mutates_args=())
def _scaled_product(X: Tensor, alpha: Tensor, Y: Tensor, beta: Tensor, gamma: Tensor) -> Tensor:
    """`semiring.autodiff.scaled.scaled_product`."""
    return _on_arrays(scaled.scaled_product, (X, alpha, Y, beta, gamma))


@_scaled_product.register_fake
def _(X: Tensor, alpha: Tensor, Y: Tensor, beta: Tensor, gamma: Tensor) -> Tensor:
    return gamma.new_empty(gamma.shape)


def _keep_scaled(ctx: Any, inputs: tuple[Tensor, ...], output: Tensor) -> None:
    ctx.save_for_backward(*inputs, output)


def _scaled_backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
    X, alpha, Y, beta, gamma, R = ctx.saved_tensors
    needs = ctx.needs_input_grad
    dX = scaled_product(g, gamma, Y.mT, beta.mT, alpha) if needs[0] or needs[1] else None
    dY = scaled_product(X.mT, alpha.mT, g, gamma, beta) if needs[2] or needs[3] else None
    return dX, None if dX is None else X * dX, dY, None if dY is None else Y * dY, g * R


scaled_product = Differentiable(_scaled_product, _keep_scaled, _scaled_backward)


@torch.library.custom_op("semiring::sums_up", mutates_args=())
def _sums_up(c: Tensor, g: Tensor, pred: Tensor) -> Tensor:
    """`semiring.autodiff.path_trees.sums_up`."""
    return _on_arrays(path_trees.sums_up, (c, g, pred))


@torch.library.custom_op("semiring::sums_down", mutates_args=())
def _sums_down(c: Tensor, x: Tensor, pred: Tensor) -> Tensor:
    """`semiring.autodiff.path_trees.sums_down`."""
    return _on_arrays(path_trees.sums_down, (c, x, pred))


@_sums_up.register_fake
@_sums_down.register_fake
def _(c: Tensor, values: Tensor, pred: Tensor) -> Tensor:
    return values.new_empty(values.shape)


def _keep_sums(ctx: Any, inputs: tuple[Tensor, ...], output: Tensor) -> None:
    ctx.save_for_backward(inputs[0], inputs[2], output)


def _sums_up_backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
    c, pred, z = ctx.saved_tensors
    y = sums_down(c, g, pred)
    return _by_factors(z, y, pred), y, None


def _sums_down_backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
    c, pred, y = ctx.saved_tensors
    z = sums_up(c, g, pred)
    return _by_factors(z, y, pred), z, None


def _by_factors(z: Tensor, y: Tensor, pred: Tensor) -> Tensor:
    """The gradient by c[i, j] of both sums: y[i, p]·z[i, j], for the predecessor p ≠ i of j."""
    root = torch.arange(pred.shape[-1], device=pred.device).unsqueeze(1)
    before = y.gather(-1, pred.clamp_min(0).long())
    return torch.where((pred >= 0) & (pred != root), before * z, 0.0)


sums_up = Differentiable(_sums_up, _keep_sums, _sums_up_backward)
sums_down = Differentiable(_sums_down, _keep_sums, _sums_down_backward)
