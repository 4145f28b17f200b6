"""Seeds that follow from a test's name, the command that repeats a failure, and one line of tests that need a GPU."""

from __future__ import annotations

import ctypes
import functools
import gc
import os
import re
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

# The same examples on every run, so that a red test means a changed program. HYPOTHESIS_PROFILE=explore draws new ones.
_SHARED = {"deadline": None, "print_blob": True, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("default", max_examples=30, derandomize=True, database=None, **_SHARED)
settings.register_profile("quick", max_examples=10, derandomize=True, database=None, **_SHARED)
settings.register_profile("explore", max_examples=500, derandomize=False, **_SHARED)

#: What a case of the quick tier is not about: the kernels of these would first be compiled, and nobody else needs them;
#: libraries would first be imported.
_DTYPES = ("int16", "int64", "uint8", "float16", "bfloat16")
_SEMIRINGS = ("min_times", "min_max", "lukasiewicz", "xor_and")
_UNUSUAL = frozenset((*_DTYPES, *_SEMIRINGS, "semiring.jax", "semiring.torch"))

#: Where a case of float32 would compile long loops once more, beside those of float64. Elsewhere it is a tile, at once.
_LOOPS = ("closures/", "factor/", "test_traps.py", "test_cli.py")
_TILES = "test_contract.py"

#: log_plus has loops of its own: those of float32, in which models are trained.
_LOG = ("test_log_plus.py", "test_log_walks.py")

#: Folders whose kernels are those of other folders, all in all: their tests come last, when those are compiled.
_SHARING = ("compat", "io")

#: These need PyTorch or JAX, which alone take seconds to import, in every process.
_LATER = ("test_jax.py", "test_sequence_gradients.py", "test_torch.py")


#: The values of its parameters that the cases of a test have shown, by the test.
_SHOWN = pytest.StashKey[dict[str, set[tuple[str, ...]]]]()


def _quick(config: pytest.Config) -> bool:
    return bool(config.getoption("markexpr") == "not slow")


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_SHOWN] = {}
    if _quick(config):
        os.environ.setdefault("HYPOTHESIS_PROFILE", "quick")
        # A third of what the compiler takes is its optimiser. All tests run what users run; its kernels are kept apart.
        os.environ.setdefault("NUMBA_OPT", "0")
    settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))
    from semiring.kernels.cpu import first_calls  # it imports Numba, which reads the environment then

    first_calls.SECONDS = 0.0  # tests are about the compiled kernels; those of the first calls say otherwise


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Whether not even to import a file, in the quick tier; None leaves it to others."""
    return (collection_path.name in _LATER and _quick(config)) or None


def _values(item: pytest.Item) -> Iterator[tuple[str, ...]]:
    """What is told apart of a case: the value of each parameter, or of several that are given together."""
    left = dict(item.callspec.params)
    for mark in item.iter_markers("parametrize"):
        together = [name for name in re.findall(r"\w+", str(mark.args[0])) if name in left]
        yield *together, *(str(id(left.pop(name))) for name in together)
    yield from ((name, str(id(value))) for name, value in left.items())


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark the cases slow that are about an unusual dtype or semiring, or would compile loops for a second dtype.

    And those that show nothing new: each value of each parameter of a test is in a quick case, their combinations are
    not.
    """
    cases = item.callspec.params.values() if hasattr(item, "callspec") else ()
    names = {str(getattr(case, "name", getattr(case, "__name__", case))) for case in cases}
    where = item.path.as_posix()
    loops = any(part in where for part in _LOOPS) and item.path.name != _TILES
    again = "float64" if item.path.name in _LOG or "log_plus" in names else "float32" if loops else None
    if not names.isdisjoint(_UNUSUAL) or again in names:
        item.add_marker(pytest.mark.slow)
    if cases and item.get_closest_marker("slow") is None:
        shown = item.config.stash[_SHOWN].setdefault(item.nodeid.partition("[")[0], set())
        values = set(_values(item))
        if values <= shown:
            item.add_marker(pytest.mark.slow)
        shown.update(values)


def pytest_collection_finish() -> None:
    """Spare the search for garbage what stays, thousands of tests; the compiler makes many objects, and few cycles."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)


def pytest_unconfigure() -> None:
    """Libraries report what is never collected as leaks, when the process ends."""
    gc.unfreeze()


@pytest.fixture
def rng(request: pytest.FixtureRequest) -> np.random.Generator:
    """Random numbers that depend on the name of the test alone, not on the tests that ran before it."""
    return np.random.default_rng(zlib.crc32(request.node.name.encode()))


@functools.cache
def missing_gpu() -> str | None:
    """Why tests marked ``gpu`` cannot run here; None where they can. Asks the driver: no CUDA package is imported."""
    library = "nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1"
    try:
        driver = ctypes.CDLL(library)
    except OSError:
        return f"no NVIDIA driver: {library} is not there"
    count = ctypes.c_int(0)
    if (code := driver.cuInit(0)) != 0 or driver.cuDeviceGetCount(ctypes.byref(count)) != 0 or count.value == 0:
        return f"the NVIDIA driver finds no GPU (cuInit returned {code})"
    return None


#: What the summary says of tests that were left out.
_LEFT_OUT = pytest.StashKey[str]()


@pytest.hookimpl(trylast=True)  # after -k and -m
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    gpu = [item for item in items if item.get_closest_marker("gpu")]
    if gpu and (reason := missing_gpu()):
        config.hook.pytest_deselected(items=gpu)
        items[:] = [item for item in items if not item.get_closest_marker("gpu")]
        config.stash[_LEFT_OUT] = f"{len(gpu):,} GPU tests skipped: {reason}"
    if _quick(config):
        items.sort(key=lambda item: item.path.parent.name in _SHARING)


def pytest_sessionfinish(session: pytest.Session) -> None:
    if _LEFT_OUT in session.config.stash and hasattr(session.config, "workeroutput"):  # a process of pytest-xdist
        session.config.workeroutput["left out"] = session.config.stash[_LEFT_OUT]


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node) -> None:
    """A process of pytest-xdist has ended: each of them collects all tests, so one says it for all."""
    if said := getattr(node, "workeroutput", {}).get("left out"):
        node.config.stash[_LEFT_OUT] = said


def pytest_terminal_summary(terminalreporter, config: pytest.Config) -> None:
    if _LEFT_OUT in config.stash:
        terminalreporter.write_line(config.stash[_LEFT_OUT])


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log):
    """The tests of a file run in one process, which compiles their kernels once; another `--dist` is as it says.

    Those of a folder in the quick tier, most of whose time goes into the compiler where nothing is compiled yet.
    """
    from xdist.scheduler import LoadFileScheduling, LoadScopeScheduling

    class ByFolder(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return nodeid.partition("::")[0].rpartition("/")[0]

    kind = LoadFileScheduling
    if _quick(config):
        kind, config.option.loadscopereorder = ByFolder, False  # in this order, not the folder of most tests first
    return kind(config, log) if config.getoption("dist") == "load" else None


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]):
    report = yield
    if report.failed:
        profile = os.environ.get("HYPOTHESIS_PROFILE")
        command = f"python -m pytest {item.nodeid!r}"
        report.sections.append(("repeat it", f"HYPOTHESIS_PROFILE={profile} {command}" if profile else command))
    return report
