"""Test warnings of silent errors: "no edge" of another convention, integers without ∞, definitions without a
closure."""

from __future__ import annotations

import warnings

import ml_dtypes
import networkx as nx
import numpy as np
import pandas as pd
import pytest
import scipy.sparse

import semiring as sr
from semiring import testing
from semiring.arrays.zero_conventions import has_zero_edges, warn_of_other_zeros
from semiring.data import NETWORKS
from semiring.errors import (
    AlgebraError,
    DivergenceWarning,
    FormatError,
    RoundingWarning,
    SuspiciousWeightsWarning,
)

INF = np.inf
SCIPYS = [[0, 5, 0], [0, 0, 3], [0, 0, 0]]
TABLE = [[INF, 5, INF], [INF, INF, 3], [INF, INF, INF]]
LOOP = [[1, 5, 0], [0, 0, 3], [0, 0, 0]]  # one entry of the diagonal differs
FUNCTIONS = {
    "min_plus": sr.shortest_paths,
    "max_plus": sr.longest_paths,
    "max_min": sr.widest_paths,
    "max_times": sr.most_reliable_paths,
}


def sparse_with_a_loop():
    """Return 50 vertices, a tenth of the edges, and a loop of 1e-9."""
    rng = np.random.default_rng(1)
    B = np.where(rng.random((50, 50)) < 0.1, rng.random((50, 50)), 0)
    np.fill_diagonal(B, 0)
    B[7, 7] = 1e-9
    return B


# ------------------------------------------------------------------------------------------- "no edge" of others


@pytest.mark.parametrize(
    ("matrix", "function", "mend"),
    [
        (SCIPYS, sr.closure, "np.where(A == 0, np.inf, A)"),
        (SCIPYS, sr.shortest_paths, "np.where(A == 0, np.inf, A)"),
        (np.array(SCIPYS, np.int32), sr.closure, "np.where(A == 0, np.iinfo(A.dtype).max, A)"),
        (-np.array(SCIPYS, float), sr.longest_paths, "np.where(A == 0, -np.inf, A)"),
        (TABLE, sr.widest_paths, "np.where(A == np.inf, -np.inf, A)"),
        (SCIPYS, sr.widest_paths, "np.where(A == 0, -np.inf, A)"),
        (SCIPYS, lambda A: sr.closure(A, "min_max"), "np.where(A == 0, np.inf, A)"),
        (np.array([SCIPYS, SCIPYS], float), sr.closure, "np.where(A == 0, np.inf, A)"),
        pytest.param(SCIPYS, sr.factor, "np.where(A == 0, np.inf, A)", marks=pytest.mark.full),
        pytest.param(
            SCIPYS,
            lambda A: sr.fixed_point(A, [0.0, 0.0, 0.0]),
            "np.where(A == 0, np.inf, A)",
            marks=pytest.mark.full,
        ),
        (SCIPYS, lambda A: sr.shortest_paths(A, sources=[0]), "np.where(A == 0, np.inf, A)"),
        (LOOP, sr.closure, "np.where(A == 0, np.inf, A)"),
        (LOOP, sr.shortest_paths, "np.where(A == 0, np.inf, A)"),
        (LOOP, sr.widest_paths, "np.where(A == 0, -np.inf, A)"),
        (sparse_with_a_loop(), sr.closure, "np.where(A == 0, np.inf, A)"),
    ],
)
def test_the_zero_of_another_convention_is_warned_of_once_with_the_mend(matrix, function, mend):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        for _ in range(3):
            function(matrix)
    # Python shows a warning of one text and line once. What a first call imports may make it forget that it did.
    (text,) = {str(warning.message) for warning in caught}
    assert {(warning.category, warning.filename) for warning in caught} == {(SuspiciousWeightsWarning, __file__)}
    assert len({warning.lineno for warning in caught}) == 1
    assert mend in text
    A = np.asarray(matrix)
    repaired = eval(mend, {"np": np, "A": A})  # what the warning says works, and is no reason for another one
    function(repaired if A.dtype.kind == "i" else repaired.astype(float))


def _random_weights(n, density, *, symmetric, unit):
    """Return a matrix of SciPy's convention: 0 is no edge, also on the diagonal."""
    rng = np.random.default_rng([n, int(100 * density)])
    A = np.where(rng.random((n, n)) < density, 1.0 if unit else rng.random((n, n)) + 0.5, 0)
    A = np.triu(A, 1) + np.triu(A, 1).T if symmetric else A
    np.fill_diagonal(A, 0)
    return A


