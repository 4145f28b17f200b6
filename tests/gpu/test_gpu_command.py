"""Test the command on GPUs: answers and files as on the CPU, from every option that names a GPU."""

from __future__ import annotations

import numpy as np
import pytest
from matrices import matrix

from semiring.cli import main

pytestmark = pytest.mark.gpu


def count() -> int:
    import cupy

    return int(cupy.cuda.runtime.getDeviceCount())


def devices() -> list[str]:
    """Return every name of GPUs of this machine that ``--device`` accepts."""
    names = [f"cuda:{number}" for number in range(count())]
    return ["cuda", *names, ",".join(names), "cuda:*"]


@pytest.fixture
def network(tmp_path, monkeypatch, rng):
    """Write a matrix of whole numbers to a file."""
    monkeypatch.chdir(tmp_path)
    np.save("A.npy", matrix(rng, 300, "min_plus", "float32"))
    return "A.npy"


def outcome(capsys, *words):
    code = main(list(words))
    return code, capsys.readouterr()


def test_closures(network, rng):
    for semiring in ("min_plus", "min_max", "boolean"):
        if semiring == "boolean":
            np.save(network, rng.random((300, 300)) < 0.005)
        assert main(["closure", network, "-s", semiring, "-o", "cpu.npy"]) == 0
        for device in devices():
            assert main(["closure", network, "-s", semiring, "-o", "gpu.npy", "--device", device]) == 0
            np.testing.assert_array_equal(np.load("gpu.npy"), np.load("cpu.npy"), device)


@pytest.mark.parametrize(("kind", "semiring"), [("shortest", "min_plus"), ("widest", "max_min")])
def test_paths(kind, semiring, network, capsys, rng):
    np.save(network, matrix(rng, 300, semiring, "float32"))
    for words in ([], ["--from", "0"], ["--to", "7"]):
        expected = outcome(capsys, "paths", network, "--kind", kind, *words)
        for device in devices():
            assert outcome(capsys, "paths", network, "--kind", kind, *words, "--device", device) == expected
    for device in devices():
        words = ["paths", network, "--kind", kind, "--predecessors", "P.npy", "-o", "D.npy", "--device", device]
        assert main(words) == 0
        assert np.load("P.npy").shape == np.load("D.npy").shape


def test_a_matrix_that_stays_in_its_file(network):
    assert main(["closure", network, "-o", "cpu.npy"]) == 0
    for device in ("cuda", "cuda:0"):
        assert main(["closure", network, "-o", "gpu.npy", "--memory", "1GiB", "--device", device]) == 0
        np.testing.assert_array_equal(np.load("gpu.npy"), np.load("cpu.npy"))


def test_errors(network, capsys):
    code, (out, err) = outcome(capsys, "closure", network, "--device", f"cuda:{count()}")
    assert (code, out) == (2, "")
    assert f"there is no GPU cuda:{count()}: the driver finds cuda:0" in err
    _, (_, err) = outcome(capsys, "closure", network, "--device", "cuda", "--method", "bertoldi_openmp")
    assert (
        "bertoldi_openmp runs on the CPU, and this matrix is closed on a GPU: pass --device cpu, or use one of" in err
    )
    if count() > 1:
        _, (_, err) = outcome(capsys, "closure", network, "--device", "cuda:*", "--method", "rkleene")
        assert "rkleene does not run on several GPUs" in err
