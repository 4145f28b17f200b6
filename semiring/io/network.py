"""Define networks, and assemble their matrices over a semiring from the edges or the entries in a file.

Readers of formats that list edges return `Edges`, and readers of formats that hold a matrix return `Entries`. In the
matrix an edge that is not listed is 0̄. A listed edge is an edge for every weight, also 0, and edges listed more than
once combine by ⊕.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np

from semiring.advice import advice, fewer_paths_advice, option, quote
from semiring.algebra import Semiring
from semiring.algebra.catalogue import CATALOGUE, as_semiring
from semiring.algebra.expressions.tree import float_limits, is_half
from semiring.arguments import as_dtype
from semiring.arrays.folds import add_duplicates, scatter
from semiring.arrays.labels import make_frame
from semiring.arrays.memory import demand_memory
from semiring.arrays.operands import as_matrix
from semiring.arrays.sparse import is_sparse, stored_entries
from semiring.arrays.vertices import Vertices
from semiring.errors import (
    AlgebraError,
    DomainError,
    FormatError,
    MissingExtraError,
    SemiringError,
    ShapeError,
    TooLargeError,
)
from semiring.io.text import is_exact

__all__ = [
    "Edges",
    "Entries",
    "Network",
    "assemble",
    "check_size",
    "compress",
    "convert",
    "convert_network",
    "count_vertices",
    "dense_matrix",
    "direct_edges",
    "dtype_of_frame",
    "is_directed",
    "network_edges",
    "semiring_of",
    "symmetrize",
    "weighted_edges",
]

Locate: TypeAlias = Callable[[int], str]


@dataclass(frozen=True, eq=False)
class Network:
    """A weighted graph: its matrix over a semiring, and the names, labels and positions of its vertices.

    Parameters
    ----------
    matrix : array or scipy.sparse.csr_array, shape (n, n)
        ``matrix[i, j]`` is the weight of the edge i → j, or the semiring's zero if there is no edge. A sparse matrix
        stores the edges alone: entries that it does not store are no edges.
    names : sequence, or None
        A name for each vertex, or None if the vertices are 0 … n - 1. The attribute is a tuple.
    labels : tuple of str, or None
        A longer name for each vertex ("Boston" beside "BOS").
    positions : array of float, shape (n, 2), or None
        The coordinates x, y of the vertices in a drawing.
    geographic : bool
        Whether the positions are longitude and latitude in degrees.
    unit : str
        The unit of the weights ("km"), or "".
    title : str
        The title of the network, usually the stem of its file's name.
    semiring : Semiring or None
        The semiring of the matrix. None means that no semiring was named: min-plus, or boolean for truth values.
    combined : bool
        Whether some weight is the ⊕ of several edges from one vertex to another.
    directed : bool
        Whether edges have a direction. False if each edge was taken in both directions.

    Raises
    ------
    ShapeError
        The matrix is not square, the names, labels or positions are not n, or two names are equal.

    Notes
    -----
    The parameters are also the attributes of a network.
    """

    matrix: Any
    names: tuple[Any, ...] | None = None
    labels: tuple[str, ...] | None = None
    positions: np.ndarray[Any, Any] | None = None
    geographic: bool = False
    unit: str = ""
    title: str = ""
    semiring: Semiring | None = None
    combined: bool = False
    directed: bool = True

    def __post_init__(self) -> None:
        if not hasattr(self.matrix, "shape"):  # a list
            object.__setattr__(self, "matrix", np.asarray(self.matrix))
        n = count_vertices(self.matrix.shape, "Network")
        object.__setattr__(self, "names", Vertices(n, self.names).names)
        for what, values in (("labels", self.labels), ("positions", self.positions)):
            if values is not None and len(values) != n:
                raise ShapeError(f"Network: {len(values)} {what} for {n} vertices")

    def __repr__(self) -> str:
        n = self.matrix.shape[0]
        parts = [word for word in ("names", "labels", "positions") if getattr(self, word) is not None]
        has = f" with {', '.join(parts)}" if parts else ""
        unit = f", in {self.unit}" if self.unit else ""
        title = f" {self.title!r}" if self.title else ""
        return f"<Network{title}: {n:,} {'vertex' if n == 1 else 'vertices'}{has}, {self.matrix.dtype}{unit}>"

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        """Raise `TypeError`: an array would lose the names and the semiring."""
        raise TypeError("a Network is no array: use its .matrix")

    def _repr_html_(self) -> str:
        """Return the HTML table that a notebook shows."""
        from semiring.terminal import SHOWN_ROWS, html_matrix

        corner = self.matrix
        if is_sparse(corner):
            corner = as_matrix(corner[:SHOWN_ROWS, :SHOWN_ROWS], as_semiring(semiring_of(self, None)))
        return html_matrix(repr(self), corner, self._vertex_names, self._vertex_names)

    @property
    def _vertex_names(self) -> Sequence[Any]:
        """The names of the vertices, or their numbers if they have no names."""
        return range(self.matrix.shape[0]) if self.names is None else self.names

    def to_frame(self) -> Any:
        """Return the matrix as a frame of pandas.

        Returns
        -------
        pandas.DataFrame
            The entries (n, n), with the names of the vertices for rows and columns.

        Raises
        ------
        MissingExtraError
            If pandas is not installed.
        TooLargeError
            If the network is sparse, and the n² entries do not fit into memory.
        """
        return make_frame(dense_matrix(self), self._vertex_names, self._vertex_names)

    def to_networkx(self) -> Any:
        """Return the network as a graph of NetworkX.

        Returns
        -------
        networkx.DiGraph or networkx.Graph
            The graph, which is a ``networkx.Graph`` if the network is undirected. Edges have the attribute ``weight``,
            and vertices ``label`` and ``pos`` if the network has labels and positions.

        Raises
        ------
        MissingExtraError
            If NetworkX is not installed.
        """
        try:
            import networkx as nx
        except ImportError:
            raise MissingExtraError("NetworkX", "networkx", "to_networkx") from None
        names: Any = self._vertex_names
        graph = (nx.DiGraph if is_directed(self) else nx.Graph)(name=self.title)
        for vertex, name in enumerate(names):
            attributes: dict[str, Any] = {} if self.labels is None else {"label": self.labels[vertex]}
            if self.positions is not None:
                attributes["pos"] = tuple(self.positions[vertex].tolist())
            graph.add_node(name, **attributes)
        edges = zip(*(part.tolist() for part in network_edges(self)), strict=True)
        graph.add_weighted_edges_from((names[i], names[j], weight) for i, j, weight in edges)
        return graph


def is_directed(network: Network) -> bool:
    """Return whether the edges of a network have directions, by its flag or because its matrix is not symmetric."""
    matrix = network.matrix
    if network.directed or not is_sparse(matrix):
        return network.directed or not np.array_equal(matrix, matrix.T)
    ours, theirs = matrix.sorted_indices(), matrix.T.tocsr()
    return not all(np.array_equal(getattr(ours, part), getattr(theirs, part)) for part in ("indptr", "indices", "data"))


def network_edges(network: Network) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Return the tails, the heads and the weights of the edges of a network, dense or sparse."""
    matrix, zero = network.matrix, as_semiring(semiring_of(network, None)).zero_for(network.matrix.dtype)
    if is_sparse(matrix):
        rows, columns, values = stored_entries(matrix)
        is_edge = values != zero
        return rows[is_edge], columns[is_edge], values[is_edge]
    rows, columns = np.nonzero(matrix != zero)
    return rows, columns, matrix[rows, columns]


