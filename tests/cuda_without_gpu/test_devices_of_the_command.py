"""Test the option ``--device`` of the command, with a stand-in for CuPy whose driver finds a number of GPUs."""

from __future__ import annotations

from types import SimpleNamespace

import fake_cupy
import numpy as np
import pytest

import semiring as sr
from semiring import advice
from semiring.arrays.device import activate_device, check_device
from semiring.cli import main
from semiring.cli.parser import build_parser
from semiring.errors import DeviceError

EDGES = "from,to,weight\na,b,1\nb,c,2\nc,a,4\nc,d,1\n"


@pytest.fixture
def device(monkeypatch):
    """Return the module and the backend that stand in for those of a GPU."""
    return fake_cupy.install(monkeypatch)


@pytest.fixture
def edges(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "edges.csv").write_text(EDGES)
    return "edges.csv"


def count_gpus(monkeypatch, device, count):
    monkeypatch.setattr(device[0].cuda.runtime, "getDeviceCount", lambda: count)


@pytest.mark.parametrize("name", ["cuda", "cuda:0", "cuda:*"])
@pytest.mark.parametrize("semiring", ["min_plus", "max_min", "boolean"])
def test_a_closure_on_one_gpu(name, semiring, device, edges):
    assert main(["closure", edges, "-s", semiring, "-o", "cpu.npy"]) == 0
    assert device[1].calls == 0
    assert main(["closure", edges, "-s", semiring, "-o", "gpu.npy", "--device", name]) == 0
    assert device[1].calls > 0
    np.testing.assert_array_equal(np.load("gpu.npy"), np.load("cpu.npy"))


@pytest.mark.parametrize("kind", ["shortest", "widest"])
def test_paths_on_one_gpu(kind, device, edges, tmp_path, capsys):
    (tmp_path / edges).write_text("from,to,weight\na,b,1\nb,c,2\na,c,4\nc,d,1\n")
    for words in ([], ["--from", "a"], ["--to", "d"], ["--from", "a", "--to", "d"]):
        said = []
        for where in ([], ["--device", "cpu"], ["--device", "cuda"], ["--device", "cuda:*"]):
            before = device[1].calls
            assert main(["paths", edges, "--kind", kind, *words, *where]) == 0
            assert (device[1].calls > before) == ("cuda" in "".join(where))
            said.append(capsys.readouterr().out)
        assert len(set(said)) == 1, words


def test_several_gpus_are_handed_on(device, edges, monkeypatch):
    """The command passes on GPUs of a machine with three, as they were named, and all of them."""
    count_gpus(monkeypatch, device, 3)
    asked = []

    def closure(matrix, *_, device, **__):
        asked.append(device)
        raise DeviceError("seen")

    monkeypatch.setattr("semiring.cli.closure.closure", closure)
    for name in ("cuda:0,cuda:2", "cuda:*", "cuda:2", "cpu"):
        assert main(["closure", edges, "--device", name]) == 2
    assert asked == [("cuda:0", "cuda:2"), "cuda:*", "cuda:2", None]


@pytest.mark.parametrize("command", ["closure", "paths"])
@pytest.mark.parametrize(
    ("name", "count", "message"),
    [
        ("cuda:1", 1, "there is no GPU cuda:1: the driver finds cuda:0"),
        ("cuda:0,cuda:7", 4, "there is no GPU cuda:7: the driver finds cuda:0 to cuda:3"),
    ],
)
def test_a_gpu_that_is_not_there(command, name, count, message, device, edges, monkeypatch, capsys):
    """The command reports a missing GPU before it reads the network."""
    count_gpus(monkeypatch, device, count)
    assert main([command, "none.csv", "--device", name]) == 2
    assert capsys.readouterr() == ("", f"semiring: error: {message}\n")


