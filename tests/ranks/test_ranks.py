"""Test closures by ranks against the closure in one memory, bit by bit. The ranks are threads of this process."""

from __future__ import annotations

import itertools
import time
from concurrent.futures import ThreadPoolExecutor

import matrices
import numpy as np
import pytest
import tiers
from in_ranks import METHOD, blocks, closed_by, make_small, spread_of
from strips import rounding_matrix, same_bits
from tiers import each_value, quick

import semiring as sr
from semiring.algorithms.blocked_floyd_warshall import blocked_floyd_warshall
from semiring.algorithms.papers.bertoldi import close_rows
from semiring.closures import distributed_closures
from semiring.closures.problem import Options
from semiring.closures.request import Request
from semiring.distributed import gpu_transports
from semiring.distributed.closing import close_tiles, multiply_tiles
from semiring.distributed.cost_model import row_broadcast_seconds, tiles_bytes, tiles_times
from semiring.distributed.grid import Grid, Share, grid_shape
from semiring.distributed.mpi_communicator import is_cuda_aware
from semiring.distributed.tiled_matrix import TiledMatrix, collect_rows, split_rows
from semiring.distributed.transports import Groups, HostTransport, StoppedError, agree, run_ranks
from semiring.errors import AlgebraError, DivergenceError, DomainError, IntegerOverflowError, NegativeCycleError
from semiring.kernels import backend_for
from semiring.kernels.engine import Engine, make_plan
from semiring.linalg.dispatch import engine_for

SHAPES = [(1, 1), (1, 2), (2, 1), (2, 2), (2, 3), (3, 1), (1, 4)]
CASES = [(name, dtype) for name, dtypes in matrices.DTYPES.items() for dtype in dtypes]


@pytest.fixture(autouse=True)
def small(monkeypatch):
    make_small(monkeypatch)


# ------------------------------------------------------------------------------------------------------------ the grid


