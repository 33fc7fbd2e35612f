"""Formulas as MathML, which browsers draw themselves: pages need neither a network nor a script for them."""

from __future__ import annotations

from typing import Any
from xml.etree import ElementTree

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.application import Sphinx
from sphinx.errors import ExtensionError

ENVIRONMENTS = {"aligned": "align*", "gathered": "matrix"}  # by the names that latex2mathml knows
SIGNS = {"\u29f5": "\u2216"}  # \setminus, by the sign that most fonts have


def mathml(formula: str, display: str) -> str:
    """Return a formula of LaTeX as MathML, with the LaTeX as its text for screen readers.

    What the converter does not know would stand on the page as it is; it is an error.
    """
    latex = formula
    for name, known in ENVIRONMENTS.items():
        latex = latex.replace(f"{{{name}}}", f"{{{known}}}")
    found = convert(latex, display=display).replace(' xmlns="http://www.w3.org/1998/Math/MathML"', "")
    if any(sign in found for sign in ("\\", "<mi>&</mi>", 'linebreak="newline"')):
        raise ExtensionError(f"expected LaTeX that latex2mathml knows, got {formula!r}: write it in other commands")
    math = ElementTree.fromstring(found)
    math.set("alttext", formula)
    for element in math.iter():
        element.text = SIGNS.get(element.text or "", element.text)
    for row in [*math.iter("mrow"), *math.iter("mtd"), *math.iter("mstyle")]:
        _space_functions(row)
    return ElementTree.tostring(math, encoding="unicode")


def _space_functions(row: ElementTree.Element) -> None:
    """Put a thin space between the name of a function and an argument without brackets, as in log Z."""
    children = list(row)
    for number in range(len(children) - 1, 0, -1):
        name, argument = children[number - 1], children[number]
        if name.tag == "mi" and len(name.text or "") > 1 and argument.tag not in ("mo", "mspace"):
            row.insert(number, ElementTree.Element("mspace", width="0.167em"))


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
