"""Read a network from a file: choose the reader of its format, and assemble its matrix."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, BinaryIO, cast

from semiring.algebra import Semiring
from semiring.algebra.catalogue import as_semiring
from semiring.arrays.labels import parse_title_pair
from semiring.errors import FormatError
from semiring.io import dimacs, edge_list, matrix_market, node_link, npy
from semiring.io.files import open_binary
from semiring.io.network import Edges, Entries, Network, assemble

__all__ = ["FORMATS", "format_of", "read"]

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
    semiring: Semiring | str | None = None,
    *,
    dtype: Any = None,
    directed: bool | None = None,
    format: str | None = None,  # noqa: A002  # the name of this option in numpy, pandas and networkx
    header: bool | None = None,
    weight: str | None = None,
    columns: tuple[str, str] | None = None,
    sparse: bool | None = None,
) -> Network:
    """Read a network from a file: its (n, n) matrix over ``semiring``, and the names of the vertices in the file.

    Parameters
    ----------
    path : str or path-like
        A file that ends in one of `FORMATS`, plain or (text) with .gz. "-" reads an edge list from standard input.
    semiring : Semiring or str, optional
        A semiring or the name of one. Its zero fills the entries without an edge. The default is min-plus.
    dtype : dtype, optional
        The dtype of the matrix. The default is the dtype of the file (npy, npz, integer mtx), else float64, or the
        nearest dtype on which the semiring is defined.
    directed : bool, optional
        False takes each edge in both directions. The default is the direction of the edges in the file: most formats
        list directed edges, and node-link and symmetric Matrix Market files say which they are.
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

    Notes
    -----
    An edge that is not listed is the semiring's zero. A listed edge is an edge, also of weight 0, and edges listed more
    than once combine by ⊕. In a dense matrix every entry is an element of the semiring. Nothing is unpickled. Time
    O(size of the file), memory some 100 bytes an edge, and n² elements for a dense matrix.
    """
    content, title = _read_contents(path, format, header, weight, columns)
    return assemble(content, as_semiring(semiring), dtype, directed=directed, title=title, sparse=sparse)


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
