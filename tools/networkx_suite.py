"""Run NetworkX's own tests with this backend in place of its functions, and count the calls of the backend.

    python tools/networkx_suite.py            # the modules of the functions that the backend has: half a minute
    python tools/networkx_suite.py --all      # the whole suite of the installed NetworkX: some minutes
    python tools/networkx_suite.py --json counts.json -- -k johnson      # anything after -- goes to pytest
    python tools/networkx_suite.py --all --save docs/data/networkx-suite.csv  # for docs/benchmarks

In this mode NetworkX converts every graph and does not call `should_run`: the backend receives the smallest graphs too.
A call that it declines (NotImplementedError) runs in NetworkX. This script skips and marks no test. Exit status:
pytest's.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import tomllib
from collections import defaultdict
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent

#: The modules that test functions of the backend, below the package networkx.
MODULES = (
    "algorithms/shortest_paths/tests",
    "algorithms/centrality/tests/test_betweenness_centrality.py",
    "algorithms/centrality/tests/test_closeness_centrality.py",
    "algorithms/centrality/tests/test_harmonic_centrality.py",
    "algorithms/tests/test_dag.py",
    "algorithms/tests/test_distance_measures.py",
    "algorithms/tests/test_efficiency.py",
    "algorithms/tests/test_simple_paths.py",
    "algorithms/tests/test_wiener.py",
)


def install_entry_points(folder: str) -> None:
    """Make the entry points of this tree known to `importlib.metadata`, where it is not installed."""
    if entry_points(group="networkx.backends", name="semiring"):
        return
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    info = Path(folder) / f"semiring-{project['version']}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: semiring\nVersion: {project['version']}\n")
    groups = (
        "\n".join([f"[{group}]", *(f"{name} = {target}" for name, target in points.items())])
        for group, points in project["entry-points"].items()
    )
    (info / "entry_points.txt").write_text("\n".join(groups) + "\n")
    sys.path.insert(0, folder)


COLUMNS = ("function", "tests it ran in", "calls that ran", "declined", "raised")


class Counts:
    """A plugin of pytest that counts the tests that reach each function of the backend, by their outcome."""

    def __init__(self) -> None:
        self.test = ""
        self.calls: dict[str, dict[str, int]] = defaultdict(lambda: {"ran": 0, "declined": 0, "raised": 0})
        self.tests: dict[str, set[str]] = defaultdict(set)
        self.outcomes: dict[str, int] = defaultdict(int)

    def watch(self, backend: Any, names: list[str]) -> None:
        """Count the calls of the functions of that name."""
        for name in names:
            setattr(backend, name, self._counting(name, getattr(backend, name)))

    def _counting(self, name: str, function: Any) -> Any:
        def call(*args: Any, **kwargs: Any) -> Any:
            calls = self.calls[name]
            try:
                result = function(*args, **kwargs)
            except NotImplementedError:
                calls["declined"] += 1
                raise
            except Exception:
                calls["raised"] += 1
                raise
            calls["ran"] += 1
            self.tests[name].add(self.test)
            return result

        return call

    def pytest_runtest_setup(self, item: Any) -> None:
        self.test = item.nodeid

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.when == "call" or report.skipped or report.failed:
            xfailed = hasattr(report, "wasxfail") and report.skipped
            self.outcomes["xfailed" if xfailed else report.outcome] += 1

    def rows(self, names: list[str]) -> list[tuple[Any, ...]]:
        """Return the rows of a table of all functions, with the columns `COLUMNS`."""
        kinds = ("ran", "declined", "raised")
        return [(f"`{name}`", len(self.tests[name]), *(self.calls[name][kind] for kind in kinds)) for name in names]

    def summary(self) -> str:
        outcomes = ", ".join(f"{count} {outcome}" for outcome, count in sorted(self.outcomes.items()))
        together = len(set().union(*self.tests.values()))
        return f"{outcomes}; the backend ran in {together} of the tests"


def main() -> int:
    """Run, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--all", action="store_true", help="the whole suite")
    parser.add_argument("--json", type=Path, help="where the counts go, too")
    parser.add_argument("--save", type=Path, metavar="FILE", help="where the table goes, too")
    parser.add_argument("rest", nargs="*", help="for pytest")
    options = parser.parse_args()
    sys.path.insert(0, str(ROOT))
    from benchmarks.common import Table, keep

    os.environ["NETWORKX_TEST_BACKEND"] = "semiring"
    os.environ["NETWORKX_FALLBACK_TO_NX"] = "True"
    with tempfile.TemporaryDirectory() as folder:
        install_entry_points(folder)
        import networkx as nx
        import pytest

        from _semiring_networkx import FUNCTIONS, interface

        names, counts = list(FUNCTIONS), Counts()
        counts.watch(interface, names)
        package = Path(nx.__file__).parent
        modules = [str(package / module) for module in MODULES] if not options.all else [str(package)]
        quiet = ["-q", "--no-header", "-p", "no:cacheprovider", "-c", os.devnull, f"--rootdir={package.parent}"]
        status = pytest.main([*quiet, *modules, *options.rest], plugins=[counts])
        table = Table("NetworkX's own tests, with the backend switched on", COLUMNS, counts.rows(names))
        print(f"\nNetworkX {nx.__version__}\n{table}\n\n{counts.summary()}")
        if options.save:
            keep(options.save, "functions", table, ["python", "tools/networkx_suite.py", *sys.argv[1:]])
        if options.json:
            tests = {name: len(counts.tests[name]) for name in names}
            options.json.write_text(json.dumps({"outcomes": counts.outcomes, "tests": tests, "calls": counts.calls}))
    return int(status)


if __name__ == "__main__":
    sys.exit(main())
