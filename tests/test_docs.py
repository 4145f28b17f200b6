"""Every example in the README, in docs/ and in docstrings runs, and prints what it says it prints."""

from __future__ import annotations

import contextlib
import doctest
import importlib
import io
import os
import pkgutil
import re
import shlex
from pathlib import Path

import pytest

import semiring
from semiring import cli

ROOT = Path(__file__).parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
FENCE = re.compile(r"^```(\w+)\n(.*?)^```", re.M | re.S)


def blocks(language: str) -> list[tuple[Path, list[str]]]:
    found = [(page, [body for lang, body in FENCE.findall(page.read_text()) if lang == language]) for page in PAGES]
    return [(page, bodies) for page, bodies in found if bodies]


def identify(value: object) -> str | None:
    return str(value.relative_to(ROOT)) if isinstance(value, Path) else None


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "Agg")


def check(example: doctest.DocTest) -> None:
    runner = doctest.DocTestRunner(optionflags=OPTIONS, verbose=False)
    report = io.StringIO()
    runner.run(example, out=report.write)
    assert runner.failures == 0, report.getvalue()


@pytest.mark.parametrize(("page", "bodies"), blocks("python"), ids=identify)
def test_python_examples_of_a_page_run_in_order(page, bodies):
    names: dict[str, object] = {}
    for number, body in enumerate(bodies):
        if ">>>" in body:
            example = doctest.DocTestParser().get_doctest(body, names, f"{page.name}[{number}]", str(page), 0)
            example.globs = names  # one page is one session
            runner = doctest.DocTestRunner(optionflags=OPTIONS, verbose=False)
            report = io.StringIO()
            runner.run(example, out=report.write, clear_globs=False)
            assert runner.failures == 0, report.getvalue()
        else:
            exec(compile(body, f"{page.name}[{number}]", "exec"), names)


def commands(body: str) -> list[tuple[str, str]]:
    """The ``$ semiring ...`` lines of a console block, each with the output that is shown after it."""
    parts = re.split(r"^\$ (.*)\n", body, flags=re.M)[1:]
    return [(line, output) for line, output in zip(parts[::2], parts[1::2], strict=True)]


@pytest.mark.parametrize(("page", "bodies"), blocks("console"), ids=identify)
def test_commands_of_a_page_print_what_they_show(page, bodies):
    ran = 0
    for command, shown in (pair for body in bodies for pair in commands(body)):
        words = shlex.split(command, comments=True)
        if words[0] != "semiring":
            continue  # pip install, pytest: the installation itself, which CI has just done
        output = io.StringIO()
        with contextlib.redirect_stdout(output):
            assert cli.main(words[1:]) in (0, None), command
        checker = doctest.OutputChecker()
        assert not shown.strip() or checker.check_output(shown, output.getvalue(), OPTIONS), (
            f"{page.name}: {command}\nshown:\n{shown}\nprinted:\n{output.getvalue()}"
        )
        ran += 1
    assert ran or page.name == "CONTRIBUTING.md"


MODULES = sorted(
    module.name
    for module in pkgutil.walk_packages(semiring.__path__, "semiring.")
    if not module.name.endswith("__main__") and ".cuda" not in module.name
)


@pytest.mark.parametrize("name", ["semiring", *MODULES])
def test_docstring_examples_run(name):
    module = importlib.import_module(name)
    for example in doctest.DocTestFinder(exclude_empty=True).find(module, name):
        if example.examples:
            check(example)


def test_the_readme_names_its_two_commands():
    readme = (ROOT / "README.md").read_text()
    assert "python -m pytest" in readme
    assert "python -m pytest" in (ROOT / ".ci" / "run").read_text(), "CI calls the README's test command"
    assert os.access(ROOT / ".ci" / "run", os.X_OK)
