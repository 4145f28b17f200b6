"""Test that every example in the README, docs/ and docstrings runs and prints what it shows, and test the site."""

from __future__ import annotations

import contextlib
import doctest
import importlib
import io
import os
import re
import shlex
import struct
from importlib.util import find_spec
from pathlib import Path

import pytest
from tiers import missing_gpu, quick

import semiring
from benchmarks.tables import read
from semiring import cli
from semiring.algorithms.methods import method_named
from tools.pages import (
    DATA,
    ENVIRONMENT,
    OPTIONS,
    PAGES,
    PICTURES,
    ROOT,
    SUMMARIES,
    blocks,
    compact,
    drawn_by,
    drawn_text,
    pages_with,
    pictures_of,
    rows_of,
    run_examples,
    with_tables,
)
from tools.plots import DRAWN, ILLUSTRATIONS, PLOTS


def identify(value: object) -> str | None:
    return str(value.relative_to(ROOT)) if isinstance(value, Path) else None


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)


@pytest.fixture(autouse=True)
def _configuration_of_networkx():
    """Undo what the examples of a page set for the rest of the process."""
    nx = pytest.importorskip("networkx")
    backend = getattr(nx.config.backends, "semiring", None)
    device = getattr(backend, "device", None)
    yield
    if backend is not None:
        backend.device = device


def check(example: doctest.DocTest) -> None:
    runner = doctest.DocTestRunner(optionflags=OPTIONS, verbose=False)
    report = io.StringIO()
    runner.run(example, out=report.write)
    assert runner.failures == 0, report.getvalue()


def skip_without(libraries: list[str]) -> None:
    for library in libraries:
        if find_spec(library) is None:
            pytest.skip(f"{library} is not installed")


@pytest.mark.full
@pytest.mark.parametrize("page", pages_with("python"), ids=identify)
def test_python_examples_of_a_page_run_in_order_and_draw_its_pictures(page, tmp_path):
    skip_without(re.findall(r"^>>> import .*\b(torch|jax)\b", page.read_text(), re.M))
    skip_without(["mpi4py"] * (">>> from semiring import mpi" in page.read_text()))
    run_examples(page, gpu=missing_gpu() is None)
    for name in drawn_by(page):
        assert_same_picture(tmp_path / name)


@pytest.mark.full
@pytest.mark.parametrize("name", PLOTS)
def test_plots_show_the_data(name, tmp_path):
    PLOTS[name](tmp_path / name)
    assert_same_picture(tmp_path / name)


def assert_same_picture(picture: Path) -> None:
    """Check for the same words and size. Versions of matplotlib differ in the last digits of outlines."""
    kept, advice = PICTURES / picture.name, f"{picture.name} is behind: python -m tools.pages"
    if picture.suffix == ".svg":
        assert drawn_text(picture.read_text("utf-8")) == drawn_text(kept.read_text("utf-8")), advice
    else:
        assert png_size(picture) == png_size(kept), advice


def png_size(path: Path) -> tuple[int, ...]:
    return struct.unpack(">II", path.read_bytes()[16:24])


def test_every_picture_is_shown_and_every_table_is_made_of_its_data():
    assert {path.name for path in PICTURES.iterdir()} == {name for page in PAGES for name in pictures_of(page)}
    texts = {page: page.read_text("utf-8") for page in PAGES}
    kept = {f"{path.stem}/{name}" for path in DATA.iterdir() for name in read(path)}
    shown = set(re.findall(r"<!-- table: ([\w/-]+) -->", "".join(texts.values())))
    assert kept == (shown - set(SUMMARIES)) | DRAWN
    for page, text in texts.items():
        assert with_tables(text) == text, f"{page.name} is behind: python -m tools.pages"


def test_every_picture_has_one_source():
    made = [*PLOTS, *ILLUSTRATIONS, *(name for page in pages_with("python") for name in drawn_by(page))]
    assert sorted(made) == sorted(path.name for path in PICTURES.iterdir())


