"""Read and write networks: NumPy, SciPy, Matrix Market, DIMACS, node-link JSON and edge lists.

>>> import numpy as np
>>> from semiring.io import read, write
>>> write("triangle.csv", np.array([[np.inf, 2.0, 9.0], [np.inf, np.inf, 3.0], [1.0, np.inf, np.inf]]))
>>> read("triangle.csv").matrix
array([[inf,  2.,  9.],
       [inf, inf,  3.],
       [ 1., inf, inf]])
"""

from __future__ import annotations

import gzip
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, BinaryIO, cast

import numpy as np

from semiring.advice import advice
from semiring.algebra import Semiring
from semiring.algebra.catalogue import as_semiring
from semiring.algebra.expressions.tree import is_floating
from semiring.algorithms.progress import Progress, as_progress
from semiring.arrays.bits import BitMatrix
from semiring.arrays.labels import is_edge_frame, is_frame, is_graph, labelled_square, parse_title_pair
from semiring.arrays.operands import as_host_operand, as_matrix, require_real_numbers
from semiring.errors import DomainError, FormatError, ShapeError, TooLargeError
from semiring.io import dimacs, edge_list, matrix_market, node_link, npy
from semiring.io.atomic import atomic_file
from semiring.io.files import open_binary
from semiring.io.graphs import as_network
from semiring.io.network import (
    Edges,
    Entries,
    Network,
    assemble,
    assemble_sparse,
    convert_network,
    count_vertices,
    is_directed,
)
from semiring.io.positions import with_positions
from semiring.io.text import ProgressMatrix
from semiring.kernels.contract import NO_PREDECESSOR

__all__ = [
    "FORMATS",
    "Network",
    "as_network",
    "atomic_file",
    "format_of",
    "read",
    "with_positions",
    "write",
    "write_vertices",
]

#: The formats by the ending of a file's name. Text formats and Matrix Market files may also end in .gz.
FORMATS = {
    ".npy": "npy",
    ".npz": "npz",
    ".mtx": "mtx",
    ".gr": "gr",
    ".json": "json",
    ".csv": "csv",
    ".tsv": "tsv",
    ".txt": "txt",
    ".edges": "txt",
    ".edgelist": "txt",
}


_SPARSE_ADVICE = (
    ". They take edges as a frame, a graph or a sparse matrix: shortest_paths(pandas.read_csv(FILE), sources=[...]), "
    "networkx.node_link_graph, scipy.io.mmread; or on the command line: semiring paths FILE --from A --to B"
)


#: Readers of other formats, by the ending of a file's name. All functions accept the results of these readers.
_OTHER_READERS = {
    ".graphml": "networkx.read_graphml",
    ".gml": "networkx.read_gml",
    ".gexf": "networkx.read_gexf",
    ".net": "networkx.read_pajek",
    ".adjlist": "networkx.read_adjlist",
    ".xlsx": "pandas.read_excel",
    ".parquet": "pandas.read_parquet",
}


def format_of(path: str | os.PathLike[str]) -> str:
    """Return the format that the ending of a file's name stands for.

    Parameters
    ----------
    path : str or path-like
        The name of a file. The name "-", for standard input and output, stands for an edge list.

    Returns
    -------
    str
        One of the values of `FORMATS`.

    Raises
    ------
    FormatError
        For an unknown ending, and for a folder.
    TypeError
        If the argument is not the name of a file.
    """
    if not isinstance(path, str | os.PathLike):
        raise TypeError(
            f"the first argument of write is the name of a file, write(path, matrix), not a {type(path).__name__}"
        )
    name = os.fspath(path)
    if name == "-":
        return "txt"
    ending = Path(name.removesuffix(".gz")).suffix.lower()
    if ending not in FORMATS or (name.endswith(".gz") and ending in (".npy", ".npz")):
        reader = _OTHER_READERS.get(ending) if os.path.exists(name) else None
        if os.path.isdir(name):
            raise FormatError(f"{name} is a folder: give a file that ends in {', '.join(FORMATS)}")
        hint = f". {reader}(FILE) reads it, and the functions of semiring accept its result" if reader else ""
        raise FormatError(
            f"{name}: the ending names no known format: give one of {', '.join(FORMATS)} (text also with .gz){hint}"
        )
    return FORMATS[ending]


