"""Draw the plots that no example of a page draws: those of the tables in ``docs/data``."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from matplotlib import pyplot as plt

from tools.pages import rows_of

__all__ = ["DRAWN", "ILLUSTRATIONS", "PLOTS"]

# docs/_extensions/pictures.py replaces these colours by those of the theme
BLUE, ORANGE, GREEN, LINE = "#0072b2", "#d55e00", "#009e73", "#66717f"

#: The lines of the plot of closures: label, colour, and the table, column in ms, factor and rows of their points.
LINES: list[tuple[str, str, list[tuple[str, str, float, dict[str, str]]]]] = [
    (
        "SciPy, float64",
        LINE,
        [
            ("small/closures", "SciPy, µs", 1e-3, {}),
            ("closure/scipy", "ms", 1.0, {"who": "scipy floyd_warshall", "dtype": "float64"}),
        ],
    ),
    (
        "semiring, float64, 2 cores",
        BLUE,
        [
            ("small/closures", "ours, µs", 1e-3, {}),
            ("closure/closures", "ms", 1.0, {"dtype": "float64", "threads": "2"}),
        ],
    ),
    ("semiring, float32, 2 cores", ORANGE, [("closure/closures", "ms", 1.0, {"dtype": "float32", "threads": "2"})]),
    (
        "semiring, float32, one H200",
        GREEN,
        [("gpu-rates/closures", "min_plus float32, ms", 1.0, {}), ("gpu-large/closure", "s", 1e3, {})],
    ),
]


def _axes(height: float) -> Any:
    figure, axes = plt.subplots(figsize=(6.4, height), layout="constrained")
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(length=3)
    return figure, axes


def _save(figure: Any, path: Path) -> None:
    figure.savefig(path)
    plt.close(figure)


def _bars(path: Path, labels: list[str], values: list[float], texts: list[str], unit: str) -> None:
    figure, axes = _axes(0.8 + 0.3 * len(labels))
    places = range(len(labels))
    axes.barh(places, values, height=0.6, color=BLUE)
    for place, value, text in zip(places, values, texts, strict=True):
        axes.annotate(text, (value, place), (4, 0), textcoords="offset points", va="center", fontsize=9)
    axes.set_yticks(places, labels)
    axes.invert_yaxis()
    axes.set_xlabel(unit)
    axes.set_xlim(0, 1.22 * max(values))
    _save(figure, path)


def products(path: Path) -> None:
    rows = [row for row in rows_of("gemm/products") if row["threads"] == "1"]
    labels = [f"{row['semiring'].removesuffix(' (user-defined)')}, {row['dtype']}" for row in rows]
    reached = [100 * float(row["G pairs/s"]) / float(row["limit"]) for row in rows]
    texts = [f"{row['G pairs/s']} G pairs/s" for row in rows]
    _bars(path, labels, reached, texts, "% of the peak rate of one core")


def peers(path: Path) -> None:
    rows = rows_of("gemm/peers")
    _bars(path, *_columns(rows, ["who"], "G pairs/s"), "G pairs/s")


def gpu_products(path: Path) -> None:
    rows = [row for row in rows_of("gpu-gemm/products") if row["dtype"] != "bits"]  # bits would dwarf the elements
    _bars(path, *_columns(rows, ["semiring", "dtype"], "T pairs/s"), "T pairs/s, one H200")


def _columns(rows: list[dict[str, str]], names: list[str], value: str) -> tuple[list[str], list[float], list[str]]:
    labels = [", ".join(row[name] for name in names) for row in rows]
    return labels, [float(row[value]) for row in rows], [row[value] for row in rows]


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
    axes.set(xscale="log", yscale="log", xlabel="vertices", ylabel="time of a closure")
    axes.set_yticks([10.0**k for k in range(-2, 7)], ["10 µs", "", "1 ms", "", "100 ms", "", "10 s", "", "1000 s"])
    axes.set_xticks([1, 10, 100, 1000, 10_000, 100_000], ["1", "10", "100", "1,000", "10,000", "100,000"])
    axes.minorticks_off()
    axes.legend(frameon=False, fontsize=9)
    _save(figure, path)


def plot_killed_runs(path: Path) -> None:
    figure, axes = _axes(3.2)
    for name, color in (("left alone", BLUE), ("killed", ORANGE)):
        rows = [row for row in rows_of("larger/killed") if row["run"] == name]
        for number in sorted({row["process"] for row in rows}):
            points = [(float(row["s"]), float(row["% done"])) for row in rows if row["process"] == number]
            axes.plot(*zip(*points, strict=True), color=color, lw=2, label=name if number == "1" else None)
            if points[-1][1] < 100:
                axes.plot(*points[-1], "X", color=color, ms=9)
    axes.set(xlabel="seconds", ylabel="% of the work", ylim=(0, 104), xlim=(0, None))
    axes.legend(frameon=False, fontsize=9)
    _save(figure, path)


def several(path: Path) -> None:
    figure, axes = _axes(3.6)
    rows = rows_of("gpu-several/closures") + rows_of("gpu-several/large")
    alone = {int(row["n"]): float(row["s"]) for row in rows if row["GPUs"] == "1"}  # the sizes that one GPU closed
    most = max(int(row["GPUs"]) for row in rows)
    axes.plot([1, most], [1, most], ":", color=LINE, lw=1, label="as many times as there are GPUs")
    for n, color in zip(sorted(alone), (BLUE, ORANGE, GREEN, "#cc79a7"), strict=False):
        found = sorted((row for row in rows if int(row["n"]) == n), key=lambda row: int(row["GPUs"]))
        counts = [int(row["GPUs"]) for row in found]
        model = [alone[n] / float(row["the model, s"] or alone[n]) for row in found]
        axes.plot(counts, model, "--", color=color, lw=1)
        measured = [float(row["of one GPU"]) for row in found]
        axes.plot(counts, measured, "o-", color=color, lw=2, ms=4, label=f"{n:,} vertices")
    axes.plot([], "--", color=LINE, lw=1, label="the model")
    axes.set(xlabel="GPUs", ylabel="times the rate of one", xticks=range(1, most + 1), ylim=(0, None))
    axes.legend(frameon=False, fontsize=9)
    _save(figure, path)


def ranks(path: Path) -> None:
    figure, axes = _axes(3.0)
    rows = rows_of("larger/ranks")
    counts = [int(row["ranks"]) for row in rows]
    first = float(rows[0]["the model, s"])
    model = [100 * first / float(row["the model, s"]) / count for row, count in zip(rows, counts, strict=True)]
    measured = [float(row["efficiency"].removesuffix("%")) for row in rows]
    axes.plot(counts, model, "--", color=LINE, lw=2, label="the model")
    axes.plot(counts, measured, "o-", color=BLUE, lw=2, label="measured")
    axes.set(xlabel="ranks", ylabel="% of the first rank's rate", ylim=(0, 104), xscale="log")
    axes.set_xticks(counts, [str(count) for count in counts])
    axes.minorticks_off()
    axes.legend(frameon=False, fontsize=9)
    _save(figure, path)


def _value(cell: str) -> float | None:
    """Return the number of a cell, or None where there is none."""
    text = cell.removesuffix(" %").removeprefix("~").replace(",", "")
    return None if text in ("", "—") else float(text)


def _then_and_now(
    axes: Any, rows: list[dict[str, str]], x: str, lines: list[tuple[str, str, str, str]], *, is_log: bool = True
) -> None:
    """Draw lines of a label, a colour, and the columns of the paper (dashed) and of today; "" is no column."""
    for label, color, then, now in lines:
        for column, style in ((then, "s--"), (now, "o-")):
            points = [(int(row[x]), value) for row in rows if (value := _value(row.get(column, ""))) is not None]
            if points:
                name = label if column == (now or then) else None
                axes.plot(*zip(*points, strict=True), style, color=color, lw=1.5, ms=3.5, label=name)
    if is_log:
        axes.set(xscale="log", yscale="log")
        sizes = sorted({int(row[x]) for row in rows})
        ticks = [size for size in sizes if size % 1024 == 0 and (size // 1024) & (size // 1024 - 1) == 0] or sizes
        axes.set_xticks(ticks, [f"{size:,}" for size in ticks])
        axes.minorticks_off()


def _finish(figure: Any, path: Path, axes: Any, columns: int = 1, *, is_outside: bool = False) -> None:
    """Add the legend of some axes, in them or below the figure, and save the figure."""
    axes.plot([], [], "o-", color=LINE, lw=1.5, ms=3.5, label="now")
    axes.plot([], [], "s--", color=LINE, lw=1.5, ms=3.5, label="then")
    handles = axes.get_legend_handles_labels()
    place = {"loc": "outside lower center"} if is_outside else {}
    (figure if is_outside else axes).legend(*handles, frameon=False, fontsize=8, ncols=columns, **place)
    _save(figure, path)


PINK, YELLOW = "#cc79a7", "#b8860b"  # middle tones, legible on both themes


def lund_smith(path: Path) -> None:
    figure, axes = _axes(4.4)
    names = "three loops, one core", "harish_narayanan", "katz_kider", "lund_smith_unrolled", "lund_smith"
    lines = [
        (name, color, f"{name}, then, s", f"{name}, s")
        for name, color in zip(names, (LINE, PINK, ORANGE, GREEN, BLUE), strict=True)
    ]
    _then_and_now(axes, rows_of("papers/lund-smith-times"), "vertices", lines)
    axes.set(xlabel="vertices", ylabel="seconds")
    _finish(figure, path, axes, 2)


def buluc(path: Path) -> None:
    figure, axes = _axes(4.4)
    host, gpu = rows_of("papers/buluc-host"), rows_of("papers/buluc-times")
    lines = [
        ("three loops, one core", LINE, "iterative, then, ms", "iterative, ms"),
        ("rkleene, one core", YELLOW, "recursive, then, ms", "recursive, ms"),
    ]
    _then_and_now(axes, host, "vertices", lines)
    for name, color in (("buluc_iterative", PINK), ("rkleene_plain", ORANGE), ("rkleene", BLUE)):
        rows = [row for row in gpu if row["method"] == name]
        _then_and_now(axes, rows, "vertices", [(f"{name}, GPU", color, "then, ms", "ms")])
    axes.set(xlabel="vertices", ylabel="milliseconds")
    ticks = [int(row["vertices"]) for row in host]
    axes.set_xticks(ticks, [f"{n:,}" for n in ticks])
    _finish(figure, path, axes, 2)


def buluc_earlier(path: Path) -> None:
    figure, axes = _axes(3.2)
    sizes = ("1024", "2048", "4096", "8192")
    earlier = [row for row in rows_of("papers/gaioso-times") if row["vertices"] in sizes]
    own = [row for row in rows_of("papers/buluc-times") if row["method"] == "rkleene" and row["vertices"] in sizes]
    _then_and_now(axes, earlier, "vertices", [("harish_narayanan", PINK, "", "harish_narayanan, ms")])
    _then_and_now(axes, own, "vertices", [("rkleene", BLUE, "", "ms")])
    axes.set(xlabel="vertices", ylabel="milliseconds")
    axes.legend(frameon=False, fontsize=8)
    _save(figure, path)


def _panels(count: int, height: float = 2.8) -> Any:
    figure, panels = plt.subplots(1, count, figsize=(3.2 * count, height), layout="constrained")
    for axes in panels:
        axes.spines[["top", "right"]].set_visible(False)
        axes.tick_params(length=3)
    return figure, panels


def bertoldi_ranks(path: Path) -> None:
    figure, (speedup, efficiency, waited) = _panels(3)
    rows = [row for row in rows_of("papers/bertoldi-ranks") if row["how"] == "rows"]
    counts = [int(row["ranks"]) for row in rows]
    _then_and_now(speedup, rows, "ranks", [("rows", BLUE, "speedup, then", "speedup")], is_log=False)
    speedup.plot([1, max(counts)], [1, max(counts)], ":", color=LINE, lw=1, label="ideal")
    _then_and_now(efficiency, rows, "ranks", [("rows", BLUE, "efficiency, then", "efficiency")], is_log=False)
    _then_and_now(waited, rows, "ranks", [("rows", BLUE, "% in MPI, then", "share that waited")], is_log=False)
    speedup.set(xlabel="ranks", ylabel="speedup", ylim=(0, None))
    efficiency.set(xlabel="ranks", ylabel="efficiency, %", ylim=(0, None))
    waited.set(xlabel="ranks", ylabel="% in MPI, then; that waited, now", ylim=(0, None))
    _finish(figure, path, speedup)


def bertoldi_threads(path: Path) -> None:
    figure, (speedup, efficiency) = _panels(2)
    table = rows_of("papers/bertoldi-threads")
    full = [row["vertices"] for row in table if row["threads"] == "8" and _value(row.get("speedup", "—")) is not None]
    sizes = sorted({"1000", *full[-1:]}, key=int)
    for n, color in zip(sizes, (ORANGE, BLUE), strict=False):
        rows = [row for row in table if row["vertices"] == n]
        label = f"{int(n):,} vertices"
        _then_and_now(speedup, rows, "threads", [(label, color, "speedup, then", "speedup")], is_log=False)
        _then_and_now(efficiency, rows, "threads", [(label, color, "efficiency, then", "efficiency")], is_log=False)
    speedup.plot([1, 8], [1, 8], ":", color=LINE, lw=1, label="ideal")
    speedup.set(xlabel="threads", ylabel="speedup", ylim=(0, None))
    efficiency.set(xlabel="threads", ylabel="efficiency, %", ylim=(0, None))
    _finish(figure, path, speedup)


def bertoldi_gpu(path: Path) -> None:
    figure, (times, speedups) = _panels(2, 3.4)
    table, ticks = rows_of("papers/bertoldi-blocks"), (1000, 2000, 5000, 10_000)
    for count, color in (("32", ORANGE), ("128", GREEN), ("256", BLUE), ("1024", PINK)):
        rows = [row for row in table if row["threads of a block"] == count]
        label = f"{count} threads a block"
        _then_and_now(times, rows, "vertices", [(label, color, "then, ms", "direct, ms")])
        _then_and_now(speedups, rows, "vertices", [(label, color, "over 8 threads, then", "over 8 threads")])
    for axes, label in ((times, "milliseconds"), (speedups, "times as fast as 8 threads")):
        axes.set(xlabel="vertices", ylabel=label)
        axes.set_xticks(ticks, [f"{n:,}" for n in ticks])
    _finish(figure, path, times, 3, is_outside=True)


def gaioso(path: Path) -> None:
    figure, (times, ratios) = _panels(2, 3.2)
    rows = [row for row in rows_of("papers/gaioso-times") if row["vertices"] != "mean"]
    fair = next((column for column in rows[0] if column.startswith("katz_kider") and column.endswith(", ms")), "")
    names = [("harish_narayanan", PINK), ("katz_kider", ORANGE), ("gaioso", BLUE)]
    lines = [(name, color, "", fair if name == "katz_kider" else f"{name}, ms") for name, color in names]
    _then_and_now(times, rows, "vertices", lines)
    over = [(f"over {name}", color, f"over {name}, then", f"over {name}") for name, color in names[:2]]
    _then_and_now(
        ratios, rows, "vertices", [*over, ("over three loops", LINE, "over three loops, then", "over three loops")]
    )
    times.set(xlabel="vertices", ylabel="milliseconds")
    times.legend(frameon=False, fontsize=8)
    ratios.set(xlabel="vertices", ylabel="times as fast", ylim=(1, None))
    _finish(figure, path, ratios, 3, is_outside=True)


#: Tables that no page shows, because they have too many rows.
DRAWN = {"larger/killed", "papers/host", "papers/gpu"}

#: Drawings of ideas, which show no data: a drawing program edits them.
ILLUSTRATIONS = {
    "structure-components.svg",
    "structure-undirected.svg",
    "structure-bottleneck.svg",
    "structure-reachability.svg",
    "structure-hops.svg",
    "structure-separators.svg",
    "paper-lund-smith.svg",
    "paper-buluc.svg",
    "paper-bertoldi.svg",
    "paper-gaioso.svg",
}

PLOTS: dict[str, Callable[[Path], None]] = {
    "products.svg": products,
    "peers.svg": peers,
    "closures.svg": closures,
    "gpu-products.svg": gpu_products,
    "killed.svg": plot_killed_runs,
    "ranks.svg": ranks,
    "several.svg": several,
    "then-lund-smith.svg": lund_smith,
    "then-buluc.svg": buluc,
    "then-buluc-earlier.svg": buluc_earlier,
    "then-bertoldi-ranks.svg": bertoldi_ranks,
    "then-bertoldi-threads.svg": bertoldi_threads,
    "then-bertoldi-gpu.svg": bertoldi_gpu,
    "then-gaioso.svg": gaioso,
}
