"""Plot the pattern of a factor: the edges of its matrix, and the fill."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from semiring.plot.style import COLORS, INK, NONE_COLOR, add_headline, new_figure
from semiring.sparse.factorization import Factor

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["plot_fill"]

CELLS = 800  # squares along an edge of the picture, at most


def plot_fill(factor: Factor, *, title: str = "") -> Figure:
    """Return a picture of the pattern of a `Factor` in the order of its elimination: edges and fill.

    The vertices that are eliminated last, below and to the right, separate the remaining vertices.

    Parameters
    ----------
    factor : Factor
        The factor of n vertices. If n is above 800, a square of the picture stands for several vertices, and has the
        colour of an edge if it contains one.
    title : str
        The title of the picture. The default is "Fill".

    Returns
    -------
    matplotlib.figure.Figure
        The figure, which `save` writes to a file.

    Raises
    ------
    MissingExtraError
        If matplotlib is not installed.
    """
    figure: Figure = new_figure(8.0, 7.4)
    from matplotlib import colormaps
    from matplotlib.colors import ListedColormap
    from matplotlib.patches import Patch

    axes: Any = figure.add_subplot()
    n = len(factor)
    filled, edges = factor.fill(CELLS)
    image = (filled > 0).astype(int)
    image[edges > 0] = 2
    scale = colormaps[COLORS]
    colors = [NONE_COLOR, scale(0.75), scale(0.1)]
    if n:
        axes.imshow(image, cmap=ListedColormap(colors), vmin=0, vmax=2, interpolation="nearest", extent=(0, n, n, 0))
    patches = [Patch(facecolor=colors[2], label="edges"), Patch(facecolor=colors[1], label="fill")]
    figure.legend(handles=patches, loc="outside lower left", frameon=False, fontsize=9, labelcolor=INK, ncols=2)
    axes.set_xlabel("place in the elimination", color=INK)
    axes.set_ylabel("place in the elimination", color=INK)
    ordering = factor.ordering.replace("_", " ")
    subtitle = f"{n:,} vertices by {ordering}, {factor.nnz:,} numbers, {factor.operations:,} operations"
    add_headline(axes, title or "Fill", subtitle)
    return figure