def test_compact_pictures_keep_their_words_and_sizes():
    svg = (
        '<svg viewBox="0 0 1.23456 2"><!-- hut --><path d="M 1.23456 -0.001 L 7.5 3" transform="scale(0.0954)"/></svg>'
    )
    assert compact(svg) == svg.replace("M 1.23456 -0.001", "M 1.23 -0")
    assert drawn_text(svg) == ["hut"]


def test_the_reference_has_every_public_name():
    text = "".join(path.read_text("utf-8") for path in (ROOT / "docs" / "reference").glob("*.rst"))
    documented = {name.rpartition(".")[2] for name in re.findall(r"^\.\. (?:auto\w+|data):: ([\w.]+)", text, re.M)}
    public = set(semiring.__all__) - set(semiring.CATALOGUE) - {"__version__"}
    public |= {f"blas.{name}" for name in semiring.blas.__all__} | {"data.load_network"}
    public |= {f"extend.{name}" for name in semiring.extend.__all__ if name != "Method"}
    public |= {f"spectral.{name}" for name in semiring.spectral.__all__ if name.islower()}
    public |= {f"centrality.{name}" for name in semiring.centrality.__all__}
    absent = sorted(name for name in public if name.rpartition(".")[2] not in documented)
    assert not absent, f"not in docs/reference: {absent}"
    index = (ROOT / "docs" / "reference" / "index.rst").read_text("utf-8")
    listed = re.findall(r"^   (?:`|:py:data:`~semiring\.)([\w.]+)` \|", index, re.M)
    assert sorted(listed) == sorted(public | {"__version__"}), "docs/reference/index.rst: one line for each public name"


def test_the_links_at_the_root_lead_into_the_package():
    """The links at the root are symbolic links into the package, or, without such links, files that hold the path."""
    for name in ("algorithms", "kernels"):
        link = ROOT / name
        assert link.is_symlink(), f"{name} is no symbolic link: see docs/maintainers.md"
        assert os.readlink(link) == f"semiring/{name}"
        assert (link / "__init__.py").samefile(ROOT / "semiring" / name / "__init__.py")


def test_the_table_of_methods_is_the_registry():
    """docs/costs.md has a row for each name of `METHODS`, with the texts of the registry."""
    page = (ROOT / "docs" / "costs.md").read_text("utf-8")
    devices = {"cpu": "CPU", "cuda": "GPU"}
    for name in semiring.METHODS:
        assert page.count(f"\n| `{name}` |") == 2, f"docs/costs.md: two tables have a row for {name}"
        if name != "auto":
            method = method_named(name)
            dtypes = f"{method.dtypes}{'; packed bits' if 'bits' in method.storages else ''}"
            cells = [f"`{name}`", method.source, method.requires, method.semirings, dtypes]
            cells += [", ".join(devices[each] for each in method.devices), method.complexity]
            row = f"| {' | '.join(cells)} |".replace("|  |", "| |")
            assert f"\n{row}\n" in page, f"docs/costs.md lacks the row\n{row}"


def test_the_navigation_has_at_most_fourteen_entries_on_the_first_level():
    (tree,) = re.findall(r"```\{toctree\}\n(.*?)```", (ROOT / "docs" / "index.md").read_text("utf-8"), re.S)
    assert len(re.findall(r"<[\w/-]+>$", tree, re.M)) == 14


@pytest.fixture
def extension(monkeypatch):
    """Import a module of docs/_extensions, which needs Sphinx, the extra ``docs``."""
    pytest.importorskip("sphinx")
    monkeypatch.syspath_prepend(ROOT / "docs" / "_extensions")
    return importlib.import_module


def test_sections_of_docstrings_end_where_prose_begins(extension):
    lines = [
        "Does.",
        "",
        "Parameters",
        "----------",
        "x",
        "    One.",
        "y",
        "    Two.",
        "",
        "    More.",
        "",
        "Raises.",
        "",
        "End.",
    ]
    extension("docstrings").end_sections(None, "", "", None, None, lines)
    assert lines[8:] == ["", "    More.", "", "", "Raises.", "", "End."]


