"""`BitMatrix`, `truth_table` and `to_bitwise` against plain boolean arrays."""

from __future__ import annotations

import itertools
import pickle

import numpy as np
import pytest

import semiring as sr
from semiring.algebra.expressions import parse
from semiring.arrays.bits import BitMatrix, pack, to_bitwise, truth_table
from semiring.errors import DomainError, DTypeError, ExpressionError, ShapeError

SIZES = (0, 1, 2, 31, 32, 33, 63, 64, 65, 127, 300)


def random_truths(m: int, n: int, density: float = 0.5, seed: int = 0) -> np.ndarray:
    return np.random.default_rng([seed, m, n]).random((m, n)) < density


@pytest.mark.parametrize("m", SIZES)
@pytest.mark.parametrize("n", SIZES)
def test_packing_and_transposing_keep_every_entry(m, n):
    truths = random_truths(m, n)
    packed = pack(truths)
    assert packed.shape == (m, n)
    assert packed.words.dtype == np.uint32
    assert packed.words.shape == (m, -(-n // 32))
    np.testing.assert_array_equal(packed.unpack(), truths)
    np.testing.assert_array_equal(packed.T.unpack(), truths.T)
    assert packed == packed.T.T
    assert packed.count() == truths.sum()
    np.testing.assert_array_equal((~packed).unpack(), ~truths)
    BitMatrix((~packed).words, (m, n))  # tail bits stayed zero
    BitMatrix(packed.T.words, (n, m))


def test_a_bit_is_where_the_contract_says():
    for i, j in [(0, 0), (1, 31), (2, 32), (3, 69)]:
        truths = np.zeros((4, 70), bool)
        truths[i, j] = True
        expected = np.zeros((4, 3), np.uint32)
        expected[i, j // 32] = 2 ** (j % 32)
        np.testing.assert_array_equal(pack(truths).words, expected)


VIEWS = {
    "fortran": np.asfortranarray,
    "transposed": np.transpose,
    "rows reversed": lambda a: a[::-1],
    "columns reversed": lambda a: a[:, ::-1],
    "every other": lambda a: a[::3, 1::2],
    "broadcast": lambda a: np.broadcast_to(a[0], (5, a.shape[1])),
    "no columns": lambda a: a[:, :0],
    "no rows": lambda a: a[:0],
}


@pytest.mark.parametrize("view", VIEWS)
def test_packing_takes_any_memory_order(view):
    truths = VIEWS[view](random_truths(67, 101))
    truths.flags.writeable = False
    np.testing.assert_array_equal(pack(truths).unpack(), truths)


def test_packing_takes_lists_and_integers():
    assert pack([[True, False], [False, True]]) == BitMatrix.identity(2)
    assert pack([[], []]).shape == (2, 0)
    assert pack(np.eye(3, dtype=np.int64)) == BitMatrix.identity(3)
    assert pack(sr.as_network(sr.data.load_network("us-flights"), "boolean").matrix).unpack().sum() == 6022
    assert BitMatrix(words(2, 1) + np.uint32(32), (2, 6)).count() == 2
    assert BitMatrix(words(2, 1)).shape == (2, 32)


def words(m, n, dtype=np.uint32):
    return np.zeros((m, n), dtype)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: BitMatrix(words(1, 1, np.int32)), DTypeError, "uint32 array, not int32"),
        (lambda: BitMatrix([[1]]), DTypeError, "not list"),
        (lambda: BitMatrix(words(1, 1)[0]), ShapeError, "2-D, not 1-D"),
        (lambda: BitMatrix(words(2, 1), (2, 33)), ShapeError, r"words of shape \(2, 2\), not \(2, 1\)"),
        (lambda: BitMatrix(words(2, 4)[:, ::2], (2, 64)), ShapeError, "adjacent"),
        (lambda: BitMatrix.zeros((2, -1)), ShapeError, "pair of sizes"),
        (lambda: BitMatrix.zeros((2, 3, 4)), ShapeError, "pair of sizes"),
        (lambda: BitMatrix(words(2, 1) + 32, (2, 5)), DomainError, r"row 0 has bits set beyond column 4.*0x1f"),
        (lambda: pack(np.eye(3)), DTypeError, r"float64, and truth values .*A != 0 or A < inf"),
        (lambda: pack(np.zeros(3, bool)), ShapeError, "2-D array, not 1-D"),
        (lambda: pack([["a"]]), DTypeError, "truth values"),
        (lambda: pack(sr.Network(np.eye(2))), DTypeError, r"not a Network: pack\(as_network\(A, .boolean.\)"),
    ],
)
def test_construction_is_checked(make, error, message):
    with pytest.raises(error, match=message):
        make()


def test_makers():
    assert BitMatrix.zeros((3, 40)).count() == 0
    np.testing.assert_array_equal(BitMatrix.identity(70).unpack(), np.eye(70, dtype=bool))
    assert BitMatrix.identity(0).shape == (0, 0)
    np.testing.assert_array_equal(BitMatrix.full((3, 40), True).unpack(), np.ones((3, 40), bool))
    assert BitMatrix.full((3, 40), False) == BitMatrix.zeros((3, 40))


