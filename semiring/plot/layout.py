"""Where to draw vertices: a map projection where the file says where they are, else a layout from the edges alone.

The layout puts vertices at distances in the plane that are close to their numbers of hops: pivot MDS (Brandes, Pich,
"Eigensolver methods for progressive multidimensional scaling", 2006), then, where it is affordable, stress majorization
(Gansner, Koren, North, "Graph drawing by stress majorization", 2004). Each component is laid out alone. Deterministic.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

__all__ = ["arc", "layout", "map_center", "project", "seriate"]

Array: TypeAlias = np.ndarray[Any, Any]

PIVOTS = 100  # vertices from which distances are measured: more add time, not quality
MAJORIZED = 700  # vertices of a component up to which its layout is refined, in O(n³) once and O(n²) a round
ROUNDS = 80


# ------------------------------------------------------------------------------------------------------------- maps


def _unit(points: Array) -> Array:
    """(n, 2) degrees of longitude and latitude → (n, 3) points on the unit sphere."""
    across, up = np.radians(points[..., 0]), np.radians(points[..., 1])
    return np.stack([np.cos(up) * np.cos(across), np.cos(up) * np.sin(across), np.sin(up)], axis=-1)


def map_center(points: Array) -> Array:
    """The longitude and latitude in the middle of the points, taken on the sphere: the date line is no border."""
    total = np.nansum(_unit(points), axis=0)
    if np.linalg.norm(total) < 1e-9:
        return np.zeros(2)
    x, y, z = total / np.linalg.norm(total)
    return np.degrees([np.arctan2(y, x), np.arcsin(np.clip(z, -1, 1))])


def project(points: Array, center: Array) -> Array:
    """Lambert's azimuthal equal-area projection around ``center``; degrees in, Earth radii out."""
    across, up = np.radians(points[..., 0] - center[0]), np.radians(points[..., 1])
    middle = np.radians(center[1])
    cosine = np.sin(middle) * np.sin(up) + np.cos(middle) * np.cos(up) * np.cos(across)
    scale = np.sqrt(2 / np.maximum(1 + cosine, 1e-6))
    x = scale * np.cos(up) * np.sin(across)
    y = scale * (np.cos(middle) * np.sin(up) - np.sin(middle) * np.cos(up) * np.cos(across))
    return np.stack([x, y], axis=-1)


def arc(start: Array, end: Array, steps: int = 24) -> Array:
    """Points of the great circles from ``start`` to ``end``: (e, 2) degrees each → (e, steps, 2) degrees."""
    a, b = _unit(start), _unit(end)
    angle: Array = np.arccos(np.clip((a * b).sum(-1), -1, 1))[:, None, None]
    part = np.linspace(0, 1, steps)[None, :, None]
    sine = np.maximum(np.sin(angle), 1e-12)
    near = angle < 1e-9
    first: Array = np.where(near, 1 - part, np.sin((1 - part) * angle) / sine)
    second = np.where(near, part, np.sin(part * angle) / sine)
    points: Array = first * a[:, None] + second * b[:, None]
    points /= np.linalg.norm(points, axis=-1, keepdims=True)
    across, up = np.arctan2(points[..., 1], points[..., 0]), np.arcsin(np.clip(points[..., 2], -1, 1))
    return np.stack([np.degrees(across), np.degrees(up)], axis=-1)


# ---------------------------------------------------------------------------------------------------------- layouts


def layout(edges: Array) -> Array:
    """Positions (n, 2) for the vertices of a graph given by a boolean (n, n) matrix; directions do not matter."""
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import connected_components

    both = edges | edges.T
    np.fill_diagonal(both, False)
    graph: Any = csr_array(both)
    count, component = connected_components(graph, directed=False)
    parts = sorted((np.flatnonzero(component == c) for c in range(count)), key=len, reverse=True)
    placed = [(part, _component(graph[part][:, part])) for part in parts]
    return _pack(placed, len(edges))


