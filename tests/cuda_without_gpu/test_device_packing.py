"""Test the packing of truth values on a GPU: its text compiled for the host, on matrices and stacks of them."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from cuda_on_host import HostKernels, needs_compiler

from semiring.arrays.bits import BitMatrix, pack
from semiring.kernels.cuda.entries import packing

_TYPES = {"bool": "bool", "uint32": "unsigned", "int64": "long long"}


@pytest.fixture
def on_host(monkeypatch):
    """Run CuPy's arrays and kernels of one element a thread on the host. ``raw`` arrays are read in C order."""

    def elementwise(inputs, output, code, name):
        _, raw_type, raw = inputs.split(", ")[0].split()
        out_type, out = output.split()
        kernels = HostKernels(
            f'extern "C" __global__ void each(const {_TYPES[raw_type]} *{raw}, long long columns, long long width, '
            f"{_TYPES[out_type]} *out, long long size) {{\n"
            f"for (long long i = 0; i < size; ++i) {{ {_TYPES[out_type]} &{out} = out[i]; {code}; }} }}\n",
        )

        def run_on_host(array, columns, width, result):
            assert (array.dtype, result.dtype) == (np.dtype(raw_type), np.dtype(out_type))
            found = np.ascontiguousarray(result).copy()
            numbers = np.int64(columns), np.int64(width)
            arguments = [np.ascontiguousarray(array), *numbers, found, np.int64(found.size)]
            kernels.launch("each", (1, 1, 1), (1, 1, 1), arguments)
            result[...] = found

        return run_on_host

    monkeypatch.setattr(packing, "load_cupy", lambda: SimpleNamespace(empty=np.empty, ElementwiseKernel=elementwise))
    for kernel in (packing._pack_kernel, packing._unpack_kernel):
        kernel.cache_clear()
    yield
    for kernel in (packing._pack_kernel, packing._unpack_kernel):
        kernel.cache_clear()


@pytest.mark.full
@needs_compiler
@pytest.mark.usefixtures("on_host")
@pytest.mark.parametrize("shape", [(1, 1), (3, 31), (4, 32), (5, 33), (2, 100), (1, 2, 40), (3, 4, 65)])
def test_matrices_and_stacks_are_packed_and_unpacked(shape, rng):
    truths = rng.random(shape) < 0.5
    for given in (truths, np.asfortranarray(truths), np.repeat(truths, 2, -1)[..., ::2]):
        words = packing.pack(given)
        assert words.dtype == np.uint32
        for packed, matrix in zip(words.reshape(-1, *words.shape[-2:]), truths.reshape(-1, *shape[-2:]), strict=True):
            assert BitMatrix(packed, matrix.shape) == pack(matrix)
    assert np.array_equal(packing.unpack(words, shape[-1]), truths)
    out = np.empty(shape[::-1], np.bool_).T
    assert packing.unpack(words, shape[-1], out) is out
    assert np.array_equal(out, truths)
