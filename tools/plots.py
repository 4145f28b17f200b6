"""The plots of ``docs/performance.md``, from the tables in ``docs/data``: a new row is a new bar or point."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from matplotlib import pyplot as plt

from tools.pages import rows_of

__all__ = ["PLOTS"]

BLUE, ORANGE, GREEN, LINE, NONE = "#0072b2", "#d55e00", "#009e73", "#66717f", "#e4e4e4"  # those that follow the theme

#: The lines of the plot of closures: label, colour, and where the points are: table, column in ms, factor, which rows.
LINES: list[tuple[str, str, list[tuple[str, str, float, dict[str, str]]]]] = [
    (
        "SciPy, float64",
        LINE,
        [
            ("small", "SciPy, µs", 1e-3, {}),
            ("closure-peers", "ms", 1.0, {"who": "scipy floyd_warshall", "dtype": "float64"}),
        ],
    ),
    (
        "semiring, float64, 2 cores",
        BLUE,
        [("small", "ours, µs", 1e-3, {}), ("closures", "ms", 1.0, {"dtype": "float64", "threads": "2"})],
    ),
    ("semiring, float32, 2 cores", ORANGE, [("closures", "ms", 1.0, {"dtype": "float32", "threads": "2"})]),
]


def _axes(height: float) -> Any:
    figure, axes = plt.subplots(figsize=(6.4, height), layout="constrained")
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(length=3)
    return figure, axes


def _save(figure: Any, path: Path) -> None:
    figure.savefig(path)
    plt.close(figure)


def _bars(path: Path, labels: list[str], values: list[float], unit: str, *, limits: list[float] | None = None) -> None:
    figure, axes = _axes(0.9 + 0.3 * len(labels))
    places = range(len(labels))
    if limits is not None:
        axes.barh(places, limits, height=0.72, color=NONE, label="the limit of the machine")
    axes.barh(places, values, height=0.72 if limits is None else 0.44, color=BLUE, label="reached")
    for place, value in zip(places, values, strict=True):
        axes.annotate(f"{value:,.3g}", (value, place), (3, 0), textcoords="offset points", va="center", fontsize=9)
    axes.set_xscale("log")
    axes.set_yticks(places, labels)
    axes.invert_yaxis()
    axes.set_xlabel(unit)
    axes.set_xlim(0.5 * min(values), 2 * max([*values, *(limits or [])]))
    if limits is not None:
        axes.legend(frameon=False, loc="lower right", fontsize=9)
    _save(figure, path)


def products(path: Path) -> None:
    rows = [row for row in rows_of("products") if row["threads"] == "1"]
    labels = [f"{row['semiring'].removesuffix(' (user-defined)')}, {row['dtype']}" for row in rows]
    reached, limits = ([float(row[column]) for row in rows] for column in ("G pairs/s", "limit"))
    _bars(path, labels, reached, "G pairs/s, one core", limits=limits)


def peers(path: Path) -> None:
    rows = rows_of("peers")
    _bars(path, [row["who"] for row in rows], [float(row["G pairs/s"]) for row in rows], "G pairs/s")


def gpu_products(path: Path) -> None:
    rows = rows_of("gpu-products")
    labels = [f"{row['semiring']}, {row['dtype']}" if row["dtype"] != "bits" else row["semiring"] for row in rows]
    _bars(path, labels, [float(row["T pairs/s"]) for row in rows], "T pairs/s, one H200")


def closures(path: Path) -> None:
    figure, axes = _axes(4.4)
    for label, color, sources in LINES:
        points = [
            (int(row["n"]), factor * float(row[column]))
            for table, column, factor, wanted in sources
            for row in rows_of(table)
            if all(row[key] == value for key, value in wanted.items())
        ]
        axes.plot(*zip(*sorted(points), strict=True), "o-", color=color, lw=2, ms=4, label=label)
    axes.set(xscale="log", yscale="log", xlabel="vertices", ylabel="milliseconds")
    axes.legend(frameon=False, fontsize=9)
    _save(figure, path)


PLOTS: dict[str, Callable[[Path], None]] = {
    "products.svg": products,
    "peers.svg": peers,
    "closures.svg": closures,
    "gpu-products.svg": gpu_products,
}
