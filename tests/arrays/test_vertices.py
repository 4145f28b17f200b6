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
