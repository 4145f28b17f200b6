"""Pictures that follow the theme: an SVG becomes part of its page, its colours those of the page, light or dark.

The drawings are made for white paper. Their ink, their paper and the colours of `semiring.plot` turn into variables
that ``_static/site.css`` sets for both themes; colours that carry numbers (viridis) stay. Raster pictures get a class
whose paper stays white in the dark.
"""

from __future__ import annotations

import re
from html import escape
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform

#: Colours of the drawings, and the variables that take their place.
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
}
_COLOR = re.compile(r"#[0-9a-fA-F]{6}\b")


def themed(svg: str, label: str) -> str:
    """The ``<svg>`` element of a file, for the inside of an HTML page."""
    element = svg[svg.index("<svg") :]
    element = re.sub(r"<metadata>.*?</metadata>", "", element, flags=re.S)
    element = re.sub(r"<!--.*?-->\n?", "", element, flags=re.S)
    head, rest = element.split(">", 1)
    size = re.search(r'viewBox="[^"]*"', head)
    assert size is not None, "matplotlib gives its drawings a viewBox"
    width = re.search(r'width="([\d.]+)pt"', head)
    limit = f' style="max-width: {float(width[1]) * 4 / 3:.0f}px"' if width else ""
    colored = _COLOR.sub(lambda found: _variable(found[0]), rest)
    return (
        f'<svg class="picture" role="img" aria-label="{escape(label)}" {size[0]}{limit} '
        f'xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink">{colored}'
    )


def _variable(color: str) -> str:
    name = VARIABLES.get(color.lower())
    return f"var({name})" if name else color


class ThemedPictures(SphinxTransform):
    """Replaces images: runs before Sphinx collects the files that pages refer to."""

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
            drawn = themed(path.read_text(encoding="utf-8"), image.get("alt", ""))
            image.replace_self(nodes.raw("", drawn, format="html"))


def setup(app: Sphinx) -> dict[str, Any]:
    """Register this extension with Sphinx."""
    app.add_transform(ThemedPictures)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