def read(
    path: str | os.PathLike[str],
    semiring: Semiring | str = "min_plus",
    *,
    dtype: Any = None,
    directed: bool = True,
    format: str | None = None,  # noqa: A002  # the name of this option in numpy, pandas and networkx
    header: bool | None = None,
    weight: str | None = None,
    columns: tuple[str, str] | None = None,
) -> Network:
    """Read a network from a file: its (n, n) matrix over ``semiring``, and the names of the vertices in the file.

    Parameters
    ----------
    path : str or path-like
        A file that ends in one of `FORMATS`, plain or (text) with .gz. "-" reads an edge list from standard input.
    semiring : Semiring or str, default "min_plus"
        A semiring or the name of one. Its zero fills the entries without an edge.
    dtype : dtype, optional
        The dtype of the matrix. The default is the dtype of the file (npy, npz, integer mtx), else float64, or the
        nearest dtype on which the semiring is defined.
    directed : bool, default True
        False takes each edge in both directions. A node-link file that is not ``directed`` does the same.
    format : str, optional
        One of the values of `FORMATS`, which overrides the ending of the name.
    header : bool, optional
        Whether the first line of an edge list names the columns. The default None detects a header by its titles. It
        raises `FormatError` if the line may also be an edge with a mistyped weight.
    weight : str, optional
        The title of the column that holds the weights of an edge list, or their key in a node-link file. With
        ``header=False`` columns are named by their numbers, "1" for the first.
    columns : tuple of str, optional
        The titles or numbers of the columns in which the edges of an edge list begin and end.

    Returns
    -------
    Network
        The matrix and the names of its vertices.

    Raises
    ------
    FormatError, ShapeError, DomainError
        The file is damaged or ambiguous, not square, or holds NaN or a weight outside the domain. The message names the
        file and the line.
    DTypeError, OSError, TooLargeError
        The semiring does not have the dtype, the file cannot be read, or the matrix does not fit in the memory.

    Notes
    -----
    An edge that is not listed is the semiring's zero. A listed edge is an edge, also of weight 0, and edges listed more
    than once combine by ⊕. In a dense matrix every entry is an element of the semiring. Nothing is unpickled. Time
    O(size of the file), memory n² elements and some 100 bytes an edge.
    """
    content, title = _read_contents(path, format, header, weight, columns)
    try:
        return assemble(content, as_semiring(semiring), dtype, directed=directed, title=title)
    except TooLargeError as error:
        raise TooLargeError(f"{error}{advice(_SPARSE_ADVICE, '')}") from None


def read_sparse(
    path: str | os.PathLike[str],
    semiring: Semiring,
    *,
    dtype: Any = None,
    directed: bool = True,
    header: bool | None = None,
    weight: str | None = None,
    columns: tuple[str, str] | None = None,
) -> Network:
    """Read a network as `read` does, with the edges of a file that lists them as a `scipy.sparse.csr_array`.

    It never needs memory for n² entries, unless the file holds a dense matrix.
    """
    content, title = _read_contents(path, None, header, weight, columns)
    if isinstance(content, Entries):
        return assemble(content, semiring, dtype, directed=directed, title=title)
    return assemble_sparse(content, semiring, dtype, directed=directed, title=title)


def _read_contents(
    path: str | os.PathLike[str],
    format: str | None,  # noqa: A002
    header: bool | None,
    weight: str | None,
    columns: tuple[str, str] | None,
) -> tuple[Edges | Entries, str]:
    """Return the edges or the entries in a file, and the title of its network."""
    kind, source = format or format_of(path), os.fspath(path)
    if kind not in FORMATS.values():
        raise FormatError(f"no format is named {kind!r}: known are {', '.join(dict.fromkeys(FORMATS.values()))}")
    lists = kind in ("csv", "tsv", "txt")
    titled = header is not None or columns is not None or (weight is not None and kind != "json")
    if titled and not lists:
        raise FormatError(f"{source}: header=, weight= and columns= are for edge lists, not for {kind}")
    columns = None if columns is None else parse_title_pair(columns)
    name = "<stdin>" if source == "-" else source
    with open_binary(source) as stream:
        result: Edges | Entries
        if kind == "npy":
            result = npy.read_npy(cast("BinaryIO", stream), name)
        elif kind == "npz":
            result = npy.read_npz(cast("BinaryIO", stream), name)
        elif kind == "mtx":
            result = matrix_market.read_matrix_market(stream.read(), name)
        elif kind == "gr":
            result = dimacs.read_dimacs(stream, name)
        elif kind == "json":
            result = node_link.read_node_link(stream.read(), name, weight=weight)
        else:
            mark = "\t" if kind == "tsv" else None
            reading: dict[str, Any] = {"header": header, "weight": weight, "columns": columns}
            result = edge_list.read_edge_list(stream, name, delimiter=mark, **reading)
    return result, _file_title(source)