@pytest.mark.parametrize("n", [7, 30, pytest.param(300, marks=pytest.mark.full)])
@pytest.mark.parametrize("symmetric", [False, True])
@pytest.mark.parametrize("unit", [False, True])
def test_the_zeros_of_another_convention_are_warned_of_at_every_density(n, symmetric, unit):
    """The warning appears at every density, not only if two thirds or more of the entries are 0."""
    for density in (0.1, 0.35, 0.4, 0.5, 0.9, 0.97):
        A = _random_weights(n, density, symmetric=symmetric, unit=unit)
        none = np.count_nonzero(A == 0) - n
        if not 2 <= none < n * (n - 1):
            continue
        for given, semiring in ((A, "min_plus"), (A, "min_max"), (-A, "max_plus")):
            with pytest.warns(SuspiciousWeightsWarning, match=r"entries of A off the diagonal are 0, none is .*A\["):
                sr.closure(given, semiring)
        infinite = np.where(A == 0, INF, A)
        with pytest.warns(SuspiciousWeightsWarning, match="are ∞, none is -∞: in max_min, ∞ is the weight"):
            sr.closure(infinite, "max_min")
        sr.closure(infinite)
        sr.closure(np.where(A == 0, -INF, A), "max_min")


def test_an_infinite_entry_of_max_plus_is_suspicious():
    infinite = "are ∞, none is -∞: in max_plus, ∞ is the weight"
    with pytest.warns(SuspiciousWeightsWarning, match=infinite), pytest.raises(sr.errors.DomainError):
        sr.closure([[0, -1, INF], [-2, 0, -1], [-3, -1, 0]], "max_plus", reflexive=False)


def test_the_matrix_of_the_readme_has_no_widths():
    """Widths of a matrix with ∞ for "no edge" are all ∞, which is worth a warning."""
    A = np.array([[INF, 7, 1, INF], [INF, INF, INF, 1], [INF, 2, INF, 9], [4, INF, INF, INF]])
    with pytest.warns(SuspiciousWeightsWarning, match=r"np\.where\(A == np\.inf, -np\.inf, A\)"):
        sr.widest_paths(A)
    assert sr.widest_paths(np.where(A == INF, -INF, A)).distance(0, 1) == 7


@pytest.mark.parametrize("dtype", [np.int32, np.float32])
def test_one_zero_may_be_an_edge_and_two_of_an_ordinary_matrix_are_suspicious(dtype):
    A = np.array([[0, 5, 3], [2, 0, 4], [1, 6, 0]], dtype)
    sr.closure(A)
    A[0, 1] = 0
    sr.closure(A)
    A[2, 1] = 0
    with pytest.warns(SuspiciousWeightsWarning, match="0 means no edge"):
        sr.closure(A)
    with pytest.warns(SuspiciousWeightsWarning, match="0 means no edge"):
        sr.closure(np.stack([np.ones_like(A), A, A]))
    sr.closure(np.stack([np.ones_like(A), A, sr.min_plus.zero_for(dtype) * np.ones_like(A)]))
    sr.closure(A, check=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sr.errors.SuspiciousWeightsWarning)  # as the message says
        sr.closure(A)


@pytest.mark.parametrize("dtype", [np.float64, np.int32])
@pytest.mark.parametrize("name", ["max_min", "min_plus", "min_max", "max_plus"])
def test_minus_one_that_may_mean_no_edge(name, dtype):
    A = np.array([[0, 5, -1], [-1, 0, 2], [3, -1, 0]], dtype)
    with warnings.catch_warnings(action="error"), pytest.raises(SuspiciousWeightsWarning, match="If -1 means no edge"):
        sr.closure(A, name)
    zero = sr.as_semiring(name).zero_for(dtype)
    for other in (np.where(A == -1, zero, A), np.where(A == 5, -2, A)):  # no edge occurs; another negative weight
        try:
            sr.closure(other, name)
        except sr.errors.DivergenceError:
            assert (other == -2).any() or name == "max_plus"


def test_the_warning_for_bfloat16():
    with pytest.warns(SuspiciousWeightsWarning, match="0 means no edge"):
        sr.closure(np.eye(40, k=1).astype(ml_dtypes.bfloat16))