def commands(body: str) -> list[tuple[str, str]]:
    """Yield the ``$ semiring ...`` lines of a console block, each with the output that is shown after it."""
    parts = re.split(r"^\$ (.*)\n", body, flags=re.M)[1:]
    return [(line, output) for line, output in zip(parts[::2], parts[1::2], strict=True)]


@pytest.mark.full
@pytest.mark.parametrize("page", pages_with("console"), ids=identify)
def test_commands_of_a_page_print_what_they_show(page):
    ran = 0
    for command, shown in (pair for block in blocks(page, "console") for pair in commands(block.body)):
        words = shlex.split(command, comments=True)
        if words[0] != "semiring":
            continue  # python -m venv, pip install, pytest: the installation itself, which CI has just done
        output = io.StringIO()
        with contextlib.redirect_stdout(output):
            assert cli.main(words[1:]) in (0, None), command
        checker = doctest.OutputChecker()
        assert not shown.strip() or checker.check_output(shown, output.getvalue(), OPTIONS), (
            f"{page.name}: {command}\nshown:\n{shown}\nprinted:\n{output.getvalue()}"
        )
        ran += 1
    assert ran or page.name in ("CONTRIBUTING.md", "extending.md")


def modules_with_examples() -> list[str]:
    """Return the modules whose text shows an example, except those of GPUs. None of them is imported."""
    package = ROOT / "semiring"
    found = []
    for path in sorted(package.rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        if path.name != "__main__.py" and "cuda" not in parts and ">>>" in path.read_text("utf-8"):
            found.append(".".join(parts[:-1] if parts[-1] == "__init__" else parts))
    return found


#: Whose examples compile much: the quick tier leaves them out.
COMPILING = ("semiring.sparse.factorization", "semiring.paths.functions", "semiring.paths.reduction")
#: Modules of libraries that take seconds to import.
LIBRARIES = ("semiring.torch", "semiring.jax")


@pytest.mark.parametrize(
    "name", quick(lambda name: name not in COMPILING and not name.startswith(LIBRARIES), modules_with_examples())
)
def test_docstring_examples_run(name):
    skip_without(re.findall(r"^semiring\.(torch|jax)\b", name))
    module = importlib.import_module(name)
    for example in doctest.DocTestFinder(exclude_empty=True).find(module, name):
        if example.examples:
            check(example)


@pytest.mark.parametrize("page", sorted(ROOT.glob("*.md")), ids=identify)
def test_links_of_the_pages_at_the_root_lead_somewhere(page):
    links = re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text("utf-8"))
    assert not [link for link in links if not (ROOT / link).exists()]


def test_the_readme_names_its_two_commands():
    readme = (ROOT / "README.md").read_text()
    assert "python -m pytest" in readme
    assert "python -m pytest" in (ROOT / ".ci" / "run").read_text(), "CI calls the README's test command"
    assert os.access(ROOT / ".ci" / "run", os.X_OK)


def test_formulas_are_mathml(extension):
    math = extension("mathml").convert(r"A^* = I \oplus A", display=True)
    assert math.startswith("<math")
    assert "<msup>" in math
    assert "⊕" in math


@pytest.mark.parametrize("page", PAGES, ids=identify)
def test_every_formula_can_be_set(page, extension):
    prose = re.sub(r"```.*?```|`[^`]*`", "", page.read_text("utf-8"), flags=re.DOTALL)
    for block, line in re.findall(r"\$\$(.+?)\$\$|\$([^$\n]+)\$", prose, re.DOTALL):
        assert "<code>" not in extension("mathml").convert(block or line, display=bool(block)), block or line


@pytest.mark.parametrize(("dtype", "billions"), [("float32", 50), ("float64", 25)])
def test_the_rates_of_the_page_that_decides_were_measured(dtype, billions):
    page = (ROOT / "docs" / "performance.md").read_text("utf-8")
    assert f"{billions} billion" in page
    measured = [
        float(row["G pairs/s"])
        for row in rows_of("closure/closures")
        if row["dtype"] == dtype and row["threads"] == "1" and int(row["n"]) >= 1024
    ]
    assert len(measured) == 3
    assert all(0.95 * billions <= rate <= 1.1 * billions for rate in measured), measured


