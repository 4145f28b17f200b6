"""Write a network, a matrix, or a matrix of vertices to a file."""

from __future__ import annotations

import gzip
import os
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, BinaryIO, cast

import numpy as np

from semiring.advice import quote
from semiring.algebra import Semiring
from semiring.algebra.catalogue import as_semiring
from semiring.algebra.expressions.tree import is_floating, is_half
from semiring.arguments import require_text
from semiring.arrays.bits import BitMatrix
from semiring.arrays.labels import is_edge_frame, is_frame, is_graph, labelled_square
from semiring.arrays.operands import as_host_operand, as_matrix, require_real_numbers
from semiring.arrays.sparse import is_sparse, stored_entries
from semiring.errors import DomainError, FormatError, ShapeError
from semiring.io import dimacs, edge_list, matrix_market, node_link, npy
from semiring.io.atomic import atomic_file
from semiring.io.inputs import as_network
from semiring.io.network import Network, compress, convert_network, count_vertices, is_directed
from semiring.io.reading import format_of
from semiring.io.text import ProgressMatrix
from semiring.kernels.contract import NO_PREDECESSOR
from semiring.progress import Progress, open_progress

__all__ = ["write", "write_vertices"]


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
    A sparse matrix or network is written without n² memory, except to .npy. .npz holds it as SciPy's csr. .npy and .npz
    hold any other matrix as it is, and of a `BitMatrix` one byte an entry. .npz compresses these bytes: it
    takes 4 s for 30,000² entries of which few are True, and .csv lists these in 0.1 s. The other formats list the
    entries that differ from the semiring's zero, and also -0.0 if the zero is 0.0. They store no other "no edge". For
    an undirected network .json has each edge once.

    .npz, .json and edge lists store ``names``. Integer names read back in numerical order. Labels and positions are not
    written. Over the same semiring the file reads back bitwise identical. Formats that list edges do not record the
    dtype, so read them with ``dtype=``. An existing file keeps its permissions, and it keeps its content if an error
    occurs.
    """
    require_text(format, "format")
    require_text(unit, "unit", optional=False)
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
    if is_sparse(array):
        rows, columns, values = stored_entries(array)
        array = compress(array.shape[0], rows, columns, values.copy(), semiring)[0]
    n = count_vertices(array.shape, "the matrix")
    if not named and kind not in ("npy", "npz"):
        _refuse_other_zeros(array)
    checked = _check_names(names, n)
    zero = semiring.zero_for(array.dtype)

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

    with open_progress(progress, "writing") as tell:
        passes = 1 if kind in ("npy", "npz", "json") else 2
        if tell is not None and kind not in ("npy", "npz") and not is_sparse(array):
            array = cast("Any", ProgressMatrix(array, tell, passes))
        _write_file(path, fill)
        if tell is not None:
            tell(passes * n, passes * n)


def _refuse_other_zeros(array: Any) -> None:
    if is_sparse(array):
        array = array.data
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
    if is_sparse(on_host) and kind != "npy" and not is_half(on_host.dtype):
        return on_host
    require_real_numbers(on_host, "the matrix")
    plain = isinstance(on_host, np.ndarray | list | tuple) and not isinstance(on_host, np.ma.MaskedArray)
    return np.asarray(on_host) if plain else as_matrix(on_host, semiring, name="the matrix")


def _check_names(names: Sequence[str] | None, n: int) -> Sequence[str] | None:
    if names is None:
        return None
    if not isinstance(names, Iterable):
        raise TypeError(f"names are a list with a name for each vertex, and not {quote(names)}")
    texts = [str(name) for name in names]
    if len(texts) != n:
        raise ShapeError(f"{len(texts)} names for {n} vertices")
    if len(set(texts)) < n:
        twice = next(text for text, count in Counter(texts).items() if count > 1)
        raise ShapeError(f"the name {quote(twice)} was given to two vertices: names must differ")
    return texts


def _write_file(path: str | os.PathLike[str], fill: Any) -> None:
    with atomic_file(path) as stream:
        if os.fspath(path).endswith(".gz"):
            with gzip.GzipFile(fileobj=stream, mode="wb", mtime=0) as packed:  # mtime 0: equal content, equal bytes
                fill(packed)
        else:
            fill(stream)
