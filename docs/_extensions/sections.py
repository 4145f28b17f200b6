"""Docstrings whose sections of parameters are followed by prose: numpydoc would take the prose for more parameters."""

from __future__ import annotations

from typing import Any

from sphinx.application import Sphinx

_BEFORE_NAPOLEON = 400


def end_sections(_app: Sphinx, _what: str, _name: str, _obj: Any, _options: Any, lines: list[str]) -> None:
    """Two blank lines where a section ends: in this library the first blank line that no indented line follows."""
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


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("autodoc-process-docstring", end_sections, priority=_BEFORE_NAPOLEON)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
