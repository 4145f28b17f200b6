"""Run the part of a rank of `tests/ranks/test_mpi.py`: ``mpiexec -n 4 python rank_program.py CASE FOLDER``."""

from __future__ import annotations

import itertools
import os
import signal
import sys
from importlib import import_module
from pathlib import Path

import in_ranks
import matrices
import numpy as np
import pytest
from strips import make_small, rounding_matrix, same_bits

import semiring as sr
from semiring import mpi
from semiring.errors import (
    AlgebraError,
    DeviceError,
    DivergenceError,
    DomainError,
    DTypeError,
    NegativeCycleError,
    NoPathError,
    ShapeError,
    StorageError,
    VertexError,
)

make_small(pytest.MonkeyPatch())
METHOD = in_ranks.METHOD


def everything(ranks, folder):
    """Run every case that works, with the same random numbers on all ranks."""
    rng = np.random.default_rng(0)
    for number, (name, dtypes) in enumerate(matrices.DTYPES.items()):  # covers each semiring and each dtype
        for dtype in dict.fromkeys((dtypes[number % len(dtypes)], dtypes[-2:][0])):
            closes(ranks, rounding_matrix(rng, 65, name, dtype), name)
    for n in (1, 2, 33, 97):
        closes(ranks, rounding_matrix(rng, n, "plus_times", "float64"), "plus_times")
    for dtype in ("float32", "int32"):
        h = rng.integers(0, 500, 97)
        closes(ranks, (rng.integers(0, 1000, (97, 97)) + h[:, None] - h).astype(dtype), "min_plus")
    closes(ranks, np.empty((0, 0)), "min_plus")
    A = matrices.matrix(rng, 50, "min_plus", "float32")
    D = mpi.closure(A if ranks.rank == 0 else None, method="row_broadcast")
    assert same_bits(D.own, sr.closure(A)[np.ix_(D.rows, D.columns)])
    halves(ranks, rng)
    storage(ranks, rng, folder)
    files(ranks, rng, folder)
    products(ranks, rng)
    paths(ranks, rng)
    errors(ranks, rng, folder)


def halves(ranks, rng):
    """Close float16 and bfloat16 in float32 and round once, as on one process."""
    bfloat16 = np.dtype(import_module("ml_dtypes").bfloat16)
    cases = [("min_plus", "float16"), ("min_plus", bfloat16), ("max_times", "float16"), ("max_min", "float16")]
    for name, dtype in cases:
        A = rounding_matrix(rng, 97, name, "float32").astype(dtype)
        for method in (METHOD, "row_broadcast") if name == "min_plus" else (METHOD,):
            D = mpi.closure(A if ranks.rank == 0 else None, name, method=method)
            expected = sr.closure(A.astype(np.float32), name, method=METHOD).astype(dtype)
            assert same_bits(D.own, expected[np.ix_(D.rows, D.columns)]), (name, dtype, method)
    heights = rng.random(97)
    A = (rounding_matrix(rng, 97, "min_plus", "float64") + heights - heights[:, None]).astype(np.float16)
    D = mpi.closure(A if ranks.rank == 0 else None)
    np.testing.assert_allclose(D.own, sr.closure(A)[np.ix_(D.rows, D.columns)], rtol=2e-3, atol=2e-3)


def files(ranks, rng, folder):
    """Close files by strips, in runs that another number of ranks has begun."""
    for name, dtype in [("min_plus", "float32"), ("plus_times", "float64")]:
        A = rounding_matrix(rng, 97, name, dtype)
        path, journal = folder / f"{name}.npy", folder / f"{name}.run"
        if ranks.rank == 0:
            np.save(path, A)
            with pytest.raises(KeyboardInterrupt):
                sr.closure(path, name, out=path, journal=journal, memory="150 KiB", progress=halfway)
        ranks.allgather(None)
        found = mpi.closure(path, name, out=path, journal=journal)
        assert same_bits(found, sr.closure(A, name, method=METHOD))
        assert same_bits(mpi.closure(path, name, out=path, journal=journal), found)
        other = folder / f"{name} of ranks.npy"
        found = mpi.closure(
            matrix_in(ranks, folder, A), name, out=other, journal=folder / f"{name} of ranks", memory="150 KiB"
        )
        assert same_bits(found, sr.closure(A, name, method=METHOD))
    with pytest.raises(StorageError, match="journal="):
        mpi.closure(path, out=path, memory="1 GiB")
    empty = mpi.closure(matrix_in(ranks, folder, np.empty((0, 0))), out=folder / "empty.npy", journal=folder / "none")
    assert empty.shape == (0, 0)


