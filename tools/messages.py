"""List the text of every message that the package can show, and check how it is written.

    python -m tools.messages [FOLDER ...]      list each raised or warned message, with its file and line
    python -m tools.messages --all             also list the texts of explanations, logs and help
    python -m tools.messages --check           print the sentences that break a rule (then the exit code is 1)

Rules for each sentence: at most 32 words, at most one semicolon, and no code spoken of as a person. No message tells
how to install the project by its name, because `semiring.advice.install_advice` writes this advice.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("semiring", "_semiring_networkx")
LONGEST = 32  # words of a sentence

#: Words that speak of code as of a person, or of an unnamed person.
PEOPLE = re.compile(
    r"\b(nobody|somebody|anybody|whoever|whom|who|him|his|he|told|tells|is asked|asks|wants|knows|likes|waits to|"
    r"looked at|looks at|spared?|for want of|belongs? into|stands? in the place of)\b",
    re.IGNORECASE,
)
INSTALL = re.compile(r"semiring\[")

#: A part of each sentence that was read and is right as it is.
RIGHT: tuple[str, ...] = ()


class Message(NamedTuple):
    """A text of the source: where it stands, what shows it (raise, warn or text), and its words."""

    file: str
    line: int
    kind: str
    text: str


def messages(folders: tuple[str, ...] = PACKAGES) -> Iterator[Message]:
    """Yield every message of the Python files below the folders, in the order of the files and lines."""
    for folder in folders:
        path = ROOT / folder
        for file in sorted(path.rglob("*.py")) if path.is_dir() else [path]:
            yield from _messages_of(file)


def _messages_of(file: Path) -> Iterator[Message]:
    tree = ast.parse(file.read_text(encoding="utf-8"))
    name = str(file.relative_to(ROOT))
    visited: set[ast.AST] = set(_docstrings(tree))
    result: list[Message] = []
    for node in ast.walk(tree):  # outer nodes come before inner ones
        if node in visited:
            continue
        kind = _kind(node)
        if kind is not None:
            assert isinstance(node, ast.Call)
            text = " | ".join(filter(None, map(_text, [*node.args, *(key.value for key in node.keywords)])))
            visited.update(inner for inner in ast.walk(node))
            if text:
                result.append(Message(name, node.lineno, kind, text))
        elif isinstance(node, ast.BinOp | ast.JoinedStr | ast.Constant):
            text = _text(node)
            visited.update(inner for inner in ast.walk(node))
            if _is_prose(text):
                result.append(Message(name, node.lineno, "text", text))
    yield from sorted(result, key=lambda message: message.line)


def _is_prose(text: str) -> bool:
    """Return whether a text is for people: several words with spaces between them, and no code."""
    if "\n" in text.strip() or re.search(r"[{};]$|\breturn\b|\\[sdwS(]|\(\?|#define|^--|\bfloat64 \w+,|uint32 ", text):
        return False
    return len(re.findall(r"(?<!\S)[(]?[A-Za-z][\w'-]*[,.:;)]?(?!\S)", text)) > 2


def _docstrings(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield the strings that stand alone as statements: docstrings."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            yield node.value


def _kind(node: ast.AST) -> str | None:
    if not isinstance(node, ast.Call):
        return None
    function = node.func
    name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
    if name in ("warn", "_warn"):
        return "warn"
    return "raise" if name.endswith(("Error", "Exit")) else "warn" if name.endswith("Warning") else None


def _text(node: ast.AST) -> str:
    """Return the text of an expression: literals as they are, … for each computed part."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else ""
    if isinstance(node, ast.JoinedStr):
        return "".join(map(_part, node.values))
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return (_text(node.left) or "…") + (_text(node.right) or "…")
    if isinstance(node, ast.IfExp):
        return f"{_text(node.body) or '…'} ‖ {_text(node.orelse) or '…'}"
    if isinstance(node, ast.Call):
        return " ".join(filter(None, map(_text, node.args)))
    return ""


def _part(node: ast.expr) -> str:
    if isinstance(node, ast.Constant):
        return str(node.value)
    inner = _text(node.value) if isinstance(node, ast.FormattedValue) else ""
    return f"⟨{inner}⟩" if " " in inner else "…"


def sentences(text: str) -> Iterator[str]:
    """Yield the sentences of a text. ‖ stands between alternatives, which count as sentences."""
    for inner in re.findall(r"⟨([^⟨⟩]*)⟩", text):
        yield from sentences(inner)
    for part in re.split(r" \| | ‖ ", re.sub(r"⟨[^⟨⟩]*⟩", "…", text)):
        yield from filter(None, (sentence.strip() for sentence in re.split(r"(?<=[.!?])\s+|\n", part)))


def faults(message: Message) -> Iterator[str]:
    """Yield what is wrong with a message, with the sentence."""
    for sentence in sentences(message.text):
        if any(part in sentence for part in RIGHT):
            continue
        if len(sentence.split()) > LONGEST:
            yield f"{len(sentence.split())} words: {sentence}"
        if sentence.count(";") > 1:
            yield f"two semicolons: {sentence}"
        if person := PEOPLE.search(sentence):
            yield f"{person[0]!r}: {sentence}"
        if INSTALL.search(sentence):
            yield f"installs by a name that is not published: {sentence}"


def main(arguments: list[str]) -> int:
    """Print the messages, or with --check the faults, and return the exit code."""
    folders = tuple(a for a in arguments if not a.startswith("-")) or PACKAGES
    found = [m for m in messages(folders) if m.kind != "text" or {"--all", "--check"} & set(arguments)]
    if "--check" not in arguments:
        for message in found:
            print(f"{message.file}:{message.line} {message.kind}: {message.text}")
        return 0
    wrong = [f"{message.file}:{message.line} {fault}" for message in found for fault in faults(message)]
    print(*wrong, sep="\n")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
