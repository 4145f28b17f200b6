"""Define Hypothesis strategies of semirings, of their elements with extreme values, and of matrices in any order.

`EXAMPLES` are semirings outside the catalogue, with operands that do not commute, branches, or an unusual zero. Run
your own code on them too. A product that swaps its operands, or a backend that recognizes the catalogue by name, passes
on every semiring of the catalogue and fails on these.

Hypothesis is imported when a strategy is made. `MissingExtraError` names the extra that installs it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from semiring.advice import quote
from semiring.algebra import Semiring
from semiring.algebra.catalogue import CATALOGUE, as_semiring
from semiring.algebra.expressions.tree import is_floating
from semiring.algebra.semiring import semiring_with_claims
from semiring.arguments import as_dtype, require_integer
from semiring.errors import DomainError, MissingExtraError

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy
__all__ = [
    "EXAMPLES",
    "LAYOUTS",
    "capped_min_plus",
    "closable_matrices",
    "elements",
    "exact_elements",
    "in_layout",
    "matrices",
    "relations",
    "reliability",
    "semirings",
]


def _hypothesis() -> Any:
    try:
        import hypothesis.strategies
    except ImportError:
        raise MissingExtraError("hypothesis", "testing", "a strategy") from None
    return hypothesis.strategies


def semirings(*, dtype: Any = None, examples: bool = True, **properties: bool) -> SearchStrategy[Semiring]:
    """Return a strategy of semirings.

    Parameters
    ----------
    dtype : dtype, str or None
        A dtype on which the semirings must be defined.
    examples : bool
        Whether the strategy draws the semirings of `semiring.testing.strategies` too, and not the catalogue alone.
    **properties : bool
        Properties that the semirings must have or lack, such as ``idempotent=True`` or ``commutative=False``.

    Returns
    -------
    hypothesis.strategies.SearchStrategy
        A strategy of `Semiring`, which shrinks towards min_plus.

    Raises
    ------
    MissingExtraError
        If Hypothesis is not installed.

    Notes
    -----
    Some semirings are not defined on float64, the default dtype of `elements`, `exact_elements` and the matrices. Draw
    from ``semirings(dtype="float64")`` for these strategies, or pass another dtype to both.
    """
    st = _hypothesis()
    members = [*CATALOGUE.values(), *(EXAMPLES.values() if examples else ())]
    candidates = [
        semiring
        for semiring in members
        if (dtype is None or semiring.supports(dtype))
        and all(getattr(semiring, name) == value for name, value in properties.items())
    ]
    return st.sampled_from(candidates)  # type: ignore[no-any-return]  # Hypothesis is imported lazily, so mypy sees Any


def elements(semiring: Semiring | str, dtype: Any = "float64") -> SearchStrategy[Any]:
    """Return a strategy of every element of the domain in a dtype, the corners often.

    Corners are zero, one, the ends of the domain and of the dtype, -0.0, subnormal numbers, and ±∞ where they belong to
    the domain. NaN is never drawn.

    Parameters
    ----------
    semiring : Semiring or str
        The semiring, or its name.
    dtype : dtype or str
        The dtype, on which the semiring must be defined.

    Returns
    -------
    hypothesis.strategies.SearchStrategy
        A strategy of Python numbers.

    Raises
    ------
    DTypeError
        If the semiring is not defined on the dtype. `semirings` with ``dtype=`` draws semirings that are.
    MissingExtraError
        If Hypothesis is not installed.
    """
    semiring, dtype = as_semiring(semiring), as_dtype(dtype)
    semiring.check_dtype(dtype)
    st = _hypothesis()
    if dtype.kind == "b":
        return st.booleans()  # type: ignore[no-any-return]  # as above
    lower, upper = _domain_ends(semiring, dtype)
    corners = st.sampled_from([value.item() for value in _corners(semiring, dtype)])
    if dtype.kind in "iu":
        return st.one_of(corners, st.integers(lower, upper))  # type: ignore[no-any-return]  # as above
    numbers = st.floats(
        lower,
        upper,
        allow_nan=False,
        allow_infinity=math.isinf(lower) or math.isinf(upper),
        width=8 * dtype.itemsize,
    )
    inside = numbers.filter(lambda value: bool(semiring.domain.contains(value)))
    return st.one_of(corners, inside)  # type: ignore[no-any-return]  # as above


def exact_elements(semiring: Semiring | str, dtype: Any = "float64", *, largest: int = 32) -> SearchStrategy[Any]:
    """Return a strategy of elements on which the operations do not round, in any order.

    So equality is exact and no tolerance hides a bug. log_plus rounds everything, so its elements are only small.

    Parameters
    ----------
    semiring : Semiring or str
        The semiring, or its name.
    dtype : dtype or str
        The dtype, on which the semiring must be defined.
    largest : int
        The largest magnitude of whole numbers. For a product it is at most 3.

    Returns
    -------
    hypothesis.strategies.SearchStrategy
        A strategy of Python numbers. If ⊕ and ⊗ never round (minimum, maximum, bit operations), it draws all
        `elements`. Otherwise it draws the zero, and elements of the domain:

        - in a domain of floats within [0, 1], sixty-fourths, or powers of ½ if ⊗ is a product;
        - for a selective ⊕ with a product in floats, powers of two from 1/16 (or from 1) to 16;
        - for other products, whole numbers up to 3 in magnitude, or up to ``largest`` if that is less;
        - else whole numbers up to ``largest`` in magnitude.

    Raises
    ------
    DTypeError
        If the semiring is not defined on the dtype.
    MissingExtraError
        If Hypothesis is not installed.
    """
    semiring, dtype = as_semiring(semiring), as_dtype(dtype)
    semiring.check_dtype(dtype)
    st = _hypothesis()
    if dtype.kind == "b":
        return st.booleans()  # type: ignore[no-any-return]  # as above
    operations = semiring.add.expression.operations | semiring.mul.expression.operations
    if operations <= _NEVER_ROUND:
        return elements(semiring, dtype)
    product = "mul" in operations
    lower, upper = _domain_ends(semiring, dtype)
    if dtype.kind == "f" and lower >= 0 and upper <= 1:
        values: Any = (
            st.integers(0, 8).map(lambda power: 0.5**power)
            if product
            else st.integers(0, 64).map(lambda count: count / 64)
        )
    elif dtype.kind == "f" and product and semiring.selective:
        values = st.integers(-4 if lower < 1 else 0, 4).map(lambda power: 2.0**power)
    else:
        reach = min(largest, 3) if product else largest
        values = st.integers(int(max(lower, -reach)), int(min(upper, reach)))
    zero = semiring.zero_for(dtype).item()
    inside = values.filter(lambda value: bool(semiring.domain.contains(value)))
    return st.one_of(inside, st.just(zero))  # type: ignore[no-any-return]  # as above


def matrices(
    semiring: Semiring | str,
    dtype: Any = "float64",
    shape: Any = (5, 5),
    *,
    entries: Any = None,
    layouts: Any = None,
) -> SearchStrategy[Any]:
    """Return a strategy of arrays in different memory orders.

    Parameters
    ----------
    semiring : Semiring or str
        The semiring, or its name.
    dtype : dtype or str
        The dtype, on which the semiring must be defined.
    shape : tuple or strategy of tuples
        The shape.
    entries : strategy or None
        A strategy of elements. The default is `exact_elements`.
    layouts : iterable of str, or None
        The names of the memory orders, of `LAYOUTS`. The default is all of them.

    Returns
    -------
    hypothesis.strategies.SearchStrategy
        A strategy of arrays, in which many entries are the zero. The gaps between the entries of a strided layout are
        NaN or the dtype's extreme value.

    Raises
    ------
    DTypeError
        If the semiring is not defined on the dtype.
    MissingExtraError
        If Hypothesis is not installed.
    """
    semiring, dtype = as_semiring(semiring), as_dtype(dtype)
    st = _hypothesis()
    from hypothesis.extra.numpy import arrays

    chosen = exact_elements(semiring, dtype) if entries is None else entries
    zero = semiring.zero_for(dtype).item()
    plain = arrays(dtype, shape, elements=chosen, fill=st.just(zero))
    memory_orders = st.sampled_from(list(LAYOUTS) if layouts is None else list(layouts))
    return st.builds(in_layout, plain, memory_orders)  # type: ignore[no-any-return]  # as above


def closable_matrices(
    semiring: Semiring | str, dtype: Any = "float64", sizes: Any = None, *, layouts: Any = None
) -> SearchStrategy[Any]:
    """Return a strategy of square matrices whose closure exists, and is exact as far as `exact_elements` are.

    If enough elements satisfy 1 ⊕ a = 1, it draws any matrix of these elements. For the other semirings (plus_times,
    log_plus, xor_and) it draws matrices of acyclic graphs, whose powers end.

    Parameters
    ----------
    semiring : Semiring or str
        The semiring, or its name.
    dtype : dtype or str
        The dtype, on which the semiring must be defined.
    sizes : int, pair of int, strategy or None
        The number of rows, or the least and the largest, or a strategy of it. The default draws 0 to 9.
    layouts : iterable of str, or None
        The names of the memory orders, of `LAYOUTS`. The default is all of them.

    Returns
    -------
    hypothesis.strategies.SearchStrategy
        A strategy of arrays (n, n), as `matrices` draws them.

    Raises
    ------
    DTypeError
        If the semiring is not defined on the dtype.
    TypeError, ValueError
        If ``sizes`` is none of these, or is negative.
    MissingExtraError
        If Hypothesis is not installed.
    """
    semiring, dtype = as_semiring(semiring), as_dtype(dtype)
    st = _hypothesis()
    one = semiring.one_for(dtype)

    def is_absorbed(value: Any) -> bool:
        return bool(semiring.add(dtype.type(value), one) == one)

    if not hasattr(sizes, "map"):
        ends = (0, 9) if sizes is None else tuple(sizes) if isinstance(sizes, list | tuple) else (sizes, sizes)
        if len(ends) != 2:
            raise TypeError(f"sizes is {quote(sizes)}: give a number of rows, the least and the largest, or a strategy")
        low = require_integer(ends[0], "the number of rows", 0)
        sizes = st.integers(low, require_integer(ends[1], "the number of rows", low))
    squares = sizes.map(lambda n: (n, n))
    if semiring.idempotent and (semiring.absorptive or semiring.tropical or semiring.domain.contains(1)):
        entries = exact_elements(semiring, dtype).filter(is_absorbed)
        return matrices(semiring, dtype, squares, entries=entries, layouts=layouts)
    zero = semiring.zero_for(dtype)

    def acyclic(square: Any, layout: str, seed: int) -> Any:
        labels = np.random.default_rng(seed).permutation(len(square))
        above = np.where(np.triu(np.ones(square.shape, bool), 1), square, zero)
        return in_layout(above[np.ix_(labels, labels)], layout)

    memory_orders = st.sampled_from(list(LAYOUTS) if layouts is None else list(layouts))
    plain = matrices(semiring, dtype, squares, layouts=["C"])
    return st.builds(acyclic, plain, memory_orders, st.integers(0, 99))  # type: ignore[no-any-return]  # as above


_NEVER_ROUND = {"min", "max", "and", "or", "xor", "invert", "where", "lt", "le", "gt", "ge", "eq", "ne"}


# ---------------------------------------------------------------------------------------------------- memory orders


def _poison(dtype: np.dtype[Any]) -> Any:
    return np.nan if is_floating(dtype) else True if dtype.kind == "b" else np.iinfo(dtype).max


def _strided_view(x: np.ndarray) -> np.ndarray:
    wide = np.full((2 * x.shape[0] + 1, 3 * x.shape[1] + 2), _poison(x.dtype), x.dtype)
    view = wide[1::2, 1::3][: x.shape[0], : x.shape[1]]
    view[...] = x
    return view


def _window_view(x: np.ndarray) -> np.ndarray:
    wide = np.full((x.shape[0] + 3, x.shape[1] + 5), _poison(x.dtype), x.dtype)
    view = wide[1 : 1 + x.shape[0], 2 : 2 + x.shape[1]]
    view[...] = x
    return view


def _read_only_copy(x: np.ndarray) -> np.ndarray:
    copy = np.array(x, order="C")
    copy.flags.writeable = False
    return copy


#: Functions by the name of a memory order: each returns an equal matrix in this order.
LAYOUTS: dict[str, Any] = {
    "C": lambda x: np.array(x, order="C"),
    "Fortran": lambda x: np.array(x, order="F"),
    "rows reversed": lambda x: np.array(x[::-1], order="C")[::-1],
    "columns reversed": lambda x: np.array(x[:, ::-1], order="C")[:, ::-1],
    "both reversed, Fortran": lambda x: np.array(x[::-1, ::-1], order="F")[::-1, ::-1],
    "every other": _strided_view,
    "every other, transposed": lambda x: _strided_view(x.T).T,
    "window": _window_view,
    "read-only": _read_only_copy,
}


def in_layout(x: Any, layout: str) -> np.ndarray:
    """Return an array equal to a matrix, in another memory order.

    Parameters
    ----------
    x : array, shape (m, n)
        The matrix.
    layout : str
        The name of the memory order, a key of `LAYOUTS`.

    Returns
    -------
    array, shape (m, n)
        A copy, or a view of a larger array, of the dtype of ``x``.

    Raises
    ------
    DomainError
        If there is no memory order of that name.
    """
    if not isinstance(layout, str) or layout not in LAYOUTS:
        raise DomainError(f"{quote(layout)} is no memory order: {', '.join(LAYOUTS)}")
    result: np.ndarray = LAYOUTS[layout](np.asarray(x))
    return result


# --------------------------------------------------------------------------------------------------------- elements


def _domain_ends(semiring: Semiring, dtype: np.dtype[Any]) -> tuple[Any, Any]:
    """Return the ends of the domain in the dtype, or the nearest values inside if the dtype does not have the ends."""
    lower, upper = semiring.domain.lower, semiring.domain.upper
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        return (
            limits.min if lower <= limits.min else math.ceil(lower),
            limits.max if upper >= limits.max else math.floor(upper),
        )
    low, high = dtype.type(lower), dtype.type(upper)
    if low < lower:
        low = np.nextafter(low, dtype.type(np.inf))
    if high > upper:
        high = np.nextafter(high, dtype.type(-np.inf))
    return low.item(), high.item()


def _corners(semiring: Semiring, dtype: np.dtype[Any]) -> list[Any]:
    lower, upper = _domain_ends(semiring, dtype)
    values = [semiring.zero_for(dtype), semiring.one_for(dtype)]
    if dtype.kind == "f":
        limits = np.finfo(dtype)
        positive = [0.0, limits.smallest_subnormal, limits.tiny, 1e-9, 1.0, limits.max, np.inf]
        values += [sign * value for value in positive for sign in (1, -1)] + [lower, upper]
    else:
        values += [value for value in (0, 1, lower, lower + 1, upper - 1, upper) if lower <= value <= upper]
    typed = [dtype.type(value) for value in values]
    zero = semiring.zero_for(dtype)
    return [value for value in typed if bool(semiring.domain.contains(value)) or value == zero]


#: Relations on two elements, as four bits: bit 2·i + j says that i is related to j. ⊕ is the union, ⊗ the composition.
relations: Semiring = semiring_with_claims(
    "relations",
    "x | y",
    "where((x & 1) != 0, y & 3, 0)"  # 0 → 0, then from 0
    " | where((x & 2) != 0, where((y & 4) != 0, 1, 0) | where((y & 8) != 0, 2, 0), 0)"  # 0 → 1, then from 1
    " | where((x & 4) != 0, where((y & 1) != 0, 4, 0) | where((y & 2) != 0, 8, 0), 0)"  # 1 → 0, then from 0
    " | where((x & 8) != 0, y & 12, 0)",  # 1 → 1, then from 1
    0,
    9,
    "x | 9",
    (0, 15),
    dtypes=("uint8", "int16", "int32", "int64"),
    claims={"idempotent": True, "selective": False, "commutative": False, "absorptive": False},
    description="composition of relations on two elements: the order of the operands matters",
)

#: Shortest paths no longer than 100: the zero is neither 0 nor ∞.
capped_min_plus: Semiring = semiring_with_claims(
    "capped_min_plus",
    "where(x < y, x, y)",
    "where(x + y < 100, x + y, 100)",
    100,
    0,
    domain=(0, 100),
    claims={"idempotent": True, "selective": True, "commutative": True, "absorptive": True},
    description="shortest paths shorter than 100; 100 is no path",
)

#: The most reliable path, with probabilities.
reliability: Semiring = semiring_with_claims(
    "reliability",
    "max(x, y)",
    "x * y",
    0,
    1,
    domain=(0, 1),
    claims={"idempotent": True, "selective": True, "commutative": True, "absorptive": True},
    description="the greatest product of probabilities",
)

EXAMPLES: Mapping[str, Semiring] = {semiring.name: semiring for semiring in (relations, capped_min_plus, reliability)}
