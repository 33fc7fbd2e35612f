"""Formulas as MathML, which browsers draw themselves: pages need neither a network nor a script for them."""

from __future__ import annotations

from html import escape
from typing import Any

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.application import Sphinx
from sphinx.errors import ExtensionError


def mathml(formula: str, display: str) -> str:
    """Return a formula of LaTeX as MathML, with the LaTeX as its text for screen readers.

    A command that the converter does not know would stand on the page as it is; it is an error.
    """
    found = convert(formula, display=display)
    found = found.replace("&#x029F5;", "&#x02216;")  # minus of sets, by the sign that most fonts have
    if "\\" in found:
        raise ExtensionError(f"expected LaTeX that latex2mathml knows, got {formula!r}: write it in other commands")
    return found.replace("<math ", f'<math alttext="{escape(formula, quote=True)}" ', 1)


def visit_inline(translator: Any, node: nodes.math) -> None:
    """Write a formula within a line."""
    translator.body.append(mathml(node.astext(), "inline"))
    raise nodes.SkipNode


def visit_block(translator: Any, node: nodes.math_block) -> None:
    """Write a formula that stands by itself."""
    translator.body.append(f'<div class="math">{mathml(node.astext(), "block")}</div>')
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the renderer, for ``html_math_renderer = "mathml"``."""
    app.add_html_math_renderer("mathml", (visit_inline, None), (visit_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
