"""A network as the file formats know it, and its matrix over a semiring.

Formats that list edges hand over `Edges`; formats that hold a matrix hand over its entries. Both become a square matrix
here: an edge that is not listed is 0̄, a listed edge is an edge whatever its weight (0 too), and edges listed more than
once combine by ⊕.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np

from semiring.advice import advice, fewer_paths, option
from semiring.algebra import Semiring
from semiring.algebra.catalogue import CATALOGUE, as_semiring
from semiring.algebra.expressions.tree import float_limits
from semiring.arrays.labels import framed
from semiring.arrays.memory import demand_memory
from semiring.arrays.scatter import added, scatter
from semiring.arrays.vertices import Vertices
from semiring.errors import AlgebraError, DomainError, FormatError, MissingExtraError, SemiringError, ShapeError
from semiring.io.text import is_exact

__all__ = [
    "Edges",
    "Entries",
    "Network",
    "assemble",
    "assemble_sparse",
    "both_directions",
    "convert",
    "dtype_of_frame",
    "leads_one_way",
    "over",
    "semiring_of",
    "square",
    "weighted",
]

Locate: TypeAlias = Callable[[int], str]

#: What to call where a matrix of all pairs does not fit.


@dataclass(frozen=True, eq=False)
class Network:
    """A weighted directed graph: its matrix, and what its file says of the vertices.

    Attributes
    ----------
    matrix
        (n, n); ``matrix[i, j]`` is the weight of the edge i → j, the semiring's zero where there is none.
    names
        One for each vertex, or None where vertices are 0 … n - 1.
    labels
        A longer name for each vertex ("Boston" beside "BOS"), or None.
    positions
        (n, 2) coordinates x, y to draw the vertices at, or None; if ``geographic``, longitude and latitude in degrees.
    unit
        What the weights count ("km"), or "".
    title
        What to call the network, usually the stem of its file's name.
    semiring
        Whose zero the matrix holds where there is no edge. None, where nobody said, is min-plus, of truths boolean.
    combined
        Whether some weight is the ⊕ of several edges from one vertex to the other.
    directed
        False where each edge was taken in both directions.

    Raises `ShapeError` where the matrix is not square, or the names, labels or positions are not n, or names not
    different.
    """

    matrix: np.ndarray[Any, Any]
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
        n = square(self.matrix.shape, "Network")
        object.__setattr__(self, "names", Vertices(n, self.names).names)
        for what, held in (("labels", self.labels), ("positions", self.positions)):
            if held is not None and len(held) != n:
                raise ShapeError(f"Network: {len(held)} {what} for {n} vertices")

    def __repr__(self) -> str:
        n = self.matrix.shape[0]
        known = [word for word in ("names", "labels", "positions") if getattr(self, word) is not None]
        has = f" with {', '.join(known)}" if known else ""
        unit = f", in {self.unit}" if self.unit else ""
        title = f" {self.title!r}" if self.title else ""
        return f"<Network{title}: {n:,} {'vertex' if n == 1 else 'vertices'}{has}, {self.matrix.dtype}{unit}>"

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        from semiring.terminal import html_matrix

        return html_matrix(repr(self), self.matrix, self._called, self._called)

    @property
    def _called(self) -> Sequence[Any]:
        """What the vertices are called."""
        return range(len(self.matrix)) if self.names is None else self.names

    def to_frame(self) -> Any:
        """The matrix as a frame of pandas, rows and columns called by the names of the vertices.

        Raises `MissingExtraError` without pandas.
        """
        return framed(self.matrix, self._called, self._called)

    def to_networkx(self) -> Any:
        """A ``networkx.DiGraph``, or a ``Graph``: weights as ``weight``, labels as ``label``, positions as ``pos``.

        Raises `MissingExtraError` without NetworkX.
        """
        try:
            import networkx as nx
        except ImportError:
            raise MissingExtraError("NetworkX", "networkx", "to_networkx") from None
        names: Any = self._called
        graph = (nx.DiGraph if leads_one_way(self) else nx.Graph)(name=self.title)
        for vertex, name in enumerate(names):
            more: dict[str, Any] = {} if self.labels is None else {"label": self.labels[vertex]}
            if self.positions is not None:
                more["pos"] = tuple(self.positions[vertex].tolist())
            graph.add_node(name, **more)
        zero = as_semiring(semiring_of(self, None)).zero_for(self.matrix.dtype)
        rows, columns = np.nonzero(self.matrix != zero)
        weights = self.matrix[rows, columns].tolist()
        graph.add_weighted_edges_from((names[i], names[j], w) for i, j, w in zip(rows, columns, weights, strict=True))
        return graph


def leads_one_way(network: Network) -> bool:
    """Whether the edges of a network have directions, or have got some since it was read."""
    return network.directed or not np.array_equal(network.matrix, network.matrix.T)


@dataclass(frozen=True, eq=False)
class Edges:
    """Edges as a file lists them: ``rows[e]`` → ``columns[e]`` of weight ``values[e]`` (None: every edge weighs 1)."""

    size: int
    rows: np.ndarray[Any, Any]
    columns: np.ndarray[Any, Any]
    values: np.ndarray[Any, Any] | None
    locate: Locate
    typed: bool = False  # whether the file says which dtype the values have, as text does not
    written: bool = True  # whether the values are numbers as text has them, of which no integer means "no edge"
    names: Sequence[Any] | None = None
    unit: str = ""
    directed: bool = True
    asked: bool = False  # whether the caller named the weights
    unclear: str = ""  # what to say where several titles have numbers, and it is not known which are the weights


@dataclass(frozen=True, eq=False)
class Entries:
    """A square matrix whose entries are elements of the semiring, as a file holds them."""

    matrix: np.ndarray[Any, Any]
    locate: Locate
    typed: bool = True
    names: Sequence[Any] | None = None
    unit: str = ""


def square(shape: Sequence[int], source: str) -> int:
    """The number of vertices of a matrix of that shape; `ShapeError` unless it is square."""
    if len(shape) != 2 or shape[0] != shape[1]:
        size = " × ".join(str(side) for side in shape) or "a single number"
        raise ShapeError(f"{source}: the array is {size}: the matrix of a network is square")
    return int(shape[0])


def assemble(
    found: Edges | Entries, semiring: Semiring, dtype: Any = None, *, directed: bool = True, title: str = ""
) -> Network:
    """The network of what was listed; ``directed=False`` takes each edge in both directions, ⊕ where both are given.

    Raises `DomainError` for NaN and for weights outside the domain, `FormatError` for weights that the dtype does not
    hold; both name the place.
    """
    combined = False
    if isinstance(found, Entries):
        flat = convert(found.matrix.reshape(-1), semiring, dtype, found.locate, typed=found.typed)
        matrix = flat.reshape(found.matrix.shape)
        if not directed:
            matrix, combined = both_directions(matrix, semiring), True
    else:
        matrix, combined = _matrix_of_edges(found, semiring, dtype, directed)
        directed = directed and found.directed
    known: dict[str, Any] = {"semiring": semiring, "combined": combined, "directed": directed}
    return Network(matrix, _held(found.names), unit=found.unit, title=title, **known)


def _held(names: Sequence[Any] | None) -> tuple[Any, ...] | None:
    return None if names is None else tuple(names)


def assemble_sparse(
    found: Edges, semiring: Semiring, dtype: Any = None, *, directed: bool = True, title: str = ""
) -> Network:
    """`assemble` of edges, whose matrix is a `scipy.sparse.csr_array`: what it does not store is no edge."""
    from scipy.sparse import csr_array

    rows, columns, weights = weighted(found, semiring, dtype, directed=directed)
    cells = rows.astype(np.int64) * found.size + columns
    order = np.argsort(cells, kind="stable")
    cells, values = added(cells[order], weights[order], semiring)
    starts = np.searchsorted(cells, np.arange(found.size + 1) * found.size)
    matrix: Any = csr_array((values, cells % max(1, found.size), starts), shape=(found.size, found.size))
    known: dict[str, Any] = {"semiring": semiring, "combined": cells.size < rows.size}
    known["directed"] = directed and found.directed
    return Network(matrix, _held(found.names), unit=found.unit, title=title, **known)


def _matrix_of_edges(found: Edges, semiring: Semiring, dtype: Any, directed: bool) -> tuple[np.ndarray[Any, Any], bool]:
    rows, columns, weights = weighted(found, semiring, dtype, directed=directed)
    matrix = _full(found.size, semiring, weights.dtype)
    return matrix, scatter(matrix, rows, columns, weights, semiring)


def weighted(
    found: Edges, semiring: Semiring, dtype: Any = None, *, directed: bool = True
) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """The tails, the heads and the weights of edges, in the order in which they are listed; errors as in `assemble`.

    ``directed=False``, or of the edges themselves, lists each edge in the other direction too, behind all others.
    """
    if found.unclear and semiring.dtypes != ("bool",):  # of truths every edge is one, whatever its weight
        raise FormatError(found.unclear)
    values = found.values
    if values is None or (values.dtype.kind == "b" and semiring.dtypes == ("bool",) and not found.asked):
        values = np.ones(len(found.rows), np.int64)
    known = {"typed": found.typed, "listed": True, "written": found.written}
    weights = convert(values, semiring, dtype, found.locate, **known)
    rows, columns = found.rows, found.columns
    if not (directed and found.directed):
        proper = rows != columns
        rows, columns = np.concatenate([rows, columns[proper]]), np.concatenate([columns, rows[proper]])
        weights = np.concatenate([weights, weights[proper]])
    return rows, columns, weights


def semiring_of(A: Any, named: Semiring | str | None) -> Semiring | str:
    """The semiring that a caller named; where he named none that of a `Network`, else min-plus.

    A `Network` that names none has that of the call without a name: min-plus, and boolean where it holds truths.
    """
    if named is not None:
        return named
    if not isinstance(A, Network):
        return "min_plus"
    return A.semiring or ("boolean" if A.matrix.dtype == np.bool_ else "min_plus")


def over(network: Network, semiring: Semiring, dtype: Any = None) -> Network:
    """The network over another semiring: "no edge" becomes its zero, the weights stay.

    Raises as `assemble`, and `AlgebraError` where edges were added by another ⊕ than that of ``semiring``: which of
    them it would have taken is not known any more.
    """
    own = as_semiring(semiring_of(network, None))
    matrix = network.matrix
    if own == semiring and (dtype is None or np.dtype(dtype) == matrix.dtype):
        return network if network.semiring is own else replace(network, semiring=semiring)
    # In a semiring of truths every edge is one, whatever its weight.
    if network.combined and own.add.expression != semiring.add.expression and semiring.dtypes != ("bool",):
        raise AlgebraError(
            f"some edges of the network were added by the ⊕ of {own.name}, so their weights in {semiring.name} "
            f"are not known: read it with semiring={semiring.name!r}"
        )
    rows, columns = np.nonzero(matrix != own.zero_for(matrix.dtype))
    named = network.names or range(len(matrix))

    def locate(edge: int) -> str:
        return f"the edge {named[rows[edge]]} → {named[columns[edge]]}"

    edges = Edges(len(matrix), rows, columns, matrix[rows, columns], locate, typed=True, written=False)
    known = assemble(edges, semiring, dtype)
    return replace(network, matrix=known.matrix, semiring=semiring)


def both_directions(matrix: np.ndarray[Any, Any], semiring: Semiring) -> np.ndarray[Any, Any]:
    """A ⊕ Aᵀ, a new matrix; an edge from a vertex to itself has one direction, and is there once."""
    both = np.array(semiring.add(matrix, matrix.T), matrix.dtype)
    np.fill_diagonal(both, matrix.diagonal())
    return both


def _full(n: int, semiring: Semiring, dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    demand_memory(n * n * dtype.itemsize, f"the {dtype} matrix of {n:,} vertices", fewer_paths())
    return np.full((n, n), semiring.zero_for(dtype), dtype)


def convert(
    values: np.ndarray[Any, Any],
    semiring: Semiring,
    dtype: Any,
    locate: Locate,
    *,
    typed: bool,
    listed: bool = False,
    written: bool = False,
) -> np.ndarray[Any, Any]:
    """Values of a file as elements of the semiring in ``dtype`` (None: the file's own where it has one that fits).

    "No edge" stays "no edge" from dtype to dtype. ``listed``: the values belong to edges that a file lists, so in the
    boolean semiring each of them is True, whatever its weight. ``written``: no integer among them means "no edge".
    """
    if values.dtype.kind not in "fiub":
        raise FormatError(f"{locate(-1)}: holds {values.dtype}, not real numbers")
    target = np.dtype(dtype) if dtype is not None else _own_dtype(values, semiring, typed=typed)
    semiring.check_dtype(target)
    if values.dtype.kind == "f":
        _refuse(np.isnan(values), values, locate, DomainError, "the weight is not a number (NaN)")
    if target.kind == "b":
        return _truths(values, locate, listed=listed and semiring.dtypes == ("bool",))
    none = np.zeros(values.shape, bool) if written and values.dtype.kind in "iu" else _no_edge(values, semiring)
    if target.kind in "iu":
        result = _integers(values, none, semiring, target, locate)
    else:
        with np.errstate(over="ignore"):
            result = np.asarray(values, target)
        if values.dtype.kind == "f":
            lost = np.isinf(result) & ~np.isinf(values)
            _refuse(lost, values, locate, FormatError, f"the weight {{}} does not fit {target}")
        elif values.dtype.kind in "iu":
            where = advice(" to semiring.network_of or read", "")
            reason = f"the weight {{}} is not exact in {target}: pass {option('dtype', 'int64')}{where}"
            _refuse(_rounded(values, result) & ~none, values, locate, FormatError, reason)
    if none.any():
        result = np.where(none, semiring.zero_for(target), result)
    outside = ~(semiring.domain.contains(result) | none)
    reason = f"the weight {{}} lies outside the domain {semiring.domain} of {semiring.name}"
    if semiring.name not in CATALOGUE:
        reason += f": change the weight, or {advice('the domain of the semiring', option('domain'))}"
    _refuse(outside, values, locate, DomainError, reason)
    return result


def _rounded(values: np.ndarray[Any, Any], floats: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Which integers are others in ``floats``."""
    lost = np.asarray(np.abs(floats) >= 2.0 ** float_limits(floats.dtype).nmant)
    lost[lost] = [not is_exact(rounded, value) for rounded, value in zip(floats[lost], values[lost], strict=True)]
    return lost


def dtype_of_frame(values: np.ndarray[Any, Any], semiring: Semiring) -> np.dtype[Any]:
    """What the numbers of a frame are computed in: float64 for its integers, which have no ∞ for "no path".

    Raises `FormatError` for integers that float64 does not hold.
    """
    floats = values.dtype.kind in "iu" and semiring.supports(np.float64)
    if floats and (lost := _rounded(values, values.astype(np.float64)) & ~_no_edge(values, semiring)).any():
        raise FormatError(
            f"the frame holds {values[lost][0]}, which is not exact in float64: pass semiring.network_of(A, "
            "dtype='int64'), or A.to_numpy()"
        )
    return np.dtype(np.float64) if floats else values.dtype


def _own_dtype(values: np.ndarray[Any, Any], semiring: Semiring, *, typed: bool) -> np.dtype[Any]:
    if typed and values.dtype.name in semiring.dtypes:
        return np.dtype(str(values.dtype.name))  # in this machine's byte order
    wanted = ("float64", "int64", "uint8", "bool", *semiring.dtypes)
    return np.dtype(next(name for name in wanted if name in semiring.dtypes))


def _no_edge(values: np.ndarray[Any, Any], semiring: Semiring) -> np.ndarray[Any, Any]:
    """Which values mean "no edge" in the dtype that they have."""
    if values.dtype.kind == "f":
        zero = semiring.zero.leaf if semiring.zero.op == "const" else None
        infinite = isinstance(zero, float) and math.isinf(zero)
        return np.asarray(values == zero) if infinite else np.zeros(values.shape, bool)
    if semiring.tropical and semiring.supports(values.dtype) and values.dtype.kind == "i":
        return np.asarray(values == semiring.zero_for(values.dtype))
    return np.zeros(values.shape, bool)


def _truths(values: np.ndarray[Any, Any], locate: Locate, *, listed: bool) -> np.ndarray[Any, Any]:
    if values.dtype.kind == "b":
        return values
    if listed:
        return np.ones(values.shape, bool)
    _refuse((values != 0) & (values != 1), values, locate, FormatError, "{} is not a truth value, 0 or 1")
    return values.astype(bool)


def _integers(
    values: np.ndarray[Any, Any], none: np.ndarray[Any, Any], semiring: Semiring, target: np.dtype[Any], locate: Locate
) -> np.ndarray[Any, Any]:
    limits = np.iinfo(target)
    wrong = (values < limits.min) | (values > limits.max)
    if values.dtype.kind == "f":
        # float64(2**63 - 1) is 2**63: a float at or past the upper end does not fit.
        wrong |= (values >= float(limits.max)) & (float(limits.max) > limits.max)
        wrong |= values != np.floor(values)
        one = semiring.one.leaf if semiring.one.op == "const" else None
        if isinstance(one, float) and math.isinf(one):  # max_min, min_max: ∞ is the extreme value of an integer dtype
            wrong &= values != one
            none = none | (values == one)
    _refuse(wrong & ~none, values, locate, FormatError, f"the weight {{}} is not an {target}")
    if semiring.tropical:
        taken = (values == semiring.zero_for(target)) & ~none
        reason = f"the weight {{}} means “no edge” in {target}: use a wider dtype"
        _refuse(taken, values, locate, FormatError, reason)
    result: np.ndarray[Any, Any] = np.where(none, 0, values).astype(target)
    if values.dtype.kind == "f" and none.any():
        result[none & (values > 0)] = limits.max
        result[none & (values < 0)] = limits.min
    return result


def _refuse(
    wrong: np.ndarray[Any, Any], values: np.ndarray[Any, Any], locate: Locate, error: type[SemiringError], reason: str
) -> None:
    """Raise ``error`` for the first wrong value, naming its place; ``{}`` in the reason stands for the value."""
    if wrong.any():
        first = int(np.argmax(wrong))
        value = values[first]
        raise error(f"{locate(first)}: {reason.format(f'{value:g}' if values.dtype.kind == 'f' else value)}")
