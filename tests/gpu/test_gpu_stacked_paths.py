"""Test paths of stacks on a GPU: each matrix has the paths of its own call there, and arrays of paths stay there."""

from __future__ import annotations

import numpy as np
import pytest
from matrices import matrix
from trees import check, walk

import semiring as sr
from semiring.errors import NegativeCycleError, ShapeError

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.filterwarnings("ignore::semiring.errors.SuspiciousWeightsWarning"),
    pytest.mark.filterwarnings("ignore:the most reliable of these paths"),
]

KINDS = [
    *(("min_plus", dtype) for dtype in ("float16", "float32", "float64", "int16", "int32")),
    *(("max_plus", "float32"), ("max_min", "float32"), ("max_min", "uint8"), ("max_times", "float32")),
    ("boolean", "bool"),
]


@pytest.mark.parametrize(("name", "dtype"), KINDS)
def test_a_matrix_of_a_stack_has_the_paths_of_its_own_call(rng, cupy, name, dtype):
    for count, n in ((5, 1), (4, 24), (3, 64), (3, 65), (3, 100), (2, 128), (2, 129), (2, 200)):
        A = np.stack([matrix(rng, n, name, dtype, density=min(1, 4 / n)) for _ in range(count)])
        found = sr.best_paths(cupy.asarray(A), name)
        assert isinstance(found.predecessors, cupy.ndarray)
        for number in range(count):
            alone = sr.best_paths(cupy.asarray(A[number]), name)
            assert cupy.asnumpy(found.matrix[number]).tobytes() == cupy.asnumpy(alone.matrix).tobytes()
            trees = cupy.asnumpy(found.predecessors[number])
            np.testing.assert_array_equal(trees, cupy.asnumpy(alone.predecessors))
            if n <= 65 and dtype != "float16":
                check(name, A[number], cupy.asnumpy(found.matrix[number]), trees)


def test_arrays_of_paths(rng, cupy):
    A = np.stack([matrix(rng, 24, "min_plus", "float32", density=0.15) for _ in range(40)])
    found = sr.shortest_paths(cupy.asarray(A.reshape(8, 5, 24, 24)))
    vertices, lengths = found.to_array()
    assert isinstance(vertices, cupy.ndarray)
    assert vertices.shape == (8, 5, 24, 24, int(lengths.max()))
    assert vertices.dtype == lengths.dtype == np.int32
    pred, vertices, lengths = map(cupy.asnumpy, (found.predecessors, vertices, lengths))
    for (*index, i, j), length in np.ndenumerate(lengths):
        path = walk(pred[tuple(index)], i, j) if length else []
        assert vertices[(*index, i, j)].tolist() == [*path, *[-1] * (vertices.shape[-1] - length)]
    np.testing.assert_array_equal(lengths > 0, cupy.asnumpy(found.reachable))
    some = sr.shortest_paths(cupy.asarray(A), sources=[3, 0], targets=[5]).to_array(24)
    np.testing.assert_array_equal(cupy.asnumpy(some[1]), lengths.reshape(40, 24, 24)[:, [3, 0]][:, :, [5]])
    with pytest.raises(ShapeError, match="the longest path has"):
        found.to_array(2)
    found.predecessors[0, 0, 0, 3:5] = cupy.asarray([4, 3])
    with pytest.raises(ValueError, match="lead in a cycle"):
        found.to_array()
    assert sr.shortest_paths(cupy.ones((0, 3, 3))).to_array()[0].shape == (0, 3, 3, 0)


def test_signs_errors_and_hosts(rng, cupy):
    A = np.where(rng.random((20, 12, 12)) < 0.3, rng.normal(size=(20, 12, 12)), np.inf)
    A[:, np.tri(12, dtype=bool)] = np.inf
    found, host = sr.shortest_paths(cupy.asarray(A)), sr.shortest_paths(A)
    np.testing.assert_allclose(cupy.asnumpy(found.matrix), host.matrix, atol=1e-12)
    np.testing.assert_array_equal(cupy.asnumpy(found.to_array()[1]) > 0, host.to_array()[1] > 0)
    copied = sr.shortest_paths(A, device="cuda")
    assert isinstance(copied.to_array()[0], np.ndarray)
    A[17, 5, 4], A[17, 4, 5] = -1, 0.5
    with pytest.raises(NegativeCycleError, match=r"A\[17\] of the stack") as caught:
        sr.shortest_paths(cupy.asarray(A))
    assert caught.value.matrix == (17,)


def test_tensors_stay_on_their_device(rng, cupy):
    torch = pytest.importorskip("torch")
    A = torch.asarray(np.stack([matrix(rng, 9, "min_plus", "float32") for _ in range(3)])).cuda()
    for found in (sr.shortest_paths(A), sr.shortest_paths(A, sources=[1, 2])):
        vertices, lengths = found.to_array()
        assert vertices.device == lengths.device == A.device
        assert (vertices.dtype, vertices[0, 0].shape[0]) == (torch.int32, 9)
        assert type(found[1].matrix) is torch.Tensor
