"""Tables on a narrow screen: cells of prose are marked, so that the style sheet keeps them wide enough to be read."""

from __future__ import annotations

from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform

_PROSE = 16  # letters from which on a cell is prose, and not a number, a mark or a name


class MarkProse(SphinxTransform):
    default_priority = 100

    def apply(self, **_: Any) -> None:
        for cell in self.document.findall(nodes.entry):
            if len(cell.astext()) >= _PROSE:
                cell["classes"].append("prose")


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_transform(MarkProse)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
