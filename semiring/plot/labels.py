"""Placing names beside vertices so that they do not cover each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from semiring.plot.style import INK, any_letters, plain

__all__ = ["Label", "place_labels"]

# Where a label may stand around its vertex: direction, and which corner of the text touches the vertex.
_PLACES = (
    *((1, 0, "left", "center"), (-1, 0, "right", "center"), (0, 1, "center", "bottom"), (0, -1, "center", "top")),
    *((0.7, 0.7, "left", "bottom"), (0.7, -0.7, "left", "top")),
    *((-0.7, 0.7, "right", "bottom"), (-0.7, -0.7, "right", "top")),
)


@dataclass(frozen=True)
class Label:
    """A name to write beside a vertex; a strong one is written even where it covers another."""

    vertex: int
    text: str
    strong: bool = False


@any_letters()
def place_labels(figure: Any, axes: Any, labels: Sequence[Label], placed: Any, radius: Any, lines: Any) -> None:
    """Write the labels, each at the first of eight places where it covers no label before it and stays in the picture.

    A label without such a place is left out, unless it is strong. ``radius`` (n,) is that of the markers in points;
    ``lines`` (k, 2) are points of lines that a label had better not cover.
    """
    from matplotlib import patheffects

    figure.draw_without_rendering()
    renderer = figure.canvas.get_renderer()
    inside = axes.get_window_extent(renderer)
    taken: list[Any] = []
    strong = [label.vertex for label in labels if label.strong]
    points = axes.transData.transform(placed[strong]) if strong else np.zeros((0, 2))
    crossed = axes.transData.transform(_denser(lines)) if len(lines) else np.zeros((0, 2))
    halo = [patheffects.withStroke(linewidth=2.6, foreground="white", alpha=0.92)]
    for label in labels:
        away = 0.5 * radius[label.vertex] + (5 if label.strong else 2.5)
        look = {"fontsize": 9.5, "fontweight": "bold"} if label.strong else {"fontsize": 8}
        text = axes.annotate(
            plain(label.text),
            xy=placed[label.vertex],
            xytext=(0, 0),
            textcoords="offset points",
            color=INK,
            zorder=6,
            path_effects=halo,
            annotation_clip=False,
            **look,
        )
        best, fewest = None, np.inf
        for dx, dy, ha, va in _PLACES:
            text.set(position=(dx * away, dy * away), ha=ha, va=va)
            box = text.get_window_extent(renderer).padded(1.5)
            covered = sum(box.overlaps(other) for other in taken)
            covered += sum(bool(box.contains(x, y)) for x, y in points)  # vertices of the path
            covered += 4 * (box.x0 < inside.x0 or box.x1 > inside.x1 or box.y0 < inside.y0 or box.y1 > inside.y1)
            within = (crossed >= (box.x0, box.y0)) & (crossed <= (box.x1, box.y1))
            covered += 0.5 * bool(within.all(1).any())
            if covered < fewest:
                best, fewest = (dx, dy, ha, va), covered
            if covered == 0:
                break
        if fewest >= 1 and not label.strong:
            text.remove()
            continue
        assert best is not None
        dx, dy, ha, va = best
        text.set(position=(dx * away, dy * away), ha=ha, va=va)
        taken.append(text.get_window_extent(renderer).padded(1.5))


def _denser(points: Any) -> Any:
    """Each two neighbouring points with seven more between them."""
    part = np.linspace(0, 1, 8, endpoint=False)[None, :, None]
    return np.concatenate([(points[:-1, None] * (1 - part) + points[1:, None] * part).reshape(-1, 2), points[-1:]])