def test_the_mend_gives_the_distances_that_were_meant():
    A = np.array(SCIPYS, float)
    found = sr.closure(np.where(A == 0, np.inf, A))
    np.testing.assert_array_equal(found, [[0, 5, 8], [INF, 0, 3], [INF, INF, 0]])


def test_the_warning_for_a_frame():
    with pytest.warns(SuspiciousWeightsWarning, match="0 is the weight of an edge"):
        sr.closure(pd.DataFrame(SCIPYS))


def test_no_look_without_check():
    sr.closure(SCIPYS, check=False)
    sr.shortest_paths(SCIPYS, sources=[0], check=False)
    sr.widest_paths(TABLE, check=False)


@pytest.mark.parametrize(
    "matrix",
    [
        np.zeros((4, 4)),  # no edges in one convention, all of weight 0 in the other: they cannot be distinguished
        np.ones((4, 4)),
        [[0, 0], [5, 0]],
        1 - np.eye(5),
        np.zeros((0, 0)),
    ],
)
def test_what_is_not_suspicious(matrix):
    for function in FUNCTIONS.values():
        if function in (sr.shortest_paths, sr.widest_paths):
            function(matrix)


@pytest.mark.parametrize("options", [{}, {"sources": [0]}, {"targets": [1], "method": "dense"}, {"limit": 9}])
def test_lists_of_edges_are_never_taken_for_another_convention(options):
    A = scipy.sparse.csr_array(np.array([[1.0, 2.0, 1.0], [1.0, 3.0, 2.0], [2.0, 1.0, 3.0]]))
    assert sr.shortest_paths(A, **options).path(0, 1) == [0, 1]


def test_who_writes_no_edge_knows_it():
    sr.shortest_paths([[0, 0, 0], [0, 0, 5], [INF, 0, 0]])
    sr.widest_paths([[0, 0, 0], [0, 0, 5], [-INF, 0, 0]])


def test_the_mend_of_capacities_tells_what_is_not_connected():
    A = np.array(SCIPYS, float)
    assert sr.widest_paths(np.where(A == 0, -np.inf, A)).reachable.tolist() == np.triu(np.ones((3, 3), bool)).tolist()


def test_zero_is_no_probability_and_no_capacity_of_a_byte():
    """The 0 of these semirings is the zero itself."""
    sr.widest_paths(np.array(SCIPYS, np.uint8), predecessors=False)
    sr.most_reliable_paths(np.array(SCIPYS) / 10, predecessors=False)
    sr.closure(np.array(SCIPYS) / 10, "plus_times")
    sr.closure(np.array(SCIPYS) > 0, "boolean")


def _families():
    for seed in range(3):
        for n in (3, 8, 33, 130):
            rng = np.random.default_rng([seed, n])
            points = rng.random((n, 2))
            yield "distances", np.linalg.norm(points[:, None] - points, axis=-1)
            yield "uniform", rng.random((n, n))
            yield "normal", rng.exponential(size=(n, n))
            yield "digits", rng.integers(0, 10, (n, n))
            yield "digits, loops of 0", rng.integers(0, 10, (n, n)) * (1 - np.eye(n, dtype=int))
            votes = rng.integers(0, 50, (n, n))
            yield "votes that were won", np.where(votes > votes.T, votes, 0)  # as Schulze's method has them
            yield "capacities of a few kinds", rng.choice([0, 10, 100, 1000], (n, n))
            yield "correlations", np.corrcoef(rng.normal(size=(n, 40)))
            yield "costs of 1", np.ones((n, n)) - np.eye(n)
            if n > 3:
                yield (
                    "coins",
                    np.where(np.eye(n, dtype=bool), 0, rng.integers(0, 2, (n, n))) if n > 8 else np.ones((n, n)),
                )
                yield "complete", testing.uniform_graph(n, n - 1, seed=seed)
            yield "sparse", testing.uniform_graph(n, 2, seed=seed)
            yield "path", testing.path_graph(n, seed=seed)
            yield "cycle", testing.cycle_graph(n, seed=seed)
    yield "rmat", testing.rmat_graph(6, 4, seed=1)
    yield "grid", testing.grid_graph(8, 9, seed=1)


