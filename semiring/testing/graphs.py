"""Generate random and structured weight matrices for tests and benchmarks of shortest paths.

Every generator returns a dense (n, n) array in which the semiring's zero means "no edge". With ``sparse=True`` it
returns a SciPy CSR array that stores the edges alone (an explicit 0 is an edge of weight 0). ``seed`` is a number or a
`numpy.random.Generator`; the same seed gives the same matrix. Edges are drawn whole arrays at a time: 600 edges for
each of 100,000 vertices take some seconds. There are no self-loops unless a docstring says so.

Weights are drawn from ``weights = (low, high)``: whole numbers, both ends included, with ``integer=True`` or an
integer dtype; else uniform. They are never the semiring's zero, so that the number of edges is exact. Without
``weights`` they come from the first of (1, 1000), (-1000, -1) and (½, 1) on which no cycle improves (1 ⊕ a = 1). So the
closure exists. A semiring without such an interval takes the first interval that lies in its domain.
"""

from __future__ import annotations

from numbers import Real
from typing import Any, TypeAlias

import numpy as np

from semiring.advice import quote
from semiring.algebra import Semiring
from semiring.algebra.catalogue import as_semiring
from semiring.arguments import as_dtype, require_integer
from semiring.arrays.memory import new_array
from semiring.errors import DomainError, ShapeError

__all__ = [
    "cycle_graph",
    "dag",
    "grid_graph",
    "height_difference_grid",
    "path_graph",
    "planted_negative_cycle",
    "rmat_graph",
    "uniform_graph",
    "zero_weight_cycles",
]

Seed = int | np.random.Generator
_LARGEST_SIZE, _LARGEST_SCALE = 1 << 31, 31  # vertices that their numbers of 64 bits and pairs support
_RMAT_ROUNDS = 1_000  # the most rounds of drawing: a very skewed distribution repeats edges without end


def uniform_graph(
    n: int,
    edges_per_vertex: float,
    *,
    semiring: Semiring | str | None = None,
    dtype: Any = "float64",
    weights: Weights = None,
    integer: bool = False,
    sparse: bool = False,
    seed: Seed = 0,
) -> Any:
    """Return a graph of a given number of random edges, each set of edges equally likely.

    Parameters
    ----------
    n : int
        The number of vertices.
    edges_per_vertex : float
        The mean number of edges of a vertex. The graph has exactly round(n · ``edges_per_vertex``) different directed
        edges. Gaioso et al. (2013) close graphs of 6, 60 and 600 edges a vertex.
    semiring : Semiring or str
        The semiring of the weights. Its zero means "no edge".
    dtype : dtype or str
        The dtype of the weights.
    weights : pair of numbers, or None
        The ends (low, high) of the interval of the weights. The default is an interval on which no cycle improves, see
        `semiring.testing.graphs`.
    integer : bool
        Whether the weights are whole numbers, also in a floating dtype.
    sparse : bool
        Whether the result is a SciPy CSR array, which stores the edges alone, instead of a dense array.
    seed : int or numpy.random.Generator
        The seed. The same seed gives the same graph.

    Returns
    -------
    array or scipy.sparse.csr_array, shape (n, n)
        The weights of the edges.

    Raises
    ------
    ShapeError
        If n vertices have no room for so many edges.
    DomainError
        If ``weights`` is no interval within the domain, or holds no number but the zero.
    DTypeError
        If the semiring is not defined on ``dtype``.
    """
    rng, n = _generator(seed), _as_size(n, "n")
    count = _edge_count(n, edges_per_vertex, n * (n - 1))
    rows, columns = _off_diagonal_places(_draw_distinct(n * (n - 1), count, rng), n)
    return _make_graph(n, rows, columns, semiring, dtype, weights, integer, sparse, rng)