def test_a_method_that_does_not_run_there(device, edges, monkeypatch, capsys):
    assert main(["closure", edges, "--device", "cuda", "--method", "bertoldi_openmp"]) == 2
    # The stand-in for the backend of CUDA has a name of its own.
    monkeypatch.setattr(device[1], "name", "cuda")
    assert main(["closure", edges, "--device", "cuda", "--method", "bertoldi_openmp"]) == 2
    assert "bertoldi_openmp runs on the CPU, and this matrix is closed on a GPU: pass --device cpu" in (
        capsys.readouterr().err
    )
    count_gpus(monkeypatch, device, 2)
    assert main(["closure", edges, "--device", "cuda:*", "--method", "rkleene"]) == 2
    assert "rkleene does not run on several GPUs: use blocked_floyd_warshall, or one of them" in capsys.readouterr().err


def test_a_file_that_several_gpus_do_not_close(device, tmp_path, monkeypatch, rng, capsys):
    """Strips of a file are closed on the CPU, or on one GPU."""
    count_gpus(monkeypatch, device, 2)
    monkeypatch.chdir(tmp_path)
    np.save("A.npy", rng.random((50, 50)))
    assert main(["closure", "A.npy", "-o", "D.npy", "--journal", "J", "--device", "cuda:*"]) == 2
    assert "name one GPU, --device cuda, or leave --device out" in capsys.readouterr().err
    with pytest.raises(DeviceError, match=r"name one GPU, device='cuda', or leave device= out"):
        sr.closure("A.npy", out="D.npy", journal="J", device=("cuda:0", "cuda:1"))


@pytest.mark.parametrize("command", ["check", "info", "precompile", "tune"])
def test_commands_without_a_device(command, capsys):
    assert main([command, "--device", "cuda"]) == 2
    assert "it is an option of paths and closure, and this command needs no GPU" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["closure", "paths"])
def test_help_names_the_devices(command, capsys):
    assert main([command, "--help"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "cpu (the default), cuda, cuda:1, several GPUs as cuda:0,cuda:1, or cuda:* for all" in said


def test_advice_spells_several_gpus_as_the_command_does():
    command = build_parser().read(["closure", "edges.csv"]).command
    with advice.use_spelling(command.spelling):
        assert advice.option("device", ("cuda:0", "cuda:1")) == "--device cuda:0,cuda:1"
        assert advice.option("device", "cuda:*") == "--device 'cuda:*'"
        assert advice.option("device") == "--device"


def test_the_library_checks_numbers(device):
    for name in ("cuda", "cuda:0", "cuda:*", ("cuda:0",)):
        check_device(name)
    for name in ("cuda:1", ("cuda:0", "cuda:1")):
        with pytest.raises(DeviceError, match="there is no GPU cuda:1: the driver finds cuda:0"):
            check_device(name)
    with pytest.raises(DeviceError, match="there is no GPU cuda:3"):
        sr.closure([[0.0]], device="cuda:3")
    with pytest.raises(DeviceError, match="there is no GPU cuda:3"), activate_device([], "cuda:3"):
        pass


def test_the_error_names_the_option_or_the_other_array(device, monkeypatch):
    count_gpus(monkeypatch, device, 2)
    first, second = (SimpleNamespace(__dlpack_device__=lambda number=number: (2, number)) for number in (0, 1))
    named = r"an array is on GPU 0, and device='cuda:1' names GPU 1: copy the array, or leave device out"
    for arrays in ([first], [second, first]):
        with pytest.raises(DeviceError, match=named), activate_device(arrays, "cuda:1"):
            pass
    for name in ("cuda", None):
        with (
            pytest.raises(DeviceError, match="is on GPU 1, another is on GPU 0"),
            activate_device([first, second], name),
        ):
            pass


def test_packed_truth_values_go_to_the_device_and_back(device, rng):
    A = rng.random((70, 70)) < 0.05
    words, expected = sr.pack(A), sr.closure(sr.pack(A), "boolean")
    assert device[1].calls == 0
    found, said = sr.closure(words, "boolean", device="cuda", explain=True)
    assert device[1].calls > 0
    assert not found.on_device
    assert found == expected
    assert str(said).count("a BitMatrix stays packed") == 1
    out = sr.pack(np.zeros_like(A))
    assert sr.closure(words, "boolean", device="cuda", out=out, reflexive=False) is out
    assert out == sr.closure(words, "boolean", reflexive=False)
    assert words == sr.pack(A)
