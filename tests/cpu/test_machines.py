"""Test speed data: valid, chosen by the processor, read with care from the user's file, and without effect on bits."""

from __future__ import annotations

import json
import logging
from dataclasses import asdict, fields, replace

import numpy as np
import pytest
from platformdirs.macos import MacOS
from platformdirs.unix import Unix
from tiers import full

import semiring as sr
from semiring.cli import main
from semiring.kernels import machines
from semiring.kernels.cpu.codegen.target import Target, host
from semiring.kernels.machines import cpu_machine, cpu_speed, override_speed, table_for
from semiring.kernels.machines.speed_data import ClosureSpeed, CpuSpeed, TileShape
from semiring.kernels.machines.tables import BY_VECTORS, PROCESSORS

_AVX512 = "+fma,+avx2,+avx512f,+avx512bw,+avx512vl,+avx512dq"

#: A value of each number that is valid on every processor, and that the problems below are large enough to notice.
OTHERWISE = {
    "rows": 2,
    "vectors": 2,
    "heavy_rows": 3,
    "heavy_vectors": 2,
    "depth": 90,
    "packed": 1 << 13,
    "blocks": 2,
    "tasks": 1,
    "task_pairs": 1 << 12,
    "parallel_pairs": 1 << 10,
    "copy_bytes": 1,
    "patience": 1,
    "panel": 97,
    "strip": 65,
    "pack": 1 << 20,
    "turned": 1,
}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Return an empty configuration folder, and forget data that was read before or in the test."""
    monkeypatch.setenv("SEMIRING_CONFIG_DIR", str(tmp_path))
    cpu_machine.cache_clear()
    yield tmp_path
    cpu_machine.cache_clear()


# ---------------------------------------------------------------------------------------------------------- no bit


def answers(semiring, threads):
    """Return products, a closure and predecessors whose entries round, of sizes that are cut in many places."""
    rng = np.random.default_rng(7)
    A, B = (rng.random(shape, np.float32) for shape in ((150, 200), (200, 331)))
    n = 256 + 2 * 97 + 1  # of panels of 97 columns a single column would be left
    M = rng.random((n, n), np.float32)
    M = {"plus_times": M / (4 * n), "log_plus": M - 8}.get(semiring, M)  # whose sums converge
    found = [sr.matmul(A, B, semiring, threads=threads), sr.closure(M, semiring, threads=threads)]
    if semiring in ("min_plus", "max_min"):
        find = sr.shortest_paths if semiring == "min_plus" else sr.widest_paths
        found.append(find(M, threads=threads).predecessors)
        found.append(sr.closure(M, semiring, method="rkleene", threads=threads))
        found.append(sr.closure(M < 0.01, "boolean", threads=threads))
    return found


@pytest.mark.full
@pytest.mark.parametrize(
    "semiring", full(lambda name: name == "min_plus", ["min_plus", "plus_times", "log_plus", "max_min"])
)
def test_no_speed_datum_changes_a_bit(semiring):
    assert set(OTHERWISE) == {field.name for field in fields(CpuSpeed)}
    target, usual = host(), cpu_speed()
    expected = answers(semiring, 1)
    for change in [{}, *({name: value} for name, value in OTHERWISE.items()), OTHERWISE]:
        speed = replace(usual, **change)
        assert speed.is_valid(target.vector_bytes, target.registers), change
        with override_speed(speed):
            for threads in (1, 2) if change in ({}, OTHERWISE) else (2,):
                for one, other in zip(answers(semiring, threads), expected, strict=True):
                    assert one.tobytes() == other.tobytes(), (change, threads)


# -------------------------------------------------------------------------------------------------------- validity


def test_the_tables_are_valid():
    arm = Target("aarch64-unknown-linux-gnu", "neoverse-n1", "+neon")
    assert table_for(arm).speed.is_valid(16, 32)
    for (vector_bytes, registers), speed in BY_VECTORS.items():
        assert speed.is_valid(vector_bytes, registers)
    for table in PROCESSORS:
        assert table.speed.is_valid(64, 32)
        assert not table.speed.is_valid(32, 16)  # a tile of 24 vectors


_SPEED, _TILE = PROCESSORS[-1].speed, TileShape(6, 4, 64)


@pytest.mark.parametrize(
    ("data", "change"),
    [
        *((_SPEED, {name: value}) for name, value in (("rows", 8), ("rows", 0), ("vectors", 9), ("heavy_rows", 40))),
        *((_SPEED, {name: value}) for name, value in (("depth", 0), ("depth", 1 << 20), ("packed", 0), ("panel", 31))),
        *(
            (_SPEED, {name: value})
            for name, value in (("strip", 1), ("tasks", 1.5), ("blocks", True), ("patience", -1))
        ),
        *((_TILE, {name: value}) for name, value in (("rows", 8), ("rows", 0), ("vector_bytes", 48), ("vectors", 9))),
    ],
)
def test_invalid_data(data, change):
    where = (64, 32) if data is _SPEED else (32,)
    assert data.is_valid(*where)
    assert not replace(data, **change).is_valid(*where)


def test_closures_of_every_backend_have_valid_data():
    for backend in ("cpu", "reference", "cuda"):
        for itemsize in (1, 2, 4, 8):
            speed = machines.closure_speed(backend, np.dtype(f"i{itemsize}"))
            assert isinstance(speed, ClosureSpeed)
            assert speed.is_valid()


# ---------------------------------------------------------------------------------------------------------- choice


@pytest.mark.parametrize(
    ("cpu", "features", "expected"),
    [
        ("znver4", _AVX512, "Zen 4"),
        ("znver5", _AVX512, "Zen 5"),
        ("x86-64-v4", f"{_AVX512},+avx512vp2intersect,+avxvnni", "Zen 5"),  # a name that a virtual machine may give
        ("tigerlake", f"{_AVX512},+avx512vp2intersect", "Zen 4"),
        ("sapphirerapids", f"{_AVX512},+amx-tile", "Granite Rapids"),
        ("rocketlake", f"{_AVX512},+amx-tile", "Granite Rapids"),  # as its virtual machines are called
        ("skylake-avx512", _AVX512, "Zen 4"),
        ("haswell", "+fma,+avx2", "haswell"),
        ("znver4", "+fma,+avx2", "znver4"),  # with AVX-512 switched off
    ],
)
def test_the_processor_says_which_data(cpu, features, expected):
    assert table_for(Target("x86_64-unknown-linux-gnu", cpu, features)).name == expected


# -------------------------------------------------------------------------------------------------- the user's file


def test_what_was_written_is_read(folder):
    speed = replace(cpu_speed(), tasks=7)
    machines.write_machine_file(folder / "machine.json", host(), "2026-01-02", speed)
    cpu_machine.cache_clear()
    machine = cpu_machine()
    assert (machine.speed, machine.measurement_day, machine.source) == (
        speed,
        "2026-01-02",
        str(folder / "machine.json"),
    )
    assert [path.name for path in folder.iterdir()] == ["machine.json"]


def _change(text, **change):
    return json.dumps({**json.loads(text), **change})


def _change_cpu(text, **numbers):
    return _change(text, cpu={**json.loads(text)["cpu"], **numbers})


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (None, "directory"),  # a folder in the place of the file
        (lambda text: text[:40], "does not hold"),
        (lambda text: "[]", "does not hold"),
        (lambda text: "[" * 100_000, "does not hold"),
        (lambda text: _change(text, cpu=None), "does not hold"),
        (lambda text: _change(text, processor="pentium"), "another processor, 'pentium'"),
        (lambda text: _change(text, format=2), "another version"),
        (lambda text: _change(text, measured=3), "another version"),
        (lambda text: _change_cpu(text, colour=3), "another version"),
        (lambda text: _change_cpu(text, rows=1000), "not valid"),
        (lambda text: _change_cpu(text, depth="512"), "not valid"),
    ],
)
def test_a_broken_or_foreign_file_is_ignored_with_one_line(folder, caplog, spoil, reason):
    path = folder / "machine.json"
    machines.write_machine_file(path, host(), "2026-01-02", replace(cpu_speed(), tasks=7))
    if spoil is None:
        path.unlink()
        path.mkdir()
    else:
        path.write_text(spoil(path.read_text("utf-8")), "utf-8")
    cpu_machine.cache_clear()
    with caplog.at_level(logging.WARNING, "semiring"):
        assert cpu_machine() == table_for(host())
        cpu_speed()
    (record,) = caplog.records
    assert record.name == "semiring"
    assert reason in record.getMessage()
    assert str(path) in record.getMessage()


@pytest.mark.parametrize(
    ("platform", "environment", "expected"),
    [
        (Unix, {"XDG_CONFIG_HOME": "/x"}, "/x/semiring"),
        (Unix, {"HOME": "/home/me"}, "/home/me/.config/semiring"),
        (MacOS, {"HOME": "/Users/me"}, "/Users/me/Library/Application Support/semiring"),
        (Unix, {"SEMIRING_CONFIG_DIR": "/s", "XDG_CONFIG_HOME": "/x"}, "/s"),
    ],
)
def test_the_configuration_folder(monkeypatch, platform, environment, expected):
    for name in ("SEMIRING_CONFIG_DIR", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("platformdirs.PlatformDirs", platform)
    assert machines.config_folder().as_posix() == expected


def test_an_empty_folder_name_means_no_file(monkeypatch):
    monkeypatch.setenv("SEMIRING_CONFIG_DIR", "")
    assert machines.machine_file() is None
    assert machines.read_machine_file(host()) is None


# ------------------------------------------------------------------------------------------------------ the command


@pytest.fixture
def quick(monkeypatch):
    """Replace measurements: the second of each pair takes half the time of the first."""
    monkeypatch.setattr("semiring.kernels.machines.tuning._product", lambda *_: lambda: None)
    monkeypatch.setattr("semiring.kernels.machines.tuning._fastest", lambda work, speeds: [2.0, 1.0])


@pytest.mark.usefixtures("quick")
def test_tune_writes_what_it_found(folder, capsys):
    assert main(["tune", "--threads", "2"]) == 0
    said = capsys.readouterr().out
    assert f"wrote {folder / 'machine.json'}" in said
    assert "taken" in said
    cpu_machine.cache_clear()
    found = cpu_machine()
    assert found.source == str(folder / "machine.json")
    assert found.speed != table_for(host()).speed
    assert main(["info"]) == 0
    assert str(folder / "machine.json") in capsys.readouterr().out


@pytest.mark.usefixtures("quick", "folder")
@pytest.mark.parametrize(
    ("cpu", "line"),
    [("znver4", "Zen 4, measured 2026-11-20"), ("znver5", "Zen 5, derived and not measured")],
)
def test_tune_says_with_whose_data_it_begins(monkeypatch, capsys, cpu, line):
    target = Target("x86_64-unknown-linux-gnu", cpu, _AVX512)
    monkeypatch.setattr("semiring.kernels.machines.cpu_machine", lambda: table_for(target))
    monkeypatch.setattr("semiring.cli.tune.cpu_machine", lambda: table_for(target))
    monkeypatch.setattr("semiring.kernels.machines.tuning.host", lambda: target)
    assert main(["tune", "--dry-run"]) == 0
    assert f"starting from the settings of {line}\n" in capsys.readouterr().out
    assert main(["info"]) == 0
    assert f"{line} (semiring.kernels.machines." in capsys.readouterr().out


@pytest.mark.usefixtures("quick")
def test_a_dry_run_writes_nothing(folder, capsys):
    assert main(["tune", "--dry-run"]) == 0
    assert "wrote" not in capsys.readouterr().out
    assert main(["tune", "--dry-run", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["faster"]
    assert "written" not in found
    assert not list(folder.iterdir())


def test_the_tuner_keeps_what_is_not_clearly_beaten(monkeypatch):
    from semiring.kernels.machines import tuning

    monkeypatch.setattr(tuning, "_product", lambda *_: lambda: None)
    monkeypatch.setattr(tuning, "_fastest", lambda work, speeds: [1.0, 0.99])
    steps = []
    assert tuning.tune(2, steps.append) == cpu_speed()
    assert steps
    assert not any(step.is_accepted for step in steps)
    assert set(asdict(cpu_speed())) >= {name for step in steps for name in step.names}


def test_work_is_measured_in_turns():
    from semiring.kernels.machines import tuning

    seen, usual = [], cpu_speed()
    other = replace(usual, tasks=usual.tasks + 1)
    found = tuning._fastest(lambda: seen.append(cpu_speed()), (usual, other))
    assert seen[:4] == [usual, other, usual, other]
    assert len(found) == 2
    assert cpu_speed() is usual