@pytest.mark.parametrize(
    "options",
    [
        *({"predecessors": False}, {"sources": [0], "targets": [2], "predecessors": False}),
        *(pytest.param(options, marks=pytest.mark.full) for options in ({}, {"sources": [0]}, {"limit": 1.0})),
    ],
)
def test_percentages_are_no_probabilities(options):
    percents = np.array([[0, 95, 0], [0, 0, 80], [0, 0, 0]], float)
    with pytest.warns(SuspiciousWeightsWarning, match=r"product 7600, .*pass A / 100") as caught:
        sr.most_reliable_paths(percents, **options)
    assert [warning.filename for warning in caught] == [__file__]
    sr.most_reliable_paths(percents / 100, **options)
    sr.most_reliable_paths(percents, check=False, **options)


def test_what_is_at_most_one_is_a_probability():
    gains = np.array([[0, 2, 0], [0, 0, 0.5], [0.25, 0, 0]])
    with pytest.warns(SuspiciousWeightsWarning, match="product 2, "):
        sr.most_reliable_paths(gains, predecessors=False)
    for n in (0, 1, 5, 40):
        sr.most_reliable_paths(np.random.default_rng(n).random((n, n)), predecessors=False)
        sr.most_reliable_paths(np.ones((n, n)), predecessors=False)


#: Complete graphs in which some weights are 0: as matrices that say "no edge" by 0 have them.
AMBIGUOUS = {"digits", "digits, loops of 0", "votes that were won", "capacities of a few kinds", "coins"}


def test_no_false_alarm_on_the_families_of_graphs():
    """Each warning is an error in this test."""
    for name, A in _families():
        A = np.asarray(A)
        for semiring in ("max_min",) if name in AMBIGUOUS else ("min_plus", "max_min", "min_max"):
            try:
                sr.closure(np.where(A == INF, sr.as_semiring(semiring).zero_for(A.dtype), A), semiring)
            except SuspiciousWeightsWarning as error:
                pytest.fail(f"{name}, {A.shape} in {semiring}: {error}")
            except sr.errors.NegativeCycleError:
                assert name == "correlations"


@pytest.mark.full
@pytest.mark.parametrize("name", sorted(NETWORKS))
def test_no_false_alarm_on_real_networks(name):
    for semiring, function in FUNCTIONS.items():
        if semiring != "max_plus" and semiring != "max_times":
            function(sr.data.load_network(name, semiring).matrix)


# ------------------------------------------------------------------------------------------- sums that diverge

DIVERGES = "the sum over all paths of this matrix diverges in plus_times, as its spectral radius is above 1"


def _of_radius(rng, n, radius):
    A = rng.random((n, n)) * (rng.random((n, n)) < 0.5) + np.eye(n, k=1)
    A[-1, 0] = 1
    return A * (radius / np.abs(np.linalg.eigvals(A)).max())


def _as_sparse(A):
    return scipy.sparse.csr_array(A)


@pytest.mark.parametrize(
    "call",
    [
        lambda A: sr.closure(A, "plus_times"),
        lambda A: sr.closure(A, "plus_times", reflexive=False),
        lambda A: sr.closure(A, "plus_times", explain=True),
        lambda A: sr.closure(np.stack([A / 9, A]), "plus_times"),
        lambda A: sr.closure(_as_sparse(A), "plus_times"),
        lambda A: sr.fixed_point(A, np.ones(len(A)), "plus_times"),
        pytest.param(lambda A: sr.fixed_point(_as_sparse(A), np.ones(len(A)), "plus_times"), marks=pytest.mark.full),
        pytest.param(lambda A: sr.factor(_as_sparse(A), "plus_times"), marks=pytest.mark.full),
    ],
)
@pytest.mark.parametrize("n", [2, 12])
def test_a_sum_that_diverges_is_warned_of(rng, n, call):
    """A sum that diverges, such as [[-1]] of [[2]], warns. Without negative entries every such matrix is found."""
    for radius in (1.01, 1.5, 8):
        with pytest.warns(DivergenceWarning, match=DIVERGES) as told:
            call(_of_radius(rng, n, radius))
        assert {warning.filename for warning in told} == {__file__}
    for radius in (0.99, 0.5):
        call(_of_radius(rng, n, radius))


def test_a_sum_of_entries_of_both_signs_that_diverges():
    """The trace alone proves it, because the trace of a sum that converges is above n/2."""
    for A in ([[2.0]], [[-2.0]], [[0, 3.0], [-3.0, 0]], np.array([[-1.5, 1], [0, -1.5]], np.float32)):
        with pytest.warns(DivergenceWarning, match=DIVERGES):
            sr.closure(A, "plus_times")
    for A in ([[-0.99]], [[0, 0.9], [-0.9, 0]], [[0.0, -5.0], [0, 0]], np.zeros((0, 0)), -np.eye(3) * (1 - 1e-12)):
        sr.closure(A, "plus_times")


