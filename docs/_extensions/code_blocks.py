"""Code as it is shown: without the blank line that ends an example in the source, which the tests want."""

from __future__ import annotations

from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform


class WithoutTrailingBlankLines(SphinxTransform):
    default_priority = 100

    def apply(self, **_: Any) -> None:
        for block in self.document.findall(nodes.literal_block):
            text = block.astext()
            if text != text.rstrip():
                block.rawsource = text.rstrip()
                block.children = [nodes.Text(text.rstrip())]


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_transform(WithoutTrailingBlankLines)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