def dense_matrix(network: Network) -> np.ndarray[Any, Any]:
    """Return the matrix of a network as an array. Raises `TooLargeError` for a sparse one that does not fit memory."""
    matrix: np.ndarray[Any, Any] = network.matrix
    if not is_sparse(matrix):
        return matrix
    n, semiring = matrix.shape[0], as_semiring(semiring_of(network, None))
    demand_memory(n * n * matrix.dtype.itemsize, f"the dense matrix of {n:,} vertices", fewer_paths_advice())
    return np.asarray(as_matrix(matrix, semiring))


@dataclass(frozen=True, eq=False)
class Edges:
    """The edges that a file, frame or graph lists.

    Attributes
    ----------
    size
        The number of vertices n.
    rows, columns, values
        (m,): edge e leads from ``rows[e]`` to ``columns[e]`` and weighs ``values[e]``. Without values it weighs 1.
    locate
        A function that returns the place of edge e in the source, for messages.
    has_dtype
        Whether the source defines the dtype of the values. Text does not.
    is_text
        Whether the values were written as numbers, of which no integer means "no edge".
    names, unit, directed
        As in `Network`.
    names_weights
        Whether the caller named the attribute or column of the weights.
    ambiguity
        The error message if several titles may be that of the weights, else "".
    """

    size: int
    rows: np.ndarray[Any, Any]
    columns: np.ndarray[Any, Any]
    values: np.ndarray[Any, Any] | None
    locate: Locate
    has_dtype: bool = False
    is_text: bool = True
    names: Sequence[Any] | None = None
    unit: str = ""
    directed: bool = True
    names_weights: bool = False
    ambiguity: str = ""