def test_bars_are_drawn_over_their_digits_and_not_in_attributes(extension):
    barred = extension("code_blocks").mark_barred_digits
    assert barred("<p title='0\u0304'>0\u0304 ⊗ x</p>") == "<p title='0\u0304'><span class=\"barred\">0</span> ⊗ x</p>"


def test_output_is_no_prompt(extension):
    tokens = list(extension("code_blocks").Console().get_tokens("$ semiring check\n(x ⊕ y) ⊕ z  proved\n\n# done\n"))
    assert [text for kind, text in tokens if "Prompt" in str(kind)] == ["$ "]
    assert "(x ⊕ y) ⊕ z  proved\n" in [text for kind, text in tokens if "Output" in str(kind)]


def test_on_a_narrow_screen_tables_of_prose_are_stacked_and_those_of_numbers_are_not(extension):
    core, nodes = pytest.importorskip("docutils.core"), pytest.importorskip("docutils.nodes")
    rows = [
        ("who", "what", "ms"),
        ("ours", "recursive, in place, all of its work in products", "12"),
        ("SciPy", "", "9"),
    ]
    text = "\n".join([".. list-table::", "   :header-rows: 1", ""])
    for columns in ((0, 1, 2), (0, 2)):
        items = ("   * - " + "\n     - ".join(row[column] for column in columns) for row in rows)
        document = core.publish_doctree("\n".join([text, *items]))
        extension("tables").StackProse(document).apply()
        table = next(document.findall(nodes.table))
        titles = [found.astext() for found in table.findall(nodes.inline) if "column" in found["classes"]]
        stacked = columns == (0, 1, 2)
        assert ("stacks" in table["classes"]) == stacked
        assert titles == (["what", "ms", "ms"] if stacked else [])


def test_what_is_printed_in_columns_is_known(extension):
    core, nodes = pytest.importorskip("docutils.core"), pytest.importorskip("docutils.nodes")
    document = core.publish_doctree("::\n\n  law    verdict\n  ────   ───────\n  x ⊕ y  proved\n\nand::\n\n  x ─ y\n")
    extension("code_blocks").TrailingBlankLineRemover(document).apply()
    assert ["columns" in block["classes"] for block in document.findall(nodes.literal_block)] == [True, False]


def test_the_colours_of_drawings_follow_the_theme(extension):
    """Every colour of a drawing has a variable, so that a picture is legible in the dark theme."""
    pictures, plots = extension("pictures"), (ROOT / "tools" / "plots.py").read_text("utf-8")
    drawn = {color for name in ILLUSTRATIONS for color in re.findall("#[0-9a-f]{6}", (PICTURES / name).read_text())}
    colors = {*re.findall("#[0-9a-f]{6}", re.findall("^BLUE, .* = .*", plots, re.M)[0]), *drawn}
    assert len(colors) > 6
    assert colors - {"#8fb8d0"} <= set(pictures.VARIABLES)  # a middle tone, legible on both
    svg = '<svg viewBox="0 0 1 1"><path style="fill: #00805D; stroke: #440154"/></svg>'
    assert 'style="fill: var(--picture-green); stroke: #440154"' in pictures.apply_theme(svg, "a path")


def test_the_page_of_the_command_mentions_every_option():
    from semiring.cli.parser import build_parser

    page = (ROOT / "docs" / "command.md").read_text("utf-8")
    (commands,) = (action for action in build_parser()._actions if hasattr(action, "choices") and action.choices)
    missing = {
        f"{name} {option}"
        for name, parser in commands.choices.items()
        for action in parser._actions
        for option in action.option_strings
        if option.startswith("--") and option != "--help" and f"`{option}`" not in page and f"{option} " not in page
    }
    assert not missing, f"docs/command.md does not mention {', '.join(sorted(missing))}"
