"""Plot a network with a path drawn on it.

Vertices without coordinates are placed by NetworkX's layouts, from the edges alone. Vertices with longitudes and
latitudes are projected to an equal-area map, and their edges are arcs of great circles.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from semiring.advice import quote
from semiring.algebra import Semiring
from semiring.algebra.catalogue import as_semiring
from semiring.arguments import as_numbers
from semiring.arrays.vertices import Vertices
from semiring.errors import DTypeError, MissingExtraError, ShapeError, square_error
from semiring.io import Network, as_network
from semiring.io.network import dense_matrix, is_directed, semiring_of
from semiring.io.text import numbers_as_text
from semiring.plot.style import (
    COLORS,
    EDGE_COLOR,
    FAINT_INK,
    INK,
    NONE_COLOR,
    PATH_COLOR,
    VERTEX_COLOR,
    add_color_bar,
    add_headline,
    color_scale,
    escape_dollars,
    ignore_missing_glyphs,
    new_figure,
    quantity_names,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["layout", "plot_network"]

Array: TypeAlias = np.ndarray[Any, Any]

WITH_ARROWS = 80  # the number of edges up to which each edge has an arrowhead
WITH_WEIGHTS = 30  # the number of edges up to which each edge has its weight
ALL_NAMES = 40  # the number of vertices up to which each vertex has its name
HUBS = 14  # the number of vertices with the most edges that are named in a larger network
_STRESS = 150  # the vertices up to which distances in the plane follow numbers of hops, which takes some seconds
_FORCES = 30_000_000  # pairs of vertices of all iterations of a larger layout, but of ten at least
_COMPONENT_GAP = 2  # hops between components, beyond the longest path
STRAIGHT = 20_000  # the number of edges beyond which great circles are drawn as straight lines


def plot_network(
    network: Any,
    semiring: Semiring | str | None = None,
    *,
    path: Sequence[Any] = (),
    values: Any = None,
    values_label: str = "",
    title: str = "",
) -> Figure:
    """Draw a network, with a path on it.

    Parameters
    ----------
    network : Network, graph or array
        A network, or what `as_network` takes. Vertices are drawn at ``network.positions``, on a map around their middle
        if the positions are longitudes and latitudes. Without positions `layout` places them.
    semiring : Semiring, str or None
        The semiring of the weights. The default is that of a `Network`, else min-plus.
    path : sequence
        The vertices of the path in order, by number or by name.
    values : array, shape (n,), or None
        Numbers that colour the vertices, such as the distances from one of them. Vertices whose value is the semiring's
        zero are shown apart, as unreachable.
    values_label : str
        The title of the colour bar.
    title : str
        The title of the picture. The default is the title of the network.

    Returns
    -------
    matplotlib.figure.Figure
        The figure, which `save` writes to a file.

    Raises
    ------
    TypeError
        If the path is not a list of vertices, or the title is not a text.
    ShapeError
        If the values are not a number for each vertex.
    VertexError
        If a vertex of the path is not in the network.
    MissingExtraError
        If matplotlib is not installed, or NetworkX for a network without positions.
    SemiringError
        For any other error of `as_network`.
    """
    if not isinstance(network, Network):
        network = as_network(network, semiring)
    semiring = as_semiring(semiring_of(network, semiring))
    network = replace(network, matrix=dense_matrix(network))
    adjacency = np.asarray(network.matrix != semiring.zero_for(network.matrix.dtype))
    edges = np.argwhere(adjacency)
    edges = edges[edges[:, 0] != edges[:, 1]]
    positions, curves = _place_vertices(network, adjacency, edges)
    figure: Figure = new_figure(*_figure_size(positions))
    axes = figure.add_subplot()
    axes.set_aspect("equal")
    axes.axis("off")
    edges = edges[np.isfinite(positions[edges]).all((1, 2))]  # both ends have a position
    vertices = Vertices(len(network.matrix), network.names)
    if not isinstance(path, Iterable) or isinstance(path, str | bytes):
        raise TypeError(f"path is a list of vertices, such as P.path(source, target), not {quote(path)}")
    path = [vertices.index(vertex) for vertex in path]
    stops = np.asarray(path, int)
    legs = np.stack([stops[:-1], stops[1:]], axis=1)
    legs = legs[np.isfinite(positions[legs]).all((1, 2))]
    if len(edges) <= WITH_ARROWS:
        _draw_arrows(axes, positions, edges, legs)
    else:
        _draw_lines(axes, edges, curves, legs)
    sizes = _marker_sizes(adjacency)
    _draw_vertices(figure, axes, positions, sizes, values, semiring, values_label)
    if len(stops):
        area = np.maximum(sizes[stops], 34)
        area[[0, -1]] = np.maximum(area[[0, -1]], 80)
        x, y = positions[stops].T
        axes.scatter(x, y, s=area, c="white", edgecolors=PATH_COLOR, linewidths=2.0, zorder=5)
    _set_limits(axes, positions)
    count, edge_count = len(adjacency), int(np.count_nonzero(adjacency))
    if not is_directed(network):  # the matrix holds an edge in both directions, and a loop once
        edge_count = (edge_count + int(np.count_nonzero(adjacency.diagonal()))) // 2
    subtitle = f"{count:,} {'vertex' if count == 1 else 'vertices'}, {edge_count:,} edge{'s' * (edge_count != 1)}"
    add_headline(axes, title, network.title or "Network", subtitle)
    labels = _choose_labels(network, adjacency, path, positions)
    if len(edges) <= WITH_WEIGHTS:
        _draw_weights(axes, network, positions, edges)
    place_labels(figure, axes, labels, positions, np.sqrt(sizes))
    return figure


def _place_vertices(network: Network, adjacency: Any, edges: Any) -> tuple[Any, Any]:
    """Return the positions of the vertices, and a function from pairs of vertices to the polylines between them."""
    if network.positions is None:
        positions = layout(adjacency)
        return positions, lambda pairs: positions[pairs]
    if not network.geographic:
        positions = np.asarray(network.positions, float)
        return positions, lambda pairs: positions[pairs]
    points = np.asarray(network.positions, float)
    center = map_center(points)
    positions = project(points, center)
    if len(edges) > STRAIGHT:
        return positions, lambda pairs: positions[pairs]
    return positions, lambda pairs: project(arc(points[pairs[:, 0]], points[pairs[:, 1]]), center)


def _figure_size(positions: Any) -> tuple[float, float]:
    finite = positions[np.isfinite(positions).all(1)]
    if len(finite) < 2:
        return 8.0, 5.0
    width, height = np.maximum(finite.max(0) - finite.min(0), 1e-9)
    return 11.0, float(np.clip(9.5 * height / width + 1.0, 4.8, 9.5))


def _set_limits(axes: Any, positions: Any) -> None:
    finite = positions[np.isfinite(positions).all(1)]
    low, high = (finite.min(0), finite.max(0)) if len(finite) else (np.zeros(2), np.ones(2))
    margin = np.maximum(0.04 * (high - low).max(), 1e-9 if len(finite) > 1 else 1.0)
    axes.set_xlim(low[0] - margin, high[0] + margin)
    axes.set_ylim(low[1] - margin, high[1] + margin)


def _marker_sizes(adjacency: Any) -> Any:
    """Return the areas of markers in square points: larger for vertices with more edges, smaller in large networks."""
    n = max(len(adjacency), 1)
    degree = (adjacency | adjacency.T).sum(1)
    share = degree / max(int(degree.max(initial=0)), 1)
    return np.clip(6500 / n, 6, 160) * (0.7 + 1.8 * (share if n > ALL_NAMES else np.full(len(adjacency), 0.25)))


def _draw_arrows(axes: Any, positions: Any, edges: Any, legs: Any) -> None:
    """Draw the arrows of a small network, bent if the opposite edge exists, and emphasize those of the path."""
    pairs, on_path = ({(int(i), int(j)) for i, j in group} for group in (edges, legs))
    for i, j in sorted(pairs | on_path):
        look = {"color": EDGE_COLOR, "lw": 0.9, "alpha": 0.75, "mutation_scale": 9}
        if (i, j) in on_path:
            look = {"color": PATH_COLOR, "lw": 2.4, "alpha": 1.0, "mutation_scale": 15}
        bend = f"arc3,rad={0.12 if (j, i) in pairs else 0.0}"
        look |= {"arrowstyle": "-|>", "shrinkA": 7, "shrinkB": 8, "connectionstyle": bend}
        axes.annotate("", xy=positions[j], xytext=positions[i], zorder=4 if (i, j) in on_path else 1, arrowprops=look)


def _draw_lines(axes: Any, edges: Any, curves: Any, legs: Any) -> None:
    """Draw a faint line for each pair of neighbours of a larger network, and the path as one strong line."""
    from matplotlib import patheffects
    from matplotlib.collections import LineCollection

    once = np.unique(np.sort(edges, axis=1), axis=0)  # both directions are one line
    alpha = float(np.clip(280 / len(once), 0.05, 0.55))
    axes.add_collection(LineCollection(curves(once), colors=EDGE_COLOR, linewidths=0.6, alpha=alpha, zorder=1))
    lines = LineCollection(curves(legs), colors=PATH_COLOR, linewidths=2.6, capstyle="round", zorder=4)
    lines.set_path_effects([patheffects.withStroke(linewidth=5, foreground="white", alpha=0.9)])
    axes.add_collection(lines)


def _draw_vertices(
    figure: Any, axes: Any, positions: Any, sizes: Any, values: Any, semiring: Semiring, label: str
) -> None:
    edge = {"edgecolors": "white", "linewidths": 0.5, "zorder": 3}
    if values is None:
        axes.scatter(*positions.T, s=sizes, c=VERTEX_COLOR, **edge)
        return
    array = as_numbers(values, "values")
    if array.shape != (len(positions),) or array.dtype.kind not in "fiub":
        raise ShapeError(
            f"values are {array.dtype} of shape {array.shape}: give a real number for each of the {len(positions):,} "
            "vertices"
        )
    none = array == semiring.zero_for(array.dtype)
    what, nothing = quantity_names(semiring)
    if array.dtype.kind == "b":
        axes.scatter(*positions[~none].T, s=sizes[~none], c=VERTEX_COLOR, label=what, **edge)
    elif not none.all():
        norm, extend = color_scale(array[~none].astype(float))
        numbers = np.clip(array[~none].astype(float), norm.vmin, norm.vmax)
        dots = axes.scatter(*positions[~none].T, s=sizes[~none], c=numbers, cmap=COLORS, norm=norm, **edge)
        add_color_bar(figure, dots, axes, label or what, extend)
    if none.any():
        hollow = {"facecolors": NONE_COLOR, "edgecolors": FAINT_INK, "linewidths": 0.7, "marker": "X", "zorder": 3}
        area = np.maximum(sizes[none], 28)
        axes.scatter(*positions[none].T, s=area, label=f"{nothing} ({np.count_nonzero(none):,})", **hollow)
    if none.any() or array.dtype.kind == "b":
        figure.legend(loc="outside lower left", frameon=False, fontsize=9, labelcolor=INK, ncols=2)


def _choose_labels(network: Network, adjacency: Any, path: Sequence[int], positions: Any) -> list[Label]:
    """Return the labels of the vertices that are named, the most important first."""
    names = [str(name) for name in (range(len(adjacency)) if network.names is None else network.names)]

    def text(vertex: int) -> str:
        long = network.labels[vertex] if network.labels is not None else names[vertex]
        return names[vertex] if long == names[vertex] else f"{names[vertex]}  {long}"

    ends = dict.fromkeys([*path[:1], *path[-1:], *path])
    on_path = [Label(vertex, text(vertex), is_strong=True) for vertex in ends]
    degree = (adjacency | adjacency.T).sum(1)
    others = np.argsort(-degree, kind="stable")
    if len(adjacency) > ALL_NAMES:
        others = others[:HUBS]
        others = others[degree[others] > 2 * np.median(degree)]  # without outstanding vertices, none is named
    rest = [Label(int(vertex), str(names[vertex])) for vertex in others if int(vertex) not in ends]
    return [label for label in on_path + rest if np.isfinite(positions[label.vertex]).all()]


def _draw_weights(axes: Any, network: Network, positions: Any, edges: Any) -> None:
    if network.matrix.dtype.kind == "b":
        return
    pairs = {(int(i), int(j)) for i, j in edges}
    for (i, j), text in zip(edges, numbers_as_text(network.matrix[edges[:, 0], edges[:, 1]]), strict=True):
        along = positions[j] - positions[i]
        side = np.array([along[1], -along[0]]) * (0.06 if (int(j), int(i)) in pairs else 0.0)
        box = {"boxstyle": "round,pad=0.12", "facecolor": "white", "edgecolor": "none", "alpha": 0.85}
        middle = positions[i] + 0.5 * along + side
        axes.text(*middle, text, fontsize=7.5, color=FAINT_INK, ha="center", va="center", bbox=box, zorder=4.5)


@dataclass(frozen=True)
class Label:
    """A name to write beside a vertex. A strong label is written even if it covers another one."""

    vertex: int
    text: str
    is_strong: bool = False


@ignore_missing_glyphs()
def place_labels(figure: Any, axes: Any, labels: Sequence[Label], positions: Any, radius: Any) -> None:
    """Write each label above its vertex, to the right or to the left, where it covers no earlier label.

    A label that covers an earlier one on both sides is left out, unless it is strong. ``positions`` (n, 2) are those of
    the vertices, and ``radius`` (n,) is that of their markers in points.
    """
    from matplotlib import patheffects

    figure.draw_without_rendering()
    renderer = figure.canvas.get_renderer()
    inside = axes.get_window_extent(renderer)
    boxes: list[Any] = []
    halo = [patheffects.withStroke(linewidth=2.6, foreground="white", alpha=0.92)]
    for label in labels:
        distance = 0.5 * radius[label.vertex] + (5 if label.is_strong else 2.5)
        text = axes.annotate(
            escape_dollars(label.text),
            xy=positions[label.vertex],
            xytext=(0, 0),
            textcoords="offset points",
            va="bottom",
            color=INK,
            zorder=6,
            path_effects=halo,
            annotation_clip=False,
            fontsize=9.5 if label.is_strong else 8,
            fontweight="bold" if label.is_strong else "normal",
        )
        for x, side in ((distance, "left"), (-distance, "right")):
            text.set(position=(0.6 * x, 0.4 * distance), ha=side)
            box = text.get_window_extent(renderer).padded(1.5)
            if inside.x0 <= box.x0 and box.x1 <= inside.x1 and not any(map(box.overlaps, boxes)):
                break
        else:
            if not label.is_strong:
                text.remove()
                continue
        boxes.append(box)


def layout(edges: Array) -> Array:
    """Return positions in the plane for the vertices of a graph without coordinates.

    Parameters
    ----------
    edges : array of bool, shape (n, n)
        Whether an edge leads from i to j. Directions are ignored.

    Returns
    -------
    array of float64, shape (n, 2)
        The positions x and y. The result is the same each time.

    Raises
    ------
    MissingExtraError
        If NetworkX is not installed.
    ShapeError
        If the edges are not a square matrix.
    DTypeError
        If the edges are not truth values.

    Notes
    -----
    The positions are those of `networkx.spring_layout` with a seed. Up to 150 vertices `networkx.kamada_kawai_layout`
    then brings distances in the plane near the numbers of hops, which takes some seconds.
    """
    try:
        import networkx as nx
    except ImportError:
        raise MissingExtraError("NetworkX", "plot", "a layout") from None
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import shortest_path

    edges = as_numbers(edges, "edges")
    if edges.ndim != 2 or edges.shape[0] != edges.shape[1]:
        raise square_error(edges.shape, "edges")
    if edges.dtype != np.bool_:
        raise DTypeError(f"edges are {edges.dtype}, and truth values are needed: pass A < inf, or A != 0")
    n = len(edges)
    graph = nx.empty_graph(n)
    graph.add_edges_from(np.argwhere(edges).tolist())
    positions = nx.spring_layout(graph, seed=0, iterations=min(50, max(10, _FORCES // max(1, n) ** 2)))
    if n <= _STRESS:
        hops = np.asarray(shortest_path(csr_array(edges), method="D", directed=False, unweighted=True))
        reached = np.isfinite(hops)
        hops[~reached] = hops.max(initial=0, where=reached) + _COMPONENT_GAP
        rows: Any = {i: dict(enumerate(row)) for i, row in enumerate(hops.tolist())}
        positions = nx.kamada_kawai_layout(graph, dist=rows, pos=positions)
    return np.array([positions[vertex] for vertex in range(n)], float).reshape(n, 2)


def _to_unit_sphere(points: Array) -> Array:
    """Convert degrees of longitude and latitude (n, 2) to points on the unit sphere (n, 3)."""
    across, up = np.radians(points[..., 0]), np.radians(points[..., 1])
    return np.stack([np.cos(up) * np.cos(across), np.cos(up) * np.sin(across), np.sin(up)], axis=-1)


def map_center(points: Array) -> Array:
    """Return the longitude and latitude of the middle of the points on the sphere, where the date line is no border."""
    total = np.nansum(_to_unit_sphere(points), axis=0)
    if np.linalg.norm(total) < 1e-9:
        return np.zeros(2)
    x, y, z = total / np.linalg.norm(total)
    return np.degrees([np.arctan2(y, x), np.arcsin(np.clip(z, -1, 1))])


def project(points: Array, center: Array) -> Array:
    """Project degrees to Earth radii by Lambert's azimuthal equal-area projection around ``center``."""
    across, up = np.radians(points[..., 0] - center[0]), np.radians(points[..., 1])
    middle = np.radians(center[1])
    cosine = np.sin(middle) * np.sin(up) + np.cos(middle) * np.cos(up) * np.cos(across)
    scale = np.sqrt(2 / np.maximum(1 + cosine, 1e-6))
    x = scale * np.cos(up) * np.sin(across)
    y = scale * (np.cos(middle) * np.sin(up) - np.sin(middle) * np.cos(up) * np.cos(across))
    return np.stack([x, y], axis=-1)


def arc(start: Array, end: Array, steps: int = 24) -> Array:
    """Return points (e, steps, 2) of the great circles from ``start`` to ``end``, (e, 2) each, all in degrees."""
    a, b = _to_unit_sphere(start), _to_unit_sphere(end)
    angle: Array = np.arccos(np.clip((a * b).sum(-1), -1, 1))[:, None, None]
    part = np.linspace(0, 1, steps)[None, :, None]
    sine = np.maximum(np.sin(angle), 1e-12)
    near = angle < 1e-9
    start_share: Array = np.where(near, 1 - part, np.sin((1 - part) * angle) / sine)
    end_share = np.where(near, part, np.sin(part * angle) / sine)
    points: Array = start_share * a[:, None] + end_share * b[:, None]
    points /= np.linalg.norm(points, axis=-1, keepdims=True)
    across, up = np.arctan2(points[..., 1], points[..., 0]), np.arcsin(np.clip(points[..., 2], -1, 1))
    return np.stack([np.degrees(across), np.degrees(up)], axis=-1)