@dataclass(frozen=True, eq=False)
class Entries:
    """A square matrix in a file, whose entries are elements of the semiring; the fields are those of `Edges`."""

    matrix: np.ndarray[Any, Any]
    locate: Locate
    has_dtype: bool = True
    names: Sequence[Any] | None = None
    unit: str = ""


def direct_edges(edges: Edges, is_undirected: np.ndarray[Any, Any]) -> Edges:
    """Return the edges of a table, some of which are undirected and lead both ways, as in Gephi's column Type."""
    count = len(edges.rows)
    if not is_undirected.any() or is_undirected.all():
        return replace(edges, directed=edges.directed and not is_undirected.any())
    both = np.flatnonzero(is_undirected & (edges.rows != edges.columns))
    rows = np.concatenate([edges.rows, edges.columns[both]])
    columns = np.concatenate([edges.columns, edges.rows[both]])
    values = None if edges.values is None else np.concatenate([edges.values, edges.values[both]])

    def locate(edge: int) -> str:
        return edges.locate(edge if edge < count else int(both[edge - count]))

    return replace(edges, rows=rows, columns=columns, values=values, locate=locate)


def check_size(n: int, edges: int, source: str) -> None:
    """Raise `TooLargeError` for a header of more vertices than can be numbered, or than so few edges make plausible."""
    most = np.iinfo(np.int32).max
    if n > most:
        raise TooLargeError(f"{source}: {n:,} vertices, and at most {most:,} are numbered")
    if n > _SPARSE_VERTICES and n > _VERTICES_PER_EDGE * (edges + 1):
        raise TooLargeError(f"{source}: a header of {n:,} vertices, and {edges:,} edges: the header is damaged")


def count_vertices(shape: Sequence[int], source: str) -> int:
    """Return the number of vertices of a matrix of that shape, and raise `ShapeError` unless it is square."""
    if len(shape) != 2 or shape[0] != shape[1]:
        size = " × ".join(str(side) for side in shape) or "a single number"
        raise ShapeError(f"{source}: the array is {size}: the matrix of a network is square")
    return int(shape[0])


#: A network of more vertices stores its edges sparsely if at most a sixteenth of the pairs are edges.
_DENSE_VERTICES = 4096
_DENSE_SHARE = 16

#: A header that names more vertices than these needs an edge for every 64 vertices: names take memory.
_SPARSE_VERTICES = 1 << 20
_VERTICES_PER_EDGE = 64

#: Bytes that the name of a vertex and its place take.
_NAME_BYTES = 128