def _file_title(source: str) -> str:
    return "stdin" if source == "-" else Path(source.removesuffix(".gz")).stem


def write(
    path: str | os.PathLike[str],
    matrix: Any,
    semiring: Semiring | str | None = None,
    *,
    names: Sequence[str] | None = None,
    unit: str = "",
    format: str | None = None,  # noqa: A002
    progress: Progress | bool | None = None,
) -> None:
    """Write an (n, n) matrix over ``semiring`` to a file atomically.

    Parameters
    ----------
    path : str or path-like
        The name of the file, whose ending is one of `FORMATS`.
    matrix : array_like, shape (n, n)
        An array, a `BitMatrix`, a frame, a graph, a `Network` or `Paths`.
    semiring : Semiring or str, optional
        The semiring whose zero is "no edge". The default is that of a `Network` or `Paths`, else min_plus.
    names : sequence of str, optional
        A name for each vertex. The default is the names of a frame, graph, `Network` or `Paths`.
    unit : str, default ""
        What the weights count. The default is the unit of a `Network`.
    format : str, optional
        One of the values of `FORMATS`, which overrides the ending of the name.
    progress : callable or bool, optional
        As in `closure`. The callback receives the number of rows that were listed.

    Raises
    ------
    DTypeError, FormatError, ShapeError, OSError
        The matrix or the names do not fit the format, or the file cannot be written. For a `Network` the errors of
        `as_network` occur too.
    DomainError
        A format that lists edges gets a matrix with -∞, and no semiring is named. Most likely this -∞ is "no edge" of
        another semiring than min_plus.

    Notes
    -----
    .npy and .npz hold the matrix as it is, and of a `BitMatrix` one byte an entry. .npz compresses these bytes: it
    takes 4 s for 30,000² entries of which few are True, and .csv lists these in 0.1 s. The other formats list the
    entries that differ from the semiring's zero, and also -0.0 if the zero is 0.0. They store no other "no edge". For
    an undirected network .json has each edge once.

    .npz, .json and edge lists store ``names``. Integer names read back in numerical order. Labels and positions are not
    written. Over the same semiring the file reads back bitwise identical. Formats that list edges do not record the
    dtype, so read them with ``dtype=``. An existing file keeps its permissions, and it keeps its content if an error
    occurs.
    """
    kind, directed = format or format_of(path), True
    if hasattr(matrix, "_as_network"):  # `Paths`, which belongs to a package that imports this one
        matrix = matrix._as_network()
    if is_edge_frame(matrix) or (is_graph(matrix) and not isinstance(matrix, Network)):
        matrix = as_network(matrix, semiring)
    elif is_frame(matrix):
        labelled = labelled_square(matrix)
        numbered = labelled.names == tuple(range(len(labelled.matrix)))
        own = None if semiring is None else as_semiring(semiring)
        matrix = Network(labelled.matrix, None if numbered else labelled.names, semiring=own)
    if isinstance(matrix, Network):
        directed = is_directed(matrix)
        semiring = matrix.semiring if semiring is None else semiring
        names, unit = matrix.names if names is None else names, unit or matrix.unit
        matrix = matrix.matrix if semiring is None else convert_network(matrix, as_semiring(semiring)).matrix
    named = semiring is not None
    semiring = as_semiring("min_plus" if semiring is None else semiring)
    array = _host_matrix(matrix, semiring, kind)
    n = count_vertices(array.shape, "the matrix")
    if not named and kind not in ("npy", "npz"):
        _refuse_other_zeros(array)
    checked = _check_names(names, n)
    zero = semiring.zero_for(array.dtype)
    tell, passes = as_progress(progress, "writing"), 1 if kind in ("npy", "npz", "json") else 2
    if tell is not None and kind not in ("npy", "npz"):
        array = cast("Any", ProgressMatrix(array, tell, passes))

    def fill(stream: BinaryIO) -> None:
        if kind == "npy":
            npy.write_npy(stream, array)
        elif kind == "npz":
            npy.write_npz(stream, array, checked)
        elif kind == "mtx":
            matrix_market.write_matrix_market(stream, array, zero)
        elif kind == "gr":
            dimacs.write_dimacs(stream, array, zero)
        elif kind == "json":
            node_link.write_node_link(stream, array, zero, checked and names, unit=unit, directed=directed)
        else:
            mark = "," if kind == "csv" else "\t"
            edge_list.write_edge_list(stream, array, zero, checked, delimiter=mark, unit=unit)

    _write_file(path, fill)
    if tell is not None:
        tell(passes * n, passes * n)


