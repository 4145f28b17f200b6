"""Compare the present library with another revision, by two processes side by side that call in turn.

Both processes run the current benchmark, each with its own library. A folder with links comes first on the path: to the
benchmarks, and to the library of the tree or of the revision. The benchmark makes the same calls in both processes. At
each call both warm up. Then they repeat it in turn, one waiting while the other works. The first process changes every
round, so that disturbances by the machine affect both. The ratio of a round is the time of the current library over the
time of the earlier one. The median of these ratios is printed, with its 95 % confidence interval, whose ends are two of
the ratios.

The public interface is all that a benchmark may use if it is to run with revisions of another layout.
"""

from __future__ import annotations

import io
import json
import os
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks import common
from benchmarks.common import ROOT, Clock, by_device, by_enqueueing, format_seconds
from benchmarks.packages import UnavailableError
from benchmarks.tables import Table

__all__ = ["Comparison", "be_a_side", "compare"]

_LIBRARY = ("semiring", "_semiring_networkx")
_BENCHMARKS = ("benchmarks", "tools")
_BURST = 0.003  # seconds of short calls that are timed together
_WARM = 0.1  # seconds
_FEWEST, _MOST = 7, 1000  # rounds of a row
#: Calls that are timed together at most: what is enqueued for a GPU must fit its queue, and stay ahead of it.
_BURSTS: dict[Clock, int] = {by_device: 16, by_enqueueing: 50}


# ------------------------------------------------------------------------------------------------------- one side


class _Side:
    """A process of a comparison: it repeats a call as often as requested, and answers with the seconds of one.

    The last request holds the time of the call, equal on both sides, so that a benchmark may depend on it.
    """

    def __init__(self, requests: Any, answers: Any) -> None:
        self._requests, self._answers, self.table = requests, answers, ""

    def say(self, **message: Any) -> None:
        self._answers.write(json.dumps(message) + "\n")
        self._answers.flush()

    def __call__(
        self, label: str, call: Callable[[], Any], *, setup: Any, clock: Clock, max_ratio: float | None, **_: Any
    ) -> float:
        def measure(burst: int) -> float:
            def calls() -> None:
                for _ in range(burst):
                    call()

            if setup is not None:
                setup()
            return clock(calls) / burst

        most = 1 if setup is not None else _BURSTS.get(clock, 100_000)
        self.say(table=self.table, label=label, within=max_ratio, most=most)
        while isinstance(burst := json.loads(self._requests.readline()), int):
            try:
                self.say(seconds=measure(burst) if burst else _warm(measure))
            except Exception as error:
                self.say(failed=f"{type(error).__name__}: {error}")
        return burst["took"]


def _warm(measure: Callable[[int], float]) -> float:
    """Return the shortest time of several calls, after one call that compiles."""
    measure(1)
    end, fastest = time.perf_counter() + _WARM, measure(1)
    while time.perf_counter() < end:
        fastest = min(fastest, measure(1))
    return fastest


def be_a_side(tables: Mapping[str, Callable[[Any], Any]], options: Any) -> None:
    """Measure the tables for another process, with requests on standard input and answers on standard output."""
    import semiring

    if not Path(str(semiring.__file__)).parent.samefile(Path.cwd() / "semiring"):
        raise SystemExit(f"{semiring.__file__} came before the library that is to be measured")
    with os.fdopen(os.dup(1), "w", encoding="utf-8") as answers:
        os.dup2(2, 1)  # other output must not reach the channel of the answers
        side = common.side = _Side(sys.stdin, answers)
        for side.table, measure in tables.items():
            with suppress(UnavailableError):
                measure(options)
        side.say(label=None, machine=common.environment())


# ------------------------------------------------------------------------------------------------------ both sides


class _Process:
    """A process that measures one library, as the comparison controls it."""

    def __init__(self, process: subprocess.Popen[str], name: str) -> None:
        self.process, self.name = process, name

    def answer(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"the benchmark ended with {self.name}: status {self.process.wait()}")
        result: dict[str, Any] = json.loads(line)
        return result

    def tell(self, message: Any) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(message) + "\n")
        self.process.stdin.flush()

    def seconds(self, burst: int) -> float:
        """Return the seconds of one call in a burst of calls. A burst of 0 warms up."""
        self.tell(burst)
        found = self.answer()
        if "failed" in found:
            raise _FailedError(f"{self.name}: {found['failed']}")
        return float(found["seconds"])


class _FailedError(Exception):
    """A call failed with one of the libraries."""


@dataclass
class _Row:
    """The seconds that a call took with the earlier library and with the present one, in each round."""

    table: str
    label: str
    max_ratio: float | None
    rounds: list[tuple[float, float]] = field(default_factory=list)
    failure: str = ""

    def ratios(self) -> tuple[float, float, float]:
        """Return the median ratio and its 95 % confidence interval by ranks, as (median, low, high)."""
        ratios = sorted(now / earlier for earlier, now in self.rounds)
        low = max(0, int(len(ratios) / 2 - 0.98 * len(ratios) ** 0.5))
        return statistics.median(ratios), ratios[low], ratios[-1 - low]

    def verdict(self) -> str:
        """Whether it is as fast as it must be: no where the whole interval says so."""
        if self.failure or self.max_ratio is None:
            return ""
        median, low, _ = self.ratios()
        return "yes" if median <= self.max_ratio else "no" if low > self.max_ratio else "unclear"

    def cells(self) -> list[str]:
        if self.failure:
            return [self.table, self.label, "—", "—", "—", "—", "—", self.failure]
        earlier, now = (statistics.median(side) for side in zip(*self.rounds, strict=True))
        median, low, high = self.ratios()
        bound = "" if self.max_ratio is None else f"{self.max_ratio:g}: {self.verdict()}"
        ratios = (f"{ratio:.3f}" for ratio in (median, low, high))
        return [self.table, self.label, format_seconds(earlier), format_seconds(now), *ratios, bound]