def assemble(
    edges: Edges | Entries,
    semiring: Semiring,
    dtype: Any = None,
    *,
    directed: bool | None = None,
    title: str = "",
    sparse: bool | None = None,
) -> Network:
    """Return the network of edges or entries.

    ``directed=False`` takes each edge in both directions, and combines two opposite edges by ⊕. It raises `DomainError`
    for NaN and for weights outside the domain, and `FormatError` for weights that the dtype does not represent. Both
    errors name the place of the weight. With ``sparse`` the edges are stored in a `scipy.sparse.csr_array`. None means
    that they are if n > 4,096 and at most n²/16 edges are listed. Entries stay dense. Raises `TooLargeError` before it
    takes memory, and `ValueError` for ``directed=True`` and undirected edges.
    """
    undirected = directed is False
    if isinstance(edges, Entries):
        flat = convert(edges.matrix.reshape(-1), semiring, dtype, edges.locate, has_dtype=edges.has_dtype)
        matrix = flat.reshape(edges.matrix.shape)
        matrix = symmetrize(matrix, semiring) if undirected else matrix
        combined = undirected
    else:
        if directed and not edges.directed:
            raise ValueError("the edges are undirected: leave directed=True out")
        n, undirected = edges.size, undirected or not edges.directed
        demand_memory(n * _NAME_BYTES, f"the list of {n:,} vertices", "read a part of the network")
        if sparse is None:
            sparse = n > _DENSE_VERTICES and len(edges.rows) * _DENSE_SHARE <= n * n
        rows, columns, weights = weighted_edges(edges, semiring, dtype, directed=not undirected)
        if sparse and not is_half(weights.dtype):  # which SciPy does not store
            matrix, combined = compress(n, rows, columns, weights, semiring)
        else:
            demand_memory(
                n * n * weights.itemsize, f"the {weights.dtype} matrix of {n:,} vertices", fewer_paths_advice()
            )
            matrix = np.full((n, n), semiring.zero_for(weights.dtype), weights.dtype)
            combined = scatter(matrix, rows, columns, weights, semiring)
    names: Any = edges.names  # a range stays one until `Network` makes a tuple of it
    record: dict[str, Any] = {"semiring": semiring, "combined": combined, "directed": not undirected}
    return Network(matrix, names, unit=edges.unit, title=title, **record)


def compress(
    n: int,
    rows: np.ndarray[Any, Any],
    columns: np.ndarray[Any, Any],
    values: np.ndarray[Any, Any],
    semiring: Semiring,
) -> tuple[Any, bool]:
    """Return edges as a `scipy.sparse.csr_array`, and whether ⊕ combined some of them."""
    from scipy.sparse import csr_array

    cells = rows.astype(np.int64) * n + columns
    order = np.argsort(cells, kind="stable")
    cells, values = add_duplicates(cells[order], values[order], semiring)
    rows, columns = np.divmod(cells, max(1, n))
    starts = np.concatenate([[0], np.bincount(rows, minlength=n).cumsum()])
    return csr_array((values, columns, starts), shape=(n, n)), cells.size < order.size


