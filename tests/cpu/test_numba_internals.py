"""Test what the undocumented parts of Numba and llvmlite that the library uses do.

A failure here after an upgrade of Numba names what changed. docs/maintainers.md says how to raise the bound.
"""

from __future__ import annotations

import ctypes
import os
import pickle
import signal
import subprocess
import sys
import tomllib
from importlib.metadata import requires, version
from pathlib import Path

import llvmlite.ir as ir
import numba
import numpy as np
import pytest
from numba import njit, types
from numba.extending import intrinsic

import semiring
from semiring.kernels.cpu.codegen import numba_internals as internals

FOLDER = Path(semiring.__file__).parent

# ------------------------------------------------------------------------------------------------- the bound


def test_the_bound_is_the_next_minor_version():
    """The bound keeps pip from installing an untested Numba. llvmlite needs no bound, because Numba has one."""
    project = tomllib.loads((FOLDER.parent / "pyproject.toml").read_text("utf-8"))["project"]
    (bound,) = [each for each in project["dependencies"] if each.startswith("numba")]
    major, minor = map(int, version("numba").split(".")[:2])
    assert bound.endswith(f",<{major}.{minor + 1}"), "see docs/maintainers.md: raising the bound of Numba"
    assert [each for each in requires("numba") if each.startswith("llvmlite") and "<" in each]


# ------------------------------------------------------------------------------------------------- options of `njit`


def llvm_of(function):
    """Return LLVM's text of a function of one integer."""
    function.compile((types.int64,))
    return function.inspect_llvm((types.int64,))


def wrappers(text):
    """Return the entries that LLVM's text defines."""
    defined = [line for line in text.splitlines() if line.startswith("define")]
    marks = {"for Python": "@_ZN7cpython", "for C": "@cfunc."}
    return {name for name, mark in marks.items() if any(mark in line for line in defined)}


@pytest.mark.full
def test_options_leave_entries_out_and_inline():
    assert wrappers(llvm_of(njit(lambda x: x + 1))) == {"for Python", "for C"}
    assert wrappers(llvm_of(njit(lambda x: x + 1, **internals.OUTER))) == {"for Python"}
    part = llvm_of(njit(lambda x: x + 1, **internals.PART))
    assert wrappers(part) == set()
    assert "alwaysinline" not in part
    inlined = llvm_of(njit(lambda x: x + 1, **internals.INLINED))
    assert wrappers(inlined) == set()
    assert "alwaysinline" in inlined


@pytest.mark.full
def test_divisions_are_those_of_the_processor():
    assert njit(lambda x: 1.0 / x, **internals.OUTER)(0.0) == np.inf


# ------------------------------------------------------------------------------------------- compiling and the cache


class RecordingCache(internals.DispatcherCache):
    """A cache that keeps pickled states, and notes the calls that Numba makes."""

    cache_path = "nowhere"

    def __init__(self):
        self.states, self.calls = {}, []

    def load_overload(self, sig, target_context):
        self.calls.append(("load", str(sig), internals.compiler_lock.is_locked()))
        state = self.states.get(str(sig))
        return None if state is None else internals.rebuild_result(target_context, pickle.loads(state))

    def save_overload(self, sig, data):
        self.calls.append(("save", str(sig), internals.compiler_lock.is_locked()))
        self.states[str(sig)] = pickle.dumps(internals.result_state(data))

    def enable(self):
        raise AssertionError("Numba calls this for `cache=True` alone")

    disable = flush = enable


def plus_three(x, y):
    return 3 + x * y


@pytest.mark.full
def test_compiled_code_is_saved_once_and_loaded_after():
    cache, signature = RecordingCache(), (types.intp, types.intp)
    for number in range(2):
        function = njit(plus_three, **internals.OUTER)
        internals.set_cache(function, cache)
        entry = internals.entry_point(function, signature)
        assert entry(4, 5) == 23
        assert internals.entry_point(function, signature) is entry  # nothing is compiled twice
        assert len(cache.states) == 1
        assert [name for name, *_ in cache.calls] == ["load", "save", "load"][: 2 + number]
    assert all(locked for *_, locked in cache.calls)
    assert len({sig for _, sig, _ in cache.calls}) == 1
    assert not internals.compiler_lock.is_locked()
    with pytest.raises(TypeError):
        entry(4)


def partial_sums(x, count):
    total = 0
    for i in range(count):
        total ^= total * 3 + i * x
    return np.full(2, total), np.full(3, total)


@pytest.mark.skipif(sys.platform == "win32", reason="the test sends a signal")
def test_an_interrupt_of_a_function_that_returns_arrays_is_no_system_error():
    """The signal arrives within the loop, and Python raises it while the arrays are returned."""
    function = njit(partial_sums, **internals.OUTER)
    internals.raise_interrupts(function)
    arrays = function(1, 10)
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGALRM, lambda *_: os.kill(os.getpid(), signal.SIGINT))
    try:
        for _ in range(3):
            signal.setitimer(signal.ITIMER_REAL, 0.02)
            with pytest.raises(KeyboardInterrupt):
                function(1, 200_000_000)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGINT, handler)
    np.testing.assert_array_equal(function(1, 10)[1], arrays[1])
    assert njit(lambda x: function(x, 10))(1)[0][0] == arrays[0][0]  # compiled code calls it as before


def store_sum(address, x):
    write(address, x + 1)


