"""Where to draw vertices whose longitudes and latitudes are known: an equal-area map, and arcs of great circles."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

__all__ = ["arc", "map_center", "project"]

Array: TypeAlias = np.ndarray[Any, Any]


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
