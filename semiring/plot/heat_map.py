"""Plot matrices: a closure as a heat map, and the pattern of a factor with its fill."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from semiring.advice import quote
from semiring.algebra import Semiring
from semiring.algebra.catalogue import as_semiring
from semiring.arguments import require_text
from semiring.arrays.vertices import Vertices
from semiring.io import as_network
from semiring.io.network import dense_matrix
from semiring.plot.style import (
    COLORS,
    FAINT_INK,
    INK,
    NONE_COLOR,
    VERTEX_COLOR,
    add_color_bar,
    add_headline,
    color_scale,
    escape_dollars,
    new_figure,
    quantity_names,
)
from semiring.sparse.factorization import Factor

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["plot_fill", "plot_matrix", "seriate"]

ALL_NAMES = 40  # the number of vertices up to which each row and column has its name
SOME_NAMES = 24  # the number of names along an axis for more vertices
SERIATED = 1500  # the number of vertices up to which named rows and columns are sorted by likeness
CELLS = 800  # the most squares along an edge of the picture of a factor
PIXELS = 2000  # the most rows and columns that are drawn: a larger matrix is sampled evenly


def plot_matrix(
    matrix: Any,
    semiring: Semiring | str | None = None,
    *,
    names: Sequence[str] | None = None,
    title: str = "",
    unit: str = "",
) -> Figure:
    """Return a heat map of a closure, with a row for each source.

    Pairs with the semiring's zero are grey.

    Parameters
    ----------
    matrix : array, shape (n, n), or graph
        A closure, or what `as_network` takes. Of a matrix of more than 2000 rows, 2000 evenly spaced rows and columns
        are drawn.
    semiring : Semiring or str
        The semiring of the closure. It decides the zero and the words of the legend.
    names : sequence of str, or None
        n names of the vertices. The default is the names of the network, if it has names. Rows and columns of up to
        1500 named vertices are sorted so that alike vertices are neighbours. Numbered vertices keep their order.
    title : str
        The title of the picture. The default is "Closure".
    unit : str
        The unit of the entries, such as "km", for the colour bar.

    Returns
    -------
    matplotlib.figure.Figure
        The figure, which `save` writes to a file.

    Raises
    ------
    ShapeError
        If the matrix is not square, or the number of names is not n.
    TypeError
        If the title or the unit is not a text.
    MissingExtraError
        If matplotlib is not installed.
    SemiringError
        For any other error of `as_network`.
    """
    require_text(unit, "unit", optional=False)
    semiring = as_semiring(semiring)
    network = as_network(matrix, semiring)
    array = dense_matrix(network)
    n = len(array)
    called = network.names if names is None else Vertices(n, names).names
    figure: Figure = new_figure(8.6, 7.4)
    axes = figure.add_subplot()
    zero = semiring.zero_for(array.dtype)
    none = array == zero
    order = np.arange(n)
    if called is not None and n <= SERIATED:
        order = seriate(_compute_nearness(array, none, small_is_near=bool(zero > semiring.one_for(array.dtype))))
    if n > PIXELS:
        order = order[np.linspace(0, n - 1, PIXELS).astype(int)]
    entries, none = array[np.ix_(order, order)], none[np.ix_(order, order)]
    what, nothing = quantity_names(semiring)
    if n:
        _draw(figure, axes, entries, none, f"{what} ({unit})" if unit else what)
        _add_legend(figure, what, nothing, none, truths=array.dtype.kind == "b")
    labels = [str(vertex) if called is None else str(called[int(vertex)]) for vertex in order]
    _set_ticks(axes, labels)
    axes.set_xlabel("to", color=INK)
    axes.set_ylabel("from", color=INK)
    missing = int(np.count_nonzero(array == zero))
    subtitle = f"{n:,} vertices, {n * n - missing:,} of {n * n:,} pairs connected, {semiring.name} {array.dtype}"
    if called is not None and 2 < n <= SERIATED:
        subtitle += "; alike vertices side by side"
    add_headline(axes, title, "Closure", subtitle)
    return figure


def _compute_nearness(array: Any, none: Any, *, small_is_near: bool) -> Any:
    """Return values that are larger for closer pairs, and 0 for pairs that are not connected."""
    if array.dtype.kind == "b":
        return array.astype(float)
    values = array.astype(float)
    finite = np.isfinite(values) & ~none
    if not finite.any():
        return np.zeros(values.shape)
    numbers = values[finite]
    scale = float(numbers.std()) or 1.0
    far = np.where(finite, values, 0.0)
    far = far - numbers.min() if small_is_near else numbers.max() - far
    return np.where(finite, np.exp(-np.maximum(far, 0) / scale), 0.0)


def _draw(figure: Any, axes: Any, array: Any, none: Any, label: str) -> None:
    from matplotlib import colormaps
    from matplotlib.colors import ListedColormap

    options = {"interpolation": "nearest" if len(array) <= 500 else "antialiased", "aspect": "equal"}
    if array.dtype.kind == "b":
        axes.imshow(array, cmap=ListedColormap([NONE_COLOR, VERTEX_COLOR]), vmin=0, vmax=1, **options)
        return
    values = np.ma.masked_array(array.astype(float), none)
    norm, extend = color_scale(values.compressed())
    colors = colormaps[COLORS].with_extremes(bad=NONE_COLOR)
    # An infinite entry that is not the zero (the widest path from a vertex to itself) takes the colour of its end.
    finite = np.ma.masked_array(np.clip(values.data, norm.vmin, norm.vmax), none)
    image = axes.imshow(finite, cmap=colors, norm=norm, **options)
    add_color_bar(figure, image, axes, label, extend)


def _add_legend(figure: Any, quantity: str, zero_text: str, none: Any, *, truths: bool) -> None:
    from matplotlib.patches import Patch

    patches = [Patch(facecolor=VERTEX_COLOR, label=quantity)] if truths else []
    if none.any():
        share = np.count_nonzero(none) / none.size
        amount = "under 0.1 %" if share < 0.001 else f"{share:.1%}".replace("%", " %")
        patches.append(Patch(facecolor=NONE_COLOR, edgecolor="#B0B0B0", label=f"{zero_text} ({amount} of the pairs)"))
    if patches:
        figure.legend(handles=patches, loc="outside lower left", frameon=False, fontsize=9, labelcolor=INK, ncols=2)


def _set_ticks(axes: Any, labels: list[str]) -> None:
    n = len(labels)
    ticks = np.arange(n) if n <= ALL_NAMES else np.unique(np.linspace(0, n - 1, SOME_NAMES).astype(int))
    words = [escape_dollars(labels[i] if len(labels[i]) <= 14 else labels[i][:13] + "…") for i in ticks]
    size = 9 if n <= 20 else 7
    upright = max(map(len, words), default=0) > 2 and n > 8
    axes.set_xticks(ticks, words, fontsize=size, rotation=90 if upright else 0, color=INK)
    axes.set_yticks(ticks, words, fontsize=size, color=INK)
    axes.tick_params(length=2, color=FAINT_INK)
    for spine in axes.spines.values():
        spine.set_visible(False)


def seriate(nearness: Any) -> Any:
    """Return an order of the vertices that puts alike rows and columns of a matrix side by side.

    ``nearness`` (n, n) is non-negative, and larger for closer vertices. They are sorted by the Fiedler vector of the
    normalised Laplacian (Atkins, Boman, Hendrickson 1998). Cost: O(n³).
    """
    n = len(nearness)
    if n < 3:
        return np.arange(n)
    weight = nearness + nearness.T
    np.fill_diagonal(weight, 0)
    degree = np.maximum(weight.sum(1), 1e-12)
    scaled = weight / np.sqrt(degree[:, None] * degree[None])
    _, vectors = np.linalg.eigh(scaled)
    return np.argsort(vectors[:, -2] / np.sqrt(degree), kind="stable")


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
    TypeError
        If the argument is not a `Factor`.
    """
    if not hasattr(factor, "fill") or not hasattr(factor, "ordering"):
        raise TypeError(f"factor is what semiring.factor(A) returns, not {quote(factor)}")
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
    add_headline(axes, title, "Fill", subtitle)
    return figure
