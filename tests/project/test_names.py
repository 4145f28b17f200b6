"""Test that names exist: those in backticks on pages and in docstrings, and those that tests of a GPU patch."""

from __future__ import annotations

import ast
import functools
import os
import pkgutil
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from semiring.cli.parser import build_parser
from semiring.errors import SemiringError

ROOT = Path(__file__).parents[2]


def defined_in(module: str) -> set[str] | None:
    """Return the names that a module of this library binds, without importing it; None if there is no such file."""
    path = ROOT.joinpath(*module.split(".")).with_suffix(".py")
    if not path.exists():
        return None
    nodes = list(ast.walk(ast.parse(path.read_text("utf-8"))))
    bound = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    bound |= {node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    return bound | {alias.asname or alias.name for alias in nodes if isinstance(alias, ast.alias)}


def missing_patches(tree: ast.Module) -> Iterator[str]:
    """Yield each target of ``monkeypatch.setattr`` in a module that does not exist. mypy checks all other names."""
    modules = {
        alias.asname or alias.name: f"{node.module}.{alias.name}"
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    for node in ast.walk(tree):
        if not (isinstance(node, ast.Call) and ast.unparse(node.func).endswith(".setattr")):
            continue
        owner, name = node.args[:2]
        target = getattr(name, "value", None)
        if isinstance(owner, ast.Constant):
            module, _, target = str(owner.value).rpartition(".")
        elif isinstance(owner, ast.Call) and ast.unparse(owner.func) == "import_module":
            module = getattr(owner.args[0], "value", "")
        else:
            module = modules.get(ast.unparse(owner), "")
        if isinstance(target, str) and (bound := defined_in(module)) is not None and target not in bound:
            yield f"line {node.lineno}: {module}.{target}"


@pytest.mark.parametrize("path", sorted((ROOT / "tests" / "gpu").glob("*.py")), ids=lambda path: path.stem)
def test_patched_names_exist(path):
    assert list(missing_patches(ast.parse(path.read_text("utf-8")))) == []


def test_a_patched_name_that_does_not_exist_is_found():
    text = """
def test(monkeypatch):
    from semiring.closures import api
    monkeypatch.setattr(api, "absent", 1)
    monkeypatch.setattr(api, "closure", 1)
    monkeypatch.setattr("semiring.closures.api.absent", 1)
    monkeypatch.setattr("semiring.closures.api.closure", 1)
"""
    assert list(missing_patches(ast.parse(text))) == [
        "line 4: semiring.closures.api.absent",
        "line 6: semiring.closures.api.absent",
    ]


FOLDERS = ("semiring", "_semiring_networkx", "benchmarks", "tools", "tests", "docs")
FILES = [
    Path(folder, name)
    for top in (*FOLDERS, ".ci")
    for folder, _, names in os.walk(ROOT / top)
    if "__pycache__" not in folder
    for name in names
] + [path for path in ROOT.iterdir() if path.is_file()]
SOURCES = [path for path in FILES if path.suffix == ".py"]
PAGES = sorted(path for path in FILES if path.suffix == ".md" and path.name != "CHANGELOG.md")
COMMANDS = next(action for action in build_parser()._actions if action.choices).choices

#: The classes of objects that pages call by these names.
CLASSES = {
    "call": "semiring.closures.call.Call",
    "draft": "semiring.closures.plan.Draft",
    "engine": "semiring.kernels.engine.Engine",
    "recorder": "semiring.closures.planner.Recorder",
}

#: Modules of other libraries, under the names by which pages import them.
LIBRARIES = {"jax", "logging", "np", "nx", "pd", "pl", "torch"}

#: Names that are not of this library, with the reason why a text has them.
FOREIGN = {
    "shard_map": "a transformation of JAX",
    "log_softmax": "a function of PyTorch and JAX",
    "XLA_PYTHON_CLIENT_MEM_FRACTION=0.5": "a variable of JAX",
    "A.mask(A == 0, np.inf)": "a method of pandas",
    "edge_list()": "a method of igraph and rustworkx",
    "A.sum_duplicates()": "a method of SciPy's sparse matrices",
    "matrix_power(A, k)": "a function of SciPy",
    "A.ewise_add(B)": "a method of GraphBLAS",
    "A.ewise_mult(B)": "a method of GraphBLAS",
    "A.reduce_rowwise(monoid.min)": "a method of GraphBLAS",
    "any_secondi": "a semiring of GraphBLAS",
    "schedule(dynamic)": "a clause of OpenMP",
    "schedule(static)": "a clause of OpenMP",
    'logging.getLogger("networkx").setLevel(logging.DEBUG)': "a method of Python's loggers",
    'logging.getLogger("semiring").setLevel(logging.WARNING)': "a method of Python's loggers",
    "bar(done, total)": "how a caller uses an object of the class",
    "--allow-run-as-root": "an option of Open MPI",
    "PE=": "a modifier of Open MPI's --map-by",
    "From_Node": "a title of a reader's file",
    "fromId": "a title of a reader's file",
    "cost_eur": "a title of a reader's file",
    ".cu": "the ending of a file",
    "semiring.cuh": "a file that the library generates",
}

_DOTTED = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+")
_CALL = re.compile(r"([A-Za-z_][\w.]*)\(")
_FILE = re.compile(r"[\w.-]*(?:/[\w.-]+)*\.(?:py|md|rst|cuh?|toml|cff)")
_OPTION = re.compile(r"(?<!\S)--[a-z][\w-]*")


@functools.cache
def nodes() -> tuple[ast.AST, ...]:
    """Return the nodes of the syntax trees of all sources, except tests."""
    sources = [path for path in SOURCES if path.relative_to(ROOT).parts[0] != "tests"]
    return tuple(node for path in sources for node in ast.walk(ast.parse(path.read_text("utf-8"))))


@functools.cache
def parameters() -> frozenset[str]:
    """Return the names of parameters, of keywords, and of fields of classes."""
    found = {node.arg for node in nodes() if isinstance(node, ast.arg | ast.keyword) and node.arg}
    return frozenset(found | {ast.unparse(node.target) for node in nodes() if isinstance(node, ast.AnnAssign)})


@functools.cache
def functions() -> frozenset[str]:
    """Return the names of functions and classes that code defines, calls or takes."""
    defined = {node.name for node in nodes() if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    called = {ast.unparse(node.func).rpartition(".")[2] for node in nodes() if isinstance(node, ast.Call)}
    return frozenset(defined | called | parameters())


@functools.cache
def identifiers() -> frozenset[str]:
    """Return every word of the code, except those of docstrings and comments."""
    fields = ("id", "attr", "arg", "name", "asname", "module")
    found = {text for node in nodes() for field in fields if isinstance(text := getattr(node, field, None), str)}
    texts = [node.value for node in nodes() if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    native = [path.read_text("utf-8") for path in FILES if path.suffix in (".cu", ".cuh")]
    short = [text for text in texts if "\n" not in text]
    return frozenset(re.findall(r"\w+", " ".join([*found, *short, *native]))) | frozenset(sys.stdlib_module_names)


@functools.cache
def text_of_code() -> str:
    """Return the text of all programs, for options and variables of the environment."""
    return "\n".join(path.read_text("utf-8") for path in [*SOURCES, ROOT / ".ci" / "run"] if path != Path(__file__))


def resolves(name: str) -> bool:
    """Return whether a dotted name of this repository is a module or an attribute of it."""
    try:
        pkgutil.resolve_name(name)
    except SemiringError:  # a package of an extra is missing
        return True
    except ValueError:  # a placeholder, such as benchmarks.…
        return "…" in name
    except ModuleNotFoundError as error:
        return bool(error.name) and error.name.partition(".")[0] not in FOLDERS
    except AttributeError:
        owner, _, field = name.rpartition(".")
        bound = defined_in(owner)
        return (bound is not None and field in bound) or has_field(owner, field)
    return True


def has_field(owner: str, field: str) -> bool:
    """Return whether a class annotates a field or its methods assign it, or a submodule of this name exists."""
    try:
        found = pkgutil.resolve_name(owner)
    except (ImportError, AttributeError):
        return False
    if not isinstance(found, type):
        return ROOT.joinpath(*owner.split("."), f"{field}.py").exists()
    for base in found.__mro__:
        path = ROOT.joinpath(*base.__module__.split("."))
        for source in (path.with_suffix(".py"), path / "__init__.py"):
            if source.exists() and re.search(rf"self\.{field}\b|\b{field}\s*:", source.read_text("utf-8")):
                return True
    return hasattr(found, field)


def faults(span: str) -> Iterator[str]:
    """Yield what a text in backticks names in vain."""
    if span in FOREIGN:
        return
    if _FILE.fullmatch(span) and not any(f"/{path}".endswith(f"/{span}") for path in FILES):
        yield f"no file {span}"
    words = span.split()
    if words[:1] == ["semiring"] and re.fullmatch("[a-z]+", "".join(words[1:2])) and words[1] not in COMMANDS:
        yield f"no command {words[1]}"
    module = words[2] if words[:2] == ["python", "-m"] and len(words) > 2 else ""
    if module.partition(".")[0] in FOLDERS and not resolves(module):
        yield f"no module {module}"
    for option in _OPTION.findall(span):
        if f'"{option}' not in text_of_code() and f" {option}" not in text_of_code():
            yield f"no option {option}"
    for variable in re.findall(r"SEMIRING_[A-Z_]+", span):
        if variable not in text_of_code():
            yield f"no variable {variable}"
    if _FILE.fullmatch(span) or "/" in span or words[:1] in (["python"], ["pip"], ["semiring"]):
        return
    for name in _DOTTED.findall(re.sub(r"([\"']).*?\1", "", span)):
        head, _, rest = name.partition(".")
        if head in ("sr", *FOLDERS) and not resolves(name.replace("sr.", "semiring.", 1) if head == "sr" else name):
            yield f"no name {name}"
        if head in CLASSES and not resolves(f"{CLASSES[head]}.{rest.partition('.')[0]}"):
            yield f"no attribute {name}"
    for name in _CALL.findall(span):
        if name.partition(".")[0] not in LIBRARIES and name.rpartition(".")[2] not in functions():
            yield f"no function {name}"
    if re.fullmatch(r"\w+", span) and re.search("[a-z]_|[a-z][A-Z]", span) and span not in identifiers():
        yield f"no name {span}"
    if (found := re.fullmatch(r"([a-z]\w*)=.*", span)) and found[1] not in parameters():
        yield f"no parameter {found[1]}"


def spans(text: str, fence: str = r"^ *```.*?^ *```") -> Iterator[tuple[int, str]]:
    """Yield the texts in backticks of a page or a docstring, with their lines, except blocks of code."""
    text = re.sub(fence, lambda block: "\n" * block[0].count("\n"), text, flags=re.M | re.S)
    for found in re.finditer(r"(`+)(.+?)\1", text, re.S):
        if "\n\n" not in found[2]:
            yield text.count("\n", 0, found.start()) + 1, " ".join(found[2].split()).removeprefix("~")


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_names_on_pages_exist(page):
    text = page.read_text("utf-8")
    assert [f"line {line}: `{span}`: {fault}" for line, span in spans(text) for fault in faults(span)] == []


@pytest.mark.parametrize("folder", FOLDERS[:4])
def test_names_in_docstrings_exist(folder):
    found = []
    for path in SOURCES:
        if path.relative_to(ROOT).parts[0] != folder:
            continue
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and (text := ast.get_docstring(node)):
                where = f"{path.relative_to(ROOT)}: {getattr(node, 'name', 'module')}"
                found += [f"{where}: `{span}`: {fault}" for _, span in spans(text) for fault in faults(span)]
    assert found == []


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("`sr.closured`", "no name sr.closured"),
        ("`semiring.closures.apis`", "no name semiring.closures.apis"),
        ("``semiring.Paths.absent``", "no name semiring.Paths.absent"),
        ("`engine.waits`", "no attribute engine.waits"),
        ("`copied_view(view)`", "no function copied_view"),
        ("`closure(A)` and\n`absently(n)`", "no function absently"),
        ("`no_such_option=True`", "no parameter no_such_option"),
        ("`semiring/closures/absent.py`", "no file semiring/closures/absent.py"),
        ("`SEMIRING_ABSENT`", "no variable SEMIRING_ABSENT"),
        ("`semiring absent x`", "no command absent"),
        ("`semiring paths --absently`", "no option --absently"),
        ("`python -m tools.absent`", "no module tools.absent"),
    ],
)
def test_a_stale_name_is_found(text, fault):
    assert [found for _, span in spans(text) for found in faults(span.replace("absent", "ab" + "sent"))] == [fault]


def test_names_of_today_are_not_stale():
    text = '`sr.closure(A, method="auto")` `engine.plan` `semiring.mpi` `tests/conftest.py` `semiring paths --json`'
    assert [found for _, span in spans(text) for found in faults(span)] == []