def test_the_inverse_is_returned_without_a_warning_where_it_is_asked_for():
    assert sr.closure([[2.0]], "plus_times", check=False).tolist() == [[-1]]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sr.errors.DivergenceWarning)  # as the message says
        assert sr.closure([[2.0]], "plus_times").tolist() == [[-1]]


@pytest.mark.full
def test_the_sums_of_a_semiring_of_ones_own_diverge_too():
    own = sr.Semiring("sums", "x + y", "x * y", 0, 1, "where(x == 1, nan, 1 / (1 - x))", "(-inf, inf)")
    with pytest.warns(DivergenceWarning, match="diverges in sums"):
        sr.closure([[2.0]], own)


# ------------------------------------------------------------------------------------------- integers


@pytest.mark.full
@pytest.mark.parametrize("dtype", [np.int32, pytest.param(np.int64, marks=pytest.mark.full)])
def test_integers_say_that_there_is_no_path_by_infinity(dtype):
    none = np.iinfo(dtype).max
    P = sr.shortest_paths(np.array([[0, 5, none], [none, 0, 1], [none, none, 0]], dtype))
    assert (P.diameter, P.radius, P.distance(2, 0), P.distance(0, 2)) == (INF, 6, INF, 6)
    np.testing.assert_array_equal(P.eccentricity(), [6, INF, INF])
    assert (P.eccentricity(0), P.eccentricity(2)) == (6, INF)
    assert (P.center, P.periphery) == ([0], [1, 2])
    assert P.matrix.dtype == dtype
    whole = sr.shortest_paths(np.array([[0, 5], [2, 0]], dtype))
    assert isinstance(whole.diameter, dtype)
    assert whole.eccentricity().dtype == dtype
    longest = sr.longest_paths(np.array([[0, 5], [-none - 1, 0]], dtype))
    assert (longest.diameter, longest.radius) == (5, 0)  # the longest path, whatever is not reached


def test_integers_of_frames_become_floats_unless_asked_otherwise():
    edges = pd.DataFrame({"from": [0, 2], "to": [1, 3], "km": [5, 6]})
    P = sr.shortest_paths(edges)
    assert P.diameter == INF
    assert P.matrix[2].sum() == INF
    assert sr.as_network(edges, dtype="int64").matrix.dtype == np.int64
    assert sr.closure(sr.as_network(edges, dtype="int64")).matrix.dtype == np.int64
    none = np.iinfo(np.int64).max
    assert sr.closure(pd.DataFrame([[0, none], [4, 0]])).to_numpy().tolist() == [[0, INF], [4, 0]]
    assert sr.transitive_closure(pd.DataFrame([[0, 1], [0, 0]])).path(0, 1) == [0, 1]


def test_the_usual_attributes_of_a_graph_are_weights():
    graph = nx.DiGraph()
    graph.add_edge("a", "b", length=3, color="red")
    graph.add_edge("b", "c", length=4)
    assert sr.shortest_paths(graph).distance("a", "c") == 7
    graph["b"]["c"]["weight"] = 1
    with pytest.raises(FormatError, match=r"a → b has no weight 'weight', and other edges have one"):
        sr.shortest_paths(graph)
    named = nx.DiGraph([("a", "b", {"color": "red", "time": "noon"})])
    assert sr.shortest_paths(named).distance("a", "b") == 1  # no numbers: every edge weighs 1


# ------------------------------------------------------------------------------------------- no semirings


@pytest.mark.full
def test_what_the_axioms_refute_has_no_closure():
    signed = sr.Semiring("signed", add="max(x, y)", mul="x * y", zero=0, one=1, star="1")
    for call in (sr.closure, lambda A, R: sr.best_paths(A, R)):
        with pytest.raises(AlgebraError, match=r"signed is no semiring on .*x ⊕ 0̄ is 0, not x.*give domain='\[0, 1\]'"):
            call([[0.5, 0.2], [0.1, 0.4]], signed)
    without_star = sr.Semiring("signed", add="max(x, y)", mul="x * y", zero=0, one=1)
    with pytest.raises(AlgebraError, match="signed is no semiring on"):
        sr.closure([[0.5, 0.2], [0.1, 0.4]], without_star)
    on_domain = signed.on_domain("[0, 1]")
    assert sr.closure([[0.5, 0.2], [0.1, 0.4]], on_domain).tolist() == [[1, 0.2], [0.1, 1]]


