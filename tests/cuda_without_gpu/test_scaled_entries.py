"""Test the sums of scaled terms over the entries of sparse matrices with their kernels run on the host."""

from __future__ import annotations

import re
import sys
from importlib import import_module

import numpy as np
import pytest
from cuda_on_host import HostKernels, needs_compiler, to_device
from machine_code import compile_for, needs_nvrtc
from test_sparse_on_host import Library

from semiring.autodiff import entry_products

pytestmark = pytest.mark.full
MODULES = [f"semiring.kernels.cuda.product.{name}" for name in ("index_arrays", "scaled_entries")]
INF = np.inf


@pytest.fixture
def kernels(monkeypatch):
    """Return `semiring.kernels.cuda.product.scaled_entries` on arrays of the host, with a warp for each block."""
    monkeypatch.setitem(sys.modules, "cupy", Library("cupy"))
    for name in MODULES:
        monkeypatch.delitem(sys.modules, name, raising=False)
    _, module = map(import_module, MODULES)
    compiled = {}

    def kernel(name, number, index, sizes, device):
        text = module.source(number, index, sizes)
        if text not in compiled:
            compiled[text] = HostKernels(text)

        def launch(grid, threads, arguments):
            arrays = [x.view(np.ndarray) if isinstance(x, np.ndarray) else x for x in arguments]
            compiled[text].launch(name, (*grid, 1, 1)[:3], (*threads, 1, 1)[:3], arrays)

        return launch

    monkeypatch.setattr(module, "current_device", lambda: 0)
    monkeypatch.setattr(module, "_kernel", kernel)
    monkeypatch.setattr(module, "_THREADS", 32)
    monkeypatch.setattr(module, "_LONG", 7)
    monkeypatch.setattr(module, "_MAX_GRID", 2)
    yield module
    for name in MODULES:
        sys.modules.pop(name, None)


def draw(rng, shape):
    """Return exponents, some of them -∞."""
    values = rng.normal(size=shape)
    return np.where(rng.random(shape) < 0.1, -INF, values)


@needs_compiler
@pytest.mark.parametrize("form", ["rows", "columns", "entries"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("batch", [(), (3,), (1,), (5, 1)])
@pytest.mark.parametrize(
    ("has_constant", "width"), [(False, 37), (True, 37), (False, 5), (False, 136), (True, 12), (False, 6)]
)
@pytest.mark.parametrize("folds", ["never", "always", "in vain"])
def test_sums_are_those_of_the_host(form, dtype, batch, has_constant, width, folds, kernels, monkeypatch, rng):
    """Exponents are folded into factors, and in vain if they overflow there."""
    monkeypatch.setattr(kernels, "_FOLDED", 0 if folds != "never" else 1 << 40)
    count = 60  # threads lie along the width
    m, k, n = {"rows": (9, 12, width), "columns": (width, 12, 9), "entries": (9, width, 12)}[form]
    height, width = {"rows": (m, k), "columns": (k, n), "entries": (m, n)}[form]
    places = np.stack([rng.integers(0, height, count), rng.integers(0, width, count)]).astype(rng.choice(["i4", "i8"]))
    places[int(form == "columns"), :20] = 4  # a long row
    places[:, -2:] = [[height], [width]]  # beyond the shape
    shapes = {
        "rows": ((count,), (count,), (*batch, k, n), (*batch, k, n), (*batch, m, n)),
        "columns": ((*batch, m, k), (*batch, m, k), (count,), (count,), (*batch, m, n)),
        "entries": ((*batch, m, k), (*batch, m, k), (k, n), (k, n), (count,)),
    }[form]
    lead = (1,) * len(batch)
    arrays = []
    for which, shape in enumerate(shapes):
        array = draw(rng, shape) if which in (1, 3, 4) else rng.normal(size=shape)
        arrays.append(array.reshape(shape if len(shape) > 2 else (*lead, *shape)).astype(dtype))
    if folds == "in vain":
        shift = 96 if dtype == "float32" else 720
        arrays[1], arrays[4] = arrays[1] + arrays[1].dtype.type(shift), arrays[4] - arrays[1].dtype.type(shift)
    if has_constant:
        arrays[0] = np.broadcast_to(arrays[0].dtype.type(2), arrays[0].shape)  # one number, repeated
        arrays[2] = np.broadcast_to(arrays[0].dtype.type(-1), arrays[2].shape)
    listed = [None, None, None]
    listed[("rows", "columns", "entries").index(form)] = places.reshape(*lead, 2, count)
    expected = entry_products.entry_scaled_product(*arrays, *listed, m, k, n)
    moved = [None if x is None else to_device(x) for x in listed]
    monkeypatch.setattr(entry_products, "array_namespace", lambda _: sys.modules["cupy"])
    found = entry_products._add_terms_on_device(tuple(map(to_device, arrays)), tuple(moved), (m, k, n))
    assert found is not None
    tolerance = 1e-5 if dtype == "float32" else 1e-12
    scale = np.abs(expected).max()
    np.testing.assert_allclose(np.asarray(found.view(np.ndarray)), expected, rtol=tolerance, atol=tolerance * scale)
    assert found.shape == expected.shape


@needs_nvrtc
@pytest.mark.parametrize("number", ["float32", "float64"])
def test_nothing_is_spilled_in_a_loop(number, kernels):
    pack = 16 // np.dtype(number).itemsize
    general = (1, 1, 1, 1, 0), (32, 1, 1, 1, 0), (16, pack, 1, 1, 0), (32, pack, 1, 0, 0), (32, pack, 0, 1, 0)
    for sizes in (*general, (16, pack, 1, 1, 1), (32, 1, 1, 1, 1)):
        _, log = compile_for("sm_90a", kernels.source(number, "int64", sizes), ("-std=c++17",))
        spills = [int(size) for size in re.findall(r"(\d+) bytes spill stores", log)]
        assert len(spills) == 3
        assert max(spills) <= 32  # a register that the compiler saves outside loops
