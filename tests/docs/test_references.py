"""The words that the reference makes links of lead somewhere."""

from __future__ import annotations

import ast
from pathlib import Path

DOCS = Path(__file__).resolve().parents[2] / "docs"


def test_every_type_that_is_a_link_has_a_page():
    listed = {
        line.strip() for page in ("api.md", "api_developers.md") for line in (DOCS / page).read_text().split("\n")
    }
    tree = ast.parse((DOCS / "conf.py").read_text(encoding="utf-8"))
    [links] = [
        node.value
        for node in tree.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "numpydoc_xref_aliases"
    ]
    names = ast.literal_eval(links.generators[0].iter)
    assert "Control" in names
    assert set(names) <= listed
