"""Define the table of differentiable primitives: the computation, the shapes and the gradient of each.

`semiring.torch.operators` and `semiring.jax` register each primitive with their library and translate arrays. They add
nothing to the mathematics. A gradient consists of operations of the library and of other primitives, so it is compiled,
batched and differentiated like everything else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, Protocol, TypeAlias

import numpy as np

from semiring.algebra import Semiring
from semiring.algebra.expressions import Expression
from semiring.algebra.expressions.tree import array_functions
from semiring.algebra.operations import numpy_dtype
from semiring.autodiff import entry_products, path_trees, scaled_products, sequence_gradients
from semiring.autodiff.rules import factors, rule_of
from semiring.closures import closure_of_rounded, closure_with_predecessors
from semiring.errors import AlgebraError, TooLargeError
from semiring.linalg import matmul, multiply
from semiring.linalg.sequences import ChainArrays
from semiring.namespaces import Array, array_namespace

__all__ = [
    "PRIMITIVES",
    "ArrayLibrary",
    "Primitive",
    "closure_with_trees",
    "entrywise",
    "product",
    "product_with_witness",
    "stack_closure",
]


def product(A: Array, B: Array, semiring: Semiring, check: bool) -> Array:
    """Return A ⊗ B for A (..., m, k) and B (..., k, n) with as many dimensions; leading dimensions broadcast."""
    result: Array = matmul(*_as_stacks(A, B), semiring, check=check)
    return result.reshape(*np.broadcast_shapes(A.shape[:-2], B.shape[:-2]), *result.shape[-2:])


def product_with_witness(A: Array, B: Array, semiring: Semiring, check: bool) -> tuple[Array, Array]:
    """Return `product`, and int32 W (..., m, n): the smallest k that attains an entry, or -1 if the entry is 0̄."""
    C: Array
    W: Array
    C, W = matmul(*_as_stacks(A, B), semiring, return_witness=True, check=check)
    batch = np.broadcast_shapes(A.shape[:-2], B.shape[:-2])
    W = W.astype(np.int32, copy=False)
    return C.reshape(*batch, *C.shape[-2:]), W.reshape(*batch, *W.shape[-2:])


def entrywise(A: Array, B: Array, semiring: Semiring, check: bool) -> Any:
    """Return A ⊗ B entry by entry, of arrays that broadcast."""
    return array_namespace(A).asarray(multiply(A, B, semiring, check=check))


def _as_stacks(A: Array, B: Array) -> tuple[Array, Array]:
    """Return A, and B as a matrix if it is a stack of one matrix, because one product then serves all rows of A."""
    return A, (B.reshape(B.shape[-2:]) if B.ndim > 2 and prod(B.shape[:-2]) == 1 else B)


def stack_closure(A: Array, semiring: Semiring, reflexive: bool, check: bool, rounded_to: str = "") -> Any:
    """Return A*, or A⁺, for A (..., n, n).

    ``rounded_to`` is the dtype to which the entries were rounded, if it is not the dtype of A.
    """
    return closure_of_rounded(A, semiring, numpy_dtype(rounded_to or A.dtype), reflexive=reflexive, check=check)


def closure_with_trees(A: Array, semiring: Semiring, check: bool, rounded_to: str = "") -> tuple[Array, Array]:
    """Return A* and int32 predecessors, for A (..., n, n): row i of each matrix is a tree of best paths from i.

    Predecessors are negative where no path exists, and on the diagonal. ``rounded_to`` is as in `stack_closure`.
    """
    narrow = numpy_dtype(rounded_to) if rounded_to else None
    xp = array_namespace(A)
    D, pred = xp.empty(A.shape, A.dtype), xp.empty(A.shape, np.int32)
    for index in np.ndindex(A.shape[:-2]):
        D[index], pred[index] = closure_with_predecessors(A[index], semiring, check=check, rounded_to=narrow)
    return D, pred


Arrays: TypeAlias = Sequence[Any]  # arrays; None in place of an optional operand that is absent
Gradients: TypeAlias = tuple[Any, ...]

_WIDE = np.dtype(np.float64)


class ArrayLibrary(Protocol):
    """The operations of shapes and gradients whose names or arguments differ between the libraries."""

    @property
    def xp(self) -> Any:
        """The module, with where, ones_like, zeros_like, isneginf, broadcast_to, broadcast_shapes, concatenate, etc."""

    def call(self, name: str, *arguments: Any) -> Any:
        """Call a primitive so that it can be differentiated: its arrays, then its static arguments."""

    def cast(self, x: Array, dtype: Any) -> Array:
        """Return x in a dtype of the library."""

    def constant(self, value: float, like: Array) -> Array:
        """Return an array without dimensions, with the dtype and the device of another."""

    def arange(self, n: int, like: Array) -> Array:
        """Return the integers below n, on the device of another array."""

    def indices(self, W: Array) -> Array:
        """Return indices that `gather` takes: 0 where W is negative."""

    def gather(self, x: Array, indices: Array, axis: int) -> Array:
        """Return the entries of x at indices along an axis, as `numpy.take_along_axis`."""

    def scatter_add(self, terms: Array, indices: Array, axis: int, shape: tuple[int, ...]) -> Array:
        """Return zeros of the shape, with the terms added at indices along an axis: the transpose of `gather`."""

    def sum_to(self, x: Array, shape: tuple[int, ...]) -> Array:
        """Return the sum over the dimensions along which the shape was broadcast to that of x."""

    def dtype_name(self, x: Array) -> str:
        """Return the name that NumPy has for the dtype."""

    def is_on_host(self, x: Array) -> bool:
        """Return whether the forward function gets NumPy's arrays."""


