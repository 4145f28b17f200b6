"""The contents of a page at its top, for screens that have no room for the outline beside it.

The style sheet shows them below the width at which the outline of the theme stands on the right.
"""

from __future__ import annotations

import re
from typing import Any

from sphinx.application import Sphinx

_FEWEST = 2  # sections; a page with fewer needs no contents
_LONG = 20  # lines from which on the contents are folded


def contents(toc: str) -> str | None:
    """Return the list of sections, without the title of the page, as a block that folds; None for few sections."""
    inner = re.search(r"</a>\s*(<ul>.*</ul>)\s*</li>\s*</ul>", toc, re.S)
    if inner is None:
        return None
    count = inner[1].count("<a ")
    if count < _FEWEST:
        return None
    state = "" if count > _LONG else " open"
    return f'<details class="page-contents"{state}><summary>On this page</summary>{inner[1]}</details>'


def insert(_app: Sphinx, _page: str, _template: str, context: dict[str, Any], _doctree: Any) -> None:
    """Put the contents behind the title of the page."""
    if context.get("toc") and context.get("body") and (block := contents(context["toc"])):
        context["body"] = context["body"].replace("</h1>", f"</h1>\n{block}", 1)


def setup(app: Sphinx) -> dict[str, Any]:
    """Register this extension with Sphinx."""
    app.connect("html-page-context", insert)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