def _component(graph: Any) -> Array:
    n = graph.shape[0]
    if n == 1:
        return np.zeros((1, 2))
    if n == 2:
        return np.array([[-0.5, 0.0], [0.5, 0.0]])
    position = _pivot_mds(graph)
    return _majorize(position, graph) if n <= MAJORIZED else position


def _hops(graph: Any, sources: Any) -> Array:
    from scipy.sparse.csgraph import shortest_path

    return np.asarray(shortest_path(graph, method="D", directed=False, unweighted=True, indices=sources))


def _pivot_mds(graph: Any) -> Array:
    n = graph.shape[0]
    nearest, distances = np.full(n, np.inf), []
    pivot = int(np.argmax(graph.sum(axis=0)))
    for _ in range(min(n, PIVOTS)):  # each pivot as far as can be from those before
        distances.append(_hops(graph, pivot))
        nearest = np.minimum(nearest, distances[-1])
        pivot = int(np.argmax(nearest))
    squared = np.stack(distances, axis=1) ** 2
    centered = squared - squared.mean(0) - squared.mean(1, keepdims=True) + squared.mean()
    _, directions = np.linalg.eigh(centered.T @ centered)
    position: Array = centered @ directions[:, -1:-3:-1]
    if position.shape[1] < 2:
        position = np.column_stack([position, np.zeros(n)])
    # Twins (vertices with the same neighbours) land on one point: part them a little, on a spiral.
    turn = np.arange(n) * 2.399963
    spread = max(float(np.abs(position).max()), 1e-9)
    position = position / spread * float(np.sqrt(n))
    return position + 0.05 * np.stack([np.cos(turn), np.sin(turn)], axis=1)


def _majorize(position: Array, graph: Any) -> Array:
    """Lower the stress Σ (|xᵢ - xⱼ| - dᵢⱼ)² / dᵢⱼ² by solving a sequence of Laplacian systems."""
    n = len(position)
    distance = _hops(graph, None)
    np.fill_diagonal(distance, 1)
    weight = distance**-2.0
    np.fill_diagonal(weight, 0)
    laplacian = np.diag(weight.sum(1)) - weight
    inverse = np.linalg.inv(laplacian + 1 / n)  # the Laplacian's pseudo-inverse but for the mean, which is 0 below
    for _ in range(ROUNDS):
        apart = np.linalg.norm(position[:, None] - position[None], axis=-1)
        pull = weight * distance / np.maximum(apart, 1e-9)
        np.fill_diagonal(pull, 0)
        position = inverse @ (pull.sum(1)[:, None] * position - pull @ position)
    return position


def _pack(placed: list[tuple[Array, Array]], n: int) -> Array:
    """Components on shelves, the largest first."""
    result = np.zeros((n, 2))
    boxes = [position.max(0) - position.min(0) + 1.0 for _, position in placed]
    width = max([box[0] for box in boxes] + [1.5 * float(np.sqrt(sum(box[0] * box[1] for box in boxes)))], default=1.0)
    x = y = height = 0.0
    for (part, position), box in zip(placed, boxes, strict=True):
        if x > 0 and x + box[0] > width:
            x, y, height = 0.0, y - height, 0.0
        top_left = np.array([position[:, 0].min(), position[:, 1].max()])
        result[part] = position - top_left + np.array([x, y])
        x, height = x + box[0], max(height, box[1])
    return result


def seriate(near: Array) -> Array:
    """An order of the rows and columns of a matrix that puts alike ones side by side.

    ``near`` (n, n) is non-negative, larger where two vertices are closer. Vertices are sorted by the Fiedler vector of
    the normalised Laplacian (Atkins, Boman, Hendrickson 1998). O(n³).
    """
    n = len(near)
    if n < 3:
        return np.arange(n)
    weight = near + near.T
    np.fill_diagonal(weight, 0)
    degree = np.maximum(weight.sum(1), 1e-12)
    scaled = weight / np.sqrt(degree[:, None] * degree[None])
    _, vectors = np.linalg.eigh(scaled)
    return np.argsort(vectors[:, -2] / np.sqrt(degree), kind="stable")
