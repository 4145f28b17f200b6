"""Products and closures of packed boolean matrices against plain NumPy on whole numbers."""

from __future__ import annotations

import itertools

import llvmlite.ir as ir
import numpy as np
import pytest
from tiers import full, quick

import semiring as sr
from semiring.algorithms.rkleene import rkleene
from semiring.arrays.bits import BitMatrix, pack
from semiring.errors import AlgebraError, DTypeError, ShapeError
from semiring.kernels import get_backend
from semiring.kernels.contract import KernelPlan
from semiring.kernels.cpu import bit_loops as bits_vector
from semiring.kernels.cpu import bit_matrices as bits
from semiring.kernels.cpu.codegen.target import Target
from semiring.kernels.engine import Engine
from tools.machine_code import assembly

# The four semirings on bool: in other words too, and an oracle for each as (product of 0/1 matrices, sum with C).
AND_OR = sr.Semiring("and_or", "x & y", "max(x, y)", True, False, dtypes=("bool",))
XNOR_OR = sr.Semiring("xnor_or", "where(x == y, True, False)", "x | y", True, False, dtypes=("bool",))
LOGIC = sr.Semiring("logic", "~(~x & ~y)", "where(x < y, x, y)", False, True)
GALOIS = sr.Semiring("galois", "where(x != y, True, False)", "min(x, y)", False, True, dtypes=("bool",))


def or_and(C, A, B):
    return C | ((A.astype(np.int64) @ B.astype(np.int64)) > 0)


def xor_and(C, A, B):
    return (C + A.astype(np.int64) @ B.astype(np.int64)) % 2 == 1


def complement(oracle):
    return lambda C, A, B: ~oracle(~C, ~A, ~B)


ORACLES = {
    sr.boolean: or_and,
    sr.max_min: or_and,
    LOGIC: or_and,
    sr.xor_and: xor_and,
    GALOIS: xor_and,
    sr.min_max: complement(or_and),
    AND_OR: complement(or_and),
    XNOR_OR: complement(xor_and),
}
#: Columns of the left operand: no word, parts of words, and whole ones.
K = quick(lambda k: k == 33, full(lambda k: k in (0, 1, 32, 33, 65, 300), [0, 1, 31, 32, 33, 63, 64, 65, 127, 300]))
SEMIRINGS = pytest.mark.parametrize("semiring", ORACLES, ids=lambda semiring: semiring.name)


def make_plan(semiring, threads=1):
    zero, one = semiring.zero_for(np.bool_), semiring.one_for(np.bool_)
    return KernelPlan(semiring, np.dtype(np.bool_), zero, one, storage="bits", threads=threads)


def random_truths(rng, m, n, density=0.5):
    return rng.random((m, n)) < density


def check_product(semiring, a, b, c, threads=1):
    """Check both products against the oracle. The operands and the tail bits stay as they are."""
    A, B, C = pack(a), pack(b), pack(c)
    bits.multiply_add(make_plan(semiring, threads), C, A, B)
    np.testing.assert_array_equal(C.unpack(), ORACLES[semiring](c, a, b))
    BitMatrix(C.words, C.shape)
    C.words[...] = 0xDEADBEEF  # uninitialised
    bits.multiply(make_plan(semiring, threads), C, A, B)
    zero = np.full(c.shape, semiring.zero_for(np.bool_))
    np.testing.assert_array_equal(C.unpack(), ORACLES[semiring](zero, a, b))
    BitMatrix(C.words, C.shape)
    np.testing.assert_array_equal(A.unpack(), a)
    np.testing.assert_array_equal(B.unpack(), b)


@SEMIRINGS
@pytest.mark.parametrize("k", K)
def test_products_of_all_sizes(semiring, k, rng):
    for m, n in itertools.product((0, 1, 2, 9, 64), (0, 1, 31, 32, 33, 65, 511, 512, 513)):
        a, b, c = random_truths(rng, m, k), random_truths(rng, k, n), random_truths(rng, m, n)
        check_product(semiring, a, b, c)


