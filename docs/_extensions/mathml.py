"""Mathematics as MathML, which browsers set by themselves: no script, and no network."""

from __future__ import annotations

from html import escape
from typing import Any

from docutils import nodes
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.application import Sphinx


def converted(text: str, *, display: bool) -> str:
    """LaTeX as a ``<math>`` element; the text as it is where it cannot be converted, for pages show what is wrong."""
    try:
        return str(tex2mathml(text, as_block=display))
    except SyntaxError:
        return f"<code>{escape(text)}</code>"


def inline(writer: Any, node: nodes.math) -> None:
    """Write a formula inside a line as MathML."""
    writer.body.append(converted(node.astext(), display=False))
    raise nodes.SkipNode


def block(writer: Any, node: nodes.math_block) -> None:
    """Write a formula on lines of its own as MathML."""
    writer.body.append(f'<div class="math">{converted(node.astext(), display=True)}</div>')
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, Any]:
    """Register this extension with Sphinx."""
    app.add_html_math_renderer("mathml", inline_renderers=(inline, None), block_renderers=(block, None))
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
