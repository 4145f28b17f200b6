"""Links between arrays on GPUs: NCCL between processes, copies from one GPU to another within a process.

All is enqueued on the streams of an engine's lanes, those of the panels before those of the rest, so the thread of a
rank runs ahead of its GPU. Within a process NCCL would not do: its kernels wait for those of the other GPU, and a
thread that loads a kernel meanwhile waits for them, with the driver's lock that the other thread needs. Copies wait for
events, take no multiprocessor, and go by NVLink where there is one. NVLink multicast (NVLS) is left to NCCL's own
setting, NCCL_NVLS_ENABLE.
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
from semiring.kernels.engine import Engine, Lanes

__all__ = ["DeviceLinks", "OwnDevice", "by_copies", "links_of", "own_device"]

Array: TypeAlias = Any


class OwnDevice:
    """The GPU of a rank, and whether no other rank has it."""

    def __init__(self, number: int, alone: bool) -> None:
        self.number, self.alone = number, alone

    def moved(self, own: Array) -> Array:
        """A copy on this GPU, which is the current one from now on."""
        load_cupy().cuda.Device(self.number).use()
        return copy_to_device(own)


def own_device(ranks: Ranks) -> OwnDevice:
    """The GPUs of a host, dealt out to its ranks in turn; a rank alone has its current one. All ranks call it."""
    cupy = load_cupy("device='cuda'")
    if ranks.size == 1:
        return OwnDevice(int(cupy.cuda.runtime.getDevice()), True)
    count = int(cupy.cuda.runtime.getDeviceCount())
    hosts = ranks.allgather((socket.gethostname(), count))
    before = [host for host, _ in hosts[: ranks.rank]].count(hosts[ranks.rank][0])
    shared = any([host for host, _ in hosts].count(name) > devices for name, devices in hosts)
    return OwnDevice(before % count, not shared)


Carry: TypeAlias = Callable[[Array, int, Ranks], None]  # an array of the rank ``root`` into those of all


def links_of(groups: Groups) -> DeviceLinks:
    """The links of ranks that are processes: by NCCL where each has a GPU of its own, which only enqueues.

    Else by MPI, from GPU to GPU where it is CUDA-aware on all ranks, or through the memory of the hosts.
    """
    device = own_device(groups.all)
    load_cupy().cuda.Device(device.number).use()
    if device.alone:
        return DeviceLinks(groups, _by_nccl(groups))
    return DeviceLinks(groups, _by_mpi if all(groups.all.allgather(is_cuda_aware())) else _by_host)


class DeviceLinks:
    """`semiring.distributed.transports.Links` between GPUs. The current one is that of the rank."""

    def __init__(self, groups: Groups, carry: Carry) -> None:
        self._groups, self._carry, self.rank = groups, carry, groups.all.rank

    def broadcast(self, array: Array, root: int, group: str) -> None:
        ranks = self._groups[group]
        if ranks.size > 1 and array.size:
            self._carry(array, root, ranks)

    def lanes(self, engine: Engine, *, beside: bool = True) -> _DeviceLanes:
        return _DeviceLanes(self._groups.all, engine, engine.lanes() if beside else None)


def _by_nccl(groups: Groups) -> Carry:
    """A communicator of NCCL for each group, made through the ranks."""
    try:
        from cupy.cuda import nccl

        available = nccl.available
    except ImportError:
        available = False
    if not available:
        raise DeviceError("computing on several GPUs needs NCCL, which is not installed: pip install nvidia-nccl-cu13")
    communicators, current = {}, load_cupy().cuda.get_current_stream
    for ranks in (groups.all, groups.row, groups.column):
        if ranks.size > 1:
            first = ranks.allgather(nccl.get_unique_id() if ranks.rank == 0 else None)[0]
            communicators[id(ranks)] = nccl.NcclCommunicator(ranks.size, first, ranks.rank)

    def carry(array: Array, root: int, ranks: Ranks) -> None:
        communicators[id(ranks)].bcast(array.data.ptr, array.nbytes, _OCTETS, root, current().ptr)

    return carry


_OCTETS = 0  # NCCL's number for elements of one byte


def _by_mpi(array: Array, root: int, ranks: Ranks) -> None:
    load_cupy().cuda.get_current_stream().synchronize()  # MPI knows nothing of streams
    ranks.broadcast(array, root)


def _by_host(array: Array, root: int, ranks: Ranks) -> None:
    copy = to_host(array) if ranks.rank == root else np.empty(array.shape, array.dtype)
    ranks.broadcast(copy, root)
    if ranks.rank != root:
        array.set(copy)


def by_copies(array: Array, root: int, ranks: Ranks) -> None:
    """Between GPUs of one process: who gets an array waits for its owner's stream, and the owner's for all copies."""
    stream, event = load_cupy().cuda.get_current_stream(), load_cupy().cuda.Event
    source, ready = ranks.allgather((array, stream.record(event(disable_timing=True))))[root]
    if ranks.rank != root:
        stream.wait_event(ready)
        array.data.copy_from_device_async(source.data, array.nbytes, stream)
    for end in ranks.allgather(stream.record(event(disable_timing=True))):
        stream.wait_event(end)


class _DeviceLanes:
    """The lanes of an engine; one after the other where there are none, as with products of cuBLAS."""

    def __init__(self, ranks: Ranks, engine: Engine, lanes: Lanes | None) -> None:
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

    def run(self, number: int, task: Callable[[Engine], None], *after: Any) -> Any:
        if self._lanes is not None:
            return self._lanes.run(number, task, *after)
        task(self._engine)
        return None

    def wait(self, mark: Any) -> None:
        if mark is not None:
            mark.synchronize()
