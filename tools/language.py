"""List places whose names, docstrings, comments or pages need a second look, and count them by folder.

    python -m tools.language [FOLDER ...]             print the count of each check for each folder
    python -m tools.language --list [FOLDER ...]      print each place
    python -m tools.language --limits                 print the limits of tests/project/test_language.py

A *text* is a docstring, a comment of Python or CUDA code, or a page. Checks:

``summary``     a docstring whose first line is no sentence: fewer than four words, no full stop, or a preposition or
                pronoun at its beginning
``word``        a text that speaks of code as of a person, or of an unnamed person
``name``        a function, class, parameter, annotated field or attribute, private ones included, that is a bare
                participle, adverb, preposition or pronoun, such as ``taken``, ``_shown`` or ``before``
``semicolon``   a semicolon in a docstring or comment of Python code, where two sentences are usually better
``long``        a sentence of more than 32 words in a docstring or a page
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tools.messages import LONGEST, PEOPLE

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ("semiring", "_semiring_networkx", "benchmarks", "tools", "tests", "docs")
CHECKS = ("summary", "word", "name", "semicolon", "long")
_READERS = {".py": "python", ".cu": "cuda", ".cuh": "cuda", ".md": "page", ".rst": "page"}

#: Prepositions and pronouns: a first line that begins with one depends on a noun that stands elsewhere.
BEGINNINGS = re.compile(
    r"(of|at|in|on|by|for|from|with|within|without|under|to|into|beside|between|behind|as|the same|"
    r"those|these|that|this|what|which|who|whose|where|how|it|its|they|their|one|another|others?|both|all|none|some)\b",
    re.IGNORECASE,
)

#: Words that do not say what a name holds or does: irregular participles, adverbs, prepositions and pronouns. A word
#: that ends in -ed or -wn counts as a participle without an entry here.
BARE = frozenset(
    """
    above after again ahead alone along already also among apart around aside asks at away back before begun behind
    below beneath beside besides between beyond blames blank both built but by chosen done during each else even
    ever except few for from given gone got grown had held here hidden home in inside instead into it kept known
    laid later least led less lost made many meant met more most much near never not now of off on once only onto
    others out_of outside over own paid past per rather said same seen sent since so sold some soon sought spent
    still such taken tells than that them then there these they this those through till to together told too toward
    under understood until up upon very waits wants way what when whether which while who whole whom whose why with
    within without won worn wound written yet
    """.split()  # noqa: SIM905  # words are easier to read and to add than a list of strings
)

#: Terms of the literature and of the public interface, which name what they hold although they are such words.
TERMS = frozenset(
    """
    directed done embed exceed expected feed need packed padded pred proceed red seed shed signed speed succeed
    transposed undirected unpacked unsigned unweighted weighted
    """.split()  # noqa: SIM905
)


class Place(NamedTuple):
    """A place of a source file that one of the checks reports."""

    check: str
    file: str
    line: int
    text: str

    @property
    def folder(self) -> str:
        """The first two names of the file's folder, and three names in ``semiring/kernels``."""
        parts = Path(self.file).parts[:-1]
        return "/".join(parts[: 3 if parts[1:2] == ("kernels",) else 2])


def places(folders: tuple[str, ...] = FOLDERS) -> Iterator[Place]:
    """Yield every place that a check reports in the files below these folders, in the order of the files."""
    for folder in folders:
        path = ROOT / folder
        for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
            if file.suffix in _READERS:
                yield from places_of(file.read_text("utf-8"), file.relative_to(ROOT).as_posix())


def places_of(source: str, file: str) -> Iterator[Place]:
    """Yield the places that a check reports in the text of one file, whose name says what it holds."""
    reader = _READERS[Path(file).suffix]
    if reader == "page":
        prose = prose_of(source)
        for line, text in enumerate(prose.split("\n"), 1):
            yield from (Place("word", file, line, found[0]) for found in PEOPLE.finditer(text))
        yield from (Place("long", file, line, each) for line, each in long_sentences(prose))
    elif reader == "cuda":
        for line, text in enumerate(source.splitlines(), 1):
            yield from (Place("word", file, line, found[0]) for found in PEOPLE.finditer(text.partition("//")[2]))
    else:
        yield from _places_of_python(source, file)


