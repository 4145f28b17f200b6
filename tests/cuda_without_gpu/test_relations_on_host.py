"""Test the kernels that follow the edges of packed bits, run on the host (`cuda_on_host`), against NumPy."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from cuda_on_host import HostKernels, needs_compiler
from machine_code import compile_for, needs_nvrtc

from semiring import pack
from semiring.kernels.cuda import closing

SOURCE = Path(closing.__file__).with_name("relations.cu").read_text("utf-8")
SIZES = (1, 31, 32, 33, 70, 257)
pytestmark = [needs_compiler, pytest.mark.full]


@pytest.fixture(scope="module", params=[1, 4])
def kernels(request):
    return request.param, HostKernels(f"#define ROWS {request.param}\n{SOURCE}")


def padded(A):
    """Return the words of a matrix in wider rows, with poison beyond them."""
    words = pack(A).words
    whole = np.full((len(words), words.shape[1] + 3), 0xA5A5A5A5, np.uint32)
    whole[:, : words.shape[1]] = words
    return whole, (whole, np.int64(whole.shape[1]), np.int32(words.shape[1]))


def vertices(mask):
    return pack(mask[None]).words[0].copy()


def members(words, n):
    return np.unpackbits(words.view(np.uint8), bitorder="little")[:n].astype(bool)


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("density", [0.02, 0.5])
def test_edges_and_sweeps(n, density, kernels, rng):
    _, host = kernels
    A = rng.random((n, n)) < density
    whole, where = padded(A)
    np.fill_diagonal(A, False)
    for upper in (False, True):
        if upper:
            A = np.triu(A, 1)
            whole[:, : pack(A).words.shape[1]] = pack(A).words
        degrees, backward = np.zeros(n, np.uint32), np.zeros(1, np.uint32)
        host.launch("out_degrees", (n, 1, 1), (64, 1, 1), [*where, degrees, backward])
        np.testing.assert_array_equal(degrees, A.sum(1))
        assert bool(backward[0]) == bool(np.tril(A).any())
        starts = np.concatenate([[0], np.cumsum(degrees)]).astype(np.uint32)
        heads, entering = np.full(max(1, A.sum()), -1, np.int32), np.zeros(n, np.uint32)
        host.launch("list_edges", (n, 1, 1), (64, 1, 1), [*where, starts[:-1].copy(), heads, entering])
        np.testing.assert_array_equal(entering, A.sum(0))
        for row in range(n):
            np.testing.assert_array_equal(np.sort(heads[starts[row] : starts[row + 1]]), np.flatnonzero(A[row]))
        for rounds in (1, 3, n):
            order, count, left = np.full(n, -1, np.int32), np.zeros(1, np.uint32), entering.copy()
            sizes = [np.int32(n), np.int32(rounds)]
            host.launch("peel", (1, 1, 1), (64, 1, 1), [starts, heads, left, order, count, *sizes])
            found = order[: count[0]]
            place = np.full(n, n)
            place[found] = np.arange(len(found))
            assert len(np.unique(found)) == len(found)
            assert all((place[np.flatnonzero(A[:, vertex])] < place[vertex]).all() for vertex in found)
            assert not upper or rounds < n or len(found) == n
    chosen, asked = rng.random(n) < 0.2, rng.random(n) < 0.6
    to = np.zeros_like(vertices(chosen))
    grid = 1, -(-len(to) // 2), 1
    host.launch("sweep_along", grid, (64, 1, 1), [*where, vertices(chosen), to, np.int32(2)])
    np.testing.assert_array_equal(members(to, n), A[chosen].any(0))
    to[:] = 0
    host.launch("sweep_against", (n, 1, 1), (64, 1, 1), [*where, vertices(chosen), vertices(asked), to])
    np.testing.assert_array_equal(members(to, n), A[:, chosen].any(1) & asked)


@pytest.mark.parametrize("n", SIZES)
def test_moved_and_filled_columns(n, kernels, rng):
    rows, host = kernels
    A, order = rng.random((n, n)) < 0.3, rng.permutation(n)
    whole, (_, stride, width) = padded(A)
    memory = np.full(32 * width + 4, n, np.int32)
    places = memory[-memory.ctypes.data % 16 // 4 :][: 32 * width]
    places[:n] = order
    host.launch("move_columns", (-(-n // rows), 1, 1), (64, 1, 1), [whole, stride, np.int32(n), width, places])
    np.testing.assert_array_equal(whole[:, :width], pack(A[:, order]).words)
    A = rng.random((n, n)) < 0.02
    for start, stop in ((0, n), (n // 3, n // 3 + 1), (n // 3, max(n // 3 + 1, n - 5))):
        whole, _ = padded(A)
        host.launch("fill_columns", (n, 1, 1), (64, 1, 1), [whole, stride, np.int32(start), np.int32(stop)])
        expected = A.copy()
        expected[A[:, start:stop].any(1), start:stop] = True
        np.testing.assert_array_equal(whole[:, :width], pack(expected).words)
        assert (whole[:, width:] == 0xA5A5A5A5).all()


@needs_nvrtc
@pytest.mark.parametrize("rows", [1, 2, 4, 8])
def test_they_compile_for_a_gpu(rows):
    _, log = compile_for("sm_90", SOURCE, ("--std=c++17", f"-DROWS={rows}"))
    assert "spill" in log
    assert " 0 bytes spill stores" in log