def rmat_graph(
    scale: int,
    edges_per_vertex: float,
    *,
    a: float = 0.57,
    b: float = 0.19,
    c: float = 0.19,
    d: float = 0.05,
    shuffle: bool = True,
    semiring: Semiring | str | None = None,
    dtype: Any = "float64",
    weights: Weights = None,
    integer: bool = False,
    sparse: bool = False,
    seed: Seed = 0,
) -> Any:
    """Return a scale-free R-MAT graph of 2^``scale`` vertices.

    Each edge falls into one quadrant of the matrix with probabilities a, b, c, d, then into a quadrant of that
    quadrant, and so on. Repeated edges are drawn again.

    Parameters
    ----------
    scale : int
        The binary logarithm of the number of vertices.
    edges_per_vertex : float
        The mean number of edges of a vertex. The graph has exactly round(2^``scale`` · ``edges_per_vertex``) different
        edges.
    a, b, c, d : float
        The probabilities of the quadrants above left, above right, below left and below right. The defaults are those
        of Graph500.
    shuffle : bool
        Whether the vertices are numbered at random, which hides the degrees from the numbers, as Graph500 does.
    semiring : Semiring or str
        The semiring of the weights. Its zero means "no edge".
    dtype : dtype or str
        The dtype of the weights.
    weights : pair of numbers, or None
        The ends (low, high) of the interval of the weights. The default is an interval on which no cycle improves, see
        `semiring.testing.graphs`.
    integer : bool
        Whether the weights are whole numbers, also in a floating dtype.
    sparse : bool
        Whether the result is a SciPy CSR array, which stores the edges alone, instead of a dense array.
    seed : int or numpy.random.Generator
        The seed. The same seed gives the same graph.

    Returns
    -------
    array or scipy.sparse.csr_array, shape (2^scale, 2^scale)
        The weights of the edges.

    Raises
    ------
    ShapeError
        For more than a quarter of all possible edges, which the distribution hardly reaches.
    DomainError
        If a, b, c, d are no probabilities of sum 1, or so skewed that edges repeat without end. Also if ``weights`` is
        no interval within the domain, or holds no number but the zero.
    DTypeError
        If the semiring is not defined on ``dtype``.

    Notes
    -----
    Source: Chakrabarti, Zhan, Faloutsos 2004.
    """
    probabilities = np.array([_as_number(p, name) for name, p in zip("abcd", (a, b, c, d), strict=True)])
    if not (abs(probabilities.sum() - 1) <= 1e-9 and (probabilities >= 0).all()):
        raise DomainError(f"a, b, c, d are probabilities of sum 1, not {quote([a, b, c, d])}")
    rng = _generator(seed)
    n = 1 << _as_size(scale, "scale", _LARGEST_SCALE)
    count = _edge_count(n, edges_per_vertex, n * (n - 1) // 4)
    codes, rounds = np.empty(0, np.int64), 0
    while len(codes) < count:
        if (rounds := rounds + 1) > _RMAT_ROUNDS:
            raise DomainError(f"with {quote([a, b, c, d])} for a, b, c, d there are hardly {count} different edges")
        batch = 2 * (count - len(codes)) + 64
        row, column = np.zeros(batch, np.int64), np.zeros(batch, np.int64)
        for _ in range(scale):
            quadrant = np.searchsorted(probabilities.cumsum()[:-1], rng.random(batch), side="right")
            row, column = 2 * row + quadrant // 2, 2 * column + quadrant % 2
        drawn = np.concatenate([codes, (row * n + column)[row != column]])
        _, first = np.unique(drawn, return_index=True)
        codes = drawn[np.sort(first)[:count]]  # in the order of drawing, so that no edge is favoured by its place
    rows, columns = np.divmod(codes, n)
    if shuffle:
        labels = rng.permutation(n)
        rows, columns = labels[rows], labels[columns]
    return _make_graph(n, rows, columns, semiring, dtype, weights, integer, sparse, rng)


def grid_graph(
    rows: int,
    columns: int,
    *,
    semiring: Semiring | str | None = None,
    dtype: Any = "float64",
    weights: Weights = None,
    integer: bool = False,
    sparse: bool = False,
    seed: Seed = 0,
) -> Any:
    """Return a grid with edges both ways between neighbours, each of its own weight.

    Parameters
    ----------
    rows, columns : int
        The size of the grid. Vertex (r, c) has the number r·columns + c.
    semiring : Semiring or str
        The semiring of the weights. Its zero means "no edge".
    dtype : dtype or str
        The dtype of the weights.
    weights : pair of numbers, or None
        The ends (low, high) of the interval of the weights. The default is an interval on which no cycle improves, see
        `semiring.testing.graphs`.
    integer : bool
        Whether the weights are whole numbers, also in a floating dtype.
    sparse : bool
        Whether the result is a SciPy CSR array, which stores the edges alone, instead of a dense array.
    seed : int or numpy.random.Generator
        The seed. The same seed gives the same graph.

    Returns
    -------
    array or scipy.sparse.csr_array, shape (rows·columns, rows·columns)
        The weights of the edges.

    Raises
    ------
    DomainError
        If ``weights`` is no interval within the domain, or holds no number but the zero.
    DTypeError
        If the semiring is not defined on ``dtype``.
    """
    rows, columns = _as_size(rows, "rows"), _as_size(columns, "columns")
    tails, heads = _grid_edges(rows, columns)
    return _make_graph(rows * columns, tails, heads, semiring, dtype, weights, integer, sparse, _generator(seed))


def height_difference_grid(
    rows: int, columns: int, *, dtype: Any = "float64", sparse: bool = False, seed: Seed = 0
) -> tuple[Any, np.ndarray]:
    """Return a grid whose min-plus weights are differences of heights, and the heights.

    The edge from i to j weighs h[j] - h[i]. Every cycle has weight zero, so the distance from i to j is h[j] - h[i].
    But rounding gives some cycles a weight just below zero. On these the usual algorithms diverge or report a negative
    cycle.

    Parameters
    ----------
    rows, columns : int
        The size of the grid. Vertex (r, c) has the number r·columns + c.
    dtype : dtype or str
        The dtype of the weights.
    sparse : bool
        Whether the result is a SciPy CSR array, which stores the edges alone, instead of a dense array.
    seed : int or numpy.random.Generator
        The seed. The same seed gives the same graph.

    Returns
    -------
    matrix : array or scipy.sparse.csr_array, shape (rows·columns, rows·columns)
        The weights of the edges.
    heights : array, shape (rows·columns,)
        The heights h, normally distributed.
    """
    rng = _generator(seed)
    rows, columns = _as_size(rows, "rows"), _as_size(columns, "columns")
    heights = rng.standard_normal(rows * columns).astype(as_dtype(dtype))
    tails, heads = _grid_edges(rows, columns)
    values = heights[heads] - heights[tails]
    return _make_matrix(rows * columns, tails, heads, values, as_semiring("min_plus"), sparse), heights


def path_graph(
    n: int,
    *,
    semiring: Semiring | str | None = None,
    dtype: Any = "float64",
    weights: Weights = None,
    integer: bool = False,
    sparse: bool = False,
    seed: Seed = 0,
) -> Any:
    """Return the edges 0 → 1 → … → n-1, the longest chain that a closure can have to follow.

    Parameters
    ----------
    n : int
        The number of vertices.
    semiring : Semiring or str
        The semiring of the weights. Its zero means "no edge".
    dtype : dtype or str
        The dtype of the weights.
    weights : pair of numbers, or None
        The ends (low, high) of the interval of the weights. The default is an interval on which no cycle improves, see
        `semiring.testing.graphs`.
    integer : bool
        Whether the weights are whole numbers, also in a floating dtype.
    sparse : bool
        Whether the result is a SciPy CSR array, which stores the edges alone, instead of a dense array.
    seed : int or numpy.random.Generator
        The seed. The same seed gives the same graph.

    Returns
    -------
    array or scipy.sparse.csr_array, shape (n, n)
        The weights of the edges.

    Raises
    ------
    DomainError
        If ``weights`` is no interval within the domain, or holds no number but the zero.
    DTypeError
        If the semiring is not defined on ``dtype``.
    """
    n = _as_size(n, "n")
    tails = np.arange(max(n - 1, 0))
    return _make_graph(n, tails, tails + 1, semiring, dtype, weights, integer, sparse, _generator(seed))


def cycle_graph(
    n: int,
    *,
    semiring: Semiring | str | None = None,
    dtype: Any = "float64",
    weights: Weights = None,
    integer: bool = False,
    sparse: bool = False,
    seed: Seed = 0,
) -> Any:
    """Return the edges 0 → 1 → … → n-1 → 0, which for n = 1 is a self-loop.

    Parameters
    ----------
    n : int
        The number of vertices.
    semiring : Semiring or str
        The semiring of the weights. Its zero means "no edge".
    dtype : dtype or str
        The dtype of the weights.
    weights : pair of numbers, or None
        The ends (low, high) of the interval of the weights. The default is an interval on which no cycle improves, see
        `semiring.testing.graphs`.
    integer : bool
        Whether the weights are whole numbers, also in a floating dtype.
    sparse : bool
        Whether the result is a SciPy CSR array, which stores the edges alone, instead of a dense array.
    seed : int or numpy.random.Generator
        The seed. The same seed gives the same graph.

    Returns
    -------
    array or scipy.sparse.csr_array, shape (n, n)
        The weights of the edges.

    Raises
    ------
    DomainError
        If ``weights`` is no interval within the domain, or holds no number but the zero.
    DTypeError
        If the semiring is not defined on ``dtype``.
    """
    n = _as_size(n, "n")
    tails = np.arange(n)
    return _make_graph(n, tails, (tails + 1) % max(n, 1), semiring, dtype, weights, integer, sparse, _generator(seed))


def dag(
    n: int,
    edges_per_vertex: float,
    *,
    shuffle: bool = True,
    semiring: Semiring | str | None = None,
    dtype: Any = "float64",
    weights: Weights = None,
    integer: bool = False,
    sparse: bool = False,
    seed: Seed = 0,
) -> Any:
    """Return an acyclic graph of a given number of random edges, each set of edges equally likely.

    Parameters
    ----------
    n : int
        The number of vertices.
    edges_per_vertex : float
        The mean number of edges of a vertex. The graph has exactly round(n · ``edges_per_vertex``) edges.
    shuffle : bool
        Whether the vertices are numbered at random. Otherwise every edge leads to a larger number, and the matrix is
        strictly upper triangular.
    semiring : Semiring or str
        The semiring of the weights. Its zero means "no edge".
    dtype : dtype or str
        The dtype of the weights.
    weights : pair of numbers, or None
        The ends (low, high) of the interval of the weights. The default is an interval on which no cycle improves, see
        `semiring.testing.graphs`.
    integer : bool
        Whether the weights are whole numbers, also in a floating dtype.
    sparse : bool
        Whether the result is a SciPy CSR array, which stores the edges alone, instead of a dense array.
    seed : int or numpy.random.Generator
        The seed. The same seed gives the same graph.

    Returns
    -------
    array or scipy.sparse.csr_array, shape (n, n)
        The weights of the edges.

    Raises
    ------
    ShapeError
        If n vertices have no room for so many edges.
    DomainError
        If ``weights`` is no interval within the domain, or holds no number but the zero.
    DTypeError
        If the semiring is not defined on ``dtype``.
    """
    rng, n = _generator(seed), _as_size(n, "n")
    pairs = n * (n - 1) // 2
    codes = _draw_distinct(pairs, _edge_count(n, edges_per_vertex, pairs), rng)
    heads = ((1 + np.sqrt(1 + 8 * codes.astype(np.float64))) / 2).astype(np.int64)
    heads -= heads * (heads - 1) // 2 > codes  # the root was rounded, which one step down or up corrects
    heads += heads * (heads + 1) // 2 <= codes
    tails = codes - heads * (heads - 1) // 2
    if shuffle:
        labels = rng.permutation(n)
        tails, heads = labels[tails], labels[heads]
    return _make_graph(n, tails, heads, semiring, dtype, weights, integer, sparse, rng)


def planted_negative_cycle(
    n: int,
    length: int,
    *,
    edges_per_vertex: float = 6,
    total: int = -1,
    weights: tuple[int, int] = (1, 1000),
    dtype: Any = "float64",
    sparse: bool = False,
    seed: Seed = 0,
) -> tuple[Any, tuple[int, ...]]:
    """Return a min-plus graph with exactly one negative simple cycle, and the cycle.

    A cycle that leaves the planted one is not negative. For max-plus negate the matrix.

    Parameters
    ----------
    n : int
        The number of vertices.
    length : int
        The number of edges of the cycle. Length 1 is a negative self-loop.
    edges_per_vertex : float
        The mean number of edges of a vertex in the graph around the cycle. If n is too small for it, the graph is
        complete.
    total : int
        The weight of the cycle, below 0.
    weights : pair of int
        The ends (low, high) of the interval of the weights before the shift, at least -``total`` each.
    dtype : dtype or str
        The dtype of the weights.
    sparse : bool
        Whether the matrix is a SciPy CSR array, which stores the edges alone, instead of a dense array.
    seed : int or numpy.random.Generator
        The seed. The same seed gives the same graph.

    Returns
    -------
    matrix : array or scipy.sparse.csr_array, shape (n, n)
        The weights of the edges, whole numbers of both signs.
    cycle : tuple of int
        The vertices of the cycle in order.

    Raises
    ------
    ShapeError
        If the cycle has no edge or more than n edges.
    DomainError
        If ``weights`` is not an interval from -``total`` on, or ``total`` is not below 0.

    Notes
    -----
    A uniform graph has weights from ``weights``, and the planted cycle has zeros and one ``total``. Random potentials
    then shift all weights, which changes no cycle's weight.
    """
    n, length, total = (require_integer(x, name) for x, name in ((n, "n"), (length, "length"), (total, "total")))
    if not 1 <= length <= n:
        raise ShapeError(f"a cycle of {length} vertices does not fit a graph of {n}")
    low, high = (require_integer(end, "an end of the weights") for end in _as_interval(weights))
    if not 0 < -total <= low <= high:
        raise DomainError(
            f"the weights {weights} must be at least -total, which is {-total}: else other cycles are negative"
        )
    rng = _generator(seed)
    cycle = rng.permutation(n)[:length]
    count = min(_edge_count(n, min(edges_per_vertex, max(n - 1, 0)), n * (n - 1)), n * (n - 1))
    tails, heads = _off_diagonal_places(_draw_distinct(n * (n - 1), count, rng), n)
    values = rng.integers(low, high, len(tails), endpoint=True)
    planted = np.zeros(length, np.int64)
    planted[rng.integers(length)] = total
    codes = np.concatenate(
        [cycle * n + np.roll(cycle, -1), tails * n + heads]
    )  # a planted edge replaces one drawn before
    codes, first = np.unique(codes, return_index=True)
    values = np.concatenate([planted, values])[first]
    tails, heads = np.divmod(codes, n)
    potential = rng.integers(-high, high, n, endpoint=True)
    values = (values + potential[tails] - potential[heads]).astype(dtype)
    return _make_matrix(n, tails, heads, values, as_semiring("min_plus"), sparse), tuple(cycle.tolist())


def zero_weight_cycles(
    n: int,
    length: int,
    *,
    edges_per_vertex: float = 6,
    weights: tuple[float, float] = (1, 1000),
    integer: bool = True,
    dtype: Any = "float64",
    sparse: bool = False,
    seed: Seed = 0,
) -> Any:
    """Return a min-plus graph with no negative cycle whose vertices form cycles of weight zero.

    The vertices form rings. The last ring may be shorter, and a ring of a single vertex has no edge. Ring edges weigh
    h[j] - h[i] for random potentials h. The remaining edges, of a uniform graph, weigh more than that by ``weights``.

    Parameters
    ----------
    n : int
        The number of vertices.
    length : int
        The number of edges of a ring.
    edges_per_vertex : float
        The mean number of edges of a vertex in the uniform graph. If n is too small for it, the graph is complete.
    weights : pair of numbers
        The ends (low, high) of the interval by which an edge outside the rings exceeds h[j] - h[i].
    integer : bool
        Whether all weights are whole numbers, and so exact. Otherwise rounding gives some of the rings a weight just
        below or above zero.
    dtype : dtype or str
        The dtype of the weights.
    sparse : bool
        Whether the result is a SciPy CSR array, which stores the edges alone, instead of a dense array.
    seed : int or numpy.random.Generator
        The seed. The same seed gives the same graph.

    Returns
    -------
    array or scipy.sparse.csr_array, shape (n, n)
        The weights of the edges.

    Raises
    ------
    ShapeError
        If a ring has no vertex or more than n vertices, or ``edges_per_vertex`` is negative.
    """
    n, length = _as_size(n, "n"), require_integer(length, "length")
    if not 1 <= length <= max(n, 1):
        raise ShapeError(f"rings of {length} vertices do not fit a graph of {n}")
    rng = _generator(seed)
    order, place = rng.permutation(n), np.arange(n)
    following = np.where((place % length == length - 1) | (place == n - 1), place - place % length, place + 1)
    ring = order * n + order[following]
    ring = ring[following != place]
    count = _edge_count(n, min(edges_per_vertex, max(n - 1, 0)), n * (n - 1))
    tails, heads = _off_diagonal_places(_draw_distinct(n * (n - 1), count, rng), n)
    codes, first = np.unique(np.concatenate([ring, tails * n + heads]), return_index=True)
    low, high = weights
    drawn = (
        rng.integers(int(low), int(high), len(tails), endpoint=True) if integer else rng.uniform(low, high, len(tails))
    )
    extra = np.concatenate([np.zeros(len(ring), drawn.dtype), drawn])[first]
    potential = rng.integers(-1000, 1000, n, endpoint=True) if integer else rng.normal(0, 1000, n)
    tails, heads = np.divmod(codes, max(n, 1))
    values = (potential[heads] - potential[tails] + extra).astype(dtype)
    return _make_matrix(n, tails, heads, values, as_semiring("min_plus"), sparse)


# ---------------------------------------------------------------------------------------------------------- edges


def _as_size(size: Any, name: str, largest: int = _LARGEST_SIZE) -> int:
    """Return the size of a graph as an int. Raises `TypeError` for other objects, `ValueError` for impossible sizes."""
    if (number := require_integer(size, name, 0)) > largest:
        raise ValueError(f"{name} is {quote(number)}, and at most {largest}")
    return number


def _as_number(value: float, name: str) -> float:
    """Return a number as a float. Raises `TypeError` for other objects, and for numbers beyond 64 bits."""
    if not isinstance(value, int | float | np.integer | np.floating) or abs(value) >= 2**63:
        raise TypeError(f"{name} is {quote(value)}: give a number")
    return float(value)


def _generator(seed: Seed) -> np.random.Generator:
    """Return the generator of random numbers that a seed begins."""
    try:
        return np.random.default_rng(seed)
    except (TypeError, ValueError):
        raise TypeError(f"seed is {quote(seed)}: give an integer from 0 up, some of them, or a Generator") from None


def _as_interval(weights: Any) -> tuple[float, float]:
    """Return the ends of the interval of the weights. Raises `TypeError` for anything but two numbers."""
    if not isinstance(weights, list | tuple) or len(weights) != 2:
        raise TypeError(f"weights is {quote(weights)}: give the ends of an interval, (low, high)")
    low, high = weights
    for end in (low, high):
        if not isinstance(end, Real) or end != end:
            raise TypeError(f"weights is {quote(weights)}: give two numbers")
    return low, high


def _edge_count(n: int, edges_per_vertex: float, room: int) -> int:
    count = n * _as_number(edges_per_vertex, "edges_per_vertex")
    count = round(count) if count == count else -1
    if n < 0 or not 0 <= count <= room:
        raise ShapeError(
            f"{quote(count)} edges ({quote(edges_per_vertex)} for each of {quote(n)} vertices) do not fit: there is "
            f"room for {quote(room)}"
        )
    return count


def _draw_distinct(population: int, count: int, rng: np.random.Generator) -> np.ndarray:
    """Return ``count`` different numbers below ``population``, each set equally likely, in ascending order.

    The numbers are drawn with repetition and sorted, until there are enough different ones. Surplus numbers are removed
    at random. `Generator.choice` would build a hash table or the whole population.
    """
    if 2 * count > population:  # choose the numbers that are left out
        is_member = np.ones(population, bool)
        is_member[_draw_distinct(population, population - count, rng)] = False
        return np.flatnonzero(is_member)
    drawn = np.empty(0, np.int64)
    while len(drawn) < count:
        missing = count - len(drawn)
        more = rng.integers(0, population, missing + missing // 2 + 16)
        drawn = np.concatenate([drawn, more])
        drawn.sort()
        drawn = drawn[np.concatenate([[True], drawn[1:] != drawn[:-1]])]
    if len(drawn) > count:
        surplus = len(drawn) - count
        keep = np.ones(len(drawn), bool)
        keep[rng.choice(len(drawn), surplus, replace=False, shuffle=False)] = False
        drawn = drawn[keep]
    return drawn


def _off_diagonal_places(codes: np.ndarray, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the places of an (n, n) matrix off its diagonal, counted along the rows."""
    rows, columns = np.divmod(codes, max(n - 1, 1))
    columns += columns >= rows
    return rows, columns


def _grid_edges(rows: int, columns: int) -> tuple[np.ndarray, np.ndarray]:
    vertex = np.arange(rows * columns).reshape(rows, columns)
    across, along = (vertex[:, :-1].ravel(), vertex[:, 1:].ravel()), (vertex[:-1].ravel(), vertex[1:].ravel())
    return np.concatenate([across[0], across[1], along[0], along[1]]), np.concatenate(
        [across[1], across[0], along[1], along[0]]
    )


# ---------------------------------------------------------------------------------------------------------- matrices


def _make_graph(
    n: int,
    rows: np.ndarray,
    columns: np.ndarray,
    semiring: Semiring | str | None,
    dtype: Any,
    weights: Weights,
    integer: bool,
    sparse: bool,
    rng: np.random.Generator,
) -> Any:
    semiring, dtype = as_semiring(semiring), as_dtype(dtype)
    semiring.check_dtype(dtype)
    return _make_matrix(
        n, rows, columns, draw_weights(len(rows), semiring, dtype, weights, integer, rng), semiring, sparse
    )


def _make_matrix(
    n: int, rows: np.ndarray, columns: np.ndarray, values: np.ndarray, semiring: Semiring, sparse: bool
) -> Any:
    if sparse:
        from scipy.sparse import csr_array

        return csr_array((values, (rows, columns)), shape=(n, n))
    result = new_array(np, (n, n), values.dtype)
    result.fill(semiring.zero_for(values.dtype))
    result[rows, columns] = values
    return result


Weights: TypeAlias = tuple[float, float] | None  # (low, high); None: an interval on which no cycle improves


def draw_weights(
    count: int, semiring: Semiring, dtype: np.dtype[Any], weights: Weights, integer: bool, rng: np.random.Generator
) -> np.ndarray:
    """Return ``count`` weights of edges, never the semiring's zero, by the rules in `semiring.testing.graphs`."""
    zero = semiring.zero_for(dtype)
    if dtype.kind == "b":
        return np.full(count, ~zero)
    low, high = _default_weights(semiring, dtype) if weights is None else _as_interval(weights)
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        low, high = max(int(low), limits.min), min(int(high), limits.max)
    if not low <= high or not bool(np.all(semiring.domain.contains(np.array([low, high], np.float64)))):
        raise DomainError(f"the weights {weights} are not an interval (low, high) within the domain {semiring.domain}")
    if dtype.kind in "iu" or integer:
        low, high = int(low) + (int(low) == zero), int(high) - (int(high) == zero)
        if low > high:
            raise DomainError(f"the weights {weights} leave no whole number but the zero of {semiring.name}")
        drawn = rng.integers(low, high, count, endpoint=True, dtype=dtype if dtype.kind in "iu" else np.int64)
        drawn = drawn.astype(dtype)
    else:
        drawn = (low + (high - low) * rng.random(count)).astype(dtype)
    # A zero within the interval would be no edge, so an end of the interval that is not zero replaces it.
    drawn[drawn == zero] = high if high != zero else low
    if count and bool((drawn == zero).any()):
        raise DomainError(f"the weights {weights} hold nothing but the zero of {semiring.name}")
    return drawn


def _default_weights(semiring: Semiring, dtype: np.dtype[Any]) -> tuple[float, float]:
    """Return an interval within the domain on which no cycle improves (1 ⊕ a = 1), else just one within the domain."""
    upper = semiring.domain.upper
    if dtype.kind in "iu":
        upper = min(upper, np.iinfo(dtype).max)
    candidates = [(low, min(high, upper)) for low, high in ((1, 1000), (-1000, -1), (0.5, 1))]
    intervals = [interval for interval in candidates if _is_valid_interval(interval, semiring, dtype)]
    if not intervals:
        raise DomainError(f"give weights=(low, high) within the domain {semiring.domain} of {semiring.name}")
    one = semiring.one_for(dtype)
    harmless = [ends for ends in intervals if bool(np.all(semiring.add(one, np.array(ends, dtype)) == one))]
    return (harmless or intervals)[0]


def _is_valid_interval(interval: tuple[float, float], semiring: Semiring, dtype: np.dtype[Any]) -> bool:
    low, high = interval
    if dtype.kind in "iu" and (low < np.iinfo(dtype).min or low != int(low)):
        return False
    return low < high and bool(np.all(semiring.domain.contains(np.array([low, high], np.float64))))
