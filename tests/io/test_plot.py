"""Test pictures: real files of the expected size, and the properties of layouts and projections."""

from __future__ import annotations

import builtins
import struct
import sys
import zlib

import networkx as nx
import numpy as np
import pytest
from tiers import full

import semiring as sr
from semiring import plot
from semiring.data import load_network
from semiring.errors import FormatError, MissingExtraError
from semiring.io import Network
from semiring.plot.drawing import arc, layout, map_center, project
from semiring.plot.heat_map import seriate

INF = float("inf")


def pixels(path):
    """Return width, height and the raw rows of a PNG, decoded here, so that an all-white picture is detected."""
    data = path.read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    place, packed = 8, b""
    while place < len(data):
        length, kind = struct.unpack(">I4s", data[place : place + 8])
        body = data[place + 8 : place + 8 + length]
        if kind == b"IHDR":
            width, height = struct.unpack(">II", body[:8])
        if kind == b"IDAT":
            packed += body
        place += 12 + length
    return width, height, zlib.decompress(packed)


def check_picture(figure, path):
    plot.save(figure, path, dpi=60)
    width, height, raw = pixels(path)
    expected = np.round(figure.get_size_inches() * 60)
    assert np.abs(np.array([width, height]) - expected).max() <= 1
    assert len(set(raw)) > 20, "more than one colour"


def chain(n, directed=True):
    matrix = np.full((n, n), INF)
    for i in range(n - 1):
        matrix[i, i + 1] = i + 1.0
        if not directed:
            matrix[i + 1, i] = i + 1.0
    return matrix


@pytest.mark.full
@pytest.mark.parametrize("n", full(lambda n: n in (0, 1, 3, 60), [0, 1, 2, 3, 9, 60]))
def test_networks_of_all_sizes(tmp_path, n):
    net = Network(chain(n), names=tuple(f"v{i}" for i in range(n)), title="chain")
    values = np.arange(n, dtype=float)
    values[n // 2 :] = INF
    figure = plot.plot_network(net, path=list(range(min(n, 3))), values=values if n else None, values_label="km")
    check_picture(figure, tmp_path / "x.png")


def test_the_path_and_the_unreachable_are_drawn_apart(tmp_path):
    net = Network(chain(4), names=("a", "b", "c", "d"))
    figure = plot.plot_network(net, path=[0, 1, 2], values=np.array([0, 1, 3, INF]), values_label="distance (km)")
    axes, bar = figure.axes
    assert bar.get_ylabel() == "distance (km)"
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["unreachable (1)"]
    texts = {text.get_text() for text in axes.texts}
    assert {"a", "b", "c", "d", "1", "2", "3"} <= texts, "names, and weights in a small network"
    assert {text.get_text() for text in axes.texts if text.get_fontweight() == "bold"} == {"a", "b", "c"}


def test_a_map_of_the_flights(tmp_path):
    net = load_network("us-flights")
    route = [net.names.index(name) for name in ("ADK", "ANC", "SEA", "BOS")]
    figure = plot.plot_network(net, path=route, title="flights")
    check_picture(figure, tmp_path / "x.png")
    bold = {text.get_text() for text in figure.axes[0].texts if text.get_fontweight() == "bold"}
    assert bold == {"ADK  Adak", "ANC  Anchorage", "SEA  Seattle", "BOS  Boston"}


def test_names_are_text_whatever_is_in_them(tmp_path):
    names = ("$x^$", "$", "東京", r"\frac", "a_b^c {", "")
    net = Network(chain(6), names=names, title="$t$ 東京")
    figure = plot.plot_network(net, path=[0, 1, 2, 3, 4, 5], values=np.arange(6.0), values_label="$")
    check_picture(figure, tmp_path / "x.png")
    check_picture(plot.plot_matrix(net.matrix, names=names, title="$a$", unit="$"), tmp_path / "y.png")


def test_vertices_without_a_position_are_left_out(tmp_path):
    positions = np.array([[0.0, 0], [1, 1], [np.nan, np.nan]])
    figure = plot.plot_network(Network(chain(3), positions=positions), path=[0, 1, 2])
    check_picture(figure, tmp_path / "x.png")


@pytest.mark.full
@pytest.mark.parametrize(
    "semiring",
    full(lambda name: name in ("max_min", "boolean"), ["min_plus", "max_plus", "max_min", "boolean", "plus_times"]),
)
def test_matrices_of_all_semirings(tmp_path, rng, semiring):
    algebra = sr.as_semiring(semiring)
    matrix = rng.random((9, 9)) < 0.5 if semiring == "boolean" else rng.random((9, 9))
    matrix[2] = algebra.zero_for(matrix.dtype)
    if semiring != "boolean":
        matrix[3, 3] = {"max_min": INF}.get(semiring, 1.0)
    names = tuple("abcdefghi")
    check_picture(plot.plot_matrix(matrix, algebra, names=names, title="t", unit="km"), tmp_path / "x.png")


@pytest.mark.full
@pytest.mark.parametrize("n", full(lambda n: n in (0, 1, 41, 2100), [0, 1, 2, 41, 2100]))
def test_matrices_of_all_sizes(tmp_path, n):
    matrix = np.add.outer(np.arange(n), np.arange(n)).astype(np.int32)
    check_picture(plot.plot_matrix(matrix), tmp_path / "x.png")


@pytest.mark.parametrize("value", [INF, 5.0])
def test_matrices_of_one_value(tmp_path, value):
    check_picture(plot.plot_matrix(np.full((4, 4), value), names=list("abcd")), tmp_path / "x.png")


def test_the_heat_map_counts_the_unreachable(tmp_path):
    matrix = np.zeros((10, 10))
    matrix[0, 1:6] = INF
    figure = plot.plot_matrix(matrix)
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["unreachable (5.0 % of the pairs)"]
    assert not plot.plot_matrix(np.zeros((3, 3))).legends


@pytest.mark.full
@pytest.mark.parametrize("ending", ["png", "svg", "pdf"])
def test_formats_of_pictures(tmp_path, ending):
    plot.save(plot.plot_matrix(np.eye(3)), tmp_path / f"x.{ending}")
    start = {"png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF"}[ending]
    assert (tmp_path / f"x.{ending}").read_bytes().startswith(start)
    assert len(list(tmp_path.iterdir())) == 1


def test_other_endings_are_refused(tmp_path):
    with pytest.raises(FormatError, match=r"ends in \.png, \.svg, \.pdf"):
        plot.save(plot.plot_matrix(np.eye(3)), tmp_path / "x.docx")
    assert not list(tmp_path.iterdir())


def test_without_matplotlib_the_extra_is_named(monkeypatch):
    real = builtins.__import__

    def absent(name, *arguments, **options):
        if name.startswith("matplotlib"):
            raise ImportError(name)
        return real(name, *arguments, **options)

    monkeypatch.setattr(builtins, "__import__", absent)
    with pytest.raises(MissingExtraError, match=r"pip install '\.\[plot\]'"):
        plot.plot_matrix(np.eye(2))
    with pytest.raises(MissingExtraError):
        plot.plot_network(Network(chain(2)))


def test_without_networkx_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "networkx", None)
    with pytest.raises(MissingExtraError, match=r"a layout needs NetworkX.*pip install '\.\[plot\]'"):
        plot.plot_network(Network(chain(2)))
    positions = np.array([[0.0, 0], [1, 1]])
    assert plot.plot_network(Network(chain(2), positions=positions)).axes


