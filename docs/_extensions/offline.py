"""A site that needs no network: a page or style sheet that would fetch something from elsewhere is a warning."""

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


def fetched(text: str) -> list[str]:
    """The parts of a page or style sheet that make a browser ask another server."""
    return [found[0] for found in _FETCHES.finditer(text)]


def look(app: Sphinx, failure: Exception | None) -> None:
    """Warn of each file of the site that a page would fetch from elsewhere."""
    if failure is not None or app.builder.format != "html":
        return
    for path in sorted(Path(app.outdir).rglob("*")):
        if path.suffix in (".html", ".css"):
            for found in fetched(path.read_text(encoding="utf-8")):
                logging.getLogger(__name__).warning("%s fetches %s", path.name, found)


def setup(app: Sphinx) -> dict[str, Any]:
    """Register this extension with Sphinx."""
    app.connect("build-finished", look)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
