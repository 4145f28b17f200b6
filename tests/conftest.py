"""Configure tiers of tests, seeds that follow from a test's name, and the command that repeats a failure.

A test belongs to the tier ``quick`` unless a marker beside it says ``full`` or ``exhaustive``. ``pytest -m quick`` runs
the first tier, ``pytest`` runs quick and full, and ``pytest -m "quick or full or exhaustive"`` runs all three. In the
first two tiers a test of many cases runs those that cover all pairs of its parameters' values (`pairs`). Its remaining
cases are exhaustive.
"""

from __future__ import annotations

import ast
import atexit
import functools
import gc
import os
import re
import sys
import zlib
from collections.abc import Hashable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import tiers
from hypothesis import HealthCheck, settings
from pairs import LIMIT, covering_cases

if TYPE_CHECKING:
    import numpy as np

# The same examples on every run, so that a red test means a changed program. HYPOTHESIS_PROFILE=explore draws new ones.
_SHARED = {"deadline": None, "print_blob": True, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("quick", max_examples=10, derandomize=True, database=None, **_SHARED)
settings.register_profile("full", max_examples=30, derandomize=True, database=None, **_SHARED)
settings.register_profile("exhaustive", max_examples=200, derandomize=False, **_SHARED)
settings.register_profile("explore", max_examples=500, derandomize=False, **_SHARED)


def tier(config: pytest.Config) -> str:
    """Return the largest tier that the marker expression of the command line selects."""
    expression = config.getoption("markexpr")
    if expression == "quick":
        return "quick"
    everything = not expression or ("exhaustive" in expression and "not exhaustive" not in expression)
    return "exhaustive" if everything else "full"


def distributes(config: pytest.Config) -> bool:
    """Return whether this process distributes the tests to processes of pytest-xdist, and runs none."""
    return config.getoption("dist", "no") != "no" and not hasattr(config, "workerinput")


def pytest_configure(config: pytest.Config) -> None:
    chosen = tiers.selected_tier = tier(config)
    os.environ.setdefault("HYPOTHESIS_PROFILE", chosen)
    if chosen == "quick":
        # LLVM's optimiser takes a third of the time to compile. The full tier runs what users run. The kernels of the
        # two have separate cache keys.
        os.environ.setdefault("NUMBA_OPT", "0")
    # NumPy reads this when it is imported. OpenBLAS shares the small products of layouts between threads, which takes
    # six times as long as one thread, and every process of pytest-xdist would have a thread for each core.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    settings.load_profile(os.environ["HYPOTHESIS_PROFILE"])
    config.pluginmanager.register(Tiers(), "tiers of tests")
    if distributes(config):
        return
    from semiring.kernels.cpu import first_calls, thread_pool

    first_calls.SECONDS = 0.0  # tests are about the compiled kernels, and tests of the first calls set another value
    thread_pool._PAUSE = 0.0  # tests of threads use them, also beside other processes
    os.environ.setdefault("SEMIRING_NUMPY_SECONDS", "1")  # programs that tests run start no process beside them


def pytest_report_header(config: pytest.Config) -> str:
    return f"tier: {tier(config)}"


# ------------------------------------------------------------------------------------------------------------- tiers


@functools.cache
def module_markers(path: Path) -> frozenset[str]:
    """Return the names of the markers that a test file gives itself by ``pytestmark``, without importing it."""
    content = path.read_bytes()
    for statement in ast.parse(content).body if b"pytestmark" in content else ():
        if isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) == "pytestmark":
            return frozenset(re.findall(r"pytest\.mark\.(\w+)", ast.unparse(statement.value)))
    return frozenset()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Skip the import of a file of another tier in a run of the quick one. None leaves the decision to pytest."""
    if tier(config) != "quick" or collection_path.suffix != ".py" or not collection_path.name.startswith("test_"):
        return None
    return not module_markers(collection_path).isdisjoint({"full", "exhaustive"}) or None


def parameters(item: pytest.Item) -> dict[str, Hashable]:
    """Return what distinguishes a case from the other cases of its test: the value of each parameter, by identity.

    Three or more parameters that one ``parametrize`` lists together count as one, so that no row of such a list is left
    out. Two count as two: each of their rows is a pair.
    """
    rest = {name: id(value) for name, value in item.callspec.params.items()}
    found: dict[str, Hashable] = {}
    for mark in item.iter_markers("parametrize"):
        names = mark.args[0] if isinstance(mark.args[0], (list, tuple)) else re.findall(r"\w+", mark.args[0])
        together = [name for name in names if name in rest]
        if len(together) > 2:
            found[",".join(together)] = tuple(rest.pop(name) for name in together)
    return found | rest


def mark_cases_beyond_pairs(items: list[pytest.Item]) -> None:
    """Mark the cases exhaustive that tests of more than `pairs.LIMIT` cases have beyond all pairs of values.

    Cases that are exhaustive by a marker beside the test do not count: the remaining ones cover the pairs.
    """
    tests: dict[str, list[pytest.Item]] = {}
    for item in items:
        if hasattr(item, "callspec") and not item.get_closest_marker("exhaustive"):
            tests.setdefault(item.nodeid.partition("[")[0], []).append(item)
    for cases in tests.values():
        if len(cases) > LIMIT:
            chosen = covering_cases([parameters(case) for case in cases])
            for position, case in enumerate(cases):
                if position not in chosen:
                    case.add_marker(pytest.mark.exhaustive)


class Tiers:
    """A plugin that adds the markers of the tiers, before ``-m`` selects by them."""

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        mark_cases_beyond_pairs(items)
        for item in items:
            if not any(item.get_closest_marker(name) for name in ("full", "exhaustive")):
                item.add_marker(pytest.mark.quick)


#: The line of the summary about GPU tests that were left out.
_LEFT_OUT = pytest.StashKey[str]()


@pytest.hookimpl(trylast=True)  # after -k and -m
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    gpu = [item for item in items if item.get_closest_marker("gpu")]
    if gpu and (reason := tiers.missing_gpu()):
        config.hook.pytest_deselected(items=gpu)
        items[:] = [item for item in items if not item.get_closest_marker("gpu")]
        config.stash[_LEFT_OUT] = f"{len(gpu):,} GPU tests skipped: {reason}"


def pytest_sessionfinish(session: pytest.Session) -> None:
    if _LEFT_OUT in session.config.stash and hasattr(session.config, "workeroutput"):  # a process of pytest-xdist
        session.config.workeroutput["left out"] = session.config.stash[_LEFT_OUT]


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node) -> None:
    """Keep what a process of pytest-xdist left out. Each of them collects all tests, so one line stands for all."""
    if said := getattr(node, "workeroutput", {}).get("left out"):
        node.config.stash[_LEFT_OUT] = said


def pytest_terminal_summary(terminalreporter, config: pytest.Config) -> None:
    if _LEFT_OUT in config.stash:
        terminalreporter.write_line(config.stash[_LEFT_OUT])


# --------------------------------------------------------------------------------------------------------- processes


#: The modules and tests of the collection stay alive. The compiler makes many objects, and few cycles.
gc.set_threshold(50_000, 20, 20)


def pytest_collection_finish() -> None:
    """Exempt thousands of tests from garbage collection.

    The end of the process undoes it, because libraries report objects that are never collected as leaks. The end of
    the session would be too early: pytest collects garbage several times then, which takes a second.
    """
    gc.freeze()
    atexit.register(gc.unfreeze)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log):
    """Distribute as ``--dist worksteal`` does, unless another ``--dist`` is given.

    Each process begins with its own part of the files, so that few kernels are compiled twice.
    """
    from xdist.scheduler import WorkStealingScheduling

    return WorkStealingScheduling(config, log) if config.getoption("dist") == "load" else None


# -------------------------------------------------------------------------------------------------------- repetition


@pytest.fixture
def rng(request: pytest.FixtureRequest) -> np.random.Generator:
    """Return random numbers that depend on the name of the test alone, not on the tests that ran before it."""
    import numpy as np

    return np.random.default_rng(zlib.crc32(request.node.name.encode()))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]):
    report = yield
    if report.failed:
        profile = os.environ["HYPOTHESIS_PROFILE"]
        every_tier = ' -m ""' if item.get_closest_marker("exhaustive") else ""
        command = f"HYPOTHESIS_PROFILE={profile} python -m pytest{every_tier} {item.nodeid!r}"
        report.sections.append(("repeat it", command))
    return report


@pytest.fixture(autouse=True)
def close_figures() -> Iterator[None]:
    """Close the figures of a test, which pyplot keeps, and of which it allows twenty without a warning."""
    yield
    if pyplot := sys.modules.get("matplotlib.pyplot"):
        pyplot.close("all")
