"""Read and write JSON node-link files, the format of ``networkx.node_link_data`` and D3.

The file is an object with a list of ``nodes`` and a list of ``edges`` (older versions: ``links``). Each node has an
``id``, and each edge has ``source`` and ``target``. ``directed`` is true or false, and false if it is missing, as in
NetworkX. JSON has no infinite numbers. They are written as 1e999, a valid JSON number that Python and JavaScript read
as infinite. The reader accepts 1e999 and the ``Infinity`` of Python's `json`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any, BinaryIO

import numpy as np

from semiring.advice import quote
from semiring.errors import DTypeError, FormatError
from semiring.io.files import decode
from semiring.io.graphs import Graph, collect_titles, edges_of, guess_title
from semiring.io.network import Edges
from semiring.io.text import edge_chunks, numbers_as_text, parse_number

__all__ = ["read_node_link", "write_node_link"]


def read_node_link(content: bytes, source: str, *, weight: str | None = None, encoding: str | None = None) -> Edges:
    """Return the edges of a file, with weights under the key ``weight``, by default as in `as_network`.

    The name of a vertex is its ``id``, as in NetworkX: a text, a number, or a tuple for a list. An id that is an object
    becomes its JSON text. If all ids are integers, the vertices come in numerical order, else in the order of the file.
    """
    text = decode(content, source, encoding).removeprefix("\ufeff")
    try:
        document = json.loads(text, parse_float=_parse_float, parse_int=_parse_integer, object_pairs_hook=_make_object)
    except json.JSONDecodeError as error:
        raise FormatError(f"{source}:{error.lineno}: not JSON: {error.msg[:1].lower() + error.msg[1:]}") from None
    except RecursionError:
        raise FormatError(f"{source}: not JSON: nested too deeply") from None
    except _DuplicateKeyError as error:
        raise FormatError(f"{source}: an object has the key {quote(error.args[0])} twice") from None
    except ValueError as error:
        raise FormatError(f"{source}: a number is {error}") from None
    try:
        return _parse_document(document, source, weight)
    except RecursionError:
        raise FormatError(f"{source}: an id is nested too deeply") from None


class _DuplicateKeyError(Exception):
    """Raised for an object with a duplicate key, whose value JSON leaves undefined."""


def _make_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for key, value in pairs:
        if key in result:
            raise _DuplicateKeyError(key)
        result[key] = value
    return result


def _parse_document(document: Any, source: str, weight: str | None) -> Edges:
    """Return the edges of a node-link object."""
    if isinstance(document, dict) and {"edges", "links"} <= document.keys():
        raise FormatError(f"{source}: holds both 'edges' and 'links': remove the list that is not meant")
    key = "edges" if isinstance(document, dict) and "edges" in document else "links"
    nodes, links = _get_list(document, "nodes", source), _get_list(document, key, source)
    ids = [_get_entry(node, "id", f"{source}: node {number}") for number, node in enumerate(_name_nodes(nodes, links))]
    if all(type(name) is int for name in ids):
        ids.sort()
    numbered = ids == list(range(len(ids)))
    place = {_make_name(name): vertex for vertex, name in enumerate(ids)}
    if len(place) < len(ids):
        twice = next(name for vertex, name in enumerate(map(_make_name, ids)) if place[name] != vertex)
        raise FormatError(f"{source}: two nodes have the id {quote(twice)}")

    def end(edge: Any, key: str, number: int) -> int:
        name = _make_name(_get_entry(edge, key, f"{source}: edge {number}"))
        if name not in place:
            raise FormatError(f"{source}: edge {number}: its {key} {quote(name)} is the id of no node")
        return place[name]

    ends = [(end(edge, "source", number), end(edge, "target", number)) for number, edge in enumerate(links)]
    directed = document.get("directed", False)
    if not isinstance(directed, bool):
        raise FormatError(f"{source}: 'directed' is {json.dumps(directed)}, give true or false")
    reserved = ("source", "target", "id", "key")
    titles = {title: values for title, values in collect_titles(links).items() if title not in reserved}
    title, candidates = guess_title(titles) if weight is None else (weight, ())
    names = tuple(range(len(ids))) if numbered else tuple(place)
    graph = Graph(names, directed, ends, [_as_weight(edge.get(title)) for edge in links])
    attributes = document.get("graph")
    unit = attributes.get("unit", "") if isinstance(attributes, dict) else ""
    try:
        return edges_of(
            graph,
            title,
            needs_weights=weight is not None,
            candidates=candidates,
            titles=titles,
            source=f"{source}: ",
            unit=str(unit),
        )
    except DTypeError as error:
        raise FormatError(str(error)) from None


def _name_nodes(nodes: list[Any], links: list[Any]) -> list[Any]:
    """Return the nodes with ids. In D3's older form they have none, and links name nodes by position.

    The nodes then have their names as ids, if all have one and no two are equal, else their positions. The ends of the
    links are changed in place.
    """
    if not nodes or any(not isinstance(node, Mapping) or "id" in node for node in nodes):
        return nodes
    ends = [link.get(key) for link in links if isinstance(link, Mapping) for key in ("source", "target")]
    if any(type(end) is not int for end in ends) or not all(isinstance(node.get("name"), str) for node in nodes):
        return nodes
    names = [node["name"] for node in nodes]
    ids: list[Any] = names if len(set(names)) == len(names) else list(range(len(nodes)))
    for link in links:
        for key in ("source", "target") if isinstance(link, Mapping) else ():
            if link.get(key) is not None and 0 <= link[key] < len(ids):
                link[key] = ids[link[key]]
    return [{"id": name} for name in ids]


def _get_list(content: Any, key: str, source: str) -> list[Any]:
    if not isinstance(content, dict) or not isinstance(content.get(key), list):
        raise FormatError(
            f"{source}: not a node-link graph, an object with the lists 'nodes' and 'edges' (or 'links'), as "
            "networkx.node_link_data makes"
        )
    items: list[Any] = content[key]
    return items


def _get_entry(item: Any, key: str, place: str) -> Any:
    if not isinstance(item, Mapping) or item.get(key) is None:
        raise FormatError(f"{place} has no {quote(key)}")
    return item[key]


def _make_name(value: Any) -> Hashable:
    if isinstance(value, list):
        return tuple(map(_make_name, value))
    return _format_json(value) if isinstance(value, dict) else value


def _format_json(value: Any) -> str:
    """Return the canonical JSON text of a value, with sorted keys."""
    return json.dumps(value, ensure_ascii=False, sort_keys=True)


_INFINITY = "1e999"


def _parse_float(text: str) -> int | float:
    return float(text) if text.removeprefix("-") == _INFINITY else parse_number(text)


def _parse_integer(text: str) -> int | float:
    """Return the exact integer of any size, because ids may be large; -0 is a float."""
    value = parse_number(text)
    return int(text) if isinstance(value, float) and value else value


def _as_weight(value: Any) -> Any:
    """Return a weight in the form of all formats, in which integers beyond 64 bits are floats."""
    return float(value) if type(value) is int and not -(2**63) <= value < 2**63 else value


def write_node_link(
    stream: BinaryIO,
    matrix: Any,
    zero: Any,
    names: Sequence[Any] | None,
    *,
    unit: str = "",
    directed: bool = True,
) -> None:
    """Write every entry that differs from ``zero`` as an edge, and every vertex as a node.

    For a graph that is not ``directed``, whose matrix is symmetric, it writes one direction of each edge. Names that
    are texts, numbers, or tuples of them become ids of that kind, and other names become texts.
    """
    n = matrix.shape[0]
    labels = [_format_json(_make_id(name)) for name in (range(n) if names is None else names)]
    graph = _format_json({"unit": unit} if unit else {})
    stream.write(_encode(f'{{"directed": {_format_json(directed)}, "multigraph": false, "graph": {graph}, "nodes": ['))
    stream.writelines(_join_objects(f'{{"id": {label}}}' for label in labels))
    stream.write(b'], "edges": [')
    stream.writelines(_join_objects(_format_edges(matrix, zero, labels, directed=directed)))
    stream.write(b"\n]}\n")


def _make_id(name: Any) -> Any:
    if isinstance(name, tuple):
        return [_make_id(part) for part in name]
    plain = name.item() if isinstance(name, np.generic) else name
    finite = isinstance(plain, str | int) or (isinstance(plain, float) and math.isfinite(plain))
    return plain if finite else str(name)


def _format_edges(matrix: Any, zero: Any, labels: Sequence[str], *, directed: bool) -> Iterator[str]:
    for rows, columns, values in edge_chunks(matrix, zero):
        for i, j, weight in zip(rows, columns, numbers_as_text(values), strict=True):
            if i > j and not directed:
                continue
            number = weight.replace("inf", _INFINITY)
            yield f'{{"source": {labels[i]}, "target": {labels[j]}, "weight": {number}}}'


def _join_objects(objects: Iterable[str]) -> Iterator[bytes]:
    """Yield each object on a line of its own, with commas between objects."""
    for number, text in enumerate(objects):
        yield _encode(f"{',' if number else ''}\n{text}")


def _encode(text: str) -> bytes:
    """Return the text in UTF-8, with the JSON escape of a lone surrogate, which UTF-8 does not encode."""
    return text.encode(errors="backslashreplace")