def test_array_attributes_and_conversion():
    truths = random_truths(5, 40)
    packed = pack(truths)
    assert (packed.dtype, packed.ndim, packed.size, packed.nbytes, len(packed)) == (np.dtype(bool), 2, 200, 40, 5)
    np.testing.assert_array_equal(np.asarray(packed), truths)
    np.testing.assert_array_equal(np.array(packed, dtype=np.float32), truths.astype(np.float32))
    with pytest.raises(ValueError, match="no array without a copy"):
        np.array(packed, copy=False)
    assert pickle.loads(pickle.dumps(packed)) == packed
    assert pickle.loads(pickle.dumps(packed[1:4, 32:])) == packed[1:4, 32:]
    with pytest.raises(TypeError):
        hash(packed)


def test_repr_shows_small_matrices():
    assert repr(pack([[True, False], [False, False]])) == "BitMatrix(2 × 2, 1 set\n  1.\n  ..)"
    assert repr(BitMatrix.identity(100)) == "BitMatrix(100 × 100, 100 set)"
    assert repr(BitMatrix.zeros((0, 3))) == "BitMatrix(0 × 3, 0 set)"


def test_slices_are_views():
    truths = random_truths(70, 150)
    packed = pack(truths)
    columns_of_words = [(None,), (32, 96), (64, None), (128, 150), (-150, -54), (40, 40), (150, 150)]
    for rows, columns in itertools.product(
        (slice(None), slice(3, 9), slice(None, None, -2), slice(5, 5)), [slice(*ends) for ends in columns_of_words]
    ):
        part = packed[rows, columns]
        np.testing.assert_array_equal(part.unpack(), truths[rows, columns])
        BitMatrix(part.words, part.shape)
        assert not part.size or np.shares_memory(part.words, packed.words)
    np.testing.assert_array_equal(packed[4:6].unpack(), truths[4:6])
    packed[10:20, 64:128] = True
    truths[10:20, 64:128] = True
    packed[::2, 128:] = ~truths[::2, 128:]
    truths[::2, 128:] = ~truths[::2, 128:]
    packed[5:9, 32:64] = pack(truths[0:4, 0:32])
    truths[5:9, 32:64] = truths[0:4, 0:32].copy()
    np.testing.assert_array_equal(packed.unpack(), truths)
    BitMatrix(packed.words, packed.shape)
    copy = packed.copy()
    copy.fill(True)
    np.testing.assert_array_equal(packed.unpack(), truths)
    assert copy.unpack().all()


def test_entries():
    truths = random_truths(9, 70)
    packed = pack(truths)
    for i, j in [(0, 0), (8, 69), (-1, -1), (3, 31), (3, 32), (4, 63)]:
        assert packed[i, j] == truths[i, j]
        assert isinstance(packed[i, j], np.bool_)
        packed[i, j] = not truths[i, j]
        truths[i, j] = not truths[i, j]
    np.testing.assert_array_equal(packed.unpack(), truths)


@pytest.mark.parametrize(
    ("key", "error", "message"),
    [
        ((slice(None), slice(1, 32)), IndexError, "starts at a multiple of 32"),
        ((slice(None), slice(0, 33)), IndexError, "ends at one or at 70"),
        ((slice(None), slice(0, 64, 2)), IndexError, "0:64:2 of 70 are no view"),
        ((9, 0), IndexError, "row 9 is out of bounds: there are 9"),
        ((0, -71), IndexError, "column -71"),
        (3, TypeError, "no 1-D rows"),
        ((3, slice(None)), TypeError, "no 1-D rows"),
        ((0, 0, 0), TypeError, "indexed by two integers"),
        ((True, 0), TypeError, "indexed by two integers"),
        ("a", TypeError, "indexed by two integers"),
    ],
)
def test_wrong_indices(key, error, message):
    with pytest.raises(error, match=message):
        pack(random_truths(9, 70))[key]


def test_wrong_assignments():
    packed = BitMatrix.zeros((4, 64))
    with pytest.raises(ShapeError, match=r"\(4, 32\) cannot hold a matrix of shape \(4, 64\)"):
        packed[:, :32] = packed
    with pytest.raises(DTypeError, match="is a bool, not 2"):
        packed[0, 0] = 2
    with pytest.raises(DTypeError, match="truth values"):
        packed[:, :32] = np.ones((4, 32))


def test_entry_by_entry():
    a, b = random_truths(5, 70, seed=1), random_truths(5, 70, seed=2)
    A, B = pack(a), pack(b)
    np.testing.assert_array_equal((A & B).unpack(), a & b)
    np.testing.assert_array_equal((A | B).unpack(), a | b)
    np.testing.assert_array_equal((A ^ B).unpack(), a ^ b)
    assert pack(a) == A
    assert A != B
    assert pack(a[:, :69]) != A
    assert A != "A"
    with pytest.raises(ShapeError, match="bitwise_or of BitMatrices of shapes"):
        A | B.T
    with pytest.raises(TypeError):
        A & 1


