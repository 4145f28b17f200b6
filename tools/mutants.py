"""Measure how many small bugs the tests detect: ``python -m tools.mutants``.

A mutant is a copy of the package with one small bug. Such a bug flips a comparison, a bound or a sign, replaces a
maximum by a minimum, or shortens a slice or range by one. ``draw`` writes a list of mutants to a JSON file. ``run``
applies
one after the other to a copy of the source tree, runs the tests that concern the mutated folder, and prints which test
detected it::

    python -m tools.mutants draw tools/mutants.json
    python -m tools.mutants run tools/mutants.json --out build/mutants.txt -- -m "not slow"

Arguments after ``--`` go to pytest. The list names the code line and the function of each mutant, so it applies to
later revisions as well. A person reads the drawn list. Where a mutant changes no result (but speed, for example), the
person writes the reason into ``excluded``: ``run`` skips these mutants. The next ``draw`` into the same file replaces
them, and those whose code is no longer there.

Exit status of ``run``: 0 if the tests detected every mutant, else 1.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import importlib.util
import io
import json
import os
import queue
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tokenize
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.tables import Table

ROOT = Path(__file__).parents[1]
PACKAGE = "semiring"

#: The tests that concern a folder of the package, the most relevant files first. A folder of tests stands for its
#: remaining files. All keys that are a prefix of the path of a mutated file apply, the longest first.
TESTS: dict[str, tuple[str, ...]] = {
    "closures": (
        *(
            "closures/test_rules.py",
            "closures/test_planner.py",
            "closures/test_structure.py",
            "closures/test_narrow.py",
        ),
        *("closures/test_closure.py", "closures/test_closure_storage.py", "closures", "linalg", "arrays"),
    ),
    "closures/files.py": ("closures/test_strips.py", "closures/test_journal.py"),
    "closures/strip_closures.py": ("closures/test_strips.py", "closures/test_journal.py"),
    "closures/distributed_closures.py": ("closures/test_journal.py", "ranks/test_ranks.py"),
    "closures/rules/components.py": ("closures/test_components.py", "closures/test_look_ahead.py"),
    "closures/rules/gaining.py": ("closures/test_gaining.py",),
    "closures/rules/searches.py": ("closures/test_dijkstra.py", "closures/test_structure.py"),
    "closures/rules/sparse.py": ("closures/test_dijkstra.py", "closures/test_structure.py"),
    "algorithms": (
        *("closures/test_methods.py", "closures/test_closure.py", "closures/test_closure_blind.py"),
        *("closures/test_contract.py", "closures"),
    ),
    "algorithms/potentials": (
        *("closures/test_potentials.py", "closures/test_scales.py", "closures/test_mixed_magnitudes.py"),
        "closures/test_gaining.py",
    ),
    "algorithms/johnson.py": ("closures/test_potentials.py", "closures/test_dijkstra.py"),
    "algorithms/dijkstra.py": ("closures/test_dijkstra.py", "closures/test_some_paths.py"),
    "algorithms/bellman_ford.py": ("closures/test_some_paths.py", "closures/test_potentials.py"),
    "algorithms/narrow_integers.py": ("closures/test_narrow.py",),
    "algorithms/predecessors.py": ("closures/test_predecessors.py", "closures/test_paths.py"),
    "algorithms/rkleene.py": ("closures/test_pivots.py", "closures/test_methods.py"),
    "paths": (
        *("closures/test_paths.py", "closures/test_some_paths.py", "closures/test_traps_paths.py"),
        *("closures/test_pivots.py", "closures/test_predecessors.py", "closures/test_warnings.py", "compat"),
        *("io/test_cli.py", "closures"),
    ),
    "paths/reduction.py": ("closures/test_condensation.py",),
    "paths/selected_sources.py": ("closures/test_some_paths.py",),
    "graphs": (
        *("closures/test_components.py", "closures/test_structure.py", "closures/test_condensation.py"),
        *("closures/test_triangular.py", "cuda_without_gpu/test_graphs_on_host.py", "closures"),
    ),
    "graphs/condensation.py": ("closures/test_condensation.py",),
    "algorithms/breadth_first_search.py": ("closures/test_structure.py",),
    "algorithms/joined_rows.py": ("closures/test_structure.py", "closures/test_triangular.py"),
    "algorithms/purdom.py": ("closures/test_triangular.py",),
    "algorithms/undirected.py": ("closures/test_look_ahead.py", "closures/test_structure.py"),
    "sparse": ("factor/test_factor.py", "factor", "closures/test_structure.py", "closures/test_some_paths.py"),
    "sparse/paths.py": ("factor/test_factor_paths.py",),
    "out_of_core": ("closures/test_strips.py", "closures/test_journal.py", "cuda_without_gpu/test_strips_on_device.py"),
    "out_of_core/journal.py": ("closures/test_journal.py",),
    "out_of_core/buffer_pools.py": ("cuda_without_gpu/test_strips_on_device.py", "closures/test_strips.py"),
    "linalg": ("linalg/test_linalg.py", "linalg", "cpu", "gradients", "algebra/test_traps.py", "arrays"),
    "linalg/packed.py": ("linalg/test_linalg_packed.py",),
    "linalg/ranges.py": ("linalg/test_ranges.py",),
    "linalg/sequences.py": ("linalg/test_sequences.py", "cpu/test_log_walks.py", "linalg/test_sequence_peers.py"),
    "kernels/cpu": ("closures/test_contract.py", "cpu", "linalg", "closures"),
    "kernels/cpu/bits": ("cpu/test_cpu_bits.py", "arrays/test_bits.py", "linalg/test_linalg_packed.py"),
    "kernels/cpu/closing/gaining": ("closures/test_gaining.py", "closures/test_potentials.py"),
    "kernels/cpu/codegen": ("cpu/test_cpu_lowering.py", "cpu/test_cpu_products.py", "cpu/test_log_plus.py"),
    "kernels/cpu/kernels.py": ("cpu/test_cpu_products.py", "cpu/test_cpu_threads.py"),
    "kernels/cpu/elimination": ("factor",),
    "kernels/cpu/predecessors": ("closures/test_predecessors.py", "closures/test_paths.py"),
    "kernels/cpu/product": ("cpu/test_cpu_products.py", "linalg/test_linalg.py"),
    "kernels/cpu/product/log_walks.py": ("cpu/test_log_walks.py",),
    "kernels/cpu/product/log": ("cpu/test_log_plus.py", "cpu/test_log_walks.py"),
    "kernels/cpu/product/matvec.py": ("cpu/test_cpu_matvec.py",),
    "kernels/cpu/dijkstra_loops.py": ("closures/test_dijkstra.py", "closures/test_some_paths.py"),
    "kernels/cpu/threads": ("cpu/test_cpu_threads.py",),
    "arrays": (
        *("arrays/test_arrays.py", "arrays/test_encoding.py", "arrays", "io/test_inputs.py", "linalg"),
        *("closures/test_closure.py", "closures/test_closure_storage.py", "closures/test_memory.py"),
    ),
    "arrays/bits.py": ("arrays/test_bits.py", "linalg/test_linalg_packed.py"),
    "arrays/labels.py": ("io/test_inputs.py", "arrays/test_vertices.py"),
    "arrays/scatter.py": ("io/test_inputs.py",),
    "arrays/vertices.py": ("arrays/test_vertices.py", "io/test_inputs.py"),
    "io": ("io/test_io.py", "io/test_inputs.py", "io/test_cli.py", "io"),
    "autodiff": ("gradients/test_gradients.py", "gradients/test_sequence_gradients.py", "gradients", "cpu"),
}

#: The folders from which mutants are drawn, the same number from each.
FOLDERS = (
    *("closures", "algorithms", "paths", "graphs", "sparse", "out_of_core", "linalg", "kernels/cpu"),
    *("arrays", "io", "autodiff"),
)

#: Files whose code decides texts or speed, and files that need a GPU.
_EXCLUDED = (
    *("closures/explanation.py", "closures/costs.py", "algorithms/progress.py", "kernels/cpu/listing.py"),
    *("kernels/cuda/entries", "sparse/device.py"),
)

#: Functions that write texts for a person, and calls whose arguments are such texts.
_TEXTS = re.compile(r"__repr__|__str__|_repr_\w+|_?(describe|explain|message|announce|why|warn)\w*")
_TEXT_CALLS = re.compile(r"(.*\.)?_?(logger\.\w+|warn\w*|announce|log|say\w*|told?|span|NotApplicable|cast|TypeVar)")

_COMPARISONS = {
    **{ast.Lt: ("<", ("<=", ">=")), ast.LtE: ("<=", ("<", ">"))},
    **{ast.Gt: (">", (">=", "<=")), ast.GtE: (">=", (">", "<"))},
    **{ast.Eq: ("==", ("!=",)), ast.NotEq: ("!=", ("==",))},
}
_SIGNS = {ast.Add: ("+", "-"), ast.Sub: ("-", "+")}
_EXTREMES = {
    **{"min": "max", "max": "min", "minimum": "maximum", "maximum": "minimum"},
    **{"fmin": "fmax", "fmax": "fmin", "argmin": "argmax", "argmax": "argmin", "nanmin": "nanmax", "nanmax": "nanmin"},
}


class MutantError(Exception):
    """A list of mutants, or a run of one, cannot be used, for the reason in the message."""


@dataclass(frozen=True)
class Mutant:
    """A change of one line: at ``line`` and ``column``, counted from 1, the text ``before`` becomes ``after``."""

    file: str
    line: int
    column: int
    before: str
    after: str
    #: The whole line, and the dotted name of the function or class around it: a later revision is searched for these.
    source: str
    scope: str
    #: How many equal lines precede this one in its scope.
    occurrence: int = 0
    #: Why no test can detect the change, such as speed alone, or empty for the mutants that are run.
    excluded: str = ""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}  {self.before} → {self.after or 'nothing'}"

    @property
    def folder(self) -> str:
        """The folder of `FOLDERS` that contains the file."""
        inside = self.file.removeprefix(f"{PACKAGE}/")
        return next((folder for folder in FOLDERS if inside.startswith(f"{folder}/")), "")


# ------------------------------------------------------------------------------------------------- places to mutate


@dataclass(frozen=True)
class _Change:
    """A replacement of characters: line from 1, columns from 0."""

    line: int
    start: int
    stop: int
    replacement: str


class _Finder(ast.NodeVisitor):
    """A visitor that collects the changes of a module, without those inside texts, annotations and assertions."""

    def __init__(self, text: str) -> None:
        self.lines = text.splitlines(keepends=True)
        self.tokens = [
            token
            for token in tokenize.generate_tokens(io.StringIO(text).readline)
            if token.type in (tokenize.OP, tokenize.NAME)
        ]
        self.changes: list[_Change] = []

    def _column(self, line: int, offset: int) -> int:
        """Return the column in characters. `ast` counts bytes of UTF-8."""
        return len(self.lines[line - 1].encode()[:offset].decode())

    def _start(self, node: ast.expr) -> tuple[int, int]:
        return node.lineno, self._column(node.lineno, node.col_offset)

    def _end(self, node: ast.expr) -> tuple[int, int]:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return node.end_lineno, self._column(node.end_lineno, node.end_col_offset)

    def _replace_token(self, text: str, replacement: str, first: tuple[int, int], last: tuple[int, int]) -> None:
        """Add the change of the first token ``text`` between two places."""
        for token in self.tokens:
            if token.string == text and first <= token.start and token.end <= last:
                self.changes.append(_Change(token.start[0], token.start[1], token.end[1], replacement))
                return

    def _shift(self, bound: ast.expr | None, offset: int) -> None:
        """Add the change of a bound of a slice or range by one."""
        if bound is None or (start := self._start(bound))[0] != (end := self._end(bound))[0]:
            return
        text = self.lines[start[0] - 1][start[1] : end[1]]
        if isinstance(bound, ast.Constant):
            if type(bound.value) is not int:
                return
            after = str(bound.value + offset)
        else:
            sums = (ast.Add, ast.Sub, ast.Mult, ast.FloorDiv, ast.Mod)
            simple = isinstance(bound, ast.Name | ast.Attribute | ast.Call | ast.Subscript | ast.UnaryOp)
            simple = simple or (isinstance(bound, ast.BinOp) and isinstance(bound.op, sums))
            after = f"{text if simple else f'({text})'} {'+' if offset > 0 else '-'} 1"
        self.changes.append(_Change(start[0], start[1], end[1], after))

    # -------------------------------------------------------------------------------------------- what is mutated

    def visit_Compare(self, node: ast.Compare) -> None:
        operands = [node.left, *node.comparators]
        if not any(re.search(r"sys\.|__name__|version", ast.unparse(operand)) for operand in operands):
            for op, left, right in zip(node.ops, operands, operands[1:], strict=False):
                text, others = _COMPARISONS.get(type(op), ("", ()))
                for other in others:
                    self._replace_token(text, other, self._end(left), self._start(right))
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        sequences = (ast.JoinedStr, ast.Tuple, ast.List, ast.ListComp)
        no_number = any(
            isinstance(side, sequences) or (isinstance(side, ast.Constant) and isinstance(side.value, str | bytes))
            for side in (node.left, node.right)
        )
        if type(node.op) in _SIGNS and not no_number:
            self._replace_token(*_SIGNS[type(node.op)], self._end(node.left), self._start(node.right))
        self.generic_visit(node)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        if type(node.op) in _SIGNS and not isinstance(node.value, ast.Constant | ast.JoinedStr | ast.Tuple | ast.List):
            text, after = _SIGNS[type(node.op)]
            self._replace_token(f"{text}=", f"{after}=", self._end(node.target), self._start(node.value))
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        zero = isinstance(node.operand, ast.Constant) and node.operand.value == 0
        if isinstance(node.op, ast.USub) and not zero:
            self._replace_token("-", "", self._start(node), self._start(node.operand))
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        name = ast.unparse(node.func)
        if _TEXT_CALLS.fullmatch(name):
            return
        last = name.rpartition(".")[2]
        if last in _EXTREMES:
            line, end = self._end(node.func)
            self._replace_token(last, _EXTREMES[last], (line, end - len(last)), (line, end))
        if last in ("range", "prange") and not any(isinstance(each, ast.Starred) for each in node.args):
            backwards = len(node.args) == 3 and ast.unparse(node.args[2]).startswith("-")
            if len(node.args) > 1:
                self._shift(node.args[0], -1 if backwards else 1)
            self._shift(node.args[min(1, len(node.args) - 1)] if node.args else None, 1 if backwards else -1)
        self.generic_visit(node)

    def visit_Slice(self, node: ast.Slice) -> None:
        self._shift(node.lower, 1)
        self._shift(node.upper, -1)
        self.generic_visit(node)

    # ---------------------------------------------------------------------------------------------- what is skipped

    def _visit_function(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        if not _TEXTS.fullmatch(node.name):
            for statement in (*node.args.defaults, *filter(None, node.args.kw_defaults), *node.body):
                self.visit(statement)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        self._visit_function(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        self._visit_function(node)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        for statement in node.body:
            self.visit(statement)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.visit(node.value)

    def visit_If(self, node: ast.If) -> None:
        if "TYPE_CHECKING" not in ast.unparse(node.test):
            self.generic_visit(node)

    def visit_Assign(self, node: ast.Assign) -> None:
        if not any(isinstance(target, ast.Name) and target.id == "__all__" for target in node.targets):
            self.generic_visit(node)

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None: ...

    def visit_Raise(self, node: ast.Raise) -> None: ...

    def visit_Assert(self, node: ast.Assert) -> None: ...


def _scopes(tree: ast.Module, lines: int) -> list[str]:
    """Return for each line the dotted name of the innermost function or class around it."""
    found = [""] * (lines + 1)

    def enter(node: ast.AST, name: str) -> None:
        for child in ast.iter_child_nodes(node):
            inner = name
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                inner = f"{name}.{child.name}".lstrip(".")
                found[child.lineno : (child.end_lineno or child.lineno) + 1] = [inner] * (
                    (child.end_lineno or child.lineno) + 1 - child.lineno
                )
            enter(child, inner)

    enter(tree, "")
    return found


def mutants_of(file: str, text: str) -> list[Mutant]:
    """Return all mutants of a module, in the order of its lines."""
    tree = ast.parse(text)
    finder = _Finder(text)
    finder.visit(tree)
    lines = text.splitlines()
    scopes = _scopes(tree, len(lines))
    found = []
    for change in sorted(set(finder.changes), key=lambda each: (each.line, each.start, each.stop, each.replacement)):
        source, scope = lines[change.line - 1], scopes[change.line]
        equal = [i for i in range(1, change.line) if lines[i - 1].strip() == source.strip() and scopes[i] == scope]
        before = source[change.start : change.stop]
        if before != change.replacement:
            place = (file, change.line, change.start + 1, before, change.replacement)
            found.append(Mutant(*place, source, scope, len(equal)))
    return found


def apply(mutant: Mutant, text: str) -> str:
    """Return the text of the mutated module. Raises `MutantError` if the module lacks the line of the mutant."""
    lines = text.splitlines(keepends=True)
    equal = [i for i, line in enumerate(lines) if line.strip() == mutant.source.strip()]
    scopes = _scopes(ast.parse(text), len(lines))
    inside = [i for i in equal if scopes[i + 1] == mutant.scope]
    if len(inside) > mutant.occurrence:
        at = inside[mutant.occurrence]
    elif len(equal) == 1:
        at = equal[0]
    else:
        raise MutantError(f"{mutant.file} has {len(equal) or 'no'} lines of {mutant.scope}: {mutant.source.strip()}")
    line = lines[at]
    offset = mutant.column - 1 - (len(mutant.source) - len(mutant.source.lstrip()))
    start = len(line) - len(line.lstrip()) + offset
    if not line.startswith(mutant.before, start):
        raise MutantError(f"{mutant.file}:{at + 1} has no {mutant.before!r} in column {start + 1}: {line.strip()}")
    lines[at] = line[:start] + mutant.after + line[start + len(mutant.before) :]
    return "".join(lines)


# ------------------------------------------------------------------------------------------------------------- lists


def _read(path: Path) -> str:
    """Read a source file with its line ends as they are."""
    return path.read_bytes().decode("utf-8")


def _shuffle(tree: Path, folder: str, seed: int) -> list[Mutant]:
    """Return the mutants of a folder in random order, one of each file before the second of any."""
    rounds: list[tuple[int, float, Mutant]] = []
    for path in sorted((tree / PACKAGE / folder).rglob("*.py")):
        file = path.relative_to(tree).as_posix()
        if not file.removeprefix(f"{PACKAGE}/").startswith(_EXCLUDED):
            generator = random.Random(f"{seed} {file}")
            found = mutants_of(file, _read(path))
            generator.shuffle(found)
            rounds += [(turn, generator.random(), mutant) for turn, mutant in enumerate(found)]
    return [mutant for *_, mutant in sorted(rounds, key=lambda each: each[:2])]


def draw(tree: Path, count: int, seed: int, former: Sequence[Mutant] = ()) -> list[Mutant]:
    """Return ``count`` mutants over `FOLDERS`, and the excluded ones. ``former`` mutants that apply come first."""
    former = [mutant for mutant in former if _applies(mutant, tree)]
    found = list(former)
    for position, folder in enumerate(FOLDERS):
        wanted = count // len(FOLDERS) + (position < count % len(FOLDERS))
        wanted -= sum(mutant.folder == folder and not mutant.excluded for mutant in former)
        places = {(mutant.file, mutant.scope, mutant.source.strip()) for mutant in former}
        new: list[Mutant] = []
        for mutant in _shuffle(tree, folder, seed):
            place = (mutant.file, mutant.scope, mutant.source.strip())
            if len(new) < wanted and place not in places:  # a line has at most one mutant
                places.add(place)
                new.append(mutant)
        found += new
    return sorted(found, key=lambda mutant: (FOLDERS.index(mutant.folder), mutant.file, mutant.line, mutant.column))


def _applies(mutant: Mutant, tree: Path) -> bool:
    try:
        apply(mutant, _read(tree / mutant.file))
    except (MutantError, FileNotFoundError):
        return False
    return True


def load(path: Path) -> list[Mutant]:
    """Read a list that `save` wrote."""
    return [Mutant(**each) for each in json.loads(path.read_text("utf-8"))]


def save(path: Path, mutants: Iterable[Mutant]) -> None:
    """Write a list of mutants as JSON."""
    path.write_text(json.dumps([asdict(mutant) for mutant in mutants], indent=1, ensure_ascii=False) + "\n", "utf-8")


# -------------------------------------------------------------------------------------------------------------- runs


def tests_for(file: str, tree: Path) -> list[str]:
    """Return the test files that concern a file of the package, the most relevant first."""
    inside = file.removeprefix(f"{PACKAGE}/")
    named = [
        name for prefix in sorted(TESTS, key=len, reverse=True) if inside.startswith(prefix) for name in TESTS[prefix]
    ]
    result: dict[str, None] = {}
    for name in named:
        path = tree / "tests" / name
        for each in sorted(path.glob("test_*.py")) if path.is_dir() else [path] if path.exists() else []:
            result[each.relative_to(tree).as_posix()] = None
    if not result:
        raise MutantError(f"{tree} has no tests for {file}: add them to TESTS in tools/mutants.py")
    return list(result)


@dataclass(frozen=True)
class Outcome:
    """The end of the tests on a mutant: detected, survived, timeout, or unusable with the reason as ``test``."""

    kind: str
    test: str
    seconds: float


#: Lines of ``pytest -v`` by one process, by pytest-xdist, and in the summary.
_FAILURES = (
    re.compile(r"^(tests/\S+::.+) (?:FAILED|ERROR)(?: +\[ *\d+%\])?$", re.M),
    re.compile(r"^\[gw\d+\](?: \[ *\d+%\])? (?:FAILED|ERROR) (tests/\S+::.+?) *$", re.M),
    re.compile(r"^(?:FAILED|ERROR) (tests/\S+?)(?: - .*)?$", re.M),
)
_STARTED = re.compile(r"^(tests/\S+::.+?)(?: (?:PASSED|SKIPPED|XFAIL)\b.*)?$", re.M)


def read_verdict(output: str) -> str:
    """Return the first test that failed, from the output of ``pytest -v``, else the last one that started."""
    for pattern in _FAILURES:
        if found := pattern.search(output):
            return found[1]
    started = _STARTED.findall(output)
    return str(started[-1]).strip() if started else ""


class Copy:
    """A copy of the source tree in a temporary folder, which has at most one mutant at a time."""

    def __init__(self, tree: Path, folder: Path, cache: Path) -> None:
        self.folder, self.cache = folder, cache
        command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        for name in subprocess.run(command, cwd=tree, check=True, capture_output=True).stdout.split(b"\0"):
            path, target = tree / os.fsdecode(name), folder / os.fsdecode(name)
            if name and (path.exists() or path.is_symlink()):
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(path, target, follow_symlinks=False)

    @contextlib.contextmanager
    def mutate(self, mutant: Mutant) -> Iterator[None]:
        """Apply a mutant, and restore the file afterwards."""
        path = self.folder / mutant.file
        if not path.exists():
            raise MutantError(f"there is no {mutant.file} any more")
        original = path.read_bytes()
        try:
            path.write_bytes(apply(mutant, _read(path)).encode("utf-8"))
            self._forget(path)
            yield
        finally:
            path.write_bytes(original)
            self._forget(path)

    @staticmethod
    def _forget(path: Path) -> None:
        """Remove the bytecode of a file: Python compares sizes and whole seconds, which a mutant may keep."""
        Path(importlib.util.cache_from_source(str(path))).unlink(missing_ok=True)

    def pytest(self, arguments: Sequence[str], seconds: float) -> tuple[int | None, str]:
        """Run pytest on the copy, and return its exit status, None after a timeout, and what it printed."""
        environment = {
            **os.environ,
            **{"PYTHONPATH": str(self.folder), "SEMIRING_CACHE_DIR": str(self.cache), "COLUMNS": "200"},
        }
        command = [sys.executable, "-m", "pytest", "-v", "-x", "--tb=short", "-p", "no:cacheprovider", *arguments]
        with tempfile.TemporaryFile() as output:
            process = subprocess.Popen(
                command,
                cwd=self.folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            try:
                status: int | None = process.wait(seconds)
            except subprocess.TimeoutExpired:
                status = None
            finally:
                with contextlib.suppress(ProcessLookupError):  # kills its child processes too
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
            output.seek(0)
            return status, output.read().decode("utf-8", "replace")

    def judge(self, mutant: Mutant, arguments: Sequence[str], seconds: float) -> Outcome:
        """Run the tests on a mutant: first two files, as most mutants end there, and then the remaining files."""
        start = time.monotonic()
        try:
            tests = tests_for(mutant.file, self.folder)
            ran = False
            with self.mutate(mutant):
                for files in filter(None, (tests[:2], tests[2:])):
                    status, output = self.pytest([*arguments, *files], seconds - (time.monotonic() - start))
                    if status not in (0, _NO_TESTS):
                        break
                    ran = ran or status == 0
        except MutantError as error:
            return Outcome("unusable", str(error), time.monotonic() - start)
        took, test = time.monotonic() - start, read_verdict(output)
        if status is None:
            return Outcome("timeout", f"in {test}", took)
        if status in (0, _NO_TESTS):
            return Outcome("survived", "", took) if ran else Outcome("unusable", "no test was selected", took)
        if test and (status in (1, 2) or status < 0 or status > 128):
            return Outcome("detected", test, took)
        last = "; ".join(output.strip().splitlines()[-2:])
        return Outcome("unusable", f"pytest ended with exit status {status}: {last}", took)

    def failing(self, tests: Sequence[str], arguments: Sequence[str]) -> set[str]:
        """Return which of some tests fail without any mutant."""
        if not tests or self.pytest([*arguments, "--maxfail=0", *tests], 60 * len(tests) + 240)[0] in (0, _NO_TESTS):
            return set()
        alone = ((test, self.pytest([*arguments, test], 240)[0]) for test in tests)
        return {test for test, status in alone if status not in (0, _NO_TESTS)}


#: The exit status of pytest if it selected no test.
_NO_TESTS = 5

COLUMNS = ("mutant", "place", "change", "outcome", "by the test", "s")


def run(
    mutants: Sequence[Mutant],
    arguments: Sequence[str] = (),
    *,
    tree: Path = ROOT,
    seconds: float = 240,
    jobs: int = 1,
    cache: Path | None = None,
    numbers: Sequence[int] = (),
    out: Path | None = None,
) -> list[Outcome]:
    """Run the tests on each mutant, and print and write a line of the table as soon as it is known.

    Every test that detected a mutant must pass without it: they run once more, together, before the whole table.

    Parameters
    ----------
    mutants : sequence of Mutant
        The list. Excluded mutants are skipped.
    arguments : sequence of str
        Further arguments of pytest.
    tree : Path
        The source tree to copy and mutate: a working tree of Git.
    seconds : float
        After this time the tests of a mutant are stopped.
    jobs : int
        How many mutants run at once, each in its own copy.
    cache : Path, optional
        The folder of compiled kernels, shared by all mutants, by default a temporary one. This is safe: the name of a
        kernel contains a hash of its source.
    numbers : sequence of int
        The numbers of the mutants to run, by default all.
    out : Path, optional
        A file for the table. Each line is written as soon as it is known.
    """
    chosen = [(n, each) for n, each in enumerate(mutants, 1) if not each.excluded and (not numbers or n in numbers)]
    outcomes: dict[int, Outcome] = {}
    with contextlib.ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="mutants-")))
        kernels = cache.resolve() if cache else scratch / "cache"
        kernels.mkdir(mode=0o700, parents=True, exist_ok=True)
        copies: queue.SimpleQueue[Copy] = queue.SimpleQueue()
        for job in range(jobs):
            copies.put(Copy(tree, scratch / f"tree{job}", kernels))
        written = stack.enter_context(out.open("w", encoding="utf-8")) if out else None

        def tell(line: str) -> None:
            for file in (sys.stdout, written):
                if file is not None:
                    print(line, file=file, flush=True)

        def judge(number: int, mutant: Mutant) -> tuple[int, Mutant, Outcome]:
            copy = copies.get()
            try:
                return number, mutant, copy.judge(mutant, arguments, seconds)
            finally:
                copies.put(copy)

        tell(" | ".join(COLUMNS))
        pool = stack.enter_context(ThreadPoolExecutor(jobs))
        for future in as_completed([pool.submit(judge, *each) for each in chosen]):
            number, mutant, outcome = future.result()
            outcomes[number] = outcome
            tell(" | ".join(_row(number, mutant, outcome)))
        found = {outcome.test for outcome in outcomes.values() if outcome.kind == "detected"}
        failing = copies.get().failing(sorted(found), arguments)
        for number, outcome in outcomes.items():
            if outcome.test in failing:
                outcomes[number] = Outcome("unusable", f"{outcome.test} fails without the mutant, too", outcome.seconds)
        rows = [_row(number, mutants[number - 1], outcomes[number]) for number in sorted(outcomes)]
        tell(str(Table(f"Mutants, tests with {' '.join(arguments) or 'no arguments'}", COLUMNS, rows)))
        kinds = [outcome.kind for outcome in outcomes.values()]
        tell("\n" + ", ".join(f"{kinds.count(kind)} {kind}" for kind in sorted(set(kinds))))
    return [outcomes[number] for number in sorted(outcomes)]


def _row(number: int, mutant: Mutant, outcome: Outcome) -> tuple[str, ...]:
    change = f"`{mutant.before}` → `{mutant.after}`"
    place = f"{mutant.file}:{mutant.line}:{mutant.column}"
    return str(number), place, change, outcome.kind, outcome.test, f"{outcome.seconds:.0f}"


def main() -> int:
    """Draw a list of mutants, or run the tests on one."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    drawing = commands.add_parser("draw", help="add mutants to a list, until it has enough")
    running = commands.add_parser("run", help="run the tests on each mutant of a list")
    for each in (drawing, running):
        each.add_argument("list", type=Path, help="a JSON file")
        each.add_argument("--tree", type=Path, default=ROOT, help="the source tree (default: this one)")
    drawing.add_argument("--count", type=int, default=40, help="mutants that are not excluded (default: 40)")
    drawing.add_argument("--seed", type=int, default=43)
    running.add_argument("--out", type=Path, help="a file for the table, written as it grows")
    running.add_argument("--seconds", type=float, default=240, help="the limit for each mutant (default: 240)")
    running.add_argument("--jobs", type=int, default=1, help="mutants at once (default: 1)")
    running.add_argument("--cache", type=Path, help="the folder of compiled kernels (default: a temporary one)")
    running.add_argument("--only", type=int, nargs="+", default=[], metavar="N", help="numbers of mutants in the list")
    given = sys.argv[1:]
    mine = given.index("--") if "--" in given else len(given)  # the arguments that follow go to pytest
    options, for_pytest = parser.parse_args(given[:mine]), given[mine + 1 :]
    if options.command == "draw":
        kept = load(options.list) if options.list.exists() else []
        mutants = draw(options.tree, options.count, options.seed, kept)
        save(options.list, mutants)
        for number, mutant in enumerate(mutants, 1):
            print(f"{number:>3}  {mutant}{f'  excluded: {mutant.excluded}' if mutant.excluded else ''}")
        return 0
    limits = {"seconds": options.seconds, "jobs": options.jobs, "cache": options.cache, "numbers": options.only}
    outcomes = run(load(options.list), for_pytest, tree=options.tree.resolve(), out=options.out, **limits)
    return int(any(outcome.kind != "detected" for outcome in outcomes))


if __name__ == "__main__":
    sys.exit(main())
