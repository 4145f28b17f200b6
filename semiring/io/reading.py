"""Read a network from a file: choose the reader of its format, and assemble its matrix.

Positions of vertices are in a csv table (name, x, y or longitude, latitude, label) or a DIMACS .co file.
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import IO, Any, BinaryIO

import numpy as np

from semiring.advice import plain_text, quote
from semiring.algebra import Semiring
from semiring.algebra.catalogue import as_semiring
from semiring.arguments import check_flags, require_text
from semiring.arrays.labels import parse_title_pair
from semiring.errors import DTypeError, FormatError, MissingExtraError
from semiring.io import dimacs, edge_list, matrix_market, node_link, npy
from semiring.io.edge_list import split_line
from semiring.io.files import decode_lines, name_of, open_binary, read_all
from semiring.io.graphs import edges_of_graph
from semiring.io.network import Edges, Entries, Network, assemble
from semiring.io.text import is_count

__all__ = ["FORMATS", "format_of", "read", "with_positions"]


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


#: The formats that NetworkX reads, by the ending of a file's name, and its functions. They are not written.
_NETWORKX = {".graphml": "read_graphml", ".gml": "read_gml", ".gexf": "read_gexf", ".net": "read_pajek"}

#: Readers of other formats, by the ending of a file's name. All functions accept the results of these readers.
_OTHER_READERS = {
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
    shown = plain_text(name, 1000)
    if name == "-":
        return "txt"
    ending = Path(name.removesuffix(".gz")).suffix.lower()
    if ending not in FORMATS or (name.endswith(".gz") and ending in (".npy", ".npz")):
        reader = _OTHER_READERS.get(ending) if os.path.exists(name) else None
        if os.path.isdir(name):
            raise FormatError(f"{shown} is a folder: give a file that ends in {', '.join(FORMATS)}")
        hint = f". {reader}(FILE) reads it, and the functions of semiring accept its result" if reader else ""
        raise FormatError(
            f"{shown}: the ending names no known format: give one of {', '.join(FORMATS)} (text also with .gz){hint}"
        )
    return FORMATS[ending]


def read(
    path: Any,
    semiring: Semiring | str | None = None,
    *,
    dtype: Any = None,
    directed: bool | None = None,
    format: str | None = None,  # noqa: A002  # the name of this option in numpy, pandas and networkx
    header: bool | None = None,
    weight: str | None = None,
    columns: tuple[str, str] | None = None,
    encoding: str | None = None,
    decimal: str = ".",
    sparse: bool | None = None,
) -> Network:
    """Read a network from a file: its (n, n) matrix over ``semiring``, and the names of the vertices in the file.

    Parameters
    ----------
    path : str, path-like, file or bytes
        The name of a file that ends in one of `FORMATS`, or in .graphml, .gml, .gexf or .net, which NetworkX reads.
        Text may also end in .gz. "-" is standard input. Or an open file of bytes or text, `io.StringIO`, or bytes.
        Without a name its format is ``format``, by default an edge list.
    semiring : Semiring or str, optional
        A semiring or the name of one. Its zero fills the entries without an edge. The default is min-plus.
    dtype : dtype, optional
        The dtype of the matrix. The default is the dtype of the file (npy, npz, integer mtx), else float64, or the
        nearest dtype on which the semiring is defined.
    directed : bool, optional
        False takes each edge in both directions. The default is the direction of the edges in the file: most formats
        list directed edges. Node-link files, symmetric Matrix Market files, the column Type of Gephi, and the line
        ``% sym`` of KONECT say which are undirected.
    format : str, optional
        One of the values of `FORMATS`, which overrides the ending of the name.
    header : bool, optional
        Whether the first line of an edge list names the columns. The default None detects a header by its titles. It
        raises `FormatError` if the line may also be an edge.
    weight : str, optional
        The title of the column that holds the weights of an edge list, or their key in a graph file. With
        ``header=False`` columns are named by their numbers, "1" for the first.
    columns : tuple of str, optional
        The titles or numbers of the columns in which the edges of an edge list begin and end.
    encoding : str, optional
        The encoding of a text file, by default UTF-8.
    decimal : str, default "."
        The mark of decimals in an edge list, "." or ",".
    sparse : bool, optional
        Whether the matrix of a file that lists edges is a `scipy.sparse.csr_array`, which stores the edges alone. By
        default it is if there are more than 4,096 vertices, and at most n²/16 edges.

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
    MissingExtraError
        NetworkX is not installed, and the format needs it.
    TypeError, ValueError
        An argument is of the wrong kind, or ``directed=True`` is given for undirected edges.

    Notes
    -----
    An edge that is not listed is the semiring's zero. A listed edge is an edge, also of weight 0, and edges listed more
    than once combine by ⊕. In a dense matrix every entry is an element of the semiring. Nothing is unpickled. Time
    O(size of the file), memory some 100 bytes an edge, and n² elements for a dense matrix.
    """
    for option_name, text in (("format", format), ("encoding", encoding)):
        require_text(text, option_name)
    check_flags({"header": header, "directed": directed, "sparse": sparse})
    name = name_of(path)
    kind = format or ("txt" if name.startswith("<") else _readable_format(name))
    if kind not in (*FORMATS.values(), *_NETWORKX):
        raise FormatError(f"no format is named {quote(kind)}: known are {', '.join(dict.fromkeys(FORMATS.values()))}")
    _check_options(name, kind, header, weight, columns, encoding, decimal)
    with open_binary(path) as stream:
        content: Edges | Entries
        if kind in ("npy", "npz"):
            binary: BinaryIO = stream if stream.seekable() else io.BytesIO(read_all(stream, name))  # type: ignore[assignment]
            content = (npy.read_npy if kind == "npy" else npy.read_npz)(binary, name)
        elif kind == "mtx":
            content = matrix_market.read_matrix_market(read_all(stream, name), name)
        elif kind == "gr":
            content = dimacs.read_dimacs(stream, name, encoding)
        elif kind == "json":
            content = node_link.read_node_link(read_all(stream, name, 10), name, weight=weight, encoding=encoding)
        elif kind in _NETWORKX:
            content = _read_by_networkx(stream, name, kind, weight)
        else:
            ends = None if columns is None else parse_title_pair(columns)
            options: dict[str, Any] = {"weight": weight, "columns": ends, "encoding": encoding, "decimal": decimal}
            content = edge_list.read_edge_list(stream, name, header=header, **options)
    title = name.strip("<>") if name.startswith("<") else Path(name.removesuffix(".gz")).stem
    return assemble(content, as_semiring(semiring or "min_plus"), dtype, directed=directed, title=title, sparse=sparse)


def _readable_format(name: str) -> str:
    """Return the format of a file that is read, which may be one of NetworkX."""
    ending = Path(name.removesuffix(".gz")).suffix.lower()
    return ending if ending in _NETWORKX else format_of(name)


def _check_options(
    name: str,
    kind: str,
    header: bool | None,
    weight: str | None,
    columns: tuple[str, str] | None,
    encoding: str | None,
    decimal: str,
) -> None:
    """Raise an error for options that do not apply to a format."""
    if not isinstance(weight, str | None):
        raise TypeError(f"weight= is the title of the column of weights in a file, such as 'km', not {quote(weight)}")
    if not isinstance(decimal, str) or decimal not in (".", ","):
        raise ValueError(f"decimal= is '.' or ',', not {quote(decimal)}")
    is_list = kind in ("csv", "tsv", "txt")
    if not is_list and (header is not None or columns is not None or decimal != "."):
        raise FormatError(f"{name}: header=, columns= and decimal= are for edge lists, not for {kind.strip('.')}")
    if weight is not None and not (is_list or kind == "json" or kind in _NETWORKX):
        raise FormatError(f"{name}: weight= is for edge lists and graph files, not for {kind}")
    if encoding is not None and not (is_list or kind in ("json", "gr")):
        raise FormatError(f"{name}: encoding= is for edge lists, .gr and .json, not for {kind.strip('.')}")


def _read_by_networkx(stream: IO[bytes], name: str, kind: str, weight: str | None) -> Edges:
    """Return the edges of a file that NetworkX reads."""
    try:
        import networkx as nx
    except ImportError:
        raise MissingExtraError("NetworkX", "networkx", f"reading {kind}") from None
    content = read_all(stream, name, 10)
    try:
        graph = getattr(nx, _NETWORKX[kind])(io.BytesIO(content))
    except Exception as error:  # whatever a damaged file makes of its parser
        if kind == ".gml" and "label" in str(error):  # nodes that have an id alone
            try:
                return edges_of_graph(nx.read_gml(io.BytesIO(content), label="id"), weight)
            except nx.NetworkXError:
                pass
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise FormatError(f"{name}: NetworkX cannot read it: {plain_text(reason)}") from None
    try:
        return edges_of_graph(graph, weight)
    except DTypeError as error:
        raise FormatError(f"{name}: {error}") from None


NAME_TITLES = ("name", "id", "vertex", "node", "code", "station")
X_TITLES = {"x": False, "longitude": True, "lon": True, "lng": True, "long": True}
Y_TITLES = ("y", "latitude", "lat")
LABEL_TITLES = ("label", "title", "city", "place")

Row = tuple[str, str, str, str]  # name, x, y, label


def with_positions(network: Network, path: str | os.PathLike[str]) -> Network:
    """Return the network with the coordinates and the labels in a table.

    Parameters
    ----------
    network : Network
        The network, whose vertices have names or are 0 … n - 1.
    path : str or path-like
        A csv table with a header, or a DIMACS .co file. "-" is standard input.

    Returns
    -------
    Network
        The network with positions, and with labels if the table has any. The position of a vertex that is not in the
        table is NaN, so that it is not drawn. Rows of other vertices are ignored.

    Raises
    ------
    FormatError
        The table is not valid, or names none of the vertices.
    """
    source = name_of(path)
    with open_binary(path) as stream:
        lines = decode_lines(stream, source)
        dimacs = source.removesuffix(".gz").endswith(".co")
        first = int(network.names is not None)  # vertices without names count from 0
        geographic, rows = (False, _dimacs_rows(lines, source, first)) if dimacs else _table_rows(lines, source)
        place = {name: vertex for vertex, name in enumerate(_vertex_names(network))}
        positions = np.full((len(place), 2), np.nan)
        labels = list(_vertex_names(network))
        for number, (name, across, up, label) in rows:
            vertex = place.get(name)
            if vertex is None:
                continue
            positions[vertex] = _parse_point(across, up, f"{source}:{number}")
            labels[vertex] = label or name
    if len(place) and not np.isfinite(positions).any():
        raise FormatError(f"{source}: names none of the {len(place)} vertices of {network.title or 'the network'}")
    new = tuple(labels) if labels != list(_vertex_names(network)) else network.labels
    return replace(network, positions=positions, geographic=geographic, labels=new)


def _vertex_names(network: Network) -> Sequence[str]:
    return [str(name) for name in (range(network.matrix.shape[0]) if network.names is None else network.names)]


def _parse_point(x: str, y: str, place: str) -> Any:
    try:
        point = float(x), float(y)
    except ValueError:
        raise FormatError(f"{place}: the coordinates {quote(x)}, {quote(y)} are not two numbers") from None
    if not np.isfinite(point).all():
        raise FormatError(f"{place}: the coordinates {quote(x)}, {quote(y)} are not finite")
    return point


def _dimacs_rows(lines: Iterator[tuple[int, str]], source: str, first_vertex: int) -> Iterator[tuple[int, Row]]:
    for number, line in lines:
        fields = line.split()
        if fields and fields[0] == "v":
            if len(fields) != 4 or not is_count(fields[1]):
                raise FormatError(f"{source}:{number}: expected 'v <vertex> <x> <y>'")
            yield number, (str(int(fields[1]) - 1 + first_vertex), fields[2], fields[3], "")


def _table_rows(lines: Iterator[tuple[int, str]], source: str) -> tuple[bool, Iterator[tuple[int, Row]]]:
    """Return whether the columns are longitude and latitude, and the rows."""
    table = ((number, line) for number, line in lines if line.strip() and not line.startswith("#"))
    number, line = next(table, (1, ""))
    mark = next((mark for mark in "\t,;" if mark in line), " ")
    titles = [title.casefold() for title in split_line(line, mark, f"{source}:{number}")]

    def column(usual: Sequence[str]) -> int:
        return next((titles.index(title) for title in usual if title in titles), -1)

    name, across, up, label = (column(tuple(usual)) for usual in (NAME_TITLES, X_TITLES, Y_TITLES, LABEL_TITLES))
    if min(name, across, up) < 0:
        raise FormatError(f"{source}:{number}: expected a header with name, x, y or name, longitude, latitude")

    def rows() -> Iterator[tuple[int, Row]]:
        for number, line in table:
            fields = split_line(line, mark, f"{source}:{number}")
            if len(fields) != len(titles):
                raise FormatError(f"{source}:{number}: {len(fields)} fields, expected {len(titles)}")
            yield number, (fields[name], fields[across], fields[up], fields[label] if label >= 0 else "")

    return X_TITLES[titles[across]], rows()
