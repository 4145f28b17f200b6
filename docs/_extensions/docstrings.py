"""Correct docstrings that the grammar of numpydoc would read differently than they are meant."""

from __future__ import annotations

import re
from typing import Any

from sphinx.application import Sphinx

_BEFORE_NAPOLEON, _AFTER_NAPOLEON = 400, 600
_QUALIFIED = re.compile(r"~[\w.]+\.(\w+)")


def end_sections(_app: Sphinx, _kind: str, _name: str, _obj: Any, _options: Any, lines: list[str]) -> None:
    """End each section by two blank lines, so that prose after the parameters is no further parameter.

    In this library a section ends at the first blank line that no indented line follows.
    """
    inside, result = False, []
    for number, line in enumerate(lines):
        following = lines[number + 1] if number + 1 < len(lines) else ""
        if following.startswith("---"):
            inside = True
        result.append(line)
        if inside and not line.strip() and following.strip() and not following.startswith(" "):
            result.append("")
            inside = False
    lines[:] = result


class Sentences:
    """The docstrings of properties, in which a colon does not separate a type from a description."""

    def __init__(self) -> None:
        self.saved_lines: dict[str, list[str]] = {}

    def save(self, _app: Sphinx, kind: str, name: str, _obj: Any, _options: Any, lines: list[str]) -> None:
        if kind in ("property", "attribute", "data"):
            self.saved_lines[name] = list(lines)

    def restore(self, _app: Sphinx, _kind: str, name: str, _obj: Any, _options: Any, lines: list[str]) -> None:
        lines[:] = self.saved_lines.pop(name, lines)


def shorten(
    _app: Sphinx, _kind: str, _name: str, _obj: Any, _options: Any, signature: str | None, return_annotation: str | None
) -> tuple[str | None, str | None]:
    """Return a signature that parses, so that each parameter has a line; the default of a factory is an ellipsis."""
    if signature is not None:
        signature = _QUALIFIED.sub(r"\1", signature.replace("<factory>", "..."))
    return signature, return_annotation


def setup(app: Sphinx) -> dict[str, Any]:
    """Register this extension with Sphinx."""
    sentences = Sentences()
    app.connect("autodoc-process-docstring", end_sections, priority=_BEFORE_NAPOLEON)
    app.connect("autodoc-process-docstring", sentences.save, priority=_BEFORE_NAPOLEON)
    app.connect("autodoc-process-docstring", sentences.restore, priority=_AFTER_NAPOLEON)
    app.connect("autodoc-process-signature", shorten)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
