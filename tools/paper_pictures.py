"""Draw the pictures of ``docs/papers.md``: the idea of each of four papers, on a matrix small enough to be seen."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import pyplot as plt

__all__ = ["PICTURES_OF_PAPERS"]

BLUE, ORANGE, GREEN, LINE, NONE = "#0072b2", "#d55e00", "#00805d", "#66717f", "#e4e4e4"


def _panels(count: int) -> Any:
    figure, axes = plt.subplots(1, count, figsize=(6.4, 2.6), layout="constrained")
    for each in axes:
        each.set_aspect("equal")
        each.axis("off")
    return figure, axes


def _tiles(axes: Any, colours: Any, title: str, texts: Any = None) -> None:
    """Draw a matrix as squares, each of its colour, with texts in them."""
    n, m = np.shape(colours)
    for i in range(n):
        for j in range(m):
            axes.add_patch(plt.Rectangle((j, -i - 1), 0.92, 0.92, color=colours[i][j], lw=0))
            if texts is not None and texts[i][j]:
                axes.text(j + 0.46, -i - 0.54, texts[i][j], ha="center", va="center", fontsize=8, color="white")
    axes.set(xlim=(-0.2, m + 0.2), ylim=(-n - 0.2, 0.2))
    axes.set_title(title, fontsize=9)


def _save(figure: Any, path: Path) -> None:
    figure.savefig(path)
    plt.close(figure)


def _cross(n: int, k: int) -> Any:
    """Draw row and column k of a matrix, and the entry where they meet."""
    colours = np.full((n, n), NONE, object)
    colours[k, :] = colours[:, k] = BLUE
    colours[k, k] = ORANGE
    return colours


def lund_smith(path: Path) -> None:
    """Draw the three phases, panels that are whole in shared memory, and panels in slices of four pivots."""
    figure, (left, middle, right) = _panels(3)
    phases = np.full((5, 5), "3", object)
    phases[1, :] = phases[:, 1] = "2"
    phases[1, 1] = "1"
    colours = _cross(5, 1)
    colours[colours == NONE] = LINE
    _tiles(left, colours, "three phases of 32 pivots", phases)
    for axes, slices, title in ((middle, 8, "tiles in shared memory"), (right, 1, "staged load")):
        held = np.full((9, 9), "white", object)
        held[1:, 1:] = LINE if slices == 8 else GREEN
        held[1:, 0] = held[0, 1:] = NONE
        _tiles(axes, held, title)
        for step in range(slices):
            place = 1 + (step if slices == 8 else 2)
            axes.add_patch(plt.Rectangle((0, -place - 1), 0.92, 0.92, color=BLUE, lw=0))
            axes.add_patch(plt.Rectangle((place, -1), 0.92, 0.92, color=BLUE, lw=0))
    middle.text(5, -5, "shared", ha="center", va="center", fontsize=9, color="white")
    right.text(5, -5, "registers", ha="center", va="center", fontsize=9, color="white")
    _save(figure, path)


def buluc(path: Path) -> None:
    """Draw the recursion: two closures of half the size, and six products."""
    figure, (left, middle, right) = _panels(3)
    names = np.array([["A₁₁", "A₁₂"], ["A₂₁", "A₂₂"]], object)
    _tiles(left, [[ORANGE, BLUE], [BLUE, GREEN]], "close A₁₁; three products", names)
    _tiles(middle, [[GREEN, BLUE], [BLUE, ORANGE]], "close A₂₂; three products", names)
    n, colours = 8, np.full((8, 8), BLUE, object)
    for start in range(n):
        colours[start, start] = ORANGE
    _tiles(right, colours, "blocks closed, and products")
    _save(figure, path)


def bertoldi(path: Path) -> None:
    """Draw rows of three ranks, the broadcast of a pivot's row, and what a rank reads and writes for it."""
    figure, (left, right) = _panels(2)
    n, k = 9, 4
    colours = np.full((n, n), NONE, object)
    colours[0:3] = LINE
    colours[3:6] = GREEN
    colours[6:9] = "#8fb8d0"
    colours[k] = ORANGE
    _tiles(left, colours, "the owner broadcasts the row of pivot k")
    for rows, name in ((1, "rank 0"), (4, "rank 1"), (7, "rank 2")):
        left.text(n + 0.3, -rows - 0.5, name, va="center", fontsize=8)
    left.set_xlim(-0.2, n + 2.6)
    mine = np.full((4, n), LINE, object)
    mine[0] = ORANGE
    mine[1:, k] = BLUE
    _tiles(right, mine, "rank 0 updates its rows by\nthe copy of the row, and its column")
    _save(figure, path)


def gaioso(path: Path) -> None:
    """Draw the diagonal tile in every multiprocessor, the shared tiles of the cross, and the second phase."""
    figure, (left, middle, right) = _panels(3)
    n, k = 6, 2
    one = np.full((n, n), NONE, object)
    one[k, k] = ORANGE
    _tiles(left, one, "1a  every block closes\nthe diagonal tile")
    shared, texts = _cross(n, k), np.full((n, n), "", object)
    around = [(k, j) for j in range(n) if j != k] + [(i, k) for i in range(n) if i != k]
    for number, (i, j) in enumerate(around):
        shared[i, j] = (BLUE, GREEN, LINE)[number % 3]
        texts[i, j] = str(number % 3)
    _tiles(middle, shared, "1b  and goes on with\nits share of the cross", texts)
    rest = np.where(_cross(n, k) == NONE, BLUE, NONE)
    _tiles(right, rest, "2  the other tiles,\na block each")
    _save(figure, path)


PICTURES_OF_PAPERS = {
    "paper-lund-smith.svg": lund_smith,
    "paper-buluc.svg": buluc,
    "paper-bertoldi.svg": bertoldi,
    "paper-gaioso.svg": gaioso,
}
