"""Test the logger ``semiring``: it has a line for each compilation and each choice, and no handler."""

from __future__ import annotations

import logging
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from semiring import closure, logs
from semiring.kernels.cuda.product import cubins
from semiring.kernels.cuda.product.specification import Fold, Product, Search, WordFormat
from semiring.logs import Compilation, log_choice, logger
from semiring.precompilation import CALLS

ROOT = str(Path(__file__).parents[2])


def fresh(code, cache, *arguments):
    """Return what a new process prints with an empty cache."""
    environment = {**os.environ, "PYTHONPATH": ROOT, "SEMIRING_CACHE_DIR": str(cache), "NUMBA_OPT": "0"}
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True)


WORK = """
import logging, sys
import numpy as np
import semiring as sr
from semiring.kernels.cpu import first_calls
first_calls.SECONDS = 0.0
if sys.argv[1:]:
    logging.basicConfig(level=logging.INFO, format="%(name)s %(levelname)s %(message)s")
sr.matmul(np.eye(20, dtype=np.int16), np.eye(20, dtype=np.int16), "max_min")
"""


#: Compiles a tile alone, which takes less than a product.
TILE = """
import semiring as sr
from semiring.kernels.cpu import kernels
from semiring.kernels.engine import make_plan
assert kernels.kernels_for(make_plan(sr.max_min, "int16")).compile_tile()
"""


@pytest.mark.full
def test_each_compilation_is_a_line_and_silence_is_the_default(tmp_path):
    assert fresh(TILE, tmp_path / "a").stderr == ""
    lines = fresh(WORK, tmp_path / "b", "log").stderr.splitlines()
    assert all(line.startswith(("semiring INFO compiling ", "semiring INFO products: ")) for line in lines)
    shown = [line for line in lines if "max_min int16 product for this machine, once: " in line]
    assert len(shown) == 1
    assert shown[0].endswith(" s")
    assert any("compiling products for this machine, once: " in line for line in lines)
    waits = [line for line in lines if "waits" in line]
    assert len(waits) == 1
    assert waits[0].startswith("semiring INFO products: this call waits about ")
    assert fresh(WORK, tmp_path / "b", "log").stderr == "", "what is on disk is not compiled"


def test_the_library_installs_no_handler_that_writes():
    assert all(isinstance(handler, logging.NullHandler) for handler in logger().handlers)
    assert logger().propagate


def test_a_compilation_begins_and_ends(caplog):
    with caplog.at_level(logging.DEBUG, "semiring"):
        under_way = Compilation("x", "sm_90a")
        under_way.finish()
        Compilation("y").finish(shortest=60.0)
        Compilation("z")
    told = [(one.levelname, re.sub(r"[\d.]+ s$", "1 s", one.message), one.seconds is None) for one in caplog.records]
    assert told == [
        ("DEBUG", "compiling x for sm_90a, once", True),
        ("INFO", "compiling x for sm_90a, once: 1 s", False),
        ("DEBUG", "compiling y for this machine, once", True),
        ("DEBUG", "compiling y for this machine, once: found", False),
        ("DEBUG", "compiling z for this machine, once", True),
    ]


def test_a_wait_for_the_compiler_is_announced_once_for_each_kind(caplog, monkeypatch):
    """The line names the kernels, the seconds and the call that compiles beforehand."""
    monkeypatch.setattr(logs, "_announced", set())
    with caplog.at_level(logging.INFO, "semiring"):
        with logs.expected():  # precompile waits on purpose
            logs.warn_of_wait("products")
        for subject in ("products", "plus_times float64 products of rows", "log_plus products", "threads"):
            logs.warn_of_wait(subject)
    kinds = [
        re.fullmatch(r"(\S+): this call waits about \d+ s for the compiler, .*", one)[1] for one in caplog.messages
    ]
    assert kinds == ["products", "log_plus"]
    for message in caplog.messages:
        assert "semiring.precompile(SEMIRING, dtype=DTYPE, calls='products')" in message
        assert "`semiring precompile SEMIRING --dtype DTYPE --calls products`" in message


def test_the_kinds_of_waits_are_those_of_precompile():
    assert {calls for *_, calls in logs._WAITS} <= set(CALLS)


def test_a_choice_says_why(caplog):
    with caplog.at_level(logging.DEBUG, "semiring"):
        log_choice("closure of 300 × 300 float32", "rkleene", "it was measured fastest")
    assert caplog.messages == ["closure of 300 × 300 float32: rkleene, because it was measured fastest"]


@pytest.mark.parametrize("n", [40, 300])
def test_the_choice_of_a_closure_is_logged(caplog, rng, n):
    A = rng.random((n, n), np.float32)
    with caplog.at_level(logging.DEBUG, "semiring"):
        _, explanation = closure(A, explain=True)
        closure(A)
    lines = [message for message in caplog.messages if message.startswith("closure of")]
    choice = f"closure of {n} × {n} float32 in min_plus: {explanation.method}, because {explanation.reasons[0]}"
    assert lines == [choice] * (1 if n == 40 else 2)  # few vertices go straight to the kernel


@pytest.mark.parametrize(
    ("kernel", "line"),
    [
        (
            Product("min(x, y)", "x + y", 0, WordFormat("float32"), True, "word", "vector", "vector"),
            "float32 product with ⊕ min(x, y), ⊗ x + y",
        ),
        (Fold("min(x, y)", WordFormat("int32"), True), "int32 sum with ⊕ min(x, y)"),
        (Search("x + y", WordFormat("float64"), 16, False), "float64 product with witnesses, ⊗ x + y"),
    ],
)
def test_kernels_of_a_gpu_are_told_of_too(caplog, monkeypatch, kernel, line):
    """The compiler is a stand-in, because the test is about the log: it has a line for a miss of the cache, not for a
    hit."""
    monkeypatch.setattr(cubins, "build", lambda *_: ("kernel", b"code"))
    kept = {}
    cubins.fingerprint()  # reads the digests of sources from disk, once in a process
    monkeypatch.setattr(cubins.code_store, "load", lambda fingerprint, key, rebuild: kept.get(key))
    monkeypatch.setattr(cubins.code_store, "save", lambda fingerprint, key, state: kept.update({key: state}))
    with caplog.at_level(logging.INFO, "semiring"):
        for _ in range(2):
            assert cubins.cubin(kernel, None, "sm_90a") == ("kernel", b"code")
    assert [message.rpartition(": ")[0] for message in caplog.messages] == [f"compiling {line} for sm_90a, once"]
