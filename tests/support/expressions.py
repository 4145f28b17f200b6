"""Draw random contractions in the notation of `numpy.einsum`, and compute them by a loop over all index values.

Nothing of the library takes part: the notation is read once more here, and ⊕ and ⊗ are those of `oracles`.
"""

from __future__ import annotations

from itertools import product
from typing import Any, NamedTuple

import numpy as np
import oracles
from oracles import Oracle

__all__ = ["KINDS", "RELATIONS", "Expression", "entries", "expression", "oracle_of", "value"]

#: Semirings, with the dtypes in which the test computes exactly, or nearly.
KINDS = [
    *(("min_plus", dtype) for dtype in ("float64", "float32", "int64", "int16")),
    *(("max_plus", dtype) for dtype in ("float64", "int32")),
    *(("plus_times", dtype) for dtype in ("int64", "float64")),
    *(("boolean", "bool"), ("max_min", "float64"), ("max_times", "float64"), ("log_plus", "float64")),
    *(("xor_and", "uint8"), ("relations", "uint8"), ("relations", "int64")),
]


def _compose(x: Any, y: Any) -> Any:
    """Return the composition of relations on two elements: bit 2·i + j of each says that i is related to j."""
    result = 0
    for i, j, k in product(range(2), repeat=3):
        if int(x) >> (2 * i + k) & 1 and int(y) >> (2 * k + j) & 1:
            result |= 1 << (2 * i + j)
    return result


#: A semiring whose ⊗ does not commute: `semiring.testing.strategies.relations`.
RELATIONS = Oracle(lambda x, y: x | y, _compose, lambda dtype: dtype.type(0), lambda dtype: dtype.type(9), True, False)


def oracle_of(name: str) -> Oracle:
    return RELATIONS if name == "relations" else oracles.ORACLES[name]


class Expression(NamedTuple):
    """The subscripts of a contraction, and the shapes of its operands."""

    subscripts: str
    shapes: tuple[tuple[int, ...], ...]


def expression(rng: np.random.Generator, max_operands: int = 4, letters: int = 5, min_operands: int = 1) -> Expression:
    """Return a contraction of ``min_operands`` to ``max_operands`` operands over up to ``letters`` labels.

    Labels repeat in terms, stand in many or in one, and broadcast from size 1. Ellipses stand for up to two axes.
    """
    names = rng.permutation(list("abcdefgXYZ"))[:letters]
    sizes = {label: int(rng.choice([0, 1, 2, 3], p=[0.02, 0.13, 0.45, 0.4])) for label in names}
    dots = [int(size) for size in rng.integers(1, 4, 2)] if rng.random() < 0.25 else []
    terms, shapes = [], []
    for _ in range(rng.integers(min_operands, max_operands + 1)):
        labels = list(rng.choice(names, rng.integers(0, 4)))
        own = {label: 1 if rng.random() < 0.07 else sizes[label] for label in labels}
        shape = [own[label] for label in labels]
        term = "".join(labels)
        if dots and rng.random() < 0.7:
            place, axes = rng.integers(0, len(labels) + 1), dots[rng.integers(0, 3) :]
            axes = [1 if rng.random() < 0.2 else size for size in axes]
            term, shape = term[:place] + "..." + term[place:], shape[:place] + axes + shape[place:]
        terms.append(term)
        shapes.append(tuple(shape))
    subscripts = ",".join(terms)
    if rng.random() < 0.8:
        used = sorted({label for term in terms for label in term if label != "."})
        output = [label for label in rng.permutation(used) if rng.random() < 0.4] if used else []
        if "..." in subscripts:
            output.insert(rng.integers(0, len(output) + 1), "...")
        subscripts += "->" + "".join(output)
    return Expression(subscripts, tuple(shapes))


def entries(rng: np.random.Generator, name: str, dtype: str, shape: tuple[int, ...]) -> np.ndarray:
    """Return small numbers of the domain, a quarter of them the zero."""
    if name == "relations":
        return np.asarray(rng.integers(0, 16, shape), dtype)
    if dtype == "bool":
        return np.asarray(rng.random(shape) < 0.6)
    low = 0 if name in ("xor_and", "max_times", "plus_times") else -5
    values = np.asarray(rng.integers(low, 6, shape), dtype)
    return np.where(rng.random(shape) < 0.25, oracles.zero(name, dtype), values).astype(dtype)


def laid_out(rng: np.random.Generator, array: np.ndarray) -> np.ndarray:
    """Return the same entries with their axes in another order in memory, or reversed, or apart."""
    if not array.ndim:
        return array
    axes = rng.permutation(array.ndim)
    copy = np.ascontiguousarray(array.transpose(axes)).transpose(np.argsort(axes))
    if rng.random() < 0.3:
        axis = rng.integers(0, copy.ndim)
        index = (slice(None),) * axis
        return np.repeat(copy, 2, axis)[(*index, slice(None, None, 2))]
    return copy[::-1].copy()[::-1] if rng.random() < 0.2 else copy


def read(subscripts: str, arrays: list[np.ndarray]) -> tuple[list[str], str]:
    """Return a label for each axis of each operand, and of the result. Axes of ... are digits from the right."""
    written, arrow, output = subscripts.partition("->")
    terms, most = [], 0
    for term, array in zip(written.split(","), arrays, strict=True):
        rest = array.ndim - len(term.replace("...", "")) if "..." in term else 0
        most = max(most, rest)
        terms.append(term.replace("...", "9876543210"[10 - rest :]))
    dots = "9876543210"[10 - most :]
    if arrow:
        return terms, output.replace("...", dots)
    joined = "".join(terms)
    return terms, dots + "".join(sorted(one for one in set(joined) - set(dots) if joined.count(one) == 1))


def value(name: str, subscripts: str, arrays: list[np.ndarray]) -> np.ndarray:
    """Return the contraction by its definition: for each index of all labels one ⊗ of all operands, and their ⊕."""
    semiring, dtype = oracle_of(name), arrays[0].dtype
    terms, output = read(subscripts, arrays)
    sizes: dict[str, int] = {}
    for term, array in zip(terms, arrays, strict=True):
        for label, size in zip(term, array.shape, strict=True):
            sizes[label] = size if sizes.get(label, 1) == 1 else sizes[label]
    result = np.full([sizes[label] for label in output], semiring.zero(dtype), dtype)
    with np.errstate(all="ignore"):
        for place in product(*(range(size) for size in sizes.values())):
            index = dict(zip(sizes, place, strict=True))
            term = None
            for labels, array in zip(terms, arrays, strict=True):
                where = tuple(0 if n == 1 else index[one] for one, n in zip(labels, array.shape, strict=True))
                entry = array[where]
                term = entry if term is None else dtype.type(semiring.mul(term, entry))
            target = tuple(index[label] for label in output)
            result[target] = semiring.add(result[target], term)
    return result
