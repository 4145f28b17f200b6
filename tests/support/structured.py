"""Draw random graphs with structure, and close them with it and without it."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import matrices
import numpy as np
import oracles

import semiring as sr
from semiring.errors import DivergenceError, SemiringError, SuspiciousWeightsWarning

KINDS = (
    *("dense", "sparse", "acyclic", "apart", "tail", "undirected", "undirected sparse", "tree"),
    *("one weight", "undirected one weight", "signed", "signed acyclic", "negative cycle", "magnitudes", "empty"),
)
SIGNED = ("signed", "signed acyclic", "negative cycle", "magnitudes")
CASES = [(name, dtype) for name, dtypes in matrices.DTYPES.items() for dtype in dtypes]
#: The allowed difference of two results, relative to the largest of the numbers that went into an entry.
ROUNDING = {"float32": 3e-4, "float64": 1e-11}


@dataclass
class Case:
    """A call of `closure`, and what its result should be."""

    name: str
    A: Any
    exact: bool  # whether every path is exact in any order of its sums
    options: dict[str, Any]
    kind: str = ""

    def __str__(self) -> str:
        return f"{self.kind}, {self.name}, {self.A.dtype}, {self.A.shape}, {self.options}"


def edges_of(rng: np.random.Generator, n: int, kind: str) -> np.ndarray:
    density = rng.choice([0.02, 1.5 / max(n, 1), 4 / max(n, 1), 0.1, 0.5])
    edges = rng.random((n, n)) < density
    if kind in ("dense", "magnitudes"):
        edges = rng.random((n, n)) < 0.7
    elif "acyclic" in kind:
        edges = np.triu(rng.random((n, n)) < rng.choice([density, 0.6]), 1)
    elif kind == "apart":
        part = rng.integers(0, rng.integers(2, 6), n)
        edges = (rng.random((n, n)) < 0.5) & (part[:, None] == part)
    elif kind == "tail":
        half = n // 2
        edges = np.zeros((n, n), bool)
        edges[:half, :half] = rng.random((half, half)) < 0.8
        edges[np.arange(n - 1), np.arange(1, n)] = True
    elif kind == "tree":
        edges = np.zeros((n, n), bool)
        if n > 1:
            edges[np.arange(1, n), [rng.integers(0, i) for i in range(1, n)]] = True
    elif kind == "empty":
        edges = np.zeros((n, n), bool)
    if kind.startswith("undirected") or kind == "tree":
        edges |= edges.T
    np.fill_diagonal(edges, rng.random(n) < rng.choice([0, 0.3, 1]))
    order = rng.permutation(n)
    return edges[np.ix_(order, order)]


def random_case(rng: np.random.Generator, largest: int = 70) -> Case:
    name, dtype = CASES[rng.integers(len(CASES))]
    kind = str(rng.choice(KINDS))
    tropical = name in ("min_plus", "max_plus")
    # about half of the cases have signs, and a fifth of those a negative cycle
    if rng.random() < 0.5 and kind not in SIGNED:
        kind = str(rng.choice((*SIGNED, "negative cycle")))
    if kind in SIGNED and not tropical:
        name, dtype = (
            ("min_plus", "max_plus")[rng.integers(2)],
            ("float32", "float64", "int16", "int32")[rng.integers(4)],
        )
    n = int(rng.integers(0, largest))
    edges = edges_of(rng, n, kind)
    W, exact = _weights(rng, n, name, np.dtype(dtype), kind)
    if "undirected" in kind or kind == "tree":
        upper = np.triu(W)
        W = upper + np.triu(W, 1).T if W.dtype != np.bool_ else upper | upper.T
    A = np.full((n, n), oracles.zero(name, dtype), dtype)
    A[edges] = W[edges]
    if "negative" in kind and n > 2:
        cycle = rng.permutation(n)[: rng.integers(1, 4)]
        sign = 1 if name == "min_plus" else -1
        A[cycle, np.roll(cycle, -1)] = -3 * sign
    return Case(name, A, exact, _options(rng, A), kind)


def _weights(rng: np.random.Generator, n: int, name: str, dtype: np.dtype, kind: str) -> tuple[np.ndarray, bool]:
    """Return (n, n) weights of which every closure exists, except for rounding, and whether their paths are exact."""
    if "one weight" in kind:
        one = {"f": 2.0, "i": 3, "u": 1, "b": True}[dtype.kind]
        exact = True
        if name in ("plus_times", "log_plus"):
            return np.full((n, n), 1 / 128 if name == "plus_times" else -6, dtype), False
        if name in ("max_times", "lukasiewicz"):
            one = 0.5
        if name == "max_plus":
            one = -one
        if name == "min_plus" and dtype.kind == "f" and rng.random() < 0.3:
            one, exact = 0.1, False
        return np.full((n, n), one, dtype), exact
    if name == "plus_times":
        return (rng.random((n, n)) / (2 * max(n, 1))).astype(dtype), False
    if name == "log_plus":
        return (np.log(rng.random((n, n)) + 0.01) - np.log(2 * max(n, 1))).astype(dtype), False
    if name == "xor_and":
        return matrices.matrix(rng, n, "max_min", dtype, density=0.6), True
    if name in ("min_plus", "max_plus"):
        return _lengths(rng, n, name, dtype, kind)
    if dtype.kind == "f" and rng.random() < 0.3:
        W = rng.random((n, n)) * 0.9 + 0.05
        return (1 / W if name == "min_times" else W).astype(dtype), name in ("max_min", "min_max")
    return matrices.matrix(rng, n, name, dtype, density=1.0), True


def _lengths(rng: np.random.Generator, n: int, name: str, dtype: np.dtype, kind: str) -> tuple[np.ndarray, bool]:
    exact = dtype.kind == "i" or rng.random() < 0.5
    W = rng.integers(0, 20, (n, n)).astype(float) if exact else rng.random((n, n)) * 20
    if kind in SIGNED and not ("negative" in kind and rng.random() < 0.5):
        h = rng.integers(-30, 30, n) if exact else rng.normal(size=n) * 30
        if kind == "magnitudes" and not exact:
            h *= 10.0 ** rng.integers(-6, 4, n)
        W += h[:, None] - h
    if kind == "signed acyclic":
        W = rng.integers(-20, 20, (n, n)).astype(float) if exact else rng.normal(size=(n, n)) * 20
    return (W if name == "min_plus" else 0 - W).astype(dtype), exact


def _options(rng: np.random.Generator, A: np.ndarray) -> dict[str, Any]:
    options: dict[str, Any] = {"threads": int(rng.integers(1, 3)), "reflexive": bool(rng.random() < 0.7)}
    given = rng.choice(["array", "array", "strided", "columns", "packed", "sparse"])
    options["given"] = str(given)
    options["out"] = str(rng.choice(["", "", "A", "new"])) if given in ("array", "strided", "columns") else ""
    return options


def close(case: Case, structure: Any) -> Any:
    """Return the closure as a dense array, or the type of the error that was raised."""
    options = dict(case.options)
    given, out = options.pop("given"), options.pop("out")
    A = case.A.copy()
    zero = oracles.zero(case.name, A.dtype)
    if given == "strided":
        wide = np.full((len(A), 2 * len(A)), zero, A.dtype)
        wide[:, ::2] = A
        A = wide[:, ::2]
    elif given == "columns":
        A = np.asfortranarray(A)
    elif given == "packed" and A.dtype == np.bool_:
        A = sr.pack(A)
    elif given == "sparse":
        from scipy.sparse import coo_array

        rows, columns = np.nonzero(zero != A)
        A = coo_array((A[rows, columns], (rows, columns)), shape=A.shape).tocsr()
    if out:
        options["out"] = A if out == "A" else np.empty(A.shape, A.dtype)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SuspiciousWeightsWarning)  # complete graphs with weights of 0
            D = sr.closure(A, case.name, structure=structure, **options)
    except DivergenceError:
        return DivergenceError
    except SemiringError as error:
        return type(error)
    return np.asarray(D)


def compare(case: Case) -> None:
    """Compare closures with structure, without it and, for few vertices of idempotent semirings, by the sum of
    powers."""
    found, expected = close(case, True), close(case, False)
    if isinstance(expected, type):
        assert found is expected, f"{case}: {found} and {expected}"
        return
    assert not isinstance(found, type), f"{case}: {found}"
    assert found.dtype == expected.dtype
    if case.exact:
        np.testing.assert_array_equal(found, expected, err_msg=str(case))
    else:
        assert_near(case, found, expected)
    if oracles.ORACLES[case.name].idempotent and case.exact and len(case.A) <= 25 and case.options["reflexive"]:
        np.testing.assert_array_equal(found, oracles.closure(case.A, case.name), err_msg=str(case))


def assert_near(case: Case, actual: np.ndarray, expected: np.ndarray) -> None:
    np.testing.assert_array_equal(np.isfinite(actual), np.isfinite(expected), err_msg=str(case))
    finite = np.isfinite(expected)
    largest = np.abs(case.A[np.isfinite(case.A)]).max(initial=0)
    least = 1 if case.name == "log_plus" else 0  # the logarithm of a sum near 1 is right to the digits of 1
    scale = np.maximum(np.abs(expected), largest if case.kind in SIGNED or case.name == "lukasiewicz" else least)
    error = np.abs(np.where(finite, actual, 0).astype(float) - np.where(finite, expected, 0))
    scale = np.where(finite, scale, 0)
    bound = ROUNDING[str(actual.dtype)] * scale + np.finfo(actual.dtype).tiny
    assert (error <= bound).all(), f"{case}: {error.max()}"