@pytest.mark.parametrize(
    "graph",
    [nx.path_graph(30), nx.grid_2d_graph(6, 8), nx.cycle_graph(25), nx.balanced_tree(2, 5)],
    ids=["path", "grid", "cycle", "tree"],
)
def test_a_layout_puts_neighbours_near_and_others_far(graph):
    adjacent = nx.to_numpy_array(graph) > 0
    placed = layout(adjacent)
    assert np.isfinite(placed).all()
    apart = np.linalg.norm(placed[:, None] - placed[None], axis=-1)
    hops = np.array([[lengths.get(j, 0) for j in graph] for _, lengths in nx.all_pairs_shortest_path_length(graph)])
    upper = np.triu_indices(len(hops), 1)
    assert np.corrcoef(apart[upper], hops[upper])[0, 1] > 0.8
    assert apart[upper].min() > 1e-3, "no two vertices on one point"


def test_a_large_layout_puts_neighbours_near():
    adjacent = nx.to_numpy_array(nx.random_geometric_graph(300, 0.1, seed=1)) > 0
    placed = layout(adjacent)
    apart = np.linalg.norm(placed[:, None] - placed[None], axis=-1)
    assert apart[adjacent].mean() < 0.4 * apart.mean()


@pytest.mark.parametrize("n", [0, 1, 2])
def test_layouts_of_the_smallest_graphs(n):
    placed = layout(np.zeros((n, n), bool))
    assert placed.shape == (n, 2)
    assert np.isfinite(placed).all()


def test_labels_never_cover_each_other_unless_they_are_of_the_path():
    net = Network(chain(30), names=tuple(f"a long name {i}" for i in range(30)))
    axes = plot.plot_network(net, path=[0, 1, 2]).axes[0]
    names = [text for text in axes.texts if text.get_text().startswith("a long name")]
    assert len([text for text in names if text.get_fontweight() == "bold"]) == 3
    boxes = [text.get_window_extent() for text in names if text.get_fontweight() != "bold"]
    assert len(boxes) > 5
    assert not any(one.overlaps(other) for i, one in enumerate(boxes) for other in boxes[:i])


