"""Send panels between arrays on GPUs: by NCCL between processes, by copies between GPUs of one process.

All operations are enqueued on the streams of an engine's lanes. Streams of panels have priority. The thread of a rank
therefore runs ahead of its GPU. Within a process NCCL could deadlock, because its kernels wait for the kernels of the
other GPU. A thread that loads a kernel meanwhile waits for them, and holds the lock of the driver that the other thread
needs. Copies wait for events, occupy no multiprocessor, and use NVLink if it exists. NVLink multicast (NVLS) follows
NCCL's own setting, NCCL_NVLS_ENABLE.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from semiring.arrays.device import copy_to_device, load_cupy, to_host
from semiring.distributed.mpi_communicator import is_cuda_aware
from semiring.distributed.transports import Groups, Ranks
from semiring.errors import DeviceError
from semiring.kernels.engine import Engine, StreamLanes
from semiring.namespaces import Array

__all__ = ["DeviceTransport", "RankDevice", "broadcast_by_copies", "rank_device", "transport_of"]


class RankDevice:
    """The GPU of a rank, and whether no other rank uses it."""

    def __init__(self, number: int, is_exclusive: bool) -> None:
        self.number, self.is_exclusive = number, is_exclusive

    def copy_to_device(self, tiles: Any) -> Any:
        """Copy tiles to this GPU, and make it the current device."""
        load_cupy().cuda.Device(self.number).use()
        return copy_to_device(tiles)


def rank_device(ranks: Ranks) -> RankDevice:
    """Assign the GPUs of a host to its ranks in turn, and return the device of this rank.

    A single rank keeps its current GPU. All ranks must call the function together.
    """
    cupy = load_cupy("device='cuda'")
    if ranks.size == 1:
        return RankDevice(int(cupy.cuda.runtime.getDevice()), True)
    count = int(cupy.cuda.runtime.getDeviceCount())
    hosts = ranks.allgather((socket.gethostname(), count))
    before = [host for host, _ in hosts[: ranks.rank]].count(hosts[ranks.rank][0])
    shared = any([host for host, _ in hosts].count(name) > devices for name, devices in hosts)
    return RankDevice(before % count, not shared)


#: The arguments are an array, the rank ``root`` that has it, and the ranks.
ArrayBroadcast: TypeAlias = Callable[[Array, int, Ranks], None]


def transport_of(groups: Groups) -> DeviceTransport:
    """Return the transport between ranks that are processes.

    If each rank has a GPU of its own, the transport is NCCL, which only enqueues. Otherwise it is MPI: from GPU to GPU
    if MPI is CUDA-aware on all ranks, else through the memory of the hosts.
    """
    device = rank_device(groups.all)
    load_cupy().cuda.Device(device.number).use()
    if device.is_exclusive:
        return DeviceTransport(groups, _nccl_broadcast(groups))
    return DeviceTransport(
        groups, _broadcast_by_mpi if all(groups.all.allgather(is_cuda_aware())) else _broadcast_through_hosts
    )


class DeviceTransport:
    """The `semiring.distributed.transports.Transport` between GPUs. The current device is that of the rank."""

    def __init__(self, groups: Groups, broadcast_array: ArrayBroadcast) -> None:
        self._groups, self._broadcast_array, self.rank = groups, broadcast_array, groups.all.rank

    def broadcast(self, array: Array, root: int, group: str) -> None:
        ranks = self._groups[group]
        if ranks.size > 1 and array.size:
            self._broadcast_array(array, root, ranks)

    def lanes(self, engine: Engine, *, has_concurrent_work: bool = True) -> _DeviceLanes:
        return _DeviceLanes(self._groups.all, engine, engine.lanes() if has_concurrent_work else None)


def _nccl_broadcast(groups: Groups) -> ArrayBroadcast:
    """Create a communicator of NCCL for each group, and return the broadcast by NCCL."""
    try:
        from cupy.cuda import nccl

        available = nccl.available
    except ImportError:
        available = False
    if not available:
        cuda = load_cupy().cuda.runtime.runtimeGetVersion() // 1000
        raise DeviceError(
            f"computing on several GPUs needs NCCL, which is not installed: pip install nvidia-nccl-cu{cuda}"
        )
    communicators, current = {}, load_cupy().cuda.get_current_stream
    for ranks in (groups.all, groups.row, groups.column):
        if ranks.size > 1:
            first = ranks.allgather(nccl.get_unique_id() if ranks.rank == 0 else None)[0]
            communicators[id(ranks)] = nccl.NcclCommunicator(ranks.size, first, ranks.rank)

    def broadcast(array: Array, root: int, ranks: Ranks) -> None:
        communicators[id(ranks)].bcast(array.data.ptr, array.nbytes, _OCTETS, root, current().ptr)

    return broadcast


_OCTETS = 0  # NCCL's number of the type whose elements have one byte


def _broadcast_by_mpi(array: Array, root: int, ranks: Ranks) -> None:
    load_cupy().cuda.get_current_stream().synchronize()  # MPI does not synchronize with streams
    ranks.broadcast(array, root)


def _broadcast_through_hosts(array: Any, root: int, ranks: Ranks) -> None:
    """Broadcast an array on a GPU by copies to the hosts and back."""
    copy = to_host(array) if ranks.rank == root else np.empty(array.shape, array.dtype)
    ranks.broadcast(copy, root)
    if ranks.rank != root:
        array.set(copy)


def broadcast_by_copies(array: Array, root: int, ranks: Ranks) -> None:
    """Broadcast an array between GPUs of one process by copies.

    A receiver waits for the stream of the sender, and the sender's stream waits for all copies.
    """
    stream, event = load_cupy().cuda.get_current_stream(), load_cupy().cuda.Event
    source, ready = ranks.allgather((array, stream.record(event(disable_timing=True))))[root]
    if ranks.rank != root:
        stream.wait_event(ready)
        array.data.copy_from_device_async(source.data, array.nbytes, stream)
    for end in ranks.allgather(stream.record(event(disable_timing=True))):
        stream.wait_event(end)


class _DeviceLanes:
    """The lanes of an engine, or sequential execution if the engine has no lanes, as with cuBLAS products."""

    def __init__(self, ranks: Ranks, engine: Engine, lanes: StreamLanes | None) -> None:
        self._ranks, self._engine, self._lanes = ranks, engine, lanes

    def __enter__(self) -> _DeviceLanes:
        if self._lanes is not None:
            self._lanes.__enter__()
        return self

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if error is not None:
            self._ranks.stop(error)
        if self._lanes is not None:
            self._lanes.__exit__(kind, error, trace)

    def reserve(self, number: int, entries: int) -> None:
        if self._lanes is not None:
            self._lanes.reserve(number, entries)
        else:
            self._engine.reserve(entries)

    def run(self, number: int, task: Callable[[Engine], None], *marks: Any) -> Any:
        if self._lanes is not None:
            return self._lanes.run(number, task, *marks)
        task(self._engine)
        return None

    def wait(self, mark: Any) -> None:
        if mark is not None:
            mark.synchronize()
