"""Test the tiles, copies and rewritings that the GPU backend chooses. Needs neither a GPU nor CUTLASS."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from cuda_on_host import aligned_array, to_device

from semiring import CATALOGUE
from semiring.algebra.expressions import parse
from semiring.errors import DeviceError
from semiring.kernels import code_store, sources
from semiring.kernels.cuda.product import cubins, tiles
from semiring.kernels.cuda.product.calls import (
    Placement,
    call_for,
    drop_neutral,
    format_of,
    is_nonnegative,
    pieces,
    selects_bits,
)
from semiring.kernels.cuda.product.specification import Fold, WordFormat, numpy_dtype
from semiring.kernels.cuda.product.tiles import Tile, parts_for, tile_for
from semiring.kernels.engine import make_plan

TABLE = {name: tile for name, tile in vars(tiles).items() if isinstance(tile, Tile)}


def operation(text):
    return parse(text, ("x", "y"))


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
    ("change", "reason"),
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
def test_what_makes_a_tile_invalid(change, reason):
    assert not replace(TABLE["_LARGE"], **change).is_valid(4), reason


FORMATS = [
    *(WordFormat(dtype) for dtype in ("float32", "float64", "int32", "int64", "uint8", "float16", "bfloat16")),
    *(WordFormat(dtype, 2) for dtype in ("int16", "float16", "bfloat16")),
    WordFormat("int32", 32),
]


def test_a_tile_is_found_for_every_product():
    for words, nodes, rows, columns, matrices, record in itertools.product(
        FORMATS, (6, 8, 40), (1, 64, 10_000), (1, 64, 10_000), (1, 100_000), (False, True)
    ):
        assert tile_for(words, nodes, rows, columns, matrices=matrices, record=record).is_valid(words.word_bytes)


def test_the_parts_of_k_cover_it_and_fill_the_gpu_at_most_once():
    for words, nodes, rows, columns, inner in itertools.product(
        FORMATS, (6, 8, 40), (1, 64, 65, 1024, 8192), (1, 128, 1000, 8192), (1, 255, 256, 385, 8192, 1_000_003)
    ):
        parts, part = parts_for(words, nodes, rows, columns, inner)
        assert (parts - 1) * part < inner <= parts * part
        if parts > 1:
            assert part % 32 == 0
            assert part >= 128
            tile = tile_for(words, nodes, rows, columns)
            assert parts * tile.count(rows, columns) <= 132 * tile.min_blocks
    float32 = WordFormat("float32")
    assert parts_for(float32, 6, 64, 8192, 8192) == (4, 2048)
    assert parts_for(float32, 6, 1024, 1024, 1024) == (1, 1024)


@pytest.mark.parametrize("words", FORMATS, ids=str)
def test_words_hold_their_elements(words):
    assert words.word_bytes == 8 if words.dtype in ("float64", "int64") else 4
    if words.has_bits:
        assert (words.constant(True), words.constant(False)) == (-1, 0)
        return
    one = np.asarray(words.constant(1), words.numpy_word)
    if words.lanes == 2:
        np.testing.assert_array_equal(one.reshape(1).view(words.element_dtype), np.ones(2, words.element_dtype))
    else:
        assert one == 1


# ------------------------------------------------------------------------------------------------- layouts


def placement(array):
    return Placement.of(to_device(array))


FLOATS, SHORTS, HALVES = (aligned_array((64, 64), dtype) for dtype in (np.float32, np.int16, np.float16))
STACK, SHORT_STACK = aligned_array((5, 64, 64), np.float32), aligned_array((5, 64, 64), np.int16)
UNEVEN = np.lib.stride_tricks.as_strided(SHORT_STACK, (5, 32, 32), (2 * 2049, 128, 2))


@pytest.mark.parametrize(
    ("array", "kind", "expected"),
    [
        (FLOATS, "copy", "vector"),
        (FLOATS[::-1], "copy", "vector"),
        (FLOATS[::2, 4:60], "copy", "vector"),
        (FLOATS[:, 1:61], "copy", "any"),  # not on 16 bytes
        (FLOATS[:, :62], "copy", "any"),  # not in whole 16 bytes
        (aligned_array((64, 62), np.float32)[:, :60], "copy", "any"),  # the second row is not on 16 bytes
        (FLOATS.T, "copy", "word"),
        (FLOATS.T[:61, :7], "copy", "word"),
        (FLOATS[::2, ::3], "copy", "any"),
        (FLOATS[:, ::-1], "copy", "any"),
        (aligned_array((64, 62), np.float64), "copy", "vector"),  # two to 16 bytes
        (STACK, "copy", "vector"),
        (STACK.swapaxes(1, 2), "copy", "word"),
        (aligned_array((5, 61, 64), np.float32)[:, :, :60], "copy", "vector"),
        (aligned_array((64, 5, 66), np.float32).swapaxes(0, 1)[:, :, :64], "copy", "any"),  # the second on 8 bytes
        (SHORTS, "splat", "pieces"),
        (SHORTS[:, 8:56], "splat", "pieces"),
        (SHORTS[:, 1:57], "splat", "splat"),
        (SHORTS[:, :62], "splat", "splat"),
        (SHORTS.T, "splat", "splat"),
        (SHORT_STACK, "splat", "pieces"),
        (UNEVEN, "splat", "splat"),
        (aligned_array((64, 64), np.int32), "splat", "splat"),  # packed truth values: k counts bits
        (HALVES, "holds_pairs", True),
        (HALVES[:, 2:62], "holds_pairs", True),
        (HALVES[:, 1:61], "holds_pairs", False),
        (HALVES[:, :61], "holds_pairs", False),
        (HALVES.T, "holds_pairs", False),
        (aligned_array((4, 63), np.float16)[:, :62], "holds_pairs", False),
        (SHORT_STACK, "holds_pairs", True),
        (UNEVEN, "holds_pairs", False),
        (FLOATS, "is_column_major", False),
        (FLOATS.T, "is_column_major", True),
        (FLOATS.T[:1], "is_column_major", False),
        (STACK, "step", 4096),
        (STACK[::2], "step", 8192),
        (np.broadcast_to(STACK[0], (9, 64, 64)), "step", 0),
    ],
)
def test_how_an_operand_lies(array, kind, expected):
    """Which copies and words a kernel can use, and how far apart the matrices of a stack are."""
    assert getattr(placement(array), kind) == expected


def test_other_readings_of_an_operand():
    assert (placement(STACK).count, placement(STACK).shape) == (5, (64, 64))
    pairs = placement(SHORT_STACK).as_pairs
    assert (pairs.step, pairs.shape, pairs.itemsize) == (2048, (64, 32), 4)
    assert placement(FLOATS.T).transposed == placement(FLOATS)


def test_what_no_kernel_can_read_is_refused():
    """An element at an address that its size does not divide ends the work of a process on a GPU."""
    memory = aligned_array((400,), np.uint8)
    records = np.zeros(5, [("weight", np.float64), ("kind", np.int32)])["weight"]  # 12 bytes apart
    for array in (memory[1:-7].view(np.float64).reshape(7, 7), records[:, None]):
        with pytest.raises(DeviceError, match="addresses that 8, their size in bytes, does not divide"):
            placement(array)
    assert placement(memory[8:].view(np.float64).reshape(7, 7)).address == 8


def test_pieces_cover_a_product():
    for rows, columns, inner in ((1, 1, 1), (7, 3, 5), (6, 3, 12), (4, 8, 1)):
        covered = np.zeros((rows, columns, inner), int)
        for i, j, k in pieces(rows, columns, inner, 4):
            part = covered[i, j, k]
            assert max(part.shape) <= 4
            assert covered[i, j, : k.start].all(), "k in its order"
            part += 1
        assert (covered == 1).all()
    assert list(pieces(3, 1 << 30, 5)) == [(slice(0, 1 << 30),) * 3]


# ------------------------------------------------------------------------------------------------- rewritings


@pytest.mark.parametrize(
    ("add", "mul", "expected"),
    [
        ("min(x, y)", "x + y", True),
        ("max(x, y)", "x + y", True),
        ("min(x, y)", "x * y", True),  # 0 · ∞ sorts last, as a minimum needs it
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
    shorter = drop_neutral(add, mul, np.float32(0))
    assert shorter == operation("x + y - 1")
    c, x, y = rng.integers(0, 9, (3, 1000)) / 8
    total = {
        rule: add.evaluate({"x": c, "y": rule.evaluate({"x": x, "y": y}, np.dtype(float))}, np.dtype(float))
        for rule in (mul, shorter)
    }
    np.testing.assert_array_equal(total[mul], total[shorter])
    for kept_add, kept_mul in (("max(x, y)", "max(1, x + y)"), ("min(x, y)", "max(0, x + y)"), ("x + y", "max(0, x)")):
        assert drop_neutral(operation(kept_add), operation(kept_mul), 0) == operation(kept_mul)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("max(x, y)", True), ("x ^ y", True), ("x + y", False), ("~x", False), ("min(x, 3)", False), ("x * y", False)],
)
def test_which_operations_bytes_do_on_wider_integers(text, expected, rng):
    assert selects_bits(operation(text)) is expected
    if expected:
        x, y = rng.integers(0, 256, (2, 1000)).astype(np.uint8)
        narrow = operation(text).evaluate({"x": x, "y": y}, np.dtype(np.uint8))
        wide = operation(text).evaluate({"x": x.astype(np.int16), "y": y.astype(np.int16)}, np.dtype(np.int16))
        np.testing.assert_array_equal(narrow, wide)


# ------------------------------------------------------------------------------------------------- what is compiled


def row_major(m, n, itemsize):
    return Placement(0, (m, n), (n, 1), itemsize)


def choose_product(name, dtype, n=4096, **options):
    """Return the product and the tile for row-major operands of ``n`` words."""
    plan = make_plan(CATALOGUE[name], numpy_dtype(dtype), **options)
    call = call_for(plan, format_of(plan), accumulate=True)
    item = plan.dtype.itemsize if call.words.lanes == 2 else call.words.word_bytes
    C = row_major(n, n, call.words.word_bytes)
    return call.product(row_major(n, n, item), C, C), call.tile(C)


def test_what_differs_in_code_differs_in_its_key():
    products = [
        choose_product("min_plus", "float32"),
        choose_product("min_plus", "float32", nonnegative=True),
        choose_product("min_plus", "float32", n=1024),
        choose_product("min_plus", "float32", n=4095),
        choose_product("min_plus", "float64"),
        choose_product("max_plus", "float32"),
        choose_product("min_plus", "float16"),
        choose_product("min_plus", "bfloat16"),
        choose_product("min_plus", "int16"),
        choose_product("min_plus", "int16", nonnegative=True),
        choose_product("boolean", "bool", storage="bits"),
    ]
    assert len({repr(product) for product in products}) == len(products)
    assert choose_product("min_plus", "float32") == choose_product("min_plus", "float32")


def test_instructions_are_chosen_by_what_is_known():
    product, tile = choose_product("min_plus", "float32", nonnegative=True)
    assert (product.ordered_bits, product.copy_a, product.copy_b, tile) == (True, "word", "vector", TABLE["_LARGE"])
    assert not choose_product("min_plus", "float32")[0].ordered_bits
    assert not choose_product("max_times", "float32", nonnegative=True)[0].ordered_bits  # 0 · ∞ is NaN, and sorts last
    assert choose_product("lukasiewicz", "float32")[0].mul == "x + y - 1"
    assert choose_product("plus_times", "float32")[0].contract
    assert choose_product("min_plus", "int16", nonnegative=True)[0].copy_a == "pieces"
    assert "where" in choose_product("min_plus", "int32")[0].mul  # the sentinel, unless the facts keep it apart
    assert choose_product("min_plus", "int32", nonnegative=True)[0].mul == "x + y"


@pytest.fixture
def builds(tmp_path, monkeypatch):
    """Record each request to the compiler, which returns the request as the binary."""
    asked = []

    def build(what, tile, target):
        asked.append((what, tile, target))
        return "kernel", repr(asked[-1]).encode()

    monkeypatch.setenv("SEMIRING_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(cubins, "build", build)
    return asked


def test_machine_code_is_compiled_once(builds, tmp_path, monkeypatch):
    product, tile = choose_product("min_plus", "float32")
    first = cubins.cubin(product, tile, "sm_90a")
    assert cubins.cubin(product, tile, "sm_90a") == first
    assert len(builds) == 1
    fold = Fold("min(x, y)", product.words, True)
    for other in ((product, tile, "sm_80"), (product, TABLE["_SMALL"], "sm_90a"), (fold, None, "sm_90a")):
        assert cubins.cubin(*other)[1] == repr(other).encode()
    assert len(builds) == len(list(tmp_path.glob("*.kernel"))) == 4
    monkeypatch.setattr(cubins, "fingerprint", lambda: "another version")
    cubins.cubin(product, tile, "sm_90a")
    assert len(builds) == 5


def test_a_damaged_entry_is_a_miss(builds, tmp_path):
    product, tile = choose_product("min_plus", "float32")
    right = cubins.cubin(product, tile, "sm_90a")
    (entry,) = tmp_path.glob("*.kernel")
    content = entry.read_bytes()
    for damaged in (content[:40], b"", content[:-1] + bytes([content[-1] ^ 1]), content + b"x"):
        entry.write_bytes(damaged)
        assert cubins.cubin(product, tile, "sm_90a") == right
    assert len(builds) == 5
    code_store.save(cubins.fingerprint(), f"{product!r}\n{tile!r}\nsm_90a", ["no kernel"])  # whole, but not ours
    assert cubins.cubin(product, tile, "sm_90a") == right
    assert len(builds) == 6


def test_the_versions_of_the_compiler_are_part_of_every_key(monkeypatch):
    before = cubins.fingerprint()
    monkeypatch.setattr(cubins.metadata, "version", lambda package: "another")
    cubins._versions.cache_clear()
    try:
        assert cubins.fingerprint() != before
    finally:
        cubins._versions.cache_clear()


def test_no_source_of_machine_code_is_forgotten():
    """The key covers the modules of its own folder that the compiler imports, and the expressions of the kernels."""
    found = set(sources.find_sources([cubins.__name__]))
    for name in ("gemm", "k_reductions", "lower", "shared_memory", "specification", "tiles"):
        assert f"semiring.kernels.cuda.product.{name}" in found
    assert {f"semiring.algebra.expressions.{name}" for name in ("tracing", "tree")} <= found
