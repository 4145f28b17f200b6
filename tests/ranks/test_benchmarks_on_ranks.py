"""Test every table of the benchmark of ranks, at a tiny size, under mpiexec. No test checks a time."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import mpiexec
import pytest
import table_checks

from benchmarks import paper_tables
from benchmarks.tables import read

pytestmark = pytest.mark.full
ROOT = table_checks.FOLDER.parent

#: The columns that some rows leave empty, with the reason.
PARTLY = {
    "bertoldi-bytes": re.compile("of the formula"),  # one rank receives nothing
    "bertoldi-ranks": None,
    "closures": re.compile("of the model's"),  # one rank receives nothing
    "model": re.compile("measured|of it|what stops it"),  # machines that are not here
    "scaling": re.compile("of the model's"),
}


def on_ranks(size, tmp_path, *words):
    """Return the tables that ranks save."""
    file = tmp_path / "tables.csv"
    given = ["-m", "benchmarks.mpi", *words, "--fitted", "96", "64", "1024", "--threads", "1", "--save", str(file)]
    status, printed, told = mpiexec.run(size, *given)
    assert status == 0, told
    found = read(file)
    assert printed.count(", Python ") == 1, "the first rank alone prints"
    for name, table in found.items():
        if name != "one":
            table_checks.check(f"benchmarks.mpi {name}", table, PARTLY[name])
    return found


def test_ranks_fill_their_tables(tmp_path):
    found = on_ranks(2, tmp_path, "closures", "model", "one", "--n", "64")
    assert list(found) == ["closures", "model", "one"]
    (row,) = found["one"].rows
    assert json.loads(row[0]).keys() == {"seconds", "waited", "received", "expected", "says"}
    shares = [row[found["closures"].columns.index("of the model's")] for row in found["closures"].rows]
    assert shares == ["100 %"] * 3, "the bytes received are those of the model"


def test_rows_wait_in_their_broadcasts(tmp_path):
    found = on_ranks(2, tmp_path, "closures", "--n", "256")["closures"]
    waited = [float(row[found.columns.index("waited, s")]) for row in found.rows if "rows" in row[1]]
    assert len(waited) == 2
    assert all(seconds > 0 for seconds in waited)


@pytest.fixture
def started_from_here(monkeypatch):
    """Let a benchmark start mpiexec by itself."""
    for name in ("OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"):
        monkeypatch.setenv(name, "1")
    monkeypatch.setenv("OMPI_MCA_osc", "^ucx")  # its absence is reported as an error


def test_ranks_of_a_paper_are_measured(tmp_path, started_from_here):
    """The bytes that are counted are those of the formula, also for some pivots."""
    command = ["-m", "benchmarks.papers", "host", "--sizes", "96", "--pivots", "20", "--counts", "1"]
    command += ["--ranks", "1", "2", "--mpiexec", f"{mpiexec.MPIEXEC} --bind-to none --oversubscribe"]
    file = tmp_path / "tables.csv"
    done = subprocess.run([sys.executable, *command, "--save", str(file)], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found = paper_tables.tables_of(paper_tables.measured_in(read(file)))
    assert [row[-1] for row in found["bertoldi-bytes"].rows[:2]] == ["—", "100 %"]
    ranks = [dict(zip(found["bertoldi-ranks"].columns, row, strict=True)) for row in found["bertoldi-ranks"].rows]
    assert [row["all pivots, s"][0] == "~" for row in ranks if row["all pivots, s"] != "—"] == [True] * 2 + [False] * 2


def test_a_table_of_runs_on_ranks_is_filled(tmp_path, started_from_here):
    command = ["-m", "benchmarks.mpi", "scaling", "--n", "64", "--many", "1", "2", "--fitted", "96", "64", "1024"]
    command += ["--threads", "1", "--mpiexec", f"{mpiexec.MPIEXEC} --bind-to none --oversubscribe"]
    file = tmp_path / "tables.csv"
    done = subprocess.run([sys.executable, *command, "--save", str(file)], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    table_checks.check("benchmarks.mpi scaling", read(file)["scaling"], PARTLY["scaling"])
