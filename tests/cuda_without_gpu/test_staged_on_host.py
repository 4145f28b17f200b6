"""Test the closures in CUDA C++, run on the host, against the reference, threads and blocks in both orders."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from cuda_on_host import HostKernels, aligned_array, needs_compiler
from operands import entries, laid_out, nilpotent, pack_words, to_kernel_form
from tiers import full
from variants import ALL_STEPS, VARIANTS, kernel_with

from semiring import CATALOGUE, Semiring
from semiring.algorithms.methods import method_named
from semiring.kernels.cuda.closing.blocks import block_kernel
from semiring.kernels.cuda.closing.kernel_text import arithmetic_of, source
from semiring.kernels.cuda.closing.look_ahead import FILE, LookAheadTiles
from semiring.kernels.cuda.closing.paper_kernels import METHODS, Closing, count_launches
from semiring.kernels.engine import make_plan
from semiring.kernels.reference import ReferenceBackend

pytestmark = needs_compiler


def strides(array):
    return np.int64(array.strides[0] // array.itemsize), np.int64(array.strides[1] // array.itemsize)


def close(kernels, kernel, A, n, first, backwards):
    """Call `close_block` as the launcher does, and return the status word."""
    word = np.array([-1], np.int32)
    arguments = (A, *strides(A), np.int32(n), word, np.uint32(first), np.int64(0))
    kernels.launch("close_block", (1, 1, 1), kernel.threads, arguments, backwards=backwards)
    return int(word[0])


def matrix(rng, name, dtype, n):
    """Return a matrix whose closure exists: acyclic, or with cycles that do not improve."""
    if CATALOGUE[name].idempotent:
        return to_kernel_form(entries(rng, name, dtype, (n, n), tame=True), name)
    return to_kernel_form(nilpotent(rng, name, dtype, n), name)


#: Blocks of the full tier: every kernel, one padded and one filled, without ⊕ that selects, of bits.
CLOSED = [
    *(("min_plus", n) for n in (29, 64, 105, 128, 131)),
    ("max_plus", 103),
    ("plus_times", 40),
    ("boolean", 61),
    ("xor_and", 61),
]


@pytest.mark.full
@pytest.mark.parametrize(
    ("name", "dtype", "n"),
    full(
        lambda name, dtype, n: (name, n) in CLOSED,
        [
            *(("min_plus", "float32", n) for n in (1, 29, 64, 65, 104, 105, 128)),
            ("max_plus", "int32", 103),
            ("max_min", "int32", 127),
            ("min_plus", "float32", 64),
            ("min_plus", "float64", 127),
            ("min_plus", "int16", 65),
            ("max_plus", "int64", 33),
            ("min_times", "float64", 1),
            ("max_times", "float32", 31),
            ("lukasiewicz", "float32", 32),
            ("log_plus", "float64", 7),
            ("plus_times", "float64", 40),
            ("max_min", "uint8", 33),
            ("xor_and", "uint8", 21),
            ("boolean", "bool", 61),
            ("xor_and", "bool", 61),
            ("min_plus", "float32", 131),  # beyond the registers
            ("plus_times", "float32", 129),
        ],
    ),
)
def test_close_block(name, dtype, n, rng):
    semiring = CATALOGUE[name]
    plan = make_plan(semiring, dtype, nonnegative=name == "min_plus" and n % 2 == 1)
    chosen = block_kernel(n, arithmetic_of(plan))
    kernels = HostKernels(source(chosen.file, arithmetic_of(plan), chosen.defines))
    A = matrix(rng, name, dtype, n)
    expected = A.copy()
    ReferenceBackend().close_block(replace(plan), expected)
    for backwards, layout in ((False, "rows"), (True, "strided")):
        found = laid_out(A, layout)
        assert close(kernels, chosen, found, n, 0, backwards) == -1
        np.testing.assert_allclose(found, expected, rtol=1e-5 if plan.dtype.itemsize == 4 else 1e-13)


@pytest.mark.full
@pytest.mark.parametrize("name", ["boolean", "xor_and"])
def test_close_block_of_packed_bits(name, rng):
    plan = make_plan(CATALOGUE[name], "bool", storage="bits")
    chosen = block_kernel(70, arithmetic_of(plan))
    kernels = HostKernels(source(chosen.file, arithmetic_of(plan), chosen.defines))
    for n in (1, 33, 70):
        A = rng.random((n, n)) < 1.5 / n if name == "boolean" else nilpotent(rng, name, "bool", n)
        words = pack_words(A, 1)
        expected = pack_words(A)
        ReferenceBackend().close_block(plan, expected)
        for backwards in (False, True):
            found = words.copy()
            assert close(kernels, chosen, found, n, 0, backwards) == -1
            np.testing.assert_array_equal(found, expected)


@pytest.mark.full
@pytest.mark.parametrize(
    ("name", "dtype", "loop", "n"),
    [("min_plus", "float32", -1, 30), ("min_plus", "float32", -1, 127), ("xor_and", "bool", True, 30)],
)
def test_a_pivot_without_a_star_is_named(name, dtype, loop, n):
    plan = make_plan(CATALOGUE[name], dtype)
    chosen = block_kernel(n, arithmetic_of(plan))
    kernels = HostKernels(source(chosen.file, arithmetic_of(plan), chosen.defines))
    for vertex in (11, n // 2, n - 1):
        A = np.full((n, n), plan.zero, dtype)
        A[vertex, vertex] = A[n - 1, n - 1] = loop
        assert close(kernels, chosen, A, n, 100, False) == 100 + vertex
    if name == "min_plus":  # only the second pivot of a pair closes the cycle
        A = np.full((n, n), plan.zero, dtype)
        A[4, 5], A[5, 4] = 1, -2
        assert close(kernels, chosen, A, n, 100, False) == 105


# ------------------------------------------------------------------------------------------------- whole closures


class LookAhead:
    """The one launch of `semiring.kernels.cuda.closing.look_ahead`, written down again for the host."""

    def __init__(self, arithmetic, shape):
        self.shape, self.kernels = shape, HostKernels(source(FILE, arithmetic, shape.defines))

    def close(self, A, backwards, blocks=3):
        """Close A (n, n), n a multiple of the tile, and return the status word."""
        n, stride, word = len(A), np.int64(A.strides[0] // A.itemsize), np.array([-1], np.int32)
        barrier, aside = np.zeros(3, np.uint32), np.empty(4 * 64 * 64, A.dtype)
        workers = self.shape.tiles(n) if self.shape.is_in_registers else blocks
        arguments = (A, stride, np.int32(n), np.int32(n // 64), word, np.uint32(0), barrier, aside)
        order = {"backwards": backwards, "cooperative": True}
        self.kernels.launch("all_stages", (workers + 1, 1, 1), (self.shape.threads, 1, 1), arguments, **order)
        assert not (barrier[:2] & 0x7FFFFFFF).any()  # ready for the next launch
        return int(word[0])


TILED = [variant for variant in VARIANTS if kernel_with(variant).tile > 1]


class Paper:
    """A kernel of `semiring.kernels.cuda.closing.paper_kernels`, its launches as they are, on the host."""

    def __init__(self, variant, arithmetic):
        self.kernel = kernel_with(variant)
        self.kernels = HostKernels(source(self.kernel.file, arithmetic, self.kernel.defines), races=True)

    def close(self, A, backwards, blocks=3):
        """Close A (n, n), n a multiple of the tile. Return the number of launches, which have no races."""
        count = 0

        def launch(name, grid, threads, *arguments):
            nonlocal count
            count += 1
            converted = [np.int32(x) if isinstance(x, int) else x for x in arguments]
            sizes = (*grid, 1, 1)[:3], (*threads, 1, 1)[:3]
            assert not self.kernels.launch(name, *sizes, converted, backwards=backwards)

        def empty(size):  # vectors of 16 bytes begin at their multiples
            return aligned_array(size, A.dtype).view(np.ndarray)

        resident = lambda name, threads: blocks  # noqa: E731
        self.kernel.launch_all(
            Closing(launch, A, self.kernel.tile, resident, empty, self.kernel.threads, self.kernel.last_threads)
        )
        return count


@pytest.mark.full
@pytest.mark.parametrize(
    ("name", "dtype", "n", "shape"),
    [
        ("min_plus", "float32", 256, LookAheadTiles(128, 64, False)),
        ("min_plus", "float32", 256, LookAheadTiles(128, 64, True, is_narrow=True)),
        ("min_plus", "int32", 256, LookAheadTiles(128, 128, True)),
        *(
            pytest.param(*case, marks=pytest.mark.exhaustive)
            for case in (
                ("min_plus", "float32", 128, LookAheadTiles(128, 64, False)),
                ("min_plus", "float32", 256, LookAheadTiles(128, 64, True)),
                ("min_plus", "float32", 256, LookAheadTiles(128, 128, False)),
                ("min_plus", "float32", 512, LookAheadTiles(256, 128, True)),
                ("min_plus", "int32", 384, LookAheadTiles(192, 128, True)),
                ("max_times", "float64", 128, LookAheadTiles(128, 64, True)),
                ("max_min", "int16", 128, LookAheadTiles(64, 64, False)),
                ("boolean", "bool", 256, LookAheadTiles(128, 64, True)),
            )
        ),
    ],
)
def test_look_ahead(name, dtype, n, shape, rng):
    plan = make_plan(CATALOGUE[name], dtype, nonnegative=name == "min_plus")
    closing = LookAhead(arithmetic_of(plan), shape)
    check_closing(closing, plan, to_kernel_form(entries(rng, name, dtype, (n, n), tame=True), name), plan.zero, -1, rng)


@pytest.mark.full
@pytest.mark.parametrize(
    ("variant", "name", "dtype", "n"),
    [
        (("harish_narayanan", {}), "min_plus", "float32", 33),
        (("buluc_iterative", {}), "max_min", "float64", 65),
        (("bertoldi_cuda_shared", {}), "min_plus", "int32", 31),
        (("bertoldi_cuda", {}), "min_plus", "float32", 33),
        (("bertoldi_cuda", {"threads": 32}), "max_min", "int16", 70),
        *((variant, "min_plus", "float32", 96) for variant in TILED),
        *((("lund_smith", options), "max_times", "float64", 64) for options in ({"wide": True}, ALL_STEPS)),
        *((("lund_smith", {name: True}), "max_min", "int16", 64) for name in ("wide", "asynchronous")),
        (("lund_smith", ALL_STEPS), "boolean", "bool", 64),
        *(
            pytest.param(variant, name, dtype, 64, marks=pytest.mark.exhaustive)
            for variant in TILED
            for name, dtype in (("boolean", "bool"), ("max_times", "float64"), ("max_min", "int16"))
        ),
    ],
    ids=str,
)
def test_the_kernels_of_papers(variant, name, dtype, n, rng):
    plan = make_plan(CATALOGUE[name], dtype, nonnegative=name == "min_plus")
    A = to_kernel_form(entries(rng, name, dtype, (n, n), tame=True), name)
    check_closing(Paper(variant, arithmetic_of(plan)), plan, A, plan.one, count_launches(variant[0], n), rng)


def check_closing(closing, plan, A, diagonal, result, rng):
    """Check that threads and blocks in both orders make the closure, with equal rounded sums."""
    np.fill_diagonal(A, diagonal)
    expected = A.copy()
    ReferenceBackend().close_block(plan, expected)
    for backwards in (False, True):
        found = A.copy()
        assert closing.close(found, backwards) == result
        np.testing.assert_array_equal(found, expected)
    if plan.dtype == np.float32:
        A = rng.random(A.shape).astype(plan.dtype)
        np.fill_diagonal(A, plan.one)
        first, second = A.copy(), A.copy()
        closing.close(first, backwards=False)
        closing.close(second, backwards=True)
        assert first.tobytes() == second.tobytes()


@pytest.mark.full
@pytest.mark.parametrize(("name", "dtype"), [("min_plus", "float32"), ("plus_times", "float64"), ("max_min", "uint8")])
def test_the_plain_product(name, dtype, rng):
    """The plain product is right at sizes that tiles do not divide, and with any strides."""
    plan = make_plan(CATALOGUE[name], dtype)
    kernels = HostKernels(source("plain_product.cu", arithmetic_of(plan)), races=True)
    for m, k, n in ((1, 1, 1), (17, 33, 40), (32, 16, 5)):
        A, B, C = (rng.integers(0, 9, shape).astype(dtype) for shape in ((m, k), (k, n), (m, n)))
        expected = C.copy()
        ReferenceBackend().multiply_add(plan, expected, A, B)
        for layout in ("rows", "columns", "strided"):
            a, b, c = (laid_out(x, layout) for x in (A, B, C))
            sizes = (np.int32(m), np.int32(n), np.int32(k), *strides(c), *strides(a), *strides(b))
            grid = (-(-n // 16), -(-m // 16), 1)
            assert not kernels.launch("plain_product", grid, (16, 16, 1), (c, a, b, *sizes))
            np.testing.assert_array_equal(c, expected)


def test_launches_are_those_that_the_registry_says():
    """The cost of a method of a paper names its launches, for any n."""
    for name in METHODS:
        (text,) = re.findall(r"in (.*) launches", method_named(name).complexity)
        for n in (33, 256, 1000):
            stages = -(-n // 32)
            expected = {
                "n": n,
                "2 ⌈n/32⌉": 2 * stages,
                "3 ⌈n/32⌉": 3 * stages,
                "3 ⌈n/32⌉ + 2": 3 * stages + 2,
            }[text]
            assert count_launches(name, n) == expected == method_named(name).steps(n, 128)


@pytest.mark.full
def test_the_doubly_tiled_order(rng):
    """Staged load brings tiles of 32 x 32 behind each other, and in each of them tiles of 4 x 4, and back."""
    paper = Paper(("lund_smith", {}), arithmetic_of(make_plan(CATALOGUE["min_plus"], "int32", nonnegative=True)))
    n, stride = 96, np.int64(100)
    memory = np.arange(n * 100, dtype=np.int32).reshape(n, 100)
    A, T, back = memory[:, :n], np.zeros(n * n, np.int32), np.zeros_like(memory)
    grid, threads = (3, 3, 1), (256, 1, 1)
    paper.kernels.launch("to_tiles", grid, threads, [T, A, stride])
    tiles = A.reshape(3, 32, 3, 32).swapaxes(1, 2).reshape(9, 8, 4, 8, 4).swapaxes(2, 3)
    np.testing.assert_array_equal(T, tiles.ravel())
    paper.kernels.launch("from_tiles", grid, threads, [back, T, stride])
    np.testing.assert_array_equal(back[:, :n], A)
    assert not back[:, n:].any()


@pytest.mark.full
def test_look_ahead_names_a_pivot_without_a_star():
    plan = make_plan(CATALOGUE["min_plus"], "float32")
    A = np.full((256, 256), np.inf, np.float32)
    A[70, 70] = A[100, 100] = -1
    assert LookAhead(arithmetic_of(plan), LookAheadTiles(128, 64, False)).close(A, backwards=False) == 70


@pytest.mark.full
@pytest.mark.parametrize(
    ("shape", "workers"),
    full(
        lambda shape, workers: shape == LookAheadTiles(128, 64, True),
        [  # of a matrix of 256: fewer blocks than tiles, more, and one for each tile
            (LookAheadTiles(128, 64, False), (3, 12, 3)),
            (LookAheadTiles(128, 64, True), (8, 11)),
            (LookAheadTiles(128, 128, True), (4, 4)),
        ],
    ),
)
def test_blocks_of_look_ahead_read_nothing_that_others_write(shape, workers, rng):
    """Blocks in random order read no foreign writes, with words of other grids' launches and a last stage of padding.

    Streamed tiles read the pivot block that the last thread block closes with the blocks around it, and discard it.
    """
    plan, n = make_plan(CATALOGUE["min_plus"], "float32", nonnegative=True), 256
    kernels = HostKernels(source(FILE, arithmetic_of(plan), shape.defines), races=True)
    words, aside = np.zeros(3, np.uint32), np.empty(4 * 64 * 64, np.float32)
    for seed, count in enumerate(workers, start=1):
        stages = 3 + seed % 2
        A = np.full((n, n), np.inf, np.float32)
        inner = A[: 64 * stages, : 64 * stages]
        inner[...] = to_kernel_form(entries(rng, "min_plus", "float32", inner.shape, tame=True), "min_plus")
        expected, word = inner.copy(), np.array([-1], np.int32)
        ReferenceBackend().close_block(plan, expected)
        sizes = np.int64(n), np.int32(n), np.int32(stages)
        arguments = (A, *sizes, word, np.uint32(0), words, aside)
        grid, threads = (count + 1, 1, 1), (shape.threads, 1, 1)
        races = kernels.launch("all_stages", grid, threads, arguments, cooperative=True, seed=seed)
        np.testing.assert_array_equal(inner, expected)
        assert word[0] == -1
        assert not (words[:2] & 0x7FFFFFFF).any()
        found = {(array, e // n // 64, e % n // 64, by == count, is_write) for array, e, is_write, by, _ in races}
        discarded = {(0, L, L, chain, chain) for L in range(1, stages) for chain in (False, True)}
        assert found <= (set() if shape.is_in_registers else discarded)


RACES = """
extern "C" __global__ void shift(int *A) { A[blockIdx.x] = A[blockIdx.x + 1]; }
extern "C" __global__ void count(int *A) {
    if (atomicAdd((unsigned *)A, 1) == 7) A[1] = 1;
}
extern "C" __global__ void hand_over(int *A, int ordered) {
    const bool first = blockIdx.x == 0;
    if (first) A[1] = 5;
    if (first && ordered) host::release(A);
    if (first) atomicAdd((unsigned *)A, 1);
    while (!*(volatile int *)A) host::let_others_run();
    if (ordered) host::acquire(A);
    if (!first) A[2] = A[1];
}
"""


@pytest.mark.full
def test_races_are_seen():
    """The host reports races of unordered blocks, and none of atomic operations or of blocks that wait for each
    other."""
    kernels = HostKernels(RACES, races=True)
    A, one = np.zeros(5, np.int32), (1, 1, 1)
    assert {race[:2] for race in kernels.launch("shift", (4, 1, 1), one, [A])} == {(0, 1), (0, 2), (0, 3)}
    assert not kernels.launch("count", (4, 1, 1), one, [A])
    for ordered in (True, False):
        A[:] = 0
        found = kernels.launch("hand_over", (2, 1, 1), one, [A, np.int32(ordered)], cooperative=True)
        assert A[2] == 5
        assert [race[:3] for race in found] == ([] if ordered else [(0, 1, False)])


@pytest.mark.full
def test_a_star_that_one_has_not(rng):
    """Cycles of length 0 raise here, because the closure must not begin with 1 on the diagonal."""
    strict = Semiring("strict", "min(x, y)", "x + y", "inf", 0, star="where(x > 0, 0, nan)")
    plan = make_plan(strict, "float32")
    closing = LookAhead(arithmetic_of(plan), LookAheadTiles(64, 64, False))
    A = rng.integers(1, 1000, (128, 128)).astype(np.float32)
    expected, found = A.copy(), A.copy()
    ReferenceBackend().close_block(plan, expected)
    assert closing.close(found, backwards=False) == -1
    np.testing.assert_array_equal(found, expected)
    A[...] = np.inf
    A[70, 100], A[100, 70] = 5, -5
    assert closing.close(A, backwards=False) == 100
