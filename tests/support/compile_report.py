"""Add the pytest option ``--compile-report``: seconds of each test file, and how many of them a compiler took.

The table has a row for each file: wall time, processor time with that of child processes, and compilation. Compilation
is by Numba (loops), LLVM (tiles and other functions in intermediate code), NVRTC (CUDA C++) or the CUTLASS DSL.
Compilation inside
child processes counts as processor time only. With pytest-xdist the rows of all workers are added up.
"""

from __future__ import annotations

import resource
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter
from typing import Any

import pytest

COMPILERS = ("Numba", "LLVM", "NVRTC", "CuTe")
#: How many functions the list of the most compiled ones has.
MOST = 40
COLUMNS = ("tests", "wall", "CPU", *COMPILERS)


class CompilationTimer:
    """The seconds of each compiler in this process. An inner compilation counts as part of the outer one."""

    def __init__(self) -> None:
        self.seconds = dict.fromkeys(COMPILERS, 0.0)
        self.seconds_by_loop: dict[str, list[float]] = {}
        self._open = threading.local()

    def begin(self, compiler: str, name: str) -> None:
        """Open a compilation of this thread."""
        self._stack().append((compiler, name, perf_counter()))

    def end(self) -> None:
        """Close the innermost compilation of this thread. The outermost one is counted."""
        stack = self._stack()
        if not stack:
            return
        compiler, name, start = stack.pop()
        if not stack:
            spent = perf_counter() - start
            self.seconds[compiler] += spent
            row = self.seconds_by_loop.setdefault(name, [0.0, 0.0])
            row[0] += 1
            row[1] += spent

    def forget_failures(self) -> None:
        """Drop compilations of this thread that began and raised, and therefore were not closed."""
        self._stack().clear()

    def _stack(self) -> list[tuple[str, str, float]]:
        if not hasattr(self._open, "stack"):
            self._open.stack = []
        return self._open.stack


def install(timer: CompilationTimer) -> None:
    """Let the compilers that the library calls report to a timer."""
    from semiring.logs import Compilation

    begin, done = Compilation.__init__, Compilation.done

    def timed_init(self: Compilation, what: str, target: str = "this machine") -> None:
        begin(self, what, target)
        caller = sys._getframe(1).f_locals.get("self")  # Numba's cache, which has the name of the loop
        compiler = "CuTe" if target != "this machine" else "LLVM" if caller is None else "Numba"
        timer.begin(compiler, getattr(caller, "name", what))

    def timed_done(self: Compilation, least: float = 0.0) -> None:
        timer.end()
        done(self, least)

    Compilation.__init__, Compilation.done = timed_init, timed_done
    try:
        from cuda.bindings import nvrtc
    except ImportError:
        return
    compile_program = nvrtc.nvrtcCompileProgram

    def timed_program(*arguments: Any) -> Any:
        timer.begin("NVRTC", "CUDA C++")
        try:
            return compile_program(*arguments)
        finally:
            timer.end()

    nvrtc.nvrtcCompileProgram = timed_program


def processor_seconds() -> float:
    """Return the processor time of this process and of its children that have ended."""
    spent = 0.0
    for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN):
        usage = resource.getrusage(who)
        spent += usage.ru_utime + usage.ru_stime
    return spent


class Report:
    """A plugin with rows by file, of this process and of the workers of pytest-xdist."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.timer = CompilationTimer()
        self.rows: dict[str, list[float]] = {}
        if not getattr(config.option, "numprocesses", None):
            install(self.timer)

    @contextmanager
    def measure(self, file: str, tests: int) -> Iterator[None]:
        """Add what the body takes to the row of a file."""
        self.timer.forget_failures()
        before = [perf_counter(), processor_seconds(), *self.timer.seconds.values()]
        yield
        after = [perf_counter(), processor_seconds(), *self.timer.seconds.values()]
        self.add(file, [tests, *(b - a for a, b in zip(before, after, strict=True))])

    def add(self, file: str, amounts: list[float]) -> None:
        """Add amounts, in the order of `COLUMNS`, to the row of a file."""
        row = self.rows.setdefault(file, [0.0] * len(COLUMNS))
        for position, amount in enumerate(amounts):
            row[position] += amount

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        with self.measure(item.nodeid.partition("::")[0], 1):
            return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_make_collect_report(self, collector: pytest.Collector) -> Iterator[None]:
        with self.measure("(collection)", 0):
            return (yield)

    def pytest_sessionfinish(self) -> None:
        if hasattr(self.config, "workeroutput"):
            self.config.workeroutput["compile report"] = self.rows
            self.config.workeroutput["compiled names"] = self.timer.seconds_by_loop

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        for file, row in getattr(node, "workeroutput", {}).get("compile report", {}).items():
            self.add(file, row)
        for name, (count, seconds) in getattr(node, "workeroutput", {}).get("compiled names", {}).items():
            row = self.timer.seconds_by_loop.setdefault(name, [0.0, 0.0])
            row[0] += count
            row[1] += seconds

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        if hasattr(self.config, "workeroutput") or not self.rows:
            return
        terminalreporter.section("seconds by file")
        for line in self.table():
            terminalreporter.write_line(line)
        terminalreporter.section("the most compiled")
        for name, (count, seconds) in sorted(self.timer.seconds_by_loop.items(), key=lambda row: -row[1][1])[:MOST]:
            terminalreporter.write_line(f"{seconds:9.1f} s {count:6.0f} times  {name}")

    def table(self) -> list[str]:
        """Return the lines of the table, files of the most processor time first, and a line for all of them."""
        width = max(map(len, self.rows), default=0)
        total = [sum(column) for column in zip(*self.rows.values(), strict=True)]
        lines = [f"{'':{width}}  " + "".join(f"{name:>9}" for name in COLUMNS)]
        by_cost = sorted(self.rows.items(), key=lambda row: -row[1][2])
        for file, row in [("all files", total), *by_cost]:
            lines.append(f"{file:{width}}  {row[0]:9.0f}" + "".join(f"{amount:9.1f}" for amount in row[1:]))
        return lines


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--compile-report", action="store_true", help="print wall, processor and compilation seconds of each test file"
    )


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--compile-report"):
        config.pluginmanager.register(Report(config), "compile report of files")