def _refuse_other_zeros(array: np.ndarray[Any, Any]) -> None:
    if is_floating(array.dtype) and (places := np.argwhere(np.isneginf(array))).size:
        index = ", ".join(map(str, places[0].tolist()))
        raise DomainError(
            f"the matrix holds -inf, at [{index}]: no edge in max_min and max_plus, but an edge in min_plus, the "
            'default. Name the semiring: write(path, matrix, "max_min")'
        )


def write_vertices(
    path: str | os.PathLike[str],
    matrix: Any,
    *,
    names: Sequence[str] | None = None,
    title: str = "predecessor",
    none: int = NO_PREDECESSOR,
) -> None:
    """Write an (n, n) integer matrix of vertices, such as predecessors, to .npy, .npz, or a table.

    Parameters
    ----------
    path : str or path-like
        The name of a file that ends in .npy, .npz, .csv, .tsv or .txt. A table may also end in .gz.
    matrix : array_like of int, shape (n, n)
        A vertex for each pair of vertices.
    names : sequence of str, optional
        A name for each vertex, by which a table lists the vertices.
    title : str, default "predecessor"
        The title of the column in a table.
    none : int, default -9999
        The value that stands for no vertex. A table lists the entries that differ from it.

    Raises
    ------
    FormatError
        For another ending.
    ShapeError, OSError
        As in `write`.
    """
    kind, array = format_of(path), np.asarray(matrix)
    checked = _check_names(names, count_vertices(array.shape, "the matrix"))
    if kind not in ("npy", "npz", "csv", "tsv", "txt"):
        raise FormatError(f"{os.fspath(path)}: write a matrix of vertices to .npy, .npz, .csv or .tsv, not to .{kind}")

    def fill(stream: BinaryIO) -> None:
        if kind == "npy":
            npy.write_npy(stream, array)
        elif kind == "npz":
            npy.write_npz(stream, array, checked)
        else:
            mark = "," if kind == "csv" else "\t"
            edge_list.write_table(stream, array, checked, title=title, none=none, delimiter=mark)

    _write_file(path, fill)


def _host_matrix(matrix: Any, semiring: Semiring, kind: str) -> Any:
    """Return the matrix in the memory of the host; packed truth values stay packed for formats that list edges."""
    if isinstance(matrix, BitMatrix) and not matrix.on_device and kind not in ("npy", "npz"):
        return matrix
    on_host = as_host_operand(matrix, "the matrix")
    require_real_numbers(on_host, "the matrix")
    plain = isinstance(on_host, np.ndarray | list | tuple) and not isinstance(on_host, np.ma.MaskedArray)
    return np.asarray(on_host) if plain else as_matrix(on_host, semiring, name="the matrix")


def _check_names(names: Sequence[str] | None, n: int) -> Sequence[str] | None:
    if names is None:
        return None
    texts = [str(name) for name in names]
    if len(texts) != n:
        raise ShapeError(f"{len(texts)} names for {n} vertices")
    if len(set(texts)) < n:
        twice = next(text for place, text in enumerate(texts) if text in texts[:place])
        raise ShapeError(f"the name {twice!r} was given to two vertices: names must differ")
    return texts


def _write_file(path: str | os.PathLike[str], fill: Any) -> None:
    with atomic_file(path) as stream:
        if os.fspath(path).endswith(".gz"):
            with gzip.GzipFile(fileobj=stream, mode="wb", mtime=0) as packed:  # mtime 0: equal content, equal bytes
                fill(packed)
        else:
            fill(stream)
