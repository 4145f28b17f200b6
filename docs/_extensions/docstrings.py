"""Docstrings as they are meant, where numpydoc's grammar would read them differently."""

from __future__ import annotations

import re
from typing import Any

from sphinx.application import Sphinx

_BEFORE_NAPOLEON, _AFTER_NAPOLEON = 400, 600
_QUALIFIED = re.compile(r"~[\w.]+\.(\w+)")


def end_sections(_app: Sphinx, _what: str, _name: str, _obj: Any, _options: Any, lines: list[str]) -> None:
    """Prose after the parameters is no further parameter: two blank lines end a section.

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
    """The docstring of a property is prose: a colon in it does not part a type from a description."""

    def __init__(self) -> None:
        self.kept: dict[str, list[str]] = {}

    def keep(self, _app: Sphinx, what: str, name: str, _obj: Any, _options: Any, lines: list[str]) -> None:
        if what in ("property", "attribute", "data"):
            self.kept[name] = list(lines)

    def restore(self, _app: Sphinx, _what: str, name: str, _obj: Any, _options: Any, lines: list[str]) -> None:
        lines[:] = self.kept.pop(name, lines)


def shorten(
    _app: Sphinx, _what: str, _name: str, _obj: Any, _options: Any, signature: str | None, returned: str | None
) -> tuple[str | None, str | None]:
    """A signature that parses, so that it is shown a parameter a line: a default made by a factory is an ellipsis."""
    if signature is not None:
        signature = _QUALIFIED.sub(r"\1", signature.replace("<factory>", "..."))
    return signature, returned


def setup(app: Sphinx) -> dict[str, Any]:
    """Register this extension with Sphinx."""
    sentences = Sentences()
    app.connect("autodoc-process-docstring", end_sections, priority=_BEFORE_NAPOLEON)
    app.connect("autodoc-process-docstring", sentences.keep, priority=_BEFORE_NAPOLEON)
    app.connect("autodoc-process-docstring", sentences.restore, priority=_AFTER_NAPOLEON)
    app.connect("autodoc-process-signature", shorten)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