def weighted_edges(
    edges: Edges, semiring: Semiring, dtype: Any = None, *, directed: bool = True
) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Return the tails, the heads and the weights of edges, in the order of the source.

    If ``directed`` is False, here or in the edges, the opposite edges follow after all edges. Errors are those of
    `assemble`.
    """
    if edges.ambiguity and semiring.dtypes != ("bool",):  # over truth values every listed edge is True
        raise FormatError(edges.ambiguity)
    values = edges.values
    if values is None or (values.dtype.kind == "b" and semiring.dtypes == ("bool",) and not edges.names_weights):
        values = np.ones(len(edges.rows), np.int64)
    facts = {"has_dtype": edges.has_dtype, "is_edge_list": True, "is_text": edges.is_text}
    weights = convert(values, semiring, dtype, edges.locate, **facts)
    rows, columns = edges.rows, edges.columns
    if not (directed and edges.directed):
        proper = rows != columns
        rows, columns = np.concatenate([rows, columns[proper]]), np.concatenate([columns, rows[proper]])
        weights = np.concatenate([weights, weights[proper]])
    return rows, columns, weights


def semiring_of(A: Any, semiring: Semiring | str | None) -> Semiring | str:
    """Return the named semiring, or if none is named the semiring of a `Network`, else min-plus.

    A `Network` without a semiring has the default of a call: boolean if it holds truth values, else min-plus.
    """
    if semiring is not None:
        return semiring
    if not isinstance(A, Network):
        return "min_plus"
    return A.semiring or ("boolean" if A.matrix.dtype == np.bool_ else "min_plus")


def convert_network(network: Network, semiring: Semiring, dtype: Any = None) -> Network:
    """Return the network over another semiring, whose zero replaces "no edge", with the same weights.

    Raises the errors of `assemble`. It raises `AlgebraError` if edges were combined by another ⊕ than that of
    ``semiring``, because their original weights are lost.
    """
    own = as_semiring(semiring_of(network, None))
    matrix = network.matrix
    if own == semiring and (dtype is None or as_dtype(dtype) == matrix.dtype):
        return network if network.semiring is own else replace(network, semiring=semiring)
    # Over truth values every edge is True, so combined weights lose nothing.
    if network.combined and own.add.expression != semiring.add.expression and semiring.dtypes != ("bool",):
        raise AlgebraError(
            f"some edges of the network were added by the ⊕ of {own.name}, so their weights in {semiring.name} "
            f"are not known: read it with semiring={quote(semiring.name)}"
        )
    rows, columns, values = network_edges(network)
    named = network._vertex_names

    def locate(edge: int) -> str:
        return f"the edge {named[rows[edge]]} → {named[columns[edge]]}"

    edges = Edges(matrix.shape[0], rows, columns, values, locate, has_dtype=True, is_text=False)
    converted = assemble(edges, semiring, dtype, sparse=is_sparse(matrix)).matrix
    return replace(network, matrix=converted, semiring=semiring)


def symmetrize(matrix: Any, semiring: Semiring) -> Any:
    """Return the new matrix A ⊕ Aᵀ, dense or sparse, in which loops count once."""
    if is_sparse(matrix):
        rows, columns, values = stored_entries(matrix)
        other = rows != columns
        ends = np.concatenate([rows, columns[other]]), np.concatenate([columns, rows[other]])
        return compress(matrix.shape[0], *ends, np.concatenate([values, values[other]]), semiring)[0]
    both = np.array(semiring.add(matrix, matrix.T), matrix.dtype)
    np.fill_diagonal(both, matrix.diagonal())
    return both


def convert(
    values: np.ndarray[Any, Any],
    semiring: Semiring,
    dtype: Any,
    locate: Locate,
    *,
    has_dtype: bool,
    is_edge_list: bool = False,
    is_text: bool = False,
) -> np.ndarray[Any, Any]:
    """Convert the values of a file to elements of the semiring in ``dtype``.

    With ``dtype`` None the dtype is that of the file, if it has one and the semiring supports it. "No edge" stays "no
    edge" in the new dtype. With ``is_edge_list`` the values belong to listed edges, so in the boolean semiring each
    value becomes True. With ``is_text`` no integer among the values means "no edge".
    """
    if values.dtype.kind not in "fiub":
        raise FormatError(f"{locate(-1)}: holds {values.dtype}, not real numbers")
    target = as_dtype(dtype) if dtype is not None else _default_dtype(values, semiring, has_dtype=has_dtype)
    semiring.check_dtype(target)
    if values.dtype.kind == "f":
        _reject_values(np.isnan(values), values, locate, DomainError, "the weight is not a number (NaN)")
    if target.kind == "b":
        return _as_truth_values(values, locate, is_edge_list=is_edge_list and semiring.dtypes == ("bool",))
    none = np.zeros(values.shape, bool) if is_text and values.dtype.kind in "iu" else _find_no_edge(values, semiring)
    if values.dtype.kind == "b":  # True is an edge of weight 1, False is no edge
        none = ~values
    if target.kind in "iu":
        result = _as_integers(values, none, semiring, target, locate)
    else:
        with np.errstate(over="ignore"):
            result = np.asarray(values, target)
        if values.dtype.kind == "f":
            is_lost = np.isinf(result) & ~np.isinf(values)
            _reject_values(is_lost, values, locate, FormatError, f"the weight {{}} does not fit {target}")
        elif values.dtype.kind in "iu":
            where = advice(" to semiring.as_network or read", "")
            reason = f"the weight {{}} is not exact in {target}: pass {option('dtype', 'int64')}{where}"
            _reject_values(_find_inexact(values, result) & ~none, values, locate, FormatError, reason)
    if none.any():
        result = np.where(none, semiring.zero_for(target), result)
    outside = ~(semiring.domain.contains(result) | none)
    reason = f"the weight {{}} lies outside the domain {semiring.domain} of {semiring.name}"
    if semiring.name not in CATALOGUE:
        reason += f": change the weight, or {advice('the domain of the semiring', option('domain'))}"
    _reject_values(outside, values, locate, DomainError, reason)
    return result


def _find_inexact(values: np.ndarray[Any, Any], floats: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return which integers differ from their conversion to ``floats``."""
    is_lost = np.asarray(np.abs(floats) >= 2.0 ** float_limits(floats.dtype).nmant)
    is_lost[is_lost] = [
        not is_exact(rounded, value) for rounded, value in zip(floats[is_lost], values[is_lost], strict=True)
    ]
    return is_lost