def gpus(ranks, folder):
    """Close on GPUs with the bits of one GPU, by NCCL, or through the host if ranks share a GPU."""
    rng, first = np.random.default_rng(0), ranks.rank == 0
    cases = [("min_plus", "float32"), ("min_plus", "int64"), ("max_plus", "int32"), ("max_min", "int16")]
    for name, dtype in [*cases, ("boolean", "bool"), ("min_plus", "float64"), ("min_plus", "float16")]:
        for n in (65, 1100, 2100):
            A = rounding_matrix(rng, n, name, dtype)
            D = mpi.closure(A if first else None, name, device="cuda")
            expected = sr.closure(A, name, method=METHOD, device="cuda")
            assert same_bits(D.own, expected[np.ix_(D.rows, D.columns)]), (name, dtype, n)
        B = rounding_matrix(rng, n, name, dtype)
        C = mpi.matmul(A if first else None, B if first else None, name, device="cuda")
        assert same_bits(C.own, sr.matmul(A, B, name)[np.ix_(C.rows, C.columns)]), (name, dtype)
    for name in ("plus_times", "log_plus"):
        A = rounding_matrix(rng, 1100, name, "float64")
        D = mpi.closure(A if first else None, name, device="cuda")
        expected = sr.closure(A, name)
        # some logarithms are near 0
        np.testing.assert_allclose(D.own, expected[np.ix_(D.rows, D.columns)], 1e-12, 1e-14)
        C = mpi.matmul(D, D, name)
        np.testing.assert_allclose(C.own, sr.matmul(expected, expected, name)[np.ix_(C.rows, C.columns)], 1e-12, 1e-14)
    h = rng.integers(0, 500, 1100)
    A = (rng.integers(0, 1000, (1100, 1100)) + h[:, None] - h).astype(np.float32)
    D = mpi.closure(A if first else None, device="cuda")
    assert same_bits(D.own, sr.closure(A, method=METHOD)[np.ix_(D.rows, D.columns)])
    with mpi.shortest_paths(A if first else None, device="cuda") as found:
        for source, target in np.random.default_rng(ranks.rank).integers(0, 1100, (3, 2)).tolist():
            walks(found, A, sr.closure(A, method=METHOD), source, target, "min_plus")
    assert same_bits(mpi.closure(A if first else None, method="row_broadcast", device="cuda").own, D.own)
    B = A.copy()
    B[7, 9] = B[9, 7] = -9000
    with pytest.raises(NegativeCycleError):
        mpi.closure(B if first else None, device="cuda")