@dataclass(frozen=True, eq=False)
class Primitive:
    """A function of arrays and static arguments, with a gradient.

    Parameters
    ----------
    name
        The name in `PRIMITIVES`.
    arrays
        The names of the array operands. An operand whose name ends in ``?`` may be None.
    static
        The names of the static arguments, which follow the arrays and have the types in `STATIC`.
    forward
        The function ``forward(*arrays, *static, *plan)`` that computes the outputs from arrays of NumPy or CuPy. It
        returns an array, or a tuple of arrays.
    shapes
        The function ``shapes(library, *arrays, *static, *plan)`` that returns the shape and the dtype of each output.
        The dtype None is that of the first operand.
    saved_indices
        The indices, in the operands followed by the outputs, of the arrays that the gradient needs.
    gradient
        The function ``gradient(library, saved_arrays, static, g, needs)`` that returns the gradient by each operand.
        ``g`` are the gradients by the outputs, and ``needs`` says which gradients are needed. A gradient is None if the
        operand has none, or it is not needed.
    plan
        The function ``plan(library, arrays, *static)`` that returns additional arguments. It receives the operands of
        the caller, before they are batched. None: the primitive has no such arguments.
    selective_form
        The name of the primitive with the same first output and the gradient for a selective ⊕, and the indices of the
        static arguments that it takes.
    outputs
        The number of outputs.
    """

    name: str
    arrays: tuple[str, ...]
    static: tuple[str, ...]
    forward: Callable[..., Any]
    shapes: Callable[..., tuple[tuple[tuple[int, ...], str | None], ...]]
    saved_indices: tuple[int, ...]
    gradient: Callable[..., Gradients]
    plan: Callable[..., tuple[Any, ...]] | None = None
    selective_form: tuple[str, tuple[int, ...]] | None = None
    outputs: int = 1

    def split(self, arguments: Sequence[Any]) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        """Return the array operands and the static arguments."""
        count = len(self.arrays)
        return tuple(arguments[:count]), tuple(arguments[count:])

    def saved_arrays(self, arrays: Arrays, outputs: Any) -> tuple[Any, ...]:
        """Return the operands and outputs that the gradient takes."""
        everything = (*arrays, *(outputs if self.outputs > 1 else (outputs,)))
        return tuple(everything[place] for place in self.saved_indices)

    def gradient_form(self, static: tuple[Any, ...]) -> tuple[Primitive, tuple[Any, ...]]:
        """Return the primitive whose gradient is taken, with its static arguments: `selective_form` for a selective ⊕.

        Raises `AlgebraError` if the semiring has no gradient.
        """
        if "semiring" not in self.static:
            return self, static
        rule = rule_of(static[self.static.index("semiring")])
        if self.selective_form is None or rule != "selective":
            return self, static
        name, places = self.selective_form
        return PRIMITIVES[name], tuple(static[place] for place in places)


#: The types of the static arguments. PyTorch takes a semiring as text.
STATIC: Mapping[str, type] = {
    "semiring": Semiring,
    "check": bool,
    "reflexive": bool,
    "rounded_to": str,
    "steps": int,
    "rows": int,
    "inner": int,
    "columns": int,
    "is_padded": bool,
}