@intrinsic
def write(typing, address, value):
    def code(context, builder, signature, args):
        builder.store(args[1], builder.inttoptr(args[0], ir.IntType(64).as_pointer()))
        return internals.void(context)

    return types.void(types.intp, types.intp), code


@pytest.mark.full
def test_a_callback_has_an_address_and_a_cache():
    cache, out = RecordingCache(), np.zeros(1, np.int64)
    function = njit(store_sum, **internals.PART)

    def call(to, x):
        function(to, x)

    for number in range(2):
        made = internals.callback(call, (types.intp, types.intp), cache)
        native = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_int64)(made.address)
        native(out.ctypes.data, 41 + number)
        assert out[0] == 42 + number
        assert [name for name, *_ in cache.calls] == ["load", "save", "load"][: 2 + number]


# ------------------------------------------------------------------------------------------------- machine code of LLVM

I64 = ir.IntType(64)


def test_the_processor_is_named_as_llvm_does():
    triple, cpu, features = internals.host_tuple()
    assert triple.count("-") >= 2
    assert cpu
    assert all(each[0] in "+-" for each in features.split(",") if each)


@pytest.mark.full
def test_the_environment_chooses_the_processor():
    code = "from semiring.kernels.cpu.codegen.numba_internals import host_tuple; print(host_tuple()[1:])"
    environment = {**os.environ, "NUMBA_CPU_NAME": "generic", "NUMBA_CPU_FEATURES": "", "SEMIRING_CACHE_DIR": ""}
    result = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "('generic', '')"


def write_sum_function(module, name):
    """Write a function (to, count): the sum of 0, 2, 4, … below count goes to an address, by loops and slots."""
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), [I64, I64]), name)
    builder = ir.IRBuilder(function.append_basic_block())
    to, count = function.args
    with internals.for_range(builder, ir.Constant(I64, 1)) as outer:  # one turn, so that the slot is requested inside
        total = internals.alloca_once_value(builder, outer.index)
        again = internals.alloca_once(builder, I64)
        step = ir.Constant(I64, 2)
        with internals.for_range_slice(builder, ir.Constant(I64, 0), count, step, I64) as (index, _):
            builder.store(builder.add(builder.load(total), index), total)
        byte = ir.IntType(8).as_pointer()
        size = ir.Constant(I64, 8)
        source, copy = builder.bitcast(total, byte), builder.bitcast(again, byte)
        internals.raw_memcpy(builder, copy, source, size, ir.Constant(I64, 1))
        builder.store(builder.load(again), builder.inttoptr(to, I64.as_pointer()))
    builder.ret_void()
    return function


def test_slots_stand_in_the_first_block_and_loops_count():
    function = write_sum_function(ir.Module(), "slots")
    slots = [each for block in function.blocks for each in block.instructions if isinstance(each, ir.AllocaInstr)]
    assert len(slots) >= 2
    assert all(each.parent is function.entry_basic_block for each in slots)


@pytest.mark.full
def test_a_library_is_compiled_kept_and_loaded():
    with internals.compiler_lock:
        library = internals.compile_library(
            "semiring_test_library", lambda module: write_sum_function(module, "summed")
        )
        state = pickle.dumps(internals.library_state(library))
        libraries = library, internals.load_library(pickle.loads(state))
        addresses = [internals.function_address(each, "summed") for each in libraries]
    out = np.zeros(1, np.int64)
    for address in addresses:
        ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_int64)(address)(out.ctypes.data, 10)
        assert out[0] == 0 + 2 + 4 + 6 + 8
        out[:] = 0


def test_attributes_with_values():
    function = ir.Function(ir.Module(), ir.FunctionType(ir.VoidType(), []), "attributed")
    ir.IRBuilder(function.append_basic_block()).ret_void()
    internals.add_attribute(function, "prefer-vector-width", "512")
    assert '"prefer-vector-width"="512"' in str(function).splitlines()[0]
    with pytest.raises(ValueError, match="unknown attr"):
        function.attributes.add('"prefer-vector-width"="512"')  # else `add_attribute` is not needed any more


# ------------------------------------------------------------------------------------------- the code of intrinsics


@intrinsic
def first_address(typing, array):
    def code(context, builder, signature, args):
        return builder.ptrtoint(internals.data_of(context, builder, signature.args[0], args[0]), I64)

    return types.intp(array), code


@intrinsic
def floats_at(typing, where, count):
    kind = types.Array(types.float32, 1, "C")

    def code(context, builder, signature, args):
        data, size = builder.inttoptr(args[0], ir.FloatType().as_pointer()), ir.Constant(I64, 4)
        return internals.array_at(context, builder, kind, data, [args[1]], [size], size)

    return kind(types.intp, types.intp), code


@intrinsic
def bytes_of(typing, value):
    def code(context, builder, signature, args):
        return ir.Constant(I64, internals.abi_size(context, args[0].type))

    return types.intp(value), code


@numba.njit
def ask(array, value):
    again = floats_at(first_address(array) + 4, len(array) - 1)
    again[0] += 1
    return first_address(array), again.sum(), bytes_of(value)


@pytest.mark.full
def test_intrinsics_reach_arrays_and_sizes():
    array = np.arange(5, dtype=np.float32)
    for value, size in ((np.float64(1), 8), (np.int16(1), 2)):
        before = array[1:].sum()
        assert ask(array, value) == (array.ctypes.data, before + 1, size)
    assert array[1] == 3  # no copy
    values = np.zeros(1, np.int64)
    numba.njit(store_sum)(values.ctypes.data, 6)
    assert values[0] == 7