FORMS = {
    "min(x, y)": lambda x, y: x and y,
    "max(x, y)": lambda x, y: x or y,
    "x & y": lambda x, y: x and y,
    "x | y": lambda x, y: x or y,
    "x ^ y": lambda x, y: x != y,
    "~x ^ y": lambda x, y: x == y,
    "where(x < y, x, y)": lambda x, y: x if x < y else y,
    "where(x <= y, y, ~x)": lambda x, y: y if x <= y else not x,
    "where(x > y, ~y, x)": lambda x, y: (not y) if x > y else x,
    "where(x >= y, x, True)": lambda x, y: x if x >= y else True,
    "where(x == y, True, False)": lambda x, y: x == y,
    "where(x != y, inf, -inf)": lambda x, y: x != y,
    "where((x == 1) & ~(y == 0), 1, 0)": lambda x, y: x and y,
    "max(0, min(x, 1))": lambda x, y: x,
    "max(x, True)": lambda x, y: True,
    "min(y, 0)": lambda x, y: False,
    "~x": lambda x, y: not x,
}


@pytest.mark.parametrize("text", FORMS)
def test_bitwise_forms_agree_with_python_on_every_bit(text):
    expression = parse(text, ("x", "y"))
    bitwise = to_bitwise(expression)
    assert bitwise.operations <= {"and", "or", "xor", "invert"}
    rows = list(itertools.product((False, True), repeat=2))
    expected = [bool(FORMS[text](x, y)) for x, y in rows]
    table = truth_table(expression, ("x", "y"))
    assert [bool(table >> (x + 2 * y) & 1) for x, y in rows] == expected
    for dtype in (np.bool_, np.uint32, np.int64, np.uint8):
        ones = np.bool_(True) if dtype is np.bool_ else ~dtype(0)
        x, y = (np.array([ones if row[v] else dtype(0) for row in rows], dtype) for v in (0, 1))
        outcome = np.broadcast_to(bitwise.evaluate({"x": x, "y": y}, np.dtype(dtype)), (4,))
        np.testing.assert_array_equal(outcome, np.array([ones if bit else dtype(0) for bit in expected], dtype))


def test_every_function_of_two_variables_has_one_form():
    forms = set()
    for table in range(16):
        entries = [table >> row & 1 for row in range(4)]
        text = f"where(x == 1, where(y == 1, {entries[3]}, {entries[1]}), where(y == 1, {entries[2]}, {entries[0]}))"
        expression = parse(text, ("x", "y"))
        assert truth_table(expression, ("x", "y")) == table
        form = to_bitwise(expression)
        assert truth_table(form, ("x", "y")) == table
        forms.add(form.text)
    assert len(forms) == 16


def test_three_variables():
    expression = parse("where(x < y, z, max(x, z))", ("x", "y", "z"))
    table = truth_table(expression, ("x", "y", "z"))
    for row in range(8):
        x, y, z = row & 1, row >> 1 & 1, row >> 2
        assert table >> row & 1 == (z if x < y else max(x, z))
    assert truth_table(to_bitwise(expression), ("x", "y", "z")) == table


def test_expressions_that_mean_nothing_on_bits():
    with pytest.raises(DTypeError):
        to_bitwise(parse("x + y", ("x", "y")))
    with pytest.raises(DTypeError):
        to_bitwise(parse("max(x, 2)", ("x",)))
    with pytest.raises(ExpressionError, match="over at most 5 variables"):
        truth_table(parse("x & y", ("x", "y")), ("x",))
    for name in ("boolean", "xor_and", "max_min", "min_max"):
        to_bitwise(sr.CATALOGUE[name].add.expression)


def test_a_product_names_its_semiring():
    B = pack([[True, False], [True, True]])
    with pytest.raises(TypeError, match=r"semiring\.matmul\(A, B, 'boolean'\)"):
        B @ B


def test_edges_are_found_by_words(rng, monkeypatch):
    for m, n in ((1, 1), (5, 31), (40, 33), (70, 200)):
        for density in (0.0, 0.01, 0.5, 1.0):
            entries = rng.random((m, n)) < density
            tails, heads = entries.nonzero()
            for step in (1, 3 * n, 1 << 24):
                parts = list(pack(entries).edges(step))
                np.testing.assert_array_equal(np.concatenate([tails for tails, _ in parts]), tails)
                np.testing.assert_array_equal(np.concatenate([heads for _, heads in parts]), heads)
                assert {part.dtype for pair in parts for part in pair} == {np.dtype(np.int64)}
    sizes, unpack = [], BitMatrix.unpack
    monkeypatch.setattr(BitMatrix, "unpack", lambda self: sizes.append(self.size) or unpack(self))
    assert [edge.tolist() for edge in next(BitMatrix.from_edges([3], [70], (50, 100)).edges())] == [[3], [70]]
    assert sizes == [32]