def communicators(ranks, folder):
    """Use two communicators, of which MPI gives the second the number that the first had."""
    world, numbers = ranks.comm, []
    for group in (ranks.rank % 2, ranks.rank // 2):
        comm = world.Split(group, ranks.rank)
        numbers.append(comm.py2f())
        M = mpi.distribute(np.full((2, 2), 10.0 * group), comm=comm)
        assert (M.gather() is None) == (comm.rank > 0)
        assert set(mpi.closure(M).own.ravel()) <= {0.0, 10.0 * group}
        comm.Free()
    assert numbers[0] == numbers[1]  # otherwise the case would show nothing


def halfway(done, total):
    if done > total // 2:
        raise KeyboardInterrupt


def matrix_in(ranks, folder, A):
    if ranks.rank == 0:
        np.save(folder / "again.npy", A)
    ranks.allgather(None)
    return folder / "again.npy"


def closes(ranks, A, name):
    expected = sr.closure(A, name, method=METHOD, threads=1)
    D = mpi.closure(A if ranks.rank == 0 else None, name, threads=1)
    assert same_bits(D.own, expected[np.ix_(D.rows, D.columns)]), (name, A.dtype, len(A))


def storage(ranks, rng, folder):
    A = rng.random((97, 97)).astype(np.float32)
    cuts = np.sort(np.random.default_rng(1).integers(0, 98, ranks.size - 1))  # some ranks may have no row
    ends = [0, *cuts.tolist(), 97]
    M = mpi.from_rows(A[ends[ranks.rank] : ends[ranks.rank + 1]])
    assert same_bits(M.own, A[np.ix_(M.rows, M.columns)])
    first, rows = M.to_rows()
    assert same_bits(rows, A[first : first + len(rows)])
    for root in range(ranks.size):
        whole = M.gather(root)
        assert whole is None if root != ranks.rank else same_bits(whole, A)
    M.write(folder / "A.npy")
    assert same_bits(np.load(folder / "A.npy"), A)
    read = mpi.read(folder / "A.npy")
    assert same_bits(read.own, M.own)
    assert mpi.closure(read, out=read) is read
    assert same_bits(read.own, sr.closure(A, method=METHOD)[np.ix_(M.rows, M.columns)])
    assert same_bits(mpi.closure(folder / "A.npy" if ranks.rank == 0 else None).own, read.own)
    with pytest.raises(StorageError, match=r"mpi\.closure\('big\.npy'\)\.write"):
        mpi.closure(folder / "A.npy", out=folder / "D.npy")
    assert same_bits(M.own, A[np.ix_(M.rows, M.columns)])
    if ranks.rank == 0:
        np.save(folder / "turned.npy", np.asfortranarray(A))
    ranks.allgather(None)
    assert same_bits(mpi.read(folder / "turned.npy").own, M.own)


def products(ranks, rng):
    for name, dtype in [("min_plus", "float32"), ("plus_times", "float64"), ("min_plus", "int16"), ("boolean", "bool")]:
        A, B = rounding_matrix(rng, 97, name, dtype), rounding_matrix(rng, 97, name, dtype)
        first = ranks.rank == 0
        C = mpi.matmul(A if first else None, B if first else None, name)
        assert same_bits(C.own, sr.matmul(A, B, name)[np.ix_(C.rows, C.columns)]), name
        unchecked = mpi.matmul(A if first else None, B if first else None, name, check=False)
        assert same_bits(C.own, unchecked.own), name
    A = rng.random((600, 600)).astype(np.float16)
    C = mpi.matmul(A if first else None, A if first else None, "plus_times")  # added up in float32, and rounded once
    np.testing.assert_allclose(C.own, sr.matmul(A, A, "plus_times")[np.ix_(C.rows, C.columns)], rtol=2**-10)


def paths(ranks, rng):
    for name in ("min_plus", "max_min"):
        A = np.where(rng.random((60, 60)) < 0.1, rng.integers(0, 5, (60, 60)), np.inf).astype(np.float64)
        if name == "max_min":
            A[np.inf == A] = -np.inf
        A[:, 7] = sr.as_semiring(name).zero_for(A.dtype)
        expected, own = sr.closure(A, name), np.random.default_rng(ranks.rank)
        with mpi.best_paths(A if ranks.rank == 0 else None, name) as found:
            if ranks.rank == ranks.size - 1:  # the remaining ranks do not help
                for source, target in own.integers(0, 60, (6, 2)).tolist():
                    walks(found, A, expected, source, target, name)
                with pytest.raises(NoPathError, match="from 3 to 7"):
                    found.path(3, 7)
                with pytest.raises(VertexError):
                    found.distance(0, 60)


def walks(paths, A, expected, source, target, name):
    zero = sr.as_semiring(name).zero_for(A.dtype)
    assert paths.distance(source, target) == expected[source, target]
    if expected[source, target] == zero:
        return
    path = paths.path(source, target)
    assert (path[0], path[-1]) == (source, target)
    edges = [A[i, j] for i, j in itertools.pairwise(path)]
    if edges:
        assert (sum(edges) if name == "min_plus" else min(edges)) == expected[source, target]


def errors(ranks, rng, folder):
    """Check errors that all ranks raise alike."""
    first, A = ranks.rank == 0, rng.random((97, 97))
    for change, error, text in [
        (((5, 70), 1.0), None, ""),
        (((70, 5), -3.0), NegativeCycleError, "5 → 70 → 5"),
        (((50, 60), np.nan), DomainError, r"A\[50, 60\] is nan"),
    ]:
        A[change[0]] = change[1]
        if error is not None:
            with pytest.raises(error, match=text):
                mpi.closure(A if first else None)
    with pytest.raises(DomainError, match=r"A\[50, 60\] is nan"):
        mpi.matmul(A if first else None, A if first else None, "max_min")
    unchecked = mpi.matmul(A if first else None, A if first else None, "max_min", check=False)
    assert mpi.closure(unchecked, "max_min", check=False).n == 97
    with pytest.raises(TypeError, match="check is True or False"):
        mpi.best_paths(A if first else None, check="no")
    B = np.zeros((97, 97))
    B[70, 70] = 1.0
    with pytest.raises(DivergenceError, match="vertex 70"):
        mpi.closure(B if first else None, "plus_times")
    with pytest.raises(ShapeError, match="a square matrix is needed"):
        mpi.closure(np.zeros((3, 4)) if first else None)
    with pytest.raises(ShapeError, match=f"{ranks.size} rows in all"):
        mpi.from_rows(np.zeros((1, 50)))
    with pytest.raises(ShapeError, match="has 1 dimensions"):
        mpi.from_rows(np.zeros(50 if ranks.rank == ranks.size - 1 else (1, ranks.size)))
    with pytest.raises(FileNotFoundError):
        mpi.read(folder / "none.npy")
    with pytest.raises(DTypeError):
        mpi.matmul(np.zeros((3, 3)) if first else None, np.zeros((3, 3), np.float32) if first else None)
    others = mpi.distribute(np.zeros((3, 3)), comm=ranks.comm.Create_group(ranks.comm.group.Incl([ranks.rank])))
    with pytest.raises(DeviceError, match="the same comm"):
        mpi.matmul(others, mpi.distribute(np.zeros((3, 3)) if first else None))
    with pytest.raises(AlgebraError, match="adds paths instead"):
        mpi.best_paths(B if first else None, "plus_times")


def one_fails(ranks, folder):
    def progress(done, total):
        if ranks.rank == ranks.size - 1 and done > total // 3:
            raise RuntimeError("the power of this rank is gone")

    mpi.closure(np.random.default_rng(0).random((200, 200)) if ranks.rank == 0 else None, progress=progress)


def one_fails_outside(ranks, folder):
    if ranks.rank == 1:
        raise OSError("this rank finds no disk")
    mpi.closure(np.zeros((3, 3)) if ranks.rank == 0 else None)


def one_exits(ranks, folder):
    if ranks.rank == 1:
        sys.exit(0)
    mpi.closure(np.zeros((3, 3)) if ranks.rank == 0 else None)


def one_is_killed(ranks, folder):
    def progress(done, total):
        if ranks.rank == 1:
            os.kill(os.getpid(), signal.SIGKILL)

    mpi.closure(np.random.default_rng(0).random((200, 200)) if ranks.rank == 0 else None, progress=progress)


if __name__ == "__main__":
    with mpi.together() as ranks:
        globals()[sys.argv[1]](ranks, Path(sys.argv[2]))
    if ranks.rank == 0:
        print(f"{sys.argv[1]} on {ranks.size} ranks")