def _transpose(x: Array) -> Any:
    return x.swapaxes(-1, -2)


# ----------------------------------------------------------------------------------------------------------- products


def _product_shape(library: ArrayLibrary, A: Array, B: Array) -> tuple[int, ...]:
    return (*library.xp.broadcast_shapes(A.shape[:-2], B.shape[:-2]), A.shape[-2], B.shape[-1])


def _product_gradient(
    library: ArrayLibrary, saved_arrays: Arrays, static: Any, g: Arrays, needs: Sequence[bool]
) -> Gradients:
    """Return the gradient of a product in log_plus or plus_times by both operands."""
    (A, B, C), (g,) = saved_arrays, g
    xp, dA, dB = library.xp, None, None
    if rule_of(static[0]) == "plus_times":
        dA = g @ _transpose(B) if needs[0] else None
        dB = _transpose(A) @ g if needs[1] else None
    else:  # exp(A[i, k] + B[k, j] - C[i, j])
        minus = _negate_exponents(library, C)
        A_, B_ = (xp.broadcast_to(x, (*C.shape[:-2], *x.shape[-2:])) for x in (A, B))
        left, right = _transpose(A_), _transpose(B_)
        dA = library.call("scaled_product", g, minus, xp.ones_like(right), right, A_) if needs[0] else None
        dB = library.call("scaled_product", xp.ones_like(left), left, g, minus, B_) if needs[1] else None
    return (
        None if dA is None else library.sum_to(dA, A.shape),
        None if dB is None else library.sum_to(dB, B.shape),
    )


def _negate_exponents(library: ArrayLibrary, C: Array) -> Any:
    """Return the exponents -C, of weights that are 0 where there is no path."""
    return library.xp.where(library.xp.isneginf(C), -np.inf, -C)


def _witness_gradient(
    library: ArrayLibrary, saved_arrays: Arrays, static: Any, g: Arrays, needs: Sequence[bool]
) -> Gradients:
    """Return the gradient of a product with a selective ⊕ by both operands."""
    A, B, W = saved_arrays
    xp = library.xp
    if not A.shape[-1]:  # sums of no terms
        return xp.zeros_like(A), xp.zeros_like(B)
    da, db = _selected_derivatives(library, static[0], A, B, W)
    has_witness = W >= 0
    return (
        _scatter_to_operand(library, xp.where(has_witness, g[0] * da, 0.0), W, -1, A) if needs[0] else None,
        _scatter_to_operand(library, xp.where(has_witness, g[0] * db, 0.0), W, -2, B) if needs[1] else None,
    )


def _selected_derivatives(library: ArrayLibrary, semiring: Semiring, A: Array, B: Array, W: Array) -> tuple[Any, Any]:
    """Return the derivatives of A[i, w] ⊗ B[w, j] by both, at w = W[i, j] ≥ 0: arrays (..., m, n), or numbers."""
    by_x, by_y = factors(semiring)
    values, has_witness, indices, xp = {}, W >= 0, library.indices(W), library.xp
    for name, operand, axis in (("x", A, -1), ("y", B, -2)):
        if name in by_x.variables | by_y.variables:
            whole = xp.broadcast_to(operand, (*W.shape[:-2], *operand.shape[-2:]))
            # Unused places have the operand 1, so that their derivatives are not NaN.
            values[name] = xp.where(has_witness, library.gather(whole, indices, axis), 1.0)
    return _evaluate(library, by_x, values), _evaluate(library, by_y, values)


def _evaluate(library: ArrayLibrary, expression: Expression, values: dict[str, Array]) -> Any:
    """Return the values of an expression by operations of the library, or a number for a constant."""
    if not expression.variables:
        return float(expression.evaluate({}, _WIDE))
    like, functions = next(iter(values.values())), array_functions(library.xp)

    def leaf(node: Expression) -> Array:
        return values[str(node.leaf)] if node.op == "var" else library.constant(node.leaf, like)  # type: ignore[arg-type]

    return expression.fold(leaf, lambda node, args: functions[node.op](*args))


def _scatter_to_operand(library: ArrayLibrary, terms: Array, W: Array, axis: int, operand: Array) -> Array:
    """Return, for each entry of the operand, the sum of the terms that used it: the transpose of its gather."""
    shape = (*terms.shape[:-2], *operand.shape[-2:])
    return library.sum_to(library.scatter_add(terms, library.indices(W), axis, shape), operand.shape)