@pytest.mark.full
@SEMIRINGS
def test_products_of_all_densities(semiring, rng):
    m, k, n = 70, 130, 600
    for left, right in itertools.product((0, 0.01, 0.5, 0.99, 1), repeat=2):
        a, b = random_truths(rng, m, k, left), random_truths(rng, k, n, right)
        check_product(semiring, a, b, random_truths(rng, m, n, left))


@pytest.mark.parametrize("semiring", [sr.boolean, sr.xor_and, AND_OR], ids=lambda semiring: semiring.name)
def test_every_entry_of_a_table_is_reached(semiring):
    """A has a row for each set of rows that a look-up can name, and one for each single row of B."""
    k, n = 128, 512
    sets = np.arange(1 << 10)
    a = np.zeros((sets.size + k, k), bool)
    for bit in range(10):
        a[: sets.size, 55 + bit] = sets >> bit & 1
    a[sets.size :] = np.eye(k, dtype=bool)
    b = np.random.default_rng(3).random((k, n)) < 0.1
    check_product(semiring, a, b, np.zeros((a.shape[0], n), bool))


@pytest.mark.parametrize("semiring", [sr.boolean, sr.xor_and, XNOR_OR], ids=lambda semiring: semiring.name)
def test_products_larger_than_every_block(semiring, rng):
    """There are more rows than a panel, and more k than are gathered at once. The inner product by floats is exact."""
    assert bits.MAX_ROWS < 4200
    a, b = random_truths(rng, 4200, 90, 0.02), random_truths(rng, 90, 70)
    check_product(semiring, a, b, random_truths(rng, 4200, 70), threads=2)
    a, b = random_truths(rng, 20, 4500, 0.001), random_truths(rng, 4500, 70)
    check_product(semiring, a, b, random_truths(rng, 20, 70, 0.1), threads=2)


@pytest.mark.parametrize("threads", [1, 2, 3, 8])
def test_results_do_not_depend_on_threads(threads, rng, monkeypatch):
    monkeypatch.setattr(bits, "TASK_PAIRS", 1)
    for m, k, n in [(1, 70, 3000), (300, 70, 40), (67, 130, 1100)]:
        a, b, c = random_truths(rng, m, k, 0.03), random_truths(rng, k, n), random_truths(rng, m, n)
        check_product(sr.boolean, a, b, c, threads)
        check_product(sr.xor_and, a, b, c, threads)


@pytest.mark.parametrize(
    ("m", "words", "threads"), list(itertools.product((1, 5, 4096, 9000), (1, 16, 17, 300), (1, 2, 3, 64)))
)
def test_parts_cover_the_result_once(m, words, threads):
    seen = np.zeros((m, words), np.int8)
    for row0, row1, word0, word1 in bits.cut_parts(m, words, threads):
        assert row1 - row0 <= bits.MAX_ROWS
        assert word0 % 16 == 0
        seen[row0:row1, word0:word1] += 1
    assert (seen == 1).all()


def test_words_of_a_larger_matrix_are_multiplied_in_place(rng):
    """Products of blocks of one matrix, as a recursion has them, leave rows and words beside C as they are."""
    whole = random_truths(rng, 160, 160, 0.05)
    packed = pack(whole)
    one, two = slice(0, 96), slice(96, 160)
    for semiring, oracle in ((sr.boolean, or_and), (sr.xor_and, xor_and)):
        bits.multiply_add(make_plan(semiring, 2), packed[two, two], packed[two, one], packed[one, two])
        whole[two, two] = oracle(whole[two, two], whole[two, one], whole[one, two])
        np.testing.assert_array_equal(packed.unpack(), whole)
    words = packed.words  # the same as plain words, which is what a backend's callers hold
    bits.multiply_add(make_plan(sr.boolean), words[0:96, 0:3], words[0:96, 3:5], words[96:160, 0:3])
    whole[one, one] = or_and(whole[one, one], whole[one, two], whole[two, one])
    np.testing.assert_array_equal(packed.unpack(), whole)