def _places_of_python(source: str, file: str) -> Iterator[Place]:
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            text, line = ast.get_docstring(node), getattr(node, "lineno", 1)
            if text:
                summary = text.split("\n\n", 1)[0].replace("\n", " ")
                if is_fragment(summary):
                    yield Place("summary", file, line, summary)
                prose = re.split(r"^\s*>>>", text, maxsplit=1, flags=re.MULTILINE)[0]
                yield from (Place("word", file, line, found[0]) for found in PEOPLE.finditer(prose))
                yield from (Place("semicolon", file, line, part) for part in semicolons(prose))
                yield from (Place("long", file, line, each) for _, each in long_sentences(prose_of(prose)))
        yield from (Place("name", file, at, name) for name, at in names_of(node) if is_bare(name))
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            line, text = token.start[0], token.string
            yield from (Place("word", file, line, found[0]) for found in PEOPLE.finditer(text))
            yield from (Place("semicolon", file, line, part) for part in semicolons(text))


def is_fragment(summary: str) -> bool:
    """Return whether the first line of a docstring is no sentence that stands alone."""
    ends = summary.rstrip().endswith(".")
    return len(summary.split()) < 4 or not ends or BEGINNINGS.match(summary) is not None


def semicolons(prose: str) -> list[str]:
    """Return the words before each semicolon of a text, code between backticks excepted."""
    return re.findall(r"[^;\n]{1,60};", re.sub(r"`[^`]*`", "x", prose))


def prose_of(text: str) -> str:
    """Return a page or docstring without code, tables, directives and the targets of links, on as many lines."""
    text = re.sub(r"```.*?```|<!--.*?-->", lambda code: "\n" * code[0].count("\n"), text, flags=re.DOTALL)
    lines = ["" if _NO_PROSE.match(line) else line for line in text.split("\n")]
    return re.sub(r"\]\([^)\n]*\)", "]", re.sub(r"`[^`\n]*`", "x", "\n".join(lines)))


#: Lines of tables, directives, headings, examples and indented code.
_NO_PROSE = re.compile(r"\s*(\||\.\. |#|:\w+:|-{3}|={3}|>>>|\.\.\. )|\s{4,}\S|.*` \| ")


def long_sentences(prose: str) -> list[tuple[int, str]]:
    """Return the sentences of a text that have more words than a sentence may have, with the lines of their blocks."""
    found, line = [], 1
    for block in re.split(r"(\n\s*\n|\n\s*(?:[*-]|\d+\.) |::?\n)", prose):
        sentences = re.split(r"(?<=[.!?])\s+", " ".join(block.split()))
        found += [(line, each) for each in sentences if len(each.split()) > LONGEST]
        line += block.count("\n")
    return found


def is_bare(name: str) -> bool:
    """Return whether a name is one bare participle, adverb, preposition or pronoun, and no term of `TERMS`."""
    word = name.strip("_").lower()
    if word in TERMS or not word:
        return False
    return word in BARE or ("_" not in word and len(word) > 3 and word.endswith(("ed", "wn")) and word != "down")


def names_of(node: ast.AST) -> list[tuple[str, int]]:
    """Return the names that a node gives to a function, class, parameter, field or attribute, with their lines."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return [(node.name, node.lineno)]
    if isinstance(node, ast.ClassDef):
        fields = [each.target for each in node.body if isinstance(each, ast.AnnAssign)]
        return [(node.name, node.lineno), *((each.id, each.lineno) for each in fields if isinstance(each, ast.Name))]
    if isinstance(node, ast.arg):
        return [(node.arg, node.lineno)]
    if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
        return [(node.attr, node.lineno)]
    return []


def counts(places: Iterator[Place]) -> dict[str, dict[str, int]]:
    """Return how many places each check reports in each folder."""
    counted = Counter((place.check, place.folder) for place in places)
    return {check: {folder: n for (each, folder), n in sorted(counted.items()) if each == check} for check in CHECKS}


def limits(places: Iterator[Place]) -> str:
    """Return the limits that these places just keep, as the source text of a dict."""
    lines = ["LIMITS: dict[str, dict[str, int]] = {"]
    for check, numbers in counts(places).items():
        lines += [
            f'    "{check}": {{',
            *(f'        "{folder}": {number},' for folder, number in numbers.items()),
            "    },",
        ]
    return "\n".join([*lines, "}"])


def main(arguments: list[str]) -> int:
    """Print the places with ``--list``, the limits with ``--limits``, else the counts, and return the exit code."""
    folders = tuple(argument for argument in arguments if argument[:2] != "--") or FOLDERS
    if "--list" in arguments:
        for place in places(folders):
            print(f"{place.file}:{place.line} {place.check}: {place.text}")
    elif "--limits" in arguments:
        print(limits(places()))
    else:
        for check, numbers in counts(places(folders)).items():
            print(f"{check}: {sum(numbers.values())}")
            print(*(f"    {folder:<32} {number:>5}" for folder, number in numbers.items()), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