# The next primitives have operands A, B and a result C that are dense matrices, or values at places: `entry_products`.


def _entries_shape(
    library: ArrayLibrary, A: Array, B: Array, places: Sequence[Any], rows: int, columns: int
) -> tuple[int, ...]:
    batch = library.xp.broadcast_shapes(
        *(x.shape[: -1 - (place is None)] for x, place in zip((A, B), places, strict=False)),
        *(place.shape[:-2] for place in places if place is not None),
    )
    return (*batch, *((rows, columns) if places[2] is None else places[2].shape[-1:]))


def _place_shapes(
    library: ArrayLibrary,
    A: Array,
    B: Array,
    A_places: Any,
    B_places: Any,
    C_places: Any,
    rows: int,
    inner: int,
    columns: int,
    *static: Any,
) -> tuple[tuple[tuple[int, ...], str | None], ...]:
    shape = _entries_shape(library, A, B, (A_places, B_places, C_places), rows, columns)
    batch = shape[: len(shape) - (2 if C_places is None else 1)]
    return (shape, None), (shape, "int32"), ((*batch, 0) if B_places is None else shape, "int32")


def _turn(x: Any, places: Any) -> Any:
    """Return the transpose of an operand, whose entries have the places; without an operand that of the places."""
    if places is not None:
        return x if x is not None else places[..., [1, 0], :]
    return None if x is None else _transpose(x)


def _entries_gradient(
    library: ArrayLibrary, saved_arrays: Arrays, static: Any, g: Arrays, needs: Sequence[bool]
) -> Gradients:
    """Return the gradient of a product of entries in log_plus or plus_times by both operands."""
    A, B, *places, C = saved_arrays
    m, k, n, semiring, *_ = static
    dA = dB = None
    if rule_of(semiring) == "plus_times":
        for_A, for_B = _roles(places, (m, k, n))
        if needs[0]:
            dA = library.call("entry_product", g[0], _turn(B, places[1]), *for_A, semiring, False, True)
        if needs[1]:
            dB = library.call("entry_product", _turn(A, places[0]), g[0], *for_B, semiring, False, True)
    else:
        minus, ones = _negate_exponents(library, C), library.constant(1.0, A)
        one_A, one_B = (library.xp.broadcast_to(ones, x.shape) for x in (A, B))
        scaled = g[0], minus, one_A, A, one_B, B
        dA, dB = _scaled_factors(library, scaled, places, (m, k, n), needs[:2])
    return (
        None if dA is None else library.sum_to(dA, A.shape),
        None if dB is None else library.sum_to(dB, B.shape),
        *(None, None, None),
    )


