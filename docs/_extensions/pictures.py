"""Adapt pictures to the light and the dark theme: an SVG becomes part of its page, and has the colours of the page.

The drawings are made for white paper. Their ink, their paper and the colours of `semiring.plot` become variables, which
``_static/site.css`` sets for both themes. Colours that represent numbers (viridis) do not change. Raster pictures get a
class whose paper stays white in the dark theme.
"""

from __future__ import annotations

import re
from html import escape
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform

#: Colours of the drawings, and the variables that replace them.
VARIABLES = {
    "#ffffff": "--picture-paper",
    "#000000": "--picture-ink",
    "#20262e": "--picture-ink",
    "#5f6873": "--picture-faint",
    "#66717f": "--picture-line",
    "#e4e4e4": "--picture-none",
    "#0072b2": "--picture-blue",
    "#d55e00": "--picture-orange",
    "#009e73": "--picture-green",
    "#00805d": "--picture-green",
}
_COLOR = re.compile(r"#[0-9a-fA-F]{6}\b")


def apply_theme(svg: str, label: str) -> str:
    """Return the ``<svg>`` element of a file for an HTML page, with variables in place of the colours of the theme."""
    element = svg[svg.index("<svg") :]
    element = re.sub(r"<metadata>.*?</metadata>", "", element, flags=re.S)
    element = re.sub(r"<!--.*?-->\n?", "", element, flags=re.S)
    head, rest = element.split(">", 1)
    size = re.search(r'viewBox="[^"]*"', head)
    assert size is not None, "matplotlib gives its drawings a viewBox"
    width = re.search(r'width="([\d.]+)pt"', head)
    limit = f' style="max-width: {float(width[1]) * 4 / 3:.0f}px"' if width else ""
    colored = _COLOR.sub(lambda match: _variable(match[0]), rest)
    return (
        f'<svg class="picture" role="img" aria-label="{escape(label)}" {size[0]}{limit} '
        f'xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink">{colored}'
    )


def _variable(color: str) -> str:
    name = VARIABLES.get(color.lower())
    return f"var({name})" if name else color


class ThemedPictures(SphinxTransform):
    """Replace images by SVG elements, before Sphinx collects the files to which pages refer."""

    default_priority = 100

    def apply(self, **_: Any) -> None:
        page = Path(self.env.doc2path(self.env.docname))
        for image in list(self.document.findall(nodes.image)):
            path = (page.parent / image["uri"]).resolve()
            if "://" in image["uri"]:
                raise ValueError(f"{page.name} shows {image['uri']}: pictures are files of the site")
            if path.suffix != ".svg":
                image["classes"].append("raster")
                continue
            self.env.note_dependency(str(path))
            drawn = apply_theme(path.read_text(encoding="utf-8"), image.get("alt", ""))
            image.replace_self(nodes.raw("", drawn, format="html"))


def setup(app: Sphinx) -> dict[str, Any]:
    """Register this extension with Sphinx."""
    app.add_transform(ThemedPictures)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