def test_any_strides_of_words(rng):
    a, b, c = random_truths(rng, 40, 96, 0.1), random_truths(rng, 96, 640), random_truths(rng, 40, 640)
    plan = make_plan(sr.boolean)
    expected = or_and(c, a, b)

    def reorder(words, step):
        """Return a view of the words with rows and columns far apart or backwards in memory."""
        store = np.zeros((3 * words.shape[0], 3 * words.shape[1]), np.uint32)
        view = store[::step, ::step][: words.shape[0], : words.shape[1]]
        view[...] = words
        return view

    for steps in itertools.product((1, 3, -2), repeat=3):
        A, B, C = (reorder(pack(x).words, step) for x, step in zip((a, b, c), steps, strict=True))
        A.flags.writeable = B.flags.writeable = False
        bits.multiply_add(plan, C, A, B)
        np.testing.assert_array_equal(BitMatrix(np.ascontiguousarray(C), c.shape).unpack(), expected)
    A, B, C = (np.asfortranarray(pack(x).words) for x in (a, b, c))
    bits.multiply_add(plan, C, A, B)
    np.testing.assert_array_equal(BitMatrix(np.ascontiguousarray(C), c.shape).unpack(), expected)


def test_operands_are_checked():
    plan, words = make_plan(sr.boolean), np.zeros((40, 2), np.uint32)
    with pytest.raises(ShapeError, match=r"A \(40, 2\), B \(40, 3\)"):
        bits.multiply(plan, words, words, np.zeros((40, 3), np.uint32))
    with pytest.raises(ShapeError, match=r"A \(40, 2\), B \(80, 2\)"):
        bits.multiply(plan, words, words, np.zeros((80, 2), np.uint32))
    with pytest.raises(DTypeError, match="words of uint64"):
        bits.multiply(plan, words, words, np.zeros((40, 2), np.uint64))
    with pytest.raises(ShapeError, match="square"):
        bits.close_block(plan, words[:, :1])


def test_only_what_keeps_the_laws_is_taken():
    assert all(bits.laws_of(semiring) for semiring in ORACLES)
    assert not bits.laws_of(sr.min_plus)
    lawless = sr.Semiring("lawless", "where(x < y, False, x)", "x & y", False, True, dtypes=("bool",))
    nothing = sr.Semiring("nothing", "x | y", "x & ~y", False, True, dtypes=("bool",))
    for semiring in (lawless, nothing):
        assert not bits.laws_of(semiring)
        with pytest.raises(AlgebraError, match="keep its laws"):
            bits.multiply(make_plan(semiring), *(np.zeros((32, 1), np.uint32),) * 3)


# ------------------------------------------------------------------------------------------------- closures

SIZES = (0, 1, 2, 31, 32, 33, 63, 64, 65, 100, 128, 129, 200, 511, 513, 700)


def warshall(a):
    reach = a | np.eye(a.shape[0], dtype=bool)
    for k in range(a.shape[0]):
        reach |= reach[:, k : k + 1] & reach[k : k + 1]
    return reach


@pytest.mark.full
@pytest.mark.parametrize("n", full(lambda n: n in (0, 1, 31, 33, 64, 65, 129, 513), SIZES))
def test_reachability_in_place(n, rng):
    for density in (0, 0.5 / max(n, 1), 1.2 / max(n, 1), 0.1, 1):
        a = random_truths(rng, n, n, density)
        A = pack(a)
        bits.close_block(make_plan(sr.boolean), A)
        np.testing.assert_array_equal(A.unpack(), warshall(a))
        BitMatrix(A.words, A.shape)
        A = pack(~a)
        bits.close_block(make_plan(sr.min_max), A)
        np.testing.assert_array_equal(A.unpack(), ~warshall(a))
        BitMatrix(A.words, A.shape)
        A = ~pack(a)
        bits.close_block(make_plan(sr.min_max), A.words)  # plain words: a square block has as many columns as rows
        assert pack(~warshall(a)) == A


def test_long_chains_close_whatever_the_order_of_their_vertices(rng):
    n = 333
    order = rng.permutation(n)
    a = np.zeros((n, n), bool)
    a[order[:-1], order[1:]] = True
    A = pack(a)
    bits.close_block(make_plan(sr.boolean), A)
    position = np.argsort(order)
    np.testing.assert_array_equal(A.unpack(), position[:, None] <= position[None, :])


