"""Write mathematics as MathML, which browsers render without a script and without a network."""

from __future__ import annotations

from html import escape
from typing import Any

from docutils import nodes
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.application import Sphinx


def convert(text: str, *, display: bool) -> str:
    """Convert LaTeX to a ``<math>`` element, or to its text if it cannot be converted, so that the page shows it."""
    try:
        return str(tex2mathml(text, as_block=display))
    except SyntaxError:
        return f"<code>{escape(text)}</code>"


def inline(writer: Any, node: nodes.math) -> None:
    """Write a formula inside a line as MathML."""
    writer.body.append(convert(node.astext(), display=False))
    raise nodes.SkipNode


def block(writer: Any, node: nodes.math_block) -> None:
    """Write a formula on lines of its own as MathML."""
    writer.body.append(f'<div class="math">{convert(node.astext(), display=True)}</div>')
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, Any]:
    """Register this extension with Sphinx."""
    app.add_html_math_renderer("mathml", inline_renderers=(inline, None), block_renderers=(block, None))
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
