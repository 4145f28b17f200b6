"""Load public CUDA codes to compare with: shared libraries that a user has built from their sources, in one folder.

None of their code is part of this project. A few lines of glue give the libraries one C interface. They are compiled
with each library (``nvcc -O3 -arch=sm_90 -shared -Xcompiler -fPIC``). All pointers are of the device, all matrices
row-major::

    int min_plus_f32(int m, int n, int k, const float *A, const float *B, float *C, cudaStream_t);   // C ← A ⊗ B
    int min_plus_f32_witness(int m, int n, int k, const float *, const float *, float *C, int *W, cudaStream_t);
    int max_min_f32(int m, int n, int k, const float *A, const float *B, float *C, cudaStream_t);
    size_t close_i32_workspace(int n);                                     // bytes
    int close_i32(int n, int *A, void *workspace, cudaStream_t);     // A ← A*; n a multiple of 64; no edge: 2³⁰ − 1
    int close_host_i32(int n, int *A, int *predecessors, int blocked);   // of the host, with transfers; no edge: 2²⁹

A library named ``libNAME.so`` exports the functions that it has. Sources: cuASR (github.com/hpcgarage/cuASR, with
CUTLASS at the commit of its submodule, thread blocks of 128×128×8) and CuTropicalGEMM (its CUDA file, before it became
a binary package). Further sources: tropical-gemm (its CUDA crate), ECL-APSP (in github.com/escalab/SIMD2),
github.com/MTB90/cuda-floyd_warshall.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

__all__ = ["Peer", "peers"]


class Peer:
    """A library whose ``product("min_plus_f32")`` and ``closure()`` fill CuPy arrays, or are None."""

    def __init__(self, path: Path) -> None:
        self.name = path.stem.removeprefix("lib")
        self._library = ctypes.CDLL(str(path))

    def product(self, function: str = "min_plus_f32") -> Callable[..., None] | None:
        """Return ``call(A, B, C)`` for C ← A ⊗ B in float32, row-major, or None. A witness W (int32) follows C."""
        entry = getattr(self._library, function, None)
        if entry is None:
            return None

        def call(A: Any, B: Any, *results: Any) -> None:
            (m, k), n = A.shape, B.shape[1]
            _raise_for_status(self.name, entry(m, n, k, *(_pointer(array) for array in (A, B, *results)), _stream()))

        return call

    def closure(self) -> Callable[[Any, Any], None] | None:
        """Return ``call(A, workspace)`` for A ← A* of int32, in place, or None. See `workspace_bytes`."""
        entry = getattr(self._library, "close_i32", None)
        if entry is None:
            return None

        def call(A: Any, workspace: Any) -> None:
            _raise_for_status(self.name, entry(A.shape[0], _pointer(A), _pointer(workspace), _stream()))

        return call

    def workspace_bytes(self, n: int) -> int:
        """Return the bytes of workspace on the device that `closure` needs for n vertices."""
        entry = self._library.close_i32_workspace
        entry.restype = ctypes.c_size_t
        return int(entry(n))

    def closure_on_host(self) -> Callable[[Any, Any], None] | None:
        """Return ``call(A, predecessors)`` on int32 NumPy arrays, in place, with transfers, or None."""
        entry = getattr(self._library, "close_host_i32", None)
        if entry is None:
            return None

        def call(A: Any, predecessors: Any) -> None:
            arrays = (ctypes.c_void_p(array.ctypes.data) for array in (A, predecessors))
            _raise_for_status(self.name, entry(A.shape[0], *arrays, 1))

        return call


def peers(folder: str | Path | None) -> Iterator[Peer]:
    """Return the libraries of a folder, by name, and none for None."""
    if folder is not None:
        yield from (Peer(path) for path in sorted(Path(folder).glob("lib*.so")))


def _pointer(array: Any) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.data.ptr)


def _stream() -> ctypes.c_void_p:
    import cupy

    return ctypes.c_void_p(cupy.cuda.get_current_stream().ptr)


def _raise_for_status(name: str, status: int) -> None:
    if status:
        raise RuntimeError(f"{name} returned {status}")
