"""Run the proof of Buluç, Gilbert and Budak: closures in the semiring of regular languages over the edges of a graph.

Section 2.2 of "Solving path problems on the GPU" proves figure 3 by path expressions: two regular expressions denote
one language, because their minimal automata are the same. Here every entry of the matrix is a language, held as its
minimal automaton, and each algorithm that products and blocks make up runs on such entries. Languages are the free
Kleene algebra. So a result that is the language of all walks is right in every idempotent semiring with a star, on a
graph of this size.

Algorithms that know no star need 1 ⊕ a = 1. Their free semiring has sets of words as elements, of which those that
contain another one as a scattered part are left out. In it the closure holds the simple paths.
"""

from __future__ import annotations

from functools import cache
from itertools import pairwise, permutations, product

import numpy as np
import pytest

from semiring.algorithms.blocked_floyd_warshall import blocked_floyd_warshall
from semiring.algorithms.floyd_warshall import floyd_warshall
from semiring.algorithms.papers import buluc
from semiring.algorithms.papers.bertoldi import row_broadcast
from semiring.algorithms.rkleene import rkleene
from semiring.algorithms.squaring import squaring
from semiring.kernels.contract import Capabilities, KernelPlan, ProductKernels
from semiring.kernels.engine import Engine

# ------------------------------------------------------------------------------------------------- regular languages


def minimal(start, step, accepts, letters):
    """Return the minimal automaton, states numbered as met from the start: (accepting, next state by letter)."""
    states, table = [start], []
    numbers = {start: 0}
    for state in states:
        row = []
        for letter in letters:
            found = step(state, letter)
            if found not in numbers:
                numbers[found] = len(states)
                states.append(found)
            row.append(numbers[found])
        table.append(row)
    classes = [bool(accepts(state)) for state in states]
    while True:  # Moore's algorithm: states differ if their successors differ
        signs = [(classes[i], *(classes[j] for j in row)) for i, row in enumerate(table)]
        order = {sign: number for number, sign in enumerate(dict.fromkeys(signs))}
        finer = [order[sign] for sign in signs]
        if len(order) == len(set(classes)):
            break
        classes = finer
    first = {}
    for i, group in enumerate(finer):
        first.setdefault(group, i)
    place, found = {finer[0]: 0}, [finer[0]]
    for group in found:
        for j in table[first[group]]:
            if finer[j] not in place:
                place[finer[j]] = len(found)
                found.append(finer[j])
    rows = tuple(tuple(place[finer[j]] for j in table[first[group]]) for group in found)
    return tuple(bool(accepts(states[first[group]])) for group in found), rows


class Languages:
    """Regular languages over some letters. Letter (u, v) is an edge."""

    idempotent, absorptive, selective, divergence, tropical, given_star = True, False, False, None, None, None

    def __init__(self, letters):
        self.letters = range(len(letters))
        self.names = list(letters)
        self.zero = minimal(0, lambda state, letter: 0, lambda state: False, self.letters)
        self.one = minimal(0, lambda state, letter: 1, lambda state: state == 0, self.letters)

    def letter(self, name):
        number = self.names.index(name)
        after = {(0, number): 1}
        return minimal(0, lambda s, a: after.get((s, a), 2), lambda s: s == 1, self.letters)

    def plus(self, x, y):
        return minimal(
            (0, 0),
            lambda s, a: (x[1][s[0]][a], y[1][s[1]][a]),
            lambda s: x[0][s[0]] or y[0][s[1]],
            self.letters,
        )

    def times(self, x, y):
        """Return the language of a word of x and then one of y: the states of y after every end of x."""

        def with_start(i, states):
            return i, frozenset(states) | ({0} if x[0][i] else set())

        return minimal(
            with_start(0, ()),
            lambda s, a: with_start(x[1][s[0]][a], (y[1][j][a] for j in s[1])),
            lambda s: any(y[0][j] for j in s[1]),
            self.letters,
        )

    def star(self, x):
        def with_start(states):
            states = frozenset(states)
            return states | {0} if any(x[0][i] for i in states) else states

        return minimal(
            (True, frozenset({0})),
            lambda s, a: (False, with_start(x[1][i][a] for i in s[1])),
            lambda s: s[0] or any(x[0][i] for i in s[1]),
            self.letters,
        )

    def walks(self, i, j):
        """Return the language of the walks from i to j, for which the graph is its own automaton."""
        return minimal(
            i,
            lambda s, a: self.names[a][1] if s is not None and self.names[a][0] == s else None,
            lambda s: s == j,
            self.letters,
        )