@pytest.mark.parametrize(
    ("semiring", "message"),
    [
        (sr.Semiring("mean", "(x + y) / 2", "x * y", 0, 1, domain=(0, 1)), r"\(x ⊕ y\) ⊕ z is 1/2, but"),
        (sr.Semiring("far", "max(x, y)", "x * y", 5, 1, domain=(0, 1)), r"x ⊕ 0̄ is 5, not x, at x = 0\. See far\."),
        (
            sr.Semiring("signed", "max(x, y)", "(x + y) / 2", 0, 1),
            r"the laws of sums are proved: give domain='\[0, inf\]'",
        ),
        (
            sr.Semiring("latest", "where(x < y, False, x)", "x & y", False, True, dtypes=["bool"]),
            "x ⊕ y is 0, but y ⊕ x is 1",
        ),
    ],
    ids=str,
)
def test_sums_that_depend_on_their_order_are_refused(semiring, message):
    A = np.array([[0, 1], [1, 1]], semiring.dtypes[0])
    packed = [lambda A, R: sr.matmul(sr.pack(A), sr.pack(A), R)] if A.dtype == bool else []
    products = [
        lambda A, R: sr.matmul(A, A, R),
        lambda A, R: sr.blas.gemm(A, A, semiring=R),
        lambda A, R: sr.power(A, 2, R),
    ]
    for _ in range(2):
        for call in (*products, *packed, sr.reduce):
            with pytest.raises(AlgebraError, match=f"so a product depends on the order .*{message}"):
                call(A, semiring)


def test_a_product_needs_no_law_of_its_multiplication():
    average = sr.Semiring("average", "max(x, y)", "(x + y) / 2", 0, 1, domain=(0, 1))
    assert not average.check_axioms()
    with pytest.warns(sr.AlgebraWarning, match="average is no semiring"):
        assert sr.matmul([[0.5, 1.0]], [[0.25], [0.5]], average).tolist() == [[0.75]]


@pytest.mark.full
def test_what_rounding_alone_breaks_is_warned_of():
    naive = sr.Semiring(
        *("naive", "log(exp(x) + exp(y))", "x + y", "-inf", 0), star="where(x < 0, -log(1 - exp(x)), nan)"
    )
    A = [[-1.0, -2.0], [-3.0, -1.0]]
    with pytest.warns(RoundingWarning, match="naive is a semiring of numbers, but in float64 its range breaks"):
        found = sr.closure(A, naive)
    np.testing.assert_allclose(found, sr.closure(A, "log_plus"), rtol=1e-12)


@pytest.mark.full
def test_a_call_that_fails_does_not_speak_of_rounding():
    soft = sr.Semiring("soft", "-log(exp(-x) + exp(-y))", "x + y", "inf", 0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(AlgebraError, match="no star"):
            sr.closure(np.ones((2, 2)), soft)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_markov_chains_that_lose_digits(rng, dtype):
    """The loops of a chain whose rows add up to 1 - δ are about 1 / (n δ), and lose as many digits."""
    n, epsilon = 20, np.finfo(dtype).eps
    P = rng.random((n, n))
    P /= P.sum(axis=1, keepdims=True)
    with pytest.warns(sr.errors.RoundingWarning, match="more than half of the digits"):
        sr.closure((P * (1 - 64 * epsilon)).astype(dtype), "plus_times")
    sr.closure((P * (1 - epsilon**0.5)).astype(dtype), "plus_times")  # half of the digits
    sr.closure((P * (1 - 64 * epsilon)).astype(dtype), "plus_times", check=False)


def test_what_small_closures_ask_before_they_look_for_suspicious_weights(rng):
    """Wherever floats ≥ 0 of min-plus look suspicious, two entries off the diagonal are 0."""
    found = 0
    for n in (2, 4, 5):
        for _ in range(300):
            A = rng.choice([0.0, -0.0, 1.0, 2.0, np.inf], (n, n), p=[0.2, 0.1, 0.4, 0.28, 0.02])
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                warn_of_other_zeros(A, sr.min_plus)
            assert not caught or has_zero_edges(A)
            found += bool(caught)
    assert found > 100
