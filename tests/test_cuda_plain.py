"""What the GPU backend decides in plain numbers: tiles, copies, rewritings. Needs neither a GPU nor CUTLASS."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

from semiring import CATALOGUE
from semiring.expressions import parse
from semiring.kernels.cuda import tiles
from semiring.kernels.cuda.layouts import Placement, is_nonnegative, on_pairs, without_neutral
from semiring.kernels.cuda.tiles import Tile, tile_for

TABLE = {name: tile for name, tile in vars(tiles).items() if isinstance(tile, Tile)}


def operation(text):
    return parse(text, ("x", "y"))


@pytest.mark.parametrize("name", TABLE)
def test_every_tile_of_the_table_is_valid(name):
    word_bytes = (8,) if name == "_WIDE" else (4, 8) if name == "_HEAVY" else (4,)
    assert all(TABLE[name].is_valid(size) for size in word_bytes)


def test_a_tile_covers_its_block_and_a_warp_its_part():
    """The rows and columns of the threads, by the formula of the kernel, are those of the tile, each once."""
    for name, tile in TABLE.items():
        vector = 16 // (8 if name == "_WIDE" else 4)
        covered = np.zeros((tile.tile_m, tile.tile_n), int)
        across = tile.tile_n // (4 * tile.thread_n)
        for thread in range(tile.threads):
            lane, warp = thread % 32, thread // 32
            row0 = warp // across * 8 * tile.thread_m + vector * (lane % 8)
            col0 = warp % across * 4 * tile.thread_n + vector * (lane // 8)
            rows = [row0 + i % vector + 8 * vector * (i // vector) for i in range(tile.thread_m)]
            columns = [col0 + j % vector + 4 * vector * (j // vector) for j in range(tile.thread_n)]
            covered[np.ix_(rows, columns)] += 1
        assert (covered == 1).all(), name


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"tile_m": 96}, "not whole warps of rows"),
        ({"thread_n": 6}, "no vectors of 16 bytes"),
        ({"tile_k": 3}, "k goes two at a time"),
        ({"stages": 1}, "nothing in flight"),
        ({"stages": 40}, "more shared memory than there is"),
        ({"min_blocks": 0}, "no block at all"),
        ({"tile_m": 1024, "tile_n": 1024}, "too many threads"),
    ],
)
def test_what_makes_a_tile_invalid(change, why):
    assert not replace(TABLE["_LARGE"], **change).is_valid(4), why


def test_shared_memory_is_counted_with_its_padding():
    assert Tile(64, 128, 16, 8, 8, 4, 3).shared_bytes(4) == 4 * 16 * (64 + 4 + 128 + 4) * 4


def test_a_tile_is_found_for_every_product():
    for word, lanes, nodes, rows, words, record in itertools.product(
        (4, 8), (1, 2, 32), (6, 8, 40), (1, 64, 10_000), (1, 64, 10_000), (False, True)
    ):
        if word == 8 and lanes > 1:
            continue
        assert tile_for(word, lanes, nodes, rows, words, record=record).is_valid(word)


# ------------------------------------------------------------------------------------------------- layouts


def placed(array):
    strides = tuple(stride // array.itemsize for stride in array.strides)
    return Placement(array.ctypes.data, array.shape, strides, array.itemsize)


def aligned(shape, dtype):
    """A C-ordered array whose first byte is a multiple of 256."""
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    memory = np.zeros(size + 256, np.uint8)
    start = -memory.ctypes.data % 256
    return memory[start : start + size].view(dtype).reshape(shape)


def test_how_an_operand_is_copied():
    matrix = aligned((64, 64), np.float32)
    assert placed(matrix).copy == "vector"
    assert placed(matrix[::-1]).copy == "vector"
    assert placed(matrix[::2, 4:60]).copy == "vector"
    assert placed(matrix[:, 1:61]).copy == "any"  # not on 16 bytes
    assert placed(matrix[:, :62]).copy == "any"  # not in whole 16 bytes
    assert placed(aligned((64, 62), np.float32)[:, :60]).copy == "any"  # the second row is not on 16 bytes
    assert placed(matrix.T).copy == "word"
    assert placed(matrix.T[:61, :7]).copy == "word"
    assert placed(matrix[::2, ::3]).copy == "any"
    assert placed(matrix[:, ::-1]).copy == "any"
    assert placed(aligned((64, 62), np.float64)).copy == "vector"  # two to 16 bytes


def test_how_an_operand_is_widened():
    matrix = aligned((64, 64), np.int16)
    assert placed(matrix).splat == "pieces"
    assert placed(matrix[:, 8:56]).splat == "pieces"
    assert placed(matrix[:, 1:57]).splat == "splat"
    assert placed(matrix[:, :62]).splat == "splat"
    assert placed(matrix.T).splat == "splat"
    assert placed(aligned((64, 64), np.int32)).splat == "splat"  # packed truth values: k counts bits


def test_pairs_are_whole_words():
    matrix = aligned((64, 64), np.float16)
    assert placed(matrix).holds_pairs
    assert placed(matrix[:, 2:62]).holds_pairs
    assert not placed(matrix[:, 1:61]).holds_pairs
    assert not placed(matrix[:, :61]).holds_pairs
    assert not placed(matrix.T).holds_pairs
    assert not placed(aligned((4, 63), np.float16)[:, :62]).holds_pairs


def test_when_a_product_is_transposed():
    matrix = aligned((64, 64), np.float32)
    assert not placed(matrix).column_major
    assert placed(matrix.T).column_major
    assert not placed(matrix.T[:1]).column_major
    assert placed(matrix.T).transposed == placed(matrix)


# ------------------------------------------------------------------------------------------------- rewritings


@pytest.mark.parametrize(
    ("add", "mul", "expected"),
    [
        ("min(x, y)", "x + y", True),
        ("max(x, y)", "x + y", True),
        ("min(x, y)", "x * y", True),  # 0 · ∞ sorts last, as a minimum wants it
        ("max(x, y)", "x * y", False),
        ("max(x, y)", "max(0, x + y - 1)", True),
        ("max(x, y)", "x + y - 1", False),
        ("max(x, y)", "x + -1.0", False),
        ("min(x, y)", "max(x, y)", True),
        ("x + y", "x * y", False),
        ("min(x, x + y)", "x + y", False),
    ],
)
def test_when_floats_may_be_compared_as_integers(add, mul, expected, rng):
    add, mul = operation(add), operation(mul)
    assert is_nonnegative(mul, add) is expected
    if expected:
        x, y = np.append(rng.random((2, 1000), np.float32), [[0, 0, np.inf], [0, np.inf, np.inf]], 1).astype(np.float32)
        values = np.broadcast_to(mul.evaluate({"x": x, "y": y}, np.dtype(np.float32)), x.shape)
        bits = values.astype(np.float32).view(np.int32)
        real = ~np.isnan(values)
        np.testing.assert_array_equal(np.argsort(values[real], kind="stable"), np.argsort(bits[real], kind="stable"))
        assert add.op == "min" or real.all()


def test_a_neutral_that_was_seen_is_left_out(rng):
    add, mul = (CATALOGUE["lukasiewicz"].add.expression, CATALOGUE["lukasiewicz"].mul.expression)
    shorter = without_neutral(add, mul, np.float32(0))
    assert shorter == operation("x + y - 1")
    c, x, y = rng.integers(0, 9, (3, 1000)) / 8
    total = {
        rule: add.evaluate({"x": c, "y": rule.evaluate({"x": x, "y": y}, np.dtype(float))}, np.dtype(float))
        for rule in (mul, shorter)
    }
    np.testing.assert_array_equal(total[mul], total[shorter])
    for kept_add, kept_mul in (("max(x, y)", "max(1, x + y)"), ("min(x, y)", "max(0, x + y)"), ("x + y", "max(0, x)")):
        assert without_neutral(operation(kept_add), operation(kept_mul), 0) == operation(kept_mul)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("max(x, y)", True), ("x ^ y", True), ("x + y", False), ("~x", False), ("min(x, 3)", False), ("x * y", False)],
)
def test_which_operations_bytes_do_on_wider_integers(text, expected, rng):
    assert on_pairs(operation(text)) is expected
    if expected:
        x, y = rng.integers(0, 256, (2, 1000)).astype(np.uint8)
        narrow = operation(text).evaluate({"x": x, "y": y}, np.dtype(np.uint8))
        wide = operation(text).evaluate({"x": x.astype(np.int16), "y": y.astype(np.int16)}, np.dtype(np.int16))
        np.testing.assert_array_equal(narrow, wide)
