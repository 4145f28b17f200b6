"""Provide closures with `fake_cupy` in CuPy's place: the reference kernels under the name of the CUDA backend.

So tests without a GPU check what the algorithms do to arrays on a GPU.
"""

from __future__ import annotations

import sys
from contextlib import contextmanager

import numpy as np
import passes_on_host
from fake_cupy import Array as StrictArray
from fake_cupy import Module, select, unwrap

from semiring.arrays.bits import BitMatrix, pack
from semiring.arrays.entries import check_entries
from semiring.kernels.contract import Capabilities, PassKernels, StreamKernels
from semiring.kernels.reference import ReferenceBackend


class StrictStreams(StreamKernels):
    """`semiring.kernels.contract.StreamKernels` whose kernels have ended when they return."""

    done = True

    def lanes(self, plan):
        return None

    def mark(self):
        return self

    def synchronize(self):
        pass


class StrictBackend:
    """The reference kernels on such arrays, under the name of the CUDA backend."""

    name = "cuda"
    stacks = False
    capabilities = Capabilities(streams=StrictStreams())

    def __init__(self):
        self._reference = ReferenceBackend()
        self.supports = self._reference.supports

    def __getattr__(self, name):
        method = getattr(self._reference, name)

        def call(plan, *arguments):
            assert all(not isinstance(x, np.ndarray) for x in arguments)
            before = plan.status.diverged
            with np.errstate(all="ignore"):
                method(plan, *map(unwrap, arguments))
            if (
                name.startswith("close_block") and plan.status.diverged != before
            ):  # a device leaves the word in its own memory
                pivot, plan.status.diverged = plan.status.diverged, before
                if plan.status.word is not None and int(plan.status.word[0]) < 0:
                    plan.status.word[0] = plan.status.first_vertex + pivot

        return call


class StrictPasses(PassKernels):
    """`semiring.kernels.contract.PassKernels` on such arrays."""

    @staticmethod
    def copy(A, out):
        out[...] = A

    @staticmethod
    def copy_nonnegative(A, out):
        negative = (A.inner < 0).any()
        out[...] = A + 0.0
        return StrictArray(np.asarray([negative]))

    @staticmethod
    def spoil(A, word):
        if word.inner[0]:
            A[...] = np.nan

    @staticmethod
    def in_order(bits, out, replaced, back):
        flipped = lambda x: x ^ ((x >> 31) & np.int32(0x7FFFFFFF))  # noqa: E731
        values = bits.inner if back else flipped(bits.inner)
        for before, after in replaced:
            values = np.where(values == before, after, values)
        out.inner[...] = flipped(values) if back else values

    @staticmethod
    def largest_whole(A):
        finite = A.inner[np.isfinite(A.inner)]
        return float(np.abs(finite).max(initial=0)) if (finite == np.rint(finite)).all() else np.inf

    @staticmethod
    def relax(A, h, sign, epsilon):
        W = np.where(np.isinf(A.inner), np.inf, A.inner.astype(np.float64) * sign)
        return StrictArray((W * np.where(W < 0, 1 - epsilon, 1 + epsilon) + h.inner[:, np.newaxis]).min(axis=0))


def on_device(array):
    """Return a NumPy array as a `StrictArray`. A view keeps its strides."""
    return StrictArray(array)


@contextmanager
def install_stand_in(monkeypatch):
    """Put the stand-in in CuPy's place, with the reference kernels behind it."""
    from semiring import kernels
    from semiring.arrays import device
    from semiring.kernels.cuda.entries import entry_passes as device_kernels
    from semiring.kernels.cuda.entries import entry_scan
    from semiring.kernels.cuda.entries import packing as bits

    with monkeypatch.context() as patch:
        module = Module()
        patch.setitem(sys.modules, "cupy", module)
        patch.setattr(device, "_probe_cupy", lambda: module)
        backend = StrictBackend()
        real = kernels._backend
        patch.setattr(kernels, "_backend", lambda *a: backend if a[-1] else real(*a))
        patch.setattr(entry_scan, "scan_array", lambda A, semiring, name="A": check_entries(A.inner, semiring, name))
        patch.setattr(device_kernels, "select", select)
        passes_on_host.install(patch, unwrap)
        patch.setattr(bits, "pack", lambda truths: StrictArray(pack(truths.inner).words))
        patch.setattr(bits, "unpack", _unpack)
        yield


def _unpack(words, columns, out=None):
    truths = BitMatrix(np.ascontiguousarray(words.inner), (words.shape[0], columns)).unpack()
    if out is None:
        return StrictArray(truths)
    out.inner[...] = truths
    return out
