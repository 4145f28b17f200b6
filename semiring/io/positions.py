"""Read positions of vertices from a csv table (name, x, y or longitude, latitude, label) or a DIMACS .co file."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from semiring.advice import quote
from semiring.errors import FormatError
from semiring.io.edge_list import split_line
from semiring.io.files import decode_lines, name_of, open_binary
from semiring.io.network import Network
from semiring.io.text import is_count

__all__ = ["with_positions"]

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