def _roles(places: Sequence[Any], sizes: tuple[int, int, int]) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Return the places and sizes of the products C ⊗ Bᵀ at the places of A, and Aᵀ ⊗ C at those of B."""
    (P, Q, R), (m, k, n) = places, sizes
    return (R, _turn(None, Q), P, m, n, k), (_turn(None, P), R, Q, k, m, n)


def _scaled_factors(
    library: ArrayLibrary, arrays: Arrays, places: Sequence[Any], sizes: tuple[int, int, int], needs: Sequence[bool]
) -> tuple[Any, Any]:
    """Return the derivatives of Σ G·X·Y·exp(gamma + alpha + beta) by X and by Y, of G, gamma, X, alpha, Y and beta."""
    G, gamma, X, alpha, Y, beta = arrays
    for_X, for_Y = _roles(places, sizes)
    dX = dY = None
    for operand in (1, 0) if places[0] is not None else (0, 1):  # a sort of the places before the sums at the places
        if operand == 0 and needs[0]:
            turned = (_turn(x, places[1]) for x in (Y, beta))
            dX = library.call("entry_scaled_product", G, gamma, *turned, alpha, *for_X)
        if operand == 1 and needs[1]:
            turned = (_turn(x, places[0]) for x in (X, alpha))
            dY = library.call("entry_scaled_product", *turned, G, gamma, beta, *for_Y)
    return dX, dY


def _entries_scaled_gradient(
    library: ArrayLibrary, saved_arrays: Arrays, static: Any, g: Arrays, needs: Sequence[bool]
) -> Gradients:
    """Return the gradient of `entry_products.entry_scaled_product` by its five operands."""
    X, alpha, Y, beta, gamma, *places, R = saved_arrays
    arrays = g[0], gamma, X, alpha, Y, beta
    dX, dY = _scaled_factors(library, arrays, places, static, (needs[0] or needs[1], needs[2] or needs[3]))
    dX, dY = (None if d is None else library.sum_to(d, x.shape) for d, x in ((dX, X), (dY, Y)))
    by_alpha, by_beta = (None if d is None else x * d for d, x in ((dX, X), (dY, Y)))
    return dX, by_alpha, dY, by_beta, library.sum_to(g[0] * R, gamma.shape), *(None, None, None)


def _selected_entries_gradient(
    library: ArrayLibrary, saved_arrays: Arrays, static: Any, g: Arrays, needs: Sequence[bool]
) -> Gradients:
    """Return the gradient of a product of entries with a selective ⊕ by both operands."""
    A, B, *places, from_A, from_B = saved_arrays
    xp, (_, inner, n, semiring, *_) = library.xp, static
    if not prod(A.shape) or not prod(B.shape):
        return xp.zeros_like(A), xp.zeros_like(B), *(None, None, None)
    is_reached, first = from_A >= 0, library.indices(from_A)
    if places[2] is None:
        i, j = library.arange(from_A.shape[-2], from_A)[:, None], library.arange(n, from_A)
    else:
        i, j = (library.indices(places[2][..., side, :]) for side in (0, 1))
    dimensions = from_A.ndim - (2 if places[2] is None else 1)  # those of the batch
    columns = None if places[0] is None else places[0][..., 1, :]
    k = first if columns is None else library.indices(_UsedEntries(library, columns, 1, first, dimensions).gather())
    flat_A = first if columns is not None else i * inner + k
    flat_B = library.indices(from_B) if places[1] is not None else k * n + j
    used = [
        _UsedEntries(library, x, 1 + (place is None), flat, dimensions)
        for x, flat, place in ((A, flat_A, places[0]), (B, flat_B, places[1]))
    ]
    operands = {name: xp.where(is_reached, x.gather(), 1.0) for name, x in zip("xy", used, strict=True)}
    terms = (xp.where(is_reached, g[0] * _evaluate(library, factor, operands), 0.0) for factor in factors(semiring))
    dA, dB = (x.scatter_add(term) if needed else None for x, term, needed in zip(used, terms, needs, strict=False))
    return dA, dB, *(None, None, None)


class _UsedEntries:
    """The entries of an operand that the values of a result use, by their positions in the flattened operand.

    ``x`` has ``rank`` dimensions beside those of its batch, and ``indices`` have ``dimensions`` for the batch.
    """

    def __init__(self, library: ArrayLibrary, x: Array, rank: int, indices: Array, dimensions: int) -> None:
        self.library, self.x, self.shape = library, x, indices.shape
        self.batch, self.size = indices.shape[:dimensions], prod(x.shape[len(x.shape) - rank :])
        if self.size > 2**31 and library.dtype_name(indices) == "int32":
            raise TooLargeError(
                f"an operand has {self.size:,} entries, too many for indices of int32: enable x64 of JAX"
            )
        self.indices = indices.reshape(*self.batch, prod(indices.shape[dimensions:]))
        self.flat = x.reshape(*x.shape[: len(x.shape) - rank], self.size)

    def gather(self) -> Any:
        """Return the entries, in the shape of the indices."""
        whole = self.library.xp.broadcast_to(self.flat, (*self.batch, self.size))
        return self.library.gather(whole, self.indices, -1).reshape(self.shape)

    def scatter_add(self, terms: Array) -> Any:
        """Return, for each entry of the operand, the sum of the terms that used it: the transpose of `gather`."""
        terms = terms.reshape(self.indices.shape)
        sums = self.library.scatter_add(terms, self.indices, -1, (*self.batch, self.size))
        return self.library.sum_to(sums, self.flat.shape).reshape(self.x.shape)


def _entrywise_gradient(
    library: ArrayLibrary, saved_arrays: Arrays, static: Any, g: Arrays, needs: Sequence[bool]
) -> Gradients:
    """Return the gradient of an entrywise product by both operands."""
    A, B, C = saved_arrays
    xp, semiring = library.xp, static[0]
    # An entry that is 0̄ has no gradient, as in `matmul`, but 0 of plus_times is an ordinary number.
    is_defined = (
        xp.ones_like(C, dtype=xp.bool) if rule_of(semiring) == "plus_times" else semiring.zero_for(_WIDE).item() != C
    )
    rules = factors(semiring)
    values = {
        name: xp.where(is_defined, operand, 1.0)
        for name, operand in (("x", A), ("y", B))
        if any(name in rule.variables for rule in rules)
    }
    terms = (xp.where(is_defined, g[0] * _evaluate(library, rule, values), 0.0) for rule in rules)
    dA, dB = (
        library.sum_to(term, operand.shape) if needed else None
        for term, operand, needed in zip(terms, (A, B), needs, strict=True)
    )
    return dA, dB


# ----------------------------------------------------------------------------------------------------------- closures


def _closure_gradient(
    library: ArrayLibrary, saved_arrays: Arrays, static: Any, g: Arrays, needs: Sequence[bool]
) -> Gradients:
    """Return the gradient of a closure in log_plus or plus_times."""
    (A, S), (g,) = saved_arrays, g
    back = _transpose(S)
    if rule_of(static[0]) == "plus_times":
        return (back @ g @ back,)
    # The terms are exp(S[i, k] + A[k, l] + S[l, j] - S[i, j]). The first product sums over i, and the second over j.
    ones = library.xp.ones_like(S)
    product = library.call("scaled_product", ones, back, g, _negate_exponents(library, S), S)
    return (library.call("scaled_product", product, _negate_exponents(library, S), ones, back, A),)


def _trees_gradient(
    library: ArrayLibrary, saved_arrays: Arrays, static: Any, g: Arrays, needs: Sequence[bool]
) -> Gradients:
    """Return the gradient of a closure with a selective ⊕, by sums up the trees of best paths."""
    A, D, pred = saved_arrays
    xp, has_parent, dtype = library.xp, pred >= 0, g[0].dtype
    wide = xp.promote_types(dtype, xp.float32)
    dx, dy = _selected_derivatives(library, static[0], D, A, pred)
    factor = library.cast(xp.where(has_parent, dx, 0.0), wide)
    below = library.call("sums_up", factor, library.cast(g[0], wide), pred)
    return (library.cast(_scatter_to_operand(library, xp.where(has_parent, below * dy, 0.0), pred, -2, A), dtype),)


# ---------------------------------------------------------------------------------------------------------- sequences


def _scan_states(A: Array, x: Array, weights: Any, lengths: Any, *static: Any) -> Any:
    return sequence_gradients.scan_states(ChainArrays(A, x, weights, lengths), *static)


def _final_state(A: Array, x: Array, weights: Any, lengths: Any, *static: Any) -> tuple[Array, Array]:
    return sequence_gradients.final_state(ChainArrays(A, x, weights, lengths), *static)


def _pull_back(A: Array, x: Array, weights: Any, lengths: Any, *options: Any) -> tuple[Array, Array, Array]:
    """Return the gradients of `sequences.pull_back`, with an empty array in place of None for the weights."""
    dA, dx, dw = sequence_gradients.pull_back(ChainArrays(A, x, weights, lengths), *options)
    return dA, dx, array_namespace(x).empty((*x.shape[:-1], 0), x.dtype) if dw is None else dw


def _batch_shape(library: ArrayLibrary, arrays: Arrays) -> tuple[int, ...]:
    shape: tuple[int, ...] = library.xp.broadcast_shapes(*ChainArrays(*arrays).batches)
    return shape


def _count_lines(library: ArrayLibrary, arrays: Arrays, steps: int, semiring: Semiring, check: bool) -> tuple[int]:
    """Return the number of vectors that are saved for the gradient of each sequence."""
    A, x, batch = arrays[0], arrays[1], _batch_shape(library, arrays)
    name, on_host = library.dtype_name(x), library.is_on_host(x)
    return (sequence_gradients.count_saved_vectors(semiring, tuple(A.shape), batch, x.shape[-1], steps, name, on_host),)


def _scan_gradient(
    library: ArrayLibrary, saved_arrays: Arrays, static: Any, g: Arrays, needs: Sequence[bool]
) -> Gradients:
    """Return the gradient of the states after every step."""
    *inputs, X = saved_arrays
    x, length = inputs[1], len(sequence_gradients.segments(static[0])[0])
    first = library.xp.broadcast_to(x, (*X.shape[:-2], x.shape[-1]))[..., None, :]
    between = X[..., length - 1 : static[0] - 1 : length, :]  # the last state of each segment but the last
    return _step_gradients(library, inputs, library.xp.concatenate([first, between], -2), g[0], static)


def _multi_dot_gradient(
    library: ArrayLibrary, saved_arrays: Arrays, static: Any, g: Arrays, needs: Sequence[bool]
) -> Gradients:
    """Return the gradient of the state after the last step."""
    *inputs, borders = saved_arrays
    return _step_gradients(library, inputs, borders, g[0][..., None, :], static)


def _step_gradients(library: ArrayLibrary, inputs: Arrays, borders: Array, g: Array, static: Any) -> Gradients:
    dA, dx, dw = library.call("sequence_gradient", *inputs, borders, g, *static[:2])
    return dA, dx, None if inputs[2] is None else dw, None


def _no_gradient(
    library: ArrayLibrary, saved_arrays: Arrays, static: Any, g: Arrays, needs: Sequence[bool]
) -> Gradients:
    raise AlgebraError("the gradient of a sequence has no second derivative: multiply the steps one by one with matmul")


# ---------------------------------------------------------------------------------------- gradients of gradients


def _scaled_gradient(
    library: ArrayLibrary, saved_arrays: Arrays, static: Any, g: Arrays, needs: Sequence[bool]
) -> Gradients:
    """Return the gradient of `scaled.scaled_product` by its five operands."""
    (X, alpha, Y, beta, gamma, R), (g,) = saved_arrays, g
    dX = dY = None
    if needs[0] or needs[1]:
        dX = library.call("scaled_product", g, gamma, _transpose(Y), _transpose(beta), alpha)
    if needs[2] or needs[3]:
        dY = library.call("scaled_product", _transpose(X), _transpose(alpha), g, gamma, beta)
    return dX, None if dX is None else X * dX, dY, None if dY is None else Y * dY, g * R


def _sums_up_gradient(
    library: ArrayLibrary, saved_arrays: Arrays, static: Any, g: Arrays, needs: Sequence[bool]
) -> Gradients:
    """Return the gradient of `path_trees.sums_up` by c and g."""
    c, pred, z = saved_arrays
    y = library.call("sums_down", c, g[0], pred)
    return _factor_gradient(library, z, y, pred), y, None


def _sums_down_gradient(
    library: ArrayLibrary, saved_arrays: Arrays, static: Any, g: Arrays, needs: Sequence[bool]
) -> Gradients:
    """Return the gradient of `path_trees.sums_down` by c and x."""
    c, pred, y = saved_arrays
    z = library.call("sums_up", c, g[0], pred)
    return _factor_gradient(library, z, y, pred), z, None


def _factor_gradient(library: ArrayLibrary, z: Array, y: Array, pred: Array) -> Any:
    """Return the gradient of `sums_up` or `sums_down` by c[i, j]: y[i, p]·z[i, j], for the predecessor p ≠ i of j."""
    root = library.arange(pred.shape[-1], pred)[:, None]
    before = library.gather(y, library.indices(pred), -1)
    return library.xp.where((pred >= 0) & (pred != root), before * z, 0.0)


# ---------------------------------------------------------------------------------------------------------- the table

_OPERANDS = ("A", "x", "weights?", "lengths?")
_PLACES = ("A_places?", "B_places?", "C_places?")
_SIZES = ("rows", "inner", "columns")

_TABLE = (
    Primitive(  # A ⊗ B for A (..., m, k), B (..., k, n) of the same number of dimensions
        "matmul",
        ("A", "B"),
        ("semiring", "check"),
        product,
        lambda library, A, B, semiring, check: ((_product_shape(library, A, B), None),),
        (0, 1, 2),
        _product_gradient,
        selective_form=("matmul_witness", (0, 1)),
    ),
    Primitive(  # A ⊗ B and its witness, for a selective ⊕
        "matmul_witness",
        ("A", "B"),
        ("semiring", "check"),
        product_with_witness,
        lambda library, A, B, semiring, check: tuple(
            (_product_shape(library, A, B), dtype) for dtype in (None, "int32")
        ),
        (0, 1, 3),
        _witness_gradient,
        outputs=2,
    ),
    Primitive(  # A ⊗ B for operands and a result that are matrices, or entries (..., nnz) at places (..., 2, nnz)
        "entry_product",
        ("A", "B", *_PLACES),
        (*_SIZES, "semiring", "check", "is_padded"),
        entry_products.entry_product,
        lambda library, *arguments: _place_shapes(library, *arguments)[:1],
        (0, 1, 2, 3, 4, 5),
        _entries_gradient,
        selective_form=("entry_product_with_places", (0, 1, 2, 3, 4, 5)),
    ),
    Primitive(  # the same and the entries of A and B that attain each value, for a selective ⊕
        "entry_product_with_places",
        ("A", "B", *_PLACES),
        (*_SIZES, "semiring", "check", "is_padded"),
        entry_products.entry_product_with_places,
        _place_shapes,
        (0, 1, 2, 3, 4, 6, 7),
        _selected_entries_gradient,
        outputs=3,
    ),
    Primitive(  # A ⊗ B entry by entry, of arrays with the same number of dimensions, which broadcast
        "multiply",
        ("A", "B"),
        ("semiring", "check"),
        entrywise,
        lambda library, A, B, semiring, check: ((library.xp.broadcast_shapes(A.shape, B.shape), None),),
        (0, 1, 2),
        _entrywise_gradient,
    ),
    Primitive(  # A*, or A⁺, for A (..., n, n); the gradient is that of A*
        "closure",
        ("A",),
        ("semiring", "reflexive", "check", "rounded_to"),
        stack_closure,
        lambda library, A, *static: ((A.shape, None),),
        (0, 1),
        _closure_gradient,
        selective_form=("closure_trees", (0, 2, 3)),
    ),
    Primitive(  # A* and the predecessors, for a selective ⊕
        "closure_trees",
        ("A",),
        ("semiring", "check", "rounded_to"),
        closure_with_trees,
        lambda library, A, *static: ((A.shape, None), (A.shape, "int32")),
        (0, 1, 2),
        _trees_gradient,
        outputs=2,
    ),
    Primitive(  # the states after every step, (..., steps, n), of the operands of `semiring.linalg.sequences.Chain`
        "scan",
        _OPERANDS,
        ("steps", "semiring", "check"),
        _scan_states,
        lambda library, A, x, weights, lengths, steps, *static: (
            ((*_batch_shape(library, (A, x, weights, lengths)), steps, x.shape[-1]), None),
        ),
        (0, 1, 2, 3, 4),
        _scan_gradient,
    ),
    Primitive(  # the state after the last step, (..., n), and what is saved for the gradient, (..., lines, n)
        "multi_dot",
        _OPERANDS,
        ("steps", "semiring", "check"),
        _final_state,
        lambda library, A, x, weights, lengths, steps, semiring, check, lines: (
            ((*_batch_shape(library, (A, x, weights, lengths)), x.shape[-1]), None),
            ((*_batch_shape(library, (A, x, weights, lengths)), lines, x.shape[-1]), None),
        ),
        (0, 1, 2, 3, 5),
        _multi_dot_gradient,
        plan=_count_lines,
        outputs=2,
    ),
    Primitive(  # the gradients of "scan" and "multi_dot" by A, x and the weights
        "sequence_gradient",
        (*_OPERANDS, "borders", "g"),
        ("steps", "semiring"),
        _pull_back,
        lambda library, A, x, weights, *others: (
            (A.shape, None),
            (x.shape, None),
            ((*x.shape[:-1], 0) if weights is None else weights.shape, None),
        ),
        (),
        _no_gradient,
        outputs=3,
    ),
    Primitive(
        "scaled_product",
        ("X", "alpha", "Y", "beta", "gamma"),
        (),
        scaled_products.scaled_product,
        lambda library, X, alpha, Y, beta, gamma: ((gamma.shape, None),),
        (0, 1, 2, 3, 4, 5),
        _scaled_gradient,
    ),
    Primitive(  # Σ X·Y·exp(alpha + beta + gamma), of operands and a result as those of `entry_product`
        "entry_scaled_product",
        ("X", "alpha", "Y", "beta", "gamma", *_PLACES),
        _SIZES,
        entry_products.entry_scaled_product,
        lambda library, X, alpha, Y, *others: _place_shapes(library, X, Y, *others[2:])[:1],
        (0, 1, 2, 3, 4, 5, 6, 7, 8),
        _entries_scaled_gradient,
    ),
    Primitive(
        "sums_up",
        ("c", "g", "pred"),
        (),
        path_trees.sums_up,
        lambda library, c, g, pred: ((g.shape, None),),
        (0, 2, 3),
        _sums_up_gradient,
    ),
    Primitive(
        "sums_down",
        ("c", "x", "pred"),
        (),
        path_trees.sums_down,
        lambda library, c, x, pred: ((x.shape, None),),
        (0, 2, 3),
        _sums_down_gradient,
    ),
)

#: Every primitive by its name.
PRIMITIVES: Mapping[str, Primitive] = {primitive.name: primitive for primitive in _TABLE}
