"""Compile the kernels of semirings before they are needed: in a container, on a cluster, in continuous integration."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache, partial
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from semiring.algebra import Semiring
from semiring.algebra.catalogue import adds_exponentials, as_semiring
from semiring.arguments import as_dtype
from semiring.errors import SemiringError, UnknownNameError

__all__ = ["CALLS", "precompile"]

#: What `precompile` can compile, and the public functions whose kernels these are.
CALLS = {
    "products": "matmul, power, multi_dot and scan, with vectors, stacks and witnesses",
    "closures": "closure of dense and sparse graphs, with weights of both signs, and of stacks",
    "paths": "shortest_paths and the other functions of paths, with sources and targets",
    "sparse": "products of sparse matrices, with masks and dense matrices, and factor",
    "queries": "to_array, total, counts, all_paths, k_shortest and update of Paths, and centrality",
}


def precompile(
    *semirings: Semiring | str, dtype: DTypeLike | tuple[DTypeLike, ...] = "float64", calls: str | tuple[str, ...] = ()
) -> None:
    """Compile the kernels of semirings, and store them on disk for this and all later processes.

    The function waits for the compiler. Calls of later processes, on this processor and with the same versions of the
    library, Numba and NumPy, find the kernels. Kernels that are on disk are not compiled again.

    Parameters
    ----------
    *semirings : Semiring or str
        The semirings; without one, min-plus.
    dtype : dtype or tuple of dtypes
        The dtypes of the operands. A semiring that is not defined on one of them is left out for it.
    calls : str or tuple of str
        What is compiled: ``"products"``, ``"closures"``, ``"paths"``, ``"sparse"`` and ``"queries"``, which are the
        methods of `Paths` and centrality; by default the first three.

    Raises
    ------
    UnknownNameError
        If a semiring or one of ``calls`` has another name.
    DTypeError
        If no semiring is defined on any of the dtypes.

    See Also
    --------
    profile : The kernels that a call led to, with the compilations.

    Notes
    -----
    Cost: 5 to 30 seconds for the first semiring, 1 to 5 for each further one, and more for ``log_plus``,
    ``"sparse"`` and ``"queries"``. The folder is that of ``SEMIRING_CACHE_DIR``, else the user's cache folder. A
    container image whose build calls this function starts without a compiler on machines with the same processor.

    Examples
    --------
    >>> import semiring as sr
    >>> sr.precompile("max_min", dtype="float32", calls="products")
    """
    given = (calls,) if isinstance(calls, str) else tuple(calls) or ("products", "closures", "paths")
    for name in given:
        if name not in CALLS:
            raise UnknownNameError("group of calls", name, CALLS)
    dtypes = [as_dtype(each) for each in (dtype if isinstance(dtype, tuple) else (dtype,))]
    chosen = [as_semiring(each) for each in semirings or ("min_plus",)]
    pairs = [(semiring, each) for semiring in chosen for each in dtypes if semiring.supports(each)]
    if not pairs:
        chosen[0].check_dtype(dtypes[0])
    from semiring.kernels.cpu.first_calls import compile_at_once

    with compile_at_once(), warnings.catch_warnings(action="ignore"):
        for semiring, each in pairs:
            for call in _examples(semiring, each, given):
                with suppress(SemiringError):  # a function that the semiring does not have, such as a closure
                    call()


def _examples(semiring: Semiring, dtype: np.dtype[Any], calls: tuple[str, ...]) -> Iterator[Callable[[], Any]]:
    """Yield calls of public functions that lead to the kernels."""
    import semiring as sr

    rng, s = np.random.default_rng(0), semiring
    dense, small = (_operand(s, dtype, rng, n, 1.0) for n in (320, 20))
    sparse, stack = _operand(s, dtype, rng, 600, 0.01), np.stack([small] * 3)
    gaining = [_gaining(s, dtype, n) for n in (20, 320)]
    if "products" in calls:
        choices: tuple[dict[str, Any], ...] = ({}, {"return_witness": True}) if s.selective else ({},)
        for options in choices:
            for A, B in ((small, small), (dense, dense), (dense.T, dense.T), (stack, stack)):
                yield partial(sr.matmul, A, B, s, **options)
            for A, B in ((dense[0], dense), (dense, dense[0])):
                yield partial(sr.matmul, A, B, s, **options)
            yield partial(sr.multi_dot, np.stack([small] * 40), small[0], semiring=s, **options)
        yield partial(sr.scan, np.stack([small] * 40), semiring=s)
    if "closures" in calls:
        for A in (small, dense, sparse, stack, *gaining):
            yield partial(sr.closure, A, s)
    if "paths" in calls and s.selective:
        for A in (small, dense, sparse, *gaining):
            yield partial(sr.best_paths, A, s)
        yield partial(sr.best_paths, sparse, s, sources=[0, 1])
        yield partial(sr.best_paths, sparse, s, sources=[0], targets=[5])
        yield partial(sr.best_paths, sparse, s, sources=[0], limit=_a_weight(s, dtype))
    if "sparse" in calls:
        from scipy.sparse import csr_array

        places = rng.integers(0, 320, (2, 900))
        S = csr_array((np.full(900, s.one_for(dtype)), tuple(places)), shape=dense.shape)
        for right in (S, dense):
            yield partial(sr.matmul, S, right, s)
            yield partial(sr.matmul, S, right, s, mask=S)
        yield lambda: sr.factor(S, s).distance(0, 5)
        yield lambda: sr.factor(S, s).distances([0, 1], [5, 6])
        yield lambda: list(sr.factor(S, s).rows(vertices=[0, 1]))
    if "queries" in calls and s.selective:
        yield from _queries(semiring, small, sparse)


def _a_weight(semiring: Semiring, dtype: np.dtype[Any]) -> Any:
    """Return the weight of an edge that is worse than 1̄, for example 3 in min-plus."""
    for weight in (3, -3, 0.5, 2):
        value = np.asarray(weight).astype(dtype)
        if bool(semiring.domain.contains(value)) and value != semiring.one_for(dtype):
            return value[()]
    return semiring.one_for(dtype)


def _queries(semiring: Semiring, A: Any, sparse: Any) -> Iterator[Callable[[], Any]]:
    """Yield calls of methods of paths, and of the functions of centrality."""
    import semiring as sr
    from semiring.centrality import betweenness, closeness, edge_betweenness, efficiency, harmonic
    from semiring.paths.along_paths import OPERATIONS

    paths = cache(lambda: sr.best_paths(A, semiring))
    yield lambda: paths().to_array()
    yield lambda: paths().hops()
    for operation in OPERATIONS:
        for dtype in ("float64", "int64"):
            yield partial(lambda *options: paths().total(*options), np.ones(A.shape, dtype), operation)
    yield lambda: paths().counts()
    yield lambda: paths().count(0, 1)
    yield lambda: paths().tight_edges(0, 1)
    yield lambda: next(paths().all_paths(0, 1))
    for simple in (False, True):
        yield partial(lambda simple: list(paths().k_shortest(0, 1, 3, simple=simple)), simple)
        yield partial(lambda simple: list(sr.k_shortest_paths(A, 0, 1, 3, semiring=semiring, simple=simple)), simple)
    yield lambda: paths().path_without(0, 1, vertex=2)
    yield lambda: paths().most_vital_edge(0, 1)
    for weight in (semiring.one_for(A.dtype), _a_weight(semiring, A.dtype), semiring.zero_for(A.dtype)):
        yield partial(lambda weight: paths().update([0], [1], [weight]), weight)
    for function in (betweenness, edge_betweenness, closeness, harmonic, efficiency):
        for graph in (A, sparse):
            yield partial(function, graph)


def _operand(semiring: Semiring, dtype: np.dtype[Any], rng: Any, n: int, share: float) -> Any:
    """Return entries (n, n) of the domain, a share of which differ from 0̄."""
    values = rng.random((n, n)) if dtype.kind == "f" else rng.integers(1, 100, (n, n))
    if adds_exponentials(semiring):
        values = -10 * n * values - 1  # so that the sums of a closure converge
    elif not semiring.idempotent and dtype.kind == "f":
        values = values / n
    values = values.astype(dtype)
    if not bool(semiring.domain.contains(values).all()):
        values = np.full((n, n), semiring.one_for(dtype))
    return np.where(rng.random((n, n)) < share, values, semiring.zero_for(dtype))


def _gaining(semiring: Semiring, dtype: np.dtype[Any], n: int) -> Any:
    """Return entries (n, n) that gain, as weights below 0 do in min-plus, along no cycle."""
    weights = {"min": -2, "max": 2}.get(semiring.tropical or "", 0.5 if semiring.name == "min_times" else 2)
    A = np.full((n, n), semiring.zero_for(dtype))
    upper = np.triu_indices(n, 1)
    A[upper] = np.asarray(weights).astype(dtype)
    return A