@pytest.mark.parametrize("n", [0, 1, 2, 31, 32, 33, 64, 65, 97, 130])
def test_every_vertex_belongs_to_one_row_and_one_column_of_the_grid(n):
    for parts in (1, 2, 3, 5):
        shares = [Share(blocks(n, "float32"), parts, which) for which in range(parts)]
        assert sorted(np.concatenate([share.vertices for share in shares]).tolist()) == list(range(n))
        for share in shares:
            held = share.vertices
            assert len(share) == len(held)
            for vertices in [(0, n), (n // 3, n // 2), (n // 2, n), (n, n)]:
                places = np.flatnonzero((held >= vertices[0]) & (held < vertices[1]))
                low, high = share.held_range(vertices)
                assert list(range(low, high)) == places.tolist()
            assert len(held) != 1 or n == 1  # a single column is never alone


def test_grids_are_as_square_as_can_be():
    assert [grid_shape(size) for size in (1, 2, 3, 4, 6, 7, 12)] == [
        (1, 1),
        (1, 2),
        (1, 3),
        (2, 2),
        (2, 3),
        (1, 7),
        (3, 4),
    ]


def test_what_is_dealt_out_is_collected(rng):
    A = rng.integers(0, 1000, (97, 97)).astype(np.int16)

    def run(ranks):
        spread = spread_of(ranks, A, (2, 3))
        assert same_bits(spread.own, A[np.ix_(spread.rows, spread.columns)])
        tails, heads = np.array([3, 96, 50]), np.array([96, 0, 50])
        for index in (slice(10, 40), (slice(90, 97),), tails, (tails, heads), ()):
            assert same_bits(spread[index], A[index])
        assert same_bits(spread.diagonal(), A.diagonal().copy())
        wanted = [(0, 0), (0, 10), (10, 10), (10, 90), (90, 97), (97, 97)]
        return collect_rows(ranks, spread.grid, wanted, spread.own)

    assert same_bits(np.concatenate(run_ranks(6, run)), A)


# --------------------------------------------------------------------------------------------------------- the closure


def _close(A, name, shape, width):
    """Return (D, diverged) by ranks that receive a matrix as kernels hold it."""
    semiring, grid = sr.as_semiring(name), Grid(tuple(_blocks(len(A), width)), shape)
    D = np.empty_like(A)

    def run(ranks):
        here = np.ix_(grid.rows(ranks.rank).vertices, grid.columns(ranks.rank).vertices)
        tiles = np.ascontiguousarray(A[here])
        engine = Engine(backend_for(A, semiring, A.dtype), make_plan(semiring, A.dtype), 64)
        found = close_tiles(engine, HostTransport(Groups(ranks, grid)), grid, tiles)
        D[here] = tiles
        return found

    (diverged,) = set(run_ranks(grid.size, run))
    return D, diverged


def _blocks(n, width):
    return [(start, min(n, start + width)) for start in range(0, n, width)]


def _compare(rng, name, dtype, sizes, shapes):
    semiring = sr.as_semiring(name)
    for n, width in sizes:
        A = rounding_matrix(rng, n, name, dtype)
        plan = make_plan(semiring, A.dtype)
        if semiring.tropical and A.dtype.kind == "i":
            A[semiring.zero_for(A.dtype) == A] = plan.zero
        expected = A.copy()
        engine = Engine(backend_for(A, semiring, A.dtype), plan, 64)
        blocked_floyd_warshall(engine, expected, width=width)
        for shape in shapes:
            D, diverged = _close(A, name, shape, width)
            assert diverged == plan.status.diverged, (n, shape)
            if diverged < 0:
                assert same_bits(D, expected), (n, shape)


@pytest.mark.parametrize(("name", "dtype"), [("min_plus", "float32"), ("plus_times", "float64")])
def test_ranks_have_the_bits_of_one_memory(rng, name, dtype):
    _compare(rng, name, dtype, [(33, 8)], [(2, 2), (1, 3)])


@pytest.mark.parametrize("shape", [(1, 1), (2, 1), (4, 1), (2, 2)])
@pytest.mark.parametrize("n", [32, 65, 97, 200])
def test_tasks_without_lanes(rng, n, shape):
    """Tasks run one after the other, as on a GPU where cuBLAS multiplies. A task that runs twice would count paths
    twice."""
    A = rounding_matrix(rng, n, "plus_times", "float64")
    D = np.empty_like(A)

    def run(ranks):
        spread = spread_of(ranks, A, shape)
        engine = Engine(backend_for(A, sr.plus_times, A.dtype), make_plan(sr.plus_times, A.dtype, threads=1))
        transport = gpu_transports.DeviceTransport(
            Groups(ranks, spread.grid), lambda array, root, group: group.broadcast(array, root)
        )
        close_tiles(engine, transport, spread.grid, spread.own, diverges=False)
        D[np.ix_(spread.rows, spread.columns)] = spread.own

    run_ranks(shape[0] * shape[1], run)
    assert same_bits(D, sr.closure(A, "plus_times", method=METHOD))


@pytest.mark.full
@pytest.mark.parametrize(("name", "dtype"), each_value(CASES))
def test_every_semiring_and_dtype_on_every_grid(rng, name, dtype):
    """Each size of a case runs on two random grids, and on all grids in the exhaustive tier."""
    for size in [(1, 8), (2, 8), (33, 8), (65, 16), (64, 16), (50, 64), (97, 32)]:
        some = [SHAPES[at] for at in rng.choice(len(SHAPES), 2, replace=False)]
        _compare(rng, name, dtype, [size], SHAPES if tiers.selected_tier == "exhaustive" else some)


KINDS = [("min_plus", "float64"), ("max_plus", "int32"), ("boolean", "bool"), ("log_plus", "float32")]


@pytest.mark.parametrize("size", [1, pytest.param(3, marks=pytest.mark.full), 6])
@pytest.mark.parametrize(("name", "dtype"), quick(lambda name, _: name != "log_plus", KINDS))
def test_the_chain_goes_before_ranks_as_before_one(rng, name, dtype, size):
    A = rounding_matrix(rng, 97, name, dtype)
    assert same_bits(closed_by(size, A, name), sr.closure(A, name, method=METHOD))


def _heights(rng, n, dtype):
    h = rng.integers(0, 500, n)
    return (rng.integers(0, 1000, (n, n)) + h[:, None] - h).astype(dtype)


@pytest.mark.full
@pytest.mark.parametrize("dtype", ["float32", "int16", "int64"])
@pytest.mark.parametrize("name", ["min_plus", "max_plus"])
def test_weights_of_both_signs_are_closed_under_potentials(rng, name, dtype):
    A = _heights(rng, 97, dtype) * np.dtype(dtype).type(1 if name == "min_plus" else -1)
    A[rng.random(A.shape) < 0.4] = sr.as_semiring(name).zero_for(A.dtype)
    assert same_bits(closed_by(3, A, name), sr.closure(A, name, method=METHOD))


@pytest.mark.full
def test_weights_that_round_have_the_potentials_of_one_memory(rng):
    h = rng.random(300)  # larger than what is eliminated in memory at once
    A = (rng.random((300, 300)) + h[:, None] - h).astype(np.float32)
    assert same_bits(closed_by(4, A, "min_plus"), sr.closure(A, method=METHOD))


@pytest.mark.full
def test_products_that_gain_are_closed_under_factors(rng):
    p = 2.0 ** rng.integers(-3, 4, 97)
    A = rng.random((97, 97)) * 0.5 * p[:, None] / p
    assert same_bits(closed_by(6, A, "max_times"), sr.closure(A, "max_times", method=METHOD))


def _check_refused(A, name, error, text, size=4):
    with pytest.raises(error, match=text) as ours:
        closed_by(size, A, name)
    return ours.value


@pytest.mark.full
def test_what_is_wrong_with_the_entries_is_told_as_in_one_memory(rng):
    A = rng.random((97, 97))
    A[5, 70], A[70, 5] = 1.0, -3.0
    assert sorted(_check_refused(A, "min_plus", NegativeCycleError, "5 → 70 → 5").cycle) == [5, 70]
    A = rng.random((97, 97))
    A[50, 60] = np.nan
    assert _check_refused(A, "min_plus", DomainError, r"A\[50, 60\] is nan").position == (50, 60)
    A = np.zeros((97, 97))
    A[70, 70] = 1.0
    assert _check_refused(A, "plus_times", DivergenceError, "pivot of vertex 70").vertex == 70


@pytest.mark.full
def test_what_does_more_than_to_map_is_refused(rng):
    A = rng.random((40, 40))
    A[2, 3], A[3, :] = -np.inf, np.inf
    _check_refused(A, "min_plus", DomainError, r"A\[2, 3\] is -inf, an edge of unbounded gain")
    long = (rng.random((97, 97)) * 9000 + 9000).astype(np.int16)
    _check_refused(long, "min_plus", IntegerOverflowError, "convert the matrix to int32")


@pytest.mark.full
def test_no_semiring_without_a_star():
    starless = sr.Semiring("starless", "x + y", "x * y", 0.0, 1.0, domain="(-inf, inf)")
    _check_refused(np.zeros((3, 3)), starless, AlgebraError, "has no star", 2)


@pytest.mark.parametrize("size", [1, pytest.param(3, marks=pytest.mark.full), 4])
def test_the_rows_of_bertoldi_have_the_same_closure(rng, size):
    for name, dtype in [("min_plus", "float32"), ("min_plus", "int32"), ("boolean", "bool"), ("max_min", "float64")]:
        for n in (3, 40):
            A = matrices.matrix(rng, n, name, dtype)

            def run(ranks, A=A, name=name):
                grid = Grid(tuple(split_rows(len(A), size)), (size, 1))
                spread = TiledMatrix(ranks, grid, A[slice(*split_rows(len(A), size)[ranks.rank])].copy())
                request, transport = Request(None, Options(sr.as_semiring(name))), HostTransport(Groups(ranks, grid))
                distributed_closures.close_distributed(request, spread, transport, close=close_rows)
                return spread.own

            assert same_bits(np.concatenate(run_ranks(size, run)), sr.closure(A, name)), (name, dtype, n)


def test_the_rows_of_bertoldi_have_no_star():
    def run(ranks):
        grid = Grid(((0, 3),), (1, 1))
        request = Request(None, Options(sr.as_semiring("plus_times")))
        spread = TiledMatrix(ranks, grid, np.zeros((3, 3)))
        distributed_closures.close_distributed(request, spread, HostTransport(Groups(ranks, grid)), close=close_rows)

    with pytest.raises(AlgebraError, match=r"⊕ .* plus_times is not: pass method='blocked_floyd_warshall'$"):
        run_ranks(1, run)


def test_an_interrupt_while_ranks_are_submitted():
    """No thread works after the call, also one whose start the caller did not see."""
    worked = []

    class Interrupted(ThreadPoolExecutor):
        def submit(self, task, rank):
            future = super().submit(task, rank)
            if rank == 1:
                time.sleep(0.05)
                raise KeyboardInterrupt
            return future

    with Interrupted(2) as pool, pytest.raises(KeyboardInterrupt):
        run_ranks(2, lambda ranks: worked.append(ranks.rank), pool)
    assert not worked


# ------------------------------------------------------------------------------------------------------------ the model


def test_the_model_of_bytes_is_what_ranks_receive(rng):
    A, shape = rng.random((128, 128)), (2, 3)

    def run(ranks):
        spread = spread_of(ranks, A, shape)
        transport = HostTransport(Groups(ranks, spread.grid))
        engine = engine_for(A, sr.as_semiring("min_plus"), A.dtype, True, 1)
        close_tiles(engine, transport, spread.grid, spread.own, diverges=False)
        return transport.received_bytes

    model = tiles_bytes(128, shape, 32, 8)
    assert sum(run_ranks(6, run)) == model["rows of pivots"] + model["columns of pivots"] + model["blocks"]


def test_more_ranks_take_less_until_something_else_stops_them():
    times = [tiles_times(10**6, (p, p), 1024, 1e-13, 1e-5, 1e-10) for p in (1, 2, 8, 32, 512)]
    assert next(each.bottleneck for each in times) == "the products"
    assert all(after.products < before.products for before, after in itertools.pairwise(times))
    assert times[-1].bottleneck != "the products"
    assert row_broadcast_seconds(100, 1, 1.0, 1.0, 1.0) == 100**3
    assert row_broadcast_seconds(100, 4, 0.0, 0.0, 0.0, 2.0) == 200  # whatever the number of ranks


# ---------------------------------------------------------------------------------------------------------- the product


@pytest.mark.full
@pytest.mark.parametrize(
    ("name", "dtype"), [("min_plus", "float32"), ("plus_times", "float64"), ("log_plus", "float64")]
)
@pytest.mark.parametrize("shape", [(1, 1), (2, 3)])
def test_products_have_the_bits_of_one_memory(rng, name, dtype, shape):
    A, B = rounding_matrix(rng, 97, name, dtype), rounding_matrix(rng, 97, name, dtype)
    semiring, C = sr.as_semiring(name), np.empty((97, 97), dtype)

    def run(ranks):
        left, right = spread_of(ranks, A, shape), spread_of(ranks, B, shape)
        own = np.empty_like(left.own)
        engine = engine_for(own, semiring, own.dtype, False, 1)
        multiply_tiles(engine, HostTransport(Groups(ranks, left.grid)), left.grid, own, left.own, right.own)
        C[np.ix_(left.rows, left.columns)] = own

    run_ranks(shape[0] * shape[1], run)
    expected = np.empty_like(C)
    engine_for(C, semiring, C.dtype, False, 1).multiply(expected, A, B)
    if name == "log_plus":  # which multiplies a block of k by numbers
        np.testing.assert_allclose(C, expected, rtol=1e-14)
    else:
        assert same_bits(C, expected)


# -------------------------------------------------------------------------------------------------- what fails ends all


def test_an_error_of_one_rank_ends_all_of_them(rng):
    A = rng.random((97, 97))

    def run(ranks):
        spread = spread_of(ranks, A)
        engine = engine_for(A, sr.as_semiring("min_plus"), A.dtype, True, 1)

        def stop(done, total):
            if ranks.rank == 2 and done > total // 3:
                raise OSError("the disk of rank 2 is full")

        close_tiles(engine, HostTransport(Groups(ranks, spread.grid)), spread.grid, spread.own, progress=stop)

    with pytest.raises(OSError, match="rank 2 is full"):
        run_ranks(4, run)


def test_ranks_agree_about_an_error():
    seen = []

    def one(ranks):
        try:
            agree(ranks, lambda: 1 / (ranks.rank - 1))
        except ZeroDivisionError as error:
            seen.append(str(error))
        return agree(ranks, lambda: ranks.rank)

    assert run_ranks(3, one) == [0, 1, 2]
    assert len(seen) == 3


def test_who_waits_for_a_rank_that_failed_is_told():
    waited = []

    def run(ranks):
        if ranks.rank == 0:
            raise MemoryError
        try:
            ranks.allgather(None)
        except StoppedError as error:
            waited.append(str(error))

    with pytest.raises(MemoryError):
        run_ranks(3, run)
    assert waited == ["another rank has failed"] * 2


def test_an_overflow_of_one_rank_is_one_of_all(rng, monkeypatch):
    """Rank 1 alone finds the overflow, when the tiles are closed."""
    seen = []

    def undo(pieces, tiles, target):
        if spread_of_rank[id(tiles)] == 1:
            raise IntegerOverflowError("a distance does not fit")

    spread_of_rank = {}
    monkeypatch.setattr(distributed_closures, "_decode_tiles", undo)

    def run(ranks):
        spread = spread_of(ranks, A)
        spread_of_rank[id(spread.own)] = ranks.rank
        try:
            distributed_closures.close_distributed(
                Request(None, Options(sr.as_semiring("min_plus"))), spread, HostTransport(Groups(ranks, spread.grid))
            )
        except IntegerOverflowError:
            seen.append(ranks.rank)

    A = rng.random((97, 97))
    run_ranks(3, run)
    assert sorted(seen) == [0, 1, 2]


# ------------------------------------------------------------------------------------------------------- links of GPUs


class _Device:
    """The functions of CuPy that transports between GPUs call before they send data."""

    def __init__(self, count):
        self.cuda, self.runtime, self.wait_count = self, self, 0
        self.getDeviceCount = lambda: count

    def Device(self, number):
        return self

    def use(self): ...

    def get_current_stream(self):
        return self

    def synchronize(self):
        self.wait_count += 1


@pytest.mark.parametrize("aware", [True, False])
def test_ranks_that_share_a_gpu_leave_it_to_mpi_where_that_is_cuda_aware(monkeypatch, aware):
    there = _Device(1)
    monkeypatch.setattr(gpu_transports, "load_cupy", lambda *what: there)
    monkeypatch.setattr(gpu_transports, "is_cuda_aware", lambda: aware)

    def run(ranks):
        transport = gpu_transports.transport_of(Groups(ranks, Grid(blocks(97, "float32"), (1, 2))))
        array = np.full((3, 4), ranks.rank, np.float32)
        if aware:
            transport.broadcast(array, 1, "row")
            assert (array == 1).all()
        return transport._broadcast_array

    assert set(run_ranks(2, run)) == {
        gpu_transports._broadcast_by_mpi if aware else gpu_transports._broadcast_through_hosts
    }
    assert there.wait_count == 2 * aware


@pytest.mark.full
def test_whether_mpi_is_cuda_aware_can_be_asked():
    pytest.importorskip("mpi4py", reason="semiring.mpi needs mpi4py: pip install '.[mpi]'")
    assert is_cuda_aware() in (True, False)