def test_components_do_not_overlap():
    graph = nx.disjoint_union_all([nx.grid_2d_graph(4, 4), nx.cycle_graph(7), nx.path_graph(2), nx.empty_graph(5)])
    placed = layout(nx.to_numpy_array(graph) > 0)
    parts = [sorted(part) for part in nx.connected_components(graph)]
    boxes = [(placed[part].min(0), placed[part].max(0)) for part in parts]
    for first, (low, high) in enumerate(boxes):
        for other_low, other_high in boxes[:first]:
            assert (high < other_low).any() or (other_high < low).any()


def test_a_layout_is_the_same_each_time():
    adjacent = nx.to_numpy_array(nx.karate_club_graph()) > 0
    assert (layout(adjacent) == layout(adjacent)).all()


def test_the_projection_keeps_the_center_and_areas():
    center = np.array([-100.0, 45.0])
    assert project(center[None], center) == pytest.approx(np.zeros((1, 2)), abs=1e-12)
    for place in ([-100, 45], [-60, 10], [170, 60]):  # a small square of the sphere keeps its area: equal-area
        step = 1e-3
        corners = np.array(place) + np.array([[0, 0], [step, 0], [0, step]])
        a, b, c = project(corners, center)
        area = abs(np.cross(np.append(b - a, 0), np.append(c - a, 0))[2])
        assert area == pytest.approx(np.radians(step) ** 2 * np.cos(np.radians(place[1])), rel=1e-3)


def test_the_middle_of_points_on_both_sides_of_the_date_line():
    longitude, latitude = map_center(np.array([[170.0, 0.0], [-170.0, 0.0]]))
    assert abs(longitude) == pytest.approx(180)
    assert latitude == pytest.approx(0)


def test_arcs_run_along_great_circles():
    points = arc(np.array([[0.0, 0.0]]), np.array([[90.0, 0.0]]), steps=4)[0]
    assert points == pytest.approx(np.array([[0, 0], [30, 0], [60, 0], [90, 0]]), abs=1e-9)
    over_the_pole = arc(np.array([[0.0, 60.0]]), np.array([[180.0, 60.0]]), steps=3)[0]
    assert over_the_pole[1, 1] == pytest.approx(90)
    assert arc(np.array([[7.0, 8.0]]), np.array([[7.0, 8.0]]), steps=2)[0] == pytest.approx(np.array([[7, 8], [7, 8]]))


def test_seriation_finds_the_order_of_a_chain(rng):
    n = 30
    shuffled = rng.permutation(n)
    near = np.exp(-np.abs(np.subtract.outer(shuffled, shuffled)) / 3)
    order = shuffled[seriate(near)]
    assert (order == np.arange(n)).all() or (order == np.arange(n)[::-1]).all()
    assert seriate(np.zeros((2, 2))).tolist() == [0, 1]


@pytest.mark.full
def test_the_fill_of_a_factor(tmp_path):
    F = sr.factor(nx.grid_2d_graph(12, 12))
    figure = plot.plot_fill(F)
    (axes,) = figure.axes
    shown = axes.images[0].get_array()
    filled, edges = F.fill()
    np.testing.assert_array_equal(shown == 2, edges > 0)
    np.testing.assert_array_equal(shown > 0, filled > 0)
    plot.save(figure, tmp_path / "fill.png")
    assert (tmp_path / "fill.png").read_bytes().startswith(b"\x89PNG")
    plot.plot_fill(sr.factor(np.full((0, 0), np.inf)))


@pytest.mark.parametrize(
    ("matrix", "names", "message"),
    [
        (np.ones((2, 3)), None, r"A is \(2, 3\): a square matrix is needed"),
        ([1, 2], None, "a matrix has two"),
        (np.ones((3, 3)), ["a"], "1 names were given for 3 vertices"),
        (np.ones((2, 2)), ["a", "a"], "the name 'a' was given to two vertices"),
    ],
)
def test_a_heat_map_is_of_a_square_matrix(matrix, names, message):
    """A matrix of 2 rows and 3 columns raises."""
    with pytest.raises(sr.errors.ShapeError, match=message):
        plot.plot_matrix(matrix, names=names)


@pytest.mark.parametrize("draw", [lambda: plot.plot_matrix(np.eye(3)), lambda: plot.plot_network(Network(chain(3)))])
def test_pyplot_saves_the_picture_that_was_drawn_last(tmp_path, draw):
    plt = pytest.importorskip("matplotlib.pyplot")
    figure = draw()
    assert plt.gcf() is figure
    plt.savefig(tmp_path / "x.png", dpi=60)
    assert len(set(pixels(tmp_path / "x.png")[2])) > 20, "not a blank page"
