"""Add the contents of a page at its top, for screens that have no room for the outline beside the page.

The style sheet shows the contents below the width at which the theme shows its outline on the right.
"""

from __future__ import annotations

import re
from typing import Any

from sphinx.application import Sphinx

_FEWEST = 2  # the number of sections below which a page needs no contents
_LONG = 20  # the number of lines above which the contents are folded


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
    """Insert the contents after the title of the page."""
    if context.get("toc") and context.get("body") and (block := contents(context["toc"])):
        context["body"] = context["body"].replace("</h1>", f"</h1>\n{block}", 1)


def setup(app: Sphinx) -> dict[str, Any]:
    """Register this extension with Sphinx."""
    app.connect("html-page-context", insert)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
