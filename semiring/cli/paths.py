"""Run ``semiring paths``, which finds best paths between vertices."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from semiring import paths as library
from semiring.advice import escape, option
from semiring.algebra import Semiring
from semiring.algebra.catalogue import as_semiring
from semiring.cli.common import (
    Report,
    check_outputs,
    find_vertex,
    format_with_unit,
    input_name,
    load,
    name_cycle_vertices,
    report_network,
    save_matrix,
    vertex_key,
    vertex_name,
)
from semiring.cli.parser import KINDS
from semiring.errors import DomainError, FormatError, NegativeCycleError, NoPathError, SemiringError
from semiring.io import Network, format_of, write_vertices
from semiring.terminal import ProgressBar

__all__ = ["run"]

# The name of the value of a best path, and whether it grows along a path, so that eccentricities are defined.
_VALUE_NAMES = {
    "shortest": ("distance", True),
    "longest": ("length", False),
    "widest": ("capacity", False),
    "reliable": ("reliability", False),
}


@dataclass(frozen=True)
class PathQuery:
    """The network, the semiring and the vertices of a request for paths."""

    network: Network
    semiring: Semiring
    kind: str
    source: int | None
    target: int | None

    @property
    def value_name(self) -> str:
        """The name of the value of a best path, such as "distance"."""
        return _VALUE_NAMES[self.kind][0]

    def name(self, vertex: int) -> str:
        return vertex_name(self.network, vertex)

    def vertex_key(self, vertex: int) -> Any:
        return vertex_key(self.network, vertex)

    def format_value(self, value: Any) -> str:
        return format_with_unit(value, self.network.unit)


def run(arguments: argparse.Namespace, report: Report) -> int:
    """Find the best paths of INPUT, and print, write and draw the result; return 1 if there is no path.

    The command computes all pairs, unless only paths from or to a vertex are requested. It then builds no matrix of all
    pairs.
    """
    check_outputs(arguments)
    into = arguments.predecessors
    if into is not None and (into == "-" or format_of(into) not in ("npy", "npz", "csv", "tsv", "txt")):
        raise FormatError(f"{into}: write predecessors to an .npy or .npz file, or to an edge list such as .csv")
    function, name = KINDS[arguments.kind]
    semiring = as_semiring(name)
    some = arguments.source is not None or arguments.target is not None
    some = some and arguments.output is arguments.predecessors is arguments.plot is None
    if arguments.kind == "reliable" and arguments.check:
        network = _load_probabilities(arguments, semiring, some)
    else:
        network = load(arguments, semiring, sparse=some and arguments.device is None)
    if arguments.without:
        network = _remove_edges(network, semiring, arguments.without)
    ends = [None if end is None else find_vertex(network, end) for end in (arguments.source, arguments.target)]
    query = PathQuery(network, semiring, arguments.kind, *ends)
    report_network(report, network, semiring)
    named = [None if end is None else query.vertex_key(end) for end in ends]
    report.add_facts(kind=arguments.kind, **dict(zip(("from", "to"), named, strict=True)))
    with ProgressBar("paths") as progress, name_cycle_vertices(network.names, input_name(arguments.input)):
        result = getattr(library, function)(
            network.matrix,
            sources=[query.source] if some and query.source is not None else None,
            targets=[query.target] if some and query.target is not None else None,
            predecessors=arguments.predecessors is not None,
            on_cycle=arguments.on_cycle,
            check=arguments.check,
            threads=arguments.threads,
            device=arguments.device,
            progress=progress,
        )
    route = _find_route(query, result)
    _print_answer(report, query, result, route)
    if route is None and not _improves(query, result) and _has_reverse_path(query, function):
        report("edges lead one way, and a path leads back: --undirected takes each edge in both directions")
    if not some:
        report("", "all pairs")
        _summarise(report, query, result)
    if arguments.output is not None:
        save_matrix(report, arguments.output, result.matrix, semiring, network)
    if arguments.predecessors is not None:
        write_vertices(arguments.predecessors, result.predecessors, names=network.names)
        report.add_file(arguments.predecessors)
    if arguments.plot is not None:
        _draw(report, arguments.plot, query, result, route)
    return 1 if route is None and query.source is not None and query.target is not None else 0


def _load_probabilities(arguments: argparse.Namespace, semiring: Semiring, sparse: bool) -> Network:
    """Load a network whose weights lie in [0, 1].

    Raises `DomainError`, which names the place of the first weight outside, and the remedy.
    """
    probabilities = semiring.on_domain((0, 1))
    try:
        network = load(arguments, probabilities, sparse=sparse)
    except DomainError as error:
        if str(probabilities.domain) not in str(error):  # NaN
            raise
        place, _, weight = str(error).partition(": the weight ")
        raise DomainError(
            f"{place}: the weight {weight.partition(' lies ')[0]} is no probability, which lies in [0, 1]: divide "
            f"percentages by 100. If the weights are factors that gain, pass {option('check', False)}"
        ) from None
    return replace(network, semiring=semiring)


def _remove_edges(network: Network, semiring: Semiring, vertex_pairs: Sequence[Sequence[str]]) -> Network:
    """Return the network without the edges between pairs of named vertices, in both directions if undirected.

    Raises `SemiringError` where there is no such edge.
    """
    edges = [(find_vertex(network, tail), find_vertex(network, head)) for tail, head in vertex_pairs]
    edges = list({edge if network.directed else frozenset(edge): edge for edge in reversed(edges)}.values())[::-1]
    matrix = network.matrix.copy()
    zero = semiring.zero_for(matrix.dtype)
    for row, column in edges if network.directed else dict.fromkeys([*edges, *((j, i) for i, j in edges)]):
        entry = _find_entry(matrix, row, column)
        if entry is None or entry == zero:
            ends = f"from {vertex_name(network, row)} to {vertex_name(network, column)}"
            raise SemiringError(f"no edge leads {ends}: leave out --without for it")
        entry[...] = zero
    arrow = " → " if network.directed else " ↔ "
    edge_names = [arrow.join(str(vertex_key(network, vertex)) for vertex in edge) for edge in edges]
    return replace(network, matrix=matrix, title=f"{network.title} without {', '.join(edge_names)}")


def _find_entry(matrix: Any, row: int, column: int) -> Any:
    """Return a view of one entry, or None where a sparse matrix stores none.

    The indexing of a sparse matrix would return 0, which is also a weight.
    """
    if isinstance(matrix, np.ndarray):
        return matrix[row, column, ...]
    start, stop = matrix.indptr[row], matrix.indptr[row + 1]
    place = start + np.searchsorted(matrix.indices[start:stop], column)
    return matrix.data[place, ...] if place < stop and matrix.indices[place] == column else None


def _find_route(query: PathQuery, paths: Any) -> list[int] | None:
    """Return the vertices of the requested path, or None where none was requested or exists."""
    if query.source is None or query.target is None:
        return None
    try:
        return [int(vertex) for vertex in paths.path(query.source, query.target)]
    except (NoPathError, NegativeCycleError):
        return None


def _improves(query: PathQuery, paths: Any) -> bool:
    """Return whether the walks of the requested pair improve without end."""
    if query.source is None or query.target is None or query.semiring.tropical is None:
        return False
    return bool(paths.distance(query.source, query.target) == -query.semiring.zero_for(np.dtype(np.float64)))


def _has_reverse_path(query: PathQuery, function: str) -> bool:
    """Return whether a path leads from the target to the source of a network whose edges lead one way."""
    source, target, network = query.source, query.target, query.network
    if source is None or target is None or not network.directed:
        return False
    try:
        result = getattr(library, function)(network.matrix, sources=[target], targets=[source], check=False)
    except NegativeCycleError:
        return True
    return bool(result.reachable[0, 0])


# ----------------------------------------------------------------------------------------------------------- facts


def _print_answer(report: Report, query: PathQuery, paths: Any, route: Sequence[int] | None) -> None:
    source, target = query.source, query.target
    if source is not None and target is not None:
        _print_route(report, query, paths, route, source, target)
    elif source is not None:
        _print_ranking(report, query, _select_values(query, paths), source, "from")
    elif target is not None:
        _print_ranking(report, query, _select_values(query, paths), target, "to")


def _select_values(query: PathQuery, paths: Any) -> Any:
    """Return the values of the paths from the source or to the target, one for each vertex."""
    if paths.matrix.shape[0] != paths.matrix.shape[1]:  # only these paths were computed
        return paths.matrix.reshape(-1)
    return paths.matrix[:, query.target] if query.source is None else paths.matrix[query.source]


def _print_route(
    report: Report, query: PathQuery, paths: Any, route: Sequence[int] | None, source: int, target: int
) -> None:
    """Print a headline and a line for each stop, with the weight of the edge that leads to it; or "no path"."""
    if _improves(query, paths):
        value = paths.distance(source, target)
        report.add_facts(path=None, weights=None, value=value)
        ends = f"{query.name(source)} → {query.name(target)}"
        report("", f"{ends}: {query.value_name} {query.format_value(value)}, walks improve without end over a cycle")
        return
    if route is None:
        report.add_facts(path=None, weights=None, value=None)
        report("", f"no path leads from {query.name(source)} to {query.name(target)}")
        return
    value, weights = paths.distance(route[0], route[-1]), [query.network.matrix[i, j] for i, j in pairwise(route)]
    report.add_facts(path=[query.vertex_key(vertex) for vertex in route], weights=weights, value=value)
    edges = len(route) - 1
    ends = f"{query.name(route[0])} → {query.name(route[-1])}"
    report("", f"{ends}: {query.value_name} {query.format_value(value)}, {edges} edge{'s' * (edges != 1)}")
    names, texts = [query.name(vertex) for vertex in route], ["", *map(query.format_value, weights)]
    left, right = max(map(len, names)), max(map(len, texts))
    report(*(f"  {name:<{left}}  {text:>{right}}".rstrip() for name, text in zip(names, texts, strict=True)))


def _print_ranking(report: Report, query: PathQuery, values: Any, vertex: int, direction: str) -> None:
    """Print all other vertices with their values, the best first, and the number of vertices without a value."""
    zero = query.semiring.zero_for(values.dtype)
    others = [other for other in range(len(values)) if other != vertex]
    reached = [other for other in others if values[other] != zero]
    better_small = bool(zero > query.semiring.one_for(values.dtype))
    reached.sort(key=lambda other: values[other].item(), reverse=not better_small)
    without = [other for other in others if values[other] == zero]
    values_by_name = {query.vertex_key(other): values[other] for other in reached}
    report.add_facts(values={**values_by_name, **dict.fromkeys(map(query.vertex_key, without))})
    names, texts = [query.name(other) for other in reached], [query.format_value(values[other]) for other in reached]
    left, right = max(map(len, names), default=0), max(map(len, texts), default=0)
    report("", f"{query.value_name} {direction} {query.name(vertex)}")
    report(*(f"  {name:<{left}}  {text:>{right}}" for name, text in zip(names, texts, strict=True)))
    if without:
        report(f"  {len(without):,} without a path")


def _summarise(report: Report, query: PathQuery, paths: Any) -> None:
    """Print the number of pairs with a path, and the extremes of their values."""
    matrix = paths.matrix
    n = len(matrix)
    zero = query.semiring.zero_for(matrix.dtype)
    proper = (matrix != zero) & ~np.eye(n, dtype=bool)
    reached, pairs = int(np.count_nonzero(proper)), n * (n - 1)
    grows = _VALUE_NAMES[query.kind][1]
    keys = ("farthest", "mean", "diameter", "radius", "center") if grows else ("least", "greatest")
    keys = (*keys, "farthest") if query.kind == "longest" else keys
    facts: dict[str, Any] = {"reachable": reached, "pairs": pairs, **dict.fromkeys(keys)}
    rows = [("reachable", f"{reached:,} of {pairs:,} pairs")]
    if reached and not grows:
        low, high = matrix[proper].min(), matrix[proper].max()
        facts |= {"least": low, "greatest": high}
        rows.append((query.value_name, f"{query.format_value(low)} … {query.format_value(high)}"))
    if reached and "farthest" in keys:
        i, j = divmod(int(np.flatnonzero(proper)[np.argmax(matrix[proper])]), n)
        facts["farthest"] = {"from": query.vertex_key(i), "to": query.vertex_key(j), "value": matrix[i, j]}
        rows.append(("farthest", f"{query.format_value(matrix[i, j])}, {query.name(i)} → {query.name(j)}"))
    if reached and grows:
        facts["mean"] = float(matrix[proper].mean())
        rows.append(("mean", query.format_value(facts["mean"])))
        if reached == pairs:
            center = [int(vertex) for vertex in paths.center]
            facts |= {"diameter": paths.diameter, "radius": paths.radius}
            facts["center"] = [query.vertex_key(vertex) for vertex in center]
            rows.append(("diameter", query.format_value(paths.diameter)))
            rows.append(("radius", query.format_value(paths.radius)))
            few = ", ".join(query.name(vertex) for vertex in center[:5])
            rows.append(("center", few + (" …" if len(center) > 5 else "")))
    report.table(rows)
    report.add_facts(**facts)


# --------------------------------------------------------------------------------------------------------- pictures


def _draw(report: Report, path: str, query: PathQuery, paths: Any, route: Sequence[int] | None) -> None:
    from semiring.plot import plot_network, save

    network, source, target = query.network, query.source, query.target
    values, label, title = None, "", network.title
    unit = f", {network.unit}" if network.unit else ""
    if source is not None:
        values, label = paths.matrix[source], f"{query.value_name} from {query.name(source)}{unit}"
    elif target is not None:
        values, label = paths.matrix[:, target], f"{query.value_name} to {query.name(target)}{unit}"
    if route is not None:
        total, edges = query.format_value(paths.matrix[route[0], route[-1]]), len(route) - 1
        ends = f"{query.name(route[0])} → {query.name(route[-1])}"
        title = f"{ends}: {total}, {edges} edge{'s' * (edges != 1)}"
    elif label:
        title = f"{network.title}: {label.removesuffix(unit)}"
    stops = [query.vertex_key(vertex) for vertex in route or ()]
    _note_missing_positions(query, route or ())
    figure = plot_network(network, query.semiring, path=stops, values=values, values_label=label, title=title)
    save(figure, path)
    report.add_file(path, "drew")


def _note_missing_positions(query: PathQuery, route: Sequence[int]) -> None:
    """Print a note on the vertices without a position, which are not drawn; those of the path come first."""
    positions = query.network.positions
    nowhere = [] if positions is None else np.flatnonzero(~np.isfinite(positions).all(1)).tolist()
    if nowhere:
        nowhere.sort(key=lambda vertex: vertex not in route)
        names = ", ".join(map(query.name, nowhere[:8])) + (" …" if len(nowhere) > 8 else "")
        print(escape(f"semiring: note: not drawn, as they have no position: {names}"), file=sys.stderr)