@dataclass(frozen=True)
class Comparison:
    """The table of a comparison, the machine, and whether a call is slower than its limit."""

    table: Table
    machine: str
    slower: bool


def compare(module: str, arguments: Sequence[str], earlier: str, seconds: float, pairs: int) -> Comparison:
    """Run a benchmark with two libraries: for so many seconds a call, in so many pairs of processes one by one."""
    rows: dict[tuple[str, str], _Row] = {}
    machine = ""
    with tempfile.TemporaryDirectory() as folder:
        now, before = Path(folder, "now"), Path(folder, "earlier")
        _link(now, ROOT, (*_LIBRARY, *_BENCHMARKS))
        _unpack(before, earlier)
        for _ in range(pairs):
            with ExitStack() as stack:
                sides = [
                    stack.enter_context(_start(where, module, arguments, name))
                    for where, name in ((before, f"the library of {earlier}"), (now, "the library of now"))
                ]
                while not (machine := _one_call(sides, rows, seconds)):
                    pass
    columns = ["table", "call", earlier, "now", "ratio", "from", "to", "within"]
    title = f"Times of the library of now over those of {earlier}"
    medians = [row.ratios()[0] for row in rows.values() if not row.failure]
    if medians:
        title += f": {statistics.geometric_mean(medians):.3f} times in the geometric mean of {len(medians)} calls"
    return Comparison(
        Table(title, columns, [row.cells() for row in rows.values()]),
        machine,
        any(row.verdict() == "no" for row in rows.values()),
    )


def _one_call(sides: list[_Process], rows: dict[tuple[str, str], _Row], seconds: float) -> str:
    """Measure the next call with both libraries and return "", or the machine after the last call."""
    first, second = (side.answer() for side in sides)
    if first["label"] != second["label"]:
        raise SystemExit(f"the benchmark calls {first['label']} with one library, {second['label']} with the other")
    if first["label"] is None:
        return str(first["machine"])
    row = rows.setdefault((first["table"], first["label"]), _Row(first["table"], first["label"], first["within"]))
    took = float("nan")
    try:
        fastest = min([side.seconds(0) for side in sides])  # a list, so that both sides warm up
        burst = max(1, min(first["most"], round(_BURST / max(fastest, 1e-9))))
        end, done = time.perf_counter() + seconds, 0
        while done < _FEWEST or (time.perf_counter() < end and done < _MOST):
            order = sides if done % 2 else sides[::-1]
            times = {side.name: side.seconds(burst) for side in order}
            row.rounds.append((times[sides[0].name], times[sides[1].name]))
            done += 1
        took = statistics.median(time for time, _ in row.rounds)
    except _FailedError as error:
        row.failure = str(error)
    for side in sides:
        side.tell({"took": took})
    print(" | ".join(row.cells()), file=sys.stderr, flush=True)
    return ""


# -------------------------------------------------------------------------------------------------------- libraries


def _link(folder: Path, tree: Path, names: Sequence[str]) -> None:
    folder.mkdir(exist_ok=True)
    for name in names:
        (folder / name).symlink_to(tree / name)


def _unpack(folder: Path, earlier: str) -> None:
    """Unpack the library of a revision or of a source tree, together with the present benchmarks."""
    _link(folder, ROOT, _BENCHMARKS)
    tree = Path(earlier).resolve()
    if (tree / "semiring" / "__init__.py").exists():
        _link(folder, tree, [name for name in _LIBRARY if (tree / name).exists()])
        return
    git = ["git", "-C", str(ROOT)]
    try:
        listed = subprocess.run([*git, "ls-tree", "--name-only", earlier], capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise SystemExit(f"{earlier}: no tree of the library is there, and git is not installed") from None
    if listed.returncode:
        raise SystemExit(f"{earlier}: no tree of the library is there, and git says: {listed.stderr.strip()}")
    names = [name for name in _LIBRARY if name in listed.stdout.split()]
    packed = subprocess.run([*git, "archive", "--format=tar", earlier, *names], capture_output=True, check=True)
    with tarfile.open(fileobj=io.BytesIO(packed.stdout)) as archive:
        archive.extractall(folder, filter="data")


@contextmanager
def _start(folder: Path, module: str, arguments: Sequence[str], name: str) -> Iterator[_Process]:
    """Start a process that measures one library, and end it when the context ends."""
    # `-m` looks in the current folder first.
    command = [sys.executable, "-m", module, *arguments, "--side"]
    with subprocess.Popen(command, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield _Process(process, name)
        finally:
            process.kill()
