"""Test `semiring.mpi` on GPUs, under a real mpiexec: a GPU for each rank, and more ranks than GPUs."""

from __future__ import annotations

import pytest
from mpiexec import PROGRAM, run

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_ranks_of_gpus(size, tmp_path):
    code, out, errors = run(size, PROGRAM, "gpus", tmp_path, seconds=600)  # the first run compiles its kernels
    assert code == 0, errors
    assert f"gpus on {size} ranks\n" in out  # around it the CUTLASS DSL resets the colours of a terminal