@pytest.mark.full
@pytest.mark.parametrize("n", full(lambda n: n in (0, 1, 31, 33, 64, 65, 129, 513), SIZES))
def test_parity_closure_is_the_inverse_of_i_minus_a(n, rng):
    """If I - A = L·U with ones on both diagonals, no pivot of the elimination is 1, and every star exists."""
    lower, upper = (np.tril(random_truths(rng, n, n), -1) for _ in range(2))
    identity = np.eye(n, dtype=np.int64)
    a = (identity + (lower + identity) @ (upper.T + identity)) % 2 == 1
    A, plan = pack(a), make_plan(sr.xor_and)
    bits.close_block(plan, A)
    assert plan.status.diverged == -1
    star = A.unpack().astype(np.int64)
    np.testing.assert_array_equal((identity + a @ star) % 2, star)
    np.testing.assert_array_equal((identity + star @ a) % 2, star)
    BitMatrix(A.words, A.shape)


@pytest.mark.parametrize(
    ("edges", "named"),
    [
        *(([(pivot, pivot), (129, 129)], pivot) for pivot in (0, 5, 63, 64, 99, 129)),
        ([(3, 100), (100, 3)], 100),  # in different blocks: the second pivot is 0 ⊕ 1⊗1 when its turn comes
    ],
)
def test_the_first_pivot_without_a_star_is_named(edges, named):
    a, plan = np.zeros((130, 130), bool), make_plan(sr.xor_and)
    a[tuple(zip(*edges, strict=True))] = True
    bits.close_block(plan, pack(a))
    assert plan.status.diverged == named


def test_closures_of_views(rng):
    a = random_truths(rng, 200, 200, 0.01)
    packed = pack(a)
    bits.close_block(make_plan(sr.boolean), packed[64:160, 64:160])
    expected = a.copy()
    expected[64:160, 64:160] = warshall(a[64:160, 64:160])
    np.testing.assert_array_equal(packed.unpack(), expected)
    backwards = pack(a).words[::-1]
    backwards[...] = pack(a).words
    bits.close_block(make_plan(sr.boolean), backwards)
    np.testing.assert_array_equal(BitMatrix(backwards, (200, 200)).unpack(), warshall(a))


def test_a_closure_needs_a_star():
    starless = sr.Semiring("starless", "x ^ y", "x & y", 0, "~0", dtypes=("bool",))
    with pytest.raises(AlgebraError, match="starless has no star"):
        bits.close_block(make_plan(starless), BitMatrix.zeros((3, 3)))


# ------------------------------------------------------------------------------------------------- compiled code


def build_look_up(module, name):
    word = ir.IntType(64)
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), [word] * 4), name)
    builder = ir.IRBuilder(function.append_basic_block())
    bits_vector._look_up(builder, False, *function.args)
    builder.ret_void()


@pytest.mark.parametrize(
    ("target", "instruction"),
    [
        (Target("x86_64-unknown-linux-gnu", "znver4"), "vpternlog"),
        (Target("x86_64-unknown-linux-gnu", "haswell"), "ymm"),
        (Target("aarch64-unknown-linux-gnu", "neoverse-n1"), ".16b"),
    ],
)
def test_every_machine_gets_vector_code(target, instruction):
    code = assembly(build_look_up, target)
    assert instruction in code
    assert code.count("\n") < 250  # straight: nothing was split into words


@pytest.mark.parametrize("semiring", [sr.boolean, sr.xor_and], ids=lambda semiring: semiring.name)
def test_blocks_of_all_sizes_close_the_same_matrix(semiring, rng):
    """R-Kleene with small blocks, whose remaining work is in products, against one block, which is the default."""
    n = 700
    A = pack(np.triu(random_truths(rng, n, n, 4 / n), 1)[np.ix_(order := rng.permutation(n), order)])
    whole, engine = A.copy(), Engine(get_backend("cpu"), make_plan(semiring, 2))
    bits.close_block(engine.plan, whole)
    for leaf in (64, 192, None):
        D = A.copy()
        rkleene(engine, D.words, leaf=leaf)
        np.testing.assert_array_equal(D.words, whole.words)
    np.testing.assert_array_equal(sr.closure(A, semiring).words, whole.words)
    np.testing.assert_array_equal(sr.closure(A.unpack(), semiring), whole.unpack())