def is_part(short, long):
    """Whether a word is a scattered part of another."""
    letters = iter(long)
    return all(letter in letters for letter in short)


class SimplePaths:
    """Sets of words without a word that contains another one of the set: 1 ⊕ a = 1."""

    idempotent, absorptive, selective, divergence, tropical, given_star = True, True, False, None, None, None
    zero, one = frozenset(), frozenset({()})

    def __init__(self, letters):
        self.names = list(letters)

    def letter(self, name):
        return frozenset({(name,)})

    def _minimal_words(self, words):
        return frozenset(w for w in words if not any(v != w and is_part(v, w) for v in words))

    def plus(self, x, y):
        return self._minimal_words(x | y)

    def times(self, x, y):
        return self._minimal_words({v + w for v, w in product(x, y)})

    def star(self, x):
        return self.one

    def walks(self, i, j):
        """Return the simple paths, each as its edges. A vertex has only the empty path to itself."""
        vertices = {vertex for name in self.names for vertex in name} - {i, j}
        found = set()
        for count in range(len(vertices) + 1):
            for between in permutations(vertices, count):
                path = (i, *between, j)
                edges = tuple(pairwise(path)) if i != j else ()
                if all(edge in self.names for edge in edges):
                    found.add(edges)
        return frozenset(found)


# ---------------------------------------------------------------------------------------- as numbers, for an algorithm


class Operation:
    """⊕ or ⊗ of arrays, which is its own expression."""

    def __init__(self, text, function):
        self.text, self.expression, self._on_arrays = text, self, np.vectorize(function, otypes=[np.int64])

    def __call__(self, x, y):
        return self._on_arrays(x, y)

    def evaluate(self, variables, dtype, xp=np):
        return self(variables["x"], variables["y"])


class PlainProducts(ProductKernels):
    """The plain product of a backend, which has no product in place."""

    def __init__(self, backend):
        self._backend = backend

    def can_multiply_in_place(self, plan, m, n):
        return False

    def can_overlap(self, plan, m, n, k):
        return False

    def copy_panel(self, plan, A, out):
        out[...] = A

    def multiply_add_plain(self, plan, C, A, B):
        self._backend.multiply_add(plan, C, A, B)


class NumberedAlgebra:
    """The elements of an algebra as integers, 0 and 1 for 0̄ and 1̄, which arrays hold: a semiring and a backend."""

    name, stacks, star_expression = "path expressions", False, None

    def __init__(self, algebra):
        self.algebra, self.elements, self.numbers = algebra, [], {}
        assert [self.number(algebra.zero), self.number(algebra.one)] == [0, 1]
        self.plus = cache(lambda x, y: self.number(algebra.plus(self.elements[x], self.elements[y])))
        self.times = cache(lambda x, y: self.number(algebra.times(self.elements[x], self.elements[y])))
        self.star = cache(lambda x: self.number(algebra.star(self.elements[x])))
        self.add, self.mul = Operation("plus", self.plus), Operation("times", self.times)
        self.capabilities = Capabilities(products=PlainProducts(self))

    def __getattr__(self, name):
        return getattr(self.algebra, name)

    def number(self, element):
        if element not in self.numbers:
            self.numbers[element] = len(self.elements)
            self.elements.append(element)
        return self.numbers[element]

    def one_for(self, dtype):
        return 1

    def multiply(self, plan, C, A, B):
        C[...] = 0
        self.multiply_add(plan, C, A, B)

    def multiply_add(self, plan, C, A, B):
        assert not any(np.shares_memory(C, operand) for operand in (A, B) if C.size), "operands are views of the result"
        for i, j in np.ndindex(C.shape):
            for k in range(A.shape[1]):
                C[i, j] = self.plus(int(C[i, j]), self.times(int(A[i, k]), int(B[k, j])))

    def close_block(self, plan, A):
        """Close a single entry by its star. A larger block would use Lehmann's elimination, which floyd_warshall
        proves."""
        assert len(A) <= 1, "the algorithm is to be proved, not the kernel of a block"
        for i in range(len(A)):
            A[i, i] = self.star(int(A[i, i]))


