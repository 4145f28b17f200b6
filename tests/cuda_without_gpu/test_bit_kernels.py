"""Test the products of bits on tensor cores without a GPU: how they compile, and which kernel a product takes."""

from __future__ import annotations

import re

import pytest
from machine_code import compile_for, needs_nvrtc
from tiers import full

import semiring as sr
from semiring import CATALOGUE
from semiring.kernels.cuda.product import bit_kernels
from semiring.kernels.cuda.product.calls import call_for
from semiring.kernels.cuda.product.specification import WordFormat
from semiring.kernels.engine import make_plan
from tools.machine_code import disassemble, find_disassembler


def call(name, *, accumulate=True, record=False):
    plan = make_plan(CATALOGUE[name], "bool", storage="bits")
    return call_for(plan, WordFormat("int32", 32), accumulate=accumulate, record=record)


@pytest.mark.full
@needs_nvrtc
@pytest.mark.parametrize("slabs", full(lambda slabs: slabs == 4, [1, 2, 4]))
@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize(
    ("parity", "reads", "has_flag"),
    full(
        lambda parity, reads, watched: (parity, reads, watched) in ((True, True, False), (False, True, True)),
        [(False, True, False), (False, False, False), (True, True, False), (True, False, False), (False, True, True)],
    ),
)
def test_the_product_fits_its_registers_and_uses_the_tensor_cores(slabs, parity, reads, has_flag, wide):
    """The kernel uses 168 registers for each of 384 threads, which it redistributes. A spill would cost speed."""
    options = ("--std=c++17", *bit_kernels.defines(slabs, parity, reads, wide, has_flag))
    code, log = compile_for("sm_90a", bit_kernels.product_source(), options)
    assert re.findall(r"(\d+) bytes spill stores, (\d+) bytes spill loads", log) == [("0", "0")]
    assert [int(count) for count in re.findall(r"Used (\d+) registers", log)] == [168]
    assert "serializ" not in log  # of tensor core instructions, where the compiler cannot tell registers apart
    assert bit_kernels.shared_bytes(slabs) <= 227 << 10
    tool = find_disassembler()
    if tool is None:
        return
    text = disassemble(code, tool)
    assert len(re.findall(r"\bBGMMA\.64x256x256\.AND\.POPC", text)) == 4 * slabs


@needs_nvrtc
@pytest.mark.parametrize("width", [16, 32])
def test_the_transpose_keeps_its_bits_in_registers(width):
    options = ("--std=c++17", *bit_kernels.transpose_defines(width))
    _, log = compile_for("sm_90a", bit_kernels.transpose_source(), options)
    assert re.findall(r"(\d+) bytes spill stores", log) == ["0"]
    assert all(int(count) <= 64 for count in re.findall(r"Used (\d+) registers", log))  # of 1024 threads
    assert bit_kernels.transpose_shared_bytes(width) * (1024 // (width * width // 2)) <= 227 << 10


def test_which_products_go_to_the_tensor_cores():
    for name in ("boolean", "max_min", "xor_and"):
        assert bit_kernels.uses_tensor_cores(call(name), 8192, 256, 8192, "sm_90a"), name
        assert bit_kernels.uses_tensor_cores(call(name, accumulate=False), 8192, 256, 8192, "sm_90a"), name
        assert not bit_kernels.uses_tensor_cores(call(name), 8192, 256, 8192, "sm_80"), name
        assert not bit_kernels.uses_tensor_cores(call(name), 64, 2, 64, "sm_90a"), name
    assert not bit_kernels.uses_tensor_cores(call("min_max"), 8192, 256, 8192, "sm_90a")  # ⊕ is and, ⊗ is or
    assert not bit_kernels.uses_tensor_cores(call("boolean", record=True), 8192, 256, 8192, "sm_90a")
    floats = make_plan(sr.min_plus, "float32")
    assert not bit_kernels.uses_tensor_cores(
        call_for(floats, WordFormat("float32"), accumulate=True), 8192, 8192, 8192, "sm_90a"
    )


def test_what_the_product_is():
    assert bit_kernels.is_reachability(call("boolean"))
    assert not bit_kernels.is_reachability(call("xor_and"))
    assert bit_kernels.is_parity(call("xor_and"))
    assert not bit_kernels.is_parity(call("boolean"))


@pytest.mark.parametrize(("depth", "slabs"), [(1, 1), (1024, 1), (1025, 2), (2048, 2), (2049, 4), (4096, 4)])
def test_how_deep_a_panel_is(depth, slabs):
    assert bit_kernels.slabs_for(depth) == slabs


def longest(pairs, columns, unit, clusters):
    """Return the pairs of tiles of the cluster that gets the most, where units go round."""
    units = [min(unit, pairs - start) for start in range(0, pairs, unit) for _ in range(columns)]
    return max(sum(units[cluster::clusters]) for cluster in range(clusters))


@pytest.mark.parametrize("slabs", [1, 2, 4])
@pytest.mark.parametrize("multiprocessors", [1, 78, 114, 132])
def test_units_share_the_work_out_evenly(slabs, multiprocessors):
    """Hardly any cluster waits for another where there are some units for each."""
    clusters = max(1, multiprocessors // 2)
    for pairs in (1, 2, 7, 64, 100, 1000):
        for columns in (1, 3, 16, 64, 256):
            unit = bit_kernels.unit_for(slabs, pairs, columns, multiprocessors)
            assert 1 <= unit <= pairs
            taken, least = longest(pairs, columns, unit, clusters), -(-pairs * columns // clusters)
            assert taken <= 1.25 * least + 1, (pairs, columns, unit)


def test_units_of_square_products_are_one_round():
    """Products of 8192² in two passes of 4096, and of 4096², use 64 clusters of 66."""
    assert bit_kernels.unit_for(4, 64, 16, 132) == 16
    assert bit_kernels.unit_for(4, 32, 8, 132) == 4


@needs_nvrtc
def test_an_empty_log_leaves_python_as_it_is(monkeypatch):
    """An empty log is one byte. Python shares the objects of single bytes, so writing to one changes spaces of
    f-strings."""
    from cuda.bindings import nvrtc

    compiled = nvrtc.nvrtcCompileProgram

    def quiet(program, count, flags):
        return compiled(program, count - 1, [flag for flag in flags if flag != b"--ptxas-options=-v"])

    monkeypatch.setattr(nvrtc, "nvrtcCompileProgram", quiet)
    _, log = compile_for("sm_90a", 'extern "C" __global__ void nothing() {}', ())
    assert log == ""
    assert bytes([32])[0] == 32
