"""Compute closures, products and paths of matrices that MPI processes hold in tiles, for `semiring.mpi`."""

from __future__ import annotations

import itertools
import os
import secrets
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any, TypedDict, Unpack, overload

import numpy as np

from semiring.advice import option, quote
from semiring.algebra import Semiring
from semiring.algebra.catalogue import as_semiring
from semiring.algebra.expressions.tree import is_floating, is_half
from semiring.algorithms.papers.bertoldi import close_rows
from semiring.algorithms.schedule import schedule_for
from semiring.arguments import check_flags, is_one_of
from semiring.arrays.encoding import decode, round_to_dtype
from semiring.arrays.parts import to_host_array
from semiring.closures.distributed_closures import close_distributed, close_file, scan_distributed
from semiring.closures.problem import Options
from semiring.closures.request import Request
from semiring.distributed.closing import close_tiles, multiply_tiles
from semiring.distributed.grid import Grid, Range, grid_shape
from semiring.distributed.mpi_communicator import MpiRanks, load_mpi
from semiring.distributed.tiled_matrix import TiledMatrix, collect_rows, distribute_rows, split_rows
from semiring.distributed.transports import Groups, HostTransport, Transport, agree
from semiring.errors import (
    AlgebraError,
    DeviceError,
    DTypeError,
    NoPathError,
    SemiringError,
    ShapeError,
    StorageError,
    UnknownNameError,
    VertexError,
    square_error,
)
from semiring.io.atomic import sync_folder
from semiring.io.files import is_npy_name
from semiring.kernels import backend_for
from semiring.kernels.contract import Facts, KernelPlan
from semiring.kernels.nearest_trees import nearest_tree, path_sums
from semiring.kernels.tolerance import tolerance_for
from semiring.linalg.dispatch import (
    choose_encoding,
    demand_range,
    encode_operand,
    engine_for,
    may_wrap,
    scan_operands,
    scanned_magnitude,
)
from semiring.namespaces import Array, array_namespace
from semiring.out_of_core.stored_matrix import StoredMatrix, as_stored
from semiring.out_of_core.strip_layout import free_memory
from semiring.progress import Progress, open_progress
from semiring.thread_counts import check_threads, get_threads

__all__ = [
    "DistributedMatrix",
    "DistributedPaths",
    "best_paths",
    "closure",
    "distribute",
    "from_rows",
    "matmul",
    "read",
    "shortest_paths",
    "together",
]


