"""Define the style of all pictures: colours for colour-blind readers, and words for the quantities of weights."""

from __future__ import annotations

import contextlib
import io
import os
import sys
import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from semiring.advice import plain_text
from semiring.algebra import Semiring
from semiring.arguments import require_text
from semiring.errors import FormatError, MissingExtraError
from semiring.io import atomic_file

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["quantity_names", "require_matplotlib", "save"]

# Okabe, Ito, "Color universal design", 2008; viridis (Smith, van der Walt 2015) for numbers.
PATH_COLOR = "#D55E00"
VERTEX_COLOR = "#0072B2"
EDGE_COLOR = "#66717F"
NONE_COLOR = "#E4E4E4"
INK = "#20262E"
FAINT_INK = "#5F6873"
COLORS = "viridis"

FORMATS = ("png", "svg", "pdf")

_QUANTITIES = {
    "min_plus": ("distance", "unreachable"),
    "max_plus": ("length of the longest path", "unreachable"),
    "max_min": ("capacity", "not connected"),
    "min_max": ("highest edge", "not connected"),
    "max_times": ("reliability", "not connected"),
    "min_times": ("product of factors", "unreachable"),
    "boolean": ("reachable", "unreachable"),
}


def quantity_names(semiring: Semiring) -> tuple[str, str]:
    """Return the quantity that an entry of a closure measures, and the meaning of the zero."""
    return _QUANTITIES.get(semiring.name, (f"entry of the {semiring.name} closure", "zero"))


def require_matplotlib() -> None:
    """Raise `MissingExtraError` unless matplotlib is installed."""
    try:
        import matplotlib.figure  # noqa: F401  # tests whether it is installed
    except ImportError:
        raise MissingExtraError("matplotlib", "plot", "a picture") from None


def new_figure(width: float, height: float) -> Any:
    """Return an empty figure with an off-screen canvas, for any setting of the user's matplotlib.

    In a script that imported pyplot it becomes pyplot's current figure, so that ``plt.savefig`` and ``plt.show`` find
    it. A notebook shows the returned figure already.
    """
    require_matplotlib()
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    engine = ConstrainedLayoutEngine(w_pad=0.14, h_pad=0.14)
    pyplot = sys.modules.get("matplotlib.pyplot")
    if pyplot is not None and "inline" not in pyplot.get_backend():
        return pyplot.figure(figsize=(width, height), facecolor="white", layout=engine)
    figure = Figure(figsize=(width, height), facecolor="white", layout=engine)
    FigureCanvasAgg(figure)
    return figure


def escape_dollars(text: str) -> str:
    """Return a text with its dollar signs escaped, so that they begin no formula."""
    return text.replace("$", r"\$")


@contextlib.contextmanager
def ignore_missing_glyphs() -> Iterator[None]:
    """Draw letters that the font lacks as boxes, without a warning for each."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        yield


def add_headline(axes: Any, title: str, default: str, subtitle: str) -> None:
    """Write a title, or the default if it is empty, in bold with a fainter line below it, both from the left edge.

    Raises `TypeError` for a title that is no text.
    """
    require_text(title, "title", optional=False)
    title = title or default
    axes.set_title(
        escape_dollars(title), loc="left", fontsize=13, fontweight="bold", color=INK, pad=24 if subtitle else 10
    )
    if subtitle:
        axes.annotate(
            escape_dollars(subtitle),
            xy=(0, 1),
            xytext=(0, 8),
            xycoords="axes fraction",
            textcoords="offset points",
            fontsize=9.5,
            color=FAINT_INK,
            ha="left",
            va="bottom",
        )


def color_scale(values: Any) -> tuple[Any, str]:
    """Return the norm that maps the finite values to colours, and the ends beyond which there are infinite values.

    The ends are "neither", "min", "max" or "both", as matplotlib names them.
    """
    from matplotlib.colors import Normalize

    finite = values[np.isfinite(values)]
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 1.0)
    if low == high:
        low, high = low - 0.5, high + 0.5
    below, above = bool((values == -np.inf).any()), bool((values == np.inf).any())
    return Normalize(low, high), {(0, 0): "neither", (0, 1): "max", (1, 0): "min", (1, 1): "both"}[below, above]


def add_color_bar(figure: Any, mappable: Any, axes: Any, label: str, extend: str) -> None:
    """Add a slim colour bar with its label."""
    bar = figure.colorbar(mappable, ax=axes, shrink=0.75, aspect=32, pad=0.015, extend=extend)
    bar.set_label(escape_dollars(label), color=INK, fontsize=9.5)
    bar.ax.tick_params(labelsize=8.5, color=FAINT_INK, labelcolor=INK)
    bar.ax.yaxis.set_major_formatter(lambda value, _: f"{value:,.6g}")
    bar.outline.set_visible(False)


def check_picture(path: str | os.PathLike[str]) -> str:
    """Return the format of a picture by the ending of its file's name.

    Raises `FormatError` for an ending that is not one of `FORMATS`.
    """
    ending = os.path.splitext(os.fspath(path))[1].lower().removeprefix(".")
    if ending not in FORMATS:
        raise FormatError(
            f"{plain_text(os.fspath(path))}: a picture goes to a file that ends in .{', .'.join(FORMATS)}"
        )
    return ending


def save(figure: Figure, path: str | os.PathLike[str], *, dpi: int = 150) -> None:
    """Write a figure to a file completely, or not at all.

    Parameters
    ----------
    figure : matplotlib.figure.Figure
        The figure.
    path : str or os.PathLike
        The name of the file. Its ending, .png, .svg or .pdf, decides the format.
    dpi : int
        The dots per inch of a .png file.

    Raises
    ------
    FormatError
        If the name has another ending.
    """
    ending = check_picture(path)
    drawn = io.BytesIO()
    with ignore_missing_glyphs():
        figure.savefig(drawn, format=ending, dpi=dpi)
    with atomic_file(path) as stream:
        stream.write(drawn.getvalue())