def dtype_of_frame(values: np.ndarray[Any, Any], semiring: Semiring) -> np.dtype[Any]:
    """Return the dtype for the numbers of a frame: float64 for integers, which have no ∞ for "no path".

    Raises `FormatError` for integers that float64 does not represent.
    """
    floats = values.dtype.kind in "iu" and semiring.supports(np.float64)
    if (
        floats
        and (is_lost := _find_inexact(values, values.astype(np.float64)) & ~_find_no_edge(values, semiring)).any()
    ):
        raise FormatError(
            f"the frame holds {values[is_lost][0]}, which is not exact in float64: pass semiring.as_network(A, "
            "dtype='int64'), or A.to_numpy()"
        )
    return np.dtype(np.float64) if floats else values.dtype


def _default_dtype(values: np.ndarray[Any, Any], semiring: Semiring, *, has_dtype: bool) -> np.dtype[Any]:
    if has_dtype and values.dtype.name in semiring.dtypes:
        return np.dtype(str(values.dtype.name))  # the same dtype in the byte order of this machine
    preferences = ("float64", "int64", "uint8", "bool", *semiring.dtypes)
    return np.dtype(next(name for name in preferences if name in semiring.dtypes))


def _find_no_edge(values: np.ndarray[Any, Any], semiring: Semiring) -> np.ndarray[Any, Any]:
    """Return which values mean "no edge" in their dtype."""
    if values.dtype.kind == "f":
        zero = semiring.zero.leaf if semiring.zero.op == "const" else None
        infinite = isinstance(zero, float) and math.isinf(zero)
        return np.asarray(values == zero) if infinite else np.zeros(values.shape, bool)
    if semiring.tropical and semiring.supports(values.dtype) and values.dtype.kind == "i":
        return np.asarray(values == semiring.zero_for(values.dtype))
    return np.zeros(values.shape, bool)


def _as_truth_values(values: np.ndarray[Any, Any], locate: Locate, *, is_edge_list: bool) -> np.ndarray[Any, Any]:
    if values.dtype.kind == "b":
        return values
    if is_edge_list:
        return np.ones(values.shape, bool)
    _reject_values((values != 0) & (values != 1), values, locate, FormatError, "{} is not a truth value, 0 or 1")
    return values.astype(bool)


def _as_integers(
    values: np.ndarray[Any, Any], none: np.ndarray[Any, Any], semiring: Semiring, target: np.dtype[Any], locate: Locate
) -> np.ndarray[Any, Any]:
    limits = np.iinfo(target)
    wrong = (values < limits.min) | (values > limits.max)
    if values.dtype.kind == "f":
        # float64(2**63 - 1) is 2**63: a float at or past the upper end does not fit.
        wrong |= (values >= float(limits.max)) & (float(limits.max) > limits.max)
        wrong |= values != np.floor(values)
        one = semiring.one.leaf if semiring.one.op == "const" else None
        # In max_min and min_max ∞ is the extreme value of an integer dtype.
        if isinstance(one, float) and math.isinf(one):
            wrong &= values != one
            none = none | (values == one)
    _reject_values(wrong & ~none, values, locate, FormatError, f"the weight {{}} is not an {target}")
    if semiring.tropical:
        reserved = (values == semiring.zero_for(target)) & ~none
        remedy = "use a wider dtype" if target.itemsize < 8 else "no wider integer dtype exists, so divide the weights"
        reason = f"the weight {{}} means “no edge” in {target}: {remedy}"
        _reject_values(reserved, values, locate, FormatError, reason)
    result: np.ndarray[Any, Any] = np.where(none, 0, values).astype(target)
    if values.dtype.kind == "f" and none.any():
        result[none & (values > 0)] = limits.max
        result[none & (values < 0)] = limits.min
    return result


def _reject_values(
    wrong: np.ndarray[Any, Any], values: np.ndarray[Any, Any], locate: Locate, error: type[SemiringError], reason: str
) -> None:
    """Raise ``error`` for the first wrong value, naming its place; ``{}`` in the reason stands for the value."""
    if wrong.any():
        first = int(np.argmax(wrong))
        value = values[first]
        raise error(f"{locate(first)}: {reason.format(f'{value:g}' if values.dtype.kind == 'f' else value)}")