ALGORITHMS = {
    "rkleene": lambda engine, A: rkleene(engine, A, leaf=1),
    "rkleene_plain": buluc.rkleene_plain,
    "floyd_warshall": floyd_warshall,
    "row_broadcast": row_broadcast,
    "squaring": squaring,
}
#: Those that know no star.
WITHOUT_STAR = {"row_broadcast", "squaring"}

GRAPHS = {
    "complete, 3 vertices with loops": [(i, j) for i in range(3) for j in range(3)],
    "complete, 4 vertices": [(i, j) for i in range(4) for j in range(4) if i != j],
    "a cycle with a chord, 5 vertices": [(0, 1), (1, 2), (2, 3), (3, 4), (4, 0), (3, 1)],
    "no cycle": [(0, 1), (0, 2), (1, 3), (2, 3), (3, 4)],
    "one vertex": [(0, 0)],
}


def check(algebra, close, edges):
    """Check that the algorithm turns the letters of all edges into the walks between all vertices."""
    n = 1 + max(map(max, edges))
    numbered = NumberedAlgebra(algebra)
    plan = KernelPlan(numbered, np.dtype(np.int64), 0, 1)
    A = np.zeros((n, n), np.int64)
    for edge in edges:
        A[edge] = numbered.number(algebra.letter(edge))
    close(Engine(numbered, plan), A)
    for i, j in np.ndindex(A.shape):
        assert numbered.elements[A[i, j]] == algebra.walks(i, j), (i, j)


@pytest.fixture(autouse=True)
def recursion_to_single_vertices(monkeypatch):
    monkeypatch.setattr(buluc, "LEAF", 1)


@pytest.mark.parametrize("graph", GRAPHS)
@pytest.mark.parametrize("name", [name for name in ALGORITHMS if name not in WITHOUT_STAR])
def test_the_closure_is_the_language_of_all_walks(name, graph):
    check(Languages(GRAPHS[graph]), ALGORITHMS[name], GRAPHS[graph])


@pytest.mark.parametrize("graph", GRAPHS)
@pytest.mark.parametrize("name", ALGORITHMS)
def test_the_closure_is_the_set_of_simple_paths(name, graph):
    check(SimplePaths(GRAPHS[graph]), ALGORITHMS[name], GRAPHS[graph])


@pytest.mark.parametrize("algebra", [Languages, SimplePaths])
def test_blocks_of_one_vertex_are_the_blocked_elimination(algebra):
    edges = GRAPHS["complete, 4 vertices"]
    check(algebra(edges), lambda engine, A: blocked_floyd_warshall(engine, A, width=1), edges)


def test_a_wrong_algorithm_is_found():
    """An algorithm that skips the stars of the second half, or swaps the halves, is detected."""

    def without_last_lines(engine, A):
        half = len(A) // 2
        first, second = slice(0, half), slice(half, len(A))
        rkleene(engine, A[first, first], leaf=1)
        engine.multiply_left(A[first, first], A[first, second])
        engine.multiply_add(A[second, second], A[second, first].copy(), A[first, second].copy())
        rkleene(engine, A[second, second], leaf=1)

    edges = GRAPHS["complete, 4 vertices"]
    for algebra in (Languages(edges), SimplePaths(edges)):
        with pytest.raises(AssertionError):
            check(algebra, without_last_lines, edges)


def test_the_two_expressions_of_the_paper_are_one_language():
    """Equations 3 and 4 with one vertex in each half give A₁₁* of the whole graph by either expression."""
    edges = [(0, 0), (0, 1), (1, 0), (1, 1)]
    L = Languages(edges)
    a11, a12, a21, a22 = map(L.letter, edges)
    star, plus, times = L.star, L.plus, L.times
    third = star(plus(a11, times(times(a12, star(a22)), a21)))
    inner = star(plus(a22, times(times(a21, star(a11)), a12)))
    fourth = plus(star(a11), times(times(times(times(star(a11), a12), inner), a21), star(a11)))
    assert third == fourth == L.walks(0, 0)
    assert len(third[0]) == 3  # figure 5: two states, and one from which no word is accepted
    assert third != star(a11)
