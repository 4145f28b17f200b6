"""Vertices by number and by name."""

from __future__ import annotations

import numpy as np
import pytest

from semiring.arrays.vertices import Vertices
from semiring.errors import ShapeError, VertexError


def test_several_vertices_by_number_or_name():
    plain, named = Vertices(4), Vertices(3, ["a", "b", "c"])
    assert plain.indices(None).tolist() == [0, 1, 2, 3]
    assert plain.indices(np.array([3, 0], np.int8)).tolist() == [3, 0]
    assert plain.indices(range(2)).tolist() == [0, 1]
    assert plain.indices([]).tolist() == []
    assert named.indices(("c", 0)).tolist() == [2, 0]
    assert named.name(1) == "b"
    assert plain.name(np.int64(1)) == 1
    assert Vertices(2, [7, 5]).indices(np.array([5, 7])).tolist() == [1, 0]
    for wrong in (np.array([4]), np.array([-1]), [4], ["a"]):
        with pytest.raises(VertexError):
            plain.indices(wrong)
    with pytest.raises(ShapeError, match="one dimension"):
        plain.indices(np.zeros((1, 1), int))
    with pytest.raises(TypeError, match="give"):
        plain.indices(2)


def test_an_integer_means_the_vertex_whose_name_it_is_or_whose_name_its_digits_are():
    texts = Vertices(4, ["2", "3", "1", "-10"])
    assert [texts.index(1), texts.index(np.int8(2)), texts.index("3"), texts.index(-10)] == [2, 0, 1, 3]
    assert texts.indices([1, 2]).tolist() == texts.indices(np.array([1, 2])).tolist() == [2, 0]
    both = Vertices(4, ["7", 7, "x", "5"])  # an integer that is a name is that name
    assert [both.index(7), both.index("7"), both.index(5)] == [1, 0, 3]
    for vertices, wrong in ((texts, 0), (texts, np.int64(0)), (both, 2), (both, 1)):
        with pytest.raises(VertexError, match=r"no vertex is named .*an integer is a name and no position"):
            vertices.index(wrong)
    with pytest.raises(VertexError):
        Vertices(2, ["1", "0"]).index(True)


@pytest.mark.parametrize(
    "names", [["01", "02"], ["1.0", "+1"], ["\N{SUPERSCRIPT TWO}", "1\n"], ["", "-0"], ["a1", "1a"]]
)
def test_texts_that_python_would_not_write_for_an_integer_leave_integers_to_be_positions(names):
    assert Vertices(2, names).indices([1, 0]).tolist() == [1, 0]
