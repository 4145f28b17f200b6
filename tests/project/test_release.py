"""Test the checklist of a release: versions agree, and each step says what is wrong."""

from __future__ import annotations

import subprocess
import tomllib

import pytest

from tools import release


def test_every_file_names_the_same_version():
    assert release.versions() == release.semiring.__version__
    assert release.changelog().startswith(release.semiring.__version__)


def test_a_forgotten_version_is_named(tmp_path, monkeypatch):
    for name in ("pyproject.toml", "CITATION.cff", "CHANGELOG.md"):
        (tmp_path / name).write_text((release.ROOT / name).read_text("utf-8"), "utf-8")
    monkeypatch.setattr(release, "ROOT", tmp_path)
    text = (tmp_path / "CITATION.cff").read_text("utf-8")
    (tmp_path / "CITATION.cff").write_text(text.replace("\nversion: ", "\nversion: 9."), "utf-8")
    with pytest.raises(release.NotReadyError, match=r"CITATION.cff says 9\."):
        release.versions()
    (tmp_path / "CHANGELOG.md").write_text("# Changelog\n\n## Unreleased\n", "utf-8")
    with pytest.raises(release.NotReadyError, match="the first heading is Unreleased: give a version and a date"):
        release.changelog()


def test_the_release_fills_in_the_address_of_the_repository(tmp_path, monkeypatch):
    (tmp_path / "docs").mkdir()
    for name in ("pyproject.toml", *release.PAGES):
        (tmp_path / name).write_text((release.ROOT / name).read_text("utf-8"), "utf-8")
    monkeypatch.setattr(release, "ROOT", tmp_path)
    with pytest.raises(release.NotReadyError, match="set repository = "):
        release.address()
    text = (tmp_path / "pyproject.toml").read_text("utf-8")
    here = "https://example.org/semiring.git"
    (tmp_path / "pyproject.toml").write_text(text.replace('repository = ""', f'repository = "{here}"'), "utf-8")
    for _ in range(2):  # the second time nothing is left to do
        assert release.address() == here
    for name in release.PAGES:
        filled = (tmp_path / name).read_text("utf-8")
        assert f"git clone {here} semiring" in filled
        assert "REPOSITORY" not in filled
    (tmp_path / "README.md").write_text("# nothing", "utf-8")
    with pytest.raises(release.NotReadyError, match=r"README.md shows neither REPOSITORY nor https://example"):
        release.address()


def test_the_first_step_that_fails_ends_the_list(monkeypatch, capsys):
    def fails():
        """Raise the error of a failing step."""
        raise release.NotReadyError("because")

    monkeypatch.setattr(release, "STEPS", (release.versions, fails, release.build))
    monkeypatch.setattr("sys.argv", ["release"])
    assert release.main() == 1
    captured = capsys.readouterr()
    assert captured.out.startswith("✓ Check that every file names the same version. ")
    assert captured.err == "✗ Raise the error of a failing step.\nbecause\n"


def test_the_metadata_name_no_person_and_need_no_network():
    project = tomllib.loads((release.ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert project["authors"] == [{"name": "The semiring maintainers"}]
    for name in ("CITATION.cff", "LICENSE", "docs/conf.py"):
        assert "the semiring maintainers" in (release.ROOT / name).read_text("utf-8").lower(), name
    cited = (release.ROOT / "CITATION.cff").read_text("utf-8")
    assert f"\nlicense: {project['license']}\n" in cited
    light = project["optional-dependencies"]["test"]
    assert not [name for name in light if name.startswith(("torch", "jax", "nvidia", "semiring[dev"))]
    for name in ("CITATION.cff", "SECURITY.md", "LICENSE", "CHANGELOG.md"):
        assert (release.ROOT / name).read_text("utf-8").strip()


def test_the_wheel_installs_the_library_and_its_entry_point_alone():
    tools = tomllib.loads((release.ROOT / "pyproject.toml").read_text("utf-8"))["tool"]
    assert tools["hatch"]["build"]["targets"]["wheel"]["packages"] == ["semiring", "_semiring_networkx"]


def test_ci_builds_and_tries_the_wheel():
    text = (release.ROOT / ".ci" / "run").read_text("utf-8")
    assert "python -m tools.release" in text
    assert subprocess.run(["bash", "-n", str(release.ROOT / ".ci" / "run")]).returncode == 0
