"""Check what a release needs, step by step: ``python -m tools.release``. Needs the extra ``release``.

The steps build the wheel and the sources, install the wheel into an environment of its own, and run the first command
of the README from it, outside of the repository. The exit code is 1 at the first step that fails. Nothing is uploaded.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import tomllib
import venv
from collections.abc import Callable
from pathlib import Path

import semiring

ROOT = Path(__file__).parents[1]


class NotReadyError(Exception):
    """A step failed, for the reason in the message."""


def versions() -> str:
    """Check that every file names the same version."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    cited = re.search(r"^version: (\S+)$", (ROOT / "CITATION.cff").read_text("utf-8"), re.M)
    changed = re.search(r"^## (\d[^\s,]*)", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.M)
    found = {
        "pyproject.toml": project["version"],
        "semiring.__version__": semiring.__version__,
        "CITATION.cff": cited[1] if cited else "none",
        "CHANGELOG.md": changed[1] if changed else "none",
    }
    if len(set(found.values())) > 1:
        raise NotReadyError(", ".join(f"{place} says {version}" for place, version in found.items()))
    return project["version"]


def changelog() -> str:
    """Check that the first heading of the changelog has a version and a date."""
    text = (ROOT / "CHANGELOG.md").read_text("utf-8")
    heading = re.search(r"^## (.*)$", text, re.M)
    if heading is None or not re.fullmatch(r"\d\S*, \d{4}-\d\d-\d\d", heading[1]):
        raise NotReadyError(f"the first heading is {heading[1] if heading else 'missing'}: give a version and a date")
    return heading[1]


def address() -> str:
    """Write the address of the repository into the pages."""
    repository = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["semiring"]["repository"]
    if not repository:
        raise NotReadyError('no address: set repository = "https://..." under [tool.semiring] in pyproject.toml')
    for page in (ROOT / name for name in PAGES):
        text = page.read_text("utf-8")
        shown = re.sub(r"\s*\(`REPOSITORY` is [^)]*\)", "", text).replace("REPOSITORY", repository)
        if repository not in shown:
            raise NotReadyError(f"{page.name} shows neither REPOSITORY nor {repository}")
        page.write_text(shown, "utf-8")
    return repository


def clean() -> str:
    """Check that every change is committed."""
    changed = _run("git", "status", "--porcelain").strip()
    if changed:
        raise NotReadyError(f"not committed:\n{changed}")
    return _run("git", "log", "-1", "--format=%h %s").strip()


def build() -> str:
    """Run `python -m build` into an empty folder."""
    folder = ROOT / "build" / "dist"
    for old in folder.glob("*"):
        old.unlink()
    _run(sys.executable, "-m", "build", "--outdir", str(folder))
    return ", ".join(f"{path.name}, {path.stat().st_size / 2**20:.1f} MiB" for path in sorted(folder.iterdir()))


def description() -> str:
    """Run `twine check --strict`: a package index can show the description."""
    return (
        _run(sys.executable, "-m", "twine", "check", "--strict", *map(str, _built_files("*"))).strip().splitlines()[-1]
    )


def installation() -> str:
    """Run the first command of the README with the wheel in a new environment."""
    readme = (ROOT / "README.md").read_text("utf-8")
    command = re.search(r"^\$ (semiring paths .*)$", readme, re.M)
    shown = re.search(r"^\$ semiring paths .*\n([\s\S]*?)^\.\.\.$", readme, re.M)
    assert command is not None, "the README shows a command"
    assert shown is not None, "the README shows its output"
    (wheel,) = _built_files("*.whl")
    with tempfile.TemporaryDirectory() as folder:
        venv.create(Path(folder) / "venv", with_pip=True)
        binaries = Path(folder) / "venv" / ("Scripts" if os.name == "nt" else "bin")
        _run(str(binaries / "python"), "-m", "pip", "install", "--quiet", f"{wheel}[plot]")
        empty = Path(folder) / "empty"
        empty.mkdir()
        words = command[1].split()
        printed = _run(str(binaries / words[0]), *words[1:], cwd=empty)
        if not printed.startswith(shown[1]):
            raise NotReadyError(f"{command[1]} printed\n{printed}\nand the README shows\n{shown[1]}")
        if not (empty / words[-1]).stat().st_size:
            raise NotReadyError(f"{words[-1]} is empty")
    return command[1]


#: The pages that say from where to clone.
PAGES = ("README.md", "docs/start.md")

#: The checklist, in its order. ``address`` changes the pages, so that ``clean`` comes after it.
STEPS: tuple[Callable[[], str], ...] = (versions, changelog, address, clean, build, description, installation)


def _built_files(pattern: str) -> list[Path]:
    return sorted((ROOT / "build" / "dist").glob(pattern))


def _run(*command: str, cwd: Path = ROOT) -> str:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True)
    if done.returncode:
        raise NotReadyError(f"{' '.join(command)}\n{done.stdout}{done.stderr}")
    return done.stdout


def main() -> int:
    """Run the checklist, or the steps that are named."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = [step.__name__ for step in STEPS]
    parser.add_argument("steps", nargs="*", metavar="STEP", help=f"by default all: {', '.join(names)}")
    asked = parser.parse_args().steps
    if unknown := set(asked) - set(names):
        parser.error(f"no step is named {min(unknown)}")
    for step in STEPS:
        if asked and step.__name__ not in asked:
            continue
        try:
            print(f"✓ {step.__doc__} {step()}", flush=True)
        except NotReadyError as error:
            print(f"✗ {step.__doc__}\n{error}", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
