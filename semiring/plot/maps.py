"""Project vertices with longitudes and latitudes to an equal-area map, and compute arcs of great circles."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

__all__ = ["arc", "map_center", "project"]

Array: TypeAlias = np.ndarray[Any, Any]


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
