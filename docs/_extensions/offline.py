"""Warn of pages and style sheets that would fetch a resource from another server: the site needs no network."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx
from sphinx.util import logging

_FETCHES = re.compile(
    r"<(?:script|img|iframe|source)\b[^>]*\bsrc=[\"'](?:https?:)?//[^\"']+"
    r"|<link\b(?=[^>]*\brel=[\"'](?:stylesheet|preload|icon))[^>]*\bhref=[\"'](?:https?:)?//[^\"']+"
    r"|(?:@import\s+|url\()[\"']?(?:https?:)?//[^\"')]+",
)


def find_fetches(text: str) -> list[str]:
    """Return the parts of a page or style sheet that make a browser fetch a resource from another server."""
    return [found[0] for found in _FETCHES.finditer(text)]


def warn_of_fetches(app: Sphinx, failure: Exception | None) -> None:
    """Warn of each resource of the site that a browser would fetch from another server."""
    if failure is not None or app.builder.format != "html":
        return
    for path in sorted(Path(app.outdir).rglob("*")):
        if path.suffix in (".html", ".css"):
            for found in find_fetches(path.read_text(encoding="utf-8")):
                logging.getLogger(__name__).warning("%s fetches %s", path.name, found)


def setup(app: Sphinx) -> dict[str, Any]:
    """Register this extension with Sphinx."""
    app.connect("build-finished", warn_of_fetches)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