class DistributedMatrix:
    """A square matrix of which every rank of a communicator holds tiles.

    `read`, `distribute` and `from_rows` return it.

    Parameters
    ----------
    context : object
        The ranks of the communicator, and their devices.
    grid : Grid
        The distribution of the tiles over the ranks.
    own : array, shape (rows, columns)
        The tiles of this rank.

    Attributes
    ----------
    n : int
        The number of rows.
    dtype : dtype
        The type of the entries.
    comm : mpi4py.MPI.Comm
        The communicator.
    own : array, shape (rows, columns)
        The tiles of this rank, an array of the host.
    rows, columns : array of int
        The vertices of the tiles, in increasing order.
    """

    def __init__(self, context: _RankContext, grid: Grid, own: Array) -> None:
        self._context, self._tiles = context, TiledMatrix(context.ranks, grid, own)
        self.n, self.dtype, self.comm, self.own = grid.n, own.dtype, context.comm, own
        self.rows, self.columns = self._tiles.rows, self._tiles.columns

    def __repr__(self) -> str:
        p, q = self._tiles.grid.shape
        return f"<DistributedMatrix of {self.n} × {self.n} {self.dtype} on {p} × {q} ranks>"

    def copy(self) -> DistributedMatrix:
        """Return a matrix with the same entries in new tiles.

        Returns
        -------
        DistributedMatrix
            The copy, on the same ranks.
        """
        return DistributedMatrix(self._context, self._tiles.grid, self.own.copy())

    def gather(self, root: int = 0) -> Array | None:
        """Return the whole matrix as an array on one rank.

        Parameters
        ----------
        root : int, default 0
            The rank that receives the matrix.

        Returns
        -------
        array, shape (n, n), or None
            The matrix on the rank ``root``, and None on the other ranks.
        """
        ranks = self._context.ranks
        row_ranges = [(0, self.n if rank == root else 0) for rank in range(ranks.size)]
        matrix = collect_rows(ranks, self._tiles.grid, row_ranges, self.own)
        return matrix if ranks.rank == root else None

    def to_rows(self) -> tuple[int, Array]:
        """Return consecutive rows of equal number on each rank.

        Returns
        -------
        first : int
            The index of the first row on this rank.
        rows : array, shape (rows, n)
            The rows. Their numbers differ by at most one between ranks.
        """
        ranks = self._context.ranks
        row_ranges = split_rows(self.n, ranks.size)
        return row_ranges[ranks.rank][0], collect_rows(ranks, self._tiles.grid, row_ranges, self.own)

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write an .npy file, each rank its tiles.

        The file appears when it is complete and on the disk.

        Parameters
        ----------
        path : str or path-like
            The name of the file.

        Raises
        ------
        OSError
            If a rank cannot write the file. All ranks raise the error.

        Notes
        -----
        All ranks need one file system, and write parts of the same page at the same time. Across hosts, use a parallel
        file system such as Lustre or GPFS. NFS between hosts may lose writes of a rank: use `gather` there, and save
        the array.
        """
        ranks, name = self._context.ranks, os.fspath(path)
        temporary = ranks.allgather(f"{name}.{secrets.token_hex(4)}.tmp")[0]

        def make() -> None:
            if ranks.rank == 0:
                np.lib.format.open_memmap(temporary, "w+", self.dtype, (self.n, self.n)).flush()

        def fill() -> None:
            if self.own.size:
                whole = np.lib.format.open_memmap(temporary, "r+")
                for (rows, own_rows), (columns, own_columns) in self._parts():
                    whole[rows, columns] = self.own[own_rows, own_columns]
                whole.flush()
                with open(temporary, "rb") as stream:
                    os.fsync(stream.fileno())

        def appear() -> None:
            if ranks.rank == 0:
                os.replace(temporary, name)
                sync_folder(Path(name).resolve().parent)

        try:
            agree(ranks, make)
            agree(ranks, fill)
            agree(ranks, appear)
        finally:
            if ranks.rank == 0 and os.path.exists(temporary):
                os.remove(temporary)

    def _parts(self) -> list[tuple[tuple[slice, slice], tuple[slice, slice]]]:
        """Return the slices of each tile in the whole matrix and in the memory of this rank."""
        grid, rank = self._tiles.grid, self._context.ranks.rank
        return [(rows, columns) for rows in grid.rows(rank).parts() for columns in grid.columns(rank).parts()]


class _RankContext:
    """The ranks of a communicator, and the devices on which they compute."""

    def __init__(self, comm: Any, device: Any) -> None:
        if device is not None and not is_one_of(device, ("cuda",)):
            raise DeviceError(f"device is {quote(device)}: pass None for the CPU, or 'cuda' for a GPU of each rank")
        self.comm, self.device = load_mpi().COMM_WORLD if comm is None else comm, device
        self.ranks = _cached_ranks(self.comm)

    def grid(self, n: int, dtype: np.dtype[Any], semiring: Semiring | None = None) -> Grid:
        """Return the distribution of an n × n matrix, in the blocks of the schedule of rank 0."""
        name = "cuda" if self.device else backend_for(None, as_semiring("min_plus"), np.dtype(np.float32)).name
        closed_in = np.dtype(np.float32) if is_half(dtype) else dtype
        blocks = self.ranks.allgather(tuple(schedule_for(name, closed_in).blocks(n)))[0]
        return Grid(blocks, grid_shape(self.ranks.size))

    def transport(self, grid: Grid) -> Transport:
        """Return the transport of a grid, created once for a communicator."""
        transports: dict[Any, Transport] = self.ranks.transports
        key = grid.shape, self.device
        if key not in transports:
            groups = Groups(self.ranks, grid)
            if self.device is None:
                transports[key] = HostTransport(groups)
            else:
                from semiring.distributed.gpu_transports import transport_of

                transports[key] = transport_of(groups)
        return transports[key]

    def to_device(self, tiles: Array) -> Any:
        """Return the tiles on the device of this rank."""
        if self.device is None:
            return tiles
        from semiring.distributed.gpu_transports import rank_device

        return rank_device(self.ranks).copy_to_device(tiles)


_METHODS: dict[str, Callable[..., int]] = {"blocked_floyd_warshall": close_tiles, "row_broadcast": close_rows}


@cache
def _attribute_key() -> int:
    """Return the key of the attribute that caches the ranks of a communicator."""
    return int(load_mpi().Comm.Create_keyval())


def _cached_ranks(comm: Any) -> MpiRanks:
    """Return the ranks of a duplicate of a communicator, so that messages cannot match those of the caller.

    The duplicate is cached as an attribute of ``comm``, which MPI deletes with it. The handle of a communicator is no
    cache key, because MPI reuses the handle of a freed communicator.
    """
    ranks: MpiRanks | None = comm.Get_attr(_attribute_key())
    if ranks is None:
        ranks = MpiRanks(comm.Dup())
        comm.Set_attr(_attribute_key(), ranks)
    return ranks


@contextmanager
def together(comm: Any = None) -> Iterator[MpiRanks]:
    """Return a context for a task of all ranks, in which an error of one rank ends all, and prints its rank.

    Parameters
    ----------
    comm : mpi4py.MPI.Comm, optional
        A communicator, by default all ranks, ``MPI.COMM_WORLD``.

    Yields
    ------
    MpiRanks
        The ranks of the communicator, with their number ``size`` and the own number ``rank``.

    Raises
    ------
    MissingExtraError
        If mpi4py or an MPI library is not installed.

    Notes
    -----
    Errors of this module that all ranks raise alike propagate to the caller. ``python -m mpi4py`` does the same for a
    whole program, with a traceback.
    """
    ranks = _cached_ranks(load_mpi().COMM_WORLD if comm is None else comm)
    try:
        yield ranks
    except BaseException as error:
        if not (isinstance(error, SemiringError) or getattr(error, "everywhere", False)):
            ranks.stop(error)
        raise


def read(path: str | os.PathLike[str], *, comm: Any = None, device: Any = None) -> DistributedMatrix:
    """Read the matrix (n, n) of an .npy file, each rank its own tiles.

    All ranks need the same file system.

    Parameters
    ----------
    path : str or path-like
        The name of the file, to which ".npy" is appended if it lacks this ending.
    comm : mpi4py.MPI.Comm, optional
        A communicator of mpi4py, by default all ranks, ``MPI.COMM_WORLD``.
    device : str, optional
        None computes on threads of the host, and ``"cuda"`` on a GPU for each rank of a host.

    Returns
    -------
    DistributedMatrix
        The matrix in tiles.

    Raises
    ------
    OSError, FormatError, ShapeError, DTypeError
        On all ranks, if the file cannot be read, is damaged, or holds no square matrix of numbers.
    DeviceError
        If ``device`` is neither None nor ``"cuda"``.
    MissingExtraError
        If mpi4py or an MPI library is not installed.
    """
    context = _RankContext(comm, device)
    result: StoredMatrix = agree(
        context.ranks, lambda: as_stored(os.fspath(path) + ("" if str(path).endswith(".npy") else ".npy"))
    )
    grid = context.grid(result.n, result.dtype)

    def tiles() -> Array:
        rows, columns = grid.rows(context.ranks.rank), grid.columns(context.ranks.rank)
        own = np.empty((len(rows), len(columns)), result.dtype)
        if own.size:
            whole = result.view()
            whole = whole.T if result.is_column_major else whole
            for whole_rows, own_rows in rows.parts():
                for beside, place in columns.parts():
                    own[own_rows, place] = whole[whole_rows, beside]
        return own

    return DistributedMatrix(context, grid, agree(context.ranks, tiles))


def distribute(A: Any, *, comm: Any = None, device: Any = None) -> DistributedMatrix:
    """Distribute the matrix of rank 0 over all ranks.

    Parameters
    ----------
    A : array_like, shape (n, n)
        The matrix on rank 0. The arguments of other ranks are ignored.
    comm : mpi4py.MPI.Comm, optional
        A communicator, as in `read`.
    device : str, optional
        None or ``"cuda"``, as in `read`.

    Returns
    -------
    DistributedMatrix
        The matrix in tiles, in the dtype of A.

    Raises
    ------
    ShapeError, DTypeError
        On all ranks, if A is not a square matrix, or its entries are not numbers in the byte order of the machine.
    DeviceError, MissingExtraError
        As in `read`.
    """
    context = _RankContext(comm, device)
    ranks = context.ranks
    array = agree(ranks, lambda: _check_square(A) if ranks.rank == 0 else None)
    n, dtype = ranks.allgather(None if array is None else (len(array), array.dtype))[0]
    row_ranges = [(0, n if rank == 0 else 0) for rank in range(ranks.size)]
    grid = context.grid(n, dtype)
    return DistributedMatrix(context, grid, distribute_rows(ranks, grid, row_ranges, array, dtype))


def from_rows(rows: Any, *, comm: Any = None, device: Any = None) -> DistributedMatrix:
    """Return the matrix whose rows are those of each rank, by increasing rank.

    Parameters
    ----------
    rows : array_like, shape (m, n)
        The rows of this rank, whose number m may be 0.
    comm : mpi4py.MPI.Comm, optional
        A communicator, as in `read`.
    device : str, optional
        None or ``"cuda"``, as in `read`.

    Returns
    -------
    DistributedMatrix
        The matrix (n, n) in tiles, in the dtype of the rows.

    Raises
    ------
    ShapeError
        If the rows of all ranks do not form a square matrix.
    DTypeError
        If the rows of the ranks differ in dtype, or their entries are not numbers in the byte order of the machine.
    DeviceError, MissingExtraError
        As in `read`.
    """
    context = _RankContext(comm, device)
    ranks = context.ranks
    array = agree(ranks, lambda: _check_rows(rows))
    shapes = ranks.allgather((array.shape, array.dtype))
    counts, widths = [shape[0] for shape, _ in shapes], {shape[1] for shape, _ in shapes}
    if len({dtype for _, dtype in shapes}) > 1:
        listing = ", ".join(str(dtype) for _, dtype in shapes)
        raise DTypeError(f"the rows of the ranks have the dtypes {listing}: convert them to one dtype")
    if widths != {sum(counts)}:
        listing = ", ".join(str(shape) for shape, _ in shapes)
        raise ShapeError(
            f"the ranks have rows of the shapes {listing}, {sum(counts)} rows in all: together they must be square"
        )
    ends = np.cumsum([0, *counts]).tolist()
    row_ranges: list[Range] = list(itertools.pairwise(ends))
    grid = context.grid(ends[-1], array.dtype)
    return DistributedMatrix(context, grid, distribute_rows(ranks, grid, row_ranges, array, array.dtype))


def _check_square(A: Any) -> Array:
    """Return a square matrix as a NumPy array. Raises `ShapeError` and `DTypeError`."""
    array = _check_rows(A)
    if array.shape[0] != array.shape[1]:
        raise square_error(array.shape)
    return array


def _check_rows(A: Any) -> Array:
    """Return rows as a NumPy array. Raises `ShapeError` and `DTypeError`."""
    array = np.asarray(A)
    if array.ndim != 2:
        raise ShapeError(f"A has {array.ndim} dimensions, shape {array.shape}: a matrix has two")
    if array.dtype.hasobject or not array.dtype.isnative:
        raise DTypeError(f"A has dtype {array.dtype}: numbers in the byte order of this machine are needed")
    return array


def _as_matrix(A: Any, comm: Any, device: Any) -> DistributedMatrix:
    """Return A itself, the matrix of the file A, or the array A of rank 0, distributed."""
    if isinstance(A, DistributedMatrix):
        return A
    names = _RankContext(comm, device).ranks.allgather(os.fspath(A) if is_npy_name(A) else None)
    name = names[0]  # the name on rank 0 counts, as an array of rank 0 does
    if name is not None:
        return read(name, comm=comm, device=device)
    return distribute(A, comm=comm, device=device)


def _make_request(semiring: Semiring | str | None, check: bool, threads: int | None) -> Request:
    check_flags({"check": check})
    count = get_threads() if threads is None else check_threads(threads)
    return Request(None, Options(as_semiring(semiring), "auto", count, check))


class _TiledClosureOptions(TypedDict, total=False):
    """The options of both overloads of `closure`."""

    method: str
    progress: Progress | bool | None
    check: bool
    threads: int | None
    comm: Any
    device: Any


@overload
def closure(
    A: str | os.PathLike[str],
    semiring: Semiring | str | None = ...,
    *,
    out: str | os.PathLike[str],
    memory: int | str | None = ...,
    journal: str | os.PathLike[str],
    **options: Unpack[_TiledClosureOptions],
) -> Array: ...
@overload
def closure(
    A: Any,
    semiring: Semiring | str | None = ...,
    *,
    out: DistributedMatrix | None = ...,
    **options: Unpack[_TiledClosureOptions],
) -> DistributedMatrix: ...
def closure(
    A: Any,
    semiring: Semiring | str | None = None,
    *,
    method: str = "blocked_floyd_warshall",
    out: DistributedMatrix | str | os.PathLike[str] | None = None,
    memory: int | str | None = None,
    journal: str | os.PathLike[str] | None = None,
    progress: Progress | bool | None = None,
    check: bool = True,
    threads: int | None = None,
    comm: Any = None,
    device: Any = None,
) -> Any:
    """Compute the closure A* = I ⊕ A ⊕ A² ⊕ … by all ranks together, as `semiring.closure` does.

    Parameters
    ----------
    A : DistributedMatrix, array_like of shape (n, n), str or path-like
        A `DistributedMatrix`, an array of rank 0, or the name of an .npy file. An array is distributed, and a file is
        `read`. With ``journal`` the matrix stays in the file.
    semiring : Semiring or str, optional
        A `Semiring` with a star, or a name of the catalogue. The default is min-plus.
    method : str, default "blocked_floyd_warshall"
        ``"blocked_floyd_warshall"``, or for comparison ``"row_broadcast"``, the algorithm of Bertoldi. There rows are
        scattered, and the row of every pivot is broadcast. It is algorithm 2 of the paper with one thread, algorithm 6
        with several, and algorithm 7 with ``device="cuda"``. It needs an idempotent ⊕, and pivots that need no star.
    out : DistributedMatrix, str or path-like, optional
        A itself, to close it in place. By default the result is a new `DistributedMatrix`. With ``journal`` it is the
        name of an .npy file, which may be that of A.
    memory : int or str, optional
        The memory in which each rank closes some strips of a file, as in `semiring.closure`. The default is its share
        of the free memory.
    journal : str or path-like, optional
        The name of a file that records the progress of a closure of a file by strips of rows, as in `semiring.closure`.
        The journal has the same format: an interrupted run continues with any number of ranks, including one process.
        All ranks need one file system, on which writes of a rank are visible to the others at once. NFS between hosts
        is not such a system.
    progress : callable or bool, optional
        ``progress(done, total)``, called on every rank with the progress of that rank.
    check : bool, default True
        Whether to validate the entries, as in `semiring.closure`, with one value on all ranks.
    threads : int, optional
        The number of threads of each rank, by default that of `get_threads`.
    comm : mpi4py.MPI.Comm, optional
        A communicator, as in `read`, if A is no `DistributedMatrix`.
    device : str, optional
        None or ``"cuda"``, as in `read`, if A is no `DistributedMatrix`.

    Returns
    -------
    DistributedMatrix or memory map, shape (n, n)
        The closure. With ``journal`` it is the memory map of the file.

    Raises
    ------
    IntegerOverflowError
        For integers that would need a wider dtype during the computation, on all ranks.
    UnknownNameError
        For another method.
    StorageError
        If ``out`` names a file without a journal, or ``memory`` and ``journal`` do not come with the names of two
        files.
    ValueError
        If ``out`` is another matrix than A.
    NegativeCycleError, DivergenceError, DomainError, DTypeError, ShapeError
        As in `semiring.closure`, on all ranks.
    OSError, FormatError, DeviceError, MissingExtraError
        As in `read`.

    Notes
    -----
    Weights of both signs are closed under potentials, which take at most eight sweeps over the matrix. Integers are
    closed in their own dtype, if distances fit half its range. float16 and bfloat16 are closed in float32, and rounded
    once.

    The cost is n³ / ranks pairs. Each rank receives some 2 n² / √ranks entries, during the computation.
    """
    if method not in _METHODS:
        raise UnknownNameError("closure method for ranks", method, _METHODS)
    request = _make_request(semiring, check, threads)
    if journal is not None or memory is not None:
        with open_progress(progress, "closure") as callback:
            return _close_file_by_strips(request, A, out, memory, journal, method, callback, _RankContext(comm, device))
    if is_npy_name(out):
        raise StorageError(
            f"out= names a file, which ranks write only with a journal: pass {option('journal')}, or write the result, "
            "mpi.closure('big.npy').write('closed.npy')"
        )
    matrix = _as_matrix(A, comm, device)
    if out is not None and out is not A:
        raise ValueError("out is another matrix than A: pass A itself, or leave out= out")
    closed = matrix if out is not None or matrix is not A else matrix.copy()
    context = closed._context
    distributed, ranks = closed._tiles, context.ranks
    if method == "row_broadcast":
        row_ranges = split_rows(closed.n, ranks.size)
        grid = Grid(tuple(row_ranges), (ranks.size, 1))
        distributed = TiledMatrix(ranks, grid, closed.to_rows()[1])
    if is_half(closed.dtype):  # the tiles are closed in float32, and rounded once
        request = replace(request, rounded_to=closed.dtype)
        tiles = agree(ranks, partial(distributed.own.astype, np.float32))
        distributed = TiledMatrix(ranks, distributed.grid, tiles)
    transport, close = context.transport(distributed.grid), _METHODS[method]
    with open_progress(progress, "closure") as callback:
        close_distributed(request, distributed, transport, place=context.to_device, close=close, progress=callback)
    own = round_to_dtype(distributed.own, closed.dtype)
    if method == "row_broadcast":
        closed.own[...] = distribute_rows(ranks, closed._tiles.grid, row_ranges, own, closed.dtype)
    elif own is not closed.own:
        closed.own[...] = own
    return closed


def _close_file_by_strips(
    request: Request, A: Any, out: Any, memory: Any, journal: Any, method: str, progress: Any, context: _RankContext
) -> Any:
    """Compute the closure of a file by strips into a file, with a journal. Raises `StorageError`."""
    if (
        journal is None
        or not (is_npy_name(A) and is_npy_name(out))
        or method == "row_broadcast"
        or context.device is not None
    ):
        raise StorageError(
            f"{option('memory')} and {option('journal')} are for a matrix in an .npy file, closed on the CPU into an "
            ".npy "
            "file: pass both, and the names of both files"
        )
    ranks = context.ranks
    hosts, has_journal = zip(*ranks.allgather((socket.gethostname(), os.path.exists(journal))), strict=True)
    if memory is None and not has_journal[0]:  # a run that continues has a limit in its journal
        memory = min(ranks.allgather(free_memory() // hosts.count(hosts[ranks.rank])))
    request = replace(request, operand=A, out=out, memory=memory, journal=journal, progress=progress)
    return close_file(request, ranks)


def matmul(
    A: Any,
    B: Any,
    semiring: Semiring | str | None = None,
    *,
    check: bool = True,
    threads: int | None = None,
    comm: Any = None,
    device: Any = None,
) -> DistributedMatrix:
    """Compute the product C[i, j] = ⊕ₖ A[i, k] ⊗ B[k, j] of two matrices of one size and one dtype.

    Parameters
    ----------
    A, B : DistributedMatrix, array_like of shape (n, n), str or path-like
        A `DistributedMatrix`, an array of rank 0, or the name of an .npy file.
    semiring : Semiring or str, optional
        A `Semiring` or the name of one in the catalogue. The default is min-plus.
    check : bool, default True
        Whether to validate the entries, as in `semiring.matmul`, with one value on all ranks.
    threads : int, optional
        The number of threads of each rank, by default that of `get_threads`.
    comm : mpi4py.MPI.Comm, optional
        A communicator, as in `read`, if A is no `DistributedMatrix`.
    device : str, optional
        None or ``"cuda"``, as in `read`, if A is no `DistributedMatrix`.

    Returns
    -------
    DistributedMatrix
        The product (n, n), on the ranks and devices of A.

    Raises
    ------
    ShapeError
        If A and B differ in size, or are not square.
    DTypeError
        If A and B differ in dtype, or the semiring is not defined on it.
    DeviceError
        If A and B are on different ranks or devices, and as in `read`.
    DomainError, IntegerOverflowError, OSError, FormatError, MissingExtraError
        As in `semiring.matmul` and `read`, on all ranks.

    Notes
    -----
    Source: R. van de Geijn, J. Watts, "SUMMA", Concurrency 9 (1997). The cost is that of `closure`.
    """
    check_flags({"check": check})
    algebra, left = as_semiring(semiring), _as_matrix(A, comm, device)
    right = _as_matrix(B, left.comm, left._context.device)
    if left.n != right.n:
        raise ShapeError(f"A is {left.n} × {left.n}, B is {right.n} × {right.n}: they must have one size")
    if left.dtype != right.dtype:
        raise DTypeError(f"A is {left.dtype}, B is {right.dtype}: convert one of them")
    algebra.check_dtype(left.dtype)
    ranks, grid, dtype = left._context.ranks, left._tiles.grid, left.dtype
    if right._context.ranks is not ranks or right._tiles.grid.blocks != grid.blocks:
        raise DeviceError("A and B are on different ranks or devices: distribute both with the same comm and device")
    if check:
        scans = [scan_distributed(each._tiles, None, algebra) for each in (left, right)]
    else:
        scans = scan_operands(algebra, False, A=left.own, B=right.own)
    nonnegative = all(scan.nonnegative for scan in scans)
    x, y = agree(ranks, lambda: [left._context.to_device(np.ascontiguousarray(each.own)) for each in (left, right)])
    code = choose_encoding(algebra, x, *scans)
    if code is not None:
        x, y = agree(
            ranks, lambda: [encode_operand(*own, code) for own in ((x, algebra, scans[0]), (y, algebra, scans[1]))]
        )
    elif may_wrap(algebra, dtype):
        demand_range(
            dtype, left.n * scanned_magnitude(scans[0]) * scanned_magnitude(scans[1]), lambda: np.array(np.inf), "A ⊗ B"
        )
    C = array_namespace(x).empty(x.shape, x.dtype)
    engine = engine_for(C, algebra, x.dtype, nonnegative, threads)
    multiply_tiles(engine, left._context.transport(grid), grid, C, x, y)
    C = to_host_array(C)
    if code is not None:
        C = agree(ranks, lambda: decode(C, algebra, dtype, limit=code.limit))
    return DistributedMatrix(left._context, grid, C)


def shortest_paths(
    A: Any, *, check: bool = True, threads: int | None = None, comm: Any = None, device: Any = None
) -> DistributedPaths:
    """Return the shortest paths between all pairs, in min-plus: see `best_paths`.

    Parameters
    ----------
    A : DistributedMatrix, array_like of shape (n, n), str or path-like
        The weights of edges, as in `closure`.
    check : bool, default True
        Whether to validate the entries, as in `closure`.
    threads : int, optional
        The number of threads of each rank, by default that of `get_threads`.
    comm : mpi4py.MPI.Comm, optional
        A communicator, as in `read`, if A is no `DistributedMatrix`.
    device : str, optional
        None or ``"cuda"``, as in `read`, if A is no `DistributedMatrix`.

    Returns
    -------
    DistributedPaths
        The distances and paths, as `best_paths` returns them.

    Raises
    ------
    NegativeCycleError
        If the graph has a negative cycle. Other errors are those of `best_paths`.
    """
    return best_paths(A, "min_plus", check=check, threads=threads, comm=comm, device=device)


def best_paths(
    A: Any,
    semiring: Semiring | str | None = None,
    *,
    check: bool = True,
    threads: int | None = None,
    comm: Any = None,
    device: Any = None,
) -> DistributedPaths:
    """Return the best paths between all pairs of vertices, which every rank may query independently.

    Parameters
    ----------
    A : DistributedMatrix, array_like of shape (n, n), str or path-like
        The weights of edges, as in `closure`.
    semiring : Semiring or str, optional
        A `Semiring` with a selective ⊕ and a star, or a name of the catalogue. The default is min-plus.
    check : bool, default True
        Whether to validate the entries, as in `closure`.
    threads : int, optional
        The number of threads of each rank, by default that of `get_threads`.
    comm : mpi4py.MPI.Comm, optional
        A communicator, as in `read`, if A is no `DistributedMatrix`.
    device : str, optional
        None or ``"cuda"``, as in `read`, if A is no `DistributedMatrix`.

    Returns
    -------
    DistributedPaths
        The weights and paths. Each rank keeps some rows of A and of its closure in addition to its tiles.

    Raises
    ------
    AlgebraError
        If ⊕ is not selective, and as in `closure`.
    DeviceError
        If the MPI library does not let ranks read the memory of each other, and as in `closure`.
    NegativeCycleError, DivergenceError, IntegerOverflowError, DomainError, DTypeError, ShapeError, MissingExtraError
        As in `closure`.
    """
    algebra = as_semiring(semiring)
    if not algebra.selective:
        raise AlgebraError(f"the ⊕ of {algebra.name} adds paths instead of selecting one, so there are no best paths")
    edges = _as_matrix(A, comm, device)
    return DistributedPaths(edges, closure(edges, algebra, check=check, threads=threads), algebra)


class DistributedPaths:
    """The best paths between all pairs of vertices 0 … n - 1, as `best_paths` returns them.

    A query reads the memory of other ranks without their participation. Between hosts, some MPI libraries answer only
    when the other ranks call MPI. ``close()`` frees the memory, and all ranks must call it together. A ``with`` block
    also does.

    Parameters
    ----------
    edges : DistributedMatrix
        The weights of the edges.
    closed : DistributedMatrix
        Their closure.
    semiring : Semiring
        The semiring, whose ⊕ is selective.
    """

    def __init__(self, edges: DistributedMatrix, closed: DistributedMatrix, semiring: Semiring) -> None:
        self.semiring, self.matrix, self.n = semiring, closed, closed.n
        self._edges, self._distances = _SharedRows(edges), _SharedRows(closed)
        own = self._edges.own
        summaries = edges._context.ranks.allgather((bool((own >= 0).all()), _largest_magnitude(self._distances.own)))
        nonnegative = is_floating(edges.dtype) and all(one for one, _ in summaries)
        zero, one = semiring.zero_for(edges.dtype), semiring.one_for(edges.dtype)
        self._plan = KernelPlan(semiring, edges.dtype, zero, one, Facts(nonnegative))
        largest = np.full((1, 1), max(size for _, size in summaries)).astype(edges.dtype)
        self._tolerance = tolerance_for(self._plan, np.broadcast_to(largest, (self.n, 1)))
        self._trees: dict[int, Array] = {}

    def __enter__(self) -> DistributedPaths:
        return self

    def __exit__(self, *error: Any) -> None:
        if error[0] is None:
            self.close()

    def close(self) -> None:
        """Free the shared memory. All ranks must call it together."""
        for shared in (self._edges, self._distances):
            shared.free()

    def distance(self, source: int, target: int) -> Any:
        """Return the weight of the best path from a source to a target.

        Parameters
        ----------
        source, target : int
            Vertices, 0 … n - 1.

        Returns
        -------
        scalar
            The weight, or the semiring's zero if there is no path.

        Raises
        ------
        VertexError
            If an argument is not a vertex.
        """
        return self._distances[self._vertex(source)][self._vertex(target)]

    def path(self, source: int, target: int) -> list[int]:
        """Return the vertices of a best path from a source to a target.

        Parameters
        ----------
        source, target : int
            Vertices, 0 … n - 1.

        Returns
        -------
        list of int
            The vertices, both ends included. The path from a vertex to itself is ``[source]``.

        Raises
        ------
        NoPathError
            If no path leads from the source to the target.
        VertexError
            If an argument is not a vertex.
        AlgebraError
            As in `predecessors`.

        Notes
        -----
        The first query of a source costs O(n²) and the communication of A. Its tree is cached.
        """
        source, vertices = self._vertex(source), [self._vertex(target)]
        tree = self.predecessors(source)
        while vertices[-1] != source:
            before = int(tree[vertices[-1]])
            if before < 0:
                raise NoPathError(f"no path leads from {source} to {vertices[0]}")
            vertices.append(before)
        return vertices[::-1]

    def predecessors(self, source: int) -> Array:
        """Return the predecessor of each vertex on its path from the source.

        Parameters
        ----------
        source : int
            A vertex, 0 … n - 1.

        Returns
        -------
        array of int32, shape (n,)
            The vertex before each vertex. It is -9999 where there is no path, and at the source.

        Raises
        ------
        VertexError
            If the source is not a vertex.
        AlgebraError
            If the paths do not add up to their distances.
        """
        source = self._vertex(source)
        if source not in self._trees:
            distances: Any = self._distances[source].copy()
            distances[source] = self._plan.one
            edges: Any = self._edges  # Any, because it supports the indexing of an array
            tree = nearest_tree(self._plan, edges, distances, source, self._tolerance)
            if not self._tolerance.meets(path_sums(self._plan, edges, tree, source), distances).all():
                raise AlgebraError(f"the paths from vertex {source} do not add up to their distances")
            self._trees[source] = tree
        return self._trees[source]

    def _vertex(self, vertex: Any) -> int:
        if isinstance(vertex, bool) or not isinstance(vertex, int | np.integer) or not 0 <= vertex < self.n:
            raise VertexError(f"no vertex is {quote(vertex)}: they are 0 … {self.n - 1}")
        return int(vertex)


class _SharedRows:
    """The rows of a matrix that any rank may read: ``shared[i]``, ``shared[i, columns]``, ``shared[tails, heads]``."""

    def __init__(self, matrix: DistributedMatrix) -> None:
        self._mpi, self._row_ranges = load_mpi(), split_rows(matrix.n, matrix._context.ranks.size)
        _, rows = matrix.to_rows()
        ranks = matrix._context.ranks
        # MPI allocates the memory. Within a host it is shared, and every MPI library can read it from other ranks.
        try:
            self._window = self._mpi.Win.Allocate(rows.nbytes, rows.itemsize, comm=ranks.comm)
        except self._mpi.Exception as error:
            raise DeviceError(
                f"this MPI does not let ranks read the memory of each other ({error}): for paths, use an MPI that "
                "does, such as Open MPI 5 or one with UCX"
            ) from None
        self.own = np.ndarray(rows.shape, rows.dtype, self._window.tomemory())
        self._window.Lock(ranks.rank)
        self.own[...] = rows
        self._window.Unlock(ranks.rank)
        ranks.comm.Barrier()
        self._cached_row: tuple[int, Array] = (-1, rows[:0])

    def free(self) -> None:
        self.own = self.own[:0].copy()
        self._window.Free()

    def __getitem__(self, index: Any) -> Array:
        if not isinstance(index, tuple):
            return self._row(int(index))
        tails, heads = index
        if np.ndim(tails) == 0:
            return self._row(int(tails))[heads]
        values = np.empty(len(tails), self.own.dtype)
        for tail in np.unique(tails):
            is_row = tails == tail
            values[is_row] = self._row(int(tail))[heads[is_row]]
        return values

    def _row(self, i: int) -> Array:
        """Return a row from the memory of the rank that has it; the last row is cached."""
        if self._cached_row[0] == i:
            return self._cached_row[1]
        owner = next(rank for rank, (low, high) in enumerate(self._row_ranges) if low <= i < high)
        row = np.empty(self.own.shape[1], self.own.dtype)
        self._window.Lock(owner, self._mpi.LOCK_SHARED)
        self._window.Get(row.view(f"u{row.itemsize}"), owner, (i - self._row_ranges[owner][0]) * row.size)
        self._window.Unlock(owner)
        self._cached_row = i, row
        return row


def _largest_magnitude(values: Array) -> float:
    if values.dtype.kind != "f":
        return 0.0
    return float(np.max(np.abs(values), initial=0.0, where=np.isfinite(values)))
