"""Place names beside vertices, as many as fit without covering each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from semiring.plot.style import INK, escape_dollars, ignore_missing_glyphs

__all__ = ["Label", "place_labels"]


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
